"""Products of 8-bit floats with scales by blocks, and scales by recipes, on every backend, against float64."""

import numpy as np
import pytest

import triten as tt
from triten.nn.functional import ScalingType, SwizzleType, scaled_mm

E4M3, E5M2 = tt.float8_e4m3fn, tt.float8_e5m2
ROUNDING = {tt.float32: 2.0**-20, tt.float16: 2.0**-10, tt.bfloat16: 2.0**-8, E4M3: 2.0**-4}
DEVICES = ["cpu", "cuda"]
BY_LINE, BY_BLOCK = ScalingType.BlockWise1x128, ScalingType.BlockWise128x128
RECIPES = [(BY_LINE, BY_LINE), (BY_LINE, BY_BLOCK), (BY_BLOCK, BY_LINE)]
NAMES = ["lines-lines", "lines-blocks", "blocks-lines"]


def drawn(rng, m, k, n, dtypes=(E4M3, E4M3)):
    """Return (rows, K) operands, and their values in float64."""
    hosts = [
        tt.from_numpy(rng.standard_normal(s).astype(np.float32)).to(d)
        for s, d in zip(((m, k), (n, k)), dtypes, strict=True)
    ]
    return [(host, host.to(tt.float64).numpy()) for host in hosts]


def scales_of(rng, recipe, lines, k):
    """Return scales by rows or blocks of rows and by blocks of K, and each element's factor."""
    rows = lines if recipe is BY_LINE else -(-lines // 128)
    scales = (rng.random((rows, -(-k // 128))) + 0.5).astype(np.float32)
    wide = scales.astype(np.float64).repeat(lines if rows == 1 else 1 if rows == lines else 128, 0)[:lines]
    return scales, wide.repeat(128, 1)[:, :k]


def check(got, exact, magnitude, dtype):
    assert got.dtype is dtype
    error = np.abs(got.cpu().to(tt.float64).numpy() - exact)
    assert (error <= ROUNDING[dtype] * np.abs(exact) + 2.0**-20 * magnitude + 2.0**-10).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipes", RECIPES, ids=NAMES)
@pytest.mark.parametrize("size", [(16, 256, 32), (130, 400, 144), (1, 144, 16), (260, 128, 272)], ids=str)
@pytest.mark.parametrize("dtypes", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)], ids=str)
def test_scales(rng, device, size, recipes, dtypes):
    m, k, n = size
    (a, x), (b, y) = drawn(rng, m, k, n, dtypes)
    (s, u), (t, v) = scales_of(rng, recipes[0], m, k), scales_of(rng, recipes[1], n, k)
    if recipes[0] is not BY_LINE and m == 1:
        pytest.skip("a single row has a scale of its own")
    first, second = tt.from_numpy(s).to(device), tt.from_numpy(np.ascontiguousarray(t.T)).to(device)
    got = tt._scaled_mm(a.to(device), b.to(device).t(), first, second, out_dtype=tt.float32)
    check(got, (x * u) @ (y * v).T, np.abs(x * u) @ np.abs(y * v).T, tt.float32)
    strided = second.t().contiguous().t(), first.t().contiguous().t()
    again = tt._scaled_mm(a.to(device), b.to(device).t(), strided[1], strided[0], out_dtype=tt.float32)
    assert tt.equal(again.cpu(), got.cpu())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("out_dtype", ROUNDING, ids=lambda d: d.name)
def test_bias_and_outputs_of_8_bits(rng, device, out_dtype):
    (a, x), (b, y) = drawn(rng, 24, 272, 32)
    (s, u), (t, v) = scales_of(rng, BY_LINE, 24, 272), scales_of(rng, BY_BLOCK, 32, 272)
    bias = tt.from_numpy(rng.standard_normal(32).astype(np.float32)).to(tt.bfloat16)
    half = tt.tensor(0.5, device=device) if out_dtype is E4M3 else None
    got = tt._scaled_mm(
        a.to(device),
        b.to(device).t(),
        *(tt.from_numpy(w).to(device) for w in (s, np.ascontiguousarray(t.T))),
        bias.to(device),
        half,
        out_dtype,
    )
    exact = ((x * u) @ (y * v).T + bias.to(tt.float64).numpy()) * (1 if half is None else 0.5)
    check(got, exact, np.abs(x * u) @ np.abs(y * v).T, out_dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_not_finite_stays_in_its_row(rng, device):
    (a, _), (b, _) = drawn(rng, 24, 256, 32)
    s, t = tt.ones(24, 2), tt.ones(2, 32)
    a[3, 140] = float("nan")
    s[5, 1] = float("inf")
    got = tt._scaled_mm(a.to(device), b.to(device).t(), s.to(device), t.to(device), out_dtype=tt.float32)
    assert got.isfinite().all(1).tolist() == [i not in (3, 5) for i in range(24)]
    assert got[3].isnan().all().item()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("recipes", RECIPES, ids=NAMES)
def test_recipes_of_blocks(rng, device, recipes):
    m, k, n = 256, 640, 128
    (a, x), (b, y) = drawn(rng, m, k, n)
    given, wide = [], []
    for recipe, lines in zip(recipes, (m, n), strict=True):
        scales, each = scales_of(rng, recipe, lines, k)
        if recipe is BY_BLOCK:
            # Lines of scales are as long as a multiple of 4; the rest does not count.
            scales = np.concatenate([scales.T, np.full((8 - k // 128, scales.shape[0]), np.nan, np.float32)])
        given.append(tt.from_numpy(np.ascontiguousarray(scales.T)).to(device).t())
        wide.append(each)
    got = scaled_mm(a.to(device), b.to(device).t(), given[0], recipes[0], given[1], recipes[1])
    check(got, (x * wide[0]) @ (y * wide[1]).T, np.abs(x * wide[0]) @ np.abs(y * wide[1]).T, tt.bfloat16)


@pytest.mark.parametrize("device", DEVICES)
def test_recipes_of_tensors_and_rows(rng, device):
    (a, _), (b, _) = drawn(rng, 24, 48, 32)
    a, b = a.to(device), b.to(device).t()
    for recipe, shapes in ((ScalingType.TensorWise, ((), (1,))), (ScalingType.RowWise, ((24, 1), (1, 32)))):
        s, t = (tt.from_numpy(np.asarray(rng.random(shape), np.float32)).to(device) for shape in shapes)
        for swizzle in (None, SwizzleType.NO_SWIZZLE):
            got = scaled_mm(a, b, s, recipe, [t], [recipe], swizzle, swizzle, output_dtype=tt.float32)
            assert tt.equal(got.cpu(), tt._scaled_mm(a, b, s, t, out_dtype=tt.float32).cpu())
    assert scaled_mm(a, b, tt.ones((), device=device), ScalingType.TensorWise, tt.ones((), device=device),
                     ScalingType.TensorWise, contraction_dim=[-1, 0]).dtype is tt.bfloat16  # fmt: skip


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_refusals(device):
    def empty(*sizes, dtype=tt.float32):
        return tt.empty(*sizes, dtype=dtype, device=device)

    a, b = empty(256, 384, dtype=E4M3), empty(512, 384, dtype=E4M3).t()
    assert tt._scaled_mm(a, b, empty(256, 3), empty(3, 4)).shape == (256, 512)
    for scales in (
        (empty(2, 3), empty(3, 4)),
        (empty(256, 2), empty(3, 512)),
        (empty(256, 3), empty(2, 512)),
        (empty(255, 3), empty(3, 512)),
        (empty(256, 3, dtype=tt.float64), empty(3, 512)),
        (empty(256, 3), empty(())),
    ):
        with pytest.raises(ValueError, match="BlockWise scaling"):
            tt._scaled_mm(a, b, *scales)
    tensor, row, line = ScalingType.TensorWise, ScalingType.RowWise, BY_LINE
    one = empty(())
    for arguments, named, message in (
        ((one, tensor, empty(1, 512), row), {}, "no products of TensorWise and RowWise"),
        (
            (empty(4, 2), BY_BLOCK, empty(4, 4), BY_BLOCK),
            {},
            "no products of BlockWise128x128 and BlockWise128x128",
        ),
        (
            (empty(256, 12), ScalingType.BlockWise1x32, empty(512, 12), ScalingType.BlockWise1x16),
            {},
            "no products",
        ),
        ((empty(256, 2), line, empty(512, 3), line), {}, r"scale_a of BlockWise1x128.*\[256, 3\]"),
        ((empty(256, 3), line, empty(3, 512), line), {}, r"scale_b of BlockWise1x128.*\[512, 3\]"),
        ((empty(256, 3), line, empty(3, 4), BY_BLOCK), {}, r"scale_b of BlockWise128x128.*\[4, 4\]"),
        ((empty(2), tensor, one, tensor), {}, "1 element"),
        (([one, one], tensor, one, tensor), {}, "expected one scale_a"),
        ((one, tensor, one, tensor, SwizzleType.SWIZZLE_32_4_4), {}, "cannot be swizzled"),
        ((one, tensor, one, tensor), {"contraction_dim": [0, 0]}, "sums over dimension 1"),
        ((one, tensor, one, tensor), {"contraction_dim": [1]}, "exactly 2 elements"),
    ):
        with pytest.raises(ValueError, match=message):
            scaled_mm(a, b, *arguments, **named)
