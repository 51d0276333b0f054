#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Inline volumes of pods: NodePublishVolume makes them, NodeUnpublishVolume
# deletes them, whatever dies between two steps of either.
#
# CSI_INLINE_KILLS (5) steps of each, chosen by CSI_SEED (1).
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi/lib.sh"
CALL_TIMEOUT_MS=2000 # of nodes that were killed
csi_start 3 640MiB
LIMIT=1GiB
driver_signal 1 TERM
driver_start 1 --ephemeral-limit $LIMIT

POD=csi-00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff
OTHER=csi-ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100
ATTRIBUTE=volume_context.csi.storage.k8s.io
# inline ID TARGET FIELD...: as the kubelet of host 1 calls it
inline() {
	csi 1 Node/NodePublishVolume "volume_id=$1" "target_path=$(target 1 "$2")" \
		"${CAP[@]}" $ATTRIBUTE/ephemeral=true $ATTRIBUTE/pod.name=web-0 \
		$ATTRIBUTE/pod.namespace=shop $ATTRIBUTE/pod.uid=7 "${@:3}"
}
record() { on 1 trib volume list --json | sed -n 's/.*"name": *"\(csi-[a-z0-9-]*\)".*/\1/p' | head -n 1; }
# Whatever a test left of it.
remove() {
	[ -f "$C/host1/csi.pid" ] || driver_start 1 --ephemeral-limit $LIMIT
	unpublish 1 $POD pod
	unpublish 1 $OTHER pod
}

test_a_pod_has_a_volume_as_long_as_it_lives() {
	local t
	at_exit remove
	t=$(target 1 pod)
	# Larger than any pool.
	inline $POD pod volume_context.size=900Mi volume_context.createPolicy=ff
	fill "$t"
	[ "$(df -BM --output=size "$t" | tail -n 1 | tr -dc 0-9)" -gt 700 ]
	inline $POD pod volume_context.size=900Mi volume_context.createPolicy=ff
	check "$t"
	fails 1 ALREADY_EXISTS inline $POD pod volume_context.size=900Mi \
		volume_context.createPolicy=ff readonly=1
	fails 1 ALREADY_EXISTS inline $POD pod volume_context.size=800Mi \
		volume_context.createPolicy=ff
	fails 1 "FAILED_PRECONDITION: the volume is published" inline $POD pod2 \
		volume_context.size=900Mi volume_context.createPolicy=ff
	check "$t"
	stats 1 $POD "$t" | grep -q "the volume is well"
	# A person finds the volume; the controller does not have it as one of its own.
	on 1 trib volume show "$(record)" --json | tr -d ' \n' >"$TEST_DIR/shown"
	grep -q '"csi.union.io/inline-node":"host1"' "$TEST_DIR/shown"
	grep -q '"csi.union.io/pod-name":"web-0"' "$TEST_DIR/shown"
	same "$(csi 2 Controller/ListVolumes | count volume_id)" 0
	# The driver is replaced meanwhile, without inline volumes.
	driver_signal 1 TERM
	driver_start 1
	check "$t"
	inline $POD pod volume_context.size=900Mi volume_context.createPolicy=ff
	unpublish 1 $POD pod
	unpublish 1 $POD pod
	nothing_left
	same "$(find "$C/host1/run/inline" -mindepth 1)" ""
	driver_signal 1 TERM
	driver_start 1 --ephemeral-limit $LIMIT
}

test_reads_only_and_takes_flags_and_groups() {
	local t
	at_exit remove
	t=$(target 1 pod)
	inline $POD pod readonly=1 volume_context.size=100Mi
	findmnt -no OPTIONS "$t" | grep -qw ro
	unpublish 1 $POD pod
	inline $POD pod volume_context.size=100Mi \
		volume_capability.mount.mount_flags=noexec \
		volume_capability.mount.volume_mount_group=4242
	findmnt -no OPTIONS "$t" | grep -qw noexec
	same "$(stat -c %g "$t")" 4242
	unpublish 1 $POD pod
	nothing_left
}

