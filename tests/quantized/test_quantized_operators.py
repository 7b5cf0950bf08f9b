"""Operators on quantized tensors, bit for bit beside results that PyTorch 2.13 gave on x86 (`reference.jsonl`)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.layers.quantized.layers import output_of, product
from triten.runtime.quantized_data import PerTensorAffine

Q = tt.ops.quantized
F = tt.nn.functional
ROWS = [json.loads(line) for line in Path(__file__).with_name("reference.jsonl").read_text().splitlines()]
INTEGERS = {"quint8": np.uint8, "qint8": np.int8, "qint32": np.int32}

OPERATORS: dict[str, Callable[..., Any]] = {
    "relu": lambda q, *grid: tt.relu(q),
    "sigmoid": lambda q, *grid: tt.sigmoid(q),
    "tanh": lambda q, *grid: tt.tanh(q),
    "clamp": lambda q, *grid: tt.clamp(q, -0.5, 0.75),
    "hardtanh": lambda q, *grid: F.hardtanh(q, -1.0, 1.0),
    "leaky_relu": lambda q, *grid: F.leaky_relu(q, 0.1),
    "gelu": lambda q, *grid: F.gelu(q),
    "threshold": lambda q, *grid: F.threshold(q, 0.3, 0.1),
    "hardsigmoid": lambda q, *grid: F.hardsigmoid(q),
    "mean": lambda q, *grid: q.mean(1),
    "max_pool2d": lambda q, *grid: F.max_pool2d(q[None, None], 2),
    "avg_pool2d": lambda q, *grid: F.avg_pool2d(q[None, None], 3, 2, 1),
    "adaptive_avg_pool2d": lambda q, *grid: F.adaptive_avg_pool2d(q[None, None], (2, 5)),
    "cat": lambda a, b, *grid: tt.cat([a, b], 1),
    "bilinear": lambda q, *grid: F.interpolate(q[None, None], size=(11, 5), mode="bilinear"),
    "bilinear of corners": lambda q, *grid: F.interpolate(
        q[None, None], size=(3, 13), mode="bilinear", align_corners=True
    ),
    "stack": lambda a, b, *grid: tt.stack([a, b]),
    "clamp from below": lambda q, *grid: tt.clamp(q, min=0.3),
    "avg_pool2d of planes": lambda q, *grid: F.avg_pool2d(q, 3, 2, 1, count_include_pad=False),
    "avg_pool2d of channels": lambda q, *grid: F.avg_pool2d(channels_last(q), 2),
    "avg_pool3d": lambda q, *grid: F.avg_pool3d(q[:, :, None], (1, 2, 3), 2, (0, 1, 1)),
    "adaptive_avg_pool2d of planes": lambda q, *grid: F.adaptive_avg_pool2d(q, (2, 3)),
    "adaptive_avg_pool2d of channels": lambda q, *grid: F.adaptive_avg_pool2d(channels_last(q), (2, 3)),
    "bilinear of planes": lambda q, *grid: F.interpolate(q, size=(7, 3), mode="bilinear"),
    "bilinear of the same size": lambda q, *grid: F.interpolate(q, size=(4, 5), mode="bilinear"),
    "bilinear of channels": lambda q, *grid: F.interpolate(channels_last(q), size=(7, 3), mode="bilinear"),
    "cat of channels": lambda a, b, *grid: tt.cat([channels_last(a), channels_last(b), channels_last(a)], 1),
    "mean of planes": lambda q, *grid: q.mean((2, 3)),
    "batch_norm of planes": lambda q, *grid: tt.quantized_batch_norm(q, *statistics(q), 1e-5, *grid),
    "quantized_max_pool1d": lambda q, *grid: tt.quantized_max_pool1d(q, 3, 2, 1),
    "quantized_max_pool2d": lambda q, *grid: tt.quantized_max_pool2d(q[None], 2, 2, 0, 1, True),
    "quantized_max_pool3d": lambda q, *grid: tt.quantized_max_pool3d(q.reshape(1, 1, 2, 4, 8), 2),
    "quantized_batch_norm": lambda q, *grid: tt.quantized_batch_norm(q, *statistics(q), 1e-5, *grid),
    "quantized.hardswish": Q.hardswish,
    "quantized.sigmoid": Q.sigmoid,
    "quantized.elu": lambda q, *grid: Q.elu(q, *grid, 1.2),
    "quantized.celu": lambda q, *grid: Q.celu(q, *grid, 1.3),
    "quantized.leaky_relu": lambda q, *grid: Q.leaky_relu(q, 0.1, False, *grid),
    "quantized.softmax": lambda q, *grid: Q.softmax(q, 1, *grid),
    "quantized.add_scalar": lambda q, *grid: Q.add_scalar(q, 7.3),
    "quantized.mul_scalar_relu": lambda q, *grid: Q.mul_scalar_relu(q, -1.7),
    "quantized.add": Q.add,
    "quantized.add_relu": Q.add_relu,
    "quantized.mul": Q.mul,
    "quantized.mul_relu": Q.mul_relu,
    "quantized.cat": lambda a, b, *grid: Q.cat([a, b], 0, *grid),
}


def statistics(q: tt.Tensor) -> list[tt.Tensor]:
    """Return a weight, a bias, a mean and a variance of all channels."""
    ends = ((0.5, 1.5), (-1.0, 1.0), (0.25, -0.5), (0.5, 2.0))
    return [tt.linspace(first, last, q.shape[1]).to(q.device) for first, last in ends]


def channels_last(q: tt.Tensor) -> tt.Tensor:
    return q.contiguous(memory_format=tt.channels_last)


def quantized(row: dict[str, Any], dtype: str, device: str) -> tt.Tensor:
    ints = tt.from_numpy(np.array(row["ints"], INTEGERS[dtype])).to(device)
    if "scales" in row:
        scales = tt.tensor(row["scales"], dtype=tt.float64, device=device)
        return tt._make_per_channel_quantized_tensor(ints, scales, tt.zeros_like(scales, dtype=tt.int64), 0)
    return tt._make_per_tensor_quantized_tensor(ints, row["scale"], row["zero_point"])


def name_of(row: dict[str, Any]) -> str:
    channels = " by channels" if "scales" in row.get("weight", {}) else ""
    return f"{row['operator']} {row['dtype']}{channels}"


@pytest.mark.parametrize("row", ROWS, ids=name_of)
def test_bits_are_pytorchs(row: dict[str, Any], device: str) -> None:
    inputs = [quantized(each, row["dtype"], device) for each in row["inputs"]]
    name, grid, wanted = row["operator"], row["grid"], row["output"]
    if "weight" in row:
        weight, bias = quantized(row["weight"], "qint8", device), tt.tensor(row["bias"], device=device)
        if "linear" in name:
            packed = Q.linear_prepack(weight, bias)
        else:
            packed = Q.conv2d_prepack(weight, bias, [2, 1], [1, 1], [1, 1], 2)
        got = getattr(Q, name.partition(".")[2])(inputs[0], packed, *grid)
    else:
        got = OPERATORS[name](*inputs, *grid)
    assert got.int_repr().tolist() == wanted["ints"]
    assert (got.q_scale(), got.q_zero_point()) == (wanted["scale"], wanted["zero_point"])
    meta = [each.to("meta") for each in inputs]
    if "weight" not in row:
        other = OPERATORS[name](*meta, *grid)
        assert (other.shape, other.dtype, other.device.type) == (got.shape, got.dtype, "meta")


def example(device: str, dtype: tt.dtype = tt.quint8) -> tt.Tensor:
    return tt.quantize_per_tensor(
        tt.tensor([[-1.0, 0.0, 0.5], [1.0, 2.0, 3.0]], device=device), 0.1, 10, dtype
    )


def test_elements_are_picked_and_moved(device: str) -> None:
    q = example(device)
    assert q[tt.tensor([1, 0], device=device)].int_repr().tolist() == [[20, 30, 40], [0, 10, 15]]
    assert q[q > 0.7].int_repr().tolist() == [20, 30, 40]
    assert q.flip(1).int_repr()[0].tolist() == [15, 10, 0]
    assert q.index_select(1, tt.tensor([2], device=device)).int_repr().tolist() == [[15], [40]]
    assert tt.stack([q, q]).shape == (2, 2, 3)
    assert [each.shape for each in q.split(1)] == [(1, 3), (1, 3)]
    values, places = q.sort(1, descending=True)
    assert (values.int_repr().tolist(), places.tolist()) == ([[15, 10, 0], [40, 30, 20]], [[2, 1, 0]] * 2)
    assert q.topk(1).values.int_repr().tolist() == [[15], [40]]
    assert q.max().item() == 3.0
    assert q.min(0).values.int_repr().tolist() == [0, 10, 15]


def test_a_dense_call_is_decomposed_after_a_quantized_one() -> None:
    """Layers above autograd see what the composite is made of: it is mapped over no example at all."""
    F.max_pool2d(example("cpu")[None], 2)
    assert tt.vmap(lambda x: F.max_pool2d(x, 2))(tt.ones(0, 1, 4, 4)).shape == (0, 1, 2, 2)


def test_writes_in_place(device: str) -> None:
    q = example(device)
    q.relu_()
    assert q.int_repr().tolist() == [[10, 10, 15], [20, 30, 40]]
    q.masked_fill_(q > 1.5, 0.26)
    assert q.int_repr().tolist() == [[10, 10, 15], [20, 13, 13]]
    q[0] = tt.tensor([0.1, 0.2, 0.3], device=device)
    assert q.int_repr()[0].tolist() == [11, 12, 13]
    q.index_put_((tt.tensor([1], device=device),), tt.zeros(3, device=device))
    assert q.int_repr()[1].tolist() == [10, 10, 10]
    assert Q.add_out(q, q, q).int_repr()[0].tolist() == [12, 14, 16]


def test_comparisons_are_those_of_numbers(device: str) -> None:
    q, other = example(device), example(device, tt.qint8)
    assert (q > 0.4).tolist() == [[False, False, True], [True, True, True]]
    assert (q == other).all().item()
    assert (q < tt.ones(2, 3, device=device)).tolist() == [[True, True, True], [False, False, False]]


def test_activations_of_32_bits_round_what_float64_gives(device: str, rng: np.random.Generator) -> None:
    ints = rng.integers(-(2**26), 2**26, (5, 41), np.int32)
    q = tt._make_per_tensor_quantized_tensor(tt.from_numpy(ints).to(device), 2.0**-24, 0)
    x = ints.astype(np.float32) * np.float32(2.0**-24)
    wide = x.astype(np.float64)
    sigmoid = np.float32(1) / (np.exp(-wide).astype(np.float32) + np.float32(1))
    tanh = np.tanh(wide).astype(np.float32)
    wanted = np.minimum(np.rint(sigmoid.astype(np.float64) * 2.0**32), 2**31 - 1).astype(np.int64)
    assert tt.sigmoid(q).int_repr().tolist() == wanted.tolist()
    wanted = np.clip(np.rint(tanh.astype(np.float64) * 2.0**31), -(2**31), 2**31 - 1).astype(np.int64)
    assert tt.tanh(q).int_repr().tolist() == wanted.tolist()


def test_products_of_32_bits_saturate(device: str) -> None:
    """PyTorch's vectors give the least integer and wrap; its last elements saturate, as all do here."""
    ints = tt.tensor([40000, -40000, 40000], dtype=tt.int32, device=device)
    q = tt._make_per_tensor_quantized_tensor(ints, 1.0, 0)
    assert Q.mul(q, q[:1].expand(3), 1e-3, 5).int_repr().tolist() == [2**31 - 1, -(2**31), 2**31 - 1]


