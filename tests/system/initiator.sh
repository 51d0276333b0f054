#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Extents as block devices: the FUSE and the loop transport, with real file
# systems, lost servers, and kill -9 at every step.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../initiator_lib.sh"
need_root
need mkfs.ext4 e2fsck resize2fs mkfs.xfs xfs_growfs fio strace nbdkit cmp
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"

test_a_remote_extent_carries_a_file_system() {
	server disk 256M
	call attach $(remote disk 256M)
	device=$(value device)
	same "$(value transport)" fuse
	same "$(value healthy)" 1
	under=$(value under)
	same "$(cat "/sys/block/${under#/dev/}/loop/dio")" 1 "direct I/O"
	helper=$(findmnt -rno TARGET -t fuse.trib-nbd | grep "^$STATE/")
	same "$(stat -f -c '%b %f %c' "$helper")" "0 0 0" "of no size"
	fails any "" sh -c "df | grep '$helper'"
	mkfs.ext4 -q "$device"
	mounted "$device"
	cp -r "$TOP/base" "$TOP/target" "$TEST_DIR/mnt/"
	sync -f "$TEST_DIR/mnt"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device" >/dev/null 2>&1
	call detach id=a
	nothing_left
	e2fsck -fn "$TEST_DIR/disk.img" >/dev/null 2>&1
	mounted "$TEST_DIR/disk.img" -o loop,ro
	diff -r "$TOP/base" "$TEST_DIR/mnt/base"
	unmount "$TEST_DIR/mnt"
}

test_a_device_mounted_elsewhere_names_by_whom() {
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	mkfs.ext4 -q "$device"
	unshare --mount sh -c \
		'mount "$0" /mnt && echo mounted && exec sleep 600' "$device" \
		>"$TEST_DIR/elsewhere" &
	other=$!
	eventually 30 grep -q mounted "$TEST_DIR/elsewhere"
	becomes $other sleep
	# A program that looks at the device meanwhile does not keep it.
	sleep 600 <"$device" &
	reader=$!
	becomes $reader sleep
	refused EBUSY "another mount namespace, that of sleep ($other)" detach id=a
	kill $other $reader
	wait $other $reader || true
	call detach id=a
	nothing_left
}

# As the kernel closes it: on behalf of another program, when that was the last user of
# the loop device, and a moment after the device has gone.
test_a_detach_waits_until_the_file_below_is_closed() {
	local file user detach
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	file=$(cat "/sys/block/${device#/dev/}/loop/backing_file")
	sleep 600 <"$file" &
	user=$!
	at_exit kill $user
	becomes $user sleep
	call detach id=a &
	detach=$!
	eventually 30 [ ! -e "/sys/block/${device#/dev/}/loop/backing_file" ]
	kill $user
	wait $user || true
	wait $detach
	nothing_left
}

test_what_is_written_is_what_the_server_has() {
	server disk 64M
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
	call detach id=a
}

test_many_requests_in_flight_keep_their_data() {
	server disk 128M
	call attach $(remote disk 128M)
	fio --name=v --filename="$(value device)" --allow_file_create=0 \
		--rw=randwrite --bsrange=4k-1m --bs_unaligned=0 --blockalign=4k \
		--iodepth=32 --ioengine=libaio --direct=1 --size=128M \
		--verify=crc32c --do_verify=1 --verify_fatal=1 --verify_state_save=0 --fsync=64 \
		>"$TEST_DIR/fio.log" 2>&1 || fail "$(tail -n 20 "$TEST_DIR/fio.log")"
	call detach id=a
}

test_an_fsync_reaches_the_server_as_a_flush() {
	kit disk 64M --filter=log file "$TEST_DIR/disk.img" logfile="$TEST_DIR/kit.log"
	call attach $(remote disk 64M)
	device=$(value device)
	mkfs.ext4 -q "$device"
	mounted "$device"
	for i in 1 2 3 4 5; do
		before=$(grep -c 'Flush id' "$TEST_DIR/kit.log" || true)
		dd if=/dev/zero of="$TEST_DIR/mnt/f$i" bs=4k count=1 conv=fsync status=none
		after=$(grep -c 'Flush id' "$TEST_DIR/kit.log" || true)
		[ "$after" -gt "$before" ] || fail "fsync $i sent no flush"
	done
	# A discard must read as zeroes, which TRIM would not promise.
	fstrim "$TEST_DIR/mnt"
	grep -q 'Zero id' "$TEST_DIR/kit.log"
	if grep -q 'Trim id' "$TEST_DIR/kit.log"; then fail "it sent TRIM"; fi
	unmount "$TEST_DIR/mnt"
	call detach id=a
}

test_repeats_change_nothing() {
	server disk 64M
	call detach id=a
	call attach $(remote disk 64M)
	device=$(value device)
	call attach $(remote disk 64M)
	same "$(value device)" "$device"
	same "$(pgrep -cf "trib-nbd .*$STATE")" 1
	call list
	same "$(value device)" "$device"
	refused EEXIST "detach it first" attach $(remote other 64M)
	call detach id=a
	call detach id=a
	refused ENOENT "no attachment" get id=a
	nothing_left
}

test_a_mounted_device_is_not_detached() {
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	mkfs.ext4 -q "$device"
	mounted "$device"
	refused EBUSY "$TEST_DIR/mnt" detach id=a
	echo still >"$TEST_DIR/mnt/there"
	unmount "$TEST_DIR/mnt"
	exec 9<"$device"
	refused EBUSY "open" detach id=a
	exec 9<&-
	call detach id=a
	nothing_left
}

test_a_killed_trib_nbd_is_replaced() {
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	mkfs.ext4 -q "$device"
	mounted "$device"
	kill -9 "$(pgrep -f "trib-nbd .*$STATE")"
	eventually 30 unhealthy
	# In use: it says so and leaves it alone.
	refused EBUSY "$TEST_DIR/mnt" attach $(remote disk 64M)
	umount -l "$TEST_DIR/mnt"
	eventually 30 call attach $(remote disk 64M)
	call get id=a
	same "$(value healthy)" 1
	e2fsck -fy "$(value device)" >/dev/null 2>&1 || [ $? = 1 ]
	call detach id=a
	nothing_left
}

test_bad_requests_are_refused_and_leave_nothing() {
	server disk 64M
	refused EINVAL "67108864 bytes, not" attach $(remote disk 32M)
	refused ENOENT "no such export" attach $(remote unknown 64M)
	refused EHOSTUNREACH "127.0.0.1:1" attach id=a transport=fuse \
		address=127.0.0.1:1 export=disk size=64M
	refused EINVAL "HOST:PORT" attach id=a transport=fuse \
		address=nonsense export=disk size=64M
	refused EINVAL "multiple of 4096" attach $(remote disk 64M) size=1000
	refused EINVAL "attachment" attach $(remote disk 64M) id=../a
	refused EINVAL "no transport" attach $(remote disk 64M) transport=x
	nothing_left
}

test_a_read_only_attachment_cannot_be_written() {
	server disk 64M
	head -c 4096 /dev/urandom | dd of="$TEST_DIR/disk.img" conv=notrunc status=none
	call attach $(remote disk 64M) read_only=1
	device=$(value device)
	same "$(blockdev --getro "$device")" 1
	fails any "" dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat
	dd if="$device" bs=4k count=1 status=none | cmp -n 4096 - "$TEST_DIR/disk.img"
	refused EEXIST "already" attach $(remote disk 64M)
	call detach id=a
	stop_server
	server disk 64M --read-only
	refused EROFS "read-only" attach $(remote disk 64M)
	nothing_left
}

test_a_grown_extent_is_followed() {
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	head -c 128M /dev/urandom >"$TEST_DIR/random"
	refused EINVAL "grow the extent first" resize id=a size=128M
	same "$(blockdev --getsize64 "$device")" $((64 << 20))
	# While it is busy: what is under way is not lost.
	dd if="$TEST_DIR/random" of="$device" bs=64k count=1024 oflag=direct conv=nocreat status=none &
	writer=$!
	truncate -s 128M "$TEST_DIR/disk.img"
	call resize id=a size=128M
	same "$(blockdev --getsize64 "$device")" $((128 << 20))
	call resize id=a size=128M
	wait $writer
	dd if="$TEST_DIR/random" of="$device" bs=1M skip=64 seek=64 oflag=direct conv=nocreat,fsync status=none
	cmp "$TEST_DIR/random" "$TEST_DIR/disk.img"
	refused EINVAL "cannot shrink" attach $(remote disk 64M)
	truncate -s 192M "$TEST_DIR/disk.img"
	call attach $(remote disk 192M)
	same "$(blockdev --getsize64 "$device")" $((192 << 20))
	call detach id=a
	nothing_left
}

test_a_mounted_file_system_grows_with_its_extent() {
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	grow() {
		truncate -s 128M "$TEST_DIR/disk.img"
		tell_server
		call resize id=a size=128M
	}
	grows_while_used $((128 << 20)) grow
	# A server that holds its connections to their size is followed too.
	grow() {
		truncate -s 256M "$TEST_DIR/disk.img"
		call resize id=a size=256M
	}
	grows_while_used $((256 << 20)) grow
	call detach id=a
	nothing_left
}

# blockd itself, an extent on each side of it: its file as a local device,
# and its export; both are written to while they grow.
test_extents_of_blockd_grow_while_they_are_used() {
	local control=unix:$TEST_DIR/run/control by blockd path device
	at_exit clean_state
	at_exit rm -rf "$TEST_DIR/pool" "$TEST_DIR/run" "$TEST_DIR/node"
	mkdir -p "$TEST_DIR/pool"
	: >"$TEST_DIR/conf"
	"$BUILD/bin/blockd" --config "$TEST_DIR/conf" --node-name n1 \
		--pool "p=$TEST_DIR/pool" --pool-capacity 400MiB --floor 1MiB \
		--state-dir "$TEST_DIR/node" --run-dir "$TEST_DIR/run" \
		--control "$control" --listen "unix:$TEST_DIR/run/nbd" \
		>"$TEST_DIR/blockd.log" 2>&1 &
	blockd=$!
	at_exit kill $blockd
	b() { "$BUILD/test/blockd/testkit/blockd_call" "$control" "$@" >"$TEST_DIR/reply"; }
	eventually 30 b GetNode
	grow() {
		b ResizeExtent name=$by size=$((128 << 20))
		call resize id=$by size=128M
	}
	for by in fuse loop; do
		b CreateExtent name=$by size=$((64 << 20))
		path=$(sed 's/.*"path":"\([^"]*\)".*/\1/' "$TEST_DIR/reply")
		case $by in
		fuse)
			b SetExport name=fuse epoch=1 initiators=unix
			call attach id=fuse transport=fuse size=64M export=fuse@1 \
				address="unix:$TEST_DIR/run/nbd"
			;;
		loop)
			b SetExport name=loop epoch=1
			call attach id=loop size=64M path="$path"
			;;
		esac
		same "$(value transport)" $by
		device=$(value device)
		grows_while_used $((128 << 20)) grow
		call detach id=$by
	done
	nothing_left
}

