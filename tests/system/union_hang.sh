#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union's server is killed while a branch hangs (fsfreeze: who changes
# something there waits, and cannot be killed): the next one serves the rest.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../union_lib.sh"
need fsfreeze

# Folders of-a, of-b and of-c on one branch each, both on a and b; a file in
# each of them, and x-a and x-b in both.
three() { # OPTIONS
	local name
	for name in a b c; do
		loop_fs "$name" 64M mkfs.ext4 -q -m 0
		mkdir "$D/$name/of-$name"
		echo "$name" >"$D/$name/of-$name/y"
	done
	for name in a b; do
		mkdir "$D/$name/both"
		echo "$name" >"$D/$name/both/x-$name"
	done
	mkdir -p "$M"
	: >"$D/log"
	trib-union -o "survive=yes,log=$D/log,control=$D/ctl,policy=ff,branch_timeout=3${1:+,$1}" \
		"$D/a:$D/b:$D/c" "$M"
	at_exit union_end "$M"
	stat "$M"/{,both/,of-a/,of-b/,of-c/}none >/dev/null 2>&1 || true
}

freeze() { # BRANCH
	at_exit fsfreeze -u "$D/$1"
	fsfreeze -f "$D/$1"
}

eio() { fails any "Input/output error" timeout 60 "$@"; }

# hangs SERVER: a thread of it waits for the branch
hangs() { eventually 30 eval 'grep -qs "^State:.D" /proc/'"$1"'/task/*/status'; }
is_gone() { [ ! -e "/proc/$1" ]; }
dead_but_there() { grep -qs "^State:.Z" "/proc/$1/status"; }
# another PID: it serves, and that one is there still
another() {
	eventually 30 union_server_after "$M" "$1"
	dead_but_there "$1"
}

test_a_request_of_several_branches_takes_only_the_one_that_hangs_along() {
	local server before
	three
	server=$(union_server "$M")
	freeze a
	timeout 100 touch "$M/both/new" 2>"$D/said" & # after it looked on b
	hangs "$server"
	before=$(date +%s%N)
	kill -9 "$server"
	same "$(timeout 60 cat "$M/both/x-b" "$M/of-c/y")" "b
c"
	before=$((($(date +%s%N) - before) / 1000000))
	echo "# count ms_until_the_next_server_served $before"
	dead_but_there "$server"
	same "$(state a) $(state b) $(state c)" "failed ok ok"
	eio cat "$M/both/x-a"
	eio touch "$M/both/other"
	# The name may come yet, so it is not made on b, though the kernel asks for it.
	eio touch "$M/both/new"
	eio mkdir "$M/both/new"
	eio mv "$M/of-c/y" "$M/both/new"
	timeout 60 touch "$M/of-b/fresh" "$M/of-c/fresh"
	[ -e "$D/b/of-b/fresh" ]
	timeout 60 rm "$M/of-b/fresh" "$M/both/x-b"
	fsfreeze -u "$D/a"
	eventually 60 is_gone "$server"
	eventually 60 is_state a ok
	wait
	same "$(cat "$M/both/x-a")" a
	same "$(find "$D/a" "$D/b" -name new)" "$D/a/both/new"
	same "$(ls "$M/both")" "new
x-a"
	unmount "$M"
}

# The same without a kill: who was told EIO asks again.
test_what_may_come_yet_is_not_made_elsewhere() {
	three
	freeze a
	eio touch "$M/both/new"
	same "$(state a)" failed
	eio touch "$M/both/new"
	eio mkdir "$M/both/new"
	timeout 60 touch "$M/both/other"
	fsfreeze -u "$D/a"
	eventually 60 is_state a ok
	same "$(find "$D/a" "$D/b" -name new)" "$D/a/both/new"
	same "$(ls "$D/b/both")" "other
x-b"
	rm "$M/both/new"
	mkdir "$M/both/new"
	unmount "$M"
}

test_an_open_file_of_it_is_EIO_and_then_as_ever() {
	local server
	three passthrough=off
	server=$(union_server "$M")
	exec 8>>"$M/of-a/y" 9<"$M/of-b/y"
	freeze a
	(echo more >&8) 2>"$D/said" &
	hangs "$server"
	kill -9 "$server"
	same "$(timeout 60 cat <&9)" b
	dead_but_there "$server"
	wait
	grep -q "Input/output error" "$D/said"
	fails any "Input/output error" eval 'echo no >&8'
	fsfreeze -u "$D/a"
	eventually 60 is_state a ok
	is_gone "$server"
	echo last >&8
	exec 8>&- 9<&-
	same "$(grep -v more "$M/of-a/y")" "a
last"
	[ "$(grep more "$M/of-a/y" | wc -l)" -le 1 ]
	unmount "$M"
}

test_two_servers_hang_and_the_third_serves() {
	local first second
	three
	first=$(union_server "$M")
	freeze a
	timeout 100 touch "$M/of-a/new" 2>/dev/null &
	hangs "$first"
	kill -9 "$first"
	another "$first"
	second=$(union_server "$M")
	same "$(timeout 60 cat "$M/of-b/y")" b
	freeze b
	timeout 100 touch "$M/of-b/new" 2>/dev/null &
	hangs "$second"
	kill -9 "$second"
	another "$second"
	same "$(timeout 60 cat "$M/of-c/y")" c
	same "$(state a) $(state b) $(state c)" "failed failed ok"
	eio cat "$M/of-a/y"
	eio cat "$M/of-b/y"
	fsfreeze -u "$D/b"
	eventually 60 is_gone "$second"
	eventually 60 is_state b ok
	same "$(timeout 60 cat "$M/of-b/y")" b
	same "$(state a)" failed
	dead_but_there "$first"
	fsfreeze -u "$D/a"
	eventually 60 is_gone "$first"
	eventually 60 is_state a ok
	wait
	same "$(cat "$M/of-a/y")" a
	same "$(find "$D/a" "$D/b" -name new | sort)" "$D/a/of-a/new
$D/b/of-b/new"
	unmount "$M"
}

# The removal of an old file hangs, before the new server serves.
test_a_server_that_hangs_as_it_starts_is_replaced() {
	local server
	three
	server=$(union_server "$M")
	: >"$D/a/.tributary/clone-left"
	freeze a
	kill -9 "$server"
	same "$(timeout 60 cat "$M/of-b/y")" b
	same "$(state a) $(state b)" "failed ok"
	eio cat "$M/of-a/y"
	fsfreeze -u "$D/a"
	eventually 60 is_state a ok
	same "$(cat "$M/of-a/y")" a
	unmount "$M"
}

test_one_that_is_given_up_while_another_hangs_answers_nobody_more() {
	local server supervisor
	three passthrough=off
	server=$(union_server "$M")
	supervisor=$(pgrep -f -- " -f --ready-fd=3 .* $M\$")
	exec 9<"$M/of-b/y"
	freeze a
	timeout 100 touch "$M/of-a/new" 2>/dev/null &
	hangs "$server"
	kill -9 "$server"
	another "$server"
	same "$(timeout 60 cat <&9)" b
	wait
	kill -TERM "$supervisor" # it is in use
	eventually 60 eval '! mountpoint -q "$M"'
	sleep 1.5
	kill -TERM "$supervisor"
	eventually 60 is_gone "$supervisor"
	eventually 60 fails any "not connected" timeout 60 stat -L /dev/fd/9
	exec 9<&-
	dead_but_there "$server"
	fsfreeze -u "$D/a"
	eventually 60 is_gone "$server"
}

run_tests "$@"
