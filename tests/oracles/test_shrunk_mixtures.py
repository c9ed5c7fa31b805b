"""Shrunk mixtures in single precision against double precision written out row by row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from kexpfam.base.clusters import Start, clusters_of
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.monomial_tables import JoinedMixtures, MonomialTable, SeveralTables
from kexpfam.base.shrunk import _maximized, mixture_path


@pytest.fixture
def table(generator):
    rows = np.concatenate(
        [generator.normal(size=(300, 3)), generator.normal(2.0, [0.3, 1.0, 0.1], size=(200, 3))]
    )
    return MonomialTable(rows, generator.uniform(0.5, 2.0, 500))


@pytest.fixture
def mixture():
    covariances = np.array([np.diag([1.0, 1.5, 0.7]), 0.3 * np.eye(3) + 0.1])
    return GaussianMixtureDensity(
        np.array([0.4, 0.6]), np.array([[0, 0, 0], [2.0, 2, 2]]), covariances
    )


def test_one_step_is_that_of_the_formula(table, mixture):
    rows, weights, shrinkage = table.rows, table.weights, 7.0
    densities = np.stack(
        [
            share * multivariate_normal(mean, covariance).pdf(rows)
            for share, mean, covariance in zip(
                mixture.weights, mixture.means, mixture.covariances, strict=True
            )
        ]
    )
    (likelihood,), sums, *_ = table.expected(JoinedMixtures.of([mixture]))
    # A log density of size ten in single precision.
    assert likelihood == pytest.approx(
        np.average(np.log(densities.sum(axis=0)), weights=weights), abs=1e-5
    )
    members = densities / densities.sum(axis=0) * weights / weights.sum()
    count = weights.sum() ** 2 / (weights**2).sum()
    masses = count * members.sum(axis=1)
    means = np.stack([np.average(rows, axis=0, weights=own) for own in members])
    scatters = np.stack([np.cov(rows.T, aweights=own, ddof=0) for own in members])
    within = np.average(scatters, axis=0, weights=masses)
    (step,) = _maximized(sums, (2,), np.array([table.count]), shrinkage, 0.0).apart()
    np.testing.assert_allclose(step.means, means, atol=1e-5)
    for found, mass, scatter in zip(step.covariances, masses, scatters, strict=True):
        expected = (mass * scatter + shrinkage * within) / (mass + shrinkage)
        # The floor is 1e-4 and a little for means that are not at zero.
        np.testing.assert_allclose(found, expected + 1e-4 * np.eye(3), atol=3e-5)


def test_starts_do_not_touch_each_other(table):
    starts = [Start(2, 0), Start(5, 1), Start(3, 2)]
    together = next(mixture_path(table, starts, [6.0]))
    for start, mixture in zip(starts, together, strict=True):
        (alone,) = next(mixture_path(table, [start], [6.0]))
        # Other shapes of matrix products round otherwise, and some dozen steps carry it on.
        np.testing.assert_allclose(mixture.means, alone.means, atol=1e-3)
        np.testing.assert_allclose(mixture.covariances, alone.covariances, atol=1e-3)


def test_tables_do_not_touch_each_other(table, generator):
    """Of unequal lengths: the shorter ones are filled up with rows of no weight."""
    other = MonomialTable(generator.normal(size=(200, 3)), generator.uniform(0.5, 2.0, 200))
    part = MonomialTable(table.rows[:350], table.weights[:350])
    tables, start = [table, other, part], Start(4, 1)
    together = mixture_path(SeveralTables(tables), [start] * 3, [6.0, 0.6])
    alone = zip(*(mixture_path(own, [start], [6.0, 0.6]) for own in tables), strict=True)
    for mixtures, expected in zip(together, alone, strict=True):
        for mixture, (one,) in zip(mixtures, expected, strict=True):
            # As above; a step more or less is worth 3e-3 nats at the most.
            np.testing.assert_allclose(mixture.means, one.means, atol=1e-3)
            np.testing.assert_allclose(mixture.covariances, one.covariances, atol=1e-3)


def test_tables_that_are_too_large_to_stand_side_by_side_are_looked_at_one_by_one(
    table, mixture, monkeypatch
):
    tables = SeveralTables([table, MonomialTable(table.rows[:350], table.weights[:350])])
    joined, numbers = JoinedMixtures.of([mixture, mixture]), np.arange(2)
    together = tables.expected(joined, numbers)
    monkeypatch.setattr("kexpfam.base.monomial_tables._MOST_TOGETHER", 100)
    apart = tables.expected(joined, numbers)
    np.testing.assert_allclose(apart.likelihoods, together.likelihoods, atol=1e-5)
    np.testing.assert_allclose(apart.sums, together.sums, atol=1e-5)


def test_clusters_far_apart_are_found_from_every_start(generator):
    places = 100.0 * np.arange(5)[:, None] * np.ones(2)
    rows = np.repeat(places, 30, axis=0) + generator.normal(size=(150, 2))
    weights = generator.uniform(0.5, 2.0, 150)
    for centers, labels in clusters_of(rows, weights, [Start(5, 0), Start(5, 1)]):
        for first in range(0, 150, 30):
            own = slice(first, first + 30)
            assert len(set(labels[own])) == 1
            mean = np.average(rows[own], axis=0, weights=weights[own])
            np.testing.assert_allclose(centers[labels[first]], mean)


def test_narrow_clusters_far_away_keep_positive_covariances():
    generator = np.random.default_rng(1)
    rows, places = generator.normal(size=(2000, 3)), 100 * generator.normal(size=(10, 3))
    rows[:400] = places[np.arange(400) % 10] + 1e-5 * generator.normal(size=(400, 3))
    table = MonomialTable(rows, np.ones(len(rows)))
    for mixtures in mixture_path(table, [Start(16, 0)], [60.0, 2.0, 1e-3, 1e-6]):
        assert np.linalg.eigvalsh(mixtures[0].covariances).min() > 0


def test_tables_of_many_columns_have_blocks_too(generator):
    rows = generator.normal(size=(40, 700))
    blocks = [monomials for _, monomials in MonomialTable(rows, np.ones(40)).blocks()]
    assert [len(block) for block in blocks] == [16, 16, 8]
    np.testing.assert_allclose(np.concatenate(blocks)[:, 1:701], rows, rtol=1e-7)
