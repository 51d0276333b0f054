# SPDX-License-Identifier: Apache-2.0
# A real Kubernetes API server for tests: `. tests/kube/lib.sh` after lib.sh.
# It runs in the namespace of the cluster's bridge (tests/cluster.sh), so that
# the hosts reach it at $KUBE_ADDRESS and nothing of it is seen outside.
#
#   kube_start DIR          # after cluster_network; ready when it returns
#   kube_stop
#   k ARGUMENTS...          # kubectl, as the administrator
#   k_as USER ARGUMENTS...  # as one whom kube_account or kube_user made
#   kube_config USER        # the path of that one's kubeconfig
#
# RBAC decides, and each request is in DIR/audit.log, one JSON object a line.
. "$TOP/tests/cluster.sh"
KUBE_CACHE=${TRIB_KUBE_CACHE:-$BUILD/kube}
KUBE_ADDRESS=10.77.0.254
KUBE_NAMESPACE=tributary
KUBE_DIR=

# Skip the whole script where there is no API server.
need_kube() {
	local why
	need_root
	need openssl jq ip nsenter
	why=$("$TOP/tests/kube/fetch" --check 2>&1) || skip_all "$why"
}

_in_switch() { nsenter --net="/run/netns/${CLUSTER_NET}sw" "$@"; }
kube_config() { echo "$KUBE_DIR/$1.kubeconfig"; }
k_as() {
	local user=$1
	shift
	HOME=$KUBE_DIR _in_switch "$KUBE_CACHE/bin/kubectl" \
		--kubeconfig "$(kube_config "$user")" "$@"
}
k() { k_as admin "$@"; }

# _sign NAME SUBJECT [EXTENSION]: NAME.pem and NAME.key of our authority
_sign() {
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-subj "$2" -keyout "$1.key" -out "$1.csr" &&
		openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -days 2 \
			-CAcreateserial -extfile <(echo "${3:-}") -out "$1.pem"
}

_certificates() {
	(
		cd "$KUBE_DIR" || exit 1
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
			-x509 -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem &&
			_sign server /CN=kube-apiserver \
				"subjectAltName=IP:127.0.0.1,IP:$KUBE_ADDRESS" &&
			_sign admin /O=system:masters/CN=admin &&
			openssl genrsa -out accounts.key 2048 &&
			openssl rsa -in accounts.key -pubout -out accounts.pub
	) >"$KUBE_DIR/openssl.log" 2>&1 || {
		cat "$KUBE_DIR/openssl.log" >&2
		return 1
	}
}

# _kubeconfig USER CREDENTIAL...: YAML members of its user
_kubeconfig() {
	local user=$1
	shift
	cat >"$(kube_config "$user")" <<-E
		apiVersion: v1
		kind: Config
		current-context: $user
		clusters: [{name: c, cluster: {certificate-authority: ca.pem,
		  server: "https://$KUBE_ADDRESS:6443"}}]
		users: [{name: u, user: {$*}}]
		contexts: [{name: $user, context: {cluster: c, user: u,
		  namespace: $KUBE_NAMESPACE}}]
	E
}

# kube_user NAME [GROUP]: one with a client certificate
kube_user() {
	(cd "$KUBE_DIR" && _sign "$1" "${2:+/O=$2}/CN=$1") >/dev/null 2>&1 &&
		_kubeconfig "$1" "client-certificate: $1.pem, client-key: $1.key"
}

# kube_account NAME: its token, by TokenRequest as a pod's comes
kube_account() {
	local token
	token=$(k create token "$1" --duration=2h) &&
		_kubeconfig "$1" "token: $token"
}

