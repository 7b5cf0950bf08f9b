"""Pooling against a direct reference: windows, indices, layouts, dtypes, errors, derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import triten as tt

Array = np.ndarray[Any, Any]


def output_size(n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> int:
    """Return the output size by the formula of PyTorch's documentation."""
    reach = n + 2 * p - d * (k - 1) - 1
    out = (-(-reach // s) if ceil_mode else reach // s) + 1
    return out - 1 if ceil_mode and (out - 1) * s >= n + p else out


def windows(
    x: Array,
    kernel: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Any:
    """Yield, for each position, the rows and columns of its window that lie in the plane."""
    axes = []
    for n, k, s, p, d in zip(x.shape[-2:], kernel, stride, padding, dilation, strict=True):
        count = output_size(n, k, s, p, d, ceil_mode)
        taps = [np.arange(k) * d + i * s - p for i in range(count)]
        axes.append([t[(t >= 0) & (t < n)] for t in taps])
    return axes


def max_reference(x: Array, *window: Any) -> tuple[Array, Array]:
    """Compute max pooling and its indices: the first of equal values, the last of NaNs."""
    rows, columns = windows(x, *window)
    shape = (*x.shape[:-2], len(rows), len(columns))
    values, indices = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    for i, r in enumerate(rows):
        for j, c in enumerate(columns):
            part = x[..., r[:, None], c].reshape(*x.shape[:-2], -1)
            flat = (r[:, None] * x.shape[-1] + c).reshape(-1)
            nans = part != part
            last = part.shape[-1] - 1 - nans[..., ::-1].argmax(-1)
            pick = np.where(
                nans.any(-1), last, np.where(nans, 0, part).argmax(-1) if nans.any() else part.argmax(-1)
            )
            values[..., i, j] = np.take_along_axis(part, pick[..., None], -1)[..., 0]
            indices[..., i, j] = flat[pick]
    return values, indices


def average_reference(
    x: Array, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, include: bool, divisor: int | None
) -> Array:
    """Compute average pooling by sums over the elements inside the plane."""
    rows, columns = windows(x, kernel, stride, padding, (1, 1), ceil_mode)
    out = np.empty((*x.shape[:-2], len(rows), len(columns)))
    for i, r in enumerate(rows):
        for j, c in enumerate(columns):
            sides = [
                min(at * s - p + k, n + p) - (at * s - p)
                for at, s, p, k, n in zip((i, j), stride, padding, kernel, x.shape[-2:], strict=True)
            ]
            count = divisor or (sides[0] * sides[1] if include else len(r) * len(c))
            out[..., i, j] = x[..., r[:, None], c].sum((-1, -2)) / count
    return out


def sample(*shape: int) -> Array:
    """Return distinct numbers, so that every maximum is unique."""
    count = int(np.prod(shape))
    return np.random.default_rng(0).permutation(count).reshape(shape).astype("float64") - count / 2


WINDOWS: list[tuple[Any, Any, Any, Any, bool]] = [
    ((2, 2), (2, 2), (0, 0), (1, 1), False),
    ((3, 2), (1, 2), (1, 0), (1, 1), False),
    ((2, 3), (2, 1), (1, 1), (2, 1), False),
    ((3, 3), (2, 2), (1, 1), (1, 1), True),
    ((2, 2), (3, 3), (0, 0), (1, 1), True),
    ((2, 2), (1, 1), (0, 0), (3, 2), False),
]


@pytest.mark.parametrize("layout", ["contiguous", "channels last", "transposed", "without batch"])
@pytest.mark.parametrize("window", WINDOWS)
def test_max_values_and_indices(window: Any, layout: str) -> None:
    x = sample(2, 3, 7, 8)
    t = tt.from_numpy(x)
    if layout == "channels last":
        t = t.contiguous(memory_format=tt.channels_last)
    elif layout == "transposed":
        t = tt.from_numpy(x.swapaxes(2, 3).copy()).transpose(2, 3)
    elif layout == "without batch":
        t, x = t[0], x[0]
    values, indices = tt.max_pool2d_with_indices(t, *window)
    want, where = max_reference(x, *window)
    np.testing.assert_array_equal(values.numpy(), want)
    np.testing.assert_array_equal(indices.numpy(), where)
    assert indices.dtype is tt.int64
    if layout == "channels last":
        assert values.is_contiguous(memory_format=tt.channels_last)
        assert indices.is_contiguous(memory_format=tt.channels_last)
    np.testing.assert_array_equal(tt.max_pool2d(t, *window).numpy(), want)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "uint8", "int8", "int32", "int64"])
def test_max_of_other_dtypes(dtype: str) -> None:
    x = np.random.default_rng(0).integers(0, 100, (2, 3, 6, 6))
    values, indices = tt.max_pool2d_with_indices(tt.from_numpy(x).to(getattr(tt, dtype)), 3, 2, 1)
    want, where = max_reference(x, (3, 3), (2, 2), (1, 1), (1, 1), False)
    assert values.dtype is getattr(tt, dtype)
    np.testing.assert_array_equal(values.to(tt.int64).numpy(), want)
    np.testing.assert_array_equal(indices.numpy(), where)


def test_special_values() -> None:
    nan, inf = float("nan"), float("inf")
    values, indices = tt.max_pool2d_with_indices(tt.tensor([[[1.0, nan], [nan, 2.0]]]), 2)
    assert np.isnan(values.item()) and indices.item() == 2
    values, indices = tt.max_pool2d_with_indices(tt.tensor([[[1.0, 3.0], [3.0, 2.0]]]), 2)
    assert (values.item(), indices.item()) == (3.0, 1)
    values, indices = tt.max_pool2d_with_indices(tt.full((1, 2, 2), -inf), 2, padding=1)
    assert indices.tolist() == [[[0, 1], [2, 3]]] and np.isneginf(values.numpy()).all()
    lowest = tt.full((1, 2, 2), -128, dtype=tt.int8)
    assert tt.max_pool2d_with_indices(lowest, 2, padding=1)[1].tolist() == [[[0, 1], [2, 3]]]


@pytest.mark.parametrize("divisor", [None, 3, -2])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("window", [w for w in WINDOWS if w[3] == (1, 1)])
def test_averages(window: Any, include: bool, divisor: int | None) -> None:
    kernel, stride, padding, _, ceil_mode = window
    x = sample(2, 3, 7, 8)
    want = average_reference(x, kernel, stride, padding, ceil_mode, include, divisor)
    for t in (tt.from_numpy(x), tt.from_numpy(x).contiguous(memory_format=tt.channels_last)):
        found = tt.avg_pool2d(t, kernel, stride, padding, ceil_mode, include, divisor)
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
    out = tt.empty(want.shape, dtype=tt.float64)
    assert tt.avg_pool2d(t, kernel, stride, padding, ceil_mode, include, divisor, out=out) is out
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-12)


