#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A cgroup that is killed as a whole for memory (memory.oom.group), with both
# processes of a union in it, and a launcher: Kubernetes has each container so.
. "$(dirname "$0")/lib.sh"
inside_vm -m 768 -- "$@"
need pgrep
modprobe fuse 2>/dev/null || true # or it is built in
D=$TEST_DIR
M=$D/mnt
G=/sys/fs/cgroup/oom
BYTES=$((128 << 20)) # memory of the cgroup

server() { first_of "[-]-holder-fd=3 .* $M\$"; }
supervisor() { first_of " -f --ready-fd=3 .* $M\$"; }
another_than() { local now; now=$(server) && [ "$now" != "$1" ]; }
say_more() { tail -n 5 "$D/log"; cat "$G/memory.events"; dmesg | tail -n 12; }

inside() { (echo $BASHPID >"$G/cgroup.procs" && exec "$@"); } # of the cgroup
# Fill the cgroup's memory: all of it is killed that may be.
short() {
	local before
	before=$(killed)
	fails any "" inside dd if=/dev/zero of=/dev/null "bs=$((4 * BYTES))" count=1
	same "$(killed)" $((before + 1))
}
killed() { awk '$1 == "oom_group_kill" {print $2}' "$G/memory.events"; }

begin() {
	local b
	mkdir -p "$D/a" "$D/b" "$M" "$G"
	for b in a b; do # of the test's own cgroup
		mount -t tmpfs -o size=64M none "$D/$b"
		at_exit umount -l "$D/$b"
	done
	at_exit rmdir "$G"
	echo +memory >/sys/fs/cgroup/cgroup.subtree_control
	echo $BYTES >"$G/memory.max"
	echo 0 >"$G/memory.swap.max" 2>/dev/null || true # without swap there is none
	echo 1 >"$G/memory.oom.group"
	inside trib-union -o "survive=yes,log=$D/log" "$D/a:$D/b" "$M"
	at_exit union_end "$M"
}

test_only_the_server_is_killed() {
	local first now i
	begin
	echo kept >"$M/kept"
	exec 7>"$M/removed" 8<"$M/removed"
	rm "$M/removed"
	first=$(supervisor)
	for i in 1 2 3; do
		now=$(server)
		short
		eventually 60 another_than "$now"
		same "$(cat "$M/kept")" kept
		echo "$i" >>"$M/kept.$i"
		echo "line $i" >&7
		same "$(supervisor)" "$first"
	done
	same "$(cat <&8)" "line 1
line 2
line 3"
	same "$(cat "/proc/$(server)/oom_score_adj")" "$(cat /proc/self/oom_score_adj)"
	exec 7>&- 8<&-
	unmount "$M"
}

# That the test above can fail.
test_without_its_weight_the_supervisor_is_killed_too() {
	local pid
	begin
	pid=$(supervisor)
	echo 0 >"/proc/$pid/oom_score_adj"
	short
	eventually 60 eval "! kill -0 $pid"
	eventually 60 fails any "not connected" ls "$M"
}

test_the_launcher_is_left() {
	local pid
	begin
	inside trib-launch --socket "$D/launch.sock" --bin-dir "$BUILD/bin" >"$D/launch.log" 2>&1 &
	eventually 60 test -S "$D/launch.sock"
	pid=$(first_of "trib-launch --socket $D/launch.sock")
	at_exit kill "$pid"
	short
	kill -0 "$pid"
	same "$(cat "/proc/$pid/oom_score_adj")" -1000
	unmount "$M"
}

run_tests "$@"
