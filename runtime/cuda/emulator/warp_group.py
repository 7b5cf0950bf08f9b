"""Layouts of warpgroup matmuls (``wgmma``): operands, and accumulators in flight.

A 64-bit descriptor describes a matrix in shared memory: its start address, two strides and a swizzle. Source: NVIDIA,
PTX ISA 8.8, "Asynchronous Warpgroup Level Matrix Instructions"; CUTLASS, `mma_sm90_desc.hpp`, for the canonical
layouts.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .arithmetic import f2, f4, f8, i1, i4, u1, u2, u4
from .fault import RACE, Fault
from .tensor_maps import SPANS, swizzled

Array = np.ndarray[Any, Any]

GROUP = 128
"""Threads of a warpgroup."""
ITEMSIZE = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
CORE = 8
"""Rows of a core matrix, each of 16 bytes."""


class MatrixDescriptor(int):
    """Matrix descriptor: the 64 bits that describe a matrix in shared memory."""

    @property
    def start(self) -> int:
        """Start address."""
        return (self & 0x3FFF) << 4

    @property
    def leading(self) -> int:
        """Leading dimension byte offset."""
        return (self >> 16 & 0x3FFF) << 4

    @property
    def stride(self) -> int:
        """Stride dimension byte offset."""
        return (self >> 32 & 0x3FFF) << 4

    @property
    def base_offset(self) -> int:
        """Base offset: the shift of the swizzle pattern in lines of 128 bytes."""
        return self >> 49 & 7

    @property
    def swizzle(self) -> int:
        """Swizzle, numbered as in tensor maps."""
        return (0, 3, 2, 1)[self >> 62 & 3]


@functools.lru_cache(maxsize=256)
def chunk_offsets(
    lines: int, depth: int, itemsize: int, transposed: bool, leading: int, stride: int, swizzle: int
) -> Array:
    """Return the offsets of each 16 bytes of a matrix, before swizzling.

    The shape is (lines, chunks) for elements that are contiguous along K. Transposed, it is (depth, chunks) for
    elements that are contiguous along the other dimension.

    Example:
        >>> chunk_offsets(16, 16, 2, False, 0, 1024, 3)[9].tolist()
        [1152, 1168]
    """
    span = SPANS[swizzle]
    if not transposed:
        line, chunk = np.arange(lines)[:, None], np.arange(depth * itemsize // 16)[None, :]
        if swizzle == 0:
            return line // CORE * stride + line % CORE * 16 + chunk * leading
        return line // CORE * stride + line % CORE * span + chunk * 16
    line, chunk = np.arange(depth)[:, None], np.arange(lines * itemsize // 16)[None, :]
    if swizzle == 0:
        return line // CORE * leading + line % CORE * 16 + chunk * stride
    each = span // 16
    return line // CORE * stride + line % CORE * span + chunk % each * 16 + chunk // each * leading


@functools.cache
def _table(type_name: str) -> Array:
    import ml_dtypes

    dtype = ml_dtypes.float8_e4m3fn if type_name == "e4m3" else ml_dtypes.float8_e5m2
    table: Array = np.arange(256, dtype=np.uint8).view(dtype).astype(f8)
    return table


def exact(raw: Array, type_name: str) -> Array:
    """Convert bytes, contiguous in the last dimension, to numbers wide enough to be multiplied exactly."""
    match type_name:
        case "bf16":
            wide: Array = (raw.view(u2).astype(u4) << u4(16)).view(f4)
            return wide.astype(f8)
        case "f16":
            return raw.view(f2).astype(f8)
        case "tf32":  # the lower bits are ignored
            return (raw.view(u4) & u4(0xFFFFE000)).view(f4).astype(f8)
        case "s8":
            return raw.view(i1).astype(f8)
        case "u8":
            return raw.view(u1).astype(f8)
        case _:
            return _table(type_name)[raw]


def chunk_addresses(
    descriptor: MatrixDescriptor, lines: int, depth: int, itemsize: int, transposed: bool
) -> Array:
    """Return the positions of each 16 bytes of a matrix in a block's shared memory."""
    offsets = chunk_offsets(
        lines, depth, itemsize, transposed, descriptor.leading, descriptor.stride, descriptor.swizzle
    )
    return swizzled(descriptor.start + offsets, descriptor.swizzle)


