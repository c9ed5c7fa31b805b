"""`KernelDiffusion`: every noise level in closed form, with a normalized likelihood."""

from __future__ import annotations

import os
import warnings
from dataclasses import astuple, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from kexpfam.base.averaged import AverageSearch
from kexpfam.choices import (
    as_number,
    checked_name,
    entropy,
    positive_number,
    renamed,
    seeded,
    shown,
    whole,
)
from kexpfam.data.cells import library_of
from kexpfam.data.rows import RowSource
from kexpfam.estimators.additive import SUMS_LEFT_OUT, AdditiveRows
from kexpfam.estimators.checkpointing import checkpointed
from kexpfam.estimators.checks import checked_flag, checked_rows
from kexpfam.estimators.independent_draws import IndependentDraws
from kexpfam.estimators.judged import JudgedFit
from kexpfam.estimators.mean_log_density import MeanLogDensity
from kexpfam.estimators.reading import read_rows
from kexpfam.estimators.real_columns import RealColumns
from kexpfam.estimators.saving import Saved
from kexpfam.estimators.surprising import SurprisingValues
from kexpfam.exceptions import FlowWarning, ModelFileError
from kexpfam.features import InteractionFeatures
from kexpfam.model import FlowDensity
from kexpfam.model.flow_completions import complete_rows
from kexpfam.model.flow_walk import walk_draws
from kexpfam.model.health import flow_complaint
from kexpfam.moments.level_sums import LevelSums
from kexpfam.pipeline.diffusion import (
    DiffusionFit,
    DiffusionSettings,
    emptied,
    fit_diffusion,
    with_rows,
    with_sums,
)
from kexpfam.progress import Progress
from kexpfam.tuning.frequencies import N_COMPONENTS
from kexpfam.types import Array, ArrayOrPair, Seed, Table, Weights

__all__ = ["KernelDiffusion"]

_MARGINALS = ("auto", "gaussianize", "yeo_johnson", None)
# More steps than any fit asks for.
_MOST_STEPS = 10_000
_NO_TILT = (
    "This model is its base density, which is not computed from sums over rows, so that rows can "
    "only be added or removed by another fit. To always fit a tilt, start with partial_fit or "
    "give n_components a number."
)


