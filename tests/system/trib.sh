#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The command: its words, exit codes, tables and JSON, on two hosts.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/cluster.sh"
need_root
need ip nsenter losetup mkfs.ext4 python3 openssl

at_exit cluster_stop
cluster_start "$TEST_DIR/c" 2 256MiB || { cluster_stop; exit 1; }

# json COMMAND...: it prints one JSON document; shown on one line
json() { on 1 trib "$@" --json | python3 -c 'import json, sys; print(json.dumps(json.load(sys.stdin)))'; }

test_every_command_has_help_and_is_in_the_reference() {
	local words
	on 1 trib help | sed -n 's/^  \([a-z]\+\( [a-z]\+\)\{0,2\}\) .*/\1/p' | sort -u >"$TEST_DIR/commands"
	[ "$(wc -l <"$TEST_DIR/commands")" -ge 25 ]
	while read -r words; do
		# shellcheck disable=SC2086
		on 1 trib $words --help | grep -q "^usage: trib $words"
		grep -q "trib $words" "$TOP/docs/trib.md" || fail "docs/trib.md does not tell of '$words'"
	done <"$TEST_DIR/commands"
	on 1 trib --version | grep -qE '^trib [0-9]'
}

test_wrong_words_are_usage_errors() {
	fails 2 "no command 'frobnicate'" on 1 trib frobnicate
	fails 2 "no command 'volume frobnicate'" on 1 trib volume frobnicate x
	fails 2 "goes on with: create, list" on 1 trib snapshot
	fails 2 "goes on with: create, list, show, delete" on 1 trib snapshot group --json
	fails 2 "usage: trib volume create NAME" on 1 trib volume create
	fails 2 "sizes" on 1 trib volume create x --sizes 1GiB
	fails 2 "size" on 1 trib volume create x --size many
	fails 2 "value" on 1 trib volume create x --size
	fails 2 "usage" on 1 trib
	echo "stoer = x" >"$TEST_DIR/bad.conf"
	fails 2 "stoer" on 1 trib status --config "$TEST_DIR/bad.conf"
	fails 2 "nowhere.conf" on 1 trib status --config "$TEST_DIR/nowhere.conf"
}

# doctor VERDICT SUBJECT: what the last run found so, in a line each
doctor() {
	python3 - "$TEST_DIR/doctor.json" "$@" <<-'END'
		import json, sys
		for one in json.load(open(sys.argv[1]))["findings"]:
		    if one["verdict"] == sys.argv[2] and one["subject"].startswith(sys.argv[3]):
		        print(one["subject"], one["found"], one["cost"], one["mend"], sep="|")
	END
}
test_doctor_says_what_is_amiss_and_what_mends_it() {
	local r=0
	on 1 trib doctor >"$TEST_DIR/said"
	grep -q "^ok  *node host2  *answers" "$TEST_DIR/said"
	# Without the kernel's NBD client, or with it.
	on 1 trib doctor --json >"$TEST_DIR/doctor.json"
	doctor ok "kernel" | grep -q "Linux $(uname -r)"
	doctor ok "pool host1/" | grep -q "online, .* free"
	[ -z "$(doctor fault "")" ]
	[ -n "$(doctor ok "transport nbd")$(doctor notice "transport nbd" | grep "|modprobe nbd$")" ]

	# A program that is missing.
	mkdir -p "$TEST_DIR/none"
	on 1 env PATH="$TEST_DIR/none" "$(command -v trib)" doctor --json >"$TEST_DIR/doctor.json" || r=$?
	[ "$r" = 0 ]
	[ "$(doctor ok "program " | wc -l)" = 6 ] # administrators' folders are looked into, too

	# A node that does not answer, by name; the others are told of all the same.
	blockd_signal 2 STOP
	at_exit blockd_signal 2 CONT
	on 1 trib doctor --json >"$TEST_DIR/doctor.json" && return 1
	blockd_signal 2 CONT
	doctor fault "node host2" | grep -q "|on host2: systemctl status"
	doctor ok "node host1" | grep -q answers

	# A store that does not open: this machine is told of all the same.
	r=0
	on 1 trib doctor --store etcd:http://127.0.0.1:1 --json >"$TEST_DIR/doctor.json" || r=$?
	[ "$r" != 0 ]
	doctor fault records | grep -q "volumes in use go on"
	doctor ok "program mkfs.ext4" | grep -q installed

	# This machine alone: also without a store.
	on 1 trib doctor --host --store etcd:http://127.0.0.1:1 --json >"$TEST_DIR/doctor.json"
	doctor ok "kernel" | grep -q Linux
	same "$(doctor ok "" | grep -cE '^(node|pool|volume|records)')" 0
	# With a fault that says what it costs, and how it is mended.
	on 1 unshare --mount bash -c 'mkdir "$1" && mount --bind "$1" /dev &&
		exec trib doctor --host --json' - "$TEST_DIR/no-devices" >"$TEST_DIR/doctor.json" || r=$?
	[ "$r" = 1 ]
	doctor fault "transport fuse" | grep -q "|modprobe fuse$"
}

