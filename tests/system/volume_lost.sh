#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Volumes that go on without a node that is lost for good.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/volume_lib.sh"
need jq

branch() { echo "$C/host1/run/volumes/$1/branch-$2/data"; } # VOLUME SPLIT, on host1
files_of() { find "$(branch "$1" "$2")" -maxdepth 1 -name 'f*' -printf '%f\n' | sort; }
lost_of() { on 1 trib volume show "$1" --json | jq -r '[.splits[] | select(.node == "host3") | .index] | .[0]'; }
number() { # FROM TO DIR: a file of its number each
	local i
	for ((i = $1; i <= $2; i++)); do echo "$i" >"$3/f$i"; done
}
has_numbers() { # DIR: each of the files there has its own number
	local f
	for f in "$1"/f*; do same "$(cat "$f")" "${f##*/f}"; done
}
size_of() { df --output=size "$1" | tail -1 | tr -d ' '; }
# host3 is gone for good; and is back, with what it had.
gone() {
	at_exit back
	blockd_signal 3 KILL
	"$@"
}
anew() {
	[ -f "$C/host3/blockd.pid" ] || _blockd_spawn 3
	on 1 trib node add host3 --control "unix:$C/host3/run/blockd.sock" --data 10.77.0.3:10809 --quiet
	eventually 30 on 1 trib pool list host3
}
back() { # also after a failure
	on 1 trib node show host3 >/dev/null 2>&1 || anew
	drop_left
}
drop_left() { # the extents that are nobody's on host3
	local left
	for left in $(on 1 trib volume orphans --json | jq -r '.[] | select(.node == "host3").name'); do
		on 1 trib extent delete --force "host3/$left" --quiet
	done
}
conditions() { on 1 trib volume show "$1" --json | jq -c '[.conditions[].reason]'; }

# VOLUME: its extent on host3, which its record gave up, is freed after a grace;
# one beside it that no record knows stays.
is_reclaimed() {
	local left has=$C/host3/pool/extents
	left=$(on 1 trib volume orphans --json | jq -r '.[0].name')
	on 3 trib extent create strange --size 64MiB --label tributary.io/volume-uid=11111111-2222-4333-8444-555555555555 \
		--label tributary.io/volume=gone --quiet
	same "$(on 1 trib volume scrub --json | jq -c '[.ran, .orphans, .missing, .silent]')" '[true,2,0,0]'
	same "$(on 2 trib volume scrub --every 3600 --json | jq -c '[.ran, .orphans]')" '[false,2]'
	grep -q "^node host3: scrub of .*orphans: 2 " <<<"$(on 2 trib status)"
	same "$(on 2 trib status --json | jq -c '[.nodes[].scrub.orphans]')" '[0,0,2]'
	grep -q "^notice *scrub " <<<"$(on 2 trib doctor)"
	# Nothing yet; then what is listed, and no more.
	grep -q "nothing to reclaim" <<<"$(on 1 trib volume orphans --reclaim)"
	[ -f "$has/$left.data" ] || fail "$left is gone within its grace"
	on 1 trib volume orphans --reclaim --grace 0 >"$TEST_DIR/said"
	grep -q "^host3 *$left *$1 .*--reclaim. frees it" "$TEST_DIR/said"
	! grep -q strange "$TEST_DIR/said" || fail "what no record knows is listed"
	grep -q "extent host3/$left reclaimed" "$TEST_DIR/said"
	[ ! -e "$has/$left.data" ] || fail "$left is still there"
	[ -f "$has/strange.data" ] || fail "what no record knows was deleted"
	same "$(on 2 trib status --json | jq -c '[.nodes[].scrub.orphans]')" '[0,0,1]'
	on 3 trib extent delete --force strange --quiet
}

