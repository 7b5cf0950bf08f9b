"""Fake quantization: values, masks, refusals, derivatives, layouts."""

import warnings
from typing import Any

import numpy as np
import pytest

import triten as tt

NAN, INF = float("nan"), float("inf")
FLOATS = ["float32", "float64", "float16", "bfloat16"]
GIVEN = [0.0, -0.0, 0.04, 0.05, 0.15, 0.25, -0.25, 1.5, -1.5, 30.0, -30.0, 1e30, INF, -INF, NAN]
with_mask = tt.ops.aten.fake_quantize_per_tensor_affine_cachemask
by_tensors = tt.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams
backward = tt.ops.aten.fake_quantize_per_tensor_affine_cachemask_backward


def expected(x: Any, scale: float, zero_point: int, low: int, high: int) -> tuple[Any, Any]:
    """Compute the definition, in float32 as in PyTorch; in float64 up to the rounded steps, which are float64."""
    step = np.float32(scale)
    with np.errstate(all="ignore"):
        steps = np.rint(x * x.dtype.type(np.float32(1) / step)) + x.dtype.type(zero_point)
        clamped = np.fmin(np.fmax(steps.astype(np.float64), low), high)
        return (clamped - zero_point).astype(np.float32) * step, (steps >= low) & (steps <= high)


def same_bits(got: tt.Tensor, want: tt.Tensor) -> bool:
    a, b = got.cpu().double().numpy(), want.cpu().double().numpy()
    return np.array_equal(a, b, equal_nan=True) and np.array_equal(np.signbit(a), np.signbit(b))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "numbers",
    [
        (0.1, 0, -128, 127),
        (0.0371, 17, 0, 255),
        (-0.3, 1, -8, 7),
        (7e-7, (1 << 24) + 1, -(1 << 31), (1 << 31) - 1),
        (1e-40, 0, 0, 255),
        (0.0, 3, 0, 255),
        (NAN, 3, 0, 255),
    ],
)
def test_values_and_mask(numbers: tuple[float, int, int, int], dtype: str, device: str) -> None:
    drawn = np.random.default_rng(0).normal(size=300) * 10
    x = tt.tensor(np.concatenate([drawn, GIVEN])).to(getattr(tt, dtype))
    wide = x.numpy() if dtype == "float64" else x.float().numpy()
    values, mask = expected(wide, *numbers)
    want = tt.tensor(values).to(x.dtype)
    scale, zero_point, low, high = numbers
    given = x.to(device)
    tensors = (tt.tensor([scale], device=device), tt.tensor([zero_point], device=device))
    enabled = tt.ones(1, dtype=tt.int64, device=device)
    for output, found in (
        with_mask(given, *numbers),
        by_tensors(given, *tensors, enabled, low, high),
    ):
        assert output.dtype is x.dtype
        assert found.dtype is tt.bool
        assert same_bits(output, want)
        np.testing.assert_array_equal(found.cpu().numpy(), mask)
    assert same_bits(tt.fake_quantize_per_tensor_affine(given, *numbers), want)
    assert same_bits(tt.fake_quantize_per_tensor_affine(given, *tensors, low, high), want)


def test_values_of_pytorch(device: str) -> None:
    x = tt.tensor(GIVEN, device=device)
    output, mask = with_mask(x, 0.1, 0, -128, 127)
    low, high = np.float32(-12.8), np.float32(12.7)
    halves = np.float32([0.2, 0.2, -0.2])
    want = np.float32([0, 0, 0, 0, *halves, 1.5, -1.5, high, low, high, high, low, low])
    assert same_bits(output, tt.tensor(want))
    assert mask.tolist() == [True] * 9 + [False] * 6


@pytest.mark.parametrize("dtype", FLOATS)
def test_layouts(dtype: str, device: str) -> None:
    base = tt.tensor(np.random.default_rng(1).normal(size=(4, 6, 5)) * 5).to(getattr(tt, dtype)).to(device)
    scale, zero_point = tt.tensor([0.25], device=device), tt.tensor([2], device=device)
    enabled = tt.ones(1, dtype=tt.int64, device=device)
    layouts = {
        "transposed": base.transpose(0, 2),
        "sliced": base[:, ::2],
        "flipped": base.flip(0)[1:],
        "expanded": base[:1].expand(3, 6, 5),
        "0-d": base[1, 2, 3],
        "empty": base[:, :0],
    }
    for layout, x in layouts.items():
        want, kept = with_mask(x.contiguous(), 0.25, 2, -6, 9)
        for output, mask in (
            with_mask(x, 0.25, 2, -6, 9),
            by_tensors(x, scale, zero_point, enabled, -6, 9),
        ):
            assert output.shape == mask.shape == x.shape, layout
            assert output.stride() == mask.stride() == tt.empty_like(x).stride(), layout
            assert same_bits(output, want), layout
            assert tt.equal(mask, kept), layout


