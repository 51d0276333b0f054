#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Several controllers on one store: one leads, all answer, and together they do
# one operation on a volume at a time. Health and metrics, as a monitor reads them.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi_lib.sh"
need curl jq

for i in 1 2 3; do
	driver_signal $i TERM
	driver_start $i --metrics-address "unix:$C/host$i/metrics.sock"
done

page() { curl -sf -m 20 --unix-socket "$C/host$1/metrics.sock" "http://x$2"; }
metric() { page "$1" /metrics | awk -v name="$2" '$1 == name {print $2}'; }
leaders() { # numbers of the hosts whose controllers lead
	local i
	for i in 1 2 3; do
		[ ! -f "$C/host$i/csi.pid" ] || [ "$(metric $i trib_csi_leader)" != 1 ] ||
			echo $i
	done
}
one_leads() { [ "$(leaders | wc -l)" = 1 ]; }
other_than() { echo $(($1 % 3 + 1)); }
get() { csi "$1" Controller/ControllerGetVolume "volume_id=$2"; }
says() { # HOST ID TEXT: its condition
	get "$1" "$2" | grep -q "$3"
}
publish_to() { # HOST ID NODE FIELD...
	csi "$1" Controller/ControllerPublishVolume "volume_id=$2" "node_id=$3" \
		"${CAP[@]}" "${@:4}"
}
unpublish_from() {
	csi "$1" Controller/ControllerUnpublishVolume "volume_id=$2" "node_id=$3"
}

test_one_controller_leads_and_another_follows_it() {
	local first second
	eventually 30 one_leads
	first=$(leaders)
	driver_signal "$first" KILL
	eventually 30 one_leads
	second=$(leaders)
	[ "$first" != "$second" ]
	driver_start "$first" --metrics-address "unix:$C/host$first/metrics.sock"
	driver_signal "$second" TERM
	eventually 30 one_leads
	driver_start "$second" --metrics-address "unix:$C/host$second/metrics.sock"
	one_leads
}

create_slow() { # HOST
	csi "$1" Controller/CreateVolume name=slow \
		"capacity_range.required_bytes=$((1200 * MIB))" \
		volume_capabilities.mount.fs_type= \
		volume_capabilities.access_mode.mode=1
}

test_the_second_call_is_aborted_by_another_controller_too() {
	local id pid i said=
	# A create waits seconds for host3 before it plans without it. Meanwhile the
	# other controller gets the same call, or the test tries again.
	for i in 1 2 3 4 5; do
		blockd_signal 3 STOP
		at_exit blockd_signal 3 CONT
		once create_slow 1 >"$TEST_DIR/slow" 2>&1 &
		pid=$!
		sleep 0.5
		while kill -0 $pid 2>/dev/null && [[ $said != *ABORTED* ]]; do
			said=$(once create_slow 2 2>&1) || true
		done
		wait $pid || { cat "$TEST_DIR/slow"; said=; }
		blockd_signal 3 CONT
		[[ $said != *ABORTED* ]] || break
		id=$(create 2 slow 1200)
		delete 3 "$id"
	done
	[[ $said == *ABORTED* ]] || fail "the second call: $said"
	id=$(create 2 slow 1200)
	same "$(create 1 slow 1200)" "$id"
	delete 3 "$id"
	nothing_left
}

test_all_answer_at_once_while_a_node_is_silent() {
	local id leader start
	volume well
	id=$(create 1 well 1800)
	eventually 30 one_leads
	leader=$(leaders)
	# The next leader looks at once.
	driver_signal "$leader" TERM
	driver_start "$leader" --metrics-address "unix:$C/host$leader/metrics.sock"
	eventually 30 says 2 "$id" "the volume is well"
	blockd_signal 3 STOP
	at_exit blockd_signal 3 CONT
	# A call that meets the silent node has it looked at soon.
	once fails 1 UNAVAILABLE delete 1 "$id"
	eventually 30 says 2 "$id" "abnormal=1"
	# By the record: nobody waits for the node, which takes ten seconds a call.
	start=$SECONDS
	get 1 "$id" | grep -q "abnormal=1"
	[ $((SECONDS - start)) -lt 9 ] || fail "took $((SECONDS - start)) s"
	start=$SECONDS
	csi 3 Controller/ListVolumes | grep -q "abnormal=1"
	[ $((SECONDS - start)) -lt 9 ] || fail "took $((SECONDS - start)) s"
	blockd_signal 3 CONT
	delete 2 "$id"
	nothing_left
}

