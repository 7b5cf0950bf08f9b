"""Losses made of others, cross entropy among them (ATen/native/LossNLL.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...runtime.dispatch_key import AUTOCAST_BIT
from ...runtime.local_dispatch_key_set import effective
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..structured.native.loss import MEAN, NONE
from ..structured.register import planned_by
from ..tensor import Tensor


def reduced(loss: Any, reduction: int) -> Any:
    """A loss for each element as asked: itself, its mean, its sum."""
    if reduction == NONE:
        return loss
    return loss.mean() if reduction == MEAN else loss.sum()


def nll_loss(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    """Negative log likelihood of (N, C) or (C)."""
    return ops.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


def nll_loss2d(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    """Negative log likelihood of (N, C, H, W)."""
    return ops.nll_loss2d_forward(self, target, weight, reduction, ignore_index)[0]


def nll_loss_nd(self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    """Negative log likelihood of any rank: (C), (N, C) or (N, C, d1, d2, ...)."""
    rank = self.dim()
    if rank < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {rank})")
    if rank != 1 and self.shape[0] != target.shape[0]:
        raise ValueError(
            f"Expected input batch_size ({self.shape[0]}) to match target batch_size ({target.shape[0]})."
        )
    if rank <= 2:
        return nll_loss(self, target, weight, reduction, ignore_index)
    if rank == 4:
        return nll_loss2d(self, target, weight, reduction, ignore_index)
    n, c = self.shape[:2]
    out_size = (n, *self.shape[2:])
    if tuple(target.shape) != out_size:
        raise RuntimeError(f"Expected target size {list(out_size)}, got {list(target.shape)}")
    spatial = math.prod(self.shape[2:])
    flat = self.contiguous().reshape((n, c, 1, spatial))
    loss = nll_loss2d(flat, target.contiguous().reshape((n, 1, spatial)), weight, reduction, ignore_index)
    return loss.reshape(out_size) if reduction == NONE else loss


def plan_cross_entropy(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Class indices for (N, C), without smoothing, are planned as `_log_softmax` and `nll_loss_forward`."""
    self, target, weight, reduction, ignore_index, _ = args
    composed = op.rebind(cross_entropy_loss, args)
    sizes, target_sizes = self._spec.sizes, target._spec.sizes
    if len(sizes) != 2 or sizes == target_sizes or sizes[:1] != target_sizes[:1]:
        return composed
    if key_set & AUTOCAST_BIT:
        # Autocast knows `log_softmax` and `nll_loss`, of which the composition is made, and not their parts.
        return composed
    find = Dispatcher.singleton().find_schema_or_throw
    softmax, loss = find("aten::_log_softmax"), find("aten::nll_loss_forward")
    likelihood_plan = softmax.plan(effective(softmax.key_set_of((self,))), (self, 1, False))
    likelihood = likelihood_plan(self)
    if self._spec.requires_grad:
        likelihood = Tensor.from_data(likelihood._data, likelihood._spec.differentiable)
    given = (likelihood, target, weight, reduction, ignore_index)
    loss_plan = loss.plan(effective(loss.key_set_of(given)), given)

    def planned(self: Any, target: Any, weight: Any, label_smoothing: Any) -> Any:
        if label_smoothing > 0.0:
            return composed(self, target, weight, label_smoothing)
        return loss_plan(likelihood_plan(self), target, weight)[0]

    return planned


@planned_by(plan_cross_entropy)
def cross_entropy_loss(
    self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, label_smoothing: float
) -> Any:
    """Cross entropy with class indices, or with probabilities where `target` has the shape of `self`."""
    if self.shape == target.shape:
        if not target.is_floating_point():
            raise RuntimeError(
                "Expected floating point type for target with class probabilities, got "
                f"{target.dtype.scalar_name}"
            )
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _with_probabilities(self, target, weight, reduction, label_smoothing)
    if label_smoothing > 0.0:
        if label_smoothing > 1.0:
            raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
        return _with_label_smoothing(self, target, weight, reduction, ignore_index, label_smoothing)
    return nll_loss_nd(ops.log_softmax(self, _class_dim(self)), target, weight, reduction, ignore_index)


def _class_dim(self: Any) -> int:
    return 0 if self.dim() == 1 else 1


def _aligned(weight: Any, rank: int, classes: int, class_dim: int) -> Any:
    """Class weights shaped to broadcast along the class dimension."""
    if weight.dim() != 1 or weight.numel() != classes:
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape)}"
        )
    return weight.reshape([classes if d == class_dim else 1 for d in range(rank)])


def _with_probabilities(self: Any, target: Any, weight: Any, reduction: int, label_smoothing: float) -> Any:
    class_dim = _class_dim(self)
    classes = self.shape[class_dim]
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if label_smoothing > 0.0:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    terms = ops.log_softmax(self, class_dim) * target
    if weight is not None:
        terms = terms * _aligned(weight, self.dim(), classes, class_dim)
    if reduction == NONE:
        return -terms.sum(class_dim)
    total = -terms.sum()
    if reduction == MEAN:
        samples = self.numel() // classes if classes else 0
        return total / samples if samples else total * math.nan
    return total


def _with_label_smoothing(
    self: Any, target: Any, weight: Any, reduction: int, ignore_index: int, label_smoothing: float
) -> Any:
    class_dim = _class_dim(self)
    classes = self.shape[class_dim]
    likelihood = ops.log_softmax(self, class_dim)
    nll = nll_loss_nd(likelihood, target, weight, reduction, ignore_index)
    weighted = likelihood if weight is None else likelihood * _aligned(weight, self.dim(), classes, class_dim)
    ignored = ops.eq(target, ignore_index)
    smooth = ops.masked_fill(-weighted.sum(class_dim), ignored, 0)
    if reduction == MEAN:
        counted = ops.eq(ignored, False).to(smooth.dtype)
        if weight is not None:
            chosen = ops.masked_fill(target, ignored, 0).reshape(-1)
            counted = counted.reshape(-1) * ops.gather(weight, 0, chosen)
        smooth = smooth.sum() / counted.sum()
    elif reduction != NONE:
        smooth = smooth.sum()
    return nll * (1.0 - label_smoothing) + smooth * (label_smoothing / classes)


def l1_loss(self: Any, target: Any, reduction: int) -> Any:
    """|self - target|."""
    return reduced(ops.abs(self - target), reduction)


def smooth_l1_loss(self: Any, target: Any, reduction: int, beta: float) -> Any:
    """Squared below `beta`, linear above."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(self, target, reduction)
    gap = self - target
    distance = ops.abs(gap)
    return reduced(
        ops.where(ops.lt(distance, beta), gap * gap * (0.5 / beta), distance - 0.5 * beta), reduction
    )


def huber_loss(self: Any, target: Any, reduction: int, delta: float) -> Any:
    """Squared up to `delta`, linear above, continuous in slope."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    gap = self - target
    distance = ops.abs(gap)
    return reduced(
        ops.where(ops.lt(distance, delta), gap * gap * 0.5, (distance - 0.5 * delta) * delta), reduction
    )
