"""Where the target lies given the inputs, and how far from there: a Gaussian process.

    μ(x) = k(x, P) α          v(x) = k(x, x) − |k(x, P) R|²

with the rows themselves as points P (exact, up to a few thousand rows), α = K⁻¹y, RRᵀ = K⁻¹ and
K = k(P, P) + diag(noise); or with fewer points (Nyström), where the sums over rows
B = Σ k(P, x_i) k(x_i, P) / noise_i and c = Σ k(P, x_i) y_i / noise_i are all that is kept, and

    α = (k(P, P) + B)⁻¹ c          RRᵀ = k(P, P)⁻¹ − (k(P, P) + B)⁻¹.

The noise of a row is σ² u / w_i with its weight w_i and a unit u of weight, so that the sums are
kept without it, as Σ w_i k(P, x_i) k(x_i, P): they add up over blocks, streams and machines, and
rows can be taken out again. They are solved in coordinates where k(P, P) is the identity and B is
diagonal, without the shortest axes of k(P, P), of which the sums hold nothing but rounding. With
Σ w_i y_i² they are one matrix Σ w_i (k(P, x_i), y_i)(k(P, x_i), y_i)ᵀ, which has no negative
eigenvalue unless rows were taken out that were never in it.

Residuals that the rest of the model is fitted to must be out of sample. Leaving one row out is
closed form in both cases (Rasmussen and Williams 2006, section 5.4.2):

    exact      y_i − μ₋ᵢ = α_i / (K⁻¹)_ii,            v₋ᵢ = 1/(K⁻¹)_ii − noise_i
    Nyström    y_i − μ₋ᵢ = (y_i − μ_i) / (1 − h_i),   v₋ᵢ = noise_i h_i/(1 − h_i) + k_ii − |ψ_i|²

where h_i = k(x_i, P)(k(P, P) + B)⁻¹k(P, x_i)/noise_i, and k_ii − |ψ_i|² is the variance that the
points cannot see. Both are sums over the directions of a whitening W, told t_j each, where the mean
of (Wᵀk(P, x_i))_j² over the n rows is noise · t_j / n. Where very many rows are left out, those
that are less than a thousandth of the noise in all, most where k is smooth, are not summed.

The scale of a residual is √(v + κ) times a factor. κ is the noise of the rows; with points it may
be more, where left-out residuals are likelier then: points leave errors that are neither noise nor
the variance that they cannot see, above all where a smooth function has hardly any noise.

| symbol  | name         | shape                                             |
|---------|--------------|---------------------------------------------------|
| P       | points       | (p, d)                                            |
| α       | coefficients | (p,)                                              |
| R       | root         | (p, r)                                            |
| noise_i | noises       | (n,), of every row                                |
| κ       | noise        | ()                                                |
| B σ² u  | products     | (p, p), its upper half                            |
| c σ² u  | pulls        | (p,)                                              |
| W       | whitening    | (p, q): Wᵀk(P, P)W = I, WᵀBW = diag(told)         |
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.optimize import minimize

from kexpfam.base.bell import bell_gradient, bell_log_density
from kexpfam.base.covariance import Covariance
from kexpfam.exceptions import SingularSystemError
from kexpfam.unlocked import add_products, factored_with_pivots, invert_lower

__all__ = [
    "LeftOut",
    "Location",
    "LocationSums",
    "PointsLocation",
    "add_to_location",
    "fewer_directions",
    "fit_exact",
    "fit_points",
    "fit_solved",
    "refuse_impossible",
    "solve_points",
]

# Added to the unit scale of k(P, P), so that its Cholesky factor exists.
_JITTER = 1e-8
# Of k(P, P)'s largest eigenvalue. Sums over rows have its square along each axis: of shorter axes
# they hold nothing but rounding, which leaving rows out, or very little noise, would blow up.
_LEAST_SEEN = 1e-8
# Directions that the rows have told less about than this share of the prior are left out of R. What
# they explain at a row is of the order of the noise times the square of it, divided by the rows.
_LEAST_TOLD = 0.1
# What directions may explain of the noise, in all, to be idle.
_LEAST_EXPLAINED = 1e-3
# Sums with an eigenvalue below this share of the largest are no sums of rows: rounding is smaller.
_NEGATIVE = -1e-11
# Rows at a time: few enough that a block of kernel values stays in the processor's cache.
_BLOCK = 256
# Rows that the noise in scales is chosen on, and standard errors that more of it must gain.
_CALIBRATED_ROWS, _BEYOND_DOUBT = 2000, 2.0
# Steps by which more noise is tried, as logarithms.
_STEPS = np.log(2.0) * np.arange(1, 6)


class LeftOut(NamedTuple):
    """The prediction of every row by all others: its mean, and the variance of that mean.

    Of the variance, `unseen` is what points cannot see, and more of them would.
    """

    mean: Float[np.ndarray, " n"]
    variance: Float[np.ndarray, " n"]
    unseen: Float[np.ndarray, " n"] | float = 0.0


class Location(NamedTuple):
    """μ and v, and the noise κ that the scale of residuals has beside v."""

    covariance: Covariance
    points: Float[np.ndarray, "p d"]
    coefficients: Float[np.ndarray, " p"]
    root: Float[np.ndarray, "p r"]
    noise: float

    @property
    def noise_ratio(self) -> float:
        """κ in units of the rows' noise."""
        return self.noise / self.covariance.noise

    def predict(
        self, rows: Float[np.ndarray, "n d"]
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        """μ and v at rows."""
        mean, told = np.empty(len(rows)), np.empty(len(rows))
        for part in _parts(len(rows)):
            sections = self.covariance.between(rows[part], self.points)
            mean[part] = sections @ self.coefficients
            told[part] = ((sections @ self.root) ** 2).sum(axis=1)
        return mean, np.maximum(self.covariance.prior_variance(rows) - told, 0.0)


def fit_exact(
    covariance: Covariance,
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    noises: Float[np.ndarray, " n"],
) -> tuple[Location, LeftOut]:
    """With all rows as points."""
    matrix = covariance.between(rows, rows)
    matrix[np.diag_indices_from(matrix)] += noises + _JITTER
    factor = np.asfortranarray(np.linalg.cholesky(matrix))
    invert_lower(factor)
    root = factor.T
    coefficients = root @ (targets @ root)
    precision = (root**2).sum(axis=1)
    left_out = LeftOut(targets - coefficients / precision, np.maximum(1 / precision - noises, 0.0))
    return Location(covariance, rows, coefficients, root, covariance.noise), left_out


def fewer_directions(location: Location, noises: Float[np.ndarray, " p"]) -> Location:
    """An exact location without the directions that the rows have told little about.

    They are eigenvectors of N^(-1/2) k(P, P) N^(-1/2), N = diag(noise), with eigenvalues Λ; where
    Λ/(1 + Λ) is small they explain at most Λ²/(1 + Λ) of the noise, a hundredth. A prediction takes
    as many products fewer.
    """
    roots = np.sqrt(noises)
    gram = location.covariance.between(location.points, location.points) / np.outer(roots, roots)
    values, vectors = np.linalg.eigh((gram + gram.T) / 2)
    kept = values / (1 + np.maximum(values, 0.0)) > _LEAST_TOLD
    root = vectors[:, kept] / (roots[:, None] * np.sqrt(1 + values[kept]))
    return location._replace(root=np.ascontiguousarray(root))


class LocationSums(NamedTuple):
    """Sums over rows from which a location with points is solved."""

    products: Float[Any, "p p"]
    pulls: Float[Any, " p"]
    squares: Float[Any, ""]
    weight: Float[Any, ""]


def add_to_location(
    sums: LocationSums | None,
    covariance: Covariance,
    points: Float[np.ndarray, "p d"],
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
) -> LocationSums:
    """Sums (None at first) with more rows in them; the products are added to in place."""
    if sums is None:
        empty = np.zeros((len(points), len(points)), order="F")
        sums = LocationSums(empty, np.zeros(len(points)), np.zeros(()), np.zeros(()))
    products, pulls = np.asfortranarray(sums.products), np.array(sums.pulls)
    for part in _parts(len(rows)):
        roots = np.sqrt(weights[part])
        weighed = covariance.between(rows[part], points) * roots[:, None]
        add_products(products, weighed.T)
        pulls += (targets[part] * roots) @ weighed
    squares, weight = sums.squares + weights @ targets**2, sums.weight + weights.sum()
    return LocationSums(products, pulls, np.asarray(squares), np.asarray(weight))


class PointsLocation(NamedTuple):
    """A location with points, in the coordinates in which rows are left out of it."""

    location: Location
    whitening: Float[np.ndarray, "p q"]
    told: Float[np.ndarray, " q"]

    def left_out(
        self,
        rows: Float[np.ndarray, "n d"],
        targets: Float[np.ndarray, " n"],
        noises: Float[np.ndarray, " n"],
    ) -> LeftOut:
        """Rows of the sums, each predicted by all others."""
        location, covariance = self.location, self.location.covariance
        mean, variance, unseen = (np.empty(len(rows)) for _ in range(3))
        for part in _parts(len(rows)):
            sections = covariance.between(rows[part], location.points)
            squares = (sections @ self.whitening) ** 2
            leverage = np.minimum((squares / (1 + self.told)).sum(axis=1) / noises[part], 1 - 1e-9)
            residuals = targets[part] - sections @ location.coefficients
            mean[part] = targets[part] - residuals / (1 - leverage)
            prior = covariance.prior_variance(rows[part])
            unseen[part] = np.maximum(prior - squares.sum(axis=1), 0.0)
            variance[part] = noises[part] * leverage / (1 - leverage) + unseen[part]
        return LeftOut(mean, variance, unseen)

    def without_idle_directions(self, n_rows: float) -> PointsLocation:
        """Without those that explain next to nothing of the rows of the sums, so many units."""
        # They ascend.
        busy = np.cumsum(self.told) > _LEAST_EXPLAINED * n_rows
        whitening = np.ascontiguousarray(self.whitening[:, busy])
        return self._replace(whitening=whitening, told=self.told[busy])

    def with_noise_ratio(self, ratio: float) -> PointsLocation:
        """With so many times the noise of the rows in the scale."""
        noise = ratio * self.location.covariance.noise
        return self._replace(location=self.location._replace(noise=noise))

    def calibrated(
        self,
        targets: Float[np.ndarray, " n"],
        noises: Float[np.ndarray, " n"],
        left_out: LeftOut,
    ) -> PointsLocation:
        """With the noise that the last of the rows prefer that were left out of the sums.

        The points, which are the first, have no variance that the points cannot see.
        """
        some = slice(-_CALIBRATED_ROWS, None)
        noise = _likeliest_noise(
            (targets - left_out.mean)[some],
            left_out.variance[some],
            1 / noises[some],
            self.location.noise,
        )
        return self._replace(location=self.location._replace(noise=noise))


def solve_points(
    covariance: Covariance,
    points: Float[np.ndarray, "p d"],
    sums: LocationSums,
    unit: float,
    axes: Float[np.ndarray, "p q"] | None = None,
) -> PointsLocation:
    """The location of sums over rows; `unit` is the weight of a row with the noise σ².

    In other sums of the same points, `axes` may be those that were found with the first: k(P, P) is
    the identity along them.
    """
    if axes is None:
        axes = _unit_axes(covariance.between(points, points))
    noise = covariance.noise * unit
    products = _from_upper_half(sums.products) / noise
    # In coordinates where k(P, P) is the identity, and then where the rows' products are diagonal.
    inner = axes.T @ products @ axes
    told, directions = np.linalg.eigh((inner + inner.T) / 2)
    # In the order of memory that files keep, so that products are rounded alike.
    whitening = np.ascontiguousarray(axes @ directions)
    pulls = (sums.pulls @ whitening) / noise
    told = np.maximum(told, 0.0)
    coefficients = whitening @ (pulls / (1 + told))
    shares = told / (1 + told)
    kept = shares > _LEAST_TOLD
    root = np.ascontiguousarray(whitening[:, kept] * np.sqrt(shares[kept]))
    location = Location(covariance, points, coefficients, root, covariance.noise)
    return PointsLocation(location, whitening, told)


def _unit_axes(gram: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p q"]:
    """Coordinates in which k(P, P) is the identity; of points that others tell, none.

    A Cholesky factor with pivots takes a quarter of the time of eigenvectors. No row of a matrix
    has a sum of magnitudes below its largest eigenvalue, unless others have a larger one.
    """
    factor = np.asfortranarray((gram + gram.T) / 2)
    largest = float(np.abs(factor).sum(axis=0).max())
    pivots = factored_with_pivots(factor, _LEAST_SEEN * largest)
    inverse = np.asfortranarray(factor[: len(pivots), : len(pivots)])
    invert_lower(inverse)
    axes = np.zeros((len(gram), len(pivots)))
    axes[pivots] = np.tril(inverse).T
    return axes


def _likeliest_noise(
    residuals: Float[np.ndarray, " n"],
    variances: Float[np.ndarray, " n"],
    weights: Float[np.ndarray, " n"],
    least: float,
) -> float:
    """κ of scales √(v + κ), each with the factor that suits it.

    The least, unless more is significantly better: where v hardly varies, the rows say nothing of
    κ. And then the largest that is not significantly worse: what a scale leaves to a tilt can be
    learned, and what it says wrongly cannot be taken back.
    """
    weights = weights / weights.sum()

    def logs(at: Float[np.ndarray, " 2"]) -> Float[np.ndarray, " n"]:
        scales = np.exp(at[0]) * np.sqrt(variances + np.exp(at[1]))
        return bell_log_density(residuals / scales) - np.log(scales)

    def loss(at: Float[np.ndarray, " 2"]) -> tuple[float, Float[np.ndarray, " 2"]]:
        noise = np.exp(at[1])
        scales = np.exp(at[0]) * np.sqrt(variances + noise)
        places = residuals / scales
        pulls = weights * (1 + places * bell_gradient(places)[0])
        value = float(weights @ (np.log(scales) - bell_log_density(places)))
        return value, np.array([pulls.sum(), pulls @ (noise / (variances + noise)) / 2])

    def likeliest(low: float, high: float) -> Float[np.ndarray, " 2"]:
        options = {"ftol": 1e-13, "gtol": 1e-10}
        start, limits = np.clip(middle, low, high), [(-9.0, 9.0), (low, high)]
        return minimize(
            loss, (0.0, start), jac=True, method="L-BFGS-B", bounds=limits, options=options
        ).x

    def beyond_doubt(one: Float[np.ndarray, " 2"], other: Float[np.ndarray, " 2"]) -> bool:
        gains = logs(one) - logs(other)
        gain = float(weights @ gains)
        return gain > _BEYOND_DOUBT * float(np.sqrt(weights**2 @ (gains - gain) ** 2))

    lowest = np.log(least)
    middle = np.log(max(float(weights @ residuals**2), least))
    best = likeliest(lowest, middle + 5.0)
    if not beyond_doubt(best, likeliest(lowest, lowest)):
        return least
    found = best
    for step in _STEPS:
        wider = likeliest(best[1] + step, best[1] + step)
        if beyond_doubt(best, wider):
            break
        found = wider
    return float(np.exp(found[1]))


def _from_upper_half(matrix: Float[np.ndarray, "p p"]) -> Float[np.ndarray, "p p"]:
    return np.triu(matrix) + np.triu(matrix, 1).T


def refuse_impossible(sums: LocationSums) -> None:
    """Raise where no rows have these sums."""
    size = len(sums.pulls) + 1
    matrix = np.empty((size, size))
    matrix[:-1, :-1] = _from_upper_half(sums.products)
    matrix[-1, :-1] = matrix[:-1, -1] = sums.pulls
    matrix[-1, -1] = sums.squares
    values = np.linalg.eigvalsh(matrix)
    if values[0] < _NEGATIVE * max(float(values[-1]), 0.0):
        raise SingularSystemError("sums with a negative eigenvalue, which no rows have.")


def fit_points(
    covariance: Covariance,
    points: Float[np.ndarray, "p d"],
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    noises: Float[np.ndarray, " n"],
    noise_ratio: float | None = None,
) -> tuple[Location, LeftOut]:
    """With fewer points than rows; κ is chosen, unless its ratio to the noise is given."""
    sums = add_to_location(None, covariance, points, rows, targets, covariance.noise / noises)
    solved = solve_points(covariance, points, sums, 1.0)
    return fit_solved(solved, rows, targets, noises, noise_ratio)


def fit_solved(
    found: PointsLocation,
    rows: Float[np.ndarray, "n d"],
    targets: Float[np.ndarray, " n"],
    noises: Float[np.ndarray, " n"],
    noise_ratio: float | None = None,
) -> tuple[Location, LeftOut]:
    """The same where the sums of these rows have been solved."""
    left_out = found.left_out(rows, targets, noises)
    if noise_ratio is None:
        found = found.calibrated(targets, noises, left_out)
    else:
        found = found.with_noise_ratio(noise_ratio)
    return found.location, left_out


def _parts(n_rows: int) -> Iterator[slice]:
    return (slice(first, first + _BLOCK) for first in range(0, n_rows, _BLOCK))
