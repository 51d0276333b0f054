# SPDX-License-Identifier: Apache-2.0
"""What people run on volumes, as works: work(host, directory, round) -> Sample.
nodes/do_app.py does them on the host and checks each result; what they read is
made once for each host, on its own disk."""
import dataclasses
import functools
import json
import os

from harness.measure import Case, Goal, Sample
from harness.scratch import CannotRun, Failed
from nodes import peers
from nodes.packages import Package, installed

ETCD = Package("etcd", "etcd-server", "etcd-client", alone=True)
RIPGREP = Package("ripgrep", "ripgrep", alone=True)
PACKAGES = (ETCD, RIPGREP)

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "do_app.py")
TIMEOUT_S = 1800
PROCESSES = 8


@dataclasses.dataclass(frozen=True)
class Size:
    """How much each application does."""
    tree_files: int = 20_000
    git_files: int = 1_200
    layers: int = 20
    layer_files: int = 4_000
    statuses: int = 10
    small_files: int = 100_000
    lines: int = 20_000
    inserts: int = 1_000
    queries: int = 20_000
    etcd_mib: int = 22        # what etcd's documentation says
    etcd_load: str = "m"      # of etcdctl's check: 1,000 writes/s by 200 clients; "" for none
    scale: int = 20
    seconds: int = 20         # of pgbench, each kind

    def volume(self):
        """Bytes that the largest of them needs: PostgreSQL, or the small files."""
        return (640 << 20) + self.scale * (64 << 20)


QUICK = Size(tree_files=1_000, git_files=300, layers=5, layer_files=400, statuses=3,
             small_files=5_000, lines=2_000, inserts=100, queries=2_000, etcd_mib=1,
             etcd_load="", scale=2, seconds=2)


@dataclasses.dataclass(frozen=True)
class App:
    """One application: what do_app.py calls it, and what is said of it."""
    row: str
    question: str
    function: str
    parameters: dict
    metrics: list              # [name, unit, sense]
    rounds: int = 0            # at most; 0: the suite's


class Apps:
    """Those that can run on @client, a host."""

    def __init__(self, client, size):
        self.host, self.size, self.skipped = client, size, []
        self.script, self.inputs = client.path("do_app.py"), client.path("inputs")
        client.need("python3")
        client.put(SCRIPT, self.script)

    def need(self, *programs):
        for program in programs:
            if not installed(self.host, program):
                raise CannotRun(f"{self.host.name} needs {program}")

    @functools.cached_property
    def prepared(self):
        """The folder with what they read."""
        self.need("git", "tar")
        self.host.run(["mkdir", self.inputs])
        size = self.size
        self._call("prepare", self.inputs, {
            "tree_files": size.tree_files, "git_files": size.git_files, "layers": size.layers,
            "layer_files": size.layer_files})
        return self.inputs

    @functools.cached_property
    def own(self):
        return self.host.folder("apps")

    def _call(self, function, directory, parameters):
        return json.loads(self.host.run(
            ["python3", self.script, function, directory, json.dumps(parameters)], TIMEOUT_S))

    def work(self, app):
        """work(host, directory, round). Before the first it is done once on the host's own
        disk, so that programs, and what they read, are in memory."""
        warmed = functools.cache(
            lambda: self._call(app.function, self.own, app.parameters))

        def measure(_host, directory, _number):
            warmed()
            found = self._call(app.function, directory, app.parameters)
            return Sample(json.dumps(found["work"]), found["figures"], latency=found["latency"])
        return measure

    def all(self):
        """Each App, as far as it can run here."""
        for make in (self._postgres, self._sqlite_wal, self._sqlite_journal, self._etcd_disk,
                     self._etcd, self.tree, self._git, self._layers, self._small, self._append):
            try:
                app = make()
            except (CannotRun, Failed) as e:
                self.skipped.append([make.__name__.strip("_").replace("_", ", "), str(e)])
                continue
            if app:
                yield app

    def _postgres(self):
        programs = self.host.script(
            'for p in /usr/lib/postgresql/*/bin; do [ ! -x "$p/initdb" ] || b=$p; done; echo "$b"'
        ).strip()
        if not programs:
            raise CannotRun(f"{self.host.name} needs postgresql; make deps installs it")
        self.need("setpriv")
        size = self.size
        return App(f"PostgreSQL, pgbench at scale {size.scale}",
                   "a database with transactions: PostgreSQL", "postgres",
                   {"programs": {"postgres": programs}, "scale": size.scale, "clients": 4,
                    "seconds": size.seconds},
                   [["initdb", "s", "<="], ["tpcb", "1/s", ">="], ["select", "1/s", ">="]],
                   1 if size == QUICK else 3)

    def _sqlite(self, journal, what, rounds=0):
        return App(f"SQLite, {what}", f"an embedded database: SQLite, {what}", "sqlite",
                   {"journal": journal, "inserts": self.size.inserts,
                    "queries": self.size.queries},
                   [["insert", "1/s", ">="], ["query", "1/s", ">="]], rounds)

    def _sqlite_wal(self):
        return self._sqlite("wal", "write-ahead log")

    def _sqlite_journal(self):
        # Each insert waits for the disk several times.
        return self._sqlite("delete", "rollback journal", 1 if self.size == QUICK else 0)

    def _etcd_disk(self):
        self.need("fio")
        return App("etcd's check of a disk", "a log synced after each write, as etcd's",
                   "etcd_disk", {"mib": self.size.etcd_mib},
                   [["mean", "us", "<="], ["p99", "us", "<="]])

    def _etcd(self):
        if not self.size.etcd_load:
            return None
        programs = {name: ETCD.program(self.host, name)[-1] for name in ("etcd", "etcdctl")}
        return App("etcdctl check perf", "etcd itself", "etcd",
                   {"programs": programs, "load": self.size.etcd_load},
                   [["rate", "1/s", ">="], ["slowest", "ms", "<="], ["deviation", "ms", "<="]], 1)

    def tree(self):
        self.need("grep")
        programs = {}
        try:
            programs["rg"] = RIPGREP.program(self.host, "rg")[-1]
        except CannotRun as e:
            self.skipped.append(["ripgrep; grep -r instead", str(e)])
        return App(f"{self.size.tree_files:,} source files",
                   "a source tree unpacked, searched, archived, removed", "tree",
                   {"inputs": self.prepared, "files": self.size.tree_files,
                    "programs": programs},
                   [[step, "s", "<="] for step in ("unpack", "search", "archive", "remove")])

    def _git(self):
        return App(f"git, {self.size.git_files:,} files", "git clone and git status", "git",
                   {"inputs": self.prepared, "statuses": self.size.statuses},
                   [["clone", "s", "<="], ["status", "s", "<="]])

    def _layers(self):
        return App(f"an image of {self.size.layers} layers", "an image build's layers", "layers",
                   {"inputs": self.prepared}, [["unpack", "s", "<="], ["remove", "s", "<="]])

    def _small(self):
        return App(f"{self.size.small_files:,} small files, {PROCESSES} processes",
                   "many small files made, listed, read, removed", "small",
                   {"files": self.size.small_files, "processes": PROCESSES, "size": 1024},
                   [[step, "1/s", ">="] for step in ("make", "list", "read", "remove")])

    def _append(self):
        return App("a line appended by open, write, close", "a log that is opened for each line",
                   "append", {"lines": self.size.lines}, [["append", "1/s", ">="]])


