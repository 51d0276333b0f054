#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The containers of deploy/kustomize, each with the words, files, user and
# capabilities of its manifest, against a real API server with the rights of
# its account: a node's storage, controller, node plugin and launcher. A kubelet
# and Kubernetes' sidecars are missing.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/kube/lib.sh"
need_kube
need losetup mkfs.xfs findmnt setpriv python3
[ -e /usr/lib/python3/dist-packages/kubernetes ] || skip_all "needs python3-kubernetes"

export BUILD
C=$TEST_DIR/c dir=$TEST_DIR/kube host=$TEST_DIR/c/host1 manifests=$TEST_DIR/manifests
"$TOP/tests/manifests/render" "$manifests" >"$TEST_DIR/render.log" || [ $? = 77 ] || {
	cat "$TEST_DIR/render.log"
	exit 1
}
at_exit kube_stop
at_exit cluster_stop
at_exit umount -R "$host"
at_exit pods_end
cluster_network "$C" 1 || exit 1
kube_start "$dir" || exit 1
kube_install || exit 1

# The node's own file system, and a disk of it.
mkdir -p "$host"
mount -t tmpfs node "$host" && mount --make-shared "$host" || exit 1
mkdir -p "$host/var/lib/kubelet/plugins_registry" "$host/var/lib/tributary/pools/default"
truncate -s 1200M "$TEST_DIR/disk"
mkfs.ext4 -q "$TEST_DIR/disk"
mount -o loop "$TEST_DIR/disk" "$host/var/lib/tributary/pools/default"

account() {
	mkdir -p "$TEST_DIR/$1"
	k create token "$1" --duration=2h >"$TEST_DIR/$1/token"
	cp "$dir/ca.pem" "$TEST_DIR/$1/ca.crt"
	printf %s "$KUBE_NAMESPACE" >"$TEST_DIR/$1/namespace"
}
for i in controller node storage; do account "tributary-$i" || exit 1; done

# in_pod WORKLOAD CONTAINER ACCOUNT [COMMAND...]: the container, or what
# `kubectl exec` would run in it
words() {
	words=(nsenter --net="/run/netns/${CLUSTER_NET}1" "$TOP/tests/kube/pod" "$manifests/base.yaml"
		"$manifests/secrets.yaml" "$1" "$2" "$host" 10.77.0.1 "$KUBE_ADDRESS:6443"
		"$TEST_DIR/$3" "${@:4}")
}
in_pod() {
	words "$@"
	"${words[@]}"
}
pod_start() { # WORKLOAD CONTAINER ACCOUNT
	words "$@"
	"${words[@]}" >>"$TEST_DIR/$1.$2.log" 2>&1 &
	echo $! >"$TEST_DIR/$1.$2.pid"
	disown
}
pod_end() { signal_daemon "$TEST_DIR/$1.$2.pid" "$3" ""; } # WORKLOAD CONTAINER SIGNAL
pods_end() {
	local file name
	for file in "$TEST_DIR"/*.pid; do
		name=${file##*/}
		name=${name%.pid}
		pod_end "${name%.*}" "${name##*.}" TERM
	done
}
running() { # WORKLOAD CONTAINER: and not restarted
	kill -0 "$(cat "$TEST_DIR/$1.$2.pid")" || {
		tail -n 5 "$TEST_DIR/$1.$2.log"
		fail "$2 of $1 ended"
	}
}
# What the containers said, when a test failed.
say_more() {
	local log
	for log in "$TEST_DIR"/tributary-*.log; do
		echo "# ${log##*/}"
		tail -n 25 "$log"
	done
}
status_of() { grep "^$2:" "/proc/$(cat "$TEST_DIR/$1.pid")/status"; }

test_a_storage_node_makes_itself_known() {
	pod_start tributary-storage blockd tributary-storage
	pod_start tributary-storage register tributary-storage
	eventually 30 grep -q 'is ready' "$TEST_DIR/tributary-storage.blockd.log"
	ready() { k get snode host1 -o 'jsonpath={.status.conditions[?(@.type=="Ready")].status}' | grep -qx True; }
	eventually 30 ready
	same "$(k get snode host1 -o 'jsonpath={.spec.controlAddress} {.spec.dataAddress}')" \
		"tcp:[10.77.0.1]:10810 [10.77.0.1]:10809"
	running tributary-storage blockd
	running tributary-storage register
	status_of tributary-storage.register CapBnd | grep -q '0000000000000000$'
}

