#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes whose records are in an etcd of three members, of which some fail.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
. "$TOP/tests/etcd_lib.sh"
need_root
need etcd etcdctl losetup mkfs.ext4

test_a_killed_member_of_three_is_not_missed() {
	local i
	members 3
	watcher
	for i in 1 2 3; do
		etcd_signal "$i" KILL
		trib volume create "v$i" --size 64MiB --quiet
		eventually 60 grep -q "^v$i .*Ready" "$TEST_DIR/watch"
		etcd_start "$i"
		etcd_well
	done
	etcd_signal 2 KILL
	conforms /conforms
	for i in 1 2 3; do trib volume delete "v$i" --quiet; done
	[ "$(ETCD_ONE=$(etcd_url 1) keys /records/VolumeSplit)" = 0 ]
}

# Each is silent once, so the leader is, too. The kernel takes connections for it.
test_a_silent_member_is_left_for_the_next() {
	local i
	members 3
	for i in 1 2 3; do
		etcd_signal "$i" STOP
		trib volume create "v$i" --size 64MiB --quiet
		etcd_signal "$i" CONT
		etcd_well
	done
}

test_a_lost_quorum_stops_calls_but_no_data() {
	members 3
	trib volume create v --size 64MiB --quiet
	trib mount v "$(mnt 1 v)" --quiet
	watcher
	etcd_signal 1 KILL
	etcd_signal 3 KILL
	fails 7 "try again later" trib volume create w --size 64MiB
	fill "$(mnt 1 v)"
	check "$(mnt 1 v)"
	eventually 60 grep -q etcd "$TEST_DIR/watch.err"
	etcd_start 1
	etcd_well 1 2
	trib volume create w --size 64MiB --quiet
	eventually 90 grep -q '^w .*Ready' "$TEST_DIR/watch"
	check "$(mnt 1 v)"
	trib umount v --quiet
}

run_tests "$@"
