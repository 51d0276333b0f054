#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A union that the kernel's NFS server exports, mounted again over the loopback
# as NFSv4.2 ($V4) and as NFSv3 ($V3): handles are decoded after the kernel has
# forgotten what they are of, directories opened anew for each part of a list.
. "$(dirname "$0")/lib.sh"
fetch_packages nfs -x '^(nfs-kernel-server|nfs-common|rpcbind)$' \
	nfs-kernel-server nfs-common rpcbind
# Copies of a tree, and handles of what was forgotten, are in check-vm.
long_tests='test_a_list_goes_on_when_the_directory_has_come_to_another_branch
test_a_tree_is_copied_while_memory_is_short'
inside_vm -m 768 -d a:400M -d b:400M -d c:400M -- "$@"
need mkfs.ext4 python3 setfacl pgrep
for module in nfsd nfsv4 nfsv3; do
	modprobe $module || skip_all "the guest's kernel has no $module"
done
D=$TEST_DIR
M=$D/mnt
V4=$D/v4
V3=$D/v3

put_nfs_into_the_guest() {
	put_packages nfs
	grep -q ^_rpc: /etc/passwd || echo "_rpc:x:990:65534::/run/rpcbind:/usr/sbin/nologin" >>/etc/passwd
	mkdir -p /run/rpcbind
	: >>/etc/exports
}

# Locks of NFSv3 have a protocol of their own, which is not used here.
start_nfs() {
	mount -t nfsd nfsd /proc/fs/nfsd
	rpcbind
	rpc.nfsd --lease-time 10 --grace-time 10 4
	echo Y >/proc/fs/nfsd/v4_end_grace # nobody has anything to reclaim
	rpc.mountd
}

# With fsid=0 it is the root of NFSv4, too; "/" of the guest can't be exported.
export_it() { exportfs -o rw,insecure,no_root_squash,no_subtree_check,fsid=0 "127.0.0.1:$M"; }

