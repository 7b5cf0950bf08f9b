"""Dynamic 8-bit quantization of rows, and matmuls with scales: bitwise identical to the composite, in two
launches.
"""

import numpy as np
import pytest

import triten as tt
from triten.quantization import Int8Tensor

DEVICES = ["cpu", "cuda"]
FLOATS = [tt.float32, tt.bfloat16, tt.float16]


def composed_rows(x, low, divisor):
    wide = x.to(tt.float32)
    scale = (wide.abs().amax(1) if wide.shape[1] else wide.new_zeros(wide.shape[0])) / divisor
    scale = scale.clamp(min=2.0**-23)
    steps = tt.round(wide / scale[:, None])
    return tt.nan_to_num(steps, 0.0, 0.0, 0.0).clamp(low, 127).to(tt.int8), scale


def same(got, wanted):
    got, wanted = (each.cpu().to(tt.float32).numpy() for each in (got, wanted))
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (4, 1030), (2, 4100), (1, 1), (3, 0), (0, 4)], ids=str)
def test_rows(rng, device, dtype, shape):
    numbers = tt.from_numpy(rng.standard_normal(shape).astype(np.float32) * 10).to(dtype)
    for x in (numbers, numbers.t().contiguous().t()):
        for low, divisor in ((-128, 127.5), (-127, 127.0)):
            integers, scales = tt._quantize_rows(x.to(device), low, divisor)
            wanted = composed_rows(x, low, divisor)
            assert (integers.dtype, scales.dtype) == (tt.int8, tt.float32)
            assert integers.is_contiguous()
            same(integers, wanted[0])
            same(scales, wanted[1])


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_no_integers_stand_for(device):
    inf, nan = float("inf"), float("nan")
    x = tt.tensor([[1.0, nan, -inf], [inf, 2.0, -3.0], [0.0, -0.0, 0.0], [1e-12, -1e-9, 0.0]], device=device)
    integers, scales = tt._quantize_rows(x, -127, 127.0)
    assert integers.tolist() == [[0] * 3, [0] * 3, [0] * 3, [0] * 3]
    np.testing.assert_array_equal(scales.cpu().numpy(), np.float32([nan, inf, 2.0**-23, 2.0**-23]))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize(
    "size", [(1, 1, 1), (3, 5, 7), (33, 600, 40), (130, 32, 129), (0, 3, 4), (3, 0, 4)], ids=str
)
def test_products(rng, device, dtype, size):
    m, k, n = size
    a, b = (tt.from_numpy(rng.integers(-128, 128, s).astype(np.int8)) for s in ((m, k), (n, k)))
    by_row, by_column = (tt.from_numpy(rng.random(s).astype(np.float32)) for s in (m, n))
    wanted = (tt._int_mm(a, b.t()).to(tt.float32) * by_row[:, None] * by_column).to(dtype)
    for right in (b.t(), b.t().contiguous()):
        got = tt._scaled_int_mm(*(each.to(device) for each in (a, right, by_row, by_column)), dtype)
        assert (got.dtype, got.shape) == (dtype, (m, n))
        same(got, wanted)


def test_a_dynamic_layer_is_two_launches(rng, launches):
    """Count two launches; the composite takes thirteen."""
    weight = tt.from_numpy(rng.standard_normal((8, 16)).astype(np.float32)).cuda()
    quantized = Int8Tensor.from_float(weight, dynamic=True)
    x = tt.ones(4, 16, device="cuda")
    before = launches.count
    quantized.product(x)
    assert launches.count - before == 2


@pytest.mark.parametrize("by_rows", [False, True], ids=["one scale", "channels"])
def test_a_quantized_layer_is_two_launches(launches, by_rows):
    """Count two launches: one makes the input signed, and the matmul stores on the output's grid. The parts
    take 8 and 14.
    """
    numbers = tt.linspace(-1, 1, 128).reshape(8, 16).cuda()
    if by_rows:
        scales, zeros = tt.full((8,), 0.01).cuda(), tt.zeros(8, dtype=tt.int64, device="cuda")
        weight = tt.quantize_per_channel(numbers, scales, zeros, 0, tt.qint8)
    else:
        weight = tt.quantize_per_tensor(numbers, 0.01, 0, tt.qint8)
    packed = tt.ops.quantized.linear_prepack(weight, tt.ones(8, device="cuda"))
    x = tt.quantize_per_tensor(tt.ones(4, 16, device="cuda"), 0.02, 100, tt.quint8)
    tt.ops.quantized.linear(x, packed, 0.05, 30)
    before = launches.count
    tt.ops.quantized.linear(x, packed, 0.05, 30)
    assert launches.count - before == 2


REFUSED = {
    "no matrix": (lambda: tt._quantize_rows(tt.ones(3), -127, 127.0), "2"),
    "float64": (lambda: tt._quantize_rows(tt.ones(3, 4, dtype=tt.float64), -127, 127.0), "self"),
    "a low of 9 bits": (lambda: tt._quantize_rows(tt.ones(3, 4), -129, 127.0), "-129"),
    "inner sizes": (lambda: scaled(right=(5, 3)), "mat2"),
    "floats": (lambda: scaled(dtype=tt.float32), "self"),
    "too few scales": (lambda: scaled(scales=2), "scale_a"),
    "integers out": (lambda: scaled(out=tt.int32), "out_dtype"),
}


def scaled(right=(4, 3), dtype=tt.int8, scales=3, out=tt.float32):
    left = tt.ones(3, 4, dtype=dtype)
    return tt._scaled_int_mm(left, tt.ones(*right, dtype=dtype), tt.ones(scales), tt.ones(right[1]), out)


@pytest.mark.parametrize("case", REFUSED)
def test_refusals(case):
    call, words = REFUSED[case]
    with pytest.raises(RuntimeError, match=words):
        call()
