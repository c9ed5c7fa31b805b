"""Tables that have no density, or hardly one, and the columns that are to blame.

| finding      | what it is                                                  | what follows |
|--------------|-------------------------------------------------------------|--------------|
| "dependent"  | a column that follows linearly from others, to rounding     | an error     |
|              | the same to within 1e-6 of its std, or of spread ties       | a warning    |
| "index"      | 0, 1, 2, …: an index that was saved with the table          | a warning    |
| "identifier" | a whole number of its own for every row                     | a warning    |
| "few rows"   | no more distinct rows than columns                          | a warning    |
| "outlier"    | values a million times further out than half of the others  | a warning    |

An error is raised where the density does not exist: all rows lie on a plane, and the thinner a
model is across it, the likelier they are, without limit. Columns whose repeated values are spread
over cells before they are fitted leave that plane. (Constant columns are refused earlier, by
`standardizer_from`.)
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.data.columns import called, dropping, in_formula
from kexpfam.data.dependence import TOLERANCE, Relation, linear_relations
from kexpfam.data.identifiers import Numbering, row_numbers
from kexpfam.exceptions import DegenerateTableError, DegenerateTableWarning

__all__ = ["Degeneracy", "degeneracies", "warn_of_degeneracies"]

_MOST_NAMED = 5
# Interquartile ranges from the median. A thousand Cauchy numbers reach a thousand.
_OUTLYING = 1e6
_MOST_TERMS = 4
# What pandas and R call an index that they write.
_INDEX_NAMES = {"", "index", "level_0", "row", "rownames", "row_names"}
_UNNAMED = "unnamed"
_SPREAD = (
    "Repeated values are spread over cells, so a density exists, but the column adds nothing to "
    "the others."
)


class Degeneracy(NamedTuple):
    """What is wrong with a table, in a sentence.

    `column` is the one to leave out, if that helps; `no_density` says that there is none.
    """

    kind: Literal["dependent", "index", "identifier", "few rows", "outlier"]
    column: int | None
    words: str
    no_density: bool = False


def degeneracies(
    rows: Float[np.ndarray, "k d"],
    weights: Float[np.ndarray, " k"],
    names: Sequence[str] | None,
    n_rows: int,
    cells: Float[np.ndarray, " d"] | None = None,
) -> list[Degeneracy]:
    """What makes a table degenerate, from its sketch in the user's units.

    `n_rows` is the number of rows in the whole table. `cells` are the widths over which the values
    of each column are spread before they are fitted, zero for columns that are taken as they are.
    """
    n_given, n_columns = rows.shape
    found = []
    for relation in linear_relations(rows, weights):
        spread = cells is not None and bool(cells[[relation.column, *relation.others]].any())
        # With so few rows a relation may be chance.
        certain = n_given >= n_columns + 2
        found.append(
            Degeneracy(
                kind="dependent",
                column=relation.column,
                words=_in_words(relation, names, spread),
                no_density=relation.exact and certain and not spread,
            )
        )
    if n_given <= n_columns:
        words = (
            f"There are {n_given} distinct rows for {n_columns} columns: some columns follow from "
            "the others whatever the rows hold. Give more rows or fewer columns."
        )
        found.append(Degeneracy("few rows", None, words))
    found += [_numbering(one, names) for one in row_numbers(rows, weights, n_rows)]
    found += _outliers(rows, names)
    return found


def _outliers(rows: Float[np.ndarray, "k d"], names: Sequence[str] | None) -> list[Degeneracy]:
    """Columns whose standard deviation says nothing of most of their values."""
    quarters = np.quantile(rows, [0.25, 0.5, 0.75], axis=0)
    widths = np.maximum(quarters[2] - quarters[0], np.finfo(float).tiny)
    # Where half of the values are equal there is no width to measure by.
    distances = np.where(quarters[2] > quarters[0], np.abs(rows / 2 - quarters[1] / 2) / widths, 0)
    found = []
    for column in np.flatnonzero(distances.max(axis=0) > _OUTLYING / 2):
        row = int(distances[:, column].argmax())
        words = (
            f"{_capitalized(called(int(column), names))} holds {rows[row, column]:.4g}, while half "
            f"of its values lie between {quarters[0, column]:.4g} and {quarters[2, column]:.4g}: "
            "units are set by that value alone. Remove such rows if they are mistakes, or use "
            "logarithms."
        )
        found.append(Degeneracy("outlier", None, words))
    return found


def warn_of_degeneracies(
    rows: Float[np.ndarray, "k d"],
    weights: Float[np.ndarray, " k"],
    names: Sequence[str] | None,
    n_rows: int,
    cells: Float[np.ndarray, " d"] | None = None,
    stacklevel: int = 2,
) -> None:
    """Raise if the table has no density; warn, once, of whatever else is odd about it.

    Arguments are those of `degeneracies`, and `stacklevel` that of `warnings.warn`.
    """
    found = degeneracies(rows, weights, names, n_rows, cells)
    if not found:
        return
    found.sort(key=lambda one: not one.no_density)
    sentences = [one.words for one in found[:_MOST_NAMED]]
    if len(found) > _MOST_NAMED:
        sentences.append(f"And {len(found) - _MOST_NAMED} more columns of these kinds.")
    # A column may number the rows and be a copy of another at once.
    columns = list(dict.fromkeys(one.column for one in found if one.column is not None))
    if columns:
        sentences.append(f"Leave such columns out: {dropping(columns, names)}.")
    if found[0].no_density:
        raise DegenerateTableError(
            "The table has no density, because its rows lie on a plane. " + " ".join(sentences)
        )
    warnings.warn(
        "The table is degenerate or nearly so, and its log densities may mean little. "
        + " ".join(sentences),
        DegenerateTableWarning,
        stacklevel=stacklevel + 1,
    )


def _in_words(relation: Relation, names: Sequence[str] | None, spread: bool) -> str:
    column, others = relation.column, relation.others
    formula = _formula(relation, names)
    one = _capitalized(called(column, names))
    if formula == f"{in_formula(column, names)} = {in_formula(others[0], names)}":
        what = f"{one} equals {called(others[0], names)}"
    elif len(others) == 1:
        what = f"{one} is a linear function of {called(others[0], names)} ({formula})"
    elif len(others) <= _MOST_TERMS:
        *first, last = (called(other, names) for other in others)
        listed = f"{', '.join(first)} and {last}"
        what = f"{one} is a linear combination of {listed} ({formula})"
    else:
        some = ", ".join(called(other, names) for other in others[:_MOST_TERMS])
        what = (
            f"{one} is a linear combination of {len(others)} others ({some} and "
            f"{len(others) - _MOST_TERMS} more)"
        )
    if not relation.exact:
        return (
            f"{what} to within {relation.residual:.1g} of its standard deviation (the limit is "
            f"{TOLERANCE:g})."
        )
    left = f"what is left is below {relation.rounding:.1g} of its standard deviation"
    return f"{what} to rounding ({left}).{' ' + _SPREAD if spread else ''}"


def _capitalized(text: str) -> str:
    return text[:1].upper() + text[1:]


def _formula(relation: Relation, names: Sequence[str] | None) -> str:
    """Such as gross = net + 1.19 · tax."""
    text = f"{in_formula(relation.column, names)} ="
    for slope, other in zip(relation.slopes, relation.others, strict=True):
        size = f"{abs(slope):.6g}"
        factor = "" if size == "1" else f"{size} · "
        text += f" {'−' if slope < 0 else '+'} {factor}{in_formula(other, names)}"
    if relation.offset:
        text += f" {'−' if relation.offset < 0 else '+'} {abs(relation.offset):.6g}"
    return text.replace("= + ", "= ").replace("= − ", "= −")


def _numbering(numbering: Numbering, names: Sequence[str] | None) -> Degeneracy:
    column, low, high, counts_rows = numbering
    one = _capitalized(called(column, names))
    name = None if names is None else str(names[column]).strip().lower()
    accident = name is not None and (name in _INDEX_NAMES or name.startswith(_UNNAMED))
    if not (counts_rows or accident):
        words = (
            f"{one} holds a whole number of its own for every row, from {low} to {high}: it looks "
            "like an identifier, not like something that was measured."
        )
        return Degeneracy("identifier", column, words)
    words = (
        f"{one} numbers the rows, from {low} to {high}: it looks like an index that was saved by "
        "accident (pandas leaves it out with to_csv(index=False))."
    )
    return Degeneracy("index", column, words)
