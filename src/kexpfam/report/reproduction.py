"""How to reproduce a report: code, a command, settings and versions."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Any

import kexpfam
from kexpfam.estimators import KernelChain, KernelDiffusion, KernelExponentialFamily
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import element, joined, table
from kexpfam.report.section import Section

__all__ = ["reproduction_section"]

_PACKAGES = ("numpy", "scipy", "scikit-learn", "jax")
_COMMANDS = {
    KernelChain: "chain",
    KernelDiffusion: "diffusion",
    KernelExponentialFamily: "family",
}


def reproduction_section(evidence: Evidence) -> Section:
    """A snippet that makes this page again, a command that fits such a model, and versions."""
    model = evidence.model
    snippet, command = _snippet(evidence), _command(model, evidence.seed)
    settings = {name: repr(value) for name, value in model.get_params(deep=False).items()}
    versions = {"kexpfam": kexpfam.__version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in _PACKAGES}
    body = joined(
        [
            element("h3", "In Python"),
            element("pre", element("code", snippet), tabindex="0"),
            element("h3", "On the command line") if command else None,
            element("pre", element("code", command), tabindex="0") if command else None,
            element(
                "p",
                "The command fits to all rows of the file, with default settings.",
                class_="note",
            )
            if command
            else None,
            table(
                f"Settings of {type(model).__name__}",
                ["Setting", "Value"],
                [[name, value] for name, value in settings.items()],
                numeric=False,
            ),
            table(
                "Versions",
                ["Package", "Version"],
                [[name, one] for name, one in versions.items()],
                numeric=False,
            ),
        ]
    )
    data = {"snippet": snippet, "command": command, "settings": settings, "versions": versions}
    return Section("reproduction", "How to reproduce this report", body, data)


def _snippet(evidence: Evidence) -> str:
    model = evidence.model
    # scikit-learn's repr shows what differs from the defaults, and cuts long ones by default.
    made = model.__repr__(N_CHAR_MAX=10**6)
    used = {type(value).__name__ for value in model.get_params().values()} | {type(model).__name__}
    ours = ", ".join(sorted(name for name in used if hasattr(kexpfam, name)))
    lines = [f"from kexpfam import {ours}", "from kexpfam.report import write_report", ""]
    if evidence.fitted_here:
        lines.append("# rows: the table this page is about")
        lines.append(f"model = {made}")
    else:
        lines.append("# training: the rows the model was fitted to")
        lines.append(f"model = {made}.fit(training)")
    given = "data=rows, " if len(evidence.rows) else ""
    lines.append(f'write_report("report.html", {given}model=model, random_state={evidence.seed})')
    return "\n".join(lines)


def _command(model: Any, seed: int) -> str | None:
    kind = _COMMANDS.get(type(model))
    if kind is None:
        return None
    own = model.random_state
    chosen = own if isinstance(own, int) else seed
    return f"kexpfam fit DATA -o model.kexpfam --estimator {kind} --seed {chosen}"
