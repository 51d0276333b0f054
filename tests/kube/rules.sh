#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The CSI driver against the rules of the specification, as in
# tests/system/check_csi.sh, with its records behind a real API server: what a
# call answers must not depend on where records are kept.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/kube/lib.sh"
need_kube
STORE=kube:,kubeconfig=$TEST_DIR/kube/driver.kubeconfig
. "$TOP/tests/csi/lib.sh"

at_exit kube_stop
at_exit cluster_stop
cluster_network "$C" 3 || exit 1
kube_start "$TEST_DIR/kube" || exit 1
kube_install || exit 1
# A driver in mode all has the rights of every part together.
k create serviceaccount driver >/dev/null || exit 1
for role in controller node storage; do
	k create rolebinding "driver-$role" --role "tributary-$role" \
		--serviceaccount "$KUBE_NAMESPACE:driver" >/dev/null || exit 1
done
kube_account driver || exit 1
CLUSTER_STORE=$STORE
csi_start 3 640MiB

# Its lines come first, as in check_csi.sh.
cd "$TOP" || exit 1
bad=0
for access in mount block; do
	"$BUILD/test/tests/csi/rules_main" "$C" $access || bad=1
done
exit $bad
