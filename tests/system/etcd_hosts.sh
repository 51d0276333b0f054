#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Three hosts that share an etcd, which asks for certificates and a password.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
. "$TOP/tests/etcd_lib.sh"
need_root
need etcd etcdctl losetup mkfs.ext4 openssl

C=$TEST_DIR/c E=$TEST_DIR/etcd
ETCD_TLS=1
start() {
	mkdir -p "$E"
	etcd_certificates "$E" 10.77.0.254 || return 1
	cluster_network "$C" 3
	at_exit cluster_end
	ip -n "${CLUSTER_NET}sw" addr add 10.77.0.254/24 dev br0
	ip -n "${CLUSTER_NET}sw" link set lo up
	etcd_begin "$E" "${CLUSTER_NET}sw" 10.77.0.254 3
	for i in 1 2 3; do etcd_start $i; done
	etcd_well
	ctl user add root:rootword && ctl user grant-role root root && ctl auth enable || return 1
	ETCD_USER=(--user root:rootword)
	echo rootword >"$E/password"
	CLUSTER_STORE=$(etcd_store "cert=$E/client.pem" "key=$E/client.key" user=root \
		"password-file=$E/password")
	cluster_start "$C" 3 512MiB
}
start >"$TEST_DIR/start.log" 2>&1 || { cat "$TEST_DIR/start.log"; say_more; exit 1; }

test_hosts_make_mount_and_delete_volumes_of_each_other() {
	on 1 trib volume create v --size 192MiB --splits 3 --quiet
	[ "$(on 2 trib volume show v | grep -o 'host[123]' | sort -u | wc -l)" = 3 ]
	on 2 trib mount v "$(mnt 2 v)" --quiet
	fill "$(mnt 2 v)"
	fails 6 "host2" on 3 trib mount v "$(mnt 3 v)"
	fails 6 "" on 1 trib volume delete v
	# Whichever host asks, and while a member is away.
	etcd_signal 1 KILL
	on 2 trib umount v --quiet
	on 3 trib mount v "$(mnt 3 v)" --quiet
	check "$(mnt 3 v)"
	etcd_start 1
	etcd_well
	on 3 trib umount v --quiet
	on 2 trib volume resize v --size 224MiB --quiet
	on 1 trib volume delete v --quiet
	[ "$(keys VolumeSplit)" = 0 ]
	[ "$(keys /leases/)" = 0 ]
}

test_one_of_three_hosts_makes_a_volume_of_one_name() {
	local i
	at_exit on 1 trib volume delete same --quiet
	for i in 1 2 3; do
		{ ! on $i trib volume create same --size $((64 * i))MiB --quiet || echo $i >>"$TEST_DIR/made"; } &
	done
	wait
	[ "$(wc -l <"$TEST_DIR/made")" = 1 ]
	on 3 trib volume show same | grep -q Ready
}

test_nothing_new_is_placed_on_a_cordoned_node() {
	at_exit on 1 trib volume delete c --quiet
	at_exit on 1 trib node uncordon host1 --quiet
	at_exit on 1 trib pool uncordon host2/main --quiet
	on 2 trib node cordon host1 | grep -qx 'node host1 cordoned: nothing new is placed on it'
	on 3 trib pool cordon host2/main --quiet
	fails 3 "no pool 'none'" on 3 trib pool cordon host2/none
	fails 3 "host9" on 3 trib node cordon host9
	on 1 trib node list | grep -q '^host1 .*ready, cordoned'
	on 1 trib node show host2 | grep -q '^pool  *main: online, cordoned'
	on 1 trib pool list | grep -c 'online, cordoned' | grep -qx 2
	on 1 trib pool list host2 --json | jq -e '.[0].cordoned'
	on 1 trib volume create c --size 128MiB --quiet
	on 1 trib volume show c --json | jq -e '[.splits[].node] == ["host3"]'
	fails 5 "2 cordoned" on 1 trib volume create d --size 1GiB
	# A new registration by hand leaves the cordon.
	on 1 trib node list --json | jq -r '.[0] | .control, .data' >"$TEST_DIR/at"
	{ read -r control; read -r data; } <"$TEST_DIR/at"
	on 1 trib node add host1 --control "$control" --data "$data" --quiet
	on 1 trib node list | grep -q '^host1 .*ready, cordoned'
	on 1 trib node uncordon host1 --quiet
	on 1 trib pool uncordon host2/main --quiet
	! on 1 trib node list | grep -q cordoned || false
	on 1 trib volume create d --size 1GiB --quiet
	on 1 trib volume delete d --quiet
}

# What the timer's unit runs, on all hosts at once: one of them does it.
test_the_scrub_of_three_hosts_is_one_and_finds_what_has_no_record() {
	local i words
	words=$(sed -n 's|^ExecStart=@SBINDIR@/||p' "$TOP/deploy/systemd/tributary-scrub.service")
	[ -n "$words" ]
	on 1 trib volume create s --size 128MiB --splits 2 --quiet
	on 3 trib extent create strange --size 64MiB --label tributary.io/volume-uid=11111111-2222-4333-8444-555555555555 \
		--label tributary.io/volume=gone --quiet
	at_exit on 3 trib extent delete --force strange --quiet
	for i in 1 2 3; do
		# shellcheck disable=SC2086
		{ on $i $words --json >"$TEST_DIR/scrub$i" && echo $i >>"$TEST_DIR/ended"; } &
	done
	wait
	same "$(wc -l <"$TEST_DIR/ended")" 3
	same "$(cat "$TEST_DIR"/scrub? | jq -s '[.[] | select(.ran)] | length')" 1
	# The result is in etcd, for all. A timer does not scrub again; a person does.
	same "$(on 2 trib status --json | jq -c '[.nodes[].scrub.orphans]')" '[0,0,1]'
	# shellcheck disable=SC2086
	same "$(on 2 $words --json | jq -c '[.ran, .orphans, .missing]')" '[false,1,0]'
	etcd_signal 3 KILL
	same "$(on 2 trib volume scrub --json | jq -c '[.ran, .orphans, .missing, .silent]')" '[true,1,0,0]'
	etcd_start 3
	etcd_well
	on 3 trib extent delete --force strange --quiet
	same "$(on 1 trib volume scrub --json | jq -c '[.ran, .orphans, .missing]')" '[true,0,0]'
	on 1 trib volume delete s --quiet
	[ "$(keys /leases/)" = 0 ]
}

test_a_node_is_drained_by_whichever_host_while_a_member_is_away() {
	at_exit on 1 trib volume delete e --quiet
	at_exit on 1 trib node uncordon host1 --quiet
	at_exit on 1 trib node uncordon host3 --quiet
	on 1 trib node cordon host3 --quiet
	on 1 trib volume create e --size 192MiB --splits 2 --quiet
	on 1 trib node uncordon host3 --quiet
	on 3 trib mount e "$(mnt 3 e)" --quiet
	fill "$(mnt 3 e)"
	fails 6 "1 splits and 0 extents of snapshots are there still" on 2 trib node drain host1
	on 3 trib umount e --quiet
	etcd_signal 2 KILL
	on 2 trib node drain host1 --quiet
	etcd_start 2
	etcd_well
	on 1 trib volume show e --json | jq -e '[.splits[].node] | sort == ["host2", "host3"]'
	same "$(ls "$C/host1/pool/extents")" ""
	on 1 trib mount e "$(mnt 1 e)" --quiet
	check "$(mnt 1 e)"
	on 1 trib umount e --quiet
}

run_tests "$@"
