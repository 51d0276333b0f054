#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The kernel's device mapper: the device over each attachment, by each transport
# that needs no other machine. Nobody waits for udev: the guest has none.
. "$(dirname "$0")/lib.sh"
# The same by another way is in check-vm.
long_tests='test_it_lies_over_the_kernel_s_nbd
test_it_lies_over_a_fuse_file
test_a_dead_one_that_is_in_use_is_attached_anew
test_a_kill_at_any_point_leaves_nothing
test_a_device_of_several_grows_while_it_is_used
test_a_cut_of_two_raw_devices_is_of_one_instant
test_a_fuse_file_in_use_is_made_anew
test_a_loop_device_in_use_is_made_anew
test_a_kill_at_any_step_of_an_exchange_by_fuse
test_a_silent_server_moves_by_nbd'
known_panic=io_fallback_tw # Linux 6.12, when a ublk server is killed
inside_vm -m 1024 -d pool:1G -- "$@"
. "$TOP/tests/initiator_lib.sh"
need mkfs.ext4 mkfs.xfs e2fsck resize2fs dmsetup
modprobe dm-mod || skip_all "the guest's kernel has no device mapper"
modprobe -a loop fuse nbd
mount -t fusectl fusectl /sys/fs/fuse/connections 2>/dev/null || true
mkdir "$TEST_DIR/mnt"

our_devices() { dmsetup info -c --noheadings -o name,uuid 2>/dev/null | grep TRIB-; }
nothing_of_ours() {
	nothing_left
	! our_devices || return 1
	! compgen -G '/dev/mapper/trib-*' || return 1
	! compgen -G '/sys/block/nbd*/pid' || return 1
}
table() { dmsetup table "${device#/dev/mapper/}"; }

# attach_any TRANSPORT [SIZE]: attachment "a" by it, in $device
attach_any() {
	local size=${2:-64M}
	case $1 in
	loop)
		at_exit clean_state
		[ -e "$TEST_DIR/disk.img" ] || truncate -s "$size" "$TEST_DIR/disk.img"
		call attach id=a path="$TEST_DIR/disk.img" size="$size"
		;;
	*)
		[ "$SERVER_PID" ] || server disk "$size"
		call attach $(TRANSPORT=$1 remote disk "$size")
		;;
	esac
	device=$(value device) under=$(value under)
	same "$(value healthy)" 1
}

test_the_probe_says_that_it_is_there() {
	call probe
	grep '^dm=yes over each of them' "$TEST_DIR/out"
}

# In a container the driver may be there, and its node not.
test_where_it_is_not_allowed_all_goes_as_without() {
	apart() { unshare --mount sh -c 'mount -t tmpfs -o ro none /dev/mapper && exec "$@"' - "$@"; }
	server disk 64M
	apart "$CALL" probe state="$STATE" >"$TEST_DIR/out"
	same "$(grep -c '^dm=no .*: a device in use can.t be cut off' "$TEST_DIR/out")" 1
	apart "$CALL" attach state="$STATE" $(remote disk 64M) >"$TEST_DIR/out" 2>"$TEST_DIR/said"
	device=$(value device)
	case $device in /dev/loop*) ;; *) fail "device '$device'" ;; esac
	same "$(cat "$TEST_DIR/said")" ""
	apart "$CALL" detach state="$STATE" id=a
	nothing_of_ours
	# A device that was made with the driver is not taken for dead there, nor harmed.
	attach_any fuse
	fails 1 "" apart "$CALL" detach state="$STATE" id=a
	apart "$CALL" get state="$STATE" id=a >"$TEST_DIR/out"
	grep 'problem=.*can.t be looked at from here' "$TEST_DIR/out"
	apart "$CALL" attach state="$STATE" $(remote disk 64M) >"$TEST_DIR/out" || true
	call get id=a
	same "$(value healthy) $(value device)" "1 $device"
	call detach id=a
	nothing_of_ours
	stop_server
}

lies_over() { # TRANSPORT
	attach_any "$1"
	case $device in /dev/mapper/trib-*) ;; *) fail "device '$device'" ;; esac
	same "$(table)" "0 131072 linear $(stat -c '%Hr:%Lr' "$under") 0"
	case $(dmsetup info -c --noheadings -o uuid "$device") in
	TRIB-*) ;; *) fail "its UUID" ;; esac
	same "$(blockdev --getss "$device")" 4096
	mkfs.ext4 -q "$device"
	mount "$device" "$TEST_DIR/mnt"
	cp -r "$TOP/base/dm" "$TEST_DIR/mnt/"
	# Others see who has what is below; the mount is named to who detaches.
	refused EBUSY "$TEST_DIR/mnt" detach id=a
	unmount "$TEST_DIR/mnt"
	sleep 300 <"$device" &
	becomes $! sleep
	refused EBUSY "sleep ($!)" detach id=a
	end_at_once $!
	call detach id=a
	nothing_of_ours
	e2fsck -fn "$TEST_DIR/disk.img" >/dev/null 2>&1
	rm "$TEST_DIR/disk.img"
	stop_server
}
test_it_lies_over_a_loop_device() { lies_over loop; }
test_it_lies_over_a_fuse_file() { lies_over fuse; }
test_it_lies_over_the_kernel_s_nbd() { lies_over nbd; }

