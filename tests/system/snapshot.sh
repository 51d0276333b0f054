#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Snapshots of mounted volumes on three nodes, and what is made of them.
. "$(dirname "$0")/../lib.sh"
need_root
need mkfs.xfs python3

# Pools that cut at once: a directory with reflinks on host1, where the volumes
# are mounted (loop devices, which are frozen), raw ones on the others.
cow=$TEST_DIR/cow
mkdir "$cow"
truncate -s 1G "$cow.img"
at_exit umount "$cow"
mkfs.xfs -q "$cow.img" && mount -o loop "$cow.img" "$cow" ||
	skip_all "cannot mount an XFS here"
. "$TOP/tests/volume_lib.sh"
mkdir "$cow/pool"
on 1 trib pool create host1/cow "$cow/pool" --quiet || exit 1
for i in 2 3; do
	truncate -s 1G "$C/host$i/cow.img"
	on 1 trib pool create "host$i/cow" "$C/host$i/cow.img" --quiet || exit 1
done

t() { on 1 trib "$@" --quiet; }
# branches HOST VOLUME: the data directories of its branches, one a line
branches() {
	local i
	for i in 0 1 2; do
		[ ! -d "$C/host$1/run/volumes/$2/branch-$i/data" ] ||
			echo "$C/host$1/run/volumes/$2/branch-$i/data"
	done
}
# seq_check HOST VOLUME: the number it holds; of one instant, and whole
seq_check() {
	# shellcheck disable=SC2046
	python3 "$TOP/tests/seq_writer.py" check "$C/host$1/mnt/$2" \
		$(branches "$1" "$2" | head -n 3)
}
seq_start() { # HOST VOLUME
	rm -f "$TEST_DIR/stop"
	# shellcheck disable=SC2046
	python3 "$TOP/tests/seq_writer.py" write "$TEST_DIR/stop" \
		"$C/host$1/mnt/$2" $(branches "$1" "$2") >"$TEST_DIR/last" &
	SEQ=$!
	at_exit touch "$TEST_DIR/stop"
	eventually 30 test -s "$C/host$1/mnt/$2/w/1"
}
# seq_goes_on HOST VOLUME: what was begun after this call is written everywhere
seq_goes_on() {
	local first
	first=$(seq_now "$@")
	eventually 30 seq_is_past "$first" "$@"
}
seq_now() { local all; all=$(branches "$@"); cat "${all%%$'\n'*}/seq"; }
seq_is_past() { [ "$((10#$(seq_now "${@:2}")))" -gt $((10#$1 + 1)) ]; }
seq_stop() {
	touch "$TEST_DIR/stop"
	wait $SEQ || fail "the writer failed"
}
df_mib() { df -BM --output=size "$1" | tail -n 1 | tr -dc 0-9; }
# Nothing is in any pool.
pools_empty() {
	same "$(t volume orphans --json | jq length)" 0 "orphans"
	same "$(t extent list --json | jq length)" 0 "extents"
}
drop() { at_exit on 1 trib snapshot delete "$1" --quiet; }

test_a_written_volume_of_three_nodes_is_cut_at_one_instant() {
	local m a b n
	volume seq; volume r; drop s1; drop s2
	t volume create seq --size 384MiB --splits 3 --in-pool cow
	attach 1 seq >/dev/null 2>&1
	m=$C/host1/mnt/seq
	seq_start 1 seq
	# From any machine; the writer goes on.
	on 2 trib snapshot create s1 seq --quiet
	seq_goes_on 1 seq
	on 3 trib snapshot create s2 seq --quiet
	seq_goes_on 1 seq
	seq_stop
	[ "$(cat "$TEST_DIR/last")" -gt 2 ]
	n=$(seq_check 1 seq)
	same "$n" "$(cat "$TEST_DIR/last")"
	# Restored larger, on another machine, beside its source.
	t snapshot restore s1 r --size 512MiB
	attach 2 r >/dev/null 2>&1
	a=$(seq_check 2 r)
	[ "$a" -gt 0 ] && [ "$a" -lt "$n" ]
	is_whole 2 r
	[ "$(df_mib "$C/host2/mnt/r")" -gt $(($(df_mib "$m") + 80)) ]
	echo more >"$C/host2/mnt/r/more"
	v 2 detach name=r
	# Back to the later one: the volume is mounted nowhere.
	! t snapshot revert s2 2>"$TEST_DIR/err" || false
	grep -q "attached on node 'host1'" "$TEST_DIR/err"
	v 1 detach name=seq
	t snapshot revert s2
	attach 1 seq >/dev/null 2>&1
	b=$(seq_check 1 seq)
	[ "$b" -gt "$a" ] && [ "$b" -lt "$n" ]
	is_whole 1 seq
	v 1 detach name=seq
	echo "# cut at $a and $b of $n"
	# In any order, and each lives without the others.
	t snapshot delete s1
	t volume delete seq
	attach 3 r >/dev/null 2>&1
	same "$(seq_check 3 r)" "$a"
	same "$(cat "$C/host3/mnt/r/more")" more
	v 3 detach name=r
	t volume create late --from-snapshot s2
	volume late
	attach 1 late >/dev/null 2>&1
	same "$(seq_check 1 late)" "$b"
	v 1 detach name=late
	t snapshot delete s2
	t volume delete r
	t volume delete late
	pools_empty
	nothing_left
}

test_killed_at_every_step_a_snapshot_is_made_or_forgotten() {
	volume k; drop sk
	t volume create k --size 192MiB --splits 3 --in-pool cow
	attach 1 k >/dev/null 2>&1
	prepare() { :; }
	settle() {
		[ $(($1 % 2)) = 0 ] || v 2 snapshot name=sk from=k >/dev/null 2>&1
		v 2 unsnapshot name=sk >/dev/null 2>&1
		same "$(t extent list --json | jq length)" 3 "extents"
		# Nothing waits.
		timeout 60 dd if=/dev/zero of="$C/host1/mnt/k/f" bs=64k count=4 conv=fsync 2>/dev/null
	}
	kill_at_every 2 snapshot name=sk from=k
	v 1 detach name=k
	t snapshot delete sk
	t volume delete k
	pools_empty
}

extents_are() { same "$(t extent list --json | jq length)" "$1" "extents"; }

# Repeated, or given up: what a killed one has done is no matter.
test_killed_at_every_step_a_group_and_a_clone_are_made_or_forgotten() {
	volume k1; volume k2; volume kc
	at_exit on 1 trib snapshot group delete gk --quiet
	t volume create k1 --size 128MiB --splits 2 --in-pool cow
	t volume create k2 --size 64MiB --layout linear --in-pool cow
	prepare() { :; }
	settle() {
		[ $(($1 % 2)) = 0 ] || v 3 group name=gk of=k1 of=k2 >/dev/null 2>&1
		v 2 ungroup name=gk >/dev/null 2>&1
		extents_are 3
		same "$(t snapshot list --all --json | jq length)" 0 "snapshots"
	}
	kill_at_every 2 group name=gk of=k1 of=k2
	t snapshot group delete gk
	settle() {
		[ $(($1 % 2)) = 0 ] || v 3 clone name=kc from=k1 >/dev/null 2>&1
		v 2 delete name=kc >/dev/null 2>&1
		extents_are 3
		same "$(t snapshot list --all --json | jq length)" 0 "snapshots"
	}
	kill_at_every 2 clone name=kc from=k1
	t volume delete kc
	t volume delete k1
	t volume delete k2
	pools_empty
}

test_killed_at_every_step_a_revert_is_finished_by_the_next() {
	volume kr; drop skr
	t volume create kr --size 128MiB --splits 2 --in-pool cow
	attach 1 kr >/dev/null 2>&1
	echo old >"$C/host1/mnt/kr/f"
	v 1 detach name=kr
	t snapshot create skr kr
	prepare() {
		# The last one is done first: then there is something to revert.
		v 3 revert name=kr from=skr >/dev/null 2>&1
		[ $(($1 % 2)) = 1 ] || return 0
		attach 2 kr >/dev/null 2>&1
		same "$(cat "$C/host2/mnt/kr/f")" old
		echo new >"$C/host2/mnt/kr/f"
		v 2 detach name=kr 2>/dev/null
	}
	settle() { extents_are 4; }
	kill_at_every 2 revert name=kr from=skr
	attach 1 kr >/dev/null 2>&1
	same "$(cat "$C/host1/mnt/kr/f")" old
	v 1 detach name=kr
	t snapshot delete skr
	t volume delete kr
	pools_empty
}

test_a_group_of_volumes_is_one_instant() {
	local cuts
	volume g1; volume g2
	at_exit on 1 trib snapshot group delete g --quiet
	t volume create g1 --size 128MiB --splits 2 --in-pool cow
	t volume create g2 --size 128MiB --splits 2 --layout linear --in-pool cow
	t snapshot group create g g2 g1
	cuts=$(t snapshot list --json | jq -r '.[].status.cut' | sort -u | wc -l)
	same "$cuts" 1 "instants"
	same "$(t snapshot list g1 --json | jq -r '.[0].metadata.name')" g-0
	! t snapshot delete g-0 2>"$TEST_DIR/err" || false
	grep -q "member of group snapshot 'g'" "$TEST_DIR/err"
	t snapshot group delete g
	t volume delete g1
	t volume delete g2
	pools_empty
}

# put_in_turn DEVICE FLAG OFFSET...: number N, from the next one on, at each OFFSET, each
# acknowledged before the next is begun, until $TEST_DIR/go is gone
put_in_turn() {
	: >"$TEST_DIR/go"
	python3 - "$TEST_DIR/go" "$@" <<-'END' &
		import mmap, os, sys
		go, path, flag, *offsets = sys.argv[1:]
		fd = os.open(path, os.O_RDWR | os.O_DIRECT | getattr(os, flag))
		block = mmap.mmap(-1, 4096)
		os.preadv(fd, [block], int(offsets[0]))
		n = int.from_bytes(block[:8], "little")
		while os.path.exists(go):
		    n += 1
		    block[:8] = n.to_bytes(8, "little")
		    for offset in offsets:
		        if os.pwrite(fd, block, int(offset)) != len(block):
		            sys.exit("a short write")
	END
	writers+=($!)
	at_exit rm -f "$TEST_DIR/go"
}
# numbers DEVICE OFFSET...
numbers() {
	local at
	for at in "${@:2}"; do
		dd if="$1" bs=4k skip=$((at / 4096)) count=1 iflag=direct status=none | od -An -t u8 -N 8
	done | tr -s ' \n' ' '
}
is_past() { [ "$(numbers "${@:2}")" -gt "$1" ]; } # NUMBER DEVICE OFFSET
# A copy has all that was written until an instant: N at the first places, then N - 1.
of_one_instant() { # NUMBER...
	local before=$1 n
	for n in "$@"; do
		[ "$n" -le "$before" ] || fail "of several instants: $*"
		before=$n
	done
	[ $(($1 - before)) -le 1 ] || fail "of several instants: $*"
}
# With device mapper, as tests/vm/volume_strangers.sh has it, host1's extents go by their
# files, past its blockd: the cut has to hold the device of each, and the others' on their
# nodes.
has_a_device_for_each() { # PARTS
	[ "${TRIB_VM:-}" = 1 ] || return 0
	same "$(sed -n 's/^transport=//p' "$C/host1/run/initiator/dev-0.joined/"*.attachment |
		sort | uniq -c | awk '{printf "%s %s ", $1, $2}')" "$1 "
}

# starts VOLUME [BYTES]: "NODE OFFSET" of the first byte of each extent in the device: BYTES
# apart, or end to end
starts() {
	t volume show "$1" --json | jq -r '.record.status.splits[] | "\(.node) \(.size)"' | {
		at=0
		while read -r node size; do
			echo "$node $at"
			at=$((at + ${2:-size}))
		done
	}
}
# Writers make the same number of each extent in turn: one of all, and one of host1's
# alone, which nobody else holds up.
is_cut_at_one_instant() { # FLAG BYTES OPTION...
	local device copy i node at writer writers first=0 all=() here=() rounds=3
	[ "${TRIB_VM:-}" != 1 ] || [ "${LONG_TESTS:-}" ] || rounds=1 # emulated
	volume dev; volume devc; drop sdev
	t volume create dev --size 384MiB "${@:3}" --in-pool cow
	v 1 attach name=dev 2>/dev/null
	device=$(v 1 device name=dev)
	while read -r node at; do
		all+=($at)
		[ $node != host1 ] || here+=($((at + 8192)))
	done < <(starts dev $2)
	for ((i = 0; i < rounds; i++)); do
		writers=()
		put_in_turn "$device" "$1" "${all[@]}"
		put_in_turn "$device" "$1" "${here[@]}"
		writers_go_on
		t snapshot create sdev dev
		writers_go_on
		rm "$TEST_DIR/go"
		for writer in "${writers[@]}"; do wait "$writer" || fail "a writer failed"; done
		t volume create devc --from-snapshot sdev
		v 2 attach name=devc 2>/dev/null
		copy=$(v 2 device name=devc)
		echo "# $(numbers "$copy" "${all[@]}" "${here[@]}")"
		# shellcheck disable=SC2046
		of_one_instant $(numbers "$copy" "${all[@]}")
		# shellcheck disable=SC2046
		of_one_instant $(numbers "$copy" "${here[@]}")
		is_past "$first" "$copy" 0
		first=$(numbers "$copy" 0)
		v 2 detach name=devc 2>/dev/null
		t volume delete devc
		t snapshot delete sdev
	done
}
writers_go_on() {
	local at
	for at in "${all[0]}" "${here[0]}"; do
		eventually 60 is_past $(($(numbers "$device" "$at") + 5)) "$device" "$at"
	done
}
test_a_snapshot_of_a_linear_device_is_one_instant() {
	is_cut_at_one_instant O_RDWR "" --layout linear --splits 4 --share-pools \
		--on host1 --on host2
	has_a_device_for_each "2 fuse 2 loop"
	v 1 detach name=dev 2>/dev/null
	t volume delete dev
	pools_empty
	nothing_left
}
test_a_snapshot_of_a_striped_device_is_one_instant() {
	local device
	is_cut_at_one_instant O_DSYNC 65536 --layout stripe --stripe-width 3 --stripe-unit 64KiB
	device=$(v 1 device name=dev)
	# Back to an instant, in place.
	dd if=/dev/zero of="$device" bs=64k count=3 oflag=direct conv=notrunc,fsync status=none
	t snapshot create sdev dev
	head -c 196608 /dev/urandom | dd of="$device" bs=64k oflag=direct conv=notrunc,fsync iflag=fullblock status=none
	v 1 detach name=dev 2>/dev/null
	t snapshot revert sdev
	v 1 attach name=dev 2>/dev/null
	same "$(dd if="$(v 1 device name=dev)" bs=64k count=3 iflag=direct status=none | tr -d '\0' | wc -c)" 0
	v 1 detach name=dev 2>/dev/null
	t snapshot delete sdev
	t volume delete dev
	pools_empty
	nothing_left
}

# While a snapshot is taken, the node of a mounted device freezes the file system over all
# of its extents. So no copy has a journal to be replayed. Without device mapper, that is
# not frozen: each copy has.
test_a_file_system_over_several_extents_is_frozen_for_a_snapshot() {
	local at=$C/host1/mnt/fz uuid writer
	volume fz; volume fzc; drop sfz
	t volume create fz --size 384MiB --layout linear --splits 3 --share-pools --fs ext4 \
		--in-pool cow --on host1 --on host2
	attach 1 fz >/dev/null 2>&1
	uuid=$(t volume show fz --json | jq -r '.record.status.splits[0].device // ""')
	at_exit rm -f "$TEST_DIR/go"
	if [ "${TRIB_VM:-}" = 1 ]; then
		a_copy_is frozen
		is_thawed_whatever_dies
		# Somebody else has suspended it: the snapshot is made without.
		a_copy_is suspended
		a_branch_of_another_node_is_frozen
	else
		same "$uuid" ""
		a_copy_is running
	fi
	v 1 detach name=fz 2>/dev/null
	same "$(t volume show fz --json | jq -c '.record.status.attachments // []')" "[]"
	v 1 delete name=fz 2>/dev/null
	pools_empty
	nothing_left
}
# try_again SNAPSHOT VOLUME: in $said what is said of it. A machine that is too slow for its
# limits makes another one.
try_again() {
	local i
	said=$(t snapshot show "$1")
	for ((i = 0; i < 20; i++)); do
		case $said in
		*"frozen already"*) break ;;
		*"was not frozen: it was let go"* | *"was not frozen: "*" in time"*) ;;
		*) break ;;
		esac
		echo "# slow: $(grep note <<<"$said")"
		v 1 unsnapshot name="$1" 2>/dev/null
		v 1 snapshot name="$1" from="$2" >/dev/null 2>&1
		said=$(t snapshot show "$1")
	done
}
# A union's, too. The node's own branch is frozen by its blockd, as it knows that one.
a_branch_of_another_node_is_frozen() {
	local said
	volume fzu; drop sfu
	t volume create fzu --size 128MiB --splits 2 --in-pool cow --on host1 --on host2
	attach 1 fzu >/dev/null 2>&1
	same "$(t volume show fzu --json | jq -c '[.record.status.splits[] |
		[.node, (.device // "" | startswith("TRIB-"))]] | sort')" \
		'[["host1",false],["host2",true]]'
	v 1 snapshot name=sfu from=fzu >/dev/null 2>&1
	try_again sfu fzu
	case $said in *"was not frozen"*) fail "$said" ;; esac
	same "$(t snapshot show sfu --json | jq -r '.record.status.conditions[] |
		select(.type == "Frozen").status')" True
	v 1 unsnapshot name=sfu 2>/dev/null
	v 1 detach name=fzu 2>/dev/null
	same "$(t volume show fzu --json | jq -c '[.record.status.splits[] | .device // ""]')" '["",""]'
	v 1 delete name=fzu 2>/dev/null
}
a_copy_is() { # frozen|suspended|running
	local said journal=clean device
	writer_starts
	[ $1 != suspended ] || dmsetup suspend -u "$uuid"
	v 1 snapshot name=sfz from=fz >/dev/null 2>&1
	[ $1 != suspended ] || dmsetup resume -u "$uuid"
	try_again sfz fz
	case $1:$said in
	suspended:*"was not frozen:"*"frozen already"*) ;;
	suspended:* | *:*"was not frozen:"*) fail "$said" ;;
	esac
	goes_on
	writer_ends
	v 1 create name=fzc snapshot=sfz size=384MiB layout=linear fs=ext4 >/dev/null 2>&1
	v 2 attach name=fzc 2>/dev/null
	device=$(v 2 device name=fzc)
	! dumpe2fs -h "$device" 2>/dev/null | grep -q needs_recovery || journal=used
	same "$1 $journal" "$1 $([ $1 = running ] && echo used || echo clean)"
	v 2 detach name=fzc 2>/dev/null
	v 1 delete name=fzc 2>/dev/null
	v 1 unsnapshot name=sfz 2>/dev/null
}
writer_starts() {
	touch "$TEST_DIR/go"
	while [ -e "$TEST_DIR/go" ]; do
		date +%s.%N >"$at/f" || exit
		sync "$at/f" || exit
	done &
	writer=$!
	eventually 60 test -s "$at/f"
	goes_on
}
writer_ends() {
	rm "$TEST_DIR/go"
	wait $writer || fail "a write failed"
}
written() { cat "$at/f"; }
goes_on() {
	local now
	now=$(written)
	is_another() { [ "$(written)" != "$now" ]; }
	eventually 60 is_another
}
is_suspended() { [ "$(dmsetup info -c --noheadings -o suspended -u "$uuid")" = Suspended ]; }
api_of() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$C/host$1/run/blockd.sock" "${@:2}"; }
# hold MS: the device, by the blockd of its node
hold() {
	HOLD=$(cat /proc/sys/kernel/random/uuid)
	ask_hold "$1" "$uuid" "$HOLD"
	is_suspended
}
ask_hold() { # MS [DEVICE [ID]]
	api_of 1 HoldWrites id="${3:-$(cat /proc/sys/kernel/random/uuid)}" device="${2:-$uuid}" \
		timeout_ms="$1" >/dev/null
}
held() { api_of 1 ReleaseWrites id="$HOLD" | grep -q '"held": *true'; }
is_thawed_whatever_dies() {
	writer_starts
	fails 1 "" ask_hold 1000 TRIB-none
	fails 1 "no UUID of ours" ask_hold 1000 LVM-1
	# Two at once: the second is refused, and the first lasts.
	hold 10000
	fails 1 "frozen already" ask_hold 10000
	is_suspended
	held
	goes_on
	# The caller: its time is up.
	hold 10000
	goes_on
	! held || fail "it was not held any more"
	# The process that holds it: blockd lets it go.
	hold 10000
	pkill -KILL -x trib-freeze
	is_suspended
	held
	goes_on
	# blockd: that process lets it go. Both: the next blockd does.
	hold 10000
	node_silent 1
	goes_on
	node_back 1
	hold 10000
	pkill -KILL -x trib-freeze
	node_silent 1
	is_suspended
	node_back 1
	goes_on
	writer_ends
}

