"""masked_fill, and the indices of nonzero elements."""

from __future__ import annotations

from typing import Any

from ...dispatch.scalars import readable
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..blocks import Blocks
from ..elementwise.constants import RangedConstants
from ..elementwise.selection import selected
from ..plain_numpy import np
from ..widen import FLOAT32
from .index_bounds import own

BLOCK_OF_CHOICES = 1 << 13
"""Elements from which a mask's choices are made by bits, a block at a time."""


def masked_fill(call: StructuredCall) -> PlannedKernel:
    """Fill a number where the mask holds."""
    dtype = call.outputs[0].dtype
    number = constant_of = RangedConstants(call.outputs[0].np_dtype, float, dtype).__getitem__
    from_tensor = "value" in call.runtime and not isinstance(call.args["value"], type)
    same = call.args["self"].sizes == call.outputs[0].sizes == call.args["mask"].sizes
    if from_tensor:
        # As a number, which is refused where it does not fit; one of the same dtype does.
        is_of_dtype = call.args["value"].dtype is dtype
        number = quietly(lambda value: value if is_of_dtype else constant_of(readable(value).item()))

    fixed = None if "value" in call.runtime else call.args["value"]

    def into(out: Any, data: Any, mask: Any, value: Any = fixed) -> None:
        if out is not data:
            np.copyto(out, data)
        np.copyto(out, number(value), where=mask)

    def fresh(data: Any, mask: Any, value: Any = fixed) -> Any:
        out = data.copy()
        np.copyto(out, number(value), where=mask)
        return out

    if call.outputs[0].numel > BLOCK_OF_CHOICES and not from_tensor:
        blocks = Blocks(call.outputs[0], [call.args["self"], call.args["mask"], None])

        def step(out: Any, data: Any, mask: Any, filled: Any) -> None:
            np.copyto(out, selected(mask, filled, data))

        return PlannedKernel(
            lambda out, data, mask, value=fixed: blocks.run(step, out, data, mask, number(value))
        )
    return PlannedKernel(into, fresh if same and call.args["self"].is_contiguous else None)


def nonzero(call: StructuredCall) -> PlannedKernel:
    """Return the indices of nonzero elements, as (n, rank) over a (rank, n) block, and n."""
    spec = call.args["self"]
    sizes, rank = spec.sizes, spec.ndim

    def fresh(data: Any) -> Any:
        if data.dtype.kind == "V":
            data = data.astype(FLOAT32)
        positions = own(data.reshape(-1)).nonzero()[0]
        if rank == 1:
            return positions.reshape(-1, 1), len(positions)
        block = np.empty((rank, len(positions)), np.int64)
        if rank:
            for d, item in enumerate(np.unravel_index(positions, sizes)):
                block[d] = item
        return block.T, len(positions)

    return PlannedKernel(lambda *data: None, fresh)


def nonzero_static(call: StructuredCall) -> PlannedKernel:
    """Return the first indices of nonzero elements, padded with a fill value to a static size."""
    sizes = call.args["self"].sizes
    fill: int = call.args["fill_value"]

    if not call.outputs[0].numel:
        return PlannedKernel(lambda out, data: None)

    def into(out: Any, data: Any) -> None:
        if data.dtype.kind == "V":
            data = data.astype(FLOAT32)
        positions = np.flatnonzero(own(data.reshape(-1)))[: len(out)]
        out.fill(fill)
        if sizes:
            for d, item in enumerate(np.unravel_index(positions, sizes)):
                out[: len(positions), d] = item

    return PlannedKernel(into)


register_stub("masked_fill_stub", "cpu", masked_fill)
register_stub("nonzero_stub", "cpu", nonzero)
register_stub("nonzero_static_stub", "cpu", nonzero_static)
