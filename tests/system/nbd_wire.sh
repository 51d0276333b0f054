#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The NBD server before the clients of others: libnbd, qemu, fio, nbdkit.
. "$(dirname "$0")/../lib.sh"
need nbdinfo nbdcopy qemu-io qemu-img fio nbdkit
python=/usr/bin/python3
"$python" -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"
serve=$BUILD/test/target/testkit/nbd_serve_main
SIZE_MIB=64

# start_server OPTION...: sets $tcp (URI without the export), $unix (of
# "disk"), $port, $socket, $log and $server (its pid)
start_server() {
	socket=$TEST_DIR/sock.$BASHPID said=$TEST_DIR/out.$BASHPID
	log=$TEST_DIR/log.$BASHPID
	rm -f "$said"
	"$serve" --listen tcp:127.0.0.1:0 --listen "unix:$socket" "$@" \
		>"$said" 2>"$log" &
	server=$!
	at_exit kill -9 "$server"
	eventually 30 grep -q "listening unix" "$said"
	port=$(sed -n 's/^listening tcp:.*://p' "$said")
	tcp=nbd://127.0.0.1:$port
	unix="nbd+unix:///disk?socket=$socket"
}

# A fresh file of zeroes, served as "disk".
start_disk() {
	disk=$TEST_DIR/disk.$BASHPID
	truncate -s ${SIZE_MIB}M "$disk"
	start_server --export "disk=$disk" "$@"
}

# Stop the server, which must end on SIGTERM with 0 and leave no socket.
stop_server() {
	local rc=0
	kill -TERM "$server"
	wait "$server" || rc=$?
	same "$rc" 0 "exit code of the server: $(cat "$log")"
	[ ! -e "$socket" ] || fail "the socket is still there"
}

alive() { nbdinfo --size "$tcp/disk" >/dev/null; }

# Python with libnbd: `h` is connected to $1, `raises` checks for an errno.
shell() {
	timeout 60 "$python" - "$1" <<-END
		import nbd, sys
		def connect(setup=None, uri=sys.argv[1]):
		    h = nbd.NBD()
		    h.add_meta_context("base:allocation")
		    if setup:
		        setup(h)
		    h.connect_uri(uri)
		    h.set_strict_mode(0)
		    return h
		def raises(want, call):
		    try:
		        call()
		    except nbd.Error as e:
		        assert e.errno == want, (e.errno, want)
		        return
		    raise AssertionError("no error, wanted " + want)
		$(cat)
	END
}

test_nbdinfo_sees_what_the_file_can_do() {
	start_disk
	nbdinfo --json "$tcp/disk" >"$TEST_DIR/info.json"
	"$python" - "$TEST_DIR/info.json" <<-'END'
		import json, sys
		e = json.load(open(sys.argv[1]))["exports"][0]
		want = dict(is_read_only=False, can_df=True, can_fast_zero=True,
		            can_flush=True, can_fua=True, can_multi_conn=True,
		            can_trim=True, can_zero=True, can_cache=True,
		            block_size_minimum=1, block_size_preferred=4096,
		            block_size_maximum=32 << 20, contexts=["base:allocation"],
		            description="incarnation=test")
		want["export-size"] = 64 << 20
		for k, v in want.items():
		    assert e[k] == v, (k, e[k], v)
	END
	nbdinfo --list "$tcp/" | grep -q 'export="disk"'
	fails any "" nbdinfo "$tcp/nothing"
	stop_server
}

test_nbdcopy_there_and_back() {
	start_disk
	head -c ${SIZE_MIB}M /dev/urandom >"$TEST_DIR/a"
	nbdcopy "$TEST_DIR/a" "$tcp/disk"
	cmp "$TEST_DIR/a" "$disk"
	nbdcopy "$unix" "$TEST_DIR/b"
	cmp "$TEST_DIR/a" "$TEST_DIR/b"
	nbdcopy --connections=4 --requests=64 "$tcp/disk" "$TEST_DIR/c"
	cmp "$TEST_DIR/a" "$TEST_DIR/c"
	stop_server
}

