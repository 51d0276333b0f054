#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Programs that other people's hosts run beside ours, as Debian ships them:
# udevd, LVM, mdadm, multipathd. With the rules of deploy/udev none of them takes
# a device of ours for what was written into it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/open_iscsi_lib.sh"
fetch_packages host-programs -n udev libudev1 libkmod2 lvm2 liblvm2cmd2.03 \
	dmsetup dmeventd libdevmapper1.02.1 libdevmapper-event1.02.1 libaio1 \
	libedit2 libbsd0 mdadm multipath-tools kpartx liburcu8 libreadline8 \
	fdisk libfdisk1 libsmartcols1
fetch_open_iscsi
inside_vm -m 1024 -d pool:2G -- "$@"
. "$(dirname "$0")/../initiator_lib.sh"
need mkfs.ext4
unset DM_DISABLE_UDEV # here is a udevd
modprobe -a loop nbd dm-mod dm-multipath raid1
put_packages host-programs
start_open_iscsi
blockd_call=$BUILD/test/blockd/testkit/blockd_call
RULES=/etc/udev/rules.d/59-tributary.rules
SIZE=$((64 << 20))
mkdir -p "$TEST_DIR/pool" "$TEST_DIR/mnt" /etc/udev/rules.d /etc/lvm
mkfs.ext4 -q /dev/vda
mount /dev/vda "$TEST_DIR/pool"
at_exit umount "$TEST_DIR/pool"

start_host_programs() {
	/lib/systemd/systemd-udevd >"$TEST_DIR/udevd.log" 2>&1 &
	at_exit kill $!
	eventually 30 test -e /run/udev/control
	# The greediest setting: one path is enough.
	printf '%s\n' 'defaults {' 'find_multipaths no' '}' >/etc/multipath.conf
	multipathd -d >"$TEST_DIR/multipathd.log" 2>&1 &
	at_exit kill $!
	eventually 60 multipathd show daemon
}
rules_on() {
	install -m 644 "$TOP/deploy/udev/59-tributary.rules" $RULES
	read_rules
}
rules_off() {
	rm -f $RULES
	read_rules
}
read_rules() {
	udevadm control --reload
	multipathd reconfigure
	eventually 30 multipathd_is_idle
}
multipathd_is_idle() { multipathd show daemon | grep -q idle; }

control=unix:$TEST_DIR/run/blockd.sock
"$BUILD/bin/blockd" --node-name one --pool "p=$TEST_DIR/pool" --floor 1M \
	--listen tcp:127.0.0.1:10809 --listen-iscsi tcp:127.0.0.1:3260 \
	--control "$control" --state-dir "$TEST_DIR/server" \
	--run-dir "$TEST_DIR/run" >"$TEST_DIR/blockd.log" 2>&1 &
at_exit kill $!
eventually 60 "$blockd_call" "$control" GetNode
start_host_programs
say_more() {
	tail -n 20 "$TEST_DIR/multipathd.log"
	tail -n 8 "$TEST_DIR/blockd.log"
	lsblk
	dmsetup table
	cat /proc/mdstat
	udevadm info "$device"
}

