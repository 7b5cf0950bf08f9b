"""Sums of prefixes against the host: dimensions, dtypes, lines in parts, in place."""

import numpy as np
import pytest

import triten as tt

DTYPES = [tt.float16, tt.bfloat16, tt.float32, tt.float64, tt.int8, tt.uint8, tt.int32, tt.int64, tt.bool]
# float64 goes to float16 by way of float32, and is rounded twice.
TOLERANCE = {tt.float16: 1e-3, tt.float64: 1e-13}
SHAPES = [(), (1,), (7,), (0, 3), (3, 0), (3, 5), (4, 1, 6), (2, 3, 4, 5), (3, 5000), (5000, 3)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_every_dimension(random, same, launches, dtype):
    for shape in SHAPES:
        a = random(shape, dtype)
        x = a.to("cuda")
        for dim in range(max(len(shape), 1)):
            before = launches.count
            got = x.cumsum(dim)
            assert launches.count - before == (1 if got.numel() else 0)
            same(got, a.cumsum(dim), TOLERANCE.get(dtype, 0))


@pytest.mark.parametrize("dtype", [tt.float32, tt.int32, tt.float16], ids=lambda d: d.name)
@pytest.mark.parametrize(("shape", "dim"), [((200_000,), 0), ((2, 50_000), 1), ((40_000, 3), 0)])
def test_long_lines_go_in_parts(random, same, launches, shape, dim, dtype):
    a = random(shape, dtype)
    x = a.to("cuda")
    before = launches.count
    got = x.cumsum(dim)
    assert launches.count - before == 3
    same(got, a.cumsum(dim), TOLERANCE.get(dtype, 0))
    assert bool((got == x.cumsum(dim)).all())


def test_in_place_and_strides(random, same):
    a = random((6, 7, 8))
    x = a.to("cuda")
    view = x.permute(2, 0, 1)
    assert view.cumsum_(1) is view
    same(view, a.permute(2, 0, 1).cumsum(1))
    long = random((200_000,))
    same(long.to("cuda").cumsum_(0), long.cumsum(0))
    out = tt.empty(7, 6, device="cuda").t()
    tt.cumsum(a.to("cuda")[:, :, 3], 1, out=out)
    same(out, a[:, :, 3].cumsum(1))


def test_the_gradient(random, same):
    a = random((4, 9), tt.float64)
    gradients = []
    for device in ("cuda", "cpu"):
        x = a.to(device).requires_grad_()
        (x.cumsum(1) ** 2).sum().backward()
        gradients.append(x.grad)
    same(*gradients, 1e-12)


def test_more_dimensions_than_the_program_has(random, same):
    order = (9, 1, 8, 2, 7, 3, 6, 4, 5, 0)
    a = random((2, 1, 2, 2, 2, 3, 2, 1, 2, 2), tt.float64)
    same(a.to("cuda").permute(order).cumsum(3), a.permute(order).cumsum(3), 1e-13)


@pytest.mark.parametrize("dtype", [tt.int8, tt.int32, tt.float32], ids=lambda d: d.name)
def test_the_dtype_of_the_sums(random, same, dtype):
    a = random((3, 40), tt.int64) * 100
    same(a.to("cuda").cumsum(1, dtype=dtype), a.cumsum(1, dtype=dtype))


def test_infinities_nan_and_negative_zeros(same):
    a = tt.from_numpy(np.array([[-0.0, -0.0, 0.0], [1, np.inf, -np.inf], [1, np.nan, 2]], np.float32))
    got = a.to("cuda").cumsum(1)
    same(got, a.cumsum(1))
    assert np.signbit(got[0].cpu().numpy()).tolist() == [True, True, False]
