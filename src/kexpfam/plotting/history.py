"""The steps of tuning: loss, penalty, noise scale and length-scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from kexpfam.plotting.canvas import DATA, MARK, column_names, new_panels, shades
from kexpfam.plotting.grids import fitted_attribute

__all__ = ["plot_tuning_history"]

_STYLES = ("solid", "dashed", "dotted", "dashdot")
# A legend of more columns covers the curves.
_MOST_NAMED = 8


def plot_tuning_history(model: Any, *, axes: Any = None) -> Any:
    """Draw loss, penalty, noise scale and length-scales of a tuned model, step by step.

    The highest twentieth of the losses may be out of the picture. Short lines at the right edge
    show the final values: for length-scales the mean (of logarithms) over the last steps, for
    penalty and noise scale what cross-validation chose afterwards.

    Parameters
    ----------
    model : KernelExponentialFamily
        Fitted with something to tune by steps (``tuning="adam"``).
    axes : array of four matplotlib axes, optional
        A new figure by default.

    Returns
    -------
    ndarray of matplotlib axes, shape (4,)

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, Tuning
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.plotting import plot_tuning_history
    >>> X = make_density("cosine").sample(200, random_state=0)
    >>> model = KernelExponentialFamily(
    ...     n_components=32, tuning=Tuning(n_steps=5), random_state=0
    ... ).fit(X)
    >>> [ax.get_ylabel() for ax in plot_tuning_history(model)]
    ['held-out loss', 'penalty λ', 'noise scale σ', 'length-scales']
    """
    history = fitted_attribute(model, "tuning_history_")
    if not history:
        raise ValueError(
            "The model has no tuning history. One is made by KernelExponentialFamily.fit with "
            "tuning='adam' and something to tune (length_scale='auto')."
        )
    panels = new_panels(axes, (1, 4), (11.0, 2.7)).ravel()
    steps = np.array([record["step"] for record in history])
    ends = {"penalty": model.penalty_, "noise_scale": model.noise_scale_}
    _draw_losses(panels[0], steps, np.array([record["loss"] for record in history]))
    for panel, (name, end) in zip(panels[1:3], ends.items(), strict=True):
        values = np.array([float(record[name]) for record in history])
        panel.plot(steps, values, color=DATA, lw=1.3)
        _draw_end(panel, steps, end)
        if not np.isfinite(end):
            panel.plot(
                1.0, 1.0, "^", color=MARK, markersize=9, clip_on=False, transform=panel.transAxes,
                label="chosen: λ = ∞,\nthe base density",
            )  # fmt: skip
            panel.legend(frameon=False, fontsize="small")
        if (values > 0).all():
            panel.set_yscale("log")
    _draw_length_scales(panels[3], model, steps)
    labels = ("held-out loss", "penalty λ", "noise scale σ", "length-scales")
    for panel, label in zip(panels, labels, strict=True):
        panel.set(xlabel="step", ylabel=label)
    return panels


def _draw_losses(panel: Any, steps: np.ndarray, losses: np.ndarray) -> None:
    panel.plot(steps, losses, color=DATA, lw=1.3)
    panel.axhline(0.0, color="0.5", lw=0.8, linestyle="dashed", label="base density")
    finite = losses[np.isfinite(losses)]
    if len(finite):
        # Single steps can be worse by powers of ten than the rest.
        low, high = min(0.0, float(finite.min())), max(0.0, float(np.quantile(finite, 0.95)))
        margin = 0.08 * (high - low) or 1.0
        panel.set_ylim(low - margin, high + margin)
    panel.legend(frameon=False, fontsize="small")


def _draw_length_scales(panel: Any, model: Any, steps: np.ndarray) -> None:
    """One line for each column, the shades and strokes in turn."""
    values = np.stack([np.atleast_1d(record["length_scale"]) for record in model.tuning_history_])
    names = column_names(model, values.shape[1])
    colors = shades(values.shape[1], 0.35, 1.0)[::-1]
    for number, name in enumerate(names):
        style = {"color": colors[number], "linestyle": _STYLES[number % len(_STYLES)]}
        panel.plot(steps, values[:, number], lw=1.3, label=name, **style)
        _draw_end(panel, steps, model.length_scale_[number])
    panel.set_yscale("log")
    if len(names) <= _MOST_NAMED:
        panel.legend(frameon=False, fontsize="small", ncols=1 + (len(names) > 4))


def _draw_end(panel: Any, steps: np.ndarray, value: float) -> None:
    """A short line beyond the last step."""
    reach = max(1.0, 0.08 * len(steps))
    panel.plot([steps[-1], steps[-1] + reach], [value, value], color=MARK, lw=2.4)
