"""Matmuls whose last wave is a matmul of its own: the position of the split, and the correct whole."""

import numpy as np
import pytest

import triten as tt
from triten.triton_kernels.products import bulk, last_wave
from triten.triton_kernels.products.persistent import TILES

H100 = [one for one in TILES[0] if one.is_for(90)]


def cut_of(*sizes, inner, places=132):
    return last_wave.best_cut(sizes, inner, places, H100, bulk.resident, bulk.cost)


@pytest.mark.parametrize("size", [4096, 8192, 2048], ids=str)
def test_full_waves_are_left_alone(size):
    assert cut_of(1, size, size, inner=size) is None


@pytest.mark.parametrize(
    "sizes, inner, start", [((1, 3072, 3072), 3072, 2816), ((1, 4352, 4096), 4096, 4224)], ids=str
)
def test_what_is_left_over_is_cut_off(sizes, inner, start):
    cut = cut_of(*sizes, inner=inner)
    assert cut is not None and (cut.side, cut.start) == (1, start)
    first = (sizes[0], start, sizes[2])
    tile = min(H100, key=lambda one: bulk.cost(one, last_wave.tiles_of(one, first), inner, 132))
    waves = last_wave.tiles_of(tile, first) / (132 * bulk.resident(tile))
    assert waves == round(waves)
    assert cut.cost < 0.9 * last_wave.cheapest(H100, sizes, inner, 132, bulk.cost)


def test_columns_are_cut_where_there_are_more_of_them():
    cut = cut_of(1, 128, 256 * 134, inner=8192)
    assert cut is not None and (cut.side, cut.start) == (2, 256 * 132)


def test_small_products_are_not_worth_a_launch():
    assert cut_of(1, 3072, 3072, inner=64) is None


@pytest.fixture
def few_places(monkeypatch):
    """Simulate a device of two multiprocessors on which matmul launches cost nothing."""
    monkeypatch.setattr(bulk, "multiprocessors", lambda device: 2)
    monkeypatch.setattr(bulk, "cut_tiles", lambda problem, candidates: candidates)
    monkeypatch.setattr(last_wave, "LAUNCH_COST", 0.0)


SIZES = [(640, 72, 256), (128, 72, 1280), (600, 1096, 200)]


def drawn(rng, *sizes):
    host = tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(tt.bfloat16)
    return host.to("cuda"), host.to(tt.float64).numpy()


def close(got, exact, magnitude):
    error = np.abs(got.cpu().to(tt.float64).numpy() - exact)
    assert (error <= 2.0**-8 * np.abs(exact) + 2.0**-20 * magnitude).all()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=str)
def test_the_parts_are_the_whole(rng, kernels, few_places, size, turned):
    m, k, n = size
    (a, x), (b, y) = (
        drawn(rng, *((k, m) if turned[0] else (m, k))),
        drawn(rng, *((n, k) if turned[1] else (k, n))),
    )
    a, x = (a.t(), x.T) if turned[0] else (a, x)
    b, y = (b.t(), y.T) if turned[1] else (b, y)
    close(tt.mm(a, b), x @ y, np.abs(x) @ np.abs(y))
    assert [name for name in kernels if name != "add_parts"] == ["matmul_persistent"] * 2


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("shape", ["matrix", "row", "number"])
def test_addends(rng, kernels, few_places, size, shape):
    m, k, n = size
    (a, x), (b, y) = drawn(rng, m, k), drawn(rng, k, n)
    c, z = drawn(rng, *{"matrix": (m, n), "row": (n,), "number": ()}[shape])
    got = tt.addmm(c, a, b, beta=0.5, alpha=2)
    close(got, 2 * (x @ y) + 0.5 * z, 2 * np.abs(x) @ np.abs(y) + np.abs(z))


def test_batches(rng, kernels, few_places):
    (a, x), (b, y) = drawn(rng, 3, 384, 40), drawn(rng, 3, 40, 256)
    close(tt.bmm(a, b), x @ y, np.abs(x) @ np.abs(y))
    assert [name for name in kernels if name != "add_parts"] == ["matmul_persistent"] * 2


def test_scales_of_8_bit_floats(rng, kernels, few_places):
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((320, 512), (128, 512)))
    a, b = (tt.from_numpy(v).to(tt.float8_e4m3fn) for v in (x, y))
    x, y = (v.to(tt.float64).numpy() for v in (a, b))
    s, t = tt.tensor(2.0, device="cuda"), tt.tensor(0.25, device="cuda")
    got = tt._scaled_mm(a.to("cuda"), b.to("cuda").t(), s, t, out_dtype=tt.bfloat16)
    close(got, 0.5 * (x @ y.T), np.abs(x) @ np.abs(y.T))
    assert len([name for name in kernels if name != "add_parts"]) == 2
