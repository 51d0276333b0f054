#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The CSI driver on three hosts, over its socket: what a container orchestrator
# calls in its order, the wrong orders, and what is left of it after things
# died.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi_lib.sh"

test_the_program_says_what_it_is_and_refuses_what_it_cannot() {
	trib-csi --help | grep -q CSI_ENDPOINT
	trib-csi --version | grep -qE '^trib-csi [0-9]'
	fails 2 "no endpoint" env -u CSI_ENDPOINT trib-csi
	fails 2 "controller, node or all" trib-csi --mode x --endpoint unix:///x.sock
	fails 2 "write unix:///PATH.sock" trib-csi --endpoint tcp:1.2.3.4:5
	fails 1 "nowhere" trib-csi --endpoint "unix://$TEST_DIR/nowhere/csi.sock" \
		--store "local:$TEST_DIR/x.db" --run-dir "$TEST_DIR/r"
	# Not beside one that is there.
	fails 1 "another p" trib-csi --endpoint "unix://$C/host1/csi.sock" \
		--store "local:$TEST_DIR/x.db" --run-dir "$TEST_DIR/r"
	same "$(stat -c %a "$C/host1/csi.sock")" 600
	csi 1 Identity/GetPluginInfo | grep -q 'name="union.csi.union.io" vendor_version="[0-9]'
	csi 2 Node/NodeGetInfo | grep -q 'node_id="host2" max_volumes_per_node=128 .*node"="host2"'
	csi 1 Node/NodeGetCapabilities >"$TEST_DIR/out"
	same "$(grep -o 'type=[0-9]*' "$TEST_DIR/out" | tr '\n' ' ')" "type=1 type=2 type=3 type=4 type=5 type=6 "
}

test_each_mode_has_its_services() {
	local dir=$TEST_DIR/modes mode pid
	mkdir -p "$dir"
	for mode in controller node; do
		CSI_ENDPOINT=unix://$dir/$mode.sock trib-csi --mode $mode --node x \
			--store "local:$dir/$mode.db" --run-dir "$dir/$mode" 2>"$dir/$mode.log" &
		pid=$!
		at_exit kill $pid
		call() { "$BUILD/test/csi/testkit/csi_call_main" "unix://$dir/$mode.sock" "$@"; }
		eventually 30 call Identity/Probe
		call Identity/GetPluginCapabilities >"$dir/$mode.caps"
		if [ $mode = node ]; then
			# A node without a blockd makes itself known.
			echo "store = local:$dir/node.db" >"$dir/trib.conf"
			TRIB_CONFIG=$dir/trib.conf trib node list >"$dir/nodes"
			lacks "$dir/nodes" '^x '
			call Node/NodeGetInfo >/dev/null
			call Node/NodeGetInfo | grep -q 'node_id="x"'
			TRIB_CONFIG=$dir/trib.conf trib node list | grep -q '^x '
			fails 1 UNIMPLEMENTED call Controller/ListVolumes
			fails 1 UNIMPLEMENTED call GroupController/GroupControllerGetCapabilities
		else
			call Controller/ListVolumes >/dev/null
			call GroupController/GroupControllerGetCapabilities >/dev/null
			fails 1 UNIMPLEMENTED call Node/NodeGetInfo
		fi
		kill -TERM $pid
		wait $pid
		grep -q "stopping" "$dir/$mode.log"
		[ ! -e "$dir/$mode.sock" ]
	done
	cmp "$dir/controller.caps" "$dir/node.caps"
}

