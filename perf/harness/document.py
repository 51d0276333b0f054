# SPDX-License-Identifier: Apache-2.0
"""The JSON document of a run: what it must have, and what it may.

    {"schema": 2, "command": [word, ...], "machine": {name: value}, "rows": [row, ...],
     "hosts": [{name: value}, ...], "skipped": [{"what": text, "why": text}, ...]}

Of a row ROW is required, MORE may be missing or null. load() refuses all else with
BadDocument, which says where, so whoever draws or compares needs no further check:
numbers are finite, texts may be shown (no control characters), and what was
missing is there as None."""
import json
import re
import sys

SCHEMA = 2
TEXT_MAX = 500      # characters; more is cut off
NUMBER_MAX = 1e15   # of any unit here; more is no measurement
ROWS_MAX = 5_000

# What XML and a terminal cannot show: control characters, halves of surrogate pairs.
UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

# Units of which less is better, where the row does not say.
LESS_IS_BETTER = re.compile(r"[nuµm]?s(/|$)|[KMG]i?B$")


class BadDocument(Exception):
    """It is not what perf/run writes; what is wrong, and where."""

    def __init__(self, text):
        super().__init__(UNSHOWN.sub("\ufffd", text))


def _kind(value):
    return {dict: "an object", list: "a list", str: "a text", bool: "true or false",
            type(None): "null"}.get(type(value), "a number")


def _text(value, where):
    if not isinstance(value, str):
        raise BadDocument(f"{where} is {_kind(value)}, not a text")
    if len(value) > TEXT_MAX:
        value = value[:TEXT_MAX] + "…"
    return UNSHOWN.sub("\ufffd", re.sub(r"[\n\r\t]", " ", value))


def _name(value, where):
    """A text that is not empty."""
    if not (value := _text(value, where)).strip():
        raise BadDocument(f"{where} is empty")
    return value


def _number(value, where):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise BadDocument(f"{where} is {_kind(value)}, not a number")
    if not -NUMBER_MAX <= value <= NUMBER_MAX:  # so is a NaN
        raise BadDocument(f"{where} is no measurement: {str(value)[:40]}")
    return float(value)


def _positive(value, where):
    if (value := _number(value, where)) < 0:
        raise BadDocument(f"{where} is less than 0: {value:g}")
    return value


def _count(value, where):
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
        raise BadDocument(f"{where} is no count: {str(value)[:40]}")
    return value


def _verdict(value, where):
    if value is not None and not isinstance(value, bool):
        raise BadDocument(f"{where} is {_kind(value)}, not true, false or null")
    return value


def _goal(value, where):
    if not re.fullmatch(r"none|[<>]= [0-9.e+-]+", value := _text(value, where)):
        raise BadDocument(f"{where} is no goal: '{value[:40]}'")
    return value


def _word(*words):
    def check(value, where):
        if not isinstance(value, str) or value not in words:
            raise BadDocument(f"{where} is none of {', '.join(words)}")
        return value
    return check


def _list(of, least=0):
    def check(value, where):
        if not isinstance(value, list):
            raise BadDocument(f"{where} is {_kind(value)}, not a list")
        if len(value) < least:
            raise BadDocument(f"{where} has {len(value)} of at least {least}")
        return [of(one, f"{where}[{i}]") for i, one in enumerate(value)]
    return check


def _pair(first, second):
    def check(value, where):
        if not isinstance(value, list) or len(value) != 2:
            raise BadDocument(f"{where} is no pair")
        return (first(value[0], where + "[0]"), second(value[1], where + "[1]"))
    return check


def _map(of):
    """By name, in the document's order."""
    def check(value, where):
        if not isinstance(value, dict):
            raise BadDocument(f"{where} is {_kind(value)}, not an object")
        return {_name(key, f"a name in {where}"): of(one, f"{where}.{key[:40]}")
                for key, one in value.items()}
    return check


def _or_null(of):
    return lambda value, where: None if value is None else of(value, where)


def _object(required, more=()):
    def check(value, where):
        if not isinstance(value, dict):
            raise BadDocument(f"{where} is {_kind(value)}, not an object")
        for key in required:
            if key not in value:
                raise BadDocument(f"{where} has no '{key}'")
        found = {key: of(value[key], f"{where}.{key}") for key, of in dict(required).items()}
        found.update({key: _or_null(of)(value.get(key), f"{where}.{key}")
                      for key, of in dict(more).items()})
        return found
    return check


