#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The system test of the initiator's ublk transport, where the kernel has it for
# sure.
. "$(dirname "$0")/lib.sh"
known_panic=io_fallback_tw # Linux 6.12, when a ublk server is killed
inside_vm -m 1024 -- "$@"
exec "$TOP/tests/system/initiator_ublk.sh" "$@"
