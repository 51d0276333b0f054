#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Snapshots and clones of single extents by the command, in dir pools on file
# systems with and without reflinks and in a raw pool, while clients write.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup mkfs.xfs mkfs.ext4 mkfs.btrfs qemu-io nbdcopy
/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"

C=$TEST_DIR/c
at_exit cluster_stop
cluster_start "$C" 2 512MiB || { cluster_stop; exit 1; }

# filesystem NAME SIZE MKFS...: an image in memory, mounted at $C/NAME
IMAGES=$(mktemp -d /dev/shm/trib-test.XXXXXX)
at_exit rm -rf "$IMAGES"
filesystem() {
	local name=$1 image=$IMAGES/$1
	truncate -s "$2" "$image"
	"${@:3}" "$image" >/dev/null 2>&1
	mkdir -p "$C/$name"
	mount -o loop "$image" "$C/$name"
}

filesystem x 400M mkfs.xfs -q -f || exit 1
at_exit umount -l "$C/x"
mkdir "$C/x/pool"
fallocate -l 512M "$C/raw"
on 1 trib pool create x "$C/x/pool" --quiet || exit 1
on 2 trib pool create raw "$C/raw" --quiet || exit 1

# field KEY...: of the JSON on standard input
field() {
	/usr/bin/python3 -c '
import json, sys
v = json.load(sys.stdin)
for k in sys.argv[1:]: v = v[int(k) if k.isdigit() else k]
print(v)' "$@"
}
extent() { on 1 trib extent show "$1" --json | field "${@:2}"; }
delete() { on 1 trib extent unexport "$1" --quiet; on 1 trib extent delete "$1" --quiet; }
uri() { on 1 trib extent export "$@" --allow 10.77.0.0/24 | grep -o 'nbd://[^ ]*'; }
# io [-r] URI COMMAND...: qemu-io's commands, all of which succeed
io() {
	local ro=() u args=() c
	[ "$1" != -r ] || { ro=(-r); shift; }
	u=$1
	shift
	for c in "$@"; do args+=(-c "$c"); done
	on 1 qemu-io -f raw "${ro[@]}" "${args[@]}" "$u" >"$TEST_DIR/io" 2>&1 &&
		! grep -iE 'fail|error|invalid|mismatch' "$TEST_DIR/io" ||
		{ cat "$TEST_DIR/io"; return 1; }
}

# on_file_system NAME PROGRAM: a unit test, there
on_file_system() {
	local run=0
	TMPDIR=$C/$1 "$BUILD/test/blockd/dir/$2" >"$TEST_DIR/out" 2>&1 || run=$?
	[ $run = 0 ] && return
	grep -vE '^\[ +(RUN|OK) ' "$TEST_DIR/out"
	df "$C/$1" "$IMAGES"
	dmesg 2>/dev/null | tail -n 5
	fail "$2 on $1: exit $run"
}

test_copies_are_right_on_each_file_system() {
	local fs
	# Btrfs has freed space again only after a commit: room for that not to matter.
	filesystem b 1G mkfs.btrfs -q -f
	at_exit umount "$C/b"
	filesystem e 100M mkfs.ext4 -q -F
	at_exit umount "$C/e"
	for fs in x b e; do
		# A reflink takes no room: only where it is copied can it be full.
		if [ $fs = e ]; then export SMALL_IMAGE=1; fi
		on_file_system $fs pool_dir_copy_test
		on_file_system $fs pool_dir_kill_test
		on_file_system $fs pool_dir_sharing_test
		STEPS=300 on_file_system $fs pool_dir_model_test
		[ $fs = e ] || ! grep SKIPPED "$TEST_DIR/out"
	done
}

# More is promised than there is: what is kept free is kept from writers.
test_at_the_floor_a_write_has_no_room_and_the_extent_lives_on() {
	local u left
	filesystem f 200M mkfs.ext4 -q -F
	at_exit umount -l "$C/f"
	mkdir "$C/f/pool"
	on 1 trib pool create f "$C/f/pool" --overcommit 400 --quiet
	on 1 trib pool list host1 | grep -q 'host1/f .* 64.00 MiB  *-  */'
	on 1 trib extent create thin --pool f --size 192MiB --quiet
	fallocate -l 32M "$C/f/theirs"
	u=$(uri thin)
	fails any "No space left" on 1 qemu-io -f raw -c "write -P 1 0 32M" \
		-c "write -P 2 32M 32M" -c "write -P 3 64M 32M" \
		-c "write -P 4 96M 32M" -c "write -P 5 128M 32M" "$u"
	left=$(df --output=avail -B1M "$C/f" | tail -1)
	[ "$left" -ge 63 ] && [ "$left" -le 97 ] || fail "$left MiB are left"
	# The extent's own space can be written to, and read.
	io "$u" "write -P 6 1M 4k" "write -P 6 2M 1M" "read -P 6 2M 1M" \
		"read -P 1 3M 29M" "read -P 0 128M 32M" "flush"
	fails any "No space left" on 1 qemu-io -f raw -c "write 128M 32M" "$u"
	rm "$C/f/theirs"
	io "$u" "write -P 7 128M 32M" "flush" "read -P 7 128M 32M"
	fails any "No space left" on 1 qemu-io -f raw -c "write 160M 32M" "$u"
	io "$u" "discard 0 32M" "write -P 8 160M 32M" "read -P 8 160M 32M"
	delete thin
	on 1 trib pool delete f --quiet
}

