#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A branch of a union fails, is replaced by another, turns read-only, and is
# whole again; by what a file system itself does when its device is lost.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/union_lib.sh"
need fsfreeze python3

make_fs() { loop_fs "$1" 320M "${@:2}"; } # NAME MKFS...

# Branch a is what MKFS makes, b ext4; a directory of its own on each, one on
# both, and a file in each.
two_branches() { # MKFS...
	make_fs a "$@"
	make_fs b mkfs.ext4 -q
	mkdir "$D/a/both" "$D/b/both" "$D/a/of-a" "$D/b/of-b"
	local name
	for name in a/f-a b/f-b a/both/x-a b/both/x-b a/of-a/y b/of-b/y; do
		echo "$name" >"$D/$name"
	done
	mkdir -p "$M"
	: >"$D/log"
	union ff
}

union() { # POLICY
	trib-union -o "${OPTIONS:+$OPTIONS,}log=$D/log,control=$D/ctl,policy=$1,branch_timeout=3" "${BRANCHES:-$D/a:$D/b}" "$M"
	at_exit union_end "$M"
}

# As when its device is gone: FS_IOC_SHUTDOWN, without a last write.
shut_down() {
	sync -f "$D/$1"
	lose "$1"
}

# And what is in its memory only is lost.
lose() { shut_down_fs "$D/$1"; }

logged() { grep -c "$1" "$D/log" || true; }

remount_a() {
	unmount "$D/a" # once what was being served is over
	mount -o loop,noatime "$D/a.img" "$D/a"
	eventually 30 is_state a ok
}

fails_and_heals() { # MKFS...
	two_branches "$@"
	# These directories are in use, so their names are known.
	stat "$M/none" "$M/both/none" "$M/of-b/none" >/dev/null 2>&1 || true
	echo seen >"$M/seen"
	same "$(stat -c %s "$D/a/seen")" 5
	shut_down a
	eio cat "$M/f-a"
	same "$(state a)" failed

	# Files of other branches go on, and all new names go elsewhere.
	same "$(cat "$M/f-b" "$M/both/x-b" "$M/of-b/y")" "b/f-b
b/both/x-b
b/of-b/y"
	local i
	for i in 0 1 2 3 4 5 6 7 8 9; do
		echo "$i" >"$M/new-$i"
		mkdir "$M/both/d-$i"
		echo "$i" >"$M/both/d-$i/f"
		echo "$i" >"$M/of-b/new-$i"
	done
	same "$(cat "$D"/b/new-* | wc -l)" 10
	mv "$M/new-0" "$M/both/moved"
	mv "$M/new-1" "$M/new-2"
	rm "$M/new-3"
	rmdir "$M/of-b/new-0" 2>/dev/null && fail "a file was removed as a directory"
	rm -r "$M/both/d-0"
	df "$M" >/dev/null

	# A file that only the lost branch holds is EIO, never absent, never made anew.
	eio cat "$M/both/x-a"
	eio cat "$M/of-a/y"
	eio stat "$M/of-a/z"
	eio touch "$M/of-a/z"
	eio mkdir "$M/f-a"
	eio mv "$M/new-4" "$M/f-a"
	eio exchange "$M/of-b/y" "$M/f-a"
	eio exchange "$M/f-a" "$M/of-b/y"
	fails any "No such file" exchange "$M/new-4" "$M/of-b/none"
	eio rm "$M/f-a"
	# A directory with a copy there stays as it is; its list says that names are missing.
	eio chmod 700 "$M/both"
	eio rmdir "$M/both"
	eio mv "$M/both" "$M/both-2"
	eio ls "$M/both"
	eio ls "$M"
	ls "$M/of-b" >/dev/null
	same "$(stat_of failed)" 1
	same "$(stat_of failures)" 1
	same "$(trib-union --control "$D/ctl" status | jq -r '.branches[0].error')" "Input/output error"

	remount_a
	same "$(cat "$M/f-a" "$M/both/x-a" "$M/of-a/y" "$M/seen")" "a/f-a
a/both/x-a
a/of-a/y
seen"
	same "$(find "$M/both" -mindepth 1 -maxdepth 1 -printf '%f\n' | sort | paste -sd ' ')" \
		"d-1 d-2 d-3 d-4 d-5 d-6 d-7 d-8 d-9 moved x-a x-b"
	same "$(find "$M" -maxdepth 1 -name 'new-*' | wc -l)" 7
	fails any "No such file" stat "$M/of-a/z"
	touch "$M/of-a/z"
	chmod 700 "$M/both"
	same "$(stat -c %a "$D/a/both" "$D/b/both" | uniq)" 700
	# No name is there twice.
	same "$( (cd "$D" && find a b -name .tributary -prune -o -type f -printf '%P\n') | sort | uniq -d)" ""
	same "$(stat_of failed)" 0
	same "$(logged "branch '$D/a' failed")" 1
	same "$(logged "branch '$D/a' is back")" 1
	same "$(logged "was not known")" 0
	unmount "$M"
}

