#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# trib-union over an ext4, an XFS and a tmpfs branch.
. "$(dirname "$0")/../lib.sh"
need_root
need mkfs.ext4 mkfs.xfs getfattr setfattr getfacl setfacl setpriv fio jq setcap python3 bc
[ -c /dev/fuse ] || skip_all "needs /dev/fuse"
D=$TEST_DIR
M=$D/mnt
chmod 755 "$D" # the tests act as other users, too
OTHER=(setpriv --reuid 1234 --regid 1234 --clear-groups)
# Somebody without rights runs it, from where they can reach it.
union_as_other() {
	install -m 755 "$BUILD/bin/trib-union" "$D/trib-union"
	"${OTHER[@]}" "$D/trib-union" "$@"
}

loop_fs() { # NAME SIZE MKFS...
	rm -f "$D/$1.img"
	truncate -s "$2" "$D/$1.img"
	"${@:3}" "$D/$1.img" >/dev/null
	mkdir -p "$D/$1"
	mount -o loop,noatime "$D/$1.img" "$D/$1"
	at_exit umount -l "$D/$1"
}

three_branches() {
	loop_fs a 128M mkfs.ext4 -q -m 0
	loop_fs b 320M mkfs.xfs -q
	mkdir -p "$D/c" "$M"
	mount -t tmpfs -o size=256M none "$D/c"
	at_exit umount -l "$D/c"
	rmdir "$D/a/lost+found"
	chmod 777 "$D/a" "$D/b" "$D/c"
}

small_branches() { # two of tmpfs, of the SIZEs given
	mkdir -p "$M"
	local name
	for name in a b; do
		mkdir -p "$D/$name"
		mount -t tmpfs -o "size=$1" none "$D/$name"
		at_exit umount -l "$D/$name"
		shift
	done
}

union() { # OPTIONS BRANCHES
	trib-union -o "log=$D/log,$1" "$2" "$M"
	at_exit umount -l "$M"
}
all() { union "$1" "$D/a:$D/b:$D/c"; }

server() { # its pid
	local cmd
	for cmd in /proc/[0-9]*/cmdline; do
		if { tr '\0' '\n' <"$cmd"; } 2>/dev/null |
			awk -v m="$M" 'NR == 1 && /trib-union$/ {u = 1}
				{last = $0} END {exit !(u && last == m)}'; then
			basename "$(dirname "$cmd")"
			return
		fi
	done
	return 1
}

gone() { ! kill -0 "$1" 2>/dev/null; }

stop() {
	local pid
	pid=$(server)
	kill -TERM "$pid"
	eventually 30 gone "$pid"
	! mountpoint -q "$M"
}

stat_of() { getfattr --absolute-names --only-values -n user.tributary.stats "$M" | jq -r ".$1"; }

kernel_passes_through() {
	[ "$(stat_of passthrough)" = true ] || skip "this kernel passes nothing through"
}

test_mounts_and_stops_on_sigterm() {
	three_branches
	all policy=mfs
	mountpoint -q "$M"
	same "$(findmnt -no FSTYPE "$M")" fuse.trib-union
	same "$(stat_of branches)" 3
	stop
}

test_stays_in_the_foreground_and_ends_when_unmounted() {
	small_branches 10M 10M
	trib-union -f "$D/a:$D/b" "$M" &
	local pid=$!
	at_exit umount -l "$M"
	eventually 30 mountpoint -q "$M"
	umount "$M"
	wait $pid
}

test_refuses_what_it_cannot_do_with_words() {
	small_branches 10M 10M
	touch "$D/file"
	fails 1 "No such file" trib-union "$D/none" "$M"
	fails 1 "no directory" trib-union "$D/a" "$D/file"
	fails 1 "No such file" trib-union "$D/a" "$D/none"
	fails 1 "same directory" trib-union "$D/a:$D/a" "$M"
	fails 1 "one in the other" trib-union "$D/a" "$D/a"
	fails 1 "no file handles" trib-union /proc "$M"
	fails 1 "branch '$D/file'" trib-union "$D/file" "$M"
	fails 2 "unknown option 'cache.files'" trib-union -o cache.files=off "$D/a" "$M"
	fails 2 "are missing" trib-union "$D/a"
	fails any "run as root" union_as_other "$D/a" "$M"
	! mountpoint -q "$M"
}

