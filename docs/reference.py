"""The reference pages: one per public module, written from its ``__all__`` and its docstring.

Module docstrings are Markdown (formulas as indented text, tables of symbols), so a page is the
docstring itself, then a table of what the module offers, each with a page of its own by
autosummary. Dictionaries of choices are described here, by their keys.
"""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

from sklearn.base import BaseEstimator

import kexpfam

__all__ = ["MODULES", "write_pages"]

MODULES = {
    "kexpfam": "Estimators, and what their arguments can be",
    "kexpfam.plotting": "Pictures",
    "kexpfam.report": "A report as one page",
    "kexpfam.comparison": "Two tables side by side",
    "kexpfam.metrics": "How good a fit and its draws are",
    "kexpfam.goodness_of_fit": "Tests of fit",
    "kexpfam.sampling": "Markov chains",
    "kexpfam.bridges": "Use with other libraries",
    "kexpfam.datasets": "Densities and tables",
    "kexpfam.bounds": "The paper's error bounds",
    "kexpfam.base": "Base densities",
    "kexpfam.noise": "Noise distributions",
    "kexpfam.features": "Bases and kernels",
    "kexpfam.tuning": "Tuning",
    "kexpfam.normalizer": "Normalizing constants",
    "kexpfam.exceptions": "Errors and warnings",
}

_GROUPS = {
    "estimator": "Estimators",
    "function": "Functions",
    "class": "Classes",
    "exception": "Errors and warnings",
}


def write_pages(folder: Path) -> list[Path]:
    """Write a page for every module, and an index of them; returns the modules' pages."""
    (folder / "generated").mkdir(parents=True, exist_ok=True)
    pages, stubs = [], set()
    for name in MODULES:
        text, members = _page(importlib.import_module(name))
        pages.append(folder / f"{name}.md")
        _write(pages[-1], text)
        stubs |= {f"{name}.{member}.rst" for member in members}
    for stub in (folder / "generated").iterdir():
        if stub.name not in stubs:  # of an earlier build
            stub.unlink()
    rows = [f"* - {{doc}}`{name} <{name}>`\n  - {about}" for name, about in MODULES.items()]
    names = "\n".join(MODULES)
    _write(
        folder / "index.md",
        "# Reference\n\nEvery public name, with its docstring. What most people need is in "
        "{doc}`kexpfam <kexpfam>`; the modules below it are for those who bring parts of their "
        "own.\n\n"
        ":::{list-table}\n" + "\n".join(rows) + "\n:::\n\n"
        f":::{{toctree}}\n:hidden:\n\n{names}\n:::\n",
    )
    return pages


def _page(module: ModuleType) -> tuple[str, list[str]]:
    """The module's docstring, then what it offers by kind; and what has a page of its own."""
    name = module.__name__
    parts = [
        f"# {name}",
        f":::{{py:module}} {name}\n:::",
        inspect.getdoc(module) or "",
    ]
    kinds: dict[str, list[str]] = {kind: [] for kind in (*_GROUPS, "data")}
    elsewhere = []
    for member in sorted(set(module.__all__) - {"__version__"}, key=str.lower):
        if module is not kexpfam and member in kexpfam.__all__:
            elsewhere.append(f"{{py:obj}}`~kexpfam.{member}`")
        else:
            kinds[_kind(getattr(module, member))].append(member)
    for kind, heading in _GROUPS.items():
        if kinds[kind]:
            listed = "\n".join(f"   {member}" for member in kinds[kind])
            parts.append(
                f"## {heading}\n\n```{{eval-rst}}\n.. currentmodule:: {name}\n\n"
                f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{listed}\n```"
            )
    if elsewhere:
        parts.append(f"Also here, and described with the package itself: {', '.join(elsewhere)}.")
    if kinds["data"]:
        parts.append("## Choices by name")
        parts += [_data(name, member, getattr(module, member)) for member in kinds["data"]]
    return "\n\n".join(parts) + "\n", [name for kind in _GROUPS for name in kinds[kind]]


def _kind(value: Any) -> str:
    if inspect.isclass(value):
        kinds = {Exception: "exception", BaseEstimator: "estimator"}
        return next((kind for base, kind in kinds.items() if issubclass(value, base)), "class")
    return "function" if callable(value) else "data"


def _data(module: str, name: str, value: Any) -> str:
    """A constant: the keys of a dictionary, or the value itself."""
    if isinstance(value, dict):
        text = "Keys: " + ", ".join(f"`{key!r}`" for key in value) + "."
    else:
        text = f"`{value!r}`"
    return f":::{{py:data}} {module}.{name}\n\n{text}\n:::"


def _write(path: Path, text: str) -> None:
    """Write only what changed, so that Sphinx does not read it again."""
    if not path.exists() or path.read_text("utf-8") != text:
        path.write_text(text, "utf-8")
