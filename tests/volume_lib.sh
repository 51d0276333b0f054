# SPDX-License-Identifier: Apache-2.0
# For tests of volumes on three hosts: `. tests/volume_lib.sh` after lib.sh.
# The cluster is up when it returns; each host has a pool of $POOL.
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup mkfs.ext4 mkfs.xfs strace sqlite3

# What a lost server is waited for: long enough for one that is restarted.
export TRIB_TEST_DEAD_TIMEOUT_MS=${TRIB_TEST_DEAD_TIMEOUT_MS:-30000}
# What one call to a node may take: a busy disk holds up an answer for long.
export TRIB_TEST_CALL_TIMEOUT_MS=60000
POOL=${POOL:-640MiB}
C=$TEST_DIR/c
at_exit cluster_stop
cluster_start "$C" 3 $POOL || { cluster_stop; exit 1; }

# v HOST COMMAND KEY=VALUE...: a flow, called as that host
v() {
	local argv said=$TEST_DIR/.said.$BASHPID rc=0
	_volume_argv "$1"
	"${argv[@]}" "${@:2}" 2>"$said" || rc=$?
	cat "$said" >&2
	[ $rc = 0 ] || echo "$(date +%T) exit $rc: v $*: $(tail -n 3 "$said")" >>"$TEST_DIR/.failed"
	rm "$said"
	return $rc
}
_volume_argv() {
	argv=(nsenter "--net=/run/netns/$CLUSTER_NET$1"
		"$BUILD/test/volume/testkit/volume_call_main" "local:$C/records.db"
		"host$1" "$C/host$1/run" "${UNION_DIR:-$BUILD/bin}")
}
attach() { v "$1" attach "name=$2" "path=$(mnt "$1" "$2")" "${@:3}"; }
# node_silent HOST, node_back HOST: its blockd is killed, and started again. A call
# made meanwhile waits 4 s for it, not 60: none of these tests restarts it sooner.
node_silent() {
	export TRIB_TEST_CALL_TIMEOUT_MS=4000
	blockd_signal "$1" KILL
}
node_back() {
	export TRIB_TEST_CALL_TIMEOUT_MS=60000
	blockd_start "$1"
}
status() { v "${2:-1}" status "name=$1" 2>/dev/null; }

# After a failure: which calls did not succeed, also where that was wanted,
# what the daemons said, and what there is.
say_more() {
	echo "--- calls, at $(date +%T)"
	tail -n 8 "$TEST_DIR/.failed" | cut -c -400
	cluster_said 6
	echo "--- volumes, devices, mounts, processes"
	on 1 trib volume list 2>&1
	losetup -nl -O NAME,BACK-FILE | grep "$C/"
	findmnt -rno TARGET,SOURCE | grep "$C/"
	processes | cut -c -200
}

# Whatever a test left of volume $1, also after it failed.
scrap() {
	local i
	for i in 1 2 3; do
		[ -f "$C/host$i/blockd.pid" ] || blockd_start "$i"
		v "$i" detach "name=$1" force=1
	done
	v 1 unpublish "name=$1"
	v 1 delete "name=$1"
}
volume() { at_exit scrap "$1"; }

# Nothing of any volume is anywhere on this machine.
nothing_left() {
	local i
	same "$(losetup -nl -O BACK-FILE | count "$C/")" 0 "loop devices"
	same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
	same "$(processes)" "" "processes"
	for i in 1 2 3; do
		same "$(ls "$C/host$i/pool/extents")" "" "extents of host$i"
		same "$(find "$C/host$i/run" -path '*/volumes/*')" ""
		same "$(find "$C/host$i/run" -name '*.attachment')" ""
	done
	same "$(v 1 orphans)" "orphans=0 unreachable=0"
}
# Union and NBD processes of this test.
processes() {
	local p line
	for p in /proc/[0-9]*; do
		line=$({ tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null) || continue
		case $line in
		*/trib-union\ *"$C/"* | */trib-nbd\ *"$C/"*) echo "${p#/proc/} $line" ;;
		esac
	done
}

check() { # DIR: of fill
	(cd "$1" && sha256sum --quiet -c sums)
	same "$(readlink "$1/d/link")" 1
}

# The record and the machine say the same of a volume mounted on HOST.
is_whole() { # HOST NAME
	local out
	out=$(status "$2" "$1")
	grep -q 'phase=Ready .*here=1 mounted=1' <<<"$out" || fail "$out"
	! grep -q condition= <<<"$out" || fail "$out"
	same "$(findmnt -rno TARGET "$C/host$1/mnt/$2" | wc -l)" 1 "mounts"
	same "$(grep -c 'state=ok record=Ready.*mounted=1' <<<"$out")" \
		"$(count split= <<<"$out")" "$out"
	same "$(findmnt -rno TARGET | count "$C/host$1/run/volumes/$2/")" \
		"$(count split= <<<"$out")" "branches"
	same "$(processes | grep -c "/trib-union -f -o .* $C/host$1/mnt/$2 *\$")" 1
}

