#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The iSCSI target before the clients of others: libiscsi's tools, qemu and fio.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/blockd_lib.sh"
. "$TOP/tests/iscsi_lib.sh"
need iscsi-ls iscsi-inq qemu-io qemu-nbd fio
need_qemu_iscsi

# A script of Python in which Peer is an initiator (tests/iscsi_peer.py).
initiator() {
	{
		echo 'from iscsi_peer import *'
		cat
	} | PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$TOP/tests \
		timeout 120 /usr/bin/python3 -
}
port() { echo "${portal##*:}"; }

test_discovery_shows_what_a_peer_may_see() {
	start_server --export a=ram:16M --export b.c=ram:16M
	timeout 60 iscsi-ls "iscsi://$portal" | sort >"$TEST_DIR/ls"
	same "$(cat "$TEST_DIR/ls")" "Target:$PREFIX:a Portal:$portal,1
Target:$PREFIX:b.c Portal:$portal,1"
	same "$(timeout 60 iscsi-ls -s "iscsi://$other" | grep -c '^Lun:0')" 2
	stop_server
	start_server --export a=ram:16M --addresses 10.1.2.3
	same "$(timeout 60 iscsi-ls "iscsi://$portal")" ""
	fails any "" timeout 60 iscsi-inq "iscsi://$portal/$PREFIX:a/0"
	stop_server
	start_server --export a=ram:16M --addresses iscsi:iqn.2000-01.org:me
	same "$(timeout 60 iscsi-ls "iscsi://$portal")" ""
	timeout 60 iscsi-ls -i iqn.2000-01.org:me "iscsi://$portal" |
		grep -q "$PREFIX:a"
	stop_server
}

test_several_luns_of_one_target() {
	start_server --target iqn.2000-01.org:group --export a=ram:16M \
		--export b=ram:32M
	timeout 60 iscsi-ls -s "iscsi://$portal" >"$TEST_DIR/ls"
	same "$(grep -c '^Target' "$TEST_DIR/ls")" 1
	# iscsi-ls shows the last block's address for the number of blocks.
	grep -q '^Lun:0.*15M' "$TEST_DIR/ls" || fail "$(cat "$TEST_DIR/ls")"
	grep -q '^Lun:1.*31M' "$TEST_DIR/ls" || fail "$(cat "$TEST_DIR/ls")"
	io "iscsi://$portal/iqn.2000-01.org:group/1" 'write -P 7 17M 1M'
	io "iscsi://$portal/iqn.2000-01.org:group/0" 'read -P 0 0 16M'
	stop_server
}

# Each session sees the LUNs that admit it, and can do nothing to the others.
test_a_session_sees_the_luns_that_admit_it() {
	local at=iqn.2000-01.org:group me=iqn.2000-01.org:me you=iqn.2000-01.org:you
	start_server --target $at --export a=ram:16M --export b=ram:32M \
		--export c=ram:64M --admit a=iscsi:$me --admit b=iscsi:$you \
		--admit b=iscsi:$me@10.0.0.0/8
	same "$(timeout 60 iscsi-ls -s -i $me "iscsi://$portal" | grep -c '^Lun')" 2
	same "$(timeout 60 iscsi-ls -s -i $you "iscsi://$portal" |
		sed -n 's/^Lun:\([0-9]\).*/\1/p' | xargs)" "1 2"
	same "$(timeout 60 iscsi-readcapacity16 -i $you -s "iscsi://$portal/$at/1")" \
		$((32 << 20))
	fails any "" timeout 60 iscsi-readcapacity16 -i $me "iscsi://$portal/$at/1"
	fails any "" timeout 60 iscsi-readcapacity16 -i $you "iscsi://$portal/$at/0"
	initiator <<-END
		me = Peer($(port), "$at") # 5: LUN RESET, 2: ABORT TASK SET
		assert (me.reset(5, 0), me.reset(5, 1)) == (0, 2)
		assert (me.reset(2, 0), me.reset(2, 1)) == (0, 2)
	END
	stop_server
}

test_discovery_may_ask_for_a_secret() {
	chap_file finder finder secret_of_finders
	start_server --export a=ram:16M --discovery "$TEST_DIR/finder"
	fails any "" timeout 60 iscsi-ls "iscsi://$portal"
	timeout 60 iscsi-ls "iscsi://finder%secret_of_finders@$portal" |
		grep -q "$PREFIX:a"
	fails any "" timeout 60 iscsi-ls "iscsi://finder%secret_of_finderz@$portal"
	timeout 60 iscsi-inq "iscsi://$portal/$PREFIX:a/0" >/dev/null
	stop_server
}

test_data_comes_back_with_and_without_digests() {
	local at digest
	truncate -s 64M "$TEST_DIR/disk"
	start_server --export "disk=$TEST_DIR/disk" --thin
	at=driver=iscsi,transport=tcp,portal=$portal,target=$PREFIX:disk,lun=0
	for digest in none crc32c; do
		io "$at,header-digest=$digest" 'write -P 0x5a 0 8M' \
			'write -P 0x11 4096 64k' 'write -P 0x22 1M 512' \
			'write -z 2M 1M' 'flush'
		io "$at,header-digest=$digest" 'read -P 0x5a 0 4096' \
			'read -P 0x11 4096 64k' 'read -P 0x22 1M 512' \
			'read -P 0 2M 1M' 'read -P 0x5a 3M 5M'
	done
	cmp -n 4096 "$TEST_DIR/disk" <(yes Z | tr -d '\n' | head -c 4096)
	stop_server
}

