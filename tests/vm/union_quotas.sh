#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union beside one directory where file systems have quotas, and this kernel
# has: the test of tests/system/union_model.sh that needs them.
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- test_is_so_too_while_files_move_from_where_a_quota_is_met \
	${LONG_TESTS:+test_finds_who_goes_above_a_quota}
inside_vm -m 1024 -- "$@"
export QUOTA_SEEDS=${QUOTA_SEEDS:-1}
modprobe -a loop quota_v2 2>/dev/null || true # or they are built in
exec "$TOP/tests/system/union_model.sh" "$@"