# A backup takes the changed blocks of a device of several extents, which has
# grown meanwhile, and puts them over the copy that it has.
test_changed_blocks_of_a_device_make_the_newer_copy_of_the_older() {
	local how i
	# scatter DEVICE SEED MIB: random blocks, some of them over the ends of units
	scatter() {
		python3 - "$@" <<-'END'
			import os, random, sys
			fd = os.open(sys.argv[1], os.O_WRONLY)
			random.seed(int(sys.argv[2]))
			for _ in range(60):
			    n = random.choice((4096, 12288, 69632, 200704))
			    at = random.randrange(0, int(sys.argv[3]) * 2**20 - n, 4096)
			    os.pwrite(fd, random.randbytes(n), at)
			os.fsync(fd)
		END
	}
	# copy_of SNAPSHOT VOLUME: into SNAPSHOT.img, by a volume of that name
	copy_of() {
		t snapshot restore "$1" "$2"
		v 2 attach "name=$2" 2>/dev/null
		dd if="$(v 2 device "name=$2")" of="$TEST_DIR/$1.img" bs=1M iflag=direct status=none
		v 2 detach "name=$2" 2>/dev/null
		t volume delete "$2"
	}
	# put_ranges FROM TO: the ranges on standard input
	put_ranges() {
		python3 -c '
import sys
a, b = open(sys.argv[1], "rb"), open(sys.argv[2], "r+b")
total = 0
for line in sys.stdin:
    at, n = map(int, line.split())
    a.seek(at); b.seek(at); b.write(a.read(n)); total += n
print(total)' "$1" "$2"
	}
	volume cb; volume cbr; drop cb1; drop cb2
	for how in "--layout stripe --stripe-width 3 --stripe-unit 64KiB" \
		"--layout linear --splits 2"; do
		# shellcheck disable=SC2086
		t volume create cb --size 192MiB $how --in-pool cow
		v 1 attach name=cb 2>/dev/null
		scatter "$(v 1 device name=cb)" 1 192
		t snapshot create cb1 cb
		t volume resize cb --size 390MiB
		scatter "$(v 1 device name=cb)" 2 384
		t snapshot create cb2 cb
		copy_of cb1 cbr
		copy_of cb2 cbr
		truncate -r "$TEST_DIR/cb2.img" "$TEST_DIR/cb1.img"
		! cmp -s "$TEST_DIR/cb1.img" "$TEST_DIR/cb2.img" || fail "nothing has changed"
		i=$(v 1 ranges name=cb2 from=cb1 | put_ranges "$TEST_DIR/cb2.img" "$TEST_DIR/cb1.img")
		cmp "$TEST_DIR/cb1.img" "$TEST_DIR/cb2.img"
		# The changed blocks are not simply all of them.
		[ "$i" -lt $((160 << 20)) ] || fail "$i bytes have changed"
		# A first backup: what has data, over zeroes.
		rm "$TEST_DIR/cb1.img"
		truncate -r "$TEST_DIR/cb2.img" "$TEST_DIR/cb1.img"
		v 1 ranges name=cb2 | put_ranges "$TEST_DIR/cb2.img" "$TEST_DIR/cb1.img" >/dev/null
		cmp "$TEST_DIR/cb1.img" "$TEST_DIR/cb2.img"
		v 1 detach name=cb 2>/dev/null
		t snapshot delete cb1
		t snapshot delete cb2
		t volume delete cb
	done
	pools_empty
	nothing_left
}

