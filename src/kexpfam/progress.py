"""Progress on long work: a bar on standard error when asked for, silence otherwise."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from kexpfam.compilations import CLOCK

__all__ = ["Progress"]

T = TypeVar("T")

# Seconds that are worth a line.
_LONG_COMPILATION = 0.1


class Progress:
    """Bars for loops. `verbose=False` shows nothing and costs nothing."""

    def __init__(self, verbose: bool | int = False) -> None:
        self._verbose = bool(verbose)
        self._note = ""
        # What changes the note of the bar that is shown now.
        self._show_note: Callable[[str], None] = _nowhere
        self._programs, self._compiling = CLOCK.programs, CLOCK.seconds

    @property
    def verbose(self) -> bool:
        """Whether anything is shown."""
        return self._verbose

    def stage(self, text: str) -> None:
        """A line that says what comes next, above the bars of it."""
        if self._verbose:
            Console(stderr=True).print(text, style="bold", highlight=False)

    def done(self) -> None:
        """A line that says what compiling took since the beginning, if it took long."""
        programs, seconds = CLOCK.programs - self._programs, CLOCK.seconds - self._compiling
        if seconds >= _LONG_COMPILATION:
            plural = "" if programs == 1 else "s"
            self.stage(f"Compiling {programs} program{plural} took {seconds:.1f} s.")

    def note(self, text: str) -> None:
        """A few words shown at the end of the current bar."""
        self._note = text
        self._show_note(text)

    def track(self, items: Sequence[T], label: str) -> Iterator[T]:
        """Iterate over `items` under a bar."""
        if not (self._verbose and len(items)):
            return iter(items)
        return self._shown(items, label)

    def rows(self, chunks: Iterable[Any], n_rows: int | None, label: str) -> Iterator[Any]:
        """Iterate over chunks of rows under a bar that counts rows, and rows per second."""
        if not self._verbose:
            return iter(chunks)
        return self._counted(chunks, n_rows, label)

    def _counted(self, chunks: Iterable[Any], n_rows: int | None, label: str) -> Iterator[Any]:
        start, seen = time.perf_counter(), 0
        with _bars() as bars:
            task = bars.add_task(label, total=n_rows, note="")
            for chunk in chunks:
                yield chunk
                seen += len(chunk.rows)
                rate = seen / max(time.perf_counter() - start, 1e-9)
                bars.update(task, advance=len(chunk.rows), note=f"{rate:,.0f} rows/s")

    def _shown(self, items: Sequence[T], label: str) -> Iterator[T]:
        with _bars() as bars:
            task = bars.add_task(label, total=len(items), note="")
            self._show_note = lambda text: bars.update(task, note=text)
            for item in items:
                yield item
                bars.update(task, advance=1, note=self._note)
        self._note, self._show_note = "", _nowhere


def _nowhere(_: str) -> None:
    """There is no bar."""


def _bars() -> RichProgress:
    columns = (
        TextColumn("{task.description:<18}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[note]}"),
    )
    return RichProgress(*columns, console=Console(stderr=True))
