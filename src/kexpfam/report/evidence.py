"""What a report rests on: a model, rows to judge it by, and draws of it.

| given              | the model                          | the rows that judge it              |
|--------------------|------------------------------------|-------------------------------------|
| rows               | `KernelChain`, fitted to a part    | the other part                      |
| rows, unfitted one | fitted to a part                   | the other part                      |
| rows, fitted one   | as it is                           | all of them, or a sample            |
| a fitted one       | as it is                           | none                                |

| name             | shape  | meaning                                                  |
|------------------|--------|----------------------------------------------------------|
| rows             | (n, d) | judged, as numbers; none where only a model is given     |
| log_density      | (n,)   | the model's, at the judged rows                          |
| base_log_density | (n,)   | that of its base density                                 |
| gradients        | (n, d) | ∇log p there; NaN where a column has none                |
| training         | (t, d) | at most some thousand rows that the model was fitted to  |
| draws            | (k, d) | of the model                                             |

Rows are numbers throughout: a level of a category is its place among the levels, and NaN is what is
missing. `kinds` say what the numbers of a column stand for.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kexpfam.choices import entropy
from kexpfam.data.kinds import ColumnKind
from kexpfam.estimators import KernelChain
from kexpfam.estimators.mixed_rows import takes_tables
from kexpfam.exceptions import (
    DegenerateTableWarning,
    FlowWarning,
    NormalizerWarning,
    SamplingWarning,
    TuningWarning,
)
from kexpfam.progress import Progress
from kexpfam.report.frame_table import FrameTable, open_frame
from kexpfam.report.split import KeptRows, RowTable, open_table
from kexpfam.sampling import Chains

__all__ = ["Evidence", "Origin", "gather"]

_MOST_JUDGED = 5000
# Peers are fitted anew for every fold of these rows, which costs more.
_MOST_JUDGED_WITHOUT_TRAINING = 2000
# Rows that peers are fitted to, and a model that takes tables, and cells of them: a page should not
# take much longer than a minute. On gas turbine, half as many cells cost 0.4 nats per held-out row.
_MOST_TRAINING, _ENOUGH_TRAINING, _MOST_CELLS = 20_000, 5_000, 200_000
_N_DRAWS = 2000
_LEAST_ROWS = 20
_OURS = (DegenerateTableWarning, FlowWarning, NormalizerWarning, SamplingWarning, TuningWarning)


class Origin(NamedTuple):
    """Names of the files that rows came from, and the command line that asked for the page."""

    files: tuple[str, ...] = ()
    command: str | None = None


@dataclass(frozen=True)
class Evidence:
    """A model with rows and draws, everything evaluated."""

    model: Any
    names: tuple[str, ...]
    kinds: tuple[ColumnKind, ...]
    seed: int
    fitted_here: bool
    copies_apart: bool
    n_given: int
    n_rows: int
    n_training: int
    judged: KeptRows
    log_density: Float[np.ndarray, " n"]
    base_log_density: Float[np.ndarray, " n"]
    gradients: Float[np.ndarray, "n d"]
    training: Float[np.ndarray, "t d"]
    training_log_density: Float[np.ndarray, " t"]
    draws: Float[np.ndarray, "k d"]
    draw_log_density: Float[np.ndarray, " k"]
    chains: Chains | None
    complaints: tuple[str, ...]
    origin: Origin

    @property
    def rows(self) -> Float[np.ndarray, "n d"]:
        """The judged rows."""
        return self.judged.rows

    @property
    def row_numbers(self) -> Int[np.ndarray, " n"]:
        """Where the judged rows stand in the table, counted from 1 as `kexpfam score` counts."""
        return self.judged.numbers + 1

    @property
    def complete(self) -> Bool[np.ndarray, " n"]:
        """Which judged rows have no missing values, as draws have none."""
        return ~np.isnan(self.rows).any(axis=1)

    @property
    def columns_without_gradient(self) -> list[str]:
        """Names of the columns that a Stein test cannot have, with what they are."""
        pairs = zip(self.names, self.kinds, strict=True)
        return [f"{name} ({kind})" for name, kind in pairs if not kind.has_gradient]

    @property
    def kind(self) -> str:
        """What the judged rows are called."""
        return "held-out row" if self.fitted_here else "given row"


def gather(
    data: Any, model: Any, random_state: Any, progress: Progress, origin: Origin
) -> Evidence:
    """Fit where that is to be done, and evaluate the model at rows and draws."""
    seed = _seed(random_state)
    if data is None and model is None:
        raise ValueError("Expected data, a fitted model or both; got neither. Give data=X.")
    fitted = model is not None and _is_fitted(model)
    if data is None and not fitted:
        raise ValueError(
            f"Expected data to fit {type(model).__name__} to, or a fitted model; got an unfitted "
            "one alone. Give data=X, or call model.fit(X) first."
        )
    model = KernelChain() if model is None else model
    table: RowTable | FrameTable | None = None
    if data is not None and takes_tables(model):
        table = open_frame(data, model, seed, fitted=fitted)
    elif data is not None:
        table = open_table(data, seed, progress)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if fitted:
            evidence = _of_fitted(model, table, seed, progress)
        else:
            assert table is not None
            evidence = _of_split(model, table, seed, progress)
    complaints = _complaints(caught)
    return Evidence(
        **evidence,
        seed=seed,
        fitted_here=not fitted,
        copies_apart=table is not None and table.copies_apart,
        complaints=complaints,
        origin=origin,
    )


def _seed(random_state: Any) -> int:
    """A number itself, so that the page can say it; one drawn from anything else."""
    if isinstance(random_state, (int, np.integer)):
        entropy(random_state)
        return int(random_state)
    return entropy(random_state)[0]


def _is_fitted(model: Any) -> bool:
    missing = [name for name in ("score_samples", "gradient", "sample") if not hasattr(model, name)]
    if missing:
        raise ValueError(
            "model must be a KernelChain, KernelDiffusion or KernelExponentialFamily, fitted or "
            f"not; got an object of type {type(model).__name__}, which has no "
            f"{' or '.join(missing)}. A model in a file is read by kexpfam.load(path)."
        )
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    return True


def _of_split(
    model: Any, table: RowTable | FrameTable, seed: int, progress: Progress
) -> dict[str, Any]:
    if table.n_rows < _LEAST_ROWS:
        raise ValueError(
            f"Expected at least {_LEAST_ROWS} rows, to fit a model to a part of them and judge it "
            f"by the others; got {table.n_rows}. Give more rows, or a fitted model."
        )
    judged = table.judged(_MOST_JUDGED)
    if len(judged.rows) < 2:
        raise ValueError(
            f"Expected some rows to hold out; the split of {table.n_rows} rows left "
            f"{len(judged.rows)} of them. Give more rows, or try another random_state."
        )
    model = clone(model)
    if model.get_params().get("random_state", seed) is None:
        model.set_params(random_state=seed)
    most = min(_MOST_TRAINING, max(_ENOUGH_TRAINING, _MOST_CELLS // len(table.names)))
    training = table.training_sample(_MOST_JUDGED, most)
    n_training = len(training) if table.fits_sample else table.n_rows - len(judged.rows)
    progress.stage(f"Fitting {type(model).__name__} to {n_training} rows")
    quiet = model.get_params().get("verbose", False)
    if progress.verbose:
        model.set_params(verbose=True)
    table.fit(model, _MOST_JUDGED, most)
    if progress.verbose:
        model.set_params(verbose=quiet)
    progress.stage(f"Judging it by {len(judged.rows)} held-out rows")
    return {
        "model": model,
        "names": table.names,
        "n_given": table.n_given,
        "n_rows": table.n_rows,
        "n_training": n_training,
        **_evaluated(model, judged, training, seed),
    }


def _of_fitted(
    model: Any, table: RowTable | FrameTable | None, seed: int, progress: Progress
) -> dict[str, Any]:
    known = getattr(model, "feature_names_in_", None)
    n_columns = model.n_features_in_
    empty = KeptRows(
        np.empty((0, n_columns)), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
    )
    judged, names, n_rows, n_given = empty, known, 0, 0
    if table is not None:
        names, n_rows = (table.names if known is None else known), table.n_rows
        judged, n_given = table.given(model, _MOST_JUDGED_WITHOUT_TRAINING), table.n_given
        progress.stage(f"Judging {type(model).__name__} by {len(judged.rows)} rows")
    if names is None:
        names = [f"x{j}" for j in range(n_columns)]
    return {
        "model": model,
        "names": tuple(map(str, names)),
        "n_given": n_given,
        "n_rows": n_rows,
        "n_training": 0,
        **_evaluated(model, judged, empty.rows, seed),
    }


def _evaluated(model: Any, judged: KeptRows, training: Any, seed: int) -> dict[str, Any]:
    kinds = tuple(model.column_kinds_.values())
    if not takes_tables(model):
        # The columns were matched by name already, and plain arrays would earn a warning each time.
        model = copy.copy(model)
        vars(model).pop("feature_names_in_", None)
    draws, chains = model.sample_with_diagnostics(_N_DRAWS, seed)
    rows = _numbers(model, judged.rows)
    gradients = np.full(rows.shape, np.nan)
    if len(rows) and all(kind.has_gradient for kind in kinds):
        gradients = np.asarray(model.gradient(judged.rows))
    return {
        "kinds": kinds,
        "judged": judged._replace(rows=rows),
        "log_density": _log_density(model, judged.rows),
        "base_log_density": _base_log_density(model, rows),
        "gradients": gradients,
        "training": _numbers(model, training),
        # The sample is large for the peers; a mean is known well from fewer rows.
        "training_log_density": _log_density(model, training[:_MOST_JUDGED_WITHOUT_TRAINING]),
        "draws": _numbers(model, draws),
        "draw_log_density": _log_density(model, draws),
        "chains": chains,
    }


def _numbers(model: Any, rows: Any) -> Float[np.ndarray, "n d"]:
    return model.as_numbers(rows) if len(rows) else np.empty((0, model.n_features_in_))


def _log_density(model: Any, rows: Any) -> Float[np.ndarray, " n"]:
    return model.score_samples(rows) if len(rows) else np.empty(0)


def _base_log_density(model: Any, rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
    return model.density_.untilted().log_density(rows) if len(rows) else np.empty(0)


def _complaints(caught: list[warnings.WarningMessage]) -> tuple[str, ...]:
    """Our warnings in words, once each; the others go where they were going."""
    ours = [one for one in caught if issubclass(one.category, _OURS)]
    for one in caught:
        if one not in ours:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    return tuple(dict.fromkeys(str(one.message) for one in ours))
