#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What we give a Kubernetes cluster, and what we ask of it, against a real API
# server: definitions, schemas, manifests, and the store that keeps its records
# there.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/kube/lib.sh"
need_kube

dir=$TEST_DIR/kube
at_exit cluster_stop
at_exit kube_stop
cluster_network "$TEST_DIR/c" 0 || exit 1
kube_start "$dir" || exit 1
kube_install || exit 1
STORE=kube:,kubeconfig=$(kube_config admin)
kube_trib() { _in_switch trib --store "$STORE" "$@"; }
# lists: how many lists of volumes the server has answered so far
lists() { grep -c '"verb":"list".*"resource":"volumesplits"' "$dir/audit.log" || true; }

# volume NAME [JQ]: a VolumeSplit that the schema takes, changed by a filter
volume() {
	jq -n --arg name "$1" '{
		apiVersion: "union.io/v1alpha1", kind: "VolumeSplit",
		metadata: {name: $name},
		spec: {capacity: 67108864, layout: "union", fsType: "ext4",
			policy: "mfs", transport: "auto",
			placement: {minSplits: 1, maxSplits: 2, nodes: ["n1"],
				excludeNodes: ["n2"], nodeLabels: {zone: "a"}}},
		status: {phase: "Ready", epoch: 1,
			splits: [{index: 0, node: "n1", pool: "p", extent: "e-0",
				extentID: "0c6f9d5e-3333-4222-8333-abcdefabcdef",
				size: 67108864, state: "Ready",
				fsUUID: "0c6f9d5e-1111-4222-8333-abcdefabcdef"}],
			attachments: [{node: "n1", epoch: 1, state: "Attached",
				mountPoint: "/mnt", since: "2026-01-01T00:00:00Z"}],
			conditions: [{type: "Healthy", status: "True"}]}} | '"${2:-.}"
}
node() {
	jq -n --arg name "$1" '{
		apiVersion: "union.io/v1alpha1", kind: "StorageNode",
		metadata: {name: $name},
		spec: {controlAddress: "tcp:10.0.0.1:7000", dataAddress: "10.0.0.1:10809",
			initiatorAddresses: ["10.0.0.1"],
			tls: {caFile: "/a", certFile: "/b", keyFile: "/c"}},
		status: {conditions: [{type: "Ready", status: "True"}]}} | '"${2:-.}"
}
# refused FIELD [VERB..]: what is on standard input, for that field of it
refused() {
	local out verb=("${@:2}")
	[ ${#verb[@]} -gt 0 ] || verb=(create)
	if out=$(k "${verb[@]}" --validate=false -f - 2>&1); then fail "$1: taken: $out"; fi
	grep -qF "is invalid" <<<"$out" && grep -qF "$1" <<<"$out" ||
		fail "not for $1: $out"
}

test_the_definitions_are_served() {
	local crd
	for crd in volumesplits volumesplitsnapshots volumesplitgroupsnapshots storagenodes; do
		k get crd $crd.union.io -o json >"$dir/crd"
		same "$(jq -c '[.status.conditions[] | {(.type): .status}] | add' "$dir/crd")" \
			'{"NamesAccepted":"True","Established":"True"}'
	done
	k api-resources --api-group union.io -o name | sort >"$dir/names"
	same "$(paste -sd ' ' "$dir/names")" "storagenodes.union.io volumesplitgroupsnapshots.union.io volumesplits.union.io volumesplitsnapshots.union.io"
	# kubectl explains a member, once the server has put its OpenAPI together.
	eventually 30 k explain volumesplits.status.splits.growTo
	k explain volumesplits.status.splits.growTo | grep -q 'the extent is being made'
}

test_nonsense_is_refused_by_the_schema() {
	local n=0 field change
	volume good | k create -f - >/dev/null
	at_exit k delete volumesplits,storagenodes --all
	while IFS='|' read -r field change; do
		volume bad "$change" | refused "$field"
		n=$((n + 1))
	done <<-'E'
		spec|del(.spec)
		spec.capacity|.spec.capacity = 1
		spec.capacity|.spec.capacity = "64Mi"
		spec.capacity|del(.spec.capacity)
		spec.capacity|.spec.capacity = 1152921504606846977
		spec.layout|.spec.layout = "raid0"
		spec.layout|del(.spec.layout)
		spec.fsType|.spec.fsType = "ntfs"
		spec.policy|.spec.policy = "random"
		spec.transport|.spec.transport = "pigeon"
		spec.placement.minSplits|.spec.placement.minSplits = 257
		spec.placement.maxSplits|.spec.placement.maxSplits = -1
		spec.placement.nodes|.spec.placement.nodes = ["UPPER"]
		spec.placement.nodes|.spec.placement.nodes = "n1"
		spec.placement.nodeLabels|.spec.placement.nodeLabels = {a: 1}
		spec.placement.nodeLabels|.spec.placement.nodeLabels = ([range(17) | {"l\(.)": ""}] | add)
	E
	# (That keys of lists are unique it does not look at in a status.)
	while IFS='|' read -r field change; do
		volume good "$change" >"$dir/bad"
		k get volumesplit good -o json |
			jq --slurpfile bad "$dir/bad" '.status = $bad[0].status' >"$dir/put"
		refused "$field" replace --subresource=status <"$dir/put"
		n=$((n + 1))
	done <<-'E'
		status.phase|.status.phase = "Sleeping"
		status.epoch|.status.epoch = -1
		status.splits|del(.status.splits)
		status.splits.size|.status.splits[0].size = 0
		status.splits.fsUUID|.status.splits[0].fsUUID = "x"
		status.splits.state|.status.splits[0].state = "Lost"
		status.splits|.status.splits = [range(257) as $i | .status.splits[0] | .index = $i]
		status.attachments.mountPoint|.status.attachments[0].mountPoint = "relative"
		status.conditions.status|.status.conditions[0].status = "Maybe"
		status.conditions.lastTransitionTime|.status.conditions[0].lastTransitionTime = "now"
	E
	while IFS='|' read -r field change; do
		node bad "$change" | refused "$field"
		n=$((n + 1))
	done <<-'E'
		spec.controlAddress|.spec.controlAddress = "10.0.0.1"
		spec.dataAddress|.spec.dataAddress = ""
		spec.initiatorAddresses|.spec.initiatorAddresses = [range(9) | "a"]
		spec.tls.keyFile|del(.spec.tls.keyFile)
	E
	echo "# $n kinds of nonsense"
	same "$(k get volumesplits,storagenodes -o name | grep -c bad || true)" 0
}

test_the_status_is_a_subresource_and_unknown_members_are_dropped() {
	at_exit k delete volumesplit s
	volume s '.spec.unknown = 1' | k create --validate=false -f - -o json >"$dir/made"
	same "$(jq -c '[.spec.unknown, .status, .metadata.generation]' "$dir/made")" "[null,null,1]"
	jq '.status = {phase: "Ready", epoch: 7, splits: []} | .spec.policy = "ff"' \
		"$dir/made" >"$dir/put"
	k replace --subresource=status -f "$dir/put" -o json >"$dir/put2"
	same "$(jq -c '[.spec.policy, .status.epoch, .metadata.generation]' "$dir/put2")" '["mfs",7,1]'
	jq '.status.epoch = 8 | .spec.policy = "ff"' "$dir/put2" >"$dir/put3"
	k replace -f "$dir/put3" -o json >"$dir/put4"
	same "$(jq -c '[.spec.policy, .status.epoch, .metadata.generation]' "$dir/put4")" '["ff",7,2]'
	# The printer columns find what they name.
	same "$(k get vsplit s --no-headers | awk '{print $1, $2, $3, $4, $5}')" \
		"s Ready 67108864 union ext4"
	same "$(k get tributary -o name)" "volumesplit.union.io/s"
}

test_the_store_conforms() {
	CMOCKA_MESSAGE_OUTPUT=STDOUT _in_switch \
		"$BUILD/test/tests/kube/store_conforms" "$STORE"
}

# The store's own tests, with the server behind one that makes it fail.
test_the_store_is_right_when_the_server_fails() {
	echo "$KUBE_ADDRESS:6443" >"$dir/upstream"
	local part
	for part in "" _fault _access _watch; do
		(
			cd "$TOP"
			KUBE_UPSTREAM=$dir CMOCKA_MESSAGE_OUTPUT=STDOUT \
				_in_switch "$BUILD/test/volume/store/kube/store_kube${part}_test"
		) >"$dir/part" 2>&1 || fail "$(grep -vE 'RUN|OK ' "$dir/part")"
		cat "$dir/part" >>"$dir/out"
	done
	grep -c "  OK ]" "$dir/out" | sed 's/^/# /; s/$/ tests/'
	! grep -i "skipped" "$dir/out"
}

test_a_list_longer_than_a_page_is_whole() {
	local before=$(lists)
	at_exit k delete volumesplits -l long=yes --wait=false
	# As the store makes them, whose status follows.
	volume x '.metadata.labels = {long: "yes"} | .metadata.annotations =
		{"union.io/pending-status": (.status | tojson)}' >"$dir/one"
	jq '. as $v | {apiVersion: "v1", kind: "List", items: [range(1100) as $i | $v |
		.metadata.name = "long-\($i)"]}' "$dir/one" | k create -f - >/dev/null
	kube_trib volume list --json >"$dir/long"
	same "$(jq '[.[].metadata.name] | unique | length' "$dir/long")" 1100
	[ $(($(lists) - before)) -ge 3 ] || fail "not in pages"
	grep -q 'volumesplits?.*continue=' "$dir/audit.log"
}

