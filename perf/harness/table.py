# SPDX-License-Identifier: Apache-2.0
"""What a person reads."""


def machine(facts):
    kind = "virtual machine" if facts["virtual"] else "machine"
    return (f"{kind}: {facts['cores']} cores of {facts['cpu']}, "
            f"{facts['memory_kib'] >> 20} GiB, kernel {facts['kernel']}, "
            f"load {facts['load_before'][0]:.1f}, commit {facts['commit']}")


def _number(value):
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _cells(row):
    margin = row["margin_percent"]
    if row["met"] is None:
        verdict = ""
    else:
        verdict = f"met by {margin:.0f} %" if row["met"] else f"MISSED by {-margin:.0f} %"
    return [row["row"], row["metric"], row["unit"], _number(row["ours"]),
            _number(row["peer"]), row["peer_name"], f"{row['ratio']:.2f}",
            f"{row['ratio_min']:.2f}-{row['ratio_max']:.2f}", row["goal"], verdict]


HEAD = ["row", "metric", "unit", "ours", "peer", "peer is", "ratio",
        "of rounds", "goal", ""]


# Rows are printed as they come: the columns of most of them line up.
WIDTHS = [32, 10, 8, 9, 9, 30, 5, 10, 6, 0]
NUMBERS = {3, 4, 6}


def _line(cells):
    return "  " + "  ".join(
        cell.rjust(width) if i in NUMBERS else cell.ljust(width)
        for i, (cell, width) in enumerate(zip(cells, WIDTHS))).rstrip()


def head():
    return _line(HEAD)


def row(one):
    return _line(_cells(one))
