"""Noise that is drawn: the paper's f_K, for any basis.

Plain score matching on K noisy copies x_a + σu_ak of every row. The directions u are the row's own:
which of a bank of draws it gets follows from a hash of its content, so that weights, order, blocks
and machines change nothing, and all noise scales share them. For tuning, the sums of a block at σ'
near σ move rows to x + (σ' − σ)u and the base's gradient with its Hessian, which has the right
value and derivative at σ' = σ.

| symbol | name       | shape  |
|--------|------------|--------|
| u      | directions | (n, d) |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import jax.numpy as jnp
import numpy as np
from jax.tree_util import register_dataclass
from jaxtyping import Array, Float

from kexpfam.choices import whole
from kexpfam.data.blocks import Block
from kexpfam.data.sketch import row_keys, uniform_numbers
from kexpfam.noise.distributions import GaussianNoise, Noise, NoNoise

__all__ = ["MonteCarloNoise", "TreatedNoise", "check_distribution"]

_BANK = 1 << 16


class TreatedNoise(Noise):
    """A treatment of a distribution: as a distribution it is that one."""

    distribution: Noise

    def characteristic(self, frequencies: Float[Array, "q d"], scale: Any) -> Float[Array, " q"]:
        return self.distribution.characteristic(frequencies, scale)

    def sample(
        self, n_samples: int, n_columns: int, scale: float, generator: np.random.Generator
    ) -> Float[np.ndarray, "n d"]:
        return self.distribution.sample(n_samples, n_columns, scale, generator)


def check_distribution(distribution: Any) -> None:
    """Refuse what is no noise."""
    if not isinstance(distribution, Noise):
        raise ValueError(
            f"distribution must be an object like GaussianNoise(); got {distribution!r}."
        )


@register_dataclass
@dataclass(frozen=True)
class MonteCarloNoise(TreatedNoise):
    """Noise that is drawn: every row counts as `n_draws` noisy copies of itself.

    Parameters
    ----------
    distribution : Noise, default=GaussianNoise()
        The distribution to draw from.
    n_draws : int, default=8
        Copies of each row, K.
    seed : int, default=0
        Of the draws.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, LaplaceNoise, MonteCarloNoise, NystromFeatures
    >>> model = KernelExponentialFamily(
    ...     basis=NystromFeatures(functions="derivatives"), noise=MonteCarloNoise(LaplaceNoise())
    ... )
    """

    distribution: Noise = field(default_factory=GaussianNoise)
    # Compiled code sees these as numbers that it does not use: no copy of it for each.
    n_draws: Any = 8
    seed: Any = 0
    enters: ClassVar[Literal["in closed form", "drawn", "expanded"]] = "drawn"

    def checked_for(self, basis: Any) -> Noise:
        whole("n_draws", self.n_draws)
        check_distribution(self.distribution)
        NoNoise().checked_for(basis)
        return self

    @cached_property
    def _banks(self) -> dict[int, Float[np.ndarray, "n d"]]:
        return {}

    def copies(
        self, rows: Float[np.ndarray, "n d"], noise_scale: float
    ) -> Iterator[tuple[Float[np.ndarray, "n d"], Float[np.ndarray, "n d"] | None]]:
        if noise_scale == 0:
            yield rows, None
            return
        n_columns = rows.shape[1]
        if n_columns not in self._banks:
            generator = np.random.default_rng(self.seed)
            self._banks[n_columns] = self.distribution.sample(_BANK, n_columns, 1.0, generator)
        keys = row_keys(rows, self.seed)
        for number in range(self.n_draws):
            places = (uniform_numbers(keys, number + 1) * _BANK).astype(np.int64)
            directions = self._banks[n_columns][places]
            yield rows + noise_scale * directions, directions

    def moments_follow_scale(self, basis: Any) -> bool:
        return True

    def moments(self, basis: Any, block: Block, noise_scale: Any) -> Any:
        if block.directions is not None:
            shifts = (noise_scale - block.noise_scale) * block.directions
            hessian = jnp.broadcast_to(block.base_hessian, (*shifts.shape, shifts.shape[1]))
            slope = block.base_gradient + jnp.einsum("nij,nj->ni", hessian, shifts)
            block = block._replace(rows=block.rows + shifts, base_gradient=slope)
        return basis.moments(block, NoNoise(), 0.0)

    def system(self, basis: Any, moments: Any, noise_scale: Any) -> Any:
        return basis.system(moments, NoNoise(), 0.0)
