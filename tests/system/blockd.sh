#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# blockd over its control API and its NBD server.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/blockd_lib.sh"
need_root
need strace nbdinfo qemu-io losetup
/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"

test_makes_finds_and_deletes_extents_by_name() {
	place basic
	start_blockd
	local id
	id=$(call CreateExtent name=x size=$((16 * MIB)) labels=app=web | field id)
	same "$(call CreateExtent name=x size=$((16 * MIB)) labels=app=web | field id)" "$id"
	fails 1 "EEXIST" call CreateExtent name=x size=$((32 * MIB)) labels=app=web
	fails 1 "labels" call CreateExtent name=x size=$((16 * MIB))
	same "$(call ListExtents | field extents.#)" 1
	same "$(call ListPools | field pools.0.reserved)" $((16 * MIB))
	same "$(extent_field x labels.0.value)" web
	same "$(extent_field x blank)" True
	same "$(extent_field x path)" "$D/a/extents/x.data"
	fails 1 "ESTALE" call DeleteExtent name=x id=00000000-0000-4000-8000-000000000000
	call DeleteExtent name=x id="$id"
	call DeleteExtent name=x id="$id"
	fails 1 "ENOENT" call GetExtent name=x
	same "$(call ListPools | field pools.0.reserved)" 0
	same "$(find "$D/a/extents" -type f | wc -l)" 0
}

test_refuses_bad_input_and_changes_nothing() {
	place bad
	start_blockd
	fails 1 "EINVAL" call CreateExtent name=x size=1000000
	fails 1 "EINVAL" call CreateExtent name=x size=4096
	fails 1 "EINVAL" call CreateExtent name=x size=$((1 << 60))
	fails 1 "EINVAL" call CreateExtent name=../x size=$MIB
	fails 1 "EINVAL" call CreateExtent name= size=$MIB
	fails 1 "no pool 'b'" call CreateExtent pool=b name=x size=$MIB
	fails 1 "ENOENT" call ResizeExtent name=x size=$MIB
	fails 1 "ENOENT" call SetExport name=x epoch=1 initiators=any
	fails 1 "ENOENT" call ListExtents pool=b
	fails 1 "EINVAL" call DeleteExtent name=../../etc/passwd
	call CreateExtent name=x size=$((2 * MIB))
	fails 1 "ERANGE" call ResizeExtent name=x size=$MIB
	fails 1 "EINVAL" call SetExport name=x epoch=1 initiators=10.0.0.300
	same "$(extent_field x export)" None
	same "$(extent_field x blank)" True
	fails 1 "EBUSY" call DeletePool name=a
	fails 1 "EINVAL" call CreatePool name=b path=relative
	fails 1 "ENOENT" call CreatePool name=b path="$D/none"
}

test_says_how_much_room_there_is_and_where() {
	place full
	start_blockd
	mkdir "$D/b"
	call CreatePool name=b path="$D/b" capacity=$((64 * MIB))
	fails 1 "pool 'a' has room for 256.00 MiB, not 300.00 MiB" \
		call CreateExtent pool=a name=x size=$((300 * MIB))
	fails 1 "pool 'b' has 64.00 MiB" call CreateExtent name=x size=$((300 * MIB))
	call CreateExtent name=x size=$((200 * MIB))
	same "$(extent_field x pool)" a
	same "$(call ListPools | field pools.0.available)" $((56 * MIB))
	fails 1 "ENOSPC" call ResizeExtent name=x size=$((300 * MIB))
	same "$(call CreateExtent name=y size=$((60 * MIB)) | field pool)" b
}

test_leaves_a_directory_that_is_not_its_own_alone() {
	place foreign
	start_blockd
	mkdir "$D/b"
	echo precious >"$D/b/file"
	fails 1 "choose an empty directory" call CreatePool name=b path="$D/b"
	same "$(ls "$D/b")" file
	fails 1 "EEXIST" call CreatePool name=b path="$D/a"
	mkdir "$D/a/sub"
	fails 1 "inside pool 'a'" call CreatePool name=b path="$D/a/sub"
	stop_blockd TERM
	local argv
	blockd_argv --pool "b=$D/b"
	fails 1 "choose an empty directory" "${argv[@]}"
	blockd_argv --pool "c=$D/a"
	fails 1 "belongs to pool 'a'" "${argv[@]}"
	same "$(ls "$D/b")" file
}

