#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that know what they did.

    own_dirs.py DIRECTORY SEED WORKERS

Each worker has a directory of its own, calls at random until standard input
ends, and knows what is in it: an error that it did not expect, or anything else
than it made, is a failure. Exit 1 if there was one.
"""
import errno
import os
import random
import sys
import threading
import traceback

mount, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
over = threading.Event()
failed = []
done = [0] * count


def failing(error):
    raise error


class Worker:
    def __init__(self, number):
        self.r = random.Random(seed * 1000 + number)
        self.top = "%s/w%d" % (mount, number)
        os.mkdir(self.top)
        self.files, self.dirs, self.next = {}, {".": None}, 0

    def name(self):
        self.next += 1
        return os.path.join(self.r.choice(list(self.dirs)), "n%d" % self.next)

    def path(self, name):
        return os.path.join(self.top, name)

    def expect(self, error, f, *args):
        try:
            f(*args)
        except OSError as e:
            if e.errno == error:
                return
            raise
        raise AssertionError("no %s of %s%r" % (errno.errorcode[error], f.__name__, args))

    def create(self):
        n = self.name()
        text = b"x" * self.r.randrange(5000)
        fd = os.open(self.path(n), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o640)
        assert os.write(fd, text) == len(text)
        assert os.pread(fd, 6000, 0) == text
        os.close(fd)
        self.files[n] = text
        self.expect(errno.EEXIST, os.open, self.path(n), os.O_CREAT | os.O_EXCL)

    def append(self):
        n = self.r.choice(list(self.files))
        with open(self.path(n), "ab") as f:
            f.write(b"more")
        self.files[n] += b"more"
        with open(self.path(n), "rb") as f:
            got = f.read()
        assert got == self.files[n], (n, len(got), len(self.files[n]))

    def unlink(self):
        n = self.r.choice(list(self.files))
        fd = os.open(self.path(n), os.O_RDONLY)
        os.unlink(self.path(n))
        got = os.pread(fd, 1 << 20, 0)
        os.close(fd)
        assert got == self.files.pop(n)
        self.expect(errno.ENOENT, os.stat, self.path(n))

    def mkdir(self):
        n = self.name()
        os.mkdir(self.path(n))
        self.dirs[n] = None
        self.expect(errno.EEXIST, os.mkdir, self.path(n))

    def rmdir(self):
        n = self.r.choice(list(self.dirs))
        if n == ".":
            return
        if any(os.path.dirname(x) == n for x in list(self.files) + list(self.dirs)):
            self.expect(errno.ENOTEMPTY, os.rmdir, self.path(n))
        else:
            os.rmdir(self.path(n))
            del self.dirs[n]

    def rename(self):
        old = self.r.choice(list(self.files))
        new = self.name()
        if self.r.random() < 0.5:
            new = self.r.choice(list(self.files))
        os.rename(self.path(old), self.path(new))
        if new != old:
            self.files[new] = self.files.pop(old)

    def rename_dir(self):
        old = self.r.choice(list(self.dirs))
        new = "r%d" % self.next
        self.next += 1
        if old == ".":
            return
        os.rename(self.path(old), self.path(new))

        def moved(names):
            return {new + k[len(old):] if (k + "/").startswith(old + "/") else k: v for k, v in names.items()}

        self.files, self.dirs = moved(self.files), moved(self.dirs)

    def link(self):
        old = self.r.choice(list(self.files))
        new = self.name()
        os.link(self.path(old), self.path(new))
        assert os.stat(self.path(new)).st_nlink == 2, os.stat(self.path(new)).st_nlink
        os.unlink(self.path(old))
        self.files[new] = self.files.pop(old)

    def symlink(self):
        n = self.name()
        os.symlink("to " + n, self.path(n))
        assert os.readlink(self.path(n)) == "to " + n
        os.unlink(self.path(n))

    def xattr(self):
        n = self.path(self.r.choice(list(self.files) + list(self.dirs)))
        os.setxattr(n, "trusted.t", b"1", os.XATTR_CREATE)
        self.expect(errno.EEXIST, os.setxattr, n, "trusted.t", b"2", os.XATTR_CREATE)
        assert os.getxattr(n, "trusted.t") == b"1"
        os.removexattr(n, "trusted.t")
        self.expect(errno.ENODATA, os.removexattr, n, "trusted.t")

    def tmpfile(self):
        fd = os.open(self.top, os.O_TMPFILE | os.O_RDWR)
        os.write(fd, b"abc")
        assert os.pread(fd, 9, 0) == b"abc"
        os.close(fd)

    def check(self):
        want = {os.path.normpath(x) for x in [*self.files, *self.dirs]} - {"."}
        got = set()
        for d, dirs, files in os.walk(self.top, onerror=failing):
            got |= {os.path.relpath(os.path.join(d, x), self.top) for x in dirs + files}
        assert got == want, sorted(got ^ want)[:9]
        d = self.r.choice(list(self.dirs))
        sub = sum(1 for x in self.dirs if x != "." and os.path.normpath(os.path.dirname(x)) == os.path.normpath(d))
        n = os.stat(self.path(d)).st_nlink
        assert n == 2 + sub, (d, n, sub)

    def run(self, index):
        acts = [self.create] * 4 + [self.append] * 3 + [self.unlink] * 2 + [self.mkdir] * 2 + [self.rmdir] * 2 + \
            [self.rename] * 3 + [self.rename_dir, self.link, self.symlink, self.xattr, self.tmpfile, self.check]
        while not over.is_set() and not failed:
            act = self.r.choice(acts)
            if not self.files and act not in (self.create, self.mkdir):
                continue
            self.act = act.__name__
            act()
            done[index] += 1
        self.check()


def main(i):
    w = Worker(i)
    try:
        w.run(i)
    except BaseException:
        failed.append(i)
        sys.stderr.write("worker %d in %s after %d:\n%s" % (i, getattr(w, "act", "?"), done[i], traceback.format_exc()))


threads = [threading.Thread(target=main, args=(i,)) for i in range(count)]
for t in threads:
    t.start()
sys.stdin.read()
over.set()
for t in threads:
    t.join()
print("# %d calls" % sum(done))
sys.exit(1 if failed else 0)
