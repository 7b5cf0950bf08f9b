"""MXFP8, MXFP4 and NVFP4 matmuls with scales of 32 and 16 elements agree with float64 on every backend."""

import ml_dtypes
import numpy as np
import pytest

import triten as tt
from triten.nn.functional import ScalingType, SwizzleType, scaled_mm

E4M3, E5M2, E8M0, PACKED = tt.float8_e4m3fn, tt.float8_e5m2, tt.float8_e8m0fnu, tt.float4_e2m1fn_x2
ROUNDING = {tt.float32: 2.0**-22, tt.float16: 2.0**-10, tt.bfloat16: 2.0**-8, E4M3: 2.0**-4, E5M2: 2.0**-3}
FORMATS = {
    "mxfp8": (E4M3, E4M3, 32),
    "mxfp8-e5m2": (E5M2, E4M3, 32),
    "mxfp4": (PACKED, PACKED, 32),
    "nvfp4": (PACKED, PACKED, 16),
}
SIZES = [(16, 64, 32), (130, 160, 144), (1, 416, 16), (200, 32, 272)]


def swizzled(codes, padding):
    """Swizzle scales in tiles of 128 rows by 4 blocks: rows 0, 32, 64 and 96 side by side, then the next
    ones.
    """
    lines, blocks = codes.shape
    out = []
    for first in range(0, lines, 128):
        for block in range(0, blocks, 4):
            for line in range(32):
                for quarter in range(4):
                    at = first + 32 * quarter + line
                    row = codes[at, block : block + 4].tolist() if at < lines else []
                    out += row + [padding] * (4 - len(row))
    return np.array(out, np.uint8)


