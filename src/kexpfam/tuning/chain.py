"""The terms of a chain beside its mixture, each chosen on held-out rows.

For a number, in this order:

1. length-scales of the columns before, as they are or mapped, by the evidence of a Gaussian process
   for the number (`kexpfam.tuning.kernels`);
2. a bell around the process's prediction, each row predicted by the others, and the share of it
   that makes the stack with the mixture's conditional likeliest; none where that gains too little,
   and rivals of the kernel where it gains much (`kexpfam.tuning.regressions`);
3. a tilt of the stack (`kexpfam.model.residual_tilt`), likeliest for residuals that are out of
   sample, over a path of penalties from strong to weak; held-out rows choose one, or none. Some
   rows and few functions are tried first;
4. of a whole number, frequencies of its values with one of the categories
   (`kexpfam.tuning.level_frequencies`).

Categories are in `kexpfam.tuning.categories`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.covariance import Covariance, Kind
from kexpfam.base.line import OnLine
from kexpfam.features.inputs import InputFunctions, input_functions
from kexpfam.features.residual import residual_functions
from kexpfam.model.chain_terms import NumberTerm
from kexpfam.model.residual_tilt import NODES, cell_log_ratio, normal_masses
from kexpfam.solve.conditional import TiltProblem
from kexpfam.threads import one_blas_thread
from kexpfam.tuning.bells import Bell, refitted_bell
from kexpfam.tuning.gate import mean_and_error
from kexpfam.tuning.held_out import PENALTIES
from kexpfam.tuning.kernels import FEWEST_ROWS
from kexpfam.tuning.level_frequencies import choose_frequencies, fit_frequencies
from kexpfam.tuning.number_choices import (
    LEAST_GAIN,
    LEAST_STEP,
    STEPS,
    THOROUGH,
    Effort,
    NumberChoice,
    TiltChoice,
)
from kexpfam.tuning.number_problem import NumberProblem
from kexpfam.tuning.regressions import chosen_regression

__all__ = [
    "FEWEST_ROWS",
    "FUNCTIONS",
    "MOST_ROWS",
    "best_tilt",
    "choose_number",
    "fit_number",
    "functions_for",
]

# Functions of the inputs and rows, for a first look and for good.
_FIRST_FUNCTIONS, FUNCTIONS, _FIRST_ROWS, MOST_ROWS = 40, 200, 2000, 10_000
# Penalties after which a path ends that has not gained this many nats a row.
_PATIENCE, _GOING_ON = 2, 1e-3
# Nodes 0.2 apart: with half of them, tilts of spiky columns are fitted to what lies between.
_EVERY_OTHER = slice(None, None, 2)


def choose_number(
    problem: NumberProblem, held: Bool[np.ndarray, " j"], effort: Effort = THOROUGH
) -> NumberChoice:
    """A covariance, a share of the bell and a penalty, where they pay."""
    if len(problem.weights) < FEWEST_ROWS or not 0 < held.sum() < len(held):
        return NumberChoice()
    choice, stacked, covariance = NumberChoice(), problem.line, None
    regression = chosen_regression(problem, effort) if problem.inputs.shape[1] > 0 else None
    if regression is not None:
        choice, covariance = regression.choice, regression.kernel.covariance
        problem = problem.seen(regression.kernel.plain)
        if choice.share > 0:
            bell = regression.bell
            stacked = bell.beside(problem, choice)
            choice = choice._replace(term=_with_bell(choice, bell), sums=bell.sums)
    tilt, penalties = None, PENALTIES
    for n_functions, rows in ((_FIRST_FUNCTIONS, _FIRST_ROWS), (FUNCTIONS, MOST_ROWS)):
        some = slice(0, rows)
        functions = functions_for(problem.inputs[some], covariance, n_functions)
        tilt = best_tilt(
            functions, _tilt_problem(problem.where(some), stacked, functions), held[some], penalties
        )
        if tilt is None:
            break
        # More functions and rows want no stronger penalty.
        penalties = PENALTIES[max(PENALTIES.index(tilt.penalty) - 1, 0) :]
    if tilt is not None:
        term = choice.term._replace(functions=tilt.functions, coefficients=tilt.coefficients)
        choice = choice._replace(tilt=tilt, term=term, gain=choice.gain + tilt.gain)
    return _with_frequencies(choice, problem, stacked)


def _with_frequencies(choice: NumberChoice, problem: NumberProblem, line: OnLine) -> NumberChoice:
    """Frequencies of whole numbers, where they pay beside all else."""
    if not problem.cells or not problem.level_counts:
        return choice
    logs = line.log_probability()
    if choice.term.functions is not None:
        slopes = choice.term.slopes(problem.inputs)
        logs = logs + cell_log_ratio(slopes, *line.ends(), line.residuals())
    frequencies = choose_frequencies(problem, logs)
    if frequencies is None:
        return choice
    term = choice.term._replace(frequencies=fit_frequencies(problem, frequencies))
    return choice._replace(frequencies=frequencies, term=term)


def _with_bell(choice: NumberChoice, bell: Bell) -> NumberTerm:
    return choice.term._replace(
        location=bell.location,
        factor=bell.factor,
        share=choice.share,
        wide_share=choice.wide_share,
    )


def fit_number(
    problem: NumberProblem, choice: NumberChoice, seen: Bool[np.ndarray, " j"]
) -> NumberTerm:
    """The terms of a number with what was chosen on the rows that were seen, for all rows."""
    problem = problem.seen(choice.term.plain)
    term, stacked = choice.term, problem.line
    if term.location is not None:
        bell = refitted_bell(problem, term.location, choice.sums, seen)
        term, stacked = _with_bell(choice, bell), bell.beside(problem, choice)
    if choice.tilt is not None:
        functions, some = choice.tilt.functions, slice(0, MOST_ROWS)
        tilt = _tilt_problem(problem.where(some), stacked, functions)
        term = term._replace(functions=functions, coefficients=choice.tilt.fitted_to(tilt))
    if choice.frequencies is not None:
        term = term._replace(frequencies=fit_frequencies(problem, choice.frequencies))
    return term


def _tilt_problem(
    problem: NumberProblem,
    stacked: OnLine,
    functions: InputFunctions,
) -> TiltProblem:
    """The convex problem of some rows, the first ones."""
    line = OnLine(*(part[: len(problem.weights)] for part in stacked))
    nodes = NODES[_EVERY_OTHER]
    return TiltProblem(
        functions(problem.inputs),
        residual_functions(line.residuals(problem.within)),
        residual_functions(nodes),
        np.log(normal_masses(nodes))[None],
        problem.weights / problem.weights.sum(),
    ).single()


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
    functions: InputFunctions,
    problem: TiltProblem,
    held: Bool[np.ndarray, " n"],
    penalties: Sequence[float] = PENALTIES,
) -> TiltChoice | None:
    """The tilt that held-out rows prefer; None where none is better than no tilt."""
    if not 0 < held.sum() < len(held):
        return None
    judges = problem.where(held)
    means: list[float] = []
    best: tuple[float, float, TiltChoice | None] = 0.0, 0.0, None
    path = problem.where(~held).turned().path(penalties, STEPS, least_gain=LEAST_STEP)
    for penalty, coefficients in zip(penalties, path, strict=True):
        gain, error = mean_and_error(judges.gains(coefficients), judges.weights)
        means.append(gain)
        if gain > best[0]:
            best = gain, error, TiltChoice(functions, penalty, coefficients, gain)
        before, last = means[:-_PATIENCE], means[-_PATIENCE:]
        if before and max(last) < max(before) + _GOING_ON:
            break
    return best[2] if best[0] > max(best[1], LEAST_GAIN) else None
