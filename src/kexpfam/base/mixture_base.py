"""A variational Bayesian mixture of Gaussians as base density."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning

from kexpfam.base.density import require_rows
from kexpfam.base.gaussian import GaussianBase, too_few_for_covariances
from kexpfam.base.mixture import GaussianMixtureDensity
from kexpfam.base.variational import fit_variational
from kexpfam.choices import whole
from kexpfam.data.sketch import Sketch, repeated_rows

__all__ = ["MixtureBase"]


@dataclass(frozen=True)
class MixtureBase:
    """A variational mixture of Gaussians, as scikit-learn's `BayesianGaussianMixture` finds it.

    Parameters
    ----------
    n_components : int or None, default=None
        The largest number of components; the Bayesian fit empties those it does not need.
        None takes one per 20 rows, up to ten; or, with fewer than three rows per column, the
        Gaussian of `GaussianBase`.
    regularization : float, default=1e-6
        Added to the diagonal of every covariance, in standardized units.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily, MixtureBase
    >>> model = KernelExponentialFamily(base=MixtureBase(n_components=5))
    """

    n_components: int | None = None
    regularization: float = 1e-6

    def __post_init__(self) -> None:
        if self.n_components is not None:
            whole("n_components", self.n_components, otherwise="None")
        if not (isinstance(self.regularization, numbers.Real) and self.regularization >= 0):
            raise ValueError(f"regularization must be a number ≥ 0; got {self.regularization!r}.")

    def fit(self, sketch: Sketch, generator: np.random.Generator) -> GaussianMixtureDensity:
        """Fit to the sketch, rows repeated in proportion to their weights."""
        found = len(sketch.rows)
        if self.n_components is None and too_few_for_covariances(sketch.rows):
            return GaussianBase(self.regularization).fit(sketch, generator)
        n_components = self.n_components or int(np.clip(found // 20, 1, 10))
        require_rows(
            found,
            max(2, n_components),
            f"A mixture base density of {n_components} components",
            "Lower its n_components or use base='gaussian'.",
        )
        # Imported where it is needed: it takes as long as a small fit.
        from sklearn.cluster import KMeans

        rows = repeated_rows(sketch)
        clustering = KMeans(n_components, n_init=1, random_state=int(generator.integers(2**31)))
        with warnings.catch_warnings():
            # Fewer distinct rows than clusters leave some of them empty.
            warnings.simplefilter("ignore", ConvergenceWarning)
            labels = clustering.fit(rows).labels_
        mixture = _fit_somehow(rows, labels, n_components, self.regularization)
        # Components that the fit has emptied cost time in every later evaluation.
        kept = mixture.weights > 1e-4 / n_components
        weights = mixture.weights[kept] / mixture.weights[kept].sum()
        return GaussianMixtureDensity(weights, mixture.means[kept], mixture.covariances[kept])


def _fit_somehow(
    rows: Float[np.ndarray, "n d"],
    labels: Int[np.ndarray, " n"],
    n_components: int,
    regularization: float,
) -> GaussianMixtureDensity:
    """Fit; where rows lie on a plane, with something added to the prior's variances as well."""
    prior = np.atleast_2d(np.cov(rows.T))
    try:
        return fit_variational(rows, labels, n_components, prior, regularization)
    except ValueError:
        prior = prior + max(regularization, 1e-8) * np.eye(rows.shape[1])
    try:
        return fit_variational(rows, labels, n_components, prior, regularization)
    except ValueError as error:
        raise ValueError(
            "No mixture can be fitted to these rows: its components collapse. Use "
            "base='gaussian', or MixtureBase with fewer components or a larger regularization."
        ) from error
