#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The CSI driver's Node service on three hosts: growing.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/csi_lib.sh"
need mkfs.xfs xfs_growfs

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
	stats 1 "$id" "$t" | grep -q "abnormal=1.*file systems not yet"
	fails 1 OUT_OF_RANGE expand 1 "$id" "$t" capacity_range.limit_bytes=$((gib - 1))
	expand 1 "$id" "$t" capacity_range.required_bytes=$gib "${CAP[@]}" |
		grep -q "capacity_bytes=$gib"
	eventually 5 eval "[ \$(df_mib $t) -gt $((before + 300)) ]"
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

test_a_broken_volume_is_put_right_and_grows() {
	local id t before
	cap 1
	volume mend
	id=$(create 1 mend 340 parameters.fsType=xfs)
	stage 1 mend "$id"
	publish 1 mend "$id" a
	before=$(df_mib "$(target 1 a)")
	on 3 trib volume resize mend --size 500MiB --quiet
	kill -KILL "$(union_pid mend)"
	expand 1 "$id" "$(target 1 a)" | grep -q "capacity_bytes=$((500 * MIB))"
	[ "$(df_mib "$(staging 1 mend)")" -gt $((before + 100)) ]
	unpublish 1 "$id" a
	unstage 1 mend "$id"
	delete 1 "$id"
	nothing_left
}

run_tests "$@"