def gathered(registers: list[Array], groups: Array, packed: bool) -> Array:
    """Return the accumulator (groups, 64, columns) from the registers of all threads."""
    stacked = np.stack([register.reshape(-1, GROUP)[groups] for register in registers])
    if packed:  # two of float16 in a register
        stacked = np.stack([stacked & u4(0xFFFF), stacked >> u4(16)], 1)
    count = stacked.shape[0] * (2 if packed else 1) // 4
    parts = stacked.reshape(count, 2, 2, groups.size, 4, 8, 4)
    return np.ascontiguousarray(parts.transpose(3, 4, 1, 5, 0, 6, 2)).reshape(groups.size, 64, 8 * count)


def spread(sums: Array, packed: bool) -> Array:
    """Return the registers (registers, threads) of an accumulator (groups, 64, columns): the inverse of `gathered`."""
    groups, _, columns = sums.shape
    parts = sums.reshape(groups, 4, 2, 8, columns // 8, 4, 2).transpose(4, 2, 6, 0, 1, 3, 5)
    registers = np.ascontiguousarray(parts).reshape(columns // 2, groups * GROUP)
    if packed:
        pairs = registers.reshape(columns // 4, 2, groups * GROUP)
        registers = pairs[:, 0] | (pairs[:, 1] << u4(16))
    return registers


def operand_of_registers(registers: list[Array], type_name: str, groups: Array) -> Array:
    """Return the left operand (groups, 64, depth) from four registers of each thread."""
    from .warp import GROUP as ROW
    from .warp import PLACE, _elements

    per = 4 // ITEMSIZE[type_name]
    operand = np.zeros((groups.size, 4, 16, 8 * per), f8)
    for i, register in enumerate(registers):
        values = _elements(register.reshape(-1, GROUP)[groups].reshape(-1, 32), type_name)
        for j in range(per):
            column = PLACE * per + i // 2 * 4 * per + j
            operand[:, :, ROW + 8 * (i % 2), column] = values[:, :, j].reshape(groups.size, 4, 32)
    return operand.reshape(groups.size, 64, 8 * per)


def added(product: Array, sums: Array | None, type_name: str, saturates: bool) -> Array:
    """Add an exact product to the accumulator and return the bits, rounded once; integers wrap or saturate."""
    from .warp import _rounded

    total: Any
    if type_name == "s32":
        total = product if sums is None else product + sums.view(i4)
        if saturates:
            total = np.clip(total, -(2**31), 2**31 - 1)
        bits: Array = total.astype(np.int64).astype(i4).view(u4)
    elif type_name == "f16":
        total = product if sums is None else product + sums.astype(u2).view(f2)
        bits = _rounded(total, f2).view(u2).astype(u4)
    else:
        total = product if sums is None else product + sums.view(f4)
        bits = _rounded(total, f4).view(u4)
    return bits


class Sums:
    """Accumulators in flight: `values` (groups, 64, columns) as bits, of the threads in `lanes`.

    `issued` has, for each thread, the group number of its last matmul. `landed` has the threads for which the
    assembler inserted a wait.
    """

    __slots__ = ("_spread", "count", "groups", "issued", "landed", "lanes", "packed", "values")

    def __init__(self, values: Array, groups: Array, lanes: Array, packed: bool, count: int) -> None:
        self.values, self.groups, self.lanes, self.packed, self.count = values, groups, lanes, packed, count
        self.issued: Array = np.zeros(lanes.size, np.int64)
        self.landed: Array | None = None
        self._spread: Array | None = None

    def put(self, values: Array) -> None:
        """Add another product."""
        self.values, self._spread = values, None

    def column(self, index: int) -> Array:
        """Return a register of all threads, with values for those in `lanes`."""
        if self._spread is None:
            self._spread = spread(self.values, self.packed)
        if self.groups.size * GROUP == self.lanes.size:
            column: Array = self._spread[index]
            return column
        whole = np.zeros((self.lanes.size // GROUP, GROUP), u4)
        whole[self.groups] = self._spread[index].reshape(-1, GROUP)
        return whole.reshape(-1)


class InFlight(np.lib.mixins.NDArrayOperatorsMixin):
    """Placeholder for a register while a matmul accumulates in it; it detects a read before the wait.

    Threads without a part in the matmul have `rest`.
    """

    __slots__ = ("index", "rest", "state", "sums")

    def __init__(self, state: Any, sums: Sums, index: int, rest: Any) -> None:
        self.state, self.sums, self.index, self.rest = state, sums, index, rest

    def value(self) -> Any:
        """Return the register's values. Raise Fault if an active thread has not waited for its own."""
        running = self.state.running
        early = self.sums.lanes if running is None else self.sums.lanes & running
        if early.any():
            if not self.state.launch.program.is_mended():
                raise Fault(
                    f"{RACE}: a register is read before its product is done: no wgmma.wait_group",
                    int(np.flatnonzero(early)[0]),
                )
            self.sums.landed = early if self.sums.landed is None else self.sums.landed | early
            self.sums.lanes = self.sums.lanes & ~early
        if isinstance(self.rest, InFlight):
            self.rest.value()
        return self.state.full(self.known())

    def known(self) -> Any:
        """Return the values of threads whose part of the register is not in flight."""
        rest = self.rest.known() if isinstance(self.rest, InFlight) else self.rest
        return (
            rest
            if self.sums.landed is None
            else np.where(self.sums.landed, self.sums.column(self.index), rest)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value(), name)

    def __getitem__(self, index: Any) -> Any:
        return self.value()[index]

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return np.asarray(self.value(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain_inputs = [each.value() if isinstance(each, InFlight) else each for each in inputs]
        return getattr(ufunc, method)(*plain_inputs, **options)

    def parts(self) -> Iterator[InFlight]:
        """Yield itself, and its rest while that is in flight too, for other threads."""
        each: Any = self
        while isinstance(each, InFlight):
            yield each
            each = each.rest


def settled(register: Any, due: Callable[[Sums], Array], columns: dict[int, set[int]]) -> Any:
    """Return a register after a wait. `due` selects the waiting threads; `columns` collects the completed registers."""
    if not isinstance(register, InFlight):
        return register
    sums, rest = register.sums, settled(register.rest, due, columns)
    lanes = due(sums)
    if sums.landed is not None:
        rest = merged(sums.landed, sums.column(register.index), rest)
        if not sums.lanes.any():
            return rest
    if not lanes.any():
        return register if rest is register.rest else InFlight(register.state, sums, register.index, rest)
    columns.setdefault(id(sums), set()).add(register.index)
    column = sums.column(register.index)
    settled_column = column if lanes.all() else merged(lanes, column, rest)
    still = (sums.lanes & ~lanes).any()
    return InFlight(register.state, sums, register.index, settled_column) if still else settled_column


def merged(mask: Any, new: Any, old: Any) -> Any:
    """Apply `np.where` to registers of which some may be in flight."""
    if isinstance(new, InFlight):
        lanes = new.sums.lanes
        if not (lanes & mask).any():
            return merged(mask, new.rest, old)
        if (lanes & ~mask).any():
            raise Fault(
                f"{RACE}: a register is copied while its product is under way",
                int(np.flatnonzero(lanes & mask)[0]),
            )
        return InFlight(new.state, new.sums, new.index, merged(mask & ~lanes, new.rest, old))
    if isinstance(old, InFlight):
        both = old.sums.lanes & mask
        if both.any():
            raise Fault(
                f"{RACE}: a register is written before its product is done: no wgmma.wait_group",
                int(np.flatnonzero(both)[0]),
            )
        return InFlight(old.state, old.sums, old.index, merged(mask, new, old.rest))
    return np.where(mask, new, old)
