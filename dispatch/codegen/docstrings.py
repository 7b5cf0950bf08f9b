"""Docstrings of functions and methods, made of an operator's documentation.

They are plain text in Google's sections, as everywhere in the tree; the declarations stand at the end.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

from .docs import OperatorDocs
from .documentation import Documentation
from .examples import in_place_example, renamed, with_import
from .location import ModelError
from .model import NativeFunction
from .shared_arguments import CHOSEN, DIMNAME, OUT, OUT_OR_OUTS, OUTS, SAME_AS_INPUT, SHARED_ARGUMENTS
from .signature import PythonSignature, takes_names
from .signature_text import parameter_name, parameters_text, returns_text

WIDTH = 100
NAMESPACES = {"fft_": "fft", "linalg_": "linalg", "special_": "special"}
"""Prefixes of operators that Python reaches through a namespace of their own: `linalg_vecdot` as ``linalg.vecdot``."""

_NOT_METHODS = frozenset({"celu_", "selu_"})
"""In-place forms that in PyTorch are functions alone."""


class Docstrings:
    """Docstrings of all public names, by name; an undocumented name has only its declarations.

    `signatures` are those of all families.
    """

    def __init__(
        self, signatures: Mapping[str, PythonSignature], documentation: Mapping[str, Documentation]
    ) -> None:
        self._signatures = signatures
        self._documentation = documentation

    def of(self, name: str) -> str:
        """Return the docstring of a function or method, without indentation."""
        documentation = self._documentation.get(name)
        return _undocumented(self._signatures[name]) if documentation is None else self._text(documentation)

    def summary_of(self, name: str) -> str:
        """Return the first line of a documented name's docstring; nothing without documentation."""
        documentation = self._documentation.get(name)
        return "" if documentation is None else self._text(documentation).partition("\n")[0]

    def example_of(self, name: str) -> str:
        """Return the example of a documented name. Raises ModelError if an in-place form needs its own example."""
        documentation = self._documentation[name]
        docs = documentation.docs
        example = docs.example
        if documentation.is_in_place:
            original = self._signatures[documentation.written_for]
            example = (
                docs.example_in_place
                or in_place_example(
                    docs.example,
                    documentation.written_for,
                    public_name(original),
                    is_method(self._signatures[name]),
                )
                or ""
            )
            if not example:
                raise ModelError(
                    f"{original.first.location}: docs: the last statement of the example is no call of "
                    f"{public_name(original)}, from which that of {name} would follow: write example_in_place"
                )
        if documentation.alias_of is not None:
            original, alias = self._signatures[documentation.alias_of], self._signatures[name]
            example = renamed(example, public_name(original), name, public_name(alias))
        return with_import(example)

    def _text(self, documentation: Documentation) -> str:
        signature = self._signatures[documentation.name]
        docs = documentation.docs
        torch, references = _sources(documentation, signature)
        example = "Example:\n" + textwrap.indent(self.example_of(documentation.name), "    ")
        if documentation.is_in_place:
            functional = public_name(self._signatures[documentation.name.removesuffix("_")])
            summary = f"In-place version of `{functional}` ({torch})."
            return "\n\n".join(filter(None, [summary, _signatures_text(signature), example]))
        parts = [
            f"{docs.summary.removesuffix('.')} ({torch}).",
            f"Another name of `{public_name(self._signatures[documentation.alias_of])}`."
            if documentation.alias_of
            else "",
            textwrap.indent(docs.formula, "    "),
            _signatures_text(signature),
            _section("Args", (f"{name}: {text}" for name, text in _arguments(documentation, signature))),
            _section("Returns", [docs.returns]),
            _section("Raises", (f"{name}: {text}" for name, text in docs.raises)),
            _section("Note", _notes(docs), "\n\n"),
            _section("References", references),
            example,
            "Schema::\n\n" + textwrap.indent("\n".join(_schemas(signature)), "    "),
        ]
        return "\n\n".join(filter(None, parts))


def public_name(signature: PythonSignature) -> str:
    """Return the name by which users call it: ``tt.add``, ``tt.linalg.eigh``, ``tt.Tensor.add_``."""
    for prefix, namespace in NAMESPACES.items():
        if signature.name.startswith(prefix):
            return f"tt.{namespace}.{signature.name.removeprefix(prefix)}"
    return f"tt.{signature.name}" if is_function(signature) else f"tt.Tensor.{signature.name}"


def is_function(signature: PythonSignature) -> bool:
    """Return whether the name is a function, and not only a method."""
    return any("function" in f.variants for f in signature.overloads if f.form != "out")


def is_method(signature: PythonSignature) -> bool:
    """Return whether tensors have the name as a method."""
    return any("method" in f.variants for f in signature.overloads)


def _sources(documentation: Documentation, signature: PythonSignature) -> tuple[str, list[str]]:
    """Return PyTorch's operator, and the works that define it."""
    sources = [
        part.strip().removesuffix(".") for part in documentation.docs.source.split(";") if part.strip()
    ]
    operators = [part for part in sources if re.match(r"(The operator )?`?(torch\.|aten::)", part)]
    references = [f"{part}." for part in sources if part not in operators]
    if operators and documentation.name == documentation.written_for:
        named = (part.removeprefix("The operator ").strip("`") for part in operators)
        return ", ".join(f"`{name}`" for name in named), references
    is_nn = any(f.python_module == "nn" for f in signature.overloads)
    if documentation.is_in_place:
        is_torch_method = is_method(signature) and documentation.name not in _NOT_METHODS
        namespace = "torch.ops.aten" if is_nn else "torch.Tensor" if is_torch_method else "torch"
        return f"`{namespace}.{documentation.name}`", references
    public = public_name(signature).removeprefix("tt.")
    return f"`torch.{'nn.functional.' if is_nn else ''}{public}`", references


