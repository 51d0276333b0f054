#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes grow beyond the pools they are in: new extents on other nodes become
# new branches of the live union.
POOL=2GiB
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
WRITER_FILES=40 WRITER_SIZE=700000
. "$TOP/tests/writer_lib.sh"

df_mib() { df -BM --output=size "$1" | tail -n 1 | tr -dc 0-9; }
capacity() { status "$1" | grep -o 'capacity=.*'; }
# sizes NAME: of its extents, in the order of its splits, in MiB
sizes() {
	local i file
	for i in 0 1 2; do
		for file in "$C"/host?/pool/extents/"$1-$i".data; do
			[ ! -e "$file" ] || echo $(($(stat -c %s "$file") >> 20))
		done
	done | tr '\n' ' '
}
# branches PATH: of the union there
branches() {
	getfattr --absolute-names --only-values -n user.tributary.stats "$1" |
		grep -o '"branches":[0-9]*' | cut -d: -f2
}
# files_on HOST NAME BRANCH
files_on() { find "$C/host$1/run/volumes/$2/branch-$3" -type f | wc -l; }

# small NAME HOST: mounted, of one extent on host1, 1.5 GiB of 2, with files
small() {
	# Its first place is the emptiest pool; afterwards any will do.
	v 1 create "name=$1" fs=xfs policy=mfs size=1536MiB >/dev/null 2>&1
	attach "$2" "$1" >/dev/null 2>&1
	fill "$C/host$2/mnt/$1"
}