# A file system on a device of two hosts: snapshots of it while a writer works,
# mounted beside it with the same UUID, and back in place.
test_the_file_system_of_a_device_is_snapshot_cloned_and_reverted() {
	local fs at=$C/host1/mnt/fsd i
	for fs in xfs ext4; do
		volume fsd; volume fsdc; volume fsdr; drop sfsd
		t volume create fsd --size 400MiB --layout stripe --fs $fs --in-pool cow
		attach 1 fsd >/dev/null 2>&1
		fill "$at"
		seq_start 1 fsd
		for i in 1 2; do
			seq_goes_on 1 fsd
			t snapshot create sfsd fsd
			t snapshot restore sfsd fsdr
			attach 1 fsdr >/dev/null 2>&1
			check "$C/host1/mnt/fsdr"
			seq_check 1 fsdr
			v 1 detach name=fsdr 2>/dev/null
			# The journal is replayed: now nothing is left to mend.
			t volume check fsdr >/dev/null
			t volume delete fsdr
			[ $i = 2 ] || t snapshot delete sfsd
		done
		seq_stop
		t volume clone fsd fsdc --size 600MiB
		attach 1 fsdc >/dev/null 2>&1
		check "$C/host1/mnt/fsdc"
		[ "$(df_mib "$C/host1/mnt/fsdc")" -gt 450 ]
		rm -r "$at/d"
		check "$C/host1/mnt/fsdc"
		v 1 detach name=fsdc 2>/dev/null
		v 1 detach name=fsd 2>/dev/null
		t snapshot revert sfsd
		attach 3 fsd >/dev/null 2>&1
		check "$C/host3/mnt/fsd"
		v 3 detach name=fsd 2>/dev/null
		t volume delete fsdc
		t snapshot delete sfsd
		t volume delete fsd
	done
	pools_empty
	nothing_left
}

