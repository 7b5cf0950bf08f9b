"""Windows of images as columns, and columns added up: a tap of the window after the other over whole images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...dispatch.structured.meta.fold import Windows
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import compute_np

Array = np.ndarray[Any, Any]


def check_dtype(call: StructuredCall) -> None:
    """Refuse integers other than bool, which PyTorch's kernels have not."""
    dtype = call.args["self"].dtype
    if not (dtype.is_floating_point or dtype.is_complex or dtype.name == "bool"):
        name = "im2col_out_cpu" if call.name == "im2col" else "col2im_out_cpu"
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


def taps_of(windows: Windows) -> Iterator[tuple[int, int, tuple[slice, slice]]]:
    """Yield each tap with the slices of the padded image that it reads."""
    (kh, kw), (dh, dw), (sh, sw), (oh, ow) = windows.kernel, windows.dilation, windows.stride, windows.out
    for y in range(kh):
        for x in range(kw):
            rows = slice(y * dh, y * dh + (oh - 1) * sh + 1, sh)
            columns = slice(x * dw, x * dw + (ow - 1) * sw + 1, sw)
            yield y, x, (rows, columns)


def im2col(call: StructuredCall) -> PlannedKernel:
    """Copy each tap's elements to a row of the result."""
    check_dtype(call)
    windows: Windows = call.extra["windows"]
    (kh, kw), (ph, pw) = windows.kernel, windows.padding

    def into(out: Array, array: Array) -> None:
        images = array.reshape(-1, *array.shape[-3:])
        n, c = images.shape[:2]
        padded = np.pad(images, ((0, 0), (0, 0), (ph, ph), (pw, pw))) if ph or pw else images
        target = np.empty((n, c, kh, kw, *windows.out), out.dtype)
        for y, x, tap_slices in taps_of(windows):
            target[:, :, y, x] = padded[(slice(None), slice(None), *tap_slices)]
        np.copyto(out, target.reshape(out.shape))

    return PlannedKernel(into)


def col2im(call: StructuredCall) -> PlannedKernel:
    """Add each tap's row to the elements that the tap covers, in the order of the taps."""
    check_dtype(call)
    windows: Windows = call.extra["windows"]
    dtype = call.args["self"].dtype
    np_dtype = compute_np(dtype)
    (kh, kw), (ph, pw), (h, w) = windows.kernel, windows.padding, windows.size

    def into(out: Array, array: Array) -> None:
        c = out.shape[-3]
        columns = array.reshape(-1, c, kh, kw, *windows.out)
        padded = np.zeros((len(columns), c, h + 2 * ph, w + 2 * pw), np_dtype)
        for y, x, tap_slices in taps_of(windows):
            padded[(slice(None), slice(None), *tap_slices)] += columns[:, :, y, x]
        inside = padded[:, :, ph : ph + h, pw : pw + w]
        np.copyto(out, inside.reshape(out.shape), casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("im2col_stub", "cpu", im2col)
register_stub("col2im_stub", "cpu", col2im)
