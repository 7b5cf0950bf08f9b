"""One overload as Python writes it: the signature that stubs hold and docstrings list."""

from __future__ import annotations

import keyword

from ..schema.types import ListType
from .model import NativeFunction
from .signature import PythonSignature, annotation_of, argument_annotation, default_text


def parameter_name(argument: str) -> str:
    """Return an argument's name in Python: ``input`` for `self`, ``from_`` for a keyword."""
    if argument == "self":
        return "input"
    return f"{argument}_" if keyword.iskeyword(argument) else argument


def returns_text(f: NativeFunction) -> str:
    """Return the annotation of an overload's result."""
    kinds = [annotation_of(r.type, "") for r in f.schema.returns]
    if not kinds:
        return "None"
    return kinds[0] if len(kinds) == 1 else f"tuple[{', '.join(kinds)}]"


def result_annotation(outs: int) -> str:
    """Return the annotation of ``out=``."""
    return "Tensor" if outs == 1 else f"tuple[{', '.join(['Tensor'] * outs)}]"


def parameters_text(
    signature: PythonSignature, f: NativeFunction, method: bool, in_full: bool = False, outs: int = 0
) -> str:
    """Return the parameters of an overload of a name.

    Defaults are ``...``, or `in_full` themselves; `outs` counts the results of an ``out=`` form that is shown with
    its functional one.
    """
    parts: list[str] = ["self"] if method else []
    star = False
    for argument in f.schema.arguments:
        if argument.is_out or (method and argument.name == "self"):
            continue
        annotation = argument_annotation(f, argument)
        if (
            argument.name == signature.sizes_of(method)
            and not signature.general
            and isinstance(argument.type, ListType)
        ):
            parts.append(f"*sizes: int | {annotation}")
            parts.append(f"{argument.name}: {annotation} | None = {'None' if in_full else '...'}")
            star = True
            continue
        if argument.kwarg_only and not star:
            parts.append("*")
            star = True
        parts.append(
            f"{parameter_name(argument.name)}: {annotation}{_default(default_text(argument), in_full)}"
        )
    taken = len(f.schema.out_arguments)
    if (taken or outs or signature.is_factory) and not star:
        parts.append("*")
    if taken:
        parts.append(f"out: {result_annotation(taken)}")
    elif outs:
        parts.append(f"out: {result_annotation(outs)} | None{_default('None', in_full)}")
    if signature.is_factory:
        parts.append(f"requires_grad: bool{_default('False', in_full)}")
    return ", ".join(parts)


def _default(value: str | None, in_full: bool) -> str:
    if value is None:
        return ""
    return f" = {value}" if in_full else " = ..."


__all__ = ["parameter_name", "parameters_text", "result_annotation", "returns_text"]
