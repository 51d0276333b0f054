#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Snapshots, clones and holds of a blockd: with clients that write meanwhile,
# with file systems mounted on its extents, and killed at every step.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/blockd_lib.sh"
need_root
need strace qemu-io losetup mkfs.xfs mkfs.ext4 od
/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"
losetup -f >/dev/null 2>&1 || skip_all "no loop devices"

# A pool where the file system shares blocks.
reflink_place() {
	place "$1"
	truncate -s 512M "$D/disk"
	mkfs.xfs -q -m reflink=1 "$D/disk"
	mount -o loop "$D/disk" "$D/a"
	at_exit umount "$D/a"
	at_exit stop_blockd KILL
}

uuid() { cat /proc/sys/kernel/random/uuid; }
# cut CUT EXTENT:SNAPSHOT... [hold=ID]
cut() {
	local id=$1 one argv=()
	shift
	for one; do
		case $one in
		hold=*) argv+=("$one") ;;
		*) argv+=("snapshots=extent:${one%:*},name:${one#*:}") ;;
		esac
	done
	call CreateSnapshots cut="$id" "${argv[@]}"
}
first() { od -An -tu8 -N8 "$D/a/extents/$1.data" | tr -d ' '; }
remove() {
	local name
	for name; do call DeleteExtent name="$name" >/dev/null; done
}

only_snapshots_have() { [ "$(call ListPools | field pools.0.reclaimable)" = "$1" ]; }

test_snapshots_and_clones_live_and_go_in_any_order() {
	reflink_place any
	start_blockd
	call CreateExtent name=x size=$((8 * MIB)) >/dev/null
	call SetExport name=x initiators=any >/dev/null
	io x -c "write -P 1 0 1M"
	local id
	id=$(uuid)
	cut "$id" x:s1 >"$D/made"
	same "$(field snapshots.0.kind <"$D/made")" snapshot
	same "$(field snapshots.0.origin.method <"$D/made")" reflink
	same "$(field snapshots.0.origin.cut <"$D/made")" "$id"
	same "$(cut "$id" x:s1 | field snapshots.0.id)" "$(extent_field s1 id)"
	same "$(call ListPools | field pools.0.nominal)" $((16 * MIB))
	same "$(call ListPools | field pools.0.sharing_known)" True
	same "$(call ListPools | field pools.0.shared)" $MIB
	same "$(call ListPools | field pools.0.reclaimable)" 0
	io x -c "write -P 2 0 1M" -c flush
	eventually 30 only_snapshots_have $MIB
	cut "$(uuid)" x:s2 >/dev/null
	same "$(call ListPools | field pools.0.shared)" $MIB
	fails 1 EINVAL call SetExport name=s1 initiators=any
	fails 1 EINVAL call ResizeExtent name=s1 size=$((16 * MIB))
	call SetExport name=s1 initiators=any read_only=true >/dev/null
	io s1 -r -c "read -P 1 0 1M" -c "read -P 0 1M 7M"
	call CreateExtent name=c size=$((16 * MIB)) source=s1 >/dev/null
	call SetExport name=c initiators=any >/dev/null
	io c -c "read -P 1 0 1M" -c "read -P 0 1M 15M" -c "write -P 3 0 64k"
	io s1 -r -c "read -P 1 0 1M"
	same "$(call ListRanges name=s2 older=s1 | field ranges.0.length)" $MIB
	same "$(call ListRanges name=s1 start=$((MIB / 2)) | field ranges.0.offset)" $((MIB / 2))
	fails 1 EBUSY call RevertExtent name=x snapshot=s1
	call RemoveExport name=x >/dev/null
	call RevertExtent name=x snapshot=s1 >/dev/null
	call RemoveExport name=s1 >/dev/null
	remove s1
	stop_blockd KILL
	start_blockd
	call SetExport name=x initiators=any >/dev/null
	io x -c "read -P 1 0 1M"
	call RemoveExport name=x >/dev/null
	remove x
	same "$(extent_field s2 origin.name)" x
	io c -c "read -P 3 0 64k" -c "read -P 1 64k 960k"
	call RemoveExport name=c >/dev/null
	remove s2 c
	same "$(call ListPools | field pools.0.reserved)" 0
}

