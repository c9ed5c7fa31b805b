"""A pass over many rows that can be interrupted and taken up again.

Every so often the sums, the rows that still wait for a full block, and the number of chunks seen
are written to one safetensors file, under fingerprints of the fit (its kind, settings, first rows)
and of all that the sums depend on. A pass that finds such a file continues from there; as blocks do
not depend on chunks, it ends with the very numbers it would have had. The file is written beside
its name and then renamed: there is always a whole one. A digest of everything in it finds damage,
and a lock beside it keeps other processes away.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from kexpfam.data.rows import RowSource
from kexpfam.data.steady import Trace
from kexpfam.moments.fold import BasisSummation, FoldSums, Summation
from kexpfam.writing import digest, whole_file

__all__ = ["Checkpoint", "CheckpointedWalk", "fit_fingerprint"]

_FORMAT = "kexpfam-checkpoint-2"
_SECONDS = 10.0


class _Saved(NamedTuple):
    """What a checkpoint holds."""

    arrays: dict[str, np.ndarray]
    fit: str
    sums: str
    entropy: list[int]
    seen: int
    trace: Trace


@dataclass
class Checkpoint:
    """A file that a pass is saved to, no more often than after this many seconds.

    `fit` is the fingerprint of the fit that it belongs to.
    """

    path: Path
    fit: str
    seconds: float = _SECONDS
    _last: float = field(default_factory=time.monotonic)
    _others: list[Checkpoint] = field(default_factory=list)

    def beside(self, name: str) -> Checkpoint:
        """The checkpoint of another pass of the same fit, which ends with this one."""
        other = Checkpoint(self.path.with_name(f"{self.path.name}.{name}"), self.fit, self.seconds)
        self._others.append(other)
        return other

    @contextmanager
    def opened(self, fresh: list[int], *, seeded: bool) -> Iterator[list[int]]:
        """The seed of the fit that is taken up again, or a fresh one; removed after a good end.

        Where the fit is `seeded` by the user, the fresh seed must be that of the file.
        """
        folder = self.path.absolute().parent
        if self.path.is_dir() or not folder.is_dir():
            raise ValueError(
                f"checkpoint must be the name of a file in a folder that exists; got {self.path}, "
                + ("a folder." if self.path.is_dir() else f"and there is no folder {folder}.")
            )
        with _locked(self.path):
            entropy = fresh
            saved = self._read()
            if saved is not None:
                if saved.fit != self.fit or (seeded and saved.entropy != fresh):
                    raise ValueError(_of_another_fit(self.path))
                entropy = saved.entropy
            yield entropy
            for one in (self, *self._others):
                one.path.unlink(missing_ok=True)

    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() - self._last >= self.seconds

    def save(
        self, fingerprint: str, entropy: list[int], seen: int, trace: Trace, sums: FoldSums
    ) -> None:
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
            "fit": self.fit,
            "fingerprint": fingerprint,
            "entropy": json.dumps([int(number) for number in entropy]),
            "seen": str(seen),
            "trace": json.dumps(list(trace)),
        }
        notes["digest"] = digest(notes, arrays)
        with whole_file(self.path) as part:
            save_file(arrays, part, notes)
        self._last = time.monotonic()

    def restore(self, fingerprint: str, sums: FoldSums, n_columns: int) -> tuple[int, Trace]:
        """Put what was saved into `sums`; the number of chunks in it, and what they held."""
        saved = self._read()
        if saved is None:
            return 0, Trace()
        if (saved.fit, saved.sums) != (self.fit, fingerprint):
            raise ValueError(_of_another_fit(self.path))
        arrays = saved.arrays
        try:
            for number in {int(name.split("/")[1]) for name in arrays if name[:5] == "sums/"}:
                leaves, structure = jax.tree.flatten(sums.summation.template(n_columns))
                stored = [arrays[f"sums/{number}/{place}"] for place in range(len(leaves))]
                shaped = [one.reshape(leaf.shape) for one, leaf in zip(stored, leaves, strict=True)]
                sums.sums[number] = jax.tree.unflatten(structure, shaped)
            for name, rows in arrays.items():
                if name[:5] == "rows/":
                    number = int(name.split("/")[1])
                    sums.waiting[number] = [(rows, arrays[f"weights/{number}"])]
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(_damaged(self.path, error)) from error
        return saved.seen, saved.trace

    def _read(self) -> _Saved | None:
        """What the file holds, if there is one; an error where it is no whole checkpoint."""
        from safetensors import SafetensorError, safe_open

        if not self.path.exists():
            return None
        if not self.path.is_file():
            raise ValueError(_damaged(self.path, "not a plain file"))
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
            raise ValueError(_damaged(self.path, error)) from error
        if digest(notes, arrays) != notes.get("digest"):
            raise ValueError(f"{self.path} is damaged: its content has changed. Remove it.")
        try:
            entropy = [int(number) for number in json.loads(notes["entropy"])]
            trace = Trace(*(int(number) for number in json.loads(notes["trace"])))
            seen = int(notes["seen"])
            return _Saved(arrays, notes["fit"], notes["fingerprint"], entropy, seen, trace)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise ValueError(_damaged(self.path, error)) from error


def _of_another_fit(path: Path) -> str:
    return (
        f"{path} is the checkpoint of another fit: another kind of model, other rows, settings or "
        "seed. Give the same ones again, or remove the file to start anew."
    )


def _damaged(path: Path, error: Any) -> str:
    return (
        f"{path} is not a checkpoint, or is damaged ({error}). Give checkpoint another name, or "
        "remove the file if it is an old checkpoint."
    )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Nobody else's, as long as this process works on it; a process that ends lets go of it."""
    try:
        import fcntl
    except ImportError:  # Only POSIX systems have such locks.
        yield
        return
    beside = path.with_name(f".{path.name}.lock")
    with open(beside, "a", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(
                f"Another fit is using the checkpoint {path}. Wait for it to end, or give this one "
                "a name of its own."
            ) from None
        try:
            yield
        finally:
            beside.unlink(missing_ok=True)


def fit_fingerprint(kind: str, settings: dict[str, Any], source: RowSource) -> str:
    """The fingerprint of a fit: the kind of model, plain settings, and the first rows."""
    found = source.local()
    if found is None:
        raise ValueError(
            "A checkpoint needs rows that this process reads; a cluster keeps its own."
        )
    rows, _ = found
    first = next(iter(rows.chunks()))
    # Objects may show where they are in memory; their kind is all that can be compared.
    plain = {
        name: value
        if isinstance(value, (bool, int, float, str, type(None)))
        else type(value).__name__
        for name, value in settings.items()
    }
    hashed = hashlib.sha256(json.dumps([kind, plain, rows.n_rows], sort_keys=True).encode())
    for part in (first.rows, first.weights):
        hashed.update(_bytes(part))
    return hashed.hexdigest()


def _fingerprint(summation: Summation, first: Any, n_rows: int | None) -> str:
    """The fingerprint of what sums depend on: functions, base, noise, first rows, row count."""
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
                "A checkpoint is for fits with one pass over the rows; this noise or basis needs "
                "one for every noise scale. Use noise='gaussian' with basis='fourier'."
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
    seen, trace = checkpoint.restore(fingerprint, sums, first.rows.shape[1])
    for chunk in rows.progress.rows(rows.chunks(seen), rows.n_rows, "moments"):
        sums.add(function(chunk))
        seen, trace = seen + 1, trace.after(chunk)
        if checkpoint.due():
            checkpoint.save(fingerprint, entropy, seen, trace, sums)
    source.check(trace)
    return sums.totals()