# by TRANSPORT: the arguments that attach the extent x
by() {
	case $1 in
	loop) echo "transport=loop path=$TEST_DIR/pool/extents/x.data" ;;
	nbd | fuse) echo "transport=$1 address=127.0.0.1:10809 export=x@1" ;;
	iscsi) echo "transport=iscsi portal=127.0.0.1:3260 target=$target" ;;
	esac
}
# extent: a new one, x
extent() {
	at_exit "$blockd_call" "$control" DeleteExtent name=x
	"$blockd_call" "$control" CreateExtent pool=p name=x size=$SIZE >/dev/null
	target=$("$blockd_call" "$control" SetExport name=x epoch=1 block_size=4096 \
		initiators=127.0.0.1 | sed -n 's/.*"iscsi_name": *"\([^"]*\)".*/\1/p')
	at_exit "$blockd_call" "$control" RemoveExport name=x
}
# attach TRANSPORT: to $device, with all that the host then does to it
attach() {
	call attach id=a $(by "$1") size=$SIZE || fail "$(cat "$TEST_DIR/out")"
	device=$(value device)
	at_exit call detach id=a
	settle
}
settle() {
	udevadm settle --timeout 120
	eventually 30 multipathd_is_idle
}
detach() {
	call detach id=a || fail "detached late or never: $(cat "$TEST_DIR/out")"
	settle
}
# Devices that LVM, md or multipath made.
others() {
	local d
	for d in /sys/block/dm-* /sys/block/md*; do
		[ -e "$d" ] || continue
		case $(cat "$d/dm/uuid" 2>/dev/null) in
		TRIB-*) ;;
		*) basename "$d" ;;
		esac
	done
}
# What udev found out about the content of $device, or of what is below it.
found() {
	local d
	d=/sys/dev/block/$(stat -Lc '%Hr:%Lr' "$device")
	for d in "$d" "$d"/slaves/*; do
		[ ! -e "$d" ] || udevadm info --query=property "$(readlink -f "$d")" |
			grep '^ID_FS_TYPE=' || true
	done
}

# Contents, made on $image, a loop device of the guest that is not ours.
a_volume_group() {
	pvcreate -q -y "$image"
	vgcreate -q guest "$image"
	lvcreate -q -y -n root -l 100%FREE guest
	# Else udev activates the group once more, for what was written to it.
	udevadm settle --timeout 120
	vgchange -q -an guest
}
a_raid_member() {
	mdadm --quiet --create /dev/md9 --run --force --level=1 --metadata=1.2 \
		--raid-devices=1 "$image"
	mdadm --quiet --stop /dev/md9
}
# A partition that is a physical volume.
a_partition() {
	local disk=$image
	printf '%s\n' 'label: gpt' '256,' | sfdisk -q "$disk"
	image=$(losetup -f --show -b 4096 -o $((256 * 4096)) --sizelimit $((32 << 20)) "$disk")
	a_volume_group
	losetup -d "$image"
	image=$disk
}
a_file_system() { mkfs.ext4 -q -F "$image"; }

# written CONTENT: an extent that has it
written() {
	rules_on
	extent
	# The name is one that udev is not to look at, either.
	mkdir -p "$TEST_DIR/extents"
	truncate -s 0 "$TEST_DIR/extents/x.data"
	truncate -s $SIZE "$TEST_DIR/extents/x.data"
	image=$(losetup -f --show -b 4096 "$TEST_DIR/extents/x.data")
	at_exit losetup -d "$image"
	"$1"
	settle
	losetup -d "$image"
	settle
	dd if="$TEST_DIR/extents/x.data" of="$TEST_DIR/pool/extents/x.data" \
		bs=1M conv=notrunc,sparse status=none
}
taken_by_others() { [ -n "$(others)" ]; }
found_out() { [ -n "$(found)" ]; }
give_back() {
	settle
	vgchange -q -an guest
	multipathd del path "$(basename "$1")" || true
	multipath -F
	settle
}

# What the rules are for; and these tests can fail. A disk by iSCSI is taken
# before or after our attach is done: either is trouble.
test_without_the_rules_the_host_takes_devices() {
	local disk
	written a_volume_group
	rules_off
	attach loop
	eventually 30 found_out
	vgchange -q -an guest
	detach
	call attach id=a $(by iscsi) size=$SIZE || true
	eventually 30 taken_by_others
	disk=$(ls -d /sys/block/sd*)
	give_back "$disk"
	call detach id=a
}

# nobody_takes CONTENT TRANSPORT...
nobody_takes() {
	local transport
	written "$1"
	for transport in "${@:2}"; do
		attach "$transport"
		cmp "$device" "$TEST_DIR/extents/x.data"
		same "$(others)" ""
		same "$(found)" ""
		detach
	done
}
test_a_volume_group_is_the_guests() { nobody_takes a_volume_group loop nbd fuse iscsi; }
test_a_raid_member_is_the_guests() { nobody_takes a_raid_member nbd ${LONG_TESTS:+loop}; }
test_a_partition_is_the_guests() { nobody_takes a_partition loop ${LONG_TESTS:+nbd iscsi}; }

# The most common report of drivers that use iSCSI: mount says "busy".
test_multipathd_leaves_an_iscsi_disk() {
	written a_file_system
	attach iscsi
	same "$(others)" ""
	mount "$device" "$TEST_DIR/mnt"
	umount "$TEST_DIR/mnt"
	detach
}

run_tests "$@"