test_qemu_io_reads_the_patterns_it_wrote() {
	local uri
	start_disk
	for uri in "$tcp/disk" "$unix"; do
		qemu-io -f raw "$uri" -c 'write -P 0x5a 0 64k' \
			-c 'write -P 0x11 700 77' -c 'read -P 0x5a 0 700' \
			-c 'read -P 0x11 700 77' -c 'read -P 0x5a 777 60000' \
			-c 'write -f -P 0x22 1M 20M' -c 'read -P 0x22 1M 20M' \
			-c 'write -z 2M 1M' -c 'read -P 0 2M 1M' \
			-c 'write -z -u 4M 64k' -c 'read -P 0 4M 64k' \
			-c 'discard 8M 1M' -c 'read -P 0 8M 1M' -c flush \
			>"$TEST_DIR/qemu" 2>&1 || fail "$(cat "$TEST_DIR/qemu")"
		! grep -i -e fail -e error -e differ "$TEST_DIR/qemu" ||
			fail "$(cat "$TEST_DIR/qemu")"
	done
	qemu-img bench -f raw -c 2000 -d 32 -w "$tcp/disk" >/dev/null
	stop_server
}

test_holes_are_told() {
	start_disk
	dd if=/dev/urandom of="$disk" bs=64k seek=16 count=16 conv=notrunc status=none
	same "$(nbdinfo --map "$tcp/disk" | awk '{print $1, $2, $3}' | paste -sd' ')" \
		"0 1048576 3 1048576 1048576 0 2097152 65011712 3"
	same "$(qemu-img map --output=json "$unix" | grep -c '"data": true')" 1
	# Discard makes a hole, and the space is given back.
	qemu-io -f raw "$tcp/disk" -c 'discard 1M 1M' >/dev/null
	same "$(nbdinfo --map "$tcp/disk" | awk '{print $1, $2, $3}' | paste -sd' ')" \
		"0 67108864 3"
	same "$(stat -c %b "$disk")" 0 "blocks"
	# Zeroes with NO_HOLE keep it.
	qemu-io -f raw "$tcp/disk" -c 'write -z 1M 1M' >/dev/null
	[ "$(stat -c %b "$disk")" -ge 2048 ] || fail "no space was allocated"
	stop_server
}

fio_verify() {
	fio --name=v --ioengine=nbd "--uri=$1" --rw=randwrite --bsrange=512-128k \
		--bs_unaligned=1 --iodepth=16 --size=${SIZE_MIB}M --io_size=96M \
		--verify=crc32c --verify_fatal=1 --verify_state_save=0 --do_verify=1 --randseed=7 \
		--trim_percentage=0 >"$TEST_DIR/fio" 2>&1 || fail "$(cat "$TEST_DIR/fio")"
}

test_fio_verifies_what_it_wrote() {
	start_disk
	fio_verify "$tcp/disk"
	fio_verify "$unix"
	stop_server
}

test_it_works_without_each_feature_of_the_ring() {
	local feature
	for feature in coop-taskrun defer-taskrun single-issuer send-zc poll-first \
		fixed-buffers streams busy-wait \
		coop-taskrun,defer-taskrun,single-issuer,send-zc,poll-first,fixed-buffers,streams,busy-wait; do
		start_disk --without "$feature" --loops 2
		fio_verify "$tcp/disk"
		stop_server
	done
}

test_large_reads_are_what_the_file_has() {
	local uri
	start_disk
	head -c ${SIZE_MIB}M /dev/urandom >"$disk"
	fallocate --punch-hole --offset 5M --length 3M "$disk"
	for uri in "$tcp/disk" "$unix"; do
		nbdcopy --connections=2 --requests=16 \
			--request-size=1048576 --no-extents "$uri" "$TEST_DIR/b"
		cmp "$disk" "$TEST_DIR/b"
		nbdcopy --synchronous "$uri" - | cmp "$disk" -
	done
	stop_server
}

# More than its socket takes, in parts, as it comes to who takes it slowly.
test_a_slow_client_gets_its_large_reads_whole() {
	start_disk
	head -c ${SIZE_MIB}M /dev/urandom >"$disk"
	nbdcopy --request-size=1048576 --requests=8 "$tcp/disk" - |
		(for _ in $(seq 64); do head -c 1M && sleep 0.01; done) | cmp "$disk" -
	stop_server
}

test_direct_io_has_blocks_of_4096() {
	start_disk --direct
	same "$(nbdinfo --json "$tcp/disk" | "$python" -c 'import json,sys
print(json.load(sys.stdin)["exports"][0]["block_size_minimum"])')" 4096
	shell "$tcp/disk" <<-'END'
		h = connect()
		h.pwrite(b"d" * 8192, 4096)
		assert h.pread(4096, 8192) == b"d" * 4096
		raises("EINVAL", lambda: h.pread(512, 0))
		raises("EINVAL", lambda: h.pwrite(b"x" * 4096, 512))
		h.zero(4096, 4096)
		assert h.pread(4096, 4096) == bytes(4096)
	END
	stop_server
}

