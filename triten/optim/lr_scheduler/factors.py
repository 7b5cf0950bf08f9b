"""Schedulers that multiply the rates by a factor, at each epoch or at some."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from ..optimizer import Optimizer, Rate
from .scheduler import LRScheduler, state_of_callable

__all__ = [
    "ConstantLR",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "PolynomialLR",
    "StepLR",
]

Lambda = Callable[[int], float]


class FactorScheduler(LRScheduler):
    """The last epoch's rates times `_factor`; where an epoch is named, the first ones times `_total`."""

    def _factor(self) -> float | None:
        """Return the ratio of the rates of `last_epoch` to the previous ones; None for no change."""
        raise NotImplementedError(f"{type(self).__name__} has no _factor")

    def _total(self) -> float:
        """Return the ratio of the rates of `last_epoch` to the initial ones."""
        raise NotImplementedError(f"{type(self).__name__} has no _total")

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`."""
        self._warn_outside_step()
        factor = self._factor()
        return (
            self._now() if factor is None else [group["lr"] * factor for group in self.optimizer.param_groups]
        )

    def _get_closed_form_lr(self) -> list[Rate]:
        total = self._total()
        return [rate * total for rate in self.base_lrs]


class StepLR(FactorScheduler):
    """Learning rate scheduler: decay by `gamma` every `step_size` epochs (`torch.optim.lr_scheduler.StepLR`).

        lr = initial_lr * gamma ** (epoch // step_size)

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        step_size: The number of epochs between decays.
        gamma: The factor of a decay. Default: 0.1.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
        >>> for epoch in range(3):
        ...     print(scheduler.get_last_lr())
        ...     optimizer.step()
        ...     scheduler.step()
        [1.0]
        [1.0]
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        """Return `gamma` at every `step_size`-th epoch, else None."""
        return None if self.last_epoch == 0 or self.last_epoch % self.step_size else self.gamma

    def _total(self) -> float:
        """Return `gamma` to the power of the number of completed periods."""
        return self.gamma ** (self.last_epoch // self.step_size)


class MultiStepLR(FactorScheduler):
    """Learning rate scheduler: decay by `gamma` at each of `milestones` (`torch.optim.lr_scheduler.MultiStepLR`).

        lr = initial_lr * gamma ** n, where n is the number of milestones up to the epoch

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        milestones: The epochs of the decays.
        gamma: The factor of a decay. Default: 0.1.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1], gamma=0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        """Return `gamma` to the power of the epoch's count among the milestones, or None."""
        return self.gamma ** self.milestones[self.last_epoch] if self.last_epoch in self.milestones else None

    def _total(self) -> float:
        """Return `gamma` to the power of the number of passed milestones."""
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), self.last_epoch)


class ExponentialLR(FactorScheduler):
    """Learning rate scheduler: decay by `gamma` at every epoch (`torch.optim.lr_scheduler.ExponentialLR`).

        lr = initial_lr * gamma ** epoch

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        gamma: The factor of a decay.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        """Return `gamma`, or None at the first epoch."""
        return None if self._is_initial else self.gamma

    def _total(self) -> float:
        """Return `gamma` to the power of `last_epoch`."""
        return self.gamma**self.last_epoch


class ConstantLR(FactorScheduler):
    """Learning rate scheduler: rates multiplied by `factor` until epoch `total_iters`
        (`torch.optim.lr_scheduler.ConstantLR`).

        lr = initial_lr * factor if epoch < total_iters, initial_lr otherwise

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        factor: The factor, from 0 to 1. Default: 1/3.
        total_iters: The number of epochs with the factor. Default: 5.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Raises:
        ValueError: `factor` is below 0 or above 1.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> tt.optim.lr_scheduler.ConstantLR(optimizer, factor=0.5).get_last_lr()
        [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if factor > 1.0 or factor < 0:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        """Return the factor at epoch 0, and its inverse at `total_iters`."""
        if self.last_epoch == 0:
            return self.factor
        return 1.0 / self.factor if self.last_epoch == self.total_iters else None

    def _total(self) -> float:
        """Return the factor before `total_iters`, then 1."""
        return self.factor + (self.last_epoch >= self.total_iters) * (1 - self.factor)


class LinearLR(FactorScheduler):
    """Learning rate scheduler: a factor that changes linearly over `total_iters` epochs
        (`torch.optim.lr_scheduler.LinearLR`).

        lr = initial_lr * (start_factor + (end_factor - start_factor) * min(epoch, total_iters) / total_iters)

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        start_factor: The factor of the first epoch, above 0 and at most 1. Default: 1/3.
        end_factor: The factor from epoch `total_iters` on, from 0 to 1. Default: 1.
        total_iters: The number of epochs until `end_factor`. Default: 5.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Raises:
        ValueError: A factor is out of its range.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.5, total_iters=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if start_factor > 1.0 or start_factor <= 0:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if end_factor > 1.0 or end_factor < 0:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        """Return the ratio of two consecutive factors of the linear ramp."""
        if self.last_epoch == 0:
            return self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        span = self.end_factor - self.start_factor
        return 1.0 + span / (self.total_iters * self.start_factor + (self.last_epoch - 1) * span)

    def _total(self) -> float:
        """Return the factor of the linear ramp."""
        span = self.end_factor - self.start_factor
        return self.start_factor + span * min(self.total_iters, self.last_epoch) / self.total_iters


class PolynomialLR(FactorScheduler):
    """Learning rate scheduler: polynomial decay to 0 in `total_iters` epochs
        (`torch.optim.lr_scheduler.PolynomialLR`).

        lr = initial_lr * (1 - min(epoch, total_iters) / total_iters) ** power

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        total_iters: The number of epochs until the rate is 0. Default: 5.
        power: The exponent. Default: 1.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=4, power=2.0)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5625]
    """

    def __init__(
        self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1
    ) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _factor(self) -> float | None:
        """Return the ratio of two consecutive factors of the polynomial."""
        if self._is_initial or self.last_epoch > self.total_iters:
            return None
        left = (1.0 - (self.last_epoch - late) / self.total_iters for late in (0, 1))
        now, before = left
        return float((now / before) ** self.power)

    def _total(self) -> float:
        """Return the remaining fraction of `total_iters` to the power `power`."""
        return float((1.0 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power)


class LambdaLR(LRScheduler):
    """Learning rate scheduler: initial rates multiplied by functions of the epoch
        (`torch.optim.lr_scheduler.LambdaLR`).

        lr = initial_lr * lr_lambda(epoch)

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        lr_lambda: A function of the epoch for all groups, or a list with one for each. `state_dict` has the
            attributes of callable objects, and nothing of functions.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Raises:
        ValueError: The number of functions is not that of groups.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> tt.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch).get_last_lr()
        [1.0]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Lambda | list[Lambda], last_epoch: int = -1) -> None:
        count = len(optimizer.param_groups)
        lambdas = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * count
        if len(lambdas) != count:
            raise ValueError(f"Expected {count} lr_lambdas, but got {len(lambdas)}")
        self.lr_lambdas = lambdas
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the optimizer, and with the attributes of callable objects; see `LambdaLR`."""
        state = super().state_dict()
        return {**state, "lr_lambdas": [state_of_callable(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave; the functions stay, objects get their attributes."""
        self.__dict__.update({name: value for name, value in state_dict.items() if name != "lr_lambdas"})
        for function, state in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if state is not None:
                function.__dict__.update(state)

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`."""
        self._warn_outside_step()
        pairs = zip(self.lr_lambdas, self.base_lrs, strict=True)
        return [rate * function(self.last_epoch) for function, rate in pairs]


class MultiplicativeLR(LambdaLR):
    """Previous rates multiplied by functions of the epoch (`torch.optim.lr_scheduler.MultiplicativeLR`).

    Raises ValueError for another number of functions, TypeError for what cannot be called.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.MultiplicativeLR(optimizer, lambda epoch: 0.5)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Lambda | list[Lambda], last_epoch: int = -1) -> None:
        for function in lr_lambda if isinstance(lr_lambda, list | tuple) else [lr_lambda]:
            if not callable(function):
                raise TypeError(f"lr_lambda should be a function, but got {type(function).__name__}")
        super().__init__(optimizer, lr_lambda, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`."""
        self._warn_outside_step()
        if self._is_initial:
            return self._now()
        pairs = zip(self.lr_lambdas, self.optimizer.param_groups, strict=True)
        return [group["lr"] * function(self.last_epoch) for function, group in pairs]
