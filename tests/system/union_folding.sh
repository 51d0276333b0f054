#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Branches that take names for one, as "Foo" and "foo", are refused; and so are
# directories that do, inside a branch that else does not. Those of the kernel's own
# kinds are in tests/vm, too, where the kernel has them.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need chattr lsattr
FOLDING_FS=$BUILD/test/tests/union/folding_fs

one_branch() {
	small_branches 20M 20M
	at_exit union_end "$M" # if one is taken after all
	rm -rf "$D/f" "$D/f.img" "$D/ctl" "$D/below"
	mkdir "$D/f"
}
at_f() { # COMMAND...: it mounts $D/f
	"$@" >"$D/said" 2>&1 || skip "cannot be had here: $* ($(head -n 1 "$D/said"))"
	at_exit umount -l "$D/f"
}
disk_at_f() { # TYPE OPTIONS SIZE MKFS...
	command -v "$4" >/dev/null || skip "needs $4"
	truncate -s "$3" "$D/f.img"
	"${@:4}" "$D/f.img" >"$D/said" 2>&1
	at_f mount -t "$1" -o "loop$2" "$D/f.img" "$D/f"
}

# At a mount, also read-only and as one of several, and when it is to be added.
is_refused() { # TEXT
	local words
	rm -f "$D/log"
	for words in "" "=nc"; do
		fails 1 "$1" trib-union "$D/a:$D/f$words" "$M"
		fails 1 "'$D/f'" trib-union "$D/f$words" "$M"
	done
	[ ! -e "$D/f/.tributary" ] # it is left as it was
	is_refused_to_readers "$1"
	union "policy=ff,control=$D/ctl" "$D/a:$D/b"
	fails 1 "$1" ctl add "$D/f"
	same "$(ctl status | jq -c '.branches | map(.path)')" "[\"$D/a\",\"$D/b\"]"
	stop
	[ ! -e "$D/f/.tributary" ]
}
is_refused_to_readers() {
	mkdir -p "$D/f/Some name"
	fails 1 "$1" trib-union "$D/a:$D/f=ro" "$M"
	fails 1 "$1" trib-union -o ro "$D/a:$D/f" "$M"
}

unknown() { # WAY
	one_branch
	mkdir -p "$D/below"
	"$FOLDING_FS" "$1" "$D/below" "$D/f" >"$D/said" 2>&1 &
	at_exit kill $!
	at_exit umount -l "$D/f"
	eventually 30 mountpoint -q "$D/f"
}
test_one_of_a_kind_that_nobody_knows_is_refused() {
	unknown case
	is_refused "its file system"
}
test_so_is_one_that_folds_other_letters() {
	unknown wide
	is_refused_but_to_readers "its file system"
}
test_so_is_one_that_composes_letters() {
	unknown composed
	is_refused_but_to_readers "its file system"
}
test_so_is_one_that_drops_dots() {
	unknown dots
	is_refused_but_to_readers "its file system"
}
# The names that are there already may not show that a branch folds.
is_refused_but_to_readers() {
	fails 1 "$1" trib-union "$D/a:$D/f" "$M"
	fails 1 "$1" trib-union "$D/f=nc" "$M"
	[ ! -e "$D/f/.tributary" ]
}
test_one_that_does_not_is_a_branch() {
	unknown none
	union policy=ff "$D/f:$D/a"
	mkdir "$M/Dir" "$M/dir"
	same "$(ls "$D/f")" "$(printf 'Dir\ndir')"
	same "$(ls -A "$D/f/.tributary")" ""
	stop
}
# Names by which a branch could be taken for one that folds.
test_names_that_are_of_one_file_are_no_folding() {
	small_branches 20M 20M
	echo 1 >"$D/a/file"
	ln "$D/a/file" "$D/a/File"
	mkdir "$D/a/dir" "$D/a/Dir" "$D/a/Mounted" "$D/a/mounted"
	mount --bind "$D/a/Mounted" "$D/a/mounted"
	at_exit umount -l "$D/a/mounted"
	union policy=ff "$D/a:$D/b"
	stop
	union policy=ff,ro "$D/a:$D/b"
	same "$(cat "$M/File")" 1
	stop
}

