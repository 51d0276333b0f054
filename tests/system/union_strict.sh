#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union is as strict as the mounts of its branches (nosuid, nodev, noexec), at
# once and when they change; unless it was told otherwise.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need setpriv findmnt

branch() { # NAME OPTIONS
	mkdir -p "$D/$1" "$M"
	mount -t tmpfs -o "size=8M,mode=755${2:+,$2}" none "$D/$1"
	at_exit umount -l "$D/$1"
}
# Of these three, what the union's mount has: "nodev nosuid"
flags() {
	findmnt -rno VFS-OPTIONS "$M" | tr , '\n' | grep -xE 'nosuid|nodev|noexec' | sort | xargs
}
are() { [ "$(flags)" = "$1" ]; }

# What each of them is about, as somebody without rights.
things() { # DIR
	install -m 4755 "$(command -v id)" "$1/id"
	mknod -m 666 "$1/null" c 1 3
	printf '#!/bin/sh\n' >"$1/script"
	chmod 755 "$1/script"
}
effective() { "${OTHER[@]}" "$M/id" -u; }
opens() { "${OTHER[@]}" sh -c "echo >'$M/null'" 2>/dev/null; }
runs() { "${OTHER[@]}" "$M/script"; }

test_no_file_gets_rights_that_it_has_not_on_its_branch() {
	branch a
	branch b
	things "$D/b"
	union policy=ff "$D/a:$D/b"
	same "$(flags)" ""
	same "$(effective)" 0
	opens
	runs
	unmount "$M"
	mount -o remount,nosuid,nodev "$D/b"
	union policy=ff "$D/a:$D/b" 2>"$D/said"
	same "$(flags)" "nodev nosuid"
	same "$(effective)" 1234
	! opens || false
	runs
	grep -q "'$M' is nosuid,nodev, as a branch of it is" "$D/said"
	grep -q "is nosuid, because branch '$D/b' is; the option 'suid' keeps it from that" "$D/log"
	# Another server, and a branch that changes meanwhile and after.
	kill -9 "$(union_server "$M")"
	mount -o remount,noexec "$D/b"
	eventually 30 are "nodev noexec nosuid"
	! runs 2>/dev/null || false
	mount -o remount,exec,nodev,suid "$D/b"
	eventually 30 are nodev
	same "$(effective)" 0
	runs
	grep -q "is noexec, because branch '$D/b' is" "$D/log"
}

test_what_its_options_say_is_so() {
	branch a nosuid,nodev,noexec
	branch b
	union suid,dev,exec "$D/a:$D/b"
	same "$(flags)" ""
	unmount "$M"
	union nosuid,dev "$D/a:$D/b"
	same "$(flags)" "noexec nosuid"
	mount -o remount,exec,suid,dev "$D/a"
	eventually 30 are nosuid
	mount -o remount,nodev,noexec "$D/a"
	eventually 30 are "noexec nosuid"
}

test_a_branch_that_joins_or_leaves() {
	branch a
	branch b nosuid,noexec
	branch c nodev
	union "control=$D/ctl" "$D/a:$D/c"
	same "$(flags)" nodev
	things "$D/b"
	ctl add "$D/b"
	same "$(flags)" "nodev noexec nosuid" # before anything of it is seen
	fails any "denied" effective
	rm "$M"/{id,null,script}
	eventually 30 ctl remove "$D/b" # a moment later it is open no more
	same "$(flags)" nodev
	# A branch below another mount's options, by a mount of a directory of it.
	mkdir -p "$D/c/sub" "$D/d"
	mount --bind "$D/a" "$D/d"
	at_exit umount -l "$D/d"
	mount -o remount,bind,noexec "$D/d"
	same "$(flags)" nodev # its own mount is as it was
}

# Another file system at its place, which is stricter.
test_a_branch_that_comes_back_in_another_way() {
	loop_fs a 32M mkfs.ext4 -q
	branch b
	mkdir -p "$M"
	chmod 777 "$D/a"
	union "" "$D/a:$D/b"
	same "$(flags)" ""
	umount -l "$D/a"
	mount -o loop,noatime,nosuid "$D/a.img" "$D/a" || skip "a file system is mounted once only here"
	at_exit umount -l "$D/a"
	# The union has the mount of before open, which nobody sees any more.
	unmount "$M"
	union "" "$D/a:$D/b"
	same "$(flags)" nosuid
}

# A mount over the union is not changed, and the union goes on below.
test_a_mount_that_hides_it_is_left_alone() {
	branch a
	union "" "$D/a"
	mount -t tmpfs none "$M"
	at_exit umount -l "$M"
	mount -o remount,nosuid,nodev "$D/a"
	sleep 0.5 # time to do wrong
	same "$(findmnt -rno FSTYPE,VFS-OPTIONS "$M" | grep -E 'nosuid|nodev')" ""
	unmount "$M"
	mount -o remount,nosuid,nodev,noatime "$D/a"
	eventually 30 are "nodev nosuid"
}

run_tests "$@"
