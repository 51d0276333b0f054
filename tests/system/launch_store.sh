#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union whose server and supervisor are killed at once goes on: the launcher
# has what they had. Here trib-launch is asked for trib-union by its socket.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/launch_lib.sh"
. "$TOP/tests/union_kill_lib.sh"
. "$TOP/tests/writer_lib.sh"
need_root
need python3 pgrep unshare
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
M=$D/mnt
mkdir -p "$D/a" "$D/b" "$M"
ln -s "$BUILD/bin/trib-union" "$D/bin/trib-union"
say_more() { tail -n 5 "$D"/log "$D"/launch*.log; }

server() { union_server "$M"; }
supervisor() { union_supervisor "$M"; }
gone() { ! pgrep -f -- "trib-union .*$M\$" >/dev/null; }

# union NAME OF A LAUNCHER
union() {
	local b
	sent_again
	for b in a b; do
		mount -t tmpfs -o size=64M none "$D/$b"
		at_exit umount -l "$D/$b"
	done
	at_exit union_end "$M"
	python3 - "$D/$1.sock" "$D/log" trib-union -f -o survive=yes "$D/a:$D/b" "$M" <<'P'
import os, socket, struct, sys
words = sys.argv[3:]
log = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect(sys.argv[1])
text = b"".join(word.encode() + b"\0" for word in words)
socket.send_fds(s, [struct.pack(">IHHII", 0x54724C61, 1, 1, os.getpid(), len(words)) + text], [log])
sys.exit(struct.unpack(">IHHI", s.recv(412)[:12])[2])
P
	eventually 30 mountpoint -q "$M"
}
unmount_all() { # and what lay below it is free at once
	local pid
	pid=$(supervisor)
	eventually 30 umount "$M"
	eventually 30 ended "$pid"
	umount "$D/a" "$D/b"
	gone
}

# Files that are removed while they are open, all the time: their number is in
# $D/removed, an error in $D/lost.
holder_start() {
	rm -f "$D/hold" "$D/lost" "$D/removed"
	touch "$D/hold"
	python3 - "$M" "$D" <<'P' &
import collections, os, sys
mount, top = sys.argv[1:]
held = collections.deque()
number = 0
try:
    while os.path.exists(top + "/hold"):
        number += 1
        name = "%s/removed.%d" % (mount, number)
        fd = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        os.write(fd, b"%d" % number)
        os.unlink(name)
        held.append((number, fd))
        if len(held) > 40:
            was, fd = held.popleft()
            os.write(fd, b".")
            if os.pread(fd, 100, 0) != b"%d." % was:
                raise OSError("file %d has another content" % was)
            os.close(fd)
        with open(top + "/removed.new", "w") as f:
            f.write("%d" % number)
        os.rename(top + "/removed.new", top + "/removed")
except OSError as e:
    with open(top + "/lost", "w") as f:
        f.write("file %d: %s" % (number, e))
    sys.exit(1)
P
	HOLDER=$!
	at_exit rm -f "$D/hold"
	eventually 30 holds 50
}
holds() { [ ! -e "$D/lost" ] || fail "$(cat "$D/lost")"; [ "$(cat "$D/removed" 2>/dev/null || echo 0)" -ge "$1" ]; }
holder_goes_on() { eventually 60 holds $(($(cat "$D/removed") + 50)); }
holder_stop() {
	rm "$D/hold"
	wait "$HOLDER" || fail "$(cat "$D/lost")"
}
written() { [ "$(cat "$D/written")" -gt "$1" ]; }
writer_goes_on() {
	eventually 60 written $(($(cat "$D/written") + 2))
	[ ! -e "$D/errors" ] || fail "$(cat "$D/errors")"
}

test_both_are_killed_at_once_again_and_again() {
	local i one two
	launcher one
	union one
	eventually 30 stores "$LAUNCHER"
	echo kept >"$M/kept"
	exec 7>"$M/open" 8<"$M/open"
	rm "$M/open"
	writer_start "$M"
	holder_start
	for i in 1 2 3 4 5 6 7 8; do
		one=$(supervisor)
		two=$(server)
		if [ $((i % 2)) = 0 ]; then end_at_once "$one" "$two"; else end_at_once "$two" "$one"; fi
		same "$(timeout 60 cat "$M/kept")" kept
		echo "line $i" >&7
		holder_goes_on
		writer_goes_on
		eventually 30 server
	done
	holder_stop
	writer_stop "$M"
	same "$(cat <&8 | wc -l)" 8
	exec 7>&- 8<&-
	unmount_all
}

