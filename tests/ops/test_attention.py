"""scaled_dot_product_attention on the CPU: values, gradients, masks, edges, dropout, choices, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.attention import attention as kernels
from triten.dispatch.core.dispatcher import Dispatcher
from triten.tests.shared import comparison

attention = tt.nn.functional.scaled_dot_product_attention
aten = tt.ops.aten
TOLERANCE = {"float32": 3e-6, "bfloat16": 2e-2, "float16": 2e-3, "float64": 1e-14}


def reference(
    q: Any, k: Any, v: Any, mask: Any = None, is_causal: bool = False, scale: float | None = None
) -> tuple[Any, Any]:
    """Compute attention and its weights in float64 by definition; key heads are repeated."""
    q, k, v = (np.asarray(x, np.float64) for x in (q, k, v))
    if q.ndim == 4 and k.shape[1] != q.shape[1]:
        k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    with np.errstate(all="ignore"):
        top = scores.max(-1, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(np.isneginf(top), 0, top))
        total = weights.sum(-1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
        return weights @ v, weights


def reference_gradients(g: Any, q: Any, k: Any, v: Any, *rest: Any) -> tuple[Any, Any, Any]:
    """Compute the gradients of query, key and value in float64."""
    *_, scale = rest
    group = q.shape[1] // k.shape[1]
    kk, vv = (np.repeat(np.asarray(x, np.float64), group, 1) for x in (k, v))
    q, g = np.asarray(q, np.float64), np.asarray(g, np.float64)
    c = 1 / math.sqrt(max(q.shape[-1], 1)) if scale is None else scale
    _, weights = reference(q, kk, vv, *rest)
    change = g @ vv.swapaxes(-1, -2)
    inner = weights * (change - (change * weights).sum(-1, keepdims=True)) * c

    def over_heads(x: Any) -> Any:
        return x.reshape(x.shape[0], x.shape[1] // group, group, *x.shape[2:]).sum(2)

    return (
        inner @ kk,
        over_heads(inner.swapaxes(-1, -2) @ q),
        over_heads(weights.swapaxes(-1, -2) @ g),
    )


SHAPES = [
    # B, H, heads of keys, L, S, E, Ev
    (1, 1, 1, 1, 1, 1, 1),
    (2, 4, 4, 7, 9, 8, 8),
    (2, 4, 2, 7, 9, 8, 5),
    (1, 6, 1, 17, 31, 16, 3),
    (3, 2, 2, 65, 33, 4, 4),
    (2, 2, 2, 1, 40, 8, 8),
]
EMPTY = [
    (0, 2, 2, 3, 4, 8, 8),
    (1, 2, 2, 0, 4, 8, 8),
    (1, 2, 2, 3, 0, 8, 8),
    (1, 2, 2, 3, 4, 8, 0),
    (1, 2, 2, 3, 4, 0, 8),
]


def operands(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> list[tt.Tensor]:
    b, h, hk, length, keys, e, ev = shape
    sizes = ((b, h, length, e), (b, hk, keys, e), (b, hk, keys, ev), (b, h, length, ev))
    return [tt.from_numpy(rng.standard_normal(s)).to(getattr(tt, dtype)) for s in sizes]


def arrays(tensors: list[tt.Tensor]) -> list[Any]:
    return [t.detach().to(tt.float64).numpy() for t in tensors]


def close(got: tt.Tensor, expected: Any, tolerance: float) -> None:
    comparison.close(got, expected, tolerance, 4 * tolerance)


@pytest.fixture(params=["whole sets", "blocks of queries", "shifted"])
def blocks(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Several heads in a block; a few queries of one, and two threads; scores relative to their maxima."""
    Dispatcher.singleton().forget_all()
    if request.param == "blocks of queries":
        for name, value in (("SCORES", 64), ("MIN_QUERIES", 3), ("CAUSAL_QUERIES", 3), ("GRAIN", 1)):
            monkeypatch.setattr(kernels, name, value)
    elif request.param == "shifted":
        monkeypatch.setattr(kernels, "UNSHIFTED", -math.inf)
    yield
    Dispatcher.singleton().forget_all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["plain", "causal", "bool", "float", "scale"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_gradients(
    rng: np.random.Generator, blocks: None, shape: tuple[int, ...], kind: str, dtype: str
) -> None:
    *inputs, g = operands(rng, shape, dtype)
    b, h, hk, length, keys = shape[:5]
    mask = {
        "bool": rng.random((b, 1, length, keys)) > 0.3,
        "float": rng.standard_normal((h, length, keys)),
    }.get(kind)
    scale = -0.3 if kind == "scale" else None
    given = None if mask is None else tt.from_numpy(mask)
    if kind == "float":
        given = given.to(tt.float32 if dtype != "float64" else tt.float64)
        mask = given.to(tt.float64).numpy()
    leaves = [x.clone().requires_grad_() for x in inputs]
    out = attention(*leaves, given, 0.0, kind == "causal", scale=scale, enable_gqa=h != hk)
    assert out.dtype is inputs[0].dtype
    rest = (mask, kind == "causal", scale)
    close(out, reference(*arrays(inputs), *rest)[0], TOLERANCE[dtype])
    out.backward(g)
    expected = reference_gradients(*arrays([g, *inputs]), *rest)
    for leaf, gradient in zip(leaves, expected, strict=True):
        close(leaf.grad, gradient, 8 * TOLERANCE[dtype])


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_sizes_of_zero(rng: np.random.Generator, shape: tuple[int, ...], causal: bool) -> None:
    *inputs, g = operands(rng, shape, "float32")
    leaves = [x.requires_grad_() for x in inputs]
    out = attention(*leaves, is_causal=causal)
    out.backward(g)
    close(out, reference(*arrays(inputs), None, causal)[0], 3e-6)
    expected = reference_gradients(*arrays([g, *inputs]), None, causal, None)
    for leaf, gradient in zip(leaves, expected, strict=True):
        close(leaf.grad, gradient, 3e-6)


@pytest.mark.parametrize(
    "sizes", [(7, 9), (1, 9), (7, 1), (1, 1), (4, 7, 9), (1, 7, 9), (2, 1, 7, 9), (2, 4, 1, 9)], ids=str
)
def test_masks_broadcast(rng: np.random.Generator, sizes: tuple[int, ...]) -> None:
    q, k, v, _ = operands(rng, (2, 4, 2, 7, 9, 8, 8), "float32")
    mask = rng.standard_normal(sizes).astype(np.float32)
    out = attention(q, k, v, tt.from_numpy(mask), enable_gqa=True)
    close(out, reference(*arrays([q, k, v]), mask)[0], 3e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_row_that_sees_nothing_is_zero_and_has_no_gradient(rng: np.random.Generator, dtype: str) -> None:
    q, k, v, g = operands(rng, (1, 2, 2, 4, 5, 8, 8), dtype)
    mask = tt.ones(4, 5, dtype=tt.bool)
    mask[1] = False
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = attention(*leaves, mask)
    out.backward(g)
    assert bool((out[:, :, 1] == 0).all())
    assert bool((q.grad[:, :, 1] == 0).all())
    assert not any(bool(x.grad.isnan().any()) for x in leaves)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["query", "key", "value"])
def test_what_is_not_finite_goes_where_the_definition_says(
    rng: np.random.Generator, place: str, value: float
) -> None:
    tensors = operands(rng, (1, 1, 1, 5, 6, 4, 4), "float32")[:3]
    tensors[("query", "key", "value").index(place)][0, 0, 2, 1] = value
    with np.errstate(all="ignore"):
        expected, _ = reference(*arrays(tensors))
    got = attention(*tensors).numpy()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_scores_whose_exp_overflows(rng: np.random.Generator, causal: bool) -> None:
    *inputs, g = operands(rng, (1, 2, 2, 6, 7, 8, 8), "float32")
    inputs[0] *= 300
    leaves = [x.clone().requires_grad_() for x in inputs]
    out = attention(*leaves, is_causal=causal)
    close(out, reference(*arrays(inputs), None, causal)[0], 3e-4)
    out.backward(g)
    assert all(bool(x.grad.isfinite().all()) for x in leaves)


def test_scores_whose_exp_underflows(rng: np.random.Generator) -> None:
    q, k, v, _ = operands(rng, (1, 2, 2, 6, 7, 8, 8), "float32")
    k = 0.01 * k + 100
    close(attention(-q.abs(), k, v), reference(*arrays([-q.abs(), k, v]))[0], 3e-4)


def test_long_rows_are_added_in_pieces(rng: np.random.Generator) -> None:
    q, k, v, _ = operands(rng, (1, 1, 1, 2, 3 * kernels.CHUNK + 5, 8, 8), "float32")
    close(attention(q, k, v), reference(*arrays([q, k, v]))[0], 3e-6)


def test_threads_do_not_change_results(rng: np.random.Generator) -> None:
    tensors = operands(rng, (2, 4, 4, 200, 200, 16, 16), "float32")
    before, found = tt.get_num_threads(), []
    try:
        for threads in (1, 2):
            tt.set_num_threads(threads)
            leaves = [x.clone().requires_grad_() for x in tensors[:3]]
            out = attention(*leaves, is_causal=True)
            out.backward(tensors[3])
            found.append([out.detach().numpy(), *[x.grad.numpy() for x in leaves]])
    finally:
        tt.set_num_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


def test_logsumexp(rng: np.random.Generator) -> None:
    q, k, v, _ = operands(rng, (2, 4, 2, 7, 9, 8, 5), "float32")
    out, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    scores = np.repeat(k.numpy(), 2, 1) @ q.numpy().swapaxes(-1, -2) / math.sqrt(8)
    scores = np.where(np.tri(7, 9, dtype=bool), scores.swapaxes(-1, -2), -np.inf)
    assert logsumexp.dtype is tt.float32
    np.testing.assert_allclose(logsumexp.numpy(), np.log(np.exp(scores).sum(-1)), rtol=1e-5, atol=1e-5)
    assert out.shape == (2, 4, 7, 5)


VIEWS: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "heads inner": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "elements outer": lambda x: x.mT.contiguous().mT,
    "steps": lambda x: tt.stack([x, x], 3).flatten(2, 3)[:, :, ::2],
    "batch inner": lambda x: x.permute(1, 2, 0, 3).contiguous().permute(2, 0, 1, 3),
}


