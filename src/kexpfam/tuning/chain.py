"""The terms of a chain beside its mixture, each with a say of held-out rows.

For a number, in this order:

1. length-scales of the columns before, as they are or mapped, by the evidence of a Gaussian process
   for the number;
2. a bell around the process's prediction, each row predicted by the others, and the share of it
   that makes the stack with the mixture's conditional likeliest; none where that gains too little;
3. a tilt of the stack (`kexpfam.model.residual_tilt`), likeliest for residuals that are out of
   sample, over a path of penalties from strong to weak; held-out rows choose one, or none. Some
   rows and few functions are tried first.

Categories are in `kexpfam.tuning.categories`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from kexpfam.base.bell import WIDTHS
from kexpfam.base.covariance import Covariance, Kind, tune_covariance
from kexpfam.base.line import OnLine, on_line
from kexpfam.base.location import LeftOut, Location, fit_exact, fit_points
from kexpfam.features.inputs import InputFunctions, input_functions
from kexpfam.features.residual import residual_functions
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_terms import Inputs, NumberTerm
from kexpfam.model.residual_tilt import NODES, normal_masses
from kexpfam.solve.conditional import TiltProblem, likeliest_path
from kexpfam.threads import one_blas_thread
from kexpfam.tuning.gate import mean_and_error
from kexpfam.tuning.held_out import PENALTIES, likeliest_factor
from kexpfam.tuning.table_rows import TableRows

__all__ = [
    "FEWEST_ROWS",
    "FUNCTIONS",
    "MOST_ROWS",
    "NumberChoice",
    "TiltChoice",
    "best_tilt",
    "choose_number",
    "fit_number",
    "functions_for",
    "number_problem",
]

# Rows that kernels are chosen on, and that length-scales are tuned on; steps for each.
_KERNEL_ROWS, _TUNING_ROWS, _KERNEL_STEPS, _TUNING_STEPS = 160, 320, 25, 20
# Points of a location. More of them are tried where a bell has such a share, and still more where
# the last step gained so many nats a row; they are taken for a gain that pays for their time.
_POINTS, _MORE_POINTS, _MORE_SHARE, _WELL_WORTH, _MORE_GAIN = 256, (1024, 2048), 0.5, 0.25, 0.02
# Functions of the inputs and rows, for a first look and for good; steps for each penalty.
_FIRST_FUNCTIONS, FUNCTIONS, _FIRST_ROWS, MOST_ROWS = 40, 200, 2000, 10_000
_STEPS = 25
# Gains in nats a row that a bell or a tilt must show, and that make a path go on.
_LEAST_GAIN, _PATIENCE, _GOING_ON = 0.003, 2, 1e-3
# Rows that anything is chosen on, rows for each input of a location, and rows that a bell must have
# been right at before the mixture counts less than one row.
FEWEST_ROWS, _ROWS_PER_INPUT, _TRIAL_ROWS = 40, 5, 10.0
# Of the mixture, the bell and its wide part, where their search begins.
_FIRST_SHARES = 0.5, 0.45, 0.05
# Rows that stand for experience with other tables, and how many of them lie in the wide part.
_BEFORE, _ODD_SHARE = 200.0, 0.02
_EVERY_OTHER = slice(None, None, 2)


class TiltChoice(NamedTuple):
    """A penalty that held-out rows prefer, and where a fit to more rows begins."""

    functions: InputFunctions
    penalty: float
    coefficients: Float[np.ndarray, "m k"]

    def fitted_to(self, problem: TiltProblem) -> Float[np.ndarray, "m k"]:
        """The coefficients of a problem with these functions."""
        return next(likeliest_path(problem, [self.penalty], _STEPS, self.coefficients))


class NumberChoice(NamedTuple):
    """What was found to pay for a number."""

    covariance: Covariance | None = None
    plain: bool = False
    n_points: int = _POINTS
    noise_ratio: float = 1.0
    share: float = 0.0
    wide_share: float = 0.0
    tilt: TiltChoice | None = None


class _Problem(NamedTuple):
    """Rows of one number's problem: those where it is there."""

    places: Int[np.ndarray, " j"]
    inputs: Float[np.ndarray, "j i"]
    plain_inputs: Float[np.ndarray, "j i"]
    known: Bool[np.ndarray, " j"]
    targets: Float[np.ndarray, " j"]
    line: OnLine
    edges: Float[np.ndarray, "two j"]
    support: tuple[float, float]
    cells: bool
    weights: Float[np.ndarray, " j"]
    within: Float[np.ndarray, " j"]

    def where(self, chosen: Bool[np.ndarray, " j"] | slice) -> _Problem:
        return self._replace(
            places=self.places[chosen],
            inputs=self.inputs[chosen],
            plain_inputs=self.plain_inputs[chosen],
            known=self.known[chosen],
            targets=self.targets[chosen],
            line=OnLine(*(part[chosen] for part in self.line)),
            edges=self.edges[:, chosen],
            weights=self.weights[chosen],
            within=self.within[chosen],
        )

    def seen(self, plain: bool) -> _Problem:
        """With the numbers before as they are, or mapped."""
        return self._replace(inputs=self.plain_inputs) if plain else self