test_a_server_that_comes_back_smaller_is_not_gone_on_with() {
	server disk 64M
	call attach $(remote disk 64M)
	device=$(value device)
	truncate -s 128M "$TEST_DIR/disk.img"
	call resize id=a size=128M
	kill_server
	truncate -s 96M "$TEST_DIR/disk.img"
	server disk 96M
	fails any "Input/output error" dd if=/dev/zero of="$device" bs=4k \
		count=1 oflag=direct conv=nocreat
	call get id=a
	case $(value problem) in "failed: "*smaller*) ;; *) fail "$(value problem)" ;; esac
	call detach id=a
	nothing_left
}

test_a_server_that_comes_back_costs_no_error() {
	server disk 128M
	call attach $(remote disk 128M)
	device=$(value device)
	mkfs.ext4 -q "$device"
	mounted "$device"
	head -c 256k /dev/urandom >"$TEST_DIR/random"
	: >"$TEST_DIR/go"
	writer() {
		local n=0
		while [ -e "$TEST_DIR/go" ]; do
			dd if="$TEST_DIR/random" of="$TEST_DIR/mnt/f$((n++ % 100))" \
				bs=16k oflag=dsync status=none || return 1
		done
		echo $n >"$TEST_DIR/rounds"
	}
	writer 2>"$TEST_DIR/dd.log" &
	writer=$!
	for i in 1 2 3 4; do
		sleep 0.5
		kill_server
		sleep 0.3
		server disk 128M
	done
	sleep 0.5
	rm "$TEST_DIR/go"
	wait $writer || fail "the writer failed: $(cat "$TEST_DIR/dd.log")"
	eventually 30 healthy
	grep -q 'connected again' "$STATE/a.log"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device" >/dev/null 2>&1
	call detach id=a
	mounted "$TEST_DIR/disk.img" -o loop,ro
	for f in "$TEST_DIR"/mnt/f*; do cmp "$TEST_DIR/random" "$f"; done
	unmount "$TEST_DIR/mnt"
}

