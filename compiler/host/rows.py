"""CPU kernel over rows: one function of arrays, which runs all of its steps on some rows at a time.

A small kernel computes each step whole. A large kernel goes in blocks of whole rows, of about `BLOCK_BYTES`, with the
kernels of eager calls: the next step reads intermediate results from the cache. Threads of the pool share the blocks,
which are of about one size, and which the geometry alone determines.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...cpu_fallback.blocks import Block, block_indices
from ...cpu_fallback.reduction.reduction_rows import adds_by_size
from ...dispatch.layers.graph.graph import Node
from ...dispatch.structured.allocation import allocator_of
from ...runtime.cpu.object_code import is_possible
from ...runtime.memory_format import contiguous_strides
from ...runtime.tensor_spec import TensorSpec
from ...runtime.written_code import defined
from ..pointwise import PointwiseCall
from ..reductions import RowCall, views_of
from ..row_space import View
from ..schedule import FusedKernel, RowsKernel
from . import pointwise
from .cut_kernels import cut_kernel
from .numpy_calls import call_text
from .pointwise import Kernel, quietly, run_blocks

BLOCK_BYTES = 1 << 19
"""Bytes of the widest array of a block: reductions return to Python more often than pointwise steps, and threads wait
for the GIL there."""

BY_SIZE = ("softmax", "layer_norm")
"""Operators that add short rows by one matmul of all of them, or otherwise if there are more elements."""


def host_rows_kernel(kernel: RowsKernel) -> Kernel:
    """Return a function from a kernel's input arrays to its output arrays."""
    if is_possible():
        from .row_loops import host_row_loop, row_kernel

        made = row_kernel(kernel)
        if made is not None:
            return host_row_loop(kernel, made)
    if kernel.draws or kernel.picks:
        return cut_kernel(kernel, _host_part)
    if (
        math.prod(kernel.space.sizes) <= pointwise.WHOLE_UP_TO
        or len(kernel.computed) == 1
        or any(isinstance(call, RowCall) and call.takes_all_rows for call in kernel.calls)
        or _adds_by_size(kernel)
    ):
        return quietly(_whole(kernel))
    return quietly(_in_blocks(kernel))


def _adds_by_size(kernel: RowsKernel) -> bool:
    """Return True if an eager kernel of a block would add in another order than that of all rows."""
    names = [call.node.target._opname for call in kernel.computed]
    return any(own in name for name in names for own in BY_SIZE) and adds_by_size(kernel.space.n)


def _host_part(kernel: FusedKernel | RowsKernel) -> Kernel:
    """Return a part of a kernel over rows, between its random ops and gathers."""
    assert isinstance(kernel, RowsKernel)
    return host_rows_kernel(kernel)


def execution_of_rows(kernel: RowsKernel) -> str:
    """Describe how a kernel over rows runs."""
    if is_possible():
        from .row_loops import row_kernel

        made = row_kernel(kernel)
        if made is not None:
            return str(made.program)
    if kernel.draws or kernel.picks:
        return f"{len(kernel.computed)} steps, of which {len(kernel.draws) + len(kernel.picks)} are eager"
    return f"{len(kernel.computed)} passes of NumPy over blocks of rows"


def _whole(kernel: RowsKernel) -> Kernel:
    """Return a kernel that computes every step over all rows, as eager calls do."""
    specs = {node: node.val for node in (*kernel.inputs, *(call.node for call in kernel.calls))}
    names = {node: f"a{i}" for i, node in enumerate(kernel.inputs)}
    globals_: dict[str, Any] = {}
    lines = [f"def compute({', '.join(names.values())}):"]
    for i, call in enumerate(kernel.planned_calls):
        _, planned = call.planned(specs)
        results, made = call.results, call.specs
        names |= {node: f"t{i}_{index}" for index, node in results.items()}
        fresh = planned.fresh if len(made) == 1 else planned.first if set(results) == {0} else None
        if fresh is not None:
            lines.append(f"    t{i}_0 = {call_text(fresh, None, i, call.operands, names, globals_)}")
            continue
        for index, spec in enumerate(made):
            globals_[f"new{i}_{index}"] = no_array if spec is None else allocator_of(spec)
            lines.append(f"    t{i}_{index} = new{i}_{index}()")
        outs = ", ".join(f"t{i}_{index}" for index in range(len(made)))
        into = planned.unshared or planned.into
        lines.append(f"    {call_text(into, outs, i, call.operands, names, globals_)}")
    lines.append(f"    return ({''.join(f'{names[n]}, ' for n in kernel.outputs)})")
    computed: Kernel = defined("compute", "\n".join(lines) + "\n", f"kernel {kernel.name}", globals_)
    return computed


def no_array() -> None:
    """Return None instead of a new array, for a result that is not requested."""