test_the_life_of_a_volume_larger_than_a_node() {
	local id t
	cap 1
	volume big
	id=$(create 1 big 1500)
	same "$(ls "$C"/host?/pool/extents/big-*.data | wc -l)" 3
	stage 1 big "$id"
	stage 1 big "$id"
	publish 1 big "$id" pod1
	publish 1 big "$id" pod1
	t=$(target 1 pod1)
	same "$(findmnt -rno TARGET "$t" | wc -l)" 1
	fill "$t"
	stats 1 "$id" "$t" >"$TEST_DIR/out"
	grep -q 'usage=\[{available=[1-9][0-9]* total=[1-9][0-9]* used=[1-9][0-9]* unit=1} {.*unit=2}\]' "$TEST_DIR/out"
	grep -q 'message="the volume is well"' "$TEST_DIR/out"
	fails 1 FAILED_PRECONDITION delete 1 "$id"
	check "$t"
	fails 1 "published at" unstage 1 big "$id"
	unpublish 1 "$id" pod1
	unpublish 1 "$id" pod1
	[ ! -e "$t" ]
	unstage 1 big "$id"
	unstage 1 big "$id"
	# On another node, with its data.
	stage 2 big "$id"
	publish 2 big "$id" pod2
	check "$(target 2 pod2)"
	unpublish 2 "$id" pod2
	unstage 2 big "$id"
	delete 3 "$id"
	delete 3 "$id"
	nothing_left
}

test_a_volume_is_on_one_node_at_a_time() {
	local id
	cap 1
	volume one
	id=$(create 1 one 128)
	stage 1 one "$id"
	fails 1 "volume 'one' is published to node 'host1'" cpublish 2 "$id"
	fails 1 "FAILED_PRECONDITION: the volume is not published to node 'host2'" \
		node_stage 2 one "$id"
	same "$(ls "$C/host2/run/csi" 2>/dev/null)" ""
	unstage 1 one "$id"
	stage 2 one "$id"
	unstage 2 one "$id"
	delete 1 "$id"
	nothing_left
}

limit_of_host2() { # [OPTION...]: of its driver
	driver_signal 2 TERM
	driver_start 2 "$@"
	csi 2 Node/NodeGetInfo >/dev/null
}

test_a_node_takes_no_more_volumes_than_it_says() {
	local one two
	cap 1
	volume one
	volume two
	at_exit limit_of_host2
	limit_of_host2 --max-volumes 1
	one=$(create 1 one 128)
	two=$(create 1 two 128)
	# Each controller refuses by the node's record.
	cpublish 2 "$one" >/dev/null
	cpublish 2 "$one" >/dev/null
	fails 1 "RESOURCE_EXHAUSTED" cpublish 2 "$two"
	fails 1 "node 'host2' has 1 volumes, and takes at most 1" cpublish 2 "$two"
	# The node's limit stays when its addresses are set again.
	on 2 trib node add host2 --control "unix:$C/host2/run/blockd.sock" \
		--data 10.77.0.2:10809 --quiet
	fails 1 "RESOURCE_EXHAUSTED" cpublish 2 "$two"
	cunpublish 2 "$one"
	cpublish 2 "$two" >/dev/null
	limit_of_host2
	cpublish 2 "$one" >/dev/null
	cunpublish 2 "$one"
	cunpublish 2 "$two"
	delete 1 "$one"
	delete 1 "$two"
	nothing_left
}

used_by() { du -c "$C"/host?/pool/extents/"$1"-*.data | tail -n 1 | cut -f1; } # VOLUME: KiB
uses_less_than() { [ "$(used_by "$1")" -lt "$2" ]; }
test_a_node_gives_back_what_its_volumes_do_not_use() {
	local id t
	cap 1
	volume trims
	id=$(create 1 trims 512)
	stage 2 trims "$id"
	publish 2 trims "$id" pod1
	t=$(target 2 pod1)
	head -c 100000000 /dev/urandom >"$t/large"
	sync "$t/large"
	rm "$t/large"
	sync -f "$C"/host2/run/volumes/trims/branch-*
	[ "$(used_by trims)" -gt 90000 ]
	at_exit limit_of_host2
	limit_of_host2 --trim-period-s 1
	eventually 60 uses_less_than trims 40000
	eventually 30 grep -q "volume=trims trimmed: " "$C/host2/csi.log"
	limit_of_host2
	unpublish 2 "$id" pod1
	unstage 2 trims "$id"
	delete 1 "$id"
	nothing_left
}

