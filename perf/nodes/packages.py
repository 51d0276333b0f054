# SPDX-License-Identifier: Apache-2.0
"""Programs of Debian's packages. What is installed on a host is used as it is.
What is not is unpacked into build/perf (kept: a second run is instant), for hosts
that are this machine's; nothing is installed. A program that wants its files at
fixed paths runs in a root of its own (Root)."""
import fcntl
import os
import shutil

from harness.machine import TOP
from harness.scratch import BUILD, CannotRun, Failed, run

# $1: the root to be made, $2: the unpacked folder, $3: the host's folder, seen at
# the same path. Each of this machine's parts lies beneath the package's.
ROOT = """
set -e
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir -p usr etc var/lib var/log run tmp proc sys dev mnt root .upper .work "./$3"
chmod 1777 tmp
for part in bin sbin lib lib64; do ln -s usr/$part $part; done
ln -s /run var/run
mount -t overlay -o "lowerdir=$2/usr:/usr" overlay usr
mount -t overlay -o "lowerdir=$2/etc:/etc,upperdir=.upper,workdir=.work" overlay etc
[ ! -d "$2/var/lib" ] || cp -a "$2/var/lib" var
for part in proc sys dev; do mount --rbind --make-rslave /$part $part; done
mount --bind "$3" "./$3"
"""
# The folders first that hold the others' parts; merged as the machine's are.
MERGE = """
cd "$1"
for part in bin sbin lib lib64; do
	[ ! -d $part ] || { mkdir -p usr/$part && cp -al $part/. usr/$part; }
done
mkdir -p usr etc
"""


def unpacked(name, packages, alone):
    """The folder with @packages, and what they depend on unless they are to be
    @alone."""
    folder = os.path.join(BUILD, "perf", name)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder + ".done"):
            shutil.rmtree(folder, ignore_errors=True)
            try:
                run([os.path.join(TOP, "tests/apt-unpack"), *(["-n"] if alone else []), folder,
                     *packages], timeout=600)
                run(["sh", "-ec", MERGE, "perf", folder])
            except Failed as e:
                raise CannotRun(f"needs {' and '.join(packages)}; {e}") from e
            with open(folder + ".done", "w", encoding="ascii"):
                pass
    return folder


class Package:
    """@packages of Debian that belong together, known as @name."""

    def __init__(self, name, *packages, alone=False):
        self.name, self.packages, self.alone = name, packages, alone

    def program(self, host, program):
        """@program on @host, as the beginning of a command."""
        found = installed(host, program)
        if found:
            return [found]
        folder = self.folder(host, program)
        for part in ("bin", "sbin"):
            path = os.path.join(folder, "usr", part, program)
            if os.path.exists(path):
                libraries = os.path.join(folder, "usr/lib", f"{os.uname().machine}-linux-gnu")
                return ["env", "LD_LIBRARY_PATH=" + libraries, path]
        raise CannotRun(f"{' and '.join(self.packages)} have no {program}")

    def folder(self, host, program):
        if not host.here:
            raise CannotRun(f"{host.name} needs {program} (package {self.packages[0]})")
        return unpacked(self.name, self.packages, self.alone)


def installed(host, program):
    """Its path; sbin is not in everybody's."""
    return host.script('PATH=$PATH:/usr/sbin:/sbin; command -v "$1" || :', program).strip()


class Root:
    """Where @package is as if it was installed on @host: commands run in it by
    command(), and a file that they know as PATH is at path(PATH) for others."""

    def __init__(self, host, package, program):
        self.folder = ""
        if not installed(host, program):
            self.folder = host.folder("root-" + package.name)
            host.later(UNDO_ROOT, self.folder)
            host.script(ROOT, self.folder, package.folder(host, program), host.base)
        self.host = host

    def command(self, *argv):
        """What it starts ends with it, a daemon, too."""
        return ["unshare", "--pid", "--fork", "--kill-child",
                *(["chroot", self.folder] if self.folder else []), *argv]

    def path(self, path):
        return self.folder + path

    def run(self, *argv):
        return self.host.run((["chroot", self.folder] if self.folder else []) + list(argv))


UNDO_ROOT = """
awk -v at="$1" '$2 == at || index($2, at "/") == 1 {print $2}' /proc/mounts | tac |
	while read -r point; do umount "$point" || umount -l "$point"; done
"""
