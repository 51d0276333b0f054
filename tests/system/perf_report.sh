#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# What is made of the JSON of a run: perf/report's page, its tables, perf/compare's
# verdicts; and what is no such JSON.
. "$(dirname "$0")/../lib.sh"
need python3
PYTHON=/usr/bin/python3 # as the programs have it
export PYTHONPATH=$TEST_DIR:$TOP/perf PYTHONDONTWRITEBYTECODE=1
report() { "$TOP/perf/report" "$@"; }
compare() { "$TOP/perf/compare" "$@"; }
need_plots() { "$PYTHON" -c 'import matplotlib' 2>/dev/null || skip "needs python3-matplotlib"; }

# Documents, and the page read again: what every test's Python has.
cat >"$TEST_DIR/made.py" <<'END'
import json
import statistics
import sys
import xml.etree.ElementTree as ET

SVG = "{http://www.w3.org/2000/svg}"


def side(name, *values):
    return {"name": name, "values": list(values)}


def row(name, sides, peer="peer", goal=">= 1", whose="ours", **more):
    ours, theirs = sides[whose]["values"], sides[peer]["values"]
    ratios = [a / b for a, b in zip(ours, theirs)]
    found = {"suite": "suite", "row": name, "metric": "rate", "unit": "1/s",
             "ours": statistics.median(ours), "peer": statistics.median(theirs),
             "peer_name": sides[peer]["name"], "ratio": statistics.median(ratios),
             "ratio_min": min(ratios), "ratio_max": max(ratios), "rounds": len(ratios),
             "goal": goal, "met": None, "margin_percent": None, "sides": sides}
    if goal != "none":
        sense, asked = goal.split()
        sign = 1 if sense == ">=" else -1
        found["margin_percent"] = sign * 100 * (found["ratio"] / float(asked) - 1)
        found["met"] = found["margin_percent"] >= 0
    return {**found, **more}


def simple(ours, peer, name="row", **more):
    return row(name, {"ours": side("ours", *ours), "peer": side("peer 1.0", *peer)}, **more)


def document(*rows, **more):
    return {"schema": 2, "machine": {"cpu": "a processor", "cores": 2, "kernel": "6.1"},
            "rows": list(rows), **more}


def whole():
    """Of each thing that a document may have, one."""
    sides = {"ours": side("union", 9, 10, 11), "peer": side("ext4 itself", 20, 20, 20),
             "other": side("mergerfs 2.40", 4, 5, 6)}
    delays = {"p50": 50.0, "p99": 100.0, "p99.9": 800.0, "max": 5000.0}
    rows = [row("4k read", sides, group="at random", latency={"ours": delays, "peer": delays},
                published=0.3, disturbed=2, still_disturbed=1, load=7.5, megahertz=2449,
                cpu={"ours": {"client": 1.5, "server": 0.25}}, note="differs between processors"),
            row("4k read", sides, peer="other", group="at random",
                latency={"ours": delays, "peer": delays})]
    for depth in 1, 4, 16:
        for work in "read", "write":
            rows.append(simple([depth * 3.0], [depth * 2.0], f"{work} QD{depth}", group="depths",
                               at={"name": "queue depth", "value": depth}))
    rows.append(simple([4.0, 4, 4], [2.0, 2, 2], "killed", metric="stall", unit="ms", suite="two",
                       goal="<= 1", events=[[3, "blockd ends"], [3.1, "it is back"]],
                       timelines={"ours": [[0, 5], [3, 0], [6, 5]], "peer": [[0, 4], [6, 4]]}))
    return document(*rows, command=["perf/run", "suite", "--rows", "a b"],
                    hosts=[{"name": "node-a", "link": "1 Gbit/s"}],
                    skipped=[{"what": "tgt", "why": "no initiator here"}])


def page(path):
    """The page's root; its texts are by text(element)."""
    with open(path, encoding="utf-8") as f:
        return ET.fromstring(f.read())


def text(of):
    return " ".join("".join(of.itertext()).split())


def pictures(root, title):
    return [f.find(f"{SVG}svg") for f in root.iter("figure") if text(f.find("figcaption/b")) == title]


def main():
    json.dump(globals()[sys.argv[1]](), open(sys.argv[2], "w"))


if __name__ == "__main__":
    main()
