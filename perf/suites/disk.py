# SPDX-License-Identifier: Apache-2.0
"""What lies between a disk and its user: volumes over memory disks of this kernel.

The disk is a memory disk (the kernel's brd), so that the suite measures paths and not a
disk's moods; each side has an equal one of its own, and an ext4. The peers are the disk
itself, a linear device of device mapper over it, and a loop device over a file. Ours are
volumes in raw pools of the same node, with direct runs. Linear volumes over three nodes' memory disks unpack
many small files. Where this kernel has no device mapper, tests/vm/run has a machine:

    mkdir out
    tests/vm/run -m 6144 -t 3600 -s out -- perf/run disk --quick --json out/disk.json
"""
import dataclasses
import functools
import itertools
import os
import subprocess

from harness.measure import Case, Goal
from harness.scratch import CannotRun, Failed
from nodes import apps, beside, works
from nodes.bench import Bench, mib
from nodes.volumes import volume_bytes

ROUNDS = (3, 7)
DISKS = 8          # one of each side, and of each of the three nodes
DISK_MIB = 1024    # of each; only what is written takes memory
OF_DISK, OF_MAPPED, OF_UNION, OF_SMALL = 0.8, 0.97, 0.95, 1.3  # goals
STALL_MS = 20
MODULES = "dm-mod", "loop", "fuse", "nbd", "ublk_drv"  # those that there are
FILES = 20_000
FILES_QUICK = 2_000


class Disks:
    """Memory disks, handed out one after the other."""

    def __init__(self, place, host):
        self.host = host
        if os.path.exists("/dev/ram0"):
            raise CannotRun("there are memory disks already; rmmod brd, when nobody uses them")
        try:
            host.run(["modprobe", "brd", f"rd_nr={DISKS}", f"rd_size={DISK_MIB << 10}"])
        except Failed as e:
            raise CannotRun(f"no memory disks: {e}") from e
        place.undo.callback(subprocess.run, ["rmmod", "brd"], check=False, capture_output=True)
        self.free = [f"/dev/ram{number}" for number in range(DISKS)]

    def take(self):
        if not self.free:
            raise Failed("no memory disk is left")
        return self.free.pop(0)

    def mapped(self, name):
        """A linear device of device mapper over the whole of a new disk."""
        disk = self.take()
        self.host.script('dmsetup create "$1" --noudevsync --table '
                         '"0 $(blockdev --getsz "$2") linear $2 0" && dmsetup mknodes "$1"',
                         name, disk)
        self.host.later('dmsetup remove --noudevsync --retry "$1"', name)
        return f"/dev/mapper/{name}"


class Sides:
    """Each an ext4 with a file of @size bytes, made when it is first measured."""

    def __init__(self, bench, disks, size):
        self.bench, self.disks, self.size, self.host = bench, disks, size, bench.client_host
        self.names = {
            "disk": "ext4 on the disk", "mapped": "ext4 on dm-linear",
            "loop": "ext4 on a loop device", "ours": "linear, own raw pool",
            "union": "union, own raw pool"}
        self.volumes = {}
        self.sides = {
            "disk": self._mounted("disk", disks.take),
            "mapped": self._mounted("mapped", lambda: disks.mapped("perf-disk")),
            "loop": self._mounted("loop", self._loop),
            "ours": self._volume("ours", layout="linear"),
            "union": self._volume("union", splits=2)}

    def _file_system(self, name, device):
        """Its mount point."""
        point = self.host.folder("on-" + name)
        self.host.run(["mkfs.ext4", "-q", "-F", "-E",
                       "lazy_itable_init=0,lazy_journal_init=0", device])
        self.host.mount(["mount", device], point)
        return point

    def _mounted(self, key, device):
        def make():
            point = self._file_system(key, device())
            side = works.Side(self.names[key], self.host, point, ((self.host, point),))
            works.lay_out(side, self.size)
            return side
        return functools.cache(make)

    def _loop(self):
        """Over a file, as an extent of a pool in a directory is."""
        path = self._file_system("below", self.disks.take()) + "/file"
        self.host.run(["fallocate", "-l", str(volume_bytes(self.size)), path])
        device = self.host.run(["losetup", "--direct-io=on", "--show", "-f", path]).strip()
        self.host.later('losetup -d "$1"', device)
        return device

    def _volume(self, key, **how):
        def make():
            pool = f"raw-{key}"
            self.bench.cluster.pool_on(self.bench.client, self.host, pool, self.disks.take())
            side, self.volumes[key] = self.bench.volume(
                self.names[key], [self.host], self.size, kind=pool, **how)
            return side
        return functools.cache(make)

    @functools.cache
    def over_nodes(self):
        """A linear volume larger than the disk of each of the nodes that it lies on."""
        nodes = self.bench.hosts[1:]
        for node in nodes:
            self.bench.cluster.pool_on(self.bench.client, node, "raw", self.disks.take())
        size = (DISK_MIB << 20) * len(nodes) * 3 // 4
        return self.bench.client.volume(size, nodes, layout="linear", kind="raw").point

    def check(self):
        for key in self.volumes:
            works.check(self.sides[key](), self.size)


