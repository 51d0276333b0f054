#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Extents as block devices by the kernel's NBD client. Runs wherever the
# kernel has one: on this machine, or in a virtual one.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../initiator_lib.sh"
need_root
need mkfs.ext4 e2fsck resize2fs nbdkit
[ -d /sys/module/nbd ] || modprobe -q nbd 2>/dev/null ||
	skip_all "the kernel has no NBD client (modprobe nbd failed)"
TRANSPORT=nbd

# No nbd device of ours is connected.
nothing_connected() {
	local f
	for f in /sys/block/nbd*/backend; do
		[ -e "$f" ] && [ -e "${f%/*}/pid" ] || continue
		case $(cat "$f") in trib-*) echo "left: $f"; return 1 ;; esac
	done
	[ -z "$(ls "$STATE" 2>/dev/null)" ] || { ls -la "$STATE"; return 1; }
}

detach_all() {
	umount -l "$TEST_DIR/mnt"
	"$CALL" detach state="$STATE" id=a
	clean_state
}

test_auto_takes_the_kernel_s_client() {
	server disk 64M
	at_exit detach_all
	call attach $(TRANSPORT=auto remote disk 64M)
	same "$(value transport)" nbd
	same "$(value why)" "the kernel has an NBD client"
	case $(value under) in /dev/nbd*) ;; *) fail "$(value under)" ;; esac
	call detach id=a
	nothing_connected
}

test_a_file_system_is_what_the_server_has() {
	server disk 128M
	at_exit detach_all
	call attach $(remote disk 128M) connections=2
	device=$(value device)
	same "$(blockdev --getsize64 "$device")" $((128 << 20))
	same "$(blockdev --getss "$device")" 4096
	mkfs.ext4 -q "$device"
	mounted "$device"
	cp -r "$TOP/base" "$TOP/target" "$TEST_DIR/mnt/"
	head -c 20M /dev/urandom >"$TEST_DIR/random"
	cp "$TEST_DIR/random" "$TEST_DIR/mnt/"
	sync -f "$TEST_DIR/mnt"
	refused EBUSY "$TEST_DIR/mnt" detach id=a
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device" >/dev/null 2>&1
	call attach $(remote disk 128M) connections=2
	same "$(value device)" "$device"
	call detach id=a
	call detach id=a
	nothing_connected
	e2fsck -fn "$TEST_DIR/disk.img" >/dev/null 2>&1
	TRANSPORT=nbd
	call attach $(remote disk 128M) read_only=1
	device=$(value device)
	same "$(blockdev --getro "$device")" 1
	mounted "$device" -o ro
	cmp "$TEST_DIR/random" "$TEST_DIR/mnt/random"
	diff -r "$TOP/base" "$TEST_DIR/mnt/base"
	unmount "$TEST_DIR/mnt"
	call detach id=a
	nothing_connected
}

test_a_mounted_file_system_grows_with_its_extent() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M) connections=2
	device=$(value device)
	refused EINVAL "grow the extent first" resize id=a size=128M
	grow() {
		truncate -s 128M "$TEST_DIR/disk.img"
		tell_server
		call resize id=a size=128M
		call resize id=a size=128M
	}
	grows_while_used $((128 << 20)) grow
	# The other way to say it, with both connections used at the new end.
	truncate -s 160M "$TEST_DIR/disk.img"
	tell_server
	call attach $(remote disk 160M) connections=2
	same "$(value device)" "$device"
	same "$(blockdev --getsize64 "$device")" $((160 << 20))
	for i in 0 1; do
		taskset -c $i dd if=/dev/zero of="$device" bs=4k count=16 \
			seek=$(((160 << 8) - 16 * (i + 1))) \
			oflag=direct conv=nocreat,fsync status=none
	done
	refused EINVAL "cannot shrink" resize id=a size=128M
	call detach id=a
	nothing_connected
}

# nbd-serve that was not told is like any server that fixes the size.
test_a_server_that_keeps_the_old_size_is_found_out() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M)
	device=$(value device)
	mkfs.ext4 -q "$device"
	mounted "$device"
	truncate -s 128M "$TEST_DIR/disk.img"
	refused EOPNOTSUPP "detach and attach again to grow" resize id=a size=128M
	same "$(blockdev --getsize64 "$device")" $((64 << 20))
	head -c 1M /dev/urandom >"$TEST_DIR/mnt/file"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device" >/dev/null 2>&1
	tell_server
	call resize id=a size=128M
	same "$(blockdev --getsize64 "$device")" $((128 << 20))
	call detach id=a
	nothing_connected
}

test_attaching_again_gives_a_lost_device_its_server_back() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M) dead_timeout_ms=60000
	device=$(value device)
	kill_server
	dd if=/dev/zero of="$device" bs=4k count=64 oflag=direct conv=nocreat,fsync status=none &
	writer=$!
	sleep 1
	server disk 64M
	eventually 60 mended
	wait $writer
	call get id=a
	same "$(value device)" "$device"
	call detach id=a
	nothing_connected
}
# A request that was under way goes on when the kernel's own timer finds it.
mended() {
	call attach $(remote disk 64M) dead_timeout_ms=60000
	! kill -0 $writer
}

test_a_server_that_comes_back_smaller_gets_no_device_back() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M) dead_timeout_ms=2000
	kill_server
	truncate -s 32M "$TEST_DIR/disk.img"
	server disk 32M
	refused EINVAL "33554432 bytes, fewer" attach $(remote disk 64M) dead_timeout_ms=2000
	call detach id=a
	nothing_connected
}

test_bad_requests_leave_nothing() {
	server disk 64M
	at_exit detach_all
	refused EINVAL "67108864 bytes, not" attach $(remote disk 32M)
	refused ENOENT "no such export" attach $(remote unknown 64M)
	refused EHOSTUNREACH "127.0.0.1:1" attach id=a transport=nbd \
		address=127.0.0.1:1 export=disk size=64M
	nothing_connected
}

test_a_kill_between_the_steps_is_repaired() {
	command -v strace >/dev/null || skip "needs strace"
	server disk 64M
	at_exit detach_all
	local n c rc every
	every=$(every)
	for c in sendmsg openat fsync renameat; do
		for ((n = 1 + RANDOM % every; n <= 6; n += every)); do
			rc=0
			{
				strace -o /dev/null -e trace=$c \
					-e inject=$c:signal=KILL:when=$n \
					"$CALL" attach $(remote disk 64M) state="$STATE" || rc=$?
			} >/dev/null 2>&1
			if [ $((n % 2)) = 1 ]; then
				call attach $(remote disk 64M)
			fi
			call detach id=a
			nothing_connected || fail "after a kill at $c number $n"
		done
	done
}

run_tests "$@"