# Small ones are received by a stream, which ends before a large payload.
test_small_and_large_writes_in_a_row_are_kept_with_and_without_streams() {
	local without
	for without in "" streams busy-wait,streams,poll-first; do
		start_server --export a=ram:16M ${without:+--without "$without"}
		initiator <<-END
			me = Peer(${portal##*:}, "$PREFIX:a")
			want = bytearray(8 << 20)
			for turn in range(6):
			    for i in range(32):
			        at = (turn * 32 + i) * 4096
			        data = bytes([turn + 1, i]) * (256 if i % 8 else 1024)
			        want[at:at + len(data)] = data
			        me.write(at, data)
			    for i in range(32):
			        h, d = me.answer(); assert h[3] == 0, (i, h.hex(), d.hex())
			    for i in range(3):
			        at = (4 << 20) + (turn * 3 + i) * 65536
			        data = bytes([turn, i, 7, 9]) * 16384
			        want[at:at + len(data)] = data
			        me.write(at, data)
			    for i in range(3):
			        h, d = me.answer(); assert h[3] == 0, (i, h.hex(), d.hex())
			for at in range(0, 8 << 20, 1 << 16):
			    assert me.read(at, 1 << 16) == want[at:at + (1 << 16)], at
		END
		stop_server
	done
}

test_chap_lets_in_who_knows_the_secret() {
	local at
	chap_file one 0xme 0bsecret_of_twelve
	start_server --export a=ram:16M --chap "$TEST_DIR/one"
	at=$portal/$PREFIX:a/0
	timeout 60 iscsi-inq "iscsi://0xme%0bsecret_of_twelve@$at" >/dev/null
	fails any "" timeout 60 iscsi-inq "iscsi://$at"
	fails any "" timeout 60 iscsi-inq "iscsi://0xme%0bsecret_of_twelvf@$at"
	fails any "" timeout 60 iscsi-inq "iscsi://me%0bsecret_of_twelve@$at"
	! grep -q secret_of "$log" || fail "a secret is in the log"
	stop_server
	chap_file both me secret_of_twelve 0btarget another_of_twelve
	start_server --export a=ram:16M --chap "$TEST_DIR/both"
	at=$portal/$PREFIX:a/0
	timeout 60 iscsi-inq "iscsi://me%secret_of_twelve@$at?target_user=0btarget&target_password=another_of_twelve" >/dev/null
	fails any "" timeout 60 iscsi-inq "iscsi://me%secret_of_twelve@$at?target_user=0btarget&target_password=wrong"
	stop_server
}

test_an_older_epoch_is_refused() {
	start_server --export a=ram:16M --epoch 7
	timeout 60 iscsi-inq "iscsi://$portal/$PREFIX:a:7/0" >/dev/null
	fails any "" timeout 60 iscsi-inq "iscsi://$portal/$PREFIX:a:6/0"
	fails any "" timeout 60 iscsi-inq "iscsi://$portal/$PREFIX:a/0"
	grep -q "of another epoch" "$log" || fail "$(cat "$log")"
	stop_server
}

test_growth_is_seen() {
	local size
	truncate -s 16M "$TEST_DIR/grows"
	start_server --export "a=$TEST_DIR/grows"
	truncate -s 32M "$TEST_DIR/grows"
	kill -HUP "$server"
	eventually 30 grep -q grown "$told"
	size=$(timeout 60 iscsi-readcapacity16 -s "iscsi://$portal/$PREFIX:a/0")
	same "$size" $((32 << 20))
	io "iscsi://$portal/$PREFIX:a/0" 'write -P 3 31M 1M' 'read -P 3 31M 1M'
	stop_server
}

# What comes along with the last login request is not left lying.
test_commands_right_behind_the_login_are_answered() {
	start_server --export a=ram:16M
	timeout 60 /usr/bin/python3 - "${portal#*:}" <<-'END'
		import socket, struct, sys
		s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 30)
		keys = (b"InitiatorName=iqn.2000-01.org:me\0"
		        b"TargetName=iqn.2025-01.io.union:a\0")
		s.sendall(struct.pack(">BBHI6sHIIII16x", 0x43, 0x87, 0, len(keys),
		                      b"\x80abcde", 0, 1, 0, 1, 0)
		          + keys + bytes(-len(keys) % 4)
		          + struct.pack(">BB6x8xIIII16x", 1, 0x81, 9, 0, 1, 0)
		          + struct.pack(">BB6x8xIIII16x", 0x46, 0x80, 3, 0, 2, 0))
		answers = b""
		while part := s.recv(65536):
		    answers += part
		assert answers[-48] == 0x26, answers[-48:]
	END
	stop_server
}

# A peer that says nothing, and one that says nonsense, harm nobody.
test_strange_peers_are_dropped() {
	start_server --export a=ram:16M --max-connections 64
	timeout 60 /usr/bin/python3 - "${portal#*:}" <<-'END'
		import os, socket, sys
		port = int(sys.argv[1])
		def peer(data):
		    s = socket.create_connection(("127.0.0.1", port))
		    s.settimeout(30)
		    s.sendall(data)
		    s.shutdown(socket.SHUT_WR)
		    try:
		        while s.recv(4096):
		            pass
		    except ConnectionResetError:
		        pass
		    s.close()
		peer(b"GET / HTTP/1.1\r\n\r\n" + bytes(64))
		peer(bytes([0x43, 0x87]) + bytes(46))
		peer(bytes([0x43, 0x87, 0, 0, 0, 255, 255, 255]) + bytes(40))
		for i in range(40):
		    peer(os.urandom(48 + i * 16))
		idle = [socket.create_connection(("127.0.0.1", port))
		        for i in range(30)]
		os.system(f"timeout 60 iscsi-inq iscsi://127.0.0.1:{port}/"
		          "iqn.2025-01.io.union:a/0 >/dev/null || kill %d"
		          % os.getpid())
	END
	[ "$(grep -c dropped "$log")" -lt 30 ] || fail "the log is flooded"
	stop_server
}

# The reasons of RFC 7143 11.17.1, but for a DataACK's: each SNACK is rejected.
test_what_is_rejected_is_told_why_and_the_connection_goes_on() {
	start_server --export a=ram:16M
	initiator <<-END
		DIGEST, SNACK, PROTOCOL, UNKNOWN, IMMEDIATE, PROGRESS = range(2, 8)
		FIELD, RESOURCES = 9, 10
		WRITE = struct.pack(">BBIBHB", 0x2a, 0, 0, 0, 1, 0)
		def same(is_, wanted):
		    assert is_ == wanted, (is_, wanted)
		def asked(me):
		    same(me.answer()[0][0], 0x31)  # R2T

		me = Peer($(port), "$PREFIX:a", bad_digests=True)
		same(me.rejected(me.other(0, 0x80, 7, data=b"ping")), DIGEST)
		me.read(0, 512)

		me = Peer($(port), "$PREFIX:a")
		same(me.rejected(me.other(0x10, 0x80)), SNACK)
		same(me.rejected(me.other(0x03, 0x87)), PROTOCOL)
		same(me.rejected(me.other(0x1c, 0x80)), UNKNOWN)
		same(me.rejected(me.other(0x06, 0x85)), FIELD)
		me.read(0, 512)

		ttt = 0xffffffff
		for i in range(2):  # a text of 16 KiB may be, but no more
		    me.other(4, 0x40, 9, ttt, b"x" * 8192)
		    head, _ = me.answer()
		    same(head[0], 0x24)
		    ttt = int.from_bytes(head[20:24], "big")
		same(me.rejected(me.other(4, 0x40, 9, ttt, b"x")), RESOURCES)
		me.read(0, 512)

		me.command(WRITE, 0xa1, 512)
		asked(me)
		me.tag -= 1
		me.command(WRITE, 0xa1, 512)
		same(me.rejected(), PROGRESS)
		me.read(512, 512)

		def immediate(tag):
		    head = struct.pack(">BB2xI8sIIII16s", 0x41, 0xa1, 0, bytes(8),
		                       tag, 512, me.sn, 0, WRITE + bytes(6))
		    me.put(head)
		    return head
		for i in range(16):
		    immediate(1000 + i)
		    asked(me)
		same(me.rejected(immediate(1016)), IMMEDIATE)
		me.read(512, 512)
	END
	stop_server
}

# Of more connections that do not log in than there may be, the oldest go.
test_a_flood_of_those_who_do_not_log_in_keeps_nobody_out() {
	start_server --export a=ram:16M --loops 1 --max-connections 400
	initiator <<-END
		me = Peer($(port), "$PREFIX:a")
		me.write(0, b"k" * 4096)
		h, d = me.answer(); assert h[3] == 0, (i, h.hex(), d.hex())
		half = (struct.pack(">BBHI6sHIIII16x", 0x43, 0x40, 0, 8000, b"\x80zzzzz",
		                    0, 1, 0, 1, 0) + b"X-a=" + b"v" * 4000)
		socks = []
		for i in range(900):
		    s = socket.create_connection(("127.0.0.1", $(port)), 30)
		    if i % 2:
		        s.sendall(half[:48 + i * 4])
		    socks.append(s)
		    if i % 100 == 99: # others get in meanwhile, and go on
		        other = Peer($(port), "$PREFIX:a", isid=b"\x80%05d" % i)
		        assert other.read(0, 4096) == b"k" * 4096
		        assert me.read(0, 4096) == b"k" * 4096
		rss = int(next(line for line in open("/proc/$server/status")
		               if line.startswith("VmRSS")).split()[1])
		assert rss < 64 << 10, rss
	END
	[ "$(wc -l <"$log")" -le 20 ] || fail "its log is not limited: $(wc -l <"$log")"
	stop_server
}

# The same initiator port comes back: nothing of its older session lands after
# that, however much was on its way.
test_a_session_that_is_begun_again_ends_the_older_one() {
	start_server --export a=ram:16M --loops 2
	initiator <<-END
		import threading
		def pour(peer, data): # as fast as it is taken, and nobody waits
		    try:
		        while True:
		            for i in range(64):
		                peer.write(i * 65536, data)
		            for i in range(64):
		                peer.answer()
		    except Gone:
		        ended.append(peer)
		for turn in range(5):
		    ended = []
		    old = Peer($(port), "$PREFIX:a")
		    writer = threading.Thread(target=pour, args=(old, b"o" * 65536))
		    writer.start()
		    while old.sn < 500:
		        assert writer.is_alive()
		    new = Peer($(port), "$PREFIX:a")
		    for i in range(64):
		        new.write(i * 65536, b"n" * 65536)
		        assert new.answer()[0][3] == 0
		    writer.join(60)
		    assert ended == [old]
		    for i in range(64):
		        assert new.read(i * 65536, 65536) == b"n" * 65536, (turn, i)
	END
	stop_server
}

done_of() { # EXTENT OPERATION: how many, by iSCSI and NBD
	call GetExportStats name="$1" | jq -r \
		"[.operations[] | select(.operation == \"$2\") | .count | tonumber] | add // 0"
}
wrote() { # EXTENT N: operations at least
	[ "$(done_of "$1" write)" -ge "$2" ]
}

# Under write load, the epoch is raised: when that returns, who wrote is out,
# and nothing of what it had on its way lands afterwards.
test_an_epoch_is_raised_under_load() {
	local epoch url writer
	need_root
	place blockd_load
	start_blockd --listen-iscsi tcp:127.0.0.1:0
	portal=$(sed -n 's/.*iSCSI at //p' "$D/log.$STARTS")
	call CreateExtent name=x size=$((16 * MIB)) >/dev/null
	call SetExport name=x epoch=1 initiators=any >/dev/null
	for epoch in 1 2 3; do
		url="iscsi://$portal/$PREFIX:x:$epoch/0"
		qemu-img bench -f raw -t none -w -d 32 -s 16384 \
			-c 10000000 --pattern=$((0x40 + epoch)) "$url" \
			>"$D/writer" 2>&1 &
		writer=$!
		at_exit kill -9 "$writer"
		eventually 60 wrote x $((epoch * 1000))
		call SetExport name=x epoch=$((epoch + 1)) initiators=any >/dev/null
		url="iscsi://$portal/$PREFIX:x:$((epoch + 1))/0"
		io "$url" "write -P 0x7$epoch 0 16M" "read -P 0x7$epoch 0 16M"
		fails any "" timeout 60 iscsi-inq "iscsi://$portal/$PREFIX:x:$epoch/0"
		kill "$writer" 2>/dev/null || true
		wait "$writer" || true
		io "$url" "read -P 0x7$epoch 0 16M"
	done
	stop_blockd
	same "$RC" 0
}

has_connections() { # N [EXTENT]
	[ "$(extent_field "${2:-x}" export.connections)" = "$1" ]
}

# The name with the incarnation's tag: it lets in, another one does not; a
# restart is not another incarnation. And blocks are as they were asked for.
goes_by_its_incarnation() {
	local name tagged
	name=$(extent_field x export.iscsi_name)
	case $name in "$PREFIX:x:4:"????????????????) ;; *) fail "name '$name'" ;; esac
	same "$(extent_field x export.iscsi_portals.0)" "$portal"
	tagged="iscsi://me%secret_of_twelve@$portal/$name/0"
	io "$tagged" 'read -P 9 1M 1M'
	fails any "" timeout 60 iscsi-inq "${tagged%/0}0/0"
	fails any "" timeout 60 iscsi-inq "${tagged/$name/${name%????????????????}0123456789abcdef}"
	timeout 60 iscsi-ls "iscsi://me%secret_of_twelve@$portal" >"$D/listed"
	! grep -F "$name" "$D/listed" || fail "the tag is shown"
	grep -F "$PREFIX:x:4" "$D/listed"
	timeout 60 iscsi-readcapacity16 "$tagged" | grep -qx 'LOGICAL BLOCK LENGTH IN BYTES:512'
	fails 1 "EINVAL: a disk's block size" call SetExport name=x epoch=4 initiators=any block_size=1024
	call SetExport name=x epoch=4 initiators=any block_size=4096 >/dev/null
	stop_blockd KILL
	start_blockd --listen-iscsi "tcp:$portal" --iscsi-secrets "$D/secrets"
	same "$(extent_field x export.iscsi_name)" "$name"
	timeout 60 iscsi-readcapacity16 "$tagged" | grep -qx 'LOGICAL BLOCK LENGTH IN BYTES:4096'
}