END
make() { "$PYTHON" "$TEST_DIR/made.py" "$1" "$TEST_DIR/$2"; }
# document FILE: of the Python expression at standard input
document() {
	"$PYTHON" -c 'import sys, json; from made import *
json.dump(eval(sys.stdin.read()), open(sys.argv[1], "w"))' "$TEST_DIR/$1"
}

test_a_report_has_all_of_a_run() {
	need_plots
	make whole run.json
	report "$TEST_DIR/run.json" -o "$TEST_DIR/page.html"
	"$PYTHON" - "$TEST_DIR/page.html" <<-'END'
		import re, sys
		from made import *
		root = page(sys.argv[1])
		everything = text(root)
		firsts = [text(th) for th in root.iter("th") if th.get("scope") == "row"]
		for r in whole()["rows"]:
		    assert firsts.count(r["row"]) >= 1, r["row"]
		    assert r["peer_name"] in everything
		    for one in r["sides"].values():
		        assert one["name"] in everything, one
		for said in ("at random", "no initiator here", "node-a", "1 Gbit/s", "blockd ends",
		             "differs between processors", "0.30 ×", "perf/run suite --rows 'a b'",
		             "a processor", "missed by 50 %", "met by 100 %", "99.9", "5,000", "2449", "7.5", "union, client", "1rows disturbed"):
		    assert said in everything, said
		# One file with all that it needs, which runs nothing.
		for of in root.iter():
		    assert of.tag.split("}")[-1] not in ("script", "img", "link", "iframe", "object"), of.tag
		    for key, value in of.attrib.items():
		        assert key not in ("src", "srcset") and not key.startswith("on"), key
		        assert "href" not in key or value.startswith("#"), value
		        assert "url(" not in value or "url(#" in value, value
		style = text(root.find("head/style"))
		assert "url(" not in style and "@import" not in style
		assert "prefers-color-scheme: dark" in style
		# Each id that is referred to is there, once.
		ids = [of.get("id") for of in root.iter() if of.get("id")]
		assert len(ids) == len(set(ids))
		for of in root.iter():
		    for key, value in of.attrib.items():
		        for name in re.findall(r"url\(#([^)]+)\)", value) + (
		                [value[1:]] if key == "href" else []):
		            assert name in ids, name
		# Colours are the page's, so dark mode has them all; no figure is a NaN.
		svgs = list(root.iter(SVG + "svg"))
		assert len(svgs) == 7, len(svgs)
		for svg in svgs:
		    raw = ET.tostring(svg, encoding="unicode")
		    assert "nan" not in raw.lower() and svg.get("viewBox")
		    assert not re.search(r"(fill|stroke): (#|black|white)", raw)
	END
}

test_bars_are_as_long_as_what_they_show() {
	need_plots
	make whole run.json
	report "$TEST_DIR/run.json" -o "$TEST_DIR/page.html"
	"$PYTHON" - "$TEST_DIR/page.html" <<-'END'
		import re, sys
		from made import *
		svg, = pictures(page(sys.argv[1]), "rate, 1/s")[:1]
		bars = {}
		for path in svg.iter(SVG + "path"):
		    if found := re.search(r"fill: var\(--(s\d)\)", path.get("style", "")):
		        x = [float(n) for n in re.findall(r"[ML] (\S+)", path.get("d"))]
		        bars[found[1]] = max(x) - min(x)
		# ours 10, the file system itself 20, another peer 5
		assert abs(bars["s1"] / bars["s0"] - 2) < 0.01 and abs(bars["s2"] / bars["s0"] - 0.5) < 0.01, bars
		shown = [text(t) for t in svg.iter(SVG + "text")]
		assert shown == ["4k read", "union", "10", "ext4 itself", "20", "mergerfs 2.40", "5"], shown
	END
}

test_rows_along_something_are_one_curve_for_each_work() {
	need_plots
	make whole run.json
	report "$TEST_DIR/run.json" -o "$TEST_DIR/page.html"
	"$PYTHON" - "$TEST_DIR/page.html" <<-'END'
		import re, sys
		from made import *
		root = page(sys.argv[1])
		curves = pictures(root, "rate, 1/s")[1:]
		assert len(curves) == 2, "reads and writes are two"
		for svg in curves:
		    shown = [text(t) for t in svg.iter(SVG + "text")]
		    for said in ("queue depth", "1", "4", "16"):
		        assert said in shown, shown
		    lines = [p for p in svg.iter(SVG + "path") if re.search(
		        r"fill: none; stroke: var\(--s\d\)", p.get("style", ""))]
		    assert len(lines) == 2 and all(p.get("d").count("L") == 2 for p in lines)
		over, = pictures(root, "over time: killed")
		assert {"1", "2"} <= {text(t) for t in over.iter(SVG + "text")}
		delays, = pictures(root, "latency: 4k read")
		assert {"p50", "p99", "p99.9", "max"} <= {text(t) for t in delays.iter(SVG + "text")}
	END
}

