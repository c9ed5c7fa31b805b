"""Saves fitted estimators to files and restores them."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kexpfam.exceptions import ModelFileError
from kexpfam.store import RECORDS, ModelFile, decode, encode, read_model_file, write_model_file
from kexpfam.version import __version__

__all__ = ["Saved", "restored"]


class Header(NamedTuple):
    """The header of every estimator's file."""

    parameters: dict[str, Any]
    n_columns: int
    column_names: list[str] | None
    state: Any
    library: Literal["numpy", "pandas", "polars"] = "numpy"


class Saved:
    """`save`, for an estimator whose fitted state is one record."""

    n_features_in_: int
    get_params: Callable[..., dict[str, Any]]
    _state_kind: ClassVar[type]

    @abstractmethod
    def _state(self, sums: bool) -> Any:
        """The whole fitted state, as a record."""

    @abstractmethod
    def _restore(self, state: Any) -> None:
        """Adopt a record, after its parts have been checked against each other."""

    def save(self, path: str | os.PathLike[str], *, sums: bool = True) -> None:
        """Write the fitted model to a file, for `kexpfam.load`.

        The file holds arrays and settings, and no code. It contains training rows if kernels are
        centered on them: with the bases "nystrom" and "exact", for targets given inputs, for
        detectors, and for chains with regressions or tilts. It is written as a whole or not at all.

        Parameters
        ----------
        path : str or path
            The file to write. An existing file is replaced.
        sums : bool, default=True
            Keep the sums over rows, which `partial_fit` and `forget` need after loading. Without
            them the file is smaller.
        """
        check_is_fitted(self)
        parameters = self.get_params(deep=False)
        if not isinstance(parameters["random_state"], (int, np.integer)):
            # A generator cannot be written down; what it has decided is in the fitted state.
            parameters["random_state"] = None
        names = getattr(self, "feature_names_in_", None)
        header = Header(
            parameters,
            self.n_features_in_,
            None if names is None else [str(name) for name in names],
            self._state(sums),
            getattr(self, "_fitted_library", "numpy"),
        )
        kind = type(self)
        tree = encode(header, _records(kind))
        write_model_file(
            Path(path), ModelFile(kind.__name__, __version__, self.n_features_in_, tree)
        )

    @classmethod
    def _loaded(cls, file: ModelFile) -> Self:
        header = decode(file.tree, _records(cls), file.n_columns)
        if not isinstance(header, Header) or not isinstance(header.state, cls._state_kind):
            raise ModelFileError("its description is not that of an estimator")
        if header.n_columns != file.n_columns:
            raise ModelFileError("it contradicts itself on the number of columns")
        model = cls(**header.parameters)
        model.n_features_in_ = header.n_columns
        if header.column_names is not None:
            if len(header.column_names) != header.n_columns:
                raise ModelFileError("it does not have one name for each column")
            model.feature_names_in_ = np.array(header.column_names, dtype=object)  # type: ignore[attr-defined]
        if hasattr(cls, "_fitted_library"):
            model._fitted_library = header.library  # type: ignore[attr-defined]
        model._restore(header.state)
        return model


def _records(kind: type[Saved]) -> dict[str, type]:
    return {**RECORDS, "Header": Header, kind._state_kind.__name__: kind._state_kind}


def restored(path: str | os.PathLike[str], kinds: dict[str, type[Saved]]) -> Any:
    """The estimator in a file, of one of the given kinds."""
    file = read_model_file(Path(path))
    try:
        if file.kind not in kinds:
            raise ModelFileError(f"it holds an unknown kind of model, {file.kind!r:.80}")
        return kinds[file.kind]._loaded(file)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}.") from error
    except (AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: its parts do not belong together ({error}).") from error
