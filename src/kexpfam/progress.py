"""Progress on long work: a bar on standard error when asked for, silence otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

__all__ = ["Progress"]

T = TypeVar("T")


class Progress:
    """Bars for loops. `verbose=False` shows nothing and costs nothing."""

    def __init__(self, verbose: bool | int = False) -> None:
        self._verbose = bool(verbose)
        self._note = ""

    def note(self, text: str) -> None:
        """A few words shown at the end of the current bar."""
        self._note = text

    def track(self, items: Sequence[T], label: str) -> Iterator[T]:
        """Iterate over `items` under a bar."""
        if not self._verbose:
            return iter(items)
        return self._shown(items, label)

    def _shown(self, items: Sequence[T], label: str) -> Iterator[T]:
        columns = (
            TextColumn("{task.description:<18}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
        )
        with RichProgress(*columns, console=Console(stderr=True)) as bars:
            task = bars.add_task(label, total=len(items), note="")
            for item in items:
                yield item
                bars.update(task, advance=1, note=self._note)
        self._note = ""
