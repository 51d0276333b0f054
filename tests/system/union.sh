#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# trib-union over an ext4, an XFS and a tmpfs branch: as a command, its policies,
# names, attributes, and what is left when it is killed.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need setfattr getfacl setfacl setpriv setcap python3 bc

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
	at_exit union_end "$M"
	eventually 30 mountpoint -q "$M"
	unmount "$M"
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
	fails 2 "unknown option 'cache.file'" trib-union -o cache.file=off "$D/a" "$M"
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
	# A change of the owner, to nobody, is no write.
	python3 -c 'import os, sys; os.fchown(os.open(sys.argv[1], os.O_RDWR), -1, -1)' "$M/f"
	same "$(stat -c %a "$M/f")" 755
	chown 0:4321 "$M/f"
	chmod 2644 "$M/f" # no program of the group's: it stays
	python3 -c 'import os, sys; os.chown(sys.argv[1], -1, -1)' "$M/f"
	same "$(stat -c %a "$M/f")" 2644
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

test_fstab_mounts_it_as_any_file_system() {
	mkdir -p "$M" "$D/disks/2" "$D/disks/10" "$D/disks/a b" "$D/old" "$D/upper" "$D/work"
	touch "$D/disks/file" "$D/old/there"
	mkdir "$D/ns"
	mount -t tmpfs none "$D/ns"
	at_exit umount -l "$D/ns"
	mkdir "$D/ns/upper" "$D/ns/work"
	cat >"$D/fstab" <<-END
		$D/disks/*:$D/old=NC,1G $M fuse.trib-union category.create=ff,nofail,_netdev,x-systemd.automount,noatime,minfreespace=1M,cache.files=off,log=$D/log 0 0
		$D/disks/2 $D/bad fuse.trib-union nullrw=true 0 0
	END
	mkdir "$D/bad"
	head -n 1 "$D/fstab" >"$D/good"
	sed 's/log=/fsname=pool,log=/' "$D/good" >"$D/named"
	# /sbin with the helper, for this and for nobody else.
	cat >"$D/in-namespace" <<-END
		set -e
		sbin=\$(realpath /sbin)
		mount -t overlay -o "lowerdir=\$sbin,upperdir=$D/ns/upper,workdir=$D/ns/work" none "\$sbin"
		ln -s "$BUILD/bin/trib-union" /sbin/mount.fuse.trib-union
		mount -T "$D/fstab" "$M"
		findmnt -no FSTYPE,OPTIONS "$M"
		getfattr --absolute-names --only-values -n user.union.branches "$M/.union"
		echo
		touch "$M/new"
		ls "$M" "$D/disks/10"
		mount -f -T "$D/fstab" "$D/bad"
		mount -T "$D/fstab" "$D/bad" && exit 1
		# Once more is as well, by whatever name it is there.
		mount -a -T "$D/good"
		mount -a -T "$D/named"
		mount -T "$D/named" "$M"
		grep -c " $M " /proc/self/mountinfo
		umount "$M"
		mount -a -T "$D/named"
		mount -a -T "$D/named"
		umount "$M"
		! mountpoint -q "$M" || false
	END
	unshare -m --propagation slave bash "$D/in-namespace" >"$D/out" 2>"$D/err" || fail "$(cat "$D/out" "$D/err")"
	grep -q "^fuse.trib-union rw,.*noatime" "$D/out" || fail "$(cat "$D/out")"
	grep -q "^$D/disks/10=rw:$D/disks/2=rw:$D/disks/a b=rw:$D/old=nc,1G$" "$D/out"
	[ -e "$D/disks/10/new" ]
	grep -q "nullrw=true" "$D/err"
	same "$(grep -c "is mounted already" "$D/err")" 2
	same "$(wc -l <"$D/err")" 3
	same "$(grep -xc 1 "$D/out")" 1
}

test_free_space_of_some_branches_is_not_counted() {
	small_branches 20M 40M
	union statfs-ignore=nc "$D/a:$D/b=nc"
	same "$(df -m --output=size "$M" | tail -n 1 | tr -d ' ')" 60
	same "$(df -m --output=avail "$M" | tail -n 1 | tr -d ' ')" 20
}

test_bad_branches_and_names_of_two_kinds_are_defined() {
	small_branches 20M 20M
	touch "$D/a/file"
	mkdir -p "$D/a/sub" "$D/b/kind" "$D/a/other"
	echo file >"$D/a/kind"
	echo hidden >"$D/b/other"
	ln -s nowhere "$D/a/link"
	mkdir "$D/b/link"
	fails 1 "Not a directory" trib-union "$D/a/file" "$M"
	fails 1 "No such file" trib-union "$D/a/none" "$M"
	fails 1 "No such file" trib-union "$D/a/link" "$M"
	fails 1 "one in the other" trib-union "$D/a:$D/a/sub" "$M"
	fails 1 "same directory" trib-union "$D/a:$D/b/../a" "$M"
	fails 1 "one in the other" trib-union "$D" "$M"
	fails 2 "nothing matches" trib-union "$D/a/none*" "$M"
	fails 2 "no directory matches" trib-union "$D/a/fil?" "$M"
	# One file system twice: its space counts once.
	mkdir "$D/a/twice"
	union policy=ff "$D/a/sub:$D/a/twice"
	same "$(df -m --output=size "$M" | tail -n 1 | tr -d ' ')" 20
	stop
	union policy=ff "$D/a:$D/b"
	# The lowest branch says what a name is.
	same "$(cat "$M/kind")" file
	[ -d "$M/other" ]
	[ -L "$M/link" ]
	rm "$M/kind" "$M/link"
	[ -d "$M/kind" ]
	[ -d "$M/link" ]
	rmdir "$M/other"
	[ ! -e "$M/other" ]
	same "$(cat "$D"/b/.tributary/hidden-*-other)" hidden
	local name
	name=$(printf 'n%.0s' {1..255})
	mkdir "$M/$name"
	touch "$M/$name/$name"
	[ -e "$D/a/$name/$name" ]
	fails any "too long" touch "$M/${name}n"
	fails any "too long" mkdir "$M/${name}n"
	rm -r "${M:?}/$name"
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
	rm "$D"/[ab]/link
	ln -s other "$D/a/link"
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
	at_exit union_end "$M"
	echo 1 >"$M/f"
	same "$(cat "$D/x:y=ro/f")" 1
}

test_readahead_and_capabilities_are_as_its_options_say() {
	mkdir -p "$M"
	loop_fs a 64M mkfs.ext4 -q -m 0
	local ahead="/sys/class/bdi/$(mountpoint -d "$D/a")/read_ahead_kb"
	[ -w "$ahead" ] || skip "it cannot be set here"
	cp "$(type -P true)" "$D/a/true"
	setcap cap_net_raw+ep "$D/a/true"
	union readahead=1024,security_capability=false "$D/a"
	same "$(cat "$ahead")" 1024
	fails any "No such attribute" getfattr --absolute-names -n security.capability "$M/true"
	stop
	union readahead=0 "$D/a"
	same "$(cat "$ahead")" 1024
	getfattr --absolute-names -n security.capability "$M/true" >/dev/null
}

# Each name's number, which all ways to ask for it agree on: NAME NUMBER.
numbers() { # BITS
	python3 - "$M" "$1" <<-'END'
		import os, subprocess, sys
		top, bits = sys.argv[1], int(sys.argv[2])
		def show(path, listed=None):
		    name = os.path.relpath(path, top)
		    st = os.lstat(path)
		    said = int(subprocess.check_output(['stat', '-c', '%i', path]))
		    assert st.st_ino == said and listed in (None, st.st_ino), (name, st.st_ino, said, listed)
		    assert 0 < st.st_ino < 2 ** bits, (name, hex(st.st_ino))
		    print(name, st.st_ino)
		show(top)
		for again in 'cached', 'or not': # the second time names are known
		    for dirpath, _, _ in os.walk(top):
		        with os.scandir(dirpath) as it:
		            entries = list(it)
		        for entry in sorted(entries, key=lambda e: e.name):
		            if again == 'cached':
		                entry.stat(follow_symlinks=False)
		            else:
		                show(entry.path, entry.inode())
		        own = {e: os.stat(os.path.join(dirpath, e)).st_ino for e in ('.',)}
		        assert own['.'] == os.lstat(dirpath).st_ino
		for name in ('.union', 'd/f'):
		    path = os.path.join(top, name)
		    assert 0 < os.stat(path).st_ino < 2 ** bits
		with open(os.path.join(top, 'd/f')) as f:
		    assert os.fstat(f.fileno()).st_ino == os.stat(f.name).st_ino
	END
}
number() { awk -v n="$2" '$1 == n { print $2 }' "$1"; } # LIST NAME

all_numbers() { # VALUE BITS: of one tree, over a kill and a mount
	union "inodecalc=$1,policy=ff,control=$D/ctl" "$D/a:$D/b"
	numbers "$2" >"$D/first"
	kill -9 "$(server)"
	numbers "$2" | diff "$D/first" - || fail "$1: others by the next server"
	stop
	union "inodecalc=$1,policy=ff,control=$D/ctl" "$D/a:$D/b"
	numbers "$2" | diff "$D/first" - || fail "$1: others at the next mount"
	mv "$M/d/f" "$M/d/renamed"
	local was now
	was=$(number "$D/first" d/f)
	now=$(stat -c %i "$M/d/renamed")
	mv "$M/d/renamed" "$M/d/f"
	case $1 in
	path-hash*)
		[ "$was" != "$now" ] || fail "$1: a new name is not seen"
		[ "$(number "$D/first" d/one)" != "$(number "$D/first" d/two)" ] || fail "$1: hard links are alike"
		;;
	*)
		same "$now" "$was" "$1: with a new name"
		same "$(number "$D/first" d/two)" "$(number "$D/first" d/one)" "$1: hard links"
		;;
	esac
	[ "$1" = passthrough ] || same "$(sed 's/.* //' "$D/first" | sort | uniq -d | wc -l)" "$DOUBLE" "$1: two have one number"
	stop
}

test_inode_numbers_are_what_inodecalc_says() {
	mkdir -p "$M"
	loop_fs a 64M mkfs.ext4 -q -m 0
	loop_fs b 320M mkfs.xfs -q
	mkdir -p "$D/a/d/e" "$D/b/d/x/y"
	echo f >"$D/a/d/f"
	echo g >"$D/b/d/g"
	echo h >"$D/b/d/x/y/h"
	ln -s f "$D/b/d/l"
	echo one >"$D/b/d/one"
	ln "$D/b/d/one" "$D/b/d/two"
	local value
	for value in hybrid-hash devino-hash passthrough; do DOUBLE=1 all_numbers $value 64; done
	for value in hybrid-hash32 devino-hash32; do DOUBLE=1 all_numbers $value 32; done
	DOUBLE=0 all_numbers path-hash 64
	DOUBLE=0 all_numbers path-hash32 32
	# The branch's own, and the path's whatever branch it is on.
	union "inodecalc=passthrough" "$D/a:$D/b"
	same "$(stat -c %i "$M/d/f" "$M/d/g")" "$(stat -c %i "$D/a/d/f" "$D/b/d/g")"
	stop
	union "inodecalc=path-hash32,control=$D/ctl" "$D/a:$D/b"
	numbers 32 >"$D/first"
	stop
	union "inodecalc=path-hash32" "$D/b:$D/a"
	numbers 32 | diff "$D/first" - || fail "of another order of branches"
	stop
	fails any "option 'inodecalc=hash' needs a value: passthrough" trib-union -o inodecalc=hash "$D/a" "$M"
}

# old_stat PATH...: numbers as a program of 32 bits gets them that was built before
# large files. Its struct stat (man 2 stat; asm/stat.h) has 32 bits for them, and the
# kernel says EOVERFLOW for larger ones. Made without a C library of 32 bits.
make_old_stat() {
	cat >"$D/old_stat.c" <<-'END'
		struct old_stat { unsigned long device, inode, more[14]; };
		static long call(long number, long a, long b, long c)
		{
			long r;
			__asm__ volatile("int $0x80" : "=a"(r) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
			return r;
		}
		__attribute__((used)) static void begin(char **words)
		{
			for (words += 2; *words; words++) { /* argc and the program's name */
				struct old_stat st;
				char text[12], *at = text + sizeof(text);
				long r = call(106 /* stat */, (long)*words, (long)&st, 0);
				if (r < 0)
					call(1 /* exit */, -r, 0, 0);
				*--at = 10;
				do *--at = '0' + st.inode % 10; while (st.inode /= 10);
				call(4 /* write */, 1, (long)at, text + sizeof(text) - at);
			}
			call(1, 0, 0, 0);
		}
		__asm__(".globl _start\n_start: mov %esp, %eax\nand $-16, %esp\nsub $12, %esp\n"
			"push %eax\ncall begin\n");
	END
	[ "$(uname -m)" = x86_64 ] || skip "no x86"
	${CC:-cc} -m32 -O1 -ffreestanding -fno-stack-protector -fno-pie -no-pie -static -nostdlib \
		-o "$D/old_stat" "$D/old_stat.c"
	same "$("$D/old_stat" /proc)" "$(stat -c %i /proc)"
}

