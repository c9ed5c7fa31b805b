"""`ConditionalKernelExponentialFamily`: the whole distribution of a target given inputs."""

from __future__ import annotations

import os
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kexpfam.choices import checked_name, seeded, shown, whole
from kexpfam.choices import share as checked_share
from kexpfam.data.cells import library_of
from kexpfam.data.pairs import PairTable, make_table
from kexpfam.data.rows import ArrayRows, RowSource
from kexpfam.estimators.additive import SUMS_LEFT_OUT, AdditiveSums
from kexpfam.estimators.checkpointing import checkpointed
from kexpfam.estimators.checks import checked_flag, checked_rows, checked_weights
from kexpfam.estimators.file_checks import conditional_fits
from kexpfam.estimators.frames import FramesOut
from kexpfam.estimators.judged import JudgedFit
from kexpfam.estimators.reading import read_pairs
from kexpfam.estimators.saving import Saved
from kexpfam.estimators.targets import (
    checked_bounds,
    checked_lattice,
    checked_pairs,
    refuse_degenerate,
    refuse_outside,
)
from kexpfam.exceptions import ModelFileError
from kexpfam.model.conditional import ConditionalDensity
from kexpfam.moments import CheckpointedWalk, add_moments
from kexpfam.pipeline.conditional import (
    MOST_ROWS,
    ConditionalFit,
    ConditionalSettings,
    TargetSums,
    emptied,
    fit_conditional,
    with_rows,
    with_sums,
)
from kexpfam.progress import Progress
from kexpfam.types import Array, ArrayOrPair, Column, Seed, Table, Weights

__all__ = ["ConditionalKernelExponentialFamily"]

_KERNELS = ("auto", "rbf", "matern")
_SOLUTIONS = ("likelihood", "closed_form")
_STATISTICS = ("mean", "median", "mode")
_KINDS = ("equal_tailed", "highest_density")
_NO_SUMS = (
    "The maximum-likelihood tilt cannot be computed from sums over rows, so that rows cannot be "
    "added or removed. Use solution='closed_form', or fit again to all rows."
)


