"""Attention on the device agrees with float64: shapes, masks, strides, splits, dropout, non-finite values."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.attention import splits, tiles
from triten.triton_kernels.attention.operands import Arguments

attention = tt.nn.functional.scaled_dot_product_attention
aten = tt.ops.aten
TOLERANCE = {tt.float32: 4e-6, tt.float16: 3e-3, tt.bfloat16: 2.5e-2}


@pytest.fixture(params=[128, 16], ids=["whole", "tiles of 16"])
def tile(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a test with one tile and with several."""
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", request.param)
    return request.param


def operands(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: tt.dtype = tt.float32
) -> list[tt.Tensor]:
    """Return query, key, value and the gradient of the output."""
    b, h, hk, length, keys, e, ev = shape
    sizes = ((b, h, length, e), (b, hk, keys, e), (b, hk, keys, ev), (b, h, length, ev))
    return [tt.from_numpy(rng.standard_normal(s)).to(dtype) for s in sizes]


def check(
    tensors: list[tt.Tensor],
    mask: tt.Tensor | None = None,
    view: Callable[[tt.Tensor], tt.Tensor] = lambda x: x,
    **kwargs: Any,
) -> None:
    """Compare the result and gradients on the device with the host's in float64."""
    *inputs, g = tensors
    tolerance = TOLERANCE[g.dtype]
    wide = [x.double().requires_grad_() for x in inputs]
    wide_mask = mask if mask is None or mask.dtype is tt.bool else mask.double()
    expected = attention(*wide, wide_mask, **kwargs)
    expected.backward(g.double())
    near = [view(x.to("cuda")).requires_grad_() for x in inputs]
    got = attention(*near, None if mask is None else mask.to("cuda"), **kwargs)
    got.backward(view(g.to("cuda")))
    assert got.dtype is g.dtype
    pairs = [(got, expected), *((x.grad, y.grad) for x, y in zip(near, wide, strict=True))]
    for (mine, theirs), scale in zip(pairs, (1, 8, 8, 8), strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(
            mine.detach().cpu().double().numpy(),
            theirs.detach().numpy(),
            rtol=scale * tolerance,
            atol=scale * tolerance,
        )


@pytest.mark.parametrize(
    ("shape", "causal"),
    [
        # B, H, heads of keys, L, S, E, Ev
        ((1, 1, 1, 1, 1, 1, 1), False),
        ((2, 2, 1, 7, 9, 8, 5), True),
        ((1, 1, 1, 17, 33, 16, 16), False),
        ((1, 2, 1, 33, 17, 24, 40), True),
    ],
    ids=str,
)
def test_shapes(rng: np.random.Generator, tile: int, shape: tuple[int, ...], causal: bool) -> None:
    check(operands(rng, shape), is_causal=causal, enable_gqa=shape[1] != shape[2])


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=lambda d: d.name)
def test_narrow_dtypes(rng: np.random.Generator, dtype: tt.dtype) -> None:
    check(operands(rng, (1, 2, 2, 18, 20, 32, 32), dtype), is_causal=True)
    q, k, v, _ = operands(rng, (1, 2, 2, 5, 7, 8, 8), dtype)
    assert aten._fused_sdp_choice.default(q.to("cuda"), k.to("cuda"), v.to("cuda")) == 2


@pytest.mark.parametrize(
    "shape",
    [(0, 2, 2, 3, 4, 8, 8), (1, 2, 2, 0, 4, 8, 8), (1, 2, 2, 3, 0, 8, 8), (1, 2, 2, 3, 4, 8, 0)],
    ids=["no batch", "no queries", "no keys", "no values"],
)
def test_sizes_of_zero(rng: np.random.Generator, shape: tuple[int, ...]) -> None:
    check(operands(rng, shape))


@pytest.mark.parametrize("scale", [0.0, -0.7, 3.0])
def test_scales_of_either_sign(rng: np.random.Generator, scale: float) -> None:
    check(operands(rng, (1, 2, 2, 5, 7, 8, 8)), scale=scale)


@pytest.mark.parametrize("sizes", [(20, 19), (1, 1, 1, 19), (2, 20, 1)], ids=str)
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks_broadcast(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, kind: str, sizes: tuple[int, ...]
) -> None:
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)
    mask = rng.random(sizes) > 0.4 if kind == "bool" else rng.standard_normal(sizes).astype(np.float32)
    check(operands(rng, (1, 2, 1, 20, 19, 8, 8)), tt.from_numpy(mask), enable_gqa=True)


def test_a_row_that_sees_nothing_is_zero_and_has_no_gradient(rng: np.random.Generator) -> None:
    mask = tt.ones(20, 19, dtype=tt.bool)
    mask[3] = False
    check(operands(rng, (1, 2, 2, 20, 19, 8, 8)), mask)
    check(operands(rng, (1, 2, 2, 20, 19, 8, 8)), tt.zeros(20, 19).masked_fill(~mask, -math.inf))


VIEWS: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "heads inner": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "elements outer": lambda x: x.mT.contiguous().mT,
    "steps": lambda x: tt.stack([x, x], 3).flatten(2, 3)[:, :, ::2],
    "unaligned": lambda x: tt.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape),
}


