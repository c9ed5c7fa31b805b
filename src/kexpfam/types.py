"""Short names for what estimators take and give, as `help` shows them.

| name        | what it stands for                                                           |
|-------------|------------------------------------------------------------------------------|
| Table       | a pandas or polars data frame, or an array, of shape (n_samples, n_features) |
| Array       | a NumPy array                                                                |
| ArrayOrPair | an array, or two of them where errors are asked for                          |
| Column      | an array or a column of a data frame, of shape (n_samples,)                  |
| Weights     | an array of shape (n_samples,), of files the name of a column, or None       |
| Seed        | a whole number, a generator of NumPy's, or None for a new seed               |
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "ArrayOrPair", "Column", "Seed", "Table", "Weights"]

Table: TypeAlias = Any
Array: TypeAlias = npt.NDArray[Any]
ArrayOrPair: TypeAlias = Any
Column: TypeAlias = Any
Weights: TypeAlias = Any
Seed: TypeAlias = int | np.random.RandomState | np.random.Generator | None
