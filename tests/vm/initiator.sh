#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The system test of the initiator's kernel NBD transport, where the kernel
# has that client for sure.
. "$(dirname "$0")/lib.sh"
# The kernel uses a connection for each processor.
inside_vm -c 2 -m 1024 -- "$@"
exec "$TOP/tests/system/initiator_nbd_kernel.sh" "$@"
