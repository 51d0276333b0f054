# SPDX-License-Identifier: Apache-2.0
"""Facts of the machine, without which a figure means nothing."""
import datetime
import os
import subprocess

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def _value(path, key):
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith(key):
                return line.split(":", 1)[1].strip()
    return "unknown"


def _commit():
    try:
        return subprocess.run(
            ["git", "-C", TOP, "describe", "--always", "--dirty"],
            check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def megahertz():
    """What the processors run at now; None where that is not told."""
    with open("/proc/cpuinfo", encoding="utf-8") as f:
        values = [float(line.split(":")[1]) for line in f if line.startswith("cpu MHz")]
    return round(sum(values) / len(values)) if values else None


def facts():
    return {
        "kernel": os.uname().release,
        "cpu": _value("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "virtual": "hypervisor" in _value("/proc/cpuinfo", "flags").split(),
        "memory_kib": int(_value("/proc/meminfo", "MemTotal").split()[0]),
        "megahertz": megahertz(),
        "load_before": os.getloadavg(),
        "date": datetime.datetime.now(datetime.timezone.utc)
                .isoformat(timespec="seconds"),
        "commit": _commit(),
    }
