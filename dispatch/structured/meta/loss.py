"""Meta functions of losses (ATen/native/LossNLL.cpp, LossNLL2d.cpp, Loss.cpp).

`reduction` is `NONE`, `MEAN` or `SUM`.
"""

from __future__ import annotations

from ....runtime.scalar_type import bfloat16, float16, float32, float64, int64, uint8
from ....runtime.tensor_spec import TensorSpec
from ...iterator.broadcast import infer_size
from ...iterator.tensor_iterator import TensorIterator
from ..meta_base import MetaBase
from ..operand_checks import check_dtype, check_sizes
from .linalg import check_same_device

NONE, MEAN, SUM = 0, 1, 2


def _check_target(name: str, target: TensorSpec) -> None:
    if target.dtype not in (int64, uint8):
        raise RuntimeError(
            f"{name}: expected target dtype to be Long or Byte, but got {target.dtype.scalar_name}. "
            "Convert the target with target.long()."
        )


def _check_weight(self: TensorSpec, weight: TensorSpec | None, classes: int) -> None:
    if weight is None:
        return
    if weight.numel != classes or weight.ndim != 1:
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {list(weight.sizes)}"
        )
    if weight.dtype is not self.dtype:
        raise RuntimeError(
            f"expected scalar type {self.dtype.scalar_name} but found {weight.dtype.scalar_name}"
        )


def nll_loss_forward(
    meta: MetaBase,
    self: TensorSpec,
    target: TensorSpec,
    weight: TensorSpec | None,
    reduction: int,
    ignore_index: int,
) -> None:
    """Infer the loss of (N, C) or (C) with targets (N) or (), and the sum of the weights that count."""
    _check_nll(self, target, weight)
    per_sample = reduction == NONE and self.ndim == 2
    meta.set_output_raw_strided(0, (self.sizes[0],) if per_sample else (), dtype=self.dtype)
    meta.set_output_raw_strided(1, (), dtype=self.dtype)


def _check_nll(self: TensorSpec, target: TensorSpec, weight: TensorSpec | None) -> None:
    check_same_device("nll_loss", self, target, weight)
    if not 0 < self.ndim <= 2:
        raise RuntimeError("input tensor should be 1D or 2D")
    if target.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    _check_target("nll_loss", target)
    if self.ndim == 1 and target.ndim == 1 and target.numel != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.numel}")
    if self.ndim == 2 and (target.ndim != 1 or self.sizes[0] != target.sizes[0]):
        raise RuntimeError(f"size mismatch (got input: {list(self.sizes)}, target: {list(target.sizes)})")
    _check_weight(self, weight, self.sizes[-1])


def nll_loss2d_forward(
    meta: MetaBase,
    self: TensorSpec,
    target: TensorSpec,
    weight: TensorSpec | None,
    reduction: int,
    ignore_index: int,
) -> None:
    """Infer the loss of (N, C, H, W) with targets (N, H, W)."""
    _check_nll2d(self, target, weight)
    meta.set_output_raw_strided(0, target.sizes if reduction == NONE else (), dtype=self.dtype)
    meta.set_output_raw_strided(1, (), dtype=self.dtype)


def _check_nll2d(self: TensorSpec, target: TensorSpec, weight: TensorSpec | None) -> None:
    check_same_device("nll_loss2d", self, target, weight)
    if target.ndim != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{target.ndim}"
        )
    if self.ndim != 4:
        raise RuntimeError(
            f"only batches of spatial inputs supported (4D tensors), but got input of dimension: {self.ndim}"
        )
    if (self.sizes[0], *self.sizes[2:]) != target.sizes:
        raise RuntimeError(f"size mismatch (got input: {list(self.sizes)} , target: {list(target.sizes)}")
    _check_target("nll_loss2d", target)
    _check_weight(self, weight, self.sizes[1])


def nll_loss_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    self: TensorSpec,
    target: TensorSpec,
    weight: TensorSpec | None,
    reduction: int,
    ignore_index: int,
    total_weight: TensorSpec,
) -> None:
    """Infer the gradient of the input, which is zero except at the target's class."""
    (_check_nll2d if "2d" in meta.name else _check_nll)(self, target, weight)
    check_same_device(meta.name, self, grad_output, target, weight, total_weight)
    check_dtype(meta.name, "grad_output", grad_output, self.dtype)
    check_dtype(meta.name, "self", self, float16, bfloat16, float32, float64)
    if total_weight.numel != 1:
        raise RuntimeError(
            f"expected total_weight to be a single element tensor, but got {list(total_weight.sizes)} (in {meta.name})"
        )
    expected = target.sizes if reduction == NONE and self.ndim > 1 else ()
    if grad_output.sizes != expected and grad_output.numel != 1:
        raise RuntimeError(
            f"Expected a tensor of size {list(expected)} for grad_output, but got {list(grad_output.sizes)} "
            f"(in {meta.name})"
        )
    meta.set_output_raw_strided(0, self.sizes, dtype=self.dtype)