test_a_write_by_root_takes_capabilities_but_not_setuid() {
	three_branches
	all policy=mfs
	install -m 4755 /bin/true "$M/f"
	setcap cap_net_raw+ep "$M/f"
	[ -n "$(getcap "$M/f")" ]
	echo more >>"$M/f"
	same "$(getcap "$M/f")" ""
	same "$(stat -c %a "$M/f")" 4755
}

test_a_branch_is_there_once_by_any_path() {
	small_branches 10M 10M
	mkdir "$D/a/sub" "$D/a/two" "$D/bound"
	ln -s "$D/a" "$D/link"
	fails 1 "same directory" trib-union "$D/a:$D/link" "$M"
	fails 1 "one in the other" trib-union "$D/a:$D/a/sub" "$M"
	fails 1 "one in the other" trib-union "$D/a/sub:$D/a" "$M"
	mount --bind "$D/a" "$D/bound"
	at_exit umount -l "$D/bound"
	fails 1 "same directory" trib-union "$D/a:$D/bound" "$M"
	fails 1 "one in the other" trib-union "$D/a/sub:$D/bound" "$M"
	fails 1 "one in the other" trib-union "$D/bound:$D/a/sub" "$M"
	mkdir -p "$D/b/mnt/branch"
	fails 1 "one in the other" trib-union "$D/b/mnt/branch:$D/a" "$D/b/mnt"
	fails 1 "one in the other" trib-union "$D/b:$D/a" "$D/b/mnt"
	# Two directories of one file system: its space is counted once.
	union policy=ff "$D/a/sub:$D/a/two"
	same "$(df -k --output=size "$M" | tail -n 1 | tr -d ' ')" 10240
}

test_names_at_the_limits() {
	three_branches
	all policy=mfs
	local name path=$M i
	name=$(printf 'n%.0s' {1..255})
	echo 1 >"$M/$name"
	same "$(cat "$M/$name")" 1
	fails any "File name too long" touch "$M/n$name"
	mv "$M/$name" "$M/m${name#n}"
	mkdir "$M/$name"
	ln "$M/m${name#n}" "$M/$name/m${name#n}"
	ln -s "$(printf 'x%.0s' {1..4000})" "$M/link"
	same "$(readlink "$M/link" | wc -c)" 4001
	# Deeper than a path can say.
	(
		cd "$M"
		for i in {1..20}; do mkdir "$name" 2>/dev/null || true; cd "$name"; done
		echo deep >"$name"
		same "$(cat "$name")" deep
		mv "$name" f
		same "$(stat -c %h .)" 2
	)
	rm -rf "${M:?}/$name"
	[ ! -e "$M/$name" ]
}

test_branches_that_others_change_are_looked_at_each_time() {
	small_branches 20M 20M
	mkdir "$D/a/d" "$D/b/d"
	union shared,policy=epmfs "$D/a:$D/b"
	same "$(ls "$M/d")" ""
	fails any "No such file" cat "$M/d/f"
	echo 1 >"$D/a/d/f"
	same "$(cat "$M/d/f")" 1
	same "$(ls "$M/d")" f
	echo two >"$D/a/d/f"
	same "$(cat "$M/d/f")" two
	same "$(stat -c %s "$M/d/f")" 4
	mkdir "$D/b/d/sub"
	same "$(stat -c %h "$M/d")" 3
	ln -s one "$M/link"
	same "$(readlink "$M/link")" one
	rm "$D"/[ab]/link && ln -s other "$D/a/link"
	same "$(readlink "$M/link")" other
	rm -r "$D/a/d"
	same "$(ls "$M/d")" sub
	echo new >"$M/d/new" # on the copy that is left, or in a new one
	same "$(cat "$D"/[ab]/d/new)" new
	rm -r "$D"/[ab]/d
	fails any "No such file" ls "$M/d"
}

