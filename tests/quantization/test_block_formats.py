"""MX formats and NVFP4: the bits of numbers and scales, the layout of scales, what is refused."""

import ml_dtypes
import numpy as np
import pytest

import triten as tt
from triten.quantization import (
    MXDynamicActivationMXWeightConfig,
    MXTensor,
    NVFP4Tensor,
    ScaleCalculationMode,
    from_blocked,
    nvfp4_scale,
    to_blocked,
    to_mx,
    to_nvfp4,
)

PACKED = tt.float4_e2m1fn_x2
FORMATS = {
    tt.float8_e4m3fn: (ml_dtypes.float8_e4m3fn, 448.0, 8),
    tt.float8_e5m2: (ml_dtypes.float8_e5m2, 57344.0, 15),
    PACKED: (ml_dtypes.float4_e2m1fn, 6.0, 2),
}
FLOOR, RCEIL = ScaleCalculationMode


def codes_of(numbers):
    """Return a code for each number."""
    found = numbers.view(tt.uint8).cpu().numpy()
    if numbers.dtype is not PACKED:
        return found
    return np.stack([found & 15, found >> 4], -1).reshape(*found.shape[:-1], -1)


def drawn(rng, *shape):
    """Blocks of very different magnitudes."""
    wide = rng.standard_normal(shape) * np.exp2(rng.integers(-60, 60, (*shape[:-1], 1)))
    return wide.astype(np.float32)


def rounded(values, dtype):
    """Codes of the nearest numbers of a format, saturated, by ml_dtypes."""
    numpy_dtype, largest, _ = FORMATS[dtype]
    return np.clip(values, -largest, largest).astype(np.float32).astype(numpy_dtype).view(np.uint8)


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
@pytest.mark.parametrize("mode", [FLOOR, RCEIL], ids=lambda mode: mode.name)
def test_mx(rng, device, dtype, mode):
    x = drawn(rng, 5, 4, 32)
    x[0, 0], x[1, 1, 3], x[2, 2] = 0, 0, 2.0**-140
    x[3, 0] = 448.0 * 2.0**-3
    _, largest, exponent = FORMATS[dtype]
    scale, numbers = to_mx(tt.from_numpy(x.reshape(5, 128)).to(device), dtype, scaling_mode=mode)
    most = np.abs(x).max(-1).astype(np.float64)
    with np.errstate(divide="ignore"):
        wanted = np.floor(np.log2(most)) - exponent if mode is FLOOR else np.ceil(np.log2(most / largest))
    powers = np.clip(wanted, -127, 127)
    assert scale.dtype is tt.float8_e8m0fnu and scale.shape == (5, 4)
    assert np.array_equal(scale.view(tt.uint8).cpu().numpy(), powers + 127)
    assert numbers.dtype is dtype
    scaled = x.astype(np.float64) / np.exp2(powers)[..., None]
    assert np.array_equal(codes_of(numbers).reshape(5, 4, 32), rounded(scaled, dtype))


@pytest.mark.parametrize("two_levels", [False, True])
def test_nvfp4(rng, device, two_levels):
    x = (rng.standard_normal((5, 8, 16)) * np.exp2(rng.integers(-4, 5, (5, 8, 1)))).astype(np.float32)
    x[0, 0] = 0
    given = tt.from_numpy(x.reshape(5, 128)).to(device)
    whole = nvfp4_scale(given) if two_levels else None
    scale, numbers = to_nvfp4(given, whole)
    factor = np.float32(1) if whole is None else np.float32(np.abs(x).max() / np.float32(448 * 6))
    assert whole is None or whole.item() == factor
    wanted = np.clip(np.abs(x).max(-1) / np.float32(6) / factor, 2.0**-6, 448).astype(ml_dtypes.float8_e4m3fn)
    assert np.array_equal(scale.view(tt.uint8).cpu().numpy(), wanted.view(np.uint8))
    scaled = x / (wanted.astype(np.float32) * factor)[..., None]
    assert np.array_equal(codes_of(numbers).reshape(5, 8, 16), rounded(scaled, PACKED))


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_blocks_that_are_not_finite_have_no_scale(device, dtype):
    x = tt.ones(3, 64, device=device)
    x[0, 3], x[1, 40] = float("inf"), float("nan")
    scale, _ = to_mx(x, dtype)
    assert scale.isnan().tolist() == [[True, False], [False, True], [False, False]]
    assert MXTensor.from_float(x, dtype).dequantize().isnan().sum().item() == 64
    nv, _ = to_nvfp4(x)
    assert nv.isnan().sum(1).tolist() == [1, 1, 0]
    assert NVFP4Tensor.from_float(x).dequantize().isnan().sum().item() == 32


