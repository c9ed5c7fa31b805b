"""Pictures of p(y | x): regions over one input, curves at a few rows, and coverage of intervals.

The region of highest density with mass m at an x is {y : p(y | x) ≥ t(x)} with the threshold that
leaves m inside: the smallest set that holds y with the probability m, in several pieces where the
density has several humps. For a target on a lattice cells show probabilities instead.

If a model is right, the cdf at the rows' own targets, u = F(y | x), is uniform (the probability
integral transform), and the interval between the levels (1 − c)/2 and (1 + c)/2 holds the share

    P(|2u − 1| ≤ c) = c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import stats

from kexpfam.choices import numpys_generator, share, whole
from kexpfam.plotting.canvas import (
    DATA,
    MODEL,
    add_key,
    add_legend_above,
    column_names,
    draw_rows,
    new_axes,
    shades,
    thinned,
)
from kexpfam.plotting.grids import evaluate
from kexpfam.plotting.ranks import count_band, spread_places

__all__ = ["plot_conditional", "plot_conditional_curves", "plot_coverage", "plot_pit"]

_COLUMNS, _HEIGHTS = 120, 300
# Of the targets' range, above and below.
_MARGIN = 0.08
# As many draws as to be no error beside that of the rows.
_MANY, _MOST_PLACES = 100_000, 99


def plot_conditional(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    feature: Any = 0,
    at: Any = None,
    masses: Sequence[float] = (0.5, 0.9, 0.99),
    limits: Any = None,
    max_rows: int = 1000,
    colorbar: Any = True,
    ax: Any = None,
) -> Any:
    """Draw highest-density regions of y over one input, with the others fixed.

    Parameters
    ----------
    model : fitted ConditionalKernelExponentialFamily
    X : array or data frame of shape (n_samples, n_features)
        Rows that say where the inputs live.
    y : array of shape (n_samples,), optional
        Their targets, drawn as dots. With several inputs the dots are not at the held values.
    feature : int or str, default=0
        The input that varies, by place or name.
    at : array of shape (n_features,), optional
        Where the other inputs are held; at the rows' medians by default.
    masses : sequence of float, default=(0.5, 0.9, 0.99)
        Probabilities that the regions hold.
    limits : (low, high), optional
        The window of y.
    max_rows : int, default=1000
        At most this many rows are drawn.
    colorbar : bool or array of matplotlib axes, default=True
        Whether to add the key to the regions, or the axes that it stands beside.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam import ConditionalKernelExponentialFamily
    >>> from kexpfam.plotting import plot_conditional
    >>> X = np.linspace(-2, 2, 60)[:, None]
    >>> y = X[:, 0] + 0.3 * np.random.default_rng(0).standard_normal(60)
    >>> model = ConditionalKernelExponentialFamily(random_state=0).fit(X, y)
    >>> ax = plot_conditional(model, X, y)
    >>> ax.get_ylabel()
    'y'
    """
    rows = np.asarray(X, float)
    names = column_names(model, rows.shape[1])
    place = _place(feature, names)
    shares = sorted((share("Each of masses", mass) for mass in masses), reverse=True)
    held = np.median(rows, axis=0) if at is None else np.asarray(at, float).reshape(-1)
    along = np.linspace(rows[:, place].min(), rows[:, place].max(), _COLUMNS)
    lines = np.tile(held, (_COLUMNS, 1))
    lines[:, place] = along
    ax = new_axes(ax)
    if model.density_.lattice is not None:
        _draw_cells(ax, model, lines, along, colorbar)
    else:
        heights = _heights(model, lines, y, limits)
        _draw_regions(ax, model, lines, along, heights, shares, colorbar)
        ax.set_ylim(heights[0], heights[-1])
    if y is not None:
        dots = thinned(np.column_stack([rows[:, place], np.asarray(y, float)]), max_rows)
        style = {"s": 7, "color": "black", "edgecolors": "white", "linewidths": 0.4}
        draw_rows(ax, dots, zorder=3, **style)
    ax.set(xlim=(along[0], along[-1]), xlabel=names[place], ylabel=_target(model))
    return ax


def plot_conditional_curves(
    model: Any, X: Any, y: Any = None, *, labels: Sequence[str] | None = None, ax: Any = None
) -> Any:
    """Draw the density of y at a few rows, as curves above each other.

    Parameters
    ----------
    model : fitted ConditionalKernelExponentialFamily
    X : array or data frame of shape (n_rows, n_features)
        The rows; up to a dozen are readable.
    y : array of shape (n_rows,), optional
        Their targets, marked on the curves.
    labels : sequence of str, optional
        Names of the rows; by default their numbers.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes
    """
    rows = np.asarray(X, float)
    ax = new_axes(ax)
    heights = _heights(model, rows, y, None)
    if model.density_.lattice is not None:
        heights = model.density_.lattice.points
    densities = _densities(model, rows, heights)
    step = 1.1 * float(densities.max())
    colors = shades(len(rows), 0.45, 0.9, "Blues")
    for number, (curve, color) in enumerate(zip(densities, colors, strict=True)):
        base = -number * step
        ax.fill_between(heights, base, base + curve, color=color, alpha=0.6, lw=0)
        ax.plot(heights, base + curve, color=MODEL, lw=1.0)
        if y is not None:
            target = float(np.asarray(y, float)[number])
            ax.plot([target, target], [base, base + 0.35 * step], color=DATA, lw=1.6)
    ax.set_yticks([-number * step for number in range(len(rows))])
    ax.set_yticklabels(labels or [f"row {number}" for number in range(len(rows))])
    ax.set(xlim=(heights[0], heights[-1]), xlabel=_target(model))
    return ax


def plot_pit(
    model: Any, X: Any, y: Any, *, n_bins: int = 20, coverage: float = 0.95, ax: Any = None
) -> Any:
    """Draw the histogram of F(y | x), which is flat if the model is correct.

    If it has a valley, intervals are too narrow; if it has a hill, they are too wide. A slope means
    that targets are higher or lower than predicted.

    Parameters
    ----------
    model : fitted ConditionalKernelExponentialFamily
    X : array or data frame of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Targets that the model was not fitted to.
    n_bins : int, default=20
    coverage : float, default=0.95
        Probability with which the band contains all bars of a correct model.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes
    """
    count = whole("n_bins", n_bins, least=2)
    level = share("coverage", coverage)
    levels = evaluate(model.cdf, X, np.asarray(y, float))
    # All bars at once: each leaves its own interval a share as often.
    tail = (1 - level) / (2 * count)
    low, high = stats.binom.ppf([tail, 1 - tail], len(levels), 1 / count) * count / len(levels)
    ax = new_axes(ax, (4.8, 3.2))
    ax.axhspan(low, high, color="0.85", label=f"{100 * level:g} % band")
    ax.hist(
        levels, bins=np.linspace(0, 1, count + 1), density=True, histtype="step",
        color=MODEL, lw=1.6, label="rows",
    )  # fmt: skip
    ax.axhline(1.0, color="0.4", lw=0.8, linestyle="dashed")
    ax.set(xlim=(0, 1), ylim=(0, None), xlabel="F(y | x)", ylabel="density of rows")
    add_legend_above(ax)
    return ax


def plot_coverage(
    model: Any, X: Any, y: Any, *, coverage: float = 0.95, random_state: Any = 0, ax: Any = None
) -> Any:
    """Draw the share of targets inside equal-tailed intervals over their nominal coverage.

    Parameters
    ----------
    model : fitted ConditionalKernelExponentialFamily
    X : array or data frame of shape (n_samples, n_features)
    y : array of shape (n_samples,)
        Targets that the model was not fitted to.
    coverage : float, default=0.95
        Probability with which the band contains the whole line of a correct model.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the band.
    ax : matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib axes
    """
    level = share("coverage", coverage)
    needed = np.abs(2 * evaluate(model.cdf, X, np.asarray(y, float)) - 1)
    places = spread_places(_MANY, _MOST_PLACES)
    nominal = places / (_MANY + 1)
    generator = numpys_generator(random_state)
    least, largest = count_band(len(needed), _MANY, places, level, generator)
    inside = np.searchsorted(np.sort(needed), nominal, side="right") / len(needed)
    ax = new_axes(ax, (4.2, 4.0))
    ax.fill_between(
        nominal, least / len(needed), largest / len(needed), color="0.85",
        label=f"{100 * level:g} % band",
    )  # fmt: skip
    ax.plot([0, 1], [0, 1], color="0.4", lw=0.8, linestyle="dashed")
    ax.plot(nominal, inside, color=MODEL, lw=1.6, label="rows")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="nominal coverage", ylabel="share of rows inside")
    add_legend_above(ax)
    return ax


def _place(feature: Any, names: Sequence[str]) -> int:
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(
                f"feature must be one of {', '.join(names[:10])}, or a place; got {feature!r}."
            )
        return list(names).index(feature)
    place = whole("feature", feature, least=0)
    if place >= len(names):
        raise ValueError(f"feature must be below {len(names)}, the number of inputs; got {place}.")
    return place


def _target(model: Any) -> str:
    return getattr(model, "target_name_", None) or "y"


def _heights(
    model: Any, rows: Float[np.ndarray, "n d"], y: Any, limits: Any
) -> Float[np.ndarray, " h"]:
    """Places of y: around the targets, else around the model's own quantiles."""
    if limits is None:
        ends = evaluate(model.predict_quantiles, rows, [0.005, 0.995])
        low, high = float(ends.min()), float(ends.max())
        if y is not None:
            targets = np.asarray(y, float)
            low, high = min(low, float(targets.min())), max(high, float(targets.max()))
        margin = _MARGIN * (high - low)
        bottom, top = model.bounds_
        limits = max(low - margin, bottom), min(high + margin, top)
    low, high = limits
    return np.linspace(float(low), float(high), _HEIGHTS)


