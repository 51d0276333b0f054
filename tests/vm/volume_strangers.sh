#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Those system tests of volumes that say more where the kernel has device mapper: a
# device in use is taken away from strangers' mount namespaces, and one of several
# extents lies over a device of each.
. "$(dirname "$0")/lib.sh"
inside_vm -m 1536 -d pools:6G -- "$@"
modprobe dm-mod || skip_all "the guest's kernel has no device mapper"
modprobe -a loop fuse
# So a remote extent has a program of its own, which can be killed.
echo "install nbd /bin/false" >/etc/modprobe.d/no-nbd.conf
mkfs.xfs -q /dev/vda
mkdir "$TEST_DIR/pools"
mount /dev/vda "$TEST_DIR/pools"
at_exit umount "$TEST_DIR/pools"
export TMPDIR=$TEST_DIR/pools
if [ $# -gt 0 ]; then
	"$TOP/tests/system/$1" "${@:2}"
	exit
fi
"$TOP/tests/system/volume_strangers.sh" test_open_files_of_a_stranger_do_not_hold_the_devices \
	${LONG_TESTS:+test_copies_of_the_branches_do_not_hold_the_devices} || failed=1
"$TOP/tests/system/volume_device.sh" test_one_file_system_larger_than_any_node || failed=1
"$TOP/tests/system/snapshot.sh" \
	test_a_file_system_over_several_extents_is_frozen_for_a_snapshot \
	${LONG_TESTS:+test_a_snapshot_of_a_linear_device_is_one_instant} \
	${LONG_TESTS:+test_a_snapshot_of_a_striped_device_is_one_instant} || failed=1
exit ${failed:-0}
