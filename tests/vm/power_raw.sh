#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# A node with raw pools loses its power: QEMU is killed while clients write,
# and with it the volatile caches of its disks, so all that the disks were not
# told to flush is gone. What blockd had said is durable must be there. The
# same on a disk that lies about flushing is the control: it must lose some. A third
# disk has a client that uses its extent straight, by device mapper. A fourth client has a
# striped device of two extents: one of the first disk, and one straight on the third.
. "$(dirname "$0")/../lib.sh"
need_root
need nbdkit
/usr/bin/python3 -c 'import nbd' 2>/dev/null || skip_all "needs python3-libnbd"
"$TOP/tests/vm/fetch" >"$TEST_DIR/fetch.log" 2>&1 ||
	skip_all "no virtual machine: $(tail -n 1 "$TEST_DIR/fetch.log")"
files=$(mktemp -d "${VM_CACHE:-$TOP/build/vm}/power_raw.XXXXXX") || exit
at_exit rm -rf "$files"

# blockd_on RUN DISK DISK DISK: its command line, with raw pools
blockd_on() {
	argv=("$BUILD/bin/blockd" --config "$1/conf" --node-name one --direct
		--pool "honest=$2" --pool "liar=$3" --pool "direct=$4" --floor 1M
		--state-dir "$1/state" --run-dir "$1/run"
		--listen "unix:$1/nbd" --control "unix:$1/control")
}

# The node's disks are looked at here before and after; call METHOD...
start_here() {
	mkdir -p "$TEST_DIR/n"
	: >"$TEST_DIR/n/conf"
	blockd_on "$TEST_DIR/n" "$files/honest" "$files/liar" "$files/direct"
	"${argv[@]}" >"$TEST_DIR/log" 2>&1 &
	here=$!
	at_exit kill $here
	eventually 30 call GetNode
}
stop_here() {
	kill $here
	wait $here
}
call() { "$BUILD/test/blockd/testkit/blockd_call" "unix:$TEST_DIR/n/control" "$@"; }

# disk POOL CACHE: a disk of the machine with a volatile cache
disk() {
	TMPDIR=$files nbdkit -f -U "$files/$1.sock" --filter=cache \
		file "$files/$1" "cache=$2" >>"$files/nbdkit" 2>&1 &
	disks+=($!)
	at_exit kill -9 $!
	eventually 30 test -S "$files/$1.sock"
}
guest() { "$TOP/tests/vm/exec" "$files/sock" "$@"; }

# What happens to an extent, one thing after the other, and what it then holds.
cat >"$files/story.py" <<'END'
import os, subprocess
BLOCKS, STRIDE, PER_CLUSTER = 256, 64 << 10, 16
CLUSTERS = BLOCKS // PER_CLUSTER
EXTENTS = {"striped": ["s0", "s1"]}
def extents_of(name):
    return EXTENTS.get(name, [name])
def step(n):
    if n % 30 == 20:
        return "snapshot", f"s{n}"
    if n % 30 == 26 and n > 60:
        return "delete", f"s{n - 36}"
    if n % 25 == 13:
        return "zero", n * 7 % CLUSTERS
    return "write", n * 97 % BLOCKS
def data(n):
    return n.to_bytes(8, "little") * 512
def held(n):
    blocks = [0] * BLOCKS
    for i in range(1, n + 1):
        what, where = step(i)
        if what == "write":
            blocks[where] = i
        elif what == "zero":
            for b in range(where * PER_CLUSTER, (where + 1) * PER_CLUSTER):
                blocks[b] = 0
    return blocks
END
cat >"$files/write.py" <<'END'
import mmap, nbd, sys
from story import *
class Device:
    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.page = mmap.mmap(-1, PER_CLUSTER * STRIDE)
    def put(self, data, offset, flags=0):
        self.page[:len(data)] = data
        os.pwritev(self.fd, [memoryview(self.page)[:len(data)]], offset, flags)
    def pwrite(self, data, offset, fua=0):
        self.put(data, offset, os.RWF_DSYNC if fua else 0)
    def zero(self, length, offset):
        self.put(bytes(length), offset)
    def flush(self):
        os.fsync(self.fd)