test_a_program_of_32_bits_gets_numbers_of_32_bits() {
	make_old_stat
	three_branches
	mkdir -p "$D/a/d/e" "$D/b/d"
	echo f >"$D/a/d/f"
	echo g >"$D/b/d/g"
	local value files=("$M" "$M/d" "$M/d/e" "$M/d/f" "$M/d/g" "$M/.union")
	for value in hybrid-hash32 devino-hash32 path-hash32; do
		union "inodecalc=$value" "$D/a:$D/b:$D/c"
		same "$("$D/old_stat" "${files[@]}")" "$(stat -c %i "${files[@]}")" "$value"
		stop
	done
	# Numbers of 64 bits are too large for a 32-bit program.
	union "inodecalc=path-hash" "$D/a:$D/b:$D/c"
	fails 75 "" "$D/old_stat" "$M/d/f"
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
	setfattr -n security.capability "$M/d" # is none: nobody can read it
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
	getfattr --absolute-names -m - "$D/a/d" | grep -q security.capability
	same "$(stat -c '%a %u %g' "$D/a/d")" "2770 1234 4321"
	same "$(stat -c %Y "$D/a")" "$root_time" "the root did not change"
	# A change of the directory reaches all copies.
	chmod 00700 "$M/d"
	chown 5:6 "$M/d"
	setfattr -n user.colour -v red "$M/d"
	same "$(stat -c '%a %u %g' "$D/a/d" "$D/b/d" | sort -u)" "700 5 6"
	same "$(getfattr --absolute-names --only-values -n user.colour "$D/b/d")" red
}

