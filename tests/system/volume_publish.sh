#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Who may have a volume: publications, readers that share one, and block
# volumes, on three hosts.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
need fio xfs_growfs

# publications VOLUME: "NODE STATE ..." of each, by node
publications() { status "$1" | sed -n 's/^on=//p' | sort; }

test_a_published_volume_is_attached_there_only() {
	volume pub
	v 1 create name=pub size=200MiB
	fails 1 "ENOENT" v 1 publish name=none to=host1
	same "$(v 1 publish name=pub to=host9 2>/dev/null)" "no node"
	fails 1 "more than 255" v 1 publish name=pub to=host1 \
		note="$(printf 'x%.0s' {1..256})"
	fails 1 "only readers" v 1 publish name=pub to=host1 shared=1
	v 1 publish name=pub to=host1 note=w
	v 2 publish name=pub to=host1 note=w
	same "$(publications pub)" "host1 Published @0 published note=w"
	fails 1 "another way" v 2 publish name=pub to=host1 note=v
	fails 1 "EEXIST" v 2 publish name=pub to=host1 note=w read_only=1
	fails 1 "volume 'pub' is published to node 'host1'" v 2 publish name=pub to=host2
	fails 1 "volume 'pub' is published to node 'host1'" attach 2 pub
	fails 1 "volume 'pub' is published to node 'host1'" v 2 delete name=pub
	attach 1 pub
	is_whole 1 pub
	fill "$C/host1/mnt/pub"
	same "$(publications pub)" "host1 Attached @1 published note=w"
	v 2 publish name=pub to=host1 note=w
	v 1 detach name=pub
	v 1 detach name=pub
	same "$(publications pub)" "host1 Published @1 published note=w"
	fails 1 "EBUSY" v 2 delete name=pub
	v 3 unpublish name=pub to=host2
	v 3 unpublish name=pub to=host1
	v 3 unpublish name=pub to=host1
	v 3 unpublish name=none to=host1
	same "$(publications pub)" ""
	v 2 publish name=pub to=host2 read_only=1
	attach 2 pub
	same "$(publications pub)" "host2 Attached @2 published read-only note="
	check "$C/host2/mnt/pub"
	fails any "Read-only" touch "$C/host2/mnt/pub/new"
	v 2 detach name=pub
	v 2 unpublish name=pub
	v 2 delete name=pub
	nothing_left
}

test_what_is_attached_by_hand_can_be_published_there() {
	volume hand
	v 1 create name=hand size=200MiB
	attach 1 hand
	fails 1 "is attached on node 'host1' at" v 1 publish name=hand to=host2
	fails 1 "EEXIST" v 1 publish name=hand to=host1 read_only=1
	v 1 publish name=hand to=host1
	is_whole 1 hand
	v 1 detach name=hand
	same "$(publications hand)" "host1 Published @1 published note="
	v 1 unpublish name=hand
	v 1 delete name=hand
	nothing_left
}

test_a_lost_node_is_cut_off_by_unpublishing() {
	volume gone
	export TRIB_TEST_DEAD_TIMEOUT_MS=120000
	v 1 create name=gone size=1GiB node=host2 node=host3
	v 1 publish name=gone to=host1
	attach 1 gone
	fill "$C/host1/mnt/gone"
	v 2 unpublish name=gone to=host1
	same "$(publications gone)" ""
	# The node is told so, and does not wait for servers that may come back (120 s).
	local since=$SECONDS
	fails any "" dd if=/dev/urandom of="$C/host1/mnt/gone/late" bs=1M count=4 conv=fsync
	[ $((SECONDS - since)) -lt 60 ] || fail "it waited $((SECONDS - since)) s"
	status gone 1 | grep -q 'reason=CutOff'
	v 2 publish name=gone to=host2
	attach 2 gone
	check "$C/host2/mnt/gone"
	# The one that was cut off cleans up, and disturbs nobody.
	v 1 detach name=gone
	same "$(findmnt -rno TARGET | count "$C/host1/")" 0
	is_whole 2 gone
	check "$C/host2/mnt/gone"
	v 2 detach name=gone
	v 2 unpublish name=gone
	# Cut off again, then published there again: what is left is replaced.
	v 1 publish name=gone to=host1
	attach 1 gone
	v 2 unpublish name=gone
	v 1 publish name=gone to=host1
	attach 1 gone
	is_whole 1 gone
	check "$C/host1/mnt/gone"
	# And the volume may be gone by the time that it cleans up.
	v 2 unpublish name=gone
	v 2 delete name=gone
	same "$(ls "$C"/host?/pool/extents)" "$(ls "$C"/host?/pool/extents | grep -v gone)"
	v 1 detach name=gone
	nothing_left
}

