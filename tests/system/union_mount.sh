#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What mount(8) says of any file system holds of a union: sync, dirsync, and
# mount -o remount. Access times are in union_times.sh.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need findmnt python3 mkfs.ext4 setfattr setpriv

is() { [ "$(ctl status | jq -r ".branches[$1].$2")" = "$3" ]; } # ID KEY VALUE
setting() { getfattr --absolute-names --only-values -n "user.union.$1" "$M/.union"; }
flags() { findmnt -rno VFS-OPTIONS,FS-OPTIONS "$M" | tr ', ' '\n\n' | grep -xE "$1" | sort | xargs; }
are() { [ "$(flags "$1")" = "$2" ]; } # PATTERN WORDS

# mount(8) looks for its helper in /sbin: for this script alone it is there.
with_helper() {
	[ -n "${TRIB_APART:-}" ] || skip_all "needs mounts of its own"
	local sbin
	sbin=$(realpath /sbin)
	mkdir "$D/sbin"
	mount -t tmpfs none "$D/sbin"
	at_exit umount -l "$D/sbin"
	mkdir "$D/sbin/upper" "$D/sbin/work"
	mount -t overlay -o "lowerdir=$sbin,upperdir=$D/sbin/upper,workdir=$D/sbin/work" none "$sbin"
	at_exit umount -l "$sbin"
	ln -s "$BUILD/bin/trib-union" /sbin/mount.fuse.trib-union
}
with_helper

# Nothing gets to the disk by itself within these.
lazy_branches() { # NAME...
	local name
	mkdir -p "$M"
	for name; do
		rm -f "$D/$name.img"
		truncate -s 16M "$D/$name.img"
		mkfs.ext4 -q -m 0 -I 256 "$D/$name.img"
		mkdir -p "$D/$name"
		mount -o loop,noatime,commit=900 "$D/$name.img" "$D/$name"
		at_exit umount -l "$D/$name"
		rmdir "$D/$name/lost+found"
	done
}

# What the disks of all branches hold now is what is found after a loss of power.
after_loss_of_power() { # COMMAND...: in a directory with each branch
	local name
	mkdir -p "$D/after"
	for name in a b; do
		mkdir -p "$D/after/$name"
		cp "$D/$name.img" "$D/after/$name.img"
		mount -o loop "$D/after/$name.img" "$D/after/$name"
	done
	local r=0
	(cd "$D/after" && "$@") || r=$?
	unmount "$D/after/a" "$D/after/b"
	return $r
}
found() { [ -e "a/$1" ] || [ -L "a/$1" ] || [ -e "b/$1" ] || [ -L "b/$1" ]; }
nowhere() { ! found "$1"; }
holds() { [ "$(cat "a/$1" 2>/dev/null || cat "b/$1")" = "$2" ]; }
sized() { [ "$(stat -c %s "a/$1" 2>/dev/null || stat -c %s "b/$1")" = "$2" ]; }
says() { [ "$(stat -c "$2" "a/$1" 2>/dev/null || stat -c "$2" "b/$1")" = "$3" ]; }
has_attr() { getfattr --only-values -n user.x "a/$1" 2>/dev/null | grep -qx y || getfattr --only-values -n user.x "b/$1" | grep -qx y; }
durable() { after_loss_of_power "$@" || fail "lost: $*"; }

# Each change of names, then what is to be there. Directories are on both.
names_are_durable() {
	mkdir "$M/d"
	durable found d
	ctl policy category.create=rand >/dev/null
	local i
	for i in 1 2 3 4; do
		: >"$M/d/new$i"
		durable found "d/new$i"
	done
	mknod "$M/d/fifo" p
	durable found d/fifo
	ln -s to "$M/d/symlink"
	durable found d/symlink
	ln "$M/d/new1" "$M/d/link"
	durable found d/link
	mv "$M/d/new2" "$M/moved"
	durable found moved
	durable nowhere d/new2
	mkdir "$M/d/e"
	durable found d/e
	mv "$M/d/e" "$M/d/f"
	durable found d/f
	durable nowhere d/e
	mv "$M/d/new3" "$M/d/new4" # one goes
	durable nowhere d/new3
	rm "$M/d/link"
	durable nowhere d/link
	rmdir "$M/d/f"
	durable nowhere d/f
}

