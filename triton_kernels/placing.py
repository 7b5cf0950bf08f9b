"""Elements placed or combined where index tensors say: index_put, scatter, index_add, index_copy, embedding's gradient.

All are one thing: source element (j, c) goes to ``out[key of j, c]``. Keys are offsets in the output, worked
out from the index tensors first. Where keys are equal the last source element stays, as on the CPU, by a vote
with the maximum of integers; sums and products run over sorted keys in the order of the source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..dispatch.structured.native.indexing import indexed_sizes
from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.allocator import storage_size
from ..runtime.tensor_spec import TensorSpec
from .conversion import compute_type, type_name
from .copy import as_real, copy_kernel
from .elementwise import check_dtypes, number_for
from .factories import fill, zero
from .geometry import broadcast_strides
from .index_bounds import Bound, allocate, check_flags, filled_bytes, flags_for, key_spec
from .index_space import MOVED_AS, launch_over, space
from .indexing_kernels import add, combine_runs, elect, multiply, place
from .launch import launch_nothing
from .picking import plan_check, plan_locate, refuse_untyped
from .sides import MAX_DIMS
from .sorting import plan_sort


@dataclass(frozen=True)
class Placement:
    """Where elements go: sizes and strides over the picked space (j) and over the columns (c) beside it.

    Args:
        out: the tensor written to, with one dimension at least.
        values: the source.
        picked: sizes of the space of j.
        indices: for each index tensor its bound, its strides over j, and the dimension of `out` that it counts.
        base: the dimension of `out` that each dimension of j is a position in, or None.
        columns: the dimensions of `out` that are c.
        value_picked, value_columns: strides in `values`, over j and over c.
    """

    out: TensorSpec
    values: TensorSpec
    picked: tuple[int, ...]
    indices: tuple[tuple[Bound, tuple[int, ...], int], ...]
    base: tuple[int | None, ...]
    columns: tuple[int, ...]
    value_picked: tuple[int, ...]
    value_columns: tuple[int, ...]

    @property
    def bounds(self) -> tuple[Bound, ...]:
        return tuple(bound for bound, _, _ in self.indices)

    @property
    def base_strides(self) -> tuple[int, ...]:
        """Strides in `out` over j, of what position alone says."""
        return tuple(0 if d is None else self.out.strides[d] for d in self.base)

    @property
    def column_sizes(self) -> tuple[int, ...]:
        return tuple(self.out.sizes[d] for d in self.columns)

    @property
    def rows(self) -> int:
        return math.prod(self.picked)

    @property
    def width(self) -> int:
        return math.prod(self.column_sizes)

    @property
    def unit(self) -> int:
        """What every key is a multiple of, as an offset in `out`; keys are counted in it."""
        steps = [self.out.strides[d] for bound, _, d in self.indices if bound.size > 1]
        base = [s for n, s in zip(self.picked, self.base_strides, strict=True) if n > 1]
        return math.gcd(*steps, *base) or 1

    @property
    def largest_key(self) -> int:
        total = sum(max(bound.size - 1, 0) * self.out.strides[d] for bound, _, d in self.indices)
        total += sum((n - 1) * s for n, s in zip(self.picked, self.base_strides, strict=True))
        return total // self.unit

    @property
    def is_uniform(self) -> bool:
        """Whether all values are one number."""
        moving = [s for n, s in zip(self.picked, self.value_picked, strict=True) if n > 1]
        moving += [s for n, s in zip(self.column_sizes, self.value_columns, strict=True) if n > 1]
        return not any(moving)

    def as_pairs(self) -> Placement:
        """The same of elements of 16 bytes as pairs of 8, in a column of their own."""
        return replace(
            self,
            out=as_real(self.out),
            values=as_real(self.values),
            columns=(*self.columns, self.out.ndim),
            value_picked=tuple(2 * s for s in self.value_picked),
            value_columns=(*(2 * s for s in self.value_columns), 1),
        )


class Placed:
    """The launches' common part: keys from index tensors, and the spaces of the launch that follows."""

    def __init__(self, placement: Placement) -> None:
        self.placement = p = placement
        self.device = p.out.device
        self.unit = unit = p.unit
        self.keys = key_spec(p.picked, p.largest_key, self.device)
        indices = [(bound, strides, p.out.strides[d] // unit) for bound, strides, d in p.indices]
        base = [s // unit for s in p.base_strides]
        self.locate = plan_locate(self.device, p.picked, indices, base, self.keys)
        self.j = space("j", p.picked, {"vj": p.value_picked}, True)
        out_columns = [p.out.strides[d] for d in p.columns]
        self.c = space("c", p.column_sizes, {"vc": p.value_columns, "oc": out_columns}, True)
        self.extent = storage_size(p.out.sizes, p.out.strides)

    def write_keys(self, indices: Sequence[Any]) -> Any:
        """The keys' bytes. Raises an index's error if one is out of bounds, before anything is changed."""
        if not self.placement.indices:
            return filled_bytes(self.keys.nbytes, 0, self.device)
        data = allocate(self.keys.nbytes, self.device)
        flags = flags_for(self.placement.bounds, self.device)
        self.locate(data.address, [index.address for index in indices], flags.address)
        check_flags(flags, self.placement.bounds, indices)
        return data


Finish = Callable[[Placed], Callable[..., None]]
"""Plans the launches after the keys: a function of out, values and keys, and of what else is given."""


def placed_kernel(placement: Placement, finish: Finish) -> Callable[..., None]:
    """The function ``(out, values, indices, *rest)`` over bytes.

    Spaces with too many dimensions go through copies: of the values, then of the output too.
    """
    p = placement
    if p.rows == 0:
        return launch_nothing
    if p.width == 0:
        checks = [plan_check(bound) for bound in p.bounds]

        def only_check(out: Any, values: Any, indices: Sequence[Any], *rest: Any) -> None:
            for check, index in zip(checks, indices, strict=True):
                check(index)

        return only_check
    placed = Placed(p)
    if max(len(placed.j.geometry.sizes), len(placed.c.geometry.sizes)) > MAX_DIMS:
        flat = TensorSpec.contiguous(p.picked + p.column_sizes, p.values.dtype, p.values.device)
        if p.value_picked + p.value_columns != flat.strides:
            return through_values(p, flat, finish)
        return through_output(p, finish)
    run = finish(placed)

    def into(out: Any, values: Any, indices: Sequence[Any], *rest: Any) -> None:
        run(out, values, placed.write_keys(indices), *rest)

    return into


def through_values(p: Placement, flat: TensorSpec, finish: Finish) -> Callable[..., None]:
    """A copy of the values that is contiguous over j and c."""
    straighten = copy_kernel(flat, flat.replace(sizes=flat.sizes, strides=p.value_picked + p.value_columns))
    n = len(p.picked)
    run = placed_kernel(
        replace(p, values=flat, value_picked=flat.strides[:n], value_columns=flat.strides[n:]), finish
    )

    def into(out: Any, values: Any, *rest: Any) -> None:
        buffer = allocate(flat.nbytes, flat.device)
        straighten(buffer, values)
        run(out, buffer, *rest)

    return into


def through_output(p: Placement, finish: Finish) -> Callable[..., None]:
    """A contiguous copy of the output, with the columns' dimensions last, and back."""
    out = p.out
    order = [*(d for d in range(out.ndim) if d not in p.columns), *p.columns]
    turned = out.replace(
        sizes=tuple(out.sizes[d] for d in order), strides=tuple(out.strides[d] for d in order)
    )
    flat = TensorSpec.contiguous(turned.sizes, out.dtype, out.device)
    gather, scatter = copy_kernel(flat, turned), copy_kernel(turned, flat)
    run = placed_kernel(
        replace(
            p,
            out=flat,
            indices=tuple((bound, strides, order.index(d)) for bound, strides, d in p.indices),
            base=tuple(None if d is None else order.index(d) for d in p.base),
            columns=tuple(order.index(d) for d in p.columns),
        ),
        finish,
    )

    def into(out: Any, values: Any, *rest: Any) -> None:
        buffer = allocate(flat.nbytes, flat.device)
        gather(buffer, out)
        run(buffer, values, *rest)
        scatter(out, buffer)

    return into


def put(placed: Placed) -> Callable[..., None]:
    """Values replace what is there; of several for one place the last."""
    p, device = placed.placement, placed.device
    key_type = f"*{placed.keys.dtype.triton_name}"
    type_ = f"*{MOVED_AS[p.out.itemsize]}"
    pointers = {"values": type_, "keys": key_type, "out": type_}
    constants: dict[str, object] = {}
    votes = not p.is_uniform and p.rows > 1
    if votes:
        pointers["winner"] = key_type
        vote = launch_over(device, elect, p.rows, {"keys": key_type, "winner": key_type}, [], {}, {})
    else:
        constants["winner"] = None
    write = launch_over(
        device,
        place,
        p.rows * p.width,
        pointers,
        [placed.j, placed.c],
        {"width": p.width, "step": placed.unit},
        constants,
        placed.extent,
    )
    nbytes = (p.largest_key + 1) * placed.keys.itemsize

    def run(out: Any, values: Any, keys: Any) -> None:
        if not votes:
            write(values.address, keys.address, out.address)
            return
        winner = filled_bytes(nbytes, 0xFF, device)
        vote(keys.address, winner.address)
        write(values.address, keys.address, winner.address, out.address)

    return run


def combining(function: Any, scaled: bool = False, averaged: bool = False, skip: int = -1) -> Finish:
    """Values are combined with what is there, in their order.

    Args:
        function: a `@triton.jit` function of two numbers.
        scaled: whether a number follows that the values are multiplied by.
        averaged: whether values are divided by how many go to their place.
        skip: a key whose values are left out.
    """

    def finish(placed: Placed) -> Callable[..., None]:
        p, device = placed.placement, placed.device
        sort = plan_sort(device, p.rows, p.largest_key, placed.keys.dtype)
        type_ = compute_type(p.out.dtype)
        key_type = f"*{placed.keys.dtype.triton_name}"
        element = f"*{p.out.dtype.triton_name}"
        pointers = {"values": element, "keys": key_type, "order": key_type, "out": element}
        constants: dict[str, object] = {"COMBINE": function, "AVERAGED": averaged, "TYPE": type_}
        if scaled:
            pointers["alpha"] = type_name(type_)
        else:
            constants["alpha"] = None
        write = launch_over(
            device,
            combine_runs,
            p.rows * p.width,
            pointers,
            [placed.j, placed.c],
            {"rows": p.rows, "width": p.width, "step": placed.unit, "skip": skip},
            constants,
            placed.extent,
        )
        number = number_for(type_)

        def run(out: Any, values: Any, keys: Any, *alpha: Any) -> None:
            keys, order = sort(keys)
            write(values.address, keys.address, order.address, out.address, *map(number, alpha))

        return run

    return finish


def with_dimension(spec: TensorSpec) -> TensorSpec:
    """A number as a vector of one."""
    return spec if spec.ndim else TensorSpec.contiguous((1,), spec.dtype, spec.device)


def writing(call: StructuredCall, placement: Placement, finish: Finish | None) -> Callable[..., None]:
    """The function ``(out, self, values, indices, *rest)``: a copy of `self` in `out`, and the placement upon it.

    Without `finish` values replace what is there.
    """
    source, out = call.args["self"], call.outputs[0]
    if finish is None:
        refuse_untyped(call, [out])
        run = placed_kernel(placement.as_pairs() if out.itemsize == 16 else placement, put)
    else:
        check_dtypes(call, [out])
        run = placed_kernel(placement, finish)
    copy = copy_kernel(out, source)

    def into(out: Any, data: Any, values: Any, indices: Sequence[Any], *rest: Any) -> None:
        if out.address != data.address:
            copy(out, data)
        run(out, values, indices, *rest)

    return into


def index_put(call: StructuredCall) -> PlannedKernel:
    """`self` with values put or added at integer indices."""
    source, out, values = call.args["self"], call.outputs[0], call.args["values"]
    indices = call.args["indices"]
    sizes, _ = indexed_sizes(source, indices)
    used = [i for i, spec in enumerate(indices) if spec is not None]
    rank = len(sizes) - (source.ndim - len(used))
    adjacent = used == list(range(used[0], used[-1] + 1)) if used else False
    front = used[0] if adjacent else 0
    picked = sizes[front : front + rank]
    strides = broadcast_strides(values, sizes)
    placement = Placement(
        with_dimension(out),
        values,
        picked,
        tuple(
            (
                Bound(indices[i], source.sizes[i], i, True, IndexError),
                broadcast_strides(indices[i], picked),
                i,
            )
            for i in used
        ),
        (None,) * rank,
        tuple(i for i in range(source.ndim) if i not in used),
        strides[front : front + rank],
        strides[:front] + strides[front + rank :],
    )
    run = writing(call, placement, combining(add) if call.args["accumulate"] else None)

    def into(out: Any, data: Any, indices: Sequence[Any], values: Any) -> None:
        run(out, data, values, [indices[i] for i in used])

    return PlannedKernel(into)


def slices(call: StructuredCall) -> Placement:
    """Slices of ``source`` along a dimension that a vector of numbers names."""
    out, source, where = with_dimension(call.outputs[0]), call.args["source"], call.args["index"]
    axis: int = call.extra["dim"]
    bound = Bound(where, out.sizes[axis], axis, False, IndexError)
    rest = tuple(d for d in range(out.ndim) if d != axis)
    return Placement(
        out,
        source,
        (where.numel,),
        ((bound, where.strides or (0,), axis),),
        (None,),
        rest,
        (source.strides[axis] if source.ndim else 0,),
        tuple(source.strides[d] for d in rest) if source.ndim else (0,) * len(rest),
    )


def index_add(call: StructuredCall) -> PlannedKernel:
    """Slices of the source, times alpha, added at the index."""
    scaled = "alpha" in call.runtime
    run = writing(call, slices(call), combining(add, scaled=scaled))
    return PlannedKernel(lambda out, data, where, source, *alpha: run(out, data, source, (where,), *alpha))


def index_copy(call: StructuredCall) -> PlannedKernel:
    """Slices of the source put at the index."""
    run = writing(call, slices(call), None)
    return PlannedKernel(lambda out, data, where, source: run(out, data, source, (where,)))


def scatter(call: StructuredCall) -> PlannedKernel:
    """Elements of the source, or a number, put, added or multiplied along one dimension by index."""
    out, where = with_dimension(call.outputs[0]), call.args["index"]
    axis: int = call.extra["dim"]
    reduce: str | None = call.extra["reduce"]
    picked = where.sizes or (1,)
    number = None
    if "src" in call.args:
        values = with_dimension(call.args["src"])
        strides = values.strides[: len(picked)]
    else:
        values = TensorSpec.contiguous((1,), out.dtype, out.device)
        strides = (0,) * len(picked)
        number = fill(call._replace(outputs=(values,))).into
    bound = Bound(where, out.sizes[axis], axis, False, RuntimeError)
    placement = Placement(
        out,
        values,
        picked,
        ((bound, where.strides or (0,), axis),),
        tuple(None if d == axis else d for d in range(len(picked))),
        (),
        strides,
        (),
    )
    finish = None if reduce is None else combining(add if reduce == "add" else multiply)
    run = writing(call, placement, finish)
    if number is None:
        return PlannedKernel(lambda out, data, where, src: run(out, data, src, (where,)))

    def into(out: Any, data: Any, where: Any, value: Any) -> None:
        buffer = allocate(values.nbytes, values.device)
        number(buffer, value)
        run(out, data, buffer, (where,))

    return PlannedKernel(into)


def embedding_dense_backward(call: StructuredCall) -> PlannedKernel:
    """Rows of the gradient added by number; the padding's row stays zero."""
    out, grad, where = call.outputs[0], call.args["grad_output"], call.args["indices"]
    check_dtypes(call, [out])
    bound = Bound(where, out.sizes[0], 0, False, IndexError, "index out of range in self")
    placement = Placement(
        out,
        grad,
        where.sizes,
        ((bound, where.strides, 0),),
        (None,) * where.ndim,
        (1,),
        grad.strides[:-1],
        grad.strides[-1:],
    )
    averaged: bool = call.args["scale_grad_by_freq"]
    padding: int = call.args["padding_idx"]
    run = placed_kernel(placement, combining(add, averaged=averaged, skip=max(padding, -1)))
    clear = zero(call).into

    def into(out: Any, grad: Any, where: Any) -> None:
        clear(out)
        run(out, grad, (where,))

    return PlannedKernel(into)


for _stub, _factory in {
    "index_put_stub": index_put,
    "index_add_stub": index_add,
    "index_copy_stub": index_copy,
    "scatter_stub": scatter,
    "embedding_dense_backward_stub": embedding_dense_backward,
}.items():
    register_stub(_stub, "cuda", _factory)