class KernelDiffusion(
    AdditiveRows,
    Saved,
    JudgedFit,
    IndependentDraws,
    MeanLogDensity,
    RealColumns,
    SurprisingValues,
    DensityMixin,
    BaseEstimator,
):
    """Density estimation with several noise levels, each fitted in closed form.

    One pass over the rows gives the score of the data smoothed at every noise level. The normalized
    log density is computed by moving rows along the probability flow through the levels, and no
    normalizing constant has to be estimated. Draws are made by moving draws of the highest level in
    the opposite direction.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of Fourier features, in cosine-sine pairs; an odd number is rounded up. "auto" means
        1024, or none if a trial on held-out rows gains too little over the base density (except in
        `partial_fit`, because rows can only be added to the sums of the features).
    basis : "auto" or InteractionFeatures, default="auto"
        How frequencies are drawn; "auto" chooses their range and orders on held-out rows.
    marginals : {"auto", "gaussianize", "yeo_johnson", None}, default="auto"
        Monotone map of each column: a power transform, or a power transform followed by the smooth
        map that makes the column standard normal. "auto" chooses by held-out likelihood.
    n_levels : int, default=6
        Noise levels, equally spaced in the logarithm.
    noise_range : "auto" or pair of float, default="auto"
        The lowest and highest noise, in standard deviations of the whitened rows. The model
        estimates the density of the rows with the lowest noise added; "auto" chooses it well below
        the finest structure of the base density.
    tolerance : float, default=1e-3
        The total error of a log density, in nats, that the steps of the flow's solver may cause.
    gate : bool, default=True
        Return the base density unless the model is better by more than a standard error, on rows
        that had no part in a fit of the same kind.
    random_state : int, RandomState, Generator or None, default=None
        Seed of frequencies, folds and draws.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    density_ : kexpfam.model.FlowDensity
        The fitted density.
    health_ : kexpfam.model.Health
        How reliable the density is: ``health_.in_words``, ``health_.findings()``.
    gain_, gain_error_ : float
        The gain over the base density on held-out rows, in nats per row, with its standard error;
        NaN if no tilt was tried.
    has_tilt_ : bool
        Whether the model differs from its base density.
    noise_scales_ : ndarray of shape (n_levels,)
    penalties_ : ndarray of shape (n_levels,)
        The penalty of each level; infinite if a level has no tilt, or the tilt of the level above.
    losses_ : ndarray of shape (n_levels,)
        Held-out loss of each level relative to the base density, in nats along the flow; minus
        their sum is the expected gain.
    basis_ : InteractionFeatures
        The range and orders of the frequencies.
    base_search_ : AverageSearch
        Size, shrinkage and held-out likelihood of the base density's mixtures.
    marginals_ : {"gaussianize", "yeo_johnson", None}
        The kind of marginal map that was chosen.
    tie_gaps_ : ndarray of shape (n_features,)
        Width of the cells over which the values of a tied (discrete or coarsely written) column
        were spread; zero for the others.
    n_steps_ : int
        Steps of the flow's solver, which meet the tolerance at draws of the base density; other
        rows may get shorter steps. 0 without a tilt, where the density is known exactly.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    References
    ----------
    .. [1] Y. Song et al., "Score-Based Generative Modeling through Stochastic Differential
       Equations", ICLR 2021.

    Notes
    -----
    `partial_fit` and `forget` change the sums from which the tilt is solved. The base density and
    the marginal maps are not sums over rows and remain those of the first fit. Use enough rows for
    the first fit, and fit again if later rows are in a region where it had none. Rows that are
    added are first used to judge the model, which updates `gain_`.

    Examples
    --------
    >>> from kexpfam import KernelDiffusion
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("ring").sample(300, random_state=0)
    >>> model = KernelDiffusion(n_components=64, n_levels=8, random_state=0).fit(X)
    >>> model.score_samples(X[:5]).shape, model.sample(10, random_state=0).shape
    ((5,), (10, 2))
    """

    _state_kind: ClassVar[type] = DiffusionFit

    @renamed(features="basis")
    def __init__(
        self,
        *,
        n_components: Any = "auto",
        basis: Any = "auto",
        marginals: Any = "auto",
        n_levels: int = 6,
        noise_range: Any = "auto",
        tolerance: float = 1e-3,
        gate: bool = True,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.basis = basis
        self.marginals = marginals
        self.n_levels = n_levels
        self.noise_range = noise_range
        self.tolerance = tolerance
        self.gate = gate
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Table,
        y: object = None,
        sample_weight: Weights = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> KernelDiffusion:
        """Fit every level to the rows of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features), or a stream
            As for `KernelExponentialFamily.fit`: files, datasets, iterators, Dask collections.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights of the rows; for files, the name of their column.
        checkpoint : path, optional
            As for `KernelExponentialFamily.fit`. Used only if there is a tilt to be fitted.

        Returns
        -------
        self
        """
        return self._fit(self._settings(), X, sample_weight, checkpoint)

    def _fit_first(self, X: Any, sample_weight: Any) -> KernelDiffusion:
        """Always sums for a tilt, because rows can only be added to them."""
        settings = self._settings()
        if settings.n_components == "auto":
            settings = replace(settings, n_components=N_COMPONENTS, keep_sums=True)
        return self._fit(settings, X, sample_weight)

    def _fit(
        self,
        settings: DiffusionSettings,
        X: Any,
        sample_weight: Any,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> KernelDiffusion:
        progress = Progress(self.verbose)
        source = read_rows(self, X, sample_weight, progress)
        self._fitted_library = library_of(X)
        names = list(getattr(self, "feature_names_in_", [])) or None
        with checkpointed(self, source, checkpoint) as (saved, numbers):
            seed = np.random.SeedSequence(numbers)
            self.fitted_ = fit_diffusion(source, settings, seed, progress, names, saved)
        progress.done()
        return self

    def _state(self, sums: bool) -> DiffusionFit:
        return self.fitted_ if sums else self.fitted_._replace(sums=None)

    def _restore(self, state: DiffusionFit) -> None:
        field, steps = state.density.field, state.density.steps
        levels, functions = field.coefficients.shape
        if (
            functions != field.basis.n_features
            or levels != len(field.knots)
            or len(steps) != levels - 1
            or not 0 <= steps.sum() <= _MOST_STEPS
            or (steps < 0).any()
        ):
            raise ModelFileError("the levels' coefficients, functions and steps do not match")
        self.fitted_ = state

    @property
    def density_(self) -> FlowDensity:
        """The fitted density."""
        return self.fitted_.density

    @property
    def noise_scales_(self) -> Array:
        """The noise levels."""
        return self.fitted_.levels.noise_scales

    @property
    def penalties_(self) -> Array:
        """The penalty of each level."""
        return self.fitted_.levels.penalties

    @property
    def losses_(self) -> Array:
        """The held-out loss of each level."""
        return self.fitted_.levels.losses

    @property
    def basis_(self) -> InteractionFeatures:
        """The range and orders of the frequencies."""
        return self.fitted_.features

    @property
    def base_search_(self) -> AverageSearch:
        """Size and shrinkage of the base density's mixtures."""
        return self.fitted_.base_search

    @property
    def marginals_(self) -> str | None:
        """The kind of marginal map."""
        return self.fitted_.marginals

    @property
    def tie_gaps_(self) -> Array:
        """Width of the cells of tied columns."""
        return self.fitted_.tie_gaps

    @property
    def n_steps_(self) -> int:
        """Steps of the flow."""
        return int(self.fitted_.density.steps.sum())

    def _with_rows(self, source: RowSource, sign: float) -> KernelDiffusion:
        self._kept_sums()
        self.fitted_ = with_rows(self.fitted_, source, sign, self._settings())
        return self

    def _with_sums_of(self, other: KernelDiffusion) -> KernelDiffusion:
        sums = self._kept_sums().joined(other._kept_sums().parts)
        self.fitted_ = with_sums(self.fitted_, sums, self._settings())
        return self

    def _choices(self) -> Any:
        sums, coordinates = self._kept_sums(), self.density_.coordinates
        marginals = astuple(coordinates.marginals)
        return sums.summation.content(), marginals, coordinates.shift, coordinates.root

    def _empty(self) -> None:
        self._kept_sums()
        self.fitted_ = emptied(self.fitted_)

    def _can_take_rows(self) -> bool:
        if hasattr(self, "fitted_") and not self._was_summed:
            raise AttributeError(_NO_TILT)
        return True

    @property
    def _was_summed(self) -> bool:
        """Whether there ever were sums over rows: with a tilt, or functions for one."""
        summed = self.has_tilt_ or self.fitted_.sums is not None
        return summed or not _is_auto(self.n_components)

    def _kept_sums(self) -> LevelSums:
        if not self._was_summed:
            raise ValueError(_NO_TILT)
        if self.fitted_.sums is None:
            raise ValueError(SUMS_LEFT_OUT)
        return self.fitted_.sums

    def score_samples(self, X: Table, return_error: bool = False) -> ArrayOrPair:
        """Normalized log density at each row of X, by the probability flow.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        return_error : bool, default=False
            Also return an estimate of the numerical error of each log density.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
        error : ndarray of shape (n_samples,)
            Only with `return_error`.
        """
        rows = self._checked_rows(X)
        logs, errors = self.density_.log_density_and_error(rows)
        if return_error:
            return logs, errors
        complaint = flow_complaint(errors, positive_number("tolerance", self.tolerance))
        if complaint is not None:
            warnings.warn(complaint, FlowWarning, stacklevel=2)
        return logs

    def gradient(self, X: Table) -> Table:
        """∇log p at each row of X: the derivative of `score_samples`.

        It is computed along the probability flow and takes a few times as long as `score_samples`.
        For the score of the data at a noise level see `smoothed_gradient`, which takes a thousandth
        of the time.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        gradient : ndarray or data frame of shape (n_samples, n_features)
            A data frame where X is one, with its index; see `set_output`.
        """
        return self._framed(X, self.density_.gradient(self._checked_rows(X)))

    def laplacian(self, X: Table) -> Array:
        """Δlog p at each row of X: second derivatives of `score_samples`.

        It takes about three times as long as `gradient` for every column.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        laplacian : ndarray of shape (n_samples,)
        """
        return self.density_.laplacian(self._checked_rows(X))

    def smoothed_gradient(self, X: Table, noise_scale: float | None = None) -> Table:
        """The score of the data at a noise level: ∇log of the density of rows with noise added.

        The levels are fitted to this score, and it defines the flow. At the lowest level it
        estimates the same quantity as `gradient` in another way: the two agree as far as the levels
        agree with each other, and exactly if the model is its base density.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        noise_scale : float, optional
            The standard deviation of the noise, in whitened coordinates; by default, and at least,
            that of the lowest level. From the highest level on, the score is that of the smoothed
            base density.

        Returns
        -------
        gradient : ndarray or data frame of shape (n_samples, n_features)
        """
        rows = self._checked_rows(X)
        found = self.density_.smoothed_gradient(rows, self._checked_scale(noise_scale))
        return self._framed(X, found)

    def smoothed_laplacian(self, X: Table, noise_scale: float | None = None) -> Array:
        """The divergence of `smoothed_gradient`.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        noise_scale : float, optional
            As in `smoothed_gradient`.

        Returns
        -------
        laplacian : ndarray of shape (n_samples,)
        """
        rows = self._checked_rows(X)
        return self.density_.smoothed_laplacian(rows, self._checked_scale(noise_scale))

    def _checked_scale(self, noise_scale: float | None) -> float:
        lowest = self.density_.field.lowest
        scale = lowest if noise_scale is None else as_number(noise_scale)
        # Levels that were taken from the model and went through logarithms are off by a last digit.
        if not lowest * (1 - 1e-9) <= scale < np.inf:
            raise ValueError(
                f"noise_scale must be a number no less than {lowest:g}, the lowest fitted level; "
                f"got {shown(noise_scale)}. For a lower one, fit with another noise_range."
            )
        return max(float(scale), lowest)

    def sample(
        self, n_samples: int = 1, random_state: Seed = None, *, method: str = "flow"
    ) -> Table:
        """Rows drawn from the model, in the units of the data.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState, Generator or None, default=None
        method : {"flow", "sde"}, default="flow"
            The probability flow, or ancestral steps with Langevin corrections.

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_features)
            A data frame where the model was fitted to one; see `set_output`.
        """
        check_is_fitted(self)
        checked_name("method", method, ("flow", "sde"))
        n_samples = whole("n_samples", n_samples)
        seeds = entropy(random_state, 2)
        generator = np.random.default_rng(seeds[0])
        if method == "flow":
            return self._drawn(self.density_.sample(n_samples, generator))
        return self._drawn(walk_draws(self.density_, n_samples, generator, int(seeds[1])))

    def impute(self, X: Table, random_state: Seed = None) -> Table:
        """X with every missing value (NaN) drawn, given the other values of its row.

        Call it several times with other seeds for multiple imputations. A row with all values
        missing is a draw from the model.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            With NaN where a value is to be drawn.
        random_state : int, RandomState, Generator or None, default=None

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_features)
            A data frame where X is one, with its index; see `set_output`.
        """
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False, ensure_all_finite="allow-nan")
        generator = seeded(random_state)
        return self._framed(X, complete_rows(self.density_, rows, generator))

    def _settings(self) -> DiffusionSettings:
        """Names resolved, numbers checked."""
        if not (isinstance(self.basis, InteractionFeatures) or _is_auto(self.basis)):
            raise ValueError(
                "basis must be 'auto' or an object like InteractionFeatures(orders=(1, 2)); got "
                f"{self.basis!r}."
            )
        return DiffusionSettings(
            n_components="auto"
            if _is_auto(self.n_components)
            else whole("n_components", self.n_components, otherwise="'auto'"),
            features=self.basis,
            marginals=checked_name("marginals", self.marginals, _MARGINALS),
            n_levels=whole("n_levels", self.n_levels, least=2),
            noise_range=self._checked_range(),
            tolerance=positive_number("tolerance", self.tolerance),
            gate=checked_flag("gate", self.gate),
            keep_sums=not _is_auto(self.n_components),
        )

    def _checked_range(self) -> Any:
        """ "auto", or two positive numbers in order."""
        if _is_auto(self.noise_range):
            return "auto"
        try:
            low, high = (float(value) for value in self.noise_range)
        except (TypeError, ValueError):
            low, high = 0.0, 0.0
        if not 0 < low < high < np.inf:
            raise ValueError(
                "noise_range must be 'auto' or two numbers (low, high) with 0 < low < high; got "
                f"{self.noise_range!r}."
            )
        return low, high


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
