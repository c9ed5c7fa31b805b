"""Which kernel a regression has: rivals are tried where it gains much, and the best one is kept."""

from dataclasses import dataclass

import numpy as np
import pytest

from kexpfam.base.covariance import Kind
from kexpfam.base.evidence import tune_covariance
from kexpfam.tuning import regressions
from kexpfam.tuning.kernels import TunedKernel, rival_kernels
from kexpfam.tuning.number_choices import FAST

N_ROWS = 240


@pytest.fixture
def problem(number_problem, generator):
    """A kink, and a straight line in inputs as they are, which mapped ones bend."""
    plain = generator.uniform(-2.0, 2.0, (N_ROWS, 2))
    mapped = np.sinh(1.5 * plain)
    targets = np.abs(plain[:, 0]) + plain[:, 1] + 1e-3 * generator.standard_normal(N_ROWS)
    return number_problem(mapped / mapped.std(axis=0), targets / targets.std(), plain)


@dataclass
class Beginning:
    """Stands for what evidence chooses: a kernel of this kind, of mapped inputs."""

    kind: Kind

    def __call__(self, problem, most_rows):
        relative = np.ones(len(problem.targets))
        found = tune_covariance(self.kind, problem.inputs, problem.targets, relative, None, 20)
        return TunedKernel(*found)


def test_rivals_differ_in_kind_or_inputs(problem):
    kernel = Beginning("rbf")(problem, 320)
    found = [(one.covariance.kind, one.plain) for one in rival_kernels(problem, kernel, 320)]
    assert found == [("matern", False), ("rbf", True)]
    alike = problem._replace(plain_inputs=problem.inputs)
    assert len(list(rival_kernels(alike, kernel, 320))) == 1


@pytest.mark.parametrize("kind", ["rbf", "matern"])
def test_the_rival_that_predicts_best_is_kept(kind, problem, monkeypatch):
    monkeypatch.setattr(regressions, "tuned_kernel", Beginning(kind))
    alone = regressions.chosen_regression(problem, FAST._replace(rival_gain=np.inf))
    best = regressions.chosen_regression(problem, FAST._replace(rival_gain=0.0))
    assert not alone.kernel.plain
    assert best.kernel.plain
    assert best.choice.term.plain
    # The line bends by far more than its noise of a thousandth.
    assert best.gain > alone.gain + 0.5
    rivals = rival_kernels(problem, alone.kernel, FAST.tuning_rows)
    each = [regressions.Regression.of(problem, rival, 256).gain for rival in rivals]
    assert best.gain == max(each)


def test_rivals_are_tried_only_where_much_is_gained(problem, monkeypatch):
    monkeypatch.setattr(regressions, "tuned_kernel", Beginning("rbf"))
    alone = regressions.chosen_regression(problem, FAST._replace(rival_gain=np.inf))
    above, below = (
        regressions.chosen_regression(problem, FAST._replace(rival_gain=alone.gain + more))
        for more in (1e-6, -1e-6)
    )
    assert above.gain == alone.gain
    assert below.gain > alone.gain


def test_without_enough_rows_there_is_no_regression(problem):
    assert regressions.chosen_regression(problem.where(slice(0, 30)), FAST) is None