def requests(sides, quick, seconds):
    """What fio does: 4 KiB at random, 1 MiB in order."""
    rows = [(f"4k {word} QD{depth}", operation, {"iodepth": depth}, ("rate", "1/s"))
            for operation, word in (("randread", "read"), ("randwrite", "write"))
            for depth in (1, 32)]
    rows += [(f"1M {word} QD4", word, {}, ("bandwidth", "MB/s")) for word in ("read", "write")]
    wanted = (("ours", "disk", OF_DISK), ("ours", "mapped", OF_MAPPED), ("ours", "loop", None),
              ("union", "disk", OF_UNION), ("mapped", "disk", None), ("loop", "disk", None))
    for row, job, values, (metric, unit) in rows:
        work = works.fio(job, size=sides.size, runtime=seconds, **values)
        yield Case(row, {key: works.side_of(side, work) for key, side in sides.sides.items()},
                   sides.names,
                   [Goal(metric, unit, peer, ">=", ratio, side=side)
                    for side, peer, ratio in wanted], warm=False)


def stall(sides, seconds):
    """The longest write while a snapshot is cut."""
    return Case("while a snapshot is cut",
                {"ours": beside.beside(sides.sides["ours"],
                                       beside.snapshot(lambda: sides.volumes["ours"],
                                                       itertools.count()),
                                       seconds, sides.size),
                 "asked": beside.asked(STALL_MS, seconds)},
                {"asked": "what is asked for"},
                [Goal("longest", "ms", "asked", "<=", 1.0)], rounds=3, warm=False)


def small_files(sides, files):
    """A tree unpacked, searched, archived and removed."""
    tree = apps.Apps(sides.host, dataclasses.replace(apps.Size(), tree_files=files))
    app = tree.tree()
    work = tree.work(app)
    points = {"disk": lambda: sides.sides["disk"]().directory,
              "ours": sides.over_nodes,
              "union": lambda: sides.sides["union"]().directory}
    names = {**sides.names, "ours": "linear over three nodes"}

    def bind(point):
        return lambda number: work(sides.host, point(), number)
    yield Case(app.row, {key: bind(point) for key, point in points.items()}, names,
               [Goal(metric, unit, "disk", sense, OF_SMALL if metric == "unpack" else None,
                     side=side)
                for metric, unit, sense in app.metrics for side in ("ours", "union")],
               warm=False, group=app.question)
    for what, why in tree.skipped:
        sides.bench.place.skip(what, why)


def setup(place, quick):
    subprocess.run(["modprobe", "-a", *MODULES], check=False, capture_output=True)
    bench = Bench(place, 4, ["direct = yes"])
    if bench.options.hosts:
        raise CannotRun("memory disks are of this machine: not with --hosts")
    size = bench.options.size or (128 << 20 if quick else 256 << 20)
    sides = Sides(bench, Disks(place, bench.client_host), size)
    print(f"  files of {mib(size)}, disks of {DISK_MIB} MiB", flush=True)
    return cases(sides, quick, 1 if quick else 5)


def cases(sides, quick, seconds):
    yield from requests(sides, quick, seconds)
    yield stall(sides, 20)  # in emulation a snapshot takes some seconds
    sides.check()
    yield from small_files(sides, FILES_QUICK if quick else FILES)