# Copies of directories are made by who makes something further down.
is_made_on_b() {
	touch "$M/d/there$RANDOM"
	ls "$D/b/d" | grep -q there
}

listed() { (cd "$M" && find . -mindepth 1 | sort | paste -sd' '); }
# Somebody works on the branches themselves, with names that were looked up.
test_directories_that_others_make_one_or_two_are_so() {
	small_branches 20M 20M
	mkdir -p "$D/a/v/Foo/sub" "$D/b/v/Bar/sub" "$D/a/x" "$D/b/y"
	touch "$D/a/v/Foo/1" "$D/b/v/Bar/2" "$D/a/v/Foo/sub/3" "$D/b/v/Bar/sub/4" "$D/b/y/5"
	union policy=ff,shared "$D/a:$D/b"
	same "$(listed)" "./v ./v/Bar ./v/Bar/2 ./v/Bar/sub ./v/Bar/sub/4 ./v/Foo ./v/Foo/1 ./v/Foo/sub ./v/Foo/sub/3 ./x ./y ./y/5"
	# Two become one, with all that is below them; seen by name and by list.
	mv "$D/a/v/Foo" "$D/a/v/Bar"
	same "$(stat -c %n "$M"/v/Bar/sub/[34] | wc -l)" 2
	same "$(listed)" "./v ./v/Bar ./v/Bar/1 ./v/Bar/2 ./v/Bar/sub ./v/Bar/sub/3 ./v/Bar/sub/4 ./x ./y ./y/5"
	fails any "No such file" ls "$M/v/Foo"
	touch "$M/v/Bar/sub/6"
	[ -f "$D/a/v/Bar/sub/6" ]
	# The same, seen first by a file in the higher one.
	mv "$D/b/y" "$D/b/x"
	cat "$M/x/5"
	same "$(ls "$M/x")" 5
	# One becomes two.
	mv "$D/b/v/Bar" "$D/b/v/Baz"
	same "$(ls "$M/v/Bar")" 1$'\n'sub
	same "$(ls "$M/v/Baz")" 2$'\n'sub
	same "$(ls "$M/v/Baz/sub" "$M/v/Bar/sub" | grep -c '^[346]$')" 3
	# And the one is looked for that has another's place.
	mv "$D/a/v/Bar" "$D/a/v/Foo"
	mv "$D/b/v/Baz" "$D/b/v/Bar"
	mv "$D/a/v/Foo" "$D/a/v/Bar"
	same "$(ls "$M/v")" Bar
	same "$(ls "$M/v/Bar")" 1$'\n'2$'\n'sub
	# Two directories change names with each other on one branch.
	mkdir "$D/a/v/other" "$D/b/v/other"
	touch "$D/a/v/other/7" "$D/b/v/other/8"
	same "$(ls "$M/v/other")" 7$'\n'8
	mv "$D/b/v/other" "$D/b/v/t"
	mv "$D/b/v/Bar" "$D/b/v/other"
	mv "$D/b/v/t" "$D/b/v/Bar"
	same "$(ls "$M/v/Bar")" 1$'\n'8$'\n'sub
	same "$(ls "$M/v/other")" 2$'\n'7$'\n'sub
	# The next server has them so, too, and all of it can be removed.
	kill -9 "$(server)"
	same "$(ls "$M/v/Bar" "$M/v/other" | grep -c '^[1278]$')" 4
	rm -r "$M/v" "$M/x"
	same "$(find "$D/a" "$D/b" -mindepth 1 -not -path '*/.tributary*')" ""
}
test_an_attribute_of_a_directory_needs_no_room_on_each_branch() {
	loop_fs a 64M mkfs.ext4 -q -m 0
	loop_fs b 8M mkfs.ext4 -q -m 0 -b 1024 -I 256
	local value acl
	acl=$(printf 'u:%d:rwx,' {1000..1060})
	mkdir -p "$D/a/d" "$D/b/d" "$M"
	mkdir "$D/a/acl" "$D/b/acl" "$D/b/same"
	setfacl -m "${acl%,}" "$D/a/acl" "$D/b/acl" "$D/b/same" # share their ACL
	union policy=ff "$D/a:$D/b"
	touch "$M/d/f"
	value=$(printf '%0600d' 7)
	setfattr -n user.small -v 1 "$M/d"
	dd if=/dev/zero of="$D/b/fill" bs=1k status=none 2>/dev/null || true
	setfattr -n user.large -v "$value" "$M/d"
	same "$(getfattr --absolute-names --only-values -n user.large "$M/d")" "$value"
	fails any "No such attribute" getfattr -n user.large "$D/b/d"
	fails any "No space" chmod 705 "$D/b/acl"
	chmod 705 "$M/acl"
	same "$(stat -c %a "$M/acl")" 705
	# Once something is made there it is as the first.
	rm "$D/b/fill"
	setfattr -n user.union.category.create -v lus "$M/.union"
	eventually 30 is_made_on_b # free space is asked for once a second
	same "$(getfattr --absolute-names --only-values -n user.large "$D/b/d")" "$value"
}

