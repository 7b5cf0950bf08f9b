"""Products of 8-bit floats with scales, on every backend, against float64."""

import dataclasses

import numpy as np
import pytest

import triten as tt
from triten.runtime.cuda.driver import DeviceProperties, driver

E4M3, E5M2 = tt.float8_e4m3fn, tt.float8_e5m2
ROUNDING = {tt.float32: 2.0**-20, tt.float16: 2.0**-10, tt.bfloat16: 2.0**-8, E4M3: 2.0**-4, E5M2: 2.0**-3}
DEVICES = ["cpu", "cuda"]


def floats8(rng, dtype, *sizes):
    host = tt.from_numpy(rng.standard_normal(sizes).astype(np.float32)).to(dtype)
    return host, host.to(tt.float32).numpy().astype(np.float64)


def check(got, exact, dtype, magnitude):
    assert got.dtype is dtype
    values = got.cpu().to(tt.float32).numpy().astype(np.float64)
    assert (np.abs(values - exact) <= ROUNDING[dtype] * np.abs(exact) + 2.0**-20 * magnitude + 2.0**-8).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("out_dtype", ROUNDING, ids=lambda d: d.name)
@pytest.mark.parametrize("dtypes", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)], ids=lambda d: f"{d[0].name}")
@pytest.mark.parametrize("row_wise", [False, True], ids=["tensor-wise", "row-wise"])
@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
def test_scales_and_bias(rng, device, out_dtype, dtypes, row_wise, fast):
    (a, x), (b, y) = floats8(rng, dtypes[0], 24, 48), floats8(rng, dtypes[1], 32, 48)
    shapes = ((24, 1), (1, 32)) if row_wise else ((), (1, 1))
    scales = [rng.random(shape).astype(np.float32) + np.float32(0.5) for shape in shapes]
    bias = rng.standard_normal(32).astype(np.float32)
    s, t = (tt.from_numpy(np.asarray(scale)).to(device) for scale in scales)
    given = tt.from_numpy(bias).to(tt.bfloat16)
    got = tt._scaled_mm(
        a.to(device), b.to(device).t(), s, t, given.to(device), out_dtype=out_dtype, use_fast_accum=fast
    )
    wide = given.to(tt.float64).numpy()
    product = scales[0] * (x @ y.T) * scales[1]
    check(got, product + wide, out_dtype, np.abs(x) @ np.abs(y.T) + np.abs(wide))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "sizes", [(1, 16, 16), (0, 16, 32), (17, 16, 48), (129, 144, 16), (3, 1040, 16)], ids=str
)
def test_sizes(rng, device, sizes):
    m, k, n = sizes
    (a, x), (b, y) = floats8(rng, E4M3, m, k), floats8(rng, E4M3, n, k)
    one = tt.ones((), device=device)
    got = tt._scaled_mm(a.to(device), b.to(device).t(), one, one * 2, out_dtype=tt.float32)
    check(got, 2 * (x @ y.T), tt.float32, np.abs(x) @ np.abs(y.T))


def test_operands_that_no_tensor_map_describes(rng):
    (a, x), (b, y) = floats8(rng, E4M3, 24, 49), floats8(rng, E4M3, 32, 48)
    s, t = tt.full((24, 1), 0.5, device="cuda"), tt.full((1, 32), 3.0, device="cuda")
    bias = tt.ones(32, device="cuda", dtype=tt.bfloat16)
    got = tt._scaled_mm(a.to("cuda")[:, 1:], b.to("cuda").t(), s, t, bias, out_dtype=tt.bfloat16)
    check(got, 1.5 * (x[:, 1:] @ y.T) + 1, tt.bfloat16, np.abs(x[:, 1:]) @ np.abs(y.T))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype, largest", [(E4M3, 448.0), (E5M2, 57344.0)], ids=["e4m3", "e5m2"])
def test_outputs_of_8_bits_have_a_scale_and_saturate(device, dtype, largest):
    a = tt.full((16, 16), 4.0).to(dtype).to(device)
    one = tt.ones((), device=device)
    half = tt._scaled_mm(a, a.t(), one, one, scale_result=one / 2, out_dtype=dtype)
    assert half.cpu().to(tt.float32).tolist() == [[128.0] * 16] * 16
    for sign in (1, -1):
        got = tt._scaled_mm(a, a.t(), one * 1000, one * sign, out_dtype=dtype)
        assert got.cpu().to(tt.float32).tolist() == [[sign * largest] * 16] * 16


