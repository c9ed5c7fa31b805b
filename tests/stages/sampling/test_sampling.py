"""Sampling: what comes in, what comes out, and what is said about it."""

from __future__ import annotations

import logging
import re
import sys

import jax
import numpy as np
import pytest

from kexpfam.base import GaussianMixtureDensity, RescaledDensity
from kexpfam.base.density import Completed
from kexpfam.data.standardize import Standardizer
from kexpfam.features import FourierBasis
from kexpfam.model import TiltedDensity
from kexpfam.sampling import Chains, SamplingWarning, sample_density
from kexpfam.sampling.starts import draw_starts

# Few chains: these tests ask how draws come about, not how good they are.
FEW = {"n_chains": 8}


def gaussians(centers, weights=None, deviation=1.0):
    centers = np.asarray(centers, float)
    weights = np.full(len(centers), 1 / len(centers)) if weights is None else np.asarray(weights)
    return GaussianMixtureDensity(
        weights, centers, np.tile(deviation**2 * np.eye(centers.shape[1]), (len(centers), 1, 1))
    )


def untilted(base, center=(0.0, 0.0), scale=(1.0, 1.0), n_pairs=4):
    n_columns = len(center)
    basis = FourierBasis(np.ones((n_pairs, n_columns)), np.zeros(n_pairs), np.ones(n_pairs))
    standardizer = Standardizer(np.array(center), np.array(scale))
    return TiltedDensity(basis, np.zeros(2 * n_pairs), base, standardizer, 0.0)


NORMAL = untilted(gaussians([[0.0, 0.0]]))
SEPARATED = untilted(gaussians([[-20.0, 0.0], [20.0, 0.0]], [0.7, 0.3]))


class Exponential:
    """A user's density with an edge, which remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def log_density(self, rows):
        self.asked.append(rows)
        return np.where((rows > 0).all(axis=1), -rows.sum(axis=1), -np.inf)

    def gradient(self, rows):
        return -np.ones_like(rows)

    def sample(self, n_samples, generator):
        return generator.exponential(size=(n_samples, 2))


@pytest.fixture(scope="module")
def chains():
    return sample_density(NORMAL, 300, 0, **FEW)


@pytest.fixture(scope="module")
def exponential():
    """A user's density from which draws have been taken."""
    density = Exponential()
    return density, sample_density(untilted(in_other_units(density, 1.0)), 300, 0, **FEW)


def in_other_units(density, scale):
    """A user's density as every fit wraps it anew."""
    return RescaledDensity(Completed(density), np.zeros(2), np.full(2, scale))


# -- seeds and precision ----------------------------------------------------------------------


def test_the_seed_decides(chains):
    again, other = (sample_density(NORMAL, 300, seed, **FEW) for seed in (0, 1))
    np.testing.assert_array_equal(chains.draws, again.draws)
    assert not np.array_equal(chains.draws, other.draws)


def test_generators_are_used_up(chains):
    generator = np.random.default_rng(3)
    first, second = (sample_density(NORMAL, 300, generator, **FEW) for _ in range(2))
    assert not np.array_equal(first.draws, second.draws)
    again = sample_density(NORMAL, 300, np.random.default_rng(3), **FEW)
    np.testing.assert_array_equal(first.draws, again.draws)


@pytest.mark.parametrize("setting", [False, True])
def test_draws_are_float64_and_the_users_setting_stays(chains, setting):
    before = jax.config.jax_enable_x64
    try:
        jax.config.update("jax_enable_x64", setting)
        found = sample_density(NORMAL, 300, 0, **FEW)
        assert jax.config.jax_enable_x64 is setting
    finally:
        jax.config.update("jax_enable_x64", before)
    np.testing.assert_array_equal(found.draws, chains.draws)
    assert found.draws.dtype == np.float64
    assert (found.draws.astype(np.float32) != found.draws).mean() > 0.99


def test_a_users_density_is_asked_in_float64(exponential):
    """Callbacks run in threads where float64 is off; what reaches the user is not rounded."""
    density, found = exponential
    walked = [rows for rows in density.asked if len(rows) == FEW["n_chains"]]
    assert len(walked) > 500
    assert np.mean([(rows.astype(np.float32) != rows).mean() for rows in walked]) > 0.99
    assert (found.draws > 0).all()


