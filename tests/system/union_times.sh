#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The times of a union's files that nobody sets: of access, of birth.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need python3 mkfs.ext4
say_more() { tail -n 3 "$D/log"; }

branches() { # MOUNT-OPTIONS NAME...: an ext4 each
	local name options=$1
	mkdir -p "$M"
	for name in "${@:2}"; do
		rm -f "$D/$name.img"
		truncate -s 64M "$D/$name.img"
		mkfs.ext4 -q -m 0 -I 256 "$D/$name.img"
		mkdir -p "$D/$name"
		mount -o "loop,$options" "$D/$name.img" "$D/$name"
		at_exit umount -l "$D/$name"
		rmdir "$D/$name/lost+found"
	done
}
is() { [ "$(ctl status | jq -r ".branches[$1].$2")" = "$3" ]; } # ID KEY VALUE

old() { touch -h -d '2001-02-03 04:05:06.123456789 UTC' "$@"; }
accessed() { (cd "$M" && TZ=UTC stat -c '%n %x' "$@"); }

quietly() { # PATH: read with O_NOATIME
	python3 - "$1" <<-'END'
		import os, stat, sys
		fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NOATIME)
		if stat.S_ISDIR(os.fstat(fd).st_mode):
		    os.listdir(fd)
		else:
		    assert os.read(fd, 100)
	END
}

# Often enough that the clock ticks between its copies, coarse as it may be.
test_a_directory_that_is_touched_has_one_time() {
	branches relatime a b
	mkdir "$D/a/d" "$D/b/d"
	union survive=no "$D/a:$D/b"
	python3 - "$M/d" "$D/a/d" "$D/b/d" <<-'END'
		import os, sys
		seen, one, two = sys.argv[1:]
		def times(path):
		    st = os.stat(path)
		    return st.st_atime_ns, st.st_mtime_ns
		for i in range(1000):
		    os.utime(seen)
		    assert times(one) == times(two) == times(seen), (i, times(one), times(two), times(seen))
	END
}

test_a_file_that_moves_keeps_when_it_was_read() {
	branches strictatime a b
	mkdir -p "$D/a/d/e" "$D/a/empty" "$D/b/d"
	head -c 100000 /dev/urandom >"$D/a/d/e/f"
	echo one >"$D/a/d/one"
	ln "$D/a/d/one" "$D/a/d/e/two"
	mkfifo "$D/a/fifo"
	ln -s d/one "$D/a/link"
	local paths=(d/e/f d/one d/e/two fifo link d/e empty d)
	(cd "$D/b" && old d)
	(cd "$D/a" && old "${paths[@]}")
	union "control=$D/ctl" "$D/a:$D/b"
	accessed "${paths[@]}" >"$D/before"
	! grep -v 2001-02-03 "$D/before" || fail "looking changed it"
	ctl drain "$D/a" >/dev/null
	eventually 60 is 0 mode gone
	accessed "${paths[@]}" >"$D/after"
	diff "$D/before" "$D/after" || fail "it is another time"
	(cd "$D/b" && TZ=UTC stat -c '%n %x' "${paths[@]}") | diff "$D/before" - || fail "on its branch it is another time"
}

test_a_file_that_leaves_a_full_branch_keeps_when_it_was_read() {
	branches relatime a b
	mkdir "$D/a/d"
	head -c 30M /dev/zero >"$D/a/ballast"
	echo begin >"$D/a/d/f"
	ln "$D/a/d/f" "$D/a/d/g"
	old "$D/a/d/f" "$D/a/d"
	union "control=$D/ctl" "$D/a:$D/b"
	ctl set "$D/a=rw,64M" >/dev/null # from here on it counts as nearly full
	head -c 40M /dev/zero >>"$M/d/f"
	[ -e "$D/b/d/f" ] || fail "it has not moved"
	! accessed d/f d/g d | grep -v '2001-02-03 04:05:06.123456789' || fail "it shows"
}

test_a_branch_that_is_added_is_looked_through_unseen() {
	branches strictatime a b
	mkdir -p "$D/a/d" "$D/b/d/e"
	old "$D/a/d" "$D/b/d/e" "$D/b/d"
	union "control=$D/ctl" "$D/a"
	accessed d >"$D/before"
	ls "$M/d/e" 2>/dev/null && fail "it is there already"
	ctl add "$D/b" >/dev/null
	accessed d | diff "$D/before" - || fail "it shows"
	accessed d/e | grep -q 2001-02-03 || fail "it shows below, too"
}