def _fact(value, where):
    """Of a machine: whatever was found, as a text."""
    if isinstance(value, (dict, list)):
        parts = value.items() if isinstance(value, dict) else ((None, one) for one in value)
        return _text(", ".join(("" if key is None else f"{key} ") + _fact(one, where)
                               for key, one in parts), where)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        value = _number(value, where)
        return f"{value:.0f}" if value.is_integer() else f"{value:.4g}"
    return "unknown" if value is None else _text(value, where)


ROW = {
    "suite": _name, "row": _name, "metric": _name, "unit": _text,
    "ours": _number, "peer": _number, "peer_name": _name,
    "ratio": _number, "ratio_min": _number, "ratio_max": _number, "rounds": _count,
    "goal": _goal, "met": _verdict, "margin_percent": _or_null(_number),
}
MORE = {
    "case": _name,          # the piece of work; rows differ in whose figure, and beside whom
    "group": _name,         # the question that the row answers
    "better": _word("more", "less"),    # of the metric
    "pick": _word("median", "min"),     # what stands for all rounds of a side
    "at": _object({"name": _name, "value": _number}),
    "sides": _map(_object({"name": _name, "values": _list(_number, 1)})),
    "latency": _map(_map(_positive)),                # side, percentile: microseconds
    "timelines": _map(_list(_pair(_number, _positive), 1)),  # side: seconds, figure
    "events": _list(_pair(_number, _name)),
    "published": _number,   # the multiple that others published
    "disturbed": _count,    # rounds that were repeated, as something else ran
    "still_disturbed": _count,  # rounds that count, though something else ran
    "cpu": _map(_map(_positive)),   # side, "client" or "server": seconds for each GiB
    "load": _positive, "megahertz": _positive,  # after the last round
    "seconds": _positive,   # that the case took, with what it had to set up
    "note": _text,
}
DOCUMENT = _object(
    {"machine": _map(_fact), "rows": _list(_object(ROW, MORE))},
    {"command": _list(_text), "hosts": _list(_map(_fact)),
     "skipped": _list(_object({"what": _name, "why": _text}))})


def _not_finite(word):
    raise BadDocument(f"a number is {word}")


def parse(data, name):
    """Of the bytes @data of the file @name."""
    if not data.strip():
        raise BadDocument(f"{name} is empty")
    try:
        whole = json.loads(data.decode("utf-8"), parse_constant=_not_finite)
    except UnicodeDecodeError as e:
        raise BadDocument(f"{name} is not JSON: {e.reason} at byte {e.start}") from e
    except BadDocument as e:
        raise BadDocument(f"{name}: {e}") from e
    except RecursionError as e:
        raise BadDocument(f"{name} is nested too deeply") from e
    except ValueError as e:  # and a number of more digits than Python takes
        raise BadDocument(f"{name} is not JSON: {e}") from e
    if not isinstance(whole, dict):
        raise BadDocument(f"{name} is {_kind(whole)}, not a run of perf/run")
    if (schema := whole.get("schema")) != SCHEMA or isinstance(schema, bool):
        raise BadDocument(f"{name}: its schema is {str(schema)[:40]}; this reads {SCHEMA}")
    if isinstance(rows := whole.get("rows"), list) and len(rows) > ROWS_MAX:
        raise BadDocument(f"{name}: more than {ROWS_MAX} rows")
    try:
        found = DOCUMENT(whole, name)
    except RecursionError as e:
        raise BadDocument(f"{name} is nested too deeply") from e
    for row in found["rows"]:
        row["better"] = row["better"] or _better(row)
        row["case"] = row["case"] or row["row"]
        row["group"] = row["group"] or row["case"]
    return found


def dump(whole):
    """The text of the document of a run."""
    return json.dumps({"schema": SCHEMA, **whole}, indent=1, allow_nan=False) + "\n"


def load(path):
    try:
        with open(sys.stdin.fileno() if path == "-" else path, "rb") as f:
            data = f.read()
    except OSError as e:
        raise BadDocument(f"cannot read {path}: {e.strerror}") from e
    return parse(data, path)


def _better(row):
    """Where the row does not say: its goal does, or else its unit."""
    if row["goal"] != "none":
        return "more" if row["goal"].startswith(">") else "less"
    return "less" if LESS_IS_BETTER.match(row["unit"]) else "more"
