# SPDX-License-Identifier: Apache-2.0
"""One page of a run (harness/document.py): HTML with all that it needs in it. It is
built of elements, never of texts, so nothing that the document says can be taken for
a tag; and it is XML, too."""
import re
import statistics
import xml.etree.ElementTree as ET

from harness import markdown, plots, table

BLOCKS = 5       # rows in one picture of bars
MISSED_SHOWN = 8

# Of light and dark: what the pictures call ink, faint, grid, event and s0 to s7.
STYLE = """
:root { color-scheme: light dark; --page: #f6f7f9; --card: #ffffff; --ink: #16191d;
  --faint: #5b6470; --grid: #e3e6ea; --event: #b3261e; --good: #1a7f37; --bad: #b3261e;
  --s0: #1461c9; --s1: #e0820d; --s2: #6b7785; --s3: #1c9a6c; --s4: #a04fc2;
  --s5: #c43d5c; --s6: #7d6a1c; --s7: #2a9cb8; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1216; --card: #191d23;
  --ink: #e8eaed; --faint: #9ba5b1; --grid: #2d333b; --event: #ff8a80; --good: #56c271;
  --bad: #ff8a80; --s0: #5ea2ff; --s1: #f0a648; --s2: #98a4b1; --s3: #4ac99a;
  --s4: #c88ae4; --s5: #f07c96; --s6: #c9b458; --s7: #5fc6de; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0 auto; max-width: 84rem; padding: 0.75rem; background: var(--page);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0.5rem 0; }
h2 { font-size: 1.3rem; margin: 2rem 0 0.5rem; }
h3 { font-size: 1.05rem; margin: 1.5rem 0 0.5rem; }
p, ul { margin: 0.5rem 0; }
a { color: var(--s0); }
code, pre { font: 0.9em ui-monospace, monospace; }
pre { white-space: pre-wrap; background: var(--card); border: 1px solid var(--grid);
  border-radius: 6px; padding: 0.6rem; }
svg { display: block; width: 100%; height: auto; font-family: system-ui, sans-serif;
  overflow: visible; }
nav a { display: inline-block; padding: 0.35rem 0.9rem 0.35rem 0; }
.faint { color: var(--faint); font-size: 0.9rem; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
.tiles { display: flex; flex-wrap: wrap; gap: 0.6rem; margin: 0.75rem 0; }
.tiles div { flex: 1 1 6.5rem; background: var(--card); border: 1px solid var(--grid);
  border-radius: 6px; padding: 0.5rem 0.75rem; }
.tiles b { display: block; font-size: 1.6rem; line-height: 1.2; }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr));
  gap: 0.75rem; align-items: start; }
figure { margin: 0; background: var(--card); border: 1px solid var(--grid);
  border-radius: 6px; padding: 0.6rem 0.7rem; min-width: 0; }
figcaption { font-size: 0.9rem; margin-bottom: 0.4rem; }
figcaption b { display: block; }
ul.legend, ol.events { list-style: none; margin: 0.2rem 0; padding: 0; font-size: 0.82rem;
  line-height: 1.35; }
ul.legend li { display: inline-block; margin-right: 0.9rem; }
table { border-collapse: collapse; width: 100%; background: var(--card); font-size: 0.88rem;
  margin: 0.5rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 0.3rem 0.55rem; border-bottom: 1px solid var(--grid);
  vertical-align: top; }
thead th { color: var(--faint); font-weight: 600; }
tbody th { font-weight: 600; }
.n { text-align: right; white-space: nowrap; }
details { margin: 0.6rem 0; }
summary { cursor: pointer; padding: 0.3rem 0; color: var(--s0); }
table.small tbody th { overflow-wrap: break-word; }
.table { container-type: inline-size; overflow-x: auto; }
@container (max-width: 44rem) {
  table.wide thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  table.wide, table.wide tbody { display: block; }
  table.wide tr { display: grid; grid-template-columns: 1fr 1fr; column-gap: 1rem;
    border-bottom: 1px solid var(--grid); padding: 0.5rem 0.6rem; }
  table.wide th, table.wide td { border: 0; padding: 0.1rem 0; text-align: left; white-space: normal; }
  table.wide tbody th { grid-column: 1 / -1; }
  table.wide td::before { content: attr(data-label) " "; color: var(--faint); font-weight: 400; }
  table.wide td:empty { display: none; }
}
"""