test_a_side_that_is_named_after_its_place_is_one_line() {
	need_plots
	document run.json <<-'END'
		document(*(row(f"nodes: {n}", {"more": side(f"{n} nodes", n, n), "one": side("1 nodes", 1, 1)}, "one",
		               whose="more", at={"name": "nodes", "value": n}, group="flat?") for n in (2, 4, 16)))
	END
	report "$TEST_DIR/run.json" -o "$TEST_DIR/page.html"
	"$PYTHON" - "$TEST_DIR/page.html" <<-'END'
		import re, sys
		from made import *
		root = page(sys.argv[1])
		svg, = root.iter(SVG + "svg")
		lines = [p.get("d") for p in svg.iter(SVG + "path") if re.search(
		    r"fill: none; stroke: var\(--s\d\)", p.get("style", ""))]
		assert len(lines) == 2 and all(d.count("L") == 2 for d in lines), lines
		legend, = (of for of in root.iter("ul") if of.get("class") == "legend")
		assert [text(li)[2:] for li in legend] == ["n nodes", "1 nodes"], text(legend)
	END
}

# Whose figure a row is, and beside whom, makes no more pictures; and what is a
# multiple of the same peer is in the table of what was published.
test_rows_of_one_work_are_one_picture() {
	need_plots
	document run.json <<-'END'
		(lambda sides: document(*(
		    row(f"4k read, {sides[whose]['name']}", sides, peer, "none", whose, case="4k read", group="at random",
		        published=published)
		    for whose, peer, published in (("union", "local", 0.3), ("block", "local", None),
		                                   ("union", "block", None)))))(
		    {"local": side("Local", 20, 20), "union": side("Union", 10, 10), "block": side("Block", 5, 5)})
	END
	report "$TEST_DIR/run.json" -o "$TEST_DIR/page.html"
	"$PYTHON" - "$TEST_DIR/page.html" <<-'END'
		import sys
		from made import *
		root = page(sys.argv[1])
		svg, = root.iter(SVG + "svg")
		assert [text(t) for t in svg.iter(SVG + "text")] == [
		    "4k read", "Local", "20", "Union", "10", "Block", "5"]
		lines = [[text(cell) for cell in line] for line in root.iter("tr")]
		assert ["4k read, Union", "Local", "0.50 × (0.50–0.50)", "0.30 ×"] in lines
		assert ["4k read, Block", "Local", "0.25 × (0.25–0.25)"] in lines
		assert not any(line[:2] == ["4k read, Union", "Block"] for line in lines)
	END
}

test_two_reports_of_one_run_are_the_same() {
	need_plots
	make whole run.json
	report "$TEST_DIR/run.json" -o "$TEST_DIR/a.html"
	report - -o - <"$TEST_DIR/run.json" >"$TEST_DIR/b.html"
	cmp "$TEST_DIR/a.html" "$TEST_DIR/b.html"
}

