"""Matmuls with an epilogue from a compiled graph: the eager kernel with a function that stores the results.

The K dimension has the same tiles as without the epilogue, so sums accumulate in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...dispatch.structured.stub import StructuredCall
from .mm import ACTIVATIONS, OPERANDS, plan_matmul
from .problem import CannotFuse, FusedEpilogue, Scales
from .product import accumulation

NUMBERS = ("alpha", "beta")


def plan_fused(
    call: StructuredCall, numbers: Mapping[str, Any], fused: FusedEpilogue
) -> tuple[Callable[..., None], tuple[str, ...]]:
    """Return a matmul's launch, and the names of the arguments whose addresses come first.

    Its arguments are those addresses, the address of the result, and those of the epilogue's pointers. If the
    result itself is not stored, any address may stand for it.

    Args:
        call: Planned call of one of `OPERANDS`.
        numbers: the values of `alpha` and `beta`, as far as the call is given them.
        fused: the epilogue.

    Raises:
        CannotFuse: the kernel that serves the product takes no such epilogue.
    """
    names = OPERANDS[call.name]
    left, right = call.args[names[0]], call.args[names[1]]
    if not left.dtype.is_floating_point or left.dtype.itemsize < 2 or call.outputs[0].numel == 0:
        raise CannotFuse(f"{left.dtype} is not added up in floats of its own")
    if not call.outputs[0].is_contiguous:
        raise CannotFuse("its result is not contiguous")
    if names[0] == "self":
        return plan_matmul(call, left, right, None, None, fused=fused), names
    scales = Scales(call, accumulation(call, left))
    has_addend, values = scales.values([numbers.get(name) for name in call.runtime])
    activation = ACTIVATIONS[call.args.get("use_gelu")]
    addend = call.args["self"] if has_addend else None
    launch = plan_matmul(call, left, right, addend, scales, activation, fused)
    address_names = (*names, "self") if has_addend else names
    if not values:
        return launch, address_names
    return lambda *addresses: launch(*addresses, *values), address_names
