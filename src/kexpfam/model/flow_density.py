"""The density of a probability flow, in the user's units.

    p(x) = |dz/dx| q(z) [(1 − ε) eᵍ + ε],      z(x): marginal maps and whitening

with the gain g(z) by the flow (see `kexpfam.model.flow`) and a little of the base density q, so
that no row can fall far below it: log p ≥ log q + log ε. Where even short steps cannot follow the
flow, far outside the data, q alone stands for both. Without a tilt the model is q, smoothed by the
lowest noise, and everything is in closed form. With w = (1 − ε) eᵍ / [(1 − ε) eᵍ + ε],

    ∇log p = ∇log q + w ∇g        ∇²log p = ∇²log q + w ∇²g + w (1 − w) ∇g ∇gᵀ.

Rows are taken in blocks of two sizes, so that everything is compiled once and a few rows do not pay
for many. A row's result does not depend on the rows beside it.

| symbol | name       | shape |
|--------|------------|-------|
| ε      | BASE_SHARE | ()    |
| g      | gains      | (n,)  |
| w      | shares     | (n,)  |
|        | steps      | (l − 1,), of the flow, for each stretch between two levels |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.smoothed import MixtureScore
from kexpfam.data.blocks import padded
from kexpfam.data.coordinates import Coordinates
from kexpfam.model.density import RealDensity
from kexpfam.model.flow import (
    flow_down,
    flow_times,
    flow_up,
    steps_needed,
)
from kexpfam.model.flow_derivatives import flow_derivatives
from kexpfam.model.health import POOR_FLOW
from kexpfam.model.score_field import ScoreField
from kexpfam.model.surprise import (
    QUANTILE_LEVELS,
    ColumnGrids,
    grids_of_mixture,
    with_columns,
)
from kexpfam.model.traced import LogDensityFunction
from kexpfam.model.traced_flow import TracedFlow
from kexpfam.precision import compiled

__all__ = ["BASE_SHARE", "FlowDensity", "flow_density"]

# Rows that are followed together, and fewer of them where no more are asked for.
_BLOCK, _FEW = 256, 64
BASE_SHARE = 0.01
# Times the tolerance, an error of the flow is worth shorter steps, in turn by these factors.
_ROUGH, _SHORTER = 10.0, (2, 4, 8)


class _Followed(NamedTuple):
    """Gains along the flow, their error estimates, and by what factor steps had to be shortened.

    A factor of zero stands for rows where the flow could not be followed.
    """

    gains: Float[np.ndarray, " n"]
    errors: Float[np.ndarray, " n"]
    factors: Int[np.ndarray, " n"]


@dataclass(frozen=True)
class FlowDensity(RealDensity):
    """A density given by the scores of all noise levels.

    Error estimates of steps are multiplied by `caution`.
    """

    coordinates: Coordinates
    field: ScoreField
    steps: Int[np.ndarray, " k"]
    tolerance: float
    caution: float = 30.0
    # Model files of earlier versions lack it; they say how many steps of another method it took.
    fields_added: ClassVar[tuple[str, ...]] = ("caution",)

    @property
    def has_tilt(self) -> bool:
        return bool(self.steps.any())

    def untilted(self) -> FlowDensity:
        nothing = np.zeros_like(self.field.coefficients)
        field = replace(self.field, coefficients=nothing)
        return replace(self, field=field, steps=np.zeros_like(self.steps))

    def jax_function(self) -> LogDensityFunction:
        """Takes the steps that `log_density` takes at most rows, also far out."""
        coordinates = self.coordinates
        flow = TracedFlow(
            marginals=coordinates.marginals,
            shift=coordinates.shift,
            whitening=coordinates.inverse_root,
            log_volume=np.linalg.slogdet(coordinates.inverse_root)[1],
            scores=jax.tree.map(np.asarray, self.field),
            base_share=BASE_SHARE,
            times=flow_times(self.field.knots, self.steps),
            n_steps=int(self.steps.sum()),
        )
        return LogDensityFunction(flow, np.float64(0.0), coordinates.shift)

    def log_density(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        return self.log_density_and_error(rows)[0]

    def log_density_and_error(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        whitened, volume = self.coordinates.forward_and_volume(rows)
        logs = self._base_logs(whitened) + volume
        if not self.has_tilt:
            return logs, np.zeros(len(rows))
        followed = self._followed(whitened)
        return logs + _tilt(followed), followed.errors

    @cached_property
    def _base_score(self) -> MixtureScore:
        """The base density at the lowest noise, found once for all blocks."""
        return _at_lowest(self.field)

    def _base_logs(self, whitened: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        (logs,) = in_blocks(lambda piece: (_base_logs(self._base_score, piece),), whitened)
        return logs

    def _followed(self, whitened: Float[np.ndarray, "n d"]) -> _Followed:
        """The flow up, with shorter steps for rows far out, which move fast."""
        return _Followed(*self._carefully(flow_up, whitened))

    def _carefully(
        self,
        flow: Callable[..., tuple[np.ndarray, np.ndarray]],
        whitened: Float[np.ndarray, "n d"],
        *others: np.ndarray,
    ) -> tuple[np.ndarray, Float[np.ndarray, " n"], Int[np.ndarray, " n"]]:
        """What a flow finds of rows, its errors, and the factors that shortened its steps."""
        found, errors = flow(self.field, whitened, self.steps, *others)
        errors *= self.caution
        factors = np.ones(len(errors), np.int64)
        for factor in _SHORTER:
            rough = ~(errors <= _ROUGH * self.tolerance)
            if not rough.any():
                break
            rows, *more = (array[rough] for array in (whitened, *others))
            found[rough], errors[rough] = flow(self.field, rows, factor * self.steps, *more)
            errors[rough] *= self.caution
            factors[rough] = factor
        factors[~(errors <= POOR_FLOW * self.tolerance)] = 0
        return found, errors, factors

    def gradient(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        if not self.has_tilt:
            return self.smoothed_gradient(rows, self.field.lowest)
        whitened = self.coordinates.forward(rows)
        found, errors, factors = self._carefully(flow_derivatives, whitened)
        shares = _shares(_Followed(found[:, 0], errors, factors))
        (base,) = in_blocks(lambda z: (_base_gradient(self._base_score, z),), whitened)
        score = base + _shared(shares, found[:, 1:])
        return self.coordinates.pulled_back(rows, score)

    def laplacian(self, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        if not self.has_tilt:
            return self.smoothed_laplacian(rows, self.field.lowest)
        axes, whitened = self.coordinates.inverse_root, self.coordinates.forward(rows)
        squares = self.coordinates.slopes(rows) ** 2
        metric = (axes * squares[:, None, :]) @ axes.T
        found, errors, factors = self._carefully(flow_derivatives, whitened, metric)
        shares = _shares(_Followed(found[:, 0], errors, factors))
        score, curved = in_blocks(lambda z: _base_derivatives(self.field, z, axes), whitened)
        along = _shared(shares * (1 - shares), (found[:, 1:-1] @ axes) ** 2)
        curvature = (squares * (curved + along)).sum(axis=1) + _shared(shares, found[:, -1:])[:, 0]
        score = score + _shared(shares, found[:, 1:-1])
        return self.coordinates.pulled_back_laplacian(rows, score, curvature)

    def smoothed_gradient(
        self, rows: Float[np.ndarray, "n d"], noise_scale: float
    ) -> Float[np.ndarray, "n d"]:
        """∇log p of the data with noise of a scale, in whitened coordinates, added."""
        score, _ = self._smoothed(rows, noise_scale)
        return self.coordinates.pulled_back(rows, score)

    def smoothed_laplacian(
        self, rows: Float[np.ndarray, "n d"], noise_scale: float
    ) -> Float[np.ndarray, " n"]:
        """Δlog p of the same."""
        score, curvature = self._smoothed(rows, noise_scale)
        return self.coordinates.pulled_back_laplacian(rows, score, curvature)

    def _smoothed(self, rows: Float[np.ndarray, "n d"], noise_scale: float) -> tuple[Any, ...]:
        """The score in whitened coordinates, and the curvature that the Laplacian needs."""
        time, axes = float(np.log(noise_scale)), self.coordinates.inverse_root
        return in_blocks(
            lambda piece, metric: _derivatives_at(self.field, piece, time, axes, metric),
            self.coordinates.forward(rows),
            self.coordinates.slopes(rows) ** 2,
        )

    @cached_property
    def _in_columns(self) -> GaussianMixtureDensity:
        """The base density at the lowest noise, in columns after their monotone maps."""
        base, root = self.field.base, self.coordinates.root
        # Without the empty components that it is padded with.
        log_weights, means, variances, axes = (
            np.asarray(part)[np.isfinite(base.log_weights)]
            for part in (base.log_weights, base.means, base.variances, base.axes)
        )
        turned = np.einsum("ij,kjl->kil", root, axes)
        variances = variances + self.field.lowest**2
        covariances = np.einsum("kil,kl,kjl->kij", turned, variances, turned)
        return GaussianMixtureDensity(np.exp(log_weights), means @ root.T, covariances)

    def column_grids(self, rows: Float[np.ndarray, "n d"]) -> ColumnGrids:
        mapped = self.coordinates.mapped(rows)
        grids = grids_of_mixture(self._in_columns, mapped)
        if not self.has_tilt:
            return grids
        places = grids.quantiles(QUANTILE_LEVELS)
        moved = self.from_columns(with_columns(mapped, places))
        tilt, own_tilt = (
            _tilt(self._followed(self.coordinates.forward(some))) for some in (moved, rows)
        )
        return grids.tilted_between(
            places, tilt.reshape(places.shape), np.broadcast_to(own_tilt[:, None], rows.shape)
        )

    def from_columns(self, values: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
        return self.coordinates.marginals.backward(values + self.coordinates.shift)

    def sample(self, n_samples: int, generator: np.random.Generator) -> Float[np.ndarray, "n d"]:
        """Draws by the flow, from the highest level down, and some of the base density."""
        base = self.field.base
        n_flow = generator.binomial(n_samples, 1 - BASE_SHARE) if self.has_tilt else 0
        draws = base.sample(n_samples - n_flow, self.field.lowest, generator)
        if n_flow:
            starts = base.sample(n_flow, self.field.highest, generator)
            ends, _, _ = self._carefully(flow_down, starts)
            draws = generator.permutation(np.concatenate([ends, draws]))
        return self.coordinates.backward(draws)

    def draws_log_density(
        self, n_draws: int, generator: np.random.Generator
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        # Weighted draws of the base density: the flow is followed once, and not there and back.
        untilted = self.untilted()
        draws = untilted.sample(n_draws, generator)
        logs = untilted.log_density(draws)
        tilt = np.zeros(n_draws)
        if self.has_tilt:
            tilt = _tilt(self._followed(self.coordinates.forward(draws)))
        weights = np.exp(tilt - tilt.max())
        # A draw that would stand for many tells of the draws' number more than of the model.
        weights = np.minimum(weights, np.sqrt(n_draws) * weights.mean())
        return logs + tilt, weights / weights.sum()


def flow_density(coordinates: Coordinates, field: ScoreField, tolerance: float) -> FlowDensity:
    """The density of a field, with as many steps as the tolerance asks for."""
    steps, caution = steps_needed(field, tolerance)
    return FlowDensity(coordinates, field, steps, tolerance, caution)


def _tilt(followed: _Followed) -> Float[np.ndarray, " n"]:
    """The log of the model over its base density."""
    gains = np.where(followed.factors > 0, followed.gains, 0.0)
    return np.logaddexp(np.log1p(-BASE_SHARE) + gains, np.log(BASE_SHARE))


def _shares(followed: _Followed) -> Float[np.ndarray, " n"]:
    """How much of the model's density at each row is the flow's."""
    shares = np.exp(np.log1p(-BASE_SHARE) + followed.gains - _tilt(followed))
    return np.where(followed.factors > 0, shares, 0.0)


def _shared(shares: Float[np.ndarray, " n"], values: Float[np.ndarray, "n c"]) -> np.ndarray:
    """Values times shares, and nothing where there is no share: the flow may be lost there."""
    return np.where(shares[:, None] > 0, shares[:, None] * values, 0.0)


@compiled(tuned=False)
def _at_lowest(field: ScoreField) -> Any:
    return field.base.at(jnp.exp(field.knots[0]))


@compiled(tuned=False)
def _base_logs(base: MixtureScore, rows: Any) -> Any:
    return base.log_density(rows)


@compiled
def _base_gradient(base: MixtureScore, rows: Any) -> Any:
    return base.gradient(rows)


@compiled
def _base_derivatives(field: Any, rows: Any, axes: Any) -> Any:
    """The gradient, and second derivatives along axes."""
    scale = jnp.exp(field.knots[0])
    return field.base.gradient(rows, scale), field.base.second_derivatives(rows, scale, axes)


@compiled
def _derivatives_at(field: Any, rows: Any, time: Any, axes: Any, metric: Any) -> Any:
    return field.score(rows, time), field.curvature(rows, time, axes, metric)


def in_blocks(
    function: Callable[..., tuple[np.ndarray, ...]],
    *arrays: Float[np.ndarray, "n ..."],
) -> tuple[np.ndarray, ...]:
    """Results of a function of padded arrays, whole again."""
    size = _BLOCK if len(arrays[0]) > _FEW else _FEW
    found = []
    for start in range(0, len(arrays[0]), size):
        pieces = [array[start : start + size] for array in arrays]
        results = function(*(padded(piece, size) for piece in pieces))
        found.append([result[: len(pieces[0])] for result in results])
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))