etcd_start() {
	nsenter --net="/run/netns/${CLUSTER_NET}sw" "$KUBE_CACHE/bin/etcd" \
		--name t --data-dir "$KUBE_DIR/etcd" --logger zap \
		--listen-client-urls http://127.0.0.1:2379 \
		--advertise-client-urls http://127.0.0.1:2379 \
		--listen-peer-urls http://127.0.0.1:2380 \
		--initial-advertise-peer-urls http://127.0.0.1:2380 \
		--initial-cluster t=http://127.0.0.1:2380 \
		>>"$KUBE_DIR/etcd.log" 2>&1 &
	echo $! >"$KUBE_DIR/etcd.pid"
	disown
}

# Start an API server. The audit log has each request once it was answered, and
# each watch as soon as it begins.
api_start() {
	cat >"$KUBE_DIR/audit.yaml" <<-E
		apiVersion: audit.k8s.io/v1
		kind: Policy
		omitStages: [RequestReceived]
		rules: [{level: Metadata}]
	E
	nsenter --net="/run/netns/${CLUSTER_NET}sw" "$KUBE_CACHE/bin/kube-apiserver" \
		--etcd-servers http://127.0.0.1:2379 \
		--bind-address "$KUBE_ADDRESS" --advertise-address "$KUBE_ADDRESS" \
		--secure-port 6443 --endpoint-reconciler-type none \
		--cert-dir "$KUBE_DIR" --tls-cert-file "$KUBE_DIR/server.pem" \
		--tls-private-key-file "$KUBE_DIR/server.key" \
		--client-ca-file "$KUBE_DIR/ca.pem" \
		--authorization-mode RBAC --anonymous-auth=false \
		--allow-privileged=true \
		--service-account-issuer https://kubernetes.default.svc \
		--service-account-signing-key-file "$KUBE_DIR/accounts.key" \
		--service-account-key-file "$KUBE_DIR/accounts.pub" \
		--service-cluster-ip-range 10.96.0.0/24 \
		--audit-policy-file "$KUBE_DIR/audit.yaml" \
		--audit-log-path "$KUBE_DIR/audit.log" --audit-log-mode blocking \
		"$@" >>"$KUBE_DIR/apiserver.log" 2>&1 &
	echo $! >"$KUBE_DIR/apiserver.pid"
	disown
}

# 0 once it answers and has made its own roles.
api_wait() {
	local i
	for ((i = 0; i < 300; i++)); do
		if k get --raw /readyz >/dev/null 2>&1; then return 0; fi
		kill -0 "$(cat "$KUBE_DIR/apiserver.pid")" 2>/dev/null || break
		sleep 0.2
	done
	echo "no API server:" >&2
	tail -n 20 "$KUBE_DIR/apiserver.log" >&2
	return 1
}

kube_signal() { signal_daemon "$KUBE_DIR/$1.pid" "$2"; } # etcd|apiserver SIGNAL

kube_start() {
	KUBE_DIR=$1
	mkdir -p "$KUBE_DIR"
	_in_switch ip link set lo up
	_in_switch ip addr add "$KUBE_ADDRESS/24" dev br0
	_certificates || return 1
	_kubeconfig admin "client-certificate: admin.pem, client-key: admin.key"
	etcd_start
	api_start
	api_wait
}

kube_stop() {
	kube_signal apiserver KILL
	kube_signal etcd KILL
}

# The objects that the project's own manifests give a cluster, but workloads:
# CRDs, accounts and what they may do.
kube_install() {
	k create namespace "$KUBE_NAMESPACE" >/dev/null &&
		k apply -f "$TOP/deploy/crd" -f "$TOP/deploy/kustomize/base/serviceaccounts.yaml" \
			-f "$TOP/deploy/kustomize/base/rbac-controller.yaml" \
			-f "$TOP/deploy/kustomize/base/rbac-node.yaml" \
			-f "$TOP/deploy/kustomize/base/rbac-storage.yaml" >/dev/null &&
		k wait --for condition=Established --timeout=30s \
			crd/volumesplits.union.io crd/volumesplitsnapshots.union.io \
			crd/volumesplitgroupsnapshots.union.io crd/storagenodes.union.io >/dev/null
}
