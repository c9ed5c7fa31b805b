"""Damaged and forged model files and checkpoints, and files of rows."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save

import kexpfam
from attack.cases import REFUSED, RIGHT, FaultError, Kind, damaged, rows_of_two_humps
from kexpfam.data.files import FileRows
from kexpfam.data.frames import read_table
from kexpfam.data.steady import Trace
from kexpfam.moments import Checkpoint
from kexpfam.writing import digest

__all__ = ["Checkpoints", "ForgedModels", "ModelFiles", "RowFiles"]

_FAMILY = {"n_components": 32, "penalty": 1e-3, "noise_scale": 0.2, "length_scale": 1.0}


@functools.cache
def small_models() -> dict[str, tuple[Any, tuple[np.ndarray, ...]]]:
    """A fitted model of every estimator, and what it predicts at."""
    rows = rows_of_two_humps(120, 0)
    joint = {
        "family": kexpfam.KernelExponentialFamily(random_state=0, gate=False, **_FAMILY),
        "diffusion": kexpfam.KernelDiffusion(
            n_components=32, n_levels=3, gate=False, random_state=0
        ),
    }
    found: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
        name: (model.fit(rows), (rows[:5],)) for name, model in joint.items()
    }
    conditional = kexpfam.ConditionalKernelExponentialFamily(random_state=0)
    conditional.fit(rows[:, :1], rows[:, 1])
    found["conditional"] = conditional, (rows[:5, :1], rows[:5, 1])
    mixed = pd.DataFrame(rows, columns=["east", "north"])
    mixed["side"] = np.where(rows[:, 0] > 0, "right", "left")
    found["chain"] = kexpfam.KernelChain(random_state=0).fit(mixed), (mixed[:5],)
    return found


class ModelFiles(Kind):
    """Bytes of model files, changed anywhere: the digest finds it out."""

    name = "damaged model files"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.models = small_models()
        self.contents = {}
        for name, (model, given) in self.models.items():
            model.save(folder / name)
            self.contents[name] = (folder / name).read_bytes(), model.score_samples(*given)

    def case(self, generator: np.random.Generator) -> str:
        name = str(generator.choice(list(self.contents)))
        content, expected = self.contents[name]
        path = self.folder / "damaged"
        path.write_bytes(damaged(content, generator))
        try:
            model = kexpfam.load(path)
        except kexpfam.ModelFileError:
            return REFUSED
        found = model.score_samples(*self.models[name][1])
        if not np.array_equal(found, expected):
            raise FaultError(f"a damaged {name} file gives other predictions")
        return RIGHT


class ForgedModels(ModelFiles):
    """Descriptions and arrays changed under a digest that is right."""

    name = "forged model files"

    def case(self, generator: np.random.Generator) -> str:
        name = str(generator.choice(list(self.contents)))
        with safe_open(self.folder / name, framework="numpy") as file:
            notes = file.metadata()
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        if generator.random() < 0.5:
            notes["model"] = json.dumps(_changed(json.loads(notes["model"]), generator))
        else:
            key = str(generator.choice(list(arrays)))
            arrays[key] = _changed_array(arrays[key], generator)
        notes["digest"] = digest(notes, arrays)
        path = self.folder / "forged"
        path.write_bytes(save(arrays, notes))
        try:
            model = kexpfam.load(path)
        except kexpfam.ModelFileError:
            return REFUSED
        given = self.models[name][1]
        try:
            found = model.score_samples(*given)
        except ValueError:
            return REFUSED
        if np.shape(found) != (5,):
            raise FaultError(f"a forged {name} file predicts the shape {np.shape(found)}")
        return RIGHT


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            found += _places(value, (*path, key))
    return found


def _junk(generator: np.random.Generator) -> Any:
    values = [None, True, -1, 0, 7, 1e308, -0.5, "", "x", [], {}, [[]], {"array": "0"}]
    values += [{"number": "nan"}, {"number": "inf"}, {"record": "Chunk", "fields": {}}, 10**30]
    return values[int(generator.integers(len(values)))]


def _changed(tree: Any, generator: np.random.Generator) -> Any:
    places = _places(tree)
    path = places[int(generator.integers(len(places)))]
    if not path:
        return _junk(generator)
    parent = tree
    for key in path[:-1]:
        parent = parent[key]
    if isinstance(parent, dict) and generator.random() < 0.3:
        parent[str(path[-1]) + "x"] = parent.pop(path[-1])
    else:
        parent[path[-1]] = _junk(generator)
    return tree


def _changed_array(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    choices: list[Callable[[], np.ndarray]] = [
        lambda: array.ravel()[:0],
        lambda: np.concatenate([array.ravel()] * 2),
        lambda: array.astype(np.int64),
        lambda: np.full(array.shape, np.nan),
        lambda: np.full(array.shape, np.inf),
        lambda: np.zeros(array.shape, array.dtype),
        lambda: -array.astype(float),
        lambda: array.astype(float) * 10.0 ** generator.integers(-300, 300),
        lambda: array.reshape(array.shape[::-1]),
        lambda: generator.standard_normal(array.shape),
    ]
    return np.ascontiguousarray(choices[int(generator.integers(len(choices)))]())


class Checkpoints(Kind):
    """Bytes of checkpoints, changed anywhere."""

    name = "damaged checkpoints"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.path = folder / "fit.checkpoint"
        self.content = b""
        model = kexpfam.KernelExponentialFamily(random_state=0, gate=False, **_FAMILY)
        rows = rows_of_two_humps(200, 1)
        original = Checkpoint.save

        class StopError(Exception):
            """The fit is cut off when it has written its checkpoint."""

        def save_and_stop(checkpoint: Checkpoint, *arguments: Any) -> None:
            original(checkpoint, *arguments)
            raise StopError

        due = Checkpoint.due
        Checkpoint.save, Checkpoint.due = save_and_stop, lambda _: True  # type: ignore[assignment,method-assign]
        try:
            model.fit(rows, checkpoint=self.path)
        except StopError:
            self.content = self.path.read_bytes()
        finally:
            Checkpoint.save, Checkpoint.due = original, due  # type: ignore[method-assign]
        with safe_open(self.path, framework="numpy") as file:
            self.fit = file.metadata()["fit"]

    def case(self, generator: np.random.Generator) -> str:
        self.path.write_bytes(damaged(self.content, generator))
        whole = self.path.read_bytes() == self.content
        found = Checkpoint(self.path, self.fit)._read()
        if not whole and found is not None and found.trace == Trace():
            raise FaultError("a damaged checkpoint was read")
        return RIGHT


class RowFiles(Kind):
    """Damaged tables in every format: rows of finite numbers, or a refusal."""

    name = "damaged tables"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        frame = pd.DataFrame(rows_of_two_humps(60, 2), columns=["east", "north"])
        frame.to_csv(folder / "rows.csv", index=False)
        frame.to_parquet(folder / "rows.parquet")
        frame.to_feather(folder / "rows.feather")
        np.save(folder / "rows.npy", frame.to_numpy())
        frame.to_csv(folder / "european.csv", index=False, sep=";", decimal=",")
        frame.to_csv(folder / "wide.tsv", sep="\t", encoding="utf-16")
        frame.to_csv(folder / "spaces.txt", index=False, sep=" ", header=False)
        for end in ("gz", "bz2", "xz", "zip"):
            frame.to_csv(folder / f"rows.csv.{end}", index=False)
        frame.to_json(folder / "rows.jsonl", orient="records", lines=True)
        frame.to_json(folder / "rows.json", orient="records")
        self.contents = {path.name: path.read_bytes() for path in sorted(folder.iterdir())}

    def case(self, generator: np.random.Generator) -> str:
        name = str(generator.choice(list(self.contents)))
        path = self.folder / f"damaged.{name.partition('.')[2]}"
        path.write_bytes(damaged(self.contents[name], generator))
        if generator.random() < 0.3:
            return self._as_table(path)
        for chunk in FileRows((path,)).chunks():
            if chunk.rows.ndim != 2 or not np.isfinite(chunk.rows).all():
                raise FaultError(f"{name}: rows that are not finite")
            if len(chunk.weights) != len(chunk.rows):
                raise FaultError(f"{name}: weights for other rows")
        return RIGHT

    def _as_table(self, path: Path) -> str:
        """The same with words and empty cells."""
        read = read_table([path])
        if len(read.frame) != read.n_rows or not read.n_rows:
            raise FaultError(f"{path.name}: {len(read.frame)} of {read.n_rows} rows")
        return RIGHT