# -- numbers of draws -------------------------------------------------------------------------


@pytest.mark.parametrize("n_samples", [1, 7, 300, 512])
def test_exactly_as_many_rows_as_wanted(chains, n_samples):
    """No draw twice, and every part of the run gives its share."""
    numbered = chains._replace(draws=np.arange(512.0).reshape(8, 64, 1))
    rows = numbered.rows(n_samples)
    assert rows.shape == (n_samples, 1)
    assert len(np.unique(rows)) == n_samples
    assert abs((rows % 64 < 32).sum() - n_samples / 2) < 1


def test_more_rows_than_draws_are_refused(chains):
    with pytest.raises(ValueError, match="between 1 and 512"):
        chains.rows(513)


def test_the_papers_setting_in_one_column():
    """One chain, steps of 0.1, 10 000 of them, half forgotten."""
    density = untilted(gaussians([[0.0]]), center=(2.0,), scale=(3.0,))
    setting = {"n_chains": 1, "n_steps": 10_000, "burn_in": 5000, "step_size": 0.1, "jumps": False}
    found = sample_density(density, 5000, 0, **setting)
    assert found.draws.shape == (1, 5000, 1)
    assert (found.thinning, found.step_size) == (1, 0.1)
    assert found.r_hat.shape == found.effective_sample_size.shape == (1,)
    # Proposals of variance 2·0.1 at unit scale are nearly always accepted.
    assert 0.9 < found.acceptance[0] < 0.999
    error = 3.0 / np.sqrt(found.effective_sample_size[0])
    assert abs(found.draws.mean() - 2.0) < 5 * error < 1.0


def test_given_steps_are_walked_once():
    found = sample_density(NORMAL, 300, 0, n_steps=356, burn_in=100, **FEW)
    assert (found.draws.shape[1], found.thinning) == (64, 4)


def test_draws_are_in_the_users_units():
    """The same chains, stretched: the walk happens in standardized units."""
    moved = untilted(NORMAL.base, center=(100.0, -3.0), scale=(5.0, 0.1))
    here, there = (sample_density(density, 300, 0, **FEW) for density in (NORMAL, moved))
    np.testing.assert_allclose(there.draws, here.draws * [5.0, 0.1] + [100.0, -3.0], rtol=1e-12)
    assert there.step_size == here.step_size


# -- compilation ------------------------------------------------------------------------------


def compilations(caplog, density, n_samples):
    caplog.clear()
    with caplog.at_level(logging.WARNING), jax.log_compiles():
        sample_density(density, n_samples, 0, **FEW)
    return [record for record in caplog.records if "Finished XLA" in record.getMessage()]


def test_a_second_fit_of_the_same_shape_is_not_compiled_again(caplog, generator):
    """Other numbers, one mixture component more, other numbers of steps."""
    first = untilted(gaussians([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]), n_pairs=3)
    second = untilted(gaussians(generator.standard_normal((4, 2))), scale=(2.0, 3.0), n_pairs=3)
    assert compilations(caplog, first, 100)
    assert not compilations(caplog, second, 200)


def test_a_users_density_is_compiled_once_for_all_fits(caplog, exponential):
    assert not compilations(caplog, untilted(in_other_units(exponential[0], 2.0)), 300)


# -- diagnostics ------------------------------------------------------------------------------


def test_good_chains_look_good(chains):
    assert chains.complaint() is None
    assert (np.abs(chains.r_hat - 1) < 0.05).all()
    # Antithetic draws may be worth more than their number, but not much more.
    assert (chains.effective_sample_size > 512 / 2).all()
    assert (chains.effective_sample_size < 512 * 2).all()
    # 0.574 is the target; dual averaging of 500 steps of 8 chains leaves some hundredths.
    assert abs(chains.acceptance.mean() - 0.574) < 0.1


