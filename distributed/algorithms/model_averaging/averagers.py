"""When parameters are averaged (`torch.distributed.algorithms.model_averaging.averagers`)."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ....autograd import no_grad
from ...collectives import _one_line, _take, all_reduce
from ...groups import group_or_default

if TYPE_CHECKING:
    from ...process_group import ProcessGroup

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Base class of parameter averagers.

    Args:
        process_group: The group. None means all ranks.

    Attributes:
        step: Number of calls of `average_parameters`.
    """

    def __init__(self, process_group: ProcessGroup | None = None) -> None:
        self.process_group = group_or_default(process_group)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters, or those of an optimizer's groups, if it is time."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters once in a number of steps.

    Args:
        period: the number of steps.
        warmup_steps: before these many steps it does not.
        process_group: The group. None means all ranks.

    Raises:
        ValueError: `period` or `warmup_steps` is too small.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> averager = PeriodicModelAverager(period=4)
        >>> averager.average_parameters([tt.ones(1)]); averager.step
        1
        >>> dist.destroy_process_group()
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: ProcessGroup | None = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError(f"Arg ``warmup_steps`` must be a non-negative number, but got {warmup_steps}.")
        if period < 1:
            raise ValueError(f"Arg ``period`` must be a positive value, but got {period}.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging because the communication cost of all-reducing "
                "parameters will be no less than the cost of all-reducing gradients by DistributedDataParallel in the "
                "backward pass. Therefore, only DistributedDataParallel should be used for this case.",
                stacklevel=2,
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Average parameters if it is time.

        Args:
            params: parameters, or an optimizer's ``param_groups``.
        """
        if self.step >= self.warmup_steps and (self.step - self.warmup_steps) % self.period == 0:
            several = [
                each for entry in params for each in (entry["params"] if isinstance(entry, dict) else [entry])
            ]
            kinds: dict[Any, list[Any]] = {}
            for each in several:
                if each.requires_grad:
                    kinds.setdefault((each.dtype, each.device), []).append(each.detach())
            with no_grad():
                for together in kinds.values():
                    line = _one_line(together).div_(self.process_group.size())
                    all_reduce(line, group=self.process_group)
                    _take(together, line)
        self.step += 1