test_it_grows_while_it_is_mounted() {
	attach_any loop
	mkfs.ext4 -q "$device"
	mount "$device" "$TEST_DIR/mnt"
	dd if=/dev/zero of="$TEST_DIR/mnt/f" bs=64k count=1000 oflag=direct status=none &
	writer=$!
	truncate -s 128M "$TEST_DIR/disk.img"
	call resize id=a size=128M
	call resize id=a size=128M
	same "$(blockdev --getsize64 "$device")" $((128 << 20))
	resize2fs "$device" >/dev/null 2>&1
	wait $writer || true # the small one may be full
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device" >/dev/null 2>&1
	call detach id=a
	nothing_of_ours
}

# A device is mounted on /mnt in the mount namespace of $other, with "old" in f.
mount_elsewhere() { # DEVICE
	unshare --mount sh -c \
		'mount "$0" /mnt && echo old >/mnt/f && sync && echo mounted && exec sleep 600' \
		"$1" >"$TEST_DIR/elsewhere" &
	other=$!
	at_exit end_at_once $other
	eventually 60 grep -q mounted "$TEST_DIR/elsewhere"
	becomes $other sleep
}

# A stale attachment is mounted in a mount namespace that nobody reaches: the next
# one has the extent at once, and the stale one's writes come to nothing.
test_a_stale_one_in_another_mount_namespace_holds_nothing_up() {
	attach_any loop
	mkfs.ext4 -q "$device"
	mount_elsewhere "$device"
	first=$device first_under=$under
	refused EBUSY "another mount namespace" detach id=a
	call fence id=a
	call fence id=a
	fails any "" dd if="$first" of=/dev/null bs=4k count=1 iflag=direct
	call get id=a
	same "$(value healthy)" 0
	grep 'problem=.*is cut off' "$TEST_DIR/out"
	call attach id=a path="$TEST_DIR/disk.img" size=64M
	device=$(value device)
	[ "$device" != "$first" ]
	# The first loop device has gone, though the stale one is still mounted.
	same "$(losetup -nl -O NAME | grep -c .)" 1
	e2fsck -fy "$device" >/dev/null 2>&1 || [ $? = 1 ]
	mount "$device" "$TEST_DIR/mnt"
	same "$(cat "$TEST_DIR/mnt/f")" old
	nsenter -t $other -m sh -c 'echo stale >/mnt/f; sync /mnt/f' 2>/dev/null || true
	end_at_once $other
	eventually 60 test ! -e "/sys/block/${first##*/}"
	gone() { ! dmsetup info "$first" 2>/dev/null; }
	eventually 60 gone
	unmount "$TEST_DIR/mnt"
	mount "$device" "$TEST_DIR/mnt"
	same "$(cat "$TEST_DIR/mnt/f")" old
	unmount "$TEST_DIR/mnt"
	call detach id=a
	nothing_of_ours
}

answers_again() { kill -CONT "$SERVER_PID"; }

