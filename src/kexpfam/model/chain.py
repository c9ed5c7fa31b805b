"""The density of a mixed table: one column after the other, each normalized on its own.

    log p(x) = Σ_i log p(x_i | x_<i)

    categories   p(c | x) = softmax_c (log share_c + A_cᵀψ(x))
    numbers      p(t | x) = q(t | x) ρ(r, x)           (`kexpfam.model.residual_tilt`)
                 q(t | x) = (1 − w) mixture(t | x) + w bell(t | x)

The mixture is one for all numbers together (`kexpfam.base.ordered`), after monotone maps of the
columns, with scores of the indicators as columns before them. The bell stands around a kernel
ridge regression on the columns before (`kexpfam.base.location`), with a share w where held-out rows
want one. Mixture and bell end at the bounds. A whole number has the mass of its cell, from half
below to half above. What is missing has no term; a mixture integrates it out, and for ψ it is in
the middle of its column.

| symbol | name       | meaning                                      |
|--------|------------|----------------------------------------------|
| t      | mapped     | (n, m), numbers after their monotone maps    |
|        | plain      | (n, m), numbers, only standardized           |
| ψ      | functions  | of indicators and of numbers before          |
| A      | coefficients | (m, k)                                     |
| w      | share      |                                              |
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.line import OnLine
from kexpfam.data.layout import Parts
from kexpfam.model.chain_derivatives import chain_derivatives
from kexpfam.model.chain_draws import drawn_rows
from kexpfam.model.chain_slices import Chain
from kexpfam.model.chain_terms import CategoryTerm, Inputs, NumberTerm, Terms
from kexpfam.model.density import Density
from kexpfam.model.residual_tilt import cell_log_ratio, log_ratio
from kexpfam.threads import in_threads, one_blas_thread

__all__ = ["ChainDensity"]

# Rows that one core looks at, column by column.
_ROWS, _FEWEST_ROWS = 1024, 64
# Draws that are made at a time.
_DRAWN = 64


@dataclass(frozen=True)
class ChainDensity(Chain, Density):
    """p of rows that are numbers or places among levels; NaN where a value is missing."""

    @property
    def has_tilt(self) -> bool:
        """Whether it differs from its base density: the mixture, and shares of the levels."""
        tilted = any(not term.is_empty for term in self.number_terms)
        return tilted or any(term.functions is not None for term in self.category_terms)

    def untilted(self) -> ChainDensity:
        """The base density alone."""
        return replace(
            self,
            category_terms=tuple(
                CategoryTerm(term.log_shares, None, None) for term in self.category_terms
            ),
            number_terms=tuple(NumberTerm() for _ in self.number_terms),
        )

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """log p of the values that are present: −∞ outside the bounds and at unknown levels."""
        return self.log_density_and_error(rows)[0]

    def log_density_and_error(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """log p, and an estimate of the quadratures' error in it."""
        parts = self.layout.split(rows)
        terms = self.terms(parts)
        logs = terms.categories.sum(axis=1) + terms.numbers.sum(axis=1)
        return np.where(parts.outside.any(axis=1), -np.inf, logs), terms.errors

    def draws_log_density(
        self, n_draws: int, generator: np.random.Generator
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """log p at draws, and the draws' shares; of rows in which nothing has been missing.

        Some at a time, which cores share among them; each with numbers of its own, so that the
        draws do not depend on the cores.
        """
        counts = [min(_DRAWN, n_draws - first) for first in range(0, n_draws, _DRAWN)]
        pairs = zip(counts, generator.spawn(len(counts)), strict=True)
        complete = replace(self, holes=None)
        draws = np.concatenate(list(in_threads(lambda pair: complete.sample(*pair), pairs)))
        return self.log_density(draws), np.full(n_draws, 1 / n_draws)

    @one_blas_thread()
    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Complete rows, each value drawn given those before it."""
        flags = None if self.holes is None else self.holes.drawn(n_samples, generator)
        nothing = np.full((n_samples, len(self.layout.kinds)), np.nan)
        return drawn_rows(self, nothing, generator, flags)

    def contributions(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """The terms of the table's columns."""
        parts = self.layout.split(rows)
        terms = self.terms(parts)
        found = np.where(parts.outside, -np.inf, 0.0)
        for place, column in enumerate(self.layout.categories):
            found[:, column] += terms.categories[:, place]
        for place, column in enumerate(self.layout.numerics):
            found[:, column] += terms.numbers[:, place]
        return found

    def terms_in_words(self) -> dict[int, str]:
        """What columns have beside the mixture and the shares of levels, by their number."""
        found: dict[int, list[str]] = {}
        for column, term in zip(self.layout.categories, self.category_terms, strict=True):
            if term.functions is not None:
                found.setdefault(column, []).append("probabilities that depend on other columns")
        for column, number in zip(self.layout.numerics, self.number_terms, strict=True):
            if number.location is not None:
                share = f"a regression with a share of {number.share:.2g}"
                found.setdefault(column, []).append(share)
            if number.functions is not None:
                found.setdefault(column, []).append("a tilt")
            if number.frequencies is not None:
                found.setdefault(column, []).append("frequencies of values with a category")
        return {column: " and ".join(words) for column, words in found.items()}

    @one_blas_thread()
    def terms(self, parts: Parts) -> Terms:
        """The chain rule, term by term."""
        inputs = self.inputs(parts)
        numbers, errors = self._number_logs(parts, inputs)
        return Terms(self._category_logs(parts.codes, inputs.indicators), numbers, errors)

    def number_logs(self, parts: Parts) -> Float[np.ndarray, "n m"]:
        """The terms of the numbers alone."""
        return self._number_logs(parts, self.inputs(parts))[0]

    def _category_logs(
        self, codes: Float[np.ndarray, "n c"], indicators: Float[np.ndarray, "n u"]
    ) -> Float[np.ndarray, "n c"]:
        logs = np.zeros(codes.shape)
        for place, (term, offset) in enumerate(
            zip(self.category_terms, self.layout.offsets, strict=False)
        ):
            there = np.flatnonzero(~np.isnan(codes[:, place]))
            probabilities = term.log_probabilities(indicators[there, :offset])
            own = codes[there, place].astype(int)
            logs[there, place] = probabilities[np.arange(len(there)), own]
        return logs

    def _number_logs(
        self, parts: Parts, inputs: Inputs
    ) -> tuple[Float[np.ndarray, "n m"], Float[np.ndarray, " n"]]:
        """log densities and masses of all numbers, and their errors."""
        logs, errors = np.zeros(parts.numbers.shape), np.zeros(len(parts.numbers))
        if self.marginals is None or self.mixture is None:
            return logs, errors
        there = ~np.isnan(parts.numbers)
        wanted = {
            number: self.needs_masses(number)
            for number in np.flatnonzero(there.any(axis=0)).tolist()
        }
        edges = self.edges(parts.numbers, inputs.mapped)

        def of_some(
            some: Int[np.ndarray, " j"],
        ) -> tuple[Float[np.ndarray, "m j"], Float[np.ndarray, " j"]]:
            rows, where = Inputs(*(part[some] for part in inputs)), edges[:, some]
            lines = self.mixture_lines(rows, where, wanted)
            found, error = np.zeros(lines[:, 0].shape), np.zeros(lines.shape[2])
            for number in wanted:
                own, here = rows, there[some, number]
                if not here.all():
                    own = Inputs(*(part[here] for part in rows))
                line = OnLine(*lines[number][:, here])
                line = self.with_bell(line, own, number, where[:, here, number])
                found[number, here] = line.log_probability()
                if self.number_terms[number].functions is not None:
                    ratio, more = self._log_ratio(own, number, line)
                    found[number, here] += ratio
                    error[here] += more
            return found, error

        # Rows with the same columns side by side: they share the factors of the mixture.
        order = np.arange(len(logs)) if there.all() else np.lexsort(there.T)
        size = min(_ROWS, max(_FEWEST_ROWS, -(-len(logs) // 2)))
        blocks = [order[start : start + size] for start in range(0, len(logs), size)]
        for some, (found, error) in zip(blocks, in_threads(of_some, blocks), strict=True):
            logs[some], errors[some] = found.T, error
        for number, term in enumerate(self.number_terms):
            if term.frequencies is not None:
                logs[:, number] = term.frequencies.stacked(
                    logs[:, number], parts.codes, parts.numbers[:, number]
                )
        slopes = self.maps.log_slopes(parts.numbers, inputs.mapped)
        logs += np.where(self.layout.is_lattice, 0.0, slopes)
        return np.where(there, logs, 0.0), errors

    def _log_ratio(
        self, inputs: Inputs, number: int, line: OnLine
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """What the tilt of a number adds, and an estimate of the error in it."""
        term = self.number_terms[number]
        slopes = term.slopes(inputs.before(number, term.plain)) * inputs.familiar[:, [number]]
        if self.layout.is_lattice[number]:
            ratio = cell_log_ratio(slopes, *line.ends(), line.residuals())
            return ratio, np.zeros(len(ratio))
        return log_ratio(slopes, line.residuals())

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        """∂ log p / ∂x_j; NaN for columns with masses, and where a value is missing."""
        return chain_derivatives(self, rows, second=False)[0]

    def laplacian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """The sum of ∂² log p / ∂x_j² over the columns that have them."""
        return np.nansum(chain_derivatives(self, rows, second=True)[1], axis=1)