def operand(rng, lines, k, dtype, vector, spread=8):
    """Return a random (rows, K) operand, its scales in the matmul's layout, and its values in float64."""
    if dtype is PACKED:
        codes = rng.integers(0, 16, (lines, k)).astype(np.uint8)
        values = codes.view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        rows = tt.from_numpy(codes[:, ::2] | codes[:, 1::2] << 4).view(dtype)
    else:
        rows = tt.from_numpy(rng.standard_normal((lines, k)).astype(np.float32)).to(dtype)
        values = rows.to(tt.float64).numpy()
    blocks = -(-k // vector)
    if vector == 16:
        scales = rng.integers(1, 0x7F, (lines, blocks)).astype(np.uint8)
        factors = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    else:
        scales = rng.integers(127 - spread, 128 + spread, (lines, blocks)).astype(np.uint8)
        factors = np.exp2(scales - 127.0)
    # The padding of the scales is NaN, which must not count.
    made = tt.from_numpy(swizzled(scales, 255 if vector == 32 else 0x7F)).view(E8M0 if vector == 32 else E4M3)
    return rows, made, values * factors.repeat(vector, 1)[:, :k]


def check(got, exact, magnitude, dtype, least=0.0):
    assert got.dtype is dtype
    error = np.abs(got.cpu().to(tt.float64).numpy() - exact)
    assert (error <= ROUNDING[dtype] * np.abs(exact) + 2.0**-21 * magnitude + least).all()


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", FORMATS)
def test_products(rng, device, size, name):
    left, right, vector = FORMATS[name]
    m, k, n = size
    a, s, x = operand(rng, m, k, left, vector)
    b, t, y = operand(rng, n, k, right, vector)
    got = tt._scaled_mm(a.to(device), b.to(device).t(), s.to(device), t.to(device), out_dtype=tt.float32)
    check(got, x @ y.T, np.abs(x) @ np.abs(y).T, tt.float32)


@pytest.mark.parametrize("out_dtype", ROUNDING, ids=lambda d: d.name)
def test_bias_and_outputs_of_8_bits(rng, device, out_dtype):
    a, s, x = operand(rng, 24, 96, E4M3, 32, 3)
    b, t, y = operand(rng, 32, 96, E4M3, 32, 3)
    bias = tt.from_numpy(rng.standard_normal(32).astype(np.float32)).to(tt.bfloat16)
    eight = out_dtype.itemsize == 1
    scale = tt.tensor(2.0**-6, device=device) if eight else None
    got = tt._scaled_mm(
        a.to(device), b.to(device).t(), s.to(device), t.to(device), bias.to(device), scale, out_dtype
    )
    exact = (x @ y.T + bias.to(tt.float64).numpy()) * (2.0**-6 if eight else 1)
    largest = {E4M3: 448.0, E5M2: 57344.0}.get(out_dtype, np.inf)
    check(got, np.clip(exact, -largest, largest), np.abs(x) @ np.abs(y).T, out_dtype, 2.0**-10)


def test_what_is_not_finite_stays_in_its_line(rng, device):
    a, s, _ = operand(rng, 24, 64, E4M3, 32)
    b, t, _ = operand(rng, 32, 64, E5M2, 32)
    a[3, 40] = float("nan")
    b[7, 2] = float("inf")
    s = s.view(tt.uint8)
    s[5 * 16] = 255
    got = tt._scaled_mm(
        a.to(device), b.to(device).t(), s.view(E8M0).to(device), t.to(device), out_dtype=tt.float32
    )
    rows = got.isnan().all(1).tolist()
    assert [i for i, row in enumerate(rows) if row] == [3, 5]
    assert [j for j in range(32) if not got[:3, j].isfinite().any()] == [7]


def test_columns_of_a_larger_matrix_and_an_empty_one(rng, device):
    a, _s, _x = operand(rng, 24, 128, E4M3, 32)
    b, t, y = operand(rng, 32, 64, E4M3, 32)
    first = tt.from_numpy(swizzled(np.full((24, 2), 127, np.uint8), 255)).view(E8M0)
    plain = a.to(tt.float64).numpy()[:, 64:]
    got = tt._scaled_mm(
        a.to(device)[:, 64:], b.to(device).t(), first.to(device), t.to(device), out_dtype=tt.float32
    )
    check(got, plain @ y.T, np.abs(plain) @ np.abs(y).T, tt.float32)
    nothing = tt.empty(24, 0, dtype=E4M3, device=device), tt.empty(32, 0, dtype=E4M3, device=device).t()
    scale = tt.empty(0, dtype=E8M0, device=device)
    assert not tt._scaled_mm(*nothing, scale, scale, out_dtype=tt.float32).any().item()
    packed = tt.empty(0, 32, dtype=PACKED, device=device), tt.empty(32, 32, dtype=PACKED, device=device).t()
    some = tt.empty(512, dtype=E8M0, device=device)
    assert tt._scaled_mm(*packed, scale, some, out_dtype=tt.bfloat16).shape == (0, 32)


@pytest.mark.parametrize("where", ["cpu", "cuda", "meta"])
def test_refusals(where):
    def made(*sizes, dtype):
        return tt.zeros(*sizes, dtype=dtype, device=where)

    a, b = made(256, 384, dtype=E4M3), made(512, 384, dtype=E4M3).t()
    p, q = made(256, 192, dtype=PACKED), made(512, 192, dtype=PACKED).t()
    s, t = made(256 * 12, dtype=E8M0), made(512 * 12, dtype=E8M0)
    u, v = made(256 * 24, dtype=E4M3), made(512 * 24, dtype=E4M3)
    for operands in ((a, b, s, t), (p, q, s, t), (p, q, u, v)):
        assert tt._scaled_mm(*operands, out_dtype=tt.bfloat16).shape == (256, 512)
    for operands in (
        (a, b, s[:-1], t), (a, b, t, s), (a, b, made(3072, dtype=tt.float32), t),
        (a, b, u, v), (p, q, u, t), (p, b[:192], s, t), (a, b, made(256 * 24, dtype=E8M0)[::2], t),
    ):  # fmt: skip
        with pytest.raises(
            ValueError, match="BlockWise1x32 scaling of float8, scales should be float8_e8m0fnu"
        ):
            tt._scaled_mm(*operands, out_dtype=tt.bfloat16)
    with pytest.raises(RuntimeError, match="`use_fast_accum` is not supported"):
        tt._scaled_mm(p, q, s, t, out_dtype=tt.bfloat16, use_fast_accum=True)
    with pytest.raises(RuntimeError, match="expected an out_dtype of"):
        tt._scaled_mm(p, q, s, t)


BY_32, BY_16, WHOLE = ScalingType.BlockWise1x32, ScalingType.BlockWise1x16, ScalingType.TensorWise
SWIZZLE, PLAIN = SwizzleType.SWIZZLE_32_4_4, SwizzleType.NO_SWIZZLE


@pytest.mark.parametrize("name", FORMATS)
def test_recipes(rng, device, name):
    left, right, vector = FORMATS[name]
    a, s, x = operand(rng, 40, 96, left, vector)
    b, t, y = operand(rng, 32, 96, right, vector)
    recipe = BY_32 if vector == 32 else BY_16
    a, b, s, t = (each.to(device) for each in (a, b, s, t))
    got = scaled_mm(a, b.t(), s, recipe, t, recipe, SWIZZLE, SWIZZLE, output_dtype=tt.float32)
    check(got, x @ y.T, np.abs(x) @ np.abs(y).T, tt.float32)
    assert tt.equal(got, tt._scaled_mm(a, b.t(), s, t, out_dtype=tt.float32))


@pytest.mark.parametrize("out_dtype", [tt.float32, tt.bfloat16], ids=str)
def test_two_levels(rng, device, out_dtype):
    a, s, x = operand(rng, 40, 96, PACKED, 16)
    b, t, y = operand(rng, 32, 96, PACKED, 16)
    bias = tt.from_numpy(rng.standard_normal(32).astype(np.float32)).to(tt.bfloat16)
    levels = [tt.tensor(0.03), tt.tensor([1.7e-3])]
    got = scaled_mm(
        a.to(device), b.to(device).t(),
        [s.to(device), levels[0].to(device)], [BY_16, WHOLE], [t.to(device), levels[1].to(device)], [BY_16, WHOLE],
        [SWIZZLE, PLAIN], [SWIZZLE, PLAIN], bias.to(device), out_dtype,
    )  # fmt: skip
    both = float(levels[0].item()) * float(levels[1].item())
    exact = x @ y.T * both + bias.to(tt.float64).numpy()
    check(got, exact, np.abs(x) @ np.abs(y).T * both + 1, out_dtype)


@pytest.mark.parametrize("where", ["cpu", "cuda", "meta"])
def test_recipes_that_are_refused(where):
    def empty(*sizes, dtype=tt.float32):
        return tt.empty(*sizes, dtype=dtype, device=where)

    p, q = empty(32, 64, dtype=PACKED), empty(16, 64, dtype=PACKED).t()
    s, u, one = empty(512, dtype=E8M0), empty(1024, dtype=E4M3), empty(())
    two = [BY_16, WHOLE]
    for arguments, named, message in (
        ((s, BY_32, s, BY_32), {}, "swizzle_a must have 1 value, got 0"),
        ((s, BY_32, s, BY_32, PLAIN, SWIZZLE), {}, "scale_a must be swizzled to SWIZZLE_32_4_4 format"),
        ((s, BY_32, s, BY_32, SWIZZLE, PLAIN), {}, "scale_b must be swizzled to SWIZZLE_32_4_4 format"),
        ((s, BY_32, u, BY_16, SWIZZLE, SWIZZLE), {}, "cannot be swizzled"),
        ((u, BY_32, u, BY_32, SWIZZLE, SWIZZLE), {}, "Float8_e8m0fnu, got scale_a of Float8_e4m3fn"),
        ((s, BY_16, s, BY_16, SWIZZLE, SWIZZLE), {}, "Float8_e4m3fn, got scale_a of Float8_e8m0fnu"),
        ((s, BY_32, s[:500], BY_32, SWIZZLE, SWIZZLE), {}, "BlockWise1x32 scaling"),
        (([u, one], two, [u, one], two, SWIZZLE, SWIZZLE), {}, "swizzle_a must have 2 values, got 1"),
        (([u, one], two, [u], two, [SWIZZLE, PLAIN], [SWIZZLE, PLAIN]), {}, "expected 2 scale_b"),
        (
            ([u, one], two, [u, empty(2)], two, [SWIZZLE, PLAIN], [SWIZZLE, PLAIN]),
            {},
            r"scale_b\[1\] of TensorWise",
        ),
        (
            (s, BY_32, s, BY_32, SWIZZLE, SWIZZLE),
            {"use_fast_accum": True},
            "`use_fast_accum` is not supported",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            scaled_mm(p, q, *arguments, **named)