test_paths_with_separators_are_escaped() {
	mkdir -p "$D/x:y=ro" "$M"
	trib-union "$D/x\\:y\\=ro" "$M"
	at_exit umount -l "$M"
	echo 1 >"$M/f"
	same "$(cat "$D/x:y=ro/f")" 1
}

# Random calls, the same on one ext4 and on the union; the branch that new
# names go to changes with every round, so that directories are on several.
differential() { # OPTIONS SEEDS
	three_branches
	loop_fs plain 128M mkfs.ext4 -q -m 0
	mkdir -m 777 "$D/plain/top"
	local seed round branches
	for seed in $2; do
		for round in 0 1 2 3; do
			branches=$D/a:$D/b:$D/c
			case $((round % 3)) in
			0) branches=$D/a=local:$D/b:$D/c ;;
			1) branches=$D/a:$D/b=local:$D/c ;;
			2) branches=$D/a:$D/b:$D/c=local ;;
			esac
			union "policy=local,$1" "$branches"
			(cd "$D/plain/top" && outcomes $((seed * 10 + round)) 2000 1234) >"$D/plain.out"
			(cd "$M" && outcomes $((seed * 10 + round)) 2000 1234) >"$D/union.out"
			stop
			diff "$D/plain.out" "$D/union.out" | head -n 20
			cmp "$D/plain.out" "$D/union.out"
		done
	done
	[ "$(stat -c %s "$D/log")" = 0 ] || { cat "$D/log"; fail "it logged"; }
}
PATH=$PATH:$BUILD/test/union

test_behaves_as_one_ext4() { differential passthrough=auto "1 2 3"; }
test_behaves_as_one_ext4_without_passthrough() { differential passthrough=off "4 5 6"; }

random_data() { # OPTIONS
	three_branches
	local seed name
	for name in a b c; do
		union "$1" "$D/$name:$D/$([ $name = a ] && echo b || echo a)"
		for seed in 1 2 3; do
			random_io "$M/file$seed" $seed 3000
		done
		if [ "$1" = policy=ff ] && [ "$(stat_of passthrough)" = true ]; then
			same "$(stat_of reads)" 0
			same "$(stat_of writes)" 0
			same "$(stat_of passthrough_opens)" "$(stat_of opens)"
		fi
		stop
	done
}

test_data_is_right_in_every_way_to_write_it() { random_data policy=ff; }
test_data_is_right_without_passthrough() { random_data policy=ff,passthrough=off; }

test_the_daemon_sees_the_data_only_without_passthrough() {
	small_branches 50M 50M
	union passthrough=off "$D/a:$D/b"
	echo data >"$M/f"
	same "$(cat "$M/f")" data
	[ "$(stat_of writes)" -gt 0 ]
	same "$(stat_of passthrough_opens)" 0
	stop
}

test_fio_verifies_what_it_wrote() {
	three_branches
	local pt
	for pt in auto off; do
		all passthrough=$pt
		fio --name=v --directory="$M" --size=8M --rw=randwrite --bs=4k \
			--numjobs=3 --verify=crc32c --do_verify=1 --direct=1 \
			--ioengine=libaio --iodepth=8 --verify_fatal=1 --verify_state_save=0 >"$D/fio.log" ||
			{ cat "$D/fio.log"; fail "fio with passthrough=$pt"; }
		fio --name=m --directory="$M" --size=8M --rw=randwrite --bs=4k \
			--verify=crc32c --ioengine=mmap --verify_fatal=1 --verify_state_save=0 >"$D/fio.log" ||
			{ cat "$D/fio.log"; fail "fio mmap with passthrough=$pt"; }
		stop
	done
}

tree_of() { (cd "$1" && find . -printf '%y %m %u:%g %P %l\n' | sort); }
sums_of() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

test_a_real_tree_is_copied_whole() {
	three_branches
	all policy=mfs
	cp -a /usr/include "$M/include"
	same "$(sums_of "$M/include" | sha256sum)" "$(sums_of /usr/include | sha256sum)"
	same "$(tree_of "$M/include" | sha256sum)" "$(tree_of /usr/include | sha256sum)"
	stop
	all policy=mfs
	same "$(sums_of "$M/include" | sha256sum)" "$(sums_of /usr/include | sha256sum)"
	rm -rf "$M/include"
	same "$(find "$D/a" "$D/b" "$D/c" -mindepth 1 | grep -v '/\.tributary$')" ""
}

