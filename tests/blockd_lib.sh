# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A blockd of a test's own, called over its control API; after tests/lib.sh.

MIB=1048576

# Each test has a place of its own.
place() {
	D=$TEST_DIR/$1
	mkdir -p "$D/a"
	: >"$D/conf"
	PID='' STARTS=0
	at_exit stop_blockd KILL
}

# After a failure: what blockd said in this place.
say_more() {
	local log
	for log in "${D:-/nowhere}"/log.*; do
		[ -s "$log" ] || continue
		echo "--- ${log##*/}"
		tail -n 12 "$log" | command cut -c -400
	done
}

# The command line of blockd in this place.
blockd_argv() {
	argv=("$BUILD/bin/blockd" --config "$D/conf" --node-name n1
		--state-dir "$D/state" --run-dir "$D/run"
		--control "unix:$D/run/control" --listen "unix:$D/run/nbd"
		--floor 1MiB "$@")
}

start_blockd() {
	local argv
	blockd_argv --pool "a=$D/a" --pool-capacity 256MiB "$@"
	STARTS=$((STARTS + 1))
	"${argv[@]}" >"$D/log.$STARTS" 2>&1 &
	PID=$!
	eventually 30 ready_or_dead
	kill -0 "$PID" || fail "did not start: $(cat "$D/log.$STARTS")"
}
ready_or_dead() {
	! kill -0 "$PID" 2>/dev/null || grep -q 'is ready' "$D/log.$STARTS"
}

# stop_blockd SIGNAL: its exit status is in RC
stop_blockd() {
	[ -n "$PID" ] || return 0
	kill -"${1:-TERM}" "$PID" 2>/dev/null || true
	RC=0
	wait "$PID" 2>/dev/null || RC=$?
	PID=
}

call() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$D/run/control" "$@"; }

# field PATH: of the JSON on standard input; "extents.0.size"
field() {
	/usr/bin/python3 -c '
import json, sys
v = json.load(sys.stdin)
for k in sys.argv[1].split("."):
    v = len(v) if k == "#" else v[int(k)] if k.isdigit() else v[k]
print(v)' "$1"
}
extent_field() { call GetExtent name="$1" | field "$2"; }
uri() { echo "nbd+unix:///$1?socket=$D/run/nbd"; }
io() {
	local name=$1 out
	shift
	out=$(qemu-io -f raw "$(uri "$name")" "$@" 2>&1) || fail "$out"
	case $out in *failed* | *error*) fail "$out" ;; esac
}

need_loop() { losetup -f >/dev/null 2>&1 || skip "no loop devices"; }

# Start blockd and have it killed before the Nth SYSCALLS of the next call
# (strace counts each system call of each thread by itself).
start_doomed() {
	start_blockd
	strace -f -qq -o "$D/strace" -p "$PID" -e "trace=$1" -e signal=none \
		-e "inject=$1:signal=KILL:when=$2" 2>"$D/strace.err" &
	STRACE=$!
	at_exit kill -9 "$STRACE"
	eventually 60 traced "$PID"
}

# promised NAME: what a pool reserves for it
promised() {
	sed -n 's/^reserved=//p' "$D/a/extents/$1.extent" | grep . ||
		extent_field "$1" size
}

# What the pool holds is what its files say, and nothing else is there.
check_pool() {
	local name sum=0 count=0
	while read -r name; do
		same "$(extent_field "$name" state)" ok
		same "$(stat -c %s "$D/a/extents/$name.data")" "$(extent_field "$name" size)"
		sum=$((sum + $(promised "$name")))
		count=$((count + 1))
	done < <(call ListExtents | /usr/bin/python3 -c '
import json, sys
for e in json.load(sys.stdin)["extents"]: print(e["name"])')
	same "$(find "$D/a/extents" -mindepth 1 | wc -l)" $((2 * count)) \
		"extents: $count; $(ls -A "$D/a/extents"); $(cat "$D"/log.*)"
	same "$(call ListPools | field pools.0.reserved)" "$sum"
}

# One call, given up as soon as blockd is dead: a client that stays would
# carry it out after the restart.
doomed_call() {
	local client
	"$BUILD/test/blockd/testkit/blockd_call" "unix:$D/run/control" "$@" >/dev/null 2>&1 &
	client=$!
	while kill -0 "$client" 2>/dev/null; do
		kill -0 "$PID" 2>/dev/null || kill -9 "$client" 2>/dev/null || true
		sleep 0.02
	done
	wait "$client" 2>/dev/null
}

# Which calls change what is there; tests that need not see all take fewer.
KILL_AT='ftruncate fsync rename,renameat,renameat2 unlink,unlinkat'

# killed_at_each_step STEPS CALL...: kill before each change that the call makes,
# restart, check, repeat the call, check. Functions around it: arguments (how
# often it was done) of the call, intact (after the kill), finished, again.
killed_at_each_step() {
	local want=$1 seen=0 round=0 n rc syscalls argv
	shift
	for syscalls in $KILL_AT; do
		for ((n = 1, rc = 1; rc != 0; n++)); do
			round=$((round + 1))
			mapfile -t argv < <(arguments $round)
			start_doomed $syscalls $n
			rc=0
			doomed_call "$@" "${argv[@]}" || rc=$?
			[ $rc = 0 ] || seen=$((seen + 1))
			stop_blockd KILL
			wait "$STRACE" 2>/dev/null || true
			start_blockd
			check_pool
			intact $round
			call "$@" "${argv[@]}" >/dev/null
			check_pool
			again
			stop_blockd TERM
		done
	done
	echo "# $1: killed at $seen steps"
	same "$seen" "$want" "steps of $1"
}
arguments() { :; }
intact() { :; }
again() { :; }
