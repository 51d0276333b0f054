#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Branches that take names for one, of kinds that this machine's kernel may lack:
# the tests of tests/system.
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- test_fat_is_refused ${LONG_TESTS:+test_exfat_is_refused test_ntfs_is_refused} \
	test_xfs_that_folds_is_refused test_ext4_whose_root_folds_is_refused \
	test_a_directory_of_tmpfs_that_folds_is_refused \
	test_a_directory_of_ext4_that_folds_is_refused
inside_vm -m 512 -- "$@"
for module in loop vfat exfat ntfs3 xfs nls_ascii nls_cp437 nls_iso8859-1; do
	modprobe $module 2>/dev/null || true # or it is built in
done
exec "$TOP/tests/system/union_folding.sh" "$@"
