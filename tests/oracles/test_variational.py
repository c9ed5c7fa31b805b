"""The variational mixture against scikit-learn's, whose updates are written another way."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.mixture import BayesianGaussianMixture

from kexpfam.base import variational


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("block", [2048, 100])
def test_it_is_that_of_scikit_learn(monkeypatch, block):
    monkeypatch.setattr(variational, "_BLOCK", block)
    generator = np.random.default_rng(0)
    rows = generator.gamma(2.0, size=(300, 3)) * [1.0, 0.1, 10.0] + 5
    rows[:, 2] += rows[:, 0] ** 2
    theirs = BayesianGaussianMixture(
        n_components=6, reg_covar=1e-4, max_iter=500, random_state=3
    ).fit(rows)
    labels = KMeans(6, n_init=1, random_state=np.random.RandomState(3)).fit(rows).labels_
    ours = variational.fit_variational(rows, labels, 6, np.cov(rows.T), 1e-4)
    assert theirs.converged_
    # Both stop after the same iteration: a different one would differ by 1e-3 and more.
    np.testing.assert_allclose(ours.weights, theirs.weights_, rtol=1e-8)
    np.testing.assert_allclose(ours.means, theirs.means_, rtol=1e-8)
    np.testing.assert_allclose(ours.covariances, theirs.covariances_, rtol=1e-7, atol=1e-10)
