#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# File systems of volumes that are damaged, or were not unmounted: what is mended,
# what is refused, and what is said; `trib volume check`.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
need e2fsck debugfs tune2fs xfs_repair xfs_db xfs_io python3

# What the checkers are called with goes to $TEST_DIR/ran.
TOOLS=$TEST_DIR/tools
mkdir -p "$TOOLS"
for tool in e2fsck xfs_repair; do
	cat >"$TOOLS/$tool" <<-E
		#!/bin/bash
		echo "$tool \$*" >>"$TEST_DIR/ran"
		[ ! -e "$TEST_DIR/hold" ] || exec strace -qq -o /dev/null \\
			-e inject=pread64:signal=STOP:when=9 $(type -P $tool) "\$@"
		exec $(type -P $tool) "\$@"
	E
	chmod +x "$TOOLS/$tool"
done
export PATH=$TOOLS:$PATH
ran() { cat "$TEST_DIR/ran" 2>/dev/null || true; }

image() { ls "$C"/host?/pool/extents/"$1-$2.data"; } # NAME INDEX
sums() { "$TOP/tests/image_sum" "$C"/host?/pool/extents/"$1"-?.data; }
checks() { on "$1" trib volume check "${@:2}" --quiet >"$TEST_DIR/out"; } # HOST NAME OPTION...
mounts() { on "$1" trib mount "$2" "$(mnt "$1" "$2")" --quiet; } # HOST NAME
unmounts() { on "$1" trib umount "$2" --quiet; }

# A volume of two splits, on host1 and host2, with files on each.
make() { # NAME FS
	local size=320MiB # of 160: a second superblock is at 128
	volume "$1"
	[ "$2" = ext4 ] || size=660MiB # XFS takes no less
	v 1 create name="$1" size=$size min=2 fs="$2" policy=mfs node=host1 node=host2 >/dev/null
	mounts 1 "$1"
	fill "$C/host1/mnt/$1"
	unmounts 1 "$1"
	: >"$TEST_DIR/ran"
}
scrapped() {
	v 1 delete name="$1"
	nothing_left
}
# Of what was refused nothing is left anywhere.
nowhere() { # NAME
	same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
	same "$(losetup -nl -O BACK-FILE | count "$C/")" 0 "loop devices"
	same "$(processes)" "" "processes"
	status "$1" | grep -q 'phase=Ready' || fail "$(status "$1")"
	lacks attached on 1 trib volume show "$1"
}
command_in() { grep -o "$1.*trib attach --force [a-z0-9/-]*)\"" | head -n 1; }

# lacks TEXT COMMAND...: it does not say that
lacks() {
	local text=$1 out
	shift
	out=$("$@" 2>&1)
	case $out in *"$text"*) fail "says '$text': $*: $out" ;; esac
}

# A damage that e2fsck mends by itself: a count of links.
wrong_links() { debugfs -w -R "sif /data/d links_count 9" "$1"; }
# And one that it asks about: inodes that no name leads to.
lost_directory() { debugfs -w -R "clri /data/d" "$1"; }

test_ext4_that_says_it_had_errors_is_checked_though_it_is_clean() {
	local mark file
	make marked ext4
	file=$(image marked 0)
	for mark in "debugfs -w -R 'ssv state 3' $file" \
		"debugfs -w -R 'ssv state 2' $file" \
		"debugfs -w -R 'ssv state 0' $file" \
		"debugfs -w -R 'ssv error_count 3' $file" \
		"tune2fs -E force_fsck $file"; do
		wrong_links "$file"
		eval "$mark" >/dev/null 2>&1
		mounts 1 marked 2>"$TEST_DIR/said"
		grep -q "volume=marked split=0 extent=host1/marked-0: its file system was mended: .*ref count is 9" \
			"$TEST_DIR/said" || fail "$mark: $(cat "$TEST_DIR/said")"
		same "$(grep -c mended "$TEST_DIR/said")" 1 "$mark"
		is_whole 1 marked
		check "$C/host1/mnt/marked"
		unmounts 1 marked
		e2fsck -fn "$file" >/dev/null 2>&1 || fail "$mark: still damaged"
	done
	# Without a word of it, it is not looked at, as that takes long.
	wrong_links "$file"
	mounts 1 marked 2>"$TEST_DIR/said"
	same "$(cat "$TEST_DIR/said")" ""
	unmounts 1 marked
	# For reading only, too.
	debugfs -w -R 'ssv error_count 3' "$file" 2>/dev/null
	on 1 trib mount marked "$C/host1/mnt/marked" --read-only --quiet 2>"$TEST_DIR/said"
	grep -q "its file system was mended" "$TEST_DIR/said"
	check "$C/host1/mnt/marked"
	unmounts 1 marked
	e2fsck -fn "$file" >/dev/null 2>&1
	scrapped marked
}