test_blockd_serves_an_extent() {
	local url
	need_root
	place blockd
	mkdir "$D/secrets"
	printf 'user me\nsecret secret_of_twelve\n' >"$D/secrets/x"
	chmod 600 "$D/secrets/x"
	start_blockd --listen-iscsi tcp:127.0.0.1:0 --iscsi-secrets "$D/secrets"
	call CreateExtent name=x size=$((64 * MIB)) >/dev/null
	call SetExport name=x epoch=3 initiators=any >/dev/null
	portal=$(sed -n 's/.*iSCSI at //p' "$D/log.1")
	url="iscsi://me%secret_of_twelve@$portal/$PREFIX:x:3/0"
	fails any "" timeout 60 iscsi-inq "iscsi://$portal/$PREFIX:x:3/0"
	io "$url" 'write -P 9 1M 1M' 'read -P 9 1M 1M' 'write -z -u 2M 64k' flush
	call GetExportStats name=x >"$D/stats"
	same "$(for i in 0 1; do field operations.$i.bytes <"$D/stats"; done | xargs)" \
		"$MIB $MIB"
	same "$(field operations.1.errors <"$D/stats")" 0
	[ "$(field operations.2.count <"$D/stats")" -ge 1 ]
	call ResizeExtent name=x size=$((96 * MIB)) >/dev/null
	same "$(timeout 60 iscsi-readcapacity16 -s "$url")" $((96 * MIB))
	# An initiator of the old epoch is out before the next one begins.
	timeout 90 qemu-io -f raw -c 'sleep 60000' "$url" >"$D/reader" 2>&1 &
	at_exit kill -9 $!
	eventually 30 has_connections 1
	call GetExportStats name=x >"$D/stats"
	case $(field connections.0.peer <"$D/stats") in
	"127.0.0.1 (iqn."*) ;;
	*) fail "$(field connections.0.peer <"$D/stats")" ;;
	esac
	same "$(field connections.0.features <"$D/stats" | cut -d ' ' -f 1-2)" "iscsi CHAP"
	call SetExport name=x epoch=4 initiators=any >/dev/null
	has_connections 0
	fails any "" timeout 60 iscsi-inq "$url"
	io "${url/:x:3/:x:4}" 'read -P 9 1M 1M'
	goes_by_its_incarnation
	call RemoveExport name=x epoch=4 >/dev/null
	fails any "" timeout 60 iscsi-inq "${url/:x:3/:x:4}"
	same "$(extent_field x export.iscsi_name)" ""
	call DeleteExtent name=x >/dev/null
	stop_blockd
	same "$RC" 0
}

