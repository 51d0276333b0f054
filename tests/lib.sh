# SPDX-License-Identifier: Apache-2.0
# For system tests in bash: `. tests/lib.sh` from the top of the tree, then
# functions named test_SENTENCE, then `run_tests`.
#
# Each test runs in a subshell with `set -eE`; the first command that fails ends
# it as "not ok" with its line. `skip WHY` skips it. `at_exit COMMAND...` in
# a test or in the file is undone in reverse, also on failure and on signals.
# After a failure, before anything is undone, a library's or a script's function
# `say_more` tells what daemons said and what there is.
set -u
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${BUILD:-$TOP/build}
case $BUILD in /*) ;; *) BUILD=$TOP/$BUILD ;; esac
# A daemon that ended is this shell's to wait for, which it does at once, and what
# it mounts nobody else has: tests/apart.c.
if [ "${BASH_SOURCE[-1]}" = "$0" ] && [ "${TRIB_APART:-}" != $$ ] && [ -x "$BUILD/test/tests/apart" ]; then
	export TRIB_APART=$$
	exec "$BUILD/test/tests/apart" "$BASH" "$0" "$@"
fi
# Debian's own programs: another python3 has not the packages of tests/deps.
PATH=$BUILD/bin:$BUILD/test:/usr/sbin:/usr/bin:/sbin:/bin:$PATH
TEST_DIR=$(mktemp -d "${TMPDIR:-/tmp}/trib-test.XXXXXX")
exec {_SAID}>&2
_cleanups=()

# `at_exit kill [-SIGNAL] PID` is for the process that it is now: on a busy
# machine another one may have its number by then. It has ended when the next
# thing is undone: what it had (a socket, a mount) is not in a later test's way.
at_exit() {
	local words=("$@")
	[ "$1" != kill ] || words=(_kill_same "$(_started "${!#}")" "$@")
	[ "$1 ${2-}" != "losetup -d" ] || words=(_detach_same "$(_binding "$3")" "$3")
	_cleanups+=("$(printf '%q ' "${words[@]}")")
}
# A number that the kernel gives a loop device anew each time it is bound, which
# also a device says whose file does not answer; and that device is detached if it
# still is bound so. Its name may be another lane's by then.
_binding() { cat "/sys/block/${1#/dev/}/diskseq" 2>/dev/null || true; }
_detach_same() { [ "$(_binding "$2")" != "$1" ] || losetup -d "$2"; }
# When process $1 was started; "" when there is none. proc(5): field 22.
_started() { awk '{sub(/.*\) /, ""); if ($1 != "Z") print $20}' "/proc/$1/stat" 2>/dev/null || true; }
_kill_same() { # STARTED kill...
	local pid=${!#} end=$((SECONDS + 5)) first=("${@:2}")
	while [ -n "$1" ] && [ "$(_started "$pid")" = "$1" ]; do
		"${first[@]}"
		kill -CONT "$pid"
		first=(:)
		if [ $SECONDS -ge $end ]; then
			kill -KILL "$pid"
			break # or it waits for a device
		fi
		sleep 0.02
	done
}
# Where a command failed, whatever its own output went to.
_say_line() { # LINE COMMAND
	local i lines=$1
	for ((i = 1; i < ${#FUNCNAME[@]} - 2; i++)); do
		lines="$lines < ${BASH_LINENO[i]}"
	done
	echo "# line $lines: $2" >&"$_SAID"
}
# The end of a test: what is known of one that failed, then the clean-up. A signal may
# come when the end has just begun, and an exit there is the last: so its trap calls this.
_end() { # [CODE]
	local rc=${1:-$?}
	trap - ERR
	trap '' INT TERM HUP
	set +eE
	if [ -z "${_ended:-}" ] && [ $rc != 0 ] && [ $rc != 77 ] && declare -F say_more >/dev/null; then
		say_more 2>&1 | sed 's/^/# /' >&"$_SAID"
	fi
	_ended=1
	_clean
}
# Undo, last first. A second signal does not end that: make and a timeout pass on
# the signal that the group got already.
_clean() {
	local i
	trap '' INT TERM HUP
	for ((i = ${#_cleanups[@]} - 1; i >= 0; i--)); do
		eval "${_cleanups[i]}" >/dev/null 2>&1 || true
	done
	_cleanups=()
}
at_exit rm -rf --one-file-system "$TEST_DIR"
trap _clean EXIT
trap "trap '' INT TERM HUP; _clean; exit 130" INT TERM HUP

skip_all() { echo "$*"; exit 77; }
need_root() { [ "$(id -u)" = 0 ] || skip_all "needs root"; }
need() {
	local c
	for c in "$@"; do
		command -v "$c" >/dev/null || skip_all "needs $c"
	done
}
skip() { echo "$*" >"$TEST_DIR/.skip"; exit 77; }
fail() { echo "FAIL: $*" >&"$_SAID"; exit 1; }

# fails CODE TEXT COMMAND...: it exits with CODE ("any": any but 0) and says TEXT
fails() {
	local want=$1 text=$2 out rc=0
	shift 2
	out=$(_SAID=2; "$@" 2>&1) || rc=$?
	[ $rc != 0 ] || fail "succeeded: $*"
	[ "$want" = any ] || [ "$want" = $rc ] || fail "exit $rc, not $want: $*: $out"
	case $out in
	*"$text"*) ;;
	*) fail "does not say '$text': $*: $out" ;;
	esac
}

# eventually SECONDS COMMAND...: it succeeds within that time. Each try is a subshell,
# which also `fail` and a failing command of a function end: a variable that it sets
# is lost. One try begins when the time is over: this shell may have had no processor
# meanwhile. A failure shows the output of that try.
eventually() {
	local end=$((SECONDS + $1)) said=$TEST_DIR/.try.$BASH_SUBSHELL last rc began
	shift
	while :; do
		last=$((SECONDS >= end))
		began=${EPOCHREALTIME/./}
		# In a condition, `set -e` would have no effect on the try.
		rc=$(set +e; trap - ERR; try_once "$said" "$@"; echo $?)
		[ "$rc" != 0 ] || break
		if [ $last = 1 ]; then
			sed 's/^/# last try: /' "$said" | tail -n 40 >&"$_SAID"
			fail "not within time: $*"
		fi
		nap $((2 * (${EPOCHREALTIME/./} - began)))
	done
	rm -f "$said"
}
# A pause of twice the try's time: what it waits for may share its processor with it.
nap() { # MICROSECONDS: not below 0.1 s, nor above 0.5 s
	local us=$1
	[ "$us" -gt 100000 ] || us=100000
	[ "$us" -lt 500000 ] || us=500000
	sleep 0.$us
}
# Of steps that are all alike, one of so many (3; $EVERY) is tried; with LONG_TESTS=1
# each.
every() { if [ "${LONG_TESTS:-0}" = 1 ]; then echo 1; else echo "${EVERY:-3}"; fi; }
try_once() ( # FILE COMMAND...: its output goes there
	exec >"$1" 2>&1
	_SAID=2
	[ "$(type -t "$2")" != function ] || trap '_say_line "$LINENO" "$BASH_COMMAND"' ERR
	set -eE
	"${@:2}"
)

# unmount PATH...: each one. It may be busy for a moment: the kernel closes some files
# after the call, or the process, that they were of has ended.
unmount() {
	local path said end
	for path in "$@"; do
		end=$((SECONDS + 60))
		while ! said=$(umount "$path" 2>&1); do
			case $said in
			*busy*) [ $SECONDS -lt $end ] || fail "$said: $(ls -d /proc/[0-9]*/{cwd,root,fd/*} -l 2>/dev/null | grep -F " -> $path")" ;;
			*) fail "$said" ;;
			esac
			sleep 0.05
		done
	done
}

# end_at_once [PID...]: whether they still are or not
end_at_once() {
	local pid
	for pid in "$@"; do
		kill -9 "$pid" 2>/dev/null || true
	done
}

# Of the union whose last words are these (a regular expression): what was
# started and would start another server, and who serves.
union_supervisor() { first_of "trib-union -f (--stored-fd=3 )?-o .*$1\$"; }
union_server() { first_of "trib-union -f --holder-fd=3 .*$1\$"; }
# Print the processes with these words, without their children: a process that was
# just forked has the words of its parent until it executes its program.
first_of() {
	local pids pid parent
	pids=$(pgrep -f -- "$1") || return
	for pid in $pids; do
		parent=$(awk '/^PPid:/ {print $2}' "/proc/$pid/status" 2>/dev/null) || continue
		grep -qx "$parent" <<<"$pids" || echo "$pid"
	done | grep .
}
# Another than PID serves: MOUNTPOINT PID. One look-up: between two it may end.
union_server_after() { local now; now=$(union_server "$1") && [ "$now" != "$2" ]; }
# A union dies for good: its supervisor first.
union_kill() {
	local server
	server=$(union_server "$1")
	kill -KILL "$(union_supervisor "$1")"
	kill -KILL "$server"
}

# The union there ends, whatever else has hold of it: at_exit union_end MOUNTPOINT.
# Unmounted alone, its server lives as long as a file of it is open, and its
# branches and its socket stay in use.
union_end() {
	local end=$((SECONDS + 5)) pids
	while umount -l "$1"; do :; done
	while pids=$(pgrep -f -- "trib-union .*$1\$") && [ $SECONDS -lt $end ]; do
		end_at_once $pids
		sleep 0.02
	done
}

# A mounted file system is as if its device were gone: FS_IOC_SHUTDOWN, no last write.
shut_down_fs() { # DIR
	/usr/bin/python3 -c 'import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587d, struct.pack("I", 2))' "$1"
}

# becomes PID PROGRAM: what a shell started in the background runs by now
becomes() { eventually 30 grep -qsx "$2" "/proc/$1/comm"; }

# traced PID: each of its threads is. A tracer takes them one by one.
traced() { ! grep -hs '^TracerPid:' /proc/"$1"/task/*/status | grep -qw 0; }

