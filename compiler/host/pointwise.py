"""Fused CPU kernel: one function of arrays, which runs all of its steps on a block at a time.

A small kernel computes each step whole, with the kernel of an eager call. A large kernel goes in blocks of
`BLOCK_BYTES`: the next step reads intermediate results from the cache, and only inputs and outputs go to memory.
Threads of the pool share the blocks, which the geometry alone determines.

If `loops` can compile some of the steps, its programs replace those of NumPy alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ...cpu_fallback.blocks import block_indices
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.object_code import is_possible
from ...runtime.float_errors import run_quiet, run_quiet_copy
from ...runtime.memory_format import contiguous_strides
from ...runtime.parallel import parallel_for
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from ..schedule import FusedKernel, RowsKernel
from .cut_kernels import cut_kernel
from .numpy_calls import call_text
from .picks import checked

if TYPE_CHECKING:
    from .stages import Stages

BLOCK_BYTES = 1 << 18
"""Bytes of the widest array of a block. Half a dozen of them fit in a core's own cache. With a fourth of it, threads
wait for the GIL between passes longer than the cache saves."""
WHOLE_UP_TO = 1 << 15
"""The most elements for which steps are computed whole: they fit in the cache."""
SHARED_FROM = 1 << 17
"""Elements, times steps of the kernel, from which blocks are shared among threads: it takes some 70 us to wake one."""

Kernel = Callable[..., tuple[Any, ...]]
ProgramMaker = Callable[[tuple[int, ...], dict[Node, TensorSpec]], Kernel]
"""From a block's shape and its inputs' specs to a function of its output arrays and input arrays."""


def host_kernel(kernel: FusedKernel) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays."""
    made, may_err = unquiet_kernel(kernel)
    return quietly(made) if may_err else made


def unquiet_kernel(kernel: FusedKernel) -> tuple[Kernel, bool]:
    """Return a function to call with floating-point errors ignored, and True if it may raise any; loops raise none."""
    if kernel.draws or kernel.joins or kernel.picks:
        return _irregular_kernel(kernel)
    if is_possible():
        from .ranged_loops import loop_in_ranges, ranged_loop

        loop = loop_in_ranges(kernel)
        if loop is not None:

            def make_other() -> Kernel:
                made, may_err = _without_ranges(kernel)
                return quietly(made) if may_err else made

            return ranged_loop(kernel, loop, make_other), False
    return _without_ranges(kernel)


def _without_ranges(kernel: FusedKernel) -> tuple[Kernel, bool]:
    """Return the `unquiet_kernel` of a kernel whose functions are valid for all numbers."""
    is_small = kernel.domain.numel <= WHOLE_UP_TO
    if is_possible():
        from .loops import block_program as block_of_loops
        from .loops import one_loop, stages_of
        from .tiled_loops import tiled_loop, tiled_program

        stages = stages_of(kernel)
        if stages is not None:
            if len(stages.steps) == 1:
                return one_loop(kernel, stages.loops[0]), False
            tiled = tiled_program(kernel)
            if tiled is not None:
                return tiled_loop(kernel, tiled), False
            program = partial(block_of_loops, kernel, stages)
            return (_at_once(kernel, program) if is_small else _in_blocks(kernel, program)), True
    if is_small:
        return _whole(kernel), True
    return _in_blocks(kernel, partial(block_program, kernel)), True


def _irregular_kernel(kernel: FusedKernel) -> tuple[Kernel, bool]:
    """Return the `unquiet_kernel` of a kernel with random ops, `cat` or gathers."""
    if is_possible():
        from .joined_loops import joined_loop, regions_of
        from .loops import one_loop
        from .tiled_loops import tiled_loop, tiled_program

        loop = picking_loop(kernel)
        if loop is not None:
            return checked(kernel.picks, kernel.inputs, one_loop(kernel, loop.loops[0])), False
        joined = regions_of(kernel)
        if joined is not None:
            return joined_loop(kernel, *joined), False
        tiled = None if kernel.joins else tiled_program(kernel)
        if tiled is not None:
            made = tiled_loop(kernel, tiled)
            return checked(kernel.picks, kernel.inputs, made), False
    return cut_kernel(kernel, _host_part), True


def picking_loop(kernel: FusedKernel) -> Stages | None:
    """Return the single loop of a kernel with gathers, without random ops or `cat`; None if it is not one loop."""
    if not kernel.picks or kernel.draws or kernel.joins:
        return None
    from .loops import stages_of

    stages = stages_of(kernel)
    return stages if stages is not None and len(stages.steps) == 1 else None


