"""Cross entropy as one operator; `cross_entropy_loss` of host tensors is made of others, which are quicker."""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.meta.loss import MEAN, NONE
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..plain_numpy import np
from ..widen import compute_np
from .loss import _chosen, _total


class Targets:
    """Targets of each class of each sample, over arrays whose class dimension is `axis`."""

    def __init__(self, call: StructuredCall) -> None:
        spec, target = call.args["self"], call.args["target"]
        if not spec.dtype.is_floating_point:
            raise call.refuse(spec)
        self.np_dtype = compute_np(spec.dtype)
        self.axis = 0 if spec.ndim == 1 else 1
        self.sizes, self.classes = spec.sizes, spec.sizes[self.axis]
        self.has_probabilities = target.dtype.is_floating_point
        self.ignore_index = call.args["ignore_index"]

    def masses(self, target: Any, weight: Any, smoothing: float) -> tuple[Any, Any]:
        """Return the mass of each class, with the sizes of the scores, and the weight of each sample."""
        kind, axis = self.np_dtype.type, self.axis
        along = None
        if weight is not None:
            weight = weight.astype(self.np_dtype, copy=False)
            along = weight.reshape([self.classes if d == axis else 1 for d in range(len(self.sizes))])
        share = kind(smoothing / self.classes) if self.classes else kind(0)
        if self.has_probabilities:
            mass = target.astype(self.np_dtype) * kind(1.0 - smoothing) + share
            samples = self.sizes[:axis] + self.sizes[axis + 1 :]
            return mass if along is None else mass * along, np.ones(samples, self.np_dtype)
        index, factor = _chosen(target, weight, self.classes, self.ignore_index, self.np_dtype)
        mass = np.zeros(self.sizes, self.np_dtype)
        if smoothing > 0:
            counts = np.expand_dims(target != self.ignore_index, axis)
            mass += np.where(counts, share if along is None else share * along, kind(0))
        if mass.size:
            where = np.expand_dims(index, axis)
            own = np.take_along_axis(mass, where, axis) + np.expand_dims(factor, axis) * kind(1.0 - smoothing)
            np.put_along_axis(mass, where, own, axis)
        return mass, factor


def forward(call: StructuredCall) -> PlannedKernel:
    """Compute the loss, three statistics of each sample, and the divisor of the mean."""
    targets, reduction = Targets(call), call.args["reduction"]
    axis = targets.axis

    def into(
        out: Any, statistics: Any, total_weight: Any, scores: Any, target: Any, weight: Any, smoothing: float
    ) -> None:
        mass, factor = targets.masses(target, weight, smoothing)
        values = scores.astype(targets.np_dtype)
        row_max = values.max(axis, keepdims=True, initial=-np.inf)
        shifted = values - row_max
        log_total = np.log(np.exp(shifted).sum(axis, keepdims=True))
        # Probabilities of 0 times an infinite logarithm are NaN, as of the operators that this stands for.
        has_mass = (mass != 0) | (targets.has_probabilities or smoothing > 0)
        loss = np.where(has_mass, mass * (log_total - shifted), targets.np_dtype.type(0)).sum(axis)
        if not targets.has_probabilities:
            loss = np.where(target == targets.ignore_index, targets.np_dtype.type(0), loss)
        statistics[0], statistics[1] = row_max.squeeze(axis), log_total.squeeze(axis)
        statistics[2] = mass.sum(axis)
        if reduction == NONE:
            np.copyto(out, loss, casting="unsafe")
            total_weight.fill(0)
            return
        total, divisor = _total(np.asarray(loss)), _total(np.asarray(factor))
        if reduction == MEAN and smoothing > 0 and divisor == 0:
            total = np.nan  # The mean over no weights, added to that of what smoothing gives to classes.
        np.copyto(out, total / divisor if reduction == MEAN else total, casting="unsafe")
        total_weight.fill(divisor)

    return PlannedKernel(quietly(into))


def backward(call: StructuredCall) -> PlannedKernel:
    """Compute (probability * masses' sum - mass) * grad, over the divisor for the mean."""
    targets, mean = Targets(call), call.args["reduction"] == MEAN
    axis = targets.axis

    def into(
        out: Any,
        grad: Any,
        scores: Any,
        target: Any,
        weight: Any,
        statistics: Any,
        total_weight: Any,
        smoothing: float,
    ) -> None:
        mass, factor = targets.masses(target, weight, smoothing)
        grad_value = np.broadcast_to(grad.astype(targets.np_dtype), factor.shape)
        if mean:
            grad_value = grad_value / total_weight
            if smoothing > 0 and total_weight == 0:
                grad_value = np.full_like(grad_value, np.nan)
        if not targets.has_probabilities:
            counts = target != targets.ignore_index if smoothing > 0 else factor != 0
            grad_value = np.where(counts, grad_value, targets.np_dtype.type(0))
        row_max, log_total, total = (np.expand_dims(each, axis) for each in statistics)
        likely = np.exp(scores.astype(targets.np_dtype) - row_max - log_total)
        np.copyto(out, (likely * total - mass) * np.expand_dims(grad_value, axis), casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("cross_entropy_forward_stub", "cpu", forward)
register_stub("cross_entropy_backward_stub", "cpu", backward)