test_ext4_that_needs_a_person_is_refused_with_the_command() {
	local how said=$TEST_DIR/said file
	make person ext4
	file=$(image person 0)
	lost_directory "$file"
	tune2fs -E force_fsck "$file" >/dev/null
	for how in "" --read-only ""; do
		fails 1 "needs a person" on 1 trib mount person "$C/host1/mnt/person" $how
		nowhere person
		on 1 trib volume show person | grep -q '^note .*split 0 on node host1 is damaged: .*directory inode'
		on 1 trib status | grep -q 'person.*directory inode'
	done
	fails 1 "needs a person" on 2 trib mount person "$(mnt 2 person)"
	nowhere person
	on 1 trib mount person "$C/host1/mnt/person" 2>"$said" || true
	how=$(command_in 'e2fsck -f' <"$said")
	same "$how" 'e2fsck -f "$(trib attach --force host1/person-0)"' "$(cat "$said")"
	grep -q 'then `trib detach host1/person-0`' "$said"
	# As it says, but that nobody is here to say yes.
	at_exit on 1 trib detach host1/person-0
	on 1 bash -c "${how/-f /-fy }" >/dev/null 2>&1 || same $? 1
	on 1 trib detach host1/person-0
	mounts 1 person
	is_whole 1 person
	unmounts 1 person
	e2fsck -fn "$file" >/dev/null 2>&1
	scrapped person
}

test_a_superblock_that_is_gone_is_refused() {
	local fs
	for fs in ext4 xfs; do
		make gone $fs
		dd if=/dev/zero of="$(image gone 0)" bs=4096 count=1 conv=notrunc status=none
		fails 1 "it has no superblock any more" on 1 trib mount gone "$C/host1/mnt/gone"
		nowhere gone
		fails 1 "not all is sound" checks 1 gone
		grep -q "0  host1  gone-0 *damaged *it has no superblock" "$TEST_DIR/out"
		grep -q "1  host2  gone-1 *sound " "$TEST_DIR/out"
		if [ $fs = xfs ]; then
			on 1 trib volume check --repair gone --quiet | grep -q "gone-0 *mended"
		else
			on 1 trib volume check gone 2>/dev/null |
				grep -qF 'e2fsck -f "$(trib attach --force host1/gone-0)"'
			at_exit on 1 trib detach host1/gone-0
			on 1 bash -c 'e2fsck -fy "$(trib attach --force host1/gone-0)"' >/dev/null 2>&1 ||
				same $? 1
			on 1 trib detach host1/gone-0
		fi
		mounts 1 gone
		check "$C/host1/mnt/gone"
		is_whole 1 gone
		unmounts 1 gone
		scrapped gone
	done
}

# Not unmounted: copies of the extents, while it is written, take their place.
test_what_was_not_unmounted_is_replayed() {
	local fs i
	for fs in ext4 xfs; do
		make crash $fs
		mounts 1 crash
		fill "$C/host1/mnt/crash"
		for i in 0 1; do cp "$(image crash $i)" "$TEST_DIR/copy-$i"; done
		unmounts 1 crash
		for i in 0 1; do
			dd if="$TEST_DIR/copy-$i" of="$(image crash $i)" bs=1M conv=notrunc status=none
			rm "$TEST_DIR/copy-$i"
		done
		: >"$TEST_DIR/ran"
		sums crash >"$TEST_DIR/sums"
		fails 1 "not all is sound" checks 1 crash
		grep -q "crash-0 *unclean *its .* has to be replayed" "$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
		same "$(sums crash)" "$(cat "$TEST_DIR/sums")"
		: >"$TEST_DIR/ran"
		on 1 trib mount crash "$C/host1/mnt/crash" --read-only --quiet
		check "$C/host1/mnt/crash"
		unmounts 1 crash
		# That is all that a crash takes, however large it is.
		same "$(ran | grep -c -e '-f' -e xfs_repair)" 0 "$(ran)"
		mounts 1 crash
		is_whole 1 crash
		check "$C/host1/mnt/crash"
		unmounts 1 crash
		on 1 trib volume check crash --quiet | grep -c sound | grep -qx 2
		scrapped crash
	done
}

