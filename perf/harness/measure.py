# SPDX-License-Identifier: Apache-2.0
"""Interleaved rounds, and the rows that come of them."""
import dataclasses
import math
import statistics
import sys
import typing

from harness.scratch import Failed


@dataclasses.dataclass(frozen=True)
class Sample:
    """One measurement of one side."""
    work: typing.Any  # what was done; equal on all sides of a round
    figures: dict     # metric name -> number


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


def _round(case, number, samples):
    """Every side once. Odd rounds go the other way round, so that no side
    always comes after the same one."""
    order = list(case.sides)
    if number % 2:
        order.reverse()
    for side in order:
        sample = case.sides[side](number)
        samples[side].append(sample)
        if sample.work != samples[order[0]][-1].work:
            raise Failed(f"{case.row}: {side} and {order[0]} did not do the same "
                         f"work: {sample.work} and {samples[order[0]][-1].work}")


def _peer(case, goal, figures):
    """The peer's name; of several, whose figure is the best."""
    peers = case.names if goal.peer == "best" else goal.peer
    if isinstance(peers, str):
        return peers
    pick = {"median": statistics.median, "min": min}[goal.pick]
    best = max if goal.sense == ">=" else min
    return best(peers, key=lambda side: pick(figures[side]))


def _row(suite, case, goal, samples):
    figures = {side: [s.figures[goal.metric] for s in all_of]
               for side, all_of in samples.items()}
    name = _peer(case, goal, figures)
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
    return {
        "suite": suite, "row": row, "metric": goal.metric, "unit": goal.unit,
        "ours": pick(ours), "peer": pick(peer),
        "peer_name": case.names[name], "ratio": ratio,
        "goal": "none" if goal.ratio is None else f"{goal.sense} {goal.ratio:g}",
        "met": goal.met(ratio),
        "margin_percent": goal.margin(ratio), "rounds": len(ratios),
        "ratio_min": min(ratios), "ratio_max": max(ratios),
        "better": "more" if goal.sense == ">=" else "less", "pick": goal.pick,
        "sides": {side: {"name": case.names.get(side, side), "values": values}
                  for side, values in figures.items()},
    }


def cases(suite, all_cases, rounds):
    """For each case, once it is measured, its rows: after one round that does
    not count, to warm both sides up, come the rounds."""
    for case in all_cases:
        if case.warm:
            for side in case.sides.values():
                side(-1)
        samples = {side: [] for side in case.sides}
        times = min(rounds, case.rounds or rounds)
        for number in range(times):
            if sys.stdout.isatty():
                print(f"\r  {case.row}: round {number + 1} of {times} ",
                      end="", flush=True)
            _round(case, number, samples)
        if sys.stdout.isatty():
            print("\r\033[K", end="")
        yield [_row(suite, case, goal, samples) for goal in case.goals]
