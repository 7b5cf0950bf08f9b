"""Links from triten's names in running text to the reference, with warnings for names that do not exist.

In ``` `tt.nn.Linear` ``` or ``` `tt.add(a, b)` ``` the name before the bracket is looked up. Only the pages'
own text is checked; docstrings have their own tests. A literal created by another extension may name its
object in the attribute ``described``.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from public_names import described_names, namespace_of
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

logger = logging.getLogger(__name__)
_NAME = re.compile(r"(?:tt|triten)((?:\.\w+)+)(?=$|[^\w.])")
# Names of Python modules and of what is made at run time.
_NOT_ATTRIBUTES = ("triten.ops.",)


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    objects = app.env.domains.python_domain.objects
    for node in list(doctree.findall(nodes.literal)):
        match = _NAME.match(node.get("described", node.astext()))
        if match is None or _is_linked(node):
            continue
        name = "triten" + match[1]
        value = _value(name)
        if value is None:
            if str(node.source or doctree.get("source", "")).endswith(".md"):
                logger.warning("triten has no %s", name, location=node)
            continue
        target = name if name in objects else described_names().get(id(value[0]), "")
        if target in objects:
            found = objects[target]
            reference = make_refnode(
                app.builder, docname, found.docname, found.node_id, node.deepcopy(), target
            )
            node.replace_self(reference)


def _is_linked(node: nodes.Node) -> bool:
    while node is not None:
        if isinstance(node, (nodes.reference, nodes.title, pending_xref)):
            return True
        node = node.parent
    return False


def _value(name: str) -> tuple[Any] | None:
    if name.startswith(_NOT_ATTRIBUTES):
        return (None,)
    try:
        return (namespace_of(name),)
    except (AttributeError, ModuleNotFoundError):
        return None


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
