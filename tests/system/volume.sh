#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes on three hosts: their life, and what is left of it after every
# process was killed at every step.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"

files_everywhere() { # DIR...
	local dir
	for dir in "$@"; do [ -n "$(find "$dir" -type f -print -quit)" ] || return 1; done
}
test_a_volume_larger_than_a_node_moves_between_hosts() {
	volume big
	v 1 create name=big size=1536MiB
	same "$(status big | grep -c '^split=.*state=ok record=Created')" 3
	attach 1 big
	is_whole 1 big
	fill "$C/host1/mnt/big"
	check "$C/host1/mnt/big"
	same "$(ls -A "$C/host1/mnt/big" | sort | tr '\n' ' ')" "d sums "
	mkdir "$C/host1/mnt/big/more"
	# New files go anywhere: until each branch has some.
	i=0
	until files_everywhere "$C/host1/run/volumes/big"/branch-{0,1,2}/data; do
		i=$((i + 1))
		[ $i -le 200 ] || fail "200 files, and a branch has none"
		head -c 1000000 /dev/urandom >"$C/host1/mnt/big/more/$i"
	done
	v 1 detach name=big
	attach 2 big
	is_whole 2 big
	check "$C/host2/mnt/big"
	v 2 detach name=big
	v 2 delete name=big
	nothing_left
}

test_repeating_changes_nothing() {
	volume same
	v 1 create name=same size=700MiB
	local first
	first=$(v 1 create name=same size=700MiB 2>/dev/null)
	same "$(v 2 create name=same size=700MiB 2>/dev/null)" "$first"
	attach 1 same
	local pid
	pid=$(status same | grep -o 'pid=[0-9]*')
	attach 1 same
	same "$(status same | grep -o 'pid=[0-9]*')" "$pid"
	same "$(status same | grep -o 'epoch=[0-9]*')" epoch=1
	v 1 detach name=same
	v 1 detach name=same
	v 1 delete name=same
	v 1 delete name=same
	nothing_left
}

test_another_volume_of_that_name_is_refused() {
	volume name
	v 1 create name=name size=128MiB
	fails 1 EEXIST v 2 create name=name size=192MiB
	fails 1 EEXIST v 2 create name=name size=128MiB fs=ext4 policy=ff
	v 1 delete name=name
}

test_a_volume_larger_than_everything_says_what_is_free_where() {
	fails 1 "ENOSPC: 9.00 GiB asked for, 1.88 GiB free in 3 pools: 640.00 MiB in host1/main, 640.00 MiB in host2/main" \
		v 1 create name=huge size=9GiB
	fails 1 ENOENT v 1 status name=huge
	nothing_left
}

test_an_extent_in_the_way_fails_the_create_and_leaves_nothing() {
	volume way
	on 1 trib extent create host2/way-2 --size 1MiB --quiet
	at_exit on 1 trib extent delete host2/way-2
	fails 1 EEXIST v 1 create name=way size=1GiB min=3
	fails 1 ENOENT v 1 status name=way
	same "$(find "$C"/host?/pool -name 'way-0*')" ""
	on 1 trib extent delete host2/way-2
	nothing_left
}

test_a_blank_extent_that_holds_data_is_not_formatted() {
	volume data
	v 1 create name=data size=128MiB node=host1
	local file=$C/host1/pool/extents/data-0.data sum
	mkfs.ext4 -q -F "$file"
	sum=$(sha256sum <"$file")
	fails 1 "EUCLEAN" attach 1 data
	fails 1 "should be blank but holds ext4" attach 2 data
	same "$(sha256sum <"$file")" "$sum"
	same "$(status data | grep -c attachments=0)" 1
	v 1 delete name=data
	nothing_left
}

test_a_foreign_file_system_in_a_formatted_extent_is_left_alone() {
	volume foreign
	v 1 create name=foreign size=128MiB node=host1
	attach 1 foreign
	v 1 detach name=foreign
	local file=$C/host1/pool/extents/foreign-0.data
	mkfs.ext4 -q -F "$file"
	fails 1 "EUCLEAN" attach 1 foreign
	v 1 delete name=foreign
	nothing_left
}

