"""`KernelDiffusion`: every noise level in closed form, with a normalised likelihood."""

from __future__ import annotations

import warnings
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from kexpfam.base.averaged import AverageSearch
from kexpfam.choices import as_number, checked_name, positive_number, shown, whole
from kexpfam.data.coordinates import Coordinates
from kexpfam.data.rows import RowSource
from kexpfam.estimators.additive import NO_ROWS_LEFT, SUMS_LEFT_OUT, AdditiveRows
from kexpfam.estimators.checks import checked_rows
from kexpfam.estimators.likelihood import MeanLogDensity
from kexpfam.estimators.reading import read_rows
from kexpfam.estimators.saving import Saved
from kexpfam.exceptions import FlowWarning, ModelFileError
from kexpfam.features import InteractionFeatures
from kexpfam.ladder import (
    LadderSettings,
    complete_rows,
    derivatives,
    fit_ladder,
    flow_draws,
    log_densities,
    score_field,
    steps_needed,
    walk_draws,
)
from kexpfam.ladder.flow import ScoreField
from kexpfam.ladder.frequencies import N_COMPONENTS
from kexpfam.ladder.levels import Levels, no_levels
from kexpfam.ladder.sums import LadderSums
from kexpfam.moments import Checkpoint
from kexpfam.progress import Progress

__all__ = ["KernelDiffusion"]

# Times its tolerance, an error of the flow is worth a warning.
_POOR = 100.0
_MARGINALS = ("auto", "gaussianize", "yeo_johnson", None)
# More steps than any fit asks for.
_MOST_STEPS = 10_000
_NO_TILT = (
    "This model is its base density alone (n_steps_ = 0), which is not a sum over rows: they can "
    "be added or taken away only by another fit. To have a tilt in any case, start with "
    "partial_fit or give n_components a number."
)


class DiffusionState(NamedTuple):
    """All that a fitted `KernelDiffusion` consists of."""

    coordinates: Coordinates
    field: ScoreField
    noise_scales: Float[np.ndarray, " l"]
    penalties: Float[np.ndarray, " l"]
    losses: Float[np.ndarray, " l"]
    features: InteractionFeatures
    base_search: AverageSearch
    marginals: str | None
    tie_gaps: Float[np.ndarray, " d"]
    n_steps: int
    has_tilt: bool
    sums: LadderSums | None


