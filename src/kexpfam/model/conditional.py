"""The density of one target given inputs, normalized by quadrature.

    p(y | x) = (1 − w) p_kernel(y | x) + w p_mixture(y | x)
    log p_kernel(y | x) = f(r, x) + log q(r) − log s(x) + log t'(y) − log Z(x)
    r = (t(y) − μ(x)) / s(x)          s(x)² = factor² stretch² (v(x) + σ²)
    f(r, x) = b(r)ᵀAᵀψ(x)             Z(x) = ∫ q(r) exp f(r, x) dr

The location's own variance v grows outside the data, and the scale with it; ψ ends there at its
constant and plane. What comes from the same nodes (cdf, quantiles, moments) is in
`kexpfam.model.slices`. Where held-out rows prefer it, a Gaussian mixture of inputs and target, read
as a density of the target, has a share (`kexpfam.base.target_mixture`,
`kexpfam.model.pooled_slices`): it knows clusters, each with a slope and a scale of its own.

| symbol | name         | shape   |
|--------|--------------|---------|
| t      | response     |         |
| μ, v   | location     |         |
| ψ      | functions    | (m,)    |
| A      | coefficients | (m, k)  |
|        | factor       | what held-out residuals ask the scale to be multiplied by |
|        | stretch      | and what a tilted density is stretched by, so that its intervals cover |
|        | bounds       | the smallest and largest target; infinite where there is none |
|        | lattice      | the points that the target is one of, if it is               |
|        | mixture      | of standardized inputs and t(y), in this order, or none      |
| w      | share        | that of the mixture                                          |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float

from kexpfam.base.bell import bell_gradient
from kexpfam.base.location import Location
from kexpfam.base.ordered import OrderedMixture
from kexpfam.base.target_mixture import TargetLines, target_lines
from kexpfam.data.response import Response
from kexpfam.data.standardize import Standardizer
from kexpfam.features.inputs import InputFunctions
from kexpfam.features.residual import residual_functions
from kexpfam.model.at_rows import AtRows, location_at_rows
from kexpfam.model.lattice import Lattice, LatticeSlices, lattice_slices
from kexpfam.model.pooled_slices import PooledSlices
from kexpfam.model.slices import N_FINE_NODES, N_NODES, Slices, normalized_slices
from kexpfam.model.summaries import highest_density, mean_and_deviation, mode
from kexpfam.model.traced_conditional import ConditionalFunction, conditional_function

__all__ = ["ConditionalDensity"]

# Rows at a time: few enough that their values at nodes and points stay in the processor's cache.
_BLOCK = 256
_TINY = 1e-12


@dataclass(frozen=True)
class ConditionalDensity:
    """p(y | x) in the units of the data: a bell around a location, and perhaps a tilt of it."""

    standardizer: Standardizer
    response: Response
    location: Location
    factor: float
    functions: InputFunctions
    coefficients: Float[np.ndarray, "m k"]
    bounds: tuple[float, float]
    stretch: float = 1.0
    lattice: Lattice | None = None
    mixture: OrderedMixture | None = None
    share: float = 0.0

    @property
    def has_tilt(self) -> bool:
        """Whether it differs from its base density, the bell."""
        return self.bell_is_tilted or self.mixture is not None

    @property
    def bell_is_tilted(self) -> bool:
        """Whether the kernel's density is more than a bell."""
        return bool(self.coefficients.any())

    def untilted(self) -> ConditionalDensity:
        """The base density alone."""
        none = np.zeros_like(self.coefficients)
        return replace(self, coefficients=none, mixture=None, share=0.0)

    @cached_property
    def _lines(self) -> TargetLines | None:
        return None if self.mixture is None else target_lines(self.mixture)

    @property
    def _whole_factor(self) -> float:
        return self.factor * (self.stretch if self.bell_is_tilted else 1.0)

    def location_and_scale(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """μ and s, in the coordinate of t."""
        at = location_at_rows(self.location, None, self.standardizer.forward(rows))
        return at.mean, self._whole_factor * at.deviation

    def slices(
        self, rows: Float[np.ndarray, "n d"] | AtRows, n_nodes: int = N_FINE_NODES
    ) -> Slices | PooledSlices | LatticeSlices:
        """The normalized densities over y at rows, on nodes or on the points of a lattice."""
        at = rows
        if not isinstance(at, AtRows):
            functions = self.functions if self.bell_is_tilted else None
            at = location_at_rows(self.location, functions, self.standardizer.forward(at))
        mean, scale = at.mean, self._whole_factor * at.deviation
        if self.bell_is_tilted:
            assert at.functions is not None
            slopes = at.functions @ self.coefficients
        else:
            slopes = np.zeros((len(rows), self.coefficients.shape[1]))
        if self.lattice is not None:
            return lattice_slices(self.lattice, self.response, mean, scale, slopes)
        kernel = normalized_slices(self.response, mean, scale, slopes, self.bounds, n_nodes)
        if self._lines is None:
            return kernel
        return PooledSlices(kernel, self._lines.at(at.inputs), self.share, self.bounds)

    def blocks(
        self, rows: Float[np.ndarray, "n d"] | AtRows, n_nodes: int = N_FINE_NODES
    ) -> Iterator[tuple[Slices | PooledSlices | LatticeSlices, slice]]:
        """The slices of one block of rows after the other, and which rows they are."""
        for first in range(0, len(rows), _BLOCK):
            part = slice(first, first + _BLOCK)
            yield self.slices(rows[part], n_nodes), part

    def log_density(
        self, rows: Float[np.ndarray, "n d"] | AtRows, y: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """log p(y | x); −∞ outside the bounds."""
        return self.log_density_and_error(rows, y)[0]

    def log_density_and_error(
        self, rows: Float[np.ndarray, "n d"] | AtRows, y: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """log p(y | x), and an estimate of the quadrature's error in it."""
        pairs = (
            np.stack([slices.log_density(y[part]), slices.errors], axis=1)
            for slices, part in self.blocks(rows, N_NODES)
        )
        both = _joined(pairs, (2,))
        return both[:, 0], both[:, 1]

    def jax_function(self) -> ConditionalFunction:
        """log p as a JAX function of a row and a target, in the user's units and precision."""
        if self.lattice is not None:
            raise ValueError(
                "Targets on a lattice have probabilities, which have no JAX function yet. Fit with "
                "lattice=None for a density."
            )
        location = self.location
        return conditional_function(
            (self.standardizer.center, self.standardizer.scale),
            location.covariance._replace(noise=location.noise),
            (location.points, location.coefficients, location.root),
            self._whole_factor,
            self.response,
            self.functions,
            self.coefficients,
            (self._lines, self.share),
            self.bounds,
            N_FINE_NODES,
        )

    def log_density_table(
        self, rows: Float[np.ndarray, "n d"], targets: Float[np.ndarray, " m"]
    ) -> Float[np.ndarray, "n m"]:
        """log p(y | x) at all pairs of rows and targets."""
        parts = (
            slices.log_density(np.broadcast_to(targets, (len(rows[part]), len(targets))))
            for slices, part in self.blocks(rows, N_NODES)
        )
        return _joined(parts, (len(targets),))

    def derivatives(
        self, rows: Float[np.ndarray, "n d"], y: Float[np.ndarray, " n"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """∂_y log p and ∂²_y log p; NaN outside the bounds, where there is no density."""
        if self.lattice is not None:
            raise ValueError(
                "Targets on a lattice have probabilities, which have no derivatives. Fit with "
                "lattice=None for a density."
            )
        mean, scale = self.location_and_scale(rows)
        slopes = self.functions(self.standardizer.forward(rows)) @ self.coefficients
        residuals = (self.response.forward(y) - mean) / scale
        first, second = bell_gradient(residuals)
        first = first + (slopes * residual_functions(residuals, 1)).sum(axis=1)
        second = second + (slopes * residual_functions(residuals, 2)).sum(axis=1)
        gradient, laplacian = self.response.through(y, first / scale, second / scale**2)
        if self._lines is not None:
            gradient, laplacian = self._pooled_derivatives(rows, y, (gradient, laplacian))
        outside = (y < self.bounds[0]) | (y > self.bounds[1])
        return np.where(outside, np.nan, gradient), np.where(outside, np.nan, laplacian)

    def _pooled_derivatives(
        self,
        rows: Float[np.ndarray, "n d"],
        y: Float[np.ndarray, " n"],
        kernel: tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]],
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """Errors of the pool's log density, from those of the kernel's."""
        assert self._lines is not None
        lines = self._lines.at(self.standardizer.forward(rows))
        other = self.response.through(y, *lines.derivatives(self.response.forward(y)))
        alone = replace(self, mixture=None, share=0.0).log_density(rows, y)
        with np.errstate(invalid="ignore"):
            own = (1 - self.share) * np.exp(alone - self.log_density(rows, y))
        own = np.clip(np.nan_to_num(own), 0.0, 1.0)
        gradient = own * kernel[0] + (1 - own) * other[0]
        spread = own * (1 - own) * (kernel[0] - other[0]) ** 2
        return gradient, own * kernel[1] + (1 - own) * other[1] + spread

    def quantiles(
        self, rows: Float[np.ndarray, "n d"], levels: Float[np.ndarray, "n m"]
    ) -> Float[np.ndarray, "n m"]:
        """Targets with so much mass below, levels for each row."""
        found = (slices.quantiles(levels[part]) for slices, part in self.blocks(rows))
        return _joined(found, levels.shape[1:])

    def cdf(
        self, rows: Float[np.ndarray, "n d"] | AtRows, y: Float[np.ndarray, " n"]
    ) -> Float[np.ndarray, " n"]:
        """The mass below a target for each row."""
        found = (slices.cdf(y[part, None])[:, 0] for slices, part in self.blocks(rows))
        return _joined(found, ())

    def stretches(
        self, at: AtRows, y: Float[np.ndarray, " n"], coverage: float
    ) -> Float[np.ndarray, " n"]:
        """By how much each row's interval must be stretched about its location to reach y."""
        ends = np.broadcast_to([(1 - coverage) / 2, (1 + coverage) / 2], (len(at), 2))
        found = []
        for slices, part in self.blocks(at):
            mean, scale = at.mean[part], self._whole_factor * at.deviation[part]
            low, high = (
                (self.response.forward(end) - mean) / scale
                for end in slices.quantiles(ends[part]).T
            )
            residuals = (self.response.forward(y[part]) - mean) / scale
            # An interval on one side of the location is stretched away from it as it is: no more
            # can be said there than that the row is inside or not.
            high = np.where(high > 0, high, np.maximum(residuals, _TINY))
            low = np.where(low < 0, low, np.minimum(residuals, -_TINY))
            found.append(np.where(residuals > 0, residuals / high, residuals / low))
        return _joined(iter(found), ())

    def mean_and_deviation(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """E y and its standard deviation at each row."""
        pairs = (np.stack(mean_and_deviation(slices), axis=1) for slices, _ in self.blocks(rows))
        both = _joined(pairs, (2,))
        return both[:, 0], both[:, 1]

    def mode(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """The likeliest target at each row."""
        return _joined((mode(slices) for slices, _ in self.blocks(rows)), ())

    def highest_density(
        self, rows: Float[np.ndarray, "n d"], coverage: float
    ) -> Float[np.ndarray, "n k 2"]:
        """The shortest intervals with the given mass; NaN where a row has fewer than others."""
        parts = [highest_density(slices, coverage) for slices, _ in self.blocks(rows)]
        most = max((part.shape[1] for part in parts), default=1)
        padded = (
            np.pad(part, ((0, 0), (0, most - part.shape[1]), (0, 0)), constant_values=np.nan)
            for part in parts
        )
        return _joined(padded, (most, 2))


def _joined(
    parts: Iterator[Float[np.ndarray, "..."]], shape: tuple[int, ...]
) -> Float[np.ndarray, "..."]:
    return np.concatenate([np.zeros((0, *shape)), *parts])
