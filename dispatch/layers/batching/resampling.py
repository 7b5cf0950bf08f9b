"""Batching rules of padding, interpolation, im2col, grid sampling and FFTs: the examples become samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .layout import Batch, Dims, Rule, whole

if TYPE_CHECKING:
    from ....runtime.scalar_type import Number
    from ...tensor import Tensor


def over_last(rank: int, tensors: tuple[int, ...] = (0,), sizes_at: int | None = None) -> Rule:
    """Return the rule of an operator over the last `rank` dimensions of (N, *, ...) or (*, ...).

    Args:
        rank: Number of dimensions of an example without its batch, including channels.
        tensors: Positions of the tensor arguments.
        sizes_at: Position of the input's sizes among the arguments, if the operator has them.
    """

    def rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        batched_args = list(args)
        lead: tuple[int, ...] = ()
        for i in tensors:
            x = whole(args[i], dims[i], batch.size)
            sizes = x._spec.sizes
            lead = sizes[: len(sizes) - rank]
            batched_args[i] = x.reshape((-1, *sizes[len(lead) :])) if len(lead) > 1 else x
        if sizes_at is not None:
            own = args[sizes_at]
            batched_args[sizes_at] = [batch.size * own[0], *own[1:]]
        out = batch.op.call(*batched_args)
        return (out.reshape((*lead, *out._spec.sizes[1:])) if len(lead) > 1 else out), 0

    return rule


def constant_pad_nd(
    batch: Batch, dims: Dims, self: Tensor, pad: Sequence[int], value: Number
) -> tuple[Any, Any]:
    """Pad dimensions from the last one on."""
    return batch.op.call(whole(self, dims[0], batch.size), pad, value), 0


def transform(batch: Batch, dims: Dims, self: Any, dim: Any, *rest: Any) -> tuple[Any, Any]:
    """Run an FFT, with dimensions counted from the mapped one."""
    x = whole(self, dims[0], batch.size)
    rank = x._spec.ndim - 1
    return batch.op.call(x, [d % rank + 1 for d in dim], *rest), 0


_PADS = [(f"{kind}_pad{r}d", r) for kind in ("reflection", "replication") for r in (1, 2, 3)]
_UPSAMPLES = [
    *((f"{kind}{r}d", r) for kind in ("upsample_nearest", "_upsample_nearest_exact") for r in (1, 2, 3)),
    ("upsample_linear1d", 1),
    ("upsample_bilinear2d", 2),
    ("upsample_bicubic2d", 2),
    ("upsample_trilinear3d", 3),
    ("_upsample_bilinear2d_aa", 2),
    ("_upsample_bicubic2d_aa", 2),
]

RULES: dict[str, Rule] = {
    "constant_pad_nd": constant_pad_nd,
    **{name: over_last(r + 1) for name, r in (*_PADS, *_UPSAMPLES)},
    **{f"{name}_backward": over_last(r + 1, (0, 1)) for name, r in _PADS},
    **{f"{name}_backward": over_last(r + 1, (0,), 2) for name, r in _UPSAMPLES},
    "im2col": over_last(3),
    "col2im": over_last(2),
    **dict.fromkeys(("_fft_r2c", "_fft_c2r", "_fft_c2c"), transform),
    **{f"grid_sampler_{r}d": over_last(r + 1, (0, 1)) for r in (2, 3)},
}
