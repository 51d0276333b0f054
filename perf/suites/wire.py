# SPDX-License-Identifier: Apache-2.0
"""The NBD server beside those of others, nbdkit, qemu-nbd and nbd-server, and
the iSCSI target beside tgt.

All serve 1 GiB that is in the page cache, ours as an extent of a dir pool, with
their defaults, on the loopback. The client (perf/nbd_load.c) makes the same
requests in the same order to each and checks what it gets; fio, nbdcopy and
iscsi-perf are clients of others. Goals are against the best peer of a row: the median of the
operations a second, the minimum of the server's processor time for each. An
idle blockd has no peer: there it is what is asked for.
"""
import concurrent.futures
import json
import os
import re
import shutil
import socket
import time

from harness.clients import iscsi_idle, nbd_idle
from harness.machine import TOP
from harness.measure import Case, Goal, Sample
from harness.scratch import BUILD, Failed, built, need, run

BLOCK = 4096
SIZE = 1 << 30
ROUNDS = (5, 15)  # quick, full
IQN = "iqn.2025-01.io.union"  # of our targets
IDLE = 100  # extents, and connections
IDLE_S = 5
IDLE_ASKED = {"rss": 32, "cpu": 1}  # MiB; ms/s, which is what none looks like


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

    def __init__(self, server, port, export="", path=None, tls=None, iscsi=None):
        self.server, self.export, self.path = server, export, path
        self.address = f"127.0.0.1:{port}"
        self.uri = f"nbd://{self.address}/{export}"
        self.tls_uri = tls and f"nbds://localhost:{tls[0]}/{export}?tls-certificates={tls[1]}"
        self.tls_server = tls and tls[2]
        self.iscsi = iscsi


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
    # nbd-server can only run as a daemon: its namespace ends with us.
    server = place.server(
        "nbd-server", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh",
                       "-c", '"$0" -C "$1" && sleep infinity', program, config],
        lambda: listening(port))
    return Side(server, port, "disk")


def start_tgt(place, path):
    """Debian's, unpacked: nothing is installed."""
    folder = os.path.join(BUILD, "perf", "tgt")
    if not os.path.exists(os.path.join(folder, "usr/sbin/tgtd")):
        run([os.path.join(TOP, "tests/apt-unpack"), "-n", folder, "tgt"])
    port, target = free_port(), "iqn.2000-01.perf:disk"
    ipc = {**os.environ, "TGT_IPC_SOCKET": place.file("tgt.sock")}
    server = place.server(
        "tgtd", ["env", "TGT_IPC_SOCKET=" + ipc["TGT_IPC_SOCKET"],
                 os.path.join(folder, "usr/sbin/tgtd"), "-f",
                 "--iscsi", f"portal=127.0.0.1:{port}"],
        lambda: listening(port))

    def admin(*words):
        run([os.path.join(folder, "usr/sbin/tgtadm"), "--lld", "iscsi", *words, "--tid", "1"],
            env=ipc)
    admin("--op", "new", "--mode", "target", "-T", target)
    admin("--op", "new", "--mode", "logicalunit", "--lun", "1", "-b", path)
    admin("--op", "bind", "--mode", "target", "-I", "ALL")
    return Side(server, port, iscsi=f"iscsi://127.0.0.1:{port}/{target}/1")


class Node:
    """A blockd with a pool of its own."""

    def __init__(self, place, name, *words):
        folder = place.folder(name)
        for part in ("pool", "run", "state"):
            os.mkdir(os.path.join(folder, part))
        with open(os.path.join(folder, "conf"), "w", encoding="utf-8"):
            pass
        self.port, self.iscsi_port = free_port(), free_port()
        self.sock = f"{folder}/run/nbd.sock"
        control = f"unix:{folder}/run/blockd.sock"
        self.server = place.server(
            name, [built("bin/blockd"), "--config", folder + "/conf", "--node-name", name,
                   "--pool", f"perf={folder}/pool", "--state-dir", folder + "/state",
                   "--run-dir", folder + "/run", "--control", control,
                   "--listen", f"tcp:127.0.0.1:{self.port}", "--listen", "unix:" + self.sock,
                   "--listen-iscsi", f"tcp:127.0.0.1:{self.iscsi_port}", *words],
            lambda: listening(self.port) and listening(self.iscsi_port))
        self.call = [built("test/blockd/testkit/blockd_call"), control]

    def extent(self, name, size):
        run(self.call + ["CreateExtent", "pool=perf", "name=" + name, f"size={size}"])
        run(self.call + ["SetExport", "name=" + name, "epoch=1", "initiators=127.0.0.1",
                         "initiators=unix"])


