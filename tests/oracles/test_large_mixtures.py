"""Mixtures of rows that are visited and not held, and conditionals with live components alone."""

from __future__ import annotations

from dataclasses import replace

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from kexpfam import KernelChain, KernelDiffusion
from kexpfam.base.average_search import choose_average
from kexpfam.base.averaged import fit_average
from kexpfam.base.clusters import Start
from kexpfam.base.device_sums import summed_on_device
from kexpfam.base.live import walk_live
from kexpfam.base.monomial_tables import (
    Expectation,
    JoinedMixtures,
    MonomialTable,
    StreamedTable,
)
from kexpfam.base.ordered import OrderedMixture, walk
from kexpfam.base.shrunk import improved_mixtures, mixture_path
from kexpfam.data.content_sketch import ContentSketching
from kexpfam.data.layout import layout_of
from kexpfam.data.mixed import read_mixed
from kexpfam.data.rows import ArrayRows
from kexpfam.pipeline import chain, chain_ground, diffusion, further_rows
from kexpfam.progress import Progress
from kexpfam.tuning.growing import SizeJudges, grown_average, refitted_average
from kexpfam.tuning.large_base import Whitening
from kexpfam.tuning.table_base import choose_base


def test_steps_over_chunks_are_those_over_all_rows(generator):
    rows, weights = generator.normal(size=(700, 3)), generator.uniform(0.5, 2.0, 700)
    rows[:300] += 3.0
    table = MonomialTable(rows, weights, 5.0)
    starts = next(mixture_path(table, [Start(4, 0), Start(2, 1)], [6.0]))
    parts = [
        ArrayRows(rows[:450], weights[:450], chunk_rows=77),
        ArrayRows(rows[450:], weights[450:]),
    ]
    streamed = StreamedTable(parts, 5.0)
    found = streamed.expected(JoinedMixtures.of(starts))
    expected = table.expected(JoinedMixtures.of(starts))
    # Log densities in single precision.
    np.testing.assert_allclose(found.likelihoods, expected.likelihoods, atol=1e-5)
    np.testing.assert_allclose(found.sums, expected.sums, atol=1e-5)
    assert streamed.count == pytest.approx(table.count)
    for one, other in zip(
        improved_mixtures(starts, streamed, 2.0, 3),
        improved_mixtures(starts, table, 2.0, 3),
        strict=True,
    ):
        np.testing.assert_allclose(one.means, other.means, atol=1e-4)
        np.testing.assert_allclose(one.covariances, other.covariances, atol=1e-4)


@pytest.mark.parametrize("unit", [1.0, 1e40])
def test_sums_of_a_device_are_those_of_the_host(generator, unit):
    rows, weights = generator.normal(size=(300, 3)), unit * generator.uniform(0.5, 2.0, 300)
    table = MonomialTable(rows, weights)
    mixtures = next(mixture_path(table, [Start(4, 0), Start(2, 1)], [6.0]))
    step = Expectation.under(JoinedMixtures.of(mixtures))
    found = summed_on_device(
        step.polynomials, step.sizes, ArrayRows(rows, weights, chunk_rows=77).chunks()
    )
    expected = table.expected(JoinedMixtures.of(mixtures))
    # Log densities in single precision, of size one.
    np.testing.assert_allclose(found.likelihoods / found.weight, expected.likelihoods, atol=1e-5)
    np.testing.assert_allclose(found.sums / found.weight, expected.sums, atol=1e-5)
    assert found.weight == pytest.approx(weights.sum())
    assert found.squares == pytest.approx(weights @ weights)


@pytest.fixture(scope="module")
def large_mixture():
    generator = np.random.default_rng(0)
    count, width = 1200, 5
    roots = 0.15 * generator.normal(size=(count, width, width)) + 0.1 * np.eye(width)
    covariances = roots @ roots.transpose(0, 2, 1) + 1e-3 * np.eye(width)
    # One wide component of small weight, as averages have.
    covariances[0] = 9 * np.eye(width)
    weights = generator.dirichlet(np.ones(count))
    return OrderedMixture(weights, generator.normal(size=(count, width)), covariances)


