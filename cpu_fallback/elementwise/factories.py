"""Fills and ranges."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.scalars import element_of, fitting_number, overflow_error, real, truncated
from ...dispatch.structured.meta.indexing import preserved
from ...dispatch.structured.stub import HostKernel, PlannedKernel, StructuredCall, register_stub
from ...runtime.device import CPU
from ...runtime.float_errors import quietly
from ...runtime.layout import strided
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import EXPONENTS, PACKED, int32, int64, uint64
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import np

MAX_CONSTANTS = 256
BLOCK = 1 << 15
"""Elements computed at a time: their float64 stay in the second-level cache."""


def in_blocks(count: int, part: Callable[[int, int], None]) -> None:
    """Call ``part(begin, end)`` for each block of this many elements, on threads."""

    def some(first: int, last: int) -> None:
        for block in range(first, last):
            part(block * BLOCK, min((block + 1) * BLOCK, count))

    parallel_for(0, -(-count // BLOCK), 1, some)


def fill(call: StructuredCall) -> PlannedKernel:
    """Fill every element with the number."""
    dtype = call.outputs[0].dtype
    if dtype is PACKED:
        raise call.refuse(call.outputs[0])
    known: dict[Any, Any] = {}
    # As floats, 0.0 and -0.0 are the same key.
    counts = call.args.get("value") is int

    def into(out: Any, *values: Any) -> None:
        value = values[-1]
        try:
            element = known[value]
        except KeyError:
            element = element_of(value, dtype)
            if (counts or value != 0) and len(known) < MAX_CONSTANTS:
                known[value] = element
        out.fill(element)

    return PlannedKernel(into)


def filled(call: StructuredCall) -> HostKernel:
    """Return the host kernel that makes a filled tensor with the strides of another."""
    spec = call.args["self"]
    out = TensorSpec.of(spec.sizes, preserved(spec), spec.dtype, spec.device)
    return HostKernel.of(fill(call._replace(outputs=(out,))), out)


def zero(call: StructuredCall) -> PlannedKernel:
    """Set every element to zero."""

    if call.outputs[0].dtype in (EXPONENTS, PACKED):
        # The byte 0, which is no zero among powers of two.
        return PlannedKernel(lambda out, *_: out.view(np.uint8).fill(0))

    def into(out: Any, *_: Any) -> None:
        out.fill(0)

    return PlannedKernel(into)


def arange(call: StructuredCall) -> PlannedKernel:
    """Write start + i * step to element i, computed in int64 or float64 and then rounded."""
    spec = call.outputs[0]
    if spec.dtype.is_complex or spec.dtype.name == "bool":
        raise call.refuse(spec)
    wide = np.dtype(np.int64 if spec.dtype.is_integral else np.float64)
    same = wide == spec.np_dtype
    count, sizes = spec.numel, spec.sizes
    whole = bool(spec.dtype.is_integral)
    if whole:
        widened = _whole(spec.dtype, _bits_of_int64 if spec.dtype is uint64 else wide.type)
    else:
        widened = _real_part_as(wide.type)

    @quietly
    def large(out: Any, _: Any, start: Any, step: Any) -> None:
        flat = out.reshape(-1)
        first, increment = widened(start), widened(step)
        last = int(first) + count * int(increment) if whole else 0
        counted = whole and increment and max(abs(last), abs(int(first))) < 1 << 62

        def part(begin: int, end: int) -> None:
            if counted:
                low, high = int(first) + begin * int(increment), int(first) + end * int(increment)
                np.copyto(flat[begin:end], np.arange(low, high, int(increment), wide), casting="unsafe")
                return
            values = np.arange(begin, end, dtype=wide)
            np.multiply(values, increment, values)
            np.add(values, first, values)
            np.copyto(flat[begin:end], values, casting="unsafe")

        in_blocks(count, part)

    if count > BLOCK and spec.is_contiguous:
        return PlannedKernel(large)

    @quietly
    def into(out: Any, _: Any, start: Any, step: Any) -> None:
        values = np.arange(count, dtype=wide).reshape(sizes)
        np.multiply(values, widened(step), values)
        np.add(values, widened(start), out if same else values)
        if not same:
            np.copyto(out, values, casting="unsafe")

    return PlannedKernel(into)


def _real_part_as(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a conversion of Python's numbers that takes the real part of a complex one."""
    return lambda number: convert(real(number))


