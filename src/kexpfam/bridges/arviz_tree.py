"""Draws of a fitted model as ArviZ reads them, with the log density of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

__all__ = ["as_arviz"]


def as_arviz(model: Any, n_samples: int = 1000, random_state: Any = None, **options: Any) -> Any:
    """Chains of a fitted model as ArviZ's `DataTree`.

    Parameters
    ----------
    model : KernelExponentialFamily
        Fitted. Columns have the names of the data frame it was fitted to, if it was one.
    n_samples : int, default=1000
        Draws wanted from all chains together.
    random_state : int, RandomState, Generator or None, default=None
    **options
        As in `KernelExponentialFamily.sample_chains`.

    Returns
    -------
    tree : xarray.DataTree
        The group `posterior` has the draws, `x`, by chain, draw and column; the group
        `sample_stats` the normalized log density at each of them, `lp`.

    Examples
    --------
    >>> from kexpfam import KernelExponentialFamily
    >>> from kexpfam.bridges import as_arviz
    >>> from kexpfam.datasets import make_density
    >>> X = make_density("ring").sample(300, random_state=0)
    >>> model = KernelExponentialFamily(n_components=32, random_state=0).fit(X)
    >>> tree = as_arviz(model, n_chains=4, n_samples=400, random_state=0)
    >>> tree["posterior"]["x"].dims, tree["sample_stats"]["lp"].dims
    (('chain', 'draw', 'column'), ('chain', 'draw'))
    """
    check_is_fitted(model)
    if not hasattr(model, "sample_chains"):
        raise TypeError(
            "Expected a model that draws by Markov chains, a KernelExponentialFamily; got "
            f"{type(model).__name__}. Draws that are independent need no chains: "
            "arviz_base.from_dict({'posterior': {'x': model.sample(1000)[None]}})."
        )
    chains = model.sample_chains(n_samples, random_state, **options)
    names = getattr(model, "feature_names_in_", None)
    # Asked first: it says what to install where ArviZ is missing.
    tree = chains.to_arviz(None if names is None else [str(name) for name in names])
    from arviz_base import from_dict

    n_chains, n_draws, n_columns = chains.draws.shape
    # As an array: a model fitted to a data frame would miss the names of columns.
    logs = model.density_.log_density(chains.draws.reshape(-1, n_columns))
    stats = from_dict({"sample_stats": {"lp": np.reshape(logs, (n_chains, n_draws))}})
    tree["sample_stats"] = stats["sample_stats"]
    return tree