test_a_silent_server_does_not_hold_an_unpublish() {
	volume mute
	v 1 create name=mute size=1GiB node=host2 node=host3
	v 1 publish name=mute to=host1
	attach 1 mute
	fill "$C/host1/mnt/mute"
	node_silent 3
	v 2 unpublish name=mute to=host1
	same "$(publications mute)" ""
	status mute | grep -q "reason=NodeSilent"
	node_back 3
	# The node serves the old epoch again, until the next attach.
	v 2 publish name=mute to=host2
	attach 2 mute
	check "$C/host2/mnt/mute"
	fails any "" dd if=/dev/urandom of="$C/host1/mnt/mute/late" bs=1M count=4 conv=fsync
	v 1 detach name=mute
	v 2 detach name=mute
	v 2 unpublish name=mute
	v 2 delete name=mute
	nothing_left
}

test_a_live_node_with_its_own_extent_is_not_cut_off() {
	volume live
	v 1 create name=live size=1GiB node=host1 node=host3
	v 1 publish name=live to=host1
	attach 1 live
	fill "$C/host1/mnt/live"
	fails 1 "node 'host1' is up and itself holds" v 2 unpublish name=live to=host1
	is_whole 1 live
	check "$C/host1/mnt/live"
	# A lost one can be: nobody there writes any more.
	node_silent 1
	v 2 unpublish name=live to=host1
	same "$(publications live)" ""
	node_back 1
	v 1 detach name=live
	v 1 delete name=live
	nothing_left
}

test_publish_and_unpublish_killed_at_every_step_are_finished() {
	volume kp
	prepare() {
		v 1 create name=kp size=1GiB node=host2 node=host3 >/dev/null 2>&1
	}
	settle() {
		if [ $(($1 % 2)) = 0 ]; then
			v 2 publish name=kp to=host1 >/dev/null 2>&1
			attach 1 kp >/dev/null 2>&1
			is_whole 1 kp
			v 1 detach name=kp >/dev/null 2>&1
		fi
		v 2 unpublish name=kp >/dev/null 2>&1
		same "$(publications kp)" ""
	}
	MIN_STEPS=2 kill_at_every 2 publish name=kp to=host1
	v 2 unpublish name=kp
	prepare() {
		v 1 publish name=kp to=host1 >/dev/null 2>&1
		attach 1 kp >/dev/null 2>&1
		[ -f "$C/host1/mnt/kp/sums" ] || fill "$C/host1/mnt/kp"
	}
	settle() {
		if [ $(($1 % 2)) = 0 ]; then
			# The node lives, and takes it again although cut off.
			v 1 publish name=kp to=host1 >/dev/null 2>&1
			attach 1 kp >/dev/null 2>&1
			is_whole 1 kp
			check "$C/host1/mnt/kp"
		fi
		v 2 unpublish name=kp >/dev/null 2>&1
		same "$(publications kp)" ""
		attach 3 kp
		is_whole 3 kp
		check "$C/host3/mnt/kp"
		v 3 detach name=kp >/dev/null 2>&1
		v 1 detach name=kp >/dev/null 2>&1
	}
	kill_at_every 2 unpublish name=kp to=host1
	v 1 detach name=kp
	v 1 delete name=kp
	nothing_left
}

