#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Every two calls on one volume at the same time (tests/csi/pairs_main.c), once,
# where in its life by CSI_SEED (1); with CSI_FULL=1 ten times.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi/lib.sh"
csi_start 3 640MiB
times=1
[ "${CSI_FULL:-0}" != 1 ] || times=10
"$BUILD/test/tests/csi/pairs_main" "$C" "$STORE" $times "${CSI_SEED:-1}"
