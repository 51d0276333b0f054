# SPDX-License-Identifier: Apache-2.0
"""Volumes as a user has them, across nodes, beside what would be used instead.

The first host uses the volumes, the others have blockd's, each with a dir and a raw
pool on its disk. fio's jobs are the files in perf/jobs/; perf/nodes/apps.py is what
people run on volumes, perf/nodes/peers.py what would be used instead. What is measured
with the number of something (nodes, branches, volumes, clients) is beside one of it.
What is measured while something happens has a timeline, and the longest request.
"""
import concurrent.futures
import functools
import itertools

from harness.measure import Case, Goal, Sample
from harness.scratch import CannotRun
from nodes import apps, beside, peers, works
from nodes.bench import Bench, mib
from nodes.volumes import Client

ROUNDS = (2, 5)  # quick, full
MINUTES = {True: 11}  # quick: no row begins after that
ALONE, REACHED, FLAT = 0.97, 1.2, 1.2
STALL_MS = 1000
NAMES = 3000          # in a folder: what is done once for each branch is shared by many
JOBS = 8              # of jobs.fio
LOG = 128 << 20       # bytes: fsync.fio's, and to spare
XFS_ROOM = 320 << 20  # bytes; its mkfs makes no file system below 300 MiB
REMOTE = ("union remote", "block", "raw block")


class Volumes:
    """Sides of ours, each made when it is first measured."""

    def __init__(self, bench, size, transport):
        self.bench, self.size, self.transport = bench, size, transport
        near, *far = bench.hosts
        self.far = far[:2]
        self.room = 2 * size + LOG  # of all that is made there
        self.names = {
            "local": "Local", "union local": "Union over local extents",
            "branch local": "local extent without the union",
            "block": "Remote block", "union remote": "Union over remote extents",
            "raw local": "local block of a raw pool", "raw block": "Remote block of a raw pool"}
        volume = self._volume
        self.sides = {
            "local": functools.cache(lambda: bench.local(size)),
            "union local": volume("union local", [near], splits=2),
            "branch local": self._branch,
            "block": volume("block", self.far[:1], layout="linear"),
            "union remote": volume("union remote", self.far),
            "raw local": volume("raw local", [near], layout="linear", kind="raw"),
            "raw block": volume("raw block", self.far[:1], layout="linear", kind="raw")}
        self.made = {}

    def _volume(self, key, nodes, **how):
        def make():
            if how.get("kind") == "raw":
                self.raw_pools()
            side, self.made[key] = self.bench.volume(
                self.names[key], nodes, self.size, transport=self.transport, room=self.room, **how)
            return side
        return functools.cache(make)

    @functools.cache
    def raw_pools(self):
        for node in [self.bench.client_host, *self.far]:
            self.bench.pool(node, "raw", self.room, self.room, self.room)

    @functools.cache
    def _branch(self):
        return self.bench.branch_of(self.sides["union local"](), self.made["union local"],
                                    self.names["branch local"])

    def check(self):
        for key in self.made:
            works.check(self.sides[key](), self.size)


# ---- one volume, and its peers ----

def questions(quick, seconds):
    """Row, group, at, job, its values, metrics."""
    rate = [("rate", "1/s", ">=")]
    for operation, word in (("randread", "read"), ("randwrite", "write")):
        for depth in (1, 32) if quick else (1, 2, 4, 8, 16, 32, 64):
            yield (f"4k {word} QD{depth}", f"4 KiB {word} at random, more at a time",
                   {"name": "queue depth", "value": depth}, operation,
                   {"iodepth": depth, "runtime": seconds}, rate)
    for word in ("read", "write"):
        yield (f"1M {word} QD4", f"1 MiB {word} in order", None, word, {"runtime": seconds},
               [("bandwidth", "MB/s", ">="), ("cpu client", "s/GiB", "<="),
                ("cpu server", "s/GiB", "<=")])
    yield ("4k 70/30 QD8", "4 KiB at random, seven reads to three writes", None, "mixed",
           {"runtime": seconds}, rate)
    yield ("fdatasync after each write", "A log that is synced after each write, as etcd's", None,
           "fsync", {"runtime": seconds}, [("p99", "µs", "<="), ("latency", "µs", "<=")])
    yield ("8 jobs 70/30 QD4", "Many jobs on one volume", None, "jobs", {"runtime": seconds}, rate)


def goals(metrics, sides, kinds, floored):
    """Union beside the same without it, block beside the best server of blocks, what is
    remote beside the best server of files, and all beside Local."""
    blocks = tuple(key for key in kinds if kinds[key] == "block")
    files = tuple(key for key in kinds if kinds[key] == "file")
    for metric, unit, sense in metrics:
        for side, peer, ratio in (
                ("union local", "branch local", ALONE), ("union local", "local", None),
                ("union remote", "block", ALONE), ("union remote", files, 1.0),
                ("branch local", "local", None), ("block", blocks, 1.0), ("block", "local", None),
                ("raw local", "local", None),
                ("raw block", "block", None)):
            if side not in sides or not peer or isinstance(peer, str) and peer not in sides:
                continue
            # A volume of its own node has no server, but a loop device.
            if metric == "cpu server" and (side not in REMOTE or peer == "local"):
                continue
            if ratio and sense == "<=":
                ratio = round(1 / ratio, 2)
            yield Goal(metric, unit, peer, sense, ratio, side=side)
    if floored:
        yield Goal("latency", "µs", "floor", "<=", REACHED, side="block")


