"""What every experiment has in common: cells of work, a file of results, a table, a picture.

An experiment is cut into *cells* (a data set, a system, a run), each of which gives a record of
plain numbers. Records are written to a JSON file as they come, so that an interrupted experiment
goes on where it stopped; the table and the picture are made from that file alone.

| file        | what                                              |
|-------------|---------------------------------------------------|
| NAME.json   | settings, machine and one record per cell         |
| NAME.md     | protocol with its caveats, and the table          |
| NAME.png    | the figure                                        |
"""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kexpfam.progress import Progress
from kexpfam.writing import whole_file

__all__ = ["Experiment", "Options", "Results", "markdown_table", "reproduce", "write_page"]

Record = dict[str, Any]


class Options(NamedTuple):
    """How much of an experiment is run."""

    runs: int | None = None
    quick: bool = False

    def n_runs(self, usual: int) -> int:
        """The number of runs: as asked, else one for a quick look, else the usual."""
        return self.runs or (1 if self.quick else usual)

    def size(self, usual: int, quick: int) -> int:
        """A size that is smaller for a quick look."""
        return quick if self.quick else usual


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    `cells` names the pieces of work, `measure` does one, `table` gives Markdown and `draw` a
    matplotlib figure from all records.
    """

    name: str
    title: str
    protocol: str
    cells: Callable[[Options], Sequence[tuple[str, ...]]]
    measure: Callable[[tuple[str, ...], Options], Record]
    table: Callable[[Results], str]
    draw: Callable[[Results], Any] | None = None


class Results(NamedTuple):
    """Records by cell, in the order of the cells."""

    options: Options
    records: Mapping[tuple[str, ...], Record]


def reproduce(experiment: Experiment, options: Options, folder: Path, progress: Progress) -> Path:
    """Run what is missing of an experiment and write its files; the table's path comes back."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / f"{experiment.name}.json"
    settings = {"quick": options.quick}
    kept: dict[str, Record] = {}
    if store.exists():
        stored = json.loads(store.read_text("utf-8"))
        if stored.get("settings") == settings:
            kept = stored["records"]
    cells = list(experiment.cells(options))
    for cell in progress.track(cells, experiment.name):
        key = "/".join(cell)
        progress.note(key)
        if key not in kept:
            start = time.perf_counter()
            record = experiment.measure(cell, options)
            kept[key] = {**record, "seconds_in_all": time.perf_counter() - start}
            _write(store, settings, kept)
    results = Results(options, {cell: kept["/".join(cell)] for cell in cells})
    table = folder / f"{experiment.name}.md"
    picture = folder / f"{experiment.name}.png"
    text = [f"# {experiment.title}", experiment.protocol.strip(), experiment.table(results)]
    if experiment.draw is not None:
        figure = experiment.draw(results)
        figure.savefig(picture, dpi=130, bbox_inches="tight")
        text.append(f"![{experiment.title}]({picture.name})")
    quick = " --quick" if options.quick else ""
    text.append(f"Made by `kexpfam reproduce {experiment.name}{quick}` on {_machine()}.")
    table.write_text("\n\n".join(text) + "\n", "utf-8")
    return table


def write_page(experiments: Iterable[Experiment], folder: Path) -> Path:
    """One page of all tables and figures that there are results of."""
    parts = [
        "# The paper, reproduced",
        "Tables and figures of *Denoising Score Matching with Random Fourier Features* "
        "(Tsimboy, Kapushev, Burnaev, Oseledets), and some of ours, each with its protocol and "
        "caveats. Made by `kexpfam reproduce` from the JSON files beside this page.",
    ]
    for experiment in experiments:
        table = folder / f"{experiment.name}.md"
        if table.exists():
            parts.append("#" + table.read_text("utf-8").strip())
    page = folder / "README.md"
    page.write_text("\n\n".join(parts) + "\n", "utf-8")
    return page


def _write(store: Path, settings: Record, records: Mapping[str, Record]) -> None:
    """Atomically, so that an interruption loses nothing."""
    head = json.dumps({"settings": settings, "machine": _machine()}, sort_keys=True)[:-1]
    # One line for each record: small files, and differences that can be read.
    lines = [f"{json.dumps(key)}: {json.dumps(records[key])}" for key in sorted(records)]
    with whole_file(store) as part:
        part.write_text(head + ', "records": {\n' + ",\n".join(lines) + "\n}}\n", "utf-8")


def _machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}"


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A Markdown table; numbers with three digits, None as a dash."""

    def shown(value: Any) -> str:
        if value is None:
            return "–"
        return f"{value:.3f}" if isinstance(value, float) else str(value)

    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(shown(value) for value in line)} |" for line in lines)
