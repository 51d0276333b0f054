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

run_tests "$@"
