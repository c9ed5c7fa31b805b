"""The noise levels of a `KernelDiffusion`, side by side.

A level σ adds Gaussian noise in the coordinates z in which the rows are whitened (see
`kexpfam.data.coordinates`): the rows of the level are x(z(x) + σε), and its field is the ∇log of
their density.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import entropy, whole
from kexpfam.plotting.canvas import column_names, draw_rows, new_panels, thinned
from kexpfam.plotting.grids import (
    Window,
    cell_middles,
    checked_window,
    fitted_attribute,
    rows_for,
)
from kexpfam.plotting.score_field import (
    add_magnitude_key,
    draw_arrows,
    magnitude_scale,
    scores_on_grid,
    slopes_of_picture,
)

__all__ = ["draw_noise_levels", "noised_rows", "plot_noise_levels", "shown_levels"]

# With more noise than this, in standard deviations of the rows, there is nothing left to see.
_HIGHEST = 1.5
_N_DRAWS = 400


def plot_noise_levels(
    model: Any,
    X: Any = None,
    *,
    n_levels: int = 5,
    axes: Any = None,
    n_points: int = 15,
    limits: Any = None,
    max_rows: int = 400,
    random_state: Any = 0,
) -> Any:
    """Draw the score field of a two-column `KernelDiffusion` at several noise levels.

    Levels are equally spaced in the logarithm, from the lowest up to 1.5 standard deviations of the
    rows. Dots are rows with the noise of the level. Colors can be compared between panels, lengths
    within one.

    Parameters
    ----------
    model : KernelDiffusion
        Fitted to two columns.
    X : array or data frame of shape (n_samples, 2), optional
        Rows to add the noise to; draws of the model by default.
    n_levels : int, default=5
        Panels.
    axes : array of n_levels matplotlib axes, optional
        A new figure by default.
    n_points : int, default=15
        Arrows along each column.
    limits : sequence of (low, high), optional
        The window of all panels, a pair for each column; around the rows by default.
    max_rows : int, default=400
        At most this many rows are drawn.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the noise and of draws.

    Returns
    -------
    ndarray of matplotlib axes, shape (n_levels,)

    Examples
    --------
    >>> from kexpfam import KernelDiffusion
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.plotting import plot_noise_levels
    >>> X = make_density("ring").sample(200, random_state=0)
    >>> model = KernelDiffusion(n_components=32, n_levels=3, random_state=0).fit(X)
    >>> axes = plot_noise_levels(model, X, n_levels=3)
    >>> axes.shape, axes[-1].get_title()
    ((3,), 'σ = 1.5')
    """
    if fitted_attribute(model, "noise_scales_") is None:
        raise TypeError(
            "plot_noise_levels draws the noise levels of a fitted KernelDiffusion; got a "
            f"{type(model).__name__}. Try plot_score_field."
        )
    if model.n_features_in_ != 2:
        raise ValueError(
            "plot_noise_levels draws models with two columns; this one has "
            f"{model.n_features_in_}. Fit a model to the two columns of interest."
        )
    seeds = entropy(random_state, 2)
    if X is None:
        rows = rows_for(model, model.sample(min(max_rows, _N_DRAWS), random_state=int(seeds[0])))
    else:
        rows = thinned(rows_for(model, X), max_rows)
    levels = shown_levels(model.noise_scales_, n_levels)
    window = checked_window(model, rows, limits)
    points = cell_middles(window, n_points)
    generator = np.random.default_rng(seeds[1])
    panels = new_panels(axes, (1, n_levels), (2.5 * n_levels + 0.7, 2.9))[0]
    draw_noise_levels(
        panels,
        levels,
        points,
        [scores_on_grid(model, points, float(level)) for level in levels],
        [
            noised_rows(model.density_.coordinates, rows, float(level), generator)
            for level in levels
        ],
        window,
    )
    names = column_names(model, 2)
    panels[0].set_ylabel(names[1])
    for panel in panels:
        panel.set_xlabel(names[0])
    return panels


def shown_levels(noise_scales: Float[np.ndarray, " k"], count: int) -> Float[np.ndarray, " count"]:
    """Noise levels from the lowest to the highest at which there is something to see."""
    lowest = float(noise_scales[0])
    return np.maximum(np.geomspace(lowest, max(lowest, _HIGHEST), whole("n_levels", count)), lowest)


def noised_rows(
    coordinates: Any,
    rows: Float[np.ndarray, "n d"],
    noise_scale: float,
    generator: np.random.Generator,
) -> Float[np.ndarray, "n d"]:
    """Rows with Gaussian noise added in whitened coordinates."""
    noise = generator.standard_normal(rows.shape)
    return coordinates.backward(coordinates.forward(rows) + noise_scale * noise)


def draw_noise_levels(
    panels: Any,
    levels: Float[np.ndarray, " k"],
    points: list[Float[np.ndarray, " side"]],
    fields: list[Float[np.ndarray, "n 2"]],
    clouds: list[Float[np.ndarray, "m 2"]],
    window: Window,
) -> None:
    """Fields and noisy rows of all levels, on one color scale."""
    norm = magnitude_scale([slopes_of_picture(field, window) for field in fields])
    for panel, level, field, cloud in zip(panels, levels, fields, clouds, strict=True):
        draw_rows(panel, cloud, s=3, color="0.7")
        arrows = draw_arrows(panel, points, field, window, norm)
        panel.set_title(f"σ = {level:.2g}")
        panel.set(xticks=[], yticks=[])
    add_magnitude_key(panels[0], arrows, list(panels), fraction=0.02, pad=0.01)
