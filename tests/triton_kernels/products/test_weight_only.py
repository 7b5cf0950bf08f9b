"""Matmuls with weights of 8 and 4 bits agree with float64 on every backend."""

import numpy as np
import pytest

import triten as tt

DEVICES = ["cpu", "cuda"]
ROUNDED = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 8e-3}
"""What one rounding of a result may take, relative to the largest."""


def near(got, expected, dtype, times=1.0):
    largest = max(np.abs(expected).max(initial=0), 1e-30)
    np.testing.assert_allclose(
        got.double().cpu().numpy() / largest, expected / largest, rtol=0, atol=times * ROUNDED[dtype]
    )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("weight", ["int8", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("size", [(1, 64, 48), (5, 33, 7), (20, 144, 130)], ids=str)
def test_eight_bits(rng, device, dtype, weight, size):
    m, k, n = size
    x = tt.from_numpy(rng.standard_normal((m, k))).to(device, getattr(tt, dtype))
    w = tt.from_numpy(rng.integers(-128, 128, (n, k))).to(getattr(tt, weight)).to(device)
    scales = tt.from_numpy(rng.random(n)).to(device, getattr(tt, dtype))
    expected = x.double() @ w.double().t() * scales.double()
    for given in (scales, scales.float()):
        got = tt._weight_int8pack_mm(x, w, given)
        assert got.dtype is x.dtype and got.shape == (m, n)
        near(got, expected.cpu().numpy(), dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_eight_bits_at_their_edges(device):
    weight = tt.tensor([[127, -128]], dtype=tt.int8, device=device)
    one = tt.ones(1, device=device)
    assert tt._weight_int8pack_mm(tt.ones(1, 2, device=device), weight, one).tolist() == [[-1.0]]
    x = tt.tensor([[float("inf"), 1.0], [float("nan"), 0.0], [float("inf"), float("inf")]], device=device)
    got = tt._weight_int8pack_mm(x, weight, one).flatten().tolist()
    assert got[0] == float("inf") and np.isnan(got[1]) and np.isnan(got[2])
    nothing = tt._weight_int8pack_mm(x[:, :0], weight[:, :0].contiguous(), one)
    assert nothing.tolist() == [[0.0]] * 3
    assert tt._weight_int8pack_mm(x[:0], weight, one).shape == (0, 1)
    # Rows of activations may lie apart.
    apart = tt.arange(12.0, device=device).reshape(3, 4)[:, 1:3]
    assert tt._weight_int8pack_mm(apart, weight, one).flatten().tolist() == [-129.0, -133.0, -137.0]


def packed_weight(rng, n, k, tiles):
    integers = rng.integers(0, 16, (n, k))
    pairs = tt.from_numpy((integers[:, ::2] << 4 | integers[:, 1::2]).astype(np.uint8))
    return integers, tt._convert_weight_to_int4pack(pairs, tiles)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("tiles", [2, 4, 8])
@pytest.mark.parametrize("group", [32, 64, 128, 256])
def test_four_bits(rng, device, dtype, tiles, group):
    if device == "cuda" and dtype == "float32":
        pytest.skip("tensor cores take no float32: test_four_bits_refuse")
    for m, n in ((1, 8), (3, 72), (33, 40)):
        k = 256 if group == 256 else 384
        integers, packed = packed_weight(rng, n, k, tiles)
        x = tt.from_numpy(rng.standard_normal((m, k))).to(device, getattr(tt, dtype))
        numbers = tt.from_numpy(rng.standard_normal((k // group, n, 2))).to(device, getattr(tt, dtype))
        got = tt._weight_int4pack_mm(x, packed.to(device), group, numbers)
        scale, zero = (numbers.double().cpu().numpy().repeat(group, 0)[..., i].T for i in (0, 1))
        expected = x.double().cpu().numpy() @ ((integers - 8) * scale + zero).T
        # On tensor cores the weight has been rounded, too.
        near(got, expected, dtype, 1.0 if device == "cpu" else 1.5)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("rows", [16, 48, 64, 80, 192])
def test_four_bits_for_the_cpu(rng, dtype, rows):
    for m, k, group in ((1, 256, 32), (3, 256, 256), (40, 384, 128)):
        integers = rng.integers(0, 16, (rows, k))
        packed = tt._convert_weight_to_int4pack_for_cpu(tt.from_numpy(integers.astype(np.int32)), 2)
        x = tt.from_numpy(rng.standard_normal((m, k))).to(getattr(tt, dtype))
        numbers = tt.from_numpy(rng.standard_normal((k // group, rows, 2))).to(getattr(tt, dtype))
        got = tt._weight_int4pack_mm_for_cpu(x, packed, group, numbers)
        scale, zero = (numbers.double().numpy().repeat(group, 0)[..., i].T for i in (0, 1))
        near(got, x.double().numpy() @ ((integers - 8) * scale + zero).T, dtype)


@pytest.mark.parametrize("device", DEVICES)
def test_the_order_of_packed_columns(device):
    """Pack a column of ones at a time, and find its four bits where PyTorch's tensor core kernel has them."""
    for column, lane, shift in ((0, 0, 0), (1, 0, 16), (2, 1, 0), (8, 0, 4), (9, 0, 20), (31, 3, 28)):
        pairs = tt.zeros(8, 32, dtype=tt.uint8)
        pairs[5, column // 2] = 1 if column % 2 else 16
        packed = tt._convert_weight_to_int4pack(pairs.to(device), 4).cpu()
        assert packed.shape == (1, 1, 32, 2)
        where = packed.nonzero().tolist()
        assert where == [[0, 0, 20 + lane, 0]]
        assert packed[0, 0, 20 + lane, 0].item() % (1 << 32) == 1 << shift


def test_the_order_of_rows_for_the_cpu():
    rows = tt.arange(80, dtype=tt.int32)[:, None].expand(80, 2)
    low = tt._convert_weight_to_int4pack_for_cpu(rows, 2).reshape(-1)
    expected = [(j % 16) | ((j + 32) % 16) << 4 for j in range(32)] * 2
    expected += [(64 + j) % 16 | (65 + j) % 16 << 4 for j in range(0, 16, 2)] * 2
    assert low.tolist() == expected


def arguments(device="cpu", **other):
    given = {
        "self": tt.ones(2, 64, device=device, dtype=tt.bfloat16),
        "mat2": tt.zeros(8, 1, 32, 2, dtype=tt.int32, device=device),
        "qGroupSize": 32,
        "qScaleAndZeros": tt.ones(2, 64, 2, device=device, dtype=tt.bfloat16),
    }
    return list((given | other).values())


@pytest.mark.parametrize(
    "other, words",
    [
        ({"self": tt.ones(2, 32, dtype=tt.bfloat16)}, "expected `self` to have 64 columns"),
        ({"self": tt.ones(2, 64, dtype=tt.float64)}, "expected `self` to be of float32"),
        ({"self": tt.ones(64, dtype=tt.bfloat16)}, "2D tensor"),
        ({"self": tt.ones(64, 2, dtype=tt.bfloat16).t()}, "contiguous"),
        ({"mat2": tt.zeros(8, 1, 32, 2)}, "`mat2` to be of int32"),
        ({"mat2": tt.zeros(8, 1, 32, 3, dtype=tt.int32)}, "sizes"),
        ({"qGroupSize": 48}, "qGroupSize to be 32, 64, 128 or 256, got 48"),
        ({"qGroupSize": 128}, "qGroupSize to divide 64 columns, got 128"),
        ({"qScaleAndZeros": tt.ones(1, 64, 2, dtype=tt.bfloat16)}, r"\[2, 64, 2\]"),
        ({"qScaleAndZeros": tt.ones(2, 64, 2)}, "scalar type BFloat16 but found Float"),
    ],
)
def test_four_bits_refuse(other, words):
    with pytest.raises(RuntimeError, match=words):
        tt._weight_int4pack_mm(*arguments(**other))
    cuda = arguments("cuda", self=tt.ones(2, 64, device="cuda"))
    cuda[3] = cuda[3].float()
    with pytest.raises(RuntimeError, match="`self` to be of bfloat16 or float16"):
        tt._weight_int4pack_mm(*cuda)
    with pytest.raises(NotImplementedError):
        tt._weight_int4pack_mm_for_cpu(
            tt.ones(2, 64, device="cuda"),
            tt.zeros(16, 32, dtype=tt.uint8, device="cuda"),
            32,
            tt.ones(2, 16, 2, device="cuda"),
        )


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda x, w, s: (x.double(), w, s.double()), "`self` to be of float32"),
        (lambda x, w, s: (x, w.float(), s), "`mat2` to be of int8"),
        (lambda x, w, s: (x, w[:, :2], s), "contiguous"),
        (lambda x, w, s: (x[:, :2], w, s), "2 columns"),
        (lambda x, w, s: (x, w, s[:2]), "1d tensor with size 3"),
        (lambda x, w, s: (x, w, s.half()), "Float"),
        (lambda x, w, s: (x.t().contiguous().t(), w, s), "last dimension"),
        (lambda x, w, s: (x[0], w, s), "2D"),
    ],
)
def test_eight_bits_refuse(change, words):
    given = tt.ones(2, 4), tt.ones(3, 4, dtype=tt.int8), tt.ones(3)
    with pytest.raises(RuntimeError, match=words):
        tt._weight_int8pack_mm(*change(*given))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: tt._convert_weight_to_int4pack(tt.zeros(8, 16), 2), "uint8"),
        (lambda: tt._convert_weight_to_int4pack(tt.zeros(8, 16, dtype=tt.uint8), 3), "innerKTiles"),
        (lambda: tt._convert_weight_to_int4pack(tt.zeros(7, 16, dtype=tt.uint8), 2), "divide the rows"),
        (lambda: tt._convert_weight_to_int4pack(tt.zeros(8, 24, dtype=tt.uint8), 2), "32 the columns"),
        (lambda: tt._convert_weight_to_int4pack_for_cpu(tt.zeros(16, 2), 2), "int32"),
        (lambda: tt._convert_weight_to_int4pack_for_cpu(tt.zeros(8, 2, dtype=tt.int32), 2), "16"),
    ],
)
def test_packing_refuses(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


def test_there_is_no_derivative():
    x = tt.ones(1, 4, requires_grad=True)
    made = tt._weight_int8pack_mm(x, tt.ones(3, 4, dtype=tt.int8), tt.ones(3))
    with pytest.raises(RuntimeError, match="derivative for aten::_weight_int8pack_mm is not implemented"):
        made.sum().backward()


def test_meta():
    meta = [each.to("meta") if isinstance(each, tt.Tensor) else each for each in arguments()]
    made = tt._weight_int4pack_mm(*meta)
    assert made.shape == (2, 64) and made.dtype is tt.bfloat16
    packed = tt._convert_weight_to_int4pack(tt.empty(16, 64, dtype=tt.uint8, device="meta"), 8)
    assert packed.shape == (2, 1, 32, 4) and packed.dtype is tt.int32


@pytest.mark.parametrize("weight", ["int8", "float8_e4m3fn"])
@pytest.mark.parametrize("size", [(1, 1100, 72), (16, 1040, 130)], ids=str)
def test_programs_share_the_steps_of_eight_bits(rng, kernels, weight, size):
    m, k, n = size
    x = tt.from_numpy(rng.standard_normal((m, k))).to("cuda", tt.bfloat16)
    w = tt.from_numpy(rng.integers(-16, 16, (n, k))).to(getattr(tt, weight)).to("cuda")
    scales = tt.from_numpy(rng.random(n)).to("cuda", tt.bfloat16)
    got = tt._weight_int8pack_mm(x, w, scales)
    near(got, (x.double() @ w.double().t() * scales.double()).cpu().numpy(), "bfloat16")
    assert kernels.count("weight8_stream_k") == 1 and "weight8_matmul" not in kernels
    assert np.array_equal(bits(got), bits(tt._weight_int8pack_mm(x, w, scales)))


@pytest.mark.parametrize("m", [1, 5, 16])
def test_programs_share_the_steps_of_four_bits(rng, kernels, m):
    k, n, group = 1152, 72, 128
    integers, packed = packed_weight(rng, n, k, 4)
    x = tt.from_numpy(rng.standard_normal((m, k))).to("cuda", tt.bfloat16)
    numbers = tt.from_numpy(rng.standard_normal((k // group, n, 2))).to("cuda", tt.bfloat16)
    got = tt._weight_int4pack_mm(x, packed.to("cuda"), group, numbers)
    scale, zero = (numbers.double().cpu().numpy().repeat(group, 0)[..., i].T for i in (0, 1))
    near(got, x.double().cpu().numpy() @ ((integers - 8) * scale + zero).T, "bfloat16", 1.5)
    assert kernels.count("weight4_stream_k") == 1 and "weight4_matmul" not in kernels
    assert np.array_equal(bits(got), bits(tt._weight_int4pack_mm(x, packed.to("cuda"), group, numbers)))


def bits(tensor):
    return tensor.cpu().view(tt.int16).numpy()
