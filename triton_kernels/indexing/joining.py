"""Tensors one after another: one launch for all that have one dtype.

Up to `FEW` tensors are given by their addresses at each launch; of more, a table has the addresses, which is moved
again when they change.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_triton import tl
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.tensor_spec import TensorSpec
from ..budget import DECLARATIONS, name_of
from ..elementwise.copy import as_real, copy_kernel
from ..elementwise.elementwise import check_dtypes
from ..geometry import Geometry, elementwise_geometry
from ..launch import ALIGNMENT, Launch, integer_type, interpreted
from ..optimizers.tensor_table import TensorTable, block_of
from .index_space import MOVED_AS
from .joining_kernel import CONVERTED, FEW, join


class Member(NamedTuple):
    """A tensor that is joined: which argument it is, its spec, its target, and where that begins in the output."""

    position: int
    spec: TensorSpec
    target: TensorSpec
    begin: int


def moved(data: DataPtr, nbytes: int) -> DataPtr:
    """Return a pointer offset by some bytes; the original pointer keeps the memory alive."""
    return data.offset_by(nbytes) if nbytes else data


def members_of(call: StructuredCall) -> list[Member]:
    """Return the tensors with elements."""
    out, axis = call.outputs[0], call.extra["dim"]
    members, start = [], 0
    for position in call.extra["kept"]:
        spec = call.args["tensors"][position]
        if spec.numel:
            target = out.replace(sizes=spec.sizes, strides=out.strides)
            members.append(Member(position, spec, target, start * out.strides[axis]))
        start += spec.sizes[axis]
    return members


def cat(call: StructuredCall) -> PlannedKernel:
    """Copy each tensor that is not skipped to its part of the output."""
    members = members_of(call)
    by_dtype: dict[ScalarType, list[Member]] = {}
    for member in members:
        by_dtype.setdefault(member.spec.dtype, []).append(member)
    parts: list[Callable[[Any, Sequence[Any]], None]] = []
    for dtype, own in by_dtype.items():
        out = call.outputs[0].dtype
        if len(own) == 1 or (dtype is not out and (dtype.is_complex or out.triton_name not in CONVERTED)):
            parts += [one_copy(member) for member in own]
            continue
        chosen("one launch", "{} tensors of {} are joined", len(own), dtype.name)
        parts.append(Joined(call, own).into)

    if len(parts) == 1:
        return PlannedKernel(parts[0])

    def into(out_data: Any, arrays: Sequence[Any]) -> None:
        for part in parts:
            part(out_data, arrays)

    return PlannedKernel(into)


def one_copy(member: Member) -> Callable[[Any, Sequence[Any]], None]:
    """Return the copy of one tensor."""
    copy = copy_kernel(member.target, member.spec)
    nbytes = member.begin * member.target.itemsize

    def into(out: Any, arrays: Sequence[Any]) -> None:
        copy(moved(out, nbytes), arrays[member.position])

    return into


class Joined:
    """The launch over tensors of one dtype.

    Args:
        call: the plan.
        members: at least two.
    """

    def __init__(self, call: StructuredCall, members: Sequence[Member]) -> None:
        if call.outputs[0].dtype is members[0].spec.dtype and members[0].spec.itemsize == 16:
            members = [Member(m.position, as_real(m.spec), as_real(m.target), 2 * m.begin) for m in members]
        self._positions = [member.position for member in members]
        source, out = members[0].spec, members[0].target
        if source.dtype is not out.dtype:
            check_dtypes(call, [source, out])
        spaces = [elementwise_geometry(m.target, [m.spec]) for m in members]
        self._few = len(members) <= FEW
        self._vector = ALIGNMENT // max(source.itemsize, out.itemsize)
        self._alignments = self._vector * source.itemsize - 1, self._vector * out.itemsize - 1
        self._single = Form(call.device, members, spaces, 1, self._few)
        self._whole = self._single
        if self._vector > 1 and all(map(self._has_vectors, members, spaces)):
            self._whole = Form(call.device, members, spaces, self._vector, self._few)

    def _has_vectors(self, member: Member, space: Geometry) -> bool:
        """Return True if a tensor and its target are runs of whole vectors."""
        if not space.sizes or any(strides[0] != 1 for strides in space.strides):
            return False
        numbers = (member.begin, space.sizes[0], *(s for strides in space.strides for s in strides[1:]))
        return all(number % self._vector == 0 for number in numbers)

    def into(self, out: Any, arrays: Sequence[Any]) -> None:
        """Enqueue it."""
        data = [arrays[position] for position in self._positions]
        bits = 0
        for each in data:
            bits |= each.address
        of_source, of_out = self._alignments
        form = self._single if bits & of_source or out.address & of_out else self._whole
        form.launch(out, data)


class Form:
    """The launch in units of so many elements.

    Args:
        device: Device of the launch.
        members: the tensors.
        spaces: the index space of each, its target's strides first.
        unit: Number of elements that are moved together.
        few: If True, addresses are given at launch.
    """

    def __init__(
        self, device: Device, members: Sequence[Member], spaces: Sequence[Geometry], unit: int, few: bool
    ) -> None:
        source, out = members[0].spec, members[0].target
        ndim = max(1, *(len(space.sizes) for space in spaces))
        if source.dtype is out.dtype:
            types = [MOVED_AS[out.itemsize]] * 2
        else:
            types = [str(spec.dtype.triton_name) for spec in (source, out)]
        declared = DECLARATIONS[name_of(join)].configurations[types[1]]
        chosen_one = declared[0] if unit > 1 else declared[-1]
        largest = max(member.spec.numel for member in members)
        block = block_of(chosen_one, interpreted(), largest)
        self._table = TensorTable(
            device,
            [member.spec for member in members],
            [] if few else [source.itemsize * unit],
            block // unit,
            unit,
            columns_of(members, spaces, ndim, unit),
        )
        self._few = few
        signature = {"base": f"*{types[0]}", "out": f"*{types[1]}", "table": "*i64", "rows": "i32"}
        signature |= {f"x{i}": "i64" for i in range(FEW)}
        self._enqueue = Launch(
            device,
            join,
            signature,
            {
                "NDIM": ndim,
                "GIVEN": few,
                "ITEMSIZE": source.itemsize,
                "V": unit,
                "INDEX": tl.int32 if integer_type(largest + block) == "i32" else tl.int64,
                "BLOCK": block,
            },
            num_warps=chosen_one.warps,
        ).enqueue
        self._grid, self._rows = (self._table.programs, 1, 1), self._table.rows
        self._unused = (0,) * (FEW - len(members) if few else FEW)

    def launch(self, out: Any, data: Sequence[Any]) -> None:
        """Enqueue it."""
        table = self._table.at(() if self._few else (data,))
        addresses = [each.address for each in data] if self._few else []
        addresses += [0] * (FEW - len(addresses))
        self._enqueue(
            (self._table.programs, 1, 1), 0, out.address, table.address, self._table.rows, *addresses
        )


def columns_of(
    members: Sequence[Member], spaces: Sequence[Geometry], ndim: int, unit: int
) -> list[list[int]]:
    """Return the table's columns: begins, sizes of all dimensions but the last, strides of tensors and of
    targets.
    """
    rows = []
    for member, space in zip(members, spaces, strict=True):
        missing = ndim - len(space.sizes)
        sizes = [*space.sizes, *[1] * missing]
        of_target, of_source = ([*strides, *[0] * missing] for strides in space.strides)
        sizes[0] //= unit
        for strides in (of_target, of_source):
            strides[1:] = [stride // unit for stride in strides[1:]]
        rows.append([member.begin // unit, *sizes[:-1], *of_source, *of_target])
    assert all(math.prod(space.sizes) == m.spec.numel for m, space in zip(members, spaces, strict=True))
    return [list(column) for column in zip(*rows, strict=True)]


register_stub("cat_stub", "cuda", cat)
