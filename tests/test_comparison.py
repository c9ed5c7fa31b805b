"""Two tables side by side: what moved is found and named, divergences are near the truth."""

from __future__ import annotations

import json
import re

import matplotlib
import numpy as np
import pandas as pd
import polars as pl
import pytest

import kexpfam
from kexpfam import compare

matplotlib.use("agg")


def orders(n_rows, seed):
    """Numbers, counts, words and truth values that depend on each other."""
    generator = np.random.default_rng(seed)
    size = generator.gamma(2.0, 1.0, n_rows)
    return pd.DataFrame(
        {
            "price": np.exp(0.5 * size + 0.3 * generator.standard_normal(n_rows)),
            "size": size,
            "visits": generator.poisson(3, n_rows),
            "city": generator.choice(["north", "south", "west"], n_rows, p=[0.5, 0.3, 0.2]),
            "member": generator.random(n_rows) < 0.4,
        }
    )


def moved(second, options=None):
    return compare(
        orders(400, 0), second, divergence=False, n_permutations=199, random_state=0,
        **(options or {}),
    )  # fmt: skip


def test_nothing_is_found_where_nothing_moved():
    found = moved(orders(300, 1))
    assert not found.differ
    assert found.n_rows == (400, 300)
    assert "No sign that the tables differ" in str(found)


def test_columns_that_moved_are_named_with_what_they_were():
    second = orders(300, 1)
    generator = np.random.default_rng(2)
    second["visits"] = second["visits"] + generator.integers(0, 2, 300)
    second.loc[generator.random(300) < 0.3, "city"] = "east"
    second.loc[generator.random(300) < 0.1, "size"] = np.nan
    found = moved(second)
    assert {one.name for one in found.moved_columns} == {"visits", "city", "size"}
    by_name = {one.name: one for one in found.columns}
    assert "median 3 → " in by_name["visits"].in_words
    assert "east 0 % →" in by_name["city"].in_words
    assert "(new)" in by_name["city"].in_words
    assert by_name["size"].in_words.startswith("missing 0 % → ")
    assert by_name["size"].missing[1] == second["size"].isna().mean()
    assert found.notes == ("Only B has city = east.",)
    shares = by_name["city"].shares[1][by_name["city"].bins.index("north")]
    assert shares == pytest.approx((second["city"] == "north").mean())


def test_distances_are_those_of_kolmogorov_and_of_total_variation():
    first, second = orders(400, 0), orders(300, 1)
    by_name = {one.name: one for one in moved(second).columns}
    grid = np.concatenate([first["price"], second["price"]])
    gaps = [(first["price"] <= at).mean() - (second["price"] <= at).mean() for at in grid]
    assert by_name["price"].distance == pytest.approx(np.abs(gaps).max())
    shares = [table["city"].value_counts(normalize=True) for table in (first, second)]
    assert by_name["city"].distance == pytest.approx((shares[0] - shares[1]).abs().sum() / 2)


def test_a_pair_that_moved_is_named_and_its_columns_are_not():
    second = orders(400, 1)
    second["price"] = np.random.default_rng(2).permutation(second["price"].to_numpy())
    found = moved(second)
    assert not found.moved_columns
    assert [set(one.names) for one in found.moved_pairs] == [{"price", "size"}]
    pair = found.moved_pairs[0]
    assert pair.measure == "rank correlation"
    ranks = orders(400, 0)[["price", "size"]].corr("spearman").iloc[0, 1]
    assert pair.strengths[0] == pytest.approx(ranks)


def test_what_follows_from_a_column_that_moved_is_no_change_of_the_pair():
    # The other column depends on it in the same way: the ratio of the densities is a function of
    # one column, and has no interaction.
    generator = np.random.default_rng(0)
    tables = []
    for shift, n_rows in ((0.0, 3000), (0.7, 1000)):
        cause = shift + generator.standard_normal(n_rows)
        tables.append(np.column_stack([cause, cause + generator.standard_normal(n_rows)]))
    found = compare(*tables, divergence=False, n_permutations=199, random_state=0)
    assert len(found.moved_columns) == 2
    assert not found.moved_pairs


def test_three_columns_that_moved_together_are_seen():
    first, second = np.random.default_rng(0).standard_normal((2, 500, 3))
    second[:, 2] = np.abs(second[:, 2]) * np.sign(second[:, 0] * second[:, 1])
    found = compare(first, second, divergence=False, n_permutations=199, random_state=0)
    assert found.differ
    assert not found.moved_columns
    assert not found.moved_pairs
    assert found.groups["triples"] == pytest.approx(1 / 200)


