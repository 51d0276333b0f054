#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Strangers with copies of a volume's mounts in mount namespaces of their own: a
# monitoring pod with a host path of "/", a debug shell. No detach waits for
# them. tests/vm/volume_strangers.sh has them with device mapper.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
need nsenter unshare

# stranger [SCRIPT]: a process with copies of all mounts, after SCRIPT in it;
# $STRANGER is its pid
# Before it: a program that has ended and is not waited for, as any host has. It
# has no namespace any more.
stranger() {
	rm -f "$TEST_DIR/copied"
	bash -c '(exit 0) & exec sleep 600' &
	at_exit kill $!
	becomes $! sleep
	unshare --mount --propagation private bash -c \
		"set -e; ${1:-:}; : >'$TEST_DIR/copied'; exec sleep 600" &
	STRANGER=$!
	at_exit kill $STRANGER
	eventually 30 test -e "$TEST_DIR/copied"
	becomes $STRANGER sleep
}
stranger_ends() {
	kill $STRANGER
	wait $STRANGER || true
}
there() { nsenter -t $STRANGER -m -r "$@"; } # which may be in a chroot
no_branches() { echo "umount '$C/host1/run/volumes/$1'/branch-*"; }
# May a device be taken from its users?
takes_away() { [ -n "$(sed -n 's/^top=//p' "$C/host1/run/initiator/$1-0.attachment")" ]; }
no_devices() { ! compgen -G '/dev/mapper/trib-*'; }
# moves NAME: another node has it, and all that was written
moves() {
	attach 2 "$1"
	check "$C/host2/mnt/$1"
	same "$(cat "$C/host2/mnt/$1/late")" late
	v 2 detach "name=$1"
	v 2 delete "name=$1"
	nothing_left
	eventually 30 no_devices
}

test_a_copy_of_the_mount_does_not_hold_a_detach() {
	local m=$C/host1/mnt/seen
	volume seen
	v 1 create name=seen size=700MiB
	attach 1 seen
	fill "$m"
	stranger "$(no_branches seen)"
	there cat "$m/d/1" >/dev/null
	v 1 detach name=seen
	fails any "not connected" there stat "$m"
	attach 1 seen
	is_whole 1 seen
	check "$m"
	fails any "not connected" there stat "$m"
	echo late >"$m/late"
	v 1 detach name=seen
	moves seen
	fails any "not connected" there stat "$m"
}

test_copies_of_the_branches_do_not_hold_the_devices() {
	local m=$C/host1/mnt/all line
	volume all
	v 1 create name=all size=700MiB
	attach 1 all
	fill "$m"
	stranger
	there sh -c "echo late >'$m/late'"
	if takes_away all; then
		v 1 detach name=all
		fails any "" there sh -c "cd '$C/host1/run/volumes/all/branch-0/data' && echo x >x && sync x"
	else
		fails 1 "is mounted in another mount namespace, that of sleep ($STRANGER)" v 1 detach name=all
		# The line of the message helps.
		for i in 0 1; do
			line=$(v 1 detach name=all 2>&1 | sed -n 's/.*`\(nsenter [^`]*\)`.*/\1/p')
			[ -n "$line" ] || break
			$line
		done
		v 1 detach name=all
	fi
	fails any "not connected" there stat "$m"
	# Another node has the volume, though the stranger is still there.
	attach 2 all
	check "$C/host2/mnt/all"
	v 2 detach name=all
	stranger_ends
	moves all
}

test_open_files_of_a_stranger_do_not_hold_the_devices() {
	local m=$C/host1/mnt/open
	volume open
	v 1 create name=open size=128MiB
	attach 1 open
	fill "$m"
	echo late >"$m/late"
	stranger "exec 7<'$m/d/1' 8>>'$m/late'; $(no_branches open)"
	if takes_away open; then
		v 1 detach name=open
	else
		fails 1 "sleep ($STRANGER) has a copy of the volume's mount" v 1 detach name=open
		stranger_ends
		v 1 detach name=open
	fi
	moves open
}

# A person is asked first: `trib umount` may mean the wrong volume.
test_a_program_elsewhere_that_uses_the_volume_is_asked_about() {
	local m=$C/host1/mnt/asked use
	volume asked
	v 1 create name=asked size=128MiB
	attach 1 asked
	fill "$m"
	for use in "exec 7<'$m/d/1'" "cd '$m/d'"; do
		stranger "$(no_branches asked); $use"
		fails 1 "sleep ($STRANGER) uses it in another mount namespace" \
			v 1 detach name=asked asks_elsewhere=1
		is_whole 1 asked
		check "$m"
		stranger_ends
	done
	stranger "$(no_branches asked)"
	v 1 detach name=asked asks_elsewhere=1
	stranger_ends
	v 1 delete name=asked
	nothing_left
}

# The same mount at another place here is no stranger's.
test_another_place_of_the_mount_holds_a_detach() {
	local m=$C/host1/mnt/two
	volume two
	v 1 create name=two size=128MiB
	attach 1 two
	fill "$m"
	mkdir "$TEST_DIR/other"
	mount --bind "$m" "$TEST_DIR/other"
	at_exit umount "$TEST_DIR/other"
	fails 1 "is in use at '$TEST_DIR/other', too" v 1 detach name=two
	is_whole 1 two
	check "$TEST_DIR/other"
	umount "$TEST_DIR/other"
	v 1 detach name=two
	v 1 delete name=two
	nothing_left
}

# Whatever step a detach is killed at, the next one ends it.
test_killed_at_every_step_beside_a_stranger() {
	volume step
	v 1 create name=step size=700MiB
	prepare() {
		attach 1 step
		[ -f "$C/host1/mnt/step/sums" ] || fill "$C/host1/mnt/step"
		stranger "$(no_branches step)"
	}
	settle() {
		v 1 detach name=step
		stranger_ends
		attach 2 step
		check "$C/host2/mnt/step"
		v 2 detach name=step
	}
	kill_at_every 1 detach name=step
	stranger_ends
	v 1 delete name=step
	nothing_left
}

run_tests "$@"