def _host_part(kernel: FusedKernel | RowsKernel) -> Kernel:
    """Return a part of a pointwise kernel, between its random ops and `cat` calls."""
    assert isinstance(kernel, FusedKernel)
    return unquiet_kernel(kernel)[0]


def execution_on_host(kernel: FusedKernel) -> str:
    """Describe how a fused kernel runs."""
    if kernel.draws or kernel.joins or kernel.picks:
        return _execution_of_irregular(kernel)
    if is_possible():
        from .loops import stages_of
        from .ranged_loops import loop_in_ranges
        from .tiled_loops import tiled_program

        if loop_in_ranges(kernel) is not None:
            return "one compiled loop, or NumPy's functions where numbers are large"
        stages = stages_of(kernel)
        if stages is not None:
            tiled = tiled_program(kernel) if len(stages.steps) > 1 else None
            return str(tiled or stages)
    blocks = "" if kernel.domain.numel <= WHOLE_UP_TO else " over blocks"
    return f"{len(kernel.pointwise)} passes of NumPy{blocks}"


def _execution_of_irregular(kernel: FusedKernel) -> str:
    if is_possible():
        from .joined_loops import execution_of, regions_of
        from .tiled_loops import tiled_program

        loop = picking_loop(kernel)
        if loop is not None:
            return str(loop)
        joined = regions_of(kernel)
        if joined is not None:
            return execution_of(joined[1])
        tiled = None if kernel.joins else tiled_program(kernel)
        if tiled is not None:
            return str(tiled)
    eager = len(kernel.draws) + len(kernel.joins) + len(kernel.picks)
    return f"{len(kernel.computed)} steps, of which {eager} are eager"


def quietly(compute: Kernel) -> Kernel:
    """Return a function that runs with floating-point errors ignored, in any thread."""

    def run(*inputs: Any) -> tuple[Any, ...]:
        try:
            return run_quiet(compute, *inputs)  # type: ignore[no-any-return]
        except RuntimeError as error:
            if not str(error).startswith("cannot enter context"):
                raise
        return run_quiet_copy(compute, *inputs)  # type: ignore[no-any-return]

    return run


def _whole(kernel: FusedKernel) -> Kernel:
    """Return a kernel that computes every step over all elements."""
    specs = {node: node.val for node in kernel.inputs} | {c.node: c.node.val for c in kernel.pointwise}
    names = {node: f"a{i}" for i, node in enumerate(kernel.inputs)}
    globals_: dict[str, Any] = {}
    lines = [f"def compute({', '.join(names.values())}):"]
    for i, call in enumerate(kernel.pointwise):
        _, planned = call.planned(specs)
        names[call.node] = f"t{i}"
        if planned.fresh is not None:
            lines.append(f"    t{i} = {call_text(planned.fresh, None, i, call.operands, names, globals_)}")
        else:
            globals_[f"new{i}"] = allocator_of(call.node.val)
            into = planned.unshared or planned.into
            lines += [
                f"    t{i} = new{i}()",
                f"    {call_text(into, f't{i}', i, call.operands, names, globals_)}",
            ]
    lines.append(f"    return ({''.join(f'{names[n]}, ' for n in kernel.outputs)})")
    made: Kernel = defined("compute", "\n".join(lines) + "\n", f"kernel {kernel.name}", globals_)
    return made


def _at_once(kernel: FusedKernel, make_program: ProgramMaker) -> Kernel:
    """Return a kernel of one block of all elements."""
    program = make_program(kernel.domain.sizes, {node: node.val for node in kernel.inputs})
    outs = [f"o{i}" for i in range(len(kernel.outputs))]
    inputs = [f"a{i}" for i in range(len(kernel.inputs))]
    lines = [
        f"def compute({', '.join(inputs)}):",
        *(f"    {out} = new{out}()" for out in outs),
        f"    program({', '.join([*outs, *inputs])})",
        f"    return ({''.join(f'{out}, ' for out in outs)})",
    ]
    globals_: dict[str, Any] = {"program": program}
    globals_ |= {f"new{out}": allocator_of(node.val) for out, node in zip(outs, kernel.outputs, strict=True)}
    made: Kernel = defined("compute", "\n".join(lines) + "\n", f"kernel {kernel.name}", globals_)
    return made


