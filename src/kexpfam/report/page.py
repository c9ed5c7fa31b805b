"""One HTML page that holds everything it needs.

Style and script stand in the page, and its content security policy allows these two, by their
hashes, and nothing else: no request leaves the page, and no text in it can become a script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from kexpfam.report.markup import Html, element, embedded_json, joined
from kexpfam.report.section import Finding, Section

__all__ = ["page"]


def page(
    title: str, lead: str, notes: Sequence[str], sections: Sequence[Section], picture: Any
) -> str:
    """The whole page; `notes` stand under the lead, `picture` is what the script draws from."""
    style, script = _part("page.css"), _part("page.js")
    findings = [finding for section in sections for finding in section.findings]
    links = [
        element("li", element("a", section.title, href=f"#{section.anchor}"))
        for section in sections
    ]
    return Template(_part("page.html")).substitute(
        policy=(
            f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; "
            f"script-src '{_digest(script)}'"
        ),
        title=joined([title]),
        lead=joined([lead]),
        notes=joined(element("p", note, class_="note") for note in notes),
        style=style,
        script=script,
        findings=element("dl", *map(_card, findings), class_="findings") if findings else "",
        links=joined(links),
        sections=joined(section.html() for section in sections),
        picture=embedded_json(picture),
    )


def _part(name: str) -> Html:
    return Html((files(__package__) / name).read_text(encoding="utf-8"))


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _card(finding: Finding) -> Html:
    mood = {True: "good", False: "poor", None: None}[finding.good]
    sign = {True: "✓ ", False: "! ", None: ""}[finding.good]
    return element(
        "div",
        element("dt", finding.name),
        element("dd", sign, finding.value, class_="value"),
        element("dd", finding.words, class_="words"),
        class_=" ".join(["card", *([mood] if mood else [])]),
    )
