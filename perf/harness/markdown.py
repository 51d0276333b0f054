# SPDX-License-Identifier: Apache-2.0
"""A run's rows as Markdown; docs/performance.md has its tables from here."""
import re

from harness import table

COLUMNS = ["row", "metric", "ours:", "peer:", "peer is", "ratio:", "of rounds:", "goal:", ""]


def _cell(text):
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", text)


def _lines(columns, lines):
    """@columns: names, of numbers with a ":" after it."""
    yield "| " + " | ".join(c.rstrip(":") for c in columns) + " |"
    yield "|" + "|".join("---:" if c.endswith(":") else "---" for c in columns) + "|"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def of_suite(rows):
    """The table of one suite's rows."""
    columns, lines = COLUMNS[:], []
    published = any(row["published"] is not None for row in rows)
    if published:
        columns.insert(7, "published:")
    for row in rows:
        verdict = table.verdict(row)
        line = [_cell(row["row"]), _cell(table.what_of(row)), table.number(row["ours"]),
                table.number(row["peer"]), _cell(row["peer_name"]), table.ratio(row["ratio"]),
                f"{table.ratio(row['ratio_min'])}–{table.ratio(row['ratio_max'])}",
                table.goal_of(row), f"**{verdict.lower()}**" if row["met"] is False else verdict]
        if published:
            line.insert(7, "" if row["published"] is None else table.ratio(row["published"]))
        lines.append(line)
    return "\n".join(_lines(columns, lines)) + "\n"


def suites(document):
    """Each suite's table by its name."""
    return {suite: of_suite(rows) for suite, rows in
            table.of_each(document["rows"], lambda row: row["suite"]).items()}


def page(document):
    return "\n".join(f"**`{suite}`**\n\n{text}" for suite, text in suites(document).items())


def into(text, document):
    """The page @text with the suites' tables between their lines <!-- perf/report
    SUITE --> and <!-- end -->, and how many it has."""
    found, count = suites(document), 0

    def put(match):
        nonlocal count
        if match.group(2) not in found:
            return match.group()
        count += 1
        return f"{match.group(1)}\n{found[match.group(2)]}{match.group(3)}"

    return re.sub(r"(<!-- perf/report (\S+) -->)\n(?:(?!<!-- ).*\n)*?(<!-- end -->)", put, text), count
