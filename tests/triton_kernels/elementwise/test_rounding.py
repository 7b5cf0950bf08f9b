"""Rounding to decimal places, and powers of two of complex numbers, on the CPU and through interpreted programs."""

import math

import numpy as np
import pytest

import triten as tt

DEVICES = ("cpu", "cuda")
EDGES = [0.0, -0.0, 0.5, 2.5, -0.25, 1e-3, 60000.0, -3.0, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("decimals", [0, 2, 5, 39, 400, -1, -3, -39, -400])
def test_rounding_to_decimals(rng, device, dtype, decimals):
    x = tt.tensor([*EDGES, *(rng.standard_normal(40) * 1000)], dtype=getattr(tt, dtype), device=device)
    kind = np.float64 if dtype == "float64" else np.float32
    a = x.cpu().to(tt.float64).numpy().astype(kind)
    with np.errstate(over="ignore"):
        power = np.array(10.0 ** abs(decimals) if abs(decimals) < 309 else math.inf).astype(kind)
    with np.errstate(all="ignore"):
        wide = np.rint(a * power) / power if decimals >= 0 else np.rint(a / power) * power
    expected = tt.from_numpy(wide).to(x.dtype).to(tt.float64).numpy()
    got = x.round(decimals=decimals).cpu().to(tt.float64).numpy()
    np.testing.assert_array_equal(got, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(expected)[numbers])
    out = tt.empty_like(x)
    tt.round(x, decimals=decimals, out=out)
    np.testing.assert_array_equal(out.cpu().to(tt.float64).numpy(), expected)
    assert x.round_(decimals=decimals) is x
    np.testing.assert_array_equal(x.cpu().to(tt.float64).numpy(), expected)


@pytest.mark.parametrize("device", DEVICES)
def test_powers_of_two_of_complex_numbers(rng, device):
    a = rng.standard_normal(50) + 1j * rng.standard_normal(50)
    x = tt.from_numpy(a).to(device).requires_grad_()
    y = x.exp2()
    np.testing.assert_allclose(y.detach().cpu().numpy(), 2.0**a, rtol=1e-13)
    y.backward(tt.ones_like(y))
    np.testing.assert_allclose(x.grad.cpu().resolve_conj().numpy(), np.conj(2.0**a * math.log(2)), rtol=1e-13)
    edges = [complex(-math.inf, 1), complex(math.inf, 0), complex(0, math.inf), complex(-math.inf, math.inf)]
    got = tt.tensor(edges, dtype=tt.complex64, device=device).exp2().tolist()
    assert got[0] == 0 and got[1] == complex(math.inf, 0) and got[3] == 0
    assert math.isnan(got[2].real) and math.isnan(got[2].imag)
