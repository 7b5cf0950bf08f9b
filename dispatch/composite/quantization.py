"""Fake quantization, whose mask only its derivative reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.scalar_type import bool_, int64
from ..core.dispatcher import Dispatcher
from ..generated.functions import _fake_quantize_per_tensor_affine_cachemask_tensor_qparams, ones

if TYPE_CHECKING:
    from ..tensor import Tensor


def fake_quantize_per_tensor_affine(
    self: Tensor, scale: float, zero_point: int, quant_min: int, quant_max: int
) -> Tensor:
    """Compute `torch.fake_quantize_per_tensor_affine`."""
    find = Dispatcher.singleton().find_schema_or_throw
    with_mask = find("aten::fake_quantize_per_tensor_affine_cachemask")
    return with_mask.call(self, scale, zero_point, quant_min, quant_max)[0]  # type: ignore[no-any-return]


def fake_quantize_by_tensors(
    self: Tensor, scale: Tensor, zero_point: Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """Fake-quantize with tensors for the scale and zero point."""
    enabled = ones(1, dtype=int64, device=self.device)
    return _fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
        self, scale, zero_point, enabled, quant_min, quant_max
    )[0]


def fake_quantize_per_tensor_affine_cachemask_backward(grad: Tensor, mask: Tensor) -> Tensor:
    """Return the gradient where the mask is True, else 0."""
    name = "fake_quantize_per_tensor_affine_cachemask_backward"
    if mask.dtype is not bool_:
        raise RuntimeError(f"{name}: expected `mask` to be of bools, but got {mask.dtype.scalar_name}")
    if mask.numel() != grad.numel():
        raise RuntimeError(
            f"{name}: `mask` and `grad` are not the same size: `mask` is size {mask.numel()} and `grad` is size "
            f"{grad.numel()}"
        )
    return grad * mask
