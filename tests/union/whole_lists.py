#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Lists of a directory, all the time.

    whole_lists.py DIRECTORY READERS

Readers list it in both ways until standard input ends, each time from the start;
somebody else makes the kernel read it anew. Each list has each name once, or it
is a failure: exit 1.
"""
import os
import sys
import threading

top, readers = sys.argv[1], int(sys.argv[2])
names = {"n%d-%s" % (i, "x" * (i % 40)) for i in range(1500)}
over = threading.Event()
bad = []
rounds = [0] * readers


def listed(plus):
    if not plus:
        return os.listdir(top)
    return [e.name for e in os.scandir(top) if e.stat(follow_symlinks=False)]


def read(i):
    while not over.is_set() and not bad:
        try:
            got = listed(i % 2)
        except OSError as e:
            bad.append(repr(e))
            return
        if len(got) != len(set(got)) or set(got) != names:
            bad.append("%d names, %d lack" % (len(got), len(names - set(got))))
        rounds[i] += 1


def change():
    while not over.wait(0.005):
        os.utime(top)


os.mkdir(top)
for i, n in enumerate(sorted(names)):
    if i % 3:
        open(os.path.join(top, n), "w").close()
    else:
        os.mkdir(os.path.join(top, n))
threads = [threading.Thread(target=read, args=(i,)) for i in range(readers)]
threads.append(threading.Thread(target=change))
for t in threads:
    t.start()
sys.stdin.read()
over.set()
for t in threads:
    t.join()
print("# %d lists" % sum(rounds))
for b in bad:
    print(b)
sys.exit(1 if bad else 0)
