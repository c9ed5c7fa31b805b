"""A pass over many rows that can be interrupted and taken up again.

Every so often the sums, the rows that still wait for a full block, and the number of chunks seen
are written to one safetensors file, under a fingerprint of all that the sums depend on. A pass that
finds such a file goes on from there; as blocks do not depend on chunks, it ends with the very
numbers it would have had. The file is written beside its name and then renamed: there is always a
whole one.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from kexpfam.data.rows import RowSource
from kexpfam.moments.fold import BasisSummation, FoldSums, Summation
from kexpfam.writing import whole_file

__all__ = ["Checkpoint", "CheckpointedWalk"]

_FORMAT = "kexpfam-checkpoint-1"
_SECONDS = 10.0


@dataclass
class Checkpoint:
    """A file that a pass is saved to, at most every so many seconds."""

    path: Path
    seconds: float = _SECONDS
    _last: float = field(default_factory=time.monotonic)

    def entropy(self, fresh: list[int]) -> list[int]:
        """The seed of the fit that is taken up again, or a fresh one."""
        folder = self.path.absolute().parent
        if self.path.is_dir() or not folder.is_dir():
            raise ValueError(
                f"checkpoint must be the name of a file in a folder that exists; got {self.path}, "
                + ("a folder." if self.path.is_dir() else f"and there is no folder {folder}.")
            )
        if not self.path.exists():
            return fresh
        return [int(number) for number in json.loads(self._read()[1]["entropy"])]

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._last >= self.seconds

    def save(self, fingerprint: str, entropy: list[int], seen: int, sums: FoldSums) -> None:
        """Write sums after `seen` chunks."""
        from safetensors.numpy import save_file

        arrays = {}
        for number, one in sums.sums.items():
            for place, leaf in enumerate(jax.tree.leaves(one)):
                arrays[f"sums/{number}/{place}"] = np.ascontiguousarray(np.atleast_1d(leaf))
        for number, queue in sums.waiting.items():
            if queue:
                rows, weights = (np.concatenate(parts) for parts in zip(*queue, strict=True))
                arrays[f"rows/{number}"] = np.ascontiguousarray(rows)
                arrays[f"weights/{number}"] = np.ascontiguousarray(weights)
        notes = {
            "format": _FORMAT,
            "fingerprint": fingerprint,
            "entropy": json.dumps([int(number) for number in entropy]),
            "seen": str(seen),
            "digest": _digest(arrays),
        }
        with whole_file(self.path) as part:
            save_file(arrays, part, notes)
        self._last = time.monotonic()

    def restore(self, fingerprint: str, sums: FoldSums, n_columns: int) -> int:
        """Put what was saved into `sums`; the number of chunks that are in it."""
        if not self.path.exists():
            return 0
        arrays, notes = self._read()
        if notes["fingerprint"] != fingerprint:
            raise ValueError(
                f"{self.path} is the checkpoint of another fit: other rows, settings or seed. Give "
                "the same ones again, or remove the file to start anew."
            )
        numbers = {int(name.split("/")[1]) for name in arrays if name.startswith("sums/")}
        for number in numbers:
            template = sums.summation.template(n_columns)
            leaves, structure = jax.tree.flatten(template)
            stored = [arrays[f"sums/{number}/{place}"] for place in range(len(leaves))]
            shaped = [one.reshape(leaf.shape) for one, leaf in zip(stored, leaves, strict=True)]
            sums.sums[number] = jax.tree.unflatten(structure, shaped)
        for name, rows in arrays.items():
            if name.startswith("rows/"):
                number = int(name.split("/")[1])
                sums.waiting[number] = [(rows, arrays[f"weights/{number}"])]
        return int(notes["seen"])

    def remove(self) -> None:
        """The fit is done."""
        self.path.unlink(missing_ok=True)

    def _read(self) -> tuple[dict[str, np.ndarray], dict[str, str]]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(self.path, framework="numpy") as file:
                notes = file.metadata() or {}
                if notes.get("format") != _FORMAT:
                    raise ValueError(
                        f"{self.path} is not a checkpoint of this version of kexpfam. Give "
                        "checkpoint another name, or remove the file if it is an old checkpoint."
                    )
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise ValueError(
                f"{self.path} is no checkpoint, or a damaged one ({error}). Give checkpoint "
                "another name, or remove the file if it is an old checkpoint."
            ) from error
        if _digest(arrays) != notes.get("digest"):
            raise ValueError(f"{self.path} is damaged: its numbers have changed. Remove it.")
        return arrays, notes


def _digest(arrays: dict[str, np.ndarray]) -> str:
    hashed = hashlib.sha256()
    for name in sorted(arrays):
        hashed.update(name.encode())
        hashed.update(np.ascontiguousarray(arrays[name]).tobytes())
    return hashed.hexdigest()


def _fingerprint(summation: Summation, first: Any, n_rows: int | None) -> str:
    """Of all that the sums depend on: functions, base density, noise, first rows, their number."""
    hashed = hashlib.sha256()
    parts = [*summation.content(), first.rows, first.weights, first.labels, n_rows]
    for leaf in jax.tree.leaves(parts):
        hashed.update(repr(leaf).encode() if isinstance(leaf, str) else _bytes(leaf))
    return hashed.hexdigest()


def _bytes(leaf: Any) -> bytes:
    return np.ascontiguousarray(leaf).tobytes()


@dataclass(frozen=True)
class CheckpointedWalk:
    """Moments by fold, saved on the way; from where an earlier pass was cut off."""

    checkpoint: Checkpoint
    entropy: list[int]

    def __call__(self, source: RowSource, summation: BasisSummation) -> dict[int, Any]:
        if summation.noise.moments_follow_scale(summation.basis):
            raise ValueError(
                "A checkpoint is for fits with one pass over the rows; this noise or basis makes "
                "one for every noise scale. Take noise='gaussian' with basis='fourier'."
            )
        return self.total(source, summation)

    def total(self, source: RowSource, summation: Summation) -> dict[int, Any]:
        """The same, for sums that hold for every noise scale."""
        return _checkpointed_total(source, summation, self.checkpoint, self.entropy)


def _checkpointed_total(
    source: RowSource, summation: Summation, checkpoint: Checkpoint, entropy: list[int]
) -> dict[int, Any]:
    found = source.local()
    if found is None:
        raise ValueError(
            "A checkpoint needs rows that this process reads; a cluster keeps its own."
        )
    rows, function = found
    first = function(next(iter(rows.chunks())))
    fingerprint = _fingerprint(summation, first, rows.n_rows)
    sums = FoldSums(summation)
    seen = checkpoint.restore(fingerprint, sums, first.rows.shape[1])
    for chunk in rows.progress.rows(rows.chunks(seen), rows.n_rows, "moments"):
        sums.add(function(chunk))
        seen += 1
        if checkpoint.due():
            checkpoint.save(fingerprint, entropy, seen, sums)
    return sums.totals()
