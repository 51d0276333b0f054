# SPDX-License-Identifier: Apache-2.0
"""A run's rows as Markdown; docs/performance.md has its tables from here."""
import re
import shlex

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


def _where(document, rows):
    """When, on what and by which command: what a figure means nothing without."""
    facts = document["machine"]
    parts = [facts["date"][:10]] if facts.get("date") else []
    if facts.get("cpu"):
        parts.append((f"{facts['cores']} cores of " if facts.get("cores") else "") + facts["cpu"])
    parts += [f"{key} {facts[key]}" for key in ("kernel", "commit") if facts.get(key)]
    if facts.get("load_before"):
        parts.append("load " + facts["load_before"].split(",")[0])
    goals = [row["met"] for row in rows if row["met"] is not None]
    return (_cell(", ".join(parts)) + f", `{command(document)}`: "
            f"{sum(goals)} of {len(goals)} goals are met.").lstrip(", ")


def command(document):
    """What a person types to do it again."""
    words = document["command"] or ["perf/run", *dict.fromkeys(r["suite"] for r in document["rows"])]
    return shlex.join(words)


def of_suite(document, rows):
    """One suite: a line of where its rows were measured, and their table."""
    columns, lines = COLUMNS[:], []
    published = any(row["published"] is not None for row in rows)
    if published:
        columns.insert(7, "published:")
    for row in rows:
        verdict = table.verdict(row)
        line = [_cell(row["row"]), _cell(table.what_of(row)), table.number(row["ours"]),
                table.number(row["peer"]), _cell(row["peer_name"]), table.ratio(row["ratio"]),
                f"{table.ratio(row['ratio_min'])}–{table.ratio(row['ratio_max'])}"
                + (" !" if row["still_disturbed"] else ""),
                table.goal_of(row), f"**{verdict.lower()}**" if row["met"] is False else verdict]
        if published:
            line.insert(7, "" if row["published"] is None else table.ratio(row["published"]))
        lines.append(line)
    return f"{_where(document, rows)}\n\n" + "\n".join(_lines(columns, lines)) + "\n"


def suites(document):
    """What is said of each suite, by its name."""
    return {suite: of_suite(document, rows) for suite, rows in
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
        return f"{match.group(1)}\n\n{found[match.group(2)]}\n{match.group(3)}"

    return re.sub(r"(<!-- perf/report (\S+) -->)\n(?:(?!<!-- ).*\n)*?(<!-- end -->)", put, text), count
