#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes whose records are behind an API server (a small one of our own).
. "$(dirname "$0")/../lib.sh"
need_root
need losetup mkfs.ext4 python3 openssl curl jq
python3 -c 'import yaml, ssl' 2>/dev/null || skip_all "needs python3-yaml"

dir=$TEST_DIR api=$TEST_DIR/api
token=very-secret-token-4711
export TRIB_CONFIG=$dir/trib.conf

certificates() {
	local new="openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
	(
		cd "$api" || exit 1
		$new -x509 -days 2 -subj /CN=test-ca -keyout ca.key -out ca.pem
		$new -subj /CN=server -keyout server.key -out server.csr
		openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -days 2 \
			-CAcreateserial -extfile <(echo subjectAltName=IP:127.0.0.1) \
			-out server.pem
	) >"$dir/openssl.log" 2>&1
}

start() {
	mkdir -p "$api" "$dir/run" "$dir/state" "$dir/pool" "$dir/mnt"
	certificates || return 1
	echo $token >"$api/tokens"
	"$TOP/tests/kube/fake_apiserver" "$api" "$TOP/deploy/crd" >"$dir/api.log" 2>&1 &
	at_exit kill $!
	api_pid=$!
	eventually 30 test -s "$api/port"
	cat >"$api/config" <<-E
		current-context: here
		clusters: [{name: c, cluster: {certificate-authority: ca.pem,
		  server: "https://127.0.0.1:$(cat "$api/port")"}}]
		users: [{name: u, user: {token: $token}}]
		contexts: [{name: here, context: {cluster: c, user: u}}]
	E
	cat >"$TRIB_CONFIG" <<-E
		store = kube:tributary,kubeconfig=$api/config
		node = host1
		run-dir = $dir/run
	E
	blockd --node-name host1 --control "unix:$dir/run/blockd.sock" \
		--listen "unix:$dir/run/nbd.sock" --state-dir "$dir/state" \
		--run-dir "$dir/run" >"$dir/blockd.log" 2>&1 &
	blockd_pid=$!
	at_exit kill $!
	trib node add host1 --control "unix:$dir/run/blockd.sock" \
		--data "unix:$dir/run/nbd.sock" --quiet &&
		trib pool create main "$dir/pool" --capacity 512MiB --quiet
}

# left WORD: how many lines of what the server keeps say WORD
left() {
	python3 - "$api" <<-'E' | grep -c "$1" || true
		import ssl, sys, urllib.request
		api = sys.argv[1]
		here = "https://127.0.0.1:%s/" % open(api + "/port").read()
		trust = ssl.create_default_context(cafile=api + "/ca.pem")
		for path in ("apis/union.io/v1alpha1/namespaces/tributary/volumesplits",
		             "apis/union.io/v1alpha1/namespaces/tributary/storagenodes",
		             "api/v1/namespaces/tributary/events",
		             "apis/coordination.k8s.io/v1/namespaces/tributary/leases"):
		    ask = urllib.request.Request(here + path, headers={
		        "Authorization": "Bearer " + open(api + "/tokens").read().strip()})
		    print(urllib.request.urlopen(ask, context=trust).read()
		          .decode().replace('{"metadata"', '\n{"metadata"'))
	E
}

# faults LINE...: the server's next mistakes
faults() {
	printf '%s\n' "$@" >"$api/faults.new"
	mv "$api/faults.new" "$api/faults"
}

force_unmount() { trib umount --force v; }

