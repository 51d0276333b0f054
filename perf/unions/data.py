# SPDX-License-Identifier: Apache-2.0
"""fio, one request at a time, on a file of each side's own; and what a database asks
of a file that it has open."""
import hashlib
import json
import mmap
import os
import time

from harness.measure import Case, Goal, Sample
from harness.scratch import Failed, run
from unions import sides

FILE = 32 << 20  # bytes of the file that is read and written
DATA = "data-{}"

# Of the name of a row, the operation, more for fio: requests of 4 KiB are at
# random offsets; what is in the cache stays there.
DIRECT = (("4k randread QD1", "randread", ("--bs=4k", "--direct=1")),
          ("4k randwrite QD1", "randwrite", ("--bs=4k", "--direct=1")))
BUFFERED = (("4k randread buffered", "randread", ("--bs=4k", "--direct=0", "--invalidate=0")),
            ("4k randwrite buffered", "randwrite", ("--bs=4k", "--direct=0", "--invalidate=0")))
STREAM = (("1M read in order", "read", ("--bs=1M", "--direct=1")),
          ("1M write in order", "write", ("--bs=1M", "--direct=1")))


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


def fio_side(folder, name, branches, operation, more):
    def measure(number):
        out = json.loads(run([
            "fio", "--name=x", f"--filename={os.path.join(folder, name)}",
            f"--rw={operation}", "--ioengine=psync", f"--size={FILE}", "--norandommap",
            "--allow_file_create=0", f"--randseed={number + 2}",
            f"--buffer_pattern=0x{number + 2 & 255:02x}", "--overwrite=1",
            "--output-format=json", *more], timeout=300, cwd=folder))
        job = out["jobs"][0][operation.removeprefix("rand")]
        # One request at a time, so its mean latency gives the rate; fio's own
        # run time is in whole milliseconds, too coarse for a short round.
        return Sample((job["total_ios"], job["io_bytes"], checksum(branches, name)),
                      {"rate": 1e9 / job["lat_ns"]["mean"]})
    return measure


ASKED = 20_000  # times


def asking_side(path):
    """The size by lseek(2), all by fstat(2), and that after each write."""
    def measure(_number):
        fd = os.open(path, os.O_RDWR)
        try:
            rates = {}
            for metric, ask in (("lseek", lambda: os.lseek(fd, 0, os.SEEK_END)),
                                ("fstat", lambda: os.fstat(fd)),
                                ("write, fstat", lambda: (os.pwrite(fd, b"x", 0), os.fstat(fd)))):
                start = time.perf_counter()
                for _ in range(ASKED):
                    ask()
                rates[metric] = ASKED / (time.perf_counter() - start)
            return Sample((ASKED, os.fstat(fd).st_size), rates)
        finally:
            os.close(fd)
    return measure


class Place:
    """Two file systems, @count branches of folders on them, and all sides."""

    def __init__(self, place, kind, make_branch, count):
        file_systems = [make_branch(place, f"{kind}-{count}-{i}") for i in (1, 2)]
        self.branches = sides.folders_of(file_systems, count)
        self.folders = {
            "ours": sides.mount_kept(place, f"{kind}-{count}-ours", sides.ours, self.branches),
            "native": self.branches[0],
            "mergerfs": sides.mount_kept(place, f"{kind}-{count}-mergerfs", sides.mergerfs,
                                         self.branches)}
        for side, folder in self.folders.items():
            lay_out(folder, DATA.format(side))

    def case(self, row, names, works, least):
        label, operation, more = works
        return Case(row + " " + label,
                    {side: fio_side(folder, DATA.format(side), self.branches, operation, more)
                     for side, folder in self.folders.items()}, names,
                    [Goal("rate", "1/s", "native", ">=", least),
                     Goal("rate", "1/s", "mergerfs", ">=", 1.0)])


    def asking(self, row, names):
        # After a write that is passed through the kernel asks twice, always.
        return Case(row + " open to write", {side: asking_side(os.path.join(folder, DATA.format(side)))
                                             for side, folder in self.folders.items()}, names,
                    [Goal("lseek", "1/s", "native", ">=", 0.8),
                     Goal("fstat", "1/s", "native", ">=", 0.8),
                     Goal("write, fstat", "1/s", "native", ">="),
                     Goal("lseek", "1/s", "mergerfs", ">=", 1.0),
                     Goal("fstat", "1/s", "mergerfs", ">=", 1.0),
                     Goal("write, fstat", "1/s", "mergerfs", ">=")])


def cases(place, quick, merger_name):
    few, many, loops = (3_000, 30_000, 4) if quick else (10_000, 100_000, 16)
    names = {"native": "ext4 itself", "mergerfs": merger_name}
    for count in (2, 64):
        at = Place(place, "device", sides.device_branch, count)
        row = "device" if count == 2 else f"device, {count} branches,"
        for kind, least, more in ((DIRECT, 0.97, f"--number_ios={few}"),
                                  (BUFFERED, 0.9, f"--number_ios={many}"),
                                  (STREAM, 0.97, f"--loops={loops}")):
            for label, operation, options in kind:
                yield at.case(row, names, (label, operation, (*options, more)), least)
        if count == 2:
            yield at.asking(row, names)
    at = Place(place, "memory", sides.memory_branch, 2)
    for label, operation, options in DIRECT:
        yield at.case("memory", {**names, "native": "tmpfs itself"},
                      (label, operation, (*options, f"--number_ios={many // 2}")), 0.90)