def one_volume(bench, volumes, others, quick, seconds):
    for row, group, at, job, values, metrics in questions(quick, seconds):
        if job != "fsync":
            values["size"] = volumes.size // (JOBS if job == "jobs" else 1)
        work = works.fio(job, **values)
        # A short run has raw pools in the rows where what they cost shows most.
        sides = {key: works.side_of(side, work) for key, side in volumes.sides.items()
                 if not (quick and key.startswith("raw")) or at}
        sides.update({key: peers.told(works.side_of(side, work))
                      for key, (side, _) in others.items()})
        names = {**volumes.names, **{key: side.title for key, (side, _) in others.items()}}
        floored = row == "4k read QD1"
        if floored:
            sides["floor"], names["floor"] = bench.floor(sides["local"]), "ping-pong and Local"
        kinds = {key: kind for key, (_, kind) in others.items()}
        # The first round of these lays their files out.
        yield Case(row, sides, names, list(goals(metrics, sides, kinds, floored)),
                   warm=job == "jobs", group=group, at=at)
    volumes.check()


# ---- more of something ----

def together(sides, work):
    """The same work in all of these at once: rates added, latencies averaged."""
    def measure(number):
        here = sides()
        for side in here:
            works.cool(side)
        with concurrent.futures.ThreadPoolExecutor(len(here)) as pool:
            found = list(pool.map(lambda side: work(side.host, side.directory, number), here))
        return Sample(found[0].work, {
            "rate": sum(one.figures["rate"] for one in found),
            "latency": sum(one.figures["latency"] for one in found) / len(found)})
    return measure


def curve(group, what, counts, sides_at, work, metric, goal, warm=False):
    """Beside the least of them."""
    least = counts[0]
    one = together(functools.partial(sides_at, least), work)
    for count in counts[1:]:
        name, unit, sense = metric
        yield Case(f"{what}: {count}", {"more": together(functools.partial(sides_at, count), work),
                                        "one": one},
                   {"more": f"{count} {what}", "one": f"{least} {what}"},
                   [Goal(name, unit, "one", sense, goal, side="more")],
                   group=group, at={"name": what, "value": count}, warm=warm)


def volumes_of_a_node(bench, size, quick, seconds):
    node = bench.hosts[1]

    @functools.cache
    def volume(number):
        return bench.volume(f"volume {number}", [node], size, layout="linear")[0]

    work = works.fio("mixed", size=size, runtime=seconds)
    counts = (1, 4) if quick else (1, 2, 4, 8, 16)
    yield from curve("Many volumes on one node, used by one client: all of their requests", "volumes",
                     counts, lambda count: [volume(i) for i in range(count)], work,
                     ("rate", "1/s", ">="), None)


def clients_of_a_node(bench, size, quick, seconds):
    node, users = bench.hosts[1], [bench.hosts[0], *bench.hosts[2:]]

    @functools.cache
    def volume(number):
        client = bench.client if number == 0 else Client(bench.cluster, users[number])
        return bench.volume(f"client {number}", [node], size, layout="linear", client=client)[0]

    counts = [count for count in ((1, 4) if quick else (1, 2, 4, 8, 15)) if count <= len(users)]
    work = works.fio("mixed", size=size, runtime=seconds)
    yield from curve("Many clients of one node: all of their requests", "clients", counts,
                     lambda count: [volume(i) for i in range(count)], work,
                     ("rate", "1/s", ">="), None)


def names_work(bench, word, count):
    """Microseconds for each name, on files of a folder of its own."""
    def work(host, directory, number):
        program = host.built("test/perf/name_load")
        folder = f"{directory}/names-{word}-{number}"
        host.run(["mkdir", folder])
        found = {}
        try:
            for step in ("create", "stat", "list", "unlink"):
                rate, _ = host.run([program, step, folder, str(count), "1"], 600).split()
                found[step] = 1e6 / float(rate)
        finally:
            host.run(["rm", "-rf", folder])
        return Sample((word, count), {**found, "rate": 0, "latency": found["create"]})
    return work


def spread(bench, size, what, counts, place_on, seconds):
    """A union over more nodes, or more branches: reads and names."""
    @functools.cache
    def side(count):
        nodes, splits = place_on(count)
        return bench.volume(f"{count} {what}", nodes, size, splits=splits)[0]

    work = works.fio("randread", size=size, runtime=seconds)
    yield from curve(f"A union over more {what}: a read of 4 KiB, one at a time", what, counts,
                     lambda count: [side(count)], work, ("latency", "µs", "<="), FLAT)
    least = counts[0]
    names = names_work(bench, what, NAMES)
    for count in counts[1:]:
        def of(count):
            return lambda number: names(bench.client_host, side(count).directory, number)
        yield Case(f"{what}: {count}, names", {"more": of(count), "one": of(least)},
                   {"more": f"{count} {what}", "one": f"{least} {what}"},
                   [Goal(step, "µs/name", "one", "<=", FLAT, side="more")
                    for step in ("create", "stat", "list", "unlink")],
                   group=f"A union over more {what}: {NAMES:,} names in a folder",
                   at={"name": what, "value": count})


