"""Calibration of a model: log densities of rows compared with those of draws.

The rank of log p(x) among log p of draws tells the mass of the smallest highest-density region
that reaches x:

    u(x) = P_{y ~ p}(log p(y) > log p(x)),   estimated by (r + ½) / (m + 1)

with r the number of the m draws that are denser than x. If rows come from p, u is uniform. The
picture is F(u) − u, with F the empirical distribution function of the rows' u: the share of rows
in the region with mass u, less u.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import entropy, share
from kexpfam.plotting.canvas import MODEL, add_legend_above, new_axes
from kexpfam.plotting.grids import log_densities, rows_for
from kexpfam.plotting.ranks import count_band, ranks_among, spread_places

__all__ = ["plot_calibration", "plot_log_density_quantiles"]

_LEAST_DRAWS = 1000
_MOST_PLACES = 200


def plot_calibration(
    model: Any,
    X: Any,
    *,
    draws: Any = None,
    random_state: Any = 0,
    ax: Any = None,
    coverage: float = 0.95,
) -> Any:
    """Draw the calibration of the highest-density regions of a model.

    For a row x, u(x) = P(log p(y) > log p(x)) with y drawn from the model p is the mass of the
    smallest highest-density region that reaches x. If rows come from p, u is uniform. The figure
    shows F(u) − u, the share of rows in the region with mass u minus u, and a band that contains
    the whole line with probability `coverage` if the model is correct.

    If the line is above the band, too many rows are in dense regions: the model is too wide. If it
    is below, too many rows are where the model has little mass: it is too narrow or misplaced. The
    band assumes that rows and draws are independent; training rows look better than new rows.

    Parameters
    ----------
    model : object
        A fitted estimator, or a density with `log_density` and `sample`.
    X : array or data frame of shape (n_samples, n_features)
        Held-out rows.
    draws : array of shape (n_draws, n_features), optional
        Rows drawn from the model; as many as in X, and at least 1000, are drawn by default.
    random_state : int, RandomState, Generator or None, default=0
        Seed of draws, ties and the band.
    ax : matplotlib axes, optional
        A new figure by default.
    coverage : float, default=0.95
        Probability with which the band holds the whole line.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.plotting import plot_calibration
    >>> density = make_density("banana")
    >>> ax = plot_calibration(density, density.sample(200, random_state=0))
    >>> ax.get_xlabel()
    'mass of the highest-density region'
    """
    rows, drawn, generator = _both(model, X, draws, random_state, coverage)
    ranks = ranks_among(rows, drawn, generator)
    places = spread_places(len(drawn), _MOST_PLACES)
    counts = np.searchsorted(np.sort(ranks), places, side="left")
    expected = places / (len(drawn) + 1)
    least, largest = count_band(len(rows), len(drawn), places, coverage, generator)
    ax = new_axes(ax, (4.8, 3.4))
    # The path starts and ends at zero whatever the rows are.
    masses = np.concatenate([[0.0], expected, [1.0]])
    low, high, line = (
        np.pad(values / len(rows) - expected, 1) for values in (least, largest, counts)
    )
    ax.fill_between(masses, low, high, color="0.85", label=f"{100 * coverage:g} % band")
    ax.axhline(0.0, color="0.4", lw=0.8, linestyle="dashed")
    ax.plot(masses, line, color=MODEL, lw=1.6, label="rows")
    ax.set(xlim=(0, 1), xlabel="mass of the highest-density region", ylabel="share of rows − mass")
    add_legend_above(ax)
    return ax


def plot_log_density_quantiles(
    model: Any,
    X: Any,
    *,
    draws: Any = None,
    random_state: Any = 0,
    ax: Any = None,
    coverage: float = 0.95,
) -> Any:
    """Draw quantiles of the rows' log densities against those of draws from the model.

    If the rows come from the model, the dots follow the diagonal, and all of them lie in the band
    with probability `coverage`. The lower end shows rows that are less likely than any draw of the
    model.

    Parameters
    ----------
    model : object
        A fitted estimator, or a density with `log_density` and `sample`.
    X : array or data frame of shape (n_samples, n_features)
        Held-out rows.
    draws : array of shape (n_draws, n_features), optional
        Rows drawn from the model; as many as in X, and at least 1000, are drawn by default.
    random_state : int, RandomState, Generator or None, default=0
        Seed of draws and the band.
    ax : matplotlib axes, optional
        A new figure by default.
    coverage : float, default=0.95
        Probability with which the band holds all dots.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.plotting import plot_log_density_quantiles
    >>> density = make_density("banana")
    >>> ax = plot_log_density_quantiles(density, density.sample(200, random_state=0))
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('log p of draws', 'log p of rows')
    """
    rows, drawn, generator = _both(model, X, draws, random_state, coverage)
    rows, drawn = np.sort(rows), np.sort(drawn)
    places = spread_places(len(rows), _MOST_PLACES)
    # Of the draws, how many lie below the rows' j-th lowest: the band's counts, roles exchanged.
    least, largest = count_band(len(drawn), len(rows), places, coverage, generator)
    shares = (places - 0.5) / len(rows)
    across = np.quantile(drawn, shares, method="inverted_cdf")
    low = np.concatenate([[-np.inf], drawn])[least]
    high = np.concatenate([drawn, [np.inf]])[largest]
    shown = rows[places - 1]
    finite = np.isfinite(shown) & np.isfinite(across)
    if not finite.any():
        raise ValueError("The model's density is zero at all rows: there are no quantiles to draw.")
    values = np.concatenate([shown[finite], across[finite]])
    margin = 0.04 * float(np.ptp(values)) or 1.0
    edges = float(values.min()) - margin, float(values.max()) + margin
    ax = new_axes(ax)
    ax.fill_between(
        across[finite], np.maximum(low, edges[0])[finite], np.minimum(high, edges[1])[finite],
        color="0.85", label=f"{100 * coverage:g} % band",
    )  # fmt: skip
    ax.plot(edges, edges, color="0.4", lw=0.8, linestyle="dashed")
    ax.plot(across[finite], shown[finite], "o", color=MODEL, markersize=3, label="rows")
    outside = int(np.isneginf(rows).sum())
    if outside:
        ax.plot([], [], " ", label=f"{outside} of {len(rows)} rows: density zero")
    ax.set(xlabel="log p of draws", ylabel="log p of rows", xlim=edges, ylim=edges)
    add_legend_above(ax)
    return ax


def _both(
    model: Any, X: Any, draws: Any, random_state: Any, coverage: float
) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " m"], np.random.Generator]:
    """Log densities of the rows and of draws, and a source of chance."""
    share("coverage", coverage)
    rows = rows_for(model, X)
    seeds = entropy(random_state, 2)
    if draws is None:
        draws = model.sample(max(len(rows), _LEAST_DRAWS), random_state=int(seeds[0]))
    logs = [log_densities(model, table) for table in (rows, rows_for(model, draws))]
    if np.isnan(logs[0]).any() or np.isnan(logs[1]).any():
        raise ValueError("The model's log density is not a number at some rows or draws.")
    return logs[0], logs[1], np.random.default_rng(seeds[1])
