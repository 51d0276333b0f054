#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Raw pools: what they are made on and what not, served to real clients,
# killed under a writer, and a volume over three of them.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup mkfs.ext4 qemu-io nbdinfo nbdcopy fio cmp

C=$TEST_DIR/c
at_exit cluster_stop
cluster_start "$C" 3 512MiB || { cluster_stop; exit 1; }

# medium HOST NAME SIZE: a preallocated file
medium() { fallocate -l "$3" "$C/host$1/$2" && echo "$C/host$1/$2"; }
pool_gone() { on "$1" trib pool delete "$2" --quiet; }
for i in 1 2 3; do
	on $i trib pool create raw "$(medium $i raw 900MiB)" --quiet || exit 1
done

test_a_pool_on_a_loop_device_is_whole_after_a_restart() {
	local file dev
	file=$(medium 1 disk 300MiB)
	dev=$(losetup -f --show "$file")
	at_exit losetup -d "$dev"
	on 1 trib pool create disk "$dev" --raw --quiet
	at_exit pool_gone 1 disk
	on 1 trib extent create one --pool disk --size 64MiB --label a=b --quiet >/dev/null
	at_exit on 1 trib extent delete one
	on 1 trib extent show one --json >"$TEST_DIR/before"
	blockd_signal 1 KILL
	blockd_start 1
	on 1 trib extent show one --json >"$TEST_DIR/after"
	cmp "$TEST_DIR/before" "$TEST_DIR/after"
	on 1 trib pool list host1 | grep -q 'host1/disk *raw *online *1 '
	# Repeating it is no error, another name for it is.
	on 1 trib pool create disk "$dev" --quiet
	mkdir "$C/host1/dir"
	fails any "'$C/host1/dir' is a directory: a raw pool" \
		on 1 trib pool create other "$C/host1/dir" --raw
	rmdir "$C/host1/dir"
	fails any "belongs to pool 'disk'" on 1 trib pool create other "$dev"
	fails any "in use" mkfs.ext4 -q -F "$dev"
}

