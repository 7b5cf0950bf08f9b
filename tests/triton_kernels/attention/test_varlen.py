"""Variable-length attention agrees with the host in float64: windows, lengths, heads, wrong bounds."""

from collections.abc import Sequence

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.attention import tiles

attention = tt.ops.aten._varlen_attn
QUERIES, KEYS = (37, 0, 64, 5, 1, 20), (50, 3, 40, 0, 33, 20)
WINDOWS = [
    (-1, -1),
    (-1, 0),
    (7, 0),
    (0, 2),
    (2, -1),
    (17, 5),
    (40, 30),
    (0, 0),
    (-1, 3),
    (2**31 - 1, 2**31 - 1),
]
BEHIND = 3
"""Rows that belong to no sequence."""
TOLERANCE = {tt.float16: 4e-3, tt.bfloat16: 4e-2}


@pytest.fixture(autouse=True)
def tile(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use small tiles, so that a sequence has several."""
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)


def starts(lengths: Sequence[int]) -> tt.Tensor:
    return tt.tensor([sum(lengths[:n]) for n in range(len(lengths) + 1)], dtype=tt.int32)


def operands(heads: int, heads_k: int, width: int, width_v: int, dtype: tt.dtype) -> list[tt.Tensor]:
    """Return query, key, value and the gradient of the output."""
    rng = np.random.default_rng(3)
    rows_q, rows_k = sum(QUERIES) + BEHIND, sum(KEYS) + BEHIND
    shapes = (
        (rows_q, heads, width),
        (rows_k, heads_k, width),
        (rows_k, heads_k, width_v),
        (rows_q, heads, width_v),
    )
    return [tt.from_numpy(rng.standard_normal(shape)).to(dtype) for shape in shapes]


def results(
    given: list[tt.Tensor], device: str, dtype: tt.dtype, window: tuple[int, int], **options: float
) -> list[np.ndarray]:
    """Return the output, the sums, and the gradients of query, key and value."""
    q, k, v = (x.to(device, dtype).requires_grad_() for x in given[:3])
    bounds = [starts(lengths).to(device) for lengths in (QUERIES, KEYS)]
    output, sums = attention(q, k, v, *bounds, *window, **options)
    output.backward(given[3].to(device, dtype))
    return [x.detach().cpu().double().numpy() for x in (output, sums, q.grad, k.grad, v.grad)]


def check(given: list[tt.Tensor], window: tuple[int, int], **options: float) -> None:
    dtype = given[0].dtype
    expected = results(given, "cpu", tt.float64, window, **options)
    for mine, theirs in zip(results(given, "cuda", dtype, window, **options), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=TOLERANCE[dtype], atol=2 * TOLERANCE[dtype])


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window: tuple[int, int]) -> None:
    check(operands(2, 2, 16, 16, tt.float16), window)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("heads", [(4, 2, 20, 24), (3, 1, 16, 40), (2, 2, 144, 8)], ids=str)
def test_heads(heads: tuple[int, int, int, int], dtype: tt.dtype) -> None:
    check(operands(*heads, dtype), (9, 0))


@pytest.mark.parametrize("scale", [0.3, 0.0, -0.5])
def test_scales(scale: float) -> None:
    check(operands(2, 2, 16, 16, tt.float16), (5, 4), scale=scale)


def test_more_sequences_than_are_loaded_at_a_time() -> None:
    lengths = [n % 4 for n in range(300)]
    rng = np.random.default_rng(5)
    q, k, v = (tt.from_numpy(rng.standard_normal((sum(lengths), 1, 16))).half() for _ in range(3))
    bounds = starts(lengths)
    near = attention(*(x.to("cuda") for x in (q, k, v, bounds, bounds)), -1, 0)[0]
    far = attention(*(x.double() for x in (q, k, v)), bounds, bounds, -1, 0)[0]
    np.testing.assert_allclose(near.cpu().double().numpy(), far.numpy(), rtol=4e-3, atol=4e-3)


def test_one_sequence_is_attention_of_one_length() -> None:
    rng = np.random.default_rng(7)
    q, k, v = (tt.from_numpy(rng.standard_normal((40, 2, 16))).half().to("cuda") for _ in range(3))
    bounds = starts([40]).to("cuda")
    fused = tt.nn.functional.scaled_dot_product_attention(
        *(x.transpose(0, 1) for x in (q, k, v)), is_causal=True
    )
    packed = attention(q, k, v, bounds, bounds, -1, 0)[0]
    np.testing.assert_allclose(
        packed.transpose(0, 1).cpu().numpy(), fused.cpu().numpy(), rtol=2e-3, atol=2e-3
    )


def test_what_another_sequence_holds_does_not_matter() -> None:
    given = operands(2, 2, 16, 16, tt.float16)
    clean = results(given, "cuda", tt.float16, (7, 3))
    first, last = sum(KEYS[:2]), sum(KEYS[:3])
    for x in given[1:3]:
        x[first:last] = float("nan")
    spoilt = results(given, "cuda", tt.float16, (7, 3))
    others = np.r_[0 : sum(QUERIES[:2]), sum(QUERIES[:3]) : sum(QUERIES) + BEHIND]
    np.testing.assert_array_equal(spoilt[0][others], clean[0][others])
    end = sum(QUERIES[:3])
    assert np.isnan(spoilt[0][end - KEYS[2] : end]).all()


WRONG = {
    "cu_seq_q descends": ([0, 9, 4, 12], [0, 4, 8, 12], None, "cu_seq_q"),
    "cu_seq_q ends behind": ([0, 4, 8, 1 << 30], [0, 4, 8, 12], None, "cu_seq_q"),
    "cu_seq_k begins late": ([0, 4, 8, 12], [1, 4, 8, 12], None, "cu_seq_k"),
    "cu_seq_k is negative": ([0, 4, 8, 12], [0, -(1 << 30), 8, 12], None, "cu_seq_k"),
    "seqused_k is too large": ([0, 4, 8, 12], [0, 4, 8, 12], [4, 5, 4], "seqused_k"),
    "seqused_k is negative": ([0, 4, 8, 12], [0, 4, 8, 12], [4, -1, 4], "seqused_k"),
}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong_bounds_are_reported(name: str, device: str) -> None:
    bounds_q, bounds_k, used, argument = WRONG[name]
    x = tt.ones(12, 1, 16, dtype=tt.float16, device=device)
    given = [
        None if values is None else tt.tensor(values, dtype=tt.int32, device=device)
        for values in (bounds_q, bounds_k, used)
    ]

    def call() -> None:
        attention(x, x, x, *given[:2], seqused_k=given[2])
        if device == "cuda":
            tt.cuda.synchronize()

    with pytest.raises(RuntimeError, match=f"varlen_attn.*{argument}: expected"):
        call()


def test_wrong_bounds_reach_no_memory_in_the_backward_pass() -> None:
    x = tt.ones(12, 1, 16, dtype=tt.float16, device="cuda")
    good = tt.tensor([0, 4, 8, 12], dtype=tt.int32, device="cuda")
    out, sums = attention(x, x, x, good, good)
    wrong = tt.tensor([-5, 1 << 30, 8, 1 << 29], dtype=tt.int32, device="cuda")
    grads = tt.ops.aten._varlen_attn_backward(x, x, x, x, out, sums, wrong, wrong)
    assert [g.shape for g in grads] == [x.shape] * 3
