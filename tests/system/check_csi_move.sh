#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A volume larger than any host moves from a host that died to another one:
# three hosts that store, of 2 GiB each, and a fourth that only uses.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi/lib.sh"
CALL_TIMEOUT_MS=2000 # of nodes that were killed
csi_start 4 2GiB

cable() { ip -n "${CLUSTER_NET}sw" link set "port$1" "$2"; } # HOST up|down
# Everything that runs on host $1.
pids_on() { ip netns pids "$CLUSTER_NET$1"; }
signal_all() { # HOST SIGNAL
	local p
	# One may have ended since it was listed.
	for p in $(pids_on "$1"); do kill "-$2" "$p" 2>/dev/null || true; done
}
# Nothing runs there any more, nor what was just being started.
host_stops() {
	local p runs=1
	at_exit signal_all "$1" CONT # what calls it would wait for ever
	while [ $runs != 0 ]; do
		signal_all "$1" STOP
		sleep 0.1
		runs=0
		for p in $(pids_on "$1"); do
			# Waiting for a server that is stopped, it can't stop.
			grep -qsE '^State:.[TtZD]' "/proc/$p/status" || runs=1
		done
	done
}
# What a kernel that is gone does not have any more.
forget_mounts() {
	local p
	# First: once its FUSE mount is gone a device has its file's name no more.
	losetup -nl -O NAME,BACK-FILE | grep "$C/host$1/" | while read -r p _; do
		losetup -d "$p"
	done
	findmnt -rno TARGET | grep "^$C/host$1/" | sort -r | while read -r p; do
		umount -l "$p"
	done
	rm -rf "$C/host$1/run" "$C/host$1/staging" "$C/host$1/pods"
	mkdir "$C/host$1/run"
}
kill_all() { # also who was being started
	signal_all "$1" KILL
	[ -z "$(pids_on "$1")" ]
}
host_dies() {
	cable "$1" down
	eventually 30 kill_all "$1"
	rm -f "$C/host$1/csi.pid" "$C/host$1/blockd.pid"
	forget_mounts "$1"
}
host_boots() {
	cable "$1" up
	blockd_start "$1"
	driver_start "$1"
}

# Files on several branches, 60 MB, each on the disk.
write_data() {
	local i
	mkdir -p "$1/d"
	for i in $(seq 1 15); do
		# The union looks once a second where there is most room.
		[ $((i % 5)) != 0 ] || sleep 1.2
		dd if=/dev/urandom of="$1/d/$i" bs=1M count=4 conv=fsync status=none
	done
	(cd "$1" && sha256sum d/* >sums)
	sync "$1/sums" "$1/d" "$1"
}
branches_with_data() { # HOST NAME
	find "$C/host$1/run/volumes/$2" -path '*/d/*' -type f -printf '%H/%P\n' 2>/dev/null |
		sed 's|/d/[0-9]*$||' | sort -u | wc -l
}

use() { # HOST NAME ID: until it can be used there
	attach 1 "$3" "host$1"
	stage "$1" "$2" "$3"
	publish "$1" "$2" "$3" "pod-$2"
}
unuse() {
	unpublish "$1" "$3" "pod-$2"
	unstage "$1" "$2" "$3"
	detach 1 "$3" "host$1"
}

test_a_volume_moves_from_a_killed_host() {
	local id how
	cap 1
	volume big
	id=$(create 1 big 5120 parameters.nodes=host1,host2,host3)
	same "$(ls "$C"/host[123]/pool/extents/big-*.data | wc -l)" 3
	use 4 big "$id"
	[ "$(df -B1 --output=size "$(target 4 pod-big)" | tail -n 1)" -gt $((4500 * MIB)) ]
	write_data "$(target 4 pod-big)"
	[ "$(branches_with_data 4 big)" -gt 1 ]
	fails 1 "FAILED_PRECONDITION" attach 1 "$id" host1
	host_dies 4
	# The volume is still the dead host's.
	fails 1 "host4" attach 1 "$id" host1
	# From all nodes, as a person forces it.
	detach 1 "$id"
	use 1 big "$id"
	check "$(target 1 pod-big)"
	host_boots 4
	# Nothing of it is on the host that came back.
	fails 1 "FAILED_PRECONDITION" stage 4 big "$id"
	check "$(target 1 pod-big)"
	unuse 1 big "$id"
	use 4 big "$id"
	check "$(target 4 pod-big)"
	# From that node by name, as Kubernetes does for one out of service.
	host_dies 4
	detach 2 "$id" host4
	use 2 big "$id"
	check "$(target 2 pod-big)"
	unuse 2 big "$id"
	host_boots 4
	delete 1 "$id"
	for how in 1 2 3 4; do orphans $how; done >"$TEST_DIR/orphans"
	lacks "$TEST_DIR/orphans" big
	nothing_left
}

# The host was only cut off, and what runs there does not know.
test_a_writer_that_comes_back_lands_nothing() {
	local id t writer before
	cap 1
	volume stale
	id=$(create 1 stale 5120 parameters.nodes=host1,host2,host3)
	use 4 stale "$id"
	t=$(target 4 pod-stale)
	write_data "$t"
	cat >"$TEST_DIR/writer" <<-E
		while :; do
			for i in \$(seq 1 15); do
				dd if=/dev/zero of="$t/d/\$i" bs=1M count=1 conv=notrunc,fsync ||
					touch "$TEST_DIR/failed"
				touch "$TEST_DIR/turn"
			done
			sleep 0.05
		done
	E
	# Every file, so every branch, for ever; its pid has to be the writer's.
	nsenter "--net=/run/netns/${CLUSTER_NET}4" bash "$TEST_DIR/writer" >/dev/null 2>&1 &
	writer=$!
	at_exit kill -KILL $writer
	eventually 30 test -e "$TEST_DIR/turn"
	host_stops 4
	cable 4 down
	at_exit cable 4 up
	detach 1 "$id" host4
	use 1 stale "$id"
	# What the new host writes is what there is.
	t=$(target 1 pod-stale)
	write_data "$t"
	check "$t"
	before=$(cat "$t/sums")
	rm -f "$TEST_DIR/failed"
	cable 4 up
	signal_all 4 CONT
	eventually 60 test -e "$TEST_DIR/failed"
	sleep 1
	check "$t"
	same "$(cat "$t/sums")" "$before"
	# Past every cache of the new host too.
	unuse 1 stale "$id"
	use 2 stale "$id"
	check "$(target 2 pod-stale)"
	unuse 2 stale "$id"
	kill -KILL $writer
	wait $writer 2>/dev/null || true
	# The host that came back can be cleaned up.
	unpublish 4 "$id" pod-stale
	unstage 4 stale "$id"
	delete 1 "$id"
	nothing_left
}

# A host that stores a part of it is needed.
test_without_a_host_that_stores_a_part_the_volume_waits_for_it() {
	local id
	cap 1
	volume part
	id=$(create 1 part 5120 parameters.nodes=host1,host2,host3)
	use 3 part "$id"
	write_data "$(target 3 pod-part)"
	host_dies 3
	detach 1 "$id" host3
	attach 1 "$id" host1
	once fails 1 "UNAVAILABLE" stage 1 part "$id"
	once fails 1 "host3" stage 1 part "$id"
	same "$(findmnt -rno TARGET | count "$(staging 1 part)")" 0
	host_boots 3
	stage 1 part "$id"
	publish 1 part "$id" pod-part
	check "$(target 1 pod-part)"
	unuse 1 part "$id"
	delete 1 "$id"
	nothing_left
}

run_tests "$@"