test_one_that_gave_up_is_looked_at_whole_once() {
	local fs
	for fs in ext4 xfs; do
		make gaveup $fs
		mounts 1 gaveup
		xfs_io -x -c shutdown "$C/host1/run/volumes/gaveup/branch-1"
		unmounts 1 gaveup || on 1 trib umount gaveup --force --quiet
		record_text gaveup | grep -o '"index":1[^}]*' | grep -q fsSuspect
		same "$(record_text gaveup | grep -o fsSuspect | wc -l)" 1
		: >"$TEST_DIR/ran"
		mounts 2 gaveup
		same "$(ran | grep -c -e 'e2fsck -fp' -e 'xfs_repair -n')" 1 "$(ran)"
		is_whole 2 gaveup
		check "$C/host2/mnt/gaveup"
		lacks fsSuspect record_text gaveup
		unmounts 2 gaveup
		: >"$TEST_DIR/ran"
		mounts 1 gaveup
		same "$(ran | grep -c -e '-f' -e xfs_repair)" 0 "$(ran)"
		unmounts 1 gaveup
		scrapped gaveup
	done
}
record_text() {
	sqlite3 "$C/records.db" "SELECT json FROM objects WHERE name = '$1'"
}

# xfs FILE COMMAND...: write to an XFS that is not mounted
xfs() {
	local file=$1 argv=() word
	shift
	for word; do argv+=(-c "$word"); done
	xfs_db -x "${argv[@]}" "$file" >/dev/null
}

test_xfs_that_cannot_be_used_is_refused_and_repaired_when_told_to() {
	local file how
	make brk xfs
	file=$(image brk 0)
	for how in "sb 0;write inprogress 1" \
		"sb 0;write features_incompat 0x1b" \
		"agf 1;write -d magicnum 0x12345678" \
		"agi 0;write -d magicnum 0x12345678"; do
		xfs "$file" "${how%;*}" "${how#*;}"
		fails 1 '`trib volume check --repair brk` runs xfs_repair' \
			on 1 trib mount brk "$C/host1/mnt/brk"
		nowhere brk
		on 1 trib volume show brk | grep -q '^note .*split 0 on node host1 is damaged'
		sums brk >"$TEST_DIR/sums"
		fails 1 "not all is sound" checks 2 brk
		grep -q "0  host1  brk-0 *damaged " "$TEST_DIR/out" || fail "$how: $(cat "$TEST_DIR/out")"
		same "$(sums brk)" "$(cat "$TEST_DIR/sums")"
		checks 2 brk --repair
		grep -q "0  host1  brk-0 *mended " "$TEST_DIR/out" || fail "$how: $(cat "$TEST_DIR/out")"
		nowhere brk
		lacks note on 1 trib volume show brk
		mounts 1 brk
		is_whole 1 brk
		check "$C/host1/mnt/brk"
		unmounts 1 brk
	done
	# A file system that mounts, but is suspect.
	mounts 1 brk
	xfs_io -x -c shutdown "$C/host1/run/volumes/brk/branch-0"
	on 1 trib umount brk --force --quiet
	on 1 trib mount brk "$C/host1/mnt/brk" --quiet
	xfs_io -x -c shutdown "$C/host1/run/volumes/brk/branch-0"
	on 1 trib umount brk --force --quiet
	mount -o loop,nouuid "$file" "$(mnt 3 plain)"
	unmount "$C/host3/mnt/plain"
	xfs "$file" "agi 0" "write -d freecount 1"
	fails 1 "needs a person" on 1 trib mount brk "$C/host1/mnt/brk"
	nowhere brk
	on 1 trib volume check --repair brk --quiet >/dev/null 2>&1
	mounts 1 brk
	check "$C/host1/mnt/brk"
	unmounts 1 brk
	scrapped brk
}

