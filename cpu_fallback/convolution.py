"""Convolution as im2col and one matrix product for each group."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from .error_state import IGNORE, reset_state, set_state
from .widen import compute_np


def windows(
    padded: Any,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    out: tuple[int, int],
) -> Any:
    """A view (N, C, R, S, OH, OW) of a padded input: every window without a copy."""
    n, c = padded.shape[:2]
    sn, sc, sh, sw = padded.strides
    return np.lib.stride_tricks.as_strided(
        padded,
        (n, c, *kernel, *out),
        (sn, sc, sh * dilation[0], sw * dilation[1], sh * stride[0], sw * stride[1]),
        writeable=padded.flags.writeable,
    )


def pad(array: Any, padding: tuple[int, int], np_dtype: Any) -> Any:
    """The input in the dtype of the computation, with zeros around."""
    ph, pw = padding
    if not (ph or pw):
        return array if array.dtype == np_dtype else array.astype(np_dtype)
    n, c, h, w = array.shape
    out = np.zeros((n, c, h + 2 * ph, w + 2 * pw), np_dtype)
    out[:, :, ph : ph + h, pw : pw + w] = array
    return out


def convolution(call: StructuredCall) -> PlannedKernel:
    """Forward: weight (O, C/g * R * S) by columns (N, C/g * R * S, OH * OW), group by group."""
    args = call.args
    np_dtype = compute_np(args["input"].dtype)
    if args["input"].dtype.is_integral or args["input"].dtype.name == "bool":
        raise call.refuse(args["input"])
    groups = args["groups"]
    o, per_group, r, s = args["weight"].sizes
    n = args["input"].sizes[0]
    oh, ow = call.outputs[0].sizes[2:]
    stride, padding, dilation = args["stride"], args["padding"], args["dilation"]
    c = args["input"].sizes[1]
    k = per_group * r * s

    def into(out: Any, input: Any, weight: Any, bias: Any) -> None:
        token = set_state(IGNORE)
        try:
            view = windows(pad(input, padding, np_dtype), (r, s), stride, dilation, (oh, ow))
            columns = np.ascontiguousarray(view).reshape(n, groups, k, oh * ow)
            matrix = weight.astype(np_dtype, copy=False).reshape(groups, o // groups, k)
            result = np.matmul(matrix, columns).reshape(n, o, oh, ow)
            if bias is not None:
                result += bias.astype(np_dtype, copy=False).reshape(o, 1, 1)
            np.copyto(out, result, casting="unsafe")
        finally:
            reset_state(token)

    if 0 in (n, o, c, r, s, oh, ow):
        return PlannedKernel(_empty)
    return PlannedKernel(into)


def _empty(out: Any, input: Any, weight: Any, bias: Any = None) -> None:
    out.fill(0)
    if bias is not None:
        out += bias.reshape(-1, 1, 1)


def backward_input(call: StructuredCall) -> PlannedKernel:
    """Weight transposed by the gradient gives columns; each filter tap is added where it came from."""
    args = call.args
    np_dtype = compute_np(args["grad_output"].dtype)
    groups = args["groups"]
    o, per_group, r, s = args["weight"].sizes
    n, c, h, w = args["input_size"]
    oh, ow = args["grad_output"].sizes[2:]
    (sh, sw), (ph, pw), (dh, dw) = args["stride"], args["padding"], args["dilation"]
    k = per_group * r * s

    def into(out: Any, grad: Any, weight: Any) -> None:
        token = set_state(IGNORE)
        try:
            matrix = weight.astype(np_dtype, copy=False).reshape(groups, o // groups, k)
            flat = grad.astype(np_dtype, copy=False).reshape(n, groups, o // groups, oh * ow)
            columns = np.matmul(matrix.transpose(0, 2, 1), flat).reshape(n, c, r, s, oh, ow)
            full = np.zeros((n, c, h + 2 * ph, w + 2 * pw), np_dtype)
            for i in range(r):
                for j in range(s):
                    rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
                    cols = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
                    full[:, :, rows, cols] += columns[:, :, i, j]
            np.copyto(out, full[:, :, ph : ph + h, pw : pw + w], casting="unsafe")
        finally:
            reset_state(token)

    if 0 in (n, o, c, r, s, oh, ow):
        return PlannedKernel(lambda out, *_: out.fill(0))
    return PlannedKernel(into)


def backward_weight(call: StructuredCall) -> PlannedKernel:
    """The gradient by the columns, summed over the batch."""
    args = call.args
    np_dtype = compute_np(args["grad_output"].dtype)
    groups = args["groups"]
    o, per_group, r, s = args["weight_size"]
    n, c = args["input"].sizes[:2]
    oh, ow = args["grad_output"].sizes[2:]
    stride, padding, dilation = args["stride"], args["padding"], args["dilation"]
    k = per_group * r * s

    def into(out: Any, grad: Any, input: Any) -> None:
        token = set_state(IGNORE)
        try:
            view = windows(pad(input, padding, np_dtype), (r, s), stride, dilation, (oh, ow))
            columns = view.reshape(n, groups, per_group, r, s, oh, ow) if groups == 1 else None
            if columns is None:
                columns = np.ascontiguousarray(view).reshape(n, groups, per_group, r, s, oh, ow)
            stacked = np.ascontiguousarray(columns.transpose(1, 0, 5, 6, 2, 3, 4)).reshape(
                groups, n * oh * ow, k
            )
            flat = grad.astype(np_dtype, copy=False).reshape(n, groups, o // groups, oh * ow)
            rows = np.ascontiguousarray(flat.transpose(1, 2, 0, 3)).reshape(groups, o // groups, n * oh * ow)
            np.copyto(out, np.matmul(rows, stacked).reshape(o, per_group, r, s), casting="unsafe")
        finally:
            reset_state(token)

    if 0 in (n, o, c, r, s, oh, ow):
        return PlannedKernel(lambda out, *_: out.fill(0))
    return PlannedKernel(into)


register_stub("convolution_stub", "cpu", convolution)
register_stub("convolution_backward_input_stub", "cpu", backward_input)
register_stub("convolution_backward_weight_stub", "cpu", backward_weight)
