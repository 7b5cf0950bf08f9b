"""A page for each public name, written before Sphinx reads the sources.

A page's text holds the signatures and docstrings, converted to reStructuredText. It is written only where it
differs, so that Sphinx reads again the pages of changed docstrings and no others. `reference_pages` links the
pages from the overviews.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from types import FunctionType, GenericAlias
from typing import Any

from docstrings import as_rst
from overviews import overview_of
from public_names import (
    NAMESPACES,
    described_names,
    family_of,
    namespace_of,
    public_names,
    signatures,
    with_defaults,
)
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.util import logging

logger = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
FOLDER = "reference/symbols"
# `Tensor` has a page of its own, and `newaxis` is None.
DESCRIBED_BY_HAND = {"triten.Tensor", "triten.newaxis"}
_CONFIG = Config(
    napoleon_numpy_docstring=False, napoleon_use_param=False, napoleon_use_rtype=False, napoleon_use_ivar=True
)

_NAVIGATION: dict[tuple[tuple[str, Any], ...], str] = {}


def has_page(namespace: str, name: str) -> bool:
    """Return whether a public name has a page: constants and other names of an object have none."""
    full = f"{namespace}.{name}"
    value = getattr(namespace_of(namespace), name)
    is_alias_of_type = isinstance(value, GenericAlias)
    if full in DESCRIBED_BY_HAND or is_alias_of_type or not (callable(value) or is_settings(value)):
        return False
    return described_names().get(id(value), full) == full and not is_in_place_form(namespace, name)


def is_settings(value: Any) -> bool:
    """Return whether an object only groups settings, such as `tt.backends.cuda`."""
    return type(value).__name__.startswith("_") and not isinstance(value, type)


def is_in_place_form(namespace: str, name: str) -> bool:
    """Return whether the page of the functional form describes a name that ends in an underscore."""
    module = namespace_of(namespace)
    functional = getattr(module, name.removesuffix("_"), None)
    return name.endswith("_") and bool(family_of(getattr(module, name))) and bool(family_of(functional))


@cache
def tensor_members() -> dict[str, Any]:
    """Return the public attributes and methods of tensors."""
    tensor = namespace_of("triten.Tensor")
    return {name: inspect.getattr_static(tensor, name) for name in dir(tensor) if not name.startswith("_")}


def is_method(value: Any) -> bool:
    """Return whether an attribute of a class is a method."""
    return isinstance(getattr(value, "__func__", value), FunctionType)


@cache
def page_of_method(name: str) -> str:
    """Return the public name whose page describes a tensor's method: a function, or the method itself."""
    functional = name.removesuffix("_")
    root = namespace_of("triten")
    for each in (name, functional):
        if each in public_names("triten") and isinstance(getattr(root, each), FunctionType):
            return f"triten.{functional if is_in_place_form('triten', each) else each}"
    has_functional = functional in tensor_members() and is_method(tensor_members()[functional])
    return f"triten.Tensor.{functional if has_functional else name}"


@cache
def other_names() -> dict[str, list[str]]:
    """Return the other public names of each object that has several, by the name that describes it."""
    found: dict[str, list[str]] = {}
    for namespace in NAMESPACES:
        for name in public_names(namespace):
            full = f"{namespace}.{name}"
            first = described_names().get(id(getattr(namespace_of(namespace), name)), full)
            if first != full:
                found.setdefault(first, []).append(full)
    return found


def pages() -> Iterator[tuple[str, list[str]]]:
    """Yield each public name that has a page, with the page's lines."""
    for namespace in NAMESPACES:
        for name in public_names(namespace):
            if has_page(namespace, name):
                yield f"{namespace}.{name}", list(page(namespace, name))
    for name, value in tensor_members().items():
        full = f"triten.Tensor.{name}"
        if not is_method(value):
            yield full, list(attribute_page(name, value))
        elif page_of_method(name) == full:
            yield full, list(method_page(name))


def titled(name: str, parent: str) -> Iterator[str]:
    """Yield the head of a page. It stands in no table of contents: thousands of entries would be on each page."""
    yield from (":orphan:", "", name, "=" * len(name), "", f"In {parent}.", "")