test_an_object_that_is_no_record_hides_no_other() {
	at_exit k delete volumesplits --all --wait=false
	volume stray 'del(.status)' | k create -f - >/dev/null
	volume fine '.metadata.annotations =
		{"union.io/pending-status": (.status | tojson)}' | k create -f - >/dev/null
	kube_trib volume list >"$dir/out" 2>"$dir/err" || true
	grep -q '^fine' "$dir/out" || fail "$(cat "$dir/out" "$dir/err")"
	grep -q "stray" "$dir/err"
}

test_who_may_not_is_told_what_to_grant() {
	kube_user stranger
	fails 8 'forbidden' _in_switch trib \
		--store "kube:,kubeconfig=$(kube_config stranger)" volume list
	fails any 'namespace' _in_switch trib \
		--store "kube:nowhere,kubeconfig=$(kube_config admin)" \
		node add n --control tcp:10.0.0.1:7000 --data 10.0.0.1:10809
	sed 's/token: .*}}/token: abc}}/; s/client-cert.*}}/token: abc}}/' \
		"$(kube_config admin)" >"$(kube_config nobody)"
	fails any 'nauthorized' _in_switch trib \
		--store "kube:,kubeconfig=$(kube_config nobody)" volume list
}

# ---- manifests ----

# What 1.20 does not know of the manifests: KIND/NAME, a word of its refusal,
# why; what is "+" is taken without that member. One that is not refused any
# more fails the test too.
newer='
PodDisruptionBudget/tributary-controller|policy/v1|-|the group is served since 1.21
NetworkPolicy/tributary-controller|endPort|+|a range of ports, since 1.21
CSIDriver/union.csi.union.io|seLinuxMount|+|mounts with a context, since 1.25
'

