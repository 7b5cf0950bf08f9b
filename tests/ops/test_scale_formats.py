"""float8_e8m0fnu and float4_e2m1fn_x2: values of conversions on every backend, what moves them, what is refused."""

import math

import numpy as np
import pytest

import triten as tt

E8M0, PACKED = tt.float8_e8m0fnu, tt.float4_e2m1fn_x2
NAN = math.nan


def bytes_of(x):
    return x.view(tt.uint8).cpu().numpy()


def powers(device="cpu"):
    """Return every code."""
    return tt.arange(256).to(tt.uint8).view(E8M0).to(device)


def nearest_power(values):
    """By arithmetic of float64: the exponent's byte, ties upwards; signs do not count."""
    with np.errstate(all="ignore"):
        values = np.abs(values.astype(np.float64))
        exponents = np.floor(np.log2(np.maximum(values, 2.0**-127)))
        below = np.exp2(exponents)
        # The mantissas of subnormal numbers have no implicit one: half of one is no tie but less.
        exponents += np.where(exponents == -127, values > below, values - below >= below / 2)
        codes = np.where(np.isfinite(values) & (exponents <= 127), exponents + 127, 255)
    return codes.astype(np.uint8)


@pytest.mark.parametrize("source", ["bfloat16", "float16"])
def test_every_16_bit_float_becomes_the_nearest_power(source, device):
    x = tt.arange(65536).to(tt.uint16).view(getattr(tt, source))
    got = bytes_of(x.to(device).to(E8M0))
    assert np.array_equal(got, nearest_power(x.to(tt.float64).numpy()))


def test_float32_becomes_the_nearest_power(device, rng):
    bits = rng.integers(0, 1 << 32, 4096, dtype=np.uint64).astype(np.uint32)
    edges = np.arange(255, dtype=np.uint32)[:, None] << np.uint32(23)
    near = (edges + np.array([0, 1, 0x3FFFFF, 0x400000, 0x400001, 0x7FFFFF], np.uint32)).reshape(-1)
    x = np.concatenate([bits, near, near | np.uint32(1 << 31)]).view(np.float32)
    assert np.array_equal(bytes_of(tt.from_numpy(x).to(device).to(E8M0)), nearest_power(x))


@pytest.mark.parametrize(
    ("dtype", "values", "codes"),
    [
        # Expected values from PyTorch 2.13.
        (tt.float64, [1.5, 1.5 - 2**-40, 1e300, 1e-300, -1e300, 3.4e38], [128, 128, 255, 0, 255, 255]),
        (
            tt.float32,
            [0.0, -0.0, -1.0, 1.4, 1.6, 2.5, 3.0, 6.0, 0.7],
            [0, 0, 127, 127, 128, 128, 129, 130, 126],
        ),
        (tt.float32, [2.0**-127, 1.5 * 2.0**-127, 2.0**-126 * 1.4, 2.0**127, math.inf], [0, 1, 1, 254, 255]),
        (tt.int64, [0, 1, 2, 3, 5, 6, 7, -1, 2**40], [0, 127, 128, 129, 129, 130, 130, 127, 167]),
        (tt.bool, [False, True], [0, 127]),
        (tt.complex64, [1 + 2j, 6j], [127, 0]),
        (tt.float8_e4m3fn, [448.0, 0.875, NAN], [136, 127, 255]),
        (tt.float8_e5m2, [-math.inf, 57344.0, 2.0**-16], [255, 143, 111]),
    ],
)
def test_other_dtypes_become_powers(dtype, values, codes, device):
    assert bytes_of(tt.tensor(values, dtype=dtype).to(device).to(E8M0)).tolist() == codes


@pytest.mark.parametrize(
    "target", [tt.float32, tt.float64, tt.bfloat16, tt.float16, tt.float8_e4m3fn, tt.float8_e5m2], ids=str
)
def test_every_code_becomes_its_power(target, device):
    exact = tt.from_numpy(np.append(np.exp2(np.arange(-127.0, 128.0)), NAN))
    wanted = exact.to(tt.float32).to(target)
    got = powers(device).to(target).cpu()
    assert got.dtype is target and got[:255].tolist() == wanted[:255].tolist()
    assert got[255].to(tt.float32).isnan().item()
    whole = powers(device)[127:158].to(tt.int64)
    assert whole.tolist() == [2**i for i in range(31)]
    assert powers(device).to(tt.complex64)[120].item() == 2.0**-7 and powers(device).to(tt.bool).all().item()
    assert np.array_equal(bytes_of(powers(device).to(tt.float32).to(E8M0)), np.arange(256))


