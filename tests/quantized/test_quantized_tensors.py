"""Quantized tensors: made, looked at, printed, copied, refused, on the CPU and on CUDA."""

import math

import pytest

import triten as tt

X = [[-1.0, 0.0, 0.5], [1.0, 2.0, 3.0]]


def uniform(device: str, dtype: tt.dtype = tt.quint8) -> tt.Tensor:
    return tt.quantize_per_tensor(tt.tensor(X, device=device), 0.1, 10, dtype)


def by_rows(device: str) -> tt.Tensor:
    scales, zero_points = tt.tensor([0.1, 0.2], device=device), tt.tensor([0, 1], device=device)
    return tt.quantize_per_channel(tt.tensor(X, device=device), scales, zero_points, 0, tt.qint8)


def test_what_a_quantized_tensor_says_of_itself(device: str) -> None:
    q = uniform(device)
    assert q.is_quantized
    assert not tt.tensor(X, device=device).is_quantized
    assert q.layout is tt.strided
    assert (q.dtype, q.shape, q.stride(), q.element_size()) == (tt.quint8, (2, 3), (3, 1), 1)
    assert (q.q_scale(), q.q_zero_point(), q.qscheme()) == (0.1, 10, tt.per_tensor_affine)
    assert f"Quantized{device.upper()}" in str(q.key_set())
    assert q.int_repr().dtype is tt.uint8
    assert q.int_repr().tolist() == [[0, 10, 15], [20, 30, 40]]
    assert q.dequantize().tolist() == tt.tensor(X).tolist()


def test_channels_have_scales_of_their_own(device: str) -> None:
    q = by_rows(device)
    assert q.int_repr().tolist() == [[-10, 0, 5], [6, 11, 16]]
    assert q.dequantize().tolist() == tt.tensor(X).tolist()
    assert q.qscheme() is tt.per_channel_affine
    assert q.q_per_channel_axis() == 0
    assert q.q_per_channel_scales().dtype is tt.float64
    assert q.q_per_channel_zero_points().tolist() == [0, 1]
    floating = tt.quantize_per_channel(
        tt.tensor(X, device=device),
        tt.tensor([0.1, 0.2], device=device),
        tt.tensor([0.25, 1.0], device=device),
        0,
        tt.quint8,
    )
    assert floating.qscheme() is tt.per_channel_affine_float_qparams
    assert floating.int_repr().tolist() == [[0, 0, 5], [6, 11, 16]]


@pytest.mark.parametrize("dtype", [tt.qint8, tt.quint8, tt.qint32], ids=lambda dtype: dtype.name)
def test_numbers_round_to_even_and_are_clamped(dtype: tt.dtype, device: str) -> None:
    values = [0.5, 1.5, -0.5, 2.5, 1e30, -1e30, math.inf, -math.inf, math.nan, -0.0]
    q = tt.quantize_per_tensor(tt.tensor(values, device=device), 1.0, 5, dtype)
    least, greatest = {tt.qint8: (-128, 127), tt.quint8: (0, 255), tt.qint32: (-(2**31), 2**31 - 1)}[dtype]
    nan = least if dtype is tt.qint32 else greatest
    assert q.int_repr().tolist() == [6, 6, 4, 8, greatest, least, greatest, least, nan, 5]


def test_channels_take_nan_for_zero(device: str) -> None:
    x = tt.tensor([[math.nan, math.inf, -math.inf]], device=device)
    one, zero = tt.ones(1, device=device), tt.zeros(1, dtype=tt.int64, device=device)
    assert tt.quantize_per_channel(x, one, zero, 0, tt.qint8).int_repr().tolist() == [[0, 127, -128]]
    assert tt.quantize_per_channel(x, one, zero, 0, tt.quint8).int_repr().tolist() == [[0, 255, 0]]


def test_strides_stay(device: str) -> None:
    x = tt.arange(24.0, device=device).reshape(2, 3, 2, 2).contiguous(memory_format=tt.channels_last)
    q = tt.quantize_per_tensor(x, 0.5, 0, tt.qint32)
    assert q.stride() == x.stride()
    assert q.dequantize().equal(x)
    assert q[:, 1].dequantize().equal(x[:, 1])


