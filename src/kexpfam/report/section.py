"""One part of a report: a heading, what stands under it, and the same as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kexpfam.report.markup import Html, element

__all__ = ["Finding", "Section"]


class Finding(NamedTuple):
    """A figure for the head of the page: what it is, its value, and a few words on it."""

    name: str
    value: str
    words: str
    good: bool | None = None


class Section(NamedTuple):
    """A part of the page.

    Attributes
    ----------
    anchor : str
        Its name, in `Report.sections` and in links.
    title : str
    body : Html
    data : mapping
        The same as plain data: text, numbers, arrays, and lists and mappings of them.
    findings : tuple of Finding
        What the head of the page says of it.
    """

    anchor: str
    title: str
    body: Html
    data: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()

    def html(self) -> Html:
        """The section with its heading."""
        heading = f"{self.anchor}-heading"
        return element(
            "section",
            element("h2", self.title, id=heading),
            self.body,
            id=self.anchor,
            aria_labeledby=heading,
        )
