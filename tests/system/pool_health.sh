#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Pools whose disk gives errors, turns read-only, hangs or goes: what is said
# of them, what is still served, what is placed there (nothing), and their end.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup qemu-io mkfs.ext4 e2fsck fsfreeze curl

C=$TEST_DIR/c
at_exit cluster_stop
cluster_network "$C" 1 || exit 1
mkdir -p "$C/host1"
cluster_start "$C" 1 1GiB || { cluster_stop; exit 1; }
LOG=$C/host1/blockd.log
blockd_signal 1 TERM
printf '%s\n' "metrics-address = 10.77.0.1:9399" "loops = 2" >>"$C/host1/blockd.conf"
blockd_start 1 || { cluster_stop; exit 1; }

call() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$C/host1/run/blockd.sock" "$@"; }
# pool NAME FIELD: of `trib pool list`
pool() {
	on 1 trib pool list host1 --json | /usr/bin/python3 -c '
import json, sys
for p in json.load(sys.stdin):
    if p["name"] == sys.argv[1]: print(p.get(sys.argv[2]))' "$@"
}
is() { [ "$(pool "$1" state)" = "$2" ]; }
# io URI COMMAND...: each has to do what it says
io() {
	local uri=$1 args=() one
	shift
	for one; do args+=(-c "$one"); done
	on 1 qemu-io -f raw "${args[@]}" "$uri" >"$TEST_DIR/io" 2>&1 || return 1
	! grep -i 'fail\|error' "$TEST_DIR/io"
}
uri() { on 1 trib extent export "$1" --allow 10.77.0.1 | grep -o 'nbd://[^ ]*'; }
said() { grep -c "pool $1 at [^ ]*: $2: " "$LOG"; }

# A dir pool of an extent "$1-x", which has 1 MiB of 7, on ext4 in $DEV at $DIR
disk() {
	DIR=$C/host1/$1 IMAGE=$C/host1/$1.img
	truncate -s 256MiB "$IMAGE"
	mkfs.ext4 -q "$IMAGE"
	DEV=$(losetup -f --show "$IMAGE")
	at_exit losetup -d "$DEV"
	mkdir "$DIR"
	mount -o errors=remount-ro "$DEV" "$DIR"
	at_exit give_up "$1"
	pool_with_extent "$1" "$DIR"
}
pool_with_extent() {
	on 1 trib pool create "$1" "$2" --quiet
	on 1 trib extent create "$1-x" --pool "$1" --size 16MiB --quiet >/dev/null
	URI=$(uri "$1-x")
	io "$URI" "write -P 7 0 1M" flush
}
# The pool is not known any more, and its disk not mounted.
give_up() {
	blockd_signal 1 KILL
	rm -f "$C/host1/state/pools/$1.pool"
	umount -l "$C/host1/$1" 2>/dev/null
	blockd_start 1
}

# refused POOL STATE: nothing new is placed there, and it is said everywhere why
refused() {
	local name=$1 state=$2 why
	why=$(pool "$name" message)
	[ -n "$why" ] || fail "no reason is told"
	same "$(pool "$name" available)" 0
	same "$(pool "$name" extents)" 1
	fails any "pool '$name' is $state: " on 1 trib extent create new --pool "$name" --size 1MiB
	fails any "pool '$name' is $state: " on 1 trib extent resize "$name-x" --size 32MiB
	fails any "" on 1 trib extent snapshot "host1/$name-x" --name cut
	fails any "" on 1 trib volume create no --size 300MiB --in-pool "$name"
	on 1 trib status | grep -F "pool host1/$name: $state: $why"
	on 1 trib status --json | grep -F "\"state\": \"$state\""
	on 1 curl -sf http://10.77.0.1:9399/metrics >"$TEST_DIR/metrics"
	grep -xF "trib_blockd_pool_state{pool=\"$name\",state=\"$state\"} 1" "$TEST_DIR/metrics"
	grep -xF "trib_blockd_pool_state{pool=\"$name\",state=\"online\"} 0" "$TEST_DIR/metrics"
	grep -xF "trib_blockd_pool_online{pool=\"$name\"} 0" "$TEST_DIR/metrics"
	grep -xF "trib_blockd_pool_available_bytes{pool=\"$name\"} 0" "$TEST_DIR/metrics"
	on 1 trib extent show "host1/$name-x" | grep "^pool .*$name, $state: "
	# Others go on.
	on 1 trib extent create other --pool main --size 1MiB --quiet >/dev/null
	on 1 trib extent delete other --quiet
}
# However many errors there are.
told_once() { # POOL STATE
	io "$URI" "write -P 8 2M 64k" flush || true
	io "$URI" "write -P 8 3M 64k" flush || true
	same "$(said "$1" "$2")" 1 "times that $1 was said to be $2"
}
well() { # POOL
	eventually 60 is "$1" online
	same "$(pool "$1" message)" ""
	on 1 trib status >"$TEST_DIR/status"
	! grep "pool host1/$1" "$TEST_DIR/status" || false
	[ "$(pool "$1" available)" -gt 0 ]
	io "$URI" "read -P 7 0 1M" "write -P 8 1M 1M" "read -P 8 1M 1M" flush
}
# Unmounted while it is used, checked, mounted again; nobody tells blockd.
mend() { # POOL
	umount -l "$DIR"
	eventually 30 is "$1" missing
	eventually 30 e2fsck_done
	mount "$DEV" "$DIR"
	# The kernel does.
	eventually 30 grep "extent $1-x: served again" "$LOG"
}
e2fsck_done() { e2fsck -fy "$DEV" >"$TEST_DIR/fsck" 2>&1 || [ $? = 1 ]; }

