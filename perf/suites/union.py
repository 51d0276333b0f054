# SPDX-License-Identifier: Apache-2.0
"""4 KiB random direct reads and writes, one at a time, through trib-union,
beside the branch's own file system and mergerfs.

Names are measured, too (tests of many small files): creating, looking up for
the first time, listing, removing. "cold" is right after a mount, when the
kernel knows none of the union's names; those of ext4 itself it does know.

"device": two ext4 branches on loop devices with direct I/O, so a request
reaches the machine's disk. "memory": two tmpfs branches, so that what the
union itself costs is all there is. All three sides work on the same two
branches, each on a file of its own; after every round the three files must
hold the same bytes.
"""
import contextlib
import hashlib
import json
import mmap
import os
import shutil
import subprocess
import time

from harness.measure import Case, Goal, Sample
from harness.scratch import BUILD, TOP, CannotRun, Failed, built, need, run

# Many short rounds: one request at a time feels every disturbance.
ROUNDS = (5, 15)  # quick, full
NAMES = (2_000, 20_000)  # files: quick, full
FILE = 32 << 20  # bytes of the file that is read and written
DATA = "data-{}"


def device_branch(place, name):
    image = place.file(name + ".img")
    with open(image, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, 512 << 20)
    run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image])
    path = place.folder(name)
    place.mount(["mount", place.loop_device(image)], path)
    return path


def memory_branch(place, name):
    path = place.folder(name)
    place.mount(["mount", "-t", "tmpfs", "-o", "size=512M,mode=755", "tmpfs"], path)
    return path


def mount_ours(place, name, branches):
    point = place.folder(name)
    place.unmount_later(point)
    place.server(name, [built("bin/trib-union"), "-f", ":".join(branches), point],
                 lambda: os.path.ismount(point))
    return point


def mount_mergerfs(place, name, branches, program):
    point = place.folder(name)
    place.unmount_later(point)
    # Its least free space of 4 GiB would refuse branches this small.
    place.server(name, [program, "-f", "-o", "minfreespace=0,category.create=mfs",
                        ":".join(branches), point],
                 lambda: os.path.ismount(point))
    return point


def peer_mergerfs():
    fetch = os.path.join(TOP, "perf", "fetch-mergerfs")
    try:
        version = run([fetch], cwd=TOP).strip()
    except Failed as e:
        raise CannotRun(str(e)) from e
    return "mergerfs " + version, os.path.join(BUILD, "perf", "mergerfs")


def checksum(branches, name):
    """Of the file as the branch has it, past every cache."""
    found = [os.path.join(b, name) for b in branches
             if os.path.exists(os.path.join(b, name))]
    if len(found) != 1:
        raise Failed(f"{name} is on {len(found)} branches")
    digest = hashlib.blake2b(digest_size=16)
    buffer = mmap.mmap(-1, 1 << 20)
    fd = os.open(found[0], os.O_RDONLY | os.O_DIRECT)
    try:
        while (got := os.readv(fd, [buffer])) > 0:
            digest.update(memoryview(buffer)[:got])
    finally:
        os.close(fd)
    return digest.hexdigest()


def lay_out(folder, name):
    """The same bytes for every side, written through that side."""
    with open(os.path.join(folder, name), "wb") as f:
        for i in range(FILE >> 20):
            f.write(hashlib.shake_128(b"%d" % i).digest(1 << 20))
        os.fsync(f.fileno())


def fio_side(folder, name, branches, operation, count):
    def measure(number):
        out = json.loads(run([
            "fio", "--name=x", f"--filename={os.path.join(folder, name)}",
            f"--rw=rand{operation}", "--bs=4k", "--ioengine=psync", "--direct=1",
            f"--size={FILE}", f"--number_ios={count}", "--norandommap",
            "--allow_file_create=0", f"--randseed={number + 2}",
            f"--buffer_pattern=0x{number + 2 & 255:02x}", "--overwrite=1",
            "--output-format=json"], timeout=300, cwd=folder))
        job = out["jobs"][0][operation]
        # One request at a time, so its mean latency gives the rate; fio's own
        # run time is in whole milliseconds, too coarse for a short round.
        return Sample((job["total_ios"], job["io_bytes"], checksum(branches, name)),
                      {"iops": 1e9 / job["lat_ns"]["mean"]})
    return measure


