# SPDX-License-Identifier: Apache-2.0
"""What is done in a directory of a host: fio, by the files in perf/jobs/.

A work is a function of host, directory and round that returns a Sample. A side is
where it is done; side_of() makes a side of a case of both, whose sample tells the
processor time of both ends for each GiB, too."""
import dataclasses
import functools
import json
import os
import re
import typing

from harness.measure import Sample
from harness.scratch import Failed

JOBS = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "jobs")
DATA = "perf-data"  # the file that most jobs work on
PERCENTILES = {"1.000000": "p1", "5.000000": "p5", "50.000000": "p50", "90.000000": "p90",
               "99.000000": "p99", "99.900000": "p99.9"}
OPERATIONS = ("read", "write")

# What the page cache has of the large files there is written back and dropped; nobody else's.
COOL = """
find "$@" -type f -size +64k -exec dd of={} oflag=nocache conv=notrunc,fdatasync count=0 \
	status=none ';'
"""


@dataclasses.dataclass(frozen=True)
class Side:
    """A directory of a host. @title is what a reader calls it."""
    title: str
    host: typing.Any
    directory: str
    # [host, files or folders] whose pages leave the cache before each round.
    behind: tuple = ()
    # Functions that return process ids, of @host; and [host, process id] of those that serve it.
    clients: typing.Callable = lambda: []
    servers: typing.Callable = lambda: []


def job_text(name, **values):
    """perf/jobs/NAME.fio with other values of what it sets."""
    with open(os.path.join(JOBS, name + ".fio"), encoding="utf-8") as f:
        text = f.read()
    for key, value in values.items():
        text, found = re.subn(rf"^{key}=.*$", f"{key}={value}", text, flags=re.MULTILINE)
        if not found:
            raise Failed(f"perf/jobs/{name}.fio sets no {key}")
    return text


def run_job(host, directory, name, seed=0, **values):
    """fio's own account of the job. @values change lines of its file, as _job_text()."""
    path = host.path(f"{name}.fio")
    host.write(path, job_text(name, **values))
    said = host.script('cd "$1" && DIRECTORY=$2 exec fio --randseed="$3" --output-format=json "$4"',
                       host.base, directory, str(seed + 2), path, timeout=1800)
    job = json.loads(said[said.index("{"):])["jobs"][0]
    if job["error"]:
        raise Failed(f"{host.name}: {name}.fio in {directory}: error {job['error']}")
    return job


def _latency(whole):
    """Of whole requests, from before they are handed to the kernel: that may be where they wait."""
    found = {PERCENTILES[key]: value / 1e3 for key, value in whole["percentile"].items()
             if key in PERCENTILES}
    return {**found, "max": whole["max"] / 1e3}


def figures(job):
    """Of all that was read and written: MB/s, operations a second, mean and longest latency."""
    count = sum(job[one]["total_ios"] for one in OPERATIONS)
    if not count:
        raise Failed("fio did nothing")
    return {"bandwidth": sum(job[one]["bw_bytes"] for one in OPERATIONS) / 1e6,
            "rate": sum(job[one]["iops"] for one in OPERATIONS),
            "latency": sum(job[one]["lat_ns"]["mean"] * job[one]["total_ios"]
                           for one in OPERATIONS) / count / 1e3,
            "longest": max(job[one]["lat_ns"]["max"] for one in OPERATIONS) / 1e6}


def _cpu_and_bytes(job):
    seconds = job["job_runtime"] / 1e3  # of all jobs: the percentages are their mean
    return ((job["usr_cpu"] + job["sys_cpu"]) / 100 * seconds,
            sum(job[one]["io_bytes"] for one in OPERATIONS))


def fio(name, **values):
    """The work of perf/jobs/NAME.fio with other values of what it sets. One on the file that
    most work on sees to it that it is there, and needs its size."""
    on_data = f"filename={DATA}" in job_text(name, **values)

    def work(host, directory, number):
        if on_data:
            _has_data(host, directory, values["size"])
        job = run_job(host, directory, name, number, **values)
        synced = job["sync"]["lat_ns"].get("N", 0) > 0
        most = max(OPERATIONS, key=lambda one: job[one]["total_ios"])
        latency = _latency(job["sync" if synced else most]["lat_ns"])
        found = figures(job)
        if synced:
            found["latency"] = job["sync"]["lat_ns"]["mean"] / 1e3
        cpu, done = _cpu_and_bytes(job)
        return Sample((name, *sorted(values.items())), {**found, "p99": latency["p99"]}, latency,
                      cpu={"client": cpu, "bytes": done})
    return work


@functools.cache
def _has_data(host, directory, size):
    if not host.script('[ ! -e "$1" ] || echo yes', f"{directory}/{DATA}"):
        run_job(host, directory, "layout", size=size)


def lay_out(side, size):
    """The file that most jobs work on, of @size bytes."""
    _has_data(side.host, side.directory, size)


def check(side, size):
    """Failed() unless all of it is what was written."""
    run_job(side.host, side.directory, "verify", size=size)


def cool(side):
    for host, *paths in side.behind:
        host.script(COOL, *paths)


def _seconds(side):
    """Of processor time, so far: its clients, its servers."""
    by_host = {}
    for host, pid in side.servers():
        by_host.setdefault(host, []).append(pid)
    clients = side.clients()
    return (side.host.cpu_seconds(clients) if clients else 0,
            sum(host.cpu_seconds(pids) for host, pids in by_host.items()))


def side_of(side, work):
    """A side of a case: the work there, with what it cost both ends. @side may be a function
    that makes it, which is called when it is first needed."""
    def measure(number):
        here = side() if callable(side) else side
        cool(here)
        client, server = _seconds(here)
        sample = work(here.host, here.directory, number)
        if not sample.cpu:
            return sample
        after = _seconds(here)
        gib = sample.cpu["bytes"] / (1 << 30)
        cpu = {"client": (sample.cpu["client"] + after[0] - client) / gib,
               "server": (after[1] - server) / gib}
        return dataclasses.replace(
            sample, cpu=cpu, figures={**sample.figures, **{"cpu " + end: value for end, value
                                                           in cpu.items()}})
    return measure