# Of the table of exact figures, where there is such a thing.
MORE_COLUMNS = {
    "rounds repeated": lambda row: str(row["disturbed"] or ""),
    "left disturbed": lambda row: str(row["still_disturbed"] or ""),
    "load": lambda row: "" if row["load"] is None else f"{row['load']:.1f}",
    "MHz": lambda row: "" if row["megahertz"] is None else f"{row['megahertz']:.0f}",
}


def element(tag, *parts, **attributes):
    """Texts and elements in it; class_ is class, data_label is data-label."""
    made = ET.Element(tag, {key.rstrip("_").replace("_", "-"): str(value)
                            for key, value in attributes.items()})
    last = None
    for part in parts:
        if part is None:
            continue
        if isinstance(part, ET.Element):
            made.append(part)
            last = part
        elif last is None:
            made.text = (made.text or "") + str(part)
        else:
            last.tail = (last.tail or "") + str(part)
    return made


def a_table(columns, lines, wide=True):
    """@columns: [(name, is a number)]; of a line the first cell says what it is. A
    cell is a text, or (text, class). Where there is no room, as on a phone, each line
    of a @wide one is a card."""
    def cell(column, value):
        name, number = column
        text, kind = value if isinstance(value, tuple) else (value, "")
        classes = " ".join(filter(None, ("n" if number else "", kind)))
        more = {"class_": classes} if classes else {}
        return element("td", text, data_label=name, **more)

    head = element("tr", *(element("th", name, **({"class_": "n"} if number else {}))
                           for name, number in columns))
    body = [element("tr", element("th", line[0], scope="row"),
                    *(cell(c, v) for c, v in zip(columns[1:], line[1:]))) for line in lines]
    made = element("table", element("thead", head), element("tbody", *body),
                   class_="wide" if wide else "small")
    return element("div", made, class_="table")


# ---- what belongs together ----

def direction(row):
    return f"{row['better']} is better"


def works_of(rows):
    """Lists of the rows of one metric of one piece of work."""
    found = {}
    for row in rows:
        work = (row["case"], row["metric"], row["unit"], repr(row["at"]))
        while work in found and found[work][0]["sides"] != row["sides"]:
            work = ("again", *work)  # another one of this name
        found.setdefault(work, []).append(row)
    return list(found.values())


def sides_of(rows):
    """Name and values of each side of the rows of one piece of work; what an older
    run does not have is made of its rows' medians."""
    for row in rows:
        if row["sides"]:
            return row["sides"]
    found = {"ours": {"name": "ours", "values": [rows[0]["ours"]]}}
    found.update({row["peer_name"]: {"name": row["peer_name"], "values": [row["peer"]]}
                  for row in rows})
    return found


def middle(row, values):
    return min(values) if row["pick"] == "min" else statistics.median(values)


class Names:
    """A side looks the same in each picture: ours is series 0."""

    def __init__(self):
        self.numbers = {}

    def series(self, side, name):
        if side == "ours":
            return 0
        return self.numbers.setdefault(name, len(self.numbers) + 1)


