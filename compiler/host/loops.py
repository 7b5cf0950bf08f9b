"""Fused CPU kernel as compiled loops (the extra ``triten[jit]``), with NumPy calls between them.

A kernel of one loop passes over its arrays once. A kernel with NumPy functions runs its loops and these functions on a
block of `BLOCK_BYTES` at a time, which stays in the cache. Threads of the pool share parts and blocks, which the
geometry alone determines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...cpu_fallback.blocks import block_indices
from ...cpu_fallback.function_check import has_bits_of_eager
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.element_loop import Loop
from ...runtime.cpu.element_program import ElementProgram, Value
from ...runtime.cpu.llvm_source import write_loop
from ...runtime.cpu.loop_requests import Sharing
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.cpu.task_pool import shared_loop
from ...runtime.cpu.task_pool_source import MAX_POINTERS
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import BY_NAME
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from ...triton_kernels.geometry import broadcast_strides, coalesced
from ..schedule import FusedKernel, RowsKernel
from .draws import reservation
from .lowering import Lowered
from .numpy_calls import call_text
from .stages import NumpyStep, Stages, staged

PARTS = 64
"""Maximum number of parts of an index space, which threads take one by one."""
PART = 1 << 16
"""Minimum elements of a part, or a quarter of all elements if these are few."""
MIN_PART = 1 << 12
SHARED_FROM = 1 << 19
"""Bytes of a kernel's arrays, or twice its instructions, from which threads share its loop: some 8 us of work."""
WAKING_FROM = 1 << 22
"""Those from which threads that sleep are woken for it."""

TILE = 16
"""Tile size along the innermost dimension, if an array is contiguous along another one."""
TURNED_FROM = 1 << 16
"""Elements from which that matters: fewer stay in the cache."""

Kernel = Callable[..., tuple[Any, ...]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]


def stages_of(kernel: FusedKernel) -> Stages | None:
    """Return the stages of a kernel with loops; None if llvmlite is missing or NumPy computes all."""
    loop_target = target()
    if loop_target is None:
        return None
    made = staged(
        Lowered(kernel, ElementProgram(loop_target.converts_half, loop_target.truncates, has_bits_of_eager))
    )
    if any(has_too_many_arrays(len(loop.reads), len(loop.writes)) for loop in made.loops):
        return None
    return made if made.loops else None


def has_too_many_arrays(num_inputs: int, num_outputs: int) -> bool:
    """Return True if a loop has more arrays, with seeds and a workspace, than threads that share it can be given.

    The bound on a kernel's operands is lower, but an input that is both gathered from and read in place is two arrays.
    """
    return num_inputs + num_outputs + 2 > MAX_POINTERS


