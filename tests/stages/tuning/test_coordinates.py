"""Maps of the columns are chosen by rows that had no part in them."""

import numpy as np
import pytest

from kexpfam.data.standardize import Standardizer
from kexpfam.tuning.coordinates import choose_coordinates


def chosen(rows):
    spread = Standardizer(rows.mean(axis=0), rows.std(axis=0))
    folds = np.arange(len(rows)) % 5
    return choose_coordinates(rows, np.ones(len(rows)), folds, spread, "auto", 0)[1]


@pytest.mark.parametrize("n_rows", [60, 200])
def test_normal_columns_stay_as_they_are(n_rows):
    generator = np.random.default_rng(0)
    kinds = [chosen(generator.standard_normal((n_rows, 4))) for _ in range(10)]
    # A wrong choice has to win by a standard error: about one chance in six for each map.
    assert kinds.count(None) >= 7
    assert kinds.count("gaussianize") <= 1


def test_skewed_columns_are_powered_and_edges_are_gaussianized():
    generator = np.random.default_rng(0)
    assert chosen(generator.gamma(1.0, size=(300, 2))) in ("yeo_johnson", "gaussianize")
    assert chosen(generator.random((800, 2))) == "gaussianize"
