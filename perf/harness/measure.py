# SPDX-License-Identifier: Apache-2.0
"""Interleaved rounds, and the rows that come of them."""
import dataclasses
import math
import os
import statistics
import sys
import time
import typing

from harness import machine, quiet
from harness.scratch import CannotRun, Failed


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement of one side."""
    work: typing.Any  # what was done; equal on all sides of a round
    figures: dict     # metric name -> number
    latency: typing.Optional[dict] = None   # "p50", "p99"..., "max" -> µs
    timeline: typing.Optional[list] = None  # [second, MB/s or operations/s]
    events: typing.Optional[list] = None    # [second of the timeline, what was done]
    cpu: typing.Optional[dict] = None       # "client", "server" -> seconds for each GiB


@dataclasses.dataclass(frozen=True)
class Goal:
    """What the ratio ours/peer of one metric shall be, against one peer, the
    best at it of several, or "best": of all. Without @ratio nothing is asked
    for."""
    metric: str
    unit: str
    peer: typing.Union[str, tuple]
    sense: str  # ">=" or "<="
    ratio: typing.Optional[float] = None
    # What stands for all rounds: "median", or "min" where what disturbs only
    # ever adds (processor time).
    pick: str = "median"
    side: str = "ours"  # whose figure it is; another's name is in the row
    published: typing.Optional[float] = None  # the ratio as somebody else published it

    def met(self, ratio):
        if self.ratio is None:
            return None
        return ratio >= self.ratio if self.sense == ">=" else ratio <= self.ratio

    def margin(self, ratio):
        """In percent of the goal; positive is better than asked."""
        if self.ratio is None:
            return None
        sign = 1 if self.sense == ">=" else -1
        return sign * 100 * (ratio - self.ratio) / self.ratio


@dataclasses.dataclass(frozen=True)
class Case:
    """One piece of work, done by every side in every round."""
    row: str
    sides: dict       # side name -> function(round) -> Sample; "ours" is one
    names: dict       # peer -> what it is, with its version
    goals: list
    rounds: int = 0   # at most, where one takes long; 0: the suite's
    warm: bool = True  # a round before that does not count
    seconds: float = math.inf  # for rounds after the first: none begins later
    group: str = ""    # the question that it answers; the row, when not said
    # {"name": "queue depth", "value": 32}: cases of one group are a curve along it.
    at: typing.Optional[dict] = None


class _Rounds:
    """Those of one case: a sample a round of each side, and how they were disturbed. A
    side that can't do it, which none of ours is, is left out from then on."""

    def __init__(self, case, times, repeats, skip, end):
        self.case, self.skip, self.sides = case, skip, dict(case.sides)
        start = time.monotonic()
        self.samples = {side: [] for side in case.sides}
        self.repeated = self.disturbed = 0
        if case.warm:
            for side in case.sides:
                self._sample(side, -1)
        for number in range(times):
            if number and time.monotonic() > end:
                break
            if sys.stdout.isatty():
                print(f"\r  {case.row}: round {number + 1} of {times} ", end="", flush=True)
            found, disturbed = self._round(number)
            if not number:  # which sets its sides up
                end = min(end, time.monotonic() + case.seconds)
            while disturbed and self.repeated < repeats and time.monotonic() < end:
                self.repeated += 1
                found, disturbed = self._round(number)
            self.disturbed += disturbed
            for side, sample in found.items():
                self.samples[side].append(sample)
        if sys.stdout.isatty():
            print("\r\033[K", end="")
        self.samples = {side: self.samples[side] for side in self.sides}
        self.seconds = time.monotonic() - start
        self.load, self.megahertz = os.getloadavg()[0], machine.megahertz()

    def _sample(self, side, number):
        """None, when this side can't do it."""
        try:
            return self.sides[side](number)
        except CannotRun as e:
            if any(goal.side == side for goal in self.case.goals):
                raise
            self.skip(f"{self.case.row}: {self.case.names[side]}", str(e))
            del self.sides[side]
            return None

    def _round(self, number):
        """A sample of every side, and whether something else ran meanwhile. Odd rounds go
        the other way round, so that no side always comes after the same one."""
        order, found, disturbed = list(self.sides), {}, False
        if number % 2:
            order.reverse()
        for side in order:
            watch = quiet.Watch()
            sample = self._sample(side, number)
            if not sample:
                continue
            disturbed |= watch.disturbed()
            first = next(iter(found), side)
            found[side] = sample
            if sample.work != found[first].work:
                raise Failed(f"{self.case.row}: {side} and {first} did not do the same "
                             f"work: {sample.work} and {found[first].work}")
        return found, disturbed

    def medians(self, field):
        """Of each side's samples that have such a dictionary, by its keys; or None."""
        found = {}
        for side, samples in self.samples.items():
            dicts = [getattr(s, field) for s in samples if getattr(s, field)]
            if dicts:
                found[side] = {key: statistics.median(one[key] for one in dicts)
                               for key in dicts[0]}
        return found or None

    def last(self, field):
        found = {side: getattr(samples[-1], field) for side, samples in self.samples.items()
                 if getattr(samples[-1], field)}
        return found or None