def test_chains_that_stay_in_separate_modes_are_noticed():
    starts = np.array([[-20.0, 0.0]] * 4 + [[20.0, 0.0]] * 4)
    with pytest.warns(SamplingWarning, match=r"R-hat is .* n_chains"):
        found = sample_density(SEPARATED, 100, 0, n_steps=600, starts=starts, jumps=False, **FEW)
    assert found.r_hat[0] > 1.5
    assert found.r_hat[1] < 1.05
    assert found.effective_sample_size[0] < 20
    assert (found.jump_acceptance == 0).all()


def test_jumps_carry_chains_between_modes():
    """Without a tilt every jump is accepted."""
    starts = np.array([[-20.0, 0.0]] * 4 + [[20.0, 0.0]] * 4)
    found = sample_density(SEPARATED, 100, 0, n_steps=600, starts=starts, **FEW)
    assert (found.jump_acceptance == 1).all()
    # 8 × 64 independent jumps: ± 0.02.
    assert abs((found.draws[..., 0] < 0).mean() - 0.7) < 0.1


def test_starting_points_occupy_modes_in_proportion(generator):
    rows = draw_starts(SEPARATED, 200, generator).rows
    # 8192 draws know the share to ± 0.007, 200 chains represent it to ± 0.005.
    assert abs((rows[:, 0] < 0).mean() - 0.7) < 0.035


@pytest.mark.parametrize(
    ("step_size", "advice"), [(30.0, "a smaller step_size"), (1e-5, "a larger step_size")]
)
def test_an_insane_acceptance_is_noticed(step_size, advice):
    with pytest.warns(SamplingWarning, match=advice):
        sample_density(NORMAL, 100, 0, step_size=step_size, n_steps=600, jumps=False, **FEW)


def test_arviz_gets_the_draws(chains):
    pytest.importorskip("arviz_base")
    tree = chains.to_arviz(names=["height", "weight"])
    found = tree["posterior"]["x"]
    assert found.dims == ("chain", "draw", "column")
    np.testing.assert_array_equal(found.values, chains.draws)
    assert found.coords["column"].values.tolist() == ["height", "weight"]


def test_without_arviz_the_extra_is_named(chains, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(ImportError, match=re.escape("kexpfam[arviz]")):
        chains.to_arviz()


def test_progress_is_silent_by_default(capsys):
    sample_density(NORMAL, 10, 0, **FEW)
    assert capsys.readouterr() == ("", "")


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "gibbs"}, "'mala' or 'nuts'; got 'gibbs'"),
        ({"n_samples": 0}, "n_samples must be a whole number ≥ 1; got 0"),
        ({"n_chains": 0}, "n_chains must be"),
        ({"burn_in": -1}, "burn_in must be a whole number ≥ 0"),
        ({"burn_in": 0}, "Give a step_size"),
        ({"n_steps": 501}, "at least 513 steps .* got 501. Raise n_steps"),
        ({"step_size": 0.0}, "step_size must be .* a positive number; got 0.0"),
        ({"step_size": -1.0}, "None, which adapts it"),
        ({"step_size": np.nan}, "got nan"),
        ({"starts": np.zeros((3, 2))}, r"shape \(8, 2\); got \(3, 2\). Try n_chains=3"),
        ({"starts": np.full((8, 2), np.inf)}, "positive density"),
    ],
)
def test_bad_input_is_explained(changes, message):
    arguments = {"n_samples": 100, "random_state": 0, **FEW, **changes}
    with pytest.raises(ValueError, match=message):
        sample_density(NORMAL, **arguments)


# -- the function under it all ----------------------------------------------------------------


def test_the_log_density_can_be_used_in_single_precision():
    """A user's own JAX code, with float64 off, for every kind of base density."""
    for base in (NORMAL.base, Completed(Exponential())):
        row = np.array([0.5, 2.0], np.float32)
        value, slope = jax.jit(jax.value_and_grad(untilted(base).standardized_function()))(row)
        np.testing.assert_allclose(value, base.log_density(row[None].astype(float))[0], rtol=1e-6)
        np.testing.assert_allclose(slope, base.gradient(row[None].astype(float))[0], rtol=1e-6)


def test_a_record_of_chains_is_a_tuple(chains):
    assert Chains(*chains) == chains
