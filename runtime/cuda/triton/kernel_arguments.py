"""Parameters of `@triton.jit` functions, and the signature types of their arguments.

`library.launch` uses them, as does the interpreter for a kernel called in Triton's own notation. Types are those of
Triton's launcher (python/src/specialize.cc).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...scalar_type import dtype as ScalarType
from .lazy_triton import stand_in, tl


class Parameter(NamedTuple):
    """Kernel parameter: whether it is a constant, its annotated type, and what Triton may specialize on."""

    name: str
    is_constexpr: bool
    type_name: str | None
    by_value: bool
    by_alignment: bool


@functools.lru_cache(maxsize=1024)
def parameters_of(kernel: Any) -> tuple[inspect.Signature, tuple[Parameter, ...]]:
    """Return the signature and parameters of a `@triton.jit` function. Raise TypeError for anything else."""
    if not callable(getattr(kernel, "fn", None)) or not hasattr(kernel, "arg_names"):
        raise TypeError(f"launch: kernel must be a triton.jit function, got {type(kernel).__name__}")
    if not inspect.isfunction(kernel.fn):
        raise TypeError(
            f"launch: kernel '{kernel.fn.__name__}' is wrapped in a {type(kernel).__name__}: choose a configuration "
            "and launch the triton.jit function itself, with the constants and num_warps of your choice"
        )
    options = getattr(kernel, "kwargs", {})

    def excluded(option: str) -> Sequence[int | str]:
        return getattr(kernel, option, None) or options.get(option) or ()

    whole, alignment = excluded("do_not_specialize"), excluded("do_not_specialize_on_alignment")
    signature = inspect.signature(kernel.fn)
    parameters = []
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        by_value = i not in whole and name not in whole
        by_alignment = by_value and i not in alignment and name not in alignment
        annotated, is_constexpr = _annotated_type(parameter.annotation)
        parameters.append(Parameter(name, is_constexpr, annotated, by_value, by_alignment))
    return signature, tuple(parameters)


def _annotated_type(annotation: Any) -> tuple[str | None, bool]:
    """Return the scalar type that an annotation names, and whether it marks a constant."""
    if isinstance(annotation, str):
        annotation = getattr(tl, annotation.rpartition(".")[2].strip("\"'"), None)
    annotation = stand_in(annotation)
    if annotation is tl.constexpr:
        return None, True
    return (_type_name(annotation) if isinstance(annotation, tl.dtype) else None), False


def _type_name(type_: tl.dtype) -> str:
    """Return a type's name in a signature: ``i32`` for `tl.int32`."""
    return str(type_.name).replace("int", "i").replace("ui", "u")


def pointer_type(kernel: str, name: str, dtype: ScalarType) -> str:
    """Return Triton's pointer type for a dtype. Raise TypeError for a dtype that Triton lacks."""
    if dtype.triton_name is None:
        raise TypeError(f"kernel '{kernel}': argument '{name}': Triton has no {dtype}")
    return f"*{dtype.triton_name}"


def scalar_type(kernel: str, parameter: Parameter, value: Any) -> str:
    """Return Triton's type of a number: as annotated, else the narrowest of i32, i64 and u64, fp32, or i1.

    Raises TypeError for a non-number, and OverflowError for an integer of more than 64 bits.
    """
    kind = value.__class__
    if kind not in (bool, int, float):
        raise TypeError(
            f"kernel '{kernel}': argument '{parameter.name}': expected a Tensor, a number or None, got {kind.__name__}"
        )
    if parameter.type_name is not None:
        return parameter.type_name
    if kind is bool:
        return "i1"
    if kind is float:
        return "fp32"
    if -(1 << 31) <= value < 1 << 31:
        return "i32"
    if -(1 << 63) <= value < 1 << 63:
        return "i64"
    if 0 <= value < 1 << 64:
        return "u64"
    raise OverflowError(f"kernel '{kernel}': argument '{parameter.name}': {value} has more than 64 bits")