class Page:
    def __init__(self, document):
        self.document = document
        self.names = Names()
        self.pictures = 0

    # ---- pictures ----

    def figure(self, title, note, drawn, legend=(), after=None):
        """@drawn: a function of the picture's label."""
        self.pictures += 1
        label = f"p{self.pictures} {title}"
        signs = [element("li", element("span", plots.SIGNS[plots.look(series)[1]],
                                       style=f"color: var(--s{plots.look(series)[0]})"), f" {name}")
                 for series, name in dict.fromkeys(legend)]
        return element("figure", element("figcaption", element("b", title),
                                         element("span", note, class_="faint") if note else None),
                       element("ul", *signs, class_="legend") if signs else None,
                       drawn(label), after)

    def bars(self, works):
        """@works: rows of one metric, one list for each piece of work."""
        blocks = []
        for rows in works:
            sides = sides_of(rows)
            bars = [(side["name"], self.names.series(key, side["name"]),
                     middle(rows[0], side["values"]), min(side["values"]), max(side["values"]))
                    for key, side in sides.items()]
            blocks.append((rows[0]["case"], bars))
        first = works[0][0]
        return self.figure(table.what_of(first), f"{direction(first)}; lines: lowest to highest round",
                           lambda label: plots.bars(label, blocks),
                           self.cut(bar for _, bars in blocks for bar in bars))

    @staticmethod
    def cut(bars):
        """Of bars whose name the picture has not whole."""
        return [(series, name) for name, series, *_ in bars if len(name) > plots.NAME_MAX]

    def curve(self, works):
        works = sorted(works, key=lambda rows: rows[0]["at"]["value"])
        lines, called = {}, {}
        for rows in works:
            value = rows[0]["at"]["value"]
            for key, side in sides_of(rows).items():
                called.setdefault(key, []).append((side["name"], value))
                lines.setdefault(key, []).append(
                    (value, middle(rows[0], side["values"]), min(side["values"]), max(side["values"])))
        legend = [(self.names.series(key, name), name) for key, name in
                  ((key, _one_name(key, names)) for key, names in called.items())]
        first = works[0][0]
        cases = list(dict.fromkeys(rows[0]["case"] for rows in works))
        return self.figure(
            table.what_of(first), f"{cases[0]} … {cases[-1]}; {direction(first)}",
            lambda label: plots.curves(label, first["at"]["name"], [
                (series, points) for (series, _), points in zip(legend, lines.values())]), legend)

    def of_sides(self, row, what):
        """Series and name of each side in row[what], and what it has there."""
        for key, has in row[what].items():
            name = ((row["sides"] or {}).get(key) or {}).get("name", key)
            yield self.names.series(key, name), name, has

    def latency(self, row):
        found = list(self.of_sides(row, "latency"))
        names = sorted({p for *_, has in found for p in has}, key=_percentile)
        if not names:
            return None
        lines = [(series, [has.get(p) for p in names]) for series, _, has in found]
        exact = a_table([("side", False)] + [(p, True) for p in names],
                        [[name] + [table.number(has[p]) if p in has else "" for p in names]
                         for _, name, has in found])
        return self.figure(f"latency: {row['case']}", "µs; medians of the rounds",
                           lambda label: plots.percentiles(label, names, lines),
                           [(series, name) for series, name, _ in found],
                           element("details", element("summary", "exact"), exact))

    def cpu(self, row):
        found = [(f"{name}, {where}", series, used, used, used)
                 for series, name, has in self.of_sides(row, "cpu") for where, used in has.items() if used]
        if not found:
            return None
        return self.figure(f"processor time: {row['case']}", "seconds for each GiB; less is better",
                           lambda label: plots.bars(label, [(row["case"], found)]), self.cut(found))

    def timeline(self, row):
        found = list(self.of_sides(row, "timelines"))
        events = row["events"] or []
        marked = [element("li", f"{i}: at {second:g} s {text}")
                  for i, (second, text) in enumerate(events, 1)]
        return self.figure(f"over time: {row['case']}", "",
                           lambda label: plots.timeline(
                               label, [(series, points) for series, _, points in found],
                               [second for second, _ in events]),
                           [(series, name) for series, name, _ in found],
                           element("ol", *marked, class_="events") if marked else None)

    # ---- sections ----

    def group(self, question, rows):
        """Pictures of one question's rows, then the rows."""
        works = works_of(rows)
        curves, bars = [], []
        for key, along in table.of_each(works, lambda w: _axis(w[0])).items():
            several = {w[0]["at"]["value"] for w in along} if key else ()
            if len(several) < 2:
                bars += along
            elif len(several) == len(along):
                curves.append(along)
            else:
                for alike in table.of_each(along, lambda w: _stem(w[0])).values():
                    values = {w[0]["at"]["value"] for w in alike}
                    if 1 < len(values) == len(alike):
                        curves.append(alike)
                    else:
                        bars += alike
        drawn = []
        for of_metric in table.of_each(bars, lambda w: table.what_of(w[0])).values():
            drawn += [self.bars(of_metric[i:i + BLOCKS]) for i in range(0, len(of_metric), BLOCKS)]
        drawn += [self.curve(along) for along in curves]
        for what, draw in (("latency", self.latency), ("cpu", self.cpu),
                           ("timelines", self.timeline)):
            drawn += [draw(some[0]) for some in
                      table.of_each((r for r in rows if r[what]), lambda r: repr(r[what])).values()]
        return element("section", element("h3", question) if question else None,
                       element("div", *drawn, class_="figures"),
                       element("details", element("summary", f"exact figures, {len(rows)} rows"),
                               self.rows(rows)))

    def rows(self, rows):
        columns = [("row", False), ("metric", False), ("ours", True), ("peer", True),
                   ("peer is", False), ("ratio", True), ("of rounds", True), ("rounds", True),
                   ("goal", True), ("", False)]
        more = [(name, of) for name, of in MORE_COLUMNS.items() if any(of(row) for row in rows)]
        columns += [(name, True) for name, _ in more]
        lines = []
        for row in rows:
            line = [row["row"], table.what_of(row), _exact(row["ours"]), _exact(row["peer"]),
                    row["peer_name"], table.ratio(row["ratio"]),
                    f"{table.ratio(row['ratio_min'])}–{table.ratio(row['ratio_max'])}", str(row["rounds"]),
                    table.goal_of(row), (table.verdict(row).lower(), _class(row["met"]))]
            lines.append(line + [of(row) for _, of in more])
        notes = dict.fromkeys(f"{r['row']}: {r['note']}" for r in rows if r["note"])
        return element("div", a_table(columns, lines),
                       element("ul", *(element("li", n) for n in notes)) if notes else None)

    def summary(self):
        rows = self.document["rows"]
        met, missed, calm = ([r for r in rows if r["met"] is v] for v in (True, False, None))
        tiles = [("goals met", len(met)), ("goals missed", len(missed)), ("without a goal", len(calm))]
        if left := sum(bool(r["still_disturbed"]) for r in rows):
            tiles.append(("rows disturbed", left))
        if self.document["skipped"]:
            tiles.append(("skipped", len(self.document["skipped"])))
        parts = [element("div", *(element("div", element("b", str(n)), name) for name, n in tiles),
                         class_="tiles"), self.published()]
        suites = table.of_each(rows, lambda r: r["suite"])
        parts.append(a_table([("suite", False), ("rows", True), ("met", True), ("missed", True)], [
            [suite, str(len(of)), str(sum(r["met"] is True for r in of)),
             str(sum(r["met"] is False for r in of))] for suite, of in suites.items()], False))
        if missed:
            missed.sort(key=lambda r: r["margin_percent"] or 0)
            listed = [element("li", f"{r['suite']}: {r['row']}, {r['metric']}: "
                                    f"{table.ratio(r['ratio'])} of {r['peer_name']}, asked for "
                                    f"{table.goal_of(r)}") for r in missed]
            rest = listed[MISSED_SHOWN:]
            parts += [element("h3", "Missed, the farthest first"),
                      element("ul", *listed[:MISSED_SHOWN]),
                      element("details", element("summary", f"{len(rest)} more"),
                              element("ul", *rest)) if rest else None]
        return element("section", element("h2", "Where we stand"), *parts, id="summary")

    def published(self):
        """Multiples of what the published ones are multiples of, theirs beside ours."""
        of = {(r["suite"], r["peer_name"]) for r in self.document["rows"] if r["published"] is not None}
        rows = [r for r in self.document["rows"] if (r["suite"], r["peer_name"]) in of]
        if not rows:
            return None
        metrics = list(dict.fromkeys(r["metric"] for r in rows))
        columns = [("row", False), ("of", False)]
        for metric in metrics:
            columns += [(metric, True), (f"{metric}, published", True)]
        told, more = [], []
        for (_, name, peer), of_row in table.of_each(
                rows, lambda r: (r["suite"], r["row"], r["peer_name"])).items():
            line = [name, peer]
            for metric in metrics:
                line += _multiples(next((r for r in of_row if r["metric"] == metric), None))
            (more if all(r["published"] is None for r in of_row) else told).append(line)
        return element("div", element("h3", "Beside what was published, as multiples"),
                       a_table(columns, told),
                       element("details", element("summary", f"{len(more)} more of these multiples"),
                               a_table(columns[:2] + [c for c in columns if c[0] in metrics],
                                       [line[:2] + line[2::2] for line in more])) if more else None)

    def about(self):
        document = self.document
        alike = table.of_each(document["hosts"] or [], lambda host: repr(
            {name: fact for name, fact in host.items() if name != "name"}))
        hosts = [element("section", element("h3", ", ".join(host.get("name", "a host") for host in of)),
                         _facts({name: fact for name, fact in of[0].items() if name != "name"}))
                 for of in alike.values()]
        skipped = [[one["what"], one["why"]] for one in document["skipped"] or []]
        return [
            element("section", element("h2", "Skipped"),
                    a_table([("what", False), ("why", False)], skipped) if skipped
                    else element("p", "Nothing."), id="skipped"),
            element("section", element("h2", "Machine"), _facts(document["machine"]), *hosts,
                    id="machine"),
            element("section", element("h2", "Once more"), element("pre", markdown.command(document) + " --json run.json --report run.html"),
                    element("p", "What the rows mean: docs/performance.md."), id="repeat")]

    def html(self):
        rows, machine = self.document["rows"], self.document["machine"]
        suites = table.of_each(rows, lambda r: r["suite"])
        sections = [self.summary()]
        for i, (suite, of_suite) in enumerate(suites.items()):
            groups = table.of_each(of_suite, _question)
            sections.append(element("section", element("h2", suite),
                                    *(self.group(*one) for one in groups.items()), id=f"suite{i}"))
        links = [("summary", "summary"), *((f"suite{i}", s) for i, s in enumerate(suites)),
                 ("skipped", "skipped"), ("machine", "machine"), ("repeat", "once more")]
        title = "Tributary, measured"
        head = element(
            "head", element("meta", charset="utf-8"), element("title", title),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", http_equiv="Content-Security-Policy",
                    content="default-src 'none'; style-src 'unsafe-inline'"),
            element("style", STYLE))
        body = element("body", element("header", element("h1", title), element(
            "p", ", ".join(f"{key} {machine[key]}" for key in ("date", "commit", "cpu", "kernel")
                           if key in machine), class_="faint"),
            element("nav", *(element("a", text, href="#" + to) for to, text in links))),
            element("main", *sections, *self.about()))
        whole = element("html", head, body, lang="en")
        return ("<!DOCTYPE html>\n" +
                ET.tostring(whole, encoding="unicode", short_empty_elements=False) + "\n")


