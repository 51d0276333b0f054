#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What tests themselves rest on: that one which cannot be run fails, that all is
# undone whatever ends a test or the demo, and that who ended is gone.
. "$(dirname "$0")/../lib.sh"
need setsid
D=$TEST_DIR

# script LINES...: a test script of its own, $D/script
script() {
	printf '%s\n' ". '$TOP/tests/lib.sh'" "$@" 'run_tests "$@"' >"$D/script"
}

# The leader of a group of its own, as who is started by a shell or a timeout.
group() { # COMMAND...
	setsid "$@" </dev/null &
	GROUP=$!
	at_exit kill -9 $GROUP
}
signal_group() { # TIMES
	local i
	for ((i = 0; i < $1; i++)); do kill -TERM -- -$GROUP; done
}

test_a_test_that_is_not_there_is_a_failure() {
	script 'test_one() { true; }' 'test_one_more() { true; }'
	same "$(bash "$D/script")" "1..2
ok 1 - one
ok 2 - one_more"
	same "$(bash "$D/script" test_one)" "1..1
ok 1 - one"
	fails 1 "not ok 1 - on: there is no such test" bash "$D/script" test_on
	fails 1 "ok 2 - one" bash "$D/script" test_none test_one
	fails 1 "there is no such test" bash "$D/script" 'test_*'
}

test_a_test_that_a_script_made_is_run() {
	script 'for i in 1 2; do eval "test_of_$i() { echo $i >>$OUT; }"; done'
	same "$(OUT=$D/out bash "$D/script")" "1..2
ok 1 - of_1
ok 2 - of_2"
	same "$(cat "$D/out")" "1
2"
}

# By its name, or where all are wanted, a long test runs.
test_a_long_test_runs_where_it_is_asked_for() {
	script "long_tests='test_b
test_c'
test_a() { :; }
test_b() { :; }
test_c() { :; }"
	same "$(LONG_TESTS=0 bash "$D/script")" "1..1
ok 1 - a"
	same "$(LONG_TESTS=0 bash "$D/script" test_c)" "1..1
ok 1 - c"
	same "$(LONG_TESTS=1 bash "$D/script" | head -n 1)" "1..3"
}

# What tests/times says takes longest would be waited for in the end, were it last.
test_the_longest_programs_start_first() {
	local name names
	names=$(awk '{print $2}' "$TOP/tests/times" | head -n 3)
	for name in new $(tac <<<"$names"); do
		printf '%s\n' '#!/bin/sh' "echo $name >>'$D/order'" 'echo "ok 1 - it"' >"$D/$name"
		chmod +x "$D/$name"
	done
	# shellcheck disable=SC2046
	BUILD=$D env -u TALLY "$TOP/tests/run" --name order $(for name in new $(tac <<<"$names"); do
		echo "$D/$name"
	done) >"$D/said"
	same "$(cat "$D/order")" "$names
new"
	same "$(sed -n 's,^order/\([^ ]*\) .*,\1,p' "$D/said")" "new
$(tac <<<"$names")" "the order in which they were named"
}

# The end of a CI's output may be all that is seen of a run.
test_the_summary_tells_why_a_test_failed() {
	printf '%s\n' '#!/bin/sh' 'echo said by one' 'echo "ok 1 - one"' 'echo the cause' \
		'echo "not ok 2 - two"' 'echo a cause of cmocka' 'seq -f "line %g of three" 60' \
		'echo "ok 3 - three"' 'exit 1' >"$D/failing"
	chmod +x "$D/failing"
	TALLY=$D/tally BUILD=$D fails 1 "1 failed" "$TOP/tests/run" --name short "$D/failing"
	grep -qF "the cause" "$D/tally.failed"
	grep -qF "a cause of cmocka" "$D/tally.failed"
	fails 1 "" grep -F "said by one" "$D/tally.failed"
	fails 1 "" grep -F "line 60 of three" "$D/tally.failed"
	# The beginning of much output, and a cause in the middle of it.
	printf '%s\n' '#!/bin/sh' 'echo "ok 1 - one"' 'echo the beginning' 'seq 100' \
		'echo "x.c:1:2: runtime error: a cause"' 'seq 100' 'echo "not ok 2 - two"' >"$D/failing"
	rm "$D/tally.failed"
	TALLY=$D/tally BUILD=$D fails 1 "1 failed" "$TOP/tests/run" --name short "$D/failing"
	grep -qF "the beginning" "$D/tally.failed"
	grep -qF "runtime error: a cause" "$D/tally.failed"
	[ "$(wc -l <"$D/tally.failed")" -lt 80 ]
	# A program may end in the middle of a test, by itself or as it takes too long.
	printf '%s\n' '#!/bin/sh' 'echo "ok 1 - one"' 'echo a last word' 'exec $END' >"$D/failing"
	for end in false 'sleep 600'; do
		rm "$D/tally.failed"
		TALLY=$D/tally BUILD=$D END=$end fails 1 "1 failed" \
			"$TOP/tests/run" --name short --timeout 5 "$D/failing"
		grep -qF 'after "ok 1 - one":' "$D/tally.failed"
		grep -qF "a last word" "$D/tally.failed"
	done
	grep -qF "timed out after 5 s" "$D/tally.failed"
}

