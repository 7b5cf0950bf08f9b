"""gelu of large contiguous float32, which the host computes in blocks."""

import numpy as np
import pytest
from scipy import special

import triten as tt
from triten.cpu_fallback.elementwise import gelu as module

SEED = int(np.random.default_rng().integers(1 << 31))


def reference(a, approximate):
    if approximate == "none":
        share = special.ndtr(a)
        return a * share, share + a * np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    slope = np.sqrt(2 / np.pi)
    t = np.tanh(slope * (a + 0.044715 * a**3))
    return a * (1 + t) / 2, (1 + t) / 2 + a / 2 * (1 - t * t) * slope * (1 + 3 * 0.044715 * a * a)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("threads", [1, 3])
def test_values_and_gradients(monkeypatch, approximate, threads):
    print(f"seed {SEED}")
    rng = np.random.default_rng(SEED)
    for name, value in (("BLOCK", 64), ("SHARED_BLOCK", 96), ("SHARED_FROM", 1000), ("CHAINED_FROM", 100)):
        monkeypatch.setattr(module, name, value)
    before = tt.get_num_threads()
    tt.set_num_threads(threads)
    try:
        for n in (101 + threads, 640 + threads, 1501 + threads):  # plans are kept by shape
            a, g = (3 * rng.standard_normal((2, n))).astype(np.float32)
            a[n // 2] = np.nan
            x = tt.from_numpy(a).requires_grad_()
            y = tt.nn.functional.gelu(x, approximate=approximate)
            y.backward(tt.from_numpy(g))
            value, slope = reference(a.astype(np.float64), approximate)
            np.testing.assert_allclose(y.detach().numpy(), value, rtol=0, atol=2e-6)
            np.testing.assert_allclose(x.grad.numpy(), g * slope, rtol=0, atol=2e-5)
    finally:
        tt.set_num_threads(before)


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_the_result_may_be_written_over_the_operand(monkeypatch, approximate):
    monkeypatch.setattr(module, "CHAINED_FROM", 100)
    a = np.random.default_rng(SEED).standard_normal(777).astype(np.float32)
    x = tt.from_numpy(a.copy())
    tt.ops.aten.gelu.out(x, approximate=approximate, out=x)
    np.testing.assert_allclose(x.numpy(), reference(a.astype(np.float64), approximate)[0], atol=2e-6)
