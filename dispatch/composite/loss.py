"""Losses made of others, cross entropy among them (ATen/native/LossNLL.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import (
    ADINPLACE_BIT,
    AUTOCAST_BIT,
    AUTOGRAD_BITS,
    BACKEND_MASK,
    Functionality,
    functionality_bit,
)
from ...runtime.local_dispatch_key_set import effective
from ...runtime.scalar_type import bfloat16, float16, float32, int64, uint8
from ..autograd.tangents import all_examples
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.mode_stack import sees_whole
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..iterator.type_promotion import can_cast, promote_types, result_type_of
from ..plans.delegated import first_of, plan_of_part
from ..plans.host_kernel import HostPlanner, host_kernel
from ..plans.register import planned_by
from ..scalars import real, truncated
from ..structured.meta.loss import MEAN, NONE, SUM
from ..structured.supported_dtypes import check_dtype
from ..tensor import Tensor
from .forms import out_form

if TYPE_CHECKING:
    from ...runtime.scalar_type import Number


def reduced(loss: Tensor, reduction: int) -> Tensor:
    """Return the elementwise loss, its mean, or its sum."""
    if reduction == NONE:
        return loss
    return loss.mean() if reduction == MEAN else loss.sum()


def nll_loss(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    """Compute the negative log likelihood of (N, C) or (C)."""
    return ops.nll_loss_forward(self, target, weight, reduction, ignore_index)[0]


def nll_loss2d(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    """Compute the negative log likelihood of (N, C, H, W)."""
    return ops.nll_loss2d_forward(self, target, weight, reduction, ignore_index)[0]


def _plan_nll_loss_nd(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan (N, C) and (N, C, H, W) as the operator that also returns the sum of the weights."""
    self, target, *_ = args
    sizes, rank = self._spec.sizes, self._spec.ndim
    part = None
    # Autocast lists `nll_loss`, not the operator that it delegates to.
    if rank in (2, 4) and sizes[:1] == target._spec.sizes[:1] and not key_set & AUTOCAST_BIT:
        name = "aten::nll_loss_forward" if rank == 2 else "aten::nll_loss2d_forward"
        part = plan_of_part(op, key_set, args, name, args)
    return op.rebind(nll_loss_nd, args) if part is None else first_of(part)


@planned_by(_plan_nll_loss_nd)
def nll_loss_nd(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, ignore_index: int
) -> Tensor:
    """Compute the negative log likelihood of (C), (N, C) or (N, C, d1, d2, ...). Autocast lists its parts."""
    rank = self.dim()
    if rank < 1:
        raise ValueError(f"Expected 1 or more dimensions (got {rank})")
    if rank != 1 and (not target.ndim or self.shape[0] != target.shape[0]):
        raise ValueError(
            f"Expected input batch_size ({self.shape[0]}) to match target batch_size "
            f"({target.shape[0] if target.ndim else 0})."
        )
    if rank <= 2:
        return ops.nll_loss(self, target, weight, reduction, ignore_index)
    if rank == 4:
        return ops.nll_loss2d(self, target, weight, reduction, ignore_index)
    n, c = self.shape[:2]
    out_size = (n, *self.shape[2:])
    if tuple(target.shape) != out_size:
        raise RuntimeError(f"Expected target size {list(out_size)}, got {list(target.shape)}")
    spatial = math.prod(self.shape[2:])
    flat = self.contiguous().reshape((n, c, 1, spatial))
    loss = ops.nll_loss2d(flat, target.contiguous().reshape((n, 1, spatial)), weight, reduction, ignore_index)
    return loss.reshape(out_size) if reduction == NONE else loss


_plan_of_positions = HostPlanner("cross_entropy_loss", "_log_softmax", "nll_loss2d_forward")
"""Of (N, C, d1, ...): class indices at positions."""


_FUSED_BITS = BACKEND_MASK | functionality_bit(Functionality.Dense) | AUTOGRAD_BITS | ADINPLACE_BIT
"""Key sets of calls that only autograd intercepts."""