# apply_each FOLDER: every object that it renders to, as the server takes it
apply_each() {
	local i what why line
	k kustomize "$1" >"$dir/all.yaml" || fail "$1 is not rendered"
	python3 - "$dir/all.yaml" "$dir/docs" <<-'E'
		import json, os, shutil, sys, yaml
		shutil.rmtree(sys.argv[2], ignore_errors=True)
		os.mkdir(sys.argv[2])
		with open(sys.argv[1]) as file:
		    for i, doc in enumerate(yaml.safe_load_all(file)):
		        with open("%s/%03d" % (sys.argv[2], i), "w") as out:
		            json.dump(doc, out)
	E
	for i in "$dir"/docs/*; do
		why=$(k apply --dry-run=server --server-side --force-conflicts -f "$i" 2>&1) &&
			continue
		what=$(jq -r '"\(.kind)/\(.metadata.name)"' "$i")
		line=$(grep -F "$what|" <<<"$newer") &&
			grep -qF "$(cut -d'|' -f2 <<<"$line")" <<<"$why" ||
			fail "$1: $what: $why"
		echo "$what" >>"$dir/unknown"
		[ "$(cut -d'|' -f3 <<<"$line")" = - ] ||
			k apply --dry-run=server --validate=false -f "$i" >/dev/null
	done
	echo "# ${1#"$TOP"/}: $(find "$dir/docs" -type f | wc -l) objects"
}

test_the_manifests_are_accepted() {
	local folder what reason
	for folder in "$TOP"/deploy/kustomize/{base,overlays/*,samples}; do
		apply_each "$folder"
	done
	while IFS='|' read -r what _ _ reason; do
		[ -n "$what" ] || continue
		grep -qxF "$what" "$dir/unknown" || fail "$what is taken: strike it off the list"
		echo "# not known to this server: $what ($reason)"
	done <<<"$newer"
}

run_tests "$@"