test_a_block_volume_lives_moves_and_grows() {
	volume raw
	fails 1 "a direct volume lies in one pool" v 1 create name=raw size=1GiB layout=direct
	v 1 create name=raw size=128MiB layout=linear node=host2
	fails 1 "ENOENT" v 1 device name=raw
	fails 1 "no mount point" attach 1 raw
	fails 1 "no mount options" v 1 attach name=raw options=noatime
	v 1 attach name=raw
	v 1 attach name=raw
	status raw | grep -q 'state=ok record=Ready .*device=/dev/'
	! status raw | grep condition= || fail "a condition"
	local device sum
	device=$(v 1 device name=raw)
	[ -b "$device" ]
	same "$(blockdev --getsize64 "$device")" $((128 << 20))
	fails 1 "attached on node 'host1'" v 2 attach name=raw
	head -c 3000000 /dev/urandom >"$TEST_DIR/bytes"
	dd if="$TEST_DIR/bytes" of="$device" bs=1M conv=fsync,notrunc 2>/dev/null
	# The device grows while it is open, also by a resize on another host.
	exec 7<"$device"
	v 1 resize name=raw size=192MiB >/dev/null
	same "$(blockdev --getsize64 "$device")" $((192 << 20))
	same "$(v 2 resize name=raw size=256MiB)" "capacity=268435456 behind=1"
	same "$(v 1 resize name=raw size=256MiB)" "capacity=268435456 behind=0"
	same "$(blockdev --getsize64 "$device")" $((256 << 20))
	fails 1 "EBUSY" v 1 detach name=raw
	exec 7<&-
	status raw | grep -q 'on=host1 Attached'
	v 1 detach name=raw
	# On its own node, by a loop device over the extent itself.
	v 2 publish name=raw to=host2
	v 2 attach name=raw
	device=$(v 2 device name=raw)
	cmp -n 3000000 "$device" "$TEST_DIR/bytes"
	fails 1 "itself holds split" v 1 unpublish name=raw
	v 2 detach name=raw
	v 1 unpublish name=raw
	# For reading only, and cut off while it is open.
	v 1 publish name=raw to=host3 read_only=1
	v 3 attach name=raw
	device=$(v 3 device name=raw)
	fails any "" dd if=/dev/zero of="$device" bs=4k count=1 conv=fsync
	exec 7<"$device"
	v 1 unpublish name=raw
	fails any "" dd if="$device" of=/dev/null bs=1M iflag=direct
	v 1 attach name=raw
	fails 1 "EBUSY" v 3 detach name=raw
	exec 7<&-
	v 3 detach name=raw
	cmp -n 3000000 "$(v 1 device name=raw)" "$TEST_DIR/bytes"
	v 1 detach name=raw
	v 1 delete name=raw
	nothing_left
}

# Three hosts with 640 MiB each: one device of 1 GiB and more.
test_a_device_larger_than_any_node() {
	volume wide
	v 1 create name=wide size=1GiB layout=linear
	same "$(status wide | count split=)" 2
	v 1 attach name=wide
	local device
	device=$(v 1 device name=wide)
	same "$(blockdev --getsize64 "$device")" $((1 << 30))
	status wide | grep -c 'state=ok record=Ready .*device=/dev/' | grep -qx 2
	! status wide | grep condition= || fail "a condition"
	fio --name=v --filename="$device" --direct=1 --ioengine=libaio --iodepth=16 \
		--rw=randwrite --bsrange=4k-512k --size=100% --io_size=64M \
		--verify=crc32c --do_verify=1 --randseed=7 --verify_state_save=0 \
		>"$TEST_DIR/fio.out" 2>&1 || fail "$(cat "$TEST_DIR/fio.out")"
	mkfs.xfs -q "$device"
	mkdir -p "$TEST_DIR/mnt"
	mount "$device" "$TEST_DIR/mnt"
	at_exit umount "$TEST_DIR/mnt"
	# One file that no node could hold.
	fallocate -l 900M "$TEST_DIR/mnt/large"
	head -c 3000000 /dev/urandom >"$TEST_DIR/mnt/bytes"
	cp "$TEST_DIR/mnt/bytes" "$TEST_DIR/bytes"
	sync -f "$TEST_DIR/mnt"
	# A host that is cut off writes no more, whichever extent it is.
	fails 1 "EBUSY" v 1 detach name=wide
	# The device grows while its file system is mounted, by a third extent.
	same "$(v 1 resize name=wide size=1536MiB)" "capacity=1610612736 behind=0"
	same "$(status wide | count split=)" 3
	same "$(blockdev --getsize64 "$device")" $((1536 << 20))
	xfs_growfs "$TEST_DIR/mnt" >/dev/null
	fallocate -l 400M "$TEST_DIR/mnt/more"
	fails 1 "asked for" v 1 resize name=wide size=3GiB
	umount "$TEST_DIR/mnt"
	# Elsewhere, and by a snapshot of one instant.
	v 1 detach name=wide
	v 2 attach name=wide
	device=$(v 2 device name=wide)
	mount -o ro,norecovery "$device" "$TEST_DIR/mnt"
	cmp "$TEST_DIR/bytes" "$TEST_DIR/mnt/bytes"
	umount "$TEST_DIR/mnt"
	# A repeated attach is one, and a lost node is named.
	v 2 attach name=wide
	same "$(v 2 device name=wide)" "$device"
	v 1 attach name=wide force=1
	fails any "" dd if="$device" of=/dev/null bs=1M skip=1000 count=1 iflag=direct
	fails any "" dd if="$device" of=/dev/null bs=1M count=1 iflag=direct
	v 2 detach name=wide
	v 1 detach name=wide
	v 1 delete name=wide
	nothing_left
}

