# SPDX-License-Identifier: Apache-2.0
"""The report's pictures: SVG elements by matplotlib, of the same figures always the
same. Colours are the page's (var(--ink)), so they follow its light and dark; all are
WIDTH units wide, which is a phone."""
import io
import re
import xml.etree.ElementTree as ET

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

WIDTH = 360
NAME_MAX = 42  # characters of a bar's name; more is cut off
LEAST = 1e-6  # what is less is 0 where a scale has none
FONT = 12
SERIES = 8      # colours; the first is ours
MARKS, SIGNS = "osD^vPX", "●■◆▲▼✚✖"  # matplotlib's, and the same in a text

# What the page calls a colour, and what stands for it until it is there.
INK, FAINT, GRID, EVENT = "#000101", "#000102", "#000103", "#000104"
_COLOURS = {INK: "--ink", FAINT: "--faint", GRID: "--grid", EVENT: "--event",
            **{f"#0002{i:02x}": f"--s{i}" for i in range(SERIES)}}

_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"


def look(series):
    """Its colour's and its mark's number: ours has its own, 42 others differ."""
    if series == 0:
        return 0, 0
    return 1 + (series - 1) % (SERIES - 1), 1 + (series - 1) % (len(MARKS) - 1)


def colour(series):
    return f"#0002{look(series)[0]:02x}"


def mark(series):
    return MARKS[look(series)[1]]


def short(value):
    """A number in five characters or so."""
    for least, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= least:
            return f"{value / (1e3 if letter == 'k' else least):.3g}{letter}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _figure(height):
    matplotlib.rcdefaults()  # nobody's matplotlibrc
    matplotlib.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": "perf", "font.size": FONT,
        "text.parse_math": False, "text.color": INK, "axes.facecolor": "none", "axes.edgecolor": FAINT,
        "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK,
        "axes.grid": True, "grid.color": GRID, "grid.linewidth": 0.8,
        "axes.spines.top": False, "axes.spines.right": False, "axes.unicode_minus": False,
        "legend.frameon": False, "path.simplify": True})
    figure = Figure(figsize=(WIDTH / 72, height / 72))
    FigureCanvasSVG(figure)
    figure.patch.set_visible(False)
    return figure


def _svg(figure, label):
    """The figure as an element: without its date and the ids that nothing refers to;
    those that are left are no other picture's (label is the picture's name)."""
    out = io.BytesIO()
    figure.savefig(out, format="svg")
    root = ET.fromstring(out.getvalue())
    for part in root.findall(f"{_SVG}metadata"):
        root.remove(part)
    text = out.getvalue().decode()
    wanted = set(re.findall(r"(?:url\(#|href=\"#)([^\")]+)", text))
    prefix = re.sub(r"\W+", "-", label)

    for part in root.iter():
        part.tag = part.tag.replace(_SVG, "")
        part.tail = None if not (part.tail or "").strip() else part.tail
        if part.tag != "text" and not (part.text or "").strip():
            part.text = None
        if (name := part.attrib.pop("id", None)) in wanted:
            part.set("id", f"{prefix}-{name}")
        if name := part.attrib.pop(_HREF, None):
            part.set("href", f"#{prefix}-{name[1:]}")
        for key, value in part.attrib.items():
            value = re.sub(r"url\(#", f"url(#{prefix}-", value)
            value = re.sub(r"#000[12][0-9a-f]{2}", lambda m: f"var({_COLOURS[m.group()]})", value)
            part.set(key, value)
        if part.tag == "text":  # the page's font; matplotlib's is measured only
            part.set("style", re.sub(r"font: ([0-9.]+px)[^;]*", r"font-size: \1",
                                     part.get("style", "")))
    for key in ("width", "height", "version"):
        root.attrib.pop(key, None)
    root.set("xmlns", _SVG[1:-1])
    root.set("role", "img")
    root.set("aria-label", label)
    return root


def _cut(text, most):
    return text if len(text) <= most else text[:most - 1].rstrip() + "…"


# ---- bars ----

def bars(label, blocks):
    """@blocks: (heading, [(name, series, median, low, high)]). The bars of one block
    are to one scale; each has its name and figure above it."""
    heading, step, thick = 22, 31, 9
    height = sum(heading + step * len(of) for _, of in blocks) + 4
    figure = _figure(height)
    axes = figure.add_axes([0, 0, 1, 1])
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(height, 0)
    axes.axis("off")
    y = 0
    for title, of in blocks:
        axes.text(0, y + heading - 5, _cut(title, 50), weight="bold")
        y += heading
        most = max(max(abs(median), abs(high)) for _, _, median, _, high in of) or 1
        for name, series, median, low, high in of:
            axes.text(0, y + 13, _cut(name, NAME_MAX))
            axes.text(WIDTH, y + 13, short(median), ha="right")
            axes.add_patch(Rectangle((0, y + 18), WIDTH, thick, color=GRID, linewidth=0))
            axes.add_patch(Rectangle((0, y + 18), max(WIDTH * median / most, 1), thick,
                                     color=colour(series), linewidth=0))
            if high > low:
                axes.plot([WIDTH * low / most, WIDTH * high / most], [y + 18 + thick / 2] * 2,
                          color=INK, linewidth=1.2, marker="|", markersize=6)
            y += step
    return _svg(figure, label)


