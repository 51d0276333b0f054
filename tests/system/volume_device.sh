#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# One file system on one device of extents on three hosts, linear and striped:
# mounted, grown, checked, read by many, cut off and killed at each step.
# shellcheck disable=SC2317
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
need xfs_growfs resize2fs e2fsck

df_mib() { df -BM --output=size "$1" | tail -n 1 | tr -dc 0-9; }
# The record and this machine say the same of a device mounted on HOST.
is_shown() { # HOST NAME FS
	local out at="$C/host$1/mnt/$2"
	out=$(status "$2" "$1")
	grep -q 'phase=Ready .*here=1 mounted=1' <<<"$out" || fail "$out"
	! grep -q condition= <<<"$out" || fail "$out"
	same "$(grep -c 'state=ok record=Ready' <<<"$out")" "$(count split= <<<"$out")" "$out"
	same "$(findmnt -rno FSTYPE,SOURCE,FSROOT "$at")" \
		"$3 $C/host$1/run/volumes/$2/device[/data] /data"
	same "$(findmnt -rno TARGET | count "$C/host$1/run/volumes/$2/")" 1 "branches"
}

# Where there is device mapper, an extent has a device of its own. Its program is
# killed: only its blocks fail, it is named, and the mount lives on.
a_part_is_lost_alone() { # VOLUME
	local at=$C/host1/mnt/$1 out
	sync -f "$at"
	end_at_once $(pgrep -f "trib-nbd .*$C/host1/.*[.]joined/1[.]")
	out=$(status "$1" 1)
	same "$(grep -c 'state=broken' <<<"$out")" 1 "$out"
	grep -q 'split=1 .*state=broken.*part 1 of' <<<"$out" || fail "$out"
	attach 1 "$1"
	is_shown 1 "$1" xfs
	check "$at"
}

test_one_file_system_larger_than_any_node() {
	local at=$C/host1/mnt/wide
	volume wide
	fails 1 "300.00 MiB to" v 1 create name=wide size=128MiB layout=linear fs=xfs
	v 1 create name=wide size=1GiB layout=linear fs=xfs
	same "$(status wide | count split=)" 2
	fails 1 "no file system yet" v 1 attach name=wide
	nothing_is_attached wide
	attach 1 wide options=noatime,noexec
	is_shown 1 wide xfs
	attach 1 wide options=noatime,noexec
	findmnt -rno OPTIONS "$at" | tr , '\n' | grep -c 'noatime\|noexec' | grep -qx 2
	same "$(ls -A "$at")" ""
	[ "$(df_mib "$at")" -gt 900 ]
	# One file that no host could hold.
	fallocate -l 900M "$at/large"
	fill "$at"
	fails 1 "attached here at" v 1 attach name=wide
	fails 1 "EBUSY" attach 2 wide
	exec 7>"$at/open"
	fails 1 "EBUSY" v 1 detach name=wide
	exec 7>&-
	is_shown 1 wide xfs
	! pgrep -f "trib-nbd .*[.]joined/" >/dev/null || a_part_is_lost_alone wide
	# A device grows while it is used, then its file system.
	same "$(v 1 resize name=wide size=1536MiB)" "capacity=1610612736 behind=0"
	same "$(status wide | count split=)" 3
	[ "$(df_mib "$at")" -gt 1400 ]
	fallocate -l 400M "$at/more"
	on 1 trib volume trim wide >/dev/null
	on 1 trib volume show wide | grep -q "xfs on a block device"
	# Cut off by another host: nothing of it is written or read any more.
	attach 2 wide force=1
	is_shown 2 wide xfs
	check "$C/host2/mnt/wide"
	fails any "" dd if=/dev/zero of="$at/large" bs=1M count=1 conv=notrunc,fsync
	v 1 detach name=wide
	[ ! -e "$at/large" ]
	v 2 detach name=wide
	on 2 trib volume check wide >/dev/null
	v 1 delete name=wide
	nothing_left
}
nothing_is_attached() {
	same "$(find "$C"/host?/run -path "*/$1*" -name '*.attachment')" ""
}

