# SPDX-License-Identifier: Apache-2.0
"""An extent of a raw pool, through struct blockdev and without a server,
beside what it lies on, and beside qcow2.

Each side has a preallocated file of its own on the machine's disk, with
O_DIRECT and io_uring, and 1 GiB in it that was written once: ours a pool with
one extent (perf/engine_load), the peers the file itself (fio) and an image
(qemu-img bench, which goes through the image in steps, and so does ours then).
Two more pairs are ours with ours: an extent that was snapshotted 100 times,
with writes after each, beside one that never was; and first writes beside
overwrites.
"""
import json
import os
import re
import resource

from harness.measure import Case, Goal, Sample
from harness.scratch import CannotRun, built, need, run

ROUNDS = (3, 9)  # quick, full
EXTENT = 1 << 30
POOL = EXTENT * 5 // 2
SNAPSHOTS = 100
BETWEEN = 12  # writes after each, so that all of them differ
STEP = (1 << 20) + 4096  # another cluster, and another place in it, each time


def prealloc(place, name, size):
    path = place.file(name)
    with open(path, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, size)
    return path


def load(path, action, **options):
    command = [built("test/perf/engine_load"), "--do", action, "--path", path,
               "--extent", str(EXTENT)]
    for name, value in options.items():
        command += ["--" + name, str(value)]
    out = run(command, timeout=600)
    return json.loads(out) if out else {}


def make_pool(place, name, size=POOL):
    path = prealloc(place, name, size)
    load(path, "format")
    load(path, "fill", depth=8)
    return path


def chained_pool(place):
    path = make_pool(place, "chained.pool", POOL + EXTENT * 3 // 2)
    load(path, "snapshots", count=SNAPSHOTS, between=BETWEEN)
    load(path, "fill", depth=8)  # so that overwrites are overwrites
    return path


def ours(path, action, size, depth, count, step=0):
    def measure(number):
        out = load(path, action, size=size, depth=depth, count=count, step=step,
                   seed=number + 2)
        return Sample((out["ios"], out["bytes"]),
                      {"iops": out["iops"], "cpu": out["cpu_us"]})
    return measure


def fio(path, operation, size, depth, count):
    kind = operation if size > 4096 else "rand" + operation

    def measure(number):
        out = json.loads(run([
            "fio", "--name=x", f"--filename={path}", f"--rw={kind}", f"--bs={size}",
            "--ioengine=io_uring", "--direct=1", f"--iodepth={depth}", "--thread",
            f"--size={EXTENT}", f"--number_ios={count}", "--norandommap", "--end_fsync=1",
            f"--io_size={count * size}", "--overwrite=1", f"--randseed={number + 2}",
            "--output-format=json"], timeout=600, cwd=os.path.dirname(path)))["jobs"][0]
        figures = out[operation]
        seconds = figures["runtime"] / 1000
        cpu = (out["usr_cpu"] + out["sys_cpu"]) / 100 * seconds
        return Sample((figures["total_ios"], figures["io_bytes"]),
                      {"iops": figures["iops"],
                       "cpu": cpu * 1e6 / figures["total_ios"]})
    return measure


def qemu(path, operation, depth, count):
    command = ["qemu-img", "bench", "-f", "qcow2", "-t", "none", "-i", "io_uring",
               "-c", str(count), "-d", str(depth), "-s", "4096", "-S", str(STEP)]
    if operation == "write":
        command.append("-w")

    def measure(_number):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = run(command + [path], timeout=600)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = float(re.search(r"([0-9.]+) seconds", out).group(1))
        cpu = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
        return Sample((count, count * 4096),
                      {"iops": count / seconds, "cpu": cpu * 1e6 / count})
    return measure


def make_image(place):
    path = place.file("image.qcow2")
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-o", "preallocation=falloc",
         path, str(EXTENT)])
    run(["qemu-io", "-f", "qcow2", "-t", "none", "-c", "write -P 1 0 1G", path],
        timeout=600)
    return path


def beside_the_file(place, pool, counts):
    path = prealloc(place, "bare", EXTENT)
    run(["fio", "--name=x", f"--filename={path}", "--rw=write", "--bs=1M", "--direct=1",
         f"--size={EXTENT}", "--output-format=json"], timeout=600, cwd=place.path)
    goals = [Goal("iops", "1/s", "file", ">=", 0.95), Goal("cpu", "µs/IO", "file", "<=", 1.15)]
    for size, depth, count in ((4096, 1, counts[0]), (4096, 32, counts[1]),
                               (1 << 20, 4, counts[2])):
        for action in ("read", "write"):
            label = "4k" if size == 4096 else "1M"
            step = size if size > 4096 else 0
            yield Case(f"{label} {action} QD{depth}",
                       {"ours": ours(pool, action, size, depth, count, step),
                        "file": fio(path, action, size, depth, count)},
                       {"file": "fio on the file itself"}, goals)


def beside_qcow2(place, pool, counts):
    version = run(["qemu-img", "--version"]).split()[2]
    image = make_image(place)
    for depth, count in ((1, counts[0]), (32, counts[1])):
        for action in ("read", "write"):
            yield Case(f"4k {action} QD{depth}, in steps",
                       {"ours": ours(pool, action, 4096, depth, count, STEP),
                        "qcow2": qemu(image, action, depth, count)},
                       {"qcow2": "qcow2, qemu-img " + version},
                       [Goal("iops", "1/s", "qcow2", ">=", 1.0),
                        Goal("cpu", "µs/IO", "qcow2", "<=", 1.0)])


def beside_itself(place, pool, counts):
    chained = chained_pool(place)
    for action in ("read", "write"):
        yield Case(f"4k {action} QD32, {SNAPSHOTS} snapshots",
                   {"ours": ours(chained, action, 4096, 32, counts[1]),
                    "plain": ours(pool, action, 4096, 32, counts[1])},
                   {"plain": "ours without snapshots"},
                   [Goal("iops", "1/s", "plain", ">=", 0.95),
                    Goal("cpu", "µs/IO", "plain", "<=", 1.05)])
    thin = make_pool(place, "thin.pool")
    # Random ones, of which the later meet clusters that have become the
    # extent's own; and one in each cluster, all of them first writes.
    for row, count, step in (("fresh extent", counts[1], 0),
                             ("each a cluster's first", EXTENT >> 20, 1 << 20)):
        yield Case(f"4k write QD32, {row}",
                   {"ours": ours(thin, "again", 4096, 32, count, step),
                    "plain": ours(pool, "write", 4096, 32, count, step)},
                   {"plain": "ours, overwriting"},
                   [Goal("iops", "1/s", "plain", ">=", 0.5)])


def setup(place, quick):
    need("fio", "qemu-img", "qemu-io")
    free = os.statvfs(place.path)
    if free.f_bavail * free.f_frsize < 14 << 30:
        raise CannotRun(f"needs 14 GiB free at {place.path}")
    pool = make_pool(place, "plain.pool")
    counts = (2_000, 10_000, 200) if quick else (10_000, 100_000, 1_000)
    return [*beside_the_file(place, pool, counts), *beside_qcow2(place, pool, counts),
            *beside_itself(place, pool, counts)]