def _cross_entropy_forward(
    meta: MetaBase,
    self: TensorSpec,
    target: TensorSpec,
    weight: TensorSpec | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: type[float],
    half_to_float: bool,
) -> None:
    """Infer the loss and what its gradient needs, of (C) or (N, C, ...) with classes (), (N, ...) or probabilities.

    Backward needs three statistics of each sample, in this order: the largest score, the log of the sum of exponentials
    relative to it, and the sum of the target's weights. It also needs the divisor of the mean, 0 without a reduction.
    """
    classes, samples = _check_cross_entropy(meta.name, self, target)
    check_same_device(meta.name, self, target, weight)
    if half_to_float and self.dtype not in (float16, bfloat16):
        raise RuntimeError(
            f"{meta.name}: conversion is supported for Half and BFloat16 only, got {self.dtype.scalar_name}"
        )
    dtype = float32 if half_to_float else self.dtype
    _check_weight(self.replace(dtype=dtype), weight, classes)
    statistics_dtype = float64 if self.dtype is float64 else float32
    meta.set_output_contiguous(0, samples if reduction == NONE else (), dtype=dtype)
    meta.set_output_contiguous(1, (3, *samples), dtype=statistics_dtype)
    meta.set_output_contiguous(2, (), dtype=statistics_dtype)


def _check_cross_entropy(name: str, self: TensorSpec, target: TensorSpec) -> tuple[int, tuple[int, ...]]:
    """Return the number of classes, and the sizes of the samples."""
    if self.ndim < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {self.ndim})")
    classes = self.sizes[0 if self.ndim == 1 else 1]
    samples = self.sizes[:0] if self.ndim == 1 else (self.sizes[0], *self.sizes[2:])
    if target.dtype.is_floating_point:
        if target.sizes != self.sizes or target.dtype is not self.dtype:
            raise RuntimeError(
                f"{name}: expected probabilities of size {list(self.sizes)} and dtype "
                f"{self.dtype.scalar_name}, but got {list(target.sizes)} and {target.dtype.scalar_name}"
            )
    else:
        _check_target(name, target)
        if target.sizes != samples:
            raise RuntimeError(f"Expected target size {list(samples)}, got {list(target.sizes)}")
    return classes, samples


def _cross_entropy_backward(
    meta: MetaBase,
    grad_output: TensorSpec,
    self: TensorSpec,
    target: TensorSpec,
    weight: TensorSpec | None,
    statistics: TensorSpec,
    total_weight: TensorSpec,
    reduction: int,
    ignore_index: int,
    label_smoothing: type[float],
) -> None:
    """Infer the gradient of the scores, in their dtype."""
    classes, samples = _check_cross_entropy(meta.name, self, target)
    check_same_device(meta.name, self, grad_output, target, weight, statistics, total_weight)
    check_sizes(meta.name, "weight", weight, (classes,))
    check_sizes(meta.name, "statistics", statistics, (3, *samples))
    check_sizes(meta.name, "total_weight", total_weight, ())
    for argument, spec in (("statistics", statistics), ("total_weight", total_weight)):
        check_dtype(meta.name, argument, spec, float64 if self.dtype is float64 else float32)
    # Gradients of 16-bit inputs that were widened are float32, as are the weights.
    dtypes = (self.dtype, float32) if self.dtype in (float16, bfloat16) else (self.dtype,)
    check_dtype(meta.name, "grad_output", grad_output, *dtypes)
    check_dtype(meta.name, "weight", weight, *dtypes)
    if grad_output.sizes != (samples if reduction == NONE else ()):
        raise RuntimeError(
            f"{meta.name}: expected grad_output of size {list(samples if reduction == NONE else ())}, but got "
            f"{list(grad_output.sizes)}"
        )
    meta.set_output_raw_strided(0, self.sizes, dtype=self.dtype)


def mse_loss(meta: MetaBase, self: TensorSpec, target: TensorSpec, reduction: int) -> None:
    """Infer (self - target) ** 2, broadcast and promoted, then reduced."""
    iterator = TensorIterator.binary_op(meta.maybe_get_output() if reduction == NONE else None, self, target)
    if reduction == NONE:
        meta.build(iterator)
        return
    meta.iterator = iterator
    meta.set_output_raw_strided(0, (), dtype=iterator.common_dtype)


def mse_loss_backward(
    meta: MetaBase, grad_output: TensorSpec, self: TensorSpec, target: TensorSpec, reduction: int
) -> None:
    """Infer 2 * (self - target) * grad_output, divided by the number of elements for the mean."""
    check_same_device(meta.name, self, target, grad_output)
    sizes = infer_size(self.sizes, target.sizes)
    if infer_size(grad_output.sizes, sizes) != sizes:
        raise RuntimeError(
            f"mse_loss_backward: grad_output of shape {list(grad_output.sizes)} does not broadcast to {list(sizes)}"
        )
    meta.build(TensorIterator.binary_op(meta.maybe_get_output(), self, target))