# XFS notes nowhere what it told the union of one file.
test_xfs_that_told_of_damage_is_looked_at_whole() {
	local file name number control=$C/host1/run/volumes/met/control
	make met xfs
	file=$(image met 0)
	mounts 1 met
	name=$(cd "$C/host1/run/volumes/met/branch-0/data" && find d -type f -print -quit)
	number=$(stat -c %i "$C/host1/run/volumes/met/branch-0/data/$name")
	unmounts 1 met
	xfs "$file" "inode $number" "write -c core.size 5" # and not its checksum
	: >"$TEST_DIR/ran"
	mounts 1 met
	same "$(ran)" "" "before anybody met it"
	fails 1 "" cat "$C/host1/mnt/met/$name"
	# The next server of the union knows it, too.
	kill -9 "$(trib-union --control "$control" status | grep -o '"pid":[0-9]*' | cut -d: -f2)"
	ls "$C/host1/mnt/met" >/dev/null
	unmounts 1 met
	record_text met | grep -o '"index":0[^}]*' | grep -q fsSuspect
	same "$(record_text met | grep -o fsSuspect | wc -l)" 1
	fails 1 '`trib volume check --repair met` runs xfs_repair' on 1 trib mount met "$C/host1/mnt/met"
	same "$(ran | grep -c 'xfs_repair -n')" 1 "$(ran)"
	nowhere met
	checks 1 met --repair
	grep -q "0  host1  met-0 *mended " "$TEST_DIR/out"
	lacks fsSuspect record_text met
	mounts 1 met
	unmounts 1 met
	scrapped met
}

# The log is there, but nothing can be made of it.
test_an_xfs_log_that_cannot_be_replayed_is_given_up_by_a_person_only() {
	local file how
	make log xfs
	mounts 1 log
	mkdir "$C/host1/mnt/log/late"
	xfs_io -x -c "shutdown -f" "$C/host1/run/volumes/log/branch-0"
	on 1 trib umount log --force --quiet
	file=$(image log 0)
	python3 - "$file" "$(xfs_db -r -c 'sb 0' -c 'print logstart' "$file" | sed 's/.*= //')" <<-'P'
		import struct, sys
		f = open(sys.argv[1], "r+b")
		sb = f.read(264)
		size, agblocks = struct.unpack_from(">I", sb, 4)[0], struct.unpack_from(">I", sb, 84)[0]
		start, log = int(sys.argv[2]), sb[124]
		at = ((start >> log) * agblocks + (start & (1 << log) - 1)) * size
		f.seek(at)
		head = bytearray(f.read(2 << 20))
		for i in range(0, len(head), 512):
		    if head[i:i + 4] == b"\xfe\xed\xba\xbe":
		        # xlog_rec_header.h_num_logops and what follows the first record
		        head[i + 40] ^= 0xff
		        head[i + 12] ^= 0x40
		f.seek(at)
		f.write(head)
	P
	fails 1 "needs a person" on 1 trib mount log "$C/host1/mnt/log"
	nowhere log
	fails 1 "not all is sound" checks 1 log --repair
	grep -q "0  host1  log-0 *damaged *its log can't be replayed" "$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	how=$(command_in 'xfs_repair -L' <"$TEST_DIR/out")
	same "$how" 'xfs_repair -L "$(trib attach --force host1/log-0)"'
	at_exit on 1 trib detach host1/log-0
	on 1 bash -c "$how" >/dev/null 2>&1
	on 1 trib detach host1/log-0
	mounts 1 log
	check "$C/host1/mnt/log"
	unmounts 1 log
	scrapped log
}

test_a_check_is_of_what_nobody_uses() {
	make free ext4
	mounts 2 free
	for how in "" --repair; do
		fails 6 "it is attached on node 'host2' at $C/host2/mnt/free" \
			on 1 trib volume check free $how
		fails 6 "it is attached on node 'host2'" on 2 trib volume check free $how
	done
	check "$C/host2/mnt/free"
	is_whole 2 free
	unmounts 2 free
	fails 3 "" on 1 trib volume check nothing
	fails 2 "" on 1 trib volume check
	# Nor while a person has one extent attached.
	at_exit on 2 trib detach host1/free-0
	on 2 trib attach host1/free-0 --force >/dev/null 2>&1
	fails 6 "does not have: \`trib attach\`" on 1 trib volume check free
	on 2 trib detach host1/free-0
	# Published only: who waits for it cannot have it before it is repaired.
	on 1 trib volume publish free host3 --quiet
	checks 1 free
	same "$(grep -c sound "$TEST_DIR/out")" 2
	on 1 trib volume unpublish free --quiet
	same "$(on 3 trib volume check free --json --quiet |
		python3 -c 'import json, sys; v = json.load(sys.stdin)
print(v["volume"], v["sound"], [(s["index"], s["node"], s["extent"], s["result"]) for s in v["splits"]])')" \
		"free True [(0, 'host1', 'free-0', 'sound'), (1, 'host2', 'free-1', 'sound')]"
	on 1 trib complete -- volume che | grep -qx check
	on 1 trib complete -- volume check '' | grep -qx free
	on 1 trib complete -- volume check free --re | grep -qx -- --repair
	scrapped free
	volume blank
	v 1 create name=blank size=200MiB >/dev/null
	checks 1 blank
	grep -q "blank-0 *blank" "$TEST_DIR/out"
	mounts 1 blank
	unmounts 1 blank
	v 1 delete name=blank
	volume line
	v 1 create name=line size=64MiB layout=linear >/dev/null
	fails 1 "it is a block device" on 1 trib volume check line
	scrapped line
}