def test_powers_are_stored_and_moved(device):
    x = tt.tensor([1.0, 0.0, 6.0, NAN], dtype=E8M0, device=device)
    assert bytes_of(x).tolist() == [127, 0, 130, 255] and (x == x).tolist() == [True, True, True, False]
    assert (x != x).tolist() == [False, False, False, True] and (x == 8.0).tolist() == [
        False,
        False,
        True,
        False,
    ]
    assert bytes_of(tt.cat([x, x.flip(0)])[1:7:2]).tolist() == [0, 255, 130]
    assert bytes_of(tt.zeros(2, dtype=E8M0, device=device)).tolist() == [0, 0]
    assert bytes_of(tt.full((2,), 3.0, dtype=E8M0, device=device)).tolist() == [129, 129]
    assert bytes_of(x.reshape(2, 2).t().contiguous()).tolist() == [[127, 130], [0, 255]]
    x[1] = 0.5
    assert bytes_of(x).tolist() == [127, 126, 130, 255] and x[0].item() == 1.0
    assert x.isnan().tolist() == [False, False, False, True]
    for number in (0.0, -1.0, math.inf, 3.4e38):
        with pytest.raises(RuntimeError, match="type c10::Float8_e8m0fnu without overflow"):
            x.fill_(number)
    assert x.fill_(NAN).isnan().all().item()


@pytest.mark.parametrize("dtype", [E8M0, PACKED], ids=str)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x + x, lambda x: x * 2, lambda x: x.sum(), lambda x: x.abs(), lambda x: x < x, lambda x: x.max(),
        lambda x: x.view(2, 2) @ x.view(2, 2), lambda x: x.sort(), lambda x: tt.rand(2, dtype=x.dtype, device=x.device),
        lambda x: tt.arange(3, dtype=x.dtype, device=x.device), lambda x: -x,
    ],
)  # fmt: skip
def test_nothing_computes_in_them(call, dtype, device):
    x = tt.zeros(4, dtype=dtype, device=device)
    with pytest.raises(NotImplementedError, match=f"not implemented for '{dtype.scalar_name}'"):
        call(x)
    with pytest.raises(RuntimeError, match="Promotion for Float8 Types is not supported"):
        x + tt.zeros(4, device=device)


def test_packed_numbers_are_bytes(device):
    x = tt.tensor([[1, 2], [3, 255]], dtype=tt.uint8, device=device).view(PACKED)
    assert bytes_of(tt.cat([x, x.t()])).tolist() == [[1, 2], [3, 255], [1, 3], [2, 255]]
    assert (x == x.t()).tolist() == [[True, False], [False, True]] and bytes_of(x[1]).tolist() == [3, 255]
    assert bytes_of(x.clone().zero_()).tolist() == [[0, 0], [0, 0]] and x.view(tt.int16).shape == (2, 1)
    assert "[  3., 255.]" in repr(x) and "float4_e2m1fn_x2" in repr(x)
    refused = (
        lambda: x.to(tt.float32), lambda: tt.ones(2, device=device).to(PACKED), lambda: x.fill_(1.0),
        lambda: tt.ones(2, dtype=PACKED, device=device), lambda: x == 1.0, lambda: x.to(E8M0),
    )  # fmt: skip
    for call in refused:
        with pytest.raises(NotImplementedError, match="not implemented for 'Float4_e2m1fn_x2'"):
            call()
    with pytest.raises(RuntimeError, match="not made of numbers"):
        tt.tensor([1.0], dtype=PACKED, device=device)
    with pytest.raises(TypeError, match="no limits"):
        tt.finfo(PACKED)


def test_limits_and_conversion_on_meta():
    info = tt.finfo(E8M0)
    assert (info.bits, info.max, info.min, info.tiny, info.eps, info.resolution) == (
        8, 2.0**127, 2.0**-127, 2.0**-127, 1.0, 1.0,
    )  # fmt: skip
    x = tt.empty(3, device="meta").to(E8M0)
    assert x.dtype is E8M0 and x.to(tt.bfloat16).dtype is tt.bfloat16
    assert tt.empty(3, 4, dtype=PACKED, device="meta").t().shape == (4, 3)


@pytest.mark.parametrize("dtype", [E8M0, PACKED], ids=str)
def test_files_and_arrays_keep_the_bytes(dtype, tmp_path):
    x = tt.arange(256).to(tt.uint8).view(dtype)
    tt.save({"x": x}, tmp_path / "x.pt")
    back = tt.load(tmp_path / "x.pt")["x"]
    assert back.dtype is dtype and np.array_equal(bytes_of(back), np.arange(256))
    array = x.numpy()
    assert array.dtype == dtype.np and tt.from_numpy(array).dtype is dtype
    tt.from_numpy(array).view(tt.uint8)[0] = 7
    assert bytes_of(x)[0] == 7
