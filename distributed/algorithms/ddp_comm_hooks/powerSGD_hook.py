"""Gradients sent as products of thin matrices (`torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook`).

Source: Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed Optimization",
2019. A matrix M is sent as P and Q with M about P @ Q.T: one step of the power method, from the Q of the step before.
"""

from __future__ import annotations

import logging
import math
from typing import Any

import numpy as np

from ....dispatch.tensor import Tensor
from ....futures import Future
from ....runtime.scalar_type import bfloat16, float16
from ...data_parallel.grad_bucket import GradBucket
from ...groups import group_or_default
from ...process_group import ProcessGroup
from .default_hooks import future_of_average, future_of_sum

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

logger = logging.getLogger(__name__)


def _orthogonalize(matrices: Tensor, epsilon: float = 0) -> None:
    """Make the columns of each matrix orthonormal, in place.

    Args:
        matrices: of shape (batch, n, r), with r at most n.
        epsilon: added to a column's length, against columns of zeros.
    """
    from .... import linalg
    from ....dispatch.functions.variadic import norm

    rank = matrices.shape[2]
    if rank > 2 and matrices.dtype not in (float16, bfloat16):
        matrices.copy_(linalg.qr(matrices)[0])
        return
    for index in range(rank):
        column = matrices[:, :, index : index + 1]
        length = norm(column, dim=1, keepdim=True)
        column.div_(length + epsilon if epsilon else length)
        if index + 1 < rank:
            rest = matrices[:, :, index + 1 :]
            rest.sub_((column * rest).sum(1, keepdim=True) * column)


