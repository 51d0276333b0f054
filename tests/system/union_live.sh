#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union that is changed while it is used, by its control socket: branches are
# added, it tells its status, and another server follows.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need setpriv fio python3 bc

new_branch() { # NAME SIZE
	mkdir -p "$D/$1"
	mount -t tmpfs -o "size=$2" none "$D/$1"
	at_exit umount -l "$D/$1"
}
numbers() { (cd "$M" && find . -printf '%i %p\n' | sort -k 2); }
size_of() { df -B1 --output=size "$1" | tail -n 1; }

test_status_tells_branches_policy_and_counters() {
	small_branches 10M 20M
	union "policy=epmfs,minfreespace=1M,control=$D/ctl" "$D/a=local:$D/b"
	same "$(stat -c '%a %F' "$D/ctl")" "600 socket"
	touch "$M/f"
	ctl status >"$D/status"
	jq -e --arg d "$D" '.mountpoint == $d + "/mnt" and .policy == "epmfs" and
		.min_free == 1048576 and .counters.creates == 1 and
		(.branches | map(.path) == [$d + "/a", $d + "/b"]) and
		(.branches | map(.id) == [0, 1]) and
		(.branches | map(.local) == [true, false]) and
		(.branches | map(.ro) == [false, false]) and
		.branches[1].size == 20971520 and
		.branches[1].available <= 20971520' "$D/status"
	stop
	[ ! -e "$D/ctl" ]
	fails 1 "No such file" ctl status
}

setting() { getfattr --absolute-names --only-values -n "user.union.$1" "$M/.union"; }

test_policies_are_set_by_the_control_socket() {
	small_branches 10M 20M
	union "policy=ff,survive=yes,control=$D/ctl" "$D/a:$D/b"
	touch "$M/one"
	ctl status | jq -e '.policies == {create: "ff", search: "ff", action: "epall"}'
	same "$(ctl policy category.create=mfs minfreespace=1M)" \
		'{"policies":{"create":"mfs","search":"ff","action":"epall"},"min_free":1048576}'
	touch "$M/two"
	[ -e "$D/a/one" ] && [ -e "$D/b/two" ] || fail "the policy does not count"
	# As many as one likes, the last of them counts.
	trib union policy "$M" policy=ff func.mkdir=mfs category.search=newest | grep -q "'func.mkdir=mfs' is set"
	same "$(setting func.create) $(setting func.mkdir) $(setting category.create) $(setting func.open)" \
		"ff mfs mixed newest"
	ctl status | jq -e '.policies == {create: "mixed", search: "newest", action: "epall"} and .min_free == 1048576'
	trib union status "$M" | grep -q "policies create mixed, search newest, action epall"
	# All or none.
	fails 1 "the policies are" trib union policy "$M" policy=mfs func.mkdir=best
	fails 1 "no function" ctl policy policy=mfs func.fly=ff
	fails 1 "'branches' cannot be set" ctl policy policy=mfs branches=/x
	fails 1 "not a size" ctl policy policy=mfs minfreespace=much
	fails 1 "NAME=VALUE" ctl policy policy=mfs ff
	fails 1 "NAME=VALUE" trib union policy "$M" ff
	fails any "no setting" trib union policy "$M" "policy=mfs "
	fails 2 "control SOCKET" ctl policy
	same "$(setting func.create) $(setting func.mkdir) $(setting minfreespace)" "ff mfs 1048576"
	# The next server has them, too.
	trib union upgrade "$M" | grep -q "is served by"
	same "$(setting func.create) $(setting func.mkdir) $(setting func.open)" "ff mfs newest"
	trib union policy "$M/." policy=mfs --json | jq -e '.policies.create == "mfs"'
}

test_a_branch_is_added_while_the_union_is_in_use() {
	small_branches 64M 64M
	new_branch c 256M
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
	local before pids=() i
	mkdir "$M/d"
	before=$(size_of "$M")
	for i in 1 2 3; do
		random_io "$M/d/io$i" "$i" 20000 >"$D/io$i.out" 2>&1 &
		pids+=($!)
	done
	fio --name=v --directory="$M" --rw=randwrite --bs=4k --size=8M \
		--time_based --runtime=3 --verify=crc32c --verify_state_save=0 \
		--minimal >"$D/fio.out" 2>&1 &
	pids+=($!)
	(for i in $(seq 300); do mkdir -p "$M/m$i/x" && echo "$i" >"$M/m$i/x/f" &&
		mv "$M/m$i" "$M/n$i" && rm "$M/n$i/x/f" && ls "$M" || exit 1; done) >/dev/null &
	pids+=($!)
	sleep 0.3
	same "$(ctl add "$D/c")" '{"id":2}'
	same "$(size_of "$M")" $((before + 256 * 1048576))
	same "$(stat_of branches)" 3
	for i in 1 2 3 4 5 6; do echo "$i" >"$M/d/after$i"; done
	same "$(ls "$D/c/d" | grep -c after)" 6
	for i in "${pids[@]}"; do wait "$i"; done
	same "$(find "$M"/n* -type d | wc -l)" 600
	rm -r "$M"/n*
	same "$(find "$D"/[abc] -path '*/n*' | wc -l)" 0
	stop
	same "$(grep -c "branch 2 is" "$D/log")" 1
	same "$(grep "error:" "$D/log" || true)" ""
}