# Its name may be a node's: of a host network, or of a pod called so.
test_a_controller_of_a_nodes_name_is_not_that_node() {
	local id pid c=$TEST_DIR/named
	cap 1
	volume named
	id=$(create 1 named 256)
	stage 1 named "$id"
	publish 1 named "$id" pod1
	mkdir -p "$c"
	nsenter --net="/run/netns/${CLUSTER_NET}1" trib-csi --mode controller --node host1 \
		--endpoint "unix://$c/csi.sock" --store "$STORE" --run-dir "$c/run" 2>"$c/log" &
	pid=$!
	at_exit kill $pid
	call() { "$BUILD/test/csi/testkit/csi_call_main" "unix://$c/csi.sock" "$@"; }
	eventually 30 call Identity/Probe
	# Mounted ext4 is its node's to grow: nothing of it is looked for here.
	call Controller/ControllerExpandVolume "volume_id=$id" \
		"capacity_range.required_bytes=$((384 * MIB))" "${CAP[@]}" >"$TEST_DIR/out"
	grep -q "node_expansion_required" "$TEST_DIR/out"
	grep -q "controller at unix" "$c/log"
	same "$(find "$c/run" -type d)" "$c/run"
	unpublish 1 "$id" pod1
	unstage 1 named "$id"
	delete 1 "$id"
	nothing_left
}

test_unknown_volumes_are_not_found_or_gone() {
	local gone=gone@0c6f9d5e-1111-4222-8333-abcdefabcdef old new
	cap 1
	volume life
	fails 1 NOT_FOUND stage 1 x $gone
	fails 1 NOT_FOUND publish 1 x $gone pod1
	fails 1 NOT_FOUND stats 1 $gone "$(staging 1 x)"
	fails 1 NOT_FOUND stage 1 x "no id of ours"
	unstage 1 x $gone
	unpublish 1 $gone pod1
	unpublish 1 "no id of ours" pod1
	unstage 1 x "no id of ours"
	# The id of a volume that was made again.
	old=$(create 1 life 64)
	delete 1 "$old"
	new=$(create 1 life 64)
	fails 1 "NOT_FOUND: volume 'life' of uid" stage 1 life "$old"
	stage 1 life "$new"
	unstage 1 life "$old"
	publish 1 life "$new" pod1
	unpublish 1 "$new" pod1
	unstage 1 life "$new"
	delete 1 "$new"
	nothing_left
}

test_staging_again_in_another_way_is_refused() {
	local id
	cap 1
	volume way
	id=$(create 1 way 64)
	stage 1 way "$id"
	cap 7
	fails 1 ALREADY_EXISTS stage 1 way "$id"
	cap 1
	fails 1 ALREADY_EXISTS stage 1 way "$id" volume_context.k=v
	fails 1 "FAILED_PRECONDITION: the volume is staged at" stage 1 elsewhere "$id"
	stage 1 way "$id" secrets.k=hunter2
	unstage 1 elsewhere "$id"
	findmnt "$(staging 1 way)" >/dev/null
	unstage 1 way "way@0c6f9d5e-1111-4222-8333-abcdefabcdef"
	findmnt "$(staging 1 way)" >/dev/null
	# The name alone is any volume of that name.
	unstage 1 way way
	fails 1 "" findmnt "$(staging 1 way)"
	fails 1 "FAILED_PRECONDITION" csi 1 Node/NodeStageVolume "volume_id=$id" \
		"staging_target_path=$C/host1/not-there" "${CAP[@]}"
	cap 5
	fails 1 "FAILED_PRECONDITION: access mode 5" stage 1 way "$id"
	CAP=(volume_capability.block= volume_capability.access_mode.mode=1)
	fails 1 "FAILED_PRECONDITION: the volume is a file system" stage 1 way "$id"
	CAP=(volume_capability.mount.fs_type=xfs volume_capability.access_mode.mode=1)
	fails 1 "FAILED_PRECONDITION: file system 'xfs'" stage 1 way "$id"
	delete 1 "$id"
	nothing_left
}

