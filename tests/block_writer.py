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


def fill(page, index, number):
    page[:] = struct.pack("<QQ", index, number) * (BLOCK // 16)


def check(page, index, allowed):
    found = struct.unpack_from("<QQ", page)
    if found[1] not in allowed or (found[1] and found[0] != index):
        sys.exit(f"block {index} has {found}, not one of {sorted(allowed)}")
    if page[:] != struct.pack("<QQ", *found) * (BLOCK // 16):
        sys.exit(f"block {index} is torn")


def main():
    path, stop = sys.argv[1:3]
    errors = "--errors" in sys.argv
    page = mmap.mmap(-1, BLOCK)
    allowed = [{0} for _ in range(BLOCKS)]
    number = failed = 0
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    for index in range(BLOCKS):
        fill(page, index, 0)
        os.pwritev(fd, [page], index * BLOCK)
    print("began", flush=True)
    while not os.path.exists(stop):
        index = random.randrange(BLOCKS)
        number += 1
        fill(page, index, number)
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
    for index in range(BLOCKS):
        os.preadv(fd, [page], index * BLOCK)
        check(page, index, allowed[index])
    print(f"acknowledged {number - failed} failed {failed}", flush=True)


main()
