#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is written to a union and made in it is there: beside a plain directory, by
# random writes, in real trees and in large directories.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need fio python3

# Random calls, the same on one ext4 and on the union; the branch that new
# names go to changes with every round, so that directories are on several.
differential() { # OPTIONS SEEDS
	three_branches
	loop_fs plain 128M mkfs.ext4 -q -m 0
	mkdir -m 777 "$D/plain/top"
	: >"$D/log" # tests before may have had reasons
	local seed round branches
	for seed in $2; do
		for round in 0 1 2 3; do
			branches=$D/a:$D/b:$D/c
			case $((round % 3)) in
			0) branches=$D/a=local:$D/b:$D/c ;;
			1) branches=$D/a:$D/b=local:$D/c ;;
			2) branches=$D/a:$D/b:$D/c=local ;;
			esac
			union "policy=local,$1" "$branches"
			(cd "$D/plain/top" && outcomes $((seed * 10 + round)) 2000 1234) >"$D/plain.out"
			(cd "$M" && outcomes $((seed * 10 + round)) 2000 1234) >"$D/union.out"
			stop
			diff "$D/plain.out" "$D/union.out" | head -n 20
			cmp "$D/plain.out" "$D/union.out"
		done
	done
	[ "$(stat -c %s "$D/log")" = 0 ] || { cat "$D/log"; fail "it logged"; }
}

test_behaves_as_one_ext4() { differential passthrough=auto "1 2 3"; }
test_behaves_as_one_ext4_without_passthrough() { differential passthrough=off "4 5 6"; }

random_data() { # OPTIONS
	three_branches
	local seed name
	for name in a b c; do
		union "$1" "$D/$name:$D/$([ $name = a ] && echo b || echo a)"
		for seed in 1 2 3; do
			random_io "$M/file$seed" $seed 3000
		done
		if [ "$1" = policy=ff ] && [ "$(stat_of passthrough)" = true ]; then
			same "$(stat_of reads)" 0
			same "$(stat_of writes)" 0
			same "$(stat_of passthrough_opens)" "$(stat_of opens)"
		fi
		stop
	done
}

test_data_is_right_in_every_way_to_write_it() { random_data policy=ff; }
test_data_is_right_without_passthrough() { random_data policy=ff,passthrough=off; }

test_the_daemon_sees_the_data_only_without_passthrough() {
	small_branches 50M 50M
	union passthrough=off "$D/a:$D/b"
	echo data >"$M/f"
	same "$(cat "$M/f")" data
	[ "$(stat_of writes)" -gt 0 ]
	same "$(stat_of passthrough_opens)" 0
	stop
}

cached() { # bytes of that file: mincore(2)
	python3 - "$D/a/f" <<-'END'
		import ctypes, mmap, os, sys
		f = os.open(sys.argv[1], os.O_RDWR)
		size = os.fstat(f).st_size
		m = mmap.mmap(f, size)
		pages = (ctypes.c_ubyte * (size // mmap.PAGESIZE))()
		at = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(m)))
		assert ctypes.CDLL(None).mincore(at, ctypes.c_size_t(size), pages) == 0
		print(sum(p & 1 for p in pages) * mmap.PAGESIZE)
	END
}

# The caller's posix_fadvise() does not reach the branch, and an io_uring writes
# past cached pages slowly.
test_an_open_for_direct_writes_drops_what_the_branch_has_cached() {
	three_branches
	union policy=ff "$D/a:$D/b"
	[ "$(stat_of passthrough)" = true ] || return 0
	dd if=/dev/zero of="$M/f" bs=64k count=16 conv=fsync status=none
	dd if="$M/f" of="$D/null" iflag=direct bs=4k count=1 status=none
	dd if=/dev/zero of="$M/f" bs=4k count=1 conv=notrunc,fsync status=none
	same "$(cached)" $((1 << 20)) "reads and other writes drop nothing"
	dd if=/dev/zero of="$M/f" oflag=direct bs=4k count=0 conv=notrunc status=none
	same "$(cached)" 0
	cmp -n 1048576 "$M/f" /dev/zero
	stop
}

