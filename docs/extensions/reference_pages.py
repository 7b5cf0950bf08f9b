"""Reference pages generated from triten's declarations.

- ``.. operators:: triten`` with ``:families: pointwise activation`` documents the generated functions of
  these families, each with its in-place form.
- ``.. names:: triten.optim`` documents every public name of a namespace, or the names given as content.
- ``.. methods::`` documents the methods of tensors.

With ``:rest:``, each of the three takes everything that no other page documents. A new family or name is
therefore documented before an author assigns it to a page. A public name on no page is a warning.
"""

from __future__ import annotations

import builtins
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, ClassVar

from docstrings import as_rst
from docutils import nodes
from docutils.parsers.rst import directives
from public_names import (
    NAMESPACES,
    described_names,
    family_of,
    namespace_of,
    public_names,
    signatures,
    with_defaults,
)
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

logger = logging.getLogger(__name__)

# `Tensor` has a page of its own, and `newaxis` is None.
DESCRIBED_BY_HAND = {"triten.Tensor", "triten.newaxis"}


class ReferenceDirective(SphinxDirective):
    """A directive whose content is text in reStructuredText that it writes itself."""

    def parsed(self, lines: Iterable[str]) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n".join(lines), offset=self.content_offset)


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
            wanted = every - families_of_pages(self.env, "operators")
        names = [name for name in public_names(namespace) if family_of(getattr(module, name)) in wanted]
        return self.parsed(described(namespace, names))


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
            placed, homes = names_of_pages(self.env, namespace)
            names = [
                name
                for name in names
                if name not in placed
                and home_of(getattr(module, name)) not in homes
                and family_of(getattr(module, name)) is None
                and f"{namespace}.{name}" not in DESCRIBED_BY_HAND
            ]
        return self.parsed(described(namespace, names))


def home_of(value: Any) -> str:
    """Return the last part of the name of the module that defines a function or class."""
    return str(getattr(value, "__module__", "")).rpartition(".")[2]


def pages(env: BuildEnvironment) -> str:
    """Return the text of all pages of the reference."""
    return "\n".join(path.read_text() for path in sorted((Path(env.srcdir) / "reference").glob("*.rst")))


def families_of_pages(env: BuildEnvironment, directive: str) -> set[str]:
    """Return the families that some page documents by a directive."""
    found = re.findall(rf"^\.\. {directive}::.*\n   :families: (.*)", pages(env), re.MULTILINE)
    return {family for line in found for family in line.split()}


def names_of_pages(env: BuildEnvironment, namespace: str) -> tuple[set[str], set[str]]:
    """Return the names of a namespace that some page lists, and the modules whose names it lists."""
    block = re.compile(rf"^\.\. names:: {re.escape(namespace)}\n((?:   .*\n|\n)*)", re.MULTILINE)
    lines = [line.strip() for text in block.findall(pages(env)) for line in text.splitlines()]
    names = {name for line in lines if not line.startswith(":") for name in line.split()}
    homes = {home for line in lines if line.startswith(":home:") for home in line.split()[1:]}
    return names, homes


