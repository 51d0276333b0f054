#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Splits that go to other pools, and nodes that are emptied.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
. "$TOP/tests/writer_lib.sh"
need jq

at() { status "$1" | sed -n "s/^split=$2 node=\([^ ]*\) .*/\1/p"; } # VOLUME SPLIT
extents() { find "$C"/host[123]/pool/extents -name "$1-*.data" | wc -l; }
# A volume of two splits, on host1 and host2, with files.
make_two() { # NAME
	on 1 trib node cordon host3 --quiet
	v 1 create "name=$1" size=300MiB min=2 >/dev/null
	on 1 trib node uncordon host3 --quiet
	attach 3 "$1"
	fill "$(mnt 3 "$1")"
	v 3 detach "name=$1"
}
has_files() { # HOST NAME
	attach "$1" "$2"
	is_whole "$1" "$2"
	check "$(mnt "$1" "$2")"
	v "$1" detach "name=$2"
}

test_a_split_goes_to_another_node_and_back() {
	volume m
	v 1 create name=m size=400MiB min=2
	attach 3 m
	fill "$(mnt 3 m)"
	local from to
	from=$(at m 0)
	fails 1 "attached on node 'host3'" v 1 move name=m split=0
	v 3 detach name=m
	fails 1 "say which, --split" v 1 move name=m
	fails 1 "numbered from 0" v 1 move name=m split=2
	fails 1 "is in pool 'main' of node '$from' already" v 1 move name=m split=0 "to=$from"
	v 1 move name=m split=0 >"$TEST_DIR/out"
	to=$(at m 0)
	[ "$to" != "$from" ] && [ "$to" != "$(at m 1)" ] || fail "it is on $to"
	same "$(extents m)" 2
	has_files 1 m
	# A lost record is made of the extents where they are now.
	v 2 move name=m split=0 "to=$from"
	sqlite3 "$C/records.db" "DELETE FROM objects WHERE kind = 'VolumeSplit' AND name = 'm'"
	v 2 recover name=m
	same "$(at m 0)" "$from"
	has_files 2 m
	v 1 delete name=m
	nothing_left
}

test_every_kind_of_volume_moves_and_only_what_it_has() {
	local layout
	volume k
	for layout in "layout=linear" "layout=stripe width=2" "layout=linear fs=xfs" "layout=direct fs=ext4"; do
		# shellcheck disable=SC2086
		v 1 create name=k size=400MiB $layout >/dev/null
		if [[ $layout = *fs=xfs* ]]; then
			attach 1 k
			fill "$(mnt 1 k)"
		else
			v 1 attach name=k
			head -c 3000000 /dev/urandom >"$TEST_DIR/data"
			dd if="$TEST_DIR/data" of="$(v 1 device name=k)" bs=4k seek=30000 conv=fsync,notrunc status=none
		fi
		v 1 detach name=k
		v 1 move name=k split=0 >/dev/null
		# Holes are none of the copy.
		find "$C"/host[123]/pool/extents -name 'k-*.data' -printf '%b\n' |
			awk '$1 > 200000 {exit 1}' || fail "its holes were copied"
		if [[ $layout = *fs=xfs* ]]; then
			attach 2 k
			check "$(mnt 2 k)"
		else
			v 2 attach name=k
			dd if="$(v 2 device name=k)" bs=4k skip=30000 count=3000000 iflag=count_bytes status=none |
				cmp - "$TEST_DIR/data"
		fi
		v 2 detach name=k
		v 1 delete name=k
		nothing_left
	done
}

# The union of host1 has no branch, device or mount of the other place any more.
only_one_place() { # NAME SPLITS
	same "$(findmnt -rno TARGET | count "$C/host1/run/volumes/$1/")" "$2" "branches"
	same "$(ls "$C"/host1/run/initiator/*.attachment | wc -l)" "$2" "devices"
	same "$(extents "$1")" "$2"
	same "$(v 1 orphans)" "orphans=0 unreachable=0"
}
numbers() { (cd "$(mnt 1 "$1")" && find . ! -name . ! -path './w*' -printf '%i %n %s %p\n' | sort -k 4); }

