"""Folds of the rows of a conditional density, and the scale that held-out rows ask for.

For every fold, length-scales and location are fitted to the other rows. Residuals of the fold's
rows then know nothing of themselves, and, with the noise of the fit to all rows, give the factor of
the scale: the likeliest one, or the one with which nine tenths of them lie inside the 90 % interval
if that is larger (with the correction for few rows of split conformal prediction: Lei et al. 2018).
What they say of a tilt is in `kexpfam.tuning.judging`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar

from kexpfam.base.bell import bell_log_density, bell_quantile
from kexpfam.base.covariance import Covariance, Kind
from kexpfam.base.location import LeftOut, Location, fit_exact, fit_points
from kexpfam.data.pairs import Pairs
from kexpfam.data.response import Response
from kexpfam.data.sketch import number_folds
from kexpfam.data.standardize import Standardizer
from kexpfam.features.inputs import InputFunctions
from kexpfam.features.residual import N_RESIDUAL_FUNCTIONS, residual_functions
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.model.lattice import Lattice, lattice_cells
from kexpfam.model.slices import node_masses
from kexpfam.moments.conditional import conditional_sums
from kexpfam.progress import Progress
from kexpfam.solve.conditional import TiltProblem, closed_form_path, likeliest_path
from kexpfam.tuning.evidence import retuned

__all__ = [
    "COVERAGE",
    "EXACT_ROWS",
    "NOISE_SCALE",
    "PENALTIES",
    "POINTS",
    "ConditionalSettings",
    "Fold",
    "Ground",
    "Residuals",
    "covering",
    "folds_have_points",
    "held_out_folds",
    "left_out_residuals",
    "likeliest_factor",
    "residuals_of",
    "scale_factor",
]

# Up to this many rows the location is exact (beyond that its cost would grow with the cube); else
# it has so many points.
EXACT_ROWS, POINTS = 1200, 1024
# With more rows than this a single fold is enough to choose and to judge by.
_FOLDS, _ONE_FOLD_ROWS = 4, 3000
PENALTIES = tuple(0.3 * 4.0**-k for k in range(11))
# Steps of L-BFGS for each penalty; noise on the residual in the closed form.
_STEPS, NOISE_SCALE = 25, 0.2
COVERAGE = 0.9
# Where an interval with that coverage ends, in units of the scale.
_END = float(bell_quantile(np.array([(1 + COVERAGE) / 2]))[0])
# A lattice with more points is fitted as if there were a density between them.
_MOST_POINTS = 64


@dataclass(frozen=True)
class ConditionalSettings:
    """What users choose, checked."""

    n_components: int | Literal["auto"]
    solution: Literal["likelihood", "closed_form"]
    kernel: Kind | Literal["auto"]
    bounds: tuple[float, float] | Literal["auto"]
    lattice: float | Literal["auto"] | None
    gate: bool


class Residuals(NamedTuple):
    """A location, and what it says of the rows that it was fitted to, each left out."""

    location: Location
    targets: Float[np.ndarray, " n"]
    mean: Float[np.ndarray, " n"]
    scale: Float[np.ndarray, " n"]

    @property
    def values(self) -> Float[np.ndarray, " n"]:
        """Residuals in units of the scale."""
        return (self.targets - self.mean) / self.scale

    def rescaled(self, factor: float) -> Residuals:
        """With a scale that is larger by the factor."""
        return self._replace(scale=factor * self.scale)


class Ground(NamedTuple):
    """What the tilt stands on."""

    standardizer: Standardizer
    response: Response
    factor: float
    functions: InputFunctions
    solution: str
    bounds: tuple[float, float]
    lattice: Lattice | None

    def density(
        self, location: Location, coefficients: Float[np.ndarray, "m k"]
    ) -> ConditionalDensity:
        """The density with a location and a tilt."""
        return ConditionalDensity(
            self.standardizer,
            self.response,
            location,
            self.factor,
            self.functions,
            coefficients,
            self.bounds,
            lattice=self.lattice,
        )

    @property
    def no_tilt(self) -> Float[np.ndarray, "m k"]:
        """Coefficients of the base density alone."""
        return np.zeros((self.functions.n_functions, N_RESIDUAL_FUNCTIONS))

    def tilts(
        self,
        rows: Pairs,
        residuals: Residuals,
        penalties: Sequence[float],
        start: Float[np.ndarray, "m k"] | None = None,
    ) -> Iterator[Float[np.ndarray, "m k"]]:
        """Coefficients for one penalty after the other, from the strongest.

        The likeliest ones begin at the start, if there is one.
        """
        inputs, values = self.functions(rows.inputs), residuals.values
        ends = self.response.residual_bounds(self.bounds, residuals.mean, residuals.scale)
        if self.solution == "closed_form":
            bounds = ends if np.isfinite(self.bounds).any() else None
            sums = conditional_sums(inputs, values, rows.weights, NOISE_SCALE, bounds)
            return closed_form_path(sums, penalties)
        # The points of a fine lattice are as good as nodes.
        if self.lattice is not None and self.lattice.n_points <= _MOST_POINTS:
            nodes, log_masses = lattice_cells(
                self.lattice, self.response, residuals.mean, residuals.scale
            )
        else:
            nodes, log_masses = node_masses(*ends)
        problem = TiltProblem(
            inputs,
            residual_functions(values),
            residual_functions(nodes),
            log_masses,
            rows.weights / rows.weights.sum(),
        )
        return likeliest_path(problem.single(), penalties, _STEPS, start)


class Fold(NamedTuple):
    """Rows that are held out, and what was fitted to the others: `left` says it of them."""

    places: Int[np.ndarray, " j"]
    others: Pairs
    judges: Pairs
    left: Residuals


def folds_have_points(n_rows: int) -> bool:
    """Whether the rows outside of a fold are so many that their location has points."""
    return (_FOLDS - 1) * n_rows > _FOLDS * EXACT_ROWS


def left_out_residuals(
    rows: Pairs, covariance: Covariance, response: Response, noise: float | None = None
) -> Residuals:
    """The location of rows, and their residuals, each predicted by the others.

    The scale has the noise that is given, or that of the rows.
    """
    targets, noises = response.forward(rows.y), covariance.noise * rows.relative
    if len(rows.y) <= EXACT_ROWS:
        location, left_out = fit_exact(covariance, rows.inputs, targets, noises)
    else:
        points = rows.inputs[:POINTS]
        location, left_out = fit_points(covariance, points, rows.inputs, targets, noises, 1.0)
    if noise is not None:
        location = location._replace(noise=noise)
    return residuals_of(location, left_out, targets)


def residuals_of(
    location: Location, left_out: LeftOut, targets: Float[np.ndarray, " n"]
) -> Residuals:
    """Residuals of rows that were left out."""
    scale = np.sqrt(left_out.variance + location.noise)
    return Residuals(location, targets, left_out.mean, scale)


def held_out_folds(
    rows: Pairs,
    covariance: Covariance,
    response: Response,
    least_noise: float,
    noise: float,
    progress: Progress,
) -> list[Fold]:
    """Every fold, or one where rows are many.

    Scales have the noise of the fit to all rows: a factor that suits other noise would not suit
    theirs, and where noise has heavy tails it depends on few of the rows.
    """
    numbers = number_folds(rows.keys, _FOLDS).numbers(rows.keys)
    held_out = [0] if len(rows.y) > _ONE_FOLD_ROWS else sorted(set(numbers.tolist()))
    folds = []
    for number in progress.track(held_out, "folds"):
        held = numbers == number
        others = rows.where(~held)
        fitted = retuned(covariance, response, others).with_noise(least_noise)
        left = left_out_residuals(others, fitted, response, noise)
        folds.append(Fold(np.flatnonzero(held), others, rows.where(held), left))
    return folds


def scale_factor(folds: list[Fold], response: Response) -> float:
    """The factor of the scale that held-out rows ask for."""
    residuals, weights = [], []
    for fold in folds:
        mean, variance = fold.left.location.predict(fold.judges.inputs)
        noise = fold.left.location.noise
        residuals.append((response.forward(fold.judges.y) - mean) / np.sqrt(variance + noise))
        weights.append(fold.judges.weights)
    return likeliest_factor(np.concatenate(residuals), np.concatenate(weights))


def likeliest_factor(residuals: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    """The likeliest factor, or that with which the interval covers if it is larger."""

    def loss(log_factor: float) -> float:
        logs = bell_log_density(residuals * np.exp(-log_factor))
        return log_factor - float(np.average(logs, weights=weights))

    likeliest = float(np.exp(minimize_scalar(loss, bounds=(-3.0, 3.0), method="bounded").x))
    return max(likeliest, covering(np.abs(residuals), weights) / _END)


def covering(values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"]) -> float:
    """The value that nine tenths are below of, with the correction for few rows."""
    order = np.argsort(values)
    reached = np.cumsum(weights[order]) / weights.sum()
    wanted = COVERAGE * (1 + 1 / len(order))
    return float(values[order[min(int(np.searchsorted(reached, wanted)), len(order) - 1)]])
