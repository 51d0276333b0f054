#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The CSI driver against the rules of the specification, on three hosts: what
# a client can ask is checked by tests/csi/rules_main.c, whose lines come
# first; here is the rest.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi/lib.sh"
cd "$TOP" || exit 1
csi_start 3 640MiB

# A driver of its own, beside those of the hosts. Its pid is $!.
alone() { # DIR OPTION...
	trib-csi --node x --store "local:$1/records.db" --run-dir "$1/run" "${@:2}" \
		>"$1/log" 2>&1 &
}
ask() { "$BUILD/test/csi/testkit/csi_call_main" "unix://$1" "${@:2}"; }

test_the_endpoint_is_of_the_environment() {
	local dir=$TEST_DIR/endpoint service
	mkdir "$dir"
	CSI_ENDPOINT=unix://$dir/some.sock alone "$dir"
	at_exit kill $!
	eventually 30 ask "$dir/some.sock" Identity/Probe
	for service in Identity/GetPluginInfo Controller/ControllerGetCapabilities \
		GroupController/GroupControllerGetCapabilities \
		Node/NodeGetCapabilities; do
		ask "$dir/some.sock" "$service" >/dev/null
	done
}

test_nothing_is_made_beside_the_socket() {
	local dir=$TEST_DIR/beside
	mkdir -p "$dir/socket"
	CSI_ENDPOINT=unix://$dir/socket/csi.sock alone "$dir"
	at_exit kill $!
	eventually 30 ask "$dir/socket/csi.sock" Identity/Probe
	same "$(ls -A "$dir/socket")" csi.sock
}

test_a_bad_configuration_ends_it_at_once() {
	local dir=$TEST_DIR/bad
	mkdir "$dir"
	fails any "CSI_ENDPOINT" timeout 60 env -u CSI_ENDPOINT trib-csi
	fails any ".sock" timeout 60 trib-csi --endpoint "unix://$dir/socket"
	fails any "store" timeout 60 trib-csi --endpoint "unix://$dir/csi.sock" \
		--store nonsense:x --run-dir "$dir/run"
	fails any "" timeout 60 trib-csi --endpoint "unix://$dir/csi.sock" --no-such-option
	[ ! -e "$dir/csi.sock" ]
}

test_probe_says_when_the_records_are_gone() {
	local dir=$TEST_DIR/probe
	mkdir "$dir"
	CSI_ENDPOINT=unix://$dir/csi.sock alone "$dir"
	at_exit kill $!
	eventually 30 ask "$dir/csi.sock" Identity/Probe
	sqlite3 "$dir/records.db" "select name from sqlite_master where type = 'table'" |
		while read -r table; do
			sqlite3 "$dir/records.db" "alter table $table rename to gone_$table"
		done
	fails 1 "FAILED_PRECONDITION: the records" ask "$dir/csi.sock" Identity/Probe
}

test_every_mode_has_the_same_capabilities() {
	local dir=$TEST_DIR/modes mode
	for mode in all controller node; do
		mkdir -p "$dir/$mode"
		CSI_ENDPOINT=unix://$dir/$mode.sock alone "$dir/$mode" --mode $mode
		at_exit kill $!
		eventually 30 ask "$dir/$mode.sock" Identity/Probe
		ask "$dir/$mode.sock" Identity/GetPluginCapabilities >"$dir/$mode.is"
		ask "$dir/$mode.sock" Identity/GetPluginInfo >>"$dir/$mode.is"
	done
	cmp "$dir/all.is" "$dir/controller.is"
	cmp "$dir/all.is" "$dir/node.is"
}

