#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# blockd's iSCSI target with open-iscsi and the kernel's initiator: CHAP,
# digests, growth, a server that is restarted; our initiator over it; and a
# volume's whole path by it.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/open_iscsi_lib.sh"
fetch_open_iscsi
inside_vm -m 1024 -d pool:2G -- "$@"
. "$(dirname "$0")/../initiator_lib.sh"
need mkfs.ext4 resize2fs e2fsck ip
start_open_iscsi
modprobe -a loop fuse 2>/dev/null || true
blockd_call=$BUILD/test/blockd/testkit/blockd_call
mkfs.ext4 -q /dev/vda
mkdir "$TEST_DIR/pool" "$TEST_DIR/mnt" "$TEST_DIR/secrets"
mount /dev/vda "$TEST_DIR/pool"
at_exit umount "$TEST_DIR/pool"
truncate -s 0 "$TEST_DIR/blockd.conf"
# Values of CHAP that look like numbers, or have spaces, are only text.
(
	umask 077
	cat >"$TEST_DIR/secrets/oneway" <<-S
		user alice
		secret 0x no number, 21 bytes
	S
	cat >"$TEST_DIR/secrets/mutual" <<-S
		user bob
		secret a secret of the node
		mutual-user target
		mutual-secret another one, not the same
	S
	sed 's/of the node/of nobody at all/' "$TEST_DIR/secrets/mutual" >"$TEST_DIR/wrong"
)

# The server has a network of its own, so that it can be cut off.
ip netns add server
ip link add c0 type veth peer name s0 netns server
ip addr add 10.78.0.1/24 dev c0
ip link set c0 up
ip -n server addr add 10.78.0.2/24 dev s0
ip -n server link set s0 up
ip -n server link set lo up
control=unix:$TEST_DIR/run/blockd.sock

start_blockd() {
	nsenter --net=/run/netns/server "$BUILD/bin/blockd" --node-name s \
		--pool "p=$TEST_DIR/pool" --floor 1M --listen tcp:10.78.0.2:10809 \
		--listen-iscsi tcp:0.0.0.0:3260 --iscsi-secrets "$TEST_DIR/secrets" \
		--control "$control" --state-dir "$TEST_DIR/server" \
		--run-dir "$TEST_DIR/run" --config "$TEST_DIR/blockd.conf" \
		>>"$TEST_DIR/blockd.log" 2>&1 &
	echo $! >"$TEST_DIR/blockd.pid"
	disown
	eventually 60 "$blockd_call" "$control" GetNode
}
# Stop blockd, which need not be a child of this shell.
stop_blockd() {
	local pid
	pid=$(cat "$TEST_DIR/blockd.pid") || return 0
	kill "-${1:-TERM}" "$pid" || return 0
	eventually 30 blockd_is_gone "$pid"
}
blockd_is_gone() { ! grep -qs '^State:[[:space:]]*[^Z]' "/proc/$1/status"; }
start_blockd
at_exit stop_blockd
say_more() {
	tail -n 8 "$TEST_DIR/blockd.log"
	tail -n 12 "$TEST_DIR/iscsid.log"
	tail -n 20 "$TEST_DIR/out"
	dmesg | tail -n 8
	find /etc/iscsi/nodes /etc/iscsi/ifaces -type f
}

# extent NAME MIB EPOCH: made and exported; $target is what to log in to
extent() {
	"$blockd_call" "$control" CreateExtent pool=p "name=$1" "size=$(($2 << 20))" >/dev/null
	export_extent "$1" "$3"
}
export_extent() {
	target=$("$blockd_call" "$control" SetExport "name=$1" "epoch=$2" \
		block_size=4096 initiators=10.78.0.1 |
		sed -n 's/.*"iscsi_name": *"\([^"]*\)".*/\1/p')
	[ -n "$target" ] || fail "no iSCSI name"
}
# by_iscsi SIZE [KEY=VALUE...]: the arguments that attach $target
by_iscsi() {
	echo "id=a transport=iscsi portal=10.78.0.2:3260 target=$target size=$1 ${*:2}"
}
gone() {
	umount -l "$TEST_DIR/mnt"
	call detach id=a
	"$blockd_call" "$control" DeleteExtent "name=$1"
}
# Nothing of ours in the kernel, in open-iscsi's records, in our state.
nothing_attached() {
	[ -z "$(ls /sys/class/iscsi_session 2>/dev/null)" ] || { ls /sys/class/iscsi_session; return 1; }
	[ -z "$(find /etc/iscsi/nodes /etc/iscsi/ifaces /etc/iscsi/static -name '*trib-*' 2>/dev/null)" ] ||
		{ find /etc/iscsi -name '*trib-*'; return 1; }
	[ -z "$(ls "$STATE" 2>/dev/null)" ] || { ls "$STATE"; return 1; }
}