test_a_striped_device() {
	local device i
	volume raid
	fails 1 "needs as many pools" v 1 create name=raid size=256MiB layout=stripe width=4
	fails 1 "power of two" v 1 create name=raid size=256MiB layout=stripe unit=5KiB
	fails 1 "not 'stripe'" v 1 create name=raid size=256MiB width=2
	v 1 create name=raid size=192MiB layout=stripe width=3 unit=64KiB
	v 1 create name=raid size=192MiB layout=stripe width=3 unit=64KiB
	fails 1 "EEXIST" v 1 create name=raid size=192MiB layout=stripe width=3 unit=128KiB
	v 1 attach name=raid
	device=$(v 1 device name=raid)
	same "$(blockdev --getsize64 "$device")" $((192 << 20))
	head -c 3M /dev/urandom >"$TEST_DIR/bytes"
	dd if="$TEST_DIR/bytes" of="$device" bs=1M oflag=direct conv=notrunc,fsync status=none
	# As device mapper has it: unit n is in extent n mod 3.
	for ((i = 0; i < 48; i++)); do
		cmp -n 65536 -i $((i * 65536)):$((i / 3 * 65536)) "$TEST_DIR/bytes" \
			"$(ls "$C"/host?/pool/extents/raid-$((i % 3)).data)"
	done
	# By another set of three behind it, of 64 MiB at least.
	same "$(v 1 resize name=raid size=200MiB)" "capacity=402653184 behind=0"
	same "$(status raid | count split=)" 6
	same "$(blockdev --getsize64 "$device")" $((384 << 20))
	dd if="$TEST_DIR/bytes" of="$device" bs=1M seek=300 oflag=direct conv=notrunc,fsync status=none
	v 1 detach name=raid
	v 3 attach name=raid
	device=$(v 3 device name=raid)
	dd if="$device" bs=1M count=3 iflag=direct status=none | cmp - "$TEST_DIR/bytes"
	dd if="$device" bs=1M skip=300 count=3 iflag=direct status=none | cmp - "$TEST_DIR/bytes"
	v 3 detach name=raid
	# The record can be made anew of its extents.
	v 1 delete name=raid
	nothing_left
}

test_a_device_whose_extent_waits_has_it_at_the_next_attach() {
	local device
	volume later
	v 1 create name=later size=576MiB layout=linear node=host1 node=host2
	same "$(status later | count split=)" 1
	# On its own host, by a loop device, which takes no other extent.
	for host in 1 2; do
		[ -e "$C/host$host/pool/extents/later-0.data" ] && break
	done
	v $host attach name=later
	device=$(v $host device name=later)
	fails 1 "join at the next attach" v $host resize name=later size=1GiB
	same "$(blockdev --getsize64 "$device")" $((576 << 20))
	v $host attach name=later
	same "$(v $host device name=later)" "$device"
	status later $host | grep -q 'split=1 .*state=detached'
	v $host detach name=later
	v $host attach name=later
	same "$(blockdev --getsize64 "$(v $host device name=later)")" $((1 << 30))
	! status later $host | grep condition= || fail "a condition"
	v $host detach name=later
	v 1 delete name=later
	nothing_left
}

