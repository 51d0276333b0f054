#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write blocks of a device, and tell whether each acknowledged write is there.

    block_writer.py DEVICE STOP [--errors]

Blocks of 4 KiB, each with its number and the number of the write, straight to
the device (O_DIRECT), one after the other, until the file STOP is there. Then
each block is read: it has its last acknowledged write, or one that was tried
after that and failed. Without --errors a write that fails ends it. Prints how
many were acknowledged and how many failed.
"""
import mmap
import os
import random
import struct
import sys
import time

BLOCK = 4096
BLOCKS = 512


def block(index, number):
    return struct.pack("<QQ", index, number) * (BLOCK // 16)


def check(page, index, allowed):
    found = struct.unpack_from("<QQ", page)
    if found[1] not in allowed or (found[1] and found[0] != index):
        sys.exit(f"block {index} has {found}, not one of {sorted(allowed)}")
    if page != block(*found):
        sys.exit(f"block {index} is torn")


def main():
    path, stop = sys.argv[1:3]
    errors = "--errors" in sys.argv
    page = mmap.mmap(-1, BLOCK)
    allowed = [{0} for _ in range(BLOCKS)]
    number = failed = 0
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    every = mmap.mmap(-1, BLOCK * BLOCKS)
    every[:] = b"".join(block(index, 0) for index in range(BLOCKS))
    if os.pwritev(fd, [every], 0) != len(every):
        sys.exit("a short write")
    print("began", flush=True)
    while not os.path.exists(stop):
        index = random.randrange(BLOCKS)
        number += 1
        page[:] = block(index, number)
        try:
            if os.pwritev(fd, [page], index * BLOCK) != BLOCK:
                sys.exit("a short write")
            allowed[index] = {number}
        except OSError as error:
            if not errors:
                sys.exit(f"write {number}: {error}")
            allowed[index].add(number)
            failed += 1
            time.sleep(0.005)
    os.close(fd)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    if os.preadv(fd, [every], 0) != len(every):
        sys.exit("a short read")
    for index in range(BLOCKS):
        check(every[index * BLOCK:(index + 1) * BLOCK], index, allowed[index])
    print(f"acknowledged {number - failed} failed {failed}", flush=True)


main()
