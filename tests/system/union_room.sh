#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Files that cannot leave a full branch: other files leave it for them, while a
# writer waits. Without any it is an honest "No space left", soon.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
. "$TOP/tests/union_kill_lib.sh"
need python3 pgrep pkill

# A first branch of 128 MiB with closed files, and OPTIONS; much room elsewhere.
crowded() { # MIB_FREE [OPTIONS]
	loop_fs a 128M mkfs.ext4 -q -m 0
	loop_fs b 512M mkfs.ext4 -q -m 0
	mkdir -p "$M" "$D/a/old/sub"
	head -c 4M /dev/urandom >"$D/piece"
	local i=0
	while [ "$(df --output=avail -BM "$D/a" | tail -1 | tr -d ' M')" -ge $(($1 + 4)) ]; do
		i=$((i + 1))
		cp "$D/piece" "$D/a/old/$([ $((i % 2)) = 0 ] || echo sub/)$i"
	done
	ln "$D/a/old/2" "$D/a/old/sub/two"
	union "policy=ff${2:+,$2}" "$D/a:$D/b"
	[ "$(stat_of passthrough)" = true ] || skip "nothing is passed through"
	old >"$D/old"
	PASSED=$(stat_of passthrough_opens)
}
old() { (cd "$M/old" && find . \( -type d -printf '%i %p %M %n %T@\n' -o -printf '%i %p %M %n %s %T@\n' \) | sort -k 2 && find . -type f | sort | xargs sha256sum); }
nothing_else_changed() {
	old | diff "$D/old" - >"$D/diff" || { head "$D/diff"; fail "what moved is not as it was"; }
}
moved() { find "$D/b" -path "$D/b/.tributary" -prune -o -type f -print | wc -l; }
passes() { echo $(($(stat_of passthrough_opens) - PASSED)); } # opened since

# So much more than is free, by a file that was opened when nobody could know. These
# writers are as fast as a disk: into memory alone one may be faster than the union
# gets a processor on a busy machine, and nothing can stop it then (docs/union.md).
test_one_file_that_grows_has_the_room_of_others() {
	crowded 44
	head -c 110M /dev/urandom >"$D/data"
	dd if="$D/data" of="$M/new" bs=256k oflag=dsync status=none || fail "no room was made"
	same "$(passes)" 1
	[ -e "$D/a/new" ] && [ "$(stat_of writes)" = 0 ] || fail "it was not passed through"
	cmp "$D/data" "$M/new"
	[ "$(moved)" -gt 5 ] || fail "nothing moved"
	nothing_else_changed
}

# In the kernel's smallest pieces.
test_small_writes_wait_for_room_too() {
	crowded 44
	python3 - "$M/new" <<-'END' || fail "no room was made"
		import os, sys
		fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
		for i in range(20000):
		    os.write(fd, b'%5d' % i * 819)
		    if i % 64 == 63: os.fdatasync(fd)
	END
	python3 - "$M/new" <<-'END' || fail "it has something else"
		import sys
		data = open(sys.argv[1], 'rb').read()
		assert data == b''.join(b'%5d' % i * 819 for i in range(20000))
	END
	[ -e "$D/a/new" ]
	nothing_else_changed
}

# Killed each time it is there, as one that lacks memory would be.
test_a_nudge_that_ends_is_started_again() {
	crowded 44
	local pid n=0
	head -c 110M /dev/urandom >"$D/data"
	python3 - "$M/new" "$D/data" "$D/go" $((24 << 20)) <<-'END' >"$D/wrote" 2>&1 &
		import os, sys, time
		fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
		data = open(sys.argv[2], 'rb').read()
		for at in range(0, len(data), 1 << 12):
		    if at == int(sys.argv[4]):
		        while not os.path.exists(sys.argv[3]): time.sleep(.01)
		    os.write(fd, data[at:at + (1 << 12)])
		    if at & 0x3f000 == 0x3f000: os.fdatasync(fd)
	END
	pid=$!
	at_exit kill -9 $pid
	# The branch is near its end, and nobody writes meanwhile.
	for n in 1 2; do
		eventually 30 pkill -9 -f "^trib-nudge --nudge $M\$"
	done
	eventually 30 pgrep -f "^trib-nudge --nudge $M\$"
	: >"$D/go"
	wait $pid || fail "no room was made: $(tail -1 "$D/wrote")"
	cmp "$D/data" "$M/new"
	nothing_else_changed
}

