"""Convolutions against a direct reference: geometry, layouts, dtypes, errors, derivatives."""

from __future__ import annotations

import gc
import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import triten as tt

Array = np.ndarray[Any, Any]


def reference(
    x: Array,
    w: Array,
    b: Array | None = None,
    stride: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    groups: int = 1,
) -> Array:
    """Compute a convolution by its definition: for each tap, a strided slice times that tap's weights."""
    border = [(0, 0), (0, 0), *[(p, p) for p in padding]]
    padded = np.pad(x, border)
    kernel = w.shape[2:]
    out = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, d, s in zip(padded.shape[2:], kernel, dilation, stride, strict=True)
    ]
    made = np.zeros((x.shape[0], w.shape[0], *out), np.result_type(x, w))
    per_in, per_out = w.shape[1], w.shape[0] // groups
    for tap in itertools.product(*[range(k) for k in kernel]):
        where = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, o, s in zip(tap, dilation, out, stride, strict=True)
        )
        for g in range(groups):
            part = padded[(slice(None), slice(g * per_in, (g + 1) * per_in), *where)]
            weights = w[(slice(g * per_out, (g + 1) * per_out), slice(None), *tap)]
            made[:, g * per_out : (g + 1) * per_out] += np.moveaxis(np.tensordot(weights, part, (1, 1)), 0, 1)
    return made if b is None else made + b.reshape(-1, *(1,) * len(kernel))


def sample(*shape: int, seed: int = 0) -> Array:
    """Return normal float64 numbers."""
    return np.random.default_rng(seed).standard_normal(shape)


CASES: dict[str, dict[str, Any]] = {
    "plain": {"x": (2, 3, 7, 6), "w": (4, 3, 3, 3)},
    "padded": {"x": (2, 3, 5, 6), "w": (4, 3, 3, 2), "padding": (1, 2)},
    "strided": {"x": (1, 2, 9, 8), "w": (3, 2, 3, 2), "stride": (2, 3)},
    "dilated": {"x": (2, 2, 9, 8), "w": (3, 2, 3, 2), "dilation": (2, 3)},
    "grouped": {"x": (2, 4, 6, 6), "w": (6, 2, 3, 3), "groups": 2, "padding": (1, 1)},
    "depthwise": {"x": (2, 3, 6, 6), "w": (6, 1, 3, 3), "groups": 3},
    "pointwise": {"x": (2, 3, 5, 5), "w": (4, 3, 1, 1)},
    "pointwise strided": {"x": (2, 3, 5, 5), "w": (4, 3, 1, 1), "stride": (2, 2)},
    "all": {
        "x": (2, 4, 9, 8),
        "w": (4, 2, 2, 3),
        "stride": (2, 1),
        "padding": (2, 1),
        "dilation": (1, 2),
        "groups": 2,
    },
    "one window": {"x": (1, 1, 3, 3), "w": (1, 1, 3, 3)},
    "wide border": {"x": (1, 1, 2, 2), "w": (2, 1, 3, 3), "padding": (2, 2)},
}


def operands(case: str, dtype: Any = None) -> tuple[Array, Array, Array, dict[str, Any]]:
    """Return the input, weight, bias and window of a case."""
    window = {k: v for k, v in CASES[case].items() if k not in "xw"}
    x, w = sample(*CASES[case]["x"]), sample(*CASES[case]["w"], seed=1)
    b = sample(w.shape[0], seed=2)
    return x, w, b, window


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-12), ("float16", 4e-3), ("bfloat16", 3e-2)]
)
@pytest.mark.parametrize("case", CASES)
def test_values(case: str, dtype: str, tolerance: float) -> None:
    x, w, b, window = operands(case)
    t = [tt.from_numpy(a).to(getattr(tt, dtype)) for a in (x, w, b)]
    rounded = [np.asarray(a.to(tt.float64).numpy()) for a in t]
    for count in (2, 3):
        found = tt.conv2d(*t[:count], **window)
        want = reference(*rounded[:count], **window)
        assert found.dtype is t[0].dtype and found.is_contiguous()
        np.testing.assert_allclose(found.to(tt.float64).numpy(), want, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "complex128"])