test_exit_codes_tell_failures_apart() {
	fails 3 "nothing-here" on 1 trib volume show nothing-here
	fails 3 "no-node" on 1 trib pool list no-node
	fails 3 "no-extent" on 1 trib extent show no-extent
	fails 1 "Upper" on 1 trib volume create Upper --size 64MiB
	fails 2 "say how large" on 1 trib volume create x
	fails 5 "host2" on 1 trib volume create x --size 10GiB
	fails 5 "" on 1 trib extent create big --size 10GiB
	fails 5 "no nodes are known" on 1 trib volume create x --size 64MiB --store "local:$TEST_DIR/none.db"
	fails 3 "no volume 'tpyo'" on 1 trib umount tpyo
	fails 3 "no volume 'No Name'" on 1 trib umount "No Name"
	on 1 trib volume create same --size 64MiB
	on 1 trib umount same
	on 1 trib volume create same --size 64MiB
	fails 4 "same" on 1 trib volume create same --size 128MiB
	on 1 trib volume delete same
	on 1 trib volume delete same
}

test_a_directory_is_unmounted_by_any_of_its_names() {
	local at=$TEST_DIR/at word
	mkdir -p "$at/Mnt"
	on 1 trib volume create moved --size 64MiB
	at_exit on 1 trib umount moved --force
	for word in Mnt ./Mnt Mnt/ "$at/Mnt" moved; do
		on 1 sh -c 'cd "$1" && trib mount moved Mnt && trib umount "$2"' sh "$at" "$word"
		fails 1 "" on 1 findmnt "$at/Mnt"
	done
	# The name is said first: this directory is none's.
	mkdir "$at/moved"
	on 1 sh -c 'cd "$1" && trib mount moved Mnt && trib umount moved' sh "$at"
	fails 3 "no volume is mounted at" on 1 sh -c 'cd "$1" && trib umount ./moved' sh "$at"
	on 1 trib volume delete moved
}

