"""Attention of several heads beside PyTorch's: masks, additional keys, projections, layouts, refusals."""

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt

forward = tt.nn.functional.multi_head_attention_forward


def reference(
    layer: tt.nn.MultiheadAttention, q: Any, k: Any, v: Any, mask: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the result and all heads' weights by definition, for inputs (N, L, E) and a mask over scores."""
    p = {name: x.detach().cpu().double().numpy() for name, x in layer.named_parameters()}
    width, heads = layer.embed_dim, layer.num_heads
    if "in_proj_weight" in p:
        w = np.split(p["in_proj_weight"], 3)
    else:
        w = [p[f"{name}_proj_weight"] for name in "qkv"]
    b = np.split(p["in_proj_bias"], 3)
    q, k, v = (x.detach().cpu().double().numpy() @ w.T + b for x, w, b in zip((q, k, v), w, b, strict=True))
    n = len(q)
    if "bias_k" in p:
        k, v = (
            np.concatenate([x, np.broadcast_to(p[y], (n, 1, width))], 1)
            for x, y in ((k, "bias_k"), (v, "bias_v"))
        )
    if layer.add_zero_attn:
        k, v = (np.concatenate([x, np.zeros((n, 1, width))], 1) for x in (k, v))
    q, k, v = (x.reshape(n, -1, heads, width // heads).swapaxes(1, 2) for x in (q, k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(width // heads)
    if mask is not None:
        more = scores.shape[-1] - mask.shape[-1]
        scores = scores + np.pad(mask, [(0, 0)] * (mask.ndim - 1) + [(0, more)])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    out = (weights @ v).swapaxes(1, 2).reshape(n, -1, width)
    return out @ p["out_proj.weight"].T + p["out_proj.bias"], weights


def made(rng: np.random.Generator, device: str = "cpu", **options: Any) -> tt.nn.MultiheadAttention:
    """Return a layer with random parameters, including the biases."""
    layer = tt.nn.MultiheadAttention(8, 2, batch_first=True, device=device, dtype=tt.float64, **options)
    with tt.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(tt.from_numpy(rng.standard_normal(tuple(parameter.shape))))
    return layer


@pytest.mark.parametrize("needs", [True, False])
@pytest.mark.parametrize(("more", "zeros"), list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("kind", ["bool", "float", "of each head", "padding", "both", None])
def test_masks_and_additional_keys(
    rng: np.random.Generator, kind: str | None, more: bool, zeros: bool, needs: bool
) -> None:
    layer = made(rng, add_bias_kv=more, add_zero_attn=zeros, kdim=6, vdim=10)
    q, k, v = (tt.from_numpy(rng.standard_normal(s)) for s in ((3, 4, 8), (3, 5, 6), (3, 5, 10)))
    hidden, padding, added = (
        rng.random((6, 4, 5)) > 0.7,
        rng.random((3, 5)) > 0.7,
        rng.standard_normal((4, 5)),
    )
    # A key that everyone sees, since a row of nothing has no weights.
    hidden[..., 0] = padding[:, 0] = False
    options: dict[str, Any] = {}
    mask = np.zeros((3, 2, 4, 5))
    if kind in ("bool", "both"):
        options["attn_mask"] = tt.from_numpy(hidden[0])
        mask = mask + np.where(hidden[0], -np.inf, 0)
    if kind == "of each head":
        options["attn_mask"] = tt.from_numpy(hidden)
        mask = np.where(hidden.reshape(3, 2, 4, 5), -np.inf, 0)
    if kind == "float":
        options["attn_mask"] = tt.from_numpy(added)
        mask = mask + added
    if kind in ("padding", "both"):
        options["key_padding_mask"] = tt.from_numpy(padding)
        mask = mask + np.where(padding, -np.inf, 0)[:, None, None]
    out, weights = layer(q, k, v, need_weights=needs, average_attn_weights=False, **options)
    expected, expected_weights = reference(layer, q, k, v, mask)
    np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-10, atol=1e-10)
    if needs:
        np.testing.assert_allclose(weights.detach().numpy(), expected_weights, rtol=1e-10, atol=1e-10)
        averaged = layer(q, k, v, **options)[1].detach().numpy()
        np.testing.assert_allclose(averaged, expected_weights.mean(1), rtol=1e-10, atol=1e-10)
    else:
        assert weights is None


@pytest.mark.parametrize("shared", [(0, 0, 0), (0, 1, 1), (0, 0, 1), (0, 1, 2), (0, 1, 0)], ids=str)
def test_one_tensor_in_several_places(rng: np.random.Generator, shared: tuple[int, ...]) -> None:
    layer = made(rng)
    leaves = [tt.from_numpy(rng.standard_normal((2, 4, 8))).requires_grad_() for _ in range(3)]
    chosen = [leaves[i] for i in shared]
    out, _ = layer(*chosen)
    np.testing.assert_allclose(out.detach().numpy(), reference(layer, *chosen)[0], rtol=1e-10, atol=1e-10)
    together = tt.autograd.grad(out.square().sum(), [leaves[i] for i in sorted(set(shared))])
    apart = [leaves[i].detach().clone().requires_grad_() for i in shared]
    grads = tt.autograd.grad(layer(*apart)[0].square().sum(), apart)
    for i, mine in zip(sorted(set(shared)), together, strict=True):
        theirs = sum(g.numpy() for j, g in zip(shared, grads, strict=True) if i == j)
        np.testing.assert_allclose(mine.numpy(), theirs, rtol=1e-9, atol=1e-10)


def test_layouts_agree(rng: np.random.Generator) -> None:
    first = made(rng)
    second = tt.nn.MultiheadAttention(8, 2, dtype=tt.float64)
    second.load_state_dict(first.state_dict())
    x = tt.from_numpy(rng.standard_normal((3, 4, 8)))
    out, weights = first(x, x, x)
    turned, same = second(*[x.transpose(0, 1)] * 3)
    single, own = second(*[x[1]] * 3)
    for mine, theirs in ((turned.transpose(0, 1), out), (same, weights), (single, out[1]), (own, weights[1])):
        np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("needs", [True, False])
def test_on_the_device(rng: np.random.Generator, needs: bool) -> None:
    layer = made(rng, "cuda").float()
    x = tt.from_numpy(rng.standard_normal((2, 5, 8))).float().to("cuda").requires_grad_()
    hidden = tt.ones(5, 5, dtype=tt.bool, device="cuda").triu(1)
    out, _ = layer(x, x, x, attn_mask=hidden, need_weights=needs, is_causal=True)
    mask = np.triu(np.full((5, 5), -np.inf), 1)
    np.testing.assert_allclose(
        out.detach().cpu().numpy(), reference(layer, x, x, x, mask)[0], rtol=1e-4, atol=1e-4
    )
    out.sum().backward()
    assert x.grad.shape == x.shape and all(p.grad is not None for p in layer.parameters())


def test_given_keys_and_values_are_taken_as_they_are(rng: np.random.Generator) -> None:
    layer = made(rng)
    x, k, v = (tt.from_numpy(rng.standard_normal(s)) for s in ((4, 3, 8), (6, 7, 4), (6, 7, 4)))
    given = (layer.in_proj_weight, layer.in_proj_bias, None, None, False, 0.0, layer.out_proj.weight, None)
    out, weights = forward(x, x, x, 8, 2, *given, static_k=k, static_v=v)
    q = (
        tt.nn.functional.linear(x, layer.in_proj_weight[:8], layer.in_proj_bias[:8])
        .view(4, 6, 4)
        .transpose(0, 1)
    )
    seen = tt.nn.functional.softmax(q @ k.mT / 2, -1)
    expected = (seen @ v).transpose(0, 1).reshape(4, 3, 8) @ layer.out_proj.weight.T
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy(), rtol=1e-10)
    np.testing.assert_allclose(
        weights.detach().numpy(), seen.view(3, 2, 4, 7).mean(1).detach().numpy(), rtol=1e-10
    )


def test_dropout_only_while_training(rng: np.random.Generator) -> None:
    layer = made(rng, dropout=0.5)
    x = tt.from_numpy(rng.standard_normal((2, 16, 8)))
    weights = layer(x, x, x, average_attn_weights=False)[1]
    assert 0.2 < (weights == 0).double().mean().item() < 0.8
    np.testing.assert_allclose(
        layer.eval()(x, x, x)[0].detach().numpy(), reference(layer, x, x, x)[0], rtol=1e-9
    )


def test_a_row_that_sees_nothing(rng: np.random.Generator) -> None:
    layer = made(rng)
    x = tt.from_numpy(rng.standard_normal((1, 3, 8)))
    hidden = tt.zeros(3, 3, dtype=tt.bool)
    hidden[1] = True
    out, weights = layer(x, x, x, attn_mask=hidden)
    assert out[0, 1].isnan().all() and weights[0, 1].isnan().all()
    fused, _ = layer(x, x, x, attn_mask=hidden, need_weights=False)
    np.testing.assert_allclose(fused[0, 1].detach().numpy(), layer.out_proj.bias.detach().numpy())


REFUSALS: dict[str, tuple[Callable[..., object], type[Exception], str]] = {
    "rank": (lambda m, x: m(x[0, 0], x, x), AssertionError, "received 1-D query tensor"),
    "ranks": (lambda m, x: m(x, x[0], x), AssertionError, "but found 2-D and 3-D tensors respectively"),
    "rank of padding": (
        lambda m, x: m(x, x, x, tt.zeros(3, dtype=tt.bool)),
        AssertionError,
        "expected `key_padding_mask` to be `None` or 2-D but found 1-D tensor",
    ),
    "integers": (
        lambda m, x: m(x, x, x, attn_mask=tt.zeros(3, 3, dtype=tt.int64)),
        AssertionError,
        "only bool and floating types of attn_mask are supported",
    ),
    "sizes of a mask": (
        lambda m, x: m(x, x, x, attn_mask=tt.zeros(3, 4, dtype=tt.bool)),
        RuntimeError,
        r"The shape of the 2D attn_mask is .*\[3, 4\]\), but should be \(3, 3\)",
    ),
    "sizes of a mask of heads": (
        lambda m, x: m(x, x, x, attn_mask=tt.zeros(3, 3, 3)),
        RuntimeError,
        r"The shape of the 3D attn_mask is .* but should be \(4, 3, 3\)",
    ),
    "sizes of padding": (
        lambda m, x: m(x, x, x, tt.zeros(2, 4)),
        AssertionError,
        r"Expected key_padded_mask.shape\[1\] to be 3, but got 4",
    ),
    "hint alone": (lambda m, x: m(x, x, x, is_causal=True), RuntimeError, "Need attn_mask if specifying"),
    "width": (
        lambda m, x: m(*[x[..., :4]] * 3),
        AssertionError,
        "was expecting embedding dimension of 8, but got 4",
    ),
    "lengths": (lambda m, x: m(x, x, x[:, :2]), AssertionError, "does not match value shape"),
    "heads": (
        lambda m, x: tt.nn.MultiheadAttention(8, 3),
        AssertionError,
        "embed_dim must be divisible by num_heads",
    ),
    "no heads": (lambda m, x: tt.nn.MultiheadAttention(8, 0), ValueError, "must be greater than 0"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals(rng: np.random.Generator, case: str) -> None:
    call, error, text = REFUSALS[case]
    with pytest.raises(error, match=text):
        call(made(rng).float(), tt.zeros(2, 3, 8))


def test_masks_of_two_dtypes_are_warned_of(rng: np.random.Generator) -> None:
    layer, x = made(rng), tt.zeros(2, 3, 8, dtype=tt.float64)
    with pytest.warns(
        UserWarning, match="Support for mismatched key_padding_mask and attn_mask is deprecated"
    ):
        layer(x, x, x, tt.zeros(2, 3, dtype=tt.bool), attn_mask=tt.zeros(3, 3, dtype=tt.float64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x, x, x, tt.zeros(2, 3, dtype=tt.bool), attn_mask=tt.zeros(3, 3, dtype=tt.bool))


def _nested() -> tt.Tensor:
    tt.manual_seed(0)
    return tt.nested.nested_tensor([tt.rand(3, 16), tt.rand(2, 16)])


def test_a_nested_batch_is_attended_to_part_by_part() -> None:
    layer = tt.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = _nested()
    with tt.no_grad():
        out, weights = layer(x, x, x)
        for i, part in enumerate(x.unbind()):
            alone, expected = layer(part[None], part[None], part[None])
            n = len(part)
            tt.testing.assert_close(out.unbind()[i], alone[0])
            tt.testing.assert_close(weights[i, :n, :n], expected[0])
            assert not weights[i, n:].any() and not weights[i, :, n:].any()


@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_layer_takes_a_nested_batch(norm_first: bool) -> None:
    layer = tt.nn.TransformerEncoderLayer(16, 2, batch_first=True, norm_first=norm_first).eval()
    x = _nested()
    with tt.no_grad():
        for part, out in zip(x.unbind(), layer(x).unbind(), strict=True):
            tt.testing.assert_close(out, layer(part[None])[0], atol=1e-5, rtol=1e-5)
        assert layer(tt.nested.nested_tensor([tt.rand(0, 16)])).size(0) == 1


@pytest.mark.parametrize(
    ("options", "call", "reason"),
    [
        ({}, {"empty": True}, "input not batched; expected query.dim() of 3 but got 1"),
        ({}, {"other_key": True}, "non-self attention was used"),
        ({"train": True}, {}, "training is enabled"),
        ({"num_heads": 1}, {}, "self.num_heads is not even"),
        ({"batch_first": False}, {}, "batch_first was not True"),
        ({"add_bias_kv": True}, {}, "self.bias_k was not None"),
        ({"add_zero_attn": True}, {}, "add_zero_attn was enabled"),
        ({}, {"attn_mask": tt.zeros(3, 3)}, "supplying both src_key_padding_mask and src_mask"),
        ({}, {"grad": True}, "grad is enabled"),
    ],
)
def test_nested_operands_are_refused_outside_inference(
    options: dict[str, Any], call: dict[str, Any], reason: str
) -> None:
    train = options.pop("train", False)
    layer = tt.nn.MultiheadAttention(16, **{"num_heads": 2, "batch_first": True, **options}).train(train)
    x = tt.nested.nested_tensor([]) if call.pop("empty", False) else _nested()
    key = _nested() if call.pop("other_key", False) else x
    with tt.set_grad_enabled(call.pop("grad", False)), pytest.raises(AssertionError) as raised:
        layer(x, key, x, **call)
    assert reason in str(raised.value)