# Names on all branches, made by mounts that each prefer another.
spread() { # COUNT
	local k
	for k in a b c; do
		union policy=ff "$(printf '%s:' "$D/$k" "$D/a" "$D/b" "$D/c" |
			tr ':' '\n' | awk '!s[$0]++' | paste -sd:)"
		mkdir -p "$M/many"
		(cd "$M/many" && seq -f "$k%.0f" "$1" | xargs touch)
		stop
	done
}

test_a_hundred_thousand_entries_are_listed_once() {
	mkdir -p "$M" "$D/a" "$D/b" "$D/c"
	local name
	for name in a b c; do
		mount -t tmpfs -o size=200M,nr_inodes=0 none "$D/$name"
		at_exit umount -l "$D/$name"
	done
	spread 34000
	all policy=mfs
	same "$(find "$M/many" -mindepth 1 | wc -l)" 102000
	same "$(find "$M/many" -mindepth 1 | sort -u | wc -l)" 102000
	same "$(ls -U "$M/many" | wc -l)" 102000
	same "$(stat -c %h "$M/many")" 2
}

test_listing_goes_on_from_an_offset_while_names_come() {
	three_branches
	spread 400
	all policy=mfs
	python3 - "$M/many" <<-'PY'
		import ctypes, os, struct, sys
		libc = ctypes.CDLL(None, use_errno=True)
		path = sys.argv[1]
		fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
		def entries(fd):
		    buf = ctypes.create_string_buffer(1024)
		    while True:
		        n = libc.syscall(217, fd, buf, 1024)
		        if n <= 0:
		            return
		        at = 0
		        while at < n:
		            ino, off, length, kind = struct.unpack_from("=QqHB", buf.raw, at)
		            yield buf.raw[at + 19:at + length].split(b"\0")[0], off
		            at += length
		first = list(entries(fd))
		names = [name for name, off in first]
		assert len(names) == len(set(names)) == 1202, len(names)
		# Go on from offsets all over, with new names coming meanwhile.
		for i in range(0, len(first) - 1, 97):
		    os.close(os.open(path + "/new%d" % i, os.O_CREAT | os.O_WRONLY))
		    os.lseek(fd, first[i][1], 0)
		    got = [name for name, off in entries(fd) if not name.startswith(b"new")]
		    assert got == names[i + 1:], (i, len(got))
	PY
}

test_inode_numbers_stay_over_mounts_and_cloning() {
	three_branches
	union policy=local "$D/a:$D/b=local:$D/c"
	mkdir -p "$M/d/e"
	echo 1 >"$M/d/e/f"
	ln "$M/d/e/f" "$M/d/g"
	local before
	before=$(cd "$M" && stat -c '%n %i' d d/e d/e/f d/g)
	same "$(stat -c %i "$M/d/e/f")" "$(stat -c %i "$M/d/g")"
	stop
	union policy=local "$D/a=local:$D/b:$D/c"
	echo 2 >"$M/d/e/new"
	[ -f "$D/a/d/e/new" ]
	same "$(cd "$M" && stat -c '%n %i' d d/e d/e/f d/g)" "$before"
	same "$(ls -i "$M/d" | awk '$2 == "e" {print $1}')" "$(stat -c %i "$M/d/e")"
	stop
	union policy=local "$D/a:$D/b:$D/c=local"
	same "$(cd "$M" && stat -c '%n %i' d d/e d/e/f d/g)" "$before"
	same "$(getfattr --absolute-names -d -m - "$M/d/e" | grep -c tributary)" 0
	fails any "" getfattr --absolute-names -n trusted.tributary.ino "$M/d/e"
	fails any "not permitted" setfattr -n trusted.tributary.ino -v 1 "$M/d/e"
}

