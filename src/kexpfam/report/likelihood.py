"""Mean log-likelihood of judged rows, beside other estimators of a density.

With ℓ_i the model's log density at row i and ℓ′_i a peer's, the figures are

    mean ℓ ± sd(ℓ)/√n        and, paired,        mean (ℓ − ℓ′) ± sd(ℓ − ℓ′)/√n.

Peers (`kexpfam.report.peers`) see the rows that the model was fitted to. Where these are unknown,
because a fitted model was given, they are fitted to four fifths of the judged rows and judged by
the other fifth, five times.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.sketch import split_folds
from kexpfam.report.charts import Interval, interval_chart
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, count, element, joined, number, table, with_error
from kexpfam.report.peers import BASE, PRODUCT, FitPeer, peers_for
from kexpfam.report.section import Finding, Section

__all__ = ["PeerResult", "likelihood_section"]

_FOLDS, _LEAST_FOR_PEERS = 5, 25


class PeerResult(NamedTuple):
    """A peer's mean log-likelihood, and how much higher the model's is."""

    name: str
    choice: str
    mean: float
    error: float
    difference: float
    difference_error: float


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
    return Section("likelihood", "How well it predicts", body, data, (finding,))


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
    among = f", the best of {len(peers)} peers" if len(peers) > 1 else ""
    words = f"nats per row, {gain} {side} the {best.name}{among}"
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
    results = []
    for name, fit in peers_for(evidence.kinds, np.concatenate([known, evidence.rows])).items():
        try:
            choice, logs = _peer_logs(fit, evidence)
        except ValueError:
            # A column with too few values for the peer: there is nothing to compare with.
            continue
        results.append(_result(evidence, name, choice, logs))
    if evidence.model.has_tilt_ and any(kind.is_discrete for kind in evidence.kinds):
        choice, logs = "the same fit without regressions and tilts", evidence.base_log_density
        results.append(_result(evidence, BASE, choice, logs))
    return results


def _result(
    evidence: Evidence, name: str, choice: str, logs: Float[np.ndarray, " n"]
) -> PeerResult:
    with np.errstate(invalid="ignore"):
        difference = evidence.log_density - logs
    return PeerResult(name, choice, *mean_and_error(logs), *mean_and_error(difference))


def _peer_logs(fit: FitPeer, evidence: Evidence) -> tuple[str, Float[np.ndarray, " n"]]:
    """What was chosen, and the peer's log density at every judged row."""
    rows = evidence.rows
    if evidence.fitted_here:
        peer = fit(evidence.training, evidence.kinds, evidence.seed)
        return peer.choice, peer.log_density(rows)
    keys = evidence.judged.keys
    folds = split_folds(np.unique(keys), _FOLDS).numbers(keys)
    logs, choice = np.empty(len(rows)), ""
    for fold in np.unique(folds):
        peer = fit(rows[folds != fold], evidence.kinds, evidence.seed)
        logs[folds == fold] = peer.log_density(rows[folds == fold])
        choice = choice or f"{peer.choice} (first of {_FOLDS} folds)"
    return choice, logs


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
        element("figcaption", f"To the right of zero, {name} is better."),
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
        return "There are too few distinct rows to fit other estimators for comparison."
    names = {peer.name for peer in peers}
    who = []
    if names - {PRODUCT, BASE}:
        who.append("The others are those of scikit-learn, with columns in standard units.")
    if PRODUCT in names:
        who.append(
            f"The {PRODUCT} has a mixture, or shares of levels, for each column by itself, as if "
            "columns were independent."
        )
    if BASE in names:
        who.append(f"The {BASE} is a mixture for the numbers and shares for the categories.")
    if evidence.fitted_here:
        used = count(len(evidence.training), "training row")
        return f"{' '.join(who)} All are fitted to {used}, or to fewer where the table says so."
    others = "All but this one are" if BASE in names else "The others are"
    return (
        "The model was fitted before, and it is not known to which rows: if some of these are "
        f"among them, its figure is too high. {' '.join(who)} {others} fitted to four fifths of "
        "the given rows and judged by the rest, five times."
    )


def _about_ties(evidence: Evidence) -> Html | None:
    """A caution where values repeat: likelihoods then reward spikes."""
    tied = [
        name
        for name, kind, values in zip(evidence.names, evidence.kinds, evidence.rows.T, strict=True)
        if not (kind.is_discrete or kind.atoms) and _repeats(values[np.isfinite(values)])
    ]
    if not tied:
        return None
    return element(
        "p",
        f"Values repeat in {', '.join(tied)}. A density can be arbitrarily high at repeated "
        "values, so that the likelihood also rewards narrow spikes, such as those of a mixture.",
        class_="note",
    )


def _repeats(values: Float[np.ndarray, " n"]) -> bool:
    return len(np.unique(values)) < len(values) / 2


def _about_training(evidence: Evidence, mean: float, training: tuple[float, float]) -> Html | None:
    if not math.isfinite(training[0]):
        return None
    rows = count(len(evidence.training_log_density), "training row")
    return element(
        "p",
        f"On {rows} the mean is {with_error(*training)}, {number(abs(training[0] - mean), 2)} nats "
        f"{'more' if training[0] > mean else 'less'} than on held-out rows.",
        class_="note",
    )
