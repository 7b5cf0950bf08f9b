"""``{pytorch-names}``: which of PyTorch's public names triten has, namespace by namespace, and why others are missing.

`missing_names.py` compares when the page is built. ``{pytorch-names} counts`` is the table of counts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docutils import nodes
from missing_names import NAMES, REASONS, by_reason, place_of, pytorch_names, reasons, split
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class PytorchNames(SphinxDirective):
    """A table of counts, or a section for each namespace with the names that there are and those that are missing."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(NAMES))
        self.env.note_dependency(str(REASONS))
        compared = {namespace: split(namespace, names) for namespace, names in pytorch_names().items()}
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
        explained = list(by_reason(namespace, missing, reasons()))
        if not have and len(explained) == 1:
            said = f"None of its {len(missing)} names: {explained[0][0].text}."
            return [title, nodes.paragraph("", said)]
        rows: list[tuple[str, list[str], bool]] = [(f"have: {len(have)}", have, True)] if have else []
        rows += [(f"missing: {len(names)} ({reason.text})", names, False) for reason, names in explained]
        return [title, name_table(namespace, rows)]


def counts(compared: dict[str, tuple[list[str], list[str]]]) -> nodes.table:
    """Return a table with a row for each namespace."""
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
            place = place_of(namespace, name) if link else None
            text = nodes.literal("", name if place is None else place.rpartition(".")[2])
            if place is not None:
                text["described"] = place  # which `code_links` makes a link to
            paragraph += [text, nodes.Text(" ")]
        body.append([label, paragraph])
    return table(None, body, widths=(25, 75))


def table(
    heads: Sequence[str] | None, rows: Sequence[Sequence[Any]], widths: Sequence[int] = ()
) -> nodes.table:
    """Return a table of text or nodes."""
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