# Branch a is an ext4 with a directory, a file and one of two copies of a
# directory that cannot be read.
damaged_branches() {
	make_fs a mkfs.ext4 -q -b 4096 -O metadata_csum
	make_fs b mkfs.ext4 -q
	mkdir -p "$D/a/bad/sub" "$D/a/other" "$D/a/both" "$D/b/both" "$D/b/of-b" "$M"
	local name
	for name in a/f-a b/f-b a/bad/x a/other/victim a/other/well a/both/x-a b/both/x-b b/of-b/y; do
		echo "$name" >"$D/$name"
	done
	unmount "$D/a"
	for name in bad both; do
		dd if=/dev/urandom of="$D/a.img" bs=4096 count=1 conv=notrunc status=none \
			seek="$(debugfs -R "blocks /$name" "$D/a.img" 2>/dev/null | tr -d ' ')"
	done
	debugfs -w -R "clri /other/victim" "$D/a.img" >/dev/null 2>&1
	mount -o loop,noatime,errors=continue "$D/a.img" "$D/a"
	: >"$D/log"
	union ff
}
remount_damaged() {
	unmount "$D/a"
	mount -o loop,noatime,errors=continue "$D/a.img" "$D/a"
	eventually 30 is_state a ok
}
# Each command fails, and nothing else is the worse for it.
only_it_fails() {
	fails any "" "$@"
	same "$(state a)" ok
	same "$(cat "$M/f-a")" a/f-a
	echo new >"$M/other/new"
	rm "$D/a/other/new"
	rm -f "$M/other/new"
}

test_what_is_damaged_on_a_branch_is_not_the_branch() {
	damaged_branches
	only_it_fails cat "$M/other/victim"
	only_it_fails rm "$M/other/victim"
	only_it_fails mv "$M/other/victim" "$M/other/elsewhere"
	only_it_fails ls -l "$M/other"
	only_it_fails ls "$M/bad"
	only_it_fails cat "$M/bad/x"
	only_it_fails touch "$M/bad/new"
	only_it_fails mkdir "$M/bad/sub/new"
	only_it_fails rmdir "$M/bad"
	only_it_fails rm -rf "$M/bad"
	# Of the copies of one directory the other is used.
	only_it_fails ls "$M/both"
	same "$(ls "$M/both" 2>/dev/null)" x-b
	same "$(cat "$M/both/x-b")" b/both/x-b
	only_it_fails cat "$M/both/x-a"
	only_it_fails touch "$M/both/x-a"
	same "$(stat_of failures)" 0
	same "$(stat_of 'damaged | tostring')" "[0]"
	same "$(logged "branch '$D/a': its file system says that something on it is damaged")" 1
	same "$(logged failed)" 0
	unmount "$M"
}

