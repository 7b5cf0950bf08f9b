"""Pooling on CUDA agrees with the CPU: windows, layouts, dtypes, NaN, gradients."""

import math

import pytest

import triten as tt
from triten.dispatch.generated.functions import avg_pool2d

# (sizes, kernel, stride, padding, dilation, ceil)
WINDOWS = {
    "plain": ((2, 3, 8, 9), 2, 2, 0, 1, False),
    "overlapping": ((2, 3, 9, 8), 3, 1, 1, 1, False),
    "spread": ((1, 2, 12, 13), (3, 2), (2, 3), (1, 1), (2, 3), False),
    "ceil": ((2, 3, 7, 8), 3, 2, 1, 1, True),
    "ceil beyond": ((1, 1, 5, 5), 2, 3, 1, 1, True),
    "no batch": ((3, 6, 6), (2, 3), (1, 2), 0, 1, False),
    "no images": ((0, 3, 6, 6), 2, 2, 0, 1, False),
    "everything": ((1, 2, 4, 5), (4, 5), 1, 0, 1, False),
}
FLOATS = [tt.float16, tt.bfloat16, tt.float32, tt.float64]


def last(tensor):
    """Return the same values in channels-last layout."""
    if tensor.ndim != 4:
        return tensor.permute((1, 2, 0)).contiguous().permute((2, 0, 1))
    return tensor.permute((0, 2, 3, 1)).contiguous().permute((0, 3, 1, 2))


def pooled_and_gradient(x, pool, seed):
    x = x.detach().requires_grad_()
    results = pool(x)
    values = results[0] if isinstance(results, tuple) else results
    values.backward(seed(values))
    return [*(results if isinstance(results, tuple) else (results,)), x.grad]


def compare(host, pool, random, same, layout, tolerance=0.0):
    gradient = {}

    def seed(values):
        if "host" not in gradient:
            gradient["host"] = random(tuple(values.shape), values.dtype)
        return layout(gradient["host"].to(values.device))

    expected = pooled_and_gradient(host, pool, seed)
    got = pooled_and_gradient(layout(host.to("cuda")), pool, seed)
    for a, b in zip(got, expected, strict=True):
        same(a, b.detach(), tolerance)


@pytest.mark.parametrize("layout", [lambda t: t, last], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("case", WINDOWS.values(), ids=WINDOWS)
def test_max_pool(random, same, case, layout):
    sizes, *window = case
    x = random(sizes, tt.float64).mul(2).round()
    compare(x, lambda t: tt.max_pool2d_with_indices(t, *window), random, same, layout, 1e-12)


@pytest.mark.parametrize("divisor", [None, 3])
@pytest.mark.parametrize("with_pad", [True, False])
@pytest.mark.parametrize("layout", [lambda t: t, last], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("case", WINDOWS.values(), ids=WINDOWS)
def test_average_pool(random, same, case, layout, with_pad, divisor):
    sizes, kernel, stride, padding, _, ceil = case
    x = random(sizes, tt.float64)
    pool = avg_pool2d
    compare(
        x, lambda t: pool(t, kernel, stride, padding, ceil, with_pad, divisor), random, same, layout, 1e-12
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_dtypes(random, same, dtype):
    x = random((2, 3, 9, 9), dtype)
    average = avg_pool2d
    tolerance = {tt.float64: 1e-12, tt.float32: 1e-6}.get(dtype, 1e-2)
    compare(x, lambda t: tt.max_pool2d_with_indices(t, 3, 2, 1), random, same, last, tolerance)
    compare(x, lambda t: average(t, 3, 2, 1), random, same, last, tolerance)


@pytest.mark.parametrize("dtype", [tt.uint8, tt.int32, tt.int64], ids=lambda d: d.name)
def test_integers(random, same, dtype):
    x = random((2, 3, 9, 9), dtype)
    for got, expected in zip(
        tt.max_pool2d_with_indices(x.to("cuda"), 3, 2, 1), tt.max_pool2d_with_indices(x, 3, 2, 1), strict=True
    ):
        same(got, expected)
    if dtype is tt.int64:
        same(avg_pool2d(x.to("cuda"), 3, 2, 1), avg_pool2d(x, 3, 2, 1))


def test_nan_and_infinity(random, same):
    x = random((1, 1, 8, 8))
    x[0, 0, 1, 1] = math.nan
    x[0, 0, 2, 2] = math.nan
    x[0, 0, 4:] = -math.inf
    for got, expected in zip(
        tt.max_pool2d_with_indices(x.to("cuda"), 3, 1, 1), tt.max_pool2d_with_indices(x, 3, 1, 1), strict=True
    ):
        same(got, expected)


def test_each_is_one_launch(random, launches):
    x = random((1, 2, 8, 8)).to("cuda").requires_grad_()
    before = launches.count
    y = tt.max_pool2d(x, 2)
    assert launches.count - before == 1
    y.backward(y.detach())
    assert launches.count - before == 2


def test_bool_is_refused(random):
    x = random((1, 1, 4, 4), tt.bool).to("cuda")
    with pytest.raises(NotImplementedError, match="Bool"):
        tt.max_pool2d(x, 2)