@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_a_number_of_the_format_stays_itself(rng, device, dtype):
    """Scaled by any power of two, with the format's largest number in each block."""
    numpy_dtype, largest, _ = FORMATS[dtype]
    codes = np.arange(16 if dtype is PACKED else 256, dtype=np.uint8)
    values = codes.view(numpy_dtype).astype(np.float32)
    blocks = rng.choice(values[np.isfinite(values)], (6, 32))
    blocks[:, 0] = largest
    x = tt.from_numpy(blocks * np.exp2(rng.integers(-30, 30, (6, 1))).astype(np.float32)).to(device)
    for mode in (FLOOR, RCEIL):
        assert tt.equal(MXTensor.from_float(x, dtype, scaling_mode=mode).dequantize(), x)


@pytest.mark.parametrize("shape", [(1, 1), (128, 4), (130, 7), (300, 12)], ids=str)
def test_the_layout_of_scales(rng, device, shape):
    lines, blocks = shape
    scales = rng.integers(0, 256, shape).astype(np.uint8)
    made = to_blocked(tt.from_numpy(scales).view(tt.float8_e8m0fnu).to(device))
    assert made.dtype is tt.float8_e8m0fnu and made.dim() == 1
    flat, wide = made.view(tt.uint8).cpu().numpy(), -(-blocks // 4)
    assert flat.size == -(-lines // 128) * wide * 512
    seen = np.zeros(flat.size, bool)
    for i in range(lines):
        for j in range(blocks):
            at = (i // 128 * wide + j // 4) * 512 + i % 32 * 16 + i % 128 // 32 * 4 + j % 4
            assert flat[at] == scales[i, j]
            seen[at] = True
    assert not flat[~seen].any()
    assert np.array_equal(from_blocked(made, lines, blocks).view(tt.uint8).cpu().numpy(), scales)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda: to_mx(tt.ones(2, 48), tt.float8_e4m3fn), r"last size 32 divides, got .* \[2, 48\]"),
        (lambda: to_mx(tt.ones(2, 32, dtype=tt.int64), tt.float8_e4m3fn), "expected floats"),
        (lambda: to_mx(tt.ones(2, 32), tt.float16), "elem_dtype of triten.float8_e4m3fn"),
        (lambda: to_mx(tt.ones(2, 32), tt.float8_e4m3fn, 16), "block_size=32"),
        (lambda: to_nvfp4(tt.ones(8)), "last size 16 divides"),
        (lambda: to_blocked(tt.ones(4)), "matrix of a dtype of one byte"),
        (lambda: MXTensor.from_float(tt.ones(2, 48)), "number of columns that 32 divides, got 48"),
        (lambda: NVFP4Tensor.from_float(tt.ones(2, 24)), "number of columns that 16 divides, got 24"),
        (lambda: MXTensor.from_float(tt.ones(2, 32), PACKED, tt.float8_e4m3fn), "float4_e2m1fn_x2, or None"),
        (lambda: MXDynamicActivationMXWeightConfig(16), "block_size=32, got 16"),
        (lambda: MXDynamicActivationMXWeightConfig(weight_dtype=PACKED), "activation_dtype of .*float4"),
        (lambda: MXDynamicActivationMXWeightConfig(weight_dtype=tt.float32), "expected weight_dtype"),
        (
            lambda: MXDynamicActivationMXWeightConfig(scaling_mode="floor"),
            "a ScaleCalculationMode, got 'floor'",
        ),
        (
            lambda: MXTensor.of_parts(
                (2, 32), tt.float32, (tt.ones(2, 32).to(tt.float8_e4m3fn), tt.ones(512)), (None, "floor")
            ),
            "`scale` of triten.float8_e8m0fnu",
        ),
    ],
)
def test_refusals(act, words):
    with pytest.raises(ValueError, match=words):
        act()
