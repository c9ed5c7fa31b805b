"""Distances to the nearest training row: by hand, and of copies and independent rows."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

from kexpfam.metrics import nearest_row_distances, privacy


def people(n_rows, seed):
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": generator.normal(40, 10, n_rows),
            "height": generator.normal(170, 10, n_rows),
            "city": generator.choice(["north", "south", "west"], n_rows),
            "visits": generator.poisson(3, n_rows).astype(float),
        }
    )
    table.loc[generator.random(n_rows) < 0.1, "age"] = np.nan
    return table


def test_distances_by_hand():
    # The interquartile range of 0, 1, 2, 3, 4 is 2, which is 1.349 units.
    training = pd.DataFrame({"x": [0.0, 1, 2, 3, 4], "c": ["a", "a", "a", "b", "b"]})
    rows = pd.DataFrame({"c": ["b", "a", "new", None], "x": [4.0, 2.5, 0.0, np.nan]})
    unit = 2 / 1.349
    expected = [0, 0.5 / unit / 2, 1 / 2, 1]
    np.testing.assert_allclose(nearest_row_distances(rows, training), expected)
    polars = nearest_row_distances(pl.from_pandas(rows), pl.from_pandas(training))
    np.testing.assert_allclose(polars, expected)


def test_two_holes_are_alike_and_rare_words_are_not():
    training = pd.DataFrame({"x": [1.0, 2, 3, np.nan] * 10, "c": [*["a"] * 38, "b", "d"]})
    rows = pd.DataFrame({"x": [np.nan, 3.0], "c": ["a", "e"]})
    np.testing.assert_allclose(nearest_row_distances(rows, training), [0, 0.5])


def test_copies_are_flagged():
    training, held_out = people(600, 0), people(600, 1)
    found = privacy(pd.concat([training[:200], people(200, 2)]), training, held_out)
    assert found.are_near
    # Two hundred of the four hundred are copies, and fresh rows with their real numbers never are.
    assert found.copies == 0.5
    assert found.held_out_copies == 0
    # Half of them nearer than all, the others nearer than half: three quarters.
    assert found.nearer == pytest.approx(0.75, abs=0.05)
    assert found.below_low > 0.5
    assert "may repeat rows" in str(found)


def test_noise_on_copies_is_seen():
    training, held_out = people(600, 0), people(600, 1)
    blurred = training[:300].assign(age=lambda table: table["age"] + 0.01)
    found = privacy(blurred, training, held_out)
    # Rows without an age, a tenth, are copies still.
    assert found.copies == pytest.approx(training[:300]["age"].isna().mean())
    assert found.nearer > 0.9


def test_independent_rows_look_like_held_out_rows():
    near = [privacy(*(people(300, 3 * seed + one) for one in range(3))) for seed in range(10)]
    mean = np.mean([found.nearer for found in near])
    error = np.mean([found.nearer_error for found in near])
    # Ten tables, whose errors the figures give: four standard errors of their mean.
    assert abs(mean - 0.5) < 4 * error / np.sqrt(10)
    assert not any(found.are_near for found in near)
    assert 0.5 < np.std([found.nearer for found in near]) / error < 2
    assert abs(np.mean([found.below_low for found in near]) - 0.05) < 0.03


def test_few_rows_are_looked_at_of_many_and_the_record_is_json():
    tables = [np.random.default_rng(seed).standard_normal((500, 2)) for seed in range(3)]
    found = privacy(*tables, max_rows=100, random_state=0)
    assert found.n_rows == (100, 500, 100)
    assert json.loads(json.dumps(found.to_dict()))["are_near"] is False


def test_rows_that_were_not_held_out_are_noticed():
    table = people(100, 0)
    assert (
        "100% of the held-out rows equal a training row"
        in privacy(people(100, 1), table, table).in_words
    )


def test_missing_columns_are_named():
    with pytest.raises(ValueError, match="held_out has no column 'city'"):
        privacy(people(9, 0), people(9, 1), people(9, 2).drop(columns="city"))
    with pytest.raises(ValueError, match="must be a data frame"):
        privacy(people(9, 0), np.zeros((9, 4)), people(9, 2))
