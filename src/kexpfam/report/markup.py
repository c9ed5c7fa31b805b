"""HTML that is escaped unless it was made here.

Names of columns, titles and messages are whatever users have in their files. `element` escapes
every child that is not itself an `Html`, and `embedded_json` writes JSON that cannot end the
script element it stands in; no other module puts angle brackets together.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

__all__ = [
    "Html",
    "count",
    "element",
    "embedded_json",
    "joined",
    "number",
    "plain_number",
    "table",
    "with_error",
]


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def _escaped(text: Any) -> str:
    if isinstance(text, Html):
        return text
    # A lone surrogate, which UTF-8 cannot hold, becomes a question mark.
    return html.escape(str(text).encode("utf-8", "replace").decode("utf-8"))


def joined(parts: Iterable[Any]) -> Html:
    """Parts one after the other, escaped where they are not markup; None is left out."""
    return Html("".join(_escaped(part) for part in parts if part is not None))


def element(tag: str, *children: Any, **attributes: Any) -> Html:
    """An element: `class_` stands for class, `aria_label` for aria-label.

    Examples
    --------
    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_escaped(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Html(f"<{tag}{written}>{joined(children)}</{tag}>")


def table(
    caption: Any,
    heads: Sequence[Any],
    rows: Iterable[Sequence[Any]],
    *,
    class_: str | None = None,
    numeric: bool = True,
) -> Html:
    """A table whose rows begin with their name; wide ones scroll inside a focusable region."""
    head = element("tr", *(element("th", text, scope="col") for text in heads))
    body = [
        element("tr", element("th", row[0], scope="row"), *(element("td", one) for one in row[1:]))
        for row in rows
    ]
    kinds = " ".join(kind for kind in (class_, "numbers" if numeric else None) if kind)
    whole = element(
        "table",
        element("caption", caption),
        element("thead", head),
        element("tbody", *body),
        class_=kinds or None,
    )
    return element("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)


def number(value: Any, digits: int = 4) -> str:
    """A number in few digits, with a proper minus and words for what is none.

    Examples
    --------
    >>> number(-1234.5678), number(1e-7), number(float("-inf")), number(123456)
    ('−1235', '1e−7', '−∞', '123456')
    """
    value = float(value)
    if math.isnan(value):
        return "not a number"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e9:
        return str(int(value)).replace("-", "−")
    if 10**digits <= abs(value) < 1e9:
        return f"{value:.0f}".replace("-", "−")
    mantissa, _, exponent = f"{value:.{digits}g}".partition("e")
    return (f"{mantissa}e{int(exponent)}" if exponent else mantissa).replace("-", "−")


def with_error(value: float, error: float) -> str:
    """A number to the second digit of its standard error.

    Examples
    --------
    >>> with_error(-2.51234, 0.0432)
    '−2.512\xa0±\xa00.043'
    """
    if not (math.isfinite(value) and math.isfinite(error) and error > 0):
        return number(value)
    decimals = min(max(1 - math.floor(math.log10(error)), 0), 12)
    # Rounded first, and without a minus before zero.
    rounded = round(value, decimals) + 0.0
    return f"{rounded:.{decimals}f}\u00a0±\u00a0{error:.{decimals}f}".replace("-", "−")


def count(amount: int, noun: str) -> str:
    """An amount and its noun.

    Examples
    --------
    >>> count(1, "row"), count(12000, "row")
    ('1 row', '12\\u202f000 rows')
    """
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}".replace(",", "\u202f")


def plain_number(value: Any, digits: int = 6) -> Any:
    """A number that JSON can hold: rounded, or in words where it is not finite."""
    value = float(value)
    return float(f"{value:.{digits}g}") if math.isfinite(value) else number(value)


def embedded_json(content: Any) -> Html:
    """JSON to stand inside a script element."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), default=_plain)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def _plain(value: Any) -> Any:
    """Arrays as nested lists of numbers that JSON can hold."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "iub":
            return value.tolist()
        return [_plain(row) if row.ndim else plain_number(row) for row in value]
    if isinstance(value, np.generic):
        return plain_number(value)
    raise TypeError(f"Expected numbers, text, lists and arrays; got {type(value).__name__}.")
