#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three hosts whose records are behind a real API server, each part with the
# service account and the rights that the manifests give it; and what becomes
# of it all when the API server dies.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/kube/lib.sh"
need_kube
need curl unshare losetup mkfs.ext4 mkfs.xfs findmnt python3

C=$TEST_DIR/c dir=$TEST_DIR/kube
at_exit kube_stop
at_exit cluster_stop
at_exit drivers_stop
cluster_network "$C" 3 || exit 1
kube_start "$dir" || exit 1
kube_install || exit 1
# The nodes' rights where pods have inline volumes, as an account of their own.
sed '/^subjects:/,$s/: tributary-node$/&-ephemeral/' \
	"$TOP/deploy/kustomize/base/ephemeral/rbac.yaml" >"$TEST_DIR/inline.yaml"
k create serviceaccount tributary-node-ephemeral >/dev/null &&
	k apply -f "$TEST_DIR/inline.yaml" >/dev/null &&
	k create rolebinding tributary-node-too --role tributary-node --serviceaccount \
		"$KUBE_NAMESPACE:tributary-node-ephemeral" >/dev/null || exit 1
ACCOUNTS=(tributary-{controller,node,node-ephemeral,storage})
for account in "${ACCOUNTS[@]}"; do
	kube_account "$account" || exit 1
done
store() { echo "kube:,kubeconfig=$(kube_config "tributary-$1")"; }
# Storage nodes make themselves known; then the hosts are where volumes are
# used.
CLUSTER_STORE=$(store storage)
cluster_start "$C" 3 640MiB || exit 1
for i in 1 2 3; do
	sed -i "s|^store = .*|store = $(store node)|" "$C/host$i/trib.conf"
done
ctl() { on 1 trib --store "$(store controller)" "$@"; }

# keeper_start HOST [OPTION...]: as beside blockd on a storage node
keeper_start() {
	local dir=$C/host$1
	nsenter --net="/run/netns/$CLUSTER_NET$1" trib --store "$(store storage)" \
		--node "host$1" --run-dir "$dir/run" node register --keep \
		--control "unix:$dir/run/blockd.sock" --data "10.77.0.$1:10809" "${@:2}" \
		>>"$dir/keeper.log" 2>&1 &
	echo $! >"$dir/keeper.pid"
	disown
}
keepers_stop() {
	local i
	for i in 1 2 3; do program_signal keeper $i TERM; done
}
at_exit keepers_stop
for i in 1 2 3; do keeper_start $i; done
ready() { # HOST: what its record says
	k get storagenode "host$1" -o \
		jsonpath='{.status.conditions[?(@.type=="Ready")].status}'
}

# ---- the driver: driver_start controller|node HOST [ACCOUNT [OPTION...]] ----

DRIVER_PREFIX=()
driver_start() {
	local dir=$C/host$2
	nsenter --net="/run/netns/$CLUSTER_NET$2" "${DRIVER_PREFIX[@]}" trib-csi --mode "$1" \
		--endpoint "unix://$dir/$1.sock" --node "host$2" \
		--store "$(store "${3:-$1}")" --run-dir "$dir/run" \
		--metrics-address "unix:$dir/$1.http" \
		--log-level debug "${@:4}" >>"$dir/$1.log" 2>&1 &
	echo $! >"$dir/$1.pid"
	disown
	eventually 30 csi "$1" "$2" Identity/Probe
}
# controller|node|keeper HOST SIGNAL
program_signal() { signal_daemon "$C/host$2/$1.pid" "$3"; }
drivers_stop() {
	local i
	for i in 1 2 3; do
		program_signal controller $i CONT
		program_signal controller $i TERM
		program_signal node $i TERM
	done
	unmount_hosts
}
# csi controller|node HOST SERVICE/METHOD FIELD=VALUE...
csi() {
	"$BUILD/test/csi/testkit/csi_call_main" "unix://$C/host$2/$1.sock" "${@:3}"
}