class _Blocks:
    """The rows of a kernel in blocks: their indices over `lead`, and the views of arrays over it.

    If all inputs are dense, or the same for all rows, `lead` has all rows in its last dimension.
    """

    def __init__(self, kernel: RowsKernel) -> None:
        self.space = space = kernel.space
        inputs = set(kernel.inputs)
        self.views: list[View] = list(
            dict.fromkeys(
                v for call in kernel.planned_calls for v in views_of(call, list(inputs), space).values()
            )
        )
        count = len(space.lead)
        is_flat = all(self._is_flat(view) for view in self.views)
        self.lead = (1,) * (count - 1) + (space.rows,) if is_flat else space.lead
        specs = [spec for call in kernel.planned_calls for spec in call.specs]
        widest = max(spec.itemsize for spec in (*specs, *(node.val for node in kernel.inputs)))
        limit = max(BLOCK_BYTES // (widest * space.n), 1)
        # Blocks have about equal sizes: a kernel may be chosen by the number of elements.
        limit = max(-(-space.rows // -(-space.rows // limit)), 1)
        self.indices = block_indices(self.lead, None, limit)

    def _is_flat(self, view: View) -> bool:
        spec, count = view.node.val, len(self.space.lead)
        if view.ndim is None:
            return True
        lead = ((1,) * (view.ndim - spec.ndim) + tuple(spec.sizes))[:count]
        return all(n == 1 for n in lead) or (lead == self.space.lead and bool(spec.is_contiguous))

    def shape_of(self, index: Block) -> tuple[int, ...]:
        """Return the sizes of a block over `lead`."""
        return tuple([min(s.stop, n) - s.start for s, n in zip(index, self.lead, strict=True)])

    def seen(self, view: View) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the sizes and strides of an input over `lead` and a row."""
        spec, count = view.node.val, len(self.space.lead)
        more = (view.ndim or spec.ndim) - spec.ndim
        sizes, strides = (1,) * more + tuple(spec.sizes), (0,) * more + tuple(spec.strides)
        if view.ndim is None or self.lead == self.space.lead or all(n == 1 for n in sizes[:count]):
            return sizes, strides
        sizes = self.lead + sizes[count:]
        return sizes, contiguous_strides(sizes)

    def spec_of(self, view: View, block: tuple[int, ...]) -> TensorSpec:
        """Return the spec of a block of an input."""
        sizes, strides = self.seen(view)
        spec: TensorSpec = view.node.val
        if view.ndim is None:
            return spec
        own = [b if n != 1 else 1 for b, n in zip(block, sizes[: len(block)], strict=True)]
        return spec.replace(sizes=(*own, *sizes[len(block) :]), strides=strides)

    def sliced(self, view: View) -> list[bool]:
        """Over which dimensions of `lead` an input moves."""
        return [] if view.ndim is None else [n != 1 for n in self.seen(view)[0][: len(self.lead)]]

    def result_spec(self, spec: TensorSpec, block: tuple[int, ...]) -> TensorSpec:
        """Return the spec of a block of a result."""
        sizes = block + tuple(spec.sizes[len(block) :])
        return spec.replace(sizes=sizes, strides=contiguous_strides(sizes))


def _in_blocks(kernel: RowsKernel) -> Kernel:
    """Return a kernel that computes all steps block by block of rows."""
    blocks = _Blocks(kernel)
    programs: dict[tuple[int, ...], Kernel] = {}
    for index in blocks.indices:
        shape = blocks.shape_of(index)
        if shape not in programs:
            programs[shape] = _block_program(kernel, blocks, shape)
    allocators = [allocator_of(node.val) for node in kernel.outputs]
    count, whole = len(blocks.lead), slice(None)
    out_shapes = [blocks.lead + tuple(node.val.sizes[count:]) for node in kernel.outputs]
    in_shapes = [blocks.seen(view)[0] for view in blocks.views]
    input_indices = [kernel.inputs.index(view.node) for view in blocks.views]
    moves = [blocks.sliced(view) for view in blocks.views]
    work = [
        (
            programs[blocks.shape_of(index)],
            index,
            [tuple([s if moving else whole for s, moving in zip(index, own)]) for own in moves],  # noqa: B905
        )
        for index in blocks.indices
    ]
    shares = math.prod(kernel.space.sizes) * len(kernel.planned_calls) >= pointwise.SHARED_FROM

    def compute(*inputs: Any) -> tuple[Any, ...]:
        outs = tuple([new() for new in allocators])
        targets = [out.reshape(shape) for out, shape in zip(outs, out_shapes, strict=True)]
        views = [inputs[index].reshape(shape) for index, shape in zip(input_indices, in_shapes, strict=True)]

        def part(first: int, last: int) -> None:
            for program, index, own in work[first:last]:
                program(
                    *[target[index] for target in targets],
                    *[view[each] for view, each in zip(views, own, strict=True)],
                )

        run_blocks(part, len(work), shares)
        return outs

    return compute


class _Arrays:
    """Buffer assignment of a block's results: the outputs' arrays, and as few others as possible.

    A pointwise step writes over an operand after its last use. Other results take a free array, possibly that of an
    output that is computed later.
    """

    def __init__(self, kernel: RowsKernel) -> None:
        self.made = {node: i for i, call in enumerate(kernel.planned_calls) for node in call.results.values()}
        self.last = dict(self.made)
        for i, call in enumerate(kernel.planned_calls):
            self.last |= {operand: i for operand in call.operands if isinstance(operand, Node)}
        self.calls = kernel.planned_calls
        self.names = {node: f"o{i}" for i, node in enumerate(kernel.outputs)}
        self.keys = {name: _key(node.val) for node, name in self.names.items()}
        self.owners = {name: node for node, name in self.names.items()}
        self.holders: dict[str, Node | None] = {}
        self.outputs = set(kernel.outputs)

    def set_outputs(self, specs: dict[Node, TensorSpec]) -> None:
        """Tell the outputs' blocks."""
        self.keys = {name: _key(specs[node]) for node, name in self.names.items()}

    def name_of(self, i: int, node: Node | None, spec: TensorSpec, taken: list[str]) -> tuple[str, bool]:
        """Return the array of a result of step `i`, not in `taken`, and True if it is new."""
        if node in self.outputs and node is not None:
            self.holders[self.names[node]] = node
            return self.names[node], False
        last = i if node is None else self.last[node]
        fitting = [
            name for name, key in self.keys.items() if key == _key(spec) and self._is_free(name, i, last)
        ]
        # One that is written over is in the cache already.
        fitting.sort(key=lambda name: self.holders.get(name) is None)
        name = fitting[0] if fitting else f"t{len(self.keys)}"
        self.keys[name], self.holders[name] = _key(spec), node
        if node is not None:
            self.names[node] = name
        return name, not fitting

    def _is_free(self, name: str, i: int, last: int) -> bool:
        owner, holder = self.owners.get(name), self.holders.get(name)
        writes_over = isinstance(self.calls[i], PointwiseCall)
        if holder is not None and (not writes_over or self.last[holder] != i or holder in self.outputs):
            return False
        if owner is None:
            return True
        # A pointwise owner may write over its own operand.
        ready = self.made[owner]
        return i < ready and last < ready + isinstance(self.calls[ready], PointwiseCall)

    def end(self, i: int) -> None:
        """Free the arrays whose values are not read after step `i`."""
        for name, holder in self.holders.items():
            if holder is not None and holder not in self.outputs and self.last[holder] <= i:
                self.holders[name] = None


def _key(spec: TensorSpec) -> tuple[Any, tuple[int, ...]]:
    return spec.np_dtype, tuple(spec.sizes)


def _block_program(kernel: RowsKernel, blocks: _Blocks, block: tuple[int, ...]) -> Kernel:
    """Return a function of a block's output arrays and input arrays."""
    lines: list[str] = []
    globals_: dict[str, Any] = {"empty": np.empty}
    arrays = _Arrays(kernel)
    arrays.set_outputs({node: blocks.result_spec(node.val, block) for node in kernel.outputs})
    view_names = {view: f"a{i}" for i, view in enumerate(blocks.views)}
    head = ", ".join([*(arrays.names[node] for node in kernel.outputs), *view_names.values()])
    specs: dict[Node, TensorSpec] = {}
    for i, call in enumerate(kernel.planned_calls):
        own = views_of(call, kernel.inputs, kernel.space)
        block_specs = specs | {node: blocks.spec_of(view, block) for node, view in own.items()}
        _, planned = call.planned(block_specs)
        known = arrays.names | {node: view_names[view] for node, view in own.items()}
        read = {known[operand] for operand in call.operands if isinstance(operand, Node)}
        results = call.results
        outs: list[str] = []
        for index, spec in enumerate(call.specs):
            made, node = blocks.result_spec(spec, block), results.get(index)
            name, is_new = arrays.name_of(i, node, made, outs)
            if is_new:
                globals_[f"d{name}"], globals_[f"s{name}"] = _key(made)
                lines.append(f"    {name} = empty(s{name}, d{name})")
            if node is not None:
                specs[node] = made
            outs.append(name)
        into = planned.into if read.intersection(outs) else planned.unshared or planned.into
        lines.append(f"    {call_text(into, ', '.join(outs), i, call.operands, known, globals_)}")
        arrays.end(i)
    text = "\n".join([f"def compute({head}):", *lines]) + "\n"
    program: Kernel = defined("compute", text, f"rows of {kernel.name}", globals_)
    return program