# Reservations with APTPL are kept; others are not.
test_reservations_outlive_a_blockd_that_was_killed() {
	need_root
	place blockd_pr
	start_blockd --listen-iscsi tcp:127.0.0.1:0
	portal=$(sed -n 's/.*iSCSI at //p' "$D/log.$STARTS")
	call CreateExtent name=x size=$((16 * MIB)) >/dev/null
	call SetExport name=x epoch=1 initiators=any >/dev/null
	initiator <<-END
		me = Peer($(port), "$PREFIX:x:1")
		you = Peer($(port), "$PREFIX:x:1", "iqn.2000-01.org:you")
		assert me.reserve_out(0, 0, 0, 7, 1) == 0 # REGISTER, to be kept
		assert you.reserve_out(0, 0, 0, 8, 1) == 0
		assert me.reserve_out(1, 1, 7, 0, 0) == 0 # write exclusive
	END
	stop_blockd KILL
	start_blockd --listen-iscsi "tcp:$portal"
	initiator <<-END
		me = Peer($(port), "$PREFIX:x:1")
		you = Peer($(port), "$PREFIX:x:1", "iqn.2000-01.org:you")
		keys = me.reserve_in(0)
		assert sorted(keys[8:24:8] + keys[15:24:8]) == [0, 0, 7, 8], keys.hex()
		held = you.reserve_in(1)
		assert held[15] == 7 and held[21] == 1, held.hex()
		data = b"m" * 512
		write = struct.pack(">BBIBHB", 0x2a, 0, 0, 0, 1, 0)
		assert you.status(write, 0xa1, 512, data)[0] == 0x18
		assert me.status(write, 0xa1, 512, data)[0] == 0
		assert you.read(0, 512) == data
		assert me.reserve_out(0, 0, 7, 7, 0) == 0 # not to be kept any more
	END
	stop_blockd KILL
	start_blockd --listen-iscsi "tcp:$portal"
	initiator <<-END
		you = Peer($(port), "$PREFIX:x:1", "iqn.2000-01.org:you")
		assert you.reserve_in(0)[4:8] == bytes(4)
		write = struct.pack(">BBIBHB", 0x2a, 0, 0, 0, 1, 0)
		assert you.status(write, 0xa1, 512, b"y" * 512)[0] == 0
	END
	stop_blockd
	same "$RC" 0
}

