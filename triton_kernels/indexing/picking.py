"""Elements picked by index tensors: index, index_select, gather, take, embedding.

One program serves them all: an output element's place in the source is a strided offset plus what its index
says. Several index tensors are first made one, of places. Only bytes move, so dtypes differ by their size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.indexing import indexed_sizes
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import storage_size
from ...runtime.cuda.faults import WORD_BYTES
from ...runtime.device import device as Device
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import as_real, copy_kernel
from ..geometry import Geometry, broadcast_strides
from ..launch import launch_nothing
from .index_bounds import Bound, allocate, check_flags, flags_for, key_spec
from .index_space import BLOCK, MOVED_AS, Space, launch_over, space, split
from .picking_kernels import locate, pick, pick_runs

SHORTEST_RUN = 16
"""Shorter runs have no whole vectors of 128 bits whatever their dtype."""
LONGEST_RUN = 1 << 24
PICKED_TILE = {1: 2048}
"""Elements of a program by their size, where a vector of 128 bits for each lane takes more than `BLOCK`."""
RUN_TILE = {1: 4096, 2: 2048, 4: 1024, 8: 1024}
"""Elements of a program by their size: two vectors of 128 bits for each lane at least."""


def plan_locate(
    device: Device,
    sizes: Sequence[int],
    indices: Sequence[tuple[Bound, Sequence[int], int]],
    base: Sequence[int],
    keys: TensorSpec,
) -> Callable[[int, Sequence[int], int], None]:
    """Return the launches that write ``keys[j] = base . j + sum of index[j] * step``, in the order of j.

    Args:
        sizes: Sizes of the space that the indices are broadcast to.
        indices: for each its bound, its strides over `sizes`, and its step.
        base: strides of what is added by position.

    Returns:
        A function of the addresses of the keys, the index tensors and the flags.
    """
    steps: list[tuple[int, int, int, Callable[..., None]]] = []
    key_strides = contiguous_strides(tuple(sizes))
    n = math.prod(sizes)
    for position, (bound, strides, step) in enumerate(indices):
        own = base if position == 0 else [0] * len(base)
        operands = {"ij": strides, "bj": own, "kj": key_strides}
        inner, offsets = split(space("j", sizes, operands, True))
        pointers = {
            "index": f"*{bound.spec.dtype.triton_name}",
            "keys": f"*{keys.dtype.triton_name}",
            "flag": "*i32",
        }
        largest = (bound.size - 1) * step + sum((m - 1) * s for m, s in zip(sizes, own, strict=True))
        for index_offset, start, key_offset in offsets:
            numbers = {"start": start, "step": step, "size": bound.size}
            constants: dict[str, object] = {
                "ADDS": position > 0,
                "WRAPS": bound.wraps,
                "DENSE": inner.is_dense("ij", "kj"),
            }
            run = launch_over(
                device, locate, inner.numel, pointers, [inner], numbers, constants, max(largest, 0)
            )
            steps.append((position, index_offset * bound.spec.itemsize, key_offset * keys.itemsize, run))

    def run_all(keys: int, indices: Sequence[int], flags: int) -> None:
        for position, index_offset, key_offset, run in steps:
            run(indices[position] + index_offset, keys + key_offset, flags + WORD_BYTES * position)

    return run_all if n else lambda *_: None


def run_width(inner: Space) -> int:
    """Return the number of contiguous elements at each index, in output and source, or 0 if they are few."""
    sizes, strides = inner.geometry
    if len(sizes) < 2 or sizes[0] < SHORTEST_RUN or sizes[0] > LONGEST_RUN:
        return 0
    side_by_side = dict(zip(inner.names, (own[0] for own in strides), strict=True))
    return sizes[0] if side_by_side == {"od": 1, "sd": 1, "id": 0} else 0


def plan_pick(
    out: TensorSpec,
    source: TensorSpec,
    strides: Sequence[int],
    index: TensorSpec,
    index_strides: Sequence[int],
    step: int,
    bound: Bound | None,
) -> Callable[[int, int, int, int], None]:
    """Return the launches of ``out[d] = source[d, index[d]]``, as a function of source, index, out and flag
    addresses.

    `strides` and `index_strides` are over the output's sizes. Without a bound, the kernel does not check the
    index.
    """
    if out.itemsize == 16:
        out, source = as_real(out), as_real(source)
        strides, index_strides, step = (*(2 * s for s in strides), 1), (*index_strides, 0), 2 * step
    operands = {"od": out.strides, "sd": strides, "id": index_strides}
    inner, offsets = split(space("d", out.sizes, operands, False))
    type_ = f"*{MOVED_AS[out.itemsize]}"
    pointers = {"source": type_, "index": f"*{index.dtype.triton_name}", "out": type_, "flag": "*i32"}
    size = 1 if bound is None else bound.size
    constants: dict[str, object] = {"CHECKED": bound is not None, "WRAPS": bound is not None and bound.wraps}
    extent = storage_size(source.sizes, source.strides)
    numbers = {"step": step, "size": size}
    width = run_width(inner)
    if width:
        rest = Geometry(inner.geometry.sizes[1:], tuple(own[1:] for own in inner.geometry.strides))
        run = launch_over(
            out.device,
            pick_runs,
            inner.numel // width,
            pointers,
            [inner._replace(geometry=rest)],
            numbers,
            constants,
            extent + storage_size(out.sizes, out.strides),
            lanes=RUN_TILE[out.itemsize],
            width=width,
        )
    else:
        constants["DENSE"] = inner.is_dense("id", "od")
        lanes = PICKED_TILE.get(out.itemsize, BLOCK)
        run = launch_over(
            out.device, pick, inner.numel, pointers, [inner], numbers, constants, extent, lanes=lanes
        )

    def run_all(source_at: int, index_at: int, out_at: int, flag: int) -> None:
        for out_offset, source_offset, i in offsets:
            run(
                source_at + source_offset * out.itemsize,
                index_at + i * index.itemsize,
                out_at + out_offset * out.itemsize,
                flag,
            )

    return run_all


def pick_by_one(
    out: TensorSpec,
    source: TensorSpec,
    strides: Sequence[int],
    index_strides: Sequence[int],
    step: int,
    bound: Bound,
) -> Callable[[Any, Any, Any], None]:
    """Return the function ``(out, source, index)`` over bytes that gathers and checks bounds in one launch."""
    index = bound.spec
    if index.numel == 0:
        return launch_nothing
    if out.numel == 0:
        check = plan_check(bound)
        return lambda out_data, data, where: check(where)
    run = plan_pick(out, source, strides, index, index_strides, step, bound)
    bounds = (bound,)
    flags = flags_for(bounds, out.device)

    def into(out_data: Any, data: Any, where: Any) -> None:
        run(data.address, where.address, out_data.address, flags.begin())
        check_flags(flags, bounds, (where,))

    return into


def plan_check(bound: Bound) -> Callable[[Any], None]:
    """Return the function of an index tensor's bytes that only checks its bounds."""
    spec = bound.spec
    keys = key_spec(spec.sizes, 0, spec.device)
    zeros = [0] * spec.ndim
    run = plan_locate(spec.device, spec.sizes, [(bound, spec.strides, 0)], zeros, keys)
    bounds = (bound,)
    flags = flags_for(bounds, spec.device)

    def check(where: Any) -> None:
        scratch = allocate(keys.nbytes, spec.device)
        run(scratch.address, (where.address,), flags.begin())
        check_flags(flags, bounds, (where,))

    return check


