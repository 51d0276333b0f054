#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Names of a union that cannot be given, and those that are not to be seen.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need python3

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

# In branch a something is mounted on: in its root, deep, on a file, and a
# directory of a itself once more. In b there is a directory of that name.
branches_with_mounts_inside() {
	loop_fs a 32M mkfs.ext4 -q
	loop_fs b 32M mkfs.ext4 -q
	rmdir "$D/a/lost+found" "$D/b/lost+found"
	mkdir -p "$M" "$D/a/disk" "$D/a/d/deep" "$D/a/d/bound" "$D/a/both" "$D/a/odd name" "$D/b/both"
	touch "$D/a/below-disk" "$D/a/d/file" "$D/a/d/mounted-file"
	echo there >"$D/b/both/there"
	truncate -s 8M "$D/inner.img"
	mkfs.ext4 -q "$D/inner.img"
	mount -o loop "$D/inner.img" "$D/a/disk"
	at_exit umount -l "$D/a/disk"
	echo inner >"$D/a/disk/inner"
	mount -t tmpfs none "$D/a/d/deep"
	at_exit umount -l "$D/a/d/deep"
	echo inner >"$D/a/d/deep/inner"
	mount -t tmpfs none "$D/a/both"
	at_exit umount -l "$D/a/both"
	mount -t tmpfs none "$D/a/odd name"
	at_exit umount -l "$D/a/odd name"
	mount --bind "$D/a/d" "$D/a/d/bound"
	at_exit umount -l "$D/a/d/bound"
	mount --bind /etc/hostname "$D/a/d/mounted-file"
	at_exit umount -l "$D/a/d/mounted-file"
}

no_mounts_are_seen() {
	local name
	for name in disk disk/inner d/deep d/deep/inner d/bound d/bound/file d/mounted-file "odd name"; do
		fails any "No such file" stat "$M/$name"
	done
	# With attributes, and without: first both, then names only.
	same "$(ls "$M" | paste -sd ' ')" "below-disk both d"
	same "$(cd "$M" && find . | sort | paste -sd ' ')" ". ./below-disk ./both ./both/there ./d ./d/file"
	same "$(python3 -c 'import os, sys
print(*sorted(os.listdir(sys.argv[1])))' "$M/d")" file
	same "$(stat -c %h "$M")" 4
}

test_what_is_mounted_inside_a_branch_is_not_seen() {
	branches_with_mounts_inside
	union policy=ff "$D/a:$D/b"
	no_mounts_are_seen
	unmount "$M"
	union policy=ff,shared "$D/a:$D/b"
	no_mounts_are_seen
	unmount "$M"
	unmount "$D/a/both"
	union policy=ff "$D/b:$D/a"
	no_mounts_are_seen
	unmount "$M"
	union policy=ff "$D/a"
	fails any "No such file" stat "$M/disk"
	same "$(ls "$M" | paste -sd ' ')" "below-disk both d"
	same "$(ls -a "$M/d" | paste -sd ' ')" ". .. file"
	unmount "$M"
}

test_names_where_something_is_mounted_are_made_on_other_branches() {
	branches_with_mounts_inside
	union policy=ff "$D/a:$D/b"
	echo of-b >"$M/disk"
	mkdir "$M/d/deep"
	echo one >"$M/both/one"
	echo two >"$M/d/deep/two"
	same "$(cat "$D/b/disk" "$D/b/both/one" "$D/b/d/deep/two")" "of-b
one
two"
	echo new >"$M/d/mounted-file"
	same "$(cat "$D/b/d/mounted-file")" new
	same "$(cat "$D/a/disk/inner" "$D/a/d/deep/inner")" "inner
inner"
	# What stays on its branch cannot have the name there.
	touch "$M/d/of-a"
	[ -e "$D/a/d/of-a" ]
	fails any "busy" mv "$M/d/of-a" "$M/both/of-a"
	[ -e "$M/d/of-a" ]
	rm "$M/disk"
	fails any "No such file" stat "$M/disk"
	rm -r "$M/both" "$M/d/deep"
	[ ! -e "$D/b/both" ]
	[ -d "$D/a/both" ]
	unmount "$M"
	union policy=ff "$D/a"
	fails any "busy" mkdir "$M/disk"
	unmount "$M"
}

drained() { trib-union --control "$D/ctl" status | jq -e '.branches[0] | '"$1" >/dev/null; }

test_a_drain_leaves_what_is_mounted_inside() {
	branches_with_mounts_inside
	OPTIONS=control=$D/ctl union policy=ff "$D/a:$D/b"
	trib-union --control "$D/ctl" drain "$D/a" >/dev/null
	eventually 60 drained '.drain.files_moved == 2 and .drain.busy == 6'
	same "$(cat "$D/a/disk/inner" "$D/a/d/deep/inner")" "inner
inner"
	same "$(ls "$D/b" "$D/b/d" | paste -sd ' ')" "$D/b: below-disk both d  $D/b/d: file"
	local where
	for where in both disk d/deep d/bound d/mounted-file "odd name"; do umount "$D/a/$where"; done
	eventually 60 drained '.mode == "gone"'
	unmount "$M"
}

