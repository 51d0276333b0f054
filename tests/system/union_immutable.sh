#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What cannot be changed on its branch: copies of directories that are immutable,
# append-only or on a read-only branch.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need chattr setfacl getfacl setfattr python3

two_branches() { # two directories "d", that have an attribute and an ACL
	small_branches 20M 20M
	mkdir "$D/a/d" "$D/b/d"
	chattr +i "$D/a/d" 2>/dev/null || skip "chattr does nothing here"
	chattr -i "$D/a/d"
	setfattr -n user.had -v before "$D/a/d" "$D/b/d"
	setfacl -m u:77:rx "$D/a/d" "$D/b/d"
	touch -d 2001-02-03 "$D/a/d" "$D/b/d"
}
frozen() { # FLAG COPY...: until melt
	chattr "+$1" "${@:2}"
	at_exit chattr "-$1" "${@:2}"
}
melt() { chattr -ia "$D"/[ab] "$D"/[ab]/* 2>/dev/null || true; }
# All that a change could have changed, of each copy.
copies() {
	stat -c '%a %u %g %y %A' "$D"/[ab]/d
	getfacl --absolute-names -n "$D"/[ab]/d
	getfattr --absolute-names -d -m - "$D"/[ab]/d | grep -v tributary
}
said() { # COPY FLAG COMMAND...: it is refused, and no copy is another
	local before
	before=$(copies)
	frozen "$2" "$D/$1/d"
	fails any "not permitted" "${@:3}"
	same "$(copies)" "$before"
	melt
}

test_an_immutable_copy_keeps_a_directory_as_it_is() {
	two_branches
	union policy=ff "$D/a:$D/b"
	local copy flag
	for copy in a b; do
		for flag in i a; do
			said $copy $flag chmod 700 "$M/d"
			said $copy $flag chown 5:6 "$M/d"
			said $copy $flag touch -d 2011-01-01 "$M/d"
			said $copy $flag touch -m -d 2011-01-01 "$M/d"
			said $copy $flag setfacl -m u:78:rwx "$M/d"
			said $copy $flag setfacl -d -m u:78:rwx "$M/d"
			said $copy $flag setfacl -b "$M/d"
			said $copy $flag setfattr -n user.new -v 1 "$M/d"
			said $copy $flag setfattr -x user.had "$M/d"
			said $copy $flag rmdir "$M/d"
			said $copy $flag mv "$M/d" "$M/e"
		done
		said $copy i touch "$M/d"
		frozen a "$D/$copy/d"
		touch "$M/d" # which what is append-only takes, and now all have it
		melt
		same "$(date -d "@$(stat -c %Y "$D/a/d")" +%Y)" "$(date +%Y)"
		touch -d 2001-02-03 "$M/d"
	done
	chmod 700 "$M/d"
	same "$(stat -c %a "$D/a/d" "$D/b/d")" "700"$'\n'"700"
}

test_new_names_go_where_a_directory_is_not_immutable() {
	two_branches
	mkdir "$D/b/d/only"
	union policy=ff "$D/a:$D/b"
	frozen i "$D/a/d"
	touch "$M/d/only/f" # not in a new one of that name in there
	[ -f "$D/b/d/only/f" ]
	echo 1 >"$M/d/file"
	mkdir "$M/d/dir"
	ln -s x "$M/d/link"
	mkfifo "$M/d/fifo"
	python3 -c 'import os, sys
os.close(os.open(sys.argv[1], os.O_TMPFILE | os.O_RDWR))' "$M/d"
	same "$(ls "$D/b/d")" "$(printf '%s\n' dir fifo file link only)"
	frozen i "$D/b/d"
	fails any "not permitted" touch "$M/d/more"
	fails any "not permitted" mkdir "$M/d/more"
	same "$(ls "$M/d" | wc -l)" 5
}

test_what_is_removed_goes_from_all_branches_or_none() {
	two_branches
	local copy
	for copy in a b; do
		echo "$copy" >"$D/$copy/d/f"
	done
	union policy=ff "$D/a:$D/b"
	for copy in a b; do
		for what in d d/f; do
			frozen i "$D/$copy/$what"
			fails any "not permitted" rm "$M/d/f"
			chattr -i "$D/$copy/$what"
			same "$(cat "$D/a/d/f" "$D/b/d/f")" "a"$'\n'"b"
		done
	done
	rm "$M/d/f"
	[ ! -e "$D/a/d/f" ] && [ ! -e "$D/b/d/f" ]
}

# As ext4 has no more than that in a directory where the link count says so.
test_a_directory_with_as_many_as_it_can_have_goes_on_elsewhere() {
	loop_fs a 400M mkfs.ext4 -q -m 0 -N 70000 -O ^dir_nlink,^has_journal
	mkdir -p "$D/b" "$M" "$D/a/d"
	mount -t tmpfs -o size=20M none "$D/b"
	at_exit umount -l "$D/b"
	python3 -c 'import errno, os, sys
os.chdir(sys.argv[1])
try:
    for i in range(100000): os.mkdir(str(i))
except OSError as e: sys.exit(e.errno != errno.EMLINK)
sys.exit(1)' "$D/a/d"
	union policy=ff "$D/a:$D/b"
	mkdir "$M/d/more"
	[ -d "$D/b/d/more" ]
	touch "$M/d/file"
	[ -f "$D/a/d/file" ]
}

# What is set is seen, though a copy of a branch that is only read stays as it is.
times_on_a_read_only_branch() { # WORDS-OF-B
	union policy=ff "$D/a:$D/b$1"
	touch -d 2001-01-01 "$M/d"
	same "$(stat -c %y "$M/d" | cut -c1-10)" 2001-01-01
	chmod 711 "$M/d"
	same "$(stat -c %a "$M/d")" 711
	chown 5:6 "$M/d"
	same "$(stat -c %u:%g "$M/d")" 5:6
	setfattr -n user.had -v after "$M/d"
	same "$(getfattr --absolute-names --only-values -n user.had "$M/d")" after
	setfacl -m u:78:rwx "$M/d"
	getfacl --absolute-names -n "$M/d" | grep -qx user:78:rwx
	[ "$(stat -c %y "$D/b/d" | cut -c1-10)" = 2010-01-01 ]
	touch "$M/d/f"
	same "$(date -d "@$(stat -c %Y "$M/d")" +%Y)" "$(date +%Y)"
	fails any "Read-only" rmdir "$M/d/sub"
	fails any "Read-only" mv "$M/d" "$M/e"
	same "$(ls "$D/b/d" "$D/a")" "$D/a:"$'\n'"d"$'\n\n'"$D/b/d:"$'\n'"sub"
	stop
	rm "$D/a/d/f"
}
test_times_that_are_set_are_seen_with_a_copy_that_is_only_read() {
	two_branches
	mkdir "$D/b/d/sub"
	touch -d 2010-01-01 "$D/b/d"
	times_on_a_read_only_branch =ro
	mount -o remount,ro "$D/b"
	times_on_a_read_only_branch ""
	# Where nothing can be set the latest is shown, as ever.
	union policy=ff "$D/a=ro:$D/b"
	same "$(stat -c %y "$M/d" | cut -c1-10)" "$(stat -c %y "$D/a/d" | cut -c1-10)"
	fails any "Read-only" touch -d 2001-01-01 "$M/d"
	stop
	touch -d 2001-01-01 "$D/a/d"
	union policy=ff "$D/a=ro:$D/b"
	same "$(stat -c %y "$M/d" | cut -c1-10)" 2010-01-01
}

run_tests "$@"