def _plan_fused(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan one operator on a GPU. Return None, for the composite, for rare options and errors.

    Traces and transforms see the composite's operators. Autocast makes those return float32. This operator does too,
    and reads 16-bit scores directly.
    """
    self, target, weight, reduction, ignore_index, _ = args
    spec, of_target = self._spec, target._spec
    if (
        spec.device.type != "cuda"
        or key_set & ~(_FUSED_BITS | AUTOCAST_BIT)
        or not spec.ndim
        or not spec.numel
    ):
        return None
    if reduction not in (NONE, MEAN, SUM) or not spec.dtype.is_floating_point:
        return None
    widens = bool(key_set & AUTOCAST_BIT) and spec.dtype in (float16, bfloat16)
    samples = spec.sizes[:0] if spec.ndim == 1 else (spec.sizes[0], *spec.sizes[2:])
    if of_target.sizes == spec.sizes:
        fits = of_target.dtype is spec.dtype and ignore_index < 0
    else:
        fits = of_target.sizes == samples and of_target.dtype in (int64, uint8)
    other_specs = [of_target] if weight is None else [of_target, weight._spec]
    if weight is not None:
        classes = spec.sizes[0 if spec.ndim == 1 else 1]
        fits = fits and weight._spec.sizes == (classes,)
        fits = fits and weight._spec.dtype is (float32 if widens else spec.dtype)
    if not fits or any(other.device is not spec.device or other.requires_grad for other in other_specs):
        return None
    loss = plan_of_part(op, key_set, args, "aten::_cross_entropy_forward", (*args, widens))
    if loss is None:
        return None
    composed, fused = op.rebind(cross_entropy_loss, args), first_of(loss)

    def planned(self: Tensor, target: Tensor, weight: Tensor | None, label_smoothing: float) -> Any:
        if not 0.0 <= label_smoothing <= 1.0:
            return composed(self, target, weight, label_smoothing)
        return fused(self, target, weight, label_smoothing)

    return planned


def plan_cross_entropy(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan one operator on a GPU. Elsewhere, plan class indices for (N, C) as `_log_softmax` and `nll_loss_forward`."""
    self, target, weight, reduction, ignore_index, _ = args
    fused = _plan_fused(op, key_set, args)
    if fused is not None:
        return fused
    composed = op.rebind(cross_entropy_loss, args)
    sizes, target_sizes = self._spec.sizes, target._spec.sizes
    if len(sizes) > 2:
        return _plan_of_positions(op, key_set, args) or composed
    if len(sizes) != 2 or sizes == target_sizes or sizes[:1] != target_sizes[:1]:
        return composed
    if key_set & AUTOCAST_BIT:
        # Autocast lists `log_softmax` and `nll_loss`, the parts of the composite, not their parts.
        return composed
    find = Dispatcher.singleton().find_schema_or_throw
    softmax, loss = find("aten::_log_softmax"), find("aten::nll_loss_forward")
    likelihood_plan = softmax.plan(effective(softmax.key_set_of((self,))), (self, 1, False))
    likelihood = likelihood_plan(self)
    if self._spec.requires_grad:
        likelihood = Tensor.from_data(likelihood._data, likelihood._spec.differentiable)
    loss_args = (likelihood, target, weight, reduction, ignore_index)
    loss_plan = loss.plan(effective(loss.key_set_of(loss_args)), loss_args)

    def planned(self: Tensor, target: Tensor, weight: Tensor | None, label_smoothing: float) -> Any:
        if label_smoothing > 0.0:
            return composed(self, target, weight, label_smoothing)
        return loss_plan(likelihood_plan(self), target, weight)[0]

    return planned


@planned_by(plan_cross_entropy)
def cross_entropy_loss(
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    """Compute cross entropy with class indices, or with probabilities if `target` has the shape of `self`."""
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
        if not self.dim():
            raise IndexError("Dimension specified as 0 but tensor has no dimensions")
        return _with_label_smoothing(self, target, weight, reduction, ignore_index, label_smoothing)
    return nll_loss_nd(ops.log_softmax(self, _class_dim(self)), target, weight, reduction, ignore_index)


def _class_dim(self: Tensor) -> int:
    return 0 if self.dim() == 1 else 1


def _aligned(weight: Tensor, rank: int, classes: int, class_dim: int) -> Tensor:
    """Return class weights shaped to broadcast along the class dimension."""
    if weight.dim() != 1 or weight.numel() != classes:
        raise RuntimeError(
            f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes "
            f"but got weight tensor of shape: {list(weight.shape)}"
        )
    return weight.reshape([classes if d == class_dim else 1 for d in range(rank)])


def _with_probabilities(
    self: Tensor, target: Tensor, weight: Tensor | None, reduction: int, label_smoothing: float
) -> Tensor:
    class_dim = _class_dim(self)
    classes = self.shape[class_dim]
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    likelihood = ops.log_softmax(self, class_dim)
    if label_smoothing > 0.0:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    terms = likelihood * target
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
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: float,
) -> Tensor:
    class_dim = _class_dim(self)
    classes = self.shape[class_dim]
    likelihood = ops.log_softmax(self, class_dim)
    nll = nll_loss_nd(likelihood, target, weight, reduction, ignore_index)
    weighted = likelihood if weight is None else likelihood * _aligned(weight, self.dim(), classes, class_dim)
    smoothed = -weighted.sum(class_dim)
    ignored = ops.eq(target, ignore_index)
    smooth = smoothed.masked_fill_(ignored, 0.0) if sees_whole() else ops.masked_fill(smoothed, ignored, 0.0)
    if reduction == MEAN:
        if weight is not None and sees_whole():
            chosen = ops.masked_fill(target, ignored, 0).flatten()
            counted = ops.gather(weight, 0, chosen).masked_fill_(ignored.flatten(), 0)
        else:
            counted = ops.bitwise_not(ignored)
            if weight is not None:
                chosen = ops.masked_fill(target, ignored, 0).reshape(-1)
                counted = counted.reshape(-1) * ops.gather(weight, 0, chosen)
        smooth = smooth.sum() / counted.sum()
    elif reduction != NONE:
        smooth = smooth.sum()
    return nll * (1.0 - label_smoothing) + smooth * (label_smoothing / classes)


def l1_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Compute ``|self - target|``, reduced."""
    return reduced(ops.abs(self - target), reduction)


def check_common(operator: str, self: Tensor, target: Tensor) -> None:
    """Raise an error for a loss's common dtype that the operator does not support."""
    check_dtype(operator, result_type_of([self._spec, target._spec]), self._spec.device)


_OF_GAPS = ("sub.Tensor", "clamp", "mul.Tensor", "mean", "sum")


@host_kernel("smooth_l1_loss", *_OF_GAPS, "div.Tensor")
def smooth_l1_loss(self: Tensor, target: Tensor, reduction: int, beta: float) -> Tensor:
    """Compute a loss that is quadratic below `beta` and linear above."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    if beta == 0:
        return l1_loss(self, target, reduction)
    check_common("smooth_l1_loss", self, target)
    return reduced(ops._huber_terms(self, target, beta) / beta, reduction)


@host_kernel("huber_loss", *_OF_GAPS)
def huber_loss(self: Tensor, target: Tensor, reduction: int, delta: float) -> Tensor:
    """Compute a loss that is quadratic up to `delta` and linear above, with a continuous slope."""
    if not delta > 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    dtype, common = self._spec.dtype, result_type_of([self._spec, target._spec])
    if not can_cast(common, dtype):
        raise RuntimeError(
            f"result type {common.scalar_name} can't be cast to the desired output type {dtype.scalar_name}"
        )
    check_common("huber_loss", self, target)
    terms = ops._huber_terms(self, target, delta)
    return reduced(terms if common is dtype else terms.to(dtype), reduction)


def _of_terms(grad_output: Tensor, slope: Tensor, reduction: int) -> Tensor:
    """Return the gradient of a reduced loss: the slope of each term, times the gradient of the result."""
    grad = ops.mul(grad_output, slope)
    return ops.div(grad, slope.numel()) if reduction == MEAN else grad


def smooth_l1_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, beta: float
) -> Tensor:
    """Return the gradient of `smooth_l1_loss` by its input."""
    gap = ops.sub(self, target)
    slope = ops.clamp(ops.div(gap, beta), -1, 1) if beta else ops.sign(gap)
    return _of_terms(grad_output, slope, reduction)


def huber_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, delta: float
) -> Tensor:
    """Return the gradient of `huber_loss` by its input."""
    return _of_terms(grad_output, ops.clamp(ops.sub(self, target), -delta, delta), reduction)


huber_loss_backward_out = out_form("huber_loss_backward", huber_loss_backward)


def huber_terms(self: Tensor, target: Tensor, delta: float) -> Tensor:
    """Return each element's loss: half the squared difference, and a line of the same slope beyond `delta`."""
    gap = self - target
    near = ops.clamp(gap, -delta, delta)
    return ops.sub(gap, near, alpha=0.5) * near


def kl_div(self: Tensor, target: Tensor, reduction: int, log_target: bool) -> Tensor:
    """Compute target * (log(target) - self); 0 where the target is 0, nan where it is negative."""
    if self._spec.dtype.is_complex or target._spec.dtype.is_complex:
        raise RuntimeError("kl_div: Complex inputs not supported.")
    if not (self._spec.dtype.is_floating_point and target._spec.dtype.is_floating_point):
        raise RuntimeError("kl_div: Integral inputs not supported.")
    if log_target:
        difference = ops.sub(target, self)
        loss = ops.mul(ops.exp(target), difference)
    else:
        product = ops.mul(target, self)
        loss = ops.sub(ops.xlogy(target, target), product)
    return reduced(loss, reduction)


def hinge_embedding_loss(self: Tensor, target: Tensor, margin: float, reduction: int) -> Tensor:
    """Compute `self` where the target is 1, max(0, margin - self) where it is -1."""
    if not (self._spec.dtype.is_floating_point or self._spec.dtype.is_complex):
        margin = truncated(margin, self._spec.dtype.name)
    zeros = ops.zeros_like(self)
    gap = ops.clamp_min_(ops.sub_(ops.fill_(ops.empty_like(self), margin), self), 0)
    far = ops.where(ops.ne(target, 1), gap, zeros)
    near = ops.where(ops.ne(target, -1), self, zeros)
    return reduced(ops.add(near, far), reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    """Compute max(0, -target * (input1 - input2) + margin)."""
    difference = ops.sub(input1, input2)
    return reduced(ops.clamp_min_(ops.add(ops.mul(ops.neg(target), difference), margin), 0), reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float, reduction: int
) -> Tensor:
    """Compute 1 - cos where the target is 1, max(0, cos - margin) where it is -1."""
    rank = target._spec.ndim
    if rank not in (0, 1):
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if rank == 1 and not (input1._spec.ndim == input2._spec.ndim == 2):
        raise RuntimeError(
            "1D target tensor expects 2D input tensors, but found inputs with sizes "
            f"{list(input1._spec.sizes)} and {list(input2._spec.sizes)}."
        )
    if rank == 0 and not (input1._spec.ndim == input2._spec.ndim == 1):
        raise RuntimeError(
            "0D target tensor expects 1D input tensors, but found inputs with sizes "
            f"{list(input1._spec.sizes)} and {list(input2._spec.sizes)}."
        )
    product = ops.sum(ops.mul(input1, input2), [rank])
    first = ops.add(ops.sum(ops.mul(input1, input1), [rank]), 1e-12)
    second = ops.add(ops.sum(ops.mul(input2, input2), [rank]), 1e-12)
    cosine = ops.div(product, ops.sqrt_(ops.mul(first, second)))
    zeros = ops.zeros_like(cosine)
    gap = ops.sub_(ops.fill_(ops.empty_like(cosine), 1), cosine)
    excess = ops.clamp_min_(ops.sub(cosine, margin), 0)
    near = ops.where(ops.eq(target, 1), gap, zeros)
    far = ops.where(ops.eq(target, -1), excess, zeros)
    return reduced(ops.add(near, far), reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int
) -> Tensor:
    """Compute exp(input) - target * input, or input - target * log(input); `full` adds Stirling's term for targets
    above 1.
    """
    if log_input:
        product = ops.mul(target, input)
        loss = ops.sub(ops.exp(input), product)
    else:
        loss = ops.sub(input, ops.mul(target, ops.log(ops.add(input, eps))))
    if full:
        some = ops.gt(target, 1)
        safe = ops.where(some, target, 1.0)
        stirling = ops.add(
            ops.sub(ops.mul(safe, ops.log(safe)), safe), ops.mul(ops.log(ops.mul(safe, 2 * math.pi)), 0.5)
        )
        loss = ops.add(loss, ops.where(some, stirling, 0.0))
    return reduced(loss, reduction)


def soft_margin_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Compute log(1 + exp(-target * self)), in self's dtype regardless of the target's.

    Real numbers use softplus, which does not overflow and has no complex form.
    """
    dtype, target_dtype = self._spec.dtype, target._spec.dtype
    computed = promote_types(dtype, target_dtype)
    if dtype.is_integral or not can_cast(computed, dtype):
        computed = computed if computed.is_floating_point or computed.is_complex else float32
        raise RuntimeError(
            f"result type {computed.scalar_name} can't be cast to the desired output type {dtype.scalar_name}"
        )
    exponent = ops.mul(ops.neg(target if target_dtype is dtype else target.to(dtype)), self)
    if exponent._spec.sizes != self._spec.sizes:
        raise RuntimeError(
            f"output with shape {list(self._spec.sizes)} doesn't match the broadcast shape "
            f"{list(exponent._spec.sizes)}"
        )
    loss = ops.log1p(ops.exp(exponent)) if dtype.is_complex else ops.softplus(exponent)
    return reduced(loss, reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float,
    p: float,
    eps: float,
    swap: bool,
    reduction: int,
) -> Tensor:
    """Compute max(0, margin + d(anchor, positive) - d(anchor, negative)); `swap` uses the nearer of both to the
    negative.
    """
    ranks = {x._spec.ndim for x in (anchor, positive, negative)}
    if len(ranks) != 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor._spec.ndim}D, positive {positive._spec.ndim}D, and negative {negative._spec.ndim}D inputs"
        )
    if margin <= 0:
        raise RuntimeError(f"margin must be greater than zero, got {margin}")
    near = ops.pairwise_distance(anchor, positive, p, eps)
    far = ops.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = ops.minimum(far, ops.pairwise_distance(positive, negative, p, eps))
    return reduced(ops.clamp_min(ops.sub(ops.add(near, margin), far), 0), reduction)


def binary_cross_entropy(self: Tensor, target: Tensor, weight: Tensor | None, reduction: int) -> Tensor:
    """Compute -(target log(self) + (1 - target) log(1 - self)), with logarithms of at least -100."""
    check_dtype("binary_cross_entropy", self._spec.dtype, self._spec.device)
    if target._spec.dtype is not self._spec.dtype:
        raise RuntimeError(
            f"binary_cross_entropy: Found dtype {target._spec.dtype.scalar_name} of target but expected "
            f"{self._spec.dtype.scalar_name}. Convert the target with target.to(input.dtype)."
        )
    if self._spec.device.type == "cpu" and self.numel():
        inside = ops.logical_and(ops.ge(self, 0), ops.le(self, 1))
        if not bool(ops.all(all_examples(inside)).item()):
            raise RuntimeError("all elements of input should be between 0 and 1")
        inside = ops.logical_and(ops.ge(target, 0), ops.le(target, 1))
        if not bool(ops.all(all_examples(inside)).item()):
            raise RuntimeError("all elements of target should be between 0 and 1")
    loss = ops._binary_cross_entropy_terms(self, target)
    return reduced(loss if weight is None else ops.mul(loss, weight), reduction)


def binary_cross_entropy_terms(self: Tensor, target: Tensor) -> Tensor:
    """Return each element's loss, with logarithms of at least -100."""
    positive = ops.clamp_min(ops.log(self), -100)
    negative = ops.clamp_min(ops.log1p(ops.neg(self)), -100)
    return ops.sub(ops.mul(ops.sub(target, 1), negative), ops.mul(target, positive))


def binary_cross_entropy_with_logits(
    self: Tensor, target: Tensor, weight: Tensor | None, pos_weight: Tensor | None, reduction: int
) -> Tensor:
    """Compute `binary_cross_entropy` of sigmoid(self), stable for all logits."""
    if pos_weight is None:
        loss = ops.sub(ops.mul(ops.rsub(target, 1), self), ops.log_sigmoid(self))
    else:
        scale = ops.add(ops.mul(ops.sub(pos_weight, 1), target), 1)
        loss = ops.sub(ops.mul(ops.rsub(target, 1), self), ops.mul(scale, ops.log_sigmoid(self)))
    return reduced(loss if weight is None else ops.mul(loss, weight), reduction)


def _hinge(gap: Tensor) -> Tensor:
    """Return max(0, difference). NaN gives 0, as in PyTorch's margin losses."""
    return ops.where(ops.gt(gap, 0), gap, 0)


def _multi_margin_gaps(
    self: Tensor, target: Tensor, p: Number, margin: Number, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Check the arguments of `multi_margin_loss`. Return its hinges (N, C), with 0 for the target class, the classes
    (N, 1), and the weight (N, 1) of each sample.
    """
    if p not in (1, 2):
        raise RuntimeError(f"only p == 1 and p == 2 supported, got {p}")
    rank = self._spec.ndim
    if not (rank <= 2 and (rank == 0 or self._spec.sizes[-1])):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self._spec.sizes)}"
        )
    x = self.reshape((1, -1)) if rank < 2 else self
    rows, classes = x._spec.sizes
    if target.numel() != rows or target._spec.ndim > 1:
        raise RuntimeError(
            "multi_margin_loss: target tensor should be 1-D with size equal to the number of input samples (batch "
            f"size). Expected target size [{rows}], but got {list(target._spec.sizes)}. Input has shape "
            f"{list(self._spec.sizes)}."
        )
    if weight is not None and weight.numel() != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight._spec.sizes)}")
    check_dtype("multi_margin_loss", self._spec.dtype, self._spec.device)
    if weight is not None and weight._spec.dtype is not self._spec.dtype:
        raise RuntimeError(
            f"expected scalar type {self._spec.dtype.scalar_name} but found {weight._spec.dtype.scalar_name}"
        )
    labels = target.reshape((rows, 1))
    own = ops.gather(x, 1, labels)
    gaps = _hinge(ops.add(ops.sub(x, own), real(margin, "float")))
    class_indices = ops.arange(classes, device=x._spec.device)
    scale = None if weight is None else ops.index_select(weight, 0, labels.reshape((-1,))).unsqueeze(1)
    return ops.where(ops.eq(class_indices, labels), 0.0, gaps), labels, scale


@host_kernel("multi_margin_loss", "gather", "sub.Tensor", "where.ScalarOther", "sum.dim_IntList")
def multi_margin_loss(
    self: Tensor, target: Tensor, p: Number, margin: Number, weight: Tensor | None, reduction: int
) -> Tensor:
    """Compute the mean over the other classes of max(0, margin - x[target] + x[class]) ** p, times the target's
    weight.
    """
    gaps, _, scale = _multi_margin_gaps(self, target, p, margin, weight)
    if p == 2:
        gaps = ops.mul(gaps, gaps)
    if scale is not None:
        gaps = ops.mul(gaps, scale)
    loss = ops.div(ops.sum(gaps, 1), gaps._spec.sizes[1])
    rank = self._spec.ndim
    if reduction == NONE and rank < 2:
        return loss.reshape(target._spec.sizes if rank else ())
    return reduced(loss, reduction)


def multi_margin_loss_backward(
    grad_output: Tensor,
    self: Tensor,
    target: Tensor,
    p: Number,
    margin: Number,
    weight: Tensor | None,
    reduction: int,
) -> Tensor:
    """Compute the gradient of `multi_margin_loss`: each hinge adds its slope to its class and takes it from the
    target class.
    """
    gaps, labels, scale = _multi_margin_gaps(self, target, p, margin, weight)
    slopes = ops.mul(gaps, 2) if p == 2 else ops.gt(gaps, 0).to(self._spec.dtype)
    slopes = ops.div(slopes if scale is None else ops.mul(slopes, scale), gaps._spec.sizes[1])
    rows = ops.scatter_add(slopes, 1, labels, ops.neg(ops.sum(slopes, [1], True)))
    return _scaled_by_loss(grad_output, rows, reduction).reshape(self._spec.sizes)


def _scaled_by_loss(grad_output: Tensor, rows: Tensor, reduction: int) -> Tensor:
    """Multiply the gradient (N, C) of each sample's loss by the gradient of the reduced loss."""
    if reduction == NONE:
        return ops.mul(rows, grad_output.reshape((-1, 1)))
    return ops.mul(rows, ops.div(grad_output, rows._spec.sizes[0]) if reduction == MEAN else grad_output)


def _check_multilabel(name: str, self: Tensor, target: Tensor) -> None:
    """Check the shapes, the dtype and, on a CPU, the least element of a multi-label target."""
    rank = self._spec.ndim
    if not (rank <= 2 and (rank == 0 or self._spec.sizes[-1])):
        raise RuntimeError(
            "Expected non-empty vector or matrix with optional 0-dim batch size, but got: "
            f"{list(self._spec.sizes)}"
        )
    if target._spec.sizes != self._spec.sizes and not (rank < 2 and target.numel() == self.numel()):
        raise RuntimeError(
            f"inconsistent target size: {list(target._spec.sizes)} for input of size: {list(self._spec.sizes)}"
        )
    check_dtype("multilabel_margin_loss", self._spec.dtype, self._spec.device)
    if self._spec.device.type == "cpu" and bool(ops.any(all_examples(ops.lt(target, -1))).item()):
        raise RuntimeError(f"{name}: an element of 'target' is out of range")


class _MultilabelGaps:
    """Hinges of every class against each target class.

    Shapes: `class_indices` (N, T) with the target classes, of which `valid` selects those before a row's first -1;
    `is_target` (N, C); `gaps` and `counted` (N, T, C).
    """

    def __init__(self, self_: Tensor, target: Tensor) -> None:
        x = self_.reshape((1, -1)) if self_._spec.ndim < 2 else self_
        labels = target.reshape(x._spec.sizes)
        valid = ops.cumprod((labels >= 0).to(labels._spec.dtype), 1) > 0
        lengths = all_examples(ops.sum(valid, [1]))
        if x._spec.device.type == "cpu" and lengths.numel():
            # Few classes are correct, and there is a hinge of each class against each of them.
            longest = int(ops.amax(lengths).item())
            labels, valid = (ops.narrow(each, 1, 0, longest) for each in (labels, valid))
        self.class_indices = ops.where(valid, labels, 0)
        counts = ops.zeros(x._spec.sizes, dtype=labels._spec.dtype, device=labels._spec.device)
        self.is_target = ops.scatter_add(counts, 1, self.class_indices, valid.to(labels._spec.dtype)) > 0
        own = ops.gather(x, 1, self.class_indices).unsqueeze(2)
        self.gaps = _hinge(ops.add(ops.sub(x.unsqueeze(1), own), 1))
        self.counted = ops.logical_and(valid.unsqueeze(2), ops.logical_not(self.is_target).unsqueeze(1))
        self.classes = x._spec.sizes[1]

    def loss(self, rank: int, reduction: int) -> Tensor:
        """Return the reduced loss of scores with `rank` dimensions."""
        loss = ops.div(ops.sum(ops.where(self.counted, self.gaps, 0.0), [1, 2]), self.classes)
        if reduction == NONE and rank < 2:
            return loss.reshape(())
        return reduced(loss, reduction)


@host_kernel(
    "multilabel_margin_loss", "cumprod", "scatter_add", "gather", "where.ScalarOther", "sum.dim_IntList"
)
def multilabel_margin_loss(self: Tensor, target: Tensor, reduction: int) -> Tensor:
    """Compute the hinge of every class against each correct class; `target` lists those up to its first -1."""
    _check_multilabel("multilabel_margin_loss", self, target)
    return _MultilabelGaps(self, target).loss(self._spec.ndim, reduction)


def multilabel_margin_loss_forward(self: Tensor, target: Tensor, reduction: int) -> tuple[Tensor, Tensor]:
    """Compute `multilabel_margin_loss`, and 1 for each class that `target` lists in a row."""
    _check_multilabel("multilabel_margin_loss_forward", self, target)
    gaps = _MultilabelGaps(self, target)
    is_target = gaps.is_target.to(self._spec.dtype).reshape(target._spec.sizes)
    return gaps.loss(self._spec.ndim, reduction), is_target


def multilabel_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int, is_target: Tensor
) -> Tensor:
    """Compute the gradient of `multilabel_margin_loss`: each positive hinge adds 1/C to its class and takes it from
    the target class.
    """
    _check_multilabel("multilabel_margin_loss_backward", self, target)
    if is_target._spec.sizes != target._spec.sizes:
        raise RuntimeError(
            f"multilabel_margin_loss_backward: expected is_target of size {list(target._spec.sizes)}, but got "
            f"{list(is_target._spec.sizes)}; pass the second result of multilabel_margin_loss_forward"
        )
    gaps = _MultilabelGaps(self, target)
    active = ops.logical_and(gaps.counted, gaps.gaps > 0).to(self._spec.dtype)
    hinges = ops.scatter_add(ops.sum(active, [1]), 1, gaps.class_indices, ops.neg(ops.sum(active, [2])))
    return _scaled_by_loss(grad_output, ops.div(hinges, gaps.classes), reduction).reshape(self._spec.sizes)