test_a_cloned_directory_is_as_the_first() {
	three_branches
	union policy=local "$D/a:$D/b=local:$D/c"
	mkdir -m 2750 "$M/d"
	chown 1234:4321 "$M/d"
	setfacl -m u:77:rwx,d:g:88:rx "$M/d"
	setfattr -n user.colour -v blue "$M/d"
	touch -d 2001-01-01 "$M/d"
	local root_time before
	root_time=$(stat -c %Y "$D/a")
	before=$(stat -c '%a %u %g %Y' "$M/d" && getfacl -pn "$M/d" && getfattr --absolute-names -d "$M/d")
	stop
	union policy=local "$D/a=local:$D/b:$D/c"
	touch "$M/d/file"
	touch -d 2001-01-01 "$M/d"
	same "$(stat -c '%a %u %g %Y' "$M/d" && getfacl -pn "$M/d" && getfattr --absolute-names -d "$M/d")" "$before"
	same "$(getfacl -cpn "$D/a/d")" "$(getfacl -cpn "$D/b/d")"
	same "$(stat -c '%a %u %g' "$D/a/d")" "2770 1234 4321"
	same "$(stat -c %Y "$D/a")" "$root_time" "the root did not change"
	# What is done to it is done to all copies.
	chmod 00700 "$M/d"
	chown 5:6 "$M/d"
	setfattr -n user.colour -v red "$M/d"
	same "$(stat -c '%a %u %g' "$D/a/d" "$D/b/d" | sort -u)" "700 5 6"
	same "$(getfattr --absolute-names --only-values -n user.colour "$D/b/d")" red
}

test_full_branches_are_passed_over() {
	small_branches 2M 40M
	union policy=ff "$D/a:$D/b"
	dd if=/dev/zero of="$M/fill" bs=64k count=31 status=none
	dd if=/dev/zero of="$M/more" bs=4k count=64 status=none conv=fsync || true
	# The first is full within a second at most; then the next one is used.
	dd if=/dev/zero of="$D/a/rest" bs=4k status=none || true
	sleep 1.1
	dd if=/dev/zero of="$M/next" bs=64k count=32 status=none
	[ -f "$D/b/next" ]
	same "$(df -k --output=size "$M" | tail -n 1 | tr -d ' ')" $((42 * 1024))
}

test_new_names_go_where_the_policy_says() {
	small_branches 20M 40M
	union policy=mfs "$D/a:$D/b"
	touch "$M/f" && [ -f "$D/b/f" ]
	stop
	union policy=ff "$D/a:$D/b"
	touch "$M/g" && [ -f "$D/a/g" ]
	stop
	union policy=ff,minfreespace=30M "$D/a:$D/b"
	touch "$M/h" && [ -f "$D/b/h" ]
	stop
	union policy=local "$D/a=local:$D/b"
	mkdir "$M/d" && touch "$M/d/i" && [ -f "$D/a/d/i" ]
	stop
	union policy=epmfs "$D/a:$D/b"
	touch "$M/d/j" && [ -f "$D/a/d/j" ]
	touch "$M/k" && [ -f "$D/b/k" ]
}

test_a_read_only_branch_is_never_changed() {
	small_branches 20M 20M
	mkdir "$D/a/d"
	echo 1 >"$D/a/d/f"
	union policy=ff "$D/a=ro:$D/b"
	same "$(cat "$M/d/f")" 1
	fails any "Read-only" rm "$M/d/f"
	fails any "Read-only" mv "$M/d/f" "$M/g"
	fails any "Read-only" chmod 600 "$M/d/f"
	fails any "Read-only" setfattr -n user.x -v 1 "$M/d/f"
	fails any "Read-only" bash -c "echo 2 >>'$M/d/f'"
	fails any "Read-only" ln "$M/d/f" "$M/g"
	fails any "Read-only" truncate -s 0 "$M/d/f"
	touch "$M/d/new"
	[ -f "$D/b/d/new" ]
	same "$(cat "$D/a/d/f")" 1
}