# After a failure: what the programs said, without what they only noted.
say_more() {
	local log
	for log in "$C"/host?/*.log "$C"/host?/run/initiator/*.log "$dir"/etcd.log; do
		[ -s "$log" ] || continue
		echo "--- ${log#"$TEST_DIR"/}"
		grep -v debug "$log" | tail -n 15
	done
}

# ---- volumes ----

# Whatever a test left of volume $1, also after it failed.
scrap() {
	local i
	for i in 1 2 3; do on "$i" trib umount --force "$1"; done
	ctl volume delete "$1"
}
nothing_left() {
	same "$(findmnt -rno TARGET | grep -c "^$C/" || true)" 0 mounts
	same "$(losetup -nl -O BACK-FILE | grep -c "^$C/" || true)" 0 "loop devices"
	same "$(find "$C"/host?/pool/extents -name '*.data')" ""
	same "$(k get volumesplits,volumesplitsnapshots,volumesplitgroupsnapshots -o name)" ""
	same "$(k get leases -o name | grep volumesplit || true)" ""
}
# calls: how many requests of ours the server has answered so far
calls() { grep -c '"username":"system:serviceaccount:tributary:' "$dir/audit.log"; }

test_the_life_of_a_volume_larger_than_a_node() {
	at_exit scrap big
	ctl volume create big --size 1200MiB --fs xfs
	on 1 trib mount big "$(mnt 1 big)"
	fill "$(mnt 1 big)"
	on 1 trib volume resize big --size 1500MiB
	same "$(k get vsplit big -o jsonpath='{.spec.capacity}')" $((1500 << 20))
	check "$(mnt 1 big)"
	same "$(k get vsplit big --no-headers | awk '{print $2, $6}')" "Ready host1"
	on 1 trib umount big
	on 2 trib mount big "$(mnt 2 big)"
	check "$(mnt 2 big)"
	on 2 trib umount big
	ctl volume delete big
	nothing_left
}

test_snapshots_and_their_groups_are_records_there_too() {
	at_exit scrap a
	at_exit scrap b
	at_exit scrap copy
	ctl volume create a --size 100MiB
	ctl volume create b --size 64MiB
	on 1 trib mount a "$(mnt 1 a)"
	fill "$(mnt 1 a)"
	on 1 trib umount a # these pools copy byte by byte
	ctl snapshot create one a
	ctl snapshot group create both a b
	on 1 trib mount a "$(mnt 1 a)"
	rm -r "$(mnt 1 a)/d"
	same "$(k get volumesplitsnapshots -o name | wc -l)" 3
	same "$(k get volumesplitgroupsnapshots -o name | wc -l)" 1
	ctl snapshot list | grep -q one
	ctl snapshot group show both
	eventually 30 eval 'ctl snapshot show one | grep -q " ok$"'
	ctl snapshot restore one copy
	eventually 30 on 2 trib mount copy "$(mnt 2 copy)"
	check "$(mnt 2 copy)"
	on 2 trib umount copy
	on 1 trib umount a
	eventually 30 ctl snapshot revert one
	on 1 trib mount a "$(mnt 1 a)"
	check "$(mnt 1 a)"
	on 1 trib umount a
	ctl volume delete copy
	ctl snapshot delete one
	ctl snapshot group delete both
	ctl volume delete a
	ctl volume delete b
	nothing_left
}

# What a controller and a node plugin are asked for in the life of a claim.
test_the_driver_has_the_rights_it_needs() {
	local id cap=(volume_capability.mount.fs_type=xfs
		volume_capability.access_mode.mode=1)
	local staging=$C/host2/staging target=$C/host2/pod
	at_exit scrap claim
	at_exit drivers_stop
	driver_start controller 1
	driver_start node 2
	csi controller 1 Controller/CreateVolume name=claim \
		capacity_range.required_bytes=$((900 << 20)) \
		volume_capabilities.mount.fs_type=xfs \
		volume_capabilities.access_mode.mode=1 >"$TEST_DIR/out"
	id=$(sed -n 's/.*volume_id="\([^"]*\)".*/\1/p' "$TEST_DIR/out")
	[ -n "$id" ]
	mkdir -p "$staging"
	csi controller 1 Controller/ListVolumes | grep -q "$id"
	csi controller 1 Controller/ControllerGetCapabilities >/dev/null
	csi node 2 Node/NodeGetInfo | grep -q host2
	csi controller 1 Controller/ControllerPublishVolume "volume_id=$id" \
		node_id=host2 "${cap[@]}"
	csi node 2 Node/NodeStageVolume "volume_id=$id" \
		"staging_target_path=$staging" "${cap[@]}"
	csi node 2 Node/NodePublishVolume "volume_id=$id" \
		"staging_target_path=$staging" "target_path=$target" "${cap[@]}"
	fill "$target"
	csi node 2 Node/NodeGetVolumeStats "volume_id=$id" "volume_path=$target" |
		grep -q 'the volume is well'
	csi controller 1 Controller/GetCapacity | grep -q available_capacity=
	csi controller 1 Controller/ControllerExpandVolume "volume_id=$id" \
		capacity_range.required_bytes=$((1400 << 20)) "${cap[@]}"
	csi node 2 Node/NodeExpandVolume "volume_id=$id" "volume_path=$target" \
		"staging_target_path=$staging" \
		capacity_range.required_bytes=$((1400 << 20)) "${cap[@]}"
	check "$target"
	csi node 2 Node/NodeUnpublishVolume "volume_id=$id" "target_path=$target"
	csi node 2 Node/NodeUnstageVolume "volume_id=$id" "staging_target_path=$staging"
	csi controller 1 Controller/ControllerUnpublishVolume "volume_id=$id" node_id=host2
	csi controller 1 Controller/DeleteVolume "volume_id=$id"
	nothing_left
}

