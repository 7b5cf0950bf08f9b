"""Attention in sequences that lie one after another: that of each sequence by itself."""

from __future__ import annotations

import math
from typing import Any

import pytest

import triten as tt
from triten.nn.attention.varlen import AuxRequest, varlen_attn, varlen_attn_out
from triten.triton_kernels.attention import tiles

QUERIES, KEYS = (3, 0, 5, 2), (4, 2, 5, 1)


def operand(*shape: int, dtype: tt.dtype = tt.float16) -> tt.Tensor:
    """Return numbers between -1 and 1 with a period of eleven."""
    values = (tt.arange(float(math.prod(shape))) * 7 % 11 - 5) / 5
    return values.reshape(shape).to("cuda", dtype)


def starts(lengths: tuple[int, ...]) -> tt.Tensor:
    return tt.tensor([sum(lengths[:n]) for n in range(len(lengths) + 1)], dtype=tt.int32, device="cuda")


def packed(heads: int = 2, dtype: tt.dtype = tt.float16) -> tuple[tt.Tensor, ...]:
    return (
        operand(sum(QUERIES), heads, 4, dtype=dtype),
        operand(sum(KEYS), heads, 4, dtype=dtype),
        operand(sum(KEYS), heads, 3, dtype=dtype),
        starts(QUERIES),
        starts(KEYS),
    )


def alone(
    q: tt.Tensor, k: tt.Tensor, v: tt.Tensor, window: tuple[int, int], lengths: tuple[int, ...] = KEYS
) -> tuple[tt.Tensor, tt.Tensor]:
    """Compute each sequence's outputs and sums separately, in float32, with its first `lengths` keys."""
    outputs, sums = [], []
    for queries, keys, used, first, first_key in zip(
        QUERIES, KEYS, lengths, starts(QUERIES).tolist(), starts(KEYS).tolist(), strict=False
    ):
        one, other, third = (
            each[start : start + count].float().cpu().transpose(0, 1)
            for each, start, count in ((q, first, queries), (k, first_key, keys), (v, first_key, keys))
        )
        scores = one @ other[:, :used].mT / 2
        place = tt.arange(queries)[:, None] + used - queries
        key = tt.arange(used)
        hidden = tt.zeros(queries, used, dtype=tt.bool)
        if window[0] >= 0:
            hidden |= key < place - window[0]
        if window[1] >= 0:
            hidden |= key > place + window[1]
        scores = scores.masked_fill(hidden, -math.inf)
        outputs.append((scores.softmax(-1).nan_to_num(0.0) @ third[:, :used]).transpose(0, 1))
        sums.append(scores.logsumexp(-1))
    return tt.cat(outputs), tt.cat(sums, 1)