test_a_file_system_that_turned_read_only() {
	disk ro
	on 1 trib volume create vol --size 100MiB --in-pool ro --quiet
	at_exit on 1 trib volume delete vol
	echo 1 >"/sys/fs/ext4/${DEV#/dev/}/trigger_fs_error"
	io "$URI" "write -P 8 2M 64k" flush || true
	eventually 30 is ro read-only
	on 1 trib status >"$TEST_DIR/status"
	grep "^pool host1/ro: read-only: " "$TEST_DIR/status"
	grep "^volume vol: .* read-only: pool 'ro': " "$TEST_DIR/status"
	on 1 trib volume show vol | grep "read-only"
	fails any "" on 1 trib volume resize vol --size 200MiB
	fails any "" on 1 trib volume snapshot vol --name cut
	same "$(pool ro extents)" 2
	told_once ro read-only
	# What can be read is.
	on 1 qemu-io -r -f raw -c "read -P 7 0 1M" "$URI" >"$TEST_DIR/io"
	! grep -i 'fail\|error' "$TEST_DIR/io" || false
	mend ro
	well ro
	# At a start.
	blockd_signal 1 TERM
	mount -o remount,ro "$DIR"
	blockd_start 1
	eventually 30 is ro read-only
	same "$(said ro read-only)" 2
	on 1 qemu-io -r -f raw -c "read -P 7 0 1M" "$URI" >"$TEST_DIR/io"
	! grep -i 'fail\|error' "$TEST_DIR/io" || false
	mount -o remount,rw "$DIR"
	well ro
	on 1 trib volume show vol >"$TEST_DIR/vol"
	! grep "read-only" "$TEST_DIR/vol"
}

test_a_file_system_that_was_shut_down() {
	disk down
	shut_down_fs "$DIR"
	io "$URI" "write -P 8 2M 64k" flush || true
	eventually 30 is down failing
	refused down failing
	told_once down failing
	mend down
	well down
}

