"""Attention workloads beside the forward pass: gradients, grouped heads, packed sequences, windows, decoding."""

from __future__ import annotations

from .workloads import Operand, Workload

DTYPE = "bfloat16"
TOKENS = 16384
PAGE = 64
"""Keys of a page."""
SDPA = "F.scaled_dot_product_attention(q, k, v, is_causal={causal}, enable_gqa={grouped})"
VARLEN = (
    "__import__('importlib').import_module(lib.__name__ + '.nn.attention.varlen').varlen_attn("
    "q, k, v, {starts_q}, {starts_k}, {longest_q}, {longest_k}, window_size={window}, enable_gqa={grouped}{pages})"
)
BACKENDS = {"torch": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
# (queries and keys, head, heads, heads of keys, is causal)
TRAINED = (
    (4096, 64, 32, 32, False), (4096, 64, 32, 32, True), (4096, 128, 16, 16, False), (4096, 128, 16, 16, True),
    (8192, 128, 32, 8, True), (1024, 64, 32, 32, True),
)  # fmt: skip
# (batch, keys)
DECODED = (
    (1, 4096),
    (1, 32768),
    (1, 131072),
    (8, 4096),
    (8, 32768),
    (16, 8192),
    (32, 16384),
    (64, 4096),
    (64, 8192),
)
HEADS, SHARED, WIDTH = 32, 8, 128
"""Heads of queries, heads of keys, and head width when decoding."""


def attention_workloads(scale: int) -> list[Workload]:
    """Return the workloads in order of importance. `scale` divides the sizes, for a rehearsal."""
    rows: list[Workload] = []
    for length, head, heads, heads_k, causal in TRAINED:
        rows += trained(scale, length, head, heads, heads_k, causal)
    for batch, keys in DECODED:
        rows.append(decoded(scale, batch, keys, HEADS, SHARED))
    rows += [decoded(scale, 1, 32768, HEADS, HEADS), decoded(scale, 4, 32768, 128, 1)]
    rows += [paged(scale, batch, keys) for batch, keys in ((1, 131072), (8, 32768), (64, 4096))]
    for head in (64, 128):
        for window in ((-1, -1), (-1, 0), (1023, 0)):
            rows += packed(scale, head, window)
    return rows


def flops_of(
    batch: int, heads: int, queries: int, keys: int, head: int, causal: bool, backward: bool = False
) -> int:
    """Return the operations of both matmuls, and with `backward` of the five of the gradients too."""
    forward = 4 * batch * heads * queries * keys * head // (2 if causal else 1)
    return forward * 7 // 2 if backward else forward


def with_gradients(statement: str) -> str:
    """Return a statement that runs forward and backward, and gives the gradient of the queries.

    `d` is the gradient of the output.
    """
    for name in "qkv":
        statement = statement.replace(f"({name},", f"({name}.requires_grad_(),").replace(
            f" {name},", f" {name}.requires_grad_(),"
        )
    return f"lib.autograd.grad({statement}, (q, k, v), d)[0]"


def trained(
    scale: int, length: int, head: int, heads: int, heads_k: int, causal: bool
) -> tuple[Workload, ...]:
    """Return a forward pass of grouped heads, if they are, and a forward pass with its backward pass."""
    long, own = max(length // scale, 8), max(heads // scale, heads // heads_k)
    batch, own_k = max(TOKENS // scale // long, 1), own * heads_k // heads
    queries, keys = Operand((batch, own, long, head), DTYPE), Operand((batch, own_k, long, head), DTYPE)
    statement = SDPA.format(causal=causal, grouped=heads != heads_k)
    name = f"{long}, head {head}{', causal' if causal else ''}"
    if heads != heads_k:
        name += f", {own} heads share {own_k}"
    operands = {"q": queries, "k": keys, "v": keys}
    backward = Workload(
        "attention, backward",
        f"forward and backward {name}",
        with_gradients(statement),
        {**operands, "d": queries},
        flops=flops_of(batch, own, long, long, head, causal, True),
        needs="nn.functional.scaled_dot_product_attention",
        backends=BACKENDS,
    )
    if heads == heads_k:
        return (backward,)
    forward = Workload(
        "attention, grouped heads",
        f"attention {name}",
        statement,
        operands,
        flops=flops_of(batch, own, long, long, head, causal),
        needs="nn.functional.scaled_dot_product_attention",
        backends=BACKENDS,
    )
    return forward, backward


def decoded(scale: int, batch: int, keys: int, heads: int, heads_k: int) -> Workload:
    """Return attention of one query of each sequence to a cache of keys and values."""
    batch, long = max(batch // scale, 1), max(keys // scale, 8)
    query, cache = Operand((batch, heads, 1, WIDTH), DTYPE), Operand((batch, heads_k, long, WIDTH), DTYPE)
    return Workload(
        "attention, decoding",
        f"decode {batch} sequences, {long} keys, {heads} heads share {heads_k}",
        SDPA.format(causal=False, grouped=heads != heads_k),
        {"q": query, "k": cache, "v": cache},
        query.nbytes,
        needs="nn.functional.scaled_dot_product_attention",
    )


def paged(scale: int, batch: int, keys: int) -> Workload:
    """Return attention of one query of each sequence to keys and values in pages."""
    batch, pages = max(batch // scale, 1), max(keys // scale // PAGE, 1)
    query = Operand((batch, HEADS, WIDTH), DTYPE)
    pool = Operand((batch * pages, PAGE, SHARED, WIDTH), DTYPE)
    numbers = "dtype=lib.int32, device=q.device"
    table = f"lib.arange({batch * pages}, {numbers}).view({batch}, {pages})"
    return Workload(
        "attention, decoding",
        f"decode {batch} sequences, {pages * PAGE} keys in pages of {PAGE}, {HEADS} heads share {SHARED}",
        VARLEN.format(
            starts_q=f"lib.arange({batch + 1}, {numbers})",
            starts_k=None,
            longest_q=1,
            longest_k=pages * PAGE,
            window=(-1, 0),
            grouped=True,
            pages=f", seqused_k=lib.full(({batch},), {pages * PAGE}, {numbers}), block_table={table}",
        ),
        {"q": query, "k": pool, "v": pool},
        query.nbytes,
        flops=flops_of(batch, HEADS, 1, pages * PAGE, WIDTH, False),
        needs="nn.functional.scaled_dot_product_attention",
    )


def packed(scale: int, head: int, window: tuple[int, int]) -> tuple[Workload, Workload]:
    """Return four packed sequences of 4,096 rows in a window: forward, and forward with backward."""
    sequences, heads = 4, max(2048 // head // scale, 1)
    long = max(TOKENS // 4 // scale, 8)
    x = Operand((sequences * long, heads, head), DTYPE)
    bounds = f"lib.arange(0, {sequences * long + 1}, {long}, dtype=lib.int32, device=q.device)"
    statement = VARLEN.format(
        starts_q=bounds,
        starts_k=bounds,
        longest_q=long,
        longest_k=long,
        window=window,
        grouped=False,
        pages="",
    )
    left, right = window
    seen = long if left < 0 else min(left + right + 1, long)
    is_causal = left < 0 and right == 0
    name = f"{sequences} sequences of {long}, head {head}, window {window}"
    operands = {"q": x, "k": x, "v": x}
    needs = "nn.functional.scaled_dot_product_attention"
    counted = (sequences, heads, long, seen, head, is_causal)
    return (
        Workload("attention, sequences", name, statement, operands, flops=flops_of(*counted), needs=needs),
        Workload(
            "attention, backward",
            f"forward and backward {name}",
            with_gradients(statement),
            {**operands, "d": x},
            flops=flops_of(*counted, True),
            needs=needs,
        ),
    )