def start_blockd(place, path, tls):
    """The extent is filled through its NBD server."""
    node = Node(place, "perf", "--nbd-tls", "offered",
                "--nbd-tls-cert", tls + "/server-cert.pem",
                "--nbd-tls-key", tls + "/server-key.pem", "--nbd-tls-ca", tls + "/ca-cert.pem")
    node.extent("extent", SIZE)
    side = Side(node.server, node.port, "extent@1", path=(node.sock, node.server),
                tls=(node.port, tls, node.server),
                iscsi=f"iscsi://127.0.0.1:{node.iscsi_port}/{IQN}:extent:1/0")
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


def by_iscsi_perf(depth, seconds):
    """It runs for a time, so the work of a round is that time."""
    def measure(side, _number):
        before = side.server.cpu_s()
        said = run(["iscsi-perf", "-i", "iqn.2000-01.perf:client", "-r", "-m", str(depth),
                    "-b", "8", "-t", str(seconds), side.iscsi], timeout=300)
        rates = re.findall(r"iops average (\d+)", said)
        if not rates:
            raise Failed(f"iscsi-perf says no rate: {said[-300:]}")
        iops = int(rates[-1])
        return Sample((depth, seconds),
                      {"iops": iops,
                       "cpu": (side.server.cpu_s() - before) * 1e6 / (iops * seconds)})
    return measure


def resident_mib(server):
    with open(f"/proc/{server.process.pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) / 1024 for line in f if line.startswith("VmRSS"))


def idle_case(place):
    """A blockd with 100 exports and as many connections, every other one iSCSI."""
    node, keep = Node(place, "idle"), []

    def connect():
        for i in range(IDLE):
            node.extent(f"e{i}", 16 << 20)
            if i % 2:
                keep.append(iscsi_idle(("127.0.0.1", node.iscsi_port), f"{IQN}:e{i}:1", i))
            else:
                keep.append(nbd_idle(("127.0.0.1", node.port), f"e{i}@1"))
        place.undo.callback(lambda: [sock.close() for sock in keep])

    def ours(_number):
        if not keep:
            connect()
        before = node.server.cpu_s()
        time.sleep(IDLE_S)
        used = node.server.cpu_s() - before
        for sock in keep:
            sock.setblocking(False)
            try:
                if not sock.recv(1, socket.MSG_PEEK):
                    raise Failed("an idle connection was closed")
            except BlockingIOError:
                pass  # it is open, and nobody says anything
        return Sample(IDLE, {"rss": resident_mib(node.server), "cpu": used * 1e3 / IDLE_S})

    return Case(f"idle, {IDLE} exports and connections",
                {"ours": ours, "goal": lambda number: Sample(IDLE, IDLE_ASKED)},
                {"goal": "what is asked for"},
                [Goal("rss", "MiB", "goal", "<=", 1.0),
                 Goal("cpu", "ms/s", "goal", "<=", 1.0, "min")])


def setup(place, quick):
    need("nbdkit", "nbdcopy", "qemu-nbd", "fio", "openssl", "setpriv", "iscsi-perf")
    path = place.file("pattern.img")
    write_pattern(path)
    tls = certificates(place)
    sides = {"ours": start_blockd(place, path, tls),
             "nbdkit": start_nbdkit(place, path, tls),
             "qemu": start_qemu(place, path),
             "nbd-server": start_nbd_server(place, path),
             "tgt": start_tgt(place, path)}
    nbd = ("ours", "nbdkit", "qemu", "nbd-server")
    versions = {"nbdkit": "nbdkit " + run(["nbdkit", "--version"]).split()[1],
                "qemu": "qemu-nbd " + run(["qemu-nbd", "--version"]).split()[1],
                "nbd-server": "nbd-server", "tgt": "tgt"}

    def case(row, measure, cpu, iops, only=nbd):
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

    seconds = 1 if quick else 3
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
        case("iSCSI, read 4k QD1", by_iscsi_perf(1, seconds), 0.5, 1.5, ("ours", "tgt")),
        case("iSCSI, read 4k QD32", by_iscsi_perf(32, seconds), 0.35, 1.5, ("ours", "tgt")),
        idle_case(place),
    ]