# Each as on a branch by itself: does a read change when it was read?
reads() { # DIR
	cat "$1/d/read" "$1/d/again" >/dev/null
	quietly "$1/d/quiet"
	quietly "$1/quiet"
	ls "$1/d" >/dev/null
	readlink "$1/link" >/dev/null
	[ ! -e "$1/d/absent" ] && [ ! -e "$1/other/absent" ] || fail "what is that"
	! rmdir "$1/other" 2>/dev/null || fail "what is not empty was removed"
	(cd "$1" && stat -c '%n %X' d/read d/again d/quiet d link quiet other | sed 's/ 981173106$/ as it was/; s/ [0-9]*$/ now/')
}

fill() { # DIR
	mkdir -p "$1/d" "$1/quiet" "$1/other"
	echo one | tee "$1/d/read" "$1/d/quiet" "$1/other/x" >"$1/quiet/x"
	echo two >"$1/d/again"
	ln -s d "$1/link"
	(cd "$1" && old -- */* ./*)
	cat "$1/d/again" >/dev/null
	touch -a -d "+1 day" "$1/d/again" # with relatime it stays
}

as_on_a_branch() { # MOUNT-OPTION OPTION [MOUNT-OPTION-OF-A-BRANCH]
	branches "$1" plain
	branches "${3:-$1}" a b
	fill "$D/a"
	fill "$D/plain"
	union "$2" "$D/a:$D/b"
	reads "$D/plain" >"$D/want"
	reads "$M" | diff "$D/want" - || fail "not as on ext4"
}

# Whatever its branches have, and by whichever server.
with_its_own() { # MOUNT-OPTION OF-BRANCHES PASSTHROUGH
	as_on_a_branch "$1" "$1,shared,passthrough=$3" "$2" # or the kernel answers by itself
	kill -9 "$(server)"
	(cd "$M" && old -- */* ./*)
	(cd "$D/plain" && old -- */* ./*)
	reads "$D/plain" >"$D/want"
	reads "$M" | diff "$D/want" - || fail "not by the next server"
	unmount "$M" "$D/plain"
	unmount "$D/a" "$D/b"
}

test_reading_changes_access_times_as_strictatime_says() { as_on_a_branch strictatime passthrough=auto; }
test_reading_changes_access_times_as_relatime_says() { as_on_a_branch relatime passthrough=auto; }
test_reading_changes_access_times_without_passthrough() { as_on_a_branch strictatime passthrough=off; }

test_noatime_of_the_union_holds_over_any_branch() {
	one_round with_its_own noatime strictatime auto
	one_round with_its_own noatime relatime off
}
test_relatime_of_the_union_holds_over_any_branch() {
	one_round with_its_own relatime strictatime off
	one_round with_its_own relatime noatime auto
}
test_strictatime_of_the_union_holds_over_any_branch() {
	one_round with_its_own strictatime noatime auto
	one_round with_its_own strictatime relatime off
}
test_nodiratime_of_the_union_is_of_directories_alone() {
	one_round as_on_a_branch strictatime,nodiratime nodiratime strictatime
}
test_what_one_makes_is_read_as_the_union_says() {
	branches strictatime a
	union noatime "$D/a"
	python3 - "$M" <<-'END'
		import os, sys
		os.chdir(sys.argv[1])
		for flags in (os.O_CREAT | os.O_RDWR, os.O_TMPFILE | os.O_RDWR):
		    fd = os.open('f' if flags & os.O_CREAT else '.', flags, 0o600)
		    os.write(fd, b'one')
		    os.utime(fd, (981173106, 981173106))
		    assert os.pread(fd, 3, 0) == b'one'
		    assert os.fstat(fd).st_atime == 981173106, os.fstat(fd)
	END
}
test_access_times_change_with_a_remount() {
	branches strictatime a b
	mkdir "$D/a/d"
	echo one >"$D/a/d/f"
	ln -s f "$D/a/d/l"
	union "control=$D/ctl,shared" "$D/a:$D/b"
	changes() { # PATH...: those whose time a read changes
		(cd "$M" && old "$@")
		cat "$M/d/f" >/dev/null
		readlink "$M/d/l" >/dev/null
		ls "$M/d" >/dev/null
		(cd "$M" && stat -c '%n %X' "$@" | grep -v ' 981173106$' | sed 's/ .*//' | xargs)
	}
	same "$(changes d/f d/l d)" "d/f d/l d"
	trib-union -o remount,noatime "$D/a:$D/b" "$M"
	same "$(changes d/f d/l d)" ""
	branches strictatime c
	echo x >"$D/c/x"
	ctl add "$D/c" >/dev/null
	old "$M/x"
	cat "$M/x" >/dev/null
	accessed x | grep -q 2001-02-03 || fail "a branch that joins has not the union's"
	trib-union -o remount,strictatime,nodiratime "$D/a:$D/b" "$M"
	same "$(changes d/f d/l d)" "d/f d/l"
	kill -9 "$(server)"
	same "$(changes d/f d/l d)" "d/f d/l"
	# By whom mount(8) asks no helper.
	mount -i -o remount,noatime,diratime "$M"
	none_change() { [ -z "$(changes d/f d/l d)" ]; }
	eventually 30 none_change
}

