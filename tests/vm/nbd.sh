#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# blockd's extents through the kernel's own NBD client, attached by nbd-client
# and by our initiator: make a file system, fill it, fsync, unmount, check,
# compare, detach, grow, fence.
. "$(dirname "$0")/lib.sh"
# With a server that is no blockd the same is a test of the initiator; and what other
# servers do is only looked at when ours fails.
long_tests='test_a_mounted_file_system_grows_with_its_extent
test_the_kernel_client_uses_a_known_server'
# The kernel uses a connection for each processor.
inside_vm -c 2 -m 768 -d pool:1G -- "$@"
. "$(dirname "$0")/../initiator_lib.sh"
need fio nbd-client nbdkit mkfs.ext4 resize2fs
call=$BUILD/test/blockd/testkit/blockd_call
initiator=$BUILD/test/initiator/initiator_call_main
modprobe nbd nbds_max=4 || skip_all "the guest's kernel has no nbd"
mkfs.ext4 -q /dev/vda
mkdir "$TEST_DIR/pool" "$TEST_DIR/mnt"
mount /dev/vda "$TEST_DIR/pool"
at_exit umount "$TEST_DIR/pool"

# use_as_a_disk DEVICE: what a user of the device does; remounts to be sure
# that what is compared came from the server.
use_as_a_disk() {
	local device=$1 sum
	mkfs.ext4 -q -F "$device"
	mount "$device" "$TEST_DIR/mnt"
	at_exit umount "$TEST_DIR/mnt"
	cp -r "$TOP/base" "$TOP/tests" "$TEST_DIR/mnt"
	head -c 20M /dev/urandom >"$TEST_DIR/mnt/random"
	sync "$TEST_DIR/mnt/random"
	sum=$(md5sum <"$TEST_DIR/mnt/random")
	fstrim "$TEST_DIR/mnt"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device"
	blockdev --flushbufs "$device"
	mount -o ro "$device" "$TEST_DIR/mnt"
	same "$(md5sum <"$TEST_DIR/mnt/random")" "$sum"
	diff -r "$TOP/base" "$TEST_DIR/mnt/base"
	unmount "$TEST_DIR/mnt"
}

# The control: when this one fails too, look at the guest before ours.
test_the_kernel_client_uses_a_known_server() {
	truncate -s 256M "$TEST_DIR/pool/known"
	at_exit rm "$TEST_DIR/pool/known"
	nbdkit -f -P "$TEST_DIR/nbdkit.pid" -i 127.0.0.1 -p 10888 \
		file "$TEST_DIR/pool/known" &
	at_exit kill $!
	eventually 60 test -s "$TEST_DIR/nbdkit.pid"
	nbd-client -b 4096 127.0.0.1 10888 /dev/nbd0
	at_exit nbd-client -d /dev/nbd0
	same "$(blockdev --getsize64 /dev/nbd0)" $((256 << 20))
	use_as_a_disk /dev/nbd0
}

# start_blockd NAME: a node with the pool "p" in a folder of its own, control
# socket $control, NBD at 127.0.0.1:10809
start_blockd() {
	control=unix:$TEST_DIR/run/blockd.sock
	mkdir -p "$TEST_DIR/pool/$1"
	touch "$TEST_DIR/blockd.conf"
	"$BUILD/bin/blockd" --node-name one --pool "p=$TEST_DIR/pool/$1" \
		--floor 1M --listen tcp:127.0.0.1:10809 --control "$control" \
		--state-dir "$TEST_DIR/state-$1" --run-dir "$TEST_DIR/run" \
		--config "$TEST_DIR/blockd.conf" >"$TEST_DIR/blockd.log" 2>&1 &
	blockd=$!
	at_exit rm -rf "$TEST_DIR/pool/$1"
	at_exit stop_blockd $blockd
	(eventually 60 "$call" "$control" GetNode) || fail "$(cat "$TEST_DIR/blockd.log")"
}
stop_blockd() {
	kill "$1"
	wait "$1"
}

# create_extent NAME BYTES
create_extent() {
	"$call" "$control" CreateExtent pool=p "name=$1" "size=$2" >"$TEST_DIR/reply"
}

# export_extent NAME EPOCH
export_extent() {
	"$call" "$control" SetExport "name=$1" "epoch=$2" initiators=127.0.0.1 >"$TEST_DIR/reply"
}

# attach ID EXPORT SIZE [KEY=VALUE...]: by netlink; sets $device
attach() {
	"$initiator" attach "state=$TEST_DIR/initiator" "id=$1" transport=nbd \
		address=127.0.0.1:10809 "export=$2" "size=$3" "${@:4}" >"$TEST_DIR/attached" || return
	device=$(sed -n 's/^device=//p' "$TEST_DIR/attached")
}
detach() { "$initiator" detach "state=$TEST_DIR/initiator" "id=$1"; }

