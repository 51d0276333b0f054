# SPDX-License-Identifier: Apache-2.0
"""Branches, and the unions of them: ours and mergerfs."""
import contextlib
import os
import subprocess
import time

from harness.scratch import BUILD, TOP, CannotRun, Failed, built, run

# Its least free space of 4 GiB would refuse branches as small as ours.
MERGERFS = "minfreespace=0"
# Let the kernel keep for an hour what it knows, as it may of ours.
TUNED = ",cache.readdir=true,cache.files=auto-full,cache.entry=3600,cache.attr=3600"


def device_branch(place, name, mib=512):
    image = place.file(name + ".img")
    with open(image, "wb") as f:
        os.posix_fallocate(f.fileno(), 0, mib << 20)
    run(["mkfs.ext4", "-q", "-F", "-i", "4096", "-E",
         "lazy_itable_init=0,lazy_journal_init=0", image])
    path = place.folder(name)
    place.mount(["mount", place.loop_device(image)], path)
    return path


def memory_branch(place, name, size="512M"):
    path = place.folder(name)
    place.mount(["mount", "-t", "tmpfs", "-o", f"size={size},nr_inodes=0,mode=755", "tmpfs"],
                path)
    return path


def folders_of(file_systems, count):
    """@count branches, folders of these in turn."""
    paths = [os.path.join(file_systems[i % len(file_systems)], f"branch-{i}")
             for i in range(count)]
    for path in paths:
        os.mkdir(path)
    return paths


def ours(branches, point, options="survive=yes"):
    return [built("bin/trib-union"), "-f", "-o", options, ":".join(branches), point]


def mergerfs(branches, point, options="category.create=mfs" + TUNED):
    return [os.path.join(BUILD, "perf", "mergerfs"), "-f", "-o", f"{MERGERFS},{options}",
            ":".join(branches), point]


def mergerfs_name():
    try:
        return "mergerfs " + run([os.path.join(TOP, "perf", "fetch-mergerfs")], cwd=TOP).strip()
    except Failed as e:
        raise CannotRun(str(e)) from e


def mount_kept(place, name, make, branches):
    """Mounted until the suite ends."""
    point = place.folder(name)
    place.unmount_later(point)
    place.server(name, make(branches, point), lambda: os.path.ismount(point))
    return point


@contextlib.contextmanager
def mounted(argv, point):
    """Mounted anew: the kernel knows no name of it. The process id of what was
    started, see server_of(); without @argv there is none."""
    if argv is None:
        yield None
        return
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 30
            while not os.path.ismount(point):
                if server.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"{argv[0]} does not mount {point}")
                time.sleep(0.005)
            yield server.pid
        finally:
            subprocess.run(["umount", "-l", point], check=False,
                           stderr=subprocess.DEVNULL)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                server.kill()


def server_of(pid):
    """Who serves: a child of what was started, or that itself."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return int(next(iter(f.read().split()), pid))


def name_load(work, folder, count, times=1):
    """Operations a second, and how many there were."""
    rate, done = run([built("test/perf/name_load"), work, folder, str(count), str(times)],
                     timeout=600).split()
    return float(rate), int(done)