@pytest.mark.parametrize("view", VIEWS)
def test_any_strides(rng: np.random.Generator, view: str) -> None:
    check(operands(rng, (2, 2, 2, 5, 7, 8, 8)), view=lambda x: VIEWS[view](x.detach()))


def test_operands_without_a_stride(rng: np.random.Generator) -> None:
    q, k, v, _ = (x.to("cuda") for x in operands(rng, (2, 2, 2, 5, 7, 8, 8)))
    same = [x[:1, :1].expand(x.shape) for x in (q, k, v)]
    out = attention(*(x.requires_grad_() for x in same))
    out.sum().backward()
    plain = attention(*(x.detach().contiguous() for x in same))
    np.testing.assert_allclose(out.detach().cpu().numpy(), plain.cpu().numpy(), atol=1e-6)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads_k", [1, 2])
def test_few_queries_of_many_keys_are_split(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, launches: Any, heads_k: int, causal: bool
) -> None:
    monkeypatch.setattr(splits, "MIN_KEYS", 2)
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)
    q, k, v, g = operands(rng, (1, 2, heads_k, 3, 83, 8, 8))
    attention(*(x.to("cuda") for x in (q, k, v)), is_causal=causal, enable_gqa=True)
    assert launches.count == 2, "attention in parts, and their merge"
    check([q, k, v, g], is_causal=causal, enable_gqa=True)
    check([q, k, v, g], tt.from_numpy(rng.random((3, 83)) > 0.5), enable_gqa=True)


@pytest.mark.parametrize("p", [0.3, 1.0])
@pytest.mark.parametrize(
    ("shape", "min_keys"),
    [((1, 4, 2, 18, 21, 8, 8), 512), ((1, 2, 1, 2, 70, 8, 8), 2)],
    ids=["blocks", "split"],
)
def test_dropout_drops_what_the_host_drops(
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    min_keys: int,
    p: float,
) -> None:
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)
    monkeypatch.setattr(splits, "MIN_KEYS", min_keys)
    *inputs, g = operands(rng, shape)
    results = []
    for device in ("cpu", "cuda"):
        tt.manual_seed(23)
        leaves = [x.detach().to(device).requires_grad_() for x in inputs]
        out = attention(*leaves, None, p, shape[2] == 2, enable_gqa=True)
        out.backward(g.to(device))
        results.append([out.detach(), *(x.grad for x in leaves), tt.rand(3, device=device)])
    for host, device in zip(*results, strict=True):
        np.testing.assert_allclose(device.cpu().numpy(), host.numpy(), rtol=2e-5, atol=2e-5)


def test_dropout_of_a_captured_graph_draws_anew_and_backward_repeats_it() -> None:
    q, k = tt.zeros(1, 1, 4, 8, device="cuda"), tt.zeros(1, 1, 8, 8, device="cuda")
    v = tt.eye(8, device="cuda").view(1, 1, 8, 8).requires_grad_()
    ones = tt.ones(1, 1, 4, 8, device="cuda")

    def step() -> tuple[tt.Tensor, tt.Tensor]:
        out = attention(q, k, v, None, 0.5)
        return out, tt.autograd.grad(out, v, ones)[0]

    side = tt.cuda.Stream()
    side.wait_stream(tt.cuda.current_stream())
    with tt.cuda.stream(side):
        step()
    tt.cuda.current_stream().wait_stream(side)
    graph = tt.cuda.CUDAGraph()
    with tt.cuda.graph(graph):
        out, gradient = step()
    seen = []
    for _ in range(3):
        graph.replay()
        weights = out.detach().cpu().numpy()
        np.testing.assert_allclose(gradient.cpu().numpy()[0, 0, :, 0], weights[0, 0].sum(0), rtol=1e-5)
        seen.append((weights != 0).tobytes())
    assert len(set(seen)) == 3


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2], ids=["query", "key", "value"])
def test_what_is_not_finite_goes_where_it_does_on_the_host(
    rng: np.random.Generator, tile: int, place: int, value: float
) -> None:
    tensors = operands(rng, (1, 1, 1, 5, 20, 4, 4))[:3]
    tensors[place][0, 0, 2, 1] = value
    expected = attention(*(x.double() for x in tensors)).numpy()
    got = attention(*(x.to("cuda") for x in tensors)).cpu().numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_what_a_mask_hides_in_other_blocks_does_not_matter(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "INTERPRETED_TILE", 16)
    q, k, v, _ = (x.to("cuda") for x in operands(rng, (1, 1, 1, 32, 32, 8, 8)))
    before = attention(q, k, v, is_causal=True)
    k[:, :, 16:], v[:, :, 16:] = math.nan, math.inf
    after = attention(q, k, v, is_causal=True)
    np.testing.assert_array_equal(before.cpu().numpy()[:, :, :16], after.cpu().numpy()[:, :, :16])