# The known trap of others: the server does not answer, requests are in flight, and
# suspend, remove and unmount wait for them.
out_of_the_trap() { # TRANSPORT
	local begin
	attach_any "$1"
	mkfs.ext4 -q "$device"
	mount "$device" "$TEST_DIR/mnt"
	kill -STOP "$SERVER_PID"
	at_exit answers_again
	dd if=/dev/zero of="$TEST_DIR/mnt/f" bs=4k count=64 oflag=direct 2>"$TEST_DIR/dd" &
	writer=$!
	in_flight() { [ "$(awk '{print $1 + $2}' "/sys/block/${under#/dev/}/inflight")" -gt 0 ]; }
	eventually 60 in_flight
	# A suspend alone would wait: it is given up, and nothing has changed.
	fails any "" timeout -s KILL 2 dmsetup suspend --noflush --nolockfs --noudevsync "$device"
	begin=$SECONDS
	call fence id=a
	[ $((SECONDS - begin)) -lt 60 ] || fail "a fence took $((SECONDS - begin)) s"
	wait $writer && fail "a write that went nowhere succeeded"
	umount "$TEST_DIR/mnt"
	call detach id=a
	nothing_of_ours
	answers_again
	stop_server
	rm "$TEST_DIR/disk.img"
}
test_requests_to_a_silent_server_end_by_fuse() { out_of_the_trap fuse; }
test_requests_to_a_silent_server_end_by_nbd() { out_of_the_trap nbd; }

# To ask that loop device for the attributes of its file hangs.
test_a_silent_server_of_a_foreign_loop_device_holds_nothing_up() {
	local foreign
	mkdir -p "$TEST_DIR/served" "$TEST_DIR/silent"
	mount -t tmpfs none "$TEST_DIR/served"
	at_exit umount "$TEST_DIR/served"
	truncate -s 64M "$TEST_DIR/served/disk.img" "$TEST_DIR/ours.img"
	trib-union -f -o shared,survive=no,log=/dev/null "$TEST_DIR/served" "$TEST_DIR/silent" &
	silent=$!
	at_exit kill -KILL "$silent"
	at_exit umount -l "$TEST_DIR/silent"
	eventually 60 test -e "$TEST_DIR/silent/disk.img"
	foreign=$(losetup -f --show "$TEST_DIR/silent/disk.img")
	at_exit losetup -d "$foreign"
	at_exit clean_state
	stand_still "$silent"
	fails 124 "" timeout -k 1 5 stat "$TEST_DIR/silent/disk.img"
	timeout -k 1 120 "$CALL" attach id=a path="$TEST_DIR/ours.img" size=64M state="$STATE"
	timeout -k 1 120 "$CALL" get id=a state="$STATE" | grep healthy=1
	timeout -k 1 120 "$CALL" detach id=a state="$STATE"
	! grep -s ours.img /sys/block/loop*/loop/backing_file || return 1
	kill -KILL "$silent"
	losetup -d "$foreign"
	eventually 60 nothing_of_ours
}

# A disk of this machine does not answer: nothing can make its requests end. Each
# call has a limit, and all is well when it answers.
test_requests_to_a_silent_disk_of_this_machine_hold_nothing_up_for_ever() {
	eventually 60 mkfs.xfs -q -f /dev/vda
	mkdir -p "$TEST_DIR/pool"
	mount /dev/vda "$TEST_DIR/pool"
	at_exit umount "$TEST_DIR/pool"
	at_exit clean_state
	truncate -s 64M "$TEST_DIR/pool/disk"
	call attach id=a path="$TEST_DIR/pool/disk" size=64M
	device=$(value device) under=$(value under)
	fsfreeze -f "$TEST_DIR/pool"
	at_exit fsfreeze -u "$TEST_DIR/pool"
	dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct 2>"$TEST_DIR/dd" &
	writer=$!
	in_flight() { [ "$(awk '{print $1 + $2}' "/sys/block/${under#/dev/}/inflight")" -gt 0 ]; }
	eventually 60 in_flight
	refused EBUSY "dd ($writer)" detach id=a
	begin=$SECONDS
	fails 1 ETIMEDOUT "$CALL" fence id=a state="$STATE"
	[ $((SECONDS - begin)) -lt 60 ] || fail "a fence took $((SECONDS - begin)) s"
	fsfreeze -u "$TEST_DIR/pool"
	wait $writer
	sleep 600 <"$device" &
	other=$!
	at_exit end_at_once $other
	becomes $other sleep
	call fence id=a
	fails any "" dd if="$device" of=/dev/null bs=4k count=1 iflag=direct
	call detach id=a
	same "$(losetup -nl -O NAME)" ""
	dmsetup info "${device##*/}" | grep -i deferred
	end_at_once $other
	eventually 60 nothing_of_ours
}

# The program behind the device was killed with requests in flight, and a program
# keeps the device open: attached anew at once.
test_a_dead_one_that_is_in_use_is_attached_anew() {
	attach_any fuse
	sleep 600 <"$device" &
	other=$!
	becomes $other sleep
	end_at_once $(pgrep -f "trib-nbd .*$STATE")
	eventually 60 unhealthy
	call attach $(remote disk 64M)
	same "$(value healthy)" 1
	same "$(value device)" "$device"
	end_at_once $other
	call detach id=a
	eventually 60 nothing_of_ours
	stop_server
	rm "$TEST_DIR/disk.img"
}

# Killed at any point, an attach is repeated or undone.
test_a_kill_at_any_point_leaves_nothing() {
	local i undone=0
	server disk 64M
	for i in 1 4 8 12 16 20 28 ${LONG_TESTS:+2 6 10 14 18 24}; do
		"$CALL" attach state="$STATE" $(remote disk 64M) >/dev/null 2>&1 &
		killed=$!
		sleep "$(awk "BEGIN {print $i / 20}")"
		kill -KILL $killed 2>/dev/null && undone=$((undone + 1))
		wait $killed 2>/dev/null || true
		if [ $((i % 4)) = 0 ]; then
			call attach $(remote disk 64M)
			same "$(value healthy)" 1
		fi
		call detach id=a
		eventually 30 nothing_of_ours
	done
	[ $undone -gt 0 ] || fail "no attach was killed"
	stop_server
	rm "$TEST_DIR/disk.img"
}

# ---- what is below is exchanged while it is used ----

# write_blocks [--errors]: a writer of the device that knows what was acknowledged
write_blocks() {
	rm -f "$TEST_DIR/stop"
	# Emulated, on one processor: it leaves the rest their time.
	nice -n 10 "$TOP/tests/block_writer.py" "$device" "$TEST_DIR/stop" "$@" \
		>"$TEST_DIR/written" 2>&1 &
	WRITER=$!
	at_exit touch "$TEST_DIR/stop"
	eventually 300 grep -q began "$TEST_DIR/written"
}
blocks_are_there() {
	touch "$TEST_DIR/stop"
	wait $WRITER || fail "$(cat "$TEST_DIR/written")"
	grep -E 'acknowledged [1-9]' "$TEST_DIR/written"
}
program_below() { pgrep -f "trib-nbd .*$STATE"; }

# attach_again [KEY=VALUE]...: the same device as before, and well
attach_again() {
	case $transport in
	loop) call attach id=a path="$TEST_DIR/disk.img" size=64M "$@" ;;
	*) call attach $(TRANSPORT=$transport remote disk 64M) "$@" ;;
	esac
	same "$(value device)" "$device"
	same "$(value healthy)" 1
	same "$(table)" "0 131072 linear $(stat -c '%Hr:%Lr' "$(value under)") 0"
}
taken_down() {
	call detach id=a
	eventually 60 nothing_of_ours
	stop_server
	rm -f "$TEST_DIR/disk.img"
}

# A device that is well, and in use, is made anew: no request fails.
is_made_anew() {
	transport=$1
	attach_any "$transport"
	write_blocks
	for i in 1 2 ${LONG_TESTS:+3 4}; do
		before=$under
		attach_again renew=1
		under=$(value under)
		[ "$under" != "$before" ] || fail "$under stayed"
	done
	blocks_are_there
	taken_down
}
test_a_fuse_file_in_use_is_made_anew() { is_made_anew fuse; }
test_a_loop_device_in_use_is_made_anew() { is_made_anew loop; }
test_the_kernel_s_nbd_in_use_is_made_anew() { is_made_anew nbd; }

test_a_mount_lives_on_when_the_program_below_dies() {
	transport=fuse
	attach_any fuse
	mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$device" # no write of its own
	mount "$device" "$TEST_DIR/mnt"
	cp -r "$TOP/base/dm" "$TEST_DIR/mnt/"
	sync -f "$TEST_DIR/mnt"
	for i in 1 2 3; do
		end_at_once $(program_below)
		eventually 60 unhealthy
		grep -x keeps=1 "$TEST_DIR/out"
		attach_again
		echo $i >"$TEST_DIR/mnt/f$i"
		sync -f "$TEST_DIR/mnt"
	done
	diff -r "$TOP/base/dm" "$TEST_DIR/mnt/dm"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device" >/dev/null 2>&1
	taken_down
}

# Somebody asked the kernel to take the device below away as soon as it can.
test_a_mount_lives_on_when_its_loop_device_is_to_go() {
	transport=loop
	attach_any loop
	mkfs.ext4 -q "$device"
	mount "$device" "$TEST_DIR/mnt"
	losetup -d "$under"
	call get id=a
	same "$(value healthy) $(value keeps)" "0 1"
	attach_again
	echo on >"$TEST_DIR/mnt/f"
	sync -f "$TEST_DIR/mnt"
	same "$(losetup -nl -O NAME | grep -c .)" 1
	unmount "$TEST_DIR/mnt"
	taken_down
}

# Its program dies again and again under a writer: what was acknowledged is there.
test_no_acknowledged_write_is_lost_with_the_program_below() {
	transport=fuse
	attach_any fuse
	write_blocks --errors
	for i in 1 2 3 ${LONG_TESTS:+4 5}; do
		end_at_once $(program_below)
		eventually 60 unhealthy
		attach_again
	done
	blocks_are_there
	taken_down
}

# A call that is killed before or after any change of the mapper device: the next
# one goes on, and the device has its users still.
killed_at_each_step() {
	transport=$1
	attach_any "$transport"
	write_blocks --errors
	mkdir -p "$TEST_DIR/killing"
	cat >"$TEST_DIR/killing/trib-dm" <<-S
		#!/bin/sh
		[ "\$1 before" != "\$(cat $TEST_DIR/kill_at)" ] || { kill -KILL \$PPID; exit; }
		"$BUILD/bin/trib-dm" "\$@" || exit
		[ "\$1 after" != "\$(cat $TEST_DIR/kill_at)" ] || kill -KILL \$PPID
	S
	chmod +x "$TEST_DIR/killing/trib-dm"
	for at in suspend load resume; do
		for when in before after; do
			echo "$at $when" >"$TEST_DIR/kill_at"
			echo "# killed $when $at"
			[ "$transport" = loop ] || [ "$at $when" != "load before" ] || end_at_once $(program_below)
			case $transport in
			loop) source="id=a path=$TEST_DIR/disk.img size=64M" ;;
			*) source=$(TRANSPORT=$transport remote disk 64M) ;;
			esac
			fails 137 "" env PATH="$TEST_DIR/killing:$PATH" \
				"$CALL" attach state="$STATE" $source renew=1
			attach_again
		done
	done
	blocks_are_there
	taken_down
}
test_a_kill_at_any_step_of_an_exchange_by_fuse() { killed_at_each_step fuse; }
test_a_kill_at_any_step_of_an_exchange_by_loop() { killed_at_each_step loop; }

# The server does not answer, with requests in flight, and is at another place then.
moves_from_a_silent_server() {
	transport=$1
	attach_any "$transport"
	write_blocks --errors
	first_pid=$SERVER_PID first_port=$SERVER_PORT
	kill -STOP "$first_pid"
	at_exit kill -KILL "$first_pid"
	in_flight() { [ "$(awk '{print $1 + $2}' "/sys/block/${under#/dev/}/inflight")" -gt 0 ]; }
	eventually 60 in_flight
	# Nobody answers: nothing is changed.
	refused EHOSTUNREACH "" attach $(TRANSPORT=$transport remote disk 64M) renew=1
	same "$(dmsetup info -c --noheadings -o suspended "$device")" Active
	SERVER_PORT=
	server disk 64M
	attach_again
	kill -KILL "$first_pid"
	blocks_are_there
	taken_down
}
test_a_silent_server_moves_by_fuse() { moves_from_a_silent_server fuse; }
test_a_silent_server_moves_by_nbd() { moves_from_a_silent_server nbd; }

# A server that may have lost unflushed writes gets no users of the one before.
test_another_incarnation_takes_no_user_over() {
	attach_any fuse
	sleep 600 <"$device" &
	other=$!
	becomes $other sleep
	first=$device
	end_at_once $(program_below)
	stop_server
	server disk 64M --incarnation another
	call attach $(remote disk 64M)
	same "$(value healthy)" 1
	device=$(value device)
	[ "$device" != "$first" ]
	fails any "" dd if="$first" of=/dev/null bs=4k count=1 iflag=direct
	end_at_once $other
	taken_down
}

test_one_left_suspended_goes_on() {
	attach_any loop
	dmsetup suspend --noudevsync "$device"
	echo "0 8 error" | dmsetup load "$device"
	call attach id=a path="$TEST_DIR/disk.img" size=64M
	same "$(value device)" "$device"
	timeout 60 dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none
	dmsetup suspend --noudevsync "$device"
	call detach id=a
	nothing_of_ours
	rm "$TEST_DIR/disk.img"
}

test_others_devices_are_left_alone() {
	attach_any loop
	name=${device#/dev/mapper/}
	call detach id=a
	echo "0 8 error" | dmsetup create --noudevsync "$name"
	echo "0 8 error" | dmsetup create --noudevsync others -u LVM-x
	at_exit dmsetup remove --noudevsync "$name" others
	attach_any loop
	same "$device" "/dev/mapper/$name-1"
	call detach id=a
	dmsetup info "$name" >/dev/null
	for change in create load suspend resume clear remove; do
		name=
		[ $change = create ] && name=x
		fails any "" sh -c "echo '0 8 error' | trib-dm $change LVM-x '' '' '' 0 $name"
	done
	dmsetup table others | grep error
}

# ---- one device of several extents ----

# several SIZE [OPTION]...: exports p0, p1, p2 of one server, and in $parts what
# attaches them: p0 by its file, the others by $TRANSPORT (fuse)
several() {
	three "$1" "$1" "$@"
	parts=${parts/",p0 "/",p0,$TEST_DIR/p0.img "}
}
# served_again [OPTION]...: by another process
served_again() {
	stop_server
	server p0 8M --export "p1=$TEST_DIR/p1.img" --export "p2=$TEST_DIR/p2.img" "$@"
}
# joined [ARGUMENT]...: attach them, as one mapper device, in $device
joined() {
	call attach $parts "$@"
	device=$(value device)
	same "$(value transport) $(value healthy)" "dm 1"
	case $device in /dev/mapper/trib-*) ;; *) fail "device '$device'" ;; esac
}
# The same where there is no device mapper.
by_trib_nbd() {
	local rc=0
	mount -t tmpfs -o ro none /dev/mapper
	call "$@" || rc=$?
	umount /dev/mapper
	return $rc
}
below_part() { pgrep -f "trib-nbd .*$STATE/a.joined/$1[.]"; }
several_gone() {
	call detach id=a
	eventually 60 nothing_of_ours
	[ ! -e "$STATE/a.joined" ] || fail "left: $(ls -A "$STATE/a.joined")"
	stop_server
	rm -f "$TEST_DIR"/p?.img
}
write_random() {
	head -c 3M /dev/urandom >"$TEST_DIR/random"
	dd if="$TEST_DIR/random" of="$(value device)" bs=100K oflag=direct status=none
}
has_random() { dd if="$(value device)" bs=300K iflag=direct status=none | cmp - "$TEST_DIR/random"; }

# What either of them writes, the other reads, byte for byte.
test_device_mapper_and_trib_nbd_put_each_byte_at_the_same_place() {
	for shape in stripe_width=0 "stripe_width=3 stripe_unit=64K"; do
		TRANSPORT=fuse
		[ "$shape" = stripe_width=0 ] || TRANSPORT=nbd
		several 1M
		joined size=3M $shape
		write_random
		call detach id=a
		by_trib_nbd attach ${parts/=nbd/=fuse} size=3M $shape
		case $(value device) in /dev/loop*) ;; *) fail "device '$(value device)'" ;; esac
		has_random
		write_random
		by_trib_nbd detach id=a
		joined size=3M $shape
		has_random
		several_gone
	done
	# A device that an older program attached, by trib-nbd, goes on, and is taken down.
	TRANSPORT=fuse
	several 1M
	by_trib_nbd attach $parts size=3M
	first=$(value device)
	write_random
	call attach $parts size=3M
	same "$(value device) $(value healthy) $(value transport)" "$first 1 fuse"
	has_random
	call detach id=a
	joined size=3M
	has_random
	several_gone
}

test_a_device_of_several_grows_while_it_is_used() {
	several 8M
	joined size=24M
	write_blocks
	truncate -s 16M "$TEST_DIR/p2.img"
	truncate -s 8M "$TEST_DIR/p3.img"
	served_again --export "p3=$TEST_DIR/p3.img"
	before=$parts
	parts=${parts/"8M,127.0.0.1:$SERVER_PORT,p2"/"16M,127.0.0.1:$SERVER_PORT,p2"}
	for size in 32 40 40; do
		[ $size != 40 ] || case $parts in *,p3) ;; *) parts+=" part=8M,127.0.0.1:$SERVER_PORT,p3" ;; esac
		first=$device
		joined size=${size}M
		same "$device $(blockdev --getsize64 "$device")" "$first $((size << 20))"
	done
	same "$(table | wc -l)" 4
	refused EEXIST "of other parts" attach $before size=24M
	refused EINVAL "attached with all of them" resize id=a size=64M
	blocks_are_there
	several_gone
}