test_a_server_that_stays_away_costs_eio_until_it_is_back() {
	server disk 64M
	call attach $(remote disk 64M) dead_timeout_ms=1500
	device=$(value device)
	kill_server
	start=$SECONDS
	fails any "Input/output error" dd if=/dev/zero of="$device" bs=4k \
		count=1 oflag=direct conv=nocreat
	[ $((SECONDS - start)) -lt 60 ] || fail "took $((SECONDS - start)) s"
	call get id=a
	same "$(value healthy)" 0
	case $(value problem) in "timed out: "*) ;; *) fail "$(value problem)" ;; esac
	server disk 64M
	eventually 30 healthy
	dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat,fsync status=none
	call detach id=a
}

test_a_newer_epoch_ends_the_device_for_good() {
	server disk 64M --epoch 1
	call attach $(remote disk@1 64M)
	device=$(value device)
	kill_server
	server disk 64M --epoch 2
	fails any "Input/output error" dd if=/dev/zero of="$device" bs=4k \
		count=1 oflag=direct conv=nocreat
	call get id=a
	case $(value problem) in "failed: "*) ;; *) fail "$(value problem)" ;; esac
	# The same again is refused by the server; the newer epoch replaces it.
	refused EACCES "refused" attach $(remote disk@1 64M)
	nothing_left
	call attach $(remote disk@2 64M)
	same "$(value healthy)" 1
	call detach id=a
	nothing_left
}

