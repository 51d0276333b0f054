#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# NBD behind TLS before the clients of others: libnbd, qemu, fio.
. "$(dirname "$0")/../lib.sh"
need nbdinfo nbdcopy qemu-io fio nbdkit openssl
python=/usr/bin/python3
"$python" -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"
[ "$("$python" -c 'import nbd; print(nbd.NBD().supports_tls())')" = True ] ||
	skip_all "libnbd has no TLS"
serve=$BUILD/test/target/testkit/nbd_serve_main
keys=$TEST_DIR/keys
mkdir -p "$keys"

# ca DIRECTORY: a CA and a certificate of server and client, named as libnbd and
# qemu want them
ca() {
	local dir=$1 who
	mkdir -p "$dir"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-keyout "$dir/ca-key.pem" -out "$dir/ca-cert.pem" -days 2 \
		-subj "/CN=ca" 2>/dev/null
	for who in server client; do
		openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
			-keyout "$dir/$who-key.pem" -out "$dir/$who.csr" \
			-subj "/CN=$who" 2>/dev/null
		printf 'subjectAltName=DNS:localhost,DNS:%s.example,URI:urn:x:%s\n' \
			"$who" "$who" >"$dir/ext"
		openssl x509 -req -in "$dir/$who.csr" -CA "$dir/ca-cert.pem" \
			-CAkey "$dir/ca-key.pem" -CAcreateserial -days 2 \
			-out "$dir/$who-cert.pem" -extfile "$dir/ext" 2>/dev/null
	done
}
ca "$keys/good"
ca "$keys/other"
# Somebody we trust is called; the certificate is another's.
cp "$keys/good/ca-cert.pem" "$keys/other/"
alice=$(openssl rand -hex 32)
printf 'alice:%s\nbob:%s\n' "$alice" "$(openssl rand -hex 32)" >"$keys/keys.psk"
printf 'alice:%s\n' "$(openssl rand -hex 32)" >"$keys/wrong.psk"
chmod 600 "$keys"/*.psk
with_cert=(--tls-cert "$keys/good/server-cert.pem"
	--tls-key "$keys/good/server-key.pem" --tls-ca "$keys/good/ca-cert.pem")
with_psk=(--tls-psk "$keys/keys.psk")

# start_disk OPTION...: sets $disk, $port, $log, $server, $plain and the URIs
# $cert and $psk without the export; $by_cert and $by_psk end them
start_disk() {
	local said=$TEST_DIR/out.$BASHPID
	disk=$TEST_DIR/disk.$BASHPID log=$TEST_DIR/log.$BASHPID
	rm -f "$said"
	truncate -s 64M "$disk"
	"$serve" --listen tcp:127.0.0.1:0 --export "disk=$disk" "$@" \
		>"$said" 2>"$log" &
	server=$!
	at_exit kill -9 "$server"
	eventually 60 grep -q "listening tcp" "$said"
	port=$(sed -n 's/^listening tcp:.*://p' "$said")
	plain=nbd://localhost:$port
	cert=nbds://localhost:$port psk=nbds://alice@localhost:$port
	by_cert="?tls-certificates=$keys/good" by_psk="?tls-psk-file=$keys/keys.psk"
}

# Stop the server, which must have said no secret, and end well.
stop_server() {
	local rc=0
	kill -TERM "$server"
	wait "$server" || rc=$?
	same "$rc" 0 "exit code of the server: $(cat "$log")"
	! grep -q "$alice" "$log" || fail "a key is in the log"
}

refused() { fails any "$1" env LIBNBD_DEBUG=1 nbdinfo --size "$2"; }

test_certificates_and_keys_carry_data_both_ways() {
	local uri
	start_disk "${with_cert[@]}" "${with_psk[@]}" --tls-required
	for uri in "$cert/disk$by_cert" "$psk/disk$by_psk"; do
		head -c 64M /dev/urandom >"$TEST_DIR/a"
		nbdcopy --connections=2 "$TEST_DIR/a" "$uri"
		cmp "$TEST_DIR/a" "$disk"
		nbdcopy --request-size=33554432 "$uri" "$TEST_DIR/b"
		cmp "$TEST_DIR/a" "$TEST_DIR/b"
		nbdcopy --request-size=65536 "$uri" "$TEST_DIR/b"
		cmp "$TEST_DIR/a" "$TEST_DIR/b"
	done
	nbdinfo "$cert/disk$by_cert" | grep -q 'newstyle-fixed with TLS'
	stop_server
}

# fio itself can't: nbdkit's nbd plugin, a strict client, is its way in.
test_fio_verifies_what_it_wrote_behind_tls() {
	local chain=$TEST_DIR/chain
	start_disk "${with_cert[@]}"
	nbdkit -f -U "$chain" nbd hostname=localhost port="$port" export=disk tls=require \
		tls-certificates="$keys/good" >"$TEST_DIR/nbdkit" 2>&1 &
	at_exit kill -9 $!
	eventually 60 test -S "$chain"
	fio --name=v --ioengine=nbd "--uri=nbd+unix:///?socket=$chain" --rw=randwrite \
		--bsrange=512-128k --bs_unaligned=1 --iodepth=16 --size=64M --io_size=64M \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 \
		--randseed=7 >"$TEST_DIR/fio" 2>&1 ||
		fail "$(cat "$TEST_DIR/fio" "$TEST_DIR/nbdkit")"
}

test_qemu_comes_by_certificate_and_by_key() {
	start_disk "${with_cert[@]}" "${with_psk[@]}" --tls-required
	qemu-io --object "tls-creds-x509,id=t,endpoint=client,dir=$keys/good" --image-opts \
		"driver=nbd,host=localhost,port=$port,export=disk,tls-creds=t" \
		-c 'write -P 7 1M 3M' -c 'read -P 7 1M 3M' -c flush >"$TEST_DIR/qemu" 2>&1 ||
		fail "$(cat "$TEST_DIR/qemu")"
	qemu-io --object "tls-creds-psk,id=t,endpoint=client,username=alice,dir=$keys" \
		--image-opts "driver=nbd,host=localhost,port=$port,export=disk,tls-creds=t" \
		-c 'read -P 7 1M 3M' >>"$TEST_DIR/qemu" 2>&1 || fail "$(cat "$TEST_DIR/qemu")"
	! grep -i -e fail -e error -e differ "$TEST_DIR/qemu" || fail "it differs"
	stop_server
}

test_required_means_nothing_without_it() {
	start_disk "${with_cert[@]}" --tls-required
	refused "requires TLS" "$plain/disk"
	! nbdinfo --list "$plain" | grep -q disk || fail "it is in the list"
	nbdinfo --size "$cert/disk$by_cert"
	stop_server
}

test_offered_means_both() {
	start_disk "${with_cert[@]}"
	nbdinfo --size "$plain/disk"
	nbdinfo --size "$cert/disk$by_cert"
	stop_server
	start_disk
	refused "TLS is not set up" "$cert/disk$by_cert"
	nbdinfo --size "$plain/disk"
	stop_server
}

test_strangers_stay_outside() {
	start_disk "${with_cert[@]}" "${with_psk[@]}" --tls-required
	refused "" "$cert/disk?tls-certificates=$keys/other"
	refused "" "$psk/disk?tls-psk-file=$keys/wrong.psk"
	refused "" "nbds://carol@localhost:$port/disk$by_psk"
	nbdinfo --size "$cert/disk$by_cert"
	grep -q "TLS: " "$log" || fail "nothing in the log: $(cat "$log")"
	stop_server
}

test_an_export_is_for_who_proves_a_name() {
	start_disk "${with_cert[@]}" "${with_psk[@]}" --initiators tls:client.example \
		--initiators tls:bob@127.0.0.1 --initiators tls:urn:x:y
	nbdinfo --size "$cert/disk$by_cert"
	nbdinfo --size "nbds://bob@localhost:$port/disk$by_psk"
	refused "not allowed from 127.0.0.1 (alice)" "$psk/disk$by_psk"
	refused "needs TLS" "$plain/disk"
	! nbdinfo --list "$plain" | grep -q disk || fail "all see it"
	nbdinfo --list "$cert$by_cert" | grep -q 'export="disk"'
	! nbdinfo --list "$psk$by_psk" | grep -q disk || fail "alice sees it"
	stop_server
}

# Bytes that somebody in between puts behind STARTTLS must not become options.
test_nothing_plain_is_taken_after_starttls() {
	start_disk "${with_cert[@]}"
	"$python" - "$port" <<-'END'
		import socket, sys
		def start():
		    s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
		    s.settimeout(30)
		    s.recv(18, socket.MSG_WAITALL)
		    return s
		starttls = b"\0\0\0\3IHAVEOPT\0\0\0\5\0\0\0\0"
		s = start()
		s.sendall(starttls + b"IHAVEOPT\0\0\0\3\0\0\0\0")
		try:
		    assert len(s.recv(4096)) <= 20 and s.recv(4096) == b""
		except ConnectionResetError:
		    pass
		s = start()
		s.sendall(starttls)
		assert s.recv(20, socket.MSG_WAITALL)[12:16] == b"\0\0\0\1"
		s.sendall(b"IHAVEOPT\0\0\0\3\0\0\0\0" * 100)
		try:
		    data = s.recv(4096) # at most an alert
		    assert b"disk" not in data and s.recv(4096) == b""
		except ConnectionResetError:
		    pass
	END
	nbdinfo --size "$cert/disk$by_cert"
	grep -q "between STARTTLS and TLS" "$log"
	stop_server
}

# The same where it comes in many small pieces, and STARTTLS ends one of them.
test_nothing_received_ahead_is_taken_after_starttls() {
	local keys_of=$keys/good
	start_disk "${with_cert[@]}" --loops 1
	"$python" - "$port" "$keys_of" <<-'END'
		import socket, ssl, struct, sys, time
		def option(n, data=b""):
		    return b"IHAVEOPT" + struct.pack(">II", n, len(data)) + data
		s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
		s.settimeout(30)
		s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
		s.recv(18, socket.MSG_WAITALL)
		s.sendall(b"\0\0\0\3")
		left, last = 100000, 16384 - 16
		s.sendall(b"IHAVEOPT" + struct.pack(">II", 77, left))
		n = struct.unpack(">I", s.recv(20, socket.MSG_WAITALL)[16:])[0]
		s.recv(n, socket.MSG_WAITALL)
		left -= last
		for size in [1000] * 12:
		    s.sendall(bytes(size))
		    left -= size
		    time.sleep(0.02)
		while left:
		    size = min(left, 16384)
		    s.sendall(bytes(size))
		    left -= size
		    time.sleep(0.02)
		s.sendall(bytes(last) + option(5) + option(77, b"plain"))
		try:
		    said = s.recv(20, socket.MSG_WAITALL)
		    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
		    c.check_hostname = False
		    c.verify_mode = ssl.CERT_NONE
		    c.load_cert_chain(sys.argv[2] + "/client-cert.pem",
		                      sys.argv[2] + "/client-key.pem")
		    t = c.wrap_socket(s)
		    t.sendall(option(2)) # ABORT, and nothing else, is said by TLS
		    said, more = b"", True
		    while more:
		        more = t.recv(4096)
		        said += more
		    assert struct.pack(">I", 77) not in said[8:12], "it was taken"
		except (ConnectionError, ssl.SSLError):
		    pass
	END
	grep -q "between STARTTLS and TLS" "$log"
	stop_server
}

test_64_connections_behind_tls() {
	start_disk "${with_psk[@]}" --loops 2
	"$python" - "$psk/disk$by_psk" <<-'END'
		import nbd, sys
		hs = []
		for i in range(64):
		    h = nbd.NBD()
		    h.set_uri_allow_local_file(True)
		    h.connect_uri(sys.argv[1])
		    assert h.get_tls_negotiated()
		    hs.append(h)
		for i, h in enumerate(hs):
		    h.pwrite(bytes([i]) * 70000, i * 70000)
		for i, h in enumerate(hs):
		    j = (i + 1) % 64
		    assert h.pread(70000, j * 70000) == bytes([j]) * 70000
	END
	stop_server
}

test_wrong_files_are_named() {
	local serving=("$serve" --export "disk=/dev/null")
	cp "$keys/keys.psk" "$TEST_DIR/open.psk"
	chmod 644 "$TEST_DIR/open.psk"
	fails any "others can use it" "${serving[@]}" --tls-psk "$TEST_DIR/open.psk"
	fails any "no-such-file" "${serving[@]}" --tls-psk "$TEST_DIR/no-such-file"
	fails any "go together" "${serving[@]}" --tls-cert "$keys/good/server-cert.pem"
	fails any "neither a certificate" "${serving[@]}" --tls-required
	fails any "client-key.pem" "${serving[@]}" \
		--tls-cert "$keys/good/server-cert.pem" --tls-key "$keys/good/client-key.pem"
	fails 2 "off, offered or required" blockd --nbd-tls maybe --check-config
	fails 2 "nbd-tls needs" blockd --nbd-tls offered --check-config
	fails 2 "nbd-tls is off" blockd --nbd-tls-psk "$keys/keys.psk" --check-config
}

run_tests "$@"