# writer A B: write 1, 2, 3... to A and, when that is done, to B
writer() {
	/usr/bin/python3 - "$(uri "$1")" "$(uri "$2")" "$D/n" 2>"$D/writer" <<-'END' &
		import nbd, struct, sys
		a, b = nbd.NBD(), nbd.NBD()
		a.connect_uri(sys.argv[1])
		b.connect_uri(sys.argv[2])
		n = 0
		while True:
		    n += 1
		    block = struct.pack("<Q", n) * 512
		    a.pwrite(block, 0)
		    b.pwrite(block, 0)
		    if n % 8 == 0:
		        open(sys.argv[3], "w").write(str(n))
	END
	WRITER=$!
	at_exit kill "$WRITER"
	eventually 30 [ -s "$D/n" ]
}
# Not the moment at which the file is empty.
written() { until sleep 0.1 && grep . "$D/n"; do :; done; }
goes_on() { [ "$(written)" -gt "$1" ]; }

# A snapshot that has a later write must have the earlier one, too.
consistent() {
	local a b
	a=$(first sa) b=$(first sb)
	[ "$b" -le "$a" ] && [ "$a" -le $((b + 1)) ] ||
		fail "$1: B has $b, A has $a"
}

test_a_cut_of_two_is_one_instant_for_who_writes_to_both() {
	reflink_place order
	start_blockd
	local n id
	for n in a b; do
		call CreateExtent name=$n size=$((2 * MIB)) >/dev/null
		call SetExport name=$n initiators=any >/dev/null
	done
	writer a b
	for n in 1 2 3 4 5 6 7 8; do
		cut "$(uuid)" b:sb a:sa >/dev/null
		consistent "cut $n"
		remove sa sb
	done
	# One by one, as on two nodes, under a hold.
	for n in 1 2 3; do
		id=$(uuid)
		call HoldWrites id="$id" extents=a extents=b timeout_ms=10000 >/dev/null
		cut "$(uuid)" a:sa hold="$id" >/dev/null
		sleep 0.2
		cut "$(uuid)" b:sb hold="$id" >/dev/null
		same "$(call ReleaseWrites id="$id" | field held)" True
		consistent "hold $n"
		remove sa sb
	done
	# And without: the test sees what a hold is for.
	cut "$(uuid)" a:sa >/dev/null
	eventually 30 goes_on "$(first sa)"
	cut "$(uuid)" b:sb >/dev/null
	[ "$(first sb)" -gt "$(first sa)" ] || fail "no hold is needed?"
	remove sa sb
	# A hold that lapses lets the writer go on and voids the cut.
	id=$(uuid)
	call HoldWrites id="$id" extents=a extents=b timeout_ms=300 >/dev/null
	n=$(written)
	eventually 30 goes_on "$n"
	fails 1 ESTALE cut "$(uuid)" a:sa hold="$id"
	fails 1 ENOENT call GetExtent name=sa
	same "$(call ReleaseWrites id="$id" | field held)" False
	# A held writer does not keep blockd from stopping.
	call HoldWrites id="$(uuid)" extents=a timeout_ms=10000 >/dev/null
	n=$SECONDS
	stop_blockd TERM
	[ $((SECONDS - n)) -lt 8 ] || fail "waited for the hold"
}

# The same of a snapshot that has no file.
first_served() {
	call SetExport name="$1" initiators=any read_only=true >/dev/null
	/usr/bin/python3 - "$(uri "$1")" <<-'END'
		import nbd, struct, sys
		h = nbd.NBD()
		h.connect_uri(sys.argv[1])
		print(struct.unpack("<Q", h.pread(4096, 0)[:8])[0])
		h.shutdown()
	END
	call RemoveExport name="$1" >/dev/null
}

