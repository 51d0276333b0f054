#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union whose server is killed goes on as if nothing had been. OPTIONS: more of
# the union.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_kill_lib.sh"
need_root
need mkfs.ext4 jq python3 getfattr setfattr pgrep fio
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
D=$TEST_DIR
M=$D/mnt
chmod 755 "$D"

branches() { # one of ext4, one of tmpfs
	mkdir -p "$D/a" "$D/b" "$M"
	if ! mountpoint -q "$D/a"; then
		rm -f "$D/a.img" # somebody may hold what was mounted
		truncate -s 128M "$D/a.img"
		mkfs.ext4 -q -m 0 "$D/a.img"
		mount -o loop,noatime "$D/a.img" "$D/a"
		at_exit umount -l "$D/a"
		rmdir "$D/a/lost+found"
		mount -t tmpfs -o size=128M none "$D/b"
		at_exit umount -l "$D/b"
	fi
}

WITHOUT= # --without=resend
union() { # [OPTIONS]
	sent_again
	branches
	trib-union $WITHOUT -o "survive=yes,log=$D/log${1:+,$1}${OPTIONS:+,$OPTIONS}" "$D/a:$D/b" "$M"
	at_exit union_end "$M"
	at_exit end_supervisor
}
end_supervisor() { end_at_once $(supervisor); end_at_once $(server); }
say_more() { tail -n 3 "$D/log"; }

server() { first_of "[-]-holder-fd=3 .* $M\$"; }
supervisor() { first_of " -f --ready-fd=3 .* $M\$"; }
another_than() { local now; now=$(server) && [ "$now" != "$1" ]; }

kill_server() { # and wait for the next one
	local pid
	pid=$(server)
	kill -9 "$pid"
	eventually 30 another_than "$pid"
}

gone() { ! supervisor && ! server; }

test_names_and_contents_are_as_they_were() {
	union
	mkdir "$M/d"
	echo one >"$M/d/f"
	ln -s f "$M/d/l"
	local before
	before=$(stat -c '%i %n %s %y %h' "$M" "$M/d" "$M/d/f" "$M/d/l")
	kill_server
	same "$(stat -c '%i %n %s %y %h' "$M" "$M/d" "$M/d/f" "$M/d/l")" "$before"
	same "$(cat "$M/d/f")" one
	echo two >"$M/d/g"
	kill_server
	same "$(ls "$M/d" | xargs)" "f g l"
	same "$(cat "$M/d/g")" two
	rm -r "$M/d"
	unmount "$M"
	eventually 30 gone
}

# What matches is not looked for again, which would wait for the server.
test_a_pattern_that_meets_the_union_goes_on() {
	sent_again
	branches
	mkdir "$D/a/part" "$D/b/part"
	trib-union -o "survive=yes,log=$D/log" "$D/*/part" "$M"
	at_exit union_end "$M"
	at_exit end_supervisor
	mkdir "$M/part"
	echo kept >"$M/f"
	kill_server
	same "$(timeout 60 cat "$M/f")" kept
	kill_server
	same "$(timeout 60 ls "$M" | xargs)" "f part"
	unmount "$M"
	eventually 30 gone
}

# backing WORD ARGUMENT: as the server does it, by its connection to the kernel
backing() {
	python3 - "$(server)" "$@" <<'P'
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
pid, word, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
fds = "/proc/%d/fd" % pid
theirs = [int(fd) for fd in os.listdir(fds) if os.readlink("%s/%s" % (fds, fd)) == "/dev/fuse"][0]
fuse = libc.syscall(438, os.pidfd_open(pid), theirs, 0) # pidfd_getfd
if word == "open": # FUSE_DEV_IOC_BACKING_OPEN, FUSE_DEV_IOC_BACKING_CLOSE
    r = libc.ioctl(fuse, 0x4010e501, struct.pack("=iIQ", os.open(what, os.O_RDONLY), 0, 0))
else:
    r = libc.ioctl(fuse, 0x4004e502, struct.pack("=I", int(what)))
if r < 0:
    sys.exit(os.strerror(ctypes.get_errno()))
print(r)
P
}
test_what_a_killed_server_had_just_named_to_the_kernel_is_given_back() {
	union
	getfattr --absolute-names --only-values -n user.tributary.stats "$M" | jq -e .passthrough >"$D/out" ||
		skip "this kernel passes nothing through"
	echo kept >"$M/f"
	echo lost >"$M/g"
	exec {f}<>"$M/f"
	local one two
	one=$(backing open "$D/"[ab]/g)
	two=$(backing open "$D/"[ab]/g)
	[ "$two" -gt "$one" ]
	kill_server
	fails any "No such file" backing close "$one"
	fails any "No such file" backing close "$two"
	echo more >>"$M/f"
	same "$(xargs <&$f)" "kept more"
	exec {f}>&-
	same "$(cat "$M/f" "$M/g" | xargs)" "kept more lost"
}