# A kubelet calls nobody but the node plugin for an inline volume.
test_an_inline_volume_needs_the_rights_of_its_component() {
	local id target=$C/host3/inline
	id=csi-$(printf %064d 26)
	at_exit drivers_stop
	driver_start node 3 node-ephemeral --ephemeral-limit=1GiB --max-volumes=9
	csi node 3 Node/NodeGetInfo | grep -q max_volumes_per_node=9
	csi node 3 Node/NodePublishVolume "volume_id=$id" "target_path=$target" \
		volume_context.csi.storage.k8s.io/ephemeral=true \
		volume_context.csi.storage.k8s.io/pod.name=p \
		volume_context.csi.storage.k8s.io/pod.namespace=default \
		volume_context.csi.storage.k8s.io/pod.uid=u \
		volume_context.csi.storage.k8s.io/serviceAccount.name=default \
		volume_context.size=900Mi \
		volume_capability.mount.fs_type=xfs volume_capability.access_mode.mode=1
	fill "$target"
	check "$target"
	csi node 3 Node/NodeUnpublishVolume "volume_id=$id" "target_path=$target"
	nothing_left
}

# killed_after N COMMAND...: the API server dies when it has answered N
# requests of COMMAND, and comes back. COMMAND succeeds, if not at once then
# when it is repeated.
killed_after() {
	local n=$1 before pid rc=0
	shift
	before=$(calls)
	"$@" >"$TEST_DIR/first" 2>&1 &
	pid=$!
	until [ $(($(calls) - before)) -ge "$n" ] || ! kill -0 $pid 2>/dev/null; do
		:
	done
	kube_signal apiserver KILL
	api_start
	api_wait
	wait $pid || rc=$?
	echo "# killed after $n requests of: ${*:3}: exit $rc $(grep -v "^#" "$TEST_DIR/first" | tail -n 1)"
	[ $rc = 0 ] || "$@"
}

test_the_api_server_is_killed_in_mid_operation() {
	local n
	at_exit scrap v
	for n in 2 5 8; do
		killed_after $n ctl volume create v --size 1200MiB --fs xfs
		same "$(k get volumesplits -o name)" volumesplit.union.io/v
		same "$(k get vsplit v -o jsonpath='{.status.phase}')" Ready
		same "$(find "$C"/host?/pool/extents -name '*.data' | wc -l)" \
			"$(k get vsplit v -o json | jq '.status.splits | length')"
		[ $n = 8 ] || ctl volume delete v
	done
	killed_after 3 on 1 trib mount v "$(mnt 1 v)"
	fill "$(mnt 1 v)"
	killed_after 4 on 1 trib volume resize v --size 1500MiB
	same "$(k get vsplit v -o jsonpath='{.spec.capacity}')" $((1500 << 20))
	check "$(mnt 1 v)"
	killed_after 3 on 1 trib umount v
	on 3 trib mount v "$(mnt 3 v)"
	check "$(mnt 3 v)"
	on 3 trib umount v
	killed_after 3 ctl volume delete v
	nothing_left
	ctl volume orphans
}