def test_dropped_components_change_nothing_that_can_be_seen(large_mixture, generator):
    chosen = generator.integers(0, 1200, 40)
    rows = large_mixture.means[chosen] + 0.2 * generator.normal(size=(40, 5))
    # Rows where no component expects them: the best ones at the end are far behind at first.
    rows[20:] = generator.normal(0.0, 3.0, (20, 5))
    rows[30:, 0] = rows[30:, 1] = large_mixture.means[chosen[30:], 0]
    factors = large_mixture.factors(np.ones(5, bool))
    whole, live = walk(factors, rows), walk_live(factors, rows)
    assert live.columns[-1].residuals.shape[1] < 0.5 * len(large_mixture.weights)
    bound = (5 + 1) * 1200 * np.exp(-30.0)
    sums = live.log_density.sum(axis=1) - whole.log_density.sum(axis=1)
    assert np.abs(sums).max() < bound + 1e-10
    # Weights that are left add up to one.
    for column in live.columns:
        np.testing.assert_allclose(np.exp(column.log_weights).sum(axis=1), 1.0, atol=1e-9)


def test_missing_columns_are_left_out_of_live_components(large_mixture, generator):
    there = np.array([True, False, True, True, False])
    rows = np.where(there, large_mixture.means[:30], 0.0)
    factors = large_mixture.factors(there)
    np.testing.assert_allclose(
        walk_live(factors, rows).log_density[:, there],
        walk(factors, rows).log_density[:, there],
        atol=1e-8,
    )


# -- more rows than are looked at one by one -----------------------------------------------------


def spirals(n_rows, seed):
    generator = np.random.default_rng(seed)
    turn = generator.uniform(0.0, 12.0, n_rows)
    rows = np.stack([turn * np.cos(turn), turn * np.sin(turn)], axis=1)
    frame = pd.DataFrame(rows + 0.2 * generator.normal(size=rows.shape), columns=["x", "y"])
    frame["side"] = np.where(frame["x"] > generator.normal(size=n_rows), "east", "west")
    frame.loc[generator.random(n_rows) < 0.1, "y"] = np.nan
    return frame


@pytest.fixture
def few_rows_looked_at(monkeypatch):
    for module in (chain, chain_ground):
        monkeypatch.setattr(module, "MOST_ROWS", 400)


def test_mixtures_of_all_rows_are_better_than_those_of_a_sample(few_rows_looked_at):
    frame, others = spirals(3000, 0), spirals(500, 1)
    large = KernelChain(random_state=0).fit(frame)
    small = KernelChain(random_state=0).fit(frame[:400])
    base = [
        model.density_.untilted().log_density(model.as_numbers(others)) for model in (large, small)
    ]
    # Three thousand rows against four hundred: some tenths of a nat.
    assert base[0].mean() > base[1].mean() + 0.1
    assert large.base_search_.n_components > small.base_search_.n_components
    streamed = KernelChain(random_state=0).fit(frame[k : k + 999] for k in range(0, 3000, 999))
    np.testing.assert_array_equal(streamed.score_samples(others), large.score_samples(others))
    on_cluster = KernelChain(random_state=0).fit(dd.from_pandas(frame, npartitions=3))
    found = on_cluster.density_.untilted().log_density(large.as_numbers(others))
    # Sums of other blocks in single precision.
    np.testing.assert_allclose(found, base[0], atol=0.01)


def test_judges_have_no_part_in_the_mixture_that_they_judge(few_rows_looked_at):
    frame = spirals(2000, 0)
    table, codes = read_mixed(frame, list(frame.columns), np.ones(2000), None)
    layout = layout_of(table.kinds)
    source = ArrayRows(codes, np.ones(2000), chunk_rows=300)
    sketch = ContentSketching(800)(source.chunks())
    judges = chain_ground.judging_rows(layout, sketch)
    # A quarter of two thousand, but no more than four hundred.
    assert len(judges.keys) == 400
    base = choose_base(judges, np.ones(400, bool), "auto", 0, Progress())
    gaps = np.zeros(len(layout.numerics))
    whitening = Whitening.by(base, layout, gaps, int(judges.keys[-1]))
    chunks = list(map(whitening, source.chunks()))
    assert sum(len(chunk.weights) for chunk in chunks) == 2000 - 400
    assert np.isfinite(np.concatenate([chunk.rows for chunk in chunks])).all()
    # Two parts of the keys hold all rows between them.
    middle = int(judges.keys[-1]) // 2 + 2**63
    below, above = (replace(whitening, **{name: middle}) for name in ("last_key", "last_judge"))
    some = [len(one(next(source.chunks())).weights) for one in (below, above)]
    assert min(some) > 0
    assert sum(some) == len(chunks[0].weights)
    # In other chunks the same rows have the same numbers drawn for what is missing.
    again = whitening(next(iter(ArrayRows(codes, np.ones(2000)).chunks())))
    np.testing.assert_allclose(again.rows, np.concatenate([chunk.rows for chunk in chunks]))


