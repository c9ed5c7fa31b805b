"""∇log p as arrows.

A column in small units has large derivatives. So that an arrow points up the steepest slope *of
the picture*, columns are scaled to equal widths of the window, by factors whose product is one:

    s_j = w_j / √(w_0 w_1),     v = s ⊙ ∇log p,     |v| = |∇log p| where the window is square.

Lengths are compressed, |v|^¼, the longest a cell of the grid; colors show |v|.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.plotting.canvas import (
    add_key,
    column_names,
    draw_rows,
    labeled,
    new_axes,
    shades,
    thinned,
)
from kexpfam.plotting.grids import (
    Window,
    cell_middles,
    checked_window,
    evaluate,
    grid_rows,
    rows_for,
)

__all__ = [
    "add_magnitude_key",
    "compressed_lengths",
    "draw_arrows",
    "magnitude_scale",
    "plot_score_field",
    "scores_on_grid",
    "slopes_of_picture",
]

# Longest arrow, in cells of the grid.
_LONGEST = 0.95


def plot_score_field(
    model: Any,
    X: Any = None,
    *,
    noise_scale: float | None = None,
    ax: Any = None,
    n_points: int = 20,
    limits: Any = None,
    max_rows: int = 1000,
    colorbar: Any = True,
) -> Any:
    """Draw ∇log p of a model with two columns as a field of arrows.

    Arrows point up the steepest slope of the picture. Their lengths are its fourth root, so that
    weak slopes are seen beside strong ones; the colors tell how strong.

    Parameters
    ----------
    model : object
        With `gradient(X)`: a fitted estimator or a density.
    X : array or data frame of shape (n_samples, 2), optional
        Rows to draw as dots, as they are.
    noise_scale : float, optional
        The noise level of a `KernelDiffusion`; its lowest by default.
    ax : matplotlib axes, optional
        A new figure by default.
    n_points : int, default=20
        Arrows along each column.
    limits : sequence of (low, high), optional
        The window, a pair for each column; around X, else around draws of the model, by default.
    max_rows : int, default=1000
        At most this many rows are drawn.
    colorbar : bool or array of matplotlib axes, default=True
        Whether to add the key to the colors, or the axes that it stands beside.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.plotting import plot_score_field
    >>> density = make_density("ring")
    >>> ax = plot_score_field(density, density.sample(200, random_state=0), n_points=12)
    >>> len(ax.collections[-1].get_offsets())  # arrows
    144
    """
    window = checked_window(model, X, limits)
    if len(window.low) != 2:
        raise ValueError(
            "plot_score_field draws models with two columns; this one has "
            f"{len(window.low)}. Fit a model to the two columns of interest."
        )
    if noise_scale is not None and not hasattr(model, "smoothed_gradient"):
        raise ValueError(
            "noise_scale chooses a level of a model that has several, a KernelDiffusion; "
            f"got noise_scale={noise_scale!r} with a {type(model).__name__}. Leave it out."
        )
    axes = cell_middles(window, n_points)
    scores = scores_on_grid(model, axes, noise_scale)
    ax = new_axes(ax)
    if X is not None:
        draw_rows(ax, thinned(rows_for(model, X), max_rows), color="0.7")
    norm = magnitude_scale([slopes_of_picture(scores, window)])
    arrows = draw_arrows(ax, axes, scores, window, norm)
    add_magnitude_key(ax, arrows, colorbar)
    labeled(ax, column_names(model, 2))
    return ax


def scores_on_grid(
    model: Any, axes: list[Float[np.ndarray, " side"]], noise_scale: float | None = None
) -> Float[np.ndarray, "n 2"]:
    """∇log p at the points of a grid."""
    if not hasattr(model, "gradient"):
        raise TypeError(
            f"model must have a method gradient(X); got an object of type {type(model).__name__}."
        )
    if noise_scale is None:
        return evaluate(model.gradient, grid_rows(axes))
    return evaluate(model.smoothed_gradient, grid_rows(axes), noise_scale)


def slopes_of_picture(scores: Float[np.ndarray, "n 2"], window: Window) -> Float[np.ndarray, "n 2"]:
    """Scores of columns that are scaled to equal widths."""
    return scores * window.widths / np.sqrt(window.widths.prod())


def compressed_lengths(magnitudes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Fourth roots, relative to the largest."""
    return (magnitudes / max(float(magnitudes.max()), np.finfo(float).tiny)) ** 0.25


def magnitude_scale(fields: list[Float[np.ndarray, "n 2"]]) -> Any:
    """A logarithmic color scale for all fields together, without the extreme two per cent."""
    from matplotlib.colors import LogNorm

    magnitudes = np.linalg.norm(np.concatenate(fields), axis=1)
    positive = magnitudes[magnitudes > 0]
    low, high = np.quantile(positive, [0.02, 0.98]) if len(positive) else (0.1, 1.0)
    return LogNorm(float(low), float(max(high, 1.001 * low)))


def add_magnitude_key(ax: Any, arrows: Any, colorbar: Any, **options: Any) -> None:
    """The key to the colors, with plain numbers."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    bar = add_key(
        ax, arrows, colorbar, label=r"$|\nabla \log p|$", extend="both",
        ticks=LogLocator(subs=(1.0, 2.0, 5.0)), format=StrMethodFormatter("{x:g}"), **options,
    )  # fmt: skip
    if bar is not None:
        bar.minorticks_off()


def draw_arrows(
    ax: Any,
    axes: list[Float[np.ndarray, " side"]],
    scores: Float[np.ndarray, "n 2"],
    window: Window,
    norm: Any,
) -> Any:
    """Arrows at the points of a grid, on a given color scale."""
    from matplotlib.colors import ListedColormap

    slopes = slopes_of_picture(scores, window)
    magnitudes = np.linalg.norm(slopes, axis=1)
    units = slopes / np.where(magnitudes > 0, magnitudes, 1.0)[:, None]
    cells = np.array([points[1] - points[0] for points in axes])
    steps = _LONGEST * cells * units * compressed_lengths(magnitudes)[:, None]
    arrows = ax.quiver(
        *grid_rows(axes).T, *steps.T, np.maximum(magnitudes, norm.vmin * 1e-3),
        norm=norm, cmap=ListedColormap(shades(256, 0.2, 1.0)),
        angles="xy", scale_units="xy", scale=1.0, pivot="mid", width=0.004,
        headwidth=4.0, headlength=4.0, headaxislength=3.5, minlength=0.5, zorder=3,
    )  # fmt: skip
    ax.set(xlim=(window.low[0], window.high[0]), ylim=(window.low[1], window.high[1]))
    return arrows