# ---- lines ----

def _axes(figure, height, xlabel):
    left, bottom, top = 48, 36, 14
    axes = figure.add_axes([left / WIDTH, bottom / height, 1 - (left + 12) / WIDTH,
                            1 - (bottom + top) / height])
    axes.set_xlabel(_cut(xlabel, 50))
    axes.tick_params(length=3)
    return axes


def _number_axis(axis):
    axis.set_major_formatter(matplotlib.ticker.FuncFormatter(lambda v, _: short(v)))


def _log_axis(axis, values):
    """From one of 1, 2, 5, 10... to another, so that there are figures at it."""
    steps = [digit * 10.0 ** power for power in range(-7, 17) for digit in (1, 2, 5)]
    low = max((s for s in steps if s <= min(values)), default=steps[0])
    high = min((s for s in steps if s >= max(values) and s > low), default=steps[-1])
    axis.axes.set_yscale("log")
    axis.axes.set_ylim(low, high)
    subs = (1,) if high > 1e4 * low else (1, 2, 5) if high > 10 * low else (1, 2, 3, 5, 7)
    axis.set_major_locator(matplotlib.ticker.LogLocator(10, subs, numticks=20))
    axis.set_minor_locator(matplotlib.ticker.NullLocator())
    _number_axis(axis)


def _wide(values, times):
    """Positive, and so far apart that one scale of steps hides most of them."""
    return values and min(values) > LEAST and max(values) >= times * min(values)


def curves(label, xlabel, lines):
    """@lines: [(series, [(x, median, low, high)])], by x."""
    height = 230
    figure = _figure(height)
    axes = _axes(figure, height, xlabel)
    for series, points in lines:
        x, median, low, high = zip(*points)
        axes.fill_between(x, low, high, color=colour(series), alpha=0.18, linewidth=0)
        axes.plot(x, median, color=colour(series), marker=mark(series), markersize=5,
                  linewidth=1.6)
    at = sorted({x for _, points in lines for x, *_ in points})
    if _wide(at, 8):
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(matplotlib.ticker.FixedLocator(_few(at)))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    _number_axis(axes.xaxis)
    values = [point[1] for _, points in lines for point in points]
    _number_axis(axes.yaxis)
    if _wide(values, 50):
        _log_axis(axes.yaxis, values)
    elif min(values) >= 0:
        axes.set_ylim(bottom=0)
    return _svg(figure, label)


def _few(at, most=9):
    return at if len(at) <= most else at[::-(-len(at) // most)][:most][::-1]


def percentiles(label, names, lines):
    """Latency: @names of the percentiles, @lines [(series, [microseconds or None])]."""
    height = 230
    figure = _figure(height)
    axes = _axes(figure, height, "percentile (latency in µs, logarithmic)")
    for series, values in lines:
        found = [(i, v) for i, v in enumerate(values) if v and v > LEAST]
        if found:
            axes.plot(*zip(*found), color=colour(series), marker=mark(series), markersize=5,
                      linewidth=1.6)
    axes.set_xlim(-0.3, len(names) - 0.7)
    axes.set_xticks(range(len(names)), [_cut(name, 8) for name in names])
    axes.tick_params(axis="x", labelsize=FONT - 1.5)
    if shown := [v for _, values in lines for v in values if v and v > LEAST]:
        _log_axis(axes.yaxis, shown)
    return _svg(figure, label)


def timeline(label, lines, events):
    """@lines: [(series, [(second, figure)])]; @events: [second], numbered from 1."""
    height = 240
    figure = _figure(height)
    axes = _axes(figure, height, "seconds")
    for series, points in lines:
        alone = mark(series) if len(points) == 1 else None
        axes.plot(*zip(*points), color=colour(series), linewidth=1.4, marker=alone)
    axes.set_ylim(bottom=0)
    times = [second for _, points in lines for second, _ in points] + events
    near, last, up = (max(times) - min(times)) / 25, None, 0
    for second, number in sorted((second, i) for i, second in enumerate(events, 1)):
        up = up + 1 if last is not None and second - last < near else 0
        last = second
        axes.axvline(second, color=EVENT, linewidth=1.2, linestyle=(0, (4, 3)))
        axes.text(second, 1.01 - 0.07 * (up % 6), f" {number}" if up else str(number), color=EVENT,
                  ha="left" if up else "center", weight="bold", transform=axes.get_xaxis_transform())
    _number_axis(axes.xaxis)
    _number_axis(axes.yaxis)
    return _svg(figure, label)
