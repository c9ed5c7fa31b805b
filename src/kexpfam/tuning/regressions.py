"""The regression of a number on the columns before it: its kernel and its points.

A kernel that the evidence of a few rows chose need not be the one that predicts best: a number that
nearly follows from others is predicted to many digits or to few, depending on the kind of the
kernel and on whether it sees columns mapped or as they are. So where a bell around the prediction
gains much beside the mixture, rivals of its kernel are tuned, too, and the one is kept whose bell
gains most, each row predicted by the others. More points than a few hundred are tried as long as
they gain.
"""

from __future__ import annotations

from typing import NamedTuple

from kexpfam.model.chain_terms import NumberTerm
from kexpfam.tuning.bells import Bell, fitted_bell, with_shares
from kexpfam.tuning.kernels import TunedKernel, rival_kernels, tuned_kernel
from kexpfam.tuning.number_choices import POINTS, Effort, NumberChoice
from kexpfam.tuning.number_problem import NumberProblem

__all__ = ["Regression", "chosen_regression"]

# No more points of a location are tried where a bell has hardly a share, or where points fail to
# see less than a gain that pays for the time of more.
_MORE_SHARE, _MORE_GAIN = 0.25, 0.02


class Regression(NamedTuple):
    """A kernel, a bell around its predictions, its shares, and what these gain in nats a row."""

    kernel: TunedKernel
    bell: Bell
    choice: NumberChoice
    gain: float

    @classmethod
    def of(cls, problem: NumberProblem, kernel: TunedKernel, n_points: int) -> Regression:
        seen = problem.seen(kernel.plain)
        bell = fitted_bell(seen, kernel.covariance, n_points)
        choice = NumberChoice(term=NumberTerm(plain=kernel.plain))
        return cls(kernel, bell, *with_shares(choice, seen, bell))


def chosen_regression(problem: NumberProblem, effort: Effort) -> Regression | None:
    """The regression that gains most; None where there is nothing to tune a kernel with."""
    known = problem.where(problem.known)
    kernel = tuned_kernel(known, effort.tuning_rows)
    if kernel is None:
        return None
    best = Regression.of(problem, kernel, POINTS)
    if best.gain >= effort.rival_gain:
        for rival in rival_kernels(known, kernel, effort.tuning_rows):
            other = Regression.of(problem, rival, POINTS)
            if other.gain > best.gain:
                best = other
    return _with_more_points(problem, best, effort)


def _with_more_points(problem: NumberProblem, best: Regression, effort: Effort) -> Regression:
    """As many points as pay."""
    gained = float("inf")
    for n_points, least in effort.further_points:
        share = best.choice.share
        enough = share >= _MORE_SHARE and gained >= least
        enough = enough and share * best.bell.unseen > _MORE_GAIN
        if not enough or len(problem.weights) < 2 * n_points:
            break
        larger = Regression.of(problem, best.kernel, n_points)
        gained = larger.gain - best.gain
        if gained > 0:
            best = larger
    return best
