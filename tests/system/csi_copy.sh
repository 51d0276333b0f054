#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# CreateVolume from a snapshot and from a volume whose pool is full: the content is
# copied to another host's pool. The driver is killed while it is, and called again.
. "$(dirname "$0")/../lib.sh"
need jq mkfs.xfs
. "$TOP/tests/csi_lib.sh"

host_of() { on 1 trib volume show "$1" --json | jq -r '.record.status.splits[].node'; }
free_of() { on 1 trib pool list "$1" --json | jq '.[0].available / 1048576 | floor'; } # MiB
# The pool of HOST has no more than MIB.
leave_room() { # HOST MIB
	volume "filler-$2"
	on 1 trib volume create "filler-$2" --size "$(($(free_of "$1") - $2))MiB" \
		--layout linear --on "$1" --quiet
}
# Asked again until it is ready, as the snapshotter does; its id is in $SNAP.
snapshot_is_ready() {
	csi 1 Controller/CreateSnapshot "source_volume_id=$1" name=snap >"$TEST_DIR/snap"
	grep -q ready_to_use "$TEST_DIR/snap"
}
snapshot() { # ID
	eventually 60 snapshot_is_ready "$1"
	SNAP=$(sed -n 's/.*snapshot_id="\([^"]*\)".*/\1/p' "$TEST_DIR/snap")
	[ -n "$SNAP" ]
}
copy() { # HOST FIELD
	create "$1" to 300 parameters.fsType=xfs "volume_content_source.$2"
}
# How far the copy is, as a person sees it.
copying() {
	on 1 trib volume show to --json | jq -e '.record.status |
		any(.splits[]; .copying) and
		any(.conditions[]; .reason == "Copying" and
			(.message | test("^copying the content, .* of 300.00 MiB$")))'
}
limit_snapshot() { # BANDWIDTH
	local name
	name=$(on 1 trib extent list --json |
		jq -r '.[] | select(.kind == "snapshot") | .node + "/" + .name')
	on 1 trib extent limit "$name" --bandwidth "$1" >/dev/null
}
# The volume to, of ID, is on another host than FROM, which lent it no room, and has
# what the source had. It goes, and its room with it.
is_copy() { # ID FROM FREE-OF-FROM
	local target host free
	host=$(host_of to)
	[ "$host" != "$2" ] || fail "it is on $2, which has no room"
	same "$(free_of "$2")" "$3" "MiB free in the source's pool"
	free=$(free_of "$host")
	target=$(target 2 to)
	stage 2 to "$1"
	publish 2 to "$1" to
	check "$target"
	unpublish 2 "$1" to
	unstage 2 to "$1"
	delete 1 "$1"
	[ "$(free_of "$host")" -ge $((free + 300)) ]
}

test_a_copy_goes_to_another_pool_where_the_source_has_no_room() {
	local id from to field call free
	cap 1
	volume from
	volume to
	id=$(create 1 from 300 parameters.fsType=xfs parameters.maxExtents=1)
	stage 1 from "$id"
	publish 1 from "$id" a
	fill "$(target 1 a)"
	unpublish 1 "$id" a
	unstage 1 from "$id"
	from=$(host_of from)
	snapshot "$id"
	# Enough for the snapshot that a clone begins with, not for a volume.
	leave_room "$from" 120
	free=$(free_of "$from")

	for field in "snapshot.snapshot_id=$SNAP" "volume.volume_id=$id"; do
		to=$(copy 1 "$field")
		same "$(copy 2 "$field")" "$to" "the same call again"
		is_copy "$to" "$from" "$free"
	done

	# Killed half way: minutes of it are left.
	limit_snapshot 64KiB
	(EXEC=exec; copy 1 "snapshot.snapshot_id=$SNAP") >/dev/null 2>&1 &
	call=$!
	at_exit kill $call
	eventually 60 copying >/dev/null
	driver_signal 1 KILL
	kill $call # it would wait for the next driver
	wait $call || true
	copying >/dev/null
	limit_snapshot none
	# The other driver goes on with it, then the new one finds it done.
	to=$(copy 2 "snapshot.snapshot_id=$SNAP")
	driver_start 1
	same "$(copy 1 "snapshot.snapshot_id=$SNAP")" "$to"
	is_copy "$to" "$from" "$free"

	# A snapshot is taken where its volume is.
	leave_room "$from" 1
	fails 1 "RESOURCE_EXHAUSTED: " copy 1 "volume.volume_id=$id"
	to=$(copy 1 "snapshot.snapshot_id=$SNAP")
	is_copy "$to" "$from" "$(free_of "$from")"

	csi 1 Controller/DeleteSnapshot "snapshot_id=$SNAP"
	for free in 120 1; do on 1 trib volume delete "filler-$free" --quiet; done
	delete 1 "$id"
	nothing_left
}

run_tests "$@"
