"""Orders of a chain's numbers: what is guessed, what is proposed, and what is taken."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from kexpfam import KernelChain
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.layout import layout_of
from kexpfam.pipeline import chain as chain_pipeline
from kexpfam.pipeline.chain_ground import all_rows_ground, distinct_rows
from kexpfam.progress import Progress
from kexpfam.tuning.number_choices import THOROUGH
from kexpfam.tuning.number_order import promising_order, smooth_gain

N_ROWS = 300


def function_first(generator, n_rows=N_ROWS):
    """A column that follows from three others, in front of them."""
    inputs = generator.uniform(-1, 1, (n_rows, 3))
    target = np.sin(3 * inputs[:, 0]) + inputs[:, 1] * inputs[:, 2]
    return np.column_stack([target + 0.05 * generator.standard_normal(n_rows), inputs])


def rows_of(table, *kinds):
    kinds = kinds or (ColumnKind("real"),) * table.shape[1]
    return distinct_rows(layout_of(kinds), table, np.ones(len(table)), 0)[0]


def test_gains_are_differences_of_evidence(generator):
    table = function_first(generator, 60)
    table = (table - table.mean(axis=0)) / table.std(axis=0)
    inputs, design = table[:, 1:], np.column_stack([np.ones(60), table[:, 1:]])
    ridge = np.eye(4) * 0.06
    residuals = table[:, 0] - design @ np.linalg.solve(
        design.T @ design + ridge, design.T @ table[:, 0]
    )

    def likeliest(covariance):
        """Per row, over the scale of a normal distribution."""

        def of_scale(log_scale):
            scaled = np.exp(log_scale) * covariance
            return -multivariate_normal(np.zeros(60), scaled).logpdf(residuals)

        return -minimize_scalar(of_scale, bounds=(-20, 5), method="bounded").fun / 60

    distances = (inputs[:, None] - inputs) ** 2
    kernels = [
        np.exp(-distances.sum(axis=2) / (2 * scale**2 * 3)) for scale in (0.25, 0.5, 1.0, 2.0)
    ]
    for scale in (0.15, 0.3, 0.6):
        parts = [np.exp(-distances[:, :, place] / (2 * scale**2)) for place in range(3)]
        pairs = [one * other for one, other in combinations(parts, 2)]
        kernels += [sum(parts) / 3, sum(pairs) / 3]
    evidence = [
        likeliest(share * kernel + (1 - share) * np.eye(60))
        for kernel in kernels
        for share in (0.5, 0.9, 0.99, 0.999)
    ]
    # The search for the scale ends a few digits before rounding.
    found = smooth_gain(table, 0, [1, 2, 3])
    assert found == pytest.approx(max(evidence) - likeliest(np.eye(60)), abs=1e-6)
    assert found > 0.3
    assert smooth_gain(table, 0, []) == 0


def test_what_follows_from_others_is_proposed_last(generator):
    assert promising_order(rows_of(function_first(generator))) == [1, 2, 3, 0]


def test_a_function_of_one_of_many_columns_is_found_however_it_turns(generator):
    inputs = generator.standard_normal((N_ROWS, 6))
    target = np.sin(6 * inputs[:, 2]) + 0.1 * generator.standard_normal(N_ROWS)
    assert promising_order(rows_of(np.column_stack([target, inputs])))[-1] == 0


def test_nothing_is_proposed_where_no_order_is_better(generator):
    table = generator.standard_normal((N_ROWS, 4)) @ generator.standard_normal((4, 4))
    assert promising_order(rows_of(table)) is None
    assert promising_order(rows_of(function_first(generator)[:, [1, 2, 3, 0]])) is None
    assert promising_order(rows_of(function_first(generator, 30))) is None


def test_numbers_with_masses_stay_in_front(generator):
    table = function_first(generator)
    table[:, 1] = generator.poisson(3, N_ROWS)
    table[:, 0] += np.sin(table[:, 1])
    kinds = [ColumnKind("real"), ColumnKind("count", (0.0, np.inf)), *[ColumnKind("real")] * 2]
    # Places among the layout's numbers, of which the count is the first.
    assert promising_order(rows_of(table, *kinds)) == [0, 2, 3, 1]


def test_another_order_leaves_the_base_density_alone(generator):
    rows = rows_of(function_first(generator))
    ground = all_rows_ground(rows, "auto", 0, Progress())
    order = [2, 0, 3, 1]
    turned, other = ground.in_order(order), rows.in_order(order)
    logs, others = (
        one.base.density(of.layout, one.judged_mixture).log_density(
            of.layout.join(of.parts.codes, of.parts.numbers)
        )
        for one, of in ((ground, rows), (turned, other))
    )
    # Cholesky's factors of the same covariances in another order, rounded.
    np.testing.assert_allclose(others, logs, atol=1e-9)


def test_the_order_that_gains_is_taken_and_shown(generator, monkeypatch):
    table, fresh = function_first(generator), function_first(generator)
    found = KernelChain(columns="real", random_state=0).fit(table)
    assert found.order_ == [1, 2, 3, 0]
    assert list(found.sample(3, random_state=0).shape) == [3, 4]
    monkeypatch.setattr(chain_pipeline, "promising_order", lambda rows: None)
    given = KernelChain(columns="real", random_state=0).fit(table)
    assert given.order_ == [0, 1, 2, 3]
    # 0.9 nats were seen.
    assert found.score(fresh) > given.score(fresh) + 0.4


def test_an_order_that_gains_nothing_is_not_taken(generator, monkeypatch):
    table = function_first(generator)[:, [1, 2, 3, 0]]
    monkeypatch.setattr(chain_pipeline, "promising_order", lambda rows: [3, 0, 1, 2])
    assert KernelChain(columns="real", random_state=0).fit(table).order_ == [0, 1, 2, 3]


def test_what_is_known_of_columns_that_stay_is_what_would_be_found(generator):
    table = np.column_stack([generator.standard_normal(N_ROWS), function_first(generator)])
    table[:, 1] = np.sin(3 * table[:, 0]) + 0.05 * generator.standard_normal(N_ROWS)
    rows = rows_of(table)
    ground, order = all_rows_ground(rows, "auto", 0, Progress()), [0, 1, 3, 4, 2]
    as_it_is = chain_pipeline._Trial.of(ground, rows, THOROUGH, Progress())
    turned = ground.in_order(order), rows.in_order(order), THOROUGH, Progress()
    anew, known = (chain_pipeline._Trial.of(*turned, first) for first in (None, as_it_is.first(2)))
    assert known.gain == pytest.approx(anew.gain, abs=1e-6)
    assert known.choices.numbers[1] is as_it_is.choices.numbers[1]
    assert anew.choices.numbers[1].gain > 0.1


def test_a_column_that_is_missing_in_nearly_all_rows_stays_where_it_is(generator):
    """Where gains are guessed from some of the rows, it may have no value at all."""
    table = np.column_stack([function_first(generator, 1200), np.full(1200, np.nan)])
    table[::300, 4] = [1.0, 2.0, 3.0, 4.0]
    kinds = *(ColumnKind("real"),) * 4, ColumnKind("real", missing=True)
    assert promising_order(rows_of(table, *kinds)) == [1, 2, 3, 4, 0]
    model = KernelChain(random_state=0).fit(table)
    assert np.isfinite(model.score_samples(table[:3])).all()
