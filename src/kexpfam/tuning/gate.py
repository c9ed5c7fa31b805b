"""The last gate: a model is returned only if it beats its base density where it has seen no rows.

What was chosen is fitted once more without some of the rows, including its base density, and its
own log density is compared with that of its base density at these rows:

    gain = mean (log p − log q0),        error = its standard error.

The model has to gain more than the error. The same comparison says how far a log density can be
believed: whether rows that the fit has seen are likelier than others (then it has learned them by
heart), and whether draws of the model are (then rows do not look like draws). What is made of these
figures is said in `kexpfam.model.health`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.model.density import Density
from kexpfam.model.health import Comparison, nothing_compared

__all__ = [
    "Weighted",
    "compare",
    "compare_further",
    "judged_further",
    "mean_and_error",
    "share_below",
]

# Rows are used in such portions, until the gain is this many standard errors from zero.
_AT_A_TIME, _BEYOND_DOUBT = 256, 5.0


class Weighted(NamedTuple):
    """Rows and their weights."""

    rows: Float[np.ndarray, "n d"]
    weights: Float[np.ndarray, " n"]


def compare(
    density: Density,
    held_out: Weighted,
    training: Weighted,
    n_draws: int,
    generator: np.random.Generator,
    *,
    gated: bool,
) -> tuple[Comparison, Float[np.ndarray, " n"]]:
    """Hold a density against its base density, and rows against rows and draws.

    Beside the comparison, the numerical errors of the held-out rows' log densities.
    """
    base_logs = density.untilted().log_density(held_out.rows)
    comparison, returned, logs = nothing_compared(), density.untilted(), base_logs
    errors = np.zeros(0)
    if density.has_tilt:
        logs, errors = _enough_logs(density, base_logs, held_out)
        seen = slice(0, len(logs))
        gain, gain_error = mean_and_error(
            _differences(logs, base_logs[seen]), held_out.weights[seen]
        )
        comparison = comparison._replace(n_rows=len(logs), gain=gain, gain_error=gain_error)
    if comparison.wins or (density.has_tilt and not gated):
        returned = density
        # The base density knows the mean of many rows, and some of them what the model adds to it.
        base_mean, base_error = mean_and_error(base_logs, held_out.weights)
        mean, error = base_mean + gain, float(np.hypot(base_error, gain_error))
    else:
        logs = base_logs
        mean, error = mean_and_error(logs, held_out.weights)
    seen_logs = returned.log_density(training.rows)
    drawn, shares = returned.draws_log_density(n_draws, generator)
    weights = held_out.weights[: len(logs)]
    comparison = comparison._replace(
        n_rows=len(logs),
        held_out=mean,
        held_out_error=error,
        training=mean_and_error(seen_logs, training.weights)[0],
        below_training=share_below(logs, weights, seen_logs, training.weights),
        below_draws=share_below(logs, weights, drawn, shares),
    )
    return comparison, errors


def _enough_logs(
    density: Density, base_logs: Float[np.ndarray, " n"], held_out: Weighted
) -> tuple[Float[np.ndarray, " m"], Float[np.ndarray, " m"]]:
    """Log densities of as many rows as it takes to be sure of the gain's sign, and their errors."""
    logs = errors = np.zeros(0)
    while len(logs) < len(base_logs):
        rows = held_out.rows[len(logs) : len(logs) + _AT_A_TIME]
        more_logs, more_errors = density.log_density_and_error(rows)
        logs, errors = np.append(logs, more_logs), np.append(errors, more_errors)
        gains = _differences(logs, base_logs[: len(logs)])
        gain, error = mean_and_error(gains, held_out.weights[: len(logs)])
        if abs(gain) > _BEYOND_DOUBT * error:
            break
    return logs, errors


def compare_further(comparison: Comparison, density: Density, held_out: Weighted) -> Comparison:
    """The gain over all held-out rows so far, after more rows that the density has not seen."""
    logs, base_logs = (one.log_density(held_out.rows) for one in (density, density.untilted()))
    return judged_further(comparison, _differences(logs, base_logs), held_out.weights)


def judged_further(
    comparison: Comparison, gains: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
) -> Comparison:
    """The same, after more rows gained so much."""
    gain, error = mean_and_error(gains, weights)
    if np.isnan(comparison.gain):
        return comparison._replace(n_rows=len(gains), gain=gain, gain_error=error)
    shares = np.array([comparison.n_rows, len(gains)]) / (comparison.n_rows + len(gains))
    return comparison._replace(
        n_rows=comparison.n_rows + len(gains),
        gain=float(shares @ [comparison.gain, gain]),
        gain_error=float(np.hypot(*(shares * [comparison.gain_error, error]))),
    )


def _differences(
    logs: Float[np.ndarray, " n"], base_logs: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " n"]:
    """What the tilt adds at each row: nothing outside the base density's support."""
    inside = np.isfinite(base_logs)
    return np.where(inside, logs - np.where(inside, base_logs, 0.0), 0.0)


def mean_and_error(
    values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]
) -> tuple[float, float]:
    """A weighted mean and its standard error; there is none where a value is −∞."""
    shares = weights / weights.sum()
    mean = float(shares @ values)
    if not np.isfinite(mean):
        return mean, float("nan")
    return mean, float(np.sqrt(shares**2 @ (values - mean) ** 2))


def share_below(
    lower: Float[np.ndarray, " n"],
    lower_weights: Float[np.ndarray, " n"],
    upper: Float[np.ndarray, " m"],
    upper_weights: Float[np.ndarray, " m"],
) -> float:
    """Share of pairs in which the first is the lower one; ties count half."""
    order = np.argsort(upper)
    totals = np.concatenate([[0.0], np.cumsum(upper_weights[order])])
    places = [np.searchsorted(upper[order], lower, side=side) for side in ("left", "right")]
    above = totals[-1] - sum(totals[place] for place in places) / 2
    return float(np.average(above, weights=lower_weights) / totals[-1])
