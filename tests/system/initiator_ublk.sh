#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Extents as block devices by ublk. Runs wherever the kernel has it: on this
# machine, or in a virtual one.
# What other transports have in common with it is in check-vm by theirs.
long_tests='test_several_extents_are_one_device
test_a_file_system_is_what_the_server_has
test_a_server_that_comes_back_costs_no_error
test_a_server_that_stays_away_costs_eio_until_it_is_back
test_bad_requests_leave_nothing
test_a_kill_of_the_attacher_is_repaired'
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../initiator_lib.sh"
need_root
need mkfs.ext4 e2fsck resize2fs fio strace nbdkit cmp
[ -c /dev/ublk-control ] || modprobe -q ublk_drv 2>/dev/null ||
	skip_all "the kernel has no ublk (modprobe ublk_drv failed)"
[ -c /dev/mapper/control ] || modprobe -q dm-mod 2>/dev/null ||
	skip_all "the kernel has no device mapper"
TRANSPORT=ublk

# The ublk devices there are. Tests alone make some.
ublk_devices() { find /sys/class/ublk-char -name 'ublkc*' -printf '%f ' 2>/dev/null; }

no_device_left() {
	[ -z "$(ublk_devices)" ] || { echo "left: $(ublk_devices)"; return 1; }
	nothing_left
}

detach_all() {
	[ -z "${writer:-}" ] || kill -9 "$writer"
	umount -l "$TEST_DIR/mnt"
	"$CALL" fence state="$STATE" id=a
	"$CALL" detach state="$STATE" id=a
	clean_state
}

# The process that serves, and the one that waits for it.
serving() { pgrep -f "trib-nbd .*$STATE" | while read -r p; do pgrep -P "$p" -f trib-nbd; done; }
waiting() { pgrep -f "trib-nbd .*$STATE" | while read -r p; do ! pgrep -P "$p" -f trib-nbd >/dev/null || echo "$p"; done; }
nobody_serves() { ! pgrep -f "trib-nbd .*$STATE" >/dev/null; }
served() { [ -n "$(serving)" ] && healthy; }

test_several_extents_are_one_device() {
	three 16M 4M 28M
	at_exit detach_all
	call attach $parts size=48M
	device=$(value device)
	# One by device mapper, over one of each.
	same "$(value transport)" dm
	same "$(grep -lx transport=ublk "$STATE"/a.joined/*.attachment | wc -l)" 3
	head -c 48M /dev/urandom >"$TEST_DIR/random"
	dd if="$TEST_DIR/random" of="$device" bs=733184 oflag=direct conv=fsync,nocreat status=none
	cat "$TEST_DIR"/p[012].img | cmp - "$TEST_DIR/random"
	dd if="$device" bs=733184 iflag=direct status=none | cmp - "$TEST_DIR/random"
	end_at_once $(serving)
	dd if="$device" bs=1M iflag=direct status=none | cmp - "$TEST_DIR/random"
	call detach id=a
	no_device_left
}

test_a_file_system_is_what_the_server_has() {
	server disk 128M
	at_exit detach_all
	call attach $(remote disk 128M)
	device=$(value device) under=$(value under)
	case $under in /dev/ublkb*) ;; *) fail "$under" ;; esac
	same "$(blockdev --getsize64 "$device")" $((128 << 20))
	same "$(blockdev --getss "$device")" 4096
	# Behind the extent there are zeroes, and nothing can be written.
	dd if="$under" bs=4k skip=$((1 << 40)) count=4 iflag=direct status=none |
		cmp -n 16384 - /dev/zero
	fails any "Input/output error" dd if=/dev/zero of="$under" bs=4k \
		seek=$((128 << 8)) count=1 oflag=direct conv=nocreat
	mkfs.ext4 -q "$device"
	mounted "$device"
	cp -r "$TOP/base" "$TOP/target" "$TEST_DIR/mnt/"
	sync -f "$TEST_DIR/mnt"
	fstrim "$TEST_DIR/mnt"
	refused EBUSY "$TEST_DIR/mnt" detach id=a
	call attach $(remote disk 128M)
	same "$(value device)" "$device"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device" >/dev/null 2>&1
	call detach id=a
	call detach id=a
	no_device_left
	e2fsck -fn "$TEST_DIR/disk.img" >/dev/null 2>&1
	call attach $(remote disk 128M) read_only=1
	device=$(value device)
	same "$(blockdev --getro "$device")" 1
	mounted "$device" -o ro
	diff -r "$TOP/base" "$TEST_DIR/mnt/base"
	unmount "$TEST_DIR/mnt"
	call detach id=a
	no_device_left
}