# The server that is left is followed by one that the next supervisor knows.
test_a_supervisor_alone_is_killed() {
	local i one two
	launcher one
	union one
	eventually 30 stores "$LAUNCHER"
	holder_start
	for i in 1 2 3 4; do
		one=$(supervisor)
		two=$(server)
		kill -9 "$one"
		eventually 30 ended "$two"
		holder_goes_on
		eventually 30 server
		same "$(awk '/^PPid:/ {print $2}' "/proc/$(server)/status")" "$(supervisor)"
	done
	holder_stop
	unmount_all
}

# A launcher that comes back is given all again.
test_the_launcher_is_killed_and_then_both() {
	local first
	launcher one
	union one
	eventually 30 stores "$LAUNCHER"
	holder_start
	first=$(server)
	kill -9 "$LAUNCHER"
	eventually 30 ended "$LAUNCHER"
	holder_goes_on
	launcher one
	eventually 60 stores "$LAUNCHER"
	exec 7>"$M/open" 8<"$M/open"
	rm "$M/open"
	same "$(server)" "$first"
	end_at_once "$(supervisor)" "$(server)"
	holder_goes_on
	echo kept >&7
	same "$(cat <&8)" kept
	exec 7>&- 8<&-
	holder_stop
	unmount_all
}

# As two containers of a pod: each launcher in a mount namespace and a cgroup of its
# own. All of one is killed, and the other goes on; then the other way round.
test_a_cgroup_is_killed_with_its_launcher() {
	local one two pids
	APART=(unshare --mount --propagation unchanged)
	launcher two --peer "$D/one.sock"
	two=$LAUNCHER
	group_make
	launcher one --peer "$D/two.sock"
	one=$LAUNCHER
	APART=(unshare --mount --propagation unchanged)
	union one
	eventually 30 stores "$two"
	! stores "$one" || fail "both launchers store it"
	echo kept >"$M/kept"
	writer_start "$M"
	holder_start
	pids=$(supervisor)
	group_kill "$one" "$pids" "$(server)"
	eventually 30 ended "$one"
	eventually 30 ended "$pids"
	same "$(timeout 60 cat "$M/kept")" kept
	holder_goes_on
	writer_goes_on
	same "$(awk '/^PPid:/ {print $2}' "/proc/$(supervisor)/status")" "$two"

	launcher one --peer "$D/two.sock"
	eventually 60 stores "$LAUNCHER"
	end_at_once "$two" "$(supervisor)" "$(server)"
	same "$(timeout 60 cat "$M/kept")" kept
	holder_goes_on
	writer_goes_on
	same "$(awk '/^PPid:/ {print $2}' "/proc/$(supervisor)/status")" "$LAUNCHER"
	holder_stop
	writer_stop "$M"
	unmount_all
}

# That the tests above can fail.
test_what_no_launcher_stores_is_lost() {
	launcher one
	export TRIB_LAUNCH_STORE=
	sent_again
	mount -t tmpfs -o size=64M none "$D/a"
	at_exit umount -l "$D/a"
	trib-union -o survive=yes "$D/a" "$M"
	at_exit union_end "$M"
	end_at_once $(pgrep -f -- "trib-union .*$M\$")
	eventually 60 fails any "not connected" ls "$M"
}

# A program that does not come to serve is not tried for ever: the mount is dead
# then, and nobody waits.
test_a_union_that_cannot_go_on_is_given_up() {
	launcher one
	union one
	eventually 30 stores "$LAUNCHER"
	rm "$D/bin/trib-union"
	at_exit ln -sf "$BUILD/bin/trib-union" "$D/bin/trib-union"
	end_at_once "$(supervisor)" "$(server)"
	timeout 120 cat "$M/none" 2>/dev/null || [ $? != 124 ] # it waits until then
	eventually 60 fails any "not connected" ls "$M"
	grep -q "nobody goes on with what it had stored" "$D/launch-one.log"
	! stores "$LAUNCHER" || fail "the launcher keeps a dead connection"
}

test_wrong_flags_are_refused() {
	fails 2 "write an absolute path" trib-launch --peer here
}

run_tests "$@"