test_the_controller_needs_no_right_of_the_machine() {
	pod_start tributary-controller trib-csi tributary-controller
	eventually 30 test -S "$host.pods/tributary-controller/.volumes/socket/csi.sock"
	eventually 30 nsenter --net="/run/netns/${CLUSTER_NET}1" \
			python3 -c 'import urllib.request; urllib.request.urlopen("http://10.77.0.1:9809/readyz")'
	running tributary-controller trib-csi
	status_of tributary-controller.trib-csi Uid | grep -q 65532
	status_of tributary-controller.trib-csi CapBnd | grep -q '0000000000000000$'
	status_of tributary-controller.trib-csi NoNewPrivs | grep -q 1
	in_pod tributary-controller trib-csi tributary-controller trib status >"$TEST_DIR/status"
	grep -qE '^host1 +default +online' "$TEST_DIR/status" || fail "$(cat "$TEST_DIR/status")"
	fails any "cannot touch" in_pod tributary-controller trib-csi \
		tributary-controller touch /here
}

# csi controller|node SERVICE/METHOD FIELD=VALUE...; what is ABORTED or
# UNAVAILABLE is asked again, as sidecars and kubelets do: a request that is lost
# takes half a minute, an operation has several.
csi() {
	local socket=$host.pods/tributary-controller/.volumes/socket/csi.sock
	[ "$1" = controller ] ||
		socket=$host/var/lib/kubelet/plugins/union.csi.union.io/csi.sock
	CSI_AGAIN_S=90 "$BUILD/test/csi/testkit/csi_call_main" "unix://$socket" "${@:2}"
}

node_start() {
	pod_start tributary-node trib-csi tributary-node
	eventually 30 csi node Identity/Probe
}

# What the kubelet and the sidecars ask for in the life of a claim; the node
# plugin is killed on the way.
test_a_claim_lives_and_its_data_outlive_the_node_plugin() {
	local id cap=(volume_capability.mount.fs_type=xfs volume_capability.access_mode.mode=1)
	local kubelet=/var/lib/kubelet staging target
	staging=$kubelet/plugins/kubernetes.io/csi/union.csi.union.io/abc/globalmount
	target=$kubelet/pods/4711/volumes/kubernetes.io~csi/pvc-1/mount
	mkdir -p "$host$staging" "$host${target%/*}"
	pod_start tributary-launcher trib-launch tributary-node
	eventually 30 test -S "$host/run/tributary/launch.sock"
	node_start
	csi controller Controller/CreateVolume name=pvc-1 \
		capacity_range.required_bytes=$((600 << 20)) \
		volume_capabilities.mount.fs_type=xfs \
		volume_capabilities.access_mode.mode=1 >"$TEST_DIR/created"
	id=$(sed -n 's/.*volume_id="\([^"]*\)".*/\1/p' "$TEST_DIR/created")
	[ -n "$id" ]
	csi controller Controller/ControllerPublishVolume "volume_id=$id" node_id=host1 "${cap[@]}"
	csi node Node/NodeStageVolume "volume_id=$id" "staging_target_path=$staging" "${cap[@]}"
	csi node Node/NodePublishVolume "volume_id=$id" "staging_target_path=$staging" \
		"target_path=$target" "${cap[@]}"
	# The pod sees it, and another pod of the node does.
	findmnt -n "$host$target" >/dev/null || fail "the mount stays in the node plugin's pod"
	head -c 3000000 /dev/urandom >"$host$target/data"
	sync "$host$target/data"
	sha256sum "$host$target/data" >"$TEST_DIR/sum"
	# Its container's end would end its children, too.
	same "$(pgrep -P "$(cat "$TEST_DIR/tributary-node.trib-csi.pid")" || true)" "" \
		"children of the node plugin"
	pod_end tributary-node trib-csi KILL
	echo 3 >/proc/sys/vm/drop_caches
	sha256sum --quiet -c "$TEST_DIR/sum"
	echo more >"$host$target/more"
	node_start
	csi node Node/NodeGetVolumeStats "volume_id=$id" "volume_path=$target" >"$TEST_DIR/stats"
	sha256sum --quiet -c "$TEST_DIR/sum"
	running tributary-launcher trib-launch
	csi node Node/NodeUnpublishVolume "volume_id=$id" "target_path=$target"
	csi node Node/NodeUnstageVolume "volume_id=$id" "staging_target_path=$staging"
	csi controller Controller/ControllerUnpublishVolume "volume_id=$id" node_id=host1
	csi controller Controller/DeleteVolume "volume_id=$id"
	same "$(k get volumesplits -o name)" ""
	same "$(findmnt -rno TARGET | grep -c "^$host/.*\(kubelet\|run\)/" || true)" 0 mounts
	same "$(find "$host/var/lib/tributary/pools/default/extents" -name '*.data')" ""
}

