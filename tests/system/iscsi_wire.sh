#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The iSCSI target before the clients of others: libiscsi's tools and its
# conformance suite, and qemu.
. "$(dirname "$0")/../lib.sh"
. "$TOP/tests/blockd_lib.sh"
need iscsi-ls iscsi-inq iscsi-test-cu qemu-io
qemu-img --help | grep -q 'Supported formats:.* iscsi' ||
	[ -e /usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so ] ||
	skip_all "needs qemu's iscsi driver (qemu-block-extra)"
serve=$BUILD/test/target/iscsi_serve_main
PREFIX=iqn.2025-01.io.union

# start_server OPTION...: sets $portal ("ADDRESS:PORT"), $other (a second
# one), $log and $server (its pid)
start_server() {
	told=$TEST_DIR/out.$BASHPID log=$TEST_DIR/log.$BASHPID
	rm -f "$told"
	"$serve" --listen tcp:127.0.0.1:0 --listen tcp:127.0.0.1:0 "$@" \
		>"$told" 2>"$log" &
	server=$!
	at_exit kill -9 "$server"
	eventually 30 listens_or_died
	kill -0 "$server" || fail "did not start: $(cat "$log")"
	portal=$(sed -n 's/^listening tcp://p' "$told" | head -n 1)
	other=$(sed -n 's/^listening tcp://p' "$told" | tail -n 1)
}
listens_or_died() {
	! kill -0 "$server" || [ "$(grep -c '^listening' "$told")" = 2 ]
}

# It ends on SIGTERM with 0.
stop_server() {
	local rc=0
	kill -TERM "$server"
	wait "$server" || rc=$?
	same "$rc" 0 "exit code of the server: $(cat "$log")"
}

say_more() { tail -n 20 "${log:-/dev/null}" | cut -c -300; }

io() { # URL COMMAND...: qemu-io, which has to be content
	local url=$1 command args=()
	shift
	for command in "$@"; do args+=(-c "$command"); done
	case $url in
	driver=*) args+=(--image-opts) ;;
	*) args+=(-f raw) ;;
	esac
	timeout 60 qemu-io "${args[@]}" "$url" >"$TEST_DIR/io" 2>&1 ||
		fail "$(cat "$TEST_DIR/io")"
	! grep -Ei 'fail|error|verif' "$TEST_DIR/io" ||
		fail "$(cat "$TEST_DIR/io")"
}

