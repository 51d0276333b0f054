#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A device whose trib-nbd is killed goes on: the launcher has what the process had, and
# starts the next.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/initiator_lib.sh"
. "$TOP/tests/launch_lib.sh"
. "$TOP/tests/writer_lib.sh"
need_root
need python3 pgrep unshare losetup mkfs.xfs xfs_repair fio
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
[ -e /dev/loop-control ] || skip_all "needs loop devices"
ln -s "$BUILD/bin/trib-nbd" "$D/bin/trib-nbd"
say_more() { tail -n 8 "$D"/launch*.log "$STATE"/*.log "$D/server.err"; }

# device [KEY=VALUE]...: attached through the launcher "one", of the server's export
device() {
	call attach $(remote disk 64M) launcher="$D/one.sock" "$@"
	DEVICE=$(value device)
}
serving() { pgrep -f -- "trib-nbd .*$STATE"; }
serves_anew() { local pid; pid=$(serving) && [ "$pid" != "$1" ]; } # than PID
# Kill the process that serves, as soon as there is one, and wait for the next.
follow() {
	local pid
	eventually 30 serves_anew none
	pid=$(serving)
	end_at_once "$pid"
	eventually 30 serves_anew "$pid"
}
detached() {
	call detach id=a
	nothing_left
}
written() { [ "$(cat "$D/written")" -gt "$1" ]; }
# Blocks that are written one after the other, each known and looked for in the end.
blocks_start() {
	rm -f "$D/blocks.stop"
	python3 "$TOP/tests/block_writer.py" "$DEVICE" "$D/blocks.stop" >"$D/blocks" 2>&1 &
	BLOCKS=$!
	at_exit touch "$D/blocks.stop"
	eventually 30 grep -q began "$D/blocks"
}
blocks_stop() {
	touch "$D/blocks.stop"
	wait "$BLOCKS" || fail "$(cat "$D/blocks")"
	grep "acknowledged .* failed 0" "$D/blocks"
}

test_a_device_goes_on_when_its_process_is_killed_again_and_again() {
	local i
	launcher one
	server disk 64M
	device
	blocks_start
	for i in 1 2 3 4 5 6 7 8 9 10; do
		follow
		eventually 30 healthy
		sleep 0.0$i # how far it comes differs
	done
	blocks_stop
	# A grown extent is followed by a process that went on, and by the next.
	truncate -s 96M "$D/disk.img"
	stop_server
	server disk 96M
	eventually 30 healthy
	call resize id=a size=96M
	end_at_once "$(serving)"
	same "$(timeout 60 blockdev --getsize64 "$DEVICE")" $((96 << 20))
	timeout 60 dd if=/dev/urandom of="$DEVICE" bs=1M seek=95 count=1 oflag=direct conv=nocreat status=none
	detached
}

# Of several parts: requests come many at once and have all sizes. Then a file system,
# which notices each error.
test_requests_in_flight_go_on_over_a_killed_process() {
	local i n parts fio
	launcher one
	three 128M 128M 128M
	call attach $parts launcher="$D/one.sock" size=384M stripe_width=3 stripe_unit=64K
	DEVICE=$(value device)
	fio --name=v --filename="$DEVICE" --direct=1 --ioengine=libaio --iodepth=16 \
		--rw=randwrite --bsrange=4k-1m --size=100% --io_size=96M --verify=crc32c \
		--do_verify=1 --randseed=7 --verify_state_save=0 >"$D/fio.out" 2>&1 &
	fio=$!
	while kill -0 "$fio" 2>/dev/null; do
		follow
	done
	wait "$fio" || fail "$(cat "$D/fio.out")"
	mkfs.xfs -f -q "$DEVICE" # whatever the random blocks look like
	mkdir -p "$D/mnt"
	at_exit umount -l "$D/mnt"
	mount "$DEVICE" "$D/mnt"
	writer_start "$D/mnt"
	head -c 48M /dev/urandom >"$D/large"
	for i in 1 2 3 4 5 6; do
		dd if="$D/large" of="$D/mnt/large.$i" bs=1M conv=fsync status=none &
		n=$(cat "$D/written")
		follow
		end_at_once "$(serving)"
		wait $!
		eventually 60 written $((n + 2))
	done
	writer_stop "$D/mnt"
	umount "$D/mnt"
	xfs_repair -n "$DEVICE" >"$D/repair" 2>&1 || fail "$(cat "$D/repair")"
	mount "$DEVICE" "$D/mnt"
	for i in 1 2 3 4 5 6; do cmp "$D/large" "$D/mnt/large.$i"; done
	umount "$D/mnt"
	detached
}

# With its launcher and all else of their cgroup; then the other way round.
test_a_device_outlives_a_cgroup_with_its_launcher() {
	local one two pid
	APART=(unshare --mount --propagation unchanged)
	launcher two --peer "$D/one.sock"
	two=$LAUNCHER
	group_make
	launcher one --peer "$D/two.sock"
	one=$LAUNCHER
	APART=(unshare --mount --propagation unchanged)
	server disk 64M
	device
	eventually 30 stores "$two"
	! stores "$one" || fail "both launchers store it"
	blocks_start
	pid=$(serving)
	group_kill "$one" "$pid"
	eventually 30 ended "$one"
	eventually 30 serves_anew "$pid"
	same "$(awk '/^PPid:/ {print $2}' "/proc/$(serving)/status")" "$two"

	launcher one --peer "$D/two.sock"
	eventually 60 stores "$LAUNCHER"
	pid=$(serving)
	end_at_once "$two" "$pid"
	eventually 30 serves_anew "$pid"
	same "$(awk '/^PPid:/ {print $2}' "/proc/$(serving)/status")" "$LAUNCHER"
	blocks_stop
	detached
}

# A launcher that comes back is given it again.
test_the_launcher_is_killed_and_then_the_device_process() {
	launcher one
	server disk 64M
	device
	blocks_start
	kill -9 "$LAUNCHER"
	eventually 30 ended "$LAUNCHER"
	launcher one
	eventually 60 stores "$LAUNCHER"
	follow
	blocks_stop
	detached
}

# The next process waits for the server as the one before would have.
test_a_device_loses_server_and_process_at_once() {
	launcher one
	server disk 64M
	device
	blocks_start
	kill_server
	follow
	eventually 30 unhealthy
	server disk 64M
	eventually 60 healthy
	blocks_stop
	detached
}

# A server that states no incarnation may have lost what the killed process had
# acknowledged: nobody goes on.
test_a_device_does_not_go_on_with_an_unknown_server() {
	need nbdkit
	launcher one
	kit disk 64M file "$D/disk.img"
	device
	dd if=/dev/zero of="$DEVICE" bs=4k count=8 oflag=direct conv=nocreat,fsync status=none
	end_at_once "$(serving)"
	fails any "Input/output error" timeout 60 dd if="$DEVICE" of=/dev/null bs=4k count=1 iflag=direct
	call get id=a
	case $(value problem) in "failed: "*incarnation*) ;; *) fail "$(value problem)" ;; esac
	detached
}

test_a_device_is_taken_away_from_whoever_goes_on() {
	local i pid
	launcher one
	server disk 64M
	for i in 1 2 3 4 5 6; do
		device
		pid=$(serving)
		kill -9 "$pid"
		case $i in 1 | 4) ;; *) sleep 0.0$i ;; esac
		detached
	done
}

test_a_device_that_nobody_can_go_on_with_is_given_up() {
	launcher one
	server disk 64M
	device
	eventually 30 stores "$LAUNCHER"
	rm "$D/bin/trib-nbd"
	at_exit ln -sf "$BUILD/bin/trib-nbd" "$D/bin/trib-nbd"
	end_at_once "$(serving)"
	fails any "Input/output error" timeout 120 dd if="$DEVICE" of=/dev/null bs=4k count=1 iflag=direct
	grep -q "nobody goes on with what it had stored" "$D/launch-one.log"
	! stores "$LAUNCHER" || fail "the launcher keeps a dead connection"
	ln -s "$BUILD/bin/trib-nbd" "$D/bin/trib-nbd"
	eventually 30 device
	healthy
	detached
}

# That the tests above can fail.
test_a_device_that_no_launcher_stores_is_lost() {
	server disk 64M
	call attach $(remote disk 64M)
	DEVICE=$(value device)
	end_at_once "$(serving)"
	fails any "Input/output error" timeout 60 dd if="$DEVICE" of=/dev/null bs=4k count=1 iflag=direct
	detached
}

run_tests "$@"