def one_kind(place, kind, make_branch, count, goal_native, mergerfs):
    branches = [make_branch(place, f"{kind}-{i}") for i in (1, 2)]
    merger_name, program = mergerfs
    folders = {"ours": mount_ours(place, f"{kind}-ours", branches),
               "native": branches[0],
               "mergerfs": mount_mergerfs(place, f"{kind}-mergerfs", branches, program)}
    fs = "ext4" if kind == "device" else "tmpfs"
    names = {"native": f"{fs} itself", "mergerfs": merger_name}
    for side, folder in folders.items():
        lay_out(folder, DATA.format(side))
    return [Case(f"{kind} 4k rand{operation} QD1",
                 {side: fio_side(folder, DATA.format(side), branches, operation, count)
                  for side, folder in folders.items()}, names,
                 [Goal("iops", "1/s", "native", ">=", goal_native),
                  Goal("iops", "1/s", "mergerfs", ">=", 1.0)])
            for operation in ("read", "write")]


@contextlib.contextmanager
def mounted(argv, point):
    """Mounted anew: the kernel knows no name of it."""
    if argv is None:
        yield
        return
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 30
            while not os.path.ismount(point):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"{argv[0]} does not mount {point}")
                time.sleep(0.005)
            yield
        finally:
            subprocess.run(["umount", "-l", point], check=False,
                           stderr=subprocess.DEVNULL)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def name_load(work, folder, count):
    rate, done = run([built("test/perf/name_load"), work, folder, str(count)],
                     timeout=600).split()
    return Sample(int(done), {"rate": float(rate)})


def names_side(argv, point, folder, work, count):
    """Twice the same files: what comes before and after is not measured."""
    def measure(_number):
        path = os.path.join(point, folder)
        with mounted(argv, point):
            os.makedirs(path, exist_ok=True)
            if work == "create":
                sample = name_load("create", path, count)
                name_load("unlink", path, count)
                return sample
            if work == "unlink" or not os.listdir(path):
                name_load("create", path, count)
        with mounted(argv, point):
            if work.endswith("again"):
                name_load(work.split()[0], path, count)
            return name_load(work.split()[0], path, count)
    return measure


# What is done, the least share of ext4's own rate, the least of mergerfs's.
NAME_CASES = (("create", None, 1.5), ("stat", None, 1.5), ("stat again", 0.8, 1.0),
              ("open", None, 1.0), ("ls", None, 1.5), ("list again", 1.0, 1.0),
              ("unlink", None, 1.5))


def names(place, quick, mergerfs):
    count = NAMES[0] if quick else NAMES[1]
    branches = [device_branch(place, f"names-{i}") for i in (1, 2)]
    merger_name, program = mergerfs
    point = {side: place.folder(f"names-{side}") for side in ("ours", "mergerfs")}
    argv = {"ours": [built("bin/trib-union"), "-f", ":".join(branches), point["ours"]],
            "mergerfs": [program, "-f", "-o", "minfreespace=0,category.create=mfs,"
                         "cache.readdir=true,cache.files=auto-full",
                         ":".join(branches), point["mergerfs"]],
            "native": None}
    point["native"] = branches[0]
    cases = []
    for work, native, merger in NAME_CASES:
        goals = [Goal("rate", "1/s", "mergerfs", ">=", merger)]
        if native:
            goals.append(Goal("rate", "1/s", "native", ">=", native))
        folder = work.replace(" ", "-")
        cases.append(Case(f"names: {work}", {
            side: names_side(argv[side], point[side], f"{folder}-{side}", work, count)
            for side in ("ours", "native", "mergerfs")},
            {"native": "ext4 itself", "mergerfs": merger_name}, goals))
    return cases


def setup(place, quick):
    need("fio", "mkfs.ext4", "losetup", "setpriv")
    if os.geteuid() != 0:
        raise CannotRun("needs root")
    built("bin/trib-union")
    mergerfs = peer_mergerfs()
    if shutil.disk_usage(place.path).free < 4 << 30:
        raise CannotRun(f"needs 4 GiB free at {place.path}")
    return (one_kind(place, "device", device_branch, 3_000 if quick else 10_000,
                     0.95, mergerfs)
            + one_kind(place, "memory", memory_branch, 15_000 if quick else 50_000,
                       0.90, mergerfs)
            + names(place, quick, mergerfs))
