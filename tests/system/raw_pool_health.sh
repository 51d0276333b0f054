#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Raw pools that are damaged, checked, repaired, and that grow while they are
# served.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup qemu-io od

C=$TEST_DIR/c
at_exit cluster_stop
cluster_start "$C" 1 64MiB || { cluster_stop; exit 1; }
MEDIUM=$C/host1/medium
fallocate -l 192MiB "$MEDIUM"
on 1 trib pool create raw "$MEDIUM" --quiet || exit 1

call() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$C/host1/run/blockd.sock" "$@"; }
uri() { on 1 trib extent export "$1" --allow 10.77.0.1 | grep -o 'nbd://[^ ]*'; }
# io URI COMMAND...: each has to do what it says
io() {
	local uri=$1 args=() one
	shift
	for one; do args+=(-c "$one"); done
	on 1 qemu-io -f raw "${args[@]}" -c flush "$uri" >"$TEST_DIR/io" 2>&1 || return 1
	! grep -i 'fail\|error' "$TEST_DIR/io"
}
check() { blockd --check-pool "$MEDIUM" "$@" >"$TEST_DIR/check" 2>&1; }
found() { grep "$1" "$TEST_DIR/check" || { cat "$TEST_DIR/check"; false; }; }
le64() { od -An -tu8 -j "$1" -N 8 "$MEDIUM" | tr -d ' '; }
# zero OFFSET BYTES
zero() {
	dd if=/dev/zero of="$MEDIUM" bs=1M seek="$1" count="$2" conv=notrunc \
		oflag=seek_bytes iflag=count_bytes status=none
}
# batch N: where the Nth last batch of the log is, in its first ring
RING=$((2 << 20))
batch() {
	local at
	for at in $(grep -obUaP 'GLRT' "$MEDIUM" | cut -d: -f1); do
		[ "$at" -ge $((2 << 20)) ] && [ "$at" -lt $(((2 << 20) + RING)) ] || continue
		echo "$(le64 $((at + 8))) $at"
	done | sort -n | tail -n "$1" | head -n 1 | cut -d' ' -f2
}

on 1 trib extent create a --pool raw --size 16MiB --quiet >/dev/null || exit 1
on 1 trib extent create b --pool raw --size 16MiB --quiet >/dev/null || exit 1
A=$(uri a) B=$(uri b)

test_a_pool_that_is_served_is_checked_and_grows() {
	local before after
	io "$A" "write -P 1 0 2M"
	call CheckPool name=raw >"$TEST_DIR/check"
	found '"clean": *true'
	call CheckPool name=main 2>&1 | grep 'has nothing to check'
	fails any "in use" blockd --check-pool "$MEDIUM"
	before=$(on 1 trib pool list host1 --json | tr -d ' \n' |
		grep -o '"name":"raw"[^}]*' | grep -o '"available":[0-9]*' | cut -d: -f2)
	truncate -s 224MiB "$MEDIUM"
	call GrowPool name=raw >/dev/null
	after=$(on 1 trib pool list host1 --json | tr -d ' \n' |
		grep -o '"name":"raw"[^}]*' | grep -o '"available":[0-9]*' | cut -d: -f2)
	same $((after - before)) $((32 << 20)) "bytes that it grew by"
	# The medium is given space, not only a length.
	[ "$(stat -c %b "$MEDIUM")" -ge $((224 << 11)) ]
	# The device that was open before reaches what is in the new part.
	on 1 trib extent create fill --pool raw --size 32MiB --quiet >/dev/null
	io "$(uri fill)" "write -P 4 0 32M" "read -P 4 0 32M"
	on 1 trib extent unexport fill --quiet
	on 1 trib extent delete fill --quiet
	io "$A" "read -P 1 0 2M"
	call CheckPool name=raw >"$TEST_DIR/check"
	found '"clean": *true'
}

# busy FILE COMMAND...: again and again, until FILE.stop is there
busy() {
	local file=$1 n=0
	shift
	while [ ! -e "$file.stop" ]; do
		"$@" >"$file" 2>&1 || { echo "$*: failed" >>"$file.failed"; return; }
		n=$((n + 1))
		echo $n >"$file.n"
	done
}
writes() {
	on 1 qemu-io -f raw -c "write -P 9 8M 1M" -c "write -P 9 10236k 8k" -c flush \
		-c "discard 8M 1M" -c "write -P 5 12M 64k" -c "write -z 12M 4k" -c flush "$A"
	! grep -i 'fail\|error' "$TEST_DIR/load"
}
cuts() {
	on 1 trib extent snapshot host1/a --name busy --quiet &&
		on 1 trib extent delete busy
}
went_on() { [ "$(cat "$1.n" 2>/dev/null || echo 0)" -ge "$2" ]; }