test_unflushed_writes_are_never_resumed_onto_an_unknown_server() {
	kit disk 64M file "$TEST_DIR/disk.img"
	call attach $(remote disk 64M)
	device=$(value device)
	# Everything written was flushed: the same server may come back.
	dd if=/dev/zero of="$device" bs=4k count=8 oflag=direct conv=nocreat,fsync status=none
	kill_server
	kit disk 64M file "$TEST_DIR/disk.img"
	dd if="$device" of=/dev/null bs=4k count=1 iflag=direct status=none
	eventually 30 healthy
	# Acknowledged and not flushed: it must not.
	dd if=/dev/zero of="$device" bs=4k count=8 oflag=direct conv=nocreat status=none
	kill_server
	kit disk 64M file "$TEST_DIR/disk.img"
	fails any "Input/output error" dd if="$device" of=/dev/null bs=4k \
		skip=64 count=1 iflag=direct
	call get id=a
	case $(value problem) in "failed: "*incarnation*) ;; *) fail "$(value problem)" ;; esac
	call detach id=a
	nothing_left
}

test_a_hostile_server_harms_nothing() {
	# Garbage for a greeting, again and again.
	at_exit clean_state
	python3 - "$TEST_DIR/sock" <<'PY' &
import os, socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen(8)
while True:
    c, _ = s.accept()
    c.sendall(os.urandom(4096))
    c.close()
PY
	at_exit kill $!
	eventually 30 test -S "$TEST_DIR/sock"
	refused EPROTO "not an NBD server" attach id=a transport=fuse \
		address="unix:$TEST_DIR/sock" export=x size=64M
	nothing_left
}

