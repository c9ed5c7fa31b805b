"""The cross-validated figures from which penalty and noise scale were chosen.

See `kexpfam.tuning.surface` for the figures and `kexpfam.tuning.choice` for the choice. All are
relative to the base density: below zero is better than it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from kexpfam.choices import checked_name
from kexpfam.plotting.canvas import MARK, MODEL, add_key, add_legend_above, new_axes, shades
from kexpfam.plotting.grids import fitted_attribute

__all__ = ["draw_loss_surface", "plot_loss_surface"]

_DOTTED: dict[str, Any] = {"colors": "black", "linestyles": "dotted", "linewidths": 1.2}
_LABELS = {
    "score_matching": "held-out score matching loss, base = 0",
    "likelihood": "held-out −log-likelihood, base = 0",
}


def plot_loss_surface(
    model: Any, *, ax: Any = None, criterion: str | None = None, colorbar: Any = True
) -> Any:
    """Draw the held-out loss of a tuned `KernelExponentialFamily` over noise scale and penalty.

    A cross marks the chosen setting, a circle the lowest figure. They differ where held-out
    likelihood rejected the lowest; along the dotted line it is that of the base density. Gray
    settings are worse than the base density. Where the base density itself was chosen, whose
    penalty is infinite, the mark is a triangle at the upper edge. Where only one of the two was
    tuned, the picture is a curve.

    Parameters
    ----------
    model : KernelExponentialFamily
        Fitted with penalty or noise scale to tune.
    ax : matplotlib axes, optional
        A new figure by default.
    criterion : {"score_matching", "likelihood"}, optional
        Which figure to draw; the model's criterion by default.
    colorbar : bool or array of matplotlib axes, default=True
        Whether to add the key to the colors, or the axes that it stands beside.

    Returns
    -------
    matplotlib axes

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.plotting import plot_loss_surface
    >>> X = make_density("cosine").sample(200, random_state=0)
    >>> model = KernelExponentialFamily(n_components=32, tuning="folds", random_state=0).fit(X)
    >>> ax = plot_loss_surface(model)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('noise scale σ', 'penalty λ')
    """
    surface = fitted_attribute(model, "loss_surface_")
    if surface is None:
        raise ValueError(
            "The model has no loss surface. One is made by KernelExponentialFamily.fit with "
            "penalty='auto' or noise_scale='auto', and folds (tuning=Tuning(n_folds=5))."
        )
    criterion = checked_name(
        "criterion", model.criterion if criterion is None else criterion, _LABELS
    )
    figures = surface.losses if criterion == "score_matching" else -surface.gains
    if not np.isfinite(figures).any():
        raise ValueError(
            "The basis lacks the second derivatives that the score matching loss needs. Try "
            "criterion='likelihood'."
        )
    ax = new_axes(ax)
    chosen = (model.noise_scale_, model.penalty_)
    if min(figures.shape) == 1:
        _draw_curve(ax, surface, figures, chosen, _LABELS[criterion])
        return ax
    cells = draw_loss_surface(
        ax, surface.noise_scales, surface.penalties, figures, surface.gains, chosen
    )
    add_legend_above(ax)
    # Even steps of the colors, with round numbers.
    ticks = [float(f"{tick:.2g}") for tick in cells.norm.inverse(np.linspace(0, 1, 6))]
    bar = add_key(ax, cells, colorbar, label=_LABELS[criterion], extend="max")
    if bar is not None:
        bar.minorticks_off()
        bar.set_ticks(ticks, labels=[f"{tick:g}".replace("-", "−") for tick in ticks])
    return ax


def draw_loss_surface(
    ax: Any,
    noise_scales: Float[np.ndarray, " s"],
    penalties: Float[np.ndarray, " l"],
    figures: Float[np.ndarray, "s l"],
    gains: Float[np.ndarray, "s l"],
    chosen: tuple[float, float],
) -> Any:
    """Cells colored by figure, the line of equal likelihood, and the two marks."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patheffects import withStroke

    colors = ListedColormap(shades(256, 0.0, 1.0)[::-1]).with_extremes(over="0.85", bad="0.85")
    cells = ax.pcolormesh(
        noise_scales, penalties, figures.T, cmap=colors, shading="nearest",
        norm=_scale(figures, _figure_at(noise_scales, penalties, figures, chosen)),
    )  # fmt: skip
    if gains.min() < 0 < gains.max():
        line = ax.contour(noise_scales, penalties, gains.T, [0.0], **_DOTTED)
        line.set(path_effects=[withStroke(linewidth=3.0, foreground="white")])
        ax.plot([], [], color="black", lw=1.2, ls="dotted", label="as likely as the base")
    row, column = np.unravel_index(np.nanargmin(figures), figures.shape)
    ax.plot(
        noise_scales[row], penalties[column], "o", markersize=8, color="white",
        markeredgecolor="black", linestyle="none", label="lowest",
    )  # fmt: skip
    ax.set(xscale="log", yscale="log", xlabel="noise scale σ", ylabel="penalty λ")
    _mark(ax, chosen[0], chosen[1])
    return cells


