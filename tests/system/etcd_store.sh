#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes whose records are in an etcd of one member.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
. "$TOP/tests/etcd_lib.sh"
need_root
need etcd etcdctl losetup mkfs.ext4

test_a_volume_lives_with_its_record_in_etcd() {
	members 1
	trib volume create v --size 192MiB --splits 2 --share-pools --label "a b=c d"
	trib volume show v | grep -q host1
	[ "$(keys /records/VolumeSplit/v)" = 1 ]
	[ "$(keys /leases/)" = 0 ]
	trib mount v "$(mnt 1 v)"
	fill "$(mnt 1 v)"
	ctl get --print-value-only /trib/records/VolumeSplit/v | head -n 1 |
		grep -q '"mountPoint":"'"$(mnt 1 v)"
	trib umount v
	trib volume delete v
	[ "$(keys VolumeSplit)" = 0 ]
	conforms /conforms
	# Another prefix is another cluster.
	fails 3 "" trib --store "$(ETCD_PREFIX=/other etcd_store)" pool list host1
}

test_two_machines_cannot_beat_for_one_node() {
	members 1
	local keep=(node register --keep --name host1 --control "unix:$C/host1/run/blockd.sock"
		--data 10.77.0.1:10809)
	begin_trib "$TEST_DIR/keeper" "${keep[@]}"
	eventually 30 eval '[ "$(keys /beats/live/host1)" = 1 ]'
	kill $!
	wait $! || true
	ctl put /trib/beats/live/host1 other/machine
	begin_trib "$TEST_DIR/keeper" "${keep[@]}"
	eventually 30 grep -q "two machines of one name" "$TEST_DIR/keeper.err"
}

test_an_operation_that_lost_its_lease_writes_nothing() {
	members 1
	mkfifo "$C/go"
	nsenter --net="/run/netns/${CLUSTER_NET}1" "$BUILD/test/tests/etcd/lost_lease" \
		"$(etcd_store)" <>"$C/go" >"$C/said" &
	at_exit kill $!
	eventually 30 grep -qx held "$C/said"
	ctl del /trib/leases/VolumeSplit/lost
	echo >"$C/go"
	wait $!
}

# The watcher stands still while its stream is cut and its moment is forgotten.
test_a_watcher_survives_a_compaction() {
	local watcher
	members 1
	trib volume create v --size 64MiB --quiet
	nsenter --net="/run/netns/${CLUSTER_NET}1" "$BUILD/test/tests/etcd/store_watch" \
		"$(etcd_store)" >"$C/said" &
	watcher=$!
	at_exit kill $watcher
	eventually 30 grep -qx synced "$C/said"
	kill -STOP $watcher
	etcd_signal 1 KILL
	etcd_start 1
	etcd_well
	trib volume create w --size 64MiB --quiet
	trib volume delete v --quiet
	ctl compact "$(ctl get / -w json | grep -o '"revision":[0-9]*' | cut -d: -f2)"
	kill -CONT $watcher
	eventually 60 grep -qx "set w" "$C/said"
	eventually 60 grep -qx "removed v" "$C/said"
	# The watch goes on from there.
	trib volume create x --size 64MiB --quiet
	eventually 60 grep -qx "set x" "$C/said"
	[ "$(grep -cx synced "$C/said")" -ge 2 ]
}

run_tests "$@"
