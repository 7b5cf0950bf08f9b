"""Batching rules of losses: elementwise over all examples, then reduced within each example."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....runtime.scalar_type import int64
from ...generated import functions as ops
from ...structured.meta.loss import MEAN, NONE
from .layout import Batch, Dims, Rule, aligned, rank_of, whole

if TYPE_CHECKING:
    from ...tensor import Tensor


def _reduced(loss: Tensor, reduction: int) -> Tensor:
    """Reduce a loss of (batch, ...) within each example."""
    if reduction == NONE:
        return loss
    flat = loss.reshape((loss._spec.sizes[0], _count(loss)))
    return flat.mean(1) if reduction == MEAN else flat.sum(1)


def mse_loss(batch: Batch, dims: Dims, self: Tensor, target: Tensor, reduction: int) -> tuple[Any, Any]:
    """Run `mse_loss`."""
    rank = max(rank_of(self, dims[0]), rank_of(target, dims[1]))
    loss = ops.mse_loss(aligned(self, dims[0], rank), aligned(target, dims[1], rank), NONE)
    if rank == 0:
        return loss, 0
    return _reduced(loss, reduction), 0


def mse_loss_backward(
    batch: Batch, dims: Dims, grad: Tensor, self: Tensor, target: Tensor, reduction: int
) -> tuple[Any, Any]:
    """Compute the gradient of `mse_loss`; for the mean, divide by the number of elements of an example."""
    rank = max(rank_of(self, dims[1]), rank_of(target, dims[2]))
    aligned_args = [aligned(a, d, rank) for a, d in zip((grad, self, target), dims[:3], strict=True)]
    out = ops.mul(ops.sub(aligned_args[1], aligned_args[2]), aligned_args[0]) * 2.0
    if reduction == MEAN:
        count = out._spec.numel // batch.size if batch.size else 1
        out = out / max(count, 1)
    return out, 0


class _Samples:
    """Return the scores (n, classes, ...) or (classes) of all examples as samples of one loss."""

    def __init__(
        self, batch: Batch, self_: Tensor, dim: int | None, target: Tensor, target_dim: int | None
    ) -> None:
        x, t = whole(self_, dim, batch.size), whole(target, target_dim, batch.size)
        self.is_single = x._spec.ndim == 2
        if self.is_single:
            x, t = x.unsqueeze(1), t.reshape((batch.size, 1))
        sizes = x._spec.sizes
        self.lead = sizes[:2]
        self.x = x.reshape((sizes[0] * sizes[1], *sizes[2:]))
        self.targets = t.reshape((sizes[0] * sizes[1], *sizes[3:]))
        self.size = batch.size

    def apart(self, value: Tensor) -> Tensor:
        """Return a result of all samples as (batch, n, ...)."""
        return value.reshape((*self.lead, *value._spec.sizes[1:]))

    def weights(self, weight: Tensor | None, dim: int | None, ignore_index: int) -> Tensor:
        """Return the weight of each sample's class, (batch, n, ...), 0 for an ignored one. It has no gradient."""
        counted = ops.ne(self.targets, ignore_index)
        if weight is None:
            return self.apart(counted.to(self.x._spec.dtype))
        classes = self.apart(ops.where(counted, self.targets, 0))
        rows = whole(weight, dim, self.size).detach()
        picked = rows.gather(1, classes.reshape((self.size, _count(classes))).to(int64))
        return ops.where(self.apart(counted), picked.reshape(classes._spec.sizes), 0)


def nll_loss_forward(
    batch: Batch,
    dims: Dims,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
) -> tuple[Any, Any]:
    """Run `nll_loss_forward` or `nll_loss2d_forward`: return the loss and the sum of the weights."""
    samples = _Samples(batch, self, dims[0], target, dims[1])
    losses = samples.apart(batch.op.call(samples.x, samples.targets, None, NONE, ignore_index)[0])
    weights = samples.weights(weight, dims[2], ignore_index)
    if weight is not None:
        losses = losses * weights
    flat_weights = weights.reshape((batch.size, _count(weights)))
    total = flat_weights.sum(1)
    if reduction == NONE and not samples.is_single:
        return (losses, ops.zeros_like(total)), (0, 0)
    out = losses.reshape((batch.size, _count(losses))).sum(1)
    if reduction == MEAN:
        out = out / total
    if reduction == NONE:
        total = ops.zeros_like(total)
    return (out, total), (0, 0)


def _count(x: Tensor) -> int:
    count = 1
    for n in x._spec.sizes[1:]:
        count *= n
    return count


def nll_loss_backward(
    batch: Batch,
    dims: Dims,
    grad: Tensor,
    self: Tensor,
    target: Tensor,
    weight: Tensor | None,
    reduction: int,
    ignore_index: int,
    total_weight: Tensor,
) -> tuple[Any, Any]:
    """Run `nll_loss_backward` or `nll_loss2d_backward`: each sample has a gradient at its target's class."""
    samples = _Samples(batch, self, dims[1], target, dims[2])
    weights = samples.weights(weight, dims[3], ignore_index)
    ones = (1,) * (weights._spec.ndim - 1)
    grads = whole(grad, dims[0], batch.size)
    if reduction != NONE or samples.is_single:
        grads = grads.reshape((batch.size, *ones))
    if reduction == MEAN:
        grads = grads / whole(total_weight, dims[6], batch.size).detach().reshape((batch.size, *ones))
    each = ops.where(weights == 0, 0, grads * weights) if reduction == MEAN else grads * weights
    each = each.expand(weights._spec.sizes)
    flat = each.reshape((each._spec.sizes[0] * each._spec.sizes[1], *each._spec.sizes[2:]))
    unused = samples.x.new_zeros(())
    out = batch.op.call(flat, samples.x, samples.targets, None, NONE, ignore_index, unused)
    out = samples.apart(out)
    return out.squeeze(1) if samples.is_single else out, 0


RULES: dict[str, Rule] = {
    "mse_loss": mse_loss,
    "mse_loss_backward": mse_loss_backward,
    "nll_loss_forward": nll_loss_forward,
    "nll_loss2d_forward": nll_loss_forward,
    "nll_loss_backward": nll_loss_backward,
    "nll_loss2d_backward": nll_loss_backward,
}
