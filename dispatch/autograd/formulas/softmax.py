"""Derivative formulas of softmax and log_softmax, including second derivatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...generated import functions as ops

if TYPE_CHECKING:
    from ...tensor import Tensor


def softmax_double_backward(grad: Tensor, grad_output: Tensor, dim: int, output: Tensor) -> Tensor:
    """Differentiate `_softmax_backward_data` by the output."""
    inner = ops.sum(output * grad_output, dim, keepdim=True)
    outer = ops.sum(output * grad, dim, keepdim=True)
    return grad_output * grad - inner * grad - grad_output * outer


def log_softmax_grad_backward(grad: Tensor, dim: int, output: Tensor) -> Tensor:
    """Differentiate `_log_softmax_backward_data` by the gradient of the output."""
    return grad - ops.sum(grad * ops.exp(output), dim, keepdim=True)


def log_softmax_double_backward(grad: Tensor, grad_output: Tensor, dim: int, output: Tensor) -> Tensor:
    """Differentiate `_log_softmax_backward_data` by the output."""
    return -(ops.exp(output) * ops.sum(grad_output, dim, keepdim=True) * grad)


def softmax_jvp(tangent: Tensor, result: Tensor, dim: int) -> Tensor:
    """Return the tangent of softmax."""
    weighted = result * tangent.to(result.dtype)
    return weighted - result * ops.sum(weighted, dim, keepdim=True)


def log_softmax_jvp(tangent: Tensor, result: Tensor, dim: int) -> Tensor:
    """Return the tangent of log_softmax."""
    tangent = tangent.to(result.dtype)
    return tangent - ops.sum(ops.exp(result) * tangent, dim, keepdim=True)