test_a_local_extent_is_a_loop_device() {
	at_exit clean_state
	truncate -s 64M "$TEST_DIR/local.img"
	call attach id=l path="$TEST_DIR/local.img" size=64M
	device=$(value device) under=$(value under)
	same "$(value transport)" loop
	same "$(value why)" "the extent is on this node"
	same "$(blockdev --getss "$device")" 4096
	mkfs.ext4 -q "$device"
	call attach id=l path="$TEST_DIR/local.img" size=64M
	same "$(value device)" "$device"
	truncate -s 96M "$TEST_DIR/local.img"
	call resize id=l size=96M
	same "$(blockdev --getsize64 "$device")" $((96 << 20))
	mounted "$device"
	refused EBUSY "$TEST_DIR/mnt" detach id=l
	unmount "$TEST_DIR/mnt"
	# Its device taken away behind our back: attached anew.
	losetup -d "$under"
	damaged() { call get id=l && [ "$(value healthy)" = 0 ]; }
	eventually 30 damaged
	call attach id=l path="$TEST_DIR/local.img" size=96M
	same "$(value healthy)" 1
	call detach id=l
	refused EINVAL "bytes, not" attach id=l path="$TEST_DIR/local.img" size=64M
	ln -s local.img "$TEST_DIR/link"
	refused EINVAL "symbolic link" attach id=l path="$TEST_DIR/link" size=96M
	refused ENOENT "no-such" attach id=l path="$TEST_DIR/no-such" size=64M
	call attach id=l path="$TEST_DIR/local.img" size=96M read_only=1
	same "$(blockdev --getro "$(value device)")" 1
	call detach id=l
	nothing_left
	e2fsck -fn "$TEST_DIR/local.img" >/dev/null 2>&1
}

test_a_mounted_local_file_system_grows_with_its_extent() {
	at_exit clean_state
	truncate -s 64M "$TEST_DIR/local.img"
	call attach id=l path="$TEST_DIR/local.img" size=64M
	device=$(value device)
	refused EINVAL "grow the extent first" resize id=l size=128M
	grow() {
		truncate -s 128M "$TEST_DIR/local.img"
		call resize id=l size=128M
		call resize id=l size=128M
	}
	grows_while_used $((128 << 20)) grow
	refused EINVAL "cannot shrink" resize id=l size=64M
	call get id=l
	same "$(value healthy)" 1
	same "$(value size)" $((128 << 20))
	call detach id=l
	nothing_left
	device=$TEST_DIR/local.img growing_check "$(growing_kind)" >/dev/null 2>&1
}

test_a_damaged_record_is_named_and_replaced() {
	server disk 64M
	call attach $(remote disk 64M)
	echo garbage >"$STATE/a.attachment"
	call list
	same "$(value healthy)" 0
	case $(value problem) in *"version=1"*) ;; *) fail "$(value problem)" ;; esac
	# Found by its tag, taken down, made anew.
	call attach $(remote disk 64M)
	same "$(value healthy)" 1
	rm "$STATE/a.attachment"
	call detach id=a
	eventually 30 nothing_left
}