test_copies_made_while_a_directory_changes_are_as_it_is() {
	local k list=
	loop_fs a 128M mkfs.ext4 -q -m 0
	for k in 1 2 3 4 5 6 7 8; do
		mkdir -p "$D/a/$k" "$M"
		list+=${list:+:}$D/a/$k
	done
	union policy=rand "$list"
	python3 - "$M" "$list" <<-'PY'
	import os, sys, threading
	mnt, branches = sys.argv[1], sys.argv[2].split(":")
	failed = []
	def make(top):
	    try:
	        for i in range(12):
	            os.close(os.open(f"{top}/sub/{i}", os.O_CREAT | os.O_WRONLY))
	    except OSError as e:
	        failed.append(e)
	def seen(path):
	    return oct(os.stat(path).st_mode), os.getxattr(path, "user.last")
	for n in range(200):
	    top = f"{mnt}/{n}"
	    os.makedirs(f"{top}/sub")
	    maker = threading.Thread(target=make, args=(top,))
	    maker.start()
	    for k in range(12):
	        os.chmod(top, 0o700 | k)
	        os.setxattr(top, "user.last", b"x" * (k + 1))
	    maker.join()
	    wanted = oct(0o40700 | 11), b"x" * 12
	    for path in [top] + [f"{b}/{n}" for b in branches if os.path.isdir(f"{b}/{n}")]:
	        if seen(path) != wanted:
	            failed.append(f"{path}: {seen(path)}, not {wanted}")
	for one in failed[:5]:
	    print(one)
	sys.exit(failed != [])
	PY
}

# Nothing more can be made there, not even what keeps the file's number.
test_a_write_that_meets_a_quota_moves_the_file() {
	which btrfs mkfs.btrfs >/dev/null 2>&1 || skip "needs btrfs-progs"
	loop_fs a 300M mkfs.btrfs -q
	loop_fs b 200M mkfs.ext4 -q -m 0
	mkdir -p "$M"
	btrfs quota enable "$D/a"
	btrfs subvolume create "$D/a/user" >/dev/null
	btrfs subvolume create "$D/a/other" >/dev/null
	btrfs qgroup limit 20M "$D/a/user"
	btrfs qgroup limit 20M "$D/a/other"
	union policy=ff,passthrough=off "$D/a/user:$D/b"
	echo first >"$M/f"
	ln "$M/f" "$M/g"
	local number
	number=$(stat -c %i "$M/f")
	dd if=/dev/zero of="$M/f" bs=1M count=40 seek=1 conv=notrunc status=none
	same "$(stat -c '%s %h %i' "$M/f")" "$((41 << 20)) 2 $number"
	same "$(head -n 1 "$M/g" | tr -d '\0')" first
	[ ! -e "$D/a/user/f" ]
	[ -e "$D/b/g" ]
	unmount "$M"
	# Where neither has room for it the write fails, and the file is whole.
	union policy=ff,passthrough=off "$D/a/user:$D/a/other"
	fails any "" dd if=/dev/zero of="$M/h" bs=1M count=40 status=none
	same "$(tr -d '\0' <"$M/h" | wc -c)" 0
	unmount "$M"
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
	touch "$M/f"
	[ -f "$D/b/f" ]
	stop
	union policy=ff "$D/a:$D/b"
	touch "$M/g"
	[ -f "$D/a/g" ]
	stop
	union policy=ff,minfreespace=30M "$D/a:$D/b"
	touch "$M/h"
	[ -f "$D/b/h" ]
	stop
	union policy=local "$D/a=local:$D/b"
	mkdir "$M/d"
	touch "$M/d/i"
	[ -f "$D/a/d/i" ]
	stop
	union policy=epmfs "$D/a:$D/b"
	touch "$M/d/j"
	[ -f "$D/a/d/j" ]
	touch "$M/k"
	[ -f "$D/b/k" ]
}

# NAME: older on a, newer on b, and the oldest on c
three_of() {
	echo old >"$D/a/$1"
	echo new >"$D/b/$1"
	echo oldest >"$D/c/$1"
	touch -d "1 hour ago" "$D/a/$1"
	touch -d "2 hours ago" "$D/c/$1"
}

test_a_policy_says_which_file_of_several_is_seen() {
	mkdir -p "$D/a" "$D/b" "$D/c" "$M"
	local name
	for name in f g h open target later; do three_of $name; done
	echo file >"$D/a/lowest"
	mkdir -p "$D/b/lowest" "$D/a/dir" "$D/c/dir/in"
	echo file >"$D/b/dir"
	all category.search=newest
	same "$(cat "$M/f")" new
	same "$(stat -c %s "$M/f")" 4
	same "$(stat -c %Y "$M/f")" "$(stat -c %Y "$D/b/f")"
	same "$(getfattr --absolute-names --only-values -n user.tributary.fullpath "$M/f")" "$D/b/f"
	same "$(getfattr --absolute-names --only-values -n user.tributary.explain.f "$M" |
		jq -c '[.copies[] | [.branch, .shown]]')" "[[0,false],[1,true],[2,false]]"
	# A directory is not chosen, and one that is lowest hides files.
	same "$(cat "$M/lowest")" file
	[ -d "$M/dir/in" ]
	# A change goes to the file that is seen.
	chmod 600 "$M/g"
	same "$(stat -c %a "$D/a/g" "$D/b/g" | paste -sd,)" "644,600"
	mv "$M/g" "$M/to"
	same "$(cat "$D/b/to" "$M/to" | paste -sd,)" "new,new"
	[ ! -e "$D/a/g" ] && [ ! -e "$D/c/g" ] && [ ! -e "$M/g" ]
	mv "$M/to" "$M/target"
	same "$(cat "$M/target" "$D/b/target" | paste -sd,)" "new,new"
	[ ! -e "$D/a/target" ] && [ ! -e "$D/c/target" ]
	ls -l "$M" >/dev/null
	same "$(cat "$M/h")" new
	python3 - "$M/open" <<-END
		import os, sys
		fd = os.open(sys.argv[1], os.O_RDWR)
		path = os.open(sys.argv[1], os.O_PATH)
		os.unlink(sys.argv[1])
		for each in fd, path:
		    st = os.fstat(each)
		    assert st.st_size == 4 and st.st_nlink == 0, st
		assert os.read(fd, 9) == b"new\n"
	END
	[ ! -e "$M/open" ] && [ ! -e "$D/a/open" ] && [ ! -e "$D/b/open" ]
	# Another policy counts from the next look.
	stop
	all func.getattr=ff
	same "$(cat "$M/f")" old
	setfattr -n user.union.func.getattr -v newest "$M/.union"
	same "$(cat "$M/later")" new
}