start || { cat "$dir"/*.log; exit 1; }

test_a_volume_lives_with_its_record_behind_an_api_server() {
	trib volume create v --size 192MiB --splits 2 --share-pools --label "a b=c d"
	trib volume show v | grep -q 'host1'
	[ "$(left '"finalizers": \["union.io/extents"\]')" = 1 ]
	[ "$(left pending-status)" = 0 ]
	at_exit force_unmount
	trib mount v "$dir/mnt"
	cp /etc/services "$dir/mnt/"
	cmp /etc/services "$dir/mnt/services"
	[ "$(left '"mountPoint": "'"$dir/mnt")" = 1 ]
	trib umount v
	trib volume delete v
	[ "$(left resourceVersion.*annotations)" = 0 ]
}

# Writes and reads back until told to stop; how often is in $dir/written.
writer() {
	local n=0
	rm -f "$dir/enough"
	until [ -e "$dir/enough" ]; do
		head -c 256K /dev/urandom >"$dir/source"
		dd if="$dir/source" of="$dir/mnt/file" bs=64K conv=fsync \
			oflag=direct status=none || return 1
		cmp "$dir/source" <(dd if="$dir/mnt/file" iflag=direct bs=64K status=none) ||
			return 1
		echo $((++n)) >"$dir/written"
	done
}

# writes_on: more is written than was
writes_on() {
	local before
	before=$(cat "$dir/written")
	eventually 30 eval "[ \$(cat '$dir/written') -gt $((before + 2)) ]"
}

test_a_mounted_volume_goes_on_without_the_api_server() {
	local writer
	trib volume create v --size 64MiB
	at_exit trib volume delete v
	at_exit force_unmount
	at_exit faults "* . 0 cut"
	trib mount v "$dir/mnt"
	writer &
	writer=$!
	at_exit touch "$dir/enough"
	eventually 30 test -s "$dir/written"
	faults "* . 100000 cut"
	# 7: unfinished; the same command again finishes it.
	fails 7 "API server" trib volume list
	writes_on
	fails 7 "API server" trib volume create w --size 64MiB
	fails 7 "API server" trib umount v
	writes_on
	faults "* . 0 cut"
	trib volume create w --size 64MiB
	trib volume delete w
	writes_on
	touch "$dir/enough"
	wait $writer
	trib umount v
	trib volume delete v
	[ "$(left resourceVersion.*annotations)" = 0 ]
}

test_a_lost_answer_anywhere_is_healed_by_the_same_command() {
	local fault
	for fault in "POST leases 2 cut-after" "POST volumesplits 6 cut-after" \
		"PUT volumesplits/v/status 2 cut" "PUT volumesplits/v/status 2 cut-after" \
		"PUT volumesplits/v$ 2 cut" "PUT volumesplits/v$ 2 cut-after" \
		"DELETE leases 2 cut" "GET leases 1 status 500"; do
		faults "$fault"
		trib volume create v --size 64MiB || true
		faults "* . 0 cut"
		trib volume create v --size 64MiB
		[ "$(trib extent list --json | grep -c '"name": *"v-0"')" = 1 ]
		faults "${fault/POST volumesplits/DELETE volumesplits}"
		trib volume delete v || true
		faults "* . 0 cut"
		trib volume delete v
		[ "$(left resourceVersion.*annotations)" = 0 ]
		! trib extent list --json | grep -q '"name": *"v-0"' || fail "an extent is left"
	done
}

test_the_token_is_shown_nowhere() {
	faults "GET volumesplits 2 status 401" "GET volumesplits 1 cut" "GET volumesplits 1 garbage"
	for _ in 1 2 3; do trib volume list; done >"$dir/shown" 2>&1 || true
	grep -q "API server" "$dir/shown"
	! grep -r --exclude-dir=api -l -e $token "$dir" || fail "a token was written down"
	mv "$api/ca.pem" "$api/ca.gone"
	at_exit mv "$api/ca.gone" "$api/ca.pem"
	fails any "trust" trib volume list
}

# ready NAME STATUS REASON: so says the node's record
ready() {
	left "\"name\": \"$1\".*\"type\": \"Ready\", \"status\": \"$2\", \"reason\": \"$3\"" |
		grep -qx 1
}

test_a_node_keeps_itself_known() {
	local keeper rss
	trib node register --keep --name host1 --control "unix:$dir/run/blockd.sock" \
		--data "unix:$dir/run/nbd.sock" --labels zone=a,rack=7 2>"$dir/keeper.log" &
	keeper=$!
	at_exit kill $keeper
	eventually 30 ready host1 True Answers
	[ "$(left '"name": "main", "kind": "dir", "state": "online", "capacity": 536870912')" = 1 ]
	[ "$(left '"heartbeat-host1"')" = 1 ]
	trib node show host1 >"$dir/shown"
	grep -q '^heartbeat' "$dir/shown"
	grep -q 'rack=7' "$dir/shown"
	fails 6 "stop" trib node remove host1
	rss=$(awk '/^VmRSS/ {print $2}' /proc/$keeper/status)
	echo "keeper: RSS $rss KiB"
	kill $keeper
	wait $keeper
	ready host1 False KeeperStopped
	[ "$(left '"heartbeat-host1"')" = 0 ]
	trib node list --json | grep -q '"reachable": *true'
	# A node that only uses volumes is in nobody's way.
	trib node add guest
	trib node list | grep -q '^guest *client'
	trib volume orphans 2>&1 | grep -c "not answer" | grep -qx 0
	trib volume create v --size 64MiB --quiet
	trib volume delete v --quiet
	fails any "only uses volumes" trib pool create guest/p "$dir/pool"
	trib node remove guest
}

test_status_is_shown_as_it_changes() {
	local watcher
	trib status --watch >"$dir/watch" 2>"$dir/watch.err" &
	watcher=$!
	at_exit kill $watcher
	at_exit faults "* . 0 cut"
	eventually 30 grep -q '^host1' "$dir/watch"
	trib volume create v --size 64MiB --quiet
	at_exit trib volume delete v --quiet
	eventually 30 grep -q '^v .*Ready' "$dir/watch"
	faults "GET watch=1 2 end" "GET watch=1 1 gone" "GET watch=1 1 cut-line"
	trib volume resize v --size 68MiB --quiet
	eventually 30 grep -q '^v .*68.00 MiB' "$dir/watch"
	kill $watcher
	wait $watcher
	[ ! -s "$dir/watch.err" ]
}

# kubectl_delete PATH
kubectl_delete() {
	python3 - "$api" "$1" <<-'E'
		import ssl, sys, urllib.request
		api = sys.argv[1]
		here = "https://127.0.0.1:%s" % open(api + "/port").read()
		trust = ssl.create_default_context(cafile=api + "/ca.pem")
		ask = urllib.request.Request(here + sys.argv[2], method="DELETE", headers={
		    "Authorization": "Bearer " + open(api + "/tokens").read().strip()})
		urllib.request.urlopen(ask, context=trust).read()
	E
}

test_a_record_deleted_behind_our_back_keeps_its_data() {
	trib volume create v --size 64MiB --quiet
	at_exit trib volume delete v --quiet
	at_exit force_unmount
	trib mount v "$dir/mnt" --quiet
	echo precious >"$dir/mnt/file"
	kubectl_delete /apis/union.io/v1alpha1/namespaces/tributary/volumesplits/v
	# The node that has the volume mounted keeps it.
	grep -qx precious "$dir/mnt/file"
	trib mount v "$dir/mnt" --quiet
	trib volume show v | grep -q 'DeletionWaits'
	trib umount v --quiet
	fails 6 "trib volume delete" trib mount v "$dir/mnt"
	[ "$(left '"reason": "DeletionWaits"')" = 1 ]
	trib mount v "$dir/mnt" --read-only --quiet
	grep -qx precious "$dir/mnt/file"
	trib umount v --quiet
	trib volume delete v --quiet
	[ "$(left '"finalizers": \["union.io/extents"\]')" = 0 ]
}

# What the Job of `helm uninstall` runs, with the store of these tests.
uninstall() {
	local script
	script=$(python3 -c 'import sys, yaml
pod = yaml.safe_load(open(sys.argv[1]))["spec"]["template"]["spec"]
print(pod["containers"][0]["args"][0])' "$TOP/deploy/kustomize/base/uninstall/job.yaml")
	sh -c "${script/kube:/kube:tributary,kubeconfig=$api/config}"
}

test_no_uninstall_while_there_are_volumes() {
	uninstall
	trib volume create v --size 64MiB --quiet
	fails 1 "Delete their claims first" uninstall
	trib snapshot create s v --quiet
	trib volume delete v --quiet
	fails 1 "Delete their claims first" uninstall
	trib snapshot delete s --quiet
	# Not known is not none.
	faults "GET volumesplits 99 status 403"
	fails 1 "nothing is uninstalled" uninstall
	faults
	uninstall
}

# ---- the room for claims ----

# ask PATH [CURL'S WORDS]: of storage.k8s.io
ask() {
	curl -sSf --cacert "$api/ca.pem" -H "Authorization: Bearer $token" \
		"https://127.0.0.1:$(cat "$api/port")/apis/storage.k8s.io/v1/$1" "${@:2}"
}
ROOMS=namespaces/tributary/csistoragecapacities
class_is() { # NAME PROVISIONER MODE PARAMETERS
	ask storageclasses -o /dev/null -d '{"apiVersion": "storage.k8s.io/v1",
		"kind": "StorageClass", "metadata": {"name": "'"$1"'"}, "provisioner": "'"$2"'",
		"volumeBindingMode": "'"$3"'", "parameters": {'"$4"'}}'
}
room_of() { # CLASS: AVAILABLE/MAXIMUM
	ask "$ROOMS/$1" | jq -r '.metadata.annotations["union.io/room"]'
}
room_is() { [ "$(room_of "$1")" = "$2" ]; } # CLASS ROOM
rooms() { ask "$ROOMS" | jq -r '[.items[].metadata.name] | sort | join(" ")'; }
rooms_are() { [ "$(rooms)" = "$1" ]; } # NAMES
call() { CSI_AGAIN_S=60 "$BUILD/test/csi/testkit/csi_call_main" "unix://$dir/csi.sock" "$@"; }

test_the_scheduler_knows_the_room_for_claims() {
	local room maximum id all
	class_is union union.csi.union.io WaitForFirstConsumer ''
	class_is local union.csi.union.io WaitForFirstConsumer \
		'"placement": "local", "csi.storage.k8s.io/fstype": "xfs"'
	class_is at-once union.csi.union.io Immediate ''
	class_is wrong union.csi.union.io WaitForFirstConsumer '"bogus": "1"'
	class_is other other.io WaitForFirstConsumer ''
	trib-csi --mode controller --endpoint "unix://$dir/csi.sock" --run-dir "$dir/csi" \
		--store "kube:tributary,kubeconfig=$api/config" >"$dir/csi.log" 2>&1 &
	at_exit kill $!
	eventually 30 rooms_are "local union"
	ask "$ROOMS/union" | jq -e '.nodeTopology == {} and .storageClassName == "union"' >"$dir/said"
	room=$(room_of union)
	maximum=${room#*/}
	[ "$maximum" -gt $((400 << 20)) ]
	# As much as that is made, and no more is left.
	all=(capacity_range.required_bytes="$maximum" volume_capabilities.mount.fs_type=ext4
		volume_capabilities.access_mode.mode=1)
	call Controller/CreateVolume name=all "${all[@]}" >"$dir/said"
	id=$(grep -o 'all@[^"]*' "$dir/said")
	fails 1 RESOURCE_EXHAUSTED call Controller/CreateVolume name=more "${all[@]}"
	eventually 30 room_is union 0/0
	call Controller/DeleteVolume "volume_id=$id"
	eventually 30 room_is union "$room"
	# By other means than the driver's, too; and a class that goes, and comes.
	trib volume create v --size 64MiB --quiet
	ask storageclasses/local -o /dev/null -X DELETE
	eventually 30 rooms_are union
	! room_is union "$room" || fail "room that volume v has"
	trib volume delete v --quiet
	! grep -q 'warning: publishing' "$dir/csi.log" || fail "$(cat "$dir/csi.log")"
}