def refuse_untyped(call: StructuredCall, specs: Sequence[TensorSpec]) -> None:
    """Refuse elements of a size that no kernel moves."""
    for spec in specs:
        if spec.itemsize not in MOVED_AS and spec.itemsize != 16:
            raise call.refuse(spec)


def index(call: StructuredCall) -> PlannedKernel:
    """``self[indices]`` with integer indices; an operand's strides over the result are zero where it is picked."""
    source, out = call.args["self"], call.outputs[0]
    indices = call.args["indices"]
    refuse_untyped(call, [out])
    sizes, strides = indexed_sizes(source, indices)
    used = [i for i, spec in enumerate(indices) if spec is not None]
    if not used:
        chosen("a copy", "no dimension has an index")
        copy = copy_kernel(out, source)
        return PlannedKernel(lambda out_data, data, indices: copy(out_data, data))
    rank = len(sizes) - (source.ndim - len(used))
    adjacent = used == list(range(used[0], used[-1] + 1))
    front = used[0] if adjacent else 0
    picked = sizes[front : front + rank]
    bounds = tuple(Bound(call.name, indices[i], source.sizes[i], i, True, IndexError) for i in used)
    own = [broadcast_strides(indices[i], picked) for i in used]

    def over_result(picked_strides: Sequence[int]) -> tuple[int, ...]:
        return (*[0] * front, *picked_strides, *[0] * (len(sizes) - front - rank))

    if len(used) == 1:
        only = used[0]
        chosen("one launch", "one dimension, {}, has an index", only)
        run_one = pick_by_one(out, source, strides, over_result(own[0]), source.strides[only], bounds[0])
        return PlannedKernel(lambda out_data, data, indices: run_one(out_data, data, indices[only]))
    if 0 in picked:
        return PlannedKernel(launch_nothing)
    chosen("places first, then elements", "{} dimensions have indices, which make one place each", len(used))
    steps = [source.strides[i] for i in used]
    largest = sum((source.sizes[i] - 1) * source.strides[i] for i in used)
    keys = key_spec(picked, largest, call.device)
    placed = list(zip(bounds, own, steps, strict=True))
    locate_all = plan_locate(call.device, picked, placed, [0] * rank, keys)
    run = None
    if out.numel:
        run = plan_pick(out, source, strides, keys, over_result(keys.strides), 1, None)
    device = call.device
    flags = flags_for(bounds, device)

    def into(out_data: Any, data: Any, indices: Sequence[Any]) -> None:
        wheres = [indices[i] for i in used]
        words = flags.begin()
        keys_data = allocate(keys.nbytes, device)
        locate_all(keys_data.address, [where.address for where in wheres], words)
        if run is not None:
            run(data.address, keys_data.address, out_data.address, words)
        check_flags(flags, bounds, wheres)

    return PlannedKernel(into)


