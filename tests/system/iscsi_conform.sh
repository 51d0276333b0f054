#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The iSCSI target before libiscsi's conformance suite: the one that is
# installed, and that of 1.20.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/iscsi_lib.sh"
need iscsi-test-cu

# Tests of the suite that may fail: none.
known_failures='^$'

# suite NAME ALLOWED SKIPS (extended expression) OPTIONS OF THE TOOL...: runs
# it beside others; conform_end looks at what came of it
suite() {
	local name=$1 tool=${tool:-iscsi-test-cu}
	echo "$2" >"$TEST_DIR/allow.$name"
	shift 2
	timeout 240 "$tool" -d -n -S "$@" >"$TEST_DIR/suite.$name" 2>&1 &
	suites+=("$name") suite_pids+=($!)
	at_exit kill $! # it hands that on
}

# The tally of CUnit counts what was skipped as passed.
conform_end() {
	local name i=0 file total failed skipped bad=0 unknown odd
	for name in "${suites[@]}"; do
		file=$TEST_DIR/suite.$name
		wait "${suite_pids[$i]}" || true
		i=$((i + 1))
		total=$(awk '$1 == "tests" { print $2 }' "$file")
		failed=$(awk '$1 == "tests" { print $5 }' "$file")
		[ "${total:-0}" -gt 0 ] || fail "$name: $(tail -n 5 "$file")"
		skipped=$(grep -c 'SKIPPED\]' "$file" || true)
		echo "# count $name: $total run, $((total - failed - skipped)) passed, $skipped skipped, $failed failed" >&"$_SAID"
		unknown=$(sed -n 's/^Suite \(.*\), Test \(.*\) had failures.*/\1.\2/p' \
			"$file" | grep -Ev "$known_failures" || true)
		odd=$(grep -o 'SKIPPED\].*' "$file" |
			grep -Ev "SANITIZE|READDEFECTDATA|0-blocks|$(cat "$TEST_DIR/allow.$name")" |
			sort | uniq -c || true)
		[ -z "$unknown$odd" ] || { echo "$name: $unknown $odd" >&"$_SAID"; bad=1; }
	done
	[ "$bad" = 0 ]
}

# What one set-up skips, another runs; but SANITIZE and READ DEFECT DATA. WRITE
# SAME of 0 blocks is refused on thin units (WSNZ, SBC-3 6.6.4): not thin is a
# set-up of its own, for these.
test_the_conformance_suite_in_five_set_ups() {
	local suites=() suite_pids=() at
	local whole='not removable|not write-protected|LBPPB'
	chap_file chap user twelve_bytes_long
	chap_file odd 0xuser 0btwelve_bytes 0btarget 0xanother_of_12
	# Files: what memory has allocated is in units of its own.
	for at in thin removable read-only chap odd blocks thick; do
		mkdir "$TEST_DIR/$at.state"
		truncate -s 256M "$TEST_DIR/$at.disk"
	done
	start_server --export "a=$TEST_DIR/thin.disk" --thin --physical-size 512 --low-space 10 \
		--state-dir "$TEST_DIR/thin.state"
	suite thin "$whole" -t ALL "iscsi://$portal/$PREFIX:a/0" \
		"iscsi://$other/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/removable.disk" --thin --removable \
		--physical-size 512 \
		--state-dir "$TEST_DIR/removable.state"
	suite removable "not write-protected|Multipath unavailable|LBPPB" -t ALL \
		"iscsi://$portal/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/read-only.disk" --thin --read-only
	suite read-only "-" -t ALL.ReadOnly "iscsi://$portal/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/chap.disk" --thin --physical-size 512 \
		--chap "$TEST_DIR/chap" --state-dir "$TEST_DIR/chap.state"
	suite chap "$whole|Multipath unavailable" -t ALL \
		"iscsi://user%twelve_bytes_long@$portal/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/odd.disk" --thin --physical-size 512 \
		--chap "$TEST_DIR/odd" --state-dir "$TEST_DIR/odd.state"
	at="0xuser%0btwelve_bytes@$portal/$PREFIX:a/0"
	suite odd-names "$whole|Multipath unavailable" -t ALL \
		"iscsi://$at?target_user=0btarget&target_password=0xanother_of_12"
	# Eight logical blocks in a physical one. Not the whole: the tool's
	# GetLBAStatus.UnmapSingle reads one block and looks for another then.
	start_server --export "a=$TEST_DIR/blocks.disk" --export b=ram:256M --thin
	suite blocks-16 "-" -t ALL.WriteSame16 "iscsi://$portal/$PREFIX:a/0"
	suite blocks-10 "-" -t ALL.WriteSame10 "iscsi://$portal/$PREFIX:b/0"
	start_server --export "a=$TEST_DIR/thick.disk" --export b=ram:64M
	suite thick-16 "-" -t ALL.WriteSame16.ZeroBlocks "iscsi://$portal/$PREFIX:a/0"
	suite thick-10 "-" -t ALL.WriteSame10.ZeroBlocks "iscsi://$portal/$PREFIX:a/0"
	conform_end
	! grep -h SKIPPED "$TEST_DIR"/suite.thick-* || fail "skipped where it is there"
}

# The suite of 1.20 knows more. Of its iSCSISendTargets, which is left out, Simple
# wants SendTargets=All answered in a session that is no discovery, which RFC 7143
# C forbids, and Invalid an unknown key rejected, which 6.2 wants answered.
test_the_conformance_suite_of_1_20() {
	local suites=() suite_pids=() at reason tool=$BUILD/iscsi-tester/iscsi-test-cu
	local thin='not removable|not write-protected|LBPPB'
	reason=$("$TOP/tests/iscsi-tester" "$BUILD/iscsi-tester" 2>&1) ||
		skip "iscsi-test-cu of 1.20 can't be had: ${reason##*$'\n'}"
	chap_file chap user twelve_bytes_long
	truncate -s 512M "$TEST_DIR/new.disk" # what ExtendedCopy.Large wants
	start_server --export "a=$TEST_DIR/new.disk" --thin --physical-size 512 \
		--state-dir "$TEST_DIR"
	suite scsi-1.20 "$thin" -t 'ALL.[!i]*' "iscsi://$portal/$PREFIX:a/0" \
		"iscsi://$other/$PREFIX:a/0"
	start_server --export a=ram:64M --export b=ram:64M --export c=ram:64M \
		--export d=ram:64M --thin --chap "$TEST_DIR/chap"
	at="iscsi://user%twelve_bytes_long@$portal/$PREFIX"
	suite iscsi-1.20 - -t 'ALL.iSCSI[!ST]*' "$at:a/0"
	# Alone: one ends the session that the next would use, or resets the unit.
	suite abort-1.20 - -t ALL.iSCSITMF.AbortTaskSimpleAsync "$at:b/0"
	suite reset-1.20 - -t ALL.iSCSITMF.LUNResetSimpleAsync "$at:c/0"
	suite logout-1.20 - -t ALL.iSCSITMF.LogoutDuringIOAsync "$at:d/0"
	conform_end
}

run_tests "$@"