class ConditionalKernelExponentialFamily(
    FramesOut, JudgedFit, AdditiveSums, Saved, RegressorMixin, BaseEstimator
):
    """The density of one target given inputs, with intervals, quantiles and draws.

    A Gaussian process gives the location and scale of y at each x. A tilt, which is a function of
    the residual and of x with a product kernel, gives this normal density the shape of the data: it
    may be skewed, have heavy or short tails or several modes, and a scale that varies with x. The
    density is normalized by a quadrature in one dimension. If held-out rows gain from it, the
    density is pooled with the conditional density of a Gaussian mixture of inputs and target
    (``mixture_share_``), which describes clusters of rows, each with its own slopes and scale.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of kernel functions of x in the tilt; "auto" means 200, or 40 with the closed form.
    solution : {"likelihood", "closed_form"}, default="likelihood"
        How the tilt is fitted: by maximum penalized likelihood, which is a convex problem, or by
        score matching with noise on the residual, which is one linear system of sums over rows.
        Both are normalized in the same way, and their settings are chosen by held-out likelihood.
    kernel : {"auto", "rbf", "matern"}, default="auto"
        The kernel over x; "auto" chooses the one with the higher evidence.
    bounds : pair, "auto" or None, default=None
        The smallest and largest possible value of y, with ``None`` for no bound, such as ``(0,
        None)``. There is no mass outside of them. "auto" finds a bound at 0, and for shares at 1 or
        100, if it is very unlikely by chance that all rows are on one side of it.
    lattice : float, "auto" or None, default=None
        The distance between neighboring values of y, if y is a whole number, a grade or a count;
        "auto" finds it. The model then gives probabilities: `score_samples` returns the log
        probability of y, which is minus infinity between the points of the lattice.
    gate : bool, default=True
        Return the base density (location and scale) unless the tilt improves on it on held-out rows
        by more than a standard error.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the order of the rows, which decides which rows are inducing points, which are in
        the sample, and in which fold. An int gives the same model again.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    density_ : kexpfam.model.ConditionalDensity
        The fitted density.
    health_ : kexpfam.model.Health
        How reliable the density is: ``health_.in_words``, ``health_.findings()``.
    gain_, gain_error_ : float
        Nats per row that the tilt gained over the base density on held-out rows, with the standard
        error; NaN if there were too few rows to try one.
    has_tilt_ : bool
        Whether the model differs from its base density.
    mixture_share_ : float
        The weight of the Gaussian mixture of inputs and target with which the kernel's density is
        pooled; zero if held-out rows do not gain from it.
    penalty_ : float
        The penalty of the tilt; infinite if there is no tilt.
    weight_ : float
        The total weight of all rows seen.
    bounds_ : tuple of float
        The bounds, given or found; infinite if there is none.
    target_name_ : str or None
        The name of y, if it was the name of a column or a series with a name.
    kernel_ : {"rbf", "matern"}
    length_scale_ : ndarray of shape (n_features,)
        In the units of each input; a large one means that the input hardly matters.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    References
    ----------
    .. [1] M. Arbel and A. Gretton, "Kernel Conditional Exponential Family", AISTATS 2018.
    .. [2] C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", 2006.

    Notes
    -----
    The location is exact for up to 1200 rows. With more rows it uses 1024 inducing points (Nyström)
    and sums over all rows, and its cost is linear in the number of rows: half a minute per million
    on one core, while the cost of the exact location is cubic. All settings are chosen on a sample
    of at most 20 000 rows, and the maximum-likelihood tilt is fitted to this sample as well. The
    closed form is solved from sums over all rows, so that rows can be added (`partial_fit`,
    `merge`) and removed (`forget`) afterwards. Its residuals are those of the location of the first
    fit.

    A file written by `save` contains the inducing points, which are inputs of training rows.

    Examples
    --------
    >>> import numpy as np
    >>> from kexpfam import ConditionalKernelExponentialFamily
    >>> generator = np.random.default_rng(0)
    >>> X = generator.uniform(-3, 3, (200, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * generator.standard_normal(200)
    >>> model = ConditionalKernelExponentialFamily(random_state=0).fit(X, y)
    >>> model.score_samples(X[:5], y[:5]).shape, model.predict_interval(X[:5]).shape
    ((5,), (5, 2))
    """

    _state_kind: ClassVar[type] = ConditionalFit

    def __init__(
        self,
        *,
        n_components: Any = "auto",
        solution: str = "likelihood",
        kernel: str = "auto",
        bounds: Any = None,
        lattice: Any = None,
        gate: bool = True,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.solution = solution
        self.kernel = kernel
        self.bounds = bounds
        self.lattice = lattice
        self.gate = gate
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Table,
        y: Column = None,
        sample_weight: Weights = None,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> ConditionalKernelExponentialFamily:
        """Fit the density of y given X.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features), or a stream
            A path or list of paths (Parquet, CSV, Arrow), a pyarrow dataset or table, an iterator
            of (block, targets) or (block, targets, weights), a Dask array or data frame. Memory
            does not grow with the number of rows.
        y : array of shape (n_samples,), or str
            The targets; for files and Dask data frames, the name of their column; for an iterator,
            None.
        sample_weight : array of shape (n_samples,), optional
            Non-negative weights of the rows; for files, the name of their column. A weight of two
            is the same as giving a row twice.
        checkpoint : path, optional
            A file to which the passes over many rows are saved every ten seconds. A fit that was
            interrupted continues from it with the same result. Afterwards the file is removed.

        Returns
        -------
        self
        """
        settings, progress = self._settings(), Progress(self.verbose)
        self._fitted_library = library_of(X)
        source = read_pairs(self, X, y, sample_weight, progress)
        name = y if isinstance(y, str) else getattr(y, "name", None)
        with checkpointed(self, source, checkpoint) as (saved, numbers):
            table = make_table(source, numbers[0], MOST_ROWS)
            names = list(getattr(self, "feature_names_in_", [])) or None
            on_lattice = settings.lattice is not None
            refuse_degenerate(*_some_rows(source, table), names, on_lattice=on_lattice)
            refuse_outside(table.low, table.high, settings.bounds)
            # One file for each pass over the rows.
            files = [] if saved is None else [saved, saved.beside("tilt")]
            walks = [CheckpointedWalk(one, numbers).total for one in files]
            found = fit_conditional(table, settings, numbers[0], progress, walks)
        progress.done()
        self.fitted_ = found._replace(target=name if isinstance(name, str) else None)
        return self

    @available_if(lambda model: model._can_take_rows())
    def partial_fit(
        self, X: Table, y: Column = None, sample_weight: Weights = None
    ) -> ConditionalKernelExponentialFamily:
        """Add rows to those that the model was fitted to; needs ``solution="closed_form"``.

        The first call is `fit`: it chooses units, kernel, inducing points, functions and penalty,
        and the location that defines the residuals. Later calls keep these, add to the sums over
        rows, and solve for location and tilt again.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`

        Returns
        -------
        self
        """
        if not hasattr(self, "fitted_"):
            return self.fit(X, y, sample_weight)
        return self._with_rows(self._further(X, y, sample_weight), 1.0)

    def forget(
        self, X: Table, y: Column = None, sample_weight: Weights = None
    ) -> ConditionalKernelExponentialFamily:
        """Remove rows from the sums, exactly (up to rounding).

        The units, kernel, inducing points, functions, scale and penalty, which were chosen with
        these rows, stay the same. To remove their influence altogether, fit again without them.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`

        Returns
        -------
        self
        """
        check_is_fitted(self)
        self._kept_sums()
        return self._without_rows(self._further(X, y, sample_weight))

    def _further(self, X: Any, y: Any, sample_weight: Any) -> RowSource:
        return read_pairs(self, X, y, sample_weight, Progress(self.verbose), first=False)

    def _can_take_rows(self) -> bool:
        if self.solution != "closed_form":
            raise AttributeError(_NO_SUMS)
        return True

    def _kept_sums(self) -> TargetSums:
        if self.fitted_.reference is None:
            raise ValueError(_NO_SUMS)
        if self.fitted_.sums is None:
            raise ValueError(SUMS_LEFT_OUT)
        return self.fitted_.sums

    def _with_rows(self, source: RowSource, sign: float) -> ConditionalKernelExponentialFamily:
        self._kept_sums()
        self.fitted_ = with_rows(self.fitted_, source, sign, self._settings())
        return self

    def _with_sums_of(
        self, other: ConditionalKernelExponentialFamily
    ) -> ConditionalKernelExponentialFamily:
        sums = add_moments(self._kept_sums(), other._kept_sums())
        self.fitted_ = with_sums(self.fitted_, sums, self._settings())
        return self

    def _choices(self) -> Any:
        self._kept_sums()
        density, fit = self.density_, self.fitted_
        units = density.standardizer.center, density.standardizer.scale
        # Words are no arrays; which kernel it is shows in the functions.
        numbers = [one for one in density.functions if not isinstance(one, str)]
        return units, density.response, numbers, density.factor, fit.reference.told, fit.penalty

    def _empty(self) -> None:
        self._kept_sums()
        self.fitted_ = emptied(self.fitted_)

    def _settings(self) -> ConditionalSettings:
        auto = isinstance(self.n_components, str) and self.n_components == "auto"
        return ConditionalSettings(
            n_components="auto"
            if auto
            else whole("n_components", self.n_components, otherwise="'auto'"),
            solution=checked_name("solution", self.solution, _SOLUTIONS),
            kernel=checked_name("kernel", self.kernel, _KERNELS),
            bounds=checked_bounds(self.bounds),
            lattice=checked_lattice(self.lattice, self.solution),
            gate=checked_flag("gate", self.gate),
        )

    def _state(self, sums: bool) -> ConditionalFit:
        return self.fitted_ if sums else self.fitted_._replace(sums=None)

    def _restore(self, state: ConditionalFit) -> None:
        if not conditional_fits(state):
            raise ModelFileError("the inputs, functions, coefficients and mixture do not match")
        self.fitted_ = state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # `score` is a mean log density, which is no share of anything.
        tags.regressor_tags.poor_score = True
        return tags

    @property
    def density_(self) -> ConditionalDensity:
        """The fitted density."""
        return self.fitted_.density

    @property
    def penalty_(self) -> float:
        """The penalty of the tilt."""
        return self.fitted_.penalty if self.density_.bell_is_tilted else float("inf")

    @property
    def mixture_share_(self) -> float:
        """The weight of the mixture that the density is pooled with."""
        return self.density_.share

    @property
    def weight_(self) -> float:
        """The total weight of the rows."""
        return self.fitted_.weight

    @property
    def bounds_(self) -> tuple[float, float]:
        """The bounds, given or found."""
        return self.density_.bounds

    @property
    def target_name_(self) -> str | None:
        """The name of the target."""
        return self.fitted_.target

    @property
    def kernel_(self) -> str:
        """The kernel over x."""
        return self.density_.location.covariance.kind

    @property
    def length_scale_(self) -> Array:
        """Length-scales in the units of the inputs."""
        density = self.density_
        return density.location.covariance.length_scale * density.standardizer.scale

    def score_samples(self, X: Table, y: Column, return_error: bool = False) -> ArrayOrPair:
        """Normalized log density of each target given its row, in the units of y.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        return_error : bool, default=False
            Also return an estimate of the quadrature error of each log density.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            Minus infinity if y is outside the bounds.
        error : ndarray of shape (n_samples,)
            Only with `return_error`.
        """
        logs, errors = self._at(X, y, "log_density_and_error")
        return (logs, errors) if return_error else logs

    def _at(self, X: Any, y: Any, method: str) -> Any:
        check_is_fitted(self)
        X, y = checked_pairs(self, X, y, reset=False)
        return getattr(self.density_, method)(X, y)

    def score(self, X: Table, y: Column, sample_weight: Weights = None) -> float:
        """Mean normalized log density of the targets given their rows: higher is better.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        sample_weight : array of shape (n_samples,), optional

        Returns
        -------
        float
        """
        logs = self.score_samples(X, y)
        return float(np.average(logs, weights=checked_weights(sample_weight, logs[:, None])))

    def gradient(self, X: Table, y: Column) -> Array:
        """∂ log p(y | x) / ∂y at each pair: the derivative of `score_samples`.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._at(X, y, "derivatives")[0]

    def laplacian(self, X: Table, y: Column) -> Array:
        """∂² log p(y | x) / ∂y² at each pair: the second derivative of `score_samples`.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._at(X, y, "derivatives")[1]

    def cdf(self, X: Table, y: Column) -> Array:
        """The probability of a target no larger than y, at each pair.

        On test rows, these should be uniformly distributed over [0, 1] (the probability integral
        transform).

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        y : array of shape (n_samples,)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._at(X, y, "cdf")

    def predict(self, X: Table, statistic: str = "mean") -> Array:
        """The mean, median or mode of y at each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        statistic : {"mean", "median", "mode"}, default="mean"

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        rows = self._checked_rows(X)
        checked_name("statistic", statistic, _STATISTICS)
        if statistic == "mean":
            return self.density_.mean_and_deviation(rows)[0]
        if statistic == "mode":
            return self.density_.mode(rows)
        return self.density_.quantiles(rows, np.full((len(rows), 1), 0.5))[:, 0]

    def predict_std(self, X: Table) -> Array:
        """The standard deviation of y at each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self.density_.mean_and_deviation(self._checked_rows(X))[1]

    def predict_quantiles(self, X: Table, levels: Any = (0.05, 0.5, 0.95)) -> Table:
        """Quantiles of y at each row.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        levels : float or sequence of float, default=(0.05, 0.5, 0.95)
            Each between 0 and 1.

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_levels)
            A data frame where X is one.
        """
        rows = self._checked_rows(X)
        wanted = np.array([checked_share("levels", level) for level in np.atleast_1d(levels)])
        if not len(wanted):
            raise ValueError(f"levels must be numbers between 0 and 1; got {shown(levels)}.")
        found = self.density_.quantiles(rows, np.broadcast_to(wanted, (len(rows), len(wanted))))
        return self._framed(X, found, [f"{level:g}" for level in wanted])

    def predict_interval(
        self, X: Table, coverage: float = 0.9, kind: str = "equal_tailed"
    ) -> Table:
        """Intervals that contain y with a given probability.

        Parameters
        ----------
        X : array or data frame of shape (n_samples, n_features)
        coverage : float, default=0.9
        kind : {"equal_tailed", "highest_density"}, default="equal_tailed"
            One interval with the same probability below and above it, or the shortest set, which
            may consist of several intervals if the density has several modes.

        Returns
        -------
        ndarray or data frame of shape (n_samples, 2), or (n_samples, n_intervals, 2)
            Lower and upper ends. "highest_density" gives an array with the number of intervals of
            the row that has most, from left to right; rows with fewer intervals are filled up with
            NaN.
        """
        rows = self._checked_rows(X)
        checked_name("kind", kind, _KINDS)
        mass = checked_share("coverage", coverage)
        if kind == "highest_density":
            return self.density_.highest_density(rows, mass)
        levels = np.broadcast_to([(1 - mass) / 2, (1 + mass) / 2], (len(rows), 2))
        return self._framed(X, self.density_.quantiles(rows, levels), ["lower", "upper"])

    def sample(self, X: Table, n_samples: int = 1, random_state: Seed = None) -> Table:
        """Draw targets at each row of X, by inverting the cdf.

        Parameters
        ----------
        X : array or data frame of shape (n_rows, n_features)
        n_samples : int, default=1
            Draws at each row.
        random_state : int, RandomState, Generator or None, default=None

        Returns
        -------
        ndarray or data frame of shape (n_rows, n_samples)
            A data frame where X is one, with its index; see `set_output`.
        """
        rows = self._checked_rows(X)
        count = whole("n_samples", n_samples)
        levels = seeded(random_state).uniform(size=(len(rows), count))
        target = self.target_name_ or "y"
        names = [f"{target}_{draw}" for draw in range(count)]
        return self._framed(X, self.density_.quantiles(rows, levels), names)

    def _checked_rows(self, X: Any) -> Float[np.ndarray, "n d"]:
        check_is_fitted(self)
        return checked_rows(self, X, reset=False)


def _some_rows(
    source: RowSource, table: PairTable
) -> tuple[Float[np.ndarray, "n d"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Rows to check: all of them, or a sample if there are many."""
    if isinstance(source, ArrayRows) and source.n_rows <= MOST_ROWS:
        return source.rows, source.target, source.weights
    rows = table.rows
    return table.standardizer.backward(rows.inputs), rows.y, rows.weights
