"""Tables of hostile numbers: values far out, columns that nearly follow from others, and the like.

A case spoils a table of normal numbers in one way or two and fits an estimator to it. Whatever the
model says has to be a number, also at rows however far out; and new rows of the same source must
not lie far below what a Gaussian of the same rows gives them:

    mean log p(fresh)  ≥  max over C of mean log N(fresh; x̄, C)  −  slack,

where C is the diagonal of the covariance S, or S with variances of 1e-6 added in standardized
units, as Gaussian base densities have them. Medians stand for means where a few rows of the source
lie further out than any others, and nothing is compared with the density of a column that has none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import kexpfam
from attack.cases import RIGHT, FaultError, Kind

__all__ = ["HostileTables"]

_N_FRESH = 40
_REGULARIZATION = 1e-6


class Table(NamedTuple):
    """Rows to fit, others of the same source, and weights."""

    rows: np.ndarray
    fresh: np.ndarray
    weights: np.ndarray | None = None

    def mapped(self, change: Callable[[np.ndarray], np.ndarray]) -> Table:
        """The same change of both."""
        return self._replace(rows=change(self.rows), fresh=change(self.fresh))


Spoiler = Callable[[Table, np.random.Generator], Table]


def _outliers(table: Table, generator: np.random.Generator) -> Table:
    """A few values at 1e4 to 1e300 standard deviations."""
    rows = table.rows.copy()
    for _ in range(int(generator.choice([1, 1, 3]))):
        place = tuple(generator.integers(rows.shape))
        rows[place] = generator.choice([-1.0, 1.0]) * 10.0 ** generator.uniform(4, 300)
    return table._replace(rows=rows)


def _near_outliers(table: Table, generator: np.random.Generator) -> Table:
    """The same at 10 to 1e10: what is there besides is still seen."""
    rows = table.rows.copy()
    for _ in range(int(generator.choice([1, 1, 3]))):
        place = tuple(generator.integers(rows.shape))
        rows[place] = generator.choice([-1.0, 1.0]) * 10.0 ** generator.uniform(1, 10)
    return table._replace(rows=rows)


def _collinear(table: Table, generator: np.random.Generator) -> Table:
    """A column that follows from the others to 1e-3 … 1e-14."""
    slopes = generator.standard_normal(table.rows.shape[1])
    size = 10.0 ** -generator.uniform(3, 14)

    def change(rows: np.ndarray) -> np.ndarray:
        noise = generator.standard_normal(len(rows))
        return np.column_stack([rows, rows @ slopes + size * noise])

    return table.mapped(change)


def _nearly_constant(table: Table, generator: np.random.Generator) -> Table:
    """One value in nearly all rows of a column."""
    column = int(generator.integers(table.rows.shape[1]))
    share, value = float(generator.choice([0.5, 0.9, 0.98])), float(generator.choice([0.0, 7.3]))

    def change(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[generator.random(len(rows)) < share, column] = value
        return rows

    return table.mapped(change)


def _units(table: Table, generator: np.random.Generator) -> Table:
    """Each column in a unit of its own."""
    sizes = 10.0 ** generator.uniform(-300, 300, table.rows.shape[1])
    return table.mapped(lambda rows: rows * sizes)


def _far_from_zero(table: Table, generator: np.random.Generator) -> Table:
    """Columns whose digits are mostly those of their mean."""
    centers = 10.0 ** generator.uniform(0, 15, table.rows.shape[1])
    return table.mapped(lambda rows: rows + centers)


def _heavy_tails(table: Table, _: np.random.Generator) -> Table:
    """Cauchy numbers by their quantiles, the logistic function standing for the normal one."""
    return table.mapped(lambda rows: np.tan(np.pi * (1 / (1 + np.exp(-1.7 * rows)) - 0.5)))


def _skewed(table: Table, generator: np.random.Generator) -> Table:
    """Numbers over many orders of magnitude."""
    factor = float(generator.choice([3.0, 10.0, 60.0]))
    return table.mapped(lambda rows: np.exp(factor * rows))


def _weights(table: Table, generator: np.random.Generator) -> Table:
    """Weights over hundreds of orders of magnitude, or one above all others."""
    n_rows = len(table.rows)
    if generator.random() < 0.3:
        weights = 10.0 ** generator.uniform(-240, 240, n_rows)
    else:
        weights = np.ones(n_rows)
        weights[int(generator.integers(n_rows))] = 10.0 ** generator.uniform(-30, 30)
    return table._replace(weights=weights)


def _copies(table: Table, generator: np.random.Generator) -> Table:
    """Most rows are copies of a few."""
    some = generator.integers(max(3, len(table.rows) // 10), size=len(table.rows) // 2)
    return table._replace(rows=np.vstack([table.rows[: -len(some)], table.rows[some]]))


def _lattice(table: Table, generator: np.random.Generator) -> Table:
    """Columns of few decimals, where one value has more."""
    step = 10.0 ** -float(generator.integers(-1, 4)) * float(generator.choice([1.0, 0.25]))
    table = table.mapped(lambda rows: np.round(rows / step) * step)
    if generator.random() < 0.5:
        rows = table.rows.copy()
        rows[tuple(generator.integers(rows.shape))] += step * generator.random()
        return table._replace(rows=rows)
    return table


def _counts(table: Table, generator: np.random.Generator) -> Table:
    """Whole numbers, one of them huge."""
    column = int(generator.integers(table.rows.shape[1]))
    size = 10.0 ** generator.uniform(0, 4)

    def change(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, column] = np.floor(np.abs(rows[:, column]) * size)
        return rows

    table = table.mapped(change)
    table.rows[int(generator.integers(len(table.rows))), column] = np.floor(
        10.0 ** generator.uniform(4, 300)
    )
    return table


def _subnormal(table: Table, generator: np.random.Generator) -> Table:
    """A column of numbers with few binary digits."""
    column = int(generator.integers(table.rows.shape[1]))
    size = 10.0 ** generator.uniform(-320, -307)

    def change(rows: np.ndarray) -> np.ndarray:
        rows = rows.copy()
        rows[:, column] *= size
        return rows

    return table.mapped(change)


def _few_rows(_: Table, generator: np.random.Generator) -> Table:
    """Hardly more rows than columns, or fewer."""
    n_rows, n_columns = int(generator.integers(4, 30)), int(generator.integers(8, 16))
    return Table(
        generator.standard_normal((n_rows, n_columns)),
        generator.standard_normal((_N_FRESH, n_columns)),
    )


_SPOILERS: dict[str, Spoiler] = {
    "outliers": _outliers,
    "near outliers": _near_outliers,
    "collinear": _collinear,
    "nearly constant": _nearly_constant,
    "units": _units,
    "far from zero": _far_from_zero,
    "heavy tails": _heavy_tails,
    "skewed": _skewed,
    "weights": _weights,
    "copies": _copies,
    "lattice": _lattice,
    "counts": _counts,
    "subnormal": _subnormal,
    "few rows": _few_rows,
}

_ESTIMATORS: dict[str, Callable[[], Any]] = {
    "family on a Gaussian": lambda: kexpfam.KernelExponentialFamily(
        n_components=32, base="gaussian", tuning="folds", random_state=0
    ),
    "family": lambda: kexpfam.KernelExponentialFamily(n_components=32, random_state=0),
    "diffusion": lambda: kexpfam.KernelDiffusion(n_components=32, n_levels=3, random_state=0),
    "chain": lambda: kexpfam.KernelChain(random_state=0),
    "conditional": lambda: kexpfam.ConditionalKernelExponentialFamily(random_state=0),
    "anomalies": lambda: kexpfam.KernelAnomalyDetector(random_state=0),
}


class HostileTables(Kind):
    """Fits to spoiled tables: numbers for answers, and not far below a Gaussian."""

    name = "numbers in tables"

    def case(self, generator: np.random.Generator) -> str:
        name = str(generator.choice(list(_ESTIMATORS)))
        ways = generator.choice(list(_SPOILERS), int(generator.choice([1, 1, 2])), replace=False)
        table = _spoiled(generator, [str(way) for way in ways])
        if not (np.isfinite(table.rows).all() and np.isfinite(table.fresh).all()):
            return RIGHT
        label = f"{name} of {table.rows.shape} after {ways.tolist()}"
        model, scored = _fitted(name, table)
        far = _far_rows(table.fresh, generator)
        fresh = scored(table.fresh)
        tied = _tied(table.rows)
        for what, found in (("own rows", scored(table.rows)), ("new rows", fresh)):
            # A column of few values is one of categories to a chain, which knows no others.
            impossible = (found == -np.inf) & (name == "chain" and tied)
            if not (np.isfinite(found) | impossible).all():
                raise FaultError(f"{label}: {what} score {found[:5]}")
        if np.isnan(scored(far)).any() or (scored(far) == np.inf).any():
            raise FaultError(f"{label}: rows far out score {scored(far)}")
        _check_derivatives(label, name, model, far, table)
        if hasattr(model, "sample") and generator.random() < 0.2:
            drawn = np.asarray(_drawn(name, model, table), float)
            if not np.isfinite(drawn).all():
                raise FaultError(f"{label}: draws are {drawn.tolist()}")
        # Scores of anomalies are in units of their own; whoever gives one row nearly all the weight
        # does not ask for the others; and a value that many rows share has a probability.
        if name != "anomalies" and table.weights is None and not tied:
            middle = np.median if {*ways} & {"heavy tails", "skewed"} else np.mean
            reached, slack = float(middle(fresh)), 1 + table.rows.shape[1] / 2
            expected = max(float(middle(one)) for one in _gaussians(name, table))
            if reached < expected - slack:
                raise FaultError(f"{label}: {reached:.2f} where a Gaussian has {expected:.2f}")
        return RIGHT


def _fitted(name: str, table: Table) -> tuple[Any, Callable[[np.ndarray], np.ndarray]]:
    """A model, and its log densities of rows."""
    model = _ESTIMATORS[name]()
    if name == "anomalies":
        return model.fit(table.rows), model.score_samples
    if name == "conditional":
        model.fit(table.rows[:, :-1], table.rows[:, -1], sample_weight=table.weights)
        return model, lambda rows: model.score_samples(rows[:, :-1], rows[:, -1])
    return model.fit(table.rows, sample_weight=table.weights), model.score_samples


def _far_rows(fresh: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Rows with values of any size."""
    far = fresh[:5].copy()
    sizes = 10.0 ** generator.uniform(-300, 308, far.shape) * generator.choice([-1, 1], far.shape)
    return np.where(generator.random(far.shape) < 0.7, sizes, far)


