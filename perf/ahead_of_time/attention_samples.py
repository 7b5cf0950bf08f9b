"""Calls that reach every tile of attention: heads, few queries, masks, dropout, float32, unaligned operands."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...runtime.cuda.driver import driver
from ...triton_kernels.tuning.choice import make_plans_anew
from .sample import Sample, empty, gradients, tt

HALF = ("bfloat16", "float16")
FORWARD = ("attention", "attention_bulk", "attention_warp_specialized", "attention_tensor_memory")
BACKWARD = (
    "attention_backward_keys",
    "attention_backward_queries",
    "attention_backward_keys_warp_specialized",
    "attention_backward_queries_warp_specialized",
    "row_products",
)
VARLEN = ("varlen_attention", "varlen_backward_keys", "varlen_backward_queries")


def _heads(dtype: str, head: int, length: int = 2048, heads: int = 16, keys: int | None = None) -> list[Any]:
    sizes = ((1, 16, length, head), (1, heads, keys or length, head), (1, heads, keys or length, head))
    return [empty(*s, dtype=dtype) for s in sizes]


def _expanded(attend: Any, dtype: str, head: int, is_causal: bool) -> None:
    """Return keys that no tensor map can describe, since their heads are expanded."""
    query, *rest = _heads(dtype, head, heads=1)
    attend(query, *(x.expand(1, 16, -1, -1) for x in rest), is_causal=is_causal)


def _without_gluon(attend: Any, dtype: str, head: int, is_causal: bool) -> None:
    """Run both passes in the Triton language, as under a Triton with an older Gluon."""
    owner = driver()
    owner.has_gluon = False
    make_plans_anew()
    gradients(lambda q, k, v: attend(q, k, v, is_causal=is_causal), *_heads(dtype, head))
    owner.has_gluon = True
    make_plans_anew()


def attention(capability: int) -> Iterator[Sample]:
    """Forward and backward; the calls that the benchmark times come first."""
    attend = tt.nn.functional.scaled_dot_product_attention
    for dtype in HALF:
        for head in (128, 64, 256):
            for causal in (True, False):
                yield Sample(
                    f"attention {dtype} head {head}{' causal' if causal else ''}",
                    lambda d=dtype, e=head, c=causal: gradients(
                        lambda q, k, v: attend(q, k, v, is_causal=c), *_heads(d, e)
                    ),
                    FORWARD + BACKWARD,
                )
    for dtype in HALF:
        for head in (128, 64, 256):
            for causal in (True, False):
                yield Sample(
                    f"attention {dtype} head {head}{' causal' if causal else ''}, one head of keys expanded",
                    lambda d=dtype, e=head, c=causal: _expanded(attend, d, e, c),
                    FORWARD,
                )
        for head in (64, 128):
            yield Sample(
                f"attention {dtype} head {head}, few queries",
                lambda d=dtype, e=head: attend(*_heads(d, e, 48, keys=512)),
            )
    for dtype in (*HALF, "float32"):
        for head in (128, 64, 256):
            yield Sample(
                f"attention {dtype} head {head} masked, dropout",
                lambda d=dtype, e=head: gradients(
                    lambda q, k, v: attend(q, k, v, empty(2048, 2048, dtype=d), 0.1), *_heads(d, e)
                ),
            )
            yield Sample(
                f"attention {dtype} head {head} causal, dropout",
                lambda d=dtype, e=head: gradients(
                    lambda q, k, v: attend(q, k, v, None, 0.1, True), *_heads(d, e)
                ),
            )
            yield Sample(
                f"attention {dtype} head {head}, one query of grouped heads",
                lambda d=dtype, e=head: attend(*_heads(d, e, 1, heads=4, keys=32768), enable_gqa=True),
                ("merge",),
            )
    for dtype in HALF if capability in (90, 100) else ():
        for head in (128, 64, 256):
            for causal in (True, False):
                yield Sample(
                    f"attention {dtype} head {head}{' causal' if causal else ''}, without Gluon",
                    lambda d=dtype, e=head, c=causal: _without_gluon(attend, d, e, c),
                    FORWARD + BACKWARD,
                )
    for head in (64, 128, 256):
        yield Sample(
            f"attention float32 head {head} causal",
            lambda e=head: gradients(lambda q, k, v: attend(q, k, v, is_causal=True), *_heads("float32", e)),
            FORWARD + BACKWARD,
        )
    yield Sample(
        "attention bfloat16 head 64 causal, heads inner",
        lambda: gradients(
            lambda q, k, v: attend(*(x.transpose(1, 2) for x in (q, k, v)), is_causal=True),
            *(empty(1, 2048, 16, 64, dtype="bfloat16") for _ in range(3)),
        ),
        FORWARD + BACKWARD,
    )
    yield Sample(
        "attention bfloat16 head 80, a mask of bool",
        lambda: gradients(
            lambda q, k, v: attend(q, k, v, empty(1, 1, 2048, 2048, dtype="bool")), *_heads("bfloat16", 80)
        ),
    )
    for head in (64, 128):
        for causal in (True, False):
            yield Sample(
                f"attention bfloat16 head {head}{' causal' if causal else ''}, unaligned, odd lengths",
                lambda e=head, c=causal: attend(
                    *(empty(1, 16, 2047, e, dtype="bfloat16", offset=1) for _ in range(3)), is_causal=c
                ),
            )


def _packed(dtype: str, head: int, left: int, right: int, *, counts: bool = False) -> None:
    """Two sequences, with the gradients; with counts of the keys that are used the forward pass alone."""
    starts = empty(3, dtype="int32")
    used = {"seqused_k": empty(2, dtype="int32")} if counts else {}

    def attend(q: Any, k: Any, v: Any) -> Any:
        return tt.ops.aten._varlen_attn(q, k, v, starts, starts, left, right, **used)[0]

    operands = [empty(4096, 16, head, dtype=dtype) for _ in range(3)]
    if counts:
        attend(*operands)
    else:
        gradients(attend, *operands)


def _paged(dtype: str, head: int, left: int, page_size: int, queries: int, sequences: int = 2) -> None:
    """Sequences of up to 4096 keys, which lie in pages; four heads share those of one."""
    query = empty(queries, 16, head, dtype=dtype)
    pool = [empty(64, page_size, 4, head, dtype=dtype) for _ in range(2)]
    sizes = ((sequences + 1,), (sequences,), (sequences, 4096 // page_size))
    starts, used, table = (empty(*n, dtype="int32") for n in sizes)
    tt.ops.aten._varlen_attn(query, *pool, starts, None, left, 0, seqused_k=used, block_table=table)


def _in_window(dtype: str, head: int, left: int, right: int) -> None:
    gradients(lambda q, k, v: tt.ops.aten._sliding_window_attn(q, k, v, left, right)[0], *_heads(dtype, head))


def packed_sequences(capability: int) -> Iterator[Sample]:
    """Attention of variable lengths, in pages and in batches: heads, and the edges that a window may have."""
    for dtype in HALF:
        for head in (64, 128, 256):
            for left, right in ((1024, 0), (-1, -1)) if dtype == "bfloat16" else ():
                yield Sample(
                    f"attention {dtype} head {head}, a batch each, window ({left}, {right})",
                    lambda d=dtype, e=head, a=left, b=right: _in_window(d, e, a, b),
                    (*VARLEN, "row_products"),
                )
            for left, page_size, queries in (
                ((-1, 64, 2), (1024, 64, 2), (-1, 24, 2), (-1, 64, 256), (1024, 24, 256))
                if dtype == "bfloat16"
                else ()
            ):
                yield Sample(
                    f"paged attention {dtype} head {head}, window ({left}, 0), pages of {page_size}, {queries} queries",
                    lambda d=dtype, e=head, a=left, n=page_size, m=queries: _paged(d, e, a, n, m),
                    # Keys of few queries are in parts, whose sums are stored as the matrix instructions leave them.
                    VARLEN[:1] if queries > 2 else ("merge",),
                )
    yield Sample(
        "paged attention bfloat16 head 128, 256 sequences of one query",
        lambda: _paged("bfloat16", 128, -1, 64, 256, 256),
        VARLEN[:1],
    )
    for dtype in HALF:
        for head in (64, 128, 256):
            for left, right in ((-1, -1), (-1, 0), (1024, 0), (1024, -1)):
                yield Sample(
                    f"packed attention {dtype} head {head}, window ({left}, {right})",
                    lambda d=dtype, e=head, a=left, b=right: _packed(d, e, a, b),
                    (*VARLEN, "row_products"),
                )
            yield Sample(
                f"packed attention {dtype} head {head}, counted keys",
                lambda d=dtype, e=head: _packed(d, e, -1, 0, counts=True),
                VARLEN[:1],
            )
