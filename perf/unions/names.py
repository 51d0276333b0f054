# SPDX-License-Identifier: Apache-2.0
"""Names: made, looked up, listed and removed. "Cold" is right after a mount,
when the kernel knows none of the union's names; those of the branches' own
file system it does know."""
import functools
import os
import shutil

from harness.measure import Case, Goal, Sample
from unions import sides

FILES = 50_000
KEPT = 20_000     # names that the kernel knows
PLACED = 3_000    # files on very many branches
BRANCHES = 256
MILLION = 1_000_000
FOLDERS = 1_000   # that the million are in
MEMORY_MIB = 256  # of the server, a million names looked up


def _life(argv, point, folder):
    """Make, look up, list and remove the same files, each right after a mount."""
    def measure(_number):
        path = os.path.join(point, folder)
        rates, done = {}, 0
        for metric, work in (("create", "create"), ("cold stat", "stat"), ("ls -l", "ls"),
                             ("unlink", "unlink")):
            with sides.mounted(argv, point):
                os.makedirs(path, exist_ok=True)
                rates[metric], n = sides.name_load(work, path, FILES)
                done += n
        return Sample(done, rates)
    return measure


def life(place, merger_name):
    branches = [sides.device_branch(place, f"names-{i}") for i in (1, 2)]
    point = {side: place.folder(f"names-{side}")
             for side in ("ours", "alone", "mergerfs", "tuned")}
    argv = {"ours": sides.ours(branches, point["ours"]),
            "alone": sides.ours(branches, point["alone"], "survive=no"),
            "native": None,
            "mergerfs": sides.mergerfs(branches, point["mergerfs"], "category.create=mfs"),
            "tuned": sides.mergerfs(branches, point["tuned"])}
    point["native"] = branches[0]
    goals = []
    for metric in ("create", "cold stat", "ls -l", "unlink"):
        goals += [Goal(metric, "1/s", ("mergerfs", "tuned"), ">=", 1.5),
                  Goal(metric, "1/s", "native", ">="),
                  Goal(metric, "1/s", "alone", ">=", 0.95)]
    return Case(f"{FILES:,} names", {side: _life(argv[side], point[side], f"names-of-{side}")
                                     for side in argv},
                {"alone": "ending with its server", "native": "ext4 itself",
                 "mergerfs": merger_name, "tuned": merger_name + ", all cached"}, goals, 3,
                warm=False)


def kept(place, merger_name):
    """What was looked up before, by a mount that stays."""
    branches = [sides.device_branch(place, f"kept-{i}") for i in (1, 2)]
    path = {"ours": sides.mount_kept(place, "kept-ours", sides.ours, branches),
            "native": branches[0],
            "mergerfs": sides.mount_kept(place, "kept-mergerfs", sides.mergerfs, branches)}

    @functools.cache
    def known(side):
        """The folder, all of whose files were looked up and listed."""
        folder = os.path.join(path[side], "kept-" + side)
        os.mkdir(folder)
        for work in ("create", "fill", "stat", "list"):
            sides.name_load(work, folder, KEPT)
        return folder

    def bind(work, times, side):
        def measure(_number):
            rate, done = sides.name_load(work, known(side), KEPT, times)
            return Sample(done, {"rate": rate})
        return measure

    # An open is a request always: what may be asked of it is mergerfs's.
    for row, work, times, native in (("stat", "stat", 10, 0.8),
                                     ("open, read, close", "open", 2, None),
                                     ("listing", "list", 20, 1.0)):
        yield Case(f"known names: {row}", {side: bind(work, times, side) for side in path},
                   {"native": "ext4 itself", "mergerfs": merger_name},
                   [Goal("rate", "1/s", "native", ">=", native),
                    Goal("rate", "1/s", "mergerfs", ">=", 1.0)])


def branches_case(place, merger_name):
    """The same on 2 branches and on very many."""
    point = place.folder("placed")

    @functools.cache
    def branches(count):
        return [sides.memory_branch(place, f"placed-{count}-{i}", "16M") for i in range(count)]

    def bind(make, options, count):
        def measure(_number):
            argv = make(branches(count), point, options)
            path = os.path.join(point, "folder")
            figures, done = {}, 0
            for metric, work in (("create", "create"), ("lookup", "stat"), ("absent", "absent")):
                with sides.mounted(argv, point):
                    os.makedirs(path, exist_ok=True)
                    rate, n = sides.name_load(work, path, PLACED)
                    figures[metric], done = 1e6 / rate, done + n
            rates = []
            for _ in range(5):
                with sides.mounted(argv, point):
                    rate, n = sides.name_load("list", path, PLACED)
                    rates.append(rate)
                    done += n
            figures["listing"] = sum(1e6 / rate for rate in rates) / len(rates)
            for branch in branches(count):
                shutil.rmtree(os.path.join(branch, "folder"), ignore_errors=True)
            return Sample(done, figures)
        return measure

    goals = []
    for metric in ("create", "lookup", "absent", "listing"):
        goals += [Goal(metric, "us/name", "two", "<=", 1.2),
                  Goal(metric, "us/name", "mergerfs", "<="),
                  Goal(metric, "us/name", "mergerfs two", "<=", side="mergerfs")]
    pfrd = "category.create=pfrd" + sides.TUNED
    return Case(f"{BRANCHES} branches", {
        "ours": bind(sides.ours, "survive=yes", BRANCHES),
        "two": bind(sides.ours, "survive=yes", 2),
        "mergerfs": bind(sides.mergerfs, pfrd, BRANCHES),
        "mergerfs two": bind(sides.mergerfs, pfrd, 2)},
        {"two": "2 branches", "mergerfs": merger_name, "mergerfs two": "mergerfs of 2"}, goals, 3)


def _resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


def million(place):
    """What the server keeps of a million names that were looked up."""
    point = place.folder("million")
    half = {}

    def look_up(_number):
        branches = [sides.memory_branch(place, f"million-{i}") for i in (1, 2)]
        for i in range(FOLDERS):
            folder = os.path.join(branches[i % 2], f"folder-{i}")
            os.mkdir(folder)
            sides.name_load("create", folder, MILLION // FOLDERS)
        with sides.mounted(sides.ours(branches, point), point) as first:
            pid = sides.server_of(first)
            for i in range(FOLDERS):
                sides.name_load("stat", os.path.join(point, f"folder-{i}"), MILLION // FOLDERS)
                if i == FOLDERS // 2:
                    half["open"] = len(os.listdir(f"/proc/{pid}/fd"))
            return Sample("asked", {"memory": _resident_mib(pid),
                                    "descriptors": len(os.listdir(f"/proc/{pid}/fd"))})

    return Case("a million names", {
        "ours": look_up,
        "asked": lambda _number: Sample("asked", {"memory": MEMORY_MIB,
                                                  "descriptors": half["open"]})},
        {"asked": "asked for; of half of them"},
        # Descriptors of directories are kept, up to a number.
        [Goal("memory", "MiB", "asked", "<=", 1.0), Goal("descriptors", "", "asked", "<=", 1.1)],
        1, warm=False)


def cases(place, merger_name):
    yield from kept(place, merger_name)
    yield branches_case(place, merger_name)
    yield life(place, merger_name)
    yield million(place)
