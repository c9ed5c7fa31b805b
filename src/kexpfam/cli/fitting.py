"""`kexpfam fit`: settings from options, a fit, a model file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer

import kexpfam
from kexpfam.choices import nearest
from kexpfam.cli.inputs import STANDARD, opened, split_names
from kexpfam.cli.models import column_names, described, kind_lines
from kexpfam.cli.outputs import check_output, naming
from kexpfam.cli.tables import fit_table, kinds_from
from kexpfam.cli.terminal import Terminal
from kexpfam.data.dialects import Dialect
from kexpfam.estimators.mixed_rows import takes_tables

__all__ = ["ESTIMATORS", "Source", "Target", "fit_model"]

ESTIMATORS: dict[str, Any] = {
    "chain": kexpfam.KernelChain,
    "diffusion": kexpfam.KernelDiffusion,
    "family": kexpfam.KernelExponentialFamily,
    "conditional": kexpfam.ConditionalKernelExponentialFamily,
}


class Source(NamedTuple):
    """Where rows come from."""

    files: Sequence[str]
    columns: str | None
    exclude: str | None
    weights: str | None
    target: str | None
    dialect: Dialect = Dialect()


class Target(NamedTuple):
    """Where the model goes."""

    output: str
    force: bool
    checkpoint: Path | None


def fit_model(
    source: Source,
    target: Target,
    estimator: str | None,
    given: Mapping[str, Any],
    terminal: Terminal,
) -> None:
    """Fit, save, and say what came out. `given` are the options that the user gave."""
    estimator = _kind(source, estimator)
    model = ESTIMATORS[estimator](**_settings(estimator, given), verbose=terminal.lively)
    mixed = takes_tables(model)
    if mixed and target.checkpoint is not None:
        raise typer.BadParameter(
            "--checkpoint is for fits that walk through very many rows: --estimator diffusion or "
            "family."
        )
    options = _fit_options(target, terminal)
    if target.output == STANDARD:
        raise typer.BadParameter(
            "A model file cannot be written to standard output. Give -o the name of a file."
        )
    output = Path(target.output)
    check_output(output, target.force)
    with opened(
        source.files,
        terminal,
        columns=_columns(source),
        exclude=split_names(source.exclude),
        weights=source.weights,
        dialect=source.dialect,
    ) as data:
        start = time.perf_counter()
        if mixed:
            columns, remarks = fit_table(model, data, terminal)
        else:
            columns, remarks = [], []
            model.fit(data.for_fit(), source.target, sample_weight=source.weights, **options)
        seconds = time.perf_counter() - start
    model.set_params(verbose=False)
    with naming(output):
        model.save(output)
    description = described(model)
    record = {"output": str(output), "seconds": seconds, **description}
    if columns:
        record["column_summaries"] = [one._asdict() for one in columns]
    names = column_names(model)
    what = f"{len(names)} columns"
    if source.target is not None:
        what = f"{source.target} given {what}"
    lines = [
        f"{description['kind']} of {what}, fitted in {seconds:.1f} s.",
        *(kind_lines(columns) if columns else []),
        *remarks,
        description["health"]["in_words"],
        f"Model: {output}",
    ]
    terminal.done(record, lines)


def _kind(source: Source, estimator: str | None) -> str:
    """Which estimator: with a target there is one."""
    if source.target is None:
        if estimator == "conditional":
            raise typer.BadParameter("--estimator conditional needs --target COLUMN.")
        return estimator or "chain"
    if estimator not in (None, "conditional"):
        raise typer.BadParameter(
            f"--estimator {estimator} fits a density of whole rows: leave it out with --target."
        )
    if source.target in (split_names(source.exclude) or ()):
        raise typer.BadParameter(f"--target {source.target} is among the columns of --exclude.")
    return "conditional"


def _columns(source: Source) -> list[str] | None:
    """The columns to read; a target need not be named twice."""
    columns = split_names(source.columns)
    if columns is None or source.target is None or source.target in columns:
        return columns
    return [*columns, source.target]


def _fit_options(target: Target, terminal: Terminal) -> dict[str, Any]:
    if target.checkpoint is None:
        return {}
    if not target.checkpoint.exists():
        check_output(target.checkpoint, force=True)
    path = target.checkpoint
    terminal.when_interrupted = lambda: (
        f"The same command goes on from {path}." if path.exists() else f"{path} was not begun yet."
    )
    return {"checkpoint": target.checkpoint}


def _settings(estimator: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """An estimator's parameters from the options that were given."""
    settings = {name: value for name, value in given.items() if value is not None}
    foreign = sorted(set(settings) - set(ESTIMATORS[estimator]().get_params()))
    if foreign:
        option = "--" + _OPTIONS.get(foreign[0], foreign[0].replace("_", "-"))
        other = next(name for name, kind in ESTIMATORS.items() if foreign[0] in kind().get_params())
        raise typer.BadParameter(
            f"{option} is a setting of --estimator {other}, not of {estimator}."
        )
    if "columns" in settings:
        settings["columns"] = kinds_from(settings["columns"])
    for name in ("noise", "marginals", "tilt"):
        if settings.get(name) == "none":
            settings[name] = None
    if "bounds" in settings:
        settings["bounds"] = _bounds(settings["bounds"])
    for name, several in (
        ("noise_scale", False),
        ("penalty", False),
        ("length_scale", True),
        ("noise_range", True),
    ):
        if name in settings:
            settings[name] = _numbers(name, settings[name], several)
    return settings


# Options that are called otherwise than the parameter.
_OPTIONS = {
    "columns": "kind",
    "n_levels": "levels",
    "random_state": "seed",
    "standardize": "no-standardize",
}
_AUTO = "auto"


def _bounds(text: str) -> tuple[float | None, ...]:
    """Two numbers with a comma between them, either of which may be left out."""
    try:
        ends = tuple(float(part) if part.strip() else None for part in text.split(","))
    except ValueError:
        ends = ()
    if len(ends) != 2:
        raise typer.BadParameter(
            f"--bounds must be two numbers with a comma between them, such as 0,1, or '0,' for "
            f"no upper bound; got {text!r}."
        )
    return ends


def _numbers(name: str, text: str, several: bool) -> Any:
    """A word, a number, or several with commas between them."""
    if text == _AUTO:
        return text
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or (len(numbers) > 1 and not several):
        expected = "a number, or numbers with commas between them" if several else "a number"
        option = name.replace("_", "-")
        raise typer.BadParameter(
            f"--{option} must be {expected}; got {text!r}.{nearest(text, [_AUTO])}"
        )
    if name == "noise_range":
        return tuple(numbers)
    return numbers[0] if len(numbers) == 1 else np.array(numbers)