def test_divergences_are_near_the_truth():
    # N(0, 1) and N(1, 1): half a nat both ways; shares 0.5 and 0.8 of a truth value.
    generator = np.random.default_rng(0)
    tables = []
    for mean, share in ((0.0, 0.5), (1.0, 0.8)):
        numbers, truths = mean + generator.standard_normal(160), generator.random(160) < share
        tables.append(pd.DataFrame({"x": numbers, "yes": truths}))
    found = compare(*tables, n_permutations=19, random_state=0)
    assert found.divergence is not None

    def of_shares(p, q):
        return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))

    got, truth = found.divergence, 0.5 + of_shares(0.5, 0.8)
    assert abs(got.first_from_second - truth) < 3 * got.first_error
    assert abs(got.second_from_first - 0.5 - of_shares(0.8, 0.5)) < 3 * got.second_error
    assert got.first_error < 0.3
    assert got.n_training == 80


def test_tables_of_any_library_and_order_of_columns_are_the_same():
    first, second = orders(120, 0), orders(100, 1)
    options = {"divergence": False, "n_permutations": 39, "random_state": 0}
    usual = compare(first, second, **options)
    turned = compare(first, second[second.columns[::-1]], **options)
    assert turned == usual
    arrows = compare(pl.from_pandas(first), pl.from_pandas(second), **options)
    assert arrows.p_value == usual.p_value
    assert compare(first, second, exclude="city", **options).columns[0].name != "city"


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        (lambda t: t.drop(columns="city"), {}, "B has no column 'city'. Compare the others: --exc"),
        (lambda t: t.assign(extra=1), {}, "A has no column 'extra'"),
        (lambda t: t, {"columns": ["pric"]}, "Did you mean 'price'?"),
        (lambda t: t, {"kinds": {"sity": "category"}}, "Did you mean 'city'?"),
        (lambda t: t.assign(size="large"), {}, "'size' holds numbers in A and words such as"),
        (lambda t: t.head(1), {}, "B must have at least two rows"),
        (lambda t: t.to_numpy(object), {}, "Give two of one kind"),
        (lambda t: t, {"level": 5}, "level must be a number between 0 and 1"),
    ],
)
def test_what_cannot_be_compared_is_said(change, options, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        moved(change(orders(50, 1)), options)


def test_unlike_columns_are_compared_as_categories_on_request():
    first, second = orders(60, 0), orders(60, 1)
    second["visits"] = second["visits"].astype(str).where(second.index > 5, "n/a")
    options = {"divergence": False, "n_permutations": 39, "random_state": 0}
    found = compare(first, second, kinds={"visits": "category"}, **options)
    (visits,) = (one for one in found.columns if one.name == "visits")
    assert "3" in visits.bins
    assert visits.kind == "category"


def test_a_column_without_values_in_one_table_has_moved():
    second = orders(200, 1)
    second["size"] = np.nan
    found = moved(second)
    assert found.moved_columns[0].name == "size"
    assert found.moved_columns[0].missing == (0.0, 1.0)


def test_many_pairs_and_rows_are_thinned_with_a_note(monkeypatch):
    monkeypatch.setattr("kexpfam.comparison.two_tables._MOST_PAIRS", 3)
    monkeypatch.setattr("kexpfam.comparison.two_tables._MOST_ROWS", 60)
    monkeypatch.setattr("kexpfam.comparison.two_tables._FEWEST_OF_MANY", 60)
    found = moved(orders(70, 1))
    assert len(found.pairs) == 3
    assert any("at most 60 rows" in note for note in found.notes)
    assert any("3 were tested" in note for note in found.notes)


def test_small_tables_have_a_p_value_and_no_divergence():
    found = compare([[0.0], [1.0]], [[5.0], [6.0], [7.0]], random_state=0)
    # One of ten ways to choose two of five rows, or its mirror image.
    assert found.p_value >= 0.1
    assert found.divergence is None
    assert "Divergences need at least" in found.notes[0]


def test_the_record_is_json_and_the_picture_has_a_panel_for_each_column():
    found = moved(orders(100, 1))
    record = json.loads(json.dumps(found.to_dict()))
    assert record["differ"] is False
    assert {one["name"] for one in record["columns"]} == set(orders(2, 0).columns)
    panels = kexpfam.plotting.plot_comparison(found, 2).ravel()
    assert len(panels) == 3
    assert panels[0].get_title().startswith(found.columns[0].name)
    assert [text.get_text() for text in panels[0].get_legend().get_texts()] == ["A", "B"]