@pytest.mark.parametrize("tile", [128, 16], ids=["whole", "tiles of 16"])
@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (1, 0), (0, 2), (2, -1)], ids=str)
def test_results(window: tuple[int, int], tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", tile)
    q, k, v, *where = packed()
    output, sums = varlen_attn(q, k, v, *where, 5, 5, window_size=window, return_aux=AuxRequest(lse=True))
    expected, expected_sums = alone(q, k, v, window)
    assert output.dtype is tt.float16
    tt.testing.assert_close(output.float().cpu(), expected, atol=2e-3, rtol=0)
    tt.testing.assert_close(sums.cpu(), expected_sums, atol=2e-3, rtol=0)


def test_gradients() -> None:
    q, k, v, *where = packed(dtype=tt.bfloat16)
    leaves = [one.requires_grad_() for one in (q, k, v)]
    grads = tt.autograd.grad(
        varlen_attn(*leaves, *where, 5, 5, window_size=(-1, 0)).float().square().sum(), leaves
    )
    expected = tt.autograd.grad(alone(q, k, v, (-1, 0))[0].square().sum(), leaves)
    for grad, wanted in zip(grads, expected, strict=True):
        assert grad.any()
        tt.testing.assert_close(grad.float(), wanted.float(), atol=3e-2, rtol=0)


def test_only_some_keys_count_and_pages() -> None:
    q, k, v, *where = packed()
    used = (2, 1, 5, 0)
    count = tt.tensor(used, dtype=tt.int32, device="cuda")
    expected = alone(q, k, v, (-1, 0), used)[0]
    output = varlen_attn(q, k, v, *where, 5, 5, window_size=(-1, 0), seqused_k=count)
    tt.testing.assert_close(output.float().cpu(), expected, atol=2e-3, rtol=0)

    # Each sequence's keys in pages of two, which lie in no order.
    table = tt.tensor([[6, 2, -1], [0, -1, -1], [5, 1, 3], [4, -1, 99]], dtype=tt.int32, device="cuda")
    pools = []
    for one in (k, v):
        pool = one.new_full((7, 2, *one.shape[1:]), math.nan).nan_to_num(9.0)
        for sequence, (start, length) in enumerate(zip(starts(KEYS).tolist(), KEYS, strict=False)):
            for token in range(length):
                pool[table[sequence, token // 2].item(), token % 2] = one[start + token]
        pools.append(pool)
    options: dict[str, Any] = {"window_size": (-1, 0), "seqused_k": count, "block_table": table}
    paged = varlen_attn(q, *pools, where[0], None, 5, 5, **options)
    tt.testing.assert_close(paged, output)


def test_grouped_heads() -> None:
    q, k, v, *where = packed()
    repeated = varlen_attn(q, *(one[:, :1].expand(-1, 2, -1) for one in (k, v)), *where, 5, 5)
    tt.testing.assert_close(varlen_attn(q, k[:, :1], v[:, :1], *where, 5, 5, enable_gqa=True), repeated)


def test_into_out() -> None:
    q, k, _, *where = packed()
    out = tt.empty_like(q)
    result, sums = varlen_attn_out(out, q, k, k, *where, 5, 5, return_aux=AuxRequest(lse=True))
    assert result is out
    assert sums.shape == (2, sum(QUERIES))
    tt.testing.assert_close(out, varlen_attn(q, k, k, *where, 5, 5))
    with pytest.raises(RuntimeError, match="expected out of the shape"):
        varlen_attn_out(out[1:], q, k, k, *where, 5, 5)
    with pytest.raises(RuntimeError, match="must not require grad"):
        varlen_attn_out(out, q.clone().requires_grad_(), k, k, *where, 5, 5)


def test_meta() -> None:
    q, k, v, *where = (one.to("meta") for one in packed())
    output, sums = varlen_attn(q, k, v, *where, 5, 5, return_aux=AuxRequest(lse=True))
    assert output.is_meta
    assert (output.shape, sums.shape, sums.dtype) == ((sum(QUERIES), 2, 3), (2, sum(QUERIES)), tt.float32)


def test_refusals() -> None:
    q, k, v, where, where_k = packed()
    count = tt.ones(4, dtype=tt.int32, device="cuda")

    def call(*args: Any, **options: Any) -> None:
        given = [
            other if one is None else one for one, other in zip(args, (q, k, v, where, where_k), strict=True)
        ]
        varlen_attn(*given, 5, 5, **options)

    rest = (None,) * 4
    with pytest.raises(RuntimeError, match="only supports fp16 and bf16"):
        call(q.float(), *rest)
    with pytest.raises(RuntimeError, match="cu_seq_q must have dtype int32"):
        call(None, None, None, where.long(), None)
    with pytest.raises(ValueError, match="Try setting enable_gqa=True"):
        call(None, k[:, :1], v[:, :1], None, None)
    with pytest.raises(ValueError, match="Hq=1 and Hkv=2"):
        call(q[:, :1], *rest, enable_gqa=True)
    with pytest.raises(ValueError, match="window_size must have length 2"):
        call(None, *rest, window_size=(1,))
    with pytest.raises(RuntimeError, match="seqused_k is an inference-only parameter"):
        call(q.clone().requires_grad_(), *rest, seqused_k=count)
    with pytest.raises(RuntimeError, match="expected cu_seq_k"):
        varlen_attn(q, k, v, where, None, 5, 5)
    with pytest.raises(RuntimeError, match="block_table needs seqused_k"):
        varlen_attn(q, k[:, None], v[:, None], where, None, 5, 5, block_table=where[:, None])