test_what_is_wrong_with_a_volume_is_an_event() {
	local id pid
	controller() {
		trib-csi --mode controller --endpoint "unix://$dir/csi.sock" \
			--run-dir "$dir/csi" --call-timeout-ms 2000 \
			--store "kube:tributary,kubeconfig=$api/config" >>"$dir/csi.log" 2>&1 &
		pid=$!
		at_exit kill $pid
		eventually 30 call Identity/Probe
	}
	goes_on() { kill -CONT "$blockd_pid"; }
	next() { # leader, which looks at once
		kill $pid
		wait $pid || true
		controller
	}
	# REASON; not of the record's condition, which has the same
	told() { [ "$(left '"reason": "'"$1"'", "source"')" = 1 ]; }
	controller
	call Controller/CreateVolume name=ill capacity_range.required_bytes=$((64 << 20)) \
		volume_capabilities.mount.fs_type=ext4 \
		volume_capabilities.access_mode.mode=1 >"$dir/said"
	id=$(grep -o 'ill@[^"]*' "$dir/said")
	kill -STOP "$blockd_pid"
	at_exit goes_on
	next
	eventually 60 told NodeSilent
	left 'split 0: node host1 does not answer' | grep -q '[1-9]'
	goes_on
	next
	eventually 60 told VolumeWell
	call Controller/DeleteVolume "volume_id=$id"
}

run_tests "$@"
