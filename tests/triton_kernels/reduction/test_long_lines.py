"""Tiles of reductions: rows that start anywhere, sums of many numbers, indices beyond 32 bits."""

import math

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels import launch
from triten.triton_kernels.reduction import extreme_index, sides

REDUCTIONS = {
    "sum": lambda x, dim: (x.sum(dim),),
    "amax": lambda x, dim: (x.amax(dim),),
    "argmin": lambda x, dim: (x.argmin(dim),),
    "max": lambda x, dim: x.max(dim),
    "var_mean": lambda x, dim: tt.var_mean(x, dim),
    "logsumexp": lambda x, dim: (x.logsumexp(dim),),
}
# One below and above a vector of 16 bytes and a tile of the interpreter, and primes.
LENGTHS = [15, 17, 67, 4095, 4097]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("length", LENGTHS)
def test_lines_that_begin_within_a_vector(name, length, rng, same):
    wide = rng.standard_normal((3, length + 7)).astype(np.float32)
    for first in (0, 3):
        host = tt.from_numpy(wide)[:, first : first + length]
        device = tt.from_numpy(wide).to("cuda")[:, first : first + length]
        for got, expected in zip(
            REDUCTIONS[name](device, 1), REDUCTIONS[name](host.contiguous(), 1), strict=True
        ):
            same(got, expected, 1e-5)


