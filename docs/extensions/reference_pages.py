"""Overviews of the reference: tables of public names, each with its first sentence and a link to its page.

- ``.. operators:: triten`` with ``:families: pointwise activation`` lists the generated functions of these families.
- ``.. names:: triten.optim`` lists every public name of a namespace, or the names given as content.
- ``.. methods::`` lists the attributes and methods of tensors.

With ``:rest:``, each of the three takes everything that no other page lists. A new family or name is therefore
listed before an author assigns it to a page. A public name on no page is a warning. `symbol_pages` writes the
pages that the tables lead to; constants have none, and stand with their values below the table.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from overviews import families_of_pages, names_of_pages
from public_names import NAMESPACES, described_names, family_of, namespace_of, public_names
from pytorch_comparison import table
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective
from symbol_pages import (
    DESCRIBED_BY_HAND,
    FOLDER,
    has_page,
    is_in_place_form,
    is_method,
    object_named,
    summary_of,
    tensor_members,
)

logger = logging.getLogger(__name__)


class ReferenceDirective(SphinxDirective):
    """A directive that lists names."""

    def listed(self, namespace: str, names: Sequence[str]) -> list[nodes.Node]:
        """Return the table of names, and the constants among them."""
        rows: list[list[Any]] = []
        constants: list[str] = []
        for name in names:
            full = f"{namespace}.{name}"
            value = object_named(full)
            first = described_names().get(id(value), full)
            if first != full or has_page(namespace, name):
                rows.append([self.link(full, name), self.summary(value)])
            elif not is_in_place_form(namespace, name):
                constants += [f".. py:data:: {name}", f"   :value: {value!r}", ""]
        found: list[nodes.Node] = [table(None, rows, widths=(30, 70))] if rows else []
        if constants:
            text = "\n".join([f".. py:currentmodule:: {namespace}", "", *constants])
            found += self.parse_text_to_nodes(text, offset=self.content_offset)
        return found

    def link(self, full: str, text: str) -> nodes.Node:
        """Return a link to the description of a public name."""
        attributes = {
            "reftype": "obj",
            "refdomain": "py",
            "reftarget": full,
            "refwarn": True,
            "refexplicit": True,
        }
        return pending_xref("", nodes.literal("", text), refdoc=self.env.docname, **attributes)

    def summary(self, value: Any) -> nodes.paragraph:
        """Return the first sentence of an object's docstring."""
        parsed, messages = self.parse_inline(summary_of(value), lineno=self.lineno)
        return nodes.paragraph("", "", *parsed, *messages)


class Operators(ReferenceDirective):
    """``.. operators:: NAMESPACE``: the generated functions of some families, or with ``:rest:`` of no page."""

    required_arguments = 1
    option_spec: ClassVar[Any] = {"families": directives.unchanged, "rest": directives.flag}

    def run(self) -> list[nodes.Node]:
        namespace = self.arguments[0]
        module = namespace_of(namespace)
        wanted = set(self.options.get("families", "").split())
        if "rest" in self.options:
            every = {family_of(getattr(module, name)) for name in public_names(namespace)} - {None}
            wanted = every - families_of_pages("operators")
        names = [name for name in public_names(namespace) if family_of(getattr(module, name)) in wanted]
        return self.listed(namespace, names)


class Names(ReferenceDirective):
    """``.. names:: NAMESPACE``: its public names, those in the content, or with ``:home:`` those of some modules."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[Any] = {"home": directives.unchanged, "rest": directives.flag}

    def run(self) -> list[nodes.Node]:
        namespace = self.arguments[0]
        module = namespace_of(namespace)
        names = " ".join(self.content).split() or list(public_names(namespace))
        for name in names:
            if not hasattr(module, name):
                logger.warning("%s has no %s", namespace, name, location=self.get_location())
        names = [name for name in names if hasattr(module, name)]
        if "home" in self.options:
            homes = self.options["home"].split()
            names = [name for name in names if home_of(getattr(module, name)) in homes]
        if "rest" in self.options:
            placed, homes = names_of_pages(namespace)
            names = [
                name
                for name in names
                if name not in placed
                and home_of(getattr(module, name)) not in homes
                and family_of(getattr(module, name)) is None
                and f"{namespace}.{name}" not in DESCRIBED_BY_HAND
            ]
        return self.listed(namespace, names)


def home_of(value: Any) -> str:
    """Return the last part of the name of the module that defines a function or class."""
    return str(getattr(value, "__module__", "")).rpartition(".")[2]


class Methods(ReferenceDirective):
    """``.. methods::`` with ``:families:``: methods of tensors; with ``:rest:`` those that are not generated."""

    option_spec: ClassVar[Any] = {
        "families": directives.unchanged,
        "rest": directives.flag,
        "properties": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        families = self.options.get("families", "").split()
        placed = families_of_pages("methods")
        rows: list[list[Any]] = []
        for name, value in tensor_members().items():
            function = getattr(value, "__func__", value)
            family = family_of(function) if is_method(value) else None
            if "properties" in self.options:
                fits = not is_method(value)
            elif "rest" in self.options:
                fits = is_method(value) and family not in placed
            else:
                fits = is_method(value) and family in families
            if fits and not (name.endswith("_") and name.removesuffix("_") in tensor_members()):
                rows.append([self.link(f"triten.Tensor.{name}", name), self.summary(function)])
        return [table(None, rows, widths=(30, 70))]


def public_reference(
    app: Sphinx, env: BuildEnvironment, node: Any, contnode: nodes.Node
) -> nodes.Node | None:
    """Types in signatures carry the module that defines them; the site describes them by their public names."""
    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not target.startswith("triten."):
        return None
    try:
        value = namespace_of(target)
    except AttributeError:
        return None
    public = described_names().get(id(value))
    if public is not None and public != target:
        domain = env.domains.python_domain
        found = domain.objects.get(public)
        if found is not None:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, contnode)
    # A type inside the package, or one that `check_that_all_is_described` names: text.
    return contnode


def leave_python_types(app: Sphinx, doctree: nodes.document) -> None:
    """`float` in a signature is Python's, not the dtype `tt.float`."""
    for node in list(doctree.findall(pending_xref)):
        if node["reftype"] in ("class", "obj") and hasattr(builtins, node["reftarget"]):
            node.replace_self(nodes.inline("", node["reftarget"]))


def overviews_of_changed_pages(
    app: Sphinx, env: BuildEnvironment, added: set[str], changed: set[str], removed: set[str]
) -> list[str]:
    """Return the overviews if a page changed whose first sentence they may show."""
    if any(name.startswith(f"{FOLDER}/") for name in added | changed | removed):
        return [name for name in env.found_docs if re.fullmatch(r"reference/\w+", name)]
    return []


def check_that_all_is_described(app: Sphinx, env: BuildEnvironment) -> None:
    objects = env.domains.python_domain.objects
    for namespace in NAMESPACES:
        for name in public_names(namespace):
            full = f"{namespace}.{name}"
            if full not in objects and full != "triten.newaxis":
                logger.warning("%s is public and stands on no page of the reference", full)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("operators", Operators)
    app.add_directive("names", Names)
    app.add_directive("methods", Methods)
    app.connect("env-get-outdated", overviews_of_changed_pages)
    app.connect("doctree-read", leave_python_types)
    app.connect("missing-reference", public_reference)
    app.connect("env-check-consistency", check_that_all_is_described)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
