#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A raw pool on a disk that is pulled out, put back, and exchanged for another
# one: SCSI disks in memory that the kernel is told to forget and to look for.
. "$(dirname "$0")/lib.sh"
inside_vm -m 1024 -- "$@"
need qemu-io
modprobe sd_mod || skip_all "the guest's kernel has no SCSI disks"
modprobe scsi_debug add_host=2 per_host_store=1 dev_size_mb=96 ||
	skip_all "the guest's kernel has no scsi_debug"
R=$TEST_DIR/run
mkdir "$R"
: >"$R/conf"
call() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$R/control" "$@"; }

adapter() { echo /sys/bus/pseudo/drivers/scsi_debug/adapter"$1"; }
# disk ADAPTER: the name that its disk has now
disk() {
	set -- "$(adapter "$1")"/host*/target*/*/block/*
	[ -e "$1" ] && echo "${1##*/}"
}
no_disk() { ! disk "$1" >/dev/null; }
pull() {
	local name
	name=$(disk "$1")
	echo 1 >"/sys/block/$name/device/delete"
	eventually 30 no_disk "$1"
}
put() {
	local host
	host=$(echo "$(adapter "$1")"/host*)
	echo "- - -" >"/sys/class/scsi_host/${host##*/}/scan"
	eventually 30 disk "$1"
	eventually 30 test -b "/dev/$(disk "$1")"
}

state() {
	call ListPools | tr -d ' \n' | grep -o "\"name\":\"$1\"[^}]*" |
		grep -o '"state":"[^"]*"' | cut -d'"' -f4
}
is() { [ "$(state "$1")" = "$2" ]; }
# io EXTENT COMMAND...
io() {
	local uri="nbd+unix:///$1?socket=$R/nbd" args=() one
	shift
	for one; do args+=(-c "$one"); done
	qemu-io -f raw "${args[@]}" -c flush "$uri" >"$TEST_DIR/io" 2>&1 || return 1
	! grep -i 'fail\|error' "$TEST_DIR/io"
}

say_more() { tail -n 20 "$R/log" "$TEST_DIR/io"; }

test_a_disk_is_pulled_put_back_and_exchanged() {
	local first second e
	eventually 30 disk 0
	eventually 30 disk 1
	first=/dev/$(disk 0) second=/dev/$(disk 1)
	eventually 30 test -b "$first"
	eventually 30 test -b "$second"
	"$BUILD/bin/blockd" --config "$R/conf" --node-name one \
		--pool "first=$first" --pool "second=$second" --floor 1M \
		--state-dir "$R/state" --run-dir "$R/run" \
		--listen "unix:$R/nbd" --control "unix:$R/control" >"$R/log" 2>&1 &
	at_exit kill $!
	eventually 60 call GetNode
	for e in first second; do
		call CreateExtent pool=$e name=$e size=$((16 << 20)) >"$TEST_DIR/made"
		call SetExport name=$e epoch=0 initiators=unix >"$TEST_DIR/made"
	done
	io first "write -P 7 0 2M"
	io second "write -P 8 0 2M"

	pull 0
	eventually 60 is first missing
	! io first "read 0 4k" || false
	io second "read -P 8 0 2M" "write -P 8 4M 64k"
	put 0
	same "/dev/$(disk 0)" "$first" # nobody keeps the name of what is gone
	eventually 60 is first online
	io first "read -P 7 0 2M" "write -P 9 4M 1M" "read -P 9 4M 1M"

	pull 0
	pull 1
	eventually 60 is first missing
	eventually 60 is second missing
	put 1
	same "/dev/$(disk 1)" "$first"
	eventually 60 is first foreign
	! io first "read 0 4k" || false
	pull 1
	put 0
	put 1
	eventually 60 is first online
	eventually 60 is second online
	io first "read -P 7 0 2M" "read -P 9 4M 1M"
	io second "read -P 8 0 2M" "read -P 8 4M 64k"
	for e in first second; do
		call CheckPool name=$e >"$TEST_DIR/check"
		grep '"clean": *true' "$TEST_DIR/check"
	done
}

run_tests "$@"