added_names() { # OPTIONS
	small_branches 20M 20M
	new_branch c 100M
	mkdir -p "$D"/a/{seen,deep/er} "$D/b/deep/er/est" "$D"/c/{seen,deep/er/est,own/dir,hidden}
	echo a >"$D/a/file"
	echo a >"$D/a/hidden"
	echo c >"$D/c/file"
	local name
	for name in new seen/new deep/er/est/new own/dir/new hidden/new; do
		echo c >"$D/c/$name"
	done
	union "$1,control=$D/ctl" "$D/a:$D/b"
	echo x >"$M/made"
	# The kernel learns that they are absent, and what the listings are.
	for name in new seen/new deep/er/est/new own own/dir/new; do
		[ ! -e "$M/$name" ]
	done
	same "$(cd "$M" && find . | sort | paste -sd ' ')" \
		". ./deep ./deep/er ./deep/er/est ./file ./hidden ./made ./seen"
	same "$(ls "$M/deep/er/est" "$M/seen" | grep -c new || true)" 0
	numbers >"$D/numbers"
	same "$(stat -c %h "$M")" 4
	exec 8<"$M/deep/er/est" # known by an open directory, too
	ctl add "$D/c"
	[ -e "$M/new" ]
	[ -e "$M/seen/new" ]
	[ -e "$M/own/dir/new" ]
	same "$(ls "/proc/self/fd/8/")" new
	exec 8<&-
	same "$(cat "$M/deep/er/est/new")" c
	same "$(cat "$M/file" "$M/hidden" | paste -sd ' ')" "a a"
	same "$(ls "$M" | paste -sd ' ')" "deep file hidden made new own seen"
	same "$(ls "$M/seen")" new
	same "$(stat -c %h "$M")" 5
	[ -d "$M/deep/er/est" ]
	# Files that were there keep their inode numbers.
	numbers >"$D/numbers.added"
	same "$(grep -vxFf "$D/numbers.added" "$D/numbers" || true)" ""
	# A remount with the same order gives the same numbers.
	stop
	union "$1,control=$D/ctl" "$D/a:$D/b:$D/c"
	numbers | diff "$D/numbers.added" -
	# A known directory moves and goes on all branches, the new one, too.
	mv "$M/deep" "$M/moved"
	same "$(ls -d "$D"/[abc]/moved | wc -l)" 3
	rm -r "$M/moved"
	same "$(ls -d "$D"/[abc]/moved "$D"/[abc]/deep 2>/dev/null | wc -l)" 0
}

test_names_on_an_added_branch_appear() { added_names policy=mfs; }
test_names_on_an_added_branch_appear_without_passthrough() { added_names policy=mfs,passthrough=off; }

test_a_directory_being_read_shows_the_added_branch_from_the_start() {
	small_branches 20M 20M
	new_branch c 20M
	touch "$D/a/one" "$D/c/two"
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
	python3 - "$M" "$D" <<-'EOF'
		import ctypes, os, subprocess, sys
		libc = ctypes.CDLL(None, use_errno=True)
		libc.opendir.restype = ctypes.c_void_p
		for f in (libc.readdir64, libc.rewinddir): f.argtypes = [ctypes.c_void_p]
		libc.readdir64.restype = ctypes.c_void_p
		def names(d):
		    while e := libc.readdir64(d):
		        yield ctypes.string_at(e + 19).decode()
		d = libc.opendir(sys.argv[1].encode())
		assert sorted(names(d)) == ['.', '..', 'one'], 'before'
		subprocess.run(['trib-union', '--control', sys.argv[2] + '/ctl', 'add', sys.argv[2] + '/c'], check=True)
		libc.rewinddir(d)
		assert sorted(names(d)) == ['.', '..', 'one', 'two'], 'after'
		assert sorted(os.listdir(sys.argv[1])) == ['one', 'two'], 'anew'
	EOF
}

