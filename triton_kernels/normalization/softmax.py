"""Softmax and log_softmax along one dimension, and their gradients; a program has whole rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..contiguous import through_contiguous_operands
from ..conversion import compute_type
from ..elementwise.elementwise import check_devices, check_dtypes
from ..launch import ALIGNMENT, interpreted, launch_nothing, next_power_of_2
from ..reduction.sides import INTERPRETED_TILE, Sides, Tile, line_sides, plan_sides
from ..tuning.choice import configuration
from .clusters import cluster_tile, has_clusters
from .operands import is_alike
from .softmax_kernels import softmax, softmax_backward
from .vectors import AS_THEY_ARE, Cut, cut_rows

LONGEST_BYTES = 32768
"""Bytes of rows that a program holds in registers. Longer rows are read twice, in blocks of half the size, since
each element of a block then has a maximum and a sum that live as long as the row.
"""
CLUSTER_LANE = 32
"""Elements of all operands that a thread of a cluster holds."""


def longest_row(specs: Sequence[TensorSpec], itemsize: int, is_vectors: bool) -> int:
    """Return the bytes of the longest row that 32 warps hold: more if elements share an address.

    Gradient and output fill the registers sooner than one input does, and float32 sooner than 16-bit floats.
    """
    if not is_vectors or itemsize != 4:
        return LONGEST_BYTES
    return 4 * LONGEST_BYTES if len(specs) == 1 and specs[0].itemsize == 2 else 2 * LONGEST_BYTES


def row_tile(
    num_rows: int, n: int, itemsize: int, row_is_inner: bool, longest_bytes: int = LONGEST_BYTES
) -> Configuration:
    """Return a block of whole rows if they are short enough, of several rows if they are very short.

    `itemsize` is that of the compute type. Rows longer than `longest_bytes` are read twice.
    """
    if n * itemsize > longest_bytes:
        longest_bytes = LONGEST_BYTES
    longest = INTERPRETED_TILE if interpreted() else longest_bytes // itemsize
    most_out = next_power_of_2(num_rows)
    if interpreted() or row_is_inner:
        reduced = min(next_power_of_2(n), longest)
        outputs = min(most_out, max(1, (longest if interpreted() else 2048) // reduced))
    else:
        outputs = min(most_out, 32)
        reduced = min(next_power_of_2(n), longest // outputs)
    nbytes = outputs * reduced * itemsize
    if reduced < n and not interpreted():
        reduced //= 2 if row_is_inner else 4
        nbytes //= 1 if row_is_inner else 2
    warps = 4 if nbytes <= 8192 else 8 if nbytes <= 16384 else 16 if nbytes <= LONGEST_BYTES else 32
    return Configuration((outputs, reduced), warps)


def cut_of(sides: Sides, specs: Sequence[TensorSpec]) -> Cut:
    """Return how rows are split into vectors, if all tensors are contiguous along them."""
    if any(own != (1,) for own in sides.reduced.strides):
        return AS_THEY_ARE
    return cut_rows(sides.n, [spec.itemsize for spec in specs], sides.kept.strides)


def step_of(sides: Sides) -> int:
    """Return the stride of a row's elements, or 1 for rows of one element, which have no dimension left."""
    return next(iter(sides.reduced.strides[0]), 1)


def is_in_vectors(sides: Sides, cut: Cut) -> bool:
    """Return True if neighboring elements of a row are loaded together."""
    return sides.reduced_is_inner and (cut.vector > 0 or sides.n % ALIGNMENT == 0)


def chosen_tiling(
    call: StructuredCall,
    kernel: LazyKernel,
    spec: TensorSpec,
    sides: Sides,
    cut: Cut,
    one_block: Configuration,
    lane: int,
) -> Configuration:
    """Return the tile of a launch: the tuned one if it suits these rows, else a cluster's or `one_block`.

    Args:
        spec: The tensor whose dtype is the kernel's.
        one_block: The default without clusters.
        lane: Elements of `spec` that a thread of a cluster holds.
    """
    if interpreted():
        return one_block
    inner, body, default = sides.reduced_is_inner, cut.body(sides.n), one_block
    is_double = compute_type(spec.dtype).primitive_bitwidth > 32
    may_cluster = is_in_vectors(sides, cut) and not is_double and has_clusters(call.device)
    if may_cluster and body > one_block.tile[1]:
        default = cluster_tile(call.device, body, lane) or one_block
    shape = sides.num_rows, sides.n, 1 if inner else step_of(sides)
    tiling = configuration(kernel, call.device, str(spec.dtype.triton_name), shape, default)
    has_other_rows = tiling.tile[0] > 1 if cut.edges else not inner and tiling.tile[0] < default.tile[0]
    fits = is_alike(tiling, default, body) or is_alike(tiling, one_block, body)
    if has_other_rows or not fits or (tiling.ctas > 1 and not may_cluster):
        tiling = default
    if tiling.ctas > 1:
        chosen("a cluster of blocks", "{} blocks hold a row in their registers", tiling.ctas)
    return tiling


