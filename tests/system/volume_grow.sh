#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes grow in place: mounted and written, from elsewhere, killed half way,
# and not beyond the room there is.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
WRITER_FILES=40 WRITER_SIZE=700000
. "$TOP/tests/writer_lib.sh"
need resize2fs xfs_growfs xfs_repair e2fsck

# sizes NAME: of its extents on their nodes, in MiB
sizes() {
	local file
	for file in "$C"/host?/pool/extents/"$1"-?.data; do
		echo $(($(stat -c %s "$file") >> 20))
	done | tr '\n' ' '
}
df_mib() { df -BM --output=size "$1" | tail -n 1 | tr -dc 0-9; }
record_text() {
	sqlite3 "$C/records.db" "SELECT * FROM objects WHERE name = '$1'"
}
capacity() { status "$1" | grep -o 'capacity=.*'; }

# A volume on two hosts, mounted and written, grows under its writer.
grows_under_a_writer() { # FS
	volume grow
	# MiB of a split before and after. The smallest XFS is 300 MiB; ext4 is grown in
	# an emulated machine, which writes slowly.
	local small=72 large=152
	[ "$1" = ext4 ] || { small=340 large=540; }
	v 1 create name=grow size=$((2 * small))MiB min=2 fs=$1 policy=mfs \
		node=host1 node=host2
	attach 1 grow
	local m=$C/host1/mnt/grow before pid
	fill "$m"
	before=$(df_mib "$m")
	pid=$(status grow | grep -o 'pid=[0-9]*')
	writer_start "$m"
	same "$(v 1 resize name=grow size=$((2 * large))MiB 2>/dev/null)" \
		"capacity=$((2 * large << 20)) behind=0"
	same "$(sizes grow)" "$large $large "
	# The union looks at the room of its branches once a second.
	eventually 30 eval "[ \$(df_mib $m) -gt $((before + 2 * (large - small) - 40)) ]"
	local n
	n=$(cat "$TEST_DIR/written")
	eventually 30 eval "[ \$(cat $TEST_DIR/written) -gt $((n + 2)) ]"
	writer_stop "$m"
	is_whole 1 grow
	check "$m"
	same "$(status grow | grep -o 'pid=[0-9]*')" "$pid"
	same "$(status grow | grep -o 'epoch=[0-9]*')" epoch=1
	# The room is real: more than there was before.
	local i each=$((2 * small / 7 + 4))
	for i in 1 2 3 4 5 6 7; do
		head -c ${each}M /dev/zero >"$m/big-$i"
		sleep 1.1
	done
	sync "$m"/big-*
	v 1 detach name=grow
	for i in 0 1; do
		local file
		file=$(ls "$C"/host?/pool/extents/grow-$i.data)
		case $1 in
		ext4) e2fsck -fn "$file" >"$TEST_DIR/fsck" 2>&1 ;;
		xfs) xfs_repair -n "$file" >"$TEST_DIR/fsck" 2>&1 ;;
		esac || fail "$(cat "$TEST_DIR/fsck")"
	done
	attach 3 grow
	check "$C/host3/mnt/grow"
	(cd "$C/host3/mnt/grow" && sha256sum --quiet -c w/*.sum)
	same "$(cat "$C/host3/mnt/grow"/big-* | wc -c)" $((7 * each << 20))
	v 3 detach name=grow
	v 1 delete name=grow
	nothing_left
}

test_a_mounted_volume_of_ext4_grows_under_a_writer() {
	ext4_grows_mounted || skip "needs CAP_SYS_RESOURCE"
	grows_under_a_writer ext4
}

test_a_mounted_volume_of_xfs_grows_under_a_writer() {
	grows_under_a_writer xfs
}

test_what_may_not_grow_mounted_is_refused_before_anything_grows() {
	! ext4_grows_mounted || skip "has CAP_SYS_RESOURCE"
	volume cap
	v 1 create name=cap size=304MiB min=2 node=host1 node=host2
	attach 1 cap
	fails 1 "EPERM: resize volume 'cap': a mounted ext4 grows only" \
		v 1 resize name=cap size=400MiB
	same "$(sizes cap)" "152 152 "
	is_whole 1 cap
	# From elsewhere the extents may; a mount repeated here does not mind.
	v 2 resize name=cap size=400MiB
	attach 1 cap
	fails 1 EPERM v 1 resize name=cap
	status cap | grep -q 'reason=FileSystemBehind'
	v 1 detach name=cap
	attach 1 cap
	is_whole 1 cap
	v 1 detach name=cap
	v 1 delete name=cap
	nothing_left
}

test_a_volume_that_is_not_mounted_shows_its_new_size_at_the_next_mount() {
	volume rest
	v 1 create name=rest size=304MiB min=2 node=host1 node=host2
	# Never formatted: mkfs does it.
	same "$(v 3 resize name=rest size=400MiB 2>/dev/null)" \
		"capacity=419430400 behind=0"
	attach 1 rest
	fill "$C/host1/mnt/rest"
	local before
	before=$(df_mib "$C/host1/mnt/rest")
	v 1 detach name=rest
	same "$(v 3 resize name=rest size=600MiB 2>/dev/null)" \
		"capacity=629145600 behind=1"
	same "$(sizes rest)" "300 300 "
	attach 3 rest
	is_whole 3 rest
	[ "$(df_mib "$C/host3/mnt/rest")" -gt $((before + 180)) ]
	check "$C/host3/mnt/rest"
	same "$(v 3 resize name=rest 2>/dev/null)" "capacity=629145600 behind=0"
	v 3 detach name=rest
	v 1 delete name=rest
	nothing_left
}

# resize2fs moves data of a file system that is not mounted: half way it is broken.
test_a_signal_does_not_stop_resize2fs() {
	! ext4_grows_mounted || skip "has CAP_SYS_RESOURCE"
	local tools=$TEST_DIR/tools pid rc=0
	volume sig
	v 1 create name=sig size=152MiB node=host1
	attach 1 sig
	fill "$C/host1/mnt/sig"
	v 1 detach name=sig
	v 3 resize name=sig size=252MiB
	mkdir "$tools"
	cat >"$tools/resize2fs" <<-E
		#!/bin/bash
		echo \$\$ >"$TEST_DIR/growing"
		until [ -e "$TEST_DIR/go" ]; do sleep 0.1; done
		$(type -P resize2fs) "\$@" && echo done >>"$TEST_DIR/grown"
	E
	chmod +x "$tools/resize2fs"
	PATH=$tools:$PATH on 1 trib mount sig "$C/host1/mnt/sig" 2>"$TEST_DIR/said" &
	pid=$!
	eventually 30 test -s "$TEST_DIR/growing"
	at_exit touch "$TEST_DIR/go"
	pkill -TERM -f "^trib mount sig $C"
	# Stopped at once it would be gone by now.
	sleep 2
	kill -0 "$(cat "$TEST_DIR/growing")"
	touch "$TEST_DIR/go"
	wait "$pid" || rc=$?
	same "$rc" 7 "$(cat "$TEST_DIR/said")"
	grep -q "stopped before step" "$TEST_DIR/said"
	same "$(cat "$TEST_DIR/grown")" "done"
	# The record knows that it has grown.
	PATH=$tools:$PATH attach 1 sig
	same "$(cat "$TEST_DIR/grown")" "done"
	check "$C/host1/mnt/sig"
	same "$(v 1 resize name=sig 2>/dev/null)" "capacity=264241152 behind=0"
	v 1 detach name=sig
	v 1 delete name=sig
	nothing_left
}

test_grown_from_another_node_its_file_systems_follow_where_it_is_mounted() {
	volume far
	v 1 create name=far fs=xfs size=608MiB min=2 node=host1 node=host2
	attach 1 far
	local m=$C/host1/mnt/far before
	fill "$m"
	before=$(df_mib "$m")
	same "$(v 2 resize name=far size=704MiB 2>/dev/null)" \
		"capacity=738197504 behind=1"
	same "$(sizes far)" "352 352 "
	status far 1 | grep -q 'reason=FileSystemBehind'
	! status far 2 | grep -q 'reason=FileSystemBehind' || false
	# A device that looks for its server, which was started anew, is not broken.
	blockd_signal 2 KILL
	blockd_start 2
	same "$(v 1 resize name=far size=704MiB 2>/dev/null)" \
		"capacity=738197504 behind=0"
	eventually 30 eval "[ \$(df_mib $m) -gt $((before + 80)) ]"
	is_whole 1 far
	# A mount that is repeated does it as well.
	v 2 resize name=far size=800MiB
	attach 1 far
	eventually 30 eval "[ \$(df_mib $m) -gt $((before + 170)) ]"
	is_whole 1 far
	check "$m"
	v 1 detach name=far
	# Read-only it waits.
	attach 1 far read_only=1
	same "$(v 1 resize name=far size=820MiB 2>/dev/null)" \
		"capacity=859832320 behind=1"
	check "$m"
	v 1 detach name=far
	attach 1 far
	is_whole 1 far
	v 1 detach name=far
	v 1 delete name=far
	nothing_left
}

test_growing_beyond_the_room_is_refused_and_changes_nothing() {
	volume full
	v 1 create name=full fs=xfs size=640MiB min=2 node=host1 node=host2
	attach 1 full
	fill "$C/host1/mnt/full"
	local record
	record=$(record_text full)
	fails 1 "ENOSPC: resize volume 'full': 2.00 GiB asked for; in its pools it could become 1.25 GiB, from 640.00 MiB now. They have 320.00 MiB in host1/main, 320.00 MiB in host2/main free" \
		v 1 resize name=full size=2GiB
	fails 1 "ERANGE" v 1 resize name=full size=639MiB
	fails 1 "cannot shrink to 64.00 MiB" v 2 resize name=full size=64MiB
	fails 1 "ERANGE" v 1 resize name=full size=2EiB
	same "$(v 1 resize name=full size=640MiB 2>/dev/null)" \
		"capacity=671088640 behind=0"
	same "$(record_text full)" "$record"
	same "$(sizes full)" "320 320 "
	fails 1 ENOENT v 1 resize name=none size=1GiB
	# The volume can grow to the size that the refusal named.
	v 1 resize name=full size=1280MiB
	same "$(sizes full)" "640 640 "
	is_whole 1 full
	check "$C/host1/mnt/full"
	v 1 detach name=full
	v 1 delete name=full
	nothing_left
}

test_resize_killed_at_every_step_is_finished() {
	volume kr
	prepare() {
		v 1 create name=kr fs=xfs size=608MiB min=2 node=host1 node=host2 >/dev/null 2>&1
		attach 1 kr >/dev/null 2>&1
		fill "$C/host1/mnt/kr"
	}
	settle() {
		case $(($1 % 4)) in
		0) # Repeated.
			v 1 resize name=kr size=808MiB >/dev/null 2>&1 ;;
		1) # Another size.
			v 1 resize name=kr size=848MiB >/dev/null 2>&1 ;;
		2) # Finished elsewhere, and by a mount.
			v 2 resize name=kr size=808MiB >/dev/null 2>&1
			attach 1 kr >/dev/null 2>&1 ;;
		3) # Mounted with what there is, then finished.
			v 1 detach name=kr >/dev/null 2>&1
			attach 2 kr >/dev/null 2>&1
			check "$C/host2/mnt/kr"
			v 2 detach name=kr >/dev/null 2>&1
			attach 1 kr >/dev/null 2>&1
			v 1 resize name=kr size=808MiB >/dev/null 2>&1 ;;
		esac
		is_whole 1 kr
		check "$C/host1/mnt/kr"
		case $(sizes kr)$(capacity kr) in
		"404 404 capacity=847249408" | *" capacity=889192448") ;;
		*) fail "$(sizes kr) $(capacity kr)" ;;
		esac
		[ "$(df_mib "$C/host1/mnt/kr")" -gt 650 ] ||
			eventually 30 eval "[ \$(df_mib $C/host1/mnt/kr) -gt 650 ]"
		v 1 detach name=kr >/dev/null 2>&1
		v 1 delete name=kr >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 resize name=kr size=808MiB
	v 1 detach name=kr
	v 1 delete name=kr
	nothing_left
}

test_resize_killed_around_every_write_of_the_record() {
	volume rr
	local n every
	every=$(every)
	v 1 create name=rr fs=xfs size=640MiB min=2 node=host1 node=host2
	attach 1 rr
	fill "$C/host1/mnt/rr"
	for ((n = 1 + RANDOM % every; n < 16; n += every)); do
		killed_at_syscall fdatasync $n 1 resize name=rr size=$((640 + 40 * n))MiB || break
		[ $((n % 2)) = 0 ] || v 1 detach name=rr
		attach 1 rr >/dev/null 2>&1
		v 1 resize name=rr size=$((640 + 40 * n))MiB >/dev/null 2>&1
		same "$(sizes rr)" "$((320 + 20 * n)) $((320 + 20 * n)) "
		is_whole 1 rr
		check "$C/host1/mnt/rr"
	done
	[ $n -gt 4 ] || fail "fdatasync was called $n times only"
	v 1 detach name=rr
	v 1 delete name=rr
	nothing_left
}

test_growing_with_a_silent_node_is_finished_later() {
	volume wait
	v 1 create name=wait size=304MiB min=2 node=host1 node=host3
	attach 1 wait
	fill "$C/host1/mnt/wait"
	v 1 detach name=wait
	# Silent before the plan: nothing is begun.
	node_silent 3
	fails 1 EHOSTUNREACH v 1 resize name=wait size=504MiB
	same "$(capacity wait)" capacity=318767104
	same "$(sizes wait)" "152 152 "
	node_back 3
	# Silent after it: what has grown has, the rest is planned.
	v 1 resize name=wait size=504MiB kill=3 2>/dev/null || true
	node_silent 3
	fails 1 "it is not finished (repeat \`trib volume resize wait --size 528482304\`" \
		v 1 resize name=wait size=504MiB
	same "$(sizes wait)" "252 152 "
	same "$(capacity wait)" capacity=423624704
	status wait | grep -q 'condition=Resized reason=Unfinished'
	fails 1 EHOSTUNREACH v 1 resize name=wait size=600MiB
	node_back 3
	v 1 resize name=wait
	same "$(sizes wait)" "252 252 "
	attach 3 wait
	is_whole 3 wait
	check "$C/host3/mnt/wait"
	v 3 detach name=wait
	v 1 delete name=wait
	nothing_left
}

test_room_that_is_taken_meanwhile_leaves_a_true_record() {
	volume race
	v 1 create name=race size=400MiB min=2 node=host1 node=host2
	# The plan is written, then somebody takes what it counted on.
	v 1 resize name=race size=1200MiB kill=2 2>/dev/null || true
	on 1 trib extent create host2/taken --size 300MiB --quiet
	at_exit on 1 trib extent delete host2/taken
	# host1's has grown by then; what is left is told.
	fails 1 "it has grown to 800.00 MiB, no further: 1.17 GiB asked for; in its pools it could become 980.00 MiB" \
		v 1 resize name=race size=1200MiB
	same "$(sizes race)" "600 200 "
	same "$(capacity race)" capacity=838860800
	! status race | grep condition= || false
	v 1 resize name=race size=980MiB
	same "$(sizes race)" "640 340 "
	on 1 trib extent delete host2/taken
	attach 1 race
	is_whole 1 race
	v 1 detach name=race
	v 1 delete name=race
	nothing_left
}

run_tests "$@"
