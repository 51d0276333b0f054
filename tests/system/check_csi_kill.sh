#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 between the steps of every call: of the driver that makes it, of a
# blockd, of the volume's union and of its NBD clients. Then the same call, or
# its opposite, has to bring things in order, and nothing may be left.
#
# A step is a system call that changes something, of the driver or of a program
# that it runs (mkfs, xfs_growfs). The tracer stops the process that comes to it,
# another process is killed, and the first goes on; or the first is killed itself.
# Processes that must outlive the call belong to trib-launch, and are not traced.
#
# CSI_FULL=1: every step of every call, with every victim, and then both; else
# CSI_KILLS (10) of those, chosen by CSI_SEED (1).
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi/lib.sh"
CALL_TIMEOUT_MS=2000 # of nodes that were killed
export CSI_AGAIN_S=120
DRIVER_OPTIONS=(--launcher "$TEST_DIR/launch.sock" --call-timeout-ms 2000)
csi_start 3 640MiB
nsenter --net="/run/netns/${CLUSTER_NET}1" trib-launch --socket "$TEST_DIR/launch.sock" \
	--bin-dir "$BUILD/bin" >"$C/launch.log" 2>&1 &
at_exit kill $!
eventually 30 test -S "$TEST_DIR/launch.sock"

STEPS=fsync,fdatasync,mount,move_mount,umount2,mkdir,rmdir,unlink,unlinkat,rename,renameat2,ioctl,connect
NAME=step
RANDOM=${CSI_SEED:-1}
# Controller calls go to host2's driver, node calls to host1's.
declare -A DRIVER=([create]=2 [attach]=2 [stage]=1 [publish]=1 [expand]=2
	[node_expand]=1 [unpublish]=1 [unstage]=1 [detach]=2 [delete]=2)
# How far the volume is before: 0 nothing, 1 made, 2 attached, 3 staged, 4 published.
declare -A LEVEL=([create]=0 [attach]=1 [stage]=2 [publish]=3 [expand]=4
	[node_expand]=4 [unpublish]=4 [unstage]=3 [detach]=2 [delete]=1)
declare -A AFTER=([create]=1 [attach]=2 [stage]=3 [publish]=4 [expand]=4
	[node_expand]=4 [unpublish]=3 [unstage]=2 [detach]=1 [delete]=0)
declare -A OPPOSITE=([create]=delete [attach]=detach [stage]=unstage
	[publish]=unpublish [expand]=expand [node_expand]=node_expand
	[unpublish]=publish [unstage]=stage [detach]=attach [delete]=create)
OPERATIONS="create attach stage publish expand node_expand unpublish unstage detach delete"
UP=(create attach stage publish)
DOWN=(delete detach unstage unpublish)

id=
# What grows in use is XFS: ext4 needs CAP_SYS_RESOURCE, which not every
# machine grants. Three extents, in MiB.
FS= SIZE=192
grows() { FS=xfs SIZE=960; }

# The call OPERATION, once. (EXEC=exec: by this process.)
do_it() {
	case $1 in
	create)
		EXEC= create 2 $NAME "$SIZE" parameters.minExtents=3 \
			"volume_capabilities.mount.fs_type=$FS" >"$TEST_DIR/id" || {
			cat "$TEST_DIR/id"
			return 1
		}
		;;
	attach) attach 2 "$id" host1 ;;
	stage) stage 1 $NAME "$id" ;;
	publish) publish 1 $NAME "$id" pod ;;
	expand) expand 2 "$id" $((SIZE + 96)) ;;
	node_expand) node_expand 1 $NAME "$id" pod ;;
	unpublish) unpublish 1 "$id" pod ;;
	unstage) unstage 1 $NAME "$id" ;;
	detach) detach 2 "$id" host1 ;;
	delete) delete 2 "$id" ;;
	esac
}
must() {
	do_it "$1" >"$TEST_DIR/said" 2>&1 || fail "$1: $(cat "$TEST_DIR/said")"
	[ "$1" != create ] || id=$(cat "$TEST_DIR/id")
}
level=0
go_to() {
	while [ $level -lt "$1" ]; do
		must "${UP[level]}"
		level=$((level + 1))
	done
	while [ $level -gt "$1" ]; do
		level=$((level - 1))
		must "${DOWN[level]}"
	done
}

# ---- one kill ----

