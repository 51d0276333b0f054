# SPDX-License-Identifier: Apache-2.0
"""An extent of a raw pool, through struct blockdev and without a server,
beside what it lies on, and beside qcow2.

Each side has a preallocated file of its own on the machine's disk, with
O_DIRECT and io_uring, and 1 GiB in it that was written once: ours a pool with
one extent (perf/engine_load), the peers the file itself (fio) and an image
(qemu-img bench, which goes through the image in steps, and so does ours then).
Ours with ours: an extent that has 100 snapshots beside one that has none: read
where it shares its clusters with them, and overwritten where it has its own,
each of them being different; and first writes beside overwrites. The last rows
are of metadata alone, on sparse files, so 1 TiB needs no disk.
"""
import functools
import json
import os
import time

from harness import extent
from harness.extent import EXTENT, OVERLAYS, SNAPSHOTS, fio, once, ours, qemu
from harness.measure import Case, Goal, Sample
from harness.scratch import CannotRun, built, need, run

ROUNDS = (3, 9)  # quick, full
FEW_ROUNDS = 5   # of what takes a second or more each
STEP = (1 << 20) + 4096  # another cluster, and another place in it, each time
QEMU_STEP = (64 << 10) + 4096  # the same of qcow2's

CUT_ASKED_MS, MEMORY_ASKED_MIB = 10, 16


def goals(peer, iops, cpu=None):
    wanted = [Goal("iops", "1/s", peer, ">=", iops)]
    return wanted + ([Goal("cpu", "µs/IO", peer, "<=", cpu)] if cpu else [])


def sizes(counts):
    """Label, size, depth and count of what is asked for."""
    return (("4k", "QD1", 4096, 1, counts[0]), ("4k", "QD32", 4096, 32, counts[1]),
            ("1M", "QD4", 1 << 20, 4, counts[2]))


def beside_the_file(place, pool, counts):
    file = once(extent.make_file, place, "bare")
    for label, queue, size, depth, count in sizes(counts):
        for action in ("read", "write"):
            yield Case(f"{label} {action} {queue}",
                       {"ours": ours(pool, action, size, depth, count,
                                     size if size > 4096 else 0),
                        "file": fio(file, action, size, depth, count)},
                       {"file": "fio on the file itself"}, goals("file", 0.95, 1.15))


def beside_qcow2(place, pool, counts):
    peer = {"qcow2": "qcow2, qemu-img " + extent.qemu_version()}
    image = once(extent.make_image, place, "image.qcow2")
    for label, queue, size, depth, count in sizes(counts):
        step = size if size > 4096 else STEP
        for action in ("read", "write"):
            yield Case(f"{label} {action} {queue}, in steps",
                       {"ours": ours(pool, action, size, depth, count, step),
                        "qcow2": qemu(image, action, size, depth, count, step)},
                       peer, goals("qcow2", 1.0, 1.0))
    # Each meets a cluster of qcow2's that was never written; and one of ours.
    thin = once(extent.make_pool, place, "thin-steps.pool")
    empty = functools.partial(extent.make_empty, place, "empty.qcow2")
    for name, step in (("a first write of 64 KiB each", QEMU_STEP),
                       ("a first write of 1 MiB each", STEP)):
        count = min(counts[1], EXTENT // step - 1)
        yield Case(f"4k write QD32, {name}",
                   {"ours": ours(thin, "again", 4096, 32, count, step),
                    "qcow2": qemu(empty, "write", 4096, 32, count, step)},
                   peer, goals("qcow2", 1.0, 1.0))


def chains_beside_qcow2(place, chained, counts):
    snapshotted = once(extent.make_snapshotted, place, "snapshots.qcow2")
    overlaid = once(extent.make_overlaid, place, "overlays.qcow2")
    for label, queue, size, depth, count in sizes(counts):
        step = size if size > 4096 else STEP
        yield Case(f"{label} read {queue}, {SNAPSHOTS} snapshots, in steps",
                   {"ours": ours(chained, "read", size, depth, count, step),
                    "inside": qemu(snapshotted, "read", size, depth, count, step),
                    "chain": qemu(overlaid, "read", size, depth, count, step)},
                   {"inside": f"qcow2, {SNAPSHOTS} internal snapshots",
                    "chain": f"qcow2, {OVERLAYS} backing files"},
                   goals("inside", 1.0, 1.0) + goals("chain", 1.0, 1.0))


def beside_itself(place, pool, chained, counts):
    own = once(extent.make_chained, place, "own.pool", False)
    for action, snapshotted, state in (("read", chained, "shared"),
                                       ("write", own, "that differ")):
        for label, queue, size, depth, count in sizes(counts):
            step = size if size > 4096 else 0
            yield Case(f"{label} {action} {queue}, {SNAPSHOTS} snapshots, {state}",
                       {"ours": ours(snapshotted, action, size, depth, count, step),
                        "plain": ours(pool, action, size, depth, count, step)},
                       {"plain": "ours without snapshots"}, goals("plain", 0.95, 1.05))
    thin = once(extent.make_pool, place, "thin.pool")
    # Random ones, of which the later meet clusters that have become the
    # extent's own; and one in each cluster, all of them first writes.
    for row, count, step in (("fresh extent", counts[1], 0),
                             ("each a cluster's first", EXTENT >> 20, 1 << 20)):
        yield Case(f"4k write QD32, {row}",
                   {"ours": ours(thin, "again", 4096, 32, count, step),
                    "plain": ours(pool, "write", 4096, 32, count, step)},
                   {"plain": "ours, overwriting"}, goals("plain", 0.5))


# ---- metadata alone ----

def asked(**figures):
    return lambda _number: Sample("asked", figures)


def cut(place, gib, snapshots, changes):
    """Snapshots of an extent of which each cluster is a piece of its own."""
    def measure(_number):
        path = place.file("cut.pool")
        out = json.loads(run([built("test/perf/engine_cut"), path, str(gib),
                              str(snapshots), str(changes), "pieces"], timeout=600))
        os.unlink(path)
        return Sample("asked", {"mean": out["mean_ms"], "longest": out["longest_ms"],
                                "memory": out["mapped"] / (1 << 20)})
    return measure


def checked(place, gib, which):
    """The longest commit while the pool is checked, or while it is not."""
    def measure(_number):
        path = place.file("check.pool")
        out = json.loads(run([built("test/perf/engine_cut"), path, str(gib),
                              "5", "0", "check"], timeout=600))
        os.unlink(path)
        return Sample("check", {"longest": out[which]})
    return measure


def make_mapped(place, gib):
    path = place.file("mapped.qcow2")
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-o", "preallocation=metadata",
         path, f"{gib}G"], timeout=600)
    return path