def html(document):
    return Page(document).html()


# ---- details ----

def _percentile(name):
    """p99.9 comes after p99, max after all."""
    found = re.fullmatch(r"p([0-9]{1,3}(\.[0-9]{1,9})?)", name)
    return (float(found.group(1)) if found else 101.0, name)


def _question(row):
    """Pieces of work that are their own question are shown together."""
    return "" if row["group"] == row["case"] else row["group"]


def _axis(row):
    return row["at"] and (row["at"]["name"], row["metric"], row["unit"])


def _without(value, text):
    """The number is not part of another."""
    return re.sub(rf"(?<![\d.,]){value:g}(?![\d.,])", "n", text)


def _stem(row):
    """The work's name without what it is at."""
    return _without(row["at"]["value"], row["case"])


def _one_name(key, called):
    """Of a side along a curve, whose names may have what each point is at: "n nodes"."""
    for names in ({name for name, _ in called}, {_without(value, name) for name, value in called}):
        if len(names) == 1:
            return names.pop()
    return key


def _exact(value):
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.5g}"


def _class(met):
    return {True: "good", False: "bad", None: ""}[met]


def _reaches(row):
    """Ours is no worse than what was published."""
    return (row["ratio"] >= row["published"] if row["better"] == "more"
            else row["ratio"] <= row["published"])


def _multiples(row):
    """Ours with the rounds' lowest and highest, and the published one."""
    if not row:
        return ["", ""]
    ours = (f"{table.ratio(row['ratio'])} × ({table.ratio(row['ratio_min'])}–"
            f"{table.ratio(row['ratio_max'])})")
    if row["published"] is None:
        return [ours, ""]
    return [(ours, _class(_reaches(row))), f"{table.ratio(row['published'])} ×"]


def _facts(facts):
    return a_table([("what", False), ("is", False)], [[name.replace("_", " "), fact] for name, fact in facts.items()], False)
