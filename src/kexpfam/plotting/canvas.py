"""Axes, colors and labels that all pictures share. matplotlib is imported here, when needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import whole

__all__ = [
    "DATA",
    "MARK",
    "MODEL",
    "add_key",
    "add_legend_above",
    "column_names",
    "draw_rows",
    "labeled",
    "new_axes",
    "new_panels",
    "shades",
    "thinned",
]

# Three colors that differ in lightness too: data, model, and what is pointed out.
DATA, MODEL, MARK = "0.25", "#0072B2", "#D55E00"


def pyplot_or_error() -> Any:
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Plots need matplotlib: pip install 'kexpfam[plot]'.") from error
    return pyplot


def new_axes(ax: Any, size: tuple[float, float] = (4.8, 4.2)) -> Any:
    """`ax`, or the axes of a new figure."""
    if ax is not None:
        if not hasattr(ax, "plot"):
            raise TypeError(
                f"ax must be matplotlib axes to draw into; got an object of type "
                f"{type(ax).__name__}. Leave it out to have a new figure, or make one: "
                "figure, ax = pyplot.subplots()."
            )
        return ax
    return pyplot_or_error().subplots(figsize=size, layout="constrained")[1]


def new_panels(axes: Any, shape: tuple[int, int], size: tuple[float, float]) -> np.ndarray:
    """`axes` in the given shape, or those of a new figure."""
    if axes is None:
        figure = pyplot_or_error().figure(figsize=size, layout="constrained")
        return figure.subplots(*shape, squeeze=False)
    panels = np.asarray(axes, dtype=object)
    if panels.size != shape[0] * shape[1]:
        raise ValueError(
            f"axes must be {shape[0]} × {shape[1]} axes, one for each panel; got {panels.size}. "
            "Leave axes out to have a new figure."
        )
    return panels.reshape(shape)


def column_names(source: Any, n_columns: int) -> list[str]:
    """Names of a model's or data frame's columns, else $x_0$, $x_1$, …."""
    for attribute in ("feature_names_in_", "columns"):
        names = getattr(source, attribute, None)
        if names is not None and len(names) == n_columns:
            return [str(name) for name in names]
    return [f"$x_{{{number}}}$" for number in range(n_columns)]


def shades(count: int, lightest: float, darkest: float, name: str = "cividis_r") -> Any:
    """Colors from light to dark, evenly, out of one of matplotlib's maps."""
    from matplotlib import colormaps

    return colormaps[name](np.linspace(lightest, darkest, count))


def add_key(ax: Any, drawn: Any, colorbar: Any, **options: Any) -> Any:
    """A color bar beside `ax`, or beside all axes that `colorbar` holds; None without one."""
    if colorbar is False:
        return None
    return ax.figure.colorbar(drawn, ax=ax if colorbar is True else colorbar, **options)


def add_legend_above(ax: Any) -> None:
    """A legend in one line above the axes, where it covers nothing."""
    ax.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False,
        columnspacing=1.0, handlelength=1.5, handletextpad=0.5, fontsize="small",
    )  # fmt: skip


def thinned(rows: Float[np.ndarray, "n d"], most: int) -> Float[np.ndarray, "m d"]:
    """All rows, or `most` of them evenly picked."""
    most = whole("max_rows", most, least=0)
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def draw_rows(ax: Any, rows: Float[np.ndarray, "n 2"], **style: Any) -> Any:
    """Rows as dots."""
    return ax.scatter(*rows.T, **{"s": 5, "color": DATA, "linewidths": 0, **style})


def labeled(ax: Any, names: Sequence[str]) -> None:
    """Names of columns at the axes."""
    ax.set_xlabel(names[0])
    if len(names) > 1:
        ax.set_ylabel(names[1])