# Nothing is found that is not wrong, whatever is under way.
test_a_pool_is_checked_while_it_is_written_to_and_cut() {
	local load=$TEST_DIR/load cut=$TEST_DIR/cut jobs i
	busy "$load" writes &
	jobs=$!
	busy "$cut" cuts &
	jobs="$jobs $!"
	at_exit touch "$load.stop" "$cut.stop"
	for i in 1 2 3; do
		eventually 60 went_on "$load" $i
		eventually 60 went_on "$cut" $i
		on 1 trib pool check raw >"$TEST_DIR/check" || { cat "$TEST_DIR/check"; false; }
	done
	touch "$load.stop" "$cut.stop"
	wait $jobs
	! cat "$load.failed" "$cut.failed" 2>/dev/null || { cat "$load" "$cut"; false; }
	on 1 trib pool check raw
	io "$A" "read -P 0 8M 1M" "read -P 9 10236k 8k" "read -P 0 12M 4k" "read -P 5 12292k 60k"
}

test_one_damaged_copy_is_found_and_repaired() {
	io "$B" "write -P 2 0 1M"
	blockd_signal 1 KILL
	check
	found 'the pool is whole'
	zero $((1 << 20)) 4096            # the second superblock
	zero $(((2 << 20) + RING)) "$RING" # all of the log's copy
	fails 1 "" check
	found 'copy 2 of the superblock is damaged'
	found 'batch.* of the log are damaged in one of two copies'
	check --repair
	found 'the pool is whole'
	check
	found 'the pool is whole'
	# And by itself, when blockd starts.
	zero 0 4096
	blockd_start 1
	grep 'copy of its superblock was damaged' "$C/host1/blockd.log"
	io "$A" "read -P 1 0 2M"
	io "$B" "read -P 2 0 1M"
	# While it is served memory knows it all.
	zero 0 4096
	zero $((1 << 20)) 4096
	call CheckPool name=raw >"$TEST_DIR/check"
	found '"clean": *false'
	call CheckPool name=raw repair=true >"$TEST_DIR/check"
	found '"repaired": *"\?2'
	blockd_signal 1 KILL
	check
	blockd_start 1
}

pool_state() { on 1 trib pool list host1 | awk -v "p=host1/$1" '$1 == p {print $3}'; }
is() { [ "$(pool_state "$1")" = "$2" ]; }
incarnation() {
	call ListPools | tr -d ' \n' | grep -o "\"name\":\"$1\"[^}]*" |
		grep -o '"incarnation":"[^"]*"'
}

# A device that shrinks to nothing, and is itself again: the kernel says so.
test_a_device_that_goes_and_comes_back_needs_no_restart() {
	local file=$C/host1/disk dev u before
	fallocate -l 128MiB "$file"
	dev=$(losetup -f --show "$file")
	at_exit losetup -d "$dev"
	on 1 trib pool create disk "$dev" --quiet
	at_exit on 1 trib pool delete disk --quiet
	on 1 trib extent create d --pool disk --size 16MiB --quiet >/dev/null
	at_exit on 1 trib extent delete d
	at_exit on 1 trib extent unexport d
	u=$(uri d)
	io "$u" "write -P 7 0 2M"
	before=$(incarnation disk)
	cp "$file" "$TEST_DIR/disk"
	truncate -s 0 "$file"
	losetup -c "$dev"
	eventually 30 grep 'pool disk at .* missing' "$C/host1/blockd.log"
	same "$(pool_state disk)" missing
	fails any missing on 1 trib extent create e --pool disk --size 1MiB
	fails any "no extent" on 1 trib extent show d
	io "$A" "write -P 1 0 2M" "read -P 1 0 2M" # the others do not notice
	dd if="$TEST_DIR/disk" of="$file" bs=1M conv=notrunc status=none
	losetup -c "$dev"
	eventually 30 grep -c 'extent d: served again' "$C/host1/blockd.log"
	same "$(pool_state disk)" online
	io "$u" "read -P 7 0 2M" "write -P 8 4M 1M" "read -P 8 4M 1M"
	[ "$(incarnation disk)" != "$before" ]
	blockd_signal 1 KILL
	blockd_start 1
	[ "$(incarnation disk)" != "$before" ]
	io "$u" "read -P 8 4M 1M"
	rm "$TEST_DIR/disk"
}

