"""Fake quantization by channels, with learnt numbers, and by the range of what was seen."""

import numpy as np
import pytest

import triten as tt

INF, NAN = float("inf"), float("nan")


def tensor(values, device, dtype=tt.float32):
    return tt.tensor(values, dtype=dtype, device=device)


def numbers(device, zero=(1, -2), dtype=tt.int32):
    return tensor([0.1, 0.5], device), tensor(list(zero), device, dtype)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64, tt.float16, tt.bfloat16])
def test_channels_are_quantized_one_by_one(rng, device, dtype, axis):
    x = tt.from_numpy(rng.standard_normal((3, 3)) * 2).to(device, dtype)
    scale = tensor([0.1, 0.25, 0.5], device)
    zero = tensor([1, -2, 0], device, tt.int32)
    got = tt.fake_quantize_per_channel_affine(x, scale, zero, axis, -8, 7)
    assert got.dtype is dtype
    for i in range(3):
        line = x.select(axis, i)
        one = tt.fake_quantize_per_tensor_affine(line, scale[i].item(), int(zero[i]), -8, 7)
        # Values of float64 are products of float64, as PyTorch has them.
        np.testing.assert_allclose(
            got.select(axis, i).tolist(), one.tolist(), rtol=1e-6 * (dtype is tt.float64)
        )


def test_edges_of_channels(device):
    x = tensor([[0.3, INF, -INF, NAN, 1e30, -0.0], [2.5, -0.26, 0.75, 1e10, -1e10, 3e9]], device)
    scale, zero = numbers(device)
    got, mask = tt.ops.aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero, 0, -8, 7)
    expected = [[0.3, 0.6, -0.9, -0.9, 0.6, 0.0], [2.5, -0.5, 1.0, 4.5, -3.0, 4.5]]
    np.testing.assert_allclose(got.tolist(), expected, rtol=1e-6)
    assert mask.tolist() == [
        [True, False, False, False, False, True],
        [True, True, True, False, False, False],
    ]
    floats = tt.fake_quantize_per_channel_affine(x, *numbers(device, (1.25, -2.0), tt.float32), 0, -8, 7)
    np.testing.assert_allclose(floats[0, [0, 5]].tolist(), [0.275, -0.025], rtol=1e-5)
    nothing = tt.fake_quantize_per_channel_affine(x[:, :0], scale, zero, 0, -8, 7)
    assert nothing.shape == (2, 0)
    meta = tt.fake_quantize_per_channel_affine(x.to("meta"), scale.to("meta"), zero.to("meta"), 0, -8, 7)
    assert meta.shape == x.shape