test_data_paths_and_records_outlive_the_server_and_its_etcd() {
	at_exit scrap w
	ctl volume create w --size 700MiB
	on 1 trib mount w "$(mnt 1 w)"
	k get volumesplits -o json >"$dir/before"
	at_exit api_wait
	kube_signal apiserver KILL
	kube_signal etcd KILL
	fill "$(mnt 1 w)"
	fails any "API server" ctl volume create x --size 64MiB
	fails any "API server" on 1 trib umount w
	check "$(mnt 1 w)"
	# etcd is back before its client, and goes once more beneath it.
	etcd_start
	api_start
	api_wait
	k get volumesplits -o json >"$dir/after"
	cmp "$dir/before" "$dir/after"
	kube_signal etcd KILL
	fails any "" ctl volume create x --size 64MiB
	etcd_start
	eventually 30 k get volumesplits
	# Nodes are heard of again only after a heartbeat each.
	eventually 60 ctl volume create x --size 64MiB
	ctl volume delete x
	on 1 trib umount w
	ctl volume delete w
	nothing_left
}

# ---- leaders ----

# What the controller of a host says of itself: 1 or 0.
leads() {
	curl -s --max-time 5 --unix-socket "$C/host$1/controller.http" \
		http://localhost/metrics | awk '$1 == "trib_csi_leader" {print $2}'
}
is_leading() { [ "$(leads "$1")" = 1 ]; }
holder() {
	k get leases -o json | jq -r '.items[] |
		select(.metadata.name | startswith("leader-")) | .spec.holderIdentity'
}

test_one_of_two_controllers_leads() {
	local two before
	at_exit drivers_stop
	driver_start controller 1
	eventually 30 is_leading 1
	# Another machine, as far as a lease can tell.
	DRIVER_PREFIX=(unshare --pid --fork --kill-child --mount-proc)
	driver_start controller 2
	DRIVER_PREFIX=()
	before=$(holder)
	[ -n "$before" ]
	sleep 8 # more than an election's pause and a renewal
	same "$(leads 1) $(leads 2)" "1 0"
	same "$(holder)" "$before"
	# A leader that stops hands over; one that dies is followed when its lease ends.
	program_signal controller 1 TERM
	eventually 30 is_leading 2
	driver_start controller 1
	program_signal controller 2 KILL
	eventually 40 is_leading 1
	# A leader that hangs is none any more when it wakes.
	DRIVER_PREFIX=(unshare --pid --fork --kill-child --mount-proc)
	driver_start controller 2
	DRIVER_PREFIX=()
	program_signal controller 1 STOP
	eventually 40 is_leading 2
	two=$(holder)
	program_signal controller 1 CONT
	same "$(leads 1)" 0
	sleep 4
	same "$(leads 1) $(leads 2)" "0 1"
	same "$(holder)" "$two"
	program_signal controller 2 KILL # unshare would not pass on another
}