test_xfs_branches_work_too() {
	volume x
	v 1 create name=x size=900MiB fs=xfs min=2
	attach 1 x
	is_whole 1 x
	fill "$C/host1/mnt/x"
	# A branch that gave up after an error of its device is mounted anew.
	xfs_io -x -c shutdown "$C/host1/run/volumes/x/branch-1"
	status x >"$TEST_DIR/out"
	grep -q "gave up after an error" "$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	# The union finds out when it next uses it, and is asked, too.
	for i in {1..64}; do
		true >"$C/host1/mnt/x/new-$i" || true
	done 2>"$TEST_DIR/errors"
	status x >"$TEST_DIR/out"
	grep -q "1 of 2 branches of the union" "$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	attach 1 x
	rm -f "$C/host1/mnt/x"/new-*
	is_whole 1 x
	check "$C/host1/mnt/x"
	v 1 detach name=x
	attach 3 x
	check "$C/host3/mnt/x"
	v 3 detach name=x
	v 3 delete name=x
	nothing_left
}

test_read_only_is() {
	volume ro
	v 1 create name=ro size=1GiB
	# A volume that was never formatted is formatted before it is read.
	attach 1 ro read_only=1
	is_whole 1 ro
	same "$(findmnt -rno OPTIONS "$C/host1/run/volumes/ro/branch-1" | cut -d, -f1)" ro
	fails any "Read-only" touch "$C/host1/mnt/ro/new"
	v 1 detach name=ro
	attach 1 ro
	fill "$C/host1/mnt/ro"
	v 1 detach name=ro
	attach 1 ro read_only=1
	check "$C/host1/mnt/ro"
	fails any "Read-only" touch "$C/host1/mnt/ro/new"
	fails 1 "reading only" attach 1 ro
	v 1 detach name=ro
	v 1 delete name=ro
	nothing_left
}

test_deleting_what_is_attached_is_refused() {
	volume held
	v 1 create name=held size=128MiB
	attach 1 held
	fill "$C/host1/mnt/held"
	fails 1 "EBUSY: volume 'held' is attached on node 'host1'" v 2 delete name=held
	check "$C/host1/mnt/held"
	v 1 detach name=held
	v 2 delete name=held
	nothing_left
}

test_a_busy_unmount_names_who_it_is() {
	volume busy
	v 1 create name=busy size=128MiB
	attach 1 busy
	fill "$C/host1/mnt/busy"
	(cd "$C/host1/mnt/busy/d" && exec sleep 300) &
	local pid=$!
	at_exit kill $pid
	becomes $pid sleep
	fails 1 "sleep ($pid)" v 1 detach name=busy
	is_whole 1 busy
	check "$C/host1/mnt/busy"
	kill $pid
	wait $pid || true
	v 1 detach name=busy
	v 1 delete name=busy
	nothing_left
}

test_a_second_operation_is_told_who_is_at_it() {
	volume turn
	local argv pid
	_volume_argv 1
	"${argv[@]}" create name=turn size=128MiB pause=2 2>/dev/null &
	pid=$!
	at_exit kill -KILL $pid
	eventually 30 grep -q '^State:.*stopped' "/proc/$pid/status"
	fails 1 "EAGAIN: busy: process $pid has been creating volume 'turn'" \
		v 2 create name=turn size=128MiB
	fails 1 EAGAIN v 2 delete name=turn
	kill -CONT $pid
	wait $pid
	v 2 delete name=turn
	nothing_left
}

test_two_creates_at_once_make_one_volume() {
	volume twice
	local i pids=() ok=0 argv
	for i in 1 2 3; do
		_volume_argv $i
		"${argv[@]}" create name=twice size=1200MiB >/dev/null 2>"$TEST_DIR/err$i" &
		pids+=($!)
	done
	for i in 1 2 3; do
		if wait "${pids[i - 1]}"; then
			ok=$((ok + 1))
		else
			grep -q '^EAGAIN: busy' "$TEST_DIR/err$i" || fail "$(cat "$TEST_DIR/err$i")"
		fi
	done
	[ $ok -ge 1 ]
	same "$(ls "$C"/host?/pool/extents/*.data | wc -l)" \
		"$(status twice | grep -c ^split=)"
	v 1 delete name=twice
	nothing_left
}