test_a_cut_of_a_raw_pool_and_a_dir_pool_is_one_instant() {
	reflink_place raw
	fallocate -l 256M "$D/r"
	start_blockd
	local n a b
	call CreatePool name=r path="$D/r" >/dev/null
	call CreateExtent pool=r name=a size=$((2 * MIB)) >/dev/null
	call CreateExtent pool=a name=b size=$((2 * MIB)) >/dev/null
	for n in a b; do call SetExport name=$n initiators=any >/dev/null; done
	writer a b
	for n in 1 2 3 4 5; do
		cut "$(uuid)" a:sa b:sb >"$D/made"
		same "$(field snapshots.0.origin.method <"$D/made")" shared
		a=$(first_served sa) b=$(first_served sb)
		[ "$b" -le "$a" ] && [ "$a" -le $((b + 1)) ] || fail "A has $a, B $b"
		remove sa sb
	done
}

test_limits_hold_while_served_and_end_when_they_are_taken() {
	place limits
	start_blockd
	local start writes=() n
	call CreateExtent name=x size=$((8 * MIB)) limits=iops:20 >/dev/null
	call SetExport name=x initiators=any >/dev/null
	for n in $(seq 32); do writes+=(-c "write ${n}k 1k"); done
	start=$(date +%s%N)
	io x "${writes[@]}"
	# Three may go at once, the others one in 50 ms.
	n=$((($(date +%s%N) - start) / 1000000))
	[ $n -ge 1400 ] || fail "32 writes took $n ms"
	call SetLimits name=x limits=bytes_per_second:65536 >/dev/null
	io x -c "write 0 8M" # one may go; it takes 128 s until the next
	qemu-io -f raw "$(uri x)" -c "write 0 4k" >/dev/null 2>&1 &
	n=$!
	sleep 0.5
	kill -0 $n || fail "it did not wait"
	call SetLimits name=x >/dev/null
	wait $n
	same "$(extent_field x limits)" None
	# What waits does not keep its connections from being closed.
	call SetLimits name=x limits=bytes_per_second:65536 >/dev/null
	io x -c "write 0 8M"
	qemu-io -f raw "$(uri x)" -c "write 0 4k" >/dev/null 2>&1 &
	n=$!
	at_exit kill $n
	sleep 0.5
	start=$SECONDS
	call SetExport name=x epoch=2 initiators=any >/dev/null
	[ $((SECONDS - start)) -lt 60 ] || fail "waited for the limit"
}

test_without_shared_blocks_a_copy_is_made_of_what_is_not_written() {
	place bytes
	mount -t tmpfs -o size=64m tmpfs "$D/a"
	at_exit umount "$D/a"
	at_exit stop_blockd KILL
	start_blockd
	call CreateExtent name=x size=$((8 * MIB)) >/dev/null
	call SetExport name=x initiators=any >/dev/null
	io x -c "write -P 1 1M 4M"
	fails 1 "byte by byte" cut "$(uuid)" x:s
	fails 1 "byte by byte" call CreateExtent name=c size=$((8 * MIB)) source=x
	call RemoveExport name=x >/dev/null
	cut "$(uuid)" x:s >"$D/made"
	same "$(field snapshots.0.origin.method <"$D/made")" copy
	eventually 30 whole s
	cmp "$D/a/extents/x.data" "$D/a/extents/s.data"
	call CreateExtent name=c size=$((8 * MIB)) source=s >/dev/null
	eventually 30 whole c
	cmp "$D/a/extents/x.data" "$D/a/extents/c.data"
	call SetExport name=x initiators=any >/dev/null
	remove s
}
whole() { [ "$(extent_field "$1" state)" = ok ]; }

# ---- a file system on the extent's own node ----

