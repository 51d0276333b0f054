#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Direct runs: an extent of a raw pool, used on the node that has the disk, by
# device mapper straight to that disk. Real device mapper, a real user's commands.
. "$(dirname "$0")/lib.sh"
long_tests='test_one_that_was_left_suspended_goes_on
test_without_the_option_runs_end
test_a_limited_extent_goes_through_blockd'
inside_vm -m 1024 -d pool:1G -- "$@"
need curl fio mkfs.ext4 dmsetup blkdiscard fstrim
modprobe dm-mod || skip_all "the guest's kernel has no device mapper"
modprobe -a loop fuse
mkdir "$TEST_DIR/mnt"
node=

api() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$node/control" "$@"; }
trib() {
	"$BUILD/bin/trib" --quiet --store "local:$TEST_DIR/records.db" --node n1 \
		--run-dir "$node/run" "$@"
}
say_more() {
	tail -n 25 "$node/log"
	dmsetup table
	dmsetup info -c -o name,uuid,open,attr
}

# start [OPTION...]: the node's blockd
start() {
	"$BUILD/bin/blockd" --node-name n1 --floor 1MiB --config "$node/conf" \
		--control "unix:$node/control" --state-dir "$node/state" \
		--run-dir "$node/run" --listen "unix:$node/nbd" \
		--metrics-address "unix:$node/metrics" "$@" \
		>>"$node/log" 2>&1 &
	blockd=$!
	eventually 60 api GetNode >"$TEST_DIR/node"
}
metrics() { curl -sf --unix-socket "$node/metrics" http://node/metrics >"$TEST_DIR/metrics"; }
kill_it() {
	kill -KILL $blockd
	wait $blockd 2>/dev/null || true
}
stop_it() {
	kill $blockd
	wait $blockd || true
}

# A node with a raw pool on the disk.
set_up() {
	rm -f "$TEST_DIR/records.db"
	node=$(mktemp -d "$TEST_DIR/node.XXXXXX")
	touch "$node/conf"
	wipefs -aq /dev/vda
	dd if=/dev/zero of=/dev/vda bs=1M count=8 conv=fsync status=none
	start --direct
	at_exit tear_down
	api CreatePool name=a path=/dev/vda raw=true force=true >"$TEST_DIR/out" ||
		fail "$(cat "$TEST_DIR/out")"
	trib node add n1 --control "unix:$node/control" --data "unix:$node/nbd"
}
tear_down() {
	local m
	! mountpoint -q "$TEST_DIR/mnt" || umount "$TEST_DIR/mnt"
	end_at_once $(pgrep -x blockd)
	end_at_once $(pgrep -x trib-nbd)
	dmsetup remove_all --force --noudevsync 2>/dev/null
	losetup -D
	while read -r m; do umount -l "$m"; done < <(
		awk -v d="$node/" 'index($5, d) == 1 {print $5}' /proc/self/mountinfo)
}

# extent NAME SIZE [OPTION...]: attached, in $device
extent() {
	trib extent create "n1/$1" --size "$2" --pool a "${@:3}"
	attach "$1"
}
attach() {
	trib attach "n1/$1" >"$TEST_DIR/out"
	device=$(grep -o '/dev/mapper/trib-[0-9a-f-]*' "$TEST_DIR/out" | head -n 1)
	[ -b "$device" ] || fail "no mapper device: $(cat "$TEST_DIR/out")"
}
shown() { # EXTENT MEMBER, of "direct"; nothing: it has none
	api GetExtent "name=$1" |
		python3 -c 'import json,sys; print((json.load(sys.stdin).get("direct") or {}).get(sys.argv[1], ""))' "$2"
}
direct_bytes() { shown "$1" bytes; }
has_direct() { local n; n=$(direct_bytes "$1") && [ "${n:-0}" -ge "$2" ]; }
straight() { dmsetup table "${1##*/}" | grep -c " linear $(stat -c "%Hr:%Lr" /dev/vda) " || true; }
check_pool() {
	stop_it
	"$BUILD/bin/blockd" --check-pool /dev/vda >"$TEST_DIR/out" ||
		fail "$(cat "$TEST_DIR/out")"
}

# fio_of DEVICE [OPTION...]: written at random, and every block verified
fio_of() {
	fio --name=v --filename="$1" --direct=1 --ioengine=libaio --iodepth=8 \
		--rw=randwrite --bsrange=4k-128k --blockalign=4k --verify=crc32c \
		--verify_fatal=1 --do_verify=1 --size="${size:-16M}" "${@:2}" \
		>"$TEST_DIR/fio" 2>&1 || fail "$(tail -n 30 "$TEST_DIR/fio")"
}

test_what_is_written_goes_straight_to_the_disk() {
	set_up
	extent e 32MiB
	fio_of "$device"
	# All that was written, some of it in the end only: tables come in batches.
	eventually 300 has_direct e $((16 << 20))
	[ "$(straight "$device")" -gt 0 ]
	before=$(shown e writes)
	fio_of "$device" --randseed=7
	[ "$(shown e writes)" -gt "$before" ]
	trib extent show n1/e | grep '^direct  *1[0-9]'
	metrics
	grep -q '^trib_blockd_direct_runs{extent="e"} [1-9]' "$TEST_DIR/metrics"
	grep -q '^trib_blockd_direct_bytes{extent="e"} [1-9][0-9]\{7\}$' "$TEST_DIR/metrics"
	grep -q '^trib_blockd_device_operations_total{extent="e",op="write"} [1-9]' "$TEST_DIR/metrics"
	grep -q '^trib_blockd_device_bytes_total{extent="e",op="write"} [1-9]' "$TEST_DIR/metrics"
	# What the disk has, the way through blockd has, too.
	sum=$(md5sum <"$device")
	trib detach n1/e
	same "$(shown e bytes)" ""
	metrics
	! grep direct_ "$TEST_DIR/metrics" || return 1
	! dmsetup info -c --noheadings -o uuid | grep TRIB- | grep -v TRIB-disk || return 1
	attach e
	same "$(md5sum <"$device")" "$sum"
	trib detach n1/e
	check_pool
}

test_a_disk_is_the_pools_alone() {
	set_up
	extent e 32MiB
	fails any "" mkfs.ext4 -q -F /dev/vda
	fails any "" mount /dev/vda "$TEST_DIR/mnt"
	mkdir "$TEST_DIR/second"
	fails any "is in use: held by trib-disk" timeout 60 "$BUILD/bin/blockd" \
		--node-name n2 --config "$node/conf" --pool a=/dev/vda \
		--control "unix:$TEST_DIR/second/control" --state-dir "$TEST_DIR/second/state" \
		--run-dir "$TEST_DIR/second/run" --listen "unix:$TEST_DIR/second/nbd"
	# A pool that another one may change at any moment is not looked at.
	fails 1 "in use" "$BUILD/bin/blockd" --check-pool /dev/vda
	trib detach n1/e
	stop_it
	# Nothing is left of the lock; and of a killed one's nothing that holds.
	! dmsetup info -c --noheadings -o uuid | grep TRIB- || return 1
	"$BUILD/bin/blockd" --check-pool /dev/vda
	start --direct
	kill_it
	dmsetup info -c --noheadings -o uuid | grep TRIB-disk
	"$BUILD/bin/blockd" --check-pool /dev/vda
	start
	! dmsetup info -c --noheadings -o uuid | grep TRIB- || return 1
}

# Direct requests go on without it, and it goes on with what it finds.
test_a_killed_blockd_stops_no_direct_request() {
	local i
	set_up
	extent e 32MiB
	fio_of "$device" --rw=write --bs=1M --bsrange=1M-1M
	eventually 300 has_direct e $((16 << 20))
	for i in 1 ${LONG_TESTS:+2 3}; do
		kill_it
		timeout 120 fio --name=v --filename="$device" --direct=1 \
			--ioengine=libaio --iodepth=8 --rw=randwrite --bs=4k --verify=crc32c \
			--verify_fatal=1 --size=16M --randseed=$i --io_size=2M >"$TEST_DIR/fio" 2>&1 ||
			fail "$(tail -n 30 "$TEST_DIR/fio")"
		start --direct
		has_direct e $((16 << 20)) || fail "$(direct_bytes e)"
	done
	grep 'goes on with direct runs' "$node/log"
	trib snapshot list >/dev/null
	trib detach n1/e
	check_pool
}

# Suspended when it was killed: the next one lets it go on.
test_one_that_was_left_suspended_goes_on() {
	set_up
	extent e 64MiB
	size=32M fio_of "$device" --rw=write --bs=1M --bsrange=1M-1M
	eventually 300 has_direct e $((32 << 20))
	kill_it
	dmsetup suspend --noflush --nolockfs --noudevsync "${device##*/}"
	start --direct
	timeout 60 dd if="$device" of=/dev/null bs=1M count=4 iflag=direct status=none
	eventually 300 has_direct e $((32 << 20))
	grep 'was left suspended' "$node/log"
}

test_without_the_option_runs_end() {
	set_up
	extent e 64MiB
	size=32M fio_of "$device" --rw=write --bs=1M --bsrange=1M-1M
	eventually 300 has_direct e $((32 << 20))
	sum=$(md5sum <"$device")
	stop_it
	start
	same "$(straight "$device")" 0
	same "$(md5sum <"$device")" "$sum"
	same "$(shown e bytes)" ""
	# The next one with it does not take up what was given up.
	stop_it
	start --direct
	same "$(shown e bytes)" ""
	trib detach n1/e
}

# Under a writer: each snapshot is of one instant, and what it has never changes.
test_a_snapshot_under_a_writer_keeps_what_it_had() {
	local i
	set_up
	extent e 64MiB
	mkfs.ext4 -q "$device"
	mount "$device" "$TEST_DIR/mnt"
	(for ((i = 0; ; i++)); do
		echo $i >"$TEST_DIR/mnt/a"
		echo $i >"$TEST_DIR/mnt/b"
		dd if=/dev/urandom of="$TEST_DIR/mnt/f" bs=64k count=64 conv=notrunc,fsync status=none
	done) &
	writer=$!
	at_exit end_at_once $writer
	eventually 300 has_direct e $((4 << 20))
	for i in 1 2 ${LONG_TESTS:+3 4 5}; do
		eventually 300 has_direct e $((2 << 20))
		api CreateSnapshots cut=00000000-0000-4000-8000-00000000000$i \
			snapshots=extent:e,name:s$i >"$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	done
	end_at_once $writer
	eventually 60 umount "$TEST_DIR/mnt"
	trib detach n1/e
	for i in 1 2 ${LONG_TESTS:+3 4 5}; do
		trib attach "n1/s$i" --read-only >"$TEST_DIR/out"
		device=$(grep -o '/dev/mapper/trib-[0-9a-f-]*' "$TEST_DIR/out" | head -n 1)
		e2fsck -fn "$device" >"$TEST_DIR/fsck" 2>&1 || fail "$(cat "$TEST_DIR/fsck")"
		mount -o ro "$device" "$TEST_DIR/mnt"
		a=$(cat "$TEST_DIR/mnt/a") b=$(cat "$TEST_DIR/mnt/b")
		[ "$((a - ${b:-0}))" -le 1 ] || fail "a is $a, b is $b"
		umount "$TEST_DIR/mnt"
		trib detach "n1/s$i"
	done
	check_pool
}

# A higher epoch ends the direct runs of the one before, also of an open device.
test_a_stale_attachment_reaches_the_disk_no_more() {
	set_up
	extent e 32MiB
	fio_of "$device" --rw=write --bs=1M --bsrange=1M-1M
	eventually 300 has_direct e $((16 << 20))
	sleep 600 <"$device" &
	at_exit end_at_once $!
	epoch=$(api GetExtent name=e | python3 -c 'import json,sys; print(json.load(sys.stdin)["export"]["epoch"])')
	grant=$(api GetExtent name=e | python3 -c 'import json,sys; print(json.load(sys.stdin)["export"]["grant"])')
	api SetExport name=e epoch=$((epoch + 1)) grant=next "over=$grant" initiators=unix >"$TEST_DIR/out"
	same "$(shown e bytes)" ""
	same "$(straight "$device")" 0
	fails any "" timeout 120 dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct
	fails any ESTALE api AttachDirect name=e "epoch=$epoch" "grant=$grant" \
		"device=TRIB-${device##*/trib-}"
	same "$(straight "$device")" 0
	# Nor after a restart.
	kill_it
	start --direct
	same "$(straight "$device")" 0
}

test_a_limited_extent_goes_through_blockd() {
	set_up
	extent e 32MiB
	fio_of "$device" --rw=write --bs=1M --bsrange=1M-1M
	eventually 300 has_direct e $((16 << 20))
	api SetLimits name=e limits.iops=1000 >"$TEST_DIR/out"
	same "$(straight "$device")" 0
	same "$(shown e bytes)" ""
	trib detach n1/e
	attach e
	same "$(shown e bytes)" ""
}

# As its user has it: made, mounted, grown, trimmed, snapshot, unmounted.
test_a_volume_of_this_node_is_direct() {
	set_up
	trib volume create v --size 192MiB --max-splits 1
	trib mount v "$TEST_DIR/mnt"
	name=$(api ListExtents | python3 -c 'import json,sys; print(json.load(sys.stdin)["extents"][0]["name"])')
	dd if=/dev/urandom of="$TEST_DIR/mnt/f" bs=1M count=48 conv=fsync status=none
	eventually 300 has_direct "$name" $((48 << 20))
	sum=$(md5sum <"$TEST_DIR/mnt/f")
	trib snapshot create s v
	dd if=/dev/urandom of="$TEST_DIR/mnt/g" bs=1M count=16 conv=fsync status=none
	echo 3 >/proc/sys/vm/drop_caches
	same "$(md5sum <"$TEST_DIR/mnt/f")" "$sum"
	trib snapshot delete s
	eventually 300 has_direct "$name" $((60 << 20))
	trib volume resize v --size 256MiB
	same "$(md5sum <"$TEST_DIR/mnt/f")" "$sum"
	eventually 300 has_direct "$name" $((60 << 20))
	allocated() { api GetExtent "name=$name" | python3 -c 'import json,sys; print(json.load(sys.stdin)["allocated"])'; }
	before=$(allocated)
	rm "$TEST_DIR/mnt/g"
	trimmed() { sync && trib volume trim v && [ "$(allocated)" -le $((before - (12 << 20))) ]; }
	eventually 120 trimmed
	eventually 300 has_direct "$name" $((40 << 20))
	echo 3 >/proc/sys/vm/drop_caches
	same "$(md5sum <"$TEST_DIR/mnt/f")" "$sum"
	trib umount v
	same "$(shown "$name" bytes)" ""
	trib mount v "$TEST_DIR/mnt"
	same "$(md5sum <"$TEST_DIR/mnt/f")" "$sum"
	trib umount v
	trib volume delete v
	check_pool
}

# A device of several extents: each of this node's raw pool has direct runs of its own,
# and gets them again after a snapshot and a trim of the whole.
test_each_extent_of_a_device_of_several_is_direct() {
	local at=$TEST_DIR/mnt extents
	set_up
	trib volume create w --size 128MiB --layout stripe --stripe-width 2 --stripe-unit 1MiB \
		--share-pools --fs ext4
	trib mount w "$at"
	extents=$(api ListExtents | python3 -c 'import json,sys; print(*[e["name"] for e in json.load(sys.stdin)["extents"]])')
	same "$(wc -w <<<"$extents")" 2
	both_have() { for name in $extents; do has_direct "$name" "$1" || return; done; }
	none_has() { for name in $extents; do same "$(shown "$name" bytes)" ""; done; }
	dd if=/dev/urandom of="$at/f" bs=1M count=24 conv=fsync status=none
	sum=$(md5sum <"$at/f")
	eventually 300 both_have $((10 << 20))
	# Written over, it passes by blockd.
	before=$(for name in $extents; do shown "$name" writes; done)
	dd if="$at/f" of="$at/f" bs=1M conv=notrunc,fsync status=none
	paste <(echo "$before") <(for name in $extents; do shown "$name" writes; done) |
		while read -r was is; do [ "$is" -gt "$was" ] || fail "writes: $was, then $is"; done
	trib snapshot create s w
	dd if=/dev/urandom of="$at/g" bs=1M count=8 conv=fsync status=none
	echo 3 >/proc/sys/vm/drop_caches
	same "$(md5sum <"$at/f")" "$sum"
	trib volume trim w
	eventually 300 both_have $((2 << 20)) # of g; f is shared with s
	trib umount w
	none_has
	check_pool
}

run_tests "$@"
