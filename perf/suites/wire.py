# SPDX-License-Identifier: Apache-2.0
"""The NBD server beside those of others: nbdkit, qemu-nbd, nbd-server.

All serve 1 GiB that is in the page cache, ours as an extent of a dir pool, with
their defaults, on the loopback. The client (perf/nbd_load.c) makes the same
requests in the same order to each and checks what it gets; fio and nbdcopy are
clients of others. Goals are against the best peer of a row: the median of the
operations a second, the minimum of the server's processor time for each.
"""
import concurrent.futures
import json
import os
import shutil
import socket

from harness.machine import TOP
from harness.measure import Case, Goal, Sample
from harness.scratch import BUILD, Failed, built, need, run

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


class Side:
    """A server, how to reach it, and what else it can do."""

    def __init__(self, server, port, export="", path=None, tls=None):
        self.server, self.export, self.path = server, export, path
        self.address = f"127.0.0.1:{port}"
        self.uri = f"nbd://{self.address}/{export}"
        self.tls_uri = tls and f"nbds://localhost:{tls[0]}/{export}?tls-certificates={tls[1]}"
        self.tls_server = tls and tls[2]


def certificates(place):
    """A CA, a server's and a client's certificate, as libnbd wants them."""
    folder = place.folder("tls")

    def openssl(*words):
        run(["openssl", *words], cwd=folder)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca-key.pem", "-out", "ca-cert.pem",
            "-days", "2", "-subj", "/CN=perf")
    with open(os.path.join(folder, "ext"), "w", encoding="ascii") as f:
        f.write("subjectAltName=DNS:localhost\n")
    for who in ("server", "client"):
        openssl("req", *key, "-keyout", who + "-key.pem", "-out", who + ".csr",
                "-subj", "/CN=" + who)
        openssl("x509", "-req", "-in", who + ".csr", "-CA", "ca-cert.pem", "-CAkey",
                "ca-key.pem", "-CAcreateserial", "-days", "2", "-extfile", "ext",
                "-out", who + "-cert.pem")
    return folder


def start_nbdkit(place, path, tls):
    port, tls_port, sock = free_port(), free_port(), place.file("nbdkit.sock")
    server = place.server(
        "nbdkit", ["nbdkit", "-f", "-i", "127.0.0.1", "-p", str(port), "file", path],
        lambda: listening(port))
    tls_server = place.server(
        "nbdkit-tls", ["nbdkit", "-f", "-i", "127.0.0.1", "-p", str(tls_port),
                       "--tls=require", "--tls-verify-peer",
                       "--tls-certificates=" + tls, "file", path],
        lambda: listening(tls_port))
    unix = place.server("nbdkit-unix", ["nbdkit", "-f", "-U", sock, "file", path],
                        lambda: os.path.exists(sock))
    return Side(server, port, path=(sock, unix), tls=(tls_port, tls, tls_server))


def start_qemu(place, path):
    port = free_port()
    server = place.server(
        "qemu-nbd", ["qemu-nbd", "-t", "-f", "raw", "-e", "8", "-b", "127.0.0.1",
                     "--aio=io_uring", "-p", str(port), "-x", "", path],
        lambda: listening(port))
    return Side(server, port)


def start_nbd_server(place, path):
    """Debian's, unpacked: nothing is installed."""
    program = shutil.which("nbd-server")
    folder = os.path.join(BUILD, "perf", "nbd-server")
    if not program:
        program = os.path.join(folder, "bin/nbd-server")
        if not os.path.exists(program):
            run([os.path.join(TOP, "tests/apt-unpack"), "-n", folder, "nbd-server"])
    port, config = free_port(), place.file("nbd-server.conf")
    with open(config, "w", encoding="utf-8") as f:
        f.write(f"[generic]\nlistenaddr = 127.0.0.1\nport = {port}\n"
                f"[disk]\nexportname = {path}\nflush = true\nfua = true\n")
    # It can only run as a daemon: its namespace ends with us.
    server = place.server(
        "nbd-server", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh",
                       "-c", '"$0" -C "$1" && sleep infinity', program, config],
        lambda: listening(port))
    return Side(server, port, "disk")


def start_blockd(place, path, tls):
    """A node of its own; the extent is filled through its NBD server."""
    port = free_port()
    pool, run_dir = place.folder("pool"), place.folder("run")
    control = f"unix:{run_dir}/blockd.sock"
    sock = f"{run_dir}/nbd.sock"
    with open(place.file("blockd.conf"), "w", encoding="utf-8"):
        pass
    server = place.server(
        "blockd", [built("bin/blockd"), "--config", place.file("blockd.conf"),
                   "--node-name", "perf", "--pool", f"perf={pool}",
                   "--state-dir", place.folder("state"), "--run-dir", run_dir,
                   "--nbd-tls", "offered", "--nbd-tls-cert", tls + "/server-cert.pem",
                   "--nbd-tls-key", tls + "/server-key.pem",
                   "--nbd-tls-ca", tls + "/ca-cert.pem",
                   "--control", control, "--listen", f"tcp:127.0.0.1:{port}",
                   "--listen", "unix:" + sock],
        lambda: listening(port))
    call = [built("test/blockd/blockd_call"), control]
    run(call + ["CreateExtent", "pool=perf", "name=extent", f"size={SIZE}"])
    run(call + ["SetExport", "name=extent", "epoch=1", "initiators=127.0.0.1",
                "initiators=unix"])
    side = Side(server, port, "extent@1", path=(sock, server), tls=(port, tls, server))
    run(["nbdcopy", path, side.uri])
    return side


