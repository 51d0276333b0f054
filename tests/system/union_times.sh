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
ctl() { trib-union --control "$D/ctl" "$@"; }
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

as_on_a_branch() { # MOUNT-OPTION OPTION
	branches "$1" a b plain
	fill "$D/a"
	fill "$D/plain"
	union "$2" "$D/a:$D/b"
	reads "$D/plain" >"$D/want"
	reads "$M" | diff "$D/want" - || fail "not as on ext4"
}

test_reading_changes_access_times_as_strictatime_says() { as_on_a_branch strictatime passthrough=auto; }
test_reading_changes_access_times_as_relatime_says() { as_on_a_branch relatime passthrough=auto; }
test_reading_changes_access_times_without_passthrough() { as_on_a_branch strictatime passthrough=off; }

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

run_tests "$@"
