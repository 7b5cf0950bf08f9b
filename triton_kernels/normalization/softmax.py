"""Softmax and log_softmax along one dimension, and their gradients; a program has whole rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.tensor_spec import TensorSpec
from ..contiguous import through_contiguous_operands
from ..conversion import compute_type
from ..elementwise.elementwise import check_devices, check_dtypes
from ..launch import ALIGNMENT, interpreted, launch_nothing, next_power_of_2
from ..reduction.sides import INTERPRETED_TILE, Tile, line_sides, plan_sides
from .softmax_kernels import softmax, softmax_backward

LONGEST_BYTES = 32768
"""What a program holds of its rows in registers; longer rows are read twice, in blocks of half as much, since each
element of a block then has a maximum and a sum that live as long as the row."""


def longest_row(specs: Sequence[TensorSpec], n: int, itemsize: int, row_is_inner: bool) -> int:
    """The bytes of the longest row that 32 warps hold: more where elements have an address in common.

    Those of gradient and output fill the registers sooner than those of an input, and float32 than what is narrower.
    """
    if not row_is_inner or n % ALIGNMENT or itemsize != 4:
        return LONGEST_BYTES
    return 4 * LONGEST_BYTES if len(specs) == 1 and specs[0].itemsize == 2 else 2 * LONGEST_BYTES


def row_tile(
    n_out: int, n: int, itemsize: int, row_is_inner: bool, longest_bytes: int = LONGEST_BYTES
) -> Tile:
    """A block for whole rows where they are short enough, several of them where they are very short.

    `itemsize` is that of the type in which they are computed. Rows longer than `longest_bytes` are read twice.
    """
    if n * itemsize > longest_bytes:
        longest_bytes = LONGEST_BYTES
    longest = INTERPRETED_TILE if interpreted() else longest_bytes // itemsize
    most_out = next_power_of_2(n_out)
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
    return Tile(outputs, reduced, 1, n, warps)


def along_rows(names: tuple[str, ...], letters: str, kernel: Any, log: bool) -> Any:
    """A kernel factory over the tensors `names` and the output, whose strides `kernel` calls by `letters`."""

    def factory(call: StructuredCall) -> PlannedKernel:
        specs: list[TensorSpec] = [call.args[name] for name in names]
        out = call.outputs[0]
        if not specs[-1].dtype.is_floating_point:
            raise call.refuse(specs[-1])
        check_dtypes(call, [*specs, out])
        check_devices(out, specs)
        if out.numel == 0:
            return PlannedKernel(launch_nothing)
        sides = line_sides([*specs, out], call.extra["dim"])
        if not sides.fits():
            return through_contiguous_operands(call, factory, names)
        type_ = compute_type(specs[-1].dtype)
        itemsize = type_.primitive_bitwidth // 8
        longest = longest_row(specs, sides.n, itemsize, sides.reduced_is_inner)
        tile = row_tile(sides.n_out, sides.n, itemsize, sides.reduced_is_inner, longest)
        pointers = {
            name: f"*{spec.dtype.triton_name}"
            for name, spec in zip(("grad", "x")[-len(specs) :], specs, strict=True)
        }
        pointers["out"] = f"*{out.dtype.triton_name}"
        constexprs: dict[str, object] = {
            "LOG": log,
            "ACCUMULATOR": type_,
            "WHOLE": sides.n <= tile.reduced,
        }
        launch, grid, numbers = plan_sides(
            call,
            kernel,
            sides,
            pointers,
            constexprs,
            tile,
            kept_names=[f"{letter}k" for letter in letters],
            reduced_names=[f"{letter}r" for letter in letters],
        )
        if len(specs) == 1:
            return PlannedKernel(lambda to, x, *_: launch(grid, x.address, to.address, *numbers))
        return PlannedKernel(
            lambda to, grad, x, *_: launch(grid, grad.address, x.address, to.address, *numbers)
        )

    return factory


FORWARD = (("self",), "xo", softmax)
BACKWARD = (("grad_output", "output"), "gxo", softmax_backward)

FACTORIES: dict[str, Callable[[StructuredCall], PlannedKernel]] = {
    "softmax_stub": along_rows(*FORWARD, log=False),
    "log_softmax_stub": along_rows(*FORWARD, log=True),
    "softmax_backward_stub": along_rows(*BACKWARD, log=False),
    "log_softmax_backward_stub": along_rows(*BACKWARD, log=True),
}

for _stub, _factory in FACTORIES.items():
    register_stub(_stub, "cuda", _factory)