content_is_durable() {
	python3 - "$M" <<-'END'
		import os, sys
		os.chdir(sys.argv[1])
		f = os.open('one', os.O_RDWR | os.O_CREAT)
		os.write(f, b'written')
	END
	durable holds one written
	truncate -s 3 "$M/one"
	durable holds one wri
	chmod 640 "$M/one"
	durable says one %a 640
	setfattr -n user.x -v y "$M/one"
	durable has_attr one
	fallocate -l 5000 "$M/one"
	durable sized one 5000
	: >"$M/one" # O_TRUNC
	durable sized one 0
	touch -d '2001-02-03 04:05:06 UTC' "$M/one"
	durable says one %Y 981173106
	head -c 9000 /dev/zero >"$M/zeros"
	python3 - "$M" <<-'END'
		import os, sys
		os.chdir(sys.argv[1])
		a = os.open('zeros', os.O_RDONLY)
		b = os.open('copied', os.O_WRONLY | os.O_CREAT)
		assert os.copy_file_range(a, b, 9000) == 9000
	END
	durable sized copied 9000
	mkdir "$M/dir"
	chmod 711 "$M/dir"
	durable says dir %a 711
	mknod "$M/pipe" p
	chmod 604 "$M/pipe"
	durable says pipe %a 604
	# A reader, for whom the kernel passes the file through, is there first.
	echo old >"$M/read"
	exec 7<"$M/read"
	read -r _ <&7
	echo new 1<>"$M/read"
	durable holds read new
	exec 7<&-
}

test_dirsync_is_names() {
	lazy_branches a b
	union "control=$D/ctl,dirsync" "$D/a:$D/b"
	same "$(flags 'sync|dirsync')" dirsync
	names_are_durable
	unmount "$M"
}

test_sync_is_all_that_is_changed() {
	lazy_branches a b
	union "control=$D/ctl,sync" "$D/a:$D/b"
	same "$(flags 'sync|dirsync')" sync
	names_are_durable
	content_is_durable
	unmount "$M"
}

test_sync_without_passthrough_and_by_another_server() {
	lazy_branches a b
	union "control=$D/ctl,sync,passthrough=off" "$D/a:$D/b"
	content_is_durable
	kill -9 "$(union_server "$M")"
	echo more >"$M/more"
	durable holds more more
	unmount "$M"
}

test_without_them_nothing_waits_for_the_disk() {
	lazy_branches a b
	union "" "$D/a:$D/b"
	mkdir "$M/d"
	after_loss_of_power nowhere d
	unmount "$M"
}

test_sync_comes_and_goes_by_a_remount() {
	lazy_branches a b
	union "control=$D/ctl" "$D/a:$D/b"
	exec 7>"$M/open"
	fails any "option 'sync' cannot come while files are open for writing" mount -o remount,sync "$M"
	are 'sync' ''
	exec 7>&-
	mount -o remount,sync "$M"
	are 'sync' sync
	content_is_durable
	mount -o remount,async "$M"
	are 'sync' ''
	echo x >"$M/later"
	after_loss_of_power nowhere later
	# By whom mount(8) asks no helper.
	mount -i -o remount,sync "$M"
	synced() { rm -f "$M/try"; echo x >"$M/try" && after_loss_of_power holds try x; }
	eventually 30 synced
	fails any "option 'dirsync' cannot come while it is mounted: unmount" mount -o remount,dirsync "$M"
	unmount "$M"
}

all_of_it() { (cd "$D" && find a b -printf '%p %y %s %n %T@ %C@\n' | sort); }
is_writable() { : >"$M/try" && rm "$M/try"; }
is_ro() { setting branches | grep -q '/a=ro:.*/b=ro'; }

