#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Clients whose machine falls silent, of both servers: in a network namespace of
# their own, whose link is taken down.
. "$(dirname "$0")/../lib.sh"
need_root
need ip
/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"

NET=gone$$
in_net() { nsenter --net="/run/netns/$NET$1" "${@:2}"; }

# Two machines and a wire: a server's, 10.77.0.1, and a client's.
make_net() {
	ip netns add "${NET}s" || skip "no network namespaces"
	at_exit ip netns del "${NET}s"
	ip netns add "${NET}c"
	at_exit ip netns del "${NET}c"
	ip link add wire netns "${NET}s" type veth peer name wire netns "${NET}c"
	local i=0 side
	for side in s c; do
		i=$((i + 1))
		in_net $side ip addr add 10.77.0.$i/24 dev wire
		in_net $side ip link set wire up
		in_net $side ip link set lo up
	done
}

# serve PROGRAM OPTION...: sets $port, and $server (its pid)
serve() {
	local said=$TEST_DIR/out.$1
	nsenter --net="/run/netns/${NET}s" "$BUILD/test/target/testkit/$1" --listen tcp:0.0.0.0:0 --loops 1 \
		--export disk=ram:64M "${@:2}" >"$said" 2>"$said.err" &
	server=$!
	at_exit kill -9 "$server"
	eventually 30 grep -q '^listening' "$said"
	port=$(sed -n 's/^listening tcp:.*://p' "$said")
}

sockets() { find "/proc/$server/fd" -lname 'socket:*' | wc -l; }
has_sockets() { [ "$(sockets)" = "$1" ]; }

# talk SIDE SCRIPT: a client in the background that says when it is ready
talk() {
	rm -f "$TEST_DIR/ready"
	nsenter --net="/run/netns/$NET$1" env PYTHONPATH="$TOP/tests" /usr/bin/python3 -c "
import sys, time
$2
open('$TEST_DIR/ready', 'w').close()
time.sleep(600)" &
	at_exit kill -9 $!
	eventually 30 test -e "$TEST_DIR/ready"
}

idle="
import nbd
h = nbd.NBD()
h.connect_uri('nbd://10.77.0.1:%PORT%/disk')
h.pread(512, 0)"

# A client that asks for much, and takes nothing.
takes_nothing="$idle
b = [h.aio_pread(nbd.Buffer(1 << 20), i << 20) for i in range(32)]"

test_an_nbd_client_that_falls_silent_is_gone_and_others_are_not() {
	make_net
	serve nbd_serve_main --peer-timeout 4
	local listening
	listening=$(sockets)
	talk c "${idle//%PORT%/$port}"
	talk c "${takes_nothing//%PORT%/$port}"
	talk s "${idle//%PORT%/$port}"
	has_sockets $((listening + 3)) || fail "$(sockets) sockets"
	in_net c ip link set wire down
	eventually 30 has_sockets $((listening + 1))
}

# A client that answers when it is asked whether it is there, and counts.
answers="
head = bytes(1)
for n in range(2):
    while head[0] & 0x3f != 0x20:
        head, _ = p.answer()
    p.put(b'\x40\x80' + bytes(6) + head[8:16] + b'\xff' * 4 + head[20:24] +
          p.sn.to_bytes(4, 'big') + head[24:28] + bytes(16))
    head = bytes(1)"

test_an_initiator_that_falls_silent_is_gone_and_others_are_not() {
	make_net
	serve iscsi_serve_main --peer-timeout 6
	local listening peer
	listening=$(sockets)
	peer="
from iscsi_peer import *
p = Peer($port, 'iqn.2025-01.io.union:disk', 'iqn.2000-01.org:%NAME%', address='%ADDRESS%')"
	peer=${peer//%ADDRESS%/10.77.0.1}
	talk c "${peer//%NAME%/silent}"
	has_sockets $((listening + 1)) || fail "$(sockets) sockets"
	in_net c ip link set wire down
	talk s "${peer//%NAME%/there}$answers"
	eventually 30 has_sockets $((listening + 1))
}

run_tests "$@"
