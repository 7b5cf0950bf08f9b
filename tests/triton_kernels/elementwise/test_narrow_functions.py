"""Functions of float16 and bfloat16 agree with float64 for every value."""

import numpy as np
import pytest
from scipy.special import ndtr

import triten as tt

F = tt.nn.functional


FUNCTIONS = {
    "exp": (tt.exp, np.exp),
    "sigmoid": (tt.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "silu": (F.silu, lambda x: x / (1 + np.exp(-x))),
    "tanh": (tt.tanh, np.tanh),
    "gelu": (F.gelu, lambda x: x * ndtr(x)),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        lambda x: x / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    ),
}


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_value_is_within_a_unit_in_the_last_place(name, dtype):
    ours, exact = FUNCTIONS[name]
    values = np.arange(1 << 16, dtype=np.uint16).view(dtype.np)
    with np.errstate(all="ignore"):
        expected = np.asarray(exact(values.astype(np.float64))).astype(dtype.np)
    found = ours(tt.from_numpy(values).to("cuda")).cpu().numpy()
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    # Below, a power of e overflows in float32 and the quotient is zero, as it is in float32 itself.
    tiny = np.abs(expected.astype(np.float64)) < 1e-35
    assert np.all(np.abs(found[tiny].astype(np.float64)) < 2e-35)
    numbers = ~np.isnan(expected) & ~tiny
    # Bits as integers in the order of the numbers, so that neighbours differ by one.
    left, right = (ordered(x[numbers].view(np.int16).astype(np.int32)) for x in (found, expected))
    apart = np.abs(left - right)
    worst = np.argmax(apart)
    assert apart[worst] <= 1, (values[numbers][worst], found[numbers][worst], expected[numbers][worst])
    assert np.mean(apart) < 0.02, "seldom another number than the nearest"


def ordered(bits):
    return np.where(bits < 0, -(bits & 0x7FFF), bits)
