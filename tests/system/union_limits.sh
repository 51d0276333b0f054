#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What a user may not take of a branch is not theirs through the union: what
# ext4 reserves for root, and what is above a quota (in tests/vm, too, where a
# server could go above one).
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need setpriv python3

# A branch with 40 MiB for root alone.
reserving() {
	loop_fs a 200M mkfs.ext4 -q -m 20
	chmod 777 "$D/a"
	mkdir -p "$M"
}
# How many MiB somebody gets into FILE in the way of WRITER; it stays.
write_all() { dd if=/dev/zero of="$1" bs=1M conv=notrunc oflag=append status=none 2>/dev/null || true; }
map_all() { # all of 180 MiB, by mmap: what has no room is not written
	python3 -c 'import mmap, os, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(f, 180 << 20)
m = mmap.mmap(f, 180 << 20)
for at in range(0, 180 << 20, 4096): m[at] = 1
m.flush()' "$1" 2>/dev/null || true
}
export -f write_all map_all
mib() { echo $(($(stat -c %b "$1") / 2048)); }
as_other() { "${OTHER[@]}" bash -c "$*"; }
# Up to where others end, and no further than a MiB or so.
ends_where_others_do() { # FILE
	sync -f "$D/a"
	[ "$(mib "$1")" -ge $((ROOM - 2)) ] && [ "$(mib "$1")" -le $((ROOM + 2)) ]
}
# Freed space is free a moment later: wait for it.
has_room() {
	sync -f "$D/a"
	[ "$(df --output=avail -BM "$D/a" | tail -1 | tr -d ' M')" -ge $((ROOM - 1)) ]
}
forget() { # FILE...
	rm -f "$@"
	eventually 30 has_room
}

room_of_others() {
	as_other write_all "$D/a/f"
	sync -f "$D/a"
	ROOM=$(mib "$D/a/f")
	forget "$D/a/f"
}

reserve_is_roots() { # OPTIONS
	reserving
	room_of_others
	union "policy=ff,$1" "$D/a"
	as_other write_all "$M/f"
	ends_where_others_do "$D/a/f"
	fails any "No space left" "${OTHER[@]}" fallocate -l 20M "$M/g"
	# Somebody has it open already.
	exec 7>>"$M/f"
	as_other write_all "$M/f"
	exec 7>&-
	ends_where_others_do "$D/a/f"
	# Root's file, opened by root first: as anybody may write to it.
	forget "$M/f" "$M/g"
	: >"$M/open"
	chmod 666 "$M/open"
	exec 7>>"$M/open"
	as_other write_all "$M/open"
	ends_where_others_do "$D/a/open"
	exec 7>&-
	# And for reading.
	exec 7<"$M/open"
	: >"$M/open"
	eventually 30 has_room
	as_other write_all "$M/open"
	ends_where_others_do "$D/a/open"
	exec 7<&-
	forget "$M/open"
	as_other map_all "$M/mapped"
	sync -f "$D/a"
	[ "$(mib "$D/a/mapped")" -le $((ROOM + 2)) ]
	forget "$M/mapped"
	# Root has all of it; of what is another's, where that is not passed through.
	write_all "$M/root"
	sync -f "$D/a"
	[ "$(mib "$D/a/root")" -ge $((ROOM + 30)) ]
	forget "$M/root"
	as_other : ">$M/f"
	write_all "$M/f"
	sync -f "$D/a"
	if [ "$1" = passthrough=off ]; then
		[ "$(mib "$D/a/f")" -ge $((ROOM + 30)) ]
	else
		ends_where_others_do "$D/a/f"
	fi
}
test_what_is_reserved_is_roots() { reserve_is_roots passthrough=auto; }
test_what_is_reserved_is_roots_without_passthrough() { reserve_is_roots passthrough=off; }