def test_windows_of_border_alone_pass_no_gradient_on(device: str) -> None:
    """Dilation and `ceil_mode` make windows that meet no element; their index may lie beyond the plane."""
    x = tt.arange(5.0, device=device).view(1, 1, 5, 1).requires_grad_()
    values, indices = tt.max_pool2d_with_indices(x, 2, (1, 3), 1, (1, 2), True)
    assert values.tolist() == [[[[-np.inf]] * 6]]
    assert indices.shape == (1, 1, 6, 1)
    values.sum().backward()
    assert x.grad.tolist() == [[[[0.0]] * 5]]
    some = tt.arange(10.0, device=device).view(1, 1, 2, 5).requires_grad_()
    values = tt.max_pool2d(some, (1, 2), (1, 4), (0, 1), (1, 2), True)
    (values * tt.tensor([1.0, 2.0], device=device)).sum().backward()
    assert values.tolist() == [[[[1.0, 3.0], [6.0, 8.0]]]]
    assert some.grad.tolist() == [[[[0.0, 1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 2.0, 0.0]]]]


def test_averages_of_integers_are_truncated() -> None:
    x = tt.tensor([[[-1, -2], [-2, -2]]])
    assert tt.avg_pool2d(x, 2).tolist() == [[[-1]]]


def test_one_dimension() -> None:
    x = sample(2, 3, 9)
    want, where = max_reference(x[:, :, None], (1, 3), (1, 2), (0, 1), (1, 1), False)
    values, indices = tt.max_pool1d_with_indices(tt.from_numpy(x), 3, 2, 1)
    np.testing.assert_array_equal(values.numpy(), want[:, :, 0])
    np.testing.assert_array_equal(indices.numpy(), where[:, :, 0])
    np.testing.assert_array_equal(tt.max_pool1d(tt.from_numpy(x[0]), 3, 2, 1).numpy(), want[0, :, 0])
    average = average_reference(x[:, :, None], (1, 3), (1, 2), (0, 1), False, True, None)
    np.testing.assert_allclose(tt.avg_pool1d(tt.from_numpy(x), 3, 2, 1).numpy(), average[:, :, 0])


