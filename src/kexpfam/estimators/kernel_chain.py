"""`KernelChain`: the density of a table of mixed, bounded and incomplete columns."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from kexpfam.base.averaged import AverageSearch
from kexpfam.choices import checked_name, entropy, nearest, seeded, shown, whole
from kexpfam.choices import share as checked_share
from kexpfam.data.cells import library_of
from kexpfam.data.columns import called
from kexpfam.estimators.checks import checked_flag
from kexpfam.estimators.conditionals import TableConditional
from kexpfam.estimators.explanations import Explanation, explained
from kexpfam.estimators.file_checks import chain_fits
from kexpfam.estimators.frames import FramesOut
from kexpfam.estimators.independent_draws import IndependentDraws
from kexpfam.estimators.judged import JudgedFit
from kexpfam.estimators.mean_log_density import MeanLogDensity
from kexpfam.estimators.mixed_rows import checked_table
from kexpfam.estimators.saving import Saved
from kexpfam.estimators.table_reading import read_tables
from kexpfam.exceptions import ModelFileError
from kexpfam.model.chain import ChainDensity
from kexpfam.model.chain_completions import are_exact, completed
from kexpfam.model.expected import expected_values
from kexpfam.pipeline.chain import ChainFit, ChainSettings, fit_chain
from kexpfam.progress import Progress
from kexpfam.tuning.number_choices import FAST, THOROUGH
from kexpfam.types import Array, ArrayOrPair, Seed, Table, Weights

__all__ = ["KernelChain"]

_MARGINALS = ("auto", "gaussianize", "yeo_johnson", None)
_EFFORTS = {"auto": THOROUGH, "fast": FAST, None: None}
# Draws from which one is taken for what is missing.
_IMPUTING_DRAWS = 32


class KernelChain(
    FramesOut, Saved, JudgedFit, IndependentDraws, MeanLogDensity, DensityMixin, BaseEstimator
):
    """The density of a table of numbers, counts, grades and categories, with missing values.

    The density is a product over the columns, each given the ones before, and every factor is
    normalized exactly. A mixture of Gaussians gives the factors of all numbers. If held-out rows
    gain from it, they are improved by kernel ridge regression and kernel tilts. Categories have a
    softmax with kernel functions of the columns before.

    Parameters
    ----------
    columns : None, str or mapping, default=None
        The kinds of columns for which dtype and values suggest a wrong one: a mapping from names
        (or numbers) of columns to kinds, such as ``{"age": "count", "share": ("bounded", 0, 1)}``,
        or one kind for all columns. Kinds are "real", "bounded", "whole", "count", "grade",
        "category" and "boolean"; see `column_kinds_` for those that were found. Numbers after
        "bounded" are bounds, None for an open end; after "real", "whole" and "count" they are
        atoms: values that have a probability of their own, such as ``("real", 0.0)``. After "grade"
        follow the levels in their order.
    marginals : {"auto", "gaussianize", "yeo_johnson", None}, default="auto"
        Monotone map of each column of numbers, as in `KernelDiffusion`.
    tilt : {"auto", "fast", None}, default="auto"
        What improves the base density, column by column. "auto" tries regressions and tilts, and
        keeps those from which held-out rows gain. "fast" tries less: regressions have at most 256
        points, fewer kernels are compared, on at most 320 rows, and the columns keep their order.
        Such a fit takes between two thirds of the time and all of it. None tries nothing: the
        density is a mixture of Gaussians after the maps, beside frequencies of the categories. Such
        a fit takes about a third of the time, evaluates faster, and `conditional` is exact for any
        columns.
    gate : bool, default=True
        Return the base density (the mixture, and frequencies of the categories) unless the chain is
        better by more than a standard error on held-out rows.
    random_state : int, RandomState, Generator or None, default=None
        Seed of folds, starts and draws.
    verbose : bool, default=False
        Show progress on standard error.

    Attributes
    ----------
    column_kinds_ : dict
        The kind of each column, by its name or number; in words with ``str``.
    order_ : list
        Names or numbers of the columns in the order of the chain: categories, whole numbers and
        grades, numbers with densities. Within a group it is the order of the table, or one in which
        columns that follow from others come after them, where held-out rows gain by that.
    density_ : kexpfam.model.ChainDensity
        The fitted density, of rows as numbers.
    health_ : kexpfam.model.Health
        How reliable the density is: ``health_.in_words``, ``health_.findings()``.
    gain_, gain_error_ : float
        The gain over the base density on held-out rows, in nats per row, with its standard error.
    has_tilt_ : bool
        Whether the model differs from its base density.
    base_search_ : AverageSearch
        Size, shrinkage and held-out likelihood of the base density's mixtures.
    marginals_ : {"gaussianize", "yeo_johnson", None}
        The kind of marginal map that was chosen.
    n_features_in_ : int
    feature_names_in_ : ndarray of str

    Notes
    -----
    Log densities are with respect to length for columns with densities, and to counting for the
    others: the sum of the logarithms of a density per unit of each "real" or "bounded" column, and
    of the probabilities of all other values. They can only be compared between models whose columns
    are of the same kinds. The log density of a row with missing values is that of its other values,
    given which are missing. It is minus infinity for values outside of the bounds and for
    categories that were never seen. Rare categories are pooled, and a pool has one probability.

    With more than 50 000 distinct rows, the mixture is fitted to all of them, and everything else
    to a quarter, at most 50 000. A file written by `save` contains points of kernels, which are
    training rows after the monotone maps.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from kexpfam import KernelChain
    >>> generator = np.random.default_rng(0)
    >>> kind = generator.choice(["small", "large"], 200)
    >>> weight = np.where(kind == "large", 5.0, 2.0) + 0.5 * generator.standard_normal(200)
    >>> X = pd.DataFrame({"kind": kind, "weight": weight, "eggs": generator.poisson(3, 200)})
    >>> model = KernelChain(random_state=0).fit(X)
    >>> {name: kind.kind for name, kind in model.column_kinds_.items()}
    {'kind': 'category', 'weight': 'real', 'eggs': 'count'}
    >>> model.score_samples(X).shape, list(model.sample(2, random_state=0).columns)
    ((200,), ['kind', 'weight', 'eggs'])
    """

    _state_kind: ClassVar[type] = ChainFit

    def __init__(
        self,
        *,
        columns: Any = None,
        marginals: Any = "auto",
        tilt: Any = "auto",
        gate: bool = True,
        random_state: Seed = None,
        verbose: bool = False,
    ) -> None:
        self.columns = columns
        self.marginals = marginals
        self.tilt = tilt
        self.gate = gate
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: object = None, sample_weight: Weights = None) -> KernelChain:
        """Fit the density of the rows of X.

        Parameters
        ----------
        X : data frame, array, path, list of paths, pyarrow dataset, iterator or Dask collection
            A pandas or polars frame with columns of any kind but dates and free text, or an array
            of numbers or objects, with NaN or None for missing values. Files, a dataset, an
            iterator of frames or arrays (or of pairs with weights), and a Dask data frame or array
            are read in memory that does not grow with the rows.
        y : ignored
        sample_weight : array of shape (n_samples,), or str, optional
            Non-negative weights of the rows. A weight of two is the same as giving a row twice. For
            files and Dask data frames, the name of their column.

        Returns
        -------
        self
        """
        settings = ChainSettings(
            checked_name("marginals", self.marginals, _MARGINALS),
            checked_flag("gate", self.gate),
            _EFFORTS[checked_name("tilt", self.tilt, tuple(_EFFORTS))],
        )
        progress = Progress(self.verbose)
        table, source = read_tables(self, X, sample_weight, self.columns, progress)
        seed = entropy(self.random_state)[0]
        self.fitted_ = fit_chain(table, source, settings, seed, progress)
        progress.done()
        return self

    def _names(self) -> list[str] | None:
        return list(getattr(self, "feature_names_in_", [])) or None

    def as_numbers(self, X: Table) -> Array:
        """X as the rows of numbers that `density_` takes.

        A level is its position among the levels of its column, NaN stands for a missing value, and
        an infinite number for a level that was never seen.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        return self.fitted_.table.codes(checked_table(self, X, reset=False))

    def _state(self, sums: bool) -> ChainFit:
        return self.fitted_

    def _restore(self, state: ChainFit) -> None:
        if not chain_fits(state, self.n_features_in_):
            raise ModelFileError("the columns, mixture and terms do not match")
        self.fitted_ = state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags

    @property
    def density_(self) -> ChainDensity:
        """The fitted density."""
        return self.fitted_.density

    @property
    def column_kinds_(self) -> dict[Any, Any]:
        """The kind of each column."""
        names = self._names() or range(self.n_features_in_)
        return dict(zip(names, self.fitted_.table.kinds, strict=True))

    @property
    def order_(self) -> list[Any]:
        """Columns in the order of the chain."""
        names = self._names() or range(self.n_features_in_)
        return [names[column] for column in self.density_.layout.order]

    @property
    def base_search_(self) -> AverageSearch:
        """Size and shrinkage of the base density's mixtures."""
        return self.fitted_.base_search

    @property
    def marginals_(self) -> str | None:
        """The kind of marginal map."""
        return self.fitted_.marginals

    def score_samples(self, X: Table, return_error: bool = False) -> ArrayOrPair:
        """Normalized log density of the values in each row of X.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
        return_error : bool, default=False
            Also return an estimate of the quadrature error of each log density.

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
        error : ndarray of shape (n_samples,)
            Only with `return_error`.
        """
        codes = self.as_numbers(X)
        logs, errors = self.density_.log_density_and_error(codes)
        return (logs, errors) if return_error else logs

    def contributions(self, X: Table) -> Table:
        """The term of each column in the log density of a row, by the chain rule.

        The order of the chain is: categories, whole numbers and grades, numbers with densities,
        each given the ones before. The terms of a row add up to `score_samples`; a missing value
        has a term of zero.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        ndarray or data frame of shape (n_samples, n_features)
        """
        codes = self.as_numbers(X)
        found = self.density_.contributions(codes)
        return self._framed(X, found)

    def explain(self, X: Table, coverage: float = 0.9) -> Explanation:
        """The column that makes each row unusual, and the values that were expected there.

        Every value is compared with its distribution given all other values of the row. The
        surprise of a value is −log of the probability of a value that is no likelier: 3 for one in
        twenty, 4.6 for one in a hundred, infinite for values of probability zero.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
        coverage : float, default=0.9
            The probability of the expected range, given the other values of the row.

        Returns
        -------
        Explanation
            With ``columns``, ``values``, ``low``, ``high``, ``surprise`` and ``in_words()``.

        Examples
        --------
        >>> import numpy as np, pandas as pd
        >>> from kexpfam import KernelChain
        >>> generator = np.random.default_rng(0)
        >>> size = generator.normal(10, 2, 200)
        >>> X = pd.DataFrame({"size": size, "weight": 3 * size + generator.normal(0, 1, 200)})
        >>> model = KernelChain(random_state=0).fit(X)
        >>> model.explain(pd.DataFrame({"size": [12.0], "weight": [24.0]})).low[0] > 5
        True
        """
        coverage = checked_share("coverage", coverage)
        codes = self.as_numbers(X)
        return explained(self.fitted_.table, codes, expected_values(self.density_, codes, coverage))

    def gradient(self, X: Table) -> Table:
        """∇log p: derivatives of `score_samples` in the columns that have a density.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        gradient : ndarray or data frame of shape (n_samples, n_features)
            NaN in columns of whole numbers, grades and categories, and for missing values.
        """
        codes = self.as_numbers(X)
        return self._framed(X, self.density_.gradient(codes))

    def laplacian(self, X: Table) -> Array:
        """Δlog p: the sum of second derivatives in the columns that have a density.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)

        Returns
        -------
        laplacian : ndarray of shape (n_samples,)
        """
        codes = self.as_numbers(X)
        return self.density_.laplacian(codes)

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> Table:
        """Complete rows drawn from the model.

        Numbers are drawn between the smallest and the largest training value and up to about half a
        standard deviation beyond, because no row supports the small mass further out. If rows with
        missing values differ from others, draws contain as many such rows as the training rows,
        with all values filled in.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, RandomState, Generator or None, default=None

        Returns
        -------
        data frame or ndarray of shape (n_samples, n_features)
            The kind of table that the model was fitted to, with the dtype of every column; see
            `set_output`.
        """
        check_is_fitted(self)
        generator = seeded(random_state)
        codes = self.density_.sample(whole("n_samples", n_samples), generator)
        table = self.fitted_.table
        return table.table(codes, generator, library=self._library(table.library))

    def impute(self, X: Table, random_state: Seed = None) -> Table:
        """X with every missing value drawn given the other values of its row.

        Call it several times with other seeds for multiple imputations.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
        random_state : int, RandomState, Generator or None, default=None

        Returns
        -------
        data frame or ndarray of shape (n_samples, n_features)
            A data frame where X is one, with its index; see `set_output`.
        """
        codes, generator = self.as_numbers(X), seeded(random_state)
        gone = np.flatnonzero(np.isnan(codes).any(axis=1))
        if len(gone):
            count = 1 if are_exact(self.density_, codes[gone]) else _IMPUTING_DRAWS
            found = completed(self.density_, codes[gone], count, generator)
            codes[gone] = found.chosen(generator)
        library, index = self._library(library_of(X)), getattr(X, "index", None)
        return self.fitted_.table.table(codes, generator, index, library=library)

    def conditional(
        self, X: Table, columns: Any, n_draws: int = 256, random_state: Seed = None
    ) -> TableConditional:
        """The distribution of some columns given the others, at each row of X.

        It is estimated by weighted draws (sequential importance sampling); `effective_sample_size`
        of the result tells how many of them count. If the model consists of its mixture only and
        the columns have densities, the draws are exact.

        Parameters
        ----------
        X : data frame or array of shape (n_samples, n_features)
            Values in `columns` are only used by `log_density`. Other missing values are drawn as
            well, and thereby integrated out.
        columns : name, number, or sequence of them
        n_draws : int, default=256
            Draws for each row.
        random_state : int, RandomState, Generator or None, default=None

        Returns
        -------
        TableConditional
            With ``quantiles``, ``probabilities``, ``sample``, ``log_density`` and
            ``effective_sample_size``.
        """
        codes = self.as_numbers(X)
        places = self._places(columns)
        return TableConditional.drawn(
            self.fitted_, codes, places, whole("n_draws", n_draws, 2), seeded(random_state),
            getattr(X, "index", None),
        )  # fmt: skip

    def _places(self, columns: Any) -> list[int]:
        names = self._names()
        wanted = [columns] if isinstance(columns, (str, int, np.integer)) else list(columns)
        places = []
        for one in wanted:
            if isinstance(one, (int, np.integer)) and not isinstance(one, bool):
                place = int(one)
            else:
                place = names.index(one) if names is not None and one in names else -1
            if not 0 <= place < self.n_features_in_:
                raise ValueError(
                    f"columns must name columns of X, or number them from 0 to "
                    f"{self.n_features_in_ - 1}; got {shown(one)}.{nearest(one, names or [])}"
                )
            places.append(place)
        if not places or len(set(places)) < len(places):
            raise ValueError(
                f"columns must name one column or more, each once; got {shown(columns)}, such as "
                f"{called(0, names)}."
            )
        return places
