#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# tests/fuzz tells a target that holds from one that breaks, and keeps the
# input that broke it.
. "$(dirname "$0")/../lib.sh"
need clang

tree=$TEST_DIR/tree
mkdir -p "$tree/tests/corpus/careless_fuzz" "$tree/build/fuzz/x"
cp "$TOP/tests/fuzz" "$tree/tests"

# target NAME CONDITION: it breaks when CONDITION holds of data and size
target() {
	cat >"$tree/$1.c" <<-END
		#include <stddef.h>
		#include <stdint.h>
		#include <stdlib.h>
		#include <string.h>
		int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
		int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
		{
			if ($2)
				abort();
			return 0;
		}
	END
	clang -g -O1 -fsanitize=fuzzer,address -o "$tree/build/fuzz/x/$1" "$tree/$1.c"
}
fuzz() {
	(cd "$tree" && env -u BUILD TALLY="$tree/tally" tests/fuzz "$@")
}
fresh() {
	rm -rf "$tree/tally" "$tree/build/fuzz/corpus" "$tree/build/fuzz/crash"
	rm -f "$tree/tests/corpus/careless_fuzz/"*
}

target careful_fuzz 'size > SIZE_MAX / 2' || skip_all "clang has no libFuzzer"
target careless_fuzz 'size >= 2 && data[0] == 66 && data[1] == 71'
holds=build/fuzz/x/careful_fuzz breaks=build/fuzz/x/careless_fuzz

test_a_target_that_holds_passes() {
	fresh
	fuzz 1 $holds
	same "$(cat "$tree/tally")" "1 0 0"
}

test_an_input_that_breaks_a_target_is_kept_and_shown() {
	local out crash
	fresh
	out=$(fuzz 20 $holds $breaks) && fail "it passed: $out"
	same "$(cat "$tree/tally")" "1 1 0"
	grep -q '^not ok 2 - careless_fuzz' <<<"$out"
	crash=$(sed -n 's/^# reproduce: //p' <<<"$out")
	# The command shown breaks it again.
	(cd "$tree" && $crash) >/dev/null 2>&1 && fail "'$crash' passed"
	same "$(ls "$tree/tests/corpus/careless_fuzz")" "" "the tree's corpus"
}

test_an_input_of_the_corpus_that_breaks_is_named() {
	local out
	fresh
	echo fine >"$tree/tests/corpus/careless_fuzz/a"
	echo BGx >"$tree/tests/corpus/careless_fuzz/b"
	echo fine >"$tree/tests/corpus/careless_fuzz/c"
	out=$(fuzz 0 $breaks) && fail "it passed: $out"
	grep -q "^# reproduce: .*/tests/corpus/careless_fuzz/b$" <<<"$out"
	rm "$tree/tests/corpus/careless_fuzz/b"
	fuzz 0 $breaks
}

test_a_wrong_call_is_refused() {
	fails 2 usage fuzz
	fails 2 usage fuzz soon $holds
}

run_tests "$@"