mounted_extent() {
	call CreateExtent name=x size=$((128 * MIB)) >/dev/null
	call SetExport name=x epoch=1 >/dev/null
	DEVICE=$(losetup -f --show "$D/a/extents/x.data")
	at_exit losetup -d "$DEVICE"
	mkfs.ext4 -q "$DEVICE"
	mkdir -p "$D/m"
	mount "$DEVICE" "$D/m"
	at_exit umount "$D/m"
}
# A write to the file system, which can't be killed while that is frozen.
write_begin() {
	dd if=/dev/zero of="$D/m/probe" bs=4k count=1 conv=fsync status=none &
	WRITE=$!
	at_exit wait "$WRITE"
}
write_is_on() { sleep 0.3 && kill -0 "$WRITE" 2>/dev/null; }
write_waits() { write_is_on || fail "it is not frozen"; }
write_ends() { eventually "${1:-8}" write_ended; }
write_ended() { ! kill -0 "$WRITE"; }
hold_x() { call HoldWrites id="$1" extents=x timeout_ms="$2" >/dev/null; }
# write_held MS COMMAND...: a write waits after a hold of MS has begun, and COMMAND. On
# a busy machine the hold may have ended before the write began: once more then.
write_held() {
	local began done
	while :; do
		began=$(date +%s%3N) done=0
		hold_x "$(uuid)" "$1"
		"${@:2}" || done=$?
		write_begin
		[ $done != 0 ] || ! write_is_on || return 0
		[ $(($(date +%s%3N) - began)) -ge "$1" ] || fail "it is not frozen"
		write_ends 60
	done
}

test_a_mounted_file_system_is_frozen_for_a_hold() {
	reflink_place frozen
	start_blockd
	local id device
	call CreateExtent name=y size=$((2 * MIB)) >/dev/null
	mounted_extent
	id=$(uuid)
	echo before >"$D/m/file"
	hold_x "$id" 10000
	same "$(ls "$D/state/frozen")" "$(lsblk -dno MAJ:MIN "$DEVICE" | tr -d ' ')"
	write_begin
	write_waits
	cut "$(uuid)" x:s hold="$id" >/dev/null
	same "$(call ReleaseWrites id="$id" | field held)" True
	write_ends
	same "$(ls "$D/state/frozen")" ""
	# The frozen file system is whole: nothing to replay, the file is there.
	device=$(losetup -r -f --show "$D/a/extents/s.data")
	at_exit losetup -d "$device"
	mkdir "$D/s"
	mount -o ro,noload "$device" "$D/s"
	at_exit umount "$D/s"
	same "$(cat "$D/s/file")" before
	# At its end by itself, and by a cut that begins one of its own.
	write_held 3000 true
	write_ends
	cut "$(uuid)" x:s2 y:s3 >/dev/null
	write_begin
	write_ends
	# Its process is killed: blockd thaws, when the hold ends.
	write_held 3000 pkill -KILL -P "$PID" -x trib-freeze
	write_ends
	eventually 30 nothing_frozen
	# blockd is killed: its process thaws.
	hold_x "$(uuid)" 10000
	write_begin
	write_waits
	stop_blockd KILL
	write_ends
	# Both are: the next blockd thaws.
	start_blockd
	hold_x "$(uuid)" 10000
	stand_still "$PID"
	pkill -KILL -P "$PID" -x trib-freeze
	stop_blockd KILL
	write_begin
	write_waits
	start_blockd
	write_ends
	grep -q "left frozen: it is not any more" "$D/log.$STARTS"
}
nothing_frozen() { [ -z "$(ls "$D/state/frozen")" ]; }

test_a_device_without_a_file_system_can_not_be_held() {
	reflink_place bare
	start_blockd
	local device
	call CreateExtent name=x size=$((2 * MIB)) >/dev/null
	call CreateExtent name=y size=$((2 * MIB)) >/dev/null
	call SetExport name=x epoch=1 >/dev/null
	device=$(losetup -f --show "$D/a/extents/x.data")
	at_exit losetup -d "$device"
	fails 1 "no file system" call HoldWrites id="$(uuid)" extents=x timeout_ms=100
	fails 1 "no file system" cut "$(uuid)" x:sx y:sy
	fails 1 ENOENT call GetExtent name=sy
	cut "$(uuid)" x:sx >/dev/null # alone: the kernel does it at one instant
}