def test_the_gradient_of_channels_passes_inside(device):
    x = tensor([[0.3, 9.0], [0.2, -0.1]], device).requires_grad_()
    tt.fake_quantize_per_channel_affine(x, *numbers(device), 0, -8, 7).sum().backward()
    assert x.grad.tolist() == [[1.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"x": tt.ones(2, 2, dtype=tt.int32)}, NotImplementedError, "Int"),
        (
            {"scale": tt.ones(2, dtype=tt.float64)},
            RuntimeError,
            "Scale must be Float or BFloat16, found Double",
        ),
        ({"zero": tt.ones(2, dtype=tt.int64)}, RuntimeError, "Int32, Float or Half, found Long"),
        ({"scale": tt.ones(1, 2)}, RuntimeError, "1-D"),
        ({"scale": tt.ones(1)}, RuntimeError, "same dimensions"),
        (
            {"scale": tt.ones(3), "zero": tt.ones(3, dtype=tt.int32)},
            RuntimeError,
            "expected 2 for axis 0, got 3",
        ),
        ({"axis": 2}, IndexError, "out of range"),
        ({"low": 9}, RuntimeError, "quant_min=9"),
        ({"zero": tt.full((2,), 100, dtype=tt.int32)}, RuntimeError, "`zero_point` must be between"),
    ],
)
def test_channels_refuse(change, error, words):
    given = {
        "x": tt.ones(2, 2),
        "scale": tt.ones(2),
        "zero": tt.zeros(2, dtype=tt.int32),
        "axis": 0,
        "low": -8,
    }
    with pytest.raises(error, match=words):
        tt.fake_quantize_per_channel_affine(*(given | change).values(), 7)


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_learnt_numbers_have_the_gradients_of_the_paper(rng, device, axis):
    """Compare each element's gradient with its definition in float64."""
    low, high, factor = -8, 7, 0.3
    x, grad = rng.standard_normal((4, 5)) * 3, rng.standard_normal((4, 5))
    count = 1 if axis is None else x.shape[axis]
    scale, zero = rng.random(count) * 0.5 + 0.1, np.rint(rng.standard_normal(count) * 3)
    a, s, z = (tensor(each.tolist(), device).requires_grad_() for each in (x, scale, zero + 0.2))
    if axis is None:
        got = tt._fake_quantize_learnable_per_tensor_affine(a, s, z, low, high, factor)
    else:
        got = tt._fake_quantize_learnable_per_channel_affine(a, s, z, axis, low, high, factor)
    got.backward(tensor(grad.tolist(), device))
    shape = [-1 if axis is None or i == axis else 1 for i in range(2)] if axis is not None else [1, 1]
    step, at = scale.reshape(shape), zero.reshape(shape)
    steps = np.rint(x / step) + at
    inside = (steps >= low) & (steps <= high)
    held = np.clip(steps, low, high)
    np.testing.assert_allclose(got.tolist(), (held - at) * step, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(a.grad.tolist(), grad * inside, rtol=1e-6)
    of_scale = grad * factor * np.where(inside, np.rint(x / step) - x / step, held - at)
    of_zero = np.where(inside, 0, -grad * step * factor)
    dims = (0, 1) if axis is None else (1 - axis,)
    np.testing.assert_allclose(s.grad.tolist(), of_scale.sum(dims).reshape(-1), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(z.grad.tolist(), of_zero.sum(dims).reshape(-1), rtol=1e-4, atol=1e-5)


def state(device, count=1):
    return (
        tt.full((count,), INF, device=device),
        tt.full((count,), -INF, device=device),
        tt.ones(count, device=device),
        tt.zeros(count, dtype=tt.int32, device=device),
    )


def switch(on, device):
    return tt.tensor([int(on)], device=device)


@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
def test_the_range_of_what_was_seen(device, by_row, symmetric):
    x = tensor([[-1.0, 0.4, 2.0], [0.0, 0.5, 1.0]], device)
    low, high, scale, zero = state(device, 2 if by_row else 1)
    on = switch(True, device)
    got = tt.fused_moving_avg_obs_fake_quant(
        x, on, on, low, high, scale, zero, 0.5, 0, 15, 0, by_row, symmetric
    )
    assert low.tolist() == ([-1.0, 0.0] if by_row else [-1.0])
    assert high.tolist() == ([2.0, 1.0] if by_row else [2.0])
    first = (2.0 * 8 / 7 + 2.0) / 15 if symmetric else 0.2
    np.testing.assert_allclose(scale.tolist()[0], first, rtol=1e-6)
    assert zero.tolist()[0] == (8 if symmetric else 5)
    if by_row:
        np.testing.assert_allclose(scale.tolist()[1], 1 / 15, rtol=1e-6)
        assert zero.tolist()[1] == 0
        expected = tt.fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 15)
    else:
        expected = tt.fake_quantize_per_tensor_affine(x, scale, zero, 0, 15)
    assert got.tolist() == expected.tolist()
    tt.fused_moving_avg_obs_fake_quant(
        2 * x, on, on, low, high, scale, zero, 0.5, 0, 15, 0, by_row, symmetric
    )
    assert low.tolist()[0] == -1.5 and high.tolist()[0] == 3.0


def test_switches(device):
    x = tensor([-1.0, 2.0, 9.0], device).requires_grad_()
    seen = state(device)
    off, on = switch(False, device), switch(True, device)
    got = tt.fused_moving_avg_obs_fake_quant(x, on, off, *seen, 0.01, 0, 15, 0)
    assert got.tolist() == x.tolist() and seen[0].tolist() == [-1.0] and seen[2].tolist() == [1.0]
    tt.fused_moving_avg_obs_fake_quant(3 * x, off, on, *seen, 0.01, 0, 15, 0).sum().backward()
    assert seen[1].tolist() == [9.0] and x.grad.tolist() == [0.0, 3.0, 0.0]


def test_state_that_is_not_there_yet(device):
    seen = tuple(each[:0].clone() for each in state(device))
    x = tensor([[-1.0, 1.0], [0.0, 3.0], [2.0, 4.0]], device)
    tt.fused_moving_avg_obs_fake_quant(x, switch(1, device), switch(1, device), *seen, 0.01, -8, 7, 0, True)
    assert [each.tolist() for each in seen[:2]] == [[-1.0, 0.0, 2.0], [1.0, 3.0, 4.0]]
    assert seen[3].dtype is tt.int32 and seen[3].shape == (3,)


def test_ranges_without_width(device):
    """Check that a constant has a scale, and that zero stays exact."""
    for value, expected in ((0.0, 0.1), (1e-9, 6.1e-5), (-1e-9, 6.1e-5), (1e-43, 0.1)):
        low, high, scale, zero = state(device)
        x = tt.full((3,), value, device=device)
        on = switch(1, device)
        tt.fused_moving_avg_obs_fake_quant(x, on, on, low, high, scale, zero, 0.01, 0, 255, 0)
        np.testing.assert_allclose(scale.item(), expected, rtol=1e-6)
        assert 0 <= zero.item() <= 255


def test_observers_refuse():
    on, seen = switch(1, "cpu"), state("cpu")
    with pytest.raises(RuntimeError, match="not empty"):
        tt.fused_moving_avg_obs_fake_quant(tt.ones(0), on, on, *seen, 0.01, 0, 15, 0)
    with pytest.raises(RuntimeError, match="`running_min` to have 2 elements, got 1"):
        tt.fused_moving_avg_obs_fake_quant(tt.ones(2, 3), on, on, *seen, 0.01, 0, 15, 0, True)
    with pytest.raises(RuntimeError, match="one element"):
        tt._fake_quantize_learnable_per_tensor_affine(tt.ones(2), tt.ones(2), tt.ones(1), 0, 15)
    with pytest.raises(RuntimeError, match="quant_min=16"):
        tt._fake_quantize_learnable_per_tensor_affine(tt.ones(2), tt.ones(1), tt.ones(1), 16, 15)
