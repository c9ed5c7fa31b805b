"""One safetensors file for one model.

The file's header holds the format's version, the kind of model and its description as JSON (see
`kexpfam.store.tree`); its tensors are the arrays. A digest of both finds damage. Nothing in a file
is ever executed, and nothing is allocated that the file does not hold.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from kexpfam.exceptions import ModelFileError
from kexpfam.store.tree import Tree
from kexpfam.writing import digest, whole_file

__all__ = ["FORMAT_VERSION", "ModelFile", "read_model_file", "write_model_file"]

FORMAT = "kexpfam-model"
FORMAT_VERSION = 8


class ModelFile(NamedTuple):
    """What a file says of itself, and the model's description."""

    kind: str
    library_version: str
    n_columns: int
    tree: Tree


def write_model_file(path: Path, file: ModelFile) -> None:
    """Write a whole file, or none."""
    notes = {
        "format": FORMAT,
        "version": str(FORMAT_VERSION),
        "kind": file.kind,
        "library": file.library_version,
        "columns": str(file.n_columns),
        "model": json.dumps(file.tree.json, allow_nan=False, ensure_ascii=False),
    }
    notes["digest"] = digest(notes, file.tree.arrays)
    with whole_file(path) as part:
        part.write_bytes(save(file.tree.arrays, notes))


def read_model_file(path: Path) -> ModelFile:
    """Read and check a file."""
    try:
        if path.exists() and not path.is_file():
            raise ModelFileError("not a plain file, so no model that save() wrote")
        # Says whether it is there and may be read, in the words that everyone knows.
        with open(path, "rb"):
            pass
        with safe_open(path, framework="numpy") as file:
            notes = file.metadata() or {}
            _check_version(notes)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if digest(notes, arrays) != notes.get("digest"):
            raise ModelFileError("its content has changed since it was written")
        tree = Tree(_parsed(notes["model"]), arrays)
        return ModelFile(notes["kind"], notes["library"], int(notes["columns"]), tree)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}.") from error
    except OSError as error:
        # Not there or not ours to read is what everyone knows; a link to itself is a broken file.
        if error.errno != errno.ELOOP:
            raise
        raise ModelFileError(f"{path}: a link that leads to itself, and to no model.") from error
    except (SafetensorError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} is not a whole kexpfam model file: expected one that model.save(path) wrote. "
            "Save the model again, or fetch the file again if it was copied. (What reads it says: "
            f"{error}.)"
        ) from error


def _check_version(notes: dict[str, str]) -> None:
    if notes.get("format") != FORMAT:
        kind = notes.get("format", "some other program")
        raise ModelFileError(f"a safetensors file, but of {kind}, not a model written by save()")
    version = notes.get("version", "")
    if not version.isdecimal() or int(version) != FORMAT_VERSION:
        older = version.isdecimal() and int(version) < FORMAT_VERSION
        raise ModelFileError(
            f"written in format {version or '?'} by kexpfam {notes.get('library', '?')}; this "
            f"version reads format {FORMAT_VERSION}. "
            + (
                "Fit the model again with this version, or read the file with the one that wrote it"
                if older
                else "Upgrade kexpfam to read it"
            )
        )


def _parsed(text: str) -> Any:
    def refused(constant: str) -> Any:
        raise ValueError(f"{constant} is not JSON")

    try:
        return json.loads(text, parse_constant=refused)
    except RecursionError:
        raise ModelFileError("its description is nested too deeply") from None