test_what_is_damaged_keeps_no_branch_from_coming_back() {
	damaged_branches
	(cd "$M/bad" && exec sleep 300) & # so that it is known
	local stands=$!
	at_exit kill "$stands"
	stat "$M/both" "$M/other/victim" >/dev/null 2>&1 || true
	shut_down a
	eio cat "$M/f-a"
	same "$(state a)" failed
	remount_damaged
	same "$(cat "$M/f-a" "$M/both/x-b")" "a/f-a
b/both/x-b"
	echo new >"$M/other/new"
	same "$(stat_of failures)" 1
	[ "$(logged "is passed over")" -gt 0 ]
	kill "$stands"
	wait "$stands" || true
	unmount "$M"
}

test_a_snapshot_that_is_read_only_is_not_the_branch() {
	command -v mkfs.btrfs >/dev/null && grep -q btrfs /proc/filesystems || skip "needs Btrfs"
	make_fs a mkfs.btrfs -q
	make_fs b mkfs.ext4 -q
	mkdir -p "$D/a/d" "$M"
	btrfs -q subvolume create "$D/a/work"
	echo x >"$D/a/work/f"
	btrfs -q subvolume snapshot -r "$D/a/work" "$D/a/snapshot"
	: >"$D/log"
	union ff
	fails any "" touch "$M/snapshot/f"
	fails any "" rm "$M/snapshot/f"
	fails any "" chmod 700 "$M/snapshot"
	same "$(state a)" ok
	touch "$M/d/new"
	[ -e "$D/a/d/new" ]
	same "$(logged "turned read-only")" 0
	unmount "$M"
}

test_a_branch_that_is_only_read_or_full_fails_and_heals_too() {
	two_branches mkfs.ext4 -q -m 0
	unmount "$M"
	BRANCHES="$D/a=RO:$D/b" union ff
	shut_down a
	eio cat "$M/of-a/y"
	same "$(state a)" failed
	remount_a
	same "$(cat "$M/of-a/y")" a/of-a/y
	unmount "$M"
	union ff
	fallocate -l 1G "$D/a/filler" 2>/dev/null || true
	cat /dev/zero >"$D/a/filler2" 2>/dev/null || true
	shut_down a
	eio cat "$M/of-a/y"
	same "$(state a)" failed
	remount_a
	unmount "$M"
}

test_an_ext4_branch_fails_and_heals() { fails_and_heals mkfs.ext4 -q; }
test_an_xfs_branch_fails_and_heals() { fails_and_heals mkfs.xfs -q; }

test_changes_that_a_branch_lost_are_seen() {
	two_branches mkfs.ext4 -q
	mount -o remount,commit=3600 "$D/a"
	sync -f "$D/a"
	mount --bind "$D/b/of-b" "$M/of-a"
	at_exit umount -l "$M/of-a"
	rm "$M/f-a" "$M/both/x-a"
	unmount "$M/of-a"
	rm "$M/of-a/y"
	mount --bind "$D/b/of-b" "$M/of-a"
	fails any "No such file" stat "$M/f-a" "$M/both/x-a"
	lose a
	eio stat "$M/lost+found"
	remount_a
	[ -e "$D/a/f-a" ] # its journal did not have that it is gone
	same "$(cat "$M/f-a" "$M/both/x-a")" "a/f-a
a/both/x-a"
	# A file system mounted inside the union stays.
	same "$(cat "$M/of-a/y")" b/of-b/y
	unmount "$M/of-a"
	same "$(cat "$M/of-a/y")" a/of-a/y
	echo again >"$M/both/x-a"
	same "$(cat "$D/a/both/x-a")" again
	[ ! -e "$D/b/both/x-a" ]
	unmount "$M"
}

test_a_directory_open_on_a_branch_that_fails_is_let_go_of() {
	two_branches mkfs.ext4 -q
	exec 9<"$M/of-a"
	ls "$M/of-a" >/dev/null
	shut_down a
	eio cat "$M/f-a"
	exec 9<&-
	remount_a # else it were busy
	same "$(ls "$M/of-a")" y
	unmount "$M"
}

