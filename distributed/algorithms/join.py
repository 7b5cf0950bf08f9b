"""Ranks with different numbers of batches (`torch.distributed.algorithms.join`).

A rank without further batches takes part in the collectives of the other ranks until they have none either.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ..collectives import all_reduce
from ..groups import get_rank

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ..process_group import ProcessGroup
    from ..work import Work

__all__ = ["Join", "JoinHook", "Joinable"]

MANY = 1000
"""Batches by which a process may be ahead of others without a warning."""


class JoinHook:
    """Hook that a `Joinable` runs on a rank without batches (`torch.distributed.algorithms.JoinHook`)."""

    def main_hook(self) -> None:
        """Take part in the collectives for one batch of the other ranks."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Run after all processes have exhausted their batches.

        Args:
            is_last_joiner: True if this rank is among those with the most batches.
        """


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        return _JoinConfig(enable=False, throw_on_early_termination=False, is_first_joinable=False)


class Joinable(ABC):
    """Something that sends for each batch, and can do so without one (`torch.distributed.algorithms.Joinable`).

    It calls `Join.notify_join_context` before it sends for a batch.
    """

    @abstractmethod
    def __init__(self) -> None:
        super().__init__()
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the hook that a rank without batches runs; the keywords are those of `Join`."""

    @property
    @abstractmethod
    def join_device(self) -> Device:
        """Device of the tensors that `Join` communicates."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The processes."""


class Join:
    """Inside, processes may have different numbers of batches (`torch.distributed.algorithms.Join`).

    Args:
        joinables: Objects that communicate for each batch, in the order in which they do.
        enable: False if all are known to have as many.
        throw_on_early_termination: If True, raise on all ranks as soon as a rank runs out of batches.
        kwargs: for `join_hook`.

    Raises:
        ValueError: there is no joinable, or they have different groups.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.algorithms import Join
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> model = tt.nn.parallel.DistributedDataParallel(tt.nn.Linear(1, 1))
        >>> with Join([model]):
        ...     for batch in tt.ones(3, 1):
        ...         model(batch).sum().backward()
        >>> model.module.weight.grad
        tensor([[3.]])
        >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        joinables: Sequence[Joinable],
        enable: bool = True,
        throw_on_early_termination: bool = False,
        **kwargs: Any,
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = list(joinables)
        self._join_hooks = [joinable.join_hook(**kwargs) for joinable in self._joinables]
        self._enable = enable
        self._throw_on_early_termination = throw_on_early_termination
        for index, joinable in enumerate(self._joinables):
            joinable._join_config = _JoinConfig(enable, throw_on_early_termination, index == 0)
        self._process_group: ProcessGroup = self._joinables[0].join_process_group
        if any(joinable.join_process_group is not self._process_group for joinable in self._joinables):
            raise ValueError("Using join context manager with multiple process groups")
        self._device = self._joinables[0].join_device
        self._rank = get_rank(self._process_group)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._enable or type is not None:
            return
        is_last_joiner, batches = True, 0
        while self._count_of_others():
            if batches == MANY + 1:
                warnings.warn(
                    f"Detected uneven input skew of greater than {MANY}. This means that rank {self._rank} has at "
                    f"least {MANY} fewer inputs than other currently-active ranks. This level of skew could lead to "
                    "performance degradation during training.",
                    stacklevel=2,
                )
            if self._throw_on_early_termination:
                all_reduce(self._number(1.0), group=self._process_group)
                raise RuntimeError(f"Rank {self._rank} exhausted all inputs.")
            for hook in self._join_hooks:
                hook.main_hook()
            is_last_joiner = False
            batches += 1
        for hook in self._join_hooks:
            hook.post_hook(is_last_joiner)

    def _number(self, value: float) -> Any:
        from ...dispatch.generated.functions import full

        return full((1,), value, device=self._device)

    def _count_of_others(self) -> float:
        """Count the ranks that still have a batch."""
        count = self._number(0.0)
        all_reduce(count, group=self._process_group)
        return float(count.item())

    @staticmethod
    def notify_join_context(joinable: Joinable) -> Work | None:
        """Say that this process has a batch.

        Args:
            joinable: Object that is about to communicate.

        Returns:
            What counts the processes that have one; None outside of any `Join`, and for all but its first joinable.

        Raises:
            RuntimeError: a process is without batches, and `throw_on_early_termination` was asked for.
        """
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return None
        from ...dispatch.generated.functions import ones, zeros

        group, device = joinable.join_process_group, joinable.join_device
        work = all_reduce(ones(1, device=device), group=group, async_op=True)
        if config.throw_on_early_termination:
            is_over = zeros(1, device=device)
            all_reduce(is_over, group=group)
            if is_over.item():
                raise RuntimeError(
                    "Detected at least one rank that exhausted inputs. Throwing across all ranks."
                )
        return work