test_a_check_mends_what_is_safe_to() {
	make safe ext4
	wrong_links "$(image safe 0)"
	sums safe >"$TEST_DIR/sums"
	fails 1 "not all is sound" checks 2 safe
	grep -q "0  host1  safe-0 *damaged .*ref count is 9" "$TEST_DIR/out"
	same "$(sums safe)" "$(cat "$TEST_DIR/sums")"
	# The next mount still tells what was found.
	mounts 1 safe 2>"$TEST_DIR/said"
	grep -q "was mended: .*ref count is 9" "$TEST_DIR/said"
	unmounts 1 safe
	wrong_links "$(image safe 0)"
	checks 2 safe --repair
	grep -q "0  host1  safe-0 *mended .*ref count is 9" "$TEST_DIR/out"
	grep -q "1  host2  safe-1 *sound" "$TEST_DIR/out"
	checks 2 safe
	mounts 1 safe
	check "$C/host1/mnt/safe"
	unmounts 1 safe
	scrapped safe
}

# Another file system than the volume's: whatever is wrong with it, or not.
test_a_foreign_file_system_is_not_touched() {
	local how
	make other ext4
	mkfs.ext4 -q -F "$(image other 0)"
	tune2fs -E force_fsck "$(image other 0)" >/dev/null
	"$TOP/tests/image_sum" "$(image other 0)" >"$TEST_DIR/sums"
	for how in "" --repair; do
		fails 1 "not all is sound" checks 1 other $how
		grep -q "other-0 *unknown" "$TEST_DIR/out"
		grep -q "split 0: .*it was not touched" "$TEST_DIR/out"
	done
	fails 1 "it was not touched" on 1 trib mount other "$C/host1/mnt/other"
	nowhere other
	same "$("$TOP/tests/image_sum" "$(image other 0)")" "$(cat "$TEST_DIR/sums")"
	scrapped other
}

# A check that takes long has the volume to itself, whatever becomes of those
# who wait for it.
test_a_check_that_goes_on_is_not_begun_again() {
	local pid check rc=0
	make slow ext4
	tune2fs -E force_fsck "$(image slow 0)" >/dev/null
	touch "$TEST_DIR/hold"
	at_exit rm -f "$TEST_DIR/hold"
	silent_file # which is met before the checks are
	mounts 1 slow >/dev/null 2>&1 &
	pid=$!
	eventually 30 stopped
	eventually 30 checks_begun 2 # the other one is not held
	check=$(stopped)
	at_exit kill -KILL "$check"
	fails 7 "attaching volume" on 1 trib mount slow "$C/host1/mnt/slow"
	fails 7 "attaching volume" on 1 trib volume check slow --repair
	fails 7 "attaching volume" on 2 trib mount slow "$(mnt 2 slow)"
	# Killed, it leaves the check at work. The next call waits for the device, then
	# names a program that has it: e2fsck, or strace which runs it here.
	pkill -KILL -P "$pid" -x trib || kill -KILL "$(pgrep -f "trib mount slow $C")"
	wait "$pid" || true
	rm "$TEST_DIR/hold"
	on 1 timeout 120 trib mount slow "$C/host1/mnt/slow" 2>"$TEST_DIR/busy" || rc=$?
	kill -KILL "$SILENT"
	umount -l "$TEST_DIR/silent"
	same $rc 6
	grep -E "/dev/(loop[0-9]+|mapper/trib-[0-9a-f]+) is in use by (e2fsck \($check\)|strace \([0-9]+\))" "$TEST_DIR/busy"
	fails 6 "" on 1 trib volume check slow --repair
	fails 6 "" on 2 trib mount slow "$C/host2/mnt/slow"
	fails 6 "" on 2 trib mount slow "$C/host2/mnt/slow" --force
	kill -CONT "$check"
	eventually 30 eval "! kill -0 $check"
	mounts 1 slow
	is_whole 1 slow
	check "$C/host1/mnt/slow"
	unmounts 1 slow
	checks_begun 4
	scrapped slow
}
# A program has a file open whose server does not answer.
silent_file() {
	mkdir -p "$TEST_DIR/served" "$TEST_DIR/silent"
	touch "$TEST_DIR/served/f"
	trib-union -f -o shared,survive=no,log=/dev/null "$TEST_DIR/served" "$TEST_DIR/silent" &
	SILENT=$!
	at_exit kill -KILL "$SILENT"
	at_exit umount -l "$TEST_DIR/silent"
	eventually 30 test -e "$TEST_DIR/silent/f"
	sleep 300 <"$TEST_DIR/silent/f" &
	at_exit kill -KILL $!
	eventually 30 grep -q sleep "/proc/$!/comm"
	kill -STOP "$SILENT"
}
checks_begun() { same "$(ran | grep -c "^e2fsck")" "$1" "$(ran)"; }
stopped() {
	local p
	for p in $(pgrep -x e2fsck); do
		grep -qs '^State:.[Tt]' "/proc/$p/status" && echo "$p" && return
	done
	return 1
}