@pytest.mark.parametrize("view", VIEWS)
def test_any_strides_and_the_layout_of_the_result(rng: np.random.Generator, view: str) -> None:
    tensors = operands(rng, (2, 3, 3, 5, 7, 4, 4), "float32")
    plain = attention(*tensors[:3])
    viewed = [VIEWS[view](x) for x in tensors]
    out = attention(*viewed[:3])
    np.testing.assert_allclose(out.numpy(), plain.numpy(), rtol=1e-5, atol=1e-6)
    if view in ("heads inner", "batch inner"):
        assert out.stride() == viewed[0].stride()


def test_operands_that_broadcast(rng: np.random.Generator) -> None:
    q, k, v, _ = operands(rng, (2, 3, 3, 5, 7, 4, 4), "float32")
    for given in ((q, k[:1], v[:1]), (q[0], k, v), (q, k[:, :1], v[:, :1]), (q[0, 0], k[0, 0], v[0, 0])):
        expected, _ = reference(*arrays(list(given)))
        close(attention(*given), expected, 3e-6)


def test_dropout_keeps_the_share_that_it_should_and_scales_it(rng: np.random.Generator) -> None:
    q, k = (tt.zeros(1, 1, 64, 8) for _ in range(2))
    v = tt.eye(64).view(1, 1, 64, 64)
    tt.manual_seed(5)
    weights = attention(q, k, v, dropout_p=0.25) * 64
    kept = weights != 0
    assert bool((weights[kept] - 1 / 0.75).abs().max() < 1e-5)
    assert abs(kept.to(tt.float32).mean().item() - 0.75) < 5 * math.sqrt(0.25 * 0.75 / 4096)
    assert not bool(attention(q, k, v, dropout_p=1.0).any())