test_open_files_go_on() {
	local how
	for how in auto off; do
		union "passthrough=$how"
		exec {rw}<>"$M/f" {w}>>"$M/w"
		echo one >&$rw
		kill_server
		echo two >&$rw
		echo more >&$w
		same "$(cat "$M/f" | xargs)" "one two"
		kill_server
		echo three >&$rw
		exec {rw}>&-
		kill_server
		echo more >&$w
		exec {w}>&-
		same "$(cat "$M/f" | xargs) $(cat "$M/w" | xargs)" "one two three more more"
		same "$(cat "$D"/[ab]/f | xargs)" "one two three"
		rm "$M/f" "$M/w"
		unmount "$M"
		eventually 30 gone
	done
}

test_what_was_removed_while_open_stays() {
	local how
	for how in auto off; do
		union "passthrough=$how"
		mkdir "$M/gone"
		echo kept >"$M/f"
		mkfifo "$M/p"
		exec {f}<>"$M/f" {p}<>"$M/p" {g}<"$M/gone"
		rm "$M/f" "$M/p"
		rmdir "$M/gone"
		kill_server
		kill_server
		same "$(cat /proc/self/fd/$f)" kept
		echo more >>/proc/self/fd/$f
		same "$(cat /proc/self/fd/$f | xargs)" "kept more"
		same "$(stat -L -c %F /proc/self/fd/$p)" fifo
		same "$(stat -L -c '%F %h' /proc/self/fd/$g)" "directory 0"
		exec {f}>&- {p}>&- {g}>&-
		same "$(ls -A "$M")" ""
		unmount "$M"
		eventually 30 gone
	done
}

# Files of O_TMPFILE have no name that could find them.
test_a_file_without_a_name_stays() {
	union passthrough=off
	python3 - "$M" "$D/go" "$D/next" <<'P' &
import os, subprocess, sys, time
fd = os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR, 0o600)
os.write(fd, b"kept")
open(sys.argv[2], "w").close()
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
assert os.pread(fd, 10, 0) == b"kept"
subprocess.run(["ln", "-L", "/proc/self/fd/%d" % fd, sys.argv[1] + "/named"], pass_fds=[fd], check=True)
P
	local pid=$!
	eventually 30 test -e "$D/go"
	kill_server
	touch "$D/next"
	wait $pid
	same "$(cat "$M/named")" kept
}

test_a_directory_is_listed_on() {
	branches
	mkdir "$D/a/one" "$D/a/both" "$D/b/both"
	union func.create=rand
	python3 - "$M" <<'P'
import os, sys
for d in ("both", "one"):
    for i in range(3000):
        open("%s/%s/%d-%s" % (sys.argv[1], d, i, "x" * 60), "w").close()
P
	python3 - "$M" "$(server)" <<'P'
import os, signal, sys
mount, pid = sys.argv[1], int(sys.argv[2])
readers = {d: os.scandir("%s/%s" % (mount, d)) for d in ("both", "one")}
names = {d: [next(r).name for _ in range(10)] for d, r in readers.items()}
os.kill(pid, signal.SIGKILL)
for d, r in readers.items():
    names[d] += [e.name for e in r]
    assert len(names[d]) == len(set(names[d])) == 3000, (d, len(names[d]), len(set(names[d])))
P
}

