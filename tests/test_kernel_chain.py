"""`KernelChain` as users meet it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import wasserstein_distance
from sklearn.exceptions import NotFittedError
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import check_estimator

from kexpfam import KernelChain, load


def make_table(n_rows=240, seed=0):
    """Two kinds of fish: everything but tags depends on the kind, and weight on length."""
    generator = np.random.default_rng(seed)
    kind = generator.choice(["perch", "pike"], n_rows, p=[0.6, 0.4])
    length = np.where(kind == "pike", 60.0, 25.0) + 5.0 * generator.standard_normal(n_rows)
    weight = 0.01 * length**2.5 * np.exp(0.1 * generator.standard_normal(n_rows))
    eggs = generator.poisson(np.where(kind == "pike", 6.0, 2.0))
    parasites = np.where(generator.random(n_rows) < 0.5, 0.0, generator.exponential(2.0, n_rows))
    table = pd.DataFrame(
        {
            "kind": pd.Categorical(kind),
            "water": np.where(
                generator.random(n_rows) < np.where(kind == "pike", 0.9, 0.2), "deep", "shallow"
            ),
            "length": length,
            "weight": weight,
            "eggs": eggs,
            "parasites": parasites,
            "tagged": generator.random(n_rows) < 0.2,
        }
    )
    table.loc[generator.random(n_rows) < 0.15, "length"] = np.nan
    return table


@pytest.fixture(scope="module")
def table():
    return make_table()


@pytest.fixture(scope="module")
def model(table):
    return KernelChain(random_state=0).fit(table)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_the_whole_battery():
    results = check_estimator(KernelChain(random_state=0), on_fail=None)
    statuses = Counter(result["status"] for result in results)
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed, failed
    assert statuses["passed"] >= 40, statuses


def test_kinds_are_shown(model):
    shown = {name: str(kind) for name, kind in model.column_kinds_.items()}
    assert shown["kind"] == "category; 2 levels: perch, pike"
    assert shown["length"] == "real; missing values"
    assert shown["eggs"] == "count"
    assert shown["parasites"] == "bounded; x ≥ 0; atoms at 0"
    assert shown["tagged"] == "boolean; 2 levels: False, True"


def test_the_chain_pays_on_new_rows(model):
    new = make_table(400, seed=1)
    logs = model.score_samples(new)
    base = model.density_.untilted().log_density(model.fitted_.table.codes(new))
    assert model.has_tilt_
    assert model.gain_ > 3 * model.gain_error_
    assert np.mean(logs - base) > 0.5 * model.gain_
    assert "gains" in model.health_.in_words


def test_without_a_tilt_it_is_the_base_density(model, table):
    plain = KernelChain(tilt=None, random_state=0).fit(table)
    assert not plain.has_tilt_
    assert np.isnan(plain.gain_)
    assert "none was asked for" in plain.health_.in_words
    assert plain.health_.comparison.n_rows == model.health_.comparison.n_rows
    new = make_table(200, seed=1)
    base = model.density_.untilted().log_density(model.fitted_.table.codes(new))
    np.testing.assert_allclose(plain.score_samples(new), base, rtol=1e-9)


def test_a_fast_fit_keeps_the_order_and_has_few_points():
    generator = np.random.default_rng(0)
    a, b = generator.uniform(-1, 1, (2, 1600))
    waves = np.array([np.sin(9 * a) * np.cos(7 * b), np.cos(7 * a) * np.sin(9 * b)])
    y, z = waves + 0.05 * generator.standard_normal((2, 1600))
    rows = pd.DataFrame({"y": y, "a": a, "b": b, "z": z})

    def points(model):
        locations = [term.location for term in model.density_.number_terms]
        return max(len(location.points) for location in locations if location is not None)

    slow, fast = (
        KernelChain(tilt=tilt, random_state=0).fit(rows[200:]) for tilt in ("auto", "fast")
    )
    assert sorted(slow.order_[:2]) == ["a", "b"]
    assert fast.order_ == ["y", "a", "b", "z"]
    assert points(slow) > 256 >= points(fast)
    assert slow.score(rows[:200]) > fast.score(rows[:200])


def test_score_is_the_mean_and_terms_add_up(model, table):
    logs = model.score_samples(table)
    assert model.score(table) == pytest.approx(logs.mean())
    terms = model.contributions(table)
    assert list(terms.columns) == list(table.columns)
    np.testing.assert_allclose(terms.sum(axis=1), logs, rtol=1e-9)
    assert (terms["length"][table["length"].isna()] == 0).all()
    _, errors = model.score_samples(table, return_error=True)
    assert errors.max() < 1e-5


def test_a_row_is_judged_alone_and_in_any_order(model, table):
    together = model.score_samples(table)
    alone = np.concatenate([model.score_samples(table.iloc[[row]]) for row in range(12)])
    np.testing.assert_allclose(together[:12], alone, rtol=1e-9)
    order = np.random.default_rng(0).permutation(len(table))
    np.testing.assert_allclose(model.score_samples(table.iloc[order]), together[order], rtol=1e-9)


def test_rows_in_any_order_and_weights_as_repetitions_give_the_same_model(table):
    table = table.iloc[:110]
    weights = np.random.default_rng(0).integers(0, 3, len(table))
    weighted = KernelChain(random_state=0).fit(table, sample_weight=weights)
    repeated = table.iloc[np.repeat(np.arange(len(table)), weights)]
    repeated = repeated.sample(frac=1.0, random_state=0)
    other = KernelChain(random_state=0).fit(repeated)
    assert weighted.column_kinds_ == other.column_kinds_
    np.testing.assert_allclose(weighted.score_samples(table), other.score_samples(table), rtol=1e-7)


def test_draws_come_as_the_table_came(model, table):
    draws = model.sample(300, random_state=0)
    pd.testing.assert_series_equal(draws.dtypes, table.dtypes)
    assert set(draws["kind"]) == {"perch", "pike"}
    assert (draws["parasites"] >= 0).all()
    assert 0.35 < (draws["parasites"] == 0).mean() < 0.65
    assert (draws["eggs"] >= 0).all()
    assert not draws.isna().any().any()
    # A pike is longer, and the mean of 120 lengths of deviation five is known to a half.
    lengths = draws.groupby("kind", observed=True)["length"].mean()
    assert lengths["perch"] == pytest.approx(25, abs=2)
    assert lengths["pike"] == pytest.approx(60, abs=3)
    pd.testing.assert_frame_equal(draws, model.sample(300, random_state=0))


def distances(one, other):
    """Of every column: W₁ of numbers in their standard deviations, total variation of levels."""
    found = {}
    for name in other:
        left, right = (part[name].dropna() for part in (one, other))
        if name in ("length", "weight", "eggs", "parasites"):
            found[name] = wasserstein_distance(left, right) / right.std()
        else:
            shares = [part.value_counts(normalize=True).sort_index() for part in (left, right)]
            found[name] = float(np.abs(shares[0].to_numpy() - shares[1].to_numpy()).sum() / 2)
    return found


def test_draws_are_as_near_as_a_second_sample(model):
    fresh = make_table(4000, 5)
    of_draws = pd.DataFrame(
        [distances(model.sample(240, random_state=seed), fresh) for seed in range(10)]
    )
    of_samples = pd.DataFrame([distances(make_table(240, 10 + seed), fresh) for seed in range(10)])
    # Draws carry the errors of the 240 rows that were fitted to, and their own.
    assert (of_draws.mean() < 2 * of_samples.mean() + 0.02).all(), (
        of_draws.mean(),
        of_samples.mean(),
    )


def test_draws_stay_near_the_rows(model, table):
    # Maps like logarithms would make any number of what little lies far out.
    draws, numbers = model.sample(4000, random_state=0), ["length", "weight", "eggs", "parasites"]
    spread = table[numbers].max() - table[numbers].min()
    assert (draws[numbers].max() < table[numbers].max() + spread).all()
    assert (draws[numbers].min() > table[numbers].min() - spread).all()


def test_polars_and_objects(table, model):
    frame = pl.from_pandas(table)
    other = KernelChain(random_state=0).fit(frame)
    np.testing.assert_allclose(other.score_samples(frame), model.score_samples(table), rtol=1e-9)
    assert other.sample(3, random_state=0).schema == frame.schema
    objects = np.array([["a", 1.5], ["b", 2.5], [None, 3.0], ["a", np.nan]] * 15, object)
    objects[:, 1] = np.where(
        [isinstance(one, float) and one == one for one in objects[:, 1]],
        np.linspace(0.1, 3.3, 60),
        np.nan,
    )
    found = KernelChain(random_state=0).fit(objects)
    assert np.isfinite(found.score_samples(objects)).all()
    assert found.sample(5, random_state=0).dtype == object


def test_what_is_missing_is_imputed_and_nothing_else(model, table):
    whole = model.impute(table, random_state=0)
    pd.testing.assert_series_equal(whole.dtypes, table.dtypes)
    there = table["length"].notna()
    pd.testing.assert_frame_equal(whole[there], table[there])
    assert not whole.isna().any().any()
    # Lengths follow from the kind and the weight; the kinds are 35 apart.
    expected = np.where(table["kind"] == "pike", 60.0, 25.0)
    assert np.abs(whole["length"] - expected)[~there].max() < 22


def make_clusters(n_rows, seed):
    """Two correlated clusters, one column skewed."""
    generator = np.random.default_rng(seed)
    first = generator.standard_normal(n_rows)
    cluster = generator.random((n_rows, 1)) < 0.4
    rows = np.column_stack(
        [
            first,
            0.9 * first + 0.4 * generator.standard_normal(n_rows),
            generator.normal(size=n_rows),
        ]
    )
    rows += np.where(cluster, [3.0, 0.0, -2.0], 0.0)
    return np.column_stack([rows[:, :2], np.sinh(rows[:, 2] / 2)])


def test_missing_values_are_better_left_to_the_model_than_filled_in_before():
    rows, new = make_clusters(250, 0), make_clusters(800, 1)
    holes = np.where(np.random.default_rng(0).random(rows.shape) < 0.3, np.nan, rows)
    filled = IterativeImputer(random_state=0, sample_posterior=True).fit_transform(holes)
    ours, other = (
        KernelChain(columns="real", random_state=0).fit(given) for given in (holes, filled)
    )
    gains = ours.score_samples(new) - other.score_samples(new)
    assert gains.mean() > 2 * gains.std() / np.sqrt(len(gains))
    # Between the smallest and the largest of 9 draws lie eight tenths of all values.
    gone = np.isnan(holes)
    draws = np.array([ours.impute(holes, random_state=seed)[gone] for seed in range(9)])
    covered = np.mean((draws.min(axis=0) <= rows[gone]) & (rows[gone] <= draws.max(axis=0)))
    assert 0.72 < covered < 0.88


def test_conditionals_follow_what_is_known(model, table):
    rows = table.iloc[:15]
    found = model.conditional(rows, ["kind", "eggs"], n_draws=64, random_state=0)
    shares = found.probabilities("kind")
    pikes = (rows["kind"] == "pike").to_numpy()
    # Weights of the two kinds do not overlap.
    assert (shares["pike"][pikes] > 0.9).all()
    assert (shares["pike"][~pikes] < 0.1).all()
    quantiles = found.quantiles("eggs", [0.1, 0.5, 0.9])
    assert (np.diff(quantiles, axis=1) >= 0).all()
    assert np.median(quantiles[pikes, 1]) > np.median(quantiles[~pikes, 1])
    logs, errors = found.log_density()
    assert (errors > 0).all()
    assert (logs < 0.1).all()
    drawn = found.sample(random_state=0)
    pd.testing.assert_frame_equal(
        drawn.drop(columns=["kind", "eggs"]), rows.drop(columns=["kind", "eggs"])
    )
    assert (found.effective_sample_size >= 1).all()
    with pytest.raises(ValueError, match="ask for its probabilities"):
        found.quantiles("kind")
    with pytest.raises(ValueError, match="ask for its quantiles"):
        found.probabilities("eggs")
    with pytest.raises(ValueError, match="not among the columns"):
        found.quantiles("weight")


def test_models_come_back_from_files(model, table, tmp_path):
    path = tmp_path / "fish.kexpfam"
    model.save(path)
    other = load(path)
    assert isinstance(other, KernelChain)
    np.testing.assert_array_equal(other.score_samples(table), model.score_samples(table))
    pd.testing.assert_frame_equal(other.sample(5, random_state=1), model.sample(5, random_state=1))
    assert {str(kind) for kind in other.column_kinds_.values()} == {
        str(kind) for kind in model.column_kinds_.values()
    }
    assert other.health_ == model.health_


def test_values_that_were_never_possible(model, table):
    rows = table.iloc[:3].copy()
    rows["kind"] = ["perch", "eel", "pike"]
    assert np.isneginf(model.score_samples(rows)).tolist() == [False, True, False]
    rows = table.iloc[:3].assign(parasites=[-1.0, 0.0, 1.0])
    assert np.isneginf(model.score_samples(rows)).tolist() == [True, False, False]


def test_a_row_far_out_is_unlikely_and_no_more(generator):
    rows = generator.standard_normal((300, 3))
    rows[:, 1] += 0.99 * rows[:, 0]
    model = KernelChain(columns="real", random_state=0).fit(rows)
    distances = 10.0 ** np.arange(1, 5)
    logs = model.score_samples(distances[:, None] * [1.0, 1.0, 0.0])
    # A Gaussian would have -50, -5000, ...; tails that fall like a power lose as much each time.
    assert (np.diff(logs) < 0).all()
    assert logs[-1] > -80
    odd = model.score_samples([[0.0, 1000.0, 0.0]])[0]
    assert -80 < odd < -20
    # Draws stay among the rows all the same.
    draws = model.sample(30_000, random_state=0)
    assert np.abs(draws).max() < 3 * np.abs(rows).max()


def test_cross_validation_takes_frames(table):
    scores = cross_val_score(KernelChain(random_state=0, gate=False), table.iloc[:90], cv=2)
    assert np.isfinite(scores).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"lenght": "real"}}, "Did you mean 'length'"),
        ({"columns": {"eggs": "number"}}, "columns"),
        ({"marginals": "rank"}, "gaussianize"),
        ({"tilt": "none"}, "None"),
        ({"gate": "yes"}, "True or False"),
    ],
)
def test_bad_settings_say_what_to_do(table, options, message):
    with pytest.raises(ValueError, match=message):
        KernelChain(**options).fit(table)


def test_bad_questions_are_answered(model, table):
    with pytest.raises(ValueError, match="Did you mean 'eggs'"):
        model.conditional(table, "egs")
    with pytest.raises(ValueError, match="each once"):
        model.conditional(table, [])
    with pytest.raises(ValueError, match="feature names"):
        model.score_samples(table.rename(columns={"eggs": "roe"}))
    with pytest.raises(ValueError, match="must hold numbers"):
        model.score_samples(table.assign(length="long"))
    with pytest.raises(ValueError, match="dates"):
        KernelChain().fit(table.assign(day=pd.date_range("2020", periods=len(table))))
    with pytest.raises(NotFittedError):
        KernelChain().score_samples(table)
    with pytest.raises(ValueError, match="distinct rows"):
        KernelChain().fit(table.iloc[[2, 2, 2]])


def test_incomplete_rows_tell_how_columns_go_together():
    """Three columns on nearly one line, a third of the cells gone: as known as by whole rows."""
    generator = np.random.default_rng(4)
    common, noise = generator.standard_normal((900, 1)), generator.standard_normal((900, 3))
    rows = common * [1.0, 2.0, -1.0] + 0.1 * noise
    holes = rows[:400].copy()
    holes[generator.random(holes.shape) < 0.3] = np.nan
    scores = [
        KernelChain(columns="real", random_state=0).fit(some).score(rows[400:])
        for some in (holes, rows[:400])
    ]
    # A draw of what is missing has the noise twice where it is alone in its row.
    assert scores[0] > scores[1] - 0.15


def test_rows_of_which_most_are_copies_are_observations_like_any_other():
    generator = np.random.default_rng(0)
    kind = generator.choice(["a", "b", "c"], 600, p=[0.6, 0.3, 0.1])
    same = np.where(generator.random(600) < 0.9, kind, "a")
    table = pd.DataFrame({"kind": kind, "same": same, "many": generator.poisson(kind == "a")})
    alone = KernelChain(random_state=0).fit(table[["kind"]])
    shares = table["kind"].value_counts(normalize=True)
    found = np.exp(alone.score_samples(pd.DataFrame({"kind": shares.index})))
    # Half a row more for each level.
    np.testing.assert_allclose(found, (600 * shares + 0.5) / 601.5)
    model = KernelChain(random_state=0).fit(table)
    assert model.has_tilt_
    counts = table.value_counts(normalize=True)
    # No density has a higher mean than the shares of rows have; without the columns' dependence it
    # would be 0.6 lower.
    highest = (counts * np.log(counts)).sum()
    assert highest - 0.03 < model.score(table) < highest
    weights = table.value_counts()
    once = weights.index.to_frame(index=False)
    weighted = KernelChain(random_state=0).fit(once, sample_weight=weights.to_numpy())
    np.testing.assert_allclose(weighted.score_samples(once), model.score_samples(once))


def test_units_make_no_difference_where_values_are_missing(generator):
    """Rows with small numbers and holes were taken for copies of each other."""
    rows = generator.standard_normal((300, 2))
    rows[:, 1] += rows[:, 0]
    rows[generator.random(rows.shape) < 0.1] = np.nan
    means = [
        KernelChain(columns="real", random_state=0).fit(unit * rows).score_samples(unit * rows)
        + (~np.isnan(rows)).sum(axis=1) * np.log(unit)
        for unit in (1.0, 1e-9)
    ]
    # Keys, and so folds, are those of standardized rows, which may be rounded to either side.
    np.testing.assert_allclose(means[1], means[0], atol=1e-6)
    rows = np.where(generator.random((200, 1)) < 0.1, np.nan, 1 + 1e-6 * rows[:200, :1])
    assert len(np.unique(KernelChain(random_state=0).fit(rows).score_samples(rows))) > 150