def _arguments(documentation: Documentation, signature: PythonSignature) -> Iterable[tuple[str, str]]:
    """Yield each parameter in the signature's order, with its description."""
    described = dict(documentation.docs.args)
    has_input = any(a.name == "self" for f in signature.overloads for a in f.schema.arguments)
    for parameter in signature.parameters:
        name = parameter_name(parameter.name)
        text = described.get(name) or described.get(parameter.name)
        if text is None:
            text = "" if parameter.name == "self" else _shared(parameter.name, has_input)
        if parameter.name == "self":
            text += " The method's `self`." if is_method(signature) else ""
        variadic = signature.variadic == parameter.name and not signature.general
        yield f"*{name}" if variadic else name, text
    shown = {parameter_name(parameter.name) for parameter in signature.parameters}
    for name, text in documentation.docs.args:
        # Overloads that are called by position alone have parameters that the signature has not.
        if name not in shown | {"self", "out", "requires_grad"} and any(
            parameter_name(a.name) == name for f in signature.overloads for a in f.schema.arguments
        ):
            yield name, text
    if signature.has_out:
        yield "out", described.get("out") or _out(signature)
    if signature.is_factory:
        yield "requires_grad", described.get("requires_grad") or SHARED_ARGUMENTS["requires_grad"]


def _shared(name: str, has_input: bool) -> str:
    text = SHARED_ARGUMENTS.get(name, DIMNAME)
    if name == "memory_format" and not has_input:
        return text.partition(";")[0] + "."
    if name in CHOSEN:
        return text.format(**{name: SAME_AS_INPUT if has_input else CHOSEN[name]})
    return text


def _out(signature: PythonSignature) -> str:
    """Return the description of ``out=``: a tensor, a tuple of tensors, or either if overloads differ."""
    outs = [f for f in signature.overloads if f.form == "out"]
    counts = {len(f.schema.out_arguments) for f in outs}
    if counts == {1}:
        return OUT
    several = next(f for f in outs if len(f.schema.out_arguments) > 1)
    results = [r.name for f in signature.overloads if f.form != "out" for r in f.schema.returns if r.name]
    names = results[: max(counts)] or [a.name for a in several.schema.out_arguments]
    return (OUT_OR_OUTS if 1 in counts else OUTS).format(names=f"({', '.join(names)})")


def _notes(docs: OperatorDocs) -> list[str]:
    lacks = f"Not supported: {docs.lacks}" if docs.lacks else ""
    return [*re.split(r"\n\s*\n", docs.notes), lacks] if docs.notes else [lacks]


def _signatures_text(signature: PythonSignature) -> str:
    """Return the section that lists signatures, for names whose overloads share none."""
    lines = _signature_lines(signature)
    if len(lines) < 2 and all(parameter.default != "NOT_GIVEN" for parameter in signature.parameters):
        return ""
    return "Signatures::\n\n" + textwrap.indent("\n".join(lines), "    ")


def _signature_lines(signature: PythonSignature) -> list[str]:
    """Return the signatures of the overloads, each with its ``out=``, except for overloads by dimension names."""
    called = public_name(signature)
    method = not is_function(signature)
    shown = [f for f in signature.overloads if f.form != "out" and f.python_binding and not takes_names(f)]
    outs = {_taken(f): len(f.schema.out_arguments) for f in signature.overloads if f.form == "out"}
    lines = [
        f"{called}({parameters_text(signature, f, method, True, outs.get(_taken(f), 0))}) -> {returns_text(f)}"
        for f in shown
    ]
    return list(dict.fromkeys(lines))


def _taken(f: NativeFunction) -> tuple[str, ...]:
    return tuple(f"{a.name}: {a.type}" for a in f.schema.arguments if not a.is_out)


def _schemas(signature: PythonSignature) -> list[str]:
    shown = [str(f.schema) for f in signature.overloads if f.form != "out"]
    return shown or [str(signature.first.schema)]


def _undocumented(signature: PythonSignature) -> str:
    schemas = _schemas(signature)
    if len(schemas) == 1:
        return f"Call ``{schemas[0]}``."
    lines = "\n".join(f"    {each}" for each in schemas)
    return f"Call the overload that the arguments match.\n\nSchemas::\n\n{lines}"


def _section(title: str, items: Iterable[str], between: str = "\n") -> str:
    """Format a section in Google style; return an empty text for no items."""
    filled = between.join(_filled(item) for item in items if item)
    return f"{title}:\n{filled}" if filled else ""


def _filled(text: str) -> str:
    return textwrap.fill(
        " ".join(text.split()),
        WIDTH,
        initial_indent="    ",
        subsequent_indent="        " if re.match(r"\*?[\w.]+: ", text) else "    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


__all__ = ["NAMESPACES", "Docstrings", "is_function", "is_method", "public_name"]
