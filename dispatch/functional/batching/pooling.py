"""Rules of pooling over the last two dimensions: the examples become samples."""

from __future__ import annotations

from typing import Any

from .layout import Batch, Dims, Rule, whole


def pooling(tensors: tuple[int, ...] = (0,)) -> Rule:
    """The rule of an operator on (channels, h, w) or (n, channels, h, w); `tensors` are its tensor arguments."""

    def rule(batch: Batch, dims: Dims, *args: Any) -> tuple[Any, Any]:
        given = list(args)
        for i in tensors:
            x = whole(args[i], dims[i], batch.size)
            sizes = x._spec.sizes
            given[i] = x if len(sizes) == 4 else x.reshape((sizes[0] * sizes[1], *sizes[2:]))
        out = batch.op.call(*given)
        if len(sizes) == 4:
            return out, (0, 0) if isinstance(out, tuple) else 0
        lead = sizes[:2]
        if isinstance(out, tuple):
            return tuple([o.reshape((*lead, *o._spec.sizes[1:])) for o in out]), (0, 0)
        return out.reshape((*lead, *out._spec.sizes[1:])), 0

    return rule


RULES: dict[str, Rule] = {
    "max_pool2d_with_indices": pooling(),
    "max_pool2d_with_indices_backward": pooling((0, 1, 7)),
    "avg_pool2d": pooling(),
    "avg_pool2d_backward": pooling((0, 1)),
}
