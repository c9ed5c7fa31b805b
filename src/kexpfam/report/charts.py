"""Small pictures as inline SVG: histograms, intervals, lines. Colors come from the style sheet."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.report.markup import Html, element, number

__all__ = ["Interval", "bar_chart", "histogram_chart", "interval_chart", "line_chart", "nice_ticks"]


# Letters of a level's name beside its bar.
_LONGEST_NAME = 15


class Interval(NamedTuple):
    """A named figure with the ends of its error bar."""

    name: str
    center: float
    low: float
    high: float


class _Frame(NamedTuple):
    """Where data lie on the paper: (left, right, top, bottom) in pixels, and in data."""

    left: float
    right: float
    top: float
    bottom: float
    low: float
    high: float
    least: float
    most: float

    def x(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.left + share * (self.right - self.left), 2)

    def y(self, value: float) -> float:
        share = (value - self.least) / (self.most - self.least)
        return round(self.bottom - share * (self.bottom - self.top), 2)


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two others, at most `most` of them.

    Examples
    --------
    >>> nice_ticks(0.0, 1.0), nice_ticks(-3.2, 11.0)
    ([0.0, 0.5, 1.0], [0.0, 5.0, 10.0])
    """
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 1.0001)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12 - math.floor(math.log10(step))) for k in range(first, last + 1)]


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Html:
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _text(x: float, y: float, words: Any, anchor: str = "middle", kind: str = "tick") -> Html:
    return element("text", words, x=x, y=y, text_anchor=anchor, class_=kind)


