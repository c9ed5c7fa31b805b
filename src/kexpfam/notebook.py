"""Small tables for notebooks, of text that is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["html_table"]


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table with a caption above it.

    Examples
    --------
    >>> html_table("a < b", ["name"], [["x"]]).partition("<tbody>")[2]
    '<tr><td>x</td></tr></tbody></table>'
    """

    def line(tag: str, cells: Sequence[Any]) -> str:
        inside = "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells)
        return f"<tr>{inside}</tr>"

    body = "".join(line("td", row) for row in rows)
    return (
        f"<p>{html.escape(caption)}</p><table><thead>{line('th', heads)}</thead>"
        f"<tbody>{body}</tbody></table>"
    )
