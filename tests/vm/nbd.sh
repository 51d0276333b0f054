#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NBD servers under the kernel's own client: attach, make a file system, fill
# it, fsync, unmount, check, compare, detach.
. "$(dirname "$0")/lib.sh"
inside_vm -m 768 -t 200 -d pool:1G -- "$@"
need nbd-client nbdkit mkfs.ext4
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
	umount "$TEST_DIR/mnt"
	e2fsck -fn "$device"
	blockdev --flushbufs "$device"
	mount -o ro "$device" "$TEST_DIR/mnt"
	same "$(md5sum <"$TEST_DIR/mnt/random")" "$sum"
	diff -r "$TOP/base" "$TEST_DIR/mnt/base"
	umount "$TEST_DIR/mnt"
}

# The control: when this one fails too, look at the guest before ours.
test_the_kernel_client_uses_a_known_server() {
	truncate -s 256M "$TEST_DIR/pool/known"
	nbdkit -f -P "$TEST_DIR/nbdkit.pid" -i 127.0.0.1 -p 10888 \
		file "$TEST_DIR/pool/known" &
	at_exit kill $!
	eventually 10 test -s "$TEST_DIR/nbdkit.pid"
	nbd-client -b 4096 127.0.0.1 10888 /dev/nbd0
	at_exit nbd-client -d /dev/nbd0
	same "$(blockdev --getsize64 /dev/nbd0)" $((256 << 20))
	use_as_a_disk /dev/nbd0
}

run_tests "$@"