def _peer(case, goal, figures):
    """The peer's name; of several, whose figure is the best; None when there is none."""
    peers = case.names if goal.peer == "best" else goal.peer
    peers = [side for side in ([peers] if isinstance(peers, str) else peers) if side in figures]
    if not peers:
        return None
    pick = {"median": statistics.median, "min": min}[goal.pick]
    best = max if goal.sense == ">=" else min
    return best(peers, key=lambda side: pick(figures[side]))


def _row(suite, case, goal, rounds):
    figures = {side: [s.figures[goal.metric] for s in all_of]
               for side, all_of in rounds.samples.items()
               if goal.metric in all_of[0].figures}
    name = _peer(case, goal, figures)
    if not name:
        return None
    ours, peer = figures[goal.side], figures[name]
    if not all(math.isfinite(value) for of in figures.values() for value in of):
        raise Failed(f"{case.row}: {goal.metric} is no number: {figures}")
    if min(peer) <= 0:
        raise Failed(f"{case.row}: {name} measured {goal.metric} as 0; "
                     "the round is too short")
    ratios = [a / b for a, b in zip(ours, peer)]
    pick = {"median": statistics.median, "min": min}[goal.pick]
    ratio = statistics.median(ratios) if goal.pick == "median" else min(ours) / min(peer)
    row = case.row if goal.side == "ours" else f"{case.row}, {case.names[goal.side]}"
    events = rounds.last("events") or {}
    return {
        "suite": suite, "row": row, "metric": goal.metric, "unit": goal.unit,
        "ours": pick(ours), "peer": pick(peer),
        "peer_name": case.names[name], "ratio": ratio,
        "goal": "none" if goal.ratio is None else f"{goal.sense} {goal.ratio:g}",
        "met": goal.met(ratio),
        "margin_percent": goal.margin(ratio), "rounds": len(ratios),
        "ratio_min": min(ratios), "ratio_max": max(ratios),
        "better": "more" if goal.sense == ">=" else "less", "pick": goal.pick,
        "case": case.row, "group": case.group or case.row, "at": case.at,
        "sides": {side: {"name": case.names.get(side, side), "values": values}
                  for side, values in figures.items()},
        "latency": rounds.medians("latency"), "cpu": rounds.medians("cpu"),
        "timelines": rounds.last("timeline"), "events": events.get(goal.side),
        "published": goal.published,
        "disturbed": rounds.repeated, "still_disturbed": rounds.disturbed,
        "load": rounds.load, "megahertz": rounds.megahertz, "seconds": rounds.seconds,
    }


def _ignore(_what, _why):
    pass


def cases(suite, all_cases, rounds, repeats=0, skip=_ignore, fail=_ignore, minutes=math.inf):
    """For each case, once it is measured, its rows: after one round that does
    not count, to warm both sides up, come the rounds. At most @repeats of a case's
    are done again because something else ran. Who can't do it is told to @skip, and
    a case that fails to @fail: it has no rows, and the others have theirs. After so
    many @minutes no case begins."""
    end, before = time.monotonic() + 60 * minutes, "the start"
    for case in all_cases:
        if time.monotonic() > end:
            skip(f"what comes after {before}", f"{minutes:g} minutes are over; --minutes gives it more")
            return
        before = case.row
        try:
            measured = _Rounds(case, min(rounds, case.rounds or rounds), repeats, skip, end)
            rows = [row for row in (_row(suite, case, goal, measured) for goal in case.goals) if row]
        except Failed as e:
            fail(case.row, str(e))
            continue
        yield rows
