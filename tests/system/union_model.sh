#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same random calls on a union of 1 to 16 branches, filled with names that
# overlap, and on a plain directory, by processes of four users: every result,
# errno, time and the whole tree must be alike, also when mounted again.
#
#	[SEED=N] [SEEDS=N] [OPTIONS=O] tests/system/union_model.sh
#
# What fails is printed with its seed and the few calls that it takes; again
# by SEED=N SEEDS=1.
. "$(dirname "$0")/../lib.sh"
need_root
need mkfs.ext4
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
D=$TEST_DIR
chmod 755 "$D"
MODEL=$BUILD/test/tests/union/model_main

# place NAME: five file systems for one that runs
place() {
	local name
	mkdir -p "$D/$1/mnt"
	at_exit umount -l "$D/$1/mnt"
	for name in fs0 fs1 fs2 fs3 plain; do
		truncate -s 512M "$D/$1/$name.img"
		mkfs.ext4 -q -F -b 4096 -I 256 -m 0 -O ^has_journal "$D/$1/$name.img"
		mkdir -p "$D/$1/$name"
		mount -o loop,noatime "$D/$1/$name.img" "$D/$1/$name"
		at_exit umount -l "$D/$1/$name"
		rmdir "$D/$1/$name/lost+found"
	done
}

model() { # PLACE ARGUMENTS
	"$MODEL" --program "$BUILD/bin/trib-union" --options "${OPTIONS:-}" "${@:2}" "$D/$1" ||
		{ tail -n 50 "$D/$1/mnt.log"; return 1; }
}

test_is_as_one_plain_directory() {
	local first=${SEED:-1} seeds=${SEEDS:-100} one two rc=0
	place one
	place two
	model one --shrink --seed "$first" --seeds $((seeds - seeds / 2)) >"$D/one.out" 2>&1 &
	one=$!
	model two --shrink --seed $((first + seeds - seeds / 2)) --seeds $((seeds / 2)) >"$D/two.out" 2>&1 &
	two=$!
	wait $one || rc=1
	wait $two || rc=1
	[ $rc = 0 ] || { cut -c 1-1000 "$D/one.out" "$D/two.out"; fail "a union is not as a plain directory"; }
}

test_is_so_too_when_the_kernel_keeps_nothing() {
	place one
	OPTIONS=shared model one --shrink --seed 1 --seeds 10
}

# A comparison that finds nothing is worth nothing.
test_finds_each_mistake_made_on_purpose() {
	local fault
	place one
	for fault in errno data mode lost time xattr owner rename; do
		fails 1 "differ" "$MODEL" --program "$BUILD/bin/trib-union" --fault $fault --seeds 2 "$D/one"
	done
}

run_tests "$@"
