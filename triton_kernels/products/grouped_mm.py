"""Grouped matmuls: groups of rows or columns with a matrix each, or groups along the K dimension.

Groups of columns are groups of rows of the transposed matmul, so one kernel serves both. Without groups, two
batches are a plain batched matmul.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.driver import driver
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..launch import INT32_MAX, Launch, cdiv, integer_type, interpreted, launch_nothing, next_power_of_2
from .bulk import FIRST_DESIGN, describe
from .grouped_kernels import (
    BULK,
    BULK_EIGHT_BITS,
    EIGHT_BITS,
    HALF,
    SINGLE,
    TF32,
    grouped_matmul,
    grouped_matmul_bulk,
)
from .mm import plan_matmul, precision_of, where_aligned
from .problem import Matrices, multiprocessors
from .product import Tiling, bounded, stride_arguments
from .scaled_mm import EXACT_AFTER, refuse_old_devices


@dataclass(frozen=True)
class Groups:
    """A product in groups, turned so that rows are what groups share if one operand is a matrix.

    Args:
        shared: "rows", "inner", or "" for batches.
        left, right, out: Operands that `grouped_matmul` calls a, b and out.
        swapped: If True, these are the operands transposed and exchanged.
        scales: the specs of the scales of rows of `left` and columns of `right`; None where there are none.
        count: the number of groups.
    """

    shared: str
    left: TensorSpec
    right: TensorSpec
    out: TensorSpec
    swapped: bool
    scales: tuple[TensorSpec, TensorSpec] | None
    count: int

    @classmethod
    def of(cls, call: StructuredCall) -> Groups:
        """Return the groups of a call of ``_grouped_mm`` or ``_scaled_grouped_mm``."""
        left, right, out = call.args["self"], call.args["mat2"], call.outputs[0]
        scales = (call.args["scale_a"], call.args["scale_b"]) if "scale_a" in call.args else None
        offs = call.args["offs"]
        if offs is None:
            return cls("", left, right, out, False, scales, left.sizes[0])
        count = offs.sizes[0]
        if left.ndim == right.ndim:
            return cls("inner", left, right, out, False, scales, count)
        if left.ndim == 2:
            return cls("rows", left, right, out, False, scales, count)
        turned = None if scales is None else (scales[1], scales[0])
        return cls("rows", exchanged(right), exchanged(left), exchanged(out), True, turned, count)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """m, n and k: those of a group, and all that the groups share."""
        return self.left.sizes[-2], self.right.sizes[-1], self.left.sizes[-1]

    def strides(self) -> dict[str, int]:
        """Return the strides of operands and scales by the names of the kernel's parameters."""
        strides = {"az": 0, "bz": 0, "oz": 0, "ra": 0, "rb": 0}
        for letters, spec in (("amk", self.left), ("bkn", self.right), ("omn", self.out)):
            letter, row, column = letters
            strides |= {f"{letter}{row}": spec.strides[-2], f"{letter}{column}": spec.strides[-1]}
            if spec.ndim == 3:
                strides[f"{letter}z"] = spec.strides[0]
        if self.scales is not None:
            lines = self.sizes[:2]
            for name, spec, line in zip(("ra", "rb"), self.scales, lines, strict=True):
                strides[name] = spec.strides[0] if spec.ndim == 2 else line
        return strides


def exchanged(spec: TensorSpec) -> TensorSpec:
    """Return the spec with its last two dimensions exchanged."""
    return spec.replace(
        sizes=(*spec.sizes[:-2], spec.sizes[-1], spec.sizes[-2]),
        strides=(*spec.strides[:-2], spec.strides[-1], spec.strides[-2]),
    )


