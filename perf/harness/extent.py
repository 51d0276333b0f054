# SPDX-License-Identifier: Apache-2.0
"""The sides of the engine's suite: an extent of ours, fio on a file, and a
qcow2 image. Where a side needs a pool or an image it is given a function that
returns its path, made at the first call: that is the round which does not count."""
import functools
import json
import os
import re
import resource

from harness.measure import Sample
from harness.scratch import Failed, built, need, run

EXTENT = 1 << 30
CLUSTER = 1 << 20
POOL = EXTENT * 5 // 2
SNAPSHOTS = 100
OVERLAYS = 10
BETWEEN = 12  # writes after each snapshot, so that all of them differ


def once(make, *args):
    return functools.cache(lambda: make(*args))


def prealloc(place, name, size):
    path = place.file(name)
    with open(path, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, size)
    return path


# ---- ours ----

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


def make_chained(place, name, shared):
    """Its extent was snapshotted SNAPSHOTS times and has other clusters than
    each of them; most it shares with some, or (not @shared) it was written
    anew after that, so that none."""
    path = make_pool(place, name, POOL + EXTENT * 3 // 2)
    found = load(path, "snapshots", count=SNAPSHOTS, between=BETWEEN)
    if not shared:
        found = load(path, "fill", depth=8)
    least, most = (EXTENT // CLUSTER * 9 // 10, EXTENT // CLUSTER) if shared else (0, 0)
    if not least <= found["shared"] <= most:
        raise Failed(f"{name}: {found['shared']} clusters of its extent are shared, "
                     f"not {least} to {most}")
    return path


def ours(pool, action, size, depth, count, step=0):
    def measure(number):
        out = load(pool(), action, size=size, depth=depth, count=count, step=step,
                   seed=number + 2)
        return Sample((out["ios"], out["bytes"]),
                      {"iops": out["iops"], "cpu": out["cpu_us"]})
    return measure


# ---- fio on a file ----

def make_file(place, name):
    path = prealloc(place, name, EXTENT)
    run(["fio", "--name=x", f"--filename={path}", "--rw=write", "--bs=1M", "--direct=1",
         f"--size={EXTENT}", "--output-format=json"], timeout=600, cwd=place.path)
    return path


def fio(file, operation, size, depth, count):
    """With buffers and the file registered with the ring, as ours are."""
    kind = operation if size > 4096 else "rand" + operation

    def measure(number):
        out = json.loads(run([
            "fio", "--name=x", f"--filename={file()}", f"--rw={kind}", f"--bs={size}",
            "--ioengine=io_uring", "--fixedbufs=1", "--registerfiles=1",
            "--direct=1", f"--iodepth={depth}", "--thread",
            f"--size={EXTENT}", f"--number_ios={count}", "--norandommap", "--end_fsync=1",
            f"--io_size={count * size}", "--overwrite=1", f"--randseed={number + 2}",
            "--output-format=json"], timeout=600, cwd=os.path.dirname(file())))["jobs"][0]
        figures = out[operation]
        seconds = figures["runtime"] / 1000
        cpu = (out["usr_cpu"] + out["sys_cpu"]) / 100 * seconds
        return Sample((figures["total_ios"], figures["io_bytes"]),
                      {"iops": figures["iops"],
                       "cpu": cpu * 1e6 / figures["total_ios"]})
    return measure


# ---- qcow2 ----

def qemu_version():
    need("qemu-img", "qemu-io")
    return run(["qemu-img", "--version"]).split()[2]


def make_image(place, name):
    path = place.file(name)
    run(["qemu-img", "create", "-q", "-f", "qcow2", "-o", "preallocation=falloc",
         path, str(EXTENT)])
    run(["qemu-io", "-f", "qcow2", "-t", "none", "-c", "write -P 1 0 1G", path],
        timeout=600)
    return path


def _write_some(path, count, seed):
    command = ["qemu-io", "-f", "qcow2", "-t", "none"]
    for i in range(count):
        at = (seed * count + i) * 2654435761 % (EXTENT // 4096) * 4096
        command += ["-c", f"write -q -P 2 {at} 4k"]
    run(command + [path])


def make_snapshotted(place, name):
    path = make_image(place, name)
    for i in range(SNAPSHOTS):
        run(["qemu-img", "snapshot", "-c", str(i), path])
        _write_some(path, BETWEEN, i)
    return path


def make_overlaid(place, name):
    """The last of OVERLAYS images, each on top of the one before."""
    path = make_image(place, name)
    for i in range(OVERLAYS):
        above = place.file(f"{name}.{i}")
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", path, above])
        _write_some(above, BETWEEN * SNAPSHOTS // OVERLAYS, i)
        path = above
    return path


def make_empty(place, name):
    path = place.file(name)
    run(["qemu-img", "create", "-q", "-f", "qcow2", path, str(EXTENT)])
    return path


def _bench(path, count, *more):
    """Seconds of the requests; and the processor's, of the whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = run(["qemu-img", "bench", "-f", "qcow2", "-t", "none", "-i", "io_uring",
               "-c", str(count), *more, path], timeout=600)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (float(re.search(r"([0-9.]+) seconds", out).group(1)),
            (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime))


def qemu(image, operation, size, depth, count, step):
    """What the process takes to start and to open the image is not counted: it
    is measured with one request. Writes end with a flush, as ours do."""
    more = ["-d", str(depth), "-s", str(size), "-S", str(step)]
    if operation == "write":
        more += ["-w", f"--flush-interval={count}"]

    def measure(_number):
        path = image()
        _, start = _bench(path, 1, "-s", "4096")
        seconds, cpu = _bench(path, count, *more)
        return Sample((count, count * size),
                      {"iops": count / seconds, "cpu": max(cpu - start, 1e-9) * 1e6 / count})
    return measure