test_a_clone_and_its_source_are_mounted_side_by_side() {
	volume x; volume y
	t volume create x --size 320MiB --fs xfs --in-pool cow
	attach 1 x >/dev/null 2>&1
	fill "$C/host1/mnt/x"
	t volume clone x y
	attach 1 y >/dev/null 2>&1
	check "$C/host1/mnt/y"
	rm "$C/host1/mnt/x/d/1"
	echo other >"$C/host1/mnt/y/d/1"
	! [ -e "$C/host1/mnt/x/d/1" ] || false
	is_whole 1 x
	is_whole 1 y
	same "$(t snapshot list --all --json | jq length)" 0
	t volume limit y --iops 100 --bandwidth 10MiB
	same "$(t volume show y --json | jq -c .record.spec.limits)" \
		'{"iops":100,"bytesPerSecond":10485760}'
	t volume limit y --iops none --bandwidth none
	v 1 detach name=x
	v 1 detach name=y
	t volume delete x
	attach 2 y >/dev/null 2>&1
	same "$(cat "$C/host2/mnt/y/d/1")" other
	v 2 detach name=y
	t volume delete y
	pools_empty
	nothing_left
}

# In a pool that has to copy, what is not written to meanwhile.
test_a_pool_without_reflinks_copies() {
	local rc=0
	volume d; volume e
	t volume create d --size 128MiB --splits 2 --in-pool main
	attach 1 d >/dev/null 2>&1
	fill "$C/host1/mnt/d"
	t snapshot create sd d 2>"$TEST_DIR/err" || rc=$?
	[ $rc != 0 ] || skip "the pools' file system has reflinks"
	same $rc 6 "$(cat "$TEST_DIR/err")" # in use
	same "$(t snapshot list --json | jq length)" 0
	v 1 detach name=d
	t snapshot create sd d
	drop sd
	t volume delete d
	eventually 30 eval "on 1 trib snapshot show sd --json | grep -q '\"Ready\"'"
	t snapshot restore sd e
	t snapshot delete sd
	attach 2 e >/dev/null 2>&1
	check "$C/host2/mnt/e"
	v 2 detach name=e
	t volume delete e
	pools_empty
	nothing_left
}