# A lone write of a page is made by the server's own thread, which waits for the
# frozen disk. Others are served meanwhile, and extents grow.
waits_for_the_disk() { grep -h '(nbd-1) D' /proc/"$(cat "$C/host1/blockd.pid")"/task/*/stat; }
served_beside() {
	local uri
	on 1 qemu-io -t writeback -f raw -c "write -P 9 4M 4k" "$URI" >"$TEST_DIR/writer" 2>&1 &
	WRITER=$!
	eventually 30 waits_for_the_disk
	on 1 trib extent create beside --pool main --size 1MiB --quiet >/dev/null
	uri=$(uri beside)
	for _ in 1 2 3 4; do
		io "$uri" "write -P 3 0 4k" "read -P 3 0 4k" flush
	done
	on 1 trib extent resize beside --size 2MiB --quiet
	io "$uri" "write -P 4 1M 4k" "read -P 4 1M 4k"
	on 1 trib extent unexport beside
	on 1 trib extent delete beside --quiet
	waits_for_the_disk
}

test_a_disk_that_hangs_and_answers_again() {
	local began
	disk ice
	fsfreeze -f "$DIR"
	at_exit fsfreeze -u "$DIR"
	on 1 trib pool list host1 >/dev/null
	# Nobody else waits for it.
	began=$SECONDS
	on 1 trib extent create meanwhile --pool main --size 1MiB --quiet >/dev/null
	on 1 trib extent delete meanwhile --quiet
	[ $((SECONDS - began)) -lt 60 ] || fail "took $((SECONDS - began)) s"
	eventually 60 is ice failing
	pool ice message | grep 'does not answer'
	refused ice failing
	same "$(said ice failing)" 1
	served_beside
	fsfreeze -u "$DIR"
	wait "$WRITER" || fail "the write that waited failed: $(cat "$TEST_DIR/writer")"
	io "$URI" "read -P 9 4M 4k"
	eventually 30 grep 'pool ice at .*: well again' "$LOG"
	well ice
}

test_a_disk_of_which_half_is_gone() {
	disk half
	sync -f "$DIR"
	truncate -s 64KiB "$IMAGE"
	echo 3 >/proc/sys/vm/drop_caches
	io "$URI" "read 0 1M" || true
	eventually 30 is half failing
	refused half failing
	told_once half failing
}

test_a_directory_that_is_unmounted_and_comes_back() {
	disk gone
	umount -l "$DIR"
	eventually 30 is gone missing
	fails any "pool 'gone' is missing: " on 1 trib extent create new --pool gone --size 1MiB
	on 1 trib status | grep "^pool host1/gone: missing: "
	same "$(said gone missing)" 1
	# At a start, too; the others are served.
	blockd_signal 1 KILL
	blockd_start 1
	is gone missing
	is main online
	on 1 trib status | grep "^pool host1/gone: missing: "
	on 1 trib extent create other --pool main --size 1MiB --quiet >/dev/null
	on 1 trib extent delete other --quiet
	mount "$DEV" "$DIR"
	eventually 30 grep 'extent gone-x: served again' "$LOG"
	well gone
}

# What fails at one place is no failing pool.
test_one_bad_extent_is_that_extents() {
	disk one
	on 1 trib extent create bad --pool one --size 16MiB --quiet >/dev/null
	local bad out=$TEST_DIR/bad
	bad=$(uri bad)
	io "$bad" "write -P 9 0 2M" flush
	mkfifo "$out.in"
	on 1 qemu-io -f raw "$bad" <"$out.in" >"$out" 2>&1 &
	exec 3>"$out.in"
	echo "read -P 9 0 1M" >&3
	eventually 60 grep 'read 1048576/1048576' "$out"
	truncate -s 1MiB "$DIR/extents/bad.data" # reads give EIO behind it
	echo "read 1M 1M" >&3
	eventually 60 grep 'read failed: Input/output error' "$out"
	exec 3>&-
	wait $! || true
	on 1 trib extent create more --pool one --size 1MiB --quiet >/dev/null
	is one online
	same "$(said one failing)$(said one read-only)" 00
	io "$URI" "read -P 7 0 1M" "write -P 8 1M 1M" flush
}

test_a_full_file_system_is_no_failing_one() {
	DIR=$C/host1/full
	mkdir "$DIR"
	mount -t tmpfs -o size=96m none "$DIR"
	at_exit give_up full
	pool_with_extent full "$DIR"
	! dd if=/dev/zero of="$DIR/filler" bs=1M status=none || false
	on 1 trib pool list host1 >/dev/null
	is full online
	rm "$DIR/filler"
	well full
}

# ---- raw pools ----

raw() {
	IMAGE=$C/host1/$1.img
	fallocate -l 128MiB "$IMAGE"
	DEV=$(losetup -f --show "$IMAGE")
	at_exit losetup -d "$DEV"
	at_exit give_up "$1"
	pool_with_extent "$1" "$DEV"
}

test_a_device_that_turned_read_only() {
	raw rro
	blockdev --setro "$DEV"
	at_exit blockdev --setrw "$DEV"
	io "$URI" "write -P 8 2M 64k" flush || true
	eventually 30 is rro read-only
	refused rro read-only
	told_once rro read-only
	io "$URI" "read -P 7 0 1M"
	blockdev --setrw "$DEV"
	well rro
	# At a start it is served for reading; then for writing, too.
	blockd_signal 1 TERM
	blockdev --setro "$DEV"
	# Whether it is configured or not.
	cp "$C/host1/blockd.conf" "$TEST_DIR/conf"
	echo "pool = rro=$DEV" >>"$C/host1/blockd.conf"
	blockd_start 1
	mv "$TEST_DIR/conf" "$C/host1/blockd.conf"
	is rro read-only
	refused rro read-only
	io "$URI" "read -P 7 0 1M"
	blockdev --setrw "$DEV"
	well rro
	# After a crash, with a log to be replayed and a damaged copy to be mended.
	on 1 trib extent create rro-y --pool rro --size 16MiB --quiet >/dev/null
	io "$(uri rro-y)" "write -P 5 0 1M" flush
	blockd_signal 1 KILL
	dd if=/dev/urandom of="$DEV" bs=4096 count=1 seek=256 oflag=direct conv=notrunc status=none
	blockdev --setro "$DEV"
	sha256sum "$IMAGE" >"$TEST_DIR/sum"
	blockd_start 1
	is rro read-only
	io "$URI" "read -P 7 0 1M"
	! io "$URI" "write -P 9 0 1M" flush || fail "it was written"
	same "$(sha256sum "$IMAGE")" "$(cat "$TEST_DIR/sum")"
	blockdev --setrw "$DEV"
	well rro
	io "$(uri rro-y)" "read -P 5 0 1M"
	on 1 trib pool check rro
}

test_a_device_that_is_read_only_gets_no_pool() {
	local dev
	truncate -s 128MiB "$C/blank.img"
	dev=$(losetup -r -f --show "$C/blank.img")
	at_exit losetup -d "$dev"
	fails any "'$dev' is read-only" on 1 trib pool create blank "$dev" --force
}

test_a_device_of_which_half_is_gone() {
	raw rhalf
	cp "$IMAGE" "$TEST_DIR/whole"
	truncate -s 0 "$IMAGE" # it still says to have all of them
	io "$URI" "read 0 1M" || true
	eventually 30 is rhalf failing
	refused rhalf failing
	dd if="$TEST_DIR/whole" of="$IMAGE" bs=1M conv=notrunc status=none
	well rhalf
	on 1 trib pool check rhalf
}

# Its number would be somebody else's loop device, so it is a file.
test_a_medium_that_is_absent_at_the_start() {
	IMAGE=$C/host1/away.img
	fallocate -l 128MiB "$IMAGE"
	at_exit give_up away
	pool_with_extent away "$IMAGE"
	blockd_signal 1 TERM
	mv "$IMAGE" "$IMAGE.elsewhere"
	blockd_start 1
	is away missing
	is main online
	on 1 trib status | grep "^pool host1/away: missing: "
	same "$(pool away available)" 0
	mv "$IMAGE.elsewhere" "$IMAGE"
	well away
}

# ---- what a pool was given ----

capacity() { # NAME MIB
	same "$(pool "$1" capacity)" $(($2 << 20)) "bytes of capacity of $1"
}
# moves NAME FROM TO: it is made with 100 MiB, and taken up again and again
moves() {
	local name=$1 from=$2 to=$3 conf=$C/host1/blockd.conf
	on 1 trib pool create "$name" "$from" --capacity 100MiB --quiet
	at_exit give_up "$name"
	on 1 trib pool create "$name" "$from" --quiet
	capacity "$name" 100
	# To another node, which has not seen it.
	blockd_signal 1 TERM
	rm "$C/host1/state/pools/$name.pool"
	mv "$from" "$to"
	blockd_start 1
	on 1 trib pool create "$name" "$to" >"$TEST_DIR/said"
	! grep "now" "$TEST_DIR/said" || false
	capacity "$name" 100
	# Back, while blockd runs.
	mv "$to" "$from"
	eventually 30 on 1 trib pool create "$name" "$from" --quiet
	capacity "$name" 100
	# By the configuration of one that has not seen it.
	blockd_signal 1 TERM
	rm "$C/host1/state/pools/$name.pool"
	cp "$conf" "$TEST_DIR/conf"
	echo "pool = $name=$from" >>"$conf"
	blockd_start 1
	capacity "$name" 100
	blockd_signal 1 TERM
	echo "pool-capacity = 90MiB" >>"$conf"
	blockd_start 1
	mv "$TEST_DIR/conf" "$conf"
	capacity "$name" 90
	grep "pool $name at .*: its capacity is 90.00 MiB now, and was 100.00 MiB" "$LOG"
	# Otherwise than it is, it is changed, and said; once.
	on 1 trib pool create "$name" "$from" --capacity 80MiB |
		grep 'its capacity is 80.00 MiB now, and was 90.00 MiB'
	on 1 trib pool create "$name" "$from" --capacity 80MiB >"$TEST_DIR/said"
	! grep "now" "$TEST_DIR/said" || false
	on 1 trib pool create "$name" "$from" --overcommit 150 --json |
		grep '"note": "its overcommit is 150 % now, and was 100 %"'
	blockd_signal 1 KILL
	blockd_start 1
	capacity "$name" 80
	same "$(pool "$name" overcommitPercent)" 150
}

test_a_directory_pool_that_moves_keeps_its_capacity() {
	mkdir "$C/host1/moves"
	moves moves "$C/host1/moves" "$C/host1/moved"
}

test_a_raw_pool_that_moves_keeps_its_capacity() {
	fallocate -l 256MiB "$C/host1/rmoves"
	moves rmoves "$C/host1/rmoves" "$C/host1/rmoved"
	on 1 trib pool check rmoves
}

run_tests "$@"
