#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A branch belongs to one union, while any process of that lives; and one that
# is mounted read-only changes nothing.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../union_lib.sh"
O=$D/other # where a second union would be

other() { # with DIRECTORIES; what is mounted there by mistake goes
	mkdir -p "$O" "$@"
	at_exit umount -l "$O"
}
two() { # OPTIONS
	small_branches 20M 20M
	other "$D/a/sub/deep" "$D/bound"
	union "control=$D/ctl,$1" "$D/a:$D/b"
}
# What a second union would take for a crash's, and sweep.
plant() {
	ln -s '1 M 1:aa 1:bb 1:cc x/y' "$D/$1/.tributary/rename-7"
	: >"$D/$1/.tributary/clone-7"
}
is_planted() { [ -L "$D/$1/.tributary/rename-7" ] && [ -e "$D/$1/.tributary/clone-7" ]; }
refused() { # as in use, by the union at $M; OPTIONS BRANCHES
	fails 1 "in use by the union at '$M' (pid $(server)" trib-union -o "$1" "$2" "$O"
	! mountpoint -q "$O" || fail "it is mounted"
}
taken() { # OPTIONS BRANCHES: they are free
	trib-union -o "log=$D/log2,$1" "$2" "$O"
	unmount "$O"
}
supervisor() { first_of "trib-union -f --ready-fd=3 .*$M\$"; }
what_is_there() { find "$D/a" "$D/b" -printf '%p %y %m %u %s %n %T@ %C@ %l\n' | sort; }

test_a_second_union_is_refused_and_changes_nothing() {
	two policy=ff
	plant a
	ln -s "$D/a" "$D/link"
	mount --bind "$D/a" "$D/bound"
	at_exit umount -l "$D/bound"
	mkdir "$D/b/inside" "$D/b/plain"
	mount --bind "$D/a/sub" "$D/b/inside"
	at_exit umount -l "$D/b/inside"
	local branches
	for branches in "$D/a:$D/b" "$D/b:$D/a" "$D/a" "$D/b" "$D/link" "$D/bound" \
		"$D/a/sub" "$D/bound/sub/deep" "$D/b/inside" "$D/b/plain"; do
		refused policy=ff "$branches"
		refused ro "$branches"
		refused shared "$branches=RO"
		refused survive=no "$branches"
	done
	is_planted a || fail "what is the first one's was swept"
	fails 1 "in use" trib-union "$D/a:$D/b" "$M"
	same "$(grep -c " $M " /proc/self/mountinfo)" 1
	echo still >"$M/f"
	same "$(cat "$D/a/f")" still
	stop
	taken policy=ff "$D/b"
}

test_one_around_a_branch_is_refused() {
	small_branches 20M 20M
	other "$D/a/sub/deep"
	union policy=ff "$D/a/sub"
	refused policy=ff "$D/a"
	refused ro "$D/a:$D/b"
	refused policy=ff "$D/a/sub/deep"
	taken policy=ff "$D/b"
	mkdir "$D/a/beside"
	taken policy=ff "$D/a/beside"
}

test_one_without_a_supervisor_is_an_owner_too() {
	two survive=no
	refused policy=ff "$D/a"
	kill -KILL "$(server)"
	umount -l "$M"
	taken policy=ff "$D/a:$D/b"
}

test_it_is_locked_while_any_process_of_it_lives() {
	two survive=yes
	local first keeper
	first=$(server)
	keeper=$(supervisor)
	kill -KILL "$first"
	# Not for a moment: also while there is no server.
	fails 1 "in use" trib-union "$D/a:$D/b" "$O"
	another() { local now; now=$(server) && [ -n "$now" ] && [ "$now" != "$first" ] && [ "$now" != "$keeper" ]; }
	eventually 30 another
	stat "$M" >/dev/null
	refused policy=ff "$D/a:$D/b"
	trib-union --control "$D/ctl" upgrade >/dev/null
	stat "$M" >/dev/null
	plant b # as the next server recovers, too
	refused ro "$D/b"
	is_planted b || fail "what is its own was swept"
	keeper=$(supervisor)
	kill -KILL "$keeper"
	eventually 30 gone "$keeper"
	refused policy=ff "$D/b" # a server that is alone
	kill -KILL "$(server)"
	umount -l "$M"
	taken policy=ff "$D/a:$D/b"
	! is_planted b || fail "nobody recovered"
}

test_a_union_that_was_detached_has_them_until_it_ends() {
	two policy=ff
	exec 7<"$M"
	umount -l "$M"
	refused policy=ff "$D/a:$D/b"
	exec 7<&-
	taken policy=ff "$D/a:$D/b"
}

