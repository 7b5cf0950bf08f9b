"""Placement of source elements (j, c) at ``out[key of j, c]``, the common core of index_put, scatter and similar
ops.

Keys are offsets in the output, computed from the index tensors first. For equal keys the last source element
wins, as on the CPU, by an integer atomic maximum. Sums and products run over sorted keys in the order of the
source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...dispatch.scalars import check_integer
from ...runtime.allocator import storage_size
from ...runtime.tensor_spec import TensorSpec
from ..conversion import compute_type, type_name
from ..elementwise.copy import as_real, copy_kernel
from ..elementwise.elementwise import number_for
from ..launch import launch_nothing
from ..reduction.sides import MAX_DIMS
from .counted_keys import plan_in_order
from .index_bounds import Bound, allocate, check_flags, filled_bytes, flags_for, key_spec
from .index_space import MOVED_AS, launch_over, space
from .picking import plan_check, plan_locate
from .placement_kernels import elect, place
from .scatter_reduction_kernels import combine_runs

RUN_LANES = 128
"""Lanes of a program over runs: all of them wait for the longest run among theirs."""


@dataclass(frozen=True)
class Placement:
    """Target of elements: sizes and strides over the indexed space (j) and over the columns (c) beside it.

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
        """Common factor of all keys, as an offset in `out`; keys are counted in it."""
        steps = [self.out.strides[d] for bound, _, d in self.indices if bound.size > 1]
        base = [s for n, s in zip(self.picked, self.base_strides, strict=True) if n > 1]
        return math.gcd(*steps, *base) or 1

    @property
    def largest_key(self) -> int:
        total = sum(max(bound.size - 1, 0) * self.out.strides[d] for bound, _, d in self.indices)
        total += sum((n - 1) * s for n, s in zip(self.picked, self.base_strides, strict=True))
        return total // self.unit

    @property
    def keys_are_indices(self) -> bool:
        """True if keys are the elements of one index tensor in order, times a step."""
        if len(self.indices) != 1 or any(self.base_strides):
            return False
        ((bound, strides, _),) = self.indices
        own = bound.spec
        return own.is_contiguous and own.sizes == self.picked and own.strides == strides

    @property
    def is_uniform(self) -> bool:
        """True if all values are one number."""
        moving = [s for n, s in zip(self.picked, self.value_picked, strict=True) if n > 1]
        moving += [s for n, s in zip(self.column_sizes, self.value_columns, strict=True) if n > 1]
        return not any(moving)

    def as_pairs(self) -> Placement:
        """Return the placement with 16-byte elements as pairs of 8 bytes, in a column of their own."""
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
        self.flags = flags_for(p.bounds, self.device)
        self.locate = plan_locate(self.device, p.picked, indices, base, self.keys)
        self.j = space("j", p.picked, {"vj": p.value_picked}, True)
        out_columns = [p.out.strides[d] for d in p.columns]
        self.c = space("c", p.column_sizes, {"vc": p.value_columns, "oc": out_columns}, True)
        self.extent = storage_size(p.out.sizes, p.out.strides)

    def write_keys(self, indices: Sequence[Any]) -> Any:
        """Return the keys' bytes; an out-of-bounds index counts as 0. If the call raises, nothing is changed."""
        if not self.placement.indices:
            return filled_bytes(self.keys.nbytes, 0, self.device)
        words = self.flags.begin()
        data = allocate(self.keys.nbytes, self.device)
        self.locate(data.address, [index.address for index in indices], words)
        check_flags(self.flags, self.placement.bounds, indices)
        return data


Finish = Callable[[Placed], Callable[..., None]]
"""Plans the launches: a function of out, values and index tensors, and of what else is given."""


def placed_kernel(placement: Placement, finish: Finish) -> Callable[..., None]:
    """Return the function ``(out, values, indices, *rest)`` over bytes.

    Spaces with too many dimensions go through copies: of the values, then also of the output.
    """
    p = placement
    if p.rows == 0:
        return launch_nothing
    if p.width == 0 or p.out.numel == 0:
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
    return finish(placed)


def through_values(p: Placement, flat: TensorSpec, finish: Finish) -> Callable[..., None]:
    """Return the placement through a copy of the values that is contiguous over j and c."""
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
    """Return the placement through a contiguous copy of the output, with the columns' dimensions last, and back."""
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
    """Replace elements by values; of several values for one index, the last wins."""
    p, device = placed.placement, placed.device
    key_type = f"*{placed.keys.dtype.triton_name}"
    type_ = f"*{MOVED_AS[p.out.itemsize]}"
    pointers = {"values": type_, "keys": key_type, "out": type_}
    constants: dict[str, object] = {"DENSE": p.width == 1 and placed.j.is_dense("vj")}
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

    def run(out: Any, values: Any, indices: Sequence[Any]) -> None:
        keys = placed.write_keys(indices)
        if not votes:
            write(values.address, keys.address, out.address)
            return
        winner = filled_bytes(nbytes, 0xFF, device)
        vote(keys.address, winner.address)
        write(values.address, keys.address, winner.address, out.address)

    return run


def combining(
    function: Any,
    scaled: bool = False,
    averaged: bool = False,
    skip: int = -1,
    includes: bool = True,
    mean: bool = False,
    clears: bool = False,
) -> Finish:
    """Combine values with the existing elements, in order.

    Args:
        function: a `@triton.jit` function of two numbers.
        scaled: If True, a number follows that the values are multiplied by.
        averaged: If True, divide values by how many go to the same index.
        skip: a key whose values are left out.
        includes: If True, existing elements take part; otherwise the first value replaces them.
        mean: If True, divide the result by the number of values that took part.
        clears: If True, zero the output first: for keys that are indices, and a dense output.
    """

    def finish(placed: Placed) -> Callable[..., None]:
        p, device = placed.placement, placed.device
        in_order = plan_in_order(placed, clears)
        type_ = compute_type(p.out.dtype)
        key_type = f"*{placed.keys.dtype.triton_name}"
        element = f"*{p.out.dtype.triton_name}"
        pointers = {"values": element, "keys": key_type, "order": key_type, "out": element}
        constants: dict[str, object] = {"COMBINE": function, "AVERAGED": averaged, "TYPE": type_}
        constants |= {"INCLUDES": includes, "MEAN": mean, "CLEARED": clears}
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
            RUN_LANES,
        )
        number = number_for(type_)

        def run(out: Any, values: Any, indices: Sequence[Any], *alpha: Any) -> None:
            if alpha and p.out.dtype.is_integral:
                check_integer(alpha[0], p.out.dtype)
            keys, order = in_order(indices, out)
            write(values.address, keys.address, order.address, out.address, *map(number, alpha))

        return run

    return finish
