# SPDX-License-Identifier: Apache-2.0
"""What is done while something else happens to a volume: a timeline, what happened when,
and the longest that one request took."""
import concurrent.futures
import time

from harness.measure import Sample
from harness.scratch import Failed
from nodes import works

STEP_S = 0.1   # of a timeline: log_avg_msec of steady.fio


def _timeline(host, seconds):
    """Operations a second of each tenth of one; of what has none there is no line in the log."""
    lines = host.run(["cat", host.path("perf-steady_iops.1.log")]).split("\n")
    found = {}
    for line in filter(None, lines):
        at, rate = (int(word) for word in line.split(",")[:2])
        slot = int(at / 1e3 / STEP_S)
        found[slot] = found.get(slot, 0) + rate
    return [[round(slot * STEP_S, 1), found.get(slot, 0)]
            for slot in range(int(seconds / STEP_S))]


def beside(side, happens, seconds, size):
    """A side of a case: requests one at a time, and @happens(tell) a third of the way, which
    tells what it does as it does it."""
    def measure(number):
        here, events = side(), []
        works.cool(here)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            start = time.monotonic()
            job = pool.submit(works.run_job, here.host, here.directory, "steady", number,
                              size=size, runtime=seconds)
            try:
                time.sleep(seconds / 3)
                happens(number, lambda what: events.append(
                    [round(time.monotonic() - start, 2), what]))
            finally:
                done = job.result()
        if not events or events[-1][0] >= seconds:
            raise Failed(f"{events or 'nothing'}: not while it was measured")
        works.check(here, size)
        return Sample(("steady", seconds), works.figures(done),
                      timeline=_timeline(here.host, seconds), events=events)
    return measure


def asked(longest_ms, seconds):
    """The other side, where there is no peer."""
    return lambda _number: Sample(("steady", seconds), {"longest": longest_ms})


def restarts(node, client, signal, gone_s=0):
    """Its blockd ends, and is started again."""
    def happens(_number, tell):
        tell("blockd ends")
        node.end(signal)
        if gone_s:
            time.sleep(gone_s)
        node.start()
        client.trib("pool", "list", node.host.name)  # waits until it answers
        tell("blockd answers")
    return happens


def snapshot(volume, number_of):
    """Of a volume: cut, and deleted."""
    def happens(_number, tell):
        name = f"{volume().name}-{next(number_of)}"
        tell("snapshot is asked for")
        volume().client.trib("snapshot", "create", name, volume().name, "--quiet")
        tell("snapshot is cut")
        volume().client.trib("snapshot", "delete", name, "--quiet")
        tell("snapshot is deleted")
    return happens


def grow(volume, by):
    """By @by bytes more."""
    def happens(_number, tell):
        shown = volume().show()
        tell("growth is asked for")
        volume().client.trib("volume", "resize", volume().name, "--size",
                             str(shown["record"]["spec"]["capacity"] + by), "--quiet")
        tell("it has grown")
    return happens