# SPC-4 5.13.5.3.2: who held the unit is not known any more, so nobody gets at
# it, until an initiator says what is to be.
test_reservations_that_are_lost_can_be_replaced() {
	local file
	need_root
	place blockd_lost
	start_blockd --listen-iscsi tcp:127.0.0.1:0
	portal=$(sed -n 's/.*iSCSI at //p' "$D/log.$STARTS")
	call CreateExtent name=x size=$((16 * MIB)) >/dev/null
	call SetExport name=x epoch=1 initiators=any >/dev/null
	initiator <<-END
		me = Peer($(port), "$PREFIX:x:1")
		assert me.reserve_out(0, 0, 0, 7, 1) == 0 # REGISTER, to be kept
		assert me.reserve_out(1, 3, 7, 0, 0) == 0 # exclusive access
	END
	stop_blockd KILL
	file=$(find "$D" -path '*/reservations/*' -type f)
	same "$(wc -l <<<"$file")" 1
	printf x | dd of="$file" bs=1 seek=9 conv=notrunc status=none
	start_blockd --listen-iscsi "tcp:$portal"
	same "$(grep -c "$file.*replace-lost" "$D/log.$STARTS")" 1
	initiator <<-END
		me = Peer($(port), "$PREFIX:x:1")
		you = Peer($(port), "$PREFIX:x:1", "iqn.2000-01.org:you")
		write = struct.pack(">BBIBHB", 0x2a, 0, 0, 0, 1, 0)
		for peer in me, you:
		    status, sense = peer.status(write, 0xa1, 512, b"x" * 512)
		    assert status == 2 and sense[4] == 7, sense.hex()
		    assert sense[14:16] == b"\x44\x01", sense.hex()
		assert me.reserve_out(6, 0, 0, 7, 1) == 2 # nor is it registered
		assert you.reserve_out(8, 1, 0, 9, 1) == 0 # write exclusive
		assert me.status(write, 0xa1, 512, b"m" * 512)[0] == 0x18
		assert you.status(write, 0xa1, 512, b"y" * 512)[0] == 0
		assert me.read(0, 512) == b"y" * 512
	END
	stop_blockd KILL
	start_blockd --listen-iscsi "tcp:$portal"
	! grep replace-lost "$D/log.$STARTS" || false
	initiator <<-END
		me = Peer($(port), "$PREFIX:x:1")
		assert me.reserve_in(1)[15] == 9
	END
	stop_blockd
	same "$RC" 0
}