# available POOL: bytes
available() {
	on 1 trib pool list host1 --json | tr -d ' \n' | grep -o "\"name\":\"$1\"[^}]*" |
		grep -o '"available":[0-9]*' | cut -d: -f2
}
unbound() { ! losetup "$1" >/dev/null 2>&1; }
# A loop device that is nobody's: who takes a free one gets a lower number.
own_loop() {
	python3 - <<-'EOF'
		import fcntl, os, random
		control = os.open("/dev/loop-control", os.O_RDWR)
		while True:
		    number = random.randrange(1 << 16, 1 << 19)
		    try:
		        fcntl.ioctl(control, 0x4C80, number)  # LOOP_CTL_ADD
		        break
		    except FileExistsError:
		        pass
		print("/dev/loop%d" % number)
	EOF
}
own_loop_gone() { python3 -c "import fcntl, os; fcntl.ioctl(os.open('/dev/loop-control', os.O_RDWR), 0x4C81, ${1#/dev/loop})"; }
# put_on DEVICE FILE
put_on() {
	losetup "$1" "$2"
	at_exit losetup -d "$1"
}

# Another one gets the number that the first had, and is refused.
test_a_device_that_grows_is_exchanged_and_comes_back() {
	local file=$C/host1/grows other=$C/host1/other dev u before
	fallocate -l 128MiB "$file"
	fallocate -l 160MiB "$other"
	dev=$(own_loop)
	at_exit own_loop_gone "$dev"
	at_exit eventually 30 unbound "$dev"
	eventually 30 test -b "$dev"
	put_on "$dev" "$other"
	on 1 trib pool create other "$dev" --quiet
	on 1 trib extent create o --pool other --size 16MiB --quiet >/dev/null
	blockd_signal 1 TERM
	losetup -d "$dev"
	eventually 30 unbound "$dev"
	rm "$C/host1/state/pools/other.pool"
	blockd_start 1
	put_on "$dev" "$file"
	on 1 trib pool create grows "$dev" --quiet
	at_exit on 1 trib pool delete grows --quiet
	on 1 trib extent create g --pool grows --size 16MiB --quiet >/dev/null
	at_exit on 1 trib extent delete g
	at_exit on 1 trib extent unexport g
	u=$(uri g)
	io "$u" "write -P 7 0 2M"
	before=$(available grows)
	truncate -s 160MiB "$file"
	losetup -c "$dev"
	on 1 trib pool grow grows --quiet
	same $(($(available grows) - before)) $((32 << 20)) "bytes that it grew by"
	on 1 trib extent create fill --pool grows --size 32MiB --quiet >/dev/null
	io "$(uri fill)" "write -P 4 0 32M" "read -P 4 0 32M"
	io "$u" "read -P 7 0 2M" "write -P 8 4M 1M"
	# The medium goes: to nothing first, so that it is noticed, then for good.
	cp "$file" "$TEST_DIR/grows"
	truncate -s 0 "$file"
	losetup -c "$dev"
	eventually 30 is grows missing
	losetup -d "$dev"
	eventually 30 unbound "$dev"
	same "$(pool_state grows)" missing
	put_on "$dev" "$other"
	eventually 30 is grows foreign
	! io "$u" "read 0 4k" || false
	fails any "foreign" on 1 trib extent create h --pool grows --size 1MiB
	losetup -d "$dev"
	eventually 30 unbound "$dev"
	blockd --check-pool "$other" >"$TEST_DIR/check"
	found 'the pool is whole' # nobody has written to it
	mv "$TEST_DIR/grows" "$file"
	put_on "$dev" "$file"
	eventually 30 is grows online
	io "$u" "read -P 7 0 2M" "read -P 8 4M 1M"
	io "$(uri fill)" "read -P 4 0 32M"
	on 1 trib pool check grows
	on 1 trib extent unexport fill --quiet
	on 1 trib extent delete fill --quiet
}

test_a_file_that_goes_is_noticed_by_who_reads_and_another_is_refused() {
	local file=$C/host1/first other=$C/host1/second u
	fallocate -l 128MiB "$file"
	fallocate -l 128MiB "$other"
	on 1 trib pool create first "$file" --quiet
	at_exit on 1 trib pool delete first --quiet
	on 1 trib pool create second "$other" --quiet
	at_exit on 1 trib pool delete second --quiet
	on 1 trib extent create f --pool first --size 16MiB --quiet >/dev/null
	at_exit on 1 trib extent delete f
	at_exit on 1 trib extent unexport f
	u=$(uri f)
	io "$u" "write -P 7 0 2M"
	cp "$file" "$TEST_DIR/first"
	truncate -s 0 "$file"
	! io "$u" "read -P 7 0 2M" || false
	eventually 30 grep 'pool first at .* missing: .* has only 0 of' "$C/host1/blockd.log"
	cp "$other" "$TEST_DIR/second" # all of it at once, not bit by bit
	mv "$TEST_DIR/second" "$file"
	eventually 30 is first foreign
	! io "$u" "read 0 4k" || false
	mv "$TEST_DIR/first" "$file"
	eventually 30 is first online
	io "$u" "read -P 7 0 2M"
}

