"""`kexpfam report`: a page about data or a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import typer

from kexpfam.cli.inputs import is_data, opened, split_names
from kexpfam.cli.models import loaded, ready
from kexpfam.cli.outputs import check_output, naming
from kexpfam.cli.terminal import Terminal
from kexpfam.report import make_report

__all__ = ["Subject", "report_on"]

# What a program wants to know of a report; the rest is for the eye.
_FIGURES = ("likelihood", "goodness", "health")


class Subject(NamedTuple):
    """What a page is about: files of data, or a model file and data to judge it by."""

    named: list[str]
    data: list[str]
    columns: str | None
    exclude: str | None

    @property
    def model_path(self) -> str | None:
        """The model's file, if there is one."""
        if all(is_data(name) for name in self.named):
            if self.data:
                raise typer.BadParameter(f"{self.named[0]} is data already; --data is for a model.")
            return None
        if len(self.named) > 1:
            raise typer.BadParameter(
                "Expected one model, or files of data (a model's data go with --data); got "
                f"{', '.join(self.named)}."
            )
        return self.named[0]


def report_on(
    subject: Subject, output: str, terminal: Terminal, *, title: str | None, seed: int, force: bool
) -> None:
    """Write the page."""
    model_path = subject.model_path
    path = Path(output)
    check_output(path, force)
    options: dict[str, Any] = {"random_state": seed, "title": title, "progress": terminal.progress}
    model = None if model_path is None else loaded(model_path, terminal, conditional=False)
    files = subject.named if model_path is None else subject.data
    ready()
    if files:
        columns, exclude = split_names(subject.columns), split_names(subject.exclude)
        with opened(files, terminal, columns=columns, exclude=exclude) as data:
            report = make_report(model=model, data=data.for_fit(), **options)
    else:
        report = make_report(model=model, **options)
    with naming(path):
        report.write(path)
    record = {
        "output": output,
        "title": report.title,
        "model": model_path,
        "data": files,
        **{name: report.sections[name].data for name in _FIGURES if name in report.sections},
    }
    terminal.done(record, [f"Report: {output}"])