def test_integers_and_complex(dtype: str) -> None:
    x, w = (10 * sample(2, 3, 6, 6)).astype(dtype), (10 * sample(4, 3, 3, 3, seed=1)).astype(dtype)
    found = tt.conv2d(tt.from_numpy(x), tt.from_numpy(w), padding=1)
    np.testing.assert_allclose(found.numpy(), reference(x, w, padding=(1, 1)).astype(dtype))


@pytest.mark.parametrize("case", ["plain", "padded", "strided", "dilated", "grouped", "all", "pointwise"])
@pytest.mark.parametrize("layout", ["input last", "weight last", "both last", "transposed", "stepped"])
def test_layouts(case: str, layout: str) -> None:
    x, w, b, window = operands(case)
    tx, tw, tb = tt.from_numpy(x), tt.from_numpy(w), tt.from_numpy(b)
    last = layout.endswith("last")
    if layout in ("input last", "both last"):
        tx = tx.contiguous(memory_format=tt.channels_last)
    if layout in ("weight last", "both last"):
        tw = tw.contiguous(memory_format=tt.channels_last)
    if layout == "transposed":
        tx, tw = (
            tt.from_numpy(x.swapaxes(2, 3).copy()).transpose(2, 3),
            tt.from_numpy(w.T.copy()).permute((3, 2, 1, 0)),
        )
    if layout == "stepped":
        tx = tt.from_numpy(np.repeat(x, 2, 3))[..., ::2]
    found = tt.conv2d(tx, tw, tb, **window)
    np.testing.assert_allclose(found.numpy(), reference(x, w, b, **window), rtol=1e-10, atol=1e-10)
    if last and case != "pointwise":
        assert found.is_contiguous(memory_format=tt.channels_last) and not found.is_contiguous()


@pytest.mark.parametrize(
    ("sizes", "weight", "groups", "expected"),
    [
        ((2, 4, 5, 6), (8, 1, 3, 3), 4, (96, 1, 32, 8)),
        ((2, 4, 5, 6), (8, 1, 1, 1), 4, (240, 30, 6, 1)),
        ((2, 1, 5, 6), (8, 1, 3, 3), 1, (96, 1, 32, 8)),
        ((0, 4, 5, 6), (8, 4, 3, 3), 1, (96, 12, 4, 1)),
    ],
)
def test_weights_of_one_channel_can_be_channels_last(
    sizes: tuple[int, ...], weight: tuple[int, ...], groups: int, expected: tuple[int, ...]
) -> None:
    x, w = sample(*sizes), sample(*weight, seed=1)
    last = tt.from_numpy(w).to(memory_format=tt.channels_last)
    found = tt.conv2d(tt.from_numpy(x), last, groups=groups)
    assert found.stride() == expected
    if found.numel():
        np.testing.assert_allclose(found.numpy(), reference(x, w, groups=groups), rtol=1e-10, atol=1e-10)


