"""Columns that follow from others by a linear relation, exactly or nearly.

Rows on a plane have no density. With columns standardized to z, a relation is

    z_t = Σ_i c_i z_i + r,        residual = std r    (in units of the column's own std).

Copies (one other column) are found from correlations. For longer relations, QR with pivoting splits
the columns into a basis and the rest, which are combinations of the basis; columns then change
places until all |c| ≤ 1. Hence

- each relation is solved for the column that varies most in it: gross = net + tax, and not
  tax = gross − net;
- without the columns that relations are solved for there is no relation left;
- coefficients that are not zero name a smallest set of dependent columns: none of it can be spared.

| symbol | name         | shape  |                                                          |
|--------|--------------|--------|----------------------------------------------------------|
| z      | values       | (k, d) |                                                          |
| √a z   | scaled       | (k, d) | columns of length one; a are the weights' shares         |
| c      | coefficients | (m,)   | in standardized units; `slopes` in the user's            |
|        | grain        | (d,)   | how finely values are stored, in standardized units      |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import qr, solve_triangular

__all__ = ["TOLERANCE", "Relation", "linear_relations"]

TOLERANCE = 1e-6
# What sums over thousands of rows of a hundred columns lose to rounding, and some more.
_ARITHMETIC = 1e-12
# Files keep a value to 15 digits, that is to 5e-15 of it, where they do not keep it entirely.
_STORED_TO = 32 * np.finfo(float).eps
_CONSTANT = 16 * np.finfo(float).eps
# Correlations and their eigenvalues tell residuals above 1e-4 from those below: a first look.
_SUSPICIOUS = 1e-8
_OUTLIERS = 0.05
_MOST_EXCHANGES = 100


class Relation(NamedTuple):
    """column = Σ slopes · others + offset, in the user's units.

    `residual` and `rounding`, what storing the values in 64 bits may leave of it, are in standard
    standard deviations of the column.
    """

    column: int
    others: tuple[int, ...]
    slopes: Float[np.ndarray, " m"]
    offset: float
    residual: float
    rounding: float

    @property
    def exact(self) -> bool:
        """Whether rounding explains all that is left."""
        return self.residual <= self.rounding


class _Standardized(NamedTuple):
    numbers: list[int]
    center: Float[np.ndarray, " d"]
    scale: Float[np.ndarray, " d"]
    grain: Float[np.ndarray, " d"]
    shares: Float[np.ndarray, " k"]
    values: Float[np.ndarray, "k d"]
    scaled: Float[np.ndarray, "k d"]


def linear_relations(
    rows: Float[np.ndarray, "k d"], weights: Float[np.ndarray, " k"]
) -> list[Relation]:
    """Relations that hold to within `TOLERANCE`, short ones first.

    A relation that so few rows would satisfy whatever they hold is not among them.
    """
    table = _standardized(rows, weights)
    correlations = table.scaled.T @ table.scaled
    copies, kept = _copies(table, correlations)
    relations = [*copies, *_combinations(table, correlations, kept)]
    return sorted(relations, key=lambda relation: (len(relation.others), relation.column))


def _standardized(
    rows: Float[np.ndarray, "k d"], weights: Float[np.ndarray, " k"]
) -> _Standardized:
    """Columns that vary, each divided by its largest value first: squares of 1e200 overflow."""
    magnitude = np.abs(rows).max(axis=0)
    unit = rows / np.where(magnitude > 0, magnitude, 1.0)
    shares = weights / weights.max()
    shares = shares / shares.sum()
    center = shares @ unit
    scale = np.sqrt(shares @ (unit - center) ** 2)
    varies = np.flatnonzero(scale > _CONSTANT)
    center, scale, magnitude = center[varies], scale[varies], magnitude[varies]
    values = (unit[:, varies] - center) / scale
    return _Standardized(
        numbers=varies.tolist(),
        center=center * magnitude,
        scale=scale * magnitude,
        grain=_STORED_TO / scale,
        shares=shares,
        values=values,
        scaled=np.sqrt(shares)[:, None] * values,
    )


def _copies(
    table: _Standardized, correlations: Float[np.ndarray, "d d"]
) -> tuple[list[Relation], list[int]]:
    """Columns that are a linear function of one before them, and the columns that are not."""
    found: list[Relation] = []
    kept: list[int] = []
    for column in range(len(table.numbers)):
        alike = [one for one in kept if abs(correlations[one, column]) > 1 - _SUSPICIOUS]
        relations = [_relation(table, column, [one], correlations[[one], column]) for one in alike]
        holding = [relation for relation in relations if relation is not None]
        if holding:
            found.append(min(holding, key=lambda relation: relation.residual))
        else:
            kept.append(column)
    return found, kept


def _combinations(
    table: _Standardized, correlations: Float[np.ndarray, "d d"], kept: list[int]
) -> list[Relation]:
    """Relations of three columns and more among those that are no copies."""
    if len(kept) < 3 or len(table.values) < len(kept) + 2:
        return []
    if np.linalg.eigvalsh(correlations[np.ix_(kept, kept)])[0] > _SUSPICIOUS:
        return []
    triangle = _triangle(table.scaled[:, kept])
    basis, rest, coefficients = _split(triangle)
    grain = table.grain[kept]
    found = []
    for place, shares in zip(rest, coefficients.T, strict=True):
        candidates = [basis[one] for one in np.argsort(-np.abs(shares))]
        rounding = _rounding(grain[place], grain[basis], shares)
        chosen = _shortest(triangle, place, candidates, rounding)
        fitted = _least_squares(triangle[:, chosen], triangle[:, [place]])[:, 0]
        relation = _relation(table, kept[place], [kept[one] for one in chosen], fitted)
        if relation is not None:
            found.append(relation)
    return found


def _split(
    triangle: Float[np.ndarray, "m m"],
) -> tuple[list[int], list[int], Float[np.ndarray, "r s"]]:
    """A basis, the columns that follow from it, and their coefficients, at most one in size."""
    factor, order = qr(triangle, mode="r", pivoting=True)
    rank = int((np.abs(np.diag(factor)) > TOLERANCE).sum())
    basis, rest = order[:rank].tolist(), order[rank:].tolist()
    for _ in range(_MOST_EXCHANGES):
        coefficients = _least_squares(triangle[:, basis], triangle[:, rest])
        if not rest:
            break
        place, other = np.unravel_index(int(np.abs(coefficients).argmax()), coefficients.shape)
        # Columns of equal spread would change places for ever.
        if abs(coefficients[place, other]) < 1.001:
            break
        basis[place], rest[other] = rest[other], basis[place]
    return basis, rest, coefficients


def _shortest(
    triangle: Float[np.ndarray, "m m"], place: int, candidates: list[int], rounding: float
) -> list[int]:
    """The first few candidates that leave as little of a column as all of them do."""
    last = _triangle(triangle[:, [*candidates, place]])[:, -1]
    # What is left of the column after none, one, two … of the candidates.
    left = np.sqrt(np.cumsum(last[::-1] ** 2)[::-1])
    limit = rounding if left[-1] <= rounding else TOLERANCE
    return sorted(candidates[: int(np.argmax(left <= limit))])


def _triangle(columns: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "m m"]:
    """Columns with the same lengths and inner products, in as many rows as there are columns."""
    return np.asarray(np.linalg.qr(columns, mode="r"))


def _least_squares(
    columns: Float[np.ndarray, "n m"], targets: Float[np.ndarray, "n s"]
) -> Float[np.ndarray, "m s"]:
    """For columns that are far from dependent on one another."""
    directions, factor = np.linalg.qr(columns)
    return np.asarray(solve_triangular(factor, directions.T @ targets))


def _rounding(
    grain: float, other_grains: Float[np.ndarray, " m"], coefficients: Float[np.ndarray, " m"]
) -> float:
    return float(_ARITHMETIC + grain + np.abs(coefficients) @ other_grains)


def _relation(
    table: _Standardized, column: int, others: list[int], coefficients: Float[np.ndarray, " m"]
) -> Relation | None:
    """One column from others; None where more than the tolerance is left."""
    # A plane goes through as many rows as it has coefficients, whatever they hold; two more that
    # lie on it are no chance.
    if len(table.values) < len(others) + 3:
        return None
    values = table.values[:, column]
    left = values - table.values[:, others] @ coefficients
    left = left - table.shares @ left
    residual = float(np.sqrt(table.shares @ left**2))
    if residual > TOLERANCE or not _holds_without_outliers(values, left, table.shares):
        return None
    rounding = _rounding(float(table.grain[column]), table.grain[others], coefficients)
    # With units of 1e-300 and 1e300 in one table slopes are infinite, but the relation holds.
    with np.errstate(over="ignore", invalid="ignore"):
        slopes = coefficients * (table.scale[column] / table.scale[others])
        offset = float(table.center[column] - slopes @ table.center[others])
    # Coefficients are known no better than values, which tells far from zero.
    reach = 1 + float(np.sum(np.abs(table.center[others]) / table.scale[others]))
    unknown = 10 * (residual + rounding) * reach * table.scale[column]
    return Relation(
        column=table.numbers[column],
        others=tuple(table.numbers[one] for one in others),
        slopes=slopes,
        offset=offset if abs(offset) > unknown else 0.0,
        residual=residual,
        rounding=rounding,
    )


def _holds_without_outliers(
    values: Float[np.ndarray, " k"], left: Float[np.ndarray, " k"], shares: Float[np.ndarray, " k"]
) -> bool:
    """One huge value in the same row of two columns makes their correlation one, and no more."""
    inner = np.argsort(np.abs(values))[: -max(1, int(_OUTLIERS * len(values)))]
    values, left, shares = values[inner], left[inner], shares[inner] / shares[inner].sum()
    spread = shares @ (values - shares @ values) ** 2
    return bool(spread == 0 or shares @ (left - shares @ left) ** 2 <= TOLERANCE**2 * spread)