test_a_split_moves_while_its_union_is_written_to() {
	local i
	volume u
	# XFS grows while it is mounted, whatever a container may not do.
	on 1 trib node cordon host3 --quiet
	v 1 create name=u size=700MiB min=2 fs=xfs >/dev/null
	on 1 trib node uncordon host3 --quiet
	attach 1 u
	fill "$(mnt 1 u)"
	writer_start "$(mnt 1 u)"
	ln "$(mnt 1 u)/sums" "$(mnt 1 u)/link"
	numbers u >"$TEST_DIR/before"
	fails 1 "whose union moves it: run this there" v 2 move name=u split=0
	for i in host3 host1 host3; do
		v 1 move name=u split=0 "to=$i" >"$TEST_DIR/out"
		same "$(at u 0)" "$i"
		only_one_place u 2
		is_whole 1 u
		numbers u | diff "$TEST_DIR/before" -
	done
	# The volume grows, by a branch that gets another number than at the next mount.
	v 1 resize name=u size=1600MiB >/dev/null
	is_whole 1 u
	same "$(grep -c split= <<<"$(status u)")" 3
	# So many that chance leaves out no branch.
	for i in {1..150}; do echo $i >"$(mnt 1 u)/new$i"; done
	[ "$(find "$C/host1/run/volumes/u/branch-2/data" -name 'new*' | wc -l)" -gt 0 ]
	writer_stop "$(mnt 1 u)"
	numbers u >"$TEST_DIR/before"
	v 1 detach name=u
	attach 1 u
	numbers u | diff "$TEST_DIR/before" -
	same "$(sed 's/ .*//' "$TEST_DIR/before" | sort | uniq -d | wc -l)" 1 "only the two links share one"
	check "$(mnt 1 u)"
	(cd "$(mnt 1 u)" && sha256sum --quiet -c w/*.sum)
	v 1 detach name=u
	# A record that is lost is made of the extents, by their new names.
	sqlite3 "$C/records.db" "DELETE FROM objects WHERE kind = 'VolumeSplit' AND name = 'u'"
	v 2 recover name=u
	has_files 3 u
	v 1 delete name=u
	nothing_left
}

branch_mode() { # NAME EXTENT-NUMBER: of its branch, the last one at that path
	"$BUILD/bin/trib-union" --control "$C/host1/run/volumes/$1/control" status |
		jq -r "[.branches[] | select(.path | endswith(\"/branch-$2/data\")) | .mode] | last"
}
is_drained() { [ "$(branch_mode f 0)" != rw ]; }
busy_is() {
	"$BUILD/bin/trib-union" --control "$C/host1/run/volumes/f/control" status |
		jq -e ".branches[0].drain.busy == $1"
}
# One place has the split, whole, and the union goes on: forwards or back.
settle_union() { # N
	if [ $(($1 % 2)) = 0 ]; then
		v 1 move name=ku split=0 to=host3 >/dev/null 2>&1 || [ "$(at ku 0)" = host3 ]
		same "$(at ku 0)" host3
	else
		v 1 unmove name=ku >/dev/null
	fi
	# An extent may be left, which the next call deletes.
	v 1 move name=ku >/dev/null 2>&1 || true
	is_whole 1 ku
	only_one_place ku 2
	check "$(mnt 1 ku)"
}

test_a_move_by_a_union_killed_at_every_step_goes_on_or_comes_back() {
	volume ku
	make_two ku
	attach 1 ku
	numbers ku >"$TEST_DIR/before"
	writer_start "$(mnt 1 ku)"
	prepare() { [ "$(at ku 0)" = host1 ] || v 1 move name=ku split=0 to=host1 >/dev/null 2>&1; }
	settle() {
		local server
		if grep -q phase=Moving <<<"$(status ku)"; then
			fails 1 "being moved" v 3 resize name=ku size=500MiB
			# Its server is killed, too.
			server=$(processes | awk '/--holder-fd/ {print $1}')
			kill -9 $server
			attach 1 ku
		fi
		settle_union "$1"
	}
	MIN_STEPS=4 kill_at_every 1 move name=ku split=0 to=host3
	same "$(at ku 0)" host3
	# The same for a move that is taken back, at each write of its record.
	local n
	for ((n = 1; n < 30; n += 4)); do
		prepare
		v 1 move name=ku split=0 to=host3 kill=6 >/dev/null 2>&1 || true
		killed_at_syscall fdatasync $n 1 unmove name=ku || break
		settle $((n / 4))
	done
	[ $n -gt 4 ] || fail "fdatasync was called $n times only"
	v 1 move name=ku >/dev/null 2>&1 || true
	writer_stop "$(mnt 1 ku)"
	numbers ku | diff "$TEST_DIR/before" -
	v 1 detach name=ku
	has_files 2 ku
	v 1 delete name=ku
	nothing_left
}

test_a_move_by_a_union_meets_a_full_branch_a_file_in_use_and_an_unmount() {
	volume f
	# The other branch has no room either: only the successor takes files.
	on 1 trib node cordon host3 --quiet
	v 1 create name=f size=300MiB min=2 policy=ff >/dev/null
	on 1 trib node uncordon host3 --quiet
	attach 1 f
	head -c 60000000 /dev/urandom >"$(mnt 1 f)/big"
	sha256sum "$(mnt 1 f)/big" >"$TEST_DIR/sum"
	local b=$C/host1/run/volumes/f
	fallocate -l "$(($(df -B1 --output=avail "$b/branch-1" | tail -n 1) - 20000000))" "$b/branch-1/data/fills"
	# A kill comes before the successor is in the union; somebody else fills that.
	v 1 move name=f split=0 to=host3 kill=6 2>/dev/null || true
	fallocate -l "$(($(df -B1 --output=avail "$b/branch-256" | tail -n 1) - 20000000))" "$b/branch-256/data/fills-too"
	fails 5 'cannot move: "big": No space left' on 1 trib volume move f
	status f | grep -q 'condition=Moved reason=Draining'
	# Its branch takes new files again, and all of it can be used.
	same "$(branch_mode f 0)" rw
	echo new >"$(mnt 1 f)/new"
	sha256sum --quiet -c "$TEST_DIR/sum"
	# Half way, the volume is unmounted and mounted: only its union can go on.
	v 1 detach name=f
	fails 1 "mounted nowhere" v 1 move name=f
	fails 1 "mounted nowhere" v 1 unmove name=f
	attach 1 f
	same "$(status f | grep -c 'state=ok .*mounted=1')" 3
	rm "$b/branch-256/data/fills-too"
	# A file that is passed through waits for its user.
	exec 7<"$(mnt 1 f)/big"
	on 1 trib volume move f --bandwidth 500MiB --json >"$TEST_DIR/out" 2>&1 7<&- &
	local mover=$!
	eventually 60 is_drained
	[ "$(getfattr --only-values -n user.union.passthrough "$(mnt 1 f)/.union")" = false ] ||
		eventually 60 busy_is 1
	exec 7<&-
	wait $mover || fail "$(cat "$TEST_DIR/out")"
	same "$(at f 0)" host3
	only_one_place f 2
	sha256sum --quiet -c "$TEST_DIR/sum"
	same "$(cat "$(mnt 1 f)/new")" new
	v 1 detach name=f
	v 1 delete name=f
	nothing_left
}

content() { sha256sum <"$(echo "$C"/host[123]/pool/extents/"$1.data")"; } # EXTENT
# One place has the split, with all of its content, whatever was interrupted.
settle_move() { # N
	local i
	if [ $(($1 % 2)) = 0 ]; then
		v 2 move name=km split=0 >/dev/null 2>&1
	else
		v 2 unmove name=km >/dev/null 2>&1
		# The split moved before the kill: the old extent is left.
		v 2 move name=km split=0 to=host1 >/dev/null 2>&1 || [ "$(at km 0)" = host1 ]
	fi
	! grep -q Moving <<<"$(status km)" || fail "it moves still"
	same "$(extents km)" 2
	same "$(v 1 orphans)" "orphans=0 unreachable=0"
	same "$(content km-0)" "$CONTENT"
}

test_a_move_killed_at_every_step_is_finished_or_taken_back() {
	volume km
	make_two km
	CONTENT=$(content km-0)
	prepare() { [ "$(at km 0)" = host1 ] || v 1 move name=km split=0 to=host1 >/dev/null 2>&1; }
	settle() {
		if grep -q phase=Moving <<<"$(status km)"; then
			fails 1 "being moved" attach 3 km
			fails 1 "being moved" v 3 resize name=km size=500MiB
		fi
		settle_move "$1"
	}
	MIN_STEPS=5 kill_at_every 1 move name=km split=0 to=host3
	same "$(at km 0)" host3
	# The same around each write of the record, and a delete in the midst.
	local n
	for ((n = 1; n < 40; n += 5)); do
		prepare
		killed_at_syscall fdatasync $n 1 move name=km split=0 to=host3 || break
		settle_move "$n"
	done
	[ $n -gt 3 ] || fail "fdatasync was called $n times only"
	has_files 3 km
	prepare
	killed_at_syscall fdatasync 3 1 move name=km split=0 to=host3
	v 2 delete name=km
	nothing_left
}

jobs() { on 1 trib status --json | jq -r ".jobs[] | select(.of == \"volume $1\") | .doing + \" \" + .what"; }
test_a_node_that_dies_amid_a_move_loses_nothing() {
	volume km
	make_two km
	# At its last step but two it copies.
	v 1 move name=km split=0 to=host3 kill=5 >/dev/null 2>&1 || true
	grep -q phase=Moving <<<"$(status km)"
	same "$(jobs km)" "moving split 0 from node host1 to pool main of node host3"
	node_silent 3
	fails 1 "not moved yet" v 1 move name=km
	# The volume need not wait for that node.
	v 1 unmove name=km
	attach 2 km
	check "$(mnt 2 km)"
	v 2 detach name=km
	status km | grep -q 'reason=ExtentLeft'
	same "$(jobs km)" "deleting extent km-0 of node host3, which split 0 has left"
	node_back 3
	v 1 move name=km split=0 to=host3 >/dev/null
	same "$(at km 0)" host3
	same "$(jobs km)" ""
	same "$(extents km)" 2
	has_files 2 km
	v 1 move name=km split=0 to=host1 kill=5 >/dev/null 2>&1 || true
	node_silent 3
	fails 1 "not moved yet" v 1 move name=km
	node_back 3
	v 1 move name=km >/dev/null
	same "$(at km 0)" host1
	has_files 2 km
	v 1 delete name=km
	nothing_left
}

test_a_node_is_drained_and_removed_beside_a_writer() {
	local i
	for i in a b c; do volume $i; done
	at_exit on 1 trib node uncordon host1 --quiet
	for i in a b; do make_two $i; done
	# A mounted volume has a split there, and is written to.
	on 1 trib volume create c --size 80MiB --placement local --local host1 --quiet
	attach 2 c
	writer_start "$(mnt 2 c)"
	fails any "no node 'host9'" on 1 trib node drain host9
	fails any "has split" on 1 trib node remove host1
	fails 6 "host1 is cordoned, 2 splits have moved, and 1 splits and 0 extents of snapshots are there" \
		on 3 trib node drain host1
	on 3 trib node list | grep -q '^host1 .*cordoned'
	for i in a b; do
		! grep -q node=host1 <<<"$(status $i)" || fail "$i is there still"
	done
	writer_stop "$(mnt 2 c)"
	fails any "has split 0 of volume 'c'" on 1 trib node remove host1
	v 2 detach name=c
	on 1 trib node drain host1 | grep -q 'host1 is empty and cordoned, 1 splits moved'
	same "$(ls "$C/host1/pool/extents")" ""
	for i in a b; do has_files 2 $i; done
	attach 3 c
	(cd "$(mnt 3 c)" && sha256sum --quiet -c w/*.sum)
	v 3 detach name=c
	# The last pools that may get anything keep what they have.
	on 1 trib node cordon host2 --quiet
	fails 5 "there is no other pool" on 1 trib node drain host3
	! on 1 trib node list | grep -q '^host3 .*cordoned' || false
	on 1 trib node uncordon host2 --quiet
	on 1 trib node remove host1 --quiet
	for i in a b c; do v 2 delete name=$i; done
	on 2 trib node add host1 --control "unix:$C/host1/run/blockd.sock" --data 10.77.0.1:10809 --quiet
	nothing_left
}

test_a_pool_is_drained_into_another_of_its_node() {
	volume p
	make_two p
	at_exit on 1 trib pool uncordon host1/main --quiet
	truncate -s 600M "$TEST_DIR/disk"
	on 1 trib pool create --raw host1/disk "$TEST_DIR/disk" --quiet
	at_exit on 1 trib pool delete host1/disk --quiet
	on 1 trib volume move p --split 0 --to host1/disk | grep -q 'split 0 is in host1/disk, copied by block'
	on 1 trib volume show p --json | jq -e '.splits[0].pool == "disk"'
	has_files 3 p
	on 1 trib volume move p --split 0 --to host1/main --quiet
	on 2 trib pool drain host1/main --json | jq -e '.[0].pool == "disk" or .[0].node == "host3"'
	has_files 3 p
	same "$(ls "$C/host1/pool/extents")" ""
	on 1 trib pool uncordon host1/main --quiet
	v 1 delete name=p
	nothing_left
}

test_pools_are_made_equally_full() {
	local i
	for i in 2 3; do on 1 trib node cordon host$i --quiet; done
	for i in 1 2 3 4; do
		volume r$i
		on 1 trib volume create r$i --size 128MiB --quiet
	done
	for i in 2 3; do on 1 trib node uncordon host$i --quiet; done
	attach 3 r1
	fill "$(mnt 3 r1)"
	attach 2 r2
	fill "$(mnt 2 r2)"
	v 2 detach name=r2
	on 1 trib volume rebalance --dry-run >"$TEST_DIR/out"
	grep -q "128.00 MiB *host1/main *host[23]/main" "$TEST_DIR/out"
	grep -q "1 volumes stay: 1 are attached" "$TEST_DIR/out"
	for i in 1 2 3 4; do same "$(at r$i 0)" host1; done
	on 1 trib volume rebalance --json >"$TEST_DIR/json"
	same "$(jq '[.moves[] | select(.moved)] | length' "$TEST_DIR/json")" 2
	same "$(jq -r '[.moves[].toNode] | sort | join(" ")' "$TEST_DIR/json")" "host2 host3"
	same "$(at r1 0)" host1
	same "$(for i in 2 3 4; do at r$i 0; done | sort | uniq -c | awk '{print $1}' | xargs)" "1 1 1"
	check "$(mnt 3 r1)"
	v 3 detach name=r1
	has_files 3 r2
	# The same again moves nothing.
	on 1 trib volume rebalance >"$TEST_DIR/out"
	grep -q "nothing to move" "$TEST_DIR/out"
	for i in 1 2 3 4; do v 1 delete name=r$i; done
	nothing_left
}

test_what_a_lost_node_has_left_harms_nothing() {
	volume l
	make_two l
	# The split moved, and the old node died before its extent was deleted.
	# How many steps the copy takes depends on the machine: try until that is met.
	local n=0
	until grep -q 'condition=Moved reason=ExtentLeft' <<<"$(status l)"; do
		[ $((n += 1)) -lt 60 ] || fail "nothing is left"
		v 1 unmove name=l
		[ "$(at l 0)" = host1 ] || v 1 move name=l split=0 to=host1 >/dev/null
		v 1 move name=l split=0 to=host3 kill=$((n % 5 + 5)) >/dev/null 2>&1 || true
	done
	same "$(at l 0)" host3
	node_silent 1
	attach 2 l
	check "$(mnt 2 l)"
	v 2 detach name=l
	fails 1 "is not deleted yet" v 2 move name=l split=0
	on 2 trib node remove --lost --grace 0 host1 --quiet
	! grep -q condition= <<<"$(status l)" || false
	_blockd_spawn 1
	on 2 trib node add host1 --control "unix:$C/host1/run/blockd.sock" --data 10.77.0.1:10809 --quiet
	eventually 30 on 2 trib pool list host1
	export TRIB_TEST_CALL_TIMEOUT_MS=60000
	on 2 trib volume orphans --json | jq -e '.[0].name == "l-0" and .[0].node == "host1"'
	has_files 1 l
	on 2 trib extent delete --force host1/l-0 --quiet
	v 2 delete name=l
	nothing_left
}

run_tests "$@"