errors() {
	shell "$1" <<-END
		structured = $2
		h = connect(lambda h: h.set_request_structured_replies(structured))
		assert h.get_structured_replies_negotiated() == structured
		size = h.get_size()
		raises("EINVAL", lambda: h.pread(512, size))
		raises("EINVAL", lambda: h.pread(512, size - 511))
		raises("EINVAL", lambda: h.pread(512, 0xfffffffffffffe00))
		raises("ENOSPC", lambda: h.pwrite(b"x" * 512, size))
		raises("ENOSPC", lambda: h.zero(512, size - 1))
		raises("EINVAL", lambda: h.trim(512, size))
		h.cache(size, 0)
		raises("EINVAL", lambda: h.cache(512, size))
		h.pwrite(b"a" * 4096, 0, nbd.CMD_FLAG_FUA)
		assert h.pread(4096, 0) == b"a" * 4096
		h.trim(4096, 0, nbd.CMD_FLAG_FUA)
		assert h.pread(4096, 0) == bytes(4096)
		h.pwrite(b"b" * 4096, 0)
		h.zero(4096, 0, nbd.CMD_FLAG_FUA | nbd.CMD_FLAG_NO_HOLE)
		h.zero(4096, 0, nbd.CMD_FLAG_FAST_ZERO)
		assert h.pread(4096, 0) == bytes(4096)
		h.flush()
		if structured:
		    assert h.pread_structured(512, 0, lambda *a: 0,
		                              nbd.CMD_FLAG_DF) == bytes(512)
		    got = []
		    def extent(meta, offset, entries, err):
		        got.extend(entries)
		        return 0
		    h.block_status(size, 0, extent, nbd.CMD_FLAG_REQ_ONE)
		    assert len(got) == 2, got
		    raises("EINVAL", lambda: h.block_status(512, size, extent))
		else:
		    raises("EINVAL", lambda: h.pread(512, 0, nbd.CMD_FLAG_DF))
		h.pwrite(b"z" * 512, 512)   # and it goes on after all that
		assert h.pread(512, 512) == b"z" * 512
		h.shutdown()
	END
}

test_errors_are_answered_with_structured_replies() {
	start_disk
	errors "$tcp/disk" True
	stop_server
}

test_errors_are_answered_with_simple_replies() {
	start_disk
	errors "$unix" False
	stop_server
}

test_a_read_only_export_refuses_writes_and_reads_on() {
	start_disk --read-only
	shell "$tcp/disk" <<-'END'
		h = connect()
		assert h.is_read_only()
		for i in range(3):
		    raises("EPERM", lambda: h.pwrite(b"x" * 1000000, 0))
		raises("EPERM", lambda: h.trim(512, 0))
		raises("EPERM", lambda: h.zero(512, 0))
		assert h.pread(1000000, 0) == bytes(1000000)
		h.flush()
	END
	stop_server
}

test_what_one_connection_wrote_the_others_read() {
	start_disk --loops 2
	shell "$tcp/disk" <<-'END'
		hs = [connect() for i in range(4)]
		assert all(h.can_multi_conn() for h in hs)
		for round in range(50):
		    for i, h in enumerate(hs):
		        h.pwrite(bytes([round + i]) * 5000, i * 5000)
		    hs[round % 4].flush()
		    for i in range(4):
		        for h in hs:
		            assert h.pread(5000, i * 5000) == bytes([round + i]) * 5000
	END
	stop_server
}

test_epochs_and_lists_are_held_to() {
	start_disk --epoch 5 --initiators unix
	nbdinfo --size "nbd+unix:///disk@5?socket=$socket" >/dev/null
	fails any "epoch 3 is older than 5" env LIBNBD_DEBUG=1 \
		nbdinfo "nbd+unix:///disk@3?socket=$socket"
	fails any "epoch 5" env LIBNBD_DEBUG=1 nbdinfo "$unix"
	fails any "not allowed from 127.0.0.1" env LIBNBD_DEBUG=1 \
		nbdinfo "$tcp/disk@5"
	! nbdinfo --list "$tcp/" | grep -q disk || fail "it is in the list"
	nbdinfo --list "nbd+unix:///?socket=$socket" | grep -q 'export="disk@5"'
	stop_server
}