test_what_is_published_is_seen_by_all() {
	local id
	id=$(create 1 seen 64)
	publish_to 1 "$id" host1
	publish_to 2 "$id" host1
	get 3 "$id" | grep -q 'published_node_ids=\["host1"\]'
	fails 1 FAILED_PRECONDITION publish_to 2 "$id" host2
	fails 1 FAILED_PRECONDITION delete 3 "$id"
	unpublish_from 3 "$id" host1
	publish_to 2 "$id" host2
	unpublish_from 1 "$id" ""
	delete 2 "$id"
	nothing_left
}

test_shows_what_it_does() {
	local i
	for i in 1 2 3; do
		same "$(page $i /healthz)" ok
		same "$(page $i /readyz)" ok
		page $i /metrics | grep -q '^trib_csi_build_info{version='
		! curl -sf -m 5 --unix-socket "$C/host$i/metrics.sock" http://x/other || false
	done
	csi 2 Identity/Probe
	page 2 /metrics |
		grep -q '^trib_csi_calls_total{method="Probe",code="OK"} [1-9]'
	i=$(leaders)
	same "$(metric "$i" trib_csi_nodes)" 3
	eventually 60 scrubbed
}
# The leader has compared records and extents, and wrote that into the nodes' records.
scrubbed() {
	[ "$(metric "$(leaders)" trib_csi_scrub_timestamp_seconds)" -gt 1700000000 ] &&
		[ "$(metric "$(leaders)" trib_csi_orphan_extents)" = 0 ] &&
		[ "$(metric "$(leaders)" trib_csi_missing_extents)" = 0 ] &&
		[ "$(on 1 trib status --json | jq -c '[.nodes[] | .scrub.missing]')" = "[0,0,0]" ]
}

test_a_call_is_one_line_with_its_volume() {
	local id
	id=$(create 2 line 64)
	delete 2 "$id"
	grep -qE 'call=[0-9]+ method=CreateVolume volume=line code=OK ms=[0-9]+ request=\{' \
		"$C/host2/csi.log"
	grep -qE 'call=[0-9]+ method=DeleteVolume volume=line code=OK' "$C/host2/csi.log"
}

# The specification: a plugin makes nothing else where its socket is.
test_makes_nothing_beside_its_socket() {
	mkdir "$TEST_DIR/s"
	trib-csi --mode controller --endpoint "unix://$TEST_DIR/s/csi.sock" \
		--store "local:$C/records.db" --run-dir "$TEST_DIR/s-run" \
		2>"$TEST_DIR/s-log" &
	at_exit kill $!
	eventually 30 test -S "$TEST_DIR/s/csi.sock"
	same "$(ls -A "$TEST_DIR/s")" csi.sock
	fails any "is served by trib-csi" trib-csi --mode controller --endpoint "unix://$TEST_DIR/s/csi.sock" \
		--store "local:$C/records.db" --run-dir "$TEST_DIR/s-run"
}

# The promise is 24 MiB; what a sanitizer adds is not counted.
test_an_idle_driver_is_small() {
	local i pid kib
	[ "${SANITIZE:-}" = "" ] || return 0
	for i in 1 2 3; do
		pid=$(cat "$C/host$i/csi.pid")
		kib=$(awk '$1 == "VmRSS:" {print $2}' "/proc/$pid/status")
		echo "# host$i: $kib KiB"
		[ "$kib" -lt $((24 * 1024)) ] || fail "$kib KiB"
	done
}

run_tests "$@"