# RFC 7143 11.9: an asynchronous message, that the session ends; and it does.
test_a_server_that_stops_says_so() {
	local peer
	start_server --export a=ram:1M
	initiator <<-END &
		import sys
		me = Peer($(port), "$PREFIX:a")
		open("$TEST_DIR/ready", "w").close()
		head, _ = me.answer()
		assert head[0] == 0x32 and head[36] == 3, head.hex()
		try:
		    me.answer()
		except Gone:
		    sys.exit(0)
		assert False, "it goes on"
	END
	peer=$!
	eventually 30 test -e "$TEST_DIR/ready"
	stop_server
	wait "$peer" || fail "the initiator was not told"
}

# Two that keep the only loop and its buffers full: a third one is never refused
# what it writes, and nor is one by NBD that takes more than the reserve has.
test_sessions_that_flood_do_not_starve_another() {
	local url floods=()
	start_server --loops 1 --listen-nbd "unix:$TEST_DIR/nbd" --export a=ram:64M \
		--export b=ram:64M
	for url in "iscsi://$portal/$PREFIX:a/0" "iscsi://$other/$PREFIX:a/0"; do
		qemu-img bench -f raw -t none -w -d 64 -s 1M \
			-c 10000000 --pattern=7 "$url" >"$TEST_DIR/flood" 2>&1 &
		floods+=($!)
		at_exit kill -9 $!
	done
	initiator <<-END
		import time
		me, flooded = Peer($(port), "$PREFIX:b"), Peer($(port), "$PREFIX:a")
		until = time.monotonic() + 60
		while flooded.read(0, 512) != b"\7" * 512:
		    assert time.monotonic() < until
		    time.sleep(0.05)
		for i in range(300):
		    me.write(i * 512, bytes([i % 251]) * 512)
		    head, _ = me.answer()
		    assert head[3] == 0, f"write {i}: status {head[3]}"
		    assert me.read(i * 512, 512) == bytes([i % 251]) * 512
	END
	io "nbd+unix:///b?socket=$TEST_DIR/nbd" "write -P 1 0 16M" "read -P 1 0 16M" \
		"write -P 2 8M 8M" "read -P 2 8M 8M" "read -P 1 0 8M"
	kill -0 "${floods[@]}" || fail "nobody flooded: $(cat "$TEST_DIR/flood")"
	kill -9 "${floods[@]}"
	stop_server
}

# The data that it asked for does not fit into the sockets: the rest waits, and the
# loop serves its other peers. As many small commands as make a stream begin.
test_a_peer_that_takes_no_data_keeps_nobody_waiting() {
	start_server --loops 1 --export a=ram:16M --export b=ram:16M
	initiator <<-END
		me, other = Peer($(port), "$PREFIX:a"), Peer($(port), "$PREFIX:b")
		for i in range(32):
		    me.read(0, 512)
		want = [struct.pack(">BBIBHB", 0x28, 0, 0, 0, 2048, 0)] * 24
		for cdb in want: # 1 MiB each
		    me.command(cdb, 0xc1, 1 << 20)
		for i in range(100):
		    assert other.read(0, 512) == bytes(512)
		left = len(want) << 20
		while left:
		    head, data = me.answer()
		    assert head[3] == 0, head
		    left -= len(data)
	END
	stop_server
}

# A peer that has all buffers it may have, and takes nothing: only its own commands
# wait for more. No other peer waits, so it may stay.
test_a_peer_at_its_limit_waits_by_itself() {
	start_server --loops 1 --buffers 128M --export a=ram:16M
	initiator <<-END
		import time
		me = Peer($(port), "$PREFIX:a")
		other = Peer($(port), "$PREFIX:a", isid=b"\x80other")
		for _ in range(60): # 1 MiB each
		    me.command(struct.pack(">BBIBHB", 0x28, 0, 0, 0, 2048, 0), 0xc1, 1 << 20)
		until = time.monotonic() + 7 # a peer that others wait for has 5 s
		while time.monotonic() < until:
		    assert other.read(0, 1 << 20) == bytes(1 << 20)
		left = 60 << 20
		while left:
		    head, data = me.answer()
		    assert head[3] == 0, head
		    left -= len(data)
	END
	stop_server
}

# What commands work with besides their data is of the same buffers: they wait.
test_commands_wait_for_what_they_work_with() {
	truncate -s 128M "$TEST_DIR/disk"
	start_server --loops 1 --buffers 32M --export "a=$TEST_DIR/disk"
	initiator <<-END
		me = Peer($(port), "$PREFIX:a")
		for at in range(100): # PRE-FETCH (10) and VERIFY (10), a MiB each
		    me.command(struct.pack(">BBIBHB", 0x34 if at % 2 else 0x2f, 0,
		                           at << 11, 0, 2048, 0))
		said = sorted(me.answer()[0][3] for _ in range(100))
		assert said == [0] * 50 + [4] * 50, said
		# WRITE SAME (10) of two MiB, its block with it
		assert me.status(struct.pack(">BBIBHB", 0x41, 0, 8, 0, 4096, 0), 0xa1,
		                 512, b"s" * 512)[0] == 0
		assert me.read(4096 + (2 << 20) - 512, 1024) == b"s" * 512 + bytes(512)
	END
	stop_server
}