# Distinctive ones, in every map of secrets and among the mount flags, of a
# whole life and of what is refused. Then no log, record, process or file of
# ours has one.
test_secrets_are_nowhere() {
	local id word=xyzzy-4711 f line p
	cap 1
	volume secret
	s() { echo "secrets.key-$1=$word-$1"; }
	id=$(create 1 secret 160 parameters.minExtents=2 "$(s create)")
	attach 1 "$id" host1 "$(s attach)"
	csi 1 Controller/ValidateVolumeCapabilities "volume_id=$id" "$(s validate)" \
		volume_capabilities.mount.fs_type= volume_capabilities.access_mode.mode=1 >/dev/null
	stage 1 secret "$id" "$(s stage)"
	publish 1 secret "$id" pod "$(s publish)"
	csi 1 Controller/ControllerExpandVolume "volume_id=$id" "$(s expand)" \
		"capacity_range.required_bytes=$((160 * MIB))" "${CAP[@]}" >/dev/null
	csi 1 Node/NodeExpandVolume "volume_id=$id" "volume_path=$(target 1 pod)" "$(s grow)" \
		"staging_target_path=$(staging 1 secret)" "${CAP[@]}" >/dev/null
	# Refused: by the keys, by the flags, by what is there.
	fails 1 INVALID_ARGUMENT stage 1 secret "$id" "secrets.bad $word=$word"
	fails 1 FAILED_PRECONDITION publish 1 secret "$id" other \
		"volume_capability.mount.mount_flags=password=$word-flag" "$(s refused)"
	fails 1 ALREADY_EXISTS create 1 secret 320 "$(s other)"
	fails 1 NOT_FOUND attach 1 gone host1 "$(s gone)"
	for p in $(cat "$C"/host?/csi.pid "$C"/host?/blockd.pid) \
		$(pids_of 1 trib-union secret) $(pids_of 1 trib-nbd secret); do
		for f in cmdline environ; do
			! grep -qa $word "/proc/$p/$f" || fail "/proc/$p/$f has a secret"
		done
	done
	# While all of it is there, and after.
	! grep -rqa $word "$C"/*/*.log "$C"/records.db* "$C"/*/run "$C"/*/state ||
		fail "$(grep -rla $word "$C"/*/*.log "$C"/records.db* "$C"/*/run "$C"/*/state)"
	unpublish 1 "$id" pod
	# A busy machine may need a second call.
	unstage 1 secret "$id" || unstage 1 secret "$id"
	csi 1 Controller/ControllerUnpublishVolume "volume_id=$id" node_id=host1 "$(s detach)"
	csi 1 Controller/DeleteVolume "volume_id=$id" "$(s delete)"
	! grep -rqa $word "$C"/*/*.log "$C"/records.db* "$C"/*/run "$C"/*/state ||
		fail "$(grep -rla $word "$C"/*/*.log "$C"/records.db* "$C"/*/run "$C"/*/state)"
	# The calls are in the log, so there is something to see.
	grep -q "NodeStageVolume" "$C/host1/csi.log"
	nothing_left
}

test_what_no_client_sends_harms_nothing() {
	local pid
	pid=$(cat "$C/host3/csi.pid")
	tests/csi/hostile "$C/host3/csi.sock" "$pid" "${CSI_SEED:-1}" >"$TEST_DIR/hostile" || {
		cat "$TEST_DIR/hostile"
		return 1
	}
	same "$(cat "$C/host3/csi.pid")" "$pid"
	csi 3 Identity/Probe
}

if [ $# = 0 ]; then
	bad=0
	for access in mount block; do
		"$BUILD/test/tests/csi/rules_main" "$C" $access || bad=1
	done
	# Pools whose snapshots can be cut under a writer, on any file system.
	for host in 1 2 3; do
		fallocate -l 512MiB "$C/host$host/raw" &&
			on $host trib pool create "host$host/raw" "$C/host$host/raw" --quiet || bad=1
	done
	for access in mount block; do
		"$BUILD/test/tests/csi/rules_main" "$C" $access-snapshots || bad=1
	done
	for host in 1 2 3; do on $host trib pool delete "host$host/raw" --quiet || bad=1; done
	# The rest counts on from zero; a failure before it is one of this script.
	# Not in a condition, where a test's failures would not end it.
	(run_tests)
	rc=$?
	exit $((bad | rc))
fi
run_tests "$@"
