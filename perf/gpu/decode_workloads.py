"""Workloads of decoding: linear layers of a model with 8 billion parameters, for a batch of one to 64 tokens.

Each row is bound by reading the weight once. The weights of five layers have the shapes of Llama 3 8B. They project to
queries, keys and values together, to the attention's output, into and out of the feed-forward layer, and to the
vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import Operand, Workload

TOKENS = (1, 2, 4, 8, 16, 32, 64)
"""Rows of activations."""
WEIGHTS = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336), (128256, 4096))
"""Sizes (N, K) of the weights of `F.linear`."""


def decode(scale: int) -> Iterator[Workload]:
    """Yield a linear layer for each number of tokens and each weight.

    Example:
        >>> from triten.perf.gpu.decode_workloads import decode
        >>> rows = list(decode(1))
        >>> len(rows), rows[0].name, rows[-1].operands["w"].shape
        (35, 'linear 1x6144x4096 bfloat16', (128256, 4096))
    """
    sizes = [(max(m // scale, 1), max(n // scale, 8), max(k // scale, 8)) for m in TOKENS for n, k in WEIGHTS]
    for m, n, k in dict.fromkeys(sizes):
        yield Workload(
            "matmul, at most 64 rows",
            f"linear {m}x{n}x{k} bfloat16",
            "F.linear(a, w)",
            {"a": Operand((m, k), "bfloat16"), "w": Operand((n, k), "bfloat16")},
            flops=2 * m * n * k,
        )