def test_offsets_beyond_32_bits(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    from triten.triton_kernels import launch

    monkeypatch.setattr(launch, "INT32_MAX", 100)
    seen = []
    original = Arguments.__init__

    def noted(self: Arguments, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        seen.append({type_ for name, type_ in self.types.items() if len(name) == 2})

    monkeypatch.setattr(Arguments, "__init__", noted)
    check(operands(rng, (1, 2, 2, 19, 21, 8, 8)), is_causal=True)
    assert {"i64"} in seen


def test_results_are_repeated_bit_for_bit(rng: np.random.Generator, tile: int) -> None:
    tensors = operands(rng, (1, 2, 1, 33, 35, 8, 8))

    def run() -> bytes:
        leaves = [x.to("cuda").requires_grad_() for x in tensors[:3]]
        out = attention(*leaves, is_causal=True, enable_gqa=True)
        out.backward(tensors[3].to("cuda"))
        return b"".join(x.detach().cpu().numpy().tobytes() for x in (out, *(y.grad for y in leaves)))

    assert run() == run()


def test_vmap_and_second_derivatives(rng: np.random.Generator) -> None:
    q, k, v, _ = operands(rng, (1, 2, 2, 3, 4, 8, 8))

    def both(device: str) -> tuple[tt.Tensor, tt.Tensor]:
        leaves = [x.to(device).requires_grad_() for x in (q, k, v)]
        grads = tt.autograd.grad(attention(*leaves).square().sum(), leaves, create_graph=True)
        second = tt.autograd.grad(sum((g * g).sum() for g in grads), leaves[1])[0]
        mapped = tt.vmap(lambda x: attention(x, leaves[1], leaves[2]))(tt.stack([leaves[0], leaves[0] * 2]))
        return second.detach(), mapped.detach()

    for mine, theirs in zip(both("cuda"), both("cpu"), strict=True):
        np.testing.assert_allclose(mine.cpu().numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


def test_refusals(rng: np.random.Generator) -> None:
    q, k, v, g = (x.to("cuda") for x in operands(rng, (1, 2, 2, 3, 4, 8, 8)))
    fused = aten._scaled_dot_product_efficient_attention.default
    with pytest.raises(RuntimeError, match="Expected data type in FP32, BF16, FP16, but got Double instead"):
        fused(q.double(), k.double(), v.double(), None, False)
    with pytest.raises(RuntimeError, match="does not broadcast"):
        fused(q, k, v, tt.zeros(3, 5, device="cuda"), False)
    with pytest.raises(RuntimeError, match="same device"):
        fused(q, k, v, tt.zeros(3, 4), False)
    with pytest.raises(RuntimeError, match="heads of at most 256, but got 257"):
        fused(*(tt.zeros(1, 1, 2, 257, device="cuda") for _ in range(3)), None, False)
    with pytest.raises(RuntimeError, match="dropout probability has to be between 0 and 1, but got -1"):
        fused(q, k, v, None, False, -1.0)
    made = fused(q, k, v, None, True)
    backward = aten._scaled_dot_product_efficient_attention_backward.default
    none = tt.empty(0, device="cuda")
    with pytest.raises(NotImplementedError, match="the gradient of attn_bias is not implemented"):
        backward(g, q, k, v, none, *made, 0.0, (True, True, True, True))
    with pytest.raises(RuntimeError, match="expected grad_out to be"):
        backward(g[:, :1], q, k, v, none, *made, 0.0, (True, True, True, False))
    with pytest.raises(NotImplementedError, match="not implemented with dropout"):
        leaf = q.requires_grad_()
        (first,) = tt.autograd.grad(attention(leaf, k, v, None, 0.5).sum(), leaf, create_graph=True)
        first.sum().backward()


@pytest.mark.parametrize("wanted", [(1,), (2,), (0, 2), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("head", [8, 130])
def test_gradients_that_are_wanted_and_no_others(
    rng: np.random.Generator, head: int, wanted: tuple[int, ...]
) -> None:
    *inputs, g = operands(rng, (1, 2, 1, 5, 18, head, head))
    wide = [x.double().requires_grad_(i in wanted) for i, x in enumerate(inputs)]
    near = [x.to("cuda").requires_grad_(i in wanted) for i, x in enumerate(inputs)]
    for on, gradient in ((wide, g.double()), (near, g.to("cuda"))):
        attention(*on, is_causal=True, enable_gqa=True).backward(gradient)
    for i, (mine, theirs) in enumerate(zip(near, wide, strict=True)):
        assert (mine.grad is None) == (theirs.grad is None) == (i not in wanted)
        if mine.grad is not None:
            np.testing.assert_allclose(
                mine.grad.cpu().double().numpy(), theirs.grad.numpy(), rtol=3e-5, atol=3e-5
            )


@pytest.mark.parametrize("kind", ["plain", "masked", "causal", "narrow"])
def test_heads_above_128(rng: np.random.Generator, kind: str) -> None:
    dtype = tt.bfloat16 if kind == "narrow" else tt.float32
    tensors = operands(rng, (1, 2, 2, 9, 17, 129, 256), dtype)
    mask = tt.from_numpy(rng.random((9, 17)) > 0.3) if kind == "masked" else None
    near = [x.to("cuda").requires_grad_() for x in tensors[:3]]
    assert aten._fused_sdp_choice.default(*near) == 2
    check(tensors, mask, is_causal=kind == "causal")