@pytest.mark.parametrize("dtype", [tt.int8, tt.bfloat16, tt.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("length", [67, 300, 4099])
def test_vectors_of_every_size(random, same, dtype, length):
    a = random((5, length), dtype)
    x = a.to("cuda")
    tolerance = 0 if dtype is tt.int8 else 2e-2 if dtype is tt.bfloat16 else 1e-12
    same(x.sum(1), a.sum(1), tolerance)
    same(x.amax(1), a.amax(1))
    same(x.argmax(1), a.argmax(1))


@pytest.mark.parametrize("at", [0, 1, 2, 5, 30, 61, 64, 65, 66])
def test_nan_and_infinity_at_both_ends(at, same):
    a = np.arange(3 * 67, dtype=np.float32).reshape(3, 67)
    a[1, at] = math.nan
    a[2, at] = math.inf
    host, device = tt.from_numpy(a), tt.from_numpy(a).to("cuda")
    for name, reduce in REDUCTIONS.items():
        for got, expected in zip(reduce(device, 1), reduce(host, 1), strict=True):
            if name != "var_mean" or got is not reduce(device, 1)[0]:
                same(got, expected, 1e-4)


def test_sums_of_float32_are_accurate_along_every_axis(rng):
    a = (rng.standard_normal((257, 3, 613)) + 1000).astype(np.float32)
    x = tt.from_numpy(a).to("cuda")
    for dims in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        exact = a.astype(np.float64).sum(dims)
        np.testing.assert_allclose(x.sum(dims).cpu().numpy(), exact, rtol=5e-7)


def test_no_lane_adds_more_numbers_than_a_part_has_tiles(monkeypatch):
    properties = type("Properties", (), {"multi_processor_count": 4})()
    device = type("Driver", (), {"properties": lambda *_: properties, "current_device": lambda *_: 0})()
    monkeypatch.setattr(sides, "driver", lambda: device)
    monkeypatch.setattr(sides, "interpreted", lambda: False)
    for num_rows, n, inner in ((1, 1 << 31, True), (10_000, 10_000_000, True), (4096, 1_000_000, False)):
        tile = sides.tile_for(num_rows, n, inner, True)
        assert tile.chunk <= sides.MAX_TILES * tile.reduced
        assert (tile.splits - 1) * tile.chunk < n <= tile.splits * tile.chunk
        assert tile.splits <= sides.MAX_PARTS


def test_few_programs_are_split_until_they_fill_the_device(monkeypatch):
    properties = type("Properties", (), {"multi_processor_count": 132})()
    device = type("Driver", (), {"properties": lambda *_: properties, "current_device": lambda *_: 0})()
    monkeypatch.setattr(sides, "driver", lambda: device)
    monkeypatch.setattr(sides, "interpreted", lambda: False)
    for num_rows, n, inner in ((1, 1 << 25, True), (4096, 8192, False), (128, 1 << 16, False)):
        tile = sides.tile_for(num_rows, n, inner, True)
        warps = launch.cdiv(num_rows, tile.outputs) * tile.splits * tile.warps
        assert 0.5 * 132 * sides.WARPS <= warps <= 132 * sides.WARPS
    rows = sides.tile_for(8192, 4096, True, True)
    assert (rows.outputs, rows.reduced, rows.splits, rows.warps) == (1, 4096, 1, 8)
    narrow = sides.tile_for(8192, 4096, True, True, itemsize=2)
    assert (narrow.outputs * narrow.reduced * 2) // (32 * narrow.warps) == 64


def test_a_measured_tile_is_taken_where_it_fits(monkeypatch):
    properties = type("Properties", (), {"multi_processor_count": 132})()
    device = type("Driver", (), {"properties": lambda *_: properties, "current_device": lambda *_: 0})()
    monkeypatch.setattr(sides, "driver", lambda: device)
    monkeypatch.setattr(sides, "interpreted", lambda: False)
    asked = []

    def tile(num_rows, n, inner, answer):
        def ask(shape, default):
            asked.append((shape, default.tile, default.warps))
            return answer or default

        found = sides.tile_for(num_rows, n, inner, True, ask=ask)
        return found.outputs, found.reduced, found.warps

    rows, columns = sides.Configuration((1, 2048)), sides.Configuration((128, 32), 8)
    assert tile(8192, 4096, True, None) == (1, 4096, 8)
    assert tile(8192, 4096, True, rows) == (1, 2048, 4)
    assert tile(65536, 4096, False, rows) == tile(65536, 4096, False, None) == (64, 32, 4)
    assert tile(65536, 4096, False, columns) == (128, 32, 8)
    assert tile(8192, 16, True, rows) == tile(8192, 16, True, None)
    assert asked[0] == ((8192, 4096, 1), (1, 4096), 8)
    assert asked[2] == ((65536, 4096, 0), (64, 32), 4)
    sides.tile_for(1, 1 << 20, True, True, ask=lambda shape, default: rows)
    monkeypatch.setattr(sides, "interpreted", lambda: True)
    before = len(asked)
    tile(8192, 4096, True, rows)
    assert len(asked) == before


@pytest.mark.parametrize("name", REDUCTIONS)
def test_indices_of_64_bits(name, rng, same, monkeypatch):
    monkeypatch.setattr(launch, "INT32_MAX", 40)
    monkeypatch.setattr(extreme_index, "INT32_MAX", 40)
    for shape in ((3, 79), (1, 173)):
        a = rng.standard_normal(shape).astype(np.float32)
        for dim in (0, 1):
            pairs = zip(
                REDUCTIONS[name](tt.from_numpy(a).to("cuda"), dim),
                REDUCTIONS[name](tt.from_numpy(a), dim),
                strict=True,
            )
            for got, expected in pairs:
                same(got, expected, 1e-5)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "logcumsumexp"])
def test_scans_with_indices_of_64_bits(name, rng, same, monkeypatch):
    monkeypatch.setattr(launch, "INT32_MAX", 40)
    a = rng.standard_normal((3, 83)).astype(np.float32)
    got, expected = (getattr(tt, name)(x, 1) for x in (tt.from_numpy(a).to("cuda"), tt.from_numpy(a)))
    for left, right in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, expected)), strict=True):
        same(left, right, 1e-5)