test_the_matrix_of_second_publications() {
	local id mode
	volume matrix
	id=$(create 1 matrix 64)
	for mode in 1 6 7 2; do
		cap $mode
		stage 1 matrix "$id"
		publish 1 matrix "$id" a
		# the same path
		publish 1 matrix "$id" a
		fails 1 ALREADY_EXISTS publish 1 matrix "$id" a readonly=1
		fails 1 FAILED_PRECONDITION publish 1 matrix "$id" a \
			volume_capability.mount.mount_flags=noexec
		# another path
		if [ $mode = 7 ]; then
			publish 1 matrix "$id" b
			publish 1 matrix "$id" c readonly=1
			echo yes >"$(target 1 a)/from-a"
			same "$(cat "$(target 1 b)/from-a" "$(target 1 c)/from-a" | tr '\n' ' ')" "yes yes "
			fails any "Read-only" touch "$(target 1 c)/x"
			unpublish 1 "$id" b
			unpublish 1 "$id" c
		else
			fails 1 "FAILED_PRECONDITION: the volume is published at" \
				publish 1 matrix "$id" b
			fails 1 FAILED_PRECONDITION publish 1 matrix "$id" b readonly=1
			[ ! -e "$(target 1 b)" ]
		fi
		unpublish 1 "$id" a
		unstage 1 matrix "$id"
	done
	delete 1 "$id"
	nothing_left
}

test_publications_have_the_flags_asked_for() {
	local id t
	cap 1
	volume flags
	id=$(create 1 flags 64)
	stage 1 flags "$id"
	t=$(target 1 a)
	publish 1 flags "$id" a readonly=1
	fails any "Read-only" touch "$t/x"
	touch "$(staging 1 flags)/x"
	unpublish 1 "$id" a
	CAP+=(volume_capability.mount.mount_flags=noexec volume_capability.mount.mount_flags=nosuid
		volume_capability.mount.mount_flags=nodev volume_capability.mount.mount_flags=noatime)
	publish 1 flags "$id" a
	findmnt -rno VFS-OPTIONS "$t" | grep nosuid | grep noexec | grep nodev | grep -q noatime
	unpublish 1 "$id" a
	cap 1
	fails 1 "mount flag 1 is none that" publish 1 flags "$id" a \
		volume_capability.mount.mount_flags=password=hunter2
	unstage 1 flags "$id"
	# Reading only, of a volume that has a file system and of one that has not.
	cap 2
	stage 1 flags "$id"
	publish 1 flags "$id" a
	fails any "Read-only" touch "$t/y"
	[ -e "$t/x" ]
	unpublish 1 "$id" a
	unstage 1 flags "$id"
	delete 1 "$id"
	id=$(create 1 flags 64)
	stage 1 flags "$id"
	publish 1 flags "$id" a
	fails any "Read-only" touch "$t/y"
	unpublish 1 "$id" a
	unstage 1 flags "$id"
	delete 1 "$id"
	nothing_left
}