def number_problem(
    table: TableRows,
    density: ChainDensity,
    inputs: Inputs,
    lines: Sequence[OnLine],
    number: int,
    members: Bool[np.ndarray, " n"],
) -> _Problem:
    """All that a number's terms are fitted to."""
    there = members & ~np.isnan(table.parts.numbers[:, number])
    edges = density.edges(table.parts.numbers, inputs.mapped)[:, there, number]
    targets = density.mapped(table.numbers)[there, number]
    low, high = density.support[:, number].tolist()
    return _Problem(
        np.flatnonzero(there),
        inputs.before(number, False)[there],
        inputs.before(number, True)[there],
        inputs.known[there, number],
        targets,
        OnLine(*(part[there] for part in lines[number])),
        edges,
        (low, high),
        bool(table.layout.is_lattice[number]),
        table.weights[there],
        table.uniform("place", number)[there],
    )


def choose_number(problem: _Problem, held: Bool[np.ndarray, " j"]) -> NumberChoice:
    """A covariance, a share of the bell and a penalty, where they pay."""
    if len(problem.weights) < FEWEST_ROWS or not 0 < held.sum() < len(held):
        return NumberChoice()
    varying = problem.inputs.shape[1] > 0
    covariance, plain = None, False
    if varying:
        covariance, plain = _tuned(problem.where(problem.known))
    problem = problem.seen(plain)
    choice, stacked = NumberChoice(covariance, plain), problem.line
    if covariance is not None:
        choice, stacked = _stacked(problem, choice)
    tilt = None
    for n_functions, rows in ((_FIRST_FUNCTIONS, _FIRST_ROWS), (FUNCTIONS, MOST_ROWS)):
        some = slice(0, rows)
        functions = functions_for(problem.inputs[some], covariance, n_functions)
        tilt = best_tilt(
            functions, _tilt_problem(problem.where(some), stacked, functions), held[some]
        )
        if tilt is None:
            break
    return choice._replace(tilt=tilt)


def fit_number(problem: _Problem, choice: NumberChoice) -> NumberTerm:
    """The terms of a number with what was chosen."""
    problem = problem.seen(choice.plain)
    term, stacked = NumberTerm(plain=choice.plain), problem.line
    if choice.covariance is not None and choice.share > 0:
        bell = _bell(problem, choice.covariance, choice.n_points, choice.noise_ratio)
        stacked = bell.beside(problem, choice)
        term = term._replace(
            location=bell.location,
            factor=bell.factor,
            share=choice.share,
            wide_share=choice.wide_share,
        )
    if choice.tilt is not None:
        functions, some = choice.tilt.functions, slice(0, MOST_ROWS)
        tilt = _tilt_problem(problem.where(some), stacked, functions)
        term = term._replace(functions=functions, coefficients=choice.tilt.fitted_to(tilt))
    return term


# Threads of BLAS cost more than they gain in matrices of a few hundred rows.
@one_blas_thread()
def _tuned(problem: _Problem) -> tuple[Covariance | None, bool]:
    """Kernel and length-scales with the highest evidence, on some rows; and of which inputs."""
    if len(problem.weights) < max(FEWEST_ROWS, _ROWS_PER_INPUT * problem.inputs.shape[1]):
        return None, False
    relative = problem.weights.mean() / problem.weights
    targets = problem.targets
    best: tuple[float, Covariance, bool] | None = None
    start = None
    few, more = slice(0, _KERNEL_ROWS), slice(0, _TUNING_ROWS)
    kinds: tuple[Kind, ...] = ("rbf", "matern")
    for kind in kinds:
        start, found = tune_covariance(
            kind, problem.inputs[few], targets[few], relative[few], start, _KERNEL_STEPS
        )
        if best is None or found > best[0]:
            best = found, start, False
    assert best is not None
    if not np.allclose(problem.inputs[few], problem.plain_inputs[few]):
        kind = best[1].kind
        start, found = tune_covariance(
            kind, problem.plain_inputs[few], targets[few], relative[few], None, _KERNEL_STEPS
        )
        if found > best[0]:
            best = found, start, True
    _, start, plain = best
    inputs = problem.seen(plain).inputs[more]
    covariance, _ = tune_covariance(
        start.kind, inputs, targets[more], relative[more], start, _TUNING_STEPS
    )
    return covariance, plain


class _Bell(NamedTuple):
    """A location, the factor of its deviations, and where rows lie in the bell's two parts."""

    location: Location
    factor: float
    narrow: OnLine
    wide: OnLine

    def beside(self, problem: _Problem, choice: NumberChoice) -> OnLine:
        """The mixture's conditional with the bell."""
        wide_share = np.full(len(problem.weights), choice.wide_share)
        bell = self.narrow.stacked(self.wide, wide_share)
        return problem.line.stacked(bell, choice.share * problem.known)


