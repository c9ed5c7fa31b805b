"""Draws and data: every column, and every pair of columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.ndimage import gaussian_filter
from sklearn.utils import check_array

from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.plotting.canvas import DATA, MODEL, column_names, draw_rows, new_panels, thinned
from kexpfam.plotting.grids import density_thresholds

__all__ = ["plot_corner", "smoothed_histogram"]

# More panels than 12 × 12 / 2 cannot be read on a page.
MOST_COLUMNS = 12
_MASSES = (0.5, 0.9)
_BINS = 60
_MARGIN = 0.08


def plot_corner(
    data: Any,
    draws: Any,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[Any] | None = None,
    axes: Any = None,
    labels: tuple[str, str] = ("data", "model"),
    max_rows: int = 1000,
) -> Any:
    """Draw the columns and pairs of columns of data and of draws from a model.

    The diagonal has histograms. Below it, dots are data, and lines surround the highest-density
    regions of data and draws with half and nine tenths of the mass, from smoothed histograms.

    Parameters
    ----------
    data : array or data frame of shape (n_samples, n_features)
    draws : array or data frame of shape (n_draws, n_features)
        For instance ``model.sample(1000)``.
    names : sequence of str, optional
        Of all columns; those of a data frame by default.
    columns : sequence of int or str, optional
        Which columns to draw, by number or name; all by default, at most 12.
    axes : array of k × k matplotlib axes, optional
        A new figure by default.
    labels : pair of str, default=("data", "model")
        What the legend calls data and draws.
    max_rows : int, default=1000
        At most this many rows are drawn as dots. Histograms and lines are
        always of all rows.

    Returns
    -------
    ndarray of matplotlib axes, shape (k, k)
        Those above the diagonal are hidden.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam.plotting import plot_corner
    >>> generator = np.random.default_rng(0)
    >>> data, draws = generator.standard_normal((2, 300, 3))
    >>> axes = plot_corner(data, draws, names=["mass", "height", "age"], columns=["mass", "age"])
    >>> axes[1, 0].get_xlabel(), axes[1, 0].get_ylabel()
    ('mass', 'age')
    """
    tables = [_rows_of(data, "data"), _rows_of(draws, "draws")]
    width = tables[0].shape[1]
    if tables[1].shape[1] != width:
        raise ValueError(
            "data and draws must have the same columns; got "
            f"{width} in data and {tables[1].shape[1]} in draws."
        )
    called = column_names(data, width) if names is None else [str(name) for name in names]
    if len(called) != width:
        raise ValueError(
            f"names must name all {width} columns of the data; got {len(called)}. To draw some "
            "of them, use columns."
        )
    chosen = _chosen(columns, called)
    data_rows, drawn = (table[:, chosen] for table in tables)
    shape = (len(chosen), len(chosen))
    panels = new_panels(axes, shape, (1.7 * shape[0] + 0.8, 1.7 * shape[0] + 0.6))
    limits = _limits(data_rows, drawn)
    for (row, column), panel in np.ndenumerate(panels):
        if column > row:
            panel.set_visible(False)
            continue
        if row == column:
            _draw_marginal(panel, data_rows[:, row], drawn[:, row], limits[row], labels)
        else:
            pair = [column, row]
            _draw_pair(panel, data_rows[:, pair], drawn[:, pair], limits[pair], max_rows)
        _tidy(panel, row, column, [called[number] for number in chosen])
    _add_legend(panels, labels)
    return panels


def _rows_of(table: Any, name: str) -> Float[np.ndarray, "n d"]:
    refuse_what_is_no_table(table, name)
    return check_array(table, dtype=np.float64, input_name=name)


def _chosen(columns: Sequence[Any] | None, names: list[str]) -> list[int]:
    """Numbers of the columns to draw."""
    if columns is None:
        columns = range(len(names))
    numbers = []
    for column in columns:
        known = column in names if isinstance(column, str) else 0 <= column < len(names)
        if not known:
            raise ValueError(
                f"columns must be numbers below {len(names)} or among the names {names}; got "
                f"{column!r}."
            )
        numbers.append(names.index(column) if isinstance(column, str) else int(column))
    if not 1 <= len(numbers) <= MOST_COLUMNS:
        raise ValueError(
            f"plot_corner draws 1 to {MOST_COLUMNS} columns; got {len(numbers)}. Choose some, as "
            "in columns=[0, 1, 2]."
        )
    return numbers


def _limits(
    data: Float[np.ndarray, "n k"], draws: Float[np.ndarray, "m k"]
) -> Float[np.ndarray, "k 2"]:
    """From the lowest to the highest value of either, with a margin."""
    both = np.concatenate([data, draws])
    low, high = both.min(axis=0), both.max(axis=0)
    margins = _MARGIN * np.where(high > low, high - low, 1.0)
    return np.stack([low - margins, high + margins], axis=1)


def _draw_marginal(
    ax: Any,
    data: Float[np.ndarray, " n"],
    draws: Float[np.ndarray, " m"],
    limits: Float[np.ndarray, "2"],
    labels: tuple[str, str],
) -> None:
    """Two histograms with the same bins."""
    low, high = (float(limit) for limit in limits)
    count = len(np.histogram_bin_edges(data, "auto", (low, high))) - 1
    bins = np.linspace(low, high, min(max(count, 10), _BINS) + 1)
    ax.hist(data, bins, density=True, color="0.8", edgecolor="none", label=labels[0])
    ax.hist(
        draws,
        bins,
        density=True,
        histtype="step",
        color=MODEL,
        lw=1.4,
        ls="dashed",
        label=labels[1],
    )
    ax.set(xlim=limits, yticks=[])


def _draw_pair(
    ax: Any,
    data: Float[np.ndarray, "n 2"],
    draws: Float[np.ndarray, "m 2"],
    limits: Float[np.ndarray, "2 2"],
    max_rows: int,
) -> None:
    draw_rows(ax, thinned(data, max_rows), s=3, color="0.75", rasterized=len(data) > 2000)
    for rows, color, style in ((data, DATA, "solid"), (draws, MODEL, "dashed")):
        axes, densities = smoothed_histogram(rows, limits)
        volume = float(np.prod([points[1] - points[0] for points in axes]))
        levels = np.unique(density_thresholds(densities, volume, _MASSES))
        ax.contour(*axes, densities, levels=levels, colors=[color], linestyles=style,
                   linewidths=[0.9, 1.5][-len(levels):])  # fmt: skip
    ax.set(xlim=limits[0], ylim=limits[1])


def smoothed_histogram(
    rows: Float[np.ndarray, "n 2"], limits: Float[np.ndarray, "2 2"], bins: int = _BINS
) -> tuple[list[Float[np.ndarray, " bins"]], Float[np.ndarray, "bins bins"]]:
    """Middles of the bins and the density in them; the second column runs along the lines."""
    counts, edges = np.histogramdd(rows, bins=bins, range=limits.tolist())
    widths = np.array([edge[1] - edge[0] for edge in edges])
    # Less than Scott's rule: tables often have several modes, where the rule is too smooth.
    deviations = 0.75 * rows.std(axis=0) * len(rows) ** (-1 / 6)
    smooth = gaussian_filter(counts, np.maximum(deviations / widths, 0.5), mode="constant")
    middles = [(edge[1:] + edge[:-1]) / 2 for edge in edges]
    return middles, smooth.T / (len(rows) * widths.prod())


def _tidy(panel: Any, row: int, column: int, names: list[str]) -> None:
    """Names and numbers at the outer edges only."""
    from matplotlib.ticker import MaxNLocator

    last = row == len(names) - 1
    panel.xaxis.set_major_locator(MaxNLocator(3))
    panel.tick_params(labelsize="small", labelbottom=last)
    if last:
        panel.set_xlabel(names[column])
    if column < row:
        panel.yaxis.set_major_locator(MaxNLocator(3))
        panel.tick_params(labelleft=column == 0)
        if column == 0:
            panel.set_ylabel(names[row])


def _add_legend(panels: np.ndarray, labels: tuple[str, str]) -> None:
    """In the empty upper right corner; inside the panel where there is one only."""
    from matplotlib.lines import Line2D

    lines = [
        Line2D([], [], color=DATA, linestyle="solid", label=labels[0]),
        Line2D([], [], color=MODEL, linestyle="dashed", label=labels[1]),
    ]
    if panels.size == 1:
        panels[0, 0].legend(frameon=False)
        return
    panels[0, 0].legend(
        handles=lines, frameon=False, loc="upper left", bbox_to_anchor=(1.05, 1.0),
        borderaxespad=0.0,
    ).set_in_layout(False)  # fmt: skip