# steps CALLS COMMAND...: kill it before the Nth of each of these system
# calls, N = 1, 2..., one of `every` of them; after each run `undo`, which must leave
# nothing.
steps() {
	local calls=$1 c n rc every
	every=$(every)
	shift
	for c in $calls; do
		for ((n = 1 + RANDOM % every; n < 60; n += every)); do
			prepare
			rc=0
			{
				strace -o /dev/null -e trace="$c" \
					-e inject="$c:signal=KILL:when=$n" \
					"$CALL" "$@" state="$STATE" || rc=$?
			} >/dev/null 2>&1
			"$undo" || fail "after a kill at $c number $n"
			[ $rc = 0 ] && break
			total=$((total + every))
		done
	done
}
CHANGING="mkdir,mkdirat:openat:fsync:rename,renameat,renameat2:socketpair
 vfork,clone,clone3:sendto:recvfrom:ioctl:umount2:pidfd_open:rmdir:unlink,unlinkat"
# Others of this machine look at its loop devices, too: one that is open just
# then is detached by the next call.
undo_by_attach() {
	call attach $ARGS && undo_by_detach
}
undo_by_detach() { eventually 30 call detach id=a && eventually 30 nothing_left; }

changing() { tr ':\n' '  ' <<<"$CHANGING"; }

test_a_kill_at_any_step_of_attach_is_repaired() {
	server disk 64M
	ARGS=$(remote disk 64M) total=0
	prepare() { :; }
	undo=undo_by_attach steps "$(changing)" attach $ARGS
	undo=undo_by_detach steps "$(changing)" attach $ARGS
	echo "# killed at one of $(every) of $total steps"
	[ $total -gt 60 ] || fail "only $total kills: is strace at work?"
}

test_a_kill_at_any_step_of_detach_is_repaired() {
	server disk 64M
	ARGS=$(remote disk 64M) total=0
	prepare() { call attach $ARGS; }
	undo=undo_by_detach steps "$(changing)" detach id=a
	undo=undo_by_attach steps "$(changing)" detach id=a
	echo "# killed at one of $(every) of $total steps"
	[ $total -gt 40 ] || fail "only $total kills: is strace at work?"
}

test_a_kill_at_any_step_of_a_local_attach_is_repaired() {
	at_exit clean_state
	truncate -s 64M "$TEST_DIR/local.img"
	ARGS="id=a path=$TEST_DIR/local.img size=64M" total=0
	prepare() { :; }
	undo=undo_by_attach steps "$(changing)" attach $ARGS
	undo=undo_by_detach steps "$(changing)" attach $ARGS
	[ $total -gt 30 ] || fail "only $total kills: is strace at work?"
}

# ---- several exports as one device ----

