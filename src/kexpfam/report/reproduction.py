"""How to reproduce a report: code, a command, settings and versions."""

from __future__ import annotations

import platform
import shlex
from importlib.metadata import version

import kexpfam
from kexpfam.estimators import KernelChain, KernelDiffusion, KernelExponentialFamily
from kexpfam.report.evidence import Evidence
from kexpfam.report.markup import Html, element, joined, table
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
    snippet, again, command = _snippet(evidence), evidence.origin.command, _fit_command(evidence)
    settings = {name: repr(value) for name, value in model.get_params(deep=False).items()}
    versions = {"kexpfam": kexpfam.__version__, "Python": platform.python_version()}
    versions |= {name: version(name) for name in _PACKAGES}
    body = joined(
        [
            *_shown("The command that makes this page", again),
            *_shown("In Python", snippet),
            *_shown("A model of all rows, on the command line", command),
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
    data = {
        "snippet": snippet,
        "again": again,
        "command": command,
        "settings": settings,
        "versions": versions,
    }
    return Section("reproduction", "How to reproduce this report", body, data)


def _shown(heading: str, code: str | None) -> list[Html]:
    if code is None:
        return []
    return [element("h3", heading), element("pre", element("code", code), tabindex="0")]


def _snippet(evidence: Evidence) -> str:
    model = evidence.model
    # scikit-learn's repr shows what differs from the defaults, and cuts long ones by default.
    made = model.__repr__(N_CHAR_MAX=10**6)
    used = {type(value).__name__ for value in model.get_params().values()} | {type(model).__name__}
    ours = ", ".join(sorted(name for name in used if hasattr(kexpfam, name)))
    lines = [f"from kexpfam import {ours}", "from kexpfam.report import write_report", ""]
    files = list(evidence.origin.files)
    if len(evidence.rows):
        # Options of a command may have changed what is read.
        known = bool(files) and evidence.origin.command is None
        named = repr(files[0] if len(files) == 1 else files) if known else None
        lines.append(f"rows = {named}" if named else "# rows: the table this page is about")
    if evidence.fitted_here:
        lines.append(f"model = {made}")
    else:
        lines.append("# training: the rows the model was fitted to")
        lines.append(f"model = {made}.fit(training)")
    given = "data=rows, " if len(evidence.rows) else ""
    lines.append(f'write_report("report.html", {given}model=model, random_state={evidence.seed})')
    return "\n".join(lines)


def _fit_command(evidence: Evidence) -> str | None:
    """With default settings."""
    model = evidence.model
    kind = _COMMANDS.get(type(model))
    if kind is None:
        return None
    own = model.random_state
    chosen = own if isinstance(own, int) else evidence.seed
    files = shlex.join(evidence.origin.files) or "DATA"
    return f"kexpfam fit {files} -o model.kexpfam --estimator {kind} --seed {chosen}"