# ---- killed ----

# Of two snapshots a record and the data each are there, or nothing; or N files.
both_or_none() {
	local n
	n=$(find "$D/a/extents" -name 's[xy].*' | wc -l)
	[ "$n" = "${1:-0}" ] || [ "$n" = 4 ] || fail "half a cut: $(ls "$D/a/extents")"
}

test_a_cut_killed_at_any_step_is_whole_or_not_there() {
	reflink_place killcut
	start_blockd
	call CreateExtent name=x size=$((2 * MIB)) >/dev/null
	call CreateExtent name=y size=$((2 * MIB)) >/dev/null
	stop_blockd TERM
	local id
	id=$(uuid)
	intact() { both_or_none; }
	again() { both_or_none 4; remove sx sy; }
	KILL_AT='rename,renameat,renameat2 unlink,unlinkat'
	killed_at_each_step 4 CreateSnapshots cut="$id" \
		snapshots=extent:x,name:sx snapshots=extent:y,name:sy
}

# Each pool makes its own at once; that all do is noted outside of them.
test_a_cut_of_two_pools_killed_at_any_step_is_whole_or_not_there() {
	reflink_place killtwo
	fallocate -l 128M "$D/r"
	start_blockd
	call CreatePool name=r path="$D/r" >/dev/null
	call CreateExtent pool=a name=x size=$((2 * MIB)) >/dev/null
	call CreateExtent pool=r name=y size=$((2 * MIB)) >/dev/null
	stop_blockd TERM
	local id
	id=$(uuid)
	there() { call ListExtents | grep -o '"name":"s[xy]"' | wc -l; }
	check_pool() {
		call ListPools | grep -o '"name":"r"[^}]*"state":"online"' >/dev/null
		same "$(ls "$D/state/cuts")" '' "notes"
	}
	intact() { case $(there) in 0 | 2) ;; *) fail "half a cut" ;; esac }
	again() { same "$(there)" 2; remove sx sy; }
	KILL_AT='rename,renameat,renameat2 unlink,unlinkat pwrite64'
	killed_at_each_step 5 CreateSnapshots cut="$id" \
		snapshots=extent:x,name:sx snapshots=extent:y,name:sy
	grep -q "cut $id was interrupted: undone, with 1 of 2" "$D"/log.*
}

test_a_clone_and_a_revert_killed_at_any_step_are_done_or_not() {
	reflink_place killclone
	start_blockd
	call CreateExtent name=x size=$((2 * MIB)) >/dev/null
	call SetExport name=x initiators=any >/dev/null
	io x -c "write -P 1 0 1M"
	cut "$(uuid)" x:s >/dev/null
	call RemoveExport name=x >/dev/null
	stop_blockd TERM
	intact() { :; }
	again() { cmp -n $MIB "$D/a/extents/c.data" "$D/a/extents/s.data"; remove c; }
	KILL_AT=rename,renameat,renameat2
	killed_at_each_step 1 CreateExtent name=c size=$((4 * MIB)) source=s
	local old new
	old=$(md5sum <"$D/a/extents/s.data")
	scribble() { dd if=/dev/zero of="$D/a/extents/x.data" bs=1M count=1 conv=notrunc,fsync status=none; }
	scribble
	new=$(md5sum <"$D/a/extents/x.data")
	intact() {
		case $(md5sum <"$D/a/extents/x.data") in "$old" | "$new") ;; *) fail "half a revert" ;; esac
	}
	again() {
		same "$(md5sum <"$D/a/extents/x.data")" "$old"
		scribble
	}
	KILL_AT='rename,renameat,renameat2 unlink,unlinkat'
	killed_at_each_step 4 RevertExtent name=x snapshot=s
}

