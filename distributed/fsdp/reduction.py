"""Reducing the gradients of a group in one communication."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from ...autograd import no_grad
from ...dispatch.functions.foreach import _foreach_copy_
from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from ...runtime import scalar_type
from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ..collectives import all_reduce, reduce_scatter_tensor
from ..process_group import ProcessGroup
from ..reduce_op import PremultipliedSum, ReduceOp, Reduction
from ..work import Work
from .communication import Lane, ReduceScatter
from .sharded_parameter import ShardedParameter

__all__ = ["GradientReduction", "ReductionPlan", "division"]


class Division(NamedTuple):
    """Division of a gradient sum to a mean: the divisors before and after, and the reductions."""

    before: float
    after: float
    scatters: Reduction
    reduces: Reduction


def division(
    dtype: ScalarType, shards: int, replicas: int, factor: float | None, only_sums: bool
) -> Division:
    """Choose how gradients of a dtype are divided: by the number of ranks or by a factor.

    Float16 gradients are divided in two steps, to avoid both overflow of the sum and underflow of small
    values.

    Args:
        dtype: Dtype of the reduction.
        shards: Number of shards.
        replicas: Number of ranks that hold each shard.
        factor: Divisor. None means the number of ranks.
        only_sums: If True, use no reduction other than a sum.
    """
    processes = shards * replicas
    is_wide = dtype in (scalar_type.float32, scalar_type.bfloat16, scalar_type.float64)
    if is_wide and not only_sums:
        if factor is None:
            op = ReduceOp.SUM if processes == 1 else ReduceOp.AVG
            return Division(1, 1, op, op)
        mean = shards > 1 and factor == shards
        return Division(1, 1, ReduceOp.AVG if mean else PremultipliedSum(1 / factor), ReduceOp.SUM)
    total = float(processes) if factor is None else factor
    before = 1.0
    if not is_wide:
        while total % before == 0 and total / before > before:
            before *= 2
    return Division(before, total / before, ReduceOp.SUM, ReduceOp.SUM)


class ReductionPlan(NamedTuple):
    """Options shared by a group's reductions.

    Attributes:
        shard_group: Group among whose ranks gradients are scattered.
        replicate_group: Group of the ranks with the same shards. None means no replicas.
        device: Device of the reduction.
        lane: Lane that overlaps the communication with computation.
        factor: Divisor of the gradients. None means the number of ranks.
        only_sums: If True, use no reduction other than a sum.
        reduces_replicas: If True, reduce over replicas now. Otherwise only scatter.
        communicate: Replacement of `reduce_scatter_tensor`.
        hook: Function called with the flat buffer of the shards' reduced gradients.
    """

    shard_group: ProcessGroup
    replicate_group: ProcessGroup | None
    device: Device
    lane: Lane
    factor: float | None
    only_sums: bool
    reduces_replicas: bool
    communicate: ReduceScatter | None
    hook: Callable[[Tensor], None] | None


class GradientReduction:
    """One communication of a group's gradients, in steps: scattered sums, sums of replicas, gradients of the shards.

    On a GPU all steps are given to the lane at once. On the CPU `advance` waits for one and begins the next.

    Args:
        plan: how.
        parameters: those that have gradients.
        grads: the gradients of the whole parameters; the list is emptied.
        dtype: in which they are reduced; None for their own.
        partial: what earlier backwards scattered and did not reduce among replicas.

    Raises:
        ValueError: the gradients have several dtypes.
    """

    def __init__(
        self,
        plan: ReductionPlan,
        parameters: Sequence[ShardedParameter],
        grads: list[Tensor],
        dtype: ScalarType | None,
        partial: Tensor | None,
    ) -> None:
        dtypes = {grad.dtype for grad in grads}
        if len(dtypes) != 1:
            raise ValueError(
                f"FSDP reduce-scatter expects uniform gradient dtype but got {sorted(map(str, dtypes))}"
            )
        self.plan, self.parameters, self.partial = plan, list(parameters), partial
        reduced = dtype or grads[0].dtype
        shards = plan.shard_group.size()
        replicas = 1 if plan.replicate_group is None else plan.replicate_group.size()
        self.division = division(reduced, shards, replicas, plan.factor, plan.only_sums)
        with no_grad():
            self._input: Tensor | None = self._allocate(
                sum(each.padded_numel for each in parameters) * shards, reduced
            )
            _copy_in(self.parameters, grads, self._input.view(shards, -1))
        grads.clear()
        self._output: Tensor | None = None
        self._works: list[Work | None] = []
        self._steps = [self._scatter, self._sum_replicas, self._give]
        self._scattered: Any = None
        self._ended: Any = None
        if plan.device.type == "cuda":
            plan.lane.wait_for_current()
            with plan.lane:
                self.advance()
                self._wait()
                self._scattered = plan.lane.mark()
                while self.advance():
                    pass
                self._ended = plan.lane.mark()
        else:
            self.advance()

    def _allocate(self, numel: int, dtype: ScalarType) -> Tensor:
        communicate = self.plan.communicate
        if communicate is not None:
            return communicate.allocate((numel,), dtype=dtype, device=self.plan.device)
        made: Tensor = ops.empty(numel, dtype=dtype, device=self.plan.device)
        return made

    def _wait(self) -> None:
        for work in self._works:
            if work is not None:
                work.wait()
        self._works.clear()

    def advance(self) -> bool:
        """Wait for what is under way, and begin what comes after it.

        Returns:
            Whether something is still to come.
        """
        self._wait()
        with no_grad():
            while self._steps and not self._works:
                self._steps.pop(0)()
        return bool(self._steps)

    @property
    def holds_input(self) -> bool:
        """True if the whole gradients are still in memory."""
        return self._input is not None

    def release_input(self) -> None:
        """Wait until the gradients are scattered, and free the whole gradients."""
        if self._scattered is not None:
            self.plan.lane.hand_over(self._scattered)
        else:
            self.advance()
        self._input = None

    def finish(self) -> None:
        """End it; on a GPU, have the current stream wait for the end."""
        while self.advance():
            pass
        self.plan.lane.hand_over(self._ended)
        self._input = self._output = None

    def _scatter(self) -> None:
        plan = self.plan
        shards = plan.shard_group.size()
        grads = self._input
        assert grads is not None
        if self.division.before != 1:
            grads.div_(self.division.before)
        if shards == 1:
            self._output = grads
            if isinstance(self.division.scatters, PremultipliedSum):
                grads.mul_(self.division.scatters.factor)
            return
        self._output = output = self._allocate(grads.numel() // shards, grads.dtype)
        communicate = reduce_scatter_tensor if plan.communicate is None else plan.communicate
        self._works.append(
            communicate(output, grads, group=plan.shard_group, op=self.division.scatters, async_op=True)
        )

    def _sum_replicas(self) -> None:
        output = self._output
        assert output is not None
        if self.plan.device.type != "cuda":
            self._input = None  # on a GPU the lane still reads it
        if self.plan.replicate_group is None:
            return
        if self.partial is not None:
            output.add_(self.partial)
            self.partial = None
        if not self.plan.reduces_replicas:
            self.partial = output
            self._steps.clear()
            return
        self._works.append(
            all_reduce(output, self.division.reduces, group=self.plan.replicate_group, async_op=True)
        )

    def _give(self) -> None:
        output = self._output
        assert output is not None
        if self.plan.hook is not None:
            self.plan.hook(output)
        if self.division.after != 1:
            output.div_(self.division.after)
        output = output.to(self.parameters[0].dtype)
        offset = 0
        for each in self.parameters:
            each.add_grad(output.narrow(0, offset, each.padded_numel))
            offset += each.padded_numel


def _copy_in(parameters: Sequence[ShardedParameter], grads: Sequence[Tensor], buffer: Tensor) -> None:
    """Put whole gradients by shards, those of a process in one row."""
    shards = buffer.shape[0]
    targets: list[Tensor] = []
    sources: list[Tensor] = []
    offset = 0
    for each, grad in zip(parameters, grads, strict=True):
        part = buffer.narrow(1, offset, each.padded_numel)
        offset += each.padded_numel
        if each.dim:
            before, after = each.padded_shape[: each.dim], each.padded_shape[each.dim :]
            targets.append(part.unflatten(1, (prod(before), prod(after))).movedim(0, 1))
            sources.append(grad.reshape(prod(before), shards, prod(after)))
            continue
        line = grad.reshape(-1)
        full = line.numel() // each.padded_numel if each.padded_numel else 0
        if full:
            targets.append(part.narrow(0, 0, full))
            sources.append(line.narrow(0, 0, full * each.padded_numel).view(full, -1))
        if full < shards:
            rest = line.numel() - full * each.padded_numel
            if rest:
                targets.append(part[full].narrow(0, 0, rest))
                sources.append(line.narrow(0, full * each.padded_numel, rest))
            part[full].narrow(0, rest, each.padded_numel - rest).zero_()
            part.narrow(0, full + 1, shards - full - 1).zero_()
    _foreach_copy_(targets, sources)
