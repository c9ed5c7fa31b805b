"""A picture of the differences between two tables: columns, and pairs of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.choices import whole
from kexpfam.plotting.canvas import DATA, MARK, add_key, new_panels

__all__ = ["plot_comparison"]

_MOST_LEVELS, _MOST_IN_MAP, _LONGEST = 8, 12, 14


def plot_comparison(comparison: Any, n_columns: int = 5, axes: Any = None) -> np.ndarray:
    """Draw the result of `kexpfam.compare`.

    One panel for each of the columns with the most significant changes shows the shares of both
    tables. A map of the pairs of columns shows how much the strength of their dependence changed,
    with a dot for significant changes.

    Parameters
    ----------
    comparison : kexpfam.TableComparison
    n_columns : int, default=5
        The largest number of columns to draw.
    axes : array of matplotlib axes, optional
        One for each column, and one more for the pairs, if there are any.

    Returns
    -------
    ndarray of matplotlib axes
    """
    shown = comparison.columns[: whole("n_columns", n_columns)]
    n_panels = len(shown) + bool(comparison.pairs)
    width = min(3, n_panels) if axes is None else n_panels
    height = -(-n_panels // width)
    panels = new_panels(axes, (height, width), (3.6 * width, 2.9 * height))
    flat = panels.ravel()
    for ax, column in zip(flat, shown, strict=False):
        _draw_column(ax, column, comparison)
    if comparison.pairs:
        _draw_pairs(flat[len(shown)], comparison)
    for ax in flat[n_panels:]:
        ax.set_axis_off()
    flat[0].legend(frameon=False, fontsize="small")
    return panels


def _draw_column(ax: Any, column: Any, comparison: Any) -> None:
    sides = zip(column.shares, comparison.labels, (DATA, MARK), strict=True)
    if all(isinstance(one, float) for one in column.bins):
        for shares, label, color in sides:
            ax.stairs(shares, column.bins, color=color, label=label, linewidth=1.4)
            ax.stairs(shares, column.bins, color=color, fill=True, alpha=0.15)
    else:
        change = np.abs(np.subtract(*column.shares))
        kept = np.sort(np.argsort(-change, kind="stable")[:_MOST_LEVELS])
        for number, (shares, label, color) in enumerate(sides):
            ax.bar(
                np.arange(len(kept)) + 0.4 * number - 0.2, np.array(shares)[kept], 0.38,
                color=color, label=label, alpha=0.85,
            )  # fmt: skip
        ax.set_xticks(np.arange(len(kept)), [_short(str(column.bins[one])) for one in kept])
        if len(kept) > 4:
            ax.tick_params(axis="x", rotation=30)
    ax.set_ylim(bottom=0)
    ax.set_ylabel("share of the values", fontsize="small")
    lines = [f"{_short(column.name, 28)}   p {column.smallest_p_value:.2g}"]
    if column.missing_p_value <= comparison.level:
        lines.append("missing {:.1%} → {:.1%}".format(*column.missing))
    mark = {"color": MARK} if column.smallest_p_value <= comparison.level else {}
    ax.set_title("\n".join(lines), fontsize="medium", **mark)


def _draw_pairs(ax: Any, comparison: Any) -> None:
    order = [one.name for one in comparison.columns]
    named = {name for one in comparison.moved_pairs for name in one.names}
    # Columns of pairs that moved first, so that they are on the map.
    kept = sorted(order, key=lambda name: (name not in named, order.index(name)))[:_MOST_IN_MAP]
    place = {name: number for number, name in enumerate(kept)}
    changes = np.full((len(kept), len(kept)), np.nan)
    sure = []
    for pair in comparison.pairs:
        if not all(name in place for name in pair.names):
            continue
        first, second = (place[name] for name in pair.names)
        change = pair.strengths[1] - pair.strengths[0]
        changes[first, second] = changes[second, first] = change
        if pair.p_value <= comparison.level:
            sure += [(first, second), (second, first)]
    there = changes[np.isfinite(changes)]
    reach = max(0.1, float(np.abs(there).max())) if len(there) else 1.0
    drawn = ax.imshow(changes, cmap="PuOr", vmin=-reach, vmax=reach)
    if sure:
        ax.scatter(*zip(*sure, strict=True), s=16, color="black")
    ax.set_xticks(range(len(kept)), map(_short, kept), rotation=90, fontsize="small")
    ax.set_yticks(range(len(kept)), map(_short, kept), fontsize="small")
    ax.set_title("change of dependence (dot: sure)", fontsize="medium")
    add_key(ax, drawn, True, shrink=0.8)


def _short(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
