"""Cyclic schedules of learning rates, with inversely cycled momenta.

Sources: L. Smith, "Cyclical learning rates for training neural networks", 2017; "Super-convergence", 2018.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..optimizer import Optimizer, Rate
from .scheduler import LRScheduler, assign, checked_optimizer, for_each_group, state_of_callable

__all__ = ["CyclicLR", "OneCycleLR"]


class MomentumScheduler(LRScheduler):
    """Base class of schedulers that also set the momentum, or Adam's first beta."""

    cycle_momentum: bool
    use_beta1: bool

    def _begin_momenta(
        self, base: float | Sequence[float], max_momentum: float | Sequence[float], last_epoch: int
    ) -> tuple[list[float], list[float]]:
        """Return the bounds of each group's momentum, and start at the upper bound.

        Raises:
            ValueError: The optimizer has no momentum.
        """
        defaults = self.optimizer.defaults
        if "momentum" not in defaults and "betas" not in defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in defaults
        low = for_each_group("base_momentum", self.optimizer, base)
        high = for_each_group("max_momentum", self.optimizer, max_momentum)
        if last_epoch == -1:
            for group, least, greatest in zip(self.optimizer.param_groups, low, high, strict=True):
                self._set_momentum(group, greatest)
                group["max_momentum"], group["base_momentum"] = greatest, least
        return low, high

    def _set_momentum(self, group: dict[str, Any], value: Rate) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(MomentumScheduler):
    """Cyclic rates: linear between two bounds, up and down (`torch.optim.lr_scheduler.CyclicLR`).

    A step is a batch.

    Args:
        base_lr, max_lr: the bounds, for all groups or for each.
        step_size_up, step_size_down: the steps of either way; as many down as up unless given.
        mode: ``"triangular"``; ``"triangular2"``, in which each cycle is half as high; ``"exp_range"``, in which the
            height falls by `gamma` at each step.
        scale_fn: the height as a function, instead of `mode`.
        scale_mode: The argument of `scale_fn`, ``"cycle"`` or ``"iterations"``.
        cycle_momentum: If True, the momentum goes the other way, between `base_momentum` and `max_momentum`. Default:
            True.

    Raises ValueError for an unknown mode, and an optimizer without momentum.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> scheduler = tt.optim.lr_scheduler.CyclicLR(optimizer, base_lr=1.0, max_lr=3.0, step_size_up=2)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr(), round(optimizer.param_groups[0]["momentum"], 3)
        ([2.0], 0.85)
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        low = for_each_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for rate, group in zip(low, optimizer.param_groups, strict=True):
                assign(group, "lr", rate)
        self.max_lrs = for_each_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self._scale_fn_custom, self.scale_mode = mode, gamma, scale_fn, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = self._begin_momenta(
                base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = low

    def scale_fn(self, x: float) -> float:
        """Return the amplitude scale of a cycle or a step."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular":
            return 1.0
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else float(self.gamma**x)

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`, and set the momenta."""
        self._warn_outside_step()
        cycles = self.last_epoch / self.total_size
        cycle = math.floor(1 + cycles)
        position = 1.0 + cycles - cycle
        share = (
            position / self.step_ratio
            if position <= self.step_ratio
            else (position - 1) / (self.step_ratio - 1)
        )
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            bounds = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in bounds:
                self._set_momentum(group, high - (high - low) * share * height)
        pairs = zip(self.base_lrs, self.max_lrs, strict=True)
        return [low + (high - low) * share * height for low, high in pairs]

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the optimizer; a callable `scale_fn` adds its attributes, a function nothing."""
        custom = self._scale_fn_custom
        return {
            **super().state_dict(),
            "_scale_fn_custom": None if custom is None else state_of_callable(custom),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave; a function of heights stays."""
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(state_dict["_scale_fn_custom"])


class OneCycleLR(MomentumScheduler):
    """One cycle in all of training: up to a maximum, then almost to zero (`torch.optim.lr_scheduler.OneCycleLR`).

    Args:
        max_lr: the maximum, for all groups or for each.
        total_steps: The number of training steps; or give `epochs` and `steps_per_epoch`.
        pct_start: the share of steps on the way up.
        anneal_strategy: ``"cos"`` or ``"linear"``.
        cycle_momentum: If True, the momentum goes the other way, between `base_momentum` and `max_momentum`. Default:
            True.
        div_factor: the maximum over the first rate.
        final_div_factor: the first rate over the last one.
        three_phase: If True, the way down is as long as the way up, and what is left falls to the last rate. Default:
            False.

    Raises ValueError for options out of their range, an optimizer without momentum, and a step too many.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0, momentum=0.9)
        >>> scheduler = tt.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=9, div_factor=4.0)
        >>> scheduler.get_last_lr()
        [0.25]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        self.optimizer = checked_optimizer(optimizer)
        self.total_steps = _total(total_steps, epochs, steps_per_epoch)
        if not isinstance(pct_start, float) or not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_func_type = anneal_strategy
        self._schedule_phases = _phases(pct_start * self.total_steps, self.total_steps, three_phase)
        if last_epoch == -1:
            greatest = for_each_group("max_lr", optimizer, max_lr)
            for group, rate in zip(optimizer.param_groups, greatest, strict=True):
                group["initial_lr"], group["max_lr"] = rate / div_factor, rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._begin_momenta(base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Rate, end: Rate, share: float) -> Rate:
        if self._anneal_func_type == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`, and set the momenta.

        Raises:
            ValueError: The scheduler is stepped more than `total_steps` times.
        """
        self._warn_outside_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is {self.total_steps}"
            )
        begun, phase = 0.0, self._schedule_phases[-1]
        for phase in self._schedule_phases:
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            begun = phase["end_step"]
        share = (step - begun) / (phase["end_step"] - begun)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], share))
            if self.cycle_momentum:
                bounds = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*bounds, share))
        return rates


def _total(total_steps: int | None, epochs: int | None, steps_per_epoch: int | None) -> int:
    """Return the total number of training steps.

    Raises:
        ValueError: A number is missing or not positive.
    """
    if total_steps is None and (epochs is None or steps_per_epoch is None):
        raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
    factors = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
    total = 1
    for name, value in (factors if total_steps is None else {"total_steps": total_steps}).items():
        if not isinstance(value, int) or value <= 0:
            raise ValueError(f"Expected positive integer {name}, but got {value}")
        total *= value
    return total


def _phases(up: float, total: int, three: bool) -> list[dict[str, Any]]:
    """Return each phase's end and the group options that hold its bounds."""

    def phase(end: float, rates: str, momenta: str) -> dict[str, Any]:
        (first, last), (begin, finish) = rates.split(), momenta.split()
        return {
            "end_step": end,
            "start_lr": f"{first}_lr",
            "end_lr": f"{last}_lr",
            "start_momentum": f"{begin}_momentum",
            "end_momentum": f"{finish}_momentum",
        }

    first = phase(up - 1, "initial max", "max base")
    if not three:
        return [first, phase(total - 1, "max min", "base max")]
    return [
        first,
        phase(2 * up - 2, "max initial", "base max"),
        phase(total - 1, "initial min", "max max"),
    ]
