# SPDX-License-Identifier: Apache-2.0
"""What a person reads."""


def machine(facts):
    kind = "virtual machine" if facts["virtual"] else "machine"
    return (f"{kind}: {facts['cores']} cores of {facts['cpu']}, "
            f"{facts['memory_kib'] >> 20} GiB, kernel {facts['kernel']}, "
            f"load {facts['load_before'][0]:.1f}, commit {facts['commit']}")


def number(value):
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def ratio(value):
    return f"{value:.2f}" if abs(value) >= 0.095 or value == 0 else f"{value:.2g}"


def goal_of(row):
    return row["goal"].replace(">=", "≥").replace("<=", "≤")


def what_of(row):
    """The metric and its unit."""
    unit = row["unit"].replace("us", "µs", 1) if row["unit"].startswith("us") else row["unit"]
    return row["metric"] + (f", {unit}" if unit else "")


def of_each(rows, key):
    """Rows by key(row), in the order of their first."""
    found = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def verdict(row):
    """Of a row: is its goal met, and by how much; "" without one."""
    if row["met"] is None:
        return ""
    margin = "" if row["margin_percent"] is None else f" by {abs(row['margin_percent']):.0f} %"
    return ("met" if row["met"] else "MISSED") + margin


def _cells(row):
    published = f"; published {row['published']:g}" if row["published"] else ""
    disturbed = " !" if row["still_disturbed"] else ""
    return [row["row"], row["metric"], row["unit"], number(row["ours"]),
            number(row["peer"]), row["peer_name"] + published, f"{row['ratio']:.2f}",
            f"{row['ratio_min']:.2f}-{row['ratio_max']:.2f}{disturbed}", row["goal"], verdict(row)]


HEAD = ["row", "metric", "unit", "ours", "peer", "peer is", "ratio",
        "of rounds", "goal", ""]


# Rows are printed as they come: the columns of most of them line up.
WIDTHS = [32, 10, 8, 9, 9, 30, 5, 10, 6, 0]
NUMBERS = {3, 4, 6}


def columns(cells, widths, numbers):
    """One line; numbers are to the right of their column."""
    return "  " + "  ".join(
        cell.rjust(width) if i in numbers else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, widths))).rstrip()


def head():
    return columns(HEAD, WIDTHS, NUMBERS)


def line(row):
    return columns(_cells(row), WIDTHS, NUMBERS)


def disturbed(rows):
    """A sentence, where something else ran."""
    cases = {(row["suite"], row["group"], str(row["at"])): row for row in rows}.values()
    repeated = sum(row["disturbed"] for row in cases)
    left = sum(row["still_disturbed"] for row in cases)
    if not repeated and not left:
        return ""
    return (f"something else used the processors: {repeated} rounds were repeated, "
            f"{left} stayed disturbed (their rows have a !)")
