#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union by io_uring whose server is killed, at any moment of what many do and
# of its own beginning: nobody meets an error, nothing is done twice or not at
# all. And some of what other scripts kill, with a ring. All of it:
# OPTIONS=io_uring=auto tests/system/union_survive.sh, and so on, while
# enable_uring of the module fuse is Y. KILLS: so often; HOLDERS: holders, too.
#
# The kernel's switch is for the whole machine: unions that others mount
# meanwhile use it, too.
. "$(dirname "$0")/../lib.sh"
need_root
need getfattr jq pgrep python3
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
SWITCH=/sys/module/fuse/parameters/enable_uring
[ -w $SWITCH ] || skip_all "this kernel has no FUSE over io_uring"
D=$TEST_DIR
M=$D/mnt
BEFORE=$(cat $SWITCH)
at_exit eval "echo $BEFORE >$SWITCH"
mkdir -p "$D/a" "$D/b" "$M"

turn() { # one at a time, to the end of the test: see union_uring.sh
	if [ -z "${_LOCK-}" ]; then
		exec {_LOCK}<$SWITCH
		flock "$_LOCK"
	fi
	echo "$1" >$SWITCH
}

branches() { # empty
	local b
	for b in a b; do
		find "$D/$b" -mindepth 1 -delete
		mountpoint -q "$D/$b" && continue
		mount -t tmpfs -o size=128M none "$D/$b"
		at_exit umount -l "$D/$b"
	done
}
union() { # OPTIONS
	turn Y
	branches
	: >"$D/log"
	trib-union -o "log=$D/log,io_uring=auto${1:+,$1}" "$D/a:$D/b" "$M"
	at_exit end_union
	at_exit union_end "$M"
}
end_union() { end_at_once $(holder); end_at_once $(server); }
say_more() { tail -n 3 "$D/log"; }
server() { pgrep -f -- "--holder-fd=3 .* $M\$" || true; }
holder() { pgrep -f -- " -f --ready-fd=3 .* $M\$" || true; }
gone() { [ -z "$(holder)$(server)" ]; }
is_on() { [ "$(getfattr --absolute-names --only-values -n user.union.io_uring "$M/.union")" = true ]; }
another_than() { local now; now=$(server) && [ -n "$now" ] && [ "$now" != "$1" ]; }
kill_server() {
	local pid
	pid=$(server)
	kill -9 "$pid"
	eventually 30 another_than "$pid"
}
none_failed() { # what the kernel or we say of a ring that went wrong
	! grep -E "io_uring: a thread|refuses an entry" "$D/log"
}
# Until standard input ends.
load() { exec {input}> >(timeout 300 "$@" >"$D/said" 2>&1; echo $? >"$D/code"); }
load_ends() {
	exec {input}>&-
	eventually 120 test -s "$D/code"
	cat "$D/said"
	same "$(cat "$D/code")" 0
	rm "$D/code"
}

test_each_server_uses_the_ring() {
	union
	eventually 30 is_on
	echo text >"$M/f"
	local i
	for i in 1 2 3; do
		kill_server
		eventually 30 is_on
		same "$(cat "$M/f")" text
	done
	# It stays so, whatever is offered to those that are mounted now.
	turn N
	kill_server
	eventually 30 is_on
	none_failed
	umount "$M"
	eventually 30 gone
}

# At any moment of what many do at once, and soon after the server has come.
test_many_at_once_notice_nothing() {
	local i how
	for how in auto off; do
		union "func.create=rand,func.mkdir=rand,passthrough=$how"
		load python3 tests/union/own_dirs.py "$M" $RANDOM 6
		for i in $(seq "${KILLS:-50}"); do
			kill_server
			sleep "0.0$((RANDOM % 90 + 10))"
		done
		load_ends
		eventually 30 is_on
		none_failed
		umount "$M"
		eventually 30 gone
	done
}

# A server is killed while it takes over what the one before had.
test_servers_that_are_killed_as_they_begin_are_followed() {
	union func.create=rand
	load python3 tests/union/own_dirs.py "$M" $RANDOM 6
	local i
	for i in $(seq "${KILLS:-50}"); do
		kill_server
		sleep "0.00$((RANDOM % 9 + 1))"
	done
	load_ends
	eventually 30 is_on
	umount "$M"
	eventually 30 gone
}

# And while the first one tells the kernel of its entries: it may have been
# told that requests come by them, and of some of them.
test_one_that_is_killed_as_it_registers_is_followed() {
	local i pid
	turn Y
	branches
	for i in $(seq "${KILLS:-50}"); do
		: >"$D/log"
		trib-union -o "log=$D/log,io_uring=auto" "$D/a:$D/b" "$M" &
		pid=$!
		at_exit end_union
		at_exit union_end "$M"
		eventually 30 eval '[ -n "$(server)" ]'
		sleep "0.0$((RANDOM % 20 + 10))$((RANDOM % 10))"
		kill -9 $(server) || true
		wait $pid
		timeout 60 touch "$M/f" || fail "it hangs"
		same "$(timeout 60 ls "$M")" f
		rm "$M/f"
		umount "$M"
		eventually 30 gone
	done
}

# Requests of its rings that nobody had served yet are served, and so is what
# came when the kernel had none.
test_the_server_goes_on_when_the_holder_is_killed() {
	local i
	for i in $(seq "${HOLDERS:-5}"); do
		union func.create=rand
		load python3 tests/union/own_dirs.py "$M" $RANDOM 6
		sleep "0.$((RANDOM % 90 + 10))"
		kill -9 "$(holder)"
		sleep 1
		load_ends
		eventually 30 is_on
		none_failed
		umount "$M"
		eventually 30 gone
	done
}

test_a_kernel_that_does_not_offer_it_is_served_by_dev_fuse() {
	turn N
	branches
	: >"$D/log"
	trib-union -o "log=$D/log,io_uring=auto" "$D/a:$D/b" "$M"
	at_exit end_union
	at_exit union_end "$M"
	echo text >"$M/f"
	kill_server
	turn Y # too late: the kernel has been told
	kill_server
	same "$(cat "$M/f")" text
	! is_on || false
	grep -q "by /dev/fuse: .*enable_uring is 'N'" "$D/log"
}

test_another_program_takes_over_with_the_ring() {
	cp "$BUILD/bin/trib-union" "$D/trib-union"
	PATH=$D:$PATH union
	echo kept >"$M/f"
	local pid
	pid=$(server)
	exec {f}<"$M/f"
	kill -USR2 "$(holder)"
	eventually 30 another_than "$pid"
	same "$(cat <&$f)" kept
	exec {f}<&-
	eventually 30 is_on
}

# SCRIPT TEST...
again() {
	turn Y
	OPTIONS=io_uring=auto "$TOP/tests/system/$1" "${@:2}" >"$D/again.out" 2>&1 || {
		grep -v '^ok' "$D/again.out" | tail -n 40
		fail "$1 fails over io_uring"
	}
	grep -c '^ok' "$D/again.out"
}
test_survives_as_over_dev_fuse() {
	again union_survive.sh test_data_written_while_it_is_killed_is_right test_open_files_go_on \
		test_what_was_removed_while_open_stays test_sigterm_while_none_serves_leaves_no_mount \
		test_when_none_of_them_serves_it_is_given_up_with_words test_without_a_holder_it_serves_on
	STEP=${STEP:-24} again union_once.sh test_names_are_made_once test_names_change_once
}
test_is_as_one_plain_directory_while_its_server_is_killed() {
	KILL_SEEDS=4 again union_model.sh test_is_so_too_while_its_server_is_killed
}

run_tests "$@"