class Methods(ReferenceDirective):
    """``.. methods::`` with ``:families:``: methods of tensors; with ``:rest:`` those that are not generated."""

    option_spec: ClassVar[Any] = {
        "families": directives.unchanged,
        "rest": directives.flag,
        "properties": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        tensor = namespace_of("triten.Tensor")
        wanted = self.options.get("families", "").split()
        placed = families_of_pages(self.env, "methods")
        lines = [".. py:currentmodule:: triten", ""]
        names = []
        for name in dir(tensor):
            if name.startswith("_"):
                continue
            value = inspect.getattr_static(tensor, name)
            function = getattr(value, "__func__", value)
            is_method = isinstance(function, FunctionType)
            family = family_of(function) if is_method else None
            if "properties" in self.options:
                fits = not is_method
            elif "rest" in self.options:
                fits = is_method and family not in placed
            else:
                fits = is_method and family in wanted
            if fits:
                names.append(name)
        return self.parsed([*lines, *methods(tensor, names)])


def described(namespace: str, names: Iterable[str]) -> Iterator[str]:
    """Yield the description of each name, in reStructuredText."""
    module = namespace_of(namespace)
    names = list(names)
    generated = {name for name in names if family_of(getattr(module, name))}
    yield f".. py:currentmodule:: {namespace}"
    yield ""
    for name in names:
        value = getattr(module, name)
        first = described_names().get(id(value))
        functional = name.removesuffix("_")
        if name.endswith("_") and functional in generated and name in generated:
            continue
        if first is not None and first != f"{namespace}.{name}":
            yield from alias(name, value, first)
        elif name in generated:
            yield from generated_function(namespace, name, f"{name}_" if f"{name}_" in generated else None)
        elif isinstance(value, type):
            yield from lines_of(f".. autoclass:: {namespace}.{name}", "   :members:")
        elif isinstance(value, FunctionType):
            yield from lines_of(f".. autofunction:: {namespace}.{name}")
        elif type(value).__name__.startswith("_"):
            yield from settings(name, value)
        elif callable(value):
            yield from lines_of(
                f".. py:function:: {name}(*args, **kwargs)", "", *indented(document(value, "function"))
            )
        else:
            yield from lines_of(f".. py:data:: {name}", "", f"   ``{value!r}``")


def settings(name: str, value: Any) -> Iterator[str]:
    """Describe an object that only groups settings, such as `tt.backends.cuda`: its members under their
    dotted names.
    """
    yield from lines_of(f".. py:data:: {name}", "", *indented(document(type(value), "data")))
    for member, attribute in vars(type(value)).items():
        if member.startswith("_"):
            continue
        if isinstance(attribute, property):
            yield from lines_of(f".. py:data:: {name}.{member}", "", *indented(document(attribute, "data")))
        elif type(attribute).__name__.startswith("_"):
            yield from settings(f"{name}.{member}", attribute)
        elif callable(getattr(value, member)):
            function = getattr(value, member)
            yield from described_as("function", [f"{name}.{head}" for head in signed(member, function)])
            yield from lines_of(*indented(document(function, "function")))


def alias(name: str, value: Any, first: str) -> Iterator[str]:
    is_class = isinstance(value, type)
    yield f".. py:{'class' if is_class else 'function'}:: {name}{'' if is_class else '()'}"
    yield ""
    yield f"   The same as :py:{'class' if is_class else 'func'}:`{first}`."
    yield ""


def generated_function(namespace: str, name: str, in_place: str | None) -> Iterator[str]:
    module = namespace_of(namespace)
    value = getattr(module, name)
    heads = signed(name, value) + (signed(in_place, getattr(module, in_place)) if in_place else [])
    yield from described_as("function", heads)
    yield from indented(document(value, "function"))
    yield ""


def methods(tensor: type, names: list[str]) -> Iterator[str]:
    """Methods: of one that is also a function a reference to it, of the others their own description."""
    root = set(public_names("triten"))
    for name in names:
        value = inspect.getattr_static(tensor, name)
        if not isinstance(getattr(value, "__func__", value), FunctionType):
            yield from described_as("attribute", [f"Tensor.{name}"])
            yield from indented(document(value, "attribute") or [""])
            yield ""
            continue
        in_place = name.endswith("_") and name.removesuffix("_") in names
        if in_place:
            continue
        forms = [name, f"{name}_"] if f"{name}_" in names else [name]
        heads = [head for form in forms for head in signed(form, getattr(tensor, form), of_methods=True)]
        yield from described_as("method", [f"Tensor.{head}" for head in heads])
        if name in root:
            yield f"   The method of :py:func:`triten.{name}`."
        else:
            yield from indented(document(value, "method"))
        yield ""


def signed(name: str, value: Any, of_methods: bool = False) -> list[str]:
    """Return the name with each of its signatures."""
    if name in signatures(of_methods):
        return [name + with_defaults(text, value) for text in signatures(of_methods)[name]]
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return [f"{name}(*args, **kwargs)"]
    parameters = [each for each in signature.parameters.values() if each.name != "self"]
    return [name + untyped(str(signature.replace(parameters=parameters)))]


def untyped(signature: str) -> str:
    """Remove uninformative types from a signature, and replace defaults without Python notation."""
    signature = re.sub(r": '?Any'?(?=[,)= ])|-> '?Any'?$", "", signature)
    return re.sub(r"<not given>|<[^<>]*>", "...", signature).replace("'", "").strip()


def described_as(kind: str, heads: list[str]) -> Iterator[str]:
    first, *others = heads
    start = f".. py:{kind}:: "
    yield start + first
    yield from (" " * len(start) + head for head in others)
    yield ""


def document(value: Any, what: str) -> list[str]:
    """Convert the docstring of an object to reStructuredText."""
    written = getattr(value, "__doc__", None)  # a class of slots may have a descriptor there
    text = inspect.cleandoc(written if isinstance(written, str) else "")
    config = Config(napoleon_numpy_docstring=False, napoleon_use_param=False, napoleon_use_rtype=False)
    return GoogleDocstring(as_rst(text), config, None, what).lines()


def indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"   {line}" if line else "" for line in lines)


def lines_of(*lines: str) -> Iterator[str]:
    yield from lines
    yield ""


def mend_docstring(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Docstrings are plain text with names in backticks; autodoc reads reStructuredText."""
    lines[:] = as_rst("\n".join(lines))


def mend_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: str | None, returns: str | None
) -> tuple[str | None, str | None]:
    if signature is None:
        return None
    return untyped(signature), None if returns in ("Any", "typing.Any") else returns


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
    app.connect("autodoc-process-docstring", mend_docstring, priority=400)  # before napoleon
    app.connect("autodoc-process-signature", mend_signature)
    app.connect("doctree-read", leave_python_types)
    app.connect("missing-reference", public_reference)
    app.connect("env-check-consistency", check_that_all_is_described)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