test_what_is_on_several_branches_is_one_name() {
	small_branches 20M 20M
	echo first >"$D/a/both"
	echo second >"$D/b/both"
	echo other >"$D/b/other"
	mkdir "$D/a/mixed" "$D/b/dir"
	touch "$D/b/mixed" "$D/b/dir/x"
	union policy=mfs "$D/a:$D/b"
	same "$(cat "$M/both")" first
	same "$(find "$M" -mindepth 1 | wc -l)" 5
	[ -d "$M/mixed" ]
	mv "$M/other" "$M/both"
	same "$(cat "$M/both")" other
	[ ! -e "$D/a/both" ]
	echo hidden >"$D/a/hidden" # after the mount: a branch is ours alone
	rm "$M/both"
	[ ! -e "$M/both" ] && [ ! -e "$D/b/both" ]
	fails any "not empty" rmdir "$M/dir"
}

test_the_work_directory_is_not_to_be_seen() {
	three_branches
	union policy=local "$D/a:$D/b=local:$D/c"
	mkdir -p "$M/d"
	stop
	union policy=local "$D/a=local:$D/b:$D/c"
	touch "$M/d/f"
	[ -d "$D/a/.tributary" ]
	same "$(ls -A "$M")" d
	same "$(stat -c %h "$M")" 3
	[ ! -e "$M/.tributary" ]
	fails any "not permitted" mkdir "$M/.tributary"
	mkdir "$M/d/.tributary"
}

privileges() { # OPTIONS
	small_branches 20M 20M
	union "$1" "$D/a:$D/b"
	local f=$M/f
	echo 1 >"$f"
	chmod 6777 "$f"
	"${OTHER[@]}" bash -c "echo 2 >>'$f'"
	same "$(stat -c %a "$f")" 777 "written by another"
	same "$(stat -c %a "$D"/[ab]/f)" 777
	chmod 6777 "$f"
	"${OTHER[@]}" truncate -s 1 "$f"
	same "$(stat -c %a "$f")" 777 "truncated by another"
	chmod 6777 "$f"
	"${OTHER[@]}" bash -c ": >'$f'"
	same "$(stat -c %a "$f")" 777 "opened with O_TRUNC by another"
	chmod 6777 "$f"
	echo 3 >>"$f"
	same "$(stat -c %a "$f")" 6777 "written by root"
	# Set while another has it open for writing.
	chmod 777 "$f"
	exec 8> >("${OTHER[@]}" bash -c "exec 9>>'$f'; read; echo 4 >&9")
	eventually 30 bash -c "ls -l /proc/[0-9]*/fd 2>/dev/null | grep -q '$f'"
	chmod 6777 "$f"
	echo >&8
	exec 8>&-
	eventually 30 grep -q 4 "$f"
	same "$(stat -c %a "$f")" 777 "set while it was open"
	setcap cap_net_raw+ep "$f"
	"${OTHER[@]}" bash -c "echo 5 >>'$f'"
	same "$(getcap "$f")" "" "capabilities"
	stop
}

test_writing_clears_setuid_and_setgid() { privileges passthrough=auto; }
test_writing_clears_setuid_and_setgid_without_passthrough() { privileges passthrough=off; }

test_permissions_are_the_kernels() {
	three_branches
	all policy=mfs
	mkdir -m 1777 "$M/sticky"
	mkdir -m 700 "$M/private"
	mkdir -m 2775 "$M/group"
	chown 0:4321 "$M/group"
	echo 1 >"$M/private/f"
	echo 1 >"$M/sticky/root"
	fails any "Permission denied" "${OTHER[@]}" cat "$M/private/f"
	fails any "not permitted" "${OTHER[@]}" rm -f "$M/sticky/root"
	fails any "Permission denied" "${OTHER[@]}" touch "$M/group/f"
	"${OTHER[@]}" bash -c "umask 027; echo 2 >'$M/sticky/mine'; mkdir '$M/sticky/dir'"
	same "$(stat -c '%u %g %a' "$M/sticky/mine" "$M/sticky/dir" | paste -sd,)" "1234 1234 640,1234 1234 750"
	# A group of the caller's that only the kernel knows of.
	setpriv --reuid 1234 --regid 1234 --groups 4321 mkdir "$M/group/sub"
	same "$(stat -c '%u %g %a' "$M/group/sub")" "1234 4321 2755"
	# A default ACL is inherited, and the umask does not count then.
	mkdir -m 777 "$M/acl"
	setfacl -d -m u:77:rwx,g::rwx,o::rx "$M/acl"
	"${OTHER[@]}" bash -c "umask 077; touch '$M/acl/f'; mkdir '$M/acl/d'"
	same "$(getfacl -cpn "$M/acl/f" | tr -s '\t' ' ' | grep user:77)" "user:77:rwx #effective:rw-"
	same "$(stat -c %a "$M/acl/f" "$M/acl/d" | paste -sd,)" "664,775"
	same "$(getfacl -cpn "$M/acl/d" | grep -c default:user:77)" 1
	setfacl -m u:1234:r "$M/private/f"
	chmod 711 "$M/private"
	same "$("${OTHER[@]}" cat "$M/private/f")" 1
}

