"""Quantized tensors on every backend: quantize, dequantize, integers, sigmoid, add, matmul."""

import pytest

import triten as tt

DEVICES = ("cpu", "cuda", "meta")


@pytest.mark.parametrize("device", DEVICES)
def test_a_small_network_of_integers(device: str) -> None:
    x = tt.linspace(-1, 1, 12).reshape(3, 4).to(device)
    weight = tt.linspace(-0.5, 0.5, 8).reshape(2, 4).to(device)
    scales = tt.tensor([0.004, 0.005], dtype=tt.float64).to(device)
    zero_points = tt.zeros(2, dtype=tt.int64, device=device)
    quantized = tt.quantize_per_tensor(x, 0.01, 128, tt.quint8)
    filters = tt.quantize_per_channel(weight, scales, zero_points, 0, tt.qint8)
    assert quantized.is_quantized
    assert quantized.int_repr().dtype is tt.uint8
    packed = tt.ops.quantized.linear_prepack(filters, tt.ones(2, device=device))
    hidden = tt.ops.quantized.linear(quantized, packed, 0.02, 50)
    total = tt.ops.quantized.add(hidden, hidden, 0.04, 20)
    out = tt.sigmoid(total)
    assert (out.shape, out.dtype, out.device.type) == ((3, 2), tt.quint8, device)
    assert (out.q_scale(), out.q_zero_point()) == (1 / 256, 0)
    if device != "meta":
        exact = tt.sigmoid(2 * (tt.nn.functional.linear(x, weight) + 1))
        tt.testing.assert_close(out.dequantize(), exact, atol=0.02, rtol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_channels_go_through_views_and_back(device: str) -> None:
    x = tt.arange(24.0).reshape(2, 3, 4).to(device)
    scales, zero_points = tt.tensor([1.0, 0.5, 0.25]).to(device), tt.tensor([0, 3, 9]).to(device)
    q = tt.quantize_per_channel(x, scales, zero_points, 1, tt.quint8)
    part = q[:, 1:].unsqueeze(0)
    assert (part.q_per_channel_axis(), part.shape) == (2, (1, 2, 2, 4))
    if device != "meta":
        assert part.dequantize().equal(x[:, 1:].unsqueeze(0))


def test_every_backend_gives_the_same_integers() -> None:
    x = tt.linspace(-7, 7, 1001)
    for dtype in (tt.qint8, tt.quint8, tt.qint32, tt.quint4x2):
        on_host = tt.quantize_per_tensor(x, 0.0371, 7, dtype)
        on_device = tt.quantize_per_tensor(x.cuda(), 0.0371, 7, dtype)
        assert on_device.cpu().equal(on_host)
        assert on_device.dequantize().cpu().equal(on_host.dequantize())
