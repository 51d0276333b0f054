#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Those system tests of growing volumes that say more where root may grow a
# mounted ext4 and remote splits come through the kernel's own NBD client. The latter
# alone is one of check-vm-long.
. "$(dirname "$0")/lib.sh"
inside_vm -m 1536 -d pools:6G -- "$@"
modprobe nbd nbds_max=16 || skip_all "the guest's kernel has no nbd"
modprobe -a loop fuse
mkfs.xfs -q /dev/vda
mkdir "$TEST_DIR/pools"
mount /dev/vda "$TEST_DIR/pools"
at_exit umount "$TEST_DIR/pools"
tests=("$@")
[ $# -gt 0 ] || tests=(test_a_mounted_volume_of_ext4_grows_under_a_writer
	${LONG_TESTS:+test_a_volume_that_is_not_mounted_shows_its_new_size_at_the_next_mount})
TMPDIR=$TEST_DIR/pools "$TOP/tests/system/volume_grow.sh" "${tests[@]}"
