#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The system test of the initiator's kernel NBD transport, where the kernel
# has that client for sure.
. "$(dirname "$0")/lib.sh"
inside_vm -m 1024 -t 900 -- "$@"
exec "$TOP/tests/system/initiator_nbd_kernel.sh" "$@"
