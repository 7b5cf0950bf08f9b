"""layer_norm, rms_norm, group_norm, batch_norm and similar ones on the CPU: values against float64,
statistics, errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.normalization import one_block
from triten.dispatch.core.dispatcher import Dispatcher

F = tt.nn.functional
aten = tt.ops.aten
FLOATS = [tt.float64, tt.float32, tt.bfloat16, tt.float16]
TOLERANCE = {tt.float64: 1e-12, tt.float32: 4e-6, tt.bfloat16: 1.2e-2, tt.float16: 1.5e-3}


def rounded(array: Any, dtype: tt.dtype) -> tuple[tt.Tensor, Any]:
    """Return a tensor, and its values in float64."""
    made = tt.from_numpy(np.asarray(array).astype(dtype.np))
    return made, made.to(tt.float64).numpy().copy()


def normal(x: Any, axes: tuple[int, ...], eps: float, centred: bool = True) -> Any:
    mean = x.mean(axes, keepdims=True) if centred else 0
    return (x - mean) / np.sqrt(np.square(x - mean).mean(axes, keepdims=True) + eps)


def along(row: Any, rank: int) -> Any:
    """Reshape a row to one value for each channel of (N, C, ...)."""
    return row.reshape(1, -1, *(1,) * (rank - 2))


SHAPES = [(3, 5), (1, 1), (7, 2, 4), (2, 3, 129), (2, 1031), (300, 300)]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_rows(rng, name, shape, dtype):
    x, wide = rounded(rng.standard_normal(shape) * 3 + 1, dtype)
    w, wide_w = rounded(rng.standard_normal(shape[-1]), dtype)
    b, wide_b = rounded(rng.standard_normal(shape[-1]), dtype)
    if name == "layer_norm":
        got, wanted = F.layer_norm(x, shape[-1:], w, b, 1e-3), normal(wide, (-1,), 1e-3) * wide_w + wide_b
    else:
        got, wanted = F.rms_norm(x, shape[-1:], w, 1e-3), normal(wide, (-1,), 1e-3, False) * wide_w
    assert got.dtype is dtype and got.shape == shape
    np.testing.assert_allclose(
        got.to(tt.float64).numpy(), wanted, rtol=TOLERANCE[dtype], atol=4 * TOLERANCE[dtype]
    )


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["layer_norm", "rms_norm"])
def test_one_block_has_the_results_of_several(rng, monkeypatch, name, dtype, masked):
    rows, n = 300, 70
    x, g = (tt.tensor(rng.standard_normal((rows, n)) * 3 + 1, dtype=dtype) for _ in range(2))
    w, b = (None if masked else tt.tensor(rng.standard_normal(n), dtype=dtype) for _ in range(2))
    made = []
    for most in (1 << 17, 0):
        monkeypatch.setattr(one_block, "MAX_ELEMENTS", most)
        Dispatcher.singleton().forget_all()
        if name == "layer_norm":
            kept = aten.native_layer_norm(x, [n], w, b, 1e-5)
            mask = [True, not masked, not masked]
            back = aten.native_layer_norm_backward(g, x, [n], *kept[1:], w, b, mask)
        else:
            kept = aten._fused_rms_norm(x, [n], w, 1e-5)
            back = aten._fused_rms_norm_backward(g, x, [n], kept[1], w, [True, not masked])
        made.append((*kept, *[t for t in back if t is not None]))
    Dispatcher.singleton().forget_all()
    forward = len(kept)
    for one, several in zip(*made, strict=True):
        np.testing.assert_allclose(
            one.numpy(), several.numpy(), rtol=TOLERANCE[dtype], atol=40 * TOLERANCE[dtype]
        )
    for one, several in zip(made[0][:forward], made[1][:forward], strict=True):
        np.testing.assert_array_equal(one.numpy(), several.numpy())


def test_several_dimensions_and_any_strides(rng):
    array = rng.standard_normal((4, 6, 5, 3))
    for view in (
        lambda a: a,
        lambda a: a.transpose(2, 0, 3, 1),
        lambda a: a[::2, 1::2],
        lambda a: a[:1, :, :, :2],
    ):
        x = view(array)
        strided = tt.from_numpy(array)
        strided = strided.permute(2, 0, 3, 1) if x.shape == (5, 4, 3, 6) else strided
        if x.shape == (2, 3, 5, 3):
            strided = strided[::2, 1::2]
        if x.shape == (1, 6, 5, 2):
            strided = strided[:1, :, :, :2]
        for count in (1, 2, 3):
            got = F.layer_norm(strided, x.shape[-count:])
            np.testing.assert_allclose(got.numpy(), normal(x, tuple(range(-count, 0)), 1e-5), atol=1e-12)
            assert got.is_contiguous()


def test_numbers_far_from_zero_keep_their_variance(rng):
    x = (rng.standard_normal((4, 3000)) + 4096).astype(np.float32)
    wanted = normal(x.astype(np.float64), (1,), 1e-5)
    np.testing.assert_allclose(F.layer_norm(tt.from_numpy(x), [3000]).numpy(), wanted, atol=2e-3)
    got = F.batch_norm(tt.from_numpy(x.T.copy()), None, None, training=True).numpy().T
    np.testing.assert_allclose(got, wanted, atol=2e-3)
    got = F.group_norm(tt.from_numpy(x[:, :, None]), 1).numpy()[..., 0]
    np.testing.assert_allclose(got, wanted, atol=2e-3)


def test_kept_statistics_have_pytorchs_dtypes():
    x, half = tt.randn(2, 3), tt.randn(2, 3).to(tt.bfloat16)
    w = tt.ones(3)
    for given, weight, cpu, meta in (
        (x, None, tt.float32, tt.float32),
        (half, None, tt.bfloat16, tt.float32),
        (half, w, tt.float32, tt.float32),
        (x.to(tt.float64), None, tt.float64, tt.float64),
    ):
        _, mean, rstd = tt.native_layer_norm(given, [3], weight, None, 1e-5)
        assert mean.dtype is cpu and rstd.dtype is cpu and mean.shape == (2, 1)
        on_meta = tt.native_layer_norm(
            given.to("meta"), [3], None if weight is None else weight.to("meta"), None, 1e-5
        )
        assert on_meta[1].dtype is meta and on_meta[0].dtype is given.dtype
    assert aten._fused_rms_norm(half, [3], None, None)[1].dtype is tt.float32


def test_rows_of_nothing():
    out, mean, rstd = tt.native_layer_norm(tt.ones(3, 0), [0], None, None, 1e-5)
    assert out.shape == (3, 0) and mean.tolist() == [[0.0]] * 3 and np.isnan(rstd.numpy()).all()
    assert F.layer_norm(tt.ones(0, 4), [4], tt.ones(4)).shape == (0, 4)
    w = tt.ones(4, requires_grad=True)
    F.layer_norm(tt.ones(0, 4), [4], w).sum().backward()
    assert w.grad.tolist() == [0.0] * 4
    assert F.batch_norm(tt.ones(0, 3, 4), tt.zeros(3), tt.ones(3)).shape == (0, 3, 4)
    assert F.group_norm(tt.ones(0, 4, 2), 2).shape == (0, 4, 2)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_spoils_its_row_alone(value):
    x = tt.arange(24.0).reshape(2, 3, 4)
    x[1, 1, 2] = value
    for got, rows in (
        (F.layer_norm(x, [4]), ~np.isfinite(x.numpy()).all(-1)),
        (F.rms_norm(x, [4]), ~np.isfinite(x.numpy()).all(-1)),
    ):
        spoilt = np.isnan(got.numpy())
        assert not spoilt[~rows].any()
        assert spoilt[rows].any(-1).all()
    assert np.isnan(F.layer_norm(x, [4]).numpy()[1, 1]).all()
    by_channel = np.isnan(F.batch_norm(x, None, None, training=True).numpy())
    assert by_channel[:, 1].all() and not by_channel[:, [0, 2]].any()


IMAGES = [(4, 6), (2, 6, 5), (3, 6, 4, 5), (2, 6, 2, 3, 4)]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", IMAGES, ids=str)
def test_batch_norm(rng, shape, dtype):
    x, wide = rounded(rng.standard_normal(shape) * 2 + 1, dtype)
    w, wide_w = rounded(rng.standard_normal(6), dtype)
    b, wide_b = rounded(rng.standard_normal(6), dtype)
    mean, wide_mean = rounded(rng.standard_normal(6), dtype)
    var, wide_var = rounded(rng.random(6) + 0.5, dtype)
    axes, rank, tolerance = (0, *range(2, len(shape))), len(shape), TOLERANCE[dtype]

    def check(got: tt.Tensor, wanted: Any) -> None:
        np.testing.assert_allclose(got.to(tt.float64).numpy(), wanted, rtol=tolerance, atol=8 * tolerance)

    fixed = (wide - along(wide_mean, rank)) / np.sqrt(along(wide_var, rank) + 1e-3)
    check(F.batch_norm(x, mean, var, w, b, eps=1e-3), fixed * along(wide_w, rank) + along(wide_b, rank))
    count = wide.size // 6
    trained = normal(wide, axes, 1e-3) * along(wide_w, rank) + along(wide_b, rank)
    check(F.batch_norm(x, mean, var, w, b, True, 0.25, 1e-3), trained)
    check(mean, 0.75 * wide_mean + 0.25 * wide.mean(axes))
    check(var, 0.75 * wide_var + 0.25 * wide.var(axes) * count / (count - 1))
    if rank in (4, 5):
        last = x.contiguous(memory_format=tt.channels_last if rank == 4 else tt.channels_last_3d)
        got = F.batch_norm(last, None, None, w, b, True, eps=1e-3)
        check(got, trained)
        assert got.stride() == last.stride()


def test_running_statistics_keep_their_version_and_graphs_their_gradients():
    x, mean, var = tt.randn(4, 3, requires_grad=True), tt.zeros(3), tt.ones(3)
    out = F.batch_norm(x, mean, var, training=True) + F.batch_norm(x * 2, mean, var, training=True)
    assert mean._version == 0
    (out * tt.arange(12.0).view(4, 3)).sum().backward()
    assert x.grad.abs().sum().item() > 0


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(4, 6), (2, 6, 5), (3, 6, 4, 5)], ids=str)
@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_group_norm(rng, shape, groups, dtype):
    if groups == 6 and len(shape) == 2:
        groups = 3
    x, wide = rounded(rng.standard_normal(shape) * 2 + 1, dtype)
    w, wide_w = rounded(rng.standard_normal(6), dtype)
    b, wide_b = rounded(rng.standard_normal(6), dtype)
    wanted = normal(wide.reshape(shape[0], groups, -1), (2,), 1e-2).reshape(shape)
    wanted = wanted * along(wide_w, len(shape)) + along(wide_b, len(shape))
    got = F.group_norm(x, groups, w, b, 1e-2)
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(got.to(tt.float64).numpy(), wanted, rtol=tolerance, atol=8 * tolerance)
    if len(shape) == 4:
        last = F.group_norm(x.contiguous(memory_format=tt.channels_last), groups, w, b, 1e-2)
        assert last.is_contiguous(memory_format=tt.channels_last)
        np.testing.assert_allclose(last.to(tt.float64).numpy(), wanted, rtol=tolerance, atol=8 * tolerance)


def test_instance_norm(rng):
    x, wide = rounded(rng.standard_normal((3, 2, 4, 5)), tt.float64)
    np.testing.assert_allclose(F.instance_norm(x).numpy(), normal(wide, (2, 3), 1e-5), atol=1e-12)
    mean, var = tt.zeros(2, dtype=tt.float64), tt.ones(2, dtype=tt.float64)
    F.instance_norm(x, mean, var, momentum=1.0)
    np.testing.assert_allclose(mean.numpy(), wide.mean((0, 2, 3)))
    np.testing.assert_allclose(var.numpy(), wide.var((2, 3)).mean(0) * 20 / 19)
    fixed = (wide - along(mean.numpy(), 4)) / np.sqrt(along(var.numpy(), 4) + 1e-5)
    np.testing.assert_allclose(
        F.instance_norm(x, mean, var, use_input_stats=False).numpy(), fixed, atol=1e-12
    )


@pytest.mark.parametrize("shape", [(2, 5, 3), (2, 5, 3, 2)])
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_local_response_norm(rng, shape, size):
    x = rng.standard_normal(shape)
    padded = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (len(shape) - 2)])
    mean = sum(padded[:, i : i + 5] for i in range(size)) / size
    got = F.local_response_norm(tt.from_numpy(x), size, alpha=0.5, beta=0.3, k=1.5)
    np.testing.assert_allclose(got.numpy(), x / (1.5 + 0.5 * mean) ** 0.3, rtol=1e-12)


def test_autocast_takes_layer_norm_to_float32():
    half = tt.randn(2, 4).to(tt.float16)
    with tt.autocast("cuda", dtype=tt.float16):
        assert F.layer_norm(half, [4]).dtype is tt.float16  # on the CPU this context rules nothing
    assert F.layer_norm(half, [4], tt.ones(4)).dtype is tt.float16


X, IMAGE = tt.ones(2, 3, 4), tt.ones(2, 3, 4, 5)
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "shape": (
        lambda: F.layer_norm(X, [3]),
        RuntimeError,
        r"Given normalized_shape=\[3\], expected input with shape \[\*, 3\], but got input of size\[2, 3, 4\]",
    ),
    "no shape": (lambda: F.layer_norm(X, []), RuntimeError, "to be at least 1-dimensional"),
    "weight": (
        lambda: F.layer_norm(X, [4], tt.ones(3)),
        RuntimeError,
        r"Expected weight to be of same shape as normalized_shape, but got weight of shape \[3\]",
    ),
    "bias": (
        lambda: F.layer_norm(X, [4], tt.ones(4), tt.ones(3)),
        RuntimeError,
        "Expected bias to be of same",
    ),
    "wide weight": (
        lambda: F.layer_norm(X, [4], tt.ones(4, dtype=tt.float64)),
        RuntimeError,
        "expect parameter to have scalar type of Float",
    ),
    "integers": (
        lambda: F.layer_norm(X.to(tt.int64), [4]),
        NotImplementedError,
        "\"LayerNormKernelImpl\" not implemented for 'Long'",
    ),
    "rms shape": (lambda: F.rms_norm(X, [3]), RuntimeError, r"expected input with shape \[\*3\]"),
    "channels": (
        lambda: F.group_norm(IMAGE, 2),
        RuntimeError,
        "Expected number of channels in input to be divisible by num_groups",
    ),
    "group weight": (
        lambda: F.group_norm(IMAGE, 3, tt.ones(4)),
        RuntimeError,
        "Expected weight to be a vector",
    ),
    "rank": (
        lambda: F.group_norm(tt.ones(3), 3),
        RuntimeError,
        "Expected at least 2 dimensions for input tensor",
    ),
    "one value in a group": (
        lambda: F.group_norm(tt.ones(1, 3), 3),
        ValueError,
        r"Expected more than 1 value per channel when training, got input size \[1, 3\]",
    ),
    "one value in a channel": (
        lambda: F.batch_norm(tt.ones(1, 3), None, None, training=True),
        ValueError,
        "Expected more than 1 value per channel",
    ),
    "eps": (
        lambda: F.batch_norm(IMAGE, None, None, training=True, eps=0.0),
        ValueError,
        "batch_norm eps must be positive during training, but got 0.0",
    ),
    "negative eps": (lambda: F.batch_norm(IMAGE, None, None, eps=-1.0), ValueError, "must be non-negative"),
    "no statistics": (
        lambda: F.batch_norm(IMAGE, None, None),
        RuntimeError,
        "running_mean must be defined in evaluation mode",
    ),
    "half of the statistics": (
        lambda: F.batch_norm(IMAGE, None, tt.ones(3), training=True),
        ValueError,
        "running_mean and running_var must either both be None or neither be None",
    ),
    "statistics of other channels": (
        lambda: F.batch_norm(IMAGE, tt.ones(4), tt.ones(4)),
        RuntimeError,
        "running_mean should contain 3 elements not 4",
    ),
    "no channels": (
        lambda: tt.batch_norm(tt.ones(3), None, None, None, None, True, 0.1, 1e-5, True),
        IndexError,
        r"Dimension out of range \(expected to be in range of \[-1, 0\], but got 1\)",
    ),
    "nothing": (
        lambda: tt.native_batch_norm(tt.ones(0, 3, 4), None, None, None, None, True, 0.1, 1e-5),
        RuntimeError,
        "input tensor must have at least one element, but got input_sizes = ",
    ),
    "one position": (lambda: F.instance_norm(tt.ones(2, 3, 1)), ValueError, "more than 1 spatial element"),
    "no running statistics": (
        lambda: F.instance_norm(IMAGE, use_input_stats=False),
        RuntimeError,
        "Expected running_mean and running_var to be defined when use_input_stats is false",
    ),
    "rank of responses": (lambda: F.local_response_norm(tt.ones(2, 3), 1), ValueError, "got 2 dimensions"),
    "gradient's sizes": (
        lambda: aten.native_layer_norm_backward(
            tt.ones(2, 4), X, [4], tt.ones(2, 3, 1), tt.ones(2, 3, 1), None, None, [True] * 3
        ),
        RuntimeError,
        "native_layer_norm_backward: expected grad_out to have the size of input",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors(name):
    call, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        call()


def test_only_gradients_that_are_asked_for_are_made():
    x, stats = tt.randn(2, 3), tt.ones(2, 1)
    for mask in ([True, False, True], [False, True, False], [False, False, False]):
        got = aten.native_layer_norm_backward(x, x, [3], stats, stats, tt.ones(3), tt.ones(3), mask)
        assert [g is not None for g in got] == mask
    w = tt.ones(3, requires_grad=True)
    F.layer_norm(x, [3], w).sum().backward()
    assert x.grad is None and w.grad.shape == (3,)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: F.layer_norm(x, [2, 2], w[:, None] * b[:2], b[:2, None] * w),
        lambda x, w, b: F.rms_norm(x, [2], w, 0.1),
        lambda x, w, b: F.group_norm(x, 1, w, b, 0.1),
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True, eps=0.1),
        lambda x, w, b: F.batch_norm(x, x.new_zeros(2), x.new_ones(2) * 3, w, b, eps=0.1),
        lambda x, w, b: F.instance_norm(x, weight=w, bias=b, eps=0.1),
    ],
    ids=["layer_norm", "rms_norm", "group_norm", "batch_norm", "batch_norm by statistics", "instance_norm"],
)
def test_second_derivatives(rng, function):
    args = [tt.from_numpy(rng.standard_normal(s) + 0.1).requires_grad_() for s in ((3, 2, 2), (2,), (2,))]
    assert tt.autograd.gradcheck(function, args)
    assert tt.autograd.gradgradcheck(function, args)


@pytest.mark.parametrize("training", [False, True])
def test_batch_norm_is_channels_last_for_any_strides_of_single_pixels(training: bool) -> None:
    x = tt.arange(6.0).reshape(1, 3, 2, 1).permute(0, 2, 1, 3)
    assert x.stride() == (6, 1, 2, 1)
    assert tt.nn.BatchNorm2d(2).train(training)(x).stride() == (6, 1, 2, 2)


@pytest.mark.parametrize("sizes", [(300, 40), (40, 900), (700, 700)])
def test_batch_norm_of_rows_without_positions(sizes):
    rng = np.random.default_rng(3)
    x, g = (rng.standard_normal(sizes).astype(np.float32) * 2 + 3 for _ in range(2))
    wide, slope = x.astype(np.float64), g.astype(np.float64)
    mean, variance = wide.mean(0), wide.var(0)
    normal = (wide - mean) / np.sqrt(variance + 1e-5)
    leaf, running = tt.from_numpy(x).requires_grad_(), tt.zeros(sizes[1])
    out = tt.nn.functional.batch_norm(leaf, running, tt.ones(sizes[1]), training=True)
    np.testing.assert_allclose(out.detach().numpy(), normal, 1e-4, 1e-5)
    np.testing.assert_allclose(running.numpy(), 0.1 * mean, 1e-5)
    (found,) = tt.autograd.grad(out, leaf, tt.from_numpy(g))
    centered = slope - slope.mean(0) - normal * (slope * normal).mean(0)
    np.testing.assert_allclose(found.numpy(), centered / np.sqrt(variance + 1e-5), 1e-3, 1e-4)