def page(namespace: str, name: str) -> Iterator[str]:
    """Yield the page of a function, a class or settings."""
    value = getattr(namespace_of(namespace), name)
    full = f"{namespace}.{name}"
    yield from titled(full, parent_of(namespace, name, value))
    yield from (f".. py:currentmodule:: {namespace}", "")
    if isinstance(value, type):
        yield from class_description(name, value)
    elif isinstance(value, FunctionType):
        yield from function_description(namespace, name, value)
    elif is_settings(value):
        yield from settings(name, value)
    else:
        yield from (
            f".. py:function:: {name}(*args, **kwargs)",
            "",
            *indented(document(value, "function")),
            "",
        )
    yield from aliases(full, value)
    yield from see_also(full, value)
    yield from source_line(value)


def parent_of(namespace: str, name: str, value: Any) -> str:
    """Return a reference to the overview that lists a name."""
    if namespace == "triten":
        return f":doc:`/{overview_of(name, family_of(value))}`"
    return f":py:mod:`{namespace}`"


def method_page(name: str) -> Iterator[str]:
    """Yield the page of a tensor's method that is no public function."""
    value = tensor_members()[name]
    yield from titled(f"triten.Tensor.{name}", ":doc:`/reference/tensor`")
    yield from (".. py:currentmodule:: triten", "")
    yield from described_as("method", method_heads(f"triten.Tensor.{name}"))
    yield from indented(document(value, "method"))
    yield ""
    yield from source_line(getattr(value, "__func__", value))


def attribute_page(name: str, value: Any) -> Iterator[str]:
    """Yield the page of a tensor's attribute."""
    yield from titled(f"triten.Tensor.{name}", ":doc:`/reference/tensor`")
    yield from (".. py:currentmodule:: triten", "", f".. py:attribute:: Tensor.{name}", "")
    yield from indented(document(value, "attribute"))
    yield ""


def method_heads(page: str) -> list[str]:
    """Return the signatures of the tensor's methods that a page describes."""
    tensor = namespace_of("triten.Tensor")
    forms = [
        name for name, value in tensor_members().items() if is_method(value) and page_of_method(name) == page
    ]
    return [
        f"Tensor.{head}" for form in forms for head in signed(form, getattr(tensor, form), of_methods=True)
    ]


def function_description(namespace: str, name: str, value: FunctionType) -> Iterator[str]:
    heads = signed(name, value) if family_of(value) else [name + formatted(inspect.signature(value))]
    in_place = f"{name}_"
    module = namespace_of(namespace)
    if in_place in public_names(namespace) and is_in_place_form(namespace, in_place):
        heads += signed(in_place, getattr(module, in_place))
    yield from described_as("function", heads)
    yield from indented(document(value, "function"))
    yield ""
    heads = method_heads(f"{namespace}.{name}")
    if heads:
        yield from described_as("method", heads)
        yield from (f"   The method of :py:func:`{name}`; the tensor is ``{first_parameter(value)}``.", "")


def first_parameter(function: FunctionType) -> str:
    """Return the name of a function's first parameter."""
    return next(iter(inspect.signature(function).parameters), "input")


def class_description(name: str, value: type) -> Iterator[str]:
    yield from described_as("class", [name + class_signature(value)])
    bases = [described_names().get(id(base)) for base in value.__mro__[1:]]
    base = next((each for each in bases if each), None)
    if base is not None:
        yield from (f"   Base: :py:class:`{base}`", "")
    yield from indented(document(value, "class"))
    yield ""
    for member, attribute in members(value):
        yield from indented(member_description(value, member, attribute))


def class_signature(value: type) -> str:
    if issubclass(value, enum.Enum):
        return ""
    try:
        return formatted(inspect.signature(value)).partition(" -> ")[0]
    except (TypeError, ValueError):
        return ""