test_garbage_harms_nobody() {
	start_disk
	shell "$tcp/disk" <<-END
		import socket, random
		random.seed(7)
		h = connect()
		h.pwrite(b"k" * 4096, 0)
		for i in range(100):
		    s = socket.create_connection(("127.0.0.1", $port))
		    s.settimeout(5)
		    if i % 3 == 0:
		        s.send(random.randbytes(random.randrange(1, 3000)))
		    elif i % 3 == 1: # a good start, then garbage for options
		        s.send(b"\0\0\0\3IHAVEOPT" + random.randbytes(500))
		    else: # the same for requests
		        s.send(b"\0\0\0\3IHAVEOPT\0\0\0\1\0\0\0\4disk" + random.randbytes(500))
		    try:
		        while s.recv(4096):
		            pass
		    except ConnectionResetError:
		        pass
		    except socket.timeout: # it believes that more is to come
		        pass
		    s.close()
		assert h.pread(4096, 0) == b"k" * 4096
	END
	alive
	[ "$(grep -c dropped "$log")" -le 20 ] ||
		fail "its log is not limited"
	stop_server
}

test_a_client_killed_in_mid_write_harms_nobody() {
	local client i
	start_disk
	for i in 1 2 3; do
		/usr/bin/python3 - "$tcp/disk" <<-'END' &
			import nbd, sys
			h = nbd.NBD()
			h.connect_uri(sys.argv[1])
			data = nbd.Buffer.from_bytearray(bytearray(b"w" * (1 << 20)))
			while True: # eight always on their way
			    while h.aio_in_flight() < 8:
			        h.aio_pwrite(data, (h.aio_in_flight() % 8) << 20)
			    h.poll(-1)
		END
		client=$!
		sleep 0.5
		kill -9 $client
		wait $client || true
		alive
	done
	nbdcopy "$tcp/disk" "$TEST_DIR/copy"
	cmp "$disk" "$TEST_DIR/copy"
	stop_server
}

test_256_connections_are_served_together() {
	start_disk --loops 2
	shell "$tcp/disk" <<-'END'
		hs = [connect() for i in range(256)]
		bufs = []
		for i, h in enumerate(hs):
		    h.pwrite(bytes([i]) * 512, i * 512)
		for i, h in enumerate(hs):
		    b = nbd.Buffer(131072)
		    bufs.append((h, h.aio_pread(b, 0), b))
		for h, cookie, b in bufs:
		    while not h.aio_command_completed(cookie):
		        h.poll(-1)
		    data = b.to_bytearray()
		    assert all(data[i * 512] == i for i in range(256))
	END
	stop_server
}

test_nbdkit_as_a_strict_client() {
	local chain=$TEST_DIR/chain.$BASHPID
	start_disk
	nbdkit -f -U "$chain" nbd uri="$tcp/disk" >/dev/null 2>&1 &
	at_exit kill -9 $!
	eventually 30 test -S "$chain"
	head -c ${SIZE_MIB}M /dev/urandom >"$TEST_DIR/a"
	nbdcopy "$TEST_DIR/a" "nbd+unix:///?socket=$chain"
	cmp "$TEST_DIR/a" "$disk"
	nbdinfo --map "nbd+unix:///?socket=$chain" >/dev/null
	qemu-io -f raw "nbd+unix:///?socket=$chain" -c 'write -z 0 1M' \
		-c 'discard 1M 1M' -c 'read -P 0 0 2M' -c flush >/dev/null
}

# No packaged client speaks extended headers: tests/nbd_extended.py does.
test_extended_headers_carry_64_bits() {
	truncate -s 6T "$TEST_DIR/big"
	start_server --export "big=$TEST_DIR/big"
	"$python" "$TOP/tests/nbd_extended.py" "$port" big
	same "$(stat -c %b "$TEST_DIR/big")" 0 "blocks"
	stop_server
}

test_a_slow_handshake_is_ended() {
	start_disk
	shell "$tcp/disk" <<-END
		import socket, time
		def start(said):
		    s = socket.create_connection(("127.0.0.1", $port))
		    s.sendall(said)
		    return s
		begin = time.monotonic()
		# Half an option; nothing at all; now and then a byte of an option.
		socks = [start(b"\0\0\0\3IHAVE"), start(b""),
		         start(b"\0\0\0\3IHAVEOPT\0\0\0\7\0\0\xff\0")]
		while len(socks) == 3 and time.monotonic() - begin < 60:
		    try:
		        socks[2].sendall(b"x")
		        time.sleep(0.2)
		        if socks[2].recv(4096, socket.MSG_DONTWAIT) == b"":
		            break
		    except BlockingIOError:
		        pass
		    except OSError:
		        break
		for s in socks[:2]:
		    s.settimeout(60)
		    try:
		        while s.recv(4096):
		            pass
		    except ConnectionResetError:
		        pass
		assert 8 < time.monotonic() - begin < 60
	END
	stop_server
}