test_serves_without_each_feature_of_the_ring() {
	place without
	start_blockd
	local feature
	call CreateExtent name=x size=$MIB
	for feature in coop-taskrun defer-taskrun single-issuer send-zc poll-first \
		fixed-buffers streams busy-wait pipes defer-taskrun,fixed-buffers,busy-wait; do
		stop_blockd TERM
		start_blockd --without "$feature"
		call SetExport name=x epoch=1 initiators=unix
		io x@1 -c 'write -P 7 0 64k' -c 'flush' -c 'read -P 7 0 64k' -c 'discard 0 64k' \
			-c 'write -P 8 0 1M' -c 'read -P 8 0 1M'
	done
	stop_blockd TERM
	local argv
	blockd_argv --without magic
	fails 2 "without 'magic'" "${argv[@]}"
}

test_a_wrong_flag_or_file_exits_2_and_a_busy_port_1() {
	place start
	mkdir "$D/b"
	fails 2 "'x' is no option" blockd x
	fails 2 "" blockd --no-such-flag
	fails 2 "NAME=/ABSOLUTE/PATH" blockd --pool a=b
	fails 2 "TCP needs tls-ca" blockd --control tcp:127.0.0.1:1
	echo "colour = red" >"$D/wrong"
	fails 2 "colour" blockd --config "$D/wrong"
	echo "pool = a=$D/a" >"$D/conf"
	blockd --config "$D/conf" --check-config >/dev/null
	blockd --help | grep -q 'Exit status: 0'
	start_blockd --listen tcp:127.0.0.1:0
	local port
	port=$(call GetNode | field nbd_addresses.1)
	: >"$D/empty"
	fails 1 "127.0.0.1:${port##*:}" "$BUILD/bin/blockd" --config "$D/empty" \
		--state-dir "$D/state2" --run-dir "$D/run2" \
		--control "unix:$D/run2/control" --pool "b=$D/b" \
		--listen "tcp:127.0.0.1:${port##*:}"
	same "$(ls "$D/b")" ""
}

test_locks_a_second_blockd_out() {
	place second
	start_blockd
	: >"$D/empty"
	fails 1 "in use by blockd (pid $PID)" "$BUILD/bin/blockd" \
		--config "$D/empty" --state-dir "$D/state2" --run-dir "$D/run2" \
		--control "unix:$D/run2/control" --listen "unix:$D/run2/nbd" \
		--pool "a=$D/a"
	fails 1 "in use by blockd (pid $PID)" "$BUILD/bin/blockd" \
		--config "$D/empty" --state-dir "$D/state" --run-dir "$D/run2" \
		--control "unix:$D/run2/control" --listen "unix:$D/run2/nbd"
	call GetNode
}

test_serves_exports_again_after_kill_9() {
	place again
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=3 initiators=unix
	io x@3 -c 'write -P 0x5a 1M 2M' -c flush
	same "$(extent_field x blank)" False
	local incarnation
	incarnation=$(extent_field x incarnation)
	stop_blockd KILL
	start_blockd
	io x@3 -c 'read -P 0x5a 1M 2M' -c 'read -P 0 4M 1M'
	same "$(extent_field x export.epoch)" 3
	same "$(extent_field x incarnation)" "$incarnation"
	nbdinfo "$(uri x@3)" | grep -q "incarnation=$incarnation"
	call RemoveExport name=x epoch=3
	refused_by_policy x@3 "epoch 3 is over"
	stop_blockd KILL
	start_blockd
	fails any "" nbdinfo "$(uri x@3)"
	# A client that comes back is not to wait for the epoch.
	refused_by_policy x@3 "epoch 3 is over"
	fails any "" refused_by_policy x@4 "is over"
	same "$(extent_field x export.epoch)" 3
	fails 1 "ESTALE" call SetExport name=x epoch=2 initiators=unix
}