test_special_files_links_and_attributes() {
	three_branches
	all policy=mfs
	mkfifo "$M/fifo"
	mknod "$M/null" c 1 3
	ln -s target "$M/link"
	same "$(stat -c '%F %t %T' "$M/null")" "character special file 1 3"
	echo gone >"$M/null"
	same "$(readlink "$M/link")" target
	(echo through >"$M/fifo") &
	same "$(cat "$M/fifo")" through
	wait
	python3 -c "import socket,sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])" "$M/sock"
	[ -S "$M/sock" ]
	touch "$M/f"
	setfattr -n user.a -v 1 "$M/f"
	setfattr -n trusted.b -v 2 "$M/f"
	same "$(getfattr --absolute-names -d -m - "$M/f" | grep -cE '^(user.a="1"|trusted.b="2")')" 2
	setfattr -x user.a "$M/f"
	fails any "No such attribute" getfattr --absolute-names -n user.a "$M/f"
	mkdir -p "$M/p/q"
	ln "$M/f" "$M/p/q/hard"
	same "$(stat -c '%h %i' "$M/f")" "$(stat -c '%h %i' "$M/p/q/hard")"
	fails any "to a subdirectory of itself" mv "$M/p" "$M/p/q/r"
	cp --reflink=never "$M/f" "$M/copy"
}

test_locks_keep_others_out() {
	small_branches 20M 20M
	union policy=mfs "$D/a:$D/b"
	touch "$M/l"
	python3 - "$M/l" <<-'PY'
		import fcntl, os, sys
		f = open(sys.argv[1], "r+")
		fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)
		fcntl.flock(f, fcntl.LOCK_EX)
		pid = os.fork()
		if pid == 0:
		    g = open(sys.argv[1], "r+")
		    held = 0
		    for take in (lambda: fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0),
		                 lambda: fcntl.flock(g, fcntl.LOCK_EX | fcntl.LOCK_NB)):
		        try:
		            take()
		        except BlockingIOError:
		            held += 1
		    fcntl.lockf(g, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)
		    os._exit(0 if held == 2 else 1)
		sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
	PY
}

test_open_files_outlive_their_names() {
	three_branches
	local branch
	for branch in a b c; do
		union policy=ff "$D/$branch"
		python3 - "$M" <<-'PY'
			import os, sys
			path = sys.argv[1] + "/f"
			f = open(path, "w+")
			f.write("kept")
			f.flush()
			os.unlink(path)
			assert os.fstat(f.fileno()).st_nlink == 0
			assert not os.path.exists(path)
			os.ftruncate(f.fileno(), 2)
			os.fchmod(f.fileno(), 0o600)
			os.lseek(f.fileno(), 0, 0)
			assert f.read() == "ke"
			g = open(path, "w")
			assert os.fstat(g.fileno()).st_ino != os.fstat(f.fileno()).st_ino
			os.unlink(path)
		PY
		stop
	done
}