test_a_script_that_a_signal_ends_says_where_it_was() {
	script 'waits() { : >"$OUT/ready"; until [ -e "$OUT/never" ]; do sleep 0.05; done; }' 'test_one() { waits; }'
	OUT=$D group bash "$D/script" >"$D/said" 2>&1
	eventually 60 test -e "$D/ready"
	signal_group 1
	wait $GROUP && fail "it passed"
	grep '^# line (a signal) < [0-9]* < ' "$D/said"
}

test_what_never_comes_is_told_with_what_its_last_try_said() {
	script 'looks() { same "$(cat "$OUT/is")" right; true; }
	more() { false; true; }
	nested() { eventually 1 looks; }
	test_fails() { eventually 1 looks; }
	test_a_line() { eventually 1 more; }
	test_nested() { eventually 1 nested; }
	test_comes() {
		(sleep 1 && echo right >"$OUT/is") &
		eventually 60 looks
	}'
	echo wrong >"$D/is"
	OUT=$D fails 1 "# last try: FAIL: expected 'right', got 'wrong'" bash "$D/script" test_fails
	OUT=$D fails 1 "FAIL: not within time: looks" bash "$D/script" test_fails
	OUT=$D fails 1 ": false" bash "$D/script" test_a_line
	OUT=$D fails 1 "# last try: # last try: FAIL: expected" bash "$D/script" test_nested
	OUT=$D bash "$D/script" test_comes
}

# A test that got another name would start last.
test_times_are_of_tests_that_are_there() {
	local name
	while read -r _ name; do
		[ -n "$(find "$TOP" -path "$BUILD" -prune -o \( -name "$name" -o -name "$name.c" \) -print -quit)" ] ||
			fail "tests/times has $name, which is no test"
	done <"$TOP/tests/times"
}

# A make that ends at once, but for the suite that waits for the last of all others.
test_a_suite_that_takes_long_holds_up_no_other() {
	local D=$D/lanes
	mkdir -p "$D/bin" "$D/tree/tests"
	cp "$TOP/tests/check" "$D/tree/tests"
	cat >"$D/bin/make" <<-'END'
		#!/bin/bash
		for target; do
			case $target in -* | *=*) ;; *) break ;; esac
		done
		echo "$target" >>"$D/order"
		case $target in
		all) exit ;;
		lint) exit 1 ;;
		check-vm) timeout 60 bash -c 'until grep -qx check-engine "$D/order"; do sleep 0.05; done' ||
			exit ;;
		esac
		echo "1 0 0" >"$TALLY"
	END
	chmod +x "$D/bin/make"
	export D
	PATH=$D/bin:$PATH fails 1 "9 passed, 1 failed, 0 skipped" \
		env -u LONGER -u TALLY "$D/tree/tests/check"
	same "$(grep -cxE 'check-.*|lint|fuzz' "$D/order")" 10
	same "$(sort "$D/order" | uniq -d)" ""
}

test_a_second_signal_does_not_end_the_clean_up() {
	local D=$D/twice
	mkdir "$D"
	script 'slow() {
		: >"$OUT/$1.begun"
		until [ -e "$OUT/go" ]; do sleep 0.05 || exit; done
		: >"$OUT/$1.done"
	}
	at_exit slow script
	test_one() {
		at_exit slow test
		echo "$TEST_DIR" >"$OUT/dir"
		: >"$OUT/ready"
		# A signal may be lost on a command that is just being started.
		until [ -e "$OUT/never" ]; do sleep 0.05; done
	}'
	OUT=$D group bash "$D/script" >"$D/said" 2>&1
	eventually 30 test -e "$D/ready"
	signal_group 2
	eventually 30 test -e "$D/test.begun"
	signal_group 3
	: >"$D/go"
	wait $GROUP && fail "it passed"
	[ -e "$D/test.done" ]
	[ -e "$D/script.done" ]
	[ ! -e "$(cat "$D/dir")" ]
}

