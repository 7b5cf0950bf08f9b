"""``{pytorch-names}``: which of PyTorch's public names triten has, namespace by namespace.

PyTorch's names stand in `pytorch/public_names.json`, which `pytorch/collect_names.py` writes; triten is asked when the
page is built. ``{pytorch-names} counts`` is the table of counts alone.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docutils import nodes
from public_names import namespace_of
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

NAMES = Path(__file__).parents[1] / "pytorch" / "public_names.json"
NOTHING = object()


class PytorchNames(SphinxDirective):
    """A table of counts, or a section for each namespace with the names that there are and those that are missing."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(NAMES))
        table = json.loads(NAMES.read_text())["namespaces"]
        compared = {namespace: split(namespace, names) for namespace, names in table.items()}
        if self.arguments:
            return [counts(compared)]
        return [
            section
            for namespace, (have, missing) in compared.items()
            for section in self.section(namespace, have, missing)
        ]

    def section(self, namespace: str, have: list[str], missing: list[str]) -> list[nodes.Node]:
        title = nodes.rubric(
            "", "", nodes.literal("", namespace), ids=[nodes.make_id(f"names-of-{namespace}")]
        )
        if not have:
            said = f"None of its {len(missing)} names."
            return [title, nodes.paragraph("", said)]
        rows: list[tuple[str, list[str], bool]] = [("have", have, True), ("missing", missing, False)]
        return [title, name_table(namespace, [row for row in rows if row[1]])]


def split(namespace: str, names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names that triten has, and those that it lacks."""
    try:
        module = namespace_of(ours(namespace))
    except AttributeError:
        return [], list(names)
    have = [name for name in names if getattr_or_nothing(module, ours(name)) is not NOTHING]
    return have, [name for name in names if name not in set(have)]


def ours(name: str) -> str:
    """How triten spells a name of PyTorch's: where it holds "torch", ours says "tensor"."""
    if name == "torch" or name.startswith("torch."):
        return f"triten{name[5:]}"
    return name.replace("Torch", "Tensor").replace("torch", "tensor")


def getattr_or_nothing(module: Any, name: str) -> Any:
    try:
        return getattr(module, name)
    except (AttributeError, ImportError):
        return NOTHING


def counts(compared: dict[str, tuple[list[str], list[str]]]) -> nodes.table:
    """A row for each namespace."""
    rows = [
        (namespace, len(have), len(missing), len(have) / (len(have) + len(missing)))
        for namespace, (have, missing) in compared.items()
        if have or missing
    ]
    totals = [sum(row[index] for row in rows) for index in (1, 2)]
    body = [
        [link_to(namespace), str(have), str(missing), f"{share:.0%}"]
        for namespace, have, missing, share in rows
    ]
    body.append(["all", str(totals[0]), str(totals[1]), f"{totals[0] / sum(totals):.0%}"])
    return table(["namespace", "have", "missing", "share"], body)


def link_to(namespace: str) -> nodes.Node:
    return nodes.reference(
        "", "", nodes.literal("", namespace), refid=nodes.make_id(f"names-of-{namespace}"), internal=True
    )


def name_table(namespace: str, rows: list[tuple[str, list[str], bool]]) -> nodes.table:
    body: list[list[Any]] = []
    for label, names, link in rows:
        paragraph = nodes.paragraph()
        for name in names:
            text = nodes.literal("", ours(name) if link else name)
            if link:
                text["described"] = f"{ours(namespace)}.{ours(name)}"  # which `code_links` makes a link to
            paragraph += [text, nodes.Text(" ")]
        body.append([f"{label}: {len(names)}", paragraph])
    return table(None, body, widths=(15, 85))


def table(
    heads: Sequence[str] | None, rows: Sequence[Sequence[Any]], widths: Sequence[int] = ()
) -> nodes.table:
    """A table of text or nodes."""
    count = len(rows[0])
    group = nodes.tgroup(cols=count)
    group += [nodes.colspec(colwidth=width) for width in (widths or [1] * count)]
    if heads is not None:
        group += nodes.thead("", row(heads))
    group += nodes.tbody("", *(row(cells) for cells in rows))
    return nodes.table("", group)


def row(cells: Sequence[Any]) -> nodes.row:
    entries = []
    for cell in cells:
        node = nodes.Text(cell) if isinstance(cell, str) else cell
        paragraph = node if isinstance(node, nodes.paragraph) else nodes.paragraph("", "", node)
        entries.append(nodes.entry("", paragraph))
    return nodes.row("", *entries)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("pytorch-names", PytorchNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