# pull EXTENT EXPORT [OFFSET:LENGTH...]: of our own server
pull() {
	local one argv=()
	for one in "${@:3}"; do
		argv+=("ranges=offset:${one%:*},length:${one#*:}")
	done
	call PullExtent name="$1" address="unix:$D/run/nbd" export="$2" "${argv[@]}"
}
pulled() { [ "$(pull "$1" "$2" | field runs)" = False ]; }
position_is_past() { [ "$(pull "$1" "$2" | field position)" -gt "$3" ]; }

test_an_extent_pulls_the_content_of_a_snapshot_in_another_pool() {
	reflink_place pull
	start_blockd
	mkdir "$D/b"
	call CreatePool name=b path="$D/b" >/dev/null
	call CreateExtent pool=a name=x size=$((112 * MIB)) >/dev/null
	call SetExport name=x initiators=unix >/dev/null
	io x -c "write -P 1 0 80M" -c "write -P 2 100M 1M" -c flush
	cut "$(uuid)" x:s >/dev/null
	call SetExport name=s initiators=unix read_only=true >/dev/null
	call CreateExtent pool=b name=y size=$((200 * MIB)) >/dev/null
	# What can't be is refused, and nothing begins.
	fails 1 'no extent' pull z s 0:4096
	fails 1 'not in order' pull y s 8192:4096 0:4096
	fails 1 'not in blocks' pull y s 0:100
	fails 1 'in the extent' pull y s $((200 * MIB)):4096
	fails 1 'is a snapshot' pull s x 0:4096
	same "$(pull y s | field position)" 0
	pull y nothing 0:4096 >/dev/null
	eventually 60 fails 1 "export 'nothing'" pull y nothing
	same "$(pull y nothing | field runs)" False # told once
	# A range past the source, in the larger extent.
	pull y s $((112 * MIB)):$MIB >/dev/null
	eventually 60 fails 1 'a range ends at' pull y s

	# A slow source. Meanwhile nobody else writes, and a kill ends it: 64 MiB are
	# kept after four seconds, the rest takes three.
	call SetLimits name=s limits=bytes_per_second:$((16 * MIB)) >/dev/null
	same "$(pull y s 0:$((112 * MIB)) | field runs)" True
	fails 1 'is pulling' call SetExport name=y initiators=unix
	eventually 60 position_is_past y s 0
	at=$(pull y s | field position)
	stop_blockd KILL
	start_blockd
	same "$(pull y s | field position)" 0
	same "$(pull y s | field runs)" False
	call SetLimits name=s >/dev/null
	pull y s "$at:$((80 * MIB - at))" $((100 * MIB)):$MIB >/dev/null
	eventually 60 pulled y s
	same "$(pull y s | field position)" $((101 * MIB))
	same "$(extent_field y blank)" False
	cmp "$D/a/extents/s.data" "$D/b/extents/y.data" -n $((112 * MIB)) ||
		fail "not the same content"
	# Holes stay holes.
	[ "$(extent_field y allocated)" -lt $((90 * MIB)) ]
	# From now on, y is an extent as any other.
	call SetExport name=y initiators=unix >/dev/null
	fails 1 'exported to a writer' pull y s 0:4096
	call RemoveExport name=y >/dev/null

	# A delete, or another export, ends a pull.
	call SetLimits name=s limits=bytes_per_second:$MIB >/dev/null
	pull y s 0:$((80 * MIB)) >/dev/null
	pull y x 0:$MIB >/dev/null
	same "$(pull y s | field position)" 0
	eventually 60 pulled y x
	pull y s 0:$((80 * MIB)) >/dev/null
	remove y
	fails 1 'no extent' call GetExtent name=y
	call CreateExtent pool=b name=y size=$((200 * MIB)) >/dev/null
	pull y s 0:$((80 * MIB)) >/dev/null
	# A stop does not wait for it, and its source may go once it is over.
	stop_blockd TERM
	start_blockd
	call RemoveExport name=s >/dev/null
	remove y s x
}

run_tests "$@"