def members(value: type) -> Iterator[tuple[str, Any]]:
    """Yield the documented members that a class or its private bases define, in the order of the source.

    A function of another module that a class holds as an attribute is none of them, and neither is a class.
    """
    if issubclass(value, enum.Enum):
        yield from value.__members__.items()
    seen: set[str] = set()
    public_bases = {id(base) for base in value.__mro__[1:] if id(base) in described_names()}
    for owner in value.__mro__:
        is_private = id(owner) not in public_bases and owner.__module__.startswith("triten")
        if owner is not value and not is_private:
            break
        # An attribute of a private base, such as the function that a layer calls, is no part of the interface.
        described = attribute_docs(owner.__module__).get(owner.__qualname__, {}) if owner is value else {}
        for name in [*vars(owner), *described]:
            if name.startswith("_") or name in seen:
                continue
            attribute = vars(owner).get(name)
            function = getattr(attribute, "__func__", getattr(attribute, "fget", attribute))
            is_own = getattr(function, "__qualname__", "") == f"{owner.__qualname__}.{name}"
            if isinstance(function, FunctionType) and is_own and member_text(value, name, attribute):
                seen.add(name)
                yield name, attribute
            elif name in described:
                seen.add(name)
                yield name, described[name]


def member_text(owner: type, name: str, attribute: Any) -> str:
    """Return the docstring of a member; one without its own has that of the method that it overrides."""
    if isinstance(attribute, property):
        return attribute.__doc__ or ""
    return inspect.getdoc(getattr(owner, name)) or ""


def member_description(owner: type, name: str, attribute: Any) -> Iterator[str]:
    if isinstance(attribute, str) and not isinstance(attribute, enum.Enum):
        yield from (f".. py:attribute:: {name}", "", *indented(converted(attribute, "attribute")), "")
    elif isinstance(attribute, enum.Enum):
        yield from (f".. py:attribute:: {name}", f"   :value: {attribute.value!r}", "")
    elif isinstance(attribute, property):
        yield from (f".. py:property:: {name}", "", *indented(document(attribute, "property")), "")
    else:
        kind = next((kind for kind in (classmethod, staticmethod) if isinstance(attribute, kind)), None)
        signature = inspect.signature(getattr(attribute, "__func__", attribute))
        yield f".. py:method:: {name}{formatted(signature, kind is not staticmethod)}"
        if kind is not None:
            yield f"   :{kind.__name__}:"
        yield from ("", *indented(converted(member_text(owner, name, attribute), "method")), "")


@cache
def attribute_docs(module: str) -> dict[str, dict[str, str]]:
    """Return the strings below the attributes of each class of a module, by the class's qualified name."""
    path = getattr(import_module(module), "__file__", None)
    if path is None or not path.endswith(".py"):
        return {}
    found: dict[str, dict[str, str]] = {}

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.ClassDef):
                found[prefix + node.name] = dict(documented_attributes(node.body))
                visit(node.body, f"{prefix}{node.name}.")

    visit(ast.parse(Path(path).read_text(encoding="utf-8")).body, "")
    return found