# grow HOST NAME MIB: here, under its users where this kernel lets it
grow() {
	local can=true
	[ "$FS" = xfs ] || ext4_grows_mounted || can=false
	$can || v "$1" detach "name=$2"
	v "$1" resize "name=$2" "size=$3MiB"
	$can || attach "$1" "$2"
	is_shown "$1" "$2" "$FS"
	same "$(v "$1" resize "name=$2" "size=$3MiB")" "capacity=$(($3 << 20)) behind=0"
	[ "$(df_mib "$C/host$1/mnt/$2")" -gt $(($3 * 75 / 100)) ]
}

one_over_a_stripe() {
	local at=$C/host1/mnt/raid
	FS=$1
	volume raid
	v 1 create name=raid size=300MiB layout=stripe width=3 unit=64KiB "fs=$1"
	attach 1 raid
	is_shown 1 raid "$1"
	fill "$at"
	# Behind the first set comes another.
	grow 1 raid 600
	same "$(status raid | count split=)" 6
	head -c 400M /dev/zero >"$at/zeroes"
	check "$at"
	v 1 detach name=raid
	# Grown while nobody has it, the file system follows at the next mount.
	same "$(v 1 resize name=raid size=900MiB)" "capacity=943718400 behind=1"
	attach 3 raid
	is_shown 3 raid "$1"
	[ "$(df_mib "$C/host3/mnt/raid")" -gt 780 ]
	check "$C/host3/mnt/raid"
	# By a call on another host, too.
	same "$(v 2 resize name=raid size=1200MiB)" "capacity=1258291200 behind=1"
	status raid 3 | grep -q FileSystemBehind
	grow 3 raid 1200
	check "$C/host3/mnt/raid"
	v 3 detach name=raid
	on 2 trib volume check raid >/dev/null
	v 1 delete name=raid
	nothing_left
}
test_one_ext4_over_a_stripe() { one_over_a_stripe ext4; }
test_one_xfs_over_a_stripe() { one_over_a_stripe xfs; }

# In place, within one extent: on its own host by its file, and from elsewhere.
test_a_device_of_one_extent_has_a_file_system_too() {
	local host
	for FS in ext4 xfs; do
		volume one$FS
		v 1 create name=one$FS size=320MiB layout=linear "fs=$FS" node=host2
		for host in 2 1; do
			attach $host one$FS
			is_shown $host one$FS $FS
			[ -e "$C/host$host/mnt/one$FS/d" ] || fill "$C/host$host/mnt/one$FS"
			grow $host one$FS $((480 - 40 * host))
			check "$C/host$host/mnt/one$FS"
			v $host detach name=one$FS
		done
		v 1 delete name=one$FS
	done
	nothing_left
}

test_several_hosts_read_one_file_system() {
	local i
	volume many
	v 1 create name=many size=1GiB layout=linear fs=ext4
	for i in 1 2 3; do v 1 publish name=many "to=host$i" read_only=1 shared=1; done
	# The first of them makes the file system, and nothing may write to it.
	for i in 1 2 3; do
		attach $i many
		is_shown $i many ext4
		fails any "" touch "$C/host$i/mnt/many/x"
	done
	for i in 1 2 3; do v $i detach name=many; v 1 unpublish name=many to=host$i; done
	attach 1 many
	fill "$C/host1/mnt/many"
	v 1 detach name=many
	for i in 3 2; do v 1 publish name=many "to=host$i" read_only=1 shared=1; done
	for i in 3 2; do
		attach $i many
		check "$C/host$i/mnt/many"
	done
	for i in 3 2; do v $i detach name=many; v 1 unpublish name=many to=host$i; done
	v 1 delete name=many
	nothing_left
}