class KernelDiffusion(AdditiveRows, Saved, MeanLogDensity, DensityMixin, BaseEstimator):
    """Density estimation with a ladder of noise levels, each fitted in closed form.

    One pass over the rows gives the score of the data smoothed at every noise level. Moving rows
    along the probability flow through the levels gives a normalised log density, with no
    normalising constant to estimate, and moving draws the other way samples.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of Fourier features, in cosine-sine pairs: an odd number is rounded up. "auto" takes
        1024, or none where a trial on held-out rows gains too little over the base density (but
        `partial_fit` always takes them: rows can be added to nothing else).
    features : "auto" or InteractionFeatures, default="auto"
        How frequencies are drawn; "auto" chooses their range and orders on held-out rows.
    marginals : {"auto", "gaussianize", "yeo_johnson", None}, default="auto"
        Monotone map of each column: a power transform, or that and the smooth map which makes the
        column standard normal. "auto" decides by held-out likelihood.
    n_levels : int, default=10
        Noise levels, equally spaced in the logarithm.
    noise_range : "auto" or pair of float, default="auto"
        The lowest and highest noise, in deviations of the whitened rows. What the model gives is
        the density of the rows with the lowest noise added; "auto" stays well below the finest
        structure of the base density.
    tolerance : float, default=1e-3
        Of the flow's solver: the error in a log density, in nats, that its steps may add up to.
    random_state : int, RandomState or None, default=None
        Seed of frequencies, folds and draws.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    noise_scales_ : ndarray of shape (n_levels,)
    penalties_ : ndarray of shape (n_levels,)
        Of each level; infinite where the base density alone was best.
    losses_ : ndarray of shape (n_levels,)
        Held-out denoising loss of each level, relative to the base density.
    features_ : InteractionFeatures
        The frequencies' range and orders.
    base_search_ : AverageSearch
        Size, shrinkage and held-out likelihood of the base density's mixtures.
    marginals_ : {"gaussianize", "yeo_johnson", None}
        The kind of marginal map that was chosen.
    tie_gaps_ : ndarray of shape (n_features,)
        Width of the cells over which the values of a tied (discrete or coarsely written) column
        were spread; zero for the others.
    n_steps_ : int
        Steps of the flow's solver that meet the tolerance at draws of the base density; rows where
        they do not get steps a quarter as long. 0 where the base density is alone, whose flow is
        known exactly.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    References
    ----------
    .. [1] Y. Song et al., "Score-Based Generative Modeling through Stochastic Differential
       Equations", ICLR 2021.

    Notes
    -----
    `partial_fit` and `forget` change the sums that the tilt is solved from. The base density and
    the marginal maps are not sums over rows: they stay those of the first fit. Give that one
    enough rows, and fit anew when rows come from where it had none.

    Examples
    --------
    >>> from kexpfam import KernelDiffusion
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("ring").sample(300, random_state=0)
    >>> model = KernelDiffusion(n_components=64, n_levels=8, random_state=0).fit(X)
    >>> model.score_samples(X[:5]).shape, model.sample(10, random_state=0).shape
    ((5,), (10, 2))
    """

    _state_kind: ClassVar[type] = DiffusionState

    def __init__(
        self,
        *,
        n_components: Any = "auto",
        features: Any = "auto",
        marginals: Any = "auto",
        n_levels: int = 10,
        noise_range: Any = "auto",
        tolerance: float = 1e-3,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.features = features
        self.marginals = marginals
        self.n_levels = n_levels
        self.noise_range = noise_range
        self.tolerance = tolerance
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> KernelDiffusion:
        """Fit every level to the rows of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features), or a stream
            As for `KernelExponentialFamily.fit`: files, datasets, iterators, Dask collections.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights of the rows; of files, the name of the column that holds them.
        checkpoint : path, optional
            As for `KernelExponentialFamily.fit`. Used only if there is a tilt to be fitted.

        Returns
        -------
        self
        """
        return self._fit(self._settings(), X, sample_weight, checkpoint)

    def _fit_first(self, X: Any, sample_weight: Any) -> KernelDiffusion:
        """With a tilt in any case: rows can be added to nothing else."""
        settings = self._settings()
        if settings.n_components == "auto":
            settings = replace(settings, n_components=N_COMPONENTS)
        return self._fit(settings, X, sample_weight)

    def _fit(
        self, settings: LadderSettings, X: Any, sample_weight: Any, checkpoint: Any = None
    ) -> KernelDiffusion:
        progress = Progress(self.verbose)
        source = read_rows(self, X, sample_weight, progress)
        entropy = check_random_state(self.random_state).randint(2**31, size=4).tolist()
        saved = None if checkpoint is None else Checkpoint(Path(checkpoint))
        if saved is not None:
            entropy = saved.entropy(entropy)
        fit = fit_ladder(
            source,
            settings,
            np.random.SeedSequence(entropy),
            progress,
            list(getattr(self, "feature_names_in_", [])) or None,
            saved,
        )
        if saved is not None:
            saved.remove()
        self._restore(
            DiffusionState(
                coordinates=fit.coordinates,
                field=fit.field,
                noise_scales=fit.levels.noise_scales,
                penalties=fit.levels.penalties,
                losses=fit.levels.losses,
                features=fit.features,
                base_search=fit.base,
                marginals=fit.marginals,
                tie_gaps=fit.gaps,
                n_steps=fit.n_steps,
                has_tilt=fit.sums is not None,
                sums=fit.sums,
            )
        )
        return self

    def _state(self, sums: bool) -> DiffusionState:
        return DiffusionState(
            coordinates=self.coordinates_,
            field=self.field_,
            noise_scales=self.noise_scales_,
            penalties=self.penalties_,
            losses=self.losses_,
            features=self.features_,
            base_search=self.base_search_,
            marginals=self.marginals_,
            tie_gaps=self.tie_gaps_,
            n_steps=self.n_steps_,
            has_tilt=self._has_tilt,
            sums=self._sums if sums else None,
        )

    def _restore(self, state: DiffusionState) -> None:
        field = state.field
        pieces, functions = field.cubics.shape[1:]
        if (
            functions != field.basis.n_features
            or pieces != len(field.knots) - 1
            or not 0 <= state.n_steps <= _MOST_STEPS
        ):
            raise ModelFileError("the levels' coefficients, functions and steps do not match")
        self.coordinates_, self.field_ = state.coordinates, field
        self.noise_scales_, self.penalties_ = state.noise_scales, state.penalties
        self.losses_, self.features_ = state.losses, state.features
        self.base_search_, self.marginals_ = state.base_search, state.marginals
        self.tie_gaps_, self.n_steps_ = state.tie_gaps, state.n_steps
        self._has_tilt, self._sums = state.has_tilt, state.sums

    def _with_rows(self, source: RowSource, sign: float) -> KernelDiffusion:
        return self._solve_again(self._kept_sums().added(source, sign))

    def _with_sums_of(self, other: KernelDiffusion) -> KernelDiffusion:
        return self._solve_again(self._kept_sums().joined(other._kept_sums().parts))

    def _choices(self) -> Any:
        sums, coordinates = self._kept_sums(), self.coordinates_
        marginals = astuple(coordinates.marginals)
        return sums.summation.content(), marginals, coordinates.shift, coordinates.root

    def _empty(self) -> None:
        self._sums = self._kept_sums().emptied()
        self._settle(no_levels(self.field_.basis, self.noise_scales_))

    def _can_take_rows(self) -> bool:
        if not getattr(self, "_has_tilt", True):
            raise AttributeError(_NO_TILT)
        return True

    def _kept_sums(self) -> LadderSums:
        if not self._has_tilt:
            raise ValueError(_NO_TILT)
        if self._sums is None:
            raise ValueError(SUMS_LEFT_OUT)
        return self._sums

    def _solve_again(self, sums: LadderSums) -> KernelDiffusion:
        if not sums.weight > 1e-9 * self._kept_sums().weight:
            raise ValueError(NO_ROWS_LEFT)
        self._sums = sums
        self._settle(sums.solved(Progress(self.verbose)))
        return self

    def _settle(self, levels: Levels) -> None:
        """Take on other coefficients."""
        self.field_ = score_field(self.field_.basis, self.field_.base, levels)
        self.penalties_, self.losses_ = levels.penalties, levels.losses
        self.n_steps_ = steps_needed(self.field_, self.tolerance)

    def score_samples(self, X: Any, return_error: bool = False) -> Any:
        """Normalised log density at each row of X, by the probability flow.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        return_error : bool, default=False
            Also give an estimate of each log density's numerical error.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
        error : ndarray of shape (n_samples,)
            Only with `return_error`.
        """
        rows = self._checked_rows(X)
        whitened = self.coordinates_.forward(rows)
        logs, errors = log_densities(self.field_, whitened, self.n_steps_, self.tolerance)
        logs += self.coordinates_.log_jacobian(rows)
        if return_error:
            return logs, errors
        poor = int((~(errors <= _POOR * self.tolerance)).sum())
        if poor:
            warnings.warn(
                f"The probability flow's error estimate is above {_POOR:g} times its tolerance of "
                f"{self.tolerance:g} at {poor} of {len(rows)} rows. They may lie far outside the "
                "data; score_samples(X, return_error=True) says which. Elsewhere a smaller "
                "tolerance helps.",
                FlowWarning,
                stacklevel=2,
            )
        return logs

    def gradient(self, X: Any, noise_scale: float | None = None) -> Float[np.ndarray, "n d"]:
        """∇log p at each row of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        noise_scale : float, optional
            The noise level, within `noise_range`; the lowest by default.

        Returns
        -------
        gradient : ndarray of shape (n_samples, n_features)
        """
        rows = self._checked_rows(X)
        score, _ = self._derivatives(rows, self._time_of(noise_scale))
        return self.coordinates_.pulled_back(rows, score)

    def laplacian(self, X: Any, noise_scale: float | None = None) -> Float[np.ndarray, " n"]:
        """Δlog p at each row of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        noise_scale : float, optional
            The noise level, within `noise_range`; the lowest by default.

        Returns
        -------
        laplacian : ndarray of shape (n_samples,)
        """
        rows = self._checked_rows(X)
        score, curvature = self._derivatives(rows, self._time_of(noise_scale))
        return self.coordinates_.pulled_back_laplacian(rows, score, curvature)

    def _time_of(self, noise_scale: float | None) -> float:
        """The logarithm of a noise level within the ladder."""
        lowest, highest = self.noise_scales_[0], self.noise_scales_[-1]
        level = lowest if noise_scale is None else as_number(noise_scale)
        if not lowest <= level <= highest:
            raise ValueError(
                f"noise_scale must be a number between {lowest:g} and {highest:g}, the fitted "
                f"levels; got {shown(noise_scale)}. For others, fit with another noise_range."
            )
        return float(np.log(level))

    def _derivatives(self, rows: Float[np.ndarray, "n d"], time: float) -> tuple[Any, Any]:
        """The score in whitened coordinates, and the curvature that the Laplacian needs."""
        whitened, metric = self.coordinates_.forward(rows), self.coordinates_.slopes(rows) ** 2
        return derivatives(self.field_, whitened, time, self.coordinates_.inverse_root, metric)

    def sample(
        self, n_samples: int = 1, random_state: Any = None, *, method: str = "flow"
    ) -> Float[np.ndarray, "n d"]:
        """Rows drawn from the model, in the units of the data.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState or None, default=None
        method : {"flow", "sde"}, default="flow"
            The probability flow, or ancestral steps with Langevin corrections.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        checked_name("method", method, ("flow", "sde"))
        n_samples = whole("n_samples", n_samples)
        seeds = check_random_state(random_state).randint(2**31, size=2)
        generator = np.random.default_rng(seeds[0])
        # Without a tilt the lowest level is as known as the highest.
        first = -1 if self.n_steps_ > 0 or method == "sde" else 0
        start = self.field_.base.sample(n_samples, self.noise_scales_[first], generator)
        if first == 0:
            ends = start
        elif method == "flow":
            ends = flow_draws(self.field_, start, self.n_steps_)
        else:
            ends = walk_draws(self.field_, start, int(seeds[1]))
        return self.coordinates_.backward(ends)

    def impute(self, X: Any, random_state: Any = None) -> Float[np.ndarray, "n d"]:
        """X with every missing value (NaN) drawn from its law given the row's other values.

        Call it several times with other seeds for multiple imputations. A row with all values
        missing is a draw from the model.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
            With NaN where a value is to be drawn.
        random_state : int, RandomState or None, default=None

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        rows = checked_rows(self, X, reset=False, ensure_all_finite="allow-nan")
        generator = np.random.default_rng(check_random_state(random_state).randint(2**31, size=4))
        missing, completed = np.isnan(rows), rows.copy()
        for pattern in np.unique(missing[missing.any(axis=1)], axis=0):
            members = (missing == pattern).all(axis=1)
            partial = np.where(
                pattern, self.coordinates_.marginals.standardizer.center, rows[members]
            )
            values = self.coordinates_.mapped(partial)[:, ~pattern]
            whitened = complete_rows(
                self.field_, self.coordinates_.root[~pattern], values, generator
            )
            drawn = self.coordinates_.backward(whitened)
            completed[members] = np.where(pattern, drawn, rows[members])
        return completed

    def _settings(self) -> LadderSettings:
        """Names resolved, numbers checked."""
        if not (isinstance(self.features, InteractionFeatures) or _is_auto(self.features)):
            raise ValueError(
                "features must be 'auto' or an object like InteractionFeatures(orders=(1, 2)); got "
                f"{self.features!r}."
            )
        return LadderSettings(
            n_components="auto"
            if _is_auto(self.n_components)
            else whole("n_components", self.n_components, otherwise="'auto'"),
            features=self.features,
            marginals=checked_name("marginals", self.marginals, _MARGINALS),
            n_levels=whole("n_levels", self.n_levels, least=2),
            noise_range=self._checked_range(),
            tolerance=positive_number("tolerance", self.tolerance),
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