@pytest.mark.parametrize("size", [(), (0,), (2, 0), (1,)])
def test_sizes_without_extent(size: tuple[int, ...], device: str) -> None:
    q = tt.quantize_per_tensor(tt.ones(size, device=device), 0.5, 3, tt.qint8)
    assert q.shape == size
    assert q.dequantize().equal(tt.ones(size, device=device))


def test_long_tensors_are_quantized_by_blocks() -> None:
    x = tt.arange(-300000.0, 300000.0) / 1000
    q = tt.quantize_per_tensor(x, 0.5, 7, tt.qint8)
    wanted = (x * 2 + 7).round().clamp(-128, 127).to(tt.int8)
    assert q.int_repr().equal(wanted)
    assert q.dequantize().equal((wanted.to(tt.float32) - 7) * 0.5)
    rows = tt.quantize_per_channel(x.reshape(2, -1), tt.tensor([0.5, 0.5]), tt.tensor([7, 7]), 0, tt.qint8)
    assert rows.int_repr().reshape(-1).equal(wanted)


def test_two_elements_share_a_byte(device: str) -> None:
    q = uniform(device, tt.quint4x2)
    assert q.int_repr().tolist() == [0 | 10 << 4, 15 | 15 << 4, 15 | 15 << 4]
    assert q.dequantize().tolist() == tt.tensor([[-1.0, 0.0, 0.5], [0.5, 0.5, 0.5]]).tolist()
    odd = tt.quantize_per_tensor(tt.tensor([0.1, 0.2, 0.3], device=device), 0.1, 0, tt.quint4x2)
    assert odd.int_repr().tolist() == [0x21, 0x03]
    assert odd.clone().view(3, 1).shape == (3, 1)
    with pytest.raises(NotImplementedError, match="QUInt4x2"):
        q.t()


def test_views_share_integers_and_versions(device: str) -> None:
    q = uniform(device)
    row = q[1]
    assert row._view_base is q
    row.fill_(0.36)
    assert q.int_repr().tolist() == [[0, 10, 15], [14, 14, 14]]
    assert q._version == row._version == 1
    assert q.t().int_repr().tolist() == [[0, 14], [10, 14], [15, 14]]
    assert q.untyped_storage() is row.untyped_storage()
    assert row.storage_offset() == 3


def test_views_of_channels(device: str) -> None:
    q = by_rows(device)
    assert q[0].qscheme() is tt.per_tensor_affine
    assert q[1:].q_zero_point() == 1
    assert q[:, 1].q_per_channel_axis() == 0
    assert q[:, 1].dequantize().tolist() == [0.0, 2.0]
    assert q.unsqueeze(0).q_per_channel_axis() == 1
    assert q.unsqueeze(0).squeeze(0).dequantize().equal(q.dequantize())
    assert q[None, :, 1:].q_per_channel_axis() == 1
    with pytest.raises(RuntimeError, match="Setting strides is possible only on uniformly quantized tensor"):
        q.t()
    with pytest.raises(RuntimeError, match="length of scales must equal to channel, expected 6 got, 2"):
        q.view(6)


def test_copies(device: str) -> None:
    q = uniform(device)
    copy = q.clone()
    copy.copy_(tt.tensor([0.26, 0.34, 0.0], device=device))
    assert copy.int_repr().tolist() == [[13, 13, 10], [13, 13, 10]]
    assert q.int_repr()[0].tolist() == [0, 10, 15]
    other = tt.quantize_per_tensor(tt.ones(2, 3, device=device), 0.5, 0, tt.quint8)
    copy.copy_(other)
    assert copy.equal(other)
    assert not copy.equal(q)
    with pytest.raises(RuntimeError, match="Quantized Copy only works with same qscheme"):
        by_rows(device).copy_(tt.quantize_per_tensor(tt.ones(2, 3, device=device), 0.5, 0, tt.qint8))
    with pytest.raises(
        RuntimeError, match="Copying from quantized Tensor to non-quantized Tensor is not allowed"
    ):
        tt.ones(2, 3, device=device).copy_(q)
    with pytest.raises(RuntimeError, match="kFloat as source Tensor, got Double"):
        q.copy_(tt.ones(2, 3, dtype=tt.float64, device=device))