# What a person does who is told so: repairs the whole device.
test_a_damaged_file_system_is_named_and_its_device_is_given_to_repair() {
	local device
	volume hurt
	v 1 create name=hurt size=256MiB layout=stripe width=2 fs=ext4
	attach 1 hurt
	fill "$C/host1/mnt/hurt"
	v 1 detach name=hurt
	# Inodes that no name leads to: e2fsck asks about these.
	device=$(v 1 attach name=hurt >&2; v 1 device name=hurt)
	debugfs -w -R "clri /data/d" "$device" 2>/dev/null
	v 1 detach name=hurt
	fails 1 "needs a person: run \`e2fsck -f \"\$(trib mount hurt)\"\`" attach 1 hurt
	fails 1 "not all is sound" on 1 trib volume check hurt
	device=$(on 1 trib mount hurt)
	fails 1 "attached here as a device" attach 1 hurt
	e2fsck -fy "$device" >/dev/null || [ $? = 1 ]
	on 1 trib umount hurt
	attach 1 hurt
	is_shown 1 hurt ext4
	v 1 detach name=hurt
	v 1 delete name=hurt
	nothing_left
}

test_its_record_is_made_anew_from_its_extents() {
	volume lost
	v 1 create name=lost size=256MiB layout=stripe width=2 unit=64KiB fs=ext4
	attach 1 lost
	fill "$C/host1/mnt/lost"
	v 1 detach name=lost
	sqlite3 "$C/records.db" "DELETE FROM objects WHERE name = 'lost'"
	v 1 recover name=lost
	attach 2 lost
	is_shown 2 lost ext4
	check "$C/host2/mnt/lost"
	v 2 detach name=lost
	v 1 delete name=lost
	nothing_left
}

test_killed_at_every_step_it_is_finished_or_undone() {
	volume kd
	prepare() {
		v 1 create name=kd size=128MiB layout=stripe width=2 fs=ext4 >/dev/null 2>&1
		! $attached || attach 1 kd >/dev/null 2>&1
	}
	settle() {
		if [ $(($1 % 2)) = 0 ]; then
			attach 1 kd >/dev/null 2>&1
			is_shown 1 kd ext4
			fill "$C/host1/mnt/kd"
			v 1 detach name=kd >/dev/null 2>&1
			attach 2 kd >/dev/null 2>&1
			check "$C/host2/mnt/kd"
			v 2 detach name=kd >/dev/null 2>&1
		fi
		v 1 detach name=kd >/dev/null 2>&1
		v 1 delete name=kd >/dev/null 2>&1
		nothing_left
	}
	attached=false
	kill_at_every 1 attach name=kd "path=$(mnt 1 kd)"
	is_shown 1 kd ext4
	settle 1
	attached=true
	kill_at_every 1 detach name=kd
	v 1 delete name=kd
	nothing_left
}

test_killed_while_it_grows_it_is_finished_by_the_next_call() {
	volume kg
	prepare() {
		v 1 create name=kg size=320MiB layout=stripe width=2 fs=xfs >/dev/null 2>&1
		attach 1 kg >/dev/null 2>&1
		fill "$C/host1/mnt/kg"
	}
	settle() {
		case $(($1 % 3)) in
		0) v 1 resize name=kg size=640MiB >/dev/null 2>&1 ;;
		1)
			v 1 detach name=kg >/dev/null 2>&1
			v 2 resize name=kg size=640MiB >/dev/null 2>&1
			attach 1 kg >/dev/null 2>&1
			;;
		2)
			v 1 resize name=kg size=640MiB >/dev/null 2>&1 || true
			attach 1 kg >/dev/null 2>&1
			;;
		esac
		is_shown 1 kg xfs
		[ "$(df_mib "$C/host1/mnt/kg")" -gt 540 ]
		check "$C/host1/mnt/kg"
		v 1 detach name=kg >/dev/null 2>&1
		v 1 delete name=kg >/dev/null 2>&1
		nothing_left
	}
	kill_at_every 1 resize name=kg size=640MiB
	settle 0
}

run_tests "$@"
