"""Adaptive softmax: many classes in clusters; rare classes get fewer features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...dispatch.generated import functions as _ops
from .. import functional as F
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.device import DeviceLike
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    """The target's logarithm of probability in each row, and the mean of their negatives."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """The loss of a softmax over many classes, ordered from frequent to rare (`torch.nn.AdaptiveLogSoftmaxWithLoss`).

    The head decides between the most frequent classes and clusters of the others; a cluster's classes are computed
    for rows whose target is among them alone.

    Args:
        in_features: features of a row.
        n_classes: classes.
        cutoffs: the first class of each cluster, rising.
        div_value: each cluster has features by this factor fewer than the one before.
        head_bias: If True, the head has a bias. Default: False.

    Raises:
        ValueError: `cutoffs` are not unique, rising numbers between 1 and ``n_classes - 1``.

    Source: Grave et al., Efficient softmax approximation for GPUs (2017).

    Example:
        >>> import triten as tt
        >>> loss = tt.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10])
        >>> out = loss(tt.randn(4, 8), tt.tensor([0, 6, 19, 3]))
        >>> out.output.shape, loss.log_prob(tt.randn(4, 8)).shape
        (triten.Size([4]), triten.Size([4, 20]))
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike = None,
        dtype: ScalarType | None = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        if not bounds:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        if (
            bounds != sorted(set(bounds))
            or bounds[0] <= 0
            or bounds[-1] > n_classes - 1
            or any(int(each) != each for each in bounds)
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each "
                "value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = bounds[0]
        self.n_clusters = len(bounds)
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            features = int(in_features // div_value ** (i + 1))
            classes = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, features, bias=False, device=device, dtype=dtype),
                    Linear(features, classes, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Reinitialize all projections."""
        self.head.reset_parameters()
        for cluster in self.tail:
            for layer in cluster.children():
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Compute the log-probabilities of the targets and the loss.

        Args:
            input_: Features (N, in_features) or (in_features).
            target_: Classes (N) or ( ).

        Raises:
            RuntimeError: The shapes do not match, or a class is out of range.
        """
        batched = target_.dim() > 0
        if target_.dim() > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        if input_.dim() != (2 if batched else 1):
            expected = "2D" if batched else "1D"
            raise RuntimeError(
                f"{expected} input expected for a {target_.dim()}D target, got {input_.dim()}D"
            )
        if batched and input_.shape[0] != target_.shape[0]:
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        rows, target = (input_, target_) if batched else (input_.unsqueeze(0), target_.unsqueeze(0))
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range [{int(target.min())}, "
                f"{int(target.max())}] were found. "
            )
        head = F.log_softmax(self.head(rows), dim=1)
        head_targets = _ops.where(target < self.shortlist_size, target, 0)
        output = _ops.zeros(target.shape, dtype=head.dtype, device=head.device)
        for i, cluster in enumerate(self.tail):
            inside = ((target >= self.cutoffs[i]) & (target < self.cutoffs[i + 1])).nonzero().squeeze(1)
            if inside.numel() == 0:
                continue
            head_targets = head_targets.index_fill(0, inside, self.shortlist_size + i)
            within = F.log_softmax(cluster(rows.index_select(0, inside)), dim=1)
            classes = target.index_select(0, inside) - self.cutoffs[i]
            output = output.index_copy(0, inside, within.gather(1, classes.unsqueeze(1)).squeeze(1))
        output = output + head.gather(1, head_targets.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output if batched else output.squeeze(0), (-output).mean())

    def log_prob(self, input: Tensor) -> Tensor:
        """Compute the log-probabilities of all classes: (N, n_classes) from (N, in_features)."""
        return self._full(input, self.head(input))

    def _full(self, input: Tensor, head_output: Tensor) -> Tensor:
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            parts.append(F.log_softmax(cluster(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return _ops.cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each row. Clusters are computed only for rows whose class is in one."""
        head_output: Tensor = self.head(input)
        best: Tensor = head_output.argmax(1)
        clustered = (best >= self.shortlist_size).nonzero().squeeze(1)
        if clustered.numel() == 0:
            return best
        full = self._full(input.index_select(0, clustered), head_output.index_select(0, clustered))
        return best.index_copy(0, clustered, full.argmax(1))