# A pool that could not write its metadata serves what it can, and is well
# again when its medium is.
test_a_medium_that_fails_for_a_while_needs_no_restart() {
	local file=$C/host1/sick pid u before tracer
	command -v strace >/dev/null || skip "needs strace"
	fallocate -l 128MiB "$file"
	on 1 trib pool create sick "$file" --quiet
	at_exit on 1 trib pool delete sick --quiet
	on 1 trib extent create s --pool sick --size 16MiB --quiet >/dev/null
	at_exit on 1 trib extent delete s
	at_exit on 1 trib extent unexport s
	u=$(uri s)
	io "$u" "write -P 7 0 2M"
	before=$(incarnation sick)
	pid=$(cat "$C/host1/blockd.pid")
	# Data goes another way: only metadata is written by this call.
	strace -f -qq -o /dev/null -p "$pid" -e trace=pwrite64 \
		-e inject=pwrite64:error=EIO 2>"$TEST_DIR/strace" &
	tracer=$!
	at_exit kill -9 $tracer
	eventually 60 traced "$pid"
	! io "$u" "write -P 8 4M 1M" || false
	eventually 60 grep 'pool sick at .* failing: the pool takes no changes: writing' \
		"$C/host1/blockd.log"
	# What needs no change goes on, and it is tried again and again.
	on 1 qemu-io -r -f raw -c "read -P 7 0 2M" "$u" >"$TEST_DIR/io" 2>&1
	! grep -i 'fail\|error' "$TEST_DIR/io" || false
	fails any "the pool takes no changes: writing" on 1 trib extent create t --pool sick --size 1MiB
	same "$(pool_state sick)" failing
	same "$(available sick)" 0
	on 1 trib pool list host1 --json | grep 'takes no changes'
	on 1 trib status | grep '^pool host1/sick: failing: the pool takes no changes'
	same "$(incarnation sick)" "$before"
	kill -INT $tracer
	wait $tracer || true
	eventually 30 grep 'extent s: served again' "$C/host1/blockd.log"
	eventually 30 is sick online
	[ "$(incarnation sick)" != "$before" ]
	io "$u" "read -P 7 0 2M" "write -P 8 4M 1M" "read -P 8 4M 1M"
	on 1 trib pool check sick
	same "$(cat "$C/host1/blockd.pid")" "$pid"
}

# Metadata lost in both copies hurts its own extents only, and is named.
test_damage_hurts_only_the_extents_it_hit() {
	local at
	io "$A" "write -P 1 0 2M"
	io "$B" "write -P 2 4M 1M"
	io "$A" "write -P 3 4M 1M"
	blockd_signal 1 KILL
	at=$(batch 2)
	zero "$at" 4096
	zero $((at + RING)) 4096
	fails 1 "" check
	found "extent 'b': part of its map is damaged in both copies"
	! grep "extent 'a'" "$TEST_DIR/check" || false
	blockd_start 1
	call GetExtent name=b >"$TEST_DIR/b"
	grep '"state": *"damaged"' "$TEST_DIR/b"
	on 1 trib pool list host1 --json | grep 'extents that are not served'
	io "$A" "read -P 1 0 2M" "read -P 3 4M 1M" "write -P 5 0 1M" "read -P 5 0 1M"
	# Clusters that may be in use are given to nobody.
	! io "$A" "write -P 6 8M 1M" || false
	io "$A" "read -P 0 8M 1M"
	fails any "" on 1 trib extent create c --pool raw --size 1MiB
	fails any damaged on 1 trib extent export b --allow 10.77.0.1
	blockd_signal 1 TERM
	cp "$MEDIUM" "$TEST_DIR/copy"
	blockd_start 1
	blockd_signal 1 TERM
	# Nothing but data was written.
	cmp -n $((6 << 20)) "$MEDIUM" "$TEST_DIR/copy"
	rm "$TEST_DIR/copy"
	# How it is made anew, as docs/operations.md has it.
	zero 0 $((2 << 20))
	rm "$C/host1/state/pools/raw.pool"
	blockd_start 1
	on 1 trib pool create raw "$MEDIUM" --quiet
	on 1 trib pool check raw
	same "$(pool_state raw)" online
}

run_tests "$@"
