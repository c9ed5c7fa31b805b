"""Formulas as MathML, which browsers draw by themselves, with no script and no network."""

from __future__ import annotations

import re
from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

__all__ = ["setup"]

# Browsers put no space beside a function's name where TeX does: log p, ∇ log p, but log(p).
_APPLIED = re.compile(r"<mo>&ApplyFunction;</mo>(?!\s*<mo [^>]*>\()")
_NAMED = re.compile(r"(</mi>|</msub>|</msup>)(\s*)(<mi>(?:cos|log|sin)</mi>)")
# Nor do they know which bar opens and which closes.
_DELIMITER = re.compile(r"<mo([^>]*)>([|⟨⟩])</mo>")
_SPACE = '<mspace width="0.17em"></mspace>'

_logger = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(translator: Any, node: nodes.math) -> None:
    translator.body.append(_converted(node, as_block=False))
    raise nodes.SkipNode


def _block(translator: Any, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_converted(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _converted(node: nodes.Element, *, as_block: bool) -> str:
    """A formula that cannot be converted is a warning, and so ends a strict build."""
    try:
        text = tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        _logger.warning("formula %r: %s", node.astext(), error, location=node)
        return f"<code>{escape(node.astext())}</code>"
    text = _NAMED.sub(rf"\1{_SPACE}\3", _APPLIED.sub(_SPACE, text))
    return _DELIMITER.sub(r'<mo\1 lspace="0" rspace="0">\2</mo>', text)
