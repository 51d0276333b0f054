# SPDX-License-Identifier: Apache-2.0
"""The table that the published system is judged by, on one run: 4 KiB at random, read
and written, past the page cache, one job, one at a time, on a file of 10 GiB (--size).

Local is a directory on the disk of the node that uses the volumes. Remote block is one
extent of the other node, a linear volume with an ext4. A union has two extents, both on
the same disk, which is the local node's or the other one's; the file is on one of them,
and is also measured past the union. Each is a multiple of Local, beside the multiple that
was published. Once with dir pools and once with raw pools, and by each transport that
this kernel has.
"""
import functools

from harness.measure import Case, Goal
from nodes import works
from nodes.bench import Bench, mib

ROUNDS = (3, 5)  # quick, full
CASE_S = 40      # for the rounds of a case after the first
ALONE, REACHED = 0.97, 1.2  # goals: of the same without the union; of the wire and Local

# Multiples of Local: bandwidth, latency.
PUBLISHED = {("randread", "union local"): (0.30, 5.0), ("randwrite", "union local"): (1.0, None),
             ("randwrite", "union remote"): (0.64, 1.56)}
ENGINE = ("a replicated block engine (published: reads 0.6 of Local on the same node, 0.33 "
          "on another)", "a cluster of its own")
OPERATIONS = (("randread", "read"), ("randwrite", "write"))


class Kind:
    """All sides with pools of one kind; each is made when it is first measured."""

    def __init__(self, bench, kind, size, transports):
        self.bench, self.kind, self.size = bench, kind, size
        self.volumes = []
        near, far = bench.hosts[:2]
        self.made = {}
        self._add("local volume", lambda: self._pair("union local", near, "auto"))
        for transport in transports:
            self._add(f"remote {transport}", functools.partial(self._remote, far, transport))

        self.names = {"local": "Local"}
        self.sides = {"local": bench.local_side}
        self._offer("union local", "Union over local extents", "local volume", 0)
        self._offer("branch local", "local extent without the union", "local volume", 1)
        for transport in transports:
            by = f", {transport}"
            self._offer("block" + by, "Remote block" + by, f"remote {transport}", 2)
            self._offer("union remote" + by, "Union over remote extents" + by,
                        f"remote {transport}", 0)
            self._offer("branch remote" + by, "remote extent without the union" + by,
                        f"remote {transport}", 1)

    def _add(self, name, make):
        self.made[name] = functools.cache(make)

    def _offer(self, key, title, group, index):
        self.names[key] = title
        self.sides[key] = lambda: self.made[group]()[index]

    def _pools(self):
        near, far = self.bench.hosts[:2]
        if (near, self.kind) not in self.bench.cluster.pools:
            count = 2 * (len(self.made) - 1)
            self.bench.pool(near, self.kind, self.size)
            self.bench.pool(far, self.kind, *[self.size] * count)

    def _pair(self, title, node, transport):
        """On a union of two extents of the node; and past the union."""
        self._pools()
        side, volume = self.bench.volume(title, [node], self.size, splits=2, transport=transport,
                                         kind=self.kind)
        self.volumes.append((side, volume))
        return side, self.bench.branch_of(side, volume, title)

    def _remote(self, node, transport):
        pair = self._pair("union remote", node, transport)
        side, volume = self.bench.volume("block", [node], self.size, layout="linear",
                                         transport=transport, kind=self.kind)
        self.volumes.append((side, volume))
        return (*pair, side)

    def end(self):
        """What was written is there; then there is room again."""
        for side, volume in self.volumes:
            works.check(side, self.size)
            volume.delete()
        if self.volumes:
            for node in self.bench.hosts[:2]:
                self.bench.cluster.drop_pool(self.bench.client, node, self.kind)


def goals(operation, kind):
    for side in kind.sides:
        if side in ("local", "floor"):
            continue
        what = side.split(",")[0]
        rate, latency = PUBLISHED.get((operation, what), (None, None))
        yield Goal("bandwidth", "MB/s", "local", ">=", side=side, published=rate)
        yield Goal("latency", "µs", "local", "<=", side=side, published=latency)
        if what == "union local":
            yield Goal("bandwidth", "MB/s", "branch local", ">=", ALONE, side=side)
        if what == "union remote":
            by = side[len(what):]
            yield Goal("bandwidth", "MB/s", "branch remote" + by, ">=", ALONE, side=side)
            yield Goal("bandwidth", "MB/s", "block" + by, ">=", ALONE, side=side)
        if what == "block":
            yield Goal("latency", "µs", "floor", "<=", REACHED, side=side)


def cases(place, bench, size, transports, seconds):
    for name in ("dir", "raw"):
        kind = Kind(bench, name, size, transports)
        for operation, word in OPERATIONS:
            work = works.fio(operation, size=size, runtime=seconds)
            sides = {key: works.side_of(side, work) for key, side in kind.sides.items()}
            sides["floor"] = bench.floor(sides["local"])
            yield Case(f"{name} pools, 4k {word} QD1", sides,
                       {**kind.names, "floor": "ping-pong and Local"},
                       list(goals(operation, kind)), warm=False, seconds=CASE_S,
                       group=f"Volumes of {name} pools: {word}s of 4 KiB at random, one at a time")
        kind.end()
    works.check(bench.local_side(), size)
    place.skip(*ENGINE)


def setup(place, quick):
    bench = Bench(place, 2)
    transports = bench.transports()
    size = bench.file_size(1 << 30 if quick else 10 << 30, 2 + 2 * len(transports))
    bench.local_side = functools.cache(lambda: bench.local(size))
    print(f"  files of {mib(size)}", flush=True)
    return cases(place, bench, size, transports, 1 if quick else 2)