# Two by NBD that ask for all of the loop's buffers and take nothing.
test_clients_by_nbd_that_sit_on_the_buffers_are_dropped() {
	/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip "needs python3-libnbd"
	start_server --loops 1 --listen-nbd "unix:$TEST_DIR/nbd" --export a=ram:64M
	/usr/bin/python3 - "$TEST_DIR" <<-END &
		import nbd, sys, time
		hs = [nbd.NBD(), nbd.NBD()]
		kept = []
		for h in hs: # both first: who comes does not wait for one that sits
		    h.connect_uri(f"nbd+unix:///a?socket={sys.argv[1]}/nbd")
		    h.pread(512, 0)
		for h in hs:
		    kept += [h.aio_pread(nbd.Buffer(1 << 20), i << 20) for i in range(40)]
		    while h.aio_get_direction() & nbd.AIO_DIRECTION_WRITE:
		        h.aio_notify_write()
		open(sys.argv[1] + "/sitting", "w").close()
		time.sleep(600)
	END
	at_exit kill -9 $!
	eventually 30 test -e "$TEST_DIR/sitting"
	# A read waits in the line; a write is refused, and qemu soon gives up.
	io "iscsi://$portal/$PREFIX:a/0" "read -P 0 0 32M" "write -P 1 0 32M"
	grep -q 'nbd: dropped.*others wait for buffers' "$log" || fail "nobody sat"
	stop_server
}

# Two that ask for all of the loop's buffers, by writes whose data never comes.
# Instead one says that it is there, with a small write now and then; the other
# sends a byte at a time.
test_sessions_that_owe_data_are_dropped() {
	start_server --loops 1 --export a=ram:64M --export b=ram:64M
	initiator <<-END &
		import struct, time
		write = struct.pack(">BBIBHB", 0x2a, 0, 0, 0, 65535, 0)
		def owe(n):
		    me = Peer($(port), "$PREFIX:a", isid=b"\x80abcd" + bytes([n]))
		    tag = me.command(write, 0xa1, 65535 * 512)
		    head, _ = me.answer()
		    assert head[0] == 0x31 # R2T
		    return me, tag, head[20:24]
		talks, _, _ = owe(0)
		trickles, tag, ttt = owe(1)
		trickles.s.sendall(struct.pack(">BB3x3s8sI4s4xI12x", 5, 0x80,
		    (8192).to_bytes(3, "big"), bytes(8), tag, ttt, 0).ljust(48, b"\0"))
		open("$TEST_DIR/owing", "w").close()
		gone = set()
		while len(gone) < 2:
		    try:
		        talks.other(0, 0x80, tag=7)
		        talks.answer()
		        talks.write(0, bytes(512))
		        talks.answer()
		    except Gone:
		        gone.add(0)
		    try:
		        trickles.s.sendall(b"x")
		    except OSError:
		        gone.add(1)
		    time.sleep(0.2)
	END
	at_exit kill -9 $!
	eventually 30 test -e "$TEST_DIR/owing"
	io "iscsi://$portal/$PREFIX:b/0" "read -P 0 0 32M"
	wait $! || fail "they have not been dropped"
	same "$(grep -c 'dropped.*others wait for buffers' "$log")" 2
	stop_server
}

# Debian's fio has no engine for iSCSI: qemu's client is its way in.
test_fio_verifies_what_it_wrote() {
	start_server --export a=ram:64M
	qemu-nbd -t -k "$TEST_DIR/chain" -f raw -e 4 \
		"iscsi://$portal/$PREFIX:a/0" 2>"$TEST_DIR/qemu-nbd" &
	at_exit kill -9 $!
	eventually 30 test -S "$TEST_DIR/chain"
	timeout 120 fio --name=v --ioengine=nbd \
		"--uri=nbd+unix:///?socket=$TEST_DIR/chain" --rw=randwrite \
		--bsrange=512-128k --size=32m --iodepth=32 --verify=crc32c \
		--verify_state_save=0 --randseed=7 >"$TEST_DIR/fio" 2>&1 ||
		fail "$(cat "$TEST_DIR/fio" "$TEST_DIR/qemu-nbd")"
	kill -9 $!
	stop_server
}

start_blockd_iscsi() { # OPTION...: sets $portal
	start_blockd --listen-iscsi tcp:127.0.0.1:0 \
		--iscsi-secrets "$D/secrets" "$@"
	portal=$(sed -n 's/.*iSCSI at //p' "$D/log.$STARTS")
}

luns() { # LOGIN INITIATOR: the numbers of those it sees in the group
	timeout 60 iscsi-ls -s -i "$2" "iscsi://${1:+$1@}$portal" |
		sed -n '/^Target:/{s/^Target:\([^ ]*\) .*/\1/;h};/^Lun:/{s/^Lun:\([0-9]*\).*/\1/;G;s/\n/ /;p}' |
		sed -n "s/ iqn.2000-01.org:group.*//p" | xargs
}

