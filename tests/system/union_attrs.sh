#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Attributes of a union that the kernel keeps: stat() says what it says on the
# branch, however the file was changed and by any program. The kernel does not ask
# the server again and again for attributes that did not change.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need python3 fio
say_more() { tail -n 3 "$D/log"; }

# A python program on a new file of the union that knows: path, real (on its
# branch); fd and other, open for reading and for both; act(WHAT, CALL),
# after which stat of both is alike, though it was asked in a loop before; same(WHAT);
# libc; run(CODE): a child with the path. And shared(FD): the address of a page of
# it that is mapped to write; store(ADDRESS), with msync.
on_a_file() { # [PID]
	{
		cat <<-'END'
			import ctypes, itertools, mmap, os, subprocess, sys, time
			path = f"{sys.argv[1]}/file-{os.getpid()}"
			libc = ctypes.CDLL(None, use_errno=True)
			libc.mmap.restype = ctypes.c_void_p
			def facts(st):
			    return st.st_size, st.st_mtime_ns, st.st_ctime_ns, st.st_blocks, st.st_nlink, st.st_mode
			def same(what):
			    seen = facts(os.fstat(fd)), facts(os.stat(path))
			    size = os.lseek(fd, 0, os.SEEK_END)
			    is_so = facts(os.stat(real))
			    assert seen == (is_so, is_so) and size == is_so[0], (what, seen, size, is_so)
			def act(what, call):
			    for i in range(5):
			        same("before " + what)
			    call()
			    same(what)
			def run(code):
			    subprocess.run([sys.executable, "-c", "import mmap, os, sys\n" + code, path], check=True)
			def fallocate(mode, offset, length):
			    assert libc.fallocate(other, mode, ctypes.c_long(offset), ctypes.c_long(length)) == 0
			def shared(fd):
			    return libc.mmap(None, ctypes.c_size_t(4096), 3, 1, fd, ctypes.c_long(0))
			bytes_of = itertools.count(1)
			def store(at):
			    ctypes.memset(at, next(bytes_of) % 256, 100)
			    assert libc.msync(ctypes.c_void_p(at), ctypes.c_size_t(4096), 4) == 0
			def unmap(at):
			    libc.munmap(ctypes.c_void_p(at), ctypes.c_size_t(4096))
			with open(path, "wb") as f:
			    f.write(b"a" * 200000)
			os.utime(path, (5, 5))
			real = next(p for p in (b + path[len(sys.argv[1]):] for b in sys.argv[2:]) if os.path.exists(p))
			fd = os.open(path, os.O_RDONLY)
			other = os.open(path, os.O_RDWR)
		END
		cat
	} >"$D/program.py"
	python3 "$D/program.py" "$M" "$D/a" "$D/b" "$D/c" "$@"
}

changes() {
	on_a_file <<-'END'
		act("a write", lambda: os.pwrite(other, b"x", 0))
		act("a write that extends", lambda: os.pwrite(other, b"x" * 5000, os.fstat(other).st_size))
		act("what a child appends", lambda: run("open(sys.argv[1], 'ab').write(b'y' * 777)"))
		act("O_TRUNC", lambda: os.close(os.open(path, os.O_WRONLY | os.O_TRUNC)))
		act("ftruncate", lambda: os.ftruncate(other, 100000))
		act("truncate", lambda: os.truncate(path, 150000))
		act("fallocate", lambda: fallocate(0, 0, 300000))
		act("a hole", lambda: fallocate(3, 0, 65536))
		act("fallocate that keeps the size", lambda: fallocate(1, 0, 900000))
		with open(path + ".other", "w+b") as source:
		    source.write(b"s" * 100000)
		    source.flush()
		    act("copy_file_range", lambda: os.copy_file_range(source.fileno(), other, 70000, 0, 400000))
		    os.lseek(other, 0, os.SEEK_END)
		    act("sendfile", lambda: os.sendfile(other, source.fileno(), 0, 5000))
		def splice():
		    r, w = os.pipe()
		    os.write(w, b"z" * 3000)
		    os.splice(r, other, 3000, offset_dst=os.fstat(other).st_size)
		    os.close(r)
		    os.close(w)
		act("splice", splice)
		direct = os.open(path, os.O_RDWR | os.O_DIRECT)
		page = mmap.mmap(-1, 4096)
		act("O_DIRECT", lambda: os.pwritev(direct, [page], 4096 * 200))
		act("chmod", lambda: os.chmod(path, 0o640))
		act("utime", lambda: os.utime(path, (7, 7)))
		act("an extended attribute", lambda: os.setxattr(path, "trusted.a", b"1"))
		act("a link", lambda: os.link(path, path + ".link"))
		act("a link that goes", lambda: os.unlink(path + ".link"))
		fallocate(0, 0, 2 << 20)
		for engine in "io_uring", "libaio":
		    act(engine, lambda: subprocess.run(
		        ["fio", "--name=x", "--filename=" + path, "--rw=randwrite", "--bs=4k", "--iodepth=8", "--direct=1",
		         "--ioengine=" + engine, "--size=128k", "--number_ios=20", "--offset=1M", "--allow_file_create=0",
		         "--overwrite=1"], stdout=subprocess.DEVNULL, check=True))
	END
}