def documented_attributes(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield the attributes of a class that a string describes in the next statement."""
    for node, following in pairwise(body):
        is_text = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
        if not is_text or not isinstance(following.value.value, str):  # type: ignore[attr-defined]
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            if isinstance(target, ast.Name):
                yield target.id, inspect.cleandoc(following.value.value)  # type: ignore[attr-defined]


def settings(name: str, value: Any) -> Iterator[str]:
    """Describe an object that only groups settings: its members under their dotted names."""
    yield from (f".. py:data:: {name}", "", *indented(document(type(value), "data")), "")
    for member, attribute in vars(type(value)).items():
        if member.startswith("_"):
            continue
        if isinstance(attribute, property):
            yield from (f".. py:data:: {name}.{member}", "", *indented(document(attribute, "data")), "")
        elif is_settings(attribute):
            yield from settings(f"{name}.{member}", attribute)
        elif callable(getattr(value, member)):
            function = getattr(value, member)
            yield from described_as("function", [f"{name}.{head}" for head in signed(member, function)])
            yield from (*indented(document(function, "function")), "")


def aliases(full: str, value: Any) -> Iterator[str]:
    """Describe the other public names of an object."""
    kind = "class" if isinstance(value, type) else "function"
    # The page of a functional form describes its in-place form as well.
    in_place = [f"{full}_"] if is_form_of(full) else []
    for name in [alias for each in (full, *in_place) for alias in other_names().get(each, ())]:
        namespace, _, short = name.rpartition(".")
        arguments = "" if kind == "class" else "()"
        yield from (f".. py:currentmodule:: {namespace}", "")
        original = f"{full}_" if name in other_names().get(f"{full}_", ()) else full
        yield from (f".. py:{kind}:: {short}{arguments}", "", f"   The same as :py:obj:`{original}`.", "")


def is_form_of(full: str) -> bool:
    """Return whether a public name has an in-place form that its page describes."""
    namespace, _, name = full.rpartition(".")
    return f"{name}_" in public_names(namespace) and is_in_place_form(namespace, f"{name}_")


def see_also(full: str, value: Any) -> Iterator[str]:
    """Name the function of a layer, and the layer of a function."""
    twins = twins_of_names().get(full, ())
    if twins:
        yield from (".. rubric:: See also", "")
        for twin in twins:
            yield f"* :py:obj:`{twin}`: {summary_of(object_named(twin))}"
        yield ""


def object_named(full: str) -> Any:
    namespace, _, name = full.rpartition(".")
    return getattr(namespace_of(namespace), name)


@cache
def twins_of_names() -> dict[str, tuple[str, ...]]:
    """Return, for each layer, its function, and the reverse: `Conv2d` and `conv2d`, `MSELoss` and `mse_loss`."""
    functions: dict[str, str] = {}
    for name in public_names("triten.nn.functional"):
        if not name.endswith("_"):
            functions[_plain(name)] = name
    found: dict[str, list[str]] = {}
    for layer in public_names("triten.nn"):
        stem = _plain(layer)
        for spelling in (stem, stem.rstrip("d").rstrip("123"), f"{stem}loss"):
            if spelling in functions and isinstance(getattr(namespace_of("triten.nn"), layer), type):
                function = f"triten.nn.functional.{functions[spelling]}"
                first = described_names().get(id(object_named(function)), function)
                found.setdefault(f"triten.nn.{layer}", []).append(first)
                found.setdefault(first, []).append(f"triten.nn.{layer}")
                break
    return {name: tuple(dict.fromkeys(twins)) for name, twins in found.items()}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def source_line(value: Any) -> Iterator[str]:
    """Name the files of an object: a generated function's declaration and kernels, or the module of another."""
    files = operator_files(value) if family_of(value) else [file_of(value)]
    shown = [file for file in files if file is not None]
    if shown:
        yield from (".. rubric:: Source", "", ", ".join(shown), "")


@cache
def kernels() -> dict[str, tuple[str | None, str | None]]:
    table: dict[str, tuple[str | None, str | None]] = import_module(
        "triten.dispatch.generated.kernel_index"
    ).KERNELS
    return table


def operator_files(value: Any) -> list[str | None]:
    name = value.__name__.removesuffix("_")
    files = [ROOT / "dispatch" / "native_functions" / f"{family_of(value)}.yaml"]
    modules = kernels().get(f"{name}_stub", (None, None))
    for package, module in zip(("cpu_fallback", "triton_kernels"), modules, strict=True):
        if module is not None:
            files.append(ROOT / package / f"{module.replace('.', '/')}.py")
    return [shown_file(file) for file in files]


def file_of(value: Any) -> str | None:
    try:
        return shown_file(Path(inspect.getsourcefile(inspect.unwrap(value)) or ""))
    except TypeError:
        return None


def shown_file(path: Path) -> str | None:
    """Return a file of the repository as a literal; None for a file that is elsewhere."""
    resolved = path.resolve()
    if not (resolved.is_file() and resolved.is_relative_to(ROOT)):
        return None
    return f"``{resolved.relative_to(ROOT).as_posix()}``"


def signed(name: str, value: Any, of_methods: bool = False) -> list[str]:
    """Return the name with each of its signatures."""
    if name in signatures(of_methods):
        return [name + with_defaults(text, value) for text in signatures(of_methods)[name]]
    try:
        return [name + formatted(inspect.signature(value), is_bound=True)]
    except (TypeError, ValueError):
        return [f"{name}(*args, **kwargs)"]


def formatted(signature: inspect.Signature, is_bound: bool = False) -> str:
    """Return a signature as Python writes it: types without quotes, and no type that says nothing.

    Example:
        >>> def pad(self, input: "Tensor", mode: str = "zeros", value: Any = None) -> "Tensor": ...
        >>> formatted(inspect.signature(pad), is_bound=True)
        "(input: Tensor, mode: str = 'zeros', value=None) -> Tensor"
    """
    parameters = list(signature.parameters.values())
    if is_bound and parameters and parameters[0].name in ("self", "cls"):
        parameters = parameters[1:]
    parts: list[str] = []
    kinds = inspect.Parameter
    for index, each in enumerate(parameters):
        before = parameters[index - 1] if index else None
        if before and before.kind is kinds.POSITIONAL_ONLY and each.kind is not kinds.POSITIONAL_ONLY:
            parts.append("/")
        if each.kind is kinds.KEYWORD_ONLY and (
            before is None or before.kind not in (kinds.VAR_POSITIONAL, kinds.KEYWORD_ONLY)
        ):
            parts.append("*")
        stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(each.kind, "")
        text = stars + each.name
        annotation = shown_type(each.annotation)
        if annotation:
            text += f": {annotation}"
        if each.default is not each.empty:
            default = repr(each.default)
            default = "..." if "<" in default else default
            text += f" = {default}" if annotation else f"={default}"
        parts.append(text)
    if parameters and parameters[-1].kind is kinds.POSITIONAL_ONLY:
        parts.append("/")
    result = shown_type(signature.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {result}" if result else "")


def shown_type(annotation: Any) -> str:
    """Return a type as its author wrote it; an empty text for `Any` and for none."""
    if annotation is inspect.Signature.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.strip("'\"").replace("typing.", "").replace("collections.abc.", "")
    return "" if text == "Any" or "<" in text else text


def described_as(kind: str, heads: list[str]) -> Iterator[str]:
    first, *others = heads
    start = f".. py:{kind}:: "
    yield start + first
    yield from (" " * len(start) + head for head in others)
    yield ""


def document(value: Any, what: str) -> list[str]:
    """Convert the docstring of an object to reStructuredText."""
    return converted(docstring(value), what)


def docstring(value: Any) -> str:
    if isinstance(value, type) and "__doc__" not in vars(value):
        return ""
    written = getattr(value, "__doc__", None)  # a class of slots may have a descriptor there
    return inspect.cleandoc(written) if isinstance(written, str) else ""


def converted(text: str, what: str) -> list[str]:
    # Napoleon puts line breaks into its lines.
    return "\n".join(GoogleDocstring(as_rst(text), _CONFIG, None, what).lines()).split("\n")


def summary_of(value: Any) -> str:
    """Return the first sentence of a docstring in reStructuredText, without the name that PyTorch has for it."""
    return " ".join(as_rst(first_sentence(docstring(value))))


def first_sentence(text: str) -> str:
    """Return the first sentence of a docstring, on one line.

    Example:
        >>> first_sentence("2D convolution\\n(`torch.nn.Conv2d`). More.")
        '2D convolution.'
    """
    paragraph = " ".join(text.partition("\n\n")[0].split())
    paragraph = re.sub(r"\s*\(`(?:torch|aten)[^)]*\)", "", paragraph)
    found = re.match(r".*?\.(?=\s|$)", paragraph)
    return found[0] if found else paragraph


def indented(lines: Iterable[str]) -> Iterator[str]:
    return (f"   {line}" if line else "" for line in lines)


def write_pages(app: Sphinx) -> None:
    """Write the pages that changed, and remove those of names that are gone."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    written: dict[str, Path] = {}
    changed = 0
    for name, lines in pages():
        # Some file systems have one file for `Stream` and `stream`.
        file = f"{name}.rst" if f"{name}.rst".lower() not in written else f"{name}-function.rst"
        path = written[file.lower()] = folder / file
        text = "\n".join(lines) + "\n"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed += 1
    for path in folder.glob("*.rst"):
        if written.get(path.name.lower()) != path:
            path.unlink()
            changed += 1
    logger.info("pages of public names: %d, of which %d changed", len(written), changed)


def share_navigation(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Render the site's navigation once for all pages of names: it took three quarters of their writing time.

    The pages lie in one folder and in no table of contents, so that it is the same on each.
    """
    if not page.startswith(f"{FOLDER}/"):
        return
    toctree = context["toctree"]

    def shared(**options: Any) -> str:
        key = tuple(sorted(options.items()))
        if key not in _NAVIGATION:
            _NAVIGATION[key] = toctree(**options)
        return _NAVIGATION[key]

    context["toctree"] = shared


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_pages)
    app.connect("html-page-context", share_navigation, priority=400)  # before the theme's
    return {"parallel_read_safe": True, "parallel_write_safe": True}
