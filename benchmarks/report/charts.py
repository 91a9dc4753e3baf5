"""
Draw plots as SVG that reads on a light page and on a dark one.

Nothing is filled behind the plot, and the colours follow ``prefers-color-scheme``, which a browser also tells an image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from benchmarks.harness.figures import Spread, number

WIDTH = 860
LABELS = 300
VALUES = 150
ROW = 26
HEAD = 52
FOOT = 30
_STYLE = """
  text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2937; }
  .title { font-size: 15px; font-weight: 600; }
  .muted { fill: #6b7280; font-size: 12px; }
  .grid { stroke: #e5e7eb; }
  .spread { stroke: #1f2937; stroke-width: 1.2; fill: none; }
  .ours { fill: #2563eb; stroke: #2563eb; }
  .peers { fill: #9ca3af; stroke: #9ca3af; }
  .limits { fill: #f59e0b; stroke: #f59e0b; }
  text.ours { stroke: none; font-weight: 600; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e5e7eb; }
    .muted { fill: #9ca3af; }
    .grid { stroke: #374151; }
    .spread { stroke: #e5e7eb; }
    .ours { fill: #60a5fa; stroke: #60a5fa; }
    .peers { fill: #6b7280; stroke: #6b7280; }
    .limits { fill: #d97706; stroke: #d97706; }
  }
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """Hold one bar: the median, with a line from the least to the most."""

    label: str
    group: str
    spread: Spread


@dataclass(frozen=True, slots=True)
class Range:
    """Hold one range: from the median to the 99th percentile."""

    label: str
    group: str
    p50: float
    p99: float


def bars(title: str, unit: str, rows: Sequence[Bar]) -> str:
    """Draw bars from zero, with the median written beside each."""
    top = max(row.spread.most for row in rows)
    scale = _linear(top)
    body = []
    for index, row in enumerate(rows):
        y = HEAD + index * ROW
        end, least, most = (scale(value) for value in (row.spread.median, row.spread.least, row.spread.most))
        body += [
            _label(row.label, row.group, y),
            f'<rect class="{row.group}" x="{LABELS}" y="{y + 4}" width="{end - LABELS:.1f}" height="{ROW - 10}"/>',
            f'<path class="spread" d="M{least:.1f} {y + 12}H{most:.1f}M{least:.1f} {y + 9}v6M{most:.1f} {y + 9}v6"/>'
            if least < most
            else "",
            f'<text x="{max(end, most) + 8:.1f}" y="{y + 16}">{number(row.spread.median)}</text>',
        ]
    ticks = [(scale(value), number(value)) for value in _ticks(top)]
    return _frame(title, f"{unit}; the line is from the lowest run to the highest", len(rows), ticks, body)


def ranges(title: str, unit: str, rows: Sequence[Range]) -> str:
    """Draw ranges on a logarithmic scale: a full dot at the median, an open one at the 99th percentile."""
    least, most = min(row.p50 for row in rows), max(row.p99 for row in rows)
    first = math.floor(math.log10(least))
    powers = range(first, max(first + 1, math.ceil(math.log10(most))) + 1)
    scale = _logarithmic(10.0 ** powers[0], 10.0 ** powers[-1])
    body = []
    for index, row in enumerate(rows):
        y = HEAD + index * ROW + 12
        start, end = scale(row.p50), scale(row.p99)
        body += [
            _label(row.label, row.group, y - 12),
            f'<path class="{row.group}" stroke-width="3" d="M{start:.1f} {y}H{end:.1f}"/>',
            f'<circle class="{row.group}" cx="{start:.1f}" cy="{y}" r="5"/>',
            f'<circle class="{row.group}" fill-opacity="0.25" cx="{end:.1f}" cy="{y}" r="5"/>',
            f'<text x="{end + 12:.1f}" y="{y + 4}">{number(row.p50)} / {number(row.p99)}</text>',
        ]
    ticks = [(scale(10.0**power), f"{10.0**power:g}") for power in powers]
    return _frame(title, f"{unit}, logarithmic: p50 / p99", len(rows), ticks, body)


def _label(text: str, group: str, y: float) -> str:
    kind = ' class="ours"' if group == "ours" else ""
    return f'<text{kind} x="{LABELS - 10}" y="{y + 16}" text-anchor="end">{escape(text)}</text>'


def _frame(title: str, unit: str, rows: int, ticks: Sequence[tuple[float, str]], body: Sequence[str]) -> str:
    bottom = HEAD + rows * ROW + 4
    grid = [
        f'<path class="grid" d="M{x:.1f} {HEAD - 6}V{bottom}"/>'
        f'<text class="muted" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{text}</text>'
        for x, text in ticks
    ]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + FOOT}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="8" y="20">{escape(title)}</text>',
        f'<text class="muted" x="8" y="38">{escape(unit)}</text>',
        *grid,
        *body,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _linear(top: float) -> Callable[[float], float]:
    room = WIDTH - LABELS - VALUES
    return lambda value: LABELS + value / top * room


def _logarithmic(least: float, most: float) -> Callable[[float], float]:
    room = (WIDTH - LABELS - VALUES) / math.log10(most / least)
    return lambda value: LABELS + math.log10(value / least) * room


def _ticks(top: float) -> list[float]:
    """Give zero and up to five round steps below *top*."""
    power = 10.0 ** math.floor(math.log10(top / 4))
    step = next(each * power for each in (1, 2, 2.5, 5, 10) if each * power * 5 >= top)
    return [step * index for index in range(int(top / step) + 1)]