# stand_still PID: stopped, all of its threads (they go on for a moment)
stand_still() {
	kill -STOP "$1"
	while grep -hs '^State:' /proc/"$1"/task/*/status | grep -qv T; do sleep 0.01; done
}

same() { [ "$1" = "$2" ] || fail "expected '$2', got '$1'${3:+ ($3)}"; }

# one_round COMMAND...: what it put into at_exit is undone when it ends, so that it
# can be done once more. Not in a condition: there no failure would end it.
one_round() {
	(
		_cleanups=()
		trap _end EXIT
		"$@"
	)
}

run_tests() {
	local tests all n=0 t rc bad=0 began
	# All that there are, those of the script itself in its order.
	all=$(declare -F | awk '$3 ~ /^test_/{print $3}')
	all=$({ grep -oE '^test_[a-z0-9_]+' "$0" | grep -xF "$all"; echo "$all"; } | awk '!s[$0]++')
	tests=$all
	[ "${LONG_TESTS:-0}" = 1 ] || tests=$(grep -vxF "${long_tests:-}" <<<"$all")
	if [ $# -gt 0 ]; then tests=$(printf '%s\n' "$@" | awk '!s[$0]++'); fi
	echo "1..$(wc -w <<<"$tests")"
	for t in $(grep -vxF "$all" <<<"$tests"); do
		n=$((n + 1)) bad=1
		echo "not ok $n - ${t#test_}: there is no such test"
	done
	for t in $all; do
		grep -qxF "$t" <<<"$tests" || continue
		n=$((n + 1))
		rm -f "$TEST_DIR/.skip"
		began=${EPOCHREALTIME/./}
		(
			_cleanups=()
			trap _end EXIT
			trap '_say_line "$LINENO" "$BASH_COMMAND"' ERR
			trap 'trap "" INT TERM HUP; _say_line "(a signal)" "$BASH_COMMAND"; _end 130; exit 130' INT TERM HUP
			set -eE
			"$t"
		)
		rc=$?
		if [ $rc = 0 ]; then
			echo "ok $n - ${t#test_}"
		elif [ $rc = 77 ] && [ -f "$TEST_DIR/.skip" ]; then
			echo "ok $n - ${t#test_} # SKIP $(cat "$TEST_DIR/.skip")"
		else
			echo "not ok $n - ${t#test_}"
			bad=1
		fi
		echo "# it took $(((${EPOCHREALTIME/./} - began) / 1000)) ms" >&2
	done
	trap '' INT TERM HUP
	exit $bad
}