test_two_controllers_make_a_volume_once() {
	local i pids=() id
	at_exit scrap both
	at_exit drivers_stop
	driver_start controller 1
	driver_start controller 2
	create() { # HOST
		csi controller "$1" Controller/CreateVolume name=both \
			capacity_range.required_bytes=$((900 << 20)) \
			volume_capabilities.mount.fs_type=xfs \
			volume_capabilities.access_mode.mode=1 2>&1 || true
	}
	for i in 1 2 3 4; do
		create $((i % 2 + 1)) >"$TEST_DIR/both.$i" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i"; done
	! grep -vE '^(ABORTED|UNAVAILABLE): |volume_id=|^#' "$TEST_DIR"/both.? ||
		fail "another answer"
	id=$(create 1 | sed -n 's/.*volume_id="\([^"]*\)".*/\1/p')
	same "$(create 2 | sed -n 's/.*volume_id="\([^"]*\)".*/\1/p')" "$id"
	same "$(find "$C"/host?/pool/extents -name '*.data' | wc -l)" \
		"$(k get vsplit both -o json | jq '.status.splits | length')"
	csi controller 2 Controller/DeleteVolume "volume_id=$id" &
	csi controller 1 Controller/DeleteVolume "volume_id=$id" || true
	wait $! || true
	csi controller 1 Controller/DeleteVolume "volume_id=$id"
	nothing_left
}

test_a_node_that_is_not_heard_of_is_lost() {
	local i
	for i in 1 2 3; do
		eventually 30 eval '[ "$(ready '$i')" = True ]'
	done
	at_exit keeper_start 3
	at_exit drivers_stop
	driver_start controller 1
	program_signal keeper 3 KILL
	# The leader says so in its record, for others to see.
	eventually 120 eval '[ "$(ready 3)" != True ]'
	ctl node list >"$TEST_DIR/out"
	grep -E '^host3 .*lost' "$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	! grep -E '^host[12] .*lost' "$TEST_DIR/out"
}

beats() { k get leases -l union.io/heartbeat -o name | grep -c -- "-$1\$" || true; }
test_a_node_that_goes_takes_its_heartbeat_with_it() {
	eventually 30 eval '[ "$(ready 2)" = True ]'
	same "$(beats host2)" 1
	at_exit keeper_start 2
	program_signal keeper 2 TERM
	same "$(beats host2)" 0
	[ "$(ready 2)" != True ] || fail "it says that it is ready"
	# The keeper comes back with another label.
	keeper_start 2 --labels rack=7
	eventually 30 eval '[ "$(ready 2)" = True ]'
	on 1 trib node show host2 | grep -q 'rack=7'
	program_signal keeper 2 TERM
}

test_a_lease_that_a_dead_machine_left_is_taken_over() {
	at_exit scrap left
	ctl volume create left --size 64MiB
	k create -f - <<-'E'
		apiVersion: coordination.k8s.io/v1
		kind: Lease
		metadata: {name: volumesplit-left}
		spec:
		  holderIdentity: somebody
		  leaseDurationSeconds: 15
		  renewTime: "2026-01-01T00:00:00.000000Z"
	E
	on 1 trib mount left "$(mnt 1 left)"
	on 1 trib umount left
	ctl volume delete left
	nothing_left
}

# ---- rights ----

# rules ACCOUNT NAMESPACE: what the server says that it may do there
rules() {
	echo '{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
		"spec": {"namespace": "'"$2"'"}}' | k_as "$1" create --validate=false -f - -o json
}

# The last one: by now all has been done that there is to do.
test_each_account_may_do_what_it_does_and_nothing_more() {
	local account
	k create serviceaccount nobody >/dev/null
	kube_account nobody
	for account in nobody "${ACCOUNTS[@]}"; do
		rules $account "$KUBE_NAMESPACE" >"$dir/$account.rules.json"
		rules $account default >"$dir/$account.elsewhere.json"
	done
	k get -o json roles,rolebindings >"$dir/roles"
	k get -o json clusterroles,clusterrolebindings >"$dir/clusterroles"
	jq -s '{items: [.[].items[]]}' "$dir/roles" "$dir/clusterroles" >"$dir/rbac.json"
	"$TOP/tests/kube/rbac_used" "$dir" "$KUBE_NAMESPACE" "$TOP/tests/kube/rbac_reasons"
}

test_what_no_account_may_do_is_refused() {
	local account
	for account in "${ACCOUNTS[@]}"; do
		fails any orbidden k_as $account get secrets
		fails any orbidden k_as $account get secrets -A
		fails any orbidden k_as $account create token tributary-controller
		fails any orbidden k_as $account create configmap x
		fails any orbidden k_as $account -n default get volumesplits
		fails any orbidden k_as $account -n default get leases
		fails any orbidden k_as $account delete storagenode host1
		fails any orbidden k_as $account create clusterrolebinding x \
			--clusterrole cluster-admin --serviceaccount "$KUBE_NAMESPACE:$account"
	done
	for account in tributary-node tributary-storage; do
		fails any orbidden k_as $account delete volumesplit v
		fails any orbidden k_as $account get persistentvolumes
	done
	fails any orbidden k_as tributary-storage get volumesplits
}

run_tests "$@"