test_what_is_written_is_what_the_server_has() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M)
	device=$(value device)
	head -c 64M /dev/urandom >"$TEST_DIR/random"
	dd if="$TEST_DIR/random" of="$device" bs=1M oflag=direct conv=fsync,nocreat status=none
	cmp "$TEST_DIR/random" "$TEST_DIR/disk.img"
	dd if="$device" bs=64k iflag=direct status=none | cmp - "$TEST_DIR/random"
	blkdiscard -o 1M -l 2M "$device"
	blkdiscard -z -o 8M -l 1M "$device"
	cmp -n 2097152 -i 1048576:0 "$TEST_DIR/disk.img" /dev/zero
	cmp -n 1048576 -i 8388608:0 "$TEST_DIR/disk.img" /dev/zero
	cmp -n 4096 -i 3145728 "$TEST_DIR/disk.img" "$TEST_DIR/random"
	verified "$device" || fail "$(tail -n 20 "$TEST_DIR/fio.log")"
	call detach id=a
	no_device_left
}

# verified DEVICE [OPTION]...: many requests in flight keep their data
verified() {
	local device=$1
	shift
	fio --name=v --filename="$device" --allow_file_create=0 --rw=randwrite \
		--bsrange=4k-1m --blockalign=4k --iodepth=32 --ioengine=libaio \
		--direct=1 --size=100% --verify=crc32c --do_verify=1 \
		--verify_fatal=1 --verify_state_save=0 --fsync=64 "$@" \
		>"$TEST_DIR/fio.log" 2>&1
}

test_an_fsync_reaches_the_server_as_a_flush() {
	kit disk 64M --filter=log file "$TEST_DIR/disk.img" logfile="$TEST_DIR/kit.log"
	at_exit detach_all
	call attach $(remote disk 64M)
	device=$(value device)
	for i in 1 2 3; do
		before=$(grep -c 'Flush id' "$TEST_DIR/kit.log" || true)
		dd if=/dev/zero of="$device" bs=4k count=1 conv=fsync,nocreat status=none
		after=$(grep -c 'Flush id' "$TEST_DIR/kit.log" || true)
		[ "$after" -gt "$before" ] || fail "fsync $i sent no flush"
	done
	call detach id=a
	no_device_left
}

test_a_killed_process_costs_no_error() {
	local i
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M)
	device=$(value device)
	verified "$device" --loops=2 &
	writer=$!
	for ((i = 0; i < 5; i++)); do
		eventually 60 served
		kill -0 $writer || break
		end_at_once "$(serving)"
	done
	wait $writer || fail "$(tail -n 20 "$TEST_DIR/fio.log")"
	writer=
	eventually 60 served
	[ "$i" -gt 0 ] || fail "nothing was killed"
	same "$(grep -c 'another goes on' "$STATE/a.log")" "$i"
	call attach $(remote disk 64M)
	same "$(value device)" "$device"
	call detach id=a
	no_device_left
}

# Writes that were acknowledged and not flushed may be gone with the server.
test_a_process_never_goes_on_with_another_incarnation() {
	kit disk 64M file "$TEST_DIR/disk.img"
	at_exit detach_all
	call attach $(remote disk 64M)
	device=$(value device)
	dd if=/dev/zero of="$device" bs=4k count=8 oflag=direct conv=nocreat status=none
	end_at_once "$(serving)"
	fails any "Input/output error" dd if="$device" of=/dev/null bs=4k count=1 iflag=direct
	call get id=a
	same "$(value healthy)" 0
	grep -q "states no incarnation" "$STATE/a.log"
	eventually 60 nobody_serves
	call attach $(remote disk 64M)
	same "$(value healthy)" 1
	call detach id=a
	no_device_left
}

test_a_process_and_its_server_gone_cost_eio_in_time() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M) dead_timeout_ms=1500
	device=$(value device)
	kill_server
	end_at_once "$(serving)"
	fails any "Input/output error" dd if=/dev/zero of="$device" bs=4k \
		count=1 oflag=direct conv=nocreat
	call get id=a
	same "$(value healthy)" 0
	eventually 60 nobody_serves
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat,fsync status=none
	call detach id=a
	no_device_left
}

# With both gone, requests wait in the kernel until somebody ends them.
test_both_processes_killed_are_replaced() {
	local how
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M)
	end_at_once "$(waiting)"
	eventually 30 unhealthy
	call detach id=a
	no_device_left
	for how in "attach $(remote disk 64M)" "detach id=a"; do
		call attach $(remote disk 64M)
		device=$(value device)
		end_at_once "$(waiting)"
		dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat \
			2>"$TEST_DIR/dd.err" &
		writer=$!
		eventually 30 unhealthy
		eventually 60 call fence id=a
		! wait $writer || fail "a write to nobody ended well"
		writer=
		eventually 60 call $how
	done
	no_device_left
}