# leave_room POOL MIB: fillers take what each host's pool has beyond that
leave_room() {
	local i free
	for i in 1 2 3; do
		free=$(t pool list "host$i" --json |
			jq "[.[] | select(.name == \"$1\")][0].available / 1048576 | floor")
		volume "filler-$1-$i"
		t volume create "filler-$1-$i" --size "$((free - $2))MiB" --layout linear \
			--in-pool "$1" --on "host$i"
	done
}
room_again() {
	local i
	for i in 1 2 3; do t volume delete "filler-$1-$i"; done
}
# pools_of VOLUME: of its splits, sorted
pools_of() { t volume show "$1" --json | jq -r '.record.status.splits[].pool' | sort | tr '\n' ' '; }
no_copying_is_left() {
	same "$(t extent list --json | jq '[.[] | select(.kind == "snapshot" and .export.active)] | length')" 0
}
# copying MEMBER: that of a split of "to" that is being copied
copying() {
	t volume show to --json 2>/dev/null | jq -r \
		"[.record.status.splits[] | select(.state != \"Planned\" and .copying)][0].$1" |
		grep '^host.$' >"$TEST_DIR/copying"
}
limit_snapshots() { # BANDWIDTH
	local name
	for name in $(t extent list --json |
		jq -r '.[] | select(.kind == "snapshot") | .node + "/" + .name'); do
		t extent limit "$name" --bandwidth "$1"
	done
}

