"""Schedules of pipelines: `ScheduleGPipe`, `Schedule1F1B`, `ScheduleInterleaved1F1B`
(`torch.distributed.pipelining.schedules`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...dispatch.tensor import Tensor
from ...runtime.grad_mode import is_grad_enabled
from ..groups import get_global_rank
from ..object_collectives import recv_object_list, send_object_list
from ..point_to_point import P2POp, batch_isend_irecv, irecv, isend
from ..work import Work
from .actions import Action, Computation, gpipe_order, interleaved_1f1b_order, one_forward_one_backward_order
from .microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks, split_tensor
from .stage import PipelineStage
from .timetable import Timetable, receiver, timetable

__all__ = ["PipelineSchedule", "Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B"]

Loss = Callable[..., Tensor]


class PipelineSchedule(ABC):
    """An order in which the stages of a pipeline compute the microbatches of a batch.

    All processes of the group call `step`. Gradients are added to those of the parameters, microbatch after microbatch.

    Args:
        stages: Stages of this rank; stage ``number`` belongs to rank ``number % size``.
        n_microbatches: into how many a batch is cut.
        loss_fn: the loss of the last stage's result and the target; without, nothing goes backwards.
        args_chunk_spec: Split dimensions of positional arguments.
        kwargs_chunk_spec: Split dimensions of keyword arguments.
        output_merge_spec: Dimensions along which results are concatenated.
        scale_grads: If True, divide gradients by the number of microbatches, as for a mean loss.

    Raises:
        ValueError: the stages are not those of this process.
    """

    def __init__(
        self,
        stages: Sequence[PipelineStage],
        n_microbatches: int,
        loss_fn: Loss | None = None,
        args_chunk_spec: tuple[Any, ...] | None = None,
        kwargs_chunk_spec: Mapping[str, Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        if n_microbatches < 1:
            raise ValueError(f"n_microbatches: expected a positive number, but got {n_microbatches}")
        first = stages[0]
        self._stages = {stage.stage_index: stage for stage in stages}
        self._group, self._rank, self._size = first.group, first.group_rank, first.group_size
        self._num_stages = first.num_stages
        expected = list(range(self._rank, self._num_stages, self._size))
        if sorted(self._stages) != expected or any(stage.num_stages != self._num_stages for stage in stages):
            raise ValueError(
                f"rank {self._rank} of {self._size}: expected the stages {expected} of {self._num_stages}, "
                f"but got {[stage.stage_index for stage in stages]}"
            )
        self._rank_of = {number: number % self._size for number in range(self._num_stages)}
        self._n_microbatches = n_microbatches
        self._loss_fn = loss_fn
        self._args_chunk_spec, self._kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self._output_merge_spec = output_merge_spec
        self.scale_grads = scale_grads
        self._has_backward = loss_fn is not None
        orders = [self._order(rank) for rank in range(self._size)]
        self.pipeline_order = timetable(orders, self._rank_of)
        self._forwards = timetable(
            [[each for each in order if each.computation is Computation.FORWARD] for order in orders],
            self._rank_of,
        )

    @abstractmethod
    def _order(self, rank: int) -> list[Action]:
        """Return the actions of a rank."""

    def step(
        self,
        *args: Any,
        target: Tensor | None = None,
        losses: list[Tensor] | None = None,
        return_outputs: bool = True,
        loss_kwargs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Take a batch through the pipeline, forwards and backwards.

        Args:
            args: the model's, in the process of the first stage; others' are not used.
            target: Target of the loss, on the rank of the last stage; split along dimension 0.
            losses: List that receives the microbatches' losses, on the rank of the last stage.
            return_outputs: If True, keep the result.
            loss_kwargs: for the loss function.
            kwargs: Keyword arguments of this rank's stages.

        Returns:
            The model's result, in the process of the last stage; None in others.

        Raises:
            RuntimeError: gradients are disabled.
            ValueError: there is no target for the loss, or a microbatch differs from the first one in its shapes.
        """
        if self._has_backward and not is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation; it should not be used under "
                "tt.no_grad() context. Please call eval() instead."
            )
        if losses is not None and not isinstance(losses, list):
            raise TypeError(f"losses must be a list but got a {type(losses)}")
        last = self._stages.get(self._num_stages - 1)
        if last is not None and self._has_backward and target is None:
            raise ValueError("step: `target` is missing; the process of the last stage needs it for the loss")
        count = self._n_microbatches
        arguments = split_args_kwargs_into_chunks(
            args if 0 in self._stages else (),
            kwargs,
            count,
            self._args_chunk_spec if args else None,
            self._kwargs_chunk_spec,
        )
        targets = None if target is None else split_tensor(target, TensorChunkSpec(0), count)
        for stage in self._stages.values():
            stage.clear()
        self._infer(arguments[0][0], arguments[1][0])
        loss_of_microbatch = _Step(self, arguments, targets, dict(loss_kwargs or {}), return_outputs).run()
        if losses is not None and last is not None:
            losses[:] = [loss_of_microbatch[number] for number in sorted(loss_of_microbatch)]
        if self._has_backward:
            for stage in self._stages.values():
                stage.scale_grads(count if self.scale_grads else 1)
        outputs = [] if last is None else last.outputs
        for stage in self._stages.values():
            stage.clear()
        return merge_chunks(outputs, self._output_merge_spec) if outputs else None

    def eval(
        self, *args: Any, target: Tensor | None = None, losses: list[Tensor] | None = None, **kwargs: Any
    ) -> Any:
        """Take a batch through the pipeline, forwards alone; losses are computed if there is a target."""
        before, self._has_backward = self._has_backward, False
        try:
            return self.step(*args, target=target, losses=losses, **kwargs)
        finally:
            self._has_backward = before

    def _infer(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """At the first step: the shapes of all stages, from the first one on."""
        for number in sorted(self._stages):
            stage = self._stages[number]
            if stage.is_inferred:
                continue
            inputs: tuple[Any, ...] = args
            if number and self._rank_of[number - 1] == self._rank:
                inputs = self._stages[number - 1].output_metas or ()
            elif number:
                received: list[Any] = [None]
                recv_object_list(received, src=self._peer(number - 1), group=self._group)
                inputs = received[0]
            metas = stage.infer(inputs, kwargs)
            if number + 1 < self._num_stages and self._rank_of[number + 1] != self._rank:
                send_object_list([metas], dst=self._peer(number + 1), group=self._group)

    def _peer(self, stage: int) -> int:
        return get_global_rank(self._group, self._rank_of[stage])


class _Step:
    """One batch on its way through the pipeline.

    Args:
        schedule: when what is computed.
        arguments: each microbatch's.
        targets: each microbatch's.
        loss_kwargs: for the loss function.
        keep: If True, keep the results.
    """

    def __init__(
        self,
        schedule: PipelineSchedule,
        arguments: tuple[list[tuple[Any, ...]], list[dict[str, Any]]],
        targets: list[Tensor] | None,
        loss_kwargs: dict[str, Any],
        keep: bool,
    ) -> None:
        self.schedule = schedule
        self.args, self.kwargs = arguments
        self.targets, self.loss_kwargs, self.keep = targets, loss_kwargs, keep
        self.has_backward = schedule._has_backward
        self.losses: dict[int, Tensor] = {}
        self.arriving: dict[Action, tuple[list[Tensor], list[Work]]] = {}
        self.sends: list[tuple[Work, Tensor]] = []
        self.last = schedule._num_stages - 1

    def run(self) -> dict[int, Tensor]:
        """Carry out the timetable; the losses by microbatch."""
        schedule = self.schedule
        table: Timetable = schedule.pipeline_order if self.has_backward else schedule._forwards
        for step in table:
            action = step[schedule._rank]
            computed = [] if action is None else self._compute(action)
            self._exchange(step, computed)
        for work, _ in self.sends:
            work.wait()
        return self.losses

    def _compute(self, action: Action) -> list[Tensor]:
        number, computation, microbatch = action
        stage = self.schedule._stages[number]
        if action in self.arriving:
            tensors, works = self.arriving.pop(action)
            for work in works:
                work.wait()
            self._take(action, tensors)
        if computation is Computation.BACKWARD:
            is_last_backward = microbatch == self.schedule._n_microbatches - 1
            loss = self.losses[microbatch] if number == self.last else None
            return stage.backward(microbatch, loss, is_last_backward)
        returned, sent = stage.forward(
            microbatch, self.args[microbatch], self.kwargs[microbatch], self.keep, self.has_backward
        )
        if number == self.last and self.schedule._loss_fn is not None and self.targets is not None:
            self.losses[microbatch] = self.schedule._loss_fn(
                returned, self.targets[microbatch], **self.loss_kwargs
            )
        return sent

    def _take(self, action: Action, tensors: list[Tensor]) -> None:
        stage = self.schedule._stages[action.stage]
        if action.computation is Computation.FORWARD:
            stage.take_inputs(action.microbatch, tensors, self.has_backward)
        else:
            stage.take_gradients(action.microbatch, tensors)

    def _exchange(self, step: Sequence[Action | None], computed: list[Tensor]) -> None:
        """Send the results of a step to the ranks that need them, and receive this rank's inputs."""
        schedule = self.schedule
        operations: list[P2POp] = []
        receives: list[tuple[Action, list[Tensor]]] = []
        for rank, action in enumerate(step):
            target = None if action is None else receiver(action, self.last)
            if action is None or target is None:
                continue
            destination, following = schedule._rank_of[target], action._replace(stage=target)
            if rank == schedule._rank == destination:
                self._take(following, computed)
            elif rank == schedule._rank:
                operations += [
                    P2POp(isend, each, group=schedule._group, group_peer=destination) for each in computed
                ]
            elif destination == schedule._rank:
                stage = schedule._stages[target]
                is_forward = action.computation is Computation.FORWARD
                room = stage.room_for_inputs() if is_forward else stage.room_for_gradients()
                operations += [P2POp(irecv, each, group=schedule._group, group_peer=rank) for each in room]
                receives.append((following, room))
        works = iter(batch_isend_irecv(operations) if operations else [])
        work_of: dict[int, Work] = {id(each): work for each, work in zip(operations, works, strict=True)}
        for following, room in receives:
            held = {id(tensor) for tensor in room}
            self.arriving[following] = (
                room,
                [work_of[id(each)] for each in operations if id(each.tensor) in held],
            )
        self.sends = [each for each in self.sends if not each[0].is_completed()]
        self.sends += [(work_of[id(each)], each.tensor) for each in operations if each.op is isend]


class _OneStage(PipelineSchedule):
    """Schedules of one stage in each process."""

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Loss | None = None,
        args_chunk_spec: tuple[Any, ...] | None = None,
        kwargs_chunk_spec: Mapping[str, Any] | None = None,
        output_merge_spec: Any = None,
        scale_grads: bool = True,
    ) -> None:
        super().__init__(
            [stage],
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            scale_grads,
        )


