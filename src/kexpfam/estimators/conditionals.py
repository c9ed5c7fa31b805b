"""The distribution of some columns of a table given the others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from kexpfam.choices import seeded, shown
from kexpfam.choices import share as checked_share
from kexpfam.model.chain_completions import Completions, completed
from kexpfam.pipeline.chain import ChainFit
from kexpfam.types import Array, Seed, Table

__all__ = ["TableConditional"]


class TableConditional(NamedTuple):
    """Weighted draws of some columns at rows, by `KernelChain.conditional`.

    All methods refer to the rows for which the distribution was requested.
    """

    fitted: ChainFit
    codes: Float[np.ndarray, "n d"]
    places: list[int]
    completions: Completions
    index: Any

    @classmethod
    def drawn(
        cls,
        fit: ChainFit,
        codes: Float[np.ndarray, "n d"],
        places: list[int],
        n_draws: int,
        generator: np.random.Generator,
        index: Any,
    ) -> TableConditional:
        """Draws given the values of the other columns."""
        given = codes.copy()
        given[:, places] = np.nan
        return cls(fit, codes, places, completed(fit.density, given, n_draws, generator), index)

    def __repr__(self) -> str:
        labels = self.fitted.table.labels()
        names = ", ".join(labels[place] for place in self.places)
        n_rows, n_draws = self.completions.log_weights.shape
        return (
            f"<TableConditional of {names} given the other columns: {n_draws} draws at each of "
            f"{n_rows} rows>"
        )

    @property
    def effective_sample_size(self) -> Array:
        """The number of draws of equal weight with the same precision, for each row."""
        return self.completions.effective_sizes()

    def log_density(self) -> tuple[Array, Array]:
        """log p of the values in the columns given the others, and its standard error.

        Returns
        -------
        log_density, error : ndarrays of shape (n_samples,)
            NaN if one of the values is missing.
        """
        whole = self.codes.copy()
        logs, errors = self.completions.log_density()
        # What is missing elsewhere is integrated out in both.
        elsewhere = np.isnan(whole)
        elsewhere[:, self.places] = False
        density = self.fitted.density
        joint = np.empty(len(whole))
        complete = ~elsewhere.any(axis=1)
        joint[complete] = density.log_density(whole[complete])
        if not complete.all():
            n_draws = self.completions.log_weights.shape[1]
            generator = np.random.default_rng(0)
            found = completed(density, whole[~complete], n_draws, generator).log_density()
            joint[~complete] = found[0]
            errors[~complete] = np.hypot(errors[~complete], found[1])
        joint[np.isnan(whole[:, self.places]).any(axis=1)] = np.nan
        return joint - logs, errors

    def quantiles(self, column: Any, levels: Any = (0.05, 0.5, 0.95)) -> Array:
        """Quantiles of one of the columns, which must hold numbers or grades (as positions).

        Parameters
        ----------
        column : name or number
        levels : float or sequence of float, default=(0.05, 0.5, 0.95)

        Returns
        -------
        ndarray of shape (n_samples, n_levels)
        """
        place = self._place(column)
        if self.fitted.table.kinds[place].is_category:
            raise ValueError(f"{shown(column)} is a category: ask for its probabilities instead.")
        wanted = np.array([checked_share("levels", level) for level in np.atleast_1d(levels)])
        values = self.completions.draws[:, :, place]
        order = np.argsort(values, axis=1)
        values = np.take_along_axis(values, order, axis=1)
        sums = np.take_along_axis(self.completions.shares, order, axis=1).cumsum(axis=1)
        below = (sums[:, :, None] < wanted * sums[:, -1:, None]).sum(axis=1)
        places = np.minimum(below, values.shape[1] - 1)
        return np.take_along_axis(values, places, axis=1)

    def probabilities(self, column: Any) -> dict[Any, Array]:
        """The probability of each value of one of the columns, which must have few values.

        Parameters
        ----------
        column : name or number of a category or grade

        Returns
        -------
        dict
            A mapping of values to ndarrays of shape (n_samples,); rare values are combined as "rare
            values".
        """
        place = self._place(column)
        kind = self.fitted.table.kinds[place]
        if not kind.levels:
            raise ValueError(f"{shown(column)} is a number: ask for its quantiles instead.")
        codes, shares = self.completions.draws[:, :, place], self.completions.shares
        names = [*kind.levels, *([kind.pool_name] if kind.pooled else [])]
        return {name: (shares * (codes == code)).sum(axis=1) for code, name in enumerate(names)}

    def sample(self, random_state: Seed = None) -> Table:
        """The rows with the columns drawn once, as the kind of table that the model was fitted to.

        Parameters
        ----------
        random_state : int, RandomState, Generator or None, default=None
        """
        generator = seeded(random_state)
        drawn = self.codes.copy()
        drawn[:, self.places] = self.completions.chosen(generator)[:, self.places]
        return self.fitted.table.table(drawn, generator, self.index)

    def _place(self, column: Any) -> int:
        labels = self.fitted.table.labels()
        place = labels.index(str(column)) if str(column) in labels else -1
        if place not in self.places:
            asked = ", ".join(repr(labels[one]) for one in self.places)
            raise ValueError(f"{shown(column)} is not among the columns asked for: {asked}.")
        return place