# A union that looks has a descriptor of each branch for a moment, also once mounted.
test_one_that_looks_for_owners_is_none() {
	two policy=ff
	unmount "$M"
	python3 - "$D/a/.tributary" "$D/is-there" "$D/c" "$D/mnt3" <<-'END' &
		import os, sys
		held, ready = sys.argv[1:3]
		os.set_inheritable(os.open(held, os.O_PATH | os.O_DIRECTORY), True)
		open(ready, "x").close()
		os.execv("/proc/self/exe", ["trib-union", "-c", "import time; time.sleep(300)", *sys.argv[3:]])
	END
	at_exit kill $!
	eventually 30 test -e "$D/is-there"
	eventually 30 grep -q "^trib-union" "/proc/$!/cmdline"
	taken policy=ff "$D/a:$D/b"
}

test_a_mount_waits_for_one_that_ends() {
	two policy=ff
	local i
	for i in 1 2 3 4 5 6 7 8; do
		unmount "$M"
		trib-union -o policy=ff "$D/b:$D/a" "$M"
	done
}

test_branches_come_and_go() {
	two policy=ff
	mkdir "$D/c" "$D/mnt3"
	mount -t tmpfs none "$D/c"
	at_exit umount -l "$D/c"
	trib-union -o "control=$D/ctl3,log=$D/log3" "$D/c" "$D/mnt3"
	at_exit umount -l "$D/mnt3"
	fails 1 "in use by the union at '$D/mnt3' (pid" trib-union --control "$D/ctl" add "$D/c"
	fails 1 "in use by the union at '$M' (pid" trib-union --control "$D/ctl3" add "$D/a=RO"
	unmount "$D/mnt3"
	trib-union --control "$D/ctl" add "$D/c" >/dev/null
	refused policy=ff "$D/c"
	kill -KILL "$(server)"
	eventually 30 stat "$M"
	refused policy=ff "$D/c"
	trib-union --control "$D/ctl" remove "$D/c" >/dev/null
	eventually 30 taken policy=ff "$D/c"
	refused policy=ff "$D/b"
}

test_who_only_reads_shares_a_branch_with_his_like() {
	small_branches 20M 20M
	other "$D/a/.tributary"
	union "control=$D/ctl" "$D/a=RO:$D/b"
	taken policy=ff "$D/a=RO"
	taken ro "$D/a"
	refused policy=ff "$D/a"
	refused ro "$D/b"
	trib-union -o "log=$D/log2" "$D/a=RO" "$O"
	fails 1 "in use by the union at '$O'" trib-union --control "$D/ctl" set "$D/a"
	unmount "$O"
	eventually 30 trib-union --control "$D/ctl" set "$D/a" >/dev/null
	refused ro "$D/a"
}

test_a_mount_that_is_read_only_changes_nothing() {
	small_branches 20M 20M
	other "$D/a/d" "$D/b/d"
	echo x >"$D/b/d/f"
	what_is_there >"$D/before"
	union ro,policy=rand "$D/a:$D/b"
	same "$(cat "$M/d/f")" x
	fails any "Read-only" touch "$M/new"
	unmount "$M"
	same "$(what_is_there)" "$(cat "$D/before")"
	mkdir "$D/a/.tributary" "$D/b/.tributary"
	plant a
	plant b
	what_is_there >"$D/before"
	union "ro,control=$D/ctl" "$D/a:$D/b"
	ls -R "$M" >/dev/null
	fails 1 "read-only" trib-union --control "$D/ctl" set "$D/a=RW"
	kill -KILL "$(server)"
	eventually 30 ls -R "$M" >/dev/null
	unmount "$M"
	same "$(what_is_there)" "$(cat "$D/before")"
	# Nor a union whose file systems are read-only, even if another union has them.
	mount -o remount,ro "$D/a"
	mount -o remount,ro "$D/b"
	union policy=ff "$D/a:$D/b"
	taken policy=ff "$D/a:$D/b"
	same "$(cat "$M/d/f")" x
	unmount "$M"
	same "$(what_is_there)" "$(cat "$D/before")"
}

test_a_branch_that_failed_is_free_and_comes_back_when_it_is_again() {
	loop_fs a 64M mkfs.ext4 -q
	small_branches 1M 20M # b; a is over the other
	unmount "$D/a"
	other
	echo a >"$D/a/f"
	union "policy=ff,control=$D/ctl" "$D/a:$D/b"
	sync -f "$D/a"
	shut_down_fs "$D/a"
	fails any "Input/output error" cat "$M/f"
	unmount "$D/a"
	mount -o loop,noatime "$D/a.img" "$D/a"
	# Another one may be quicker than the first; then that waits.
	if trib-union -o "log=$D/log2" "$D/a" "$O" 2>"$D/err"; then
		eventually 30 grep -q "another union has it now" "$D/log"
		fails any "Input/output error" cat "$M/f"
		unmount "$O"
	else
		grep -q "in use by the union at '$M'" "$D/err"
	fi
	works() { [ "$(cat "$M/f" 2>/dev/null)" = a ]; }
	eventually 60 works
	refused policy=ff "$D/a"
}

run_tests "$@"
