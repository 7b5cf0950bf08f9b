"""Padding and interpolation: the taps of each dimension gathered one after another, gradients by sparse matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...dispatch.scalars import element_of
from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.line_maps import Kernel, Kind, LineMap, by_factors, fixed_maps
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...dispatch.structured.supported_dtypes import CPU_KERNELS
from ...runtime.float_errors import quietly
from ...runtime.memory_format import is_channels_last
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np
from ..widen import compute_np
from .banded_products import Band, BandedMaps
from .dense_maps import SMALL, mapped

Array = np.ndarray[Any, Any]

SHARED_FROM = 1 << 18
"""Results from which threads share the images."""


def taps(line: LineMap, real: Any) -> tuple[Array, Array | None]:
    """Return each position's taps, (out, taps), -1 for none, and their weights of type `real`; None if all are
    1.
    """
    o = np.arange(line.out)
    i = o - line.pad
    last = line.n - 1
    if line.kind is Kind.KEEP:
        return o[:, None], None
    if line.kind is Kind.CONSTANT:
        return np.where((i < 0) | (i > last), -1, i)[:, None], None
    if line.kind is Kind.REFLECT:
        return (last - np.abs(last - np.abs(i)))[:, None], None
    if line.kind is Kind.REPLICATE:
        return np.clip(i, 0, last)[:, None], None
    scale = real(line.scale)
    if line.kind.moves:
        half = real(0.5 if line.kind is Kind.NEAREST_EXACT else 0)
        position = np.floor(np.float32((o.astype(real) + half) * scale))
        return np.minimum(position.astype(np.int64), last)[:, None], None
    if line.kind.is_antialiased:
        return _antialiased_taps(line, real)
    position = (
        o.astype(real) * scale if line.align_corners else scale * (o.astype(real) + real(0.5)) - real(0.5)
    )
    if line.kind is Kind.LINEAR:
        if line.out == line.n:
            position = o.astype(real)
        position = np.maximum(position, real(0))
        first = np.minimum(position.astype(np.int64), last)
        part = np.clip(position - first.astype(real), real(0), real(1))
        index = np.stack([first, np.minimum(first + 1, last)], 1)
        return index, np.stack([real(1) - part, part], 1)
    first = np.minimum(np.floor(position).astype(np.int64), last)
    part = np.clip(position - first.astype(real), real(0), real(1))
    index = np.clip(first[:, None] + np.arange(-1, 3), 0, last)
    distance = np.stack([part + real(1), part, real(1) - part, real(2) - part], 1)
    return index, keys(distance, real(-0.75))


def keys(x: Array, a: Any) -> Array:
    """Evaluate Keys' cubic convolution kernel at distances of 0 to 2."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, x.dtype.type(0)))


def _antialiased_taps(line: LineMap, real: Any) -> tuple[Array, Array]:
    scale, half = real(line.scale), real(0.5)
    support, narrow = real(line.support), real(1.0 / max(line.scale, 1.0))
    center = scale * (np.arange(line.out).astype(real) + half)
    start = np.maximum((center - support + half).astype(np.int64), 0)
    count = np.clip(np.minimum((center + support + half).astype(np.int64), line.n) - start, 0, line.taps)
    index = start[:, None] + np.arange(int(count.max(initial=1)))
    x = np.abs((index.astype(real) - center[:, None] + half) * narrow)
    weight = keys(x, real(-0.5)) if line.kind is Kind.CUBIC_ANTIALIASED else np.maximum(real(1) - x, real(0))
    is_tap = np.arange(index.shape[1]) < count[:, None]
    weight = np.where(is_tap, weight, real(0))
    total = weight.sum(1, keepdims=True)
    weight = np.divide(weight, total, out=np.zeros_like(weight), where=total != 0)
    return np.where(is_tap, index, -1), weight


def real_of(np_dtype: Any) -> Any:
    """Return the scalar type of positions and weights for elements of a dtype."""
    return np.float64 if np_dtype in (np.float64, np.complex128) else np.float32


def check_dtype(call: StructuredCall, spec: TensorSpec) -> None:
    """Refuse the dtypes that PyTorch's kernels have not: all have the floating ones."""
    kind = call.extra["maps"][0].kind
    dtype = spec.dtype
    if kind in (Kind.REFLECT, Kind.REPLICATE):
        backward = "grad_output" in call.args
        known = dtype.is_floating_point or dtype.is_complex or (not backward and dtype.name != "bool")
    else:
        known = dtype.is_floating_point or (dtype.name == "uint8" and not is_linear_only(call.name))
    if not known:
        name = CPU_KERNELS.get(call.name, call.name.strip("_"))
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype.scalar_name}'")


