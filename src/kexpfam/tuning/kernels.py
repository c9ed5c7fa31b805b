"""The kernel of a number's location: which kind, of which inputs, with which length-scales.

The evidence of a Gaussian process decides, on some of the rows. A few of them choose the kind, and
whether inputs are mapped or as they are; more of them tune the length-scales. Rivals of the kernel
that was chosen are tuned on as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kexpfam.base.covariance import Covariance, Kind
from kexpfam.base.evidence import tune_covariance
from kexpfam.threads import one_blas_thread
from kexpfam.tuning.number_problem import NumberProblem

__all__ = ["FEWEST_ROWS", "TunedKernel", "rival_kernels", "tuned_kernel"]

# Rows that anything is chosen on, and rows for each input of a location.
FEWEST_ROWS, _ROWS_PER_INPUT = 40, 5
# Rows that kernels are chosen on, and that length-scales are tuned on; steps for each, and for
# kernels that begin where another one ended.
_KERNEL_ROWS, _TUNING_ROWS, _KERNEL_STEPS, _TUNING_STEPS = 160, 320, 25, 20
_FURTHER_STEPS = 8
# Where rows are many, more of them tune: a tenth, up to a number. With a few hundred, kernels of a
# dozen inputs take what is smooth for noise, and points are not tried that would see it.
_ROWS_PER_TUNING_ROW = 10
# A step that gains less than this number of nats a row is the last: a kernel is chosen by more than
# that, and a length-scale that the evidence hardly knows makes no difference to a prediction.
_KERNEL_GAIN, _TUNING_GAIN = 3e-3, 3e-4
_OTHER: dict[Kind, Kind] = {"rbf": "matern", "matern": "rbf"}


class TunedKernel(NamedTuple):
    """A kernel, of plain inputs or mapped ones, and its evidence per row."""

    covariance: Covariance
    evidence: float
    plain: bool = False


# Threads of BLAS cost more than they gain in matrices of a few hundred rows.
@one_blas_thread()
def tuned_kernel(problem: NumberProblem, most_rows: int) -> TunedKernel | None:
    """Kernel, inputs and length-scales with the highest evidence; None where rows are too few.

    Where rows are many, more of them tune, up to `most_rows`.
    """
    if len(problem.weights) < max(FEWEST_ROWS, _ROWS_PER_INPUT * problem.inputs.shape[1]):
        return None
    going_on = _FURTHER_STEPS, _KERNEL_GAIN
    first = _tuned(problem, _KERNEL_ROWS, "rbf", False, None, _KERNEL_STEPS, _KERNEL_GAIN)
    best = _better(
        first, _tuned(problem, _KERNEL_ROWS, "matern", False, first.covariance, *going_on)
    )
    if _has_plain_inputs(problem):
        kind, start = best.covariance.kind, best.covariance
        best = _better(best, _tuned(problem, _KERNEL_ROWS, kind, True, start, *going_on))
    kind, plain = best.covariance.kind, best.plain
    count = _tuning_rows(problem, most_rows)
    steps = _TUNING_STEPS, _TUNING_GAIN
    best = _tuned(problem, count, kind, plain, best.covariance, *steps)
    if min(count, len(problem.weights)) > _TUNING_ROWS:
        # With more rows, the other kind may have the higher evidence.
        going_on = _FURTHER_STEPS, _TUNING_GAIN
        best = _better(
            best, _tuned(problem, count, _OTHER[kind], plain, best.covariance, *going_on)
        )
    return best


def rival_kernels(
    problem: NumberProblem, kernel: TunedKernel, most_rows: int
) -> Iterator[TunedKernel]:
    """A kernel of the other kind, and one of the inputs as the first does not see them.

    Both begin where the first one ended.
    """
    start, plain, count = kernel.covariance, kernel.plain, _tuning_rows(problem, most_rows)
    steps = _TUNING_STEPS, _TUNING_GAIN
    yield _tuned(problem, count, _OTHER[start.kind], plain, start, *steps)
    if _has_plain_inputs(problem):
        yield _tuned(problem, count, start.kind, not plain, start, *steps)


def _tuned(
    problem: NumberProblem,
    count: int,
    kind: Kind,
    plain: bool,
    start: Covariance | None,
    n_steps: int,
    least_gain: float,
) -> TunedKernel:
    """By the evidence of the first rows, so many."""
    inputs = problem.seen(plain).inputs[:count]
    relative = problem.weights.mean() / problem.weights[:count]
    found = tune_covariance(
        kind, inputs, problem.targets[:count], relative, start, n_steps, least_gain, single=True
    )
    return TunedKernel(*found, plain)


def _better(one: TunedKernel, other: TunedKernel) -> TunedKernel:
    return other if other.evidence > one.evidence else one


def _tuning_rows(problem: NumberProblem, most_rows: int) -> int:
    """How many rows tune length-scales."""
    return int(np.clip(len(problem.weights) // _ROWS_PER_TUNING_ROW, _TUNING_ROWS, most_rows))


def _has_plain_inputs(problem: NumberProblem) -> bool:
    """Whether inputs as they are differ from mapped ones."""
    some = slice(0, _KERNEL_ROWS)
    return not np.allclose(problem.inputs[some], problem.plain_inputs[some])