# What a guest reads only it cannot replay: that is done before.
test_a_guest_that_only_reads_gets_what_it_can_mount() {
	local host dev m
	volume guest
	v 1 create name=guest size=200MiB layout=direct fs=ext4 node=host1 >/dev/null
	dev=$(on 1 trib mount guest --quiet)
	m=$(mnt 3 guest)
	mount "$dev" "$m"
	at_exit umount "$m"
	echo kept >"$m/file"
	sync "$m/file"
	xfs_io -x -c "shutdown -f" "$m"
	unmount "$m"
	unmounts 1 guest
	wrong_root_links "$(image guest 0)"
	debugfs -w -R 'ssv error_count 3' "$(image guest 0)" 2>/dev/null
	for host in 1 2; do
		dev=$(on $host trib mount guest --read-only --quiet)
		same "$(blockdev --getro "$dev")" 1
		mount -o ro "$dev" "$m"
		same "$(cat "$m/file")" kept
		unmount "$m"
		unmounts $host guest
	done
	e2fsck -fn "$(image guest 0)" >/dev/null 2>&1
	scrapped guest
}
wrong_root_links() { debugfs -w -R "sif / links_count 9" "$1" 2>/dev/null; }

# A snapshot has a journal to replay, and cannot be written.
test_a_snapshot_of_what_is_mounted_is_shown_and_restored() {
	local fs how dev extent
	truncate -s 900M "$TEST_DIR/raw"
	at_exit rm -f "$TEST_DIR/raw"
	at_exit on 1 trib pool delete host1/raw
	on 1 trib pool create host1/raw "$TEST_DIR/raw" --quiet
	for fs in ext4 xfs; do
		[ $fs = ext4 ] && how=noload || how=norecovery,nouuid
		volume of
		volume from
		on 1 trib volume create of --size 320MiB --fs $fs --in-pool raw --quiet
		mounts 1 of
		fill "$C/host1/mnt/of"
		mkdir "$C/host1/mnt/of/late"
		echo late >"$C/host1/mnt/of/late/file"
		sync "$C/host1/mnt/of/late/file"
		at_exit on 1 trib snapshot delete moment
		on 1 trib snapshot create moment of --quiet
		unmounts 1 of
		extent=host1/$(on 1 trib extent list host1 | grep -o 'snap\.[^ ]*')
		fails any "attach it with --read-only" on 2 trib attach "$extent" --force
		at_exit on 2 trib detach "$extent"
		at_exit umount "$(mnt 3 of)"
		dev=$(on 2 trib attach "$extent" --force --read-only --quiet)
		fails any "read-only" mount -o ro "$dev" "$(mnt 3 of)"
		mount -o "ro,$how" "$dev" "$C/host3/mnt/of"
		same "$(findmnt -no SOURCE "$C/host3/mnt/of")" "$dev"
		unmount "$C/host3/mnt/of"
		on 2 trib detach "$extent" --quiet
		on 1 trib snapshot restore moment from --quiet
		on 2 trib mount from "$(mnt 2 from)" --read-only --quiet
		check "$C/host2/mnt/from"
		same "$(cat "$C/host2/mnt/from/late/file")" late
		unmounts 2 from
		checks 2 from
		on 1 trib snapshot delete moment --quiet
		v 1 delete name=from
		v 1 delete name=of
	done
	on 1 trib pool delete host1/raw --quiet
	nothing_left
}

run_tests "$@"