@pytest.mark.parametrize("keys", [5, 8])
def test_dropout_takes_whole_counters_for_each_row(keys: int) -> None:
    q, k = tt.zeros(2, 3, 4, 8), tt.zeros(2, 3, keys, 8)
    v = tt.eye(keys).expand(2, 3, keys, keys)
    tt.manual_seed(9)
    kept = attention(q, k, v, dropout_p=0.5) != 0
    tt.manual_seed(9)
    _, mask = tt.native_dropout(tt.ones(2, 3, 4, 8), 0.5, True)
    assert bool((kept == mask[..., :keys]).all())


def test_the_choice() -> None:
    x = tt.zeros(1, 2, 3, 8)
    choose = aten._fused_sdp_choice.default
    assert choose(x, x, x) == 1
    assert choose(x, x, x, tt.ones(3, 3, dtype=tt.bool)) == 1
    assert choose(x.to(tt.bfloat16), x.to(tt.bfloat16), x.to(tt.bfloat16), tt.zeros(3, 3)) == 1
    assert choose(x, x, x, dropout_p=0.5) == 0
    assert choose(x.to(tt.float64), x.to(tt.float64), x.to(tt.float64)) == 0
    assert choose(x, x, x, tt.zeros(3, 3, requires_grad=True)) == 0
    assert choose(x[0], x[0], x[0]) == 0
    m = x.to("meta")
    assert choose(m, m, m) == 2
    wide = tt.zeros(1, 1, 2, 257, device="meta")
    assert choose(wide, wide, wide) == 0