kept_files() { # how many removed ones the supervisor has
	find "/proc/$(supervisor)/fd" -lname '* (deleted)' -not -lname '/memfd:*' | wc -l
}
# The server looks for such files while requests come.
keeps_none() { ls "$M" >/dev/null && [ "$(kept_files)" = 0 ]; }
test_nothing_is_kept_of_files_that_nobody_has() {
	local i
	union passthrough=off
	python3 - "$M" "$D/stop" <<'P' &
import os, sys
i = 0
while not os.path.exists(sys.argv[2]):
    i += 1
    name = "%s/%d" % (sys.argv[1], i % 7)
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.unlink(name)
    os.close(fd)
P
	local pid=$!
	for i in $(seq 40); do
		kill_server
	done
	touch "$D/stop"
	wait $pid
	kill_server
	eventually 30 keeps_none
}

test_who_stands_in_a_directory_stays_there() {
	union
	mkdir -p "$M/d/e"
	cd "$M/d/e"
	kill_server
	touch here
	same "$(ls)" here
	same "$(cd .. && ls)" e
	cd "$D"
}

settings() {
	echo "$(getfattr --absolute-names --only-values -n user.union.category.create "$M/.union"):$(
		getfattr --absolute-names --only-values -n user.union.minfreespace "$M/.union")"
}
test_what_was_set_stays_set() {
	union "control=$D/ctl"
	mkdir "$D/c"
	mount -t tmpfs -o size=16M none "$D/c"
	at_exit umount -l "$D/c"
	echo seen >"$D/c/of-c"
	trib-union --control "$D/ctl" add "$D/c" >/dev/null
	same "$(cat "$M/of-c")" seen
	setfattr -n user.union.category.create -v mfs "$M/.union"
	setfattr -n user.union.minfreespace -v 1M "$M/.union"
	trib-union --control "$D/ctl" remove "$D/b" >/dev/null
	kill_server
	same "$(cat "$M/of-c")" seen
	same "$(settings)" mfs:1048576
	same "$(trib-union --control "$D/ctl" status | jq -r '.branches[] | select(.mode != "gone") | .path' | xargs)" "$D/a $D/c"
	kill_server
	same "$(settings)" mfs:1048576
}

creates() { getfattr --absolute-names --only-values -n user.tributary.stats "$M" | jq .creates; }
test_what_was_counted_counts_on() {
	union
	touch "$M/one" "$M/two"
	same "$(creates)" 2
	kill_server
	same "$(creates)" 2
	touch "$M/three"
	same "$(creates)" 3
}

is_state() { # BRANCH STATE
	[ "$(trib-union --control "$D/ctl" status | jq -r --arg p "$1" '.branches[] | select(.path == $p).state')" = "$2" ]
}
test_a_branch_that_has_failed_comes_back_to_the_next_server() {
	branches
	echo of-a >"$D/a/f"
	echo of-b >"$D/b/g"
	union "control=$D/ctl,policy=ff"
	same "$(cat "$M/f" "$M/g" | xargs)" "of-a of-b"
	sync -f "$D/a"
	shut_down_fs "$D/a"
	fails any "Input/output error" touch "$M/f"
	eventually 30 is_state "$D/a" failed
	kill_server
	same "$(cat "$M/g")" of-b
	fails any "Input/output error" touch "$M/f"
	eventually 30 is_state "$D/a" failed
	unmount "$D/a"
	kill_server
	eventually 30 is_state "$D/a" failed
	mount -o loop,noatime "$D/a.img" "$D/a"
	eventually 30 is_state "$D/a" ok
	same "$(cat "$M/f" "$M/g" | xargs)" "of-a of-b"
	echo more >>"$M/f"
}

lose_a() {
	sync -f "$D/a"
	shut_down_fs "$D/a"
	fails any "Input/output error" touch "$M/f"
	eventually 30 is_state "$D/a" failed
}

# The branch was back before the next server looked; the kernel does not know.
test_what_was_said_without_a_failed_branch_is_put_right_by_the_next_server() {
	branches
	echo of-a | tee "$D/a/f" "$D/a/both" >/dev/null
	echo of-b >"$D/b/both"
	union "control=$D/ctl,policy=ff"
	same "$(cat "$M/f")" of-a
	lose_a
	same "$(cat "$M/both")" of-b
	unmount "$D/a"
	mount -o loop,noatime "$D/a.img" "$D/a"
	kill_server
	eventually 30 is_state "$D/a" ok
	same "$(cat "$M/both" "$M/f" | xargs)" "of-a of-a"
	kill_server
	same "$(is_state "$D/a" ok && cat "$M/both")" of-a
}