def test_long_tensors_are_quantized_by_blocks(device: str) -> None:
    x = tt.tensor(np.random.default_rng(2).normal(size=300_001).astype(np.float32) * 9, device=device)
    output, mask = with_mask(x, 0.1, 3, -40, 40)
    values, kept = expected(x.cpu().numpy(), 0.1, 3, -40, 40)
    np.testing.assert_array_equal(output.cpu().numpy(), values)
    np.testing.assert_array_equal(mask.cpu().numpy(), kept)


def test_a_disabled_quantization_is_a_copy(device: str) -> None:
    x = tt.tensor(GIVEN, device=device)
    disabled = tt.zeros(1, dtype=tt.int64, device=device)
    output, mask = by_tensors(
        x, tt.tensor([0.1], device=device), tt.tensor([0], device=device), disabled, 0, 3
    )
    assert same_bits(output, x)
    assert mask.all()
    assert output.data_ptr() != x.data_ptr()


def test_a_tensor_is_a_zero_point_outside_the_range_too(device: str) -> None:
    x = tt.tensor([0.0, 1.0], device=device)
    zero_point = tt.tensor([300], dtype=tt.int32, device=device)
    got = tt.fake_quantize_per_tensor_affine(x, tt.tensor([0.5], device=device), zero_point, 0, 255)
    assert got.tolist() == [-22.5, -22.5]


def test_into_given_tensors(device: str) -> None:
    x = tt.tensor([[0.04, 0.26], [-0.31, 9.0]], device=device)
    want, kept = with_mask(x, 0.1, 0, -2, 15)
    output = tt.empty(2, 2, device=device).t()
    mask = tt.empty(2, 4, dtype=tt.bool, device=device)[:, ::2]
    got = with_mask.out(x, 0.1, 0, -2, 15, out0=output, out1=mask)
    assert got[0] is output
    assert got[1] is mask
    assert tt.equal(output, want)
    assert tt.equal(mask, kept)
    with pytest.raises(RuntimeError, match=r"Expected out tensor to have dtype triten\.bool, but got"):
        with_mask.out(x, 0.1, 0, -2, 15, out0=output, out1=tt.empty(2, 2, device=device))


@pytest.mark.parametrize("dtype", ["int64", "bool", "complex64", "float8_e5m2"])
def test_other_dtypes_are_refused(dtype: str, device: str) -> None:
    x = tt.zeros(3, device=device).to(getattr(tt, dtype))
    name = "fake_quantize_tensor_cachemask_kernel_type_handling"
    with pytest.raises(NotImplementedError, match=f'"{name}" not implemented for \''):
        tt.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
    with pytest.raises(NotImplementedError, match=f'"{name}" not implemented for \''):
        tt.fake_quantize_per_tensor_affine(x[:0], 0.1, 0, 0, 255)


def test_refusals(device: str) -> None:
    quantize = tt.fake_quantize_per_tensor_affine
    x, one, two = tt.ones(3, device=device), tt.ones(1, device=device), tt.ones(2, device=device)
    zero = tt.zeros(1, dtype=tt.int32, device=device)
    with pytest.raises(
        RuntimeError,
        match="`quant_min` should be less than or equal to `quant_max`, but got quant_min=3 and quant_max=2",
    ):
        quantize(x, 0.1, 0, 3, 2)
    with pytest.raises(RuntimeError, match="`quant_min` should be less than or equal to `quant_max`"):
        quantize(x, one, zero, 3, 2)
    for outside in (-1, 256):
        with pytest.raises(RuntimeError, match=rf"`zero_point` must be between .* zero_point={outside}, "):
            quantize(x, 0.1, outside, 0, 255)
    with pytest.raises(
        RuntimeError, match=r"a Tensor with 2 elements cannot be converted to Scalar: .*`scale`"
    ):
        quantize(x, two, zero, 0, 255)
    with pytest.raises(
        RuntimeError, match=r"a Tensor with 0 elements cannot be converted to Scalar: .*`zero_p"
    ):
        quantize(x, one, zero[:0], 0, 255)
    with pytest.raises(
        RuntimeError, match=r"expected `scale` to be a tensor of real numbers, but got ComplexFl"
    ):
        quantize(x, one + 0j, zero, 0, 255)
    for wrong in ((0.1, 1.5), (0.1, zero), (one, 0)):
        with pytest.raises(TypeError, match="received an invalid combination of arguments"):
            quantize(x, *wrong, 0, 255)
    with pytest.raises(RuntimeError, match="expected `mask` to be of bools, but got Float"):
        backward(x, x)
    with pytest.raises(RuntimeError, match="`mask` is size 2 and `grad` is size 3"):
        backward(x, two > 0)


