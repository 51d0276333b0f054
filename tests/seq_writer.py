#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write so that it can be told of which instant a copy is, and tell it.

    seq_writer.py write STOP VIEW BRANCH...
    seq_writer.py check VIEW BRANCH...

write: number N, from 1 on, is written to the file "seq" of each BRANCH, one
after the other, each made durable before the next; between them a file below
VIEW is replaced whole. Until the file STOP is there; then the last N is printed.

check: no branch is behind a later one, or more than one number ahead of it;
every file below VIEW is whole. Prints the number of the first branch.
"""
import hashlib
import itertools
import os
import sys

FILES = 40
SIZE = 40000


def put(path, data, flags=0):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
    try:
        os.pwrite(fd, data, 0)
        os.fsync(fd)
    finally:
        os.close(fd)


def replace(view, n):
    body = (b"%020d" % n) * (SIZE // 20)
    data = hashlib.sha256(body).hexdigest().encode() + body
    path = "%s/w/%d" % (view, n % FILES)
    put(path + ".new", data, os.O_TRUNC)
    os.rename(path + ".new", path)


def write(stop, view, branches):
    os.makedirs(view + "/w", exist_ok=True)
    for n in itertools.count(1):
        for branch in branches:
            put(branch + "/seq", b"%020d" % n)
        replace(view, n)
        if os.path.exists(stop):
            print(n)
            return


def check(view, branches):
    numbers = []
    for branch in branches:
        with open(branch + "/seq", "rb") as file:
            numbers.append(int(file.read()))
    for first, second in zip(numbers, numbers[1:]):
        if not second <= first <= numbers[-1] + 1:
            sys.exit("not of one instant: %s" % numbers)
    for name in os.listdir(view + "/w"):
        if name.endswith(".new"):
            continue
        with open(view + "/w/" + name, "rb") as file:
            data = file.read()
        if hashlib.sha256(data[64:]).hexdigest().encode() != data[:64]:
            sys.exit("w/%s is torn" % name)
    print(numbers[0])


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], sys.argv[4:])
else:
    check(sys.argv[2], sys.argv[3:])
