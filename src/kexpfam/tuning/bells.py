"""A bell around the prediction of a number by those before it, beside the mixture's conditional.

    q(t | x) = (1 − w) mixture(t | x) + w [(1 − v) N(μ, s²) + v N(μ, (wide s)²)]

Every row is predicted by the others. The shares w and wv are the likeliest for where rows lie under
the mixture and under both parts of the bell, found by expectation–maximization.

| symbol | name       |
|--------|------------|
| w      | share      |
| v      | wide_share |
| μ, s   | location, factor |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool

from kexpfam.base.bell import WIDTHS
from kexpfam.base.covariance import Covariance
from kexpfam.base.line import OnLine, on_line
from kexpfam.base.location import (
    LeftOut,
    Location,
    LocationSums,
    add_to_location,
    fit_exact,
    fit_solved,
    solve_points,
)
from kexpfam.tuning.gate import mean_and_error
from kexpfam.tuning.held_out import likeliest_factor
from kexpfam.tuning.number_choices import LEAST_GAIN, NumberChoice, SolvedSums
from kexpfam.tuning.number_problem import NumberProblem

__all__ = ["Bell", "fitted_bell", "refitted_bell", "with_shares"]

# Rows that a bell must have been right at before the mixture counts less than one row.
_TRIAL_ROWS = 10.0
# Of the mixture, the bell and its wide part, where their search begins.
_FIRST_SHARES = 0.5, 0.45, 0.05
# Rows that stand for experience with other tables, and how many of them lie in the wide part.
_BEFORE, _ODD_SHARE = 200.0, 0.02


class Bell(NamedTuple):
    """A location, the factor of its scale, and where rows lie in the bell's two parts.

    `sums` are those of a location with points, and the axes that they were solved along; None where
    all rows are points. `unseen` are the nats a row by which bells would be narrower if points saw
    all that there is to see.
    """

    location: Location
    factor: float
    narrow: OnLine
    wide: OnLine
    sums: SolvedSums | None
    unseen: float

    def beside(self, problem: NumberProblem, choice: NumberChoice) -> OnLine:
        """The mixture's conditional with the bell."""
        wide_share = np.full(len(problem.weights), choice.wide_share)
        bell = self.narrow.stacked(self.wide, wide_share)
        return problem.line.stacked(bell, choice.share * problem.known)


def fitted_bell(problem: NumberProblem, covariance: Covariance, n_points: int) -> Bell:
    """A location of the rows whose inputs are present, and where each row lies in its bell."""
    known = problem.where(problem.known)
    noises = covariance.noise * known.weights.mean() / known.weights
    if len(noises) <= 2 * n_points:
        exact = fit_exact(covariance, known.inputs, known.targets, noises)
        return _bell(problem, *exact, None)
    points, rows = known.inputs[:n_points], (known.inputs, known.targets)
    sums = add_to_location(None, covariance, points, *rows, covariance.noise / noises)
    solved = solve_points(covariance, points, sums, 1.0)
    found, left_out = fit_solved(solved, *rows, noises)
    return _bell(problem, found, left_out, SolvedSums(sums, solved.whitening, left_out))


def refitted_bell(
    problem: NumberProblem,
    location: Location,
    solved: SolvedSums | None,
    seen: Bool[np.ndarray, " j"],
) -> Bell:
    """The bell of all rows, from a location of those that were seen and the sums of its points.

    Points stay where they are, and only the others are added to their sums. Whatever else was
    summed, k(P, P) is what it was: along the axes that were found it is the identity. Rows that
    were seen stay where they were when they were left out; the others are predicted by those.
    """
    covariance, points = location.covariance, location.points
    known = problem.where(problem.known)
    noises = covariance.noise * known.weights.mean() / known.weights
    if solved is None:
        exact = fit_exact(covariance, known.inputs, known.targets, noises)
        return _bell(problem, *exact, None)
    new = ~seen[problem.known]
    unit = known.weights[~new].mean() / known.weights.mean()
    sums = LocationSums(*(unit * part for part in solved.sums))
    some = known.inputs[new], known.targets[new], covariance.noise / noises[new]
    sums = add_to_location(sums, covariance, points, *some)
    again = solve_points(covariance, points, sums, 1.0, solved.axes)
    mean, variance = np.empty(len(new)), np.empty(len(new))
    mean[~new], variance[~new] = solved.left_out[:2]
    mean[new], variance[new] = location.predict(known.inputs[new])
    left_out = LeftOut(mean, variance)
    found = again.with_noise_ratio(location.noise_ratio).location
    return _bell(problem, found, left_out, SolvedSums(sums, again.whitening, left_out))


def _bell(
    problem: NumberProblem, location: Location, left_out: LeftOut, sums: SolvedSums | None
) -> Bell:
    """Where rows lie around predictions by the others."""
    known = problem.where(problem.known)
    scale = np.sqrt(left_out.variance + location.noise)
    factor = likeliest_factor((known.targets - left_out.mean) / scale, known.weights)
    mean, deviation = np.zeros(len(problem.weights)), np.ones(len(problem.weights))
    mean[problem.known], deviation[problem.known] = left_out.mean, factor * scale
    narrow, wide = (
        on_line(
            np.zeros((len(mean), 1)),
            mean[:, None],
            width * deviation[:, None],
            (problem.edges[0], problem.edges[1]),
            problem.support,
            problem.cells,
            log_widths=problem.edges[2],
        )
        for width in WIDTHS
    )
    # Where points leave errors, their scale has more noise than the rows.
    least = left_out.variance - left_out.unseen + location.covariance.noise
    unseen = float(np.average(np.log(scale**2 / least) / 2, weights=known.weights))
    return Bell(location, factor, narrow, wide, sums, unseen)


def with_shares(
    choice: NumberChoice, problem: NumberProblem, bell: Bell
) -> tuple[NumberChoice, float]:
    """The likeliest shares of the bell and of its wide part, and what they gain.

    None if that is not significantly.
    """
    known, weights = problem.known, problem.weights
    lines = (problem.line, bell.narrow, bell.wide)
    logs = np.stack([(line.inside if problem.cells else line.density)[known] for line in lines])
    logs = np.maximum(logs, -700.0)
    weights = weights[known] / weights[known].sum()
    most = min(0.999, len(weights) / (len(weights) + _TRIAL_ROWS))
    shares = np.array(_FIRST_SHARES)
    # Relative to the highest of a row, so that steps need no logarithms.
    heights = np.exp(logs - logs.max(axis=0))
    for _ in range(100):
        members = heights * np.maximum(shares, 1e-300)[:, None]
        members /= members.sum(axis=0)
        shares = members @ weights
        if shares[0] > 1 - 1e-4:
            return choice, 0.0
        # As if some rows had been seen before, of which a few were odd.
        odd = (shares[2] * len(weights) + _ODD_SHARE * _BEFORE) / (
            shares[1:].sum() * len(weights) + _BEFORE
        )
        share = min(float(shares[1:].sum()), most)
        shares = np.array([1 - share, share * (1 - odd), share * odd])
    gains = np.logaddexp.reduce(logs + np.log(np.maximum(shares, 1e-300))[:, None]) - logs[0]
    gain, error = mean_and_error(gains, weights)
    if gain <= max(error, LEAST_GAIN):
        return choice, 0.0
    share = float(shares[1:].sum())
    gained = gain * float(known @ problem.weights / problem.weights.sum())
    return choice._replace(share=share, wide_share=float(shares[2]) / share, gain=gained), gain