def _tell(sides: Sides, body: int, cut: Cut, outputs: int, reduced: int) -> None:
    if body > reduced:
        why = "rows of {} elements do not fit one block of {}, and are read twice"
        chosen("rows in several blocks", why, body, reduced)
    elif outputs > 1:
        chosen("several rows in a block", "rows of {} elements leave room for {} in a block", body, outputs)
    else:
        chosen("a row in one block", "rows of {} elements fit a block of {}", body, reduced)
    if not sides.reduced_is_inner:
        chosen("rows across", "the elements of a row are {} apart", step_of(sides))
    if cut.edges:
        chosen("aligned rows with edges", "rows start at addresses that no vector of {} divides", cut.vector)


def along_rows(names: tuple[str, ...], params: tuple[str, ...], kernel: Any, log: bool) -> Any:
    """Return a kernel factory over the tensors `names` and the output, which are `params` of `kernel`."""

    def factory(call: StructuredCall) -> PlannedKernel:
        specs: list[TensorSpec] = [call.args[name] for name in names]
        out = call.outputs[0]
        if not specs[-1].dtype.is_floating_point:
            raise call.refuse(specs[-1])
        check_dtypes(call, [*specs, out])
        check_devices(out, specs)
        if out.numel == 0:
            chosen("nothing", "there are no elements")
            return PlannedKernel(launch_nothing)
        sides = line_sides([*specs, out], call.extra["dim"])
        if not sides.fits():
            chosen(
                "contiguous copies first",
                "the strides leave more dimensions than the kernel has parameters for",
            )
            return through_contiguous_operands(call, factory, names)
        type_ = compute_type(specs[-1].dtype)
        itemsize = type_.primitive_bitwidth // 8
        inner, num_rows = sides.reduced_is_inner, sides.num_rows
        cut = cut_of(sides, [*specs, out])
        body = cut.body(sides.n)
        longest = longest_row(specs, itemsize, is_in_vectors(sides, cut))
        one_block = row_tile(1 if cut.edges else num_rows, body, itemsize, inner, longest)
        lane = CLUSTER_LANE // len(specs)
        tiling = chosen_tiling(call, kernel, specs[-1], sides, cut, one_block, lane)
        outputs, reduced = tiling.tile
        _tell(sides, body, cut, outputs, reduced)
        pointers = {
            name: f"*{spec.dtype.triton_name}"
            for name, spec in zip(("grad", "x")[-len(specs) :], specs, strict=True)
        }
        pointers["out"] = f"*{out.dtype.triton_name}"
        constexprs: dict[str, object] = {
            "LOG": log,
            "ACCUMULATOR": type_,
            "WHOLE": body <= reduced,
            **cut.constants(),
        }
        launch, grid, numbers = plan_sides(
            call,
            kernel,
            sides,
            pointers,
            constexprs,
            Tile(outputs, reduced, 1, sides.n, tiling.warps, tiling.ctas),
            kept_names=[f"{param}_kept_stride" for param in params],
            reduced_names=[f"{param}_reduced_stride" for param in params],
        )
        if len(specs) == 1:
            return PlannedKernel(lambda out_data, x, *_: launch(grid, x.address, out_data.address, *numbers))
        return PlannedKernel(
            lambda out_data, grad, x, *_: launch(grid, grad.address, x.address, out_data.address, *numbers)
        )

    return factory


FORWARD = (("self",), ("x", "out"), softmax)
BACKWARD = (("grad_output", "output"), ("grad", "x", "out"), softmax_backward)

FACTORIES: dict[str, Callable[[StructuredCall], PlannedKernel]] = {
    "softmax_stub": along_rows(*FORWARD, log=False),
    "log_softmax_stub": along_rows(*FORWARD, log=True),
    "softmax_backward_stub": along_rows(*BACKWARD, log=False),
    "log_softmax_backward_stub": along_rows(*BACKWARD, log=True),
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cuda", _factory)