# refused_by_policy EXPORT TEXT: the server's answer to OPT_GO (7), as the
# clients hide it
refused_by_policy() {
	/usr/bin/python3 - "$D/run/nbd" "$1" "$2" <<'PY'
import socket, struct, sys
path, name, wanted = sys.argv[1], sys.argv[2].encode(), sys.argv[3]
s = socket.socket(socket.AF_UNIX)
s.connect(path)
f = s.makefile("rwb")
f.read(18)
f.write(struct.pack(">IQIII", 1, 0x49484156454F5054, 7, len(name) + 6, len(name)) + name + b"\0\0")
f.flush()
magic, option, kind, length = struct.unpack(">QIII", f.read(20))
text = f.read(length).decode()
assert kind == 1 << 31 | 2, hex(kind)
assert wanted in text, text
PY
}

# Writes one block after the other for ever; says when it began and what ended it.
writer() {
	exec /usr/bin/python3 - "$(uri "$1")" "$2" <<'PY'
import nbd, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
n = 0
try:
    while True:
        h.pwrite(bytes([n % 250 + 1]) * 65536, n % 16 * 65536, nbd.CMD_FLAG_FUA)
        n += 1
        if n == 3:
            open(sys.argv[2], "w").close()
except nbd.Error as e:
    print("ended:", e)
PY
}

test_a_higher_epoch_ends_an_older_writer() {
	place fence
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1 initiators=any
	writer x@1 "$D/began" >"$D/writer" 2>&1 &
	local writer=$!
	at_exit kill -9 "$writer"
	eventually 30 test -e "$D/began"
	same "$(extent_field x export.connections)" 1
	call SetExport name=x epoch=2 initiators=any
	# From here on nothing of the old one may reach the data.
	io x@2 -c 'write -P 0x77 0 1M' -c flush -c 'read -P 0x77 0 1M'
	wait "$writer"
	grep -q '^ended:' "$D/writer"
	io x@2 -c 'read -P 0x77 0 1M'
	refused_by_policy x@1 "epoch 1 is older than 2"
	fails 1 "ESTALE: extent 'x' is at epoch 2" call SetExport name=x epoch=1 initiators=any
	# A late detach of the old epoch takes nothing away from the new one.
	same "$(call RemoveExport name=x epoch=1 | field export.active)" True
	io x@2 -c 'read -P 0x77 0 1M'
	# Somebody who is not on the list does not get in, nor does epoch 0.
	call SetExport name=x epoch=2 initiators=10.1.2.3
	fails any "" nbdinfo "$(uri x@2)"
	fails any "" nbdinfo "$(uri x)"
	fails 1 "ESTALE" call SetExport name=x epoch=0 initiators=any
}

# Writes 64 KiB at a MiB without a flush, and stays connected until it is killed.
unflushed() { # EXPORT MIB
	/usr/bin/python3 - "$(uri "$1")" "$2" "$D/written" <<'PY' &
import nbd, signal, sys
h = nbd.NBD()
h.connect_uri(sys.argv[1])
h.pwrite(b"u" * 65536, int(sys.argv[2]) << 20)
open(sys.argv[3], "w").close()
signal.pause()
PY
	at_exit kill -9 $!
	eventually 30 test -e "$D/written"
	rm "$D/written"
}
# Whether the file of an extent has blocks that ext4 has not placed on the disk.
unplaced() { filefrag -v "$D/a/extents/$1.data" | grep -q delalloc; }
# Again when somebody's sync(2) came in between.
leave_unplaced() { # EXPORT MIB
	local i
	for ((i = 0; i < 4; i++)); do
		unflushed "$1" $(($2 + i))
		! unplaced "${1%@*}" || return 0
	done
	fail "nothing stays in memory: this proves nothing"
}