class ScheduleGPipe(_OneStage):
    """All microbatches forwards, then all backwards (`torch.distributed.pipelining.ScheduleGPipe`).

    Args:
        stage: Stage of this rank.
        n_microbatches: into how many a batch is cut.
        loss_fn: As for all schedules; so are the other arguments, see `PipelineSchedule`.

    Source: Huang et al., 2019, arXiv:1811.06965.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.pipelining import PipelineStage, ScheduleGPipe
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = tt.nn.Linear(2, 1)
        >>> schedule = ScheduleGPipe(PipelineStage(model, 0, 1, "cpu"), 2, tt.nn.functional.mse_loss)
        >>> losses = []
        >>> schedule.step(tt.ones(4, 2), target=tt.ones(4, 1), losses=losses).shape, len(losses)
        (triten.Size([4, 1]), 2)
        >>> model.weight.grad.shape
        triten.Size([1, 2])
        >>> dist.destroy_process_group()
    """

    def _order(self, rank: int) -> list[Action]:
        return gpipe_order(rank, self._n_microbatches)


class Schedule1F1B(_OneStage):
    """One microbatch forwards and one backwards in turn (`torch.distributed.pipelining.Schedule1F1B`).

    A process keeps the results of as many microbatches at most as there are stages from its own on.

    Args:
        stage: Stage of this rank.
        n_microbatches: into how many a batch is cut.
        loss_fn: As for all schedules; so are the other arguments, see `PipelineSchedule`.

    Source: Narayanan et al., 2021, arXiv:2104.04473, figure 4.
    """

    def _order(self, rank: int) -> list[Action]:
        return one_forward_one_backward_order(rank, self._size, self._n_microbatches)


class ScheduleInterleaved1F1B(PipelineSchedule):
    """One microbatch forwards and one backwards in turn, over several stages of each process
    (`torch.distributed.pipelining.ScheduleInterleaved1F1B`).

    Args:
        stages: Stages of this rank; each rank has equally many.
        n_microbatches: into how many a batch is cut.
        loss_fn: As for all schedules; so are the other arguments, see `PipelineSchedule`.

    Raises:
        ValueError: the microbatches cannot be divided into rounds, or processes have different numbers of stages.

    Source: Narayanan et al., 2021, arXiv:2104.04473, figure 4.
    """

    def _order(self, rank: int) -> list[Action]:
        if self._num_stages % self._size:
            raise ValueError(
                f"Interleaved 1F1B requires the same number of stages in each process, but got {self._num_stages} "
                f"stages in {self._size} processes"
            )
        return interleaved_1f1b_order(rank, self._size, self._num_stages // self._size, self._n_microbatches)
