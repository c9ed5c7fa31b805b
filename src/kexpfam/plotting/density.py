"""The fitted density of a model with one or two columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import share
from kexpfam.plotting.canvas import (
    DATA,
    MODEL,
    add_key,
    column_names,
    draw_rows,
    labeled,
    new_axes,
    shades,
    thinned,
)
from kexpfam.plotting.grids import (
    cell_middles,
    checked_window,
    density_thresholds,
    grid_rows,
    log_densities,
    rows_for,
)

__all__ = ["plot_density"]

_MASSES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
_SIDE = {1: 400, 2: 80}
# Regions of one density (a uniform one) have one threshold.
_APART = 1e-9


def plot_density(
    model: Any,
    X: Any = None,
    *,
    ax: Any = None,
    n_points: int | None = None,
    limits: Any = None,
    masses: Sequence[float] = _MASSES,
    max_rows: int = 1000,
    colorbar: Any = True,
) -> Any:
    """Draw the normalized density of a model with one or two columns.

    With two columns, the smallest regions with the given shares of the mass are drawn, darker where
    they are denser, so that pictures of different models can be compared. With one column, the
    density is drawn as a curve.

    Parameters
    ----------
    model : object
        A fitted estimator (with `score_samples`), or a density with `log_density`.
    X : array or data frame of shape (n_samples, n_features), optional
        Rows to draw: as dots, or as a histogram with ticks below it.
    ax : matplotlib axes, optional
        A new figure by default.
    n_points : int, optional
        Grid points along each column; 400 for one column and 80 for two by default.
    limits : sequence of (low, high), optional
        The window, a pair for each column; around X, else around draws of the model, by default.
    masses : sequence of float, default=(0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
        Shares of the mass that the regions hold (two columns). A share that the window does not
        hold is left out.
    max_rows : int, default=1000
        At most this many rows are drawn as dots or ticks.
    colorbar : bool or array of matplotlib axes, default=True
        Whether to add the key to the regions (two columns), or the axes that it stands beside.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.plotting import plot_density
    >>> X = make_density("banana").sample(200, random_state=0)
    >>> model = KernelExponentialFamily(
    ...     n_components=32, length_scale=1.0, noise_scale=0.1, penalty=0.01, random_state=0
    ... ).fit(X)
    >>> ax = plot_density(model, X)
    >>> ax.get_xlabel()
    '$x_{0}$'
    """
    window = checked_window(model, X, limits)
    n_columns = len(window.low)
    if n_columns > 2:
        raise ValueError(
            f"plot_density draws models with one or two columns; this one has {n_columns}. Try "
            "plot_corner(X, model.sample(1000)), which draws pairs of columns."
        )
    masses = _checked_masses(masses)
    axes = cell_middles(window, _SIDE[n_columns] if n_points is None else n_points)
    densities = np.exp(log_densities(model, grid_rows(axes)))
    rows = None if X is None else rows_for(model, X)
    ax = new_axes(ax)
    if n_columns == 1:
        _draw_curve(ax, axes[0], densities, rows, max_rows)
    else:
        _draw_regions(ax, axes, densities, masses, colorbar)
        if rows is not None:
            style = {"s": 7, "color": "black", "edgecolors": "white", "linewidths": 0.4}
            draw_rows(ax, thinned(rows, max_rows), zorder=3, **style)
        ax.set_ylim(window.low[1], window.high[1])
    ax.set_xlim(window.low[0], window.high[0])
    labeled(ax, [*column_names(model, n_columns), "density"])
    return ax


def _checked_masses(masses: Any) -> Sequence[float]:
    if isinstance(masses, str) or not isinstance(masses, Iterable):
        raise ValueError(f"masses must be a sequence of numbers; got {masses!r}. Try (0.5, 0.9).")
    shares = [share("Each of masses", mass) for mass in masses]
    if not shares:
        raise ValueError("masses must hold at least one number; got none. Try (0.5, 0.9).")
    return shares


def _draw_curve(
    ax: Any,
    points: Float[np.ndarray, " n"],
    densities: Float[np.ndarray, " n"],
    rows: Float[np.ndarray, "m 1"] | None,
    max_rows: int,
) -> None:
    """The density over a histogram of the rows, with a tick for each row below."""
    if rows is not None:
        ax.hist(rows[:, 0], bins="auto", density=True, color="0.85", label="data")
        ticks = thinned(rows, max_rows)[:, 0]
        # A thirtieth of the axes' height, whatever the density's.
        ax.vlines(ticks, 0, 0.03, transform=ax.get_xaxis_transform(), color=DATA, lw=0.4, alpha=0.7)
    ax.plot(points, densities, color=MODEL, lw=1.8, label="model")
    ax.set_ylim(bottom=0)
    if rows is not None:
        ax.legend(frameon=False)


def _draw_regions(
    ax: Any,
    axes: list[Float[np.ndarray, " side"]],
    densities: Float[np.ndarray, " n"],
    masses: Sequence[float],
    colorbar: Any,
) -> None:
    """Filled regions of highest density, with a key of their masses."""
    shares = np.sort(masses)[::-1]
    volume = float(np.prod([points[1] - points[0] for points in axes]))
    thresholds = density_thresholds(densities, volume, list(shares))
    top = float(densities.max())
    colors = shades(len(shares), 0.13, 0.92, "Blues")
    # Each threshold must be above the one before.
    kept = [
        number
        for number, threshold in enumerate(thresholds)
        if threshold > (thresholds[number - 1] if number else 0.0) * (1 + _APART)
    ]
    if not kept:
        raise ValueError(
            "The window holds less of the model's mass than the smallest of masses. Give limits "
            "around where the model lives."
        )
    # Just below, so that a region of one density is inside its own threshold.
    levels = [*(thresholds[kept] * (1 - _APART)), top * (1 + _APART)]
    table = densities.reshape(len(axes[1]), len(axes[0]))
    regions = ax.contourf(*axes, table, levels=levels, colors=colors[kept])
    ax.contour(*axes, table, levels=levels[:-1], colors="white", linewidths=0.4)
    bar = add_key(ax, regions, colorbar, spacing="uniform", ticks=levels[:-1])
    if bar is not None:
        bar.ax.set_yticklabels([f"{100 * share:g} %" for share in shares[kept]])
        bar.ax.tick_params(length=0)
        bar.set_label("mass of the region")
