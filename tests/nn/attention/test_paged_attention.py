"""Sequences whose keys lie in pages: attention by masks over the cache, and by the kernel that reads the table."""

from __future__ import annotations

import pytest

import triten as tt
from triten.nn.attention.experimental._paged_attention import PagedAttention
from triten.nn.attention.flex_attention import create_block_mask, flex_attention
from triten.nn.attention.varlen import varlen_attn

HEADS, SIZE, PAGES, WIDTH = 2, 4, 9, 8
LENGTHS = (10, 3, 15)


def numbers(*shape: int, dtype: tt.dtype = tt.float32) -> tt.Tensor:
    generator = tt.Generator().manual_seed(sum(shape))
    return tt.randn(shape, generator=generator).to(dtype)


def causal(b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
    return q >= kv


class Filled:
    """Three sequences in a cache that another one has left."""

    def __init__(self, dtype: tt.dtype = tt.float32) -> None:
        self.pages = PagedAttention(PAGES, SIZE, len(LENGTHS) + 1, device="cpu")
        self.keys, self.values = (
            tt.full((1, HEADS, PAGES * SIZE, WIDTH), 7.0, dtype=dtype) for _ in range(2)
        )
        gone = tt.tensor([3])
        self.pages.reserve(gone, tt.tensor([SIZE * 2]))
        self.pages.reserve(tt.tensor([0]), tt.tensor([1]))
        self.pages.erase(gone)
        self.own = [
            [numbers(1, HEADS, n, WIDTH + i, dtype=dtype)[..., :WIDTH] for i in (0, 1)] for n in LENGTHS
        ]
        for number, (length, (key, value)) in enumerate(zip(LENGTHS, self.own, strict=True)):
            one = tt.tensor([number])
            self.pages.reserve(one, tt.tensor([length]))
            place = tt.arange(length)[None]
            self.pages.assign(one, place, key, value, self.keys, self.values)


def test_pages_are_given_and_taken_back() -> None:
    pages = PagedAttention(4, 2, 2, device="cpu")
    first, second = tt.tensor([0]), tt.tensor([1])
    pages.reserve(first, tt.tensor([3]))
    pages.reserve(second, tt.tensor([1]))
    pages.reserve(first, tt.tensor([4]))
    pages.reserve(first, tt.tensor([5]))
    assert pages.page_table.tolist() == [[1, 0, 3, -1], [2, -1, -1, -1]]
    assert pages.capacity.tolist() == [6, 2]
    assert pages.physical_to_logical.tolist() == [[1, 0, -1, 2], [-1, -1, 0, -1]]
    assert pages.empty_pages == []
    with pytest.raises(AssertionError, match="requested 1 pages but there are only 0 empty pages"):
        pages.reserve(second, tt.tensor([3]))
    pages.erase(first)
    assert sorted(pages.empty_pages) == [0, 1, 3]
    assert pages.page_table[0].tolist() == pages.physical_to_logical[0].tolist() == [-1] * 4
    assert pages.capacity.tolist() == [0, 2]


@pytest.mark.parametrize("order", [None, (2, 0, 1)], ids=str)
@pytest.mark.parametrize("limited", [False, True])
def test_flexible_attention_over_the_cache(limited: bool, order: tuple[int, ...] | None) -> None:
    """Batches are the sequences in this order; with a limit the last two keys of each do not count."""
    filled, sequences = Filled(), (0, 1, 2) if order is None else order
    held = tt.tensor([LENGTHS[n] for n in sequences])
    counted = held - 2 * limited
    queries = numbers(3, HEADS, 16, WIDTH)

    def logical(b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
        return (q >= kv) & (kv < held[b])

    mask = create_block_mask(logical, 3, None, 16, 16, device="cpu", BLOCK_SIZE=SIZE)
    batch_idx = None if order is None else tt.tensor(order)
    paged = filled.pages.convert_logical_block_mask(mask, batch_idx, counted if limited else None)
    assert paged.shape == (3, 1, 16, PAGES * SIZE)
    found = flex_attention(queries, filled.keys, filled.values, block_mask=paged)
    for query, mine, n, count in zip(queries, found, sequences, counted.tolist(), strict=True):
        key, value = (x[:, :, :count] for x in filled.own[n])
        scores = query @ key[0].mT / WIDTH**0.5
        scores = scores.masked_fill(tt.arange(count) > tt.arange(16)[:, None], float("-inf"))
        tt.testing.assert_close(mine, scores.softmax(-1) @ value[0])


def test_scores_are_functions_of_keys_of_a_sequence() -> None:
    filled, lengths = Filled(), tt.tensor(LENGTHS)
    queries = numbers(3, HEADS, 16, WIDTH)
    far = filled.pages.get_score_mod(lambda score, b, h, q, kv: score - 0.1 * kv * (h + 1), lengths - 1)
    keys, values = (x.expand(3, -1, -1, -1) for x in (filled.keys, filled.values))
    found = flex_attention(queries, keys, values, score_mod=far)
    for query, mine, n, count in zip(queries, found, (0, 1, 2), (lengths - 1).tolist(), strict=True):
        key, value = (x[0, :, :count] for x in filled.own[n])
        slope = 0.1 * tt.arange(1, HEADS + 1)[:, None, None] * tt.arange(count)
        scores = query @ key.mT / WIDTH**0.5 - slope
        tt.testing.assert_close(mine, scores.softmax(-1) @ value)


def test_the_kernel_reads_the_same_table() -> None:
    filled = Filled(tt.float16)
    order = [2, 0, 1]
    starts = tt.tensor([0, 3, 4, 6], dtype=tt.int32)
    queries = numbers(6, HEADS, WIDTH, dtype=tt.float16)
    pools = [
        x[0].unflatten(1, (PAGES, SIZE)).permute(1, 2, 0, 3).to("cuda") for x in (filled.keys, filled.values)
    ]
    counts = tt.tensor([LENGTHS[n] for n in order], dtype=tt.int32, device="cuda")
    table = filled.pages.page_table[tt.tensor(order)].int().to("cuda")
    found = varlen_attn(
        queries.to("cuda"), *pools, starts.to("cuda"), None, 3, 15, window_size=(-1, 0), seqused_k=counts,
        block_table=table,
    )  # fmt: skip
    for i, n in enumerate(order):
        own = queries[starts[i].item() : starts[i + 1].item()].float().transpose(0, 1)
        key, value = (x[0].float() for x in filled.own[n])
        place = tt.arange(own.shape[1])[:, None] + LENGTHS[n] - own.shape[1]
        scores = (own @ key.mT / WIDTH**0.5).masked_fill(tt.arange(LENGTHS[n]) > place, float("-inf"))
        expected = (scores.softmax(-1) @ value).transpose(0, 1)
        mine = found[starts[i].item() : starts[i + 1].item()].cpu().float()
        tt.testing.assert_close(mine, expected, atol=2e-3, rtol=0)


def test_refusals() -> None:
    filled = Filled()
    key = numbers(1, HEADS, 2, WIDTH)
    one, place = tt.tensor([0]), tt.tensor([[0, 1]])
    with pytest.raises(RuntimeError, match="val must not require gradient"):
        filled.pages.assign(one, place, key.clone().requires_grad_(), key, filled.keys, filled.values)
    with pytest.raises(RuntimeError, match="same length but got S=2 and S=1"):
        filled.pages.assign(one, place[:, :1], key, key, filled.keys, filled.values)
    with pytest.raises(RuntimeError, match="number of heads but got H=2 and H=1"):
        filled.pages.assign(one, place, key, key, filled.keys[:, :1], filled.values)
    mask = create_block_mask(causal, None, None, 16, 16, device="cpu", BLOCK_SIZE=8)
    with pytest.raises(RuntimeError, match="got size=8 and size=4"):
        filled.pages.convert_logical_block_mask(mask)