test_who_reads_quietly_does_so_after_a_kill_too() {
	branches strictatime a
	echo one >"$D/a/f"
	old "$D/a/f"
	union survive=yes,passthrough=off "$D/a"
	local pid
	pid=$(server)
	python3 - "$M/f" "$pid" <<-'END'
		import os, signal, sys
		fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NOATIME)
		os.kill(int(sys.argv[2]), signal.SIGKILL)
		assert os.pread(fd, 100, 0) == b'one\n'
	END
	same "$(accessed f)" "$(cd "$D/a" && TZ=UTC stat -c '%n %x' f)"
	accessed f | grep -q 2001-02-03 || fail "it shows"
}

birth_is_asked_for() { # by the kernel
	local major minor
	IFS=. read -r major minor _ <<<"$(uname -r)"
	[ "$major" -gt 6 ] || { [ "$major" = 6 ] && [ "${minor%%[!0-9]*}" -ge 6 ]; } ||
		skip "this kernel asks for no time of birth (Linux 6.6 does)"
}
born() { (cd "$1" && stat -c '%n %w' "${@:2}"); } # DIR NAME...

test_everything_was_born_when_its_branch_says() {
	birth_is_asked_for
	branches noatime a b
	mkdir -p "$D/b/d"
	sleep 0.02 # one tick, so that the copies are not of one time
	mkdir -p "$D/a/d/e"
	echo one >"$D/a/d/f"
	ln "$D/a/d/f" "$D/a/link"
	mkfifo "$D/b/d/fifo"
	ln -s f "$D/b/d/symlink"
	union "control=$D/ctl,policy=ff" "$D/a:$D/b"
	echo new >"$M/d/new"
	born "$M" d/e d/f link d/new | diff <(born "$D/a" d/e d/f link d/new) - || fail "the first branch says something else"
	born "$M" d/fifo d/symlink | diff <(born "$D/b" d/fifo d/symlink) - || fail "the second branch says something else"
	# The directory was there when the first of the two was.
	same "$(born "$M" d)" "$(born "$D/b" d)"
	same "$(born "$M" .union)" ".union -"
	# All else is as without it.
	python3 - "$M" <<-'END'
		import os, subprocess, sys
		for name in ('', 'd', 'd/e', 'd/f', 'link', 'd/fifo', 'd/symlink', '.union'):
		    st = os.lstat(os.path.join(sys.argv[1], name))
		    said = subprocess.check_output(['stat', '-c', '%w|%i %f %h %u %g %s %b %t %T %X %Y %Z', os.path.join(sys.argv[1], name)], text=True)
		    want = '%d %x %d %d %d %d %d %x %x %d %d %d' % (
		        st.st_ino, st.st_mode, st.st_nlink, st.st_uid, st.st_gid, st.st_size, st.st_blocks,
		        os.major(st.st_rdev), os.minor(st.st_rdev), st.st_atime, st.st_mtime, st.st_ctime)
		    assert said.strip().split('|')[1] == want, (name, said, want)
	END
	# An open file, also when it has no name any more.
	exec 6<"$M/d/f"
	born "$M" d/f | sed 's/.*f //' >"$D/was"
	rm "$M/d/f" "$M/link"
	stat -L -c %w /proc/self/fd/6 | diff "$D/was" - || fail "what is open says something else"
	exec 6<&-
}

test_what_moves_stays_as_old_as_it_is() {
	birth_is_asked_for
	branches noatime a b
	mkdir -p "$D/a/d/e"
	echo one >"$D/a/d/f"
	ln -s f "$D/a/d/symlink"
	born "$D/a" d d/e d/f d/symlink >"$D/want"
	union "control=$D/ctl" "$D/a:$D/b"
	ctl drain "$D/a" >/dev/null
	eventually 60 is 0 mode gone
	born "$M" d d/e d/f d/symlink | diff "$D/want" - || fail "it is younger"
	stop
	union "" "$D/b"
	born "$M" d d/e d/f d/symlink | diff "$D/want" - || fail "it is younger at the next mount"
	same "$(getfattr -m - -d "$M/d/f" 2>&1)" "" "it shows"
}

test_a_server_that_follows_says_the_same_birth() {
	birth_is_asked_for
	branches noatime a
	echo one >"$D/a/f"
	union survive=yes "$D/a"
	local pid
	pid=$(server)
	kill -KILL "$pid"
	born "$M" f | diff <(born "$D/a" f) -
}

run_tests "$@"
