#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A CSI driver that is killed with everything it ever started, as the container
# it runs in would be: what trib-launch started for it lives on.
#
# Driver and launcher are each in a mount namespace of their own, with shared
# propagation below the test's directory, as in two pods with the kubelet's
# directory mounted. A cgroup's processes are told by what they inherit, too:
# a variable in their environment, which what the launcher starts has not.
. "$(dirname "$0")/../lib.sh"
need_root
need unshare mkfs.xfs findmnt
mount --bind "$TEST_DIR" "$TEST_DIR" || skip_all "cannot mount"
at_exit umount "$TEST_DIR"
mount --make-shared "$TEST_DIR"
. "$TOP/tests/csi_lib.sh"

APART=(unshare --mount --propagation unchanged)
SOCK=$C/host1/launch.sock

launcher_start() {
	nsenter --net="/run/netns/${CLUSTER_NET}1" "${APART[@]}" \
		trib-launch --socket "$SOCK" --bin-dir "$BUILD/bin" \
		>>"$C/host1/launch.log" 2>&1 &
	LAUNCHER=$!
	disown
	eventually 30 launcher_listens
}
# Not a socket that a killed one has left: what this one has, in its network.
launcher_listens() { grep -qs "^[^ ]* [^ ]* [^ ]* 00010000 .* $SOCK\$" "/proc/$LAUNCHER/net/unix"; }
launcher_stop() { # SIGNAL
	kill "-$1" "$LAUNCHER"
	eventually 30 eval "! kill -0 $LAUNCHER"
}
# plugin_start MARK OPTION...: the driver of host1
plugin_start() {
	driver_signal 1 TERM
	DRIVER_PREFIX=(env "TRIB_TEST_PLUGIN=$1" "${APART[@]}")
	driver_start 1 "${@:2}"
	DRIVER_PREFIX=()
}
marked() { grep -lzxs "TRIB_TEST_PLUGIN=$1" /proc/[0-9]*/environ | cut -d/ -f3; }
# plugin_kill MARK: with every process that came of it
plugin_kill() {
	local pids
	while pids=$(marked "$1") && [ -n "$pids" ]; do
		end_at_once $pids
		sleep 0.05
	done
	rm -f "$C/host1/csi.pid"
}
# Processes under the volumes of host1: "PROGRAM PID", sorted; "server PID" is
# who serves a union, started by its supervisor
servers() {
	local p line
	for p in /proc/[0-9]*; do
		line=$({ tr '\0' ' ' <"$p/cmdline"; } 2>/dev/null) || continue
		case $line in */trib-union\ *"$C/host1/"* | */trib-nbd\ *"$C/host1/"*)
			case $line in *--holder-fd=*) echo "server ${p#/proc/}"; continue ;; esac
			line=${line%% *}
			echo "${line##*/} ${p#/proc/}" ;;
		esac
	done | sort
}
# two NAME: a volume of two extents, at least one of them remote, by trib-nbd
two() {
	create 1 "$1" 680 parameters.fsType=xfs parameters.minExtents=2 \
		parameters.transport=fuse
}
moves_on() {
	local n
	n=$(cat "$TEST_DIR/written")
	eventually 30 eval "[ \$(cat $TEST_DIR/written) -gt $((n + 3)) ]"
	[ ! -e "$TEST_DIR/errors" ] || fail "$(cat "$TEST_DIR/errors")"
}