test_a_file_opened_long_before_the_branch_filled_has_room() {
	crowded 100
	exec 7>"$M/early"
	local i
	for i in {1..24}; do cp "$D/piece" "$D/a/old/more$i"; done # by nobody that is seen
	old >"$D/old"
	head -c 60M /dev/urandom >"$D/data"
	dd if="$D/data" bs=256k oflag=dsync status=none >&7 || fail "no room was made"
	exec 7>&-
	[ -e "$D/a/early" ] && cmp "$D/data" "$M/early"
	nothing_else_changed
}

# Nobody writes for a while, and then somebody does as fast as a disk: that is told.
test_a_writer_that_pauses_has_room() {
	crowded 70
	exec 7>"$M/new"
	head -c 104M /dev/urandom >"$D/data"
	dd if="$D/data" bs=1M count=6 oflag=dsync status=none >&7
	sleep 1 # the union looks four times a second then
	dd if="$D/data" bs=1M skip=6 oflag=dsync status=none >&7 || fail "no room was made"
	exec 7>&-
	[ -e "$D/a/new" ] && cmp "$D/data" "$M/new"
	nothing_else_changed
}

# Near the end a look comes before a fast writer is there, here each 40 ms and more. A
# write asks once a look, with four requests. It does not make the next write ask.
test_a_writer_that_has_room_asks_seldom() {
	loop_fs a 512M mkfs.ext4 -q -m 0
	loop_fs b 1G mkfs.ext4 -q -m 0
	mkdir -p "$M"
	union policy=ff "$D/a:$D/b"
	[ "$(stat_of passthrough)" = true ] || skip "nothing is passed through"
	local before asked ms
	exec 7>"$M/new"
	head -c 1M /dev/zero >&7
	sync -d "$M/new"
	before=$(stat_of requests)
	ms=$(python3 - "$M/new" <<-'END'
		import mmap, os, sys, time
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
		page = mmap.mmap(-1, 4096)
		begin = time.monotonic()
		for i in range(2000):
		    os.pwrite(fd, page, i % 256 * 4096)
		    time.sleep(.0005)
		print(int((time.monotonic() - begin) * 1000))
	END
	)
	asked=$(($(stat_of requests) - before))
	exec 7>&-
	same "$(stat_of writes)" 0
	echo "# $asked requests in $ms ms"
	[ $asked -lt $((50 + ms / 4)) ] || fail "$asked requests in $ms ms"
}

test_a_writer_that_joins_a_reader_has_room() {
	crowded 44
	: >"$M/shared"
	exec 6<"$M/shared"
	same "$(passes)" 2 # to make it, and to read
	cp "$D/piece" "$M/filler1"
	head -c 12M /dev/zero >"$M/filler2" # now a writer would be seen
	sleep 1.1
	head -c 80M /dev/urandom >"$D/data"
	dd if="$D/data" of="$M/shared" bs=1M conv=notrunc oflag=dsync status=none || fail "no room was made"
	cmp "$D/data" - <&6 || fail "the reader has something else"
	exec 6<&-
	[ -e "$D/a/shared" ] && cmp "$D/data" "$M/shared"
	nothing_else_changed
}