test_a_run_writes_the_page_that_its_json_gives() {
	need_plots
	need setpriv
	mkdir -p "$TEST_DIR/perf/suites" "$TEST_DIR/build"
	cp -r "$TOP/perf/run" "$TOP/perf/report" "$TOP/perf/harness" "$TEST_DIR/perf"
	cat >"$TEST_DIR/perf/suites/some.py" <<-'END'
		from harness.measure import Case, Goal, Sample
		from harness.scratch import CannotRun, Failed

		def case(name, peer):
		    return Case(name, {"ours": lambda n: Sample(1, {"speed": 3}), "a": peer},
		                {"a": "<peer> & 1"}, [Goal("speed", "1/s", "a", ">=", 1.0)])

		def setup(place, quick):
		    def fails(number):
		        raise Failed("on <purpose>\n" + 2000 * "x")
		    return [case("<row>", lambda n: Sample(1, {"speed": 2})), case("next", fails)]
	END
	BUILD=$TEST_DIR/build fails 1 'on <purpose>' "$TEST_DIR/perf/run" some --quick \
		--json "$TEST_DIR/run.json" --report="$TEST_DIR/run.html"
	unset PYTHONPATH
	"$TEST_DIR/perf/report" "$TEST_DIR/run.json" -o "$TEST_DIR/again.html"
	cmp "$TEST_DIR/run.html" "$TEST_DIR/again.html"
	grep -q 'perf/run some --quick --json run.json --report run.html' "$TEST_DIR/run.html"
	grep -q '&lt;row&gt;' "$TEST_DIR/run.html"
	grep -q 'failed: on &lt;purpose&gt;' "$TEST_DIR/run.html"
	# What can't be written is said before anything is measured.
	BUILD=$TEST_DIR/build fails 1 'cannot write /nowhere/x.json' "$TEST_DIR/perf/run" some \
		--json /nowhere/x.json >"$TEST_DIR/out"
	fails 1 'it is a directory' "$TEST_DIR/perf/run" some --report "$TEST_DIR"
	mkdir -p "$TEST_DIR/without/matplotlib"
	echo 'raise ImportError("on purpose")' >"$TEST_DIR/without/matplotlib/__init__.py"
	PYTHONPATH=$TEST_DIR/without fails 77 'needs python3-matplotlib' "$TEST_DIR/perf/run" some \
		--report "$TEST_DIR/none.html"
	PYTHONPATH=$TEST_DIR/without fails 77 'needs python3-matplotlib' "$TEST_DIR/perf/report" \
		"$TEST_DIR/run.json" -o "$TEST_DIR/none.html"
	[ ! -e "$TEST_DIR/none.html" ]
	PYTHONPATH=$TEST_DIR/without "$TEST_DIR/perf/report" "$TEST_DIR/run.json" --markdown >/dev/null
}

test_nothing_that_a_run_says_is_taken_for_a_tag() {
	need_plots
	"$PYTHON" - "$TEST_DIR/run.json" <<-'END'
		import json, sys
		from made import *
		def bad(where):
		    return f"<script>{where}</script>\"'&amp;]]>--><b>$x_{{$ % \\ _\u202e\u0001\u001b[31m \ud800"
		r = row(bad("row"), {"ours": side(bad("us"), 1, 2), "peer": side(bad("peer"), 2, 1)},
		        suite=bad("suite"), metric=bad("metric"), unit=bad("unit"), group=bad("group"),
		        latency={bad("side"): {bad("percentile"): 1}}, note=bad("note"), published=1,
		        timelines={bad("side"): [[0, 1], [1, 1]]}, events=[[0.5, bad("event")]])
		along = [{**r, "at": {"name": bad("at"), "value": v}, "sides": {
		    "ours": side("us", v, v), "peer": side(bad("peer"), 1, 1)}} for v in (1, 2)]
		whole = document(r, *along, command=[bad("command")], hosts=[{"name": bad("host"), bad("k"): bad("v")}],
		                 skipped=[{"what": bad("what"), "why": bad("why")}])
		whole["machine"]["cpu"] = bad("cpu")
		json.dump(whole, open(sys.argv[1], "w"))
	END
	report "$TEST_DIR/run.json" -o "$TEST_DIR/page.html"
	"$PYTHON" - "$TEST_DIR/page.html" <<-'END'
		import sys
		from made import *
		root = page(sys.argv[1])
		tags = {of.tag.split("}")[-1] for of in root.iter()}
		# "b" is in captions only
		assert "script" not in tags and all(not list(b) for b in root.iter("b"))
		said = text(root)
		for where in ("row", "us", "peer", "suite", "metric", "unit", "group", "percentile", "note",
		              "event", "at", "command", "host", "v", "what", "why", "cpu"):
		    assert f"<script>{where}</script>\"'&amp;]]>--><b>$x_{{$ % \\ _" in said.replace("'\"'\"'", "'"), where
		assert "<script>k</script>" in said
		shown = [text(t) for t in root.iter(SVG + "text")]
		assert any(t.startswith("<script>row</script>") for t in shown), shown
	END
	# A terminal is told nothing that it would obey.
	compare "$TEST_DIR/run.json" "$TEST_DIR/run.json" >"$TEST_DIR/out"
	fails 1 $'\xef\xbf\xbd[31m is' report - -o - < <(printf '{"schema": 2, "machine": {"\\u001b[31m": [[1e99]]}, "rows": []}')
	! grep -q $'\x1b' "$TEST_DIR/out" || false
}