# What people do by hand: discovery, a login with CHAP both ways and digests.
test_open_iscsi_logs_in_with_mutual_chap_and_digests() {
	extent mutual 64 1
	at_exit "$blockd_call" "$control" DeleteExtent name=mutual
	at_exit "$blockd_call" "$control" RemoveExport name=mutual
	local name=iqn.2025-01.io.union:mutual:1 record
	iscsiadm -m discovery -t sendtargets -p 10.78.0.2 >"$TEST_DIR/found"
	grep -qF "10.78.0.2:3260,1 $name" "$TEST_DIR/found" || fail "$(cat "$TEST_DIR/found")"
	! grep -qF "$target" "$TEST_DIR/found" || fail "the tag is shown"
	record=$(find /etc/iscsi/nodes/$name -type f)
	at_exit iscsiadm -m node -T "$name" -o delete
	set_record() {
		sed -i "/^$1 =/d; s|^# END RECORD|$1 = $2\n&|" "$record"
	}
	set_record node.session.auth.authmethod CHAP
	set_record node.session.auth.chap_algs SHA256
	set_record node.session.auth.username bob
	set_record node.session.auth.password "a secret of the node"
	set_record node.session.auth.username_in target
	set_record node.session.auth.password_in "wrong, and long enough"
	set_record 'node.conn\[0\].iscsi.HeaderDigest' CRC32C
	set_record 'node.conn\[0\].iscsi.DataDigest' CRC32C
	fails 19 'login failure' iscsiadm -m node -T "$name" --login
	set_record node.session.auth.password_in "another one, not the same"
	iscsiadm -m node -T "$name" --login
	at_exit iscsiadm -m node -T "$name" --logout
	same "$(cat /sys/class/iscsi_connection/*/header_digest)" 1
	same "$(cat /sys/class/iscsi_connection/*/data_digest)" 1
	iscsiadm -m node -T "$name" --logout
	same "$(ls /sys/class/iscsi_session)" ""
}

test_the_initiator_uses_a_disk_that_grows_and_a_server_that_restarts() {
	extent oneway 32 1
	at_exit gone oneway
	local size=$((32 << 20)) first writer
	fails 1 EACCES "$CALL" attach $(by_iscsi $size) state="$STATE"
	fails 1 EACCES "$CALL" attach $(by_iscsi $size "chap_file=$TEST_DIR/wrong") state="$STATE"
	nothing_attached
	call attach $(by_iscsi $size "chap_file=$TEST_DIR/secrets/oneway" dead_timeout_ms=60000)
	device=$(value device)
	case $(value under) in /dev/sd*) ;; *) fail "$(cat "$TEST_DIR/out")" ;; esac
	same "$(value healthy)" 1
	same "$(blockdev --getss "$device")" 4096
	same "$(cat /sys/class/iscsi_connection/*/header_digest)" 1
	same "$(cat /sys/class/iscsi_session/*/recovery_tmo)" 60
	first=$(ls /sys/class/iscsi_session)
	# The secret is in the record, for root alone, and in nobody's arguments.
	f=$(find /etc/iscsi/nodes -name 'trib-*' -type f)
	same "$(stat -c %a "$f")" 600
	grep -qxF 'node.session.auth.password = 0x no number, 21 bytes' "$f"
	grep -qx 'node.startup = manual' "$f"
	grow() {
		"$blockd_call" "$control" ResizeExtent name=oneway size=$((64 << 20)) >/dev/null
		call resize id=a size=64M
		call resize id=a size=64M
	}
	grows_while_used $((64 << 20)) grow
	refused EINVAL "grow the extent first" resize id=a size=256M

	# The server is killed under a writer and comes back: the same session.
	mounted "$device"
	refused EBUSY "$TEST_DIR/mnt" detach id=a
	: >"$TEST_DIR/go"
	keep_writing 2>"$TEST_DIR/writer.err" &
	writer=$!
	eventually 60 test -e "$TEST_DIR/mnt/f3"
	stop_blockd KILL
	eventually 60 unhealthy
	start_blockd
	eventually 90 healthy
	rm "$TEST_DIR/go"
	wait $writer || fail "$(cat "$TEST_DIR/writer.err")"
	same "$(ls /sys/class/iscsi_session)" "$first"
	unmount "$TEST_DIR/mnt"
	e2fsck -fn "$device"

	# Again is the same; after detach there is nothing.
	call attach $(by_iscsi 64M "chap_file=$TEST_DIR/secrets/oneway")
	same "$(value device)" "$device"
	call detach id=a
	call detach id=a
	nothing_attached
}

# Another epoch, and another incarnation, are other names: no session goes on.
test_a_session_does_not_go_on_with_another_epoch_or_incarnation() {
	extent e 64 1
	at_exit gone e
	local old
	call attach $(by_iscsi 64M dead_timeout_ms=1000)
	device=$(value device)
	echo first | dd of="$device" oflag=sync conv=nocreat status=none
	old=$target
	export_extent e 2
	# By then its I/O may have failed already, and nobody may open it.
	fails any 'dd: ' timeout 120 \
		dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat status=none
	eventually 60 unhealthy
	call attach $(by_iscsi 64M)
	same "$(head -c 5 "$(value device)")" first
	call detach id=a
	target=${target%:*}:0123456789abcdef
	refused EACCES "log in to $target" attach $(by_iscsi 64M)
	target=$old
	refused EACCES "log in to $old" attach $(by_iscsi 64M)
	nothing_attached
}