@pytest.mark.parametrize(
    ("shape", "arguments", "words"),
    [
        ((2, 3, 8, 8), ((2, 3, 4),), "kernel_size must either be a single int, or a tuple of two ints"),
        ((2, 3, 8, 8), (2, 0), "stride should not be zero"),
        ((2, 3, 8, 8), (2, (1, 2, 3)), "stride must either be omitted, a single int, or a tuple of two ints"),
        (
            (2, 3, 8, 8),
            (2, 2, 2),
            "pad should be at most half of effective kernel size, but got pad=2, kernel_size=2",
        ),
        ((2, 3, 8, 8), (2, 2, -1), "pad must be non-negative"),
        (
            (2, 3, 8, 8),
            (9,),
            "Given input size: (3x8x8). Calculated output size: (3x0x0). Output size is too small",
        ),
        (
            (2, 0, 7, 7),
            (2,),
            "Expected 3D or 4D (batch mode) tensor with optional 0 dim batch size for input",
        ),
    ],
)
def test_errors(shape: tuple[int, ...], arguments: tuple[Any, ...], words: str) -> None:
    for device in ("cpu", "meta"):
        for name in ("max_pool2d", "avg_pool2d"):
            with pytest.raises(RuntimeError) as error:
                getattr(tt, name)(tt.ones(shape, device=device), *arguments)
            assert words in str(error.value)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_tensor_without_planes(device: str) -> None:
    with pytest.raises(RuntimeError, match="non-empty 3D or 4D"):
        tt.max_pool2d(tt.ones(2, device=device), 2)
    with pytest.raises(IndexError, match="but got -3"):
        tt.avg_pool2d(tt.ones(2, device=device), 2)


def test_averages_of_volumes_refuse_an_image_smaller_than_the_window_whatever_the_padding() -> None:
    with pytest.raises(
        RuntimeError, match=r"\(T: 2 H: 7 W: 1\) smaller than kernel size \(kT: 3 kH: 2 kW: 1\)"
    ):
        tt.avg_pool3d(tt.ones(1, 2, 7, 1), (3, 2, 1), padding=(1, 0, 0))
    assert tt.max_pool3d(tt.ones(1, 2, 7, 1), (3, 2, 1), padding=(1, 0, 0)).shape == (1, 1, 3, 1)


def test_refused_dtypes_and_divisors() -> None:
    for dtype in (tt.bool, tt.complex64):
        with pytest.raises(NotImplementedError, match="not implemented for"):
            tt.max_pool2d(tt.ones(1, 4, 4).to(dtype), 2)
    with pytest.raises(RuntimeError, match="divisor must be not zero"):
        tt.avg_pool2d(tt.ones(1, 4, 4), 2, divisor_override=0)


