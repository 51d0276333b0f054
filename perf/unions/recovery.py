# SPDX-License-Identifier: Apache-2.0
"""A server that is killed: how long a request waits for the next one."""
import os
import signal
import time

from harness.measure import Case, Goal, Sample
from unions import sides

KILLS = 20
ASKED_MS = 100
FOLDER = 1_000  # files in one


def _wait_ms(supervisor, path):
    """From the kill to the answer to an open, which is a request always."""
    server = sides.server_of(supervisor)
    start = time.monotonic()
    os.kill(server, signal.SIGKILL)
    with open(path, "rb") as f:
        f.read(1)
    took = 1000 * (time.monotonic() - start)
    while sides.server_of(supervisor) in (server, supervisor):
        time.sleep(0.001)
    return took


def _killed(place, names):
    """The server is killed while the kernel knows so many names."""
    point = place.folder(f"recovery-{names}")

    def measure(number):
        branches = [sides.memory_branch(place, f"recovery-{names}-{number}-{i}") for i in (1, 2)]
        for i in range(names // FOLDER):
            folder = os.path.join(branches[i % 2], f"folder-{i}")
            os.mkdir(folder)
            sides.name_load("create", folder, FOLDER)
        argv = sides.ours(branches, point)
        with sides.mounted(argv, point) as supervisor:
            for i in range(names // FOLDER):
                sides.name_load("stat", os.path.join(point, f"folder-{i}"), FOLDER)
            with open(os.path.join(point, "file"), "wb") as f:
                f.write(b"1")
            took = [_wait_ms(supervisor, f.name) for _ in range(KILLS)]
            return Sample(KILLS, {"mean": sum(took) / KILLS, "worst": max(took)})
    return measure


def _case(place, names, goal):
    return Case(f"killed, {names:,} names known", {
        "ours": _killed(place, names),
        "asked": lambda _number: Sample(KILLS, {"mean": ASKED_MS, "worst": ASKED_MS})},
        {"asked": "asked for"},
        [Goal("mean", "ms", "asked", "<=", goal), Goal("worst", "ms", "asked", "<=", goal)],
        1, warm=False)


def cases(place):
    yield _case(place, 20_000, 1.0)
    yield _case(place, 1_000_000, None)  # its tables are built anew