# One thread serves both callers. Nothing of the last writer stays for the next one:
# a caller's new files are its own, and its writes go where it may write itself.
test_callers_that_take_turns_are_each_themselves() {
	reserving
	mkdir "$D/b"
	mount -t tmpfs -o size=1M none "$D/b" # nothing moves there
	at_exit umount -l "$D/b"
	mkdir "$D/b/e"
	union "policy=ff,passthrough=off,threads=1" "$D/a:$D/b"
	python3 - "$M" "$D/a" <<-'END'
		import errno, os, shutil, sys
		top, branch = sys.argv[1:]
		MIB = 1 << 20
		def serve(uid, commands, replies): # a process that has its file open
		    os.setresgid(uid, uid, uid)
		    os.setresuid(uid, uid, uid)
		    fd = os.open(f'{top}/{uid}', os.O_CREAT | os.O_WRONLY | os.O_APPEND)
		    while os.read(commands, 1):
		        try:
		            n = os.write(fd, bytes(MIB))
		        except OSError as e:
		            n = -e.errno
		        os.write(replies, n.to_bytes(8, 'little', signed=True))
		    os._exit(0)
		def start(uid):
		    commands, replies = os.pipe(), os.pipe()
		    if os.fork() == 0:
		        os.close(commands[1])
		        serve(uid, commands[0], replies[1])
		    os.close(commands[0])
		    return commands[1], replies[0]
		def write(who):
		    os.write(who[0], b'w')
		    return int.from_bytes(os.read(who[1], 8), 'little', signed=True)
		def owner(name):
		    st = os.stat(f'{branch}/{name}')
		    return st.st_uid, st.st_gid
		root, one, two = start(0), start(1234), start(4321)
		for i in range(5):
		    for who in one, root, two, one:
		        assert write(who) == MIB
		        os.mkdir(f'{top}/d')
		        os.close(os.open(f'{top}/d/f', os.O_CREAT | os.O_WRONLY))
		        assert owner('d') == owner('d/f') == (0, 0), owner('d')
		        os.unlink(f'{top}/d/f')
		        os.rmdir(f'{top}/d')
		shutil.rmtree(f'{branch}/.tributary') # what we make for ourselves is root's
		assert write(one) == MIB
		os.mkdir(f'{top}/e/d')
		assert owner('.tributary') == owner('e') == (0, 0), owner('.tributary')
		while write(one) > 0: # what is for others; then they are out of it
		    pass
		for i in range(5):
		    assert write(one) == -errno.ENOSPC
		    assert write(root) == MIB, i
		    assert write(two) == -errno.ENOSPC
	END
}

test_what_is_reserved_is_roots_after_the_server_was_killed() {
	local option
	for option in auto off; do
		reserving
		room_of_others
		union "policy=ff,passthrough=$option" "$D/a"
		as_other ": >'$M/f'"
		coproc WRITER { exec "${OTHER[@]}" bash -c "exec 8>>'$M/f'; echo open; read -r; exec dd if=/dev/zero bs=1M status=none >&8 2>/dev/null"; }
		local pid=$WRITER_PID in=${WRITER[1]} word
		read -r word <&"${WRITER[0]}"
		same "$word" open
		kill -9 "$(union_server "$M")"
		stat "$M" >/dev/null
		echo go >&"$in"
		wait "$pid" || true
		ends_where_others_do "$D/a/f"
		unmount "$M"
		unmount "$D/a"
	done
}