test_a_mounted_and_written_volume_grows_past_any_node() {
	volume wide
	small wide 1
	same "$(sizes wide)" "1536 "
	local m=$C/host1/mnt/wide pid mount n i
	fallocate -l 900M "$m/big"
	pid=$(status wide | grep -o 'pid=[0-9]*')
	mount=$(findmnt -no ID "$m")
	writer_start "$m"
	same "$(v 1 resize name=wide size=5GiB 2>/dev/null)" \
		"capacity=5368709120 behind=0"
	same "$(sizes wide)" "2048 1536 1536 "
	n=$(cat "$TEST_DIR/written")
	eventually 30 eval "[ \$(df_mib $m) -gt 4900 ]"
	eventually 30 eval "[ \$(cat $TEST_DIR/written) -gt $((n + 2)) ]"
	same "$(status wide | grep -o 'pid=[0-9]*')" "$pid"
	same "$(findmnt -no ID "$m")" "$mount"
	same "$(branches "$m")" 3
	is_whole 1 wide
	# New files go where there is most room: to both new branches.
	for i in 1 2 3 4; do
		head -c 20M /dev/urandom >"$m/new-$i"
		sync "$m/new-$i"
		sleep 1.1 # room is asked for once a second
	done
	(cd "$m" && sha256sum new-* >new.sums && sync new.sums)
	[ "$(files_on 1 wide 1)" -gt 0 ]
	[ "$(files_on 1 wide 2)" -gt 0 ]
	writer_stop "$m"
	check "$m"
	local inodes
	inodes=$(cd "$m" && stat -c '%i %n' new-* d/*)
	v 1 detach name=wide
	attach 1 wide
	same "$(cd "$m" && stat -c '%i %n' new-* d/*)" "$inodes" # same branches
	v 1 detach name=wide
	attach 3 wide
	m=$C/host3/mnt/wide
	is_whole 3 wide
	check "$m"
	(cd "$m" && sha256sum --quiet -c new.sums w/*.sum)
	[ "$(df_mib "$m")" -gt 4900 ]
	v 3 detach name=wide
	v 1 delete name=wide
	nothing_left
}

test_grown_elsewhere_its_branches_join_where_it_is_mounted() {
	volume far
	small far 1
	local m=$C/host1/mnt/far
	# The extents are made from anywhere; the mount is as it was.
	same "$(v 2 resize name=far size=4GiB 2>/dev/null)" \
		"capacity=4294967296 behind=1"
	same "$(sizes far)" "2048 2048 "
	same "$(branches "$m")" 1
	status far 1 | grep -q 'reason=FileSystemBehind'
	! status far 2 | grep -q condition= || false
	# Read-only it stays as it is.
	v 1 detach name=far
	attach 1 far read_only=1
	same "$(branches "$m")" 1
	check "$m"
	! status far 1 | grep condition= || fail "a condition"
	v 1 detach name=far
	# What CSI's node side calls.
	attach 1 far
	same "$(branches "$m")" 2
	v 2 resize name=far size=5GiB
	same "$(branches "$m")" 2
	same "$(v 1 resize name=far 2>/dev/null)" "capacity=5368709120 behind=0"
	same "$(branches "$m")" 3
	is_whole 1 far
	check "$m"
	# The next server has them, too.
	kill -KILL "$(union_server "$m")"
	same "$(branches "$m")" 3
	is_whole 1 far
	check "$m"
	# A union that was killed comes back with all of them.
	union_kill "$C/host1/mnt/far"
	attach 1 far
	same "$(branches "$m")" 3
	is_whole 1 far
	check "$m"
	v 1 detach name=far
	v 1 delete name=far
	nothing_left
}

test_a_mount_that_is_repeated_adds_the_branches() {
	volume again
	small again 1
	v 3 resize name=again size=4GiB
	attach 1 again
	same "$(branches "$C/host1/mnt/again")" 2
	is_whole 1 again
	# Formatted and mounted, but killed before the union had it.
	v 3 resize name=again size=5GiB
	local n
	for n in 1 2 3 4 5 6 7 8 9; do
		v 1 resize name=again "kill=$n" 2>"$TEST_DIR/log" || true
		! grep -q 'adding split' "$TEST_DIR/log" || break
		v 3 resize name=again >/dev/null 2>&1
	done
	grep -q 'adding split' "$TEST_DIR/log"
	same "$(branches "$C/host1/mnt/again")" 2
	status again | grep -q 'reason=BranchesWaiting'
	attach 1 again
	same "$(branches "$C/host1/mnt/again")" 3
	is_whole 1 again
	check "$C/host1/mnt/again"
	v 1 detach name=again
	v 1 delete name=again
	nothing_left
}

test_a_union_that_takes_no_commands_has_the_branches_at_the_next_mount() {
	volume old
	small old 1
	local m=$C/host1/mnt/old
	rm "$C/host1/run/volumes/old/control"
	fails 1 "EOPNOTSUPP: resize volume 'old': 1 new extents are there, formatted and mounted, and join the volume at its next mount: the union that is mounted takes no commands (it has no socket '$C/host1/run/volumes/old/control')" \
		v 1 resize name=old size=4GiB
	status old | grep -q 'reason=BranchesWaiting'
	same "$(branches "$m")" 1
	attach 1 old # nothing is the matter with it
	check "$m"
	v 1 detach name=old
	attach 1 old
	same "$(branches "$m")" 2
	is_whole 1 old
	check "$m"
	v 1 detach name=old
	v 1 delete name=old
	nothing_left
}

test_no_room_anywhere_is_refused_and_changes_nothing() {
	volume full
	small full 1
	local record
	record=$(sqlite3 "$C/records.db" "SELECT * FROM objects WHERE name = 'full'")
	fails 1 "in its pools it could become 2.00 GiB, from 1.50 GiB now. They have 512.00 MiB in host1/main free; new extents for the other 4.50 GiB: 4.50 GiB asked for, 4.00 GiB free in 2 pools: 2.00 GiB in host2/main, 2.00 GiB in host3/main" \
		v 1 resize name=full size=6656MiB
	same "$(sqlite3 "$C/records.db" "SELECT * FROM objects WHERE name = 'full'")" "$record"
	v 1 resize name=full size=6GiB
	same "$(sizes full)" "2048 2048 2048 "
	is_whole 1 full
	v 1 detach name=full
	v 1 delete name=full
	nothing_left
}

test_a_final_error_undoes_the_new_extents() {
	volume undo
	small undo 1
	# Somebody else's extent has the name of the second new one.
	on 1 trib extent create host3/undo-2 --size 64MiB --quiet
	at_exit on 1 trib extent delete host3/undo-2
	fails 1 "EEXIST" v 1 resize name=undo size=5GiB
	same "$(sizes undo)" "1536 64 "
	same "$(capacity undo)" capacity=1610612736
	is_whole 1 undo
	on 1 trib extent delete host3/undo-2
	v 1 resize name=undo size=5GiB
	is_whole 1 undo
	v 1 detach name=undo
	v 1 delete name=undo
	nothing_left
}

test_a_node_that_is_silent_half_way_finishes_later() {
	volume wait
	small wait 1
	v 1 resize name=wait size=5GiB kill=3 2>/dev/null || true
	node_silent 3
	fails 1 "it is not finished (repeat \`trib volume resize wait --size 5368709120\`" \
		v 1 resize name=wait size=5GiB
	same "$(capacity wait)" capacity=1610612736
	status wait | grep -q 'condition=Resized reason=Unfinished'
	# The new split is no part of the volume yet: the volume works as it was.
	v 1 detach name=wait
	attach 2 wait
	check "$C/host2/mnt/wait"
	same "$(branches "$C/host2/mnt/wait")" 1
	# Another size waits for the silent node, too.
	fails 1 EHOSTUNREACH v 1 resize name=wait size=3GiB
	node_back 3
	v 2 resize name=wait size=3GiB
	same "$(capacity wait)" capacity=3221225472
	is_whole 2 wait
	check "$C/host2/mnt/wait"
	v 2 detach name=wait
	# Deleted with a plan that was begun.
	v 1 resize name=wait size=6GiB kill=4 2>/dev/null || true
	v 1 delete name=wait
	nothing_left
}

test_extending_killed_at_every_step_is_finished_or_undone() {
	volume kx
	prepare() { small kx 1; }
	settle() {
		local want=5368709120
		case $(($1 % 4)) in
		0) v 1 resize name=kx size=5GiB >/dev/null 2>&1 ;;
		1) # Deleted.
			v 1 detach name=kx >/dev/null 2>&1
			v 1 delete name=kx >/dev/null 2>&1
			nothing_left
			return ;;
		2) # Finished elsewhere, and by a mount.
			v 2 resize name=kx size=5GiB >/dev/null 2>&1
			attach 1 kx >/dev/null 2>&1 ;;
		3) # Mounted with what there is, then another size.
			v 1 detach name=kx >/dev/null 2>&1
			attach 1 kx >/dev/null 2>&1
			check "$C/host1/mnt/kx"
			# A split that has become part of the volume stays.
			v 1 resize name=kx size=5200MiB >/dev/null 2>&1
			want=5452595200 ;;
		esac
		is_whole 1 kx
		check "$C/host1/mnt/kx"
		same "$(capacity kx)" "capacity=$want"
		same "$(branches "$C/host1/mnt/kx")" 3
		v 1 detach name=kx >/dev/null 2>&1
		v 1 delete name=kx >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 resize name=kx size=5GiB
	v 1 detach name=kx
	v 1 delete name=kx
	nothing_left
}

test_extending_killed_around_every_write_of_the_record() {
	volume rx
	local n every
	every=$(every)
	for ((n = 2 + RANDOM % every; n < 40; n += every)); do
		small rx 1
		killed_at_syscall fdatasync $n 1 resize name=rx size=5GiB || break
		[ $((n % 2)) = 0 ] || v 1 detach name=rx >/dev/null 2>&1
		attach 1 rx >/dev/null 2>&1
		v 1 resize name=rx size=5GiB >/dev/null 2>&1
		same "$(sizes rx)" "2048 1536 1536 "
		is_whole 1 rx
		check "$C/host1/mnt/rx"
		v 1 detach name=rx >/dev/null 2>&1
		v 1 delete name=rx >/dev/null 2>&1
	done
	[ $n -gt 9 ] || fail "fdatasync was called $n times only"
	v 1 detach name=rx
	v 1 delete name=rx
	nothing_left
}

run_tests "$@"