def _check_derivatives(label: str, name: str, model: Any, rows: np.ndarray, table: Table) -> None:
    if name == "anomalies":
        return
    given = (rows[:, :-1], rows[:, -1]) if name == "conditional" else (rows,)
    found = np.asarray(model.gradient(*given), float).reshape(len(rows), -1)
    if name == "chain":
        # There are none in whole numbers, at values that many rows share and where no row can be.
        found = found[np.isfinite(model.score_samples(rows))]
        found = found[:, ~np.isnan(model.gradient(table.rows)).any(axis=0)]
    if np.isnan(found).any():
        raise FaultError(f"{label}: gradients {found.tolist()} at {rows.tolist()}")
    # In units of 1e-300 they are no numbers any more.
    if not np.isfinite(found).all() and np.ptp(table.rows, axis=0).min() > 1e-250:
        raise FaultError(f"{label}: gradients {found.tolist()}")


def _drawn(name: str, model: Any, table: Table) -> np.ndarray:
    if name == "conditional":
        return np.asarray(model.sample(table.fresh[:3, :-1], random_state=0))
    return np.asarray(model.sample(3, random_state=0))


def _tied(rows: np.ndarray) -> bool:
    """Whether distinct rows share values."""
    distinct = np.unique(rows, axis=0)
    return any(len(np.unique(column)) < 0.9 * len(distinct) for column in distinct.T)