def test_devices() -> None:
    q = by_rows("cuda")
    assert q.cpu().equal(by_rows("cpu"))
    assert by_rows("cpu").to("cuda").equal(q)
    meta = uniform("cpu").to("meta")
    assert (meta.device.type, meta.q_scale(), meta.dtype) == ("meta", 0.1, tt.quint8)
    assert meta[0].dequantize().shape == (3,)


def test_a_storage_that_grows_or_moves_keeps_the_integers() -> None:
    q = uniform("cpu")
    q.untyped_storage().resize_(100)
    assert q.int_repr().tolist() == [[0, 10, 15], [20, 30, 40]]
    assert q.share_memory_().is_shared()
    assert q.dequantize().tolist() == tt.tensor(X).tolist()


def test_without_values(device: str) -> None:
    q = tt._empty_affine_quantized([2, 3], scale=0.25, zero_point=3, dtype=tt.qint8, device=device)
    assert (q.q_scale(), q.q_zero_point(), q.dtype) == (0.25, 3, tt.qint8)
    assert tt.empty_like(by_rows(device)).q_per_channel_axis() == 0
    assert tt.empty_quantized([4], q).shape == (4,)
    ints = tt.tensor([1, 2], dtype=tt.int8, device=device)
    assert tt._make_per_tensor_quantized_tensor(ints, 0.5, 3).dequantize().tolist() == [-1.0, -0.5]
    with pytest.raises(RuntimeError, match="requires quantized dtype"):
        tt._empty_affine_quantized([2], dtype=tt.float32)
    with pytest.raises(RuntimeError, match="needs a quantizer"):
        tt.empty(2, dtype=tt.qint8)


def test_lists(device: str) -> None:
    x = tt.tensor(X, device=device)
    scales, zero_points = tt.tensor([0.1, 0.2], device=device), tt.tensor([1, 2], device=device)
    first, second = tt.quantize_per_tensor([x, x], scales, zero_points, tt.quint8)
    assert (first.q_zero_point(), second.q_zero_point()) == (1, 2)
    assert first.q_scale() == 0.10000000149011612
    assert [each.shape for each in tt.dequantize([first, second])] == [(2, 3), (2, 3)]


def test_ranges_choose_scales(device: str) -> None:
    x = tt.tensor(X, device=device)
    q = tt.quantize_per_tensor_dynamic(x, tt.quint8, False)
    assert (q.q_scale(), q.q_zero_point()) == (0.01568627450980392, 64)
    q = tt.quantize_per_tensor_dynamic(x, tt.qint8, True)
    assert (q.q_scale(), q.q_zero_point()) == (0.031496062992125984, -32)
    assert tt.quantize_per_tensor_dynamic(x, tt.float16, False).dtype is tt.float16


def test_it_prints_as_in_pytorch() -> None:
    assert repr(uniform("cpu")) == (
        "tensor([[-1.0000,  0.0000,  0.5000],\n"
        "        [ 1.0000,  2.0000,  3.0000]], size=(2, 3), dtype=triten.quint8,\n"
        "       quantization_scheme=triten.per_tensor_affine, scale=0.1, zero_point=10)"
    )
    assert repr(by_rows("cpu")) == (
        "tensor([[-1.0000,  0.0000,  0.5000],\n"
        "        [ 1.0000,  2.0000,  3.0000]], size=(2, 3), dtype=triten.qint8,\n"
        "       quantization_scheme=triten.per_channel_affine,\n"
        "       scale=tensor([0.1000, 0.2000], dtype=triten.float64),\n"
        "       zero_point=tensor([0, 1]), axis=0)"
    )