test_compare_says_better_or_worse_beyond_the_noise() {
	document old.json <<-'END'
		document(simple([10, 10.1, 9.9, 10, 10], [10] * 5, "faster"),
		         simple([10, 10.1, 9.9, 10, 10], [10] * 5, "slower"),
		         simple([10, 10.1, 9.9, 10, 10], [10] * 5, "sooner", metric="delay", unit="ms", goal="<= 1"),
		         simple([10, 10.1, 9.9, 10, 10], [10] * 5, "later", metric="delay", unit="ms", goal="none"),
		         simple([10, 12, 9, 10, 10], [10] * 5, "noisy"),
		         simple([10] * 5, [10] * 5, "slower machine"),
		         simple([10] * 5, [10] * 5, "as it was"),
		         simple([10], [10], "once"),
		         simple([10] * 5, [10] * 5, "another peer"),
		         simple([10] * 5, [10] * 5, "gone"))
	END
	document new.json <<-'END'
		document(simple([11, 11.1, 10.9, 11, 11], [10] * 5, "faster", still_disturbed=1),
		         simple([9, 9.1, 8.9, 9, 9], [10] * 5, "slower"),
		         simple([9, 9.1, 8.9, 9, 9], [10] * 5, "sooner", metric="delay", unit="ms", goal="<= 1"),
		         simple([11, 11.1, 10.9, 11, 11], [10] * 5, "later", metric="delay", unit="ms", goal="none"),
		         simple([11, 12, 9, 11, 11], [10] * 5, "noisy"),
		         simple([5] * 5, [5] * 5, "slower machine"),
		         simple([10.1] * 5, [10] * 5, "as it was"),
		         simple([20], [10], "once"),
		         {**simple([10] * 5, [10] * 5, "another peer"), "peer_name": "peer 2.0"},
		         simple([10] * 5, [10] * 5, "new"))
	END
	compare "$TEST_DIR/old.json" "$TEST_DIR/new.json" >"$TEST_DIR/out"
	verdict() { grep -q "^  $1 .* $2\$" "$TEST_DIR/out" || fail "$1 is not $2: $(cat "$TEST_DIR/out")"; }
	verdict faster 'better, disturbed'
	verdict slower WORSE
	verdict sooner better
	verdict later WORSE
	verdict noisy same
	verdict 'slower machine' same
	verdict 'as it was' same
	verdict once unclear
	verdict 'another peer' 'other peer'
	grep -q '^  faster .* 1\.00 .* 1\.10 .* +10 % .* 10 .* 11 .* +10 % ' "$TEST_DIR/out"
	grep -q '^  slower machine .* +0 % .* 10 .* 5 .* -50 % ' "$TEST_DIR/out"
	grep -A 1 '^only in the old run$' "$TEST_DIR/out" | grep -qx '  suite: gone, rate, peer 1\.0'
	grep -A 1 '^only in the new run$' "$TEST_DIR/out" | grep -qx '  suite: new, rate, peer 1\.0'
	tail -n 1 "$TEST_DIR/out" | grep -qx \
		'9 rows: 2 better, 2 worse, 3 same, 1 unclear, 1 other peer; 1 only in the old run, 1 only in the new'
}

test_a_strict_compare_fails_when_something_is_worse_or_gone() {
	document old.json <<<'document(simple([10] * 3, [10] * 3), simple([10] * 3, [10] * 3, "b"))'
	document new.json <<<'document(simple([12] * 3, [10] * 3), simple([10] * 3, [10] * 3, "b"), simple([1], [1], "c"))'
	document less.json <<<'document(simple([10] * 3, [10] * 3))'
	compare --strict "$TEST_DIR/old.json" "$TEST_DIR/old.json" | tail -n 1 | grep -qx '2 rows: 0 better, 0 worse, 2 same'
	compare --strict "$TEST_DIR/old.json" "$TEST_DIR/new.json" >"$TEST_DIR/out"
	compare "$TEST_DIR/new.json" "$TEST_DIR/old.json" >"$TEST_DIR/out"
	fails 3 '1 worse' compare --strict "$TEST_DIR/new.json" "$TEST_DIR/old.json"
	fails 3 '1 only in the old run' compare --strict "$TEST_DIR/old.json" "$TEST_DIR/less.json"
}