def _x_axis(frame: _Frame, most: int = 5) -> list[Html]:
    parts = [_line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")]
    for tick in nice_ticks(frame.low, frame.high, most):
        x = frame.x(tick)
        parts.append(_line(x, frame.bottom, x, frame.bottom + 4, "axis"))
        parts.append(_text(x, frame.bottom + 16, number(tick)))
    return parts


def _svg(width: int, height: int, label: str, parts: Sequence[Html]) -> Html:
    return element(
        "svg",
        *parts,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=label,
        class_="chart",
    )


def histogram_chart(
    edges: Float[np.ndarray, " e"],
    bars: Float[np.ndarray, " b"] | None,
    steps: Float[np.ndarray, " b"] | None,
    label: str,
    *,
    mark: float | None = None,
    curve: tuple[Float[np.ndarray, " c"], Float[np.ndarray, " c"]] | None = None,
    size: tuple[int, int] = (320, 150),
) -> Html:
    """Filled bars (data), an outline (draws) over the same bins, a curve, and a line at a value."""
    width, height = size
    of_curve = None if curve is None else curve[1]
    shown = [heights for heights in (bars, steps, of_curve) if heights is not None]
    tallest = max(float(np.max(heights)) for heights in shown) or 1.0
    low, high = float(edges[0]), float(edges[-1])
    if mark is not None:
        low, high = min(low, mark), max(high, mark)
    margin = 0.02 * (high - low)
    frame = _Frame(
        10.0, width - 10.0, 8.0, height - 24.0, low - margin, high + margin, 0.0, tallest
    )
    parts = []
    if bars is not None:
        for left, right, tall in zip(edges, edges[1:], bars, strict=False):
            x, y = frame.x(left), frame.y(tall)
            rest = {"width": round(frame.x(right) - x, 2), "height": round(frame.bottom - y, 2)}
            parts.append(element("rect", x=x, y=y, **rest, class_="data-bar"))
    if steps is not None:
        corners = [f"M{frame.x(edges[0])} {frame.bottom}"]
        for right, tall in zip(edges[1:], steps, strict=True):
            corners.append(f"V{frame.y(tall)}H{frame.x(right)}")
        corners.append(f"V{frame.bottom}")
        parts.append(element("path", d="".join(corners), class_="draws-line"))
    if curve is not None:
        places = [f"{frame.x(x)} {frame.y(y)}" for x, y in zip(*curve, strict=True)]
        parts.append(element("path", d="M" + "L".join(places), class_="draws-line"))
    if mark is not None:
        x = frame.x(mark)
        parts.append(_line(x, frame.top, x, frame.bottom, "mark"))
    return _svg(width, height, label, [*parts, *_x_axis(frame)])


def bar_chart(
    names: Sequence[str],
    bars: Float[np.ndarray, " k"] | None,
    marks: Float[np.ndarray, " k"] | None,
    label: str,
) -> Html:
    """Shares of levels, one under the other: filled bars (data) and upright lines (draws)."""
    width, row_height, left = 320, 20, 104
    height = row_height * len(names) + 32
    shown = [shares for shares in (bars, marks) if shares is not None]
    largest = max(float(np.max(shares)) for shares in shown) or 1.0
    frame = _Frame(
        float(left), width - 10.0, 6.0, height - 24.0, 0.0, 1.05 * largest, 0.0, float(len(names))
    )
    parts = []
    for place, name in enumerate(names):
        y = frame.top + row_height * place
        short = name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
        parts.append(_text(left - 8.0, y + 14, short, "end", "name"))
        if bars is not None:
            size = {"width": round(frame.x(bars[place]) - frame.left, 2), "height": row_height - 6}
            parts.append(element("rect", x=frame.left, y=y + 3, **size, class_="data-bar"))
        if marks is not None:
            x = frame.x(marks[place])
            parts.append(_line(x, y + 1, x, y + row_height - 1, "mark"))
    return _svg(width, height, label, [*parts, *_x_axis(frame, 4)])


def interval_chart(intervals: Sequence[Interval], label: str, axis: str) -> Html:
    """One error bar under the other, and a line at zero."""
    width, row_height, left = 440, 28, 172
    height = row_height * len(intervals) + 52
    low = min(0.0, *(one.low for one in intervals))
    high = max(0.0, *(one.high for one in intervals))
    margin = 0.06 * (high - low) or 1.0
    frame = _Frame(
        float(left),
        width - 20.0,
        6.0,
        height - 46.0,
        low - margin,
        high + margin,
        0.0,
        float(len(intervals)),
    )
    zero = frame.x(0.0)
    parts = [_line(zero, frame.top, zero, frame.bottom, "zero")]
    for place, one in enumerate(intervals):
        y = frame.top + row_height * (place + 0.5)
        parts.append(_text(left - 12.0, y + 5, one.name, "end", "name"))
        parts.append(_line(frame.x(one.low), y, frame.x(one.high), y, "whisker"))
        parts.append(element("circle", cx=frame.x(one.center), cy=y, r=5, class_="center"))
    parts.append(_text((frame.left + frame.right) / 2, height - 6.0, axis))
    return _svg(width, height, label, [*parts, *_x_axis(frame)])


def line_chart(
    x: Float[np.ndarray, " n"],
    y: Float[np.ndarray, " n"],
    label: str,
    axes: tuple[str, str],
    *,
    log_x: bool = False,
    dots: bool = False,
) -> Html:
    """A line through the finite points, with both axes; at least two of them are needed."""
    width, height = 440, 220
    finite = np.isfinite(x) & np.isfinite(y)
    across, up = (np.log10(x[finite]) if log_x else x[finite]), y[finite]
    low, high = float(across.min()), float(across.max())
    least, most = min(0.0, float(up.min())), max(0.0, float(up.max()))
    margin, space = 0.03 * (high - low) or 0.5, 0.06 * (most - least) or 1.0
    frame = _Frame(
        64.0,
        width - 12.0,
        10.0,
        height - 46.0,
        low - margin,
        high + margin,
        least - space,
        most + space,
    )
    parts = [_line(frame.left, frame.y(0.0), frame.right, frame.y(0.0), "zero")]
    for tick in nice_ticks(frame.least, frame.most):
        parts.append(_text(frame.left - 8, frame.y(tick) + 4, number(tick), "end"))
        parts.append(_line(frame.left - 4, frame.y(tick), frame.left, frame.y(tick), "axis"))
    parts.append(_line(frame.left, frame.top, frame.left, frame.bottom, "axis"))
    places = [(frame.x(one), frame.y(two)) for one, two in zip(across, up, strict=True)]
    path = "M" + "L".join(f"{one} {two}" for one, two in places)
    parts.append(element("path", d=path, class_="data-line"))
    if dots:
        parts += [element("circle", cx=one, cy=two, r=4, class_="dot") for one, two in places]
    parts.append(_text((frame.left + frame.right) / 2, height - 6.0, axes[0]))
    middle = (frame.top + frame.bottom) / 2
    parts.append(
        element(
            "text",
            axes[1],
            x=14,
            y=middle,
            text_anchor="middle",
            transform=f"rotate(-90 14 {middle})",
            class_="tick",
        )
    )
    return _svg(width, height, label, [*parts, *(_log_axis(frame) if log_x else _x_axis(frame))])


def _log_axis(frame: _Frame) -> list[Html]:
    parts = [_line(frame.left, frame.bottom, frame.right, frame.bottom, "axis")]
    for power in range(math.floor(frame.low), math.ceil(frame.high) + 1):
        for factor in (1, 2, 5):
            value = math.log10(factor) + power
            if frame.low <= value <= frame.high:
                x = frame.x(value)
                parts.append(_line(x, frame.bottom, x, frame.bottom + 4, "axis"))
                parts.append(_text(x, frame.bottom + 16, number(factor * 10.0**power)))
    return parts
