"""CPU calls allocate, besides their results, only blocks whose size does not grow with the tensors."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

import triten as tt

F = tt.nn.functional
N = 3072
BESIDE = 33 << 20
"""Bytes of blocks, at most: an input has 36 MiB. Most take a few; convolution's columns may be 32 MiB."""

MATRICES: dict[str, Callable[[tt.Tensor, tt.Tensor], object]] = {
    "add": lambda a, b: a + b,
    "add of a row": lambda a, b: a + b[0],
    "add of a transpose": lambda a, b: a + b.T,
    "add of another dtype": lambda a, b: a + tt.ones((), dtype=tt.float64).expand(N, N).to(tt.int8)[:1],
    "mul with a number": lambda a, b: a * 2.0,
    "copy of a transpose": lambda a, b: a.T.contiguous(),
    "exp": lambda a, b: a.exp(),
    "lgamma": lambda a, b: a.lgamma(),
    "gelu": lambda a, b: F.gelu(a),
    "silu": lambda a, b: F.silu(a),
    "where": lambda a, b: tt.where(a > 0, a, b),
    "to float64": lambda a, b: a.double(),
    "to bfloat16": lambda a, b: a.bfloat16(),
    **{
        f"{name} over {dim}": lambda a, b, name=name, dim=dim: getattr(a, name)(dim)
        for name in ("sum", "mean", "amax", "argmax", "max", "var", "std", "logsumexp", "prod", "any")
        for dim in (0, 1)
    }
    | {
        f"{name} of everything": lambda a, b, name=name: getattr(a, name)()
        for name in ("sum", "mean", "amax", "argmax", "var")
    },
    **{
        f"norm of order {order} over {dim}": lambda a, b, order=order, dim=dim: tt.linalg.vector_norm(
            a, order, dim
        )
        for order in (0, 1, 2, float("inf"))
        for dim in (None, 0, 1)
    },
    "softmax of rows": lambda a, b: a.softmax(1),
    "softmax of columns": lambda a, b: a.softmax(0),
    "log_softmax of rows": lambda a, b: a.log_softmax(1),
    "layer_norm": lambda a, b: F.layer_norm(a, (N,)),
    "rms_norm": lambda a, b: F.rms_norm(a, (N,)),
    "batch_norm": lambda a, b: F.batch_norm(a.view(4, 64, 192, 192), None, None, None, None, True),
    "group_norm": lambda a, b: F.group_norm(a.view(4, 64, 192, 192), 8),
    "conv2d": lambda a, b: F.conv2d(a.view(4, 64, 192, 192), b[:2, : 64 * 9].reshape(2, 64, 3, 3), padding=1),
    "max_pool2d": lambda a, b: F.max_pool2d(a.view(4, 64, 192, 192), 2),
}


@pytest.fixture(scope="module")
def matrices() -> tuple[tt.Tensor, tt.Tensor]:
    tt.manual_seed(0)
    return tt.randn(N, N), tt.randn(N, N)


@pytest.mark.parametrize("name", MATRICES)
def test_memory_is_that_of_the_result_and_of_a_few_blocks(
    name: str, matrices: tuple[tt.Tensor, tt.Tensor]
) -> None:
    run = MATRICES[name]
    tracemalloc.start()
    try:
        made = run(*matrices)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    results = made if isinstance(made, tuple) else (made,)
    size = sum(result.nbytes for result in results)
    assert size <= peak + 4096 < size + BESIDE