# On a file system of each kind: a union for each, where files go to that.
each_kind() { # OPTIONS FUNCTION...
	three_branches
	local kind
	for kind in a:b:c b:c:a c:a:b; do
		union "policy=ff,$1" "$D/${kind//:/:$D/}"
		"${@:2}"
		stop
	done
}

test_a_change_is_seen_at_once() { each_kind passthrough=auto changes; }
test_a_change_is_seen_at_once_without_passthrough() { each_kind passthrough=off changes; }

stores() {
	on_a_file "$(server)" <<-'END'
		# Into a new mapping: by whom stat was asked in a loop, and after a rest.
		for rest in 0, 0.1:
		    for i in range(5):
		        same("before it is mapped")
		    time.sleep(rest)
		    os.utime(path, (9, 9))
		    at = shared(other)
		    assert os.stat(path).st_mtime == 9
		    store(at)
		    assert os.stat(path).st_mtime != 9
		    same("a store")
		    # With times that were set.
		    for i in range(20):
		        os.utime(path, (9, 9))
		        same("its times were set")
		        store(at) # where its page is dirty its times stay
		        same("a store after others")
		    for i in range(20):
		        os.fstat(fd)
		    time.sleep(0.2)
		    store(at)
		    same("a store after a rest")
		    unmap(at)
		    same("unmapped")
		act("what a child maps and leaves mapped", lambda: run(
		    "m = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 4096); os.stat(sys.argv[1]); m[0:9] = b'z' * 9"))
		# Into that of a file that others have looked at before.
		os.close(fd)
		os.close(other)
		for i in range(2):
		    run("os.stat(sys.argv[1])")
		    file = os.open(path, os.O_RDWR)
		    at = shared(file)
		    fd = os.open(path, os.O_RDONLY)
		    store(at)
		    same("a store into what others know")
		    unmap(at)
		    os.close(file)
		    os.close(fd)
		# Into a mapping that has outlived its file.
		file = os.open(path, os.O_RDWR)
		at = shared(file)
		os.close(file)
		fd = os.open(path, os.O_RDONLY)
		first = True
		for i in range(10):
		    for i in range(5):
		        same("closed, and mapped")
		    os.utime(path, (9, 9))
		    same("its times were set")
		    store(at)
		    same("a store into what is closed")
		    assert os.stat(path).st_mtime != 9 or not first
		    first = False
		# That somebody else writes to.
		file = os.open(path, os.O_WRONLY)
		store(at)
		same("a store beside who writes")
		os.close(file)
		os.kill(int(sys.argv[5]), 9)
		same("another server")
		store(at)
		same("a store after a kill")
		unmap(at)
		same("unmapped at last")
	END
}

test_stores_into_a_mapping_are_seen() { each_kind passthrough=auto stores; }
test_stores_into_a_mapping_are_seen_without_passthrough() { each_kind passthrough=off stores; }

requests() { stat_of requests; }

# Of the union's own mount, while nobody else uses it.
asked_less_than() { # COUNT PROGRAM...: requests
	local before after
	before=$(requests)
	"${@:2}"
	after=$(requests)
	[ $((after - before)) -lt "$1" ] || fail "$((after - before)) requests, not less than $1: ${*:2}"
}

# Where there is little room the union itself asks of files, too.
large_branch() {
	loop_fs a 100G mkfs.ext4 -q -m 0
	mkdir -p "$M"
	chmod 777 "$D/a"
	union policy=ff "$D/a"
}

test_what_did_not_change_is_not_asked_again() {
	large_branch
	local calls=20000
	asked_less_than $((calls / 10)) on_a_file <<-'END'
		for i in range(20000):
		    os.lseek(other, 0, os.SEEK_END)
	END
	asked_less_than $((calls / 10)) on_a_file <<-'END'
		for i in range(20000):
		    os.fstat(other)
	END
	asked_less_than $((calls / 10)) on_a_file <<-'END'
		for i in range(10000):
		    os.lseek(other, 0, os.SEEK_END)
		    os.stat(path)
	END
	# A program that looks at the file now and then.
	asked_less_than $((calls / 10)) on_a_file <<-'END'
		for i in range(20000):
		    if i % 1000 == 0:
		        os.pread(other, 1, 0)
		        os.stat(path)
		    os.lseek(fd, 0, os.SEEK_END)
	END
	# A program that opens the file again.
	asked_less_than 2300 on_a_file <<-'END'
		for i in range(1000):
		    os.close(os.open(path, os.O_RDWR))
	END
	# Once it is closed, nothing is asked at all.
	on_a_file <<-'END'
		os.rename(path, sys.argv[1] + "/closed")
	END
	stat "$M/closed" >/dev/null
	asked_less_than 100 python3 -c 'import os, sys
for i in range(1000):
    os.stat(sys.argv[1])' "$M/closed"
	stop
}

test_a_new_file_costs_five_requests() { # its directory, twice its name, may it be written to, closed
	large_branch
	local count=1000
	asked_less_than $((count * 5 + 200)) python3 -c 'import os, sys
for i in range(1000):
    fd = os.open(f"{sys.argv[1]}/{i}", os.O_RDWR | os.O_CREAT | os.O_EXCL)
    os.write(fd, b"one")
    os.close(fd)' "$M"
	stop
}

run_tests "$@"