answers_again() { kill -CONT "$(cat "$TEST_DIR/blockd.pid")"; }

# Nothing waits for the session's recovery, which would take ten minutes.
test_requests_to_a_silent_server_end_at_a_fence() {
	extent t 64 1
	at_exit gone t
	call attach $(by_iscsi 64M dead_timeout_ms=600000)
	device=$(value device) under=$(value under)
	kill -STOP "$(cat "$TEST_DIR/blockd.pid")"
	at_exit answers_again
	dd if=/dev/zero of="$device" bs=4k count=1 oflag=direct conv=nocreat status=none \
		2>"$TEST_DIR/dd" &
	writer=$!
	in_flight() { [ "$(awk '{print $1 + $2}' "/sys/block/${under#/dev/}/inflight")" -gt 0 ]; }
	eventually 60 in_flight
	timeout 120 "$CALL" fence id=a state="$STATE"
	wait $writer && fail "a write that went nowhere succeeded"
	call detach id=a
	nothing_attached
	answers_again
}

# A disk that is well, and in use, is made anew: no request fails.
test_a_disk_in_use_is_made_anew() {
	extent n 64 1
	at_exit gone n
	modprobe dm-mod || skip "the guest's kernel has no device mapper"
	call attach $(by_iscsi 64M)
	device=$(value device) first=$(ls /sys/class/iscsi_session)
	rm -f "$TEST_DIR/stop"
	at_exit touch "$TEST_DIR/stop"
	"$TOP/tests/block_writer.py" "$device" "$TEST_DIR/stop" >"$TEST_DIR/written" 2>&1 &
	writer=$!
	eventually 300 grep -q began "$TEST_DIR/written"
	for i in 1 2 ${LONG_TESTS:+3}; do
		call attach $(by_iscsi 64M renew=1)
		same "$(value device) $(value healthy)" "$device 1"
	done
	[ "$(ls /sys/class/iscsi_session)" != "$first" ]
	same "$(ls /sys/class/iscsi_session | wc -l)" 1
	touch "$TEST_DIR/stop"
	wait $writer || fail "$(cat "$TEST_DIR/written")"
	grep -E 'acknowledged [1-9]' "$TEST_DIR/written"
	call detach id=a
	nothing_attached
}

test_a_kill_between_the_steps_is_repaired() {
	command -v strace >/dev/null || skip "needs strace"
	extent k 64 1
	at_exit gone k
	local n every
	every=$(every)
	# An attach starts iscsiadm four times: to see that it is there, for the
	# interface, for the node record and for the login, which goes on.
	for ((n = 2 + RANDOM % every; n <= 4; n += every)); do
		strace -qq -o /dev/null -e trace=vfork,clone,clone3 \
			-e inject=vfork,clone,clone3:signal=KILL:when=$n \
			"$CALL" attach $(by_iscsi 64M) state="$STATE" >/dev/null 2>&1 || true
		[ $n != 3 ] || call attach $(by_iscsi 64M)
		call detach id=a
		nothing_attached || fail "after a kill at $n"
	done
}

test_a_volume_goes_its_whole_path_by_iscsi() {
	local trib="trib --quiet --store local:$TEST_DIR/records.db --node client --run-dir $TEST_DIR/client"
	printf 'user carol\nsecret of all other extents\n' >"$TEST_DIR/secrets/default"
	chmod 600 "$TEST_DIR/secrets/default"
	at_exit rm "$TEST_DIR/secrets/default"
	$trib node add s --control "$control" --data 10.78.0.2:10809
	$trib node add client
	$trib volume create v --size 320MiB --transport iscsi
	at_exit $trib volume delete v
	fails any log $trib mount v "$TEST_DIR/mnt"
	trib="$trib --iscsi-secrets $TEST_DIR/secrets"
	at_exit $trib umount v
	$trib mount v "$TEST_DIR/mnt"
	$trib devices >"$TEST_DIR/out"
	grep -q ' iscsi .* ok ' "$TEST_DIR/out" || fail "$(cat "$TEST_DIR/out")"
	head -c 30M /dev/urandom >"$TEST_DIR/random"
	cp "$TEST_DIR/random" "$TEST_DIR/mnt/one"
	sync "$TEST_DIR/mnt/one"
	$trib volume resize v --size 480MiB
	[ "$(df -BM --output=size "$TEST_DIR/mnt" | tail -n 1 | tr -dc 0-9)" -gt 400 ] ||
		fail "$(df -m "$TEST_DIR/mnt")"
	$trib umount v
	same "$(ls /sys/class/iscsi_session)" ""
	$trib mount v "$TEST_DIR/mnt"
	cmp "$TEST_DIR/random" "$TEST_DIR/mnt/one"
	$trib umount v
	$trib volume delete v
	same "$(find /etc/iscsi -name '*trib-*')" ""
}

run_tests "$@"