def test_gradient_of_a_mask(rng: np.random.Generator) -> None:
    q, k, v, g = operands(rng, (1, 2, 2, 3, 4, 5, 5), "float64")
    mask = tt.from_numpy(rng.standard_normal((3, 4))).requires_grad_()
    assert tt.autograd.gradcheck(lambda m: (attention(q, k, v, m) * g).sum(), (mask,))


def test_derivatives_of_the_fused_operator(rng: np.random.Generator) -> None:
    q, k, v, _ = operands(rng, (1, 4, 2, 3, 4, 2, 3), "float64")
    mask = tt.from_numpy(rng.standard_normal((3, 4)))
    leaves = tuple(x.requires_grad_() for x in (q, k, v, mask))

    def fused(q: tt.Tensor, k: tt.Tensor, v: tt.Tensor, mask: tt.Tensor) -> tt.Tensor:
        return aten._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, True, attn_mask=mask, scale=0.7
        )[0]

    assert tt.autograd.gradcheck(fused, leaves, check_forward_ad=True)
    assert tt.autograd.gradgradcheck(fused, leaves)


def test_forward_mode_goes_through_ordinary_operators(rng: np.random.Generator) -> None:
    q, k, v, t = operands(rng, (1, 2, 2, 3, 4, 5, 5), "float32")
    _, tangent = tt.func.jvp(lambda x: attention(x, k, v), (q,), (t,))
    step = 1e-3
    difference = (attention(q + step * t, k, v) - attention(q - step * t, k, v)) / (2 * step)
    np.testing.assert_allclose(tangent.numpy(), difference.numpy(), atol=2e-3)


def refusals() -> dict[str, tuple[Callable[[], object], type[Exception], str]]:
    q, k = tt.zeros(1, 2, 4, 8), tt.zeros(1, 2, 6, 8)
    return {
        "dtypes": (
            lambda: attention(q, k.double(), k),
            RuntimeError,
            "Expected query, key, and value to have the same dtype, but got query.dtype: float key.dtype: double and "
            "value.dtype: float instead.",
        ),
        "devices": (
            lambda: attention(q, k.to("meta"), k),
            RuntimeError,
            "to have the same device type, but got query.device: cpu",
        ),
        "dimensions": (
            lambda: attention(q[0, 0, 0], k[0, 0, 0], k[0, 0, 0]),
            RuntimeError,
            "at least 2 dimensional, but got query.dim: 1",
        ),
        "dtype of the mask": (
            lambda: attention(q, k, k, tt.zeros(4, 6, dtype=tt.int64)),
            RuntimeError,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: long",
        ),
        "mask and causal": (
            lambda: attention(q, k, k, tt.zeros(4, 6), is_causal=True),
            RuntimeError,
            "Explicit attn_mask should not be set when is_causal=True",
        ),
        "size of the mask": (lambda: attention(q, k, k, tt.zeros(4, 5)), RuntimeError, "must match"),
        "heads": (
            lambda: attention(tt.zeros(1, 3, 4, 8), k, k, enable_gqa=True),
            RuntimeError,
            "Number of heads in key and value",
        ),
        "heads without enable_gqa": (lambda: attention(tt.zeros(1, 4, 4, 8), k, k), RuntimeError, ""),
        "dropout": (
            lambda: attention(q, k, k, dropout_p=1.5),
            RuntimeError,
            "dropout probability has to be between 0 and 1, but got 1.5",
        ),
        "dropout of the fused operator": (
            lambda: aten._scaled_dot_product_flash_attention_for_cpu(q, k, k, 0.5),
            RuntimeError,
            "Currently do not support dropout > 0",
        ),
        "dimensions of the fused operator": (
            lambda: aten._scaled_dot_product_flash_attention_for_cpu(q[0], k[0], k[0]),
            RuntimeError,
            "Accept only 4 dims inputs shape of {B, H, T, K}",
        ),
        "dtype of the fused operator": (
            lambda: aten._scaled_dot_product_flash_attention_for_cpu(q.int(), k.int(), k.int()),
            RuntimeError,
            "Expected data type in FP32, FP64, BF16, FP16, but got Int instead.",
        ),
        "device of the fused operator": (
            lambda: aten._scaled_dot_product_efficient_attention(q, k, k, None, False),
            NotImplementedError,
            "",
        ),
    }


@pytest.mark.parametrize("case", refusals())
def test_refusals(case: str) -> None:
    call, error, text = refusals()[case]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
