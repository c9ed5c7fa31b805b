"""The kernel of a number's location: which kind, of which inputs, with which length-scales.

The evidence of a Gaussian process decides, on some of the rows. A few of them choose the kind, and
whether inputs are mapped or as they are; more of them tune the length-scales.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.base.covariance import Covariance, Kind
from kexpfam.base.evidence import tune_covariance
from kexpfam.threads import one_blas_thread
from kexpfam.tuning.number_problem import NumberProblem

__all__ = ["FEWEST_ROWS", "tuned_kernel"]

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


class _Tuned(NamedTuple):
    """A kernel, of plain inputs or mapped ones, and its evidence per row."""

    covariance: Covariance
    evidence: float
    plain: bool = False


# Threads of BLAS cost more than they gain in matrices of a few hundred rows.
@one_blas_thread()
def tuned_kernel(problem: NumberProblem, most_rows: int) -> tuple[Covariance | None, bool]:
    """Kernel and length-scales with the highest evidence; and whether of plain inputs.

    Where rows are many, more of them tune, up to `most_rows`.
    """
    if len(problem.weights) < max(FEWEST_ROWS, _ROWS_PER_INPUT * problem.inputs.shape[1]):
        return None, False
    relative = problem.weights.mean() / problem.weights

    def tuned(
        count: int,
        inputs: Float[np.ndarray, "n d"],
        kind: Kind,
        start: Covariance | None,
        n_steps: int,
        least_gain: float,
    ) -> _Tuned:
        rows = inputs[:count], problem.targets[:count], relative[:count]
        return _Tuned(*tune_covariance(kind, *rows, start, n_steps, least_gain, single=True))

    def better(one: _Tuned, other: _Tuned) -> _Tuned:
        return other if other.evidence > one.evidence else one

    count, inputs = _KERNEL_ROWS, problem.inputs
    first = tuned(count, inputs, "rbf", None, _KERNEL_STEPS, _KERNEL_GAIN)
    going_on = _FURTHER_STEPS, _KERNEL_GAIN
    best = better(first, tuned(count, inputs, "matern", first.covariance, *going_on))
    plain = problem.plain_inputs
    if not np.allclose(inputs[:count], plain[:count]):
        own = tuned(count, plain, best.covariance.kind, best.covariance, *going_on)
        best = better(best, own._replace(plain=True))
    if best.plain:
        inputs = plain
    count = int(np.clip(len(inputs) // _ROWS_PER_TUNING_ROW, _TUNING_ROWS, most_rows))
    kind, chosen = best.covariance.kind, best
    best = tuned(count, inputs, kind, chosen.covariance, _TUNING_STEPS, _TUNING_GAIN)
    if min(count, len(inputs)) > _TUNING_ROWS:
        # With more rows, the other kind may have the higher evidence.
        going_on = _FURTHER_STEPS, _TUNING_GAIN
        best = better(best, tuned(count, inputs, _OTHER[kind], best.covariance, *going_on))
    return best.covariance, chosen.plain