def _densities(
    model: Any, rows: Float[np.ndarray, "n d"], heights: Float[np.ndarray, " h"]
) -> Float[np.ndarray, "n h"]:
    return np.exp(model.density_.log_density_table(rows, heights))


def _draw_regions(
    ax: Any,
    model: Any,
    lines: Float[np.ndarray, "n d"],
    along: Float[np.ndarray, " n"],
    heights: Float[np.ndarray, " h"],
    shares: Sequence[float],
    colorbar: Any,
) -> None:
    """Filled by the mass of the smallest region that reaches each place."""
    densities = _densities(model, lines, heights)
    order = np.argsort(-densities, axis=1)
    cells = np.take_along_axis(densities, order, 1) * (heights[1] - heights[0])
    reached = np.empty_like(cells)
    np.put_along_axis(reached, order, np.cumsum(cells, axis=1), axis=1)
    # From the largest region, drawn first, to the smallest.
    colors = shades(len(shares), 0.15, 0.75, "Blues")
    levels = [0.0, *shares[::-1]]
    regions = ax.contourf(along, heights, reached.T, levels=levels, colors=colors[::-1])
    bar = add_key(ax, regions, colorbar, spacing="uniform", ticks=levels[1:])
    if bar is not None:
        bar.ax.set_yticklabels([f"{100 * level:g} %" for level in levels[1:]])
        bar.ax.tick_params(length=0)
        bar.set_label("mass of the region")


def _draw_cells(
    ax: Any,
    model: Any,
    lines: Float[np.ndarray, "n d"],
    along: Float[np.ndarray, " n"],
    colorbar: Any,
) -> None:
    points = model.density_.lattice.points
    shares = _densities(model, lines, points)
    seen = np.flatnonzero(shares.max(axis=0) > 1e-3)
    kept = slice(seen[0], seen[-1] + 1)
    drawn = ax.pcolormesh(
        along, points[kept], shares[:, kept].T, cmap="Blues", vmin=0.0, rasterized=True
    )
    bar = add_key(ax, drawn, colorbar)
    if bar is not None:
        bar.set_label("probability")