def _whole(dtype: ScalarType, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a conversion of Python's numbers that refuses those that no integer of a dtype can be."""

    def converted(number: Any) -> Any:
        if number.__class__ is not int:
            if isinstance(number, complex):
                raise overflow_error(dtype)
            number = truncated(number, dtype.name)
        return convert(number)

    return converted


def _bits_of_int64(number: Any) -> np.int64:
    """Return the int64 with the bits of a uint64 number; sums of both wrap to the same bits."""
    return np.int64((int(number) + 2**63) % 2**64 - 2**63)


def linspace(call: StructuredCall) -> PlannedKernel:
    """Write evenly spaced numbers from `start` to `end`, both included, each half counted from its own end."""
    spec = call.outputs[0]
    if spec.dtype.name == "bool":
        raise call.refuse(spec)
    wide: Any = np.complex128 if spec.dtype.is_complex else np.float64
    count = spec.numel
    half, dtype = count // 2, spec.dtype
    whole, fitting = dtype.is_integral, fitting_number(dtype)
    beyond = 1 << 8 * dtype.itemsize if dtype.np.kind == "u" else 0

    def wrapped(bound: Any) -> int:
        return int(bound) + beyond if bound < 0 else int(bound)

    @quietly
    def large(out: Any, _: Any, start: Any, end: Any) -> None:
        flat = out.reshape(-1)
        start, end = fitting(start), fitting(end)
        if whole:
            start, end = wrapped(start), wrapped(end)
        first, last = wide(start), wide(end)
        step = (last - first) / (count - 1)

        def part(begin: int, stop: int) -> None:
            middle = min(max(half, begin), stop)
            rising = np.arange(begin, middle, dtype=np.float64)
            np.copyto(flat[begin:middle], first + step * rising, casting="unsafe")
            falling = np.arange(count - 1 - middle, count - 1 - stop, -1, dtype=np.float64)
            np.copyto(flat[middle:stop], last - step * falling, casting="unsafe")

        in_blocks(count, part)

    if count > BLOCK and spec.is_contiguous:
        return PlannedKernel(large)

    @quietly
    def into(out: Any, _: Any, start: Any, end: Any) -> None:
        if not count:
            return
        start, end = fitting(start), fitting(end)
        if whole:
            start, end = wrapped(start), wrapped(end)
        if count == 1:
            out.fill(start)
            return
        start, end = wide(start), wide(end)
        step = (end - start) / (count - 1)
        values = np.arange(count, dtype=np.float64).astype(wide, copy=False)
        values[:half] = start + step * values[:half]
        values[half:] = end - step * (count - 1 - values[half:])
        np.copyto(out, values.reshape(out.shape), casting="unsafe")

    return PlannedKernel(into)


MOST_LINES = 1 << 24
"""Rows and columns of a matrix whose lines are counted in arrays; the composite counts those of larger ones."""


def triangle(call: StructuredCall) -> HostKernel | None:
    """Return the host kernel of the indices of a triangle's entries, row by row."""
    row, col, offset, dtype, layout, device, pin = call.args.values()
    if row < 0 or col < 0 or layout not in (None, strided) or dtype not in (None, int32, int64) or pin:
        return None
    if device is not None and device.type != "cpu":
        return None
    if max(row, col) > MOST_LINES:
        return None
    is_upper = call.name.startswith("triu")
    first_column = min(max(offset if is_upper else offset + 1, -row), col)
    starts = np.arange(first_column, first_column + row).clip(0, col)
    lengths = col - starts if is_upper else starts
    entries = int(lengths.sum())
    if not is_upper:
        starts = np.zeros_like(starts)
    out_spec = TensorSpec.contiguous((2, entries), dtype or int64, CPU)

    def into(out: Any) -> None:
        rows, columns = out
        rows[...] = np.arange(row).repeat(lengths)
        columns[...] = np.arange(entries)
        columns -= (lengths.cumsum() - lengths - starts).astype(columns.dtype).repeat(lengths)

    def fresh() -> Any:
        out = np.empty(out_spec.sizes, out_spec.np_dtype)
        into(out)
        return out

    return HostKernel((out_spec,), fresh, into, declines=False)


register_stub("fill_stub", "cpu", fill)
register_stub("fill_host_stub", "cpu", filled)
register_stub("zero_stub", "cpu", zero)
register_stub("arange_stub", "cpu", arange)
register_stub("tril_indices_host_stub", "cpu", triangle)
register_stub("triu_indices_host_stub", "cpu", triangle)
register_stub("linspace_stub", "cpu", linspace)