# verified DEVICE OFFSET: what four write there at once, each its own MiB and no
# block twice, is what is read back
verified() {
	fio --output "$TEST_DIR/fio.out" --name v --filename "$1" --direct 1 \
		--ioengine libaio --iodepth 8 --numjobs 4 --offset "$2" \
		--offset_increment 1M --size 1M --bs 16k --rw randwrite --fsync 32 \
		--allow_file_create 0 --verify crc32c --verify_fatal 1 ||
		fail "$(cat "$TEST_DIR/fio.out")"
}

test_the_kernel_client_uses_an_extent_of_blockd_by_four_connections() {
	start_blockd plain
	create_extent e $((256 << 20))
	export_extent e 0
	nbd-client -b 4096 -C 4 -N e 127.0.0.1 10809 /dev/nbd0
	at_exit nbd-client -d /dev/nbd0
	same "$(blockdev --getsize64 /dev/nbd0)" $((256 << 20))
	"$call" "$control" GetExtent name=e >"$TEST_DIR/reply"
	grep -q '"connections": *4\b' "$TEST_DIR/reply" || fail "$(cat "$TEST_DIR/reply")"
	verified /dev/nbd0 0
	use_as_a_disk /dev/nbd0
	nbd-client -d /dev/nbd0
	"$call" "$control" ResizeExtent name=e size=$((288 << 20)) >"$TEST_DIR/reply"
	eventually 60 nbd-client -b 4096 -C 4 -N e 127.0.0.1 10809 /dev/nbd0
	same "$(blockdev --getsize64 /dev/nbd0)" $((288 << 20))
	verified /dev/nbd0 284M
}

test_the_initiator_attaches_an_extent_and_detaches_it() {
	start_blockd whole
	create_extent e $((128 << 20))
	export_extent e 1
	attach a e@1 $((128 << 20)) connections=2
	at_exit detach a
	grep -x transport=nbd "$TEST_DIR/attached"
	under=$(sed -n 's/^under=//p' "$TEST_DIR/attached")
	case $under in /dev/nbd*) ;; *) fail "device '$under'" ;; esac
	use_as_a_disk "$device"
	# Again is the same; in use it stays; after detach the device is free.
	local before=$device
	attach a e@1 $((128 << 20)) connections=2
	same "$device" "$before"
	mount "$device" "$TEST_DIR/mnt"
	at_exit umount "$TEST_DIR/mnt"
	fails 1 EBUSY detach a
	unmount "$TEST_DIR/mnt"
	detach a
	same "$(cat "/sys/block/${under#/dev/}/size")" 0
	detach a
}

test_a_mounted_file_system_grows_with_its_extent() {
	start_blockd grow
	create_extent e $((64 << 20))
	export_extent e 1
	attach a e@1 $((64 << 20)) connections=2
	at_exit detach a
	grow() {
		"$call" "$control" ResizeExtent name=e size=$((128 << 20)) >"$TEST_DIR/reply"
		"$initiator" resize "state=$TEST_DIR/initiator" id=a size=$((128 << 20))
	}
	at_exit umount "$TEST_DIR/mnt"
	grows_while_used $((128 << 20)) grow
	detach a
	# And while it is away.
	"$call" "$control" ResizeExtent name=e size=$((192 << 20)) >"$TEST_DIR/reply"
	attach a e@1 $((192 << 20))
	same "$(blockdev --getsize64 "$device")" $((192 << 20))
	e2fsck -fp "$device"
	resize2fs "$device"
	mount "$device" "$TEST_DIR/mnt"
	head -c 60M /dev/zero >"$TEST_DIR/mnt/more"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device"
}

test_a_newer_epoch_takes_the_device_from_the_older_one() {
	start_blockd fence
	create_extent e $((64 << 20))
	export_extent e 1
	attach old e@1 $((64 << 20)) dead_timeout_ms=2000
	at_exit detach old
	local old=$device
	echo first | dd of="$old" oflag=sync conv=nocreat status=none
	export_extent e 2
	attach new e@2 $((64 << 20))
	at_exit detach new
	same "$(head -c 5 "$device")" first
	# The old one's writes fail, and soon, and never reach the extent.
	fails any 'Input/output error' timeout 60 \
		dd if=/dev/zero of="$old" bs=4k count=1 oflag=direct conv=nocreat status=none
	blockdev --flushbufs "$device"
	same "$(head -c 5 "$device")" first
	fails any e@1 attach third e@1 $((64 << 20))
}

run_tests "$@"