# Both nodes, both kinds of pool: what is done with one extent is done with two.
test_several_are_cut_at_one_instant_while_clients_write() {
	local a b i n
	on 1 trib extent create host1/a --pool x --size 16MiB --quiet >/dev/null
	on 1 trib extent create host2/b --pool raw --size 16MiB --thick --quiet >/dev/null
	a=$(uri host1/a) b=$(uri host2/b)
	# One writer: a number to a, then the same to b, so b is never ahead.
	on 1 /usr/bin/python3 - "$a" "$b" "$C/stop" "$C/began" <<-'P' &
		import nbd, os, struct, sys
		hs = []
		for u in sys.argv[1:3]:
		    h = nbd.NBD(); h.connect_uri(u); hs.append(h)
		n = 0
		while not os.path.exists(sys.argv[3]):
		    n += 1
		    for h in hs: h.pwrite(struct.pack("<Q", n) * 512, 0)
		    if n == 1: open(sys.argv[4], "w").close()
		for h in hs: h.flush()
	P
	n=$!
	at_exit kill -9 $n
	eventually 30 test -e "$C/began"
	for i in 1 2 3 4; do
		sleep 0.15
		on 1 trib extent snapshot host1/a host2/b --name s$i --quiet
	done
	touch "$C/stop"
	wait $n
	for i in 1 2 3 4; do
		on 1 nbdcopy "$(uri host1/a-s$i --read-only)" "$C/a.$i"
		on 1 nbdcopy "$(uri host2/b-s$i --read-only)" "$C/b.$i"
		/usr/bin/python3 - "$C/a.$i" "$C/b.$i" <<-'P'
			import struct, sys
			v = []
			for f in sys.argv[1:]:
			    d = open(f, "rb").read(4096)
			    assert d == d[:8] * 512, "torn"
			    v.append(struct.unpack("<Q", d[:8])[0])
			assert v[0] - v[1] in (0, 1), v
			assert v[0] > 0, v
		P
		rm "$C/a.$i" "$C/b.$i"
	done
	same "$(extent host1/a-s1 origin method)" reflink
	same "$(extent host2/b-s1 origin method)" shared
	same "$(extent host1/a-s3 origin cut)" "$(extent host2/b-s3 origin cut)"
	fails 4 "exists" on 1 trib extent snapshot host1/a host2/b --name s1
	# Of a group that can't be whole nothing is left.
	on 1 trib extent create host2/b-s9 --pool raw --size 1MiB --quiet >/dev/null
	fails 4 "b-s9" on 1 trib extent snapshot host1/a host2/b --name s9
	fails 3 "a-s9" on 1 trib extent show host1/a-s9
	on 1 trib extent delete host2/b-s9 --quiet
	# In any order.
	delete host1/a
	delete host2/b-s3
	delete host2/b
	for i in 1 2 4; do delete host1/a-s$i; delete host2/b-s$i; done
	delete host1/a-s3
	on 1 trib pool check host2/raw | grep -q 'nothing is wrong'
}