def test_a_diffusions_mixtures_are_those_of_all_rows(monkeypatch):
    monkeypatch.setattr(diffusion, "_SKETCH", 400)
    rows, others = (
        spirals(n, seed)[["x", "y"]].dropna().to_numpy() for n, seed in ((3000, 0), (500, 1))
    )
    settings = {"n_components": 32, "n_levels": 3, "random_state": 0}
    large = KernelDiffusion(**settings).fit(rows)
    small = KernelDiffusion(**settings).fit(rows[:400])
    base = [model.density_.untilted().log_density(others) for model in (large, small)]
    # Three thousand rows against four hundred: some tenths of a nat.
    assert base[0].mean() > base[1].mean() + 0.1
    streamed = KernelDiffusion(**settings).fit(rows[k : k + 999] for k in range(0, len(rows), 999))
    found = streamed.density_.untilted().log_density(others)
    # The same rows are stored in the same pieces, whatever they came in.
    np.testing.assert_allclose(found, base[0], atol=1e-9)


def test_rows_that_a_diffusion_is_judged_by_have_no_part_in_its_mixtures(monkeypatch, generator):
    """Those beyond the sketch are all others: none is seen twice, and none is left out."""
    monkeypatch.setattr(diffusion, "_SKETCH", 400)
    rows, seen = generator.normal(size=(1000, 2)), []
    rows[:500, 0] += 4.0
    grown = further_rows.grown_average

    def noted(average, search, sources, *rest):
        seen.append([np.concatenate([one.rows for one in source.chunks()]) for source in sources])
        return grown(average, search, sources, *rest)

    monkeypatch.setattr(further_rows, "grown_average", noted)
    model = KernelDiffusion(n_components=32, n_levels=3, random_state=0).fit(rows)
    further, own = ({tuple(row) for row in np.round(part, 9)} for part in seen[0])
    whitened = {tuple(row) for row in np.round(model.density_.coordinates.forward(rows), 9)}
    assert len(further) == 600
    assert not further & own
    assert further | own < whitened
    # Of the sketch one fold of five judges the density, and another one sizes.
    assert 180 < len(own) < 300


def test_no_rows_beyond_a_sketch_that_is_full(monkeypatch, generator):
    rows = generator.normal(size=(400, 2))
    settings = {"n_components": 32, "n_levels": 3, "random_state": 0}
    whole = KernelDiffusion(**settings).fit(rows).density_.untilted().log_density(rows)
    monkeypatch.setattr(diffusion, "_SKETCH", 400)
    full = KernelDiffusion(**settings).fit(rows).density_.untilted().log_density(rows)
    # Further passes over the same rows change the mean by a few thousandths of a nat.
    np.testing.assert_allclose(full.mean(), whole.mean(), atol=0.02)


@pytest.mark.parametrize("bent", [True, False])
def test_mixtures_grow_where_rows_pay_for_it(generator, bent):
    """Rows along a spiral want many components; those of one Gaussian never more than one."""
    rows = spirals(6000, 3)[["x", "y"]].to_numpy() if bent else generator.normal(size=(6000, 2))
    rows = rows[~np.isnan(rows).any(axis=1)]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    sample, judges, rest = rows[:300], rows[300:800], rows[800:]
    weights = np.ones(300)
    search = choose_average(sample, weights, np.arange(300) % 5, 0, Progress())

    def begun(larger):
        return fit_average(sample, weights, larger, 0)

    def logs(average):
        return average.density().log_density(judges)

    source = ArrayRows(rest, np.ones(len(rest)), chunk_rows=1000)
    start = begun(search)
    found, chosen = grown_average(
        start, search, [source], begun, SizeJudges(logs, np.ones(500)), 128, Progress()
    )
    if bent:
        assert chosen.n_components >= 2 * search.n_components
        same_size = refitted_average(start, search, [source], 4)
        assert logs(found).mean() > logs(same_size).mean()
    else:
        assert chosen.n_components == search.n_components
