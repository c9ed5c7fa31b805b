"""The bandwidth is the one that scikit-learn's own search finds."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KernelDensity

from kexpfam.metrics import cross_validated_kernel_density, kernel_density


@pytest.mark.parametrize("n_columns", [1, 3])
def test_the_bandwidth_is_that_of_a_grid_search(n_columns, generator, monkeypatch):
    rows = generator.standard_normal((83, n_columns)) ** 3
    bandwidths = rows.std(axis=0).mean() * np.geomspace(0.03, 1.0, 25)
    search = GridSearchCV(KernelDensity(), {"bandwidth": bandwidths}).fit(rows)
    # A few rows at a time.
    monkeypatch.setattr(kernel_density, "_AT_ONCE", 300)
    found = cross_validated_kernel_density(rows)
    assert found.bandwidth == pytest.approx(search.best_params_["bandwidth"])
    np.testing.assert_allclose(found.score_samples(rows), search.score_samples(rows))