test_wrong_paths_are_refused_and_left_alone() {
	local id t
	cap 1
	volume path
	id=$(create 1 path 64)
	t=$(target 1 a)
	fails 1 "FAILED_PRECONDITION: the volume is not staged" publish 1 path "$id" a
	stage 1 path "$id"
	mkdir -p "$t"
	echo precious >"$t/file"
	fails 1 "FAILED_PRECONDITION" publish 1 path "$id" a
	fails 1 "not empty" unpublish 1 "$id" a
	same "$(cat "$t/file")" precious
	rm -r "$t"
	echo precious >"$t"
	fails 1 "FAILED_PRECONDITION" publish 1 path "$id" a
	same "$(cat "$t")" precious
	rm "$t"
	ln -s /etc "$t"
	fails 1 "FAILED_PRECONDITION" publish 1 path "$id" a
	rm "$t"
	mkdir "$t"
	mount -t tmpfs none "$t"
	at_exit umount "$t"
	fails 1 "mount point of something else" publish 1 path "$id" a
	fails 1 "is not this volume" unpublish 1 "$id" a
	unmount "$t" # the driver may just look at it
	publish 1 path "$id" a
	# The parent is the caller's.
	fails 1 "FAILED_PRECONDITION" csi 1 Node/NodePublishVolume "volume_id=$id" \
		"staging_target_path=$(staging 1 path)" "target_path=$C/not/there" "${CAP[@]}"
	unpublish 1 "$id" a
	fails 1 FAILED_PRECONDITION csi 1 Node/NodePublishVolume "volume_id=$id" \
		"target_path=$t" "${CAP[@]}"
	fails 1 INVALID_ARGUMENT csi 1 Node/NodePublishVolume "volume_id=$id" \
		"staging_target_path=$(staging 1 path)" "target_path=$t/../x" "${CAP[@]}"
	fails 1 NOT_FOUND stats 1 "$id" "$t"
	unstage 1 path "$id"
	delete 1 "$id"
	nothing_left
}

test_paths_through_links_are_the_same_paths() {
	local id
	cap 1
	volume link
	id=$(create 1 link 64)
	mkdir -p "$C/host1/pods"
	ln -s pods "$C/host1/also-pods"
	stage 1 link "$id"
	local args=("volume_id=$id" "target_path=$C/host1/also-pods/a")
	csi 1 Node/NodePublishVolume "${args[@]}" "staging_target_path=$(staging 1 link)" "${CAP[@]}"
	csi 1 Node/NodePublishVolume "${args[@]}" "staging_target_path=$(staging 1 link)" "${CAP[@]}"
	same "$(findmnt -rno TARGET | count "$C/host1/pods/a")" 1
	fails 1 "published at" unstage 1 link "$id"
	csi 1 Node/NodeUnpublishVolume "${args[@]}"
	rm "$C/host1/also-pods"
	unstage 1 link "$id"
	delete 1 "$id"
	nothing_left
}

test_a_killed_plugin_leaves_volumes_working_and_remembers_them() {
	local id t
	cap 1
	volume kill
	id=$(create 1 kill 700)
	stage 1 kill "$id"
	publish 1 kill "$id" a
	t=$(target 1 a)
	fill "$t"
	driver_signal 1 KILL
	check "$t"
	fill "$t"
	driver_start 1
	check "$t"
	publish 1 kill "$id" a
	fails 1 ALREADY_EXISTS publish 1 kill "$id" a readonly=1
	same "$(findmnt -rno TARGET "$t" | wc -l)" 1
	driver_signal 1 TERM
	driver_start 1
	unpublish 1 "$id" a
	unstage 1 kill "$id"
	delete 1 "$id"
	nothing_left
}

test_what_a_reboot_forgets_can_still_be_cleaned_up() {
	local id t
	cap 1
	volume boot
	id=$(create 1 boot 64)
	stage 1 boot "$id"
	publish 1 boot "$id" a
	t=$(target 1 a)
	# The state is gone, the mounts are not.
	rm -r "$C/host1/run/csi"
	unpublish 1 "$id" a
	unstage 1 boot "$id"
	same "$(findmnt -rno TARGET | count "$C/")" 0
	# The state and the mounts are gone, the directory is not.
	mkdir "$t"
	unpublish 1 "$id" a
	[ ! -e "$t" ]
	unstage 1 boot "$id"
	delete 1 "$id"
	nothing_left
}