def test_meta_and_empty_batches() -> None:
    values, indices = tt.max_pool2d_with_indices(tt.ones(2, 3, 7, 7, device="meta"), 3, 2, 1)
    assert tuple(values.shape) == tuple(indices.shape) == (2, 3, 4, 4) and indices.dtype is tt.int64
    assert tuple(tt.max_pool2d(tt.ones(0, 3, 7, 7), 2).shape) == (0, 3, 3, 3)
    assert tuple(tt.avg_pool2d(tt.ones(0, 3, 7, 7), 2).shape) == (0, 3, 3, 3)


@pytest.mark.parametrize("window", WINDOWS)
def test_gradients(window: Any) -> None:
    x = tt.from_numpy(sample(2, 2, 7, 6)).requires_grad_()
    assert tt.autograd.gradcheck(lambda x: tt.max_pool2d(x, *window), (x,), eps=1e-3)
    kernel, stride, padding, dilation, ceil_mode = window
    if dilation == (1, 1):
        for include in (True, False):
            function = lambda x: tt.avg_pool2d(x, kernel, stride, padding, ceil_mode, include)  # noqa: E731, B023
            assert tt.autograd.gradcheck(function, (x,))


def test_second_gradients() -> None:
    x = tt.from_numpy(sample(1, 2, 4, 4)).requires_grad_()
    assert tt.autograd.gradgradcheck(lambda x: tt.max_pool2d(x, 3, 1), (x,), eps=1e-3)
    assert tt.autograd.gradgradcheck(lambda x: tt.avg_pool2d(x, 3, 2, 1), (x,), eps=1e-3)


def test_gradients_keep_channels_last() -> None:
    x = tt.from_numpy(sample(2, 3, 6, 6)).contiguous(memory_format=tt.channels_last).requires_grad_()
    tt.max_pool2d(x, 2).sum().backward()
    assert x.grad.is_contiguous(memory_format=tt.channels_last)


def test_integers_that_pytorch_pools(device: str) -> None:
    x = tt.arange(-8, 8, device=device).view(1, 2, 2, 4)
    assert tt.avg_pool3d(x, (1, 2, 2)).tolist() == [[[[-5, -3]], [[2, 4]]]]
    for dtype in (tt.uint8, tt.int8, tt.int16, tt.int32, tt.int64):
        assert tt.max_pool2d(tt.arange(16, device=device).view(1, 4, 4).to(dtype), 2).tolist() == [
            [[5, 7], [13, 15]]
        ]
    for pool, dtype in ((tt.max_pool2d, tt.uint16), (tt.avg_pool2d, tt.int32), (tt.avg_pool2d, tt.bool)):
        with pytest.raises(NotImplementedError, match=f"not implemented for '{dtype.scalar_name}'"):
            pool(tt.ones(1, 4, 4, device=device).to(dtype), 2)


@pytest.mark.parametrize("shape", [(0, 10), (0, 1, 10)])
def test_adaptive_average_of_no_channel_or_no_sample_has_a_gradient(shape: tuple[int, ...]) -> None:
    x = tt.ones(shape, requires_grad=True)
    tt.nn.functional.adaptive_avg_pool1d(x, 5).sum().backward()
    assert x.grad.shape == shape


@pytest.mark.parametrize("name", ["adaptive_avg_pool3d", "adaptive_max_pool3d"])
def test_adaptive_pools_take_no_channel_without_a_batch(name: str) -> None:
    assert getattr(tt.nn.functional, name)(tt.ones(0, 4, 4, 4), 2).shape == (0, 2, 2, 2)


@pytest.mark.parametrize("name", ["adaptive_avg_pool1d", "adaptive_max_pool1d"])
@pytest.mark.parametrize("output_size", [(), (1, 2)])
def test_pools_of_one_dimension_take_one_output_size(name, output_size):
    with pytest.raises(RuntimeError, match=rf"{name}\(\).*'output_size'.*one int \(got {len(output_size)}\)"):
        getattr(tt.nn.functional, name)(tt.ones(1, 2, 3), output_size)
