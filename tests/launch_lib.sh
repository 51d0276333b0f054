# SPDX-License-Identifier: Apache-2.0
# Launchers of a test, and the end of a cgroup: `. tests/launch_lib.sh` after lib.sh. The
# test's directory is $D, and shared with other mount namespaces. $D/bin has the programs
# that they start.
D=$TEST_DIR
mount --bind "$D" "$D" || skip_all "cannot mount"
at_exit umount -l "$D"
mount --make-shared "$D"
mkdir -p "$D/bin"

ended() { ! kill -0 "$1" 2>/dev/null; }
listens() { grep -qs "^[^ ]* [^ ]* [^ ]* 00010000 .* $1\$" "/proc/$2/net/unix"; }

# launcher NAME OPTION...: its pid is in $LAUNCHER
launcher() {
	"${APART[@]}" trib-launch --socket "$D/$1.sock" --bin-dir "$D/bin" "${@:2}" \
		>>"$D/launch-$1.log" 2>&1 &
	LAUNCHER=$!
	disown
	at_exit end_at_once "$LAUNCHER"
	eventually 30 listens "$D/$1.sock" "$LAUNCHER"
}
APART=()
# Does the launcher PID have a FUSE connection? Its name is "/fuse" where it
# was opened in another mount namespace. A file may be closed while
# find looks at it, which is no error here.
stores() { [ "$(find "/proc/$1/fd" -lname '*/fuse' 2>/dev/null || true)" ]; }

# group_make, group_kill: a cgroup, and the end of all that is in it at once; where
# there is no cgroup2 to write to: of these processes
group_make() {
	G=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)/trib-test-$$
	if mkdir "$G" 2>/dev/null && [ -w "$G/cgroup.kill" ]; then
		at_exit eventually 30 rmdir "$G"
		APART=(bash -c 'echo $$ >"$0" && exec "$@"' "$G/cgroup.procs" "${APART[@]}")
	else
		echo "# no cgroup.kill: the processes are killed one after the other"
		G=
	fi
}
group_kill() { # PID...
	if [ "$G" ]; then echo 1 >"$G/cgroup.kill"; else end_at_once "$@"; fi
}