test_fio_verifies_what_it_wrote() {
	three_branches
	local pt
	for pt in auto off; do
		all passthrough=$pt
		fio --name=v --directory="$M" --size=8M --rw=randwrite --bs=4k \
			--numjobs=3 --verify=crc32c --do_verify=1 --direct=1 \
			--ioengine=libaio --iodepth=8 --verify_fatal=1 --verify_state_save=0 >"$D/fio.log" ||
			{ cat "$D/fio.log"; fail "fio with passthrough=$pt"; }
		fio --name=m --directory="$M" --size=8M --rw=randwrite --bs=4k \
			--verify=crc32c --ioengine=mmap --verify_fatal=1 --verify_state_save=0 >"$D/fio.log" ||
			{ cat "$D/fio.log"; fail "fio mmap with passthrough=$pt"; }
		stop
	done
}

tree_of() { (cd "$1" && find . -printf '%y %m %u:%g %P %l\n' | sort); }
sums_of() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

test_a_real_tree_is_copied_whole() {
	three_branches
	all policy=mfs
	cp -a /usr/include "$M/include"
	same "$(sums_of "$M/include" | sha256sum)" "$(sums_of /usr/include | sha256sum)"
	same "$(tree_of "$M/include" | sha256sum)" "$(tree_of /usr/include | sha256sum)"
	stop
	all policy=mfs
	same "$(sums_of "$M/include" | sha256sum)" "$(sums_of /usr/include | sha256sum)"
	rm -rf "$M/include"
	same "$(find "$D/a" "$D/b" "$D/c" -mindepth 1 | grep -Ev '/\.tributary(/handles)?$')" ""
}

# Names on all branches, made by mounts that each prefer another.
spread() { # COUNT
	local k
	for k in a b c; do
		union policy=ff "$(printf '%s:' "$D/$k" "$D/a" "$D/b" "$D/c" |
			tr ':' '\n' | awk '!s[$0]++' | paste -sd:)"
		mkdir -p "$M/many"
		(cd "$M/many" && seq -f "$k%.0f" "$1" | xargs touch)
		stop
	done
}

test_a_hundred_thousand_entries_are_listed_once() {
	mkdir -p "$M" "$D/a" "$D/b" "$D/c"
	local name
	for name in a b c; do
		mount -t tmpfs -o size=200M,nr_inodes=0 none "$D/$name"
		at_exit umount -l "$D/$name"
	done
	spread 34000
	all policy=mfs
	same "$(find "$M/many" -mindepth 1 | wc -l)" 102000
	same "$(find "$M/many" -mindepth 1 | sort -u | wc -l)" 102000
	same "$(ls -U "$M/many" | wc -l)" 102000
	same "$(stat -c %h "$M/many")" 2
}

test_listing_goes_on_from_an_offset_while_names_come() {
	three_branches
	spread 400
	all policy=mfs
	python3 - "$M/many" <<-'PY'
		import ctypes, os, struct, sys
		libc = ctypes.CDLL(None, use_errno=True)
		path = sys.argv[1]
		fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
		def entries(fd):
		    buf = ctypes.create_string_buffer(1024)
		    while True:
		        n = libc.syscall(217, fd, buf, 1024)
		        if n <= 0:
		            return
		        at = 0
		        while at < n:
		            ino, off, length, kind = struct.unpack_from("=QqHB", buf.raw, at)
		            yield buf.raw[at + 19:at + length].split(b"\0")[0], off
		            at += length
		first = list(entries(fd))
		names = [name for name, off in first]
		assert len(names) == len(set(names)) == 1202, len(names)
		# Go on from offsets all over, with new names coming meanwhile.
		for i in range(0, len(first) - 1, 97):
		    os.close(os.open(path + "/new%d" % i, os.O_CREAT | os.O_WRONLY))
		    os.lseek(fd, first[i][1], 0)
		    got = [name for name, off in entries(fd) if not name.startswith(b"new")]
		    assert got == names[i + 1:], (i, len(got))
	PY
}