# The device of a user that was cut off answers a flush with success, and asks
# nobody. So nothing of its acknowledged writes may be lost from then on.
test_an_export_that_is_over_leaves_nothing_unflushed() {
	place over
	truncate -s 256M "$D/ext4"
	mkfs.ext4 -q "$D/ext4"
	mount -o loop "$D/ext4" "$D/a"
	at_exit umount "$D/a"
	at_exit stop_blockd KILL
	start_blockd --pool-capacity 64MiB
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1 initiators=any
	leave_unplaced x@1 0
	call SetExport name=x epoch=2 initiators=any
	fails any "" unplaced x
	# Nor when it is repeated, as after a kill before the flush.
	leave_unplaced x@2 4
	call SetExport name=x epoch=2 initiators=any
	fails any "" unplaced x
	leave_unplaced x@2 12
	call RemoveExport name=x epoch=2
	fails any "" unplaced x
}

test_an_epoch_is_granted_to_one_attachment() {
	place grant
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1 initiators=any grant=a
	call SetExport name=x epoch=1 initiators=any grant=a
	io x@1 -c 'write -P 0x11 0 1M' -c flush
	# The same number is another's, also when it is served no more.
	fails 1 "ESTALE" call SetExport name=x epoch=1 initiators=any grant=b
	fails 1 "ESTALE" call SetExport name=x epoch=1 initiators=any
	# So is a higher epoch, for a claim that names another grant than the present one.
	fails 1 "ESTALE" call SetExport name=x epoch=7 initiators=any grant=b over=c
	same "$(call RemoveExport name=x epoch=7 grants=b | field export.active)" True
	stop_blockd KILL
	start_blockd
	same "$(extent_field x export.grant)" a
	fails 1 "ESTALE" call SetExport name=x epoch=7 initiators=any grant=b
	io x@1 -c 'read -P 0x11 0 1M'
	call SetExport name=x epoch=7 initiators=any grant=b over=c over=a
	refused_by_policy x@1 "epoch 1 is older than 7"
	same "$(call RemoveExport name=x grants=c grants=b | field export.active)" False
	fails 1 "ESTALE" call SetExport name=x epoch=7 initiators=any grant=c
	# A withdrawn export stops no claim; nor does one without initiators and
	# without a device.
	call SetExport name=x epoch=8 grant=c
	call SetExport name=x epoch=9 initiators=any grant=d
	fails 1 "EINVAL" call SetExport name=x epoch=10 over=d grant="$(printf 'x%.0s' {1..128})"
	same "$(extent_field x export.epoch)" 9
}

test_keeps_an_extent_that_a_connection_uses() {
	place busy
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1 initiators=any
	writer x@1 "$D/began" >"$D/writer" 2>&1 &
	local writer=$!
	at_exit kill -9 "$writer"
	eventually 30 test -e "$D/began"
	fails 1 "EBUSY: extent 'x' has 1 connections" call DeleteExtent name=x
	kill -9 "$writer"
	wait "$writer" || true
	eventually 30 call DeleteExtent name=x
	fails any "" nbdinfo "$(uri x@1)"
}

test_keeps_an_extent_that_a_loop_device_holds() {
	place loop
	need_loop
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1
	local device
	# In a mount namespace of its own, as a container would.
	device=$(unshare -m losetup -f --show "$D/a/extents/x.data")
	at_exit losetup -d "$device"
	same "$(extent_field x export.local_device)" "$device"
	# The same epoch again is how its user makes sure.
	call SetExport name=x epoch=1
	fails 1 "held by $device" call SetExport name=x epoch=2 initiators=any
	fails 1 "held by $device" call SetExport name=x epoch=1 initiators=any
	fails 1 "held by $device" call DeleteExtent name=x
	same "$(extent_field x export.epoch)" 1
	mv "$D/a/extents/x.data" "$D/a/extents/y.data"
	mv "$D/a/extents/y.data" "$D/a/extents/x.data"
	fails 1 "held by $device" call DeleteExtent name=x
	losetup -d "$device"
	call SetExport name=x epoch=2 initiators=any
	fails 1 "ESTALE" call SetExport name=x epoch=1
	call DeleteExtent name=x
}

