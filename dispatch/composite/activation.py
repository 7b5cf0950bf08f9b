"""Activations made of others (ATen/native/Activation.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.scalar_type import bool_
from ..autograd.formulas import activation
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..plans.delegated import plan_of_part, plan_with_numbers
from ..plans.host_kernel import host_kernel
from ..plans.register import planned_by
from ..scalars import truncated
from ..structured.meta.dims import wrap_dim
from ..structured.supported_dtypes import check_dtype
from .forms import out_form

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number
    from ..tensor import Tensor

SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
"""The fixed point of activations with mean 0 and variance 1 (Klambauer et al., 2017)."""


def hardtanh(self: Tensor, min_val: float, max_val: float) -> Tensor:
    """Compute `clamp`, whose slope is 0 at the bounds themselves."""
    if self.dtype is bool_:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if self.dtype.is_integral and not self.dtype.is_signed and (min_val < 0 or max_val < 0):
        raise RuntimeError(
            "cannot do hardtanh on an unsigned type with negative limits, got "
            f"min_val={min_val} and max_val={max_val}"
        )
    if min_val > max_val:
        raise ValueError(f"min_val cannot be greater than max_val, got {min_val} and {max_val}")
    if self.dtype.is_integral:
        name = self.dtype.name
        min_val, max_val = truncated(min_val, name), truncated(max_val, name)
    return ops.clamp(self, min_val, max_val)


def relu6(self: Tensor) -> Tensor:
    """Compute min(max(0, self), 6)."""
    return ops.hardtanh(self, 0, 6)


def relu6_(self: Tensor) -> Tensor:
    """Apply `relu6` in place."""
    return ops.hardtanh_(self, 0, 6)


def _plan_selu(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    elu_args = (args[0], SELU_ALPHA, SELU_SCALE, 1)
    part = plan_with_numbers(op, key_set, args, "aten::elu", elu_args)
    return op.rebind(selu, args) if part is None else part


@planned_by(_plan_selu)
def selu(self: Tensor) -> Tensor:
    """Compute `elu` with the self-normalizing constants."""
    return ops.elu(self, SELU_ALPHA, SELU_SCALE)


def selu_(self: Tensor) -> Tensor:
    """Apply `selu` in place."""
    return ops.elu_(self, SELU_ALPHA, SELU_SCALE)


def _plan_celu(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    self, alpha = args
    if alpha.__class__ is float and alpha:
        part = plan_of_part(op, key_set, args, "aten::elu", (self, alpha, 1, 1.0))
        if part is not None and op.runtime_positions(args) == [0, 1]:
            return lambda self, alpha: part(self, alpha, 1.0 / alpha) if alpha else celu(self, alpha)
    return op.rebind(celu, args)


@planned_by(_plan_celu)
def celu(self: Tensor, alpha: Number) -> Tensor:
    """Compute `elu` with a continuous slope for every alpha."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return ops.elu(self, alpha, 1, 1.0 / alpha)


def celu_(self: Tensor, alpha: Number) -> Tensor:
    """Apply `celu` in place."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return ops.elu_(self, alpha, 1, 1.0 / alpha)


@host_kernel("elu_backward", "exp", "le.Scalar", "mul.Tensor", "where.self")
def elu_backward(
    grad_output: Tensor,
    alpha: float,
    scale: float,
    input_scale: float,
    is_result: bool,
    self_or_result: Tensor,
) -> Tensor:
    """Return the gradient of `elu`, from its input or from its result."""
    if is_result:
        return activation.elu_backward_of_result(grad_output, self_or_result, alpha, scale, input_scale)
    return activation.elu_backward(grad_output, self_or_result, alpha, scale, input_scale)


def log_sigmoid_forward(self: Tensor) -> tuple[Tensor, Tensor]:
    """Return `log_sigmoid`, and exp(-|x|) as the buffer of its gradient."""
    result = ops.log_sigmoid(self)
    return result, ops.exp(ops.neg(ops.abs(self.detach())))


log_sigmoid_forward_output = out_form("log_sigmoid_forward", log_sigmoid_forward, count=2)


def log_sigmoid_backward(grad_output: Tensor, self: Tensor, buffer: Tensor) -> Tensor:
    """Return the gradient of `log_sigmoid`; like PyTorch's CUDA kernel it does not read the buffer."""
    return activation.log_sigmoid_backward(grad_output, self)


def glu(self: Tensor, dim: int) -> Tensor:
    """Return the first half of a dimension times the sigmoid of the second."""
    if not self._spec.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = self._spec.sizes[wrap_dim(dim, self._spec.ndim)]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    check_dtype("glu", self._spec.dtype, self._spec.device)
    value, gate = ops.narrow(self, dim, 0, size // 2), ops.narrow(self, dim, size // 2, size // 2)
    return ops.mul(value, ops.sigmoid(gate))


def glu_backward(grad_output: Tensor, self: Tensor, dim: int) -> Tensor:
    """Return the gradient of `glu`: that of the values, concatenated with that of the gates."""
    if not self._spec.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    size = self._spec.sizes[wrap_dim(dim, self._spec.ndim)]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {dim} is size {size}")
    value, gate = ops.narrow(self, dim, 0, size // 2), ops.narrow(self, dim, size // 2, size // 2)
    share = ops.sigmoid(gate)
    by_value = ops.mul(grad_output, share)
    by_gate = ops.sigmoid_backward(ops.mul(grad_output, value), share)
    return ops.cat([by_value, by_gate], dim)


@host_kernel("prelu", "gt.Scalar", "mul.Tensor", "where.self")
def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """Return `self` where it is positive, else `self` times a weight: one weight, or one for each channel of dimension
    1.
    """
    if self.dtype is not weight.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {self.dtype.scalar_name} and {weight.dtype.scalar_name}"
        )
    if weight.numel() != 1:
        rank = self._spec.ndim
        if not rank:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = self._spec.sizes[1] if rank > 1 else 1
        if channels != weight.numel():
            raise RuntimeError(
                f"Mismatch of parameter numbers and input channel size. Found parameter numbers = {weight.numel()} "
                f"and channel size = {channels}."
            )
    if weight._spec.ndim > 1:
        raise RuntimeError(
            f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {weight._spec.ndim}"
        )
    if weight._spec.ndim != self._spec.ndim:
        weight = weight.reshape([-1 if d == 1 else 1 for d in range(self._spec.ndim)])
    check_dtype("prelu", self._spec.dtype, self._spec.device)
    return ops._prelu_kernel(self, weight)


def prelu_kernel(self: Tensor, weight: Tensor) -> Tensor:
    """Compute `prelu` with a weight whose shape broadcasts to that of `self`."""
    return ops.where(ops.gt(self, 0), self, ops.mul(weight, self))