test_a_block_volume_killed_at_every_step_is_finished_or_undone() {
	volume kb
	# Of two extents, on two hosts.
	prepare() { v 1 create name=kb size=128MiB layout=linear min=2 node=host2 node=host3 >/dev/null 2>&1; }
	settle() {
		if [ $(($1 % 2)) = 0 ]; then
			v 1 attach name=kb >/dev/null 2>&1
			[ -b "$(v 1 device name=kb)" ]
			status kb | grep -q 'state=ok record=Ready'
		fi
		v 1 detach name=kb >/dev/null 2>&1
		v 1 delete name=kb >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 attach name=kb
	prepare() {
		v 1 create name=kb size=128MiB layout=linear min=2 node=host2 node=host3 >/dev/null 2>&1
		v 1 attach name=kb >/dev/null 2>&1
	}
	kill_at_every 1 detach name=kb
	v 1 delete name=kb
	nothing_left
}

readers() { # NAME HOST...: publish to each as a reader
	local name=$1 i
	shift
	for i in "$@"; do
		v 1 publish "name=$name" "to=host$i" read_only=1 shared=1
	done
}
# What the extents of $1 say of their export: "EPOCH ACTIVE READ-ONLY"
exports_of() {
	local e
	for e in $(status "$1" | sed -n 's/^split=\([0-9]*\) node=\([^ ]*\) .*/\2\/'"$1"'-\1/p'); do
		on 1 trib extent show "$e" --json | tr -d ' \n' |
			sed 's/.*"epoch":\([0-9]*\),"active":\([a-z]*\),"readOnly":\([a-z]*\).*/\1 \2 \3/'
		echo
	done | sort -u
}
# The start of the process that serves each device of volume $1 on host $2:
# a connection that was dropped and made anew would show.
servers() { processes | grep -F "$C/host$2/run" | grep trib-nbd | awk '{print $1}' | sort | tr '\n' ' '; }

test_several_nodes_read_at_one_epoch() {
	volume many
	# Splits on two of the readers: each has one of its own.
	v 1 create name=many size=1GiB node=host1 node=host2
	v 3 publish name=many to=host3
	attach 3 many
	fill "$C/host3/mnt/many"
	fails 1 "EBUSY" v 1 publish name=many to=host1 read_only=1 shared=1
	v 3 detach name=many
	v 3 unpublish name=many
	readers many 1 2 3
	attach 1 many
	is_whole 1 many
	same "$(exports_of many)" "2 true true"
	same "$(publications many)" "host1 Attached @2 published read-only shared note=
host2 Published @0 published read-only shared note=
host3 Published @0 published read-only shared note="
	local pids
	pids=$(servers many 1)
	exec 7<"$C/host1/mnt/many/d/8"
	attach 2 many
	attach 3 many
	for i in 1 2 3; do
		is_whole $i many
		check "$C/host$i/mnt/many"
		fails any "Read-only" touch "$C/host$i/mnt/many/new"
	done
	# The first one noticed nothing: same epoch, same connections.
	same "$(exports_of many)" "2 true true"
	same "$(servers many 1)" "$pids"
	cat <&7 >/dev/null
	exec 7<&-
	# A writer is kept out as long as they read.
	fails 1 "EEXIST" v 1 publish name=many to=host2
	fails 1 "EEXIST" v 1 publish name=many to=host1 read_only=1
	fails 1 "EBUSY" v 1 delete name=many
	# One goes; the others read on, and their exports name it no more.
	v 1 detach name=many
	echo 3 >/proc/sys/vm/drop_caches
	check "$C/host2/mnt/many"
	check "$C/host3/mnt/many"
	same "$(exports_of many)" "2 true true"
	on 1 trib extent show host2/many-1 --json >"$TEST_DIR/export"
	! grep -q '"10.77.0.1"' "$TEST_DIR/export" || fail "$(cat "$TEST_DIR/export")"
	grep -q '"10.77.0.3"' "$TEST_DIR/export" || fail "$(cat "$TEST_DIR/export")"
	# One is lost; the others read on.
	v 1 unpublish name=many to=host3
	check "$C/host2/mnt/many"
	attach 1 many
	is_whole 1 many
	v 3 detach name=many
	fails 1 "EBUSY" v 1 publish name=many to=host3
	fails 1 "EBUSY" v 1 publish name=many to=host3 read_only=1
	fails 1 "EBUSY" attach 3 many
	fails 1 "itself holds split" attach 3 many force=1
	same "$(exports_of many)" "2 true true"
	v 1 detach name=many
	v 2 detach name=many
	same "$(exports_of many)" "2 false true"
	v 1 unpublish name=many
	# And readers are, as long as one writes.
	v 3 publish name=many to=host3
	attach 3 many
	check "$C/host3/mnt/many"
	fails 1 "EBUSY" v 1 publish name=many to=host1 read_only=1 shared=1
	v 3 detach name=many
	v 3 unpublish name=many
	v 3 delete name=many
	nothing_left
}

test_the_first_reader_prepares_what_was_never_formatted() {
	local fs
	for fs in ext4 xfs; do
		volume blank
		v 1 create name=blank size=700MiB fs=$fs node=host2 node=host3 min=2
		readers blank 1 2
		attach 1 blank
		is_whole 1 blank
		same "$(exports_of blank)" "1 true true"
		# The hosts share a kernel, which mounts no XFS twice.
		if [ $fs = ext4 ]; then
			attach 2 blank
			is_whole 2 blank
			is_whole 1 blank
		fi
		v 1 detach name=blank
		v 2 detach name=blank
		v 2 unpublish name=blank
		v 2 delete name=blank
		nothing_left
	done
}

# A split of $1, on host2, that the kernel does not mount as it is.
has_a_journal() {
	local device rc=0
	device=$(losetup -r -f --show "$C/host2/pool/extents/$1-0.data")
	mkdir -p "$TEST_DIR/journal"
	mount -o ro "$device" "$TEST_DIR/journal" 2>"$TEST_DIR/refused" || rc=$?
	[ $rc != 0 ] || umount "$TEST_DIR/journal"
	losetup -d "$device"
	[ $rc != 0 ]
}

test_the_first_reader_replays_a_journal() {
	local fs
	for fs in ext4 xfs; do
		volume dirty
		v 1 create name=dirty size=700MiB fs=$fs node=host2 node=host3 min=2
		v 1 publish name=dirty to=host1
		attach 1 dirty
		fill "$C/host1/mnt/dirty"
		# As after a crash: the journals hold what was written.
		v 2 unpublish name=dirty
		v 1 detach name=dirty
		has_a_journal dirty || fail "nothing to be replayed"
		readers dirty 2 3
		attach 2 dirty
		is_whole 2 dirty
		check "$C/host2/mnt/dirty"
		if [ $fs = ext4 ]; then
			attach 3 dirty
			check "$C/host3/mnt/dirty"
			is_whole 2 dirty
		fi
		v 2 detach name=dirty
		v 3 detach name=dirty
		v 2 unpublish name=dirty
		v 2 delete name=dirty
		nothing_left
	done
}

test_readers_killed_at_every_step_are_finished_or_undone() {
	volume kr
	prepare() {
		v 1 create name=kr size=700MiB node=host2 node=host3 min=2 >/dev/null 2>&1
		readers kr 1 2 >/dev/null 2>&1
	}
	# The first is killed: it goes on, or another becomes the first. One that
	# finds some of it formatted reads that; which is first differs.
	settle() {
		attach 2 kr >/dev/null 2>&1
		is_readable 2 kr
		if [ $(($1 % 2)) = 0 ]; then
			attach 1 kr >/dev/null 2>&1
			is_readable 1 kr
			is_readable 2 kr
		fi
		v 1 detach name=kr >/dev/null 2>&1
		is_readable 2 kr
		v 2 detach name=kr >/dev/null 2>&1
		v 2 unpublish name=kr >/dev/null 2>&1
		v 1 delete name=kr >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 attach name=kr read_only=1 "path=$(mnt 1 kr)"
	v 1 detach name=kr
	# The second is killed, coming and going: the first is not disturbed.
	attach 2 kr
	local pids
	pids=$(servers kr 2)
	prepare() { :; }
	settle() {
		is_readable 2 kr
		same "$(servers kr 2)" "$pids"
		[ $(($1 % 2)) = 0 ] || attach 1 kr >/dev/null 2>&1
		v 1 detach name=kr >/dev/null 2>&1
		same "$(servers kr 2)" "$pids"
	}
	kill_at_every 1 attach name=kr read_only=1 "path=$(mnt 1 kr)"
	prepare() { attach 1 kr >/dev/null 2>&1; }
	kill_at_every 1 detach name=kr
	is_readable 2 kr
	v 2 detach name=kr
	v 2 unpublish name=kr
	v 1 delete name=kr
	nothing_left
}

# mounted_with VOLUME OPTION: the union on host1 and each of its branches
mounted_with() {
	local target n=0
	for target in "$C/host1/mnt/$1" "$C/host1/run/volumes/$1"/branch-*; do
		findmnt -no OPTIONS "$target" | tr , '\n' | grep -qx "$2" ||
			fail "$target: $(findmnt -no OPTIONS "$target")"
		n=$((n + 1))
	done
	[ $n -gt 1 ]
}

test_mount_options_hold_on_every_branch_and_after_a_repair() {
	volume opt
	v 1 create name=opt size=1GiB
	fails 1 "EINVAL: attach volume 'opt': the mount option 'noload'" attach 1 opt options=noatime,noload
	fails 1 "'commit=x' needs a whole number" attach 1 opt options=commit=x
	attach 1 opt options=noatime,nosuid,noexec,commit=7,discard
	is_whole 1 opt
	mounted_with opt noatime
	mounted_with opt nosuid
	mounted_with opt noexec
	findmnt -no OPTIONS "$C/host1/run/volumes/opt/branch-0" | grep -q 'discard.*commit=7\|commit=7.*discard'
	cp /bin/true "$C/host1/mnt/opt/true"
	fails any "ermission denied" "$C/host1/mnt/opt/true"
	fails 1 "with the mount options 'noatime,nosuid" attach 1 opt options=noatime
	attach 1 opt
	# A dead device takes everything down: it comes back as it was.
	union_kill "$C/host1/mnt/opt"
	umount -l "$C/host1/run/volumes/opt/branch-1"
	attach 1 opt
	is_whole 1 opt
	mounted_with opt noatime
	mounted_with opt noexec
	v 1 detach name=opt
	attach 1 opt
	"$C/host1/mnt/opt/true"
	v 1 detach name=opt
	v 1 delete name=opt
	nothing_left
}

# Without SELinux the kernel refuses it; what it was asked for shows all the same.
test_a_security_label_reaches_every_branch_and_the_union() {
	volume label
	local label='context="system_u:object_r:container_file_t:s0:c1,c2"' argv n
	v 1 create name=label size=1500MiB
	_volume_argv 1
	strace -qq -f -s 400 -o "$TEST_DIR/calls" -e trace=mount -- "${argv[@]}" attach \
		name=label "path=$(mnt 1 label)" "options=nodev,$label" || true
	v 1 detach name=label
	n=$(grep -c 'branch-[012]", "ext4", MS_NODEV, "context=\\"system_u:object_r:container_file_t:s0:c1,c2\\""' "$TEST_DIR/calls")
	same "$n" 3 "$(cat "$TEST_DIR/calls")"
	mkdir -p "$TEST_DIR/branch" "$TEST_DIR/union"
	strace -qq -f -s 400 -o "$TEST_DIR/calls" -e trace=mount -- \
		"$BUILD/bin/trib-union" -f -o "nodev,$label" "$TEST_DIR/branch" "$TEST_DIR/union" &
	n=$!
	at_exit umount -l "$TEST_DIR/union"
	eventually 30 grep -q 'fuse.trib-union", .*,context=\\"system_u:object_r:container_file_t:s0:c1,c2\\"' \
		"$TEST_DIR/calls"
	pkill -INT -P $n || true
	wait $n || true
	v 1 delete name=label
	nothing_left
}

run_tests "$@"