test_a_policy_says_whether_hidden_files_go_too() {
	mkdir -p "$D/a" "$D/b" "$D/c" "$M"
	local name
	for name in f g; do three_of $name; done
	all category.action=epff
	same "$(cat "$M/f")" old
	rm "$M/f"
	same "$(cat "$M/f")" new
	rm "$M/f"
	same "$(cat "$M/f")" oldest
	rm "$M/f"
	[ ! -e "$M/f" ]
	same "$(cat "$M/g")" old
	mv "$M/g" "$M/h"
	same "$(cat "$M/h" "$M/g" | paste -sd,)" "old,new"
	same "$(cat "$D/a/h" "$D/b/g" "$D/c/g" | paste -sd,)" "old,new,oldest"
	# The file that a rename replaces goes with all that it hides.
	mv "$M/g" "$M/h"
	same "$(cat "$M/h" "$D/b/h" "$M/g" | paste -sd,)" "new,new,oldest"
	[ ! -e "$D/a/h" ]
	stop
	for name in f g; do three_of $name; done
	all func.rename=ff
	rm "$M/f"
	[ ! -e "$D/a/f" ] && [ ! -e "$D/b/f" ] && [ ! -e "$D/c/f" ]
	mv "$M/g" "$M/x"
	same "$(cat "$M/g")" new
}

test_every_policy_makes_names_by_function() {
	small_branches 20M 40M
	local policy
	mkdir "$D/a/in" "$D/a/in/deep"
	head -c 1M /dev/zero >"$D/b/used" # more than a union leaves on a
	for policy in pfrd mfs lfs lus lup ff rand newest all local epall epff eplfs eplus eplup \
		epmfs eppfrd eprand msplfs msplus msplup mspmfs msppfrd; do
		union "category.create=$policy,category.search=newest,func.chmod=ff" "$D/a:$D/b"
		mkdir "$M/in/deep/$policy"
		touch "$M/in/deep/$policy/f" "$M/$policy"
		same "$(stat_of policy)" "$policy"
		case $policy in
		ep* | newest | msp*)
			[ -d "$D/a/in/deep/$policy" ]
			[ ! -e "$D/b/in" ]
			;;
		lus) [ -f "$D/a/$policy" ] ;;
		esac
		case $policy in
		all)
			[ -d "$D/a/in/deep/all" ]
			[ -d "$D/b/in/deep/all" ]
			rm -r "$M/in/deep/all"
			;;
		epall) [ -d "$D/a/in/deep/epall" ] ;;
		*) rm -r "$M/in/deep/$policy" ;;
		esac
		rm -rf "$D/b/in"
		stop
	done
	union "policy=mfs,func.mkdir=ff,func.symlink=epff" "$D/a:$D/b"
	mkdir "$M/d"
	[ -d "$D/a/d" ]
	ln -s x "$M/d/s"
	[ -L "$D/a/d/s" ]
	touch "$M/d/f"
	[ -f "$D/b/d/f" ]
	stop
	# No room where the policy wants it: then elsewhere.
	mkdir "$D/a/only" "$D/a/only/here"
	dd if=/dev/zero of="$D/a/fill" bs=1M status=none || true
	for policy in epmfs msplfs eprand; do
		union "policy=$policy" "$D/a:$D/b"
		dd if=/dev/zero of="$M/only/here/$policy" bs=64k count=1 status=none
		[ -f "$D/b/only/here/$policy" ]
		stop
	done
}

test_nothing_new_goes_to_a_branch_that_is_nc() {
	small_branches 20M 40M
	mkdir "$D/b/d"
	echo 1 >"$D/b/d/f"
	union policy=mfs "$D/a:$D/b=NC"
	touch "$M/new" "$M/d/new"
	[ -f "$D/a/new" ]
	[ -f "$D/a/d/new" ]
	echo 2 >"$M/d/f"
	ln "$M/d/f" "$M/link"
	mv "$M/d/f" "$M/moved"
	[ -f "$D/b/moved" ]
	[ -f "$D/b/link" ]
	same "$(cat "$M/link")" 2
	stop
	union policy=mfs "$D/a=nc:$D/b=nc"
	fails any "Read-only" touch "$M/none"
	stop
	union policy=mfs "$D/a:$D/b=RW,50M"
	touch "$M/least"
	[ -f "$D/a/least" ]
}

value_of() { getfattr --absolute-names --only-values -n "$1" "$2"; }

