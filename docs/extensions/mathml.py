"""Formulas as MathML, which browsers show without a script, a font or a network.

docutils converts LaTeX. The LaTeX source is the title of a formula, so that it can be read and copied.
"""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

logger = logging.getLogger(__name__)


def as_mathml(latex: str, is_block: bool) -> str:
    r"""Return MathML for LaTeX.

    Example:
        >>> as_mathml(r"\text{kernel\_size}", is_block=False)
        '<math xmlns="http://www.w3.org/1998/Math/MathML">\n  <mtext>kernel_size</mtext>\n</math>'
    """
    # docutils leaves the escapes of text as they are.
    return re.sub(r"\\([_%#&$])", r"\1", tex2mathml(latex, as_block=is_block))


def _write(writer: Any, node: Any, is_block: bool) -> None:
    latex = node.astext()
    try:
        mathml = as_mathml(latex, is_block)
    except MathError as error:
        logger.warning("LaTeX that docutils cannot convert: %s: %s", error, latex, location=node)
        raise nodes.SkipNode from error
    title = html.escape(latex, quote=True)
    tag = "div" if is_block else "span"
    writer.body.append(f'<{tag} class="math" title="{title}">{mathml}</{tag}>')
    raise nodes.SkipNode


def visit_math(writer: Any, node: nodes.math) -> None:
    """Write a formula in running text."""
    _write(writer, node, is_block=False)


def visit_math_block(writer: Any, node: nodes.math_block) -> None:
    """Write a formula on lines of its own."""
    _write(writer, node, is_block=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