def tiling(call: StructuredCall, groups: Groups, precision: str, by_bytes: bool) -> Tiling:
    """Return the tile: for groups of one size, large if the tiles fill the multiprocessors.

    `by_bytes` says that 8-bit elements have an address and a mask each, which leave a large tile no
    registers.
    """
    m, n, k = groups.sizes
    if interpreted():
        inner = max(bounded(k, 128), 32 // groups.left.itemsize)
        return Tiling(bounded(m, 64), bounded(n, 128), inner, 4, 1)
    capability = driver().properties(call.device.resolved_index).capability
    itemsize = groups.left.itemsize
    table = (
        EIGHT_BITS if itemsize == 1 else HALF if itemsize == 2 else TF32 if precision == "tf32" else SINGLE
    )
    *larger, small = (configuration for configuration in table if configuration.is_for(capability))
    large = larger[0] if larger else small
    rows = cdiv(m, max(groups.count, 1)) if groups.shared == "rows" else m
    tiles = groups.count * cdiv(rows, large.tile[0]) * cdiv(n, large.tile[1])
    fits = 2 * rows > large.tile[0] and tiles >= multiprocessors(call.device)
    configuration = large if fits and not (itemsize == 1 and by_bytes) else small
    return Tiling(*configuration.tile, configuration.warps, configuration.stages)


def plan_groups(
    call: StructuredCall, groups: Groups, precision: str, imprecise: int | None, by_bytes: bool
) -> Callable[..., None]:
    """Return ``launch(a, b, out, [offs,] [scale of rows, scale of columns])`` over addresses."""
    m, n, k = groups.sizes
    tile = tiling(call, groups, precision, by_bytes)
    strides = groups.strides()
    reach = max(
        (m + tile.m) * max(abs(strides["am"]), abs(strides["om"])) + (k + tile.k) * abs(strides["ak"]),
        (n + tile.n) * max(abs(strides["bn"]), abs(strides["on"])) + (k + tile.k) * abs(strides["bk"]),
    )
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * reach))
    sizes = {"m": m, "n": n, "k": k, "groups": groups.count}
    every = {
        "a": f"*{groups.left.dtype.triton_name}",
        "b": f"*{groups.right.dtype.triton_name}",
        "out": f"*{groups.out.dtype.triton_name}",
        **dict.fromkeys(sizes, "i32"),
        **signature,
    }
    if groups.shared:
        every["offs"] = "*i32"
    else:
        constants["offs"] = None
    if groups.scales is None:
        constants |= {"scale_a": None, "scale_b": None}
    else:
        every |= {"scale_a": "*fp32", "scale_b": "*fp32"}
    launch = Launch(
        call.device,
        grouped_matmul,
        {name: every[name] for name in grouped_matmul.arg_names if name in every},
        {
            **constants,
            "SHARED": groups.shared,
            "PRECISION": precision,
            "IMPRECISE": None if imprecise is None else min(imprecise, tile.k),
            **tile.constants(),
            "GROUPS": next_power_of_2(groups.count + 1),
        },
        divisible=[*divisible, *(name for name, size in sizes.items() if size % 16 == 0)],
        elements=("offs", "scale_a", "scale_b"),
        num_warps=tile.warps,
        num_stages=tile.stages,
    )
    if groups.shared == "rows":
        tiles = (m + (groups.count + 1) * (tile.m - 1)) // tile.m
    else:
        tiles = cdiv(m, tile.m) * groups.count
    grid = (tiles * cdiv(n, tile.n), 1, 1)
    numbers = tuple(
        {**sizes, **values}[name] for name in grouped_matmul.arg_names if name in sizes or name in values
    )

    def run(*addresses: int) -> None:
        launch(grid, *addresses, *numbers)

    return run


