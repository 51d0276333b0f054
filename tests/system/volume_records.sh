#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Records that are older than the extents, or not all there is, on three hosts:
# who may take an extent, what is formatted.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"

# old HOST COMMAND KEY=VALUE...: a flow as that host, with the records of save
old() {
	local argv
	_volume_argv "$1"
	argv[3]=local:$C/old.db
	"${argv[@]}" "${@:2}"
}
save() {
	rm -f "$C"/old.db*
	sqlite3 "$C/records.db" ".backup $C/old.db"
	at_exit rm -f "$C"/old.db*
}
# epoch VOLUME: the number in its record
epoch() { sqlite3 "${2:-$C/records.db}" "SELECT json_extract(json, '\$.status.epoch')
	FROM objects WHERE name = '$1'"; }
put() { # HOST VOLUME FILE: a file that is there when this returns
	head -c 3M /dev/urandom >"$C/host$1/mnt/$2/$3"
	sync "$C/host$1/mnt/$2/$3"
}

test_a_rescue_and_a_mount_never_both_have_an_extent() {
	volume res
	v 1 create name=res size=200MiB node=host1
	attach 2 res
	fill "$C/host2/mnt/res"
	v 2 detach name=res
	local device how n
	for how in "" --read-only; do
		device=$(on 2 trib attach host1/res-0 --force $how 2>/dev/null)
		at_exit on 2 trib detach host1/res-0
		n=$(epoch res)
		# As often as it is tried, from wherever, and nothing is changed.
		for _ in 1 2 3; do
			fails 1 "does not have" attach 2 res
			fails 1 "does not have" attach 3 res
		done
		same "$(epoch res)" "$n"
		same "$(blockdev --getsize64 "$device")" $((200 << 20))
		# A forced attach takes the volume at once, and the rescue's end
		# takes nothing away from it.
		attach 3 res force=1
		on 2 trib detach host1/res-0
		is_whole 3 res
		check "$C/host3/mnt/res"
		put 3 res new
		v 3 detach name=res
	done
	# A rescue that has ended is in nobody's way.
	on 2 trib attach host1/res-0 --force >/dev/null 2>&1
	on 2 trib detach host1/res-0
	attach 2 res
	check "$C/host2/mnt/res"
	v 2 detach name=res
	v 1 delete name=res
	nothing_left
}

test_a_rescue_on_the_extents_own_node_is_found() {
	volume own
	v 1 create name=own size=200MiB node=host1
	attach 1 own
	v 1 detach name=own
	on 1 trib attach host1/own-0 --force --read-only >/dev/null 2>&1
	at_exit on 1 trib detach host1/own-0
	local n
	n=$(epoch own)
	fails 1 "itself holds split 0" attach 1 own
	fails 1 "itself holds split 0" attach 2 own
	fails 1 "itself holds split 0" attach 2 own force=1
	same "$(epoch own)" "$n"
	on 1 trib detach host1/own-0
	attach 1 own
	is_whole 1 own
	fails any "itself holds extent" on 2 trib attach host1/own-0 --force
	v 1 detach name=own
	v 1 delete name=own
	nothing_left
}

test_records_from_a_backup_take_nothing_from_whoever_is_at_work() {
	volume bak
	v 1 create name=bak size=1GiB min=2
	attach 2 bak
	v 2 detach name=bak
	save
	# Some epochs later, it is in use.
	for _ in 1 2; do
		attach 1 bak
		v 1 detach name=bak
	done
	attach 2 bak
	fill "$C/host2/mnt/bak"
	local n
	n=$(epoch bak)
	for _ in 1 2 3 4 5; do
		fails 1 "EBUSY" old 3 attach name=bak path="$(mnt 3 bak)"
		old 3 detach name=bak
	done
	same "$(epoch bak "$C/old.db")" 1
	old 3 publish name=bak to=host3
	fails 1 "EBUSY" old 3 attach name=bak path="$(mnt 3 bak)"
	old 3 unpublish name=bak
	fails 1 "EBUSY" old 3 delete name=bak
	# Where it is mounted itself, by another record of the same volume.
	mkdir -p "$C/host2/mnt/bak2"
	fails 1 "EBUSY" old 2 attach name=bak path="$C/host2/mnt/bak2"
	is_whole 2 bak
	put 2 bak still
	check "$C/host2/mnt/bak"
	same "$(epoch bak)" "$n"
	v 2 detach name=bak
	v 1 delete name=bak
	nothing_left
}

test_with_force_old_records_go_above_at_once() {
	volume abv
	v 1 create name=abv size=200MiB node=host1
	save
	for _ in 1 2 3; do
		attach 2 abv
		v 2 detach name=abv
	done
	attach 2 abv
	fill "$C/host2/mnt/abv"
	old 3 attach name=abv path="$(mnt 3 abv)" force=1
	same "$(epoch abv "$C/old.db")" 5
	check "$C/host3/mnt/abv"
	# A node that was cut off cannot come back by its own records, at any epoch.
	v 2 detach name=abv force=1
	for _ in 1 2 3; do
		fails 1 "EBUSY" attach 2 abv
	done
	check "$C/host3/mnt/abv"
	old 3 detach name=abv
	attach 2 abv
	check "$C/host2/mnt/abv"
	v 2 detach name=abv
	v 1 delete name=abv
	nothing_left
}

# Every step between the claim and the end of an attach is undone or gone on with.
test_a_claim_that_was_cut_short_is_gone_on_with_or_given_up() {
	volume cut
	v 1 create name=cut size=1GiB min=2
	local n steps
	attach 2 cut 2>"$TEST_DIR/steps"
	steps=$(wc -l <"$TEST_DIR/steps")
	v 2 detach name=cut
	for ((n = 1; n <= steps; n++)); do
		fails any "" attach 2 cut "kill=$n"
		if ((n % 2)); then
			attach 2 cut
		else
			v 2 detach name=cut force=1
			attach 3 cut
			v 3 detach name=cut
			attach 2 cut
		fi
		is_whole 2 cut
		v 2 detach name=cut
	done
	v 1 delete name=cut
	nothing_left
}

test_what_a_record_says_of_formatting_formats_nothing() {
	volume fmt
	local fs state
	for fs in ext4 xfs; do
		v 1 create name=fmt size=320MiB fs=$fs node=host1
		attach 1 fmt
		fill "$C/host1/mnt/fmt"
		v 1 detach name=fmt
		for state in Formatting Created; do
			sqlite3 "$C/records.db" "UPDATE objects SET json =
				replace(json, '\"state\":\"Ready\"', '\"state\":\"$state\"')
				WHERE name = 'fmt'"
			attach 2 fmt
			check "$C/host2/mnt/fmt"
			v 2 detach name=fmt
		done
		v 1 delete name=fmt
	done
	# Nor is anything else that is there.
	v 1 create name=fmt size=320MiB node=host1
	sqlite3 "$C/records.db" "UPDATE objects SET json =
		replace(json, '\"state\":\"Created\"', '\"state\":\"Formatting\"')
		WHERE name = 'fmt'"
	local file=$C/host1/pool/extents/fmt-0.data sum
	mkfs.xfs -q -f "$file"
	sum=$(sha256sum <"$file")
	fails 1 "holds xfs" attach 1 fmt
	same "$(sha256sum <"$file")" "$sum"
	v 1 delete name=fmt
	nothing_left
}

# Data that nothing is known of: a file system whose superblock is lost, a table
# of partitions at the end only, what a program wrote to the device.
test_what_was_written_to_is_not_formatted_as_if_it_was_blank() {
	volume wrt
	local what file=$C/host1/pool/extents/wrt-0.data sum how
	for what in "seek=0 if=/dev/zero" "seek=60 if=/dev/urandom" "seek=199 if=/dev/urandom"; do
		v 1 create name=wrt size=200MiB node=host1
		save
		attach 1 wrt
		fill "$C/host1/mnt/wrt"
		v 1 detach name=wrt
		if [ "$what" != "seek=0 if=/dev/zero" ]; then blkdiscard_file "$file"; fi
		dd of="$file" bs=1M count=1 conv=notrunc status=none $what
		[ "$what" != "seek=0 if=/dev/zero" ] || blkid -p "$file" || same $? 2
		sum=$(sha256sum <"$file")
		for _ in 1 2; do
			fails 1 "was written to, whatever it is; it was not touched" \
				old 1 attach name=wrt path="$(mnt 1 wrt)" force=1
			same "$(sha256sum <"$file")" "$sum"
			old 1 detach name=wrt
		done
		# A person who says that the data may be lost gets the extent empty.
		how=$(old 1 attach name=wrt path="$C/host1/mnt/wrt" force=1 2>&1 |
			grep -o 'blkdiscard -f "$(trib attach --force host1/wrt-0)"')
		at_exit on 1 trib detach host1/wrt-0
		on 1 bash -c "$how" 2>/dev/null
		on 1 trib detach host1/wrt-0
		old 1 attach name=wrt path="$C/host1/mnt/wrt" force=1
		same "$(ls "$C/host1/mnt/wrt")" ""
		old 1 detach name=wrt
		old 1 delete name=wrt
		forget wrt
	done
	nothing_left
}
blkdiscard_file() { fallocate -p -o 0 -l "$(stat -c %s "$1")" "$1"; }

# No advice to delete what was written to.
no_advice() { ! grep -q "delete --force" <<<"$1" || fail "$1"; }
forget() { sqlite3 "$C/records.db" "DELETE FROM objects WHERE name = '$1'"; }

test_a_record_is_made_anew_of_the_extents_alone() {
	volume rec
	v 1 create name=rec size=1200MiB min=3 policy=mfs
	attach 2 rec
	fill "$C/host2/mnt/rec"
	v 2 detach name=rec
	local before said n
	before=$(status rec | grep -o '^split=[0-9]* node=host[0-9] ')
	n=$(epoch rec)
	forget rec
	said=$(on 1 trib volume orphans)
	same "$(grep -c 'no extent here has a record: .*trib volume recover rec' <<<"$said")" 3
	no_advice "$said"
	fails 1 ENOENT v 1 recover name=nothing
	# With a node away it is not made of the rest.
	node_silent 3
	fails 1 "EHOSTUNREACH" v 1 recover name=rec
	node_back 3
	fails 1 ENOENT v 1 status name=rec
	for step in 1 2; do
		fails any "" v 1 recover name=rec "kill=$step"
		fails 1 ENOENT v 1 status name=rec
	done
	fails any "" v 1 recover name=rec kill=3
	v 2 recover name=rec
	v 2 recover name=rec
	same "$(status rec | grep -o '^split=[0-9]* node=host[0-9] ')" "$before"
	same "$(epoch rec)" "$n"
	status rec | grep -q 'phase=Ready'
	attach 3 rec
	check "$C/host3/mnt/rec"
	put 3 rec more
	fails any "looks for it" on 1 trib extent delete --force host1/rec-0
	v 3 detach name=rec
	fails any "looks for it" on 1 trib extent delete --force "$(on 1 trib volume show rec |
		awk '/^ *0 /{sub("/main", "", $2); print $2}')/rec-0"
	v 1 resize name=rec size=1500MiB
	attach 2 rec
	check "$C/host2/mnt/rec"
	v 2 detach name=rec
	v 1 delete name=rec
	nothing_left
}