# A program that replaces a file does this, and relies on it after a crash.
test_what_was_renamed_is_durable_once_its_directory_is() {
	two_branches mkfs.ext4 -q
	mkdir "$M/of-a/deep"
	mount -o remount,commit=3600 "$D/a"
	mount -o remount,commit=3600 "$D/b"
	trib-union --control "$D/ctl" set "$D/a=nc" >/dev/null
	python3 - "$M/of-a/deep" <<-'END'
		import os, sys
		os.chdir(sys.argv[1])
		directory = os.open(".", os.O_RDONLY)
		file = os.open("tmp", os.O_WRONLY | os.O_CREAT)
		os.write(file, b"new")
		os.fsync(file)
		os.rename("tmp", "name")
		os.fsync(directory)
	END
	lose b
	eio touch "$M/of-b/meets-it"
	unmount "$D/b"
	mount -o loop,noatime "$D/b.img" "$D/b"
	eventually 30 is_state b ok
	same "$(ls "$D/b/of-a/deep")" name
	same "$(cat "$M/of-a/deep/name")" new
	unmount "$M"
}

test_what_was_never_looked_into_is_in_doubt() {
	two_branches mkfs.ext4 -q
	# Nobody has used "both": it may have any name on the failed branch.
	stat "$M/none" >/dev/null 2>&1 || true
	shut_down a
	eio cat "$M/f-a"
	same "$(cat "$M/both/x-b")" b/both/x-b
	eio touch "$M/both/x-a"
	eio touch "$M/both/new"
	touch "$M/new"
	remount_a
	touch "$M/both/new"
	same "$(cat "$M/both/x-a")" a/both/x-a
	unmount "$M"
}

test_a_name_that_a_directory_had_before_is_free() {
	two_branches mkfs.ext4 -q
	stat "$M/none" "$M/both/none" >/dev/null 2>&1 || true
	mkdir "$M/one" "$M/one/below" "$M/two"
	mv "$M/one" "$M/both/moved"
	mv -T "$M/both/moved" "$M/two"
	[ -d "$D/a/two/below" ]
	mkdir "$M/three"
	exchange "$M/three" "$M/f-b"
	[ -d "$D/a/f-b" ]
	shut_down a
	eio cat "$M/f-a"
	mkdir "$M/one" "$M/both/moved"
	eio mkdir "$M/two"
	same "$(cat "$M/three")" b/f-b
	rm "$M/three"
	mkdir "$M/three"
	remount_a
	same "$(ls "$M/two" "$M/one" "$M/both" | paste -sd ' ')" \
		"$(printf '%s: moved x-a x-b  %s:  %s: below' "$M/both" "$M/one" "$M/two")"
	unmount "$M"
}

test_another_file_system_in_its_place_is_refused() {
	two_branches mkfs.ext4 -q
	shut_down a
	eio cat "$M/f-a"
	unmount "$D/a" # once what was being served is over
	make_fs other mkfs.ext4 -q
	mount --bind "$D/other" "$D/a"
	wrong() { [ "$(logged "another file system")" = 1 ]; }
	eventually 30 wrong
	eio cat "$M/f-a"
	same "$(state a)" failed
	unmount "$D/a" # the server may just look at it
	mount -o loop,noatime "$D/a.img" "$D/a"
	eventually 30 is_state a ok
	same "$(cat "$M/f-a")" a/f-a
	same "$(ls "$D/other")" lost+found
	unmount "$M"
}

test_a_branch_that_turns_read_only_is_read_and_not_changed() {
	two_branches mkfs.ext4 -q
	touch "$M/one"
	[ -e "$D/a/one" ]
	eventually 30 mount -o remount,ro "$D/a" # once "one" is let go of
	touch "$M/two" # meets it, and goes elsewhere
	[ -e "$D/b/two" ]
	same "$(state a)" read-only
	same "$(stat_of read_only)" 1
	same "$(cat "$M/f-a")" a/f-a
	ls "$M" "$M/both" >/dev/null
	fails any "Read-only" rm "$M/one"
	fails any "Read-only" touch "$M/f-a"
	mkdir "$M/both/new"
	mv "$M/two" "$M/both/new/two"
	mount -o remount,rw "$D/a"
	eventually 30 is_state a ok
	rm "$M/one"
	touch "$M/three"
	[ -e "$D/a/three" ]
	unmount "$M"
}

