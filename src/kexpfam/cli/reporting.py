"""`kexpfam report`: a page about data or a model."""

from __future__ import annotations

import shlex
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import typer

from kexpfam.cli.fitting import ESTIMATORS
from kexpfam.cli.inputs import STANDARD, Data, is_data, opened, split_names
from kexpfam.cli.models import loaded
from kexpfam.cli.outputs import check_output, naming
from kexpfam.cli.tables import in_options, kinds_by_name, kinds_from
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect
from kexpfam.estimators.mixed_rows import takes_tables
from kexpfam.report import Origin, make_report

__all__ = ["Subject", "report_on"]

# What a program wants to know of a report; the rest is for the eye.
_FIGURES = ("likelihood", "goodness", "health")


class Subject(NamedTuple):
    """What a page is about: files of data, or a model file and data to judge it by."""

    named: list[str]
    data: list[str]
    columns: str | None
    exclude: str | None
    estimator: str | None
    kinds: list[str]
    dialect: Dialect = Dialect()

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

    def model(self, terminal: Terminal) -> Any:
        """The model of the file, or an unfitted one."""
        kinds = kinds_from(self.kinds)
        if self.model_path is not None:
            if self.estimator or kinds:
                raise typer.BadParameter(
                    f"--estimator and --kind are for data; {self.model_path} is fitted already."
                )
            return loaded(self.model_path, terminal, conditional=False)
        model = ESTIMATORS[self.estimator or "chain"]()
        if kinds is not None:
            if not takes_tables(model):
                raise typer.BadParameter("--kind is a setting of --estimator chain.")
            model.set_params(columns=kinds)
        return model


def report_on(
    subject: Subject, output: str, terminal: Terminal, *, title: str | None, seed: int, force: bool
) -> None:
    """Write the page."""
    model_path = subject.model_path
    path = Path(output)
    check_output(path, force)
    start = time.perf_counter()
    model = subject.model(terminal)
    files = subject.named if model_path is None else subject.data
    names = tuple("standard input" if name == STANDARD else name for name in files)
    origin = Origin((model_path,) if model_path and not files else names, _again())
    options: dict[str, Any] = {
        "random_state": seed,
        "title": title,
        "progress": terminal.progress,
        "origin": origin,
    }
    if files:
        columns, exclude = split_names(subject.columns), split_names(subject.exclude)
        mixed = takes_tables(model)
        terminal.progress.stage(f"Reading {', '.join(names)}")
        with opened(
            files, terminal, columns=columns, exclude=exclude, dialect=subject.dialect
        ) as data:
            rows = _table(model, data, seed, terminal) if mixed else data.for_fit()
            with in_options():
                report = make_report(model=model, data=rows, **options)
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
    seconds = time.perf_counter() - start
    terminal.done(record, [f"Report: {output}, in {seconds:.0f} s"])


def _again() -> str:
    """The command that was given; what it wrote may be replaced."""
    words = ["kexpfam", *sys.argv[1:]]
    return shlex.join(words if "--force" in words else [*words, "--force"])


def _table(model: Any, data: Data, seed: int, terminal: Terminal) -> Any:
    """Rows as a fitted model has them, or as they are."""
    if not hasattr(model, "fitted_"):
        read = data.table(seed)
        for doubt in read.doubts:
            terminal.warn(doubt)
        return read
    kinds = kinds_by_name(model, data)
    if hasattr(model, "feature_names_in_") and data.names is not None:
        data = replace(data, columns=tuple(kinds))
    return data.table(seed, kinds)
