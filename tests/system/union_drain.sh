#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Branches of a union that are emptied, changed and taken away while it is used.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need setfattr getfacl setfacl fio python3 strace

branches() { # NAME SIZE...: an ext4 each
	mkdir -p "$M"
	while [ $# -gt 0 ]; do
		loop_fs "$1" "$2" mkfs.ext4 -q -m 0
		rmdir "$D/$1/lost+found"
		shift 2
	done
}
union() { # OPTIONS BRANCHES
	trib-union -o "${OPTIONS:+$OPTIONS,}log=$D/log,control=$D/ctl,$1" "$2" "$M"
	at_exit union_end "$M"
}
branch() { ctl status | jq -r ".branches[$1].$2"; }
is() { [ "$(branch "$1" "$2")" = "$3" ]; } # ID KEY VALUE
stop() {
	local pid
	pid=$(server)
	unmount "$M"
	eventually 30 gone "$pid"
}
# All that is to stay as it is; times of change, too, with an argument.
tree() {
	(cd "$M" && find . ! -name . -printf '%i %p %M %n %U:%G %s %A@ %T@ %l '"${1:-}"'\n' | sort -k 2)
	(cd "$M" && find . -type f | sort | xargs -d '\n' sha256sum)
	(cd "$M" && find . ! -name . ! -type l -print0 | sort -z | xargs -0 getfattr -h -d -m - 2>/dev/null)
}

fill() { # DIR
	mkdir -p "$1/d/e/f" "$1/empty"
	echo one >"$1/d/one"
	head -c 3000000 /dev/urandom >"$1/d/e/big"
	truncate -s 40M "$1/d/e/f/sparse"
	head -c 70000 /dev/urandom | dd of="$1/d/e/f/sparse" bs=1M seek=9 conv=notrunc status=none
	ln "$1/d/one" "$1/d/e/two"
	ln "$1/d/one" "$1/three"
	ln -s /nowhere "$1/d/symlink"
	mkfifo "$1/fifo"
	mknod "$1/d/device" c 1 3
	setfattr -n user.a -v b "$1/d/one" "$1/d/e"
	setfacl -m u:1234:r "$1/d/e/big"
	setfacl -d -m g:77:rx "$1/d/e"
	chown 12:34 "$1/d/e/big" "$1/d"
	chmod 4751 "$1/d/e/f/sparse"
	chmod 2710 "$1/d/e"
	touch -h -d 2001-02-03 "$1/d/symlink" "$1/d/one" "$1/fifo" "$1/d/e/f" "$1/empty"
}

test_a_drained_branch_leaves_everything_as_it_was() {
	branches a 64M b 64M c 64M
	fill "$D/a"
	mkdir -p "$D/b/d"
	chmod 700 "$D/b/d"
	echo hidden >"$D/b/three"
	union policy=ff "$D/a:$D/b:$D/c"
	tree %C@ >"$D/before"
	ctl drain "$D/a"
	eventually 60 is 0 mode gone
	tree %C@ >"$D/after"
	diff "$D/before" "$D/after" || fail "it is not as it was"
	same "$(stat -c %b "$M/d/e/f/sparse" | awk '{print ($1 < 1000)}')" 1 "holes are kept"
	same "$(ls -A "$D/a")" ""
	unmount "$D/a"
	echo new >"$M/d/new"
	same "$(df -B1 --output=size "$M" | tail -n 1)" \
		"$(df -B1 --output=size "$D/b" "$D/c" | awk 'NR > 1 {s += $1} END {print s}')"
	grep -q hidden "$D"/[bc]/.tributary/hidden-* || fail "what was hidden is lost"
	rm "$M/d/new"
	# The kernel asks anew.
	echo 2 >/proc/sys/vm/drop_caches
	tree >"$D/again"
	diff <(sed 's/ [0-9.]* *$//' "$D/before") <(sed 's/ [0-9.]* *$//' "$D/again") >"$D/diff" ||
		diff <(tree) "$D/again" || { cat "$D/diff"; fail "asked anew it is not as it was"; }
}

stubs() { find "$D/a/.tributary" -name 'moved-*' -type d | wc -l; }

test_a_directory_that_moved_shares_its_number_with_no_other() {
	local number
	branches a 64M b 64M
	mkdir -p "$D/a/d/in" "$D/b/stays"
	touch "$D/a/d/in/f" "$D/a/stays"
	union policy=ff,func.mkdir=ff "$D/a:$D/b"
	number=$(stat -c %i "$M/d" "$M/d/in")
	# A file that cannot move keeps the branch.
	ctl drain "$D/a"
	eventually 60 test ! -e "$D/a/d"
	eventually 60 is 0 drain.failed 1
	ctl drain --stop "$D/a"
	same "$(stat -c %i "$M/d" "$M/d/in")" "$number"
	# Their inodes are there, so nothing else gets those numbers.
	same "$(find "$D/a/.tributary" -type d -name 'moved-*' -printf '%i\n' | sort)" "$(sort <<<"$number")"
	mkdir "$M/7" "$M/8"
	# What keeps a number goes with the directory, also if it is replaced.
	rm -r "$M/d/in"
	same "$(stubs)" 1
	mv -T "$M/8" "$M/d"
	same "$(stubs)" 0
	# Its number stays at the next mount.
	mkdir "$M/7/e"
	number=$(stat -c %i "$M/7" "$M/7/e")
	touch "$M/7/e/f"
	ctl drain "$D/a"
	eventually 60 test ! -e "$D/a/7"
	ctl drain --stop "$D/a"
	stop
	union policy=ff "$D/a:$D/b"
	same "$(stat -c %i "$M/7" "$M/7/e")" "$number"
	rm "$M/stays"
	rm -r "$M/7"
	ctl drain "$D/a"
	eventually 60 is 0 mode gone
	same "$(ls -A "$D/a")" ""
}

# delayed CALL MICROSECONDS: the server makes each of them that late
delayed() {
	strace -f -qq -o "$D/strace" -p "$(server)" -e "trace=$1" -e signal=none \
		-e "inject=$1:delay_enter=$2" 2>"$D/strace.err" &
	at_exit kill $!
	eventually 60 traced "$(server)"
}

# A copy of what is in it changes the times of the directory's own copy.
place() { # BRANCH PLACE TURN
	mkdir -m 700 "$D/$1/.tributary"
	echo "$2 $3" >"$D/$1/.tributary/place"
}
numbers() { (cd "$M" && find . ! -name . -printf '%i %p\n' | sort -k 2); }

# A new file system takes over all that another one has, and its place.
test_a_branch_takes_the_place_of_another() {
	branches a 64M b 128M c 64M
	mkdir -p "$D/a/d/e"
	echo one >"$D/a/d/e/one"
	head -c 3000000 /dev/urandom >"$D/a/big"
	union policy=ff "$D/a:$D/b"
	place c 0 1
	touch "$D/c/two"
	mkdir "$D/b/stays"
	ctl add "$D/c"
	ctl drain "$D/a"
	# New files meanwhile, too: the numbers of c begin anew.
	echo new >"$M/new"
	eventually 60 is 0 mode gone
	# Though b has more room.
	same "$(find "$D/c/d" "$D/c/big" -type f | wc -l)" 2
	mkdir "$M/d/more"
	for i in 1 2 3 4 5 6 7 8 9; do echo $i >"$M/d/more/$i"; done
	setfattr -n user.x -v y "$M"
	chmod 751 "$M"
	numbers >"$D/before"
	same "$(sed 's/ .*//' "$D/before" | sort | uniq -d)" ""
	kill -9 "$(server)"
	eventually 30 diff "$D/before" <(numbers)
	# The next mount has it where the other one was.
	stop
	# A file that cannot move keeps the branch.
	touch "$D/c/stays"
	union policy=ff "$D/c:$D/b"
	numbers | grep -v stays | diff <(grep -v stays "$D/before") -
	same "$(stat -c %i "$M/two")" "$((1 << 48 | $(stat -c %i "$D/c/two")))"
	# A file that leaves keeps its number, and an inode there until it is removed.
	local stub
	stub=$D/c/.tributary/moved-$(printf %016x "$(stat -c %i "$M/two")")
	ctl drain "$D/c"
	eventually 60 test ! -e "$D/c/two"
	ctl drain --stop "$D/c"
	numbers | grep -v stays | diff <(grep -v stays "$D/before") -
	[ -e "$stub" ] || fail "no $stub"
	rm "$M/two"
	[ ! -e "$stub" ] || fail "it is there still"
	# A note that makes no sense is none.
	stop
	echo "0 999" >"$D/c/.tributary/place"
	union policy=ff "$D/c:$D/b"
	grep -q "makes no sense" "$D/log"
}

test_a_directory_that_gets_a_copy_elsewhere_keeps_its_times() {
	local before now
	branches a 64M b 64M
	mkdir -p "$D/a/d/sub" "$D/b/d"
	touch -d 2001-02-03 "$D/a/d" "$D/b/d"
	union policy=ff "$D/a=NC:$D/b"
	before=$(stat --cached=never -c '%y %z' "$M/d")
	delayed utimensat 100000
	touch "$M/d/sub/new" &
	while kill -0 $! 2>/dev/null; do
		now=$(stat --cached=never -c '%y %z' "$M/d")
		[ "$now" = "$before" ] || fail "its times were $now, not $before"
	done
	wait $!
	[ -e "$D/b/d/sub/new" ] || fail "it got no copy"
}

# But a name that a user makes or removes meanwhile is a change of it.
test_a_change_while_a_directory_gets_a_copy_is_seen() {
	local change before
	branches a 64M b 64M
	mkdir -p "$D"/a/d{1,2,3,4,5}/sub "$D"/b/d{1,2,3,4,5}
	touch "$D"/b/d{1,2,3,4,5}/old
	touch -d 2001-02-03 "$D"/[ab]/d*
	union policy=ff "$D/a=NC:$D/b"
	ls "$M"/d*/sub >/dev/null
	delayed utimensat 500000
	set -- "touch new" "rm old" "mv old older" "ln old new" "mkdir new"
	for change in 1 2 3 4 5; do
		touch "$M/d$change/sub/new" &
		eventually 60 test -e "$D/b/d$change/sub"
		(cd "$M/d$change" && ${!change})
		wait $!
		before=$(stat -c %Y "$M/d$change" "$D/b/d$change" | sort -u)
		[ "$before" -gt 1000000000 ] || fail "after ${!change} it is as old as before"
	done
}

test_files_that_are_open_move_or_wait() {
	branches a 64M b 64M
	mkdir "$D/a/d"
	echo pinned >"$D/a/d/pinned"
	union policy=ff "$D/a:$D/b"
	echo free >"$M/d/free"
	exec 7<>"$M/d/pinned"
	ctl drain "$D/a"
	eventually 60 is 0 drain.files_left 1
	eventually 60 is 0 drain.busy 1
	same "$(branch 0 mode)" draining
	exec 8<>"$M/d/free"
	cat "$M/d/free" >/dev/null
	printf 'PIN' >&7
	fails 1 'is being drained' ctl remove "$D/a"
	exec 7>&-
	eventually 60 is 0 mode gone
	unmount "$D/a"
	same "$(cat "$M/d/pinned")" PINned
	echo more >&8
	exec 8>&-
	same "$(cat "$M/d/free")" more
}

# The kernel maps a file that it passes through from the branch: after it was
# closed we do not see that any more.
test_files_that_are_mapped_wait_though_they_are_closed() {
	branches a 64M b 64M
	union policy=ff "$D/a:$D/b"
	head -c 1M /dev/zero >"$M/shared"
	head -c 1M /dev/zero >"$M/private"
	[ "$(ctl status | jq .counters.passthrough_opens)" -gt 0 ] || skip "needs passthrough"
	mkfifo "$D/say" "$D/hear"
	python3 - "$M" "$D" <<-'END' &
		import ctypes, mmap, os, sys
		libc = ctypes.CDLL(None, use_errno=True)
		libc.mmap.restype = ctypes.c_void_p
		libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
		libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
		size = 1 << 20
		at = {}
		for name, flags in ('shared', mmap.MAP_SHARED), ('private', mmap.MAP_PRIVATE):
		    fd = os.open(f'{sys.argv[1]}/{name}', os.O_RDWR)
		    at[name] = libc.mmap(None, size, 3, flags, fd, 0)
		    assert at[name] not in (None, ctypes.c_void_p(-1).value)
		    os.close(fd) # mmap.mmap() keeps one
		hear = open(f'{sys.argv[2]}/hear', 'w')
		print('mapped', file=hear, flush=True)
		open(f'{sys.argv[2]}/say').read()
		assert ctypes.string_at(at['private'], size) == bytes(size)
		ctypes.memmove(at['shared'] + 70000, b'stored', 6)
		libc.munmap(at['private'], size)
		libc.munmap(at['shared'], size)
	END
	local mapper=$!
	at_exit kill $mapper
	same "$(head -n 1 <"$D/hear")" mapped
	ctl drain "$D/a"
	eventually 60 is 0 drain.busy 2
	echo more >"$D/say"
	wait $mapper || fail "what was mapped is lost"
	eventually 60 is 0 mode gone
	same "$(dd if="$M/shared" bs=1 skip=70000 count=6 status=none)" stored
	unmount "$D/a"
}

# What fio wrote it reads, also from a file that moves from under it.
test_a_file_is_written_and_verified_while_it_moves() {
	branches a 96M b 96M
	union policy=ff "$D/a:$D/b"
	head -c 12M /dev/urandom >"$M/x"
	ctl drain "$D/a" --rate 6000000
	eventually 30 is 0 mode draining
	while [ ! -e "$D/enough" ]; do
		fio --name=verify --filename="$M/x" --rw=randrw --bs=4k --size=12M --io_size=3M \
			--verify=crc32c --verify_backlog=64 --ioengine=psync --verify_state_save=0 >"$D/fio" 2>&1 || exit 1
	done &
	local fio=$!
	eventually 100 is 0 mode gone
	touch "$D/enough"
	wait $fio || { cat "$D/fio"; fail "what was read is not what was written"; }
	unmount "$D/a"
	[ "$(stat -c %s "$D/b/x")" = $((12 << 20)) ] || fail "it has not moved"
}

# A kill in the moment of a move may be seen at its directory.
no_dir_times() { sed -E '/^[0-9]+ [^ ]+ d/s/ [0-9.]+ *$//'; }

test_killed_at_any_moment_the_next_mount_goes_on() {
	branches a 64M b 64M
	local i pid
	mkdir "$D/a/d"
	for i in {1..60}; do
		head -c $((i * 300)) /dev/urandom >"$D/a/d/f$i"
		ln "$D/a/d/f$i" "$D/a/l$i"
	done
	union policy=ff,survive=no "$D/a:$D/b"
	tree | no_dir_times >"$D/before"
	ctl drain "$D/a" --rate 60000
	for i in 1 2 3 4; do
		pid=$(server)
		eventually 60 sh -c "[ \$(ls '$D/b/d' | wc -l) -ge $((i * 12)) ]"
		kill -9 "$pid"
		eventually 30 gone "$pid"
		umount -l "$M"
		trib-union -o "${OPTIONS:+$OPTIONS,}log=$D/log,control=$D/ctl,policy=ff,survive=no" "$D/a:$D/b" "$M"
		tree | no_dir_times >"$D/after"
		diff "$D/before" "$D/after" >"$D/diff" || { head "$D/diff"; fail "kill $i changed it"; }
	done
	ctl drain "$D/a"
	eventually 100 is 0 mode gone
	tree | no_dir_times >"$D/after"
	diff "$D/before" "$D/after" || fail "it is not as it was"
	same "$(find "$D/b/.tributary" -name 'copy-*' -o -name 'rename-*')" ""
	unmount "$D/a"
}

# Of one status: the next round begins both anew.
says_why() { # ID FAILED
	ctl status | jq -r ".branches[$1].drain | \"\(.failed) \(.error)\"" | grep -q "^$2 .*\(No space\|has the name\)"
}
test_draining_stops_and_says_what_it_cannot_do() {
	branches a 32M b 16M
	mkdir "$D/a/d" "$D/b/x"
	head -c 20M /dev/urandom >"$D/a/d/large"
	echo a file on a, a directory on b >"$D/a/x"
	union policy=ff "$D/a:$D/b"
	ctl drain --rate 100000000 "$D/a"
	eventually 60 says_why 0 2
	same "$(branch 0 drain.rate)" 100000000
	fails 1 'no other branch takes' ctl drain "$D/b"
	fails 1 'being drained' ctl set "$D/a=ro"
	ctl drain --stop "$D/a"
	same "$(branch 0 mode)" rw
	fails 1 'not being drained' ctl drain --stop "$D/a"
	fails 1 'is no branch' ctl drain "$D/nothing"
	fails 1 'not empty' ctl remove "$D/a"
	stop
	union policy=ff "$D/a:$D/b"
	same "$(branch 0 mode)" rw "nothing goes on after a stop"
	same "$(stat -c %s "$M/d/large")" $((20 << 20))
	same "$(cat "$M/x")" "a file on a, a directory on b"
}

is_the_last_one() { ctl remove "$1" 2>&1 | grep -q 'the last one'; }
test_branches_change_their_mode_and_go() {
	branches a 32M b 32M c 32M
	union policy=ff "$D/a:$D/b:$D/c"
	echo 1 >"$M/one"
	trib union set "$M" "$D/a=nc"
	echo 2 >"$M/two"
	same "$(ls "$D/a" "$D/b" | tr '\n' ' ')" "$D/a: one  $D/b: two "
	echo again >"$M/one"
	ctl set "$D/a=ro"
	fails 2 'Read-only file system' sh -c "echo >'$M/one'"
	ctl set "$D/a=rw,1M"
	same "$(branch 0 min_free)" 1048576
	echo 3 >"$M/three"
	[ -e "$D/a/three" ] || fail "it takes no new files"
	fails 1 'not empty' ctl remove "$D/a"
	same "$(branch 0 mode)" rw
	exec 9>"$M/open"
	rm "$M/one" "$M/three" "$M/open"
	fails 1 'still in use' trib union remove "$M" "$D/a"
	exec 9>&-
	eventually 30 ctl remove "$D/a"
	same "$(branch 0 mode)" gone
	unmount "$D/a"
	fails 1 'is no branch' ctl remove "$D/a"
	trib union remove "$M" "$D/c"
	same "$(cat "$M/two")" 2
	echo 4 >"$M/four"
	fails 1 'not empty' ctl remove "$D/b"
	rm "$M"/*
	eventually 30 is_the_last_one "$D/b" # what was removed may be in use yet
	same "$(branch 1 mode)" rw
	mount -o loop "$D/a.img" "$D/a"
	trib union add "$M/." "$D/a" --json | grep -q '"id"'
	same "$(branch 3 path)" "$D/a"
	fails 3 "no union with a control socket" trib union add "$D" "$D/a"
	trib union drain "$M" "$D/b" --bandwidth 1GiB
	eventually 30 is 1 mode gone
	echo 5 >"$M/five"
	[ -e "$D/a/five" ] || fail "the branch that came back is not used"
}

# Writes of every kind that meet the end of a branch go on on another.
test_a_write_that_meets_a_full_branch_moves_its_file() {
	branches a 24M b 64M c 64M
	mkdir -p "$D/a/d/e"
	ln -s d "$D/c/d" # hidden by the directory
	union policy=ff "$D/a:$D/b:$D/c"
	head -c 14M /dev/zero >"$M/ballast"
	echo begin >"$M/d/x"
	ln "$M/d/x" "$M/link"
	ln "$M/d/x" "$M/d/e/y"
	ctl set "$D/a=rw,32M" # from here on it counts as nearly full
	local ino
	ino=$(stat -c %i "$M/d/x")
	head -c 30M /dev/urandom >"$D/data"
	python3 - "$M/d/x" "$D/data" <<-'END' || fail "a write failed"
		import os, sys
		data = open(sys.argv[2], 'rb').read()
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
		reader = os.open(sys.argv[1], os.O_RDONLY)
		at = 0
		while at < len(data):
		    n = os.write(fd, data[at:at + 300000])
		    assert n > 0
		    at += n
		assert os.pread(reader, 6, 0) == b'begin\n'
		assert os.pread(reader, 1000, 6 + 29000000) == data[29000000:29001000]
		os.fsync(fd)
	END
	cmp <(tail -c +7 "$M/link") "$D/data" || fail "the other name has something else"
	same "$(stat -c '%i %h' "$M/d/x")" "$ino 3"
	[ ! -e "$D/a/link" ] && [ -e "$D/b/link" ] && [ "$(stat -c %h "$D/b/d/e/y")" = 3 ] || fail "it has not moved as a whole"
	same "$(stat -c %s "$M/ballast")" $((14 << 20))
	# fallocate, and a copy that the branch would do.
	ctl set "$D/b=nc"
	ctl set "$D/c=nc"
	echo y >"$M/d/z"
	ctl set "$D/c=rw"
	exec 6>>"$M/d/z"
	fallocate -l 20M "$M/d/z"
	exec 6>&-
	[ -e "$D/c/d/z" ] || fail "an allocation did not move it"
	same "$(cat "$M/d/z" | head -c 1)" y
	same "$(ctl status | jq .counters.moved_files)" 2
	# Nowhere is room.
	fails 1 'No space left' dd if=/dev/zero of="$M/d/x" bs=1M count=200 conv=notrunc oflag=append
}

# nearly_full PART OPTIONS BRANCHES: the first, a, has PART of its bytes free, and
# nothing that could move
nearly_full() {
	local size free
	size=$(df --output=size -B1 "$D/a" | tail -1)
	free=$(df --output=avail -B1 "$D/a" | tail -1)
	mkdir -m 700 "$D/a/.tributary"
	fallocate -l $((free - size * $1 / 100)) "$D/a/.tributary/ballast"
	union "$2" "$3"
}
passed() { getfattr --only-values -n user.tributary.stats "$M" | jq .passthrough_opens; }
holds() { [ -e "$D/$2/$1" ] || fail "$1 is not on $2"; } # NAME BRANCH

# The server does not see writes that are passed through: it foresees them when a
# file is opened.
test_who_writes_more_than_a_nearly_full_branch_has_ends_elsewhere() {
	branches a 64M b 200M
	head -c 24M /dev/urandom >"$D/data"
	nearly_full 22 policy=ff "$D/a:$D/b"
	cp "$D/data" "$M/copied"
	holds copied b
	cp "$M/copied" "$M/within" # by copy_file_range
	holds within b
	dd if="$D/data" of="$M/by_dd" bs=1M status=none
	holds by_dd b
	truncate -s 24M "$M/mapped"
	holds mapped a
	python3 - "$M/mapped" "$D/data" <<-'END' || fail "mmap"
		import mmap, os, sys
		data = open(sys.argv[2], 'rb').read()
		fd = os.open(sys.argv[1], os.O_RDWR)
		with mmap.mmap(fd, len(data)) as m:
		    for at in range(0, 8 << 20, 1 << 20):
		        m[at:at + (1 << 20)] = data[at:at + (1 << 20)]
		os.pwrite(fd, data[8 << 20:], 8 << 20)
		os.fsync(fd)
	END
	holds mapped b
	for name in copied within by_dd mapped; do
		cmp "$D/data" "$M/$name" || fail "$name has something else"
	done
}

# There is room enough, but not for all that a sparse file may come to hold.
test_holes_are_foreseen() {
	branches a 64M b 200M
	nearly_full 45 policy=ff "$D/a:$D/b"
	head -c 40M /dev/urandom >"$D/data"
	truncate -s 40M "$M/sparse"
	holds sparse a
	dd if="$D/data" of="$M/sparse" bs=1M conv=notrunc status=none
	holds sparse b
	cmp "$D/data" "$M/sparse" || fail "it has something else"
}

# Each is small enough for the room that there is, all of them are not.
test_many_writers_at_once_are_foreseen() {
	branches a 64M b 300M
	nearly_full 32 policy=ff "$D/a:$D/b"
	python3 - "$M" <<-'END' || fail "a write failed"
		import os, sys
		fds = [os.open(f"{sys.argv[1]}/f{i}", os.O_CREAT | os.O_WRONLY) for i in range(12)]
		for i in range(8):
		    for fd in fds:
		        assert os.write(fd, b'x' * (1 << 19)) == 1 << 19
	END
	for i in 0 1 2 3 4 5 6 7 8 9 10 11; do
		same "$(stat -c %s "$M/f$i")" $((4 << 20))
	done
}

# A branch that another program writes to, past the union: the server asks for its
# room when that program has closed its file.
test_room_is_asked_for_when_a_writer_has_gone() {
	branches a 64M b 200M
	nearly_full 45 policy=ff "$D/a:$D/b"
	head -c 14M /dev/zero >"$M/first" # the room is asked for once a second
	head -c 24M /dev/urandom >"$D/data"
	cp "$D/data" "$M/second"
	holds second b
}

# Nor is anything else than ever where there is room, or nowhere more.
test_who_has_room_is_passed_through() {
	branches a 64M b 200M
	nearly_full 45 policy=ff "$D/a:$D/b"
	[ "$(ctl status | jq .passthrough)" = true ] || skip "nothing is passed through"
	echo x >"$M/x"
	same "$(passed)" 1
	stop
	rm "$D/a/x"
	fallocate -l $(($(df --output=avail -B1M "$D/b" | tail -1) - 2))M "$D/b/ballast"
	fallocate -l 8M "$D/a/more"
	union policy=ff "$D/a:$D/b"
	cp /etc/hostname "$M/y"
	holds y a
	same "$(passed)" 1
}

run_tests "$@"
