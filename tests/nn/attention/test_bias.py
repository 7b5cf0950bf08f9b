"""Causal masks by their name: the results of PyTorch's, and its refusals."""

from __future__ import annotations

import math
import warnings

import pytest

import triten as tt
from triten.nn import attention
from triten.nn.attention.bias import CausalBias, CausalVariant, causal_lower_right, causal_upper_left

attend = tt.nn.functional.scaled_dot_product_attention


def operand(device: str, *shape: int) -> tt.Tensor:
    """Return numbers between -1 and 1 with a period of eleven."""
    return ((tt.arange(float(math.prod(shape))) * 7 % 11 - 5) / 5).reshape(shape).to(device)


def operands(device: str) -> tuple[tt.Tensor, tt.Tensor, tt.Tensor]:
    return operand(device, 1, 2, 3, 4), operand(device, 1, 2, 4, 4), operand(device, 1, 2, 4, 3)


@pytest.mark.parametrize(
    ("bias", "expected", "of_other_scale"),
    [
        (
            causal_upper_left(3, 4),
            [-1.0, 0.4, -0.4, 0.4219, 0.2578, -0.5422, 0.4109, 0.1247, -0.6753],
            [-1.0, 0.4, -0.4, 0.2636, 0.2736, -0.5264, 0.3393, 0.1563, -0.6437],
        ),
        (
            causal_lower_right(3, 4),
            [-0.6469, 0.3647, -0.4353, 0.5093, 0.1982, -0.6018, 0.4336, 0.0858, -0.7142],
            [-0.4317, 0.3432, -0.4568, 0.4105, 0.1987, -0.6013, 0.3833, 0.0962, -0.7038],
        ),
        (
            causal_lower_right(3, 3),
            [-1.0, 0.4, -0.4, 0.4219, 0.2578, -0.5422, 0.4109, 0.1247, -0.6753],
            [-1.0, 0.4, -0.4, 0.2636, 0.2736, -0.5264, 0.3393, 0.1563, -0.6437],
        ),
    ],
    ids=["upper left", "lower right", "square"],
)
def test_results(bias: CausalBias, expected: list[float], of_other_scale: list[float], device: str) -> None:
    q, k, v = operands(device)
    k, v = k[:, :, : bias.seq_len_kv], v[:, :, : bias.seq_len_kv]
    output = attend(q, k, v, bias)
    assert type(output) is tt.Tensor
    for result, numbers in ((output, expected), (attend(q, k, v, attn_mask=bias, scale=0.3), of_other_scale)):
        tt.testing.assert_close(result[0, 0].flatten().cpu(), tt.tensor(numbers), atol=1e-4, rtol=0)


def test_grouped_heads_and_gradients(device: str) -> None:
    _, k, v = operands(device)
    q = operand(device, 1, 4, 3, 4).requires_grad_()
    output = attend(q, k, v, causal_lower_right(3, 4), enable_gqa=True)
    expected = [0.2435, -0.5565, 0.8435, 0.2027, -0.5973, 0.8027, 0.1, -0.7, 0.7]
    tt.testing.assert_close(output[0, 3].flatten().cpu(), tt.tensor(expected), atol=1e-4, rtol=0)
    mask = tt.ones(3, 4, dtype=tt.bool, device=device).tril(1)
    wanted = tt.autograd.grad(attend(q, k, v, mask, enable_gqa=True).square().sum(), q)
    tt.testing.assert_close(tt.autograd.grad(output.square().sum(), q), wanted)


def test_what_it_is() -> None:
    bias = causal_lower_right(2, 3)
    assert isinstance(bias, tt.Tensor)
    assert (bias.variant, bias.seq_len_q, bias.seq_len_kv) == (CausalVariant.LOWER_RIGHT, 2, 3)
    assert repr(bias) == "tensor([[ True,  True, False],\n        [ True,  True,  True]])"
    assert causal_upper_left(2, 3)._materialize("cpu").int().tolist() == [[1, 0, 0], [1, 1, 0]]
    assert [one.value for one in CausalVariant] == [1, 2]


def test_refusals(device: str) -> None:
    q, k, v = operands(device)
    bias = causal_lower_right(3, 4)
    with pytest.raises(ValueError, match="should not be used with causal=True"):
        attend(q, k, v, bias, is_causal=True)
    with pytest.raises(ValueError, match=r"same dtype, but got query\.dtype: triten\.float32"):
        attend(q, k.double(), v, bias)
    with pytest.raises(ValueError, match="same device type"):
        attend(q, k.to("meta"), v, bias)
    with pytest.raises(ValueError, match="at least 2 dimensional"):
        attend(q, k[0, 0, 0], v, bias)
    for make in (causal_lower_right, causal_upper_left):
        with pytest.raises(AssertionError, match="only supports 2D tensors"):
            make(3)
    with pytest.raises(AssertionError, match="variant must be a CausalVariant, got int"):
        CausalBias(1, 2, 3)


def test_warnings(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(UserWarning, match="will produce NaNs"):
        causal_lower_right(4, 3)
    q, k, v = operands(device)
    bias = causal_lower_right(3, 4)
    wide = [one.double() for one in (q, k, v)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        attend(*wide, bias)
        monkeypatch.setattr(attention, "WARN_FOR_UNFUSED_KERNELS", True)
        attend(q, k, v, bias)
    with pytest.warns(UserWarning, match="can't be used"):
        attend(*wide, bias)