test_fat_is_refused() {
	one_branch
	disk_at_f vfat "" 64M mkfs.vfat
	is_refused "FAT"
}
test_exfat_is_refused() {
	one_branch
	disk_at_f exfat "" 64M mkfs.exfat
	is_refused "use ext4" # the kernel's has no file handles either
}
test_ntfs_is_refused() {
	one_branch
	disk_at_f ntfs3 "" 64M mkntfs -F -q
	is_refused "NTFS"
}
test_xfs_that_folds_is_refused() {
	one_branch
	disk_at_f xfs "" 320M mkfs.xfs -q -n version=ci
	is_refused "its file system"
}
test_ext4_whose_root_folds_is_refused() {
	one_branch
	disk_at_f ext4 "" 64M mkfs.ext4 -q -O casefold
	rmdir "$D/f/lost+found"
	chattr +F "$D/f"
	is_refused "its"
	rmdir "$D/f/Some name"
	# An empty one that is only read says it by its flag.
	fails 1 "its directory" trib-union "$D/a:$D/f=ro" "$M"
}
test_a_directory_of_tmpfs_that_folds_is_refused() {
	one_branch
	at_f mount -t tmpfs -o casefold none "$D/f"
	mkdir "$D/f/root"
	chattr +F "$D/f/root"
	fails 1 "its" trib-union "$D/a:$D/f/root" "$M"
	directory_inside
}

# In a directory that folds nothing is found, made, listed or removed, by any name.
is_refused_inside() { # DIRECTORY
	local d=$1
	fails any "not supported" ls "$d"
	fails any "not supported" cat "$d/Foo"
	fails any "not supported" cat "$d/foo"
	fails any "not supported" touch "$d/new"
	fails any "not supported" mkdir "$d/Sub"
	fails any "not supported" mv "$M/plain/file" "$d/file"
	fails any "not supported" ln "$M/plain/file" "$d/file"
	fails any "not supported" rm "$d/Foo"
	fails any "not supported" chmod 700 "$d"
	[ -d "$d" ]
	same "$(grep -c "'$D/f/${d#"$M/"}' is refused" "$D/log")" 1
}
directory_inside() {
	mkdir -p "$D/f/folds" "$D/f/plain" "$D/f/deep/folds" "$D/a/folds" "$D/f/empty"
	chattr +F "$D/f/folds" "$D/f/deep/folds"
	echo 1 >"$D/f/folds/Foo"
	echo 2 >"$D/f/plain/file"
	echo 3 >"$D/a/folds/mine"
	rm -f "$D/log"
	union "policy=ff,control=$D/ctl" "$D/f:$D/a"
	is_refused_inside "$M/folds"
	is_refused_inside "$M/deep/folds"
	fails any "not supported" cat "$M/folds/mine" # or it would hide one
	# All else is as ever.
	same "$(cat "$M/plain/file")" 2
	touch "$M/plain/File"
	same "$(ls "$M/plain")" "$(printf 'File\nfile')"
	same "$(ls "$M" | grep -v root | grep -v lost+found | paste -sd' ')" "deep empty folds plain"
	# A directory that comes to fold while it is used; and as the next server sees it.
	same "$(ls "$M/empty")" ""
	chattr +F "$D/f/empty"
	is_refused_inside "$M/empty"
	kill -9 "$(server)"
	fails any "not supported" touch "$M/empty/x"
	fails any "not supported" ls "$M/folds"
	rmdir "$M/empty" # which shows nothing
	[ ! -e "$D/f/empty" ]
	same "$(trib-union --control "$D/ctl" status | jq -c '.branches | map(.state)')" '["ok","ok"]'
	stop
	# So it is where nothing is changed, and on the higher branch.
	union "policy=ff" "$D/a:$D/f=ro"
	fails any "not supported" ls "$M/folds"
	fails any "not supported" cat "$M/folds/foo"
	fails any "not supported" touch "$M/folds/x"
	same "$(cat "$M/plain/file")" 2
	stop
	# And when its branch is added.
	rm -f "$D/ctl"
	union "policy=ff,control=$D/ctl" "$D/a"
	same "$(ls "$M/folds")" mine
	ctl add "$D/f" >/dev/null
	fails any "not supported" ls "$M/folds"
	fails any "not supported" cat "$M/folds/foo"
	stop
	# A directory is not cloned into one that folds.
	mkdir -p "$D/a/deep/folds/sub"
	union policy=lup "$D/f:$D/a"
	fails any "not supported" touch "$M/deep/folds/sub/x"
	same "$(ls "$D/f/deep/folds")" ""
	stop
}
test_a_directory_of_ext4_that_folds_is_refused() {
	one_branch
	disk_at_f ext4 "" 64M mkfs.ext4 -q -O casefold
	directory_inside
}

run_tests "$@"