test_a_union_that_becomes_read_only_changes_nothing() {
	loop_fs a 64M mkfs.ext4 -q -m 0
	loop_fs b 64M mkfs.ext4 -q -m 0
	rmdir "$D/a/lost+found" "$D/b/lost+found"
	mkdir -p "$D/a/d" "$M"
	local i
	for i in $(seq 200); do head -c 100k /dev/urandom >"$D/a/d/$i"; done
	union "control=$D/ctl" "$D/a:$D/b"
	exec 7>"$M/open"
	fails any busy mount -o remount,ro "$M"
	is_writable
	exec 7>&-
	ctl drain "$D/a" --rate 1000000 >/dev/null
	begun() { [ -n "$(find "$D/b/d" -type f 2>/dev/null)" ]; }
	eventually 30 begun
	mount -o remount,ro "$M"
	all_of_it >"$D/then"
	same "$(setting branches | sed "s,$D/,,g")" "a=ro:b=ro"
	fails any "Read-only" touch "$M/x"
	fails any "read-only" ctl drain "$D/b"
	fails any "read-only" ctl set "$D/b=rw"
	# Nobody else either: the branches themselves can be so.
	mount -o remount,ro "$D/a"
	mount -o remount,rw "$D/a"
	all_of_it | diff "$D/then" - || fail "it was changed"
	# Nor by the next server, which finds a drain that was begun.
	kill -9 "$(union_server "$M")"
	ls "$M/d" | wc -l >"$D/count"
	same "$(cat "$D/count")" 200
	sleep 1.2 # a pass of a drain comes sooner
	all_of_it | diff "$D/then" - || fail "the next server changed it"
	is_ro
	mount -o remount,rw "$M"
	is_writable
	ctl drain "$D/a" --rate 0 >/dev/null
	eventually 60 is 0 mode gone
	same "$(find "$D/b/d" -type f | wc -l)" 200
	unmount "$M"
}

test_a_remount_without_the_helper_is_followed() {
	small_branches 16M 16M
	union "" "$D/a:$D/b"
	mount -i -o remount,ro "$M"
	eventually 30 is_ro
	# While there is no server.
	local pid
	pid=$(union_server "$M")
	kill -STOP "$pid"
	mount -i -o remount,rw "$M" &
	kill -9 "$pid"
	wait $! || true
	eventually 30 is_writable
	pid=$(union_server "$M")
	kill -STOP "$pid"
	mount -i -o remount,ro "$M" &
	kill -9 "$pid"
	wait $! || true
	eventually 30 is_ro
	unmount "$M"
}

test_one_that_was_mounted_read_only_becomes_writable() {
	small_branches 16M 16M
	mkdir "$D/other"
	echo one >"$D/a/f"
	union ro "$D/a:$D/b"
	same "$(find "$D/a" "$D/b" -name .tributary)" ""
	unmount "$M"
	union "" "$D/a:$D/b"
	unmount "$M"
	union ro "$D/a:$D/b"
	trib-union -o "ro,log=$D/log2" "$D/b" "$D/other"
	at_exit union_end "$D/other"
	fails any "branch '$D/b' is in use by the union at '$D/other'" mount -o remount,rw "$M"
	are 'ro|rw' 'ro ro'
	fails any "Read-only" touch "$M/f"
	unmount "$D/other"
	mount -o remount,rw "$M"
	are 'ro|rw' 'rw rw'
	is_writable
	echo two >"$M/f"
	same "$(cat "$D/a/f")" two
	fails any "is in use by the union at '$M'" trib-union -o "log=$D/log2" "$D/b" "$D/other"
	kill -9 "$(union_server "$M")"
	is_writable
	unmount "$M"
}

test_a_branch_keeps_its_own_mode_through_it() {
	small_branches 16M 16M
	union "control=$D/ctl" "$D/a:$D/b=ro"
	mount -o remount,ro "$M"
	mkdir "$D/c"
	ctl add "$D/c" >/dev/null
	ctl set "$D/a=ro" >/dev/null
	mount -o remount,rw "$M"
	same "$(setting branches | sed "s,$D/,,g")" "a=ro:b=ro:c=rw"
	is_writable
	unmount "$M"
}

