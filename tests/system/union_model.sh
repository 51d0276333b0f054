#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The same random calls on a union of 1 to 16 branches, filled with names that
# overlap, and on a plain directory, by processes of four users: every result,
# errno, time and the whole tree must be alike, also when mounted again.
#
#	[SEED=N] [SEEDS=N] [HURT_SEEDS=N] [OPTIONS=O] tests/system/union_model.sh
#
# How many seeds of each variant: SEEDS (the plain one), KILL_SEEDS (its server
# is killed), DRAIN_SEEDS, HURT_SEEDS (a file system is lost), LITTLE_SEEDS (full
# branches), QUOTA_SEEDS, ERR_SEEDS (objects answer with errors), KILL_DRAIN_SEEDS,
# KILL_HURT_SEEDS, KILL_LITTLE_SEEDS, KILL_ERR_SEEDS (both at once).
# What fails is printed with its seed and the few calls that it takes; again
# by SEED=N SEEDS=1.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_kill_lib.sh"
need_root
need mkfs.ext4 debugfs unshare
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
D=$TEST_DIR
chmod 755 "$D"
MODEL=$BUILD/test/tests/union/model_main
# Files open at the unmount may never be closed: the kernel sends their release in
# the background, and the end of the connection comes before.
printf 'leak:%s\n' op_open op_opendir op_create >"$D/unclosed"
export LSAN_OPTIONS=suppressions=$D/unclosed:print_suppressions=0

# place NAME [SIZE]: five file systems for one that runs; with SIZE they have
# small blocks, and it is the size of three branches
place() {
	local name size small
	mkdir -p "$D/$1/mnt"
	at_exit umount -l "$D/$1/mnt"
	for name in fs0 fs1 fs2 fs3 plain; do
		rm -f "$D/$1/$name.img" # somebody may hold what was mounted
		size=${2:-512M} small=${2:+-N 256}
		case $name in
		fs1 | plain) size=512M small= ;;
		esac
		truncate -s $size "$D/$1/$name.img"
		mkfs.ext4 -q -F -b $([ $# = 1 ] && echo 4096 || echo 1024) $small -I 256 -m 0 -O ^has_journal "$D/$1/$name.img"
		mkdir -p "$D/$1/$name"
		mount -o loop,noatime "$D/$1/$name.img" "$D/$1/$name"
		at_exit umount -l "$D/$1/$name"
		rmdir "$D/$1/$name/lost+found"
	done
}

# place_of NAME COMMAND...: as above, the file systems are what COMMAND makes
place_of() {
	local name
	mkdir -p "$D/$1/mnt"
	at_exit umount -l "$D/$1/mnt"
	for name in fs0 fs1 fs2 fs3 plain; do
		rm -f "$D/$1/$name.img"
		truncate -s 512M "$D/$1/$name.img"
		"${@:2}" "$D/$1/$name.img" >"$D/mkfs.said" 2>&1 || fail "$(cat "$D/mkfs.said")"
		mkdir -p "$D/$1/$name"
		mount -o loop,noatime "$D/$1/$name.img" "$D/$1/$name"
		at_exit umount -l "$D/$1/$name"
	done
}

# The difference is printed last: a failure shows the last lines.
model() { # PLACE ARGUMENTS
	rm -f "$D/$1/mnt.log"
	"$MODEL" --program "$BUILD/bin/trib-union" --options "${OPTIONS:-}" "${@:2}" "$D/$1" >"$D/$1.said" 2>&1 ||
		{ server_said "$D/$1/mnt.log"; short "$D/$1.said"; return 1; }
}

# The same, but its file systems, with journals, are mounted where it alone sees
# them: it unmounts one and mounts it again. Nobody else may keep that. Half of
# them have no checksums: what is damaged there is met in another way.
alone() { # PLACE ARGUMENTS
	local name
	mkdir -p "$D/$1/mnt"
	for name in fs0 fs1 fs2 fs3 plain; do
		rm -f "$D/$1/$name.img"
		truncate -s 512M "$D/$1/$name.img"
		case $name in
		fs[02]) mkfs.ext4 -q -F -I 256 -m 0 -O metadata_csum "$D/$1/$name.img" ;;
		*) mkfs.ext4 -q -F -I 256 -m 0 -O ^metadata_csum "$D/$1/$name.img" ;;
		esac
		mkdir -p "$D/$1/$name"
	done
	rm -f "$D/$1/mnt.log"
	# shellcheck disable=SC2016
	unshare --mount --propagation private \
		bash -c 'for name in fs0 fs1 fs2 fs3 plain; do
				mount -o loop,noatime "$0/$name.img" "$0/$name" &&
					rmdir "$0/$name/lost+found" || exit 1
			done
			exec "$@" "$0"' \
		"$D/$1" "$MODEL" --program "$BUILD/bin/trib-union" --options "${OPTIONS:-}" \
		"${@:2}" >"$D/$1.said" 2>&1 ||
		{ server_said "$D/$1/mnt.log"; short "$D/$1.said"; return 1; }
}
hurting() { alone "$1" --hurting "${@:2}"; }
erring() { alone "$1" --erring "${@:2}"; }

# The last difference, and how many there are: seed and calls come last.
short() { cut -c 1-1000 "$1" | tail -n 24; }

# A sanitizer's report, or else the last few messages.
server_said() { # LOG
	if grep -qE '^(==[0-9]+==ERROR|WARNING: ThreadSanitizer)' "$1"; then
		grep -E -m 1 -A 30 '^(==[0-9]+==ERROR|WARNING: ThreadSanitizer)' "$1"
	else
		tail -n 5 "$1"
	fi | cut -c 1-200 | sed 's/^/server: /'
}