def test_dynamic_layers_are_close_to_floating_ones(device: str) -> None:
    x = tt.linspace(-2, 2, 60, device=device).reshape(5, 12)
    weight = tt.linspace(-1, 1, 48, device=device).reshape(4, 12)
    packed = Q.linear_prepack(tt.quantize_per_tensor(weight, 1 / 127, 0, tt.qint8), tt.ones(4, device=device))
    tt.testing.assert_close(Q.linear_dynamic(x, packed, True), F.linear(x, weight) + 1, atol=0.1, rtol=0.02)
    image, filters = x.reshape(1, 3, 4, 5), weight[:, :9].reshape(4, 3, 3, 1)
    packed = Q.conv2d_prepack(
        tt.quantize_per_tensor(filters, 1 / 127, 0, tt.qint8), None, [1, 1], [1, 0], [1, 1], 1
    )
    got = Q.conv2d_dynamic(image, packed, False)
    tt.testing.assert_close(got, F.conv2d(image, filters, padding=(1, 0)), atol=0.1, rtol=0.02)


@pytest.mark.parametrize("relu", [False, True], ids=["", "relu"])
@pytest.mark.parametrize("has_bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("by_rows", [False, True], ids=["", "channels"])
def test_a_layer_in_one_kernel_has_the_bits_of_its_parts(
    device: str, relu: bool, has_bias: bool, by_rows: bool, rng: np.random.Generator
) -> None:
    """Zero points of the weight that are 0 leave an epilogue of the product; others the sums themselves."""
    x = tt.quantize_per_tensor(
        tt.from_numpy(rng.standard_normal((2, 5, 70), np.float32)).to(device), 0.021, 131, tt.quint8
    )
    numbers = tt.from_numpy(rng.standard_normal((33, 70), np.float32)).to(device)
    if by_rows:
        scales = tt.from_numpy(0.01 + 0.02 * rng.random(33)).to(device)
        weight = tt.quantize_per_channel(
            numbers, scales, tt.zeros(33, dtype=tt.int64, device=device), 0, tt.qint8
        )
    else:
        weight = tt.quantize_per_tensor(numbers, 0.017, 0, tt.qint8)
    bias = tt.from_numpy(rng.standard_normal(33, np.float32)).to(device) if has_bias else None
    packed = Q.linear_prepack(weight, bias)
    layer = Q.linear_relu if relu else Q.linear
    for scale, zero_point in ((0.09, 40), (0.2, 0), (0.09, 40)):
        got = layer(x, packed, scale, zero_point)
        sums = product(x.int_repr().reshape(-1, 70), 131, packed)
        grid = PerTensorAffine(scale, zero_point)
        wanted = output_of(sums, 0.021, packed, grid, 1, relu)
        assert packed.is_symmetric
        assert got.int_repr().reshape(-1, 33).equal(wanted.int_repr())


def test_transposed_convolutions_are_those_of_the_numbers(device: str) -> None:
    x = tt.quantize_per_tensor(tt.linspace(-2, 2, 60, device=device).reshape(1, 3, 4, 5), 0.03, 77, tt.quint8)
    w = tt.quantize_per_tensor(tt.linspace(-1, 1, 54, device=device).reshape(3, 2, 3, 3), 0.01, 0, tt.qint8)
    packed = Q.conv_transpose2d_prepack(w, None, [2, 2], [1, 1], [0, 0], [1, 1], 1)
    wanted = F.conv_transpose2d(x.dequantize(), w.dequantize(), None, 2, 1)
    tt.testing.assert_close(Q.conv_transpose2d(x, packed, 0.2, 128).dequantize(), wanted, atol=0.11, rtol=0)


def test_packed_weights_give_back_what_they_were_made_of(device: str) -> None:
    w, b = example(device, tt.qint8), tt.ones(2, device=device)
    weight, bias = Q.linear_unpack(Q.linear_prepack(w, b))
    assert weight.equal(w)
    assert bias.equal(b)
    filters = tt.quantize_per_tensor(tt.ones(4, 1, 3, 3, device=device), 0.1, 0, tt.qint8)
    packed = Q.conv2d_prepack(filters, None, [1, 2], [1, 1], [1, 1], 2)
    assert (Q.conv2d_stride(packed), Q.conv2d_groups(packed), Q.conv2d_transpose(packed)) == ((1, 2), 2, 0)


REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Q.add(example("cpu"), example("cpu", tt.qint8), 0.1, 0), RuntimeError, "same data type"),
    (lambda: Q.add(rows(), rows(), 0.1, 0), RuntimeError, "Only per tensor quantization is supported in Add"),
    (lambda: Q.mul(example("cpu"), rows(), 0.1, 0), RuntimeError, "must have the same quantization scheme"),
    (lambda: Q.add(example("cpu"), tt.ones(2, 3), 0.1, 0), NotImplementedError, "aten::qscheme.*'CPU'"),
    (lambda: tt.cat([example("cpu"), example("cpu", tt.qint8)]), RuntimeError, "All dtypes must be the same"),
    (lambda: tt.cat([rows(), rows()]), RuntimeError, "Only per-tensor quantization is supported in 'cat'"),
    (lambda: rows().relu(), RuntimeError, "kPerTensorAffine to be true"),
    (lambda: rows().max(), RuntimeError, "only works for per tensor quantized tensors"),
    (lambda: Q.linear_prepack(example("cpu"), None), RuntimeError, "expected a weight of dtype triten.qint8"),
    (lambda: Q.linear_prepack(example("cpu", tt.qint8)[0], None), RuntimeError, "should be 2-dimensional"),
    (lambda: Q.linear(example("cpu", tt.qint8), packed(), 0.1, 0), RuntimeError, "QUInt8 but got QInt8"),
    (lambda: Q.linear(example("cpu")[:, :2], packed(), 0.1, 0), RuntimeError, "packB should be equal to K"),
    (lambda: Q.linear(example("cpu"), tt.ones(2, 3), 0.1, 0), RuntimeError, "LinearPackedParams"),
]


def rows() -> tt.Tensor:
    one = tt.ones(2)
    return tt.quantize_per_channel(tt.ones(2, 3), one, tt.zeros(2, dtype=tt.int64), 0, tt.qint8)


def packed() -> Any:
    return Q.linear_prepack(example("cpu", tt.qint8), None)


@pytest.mark.parametrize(("call", "error", "words"), REFUSED, ids=[words[:40] for _, _, words in REFUSED])
def test_refusals(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