# disk NAME: a loop device, with a path below $C/host1/by-id as its medium
disk() { ln -s "$(losetup -f --show "$(medium 1 "of-$1" 200MiB)")" "$C/host1/by-id/$1"; }
disks_gone() {
	local link
	for link in "$C"/host1/by-id/*; do losetup -d "$(readlink "$link")"; done
	sed -i '/^devices =/d' "$C/host1/blockd.conf"
	rm -rf "$C/host1/by-id" "$C"/host1/of-*
}
pools() { on 1 trib pool list host1 | awk '/^host1\// {print $1}' | sort | tr '\n' ' '; }
# The last of the disks is the one in use: then all were looked at, for the Nth time.
looked_at() { [ "$(grep -c "used' is left alone: .* is in use" "$C/host1/blockd.log")" = "$1" ]; }
restart() { # N
	blockd_signal 1 TERM
	blockd_start 1
	eventually 120 looked_at "$1"
}
test_blank_disks_become_pools_by_a_rule_and_no_others() {
	local name text before
	mkdir "$C/host1/by-id"
	at_exit disks_gone
	for name in Disk_1 disk.2 ext4 partitions foreign tail luks used other; do disk $name; done
	mkfs.ext4 -q -F "$C/host1/by-id/ext4"
	# A table with one Linux partition of 1 MiB to 101 MiB.
	printf '\0\0\0\0\203\0\0\0\0\010\0\0\0\040\003\0' |
		dd of="$C/host1/by-id/partitions" bs=1 seek=446 conv=nocreat status=none
	printf '\125\252' |
		dd of="$C/host1/by-id/partitions" bs=1 seek=510 conv=nocreat,fsync status=none
	printf 'LUKS\272\276\000\001' | dd of="$C/host1/by-id/luks" conv=nocreat,fsync status=none
	printf x | dd of="$C/host1/by-id/foreign" bs=1 seek=70000 conv=nocreat,fsync status=none
	printf x | dd of="$C/host1/by-id/tail" bs=1 seek=$((199 << 20)) conv=nocreat,fsync status=none
	sleep 300 <"$C/host1/by-id/used" &
	at_exit kill $!
	on 1 trib pool create mine "$(readlink "$C/host1/by-id/other")" --raw --quiet
	before=$(cat "$C"/host1/of-{ext4,partitions,luks,foreign,tail,used} | sha256sum)
	echo "devices = $C/host1/by-id/*" >>"$C/host1/blockd.conf"
	restart 1
	same "$(pools)" "host1/disk-1 host1/disk-2 host1/main host1/mine host1/raw "
	for text in "ext4' holds ext4" "partitions' holds a partition table" "luks' holds crypto_LUKS" \
		"foreign' is not blank: there are data at byte 69632" "tail' is not blank" "other' holds pool 'mine'"; do
		grep -q "is left alone: .*$text" "$C/host1/blockd.log" || fail "not said: $text"
	done
	on 1 trib extent create one --pool disk-1 --size 64MiB --quiet >/dev/null
	on 1 trib extent show one --json >"$TEST_DIR/before"
	restart 2
	on 1 trib extent show one --json >"$TEST_DIR/after"
	cmp "$TEST_DIR/before" "$TEST_DIR/after"
	same "$(pools)" "host1/disk-1 host1/disk-2 host1/main host1/mine host1/raw "
	same "$(cat "$C"/host1/of-{ext4,partitions,luks,foreign,tail,used} | sha256sum)" "$before"
	# A pool that is deleted leaves its disk not blank: it is not made again.
	on 1 trib extent delete one
	for name in disk-1 disk-2 mine; do on 1 trib pool delete $name --quiet; done
	fails any "write an absolute path" blockd --devices 'sd*' --check-config
}

test_what_holds_something_is_refused_and_what_is_in_use_always() {
	local file dev
	file=$(medium 1 held 128MiB)
	mkfs.ext4 -q -F "$file"
	fails any "holds ext4" on 1 trib pool create held "$file"
	dev=$(losetup -f --show "$file")
	at_exit losetup -d "$dev"
	fails any "in use by $dev" on 1 trib pool create held "$file" --force
	mount "$dev" "$(mkdir -p "$C/m" && echo "$C/m")"
	at_exit umount "$C/m"
	fails any "in use: mounted at" on 1 trib pool create held "$dev" --force
	unmount "$C/m"
	fails any "holds ext4" on 1 trib pool create held "$dev"
	# A process that has the device open without claiming it, be it for reading.
	sleep 300 <"$dev" &
	at_exit kill $!
	becomes $! sleep
	fails any "in use: open in sleep ($!)" on 1 trib pool create held "$dev" --force
	kill $!
	wait $! || true
	on 1 trib pool create held "$dev" --force --quiet
	pool_gone 1 held
	# A pool that was given up is an empty medium again.
	on 1 trib pool create again "$dev" --quiet
	pool_gone 1 again
	losetup -d "$dev"
	sleep 300 <"$file" &
	at_exit kill $!
	becomes $! sleep
	fails any "in use: open in sleep ($!)" on 1 trib pool create again "$file"
	kill $!
	wait $! || true
	on 1 trib pool create again "$file" --quiet
	pool_gone 1 again
	fails any "at least" on 1 trib pool create small "$(medium 1 small 8MiB)"
	fails any "no directory, block device or file" \
		on 1 trib pool create null /dev/null
}

test_a_cluster_is_as_large_as_was_asked_for() {
	local file
	file=$(medium 1 fine 128MiB)
	fails any "clusters of 96.00 KiB are not possible" \
		on 1 trib pool create fine "$file" --cluster-size 96KiB
	fails any "a power of two from 64.00 KiB to 64.00 MiB" \
		on 1 trib pool create fine "$file" --cluster-size 128M
	mkdir "$C/host1/coarse"
	fails any "only a pool on a device or file has clusters" \
		on 1 trib pool create coarse "$C/host1/coarse" --cluster-size 1M
	on 1 trib pool create fine "$file" --cluster-size 64K --quiet
	at_exit pool_gone 1 fine
	on 1 trib pool create fine "$file" --cluster-size 64KiB --quiet
	fails any "exists with clusters of 65536 bytes, not 1048576" \
		on 1 trib pool create fine "$file" --cluster-size 1MiB
	on 1 trib pool list host1 | grep -q 'host1/fine .* 64.00 KiB  */'
	on 1 trib extent create thin --pool fine --size 32MiB --quiet >/dev/null
	at_exit on 1 trib extent delete thin
	at_exit on 1 trib extent unexport thin
	on 3 qemu-io -f raw -c "write 4k 4k" -c "write 20M 4k" \
		"$(uri 1 thin)" >/dev/null
	# After a restart, too: two clusters of what is promised.
	blockd_signal 1 TERM
	blockd_start 1
	on 1 trib extent show thin --json >"$TEST_DIR/thin"
	jq -e '.reserved == 33554432 and .allocated == 131072 and
		.reclaimable == 131072 and .shared == 0' "$TEST_DIR/thin"
	on 1 trib extent show thin |
		grep 'space  *32.00 MiB reserved, 0 B shared, 128.00 KiB recl'
	on 1 trib pool list host1 --json |
		jq -e '.[] | select(.name == "fine") | .clusterSize == 65536'
}

# uri HOST EXTENT: served to host 3
uri() { on "$1" trib extent export "$2" --allow 10.77.0.3 | grep -o 'nbd://[^ ]*'; }

