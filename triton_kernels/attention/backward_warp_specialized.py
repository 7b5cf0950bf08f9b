"""Launches of attention's warp-specialised backward pass, by keys and by queries: which calls they serve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured import choices
from ...dispatch.structured.stub import StructuredCall
from ...runtime.cuda.tensor_map import DescribedTensor
from ...runtime.cuda.triton.lazy_gluon import shared_descriptor
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration
from ..launch import Launch, cdiv
from .backward_warp_specialized_kernels import (
    attention_backward_keys_warp_specialized,
    attention_backward_queries_warp_specialized,
)
from .bulk import described
from .operands import Sizes
from .tiles import specialized_backward_tiles
from .warp_specialized import FEWEST_QUERIES, can_run

Run = Callable[[list[int], list[int], list[int | float]], None]
"""``run(addresses of query, key, value, gradient, logsumexp and delta, of what is made, the two scales)``."""


class SpecializedBackward:
    """The launches of a call whose operands and gradients tensor maps describe.

    There is no mask and no dropout, and all addresses are multiples of 16.
    """

    def __init__(
        self,
        call: StructuredCall,
        sizes: Sizes,
        operands: Sequence[DescribedTensor],
        grads: Sequence[DescribedTensor | None],
    ) -> None:
        self._call, self._sizes, self._given, self._grads = call, sizes, operands, grads
        tiles = specialized_backward_tiles(sizes.head)
        assert tiles is not None
        self._keys, self._queries = tiles

    def keys(self) -> Run | None:
        """Return the launch for key and value gradients, or None for few keys, which would leave half of the
        warps idle.
        """
        sizes, chosen = self._sizes, self._keys
        if sizes.length_k < FEWEST_QUERIES:
            return None
        block_m, block_n = chosen.tile[:2]
        programs = cdiv(sizes.length_k, block_n) * sizes.batch * sizes.heads_k
        rows = {"q": block_m, "k": block_n // 2, "v": block_n // 2, "grad": block_m}
        rows |= {"grad_k": block_n // 2, "grad_v": block_n // 2}
        kernel = attention_backward_keys_warp_specialized
        return self._planned(kernel, chosen, programs, rows, self._grads[1:])

    def queries(self) -> Run | None:
        """Return the launch for the query gradient, or None for few queries."""
        sizes, chosen = self._sizes, self._queries
        if sizes.length_q < FEWEST_QUERIES:
            return None
        block_m, block_n = chosen.tile[:2]
        programs = cdiv(sizes.length_q, block_m) * sizes.batch * sizes.heads
        rows = {"q": block_m // 2, "k": block_n, "v": block_n, "grad": block_m // 2, "grad_q": block_m // 2}
        kernel = attention_backward_queries_warp_specialized
        return self._planned(kernel, chosen, programs, rows, self._grads[:1])

    def _planned(
        self,
        kernel: Any,
        chosen: Configuration,
        programs: int,
        rows: dict[str, int],
        made: Sequence[DescribedTensor | None],
    ) -> Run:
        call, numbers = self._call, self._sizes.numbers()
        why = "the device has wgmma, and there are {} queries and {} keys"
        choices.chosen("warp-specialised", why, self._sizes.length_q, self._sizes.length_k)
        dtype = call.args["query"].dtype.triton_name or ""
        types = {name: shared_descriptor(dtype, 1, 1, count, chosen.tile[2]) for name, count in rows.items()}
        types |= {"logsumexp": "*fp32", "delta": "*fp32", "scale": "fp32", "factor": "fp32"}
        types |= dict.fromkeys(numbers, "i32")
        constants: dict[str, object] = {"CAUSAL": call.extra["is_causal"], "STAGES": chosen.stages}
        constants |= zip(("BLOCK_M", "BLOCK_N", "BLOCK_D", "BLOCK_DV"), chosen.tile, strict=True)
        launch = Launch(
            call.device,
            kernel,
            {name: types[name] for name in kernel.arg_names if name in types},
            constants,
            # Nothing: with lengths that are known to be multiples the compiler spills sums of keys, head 128, causal.
            divisible=[],
            tensors=[tensor for tensor in (*self._given, *made) if tensor is not None],
            num_warps=chosen.warps,
            num_stages=chosen.stages,
            enable_fp_fusion=True,
            enable_reflect_ftz=True,
        )
        grid = (programs, 1, 1)
        passed = [numbers[name] for name in kernel.arg_names if name in numbers]

        def run(addresses: list[int], made: list[int], scales: list[int | float]) -> None:
            launch(grid, *addresses, *made, *passed, *scales)

        return run


def plan_specialized(
    call: StructuredCall, sizes: Sizes, specs: Sequence[TensorSpec]
) -> SpecializedBackward | None:
    """Return the launches for query, key, value and gradient, or None if the operands or the device do not
    qualify.
    """
    if (
        specs[0].itemsize != 2
        or specialized_backward_tiles(sizes.head) is None
        or not can_run(call.device, sizes)
    ):
        return None
    tensors = [described(spec) for spec in specs]
    qualified = [tensor for tensor in tensors if tensor is not None]
    output_mask = call.extra["wanted"]
    grads = [described(spec) if output_mask[i] else None for i, spec in enumerate(call.outputs)]
    if len(qualified) < len(tensors) or any(output_mask[i] and grad is None for i, grad in enumerate(grads)):
        return None
    return SpecializedBackward(call, sizes, qualified, grads)