# ---- while something happens ----

def happening(bench, volumes, quick):
    seconds, gone = (6, 1.5) if quick else (20, 5)
    size, client = volumes.size, bench.client
    far = bench.hosts[1]
    node = bench.cluster.by_host[far]
    union = volumes.sides["union remote"]

    def case(row, group, side, happens, goal=True):
        return Case(row, {"ours": beside.beside(side, happens, seconds, size),
                          "asked": beside.asked(STALL_MS, seconds)},
                    {"asked": "what is asked for"},
                    [Goal("longest", "ms", "asked", "<=", 1.0 if goal else None)], rounds=3,
                    warm=False, group=group)

    block = volumes.sides["block"]
    yield case("while blockd restarts", "While a node's blockd restarts", block,
               beside.restarts(node, client, "TERM"))
    yield case("while blockd is killed", "While a node's blockd is killed and started", block,
               beside.restarts(node, client, "KILL"))
    if len(bench.hosts) > 2:
        @functools.cache
        def elsewhere():
            """The node that the union's file is not on."""
            at = bench.branch_index(union(), volumes.made["union remote"])
            name = next(other for i, other in enumerate(volumes.made["union remote"].nodes())
                        if i != at)
            return next(one for one in bench.cluster.nodes if one.host.name == name)

        def known_where():
            elsewhere()  # before the clock runs
            return union()

        def gone_node(number, tell):
            beside.restarts(elsewhere(), client, "KILL", gone)(number, tell)
        yield case("while another node is gone", "While a node is gone: files of the others",
                   known_where, gone_node)
    yield case("while the file's node is gone", f"While a node is gone for {gone} s: its files",
               block, beside.restarts(node, client, "KILL", gone), goal=False)

    def lasting(key, nodes, **how):
        @functools.cache
        def make():
            return bench.volume(key, nodes, size, transport=volumes.transport, **how)
        return (lambda: make()[0]), (lambda: make()[1])

    side, volume = lasting("snapshots", volumes.far, kind="raw")

    def on_raw_pools():
        volumes.raw_pools()
        return side()
    yield case("while a snapshot is cut", "While a snapshot is cut, of raw pools", on_raw_pools,
               beside.snapshot(volume, itertools.count()))
    grown, volume = lasting("grows", volumes.far, fs="xfs", room=XFS_ROOM)
    yield case("while the volume grows", "While a volume grows, of XFS", grown,
               beside.grow(volume, 256 << 20))


def bring_peers(bench, volumes, quick):
    """What would be used instead of volumes over these nodes, by name."""
    disk = volumes.size + (apps.QUICK if quick else apps.Size()).volume()
    found, skipped = peers.bring_up(bench.client_host, volumes.far, disk,
                                    peers.QUICK if quick else None)
    for what, why in skipped:
        bench.place.skip(what, why)
    return found


def fio_sides(bench, found):
    """Sides by name, with what they serve."""
    return {key: (works.Side(side.name, bench.client_host, side.directory, tuple(side.behind),
                             lambda side=side: [one.pid for one in side.clients],
                             lambda side=side: [(one.host, one.pid) for one in side.servers]),
                  "block" if key in peers.BLOCK_PEERS else "file")
            for key, side in found.items() if key != "own"}


def setup(place, quick):
    bench = Bench(place, 17)
    transport = (bench.transports() or [None])[0]
    if not transport:
        raise CannotRun("no transport to another node works here")
    size = bench.file_size(256 << 20 if quick else 2 << 30, 24)
    print(f"  files of {mib(size)}, remote by {transport}", flush=True)
    volumes = Volumes(bench, size, transport)
    return cases(place, bench, volumes, quick, 1 if quick else 5)


def cases(place, bench, volumes, quick, seconds):
    small = min(volumes.size, 128 << 20)
    found = bring_peers(bench, volumes, quick)
    yield from one_volume(bench, volumes, fio_sides(bench, found), quick, seconds)
    yield from happening(bench, volumes, quick)
    yield from volumes_of_a_node(bench, small, quick, seconds)
    yield from clients_of_a_node(bench, small, quick, seconds)
    others = bench.hosts[1:]
    counts = [n for n in ((1, 4, 16) if quick else (1, 2, 4, 8, 16)) if n <= len(others)]
    yield from spread(bench, small, "nodes", counts, lambda n: (others[:n], n), seconds)
    yield from spread(bench, small, "branches", (2, 256) if quick else (2, 16, 64, 256),
                      lambda n: ([bench.client_host], n), seconds)
    yield from apps.cases(bench, volumes.far, found, quick)
