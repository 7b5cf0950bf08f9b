"""The text of a tensor, as PyTorch prints it (torch/_tensor_str.py describes the format)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...runtime.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from ...runtime.qscheme import per_tensor_affine
from ...runtime.scalar_type import QUANTIZED, bool_, get_default_dtype, int64
from ...runtime.transform_stack import tracked_text, tracking_levels
from ..autograd.tangents import tangents_of
from ..core.tensor_function import plain_classes
from ..scalars import readable
from .print_options import options as _options

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..tensor import Tensor


def tensor_text(tensor: Tensor, contents: str | None = None) -> str:
    """Return ``tensor([...], dtype=..., device=..., requires_grad=...)``, omitting defaults.

    A subclass's name replaces ``tensor``; parameters are wrapped in ``Parameter(...)``. `contents` replaces the text of
    the elements, or of a sparse tensor's parts. A tensor by which `tt.func.grad` differentiates, or that depends on
    one, is shown in ``GradTrackingTensor(...)`` inside of the function.
    """
    levels = tracking_levels(tensor)
    if levels:
        plain = type(tensor).from_data(tensor._data, tensor._spec.detached)
        return tracked_text(_text(plain, contents), levels)
    text = _text(tensor, contents)
    return f"Parameter({text})" if getattr(tensor, "_is_param", False) is True else text


def _text(tensor: Tensor, contents: str | None) -> str:
    spec = tensor._spec
    if spec.layout in PARTS:
        return _sparse_text(tensor, contents)
    prefix = "tensor(" if tensor.__class__ in plain_classes else f"{type(tensor).__name__}("
    notes: list[str] = []
    if contents is not None:
        body = contents
    elif spec.is_meta:
        body = "..."
    else:
        body = _array_text(tensor.host_array(), len(prefix))
    if spec.device.type != "cpu":
        notes.append(f"device='{spec.device}'")
    if spec.dtype in QUANTIZED or spec.is_meta or (spec.numel == 0 and spec.ndim != 1):
        notes.append(f"size={tuple(spec.sizes)}")
    default = get_default_dtype()
    usual = (default, default.to_complex(), int64, bool_) if spec.numel and not spec.is_meta else (default,)
    if spec.dtype not in usual:
        notes.append(f"dtype={spec.dtype}")
    if spec.dtype in QUANTIZED:
        notes += _quantizer_notes(tensor)
    if spec.requires_grad:
        notes.append(_history(tensor))
    if any(name is not None for name in spec.names):
        notes.append(f"names={spec.names}")
    tangents = tangents_of(tensor)
    if tangents:
        notes.append(f"tangent={tensor_text(tangents[max(tangents)])}")
    return _with_notes(prefix + body, notes, len(prefix)) + ")"


def _quantizer_notes(tensor: Tensor) -> list[str]:
    """Return the notes on a quantized tensor's scales and zero points."""
    notes = [f"quantization_scheme={tensor.qscheme()}"]
    if tensor.qscheme() is per_tensor_affine:
        return [*notes, f"scale={tensor.q_scale()}", f"zero_point={tensor.q_zero_point()}"]
    scales, zero_points = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    return [
        *notes,
        f"scale={tensor_text(scales)}",
        f"zero_point={tensor_text(zero_points)}",
        f"axis={tensor.q_per_channel_axis()}",
    ]


PARTS = {
    sparse_coo: ("_indices", "_values"),
    sparse_csr: ("crow_indices", "col_indices", "values"),
    sparse_bsr: ("crow_indices", "col_indices", "values"),
    sparse_csc: ("ccol_indices", "row_indices", "values"),
    sparse_bsc: ("ccol_indices", "row_indices", "values"),
}
"""The methods that return the parts of a sparse tensor."""


def _sparse_text(tensor: Any, contents: str | None) -> str:
    """Return ``tensor(indices=tensor(...), values=tensor(...), size=..., nnz=..., layout=...)``, one part per line.

    Parts with the default dtype omit it. `contents` replaces the parts.
    """
    spec = tensor._spec
    bare = tensor.detach()
    prefix = "tensor("
    parts = []
    for method in PARTS[spec.layout]:
        part = getattr(bare, method)()
        name = method.removeprefix("_")
        parts.append(f"{name}={_part_text(part, len(prefix) + len(name) + 1)}")
    notes = [f"size={tuple(spec.sizes)}"]
    if not spec.is_meta:
        notes.append(f"nnz={tensor._nnz()}")
    if spec.device.type != "cpu":
        notes.insert(0, f"device='{spec.device}'")
    if spec.dtype not in (get_default_dtype(), get_default_dtype().to_complex(), int64, bool_):
        notes.append(f"dtype={spec.dtype}")
    notes.append(f"layout={spec.layout}")
    if spec.requires_grad:
        notes.append(_history(tensor))
    text = prefix + (f",\n{' ' * len(prefix)}".join(parts) if contents is None else contents)
    first, *rest = notes
    separate = spec.layout is sparse_coo
    text += f",\n{' ' * len(prefix)}{first}" if separate else f", {first}"
    return _with_notes(text, rest, len(prefix)) + ")"