test_it_is_told_where_a_path_is_and_where_the_next_goes() {
	small_branches 20M 40M
	mkdir "$D/a/d" "$D/b/d" "$D/b/d/sub"
	echo 1 >"$D/a/d/f"
	echo 2 >"$D/b/d/f"
	ln -s nowhere "$D/b/d/link"
	union policy=mfs,minfreespace=1M "$D/a=nc:$D/b"
	same "$(value_of user.tributary.fullpath "$M/d/f")" "$D/a/d/f"
	same "$(value_of user.tributary.basepath "$M/d/sub")" "$D/b"
	same "$(value_of user.mergerfs.relpath "$M/d/f")" /d/f
	same "$(value_of user.tributary.allpaths "$M/d/f" | tr '\0' ' ')" "$D/a/d/f $D/b/d/f "
	same "$(value_of user.tributary.allpaths "$M" | tr '\0' ' ')" "$D/a/ $D/b/ "
	fails any "not permitted" setfattr -n user.tributary.fullpath -v x "$M/d/f"
	getfattr -d "$M/d/f" | grep tributary && fail "it is listed"
	trib union explain "$M/d/f" --json >"$D/json"
	jq -e --arg d "$D" '(.copies | map([.path, .shown]) == [[$d + "/a/d/f", true], [$d + "/b/d/f", false]]) and
		.policy == "mfs" and (.next | map([.branch, .order]) == [[1, 1], [0, null]]) and
		(.next[1].why | test("nc"))' "$D/json"
	trib union explain "$M/d" --json | jq -e '.copies | map(.type) == ["directory", "directory"]'
	trib union explain "$M/d/link" --json | jq -e '.copies | map([.branch, .type]) == [[1, "link"]]'
	trib union explain "$M/d/absent" >"$D/text"
	grep -q "on no branch" "$D/text"
	grep -q "policy mfs" "$D/text"
	trib union explain "$M/d/f" | grep -q "hidden"
	(cd "$M/d" && trib union explain f | grep -q "$D/b/d/f")
	trib union status "$M/d" | grep -q "$D/a *nc"
	trib union status "$M" --json | jq -e '.branches | length == 2'
	fails 3 "on no union" trib union status "$D"
	fails 3 "on no union" trib union explain "$D/a/d"
	fails 3 "No such file" trib union explain "$M/none/f"
	# A name may be as long as it can be.
	local long length
	for length in 232 233 254 255; do
		long=$(printf "%0${length}d" 7)
		touch "$M/d/$long" "$M/d/${long%7}8"
		trib union explain "$M/d/$long" --json | jq -e --arg path "$D/b/d/$long" '.copies | map(.path) == [$path]'
		rm "$M/d/$long"
		trib union explain "$M/d/$long" --json | jq -e '.copies == []'
	done
	fails 1 "too long" trib union explain "$M/d/$(printf '%0256d' 7)"
	fails any "No such attribute" value_of user.tributary.explain-long.7 "$M/d"
}

test_settings_are_attributes_of_dot_union() {
	small_branches 20M 40M
	echo real >"$D/a/.union"
	union "policy=mfs,control=$D/ctl" "$D/a:$D/b=RW,1M"
	same "$(ls -A "$M")" ""
	same "$(stat -c '%a %u %s' "$M/.union")" "644 0 0"
	getfattr -d --absolute-names "$M/.union" >"$D/all"
	grep -q "^user.union.branches=\"$D/a=rw:$D/b=rw,1M\"$" "$D/all"
	grep -q '^user.union.func.truncate="epall"$' "$D/all"
	grep -q "^user.union.control=\"$D/ctl\"$" "$D/all"
	same "$(value_of user.union.pid "$M/.union")" "$(server)"
	touch "$M/f"
	[ -f "$D/b/f" ]
	setfattr -n user.union.category.create -v ff "$M/.union"
	touch "$M/g"
	[ -f "$D/a/g" ]
	setfattr -n user.union.minfreespace -v 30M "$M/.union"
	touch "$M/h"
	[ -f "$D/b/h" ]
	setfattr -n user.union.minfreespace -v 1M "$M/.union" # a has room again
	setfattr -n user.union.func.mkdir -v all "$M/.union"
	mkdir "$M/both"
	[ -d "$D/a/both" ]
	[ -d "$D/b/both" ]
	same "$(value_of user.union.category.create "$M/.union")" mixed
	fails any "Invalid" setfattr -n user.union.func.mkdir -v best "$M/.union"
	grep -q "the policies are" "$D/log"
	fails any "not supported" setfattr -n user.union.pid -v 1 "$M/.union"
	fails any "No such attribute" setfattr -n user.union.speed -v 1 "$M/.union"
	fails any "not permitted" setfattr -n user.other -v 1 "$M/.union"
	fails any "denied" "${OTHER[@]}" setfattr -n user.union.minfreespace -v 0 "$M/.union"
	"${OTHER[@]}" getfattr -n user.union.version "$M/.union" >/dev/null
	fails any "" cat "$M/.union"
	fails any "" touch "$M/.union"
	fails any "" rm "$M/.union"
	fails any "" mv "$M/f" "$M/.union"
	fails any "" ln "$M/f" "$M/.union"
	rm "$M/f" "$M/g" "$M/h"
	same "$(cat "$D/a/.union")" real
	# In a directory it is a name as any other.
	touch "$M/both/.union"
	[ "$(ls -A "$M/both")" = .union ]
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
	ln "$D/b/other" "$D/b/link"
	echo first >"$D/a/link"
	mkdir "$D/a/mixed" "$D/b/dir"
	touch "$D/b/mixed" "$D/b/dir/x"
	union policy=mfs "$D/a:$D/b"
	same "$(cat "$M/both")" first
	same "$(find "$M" -mindepth 1 | wc -l)" 6
	[ -d "$M/mixed" ]
	# Onto a name that hides another of the same file: that is one, too.
	mv "$M/other" "$M/link"
	same "$(cat "$M/link")" other
	[ ! -e "$M/other" ]
	same "$(find "$D/a" "$D/b" -name link -o -name other)" "$D/b/link"
	mv "$M/link" "$M/other"
	mv "$M/other" "$M/both"
	same "$(cat "$M/both")" other
	[ ! -e "$D/a/both" ]
	echo hidden >"$D/a/hidden" # after the mount: a branch is ours alone
	rm "$M/both"
	[ ! -e "$M/both" ]
	[ ! -e "$D/b/both" ]
	fails any "not empty" rmdir "$M/dir"
}

test_a_hidden_file_makes_room_unseen() {
	small_branches 20M 20M
	mkdir "$D/a/d"
	echo hidden >"$D/b/d"
	union policy=ff "$D/a=nc:$D/b"
	touch -d 2001-01-01 "$M"
	touch "$M/d/new"
	[ -e "$D/b/d/new" ]
	same "$(cat "$D"/b/.tributary/hidden-*-d)" hidden
	stop # what the kernel knows does not help
	union policy=ff "$D/a=nc:$D/b"
	same "$(stat -c %Y "$M")" "$(date -d 2001-01-01 +%s)"
}