def is_linear_only(name: str) -> bool:
    """Return True for linear interpolation over one or three dimensions, which does not support uint8."""
    return name.startswith(("upsample_linear1d", "upsample_trilinear3d"))


def forward(call: StructuredCall) -> PlannedKernel:
    """Compute the weighted sums of taps, the shorter dimension first."""
    spec = call.args["self"]
    check_dtype(call, spec)
    fixed = fixed_maps(call)
    if fixed is not None and fixed[0].kind.moves and 0 < call.outputs[0].numel <= SMALL:
        chosen(
            "a table of places", "{} results are at most {}, each an element", call.outputs[0].numel, SMALL
        )
        return _by_table(spec, fixed)

    def make(maps: tuple[LineMap, ...]) -> Kernel:
        kernel = general(maps)
        small = _by_products(call, maps, kernel)
        return kernel if small is None else small.into

    def general(maps: tuple[LineMap, ...]) -> Kernel:
        moves = maps[0].kind.moves
        is_byte = spec.dtype.name == "uint8"
        np_dtype = spec.dtype.np if moves else np.dtype(np.int32) if is_byte else compute_np(spec.dtype)
        real = np.float64 if is_byte and not moves else real_of(np_dtype)
        lines = [(axis - len(maps), taps(line, real)) for axis, line in enumerate(maps)]
        last = is_channels_last(spec.sizes, spec.strides, spec.ndim) if spec.ndim in (4, 5) else False
        if last and spec.ndim == len(maps) + 2:
            lines = [(axis - 1, line) for axis, line in lines]
        else:
            last = False

        precisions: dict[int, int] = {}
        if is_byte and not moves:
            for i, (axis, line) in enumerate(lines):
                weights, precisions[axis] = fixed_point(*line)
                lines[i] = (axis, (line[0], weights))
        banded = None if moves or is_byte else banded_maps(lines, maps, np_dtype, spec.numel)

        def by_taps(out: Array, array: Array) -> None:
            made = array if moves else array.astype(np_dtype, copy=False)
            for axis, (index, weight) in reversed(lines):
                made = gathered(made, axis, index, weight)
                if is_byte and not moves:
                    bits = precisions[axis]
                    made += 1 << bits >> 1
                    made >>= bits
                    np.clip(made, 0, 255, made)
            np.copyto(out, made, casting="unsafe")

        def into(out: Array, array: Array) -> None:
            if last:
                array, out = np.moveaxis(array, 1, -1), np.moveaxis(out, 1, -1)
            if banded is not None and array.size:
                banded.run(out, array, by_taps)
            elif out.size < SHARED_FROM or array.ndim <= len(maps) or len(array) == 1:
                by_taps(out, array)
            else:
                grain = -(-SHARED_FROM * len(out) // (2 * out.size))
                parallel_for(0, len(out), grain, lambda first, end: by_taps(out[first:end], array[first:end]))

        return into

    if call.extra["maps"][0].kind in (Kind.REFLECT, Kind.REPLICATE):
        bordered = _bordered(call.extra["maps"], spec.np_dtype)
        if bordered is not None:
            chosen("the middle, then borders", "all but the borders is copied as it lies")
            return PlannedKernel(bordered)
    if fixed is not None:
        kernel = quietly(general(fixed))
        small = _by_products(call, fixed, kernel)
        if small is None:
            chosen("line by line", "{} elements are more than {}, or only moved", spec.numel, SMALL)
            return PlannedKernel(lambda out, array, *_: kernel(out, array))
        chosen("products with matrices of weights", "{} elements are at most {}", spec.numel, SMALL)
        return small
    chosen("by the factors", "scale factors are numbers of the call")
    return PlannedKernel(quietly(by_factors(call, make)))


def _by_table(spec: TensorSpec, maps: tuple[LineMap, ...]) -> PlannedKernel:
    """Return the kernel that gathers a small result in one take, if each output is a single input element."""
    rank = len(maps)
    flat_index = np.arange(math.prod(spec.sizes[:-rank])).reshape(spec.sizes[:-rank])
    for line in maps:
        flat_index = flat_index[..., None] * line.n + taps(line, real_of(spec.np_dtype))[0][:, 0]

    def fresh(array: Array, *_: None) -> Array:
        return array.take(flat_index)

    return PlannedKernel(lambda out, array, *_: np.copyto(out, array.take(flat_index)), fresh)


def _by_products(call: StructuredCall, maps: tuple[LineMap, ...], kernel: Kernel) -> PlannedKernel | None:
    """Return the kernel of a small interpolation as matmuls with each dimension's weights, or None for others."""
    spec = call.args["self"]
    np_dtype = compute_np(spec.dtype)
    if maps[0].kind.moves or not spec.dtype.is_floating_point or spec.numel > SMALL:
        return None
    matrices = []
    for line in maps:
        index, weight = taps(line, real_of(np_dtype))
        made = np.zeros((line.n, line.out), np_dtype)
        is_tap = index >= 0
        columns = np.broadcast_to(np.arange(line.out)[:, None], index.shape)[is_tap]
        np.add.at(made, (index[is_tap], columns), 1 if weight is None else weight[is_tap])
        matrices.append(made)
    return mapped(spec, call.outputs[0], matrices, np_dtype, kernel)


def _bordered(maps: tuple[LineMap, ...], np_dtype: Any) -> Kernel | None:
    """Return a kernel that copies the input to the middle and fills the borders dimension by dimension.

    Return None if a border needs elements that are cropped at the other end, or if there is no middle.
    """
    sources, targets, borders = [], [], []
    for line in maps:
        low, high = max(line.pad, 0), min(line.n + line.pad, line.out)
        positions = taps(line, real_of(np_dtype))[0][:, 0] + line.pad
        if low >= high or positions.min() < low or positions.max() >= high:
            return None
        sources.append(slice(low - line.pad, high - line.pad))
        targets.append(slice(low, high))
        borders.append([(slice(0, low), positions[:low]), (slice(high, line.out), positions[high:])])
    source, target = (..., *sources), (..., *targets)

    def into(out: Array, array: Array, *_: Any) -> None:
        out[target] = array[source]
        for axis, sides in enumerate(borders):
            # The dimensions after this one have no borders yet.
            behind = targets[axis + 1 :]
            for where, positions in sides:
                if positions.size:
                    out[(..., where, *behind)] = out[(..., positions, *behind)]

    return into


def fixed_point(index: Array, weight: Array | None) -> tuple[Array | None, int]:
    """Return the weights of uint8 as integers, and the number of fraction bits: the most for which they fit 16
    bits.

    If a result takes one element several times at a border, its weights are merged. PyTorch's CPU kernels
    (ATen/native/cpu/UpSampleKernel.cpp) and Pillow compute the same way, and both round a half up.
    """
    if weight is None:
        return None, 0
    whole = weight.copy()
    for k in range(1, whole.shape[1]):
        for j in range(k):
            again = (index[:, k] == index[:, j]) & (whole[:, k] != 0)
            whole[again, j] += whole[again, k]
            whole[again, k] = 0
    maximum = whole.max(initial=0)
    bits = next((b for b in range(22) if int(0.5 + maximum * (1 << (b + 1))) >= 1 << 15), 22)
    return np.trunc(whole * (1 << bits) + np.where(whole < 0, -0.5, 0.5)).astype(np.int32), bits


def banded_maps(
    lines: Sequence[tuple[int, tuple[Array, Array | None]]],
    maps: Sequence[LineMap],
    np_dtype: Any,
    numel: int,
    backward: bool = False,
) -> BandedMaps | None:
    """Return the taps of each axis, or their transposes, as banded matrices, or None if one of them is too wide."""
    bands = []
    for (axis, (index, weight)), line in zip(lines, maps, strict=True):
        if line.kind is Kind.KEEP:
            continue
        is_tap = index.ravel() >= 0
        taken = index.ravel()[is_tap]
        results = np.repeat(np.arange(line.out), index.shape[1])[is_tap]
        values = np.ones(len(taken), np_dtype) if weight is None else weight.ravel()[is_tap]
        if backward:
            bands.append((axis, Band(line.out, line.n, results, taken, values, np_dtype, numel // line.out)))
        else:
            bands.append((axis, Band(line.n, line.out, taken, results, values, np_dtype, numel // line.n)))
    return BandedMaps(bands, np_dtype) if bands and all(band.is_narrow for _, band in bands) else None


def gathered(array: Array, axis: int, index: Array, weight: Array | None) -> Array:
    """Compute the weighted sums of taps along an axis, which is counted from the end."""
    if weight is None:
        return array.take(index[:, 0], axis, None, "clip")
    behind = -1 - axis
    total = None
    for k in range(index.shape[1]):
        part = np.take(array, np.maximum(index[:, k], 0), axis)
        absent = index[:, k] < 0
        if absent.any():
            part[(..., absent, *(slice(None),) * behind)] = 0
        part *= weight[:, k].reshape(-1, *(1,) * behind)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def constant_pad(call: StructuredCall) -> PlannedKernel:
    """Copy the input to the middle, and fill the border with a number."""
    maps: tuple[LineMap, ...] = call.extra["maps"]
    source = tuple(slice(max(-line.pad, 0), max(min(line.n, line.out - line.pad), 0)) for line in maps)
    target = tuple(slice(max(line.pad, 0), max(min(line.out, line.n + line.pad), 0)) for line in maps)
    borders = []
    for axis, line in enumerate(maps):
        inside = target[:axis]
        if target[axis].start:
            borders.append((*inside, slice(0, min(target[axis].start, line.out))))
        if target[axis].stop < line.out:
            borders.append((*inside, slice(max(target[axis].stop, 0), line.out)))
    fixed = None if "value" in call.runtime else call.args["value"]
    whole = any(s.stop <= s.start for s in (*source, *target))
    dtype = call.outputs[0].dtype

    def into(out: Array, array: Array, *values: Any) -> None:
        value = values[0] if fixed is None else fixed
        number = element_of(value, dtype)
        if whole:
            out[...] = number
            return
        for border in borders:
            out[border] = number
        out[target] = array[source]

    return PlannedKernel(quietly(into))


def matrix(line: LineMap, np_dtype: Any) -> Any:
    """(n, out): the weight of each element in each result, by `scipy.sparse`; weights of zero are kept."""
    from scipy.sparse import csr_array

    index, weight = taps(line, real_of(np_dtype))
    is_tap = index.ravel() >= 0
    columns = index.ravel()[is_tap]
    rows = np.repeat(np.arange(line.out), index.shape[1])[is_tap]
    values = np.ones(len(rows), real_of(np_dtype)) if weight is None else weight.ravel()[is_tap]
    order = np.argsort(columns, kind="stable")
    counts = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=line.n))])
    return csr_array((values[order], rows[order], counts), shape=(line.n, line.out))


def backward(call: StructuredCall) -> PlannedKernel:
    """Apply each dimension's transposed weights; gradients accumulate in the order of the results."""
    spec = call.args["grad_output"]
    check_dtype(call, spec)

    def make(maps: tuple[LineMap, ...]) -> Kernel:
        np_dtype = np.dtype(np.float32) if spec.dtype.name == "uint8" else compute_np(spec.dtype)
        last = spec.ndim in (4, 5) and is_channels_last(spec.sizes, spec.strides, spec.ndim)
        last = last and spec.ndim == len(maps) + 2
        axes = [axis - len(maps) - last for axis in range(len(maps))]
        banded = None
        if spec.dtype.name != "uint8":
            lines = [(axis, taps(line, real_of(np_dtype))) for axis, line in zip(axes, maps, strict=True)]
            banded = banded_maps(lines, maps, np_dtype, spec.numel, backward=True)
        matrices: list[tuple[int, Any]] = []

        def into(out: Array, grad: Array, *_: Any) -> None:
            if last:
                grad, out = np.moveaxis(grad, 1, -1), np.moveaxis(out, 1, -1)
            if banded is not None and grad.size:
                banded.run(out, grad, by_matrices)
            else:
                by_matrices(out, grad)

        def by_matrices(out: Array, grad: Array) -> None:
            if not grad.size:
                out.fill(0)
                return
            if not matrices:
                made_matrices = [
                    (axis, matrix(line, np_dtype)) for axis, line in zip(axes, maps, strict=True)
                ]
                matrices[:] = made_matrices
            made = grad.astype(np_dtype, copy=False)
            for axis, weights in matrices:
                moved = np.moveaxis(made, axis, 0)
                rest = moved.shape[1:]
                flat = np.ascontiguousarray(moved).reshape(moved.shape[0], math.prod(rest))
                made = np.moveaxis((weights @ flat).reshape(-1, *rest), 0, axis)
            np.copyto(out, made, casting="unsafe")

        return into

    return PlannedKernel(quietly(by_factors(call, make)))


NAMES = (
    *(f"{kind}_pad{rank}d" for kind in ("reflection", "replication") for rank in (1, 2, 3)),
    *(f"{kind}{rank}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3)),
    "upsample_linear1d",
    "upsample_bilinear2d",
    "upsample_bicubic2d",
    "upsample_trilinear3d",
    "_upsample_bilinear2d_aa",
    "_upsample_bicubic2d_aa",
)

register_stub("constant_pad_nd_stub", "cpu", constant_pad)
for _name in NAMES:
    register_stub(f"{_name}_stub", "cpu", forward)
    register_stub(f"{_name}_backward_stub", "cpu", backward)
