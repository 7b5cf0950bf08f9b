"""Batching rules of pooling over the last two or three dimensions: the examples become samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .layout import Batch, Dims, Rule, whole

if TYPE_CHECKING:
    from ...tensor import Tensor


def pooling(tensors: tuple[int, ...] = (0,), rank: int = 2) -> Rule:
    """Return the rule of an operator over the last `rank` dimensions, after channels; `tensors` are its tensor
    arguments.
    """

    def rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        batched_args = list(args)
        for i in tensors:
            x = whole(args[i], dims[i], batch.size)
            sizes = x._spec.sizes
            batched_args[i] = x if len(sizes) == rank + 2 else x.reshape((sizes[0] * sizes[1], *sizes[2:]))
        out = batch.op.call(*batched_args)
        if len(sizes) == rank + 2:
            return out, (0, 0) if isinstance(out, tuple) else 0
        lead = sizes[:2]
        if isinstance(out, tuple):
            return tuple([o.reshape((*lead, *o._spec.sizes[1:])) for o in out]), (0, 0)
        return out.reshape((*lead, *out._spec.sizes[1:])), 0

    return rule


def fractional(rank: int) -> Rule:
    """Return the rule of fractional pooling, whose random samples may be for more images than the input has."""

    def rule(
        batch: Batch, dims: Dims, self: Tensor, kernel: Any, out: Any, samples: Tensor
    ) -> tuple[Any, Any]:
        x, numbers = (whole(tensor, dim, batch.size) for tensor, dim in ((self, dims[0]), (samples, dims[3])))
        lead = x._spec.sizes[:-rank]
        if len(lead) == 2:  # Unbatched examples use the random samples of one image.
            if numbers._spec.ndim == 4:
                numbers = numbers.select(1, 0)
            return batch.op.call(x, kernel, out, numbers), (0, 0)
        if numbers._spec.ndim == 4 and numbers._spec.sizes[1] > lead[1]:
            numbers = numbers.narrow(1, 0, lead[1])
        flat = [tensor.reshape((-1, *tensor._spec.sizes[2:])) for tensor in (x, numbers)]
        values, indices = batch.op.call(flat[0], kernel, out, flat[1])
        return tuple([result.reshape((*lead, *out)) for result in (values, indices)]), (0, 0)

    return rule


RULES: dict[str, Rule] = {
    name: pooling(tensors, rank)
    for rank in (2, 3)
    for name, tensors in (
        (f"max_pool{rank}d_with_indices", (0,)),
        (f"max_pool{rank}d_with_indices_backward", (0, 1, 7)),
        (f"avg_pool{rank}d", (0,)),
        (f"avg_pool{rank}d_backward", (0, 1)),
        (f"_adaptive_avg_pool{rank}d", (0,)),
        (f"_adaptive_avg_pool{rank}d_backward", (0, 1)),
        (f"adaptive_max_pool{rank}d", (0,)),
        (f"adaptive_max_pool{rank}d_backward", (0, 1, 2)),
        (f"max_unpool{rank}d", (0, 1)),
        (f"fractional_max_pool{rank}d_backward", (0, 1, 4)),
    )
} | {f"fractional_max_pool{rank}d": fractional(rank) for rank in (2, 3)}
