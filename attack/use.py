"""Hostile numbers, settings and command lines."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import kexpfam
from attack.cases import REFUSED, RIGHT, FaultError, Kind, rows_of_two_humps
from attack.files import small_models
from kexpfam.cli import main

__all__ = ["Commands", "Fits", "MixedFits", "Predictions", "Settings"]


def _hostile(generator: np.random.Generator, n_rows: int, n_columns: int) -> np.ndarray:
    """Rows of any size, some of them equal, constant, far out or no numbers."""
    rows = generator.standard_normal((n_rows, n_columns))
    match int(generator.integers(9)):
        case 0:
            rows *= 10.0 ** generator.integers(-300, 300)
        case 1:
            rows *= 10.0 ** generator.integers(-300, 300, n_columns)
        case 2:
            rows[int(generator.integers(n_rows))] *= 10.0 ** generator.integers(0, 300)
        case 3:
            rows = rows[generator.integers(0, max(1, n_rows // 8), n_rows)]
        case 4:
            rows = np.round(rows)
        case 5:
            rows[:, 0] = rows[:, -1] * 2 + 10.0 ** -float(generator.integers(0, 18)) * rows[:, 0]
        case 6:
            bad = [np.nan, np.inf, -np.inf, 1e308, 5e-324]
            rows[int(generator.integers(n_rows)), 0] = bad[int(generator.integers(5))]
        case 7:
            rows = rows + 10.0 ** generator.integers(0, 17)
        case _:
            rows[:, int(generator.integers(n_columns))] = 3.0
    return rows


class Predictions(Kind):
    """Rows however large or small: finite answers of the right shape, or a refusal."""

    name = "predictions"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.models = small_models()

    def case(self, generator: np.random.Generator) -> str:
        name = str(generator.choice(list(self.models)))
        model = self.models[name][0]
        rows = _hostile(generator, 5, 2)
        given: tuple[Any, ...] = (rows,)
        if name == "conditional":
            given = rows[:, :1], rows[:, 1]
        elif name == "chain":
            frame = pd.DataFrame(rows, columns=["east", "north"])
            sides = np.array(["left", "right", "above", None, ""], dtype=object)
            given = (frame.assign(side=generator.permutation(sides)),)
        method = str(generator.choice(["score_samples", "gradient", "laplacian"]))
        found = np.asarray(getattr(model, method)(*given))
        # A chain has no derivatives in categories, nor where a category is unknown to it.
        undefined = name == "chain" and method != "score_samples"
        if len(found) != 5 or (np.isnan(found).any() and not undefined):
            raise FaultError(f"{name}.{method} gave {found} at {rows.tolist()}")
        if method == "score_samples" and (found == np.inf).any():
            raise FaultError(f"{name}: an infinite density at {rows.tolist()}")
        return RIGHT


class Fits(Kind):
    """Small hostile tables: a fit whose scores of its own rows are numbers, or a refusal."""

    name = "fits"

    def case(self, generator: np.random.Generator) -> str:
        rows = _hostile(generator, int(generator.choice([8, 60])), 2)
        weights = None
        if generator.random() < 0.3:
            weights = generator.random(len(rows)) * 10.0 ** generator.integers(-200, 200)
        estimators = [
            kexpfam.KernelExponentialFamily(
                n_components=32, base="gaussian", tuning="folds", random_state=0
            ),
            kexpfam.KernelDiffusion(n_components=32, n_levels=3, random_state=0),
            kexpfam.KernelChain(random_state=0),
            kexpfam.ConditionalKernelExponentialFamily(random_state=0),
            kexpfam.KernelAnomalyDetector(random_state=0),
        ]
        model = estimators[int(generator.integers(5))]
        if isinstance(model, kexpfam.KernelAnomalyDetector):
            found = model.fit(rows).decision_scores_
        elif isinstance(model, kexpfam.ConditionalKernelExponentialFamily):
            given = rows[:, :1], rows[:, 1]
            found = model.fit(*given, sample_weight=weights).score_samples(*given)
        else:
            found = model.fit(rows, sample_weight=weights).score_samples(rows)
        if np.isnan(found).any() or (found == np.inf).any():
            raise FaultError(f"{type(model).__name__} scores its own rows {found[:5]}")
        return RIGHT


class MixedFits(Kind):
    """Small tables of words, holes and numbers: a chain whose answers fit together."""

    name = "mixed tables"

    def case(self, generator: np.random.Generator) -> str:
        n_rows = int(generator.choice([6, 25, 60]))
        makers = (_words, _truths, _counts, _halves, _spikes, _holes, _nothing, _objects)
        chosen = generator.integers(len(makers), size=int(generator.integers(1, 5)))
        table = pd.DataFrame(
            {f"{place}": makers[int(one)](generator, n_rows) for place, one in enumerate(chosen)}
        )
        model = kexpfam.KernelChain(random_state=0).fit(table)
        found = model.score_samples(table)
        if np.isnan(found).any() or (found == np.inf).any():
            raise FaultError(f"{found} at {table.to_dict('list')}")
        terms = np.asarray(model.contributions(table), float)
        if not np.allclose(terms.sum(axis=1), found, rtol=1e-8, atol=1e-8):
            raise FaultError(f"terms do not add up at {table.to_dict('list')}")
        drawn = model.sample(4, random_state=0)
        if list(drawn.columns) != list(table.columns) or len(drawn) != 4:
            raise FaultError(f"draws have the columns {list(drawn.columns)}")
        for name in table.columns:
            words = table[name].dropna()
            if words.map(type).eq(str).any() and not set(drawn[name].dropna()) <= set(words):
                raise FaultError(f"draws of {name} are {drawn[name].tolist()}")
        if np.isnan(model.score_samples(drawn)).any():
            raise FaultError(f"draws score {model.score_samples(drawn)}")
        return RIGHT


def _words(generator: np.random.Generator, n_rows: int) -> Any:
    levels = ["a", "b", "", "nan", "ä\n", "=1+1", "0", " a", None][: int(generator.integers(1, 10))]
    return [levels[int(place)] for place in generator.integers(len(levels), size=n_rows)]


def _truths(generator: np.random.Generator, n_rows: int) -> Any:
    return generator.random(n_rows) < generator.random()


def _counts(generator: np.random.Generator, n_rows: int) -> Any:
    return generator.poisson(10.0 ** generator.integers(-1, 7), n_rows)


def _halves(generator: np.random.Generator, n_rows: int) -> Any:
    return np.round(generator.standard_normal(n_rows) * 2) / 2


def _spikes(generator: np.random.Generator, n_rows: int) -> Any:
    return np.where(generator.random(n_rows) < 0.6, 0.0, generator.exponential(size=n_rows))


def _holes(generator: np.random.Generator, n_rows: int) -> Any:
    size = 10.0 ** generator.integers(-12, 12)
    return np.where(generator.random(n_rows) < 0.4, np.nan, generator.random(n_rows) * size)


def _nothing(generator: np.random.Generator, n_rows: int) -> Any:
    return [None] * n_rows if generator.random() < 0.3 else np.arange(n_rows)


def _objects(generator: np.random.Generator, n_rows: int) -> Any:
    values = [1, 2.5, "x", None, True, np.inf, 10**20]
    return [values[int(place)] for place in generator.integers(len(values), size=n_rows)]


_VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 3, 2.5, -0.5, 1e-300, 1e300, 10**20),
    *(float("nan"), float("inf"), "auto", "", "gaussian", "none", "x" * 200, b"auto"),
    *([], [1.0], (1, 2), (0.1, 1.0), {}, {"a": 1}, object(), print, np.zeros(3), np.nan),
    *(np.array([1.0, np.nan]), np.float64(0.5), np.int64(4), complex(1, 1), set()),
]


class Settings(Kind):
    """Any value for any setting of any estimator."""

    name = "settings"
    estimators = (
        kexpfam.KernelExponentialFamily,
        kexpfam.KernelDiffusion,
        kexpfam.ConditionalKernelExponentialFamily,
        kexpfam.KernelChain,
        kexpfam.KernelAnomalyDetector,
    )

    def case(self, generator: np.random.Generator) -> str:
        estimator = self.estimators[int(generator.integers(len(self.estimators)))]
        names = sorted(estimator().get_params())
        chosen = generator.choice(names, int(generator.integers(1, 3)), replace=False)
        # A fit takes long where most settings are right; those that are wrong are refused first.
        settings = {str(name): _VALUES[int(generator.integers(len(_VALUES)))] for name in chosen}
        rows = rows_of_two_humps(12, 3)
        model = estimator(**settings)
        if estimator is kexpfam.ConditionalKernelExponentialFamily:
            found = model.fit(rows[:, :1], rows[:, 1]).score_samples(rows[:, :1], rows[:, 1])
        elif estimator is kexpfam.KernelAnomalyDetector:
            found = model.fit(rows).decision_scores_
        else:
            found = model.fit(rows).score_samples(rows)
        if np.isnan(found).any():
            raise FaultError(f"{estimator.__name__}({settings}) gave {found}")
        return RIGHT


_WORDS = [
    *("fit", "score", "sample", "impute", "info", "test", "report", "predict", "--help"),
    *("anomalies", "--train", "--sep", ";", "--decimal", ",", "--no-header", "--encoding"),
    *("compare", "--no-divergence", "--permutations", "19", "--set", "--require", "east<north"),
    *("rows.csv", "model.kexpfam", "nothing.csv", "-", "-o", "out", "out.csv", "out.parquet"),
    *("--columns", "east", "east,north", "--exclude", "--weights", "--json", "--quiet", "--force"),
    *("--seed", "-1", "0", "1e9", "--n-components", "8", "--estimator", "family", "diffusion"),
    *("--target", "north", "--penalty", "1e-3", "--noise-scale", "0.2", "--length-scale", "1"),
    *("chain.kexpfam", "--kind", "east=count", "east=real", "--contributions", "--given"),
    *("", "'", "\x00", "=1+1", "../../..", "/", "/dev/null", "ä", "--nonsense", "--", "𝔘"),
    *("--draws", "--version"),
]


class Commands(Kind):
    """Words in any order after `kexpfam`: an exit code, and no traceback."""

    name = "command lines"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        rows = rows_of_two_humps(40, 4)
        lines = ["east,north", *(f"{one!r},{other!r}" for one, other in rows.tolist())]
        (folder / "rows.csv").write_text("\n".join(lines) + "\n", "utf-8")
        small_models()["family"][0].save(folder / "model.kexpfam")
        small_models()["chain"][0].save(folder / "chain.kexpfam")

    def case(self, generator: np.random.Generator) -> str:
        count = int(generator.integers(0, 7))
        words = [_WORDS[int(n)] for n in generator.integers(0, len(_WORDS), count)]
        if generator.random() < 0.5:
            words = ["--" if word == "report" else word for word in words]
        out, err, rows = io.StringIO(), io.StringIO(), io.BytesIO(b"east,north\n1,2\n")
        before, stdin = sys.argv, sys.stdin
        sys.argv, sys.stdin = ["kexpfam", *words], io.TextIOWrapper(rows)
        code: Any = 0
        try:
            with (
                contextlib.chdir(self.folder),
                contextlib.redirect_stdout(out),
                contextlib.redirect_stderr(err),
            ):
                main()
        except SystemExit as end:
            code = end.code
        finally:
            sys.argv, sys.stdin = before, stdin
        if isinstance(code, str) or code not in (0, 1, 2, 3, None):
            raise FaultError(f"{words} ended with {code!r}")
        said = err.getvalue()
        if "Traceback" in said or "A fault in kexpfam" in said:
            raise FaultError(f"{words} said {said[-500:]}")
        return RIGHT if code in (0, 3, None) else REFUSED