class PowerSGDState:
    """State that `powerSGD_hook` and `batched_powerSGD_hook` keep between steps.

    Args:
        process_group: The group. None means all ranks.
        matrix_approximation_rank: Number of columns of P and Q.
        start_powerSGD_iter: Number of backward passes that average uncompressed gradients, until buckets are
            final.
        min_compression_rate: Minimum ratio by which compression must shrink a matrix for it to be compressed.
        use_error_feedback: If True, add the compression error to the next gradient.
        warm_start: If True, start from the previous step's Q.
        orthogonalization_epsilon: Added to the norms of columns, to avoid division by zero.
        random_seed: Seed of the first Q, the same on all ranks.
        compression_stats_logging_frequency: Number of backward passes between two log lines.
        batch_tensors_with_same_shape: If True, multiply matrices of the same shape in one batched matmul.

    Raises:
        ValueError: it starts before the second step though it keeps something from step to step.
    """

    _saved = (
        "matrix_approximation_rank",
        "start_powerSGD_iter",
        "min_compression_rate",
        "orthogonalization_epsilon",
        "use_error_feedback",
        "warm_start",
        "batch_tensors_with_same_shape",
        "rng",
        "error_dict",
        "p_memory_dict",
        "q_memory_dict",
        "iter",
        "total_numel_before_compression",
        "total_numel_after_compression",
        "compression_stats_logging_frequency",
        "next_stats_report",
    )
    __slots__ = (*_saved, "process_group")

    def __init__(
        self,
        process_group: ProcessGroup | None,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is enabled, because PowerSGD "
                "can only be applied after the first two iterations in DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.RandomState(random_seed)
        self.error_dict: dict[int, Tensor] = {}
        self.p_memory_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, Tensor] = {}
        self.iter = 0
        self.total_numel_before_compression = self.total_numel_after_compression = 0
        self.compression_stats_logging_frequency = max(1, compression_stats_logging_frequency)
        self.next_stats_report = 0
        self.batch_tensors_with_same_shape = batch_tensors_with_same_shape

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._saved}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.process_group = group_or_default(None)
        for name, value in state.items():
            setattr(self, name, value)

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a backward, with its last bucket."""
        if bucket.is_last():
            self.iter += 1

    def compression_stats(self) -> tuple[float, int, int]:
        """Return the compression ratio and the number of elements before and after compression."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return before / after if after else 0, before, after

    def _report(self, bucket: GradBucket) -> None:
        if bucket.is_last() and self.iter >= self.next_stats_report:
            rate, before, after = self.compression_stats()
            logger.info(
                "Compression stats: iter %s, total before compression %s, total after compression %s, rate %s",
                self.iter,
                before,
                after,
                rate,
            )
            self.next_stats_report = self.iter + self.compression_stats_logging_frequency

    def _add_error(self, index: int, line: Tensor) -> Tensor | None:
        """Add the compression error of a bucket in-place; return a copy of the sum, to compute the next
        error.
        """
        if not self.use_error_feedback:
            return None
        if index in self.error_dict:
            line.add_(self.error_dict[index])
        return line.clone()

    def _random(self, *shape: int, like: Tensor) -> Tensor:
        """Sample normal numbers, the same in all processes."""
        from ....dispatch.generated.functions import randn
        from ....dispatch.random import Generator

        generator = Generator().manual_seed(int(self.rng.randint(1_000_000_000)))
        return randn(*shape, generator=generator, dtype=like.dtype).to(like.device)


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average gradients, with each matrix compressed to a product of two thin matrices.

    Gradients of one dimension, and matrices that would not shrink enough, are averaged uncompressed.

    Args:
        state: State kept between steps.
        bucket: The gradients.
    """
    from ....dispatch.generated.functions import bmm, cat, empty

    group = group_or_default(state.process_group)
    line = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return future_of_average(group, line)
    index, size = bucket.index(), group.size()
    before = state._add_error(index, line)
    shapes: dict[tuple[int, int], list[Tensor]] = {}
    plain: list[Tensor] = []
    for gradient in bucket.gradients():
        matrix = gradient.view(gradient.shape[0], -1) if gradient.ndim else gradient.view(1, 1)
        n, m = matrix.shape
        sent = (n + m) * min(n, m, state.matrix_approximation_rank)
        is_compressed = sent * state.min_compression_rate < n * m
        state.total_numel_before_compression += n * m
        state.total_numel_after_compression += sent if is_compressed else n * m
        if is_compressed:
            shapes.setdefault((n, m), []).append(matrix)
        else:
            plain.append(gradient)
    state._report(bucket)
    together = cat([each.reshape(-1) for each in plain]) if plain else line.new_empty(0)
    batches = _batches(shapes, state.batch_tensors_with_same_shape)
    ranks = [min(*each.shape[1:], state.matrix_approximation_rank) for each in batches]
    p_sizes = [each.shape[0] * each.shape[1] * r for each, r in zip(batches, ranks, strict=True)]
    q_sizes = [each.shape[0] * each.shape[2] * r for each, r in zip(batches, ranks, strict=True)]
    is_new = not state.warm_start or index not in state.p_memory_dict
    if is_new:
        state.p_memory_dict[index] = empty(sum(p_sizes), dtype=line.dtype, device=line.device)
        state.q_memory_dict[index] = empty(sum(q_sizes), dtype=line.dtype, device=line.device)
    all_p, all_q = state.p_memory_dict[index], state.q_memory_dict[index]
    ps = (
        [
            part.view(batch.shape[0], batch.shape[1], r)
            for part, batch, r in zip(all_p.split(p_sizes), batches, ranks, strict=True)
        ]
        if batches
        else []
    )
    qs = (
        [
            part.view(batch.shape[0], batch.shape[2], r)
            for part, batch, r in zip(all_q.split(q_sizes), batches, ranks, strict=True)
        ]
        if batches
        else []
    )
    for q in qs:
        if is_new:
            q.copy_(state._random(*q.shape, like=q))
        _orthogonalize(q, state.orthogonalization_epsilon)
    for p, batch, q in zip(ps, batches, qs, strict=True):
        p.copy_(bmm(batch, q))
    sum_of_plain = future_of_sum(group, together)

    def compute_qs(done: Future[Tensor]) -> Tensor:
        average = done.value().div_(size)
        offset = 0
        for gradient in plain:
            gradient.copy_(average[offset : offset + gradient.numel()].view_as(gradient))
            offset += gradient.numel()
        future_of_sum(group, all_p).wait()
        for p, batch, q in zip(ps, batches, qs, strict=True):
            _orthogonalize(p, state.orthogonalization_epsilon)
            q.copy_(bmm(batch.transpose(1, 2), p))
        return future_of_sum(group, all_q).wait()

    def decompress(done: Future[Tensor]) -> Tensor:
        done.value().div_(size)
        for p, batch, q in zip(ps, batches, qs, strict=True):
            product = bmm(p, q.transpose(1, 2))
            several = shapes[batch.shape[1], batch.shape[2]] if batch.shape[0] > 1 else [batch]
            for matrix, result in zip(several, product, strict=True):
                matrix.copy_(result.view_as(matrix))
        if before is not None:
            state.error_dict[index] = before.sub_(line)
        if not state.warm_start:
            state.p_memory_dict.clear()
            state.q_memory_dict.clear()
        state.maybe_increase_iter(bucket)
        return line

    return sum_of_plain.then(compute_qs).then(decompress)


def _batches(shapes: dict[tuple[int, int], list[Tensor]], together: bool) -> list[Tensor]:
    """Batch matrices to shape (b, n, m): matrices of one shape together, or each alone."""
    from ....dispatch.generated.functions import stack

    batches: list[Tensor] = []
    for matrices in shapes.values():
        if together and len(matrices) > 1:
            batches.append(stack(matrices))
        else:
            batches += [each.unsqueeze(0) for each in matrices]
    return batches


def batched_powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Average a bucket as a product of two thin matrices: all of its gradients are one square matrix.

    It is faster than `powerSGD_hook`, and less accurate.

    Args:
        state: State kept between steps.
        bucket: the gradients.
    """
    from ....dispatch.generated.functions import empty, matmul

    group = group_or_default(state.process_group)
    line = bucket.buffer()
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return future_of_average(group, line)
    index, size, total = bucket.index(), group.size(), line.shape[0]
    side = math.isqrt(max(total - 1, 0)) + 1
    rank = min(state.matrix_approximation_rank, side)
    state.total_numel_before_compression += total
    state.total_numel_after_compression += side * rank * 2
    state._report(bucket)
    padded = line.new_zeros(side * side)
    padded[:total] = line
    before = state._add_error(index, padded)
    matrix = padded.view(side, side)
    if not state.warm_start or index not in state.p_memory_dict:
        state.p_memory_dict[index] = empty(side, rank, dtype=line.dtype, device=line.device)
        state.q_memory_dict[index] = state._random(side, rank, like=line)
    p, q = state.p_memory_dict[index], state.q_memory_dict[index]
    _orthogonalize(q.unsqueeze(0), state.orthogonalization_epsilon)
    p.copy_(matmul(matrix, q))

    def compute_q(done: Future[Tensor]) -> Tensor:
        _orthogonalize(done.value().unsqueeze(0), state.orthogonalization_epsilon)
        q.copy_(matmul(matrix.t(), p))
        return future_of_sum(group, q).wait()

    def decompress(done: Future[Tensor]) -> Tensor:
        done.value().div_(size)
        matrix.copy_(matmul(p, q.t()))
        if before is not None:
            state.error_dict[index] = before.sub_(padded)
        if not state.warm_start:
            state.p_memory_dict.clear()
            state.q_memory_dict.clear()
        state.maybe_increase_iter(bucket)
        return line.copy_(padded[:total])

    return future_of_sum(group, p).then(compute_q).then(decompress)