def qemu_cut(place, gib):
    """The start of the program included, some 20 ms."""
    image = once(make_mapped, place, gib)

    def measure(number):
        command = ["qemu-img", "snapshot", "-c", str(number), image()]
        start = time.monotonic()
        run(command, timeout=600)
        return Sample("asked", {"mean": (time.monotonic() - start) * 1e3})
    return measure


def opening(place, gib, batches):
    def measure(_number):
        path = place.file("open.pool")
        out = json.loads(run([built("test/perf/engine_open"), path, str(gib), "1000",
                              str(batches)], timeout=600))
        os.unlink(path)
        return Sample(out["batches"], {"open": out["ms"], "read": out["read"] / (1 << 20),
                                       "memory": out["memory"] / (1 << 20)})
    return measure


def scale(place, quick):
    name = {"asked": "what is asked for"}
    snapshots, batches = (500, 1_000) if quick else (1_000, 7_000)
    yield Case("snapshot of 1 TiB in pieces",
               {"ours": cut(place, 1024, snapshots, 20),
                "asked": asked(mean=CUT_ASKED_MS, longest=CUT_ASKED_MS)},
               name, [Goal("mean", "ms", "asked", "<=", 1.0),
                      Goal("longest", "ms", "asked", "<=", 1.0)], FEW_ROUNDS)
    gib = 64 if quick else 1024
    yield Case(f"snapshot of {gib} GiB",
               {"ours": cut(place, gib, 20, 20), "qcow2": qemu_cut(place, gib)},
               {"qcow2": "qcow2, all mapped"}, [Goal("mean", "ms", "qcow2", "<=", 1.0)],
               FEW_ROUNDS)
    yield Case("commits beside a check of 1 TiB",
               {"ours": checked(place, 1024, "write_ms"),
                "without": checked(place, 1024, "without_ms")},
               {"without": "without a check"},
               [Goal("longest", "ms", "without", "<=")], FEW_ROUNDS)
    yield Case("memory of 1 TiB, all mapped",
               {"ours": cut(place, 1024, 1, 1), "asked": asked(memory=MEMORY_ASKED_MIB)},
               name, [Goal("memory", "MiB", "asked", "<=", 1.0)], FEW_ROUNDS)
    yield Case(f"open 1 TiB, 1,000 extents, log of {batches:,}",
               {"ours": opening(place, 1024, batches), "small": opening(place, 64, batches)},
               {"small": "64 GiB, the same log"},
               [Goal("open", "ms", "small", "<="), Goal("read", "MiB", "small", "<="),
                Goal("memory", "MiB", "small", "<=")], FEW_ROUNDS)


def setup(place, quick):
    need("fio", "qemu-img", "qemu-io")
    free = os.statvfs(place.path)
    if free.f_bavail * free.f_frsize < 24 << 30:
        raise CannotRun(f"needs 24 GiB free at {place.path}")
    pool = once(extent.make_pool, place, "plain.pool")
    chained = once(extent.make_chained, place, "chained.pool", True)
    counts = (2_000, 10_000, 200) if quick else (10_000, 100_000, 1_000)
    return [*beside_the_file(place, pool, counts), *beside_qcow2(place, pool, counts),
            *chains_beside_qcow2(place, chained, counts),
            *beside_itself(place, pool, chained, counts), *scale(place, quick)]