test_is_as_one_plain_directory() {
	local first=${SEED:-1} seeds=${SEEDS:-100} one two rc=0
	place one
	place two
	model one --shrink --seed "$first" --seeds $((seeds - seeds / 2)) >"$D/one.out" &
	one=$!
	model two --shrink --seed $((first + seeds - seeds / 2)) --seeds $((seeds / 2)) >"$D/two.out" &
	two=$!
	wait $one || rc=1
	wait $two || rc=1
	cat "$D/one.out" "$D/two.out"
	[ $rc = 0 ] || fail "a union is not as a plain directory"
}

test_is_so_too_when_the_kernel_keeps_nothing() {
	place one
	OPTIONS=shared model one --shrink --seed 1 --seeds 10
}

test_is_so_too_on_btrfs_with_subvolumes_inside() {
	which mkfs.btrfs >/dev/null || skip "needs btrfs-progs"
	place_of one mkfs.btrfs -q
	model one --other-kind --shrink --seed 601 --seeds 10
	model one --other-kind --draining --seed 621 --seeds 3
}

test_is_so_too_on_xfs() {
	which mkfs.xfs >/dev/null || skip "needs xfsprogs"
	place_of one mkfs.xfs -q
	model one --other-kind --shrink --seed 641 --seeds 10
}

test_is_so_too_while_branches_are_drained() {
	place one
	model one --draining --seed 101 --seeds "${DRAIN_SEEDS:-8}"
}

test_a_file_system_that_is_lost_and_comes_back_loses_nothing() {
	hurting one --seed "${SEED:-206}" --seeds "${HURT_SEEDS:-${SEEDS:-8}}"
	tail -n 1 "$D/one.said"
}

test_is_so_too_where_objects_answer_with_errors() {
	erring one --shrink --seed "${SEED:-701}" --seeds "${ERR_SEEDS:-${SEEDS:-8}}"
}

test_objects_answer_with_errors_and_servers_are_killed() {
	sent_again
	OPTIONS=survive=yes erring one --killing --seed "${SEED:-751}" --seeds "${KILL_ERR_SEEDS:-${SEEDS:-3}}"
}

# As above, with room on all of them, and quotas; tests/vm has a kernel for them.
limited_place() { # PLACE
	local name
	mkdir -p "$D/$1/mnt"
	at_exit umount -l "$D/$1/mnt"
	for name in fs0 fs1 fs2 fs3 plain; do
		rm -f "$D/$1/$name.img"
		truncate -s 128M "$D/$1/$name.img"
		mkfs.ext4 -q -F -b 1024 -I 256 -m 0 -O ^has_journal,quota,project \
			-E quotatype=usrquota:grpquota:prjquota "$D/$1/$name.img"
		mkdir -p "$D/$1/$name"
		mount -o loop,noatime,usrquota,grpquota,prjquota "$D/$1/$name.img" "$D/$1/$name" 2>/dev/null ||
			skip "the kernel has no quotas"
		at_exit umount -l "$D/$1/$name"
		rmdir "$D/$1/$name/lost+found"
	done
}

test_is_so_too_while_files_move_from_where_a_quota_is_met() {
	limited_place one
	model one --quotas --count 600 --seed "${SEED:-801}" --seeds "${QUOTA_SEEDS:-${SEEDS:-2}}"
	tail -n 1 "$D/one.said"
}

test_is_so_too_while_its_server_is_killed() {
	sent_again
	place one
	OPTIONS=survive=yes${OPTIONS:+,$OPTIONS} model one --killing --shrink --seed "${SEED:-1}" --seeds "${KILL_SEEDS:-${SEEDS:-10}}"
}

test_is_so_too_while_its_server_is_killed_and_branches_are_drained() {
	sent_again
	place one
	OPTIONS=survive=yes model one --killing --draining --seed "${SEED:-301}" --seeds "${KILL_DRAIN_SEEDS:-${SEEDS:-8}}"
}

test_is_so_too_while_its_server_is_killed_and_files_move_from_full_branches() {
	sent_again
	place one 160K
	OPTIONS=survive=yes model one --killing --little --count 1000 --seed "${SEED:-401}" --seeds "${KILL_LITTLE_SEEDS:-${SEEDS:-4}}"
}

test_a_file_system_is_lost_and_servers_are_killed() {
	sent_again
	OPTIONS=survive=yes hurting one --killing --seed "${SEED:-501}" --seeds "${KILL_HURT_SEEDS:-${SEEDS:-8}}"
}

test_is_so_too_while_files_move_from_full_branches() {
	place one 160K
	model one --little --count 1000 --seed 1 --seeds "${LITTLE_SEEDS:-4}"
}

# A comparison that finds nothing is worth nothing.
test_finds_each_mistake_made_on_purpose() {
	local fault
	place one
	for fault in errno data mode lost time xattr owner rename; do
		fails 1 "differ" "$MODEL" --program "$BUILD/bin/trib-union" --fault $fault --seeds 2 "$D/one"
	done
	for fault in absent broken; do
		fails 1 "differ" hurting two --fault $fault --seeds 1
	done
	for fault in absent kept; do
		fails 1 "differ" alone two --erring --fault $fault --seed 701 --seeds 3
	done
}

test_finds_who_goes_above_a_quota() {
	limited_place one
	fails 1 "names of" model one --quotas --count 600 --fault quota --seeds 2
}

run_tests "$@"