unnamed() { # FREE: a file without a name, that is given one in the end
	crowded "$1"
	python3 - "$M" <<-'END' || fail "no room was made"
		import os, sys
		fd = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR)
		for i in range(360):
		    os.write(fd, bytes([i // 4]) * (1 << 18))
		    os.fdatasync(fd)
		os.link(f'/proc/self/fd/{fd}', 'named', dst_dir_fd=os.open(sys.argv[1], os.O_RDONLY))
		os.lseek(fd, 0, 0)
		for i in range(90):
		    assert os.read(fd, 1 << 20) == bytes([i]) * (1 << 20), i
	END
	same "$(stat -c %s "$M/named")" $((90 << 20))
	nothing_else_changed
}
test_a_file_without_a_name_has_room() { unnamed 44; }
test_a_file_without_a_name_has_room_on_a_nearly_full_branch() { unnamed 12; }

test_an_allocation_has_room() {
	crowded 44
	exec 7>"$M/reserved"
	fallocate -l 100M "$M/reserved" || fail "no room was made"
	exec 7>&-
	same "$(stat -c %s "$M/reserved")" $((100 << 20))
	[ -e "$D/a/reserved" ]
	nothing_else_changed
}

# A copy that the branch does, into a file that is read meanwhile; data in holes.
test_a_copy_and_data_in_holes_have_room() {
	crowded 50
	python3 - "$M" <<-'END' || fail "no room was made"
		import os, sys
		top, MIB = sys.argv[1], 1 << 20
		to = os.open(f'{top}/copy', os.O_CREAT | os.O_WRONLY)
		reader = os.open(f'{top}/copy', os.O_RDONLY)
		holes = os.open(f'{top}/holes', os.O_CREAT | os.O_RDWR)
		os.ftruncate(holes, 60 * MIB)
		piece = os.open(f'{top}/old/2', os.O_RDONLY)
		want = os.pread(piece, 4 * MIB, 0)
		for i in range(15):
		    os.lseek(piece, 0, 0)
		    n = 0
		    while n < len(want):
		        n += os.copy_file_range(piece, to, MIB)
		        os.fdatasync(to)
		    os.pwrite(holes, want[:MIB], 4 * i * MIB)
		    os.fdatasync(holes)
		for i in range(15):
		    assert os.pread(reader, len(want), i * len(want)) == want, i
		    assert os.pread(holes, 4 * MIB, 4 * i * MIB) == want[:MIB] + bytes(3 * MIB), i
	END
	[ -e "$D/a/copy" ] && [ "$(moved)" -gt 3 ] || fail "it is not by others that it has room"
	nothing_else_changed
}

# Nothing else can move: what it takes is what there is, and that is found soon.
test_without_anything_to_move_it_is_an_error() {
	crowded 44
	local used pid
	exec 7>"$M/new"
	python3 - "$M" >"$D/said" <<-'END' &
		import os, sys, time
		fds = [os.open(os.path.join(at, f), os.O_RDONLY)
		       for at, _, files in os.walk(sys.argv[1] + '/old') for f in files]
		print(len(fds), flush=True)
		sys.stdin.read()
		time.sleep(1000)
	END
	pid=$!
	at_exit kill $pid
	eventually 60 test -s "$D/said"
	# A writer that waits for what cannot come has its answer after 60 s.
	fails 1 'No space left' timeout 50 bash -c 'dd if=/dev/zero bs=128k count=1000 status=none >&7'
	nothing_else_changed
	same "$(moved)" 0
	# While nothing changes it costs little: walks take 1 part in 10 of the time.
	used=$(cpu)
	sleep 2
	[ $(($(cpu) - used)) -le 40 ] || fail "it goes on looking"
	# When they are closed there is room.
	kill $pid
	wait $pid || true
	eventually 60 bash -c 'dd if="$0" bs=64k status=none >&7' "$D/piece"
	exec 7>&-
}
# Servers are killed meanwhile, and the next one makes room again.
test_what_moves_is_whole_though_servers_are_killed() {
	sent_again
	crowded 44
	kill_servers "$M"
	python3 - "$M/new" <<-'END' || fail "a write failed"
		import errno, os, sys, time
		fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
		for i in range(100):
		    at, end = 0, time.time() + 100
		    while at < 1 << 20:
		        try:
		            at += os.pwrite(fd, bytes([i]) * ((1 << 20) - at), (i << 20) + at)
		        except OSError as e: # a moment without a server
		            assert e.errno == errno.ENOSPC and time.time() < end
		            time.sleep(0.02)
		    time.sleep(0.02)
	END
	eventually 60 servers_are_killed "$D/log" 8
	kill_no_more
	python3 - "$M/new" <<-'END' || fail "it has something else"
		import sys
		assert open(sys.argv[1], 'rb').read() == b''.join(bytes([i]) * (1 << 20) for i in range(100))
	END
	[ "$(moved)" -gt 5 ] || fail "nothing moved"
	nothing_else_changed
	same "$(find "$D/b/.tributary" -name 'copy-*' -o -name 'rename-*')" ""
}

cpu() { awk '{print $14 + $15}' "/proc/$(server)/stat"; } # in 10 ms

run_tests "$@"