test_a_block_volume_and_one_never_written_to_are_recovered_too() {
	volume raw
	volume new
	v 1 create name=raw size=128MiB layout=stripe width=2 unit=64KiB
	v 1 create name=new size=320MiB fs=xfs
	local device
	v 2 attach name=raw
	device=$(v 2 device name=raw)
	# In the second unit: of the second extent.
	printf precious | dd of="$device" bs=64k seek=1 conv=fsync status=none
	v 2 detach name=raw
	forget raw
	forget new
	v 1 recover name=raw
	v 1 recover name=new
	v 3 attach name=raw
	same "$(tail -c +65537 "$(v 3 device name=raw)" | head -c 8)" precious
	v 3 detach name=raw
	attach 1 new
	same "$(findmnt -rno FSTYPE "$C/host1/run/volumes/new/branch-0")" xfs
	v 1 detach name=new
	v 1 delete name=raw
	v 1 delete name=new
	nothing_left
}

test_what_is_mounted_while_its_record_is_lost_stays_its_own() {
	volume live
	v 1 create name=live size=1GiB min=2
	attach 2 live
	fill "$C/host2/mnt/live"
	forget live
	v 1 recover name=live
	local n
	for n in 1 2 3; do
		fails 1 EBUSY attach 3 live
		fails 1 EBUSY v 3 delete name=live
		same "$(status live | grep -c phase=Ready)" 1
	done
	check "$C/host2/mnt/live"
	put 2 live still
	v 2 detach name=live
	attach 3 live force=1
	check "$C/host3/mnt/live"
	v 3 detach name=live
	v 1 delete name=live
	nothing_left
}