# Its copy on the failed branch was never seen.
test_a_directory_in_doubt_is_so_to_the_next_server() {
	branches
	mkdir "$D/a/both" "$D/b/both"
	echo of-a >"$D/a/f"
	echo of-a >"$D/a/both/x"
	union "control=$D/ctl,policy=ff"
	same "$(cat "$M/f")" of-a
	lose_a
	stat "$M/both" >/dev/null
	fails any "Input/output error" stat "$M/both/x"
	kill_server
	fails any "Input/output error" stat "$M/both/x"
	fails any "Input/output error" touch "$M/both/x"
	kill_server
	fails any "Input/output error" stat "$M/both/x"
	unmount "$D/a"
	mount -o loop,noatime "$D/a.img" "$D/a"
	eventually 30 is_state "$D/a" ok
	same "$(cat "$M/both/x")" of-a
}

# Each server numbers from 0 what it puts into the work directory.
test_names_that_a_killed_server_used_are_not_in_the_way() {
	branches
	mkdir -p "$D/a/"{1,2,3}/n "$D/b/"{1,2,3}
	echo hidden | tee "$D/b/"{1,2,3}/n >/dev/null
	trib-union -o "survive=yes,log=$D/log,policy=local" "$D/a:$D/b=local" "$M"
	at_exit union_end "$M"
	at_exit end_supervisor
	mkdir -p "$D/b/.tributary/clone-0" "$D/b/.tributary/clone-1"
	sleep "$(date +%N | awk '{print 1 - $1 / 1e9}')" # all in one second
	touch "$M/1/n/f"
	kill_server
	touch "$M/2/n/f"
	kill_server
	touch "$M/3/n/f"
	same "$(cd "$D/b" && echo ?/n/f)" "1/n/f 2/n/f 3/n/f"
	same "$(cat "$D/b/.tributary/hidden-"* | xargs)" "hidden hidden hidden"
}

mode_of() { # BRANCH
	trib-union --control "$D/ctl" status | jq -r --arg p "$1" '.branches[] | select(.path == $p).mode'
}
test_a_branch_that_is_read_only_for_a_while_is_not_ro_for_good() {
	branches
	echo of-a >"$D/a/f"
	union "control=$D/ctl,policy=ff"
	local mode
	mode=$(mode_of "$D/a")
	exec {f}<"$M/f"
	mount -o remount,ro "$D/a"
	kill_server
	kill_server
	eventually 30 is_state "$D/a" read-only
	fails any "Read-only" touch "$M/f"
	echo elsewhere >"$M/g"
	same "$(ls "$D/b")" g
	mount -o remount,rw "$D/a"
	eventually 30 is_state "$D/a" ok
	same "$(mode_of "$D/a")" "$mode"
	echo more >>"$M/f"
	same "$(cat <&$f | xargs)" "of-a more"
	exec {f}<&-
	trib-union --control "$D/ctl" set "$D/a=RO" >/dev/null
	kill_server
	same "$(mode_of "$D/a")" ro
}

test_who_asks_between_two_servers_has_an_answer() {
	local i
	union "control=$D/ctl"
	for ((i = 0; i < 20; i++)); do
		eventually 30 server
		kill -9 "$(server)"
		same "$(trib-union --control "$D/ctl" status | jq -r '.branches | length')" 2
	done
}

test_data_written_while_it_is_killed_is_right() {
	local how i
	for how in auto off; do
		union "passthrough=$how"
		fio --name=w --directory="$M" --rw=randrw --bs=16k --size=16M --numjobs=2 --verify=crc32c --verify_state_save=0 \
			--time_based --runtime=4 --ioengine=psync --fallocate=none --group_reporting >"$D/fio" 2>&1 &
		local pid=$!
		for i in 1 2 3 4 5 6; do
			sleep 0.5
			kill_server
		done
		wait $pid || { cat "$D/fio"; return 1; }
		rm -f "$M"/w.*
		unmount "$M"
		eventually 30 gone
	done
}