# In branch a, a Btrfs, subvolumes: in its root, deep, an empty one; and a snapshot
# of it all, where the first of them are empty directories of one number. Branch b
# has a directory of one of these names, and nothing of b is absent.
branches_with_subvolumes() {
	which btrfs mkfs.btrfs >/dev/null 2>&1 || skip "needs btrfs-progs"
	loop_fs a 256M mkfs.btrfs -q
	loop_fs b 32M mkfs.ext4 -q
	rmdir "$D/b/lost+found"
	mkdir -p "$M" "$D/b/both/sub" "$D/a/d"
	echo there >"$D/b/both/sub/there"
	local name
	for name in one both empty d/deep; do btrfs subvolume create "$D/a/$name" >/dev/null; done
	for name in one both d/deep; do
		mkdir "$D/a/$name/sub"
		echo "$name" >"$D/a/$name/sub/f"
		ln "$D/a/$name/sub/f" "$D/a/$name/sub/g"
	done
	echo of-a >"$D/a/d/file"
	btrfs subvolume snapshot -r "$D/a" "$D/a/snap" >/dev/null
}

no_subvolumes_are_seen() {
	local name
	for name in one one/sub/f empty d/deep d/deep/sub snap snap/d/file both/sub/f; do
		fails any "No such file" stat "$M/$name"
	done
	same "$(cd "$M" && find . | sort | paste -sd ' ')" \
		". ./both ./both/sub ./both/sub/there ./d ./d/file"
	same "$(python3 -c 'import os, sys
print(*sorted(os.listdir(sys.argv[1])))' "$M/d")" file
	same "$(stat -c %h "$M")" 4
	same "$(find "$M" -printf '%i\n' | sort | uniq -d)" ""
}

test_subvolumes_inside_a_branch_are_not_seen() {
	branches_with_subvolumes
	union policy=ff "$D/a:$D/b"
	no_subvolumes_are_seen
	grep -q "subvolume '$D/a/d/deep' is no part" "$D/log"
	# One of a later time, too: its name is known to be absent, or is asked for first now.
	fails any "No such file" stat "$M/later"
	btrfs subvolume create "$D/a/later" >/dev/null
	echo f >"$D/a/later/f"
	btrfs subvolume snapshot "$D/a/one" "$D/a/later2" >/dev/null
	fails any "No such file" stat "$M/later/f"
	fails any "No such file" stat "$M/later2"
	no_subvolumes_are_seen
	unmount "$M"
	union policy=ff,shared "$D/b:$D/a"
	no_subvolumes_are_seen
	unmount "$M"
}

test_names_of_subvolumes_are_made_on_other_branches() {
	branches_with_subvolumes
	OPTIONS=control=$D/ctl union policy=ff "$D/a:$D/b"
	echo of-b >"$M/one"
	mkdir "$M/d/deep"
	echo two >"$M/d/deep/two"
	echo three >"$M/both/sub/three"
	same "$(cat "$D/b/one" "$D/b/d/deep/two" "$D/b/both/sub/three")" "of-b
two
three"
	# What stays on its branch cannot have the name there.
	touch "$M/d/of-a"
	mkdir "$M/dir"
	fails any "busy" mv "$M/d/of-a" "$M/both/of-a"
	fails any "" ln "$M/d/of-a" "$M/empty"
	fails any "" mv -T "$M/dir" "$M/empty"
	fails any "" mv -T "$M/d/of-a" "$M/empty"
	same "$(stat -c %i "$D/a/empty")" 256
	[ -d "$M/dir" ]
	fails any "not empty" rmdir "$M/d"
	rm -r "$M/d/deep" "$M/both" "$M/one"
	# A file without a name, and a file that moves, meet no other device.
	python3 -c 'import os, sys
fd = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)
os.link("/proc/self/fd/%d" % fd, sys.argv[1] + "/was-nameless", src_dir_fd=os.open("/", 0), follow_symlinks=True)' "$M/d"
	trib-union --control "$D/ctl" drain "$D/a" >/dev/null
	eventually 60 drained '.drain.files_moved == 3 and .drain.busy >= 4'
	same "$(cat "$D/a/one/sub/f" "$D/a/both/sub/f" "$D/a/d/deep/sub/f" "$D/b/d/file")" "one
both
d/deep
of-a"
	unmount "$M"
}

# A snapshot has an empty directory for each subvolume of then, all of number 2.
test_branches_that_are_subvolumes_of_one_file_system() {
	branches_with_subvolumes
	btrfs subvolume snapshot "$D/a" "$D/a/copy" >/dev/null
	union policy=ff "$D/a/copy"
	fails any "No such file" stat "$M/one"
	fails any "No such file" stat "$M/empty"
	same "$(cd "$M" && find . | sort | paste -sd ' ')" ". ./d ./d/file"
	unmount "$M"
	union policy=ff "$D/a/one:$D/a/both:$D/a:$D/a/d/deep"
	same "$(cat "$M/sub/f" "$M/d/file")" "one
of-a"
	echo new >"$M/sub/new"
	ln "$M/sub/new" "$M/d/new"
	same "$(cat "$D/a/one/d/new")" new
	same "$(find "$M" -type d -printf '%i\n' | sort | uniq -d)" ""
	same "$(df -k --output=size "$M" | tail -n 1)" "$(df -k --output=size "$D/a" | tail -n 1)"
	unmount "$M"
}

test_a_mount_point_inside_a_branch_is_refused_by_any_path() {
	small_branches 10M 10M
	mkdir -p "$D/a/sub/mnt" "$D/bound"
	mount --bind "$D/a" "$D/bound"
	at_exit umount -l "$D/bound"
	fails 1 "one in the other" trib-union "$D/a:$D/b" "$D/bound/sub/mnt"
	fails 1 "one in the other" trib-union "$D/bound/sub/mnt:$D/b" "$D/a/sub"
	fails 1 "one in the other" trib-union "$D/bound/sub:$D/b" "$D/a"
	union policy=ff "$D/a/sub:$D/b"
	unmount "$M"
}

run_tests "$@"
