#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node loses its power: QEMU is killed while a client writes, so all that
# the guest's kernel had not yet brought to its disk is gone. What blockd had
# said is durable must be there when the node is back.
. "$(dirname "$0")/../lib.sh"
need_root
need mkfs.ext4
/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"
"$TOP/tests/vm/fetch" >"$TEST_DIR/fetch.log" 2>&1 ||
	skip_all "no virtual machine: $(tail -n 1 "$TEST_DIR/fetch.log")"
files=$(mktemp -d "${VM_CACHE:-$TOP/build/vm}/power.XXXXXX") || exit
at_exit rm -rf "$files"

# boot: the node, with its disk; in(guest) runs a command there
boot() {
	"$TOP/tests/vm/run" -t 600 -d "$files/disk" -s "$files" -p "$files/pid" \
		-S "$files/sock" >>"$files/console" 2>&1 &
	node=$!
	at_exit kill $node
}
guest() { "$TOP/tests/vm/exec" "$files/sock" "$@"; }

read -r -d '' start_blockd <<-END || true
	set -e
	mkdir -p /pool
	mount /dev/vda /pool
	mkdir -p /pool/p
	touch /run/blockd.conf
	$BUILD/bin/blockd --config /run/blockd.conf --node-name one --pool p=/pool/p \\
		--floor 1M --listen unix:/run/nbd --control unix:/run/blockd.sock \\
		--state-dir /pool/state --run-dir /run/t >/run/blockd.log 2>&1 &
	call() { $BUILD/test/blockd/testkit/blockd_call unix:/run/blockd.sock "\$@"; }
	for i in \$(seq 100); do
		call GetNode >/run/node 2>&1 && break
		sleep 0.1
	done
	call GetNode >/run/node || { cat /run/blockd.log >&2; exit 1; }
	END

# Writes block n = n of "flushed", flushes, and only then tells the host n.
# With FUA instead for every other block. "unflushed" gets the same blocks and
# no flush: the control, which must lose some.
cat >"$files/write.py" <<'END'
import nbd, os, sys
def connect(name):
    h = nbd.NBD()
    h.connect_uri(f"nbd+unix:///{name}?socket=/run/nbd")
    return h
flushed, unflushed = connect("flushed"), connect("unflushed")
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
for n in range(1, 4096):
    data = n.to_bytes(8, "little") * 512
    unflushed.pwrite(data, n * 4096)
    if n % 2:
        flushed.pwrite(data, n * 4096, nbd.CMD_FLAG_FUA)
    else:
        flushed.pwrite(data, n * 4096)
        flushed.flush()
    os.write(out, b"%d\n" % n)
END
cat >"$files/check.py" <<'END'
import nbd, sys
h = nbd.NBD()
h.connect_uri(f"nbd+unix:///{sys.argv[1]}?socket=/run/nbd")
acked = int(sys.argv[2])
lost = [n for n in range(1, acked + 1)
        if h.pread(4096, n * 4096) != n.to_bytes(8, "little") * 512]
print(len(lost))
END

test_what_was_flushed_survives_a_power_cut() {
	local acked created lost
	truncate -s 512M "$files/disk"
	mkfs.ext4 -q -F "$files/disk"
	boot
	guest "$start_blockd"'
		for e in flushed unflushed; do
			call CreateExtent pool=p name=$e size=$((16 << 20))
			call SetExport name=$e epoch=0 initiators=unix
		done >/run/made
		/usr/bin/python3 '"$files/write.py $files/acked"' >/run/write.log 2>&1 &
		(n=0; while n=$((n + 1)) && call CreateExtent pool=p name=x$n size=$((1 << 20)) >/run/x; do
			echo $n; done >'"$files/created"') &'
	eventually 60 eval '[ "$(wc -l <"$files/acked")" -ge 40 ] && [ "$(wc -l <"$files/created")" -ge 5 ]'
	kill -KILL "$(cat "$files/pid")"
	wait $node || true
	acked=$(tail -n 1 "$files/acked") created=$(tail -n 1 "$files/created")
	echo "# $acked writes and $created extents acknowledged"

	boot
	guest "$start_blockd"$'\n''call ListExtents' >"$files/extents"
	for ((i = 1; i <= created; i++)); do
		grep -q "\"name\":\"x$i\"" "$files/extents" || fail "extent x$i is gone"
	done
	if grep -q '"state":"damaged"' "$files/extents"; then
		fail "a damaged extent: $(cat "$files/extents")"
	fi
	lost=$(guest "/usr/bin/python3 $files/check.py flushed $acked")
	same "$lost" 0 "of $acked acknowledged writes lost"
	lost=$(guest "/usr/bin/python3 $files/check.py unflushed $acked")
	[ "$lost" -gt 0 ] || fail "nothing unflushed was lost: the cut was none"
	echo "# control: $lost of $acked unflushed writes lost"
	guest POWEROFF
	wait $node
}

run_tests "$@"