def test_metadata_alone() -> None:
    x = tt.empty(3, 2, device="meta", dtype=tt.float16).t()
    output, mask = with_mask(x, 0.1, 0, 0, 255)
    assert (output.dtype, mask.dtype) == (tt.float16, tt.bool)
    assert output.is_meta
    assert output.stride() == mask.stride() == x.stride()


@pytest.mark.parametrize("by", ["numbers", "tensors"])
def test_gradients_pass_where_nothing_was_clamped(by: str, device: str) -> None:
    x = tt.tensor([-0.31, 0.04, 0.26, 9.0, NAN], device=device, requires_grad=True)
    numbers: tuple[Any, Any] = (0.1, 0)
    if by == "tensors":
        numbers = (tt.tensor([0.1], device=device), tt.tensor([0], device=device))

    def quantize(x: tt.Tensor) -> tt.Tensor:
        return tt.fake_quantize_per_tensor_affine(x, *numbers, -2, 15)

    (quantize(x) * tt.arange(1.0, 6.0, device=device)).sum().backward()
    assert x.grad.tolist() == [0, 2, 3, 0, 0]
    values = x.detach()
    _, tangent = tt.func.jvp(quantize, (values,), (tt.arange(1.0, 6.0, device=device),))
    assert tangent.tolist() == [0, 2, 3, 0, 0]
    (second,) = tt.autograd.grad(tt.autograd.grad((quantize(x) ** 2).sum(), x, create_graph=True)[0].sum(), x)
    assert second.tolist() == [0, 2, 2, 0, 0]
    assert not with_mask(x, 0.1, 0, -2, 15)[1].requires_grad


def test_examples_together_are_as_one_by_one(device: str) -> None:
    x = tt.tensor(np.random.default_rng(3).normal(size=(3, 4, 5)).astype(np.float32), device=device)
    scales = tt.tensor([0.1, 0.2, 0.5], device=device)
    zero_point = tt.tensor([1], device=device)
    quantize = tt.fake_quantize_per_tensor_affine

    def stacked(function: Any, dim: int) -> tt.Tensor:
        return tt.stack([function(example) for example in x.unbind(dim)])

    for dim in range(3):
        for scale, zero in ((0.1, 1), (scales[:1], zero_point)):

            def one(example: tt.Tensor, scale: Any = scale, zero: Any = zero) -> tt.Tensor:
                return quantize(example, scale, zero, -5, 5)

            assert tt.equal(tt.vmap(one, dim)(x), stacked(one, dim))
            gradient = tt.func.grad(lambda example, one=one: (one(example) ** 2).sum())
            assert tt.equal(tt.vmap(gradient, dim)(x), stacked(gradient, dim))
        masks = tt.vmap(lambda example: with_mask(example, 0.1, 1, -5, 5)[1], dim)(x)
        assert tt.equal(masks, stacked(lambda example: with_mask(example, 0.1, 1, -5, 5)[1], dim))
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # Examples with scales of their own go one by one, which is said once.
        got = tt.vmap(lambda example, scale: quantize(example, scale, zero_point, -5, 5))(x, scales)
    assert tt.equal(got, tt.stack([quantize(x[i], scales[i], zero_point, -5, 5) for i in range(3)]))


def test_autocast_of_the_cpu_computes_in_float32() -> None:
    x = tt.ones(2, dtype=tt.bfloat16)
    with tt.autocast("cpu", dtype=tt.bfloat16):
        assert tt.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255).dtype is tt.float32
