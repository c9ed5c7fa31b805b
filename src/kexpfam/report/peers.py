"""Other estimators of a density, which a model is judged beside.

Those of scikit-learn take complete rows of numbers, each column divided by its standard
deviation. A product of marginals takes every table: the base density of a chain for each
column by itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from kexpfam.choices import entropy
from kexpfam.data.kinds import ColumnKind
from kexpfam.data.mixed import MixedTable
from kexpfam.data.rows import ArrayRows
from kexpfam.data.standardize import Standardizer
from kexpfam.metrics import cross_validated_kernel_density
from kexpfam.model.chain import ChainDensity
from kexpfam.pipeline.chain import ChainSettings, fit_chain
from kexpfam.progress import Progress
from kexpfam.report.markup import count, number

__all__ = ["BASE", "PRODUCT", "FitPeer", "Peer", "peers_for"]

PRODUCT, BASE = "product of marginals", "base density alone"
_SIZES = (1, 2, 4, 8, 16, 32)
# A kernel density costs the square of its rows for every bandwidth it is tried with.
_KERNEL_DENSITY_ROWS = 4000
# A single column is known well from this many values.
_MARGINAL_ROWS = 2000


class Peer(NamedTuple):
    """What was chosen, and the log density of rows."""

    choice: str
    log_density: Callable[[Float[np.ndarray, "n d"]], Float[np.ndarray, " n"]]


FitPeer = Callable[[Float[np.ndarray, "n d"], Sequence[ColumnKind], int], Peer]


def peers_for(kinds: Sequence[ColumnKind], rows: Float[np.ndarray, "n d"]) -> dict[str, FitPeer]:
    """Those that can take a table, by their names."""
    smooth = all(not (kind.is_discrete or kind.atoms) for kind in kinds)
    found: dict[str, FitPeer] = {}
    if smooth and np.isfinite(rows).all():
        found = {name: _scaled(fit) for name, fit in _OF_NUMBERS.items()}
    if any(kind != ColumnKind("real") for kind in kinds):
        found[PRODUCT] = _product
    return found


class _Fitted(NamedTuple):
    choice: str
    density: Any


def _scaled(fit: Callable[[Float[np.ndarray, "n d"], int], _Fitted]) -> FitPeer:
    """A peer on standardized columns, with log densities in the units of the data."""

    def fit_scaled(rows: Float[np.ndarray, "n d"], _: Sequence[ColumnKind], seed: int) -> Peer:
        scale = rows.std(axis=0)
        spread = Standardizer(rows.mean(axis=0), np.where(scale > 0, scale, 1.0))
        fitted = fit(spread.forward(rows), seed)

        def log_density(others: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
            return fitted.density.score_samples(spread.forward(others)) - spread.log_volume

        return Peer(fitted.choice, log_density)

    return fit_scaled


def _gaussian(rows: Float[np.ndarray, "n d"], seed: int) -> _Fitted:
    return _Fitted("full covariance", _mixture_of(1, rows, seed))


def _mixture(rows: Float[np.ndarray, "n d"], seed: int) -> _Fitted:
    """The size that is best on a fifth of the rows, then fitted to all of them."""
    held_out = np.random.default_rng(seed).permutation(len(rows)) < len(rows) / 5
    sizes = [size for size in _SIZES if size <= max(1, (~held_out).sum() / (rows.shape[1] + 2))]
    trials = {
        size: _mixture_of(size, rows[~held_out], seed).score(rows[held_out]) for size in sizes
    }
    best = max(trials, key=lambda size: trials[size])
    return _Fitted(f"{count(best, 'component')}, by validation", _mixture_of(best, rows, seed))


def _mixture_of(size: int, rows: Float[np.ndarray, "n d"], seed: int) -> GaussianMixture:
    with warnings.catch_warnings():
        # A mixture that is still moving is judged as it is.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(size, reg_covar=1e-4, max_iter=200, random_state=seed).fit(rows)


def _kernel_density(rows: Float[np.ndarray, "n d"], _seed: int) -> _Fitted:
    used = rows[:_KERNEL_DENSITY_ROWS]
    density = cross_validated_kernel_density(used)
    few = f", {count(len(used), 'row')}" if len(used) < len(rows) else ""
    return _Fitted(f"bandwidth {number(density.bandwidth_, 2)}, cross-validated{few}", density)


_OF_NUMBERS: dict[str, Callable[[Float[np.ndarray, "n d"], int], _Fitted]] = {
    "Gaussian": _gaussian,
    "Gaussian mixture": _mixture,
    "kernel density estimate": _kernel_density,
}


def _product(rows: Float[np.ndarray, "n d"], kinds: Sequence[ColumnKind], seed: int) -> Peer:
    """Columns by themselves; what is missing has no part in it."""
    used = rows[:_MARGINAL_ROWS]
    few = f", {count(len(used), 'row')}" if len(used) < len(rows) else ""
    densities = [
        _marginal(column[~np.isnan(column)], kind, entropy(seed)[0])
        for column, kind in zip(used.T, kinds, strict=True)
    ]

    def log_density(others: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        columns = np.split(others, others.shape[1], axis=1)
        pairs = zip(densities, columns, strict=True)
        return np.sum([density.log_density(column) for density, column in pairs], axis=0)

    return Peer(f"each column by itself{few}", log_density)


def _marginal(column: Float[np.ndarray, " n"], kind: ColumnKind, seed: int) -> ChainDensity:
    table = MixedTable((kind._replace(missing=False),), None, "numpy", "number")
    source = ArrayRows(column[:, None], np.ones(len(column)))
    settings = ChainSettings("auto", gate=True, effort=None)
    return fit_chain(table, source, settings, seed, Progress()).density