test_create_killed_at_every_step_is_finished_or_undone() {
	volume kc
	prepare() { :; }
	settle() {
		if [ $(($1 % 2)) = 0 ]; then
			v 2 create name=kc size=1500MiB >/dev/null 2>&1
			same "$(status kc | grep -c 'state=ok')" 3
		fi
		v 2 delete name=kc >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 create name=kc size=1500MiB
	v 1 delete name=kc
	nothing_left
}

test_delete_killed_at_every_step_is_finished() {
	volume kd
	prepare() { v 1 create name=kd size=1500MiB >/dev/null 2>&1; }
	settle() {
		if [ $(($1 % 2)) = 0 ] && status kd >/dev/null; then
			fails 1 "being deleted" v 1 create name=kd size=1500MiB
		fi
		v 2 delete name=kd >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 delete name=kd
	nothing_left
}

test_attach_killed_at_every_step_is_finished_or_undone() {
	volume ka
	prepare() {
		v 1 create name=ka size=1300MiB >/dev/null 2>&1
		mnt 1 ka >/dev/null
	}
	settle() {
		if [ $(($1 % 2)) = 0 ]; then
			attach 1 ka >/dev/null 2>&1
			is_whole 1 ka
			fill "$C/host1/mnt/ka"
			check "$C/host1/mnt/ka"
		fi
		v 1 detach name=ka >/dev/null 2>&1
		v 1 delete name=ka >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 attach name=ka "path=$C/host1/mnt/ka"
	v 1 detach name=ka
	v 1 delete name=ka
	nothing_left
}

# The next call waits for programs that a killed call had started and that are
# still at work; those that have not begun yet do nothing.
test_what_a_killed_attach_had_started_meets_nobody() {
	volume kl
	local program
	for program in mkfs.ext4 trib-nbd e2fsck mkfs.xfs; do
		case $program in
		mkfs.ext4) v 1 create name=kl size=320MiB node=host1 ;;
		mkfs.xfs) v 1 create name=kl size=320MiB fs=xfs node=host1 ;;
		esac
		killed_with_late $program 2 attach name=kl "path=$(mnt 2 kl)"
		attach 2 kl
		late_is_over $program
		is_whole 2 kl
		v 2 detach name=kl
		[ $program != e2fsck ] || v 1 delete name=kl
	done
	attach 2 kl
	killed_with_late xfs_growfs 2 resize name=kl size=330MiB
	v 2 resize name=kl size=330MiB
	late_is_over xfs_growfs
	is_whole 2 kl
	v 2 detach name=kl
	v 1 delete name=kl
	# The device is not taken away, and given to somebody else, before that.
	for program in mkfs.ext4 trib-nbd e2fsck; do
		[ $program != mkfs.ext4 ] || v 1 create name=kl size=320MiB node=host1
		killed_with_late $program 2 attach name=kl "path=$C/host2/mnt/kl"
		v 2 detach name=kl force=1
		late_is_over $program
		attach 3 kl
		is_whole 3 kl
		v 3 detach name=kl
	done
	v 1 delete name=kl
	nothing_left
}
# A program that only waits for its parent may take a moment to end.
late_is_over() {
	[ "$1" != trib-nbd ] || eventually 30 late_is_none
	same "$(late_runs)" ""
}
late_is_none() { [ -z "$(late_runs)" ]; }

test_a_union_whose_attach_was_killed_before_it_began_never_mounts() {
	volume ku
	v 1 create name=ku size=200MiB node=host1
	attach 2 ku
	v 2 detach name=ku
	killed_with_late trib-union 2 attach name=ku "path=$(mnt 2 ku)"
	eventually 10 late_is_none
	fails any "" mountpoint -q "$C/host2/mnt/ku"
	killed_with_late trib-union 2 attach name=ku "path=$C/host2/mnt/ku"
	attach 2 ku
	eventually 10 late_is_none
	is_whole 2 ku
	v 2 detach name=ku
	v 1 delete name=ku
	nothing_left
}

test_detach_killed_at_every_step_is_finished_or_undone() {
	volume kt
	prepare() {
		v 1 create name=kt size=1300MiB >/dev/null 2>&1
		attach 1 kt >/dev/null 2>&1
		[ -f "$C/host1/mnt/kt/sums" ] || fill "$C/host1/mnt/kt"
	}
	settle() {
		if [ $(($1 % 2)) = 0 ]; then
			attach 1 kt >/dev/null 2>&1
			is_whole 1 kt
			check "$C/host1/mnt/kt"
		fi
		v 1 detach name=kt >/dev/null 2>&1
		same "$(status kt | grep -o attachments=0)" attachments=0
	}
	kill_at_every 1 detach name=kt
	attach 2 kt
	check "$C/host2/mnt/kt"
	v 2 detach name=kt
	v 1 delete name=kt
	nothing_left
}

test_a_half_made_file_system_is_made_again() {
	volume half
	local fs
	# Splits are mounted side by side, one of them by the first thread.
	for fs in ext4 xfs ext4; do
		v 1 create name=half size=700MiB fs=$fs >/dev/null 2>&1
		mnt 1 half
		killed_at_syscall mount 1 1 attach name=half "path=$C/host1/mnt/half" ||
			fail "mount was not called"
		attach 1 half
		is_whole 1 half
		fill "$C/host1/mnt/half"
		check "$C/host1/mnt/half"
		v 1 detach name=half
		v 1 delete name=half
		nothing_left
	done
}

test_killed_around_every_write_of_the_record() {
	volume rec
	local n every
	every=$(every)
	for ((n = 1 + RANDOM % every; n < 40; n += every)); do
		killed_at_syscall fdatasync $n 1 create name=rec size=700MiB || break
		v 1 create name=rec size=700MiB >/dev/null 2>&1
		v 1 delete name=rec
		nothing_left
	done
	[ $n -gt 3 ] || fail "fdatasync was called $n times only"
	for ((n = 1 + RANDOM % every; n < 40; n += every)); do
		v 1 create name=rec size=700MiB >/dev/null 2>&1
		mnt 1 rec
		killed_at_syscall fdatasync $n 1 attach name=rec "path=$C/host1/mnt/rec" || break
		[ $((n % 2)) = 0 ] || attach 1 rec >/dev/null 2>&1
		v 1 detach name=rec
		v 1 delete name=rec
		nothing_left
	done
	[ $n -gt 5 ] || fail "fdatasync was called $n times only"
	v 1 detach name=rec
	v 1 delete name=rec
	nothing_left
}

server_of() { union_server "$C/host1/mnt/$1"; }
another_serves() { local now; now=$(server_of "$1") && [ "$now" != "$2" ]; } # VOLUME PID
test_a_union_goes_on_when_its_server_is_killed_or_replaced() {
	local pid server m=$C/host1/mnt/on
	volume on
	v 1 create name=on size=700MiB
	attach 1 on
	fill "$m"
	exec {fd}<>"$m/open"
	pid=$(status on | grep -o 'pid=[0-9]*')
	server=$(server_of on)
	kill -KILL "$server"
	check "$m"
	echo kept >&$fd
	same "$(cat "$m/open")" kept
	eventually 30 another_serves on "$server"
	server=$(server_of on)
	on 1 trib union upgrade "$m/d" >"$TEST_DIR/out"
	grep -q "served by process $(server_of on), version" "$TEST_DIR/out"
	[ "$(server_of on)" != "$server" ]
	same "$(on 1 trib union upgrade "$m" --json | jq -r .survives)" true
	check "$m"
	echo more >&$fd
	exec {fd}>&-
	same "$(cat "$m/open" | xargs)" "kept more"
	is_whole 1 on
	same "$(status on | grep -o 'pid=[0-9]*')" "$pid"
	# One without its supervisor serves on, and is found.
	kill -KILL "$(union_supervisor "$m")"
	check "$m"
	eventually 30 eval "status on | grep -q 'pid=$(server_of on)\b'"
	v 1 detach name=on
	v 1 delete name=on
	nothing_left
}

test_a_killed_union_is_started_again_with_its_files() {
	volume dead
	v 1 create name=dead size=700MiB
	attach 1 dead
	fill "$C/host1/mnt/dead"
	union_kill "$C/host1/mnt/dead"
	eventually 30 eval "! ls '$C/host1/mnt/dead'"
	status dead | grep -q 'reason=UnionDead'
	attach 1 dead
	is_whole 1 dead
	check "$C/host1/mnt/dead"
	same "$(status dead | grep -o 'epoch=[0-9]*')" epoch=1
	# And a dead one can be unmounted.
	union_kill "$C/host1/mnt/dead"
	v 1 detach name=dead
	v 1 delete name=dead
	nothing_left
}

test_a_killed_blockd_comes_back_under_a_mounted_volume() {
	volume back
	v 1 create name=back size=1300MiB
	attach 1 back
	fill "$C/host1/mnt/back"
	blockd_signal 2 KILL
	blockd_start 2
	check "$C/host1/mnt/back"
	# Whatever became of the device of host2's extent, one attach puts it right.
	attach 1 back
	is_whole 1 back
	check "$C/host1/mnt/back"
	fill "$C/host1/mnt/back"
	v 1 detach name=back
	attach 3 back
	check "$C/host3/mnt/back"
	# A program that is about to leave the mount is waited for.
	local user argv detach
	(cd "$C/host3/mnt/back" && exec sleep 600) &
	user=$!
	at_exit kill $user
	becomes $user sleep
	_volume_argv 3
	"${argv[@]}" detach name=back 2>"$TEST_DIR/leaving" &
	detach=$!
	eventually 30 grep unmounting "$TEST_DIR/leaving"
	kill $user
	wait $user || true
	wait $detach || fail "$(cat "$TEST_DIR/leaving")"
	v 1 delete name=back
	nothing_left
}

test_a_silent_node_does_not_hold_an_unmount() {
	volume silent
	v 1 create name=silent size=1300MiB
	attach 1 silent
	fill "$C/host1/mnt/silent"
	node_silent 3
	# While its file systems go, the silent node is found. It is not asked again.
	v 1 detach name=silent force=1 2>"$TEST_DIR/steps"
	same "$(grep -c 'withdrawing split .* on node host[12]$' "$TEST_DIR/steps")" 2
	! grep 'withdrawing split .* on node host3' "$TEST_DIR/steps" || false
	status silent | grep -q "attachments=0"
	status silent | grep -q "state=unreachable"
	fails 1 "EHOSTUNREACH" v 1 delete name=silent
	status silent | grep -q 'phase=Deleting'
	fails 1 "host3" v 1 delete name=silent
	node_back 3
	v 1 delete name=silent
	nothing_left
}

test_create_with_a_silent_node_is_finished_later() {
	volume later
	v 1 create name=later size=1300MiB kill=3 2>/dev/null || true
	node_silent 3
	fails 1 "repeat the command to finish it" v 1 create name=later size=1300MiB
	status later | grep -q 'phase=Creating'
	fails 1 "not finished" attach 1 later
	node_back 3
	v 1 create name=later size=1300MiB
	status later | grep -q 'phase=Ready'
	v 1 delete name=later
	nothing_left
}

test_a_volume_attached_elsewhere_is_refused_by_name() {
	volume two
	v 1 create name=two size=200MiB
	attach 1 two
	fails 1 "EBUSY: attach volume 'two': volume 'two' is attached on node 'host1'" attach 2 two
	v 1 detach name=two
	attach 2 two
	v 2 detach name=two
	v 1 delete name=two
}

test_a_node_that_is_forced_away_can_write_no_more() {
	volume move
	# No split on host1: what it has goes by the network.
	v 1 create name=move size=1GiB node=host2 node=host3
	attach 1 move
	fill "$C/host1/mnt/move"
	local i errors=0
	attach 2 move force=1
	check "$C/host2/mnt/move"
	for i in 1 2 3 4 5 6; do
		dd if=/dev/urandom of="$C/host1/mnt/move/late-$i" bs=1M count=4 \
			conv=fsync 2>/dev/null || errors=$((errors + 1))
	done
	same $errors 6 "late writers that got an error"
	status move 1 | grep -q 'reason=CutOff'
	# The old attachment goes away, and takes nothing with it.
	v 1 detach name=move
	is_whole 2 move
	v 2 detach name=move
	attach 3 move
	check "$C/host3/mnt/move"
	same "$(ls "$C/host3/mnt/move")" "$(printf 'd\nsums')"
	v 3 detach name=move
	v 1 delete name=move
	nothing_left
}

test_a_device_on_the_extents_own_node_is_not_forced_away() {
	volume own
	v 1 create name=own size=1GiB node=host1 node=host3
	attach 1 own
	fill "$C/host1/mnt/own"
	fails 1 "host1' is up and itself holds split" attach 2 own force=1
	is_whole 1 own
	check "$C/host1/mnt/own"
	v 1 detach name=own
	v 1 delete name=own
	nothing_left
}

test_lost_records_and_lost_extents_are_named() {
	volume lost
	v 1 create name=lost size=1GiB
	sqlite3 "$C/records.db" "DELETE FROM objects WHERE name = 'lost'"
	same "$(v 1 orphans | grep -c '^orphan=0 .*volume=lost')" 2
	on 1 trib extent delete --force host1/lost-0 >/dev/null
	on 1 trib extent delete --force host2/lost-1 >/dev/null ||
		on 1 trib extent delete --force host3/lost-1 >/dev/null
	nothing_left
	v 1 create name=lost size=1GiB
	local node
	node=$(status lost | sed -n 's/^split=1 node=\([^ ]*\) .*/\1/p')
	on 1 trib extent delete --force "$node/lost-1" >/dev/null
	v 1 orphans | grep -q '^orphan=1 .*name=lost-1'
	status lost | grep -q 'split=1 .*state=missing'
	fails 1 ENOENT attach 1 lost
	v 1 delete name=lost
	nothing_left
}

run_tests "$@"
