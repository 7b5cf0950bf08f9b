"""Sliding-window attention of dense batches agrees with the formula in float64.

The tests cover lengths, heads, layouts, gradients and errors.
"""

import math

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.attention import tiles

attention = tt.ops.aten._sliding_window_attn
WINDOWS = [(-1, -1), (-1, 0), (7, 0), (0, 2), (2, -1), (17, 5), (0, 0), (2**31 - 1, 2**31 - 1)]
LENGTHS = [(37, 37), (20, 50), (50, 20), (1, 40), (40, 1), (64, 64)]
TOLERANCE = {tt.float16: 4e-3, tt.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small tiles, so that a sequence has several."""
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)


def operands(heads: int, heads_k: int, length: int, keys: int, width: int, width_v: int) -> list[tt.Tensor]:
    """Return query, key, value and the gradient of the output, for two batches."""
    rng = np.random.default_rng(3)
    shapes = (
        (heads, length, width),
        (heads_k, keys, width),
        (heads_k, keys, width_v),
        (heads, length, width_v),
    )
    return [tt.from_numpy(rng.standard_normal((2, *shape))) for shape in shapes]


def formula(
    query: tt.Tensor, key: tt.Tensor, value: tt.Tensor, left: int, right: int, scale: float | None = None
) -> tuple[tt.Tensor, tt.Tensor]:
    """Compute the output and the log-sum-exp from the whole matrix of scores."""
    group, length, keys = query.shape[1] // key.shape[1], query.shape[2], key.shape[2]
    key, value = (x.repeat_interleave(group, 1) for x in (key, value))
    scores = query @ key.mT * (1 / math.sqrt(query.shape[3]) if scale is None else scale)
    distance = tt.arange(keys) - (tt.arange(length)[:, None] + keys - length)
    hidden = tt.zeros(length, keys, dtype=tt.bool)
    if left >= 0:
        hidden |= distance < -left
    if right >= 0:
        hidden |= distance > right
    scores = scores.masked_fill(hidden, -math.inf)
    empty = hidden.all(1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    return weights @ value, scores.logsumexp(-1)


def results(function, given, device, dtype, *arguments, **options) -> list[np.ndarray]:  # type: ignore[no-untyped-def]
    """Return the output, the sums, and the gradients of query, key and value."""
    leaves = [x.to(device, dtype).requires_grad_() for x in given[:3]]
    output, sums = function(*leaves, *arguments, **options)
    grads = tt.autograd.grad(output, leaves, given[3].to(device, dtype))
    return [x.detach().cpu().double().numpy() for x in (output, sums, *grads)]


def check(given: list[tt.Tensor], dtype: tt.dtype, window: tuple[int, int], **options: float) -> None:
    expected, limit = results(formula, given, "cpu", tt.float64, *window, **options), TOLERANCE[dtype]
    for mine, theirs in zip(
        results(attention, given, "cuda", dtype, *window, **options), expected, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=limit, atol=2 * limit)
    for mine, theirs in zip(
        results(attention, given, "cpu", tt.float64, *window, **options), expected, strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window: tuple[int, int]) -> None:
    check(operands(2, 2, 37, 50, 16, 16), tt.float16, window)


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("window", [(7, 0), (-1, 0), (9, 4)], ids=str)
def test_lengths(lengths: tuple[int, int], window: tuple[int, int]) -> None:
    check(operands(2, 1, *lengths, 16, 16), tt.float16, window)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("heads", [(4, 2, 20, 24), (3, 1, 16, 40), (2, 2, 144, 8)], ids=str)
def test_heads(heads: tuple[int, int, int, int], dtype: tt.dtype) -> None:
    heads, heads_k, *widths = heads
    check(operands(heads, heads_k, 33, 40, *widths), dtype, (9, 0))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_heads_that_share_a_tile(window: tuple[int, int]) -> None:
    check(operands(6, 2, 3, 50, 16, 16), tt.float16, window)
    check(operands(16, 1, 1, 50, 16, 24), tt.float16, window)


@pytest.mark.parametrize("scale", [0.3, 0.0, -0.5])
def test_scales(scale: float) -> None:
    check(operands(2, 2, 20, 20, 16, 16), tt.float16, (5, 4), scale=scale)


def test_lengths_before_heads_in_memory() -> None:
    given = operands(2, 2, 37, 37, 16, 16)
    plain = results(attention, given, "cuda", tt.float16, 7, 0)
    turned = [x.half().to("cuda").transpose(1, 2).contiguous().transpose(1, 2) for x in given]
    output = attention(*turned[:3], 7, 0)[0]
    assert output.stride() == turned[0].stride()
    for mine, theirs in zip(results(attention, turned, "cuda", tt.float16, 7, 0), plain, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_packed_sequences_of_one_length_are_the_same() -> None:
    q, k, v = (x.half().to("cuda") for x in operands(2, 2, 37, 37, 16, 16)[:3])
    bounds = tt.tensor([0, 37, 74], dtype=tt.int32, device="cuda")
    packed = [x.transpose(1, 2).flatten(0, 1) for x in (q, k, v)]
    there = tt.ops.aten._varlen_attn(*packed, bounds, bounds, 7, 0)[0]
    here = attention(q, k, v, 7, 0)[0].transpose(1, 2).flatten(0, 1)
    np.testing.assert_array_equal(here.cpu().numpy(), there.cpu().numpy())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "sizes",
    [(0, 2, 3, 3), (2, 0, 3, 3), (2, 2, 0, 3), (2, 2, 3, 0)],
    ids=["batch", "heads", "queries", "keys"],
)
def test_empty(sizes: tuple[int, int, int, int], device: str) -> None:
    batch, heads, length, keys = sizes
    q, k, v = (
        tt.ones(batch, heads, n, 16, dtype=tt.float16, device=device).requires_grad_()
        for n in (length, keys, keys)
    )
    output, sums = attention(q, k, v, 4, 0)
    assert output.shape == q.shape
    assert (output == 0).all()
    assert (sums == -math.inf).all()
    for grad, leaf in zip(tt.autograd.grad(output.sum(), (q, k, v)), (q, k, v), strict=True):
        assert grad.shape == leaf.shape
        assert (grad == 0).all()


def test_meta() -> None:
    q, k = (tt.empty(2, heads, n, 8, dtype=tt.float16, device="meta") for heads, n in ((4, 5), (2, 7)))
    output, sums = attention(q, k, k, 3, 0)
    assert (output.shape, sums.shape, sums.dtype) == (q.shape, (2, 4, 5), tt.float32)


def test_refusals() -> None:
    x = tt.ones(2, 2, 5, 8, dtype=tt.float16, device="cuda")
    with pytest.raises(
        RuntimeError, match="sliding_window_attn: expected query, key and value in one of Half"
    ):
        attention(x.float(), x.float(), x.float(), 3, 0)
    with pytest.raises(RuntimeError, match="expected scalar type Half but found Float"):
        attention(x, x.float(), x, 3, 0)
    with pytest.raises(RuntimeError, match="Accept only 4 dims"):
        attention(x[0], x, x, 3, 0)
    with pytest.raises(RuntimeError, match="a number of heads that divides 2"):
        attention(
            x,
            x.expand(3, 2, 2, 5, 8).flatten(0, 1)[:2].repeat(1, 2, 1, 1)[:, :3],
            x.repeat(1, 2, 1, 1)[:, :3],
        )
    with pytest.raises(RuntimeError, match="expected heads of at most 256, but got 264"):
        attention(*(x.repeat(1, 1, 1, 33) for _ in range(3)), 3, 0)