test_what_a_daemon_was_is_gone_when_it_ends() {
	[ "${TRIB_APART:-}" = $$ ] || fail "build/test/tests/apart is not there"
	local pid
	pid=$(sleep 600 >/dev/null 2>&1 & echo $!)
	at_exit kill "$pid"
	same "$(awk '/^PPid:/ {print $2}' "/proc/$pid/status")" $$
	kill "$pid"
	eventually 30 eval "! kill -0 $pid"
}

# A copy of a mount keeps its device and its server when it is unmounted.
test_what_a_test_mounts_nobody_else_gets() {
	need_root
	need unshare
	script 'test_one() {
		mkdir "$OUT/mnt"
		mount -t tmpfs none "$OUT/mnt"
		at_exit umount "$OUT/mnt"
		: >"$OUT/ready"
		until [ -e "$OUT/go" ]; do sleep 0.05; done
		grep -F " $OUT/mnt " /proc/self/mountinfo
	}'
	OUT=$D bash "$D/script" >"$D/said" 2>&1 &
	local script=$! other
	at_exit touch "$D/go"
	eventually 30 test -e "$D/ready"
	unshare -m sleep 600 &
	other=$!
	at_exit kill $other
	eventually 30 eval '[ "$(cat /proc/'$other'/comm)" = sleep ]'
	fails 1 "" grep -F " $D/mnt " "/proc/$other/mountinfo"
	touch "$D/go"
	wait $script || fail "it is not mounted"
}

test_a_demo_that_is_ended_leaves_nothing_behind() {
	need_root
	need ip losetup nsenter mkfs.ext4
	[ "$(df -Pk "$D" | awk 'NR == 2 {print $4}')" -gt $((7 << 20)) ] || skip "needs 7 GiB free"
	TRIB_DEMO_DIR=$D group "$TOP/tests/demo" >"$D/said" 2>&1
	mounted() {
		kill -0 $GROUP || { cat "$D/said" >&"$_SAID"; exit 1; }
		findmnt -rno TARGET | grep -q "^$D/tributary-demo.*/mnt$"
	}
	eventually 120 mounted
	same "$(ip netns list | grep -c "^trib$GROUP-")" 4
	signal_group 3
	wait $GROUP && fail "it passed"
	same "$(find "$D" -maxdepth 1 -name 'tributary-demo.*')" ""
	same "$(findmnt -rno TARGET | grep -F "$D/" || true)" ""
	same "$(losetup -nl -O BACK-FILE | grep -F "$D/" || true)" ""
	same "$(ip netns list | grep "^trib$GROUP-" || true)" ""
	same "$(grep -lsF "$D/tributary-demo" /proc/[0-9]*/cmdline || true)" ""
}

# A root that is never tried again would not be noticed.
test_debian_13_is_left_out_only_where_it_cannot_be_had() {
	local try=(env "PATH=$D/bin:$PATH" "APT_CONFIG=$D/apt.conf" "TRIB_DEBIAN13_CACHE=$D/cache" "$TOP/tests/debian13" true)
	[ "$(id -u)" = 0 ] || skip "needs root"
	unset TALLY # what is tried here is no result of the whole
	mkdir "$D/bin" "$D/sources"
	printf '%s\n' '#!/bin/sh' 'echo nothing but trouble; exit 3' >"$D/bin/debootstrap"
	chmod +x "$D/bin/debootstrap"
	printf '%s\n' 'Dir::Etc::sourcelist "/dev/null";' "Dir::Etc::sourceparts \"$D/sources\";" >"$D/apt.conf"
	fails 77 "needs root" setpriv --reuid 1234 --clear-groups "$TOP/tests/debian13" true
	fails 77 "this machine's apt has no source" "${try[@]}"
	echo "deb file:$D/mirror $(. /etc/os-release && echo "$VERSION_CODENAME") main" >"$D/sources/a.list"
	fails 77 "has no trixie" "${try[@]}"
	mkdir -p "$D/mirror/dists/trixie"
	: >"$D/mirror/dists/trixie/Release"
	fails 1 "nothing but trouble" "${try[@]}"
}

run_tests "$@"