test_an_added_branch_leaves_what_is_mounted_inside_alone() {
	small_branches 20M 20M
	new_branch c 20M
	mkdir "$D/a/sub" "$D/c/sub"
	touch "$D/c/sub/below"
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
	mount -t tmpfs none "$M/sub"
	at_exit umount -l "$M/sub"
	touch "$M/sub/mounted"
	ctl add "$D/c"
	same "$(ls "$M/sub")" mounted
	unmount "$M/sub"
	same "$(ls "$M/sub")" below
}

test_an_added_branch_is_seen_by_those_who_look_all_the_time() {
	mkdir -p "$M" "$D/many/0/d/sub" "$D/many/0/w"
	local i pids=()
	for i in $(seq 60); do
		mkdir -p "$D/many/$i/d/sub" "$D/many/$i/e$i"
		touch "$D/many/$i/d/f$i" "$D/many/$i/d/sub/g$i" "$D/many/$i/e$i/h"
	done
	union "policy=ff,control=$D/ctl" "$D/many/0"
	for i in 1 2 3; do
		python3 - "$M" "$D/stop" "$i" <<-'EOF' &
			import os, sys
			top, stop, me = sys.argv[1:]
			n = 0
			while not os.path.exists(stop):
			    n += 1
			    for i in range(1, 61):
			        for name in f'd/f{i}', f'd/sub/g{i}', f'e{i}/h':
			            os.path.exists(f'{top}/{name}')
			    for name in '', 'd', 'd/sub':
			        os.listdir(f'{top}/{name}')
			    os.mkdir(f'{top}/w/own{me}')
			    os.rename(f'{top}/w/own{me}', f'{top}/w/moved{me}')
			    os.rmdir(f'{top}/w/moved{me}')
			assert n > 1
		EOF
		pids+=($!)
	done
	for i in $(seq 60); do
		ctl add "$D/many/$i" >/dev/null
		[ -e "$M/d/f$i" ]
		[ -e "$M/d/sub/g$i" ]
		[ -e "$M/e$i/h" ]
		same "$(ls "$M/d" | grep -c f)" "$i"
		same "$(ls "$M/d/sub" | wc -l)" "$i"
		same "$(ls "$M" | grep -c e)" "$i"
	done
	touch "$D/stop"
	for i in "${pids[@]}"; do wait "$i"; done
	same "$(stat -c %h "$M/d" "$M" | paste -sd ' ')" "3 64"
}

test_adding_twice_is_fine_and_with_other_flags_is_not() {
	small_branches 10M 10M
	new_branch c 10M
	mkdir "$D/x:y=z"
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
	same "$(ctl add "$D/c=local")" '{"id":2}'
	same "$(ctl add "$D/c=local")" '{"id":2}'
	same "$(ctl add "$D/../$(basename "$D")/c=local")" '{"id":2}'
	same "$(ctl add "$D/a")" '{"id":0}'
	fails 1 "other flags (rw,local)" ctl add "$D/c"
	fails 1 "other flags (rw)" ctl add "$D/a=ro"
	same "$(ctl add "$D/x\\:y\\=z=ro")" '{"id":3}'
	same "$(stat_of branches)" 4
	same "$(ctl status | jq -c '.branches | map([.local, .ro])')" \
		'[[false,false],[false,false],[true,false],[false,true]]'
}

test_what_may_be_no_branch_is_not_added() {
	small_branches 10M 10M
	mkdir -p "$D/a/sub" "$D/left/.tributary" "$D/bound" "$D/free"
	touch "$D/file"
	mkfifo "$D/fifo"
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
	mkdir "$M/inside"
	mount --bind "$M" "$D/bound"
	at_exit umount -l "$D/bound"
	fails 1 "No such file" ctl add "$D/none"
	fails 1 "Not a directory" ctl add "$D/file"
	fails 1 "Not a directory" ctl add "$D/fifo"
	fails 1 "must start with '/'" ctl add a
	fails 1 "no file handles" ctl add /proc
	fails 1 "one in the other" ctl add "$D/a/sub"
	fails 1 "one in the other" ctl add "$M/inside"
	fails 1 "one in the other" ctl add "$M"
	fails 1 "one in the other" ctl add "$D"
	fails 1 "one in the other" ctl add "$D/bound/inside"
	fails 1 "branch flag" ctl add "$D/free=fast"
	fails 1 "one branch" ctl add "$D/free:$D/left"
	fails 1 "more than one line" ctl add "$D/fr"$'\n'"ee"
	fails 1 "unknown command" ctl forget "$D/a"
	fails 2 "it is" ctl
	# Renames that a crash interrupted are finished at a mount.
	ln -s '1 M 1:aa 1:bb 1:cc x/y' "$D/left/.tributary/rename-1"
	fails 1 "has 1 renames that a crash interrupted" ctl add "$D/left"
	[ -L "$D/left/.tributary/rename-1" ]
	# The refused calls changed nothing.
	same "$(ctl status | jq -c '.branches | map(.path)')" "[\"$D/a\",\"$D/b\"]"
	same "$(ctl add "$D/free")" '{"id":2}'
}