pool, run, call = sys.argv[1:4]
extents = extents_of(pool)
if len(sys.argv) > 5:
    h = Device(sys.argv[5])
else:
    h = nbd.NBD()
    h.connect_uri(f"nbd+unix:///{pool}?socket={run}/nbd")
out = os.open(sys.argv[4], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
for n in range(1, 100000):
    what, where = step(n)
    if what == "snapshot":
        subprocess.run([call, f"unix:{run}/control", "CreateSnapshots",
            f"cut=00000000-0000-4000-8000-{n:012d}",
            *(f"snapshots=extent:{e},name:{e}-{where}" for e in extents)],
            check=True, stdout=subprocess.DEVNULL)
    elif what == "delete":
        for e in extents:
            subprocess.run([call, f"unix:{run}/control", "DeleteExtent",
                f"name={e}-{where}"], check=True, stdout=subprocess.DEVNULL)
    elif what == "zero":
        h.zero(PER_CLUSTER * STRIDE, where * PER_CLUSTER * STRIDE)
        h.flush()
    elif n % 2:
        h.pwrite(data(n), where * STRIDE, nbd.CMD_FLAG_FUA)
    else:
        h.pwrite(data(n), where * STRIDE)
        h.flush()
    os.write(out, b"%d\n" % n)
END
# How many blocks, of the extent and of its snapshots, are not as they have to
# be; what was under way when the power went may be there, or not.
cat >"$files/check.py" <<'END'
import nbd, sys
from story import *
pool, run, call, acked = *sys.argv[1:4], int(sys.argv[4])
def opened(name, read_only):
    subprocess.run([call, f"unix:{run}/control", "SetExport", f"name={name}",
        "epoch=0", "initiators=unix"] + ["read_only=true"] * read_only,
        check=True, stdout=subprocess.DEVNULL)
    h = nbd.NBD()
    h.connect_uri(f"nbd+unix:///{name}?socket={run}/nbd")
    return h
def blocks_of(suffix):
    parts = [opened(e + suffix, suffix != "") for e in extents_of(pool)]
    n = len(parts)
    return [parts[b % n].pread(4096, b // n * STRIDE) for b in range(BLOCKS)]
def wrong(suffix, *sides):
    try:
        blocks = blocks_of(suffix)
    except subprocess.CalledProcessError:
        return BLOCKS
    return sum(all(blocks[b] != data(side[b]) for side in sides)
        for b in range(BLOCKS))
lost = wrong("", held(acked), held(acked + 1))
gone = {step(n)[1] for n in range(1, acked + 2) if step(n)[0] == "delete"}
for n in range(1, acked + 1):
    if step(n)[0] == "snapshot" and step(n)[1] not in gone:
        lost += wrong(f"-{step(n)[1]}", held(n))
print(lost)
END

# In the guest: the devices of two clients, with all of the extents "direct" and "s1"
# straight on the disk.
cat >"$files/straight" <<'END'
set -eu
BUILD=$1
PATH=$BUILD/bin:$PATH
device_of() { "$BUILD/test/initiator/initiator_call_main" "$@" state=/run/g/a | sed -n 's/^device=//p'; }
straight() { # EXTENT DEVICE
	"$BUILD/test/blockd/testkit/blockd_call" unix:/run/g/control AttachDirect "name=$1" \
		epoch=0 "device=TRIB-${2#/dev/mapper/trib-}" >/run/direct
	until dmsetup table "${2##*/}" >/run/table; ! grep -v " linear $(stat -c %Hr:%Lr /dev/vdc) " /run/table; do
		sleep 0.5
	done
}
direct=$(device_of attach id=a transport=fuse address=unix:/run/g/nbd export=direct size=16M)
striped=$(device_of attach id=s transport=fuse part=8M,unix:/run/g/nbd,s0 \
	part=8M,unix:/run/g/nbd,s1 size=16M stripe_width=2 stripe_unit=64K)
for device in "$direct" "$striped"; do
	dd if=/dev/zero of="$device" bs=1M oflag=direct status=none || true
done
straight direct "$direct"
straight s1 "$(device_of get id=s/1)"
echo "$direct" >/run/direct.device
echo "$striped" >/run/striped.device
END

say_more() { tail -n 20 "$files"/*.log "$files/console" "$files/nbdkit"; }

acked() { tail -n 1 "$files/$1.acked"; }
check() {
	/usr/bin/python3 "$files/check.py" "$1" "$TEST_DIR/n" \
		"$BUILD/test/blockd/testkit/blockd_call" "$(acked "$1")"
}

test_what_was_flushed_to_raw_pools_survives_a_power_cut() {
	local disks=() node lost e pool name size
	for e in honest liar direct; do fallocate -l 256M "$files/$e"; done
	start_here
	for e in honest:honest:16 liar:liar:16 direct:direct:16 honest:s0:8 direct:s1:8; do
		IFS=: read -r pool name size <<<"$e"
		call CreateExtent pool=$pool name=$name size=$((size << 20))
		call SetExport name=$name epoch=0 initiators=unix
	done >"$TEST_DIR/made"
	stop_here

	disk honest writeback
	disk liar unsafe
	disk direct writeback
	"$TOP/tests/vm/run" -t 600 -s "$files" -p "$files/pid" -S "$files/sock" \
		-d "nbd+unix:///?socket=$files/honest.sock" \
		-d "nbd+unix:///?socket=$files/liar.sock" \
		-d "nbd+unix:///?socket=$files/direct.sock" >"$files/console" 2>&1 &
	node=$!
	at_exit kill $node
	blockd_on /run/g /dev/vda /dev/vdb /dev/vdc
	guest "modprobe -a dm-mod loop fuse
		mkdir -p /run/g; : >/run/g/conf
		${argv[*]} >$files/guest.log 2>&1 &
		until $BUILD/test/blockd/testkit/blockd_call unix:/run/g/control GetNode; do
			kill -0 \$! || exit 1
			sleep 0.1
		done >/run/node 2>&1
		bash $files/straight $BUILD >>$files/write.log 2>&1 || exit 1
		for e in direct striped; do
			/usr/bin/python3 $files/write.py \$e /run/g \\
				$BUILD/test/blockd/testkit/blockd_call $files/\$e.acked \\
				\$(cat /run/\$e.device) >>$files/write.log 2>&1 &
		done
		for e in honest liar; do
			/usr/bin/python3 $files/write.py \$e /run/g \\
				$BUILD/test/blockd/testkit/blockd_call $files/\$e.acked \\
				>>$files/write.log 2>&1 &
		done" || fail "$(cat "$files/guest.log")"
	eventually 300 eval '[ "$(acked honest)" -ge 90 ] && [ "$(acked liar)" -ge 30 ] &&
		[ "$(acked direct)" -ge 90 ] && [ "$(acked striped)" -ge 90 ]'
	kill -KILL "${disks[@]}" "$(cat "$files/pid")"
	wait $node "${disks[@]}" 2>/dev/null || true
	echo "# $(acked honest), $(acked liar), $(acked direct), $(acked striped) steps acknowledged"

	for e in honest liar direct; do
		"$BUILD/bin/blockd" --check-pool "$files/$e" || fail "pool $e is hurt"
	done
	start_here
	for e in honest direct striped; do
		lost=$(check $e)
		same "$lost" 0 "blocks of $e that were acknowledged and lost"
	done
	lost=$(check liar)
	[ "$lost" -gt 0 ] || fail "a disk that does not flush has lost nothing: the cut was none"
	echo "# control: $lost blocks lost"
	stop_here
}

run_tests "$@"