class Geometry:
    """An index space for a loop, outermost dimension first, and the strides of its arrays over it, in bytes."""

    def __init__(
        self, sizes: Sequence[int], strides: Sequence[Sequence[int]], itemsizes: Sequence[int]
    ) -> None:
        self.sizes, self.strides, self.itemsizes = tuple(sizes), [tuple(s) for s in strides], itemsizes

    @staticmethod
    def merged(sizes: Sequence[int], strides: Sequence[Sequence[int]], itemsizes: Sequence[int]) -> Geometry:
        """Return a geometry with as few dimensions as possible; strides are in elements."""
        geometry = coalesced(sizes, strides)
        if not geometry.sizes:  # one element
            return Geometry((1,), [(size,) for size in itemsizes], itemsizes)
        own = [
            tuple([s * size for s in reversed(element_strides)])
            for element_strides, size in zip(geometry.strides, itemsizes, strict=True)
        ]
        return Geometry(geometry.sizes[::-1], own, itemsizes)

    @property
    def steps(self) -> list[str]:
        """Step of each array along the innermost dimension."""
        return [
            "unit" if s[-1] == size else "zero" if not s[-1] else "any"
            for s, size in zip(self.strides, self.itemsizes, strict=True)
        ]

    @property
    def turned(self) -> int | None:
        """Dimension other than the innermost along which some array is contiguous; None if there is none."""
        for own in self.strides:
            moving = [d for d, s in enumerate(own) if s]
            if moving and own[-1]:
                fast = min(moving, key=lambda d: (abs(own[d]), -d))
                if fast != len(own) - 1:
                    return fast
        return None

    def parts(self, limit: int) -> list[Numbers]:
        """Return the space in parts of about `limit` elements."""
        return [self.numbers(index) for index in block_indices(self.sizes, None, limit)]

    def tiled(self, along: int, limit: int) -> tuple[Geometry, list[Numbers]]:
        """Return the same space with the innermost dimension tiled, and its parts.

        Within a tile the loop also goes along another dimension before it goes on. So the cache still has the lines of
        an array whose contiguous dimension is that one.
        """
        inner = len(self.sizes) - 1
        order = [*(d for d in range(inner) if d != along), along, inner]
        tiles, rest = divmod(self.sizes[-1], TILE)
        strides = [(TILE * own[-1], *(own[d] for d in order)) for own in self.strides]
        outer = [self.sizes[d] for d in order[:-1]]
        whole = Geometry((tiles, *outer, TILE), strides, self.itemsizes)
        parts = whole.parts(limit)
        if rest:
            last = Geometry((tiles + 1, *outer, TILE), strides, self.itemsizes)
            for index in block_indices(outer, None, max(limit // rest, 1)):
                parts.append(last.numbers((slice(tiles, tiles + 1), *index, slice(0, rest))))
        return whole, parts

    def numbers(self, index: Sequence[slice]) -> Numbers:
        """Return a part of the space, as compiled code reads it."""
        starts = [s.start for s in index]
        numbers = [min(s.stop, n) - s.start for s, n in zip(index, self.sizes, strict=True)]
        for own in self.strides:
            numbers += [sum(a * b for a, b in zip(starts, own, strict=True)), *own]
        return np.array(numbers, np.int64)


def one_loop(kernel: FusedKernel, loop: Loop) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays that runs a single loop."""
    input_indices = [v.detail for v in loop.reads]
    outs = [int(name[1:]) for _, name in loop.writes]
    geometry = whole_geometry(kernel, outs, loop.reads)
    work = work_of(kernel, input_indices, len(loop.instructions))
    numel = kernel.domain.numel
    geometry, parts = parts_of(geometry, numel, part_limit(work, numel))
    function = loop_function(_text(loop, geometry))
    return over_parts(kernel, function, parts, outs, input_indices, sharing_of(work))


def whole_geometry(kernel: FusedKernel, outs: Sequence[int], reads: Sequence[Value]) -> Geometry:
    """Return a kernel's index space, with the numbered outputs first, then the inputs read, and the seeds."""
    domain = kernel.domain
    specs = [kernel.outputs[j].val for j in outs] + [kernel.inputs[value.detail].val for value in reads]
    seeds = [1] if kernel.draws else []
    return Geometry.merged(
        domain.sizes,
        [
            *(broadcast_strides(kernel.outputs[j].val, domain.sizes) for j in outs),
            *(strides_of_read(kernel, value) for value in reads),
            *(contiguous_strides(domain.sizes) for _ in seeds),
        ],
        [*(s.itemsize for s in specs), *seeds],
    )


def strides_of_read(kernel: FusedKernel, value: Value) -> tuple[int, ...]:
    """Return the strides of an input over a kernel's index space; for a gather, those of the element at index 0."""
    if value.kind == "place":
        return kernel.picks[int(value.text)].strides
    return broadcast_strides(kernel.inputs[value.detail].val, kernel.domain.sizes)


def work_of(kernel: FusedKernel, input_indices: Sequence[int], instructions: int) -> int:
    """Return the work of a kernel: the bytes that it reads and writes, or twice its instructions for all elements."""
    nodes = [*kernel.outputs, *(kernel.inputs[i] for i in input_indices)]
    nbytes: int = sum(node.val.nbytes for node in nodes)
    return max(nbytes, 2 * kernel.domain.numel * instructions)


def part_limit(work: int, numel: int) -> int:
    """Return the maximum number of elements of a part."""
    return part_limit_of(sharing_of(work), numel)


def sharing_of(work: int) -> Sharing:
    """Return how threads share work, in bytes or twice the instructions."""
    return Sharing.of(work, SHARED_FROM, WAKING_FROM)


def part_limit_of(sharing: Sharing, numel: int) -> int:
    """Return the number of elements of a part, given how threads share all of them."""
    least = min(PART, max(MIN_PART, -(-numel // 4)))
    return max(least, -(-numel // PARTS)) if sharing else numel


def parts_of(geometry: Geometry, numel: int, limit: int) -> tuple[Geometry, list[Numbers]]:
    """Return a geometry in parts of about `limit` elements, tiled if a large array is contiguous along another
    dimension."""
    turned = geometry.turned
    if turned is not None and numel >= TURNED_FROM and geometry.sizes[-1] > TILE:
        return geometry.tiled(turned, limit)
    return geometry, geometry.parts(limit)


def over_parts(
    kernel: FusedKernel | RowsKernel,
    loop: Callable[..., None],
    parts: Sequence[Numbers],
    outs: Sequence[int],
    input_indices: Sequence[int],
    sharing: Sharing,
    workspace: int | None = None,
    sums: tuple[tuple[int, ...], Sequence[int]] | None = None,
) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays that calls a loop for each part.

    Args:
        kernel: The kernel.
        loop: The loop, called with a part and arrays: outputs, inputs, seeds, sums of the parts, and a workspace, each
            if any.
        parts: The index space.
        outs: The outputs that the loop writes, in its order.
        input_indices: The inputs that it reads.
        sharing: How threads share the parts.
        workspace: Bytes of the workspace of each thread. Default: None.
        sums: Sizes of the parts' float64 sums, with parts as the first dimension, and the outputs along the second
            one.
    """
    arrays = [
        *(f"o{j}" for j in outs),
        *(f"a{i}" for i in input_indices),
        *(["seeds"] if kernel.draws else []),
    ]
    arrays += [] if sums is None else ["sums"]
    room = None if workspace is None else (len(arrays), max(workspace, 1))
    globals_: dict[str, Any] = {"loop": shared_loop(loop, parts, sharing, room)}
    lines = [f"def compute({', '.join(f'a{i}' for i in range(len(kernel.inputs)))}):"]
    for j, node in enumerate(kernel.outputs):
        globals_[f"new{j}"] = allocator_of(node.val)
        lines.append(f"    o{j} = new{j}()")
    if kernel.draws:
        globals_["reserve"] = reservation(kernel.draws)
        lines.append("    seeds = reserve()")
    if sums is not None:
        globals_ |= {"zeros": np.zeros, "sizes": sums[0], "copyto": np.copyto}
        lines.append("    sums = zeros(sizes)")
    lines.append(f"    loop({', '.join(arrays)})")
    if sums is not None:
        lines.append("    totals = sums.sum(0)")
        lines += [
            f"    copyto(o{j}, totals[{c}].reshape(o{j}.shape), 'unsafe')" for c, j in enumerate(sums[1])
        ]
    lines.append(f"    return ({''.join(f'o{j}, ' for j in range(len(kernel.outputs)))})")
    computed: Kernel = defined("compute", "\n".join(lines) + "\n", f"kernel {kernel.name}", globals_)
    return computed


def block_program(
    kernel: FusedKernel, stages: Stages, shape: tuple[int, ...], specs: dict[Node, TensorSpec]
) -> Kernel:
    """Return a function of a block's contiguous output arrays, and input arrays of these specs.

    Later steps reuse arrays that no other step needs any more.
    """
    writer = _BlockWriter(kernel, stages, shape, specs)
    head = [f"o{i}" for i in range(len(kernel.outputs))] + [f"a{i}" for i in range(len(kernel.inputs))]
    text = "\n".join([f"def compute({', '.join(head)}):", *writer.lines()]) + "\n"
    made: Kernel = defined("compute", text, f"block of {kernel.name}", writer.globals)
    return made


class _BlockWriter:
    def __init__(
        self, kernel: FusedKernel, stages: Stages, shape: tuple[int, ...], specs: dict[Node, TensorSpec]
    ) -> None:
        self.kernel, self.stages, self.shape = kernel, stages, shape
        self.specs = dict(specs)
        for call in kernel.pointwise:
            self.specs[call.node] = call.node.val.replace(sizes=shape, strides=contiguous_strides(shape))
        own = [f"o{i}" for i in range(len(kernel.outputs))] + [f"a{i}" for i in range(len(kernel.inputs))]
        self.names = {name: name for name in own}
        self.free: dict[Any, list[str]] = {}
        self.globals: dict[str, Any] = {"empty": np.empty, "shape": shape}
        self.text: list[str] = []

    def lines(self) -> list[str]:
        """Return the body."""
        steps = self.stages.steps
        last: dict[str, int] = {}
        for i, step in enumerate(steps):
            for value in step.reads:
                last[self.stages.arrays[id(value)]] = i
        for i, step in enumerate(steps):
            ended = [v for v in dict.fromkeys(step.reads) if last[self.stages.arrays[id(v)]] == i]
            if isinstance(step, Loop):
                for value, name in step.writes:
                    self._allocate(name, self._dtype(value))
                self._loop(i, step)
                self._release(ended)
            else:
                # A ufunc may write to the array that it reads.
                if step.value.kind == "ufunc":
                    self._release(ended)
                self._allocate(step.target, self._dtype(step.value))
                self._numpy(i, step)
                if step.value.kind != "ufunc":
                    self._release(ended)
        return self.text

    def _dtype(self, value: Value) -> np.dtype[Any]:
        if value.kind == "operator":
            return value.detail.node.val.np_dtype  # type: ignore[no-any-return]
        dtype: np.dtype[Any] = BY_NAME[value.dtype].np
        return dtype

    def _allocate(self, name: str, dtype: np.dtype[Any]) -> None:
        if name in self.names:
            return
        spare = self.free.get(dtype)
        if spare:
            self.names[name] = spare.pop()
            return
        self.names[name] = name
        self.globals[f"d{name}"] = dtype
        self.text.append(f"    {name} = empty(shape, d{name})")

    def _release(self, values: Sequence[Value]) -> None:
        for value in values:
            name = self.stages.arrays[id(value)]
            if name[0] == "t":
                self.free.setdefault(self._dtype(value), []).append(self.names[name])

    def _loop(self, i: int, loop: Loop) -> None:
        whole = contiguous_strides(self.shape)
        strides, itemsizes = [whole] * len(loop.writes), [self._dtype(v).itemsize for v, _ in loop.writes]
        for value in loop.reads:
            itemsizes.append(self._dtype(value).itemsize)
            if value.kind == "input":
                strides.append(broadcast_strides(self.specs[self.kernel.inputs[value.detail]], self.shape))
            else:
                strides.append(whole)
        geometry = Geometry.merged(self.shape, strides, itemsizes)
        self.globals[f"loop{i}"] = loop_function(_text(loop, geometry))
        self.globals[f"g{i}"] = geometry.numbers([slice(0, n) for n in geometry.sizes])
        arrays = [self.names[name] for _, name in loop.writes]
        arrays += [self.names[self.stages.arrays[id(v)]] for v in loop.reads]
        self.text.append(f"    loop{i}(g{i}, {', '.join(arrays)})")

    def _numpy(self, i: int, step: NumpyStep) -> None:
        value, out = step.value, self.names[step.target]
        operand_names = [self.names[self.stages.arrays[id(v)]] for v in value.operands]
        if value.kind == "ufunc":
            self.globals[f"k{i}"] = value.detail
            self.text.append(f"    k{i}({operand_names[0]}, {out})")
            return
        call = value.detail
        _, planned = call.planned(self.specs)
        names = dict(zip([o for o in call.operands if isinstance(o, Node)], operand_names, strict=True))
        self.text.append(
            f"    {call_text(planned.unshared or planned.into, out, i, call.operands, names, self.globals)}"
        )


def _text(loop: Loop, geometry: Geometry) -> str:
    return write_loop(loop, geometry.steps, len(geometry.sizes))
