#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that people use, on a union of two ext4 and an XFS branch whose
# policy spreads what they make: Git, make and a compiler, SQLite, rsync, tar;
# also while its server is killed again and again.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_kill_lib.sh"
. "$TOP/tests/union_lib.sh"
# The same is done while servers are killed.
long_tests=test_git_and_a_compiler
need git make gcc sqlite3 rsync tar setfacl setfattr pgrep

branches() {
	mkdir -p "$M"
	loop_fs a 400M mkfs.ext4 -q -F -m 0
	loop_fs b 400M mkfs.ext4 -q -F -m 0
	loop_fs c 400M mkfs.xfs -q
	rmdir "$D/a/lost+found" "$D/b/lost+found"
}

union() { # what is made goes to one branch after the other, by free space
	trib-union -o "${OPTIONS:+$OPTIONS,}policy=mfs,log=$D/log" "$D/a:$D/b:$D/c" "$M"
	at_exit union_end "$M"
}

# Is everything of the union on more than one branch?
is_spread() {
	local name
	for name in a b c; do
		[ -z "$(find "$D/$name" -type f -print -quit)" ] || echo $name
	done | wc -l
}

# A tree with what archives must keep.
odd_tree() {
	rm -rf "$1" "$D/back"
	mkdir -p "$1/d/e"
	seq 20000 >"$1/d/numbers"
	ln "$1/d/numbers" "$1/d/e/linked"
	ln -s ../numbers "$1/d/e/link"
	mkfifo -m 600 "$1/d/fifo"
	mknod "$1/d/null" c 1 3
	truncate -s 5M "$1/sparse"
	echo end >>"$1/sparse"
	install -m 4755 -o 1234 -g 4321 /bin/true "$1/d/setuid"
	setfattr -n user.colour -v blue "$1/d/numbers"
	setfattr -n trusted.mark -v 1 "$1/d/e"
	setfacl -m u:77:rw "$1/d/numbers"
	setfacl -d -m g:88:rx "$1/d/e"
	find "$1" -depth -exec touch -h -d '2001-02-03 04:05:06.789' {} +
}

# All that archives keep of a tree, as text.
described() {
	(cd "$1" && find . -mindepth 1 -printf '%P %y %m %U:%G %n %T@ %l\n' | sort &&
		find . -type f -print0 | sort -z | xargs -0 sha256sum &&
		find . ! -type l -print0 | sort -z | xargs -0 getfacl -pn &&
		find . -print0 | sort -z | xargs -0 getfattr -dh -m '^(user|trusted)')
}
alike() {
	described "$1" >"$D/one.txt" 2>&1
	described "$2" >"$D/two.txt" 2>&1
	diff "$D/one.txt" "$D/two.txt"
}

test_git_and_a_compiler() {
	branches
	union
	git -c safe.directory='*' clone -q --no-hardlinks "$TOP" "$M/tree"
	cd "$M/tree"
	git fsck --strict --no-progress >/dev/null
	make -s CFLAGS='-O0 -w' build/lib/libbase.a build/bin/trib-union >"$D/build.log" 2>&1 || { tail "$D/build.log"; fail "the build"; }
	build/bin/trib-union --version >/dev/null
	same "$(git status --porcelain)" "" "building changes no file of Git's"
	# Every file is written, renamed and removed again.
	git checkout -q -b other
	git rm -q -r union
	git -c user.name=x -c user.email=x@x commit -q -m "without"
	git checkout -q -
	git gc -q --prune=now
	git fsck --strict --no-progress >/dev/null
	same "$(git status --porcelain)" ""
	[ "$(is_spread)" -ge 2 ]
	cd /
	unmount "$M"
	union
	same "$(git -c safe.directory='*' -C "$M/tree" status --porcelain)" ""
}

EXEC= # (EXEC=exec; sql ...) &: $! is sqlite, not a shell around it
sql() { $EXEC sqlite3 -cmd ".timeout 60000" "$M/base" "$@"; }

insert_rows() { # FROM TO
	local i
	for ((i = $1; i < $2; i++)); do
		echo "INSERT INTO t VALUES($i, hex(randomblob(100)));"
	done | sql
}

