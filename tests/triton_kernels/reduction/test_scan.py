"""Prefix sums agree with the host: dimensions, dtypes, rows in parts, in place."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.reduction import sides

DTYPES = [tt.float16, tt.bfloat16, tt.float32, tt.float64, tt.int8, tt.uint8, tt.int32, tt.int64, tt.bool]
ROUNDING = {tt.float16: 2**-11, tt.bfloat16: 2**-8, tt.float32: 2**-24, tt.float64: 2**-53}
SHAPES = [(), (1,), (7,), (0, 3), (3, 0), (3, 5), (4, 1, 6), (2, 3, 4, 5), (3, 5000), (5000, 3)]


def near(got, a, dim):
    """Compare integers exactly, and floats within the result's rounding and 25 units of the accumulated
    magnitude.
    """
    assert got.is_cuda
    values = np.atleast_1d(a.to(tt.float64).numpy())
    exact, size = (np.cumsum(x, dim).reshape(a.shape) for x in (values, abs(values)))
    error = abs(got.to(tt.float64).cpu().numpy() - exact)
    if not a.dtype.is_floating_point:
        assert got.dtype is tt.int64
        assert not error.any()
        return
    assert got.dtype is a.dtype
    unit = min(ROUNDING[a.dtype], 2**-24)
    # Halves of the numbers below the normal ones are lost in float16.
    bound = (
        1.01 * ROUNDING[a.dtype] * abs(exact) + 25 * unit * size + (2**-24 if a.dtype is tt.float16 else 0)
    )
    assert (error <= bound).all(), (error - bound).max()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_every_dimension(random, launches, dtype):
    for shape in SHAPES:
        a = random(shape, dtype)
        x = a.to("cuda")
        for dim in range(max(len(shape), 1)):
            before = launches.count
            got = x.cumsum(dim)
            assert launches.count - before == (1 if got.numel() else 0)
            near(got, a, dim)


@pytest.mark.parametrize("dtype", [tt.float32, tt.int32, tt.float16], ids=lambda d: d.name)
@pytest.mark.parametrize(("shape", "dim"), [((200_000,), 0), ((2, 50_000), 1), ((40_000, 3), 0)])
def test_long_lines_go_in_parts(random, launches, shape, dim, dtype):
    a = random(shape, dtype)
    x = a.to("cuda")
    before = launches.count
    got = x.cumsum(dim)
    assert launches.count - before == 3
    near(got, a, dim)
    assert bool((got == x.cumsum(dim)).all())


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize(("lines", "launched"), [(1, 3), (16, 1)])
def test_what_is_carried_is_not_rounded(dtype, lines, launched, launches, monkeypatch):
    """Carry more than one float between tiles: in one float a large sum before would absorb a tile's sum."""
    monkeypatch.setattr(sides, "INTERPRETED_REDUCED", 16)
    monkeypatch.setattr(sides, "INTERPRETED_TILE", 64)
    large = 2.0 ** (57 if dtype is tt.float64 else 28)
    for at, count in ((37, 1), (16, 100)):
        a = np.zeros((lines, 480))
        a[:, 0], a[:, at : at + count], a[:, 400] = large, 2, -large
        x = tt.from_numpy(a).to("cuda").to(dtype)
        before = launches.count
        got = x.cumsum(1).to(tt.float64).cpu().numpy()
        assert launches.count - before >= launched
        np.testing.assert_allclose(got[:, 399], large, rtol=2.0**-8)
        if dtype is not tt.float64 or launched == 1:
            np.testing.assert_array_equal(got[:, 479], 2 * count)


def test_negative_zeros_of_several_tiles(monkeypatch):
    monkeypatch.setattr(sides, "INTERPRETED_REDUCED", 16)
    monkeypatch.setattr(sides, "INTERPRETED_TILE", 16)
    zeros = tt.full((5, 50), -0.0, device="cuda")
    for dim in (0, 1):
        assert not np.signbit(zeros.cumsum(dim).cpu().numpy()).any()


def test_lines_are_not_split_for_the_sake_of_sums(monkeypatch):
    properties = type("Properties", (), {"multi_processor_count": 4})()
    device = type("Driver", (), {"properties": lambda *_: properties, "current_device": lambda *_: 0})()
    monkeypatch.setattr(sides, "driver", lambda: device)
    monkeypatch.setattr(sides, "interpreted", lambda: False)
    for num_rows, n, inner in ((4096, 1 << 20, False), (4096, 1 << 22, True)):
        assert sides.tile_for(num_rows, n, inner, True).splits > 1
        assert sides.tile_for(num_rows, n, inner, True, grows=False).splits == 1
    assert sides.tile_for(1, 1 << 26, True, True, grows=False).splits > 16


def test_in_place_and_strides(random):
    a = random((6, 7, 8))
    x = a.to("cuda")
    view = x.permute(2, 0, 1)
    assert view.cumsum_(1) is view
    near(view, a.permute(2, 0, 1), 1)
    long = random((200_000,))
    near(long.to("cuda").cumsum_(0), long, 0)
    out = tt.empty(7, 6, device="cuda").t()
    tt.cumsum(a.to("cuda")[:, :, 3], 1, out=out)
    near(out, a[:, :, 3], 1)


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
    assert not np.signbit(got[0].cpu().numpy()).any()
