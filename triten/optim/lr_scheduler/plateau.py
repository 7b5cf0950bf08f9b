"""Scheduler that decays the rates when a measurement stops improving."""

from __future__ import annotations

import math
from typing import Any, SupportsFloat

from ..optimizer import Optimizer
from .scheduler import LRScheduler, assign, checked_optimizer, values_of, warn_of_epoch

__all__ = ["ReduceLROnPlateau"]


class ReduceLROnPlateau(LRScheduler):
    """Learning rate scheduler: decay when a metric stops improving (`torch.optim.lr_scheduler.ReduceLROnPlateau`).

    The caller passes the metric, such as the validation loss, to `step` after each epoch.

    Args:
        optimizer: The optimizer whose groups' learning rates change.
        mode: `"min"` if lower metrics are better, `"max"` if higher ones are. Default: `"min"`.
        factor: The factor of a decay, below 1. Default: 0.1.
        patience: The number of epochs without improvement to tolerate. Default: 10.
        threshold: The least change that is an improvement. Default: 1e-4.
        threshold_mode: `"rel"` if `threshold` is a share of the best metric, `"abs"` if it is a difference.
            Default: `"rel"`.
        cooldown: The number of epochs after a decay in which nothing is counted. Default: 0.
        min_lr: The lowest rate, for all groups or a list with one for each. Default: 0.
        eps: The least change of a rate; smaller ones are not made. Default: 1e-8.

    Raises:
        ValueError: An option is out of its range.
        TypeError: `optimizer` is not an optimizer.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
        >>> scheduler.step(2.0)
        >>> scheduler.step(3.0)
        >>> scheduler.get_last_lr()
        [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        self.optimizer = checked_optimizer(optimizer)
        groups = len(optimizer.param_groups)
        rates = list(min_lr) if isinstance(min_lr, list | tuple) else None
        if rates is not None and len(rates) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(rates)}")
        self.default_min_lr = min_lr if rates is None else None
        self.min_lrs: list[Any] = [min_lr] * groups if rates is None else rates
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.last_epoch = 0
        self._last_lr = values_of(optimizer, "lr")
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """True during the cooldown, in which bad epochs are not counted."""
        return self.cooldown_counter > 0

    def is_better(self, measured: float, best: float) -> bool:
        """Return whether a measurement improves on the best one by the threshold."""
        sign = -1.0 if self.mode == "min" else 1.0
        bound = (
            best * (1.0 + sign * self.threshold)
            if self.threshold_mode == "rel"
            else best + sign * self.threshold
        )
        return measured < bound if self.mode == "min" else measured > bound

    def step(self, metrics: SupportsFloat, epoch: int | None = None) -> None:  # type: ignore[override]
        """Look at an epoch's measurement, and change the rates where there were none better for too long."""
        measured = float(metrics)
        if epoch is not None:
            warn_of_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(measured, self.best):
            self.best, self.num_bad_epochs = measured, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr(self.last_epoch)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._now()

    def _reduce_lr(self, epoch: int) -> None:
        """Lower the rates. Subclasses override this method, by PyTorch's name."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group "
                    "being added to the optimizer. Please modify the `min_lrs` field to match the length of the "
                    "`optimizer` param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for group, least in zip(groups, self.min_lrs, strict=True):
            before = float(group["lr"])
            after = max(before * self.factor, least)
            if before - after > self.eps:
                assign(group, "lr", after)