test_what_was_unmounted_is_noticed_and_put_right() {
	local id t
	cap 1
	volume gone
	id=$(create 1 gone 700)
	stage 1 gone "$id"
	publish 1 gone "$id" a
	t=$(target 1 a)
	fill "$t"
	unmount "$t" # the driver may just look at it
	stats 1 "$id" "$t" | grep -q "abnormal=1.*nothing is mounted"
	publish 1 gone "$id" a
	check "$t"
	stats 1 "$id" "$t" | grep -q 'the volume is well'
	# A dead one can be taken down too.
	blockd_signal 1 STOP # nobody can put it right meanwhile
	at_exit blockd_signal 1 CONT
	union_kill "$(union_of gone)"
	unpublish 1 "$id" a
	blockd_signal 1 CONT
	unstage 1 gone "$id"
	delete 1 "$id"
	nothing_left
}

test_a_busy_publication_names_who_it_is() {
	local id t pid
	cap 1
	volume busy
	id=$(create 1 busy 64)
	stage 1 busy "$id"
	publish 1 busy "$id" a
	t=$(target 1 a)
	(cd "$t" && exec sleep 300) &
	pid=$!
	at_exit kill $pid
	becomes $pid sleep
	fails 1 "sleep ($pid)" unpublish 1 "$id" a
	kill $pid
	wait $pid || true
	unpublish 1 "$id" a
	unstage 1 busy "$id"
	delete 1 "$id"
	nothing_left
}

test_what_capacity_reports_can_be_made() {
	local max
	volume full
	cap 1
	csi 1 Controller/GetCapacity >"$TEST_DIR/out"
	max=$(sed -n 's/.*maximum_volume_size={value=\([0-9]*\)}.*/\1/p' "$TEST_DIR/out")
	[ "$max" -gt $((1900 * MIB)) ]
	fails 1 RESOURCE_EXHAUSTED csi 1 Controller/CreateVolume name=full \
		"capacity_range.required_bytes=$((max + 4096))" \
		volume_capabilities.mount.fs_type= volume_capabilities.access_mode.mode=1
	csi 1 Controller/CreateVolume name=full "capacity_range.required_bytes=$max" \
		volume_capabilities.mount.fs_type= volume_capabilities.access_mode.mode=1 |
		grep -q "capacity_bytes=$max"
	csi 2 Controller/ListVolumes | grep -q 'volume_id="full@.*message="the volume is well"'
	blockd_signal 3 KILL
	once fails 1 UNAVAILABLE delete 1 full
	blockd_start 3
	delete 1 full
	nothing_left
}

