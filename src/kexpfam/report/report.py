"""The report: evidence is gathered, every section makes its part, and a page holds them.

rows, model → evidence → sections → page
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kexpfam.progress import Progress
from kexpfam.report.choices_made import choices_section
from kexpfam.report.columns import columns_section
from kexpfam.report.curve import curve_section
from kexpfam.report.evidence import Evidence, Origin, gather
from kexpfam.report.goodness import goodness_section
from kexpfam.report.health import health_section
from kexpfam.report.likelihood import likelihood_section
from kexpfam.report.marginals import marginals_section
from kexpfam.report.markup import count, element
from kexpfam.report.page import page
from kexpfam.report.pairs import pairs_section
from kexpfam.report.reproduction import reproduction_section
from kexpfam.report.section import Section
from kexpfam.report.unusual import unusual_section
from kexpfam.writing import whole_file

__all__ = ["Report", "make_report", "write_report"]

# What is being done, for those who wait, and what does it.
_SECTIONS = {
    "other estimators": likelihood_section,
    "rows and draws": goodness_section,
    "health": health_section,
    "kinds of columns": columns_section,
    "density curve": curve_section,
    "pairs of columns": pairs_section,
    "single columns": marginals_section,
    "unusual rows": unusual_section,
    "choices": choices_section,
    "reproduction": reproduction_section,
}


@dataclass(frozen=True)
class Report:
    """A judged model.

    Attributes
    ----------
    title : str
    model : estimator
        Fitted: the one that was given, or the one that was fitted for the report.
    sections : mapping of str to Section
        Each with a title, HTML, and the same as plain data.
    html : str
        The whole page.
    """

    title: str
    model: Any
    sections: Mapping[str, Section]
    html: str

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page to the file `path`: a whole one, or none."""
        with whole_file(path) as part:
            part.write_text(self.html, encoding="utf-8")

    def __repr__(self) -> str:
        return f"<Report {self.title!r}: {', '.join(self.sections)}>"

    def _repr_html_(self) -> str:
        # In a frame, so that its style and script are not those of the notebook.
        return element(
            "iframe",
            srcdoc=self.html,
            width="100%",
            height="800",
            style="border: 0",
            title="Report",
        )


def make_report(
    *,
    data: Any = None,
    model: Any = None,
    random_state: Any = 0,
    title: str | None = None,
    progress: Progress | None = None,
    origin: Origin | None = None,
) -> Report:
    """Judge a model and describe it on a page.

    Parameters
    ----------
    data : array, data frame, path or stream, optional
        Rows, as `fit` takes them (not of a Dask cluster). With no model or an unfitted one, three
        quarters of them (or all but about 5000) fit it and the others judge it; of larger tables
        a `KernelChain` is fitted to about 20 000 rows (200 000 cells, but no fewer than 5000 rows),
        and the page says so. With a fitted model
        all of them judge it, or a sample of about 2000. Without rows the page shows draws and
        settings.
    model : KernelChain, KernelDiffusion or KernelExponentialFamily, optional
        Fitted or not; `KernelChain` by default, which takes tables of mixed columns as they are.
    random_state : int, RandomState, Generator or None, default=0
        Seed of the split, the draws and the bootstrap, and of a model that has none.
    title : str, optional
        The heading; by default the files' names, if there are any, and the model's.
    progress : Progress, optional
        Shows stages and bars; none by default.
    origin : Origin, optional
        Names of files and a command line to show on the page; by default the paths given as data.

    Returns
    -------
    Report

    Examples
    --------
    >>> from kexpfam import KernelDiffusion
    >>> from kexpfam.datasets import make_density
    >>> from kexpfam.report import make_report
    >>> X = make_density("ring").sample(200, random_state=0)
    >>> report = make_report(data=X, model=KernelDiffusion(n_components=32, n_levels=3))
    >>> list(report.sections)[:3]
    ['likelihood', 'goodness', 'health']
    """
    progress = Progress() if progress is None else progress
    if not isinstance(progress, Progress):
        raise TypeError(
            f"progress must be None or a kexpfam.progress.Progress; got {progress!r}. Try "
            "Progress(True)."
        )
    origin = Origin(_paths(data)) if origin is None else origin
    evidence = gather(data, model, random_state, progress, origin)
    sections = {}
    for name in progress.track(list(_SECTIONS), "report"):
        progress.note(name)
        section = _SECTIONS[name](evidence)
        if section is not None:
            sections[section.anchor] = section
    title = _title(evidence) if title is None else title
    picture = sections["pairs"].data
    html = page(title, _lead(evidence), _notes(evidence), list(sections.values()), picture)
    return Report(title, evidence.model, sections, html)


def _paths(data: Any) -> tuple[str, ...]:
    """The files that rows come from, where they were given as paths."""
    given = data if isinstance(data, (list, tuple)) else [data]
    return tuple(str(one) for one in given if isinstance(one, (str, Path)))


def _title(evidence: Evidence) -> str:
    kind = f"{type(evidence.model).__name__} report"
    files = [Path(file).name for file in evidence.origin.files]
    if not files:
        return kind
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    return f"{files[0]}{more}: {kind}"


def write_report(
    path: str | os.PathLike[str],
    *,
    data: Any = None,
    model: Any = None,
    random_state: Any = 0,
    title: str | None = None,
    progress: Progress | None = None,
) -> Report:
    """Make a report and write its page to a file.

    Parameters
    ----------
    path : str or path
        The file to write. An existing file is replaced.
    data, model, random_state, title, progress : optional
        As in `make_report`.

    Returns
    -------
    Report

    Examples
    --------
    >>> from kexpfam.report import write_report
    >>> report = write_report("rows.html", data="rows.csv")  # doctest: +SKIP
    """
    report = make_report(
        data=data, model=model, random_state=random_state, title=title, progress=progress
    )
    report.write(path)
    return report


def _notes(evidence: Evidence) -> list[str]:
    """Which rows were left out, and where they would not be."""
    notes = []
    if evidence.n_rows < evidence.n_given:
        notes.append(
            f"The table has {count(evidence.n_given, 'row')}; a random sample of "
            f"{count(evidence.n_rows, 'row')} was read."
        )
    left_out = evidence.n_rows - evidence.n_training - len(evidence.rows)
    if evidence.fitted_here and left_out > 0:
        notes.append(
            f"Rows are capped for this page: of {count(evidence.n_rows, 'row')}, the model and "
            "the estimators beside it are fitted to a random sample, and pictures show some of "
            "the held-out rows. For a model of more rows, use kexpfam fit, or KernelChain.fit."
        )
    return notes


def _lead(evidence: Evidence) -> str:
    name = type(evidence.model).__name__
    columns = count(len(evidence.names), "column")
    if evidence.fitted_here:
        copies = ", row by row" if evidence.copies_apart else ", copies of a row together"
        return (
            f"{name} fitted to {count(evidence.n_training, 'row')} of {columns} and judged by "
            f"{count(len(evidence.rows), 'held-out row')}, chosen at random{copies}."
        )
    if not len(evidence.rows):
        return f"A fitted {name} of {columns}; no rows were given to judge it by."
    sampled = f", a sample of {count(evidence.n_rows, 'row')}"
    return (
        f"A fitted {name} of {columns}, judged by {count(len(evidence.rows), 'given row')}"
        f"{sampled if len(evidence.rows) < evidence.n_rows else ''}."
    )