test_a_branch_that_hangs_holds_up_only_who_asks_it() {
	make_fs a mkfs.ext4 -q
	make_fs b mkfs.ext4 -q
	local i pids=() rc=0
	for i in $(seq 20); do mkdir "$D/a/d-$i" "$D/b/d-$i"; done
	mkdir -p "$M" "$D/b/of-b"
	: >"$D/log"
	union ff,passthrough=off
	echo kept >"$M/f-a"
	echo "of b" >"$D/b/of-b/f"
	for i in $(seq 20); do stat "$M/d-$i/none" >/dev/null 2>&1 || true; done
	# One writes to a file that it has open, and closes it when it is told.
	{
		: >"$D/open"
		until [ -e "$D/frozen" ]; do sleep 0.1; done
		echo more >&8
	} 8>>"$M/open" 2>"$D/said-open" &
	local writer=$!
	eventually 30 test -e "$D/open"
	at_exit fsfreeze -u "$D/a"
	fsfreeze -f "$D/a"
	: >"$D/frozen"
	# More than there are threads, in a directory each.
	for i in $(seq 20); do
		touch "$M/d-$i/new" 2>"$D/said-$i" &
		pids+=($!)
	done
	# Nobody else waits for them.
	same "$(timeout 60 cat "$M/of-b/f")" "of b"
	timeout 60 touch "$M/of-b/f"
	eventually 60 is_state a failed
	# A caller that waited gets an error, or its file elsewhere; later ones do not wait.
	for i in "${pids[@]}"; do wait "$i" || rc=$((rc + 1)); done
	[ $rc -gt 0 ] || fail "nobody was told"
	same "$(grep -l 'Input/output error' "$D"/said-[0-9]* | wc -l)" $rc
	eventually 60 grep -q "Input/output error" "$D/said-open"
	wait $writer || true
	timeout 60 touch "$M/later"
	same "$(ls "$D/b/later")" "$D/b/later"
	eio cat "$M/f-a"
	[ "$(stat_of failed)" = 1 ]
	fsfreeze -u "$D/a"
	eventually 90 is_state a ok
	same "$(cat "$M/f-a")" kept
	# A file that was made after all is there once, and seen.
	same "$( (cd "$D" && find a b -name .tributary -prune -o -type f -printf '%P\n') | sort | uniq -d)" ""
	same "$(find "$M" -type f | wc -l)" \
		"$( (cd "$D" && find a b -name .tributary -prune -o -type f -print) | wc -l)"
	unmount "$M"
}

test_no_server_takes_over_while_a_branch_hangs() {
	OPTIONS=survive=yes two_branches mkfs.ext4 -q
	local server writer
	server=$(union_server "$M")
	at_exit fsfreeze -u "$D/a"
	fsfreeze -f "$D/a"
	touch "$M/of-a/new" &
	writer=$!
	eventually 30 eval 'grep -qs "^State:.D" /proc/$server/task/*/status'
	fails 1 "does not answer" trib-union --control "$D/ctl" upgrade
	kill -USR2 "$(pgrep -f -- " -f --ready-fd=3 .* $M\$")"
	eventually 30 eval '[ "$(logged "no other server takes over")" = 2 ]'
	same "$(union_server "$M")" "$server"
	same "$(timeout 60 cat "$M/of-b/y")" b/of-b/y
	fsfreeze -u "$D/a"
	wait $writer || true
	eventually 30 trib-union --control "$D/ctl" upgrade >/dev/null
	[ "$(union_server "$M")" != "$server" ]
	eventually 90 is_state a ok
	same "$(cat "$M/f-a")" a/f-a
	unmount "$M"
}