test_refuses_what_a_pod_may_not_have() {
	local name id
	at_exit remove
	fails 1 "OUT_OF_RANGE: an inline volume of 2.00 GiB" inline $POD pod volume_context.size=2Gi
	fails 1 "INVALID_ARGUMENT: parameter 'bogus'" inline $POD pod volume_context.bogus=1
	fails 1 "zfs" inline $POD pod $ATTRIBUTE/fstype=zfs
	fails 1 INVALID_ARGUMENT inline $POD pod $ATTRIBUTE/ephemeral=maybe
	CAP=(volume_capability.block= volume_capability.access_mode.mode=1)
	fails 1 "no block device" inline $POD pod
	cap 1
	fails 1 "INVALID_ARGUMENT: access mode 5" inline $POD pod volume_capability.access_mode.mode=5
	fails 1 "is not staged" inline $POD pod staging_target_path=/tmp/x
	fails 1 "FAILED_PRECONDITION: inline volumes are not allowed" csi 2 Node/NodePublishVolume \
		"volume_id=$POD" "target_path=$(target 2 pod)" "${CAP[@]}" $ATTRIBUTE/ephemeral=true
	# No room: a final answer leaves nothing, here or on any node.
	fails 1 "RESOURCE_EXHAUSTED" inline $POD pod volume_context.size=900Mi \
		volume_context.nodes=host2
	nothing_left
	# A pod's volume and the controller's do not meet.
	volume kept
	id=$(create 1 kept 64)
	fails 1 "INVALID_ARGUMENT: volume_id" inline "$id" pod
	fails 1 "INVALID_ARGUMENT: volume_id" inline kept pod
	inline $POD pod volume_context.size=64Mi
	name=$(record)
	fails 1 NOT_FOUND attach 1 "$name" host1
	fails 1 NOT_FOUND stage 1 kept "$name"
	fails 1 NOT_FOUND stage 1 kept $POD
	fails 1 NOT_FOUND publish 1 kept $POD pod2
	delete 1 "$name"
	delete 1 $POD
	detach 1 $POD
	same "$(record)" "$name"
	fails 1 ALREADY_EXISTS create 1 "$name" 64
	# What a pod's spec can say is no word for other volumes.
	attach 1 "$id" host1
	stage 1 kept "$id"
	fails 1 "'size' is for inline volumes" publish 1 kept "$id" p \
		volume_context.size=5Gi
	publish 1 kept "$id" p $ATTRIBUTE/ephemeral=false $ATTRIBUTE/pod.name=web-0
	unpublish 1 "$id" p
	unstage 1 kept "$id"
	detach 1 "$id" host1
	delete 1 "$id"
	unpublish 1 $POD pod
	nothing_left
}

test_goes_whatever_was_lost_on_the_node() {
	local t call
	at_exit remove
	t=$(target 1 pod)
	# The target.
	inline $POD pod volume_context.size=64Mi
	umount -l "$t"
	rmdir "$t"
	unpublish 1 $POD pod
	nothing_left
	# What the driver remembers, and the driver.
	inline $POD pod volume_context.size=64Mi
	driver_signal 1 KILL
	rm "$C"/host1/run/csi/*.volume
	driver_start 1 --ephemeral-limit $LIMIT
	unpublish 1 $POD pod
	nothing_left
	# Its union: put right by itself, and gone all the same.
	inline $POD pod volume_context.size=64Mi
	fill "$t"
	union_kill "$C/host1/.*"
	eventually 30 check "$t"
	union_kill "$C/host1/.*"
	unpublish 1 $POD pod
	nothing_left
	# The node of an extent, for a while: the kubelet tries again.
	inline $POD pod volume_context.size=64Mi volume_context.nodes=host2
	blockd_signal 2 KILL
	unpublish 1 $POD pod &
	call=$!
	sleep 1
	blockd_start 2
	wait $call
	nothing_left
}

# ---- kill -9 of the driver between two steps ----

STEPS=fsync,fdatasync,mount,move_mount,umount2,mkdir,rmdir,unlink,unlinkat,rename,renameat2,ioctl,connect
RANDOM=${CSI_SEED:-1}
# kill_at N CALL...: 0 when the driver was killed at its N-th step
kill_at() {
	local driver tracer call end hit=1
	driver=$(cat "$C/host1/csi.pid")
	strace -f -qq -o "$TEST_DIR/trace" -e "trace=$STEPS" \
		-e "inject=$STEPS:signal=KILL:when=$1" -p "$driver" 2>/dev/null &
	tracer=$!
	eventually 60 traced "$driver"
	once "${@:2}" >"$TEST_DIR/said" 2>&1 &
	call=$!
	end=$((SECONDS + 120))
	while kill -0 $call 2>/dev/null; do
		[ $SECONDS -lt $end ] || fail "$* does not end"
		if ! kill -0 "$driver" 2>/dev/null; then
			hit=0
			break
		fi
		sleep 0.01
	done
	kill -0 "$driver" 2>/dev/null || hit=0
	if [ $hit = 0 ]; then
		pkill -KILL -P $call 2>/dev/null || true
		kill -KILL $call 2>/dev/null || true
	fi
	wait $call 2>/dev/null || true
	kill -INT $tracer 2>/dev/null || true
	wait $tracer 2>/dev/null || true
	if [ $hit = 0 ]; then
		rm -f "$C/host1/csi.pid"
		driver_start 1 --ephemeral-limit $LIMIT
	fi
	return $hit
}
up() { inline $POD pod volume_context.size=128Mi volume_context.minExtents=2; }
down() { unpublish 1 $POD pod; }

test_a_kill_between_two_steps_leaves_nothing() {
	local i n hits=0
	at_exit remove
	for ((i = 0; i < ${CSI_INLINE_KILLS:-5}; i++)); do
		n=$((1 + RANDOM % 30))
		echo "# publish, step $n" >&2
		if kill_at $n up; then hits=$((hits + 1)); fi
		# The same call finishes it; every other time its opposite undoes it.
		if ((i % 2)); then
			up
			fill "$(target 1 pod)"
			check "$(target 1 pod)"
			n=$((1 + RANDOM % 20))
			echo "# unpublish, step $n" >&2
			if kill_at $n down; then hits=$((hits + 1)); fi
			((i % 4 == 1)) || { up; check "$(target 1 pod)" 2>/dev/null || true; }
		fi
		down
		nothing_left
	done
	echo "# $hits kills" >&2
	[ $hits -ge $((i / 2)) ] || fail "only $hits kills of $i"
}

run_tests "$@"
