#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Quotas, which a server with CAP_SYS_RESOURCE could go above: tests/system's
# test of limits, where that capability and a kernel with quotas are.
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- test_a_quota_holds test_the_server_obeys_a_quota \
	${LONG_TESTS:+test_a_quota_holds_without_passthrough}
inside_vm -m 512 -- "$@"
modprobe -a loop quota_v2 2>/dev/null || true # or they are built in
exec "$TOP/tests/system/union_limits.sh" "$@"
