"""Checkpoints of the estimators, with which interrupted fits continue."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kexpfam.choices import entropy
from kexpfam.data.rows import RowSource
from kexpfam.moments import Checkpoint, fit_fingerprint

__all__ = ["checkpointed"]

# What says how a fit is shown, and not what it gives.
_NOT_COMPARED = ("random_state", "verbose")


@contextmanager
def checkpointed(
    estimator: Any, source: RowSource, path: Any
) -> Iterator[tuple[Checkpoint | None, list[int]]]:
    """The checkpoint of a fit, if it has one, and the seed that the fit begins or began with."""
    fresh = entropy(estimator.random_state)
    if path is None:
        yield None, fresh
        return
    settings = estimator.get_params(deep=False)
    compared = {name: settings[name] for name in settings if name not in _NOT_COMPARED}
    fingerprint = fit_fingerprint(type(estimator).__name__, compared, source)
    checkpoint = Checkpoint(Path(path), fingerprint)
    seeded = estimator.random_state is not None
    with checkpoint.opened(fresh, seeded=seeded) as numbers:
        yield checkpoint, numbers