test_a_rename_onto_what_is_not_empty_leaves_no_trace() {
	small_branches 20M 20M
	mkdir -p "$D/a/d" "$D/b/d" "$D/b/e/full"
	union policy=ff "$D/a:$D/b"
	touch -d 2001-01-01 "$M"
	fails any "not empty" mv -T "$M/d" "$M/e"
	stop
	union policy=ff "$D/a:$D/b"
	same "$(stat -c %Y "$M")" "$(date -d 2001-01-01 +%s)"
	same "$(ls "$D/a" "$D/b" | paste -sd ' ')" "$D/a: d  $D/b: d e"
}

test_names_known_by_listings_alone_change_places() {
	three_branches
	mkdir -p "$D/b/d/sub"
	echo file >"$D/a/f"
	union policy=ff "$D/a:$D/b"
	ls -lR "$M" >"$D/listed"
	python3 - "$M" <<-'PY'
		import ctypes, os, sys
		os.chdir(sys.argv[1])
		assert ctypes.CDLL(None).renameat2(-100, b"d/sub", -100, b"f", 2) == 0
	PY
	same "$(ls "$M/d")" sub
	same "$(cat "$M/d/sub")" file
	[ -d "$M/f" ]
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
	# By the owner, who is not of the group that it had but of the new one.
	chown 1234:4321 "$f"
	chmod 2644 "$f"
	"${OTHER[@]}" chgrp 1234 "$f"
	same "$(stat -c '%a %g' "$f")" "644 1234" "given to another group"
	chown 0:0 "$f"
	chmod 777 "$f"
	setcap cap_net_raw+ep "$f"
	"${OTHER[@]}" bash -c "echo 5 >>'$f'"
	same "$(getcap "$f")" "" "capabilities"
	setfattr -n security.capability -v "" "$f" # none: it stays, as on ext4
	"${OTHER[@]}" bash -c "echo 6 >>'$f'"
	"${OTHER[@]}" truncate -s 1 "$f"
	same "$(getfattr --absolute-names -m - "$f" | grep -c capability)" 1
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

test_each_caller_has_its_own_umask() {
	mkdir -p "$D/a" "$M"
	union threads=1 "$D/a"
	local mask
	for mask in 777 022 0 707 077; do
		(umask $mask && touch "$M/f$mask" && mkdir "$M/d$mask")
	done
	same "$(stat -c %a "$M/f777" "$M/f022" "$M/f0" "$M/f077" | paste -sd,)" "0,644,666,600"
	same "$(stat -c %a "$M/d777" "$M/d022" "$M/d0" "$M/d077" | paste -sd,)" "0,755,777,700"
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

# The kernel forgets it, and asks for what the handle is of, at the same time.
# handles make|check FILE NAME...: of names in the tree, kept in FILE
handles() {
	python3 - "$M" "$@" <<-'PY'
		import ctypes, errno, os, sys
		class Handle(ctypes.Structure):
		    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
		libc = ctypes.CDLL(None, use_errno=True)
		point, what, file, names = sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:]
		here = os.open(point, os.O_RDONLY)
		size = ctypes.sizeof(Handle)
		with open(file, "wb" if what == "make" else "rb") as kept:
		    for name in names:
		        handle, number = Handle(128), ctypes.c_int()
		        if what == "make":
		            assert libc.name_to_handle_at(here, name.encode(), ctypes.byref(handle), ctypes.byref(number), 0) == 0
		            kept.write(bytes(handle) + os.lstat(point + "/" + name).st_ino.to_bytes(8, "little"))
		            continue
		        handle = Handle.from_buffer_copy(kept.read(size))
		        ino = int.from_bytes(kept.read(8), "little")
		        fd = libc.open_by_handle_at(here, ctypes.byref(handle), os.O_PATH)
		        if fd < 0:
		            print(name, errno.errorcode[ctypes.get_errno()])
		            continue
		        print(name, "found" if os.fstat(fd).st_ino == ino else "another")
		        if os.path.isdir("/proc/self/fd/%d" % fd):
		            os.stat("..", dir_fd=fd)
	PY
}

detached() { trib-union --control "$D/sock" status | jq -e --arg p "$1" '.branches[] | select(.path == $p) | .mode == "gone"' >/dev/null; }

few_nodes() { [ "$(stat_of nodes)" -le 8 ]; }

test_handles_outlive_what_the_kernel_forgets() {
	small_branches 40M 40M
	union "policy=mfs,control=$D/sock" "$D/a:$D/b"
	mkdir -p "$M/d/deep/er"
	ln -s d/deep "$M/link"
	seq 1000 | sed "s|^|$M/d/deep/|" | xargs touch
	echo content >"$M/d/deep/er/f"
	local names=(d/deep/er/f d/deep/er d/deep d link d/deep/500)
	handles make "$D/handles" "${names[@]}"
	echo 2 >/proc/sys/vm/drop_caches
	eventually 30 few_nodes
	same "$(handles check "$D/handles" "${names[@]}" | sort | uniq -c | awk '{print $3}' | paste -sd,)" \
		"found,found,found,found,found,found"
	# Also when they have another name, and what was removed is not found.
	mv "$M/d" "$M/e"
	rm "$M/e/deep/500" "$M/link"
	ln -s other "$M/link"
	echo 2 >/proc/sys/vm/drop_caches
	eventually 30 few_nodes
	same "$(handles check "$D/handles" "${names[@]}" | paste -sd,)" \
		"d/deep/er/f found,d/deep/er found,d/deep found,d found,link ESTALE,d/deep/500 ESTALE"
	# And when all of it moved to another branch, and that one went.
	trib-union --control "$D/sock" drain "$D/a"
	eventually 60 detached "$D/a"
	same "$(handles check "$D/handles" d/deep/er/f d/deep/er d/deep d | awk '{print $2}' | paste -sd,)" \
		"found,found,found,found"
	stop
}

test_handles_outlive_an_unmount() {
	loop_fs a 64M mkfs.ext4 -q -m 0
	loop_fs b 320M mkfs.xfs -q
	mkdir -p "$D/a/d/deep/er" "$D/b/d/deep" "$M"
	echo content >"$D/a/d/deep/er/f"
	echo other >"$D/b/d/deep/g"
	ln -s d/deep "$D/b/link"
	local names=(d/deep/er/f d/deep/g d/deep/er d/deep d link gone) option
	for option in survive=yes survive=no; do
		echo x >"$D/b/gone"
		union "$option" "$D/a:$D/b"
		handles make "$D/handles" "${names[@]}"
		stop
		rm "$D/b/gone"
		echo y >"$D/b/later" # in its place, it may be
		mv "$D/a/d/deep/er/f" "$D/a/d/f" # whatever its name is now
		union "$option" "$D/a:$D/b"
		same "$(handles check "$D/handles" "${names[@]}" | paste -sd,)" \
			"d/deep/er/f found,d/deep/g found,d/deep/er found,d/deep found,d found,link found,gone ESTALE"
		# The whole directory, not the copy that was known.
		same "$(ls "$M/d/deep" | paste -sd,)" er,g
		same "$(cat "$M/d/f" "$M/d/deep/g" | paste -sd,)" content,other
		mv "$D/a/d/f" "$D/a/d/deep/er/f" 2>/dev/null
		stop
		# By a mount that knew nothing but what was saved; and by one that dies.
		union "$option" "$D/a:$D/b"
		same "$(handles check "$D/handles" d/deep | paste -sd,)" "d/deep found"
		same "$(python3 - "$M" "$D/handles" <<-'END'
			import ctypes, os, sys
			class Handle(ctypes.Structure):
			    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
			libc = ctypes.CDLL(None, use_errno=True)
			here = os.open(sys.argv[1], os.O_RDONLY)
			kept, size = open(sys.argv[2], 'rb').read(), ctypes.sizeof(Handle) + 8
			handle = Handle.from_buffer_copy(kept[3 * size:]) # d/deep
			fd = libc.open_by_handle_at(here, ctypes.byref(handle), os.O_RDONLY)
			print(*sorted(os.listdir(fd)), sep=',')
		END
		)" er,g
		stop
		rm -f "$D/b/later"
	done
	# Other branches, or one that is damaged: nothing is believed.
	printf x | dd of="$D/a/.tributary/handles" bs=1 seek=100 conv=notrunc status=none
	union "" "$D/a:$D/b"
	same "$(handles check "$D/handles" d/deep/g | paste -sd,)" "d/deep/g ESTALE"
	same "$(cat "$M/d/deep/g")" other
	stop
	union "" "$D/b:$D/a"
	same "$(handles check "$D/handles" d/deep/g | paste -sd,)" "d/deep/g ESTALE"
	same "$(cat "$M/d/deep/g")" other
	stop
}

