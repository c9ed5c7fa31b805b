"""Missing values of rows, drawn many times given the values that are present, with importance
weights.

Categories and whole numbers are drawn along the chain, given what stands before them; numbers with
densities from the mixture given all values that are present. With the density q of these draws,

    weight = p(row) / q(drawn),        mean weight ≈ p(values present),

so that weighted draws have the chain's distribution given the values that are present, and the mean
weight the density of the values that are present with all else integrated out. Where the chain is
its mixture alone and only numbers with densities are missing, all weights of a row are equal, and
draws exact.

| name        | shape     | meaning                          |
|-------------|-----------|----------------------------------|
| draws       | (n, r, d) | complete rows, as numbers        |
| log_weights | (n, r)    |                                  |
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from kexpfam.data.layout import Parts
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_draws import drawn_discrete

__all__ = ["Completions", "are_exact", "completed"]

# Numbers in the draws of a block of rows.
_BLOCK_NUMBERS = 400_000


class Completions(NamedTuple):
    """Weighted draws of rows."""

    draws: Float[np.ndarray, "n r d"]
    log_weights: Float[np.ndarray, "n r"]

    @property
    def shares(self) -> Float[np.ndarray, "n r"]:
        """Weights of sum one."""
        top = self.log_weights.max(axis=1, keepdims=True)
        weights = np.exp(self.log_weights - np.where(np.isfinite(top), top, 0.0))
        weights = np.where(np.isfinite(top), weights, 1.0)
        return weights / weights.sum(axis=1, keepdims=True)

    def effective_sizes(self) -> Float[np.ndarray, " n"]:
        """How many draws of equal weight would say as much (Kish)."""
        return 1 / (self.shares**2).sum(axis=1)

    def log_density(self) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """log p of the values that are present, and its standard error."""
        count = self.log_weights.shape[1]
        logs = logsumexp(self.log_weights, axis=1) - np.log(count)
        relative = self.shares * count - 1
        return np.asarray(logs), np.sqrt((relative**2).mean(axis=1) / count)

    def chosen(self, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """One draw of each row, by its weights."""
        sums = self.shares.cumsum(axis=1)
        places = (generator.random((len(sums), 1)) * sums[:, -1:] > sums).sum(axis=1)
        places = np.minimum(places, sums.shape[1] - 1)
        return self.draws[np.arange(len(sums)), places]


def are_exact(density: ChainDensity, rows: Float[np.ndarray, "n d"]) -> bool:
    """Whether all weights of each row are equal, so that one draw of it is as good as many."""
    known = ~np.isnan(density.layout.split(rows).codes).any()
    return bool(known and not density.has_tilt and density.is_open.all())


def completed(
    density: ChainDensity,
    rows: Float[np.ndarray, "n d"],
    n_draws: int,
    generator: np.random.Generator,
) -> Completions:
    """Draws of what is NaN in each row, given the rest of it."""
    size = max(1, _BLOCK_NUMBERS // (n_draws * max(rows.shape[1], 1)))
    blocks = [
        _of_block(density, rows[start : start + size], n_draws, generator)
        for start in range(0, len(rows), size)
    ]
    return Completions(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _of_block(
    density: ChainDensity,
    rows: Float[np.ndarray, "n d"],
    n_draws: int,
    generator: np.random.Generator,
) -> Completions:
    repeated = np.repeat(rows, n_draws, axis=0)
    given = density.layout.split(repeated)
    # Discrete values along the chain; what is drawn is not missing any more.
    discrete = drawn_discrete(density, given, generator)
    numbers, log_proposal = _drawn_numbers(density, discrete, generator)
    found = discrete._replace(numbers=numbers)
    terms = density.terms(found)
    by_chain_codes = np.isnan(given.codes) & ~np.isnan(found.codes)
    by_chain_numbers = (
        np.isnan(given.numbers) & ~np.isnan(found.numbers) & density.layout.is_lattice
    )
    log_weights = terms.categories.sum(axis=1, where=~by_chain_codes)
    log_weights += terms.numbers.sum(axis=1, where=~by_chain_numbers) - log_proposal
    beyond = density.layout.split(density.layout.join(found.codes, numbers)).outside
    log_weights[(beyond | given.outside).any(axis=1)] = -np.inf
    draws = density.layout.join(found.codes, numbers)
    shape = len(rows), n_draws
    return Completions(draws.reshape(*shape, -1), log_weights.reshape(shape))


def _drawn_numbers(
    density: ChainDensity, parts: Parts, generator: np.random.Generator
) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, " n"]]:
    """Numbers with densities from the mixture, and log densities of these draws."""
    layout, numbers = density.layout, parts.numbers
    wanted = np.isnan(numbers) & ~density.atoms(parts) & ~layout.is_lattice
    if density.mixture is None or density.marginals is None or not wanted.any():
        return numbers, np.zeros(len(numbers))
    inputs = density.inputs(parts)
    known = np.concatenate([density.scores(inputs.indicators), inputs.mapped], axis=1)
    filled = density.mixture.conditional_fill(
        known, generator.random(len(known)), generator.standard_normal(known.shape)
    )
    first = known.shape[1] - numbers.shape[1]
    drawn = known.copy()
    drawn[:, first:] = np.where(wanted, filled[:, first:], inputs.mapped)
    log_proposal = density.mixture.log_marginal(drawn) - density.mixture.log_marginal(known)
    values = density.maps.backward(np.where(wanted, drawn[:, first:], 0.0))
    slopes = density.maps.log_slopes(values, density.mapped(values))
    log_proposal += slopes.sum(axis=1, where=wanted)
    return np.where(wanted, values, numbers), log_proposal