test_a_server_that_comes_back_costs_no_error() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M)
	device=$(value device)
	verified "$device" &
	writer=$!
	for i in 1 2 3; do
		sleep 0.5
		kill_server
		sleep 0.3
		server disk 64M
	done
	wait $writer || fail "$(tail -n 20 "$TEST_DIR/fio.log")"
	writer=
	call detach id=a
	no_device_left
}

test_a_server_that_stays_away_costs_eio_until_it_is_back() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M) dead_timeout_ms=1500
	device=$(value device)
	kill_server
	fails any "Input/output error" dd if=/dev/zero of="$device" bs=4k \
		count=1 oflag=direct conv=nocreat
	call get id=a
	case $(value problem) in "timed out: "*) ;; *) fail "$(value problem)" ;; esac
	server disk 64M
	eventually 30 healthy
	dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat,fsync status=none
	call detach id=a
	no_device_left
}

# A fence does not wait for a server that does not answer.
test_a_device_whose_server_is_silent_is_cut_off() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M) dead_timeout_ms=600000
	device=$(value device)
	kill -STOP "$SERVER_PID"
	dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat \
		2>"$TEST_DIR/dd.err" &
	writer=$!
	sleep 1
	call fence id=a
	! wait $writer || fail "a write past a fence ended well"
	writer=
	call detach id=a
	no_device_left
	kill -CONT "$SERVER_PID"
}

test_a_mounted_file_system_grows_with_its_extent() {
	server disk 64M
	at_exit detach_all
	call attach $(remote disk 64M)
	device=$(value device)
	refused EINVAL "grow the extent first" resize id=a size=128M
	grow() {
		truncate -s 128M "$TEST_DIR/disk.img"
		tell_server
		call resize id=a size=128M
		call resize id=a size=128M
	}
	grows_while_used $((128 << 20)) grow
	# The next process knows of it.
	end_at_once "$(serving)"
	eventually 60 served
	dd if=/dev/zero of="$device" bs=1M seek=127 count=1 oflag=direct conv=nocreat,fsync status=none
	call detach id=a
	no_device_left
}

test_bad_requests_leave_nothing() {
	server disk 64M
	at_exit detach_all
	refused EINVAL "67108864 bytes, not" attach $(remote disk 32M)
	refused ENOENT "no such export" attach $(remote unknown 64M)
	refused EHOSTUNREACH "127.0.0.1:1" attach id=a transport=ublk \
		address=127.0.0.1:1 export=disk size=64M
	no_device_left
}

test_a_kill_of_the_attacher_is_repaired() {
	local n c
	server disk 64M
	at_exit detach_all
	for c in recvfrom io_uring_enter renameat; do
		for n in 1 2 3; do
			{
				strace -o /dev/null -e trace=$c \
					-e inject=$c:signal=KILL:when=$n \
					"$CALL" attach $(remote disk 64M) state="$STATE" || true
			} >/dev/null 2>&1
			[ $((n % 2)) = 0 ] || call attach $(remote disk 64M)
			call detach id=a
			no_device_left || fail "after a kill at $c number $n"
		done
		for n in 1 2; do
			call attach $(remote disk 64M)
			{
				strace -o /dev/null -e trace=$c \
					-e inject=$c:signal=KILL:when=$n \
					"$CALL" detach id=a state="$STATE" || true
			} >/dev/null 2>&1
			[ $((n % 2)) = 0 ] || call attach $(remote disk 64M)
			call detach id=a
			no_device_left || fail "after a kill at $c number $n of a detach"
		done
	done
}

test_a_kill_of_the_process_at_any_step_is_repaired() {
	local n c every
	every=$(every)
	server disk 64M
	at_exit detach_all
	mkdir -p "$TEST_DIR/bin"
	at_exit rm -rf "$TEST_DIR/bin"
	cp "$BUILD/bin/trib-nbd" "$TEST_DIR/bin/real"
	for c in io_uring_enter capset mount; do
		for ((n = 1 + RANDOM % every; n <= 3; n += every)); do
			cat >"$TEST_DIR/bin/trib-nbd" <<-END
				#!/bin/sh
				exec strace -f -o /dev/null -e trace=$c \
					-e inject=$c:signal=KILL:when=$n $TEST_DIR/bin/real "\$@"
			END
			chmod +x "$TEST_DIR/bin/trib-nbd"
			PATH=$TEST_DIR/bin:$PATH "$CALL" attach $(remote disk 64M) \
				state="$STATE" >/dev/null 2>&1 || true
			call detach id=a
			no_device_left || fail "after a kill at $c number $n"
		done
	done
}

run_tests "$@"