test_real_clients_read_what_they_wrote() {
	local u
	on 1 trib extent create wire --pool raw --size 200MiB --quiet >/dev/null
	at_exit on 1 trib extent delete wire
	at_exit on 1 trib extent unexport wire
	u=$(uri 1 wire)
	on 3 qemu-io -f raw -c "write -P 7 1000k 10M" -c "write -zu 3M 3M" \
		-c "discard 8M 1M" -c "read -P 7 1000k 2072k" \
		-c "read -P 0 3M 3M" -c "read -P 7 6M 2M" -c "read -P 0 8M 1M" \
		-c "read -P 0 0 1000k" -c flush "$u" >"$TEST_DIR/io"
	! grep -i 'fail\|error' "$TEST_DIR/io" || false
	on 3 nbdinfo --map "$u" | grep -q "8388608 *1048576 *3 *hole,zero"
	on 3 fio --name=v --ioengine=nbd "--uri=$u" --rw=randwrite --bs=8k \
		--iodepth=32 --size=60M --verify=crc32c --verify_fatal=1 \
		--verify_state_save=0 \
		>"$TEST_DIR/fio" || { cat "$TEST_DIR/fio"; false; }
	on 3 nbdcopy "$u" "$TEST_DIR/copy"
	blockd_signal 1 TERM
	blockd_start 1
	on 3 nbdcopy "$u" "$TEST_DIR/again"
	cmp "$TEST_DIR/copy" "$TEST_DIR/again"
	rm "$TEST_DIR/copy" "$TEST_DIR/again"
}

# What a client was told is durable is there after kill -9.
test_acknowledged_writes_survive_sigkill() {
	local u i n
	on 1 trib extent create kill --pool raw --size 128MiB --quiet >/dev/null
	at_exit on 1 trib extent delete kill
	at_exit on 1 trib extent unexport kill
	u=$(uri 1 kill)
	for i in 1 2 3; do
		# One block of $i after the other, each made durable.
		(
			n=0
			while [ $n -lt 2000 ]; do
				echo "write -P $i $((n * 20480)) 4096"
				echo flush
				echo "write -P 255 $((n * 20480 + 8192)) 4096"
				n=$((n + 1))
			done
		) | on 3 qemu-io -f raw "$u" >"$TEST_DIR/acks" 2>&1 &
		eventually 30 grep -q "offset $((40 * i * 20480))\$" "$TEST_DIR/acks"
		blockd_signal 1 KILL
		wait $! || true
		blockd_start 1
		# Of the last one the flush may not have been answered.
		n=$(grep -c 'wrote 4096' "$TEST_DIR/acks")
		n=$(((n - 1) / 2))
		[ $n -ge 40 ]
		for ((k = 0; k < n; k++)); do
			echo "read -P $i $((k * 20480)) 4096"
		done | on 3 qemu-io -f raw -r "$u" >"$TEST_DIR/reads" 2>&1
		! grep -i 'fail' "$TEST_DIR/reads" || false
		same "$(grep -c 'read 4096' "$TEST_DIR/reads")" $n "blocks read"
	done
}

test_a_full_pool_is_an_error_and_space_comes_back() {
	local u free
	free=$(on 2 trib pool list host2 --json | tr -d ' \n' |
		grep -o '"name":"raw"[^}]*' | grep -o '"available":[0-9]*' | cut -d: -f2)
	fails any "has room for" on 2 trib extent create big --pool raw --size 890MiB
	on 2 trib extent create big --pool raw --size "$((free >> 20))MiB" --quiet >/dev/null
	at_exit on 2 trib extent delete big
	fails any "has room for" on 2 trib extent create more --pool raw --size 1MiB
	u=$(uri 2 big)
	# The promised space is there, to the last byte.
	on 3 qemu-io -f raw -c "write -P 3 0 $((free >> 20))M" "$u" | grep -q ^wrote
	on 2 trib extent unexport big --quiet
	on 2 trib extent delete big --quiet
	on 2 trib extent create big --pool raw --size "$((free >> 20))MiB" --quiet >/dev/null
}

test_a_volume_lies_on_raw_pools_of_two_hosts_and_its_own() {
	local m=$C/vm i
	mkdir -p "$m"
	on 1 trib volume create vol --fs xfs --size 2000MiB --quiet
	at_exit on 1 trib volume delete vol
	at_exit on 1 trib umount --force vol
	same "$(on 1 trib volume show vol | awk '$2 ~ /\/raw$/' | wc -l)" 3 splits
	on 1 trib mount vol "$m" --quiet
	for i in 1 2 3 4 5 6; do
		dd if=/dev/urandom "of=$m/$i" bs=1M count=40 status=none
	done
	(cd "$m" && md5sum ?) >"$TEST_DIR/sums"
	on 1 trib umount vol --quiet
	for i in 1 2 3; do blockd_signal $i KILL; done
	for i in 1 2 3; do blockd_start $i; done
	on 2 trib mount vol "$m" --quiet
	(cd "$m" && md5sum --quiet -c "$TEST_DIR/sums")
	on 2 trib volume resize vol --size 2200MiB --quiet
	[ "$(df -BM --output=size "$m" | tail -n 1 | tr -dc 0-9)" -gt 2000 ]
	(cd "$m" && md5sum --quiet -c "$TEST_DIR/sums")
	on 2 trib umount vol --quiet
	on 2 trib volume delete vol --quiet
	same "$(on 1 trib pool list | awk '$1 ~ /raw/ {s += $4} END {print s}')" 0
}

run_tests "$@"
