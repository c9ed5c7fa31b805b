"""What a case is, and when it ends well.

A *kind* of attack is set up once in a folder of its own and then makes cases from a generator of
random numbers. A case returns `RIGHT` or `REFUSED`, or raises: errors of the library's own making
(`OWN_ERRORS`) are refusals, anything else is a fault.
"""

from __future__ import annotations

import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

import numpy as np

import kexpfam

__all__ = [
    "OWN_ERRORS",
    "REFUSED",
    "RIGHT",
    "FaultError",
    "Kind",
    "damaged",
    "outcome",
    "rows_of_two_humps",
]

RIGHT, REFUSED = "right", "refused"
# ModelFileError, SingularSystemError and the like are among these.
OWN_ERRORS = (ValueError, TypeError, FileNotFoundError, PermissionError, IsADirectoryError)
# What such an error must not be: something that only Python, NumPy or JAX would say.
_FOREIGN = (
    "object has no attribute",
    "unexpected keyword argument",
    "not subscriptable",
    "unsupported operand",
    "could not be broadcast",
    "not enough values to unpack",
    "object is not iterable",
    "object is not callable",
    "invalid literal for",
    "cannot convert float",
)
_LIBRARY = str(Path(kexpfam.__file__).parent)
_CHECKS = str(Path("sklearn", "utils", "validation.py"))


class FaultError(AssertionError):
    """An answer that is neither right nor a refusal."""


class Kind(ABC):
    """One way to attack."""

    name: ClassVar[str]

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def case(self, generator: np.random.Generator) -> str:
        """One case: `RIGHT`, `REFUSED` or an error."""


def outcome(kind: Kind, seed: tuple[int, ...]) -> str:
    """What became of the case with this seed; a fault is raised."""
    generator = np.random.default_rng(seed)
    with _quietly():
        try:
            return kind.case(generator)
        except OWN_ERRORS as error:
            foreign = [words for words in _FOREIGN if words in str(error)]
            if foreign or not str(error) or not _raised_here(error):
                raise FaultError(f"not in the library's words: {error!r}") from error
            return REFUSED


def _raised_here(error: BaseException) -> bool:
    """Whether the library raised it, or one of scikit-learn's checks that it called itself."""
    files = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    ours = [place for place, file in enumerate(files) if file.startswith(_LIBRARY)]
    if not ours:
        return False
    below = files[ours[-1] + 1 :]
    return not below or below[0].endswith(_CHECKS)


@contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def damaged(content: bytes, generator: np.random.Generator) -> bytes:
    """Bytes with some flipped, cut out, repeated, moved or replaced."""
    found = bytearray(content)
    for _ in range(int(generator.integers(1, 4))):
        if not found:
            break
        place = int(generator.integers(len(found)))
        length = int(generator.integers(1, 65))
        match int(generator.integers(6)):
            case 0:
                found[place] ^= 1 << int(generator.integers(8))
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = found[place : place + length]
            case 3:
                found[place : place + length] = generator.bytes(length)
            case 4:
                del found[place:]
            case _:
                other = int(generator.integers(len(found)))
                found[place : place + length] = found[other : other + length]
    return bytes(found)


def rows_of_two_humps(count: int, seed: int) -> np.ndarray:
    """Rows in two columns that no Gaussian describes."""
    generator = np.random.default_rng(seed)
    sides = generator.choice([-2.0, 2.0], (count, 1))
    return generator.standard_normal((count, 2)) * [1.0, 0.5] + sides
