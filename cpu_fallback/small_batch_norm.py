"""batch_norm of small arrays: all of it at once, in float64, which needs neither blocks nor a look at overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..runtime.tensor_spec import TensorSpec

Array = np.ndarray[Any, Any]

SMALL = 1 << 12
"""Elements up to which the wider numbers cost less than calls for blocks."""


def small_batch_norm(spec: TensorSpec, training: bool) -> Callable[..., None]:
    """The kernel of `batch_norm` for tensors of this geometry, of at most `SMALL` elements."""
    n, c, *spatial = spec.sizes
    count = spec.numel // c
    by_channel = (c, n, *spatial)
    rows = (c, count)
    ones = np.ones(count)
    # The unbiased variance of a single value is none.
    unbiased = count / (count - 1) if count > 1 else np.inf

    def moved(running: Array, new: Array, momentum: float) -> None:
        old = running.astype(np.float64)
        np.multiply(old, 1 - momentum, old)
        np.add(old, new * momentum, old)
        np.copyto(running, old, casting="unsafe")

    def into(
        out: Array,
        save_mean: Array,
        save_invstd: Array,
        x: Array,
        weight: Array | None,
        bias: Array | None,
        running_mean: Array | None,
        running_var: Array | None,
        momentum: float,
        eps: float,
    ) -> None:
        made = np.empty(by_channel)
        made[...] = x.swapaxes(0, 1)
        lines = made.reshape(rows)
        if training:
            mean = lines.dot(ones)
            np.divide(mean, count, mean)
            np.subtract(lines, mean[:, None], lines)
            scale = np.vecdot(lines, lines)
            np.divide(scale, count, scale)
            if running_mean is not None and running_var is not None:
                moved(running_mean, mean, momentum)
                moved(running_var, scale * unbiased, momentum)
        else:
            assert running_mean is not None and running_var is not None
            np.subtract(lines, running_mean.reshape(c, 1), lines)
            scale = running_var.astype(np.float64).reshape(c)
        np.add(scale, eps, scale)
        np.sqrt(scale, scale)
        np.divide(1, scale, scale)
        if training:
            np.copyto(save_mean, mean, casting="unsafe")
            np.copyto(save_invstd, scale, casting="unsafe")
        if weight is not None:
            np.multiply(scale, weight.reshape(c), scale)
        np.multiply(lines, scale[:, None], lines)
        if bias is not None:
            np.add(lines, bias.reshape(c, 1), lines)
        np.copyto(out.swapaxes(0, 1), made, casting="unsafe")

    return into