# listed part PATH FILE: 2000 of its entries are listed, which is noted in FILE;
# listed rest PATH FILE: opened anew it goes on there, no name that stayed is
# missed or seen twice
listed() {
	python3 - "$@" <<-'PY'
		import ctypes, itertools, json, os, struct, sys
		libc = ctypes.CDLL(None, use_errno=True)
		what, path, file = sys.argv[1:]
		fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
		def entries():
		    buf = ctypes.create_string_buffer(1024)
		    while (n := libc.syscall(217, fd, buf, 1024)) > 0:
		        at = 0
		        while at < n:
		            ino, off, length, kind = struct.unpack_from("=QqHB", buf.raw, at)
		            yield buf.raw[at + 19:at + length].split(b"\0")[0].decode(), off
		            at += length
		    assert n == 0, os.strerror(ctypes.get_errno())
		if what == "part":
		    # Not all, or the kernel had the whole list.
		    part = list(itertools.islice(entries(), 2000))
		    json.dump([[name for name, off in part], part[-1][1]], open(file, "w"))
		    sys.exit()
		got, at = json.load(open(file))
		os.lseek(fd, at, 0)
		got += [name for name, off in entries()]
		got = sorted(name for name in got if not name.startswith("new"))
		want = sorted([".", "..", *(str(i) for i in range(1, 3001))])
		assert got == want, (len(got), len(set(got)))
	PY
}

drained() { trib-union --control "$D/sock" status | jq -e --arg p "$1" '.branches[] | select(.path == $p) | .mode == "gone"' >/dev/null; }

test_listing_goes_on_in_a_directory_opened_anew_when_a_copy_came_or_went() {
	three_branches
	local first
	for first in a b c; do
		local other=$D/$([ $first = c ] && echo a || echo c)
		union "policy=ff,control=$D/sock" "$D/$first:$other"
		mkdir "$M/d"
		seq 3000 | sed "s|^|$M/d/|" | xargs touch
		listed part "$M/d" "$D/one"
		trib-union --control "$D/sock" set "$D/$first=nc" >/dev/null
		touch "$M/d/new"
		[ -e "$other/d/new" ]
		listed rest "$M/d" "$D/one"
		# Now it is on two, and then on one again.
		listed part "$M/d" "$D/two"
		trib-union --control "$D/sock" set "$D/$first" >/dev/null
		trib-union --control "$D/sock" drain "$other" >/dev/null
		eventually 60 drained "$other"
		listed rest "$M/d" "$D/two"
		rm -r "$M/d"
		stop
	done
}

# The kernel gives each of them what the other has read.
test_two_list_a_directory_that_one_of_them_empties() {
	three_branches
	all policy=rand
	python3 - "$M" <<-'PY'
	import os, sys
	os.chdir(sys.argv[1])
	for n in range(3):
	    os.mkdir("d")
	    for i in range(4000):
	        os.close(os.open(f"d/{i}", os.O_CREAT | os.O_WRONLY))
	    other = os.fork()
	    while other == 0:
	        try:
	            os.listdir("d")
	        except FileNotFoundError:
	            os._exit(0)
	    try:
	        with os.scandir("d") as entries:
	            for entry in entries:
	                os.unlink(entry.path)
	        left = len(os.listdir("d"))
	        assert left == 0, f"{left} names were never listed"
	        os.rmdir("d")
	    except BaseException:
	        os.kill(other, 9)
	        raise
	    finally:
	        os.waitpid(other, 0)
	PY
}

# A file system frees what was removed a moment later.
trims_to() { # BRANCH BLOCKS OPTION...
	fstrim "${@:3}" "$M"
	[ "$(stat -c %b "$D/$1.img")" -lt "$2" ]
}
test_fstrim_reaches_the_branches() {
	local a b
	three_branches
	head -c 24000000 /dev/urandom >"$D/a/f1"
	head -c 24000000 /dev/urandom >"$D/b/f2"
	sync "$D"/[ab]/f*
	all policy=rand
	rm "$M"/f*
	sync -f "$D/a" && sync -f "$D/b"
	a=$(stat -c %b "$D/a.img") b=$(stat -c %b "$D/b.img")
	# The second branch only: all of it is behind the first.
	eventually 60 trims_to b $((b - 20000)) -o $(($(stat -f -c '%b * %S' "$D/a")))
	[ "$(stat -c %b "$D/a.img")" = "$a" ]
	# Then the first, but for what is at its end.
	eventually 60 trims_to a $((a - 20000)) -l 100M
	fstrim "$M"
	fails any "Invalid argument" fstrim -o 1T "$M"
	chmod 755 "$M"
	fails any "not permitted" "${OTHER[@]}" fstrim "$M"
	fails any "" chattr +A "$M" # another command is nobody's
	unmount "$M"
	small_branches 16M 16M
	union "" "$D/a:$D/b"
	fails any "not supported" fstrim "$M"
}

run_tests "$@"
