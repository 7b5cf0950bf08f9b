"""Attention within a window on the CPU: each border, groups of heads, and their gradients, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.attention.sequences import WindowedAttention
from triten.runtime.tensor_spec import TensorSpec

WINDOWS = [(-1, -1), (0, 0), (1, 0), (2, 0), (0, 1), (-1, 0), (0, -1), (1, 2), (4, 4), (9, 9)]


def is_seen(query: int, key: int, queries: int, keys: int, window: tuple[int, int]) -> bool:
    """Return True if a window that ends at the last key shows a key to a query."""
    distance = key - (query + keys - queries)
    return not (0 <= window[0] < -distance or 0 <= window[1] < distance)


def reference(
    q: tt.Tensor, k: tt.Tensor, v: tt.Tensor, window: tuple[int, int]
) -> tuple[tt.Tensor, tt.Tensor]:
    """Compute each row by itself from the keys that it sees; a row that sees none is zero."""
    group = q.shape[1] // k.shape[1]
    outputs, sums = [], []
    for query in range(len(q)):
        seen = [key for key in range(len(k)) if is_seen(query, key, len(q), len(k), window)]
        for head in range(q.shape[1]):
            if not seen:
                outputs.append(tt.zeros(v.shape[2], dtype=v.dtype))
                sums.append(tt.tensor(-math.inf, dtype=v.dtype))
                continue
            scores = k[seen, head // group] @ q[query, head] / 2
            outputs.append(scores.softmax(0) @ v[seen, head // group])
            sums.append(scores.logsumexp(0))
    return tt.stack(outputs).view(len(q), q.shape[1], -1), tt.stack(sums).view(len(q), -1).mT


@pytest.mark.parametrize("heads", [(2, 2), (4, 2)], ids=["heads", "groups of heads"])
@pytest.mark.parametrize("rows", [(3, 4), (4, 4), (5, 3)], ids=["fewer queries", "as many", "more queries"])
@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_every_border_of_the_window(
    rng: np.random.Generator, window: tuple[int, int], rows: tuple[int, int], heads: tuple[int, int]
) -> None:
    sizes = ((rows[0], heads[0], 4), (rows[1], heads[1], 4), (rows[1], heads[1], 3))
    q, k, v = (rng.standard_normal(each) for each in sizes)
    spec = TensorSpec.contiguous(sizes[0], tt.float64, tt.device("cpu"))
    attention = WindowedAttention(spec, *heads, window)
    output, sums = np.empty((rows[0], heads[0], 3)), np.empty((heads[0], rows[0]))
    attention.forward(output, sums, q, k, v, 0.5)

    leaves = [tt.from_numpy(each).requires_grad_() for each in (q, k, v)]
    expected, expected_sums = reference(*leaves, window)
    np.testing.assert_allclose(output, expected.detach().numpy(), atol=1e-12)
    np.testing.assert_allclose(sums, expected_sums.detach().numpy(), atol=1e-12)

    grad = rng.standard_normal(output.shape)
    grads = [np.empty_like(each) for each in (q, k, v)]
    attention.backward(*grads, grad, q, k, v, output, sums, 0.5)
    if not expected.requires_grad:
        assert all(not each.any() for each in grads)
        return
    wanted = tt.autograd.grad(
        expected, leaves, tt.from_numpy(grad), allow_unused=True, materialize_grads=True
    )
    for got, each in zip(grads, wanted, strict=True):
        np.testing.assert_allclose(got, each.numpy(), atol=1e-12)