def _figure_at(
    noise_scales: Float[np.ndarray, " s"],
    penalties: Float[np.ndarray, " l"],
    figures: Float[np.ndarray, "s l"],
    chosen: tuple[float, float],
) -> float:
    """The chosen setting's figure; zero for the base density."""
    if not np.isfinite(chosen[1]):
        return 0.0
    row = np.argmin(np.abs(noise_scales - chosen[0]))
    return float(figures[row, np.argmin(np.abs(penalties - chosen[1]))])


def _scale(figures: Float[np.ndarray, "s l"], chosen: float) -> Any:
    """From the lowest figure to the base density's; linear as far as the chosen one.

    Beyond it logarithmic: on bounded support figures of settings that are not to be trusted can
    be lower by powers of ten.
    """
    from matplotlib.colors import AsinhNorm, Normalize

    low = float(np.nanmin(figures))
    if low >= 0:
        return Normalize(low, max(float(np.nanmedian(figures)), low + 1e-12))
    return AsinhNorm(linear_width=-chosen if chosen < 0 else -low, vmin=low, vmax=0.0)


def _mark(ax: Any, across: float, height: float) -> None:
    """A cross at the chosen setting; at an infinite penalty, a triangle at the upper edge."""
    style = {"color": MARK, "markeredgecolor": "white", "linestyle": "none", "zorder": 4}
    if np.isfinite(height):
        ax.plot(across, height, "X", markersize=10, label="chosen", **style)
        return
    ax.plot(
        across, 1.0, "^", markersize=11, clip_on=False, transform=ax.get_xaxis_transform(),
        label="chosen: λ = ∞, the base density", **style,
    )  # fmt: skip


def _draw_curve(
    ax: Any,
    surface: Any,
    figures: Float[np.ndarray, "s l"],
    chosen: tuple[float, float],
    label: str,
) -> None:
    """The figure along the one of the two that was tuned."""
    along = int(figures.shape[0] == 1)
    settings = (surface.noise_scales, surface.penalties)[along]
    values, place = figures.ravel(), chosen[along]
    ax.axhline(0.0, color="0.5", lw=0.8, linestyle="dashed", label="base density")
    ax.plot(settings, values, "o-", color=MODEL, markersize=3.5, label="folds' mean")
    style = {"color": MARK, "markeredgecolor": "white", "linestyle": "none", "zorder": 4}
    if np.isfinite(chosen[1]):
        height = values[np.argmin(np.abs(settings - place))]
        ax.plot(place, height, "X", markersize=10, label="chosen", **style)
    elif along:
        ax.plot(
            1.0, 0.0, ">", markersize=11, clip_on=False, transform=ax.get_yaxis_transform(),
            label="chosen: λ = ∞, the base density", **style,
        )  # fmt: skip
    else:
        ax.plot(place, 0.0, "^", markersize=11, label="chosen: the base density", **style)
    # Settings much worse than the base density are out of the picture.
    low = float(np.nanmin(values))
    reach = abs(low) or 1.0
    ax.set_ylim(min(low, 0.0) - 0.1 * reach, min(float(np.nanmax(values)), reach) + 0.1 * reach)
    ax.set(xscale="log", ylabel=label, xlabel=("noise scale σ", "penalty λ")[along])
    add_legend_above(ax)