# Equal runs are called different in one of 100 rows or less, whatever the number
# of rounds; runs that differ by 30 % with so little noise are called that.
test_compare_takes_no_noise_for_a_change() {
	"$PYTHON" <<-'END'
		import random
		from made import *
		from harness import compare, document as documents
		random.seed(7)
		def run(rounds, level):
		    return documents.parse(json.dumps(document(*(
		        simple([level * random.gauss(1, 0.05) for _ in range(rounds)], [1.0] * rounds, f"row {i}")
		        for i in range(2000)))).encode(), "made")
		for rounds in (2, 3, 5, 8, 15):
		    old = run(rounds, 1)
		    for level, least, most in ((1, 0, 40), (0.7, 1000 if rounds > 2 else 100, 2000)):
		        found, _, _ = compare.compare(old, run(rounds, level))
		        told = sum(c.verdict != "same" for c in found)
		        assert least <= told <= most, (rounds, level, told)
	END
}

test_tables_for_a_page_of_markdown() {
	document run.json <<-'END'
		document(simple([12] * 3, [10] * 3, "a|b"), simple([5] * 3, [10] * 3, "c", published=0.3),
		         simple([5] * 3, [10] * 3, "d", suite="other", goal="none", still_disturbed=1))
	END
	report "$TEST_DIR/run.json" --markdown >"$TEST_DIR/out"
	grep -qxF '2 cores of a processor, kernel 6.1, `perf/run suite other`: 1 of 2 goals are met.' "$TEST_DIR/out"
	grep -qxF '| a\|b | rate, 1/s | 12 | 10 | peer 1.0 | 1.20 | 1.20–1.20 |  | ≥ 1 | met by 20 % |' "$TEST_DIR/out"
	grep -qxF '| c | rate, 1/s | 5 | 10 | peer 1.0 | 0.50 | 0.50–0.50 | 0.30 | ≥ 1 | **missed by 50 %** |' "$TEST_DIR/out"
	grep -qxF '| d | rate, 1/s | 5 | 10 | peer 1.0 | 0.50 | 0.50–0.50 ! | none |  |' "$TEST_DIR/out"
	printf '%s\n' before '<!-- perf/report other -->' old lines '<!-- end -->' between \
		'<!-- perf/report absent -->' kept '<!-- end -->' after >"$TEST_DIR/page.md"
	report "$TEST_DIR/run.json" --into "$TEST_DIR/page.md"
	{
		printf '%s\n' before '<!-- perf/report other -->'
		sed -n '/^\*\*`other`/,$p' "$TEST_DIR/out" | tail -n +2
		printf '%s\n' '' '<!-- end -->' between '<!-- perf/report absent -->' kept '<!-- end -->' after
	} | cmp - "$TEST_DIR/page.md"
	report "$TEST_DIR/run.json" --into "$TEST_DIR/page.md"
	same "$(grep -c '^| d ' "$TEST_DIR/page.md")" 1
	echo nothing >"$TEST_DIR/page.md"
	fails 1 'has no line <!-- perf/report SUITE -->' report "$TEST_DIR/run.json" --into "$TEST_DIR/page.md"
	same "$(cat "$TEST_DIR/page.md")" nothing
	fails 1 'cannot read' report "$TEST_DIR/run.json" --into "$TEST_DIR/none.md"
}