def plan_bulk_groups(
    call: StructuredCall, groups: Groups, precision: str, imprecise: int | None
) -> Callable[..., None] | None:
    """Return the launch of `plan_groups` by tensor descriptors, for addresses that are multiples of 16, or None.

    Groups must be of rows: a descriptor does not end where a group along K does, and its blocks begin at
    whole vectors of a line.
    """
    properties = driver().properties(call.device.resolved_index)
    itemsize = groups.left.itemsize
    if groups.shared != "rows" or itemsize > 2 or properties.design < FIRST_DESIGN:
        return None
    (m, n, k), count = groups.sizes, groups.count
    left, right = describe(Matrices.of(groups.left)), describe(Matrices.of(groups.right))
    if left is None or left.transposed or right is None or k == 0 or max(m, n, k) > INT32_MAX:
        return None
    if interpreted():
        configuration = Configuration(
            (bounded(m, 64), bounded(n, 128), max(bounded(k, 128), 32 // itemsize)), 4, 1
        )
    else:
        large, small = BULK_EIGHT_BITS if itemsize == 1 else BULK
        rows = cdiv(m, max(count, 1))
        tiles = count * cdiv(rows, large.tile[0]) * cdiv(n, large.tile[1])
        configuration = large if 2 * rows > large.tile[0] and tiles >= multiprocessors(call.device) else small
    block_m, block_n, block_k = configuration.tile
    strides = {name: groups.strides()[name] for name in ("om", "on", "rb")}
    extent = (m + block_m) * abs(strides["om"]) + (n + block_n) * abs(strides["on"])
    signature, constants, values, divisible = stride_arguments(strides, integer_type(2 * extent))
    element = groups.left.dtype.triton_name
    assert element is not None
    sizes = {"m": m, "n": n, "k": k, "groups": count}
    every = {
        "a": left.type_name(element, block_m, block_k),
        "b": right.type_name(element, block_k, block_n),
        "out": f"*{groups.out.dtype.triton_name}",
        "offs": "*i32",
        **dict.fromkeys(sizes, "i32"),
        **signature,
    }
    if groups.scales is None:
        constants |= {"scale_a": None, "scale_b": None}
    else:
        every |= {"scale_a": "*fp32", "scale_b": "*fp32"}
    launch = Launch(
        call.device,
        grouped_matmul_bulk,
        {name: every[name] for name in grouped_matmul_bulk.arg_names if name in every},
        {
            **constants,
            "B_TRANSPOSED": right.transposed,
            "B_BATCHED": right.batched,
            "PRECISION": precision,
            "IMPRECISE": None if imprecise is None else min(imprecise, block_k),
            "BLOCK_M": block_m,
            "BLOCK_N": block_n,
            "BLOCK_K": block_k,
            "GROUPS": next_power_of_2(count + 1),
        },
        divisible=[*divisible, *(name for name, size in sizes.items() if size % 16 == 0)],
        elements=("offs", "scale_a", "scale_b"),
        tensors=[left.tensor, right.tensor],
        num_warps=configuration.warps,
        num_stages=configuration.stages,
    )
    grid = ((m + (count + 1) * (block_m - 1)) // block_m * cdiv(n, block_n), 1, 1)
    names = grouped_matmul_bulk.arg_names
    numbers = tuple({**sizes, **values}[name] for name in names if name in sizes or name in values)
    return lambda *addresses: launch(grid, *addresses, *numbers)


def runner(call: StructuredCall, groups: Groups, precision: str, imprecise: int | None) -> PlannedKernel:
    """Return the kernel over the call's tensors."""
    run = plan_bulk_groups(call, groups, precision, imprecise)
    is_bulk = run is not None
    if run is None:
        chosen(
            "tiled, through pointers", "no tensor descriptors serve groups of {}", groups.shared or "batches"
        )
        # A group begins anywhere along the K dimension.
        along = groups.shared != "inner"
        whole = along and all(
            Matrices.of(operand).has_whole_vectors for operand in (groups.left, groups.right)
        )
        run = plan_groups(call, groups, precision, imprecise, by_bytes=not whole)
    else:
        chosen("by tensor descriptors", "groups share rows, and lines are multiples of 16 bytes apart")
    if is_bulk or groups.left.itemsize == 1:
        run = where_aligned(run, 2, lambda: plan_groups(call, groups, precision, imprecise, by_bytes=True))
    names = list(call.runtime)
    operands, scales = ["self", "mat2"], ["scale_a", "scale_b"] if groups.scales is not None else []
    if groups.swapped:
        operands.reverse()
        scales.reverse()
    first, second = (names.index(name) for name in operands)
    rest = [names.index(name) for name in [*(["offs"] if groups.shared else []), *scales]]

    def into(out: Any, *inputs: Any) -> None:
        run(inputs[first].address, inputs[second].address, out.address, *(inputs[i].address for i in rest))

    return PlannedKernel(into)


def grouped_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_grouped_mm``."""
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    groups = Groups.of(call)
    if not groups.shared:
        run = plan_matmul(call, groups.left, groups.right, None, None)
        return PlannedKernel(lambda out, x, y, *_: run(x.address, y.address, out.address))
    return runner(call, groups, precision_of(call, groups.left), None)


def scaled_grouped_mm(call: StructuredCall) -> PlannedKernel:
    """Return the kernel of ``_scaled_grouped_mm``."""
    refuse_old_devices(call)
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    design = driver().properties(call.device.resolved_index).design
    exact = EXACT_AFTER if design == 90 and not call.args["use_fast_accum"] else None
    return runner(call, Groups.of(call), "ieee", exact)


register_stub("_grouped_mm_stub", "cuda", grouped_mm)
register_stub("_scaled_grouped_mm_stub", "cuda", scaled_grouped_mm)