test_a_block_device_is_shown_to_a_pod() {
	local id cap=(volume_capability.block= volume_capability.access_mode.mode=1)
	local kubelet=/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices staging target
	staging=$kubelet/staging/pvc-2
	target=$kubelet/publish/pvc-2/4711
	mkdir -p "$host$staging" "$host${target%/*}"
	csi controller Controller/CreateVolume name=pvc-2 \
		capacity_range.required_bytes=$((128 << 20)) volume_capabilities.block= \
		volume_capabilities.access_mode.mode=1 >"$TEST_DIR/created"
	id=$(sed -n 's/.*volume_id="\([^"]*\)".*/\1/p' "$TEST_DIR/created")
	[ -n "$id" ]
	csi controller Controller/ControllerPublishVolume "volume_id=$id" node_id=host1 "${cap[@]}"
	csi node Node/NodeStageVolume "volume_id=$id" "staging_target_path=$staging" "${cap[@]}"
	csi node Node/NodePublishVolume "volume_id=$id" "staging_target_path=$staging" \
		"target_path=$target" "${cap[@]}"
	same "$(blockdev --getsize64 "$host$target")" $((128 << 20))
	csi node Node/NodeUnpublishVolume "volume_id=$id" "target_path=$target"
	[ ! -e "$host$target" ]
	csi node Node/NodeUnstageVolume "volume_id=$id" "staging_target_path=$staging"
	csi controller Controller/ControllerUnpublishVolume "volume_id=$id" node_id=host1
	csi controller Controller/DeleteVolume "volume_id=$id"
	same "$(find "$host/var/lib/tributary/pools/default/extents" -name '*.data')" ""
}

test_a_guest_of_kata_containers_is_given_a_device() {
	local id cap=(volume_capability.mount.fs_type= volume_capability.access_mode.mode=1)
	local staging=/var/lib/kubelet/plugins/kubernetes.io/csi/union.csi.union.io/k/globalmount
	local target=/var/lib/kubelet/pods/4712/volumes/kubernetes.io~csi/pvc-3/mount
	local records=$host/run/kata-containers/shared/direct-volumes
	mkdir -p "$host$staging" "$host${target%/*}"
	csi controller Controller/CreateVolume name=pvc-3 parameters.kataDirect=true \
		capacity_range.required_bytes=$((128 << 20)) volume_capabilities.mount.fs_type= \
		volume_capabilities.access_mode.mode=1 >"$TEST_DIR/created"
	id=$(sed -n 's/.*volume_id="\([^"]*\)".*/\1/p' "$TEST_DIR/created")
	[ -n "$id" ]
	csi controller Controller/ControllerPublishVolume "volume_id=$id" node_id=host1 "${cap[@]}"
	csi node Node/NodeStageVolume "volume_id=$id" "staging_target_path=$staging" "${cap[@]}"
	csi node Node/NodePublishVolume "volume_id=$id" "staging_target_path=$staging" \
		"target_path=$target" "${cap[@]}"
	same "$(base64 -d < <(ls "$records" | tr -- -_ +/))" "$target"
	[ -b "$(jq -r .device "$records"/*/mountInfo.json)" ]
	csi node Node/NodeUnpublishVolume "volume_id=$id" "target_path=$target"
	same "$(ls "$records")" ""
	csi node Node/NodeUnstageVolume "volume_id=$id" "staging_target_path=$staging"
	csi controller Controller/ControllerUnpublishVolume "volume_id=$id" node_id=host1
	csi controller Controller/DeleteVolume "volume_id=$id"
}

run_tests "$@"