test_a_restore_and_a_clone_go_to_other_pools_where_the_source_has_no_room() {
	local how m=$C/host1/mnt
	for how in "--splits 2" "--layout linear --fs xfs"; do
		volume from; volume to; drop sfrom
		# shellcheck disable=SC2086
		t volume create from --size 320MiB --in-pool cow $how
		attach 1 from >/dev/null 2>&1
		fill "$m/from"
		t snapshot create sfrom from
		rm "$m/from/d/1"
		sync "$m/from/d"
		leave_room cow 100
		# From a snapshot, and from a volume that is in use.
		on 1 trib snapshot restore sfrom to >"$TEST_DIR/said"
		grep -q '^ *0 *host. *main .* copied from node host' "$TEST_DIR/said" ||
			fail "$(cat "$TEST_DIR/said")"
		same "$(pools_of to | tr -d ' ')" "$(pools_of from | tr -d ' ' | sed 's/cow/main/g')"
		no_copying_is_left
		attach 2 to >/dev/null 2>&1
		check "$C/host2/mnt/to"
		v 2 detach name=to 2>/dev/null
		t volume delete to
		t volume clone from to --size 400MiB
		attach 1 to >/dev/null 2>&1
		cmp "$m/from/d/8" "$m/to/d/8"
		[ ! -e "$m/to/d/1" ]
		[ "$(df_mib "$m/to")" -gt 320 ]
		v 1 detach name=to 2>/dev/null
		t volume delete to
		no_copying_is_left
		# Nowhere: the text says what is free where, and nothing is left.
		leave_room main 60
		fails 5 'MiB; and a copy of it elsewhere: ' \
			t snapshot restore sfrom to
		fails 5 'a copy of it elsewhere' t volume clone from to
		same "$(t volume list --json | jq '[.[] | select(.metadata.name == "to")] | length')" 0
		same "$(t snapshot list --all --json | jq length)" 1
		room_again main
		room_again cow
		v 1 detach name=from 2>/dev/null
		t snapshot delete sfrom
		t volume delete from
	done
	pools_empty
	nothing_left
}