# What a killed server had taken ends with an error and does not hang; nothing
# else is to be noticed of it.
test_a_kernel_that_sends_nothing_again_ends_what_was_being_served() {
	local i pids=()
	WITHOUT=--without=resend
	union passthrough=off
	echo kept >"$M/f"
	exec {f}<"$M/f"
	for i in 1 2 3 4; do
		timeout 60 python3 - "$M" "$i" "$D/stop" <<'P' &
import errno, os, sys
n = 0
while not os.path.exists(sys.argv[3]):
    n += 1
    try:
        os.close(os.open("%s/%s-%d" % (sys.argv[1], sys.argv[2], n), os.O_CREAT | os.O_WRONLY))
    except OSError as e:
        if e.errno not in (errno.ECONNABORTED, errno.EEXIST):
            raise
P
		pids+=($!)
	done
	for i in $(seq 30); do
		kill_server
	done
	touch "$D/stop"
	for i in "${pids[@]}"; do
		wait "$i" || fail "one of them hangs or met another error: $?"
	done
	same "$(cat <&$f)" kept
	exec {f}<&-
	echo more >"$M/g"
	same "$(cat "$M/g")" more
	grep -q "have ended with an error" "$D/log"
	unmount "$M"
	eventually 30 gone
}

test_it_is_unmounted_by_sigterm_and_by_umount() {
	union
	kill_server
	kill -TERM "$(supervisor)"
	eventually 30 gone
	! mountpoint -q "$M" || false
	union
	unmount "$M"
	eventually 30 gone
}

test_another_program_takes_over_when_told_to() {
	cp "$BUILD/bin/trib-union" "$D/trib-union"
	PATH=$D:$PATH union
	echo kept >"$M/f"
	local pid
	pid=$(server)
	exec {f}<"$M/f"
	cp "$BUILD/bin/trib-union" "$D/new"
	mv "$D/new" "$D/trib-union"
	kill -USR2 "$(supervisor)"
	eventually 30 another_than "$pid"
	same "$(cat <&$f)" kept
	exec {f}<&-
	same "$(readlink "/proc/$(server)/exe")" "$D/trib-union"
}

become() { # the next server is what is at standard input
	cat >"$D/new"
	chmod 755 "$D/new"
	mv "$D/new" "$D/trib-union"
}
become_itself() { become <"$BUILD/bin/trib-union"; }

test_one_that_ends_as_it_serves_is_started_ever_slower() {
	become_itself
	PATH=$D:$PATH union
	echo kept >"$M/f"
	become <<P
#!$(type -P python3)
import os, signal, socket, struct, time
with open("$D/starts", "a") as f:
    f.write("%d\n" % (time.monotonic() * 1000))
socket.socket(fileno=3).send(struct.pack("=IIQ", 3, 0, 0)) # KEEP_READY
os.kill(os.getpid(), signal.SIGSEGV)
P
	kill -9 "$(server)"
	eventually 60 eval '[ "$(wc -l <"$D/starts")" -ge 7 ]'
	become_itself
	# The first two at once, then after 100, 200, 400 and 800 ms.
	awk 'NR == 1 {first = $1} NR == 7 {exit $1 - first < 1500}' "$D/starts" ||
		fail "started too soon: $(xargs <"$D/starts")"
	same "$(cat "$M/f")" kept
}

# by_itself FILE: the program of the supervisor serves, as if it were the other
by_itself() {
	same "$(cat "$1")" kept
	same "$(readlink "/proc/$(server)/exe")" "$(readlink "/proc/$(supervisor)/exe")"
	same "$(cat "/proc/$(server)/comm")" trib-union
	same "$(tr '\0' '\n' <"/proc/$(server)/cmdline" | head -n 1)" "$D/trib-union"
	same "$(union_server "$M")" "$(server)"
	grep -q "the program '$D/trib-union' does not come to serve" "$D/log"
}

