"""Cosine annealing, once or with warm restarts (Loshchilov and Hutter, SGDR, 2017)."""

from __future__ import annotations

import math

from ..optimizer import Optimizer, Rate
from .scheduler import LRScheduler

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts"]


def _height(position: float, span: float) -> float:
    """Return the cosine curve from 2 to 0 over `span`."""
    return 1 + math.cos(math.pi * position / span)


class CosineAnnealingLR(LRScheduler):
    """Learning rate scheduler: cosine annealing to `eta_min` in `T_max` epochs
        (`torch.optim.lr_scheduler.CosineAnnealingLR`; Loshchilov and Hutter, 2017).

        lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2

    Each rate is computed from the previous one, so that other schedulers may change it in between.

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        T_max: The number of epochs until `eta_min`.
        eta_min: The lowest rate. Default: 0.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`."""
        self._warn_outside_step()
        if self._is_initial:
            return self._now()
        epoch, groups, least = self.last_epoch, self.optimizer.param_groups, self.eta_min
        if self._step_count == 1 and epoch > 0:
            return self._get_closed_form_lr()
        if (epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            # The last rate is the least one: a quotient of heights would divide by zero.
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            pairs = zip(self.base_lrs, groups, strict=True)
            return [group["lr"] + (base - least) * rise for base, group in pairs]
        quotient = _height(epoch, self.T_max) / _height(epoch - 1, self.T_max)
        return [quotient * (group["lr"] - least) + least for group in groups]

    def _get_closed_form_lr(self) -> list[Rate]:
        height = _height(self.last_epoch, self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Learning rate scheduler: cosine annealing with warm restarts
        (`torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`; Loshchilov and Hutter, 2017).

        lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * t / T)) / 2

    A cycle has T epochs, of which t have passed. At its end the rate returns to the initial one.

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        T_0: The number of epochs of the first cycle.
        T_mult: The factor by which each cycle is longer than the previous one. Default: 1.
        eta_min: The lowest rate. Default: 0.
        last_epoch: The epoch after which to resume; -1 starts anew. Default: -1.

    Raises:
        ValueError: `T_0` or `T_mult` is not a positive int.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=2)
        >>> for epoch in range(3):
        ...     print(scheduler.get_last_lr())
        ...     scheduler.step()
        [1.0]
        [0.5]
        [1.0]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`."""
        self._warn_outside_step()
        height = _height(self.T_cur, self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to one that is named, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._set_cycle(epoch)
        self.last_epoch = math.floor(epoch)
        self._get_lr_called_within_step = True
        try:
            values = self.get_lr()
        finally:
            self._get_lr_called_within_step = False
        self._set(values)

    def _set_cycle(self, epoch: float) -> None:
        """Set the cycle of an epoch, `T_i`, and the epoch's position in the cycle, `T_cur`.

        Raises:
            ValueError: `epoch` is negative.
        """
        if epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        if epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            cycles = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycles - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**cycles