def index_select(call: StructuredCall) -> PlannedKernel:
    """Return entries of one dimension."""
    source, out, where = call.args["self"], call.outputs[0], call.args["index"]
    refuse_untyped(call, [out])
    axis: int = call.extra["dim"]
    size = source.sizes[axis] if source.ndim else 1
    bound = Bound(call.name, where, size, axis, False, IndexError, "index out of range in self")
    stride = where.strides[0] if where.ndim else 0
    strides = tuple(0 if d == axis else s for d, s in enumerate(source.strides))
    along = tuple(stride if d == axis else 0 for d in range(out.ndim))
    step = source.strides[axis] if source.ndim else 0
    return PlannedKernel(pick_by_one(out, source, strides, along, step, bound))


def gather(call: StructuredCall) -> PlannedKernel:
    """Return elements along one dimension, each by its own index."""
    source, out, where = call.args["self"], call.outputs[0], call.args["index"]
    refuse_untyped(call, [out])
    axis: int = call.extra["dim"]
    size = source.sizes[axis] if source.ndim else 1
    bound = Bound(call.name, where, size, axis, False, RuntimeError)
    strides = tuple(0 if d == axis else s for d, s in enumerate(source.strides))[: out.ndim]
    strides = (*strides, *[0] * (out.ndim - len(strides)))
    step = source.strides[axis] if source.ndim else 0
    return PlannedKernel(pick_by_one(out, source, strides, where.strides, step, bound))


def take(call: StructuredCall) -> PlannedKernel:
    """Return elements of the flattened tensor, which is made contiguous for it."""
    source, out, where = call.args["self"], call.outputs[0], call.args["index"]
    refuse_untyped(call, [out])
    message = "out of range: tried to access index {wrong} on a tensor of {size} elements."
    bound = Bound(call.name, where, source.numel, 0, True, IndexError, message)
    flat = TensorSpec.contiguous((source.numel,), source.dtype, source.device)
    run = pick_by_one(out, flat, [0] * out.ndim, where.strides, 1, bound)
    if source.is_contiguous:
        return PlannedKernel(run)
    straighten = copy_kernel(TensorSpec.contiguous(source.sizes, source.dtype, source.device), source)

    def into(out_data: Any, data: Any, where: Any) -> None:
        buffer = allocate(flat.nbytes, flat.device)
        straighten(buffer, data)
        run(out_data, buffer, where)

    return PlannedKernel(into)


def embedding(call: StructuredCall) -> PlannedKernel:
    """Return rows of a table."""
    table, out, where = call.args["weight"], call.outputs[0], call.args["indices"]
    refuse_untyped(call, [out])
    bound = Bound(call.name, where, table.sizes[0], 0, False, IndexError, "index out of range in self")
    strides = (*[0] * where.ndim, table.strides[1])
    along = (*where.strides, 0)
    return PlannedKernel(pick_by_one(out, table, strides, along, table.strides[0], bound))


for _stub, _factory in {
    "index_stub": index,
    "index_select_stub": index_select,
    "gather_stub": gather,
    "take_stub": take,
    "embedding_stub": embedding,
}.items():
    register_stub(_stub, "cuda", _factory)
