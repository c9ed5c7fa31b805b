"""`KernelExponentialFamily`: a density with one noise level, fitted by the pipeline."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from kexpfam.base import BASES, RescaledDensity
from kexpfam.choices import checked_name, resolve, seeded, whole
from kexpfam.data.cells import library_of
from kexpfam.data.rows import RowSource
from kexpfam.estimators.additive import SUMS_LEFT_OUT, AdditiveRows
from kexpfam.estimators.checkpointing import checkpointed
from kexpfam.estimators.checks import (
    checked_flag,
    checked_length_scales,
    checked_number,
    checked_weights,
)
from kexpfam.estimators.judged import JudgedFit
from kexpfam.estimators.mean_log_density import MeanLogDensity
from kexpfam.estimators.reading import read_rows
from kexpfam.estimators.real_columns import RealColumns
from kexpfam.estimators.saving import Saved
from kexpfam.estimators.surprising import SurprisingValues
from kexpfam.exceptions import ModelFileError
from kexpfam.features import FEATURES, SPECTRA, InteractionFeatures
from kexpfam.model import TiltedDensity
from kexpfam.moments import add_moments
from kexpfam.noise import NOISES
from kexpfam.normalizer import NORMALIZERS
from kexpfam.pipeline.family import (
    FamilyFit,
    FamilySettings,
    emptied,
    fit_family,
    with_moments,
    with_rows,
)
from kexpfam.progress import Progress
from kexpfam.sampling import Chains, sample_density
from kexpfam.sampling.methods import METHODS
from kexpfam.tuning import CRITERIA, Hyperparameters, LossSurface, Tuning
from kexpfam.types import Array, Seed, Table, Weights

__all__ = ["KernelExponentialFamily"]

_TUNINGS = {"adam": Tuning(), "folds": Tuning(n_steps=0)}


class KernelExponentialFamily(
    AdditiveRows,
    Saved,
    JudgedFit,
    MeanLogDensity,
    RealColumns,
    SurprisingValues,
    DensityMixin,
    BaseEstimator,
):
    """Density estimation with a kernel exponential family, by denoising score matching.

    The density is log p(x) = f(x) + log q0(x) − log Z, where q0 is a base density that determines
    the tails and f is a linear combination of random Fourier features. Its coefficients minimize
    the score matching loss of the data with noise added, averaged over the noise in closed form.

    Rows are standardized internally. The hyperparameters `length_scale` and `noise_scale` are given
    and reported in standardized units, that is in standard deviations of each column. Log
    densities, gradients, Laplacians and `base_` are in the units of the data.

    Parameters
    ----------
    basis : {"fourier", "grid", "nystrom", "exact", "arc_cosine"} or object, default="fourier"
        The functions that f is made of: random Fourier features; equispaced frequencies, for up
        to three columns and any number of rows; sections of the kernel, or
        their derivatives, at inducing points (``NystromFeatures(functions="derivatives")``); the
        exact solution in the kernel's Hilbert space, for small tables; arc-cosine features
        (``ArcCosineFeatures(degree=2)``).
    n_components : int, default=512
        Number of functions. Fourier features come in cosine-sine pairs: an odd number is
        rounded up to the next even one.
    kernel : {"rbf", "matern", "rational_quadratic"} or object, default="rbf"
        The kernel, by its spectral distribution: ``Matern(nu=3.5)``,
        ``RationalQuadratic(alpha=2)``.
    length_scale : "auto", float or array of shape (n_features,), default="auto"
        The kernel's length-scale in each column.
    base : {"mixture", "averaged_mixture", "gaussian", "uniform", "boxes", "auto"} or object, \
            default="mixture"
        The base density q0: a family to fit ("boxes" is a mixture of boxes with soft edges, for
        data that end abruptly; "auto" chooses it, or an average of many Gaussians, if held-out rows
        prefer one of them to the mixture of few), or any object with ``log_density(X)``,
        ``gradient(X)`` and ``sample(n, generator)`` (and ``hessian(X)``) in the data's units.
    noise : {"auto", "gaussian", "laplace", "uniform"}, None or object, default="auto"
        The distribution of the noise. "auto" is Gaussian noise if the basis averages over it in
        closed form, otherwise none. None is plain score matching. ``MonteCarloNoise(distribution)``
        and ``TaylorNoise(distribution)`` average approximately, with any basis.
    noise_scale : "auto" or float, default="auto"
        Standard deviation of the noise.
    penalty : "auto" or float, default="auto"
        The ridge penalty λ on the coefficients.
    solution : {"closed_form", "likelihood"}, default="closed_form"
        How the coefficients are found: by denoising score matching in closed form, or, in one or
        two columns, by maximum penalized likelihood, which is a convex problem solved from the
        closed form. Length-scale and penalty of the likelihood are chosen by cross-validation,
        whatever `criterion` is. The basis must consist of Fourier functions ("fourier", "grid").
    criterion : {"score_matching", "likelihood"}, default="score_matching"
        What tuning minimizes on held-out rows: the noise-free score matching loss, or the
        negative log-likelihood.
    tuning : {"adam", "folds"} or Tuning, default="adam"
        "adam" follows the gradient of the criterion through the closed form, and then chooses
        penalty and noise scale again by cross-validation; "folds" only cross-validates.
    normalizer : {"auto", "importance", "quadrature"} or object, default="auto"
        How the normalizing constant is computed: by quadrature, which is possible in one or two
        columns and practically exact, or by importance sampling. "auto" is quadrature if it is
        possible.
    standardize : bool, default=True
        Whether columns are brought to zero mean and unit variance before fitting.
    gate : bool, default=True
        Return the base density unless the model is better by more than a standard error, on rows
        that had no part in a fit of the same kind.
    random_state : int, RandomState, Generator or None, default=None
        Seed of frequencies, mini-batches, folds and draws.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    density_ : kexpfam.model.TiltedDensity
        The fitted density.
    health_ : kexpfam.model.Health
        How reliable the density is: ``health_.in_words``, ``health_.findings()``.
    gain_, gain_error_ : float
        The gain over the base density on held-out rows, in nats per row, with its standard error;
        NaN if no tilt was tried.
    has_tilt_ : bool
        Whether the model differs from its base density.
    coefficients_ : ndarray of shape (n_components,)
    frequencies_ : ndarray of shape (n_frequencies, n_features)
        Of a Fourier basis, length-scales included, in standardized units.
    length_scale_ : ndarray of shape (n_features,)
    noise_scale_ : float
    penalty_ : float
        Infinite if nothing was better than the base density, which is then the model.
    base_ : object
        The base density in the data's units: `log_density`, `gradient`, `hessian`, `sample`.
    log_normalizer_, log_normalizer_error_ : float
        log Z and its standard error.
    effective_sample_size_ : float
        The effective sample size of the draws that estimate log Z; NaN for quadrature.
    pareto_shape_ : float
        Tail shape of the importance weights; above 0.7 they are not reliable.
    moments_ : record of arrays
        The sums over rows, which `partial_fit`, `merge` and `forget` change.
    weight_ : float
        The total weight of all rows.
    tuning_history_ : list of dict
        Step, loss relative to the base density, penalty, noise scale and length-scales.
    loss_surface_ : LossSurface or None
        The cross-validated figures from which penalty and noise scale were chosen.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    The model is compared with its base density: both are fitted with the same settings to four
    fifths of the rows and judged on the others. If the model is not better, the base density is
    returned, and `health_` says so. With ``gate=False`` the model is returned in any case.

    Rows with equal values are always on the same side of a split, and a weight of two is the same
    as a repetition.

    References
    ----------
    .. [1] O. Tsimboy, Y. Kapushev, E. Burnaev, I. Oseledets, "Denoising Score Matching with
       Random Fourier Features", 2021.
    .. [2] B. Sriperumbudur, K. Fukumizu, A. Gretton, A. Hyvärinen, R. Kumar, "Density Estimation
       in Infinite Dimensional Exponential Families", JMLR 2017.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("ring").sample(500, random_state=0)
    >>> model = KernelExponentialFamily(n_components=64, random_state=0).fit(X)
    >>> model.score_samples(X).shape, model.gradient(X).shape, model.laplacian(X).shape
    ((500,), (500, 2), (500,))
    >>> bool(model.score(X) > model.base_.log_density(X).mean())
    True
    """

    _state_kind: ClassVar[type] = FamilyFit

    def __init__(
        self,
        *,
        basis: Any = "fourier",
        n_components: int = 512,
        kernel: Any = "rbf",
        length_scale: Any = "auto",
        base: Any = "mixture",
        noise: Any = "auto",
        noise_scale: Any = "auto",
        penalty: Any = "auto",
        solution: str = "closed_form",
        criterion: str = "score_matching",
        tuning: Any = "adam",
        normalizer: Any = "auto",
        standardize: bool = True,
        gate: bool = True,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.basis = basis
        self.n_components = n_components
        self.kernel = kernel
        self.length_scale = length_scale
        self.base = base
        self.noise = noise
        self.noise_scale = noise_scale
        self.penalty = penalty
        self.solution = solution
        self.criterion = criterion
        self.tuning = tuning
        self.normalizer = normalizer
        self.standardize = standardize
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
    ) -> KernelExponentialFamily:
        """Fit the density to the rows of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features), or a stream
            A path or list of paths (Parquet, CSV, Arrow, .npy), a pyarrow dataset or table, an
            iterator of blocks or of (block, weights), a Dask array or data frame. Memory does not
            grow with the number of rows.
        y : ignored
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights of the rows; for files, the name of their column.
        checkpoint : path, optional
            A file to which the pass over the rows is saved every ten seconds. A fit that was
            interrupted continues from it with the same result. Afterwards the file is removed.

        Returns
        -------
        self
        """
        progress = Progress(self.verbose)
        source = read_rows(self, X, sample_weight, progress)
        self._fitted_library = library_of(X)
        names = list(getattr(self, "feature_names_in_", [])) or None
        settings = self._settings(self.n_features_in_)
        with checkpointed(self, source, checkpoint) as (saved, numbers):
            self.fitted_ = fit_family(source, settings, numbers, progress, names, saved)
        progress.done()
        return self

    def _state(self, sums: bool) -> FamilyFit:
        return self.fitted_ if sums else self.fitted_._replace(moments=None)

    def _restore(self, state: FamilyFit) -> None:
        density = state.density
        if len(density.coefficients) != density.basis.n_features:
            raise ModelFileError(
                f"{len(density.coefficients)} coefficients for {density.basis.n_features} functions"
            )
        self.fitted_ = state

    @property
    def density_(self) -> TiltedDensity:
        """The fitted density."""
        return self.fitted_.density

    @property
    def base_(self) -> RescaledDensity:
        """The base density, in the units of the data."""
        units = self.density_.standardizer
        return RescaledDensity(self.density_.base, units.center, units.scale)

    @property
    def coefficients_(self) -> Array:
        """The coefficients of f."""
        return self.density_.coefficients

    @property
    def frequencies_(self) -> Array | None:
        """The frequencies of a Fourier basis."""
        return getattr(self.density_.basis, "frequencies", None)

    @property
    def log_normalizer_(self) -> float:
        """log Z."""
        return self.fitted_.normalizer.log_normalizer

    @property
    def log_normalizer_error_(self) -> float:
        """The error of log Z: a standard error of draws, or a bound on that of a quadrature."""
        return self.fitted_.normalizer.error

    @property
    def effective_sample_size_(self) -> float:
        """The effective sample size of the draws that estimate log Z; NaN for a quadrature."""
        return self.fitted_.normalizer.effective_sample_size

    @property
    def pareto_shape_(self) -> float:
        """The tail shape of the weights that estimate log Z; NaN for a quadrature."""
        return self.fitted_.normalizer.pareto_shape

    @property
    def penalty_(self) -> float:
        """The penalty."""
        return self.fitted_.hyperparameters.penalty if self.has_tilt_ else float("inf")

    @property
    def noise_scale_(self) -> float:
        """The noise scale."""
        return self.fitted_.hyperparameters.noise_scale

    @property
    def length_scale_(self) -> Array:
        """The length-scale of each column."""
        return self.fitted_.hyperparameters.length_scale

    @property
    def tuning_history_(self) -> list[dict[str, Any]]:
        """The settings and the loss of every step of tuning."""
        return self.fitted_.history

    @property
    def loss_surface_(self) -> LossSurface | None:
        """Held-out losses of the cross-validation."""
        return self.fitted_.surface

    @property
    def moments_(self) -> Any:
        """The sums over rows."""
        return self.fitted_.moments

    @property
    def weight_(self) -> float:
        """The total weight of the rows."""
        return self.fitted_.weight

    def _choices(self) -> Any:
        """A base density by its values at some points."""
        density = self.density_
        probes = np.random.default_rng(0).standard_normal((16, self.n_features_in_))
        units = density.standardizer.center, density.standardizer.scale
        return density.basis, units, density.base.log_density(probes), self.noise_scale_

    def _empty(self) -> None:
        self._kept_moments()
        self.fitted_ = emptied(self.fitted_)

    def _with_sums_of(self, other: KernelExponentialFamily) -> KernelExponentialFamily:
        sums = add_moments(self._kept_moments(), other._kept_moments())
        settings = self._settings(self.n_features_in_)
        self.fitted_ = with_moments(self.fitted_, sums, settings)
        return self

    def _with_rows(self, source: RowSource, sign: float) -> KernelExponentialFamily:
        self._kept_moments()
        settings = self._settings(self.n_features_in_)
        self.fitted_ = with_rows(self.fitted_, source, sign, settings)
        return self

    def _kept_moments(self) -> Any:
        if self.moments_ is None:
            raise ValueError(SUMS_LEFT_OUT)
        return self.moments_

    def score_samples(self, X: Table) -> Array:
        """Normalized log density at each row of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
        """
        rows = self._checked_rows(X)
        return self.density_.log_density(rows)

    def gradient(self, X: Table) -> Table:
        """∇log p at each row of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        gradient : ndarray or data frame of shape (n_samples, n_features)
            A data frame where X is one, with its index; see `set_output`.
        """
        rows = self._checked_rows(X)
        return self._framed(X, self.density_.gradient(rows))

    def laplacian(self, X: Table) -> Array:
        """Δlog p at each row of X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        laplacian : ndarray of shape (n_samples,)
        """
        rows = self._checked_rows(X)
        return self.density_.laplacian(rows)

    def score_matching_loss(
        self, X: Table, sample_weight: Weights = None, *, standardized: bool = False
    ) -> float:
        """Noise-free score matching loss, mean[Δlog p + ½|∇log p|²], on the rows of X.

        Lower is better. Up to a constant of the rows' distribution, it is the Fisher divergence
        from it. On held-out rows and in standardized units, it is what tuning minimizes.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        sample_weight : array of shape (n_samples,), optional
        standardized : bool, default=False
            Measure derivatives per standard deviation of each column, as tuning does, instead of in
            the units of the data, so that all columns have the same weight.

        Returns
        -------
        float
        """
        X = self._checked_rows(X)
        metric = self.density_.standardizer.scale**2 if standardized else None
        losses = self.density_.score_matching_losses(X, metric)
        return float(np.average(losses, weights=checked_weights(sample_weight, X)))

    def sample(
        self, n_samples: int = 1, random_state: Seed = None, *, method: str = "mala", **options: Any
    ) -> Table:
        """Rows drawn from the fitted density, in the units of the data.

        A model without a tilt is drawn from its base density directly, other models by Markov
        chains.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState, Generator or None, default=None
        method : {"mala", "nuts"}, default="mala"
            Langevin steps with acceptance, or Hamiltonian dynamics without U-turns.
        **options
            As in `sample_chains`.

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_features)
            A data frame where the model was fitted to one; see `set_output`.
        """
        check_is_fitted(self)
        if not self.density_.has_tilt and not options:
            checked_name("method", method, METHODS)
            drawn = self.density_.sample(whole("n_samples", n_samples), seeded(random_state))
            return self._drawn(drawn)
        chains = self.sample_chains(n_samples, random_state, method=method, **options)
        return self._drawn(chains.rows(n_samples))

    def sample_chains(
        self,
        n_samples: int = 1000,
        random_state: Seed = None,
        *,
        method: str = "mala",
        n_chains: int = 64,
        n_steps: int | None = None,
        burn_in: int | None = None,
        step_size: float | None = None,
        jumps: bool = True,
        starts: Any = None,
    ) -> Chains:
        """Markov chains with their diagnostics: acceptance, R-hat, effective sample size.

        Parameters
        ----------
        n_samples : int, default=1000
            Draws wanted from all chains together.
        random_state : int, RandomState, Generator or None, default=None
        method : {"mala", "nuts"}, default="mala"
            Langevin steps with acceptance, or Hamiltonian dynamics without U-turns.
        n_chains : int, default=64
            Number of chains that run in parallel.
        n_steps, burn_in : int, optional
            Steps of each chain, including burn-in; by default enough for good diagnostics.
        step_size : float, optional
            Step size in standardized units; by default it is adapted to the usual acceptance rate.
        jumps : bool, default=True
            Whether draws of the base density are proposed as well, so that chains can change modes.
        starts : array of shape (n_chains, n_features), optional
            Starting points of the chains; by default draws of the base density, resampled by
            weight.

        Returns
        -------
        kexpfam.sampling.Chains
            The draws and their diagnostics.

        See Also
        --------
        kexpfam.sampling.sample_density
        """
        check_is_fitted(self)
        return sample_density(
            self.density_,
            n_samples,
            random_state,
            method=method,
            n_chains=n_chains,
            n_steps=n_steps,
            burn_in=burn_in,
            step_size=step_size,
            jumps=jumps,
            starts=starts,
            progress=Progress(self.verbose),
        )

    def sample_with_diagnostics(
        self, n_samples: int, random_state: Seed = None
    ) -> tuple[Table, Chains | None]:
        """Draws, and the Markov chains that they come from.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState, Generator or None, default=None

        Returns
        -------
        draws : ndarray or data frame of shape (n_samples, n_features)
        chains : kexpfam.sampling.Chains, or None
            None for models whose draws are independent.
        """
        chains = self.sample_chains(n_samples, random_state)
        return self._drawn(chains.rows(n_samples)), chains

    def _settings(self, n_columns: int) -> FamilySettings:
        """Names resolved, numbers checked."""
        if isinstance(self.basis, InteractionFeatures):
            raise ValueError(
                "basis must be one of KernelExponentialFamily's own; got InteractionFeatures, "
                "which are drawn in the whitened coordinates of KernelDiffusion. Use "
                f"KernelDiffusion(basis={self.basis!r}), or basis='fourier' here."
            )
        return FamilySettings(
            features=resolve(
                "basis", self.basis, FEATURES, "an object like FourierFeatures()", "build"
            ),
            n_components=whole("n_components", self.n_components),
            spectrum=resolve(
                "kernel", self.kernel, SPECTRA, "an object like Matern(nu=3.5)", "multipliers"
            ),
            base=resolve("base", self.base, BASES, "an object like MixtureBase(n_components=5)"),
            noise=resolve(
                "noise", self.noise, NOISES, "an object like GaussianNoise()", "checked_for"
            ),
            given=Hyperparameters(
                penalty=checked_number("penalty", self.penalty, least=0.0),
                noise_scale=checked_number("noise_scale", self.noise_scale, least=0.0),
                length_scale=checked_length_scales(self.length_scale, n_columns),
            ),
            solution=self._checked_solution(n_columns),
            criterion=checked_name("criterion", self.criterion, CRITERIA),
            tuning=resolve(
                "tuning", self.tuning, _TUNINGS, "an object like Tuning(n_steps=30)", "n_folds"
            ),
            normalizer=resolve(
                "normalizer",
                self.normalizer,
                NORMALIZERS,
                "an object like ImportanceNormalizer(n_draws=100_000)",
                "estimate",
            ),
            standardize=checked_flag("standardize", self.standardize),
            gate=checked_flag("gate", self.gate),
        )

    def _checked_solution(self, n_columns: int) -> str:
        solution = checked_name("solution", self.solution, ("closed_form", "likelihood"))
        if solution == "likelihood" and n_columns > 2:
            raise ValueError(
                "solution='likelihood' integrates over all columns, and so is for one or two of "
                f"them; got {n_columns}. Use solution='closed_form', or KernelDiffusion; for one "
                "column given the others, ConditionalKernelExponentialFamily."
            )
        return str(solution)
