"""Launch of the merge of partial results, one for each span of keys."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import StructuredCall
from ...runtime.allocator import get_allocator
from ...runtime.tensor_spec import TensorSpec
from ..launch import Launch, cdiv, interpreted, next_power_of_2
from .merge_kernel import MERGED, merge
from .operands import Arguments, Sizes, padded


class Merge:
    """The merge of a call: partial sums of values, sums of weights and maxima, first part first.

    Args:
        call: the call.
        sizes: its sizes. A line is one query of one head, in the order of (batch, head, query).
        out: Spec of the result (batch, heads, queries, width).
        parts: Number of parts.
        saves: If True, also store each line's logsumexp.
        of_sequences: If True, the logsumexp of a line that sees no key is minus infinity, otherwise 0.
    """

    def __init__(
        self,
        call: StructuredCall,
        sizes: Sizes,
        out: TensorSpec,
        parts: int,
        *,
        saves: bool,
        of_sequences: bool = False,
    ) -> None:
        self._lines, self._width, self._parts, self._device = sizes.lines, sizes.width_v, parts, call.device
        wide = padded(sizes.width_v)
        # In the interpreter a program costs far more than its elements.
        room = max((1 << 14 if interpreted() else MERGED.elements) // wide, 1)
        block_p = min(next_power_of_2(parts), room)
        block_m = min(max(room // block_p, 1), next_power_of_2(sizes.lines))
        arguments = Arguments(call, sizes, (("om", out),), None, parts=parts)
        every = {
            "totals": "*fp32",
            "sums": "*fp32",
            "tops": "*fp32",
            "out": f"*{out.dtype.triton_name}",
            "n_lines": "i64",
            "kept_scale": "fp32",
            **arguments.types,
        }
        if saves:
            every["logsumexp"] = "*fp32"
        names = [name for name in merge.arg_names if name in every]
        known: dict[str, object] = {
            **arguments.constants,
            "OF_SEQUENCES": of_sequences,
            "BLOCK_M": block_m,
            "BLOCK_P": block_p,
            "logsumexp": None,
        }
        self._launch = Launch(
            call.device,
            merge,
            {name: every[name] for name in names},
            {name: known[name] for name in merge.arg_names if name not in every and name in known},
            divisible=[name for name in arguments.divisible if name in names],
            num_warps=MERGED.warps,
            enable_fp_fusion=True,
        )
        self._grid = (cdiv(sizes.lines, block_m), 1, 1)
        values = {**arguments.values, "n_lines": sizes.lines}
        self._passed = [values[name] for name in names if name in values]
        self._allocate = get_allocator("cuda").allocate

    def allocated(self) -> tuple[Any, Any, Any]:
        """Allocate the partial results: sums of weighted values, sums of weights, maxima."""
        lines = 4 * self._parts * self._lines
        allocate, device = self._allocate, self._device
        return allocate(lines * self._width, device), allocate(lines, device), allocate(lines, device)

    def __call__(
        self, totals: Any, sums: Any, tops: Any, out: int, logsumexp: int | None, kept_scale: float
    ) -> None:
        """Enqueue the merge."""
        statistics = [] if logsumexp is None else [logsumexp]
        self._launch(
            self._grid,
            totals.address,
            sums.address,
            tops.address,
            out,
            *statistics,
            *self._passed,
            kept_scale,
        )