test_fstab_s_options_once_more() {
	small_branches 16M 16M
	echo "$D/a:$D/b $M fuse.trib-union category.create=ff,minfreespace=1M,threads=3,nofail,cache.files=off,noatime,log=$D/log 0 0" >"$D/fstab"
	mount -T "$D/fstab" "$M"
	at_exit union_end "$M"
	mount -T "$D/fstab" -o remount "$M"
	mount -T "$D/fstab" -o remount,ro "$M"
	are 'ro|noatime' 'noatime ro ro'
	mount -T "$D/fstab" -o remount,rw "$M"
	is_writable
	# What can change, changes; what can't is named, and nothing changes.
	sed -i 's/ff,minfreespace=1M/mfs,minfreespace=2M/' "$D/fstab"
	mount -T "$D/fstab" -o remount "$M"
	same "$(setting minfreespace) $(setting category.create)" "2097152 mfs"
	sed -i 's/mfs,minfreespace=2M,threads=3/lus,minfreespace=3M,threads=4/' "$D/fstab"
	fails any "option 'threads=4' cannot come while it is mounted: unmount" mount -T "$D/fstab" -o remount,ro "$M"
	same "$(setting minfreespace) $(setting category.create)" "2097152 mfs"
	is_writable
	local word
	for word in lazytime iversion mand survive=no shared_branches nullrw=true fast; do
		fails any "option '$word'" mount -t fuse.trib-union -o "remount,$word" "$D/a:$D/b" "$M"
	done
	fails any "the branches are" mount -t fuse.trib-union -o remount "$D/a:$D/c" "$M"
	fails any "option 'policy=best'" mount -t fuse.trib-union -o remount,policy=best "$D/a:$D/b" "$M"
	fails any "" "${OTHER[@]}" "$BUILD/bin/trib-union" -o remount,ro "$D/a:$D/b" "$M"
	is_writable
	unmount "$M"
	fails any "no mount of a union" trib-union -o remount,ro "$D/a:$D/b" "$M"
}

# What a mount has of itself, and what it has because a branch has it.
# Requests came by it when the kernel could.
test_io_uring_in_an_older_fstab_does_nothing() {
	small_branches 16M 16M
	echo "$D/a:$D/b $M fuse.trib-union io_uring=auto,control=$D/ctl,log=$D/log 0 0" >"$D/fstab"
	: >"$D/log"
	mount -T "$D/fstab" "$M" 2>"$D/said"
	at_exit union_end "$M"
	grep -q "warning: option 'io_uring=auto' does nothing any more: requests come by /dev/fuse" "$D/said"
	same "$(grep -c io_uring "$D/said" "$D/log" | xargs)" "$D/said:1 $D/log:0"
	is_writable
	kill -9 "$(setting pid)"
	is_writable
	mount -T "$D/fstab" -o remount,ro "$M"
	eventually 30 is_ro
	sed -i 's/io_uring=auto,//' "$D/fstab"
	mount -T "$D/fstab" -o remount,rw "$M"
	is_writable
	ctl upgrade >/dev/null
	is_writable
	! grep io_uring "$D/log" || false
	unmount "$M"
	fails any "option 'io_uring=on': auto or off" mount -t fuse.trib-union -o io_uring=on "$D/a:$D/b" "$M"
	sed -i 's/control=/io_uring=off,control=/' "$D/fstab"
	mount -T "$D/fstab" "$M" 2>"$D/said"
	same "$(cat "$D/said")" ""
	unmount "$M"
}

test_flags_of_the_mount() {
	small_branches 16M 16M
	mount -o remount,nosuid "$D/b"
	union nodev,nosymfollow "$D/a:$D/b"
	local some='nosuid|nodev|noexec|nosymfollow|ro'
	are "$some" 'nodev nosuid nosymfollow'
	ln -s /etc/hostname "$M/link"
	fails any "symbolic links" cat "$M/link"
	mount -o remount,noexec "$M"
	are "$some" 'nodev noexec nosuid nosymfollow'
	mount -o remount,exec,dev,symfollow "$M"
	are "$some" nosuid
	cat "$M/link" >/dev/null
	# Nobody asked for nosuid: it goes with its branch's.
	mount -o remount,suid "$D/b"
	eventually 30 are "$some" ''
	mount -o remount,nosuid "$D/b"
	eventually 30 are "$some" nosuid
	mount -o remount,suid "$M" 2>"$D/said"
	are "$some" nosuid
	grep -q "stays nosuid, as a branch of it is" "$D/said"
	trib-union -o remount,suid "$D/a:$D/b" "$M"
	are "$some" ''
	kill -9 "$(union_server "$M")"
	mount -o remount,nodev "$D/b"
	eventually 30 are "$some" nodev
	# One entry, and not the file system.
	mount -o remount,bind,ro "$M"
	fails any "Read-only" touch "$M/x"
	! is_ro || false
	unmount "$M"
}

run_tests "$@"