# Root in a container may lack CAP_SYS_RESOURCE (24), which ext4 asks for.
ext4_grows_mounted() {
	local caps
	caps=$(sed -n 's/^CapEff:\t/0x/p' /proc/self/status)
	[ $((caps >> 24 & 1)) = 1 ]
}

# The same for a reader: splits that nobody formatted are no part of it.
is_readable() { # HOST NAME
	local out
	out=$(status "$2" "$1")
	grep -q 'phase=Ready .*here=1 mounted=1' <<<"$out" || fail "$out"
	! grep -q condition= <<<"$out" || fail "$out"
	grep -q 'state=ok record=Ready.*mounted=1' <<<"$out" || fail "$out"
	same "$(grep -c 'state=ok record=Ready.*mounted=1' <<<"$out")" \
		"$(grep -c 'split=.*record=Ready' <<<"$out")" "$out"
	same "$(processes | grep -c "/trib-union -f -o .* $C/host$1/mnt/$2 *\$")" 1
}

# kill_at_every OPERATION: call it with kill=1, kill=2... until it is not
# killed any more; after each kill `settle N` has to bring things in order. One of
# three ($MIN_STEPS) steps, from any of the first; with LONG_TESTS=1 each.
kill_at_every() { # HOST COMMAND KEY=VALUE...
	local n rc kills=0 every
	every=$(EVERY=${MIN_STEPS:-3} every)
	for ((n = 1 + RANDOM % every; ; n += every)); do
		[ $n -lt 60 ] || fail "never ends"
		rc=0
		prepare "$n"
		v "$@" "kill=$n" >/dev/null 2>"$TEST_DIR/killed" || rc=$?
		[ $rc = 137 ] || break
		echo "# killed at step $n: $(tail -n 1 "$TEST_DIR/killed")"
		kills=$((kills + 1))
		settle "$n"
	done
	[ $rc = 0 ] || fail "at kill=$n: $(tail -n 1 "$TEST_DIR/killed")"
	[ $n -gt "${MIN_STEPS:-3}" ] || fail "only $n steps"
	echo "# killed at $kills steps"
}

# late PROGRAM...: each of them, once it was started, writes its pid to
# $LATE/runs, and does its work only a while after its parent has ended.
# late_v HOST COMMAND KEY=VALUE...: a flow that starts these, in the background
LATE=$TEST_DIR/late
late() {
	local program real
	rm -rf "$LATE"
	mkdir "$LATE"
	for program in "$@"; do
		real=$(PATH=$BUILD/bin:$PATH type -P "$program")
		cat >"$LATE/$program" <<-EOF
			#!/bin/bash
			parent() { read -r _ _ _ parent _ </proc/\$\$/stat; echo \$parent; }
			first=\$(parent)
			echo \$\$ >>"$LATE/runs"
			while [ "\$(parent)" = "\$first" ]; do sleep 0.01; done
			sleep 0.4
			exec "$real" "\$@"
		EOF
		chmod +x "$LATE/$program"
	done
}
late_v() {
	local argv UNION_DIR=$BUILD/bin
	[ ! -e "$LATE/trib-union" ] || UNION_DIR=$LATE
	_volume_argv "$1"
	PATH=$LATE:$PATH "${argv[@]}" "${@:2}" >"$TEST_DIR/late.said" 2>&1 &
}
# Print the late programs that still run.
late_runs() {
	local pid
	[ ! -e "$LATE/runs" ] || while read -r pid; do
		[ ! -e "/proc/$pid" ] || echo "$pid $(tr '\0' ' ' <"/proc/$pid/cmdline")"
	done <"$LATE/runs"
}
# killed_with_late PROGRAM HOST COMMAND KEY=VALUE...: killed once it has started it
killed_with_late() {
	local pid
	late "$1"
	late_v "${@:2}"
	pid=$!
	eventually 30 test -s "$LATE/runs"
	kill -9 $pid
	wait $pid || true
}

# Killed inside a step, at the N-th call of a system call by its first
# thread. Only the caller is traced, not the servers it starts: they live on.
killed_at_syscall() { # SYSCALL N HOST COMMAND...
	local argv rc=0
	_volume_argv "$3"
	strace -qq -o /dev/null -e "trace=$1" \
		-e "inject=$1:signal=KILL:when=$2" -- "${argv[@]}" "${@:4}" >/dev/null 2>&1 || rc=$?
	[ $rc = 137 ] || [ $rc = 0 ] || fail "exit $rc"
	[ $rc = 137 ]
}
