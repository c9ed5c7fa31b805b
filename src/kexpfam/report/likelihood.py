"""Mean log-likelihood of judged rows, beside other estimators of a density.

With ℓ_i the model's log density at row i and ℓ′_i a peer's, the figures are

    mean ℓ ± sd(ℓ)/√n        and, paired,        mean (ℓ − ℓ′) ± sd(ℓ − ℓ′)/√n.

Peers see the rows that the model was fitted to, each column divided by its deviation. Where these
are unknown, because a fitted model was given, they are fitted to four fifths of the judged rows and
judged by the other fifth, five times.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from kexpfam.data.sketch import split_folds
from kexpfam.data.standardize import Standardizer
from kexpfam.metrics import cross_validated_kernel_density
from kexpfam.report.charts import Interval, interval_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, count, element, joined, number, table, with_error
from kexpfam.report.section import Finding, Section

__all__ = ["PeerResult", "likelihood_section"]

_SIZES = (1, 2, 4, 8, 16, 32)
# A kernel density costs the square of its rows for every bandwidth it is tried with.
_KERNEL_DENSITY_ROWS = 4000
_FOLDS, _LEAST_FOR_PEERS = 5, 25


class PeerResult(NamedTuple):
    """A peer's mean log-likelihood, and how much higher the model's is."""

    name: str
    choice: str
    mean: float
    error: float
    difference: float
    difference_error: float


class _Peer(NamedTuple):
    choice: str
    density: Any


def _gaussian(rows: Float[np.ndarray, "n d"], seed: int) -> _Peer:
    return _Peer("full covariance", _mixture_of(1, rows, seed))


def _mixture(rows: Float[np.ndarray, "n d"], seed: int) -> _Peer:
    """The size that is best on a fifth of the rows, then fitted to all of them."""
    held_out = np.random.default_rng(seed).permutation(len(rows)) < len(rows) / 5
    sizes = [size for size in _SIZES if size <= max(1, (~held_out).sum() / (rows.shape[1] + 2))]
    trials = {
        size: _mixture_of(size, rows[~held_out], seed).score(rows[held_out]) for size in sizes
    }
    best = max(trials, key=lambda size: trials[size])
    return _Peer(f"{count(best, 'component')}, by validation", _mixture_of(best, rows, seed))


def _mixture_of(size: int, rows: Float[np.ndarray, "n d"], seed: int) -> GaussianMixture:
    with warnings.catch_warnings():
        # A mixture that is still moving is judged as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(size, reg_covar=1e-4, max_iter=200, random_state=seed).fit(rows)


def _kernel_density(rows: Float[np.ndarray, "n d"], _seed: int) -> _Peer:
    used = rows[:_KERNEL_DENSITY_ROWS]
    density = cross_validated_kernel_density(used)
    few = f", {count(len(used), 'row')}" if len(used) < len(rows) else ""
    return _Peer(f"bandwidth {number(density.bandwidth_, 2)}, cross-validated{few}", density)


_PEERS: dict[str, Callable[[Float[np.ndarray, "n d"], int], _Peer]] = {
    "Gaussian": _gaussian,
    "Gaussian mixture": _mixture,
    "kernel density estimate": _kernel_density,
}


def likelihood_section(evidence: Evidence) -> Section | None:
    """The table of likelihoods; None without rows to judge by."""
    logs = evidence.log_density
    if not len(logs):
        return None
    mean, error = mean_and_error(logs)
    training = mean_and_error(evidence.training_log_density)
    peers = _judged_peers(evidence)
    body = joined(
        [
            element("p", _in_words(evidence, mean, error, peers)),
            _peer_chart(evidence, peers),
            _peer_table(evidence, mean, error, peers) if peers else None,
            element("p", _about_peers(evidence, peers), class_="note"),
            _about_ties(evidence),
            _about_training(evidence, mean, training),
        ]
    )
    data = {
        "n_rows": len(logs),
        "mean": mean,
        "error": error,
        "training_mean": training[0],
        "training_error": training[1],
        "peers": [peer._asdict() for peer in peers],
    }
    finding = _finding(evidence, with_error(mean, error), peers)
    return Section("likelihood", "How well it predicts", body, data, finding)


def _finding(evidence: Evidence, value: str, peers: list[PeerResult]) -> Finding:
    if not peers:
        words = f"nats per row, mean of {count(len(evidence.log_density), evidence.kind)}"
        return Finding("Mean log-likelihood", value, words)
    best = max(peers, key=lambda peer: peer.mean)
    good = {"is better than": True, "is worse than": False}.get(_verdict(best))
    gain = with_error(
        best.difference if good is None else abs(best.difference), best.difference_error
    )
    side = {True: "more than", False: "less than", None: "against"}[good]
    words = f"nats per row, {gain} {side} the {best.name}, the best of {len(peers)} peers"
    return Finding("Mean log-likelihood", value, words, good)


def mean_and_error(values: Float[np.ndarray, " n"]) -> tuple[float, float]:
    """A mean with its standard error; NaN where there are too few, or infinite ones."""
    if not len(values):
        return math.nan, math.nan
    if not np.isfinite(values).all():
        return float(values.mean()), math.nan
    error = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan
    return float(values.mean()), error


def _judged_peers(evidence: Evidence) -> list[PeerResult]:
    known = evidence.training if evidence.fitted_here else evidence.rows
    if len(np.unique(known, axis=0)) < _LEAST_FOR_PEERS:
        return []
    scale = known.std(axis=0)
    spread = Standardizer(known.mean(axis=0), np.where(scale > 0, scale, 1.0))
    results = []
    for name, fit in _PEERS.items():
        choice, logs = _peer_logs(fit, evidence, spread)
        mean, error = mean_and_error(logs)
        difference = mean_and_error(evidence.log_density - logs)
        results.append(PeerResult(name, choice, mean, error, *difference))
    return results


def _peer_logs(
    fit: Callable[[Float[np.ndarray, "n d"], int], _Peer], evidence: Evidence, spread: Standardizer
) -> tuple[str, Float[np.ndarray, " n"]]:
    """What was chosen, and the peer's log density at every judged row, in the data's units."""
    rows = spread.forward(evidence.rows)
    if evidence.fitted_here:
        peer = fit(spread.forward(evidence.training), evidence.seed)
        return peer.choice, peer.density.score_samples(rows) - spread.log_volume
    keys = evidence.judged.keys
    folds = split_folds(np.unique(keys), _FOLDS).numbers(keys)
    logs, choice = np.empty(len(rows)), ""
    for fold in np.unique(folds):
        peer = fit(rows[folds != fold], evidence.seed)
        logs[folds == fold] = peer.density.score_samples(rows[folds == fold])
        choice = choice or f"{peer.choice} (first of {_FOLDS} folds)"
    return choice, logs - spread.log_volume


def _capital(name: str) -> str:
    return name[0].upper() + name[1:]


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _verdict(peer: PeerResult) -> str:
    if not math.isfinite(peer.difference_error):
        return "cannot be compared with"
    if abs(peer.difference) <= 2 * peer.difference_error:
        return "is not clearly different from"
    return "is better than" if peer.difference > 0 else "is worse than"


def _in_words(evidence: Evidence, mean: float, error: float, peers: list[PeerResult]) -> str:
    name = type(evidence.model).__name__
    text = (
        f"{name} gives {count(len(evidence.log_density), evidence.kind)} a mean log-likelihood of "
        f"{with_error(mean, error)} nats (± is one standard error; higher is better). "
    )
    impossible = int((~np.isfinite(evidence.log_density)).sum())
    if impossible:
        text += f"At {count(impossible, 'row')} its density is zero or could not be found. "
    if peers:
        verdicts: dict[str, list[str]] = {}
        for peer in peers:
            verdicts.setdefault(_verdict(peer), []).append(f"the {peer.name}")
        parts = [f"{verdict} {_listed(names)}" for verdict, names in verdicts.items()]
        text += f"On the same rows it {'; it '.join(parts)}"
        text += ", judged by twice the standard error of the paired difference."
    return text


def _peer_chart(evidence: Evidence, peers: list[PeerResult]) -> Html | None:
    intervals = [
        Interval(
            _capital(peer.name),
            peer.difference,
            peer.difference - 2 * peer.difference_error,
            peer.difference + 2 * peer.difference_error,
        )
        for peer in peers
        if math.isfinite(peer.difference_error)
    ]
    if not intervals:
        return None
    name = type(evidence.model).__name__
    label = "; ".join(
        f"against {one.name}: {number(one.center)}, from {number(one.low)} to {number(one.high)}"
        for one in intervals
    )
    axis = "gain in nats per row, ± two standard errors"
    return element(
        "figure",
        interval_chart(intervals, f"Gain of {name} {label}", axis),
        element("figcaption", f"Right of zero {name} is better."),
    )


def _peer_table(evidence: Evidence, mean: float, error: float, peers: list[PeerResult]) -> Html:
    rows = [[type(evidence.model).__name__, with_error(mean, error), "", "this report’s model"]]
    rows += [
        [
            _capital(peer.name),
            with_error(peer.mean, peer.error),
            with_error(peer.difference, peer.difference_error),
            peer.choice,
        ]
        for peer in peers
    ]
    heads = ["Estimator", "Mean log-likelihood", "Model minus this one, paired", "Chosen"]
    return table(
        f"Mean log-likelihood of {count(len(evidence.log_density), evidence.kind)}, in nats, "
        "with standard errors",
        heads,
        rows,
    )


def _about_peers(evidence: Evidence, peers: list[PeerResult]) -> str:
    if not peers:
        return "There are too few distinct rows to fit other estimators beside it."
    if evidence.fitted_here:
        used = count(len(evidence.training), "training row")
        return (
            f"The others are scikit-learn’s, fitted to {used} with every column divided by its "
            "deviation."
        )
    return (
        "The model came fitted, and what it was fitted to is not known here: if some of these rows "
        "were among it, its figure flatters it. The others are scikit-learn’s, fitted to four "
        "fifths of the given rows and judged by the rest, five times."
    )


def _about_ties(evidence: Evidence) -> Html | None:
    """A caution where values repeat: likelihoods then reward spikes."""
    tied = [
        name
        for name, values in zip(evidence.names, evidence.rows.T, strict=True)
        if len(np.unique(values)) < len(values) / 2
    ]
    if not tied:
        return None
    return element(
        "p",
        f"Values repeat in {', '.join(tied)}. A density may be as high as it likes at repeated "
        "values, so that likelihoods there reward narrow spikes too, such as a mixture’s.",
        class_="note",
    )


def _about_training(evidence: Evidence, mean: float, training: tuple[float, float]) -> Html | None:
    if not math.isfinite(training[0]):
        return None
    rows = count(len(evidence.training_log_density), "training row")
    return element(
        "p",
        f"At {rows} the mean is {with_error(*training)}, {number(abs(training[0] - mean), 2)} nats "
        f"{'more' if training[0] > mean else 'less'} than at held-out ones.",
        class_="note",
    )
