"""Which value of a row is surprising, and what is expected: conditionals by quadrature."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from kexpfam import KernelChain


@pytest.fixture(scope="module")
def model():
    """A curve that a small mixture follows badly, a bounded column, an atom, counts, words."""
    generator = np.random.default_rng(0)
    n_rows = 300
    angle = generator.uniform(-3, 3, n_rows)
    kind = np.where(generator.random(n_rows) < 0.4, "a", "b")
    table = pd.DataFrame(
        {
            "kind": kind,
            "angle": angle,
            "wave": np.sin(angle) + 0.25 * generator.standard_normal(n_rows),
            "rate": 10 * generator.beta(1, 2, n_rows),
            "rain": np.where(
                generator.random(n_rows) < 0.5, 0.0, 3 + (kind == "a") + generator.random(n_rows)
            ),
            "eggs": generator.poisson(4, n_rows),
        }
    )
    columns = {"rate": ("bounded", 0, 10), "rain": ("real", 0.0), "eggs": "count"}
    return KernelChain(columns=columns, gate=False, random_state=0).fit(table)


def conditional(model, row, name, values):
    """log p of one column's values given all others of a row, up to a constant."""
    moved = pd.concat([row] * len(values), ignore_index=True)
    moved[name] = values
    return model.score_samples(moved)


def log_slopes(model, name, values):
    """Of a column's monotone map."""
    density = model.density_
    place = density.layout.numerics.index(list(model.feature_names_in_).index(name))
    numbers = np.tile(density.marginals.standardizer.center, (len(values), 1))
    numbers[:, place] = values
    return density.marginals.curve(numbers).log_slopes[:, place]


ROW = {"kind": "b", "angle": 0.7, "wave": -0.4, "rate": 1.0, "rain": 3.6, "eggs": 5}


@pytest.fixture(scope="module")
def row():
    return pd.DataFrame({name: [value] for name, value in ROW.items()})


def test_numbers_are_compared_with_the_chain_and_not_with_its_mixture(model, row):
    assert any(not term.is_empty for term in model.density_.number_terms)
    why = model.explain(row, coverage=0.8)
    names = list(row.columns)
    grids = {"angle": (-8, 8), "wave": (-2.5, 2.5), "rate": (0, 10), "rain": (0.5, 6)}
    for name, ends in grids.items():
        grid = np.linspace(*ends, 3001)[1:-1]
        grid = np.append(grid, row[name])
        logs = conditional(model, row, name, grid)
        mass = np.exp(logs[:-1] - logsumexp(logs[:-1]))
        # Which value is likelier is decided after the monotone map.
        mapped = logs - log_slopes(model, name, grid)
        tail = mass[mapped[:-1] <= mapped[-1]].sum()
        grid = grid[:-1]
        # Log densities are straight between 33 quantiles of the mixture.
        assert why.surprise[0, names.index(name)] == pytest.approx(-np.log(tail), rel=0.05), name
        if name == why.columns[0]:
            low, high = np.interp([0.1, 0.9], np.cumsum(mass), grid)
            np.testing.assert_allclose([why.low[0], why.high[0]], [low, high], atol=0.05)
    assert why.columns == ["wave"]
    assert why.high[0] - why.low[0] < 1.0


def test_categories_and_atoms_have_the_probabilities_of_the_chain(model, row):
    names = list(row.columns)
    for kind in ("a", "b"):
        other = row.assign(kind=kind)
        logs = conditional(model, row, "kind", ["a", "b"])
        shares = np.exp(logs - logsumexp(logs))
        own = shares["ab".index(kind)]
        tail = own if own < 0.5 else 1.0
        surprise = model.explain(other).surprise[0, names.index("kind")]
        assert surprise == pytest.approx(-np.log(tail), abs=1e-6)
    # An atom among the atom and all other numbers together.
    dry = row.assign(rain=0.0)
    grid = np.linspace(0.5, 7, 1000)
    positive = logsumexp(conditional(model, row, "rain", grid)) + np.log(grid[1] - grid[0])
    zero = conditional(model, row, "rain", [0.0])[0]
    share = np.exp(zero - np.logaddexp(zero, positive))
    tail = share if share < 0.5 else 1.0
    # Columns after it are given the number itself on one side, and not on the other.
    surprise = model.explain(dry).surprise[0, names.index("rain")]
    assert surprise == pytest.approx(-np.log(tail), abs=0.3)


def test_what_cannot_be_is_responsible(model, row):
    strange = pd.concat([row.assign(rate=11.0), row.assign(kind="c")], ignore_index=True)
    why = model.explain(strange)
    assert why.columns == ["rate", "kind"]
    assert np.isinf(why.surprise.max(axis=1)).all()
    assert 0 <= why.low[0] < why.high[0] <= 10
    assert why.values[1] == "a level never seen"
    gone = model.explain(row.assign(wave=np.nan))
    assert gone.surprise[0, 2] == 0