# A call has to answer before its caller gives up. The 30 s that a file system
# waits for a silent node are in it.
CALL_MAX_S=60

tracer=
trace() { # PID WORDS...: returns when every thread of it is traced
	local pid=$1 t
	strace -f -qq -o "$TEST_DIR/trace" -e "trace=$STEPS" -p "$pid" "${@:2}" 2>/dev/null &
	tracer=$!
	for t in $(seq 3000); do
		! grep -hs '^TracerPid:' /proc/"$pid"/task/*/status | grep -qw 0 && return
		sleep 0.01
	done
	fail "cannot trace $pid"
}
untrace() {
	# A signal that comes before the tracer listens is lost.
	while kill -INT "$tracer" 2>/dev/null; do sleep 0.02; done
	wait "$tracer" 2>/dev/null || true
}
# The threads that the tracer has stopped so far, in that order. Each waits
# for its SIGCONT, also one of a program that the driver runs.
stopped() { awk '/--- stopped by SIGSTOP ---$/ {print $1}' "$TEST_DIR/trace"; }

victims() { # VICTIM
	case $1 in
	blockd*) cat "$C/host${1#blockd}/blockd.pid" ;;
	union) pids_of 1 trib-union $NAME ;;
	nbd) pids_of 1 trib-nbd $NAME ;;
	esac
}

kill_victims() { # VICTIM: fails when there is none
	local p killed=1
	for p in $(victims "$1"); do
		kill -KILL "$p" && killed=0
	done
	return $killed
}
# kill_at OPERATION N VICTIM: 0 when it came to its N-th step and something
# was killed, 1 when it ended before
kill_at() {
	local driver call hit=1 gone=0 all end signal=STOP
	driver=$(cat "$C/host${DRIVER[$1]}/csi.pid")
	[ "$3" != driver ] || signal=KILL
	trace "$driver" -e "inject=$STEPS:signal=$signal:when=$2"
	once do_it "$1" >"$TEST_DIR/said" 2>&1 &
	call=$!
	end=$((SECONDS + CALL_MAX_S))
	while kill -0 $call 2>/dev/null; do
		[ $SECONDS -lt $end ] || fail "$1 does not end"
		if ! kill -0 "$driver" 2>/dev/null; then
			hit=0
			break
		fi
		mapfile -t all < <(stopped)
		if [ ${#all[@]} -gt $gone ]; then
			[ $gone != 0 ] || ! kill_victims "$3" || hit=0
			# A process that ended meanwhile needs no signal.
			kill -CONT "${all[@]:gone}" 2>/dev/null || true
			gone=${#all[@]}
		fi
		sleep 0.01
	done
	if [ "$3" = driver ] && [ $hit = 0 ]; then
		pkill -KILL -P $call 2>/dev/null || true
		kill -KILL $call 2>/dev/null || true
	fi
	wait $call 2>/dev/null || true
	untrace
	# A thread of its own may have been stopped once more.
	mapfile -t all < <(stopped)
	kill -CONT "$driver" "${all[@]:gone}" 2>/dev/null || true
	[ $hit != 0 ] || revive "$1" "$3"
	[ $hit = 0 ]
}
is_no_blockd() { ! grep -q "$C/" "/proc/$1/cmdline" 2>/dev/null; } # PID
revive() { # OPERATION VICTIM
	case $2 in
	driver)
		rm -f "$C/host${DRIVER[$1]}/csi.pid"
		driver_start "${DRIVER[$1]}"
		;;
	blockd*)
		# Its number may be somebody else's by now: not killed again.
		eventually 30 is_no_blockd "$(cat "$C/host${2#blockd}/blockd.pid")"
		rm -f "$C/host${2#blockd}/blockd.pid"
		blockd_start "${2#blockd}"
		;;
	esac
}

# The volume is whole and can be used, from wherever it is.
is_usable() {
	local t
	go_to 2
	go_to 4
	t=$(target 1 pod)
	# Said out loud: in a condition a failure alone ends nothing.
	fill "$t" || fail "cannot write to it"
	check "$t" || fail "it has other data"
	same "$(findmnt -rno TARGET "$t" | wc -l)" 1
	same "$(on 1 trib volume orphans --json | tr -d ' \n')" "[]"
}

# The volume as OPERATION finds it. A volume that grew does not grow again.
begin() {
	case $1 in expand | node_expand) go_to 0 ;; esac
	go_to "${LEVEL[$1]}"
	[ "$1" != node_expand ] || must expand
}

# kill_one OPERATION N VICTIM THEN: 1 when it has no such step
kill_one() {
	local op=$1 then=$4
	begin "$op"
	if ! kill_at "$op" "$2" "$3"; then
		# The call was done, or had no such victim at that step.
		must "$op"
		level=${AFTER[$op]}
		return 1
	fi
	if [ "$then" = same ]; then
		must "$op"
		level=${AFTER[$op]}
	else
		# A delete that has begun can't be undone, only finished: until
		# then the name is taken.
		if [ "$op" = delete ] && ! once do_it create >"$TEST_DIR/said" 2>&1 &&
			grep -q '^ABORTED: .*is being deleted' "$TEST_DIR/said"; then
			must delete
		fi
		must "${OPPOSITE[$op]}"
		level=${AFTER[${OPPOSITE[$op]}]}
	fi
	case $op in
	expand | node_expand) must expand ;;
	esac
	is_usable
	go_to 0
	nothing_left
}

# ---- which ----

victims_of() { # OPERATION: that can matter to it
	case $1 in
	create | attach | expand | detach | delete) echo driver blockd1 blockd2 ;;
	*) echo driver blockd1 blockd2 union nbd ;;
	esac
}
# How many steps OPERATION has in the thread that has most.
steps_of() {
	begin "$1"
	trace "$(cat "$C/host${DRIVER[$1]}/csi.pid")"
	must "$1"
	untrace
	level=${AFTER[$1]}
	awk '{n[$1]++} END {for (t in n) if (n[t] > most) most = n[t]; print most + 0}' "$TEST_DIR/trace"
}

all_of() { # OPERATION: every step, every victim, both ways on
	local n victim then kills=0
	for victim in $(victims_of "$1"); do
		for then in same opposite; do
			for ((n = 1; n <= steps; n++)); do
				if kill_one "$1" $n "$victim" $then; then kills=$((kills + 1)); fi
			done
		done
	done
	go_to 0
	nothing_left
	echo "# $1: $kills kills in $steps steps"
	[ $kills -gt 0 ]
}
some_of() { # OPERATION COUNT
	local i n victim then kills=0 list
	read -ra list <<<"$(victims_of "$1")"
	# Misses are not counted: a victim that is not there at that step.
	for ((i = 0; i < $2 * 4 && kills < $2; i++)); do
		n=$((RANDOM % steps + 1))
		victim=${list[RANDOM % ${#list[@]}]}
		then=same
		[ $((RANDOM % 2)) = 0 ] || then=opposite
		echo "# $1: $victim killed at step $n of $steps, then the $then"
		if kill_one "$1" $n "$victim" $then; then kills=$((kills + 1)); fi
	done
	# The first step of the driver is always there.
	if [ $kills = 0 ] && kill_one "$1" 1 driver same; then kills=1; fi
	go_to 0
	nothing_left
	[ $kills -gt 0 ]
}
killed_during() { # OPERATION
	local steps
	cap 1
	volume $NAME
	steps=$(steps_of "$1")
	[ "$steps" -gt 0 ] || fail "$1 has no steps"
	# The counting ran in a subshell.
	level=${AFTER[$1]}
	[ ! -s "$TEST_DIR/id" ] || id=$(cat "$TEST_DIR/id")
	if [ "${CSI_FULL:-0}" = 1 ]; then
		all_of "$1"
	else
		some_of "$1" $((${CSI_KILLS:-10} / 10))
	fi
}

test_killed_while_a_volume_is_made() { killed_during create; }
test_killed_while_a_volume_is_attached() { killed_during attach; }
test_killed_while_a_volume_is_staged() { killed_during stage; }
test_killed_while_a_volume_is_published() { killed_during publish; }
test_killed_while_a_volume_grows() { grows && killed_during expand; }
test_killed_while_a_file_system_grows() { grows && killed_during node_expand; }
test_killed_while_a_volume_is_unpublished() { killed_during unpublish; }
test_killed_while_a_volume_is_unstaged() { killed_during unstage; }
test_killed_while_a_volume_is_detached() { killed_during detach; }
test_killed_while_a_volume_is_deleted() { killed_during delete; }

run_tests "$@"