# ---- their rows ----

# Sides that serve files of other hosts, and those that serve blocks for ext4.
FILES = ("sshfs", "gluster", "nfs", "mergerfs over sshfs", "mergerfs over nfs")
BLOCKS = tuple(peers.BLOCK_PEERS)
DATABASES = ("postgres", "sqlite", "etcd_disk", "etcd")
NAMES = {"ours": "union over two nodes", "union local": "union over local extents",
         "linear": "remote linear volume, ext4", "linear local": "local linear volume, ext4"}


def our_sides(bench, nodes, size):
    """On volumes of the bench's client, a host with a pool; the others are @nodes."""
    user, near = bench.client, bench.client_host
    for host in (near, *nodes):
        if (host, "dir") not in bench.cluster.pools:
            bench.pool(host, "dir", size, size)
    volumes = {"ours": user.volume(size, nodes),
               "union local": user.volume(size, [near], splits=len(nodes)),
               "linear": user.volume(size, nodes[:1], layout="linear"),
               "linear local": user.volume(size, [near], layout="linear")}
    return volumes, {key: peers.Side(NAMES[key], volume.point, [], [], [])
                     for key, volume in volumes.items()}


def _goals(app, sides):
    def among(names):
        return tuple(name for name in names if name in sides)

    wanted = [("ours", among(FILES), 1.0), ("ours", among(("own",)), None),
              ("union local", among(("mergerfs",)), 1.0),
              ("union local", among(("linear local",)), 0.97),
              ("union local", among(("own",)), None)]
    if app.function in DATABASES:
        wanted += [("linear", among(BLOCKS), 1.0), ("linear", among(("own",)), None)]
    for metric, unit, sense in app.metrics:
        for side, others, ratio in wanted:
            if side in sides and others:
                if ratio and sense == "<=":
                    ratio = round(1 / ratio, 2)
                yield Goal(metric, unit, others, sense, ratio, side=side)


def cases(bench, nodes, found, quick):
    """A case for each application, on volumes of the bench's client over @nodes and on the
    peers that were @found, sides by name."""
    client, size = bench.client_host, QUICK if quick else Size()
    apps, skip = Apps(client, size), bench.place.skip
    volumes, sides = our_sides(bench, nodes, size.volume())
    sides.update(found)
    try:
        sides["mergerfs"] = peers.mergerfs(client, volumes["union local"].branches())
    except (CannotRun, Failed) as e:
        skip("mergerfs", str(e))
    names = {key: side.name for key, side in sides.items()}
    for app in apps.all():
        work = apps.work(app)
        mine = {key: side for key, side in sides.items()
                if app.function in DATABASES or key not in (*BLOCKS, "linear")}
        for key in [key for key in mine if (key, app.function) in UNFIT]:
            skip(f"{app.row}: {mine.pop(key).name}", UNFIT[key, app.function])
        measures = {key: _bind(work, client, side) for key, side in mine.items()}
        yield Case(app.row, {key: measure if key in NAMES else peers.told(measure)
                             for key, measure in measures.items()}, names,
                   list(_goals(app, mine)), app.rounds, warm=False, group=app.question)
    for what, why in apps.skipped:
        skip(what, why)


# What a peer can't do by its nature.
UNFIT = {("sshfs", "postgres"): "all files are of the user who logs in",
         ("mergerfs over sshfs", "postgres"): "all files are of the user who logs in"}


def _bind(work, client, side):
    return lambda number: work(client, side.directory, number)