# Extents as LUNs of one target, for initiators by name; kept over a restart.
test_blockd_serves_luns_of_one_target() {
	local at=iqn.2000-01.org:group me=iqn.2000-01.org:me you=iqn.2000-01.org:you
	local user=me%secret_of_twelve url
	need_root
	place blockd_luns
	mkdir "$D/secrets"
	printf 'user me\nsecret secret_of_twelve\n' >"$D/secrets/staff"
	chmod 600 "$D/secrets/staff"
	cp -p "$D/secrets/staff" "$D/finder"
	start_blockd_iscsi --iscsi-discovery "$D/finder"
	for x in x y z; do call CreateExtent name=$x size=$((16 * MIB)) >/dev/null; done
	call SetExport name=x epoch=3 initiators=iscsi:$me iscsi.target=$at \
		iscsi.account=staff >/dev/null
	call SetExport name=y epoch=3 initiators=iscsi:$me@127.0.0.0/8 \
		initiators=iscsi:$you iscsi.target=$at iscsi.lun=7 \
		iscsi.account=staff >/dev/null
	# What can't be is refused, and changes nothing.
	fails any "EEXIST: LUN 7 of target '$at' is extent 'y'" call SetExport name=z epoch=1 \
		initiators=any iscsi.target=$at iscsi.lun=7 iscsi.account=staff
	fails any "EINVAL: target '$at' has the account 'staff'" call SetExport name=z epoch=1 \
		initiators=any iscsi.target=$at iscsi.lun=8
	fails any "ENOENT: there is no account 'nobody'" call SetExport name=z epoch=1 \
		initiators=any iscsi.account=nobody
	fails any "EINVAL: LUN 256 is none" call SetExport name=z epoch=1 initiators=any \
		iscsi.target=$at iscsi.lun=256
	fails any "that is where the epoch comes" call SetExport name=z epoch=1 initiators=any \
		iscsi.target=$at:1
	fails any "EINVAL: initiator \"iscsi:no name\" is not" call SetExport name=z epoch=1 \
		"initiators=iscsi:no name"
	same "$(extent_field z export)" None
	same "$(luns "$user" $me)" "0 7"
	same "$(luns "$user" $you)" "7"
	fails any "" timeout 60 iscsi-ls -i $me "iscsi://$portal"
	url="iscsi://$user@$portal/$at:3/7"
	timeout 60 iscsi-readcapacity16 -i $me -s "$url" >/dev/null
	# A session is out before its LUN is another's.
	iscsi-perf -i $me "$url" >"$D/reader" 2>&1 &
	at_exit kill -9 $!
	eventually 30 has_connections 1 y
	call SetExport name=y epoch=3 initiators=iscsi:$you iscsi.target=$at \
		iscsi.lun=9 iscsi.account=staff >/dev/null
	same "$(luns "$user" $me)" "0"
	same "$(luns "$user" $you)" "9"
	stop_blockd KILL
	start_blockd_iscsi --iscsi-discovery "$D/finder"
	same "$(luns "$user" $me)" "0"
	same "$(luns "$user" $you)" "9"
	same "$(extent_field y export.iscsi.lun)" 9
	fails any "is extent 'y'" call SetExport name=z epoch=1 initiators=any \
		iscsi.target=$at iscsi.lun=9 iscsi.account=staff
	call RemoveExport name=y >/dev/null
	call SetExport name=z epoch=3 initiators=any iscsi.target=$at \
		iscsi.lun=9 iscsi.account=staff >/dev/null
	same "$(luns "$user" $you)" "9"
	stop_blockd
	same "$RC" 0
}

# A pool falls below its mark: each initiator is told, once.
test_initiators_are_told_when_a_pool_runs_short() {
	need_root
	place blockd_low
	start_blockd --listen-iscsi tcp:127.0.0.1:0 --low-space 50
	portal=$(sed -n 's/.*iSCSI at //p' "$D/log.$STARTS")
	call CreateExtent name=x size=$((200 * MIB)) >/dev/null
	call SetExport name=x epoch=1 initiators=any >/dev/null
	initiator <<-END
		import time
		me = Peer($(port), "$PREFIX:x:1")
		def told(within): # 38/07, by a TEST UNIT READY
		    until = time.monotonic() + within
		    while True:
		        me.command(bytes(6))
		        head, sense = me.answer()
		        if head[3] == 2:
		            assert sense[14:16] == b"\x38\x07", sense.hex()
		            return True
		        if time.monotonic() > until:
		            return False
		        time.sleep(0.2)
		assert not told(0)
		# Mode page 1C/02: enabled, of the space that is left, at 50 %
		status, page = me.status(bytes([0x1a, 8, 0x1c, 2, 255, 0]), 0xc1, 255)
		assert status == 0 and page[20:] == bytes([0x88, 3, 0, 0, 0, 0, 0, 50])
		for i in range(160 * 16): # of 256 MiB, 160
		    me.write(i * 65536, b"x" * 65536)
		    head, sense = me.answer()
		    if head[3] == 2: # told in between; it was not written
		        assert sense[14:16] == b"\x38\x07", sense.hex()
		        break
		else:
		    assert told(60)
		assert not told(5)
	END
	same "$(grep -c 'less than 50 % of it is left' "$D/log.$STARTS")" 1
	stop_blockd
	same "$RC" 0
}

run_tests "$@"
