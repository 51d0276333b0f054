# SPDX-License-Identifier: Apache-2.0
"""Whether something else ran while a side was measured: processor time in user
mode that is none of ours, and what the hypervisor took (steal).

What is ours is found by kinship, or by our folder in a command. The kernel's own
threads have no time in user mode, so what they do for us is not mistaken.
"""
import os
import time

from harness.scratch import BUILD, TICK

# Of all processors' time, and no less than this: it is counted in ticks of 10 ms.
DISTURBED, LEAST_S = 0.05, 0.05
OURS = os.path.join(BUILD, "perf", "").encode()


def _processes():
    """Process id -> parent, seconds in user mode (also of its ended children), ours by name."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{name}/cmdline", "rb") as f:
                named = OURS in f.read()
        except OSError:
            continue
        found[int(name)] = (int(fields[1]), (int(fields[11]) + int(fields[13])) / TICK, named)
    return found


def _ours():
    """Seconds in user mode of each process of ours."""
    found, mine = _processes(), {os.getpid()}
    mine |= {pid for pid, one in found.items() if one[2]}
    while more := {pid for pid, one in found.items() if one[0] in mine} - mine:
        mine |= more
    return {pid: found[pid][1] for pid in mine if pid in found}


def _machine():
    """Seconds in user mode and stolen, of all processors."""
    with open("/proc/stat", encoding="ascii") as f:
        user, nice, _, _, _, _, _, steal = map(int, f.readline().split()[1:9])
    return (user + nice + steal) / TICK


class Watch:
    """From its making to others()."""

    def __init__(self):
        self.ours, self.machine, self.start = _ours(), _machine(), time.monotonic()

    def others(self):
        """The part of all processors' time that something else had."""
        now, whole = _ours(), time.monotonic() - self.start
        ours = sum(max(0, used - self.ours.get(pid, 0)) for pid, used in now.items())
        return max(0, _machine() - self.machine - ours) / (whole * os.cpu_count())

    def disturbed(self):
        whole = (time.monotonic() - self.start) * os.cpu_count()
        return self.others() > max(DISTURBED, LEAST_S / max(whole, 1e-3))