def _in_blocks(kernel: FusedKernel, make_program: ProgramMaker) -> Kernel:
    """Return a kernel that computes all steps block by block."""
    domain = kernel.domain
    flat = all(_is_flat(node.val, domain) for node in kernel.inputs)
    sizes = (domain.numel,) if flat else domain.sizes
    widest = max(node.val.itemsize for node in (*kernel.inputs, *(c.node for c in kernel.pointwise)))
    limit = max(BLOCK_BYTES // widest, 1)
    indices = block_indices(sizes, None, limit)
    programs: dict[tuple[int, ...], Kernel] = {}
    for index in indices:
        shape = tuple([min(s.stop, n) - s.start for s, n in zip(index, sizes, strict=True)])
        if shape not in programs:
            specs = {node: _block_spec(node.val, shape, domain.sizes, flat) for node in kernel.inputs}
            programs[shape] = make_program(shape, specs)
    work = [(index, programs[_shape_of(index, sizes)]) for index in indices]
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    single = [(1,) * min(node.val.ndim, 1) if node.val.numel == 1 else None for node in kernel.inputs]
    shares = domain.numel * len(kernel.pointwise) >= SHARED_FROM

    def compute(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        views = [
            x.reshape(single_shape)
            if single_shape is not None
            else x.reshape(-1)
            if flat
            else np.broadcast_to(x, sizes)
            for x, single_shape in zip(inputs, single, strict=True)
        ]
        targets = [out.reshape(-1) for out in outs] if flat else outs

        def part(first: int, last: int) -> None:
            for index, program in work[first:last]:
                program(
                    *[out[index] for out in targets],
                    *[
                        view[index] if single_shape is None else view
                        for view, single_shape in zip(views, single, strict=True)
                    ],
                )

        run_blocks(part, len(work), shares)
        return outs

    return compute


def run_blocks(part: Callable[[int, int], None], count: int, is_shared: bool) -> None:
    """Run a function of the first and the last of its blocks for all of them, shared among threads or in one go."""
    if is_shared:
        parallel_for(0, count, 1, part)
    else:
        part(0, count)


def _is_flat(spec: TensorSpec, domain: TensorSpec) -> bool:
    return spec.numel == 1 or (spec.sizes == domain.sizes and spec.is_contiguous)


def _shape_of(index: tuple[slice, ...], sizes: Sequence[int]) -> tuple[int, ...]:
    return tuple([min(s.stop, n) - s.start for s, n in zip(index, sizes, strict=True)])


def block_program(kernel: FusedKernel, shape: tuple[int, ...], specs: dict[Node, TensorSpec]) -> Kernel:
    """Return a function of a block's output arrays and input arrays.

    Later steps reuse the arrays of results that no other step needs any more.
    """
    specs = dict(specs)
    lines: list[str] = []
    globals_: dict[str, Any] = {"empty": np.empty, "shape": shape}
    names = {node: f"o{i}" for i, node in enumerate(kernel.outputs)}
    names |= {node: f"a{i}" for i, node in enumerate(kernel.inputs)}
    head = ", ".join(names.values())
    last_use = {}
    for i, call in enumerate(kernel.pointwise):
        for operand in call.operands:
            if isinstance(operand, Node):
                last_use[operand] = i
    free: dict[Any, list[str]] = {}
    outputs = set(kernel.outputs)
    for i, call in enumerate(kernel.pointwise):
        node = call.node
        specs[node] = node.val.replace(sizes=shape, strides=contiguous_strides(shape))
        _, planned = call.planned(specs)
        if node not in outputs:
            dtype = node.val.np_dtype
            spare = free.setdefault(dtype, [])
            if spare:
                names[node] = spare.pop()
            else:
                names[node] = f"t{i}"
                globals_[f"d{i}"] = dtype
                lines.append(f"    t{i} = empty(shape, d{i})")
        into = planned.unshared or planned.into
        lines.append(f"    {call_text(into, names[node], i, call.operands, names, globals_)}")
        inside = {o for o in call.operands if isinstance(o, Node) and o not in outputs}
        for operand in inside - set(kernel.inputs):
            if last_use[operand] == i:
                free.setdefault(operand.val.np_dtype, []).append(names[operand])
    text = "\n".join([f"def compute({head}):", *lines]) + "\n"
    made: Kernel = defined("compute", text, f"block of {kernel.name}", globals_)
    return made


def _block_spec(spec: TensorSpec, shape: tuple[int, ...], sizes: tuple[int, ...], flat: bool) -> TensorSpec:
    """Return the spec of a block of an input."""
    if spec.numel == 1:
        # Keep at least one dimension: a 0-dim operand would not take part in dtype promotion.
        unit_sizes = (1,) * min(spec.ndim, 1)
        return spec.replace(sizes=unit_sizes, strides=unit_sizes)
    if flat:
        return spec.replace(sizes=shape, strides=contiguous_strides(shape))
    lead = len(sizes) - spec.ndim
    strides = [
        0 if d < lead or spec.sizes[d - lead] == 1 else spec.strides[d - lead] for d in range(len(sizes))
    ]
    made = spec.replace(sizes=shape, strides=tuple(strides))
    assert math.prod(made.sizes) == math.prod(shape)
    return made
