"""Draws along a chain: one variable after the other, each given what was drawn before.

A category is drawn by its probabilities. For a number a uniform u becomes the share v of its
untilted distribution that lies below it (`kexpfam.model.residual_tilt.tilted_levels`), and v the
number itself, a quantile of mixture and bell. A whole number is the one whose cell is hit, or one
that was seen with a category (`kexpfam.model.level_frequencies`). Numbers are drawn where rows have
been, and a little beyond (`Chain.drawn_between`).

What is missing in a row tells something about the rest of it. So rows of a table with missing
values are drawn as its rows were, some of them with holes; and then the holes are filled, too.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Bool, Float

from kexpfam.base.line import line_mixture_draws, line_mixture_quantiles
from kexpfam.base.ordered import Column
from kexpfam.data.layout import Parts
from kexpfam.model.chain_slices import Chain
from kexpfam.model.chain_terms import Inputs
from kexpfam.model.residual_tilt import tilted_levels

__all__ = ["drawn_discrete", "drawn_rows"]


def drawn_rows(
    chain: Chain,
    rows: Float[np.ndarray, "n d"],
    generator: np.random.Generator,
    flags: Bool[np.ndarray, "n f"] | None = None,
) -> Float[np.ndarray, "n d"]:
    """Rows with each NaN drawn given what stands before it in the chain, and nothing else.

    Where `flags` are given, for columns that were missing in some rows, rows are such as have had
    these values missing.
    """
    parts = drawn_discrete(chain, chain.layout.split(rows), generator, flags)
    numbers = _drawn_numbers(chain, parts, ~chain.layout.is_lattice, generator)
    return chain.layout.join(parts.codes, numbers)


def drawn_discrete(
    chain: Chain,
    parts: Parts,
    generator: np.random.Generator,
    flags: Bool[np.ndarray, "n f"] | None = None,
) -> Parts:
    """Categories and whole numbers with each NaN drawn, which is not missing any more."""
    missing = np.zeros_like(parts.missing)
    if flags is not None:
        missing[:, list(chain.layout.flagged)] = flags
    parts = parts._replace(missing=missing)
    parts = parts._replace(codes=_drawn_codes(chain, parts, generator))
    numbers = _drawn_numbers(chain, parts, chain.layout.is_lattice, generator)
    return parts._replace(numbers=numbers)


def _drawn_codes(
    chain: Chain, parts: Parts, generator: np.random.Generator
) -> Float[np.ndarray, "n c"]:
    """Categories with each NaN drawn."""
    codes = parts.codes.copy()
    for place, (term, offset) in enumerate(
        zip(chain.category_terms, chain.layout.offsets, strict=False)
    ):
        gone = np.flatnonzero(np.isnan(codes[:, place]))
        uniform = generator.random(len(gone))
        indicators = chain.layout.indicators(parts._replace(codes=codes))[gone, :offset]
        sums = np.exp(term.log_probabilities(indicators)).cumsum(axis=1)
        drawn = (uniform[:, None] * sums[:, -1:] > sums).sum(axis=1)
        codes[gone, place] = np.minimum(drawn, sums.shape[1] - 1)
    return codes


def _drawn_numbers(
    chain: Chain,
    parts: Parts,
    wanted: Bool[np.ndarray, " m"],
    generator: np.random.Generator,
) -> Float[np.ndarray, "n m"]:
    """Some of the numbers, drawn where they are NaN and no atom is there."""
    layout, numbers = chain.layout, parts.numbers.copy()
    if chain.marginals is None:
        return numbers
    is_atom = chain.atoms(parts)
    inputs = chain.inputs(parts)
    mapped, plain = inputs.mapped.copy(), inputs.plain.copy()
    for number in np.flatnonzero(wanted).tolist():
        open_ = np.isnan(numbers[:, number]) & ~is_atom[:, number]
        uniform = generator.random(len(numbers))
        if not open_.any():
            continue
        places = np.flatnonzero(open_)
        frequencies = chain.number_terms[number].frequencies
        with_level = np.full(len(places), np.nan)
        if frequencies is not None:
            with_level, uniform[places] = frequencies.drawn(parts.codes[places], uniform[places])
        own = Inputs(*(part[places] for part in inputs._replace(mapped=mapped, plain=plain)))
        # What comes later does not matter: as if it were there, the same factors serve all numbers.
        standing = own.mapped.copy()
        standing[:, number:] = 0.0
        columns = chain.conditionals(own._replace(mapped=standing), number)
        mapped[places, number] = found = _drawn_values(chain, columns, own, number, uniform[places])
        own_map = chain.maps.column(number)
        values = own_map.backward(found[:, None])
        low, high = (end[number] for end in layout.support)
        if layout.is_lattice[number]:
            values = np.clip(np.rint(values), low + 0.5, high - 0.5)
            values = np.where(np.isnan(with_level), values[:, 0], with_level)[:, None]
            mapped[places, number] = own_map.forward(values)[:, 0]
        numbers[places, number] = np.clip(values, low, high)[:, 0]
        plain[places, number] = own_map.plain(values)[:, 0]
    return numbers


def _drawn_values(
    chain: Chain,
    columns: Iterable[tuple[Column, np.ndarray]],
    inputs: Inputs,
    number: int,
    uniform: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Mapped numbers of a column, from its conditionals for some rows after the other."""
    term, found = chain.number_terms[number], np.empty(len(uniform))
    before = inputs.before(number, term.plain)
    bell = levels = None
    if term.location is not None:
        bell, share = term.bell(before), (term.share * inputs.known[:, number])[:, None]
    if term.functions is not None:
        slopes = term.slopes(before) * inputs.familiar[:, [number]]
        levels = tilted_levels(slopes, uniform)
    support = tuple(chain.drawn_between[:, number].tolist())
    for (log_weights, residuals, deviations), some in columns:
        deviations = np.broadcast_to(deviations, residuals.shape)
        centers = -deviations * residuals
        if bell is not None:
            own = (part[some] for part in bell)
            with np.errstate(divide="ignore"):
                logs = np.log1p(-share[some]) + log_weights, np.log(share[some]) + next(own)
            log_weights = np.concatenate(logs, axis=1)
            centers = np.concatenate([centers, next(own)], axis=1)
            deviations = np.concatenate([deviations, next(own)], axis=1)
        on_line = log_weights, centers, deviations, support
        if levels is None:
            found[some] = line_mixture_draws(*on_line, uniform[some])
        else:
            found[some] = line_mixture_quantiles(*on_line, levels[some])
    return found