test_a_flood_of_those_who_say_nothing_keeps_nobody_out() {
	start_disk --loops 1 --max-connections 400
	shell "$tcp/disk" <<-END
		import socket
		h = connect()
		h.pwrite(b"k" * 4096, 0)
		socks = []
		for i in range(900): # more than may be connected at all
		    s = socket.create_connection(("127.0.0.1", $port))
		    s.settimeout(30)
		    if i % 2:
		        s.sendall(b"\0\0\0\3IHAVEOPT\0\0\0\7")
		    assert s.recv(18) != b"" # it was greeted
		    socks.append(s)
		    if i % 100 == 99: # others get in meanwhile, and go on
		        g = connect()
		        assert g.pread(4096, 0) == b"k" * 4096
		        assert h.pread(4096, 0) == b"k" * 4096
		rss = int(next(line for line in open("/proc/$server/status")
		               if line.startswith("VmRSS")).split()[1])
		assert rss < 64 << 10, rss
	END
	alive
	[ "$(wc -l <"$log")" -le 20 ] || fail "its log is not limited: $(wc -l <"$log")"
	stop_server
}

# Answers to options that nobody takes: they wait, and the loop does not.
test_a_peer_that_takes_no_answers_keeps_nobody_out() {
	start_disk --loops 1
	shell "$tcp/disk" <<-END
		import select, socket, struct
		h = connect()
		s = socket.socket()
		s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
		s.connect(("127.0.0.1", $port))
		s.sendall(b"\0\0\0\3")
		s.setblocking(False)
		asked, lists = 0, (b"IHAVEOPT" + struct.pack(">II", 3, 0)) * 1024
		while select.select([], [s], [], 2)[1]: # until both sides are full
		    try:
		        asked += s.send(lists)
		    except BlockingIOError:
		        pass
		assert asked > 0
		h.pwrite(b"k" * 4096, 0)
		assert h.pread(4096, 0) == b"k" * 4096
		assert connect().pread(4096, 0) == b"k" * 4096
	END
	stop_server
}

# What nbd-tester-client does, and lengths that can't be.
test_wrong_lengths_are_answered_or_end_the_connection() {
	start_disk
	shell "$tcp/disk" <<-END
		import socket, struct
		def start(rest):
		    s = socket.create_connection(("127.0.0.1", $port))
		    s.settimeout(60)
		    s.recv(18, socket.MSG_WAITALL)
		    s.sendall(b"\0\0\0\3" + rest)
		    return s
		def opt(n, data, length=None):
		    return b"IHAVEOPT" + struct.pack(
		        ">II", n, len(data) if length is None else length) + data
		def req(t, off, length, flags=0):
		    return struct.pack(">IHHQQI", 0x25609513, flags, t, 7, off, length)
		def ends(s):
		    try:
		        while s.recv(65536):
		            pass
		    except ConnectionResetError:
		        pass
		go = opt(7, b"\0\0\0\4disk\0\0")
		h = connect()
		for rest in (opt(7, b"", 0xffffffff), opt(1, b"", 5000000),
		             opt(3, b"", 2 << 20), go + req(1, 0, 0xffffffff),
		             go + b"\0" * 28, b"\xff" * 16):
		    ends(start(rest))
		# Refused, and the connection goes on: oversize, past the end, no length.
		s = start(opt(1, b"disk"))
		s.recv(10, socket.MSG_WAITALL)
		for r, payload in ((req(0, 0, (32 << 20) + 1), b""), (req(0, 64 << 20, 1), b""),
		                   (req(0, 0, 0), b""), (req(1, 1 << 40, 65536), b"x" * 65536),
		                   (req(1, 0, 33 << 20), b"x" * (33 << 20)), (req(99, 0, 1), b"")):
		    s.sendall(r + payload)
		    magic, error, cookie = struct.unpack(">IIQ", s.recv(16, socket.MSG_WAITALL))
		    assert magic == 0x67446698 and error in (22, 28) and cookie == 7, (error, r)
		s.sendall(req(3, 0, 0))
		assert s.recv(16, socket.MSG_WAITALL)[4:8] == bytes(4)
		s.sendall(req(2, 0, 0))
		ends(s)
		# A handshake that is given up, and one for what is not there.
		s = start(opt(2, b""))
		assert s.recv(20, socket.MSG_WAITALL)[12:16] == b"\0\0\0\1"
		ends(s)
		ends(start(opt(1, b"nothing")))
		assert h.pread(4096, 0) == bytes(4096)
	END
	stop_server
}

test_a_bad_command_line_says_what_is_wrong() {
	fails any "sideways" "$serve" --export disk=/dev/null --listen sideways
	fails any "not NAME=PATH" "$serve" --export disk
	fails any "no loop feature" "$serve" --without magic
	fails any "initiator" "$serve" --export disk=/dev/null --initiators 10.0.0.0/99
}

run_tests "$@"
