#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A branch of a union is on a device that answers with errors, as a disk that
# dies does: a device-mapper table that becomes "error", and is "linear" again.
. "$(dirname "$0")/lib.sh"
inside_vm -m 768 -d a:400M -d b:400M -- "$@"
need mkfs.ext4 mkfs.xfs dmsetup jq
modprobe dm-mod || skip_all "the guest's kernel has no device mapper"
D=$TEST_DIR
M=$D/mnt

device() { # TARGET: of the device "dies", all of /dev/vda
	local size
	size=$(blockdev --getsz /dev/vda)
	case $1 in
	linear) echo "0 $size linear /dev/vda 0" ;;
	error) echo "0 $size error" ;;
	esac
}
# Replace the device without waiting for I/O under way, and without a write.
turn() { # TARGET
	dmsetup suspend --noudevsync --nolockfs --noflush dies
	device "$1" | dmsetup load dies
	dmsetup resume --noudevsync dies
}

# Branch a is what MKFS makes, on the device that dies.
two_branches() { # MKFS...
	device linear | dmsetup create --noudevsync dies
	dmsetup mknodes dies
	at_exit dmsetup remove --noudevsync --force dies
	wipefs -q -a /dev/mapper/dies
	"$@" /dev/mapper/dies
	mkfs.ext4 -q -F /dev/vdb
	mkdir -p "$D/a" "$D/b" "$M"
	mount /dev/mapper/dies "$D/a"
	at_exit umount -l "$D/a"
	mount /dev/vdb "$D/b"
	at_exit umount -l "$D/b"
	mkdir -p "$D/a/both" "$D/b/both" "$D/a/of-a" "$D/a/deep/"{1..30}
	echo a | tee "$D/a/f-a" "$D/a/both/x-a" "$D/a/of-a/y" >/dev/null
	echo b | tee "$D/b/f-b" "$D/b/both/x-b" >/dev/null
	unmount "$D/a" # nothing of it is in memory
	mount -o noatime /dev/mapper/dies "$D/a"
	: >"$D/log"
	trib-union -o "log=$D/log,control=$D/ctl,policy=ff" "$D/a:$D/b" "$M"
	at_exit union_end "$M"
	# Names in these directories are known from now on.
	stat "$M/none" "$M/both/none" >/dev/null 2>&1 || true
}

state() {
	trib-union --control "$D/ctl" status |
		jq -r --arg p "$D/a" '.branches[] | select(.path == $p).state'
}
is_state() { [ "$(state)" = "$1" ]; }
eio() { fails any "Input/output error" "$@"; }
# I/O that is passed through is between a program and the branch. The server meets
# the error by other requests, for names that are not in memory.
met() {
	local i
	for i in {1..30}; do ls "$M/deep/$i" >/dev/null 2>&1 || true; done
	is_state failed
}
say_more() { dmesg | tail -n 12; cat "$D/log"; state; }

others_serve() {
	same "$(cat "$M/f-b" "$M/both/x-b" | paste -sd ' ')" "b b"
	eio cat "$M/of-a/y"
	eio mkdir "$M/both/x-a"
	eio mv "$M/f-b" "$M/f-a"
	eio ls "$M"
}
new_names_go_elsewhere() {
	echo new >"$M/new"
	echo new >"$M/both/new"
	sync -f "$D/b"
	same "$(cat "$D/b/new" "$D/b/both/new" | paste -sd ' ')" "new new"
}

# The union has let go of the branch, and its file system is mounted anew. Unmounted
# first: one that has not given up works as soon as its device does, and the union
# would use it again before this shell can unmount it.
comes_back() {
	unmount "$D/a" # once what was being served is over
	turn linear
	mount -o noatime /dev/mapper/dies "$D/a"
	eventually 90 is_state ok
}

all_is_there() {
	same "$(cat "$M/f-a" "$M/both/x-a" "$M/of-a/y" "$M/f-b" "$M/both/x-b" | paste -sd ' ')" "a a a b b"
	same "$(ls "$M/deep" | wc -l)" 30
	same "$( (cd "$D" && find a b -name .tributary -prune -o -type f -printf '%P\n') | sort | uniq -d)" ""
	echo more >"$M/more"
	same "$(cat "$D/a/more")" more
	unmount "$M"
}

test_an_xfs_whose_device_fails() {
	two_branches mkfs.xfs -q -f
	turn error
	# The writer itself gets the error of a write that is passed through.
	eio dd if=/dev/zero of="$M/lost" bs=4k count=16 conv=fsync
	eventually 30 met
	others_serve
	new_names_go_elsewhere
	comes_back
	all_is_there
	same "$(cat "$D/b/new" "$D/b/both/new" | paste -sd ' ')" "new new"
	same "$(grep -c "branch '$D/a' failed" "$D/log")" 1
	same "$(grep -c "branch '$D/a' is back" "$D/log")" 1
}

# ext4 goes on with what it has in memory, until a request needs the device.
test_an_ext4_whose_device_fails() {
	two_branches mkfs.ext4 -q -F -E lazy_itable_init=0
	turn error
	eventually 30 met
	others_serve
	comes_back
	all_is_there
}

run_tests "$@"
