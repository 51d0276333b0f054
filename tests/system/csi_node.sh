#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The Node service of the CSI driver on three hosts: growing, what dies under it,
# devices, readers, mount flags, groups, guests.
. "$(dirname "$0")/../lib.sh"
# A check that does not end while $TEST_DIR/hold is there; the drivers find it.
mkdir -p "$TEST_DIR/tools"
cat >"$TEST_DIR/tools/e2fsck" <<E
#!/bin/bash
while [ -e "$TEST_DIR/hold" ]; do echo "\$*" >>"$TEST_DIR/held"; sleep 0.1; done
exec $(type -P e2fsck) "\$@"
E
chmod +x "$TEST_DIR/tools/e2fsck"
PATH=$TEST_DIR/tools:$PATH
. "$TOP/tests/csi_lib.sh"
need debugfs tune2fs mkfs.xfs xfs_growfs setpriv unshare basenc python3 blkid

expand() { # HOST ID PATH FIELD...
	csi "$1" Node/NodeExpandVolume "volume_id=$2" "volume_path=$3" "${@:4}"
}
df_mib() { df -BM --output=size "$1" | tail -n 1 | tr -dc 0-9; }

test_a_published_volume_grows_under_a_writer() {
	local id t before gib=$((1024 * MIB))
	cap 1
	volume grow
	id=$(create 1 grow 680 parameters.fsType=xfs parameters.minExtents=2)
	fails 1 NOT_FOUND expand 1 "$id" "$(staging 1 grow)"
	stage 1 grow "$id"
	publish 1 grow "$id" a
	t=$(target 1 a)
	writer_start "$t"
	before=$(df_mib "$t")
	# Nothing to follow yet; the range is the controller's to meet.
	expand 1 "$id" "$t" | grep -q "capacity_bytes=$((680 * MIB))"
	fails 1 OUT_OF_RANGE expand 1 "$id" "$t" capacity_range.required_bytes=$gib
	on 3 trib volume resize grow --size 1GiB --quiet
	stats 1 "$id" "$t" | grep -q "abnormal=1.*extents have grown"
	fails 1 OUT_OF_RANGE expand 1 "$id" "$t" capacity_range.limit_bytes=$((gib - 1))
	expand 1 "$id" "$t" capacity_range.required_bytes=$gib "${CAP[@]}" |
		grep -q "capacity_bytes=$gib"
	eventually 30 eval "[ \$(df_mib $t) -gt $((before + 300)) ]"
	expand 1 "$id" "$(staging 1 grow)" "staging_target_path=$(staging 1 grow)" |
		grep -q "capacity_bytes=$gib"
	stats 1 "$id" "$t" | grep -q "the volume is well"
	writer_stop "$t"
	fails 1 NOT_FOUND expand 1 "$id" "$(target 1 b)"
	fails 1 INVALID_ARGUMENT expand 1 "$id" ""
	fails 1 "INVALID_ARGUMENT: access mode 5" expand 1 "$id" "$t" \
		volume_capability.mount.fs_type= volume_capability.access_mode.mode=5
	fails 1 NOT_FOUND expand 1 grow@0c6f9d5e-1111-4222-8333-abcdefabcdef "$t"
	unpublish 1 "$id" a
	unstage 1 grow "$id"
	# For reading only it waits for a writer.
	cap 2
	stage 1 grow "$id"
	on 3 trib volume resize grow --size 1064MiB --quiet
	fails 1 "FAILED_PRECONDITION: the volume is staged here for reading" \
		expand 1 "$id" "$(staging 1 grow)"
	unstage 1 grow "$id"
	delete 1 "$id"
	nothing_left
}