test_sqlite_with_two_writers_and_one_that_is_killed() {
	branches
	union
	local mode n one two
	for mode in wal delete truncate; do
		rm -f "$M"/base*
		sql "PRAGMA journal_mode=$mode; CREATE TABLE t(i INTEGER PRIMARY KEY, x);" >/dev/null
		insert_rows 0 60 &
		one=$!
		insert_rows 1000 1060 &
		two=$!
		wait $one $two
		same "$(sql 'SELECT count(*) FROM t')" 120 "$mode"
		(EXEC=exec; sql "BEGIN; WITH RECURSIVE n(i) AS (SELECT 2000 UNION ALL SELECT i+1 FROM n LIMIT 300000)
			INSERT INTO t SELECT i, hex(randomblob(200)) FROM n; COMMIT;") &
		one=$!
		sleep 0.5
		kill -9 $one 2>/dev/null || true
		wait $one || true
		n=$(sql 'SELECT count(*) FROM t')
		[ "$n" = 120 ] || [ "$n" = 300120 ] || fail "$mode: $n rows: a part of a transaction"
		same "$(sql 'PRAGMA integrity_check')" ok "$mode"
	done
}

rsync_to_it_and_back() {
	odd_tree "$D/from"
	rsync -aHAXS "$D/from/" "$M/to/"
	alike "$D/from" "$M/to"
	# Again there is nothing to do; with a change, just that.
	same "$(rsync -aHAXSi "$D/from/" "$M/to/")" ""
	echo more >>"$D/from/d/numbers"
	rm "$D/from/sparse"
	touch -d 2002-03-04 "$D/from/d/numbers" "$D/from"
	rsync -aHAXS --delete "$D/from/" "$M/to/"
	alike "$D/from" "$M/to"
	rsync -aHAXS "$M/to/" "$D/back/"
	alike "$D/from" "$D/back"
	same "$(rsync -aHAXSnic "$M/to/" "$D/back/")" ""
}
test_rsync_to_it_and_back() {
	branches
	union
	rsync_to_it_and_back
}

test_tar_of_it_and_into_it() {
	branches
	union
	odd_tree "$D/from"
	tar -C "$D/from" --xattrs --xattrs-include='*' --acls -S -cf "$D/one.tar" .
	mkdir "$M/to" "$D/back"
	tar -C "$M/to" --xattrs --xattrs-include='*' --acls -xpf "$D/one.tar"
	alike "$D/from" "$M/to"
	tar -C "$M/to" --xattrs --xattrs-include='*' --acls -S -cf "$M/two.tar" .
	tar -C "$D/back" --xattrs --xattrs-include='*' --acls -xpf "$M/two.tar"
	alike "$D/from" "$D/back"
}

# Again, if need be: on a fast machine it may be done before so many were killed.
while_killed() { # TEST
	local n=0
	sent_again
	: >"$D/log"
	kill_servers "$M"
	while [ "$n" -lt "${KILLS:-3}" ]; do
		OPTIONS=survive=yes one_round "$1"
		n=$(killed_servers "$D/log")
	done
	kill_no_more
	echo "# $n servers killed"
}
test_git_and_a_compiler_while_servers_are_killed() { while_killed test_git_and_a_compiler; }
test_sqlite_while_servers_are_killed() { while_killed test_sqlite_with_two_writers_and_one_that_is_killed; }
# What goes wrong goes so in one of thousands: many rounds on one union, with the
# kernel's memory of it dropped, so that what is compared is asked for.
if [ -n "${LONG:-}" ]; then
	test_rsync_while_servers_are_killed() {
		local rounds=0
		sent_again
		branches
		: >"$D/log"
		OPTIONS=survive=yes,cache_timeout=0 union
		kill_servers "$M"
		until servers_are_killed "$D/log" "${KILLS:-3}"; do
			rm -rf "$M/to"
			rsync_to_it_and_back
			rounds=$((rounds + 1))
		done
		kill_no_more
		echo "# $(killed_servers "$D/log") servers killed in $rounds rounds"
	}
fi
test_tar_while_servers_are_killed() { while_killed test_tar_of_it_and_into_it; }

run_tests "$@"
