#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What cannot be changed on its branch: copies of directories that are immutable,
# append-only or on a read-only branch; and mount points of disks that are not there.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need chattr setfacl getfacl setfattr python3

two_branches() { # two directories "d", that have an attribute and an ACL
	small_branches 20M 20M
	mkdir "$D/a/d" "$D/b/d"
	chattr +i "$D/a/d" 2>/dev/null || skip "chattr does nothing here"
	chattr -i "$D/a/d"
	setfattr -n user.had -v before "$D/a/d" "$D/b/d"
	setfacl -m u:77:rx "$D/a/d" "$D/b/d"
	touch -d 2001-02-03 "$D/a/d" "$D/b/d"
}
frozen() { # FLAG COPY...: until melt
	chattr "+$1" "${@:2}"
	at_exit chattr "-$1" "${@:2}"
}
melt() { chattr -ia "$D"/[ab] "$D"/[ab]/* 2>/dev/null || true; }
# All that a change could have changed, of each copy.
copies() {
	stat -c '%a %u %g %y %A' "$D"/[ab]/d
	getfacl --absolute-names -n "$D"/[ab]/d
	getfattr --absolute-names -d -m - "$D"/[ab]/d | grep -v tributary
}
said() { # COPY FLAG COMMAND...: it is refused, and no copy is another
	local before
	before=$(copies)
	frozen "$2" "$D/$1/d"
	fails any "not permitted" "${@:3}"
	same "$(copies)" "$before"
	melt
}

test_an_immutable_copy_keeps_a_directory_as_it_is() {
	two_branches
	union policy=ff "$D/a:$D/b"
	local copy flag
	for copy in a b; do
		for flag in i a; do
			said $copy $flag chmod 700 "$M/d"
			said $copy $flag chown 5:6 "$M/d"
			said $copy $flag touch -d 2011-01-01 "$M/d"
			said $copy $flag touch -m -d 2011-01-01 "$M/d"
			said $copy $flag setfacl -m u:78:rwx "$M/d"
			said $copy $flag setfacl -d -m u:78:rwx "$M/d"
			said $copy $flag setfacl -b "$M/d"
			said $copy $flag setfattr -n user.new -v 1 "$M/d"
			said $copy $flag setfattr -x user.had "$M/d"
			said $copy $flag rmdir "$M/d"
			said $copy $flag mv "$M/d" "$M/e"
		done
		said $copy i touch "$M/d"
		frozen a "$D/$copy/d"
		touch "$M/d" # which what is append-only takes, and now all have it
		melt
		same "$(date -d "@$(stat -c %Y "$D/a/d")" +%Y)" "$(date +%Y)"
		touch -d 2001-02-03 "$M/d"
	done
	chmod 700 "$M/d"
	same "$(stat -c %a "$D/a/d" "$D/b/d")" "700"$'\n'"700"
}

test_new_names_go_where_a_directory_is_not_immutable() {
	two_branches
	mkdir "$D/b/d/only"
	union policy=ff "$D/a:$D/b"
	frozen i "$D/a/d"
	touch "$M/d/only/f" # not in a new one of that name in there
	[ -f "$D/b/d/only/f" ]
	echo 1 >"$M/d/file"
	mkdir "$M/d/dir"
	ln -s x "$M/d/link"
	mkfifo "$M/d/fifo"
	python3 -c 'import os, sys
os.close(os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR))' "$M/d"
	same "$(ls "$D/b/d")" "$(printf '%s\n' dir fifo file link only)"
	frozen i "$D/b/d"
	fails any "not permitted" touch "$M/d/more"
	fails any "not permitted" mkdir "$M/d/more"
	same "$(ls "$M/d" | wc -l)" 5
}

# Of two branches with room the one with more takes no name there.
test_a_write_that_meets_a_full_branch_goes_on_where_a_name_can_be_made() {
	small_branches 8M 60M
	mkdir -p "$D/c" "$D/a/d" "$D/b/d"
	mount -t tmpfs -o size=40M none "$D/c"
	at_exit umount -l "$D/c"
	chattr +i "$D/b/d" 2>/dev/null || skip "chattr does nothing here"
	at_exit chattr -i "$D/b/d"
	union policy=ff,passthrough=off "$D/a:$D/b:$D/c"
	dd if=/dev/zero of="$M/d/big" bs=1M count=20 status=none
	same "$(stat -c %s "$D/c/d/big")" $((20 << 20))
	[ ! -e "$D/a/d/big" ]
	# What cannot leave where it is stays whole.
	echo 1 >"$M/d/stays"
	frozen i "$D/a/d"
	fails any "No space" dd if=/dev/zero of="$M/d/stays" bs=1M count=20
	[ -f "$D/a/d/stays" ] && [ ! -e "$D/c/d/stays" ] && [ ! -e "$D/b/d/stays" ]
	chattr -i "$D/b/d"
	fails any "No space" dd if=/dev/zero of="$M/d/stays" bs=1M count=20
	[ -f "$D/a/d/stays" ] && [ ! -e "$D/c/d/stays" ] && [ ! -e "$D/b/d/stays" ]
}

test_what_is_removed_goes_from_all_branches_or_none() {
	two_branches
	local copy
	for copy in a b; do
		echo "$copy" >"$D/$copy/d/f"
	done
	union policy=ff "$D/a:$D/b"
	for copy in a b; do
		for what in d d/f; do
			frozen i "$D/$copy/$what"
			fails any "not permitted" rm "$M/d/f"
			chattr -i "$D/$copy/$what"
			same "$(cat "$D/a/d/f" "$D/b/d/f")" "a"$'\n'"b"
		done
	done
	rm "$M/d/f"
	[ ! -e "$D/a/d/f" ] && [ ! -e "$D/b/d/f" ]
}

test_what_is_append_only_is_appended_to() {
	two_branches
	union policy=ff "$D/a:$D/b"
	local option
	for option in auto off; do
		unmount "$M"
		echo 1 >"$D/a/log"
		frozen a "$D/a/log"
		union "policy=ff,passthrough=$option" "$D/a:$D/b"
		echo 2 >>"$M/log"
		fails any "not permitted" dd if=/dev/zero of="$M/log" conv=notrunc count=1 status=none
		fails any "not permitted" truncate -s 0 "$M/log"
		fails any "not permitted" rm "$M/log"
		exec 7>>"$M/log"
		echo 3 >&7
		kill -9 "$(union_server "$M")" # the next one has it open so, too
		echo 4 >&7
		exec 7>&-
		same "$(paste -sd ' ' "$D/a/log")" "1 2 3 4"
		same "$(paste -sd ' ' "$M/log")" "1 2 3 4"
		melt
	done
}

# What came into an append-only directory cannot be put back.
test_a_directory_is_renamed_on_all_branches_or_none() {
	two_branches
	mkdir "$D/a/into" "$D/b/into"
	union policy=ff "$D/a:$D/b"
	local from flag
	for flag in i a; do
		for from in b/d b b/into; do
			[ $from-$flag != b/into-a ] || continue # that takes it
			frozen a "$D/a/into"
			frozen $flag "$D/$from"
			fails any "not permitted" mv "$M/d" "$M/into/d"
			[ -d "$D/a/d" ] && [ -d "$D/b/d" ] && [ ! -e "$D/a/into/d" ]
			chattr -ia "$D/b"
			melt
		done
	done
	mv "$M/d" "$M/into/d"
	[ -d "$D/a/into/d" ] && [ -d "$D/b/into/d" ]
}

# As ext4 has no more than that in a directory where the link count says so.
test_a_directory_with_as_many_as_it_can_have_goes_on_elsewhere() {
	loop_fs a 400M mkfs.ext4 -q -m 0 -N 70000 -O ^dir_nlink,^has_journal
	mkdir -p "$D/b" "$M" "$D/a/d"
	mount -t tmpfs -o size=20M none "$D/b"
	at_exit umount -l "$D/b"
	python3 -c 'import errno, os, sys
os.chdir(sys.argv[1])
try:
    for i in range(100000): os.mkdir(str(i))
except OSError as e: sys.exit(e.errno != errno.EMLINK)
sys.exit(1)' "$D/a/d"
	union policy=ff "$D/a:$D/b"
	mkdir "$M/d/more"
	[ -d "$D/b/d/more" ]
	touch "$M/d/file"
	[ -f "$D/a/d/file" ]
}

# Attributes that are set are seen, though the copy of a read-only branch stays.
times_on_a_read_only_branch() { # WORDS-OF-B
	union policy=ff "$D/a:$D/b$1"
	touch -d 2001-01-01 "$M/d"
	same "$(stat -c %y "$M/d" | cut -c1-10)" 2001-01-01
	chmod 711 "$M/d"
	same "$(stat -c %a "$M/d")" 711
	chown 5:6 "$M/d"
	same "$(stat -c %u:%g "$M/d")" 5:6
	setfattr -n user.had -v after "$M/d"
	same "$(getfattr --absolute-names --only-values -n user.had "$M/d")" after
	setfacl -m u:78:rwx "$M/d"
	getfacl --absolute-names -n "$M/d" | grep -qx user:78:rwx
	[ "$(stat -c %y "$D/b/d" | cut -c1-10)" = 2010-01-01 ]
	touch "$M/d/f"
	same "$(date -d "@$(stat -c %Y "$M/d")" +%Y)" "$(date +%Y)"
	fails any "Read-only" rmdir "$M/d/sub"
	fails any "Read-only" mv "$M/d" "$M/e"
	same "$(ls "$D/b/d" "$D/a")" "$D/a:"$'\n'"d"$'\n\n'"$D/b/d:"$'\n'"sub"
	stop
	rm "$D/a/d/f"
}
test_times_that_are_set_are_seen_with_a_copy_that_is_only_read() {
	two_branches
	mkdir "$D/b/d/sub"
	touch -d 2010-01-01 "$D/b/d"
	times_on_a_read_only_branch =ro
	mount -o remount,ro "$D/b"
	times_on_a_read_only_branch ""
	# Where nothing can be set the latest is shown, as ever.
	union policy=ff "$D/a=ro:$D/b"
	same "$(stat -c %y "$M/d" | cut -c1-10)" "$(stat -c %y "$D/a/d" | cut -c1-10)"
	fails any "Read-only" touch -d 2001-01-01 "$M/d"
	stop
	touch -d 2001-01-01 "$D/a/d"
	union policy=ff "$D/a=ro:$D/b"
	same "$(stat -c %y "$M/d" | cut -c1-10)" 2010-01-01
}

# Where a disk is to be mounted, made immutable so that nothing gets there else.
mount_points() { # NAME...: each has a disk but the last, which lacks it
	local name
	mkdir -p "$M"
	rm -rf "$D/disks" "$D"/*.img
	for name in "$@"; do
		mkdir -p "$D/disks/$name"
		chattr +i "$D/disks/$name" 2>/dev/null || skip "chattr does nothing here"
		at_exit chattr -i "$D/disks/$name"
	done
	for name in "${@:1:$#-1}"; do
		disk_comes "$name"
	done
}
disk_comes() {
	[ -e "$D/$1.img" ] || {
		truncate -s 64M "$D/$1.img"
		mkfs.ext4 -q "$D/$1.img"
	}
	mount -o loop "$D/$1.img" "$D/disks/$1"
	at_exit umount -l "$D/disks/$1"
}
branches() { ctl status | jq -c '.branches | map([.id, .mode])'; }

# Of what was made first, as far as it is there.
numbers() { (cd "$M" && stat -c '%n %i' dir on-1 f{1..30} 2>/dev/null || true); }

test_a_missing_disk_is_no_branch_and_comes_back_in_its_place() {
	mount_points d1 d3 d2
	disk_comes d2 # once it was there
	union "policy=rand,control=$D/ctl" "$D/disks/d*"
	echo 1 >"$M/on-1"
	local i numbers
	for i in {1..30}; do echo "$i" >"$M/f$i"; done
	mkdir "$M/dir"
	numbers=$(numbers)
	stop
	rm -f "$D/ctl" "$D/log"
	unmount "$D/disks/d2"
	union "policy=rand,control=$D/ctl" "$D/disks/d*"
	grep -q "warning: branch '$D/disks/d2' is not used" "$D/log"
	same "$(grep -c warning "$D/log")" 1
	same "$(branches)" '[[0,"rw"],[1,"absent"],[2,"rw"]]'
	for i in {31..60}; do echo "$i" >"$M/f$i"; done
	chmod 711 "$M"
	touch "$M"
	setfattr -n user.x -v 1 "$M"
	same "$(ls -A "$D/disks/d2")" ""
	same "$(($(df --output=size "$M" | tail -1)))" "$(($(df --output=size "$D/disks/d1" "$D/disks/d3" | tail -2 | paste -sd+)))"
	same "$(comm -13 <(echo "$numbers" | sort) <(numbers | sort))" ""
	fails 1 "disk is not mounted" ctl add "$D/disks/d2"
	fails 1 "is no branch" ctl remove "$D/disks/d2"
	# The next server says the same.
	kill -9 "$(server)"
	echo 61 >"$M/f61"
	same "$(branches)" '[[0,"rw"],[1,"absent"],[2,"rw"]]'
	# When it has come it gets its place; and again.
	disk_comes d2
	same "$(ctl add "$D/disks/d2")" '{"id":1}'
	same "$(ctl add "$D/disks/d2")" '{"id":1}'
	same "$(branches)" '[[0,"rw"],[1,"rw"],[2,"rw"]]'
	same "$(cat "$M"/f{1..61} | paste -sd' ')" "$(seq 61 | paste -sd' ')"
	same "$(numbers)" "$numbers"
	kill -9 "$(server)"
	same "$(cat "$M"/f{1..61} | paste -sd' ')" "$(seq 61 | paste -sd' ')"
	for i in {62..90}; do echo "$i" >"$M/f$i"; done
	ls "$D/disks/d2" | grep -qE '^f(6[2-9]|[78].|90)$'
	same "$(branches)" '[[0,"rw"],[1,"rw"],[2,"rw"]]'
	stop
}

test_a_disk_that_comes_is_seen_by_who_looked_before() {
	mount_points d1 d2
	disk_comes d2
	mkdir "$D/disks/d2/dir"
	echo there >"$D/disks/d2/dir/f"
	unmount "$D/disks/d2"
	mkdir "$D/disks/d1/dir"
	# The first is the one that lacks; what is in its place is of the second.
	union "policy=ff,control=$D/ctl" "$D/disks/d2:$D/disks/d1"
	same "$(stat -c %a "$M")" 755
	fails any "No such file" cat "$M/dir/f"
	same "$(ls "$M/dir")" ""
	exec 7<"$M/dir"
	disk_comes d2
	ctl add "$D/disks/d2=nc" >/dev/null
	same "$(cat "$M/dir/f")" there
	same "$(ls "$M/dir")" f
	same "$(ls -U "/proc/self/fd/7/")" f
	same "$(branches)" '[[0,"nc"],[1,"rw"]]'
	exec 7<&-
}

test_what_is_a_missing_disk_is_told_from_what_is_none() {
	mount_points d1 d2
	fails 1 "no branch can be used" trib-union "$D/disks/d2" "$M"
	fails 1 "no branch can be used" trib-union "$D/disks/d2=ro" "$M"
	fails 1 "is there twice" trib-union "$D/disks/d1:$D/disks/d2:$D/disks/../disks/d2" "$M"
	# With a mark of ours it is still empty; a name makes it a branch.
	mkdir "$D/disks/plain" "$D/disks/full" "$D/disks/full/f"
	chattr +i "$D/disks/full"
	at_exit chattr -i "$D/disks/full"
	union "policy=ff,control=$D/ctl" "$D/disks/d1:$D/disks/d2=ro:$D/disks/plain:$D/disks/full"
	same "$(branches)" '[[0,"rw"],[1,"absent"],[2,"rw"],[3,"rw"]]'
	[ -d "$M/f" ]
	stop
	# The root of a file system that is immutable itself is a disk.
	rm -f "$D/ctl"
	chattr +i "$D/disks/d1"
	union "policy=ff,control=$D/ctl" "$D/disks/d1"
	same "$(branches)" '[[0,"rw"]]'
	stop
	chattr -i "$D/disks/d1"
}

test_what_a_crash_interrupted_waits_for_the_missing_disk() {
	mount_points d1 d2
	mkdir "$D/disks/d1/.tributary"
	rm -f "$D/log"
	ln -s '1 M 1:aa 1:bb 1:cc x/y' "$D/disks/d1/.tributary/rename-1"
	fails 1 "the disk of branch '$D/disks/d2' is not mounted" trib-union "$D/disks/d1:$D/disks/d2" "$M"
	[ -L "$D/disks/d1/.tributary/rename-1" ]
}

test_a_branch_that_is_given_as_absent_is_not_waited_for() {
	local numbers
	rm -rf "$D/x" "$D/late"
	rm -f "$D/log" "$D/ctl"
	mkdir -p "$D/x" "$D/late" "$M"
	ln -s "$D/late" "$D/link"
	# What a crash interrupted is finished without it, or dropped.
	mkdir "$D/x/.tributary"
	ln -s '1 M 1:aa 1:bb 1:cc x/y' "$D/x/.tributary/rename-1"
	fails 1 "no branch can be used" trib-union "$D/link/n=absent" "$M"
	fails 1 "is there twice" trib-union "$D/x:$D/link/n=absent:$D/link/n=absent" "$M"
	fails 2 "one mode" trib-union "$D/x:$D/link/n=absent,ro" "$M"
	union "policy=rand,control=$D/ctl" "$D/link/n=absent:$D/x"
	grep -q "warning: branch '$D/link/n' is absent" "$D/log"
	[ ! -L "$D/x/.tributary/rename-1" ] || fail "it is kept"
	same "$(branches)" '[[0,"absent"],[1,"rw"]]'
	getfattr --only-values -n user.tributary.stats "$M" | grep -q '"absent":\[0\]'
	mkdir "$M/dir"
	echo 1 >"$M/dir/f"
	numbers=$(ls -iR "$M")
	fails 1 "only a mount does" ctl add "$D/x=absent"
	fails 1 "only a mount does" ctl set "$D/x=absent"
	# A branch gets its place by the path that was given, wherever that is.
	mkdir "$D/late/n"
	same "$(ctl add "$D/link/n")" '{"id":0}'
	same "$(branches)" '[[0,"rw"],[1,"rw"]]'
	same "$(ls -iR "$M")" "$numbers"
	getfattr --only-values -n user.tributary.stats "$M" | grep -q '"absent":\[\]'
	stop
}

run_tests "$@"