test_a_damaged_volume_is_not_staged_and_says_what_to_run() {
	local id file
	cap 1
	volume hurt
	id=$(create 1 hurt 200)
	stage 1 hurt "$id"
	publish 1 hurt "$id" a
	mkdir -p "$(target 1 a)/d/e"
	unpublish 1 "$id" a
	unstage 1 hurt "$id"
	file=$(ls "$C"/host?/pool/extents/hurt-0.data)
	debugfs -w -R "clri /data/d" "$file" 2>/dev/null
	tune2fs -E force_fsck "$file" >/dev/null
	for _ in 1 2; do
		fails 1 "FAILED_PRECONDITION: attach volume 'hurt': the file system of split 0 needs a person: run \`e2fsck -f " \
			stage 1 hurt "$id"
		same "$(findmnt -rno TARGET | grep "$C/.*hurt")" ""
		same "$(losetup -nl -O BACK-FILE | grep "$C/")" ""
	done
	csi 3 Controller/ListVolumes | grep -q "abnormal=1.*split 0 on node .* is damaged"
	on 1 bash -c "e2fsck -fy \"\$(trib attach --force $(basename "${file%/pool/*}")/hurt-0)\"" >/dev/null 2>&1 || same $? 1
	on 1 trib detach "$(basename "${file%/pool/*}")/hurt-0" --quiet
	stage 1 hurt "$id"
	same "$(csi 3 Controller/ListVolumes | grep "is damaged")" ""
	unstage 1 hurt "$id"
	delete 1 "$id"
	nothing_left
}

# The caller is gone by its deadline; the check goes on, and the next call finds it
# done.
test_a_check_outlives_the_call_that_began_it() {
	local id file pid
	cap 1
	volume slow
	id=$(create 1 slow 200)
	stage 1 slow "$id"
	unstage 1 slow "$id"
	file=$(ls "$C"/host?/pool/extents/slow-0.data)
	tune2fs -E force_fsck "$file" >/dev/null
	touch "$TEST_DIR/hold"
	at_exit rm -f "$TEST_DIR/hold"
	cpublish 1 "$id"
	(EXEC=exec node_stage 1 slow "$id") >/dev/null 2>&1 &
	pid=$!
	eventually 30 test -s "$TEST_DIR/held"
	kill -KILL $pid
	wait $pid || true
	once fails 1 ABORTED node_stage 1 slow "$id"
	once fails 1 ABORTED node_stage 1 slow "$id"
	same "$(sort -u "$TEST_DIR/held" | wc -l)" 1
	same "$(pgrep -cf "$TEST_DIR/tools/e2fsck -p")" 1
	rm "$TEST_DIR/hold"
	node_stage 1 slow "$id"
	same "$(dumpe2fs -h "$file" 2>/dev/null | sed -n 's/^Filesystem state: *//p')" clean
	unstage 1 slow "$id"
	delete 1 "$id"
	nothing_left
}

test_a_union_that_takes_no_branches_is_a_condition_and_no_error() {
	local id t
	cap 1
	volume older
	id=$(create 1 older 500 parameters.fsType=xfs)
	stage 1 older "$id"
	publish 1 older "$id" a
	t=$(target 1 a)
	rm "$C/host1/run/volumes/older/control" # as before there was one
	on 3 trib volume resize older --size 1GiB --quiet
	expand 1 "$id" "$t" | grep -q "capacity_bytes=$((1024 * MIB))"
	expand 1 "$id" "$t" | grep -q "capacity_bytes=$((1024 * MIB))"
	[ "$(df_mib "$t")" -lt 600 ]
	stats 1 "$id" "$t" | grep -q "abnormal=1.*its union does not have yet"
	unpublish 1 "$id" a
	unstage 1 older "$id"
	stage 1 older "$id"
	publish 1 older "$id" a
	[ "$(df_mib "$t")" -gt 700 ]
	stats 1 "$id" "$t" | grep -q "the volume is well"
	unpublish 1 "$id" a
	unstage 1 older "$id"
	delete 1 "$id"
	nothing_left
}

test_a_broken_volume_is_put_right_and_grows() {
	local id t before pid
	cap 1
	volume mend
	id=$(create 1 mend 340 parameters.fsType=xfs)
	stage 1 mend "$id"
	publish 1 mend "$id" a
	before=$(df_mib "$(target 1 a)")
	on 3 trib volume resize mend --size 500MiB --quiet
	union_kill "$(union_of mend)"
	expand 1 "$id" "$(target 1 a)" | grep -q "capacity_bytes=$((500 * MIB))"
	[ "$(df_mib "$(staging 1 mend)")" -gt $((before + 100)) ]
	# A process that only works in the folder does not keep the mount.
	(cd "$(target 1 a)" && exec sleep 300) &
	pid=$!
	at_exit kill $pid
	eventually 60 eval "[ \"\$(readlink /proc/$pid/cwd)\" = '$(target 1 a)' ]"
	(sleep 1 && kill $pid) & # while the mount is taken down
	unpublish 1 "$id" a
	unstage 1 mend "$id"
	delete 1 "$id"
	nothing_left
}

# A container: a process with a mount namespace of its own, as it was when it
# was started. $CONTAINER is its pid.
container_start() {
	unshare --mount --propagation private sleep 300 &
	CONTAINER=$!
	at_exit kill $CONTAINER
	becomes $CONTAINER sleep
}
healthy() { stats 1 "$1" "$2" | grep -q 'the volume is well'; }

test_a_dead_union_is_put_right_by_itself() {
	local id a b pid
	cap 7
	volume dead
	id=$(create 1 dead 700)
	stage 1 dead "$id"
	publish 1 dead "$id" a
	publish 1 dead "$id" b readonly=1
	a=$(target 1 a) b=$(target 1 b)
	fill "$a"
	container_start
	union_kill "$(union_of dead)"
	eventually 30 check "$a"
	eventually 30 check "$b"
	fails any "Read-only" touch "$b/x"
	touch "$a/x"
	same "$(findmnt -rno TARGET | count "$C/host1/pods")" 2
	# What a container has nobody can put right: it is told.
	eventually 30 eval "stats 1 '$id' '$a' | grep -q 'abnormal=1.*sleep ($CONTAINER) still has the dead mount'"
	kill $CONTAINER
	wait $CONTAINER || true
	eventually 30 healthy "$id" "$a"
	# Unmounted by hand: the staging mount comes back, under those that use
	# it; a publication does not.
	unmount "$a" # the driver may just look at it
	exec 7<"$b/d/1"
	pid=$(union_pid dead)
	unmount "$(staging 1 dead)"
	eventually 30 findmnt "$(staging 1 dead)"
	same "$(union_pid dead)" "$pid"
	head -c 4 <&7 >/dev/null
	exec 7<&-
	touch "$(staging 1 dead)/y"
	fails 1 "" findmnt "$a"
	publish 1 dead "$id" a
	# Dead while no driver ran.
	driver_signal 1 KILL
	union_kill "$(union_of dead)"
	eventually 30 eval "! ls '$a'"
	driver_start 1
	eventually 30 check "$a"
	unpublish 1 "$id" a
	unpublish 1 "$id" b
	unstage 1 dead "$id"
	delete 1 "$id"
	nothing_left
}

# Another person's command ends it for good.
test_what_was_taken_down_on_purpose_stays_down() {
	local id
	cap 1
	volume down
	id=$(create 1 down 64)
	stage 1 down "$id"
	on 1 trib umount down
	sleep 1
	fails 1 "" findmnt "$(staging 1 down)"
	stats 1 "$id" "$(staging 1 down)" | grep -q "abnormal=1.*nothing is mounted"
	stage 1 down "$id"
	eventually 30 healthy "$id" "$(staging 1 down)"
	unstage 1 down "$id"
	delete 1 "$id"
	nothing_left
}

test_a_mount_that_is_silent_does_not_hang_a_call() {
	local id t pid start
	cap 1
	volume hush
	id=$(create 1 hush 64)
	stage 1 hush "$id"
	publish 1 hush "$id" a
	t=$(target 1 a)
	pid=$(union_server "$(union_of hush)")
	stand_still "$pid"
	at_exit kill -CONT "$pid"
	start=$SECONDS
	stats 1 "$id" "$t" | grep -q "abnormal=1.*not answer in time"
	# One is still being asked: the next is told at once.
	stats 1 "$id" "$t" | grep -q "abnormal=1.*not answer in time"
	once fails 1 "UNAVAILABLE: the mount at" publish 1 hush "$id" a
	[ $((SECONDS - start)) -lt 60 ] || fail "took $((SECONDS - start)) s"
	kill -CONT "$pid"
	eventually 30 healthy "$id" "$t"
	publish 1 hush "$id" a
	same "$(union_server "$(union_of hush)")" "$pid"
	unpublish 1 "$id" a
	unstage 1 hush "$id"
	delete 1 "$id"
	nothing_left
}

test_a_rebooted_node_is_staged_again() {
	local id t i
	cap 1
	volume boot
	id=$(create 1 boot 1500)
	stage 1 boot "$id"
	publish 1 boot "$id" a
	t=$(target 1 a)
	fill "$t"
	driver_signal 1 KILL
	blockd_signal 1 KILL
	union_kill "$(union_of boot)"
	pgrep -f "trib-nbd.*$C/host1/" | while read -r i; do end_at_once "$i"; done
	# Before their files are out of sight with the mounts they are in.
	losetup -nl -O NAME,BACK-FILE | grep "$C/host1/" >"$TEST_DIR/loops"
	findmnt -rno TARGET | grep "^$C/host1/" | sort -r | while read -r i; do umount -l "$i"; done
	while read -r i _; do
		losetup -d "$i"
		eventually 30 eval "! losetup -nl -O NAME | grep -q '^$i *\$'"
	done <"$TEST_DIR/loops"
	rm -rf "$C/host1/run"
	mkdir "$C/host1/run"
	blockd_start 1
	driver_start 1
	stage 1 boot "$id"
	publish 1 boot "$id" a
	check "$t"
	eventually 30 healthy "$id" "$t"
	unpublish 1 "$id" a
	unstage 1 boot "$id"
	delete 1 "$id"
	nothing_left
}

# moves_to HOST ID: as the attach/detach controller and a kubelet bring it there
moves_to() {
	cpublish "$1" "$2"
	node_stage "$1" moved "$2"
	publish "$1" moved "$2" pod
}

# `kubectl drain`: the kubelet of host1 takes the pod's mounts down, and only then is
# the volume detached. The attacher asks again what it has asked before.
test_a_drained_node_gives_its_volume_to_the_next_one() {
	local id
	cap 1
	volume moved
	id=$(create 3 moved 300)
	moves_to 1 "$id"
	writer_start "$(target 1 pod)"
	fails 1 FAILED_PRECONDITION cpublish 2 "$id"
	fails 1 FAILED_PRECONDITION node_unstage 1 moved "$id"
	writer_stop "$(target 1 pod)"
	for _ in 1 2; do unpublish 1 "$id" pod; done
	fails 1 FAILED_PRECONDITION cpublish 2 "$id"
	for _ in 1 2; do node_unstage 1 moved "$id"; done
	for _ in 1 2; do cunpublish 1 "$id"; done
	for _ in 1 2; do moves_to 2 "$id"; done
	(cd "$(target 2 pod)" && sha256sum --quiet -c w/*.sum)
	unpublish 2 "$id" pod
	node_unstage 2 moved "$id"
	cunpublish 2 "$id"
	delete 3 "$id"
	nothing_left
}

# `kubectl delete node`, and a node that does not unmount within six minutes: the
# attach/detach controller takes the volume from under the pod. The node's kubelet
# cleans up what it finds, when the next node has the volume already.
test_a_deleted_node_cleans_up_after_the_next_one_has_its_volume() {
	local id t
	cap 1
	volume moved
	# Without an extent on the node itself: docs/operations.md, "the consuming node is dead".
	id=$(create 3 moved 300 parameters.nodes=host2,host3)
	moves_to 1 "$id"
	t=$(target 1 pod)
	fill "$t"
	for _ in 1 2; do cunpublish 1 "$id"; done
	for _ in 1 2; do moves_to 2 "$id"; done
	# Nothing that its pod still writes gets there.
	! (set -e; echo late >"$t/late"; sync "$t/late") 2>/dev/null || fail "host1 writes"
	check "$(target 2 pod)"
	fails 1 FAILED_PRECONDITION node_stage 1 moved "$id"
	for _ in 1 2; do unpublish 1 "$id" pod; done
	for _ in 1 2; do node_unstage 1 moved "$id"; done
	# An attacher that was slow takes nothing from the next node.
	cunpublish 1 "$id"
	check "$(target 2 pod)"
	[ ! -e "$(target 2 pod)/late" ]
	unpublish 2 "$id" pod
	node_unstage 2 moved "$id"
	cunpublish 2 "$id"
	delete 3 "$id"
	nothing_left
}

test_a_writer_outlives_plugin_and_servers() {
	local id t n pid
	cap 1
	volume live
	id=$(create 1 live 1500 parameters.fsType=xfs)
	stage 1 live "$id"
	publish 1 live "$id" a
	t=$(target 1 a)
	writer_start "$t"
	driver_signal 1 KILL
	n=$(cat "$TEST_DIR/written")
	eventually 30 eval "[ \$(cat $TEST_DIR/written) -gt $((n + 2)) ]"
	driver_start 1 --call-timeout-ms 2000 # two calls well within the dead timeout
	stage 1 live "$id"
	publish 1 live "$id" a
	eventually 30 healthy "$id" "$t"
	expand 1 "$id" "$t" >/dev/null
	# A node that is away for a while: calls say so, and take nothing
	# down that would only have to wait.
	pid=$(union_pid live)
	# Nor is a server that is killed, and followed by another, noticed.
	kill -KILL "$(union_server "$(union_of live)")"
	n=$(cat "$TEST_DIR/written")
	eventually 30 eval "[ \$(cat $TEST_DIR/written) -gt $((n + 2)) ]"
	eventually 30 healthy "$id" "$t"
	on 3 trib volume resize live --size 1600MiB --quiet
	blockd_signal 2 KILL
	stats 1 "$id" "$t" >"$TEST_DIR/out"
	grep -q "abnormal=1" "$TEST_DIR/out"
	once fails 1 "UNAVAILABLE: " expand 1 "$id" "$t"
	once fails 1 "UNAVAILABLE: " node_stage 1 live "$id"
	blockd_start 2
	expand 1 "$id" "$t"
	same "$(union_pid live)" "$pid"
	eventually 30 healthy "$id" "$t"
	n=$(cat "$TEST_DIR/written")
	eventually 30 eval "[ \$(cat $TEST_DIR/written) -gt $((n + 2)) ]"
	writer_stop "$t"
	unpublish 1 "$id" a
	unstage 1 live "$id"
	delete 1 "$id"
	nothing_left
}

program_of() { readlink "/proc/$(cat "$C/host$1/$2.pid")/exe"; } # HOST csi|blockd
mounts_here() { findmnt -rno ID,TARGET | grep "$C/" | sort; }

# An upgrade, as docs/kubernetes.md has it: all programs are other files, controllers
# and plugins are replaced, then one blockd after the other, then the union's server.
test_an_upgrade_costs_a_writer_nothing() {
	local id t i n new=$TEST_DIR/new
	cap 1
	volume upgrade
	id=$(create 1 upgrade 1500 parameters.fsType=xfs)
	stage 1 upgrade "$id"
	publish 1 upgrade "$id" a
	t=$(target 1 a)
	writer_start "$t"
	mounts_here >"$TEST_DIR/before"
	mkdir "$new"
	cp "$BUILD"/bin/{blockd,trib*} "$new"
	PATH=$new:$PATH
	hash -r
	for i in 1 2 3; do
		driver_signal $i TERM
		driver_start $i
	done
	for i in 1 2 3; do
		blockd_signal $i TERM
		blockd_start $i
	done
	for i in 1 2 3; do
		same "$(program_of $i csi)" "$new/trib-csi"
		same "$(program_of $i blockd)" "$new/blockd"
	done
	on 1 trib union upgrade "$(staging 1 upgrade)"
	n=$(cat "$TEST_DIR/written")
	eventually 60 eval "[ \$(cat $TEST_DIR/written) -gt $((n + 2)) ]"
	eventually 60 healthy "$id" "$t"
	mounts_here >"$TEST_DIR/after"
	cmp "$TEST_DIR/before" "$TEST_DIR/after"
	writer_stop "$t"
	unpublish 1 "$id" a
	unstage 1 upgrade "$id"
	delete 1 "$id"
	nothing_left
}

test_a_block_volume_is_a_device() {
	local id t dev
	CAP=(volume_capability.block= volume_capability.access_mode.mode=7)
	volume raw
	csi 1 Controller/CreateVolume name=raw "capacity_range.required_bytes=$((64 * MIB))" \
		volume_capabilities.block= volume_capabilities.access_mode.mode=7 \
		parameters.nodes=host2 >"$TEST_DIR/out"
	id=$(sed -n 's/.*volume_id="\([^"]*\)".*/\1/p' "$TEST_DIR/out")
	fails 1 "not published" node_stage 1 raw "$id"
	stage 1 raw "$id"
	stage 1 raw "$id"
	publish 1 raw "$id" a
	publish 1 raw "$id" a
	publish 1 raw "$id" b
	t=$(target 1 a)
	[ -b "$t" ]
	# Not by another one's name.
	fails 1 "not this volume" unpublish 1 "other${id#raw}" a
	[ -b "$t" ]
	same "$(blockdev --getsize64 "$t")" $((64 * MIB))
	head -c 1M /dev/urandom >"$TEST_DIR/data"
	dd if="$TEST_DIR/data" of="$t" bs=64k oflag=direct conv=fsync 2>/dev/null
	cmp -n 1048576 "$TEST_DIR/data" "$(target 1 b)"
	stats 1 "$id" "$t" >"$TEST_DIR/out"
	grep -q "usage=\[{total=$((64 * MIB)) unit=1}\].*the volume is well" "$TEST_DIR/out"
	fails 1 "is one device for all" publish 1 raw "$id" c readonly=1
	[ ! -e "$(target 1 c)" ]
	unpublish 1 "$id" b
	[ ! -e "$(target 1 b)" ]
	# The device grows.
	on 3 trib volume resize raw --size 96MiB --quiet
	expand 1 "$id" "$t" | grep -q "capacity_bytes=$((96 * MIB))"
	same "$(blockdev --getsize64 "$t")" $((96 * MIB))
	unpublish 1 "$id" a
	publish 1 raw "$id" a readonly=1
	same "$(blockdev --getro "$t")" 1
	fails any "" dd if=/dev/zero of="$t" bs=4k count=1 conv=fsync
	unpublish 1 "$id" a
	publish 1 raw "$id" a
	dd if="$TEST_DIR/data" of="$t" bs=64k oflag=direct 2>/dev/null
	driver_signal 1 KILL
	driver_start 1
	cmp -n 1048576 "$TEST_DIR/data" "$t"
	fails 1 "published at" unstage 1 raw "$id"
	unpublish 1 "$id" a
	unpublish 1 "$id" a
	[ ! -e "$t" ]
	unstage 1 raw "$id"
	same "$(losetup -nl -O BACK-FILE | count "$C/")" 0 "loop devices"
	# What stands at the target path already.
	stage 1 raw "$id"
	echo precious >"$t"
	fails 1 "FAILED_PRECONDITION" publish 1 raw "$id" a
	same "$(cat "$t")" precious
	rm "$t"
	unstage 1 raw "$id"
	delete 1 "$id"
	nothing_left
}

# One file system on a device of extents of two hosts: grown, and put right when
# the process that serves the device is killed.
test_a_file_system_on_one_device_is_a_volume_too() {
	local id t other
	cap 1
	volume line
	id=$(create 1 line 800 parameters.layout=linear parameters.fsType=xfs)
	csi 1 Controller/ValidateVolumeCapabilities "volume_id=$id" volume_capabilities.block= \
		volume_capabilities.access_mode.mode=1 | grep -q "not a block device"
	stage 1 line "$id"
	stage 1 line "$id"
	publish 1 line "$id" a
	publish 1 line "$id" a
	t=$(target 1 a)
	same "$(findmnt -rno FSTYPE "$t")" xfs
	same "$(ls -A "$t")" ""
	fill "$t"
	fails 1 "not this volume" unpublish 1 "other${id#line}" a
	stats 1 "$id" "$t" | grep -q "unit=2.*the volume is well"
	on 3 trib volume resize line --size 1200MiB --quiet
	stats 1 "$id" "$t" | grep -q "abnormal=1.*joins the device"
	expand 1 "$id" "$t" | grep -q "capacity_bytes=$((1200 * MIB))"
	[ "$(df_mib "$t")" -gt 1100 ]
	# The driver is no part of it, trib-nbd is.
	driver_signal 1 KILL
	driver_start 1
	check "$t"
	end_at_once "$(pgrep -f "trib-nbd.*$C/host1/.*line-0")"
	stats 1 "$id" "$t" | grep -q "abnormal=1.*split 0 on node .* is broken"
	stage 1 line "$id"
	check "$t"
	stats 1 "$id" "$t" | grep -q "the volume is well"
	fails 1 "published at" unstage 1 line "$id"
	unpublish 1 "$id" a
	unstage 1 line "$id"
	# Readers have it at the same time.
	cap 3
	for other in 1 2; do
		stage $other line "$id"
		publish $other line "$id" r
		check "$(target $other r)"
		fails any "Read-only" touch "$(target $other r)/x"
	done
	for other in 1 2; do
		unpublish $other "$id" r
		unstage $other line "$id"
	done
	delete 1 "$id"
	nothing_left
}

modify() { # ID PARAMETER=VALUE...
	local id=$1
	shift
	csi 1 Controller/ControllerModifyVolume "volume_id=$id" \
		"${@/#/mutable_parameters.}" >/dev/null
}
# takes DEVICE BLOCK COUNT LEAST MOST: so many writes, so many milliseconds
takes() {
	local start ms
	start=$(date +%s%3N)
	dd if=/dev/zero of="$1" bs="$2" count="$3" oflag=direct 2>/dev/null
	ms=$(($(date +%s%3N) - start))
	[ $ms -ge "$4" ] && [ $ms -le "$5" ] ||
		{ echo "$3 writes of $2 took $ms ms"; return 1; }
}
test_limits_hold_by_the_network_and_on_the_volumes_own_node() {
	local id t
	CAP=(volume_capability.block= volume_capability.access_mode.mode=7)
	volume slow
	csi 1 Controller/CreateVolume name=slow "capacity_range.required_bytes=$((64 * MIB))" \
		volume_capabilities.block= volume_capabilities.access_mode.mode=7 \
		parameters.nodes=host2 mutable_parameters.bytesPerSecond=1MiB >"$TEST_DIR/out"
	id=$(sed -n 's/.*volume_id="\([^"]*\)".*/\1/p' "$TEST_DIR/out")
	stage 1 slow "$id"
	publish 1 slow "$id" a
	t=$(target 1 a)
	# What flows in within a tenth of a second may be used at once.
	takes "$t" 64k 64 3500 60000
	# Changed while it is used.
	modify "$id" bytesPerSecond=0 iops=20
	takes "$t" 4k 60 2500 60000
	modify "$id" iops=0
	eventually 60 takes "$t" 4k 60 0 2000
	unpublish 1 "$id" a
	unstage 1 slow "$id"
	# Without limits its own node uses the extent's file; with them not,
	# from the next time on.
	stage 2 slow "$id"
	same "$(losetup -nl -O BACK-FILE | count "$C/host2/pool/extents/slow")" 1
	modify "$id" bytesPerSecond=1MiB
	stage 2 slow "$id"
	same "$(losetup -nl -O BACK-FILE | count "$C/host2/pool/extents/slow")" 1
	unstage 2 slow "$id"
	stage 2 slow "$id"
	publish 2 slow "$id" a
	t=$(target 2 a)
	same "$(losetup -nl -O BACK-FILE | count "$C/host2/pool/extents/slow")" 0
	takes "$t" 64k 64 3500 60000
	# The device is the same when stage is repeated, also without limits.
	modify "$id" bytesPerSecond=0
	stage 2 slow "$id"
	eventually 60 takes "$t" 64k 64 0 3000
	unpublish 2 "$id" a
	unstage 2 slow "$id"
	delete 1 "$id"
	nothing_left
}

test_a_volume_is_read_on_several_nodes() {
	local id i
	cap 1
	volume many
	id=$(create 1 many 700)
	stage 1 many "$id"
	publish 1 many "$id" a
	fill "$(target 1 a)"
	unpublish 1 "$id" a
	unstage 1 many "$id"
	cap 3
	for i in 1 2; do
		stage $i many "$id"
		publish $i many "$id" a
		publish $i many "$id" b
		check "$(target $i b)"
		fails any "Read-only" touch "$(target $i a)/x"
	done
	for i in 1 2; do
		unpublish $i "$id" a
		unpublish $i "$id" b
		unstage $i many "$id"
	done
	delete 1 "$id"
	nothing_left
}

test_mount_flags_reach_the_file_systems() {
	local id
	cap 1
	CAP+=(volume_capability.mount.mount_flags=noatime volume_capability.mount.mount_flags=sync)
	volume opts
	id=$(create 1 opts 64)
	stage 1 opts "$id"
	publish 1 opts "$id" a
	findmnt -rno OPTIONS "$C/host1/run/volumes/opts/branch-0" | grep sync | grep -q noatime
	findmnt -rno VFS-OPTIONS "$(target 1 a)" | grep -q noatime
	unpublish 1 "$id" a
	# Mount flags are chosen when the volume is staged.
	fails 1 "FAILED_PRECONDITION: the volume is staged with other mount flags" \
		publish 1 opts "$id" a volume_capability.mount.mount_flags=dirsync
	unstage 1 opts "$id"
	cap 1
	fails 1 "mount flag 1 is none that" stage 1 opts "$id" \
		volume_capability.mount.mount_flags=errors=panic
	# A label of SELinux is the kernel's to know.
	CAP+=('volume_capability.mount.mount_flags=context="system_u:object_r:container_file_t:s0:c1,c2"')
	if [ -e /sys/fs/selinux/enforce ]; then
		stage 1 opts "$id"
		findmnt -rno OPTIONS "$C/host1/run/volumes/opts/branch-0" | grep -q "container_file_t:s0:c1,c2"
		findmnt -rno OPTIONS "$(staging 1 opts)" | grep -q "container_file_t:s0:c1,c2"
	else
		fails 1 "mount " stage 1 opts "$id"
		same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
		grep -q "context=\"*system_u\|Unknown parameter 'context'\|Invalid argument" "$C/host1/csi.log"
	fi
	unstage 1 opts "$id"
	delete 1 "$id"
	nothing_left
}

test_the_files_of_a_volume_are_its_groups() {
	local id t
	cap 7
	CAP+=(volume_capability.mount.volume_mount_group=4711)
	volume group
	id=$(create 1 group 700 parameters.minExtents=2)
	fails 1 "volume_mount_group has to be the number" stage 1 group "$id" \
		volume_capability.mount.volume_mount_group=wheel
	stage 1 group "$id"
	publish 1 group "$id" a
	t=$(target 1 a)
	same "$(stat -c '%g %a' "$t")" "4711 2775"
	# Somebody in the group, nobody else.
	as() { (cd "$t" && exec setpriv --reuid 1234 --regid "$1" --clear-groups "${@:2}"); }
	as 4711 mkdir d
	as 4711 touch d/f
	same "$(stat -c '%u %g' "$t/d/f")" "1234 4711"
	fails any "denied" as 99 touch x
	unpublish 1 "$id" a
	unstage 1 group "$id"
	# Another one: all files. For reading only: none.
	cap 7
	CAP+=(volume_capability.mount.volume_mount_group=4712)
	stage 1 group "$id"
	same "$(stat -c '%g %a' "$(staging 1 group)/d/f")" "4712 664"
	CAP+=(volume_capability.mount.volume_mount_group=4713)
	publish 1 group "$id" a readonly=1
	same "$(stat -c %g "$t/d/f")" 4712
	unpublish 1 "$id" a
	publish 1 group "$id" a
	same "$(stat -c %g "$t/d/f" "$t/d" "$t" | tr '\n' ' ')" "4713 4713 4713 "
	unpublish 1 "$id" a
	unstage 1 group "$id"
	delete 1 "$id"
	nothing_left
}

test_a_stage_that_fails_after_it_attached_leaves_nothing_attached() {
	local id
	cap 1
	volume half
	id=$(create 1 half 100)
	stage 1 half "$id"
	touch "$(staging 1 half)/fixed"
	# An immutable file: nobody may give it to a group.
	chattr +i "$C"/host1/run/volumes/half/branch-0/data/fixed ||
		skip "no file can be made immutable here"
	unstage 1 half "$id"
	CAP+=(volume_capability.mount.volume_mount_group=4711)
	fails 1 "for the group 4711" stage 1 half "$id"
	same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
	same "$(losetup -nl -O BACK-FILE | count "$C/")" 0 "loop devices"
	same "$(on 1 trib volume show half --json | jq -r '.record.status.attachments[].state')" Published
	# As another pod would have it.
	cap 1
	stage 1 half "$id"
	chattr -i "$C"/host1/run/volumes/half/branch-0/data/fixed
	unstage 1 half "$id"
	delete 1 "$id"
	nothing_left
}

# The record of a volume for the runtime of guests.
kata_dir() {
	echo "$C/host1/kata/kata-containers/shared/direct-volumes/$(
		printf %s "$1" | basenc --base64url -w 0)"
}

test_a_guest_gets_a_device() {
	local id t dir dev shim mode
	cap 1
	volume kata
	fails 1 "cannot be given to a guest" create 1 kata 64 parameters.kataDirect=true \
		parameters.layout=union
	id=$(create 1 kata 64 parameters.kataDirect=true parameters.nodes=host2)
	grep -q 'volume_context=."kataDirect"="true"' "$TEST_DIR/out"
	cap 7
	fails 1 "is for one pod" stage 1 kata "$id"
	csi 3 Controller/ControllerUnpublishVolume "volume_id=$id"
	cap 1
	CAP+=(volume_capability.mount.mount_flags=noatime
		volume_capability.mount.volume_mount_group=4711)
	stage 1 kata "$id"
	stage 1 kata "$id"
	publish 1 kata "$id" a
	publish 1 kata "$id" a
	t=$(target 1 a)
	dir=$(kata_dir "$t")
	same "$(stat -c %a "$dir" "$dir/mountInfo.json" | tr '\n' ' ')" "700 600 "
	dev=$(python3 -c '
import json, sys
i = json.load(open(sys.argv[1]))
assert i["volume-type"] == "directvol" and i["fstype"] == "ext4", i
assert i["options"] == ["noatime"] and i["metadata"]["fsGroup"] == "4711", i
print(i["device"])' "$dir/mountInfo.json")
	[ -b "$dev" ]
	# Nothing of it is mounted here; there is one file system, for one guest.
	same "$(findmnt -rno TARGET | count "$C/host1/staging")" 0
	fails any "" findmnt -S "$dev"
	blkid -p "$dev" | grep -q 'TYPE="ext4"'
	fails 1 "FAILED_PRECONDITION: the volume is published at" publish 1 kata "$id" b
	stats 1 "$id" "$t" | grep -q "usage=\[{total=$((64 * MIB)) unit=1}\].*volume is well"
	# The guest: it mounts the device, and its shim answers.
	shim=$C/host1/kata/kata/sandbox1/shim-monitor.sock
	mkdir -p "${shim%/*}"
	touch "$dir/sandbox1"
	stats 1 "$id" "$t" | grep -q "abnormal=1.*the shim of sandbox 'sandbox1' does not answer"
	echo ok >"$shim.mode"
	"$TOP/tests/csi/fake_shim" "$shim" "$TEST_DIR/shim.log" &
	at_exit kill $!
	eventually 30 test -S "$shim"
	mkdir -p "$TEST_DIR/guest"
	mount "$dev" "$TEST_DIR/guest"
	at_exit umount "$TEST_DIR/guest"
	echo yes >"$TEST_DIR/guest/file"
	stats 1 "$id" "$t" | grep -q "usage=\[{available=70 total=100 used=30 unit=1} {available=7 total=10 used=3 unit=2}\].*volume is well"
	grep -q "^/direct-volume/stats?path=.*%2Fpods%2Fa " "$TEST_DIR/shim.log"
	on 3 trib volume resize kata --size 96MiB --quiet
	echo fail >"$shim.mode"
	fails 1 "the guest is on fire" expand 1 "$id" "$t"
	echo ok >"$shim.mode"
	expand 1 "$id" "$t" | grep -q "capacity_bytes=$((96 * MIB))"
	grep -q "^/direct-volume/resize .*\"VolumePath\":\".*pods.*a\",.*\"size\":$((96 * MIB))" "$TEST_DIR/shim.log"
	same "$(blockdev --getsize64 "$dev")" $((96 * MIB))
	echo garbage >"$shim.mode"
	stats 1 "$id" "$t" | grep -q "abnormal=1.*answers nothing that tells"
	echo silent >"$shim.mode"
	stats 1 "$id" "$t" | grep -q "abnormal=1.*does not answer"
	# The plugin is started again: nothing of the guest is touched.
	driver_signal 1 KILL
	driver_start 1
	publish 1 kata "$id" a
	[ -e "$dir/sandbox1" ]
	unmount "$TEST_DIR/guest"
	unpublish 1 "$id" a
	unpublish 1 "$id" a
	[ ! -e "$dir" ]
	[ ! -e "$t" ]
	unstage 1 kata "$id"
	# On another node, with what the guest wrote.
	stage 2 kata "$id"
	publish 2 kata "$id" a
	dev=$(grep -o '/dev[^"]*' "$C"/host2/kata/kata-containers/shared/direct-volumes/*/mountInfo.json | tr -d '\\')
	mount -o ro "$dev" "$TEST_DIR/guest"
	same "$(cat "$TEST_DIR/guest/file")" yes
	unmount "$TEST_DIR/guest"
	unpublish 2 "$id" a
	unstage 2 kata "$id"
	delete 1 "$id"
	nothing_left
}

run_tests "$@"
