"""Indices of nonzero elements: counted by part, the counts summed, and written in order.

The grid fills the device, and each program has one part of the elements. One tile then holds all counts, and
a single step sums them. `nonzero` waits for the number of indices, which is the result's size;
`nonzero_static` does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.transfer import copy_across
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.data_ptr import DataPtr
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import bool_, int32, int64
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import contiguous_copy
from ..conversion import compute_type
from ..elementwise.complex_functions import is_true
from ..elementwise.elementwise import check_dtypes, complex_elementwise
from ..elementwise.factories import fill
from ..elementwise.pairs import part_type
from ..launch import ALIGNMENT, Launch, cdiv, integer_type, interpreted
from ..sorting.prefix_sum import SCAN_BLOCK, plan_running_total
from .index_bounds import allocate
from .index_space import block_for
from .nonzero_kernels import count_nonzero, write_nonzero

WARPS = 8
"""Warps of a program that writes indices: four 64-bit offsets for each lane and their sums, instead of eight."""
WRITTEN_BLOCK = 1024
COUNTED_BLOCK = {1: 2048, 2: 2048, 4: 1024, 8: 1024}
"""Elements of a tile that is counted by their size: a vector of 128 bits for each lane, at least."""


class Parts(NamedTuple):
    """How elements are shared out: programs, and of each the tiles that it counts and those that it writes."""

    programs: int
    counted: int
    written: int
    blocks: tuple[int, int]


def parts_of(n: int, itemsize: int) -> Parts:
    """Return parts of whole tiles, `SCAN_BLOCK` of them if there are enough elements."""
    if interpreted():
        block = block_for(-(-n // 2))
        blocks, unit = (block, block), block
    else:
        blocks = (COUNTED_BLOCK[itemsize], WRITTEN_BLOCK)
        unit = blocks[0]
    size = cdiv(cdiv(n, SCAN_BLOCK), unit) * unit
    return Parts(cdiv(n, size), size // blocks[0], size // blocks[1], blocks)


class Finder:
    """The launches over one tensor: counts and their sums, and one of each coordinate.

    Args:
        spec: with one element at least.
    """

    def __init__(self, spec: TensorSpec) -> None:
        self.spec, self.device = spec, spec.device
        self.flat, self.straightened = contiguous_copy(spec)
        self.parts = parts = parts_of(spec.numel, spec.itemsize)
        self.dtype: ScalarType = int32 if integer_type(spec.numel) == "i32" else int64
        self.total = plan_running_total(self.device, parts.programs, self.dtype)
        run = self._launch(count_nonzero, parts.counted, parts.blocks[0], {}, 4)
        self.count: Callable[[int, int], None] = lambda x, counts: run(x, counts, spec.numel, parts.counted)

    def _launch(self, kernel: Any, tiles: int, block: int, numbers: dict[str, int], warps: int) -> Any:
        x = f"*{self.spec.dtype.triton_name}"
        counts = f"*{self.dtype.triton_name}"
        kind = integer_type(
            self.parts.programs * tiles * block,
            *numbers.values(),
            numbers.get("step", 0) * numbers.get("limit", 0),
        )
        pointers = {"x": x, "counts": counts} if not numbers else {"x": x, "starts": counts, "out": "*i64"}
        launch = Launch(
            self.device,
            kernel,
            {**pointers, "n": kind, "tiles": kind, **dict.fromkeys(numbers, kind)},
            {
                "TYPE": compute_type(self.spec.dtype),
                "INDEX": tl.int32 if kind == "i32" else tl.int64,
                "BLOCK": block,
            },
            divisible=["n"] if self.spec.numel % ALIGNMENT == 0 else [],
            elements=("counts", "starts", "out"),
            num_warps=warps,
        )
        return lambda *values: launch((self.parts.programs, 1, 1), *values)

    def writes(self, step: int, limit: int) -> list[Callable[[int, int, int], None]]:
        """For each dimension the function of x, starts and out that writes its coordinates `step` elements apart."""
        made: list[Callable[[int, int, int], None]] = []
        parts, n = self.parts, self.spec.numel
        sizes = self.spec.sizes
        for size, stride in zip(sizes, contiguous_strides(sizes), strict=True):
            numbers = {"divisor": stride, "size": size, "step": step, "limit": limit}
            run = self._launch(write_nonzero, parts.written, parts.blocks[1], numbers, WARPS)
            values = (n, parts.written, *numbers.values())
            made.append(lambda x, starts, out, run=run, values=values: run(x, starts, out, *values))
        return made

    def starts_of(self, data: Any) -> DataPtr:
        """Return the number of indices before each part, and after the last."""
        starts = allocate((self.parts.programs + 1) * self.dtype.itemsize, self.device)
        self.count(data.address, starts.address)
        self.total(starts.address)
        return starts


def truths_of(call: StructuredCall, spec: TensorSpec) -> tuple[TensorSpec, Callable[[Any], DataPtr]]:
    """Return the bool spec of nonzero complex numbers, and the function that computes it."""
    truth = TensorSpec.contiguous(spec.sizes, bool_, spec.device)
    if spec.numel == 0:
        return truth, lambda data: allocate(0, spec.device)
    test = StructuredCall("ne", {"self": spec}, ("self",), (truth,), None, spec.device, {})
    into = complex_elementwise(test, is_true, [spec], [part_type(spec.dtype)], [True], False).into

    def truths(data: Any) -> DataPtr:
        out = allocate(truth.nbytes, truth.device)
        into(out, data)
        return out

    return truth, truths


def nonzero(call: StructuredCall) -> PlannedKernel:
    """Plan the indices, as (n, rank) over a (rank, n) block, and n."""
    spec = call.args["self"]
    if spec.dtype.is_complex:
        truth, truths = truths_of(call, spec)
        real_kernel = nonzero(call._replace(args=call.args | {"self": truth}))
        return PlannedKernel(lambda *_: None, lambda data: real_kernel.fresh(truths(data)))
    check_dtypes(call, [spec])
    device = spec.device
    if spec.numel == 0:
        return PlannedKernel(lambda *_: None, lambda data: (allocate(0, device), 0))
    finder = Finder(spec)
    writes = finder.writes(1, spec.numel)

    def fresh(data: Any) -> Any:
        data = finder.straightened(data)
        starts = finder.starts_of(data)
        total = np.zeros((), finder.dtype.np)
        copy_across(total, starts.offset_by(finder.parts.programs * total.itemsize), total.itemsize)
        count = int(total)
        nbytes = count * int64.itemsize
        out = allocate(nbytes * len(writes), device)
        if count:
            for d, write in enumerate(writes):
                write(data.address, starts.address, out.address + d * nbytes)
        return out, count

    return PlannedKernel(lambda *_: None, fresh)


def nonzero_static(call: StructuredCall) -> PlannedKernel:
    """Return the first indices of nonzero elements, padded with a fill value to a static size."""
    spec, out = call.args["self"], call.outputs[0]
    if spec.dtype.is_complex:
        truth, truths = truths_of(call, spec)
        into = nonzero_static(call._replace(args=call.args | {"self": truth})).into
        return PlannedKernel(lambda out_data, data: into(out_data, truths(data)))
    check_dtypes(call, [spec])
    number: int = call.args["fill_value"]
    clear = fill(call).into
    if spec.numel == 0 or out.numel == 0:
        return PlannedKernel(lambda out_data, data: clear(out_data, number))
    finder = Finder(spec)
    writes = finder.writes(out.strides[0], out.sizes[0])

    def into(out_data: Any, data: Any) -> None:
        data = finder.straightened(data)
        clear(out_data, number)
        starts = finder.starts_of(data)
        for d, write in enumerate(writes):
            write(data.address, starts.address, out_data.address + d * out.strides[1] * int64.itemsize)

    return PlannedKernel(into)


register_stub("nonzero_stub", "cuda", nonzero)
register_stub("nonzero_static_stub", "cuda", nonzero_static)