def test_many_images_are_taken_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from triten.cpu_fallback.convolution import columns as convolution_columns

    monkeypatch.setattr(convolution_columns, "COLUMN_BYTES", 10_000)
    x, w, b = sample(5, 2, 11, 10), sample(3, 2, 3, 3, seed=1), sample(3, seed=2)
    for last in (False, True):
        leaves = [tt.from_numpy(a) for a in (x, w, b)]
        if last:
            leaves[0] = leaves[0].contiguous(memory_format=tt.channels_last)
        leaves = [a.requires_grad_() for a in leaves]
        out = tt.conv2d(*leaves, stride=(1, 2))
        np.testing.assert_allclose(
            out.detach().numpy(), reference(x, w, b, stride=(1, 2)), rtol=1e-10, atol=1e-10
        )
        out.sum().backward()
        alone = [np.zeros_like(x), np.zeros_like(w)]
        for i in range(5):
            one = [tt.from_numpy(a).requires_grad_() for a in (x[i : i + 1], w, b)]
            tt.conv2d(*one, stride=(1, 2)).sum().backward()
            alone[0][i] = one[0].grad.numpy()[0]
            alone[1] += one[1].grad.numpy()
        np.testing.assert_allclose(leaves[0].grad.numpy(), alone[0], atol=1e-10)
        np.testing.assert_allclose(leaves[1].grad.numpy(), alone[1], atol=1e-10)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_ranks_and_inputs_without_batch(rank: int) -> None:
    x, w, b = sample(2, 3, *(6, 5, 7)[:rank]), sample(4, 3, *(3, 2, 2)[:rank], seed=1), sample(4, seed=2)
    conv = getattr(tt, f"conv{rank}d")
    window = {"stride": (2, 1, 1)[:rank], "padding": (1, 0, 1)[:rank], "dilation": (1, 2, 1)[:rank]}
    want = reference(x, w, b, **window)
    t = [tt.from_numpy(a) for a in (x, w, b)]
    np.testing.assert_allclose(conv(*t, **window).numpy(), want, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(conv(t[0][0], *t[1:], **window).numpy(), want[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kernel", [(3, 3), (2, 3), (4, 2), (1, 5)])
@pytest.mark.parametrize("dilation", [1, 2])
def test_padding_same(kernel: tuple[int, int], dilation: int) -> None:
    x, w = sample(2, 3, 8, 7), sample(4, 3, *kernel, seed=1)
    total = [dilation * (k - 1) for k in kernel]
    padded = np.pad(x, [(0, 0), (0, 0), *[(t // 2, t - t // 2) for t in total]])
    found = tt.conv2d(tt.from_numpy(x), tt.from_numpy(w), padding="same", dilation=dilation)
    assert tuple(found.shape) == (2, 4, 8, 7) and found.is_contiguous()
    np.testing.assert_allclose(found.numpy(), reference(padded, w, dilation=(dilation,) * 2), atol=1e-10)
    valid = tt.conv2d(tt.from_numpy(x), tt.from_numpy(w), padding="valid")
    np.testing.assert_allclose(valid.numpy(), reference(x, w), atol=1e-10)


@pytest.mark.parametrize(
    ("stride", "padding", "extra", "dilation", "groups"),
    [(1, 0, 0, 1, 1), (2, 1, 1, 1, 2), (2, 0, 0, 2, 1), (1, 1, 1, 2, 1)],
)
def test_transposed_is_the_adjoint(stride: int, padding: int, extra: int, dilation: int, groups: int) -> None:
    x, w = sample(2, 4, 4, 5), sample(4, 3, 3, 2, seed=1)
    made = tt.conv_transpose2d(
        tt.from_numpy(x), tt.from_numpy(w), None, stride, padding, extra, groups, dilation
    ).numpy()
    y = sample(*made.shape, seed=3)
    back = reference(y, w, None, (stride,) * 2, (padding,) * 2, (dilation,) * 2, groups)[:, :, :4, :5]
    np.testing.assert_allclose((made * y).sum(), (back * x).sum(), rtol=1e-10)


def test_empty_batches_and_nan() -> None:
    assert tuple(tt.conv2d(tt.ones(0, 3, 8, 8), tt.ones(4, 3, 3, 3)).shape) == (0, 4, 6, 6)
    x = tt.zeros(1, 1, 5, 5)
    x[0, 0, 0, 0] = float("nan")
    found = tt.conv2d(x, tt.ones(1, 1, 3, 3), padding=1).numpy()
    assert np.isnan(found[0, 0, :2, :2]).all() and np.isnan(found).sum() == 4
    weight = tt.ones(4, 3, 3, 3, requires_grad=True)
    tt.conv2d(tt.ones(0, 3, 8, 8), weight).sum().backward()
    assert not weight.grad.numpy().any()


X, W = (1, 3, 8, 8), (4, 3, 3, 3)


@pytest.mark.parametrize(
    ("x", "w", "window", "words"),
    [
        ((2,), W, {}, "Expected 3D (unbatched) or 4D (batched) input to conv2d, but got input of size: [2]"),
        ((1, 2, 8, 8), W, {}, "expected input[1, 2, 8, 8] to have 3 channels, but got 2 channels instead"),
        ((1, 4, 8, 8), (3, 2, 3, 3), {"groups": 2}, "expected weight to be divisible by 2 at dimension 0"),
        (X, W, {"groups": 0}, "non-positive groups is not supported"),
        (X, W, {"stride": 0}, "non-positive stride is not supported"),
        (X, W, {"padding": -1}, "negative padding is not supported"),
        (X, W, {"dilation": 0}, "dilation should be greater than zero"),
        (
            X,
            W,
            {"stride": (1, 1, 1)},
            "list of 2 values to match the convolution dimensions, but got stride=[1, 1, 1]",
        ),
        ((1, 3, 2, 2), W, {}, "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3)"),
        (X, W, {"padding": "foo"}, "Invalid padding string: 'foo'"),
        (X, W, {"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
    ],
)
def test_errors(x: tuple[int, ...], w: tuple[int, ...], window: dict[str, Any], words: str) -> None:
    for device in ("cpu", "meta"):
        with pytest.raises(RuntimeError) as error:
            tt.conv2d(tt.ones(x, device=device), tt.ones(w, device=device), **window)
        assert words in str(error.value)


def test_errors_of_operands() -> None:
    x, w = tt.ones(X), tt.ones(W)
    refused: list[tuple[Callable[[], Any], str]] = [
        (lambda: tt.conv2d(x, w, tt.ones(3)), "expected bias to be 1-dimensional with 4 elements"),
        (lambda: tt.conv2d(x, w.double()), "expected scalar type Float but found Double"),
        (lambda: tt.conv2d(x, w, tt.ones(4).double()), "bias type (double) should be the same"),
        (lambda: tt.conv2d(x, w.to("meta")), "same device"),
    ]
    for call, words in refused:
        with pytest.raises(RuntimeError) as error:
            call()
        assert words in str(error.value)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        tt.conv2d(x.to(tt.bool), w.to(tt.bool))


@pytest.mark.parametrize("case", CASES)
def test_meta(case: str) -> None:
    x, w, b, window = operands(case)
    t = [tt.from_numpy(a) for a in (x, w, b)]
    here = tt.conv2d(*t, **window)
    there = tt.conv2d(*[a.to("meta") for a in t], **window)
    assert there.shape == here.shape and there.stride() == here.stride()


@pytest.mark.parametrize(
    "case", ["plain", "padded", "strided", "dilated", "depthwise", "all", "pointwise", "wide border"]
)
def test_gradients(case: str) -> None:
    x, w, b, window = operands(case)
    leaves = tuple(tt.from_numpy(a).requires_grad_() for a in (x, w, b))
    assert tt.autograd.gradcheck(lambda *a: tt.conv2d(*a, **window), leaves)


@pytest.mark.parametrize("case", ["one window", "pointwise strided", "wide border"])
def test_second_gradients(case: str) -> None:
    x, w, b, window = operands(case)
    leaves = tuple(tt.from_numpy(a).requires_grad_() for a in (x[:1, :, :3, :3], w[:2], b[:2]))
    assert tt.autograd.gradgradcheck(lambda *a: tt.conv2d(*a, **window), leaves)


@pytest.mark.parametrize(("stride", "extra", "dilation"), [(1, 0, 1), (2, 1, 1), (1, 1, 2)])
def test_gradients_of_transposed(stride: int, extra: int, dilation: int) -> None:
    leaves = tuple(
        tt.from_numpy(sample(*s, seed=i)).requires_grad_()
        for i, s in enumerate([(1, 2, 3, 2), (2, 2, 2, 2), (2,)])
    )
    window = {"stride": stride, "output_padding": extra, "dilation": dilation}
    assert tt.autograd.gradcheck(lambda *a: tt.conv_transpose2d(*a, **window), leaves)
    assert tt.autograd.gradgradcheck(lambda *a: tt.conv_transpose2d(*a, **window), leaves)


TRANSPOSED: dict[str, dict[str, Any]] = {
    "lines": {"x": (2, 3, 5), "w": (3, 2, 4), "stride": 3, "padding": 1, "output_padding": 2},
    "planes": {"x": (2, 4, 3, 4), "w": (4, 3, 3, 2), "stride": (2, 1), "padding": 1, "groups": 2},
    "volumes": {"x": (1, 2, 3, 2, 3), "w": (2, 3, 2, 3, 2), "stride": 2, "dilation": (1, 2, 1)},
    "dilation above stride": {"x": (1, 2, 3, 4), "w": (2, 3, 2, 2), "dilation": 3, "output_padding": 2},
    "one tap": {"x": (2, 3, 4, 4), "w": (3, 2, 1, 1)},
}


def transposed_operands(case: str, **options: Any) -> tuple[Callable[..., Any], list[Any], dict[str, Any]]:
    """Return the function of a transposed case, its operands and its window."""
    window = {k: v for k, v in TRANSPOSED[case].items() if k not in "xw"}
    x, w = TRANSPOSED[case]["x"], TRANSPOSED[case]["w"]
    sizes = [x, w, (w[1] * window.get("groups", 1),)]
    operands = [tt.from_numpy(sample(*s, seed=i)) for i, s in enumerate(sizes)]
    return getattr(tt, f"conv_transpose{len(x) - 2}d"), operands, window


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_has_the_values_and_gradients_of_pytorch(case: str) -> None:
    torch = pytest.importorskip("torch")
    function, operands, window = transposed_operands(case)
    for count in (2, 3):
        mine = [a.detach().requires_grad_() for a in operands[:count]]
        theirs = [torch.from_numpy(a.numpy().copy()).requires_grad_() for a in operands[:count]]
        found = function(*mine, **window)
        want = getattr(torch.nn.functional, function.__name__)(*theirs, **window)
        np.testing.assert_allclose(found.detach().numpy(), want.detach().numpy(), rtol=1e-10, atol=1e-10)
        found.square().sum().backward()
        want.square().sum().backward()
        for a, b in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("case", TRANSPOSED)
def test_transposed_derivatives_of_every_kind(case: str) -> None:
    function, operands, window = transposed_operands(case)
    leaves = tuple(a.slice(-1, 0, 2) if a.ndim > 1 else a for a in operands)
    leaves = tuple(a.contiguous().requires_grad_() for a in leaves)
    assert tt.autograd.gradcheck(lambda *a: function(*a, **window), leaves, check_forward_ad=True)


@pytest.mark.parametrize("case", ["lines", "dilation above stride"])
def test_transposed_second_derivatives(case: str) -> None:
    function, operands, window = transposed_operands(case)
    leaves = tuple(a.requires_grad_() for a in operands)
    assert tt.autograd.gradgradcheck(lambda *a: function(*a, **window), leaves)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_transposed_integers(dtype: str) -> None:
    x, w = (10 * sample(2, 3, 4, 4)).astype(dtype), (10 * sample(3, 2, 3, 3, seed=1)).astype(dtype)
    b = np.arange(2, dtype=dtype)
    found = tt.conv_transpose2d(*[tt.from_numpy(a) for a in (x, w, b)], stride=2).numpy()
    wide = [tt.from_numpy(a.astype(np.float64)) for a in (x, w, b)]
    assert (found == tt.conv_transpose2d(*wide, stride=2).numpy()).all()


def test_transposed_without_batch_and_of_empty_batches() -> None:
    function, (x, w, b), window = transposed_operands("planes")
    np.testing.assert_allclose(function(x[0], w, b, **window).numpy(), function(x, w, b, **window).numpy()[0])
    assert tuple(function(x[:0], w, b, **window).shape) == (0, 6, *function(x, w, b, **window).shape[2:])


@pytest.mark.parametrize("device", ["cpu", "cuda", "meta"])
def test_transposed_of_no_samples_may_have_no_positions_either(device: str) -> None:
    x, w = (tt.zeros(*sizes, device=device, requires_grad=True) for sizes in ((0, 3, 1, 1), (3, 4, 2, 2)))
    found = tt.conv_transpose2d(x, w, padding=1)
    assert tuple(found.shape) == (0, 4, 0, 0)
    gradients = tt.autograd.grad(found.sum(), [x, w])
    assert [tuple(gradient.shape) for gradient in gradients] == [(0, 3, 1, 1), (3, 4, 2, 2)]
    if device != "meta":
        assert not gradients[1].any()
    assert tuple(tt.conv2d(tt.zeros(0, 4, 0, 5, device=device), w, padding=2).shape) == (0, 3, 3, 8)


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize(
    ("x", "w", "window", "words"),
    [
        (
            (5, 5),
            W,
            {},
            "Expected 3D (unbatched) or 4D (batched) input to conv_transpose2d, but got input of size",
        ),
        (
            (1, 3, 5, 5),
            W,
            {},
            "Given transposed=1, weight of size [4, 3, 3, 3], expected input[1, 3, 5, 5] to have 4",
        ),
        ((1, 4, 5, 5), W, {"groups": 3}, "expected weight to be divisible by 3 at dimension 0"),
        (
            (1, 4, 5, 5),
            W,
            {"output_padding": 1},
            "output padding must be smaller than either stride or dilation",
        ),
        ((1, 4, 5, 5), W, {"output_padding": -1}, "negative output_padding is not supported"),
        (
            (1, 4, 1, 1),
            W,
            {"padding": 3},
            "Calculated output size per channel: (-3 x -3). Output size is too small",
        ),
        ((1, 4, 5, 5), W, {"stride": 0}, "non-positive stride is not supported"),
    ],
)
def test_errors_of_transposed(
    device: str, x: tuple[int, ...], w: tuple[int, ...], window: dict[str, Any], words: str
) -> None:
    with pytest.raises(RuntimeError) as error:
        tt.conv_transpose2d(tt.ones(x, device=device), tt.ones(w, device=device), **window)
    assert words in str(error.value)


def test_transposed_bias_of_another_size_is_refused() -> None:
    with pytest.raises(
        RuntimeError, match="expected bias to be 1-dimensional with 3 elements, but got bias of size"
    ):
        tt.conv_transpose2d(tt.ones(1, 4, 5, 5), tt.ones(W), tt.ones(4))


WINDOW = ([2, 1], [1, 0], [1, 2])


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("mask", list(itertools.product([False, True], repeat=3)), ids=str)
def test_backward_gives_what_its_mask_asks_for(transposed: bool, mask: tuple[bool, ...], device: Any) -> None:
    sizes = [(2, 4, 6, 5), (4, 2, 3, 2), (4,)]
    x, w, b = (tt.from_numpy(sample(*s, seed=i)).to(device) for i, s in enumerate(sizes))
    leaves = [a.requires_grad_() for a in (x, w, b)]
    out = tt.convolution(*leaves, *WINDOW, transposed, [0, 0], 2)
    grad = tt.from_numpy(sample(*out.shape, seed=4)).to(device)
    out.backward(grad)
    rest = (*WINDOW, transposed, [0, 0], 2, list(mask))
    found = tt.ops.aten.convolution_backward(grad, x.detach(), w.detach(), [4], *rest)
    for asked, one, leaf in zip(mask, found, leaves, strict=True):
        assert (one is not None) == asked
        if asked:
            np.testing.assert_allclose(one.cpu().numpy(), leaf.grad.cpu().numpy(), atol=1e-12)


@pytest.mark.parametrize("frozen", [0, 1])
def test_an_operand_is_kept_only_for_the_other_ones_gradient(frozen: int, device: Any) -> None:
    x, w = (tt.from_numpy(sample(*s)).to(device) for s in ((2, 4, 6, 5), (4, 4, 3, 3)))
    leaves = [x, w]
    leaves[1 - frozen].requires_grad_()
    given = [a * 1 for a in leaves]
    kept = [weakref.ref(a) for a in given]
    out = tt.conv2d(*given)
    del given
    gc.collect()
    assert [r() is not None for r in kept] == [frozen == 0, frozen == 1]
    grad = tt.from_numpy(sample(*out.shape, seed=4)).to(device)
    out.backward(grad)
    both = [a.detach().requires_grad_() for a in leaves]
    tt.conv2d(*both).backward(grad)
    found, want = leaves[1 - frozen].grad, both[1 - frozen].grad
    np.testing.assert_allclose(found.cpu().numpy(), want.cpu().numpy(), atol=1e-12)


def test_gradients_of_other_sizes_are_refused() -> None:
    x, w = tt.ones(1, 4, 5, 5), tt.ones(2, 4, 3, 3)
    rest = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True])
    for sizes, dim in (((1, 2, 4, 4), 2), ((1, 3, 3, 3), 1), ((2, 2, 3, 3), 0)):
        with pytest.raises(
            RuntimeError, match=rf"Expected a tensor of dimension 4 and tensor.size\[{dim}\] =="
        ):
            tt.ops.aten.convolution_backward(tt.ones(sizes), x, w, *rest)


def test_double_backward_is_that_of_the_formulas() -> None:
    torch = pytest.importorskip("torch")
    sizes = [(2, 4, 5, 5), (6, 2, 3, 3), (6,), (2, 6, 2, 2), (6, 2, 3, 3), (2, 4, 5, 5)]
    operands = [sample(*s, seed=i) for i, s in enumerate(sizes)]
    rest = ([2, 2], [0, 0], [1, 1], False, [0, 0], 2, [True, True, True])
    name = "_convolution_double_backward"
    want = getattr(torch.ops.aten, name)(*[torch.from_numpy(a) for a in operands], *rest)
    found = getattr(tt.ops.aten, name)(*[tt.from_numpy(a) for a in operands], *rest)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_lines_with_time_first() -> None:
    x, w, b = (tt.from_numpy(a) for a in (sample(7, 2, 3), sample(3, 3, 4, seed=1), sample(4, seed=2)))
    for pad in (0, 2):
        want = tt.conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), b, padding=pad).permute(2, 0, 1)
        found = tt.conv_tbc(x, w, b, pad)
        assert found.is_contiguous()
        np.testing.assert_allclose(found.numpy(), want.numpy(), atol=1e-12)
    with pytest.raises(RuntimeError, match="Input must have 3 dims: time, batch, in_channel"):
        tt.conv_tbc(tt.ones(3, 3), tt.ones(3, 3, 4), tt.ones(4))


def test_one_number_stands_for_all_dimensions() -> None:
    x, w = tt.from_numpy(sample(1, 2, 6, 6)), tt.from_numpy(sample(3, 2, 3, 3, seed=1)).requires_grad_()
    found = tt.convolution(x, w, None, [2], [1], [1], False, [0], 1)
    want = tt.conv2d(x, w, None, 2, 1)
    np.testing.assert_array_equal(found.detach().numpy(), want.detach().numpy())
    assert tt.autograd.grad(found.sum(), w)[0].shape == w.shape


@pytest.mark.parametrize("sizes", [{"stride": 2**62}, {"stride": 2**31, "padding": 1}])
def test_a_step_that_is_never_made_is_of_any_size(sizes):
    x, weight = tt.arange(8.0).reshape(1, 2, 4).requires_grad_(), tt.ones(3, 2, 2).requires_grad_()
    found = tt.nn.functional.conv1d(x, weight, **sizes)
    expected = tt.nn.functional.conv1d(x, weight, **sizes | {"stride": 6})
    assert tt.equal(found, expected)
    assert all(map(tt.equal, *(tt.autograd.grad(y.sum(), (x, weight)) for y in (found, expected))))