# umount does not wait for the server; who mounts again at once does.
test_a_mount_follows_another_at_once() {
	local before
	small_branches 10M 10M
	union "control=$D/ctl" "$D/a:$D/b"
	before=$(server)
	kill -STOP "$before"
	at_exit kill -CONT "$before"
	umount -l "$M"
	(sleep 1 && kill -CONT "$before") &
	union "control=$D/ctl" "$D/a:$D/b"
	touch "$M/f"
	eventually 30 gone "$before"
	same "$(getfattr --absolute-names --only-values -n user.union.pid "$M/.union")" "$(server)"
	[ -S "$D/ctl" ] # is the new one's
	mkdir -p "$D/other" "$D/mnt2"
	fails 1 "another union is served there" trib-union -o "control=$D/ctl" "$D/other" "$D/mnt2"
	echo text >"$D/file"
	fails 1 "or it is no socket" trib-union -o "control=$D/file" "$D/other" "$D/mnt2"
	same "$(cat "$D/file")" text
}

test_the_control_socket_outlives_garbage() {
	small_branches 10M 10M
	new_branch c 10M
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
	python3 - "$D/ctl" <<-'EOF'
		import os, random, socket, sys
		random.seed(1)
		kept = []
		for i in range(100):
		    s = socket.socket(socket.AF_UNIX)
		    s.settimeout(30)
		    s.connect(sys.argv[1])
		    kind = i % 5
		    try:
		        if kind == 0: s.sendall(os.urandom(random.randrange(20000)))
		        if kind == 1: s.sendall(b'add ' + b'x' * 9000 + b'\n')
		        if kind == 2: s.sendall(b'add /a\0b\nstatus\n')
		        if kind == 3: s.sendall(b'sta')
		        if kind == 4: s.shutdown(socket.SHUT_WR)
		        if kind in (1, 2):
		            reply = s.recv(4096)
		            assert reply.startswith(b'error ') and reply.endswith(b'\n'), reply
		    except (BrokenPipeError, ConnectionResetError):
		        pass
		    if i % 10 == 3: kept.append(s) # 10 that never say more
		    else: s.close()
		for s in kept: # are let go
		    assert s.recv(10) == b'', 'an idle peer'
	EOF
	touch "$M/f"
	same "$(ctl add "$D/c")" '{"id":2}'
	union_as_other --control "$D/ctl" status >"$D/out" 2>&1 && fail "a stranger was served"
	grep -q "Permission denied" "$D/out"
}

test_a_socket_left_over_is_replaced_and_one_in_use_is_not() {
	small_branches 10M 10M
	mkdir -p "$D/other" "$D/mnt2"
	union "policy=mfs,survive=no,control=$D/ctl" "$D/a:$D/b"
	fails 1 "another union" trib-union -o "control=$D/ctl" "$D/other" "$D/mnt2"
	touch "$D/file"
	fails 1 "no socket" trib-union -o "control=$D/file" "$D/other" "$D/mnt2"
	kill -9 "$(server)"
	umount -l "$M"
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
	ctl status >/dev/null
}

test_more_branches_are_added_than_fit_and_the_last_is_refused() {
	mkdir -p "$M" "$D/many"
	mount -t tmpfs none "$D/many"
	at_exit umount -l "$D/many"
	local i
	for i in $(seq 257); do
		mkdir -p "$D/many/$i/d"
		echo "$i" >"$D/many/$i/d/f$i"
	done
	union "policy=mfs,control=$D/ctl" "$D/many/1"
	ls -lR "$M" >/dev/null
	for i in $(seq 2 256); do
		ctl add "$D/many/$i" >/dev/null
	done
	fails 1 "more than 256" ctl add "$D/many/257"
	same "$(ls "$M/d" | wc -l)" 256
	same "$(cat "$M"/d/f* | paste -sd+ | bc)" $((256 * 257 / 2))
	echo x >"$M/d/more"
	rm -r "$M/d"
	[ ! -e "$M/d" ]
}

run_tests "$@"