test_a_killed_driver_leaves_its_volumes_working() {
	local id t before
	launcher_start
	at_exit launcher_stop TERM
	plugin_start one --launcher "$SOCK"
	cap 1
	volume live
	id=$(two live)
	stage 1 live "$id"
	publish 1 live "$id" a
	t=$(target 1 a)
	before=$(servers)
	same "$(cut -d' ' -f1 <<<"$before" | uniq | tr '\n' ' ')" "server trib-nbd trib-union "
	local p
	for p in $(grep -v server <<<"$before" | cut -d' ' -f2); do
		same "$(awk '{print $4}' "/proc/$p/stat")" "$LAUNCHER"
		! grep -qz TRIB_TEST_PLUGIN "/proc/$p/environ" || false
	done
	fill "$t"
	writer_start "$t"

	plugin_kill one
	moves_on
	same "$(servers)" "$before"

	# The launcher may go and come, too.
	launcher_stop TERM
	moves_on
	launcher_start
	launcher_stop KILL
	launcher_start
	moves_on
	same "$(servers)" "$before"

	# A new driver knows what the old one left.
	plugin_start two --launcher "$SOCK"
	stats 1 "$id" "$t" | grep -q "the volume is well"
	stage 1 live "$id"
	publish 1 live "$id" a
	same "$(servers)" "$before"
	moves_on
	writer_stop "$t"
	check "$t"

	# What dies is followed by what the launcher starts: open files go on.
	exec 9>"$t/open"
	union_kill "$C/host1/.*"
	echo on >&9
	exec 9>&-
	same "$(cat "$t/open")" on
	eventually 30 check "$t"
	p=$(servers | awk '$1 == "trib-union" {print $2}')
	same "$(awk '{print $4}' "/proc/$p/stat")" "$LAUNCHER"

	unpublish 1 "$id" a
	unstage 1 live "$id"
	same "$(servers)" ""
	delete 1 "$id"
	nothing_left
}

# That the test above can fail.
test_without_a_launcher_they_die_with_it() {
	local id t
	plugin_start three
	cap 1
	volume dies
	id=$(two dies)
	stage 1 dies "$id"
	publish 1 dies "$id" a
	t=$(target 1 a)
	fill "$t"
	plugin_kill three
	same "$(servers)" ""
	fails any "" check "$t"
	plugin_start four
	eventually 30 check "$t"
	unpublish 1 "$id" a
	unstage 1 dies "$id"
	delete 1 "$id"
	nothing_left
}

test_without_its_launcher_nothing_is_begun() {
	local id
	plugin_start five --launcher "$SOCK"
	cap 1
	volume none
	id=$(two none)
	fails 1 "is trib-launch running?" stage 1 none "$id"
	same "$(servers)" ""
	same "$(findmnt -rno TARGET | count "$C/host1/run/volumes")" 0
	launcher_start
	at_exit launcher_stop TERM
	stage 1 none "$id"
	unstage 1 none "$id"
	delete 1 "$id"
	nothing_left
}

test_the_command_uses_it_too_and_not_from_another_pid_namespace() {
	launcher_start
	at_exit launcher_stop TERM
	at_exit on 1 trib volume delete cmd
	at_exit on 1 trib umount --force cmd
	on 1 trib volume create cmd --size 64MiB --quiet
	mkdir -p "$C/host1/mnt/cmd"
	fails any "is in another PID namespace than the launcher" \
		on 1 unshare --pid --fork trib mount cmd "$C/host1/mnt/cmd" \
		--launcher "$SOCK" --quiet
	echo "launcher = $SOCK" >>"$C/host1/trib.conf"
	on 1 trib mount cmd "$C/host1/mnt/cmd" --quiet
	same "$(awk '{print $4}' "/proc/$(servers | awk '$1 == "trib-union" {print $2}')/stat")" \
		"$LAUNCHER"
	on 1 trib umount cmd --quiet
	same "$(servers)" ""
	on 1 trib volume delete cmd --quiet
}

slept_a_second() {
	local before
	before=$(grep ctxt_switches "/proc/$LAUNCHER/status")
	sleep 1
	[ "$(grep ctxt_switches "/proc/$LAUNCHER/status")" = "$before" ]
}
test_it_is_small_and_sleeps() {
	launcher_start
	at_exit launcher_stop TERM
	local rss
	rss=$(awk '/^VmRSS/ {print $2}' "/proc/$LAUNCHER/status")
	echo "# RSS $rss KiB"
	[ "$rss" -lt 5120 ] || fail "RSS is $rss KiB"
	same "$(stat -c %a "$SOCK")" 600
	eventually 30 slept_a_second # from when it has begun
	fails 1 "Address already in use" trib-launch --socket "$SOCK"
	fails 2 "write an absolute path" trib-launch --socket here
	fails 2 "there are only flags" trib-launch here
	trib-launch --help | grep -q "Starts trib-union and trib-nbd for others"
}

run_tests "$@"