test_killed_at_every_step_a_copy_in_other_pools_is_made_or_forgotten() {
	local at extents flow host
	volume from; volume to; drop sfrom
	t volume create from --size 320MiB --splits 2 --in-pool cow
	attach 1 from >/dev/null 2>&1
	fill "$C/host1/mnt/from"
	t snapshot create sfrom from
	leave_room cow 100
	extents=$(t extent list --json | jq length)
	prepare() { :; }
	settle() {
		[ $(($1 % 2)) = 0 ] || v 3 create name=to snapshot=sfrom >/dev/null 2>&1
		v 2 delete name=to >/dev/null 2>&1
		extents_are "$extents"
		no_copying_is_left
	}
	kill_at_every 2 create name=to snapshot=sfrom
	t volume delete to
	settle() {
		[ $(($1 % 2)) = 0 ] || v 3 clone name=to from=from >/dev/null 2>&1
		v 2 delete name=to >/dev/null 2>&1
		extents_are "$extents"
		same "$(t snapshot list --all --json | jq length)" 1 "snapshots"
	}
	kill_at_every 2 clone name=to from=from
	t volume delete to

	# The blockd that copies, and the one it copies from, are killed half way.
	for at in node sourceNode; do
		limit_snapshots 1MiB
		v 2 create name=to snapshot=sfrom >/dev/null 2>&1 &
		flow=$!
		eventually 60 copying "$at"
		host=$(tail -c 2 "$TEST_DIR/copying")
		blockd_signal "$host" KILL
		blockd_start "$host"
		limit_snapshots none
		wait "$flow" || t snapshot restore sfrom to
		no_copying_is_left
		attach 2 to >/dev/null 2>&1
		check "$C/host2/mnt/to"
		v 2 detach name=to 2>/dev/null
		t volume delete to
	done
	room_again cow
	v 1 detach name=from 2>/dev/null
	t snapshot delete sfrom
	t volume delete from
	pools_empty
	nothing_left
}

run_tests "$@"
