"""Checks whether the parts of a fit from a file fit together.

A digest detects damage, but a file that was made by hand can have a correct digest and parts of any
shape. These checks find what would cause an error in NumPy later.
"""

from __future__ import annotations

import numpy as np

from kexpfam.features.residual import N_RESIDUAL_FUNCTIONS
from kexpfam.pipeline.anomalies import AnomalyFit
from kexpfam.pipeline.chain import ChainFit
from kexpfam.pipeline.conditional import ConditionalFit

__all__ = ["chain_fits", "conditional_fits", "detector_fits"]


def chain_fits(state: ChainFit, n_columns: int) -> bool:
    """Check the parts of a `KernelChain`."""
    density, layout = state.density, state.density.layout
    n_numbers, n_scores = len(layout.numerics), density.scores.directions.shape[1]
    fits = len(layout.kinds) == n_columns == len(state.table.kinds)
    fits &= state.table.names is None or len(state.table.names) == n_columns
    fits &= len(density.number_terms) == n_numbers
    fits &= len(density.category_terms) == len(layout.categories)
    fits &= all(0 <= column < n_columns for column in (*layout.categories, *layout.numerics))
    if not fits:
        return False
    fits &= (density.mixture is None) == (density.marginals is None) == (n_numbers == 0)
    if density.mixture is not None and density.marginals is not None:
        fits &= density.mixture.means.shape[1] == n_scores + n_numbers
        fits &= len(density.marginals.center) == n_numbers
    fits &= len(density.scores.center) == layout.offsets[-1]
    if density.holes is not None:
        fits &= density.holes.patterns.shape[1] == len(layout.flagged)
    for heaps in filter(None, layout.heaps):
        fits &= len(heaps.knots) == len(heaps.scores) > 1
    if not fits:
        return False
    counts = layout.level_counts
    pairs = [(term.functions, term.coefficients) for term in density.category_terms]
    pairs += [(number.functions, number.coefficients) for number in density.number_terms]
    for functions, coefficients in pairs:
        fits &= (functions is None) == (coefficients is None)
        if functions is not None and coefficients is not None:
            fits &= len(coefficients) == functions.n_functions
    for frequencies in (term.frequencies for term in density.number_terms):
        if frequencies is not None:
            fits &= 0 <= frequencies.place < len(counts) and len(frequencies.values) > 0
            fits &= fits and len(frequencies.masses) == counts[frequencies.place]
            fits &= bool((frequencies.totals > 0).all())
    for term, count in zip(density.category_terms, counts, strict=True):
        fits &= len(term.log_shares) == count
        fits &= term.coefficients is None or term.coefficients.shape[1:] == (count,)
    return fits


def detector_fits(state: AnomalyFit, n_columns: int) -> bool:
    """Check the parts of a `KernelAnomalyDetector`."""
    density, n_folds = state.density, len(state.density.experts[0])
    fits = len(state.table.kinds) == n_columns == len(state.tails.center) == len(state.tails.scale)
    fits &= state.table.names is None or len(state.table.names) == n_columns
    fits &= all(len(folds) == n_folds for folds in density.experts) and n_folds > 0
    fits &= len(state.scores) == len(state.folds) > 0
    fits &= bool(((state.folds >= 0) & (state.folds < n_folds)).all())
    for folds in density.experts:
        for expert in folds:
            fits &= len(expert.layout.kinds) == n_columns
            fits &= len(expert.layout.numerics) == len(density.more_noise)
    near, n_numbers = density.neighbors, len(density.more_noise)
    fits &= near.points.shape[1] == len(near.columns) == n_numbers + len(near.deviations)
    fits &= len(near.points) == len(near.point_folds) > 0
    fits &= bool((near.deviations > 0).all()) and near.noise > 0
    return fits


def conditional_fits(state: ConditionalFit) -> bool:
    """Check the parts of a `ConditionalKernelExponentialFamily`."""
    density = state.density
    fits = density.coefficients.shape == (density.functions.n_functions, N_RESIDUAL_FUNCTIONS)
    mixture, width = density.mixture, len(density.standardizer.center) + 1
    if mixture is None:
        return fits
    count = len(mixture.weights)
    fits &= count > 0 and bool((mixture.weights > 0).all()) and 0 < density.share < 1
    fits &= mixture.means.shape == (count, width)
    if not fits or mixture.covariances.shape != (count, width, width):
        return False
    try:
        np.linalg.cholesky(mixture.covariances)
    except np.linalg.LinAlgError:
        return False
    return True