# A branch that limits user 1234 to 10 MiB and 20 names.
quota() {
	rm -f "$D/a.img"
	truncate -s 200M "$D/a.img"
	mkfs.ext4 -q -O quota,project -E quotatype=usrquota:grpquota:prjquota "$D/a.img"
	mkdir -p "$D/a" "$M"
	mount -o loop,noatime,usrquota,grpquota,prjquota "$D/a.img" "$D/a" 2>/dev/null ||
		skip "the kernel has no quotas"
	at_exit umount -l "$D/a"
	chmod 777 "$D/a"
	setquota "$1" "$2" 0 10240 0 20 "$D/a"
}
within() { # FILE: it has no more than 10 MiB, but nearly
	sync -f "$D/a"
	[ "$(mib "$1")" -ge 9 ] && [ "$(mib "$1")" -le 10 ]
}
# Without it there is no root that goes above one.
need_resource() {
	local caps
	caps=$(sed -n 's/^CapEff:\t//p' /proc/self/status)
	((0x$caps >> 24 & 1)) || skip "needs CAP_SYS_RESOURCE"
	command -v setquota >/dev/null || skip "needs setquota"
}
quota_holds() { # OPTIONS
	quota -u 1234
	union "policy=ff,$1" "$D/a"
	as_other write_all "$M/f"
	within "$D/a/f"
	fails any "quota exceeded" "${OTHER[@]}" fallocate -l 20M "$M/g"
	as_other "mkdir '$M'/{1..30}" 2>/dev/null || true
	[ "$(find "$D/a" -uid 1234 | wc -l)" -le 20 ]
	rm -rf "$M"/{1..30} "$M/g"
	rm "$M/f"
	# Root goes above it: giving a file away, and writing to it where that is
	# not passed through.
	head -c 20M /dev/zero >"$M/given"
	chown 1234 "$M/given"
	if [ "$1" = passthrough=off ]; then
		head -c 5M /dev/zero >>"$M/given"
		same "$(stat -c '%u %s' "$D/a/given")" "1234 26214400"
	else
		fails any "quota exceeded" dd if=/dev/zero of="$M/given" oflag=append conv=notrunc bs=1M count=5
	fi
	# But not without that capability, as on the branch.
	fails any "quota exceeded" setpriv --bounding-set -sys_resource --inh-caps -sys_resource \
		dd if=/dev/zero of="$M/given" oflag=append conv=notrunc bs=1M count=5
	rm "$M/given"
	# Of a group, and of a project.
	setquota -u 1234 0 0 0 0 "$D/a"
	setquota -g 1234 0 10240 0 0 "$D/a"
	as_other write_all "$M/f"
	within "$D/a/f"
	rm "$M/f"
	setquota -g 1234 0 0 0 0 "$D/a"
	setquota -P 77 0 10240 0 0 "$D/a"
	mkdir -m 777 "$M/project"
	chmod 777 "$M/project"
	chattr -p 77 +P "$D/a/project"
	as_other write_all "$M/project/f"
	within "$D/a/project/f"
}
test_a_quota_holds() {
	need_resource
	[ "$(printf '%s\n' 6.9 "$(uname -r)" | sort -V | head -n 1)" = 6.9 ] ||
		skip "needs FUSE passthrough (Linux 6.9)"
	quota_holds passthrough=auto
}
test_a_quota_holds_without_passthrough() {
	need_resource
	quota_holds passthrough=off
}

# How many names project 77 has.
names_of_project() { repquota -P -n "$D/a" | awk '$1 == "#77" {print $6}'; }
# What the server makes for itself on a branch is within its quota, too.
test_the_server_obeys_a_quota() {
	need_resource
	local names
	quota -P 77
	mkdir "$D/a/branch" "$D/b"
	mount -t tmpfs -o size=1M none "$D/b"
	at_exit umount -l "$D/b"
	chattr -p 77 +P "$D/a/branch"
	: >"$D/a/branch/f"
	same "$(names_of_project)" 2
	# Nothing of its own has room there; then only the last file has none.
	for names in 2 3; do
		setquota -P 77 0 0 0 $names "$D/a"
		union policy=ff "$D/a/branch:$D/b"
		stat "$M/f" >/dev/null
		unmount "$M"
		eventually 30 [ -e "$D/b/.tributary/handles" ]
		same "$(names_of_project)" $names
		rm -r "$D/b/.tributary"
	done
}

run_tests "$@"
