"""Protocols: how a table becomes rows to train on, to validate with and to test on.

A log-likelihood means something only together with the protocol that made its rows. Each one
here is a function of the table alone; `dequantize` is uniform noise on values recorded in
steps, g_j the median gap between neighboring values of column j.

| protocol       | table     | rows            | dequantize | units           | test, validation |
|----------------|-----------|-----------------|------------|-----------------|------------------|
| deduplicated   | wine      | distinct        | U(±g_j/2)  | z, training     | first two tenths |
| deep_kexpfam   | wine      | all             | U(±g_j)    | PCA, all rows   | last tenths      |
| maf            | MiniBooNE | signal, cleaned | –          | z, all but test | last tenths      |
| maf_40_columns | MiniBooNE | the part's      | –          | z, training     | the file's       |

"Last tenths": the last tenth is for testing, the last tenth of what then remains for validation.

Every protocol ends with an affine map z = (x − center) · transform, which the split keeps:

    log p(x) = log p(z) + log|det transform|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from kexpfam.choices import numpys_generator

__all__ = ["Split", "deduplicated", "deep_kexpfam", "maf", "maf_40_columns"]

# The limits of Papamakarios et al.: the mark of a failed reconstruction is −999.
_OUTLIER_BELOW = -100.0
_COPIES_ALLOWED = 5


@dataclass(frozen=True)
class Split:
    """Rows to train on, to validate with and to test on, in the protocol's units.

    Attributes
    ----------
    train, validation, test : arrays of shape (n_rows, n_features)
    feature_names : tuple of str
    protocol : str
    center : array of shape (n_features,)
    transform : array of shape (n_features, n_features)
        z = (x − center) · transform takes the table's units to the split's.
    """

    train: Float[np.ndarray, "train d"]
    validation: Float[np.ndarray, "validation d"]
    test: Float[np.ndarray, "test d"]
    feature_names: tuple[str, ...]
    protocol: str
    center: Float[np.ndarray, " d"]
    transform: Float[np.ndarray, "d d"]

    @property
    def log_determinant(self) -> float:
        """log|det transform|: added to a log density of z, it gives that of x."""
        return float(np.linalg.slogdet(self.transform)[1])


def deduplicated(
    rows: Float[np.ndarray, "n d"], feature_names: tuple[str, ...], random_state: Any = 0
) -> Split:
    """Our protocol for wine: no row stands on both sides of the split.

    | step        | what                                                             |
    |-------------|------------------------------------------------------------------|
    | duplicates  | dropped (`np.unique`)                                            |
    | dequantize  | plus U(±g_j/2), g_j the median gap between values of column j    |
    | order       | permuted by the same generator                                   |
    | split       | first 10 % test, next 10 % validation, the rest training         |
    | units       | z-scores by the training rows                                    |
    """
    generator = numpys_generator(random_state)
    rows = _dequantized(np.unique(rows, axis=0), 0.5, generator)
    rows = generator.permutation(rows)
    tenth = len(rows) // 10
    test, validation, train = np.split(rows, [tenth, 2 * tenth])
    return _mapped((train, validation, test), feature_names, "deduplicated", *_standardizing(train))


def deep_kexpfam(
    rows: Float[np.ndarray, "n d"], feature_names: tuple[str, ...], random_state: Any = 0
) -> Split:
    """The protocol of Wenliang et al. for wine. Copies of test rows are trained on.

    | step        | what                                                             |
    |-------------|------------------------------------------------------------------|
    | duplicates  | kept                                                             |
    | dequantize  | plus U(±g_j), g_j the median gap between values of column j      |
    | order       | permuted by the same generator                                   |
    | units       | principal components of all rows, each scaled to standard deviation one   |
    | split       | last 10 % test, the last 10 % of the rest validation             |

    The noise, the whitening and the validation rows are those of the authors' code, which
    tests on 500 (red) and 1000 (white) rows where we take 10 %. Columns are principal
    components, each with the sign that makes its largest weight positive.

    References
    ----------
    L. K. Wenliang, D. J. Sutherland, H. Strathmann, A. Gretton, "Learning deep kernels for
    exponential family densities", ICML 2019.
    """
    generator = numpys_generator(random_state)
    rows = generator.permutation(_dequantized(rows, 1.0, generator))
    names = tuple(f"component {j}" for j in range(len(feature_names)))
    return _mapped(_last_tenths(rows), names, "deep_kexpfam", *_whitening(rows))


def maf(
    rows: Float[np.ndarray, "n d"],
    signal: Int[np.ndarray, " n"],
    feature_names: tuple[str, ...],
) -> Split:
    """The protocol of Papamakarios et al. for MiniBooNE (the "MAF" benchmark).

    | step        | what                                                             |
    |-------------|------------------------------------------------------------------|
    | rows        | signal events, less the outliers (first column below −100)       |
    | columns     | those whose smallest value occurs at most five times             |
    | order       | the file's                                                       |
    | split       | last 10 % test, the last 10 % of the rest validation             |
    | units       | z-scores by training and validation rows together                |

    The original file should give 36 488 rows and 43 columns, as the authors report. Columns
    with too many recurring values are to go; their code counts the smallest value only, and so
    do we.

    References
    ----------
    G. Papamakarios, T. Pavlakou, I. Murray, "Masked autoregressive flow for density
    estimation", NeurIPS 2017.
    """
    rows = rows[(signal == 1) & (rows[:, 0] >= _OUTLIER_BELOW)]
    kept = (rows == rows.min(axis=0)).sum(axis=0) <= _COPIES_ALLOWED
    names = tuple(name for name, keep in zip(feature_names, kept, strict=True) if keep)
    train, validation, test = _last_tenths(rows[:, kept])
    known = np.concatenate([train, validation])
    return _mapped((train, validation, test), names, "maf", *_standardizing(known))


def maf_40_columns(
    rows: Float[np.ndarray, "n d"], part: Int[np.ndarray, " n"], feature_names: tuple[str, ...]
) -> Split:
    """The splits that the 40-column part of MiniBooNE carries.

    | step        | what                                                             |
    |-------------|------------------------------------------------------------------|
    | rows        | all of MAF's validation and test rows, 23 % of its training rows |
    | columns     | 40 of MAF's 43                                                   |
    | split       | the file's own: 0 training, 1 validation, 2 test                 |
    | units       | z-scores by the training rows                                    |

    Log-likelihoods compare with those of other methods on this part only, not with published
    ones, which have 43 columns.
    """
    train, validation, test = (rows[part == number] for number in range(3))
    return _mapped(
        (train, validation, test), feature_names, "maf_40_columns", *_standardizing(train)
    )


def _dequantized(
    rows: Float[np.ndarray, "n d"], share: float, generator: np.random.Generator
) -> Float[np.ndarray, "n d"]:
    """Rows plus uniform noise of up to `share` median gaps to either side."""
    gaps = np.array([np.median(np.diff(np.unique(column))) for column in rows.T])
    return rows + generator.uniform(-share, share, rows.shape) * gaps


def _last_tenths(rows: Float[np.ndarray, "n d"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training, validation and test rows; the last tenth is test, then once more."""
    before_test = len(rows) - len(rows) // 10
    before_validation = before_test - before_test // 10
    train, validation, test = np.split(rows, [before_validation, before_test])
    return train, validation, test


def _standardizing(
    rows: Float[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """Center and transform that give these rows mean zero and standard deviation one by column."""
    return rows.mean(axis=0), np.diag(1 / rows.std(axis=0))


def _whitening(
    rows: Float[np.ndarray, "n d"],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, "d d"]]:
    """Center and transform that give these rows the identity as covariance, by PCA."""
    center = rows.mean(axis=0)
    _, singular, axes = np.linalg.svd(rows - center, full_matrices=False)
    # A singular vector's sign is the library's whim; this makes it a property of the rows.
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=1, keepdims=True), axis=1)
    return center, (axes * np.sign(largest)).T * (np.sqrt(len(rows)) / singular)


def _mapped(
    parts: tuple[np.ndarray, np.ndarray, np.ndarray],
    feature_names: tuple[str, ...],
    protocol: str,
    center: Float[np.ndarray, " d"],
    transform: Float[np.ndarray, "d d"],
) -> Split:
    train, validation, test = ((part - center) @ transform for part in parts)
    return Split(train, validation, test, feature_names, protocol, center, transform)
