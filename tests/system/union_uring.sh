#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The union over io_uring: when it is used and when not; and some of what other
# scripts test of the union, again with it. All of it: each of them with
# OPTIONS=io_uring=auto while enable_uring of the module fuse is Y.
#
# The kernel's switch is for the whole machine: unions that others mount
# meanwhile use it, too.
. "$(dirname "$0")/../lib.sh"
need_root
need fsfreeze getfattr jq mkfs.ext4 pgrep prlimit taskset
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
SWITCH=/sys/module/fuse/parameters/enable_uring
[ -w $SWITCH ] || skip_all "this kernel has no FUSE over io_uring"
D=$TEST_DIR
M=$D/mnt
BEFORE=$(cat $SWITCH)
at_exit eval "echo $BEFORE >$SWITCH"
mkdir -p "$D/a" "$D/b" "$M"

# One at a time, to the end of the test; somebody else may have put it back as it
# was.
turn() {
	if [ -z "${_LOCK-}" ]; then
		exec {_LOCK}<$SWITCH
		flock "$_LOCK"
	fi
	echo "$1" >$SWITCH
}

union() { # OPTIONS
	: >"$D/log"
	trib-union -o "log=$D/log,control=$D/ctl,io_uring=auto,$1" "$D/a:$D/b" "$M"
	at_exit union_end "$M"
}
stat_of() { getfattr --absolute-names --only-values -n user.tributary.stats "$M" | jq -r ".$1"; }
setting() { getfattr --absolute-names --only-values -n "user.union.$1" "$M/.union"; }
is_on() { [ "$(stat_of io_uring)" = true ]; }
nobody_serves() { ! pgrep -f -- " $M\$"; }
serves() {
	mkdir "$M/d"
	echo text >"$M/d/f"
	same "$(cat "$M/d/f")" text
	same "$(ls "$M/d")" f
	rm -r "$M/d"
}

test_requests_come_by_io_uring() {
	turn Y
	union passthrough=auto
	eventually 30 is_on
	same "$(setting io_uring)" true
	same "$(trib-union --control "$D/ctl" status | jq .io_uring)" true
	serves
	fails any "not supported" setfattr -n user.union.io_uring -v false "$M/.union"
}

test_large_requests_fit() {
	turn Y
	union passthrough=off
	eventually 30 is_on
	dd if=/dev/urandom of="$D/data" bs=1M count=9 status=none
	dd if="$D/data" of="$M/data" bs=3M status=none
	same "$(stat_of io_uring)" true
	umount "$M"
	union passthrough=off
	eventually 30 is_on
	cmp "$D/data" "$M/data"
	setfattr -n user.large -v "$(head -c 3000 /dev/zero | tr '\0' x)" "$M/data"
	same "$(getfattr --absolute-names --only-values -n user.large "$M/data" | wc -c)" 3000
}

test_it_is_used_only_when_wanted() {
	turn Y
	trib-union "$D/a:$D/b" "$M"
	at_exit union_end "$M"
	serves
	same "$(stat_of io_uring)" false
	same "$(setting io_uring)" false
	umount "$M"
	union io_uring=off
	serves
	same "$(stat_of io_uring)" false
	fails 2 "auto or off" trib-union -o io_uring=on "$D/a:$D/b" "$M"
}

test_a_kernel_without_it_is_served_by_dev_fuse() {
	turn N
	union passthrough=auto
	serves
	same "$(stat_of io_uring)" false
	grep -q "by /dev/fuse: .*enable_uring is 'N'" "$D/log"
}

# Before the kernel is told: it would wait for us.
test_who_cannot_have_rings_is_served_by_dev_fuse() {
	turn Y
	local survive
	for survive in no yes; do
		(prlimit --nofile=24:24 --pid "$BASHPID" && union survive=$survive)
		at_exit union_end "$M"
		serves
		same "$(stat_of io_uring)" false
		grep -q "by /dev/fuse: prepare io_uring: Too many open files" "$D/log"
		umount "$M"
		eventually 30 nobody_serves
	done
}

test_one_that_ends_with_its_server_has_rings_of_its_own() {
	turn Y
	union survive=no
	eventually 30 is_on
	serves
	! pgrep -f -- "--holder-fd=3 .* $M\$"
}

# Threads and descriptors end with it.
test_it_ends_with_the_mount() {
	turn Y
	union passthrough=auto
	eventually 30 is_on
	local pid
	pid=$(setting pid)
	umount "$M"
	eventually 30 eval "! kill -0 $pid"
	! grep -q error "$D/log"
}

# SCRIPT TEST...: with its own branches and directory
ALSO= # options
again() {
	turn Y
	OPTIONS=io_uring=auto${ALSO:+,$ALSO} "$TOP/tests/system/$1" "${@:2}" >"$D/again.out" 2>&1 || {
		grep -v '^ok' "$D/again.out" | tail -n 40
		fail "$1 fails over io_uring"
	}
	grep -c '^ok' "$D/again.out"
}

test_behaves_as_over_dev_fuse() {
	again union.sh test_special_files_links_and_attributes \
		test_permissions_are_the_kernels \
		test_a_busy_mount_is_detached_and_ends_with_its_last_user \
		test_writing_clears_setuid_and_setgid_without_passthrough
	again union_times.sh test_everything_was_born_when_its_branch_says
	again union_live.sh test_names_on_an_added_branch_appear
}
test_behaves_so_with_rings_of_its_own() {
	ALSO=survive=no
	again union.sh test_special_files_links_and_attributes
	again union_live.sh test_names_on_an_added_branch_appear
	SEEDS=4 again union_model.sh test_is_as_one_plain_directory
}
test_hung_branches_hold_up_nobody_else() {
	local ALSO
	for ALSO in "" survive=no; do
		again union_hurt.sh test_a_branch_that_hangs_holds_up_only_who_asks_it
	done
}
# What comes to a queue while all of its entries hang waits for no other
# request: so all of it asks on one CPU, where nobody else does.
test_a_request_behind_hung_ones_is_served() {
	local survive i
	turn Y
	truncate -s 64M "$D/a.img"
	mkfs.ext4 -q "$D/a.img"
	for survive in yes no; do
		mount -o loop "$D/a.img" "$D/a"
		at_exit umount -l "$D/a"
		mkdir -p "$D/b/d"
		union "survive=$survive,passthrough=off,policy=ff,threads=2,branch_timeout=60"
		eventually 30 is_on
		for i in $(seq 8); do mkdir -p "$M/$survive-$i"; done
		[ $survive = no ] || touch "$M/known" # else it knows no file
		stat "$M/d" >/dev/null
		at_exit fsfreeze -u "$D/a"
		fsfreeze -f "$D/a"
		for i in $(seq 8); do taskset -c 0 touch "$M/$survive-$i/new" & done
		taskset -c 0 timeout 20 stat "$M/d/none" 2>"$D/said" || true
		fsfreeze -u "$D/a"
		wait
		grep -q "No such file" "$D/said"
		umount "$M"
		eventually 30 nobody_serves
		umount "$D/a"
	done
}
test_a_write_is_answered_by_who_moves_its_file() {
	again union_drain.sh test_a_write_that_meets_a_full_branch_moves_its_file
}
test_is_as_one_plain_directory() {
	SEEDS=10 again union_model.sh test_is_as_one_plain_directory
}

run_tests "$@"