def _gaussians(name: str, table: Table) -> list[np.ndarray]:
    """Log densities of new rows; of their targets given the inputs for a conditional density."""
    if name != "conditional":
        return [_gaussian(table, whole) for whole in (True, False)]
    inputs = table.mapped(lambda rows: rows[:, :-1])
    target = table.mapped(lambda rows: rows[:, -1:])
    return [_gaussian(target, False), _gaussian(table, True) - _gaussian(inputs, True)]


def _gaussian(table: Table, whole: bool) -> np.ndarray:
    """Log densities of new rows under a Gaussian of the others, with all covariances or none."""
    units = np.abs(table.rows).max(axis=0)
    rows, fresh = table.rows / units, table.fresh / units
    center, spread = rows.mean(axis=0), rows.std(axis=0)
    rows, fresh = (rows - center) / spread, (fresh - center) / spread
    n_columns = len(center)
    root = np.eye(n_columns)
    if whole:
        # From the rows and not from their covariance, whose digits are half as many.
        floor = np.sqrt(_REGULARIZATION) * root
        root = np.linalg.qr(np.vstack([rows / np.sqrt(len(rows)), floor]), mode="r").T
    squares = (np.linalg.solve(root, fresh.T) ** 2).sum(axis=0)
    volume = np.log(np.abs(np.diag(root))).sum() + (np.log(spread) + np.log(units)).sum()
    return np.asarray(-squares / 2 - n_columns * np.log(2 * np.pi) / 2 - volume)


def _spoiled(generator: np.random.Generator, ways: list[str]) -> Table:
    n_rows, n_columns = int(generator.choice([25, 60, 150])), int(generator.integers(2, 4))
    rows = generator.standard_normal((n_rows + _N_FRESH, n_columns))
    rows[:, -1] += 0.5 * rows[:, 0] ** 2
    table = Table(rows[:n_rows], rows[n_rows:])
    for way in ways:
        table = _SPOILERS[way](table, generator)
    return table