@pytest.mark.parametrize("device", DEVICES)
def test_nan_stays(device):
    a = tt.ones(16, 16).to(E4M3)
    a[3, 5] = float("nan")
    a, one = a.to(device), tt.ones((), device=device)
    for out_dtype in (tt.float32, E4M3):
        got = tt._scaled_mm(a, tt.ones(16, 16).to(E4M3).to(device).t(), one, one, out_dtype=out_dtype)
        rows = np.isnan(got.cpu().to(tt.float32).numpy()).all(1)
        assert rows.tolist() == [i == 3 for i in range(16)]


@pytest.mark.parametrize("device", [*DEVICES, "meta"])
def test_refusals(device):
    a, one = tt.empty(16, 32, dtype=E4M3, device=device), tt.empty((), device=device)
    b = tt.empty(48, 32, dtype=E4M3, device=device).t()
    out = tt._scaled_mm(a, b, one, one)
    assert out.dtype is E4M3 and out.shape == (16, 48)
    refused = [
        ((a[0], b, one, one), {}, RuntimeError, "mat1 must be a matrix"),
        ((a, b[:, 0], one, one), {}, RuntimeError, "mat2 must be a matrix"),
        ((a, b.t(), one, one), {}, RuntimeError, r"cannot be multiplied \(16x32 and 48x32\)"),
        ((a, b, one.double(), one), {}, ValueError, "Invalid scaling configuration"),
        ((tt.empty(16, 32, device=device), b, one, one), {}, ValueError, "mat_a.dtype\\(\\)=Float"),
        (
            (a, b, tt.empty(16, 1, device=device), tt.empty(1, 47, device=device)),
            {},
            ValueError,
            "RowWise scaling",
        ),
        ((a, b, one, one, tt.empty(47, device=device)), {}, RuntimeError, "Bias must be size 48 but got 47"),
        ((a, b, one, one), {"out_dtype": tt.int32}, RuntimeError, "expected an out_dtype of float32"),
        (
            (a, b, one, one),
            {"scale_result": tt.empty(2, device=device)},
            RuntimeError,
            "scale_result must be",
        ),
    ]
    if device == "cuda":
        refused += [
            (
                (a, tt.empty(32, 48, dtype=E4M3, device=device), one, one),
                {},
                RuntimeError,
                "must be col_major",
            ),
            ((a[:, :24], b[:24], one, one), {}, RuntimeError, "to be divisible by 16"),
        ]
    for arguments, named, error, message in refused:
        with pytest.raises(error, match=message):
            tt._scaled_mm(*arguments, **named)


def test_devices_before_compute_capability_8_9_refuse(monkeypatch):
    old = driver().properties(0)
    assert isinstance(old, DeviceProperties)
    monkeypatch.setattr(driver(), "properties", lambda device: dataclasses.replace(old, major=8, minor=0))
    a, one = tt.empty(16, 80, dtype=E4M3, device="cuda"), tt.empty((), device="cuda")
    with pytest.raises(NotImplementedError, match=r"_scaled_mm.*8\.9 or later"):
        tt._scaled_mm(a, a.t(), one, one)


def test_it_is_as_on_the_cpu_of_pytorch(rng):
    torch = pytest.importorskip("torch")
    (a, x), (b, y) = floats8(rng, E4M3, 16, 32), floats8(rng, E4M3, 48, 32)
    p, q = (torch.from_numpy(v.astype(np.float32)).to(torch.float8_e4m3fn) for v in (x, y))
    for out_dtype in ("float32", "bfloat16", "float8_e4m3fn"):
        ours = tt._scaled_mm(a, b.t(), tt.tensor(2.0), tt.tensor(0.5), out_dtype=getattr(tt, out_dtype))
        theirs = torch._scaled_mm(
            p, q.t(), torch.tensor(2.0), torch.tensor(0.5), out_dtype=getattr(torch, out_dtype)
        )
        check(ours, theirs.to(torch.float64).numpy(), getattr(tt, out_dtype), np.abs(x) @ np.abs(y.T))