# A file of a server that is stopped, under a loop device: who asks that
# device which file it holds waits for ever. DEVICE, and the server's pid SILENT.
silent_device() {
	mkdir -p "$D/branch" "$D/union"
	truncate -s 8M "$D/branch/file"
	trib-union -f -o survive=no,cache_timeout=0 "$D/branch" "$D/union" &
	SILENT=$!
	at_exit umount -l "$D/union"
	at_exit kill -KILL $SILENT
	eventually 30 mountpoint -q "$D/union"
	DEVICE=$(losetup -f --show "$D/union/file")
	at_exit losetup -d "$DEVICE"
	stand_still $SILENT
	at_exit kill -CONT $SILENT
	# The device is as silent as is meant.
	fails 124 "" timeout -k 1 1 trib-loop "${DEVICE#/dev/}"
}

test_goes_on_beside_a_device_whose_server_is_silent() {
	place silent
	need_loop
	[ -c /dev/fuse ] || skip "needs FUSE"
	local since held writer
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	silent_device
	since=$SECONDS
	call SetExport name=x epoch=1 initiators=any
	# The file that the device held before it fell silent is known still.
	held=$(losetup -f --show "$D/a/extents/x.data")
	at_exit losetup -d "$held"
	same "$(extent_field x export.local_device)" "$held"
	fails 1 "held by $held" call SetExport name=x epoch=2 initiators=any
	losetup -d "$held"
	# An older connection has the data open: it goes, then it is clear.
	writer x@1 "$D/began" >"$D/writer" 2>&1 &
	writer=$!
	at_exit kill -9 "$writer"
	eventually 30 test -e "$D/began"
	call SetExport name=x epoch=2 initiators=any
	wait "$writer"
	grep -q '^ended:' "$D/writer"
	# A process that has the file open now may be that device.
	exec 9<>"$D/a/extents/x.data"
	fails 1 "$DEVICE does not say which file it holds" \
		call SetExport name=x epoch=3 initiators=any
	fails 1 "$DEVICE does not say" call DeleteExtent name=x
	same "$(extent_field x export.epoch)" 2
	# The one that was refused took nothing away.
	io x@2 -c 'write -P 0x77 0 1M' -c flush -c 'read -P 0x77 0 1M'
	exec 9>&-
	call SetExport name=x epoch=3 initiators=any
	truncate -s 64M "$D/r.img"
	call CreatePool name=r "path=$D/r.img"
	[ $((SECONDS - since)) -lt 90 ] || fail "took $((SECONDS - since)) s"
	grep -c "$DEVICE does not answer" "$D/log.1" >"$D/said"
	same "$(cat "$D/said")" 1
	# The silent device does not keep blockd from ending, nor the next from starting.
	stop_blockd TERM
	same "$RC" 0
	start_blockd
	call SetExport name=x epoch=4 initiators=any
	kill -CONT $SILENT
	exec 9<>"$D/a/extents/x.data"
	eventually 30 call SetExport name=x epoch=5 initiators=any
	exec 9>&-
	call DeleteExtent name=x
	refused_by_policy x@5 "is over"
}

test_readers_share_an_extent_with_its_own_node() {
	place readers
	need_loop
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1 read_only=true
	local device writer
	device=$(losetup -r -f --show "$D/a/extents/x.data")
	at_exit losetup -d "$device"
	call SetExport name=x epoch=1 read_only=true initiators=any
	nbdinfo "$(uri x@1)" >/dev/null
	# A writer may come neither by network nor at a newer epoch.
	fails 1 "held by $device" call SetExport name=x epoch=1 initiators=any
	fails 1 "held by $device" call SetExport name=x epoch=2 initiators=any
	fails 1 "held by $device" call SetExport name=x epoch=2 read_only=true
	# Nor may readers come beside a writer here.
	writer=$(losetup -f --show "$D/a/extents/x.data")
	at_exit losetup -d "$writer"
	fails 1 "held by $writer" call SetExport name=x epoch=1 read_only=true initiators=any
	losetup -d "$writer"
	call SetExport name=x epoch=1 read_only=true initiators=any
	losetup -d "$device"
	call SetExport name=x epoch=2 initiators=any
	fails any "" nbdinfo "$(uri x@1)"
}