union() {
	trib-union -o "log=$D/log,control=$D/ctl,policy=rand" "$D/a:$D/b:$D/c" "$M"
	at_exit union_end "$M"
	export_it
	at_exit end_export
}
end_export() { exportfs -u "127.0.0.1:$M"; exportfs -f; }
union_is_gone() { ! pgrep -f "trib-union .*$M\$"; }
# The server keeps files open for a while, and for as long as a client of NFSv4
# renews its lease: which it may do after it may no longer close them.
forget_clients() {
	local client
	for client in /proc/fs/nfsd/clients/*/ctl; do
		[ ! -e "$client" ] || echo expire >"$client"
	done
}
forget_and_unmount() { forget_clients && umount "$M"; }
stop() {
	end_export
	eventually 60 forget_and_unmount
	eventually 30 union_is_gone
}

mount_all() { # the union and both mounts of it
	local disk name
	mkdir -p "$D/a" "$D/b" "$D/c" "$M" "$V4" "$V3"
	for disk in vda:a vdb:b vdc:c; do
		name=$D/${disk#*:}
		mkfs.ext4 -q -F "/dev/${disk%:*}"
		mount -o noatime "/dev/${disk%:*}" "$name"
		at_exit umount -l "$name"
		rmdir "$name/lost+found"
	done
	union
	mount -t nfs -o vers=4.2 127.0.0.1:/ "$V4"
	at_exit umount -fl "$V4"
	mount -t nfs -o vers=3,nolock "127.0.0.1:$M" "$V3"
	at_exit umount -fl "$V3"
}

say_more() { tail -n 5 "$D/log"; dmesg | tail -n 8; }

words() { trib-union --control "$D/ctl" set "$1" >/dev/null; } # of a branch
forget() { echo 3 >/proc/sys/vm/drop_caches; }
server() { union_server "$M"; }
another_than() { local now; now=$(server) && [ "$now" != "$1" ]; }

tree() { # DIR: what is in it
	(cd "$1" && find . -mindepth 1 -printf '%P %y %m %U %G %n %l %T@ ' \( -type f -printf '%s\n' -o -printf '\n' \) | sort)
}
make_tree() { # DIR
	local i
	mkdir -p "$1/d/deep/er" "$1/empty"
	for i in {1..20}; do echo "content $i" >"$1/d/f$i"; done
	ln "$1/d/f"* "$1/d/deep"
	ln -s ../../f{1..20} "$1/d/deep/er"
	head -c 3000000 /dev/urandom >"$1/d/large"
	truncate -s 5M "$1/d/sparse"
	chown 1234:2345 "$1/d/f1"
	chmod 2750 "$1/d/deep"
	mkfifo "$1/d/fifo"
	touch -d '2001-02-03 04:05:06.789' "$1/d/f2" "$1/empty"
}

test_a_tree_that_is_copied_is_the_same() {
	local by
	for by in "$V4" "$V3"; do
		cp -a "$D/src" "$by/tree"
		same "$(tree "$by/tree")" "$(tree "$D/src")"
		diff -r --no-dereference -x fifo "$D/src" "$by/tree"
		same "$(stat -c %i "$by/tree/d/f7")" "$(stat -c %i "$by/tree/d/deep/f7")"
		mv "$by/tree" "$by/tree.moved"
		same "$(tree "$M/tree.moved")" "$(tree "$D/src")"
		rm -r "$by/tree.moved"
		same "$(ls -A "$M")" ""
	done
	# These only NFSv3 has as they are.
	echo x >"$V3/f"
	setfacl -m u:1234:rw "$V3/f"
	forget
	same "$(getfacl -pc "$V3/f")" "$(getfacl -pc "$M/f")"
	getfacl -pc "$M/f" | grep -q user:1234:rw-
	rm "$V3/f"
}

# Each is on one of three branches, at random.
test_names_are_renamed_over_names_of_other_branches() {
	local by i
	for by in "$V4" "$V3"; do
		mkdir "$by/from" "$by/to"
		for i in {1..30}; do
			echo "from $i" >"$by/from/$i"
			echo "to $i" >"$by/to/$i"
		done
		mv "$by/from/"* "$by/to"
		same "$(cat "$by/to/"* | sort -u | grep -c from)" 30
		same "$(ls "$by/from")" ""
		mv "$by/to" "$by/from/in"
		same "$(ls "$by/from/in" | wc -l)" 30
		same "$(cat "$M/from/in/"* | sort -u | grep -c from)" 30
		rm -r "$by/from"
	done
}

# lists N PATH: N times, while names are made and removed in it by NFS, too
lists() {
	python3 - "$@" <<-'PY'
		import os, signal, sys, time
		times, path = int(sys.argv[1]), sys.argv[2]
		want = {f"stays-{i}" for i in range(1500)}
		other = os.fork()
		if other == 0:
		    i = 0
		    while os.getppid() != 1:
		        os.close(os.open(f"{path}/comes-{i % 200}", os.O_CREAT | os.O_WRONLY))
		        if i >= 50:
		            os.unlink(f"{path}/comes-{(i - 50) % 200}")
		        i += 1
		        time.sleep(0.01) # or they have the machine for themselves
		    os._exit(0)
		try:
		    for n in range(times):
		        got = [e.name for e in os.scandir(path) if e.name.startswith("stays-")]
		        assert len(got) == len(set(got)), f"{len(got) - len(set(got))} names twice"
		        assert set(got) == want, f"{len(want - set(got))} names missed"
		finally:
		    os.kill(other, signal.SIGKILL)
		    ended = os.waitpid(other, 0)[1]
		assert ended == signal.SIGKILL, f"who makes names: {ended}"
	PY
}
make_many() { # DIR COUNT [END]: names that end so
	(mkdir "$1" && cd "$1" && seq -f "stays-%g${3:-}" 0 $(($2 - 1)) | xargs touch)
}

test_a_large_directory_is_listed_while_names_come_and_go() {
	make_many "$M/many" 1500
	[ "$(ls "$D/a/many" "$D/b/many" "$D/c/many" | grep -c stays)" = 1500 ]
	lists $((1 + ${LONG_TESTS:-0})) "$V4/many"
	lists 1 "$V3/many"
	rm -r "$M/many"
}

# The directory is on one branch when the list is begun. The names are long: the
# first part that the client asks for has some hundred.
test_a_list_goes_on_when_the_directory_has_come_to_another_branch() {
	local by long
	long=-$(printf '%0150d' 0)
	for by in "$V4" "$V3"; do
		words "$D/b=nc"
		words "$D/c=nc"
		words "$D/a"
		make_many "$M/many" 500 "$long"
		[ ! -e "$D/b/many" ]
		words "$D/a=nc"
		words "$D/b"
		python3 - "$by/many" "$long" <<-'PY'
			import os, sys
			path, long = sys.argv[1:]
			got = []
			for entry in os.scandir(path):
			    got.append(entry.name)
			    if len(got) == 100:
			        os.close(os.open(path + "/new", os.O_CREAT | os.O_WRONLY))
			got = sorted(name for name in got if name != "new")
			assert got == sorted(f"stays-{i}{long}" for i in range(500)), (len(got), len(set(got)))
		PY
		[ -e "$D/b/many/new" ]
		same "$(ls "$by/many" | grep -cx new)" 1
		rm -r "$by/many"
		[ ! -e "$D/a/many" ]
	done
}

test_what_the_server_has_forgotten_is_found_by_its_handle() {
	cp -a "$D/src" "$M/tree"
	local by
	for by in "$V3" "$V4"; do
		cd "$by/tree/d/deep/er"
		exec 5<"$by/tree/d/f3" 6>>"$by/tree/d/written"
		echo one >&6
		forget
		forget
		echo two >&6
		same "$(cat <&5)" "content 3"
		same "$(cat f9)" "content 9"
		same "$(cat ../f8)" "content 8"
		echo new >new
		ls ../.. >/dev/null
		mv new ../new
		rm ../new
		exec 5<&- 6>&-
		same "$(cat "$M/tree/d/written" | xargs)" "one two"
		rm "$M/tree/d/written"
		cd /
	done
	rm -r "$M/tree"
	same "$(dmesg | grep -c 'root generation' || true)" 0
}

test_a_tree_is_copied_while_memory_is_short() {
	while true; do
		forget
		sleep 0.2
	done &
	local dropper=$! by
	at_exit kill $dropper
	for by in "$V4" "$V3"; do
		cp -a "$D/src" "$by/tree"
		diff -r --no-dereference -x fifo "$D/src" "$by/tree"
		rm -r "$by/tree"
	done
	kill $dropper
	wait $dropper || true
}

test_a_file_that_is_removed_while_it_is_open_stays() {
	local by
	for by in "$V4" "$V3"; do
		mkdir "$by/d"
		echo kept >"$by/d/f"
		exec 5<>"$by/d/f"
		rm "$by/d/f"
		[ ! -e "$by/d/f" ]
		forget
		read -r line <&5
		same "$line" kept
		echo more >&5
		same "$(cat /proc/self/fd/5 | xargs)" "kept more"
		exec 5>&-
		rmdir "$by/d"
	done
	# Removed past the client, which does not know.
	echo kept >"$V4/f"
	exec 5<"$V4/f"
	rm "$M/f"
	forget
	same "$(cat <&5)" kept
	exec 5<&-
}

# works DIR NAME: until there is "enough", and says what it could not do
works() {
	local i=0
	while [ ! -e "$D/enough" ]; do
		i=$((i + 1))
		echo "$i" >"$1/new" && [ "$(<"$1/new")" = "$i" ] || echo "write $i"
		mv "$1/new" "$1/name-$((i % 20))" || echo "rename $i"
		[ "$(<"$1/name-$((i % 20))")" = "$i" ] || echo "read $i"
		mkdir "$1/dir" && rmdir "$1/dir" || echo "directory $i"
		ls "$1" >/dev/null || echo "list $i"
		echo "$i" >"$D/rounds-$2"
	done
}
got_on() { [ "$(cat "$D/rounds-$1")" -gt "$2" ]; }

test_clients_go_on_when_the_server_of_the_union_is_killed() {
	local n pid one two
	mkdir "$V4/one" "$V3/two"
	works "$V4/one" one >"$D/one" 2>&1 &
	one=$!
	works "$V3/two" two >"$D/two" 2>&1 &
	two=$!
	at_exit kill $one
	at_exit kill $two
	for n in 1 2 ${LONG_TESTS:+3 4}; do
		eventually 60 got_on one "$n"
		eventually 60 got_on two "$n"
		pid=$(server)
		kill -9 "$pid"
		eventually 30 another_than "$pid"
	done
	touch "$D/enough"
	wait $one
	wait $two
	same "$(cat "$D/one" "$D/two")" ""
	forget
	same "$(ls "$V4/one")" "$(ls "$M/one")"
	same "$(ls "$V3/two")" "$(ls "$M/two")"
}

test_after_a_new_mount_handles_and_paths_are_valid() {
	mkdir "$M/d"
	echo content >"$M/d/f"
	echo gone >"$M/d/gone"
	local by
	exec 5<"$V3/d/f" 6<"$V3/d/gone"
	cd "$V3/d"
	rm "$M/d/gone"
	stop
	union
	forget
	same "$(ls . | paste -sd,)" f
	same "$(cat /dev/fd/5)" content
	fails any "Stale file handle" cat /dev/fd/6
	exec 5<&- 6<&-
	cd /
	for by in "$V4" "$V3"; do
		same "$(cat "$by/d/f")" content
		echo "by $by" >"$by/d/g"
		same "$(cat "$M/d/g")" "by $by"
	done
}

put_nfs_into_the_guest
start_nfs
mount_all
make_tree "$D/src"
run_tests "$@"