test_a_union_goes_on_without_a_lost_node_and_is_made_whole() {
	local m lost other=() i all said
	volume u
	on 1 trib volume create u --size 1200MiB --splits 3 --policy rand --quiet
	m=$(mnt 1 u)
	on 1 trib mount u "$m" --quiet
	mkdir "$m/dir"
	number 1 60 "$m"
	cp -r "$m"/f* "$m/dir"
	lost=$(lost_of u)
	all=$(cd "$m" && ls)
	for i in 0 1 2; do [ $i = "$lost" ] || other+=($i); done
	[ "$(files_of u "$lost" | wc -l)" -gt 0 ] || fail "host3 has no file"
	said=$(files_of u "${other[0]}" && files_of u "${other[1]}")
	on 1 trib umount u --quiet
	gone on 1 trib node remove --lost --grace 0 host3 --quiet
	# Not without being asked for; then the rest.
	fails any "trib mount -o degraded u DIRECTORY" on 1 trib mount u "$m"
	on 1 trib mount -o degraded u "$m" --quiet
	same "$(cd "$m" && printf '%s\n' f* | sort)" "$(sort <<<"$said")"
	has_numbers "$m"
	has_numbers "$m/dir"
	same "$(size_of "$m")" "$(($(size_of "$(branch u "${other[0]}")") + $(size_of "$(branch u "${other[1]}")")))"
	grep -q "1 of 3 splits are lost" <<<"$(on 1 trib volume show u)"
	same "$(conditions u | jq -c 'sort')" '["Degraded","Split"]'
	# The mount keeps the option, and takes new files and changes.
	on 1 trib mount u "$m" --quiet
	number 61 90 "$m"
	mv "$m/dir" "$m/moved"
	same "$(find "$(branch u "$lost")" 2>/dev/null | wc -l)" 0
	has_numbers "$m"
	# The other pools have a split each. Nothing changes without another one.
	fails any "" on 1 trib volume repair --forget-lost u
	same "$(conditions u | jq -c 'sort')" '["Degraded","Split"]'
	has_numbers "$m"
	mkdir -p "$C/host2/spare"
	on 1 trib pool create host2/spare "$C/host2/spare" --capacity "$POOL" --quiet
	on 1 trib volume repair --forget-lost u --quiet
	is_whole 1 u
	same "$(on 1 trib volume show u --json | jq -r ".splits[$lost] | .node + \"/\" + .pool")" host2/spare
	number 91 150 "$m"
	[ "$(files_of u "$lost" | wc -l)" -gt 0 ] || fail "no new file is on the new split"
	# The same after a mount as any other, and for its checks.
	said=$(cd "$m" && find . | sort)
	on 1 trib umount u --quiet
	on 1 trib volume check u --quiet
	on 1 trib mount u "$m" --quiet
	same "$(cd "$m" && find . | sort)" "$said"
	has_numbers "$m"
	is_whole 1 u
	# A node that comes back has an extent that is nobody's.
	anew
	same "$(on 1 trib volume orphans --json | jq -r '[.[] | .node] | unique[]')" host3
	same "$(cd "$m" && find . | sort)" "$said"
	is_whole 1 u
	is_reclaimed u
	same "$(cd "$m" && find . | sort)" "$said"
	is_whole 1 u
	on 1 trib umount u --quiet
	on 1 trib volume delete u --quiet
	on 1 trib pool delete host2/spare --quiet
	nothing_left
}

test_a_mount_from_before_the_loss_is_unmounted_first() {
	local m lost
	volume b
	on 1 trib volume create b --size 1200MiB --splits 3 --policy rand --quiet
	m=$(mnt 1 b)
	attach 1 b
	number 1 40 "$m"
	lost=$(lost_of b)
	TRIB_TEST_CALL_TIMEOUT_MS=1000 gone v 1 node-give-up name=host3 >/dev/null
	fails any "degraded" on 1 trib mount b "$m"
	fails any "unmount it first" on 1 trib mount -o degraded b "$m"
	fails any "since before the split was lost" on 1 trib volume repair --forget-lost b
	fails any "is mounted on node 'host1'" on 2 trib volume repair --forget-lost b
	on 1 trib umount --force b --quiet
	# Unmounted it is repaired from anywhere, and joins at the next mount.
	mkdir -p "$C/host2/spare"
	on 1 trib pool create host2/spare "$C/host2/spare" --capacity "$POOL" --quiet
	on 2 trib volume repair --forget-lost b --quiet
	on 1 trib mount b "$m" --quiet
	is_whole 1 b
	has_numbers "$m"
	number 41 80 "$m"
	[ "$(files_of b "$lost" | wc -l)" -gt 0 ] || fail "no new file is on the new split"
	on 1 trib umount b --quiet
	on 1 trib volume delete b --quiet
	on 1 trib pool delete host2/spare --quiet
	anew
	drop_left
	nothing_left
}

run_tests "$@"