def _part_text(part: Any, indent: int) -> str:
    """Return the text of a dense part of a sparse tensor; the whole states dtype and device once."""
    spec = part._spec
    prefix = "tensor("
    indent += len(prefix)
    if spec.is_meta:
        return f"{prefix}..., size={tuple(spec.sizes)})"
    body = _array_text(part.host_array(), indent)
    return f"{prefix}{body}, size={tuple(spec.sizes)})" if not spec.numel else f"{prefix}{body})"


def _with_notes(text: str, notes: list[str], indent: int) -> str:
    """Append notes to the elements' text, with a line break before each note that would exceed the line width."""
    length = len(text) - text.rfind("\n") + 1
    for note in notes:
        if length + len(note) + 2 > _options.linewidth:
            text += ",\n" + " " * indent + note
            length = indent + len(note)
        else:
            text += f", {note}"
            length += len(note) + 2
    return text


def elements_text(array: NDArray[Any]) -> str:
    """Return the text of the elements alone, as ``print`` shows them between the parentheses."""
    return _array_text(array, 0)


def _array_text(array: NDArray[Any], indent: int) -> str:
    if array.size == 0:
        return "[]"
    array = readable(array)
    summarise = array.size > _options.threshold
    return _nested(array, _format_of(_summary(array) if summarise else array), indent, summarise)


def _summary(array: NDArray[Any]) -> NDArray[Any]:
    edge = _options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * edge:
            picks = list(range(edge)) + list(range(size - edge, size))
            array = array.take(picks, axis)
    return array


class _Format(NamedTuple):
    """Format of a tensor's elements: the text of one, and the width that each takes in a line."""

    text: Callable[[Any], str]
    width: int


def _format_of(values: NDArray[Any]) -> _Format:
    values = values.reshape(-1)
    if values.dtype.kind != "c":
        return _format_of_real(values)
    real, imaginary = _format_of_real(values.real), _format_of_real(values.imag)

    def text(v: Any) -> str:
        tail = f"{imaginary.text(v.imag)}j".lstrip()
        return real.text(v.real) + (tail if tail[0] in "+-" else f"+{tail}")

    return _Format(text, real.width + imaginary.width + 1)


def _format_of_real(values: NDArray[Any]) -> _Format:
    if values.dtype.kind in "biu":
        as_number = bool if values.dtype.kind == "b" else int
        width = max((len(str(as_number(v))) for v in values), default=1)
        return _Format(lambda v: f"{as_number(v)!s:>{width}}", width)
    values = values.astype(np.float64)
    finite = values[np.isfinite(values) & (values != 0)]
    if finite.size == 0:
        return _float_format(finite, ".0f", is_whole=True)  # for any `sci_mode`, as in PyTorch
    whole = bool((finite == np.ceil(finite)).all())
    largest, smallest = float(abs(finite).max()), float(abs(finite).min())
    exponents = largest / smallest > 1000.0 or largest > 1e8 or (not whole and smallest < 1e-4)
    if exponents if _options.sci_mode is None else _options.sci_mode:
        return _float_format(finite, f".{_options.precision}e")
    return _float_format(finite, ".0f" if whole else f".{_options.precision}f", whole)


def _float_format(finite: NDArray[Any], spec: str, is_whole: bool = False) -> _Format:
    def bare(v: float) -> str:
        text = format(v, spec)
        return f"{text}." if is_whole and math.isfinite(v) else text

    width = max((len(bare(float(v))) for v in finite), default=1)
    return _Format(lambda v: bare(float(v)).rjust(width), width)


def _nested(array: NDArray[Any], number_format: _Format, indent: int, summarise: bool) -> str:
    if array.ndim == 0:
        return number_format.text(array[()])
    size, edge = array.shape[0], _options.edgeitems
    cut = summarise and size > 2 * edge
    picks: list[int | None] = [*range(edge), None, *range(size - edge, size)] if cut else list(range(size))
    if array.ndim == 1:
        words = [" ..." if i is None else number_format.text(array[i]) for i in picks]
        per_line = max(1, (_options.linewidth - indent) // (number_format.width + 2))
        lines = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    rows = ["..." if i is None else _nested(array[i], number_format, indent + 1, summarise) for i in picks]
    separator: str = "," + "\n" * int(array.ndim - 1) + " " * (indent + 1)
    return "[" + separator.join(rows) + "]"


def _history(tensor: Tensor) -> str:
    """Return the text of a tensor's gradient function; a view with an invalidated history is marked."""
    try:
        node = tensor.grad_fn
    except RuntimeError:
        return "grad_fn=<Invalid>"
    return "requires_grad=True" if node is None else f"grad_fn=<{node.name()}>"
