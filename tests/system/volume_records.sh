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
			fails 1 "does not know of" attach 2 res
			fails 1 "does not know of" attach 3 res
		done
		same "$(epoch res)" "$n"
		same "$(blockdev --getsize64 "$device")" $((200 << 20))
		# Who is told to takes it at once, and the rescue's end takes
		# nothing away from it.
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
	# Who was cut off cannot come back by its own records, at any number.
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

# What is between the claim and the end of an attach, undone or gone on with.
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

run_tests "$@"