version() { getfattr --absolute-names --only-values -n user.union.version "$M/.union"; }
test_a_program_that_never_serves_is_done_without() {
	become_itself
	PATH=$D:$PATH union "control=$D/ctl"
	echo kept >"$M/f"
	local version pid
	version=$(version)
	printf '#!/bin/sh\nexit 3\n' | become
	kill_server
	by_itself "$M/f"
	same "$(version)" "$version"
	# A program that passes for one that can serve, and cannot.
	become <<P
#!/bin/sh
[ "\$1" != --records ] || exec "$BUILD/bin/trib-union" --records
exit 3
P
	pid=$(server)
	fails 1 "the previous one goes on" trib-union --control "$D/ctl" upgrade
	another_than "$pid"
	trib-union --control "$D/ctl" status >"$D/said"
	same "$(jq -r .current <"$D/said")" false
	fails 1 "the previous version" trib union upgrade "$M"
	by_itself "$M/f"
	same "$(jq -r .version <"$D/said")" "$version"
	become_itself
	same "$(trib-union --control "$D/ctl" upgrade | jq .current)" true
	same "$(readlink "/proc/$(server)/exe")" "$D/trib-union"
}

test_a_program_that_is_not_there_is_done_without() {
	become_itself
	PATH=$D:$PATH union
	echo kept >"$M/f"
	rm "$D/trib-union"
	kill_server
	by_itself "$M/f"
	grep -q "no such program" "$D/log"
	kill_server
	by_itself "$M/f"
}

test_a_program_that_keeps_other_records_is_done_without() {
	become_itself
	PATH=$D:$PATH union
	echo kept >"$M/f"
	become <<P
#!$(type -P python3)
import errno, socket, struct
open("$D/asked", "a").write("one\n")
s = socket.socket(fileno=3)
s.send(struct.pack("=IIQ", 4, 0, errno.EPROTO) + b"it keeps others") # KEEP_FAILED
raise SystemExit(1)
P
	kill_server
	by_itself "$M/f"
	same "$(cat "$D/asked")" one
	grep -q "it keeps others" "$D/log"
}

# And what is mounted over it is another's.
test_when_none_of_them_serves_it_is_given_up_with_words() {
	become_itself
	PATH=$D:$PATH union
	mount -t tmpfs none "$M"
	at_exit union_end "$M"
	printf '#!/bin/sh\nexit 3\n' | become
	chmod 644 "/proc/$(supervisor)/exe"
	kill -9 "$(server)"
	eventually 120 gone
	grep -q "Permission denied" "$D/log"
	grep -q "ended by exit status 3" "$D/log"
	same "$(stat -f -c %T "$M")" tmpfs
}

test_sigterm_while_none_serves_leaves_no_mount() {
	become_itself
	PATH=$D:$PATH union
	become <<P
#!/bin/sh
touch "$D/started"
exec sleep 1000
P
	kill -9 "$(server)"
	eventually 30 test -e "$D/started"
	kill -TERM "$(supervisor)"
	eventually 30 gone
	! mountpoint -q "$M" || false
	! grep -qF " $M " /proc/self/mountinfo
}

# As when systemd stops all processes of the unit.
test_a_signal_to_both_processes_is_one() {
	local i pid start took=1000 n=0
	while [ $took -ge 500 ]; do # else they were not at once
		[ $((n++)) -lt 20 ] || fail "this machine is too slow"
		union passthrough=off
		exec {f}<>"$M/f"
		pid=$(supervisor)
		start=$(date +%s%3N)
		kill -TERM "$(server)"
		while mountpoint -q "$M"; do :; done
		kill -TERM "$pid"
		took=$(($(date +%s%3N) - start))
		if [ $took -ge 500 ]; then
			exec {f}>&-
			eventually 30 gone
		fi
	done
	for i in $(seq 20); do
		echo "kept $i" >&$f
		sleep 0.05
	done
	same "$(head -n 1 "/proc/self/fd/$f")" "kept 1"
	exec {f}>&-
	eventually 30 gone
}

test_without_a_supervisor_it_serves_on() {
	union
	echo kept >"$M/f"
	kill -9 "$(supervisor)"
	rm "$M/f"
	echo more >"$M/g"
	same "$(cat "$M/g")" more
	unmount "$M"
	eventually 30 gone
}

test_refuses_to_mount_with_words() {
	mkdir -p "$D/a" "$M"
	fails 1 "No such file" trib-union -o survive=yes "$D/none" "$M"
	fails 1 "same directory" trib-union -f -o survive=yes "$D/a:$D/a" "$M"
	fails 2 "yes or no" trib-union -o survive=maybe "$D/a" "$M"
	eventually 30 gone
}

run_tests "$@"