test_what_is_no_run_is_refused_with_a_word() {
	local good case
	make whole good.json
	good=$(cat "$TEST_DIR/good.json")
	refused() { # TEXT < DOCUMENT
		cat >"$TEST_DIR/bad.json"
		fails 1 "$1" report "$TEST_DIR/bad.json" -o "$TEST_DIR/bad.html"
		fails 1 "$1" compare "$TEST_DIR/bad.json" "$TEST_DIR/good.json"
		[ ! -e "$TEST_DIR/bad.html" ]
	}
	refused 'is empty' </dev/null
	refused 'is not JSON' <<<"rows:"
	refused 'is not JSON' <<<"${good%?}"
	refused 'is not JSON' < <(head -c 1000 /dev/zero)
	refused 'is not JSON' < <(printf '"\xff"')
	refused 'not a run' <<<'[1]'
	refused 'its schema is None; this reads 2' <<<'{"machine": {}, "rows": []}'
	refused 'its schema is 3; this reads 2' <<<"${good/\"schema\": 2/\"schema\": 3}"
	refused 'its schema is True' <<<"${good/\"schema\": 2/\"schema\": true}"
	refused "has no 'rows'" <<<'{"schema": 2, "machine": {}}'
	refused "rows[0] has no 'ratio'" <<<"${good/\"ratio\":/\"was ratio\":}"
	refused 'rows[0].ratio is a text, not a number' <<<"${good/\"ratio\": 0.5/\"ratio\": \"0.5\"}"
	refused 'a number is NaN' <<<"${good/\"ratio\": 0.5/\"ratio\": NaN}"
	refused 'a number is -Infinity' <<<"${good/\"ratio\": 0.5/\"ratio\": -Infinity}"
	refused 'rows[0].ratio is no measurement' <<<"${good/\"ratio\": 0.5/\"ratio\": 1e999}"
	refused 'nested too deeply' < <(printf '{"schema": 2, "machine": {"a": %s%s}, "rows": []}' \
		"$(printf '[%.0s' {1..20000})" "$(printf ']%.0s' {1..20000})")
	fails 1 'cannot read' report "$TEST_DIR/none.json" -o "$TEST_DIR/bad.html"
	fails 1 'cannot read' report "$TEST_DIR" -o "$TEST_DIR/bad.html"
	fails 1 'cannot read' compare "$TEST_DIR/good.json" "$TEST_DIR/none.json"
	fails 2 'where to?' report "$TEST_DIR/good.json"
	fails 2 'required' compare "$TEST_DIR/good.json"
	fails 1 'cannot write /nowhere/x' report "$TEST_DIR/good.json" --markdown -o /nowhere/x
	fails 1 'No space left' report "$TEST_DIR/good.json" --markdown -o /dev/full
	fails 1 'No space left' bash -c '"$1" "$2" "$2" >/dev/full' - "$TOP/perf/compare" "$TEST_DIR/good.json"
}

# A document with any one change is refused, or makes a page that can be read.
test_a_changed_document_is_refused_or_drawn() {
	need_plots
	"$PYTHON" - <<-'END'
		import copy, random, warnings
		from made import *
		from harness import compare, document as documents, markdown, report
		warnings.simplefilter("error")
		odd = [None, True, 0, -1, 1, 2, 1e-300, 1e15, -1e15, 1e16, 10**400, "", " ", "x" * 5000, "\ud800", "\x00",
		       "_x", "$", "<", "p50", [], {}, [[]], [1], [1, 2], [[1, 2]], {"a": 1}, {"": 1}, float("nan"), "none",
		       ">= 1", "<= 0"]
		def places(of, path=()):
		    if isinstance(of, (dict, list)):
		        for key in (of if isinstance(of, dict) else range(len(of))):
		            yield path + (key,)
		            yield from places(of[key], path + (key,))
		drawn = refused = 0
		rng = random.Random(3)
		good = whole()
		good["rows"] = good["rows"][:4] + good["rows"][-1:]
		plain = documents.parse(json.dumps(good).encode(), "made")
		everywhere = list(places(good))
		while drawn < 15 or refused < 300:
		    bad = copy.deepcopy(good)
		    for _ in range(rng.choice((1, 1, 1, 4))):
		        *path, last = rng.choice(everywhere)
		        at = bad
		        try:
		            for key in path:
		                at = at[key]
		            if rng.random() < 0.3:
		                del at[last]
		            else:
		                at[last] = rng.choice(odd)
		        except (KeyError, IndexError, TypeError):
		            pass
		    data = json.dumps(bad).encode()
		    if rng.random() < 0.2:
		        at = rng.randrange(len(data))
		        data = data[:at] + bytes([rng.randrange(256)]) + data[at + rng.randrange(2):]
		    try:
		        read = documents.parse(data, "made")
		    except documents.BadDocument as e:
		        assert "made" in str(e) and "\n" not in str(e)
		        refused += 1
		        continue
		    for a, b in ((plain, read), (read, plain)):
		        "\n".join(compare.text(a, b, compare.compare(a, b))).encode()
		    markdown.page(read).encode()
		    if drawn < 15:
		        ET.fromstring(report.html(read).encode())
		        drawn += 1
	END
}

run_tests "$@"