test_a_record_from_before_a_volume_grew_gets_what_it_lacks() {
	volume gro
	v 1 create name=gro size=500MiB
	attach 2 gro
	v 2 detach name=gro
	save
	v 1 resize name=gro size=1100MiB
	attach 2 gro
	fill "$C/host2/mnt/gro"
	v 2 detach name=gro
	local said
	sed "s#records.db#old.db#" "$C/host1/trib.conf" >"$C/old.conf"
	said=$(on 1 env TRIB_CONFIG="$C/old.conf" trib volume orphans)
	grep -q "volume 'gro' does not have it, but it was written to.*recover gro" <<<"$said"
	no_advice "$said"
	old 1 recover name=gro
	old 3 attach name=gro path="$(mnt 3 gro)"
	check "$C/host3/mnt/gro"
	old 3 detach name=gro
	old 1 delete name=gro
	forget gro
	nothing_left
}

test_extents_that_are_elsewhere_are_found_and_looked_for_there() {
	volume far
	mkdir "$C/far"
	on 1 trib pool create host1/far "$C/far" --quiet
	on 1 trib volume create far --size 200MiB --in-pool far --quiet
	attach 3 far
	fill "$C/host3/mnt/far"
	v 3 detach name=far
	# The pool goes to another node, as its disk would. As with node_silent.
	blockd_signal 1 TERM
	export TRIB_TEST_CALL_TIMEOUT_MS=4000
	cp -a "$C/far" "$C/moved"
	on 2 trib pool create host2/far "$C/moved" --quiet
	local said
	said=$(on 2 trib volume orphans)
	grep -q "volume 'far' looks for it on node 'host1'; .*recover far" <<<"$said"
	no_advice "$said"
	v 2 recover name=far
	same "$(status far | grep -o '^split=0 node=host2')" "split=0 node=host2"
	attach 3 far
	check "$C/host3/mnt/far"
	# Where it was is back: a copy, which nobody is told to delete.
	node_back 1
	said=$(on 2 trib volume orphans)
	grep -q "^host1 .*looks for it on node 'host2', which has it, too" <<<"$said"
	no_advice "$said"
	v 3 detach name=far
	fails 1 "both have split 0" v 2 recover name=far
	v 1 delete name=far
	# The extent that is left is a copy of something that was written to.
	no_advice "$(on 2 trib volume orphans)"
	on 1 trib extent delete --force host1/far-0 --quiet
	on 1 trib pool delete host1/far --quiet
	on 2 trib pool delete host2/far --quiet
	nothing_left
}

test_a_node_that_is_lost_for_good_keeps_no_volume() {
	volume gone
	v 1 create name=gone size=1200MiB min=3
	attach 3 gone
	fails any "it is not lost" on 1 trib node remove --lost host3
	blockd_signal 3 KILL
	umount -l "$C/host3/mnt/gone"
	fails any "delete the volume first" on 1 trib node remove host3
	fails 1 "is attached on node 'host3'" v 1 delete name=gone
	on 1 trib node remove --lost --grace 0 host3 --quiet
	same "$(status gone | grep -c attachments=0)" 1
	fails 1 "has lost 1 of 3 splits" attach 1 gone
	v 1 delete name=gone
	# The rest of this machine, and the node anew.
	_blockd_spawn 3
	on 1 trib node add host3 --control "unix:$C/host3/run/blockd.sock" --data 10.77.0.3:10809 --quiet
	eventually 30 on 1 trib pool list host3
	v 3 detach name=gone force=1
	local left
	left=$(on 1 trib volume orphans --json | jq -r '.[].name')
	on 1 trib extent delete --force "host3/$left" --quiet
	nothing_left
}

run_tests "$@"
