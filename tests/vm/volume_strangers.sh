#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Those system tests of strangers' mount namespaces where the kernel has device
# mapper: a device in use is taken away.
. "$(dirname "$0")/lib.sh"
inside_vm -m 1536 -d pools:6G -- "$@"
modprobe dm-mod || skip_all "the guest's kernel has no device mapper"
modprobe -a loop fuse
mkfs.xfs -q /dev/vda
mkdir "$TEST_DIR/pools"
mount /dev/vda "$TEST_DIR/pools"
at_exit umount "$TEST_DIR/pools"
tests=("$@")
[ $# -gt 0 ] || tests=(test_copies_of_the_branches_do_not_hold_the_devices
	test_open_files_of_a_stranger_do_not_hold_the_devices)
TMPDIR=$TEST_DIR/pools "$TOP/tests/system/volume_strangers.sh" "${tests[@]}"
