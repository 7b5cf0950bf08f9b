"""The text of a tensor, as PyTorch prints it (torch/_tensor_str.py describes the form)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .autograd.tangents import tangents_of
from .core.tensor_function import plain_classes
from .print_options import options as _options
from .scalars import readable


def tensor_text(tensor: Any) -> str:
    """``tensor([...], dtype=..., device=..., requires_grad=...)``, what follows from the default left out.

    A subclass's own name stands in place of ``tensor``.
    """
    spec = tensor._spec
    prefix = "tensor(" if tensor.__class__ in plain_classes else f"{type(tensor).__name__}("
    notes: list[str] = []
    if spec.is_meta:
        body = "..."
    else:
        body = _array_text(tensor.host_array(), len(prefix))
    if spec.device.type != "cpu":
        notes.append(f"device='{spec.device}'")
    if spec.is_meta or (spec.numel == 0 and spec.ndim != 1):
        notes.append(f"size={tuple(spec.sizes)}")
    usual = ("float32", "int64", "bool", "complex64") if spec.numel else ("float32",)
    if spec.dtype.name not in usual:
        notes.append(f"dtype={spec.dtype}")
    if spec.requires_grad:
        notes.append(_history(tensor))
    if any(name is not None for name in spec.names):
        notes.append(f"names={spec.names}")
    tangents = tangents_of(tensor)
    if tangents:
        notes.append(f"tangent={tensor_text(tangents[max(tangents)])}")
    return prefix + ", ".join([body, *notes]) + ")"


def _array_text(array: Any, indent: int) -> str:
    if array.size == 0:
        return "[]"
    array = readable(array)
    shown = _summary(array) if array.size > _options.threshold else array
    format_one = _formatter(shown.reshape(-1))
    return _nested(array, format_one, indent, array.size > _options.threshold)


def _summary(array: Any) -> Any:
    for axis, size in enumerate(array.shape):
        if size > 2 * _options.edgeitems:
            picks = list(range(_options.edgeitems)) + list(range(size - _options.edgeitems, size))
            array = array.take(picks, axis)
    return array


def _formatter(values: Any) -> Any:
    kind = values.dtype.kind
    if kind == "b":
        width = max(len(str(bool(v))) for v in values)
        return lambda v: f"{bool(v)!s:>{width}}"
    if kind in "iu":
        width = max(len(str(int(v))) for v in values)
        return lambda v: f"{int(v):>{width}}"
    if kind == "c":
        real, imaginary = _formatter(values.real), _formatter(abs(values.imag))
        return lambda v: f"{real(v.real)}{'-' if np.signbit(v.imag) else '+'}{imaginary(abs(v.imag))}j"
    values = values.astype(np.float64)
    finite = values[np.isfinite(values) & (values != 0)]
    largest, smallest = (abs(finite).max(), abs(finite).min()) if finite.size else (0.0, 1.0)
    whole = finite.size == 0 or bool((finite == np.ceil(finite)).all() and largest < 1e8)
    wide = bool(largest / smallest > 1000.0 or largest > 1e8 or (smallest < 1e-4 and not whole))
    digits = _options.precision
    if wide if _options.sci_mode is None else _options.sci_mode:
        return _padded(values, lambda v: f"{v:.{digits}e}" if np.isfinite(v) else str(v))
    if whole:
        return _padded(values, lambda v: f"{v:.0f}." if np.isfinite(v) else str(v))
    return _padded(values, lambda v: f"{v:.{digits}f}" if np.isfinite(v) else str(v))


def _padded(values: Any, text: Any) -> Any:
    shown = [float(v) for v in values if np.isfinite(v) and v != 0]
    width = max((len(text(v)) for v in shown), default=1)
    return lambda v: f"{text(float(v)):>{width}}"


def _nested(array: Any, text: Any, indent: int, summarise: bool) -> str:
    if array.ndim == 0:
        return str(text(array[()]))
    size = array.shape[0]
    cut = summarise and size > 2 * _options.edgeitems
    edge = _options.edgeitems
    picks: list[int | None] = [*range(edge), None, *range(size - edge, size)] if cut else list(range(size))
    if array.ndim == 1:
        words = [" ..." if i is None else str(text(array[i])) for i in picks]
        per_line = max(1, (_options.linewidth - indent) // (max(map(len, words)) + 2))
        lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = ["..." if i is None else _nested(array[i], text, indent + 1, summarise) for i in picks]
    separator: str = "," + "\n" * int(array.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(rows) + "]"


def _history(tensor: Any) -> str:
    """What made a tensor that requires grad; a view whose history a write made void says so."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        return "grad_fn=<Invalid>"
    return "requires_grad=True" if node is None else f"grad_fn=<{node.name()}>"