used_by() { du -c "$TEST_DIR"/c/host?/pool/extents/"$1"-*.data | tail -n 1 | cut -f1; } # VOLUME: KiB
trims_to() { # KIB
	on 1 trib volume trim trims | grep -q "^volume trims: .* trimmed"
	[ "$(used_by trims)" -lt "$1" ]
}
# One split is on the host that has it mounted, one is not.
test_what_a_mounted_volume_does_not_use_is_given_back() {
	local m=$TEST_DIR/c/host1/mnt/trims base i
	mkdir -p "$m"
	on 1 trib volume create trims --size 256MiB --splits 2
	at_exit on 1 trib volume delete trims
	fails 6 "mounted nowhere" on 1 trib volume trim trims
	on 1 trib mount trims "$m"
	at_exit on 1 trib umount trims --force
	sync -f "$m" && base=$(used_by trims)
	for i in 1 2 3 4 5 6; do head -c 12000000 /dev/urandom >"$m/$i"; done
	sync "$m"/*
	rm "$m"/[1-6]
	sync -f "$TEST_DIR"/c/host1/run/volumes/trims/branch-0
	sync -f "$TEST_DIR"/c/host1/run/volumes/trims/branch-1
	[ "$(used_by trims)" -gt $((base + 50000)) ]
	fails 6 "repeat the command on host1" on 2 trib volume trim trims
	json volume trim | grep -q '"volume": "trims", "trimmed": [1-9]'
	# A file system frees what was removed a moment later.
	eventually 60 trims_to $((base + 30000))
	fails 3 "nothing-here" on 1 trib volume trim nothing-here
	on 1 trib umount trims
	# A snapshot keeps nothing of it either.
	on 1 trib snapshot create kept trims
	at_exit on 1 trib snapshot delete kept
	json snapshot show kept | python3 -c 'import json, sys
used = sum(s["allocated"] for s in json.load(sys.stdin)["splits"])
assert used < int(sys.argv[1]) + 30000 << 10, used' "$base"
	on 1 trib volume create device --size 64MiB --layout linear
	at_exit on 1 trib volume delete device
	fails 1 "fstrim or blkdiscard" on 1 trib volume trim device
}

test_what_is_wrong_with_certificates_is_said() {
	local d=$TEST_DIR/tls pid name said
	mkdir -p "$d/state" "$d/run"
	certificate() { # NAME CA DAYS
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
			-addext subjectAltName=IP:127.0.0.1 -keyout "$d/$1.key" -out "$d/csr"
		openssl x509 -req -in "$d/csr" -CA "$d/$2.crt" -CAkey "$d/$2.key" -CAcreateserial \
			-copy_extensions copy -days "$3" -out "$d/$1.crt"
		chmod 600 "$d/$1.key"
	} 2>"$d/openssl.log"
	for name in ours others; do
		openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 400 \
			-subj "/CN=$name" -keyout "$d/$name.key" -out "$d/$name.crt" 2>>"$d/openssl.log"
	done
	certificate server ours 20
	certificate good ours 300
	certificate other others 300
	on 1 blockd --node-name n9 --state-dir "$d/state" --run-dir "$d/run" \
		--control "unix:$d/run/sock" --control tcp:127.0.0.1:7443 --listen tcp:127.0.0.1:7444 \
		--tls-ca "$d/ours.crt" --tls-cert "$d/server.crt" --tls-key "$d/server.key" >"$d/log" 2>&1 &
	eventually 30 pgrep -f "blockd --node-name n9 --state-dir $d"
	pid=$(pgrep -f "blockd --node-name n9 --state-dir $d" | tail -n 1)
	at_exit kill $pid
	eventually 30 grep -q "node n9 is ready" "$d/log"
	grep -q "warning: certificate '$d/server.crt' ends in " "$d/log"
	at_exit on 1 trib node remove n9
	try() { # PORT CA CERTIFICATE
		on 1 trib node add n9 --control "tcp:127.0.0.1:$1" --data 127.0.0.1:7444 \
			--tls-ca "$d/$2.crt" --tls-cert "$d/$3.crt" --tls-key "$d/$3.key" 2>&1
	}
	said=$(try 7443 ours other)
	[[ $said == *"it refuses our certificate '$d/other.crt'"*"node n9 added"* ]]
	said=$(try 7443 others good)
	[[ $said == *"its certificate, by 'CN=ours', is of no CA in '$d/others.crt'"* ]]
	said=$(try 7444 ours good)
	[[ $said == *"does not speak TLS"* ]]
	said=$(try 7445 ours good)
	[[ $said == *"Connection refused"* ]]
	said=$(try 7443 ours good)
	[[ $said == *"warning: certificate '$d/server.crt' ends in "* ]]
	on 1 trib status | grep "^node n9: certificate '$d/server.crt' ends in "
	on 1 trib node show n9 | grep "^warning   certificate '$d/server.crt' ends"
	same "$(on 1 trib status --json | grep -c "\"warning\":.*server.crt")" 1
}

test_an_extent_is_a_lun() {
	local at=iqn.2000-01.org:group me=iscsi:iqn.2000-01.org:me
	on 1 trib extent create host1/one --size 16MiB
	on 1 trib extent create host1/two --size 16MiB
	on 1 trib extent export host1/one --target $at --lun 3 --allow $me
	on 1 trib extent show host1/one | grep -qx "iscsi       LUN 3 of $at"
	json extent show host1/one | grep -q '"iscsiLun": 3'
	fails 4 "LUN 3 of target '$at' is extent 'one'" \
		on 1 trib extent export host1/two --target $at --lun 3 --allow $me
	fails 2 "--target" on 1 trib extent export host1/two --lun 3 --allow $me
	fails 1 "LUN 256" on 1 trib extent export host1/two --target $at --lun 256 --allow $me
	on 1 trib extent export host1/one --allow $me
	! on 1 trib extent show host1/one | grep "LUN" || false
	on 1 trib extent delete host1/one --force
	on 1 trib extent delete host1/two --force
}

test_json_is_json_and_errors_are_too() {
	local out rc=0
	json status | grep -q '"name": "host2"'
	json node list | grep -q '"reachable": true'
	json node show | grep -q '"transport": "fuse"'
	json pool list | grep -q '"capacity": 268435456'
	json extent create j --size 8MiB | grep -q '"size": 8388608'
	json extent list | grep -q '"name": "j"'
	json pool list | grep -q '"nominal": 8388608'
	json volume list | grep -qx '\[\]'
	json volume orphans | grep -qx '\[\]'
	json devices | grep -qx '\[\]'
	out=$(on 1 trib volume show nope --json 2>/dev/null) || rc=$?
	same $rc 3
	python3 -c 'import json, sys; assert json.loads(sys.argv[1])["error"]["code"] == "ENOENT"' "$out"
	on 1 trib extent delete j
}

test_an_extent_is_attached_here_and_from_the_other_host() {
	local device
	on 1 trib extent create e1 --size 32MiB
	device=$(on 1 trib attach e1)
	[ -b "$device" ]
	same "$(blockdev --getsize64 "$device")" 33554432
	mkfs.ext4 -q -F "$device"
	same "$(on 1 trib attach e1)" "$device" "attaching twice"
	fails 6 "" on 2 trib attach host1/e1
	fails 6 "" on 1 trib extent delete e1
	on 1 trib devices | grep -q "$device"
	on 1 trib detach e1
	on 1 trib detach e1
	device=$(on 2 trib attach host1/e1 --transport fuse)
	e2fsck -fn "$device"
	on 2 trib detach host1/e1
	on 1 trib extent delete e1
	same "$(on 1 trib devices | wc -l)" 1
	same "$(on 2 trib devices | wc -l)" 1
}

test_an_extent_is_served_to_any_nbd_client() {
	local uri
	need qemu-io nbdinfo
	on 1 trib extent create e2 --size 16MiB
	uri=$(on 1 trib extent export e2 --allow 10.77.0.2)
	on 2 qemu-io -f raw "$uri" -c 'write -P 0x5a 0 1M' -c 'read -P 0x5a 0 1M' >/dev/null
	fails any "" on 1 nbdinfo "$uri"
	on 1 trib extent stats e2 | grep -q '^write .* 1.00 MiB '
	same "$(on 1 trib extent stats e2 --json | jq -r \
		'.operations[] | select(.operation == "read").bytes')" 1048576
	on 1 trib extent resize e2 --size 32MiB
	same "$(on 2 nbdinfo --size "$uri")" 33554432
	on 1 trib extent unexport e2
	fails any "not served" on 1 trib extent stats e2
	fails any "" on 2 nbdinfo "$uri"
	on 1 trib extent delete e2
}

test_completion_offers_commands_options_and_names() {
	on 1 trib complete -- vol | grep -qx volume
	same "$(on 1 trib complete -- node '' | sort | xargs)" "add cordon drain list register remove show uncordon"
	on 1 trib complete -- volume create x --si | grep -qx -- --size
	on 1 trib complete -- node show '' | grep -qx host2
	on 1 trib complete -- pool delete '' | grep -qx host1/main
	same "$(on 1 trib complete -- mount nothing '')" ""
	fails 2 "" on 1 trib complete --config /nowhere -- x
}

test_events_tell_what_has_changed_and_go_on_with_it() {
	local m=$TEST_DIR/c/host1/mnt/ev said=$TEST_DIR/events
	mkdir -p "$m"
	nsenter --net="/run/netns/${CLUSTER_NET}1" env TRIB_CONFIG="$TEST_DIR/c/host1/trib.conf" \
		trib events --watch >"$said" 2>&1 &
	local watcher=$!
	at_exit kill $watcher
	eventually 60 grep -q "  node host2  Known " "$said"
	on 1 trib volume create ev --size 64MiB
	at_exit on 1 trib volume delete ev
	eventually 60 grep -q "  volume ev  Done  Created: " "$said"
	on 2 trib mount ev "$m"
	at_exit on 2 trib umount ev --force
	eventually 60 grep -q "  volume ev  Attached  on node host2 at $m" "$said"
	kill $watcher
	wait $watcher
	# Each once, and by the other host the same.
	same "$(grep -c "  node host2  Known " "$said")" 1
	same "$(grep -c "  volume ev  Done  " "$said")" 1
	on 2 trib events --json | python3 -c '
import json, sys
all = json.load(sys.stdin)
assert [e["atSeconds"] for e in all] == sorted(e["atSeconds"] for e in all), all
assert {"Attached", "Done"} == {e["reason"] for e in all if e["object"] == "volume ev"}, all
assert [e["good"] for e in all if e["object"] == "node host1"] == [True], all'
	on 2 trib umount ev
	on 1 trib volume delete ev
}

# A writer goes on, so each sample differs from the one before it.
write_on() { # FILE
	touch "$TEST_DIR/writing"
	while [ -e "$TEST_DIR/writing" ]; do
		dd if=/dev/zero of="$1" bs=64k count=4 conv=fsync 2>/dev/null
		sleep 0.1
	done
}
test_top_tells_rates_and_what_it_does_not_know() {
	local m=$TEST_DIR/c/host1/mnt/tv writer
	mkdir -p "$m"
	on 1 trib volume create tv --size 64MiB --on host1
	at_exit on 1 trib volume delete tv
	on 1 trib mount tv "$m"
	at_exit on 1 trib umount tv --force
	write_on "$m/f" &
	writer=$!
	at_exit rm -f "$TEST_DIR/writing"
	# rates EXPRESSION HOST WORDS...: it holds for the volume v and the node n
	rates() {
		on "$2" trib top --once --json "${@:3}" | python3 -c '
import json, sys
all = json.load(sys.stdin)
v, = all["volumes"]
n, = all["nodes"]
assert v["name"] == "tv" and n["name"] == "host1" and eval(sys.argv[1]), all' "$1"
	}
	# This host's kernel counts; the other cannot ask for it.
	eventually 60 rates 'v["known"] and v["writtenBytesPerSecond"] > 0 and n["writesPerSecond"] > 0' 1 tv
	rates 'not v["known"] and "host1" in v["why"] and "readsPerSecond" not in n' 2
	on 2 trib top --once | grep -q "^tv .*?.*only the kernel of node host1"
	fails 3 "no volume 'none'" on 1 trib top --once none
	on 1 trib top --once --on host2 | grep -q "no volume is attached"
	rm "$TEST_DIR/writing"
	wait $writer
	on 1 trib umount tv
	# Attached elsewhere: its export counts, and the kernel there.
	m=$TEST_DIR/c/host2/mnt/tv
	mkdir -p "$m"
	on 2 trib mount tv "$m"
	at_exit on 2 trib umount tv --force
	write_on "$m/f" &
	writer=$!
	at_exit rm -f "$TEST_DIR/writing"
	eventually 60 rates 'v["known"] and v["writtenBytesPerSecond"] > 0' 1
	eventually 60 rates 'v["known"] and v["writtenBytesPerSecond"] > 0' 2
	rm "$TEST_DIR/writing"
	wait $writer
	on 2 trib umount tv
	on 1 trib volume delete tv
}

test_a_node_that_does_not_answer_is_shown_and_not_waited_for_long() {
	local start=$SECONDS
	blockd_signal 2 TERM
	on 1 trib node list | grep -q 'host2 *no answer'
	on 1 trib status | grep -q '^node host2: '
	fails 7 "host2" on 1 trib extent create host2/x --size 8MiB
	[ $((SECONDS - start)) -lt 60 ] || fail "took $((SECONDS - start)) s"
	blockd_start 2
}

run_tests "$@"