def load(side, number, words, connections=1):
    """perf/nbd_load, as often as there are connections; the same offsets for
    every side of a round, others each round."""
    client = built("test/perf/nbd_load")

    def one(i):
        where = words[0] if words and words[0].startswith("unix:") else side.address
        rest = words[1:] if words and words[0].startswith("unix:") else words
        return json.loads(run([client, "-a", where, "-e", side.export,
                               "-r", str(number + 2 + 1000 * i), *rest], timeout=300))

    with concurrent.futures.ThreadPoolExecutor(connections) as pool:
        got = list(pool.map(one, range(connections)))
    return (sum(g["iops"] for g in got), sum(g["reads"] for g in got),
            (sum(g["bytes"] for g in got), [g["sum"] for g in got]))


def by_load(*words, connections=1, unix=False):
    def measure(side, number):
        server = side.path[1] if unix else side.server
        where = ("unix:" + side.path[0],) if unix else ()
        before = server.cpu_s()
        iops, count, work = load(side, number, where + words, connections)
        return Sample(work, {"iops": iops,
                             "cpu": (server.cpu_s() - before) * 1e6 / count})
    return measure


def by_fio(count):
    def measure(side, number):
        before = side.server.cpu_s()
        said = run(
            ["fio", "--name=x", "--ioengine=nbd", "--uri=" + side.uri, "--rw=randread",
             "--bs=4k", "--iodepth=32", f"--size={SIZE}", f"--number_ios={count}",
             f"--randseed={number + 2}", "--output-format=json"], timeout=300)
        got = json.loads(said[said.index("{"):])  # behind notes of the engine
        read = got["jobs"][0]["read"]
        if read["total_ios"] < count:
            raise Failed(f"fio made {read['total_ios']} of {count} reads")
        return Sample(count, {"iops": read["iops"],
                              "cpu": (side.server.cpu_s() - before) * 1e6 / read["total_ios"]})
    return measure


def by_tls_copy(place):
    def measure(side, _number):
        server = side.tls_server
        before, start = server.cpu_s(), os.times().elapsed
        run(["nbdcopy", "--connections=1", "--requests=8", "--request-size=1048576",
             side.tls_uri, "null:"], timeout=300)
        count = SIZE >> 20
        return Sample(count, {"iops": count / (os.times().elapsed - start),
                              "cpu": (server.cpu_s() - before) * 1e6 / count})
    return measure


def setup(place, quick):
    need("nbdkit", "nbdcopy", "qemu-nbd", "fio", "openssl", "setpriv")
    path = place.file("pattern.img")
    write_pattern(path)
    tls = certificates(place)
    sides = {"ours": start_blockd(place, path, tls),
             "nbdkit": start_nbdkit(place, path, tls),
             "qemu": start_qemu(place, path),
             "nbd-server": start_nbd_server(place, path)}
    versions = {"nbdkit": "nbdkit " + run(["nbdkit", "--version"]).split()[1],
                "qemu": "qemu-nbd " + run(["qemu-nbd", "--version"]).split()[1],
                "nbd-server": "nbd-server"}

    def case(row, measure, cpu, iops, only=tuple(sides)):
        def bind(side):
            def once(number):
                side.server.alive()
                return measure(side, number)
            return once
        return Case(row, {name: bind(sides[name]) for name in only},
                    {name: versions[name] for name in only if name != "ours"},
                    [Goal("cpu", "us/IO", "best", "<=", cpu, "min"),
                     Goal("iops", "1/s", "best", ">=", iops)])

    def n(count):
        return str(count // 3 if quick else count)

    return [
        case("read 4k QD1", by_load("-d1", "-n", n(30_000)), 0.75, 1.2),
        case("read 4k QD32", by_load("-d32", "-n", n(200_000)), 0.35, 2.0),
        case("read 4k QD32, fio", by_fio(int(n(120_000))), 0.6, 1.0),
        case("read 4k 4xQD8", by_load("-d8", "-n", n(60_000), connections=4), 0.4, 1.6),
        case("unix, read 4k QD32", by_load("-d32", "-n", n(200_000), unix=True), 0.4, 2.0,
             ("ours", "nbdkit")),
        case("read 1M QD8", by_load("-q", "-d8", "-s1M", "-n", n(3000)), 0.8, 1.0),
        case("write 1M QD8", by_load("-w", "-q", "-d8", "-s1M", "-n", n(3000)), 0.85, 1.0),
        case("write 4k QD1", by_load("-w", "-d1", "-n", n(30_000)), 0.9, 1.0),
        case("write 4k QD32", by_load("-w", "-d32", "-n", n(120_000)), 0.7, 1.2),
        case("TLS, read 1M QD8", by_tls_copy(place), 0.9, 1.0, ("ours", "nbdkit")),
    ]