test_a_resize_is_followed_by_live_connections() {
	place resize
	start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1 initiators=any
	/usr/bin/python3 - "$(uri x@1)" "$D" <<'PY' &
import errno, nbd, os, sys, time

OLD, NEW, BLOCK = 16 << 20, 32 << 20, 4096

def connect():
    h = nbd.NBD()
    # The server is the one to judge.
    h.set_strict_mode(h.get_strict_mode() & ~nbd.STRICT_BOUNDS)
    h.connect_uri(sys.argv[1])
    return h

def refused(errors, call, *args):
    try:
        call(*args)
    except nbd.Error as e:
        assert e.errnum in errors, e
    else:
        raise AssertionError("past the end, and not refused")

hs = [connect() for _ in range(4)]
for h in hs:
    assert h.get_size() == OLD
    refused([errno.EINVAL], h.pread, BLOCK, OLD)
    refused([errno.ENOSPC], h.pwrite, b"n" * BLOCK, OLD - BLOCK // 2)
open(sys.argv[2] + "/began", "w").close()
n = 0
while not os.path.exists(sys.argv[2] + "/resized"):  # busy meanwhile
    hs[n % 4].pwrite(b"b" * 65536, n % 64 * 65536)
    n += 1
for i, h in enumerate(hs):
    at = OLD - BLOCK // 2 + i * BLOCK  # the first over the old end
    h.pwrite(bytes([65 + i]) * BLOCK, at)
    h.pwrite(bytes([97 + i]) * BLOCK, NEW - (i + 1) * BLOCK, nbd.CMD_FLAG_FUA)
    assert hs[3 - i].pread(BLOCK, at) == bytes([65 + i]) * BLOCK
    h.zero(1 << 20, 20 << 20)
    h.trim(1 << 20, 24 << 20)
    h.flush()
    refused([errno.EINVAL], h.pread, BLOCK, NEW)
    refused([errno.ENOSPC], h.pwrite, b"n" * BLOCK, NEW)
for h in hs:
    h.shutdown()
PY
	local client=$!
	at_exit kill -9 "$client"
	eventually 30 test -e "$D/began"
	call ResizeExtent name=x size=$((32 * MIB))
	touch "$D/resized"
	wait "$client"
	call ResizeExtent name=x size=$((32 * MIB))
	same "$(nbdinfo --size "$(uri x@1)")" $((32 * MIB))
	stop_blockd KILL
	start_blockd
	io x@1 -c 'read -P 0x61 33550336 4k' -c 'read -P 0x41 16775168 4k' \
		-c 'read -P 0x44 16787456 4k' -c 'write -P 1 30M 1M' -c 'read -P 1 30M 1M'
	same "$(call ListPools | field pools.0.reserved)" $((32 * MIB))
}

test_thin_extents_grow_and_shrink_with_their_data() {
	local options
	for options in "" --direct-io; do
		place "thin$options"
		start_blockd $options
		call CreateExtent name=x size=$((64 * MIB))
		call SetExport name=x epoch=1 initiators=any
		same "$(extent_field x allocated)" 0
		io x@1 -c 'write -P 3 0 16M' -c flush
		[ "$(extent_field x allocated)" -ge $((16 * MIB)) ] || fail "not allocated"
		same "$(call ListPools | field pools.0.reserved)" $((64 * MIB))
		io x@1 -d unmap -c 'discard 0 16M' -c flush
		[ "$(extent_field x allocated)" -lt $MIB ] || fail "still allocated"
		io x@1 -c 'read -P 0 0 16M'
		stop_blockd TERM
		same "$RC" 0
	done
}

stop_and_umount() {
	stop_blockd KILL
	unmount "$1"
}

test_a_full_file_system_is_an_error_and_no_more() {
	place space
	need_loop
	truncate -s 128M "$D/image"
	mkfs.ext4 -q -m 0 "$D/image"
	mkdir "$D/b"
	mount -o loop "$D/image" "$D/b"
	at_exit stop_and_umount "$D/b"
	start_blockd
	call CreatePool name=b path="$D/b"
	call CreateExtent pool=b name=x size=$((64 * MIB))
	call CreateExtent pool=b name=y size=$((16 * MIB))
	call SetExport name=x epoch=1 initiators=any
	io x@1 -c 'write -P 1 0 1M' -c flush
	# Somebody else takes all there is.
	dd if=/dev/zero of="$D/b/others" bs=1M 2>/dev/null || true
	fails any "No space" qemu-io -f raw "$(uri x@1)" -c 'write -P 2 8M 16M'
	fails 1 "has no room" call CreateExtent pool=b name=z size=$MIB
	same "$(call ListPools | field pools.1.available)" 0
	io x@1 -c 'read -P 1 0 1M'
	# To fence, detach and delete is possible all the same.
	call SetExport name=x epoch=2 initiators=any
	call RemoveExport name=x epoch=2
	call SetExport name=x epoch=3 initiators=any
	fails any "" nbdinfo "$(uri x@1)"
	call DeleteExtent name=y
	rm "$D/b/others"
	io x@3 -c 'write -P 2 8M 16M' -c flush -c 'read -P 1 0 1M'
	stop_blockd KILL
	start_blockd
	io x@3 -c 'read -P 2 8M 16M'
	stop_blockd TERM
}

test_names_damage_and_serves_the_rest() {
	place damage
	start_blockd
	call CreateExtent name=good size=$((16 * MIB))
	call CreateExtent name=torn size=$((32 * MIB))
	call SetExport name=good epoch=1 initiators=any
	call SetExport name=torn epoch=1 initiators=any
	stop_blockd TERM
	printf x | dd of="$D/a/extents/torn.extent" bs=1 seek=40 conv=notrunc 2>/dev/null
	local before
	before=$(sha256sum "$D/a/extents/torn.extent")
	start_blockd
	nbdinfo "$(uri good@1)"
	fails any "" nbdinfo "$(uri torn@1)"
	same "$(extent_field torn state)" damaged
	extent_field torn message | grep -q checksum
	same "$(extent_field good state)" ok
	same "$(call ListPools | field pools.0.reserved)" $((48 * MIB))
	fails 1 "by hand" call DeleteExtent name=torn
	fails 1 "EEXIST" call CreateExtent name=torn size=$((32 * MIB))
	fails 1 "damaged" call SetExport name=torn epoch=2 initiators=any
	same "$(sha256sum "$D/a/extents/torn.extent")" "$before"
	grep -q "torn is damaged and not served" "$D/log.2"
}

test_reports_a_missing_pool_and_goes_on() {
	place missing
	start_blockd
	mkdir "$D/b"
	call CreatePool name=b path="$D/b"
	call CreateExtent pool=b name=x size=$((2 * MIB))
	call SetExport name=x epoch=4 initiators=any
	stop_blockd TERM
	mv "$D/b" "$D/b.away"
	start_blockd
	same "$(call ListPools | field pools.1.state)" missing
	same "$(call ListPools | field pools.0.state)" online
	fails 1 "missing" call CreateExtent pool=b name=y size=$((2 * MIB))
	mkdir "$D/b"
	fails 1 "ENOENT" call CreatePool name=b path="$D/b"
	same "$(ls "$D/b")" ""
	rmdir "$D/b"
	mv "$D/b.away" "$D/b"
	# What came back is served at once.
	call CreatePool name=b path="$D/b"
	nbdinfo "$(uri x@4)"
}

test_tells_systemd_and_leaves_nothing_on_sigterm() {
	place notify
	/usr/bin/python3 - "$D/notify" >"$D/notified" <<'PY' &
import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
    text = s.recv(100).decode()
    print(text, flush=True)
    if text == "STOPPING=1":
        break
PY
	local listener=$!
	at_exit kill -9 "$listener"
	eventually 30 test -S "$D/notify"
	NOTIFY_SOCKET=$D/notify start_blockd
	call CreateExtent name=x size=$((16 * MIB))
	call SetExport name=x epoch=1 initiators=any
	writer x@1 "$D/began" >"$D/writer" 2>&1 &
	local writer=$!
	at_exit kill -9 "$writer"
	eventually 30 test -e "$D/began"
	stop_blockd TERM
	same "$RC" 0
	wait "$listener"
	same "$(cat "$D/notified")" "READY=1
STOPPING=1"
	wait "$writer"
	[ ! -e "$D/run/control" ] || fail "the control socket is left"
	[ ! -e "$D/run/nbd" ] || fail "the NBD socket is left"
	same "$(losetup -j "$D/a/extents/x.data")" ""
}

test_a_create_killed_at_any_step_is_whole_or_not_there() {
	place kill-create
	again() { call DeleteExtent name=x >/dev/null; }
	killed_at_each_step 8 CreateExtent name=x size=$((2 * MIB)) labels=a=b
}

test_a_delete_killed_at_any_step_is_whole_or_not_there() {
	place kill-delete
	again() { call CreateExtent name=x size=$((2 * MIB)) >/dev/null; }
	start_blockd
	again
	stop_blockd TERM
	killed_at_each_step 6 DeleteExtent name=x
}

test_a_resize_killed_at_any_step_has_either_size() {
	place kill-resize
	arguments() { echo size=$((($1 + 2) * MIB)); }
	intact() {
		local size
		size=$(extent_field x size)
		[ "$size" = $((($1 + 1) * MIB)) ] || same "$size" $((($1 + 2) * MIB))
	}
	start_blockd
	call CreateExtent name=x size=$((2 * MIB))
	stop_blockd TERM
	killed_at_each_step 5 ResizeExtent name=x
}

test_an_export_killed_at_any_step_never_falls_back() {
	place kill-export
	arguments() { echo epoch=$(($1 + 1)); }
	intact() {
		local epoch
		epoch=$(extent_field x export.epoch)
		[ "$epoch" = "$1" ] || same "$epoch" $(($1 + 1))
		nbdinfo "$(uri "x@$epoch")" >/dev/null
	}
	start_blockd
	call CreateExtent name=x size=$((2 * MIB))
	call SetExport name=x epoch=1 initiators=any
	stop_blockd TERM
	killed_at_each_step 3 SetExport name=x initiators=any
}

test_pools_made_and_deleted_come_through_a_kill_at_any_step() {
	place kill-pool
	mkdir "$D/b"
	again() { call DeletePool name=b >/dev/null; }
	killed_at_each_step 8 CreatePool name=b path="$D/b"
	again() { call CreatePool name=b path="$D/b" >/dev/null; }
	start_blockd
	again
	stop_blockd TERM
	killed_at_each_step 10 DeletePool name=b
}

test_costs_next_to_nothing_when_idle() {
	place idle
	start_blockd
	local i before after rss
	for i in $(seq 50); do
		call CreateExtent name=x$i size=$MIB >/dev/null
		call SetExport name=x$i epoch=1 initiators=any >/dev/null
	done
	io x1@1 -c 'write 0 1M'
	before=$(awk '{print $14 + $15}' /proc/"$PID"/stat)
	sleep 10
	after=$(awk '{print $14 + $15}' /proc/"$PID"/stat)
	rss=$(awk '/^VmRSS/{print $2}' /proc/"$PID"/status)
	echo "# 50 exports, 10 s idle: $((after - before)) ticks of CPU, $rss KiB"
	[ $((after - before)) -le 2 ] || fail "$((after - before)) ticks"
	[ "$rss" -le 65536 ] || fail "$rss KiB"
}

run_tests "$@"
