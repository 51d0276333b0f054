#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# PostgreSQL on a union of an ext4, an XFS and a tmpfs branch, its files spread
# over all three: killed under load, it starts again with every transaction that
# a client was told of, with balances that agree, and with whole pages and
# indexes. And that all this is seen when it is not so.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_kill_lib.sh"
. "$TOP/tests/union_lib.sh"
need pgrep setpriv unshare
for PG in /usr/lib/postgresql/*/bin; do :; done # the newest there is
[ -x "$PG/initdb" ] || skip_all "needs postgresql"
DATA=$M/data
# PostgreSQL refuses to be root. It writes besides its data: its socket, its log.
OWN=$D/own
install -d -o nobody -g nogroup "$OWN"
export LC_ALL=C HOME=$OWN PGHOST=$OWN PGUSER=nobody PGDATABASE=postgres PGCONNECT_TIMEOUT=30
PATH=$PG:$PATH

say_more() { tail -n 20 "$OWN"/log "$D/log" 2>/dev/null; }

# In an IPC namespace of its own: what a killed one leaves ends with it.
as_nobody() { (cd "$OWN" && unshare --ipc setpriv --reuid nobody --regid nogroup --clear-groups "$@"); }
sql() { as_nobody psql -X -A -t -q -v ON_ERROR_STOP=1 "$@"; }

union() { # OPTIONS
	trib-union -o "log=$D/log,$1${OPTIONS:+,$OPTIONS}" "$D/a:$D/b:$D/c" "$M"
	at_exit union_end "$M"
}

# A cluster with checksums, on a union that puts each file somewhere. It makes
# checkpoints all the time, so that WAL is removed and used again.
cluster() {
	loop_fs a 320M mkfs.ext4 -q -m 0
	loop_fs b 320M mkfs.xfs -q
	mkdir -p "$D/c" "$M"
	mount -t tmpfs -o size=320M none "$D/c"
	at_exit umount -l "$D/c"
	union policy=rand
	install -d -m 700 -o nobody -g nogroup "$DATA"
	as_nobody initdb -D "$DATA" --data-checksums --no-sync -A trust --locale=C \
		--wal-segsize=4 >"$D/initdb.log" 2>&1 || { cat "$D/initdb.log"; fail "initdb"; }
	cat >>"$DATA/postgresql.conf" <<-END
		listen_addresses = ''
		unix_socket_directories = '$OWN'
		shared_buffers = 16MB
		dynamic_shared_memory_type = mmap
		min_wal_size = 8MB
		max_wal_size = 16MB
	END
	start
}

start() {
	as_nobody pg_ctl -D "$DATA" -w -t 60 -l "$OWN/log" start >/dev/null 2>&1 ||
		fail "it does not start"
	at_exit kill -QUIT "$(postmaster)"
}
# A postmaster takes its pid file away a moment before it is gone.
stop() { as_nobody pg_ctl -D "$DATA" -w -t 60 -m fast stop >/dev/null; }
postmaster() { head -n 1 "$DATA/postmaster.pid"; }

# SIGKILL for it and all that it started. It goes first, else it would start
# others in their place. Stopped, it starts none meanwhile; its "children" of proc(5)
# leaves some out when others end.
kill_all() {
	local pid pids=()
	pid=$(postmaster)
	kill -STOP "$pid"
	mapfile -t pids < <(pgrep -P "$pid")
	[ ${#pids[@]} -ge 5 ] || fail "${#pids[@]} processes"
	kill -9 "$pid"
	kill -9 "${pids[@]}" 2>/dev/null || true # some ended by themselves
	for pid in "$pid" "${pids[@]}"; do eventually 30 gone "$pid"; done
}

tables() {
	as_nobody pgbench -i -q -s 2 >/dev/null 2>&1
	sql -c "CREATE EXTENSION amcheck; CREATE TABLE told(id int PRIMARY KEY, sum text)"
	rm -f "$OWN"/bench.*
	: >"$OWN/told"
}

# A client that notes each number once it was told that it is there for good;
# until the server is gone.
note_numbers() { # FROM
	local i
	for ((i = $1; i < $1 + 50000; i++)); do
		echo "BEGIN; INSERT INTO told VALUES($i, md5('$i')); COMMIT;"
		echo "\\echo $i"
	done | sql >>"$OWN/told" 2>/dev/null
}
numbers_are() { [ "$(sql -c 'SELECT count(*) FROM told')" -ge "$1" ]; }

# Clients of three kinds, until there are WANTED numbers, and COMMAND is true; then
# it is killed. What pgbench was told of is in its log, a line for each transaction.
killed_under_load() { # WANTED [COMMAND...]
	local pids=() pid
	# The writers end when their server is gone.
	as_nobody pgbench -n -c 3 -T 600 -l --log-prefix="$OWN/bench" >/dev/null 2>&1 || true &
	pids+=($!)
	note_numbers $(($1 * 100000)) || true &
	pids+=($!)
	note_numbers $(($1 * 100000 + 50000)) || true &
	pids+=($!)
	eventually 120 numbers_are "$1"
	[ $# = 1 ] || eventually 120 "${@:2}"
	kill_all
	for pid in "${pids[@]}"; do wait "$pid"; done
}

# Says what is wrong, if anything is.
wrong() {
	sql <<-END
		SELECT 'the balances are ' || concat_ws(' ', a, t, b, h) FROM
			(SELECT sum(abalance) a FROM pgbench_accounts) a,
			(SELECT sum(tbalance) t FROM pgbench_tellers) t,
			(SELECT sum(bbalance) b FROM pgbench_branches) b,
			(SELECT coalesce(sum(delta), 0) h FROM pgbench_history) h
			WHERE NOT (a = t AND t = b AND b = h);
		SELECT 'rows: ' || n FROM (SELECT count(*) n FROM pgbench_accounts) c WHERE n != 200000;
		CREATE TEMP TABLE noted(id int);
		\copy noted from '$OWN/told'
		SELECT 'lacks ' || count(*) || ' from ' || min(id) FROM noted n
			WHERE NOT EXISTS (SELECT FROM told t WHERE t.id = n.id) HAVING count(*) > 0;
		SELECT 'is not as it was: ' || id FROM told WHERE sum != md5(id::text);
		SELECT 'lacks some of ' || $(cat "$OWN"/bench.* 2>/dev/null | wc -l) || ': ' || n
			FROM (SELECT count(*) n FROM pgbench_history) h
			WHERE n < $(cat "$OWN"/bench.* 2>/dev/null | wc -l);
	END
}
check() {
	same "$(wrong)" ""
	as_nobody pg_amcheck --heapallindexed --no-dependent-toast -t 'public.*' postgres
}
check_pages() { as_nobody pg_checksums --check -D "$DATA" >"$D/pages" 2>&1; }

test_postgresql_that_is_killed_has_all_that_it_promised() {
	cluster
	tables
	killed_under_load 1500
	start
	[ "$(wc -l <"$OWN/told")" -ge 1400 ] || fail "few were noted: $(wc -l <"$OWN/told")"
	grep -q "database system was not properly shut down" "$OWN/log"
	check
	# Again, where its data passes through the server.
	stop
	check_pages
	unmount "$M"
	union policy=rand,passthrough=off
	start
	check
	killed_under_load 2500
	start
	check
	stop
	check_pages
	unmount "$M"
	union policy=rand
	check_pages
	start
	check
	stop
	local name
	for name in a b c; do
		[ -n "$(find "$D/$name/data/base" "$D/$name/data/pg_wal" -type f -size +0 -print -quit)" ] ||
			fail "branch $name was not used"
	done
	unmount "$M"
}

# The union's server is killed, too, again and again.
test_postgresql_while_servers_are_killed() {
	sent_again
	: >"$D/log"
	OPTIONS=survive=yes cluster
	kill_servers "$M"
	tables
	killed_under_load 1500 servers_are_killed "$D/log" "${KILLS:-20}"
	start
	check
	stop
	check_pages
	unmount "$M"
	kill_no_more
}

# The checks above find a loss where there is one.
test_what_postgresql_lost_would_be_found() {
	cluster
	tables
	sql -c CHECKPOINT
	note_numbers 1 || true &
	local noting=$! base
	eventually 60 numbers_are 100
	kill_all
	wait $noting
	rm "$DATA/postmaster.pid"
	# Without its WAL it lacks what came after the checkpoint.
	as_nobody pg_resetwal -f -D "$DATA" >/dev/null
	start
	case $(wrong) in
	"lacks "*) ;;
	*) fail "nothing is found lacking: $(wrong)" ;;
	esac
	: >"$OWN/told"
	check
	sql -c "UPDATE pgbench_tellers SET tbalance = tbalance + 1 WHERE tid = 1"
	same "$(wrong)" "the balances are 0 1 0 0"
	sql -c "UPDATE pgbench_tellers SET tbalance = 0; DELETE FROM pgbench_accounts WHERE aid = 77"
	same "$(wrong)" "rows: 199999"
	base=$(sql -c "SELECT pg_relation_filepath('pgbench_accounts')")
	stop
	check_pages
	printf x | dd of="$DATA/$base" bs=1 seek=$((8192 * 3 + 5000)) conv=notrunc status=none
	fails any "" check_pages
	grep -q "checksum verification failed" "$D/pages"
	unmount "$M"
}

run_tests "$@"