# Secrets went into calls above; here into each that takes them.
test_secrets_are_nowhere() {
	local id secret=hunter2-$$ f line
	cap 1
	volume secret
	id=$(create 1 secret 64 "secrets.token=$secret")
	stage 1 secret "$id" "secrets.token=$secret"
	publish 1 secret "$id" a "secrets.token=$secret"
	fails 1 INVALID_ARGUMENT stage 1 secret "$id" "secrets.bad key=$secret"
	for f in "$C"/host?/csi.log "$C"/host?/blockd.log "$C"/records.db* "$C"/host?/run/csi/*; do
		lacks "$f" "$secret"
	done
	# Nor do mount flags come into the log.
	lacks "$C/host1/csi.log" password=
	grep -q "secrets=(1)" "$C/host1/csi.log"
	for f in /proc/[0-9]*; do
		line=$({ tr '\0' ' ' <"$f/cmdline"; } 2>/dev/null) || continue
		case $line in
		"$BUILD"/bin/*$secret* | trib-*$secret*) fail "a secret is in: $line" ;;
		esac
	done
	unpublish 1 "$id" a
	unstage 1 secret "$id"
	delete 1 "$id"
	nothing_left
}

# Each pair of calls at the same time: one volume, one mount, or none.
test_two_calls_at_once_are_right_or_aborted() {
	local id n a b pair
	cap 1
	volume pair
	id=$(create 1 pair 64)
	both() { # CALL CALL: each OK, ABORTED or the other's precondition
		local pids=() p
		once "$1" >"$TEST_DIR/a" 2>&1 & pids+=($!)
		once "$2" >"$TEST_DIR/b" 2>&1 & pids+=($!)
		for p in "${pids[@]}"; do wait "$p" || true; done
		for p in a b; do
			! grep -qE '^[A-Z_]+: ' "$TEST_DIR/$p" ||
				grep -qE '^(ABORTED|FAILED_PRECONDITION): ' "$TEST_DIR/$p" ||
				fail "$1 beside $2: $(cat "$TEST_DIR/$p")"
		done
		[ "$(findmnt -rno TARGET | count "$(staging 1 pair)")" -le 1 ]
		[ "$(findmnt -rno TARGET | count "$(target 1 a)")" -le 1 ]
		same "$(ls "$C"/host?/pool/extents/pair-*.data | wc -l)" 1
	}
	s() { node_stage 1 pair "$id"; }
	u() { node_unstage 1 pair "$id"; }
	p() { publish 1 pair "$id" a; }
	q() { unpublish 1 "$id" a; }
	d() { delete 2 "$id"; }
	cpublish 1 "$id"
	for n in 1 ${LONG_TESTS:+2 3}; do
		for pair in "s s" "s u" "s p" "p p" "p q" "q u" "s d" "p d"; do
			read -r a b <<<"$pair"
			case $pair in *d) s ;; esac
			both "$a" "$b"
			# Whatever came of it, the usual order ends it well.
			s
			p
			q
			u
		done
	done
	cunpublish 1 "$id"
	delete 1 "$id"
	nothing_left
}

test_a_stop_does_not_wait_for_a_silent_node() {
	local id pid driver start
	cap 1
	volume stop
	id=$(create 1 stop 128 parameters.nodes=host2)
	driver_signal 1 TERM
	driver_start 1 --call-timeout-ms 2000
	blockd_signal 2 STOP
	at_exit blockd_signal 2 CONT
	(EXEC=exec; stage 1 stop "$id") >"$TEST_DIR/out" 2>&1 &
	pid=$!
	at_exit kill $pid
	driver=$(cat "$C/host1/csi.pid")
	eventually 30 test -s "$C/host1/run/csi/stop.volume"
	start=$SECONDS
	driver_signal 1 TERM
	# Each call under way has 2 s; no other is begun.
	[ $((SECONDS - start)) -lt 28 ] || fail "took $((SECONDS - start)) s"
	! kill -0 "$driver" 2>/dev/null || fail "it is still there"
	kill $pid 2>/dev/null || true
	blockd_signal 2 CONT
	driver_start 1
	stage 1 stop "$id"
	unstage 1 stop "$id"
	delete 1 "$id"
	nothing_left
}

# All threads of process $1 are.
# killed_in N CALL...: CALL of a driver that is killed at its N-th step; 1 when
# it was not killed any more. A new one is running then.
killed_in() {
	local pid driver killed=1
	# From when it runs: what it does to begin (who leads?) is not counted.
	driver=$(cat "$C/host1/csi.pid")
	strace -f -qq -o /dev/null -p "$driver" -e "trace=$STEPS" \
		-e "inject=$STEPS:signal=KILL:when=$1" &
	disown
	eventually 30 traced "$driver"
	(EXEC=exec; "${@:2}") >"$TEST_DIR/killed" 2>&1 &
	pid=$!
	while kill -0 $pid 2>/dev/null; do
		if ! kill -0 "$driver" 2>/dev/null; then
			killed=0
			break
		fi
		sleep 0.02
	done
	# The caller would wait for the next driver, and call again.
	[ $killed = 1 ] || kill $pid 2>/dev/null || true
	wait $pid 2>/dev/null || [ $killed = 0 ] || fail "$(cat "$TEST_DIR/killed")"
	driver_signal 1 KILL
	driver_start 1
	return $killed
}
# What changes something on disk or among the mounts.
STEPS=fsync,fdatasync,mount,move_mount,umount2,mkdir,rmdir,unlink,unlinkat

test_killed_at_any_step_the_same_call_or_its_opposite_is_right() {
	local id n all=0 t every
	every=$(every)
	cap 1
	volume step
	t=$(target 1 a)
	for ((n = 1 + RANDOM % every; n < 60; n += every)); do
		killed_in $n create 1 step 700 || break
		[ $((n % 2)) = 0 ] || id=$(create 1 step 700)
		delete 1 step
		nothing_left
	done
	all=$((all + n))
	[ $n -gt 3 ] || fail "create had $n steps"
	id=$(create 1 step 700)
	for ((n = 1 + RANDOM % every; n < 90; n += every)); do
		killed_in $n stage 1 step "$id" || break
		if [ $((n % 2)) = 1 ]; then
			stage 1 step "$id"
			publish 1 step "$id" a
			fill "$t"
			check "$t"
			unpublish 1 "$id" a
		fi
		unstage 1 step "$id"
		same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
		same "$(losetup -nl -O BACK-FILE | count "$C/")" 0 "loop devices"
	done
	all=$((all + n))
	[ $n -gt 8 ] || fail "stage had $n steps"
	stage 1 step "$id"
	for ((n = 1 + RANDOM % every; n < 20; n += every)); do
		killed_in $n publish 1 step "$id" a || break
		if [ $((n % 2)) = 1 ]; then
			publish 1 step "$id" a
			fill "$t"
			check "$t"
			same "$(findmnt -rno TARGET | count "$t")" 1
		fi
		unpublish 1 "$id" a
		[ ! -e "$t" ]
	done
	all=$((all + n))
	[ $n -gt 3 ] || fail "publish had $n steps"
	for ((n = 1 + RANDOM % every; n < 20; n += every)); do
		publish 1 step "$id" a
		killed_in $n unpublish 1 "$id" a || break
		if [ $((n % 2)) = 1 ]; then
			publish 1 step "$id" a
			same "$(findmnt -rno TARGET | count "$t")" 1
		fi
		unpublish 1 "$id" a
		[ ! -e "$t" ]
	done
	all=$((all + n))
	[ $n -gt 2 ] || fail "unpublish had $n steps"
	for ((n = 1 + RANDOM % every; n < 60; n += every)); do
		stage 1 step "$id"
		killed_in $n unstage 1 step "$id" || break
		if [ $((n % 2)) = 1 ]; then stage 1 step "$id"; fi
		unstage 1 step "$id"
		same "$(findmnt -rno TARGET | count "$C/")" 0 "mounts"
	done
	all=$((all + n))
	[ $n -gt 5 ] || fail "unstage had $n steps"
	unstage 1 step "$id" # the last one was the node's part alone
	for ((n = 1 + RANDOM % every; n < 30; n += every)); do
		killed_in $n delete 1 "$id" || break
		delete 1 "$id"
		nothing_left
		id=$(create 1 step 700)
	done
	delete 1 "$id"
	nothing_left
	echo "# killed at one of $every of $((all + n - 6)) steps"
}

# Has $1 a child that has not executed its program, nor closed what is not its own?
has_a_new_child() {
	local child
	for child in $(cat "/proc/$1/task/"*/children); do
		[ ! "/proc/$child/exe" -ef "/proc/$1/exe" ] || return 0
	done
	return 1
}

test_a_new_driver_waits_for_the_child_of_a_killed_one() {
	local driver id pid
	cap 1
	volume child
	id=$(create 1 child 128)
	driver=$(cat "$C/host1/csi.pid")
	strace -f -qq -o /dev/null -p "$driver" -e trace=close_range \
		-e inject=close_range:delay_enter=2000000 &
	disown
	eventually 30 traced "$driver"
	(EXEC=exec; stage 1 child "$id") >"$TEST_DIR/killed" 2>&1 &
	pid=$!
	eventually 30 has_a_new_child "$driver"
	driver_signal 1 KILL
	kill $pid 2>/dev/null || true
	driver_start 1
	stage 1 child "$id"
	unstage 1 child "$id"
	delete 1 "$id"
	nothing_left
}

run_tests "$@"
