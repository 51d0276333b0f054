#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The server of a union is killed before and after system calls of each
# operation: who asked sees it done, once, by the next server. ONCE_FULL=1: all
# of its calls (an hour); else one of them here and there (STEP: one of so many).
# And at any moment of what many do at once (KILLS: so often). OPTIONS: more of the
# union.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_kill_lib.sh"
need_root
need python3 pgrep setfattr
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
D=$TEST_DIR
M=$D/mnt
GIVEN=${OPTIONS:-} # for all of them

branches() {
	sent_again
	mkdir -p "$D/a" "$D/b" "$M"
	mount -t tmpfs -o size=32M none "$D/a"
	at_exit umount -l "$D/a"
	mount -t tmpfs -o size=32M none "$D/b"
	at_exit umount -l "$D/b"
	at_exit end_union
	at_exit union_end "$M"
}
# One thread, so that its N-th call is the N-th of the operation.
start() {
	trib-union -o "survive=yes,threads=${THREADS:-1},policy=ff,log=$D/log${OPTIONS:+,$OPTIONS}${GIVEN:+,$GIVEN}" \
		"$D/a:$D/b" "$M"
}
# Another mount namespace that has the union keeps its server.
stop() {
	unmount "$M"
	end_union
}
end_union() { end_at_once $(supervisor); end_at_once $(server); }
say_more() { # and where those that are still there stand
	tail -n 3 "$D/log"
	local pid
	for pid in $(supervisor; server); do
		echo "$pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
		grep -H . /proc/"$pid"/task/*/wchan
	done
}
server() { first_of "[-]-holder-fd=3 .* $M\$" || true; }
supervisor() { first_of " -f --ready-fd=3 .* $M\$" || true; }

# All of both branches but times, and which names the union has.
tree() {
	local b
	for b in a b; do
		(cd "$D/$b" && find . -path ./.tributary -prune -o -printf "$b %P %M %n %l " -type f -exec cat {} \; \
			-o -printf '\n' | LC_ALL=C sort)
	done
	(cd "$M" && find . -path ./.union -prune -o -printf '%P %M\n' | LC_ALL=C sort)
}

# Call by call, with nothing that a shell or a tool adds.
cat >"$D/do.py" <<'P'
import ctypes, errno, os, sys
os.chdir(sys.argv[1])
def renameat2(a, b, flags):
    if ctypes.CDLL(None, use_errno=True).renameat2(-100, a.encode(), -100, b.encode(), flags):
        raise OSError(ctypes.get_errno(), "renameat2")
try:
    exec(sys.argv[2])
except OSError as e:
    print(errno.errorcode[e.errno])
P
do_it() { python3 "$D/do.py" "$M" "$1"; }

# Kill the server at the N-th stop at a system call from now on, while this is
# done. True: it was killed.
killed_at() { # N CODE
	local rc=0 tracer line
	# The newest: one that was ended may not be gone yet.
	exec {ready}< <(exec "$BUILD/test/tests/union/kill_at" "$(server | tail -n 1)" "$1" 2>"$D/kill_at.err")
	tracer=$!
	at_exit kill -9 "$tracer"
	read -r -u "$ready" line || fail "$(cat "$D/kill_at.err")"
	said=$(timeout 60 python3 "$D/do.py" "$M" "$2") || fail "exit $? at $1: $2"
	kill "$tracer" 2>/dev/null || true
	wait "$tracer" || rc=$?
	exec {ready}<&-
	[ $rc = 0 ]
}

# What CODE says and leaves after PREPARE is the same wherever it is killed.
once_everywhere() { # PREPARE CODE
	local want_said want_tree n=0 kills=0 killed=yes most=0
	fresh() {
		find a b -mindepth 1 -delete
		eval "$1"
		start
	}
	cd "$D"
	fresh "$1"
	want_said=$(do_it "$2")
	want_tree=$(tree)
	stop
	while [ $killed = yes ] || [ $kills = 0 ]; do
		if [ $killed = no ]; then
			# The call has fewer stops: take an earlier one; the first is always there.
			[ $n -gt 1 ] || fail "no stop at a system call of $2"
			most=$((n - 1)) n=0
		fi
		n=$((n + 1))
		[ -n "${ONCE_FULL:-}" ] || n=$((n + RANDOM % (2 * ${STEP:-32})))
		[ $kills != 0 ] || [ $most = 0 ] || n=$((n % most + 1))
		fresh "$1"
		killed_at $n "$2" && killed=yes kills=$((kills + 1)) || killed=no
		same "$said" "$want_said" "$2, killed at $n"
		same "$(tree)" "$want_tree" "$2, killed at $n"
		stop
	done
	echo "# killed $kills times in $n stops of $2"
}

test_names_are_made_once() {
	branches
	once_everywhere "" 'os.close(os.open("f", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640))'
	once_everywhere "mkdir b/d" 'os.close(os.open("d/f", os.O_CREAT | os.O_EXCL | os.O_WRONLY))'
	once_everywhere "mkdir b/d" 'os.mkdir("d/e", 0o750)'
	once_everywhere "" 'os.symlink("target", "l")'
	once_everywhere "" 'os.mkfifo("p")'
	once_everywhere "echo one >b/f; mkdir a/d" 'os.link("f", "d/g")'
	once_everywhere "mkdir a/d" 'os.mkdir("d")'
}

# A copy of a directory is made in another: nothing changed there. (The kernel
# would remember what was set.)
test_times_of_directories_stay() {
	OPTIONS=cache_timeout=0
	branches
	once_everywhere "mkdir -p b/d/e" \
		'os.utime("d", (5, 5)); os.close(os.open("d/e/f", os.O_CREAT | os.O_WRONLY)); print(os.stat("d").st_mtime)'
}

test_names_go_once() {
	branches
	once_everywhere "echo seen >a/f; echo hidden >b/f" 'os.unlink("f")'
	once_everywhere "mkdir a/d b/d" 'os.rmdir("d")'
	once_everywhere "echo one >a/f; ln a/f a/g" 'os.unlink("f")'
	once_everywhere "echo one >b/f" 'f = open("f"); os.unlink("f"); print(f.read())'
}

test_names_change_once() {
	branches
	once_everywhere "echo new >a/f; echo old >a/g" 'os.rename("f", "g")'
	once_everywhere "echo new >b/f; echo old >a/g" 'os.rename("f", "g")'
	once_everywhere "mkdir a/d b/d; echo x >b/d/x" 'os.rename("d", "e")'
	once_everywhere "echo one >b/f" 'renameat2("f", "g", 1)'
	once_everywhere "echo one >b/f; echo two >b/g" 'renameat2("f", "g", 1)'
	once_everywhere "echo one >b/f; mkdir a/d" 'renameat2("f", "d", 2)'
	once_everywhere "echo seen >a/f; echo hidden >b/f; mkdir b/d" 'renameat2("d", "f", 2)'
}

test_files_change_once() {
	OPTIONS=passthrough=off
	branches
	once_everywhere "echo one >b/f" 'os.setxattr("f", "trusted.x", b"1", os.XATTR_CREATE)'
	once_everywhere "mkdir a/d b/d; setfattr -n trusted.x -v 1 a/d; setfattr -n trusted.x -v 1 b/d" \
		'os.removexattr("d", "trusted.x")'
	once_everywhere "echo one >b/f" 'open("f", "a").write("two")'
	once_everywhere "echo one >b/f" 'open("f", "w").write("two")'
	once_everywhere "echo one >b/f" 'os.chmod("f", 0o4755); os.truncate("f", 2); print(oct(os.stat("f").st_mode))'
	once_everywhere "echo one >b/f" \
		'fd = os.open(".", os.O_TMPFILE | os.O_RDWR); os.write(fd, b"x"); print(os.pread(fd, 9, 0))'
}

# A branch that is added: a caller without an answer adds it once more.
test_branches_come_once() {
	local STEP=${STEP:-128}
	OPTIONS=control=$D/ctl
	branches
	mkdir "$D/c"
	mount -t tmpfs -o size=1M none "$D/c"
	at_exit umount -l "$D/c"
	mkdir "$D/c/d"
	echo seen >"$D/c/d/f"
	once_everywhere "mkdir a/d" "import subprocess, time
os.path.exists('d/f')
for i in range(600):
    if subprocess.run(['trib-union', '--control', '$D/ctl', 'add', '$D/c'], capture_output=True).returncode == 0:
        break
    os.listdir('.'), os.listdir('d')
    time.sleep(0.05)
print(open('d/f').read(), i < 600)"
}

# A branch that is drained, and goes: its files are there all the time. A caller
# without an answer asks once more.
test_branches_go_once() {
	local STEP=${STEP:-128}
	OPTIONS=control=$D/ctl
	branches
	once_everywhere "mkdir -p a/d/e b/d; echo one >a/d/f; echo two >a/d/e/g; ln a/d/e/g a/h" "import subprocess, json, time
def control(*words):
    return subprocess.run(['trib-union', '--control', '$D/ctl', *words], capture_output=True, text=True)
def gone():
    for i in range(100):
        status = control('status')
        if status.returncode == 0:
            break
        time.sleep(0.05)
    return json.loads(status.stdout)['branches'][0]['mode'] == 'gone'
for i in range(600):
    control('drain', '$D/a')
    if open('d/f').read() + open('d/e/g').read() + open('h').read() != 'one\\ntwo\\ntwo\\n' or gone():
        break
    time.sleep(0.05)
print(gone(), os.listdir('d/e'), sorted(os.listdir('d')))"
}

test_what_is_listed_is_right() {
	branches
	once_everywhere "mkdir a/d b/d; touch a/d/one b/d/two a/three" 'print(sorted(os.listdir("d")), os.stat("d/two").st_size)'
}

# Kill server after server while that runs: it ends when its input does.
while_killed() { # COMMAND...
	local i before input
	branches
	start
	rm -f "$D/code"
	exec {input}> >("$@" >"$D/said" 2>&1; echo $? >"$D/code")
	for i in $(seq "${KILLS:-20}"); do
		before=$(serving)
		kill -9 "$before"
		eventually 30 another_than "$before"
		# Anywhere in what it does; SOON: in how it begins.
		sleep "0.0${SOON:+0}$((RANDOM % 90 + 10))"
	done
	exec {input}>&-
	eventually 120 test -s "$D/code"
	cat "$D/said"
	same "$(cat "$D/code")" 0
	stop
}
# A killed server may leave a child that has not executed its program yet, and so
# has the words of the server. The supervisor is not its parent.
serving() { pgrep -P "$(supervisor)" -f -- "[-]-holder-fd=3 .* $M\$"; }
another_than() { local now; now=$(serving) && [ "$now" != "$1" ]; }

test_many_at_once_find_what_they_made() {
	OPTIONS=func.create=rand,func.mkdir=rand THREADS=8 while_killed python3 tests/union/own_dirs.py "$M" $RANDOM 6
}
test_many_at_once_find_what_they_made_without_passthrough() {
	OPTIONS=func.create=rand,passthrough=off THREADS=8 while_killed python3 tests/union/own_dirs.py "$M" $RANDOM 6
}

# While it takes over what the one before had.
test_servers_that_are_killed_as_they_begin_are_followed() {
	SOON=yes OPTIONS=func.create=rand THREADS=8 while_killed python3 tests/union/own_dirs.py "$M" $RANDOM 6
}
# The server may have mounted, and have answered the kernel's first request.
test_a_first_server_that_is_killed_as_it_mounts_is_followed() {
	local i pid
	branches
	for i in $(seq "${KILLS:-10}"); do
		start &
		pid=$!
		eventually 30 eval '[ -n "$(server)" ]'
		sleep "0.0$((RANDOM % 3))$((RANDOM % 90 + 10))"
		kill -9 $(server) || true
		wait $pid
		timeout 60 touch "$M/f" || fail "it hangs"
		same "$(timeout 60 ls "$M")" f
		rm "$M/f"
		stop
	done
}

test_lists_are_whole() {
	OPTIONS=func.create=rand,func.mkdir=rand THREADS=8 while_killed python3 tests/union/whole_lists.py "$M/d" 4
}

run_tests "$@"
