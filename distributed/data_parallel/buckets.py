"""Gradients that travel together (torch/csrc/distributed/c10d/reducer.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor
    from ...runtime.scalar_type import dtype as ScalarType

__all__ = ["NO_LIMIT", "Bucket", "compute_bucket_assignment_by_size", "is_same_memory"]

NO_LIMIT = 1 << 62
"""A bucket's limit in bytes that no bucket reaches."""
SCALED_WHOLE = 1 << 18
"""Bytes up to which a bucket is divided in one call: copies and one more pass cost less than a division for each."""


def compute_bucket_assignment_by_size(
    tensors: Sequence[Tensor],
    bucket_size_limits: Sequence[int],
    expect_sparse_gradient: Sequence[bool] = (),
    tensor_indices: Sequence[int] = (),
) -> tuple[list[list[int]], list[int]]:
    """Assign tensors to buckets (`torch.distributed._compute_bucket_assignment_by_size`).

    A bucket holds tensors of one dtype and device, in order, until their bytes reach the limit. A tensor with
    sparse gradients gets its own bucket.

    Args:
        tensors: The parameters.
        bucket_size_limits: Limits in bytes of the first, second, ... bucket of each dtype and device. The
            last limit applies to all further buckets.
        expect_sparse_gradient: For each parameter index, True if its gradients are sparse.
        tensor_indices: Indices of the parameters. Default: their positions.

    Returns:
        Parameter indices of each bucket, and the limit of each bucket. If the indices are positions, the
            buckets are in the order of their first parameters. Otherwise they are in the order in which they
            became full.
    """
    numbers = list(tensor_indices) or list(range(len(tensors)))
    buckets: list[tuple[list[int], int]] = []
    filling: dict[Any, tuple[list[int], int]] = {}
    limits_used: dict[Any, int] = {}
    for number, tensor in zip(numbers, tensors, strict=True):
        if expect_sparse_gradient and expect_sparse_gradient[number]:
            buckets.append(([number], NO_LIMIT))
            continue
        kind = tensor.dtype, tensor.device
        members, size = filling.get(kind, ([], 0))
        members.append(number)
        size += tensor.nbytes
        used = limits_used.get(kind, 0)
        limit = bucket_size_limits[used]
        if size >= limit:
            buckets.append((members, limit))
            limits_used[kind] = min(used + 1, len(bucket_size_limits) - 1)
            filling.pop(kind, None)
        else:
            filling[kind] = members, size
    for kind, (members, _) in filling.items():
        buckets.append((members, bucket_size_limits[limits_used.get(kind, 0)]))
    if not tensor_indices:
        buckets.sort(key=lambda bucket: min(bucket[0]))
    return [members for members, _ in buckets], [limit for _, limit in buckets]


class Bucket:
    """Gradients that are reduced together.

    Args:
        indices: the parameters' numbers.
        params: the parameters.
        is_sparse: True for the gradient of an embedding with sparse gradients.
        dtype: the gradients' dtype, where it is not the parameters'.

    Attributes:
        buffer: all gradients in one line; of a sparse one, the gradient.
        views: for each parameter, its part of the line in the parameter's shape and strides.
        pending: Number of gradients that have not arrived.
        work: the communication, once it has begun.
        future: Future returned by a communication hook.
    """

    __slots__ = (
        "buffer",
        "future",
        "indices",
        "is_scaled_whole",
        "is_sparse",
        "params",
        "pending",
        "views",
        "work",
    )

    def __init__(
        self,
        indices: Sequence[int],
        params: Sequence[Tensor],
        is_sparse: bool,
        dtype: ScalarType | None = None,
    ) -> None:
        self.indices, self.params, self.is_sparse = list(indices), list(params), is_sparse
        self.pending = len(self.params)
        self.work: Any = None
        self.future: Any = None
        self.buffer: Any = None
        self.views: list[Tensor] = []
        self.is_scaled_whole = False
        if not is_sparse:
            from ...dispatch.generated.functions import zeros

            first = self.params[0]
            total = sum(each.numel() for each in self.params)
            self.buffer = zeros(total, dtype=dtype or first.dtype, device=first.device)
            self.views = self.views_of(self.buffer)
            self.is_scaled_whole = self.buffer.nbytes <= SCALED_WHOLE

    def views_of(self, line: Tensor) -> list[Tensor]:
        """Return the gradients as views of a flat buffer, each with the strides of its parameter's gradient."""
        views, offset = [], line.storage_offset()
        flat = line.reshape(-1) if line.ndim != 1 else line
        start = offset
        for each in self.params:
            if each._spec.is_dense():
                views.append(flat.as_strided(each.shape, each.stride(), offset))
            else:
                views.append(flat[offset - start : offset - start + each.numel()].view(each.shape))
            offset += each.numel()
        return views

    def zeros(self) -> Tensor:
        """Gradients of zeros, as `buffer` has them."""
        from ...dispatch.functions.sparse import sparse_coo_tensor
        from ...dispatch.generated.functions import zeros_like

        if not self.is_sparse:
            return zeros_like(self.buffer)
        param = self.params[0].detach()
        indices = param.new_empty((1, 0)).long()
        return sparse_coo_tensor(indices, param.new_empty((0, *param.shape[1:])), param.shape)

    def give(self, position: int, view: Tensor, as_view: bool) -> None:
        """Set a parameter's gradient to the averaged gradient.

        Args:
            position: Position of the parameter in the bucket.
            view: The averaged gradient, a view of `buffer` or of a communication hook's result.
            as_view: If True, the gradient is a view of `buffer`.

        Raises:
            RuntimeError: The gradient is no longer the view of `buffer` that it has to be.
        """
        param = self.params[position]
        grad = param.grad
        if not as_view:
            if grad is None:
                param.grad = view.clone()
            else:
                (grad.detach() if grad.requires_grad else grad).copy_(view)
            return
        own = self.views[position]
        if view is not own:
            own.copy_(view)
        if grad is None:
            param.grad = own
        elif not is_same_memory(grad, own):
            raise RuntimeError(
                "Detected at least one parameter gradient is not the expected DDP bucket view with "
                "gradient_as_bucket_view=True. This may happen (for example) if multiple allreduce hooks were "
                "registered onto the same parameter. If you hit this error, please file an issue with a minimal repro."
            )


def is_same_memory(first: Tensor, second: Tensor) -> bool:
    """Return True if two tensors share the same memory."""
    return first is second or (first.numel() == second.numel() and first.data_ptr() == second.data_ptr())