# A part fails, is exchanged, is made anew and cut off, and the others go on.
test_a_lost_part_of_several_costs_its_own_blocks_only() {
	read_part() { dd if="$device" of=/dev/null bs=1M skip=$((8 * $1)) count=1 iflag=direct status=none; }
	local patient=dead_timeout_ms=600000
	several 8M
	joined size=24M $patient
	write_blocks # to the first part
	same "$("$CALL" get id=a/0 state="$STATE" | sed -n 's/^transport=//p')" loop
	end_at_once $(below_part 1)
	eventually 60 unhealthy
	same "$(value bad_part) $(value keeps)" "1 1"
	grep "problem=part 1 of 3: " "$TEST_DIR/out"
	read_part 0
	read_part 2
	fails any "Input/output error" read_part 1
	first=$device
	joined size=24M $patient
	read_part 1
	joined size=24M $patient renew=1
	same "$device" "$first"
	blocks_are_there

	# Requests to a silent server hold up no other part, until they are cut off.
	kill -STOP "$SERVER_PID"
	at_exit answers_again
	dd if=/dev/zero of="$device" bs=4k seek=$((8 * 256)) count=1 oflag=direct 2>"$TEST_DIR/dd" &
	writer=$!
	under=$("$CALL" get id=a/1 state="$STATE" | sed -n 's/^under=//p')
	in_flight() { [ "$(awk '{print $1 + $2}' "/sys/block/${under#/dev/}/inflight")" -gt 0 ]; }
	eventually 60 in_flight
	read_part 0
	refused EBUSY "dd ($writer)" detach id=a
	read_part 0
	call fence id=a
	wait $writer && fail "a write that went nowhere succeeded"
	fails any "" read_part 0
	answers_again
	several_gone
}

# A lost part fails a flush of the whole only if it may have writes that are not durable.
test_a_flush_fails_while_a_lost_part_may_have_unflushed_writes() {
	put() { dd if=/dev/zero of="$device" bs=4k count=1 seek=$((2048 * $1)) oflag=direct conv=nocreat${2:-} status=none; }
	several 8M
	joined size=24M dead_timeout_ms=1000
	put 1 ,fsync
	kill_server
	put 0 ,fsync
	fails any "Input/output error" put 1 ,fsync
	put 0 ,fsync
	served_again
	eventually 60 healthy
	put 1 # acknowledged
	kill_server
	fails any "Input/output error" put 0 ,fsync
	fails any "Input/output error" put 0 ,fsync
	served_again
	eventually 60 healthy
	put 0 ,fsync
	several_gone
}

# Acknowledged writes of one part may be lost: nobody goes on with the whole.
test_another_incarnation_of_a_part_takes_no_user_over() {
	several 8M
	joined size=24M
	first=$device
	sleep 600 <"$device" &
	other=$!
	becomes $other sleep
	end_at_once $(below_part 2)
	served_again --incarnation another
	joined size=24M
	[ "$device" != "$first" ]
	fails any "" dd if="$first" of=/dev/null bs=4k count=1 iflag=direct
	dd if="$device" of=/dev/null bs=4k count=1 iflag=direct
	end_at_once $other
	several_gone
}

# dying N WHEN COMMAND...: killed before or after its N-th change of a mapper device;
# 1: it made fewer, and succeeded
dying() {
	local rc=0
	echo 0 >"$TEST_DIR/changes"
	echo "$1 $2" >"$TEST_DIR/kill_at"
	env PATH="$TEST_DIR/killing:$PATH" "$CALL" "${@:3}" state="$STATE" \
		>"$TEST_DIR/out" 2>"$TEST_DIR/said" || rc=$?
	[ $rc != 137 ] || return 0
	[ $rc = 0 ] || fail "$(cat "$TEST_DIR/said")"
	return 1
}
# At each change: before_it, what $(its_call) says is killed, after_it.
die_at_each() {
	local n when
	mkdir -p "$TEST_DIR/killing"
	cat >"$TEST_DIR/killing/trib-dm" <<-S
		#!/bin/sh
		read n <$TEST_DIR/changes; n=\$((n + 1)); echo \$n >$TEST_DIR/changes
		read at <$TEST_DIR/kill_at
		[ "\$n before" != "\$at" ] || { kill -KILL \$PPID; exit; }
		"$BUILD/bin/trib-dm" "\$@" || exit
		[ "\$n after" != "\$at" ] || kill -KILL \$PPID
	S
	chmod +x "$TEST_DIR/killing/trib-dm"
	for ((n = 1; ; n++)); do
		for when in before after; do
			# Of two kills beside each other one, of each kind half.
			[ "${LONG_TESTS:-}" ] || [ $when = $([ $((n % 2)) = 1 ] && echo before || echo after) ] ||
				continue
			before_it
			dying $n $when $(its_call) || break 2
			echo "# killed $when change $n"
			after_it $n
		done
	done
	CHANGES=$((n - 1))
}

test_a_kill_at_any_change_of_several_is_finished_or_undone() {
	several 8M
	before_it() { :; }
	its_call() { echo "attach $parts size=24M"; }
	after_it() {
		[ $(($1 / 2 % 2)) = 0 ] || joined size=24M
		call detach id=a
		eventually 60 nothing_of_ours
	}
	die_at_each
	same $CHANGES 4
	if [ "${LONG_TESTS:-}" ]; then
		its_call() { echo "detach id=a"; }
		before_it() { joined size=24M; }
		die_at_each
		same $CHANGES 4
	fi
	several_gone
}
# The last part grows, then the device: killed meanwhile, the next call finishes it.
test_a_kill_at_any_change_while_several_grow_costs_no_user_anything() {
	local last=8
	several 8M
	parts=$(sed "s/\( part=[^ ]*,p0,[^ ]*\)\(.*\)/\2\1/" <<<"$parts")
	joined size=24M
	write_blocks
	before_it() {
		last=$((last + 1))
		truncate -s ${last}M "$TEST_DIR/p0.img"
		parts=$(sed "s/ part=[0-9]*M\(,[^ ]*,p0,\)/ part=${last}M\1/" <<<"$parts")
	}
	its_call() { echo "attach $parts size=$((16 + last))M"; }
	after_it() {
		first=$device
		joined size=$((16 + last))M
		same "$device $(blockdev --getsize64 "$device")" "$first $((16 + last << 20))"
	}
	die_at_each
	same $CHANGES 4
	after_it
	blocks_are_there
	several_gone
}

# ---- extents of a pool of this node ----

blockd_call() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$node/control" "$@"; }

# start_node NAME: pool "a" on a file system with reflinks, and its extents e and f
start_node() {
	node=$TEST_DIR/$1
	mkdir "$node"
	# A mount namespace of the test before may hold it for a moment yet.
	eventually 60 mkfs.xfs -q -f /dev/vda
	mkdir -p "$node/pool"
	mount /dev/vda "$node/pool"
	at_exit umount "$node/pool"
	touch "$node/conf"
	run_node
	for name in e f; do
		blockd_call CreateExtent pool=a name=$name size=$((128 << 20)) >/dev/null
		blockd_call SetExport name=$name epoch=1 grant=first >/dev/null
	done
	at_exit clean_state
	call attach id=e path="$node/pool/extents/e.data" size=128M
	device=$(value device) under=$(value under)
	mkfs.ext4 -q "$device"
}
run_node() {
	"$BUILD/bin/blockd" --node-name n1 --pool "a=$node/pool" --floor 1MiB \
		--config "$node/conf" --control "unix:$node/control" \
		--state-dir "$node/state" --run-dir "$node/run" \
		--listen "unix:$node/nbd" >"$node/log" 2>&1 &
	node_pid=$!
	at_exit end_at_once $node_pid
	eventually 60 blockd_call GetNode
}

# An extent is taken from its user on its own node, mounted where nobody gets to.
test_a_higher_epoch_takes_an_extent_from_its_user_here() {
	start_node taken
	mount_elsewhere "$device"
	blockd_call GetExtent name=e | grep -F "${device##*/}"
	# A claim that does not name its attachment changes nothing.
	fails 1 "is held by $under" blockd_call SetExport name=e epoch=2 grant=second \
		initiators=any
	nsenter -t $other -m sh -c 'echo more >/mnt/g; sync /mnt/g'
	blockd_call SetExport name=e epoch=2 grant=second over=first initiators=any >/dev/null
	grep "its user on this node was cut off" "$node/log"
	fails any "" dd if="$device" of=/dev/null bs=4k count=1 iflag=direct
	fails any "" test -e "/sys/block/${under#/dev/}/loop"
	sum=$(md5sum <"$node/pool/extents/e.data")
	nsenter -t $other -m sh -c 'echo stale >/mnt/g; sync /mnt/g' 2>/dev/null || true
	same "$(md5sum <"$node/pool/extents/e.data")" "$sum"
	call detach id=e
	end_at_once $other
	eventually 60 nothing_of_ours
}

# ---- what is on a device is held for a cut ----

uuid() { cat /proc/sys/kernel/random/uuid; }
suspended() { same "$(dmsetup info -c --noheadings -o suspended "$device")" "$1"; }
goes_on() { timeout 60 dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct status=none; }
hold() { blockd_call HoldWrites id="$1" extents=e timeout_ms="${2:-10000}" >"$TEST_DIR/held"; }
release() { blockd_call ReleaseWrites id="$1" | grep -o "\"held\": *[a-z]*" | sed "s/.*: *//"; }

# A guest writes to two devices in turn, without a file system on either.
test_a_cut_of_two_raw_devices_is_of_one_instant() {
	start_node instant
	first=$device
	call attach id=f path="$node/pool/extents/f.data" size=128M
	second=$(value device)
	rm -f "$TEST_DIR/stop"
	python3 - "$first" "$second" "$TEST_DIR/stop" >"$TEST_DIR/written" 2>&1 <<-'P' &
		import mmap, os, struct, sys
		page = mmap.mmap(-1, 4096)
		fds = [os.open(path, os.O_WRONLY | os.O_DIRECT) for path in sys.argv[1:3]]
		number = 0
		while not os.path.exists(sys.argv[3]):
		    number += 1
		    page[:8] = struct.pack("<Q", number)
		    for fd in fds:
		        os.pwritev(fd, [page], 0)
		print(number)
	P
	writer=$!
	at_exit touch "$TEST_DIR/stop"
	of() { od -A n -t u8 -N 8 "$node/pool/extents/$1.data" | tr -d ' '; }
	begun() { [ "$(dd if="$second" bs=4k count=1 iflag=direct status=none | od -A n -t u8 -N 8)" -gt 0 ]; }
	eventually 60 begun
	for i in 1 2 3 ${LONG_TESTS:+4 5 6}; do
		blockd_call CreateSnapshots cut="$(uuid)" snapshots=extent:e,name:se$i \
			snapshots=extent:f,name:sf$i >"$TEST_DIR/made" || fail "$(cat "$TEST_DIR/made")"
		echo "# $(of se$i) $(of sf$i)"
		[ $(($(of se$i) - $(of sf$i))) = 0 ] || [ $(($(of se$i) - $(of sf$i))) = 1 ]
	done
	[ "$(of se$i)" -gt "$(of se1)" ]
	touch "$TEST_DIR/stop"
	wait $writer || fail "$(cat "$TEST_DIR/written")"
	call detach id=f
	call detach id=e
	eventually 60 nothing_of_ours
}

test_whoever_comes_next_resumes_what_a_cut_left() {
	local id
	start_node left
	id=$(uuid)
	hold "$id"
	suspended Suspended
	# Two at once: the second is refused, and the first one lasts.
	fails any "frozen already" hold "$(uuid)"
	same "$(release "$id")" true
	suspended Active
	goes_on
	# Somebody resumes it meanwhile (a growth does): the cut is not of one instant.
	id=$(uuid)
	hold "$id"
	call attach id=e path="$node/pool/extents/e.data" size=128M
	suspended Active
	[ "$(release "$id")" != true ] || fail "it was not held all the time"
	# Its process is killed: blockd resumes.
	id=$(uuid)
	hold "$id"
	pkill -KILL -x trib-freeze
	suspended Suspended
	same "$(release "$id")" true
	goes_on
	# Both are: the next blockd does. blockd alone: its process does.
	hold "$(uuid)"
	pkill -KILL -x trib-freeze
	end_at_once "$node_pid"
	suspended Suspended
	run_node
	goes_on
	grep "device TRIB-.* was left suspended" "$node/log"
	hold "$(uuid)"
	end_at_once "$node_pid"
	goes_on
	run_node
	call detach id=e
	eventually 60 nothing_of_ours
}

# A write below does not end: the cut fails in time, and the device goes on.
test_a_suspend_that_does_not_end_is_undone() {
	start_node stuck
	fsfreeze -f "$node/pool"
	at_exit fsfreeze -u "$node/pool"
	dd if=/dev/zero of="$device" bs=4k count=4 oflag=direct status=none &
	writer=$!
	in_flight() { [ "$(awk '{print $1 + $2}' "/sys/block/${under#/dev/}/inflight")" -gt 0 ]; }
	eventually 60 in_flight
	fails any "in time" hold "$(uuid)" 1500
	fsfreeze -u "$node/pool"
	wait $writer
	active() { suspended Active; }
	eventually 60 active
	goes_on
	same "$(ls "$node/state/frozen")" ""
	call detach id=e
	eventually 60 nothing_of_ours
}

# A cut of several extents freezes the file system on the mapper device.
test_a_cut_freezes_the_file_system_over_it() {
	start_node frozen
	mount "$device" "$TEST_DIR/mnt"
	echo before >"$TEST_DIR/mnt/f"
	blockd_call CreateSnapshots cut=00000000-0000-4000-8000-000000000001 \
		snapshots=extent:e,name:se snapshots=extent:f,name:sf >"$TEST_DIR/made" ||
		fail "$(cat "$TEST_DIR/made")"
	echo after >"$TEST_DIR/mnt/f"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$node/pool/extents/se.data" >/dev/null 2>&1 ||
		fail "the snapshot is not of one instant"
	mount -o loop,ro "$node/pool/extents/se.data" "$TEST_DIR/mnt"
	same "$(cat "$TEST_DIR/mnt/f")" before
	unmount "$TEST_DIR/mnt"
	call detach id=e
	eventually 60 nothing_of_ours
}

run_tests "$@"