ONES = tt.ones(2, 3)
REFUSED = [
    (
        lambda: tt.quantize_per_tensor(ONES, 0.1, 300, tt.quint8),
        RuntimeError,
        "zero_point 300 is above upper bound",
    ),
    (
        lambda: tt.quantize_per_tensor(ONES, 0.1, -1, tt.quint8),
        RuntimeError,
        "zero_point -1 is below lower bound",
    ),
    (lambda: tt.quantize_per_tensor(ONES, 0.1, 2**40, tt.qint32), RuntimeError, "above upper bound"),
    (lambda: tt.quantize_per_tensor(ONES, 0.1, 0, tt.int8), RuntimeError, "ScalarType Char is not supported"),
    (
        lambda: tt.quantize_per_tensor(ONES.double(), 0.1, 0, tt.qint8),
        RuntimeError,
        "Float Tensor, got Double",
    ),
    (lambda: tt.quantize_per_tensor(uniform("cpu"), 0.1, 0, tt.qint8), NotImplementedError, "'QuantizedCPU'"),
    (
        lambda: channels([0.1, 0.2], [0, 1], 1),
        RuntimeError,
        "length of scales must equal to channel, expected 3 got, 2",
    ),
    (lambda: channels([0.1, 0.2], [0, 1], 2), RuntimeError, "Channel axis out of range"),
    (lambda: channels([0.1, 0.2], [0, 1], -1), RuntimeError, "Channel axis out of range"),
    (lambda: channels([0.1, 0.2, 0.3], [0, 1], 0), RuntimeError, "scales and zero_points must match"),
    (lambda: channels([0.1, 0.2], [0, 1000], 0), RuntimeError, "zero_point 1000 is above upper bound"),
    (lambda: channels([1, 2], [0, 1], 0), RuntimeError, "scale tensor must be floating point"),
    (lambda: channels([[0.1, 0.2]], [0, 1], 0), RuntimeError, "scale tensor must have dimension 1"),
    (lambda: by_rows("cpu").q_scale(), RuntimeError, "kPerTensorAffine to be true"),
    (lambda: uniform("cpu").q_per_channel_axis(), RuntimeError, "kPerChannelAffine"),
    (lambda: ONES.int_repr(), NotImplementedError, "'aten::int_repr' with arguments from the 'CPU' backend"),
    (lambda: ONES.q_scale(), NotImplementedError, "'aten::q_scale' with arguments from the 'CPU' backend"),
    (lambda: uniform("cpu").exp(), NotImplementedError, "aten::exp.*'QuantizedCPU'"),
    (lambda: uniform("cpu") + uniform("cpu"), NotImplementedError, "aten::add.*'QuantizedCPU'"),
    (lambda: uniform("cpu").sum(), NotImplementedError, "aten::sum.*'QuantizedCPU'"),
    (lambda: uniform("cpu").requires_grad_(), RuntimeError, "Only Tensors of floating point"),
    (lambda: uniform("cpu").__dlpack__(), BufferError, "not supported by dlpack"),
    (lambda: uniform("cpu").set_(), NotImplementedError, "aten::set_"),
    (lambda: uniform("cpu").set_sizes_contiguous((6,)), RuntimeError, "keep their geometry"),
    (lambda: uniform("cpu").view(tt.uint8), RuntimeError, "expected a tensor that is not quantized"),
    (lambda: uniform("cpu").numpy(), TypeError, "Got unsupported ScalarType QUInt8"),
    (lambda: tt.promote_types(tt.qint8, tt.float32), RuntimeError, "promoteTypes with quantized numbers"),
    (lambda: uniform("cpu").to(tt.float32), RuntimeError, "dequantize"),
]


def channels(scales: list[float], zero_points: list[int], axis: int) -> tt.Tensor:
    return tt.quantize_per_channel(ONES, tt.tensor(scales), tt.tensor(zero_points), axis, tt.qint8)


@pytest.mark.parametrize(("call", "error", "words"), REFUSED, ids=[words[:40] for _, _, words in REFUSED])
def test_refusals(call, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