test_times_of_a_mapped_file_are_not_stale() {
	small_branches 20M 20M
	union policy=mfs "$D/a:$D/b"
	python3 - "$M/f" <<-'PY'
		import mmap, os, sys, time
		f = open(sys.argv[1], "w+b")
		f.truncate(8192)
		m = mmap.mmap(f.fileno(), 8192)
		os.utime(sys.argv[1], (5, 5))
		assert os.stat(sys.argv[1]).st_mtime == 5
		m[0] = 1
		m.flush()
		m.close()
		f.close()
		time.sleep(0.2)
		assert os.stat(sys.argv[1]).st_mtime > 5
	PY
}

test_survives_kill_9_and_finishes_nothing_by_half() {
	three_branches
	local round pid
	all policy=mfs
	mkdir "$M/d"
	stop
	for round in 1 2 3 4 5 6; do
		local branches=$D/a=local:$D/b:$D/c
		[ $((round % 2)) = 0 ] || branches=$D/a:$D/b=local:$D/c
		union policy=local "$branches"
		pid=$(server)
		# Replace one file again and again, by way of both branches.
		(for i in $(seq 100000); do
			echo "$round $i whole" >"$M/d/tmp" && mv "$M/d/tmp" "$M/d/f" || break
		done) 2>/dev/null &
		eventually 30 grep -q "^$round " "$M/d/f"
		sleep 0.3
		kill -9 "$pid"
		wait $!
		fails any "" ls "$M"
		umount -l "$M"
		union policy=local "$branches"
		grep -qE '^[0-9]+ [0-9]+ whole$' "$M/d/f"
		same "$(find "$D"/[abc]/.tributary -mindepth 1 2>/dev/null | wc -l)" 0
		stop
	done
}

test_a_busy_mount_is_detached_and_ends_with_its_last_user() {
	small_branches 20M 20M
	union policy=mfs "$D/a:$D/b"
	local pid
	pid=$(server)
	exec 7>"$M/f"
	kill -TERM "$pid"
	eventually 30 bash -c "! mountpoint -q '$M'"
	echo still >&7
	kill -0 "$pid"
	exec 7>&-
	eventually 30 gone "$pid"
	same "$(cat "$D"/[ab]/f)" still
}

test_two_hundred_branches_are_one_tree() {
	mkdir -p "$M" "$D/many"
	mount -t tmpfs none "$D/many"
	at_exit umount -l "$D/many"
	local list=""
	for i in $(seq 200); do
		mkdir "$D/many/$i"
		echo "$i" >"$D/many/$i/f$i"
		list+=${list:+:}$D/many/$i
	done
	union policy=mfs "$list"
	same "$(find "$M" -type f | wc -l)" 200
	same "$(cat "$M"/f* | sort -n | paste -sd+ | bc)" 20100
	mkdir "$M/dir"
	touch "$M/dir/x"
	rm -r "$M/dir"
	same "$(df -k --output=size "$M" | tail -n 1)" "$(df -k --output=size "$D/many" | tail -n 1)"
}

ctl() { trib-union --control "$D/ctl" "$@"; }
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
	# What was there has the numbers it had.
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
	umount "$M/sub"
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
		[ -e "$M/d/f$i" ] && [ -e "$M/d/sub/g$i" ] && [ -e "$M/e$i/h" ]
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
	fails 1 "other flags (local)" ctl add "$D/c"
	fails 1 "other flags (none)" ctl add "$D/a=ro"
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
	fails 1 "branch flag" ctl add "$D/free=rw"
	fails 1 "one branch" ctl add "$D/free:$D/left"
	fails 1 "more than one line" ctl add "$D/fr"$'\n'"ee"
	fails 1 "unknown command" ctl remove "$D/a"
	fails 2 "it is" ctl
	# Renames that a crash interrupted are finished at a mount.
	ln -s '1 M 1:aa 1:bb 1:cc x/y' "$D/left/.tributary/rename-1"
	fails 1 "has 1 renames that a crash interrupted" ctl add "$D/left"
	[ -L "$D/left/.tributary/rename-1" ]
	# None of them changed anything.
	same "$(ctl status | jq -c '.branches | map(.path)')" "[\"$D/a\",\"$D/b\"]"
	same "$(ctl add "$D/free")" '{"id":2}'
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
	mkdir "$D/other" "$D/mnt2"
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b"
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
