#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The VM runner itself: does what its manual says.
. "$(dirname "$0")/../lib.sh"
need_root
"$TOP/tests/vm/fetch" >"$TEST_DIR/fetch.log" 2>&1 ||
	skip_all "no virtual machine: $(tail -n 1 "$TEST_DIR/fetch.log")"
run=$TOP/tests/vm/run
exec=$TOP/tests/vm/exec

test_runs_a_command_as_root_under_the_fetched_kernel_and_passes_its_code() {
	local rc=0 mark=/etc/tributary-vm-selftest
	mkdir "$TEST_DIR/rw"
	export TRIB_VM_WORD="a 'word' \$x"
	"$run" -s "$TEST_DIR/rw" -- bash -c '
		uname -r; id -u; pwd; echo "$TRIB_VM_WORD"; echo error >&2
		touch '$mark' && ls '$mark' && echo shared >"$1/file"
		exit 7' - "$TEST_DIR/rw" >"$TEST_DIR/out" 2>"$TEST_DIR/err" || rc=$?
	same $rc 7 "$(cat "$TEST_DIR/err")"
	# shellcheck disable=SC1091
	same "$(cat "$TEST_DIR/out")" \
		"$(. "${VM_CACHE:-$TOP/build/vm}/env" && echo "$kernel_release")
0
$PWD
$TRIB_VM_WORD
$mark"
	same "$(cat "$TEST_DIR/err")" error
	same "$(cat "$TEST_DIR/rw/file")" shared
	# What the guest wrote in /etc stayed in the guest.
	[ ! -e $mark ] || fail "$mark appeared on the host"
}

test_says_124_when_the_time_is_over_and_leaves_nothing() {
	fails 124 'killed after 4 s' env TMPDIR="$TEST_DIR" "$run" -c 1 -t 4 -- sleep 100
	same "$(compgen -G "$TEST_DIR/trib-vm*" || true)" ''
}

test_says_125_with_the_console_when_the_guest_panics() {
	fails 125 'Kernel panic' "$run" -c 1 -- bash -c 'echo c >/proc/sysrq-trigger; sleep 9'
}

test_refuses_wrong_options_before_it_boots() {
	fails 2 'no command' "$run"
	fails 2 'no folder' "$run" -s /no/such/folder -- true
	fails 2 'bad network' "$run" -n wire,10.0.0.1 -- true
	fails 2 'takes no command' "$run" -S "$TEST_DIR/s" -- true
}

# Two machines on one wire; a disk of the host; a power cut.
test_two_machines_talk_and_one_loses_its_power() {
	local s=$TEST_DIR port=$((20000 + RANDOM % 20000)) a b rc=0
	truncate -s 16M "$s/disk"
	"$run" -c 1 -m 256 -H one -n "mcast:$port,10.66.0.1/24" -d "$s/disk" \
		-p "$s/one.pid" -S "$s/one" >"$s/one.log" 2>&1 &
	a=$!
	at_exit kill $a
	"$run" -c 1 -m 256 -H two -n "mcast:$port,10.66.0.2/24" \
		-S "$s/two" >"$s/two.log" 2>&1 &
	b=$!
	at_exit kill $b
	same "$("$exec" "$s/one" 'hostname; echo dropped >&2; echo kept | dd of=/dev/vda conv=fsync,nocreat status=none' 2>/dev/null)" one
	"$exec" "$s/two" exit 5 || rc=$?
	same $rc 5
	# shellcheck disable=SC2016
	same "$("$exec" "$s/two" 'exec 4<>/dev/tcp/10.66.0.1/9 || echo refused' 2>/dev/null)" refused
	kill -KILL "$(cat "$s/one.pid")"
	rc=0
	wait $a || rc=$?
	same $rc 125
	same "$(head -c 4 "$s/disk")" kept
	"$exec" "$s/two" POWEROFF
	wait $b
}

run_tests "$@"