chap_file() { # NAME USER SECRET [USER SECRET]
	printf 'user %s\nsecret %s\n' "$2" "$3" >"$TEST_DIR/$1"
	[ $# -lt 5 ] || printf 'mutual-user %s\nmutual-secret %s\n' "$4" "$5" \
		>>"$TEST_DIR/$1"
	chmod 600 "$TEST_DIR/$1"
}

test_discovery_shows_what_a_peer_may_see() {
	start_server --export a=ram:16M --export b.c=ram:16M
	timeout 20 iscsi-ls "iscsi://$portal" | sort >"$TEST_DIR/ls"
	same "$(cat "$TEST_DIR/ls")" "Target:$PREFIX:a Portal:$portal,1
Target:$PREFIX:b.c Portal:$portal,1"
	same "$(timeout 20 iscsi-ls -s "iscsi://$other" | grep -c '^Lun:0')" 2
	stop_server
	start_server --export a=ram:16M --addresses 10.1.2.3
	same "$(timeout 20 iscsi-ls "iscsi://$portal")" ""
	fails any "" timeout 20 iscsi-inq "iscsi://$portal/$PREFIX:a/0"
	stop_server
	start_server --export a=ram:16M --initiators iqn.2000-01.org:me
	same "$(timeout 20 iscsi-ls "iscsi://$portal")" ""
	timeout 20 iscsi-ls -i iqn.2000-01.org:me "iscsi://$portal" |
		grep -q "$PREFIX:a"
	stop_server
}

test_several_luns_of_one_target() {
	start_server --target iqn.2000-01.org:group --export a=ram:16M \
		--export b=ram:32M
	timeout 20 iscsi-ls -s "iscsi://$portal" >"$TEST_DIR/ls"
	same "$(grep -c '^Target' "$TEST_DIR/ls")" 1
	# It shows the last block's address for the number of blocks.
	grep -q '^Lun:0.*15M' "$TEST_DIR/ls" || fail "$(cat "$TEST_DIR/ls")"
	grep -q '^Lun:1.*31M' "$TEST_DIR/ls" || fail "$(cat "$TEST_DIR/ls")"
	io "iscsi://$portal/iqn.2000-01.org:group/1" 'write -P 7 17M 1M'
	io "iscsi://$portal/iqn.2000-01.org:group/0" 'read -P 0 0 16M'
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

test_chap_lets_in_who_knows_the_secret() {
	local at
	chap_file one 0xme 0bsecret_of_twelve
	start_server --export a=ram:16M --chap "$TEST_DIR/one"
	at=$portal/$PREFIX:a/0
	timeout 20 iscsi-inq "iscsi://0xme%0bsecret_of_twelve@$at" >/dev/null
	fails any "" timeout 20 iscsi-inq "iscsi://$at"
	fails any "" timeout 20 iscsi-inq "iscsi://0xme%0bsecret_of_twelvf@$at"
	fails any "" timeout 20 iscsi-inq "iscsi://me%0bsecret_of_twelve@$at"
	! grep -q secret_of "$log" || fail "a secret is in the log"
	stop_server
	chap_file both me secret_of_twelve 0btarget another_of_twelve
	start_server --export a=ram:16M --chap "$TEST_DIR/both"
	at=$portal/$PREFIX:a/0
	timeout 20 iscsi-inq "iscsi://me%secret_of_twelve@$at?target_user=0btarget&target_password=another_of_twelve" >/dev/null
	fails any "" timeout 20 iscsi-inq "iscsi://me%secret_of_twelve@$at?target_user=0btarget&target_password=wrong"
	stop_server
}

test_an_older_epoch_is_refused() {
	start_server --export a=ram:16M --epoch 7
	timeout 20 iscsi-inq "iscsi://$portal/$PREFIX:a:7/0" >/dev/null
	fails any "" timeout 20 iscsi-inq "iscsi://$portal/$PREFIX:a:6/0"
	fails any "" timeout 20 iscsi-inq "iscsi://$portal/$PREFIX:a/0"
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
	size=$(timeout 20 iscsi-readcapacity16 -s "iscsi://$portal/$PREFIX:a/0")
	same "$size" $((32 << 20))
	io "iscsi://$portal/$PREFIX:a/0" 'write -P 3 31M 1M' 'read -P 3 31M 1M'
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
		os.system(f"timeout 20 iscsi-inq iscsi://127.0.0.1:{port}/"
		          "iqn.2025-01.io.union:a/0 >/dev/null || kill %d"
		          % os.getpid())
	END
	[ "$(grep -c dropped "$log")" -lt 30 ] || fail "the log is flooded"
	stop_server
}

has_connections() {
	[ "$(extent_field x export.connections)" = "$1" ]
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
	fails any "" timeout 20 iscsi-inq "iscsi://$portal/$PREFIX:x:3/0"
	io "$url" 'write -P 9 1M 1M' 'read -P 9 1M 1M'
	call ResizeExtent name=x size=$((96 * MIB)) >/dev/null
	same "$(timeout 20 iscsi-readcapacity16 -s "$url")" $((96 * MIB))
	# Who is in is out before the next epoch begins.
	timeout 90 qemu-io -f raw -c 'sleep 60000' "$url" >"$D/reader" 2>&1 &
	at_exit kill -9 $!
	eventually 30 has_connections 1
	call SetExport name=x epoch=4 initiators=any >/dev/null
	has_connections 0
	fails any "" timeout 20 iscsi-inq "$url"
	io "${url/:x:3/:x:4}" 'read -P 9 1M 1M'
	call RemoveExport name=x epoch=4 >/dev/null
	fails any "" timeout 20 iscsi-inq "${url/:x:3/:x:4}"
	call DeleteExtent name=x >/dev/null
	stop_blockd
	same "$RC" 0
}

# ---- conformance ----

# Tests of the suite that may fail: none.
known_failures='^$'

# suite NAME ALLOWED SKIPS (extended expression) OPTIONS OF THE TOOL...: runs
# it beside others; conform_end looks at what came of it
suite() {
	local name=$1
	echo "$2" >"$TEST_DIR/allow.$name"
	shift 2
	timeout 240 iscsi-test-cu -d -n -S "$@" >"$TEST_DIR/suite.$name" 2>&1 &
	suites+=("$name") suite_pids+=($!)
	at_exit kill -9 $!
}

# The tally of CUnit counts what was skipped as passed.
conform_end() {
	local name i=0 file total failed skipped bad=0 unknown odd
	for name in "${suites[@]}"; do
		file=$TEST_DIR/suite.$name
		wait "${suite_pids[$i]}" || true
		i=$((i + 1))
		total=$(awk '$1 == "tests" { print $2 }' "$file")
		failed=$(awk '$1 == "tests" { print $5 }' "$file")
		[ -n "$total" ] || fail "$name: $(tail -n 5 "$file")"
		skipped=$(grep -c 'SKIPPED\]' "$file" || true)
		echo "$name: $total run, $((total - failed - skipped)) passed, $skipped skipped, $failed failed" >&"$_SAID"
		unknown=$(sed -n 's/^Suite \(.*\), Test \(.*\) had failures.*/\1.\2/p' \
			"$file" | grep -Ev "$known_failures" || true)
		odd=$(grep -o 'SKIPPED\].*' "$file" |
			grep -Ev "SANITIZE|READDEFECTDATA|0-blocks|$(cat "$TEST_DIR/allow.$name")" |
			sort | uniq -c || true)
		[ -z "$unknown$odd" ] || { echo "$name: $unknown $odd" >&"$_SAID"; bad=1; }
	done
	[ "$bad" = 0 ]
}

# What one set-up skips, another runs. WRITE SAME of 0 blocks, which would mean
# all of them, is one that we need not have (WSNZ, SBC-3 6.6.4).
test_the_conformance_suite_in_five_set_ups() {
	local suites=() suite_pids=() at
	local whole='not removable|not write-protected|LBPPB'
	chap_file chap user twelve_bytes_long
	chap_file odd 0xuser 0btwelve_bytes 0btarget 0xanother_of_12
	# Files: what memory has allocated is in units of its own.
	for at in thin removable read-only chap odd blocks; do
		mkdir "$TEST_DIR/$at.state"
		truncate -s 256M "$TEST_DIR/$at.disk"
	done
	start_server --export "a=$TEST_DIR/thin.disk" --thin --physical-size 512 \
		--state-dir "$TEST_DIR/thin.state"
	suite thin "$whole" -t ALL "iscsi://$portal/$PREFIX:a/0" \
		"iscsi://$other/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/removable.disk" --thin --removable \
		--physical-size 512 \
		--state-dir "$TEST_DIR/removable.state"
	suite removable "not write-protected|Multipath unavailable|LBPPB" -t ALL \
		"iscsi://$portal/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/read-only.disk" --thin --read-only
	suite read-only "-" -t ALL.ReadOnly "iscsi://$portal/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/chap.disk" --thin --physical-size 512 \
		--chap "$TEST_DIR/chap" --state-dir "$TEST_DIR/chap.state"
	suite chap "$whole|Multipath unavailable" -t ALL \
		"iscsi://user%twelve_bytes_long@$portal/$PREFIX:a/0"
	start_server --export "a=$TEST_DIR/odd.disk" --thin --physical-size 512 \
		--chap "$TEST_DIR/odd" --state-dir "$TEST_DIR/odd.state"
	at="0xuser%0btwelve_bytes@$portal/$PREFIX:a/0"
	suite odd-names "$whole|Multipath unavailable" -t ALL \
		"iscsi://$at?target_user=0btarget&target_password=0xanother_of_12"
	# Eight logical blocks in a physical one. Not the whole: the tool's
	# GetLBAStatus.UnmapSingle reads one block and looks for another then.
	start_server --export "a=$TEST_DIR/blocks.disk" --export b=ram:256M --thin
	suite blocks-16 "-" -t ALL.WriteSame16 "iscsi://$portal/$PREFIX:a/0"
	suite blocks-10 "-" -t ALL.WriteSame10 "iscsi://$portal/$PREFIX:b/0"
	conform_end
}

run_tests "$@"