# what_a_snapshot_does EXTENT POOL METHOD
what_a_snapshot_does() {
	local e=$1 u s
	on 1 trib extent create "$e" --pool "$2" --size 64MiB --quiet >/dev/null
	u=$(uri "$e")
	io "$u" 'write -P 1 0 8M' flush
	on 1 trib extent snapshot "$e" --name s1 --label why=test --quiet
	io "$u" 'write -P 2 4M 2M' 'write -P 2 32M 1M' flush
	on 1 trib extent snapshot "$e" --name s2 --quiet
	same "$(extent "${e%/*}/s1" kind)" snapshot
	same "$(extent "${e%/*}/s1" labels why)" test
	same "$(extent "${e%/*}/s1" origin method)" "$3"
	s=$(uri "${e%/*}/s1" --read-only)
	io -r "$s" 'read -P 1 0 8M' 'read -P 0 8M 56M'
	fails any "Permission denied" on 1 qemu-io -f raw -c 'write 0 4k' "$s"
	# Ranges: of one, and of two; from an offset on.
	same "$(on 1 trib extent ranges "${e%/*}/s1")" "0 $((8 << 20))"
	same "$(on 1 trib extent ranges "${e%/*}/s2" --older s1 | tr '\n' ' ')" \
		"$((4 << 20)) $((2 << 20)) $((32 << 20)) $((1 << 20)) "
	same "$(on 1 trib extent ranges "${e%/*}/s2" --older s1 --start 16MiB)" \
		"$((32 << 20)) $((1 << 20))"
	same "$(on 1 trib extent ranges "${e%/*}/s2" --older s1 --json |
		field ranges 1 offset)" $((32 << 20))
	fails any "snapshot" on 1 trib extent ranges "$e"
	# A clone goes its own way, and is larger.
	on 1 trib extent clone "${e%/*}/s1" c --size 96MiB --iops 100000 --thick --quiet >/dev/null
	[ "$(extent "${e%/*}/c" allocated)" -ge $((96 << 20)) ]
	s=$(uri "${e%/*}/c")
	io "$s" 'read -P 1 0 8M' 'read -P 0 8M 88M' 'write -P 3 90M 1M' 'write -P 3 0 1M'
	same "$(extent "${e%/*}/c" limits iops)" 100000
	on 1 trib extent limit "${e%/*}/c" --iops none --bandwidth 500MiB --quiet >/dev/null
	same "$(extent "${e%/*}/c" limits iops) $(extent "${e%/*}/c" limits bytesPerSecond)" \
		"0 $((500 << 20))"
	s=$(uri "${e%/*}/s1" --read-only)
	io -r "$s" 'read -P 1 0 8M'
	# Back again, when nobody uses it.
	fails 6 "exported" on 1 trib extent revert "$e" s1
	on 1 trib extent unexport "$e" --quiet
	on 1 trib extent revert "$e" s1 --quiet >/dev/null
	u=$(uri "$e")
	io "$u" 'read -P 1 0 8M' 'read -P 0 8M 56M'
	delete "${e%/*}/s1"
	delete "$e"
	s=$(uri "${e%/*}/c")
	io "$s" 'read -P 3 0 1M' 'read -P 1 1M 7M' 'read -P 3 90M 1M'
	delete "${e%/*}/c"
	delete "${e%/*}/s2"
}

test_a_snapshot_in_a_dir_pool_with_reflinks() {
	what_a_snapshot_does host1/v x reflink
}

test_a_snapshot_in_a_raw_pool() {
	what_a_snapshot_does host2/v raw shared
}

test_where_blocks_are_not_shared_it_is_copied() {
	on 1 trib extent create copied --pool main --size 64MiB --quiet >/dev/null
	at_exit delete host1/copied
	if [ "$(on 1 trib extent snapshot copied --name s --json | field 0 origin method)" \
		= reflink ]; then
		delete host1/s
		skip "the disk below has reflinks"
	fi
	same "$(extent host1/s state)" ok
	on 1 trib extent delete s --quiet
}

# A client's write that finds no room fails alone; what was there is there.
test_a_full_file_system_hurts_only_the_write_that_needs_room() {
	local u rc=0
	on 1 trib extent create full --pool x --size 96MiB --quiet >/dev/null
	at_exit delete host1/full
	u=$(uri host1/full)
	io "$u" 'write -P 1 0 64M' flush
	on 1 trib extent snapshot full --name fs --quiet
	at_exit delete host1/fs
	dd if=/dev/zero of="$C/x/filler" bs=1M status=none 2>/dev/null || true
	at_exit rm -f "$C/x/filler"
	on 1 qemu-io -f raw -c 'write -P 2 0 64M' "$u" >"$TEST_DIR/io" 2>&1 || rc=$?
	grep -q 'No space left' "$TEST_DIR/io" || fail "$rc: $(cat "$TEST_DIR/io")"
	io -r "$(uri host1/fs --read-only)" 'read -P 1 0 64M'
	rm "$C/x/filler"
	io "$u" 'write -P 2 0 64M' flush 'read -P 2 0 64M'
	io -r "$(uri host1/fs --read-only)" 'read -P 1 0 64M'
}

test_pools_are_checked_and_grow() {
	local before
	on 1 trib pool check host2/raw | grep -q 'nothing is wrong'
	same "$(on 1 trib pool check host2/raw --json | field clean)" True
	fails any "" on 1 trib pool check host1/x
	before=$(on 1 trib pool list host2 --json | field 1 capacity)
	fallocate -l 768M "$C/raw"
	on 1 trib pool grow host2/raw | grep -q free
	[ "$(on 1 trib pool list host2 --json | field 1 capacity)" -gt "$before" ] ||
		fail "not larger than $before"
	fails 3 "nowhere" on 1 trib pool grow host2/nowhere
}

run_tests "$@"
