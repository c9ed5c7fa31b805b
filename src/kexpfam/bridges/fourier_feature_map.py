"""`FourierFeatureMap`: the library's random Fourier features as a scikit-learn transformer.

    φ(x) = [a_i cos(w_i·x + b_i), a_i sin(w_i·x + b_i)],     E φ(x)·φ(y) = k((x − y) / length_scale)

so that a linear model on φ is a kernel machine with kernel k. A fitted model's frequencies W, which
are in standardized units, become w = W / scale with b = −W (center / scale) in the user's.

| symbol | name        | shape  |
|--------|-------------|--------|
| w      | frequencies | (q, d) |
| b      | phases      | (q,)   |
| a      | amplitudes  | (q,)   |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from kexpfam.choices import entropy, resolve, whole
from kexpfam.data.sketch import row_keys, sketch_rows
from kexpfam.data.tables import refuse_what_is_no_table
from kexpfam.features import SPECTRA, FourierBasis, FourierFeatures
from kexpfam.features.at_rows import features_at
from kexpfam.types import Array, Table

__all__ = ["FourierFeatureMap"]


class FourierFeatureMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Random Fourier features of a kernel, with orthogonal frequencies in cosine-sine pairs.

    Parameters
    ----------
    n_components : int, default=512
        Number of features; an odd number is rounded up to the next even one.
    kernel : {"rbf", "matern", "rational_quadratic"} or object, default="rbf"
        The kernel, by its spectral distribution: ``Matern(nu=3.5)``,
        ``RationalQuadratic(alpha=2)``.
    length_scale : float or array of shape (n_features,), default=1.0
        The kernel's length-scale in each column, in the units of the data.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the frequencies.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_frequencies, n_features)
        In the units of the data, length-scales included.
    phases_, amplitudes_ : ndarray of shape (n_frequencies,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam.bridges import FourierFeatureMap
    >>> X = np.random.default_rng(0).standard_normal((100, 3))
    >>> features = FourierFeatureMap(n_components=2048, random_state=0).fit_transform(X)
    >>> squares = ((X[:, None] - X) ** 2).sum(axis=2)
    >>> bool(np.abs(features @ features.T - np.exp(-squares / 2)).max() < 0.1)
    True
    """

    def __init__(
        self,
        *,
        n_components: Any = 512,
        kernel: Any = "rbf",
        length_scale: Any = 1.0,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.length_scale = length_scale
        self.random_state = random_state

    def fit(self, X: Table, y: object = None) -> FourierFeatureMap:  # noqa: ARG002
        """Draw the frequencies. Only the number and the names of the columns of X matter.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        self
        """
        refuse_what_is_no_table(X)
        rows = validate_data(self, X, dtype=np.float64)
        n_components = whole("n_components", self.n_components)
        length_scale = self._checked_length_scale(rows.shape[1])
        seed = entropy(self.random_state)
        one = rows[:1]
        basis = FourierFeatures().build(
            n_components,
            sketch_rows(one, np.ones(1), row_keys(one, seed=0), size=1),
            resolve("kernel", self.kernel, SPECTRA, "an object like Matern(nu=3.5)", "multipliers"),
            np.random.default_rng(seed),
        )
        return self._settle(basis.rescaled(length_scale))

    @classmethod
    def from_model(cls, model: Any) -> FourierFeatureMap:
        """The features of a fitted model: its f is ``transform(X) @ model.coefficients_``.

        Fitting the result again, or a clone of it, draws other frequencies with the model's kernel,
        length-scales and number of features.

        Parameters
        ----------
        model : KernelExponentialFamily
            Fitted, with ``basis="fourier"``.

        Returns
        -------
        FourierFeatureMap
            Fitted.
        """
        check_is_fitted(model)
        density = getattr(model, "density_", None)
        basis = getattr(density, "basis", None)
        if density is None or not isinstance(basis, FourierBasis):
            kind = type(model if basis is None else basis).__name__
            raise TypeError(
                "Expected a fitted KernelExponentialFamily with basis='fourier', whose functions "
                f"are waves in the units of the data; got {kind}."
            )
        units = density.standardizer
        made = cls(
            n_components=basis.n_features,
            kernel=model.kernel,
            length_scale=model.length_scale_ * units.scale,
            random_state=model.random_state,
        )
        made.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            made.feature_names_in_ = model.feature_names_in_
        turns = basis.phases - basis.frequencies @ (units.center / units.scale)
        frequencies = basis.frequencies / units.scale
        return made._settle(FourierBasis(frequencies, turns, basis.amplitudes, basis.paired))

    def _settle(self, basis: FourierBasis) -> FourierFeatureMap:
        self._basis = basis
        self.frequencies_, self.phases_ = basis.frequencies, basis.phases
        self.amplitudes_ = basis.amplitudes
        self._n_features_out = basis.n_features
        return self

    def transform(self, X: Table) -> Array:
        """φ at each row of X: all cosines, then all sines.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Or a data frame, after `set_output`.
        """
        check_is_fitted(self)
        refuse_what_is_no_table(X)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        return features_at(self._basis, rows)

    def _checked_length_scale(self, n_columns: int) -> Float[np.ndarray, " d"]:
        try:
            scales = np.asarray(self.length_scale, float)
        except (TypeError, ValueError):
            scales = np.array(np.nan)
        fits = scales.shape in {(), (1,), (n_columns,)}
        if not (fits and np.isfinite(scales).all() and (scales > 0).all()):
            raise ValueError(
                f"length_scale must be a positive number, or {n_columns} of them, one per column; "
                f"got {self.length_scale!r}."
            )
        return np.broadcast_to(scales, (n_columns,)).copy()