@pytest.mark.parametrize("shape", [(), (7,), (3, 70), (2, 3, 4), (20_000,)], ids=str)
@pytest.mark.parametrize("dtype", [tt.complex64, tt.complex128], ids=lambda d: d.name)
def test_complex_numbers(shape, dtype, rng, same):
    pairs = np.asarray(rng.standard_normal((*shape, 2)))
    a = np.asarray((pairs[..., 0] + 1j * pairs[..., 1]) / np.hypot(pairs[..., 0], pairs[..., 1]))
    host = tt.from_numpy(a.astype(dtype.np))
    device = host.to("cuda")
    tolerance = 2e-4 if dtype is tt.complex64 else 1e-10
    for name in ("sum", "mean", "prod", "any", "all"):
        same(getattr(device, name)(), getattr(host, name)(), tolerance)
        for dim in range(len(shape)):
            same(getattr(device, name)(dim), getattr(host, name)(dim), tolerance)
    for dim in range(max(len(shape), 1)):
        same(device.cumsum(dim), host.cumsum(dim), tolerance)
        same(device.cumprod(dim), host.cumprod(dim), tolerance)
    zeros = tt.from_numpy(np.array([0, 0, 0], dtype.np)).to("cuda")
    assert not zeros.any().item()
    assert not zeros.all().item()
    zeros = tt.from_numpy(np.array([0, 1j, 0], dtype.np)).to("cuda")
    assert zeros.any().item()


@pytest.mark.parametrize("dtype", [tt.complex64, tt.complex128], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_spreads_of_complex_numbers(name, dtype, rng, same):
    for shape, dim in (((), None), ((1,), 0), ((3, 70), 1), ((70, 3), 0), ((2, 3, 4), (0, 2)), ((9000,), 0)):
        pairs = np.asarray(rng.standard_normal((*shape, 2)) + 3)
        host = tt.from_numpy(np.asarray(pairs[..., 0] + 1j * pairs[..., 1]).astype(dtype.np))
        for arguments in ({}, {"keepdim": True, "correction": 2}, {"correction": 0}):
            where = {} if dim is None else {"dim": dim}
            left, right = (getattr(tt, name)(x, **where, **arguments) for x in (host.to("cuda"), host))
            results = (left, right) if isinstance(left, tuple) else ((left,), (right,))
            for got, expected in zip(*results, strict=True):
                same(got, expected, 2e-5 if dtype is tt.complex64 else 1e-12)


@pytest.mark.parametrize("name", ["var", "std_mean"])
def test_spreads_of_complex_numbers_of_any_strides(name, rng, same):
    """Compare each variance with the sum of those of real numbers, in one launch where dimensions coalesce."""
    a = (rng.standard_normal((6, 5, 4, 3, 2)) + 1j * rng.standard_normal((6, 5, 4, 3, 2))).astype(
        np.complex64
    )
    long = (rng.standard_normal((4, 9000, 3)) + 1e3j).astype(np.complex64)
    for view, dims in (
        (lambda t: t.permute(4, 2, 0, 3, 1), (1, 3)),
        (lambda t: t[::2, :, 1:, ::2], (0, 2, 4)),
        (lambda t: t[:, :1].expand(6, 7, 4, 3, 2), (3,)),
    ):
        got, expected = (
            getattr(tt, name)(view(t), dims) for t in (tt.from_numpy(a).to("cuda"), tt.from_numpy(a))
        )
        for left, right in zip(*(r if isinstance(r, tuple) else (r,) for r in (got, expected)), strict=True):
            same(left, right, 2e-6)
    got = tt.std_mean(tt.from_numpy(long).to("cuda").transpose(0, 2), 1)
    for left, right in zip(got, tt.std_mean(tt.from_numpy(long).transpose(0, 2), 1), strict=True):
        same(left, right, 2e-5)
    means = tt.var_mean(tt.tensor([[complex(float("inf"), 2), 1j]], device="cuda"), 1)
    assert math.isnan(means[0].item()) and means[1].item() == complex(float("inf"), 1.5)


def test_products_of_complex_prefixes_of_any_strides(rng, same):
    a = tt.from_numpy(rng.standard_normal((4, 3, 5)) + 1j * rng.standard_normal((4, 3, 5)))
    x = a.to("cuda")
    same(x.permute(2, 0, 1).cumprod(1), a.permute(2, 0, 1).cumprod(1), 1e-12)
    same(x.conj()[:, ::2].cumprod(2), a.conj()[:, ::2].cumprod(2), 1e-12)
    same(x.cumprod_(0), a.cumprod(0), 1e-12)
