"""Notebook view of a tensor: its metadata, statistics of its elements, and a histogram or an image.

A large tensor is sampled at regular steps along each dimension. Only the sample is copied from a GPU.
"""

from __future__ import annotations

import html
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...runtime.layout import sparse_coo, strided
from ...runtime.quantized_data import QUANTIZED_BIT
from ..autograd.grad_mode import no_grad
from ..core.tensor_function import DisableTensorFunctionSubclass
from ..scalars import readable
from .pictures import COLOR_TYPES, grey, histogram, image
from .print_options import options
from .printing import elements_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIDE = 128
"""Side of an image in pixels; a sample has at most its square."""
MIN_PIXELS = 8
"""Minimum side of an image, in pixels."""
FEW = 12
"""Tensors of at most this many elements get no histogram."""


def notebook_view(tensor: Any) -> str:
    """Return an HTML fragment about a tensor; only metadata for one without values, such as a Meta tensor."""
    spec = tensor._spec
    parts = [f"<b>{html.escape(type(tensor).__name__)}</b> {html.escape(_facts(tensor))}"]
    array = _sample(tensor)
    if array is not None and array.size:
        is_whole = spec.layout is strided and array.size == spec.numel
        parts.append(html.escape(_numbers(array, is_whole)))
        parts.append(_drawing(array, spec))
        if is_whole and spec.numel <= options.threshold:
            parts.append(f'<pre style="margin:0">{html.escape(elements_text(array))}</pre>')
    return '<div class="triten-tensor">' + "".join(f"<div>{part}</div>" for part in parts if part) + "</div>"


def _facts(tensor: Any) -> str:
    spec = tensor._spec
    facts = [f"shape {list(spec.sizes)}", str(spec.dtype), f"device {spec.device}"]
    if spec.layout is not strided:
        facts.append(str(spec.layout))
        if not spec.is_meta:
            facts.append(f"nnz {tensor._nnz()}")
    else:
        facts.append(_size(spec.nbytes))
    if spec.keys & QUANTIZED_BIT:
        facts.append(str(tensor.qscheme()))
    if any(name is not None for name in spec.names):
        facts.append(f"names {spec.names}")
    if spec.requires_grad:
        facts.append("requires grad" if tensor.is_leaf else "has a history")
    if spec.is_meta:
        facts.append("no values")
    return " · ".join(facts)


def _size(nbytes: int) -> str:
    size = float(nbytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.4g} {unit}"
        size /= 1024
    return f"{size:.4g} TiB"


def _sample(tensor: Any) -> NDArray[Any] | None:
    """Return a sample of elements in host memory, all if there are few; None for a Meta or traced tensor."""
    spec = tensor._spec
    if spec.is_meta:
        return None
    try:
        with no_grad(), DisableTensorFunctionSubclass():
            plain = tensor.detach()
            if spec.layout is not strided:
                plain = plain._values() if spec.layout is sparse_coo else plain.values()
            plain = plain[_steps(tuple(plain.shape))]
            if spec.keys & QUANTIZED_BIT:
                plain = plain.dequantize()
            return readable(plain.contiguous().host_array())
    except (RuntimeError, NotImplementedError):
        # Tensors in a function that is being recorded or mapped have no readable values.
        return None


def _steps(sizes: tuple[int, ...]) -> tuple[slice, ...]:
    """Return slices that select at most `SIDE` squared elements, and for an image at most `SIDE` along either side."""
    picture = _picture_of(sizes)
    if picture is not None:
        step = slice(None, None, picture[1])
        return tuple(slice(None) if i == picture[0] else step for i in range(len(sizes)))
    steps = [1] * len(sizes)
    while (
        math.prod(left := [-(-size // step) for size, step in zip(sizes, steps, strict=True)]) > SIDE * SIDE
    ):
        steps[left.index(max(left))] *= 2
    return tuple(slice(None, None, step) for step in steps)


def _picture_of(sizes: tuple[int, ...]) -> tuple[int | None, int] | None:
    """Return the channel dimension of an image, if any, and the step along its sides; None for a non-image."""
    channels = None
    if len(sizes) == 3:
        channels = next((i for i in (0, 2) if sizes[i] in COLOR_TYPES), None)
        if channels is None:
            return None
    sides = [size for i, size in enumerate(sizes) if i != channels]
    if len(sides) != 2 or min(sides) == 0:
        return None
    step = -(-max(sides) // SIDE)
    return (channels, step) if -(-min(sides) // step) >= MIN_PIXELS else None


def _numbers(array: NDArray[Any], is_whole: bool) -> str:
    """Return the minimum, maximum and mean of the elements, and the number of non-finite ones."""
    sample_note = "" if is_whole else f" (of a sample of {array.size})"
    if array.dtype.kind == "b":
        return f"{int(array.sum())} of {array.size} True{sample_note}"
    values = np.abs(array) if array.dtype.kind == "c" else array
    finite = values[np.isfinite(values)]
    name = "absolute value " if array.dtype.kind == "c" else ""
    text = "no finite numbers"
    if finite.size:
        mean = finite.mean(dtype=np.float64)
        text = f"{name}min {finite.min():.4g} · mean {mean:.4g} · max {finite.max():.4g}"
    odd = values.size - finite.size
    return text + (f" · {odd} not finite" if odd else "") + sample_note


def _drawing(array: NDArray[Any], spec: Any) -> str:
    """Return an image if the shape allows it, else a histogram; an empty string for few elements."""
    picture = _picture_of(tuple(spec.sizes)) if spec.layout is strided else None
    if picture is not None and array.dtype.kind in "buif":
        if array.ndim == 2:
            return image((array if array.dtype == np.uint8 else grey(array))[..., None])
        pixels = np.moveaxis(array, picture[0] or 0, -1)
        if array.dtype == np.uint8:
            return image(pixels)
        if array.dtype.kind == "f" and ((array >= 0) & (array <= 1)).all():
            return image(np.round(pixels * 255).astype(np.uint8))
    values = np.abs(array) if array.dtype.kind == "c" else array
    values = values[np.isfinite(values)]
    return histogram(values) if values.size > FEW and array.dtype.kind != "b" else ""
