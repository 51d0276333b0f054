# SPDX-License-Identifier: Apache-2.0
"""NBD 4 KiB random reads of a file in the page cache, beside nbdkit.

blockd serves an extent of a dir pool, nbdkit (file plugin) a file of the same
content, both over TCP on the loopback with their defaults; the client (perf/nbd_load.c) makes the same number of reads at the same offsets
and checks what it gets. IOPS, and the server's processor time for one I/O.
"""
import json
import socket

from harness.measure import Case, Goal, Sample
from harness.scratch import built, need, run

BLOCK = 4096
SIZE = 1 << 30
ROUNDS = (5, 15)  # quick, full


def write_pattern(path):
    """Each 8-byte word of a block is the block's number (perf/nbd_load.c)."""
    with open(path, "wb") as f:
        for first in range(0, SIZE // BLOCK, 1024):
            f.write(b"".join(i.to_bytes(8, "little") * (BLOCK // 8)
                             for i in range(first, first + 1024)))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


def start_nbdkit(place, path):
    port = free_port()
    server = place.server(
        "nbdkit", ["nbdkit", "-f", "-i", "127.0.0.1", "-p", str(port), "file", path],
        lambda: listening(port))
    return server, ["-a", f"127.0.0.1:{port}"]


def start_blockd(place, path):
    """A node of its own; the extent is filled through its NBD server."""
    port = free_port()
    pool, run_dir = place.folder("pool"), place.folder("run")
    control = f"unix:{run_dir}/blockd.sock"
    with open(place.file("blockd.conf"), "w", encoding="utf-8"):
        pass
    server = place.server(
        "blockd", [built("bin/blockd"), "--config", place.file("blockd.conf"),
                   "--node-name", "perf", "--pool", f"perf={pool}",
                   "--state-dir", place.folder("state"), "--run-dir", run_dir,
                   "--control", control, "--listen", f"tcp:127.0.0.1:{port}"],
        lambda: listening(port))
    call = [built("test/blockd/blockd_call"), control]
    run(call + ["CreateExtent", "pool=perf", "name=extent", f"size={SIZE}"])
    run(call + ["SetExport", "name=extent", "epoch=1", "initiators=127.0.0.1"])
    run(["nbdcopy", path, f"nbd://127.0.0.1:{port}/extent@1"])
    return server, ["-a", f"127.0.0.1:{port}", "-e", "extent@1"]


def setup(place, quick):
    need("nbdkit", "nbdcopy", "setpriv")
    client = built("test/perf/nbd_load")
    path = place.file("pattern.img")
    write_pattern(path)
    sides = {"ours": start_blockd(place, path), "nbdkit": start_nbdkit(place, path)}
    names = {"nbdkit": "nbdkit " + run(["nbdkit", "--version"]).split()[1]}

    def side(name, depth, count):
        server, where = sides[name]

        def measure(number):
            server.alive()
            before = server.cpu_s()
            # The same offsets for every side of a round, others each round.
            got = json.loads(run([client, *where, "-d", str(depth), "-n", str(count),
                                  "-s", str(BLOCK), "-r", str(number + 2)], timeout=120))
            used = server.cpu_s() - before
            return Sample((got["reads"], got["bytes"], got["sum"]),
                          {"iops": got["iops"], "p50": got["p50_us"], "p99": got["p99_us"],
                           "server cpu": used * 1e6 / got["reads"]})
        return measure

    def case(row, depth, count, goals):
        return Case(row, {name: side(name, depth, count) for name in sides}, names,
                    [Goal(metric, unit, "nbdkit", sense, ratio)
                     for metric, unit, sense, ratio in goals])

    return [
        case("read 4k QD1", 1, 10_000 if quick else 30_000,
             [("iops", "1/s", ">=", 1.0), ("server cpu", "us/IO", "<=", 1.0),
              ("p99", "us", "<=", 1.0)]),
        case("read 4k QD32", 32, 100_000 if quick else 200_000,
             [("iops", "1/s", ">=", 1.5), ("server cpu", "us/IO", "<=", 0.5),
              ("p99", "us", "<=", 1.0)]),
    ]