test_exports_end_to_end_are_one_device() {
	three 24M 8M 16M
	call attach $parts size=48M
	device=$(value device)
	same "$(blockdev --getsize64 "$device")" $((48 << 20))
	head -c 48M /dev/urandom >"$TEST_DIR/random"
	# Of no unit that the parts have: requests go across their ends.
	dd if="$TEST_DIR/random" of="$device" bs=733184 oflag=direct conv=fsync,nocreat status=none
	cat "$TEST_DIR"/p[012].img | cmp - "$TEST_DIR/random"
	dd if="$device" bs=733184 iflag=direct status=none | cmp - "$TEST_DIR/random"
	# A hole over all of the middle, and a part of both others.
	blkdiscard -o $((20 << 20)) -l $((16 << 20)) "$device"
	dd if=/dev/zero of="$TEST_DIR/random" bs=1M seek=20 count=16 conv=notrunc status=none
	dd if="$device" bs=1M iflag=direct status=none | cmp - "$TEST_DIR/random"
	same "$(stat -c %b "$TEST_DIR/p1.img")" 0
	refused EEXIST "detach it first" attach $(remote p0 24M)
	refused EINVAL "have 50331648 bytes together" attach $parts size=64M
	refused EINVAL "attached with all of them" resize id=a size=64M
	refused ENODEV "several extents" attach id=b transport=nbd ${parts#* * } size=48M
	fio_verifies "$device"
	call detach id=a
	nothing_left
}

fio_verifies() {
	fio --name=v --filename="$1" --direct=1 --ioengine=libaio --iodepth=16 \
		--rw=randwrite --bsrange=4k-512k --size=100% --verify=crc32c \
		--do_verify=1 --randseed=7 --verify_state_save=0 >"$TEST_DIR/fio.out" 2>&1 ||
		fail "$(cat "$TEST_DIR/fio.out")"
}

# As device mapper's "striped" has it: unit n is in part n mod 3.
test_exports_in_turn_are_one_device() {
	local i
	three 8M 8M 8M
	call attach $parts stripe_width=3 stripe_unit=256K size=24M
	device=$(value device)
	head -c 24M /dev/urandom >"$TEST_DIR/random"
	dd if="$TEST_DIR/random" of="$device" bs=733184 oflag=direct conv=fsync,nocreat status=none
	for ((i = 0; i < 96; i++)); do
		cmp -n 262144 -i $((i * 262144)):$((i / 3 * 262144)) \
			"$TEST_DIR/random" "$TEST_DIR/p$((i % 3)).img"
	done
	dd if="$device" bs=1M iflag=direct status=none | cmp - "$TEST_DIR/random"
	blkdiscard "$device"
	same "$(cat "$TEST_DIR"/p[012].img | tr -d '\0' | wc -c)" 0
	fio_verifies "$device"
	# A part of another size, or of no whole units, makes no stripe.
	refused EINVAL "of one stripe" attach ${parts/8M/16M} stripe_width=3 stripe_unit=256K size=32M
	refused EINVAL "power of two" attach $parts stripe_width=3 stripe_unit=3K size=24M
	refused EINVAL "sets of 2" attach $parts stripe_width=2 stripe_unit=256K size=24M
	call detach id=a
	nothing_left
}

test_a_device_grows_at_its_end_while_it_is_used() {
	three 64M 16M 32M
	first=${parts% part=*}
	call attach ${first% part=*} size=64M
	device=$(value device)
	grow() {
		truncate -s 96M "$TEST_DIR/p0.img"
		tell_server
		call attach id=a transport=fuse part=96M,127.0.0.1:$SERVER_PORT,p0 \
			part=32M,127.0.0.1:$SERVER_PORT,p2 size=128M
	}
	# An export that is smaller than its part changes nothing.
	refused EIO "" attach ${first% part=*} part=32M,127.0.0.1:$SERVER_PORT,p1 size=96M
	same "$(blockdev --getsize64 "$device")" $((64 << 20))
	grows_while_used $((128 << 20)) grow
	call get id=a
	same "$(value healthy)" 1
	# A repeat finds it so; and made anew it is the same.
	grow
	call detach id=a
	grow
	device=$(value device) # others may have taken its number
	same "$(growing_check "$(growing_kind)" >/dev/null 2>&1; echo $?)" 0
	call detach id=a
	nothing_left
}

test_a_lost_part_costs_its_own_blocks_only() {
	three 16M 16M 16M
	other=$SERVER_PORT other_pid=$SERVER_PID
	at_exit end_at_once $other_pid
	# The part in the middle is another server's.
	SERVER_PORT=
	server lost 16M
	parts=${parts/$other,p1/$SERVER_PORT,lost}
	call attach $parts size=48M dead_timeout_ms=1000
	device=$(value device)
	write() { dd if=/dev/zero of="$device" bs=64k count=1 seek="$1" oflag=direct conv=nocreat,fsync status=none; }
	write 300
	kill_server
	fails any "Input/output error" write 300
	# The others go on: their flush does not ask the lost one.
	write 0
	write 700
	fails any "Input/output error" dd if="$device" bs=64k count=1 skip=400 iflag=direct
	# Across the end of a part, a request fails as a whole.
	fails any "Input/output error" dd if="$device" bs=96k skip=170 count=1 iflag=direct
	call get id=a
	same "$(value healthy)" 0
	same "$(value bad_part)" 1
	case $(value problem) in
	"timed out: part 1 of 3, 'lost' of 127.0.0.1:"*) ;;
	*) fail "$(value problem)" ;;
	esac
	server lost 16M
	eventually 30 healthy
	write 300
	call detach id=a
	nothing_left
}

run_tests "$@"
