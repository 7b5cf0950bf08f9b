"""Compositions of schedulers: in sequence, or chained."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from ..optimizer import Optimizer
from .plateau import ReduceLROnPlateau
from .scheduler import LRScheduler, assign, values_of

__all__ = ["ChainedScheduler", "SequentialLR"]


class CombinedScheduler(LRScheduler):
    """Base class of compositions; the schedulers share an optimizer, and their states are part of the composition's."""

    _schedulers: list[LRScheduler]

    def _take(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        """Keep schedulers and their optimizer. Raises ValueError or TypeError for those that do not go together."""
        name = type(self).__name__
        if not schedulers:
            raise ValueError(f"{name} expects at least one scheduler, but got no scheduler.")
        for i, each in enumerate(schedulers):
            if not hasattr(each, "optimizer"):
                raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
            if isinstance(each, ReduceLROnPlateau):
                raise ValueError(
                    f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                    f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
                )
            optimizer = optimizer or each.optimizer
            if optimizer is not each.optimizer:
                raise ValueError(
                    f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                    f"{type(each).__name__} at index {i}, whose optimizer is another one."
                )
        self._schedulers, self.optimizer = list(schedulers), schedulers[0].optimizer

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, schedulers by their own states."""
        return {**super().state_dict(), "_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "_schedulers"})
        for each, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            each.load_state_dict(state)


class SequentialLR(CombinedScheduler):
    """Schedulers in sequence, each from its milestone on (`torch.optim.lr_scheduler.SequentialLR`).

    Args:
        schedulers: The schedulers of `optimizer`.
        milestones: the epochs at which all but the first begin, in ascending order.

    Raises ValueError for schedulers of another optimizer, or of a number that does not fit the milestones.

    Example:
        >>> import triten as tt
        >>> rates = tt.optim.lr_scheduler
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> warmup, rest = rates.ConstantLR(optimizer, 0.5, 9), rates.ExponentialLR(optimizer, 0.5)
        >>> scheduler = rates.SequentialLR(optimizer, [warmup, rest], milestones=[1])
        >>> for epoch in range(3):
        ...     print(scheduler.get_last_lr())
        ...     optimizer.step()
        ...     scheduler.step()
        [0.5]
        [1.0]
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int], last_epoch: int = -1
    ) -> None:
        self._take(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            assign(group, "lr", group["initial_lr"])
        # Each scheduler took its first step when it was made.
        _take_back(self)
        first = self._schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _take_back(scheduler: LRScheduler) -> None:
    if isinstance(scheduler, CombinedScheduler):
        for each in scheduler._schedulers:
            _take_back(each)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(CombinedScheduler):
    """Learning rate scheduler: several schedulers at once, each changing the rates that the previous one set
        (`torch.optim.lr_scheduler.ChainedScheduler`).

    Args:
        schedulers: The schedulers, all of one optimizer.
        optimizer: That optimizer. Default: None, the schedulers' own.

    Raises:
        ValueError: The schedulers have several optimizers.

    Example:
        >>> import triten as tt
        >>> rates = tt.optim.lr_scheduler
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> halving = rates.ExponentialLR(optimizer, 0.5), rates.ExponentialLR(optimizer, 0.5)
        >>> scheduler = rates.ChainedScheduler(halving)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(schedulers, optimizer)
        self._last_lr = values_of(self.optimizer, "lr")

    def step(self) -> None:  # type: ignore[override]
        """Go to the next epoch."""
        for each in self._schedulers:
            each.step()
        self._last_lr = values_of(self.optimizer, "lr")
