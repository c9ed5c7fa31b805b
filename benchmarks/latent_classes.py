"""A mixture of products for tables of mixed columns: latent classes, with missing values left out.

    p(row) = Σ_c π_c Π_j p_cj(value j),        over the values that are there,

with probabilities for categories (and for which atom, if any) and normal distributions for numbers
in the coordinates of Yeo and Johnson, as masses of unit cells where numbers are counts or grades.
Kinds of columns are read as KernelChain reads them, so that log densities can be compared. The
number of classes is chosen by a tenth of the training rows. pomegranate (1.1.2) has mixtures of
products for complete rows of one type of number alone, and its Bayesian networks are of
categories alone, hence this one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import log_ndtr, logsumexp
from sklearn.preprocessing import PowerTransformer

from kexpfam.data.layout import Layout, Parts, layout_of
from kexpfam.data.mixed import MixedTable, read_mixed

SIZES = (4, 8, 16, 32, 64)
N_ITERATIONS, PSEUDO_ROWS, FLOOR = 40, 1.0, 1e-3


class Cells(NamedTuple):
    """Values of rows: codes, and numbers with both ends of their cells, mapped; NaN if missing."""

    codes: np.ndarray
    middles: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    log_slopes: np.ndarray

    def where(self, chosen: np.ndarray) -> Cells:
        return Cells(*(part[chosen] for part in self))


class Reader(NamedTuple):
    """Kinds of columns, and the maps of the numbers."""

    table: MixedTable
    layout: Layout
    power: PowerTransformer

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Reader:
        table, codes = read_mixed(frame, list(frame.columns), np.ones(len(frame)), None)
        layout = layout_of(table.kinds)
        return cls(table, layout, PowerTransformer().fit(layout.split(codes).numbers))

    def __call__(self, frame: pd.DataFrame) -> Cells:
        parts: Parts = self.layout.split(self.table.codes(frame))
        numbers, lattice = parts.numbers, self.layout.is_lattice
        low, high = self.layout.support
        middles = self.power.transform(numbers)
        lows, highs = (self.power.transform(numbers + move) for move in (-0.5, 0.5))
        lows[numbers - 0.5 <= low], highs[numbers + 0.5 >= high] = -np.inf, np.inf
        exponents = self.power.lambdas_ - 1
        slopes = exponents * np.sign(numbers) * np.log1p(np.abs(numbers))
        slopes -= np.log(self.power._scaler.scale_)
        return Cells(
            parts.codes,
            middles,
            np.where(lattice, lows, np.nan),
            np.where(lattice, highs, np.nan),
            np.where(lattice, 0.0, slopes),
        )


class Classes(NamedTuple):
    """Weights, probabilities of categories, means and standard deviations of numbers."""

    weights: np.ndarray
    probabilities: list[np.ndarray]
    means: np.ndarray
    deviations: np.ndarray

    def logs(self, cells: Cells, exactly: bool) -> np.ndarray:
        """Of all classes at rows; in a fit, densities in the middles stand for masses."""
        logs = np.tile(np.log(self.weights), (len(cells.codes), 1))
        for place, shares in enumerate(self.probabilities):
            there = ~np.isnan(cells.codes[:, place])
            logs[there] += np.log(shares)[:, cells.codes[there, place].astype(int)].T
        for place in range(cells.middles.shape[1]):
            there = ~np.isnan(cells.middles[:, place])
            mean, deviation = self.means[:, place], self.deviations[:, place]
            ends = [(part[there, place, None] - mean) / deviation for part in cells[1:4]]
            if exactly and not np.isnan(ends[1]).all():
                below = ends[2] < 0
                upper = np.where(below, ends[2], -ends[1])
                lower = np.where(below, ends[1], -ends[2])
                gap = np.minimum(log_ndtr(lower) - log_ndtr(upper), -1e-12)
                logs[there] += log_ndtr(upper) + np.log(-np.expm1(gap))
            else:
                logs[there] += -(ends[0] ** 2) / 2 - np.log(deviation * np.sqrt(2 * np.pi))
                logs[there] += cells.log_slopes[there, place, None]
        return logs


def fitted(cells: Cells, layout: Layout, size: int, seed: int) -> Classes:
    """Expectation–maximization from rows drawn at random."""
    generator = np.random.default_rng(seed)
    members = generator.dirichlet(np.full(size, 0.1), size=len(cells.codes))
    classes = _maximized(cells, layout, members)
    for _ in range(N_ITERATIONS):
        logs = classes.logs(cells, exactly=False)
        members = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
        classes = _maximized(cells, layout, members)
    return classes


def _maximized(cells: Cells, layout: Layout, members: np.ndarray) -> Classes:
    probabilities = []
    for place, count in enumerate(layout.level_counts):
        there = ~np.isnan(cells.codes[:, place])
        levels = np.eye(count)[cells.codes[there, place].astype(int)]
        overall = (levels.sum(axis=0) + 0.5) / (len(levels) + 0.5 * count)
        sums = members[there].T @ levels + PSEUDO_ROWS * overall
        probabilities.append(sums / sums.sum(axis=1, keepdims=True))
    there = ~np.isnan(cells.middles)
    values = np.where(there, cells.middles, 0.0)
    masses = members.T @ there + PSEUDO_ROWS
    # One row of a standard normal for each class: the maps make numbers like one.
    means = members.T @ values / masses
    squares = (members.T @ values**2 + PSEUDO_ROWS) / masses
    deviations = np.sqrt(np.maximum(squares - means**2, FLOOR))
    weights = members.mean(axis=0) + 1e-6
    return Classes(weights / weights.sum(), probabilities, means, deviations)


def fit_latent_classes(
    train: pd.DataFrame, seed: int
) -> tuple[Callable[[pd.DataFrame], np.ndarray], int]:
    """Log densities as a function of rows, and the number of classes that was chosen."""
    reader = Reader.of(train)
    cells = reader(train)
    held = np.random.default_rng(seed).random(len(train)) < 0.1
    found: dict[int, float] = {}
    for size in (size for size in SIZES if size <= len(train) / 20):
        classes = fitted(cells.where(~held), reader.layout, size, seed)
        found[size] = logsumexp(classes.logs(cells.where(held), exactly=True), axis=1).mean()
        if found[size] < max(found.values()) - 0.05:
            break
    best = max(found, key=lambda size: found[size])
    last = fitted(cells, reader.layout, best, seed)
    return lambda rows: logsumexp(last.logs(reader(rows), exactly=True), axis=1), best
