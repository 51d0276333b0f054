# SPDX-License-Identifier: Apache-2.0
"""Two runs (harness/document.py), row by row."""
import dataclasses
import math
import typing

from harness import table

# The expected range of so many normal values, in standard deviations (statistical
# process control calls it d2), from 2 on; more count as the last.
RANGE = (1.128, 1.693, 2.059, 2.326, 2.534, 2.704, 2.847, 2.970, 3.078, 3.173, 3.258, 3.336,
         3.407, 3.472, 3.532, 3.588, 3.640, 3.689, 3.735)
# The standard error of a median beside that of a mean.
MEDIAN = 1.2533
# So many standard errors are between two equal runs at most in 99 of 100 (simulated,
# normal values): the fewer rounds, the less is known of their spread. 4 and more: last.
FACTOR = {2: 6.4, 3: 3.4}
FACTOR_MORE = 2.8
# What two runs differ by in any case: where code and memory happen to lie.
LEAST = 0.02

VERDICTS = ("better", "worse", "same", "unclear", "other peer")


@dataclasses.dataclass(frozen=True)
class Change:
    """Of one row. Changes are in parts of the old (0.1 is 10 % more); None where one
    of the two is 0 or less."""
    old: dict
    new: dict
    ratio: typing.Optional[float]
    ours: typing.Optional[float]
    noise: typing.Optional[float]  # by how much the ratios of equal runs may differ
    verdict: str


def _change(old, new):
    return new / old - 1 if old > 0 and new > 0 else None


def _error(row):
    """The standard error of the logarithm of its ratio, and how many rounds tell it."""
    low, high, rounds = row["ratio_min"], row["ratio_max"], row["rounds"]
    if rounds < 2 or low <= 0 or high < low:
        return None
    spread = math.log(high / low) / RANGE[min(rounds, len(RANGE) + 1) - 2]
    return MEDIAN * spread / math.sqrt(rounds)


def noise(old, new):
    """Changes of the ratio of up to this, in logarithms, say nothing; None where it
    is not known, as there was one round."""
    errors = [_error(old), _error(new)]
    if None in errors:
        return None
    factor = FACTOR.get(min(old["rounds"], new["rounds"]), FACTOR_MORE)
    return max(factor * math.hypot(*errors), LEAST)


def _compare(old, new):
    ratio, ours = _change(old["ratio"], new["ratio"]), _change(old["ours"], new["ours"])
    if old["peer_name"] != new["peer_name"]:
        return Change(old, new, None, ours, None, "other peer")
    most = noise(old, new)
    if ratio is None or most is None:
        verdict = "unclear"
    elif abs(math.log1p(ratio)) <= most:
        verdict = "same"
    else:
        verdict = "better" if (ratio > 0) == (new["better"] == "more") else "worse"
    return Change(old, new, ratio, ours, None if most is None else math.expm1(min(most, 100)), verdict)


def _pair(old, new, key):
    """Takes rows of equal key out of both lists, the first with the first."""
    theirs = table.of_each(new, key)
    for row in old[:]:
        if same := theirs.get(key(row)):
            found = same.pop(0)
            old.remove(row)
            new.remove(found)
            yield row, found


def compare(old, new):
    """Changes in the old run's order; the rows that only it, and only the new one, has.
    Where the peer is another one (the best of several is), nothing is said of the ratio."""
    alone, more = _Rows(old["rows"]), _Rows(new["rows"])
    order = {id(row): i for i, row in enumerate(alone)}
    work = lambda r: (r["suite"], r["row"], r["metric"], r["unit"])  # noqa: E731
    pairs = list(_pair(alone, more, lambda r: (*work(r), r["peer_name"])))
    pairs += _pair(alone, more, lambda r: (*work(r), r["goal"]))
    pairs.sort(key=lambda pair: order[id(pair[0])])
    return [_compare(*pair) for pair in pairs], list(alone), list(more)


class _Rows(list):
    """Rows are told apart by what they are, not by what they say."""

    def remove(self, row):
        del self[next(i for i, one in enumerate(self) if one is row)]


def _percent(change):
    return "?" if change is None else f"{change * 100:+.0f} %" if abs(change) < 100 else "> 100 x"


HEAD = ["row", "metric", "peer is", "ratio", "now", "change", "noise", "ours", "now", "change", ""]
WIDTHS = [32, 10, 26, 7, 7, 8, 7, 9, 9, 8, 0]
NUMBERS = {3, 4, 5, 6, 7, 8, 9}


def _cells(change):
    old, new = change.old, change.new
    peer = old["peer_name"]
    if peer != new["peer_name"]:
        peer = f"{peer}, now {new['peer_name']}"
    return [old["row"], old["metric"], peer, table.ratio(old["ratio"]), table.ratio(new["ratio"]),
            _percent(change.ratio), "?" if change.noise is None else "±" + _percent(change.noise)[1:],
            table.number(old["ours"]), table.number(new["ours"]), _percent(change.ours),
            (change.verdict.upper() if change.verdict == "worse" else change.verdict)
            + (", disturbed" if old["still_disturbed"] or new["still_disturbed"] else "")]


def text(old, new, found):
    """What a person reads of compare()'s @found."""
    changes, gone, more = found
    differ = [key for key in ("cpu", "cores", "kernel", "memory_kib")
              if old["machine"].get(key) != new["machine"].get(key)]
    if differ:
        yield "the machines differ: " + "; ".join(
            f"{key} {old['machine'].get(key, '?')}, now {new['machine'].get(key, '?')}" for key in differ)
    for suite, of in table.of_each(changes, lambda c: c.old["suite"]).items():
        yield f"\n{suite}"
        yield table.columns(HEAD, WIDTHS, NUMBERS)
        for change in of:
            yield table.columns(_cells(change), WIDTHS, NUMBERS)
    for which, rows in (("old", gone), ("new", more)):
        if rows:
            yield f"\nonly in the {which} run"
            for row in rows:
                yield f"  {row['suite']}: {row['row']}, {row['metric']}, {row['peer_name']}"
    counts = [(word, sum(c.verdict == word for c in changes)) for word in VERDICTS]
    yield f"\n{len(changes)} rows: " + ", ".join(f"{n} {word}" for word, n in counts if n or
                                                 word in VERDICTS[:3]) + (
        f"; {len(gone)} only in the old run, {len(more)} only in the new" if gone or more else "")
