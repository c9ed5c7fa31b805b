"""The size of averaged mixtures: what is foreseen against averages that are made, and rings."""

from __future__ import annotations

import numpy as np
import pytest

from kexpfam.base.average_search import _Trials, _whole_trials, choose_average
from kexpfam.base.averaged import AverageSearch, averaged_sizes, fit_average
from kexpfam.datasets import make_density
from kexpfam.progress import Progress


def trials(each, shrinkages=(60.0,)):
    """Log densities of one row of `each` for every size."""
    logs = {size: dict.fromkeys(shrinkages, own) for size, own in zip((2, 4, 8), each, strict=True)}
    return _Trials([], np.ones(each.shape[1]), 0, logs)


def test_an_average_of_as_many_is_foreseen_as_it_is(generator):
    each = generator.normal(size=(3, 50))
    found = trials(each).foreseen([2, 4, 8], 4, 60.0, 3)
    logs = np.log(np.exp(each).mean(axis=0))
    assert found.held_out == pytest.approx(logs.mean(), abs=1e-12)
    assert found.error == pytest.approx(logs.std(), abs=1e-12)
    assert (found.n_components, found.shrinkage) == (4, 60.0)


@pytest.mark.parametrize("spread", [0.2, 0.5])
def test_an_average_of_more_is_foreseen(spread, generator):
    each = generator.normal(scale=spread, size=(16, 40_000))
    found = trials(each[:3]).foreseen([2, 4, 8], 4, 60.0, 16)
    made = np.log(np.exp(each).mean(axis=0)).mean()
    # The first order in the variance: the next is its square. Three alone are a third of it short.
    assert found.held_out == pytest.approx(made, abs=0.25 * spread**4 + 4 * spread / 400)
    assert (
        found.held_out - trials(each[:3]).foreseen([2, 4, 8], 4, 60.0, 3).held_out > 0.1 * spread**2
    )


def test_a_size_that_stopped_earlier_gives_its_weakest_shrinkage():
    each = np.array([[0.0], [1.0], [2.0]])
    found = trials(each, (60.0, 20.0))
    found.logs[4][6.0] = np.array([5.0])
    logs = np.log(np.exp([0.0, 5.0, 2.0]).mean())
    assert found.foreseen([2, 4, 8], 4, 6.0, 3).held_out == pytest.approx(logs, abs=1e-12)


@pytest.mark.parametrize(("n_rows", "n_judges"), [(60, 60), (700, 420), (2000, 400)])
def test_folds_are_held_out_until_enough_rows_judge(n_rows, n_judges, generator):
    rows = generator.standard_normal((n_rows, 2))
    found = _whole_trials(rows, np.ones(n_rows), np.arange(n_rows) % 5, 0, 300)
    assert sum(len(trial.counts) for trial in found) == n_judges
    for table, judged, counts in found:
        assert len(judged.rows) == len(counts)
        together = np.concatenate([table.rows, judged.rows])
        np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(rows, axis=0))


def test_sizes_are_half_once_and_twice_and_have_rows_enough():
    np.testing.assert_array_equal(averaged_sizes(8, 4, 1000), [8, 4, 16, 8])
    np.testing.assert_array_equal(averaged_sizes(8, 3, 100), [8, 4, 12])


@pytest.mark.usefixtures("users_mixtures")
def test_a_ring_has_components_enough():
    """Four around a ring differ from four others by a turn, which looks like much to gain."""
    density = make_density("ring")
    rows, fresh = density.sample(1000, random_state=108), density.sample(2000, random_state=5)
    center, scale = rows.mean(axis=0), rows.std(axis=0)
    white, ones = (rows - center) / scale, np.ones(1000)
    search = choose_average(white, ones, np.arange(1000) % 5, 108, Progress())

    def likelihood(search):
        found = fit_average(white, ones, search, 108).density()
        return found.log_density((fresh - center) / scale).mean()

    # On 2000 fresh rows differences of log densities are known to about 0.01.
    few = AverageSearch(5, 2.0, 0.0, 0.0)
    assert likelihood(search) > likelihood(few) + 0.1
    truth = density.log_density(fresh).mean() + np.log(scale).sum()
    assert likelihood(search) > truth - 0.1
