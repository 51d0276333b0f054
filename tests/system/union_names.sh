#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names of a union that cannot be given, and those that are not to be seen.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need python3

exchange() { # ONE OTHER: their names
	python3 -c 'import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, os.fsencode(sys.argv[1]), -100, os.fsencode(sys.argv[2]), 2) < 0:
    sys.exit(os.strerror(ctypes.get_errno()))' "$@"
}

# The first has no inode left, so that nothing can be noted on it.
branches_one_of_them_full() {
	loop_fs a 8M mkfs.ext4 -q -N 32
	loop_fs b 16M mkfs.ext4 -q
	loop_fs c 16M mkfs.ext4 -q
	mkdir -p "$M"
	echo "f of a" >"$D/a/f"
	echo "g of b" >"$D/b/g"
	echo "hidden f" >"$D/c/f"
	echo "hidden g" >"$D/c/g"
	union policy=ff "$D/a:$D/b:$D/c"
	stat "$M/f" "$M/g" >/dev/null
	local i=0
	while touch "$D/a/fill-$i" 2>/dev/null; do i=$((i + 1)); done
}

what_is_where() {
	local file
	for file in "$D"/{a,b,c}/[fg] "$D"/{a,b,c}/.tributary/*; do
		[ ! -f "$file" ] || echo "${file#"$D/"}: $(cat "$file")"
	done
}

test_a_rename_that_fails_leaves_what_the_names_hide() {
	branches_one_of_them_full
	local before
	before=$(what_is_where)
	fails any "No space" mv "$M/f" "$M/g"
	same "$(what_is_where)" "$before"
	same "$(cat "$M/f" "$M/g")" "f of a
g of b"
	rm "$D/a/fill-0"
	mv "$M/f" "$M/g"
	same "$(cat "$M/g")" "f of a"
	same "$(what_is_where)" "a/g: f of a"
	stop
}

test_an_exchange_that_fails_leaves_what_the_names_hide() {
	branches_one_of_them_full
	local before
	before=$(what_is_where)
	fails any "No space" exchange "$M/f" "$M/g"
	same "$(what_is_where)" "$before"
	same "$(cat "$M/f" "$M/g")" "f of a
g of b"
	rm "$D/a/fill-0"
	exchange "$M/f" "$M/g"
	same "$(cat "$M/f" "$M/g")" "g of b
f of a"
	same "$(what_is_where)" "a/g: f of a
b/f: g of b"
	stop
}

test_a_rename_over_a_branch_that_cannot_be_changed_is_taken_back() {
	three_branches
	echo "f of a" >"$D/a/f"
	echo "hidden g" >"$D/a/g"
	echo "g of b" >"$D/b/g"
	chattr +i "$D/b/g"
	union policy=ff "$D/b:$D/a"
	local before
	before=$(what_is_where)
	fails any "not permitted" mv "$M/f" "$M/g"
	same "$(what_is_where)" "$before"
	chattr -i "$D/b/g"
	mv "$M/f" "$M/g"
	same "$(cat "$M/g")" "f of a"
	same "$(what_is_where)" "a/g: f of a"
	stop
}

run_tests "$@"