found_of() { handles check "$D/$1" f g | awk '{print $2}' | paste -sd,; }

test_handles_are_kept_on_a_branch() {
	small_branches 20M 20M
	mkdir -p "$D/c"
	echo f >"$D/a/f"
	echo g >"$D/b/g"
	: >"$D/now"
	union "" "$D/a:$D/b"
	handles make "$D/first" f g
	stop
	[ -s "$D/a/.tributary/handles" ] && [ ! -e "$D/b/.tributary/handles" ]
	# On the first that can be written. The newest counts, whatever else is there.
	union "" "$D/a=ro:$D/b"
	same "$(found_of first)" found,found
	echo h >"$M/h"
	handles make "$D/h" h
	stop
	[ -s "$D/b/.tributary/handles" ] && [ -s "$D/a/.tributary/handles" ]
	union ro "$D/a:$D/b"
	same "$(found_of first)" found,found
	same "$(handles check "$D/h" h)" "h found"
	stop
	# Branches may follow; others in their places are not believed.
	union "" "$D/a:$D/b:$D/c"
	same "$(found_of first)" found,found
	stop
	union "" "$D/b:$D/a"
	same "$(found_of first)" ESTALE,ESTALE
	stop
	union "" "$D/a:$D/b"
	same "$(found_of first)" found,found
	stop
	# Somebody else's could be of any file.
	chown 1234 "$D/a/.tributary/handles"
	rm "$D/b/.tributary/handles"
	union "" "$D/a:$D/b"
	same "$(found_of first)" ESTALE,ESTALE
	# What a branch has goes with it.
	stop
	union "control=$D/sock" "$D/a:$D/b"
	trib-union --control "$D/sock" drain "$D/a"
	eventually 60 detached "$D/a"
	[ ! -e "$D/a/.tributary" ]
	stop
	[ -s "$D/b/.tributary/handles" ]
	same "$(find /var/lib/tributary/handles -newer "$D/now" 2>/dev/null)" ""
}

test_a_full_branch_leaves_the_handles_to_the_next() {
	small_branches 2M 20M
	echo f >"$D/a/f"
	echo g >"$D/b/g"
	union "" "$D/a:$D/b"
	handles make "$D/first" f g
	dd if=/dev/zero of="$D/a/fill" bs=64k 2>/dev/null && fail "it is not full"
	stop
	same "$(ls -A "$D/a/.tributary")" ""
	[ -s "$D/b/.tributary/handles" ]
	union "" "$D/a:$D/b"
	same "$(found_of first)" found,found
	stop
}

test_a_handle_of_what_was_removed_opens_nothing_else() {
	small_branches 20M 20M
	union policy=mfs,threads=2 "$D/a:$D/b"
	python3 - "$M" <<-'PY'
		import ctypes, errno, os, sys
		class Handle(ctypes.Structure):
		    _fields_ = [("bytes", ctypes.c_uint), ("type", ctypes.c_int), ("data", ctypes.c_ubyte * 128)]
		libc = ctypes.CDLL(None, use_errno=True)
		os.chdir(sys.argv[1])
		here = os.open(".", os.O_RDONLY)
		for i in range(1000):
		    os.mkdir("x") if i % 2 else os.mknod("x")
		    handle, number = Handle(128), ctypes.c_int()
		    assert libc.name_to_handle_at(here, b"x", ctypes.byref(handle), ctypes.byref(number), 0) == 0
		    os.rmdir("x") if i % 2 else os.unlink("x")
		    fd = libc.open_by_handle_at(here, ctypes.byref(handle), os.O_RDONLY)
		    if fd < 0:
		        assert ctypes.get_errno() == errno.ESTALE, ctypes.get_errno()
		        continue
		    assert os.fstat(fd).st_nlink == 0 # it was not forgotten yet
		    os.close(fd)
	PY
	stop
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
		until = time.monotonic() + 30
		while os.stat(sys.argv[1]).st_mtime == 5:
		    assert time.monotonic() < until
		    time.sleep(0.05)
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
		union policy=local,survive=no "$branches"
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
		union policy=local,survive=no "$branches"
		grep -qE '^[0-9]+ [0-9]+ whole$' "$M/d/f"
		same "$(find "$D"/[abc]/.tributary -mindepth 1 ! -name handles 2>/dev/null | wc -l)" 0
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

run_tests "$@"