# hang FILE: somebody waits for FILE, which is on the frozen branch a
hang() {
	local server
	server=$(union_server "$M")
	timeout 100 touch "$1" 2>"$D/said-hanging" &
	eventually 30 eval 'grep -qs "^State:.D" /proc/'"$server"'/task/*/status'
}

# another_server PID: it serves, while that one is there still
another_server() { eventually 30 union_server_after "$M" "$1"; }
dead_but_there() { grep -qs "^State:.Z" "/proc/$1/status"; }

frozen() { # a union, whose branch a is frozen, and names in its folders known
	OPTIONS=survive=yes two_branches mkfs.ext4 -q
	stat "$M/none" "$M/both/none" "$M/of-b/none" "$M/of-a/none" >/dev/null 2>&1 || true
	at_exit fsfreeze -u "$D/a"
	fsfreeze -f "$D/a"
}

test_a_server_killed_while_it_hangs_in_a_branch_is_followed() {
	local server
	frozen
	server=$(union_server "$M")
	exec 7<"$M/of-b/y"
	hang "$M/of-a/new"
	kill -9 "$server"
	# Nobody waits for the branch but who uses it.
	same "$(timeout 60 cat "$M/of-b/y")" b/of-b/y
	dead_but_there "$server" || fail "the branch does not hang"
	same "$(cat <&7)" b/of-b/y
	same "$(timeout 60 trib-union --control "$D/ctl" status | jq .pid)" "$(union_server "$M")"
	same "$(state a)" failed
	timeout 60 touch "$M/of-b/later"
	timeout 60 mkdir "$M/of-b/d"
	timeout 60 mv "$M/of-b/later" "$M/of-b/d/later"
	# What may be there is not made: this server never saw its names.
	eio timeout 60 touch "$M/later"
	eio timeout 60 cat "$M/f-a"
	eio timeout 60 stat "$M/of-a/other"
	eio timeout 60 touch "$M/of-a/new"
	# Not before that one has ended, though it could be read.
	sleep 3
	same "$(state a)" failed
	eio timeout 60 cat "$M/f-a"
	fsfreeze -u "$D/a"
	eventually 90 is_state a ok
	eventually 60 eval '[ ! -e /proc/'"$server"' ]'
	wait
	same "$(cat "$M/f-a")" a/f-a
	# The call that hung has happened by then, and its effect is seen.
	same "$(ls "$M/of-a")" "$(printf '%s\n' new y)"
	same "$(find "$D/a" "$D/b" -name new | wc -l)" 1
	exec 7<&-
	unmount "$M"
}

test_so_is_the_one_that_hangs_next() {
	local first second
	frozen
	first=$(union_server "$M")
	hang "$M/of-a/new"
	kill -9 "$first"
	another_server "$first"
	second=$(union_server "$M")
	kill -9 "$second"
	another_server "$second"
	dead_but_there "$first"
	same "$(timeout 60 cat "$M/of-b/y")" b/of-b/y
	same "$(state a)" failed
	fsfreeze -u "$D/a"
	eventually 90 is_state a ok
	eventually 60 eval '[ ! -e /proc/'"$first"' ]'
	wait
	same "$(cat "$M/f-a")" a/f-a
	unmount "$M"
}

test_a_union_with_such_a_server_can_be_unmounted() {
	local server supervisor
	frozen
	server=$(union_server "$M")
	supervisor=$(pgrep -f -- " -f --ready-fd=3 .* $M\$")
	hang "$M/of-a/new"
	kill -9 "$server"
	another_server "$server"
	wait # for who got EIO
	timeout 60 umount "$M"
	# The supervisor, too, goes; that one when the branch answers.
	eventually 60 eval '[ ! -e /proc/'"$supervisor"' ]'
	dead_but_there "$server"
	fsfreeze -u "$D/a"
	eventually 60 eval '[ ! -e /proc/'"$server"' ]'
	same "$(ls "$D/a/of-a")" "$(printf '%s\n' new y)"
}

run_tests "$@"