def _stacked(problem: _Problem, choice: NumberChoice) -> tuple[NumberChoice, OnLine]:
    """The shares of a bell, and what the mixture's conditional is with it."""
    covariance = choice.covariance
    assert covariance is not None
    bell = _bell(problem, covariance, _POINTS)
    choice, reached = _with_shares(choice, problem, bell)
    if choice.share == 0:
        return choice, problem.line
    gained = np.inf
    for n_points in _MORE_POINTS:
        enough = choice.share >= _MORE_SHARE and gained > _WELL_WORTH
        if not enough or len(problem.weights) < 2 * n_points:
            break
        larger = _bell(problem, covariance, n_points)
        other, gain = _with_shares(choice, problem, larger)
        gained = gain - reached
        if gained > _MORE_GAIN:
            choice, bell, reached = other._replace(n_points=n_points), larger, gain
    return choice, bell.beside(problem, choice)


def _bell(
    problem: _Problem, covariance: Covariance, n_points: int, noise_ratio: float | None = None
) -> _Bell:
    """A location of the rows whose inputs are there, and where each row lies in its bell."""
    known = problem.where(problem.known)
    noises = covariance.noise * known.weights.mean() / known.weights
    left_out: LeftOut
    if len(noises) <= 2 * n_points:
        location, left_out = fit_exact(covariance, known.inputs, known.targets, noises)
    else:
        location, left_out = fit_points(
            covariance,
            known.inputs[:n_points],
            known.inputs,
            known.targets,
            noises,
            noise_ratio,
        )
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
        )
        for width in WIDTHS
    )
    return _Bell(location, factor, narrow, wide)


def _with_shares(
    choice: NumberChoice, problem: _Problem, bell: _Bell
) -> tuple[NumberChoice, float]:
    """The likeliest shares of the bell and of its wide part, and what they gain.

    None if that is not beyond doubt.
    """
    known, weights = problem.known, problem.weights
    lines = (problem.line, bell.narrow, bell.wide)
    logs = np.stack([(line.inside if problem.cells else line.density)[known] for line in lines])
    logs = np.maximum(logs, -700.0)
    weights = weights[known] / weights[known].sum()
    most = min(0.999, len(weights) / (len(weights) + _TRIAL_ROWS))
    shares = np.array(_FIRST_SHARES)
    for _ in range(100):
        members = logs + np.log(np.maximum(shares, 1e-300))[:, None]
        shares = np.exp(members - np.logaddexp.reduce(members)) @ weights
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
    if gain <= max(error, _LEAST_GAIN):
        return choice, 0.0
    share = float(shares[1:].sum())
    found = choice._replace(
        share=share,
        wide_share=float(shares[2]) / share,
        noise_ratio=bell.location.noise_ratio,
    )
    return found, gain


def _tilt_problem(
    problem: _Problem,
    stacked: OnLine,
    functions: InputFunctions,
) -> TiltProblem:
    """The convex problem of some rows, the first ones."""
    some = slice(0, len(problem.weights))
    line = OnLine(*(part[some] for part in stacked))
    nodes = NODES[_EVERY_OTHER]
    return TiltProblem(
        functions(problem.inputs),
        residual_functions(line.residuals(problem.within)),
        residual_functions(nodes),
        np.log(normal_masses(nodes))[None],
        problem.weights / problem.weights.sum(),
    )


def functions_for(
    inputs: Float[np.ndarray, "n i"], covariance: Covariance | None, n_functions: int
) -> InputFunctions:
    """Functions of inputs, with length-scales of their own where there is a covariance."""
    n_inputs = inputs.shape[1]
    kind: Kind = "rbf"
    length_scale = np.full(n_inputs, np.sqrt(max(n_inputs, 1)))
    if covariance is not None:
        kind, length_scale = covariance.kind, covariance.length_scale
    return input_functions(kind, length_scale, inputs[: 2 * n_functions], n_functions)


@one_blas_thread()
def best_tilt(
    functions: InputFunctions, problem: TiltProblem, held: Bool[np.ndarray, " n"]
) -> TiltChoice | None:
    """The tilt that held-out rows prefer; None where none is better than no tilt."""
    if not 0 < held.sum() < len(held):
        return None
    judges = problem.where(held)
    means: list[float] = []
    best: tuple[float, float, TiltChoice | None] = 0.0, 0.0, None
    path = likeliest_path(problem.where(~held), PENALTIES, _STEPS)
    for penalty, coefficients in zip(PENALTIES, path, strict=True):
        gain, error = mean_and_error(judges.gains(coefficients), judges.weights)
        means.append(gain)
        if gain > best[0]:
            best = gain, error, TiltChoice(functions, penalty, coefficients)
        before, last = means[:-_PATIENCE], means[-_PATIENCE:]
        if before and max(last) < max(before) + _GOING_ON:
            break
    return best[2] if best[0] > max(best[1], _LEAST_GAIN) else None
