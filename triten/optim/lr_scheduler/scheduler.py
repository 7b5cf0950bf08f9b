"""Base class of schedulers: counts epochs, sets rates in the optimizer's groups, saves its state."""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.tensor import Tensor
from ..optimizer import Optimizer, Rate

__all__ = ["LRScheduler"]

_SEE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please "
    "use `scheduler.step()` to step the scheduler."
)
"""Text of the warning of `warn_of_epoch`, by which programs filter it."""


class LRScheduler:
    """Base class of schedulers, which set the rates of an optimizer's groups (`torch.optim.lr_scheduler.LRScheduler`).

    Args:
        optimizer: whose groups change. They get ``initial_lr``, what their rate was at first.
        last_epoch: the epoch that training is resumed after; -1 from the beginning.

    Raises:
        TypeError: `optimizer` is none.
        KeyError: a group has no ``initial_lr`` though training is resumed.

    Example:
        >>> import triten as tt
        >>> class Halving(tt.optim.lr_scheduler.LRScheduler):
        ...     def get_lr(self):
        ...         return [rate / 2**self.last_epoch for rate in self.base_lrs]
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = Halving(optimizer)
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.5]
    """

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False
    optimizer: Optimizer
    last_epoch: int
    _last_lr: list[Rate]
    _step_count: int

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked_optimizer(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    "last_epoch >= 0: load the optimizer's state first, or begin with last_epoch=-1"
                )
        self.base_lrs: list[Rate] = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        if "step_at_construction" not in optimizer.__dict__:
            optimizer.__dict__["_opt_called"] = False
            optimizer.__dict__["step_at_construction"] = optimizer.__dict__.get("step")
        self._initial_step()

    def _initial_step(self) -> None:
        """Set the rates of the first epoch."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Return the state without the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what `state_dict` gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Rate]:
        """Return the rates that the last step set."""
        return self._last_lr

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`. Every subclass overrides this method.

        Raises:
            NotImplementedError: The subclass does not override it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no get_lr")

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to one that is named, and set its rates."""
        if self._step_count == 1:
            state = self.optimizer.__dict__
            if state.get("step") != state.get("step_at_construction"):
                warnings.warn(
                    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                    f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_SEE}",
                    stacklevel=2,
                )
            elif not state["_opt_called"]:
                warnings.warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`: the first value of the "
                    f"learning rate schedule is skipped. Call `optimizer.step()` first. {_SEE}",
                    stacklevel=2,
                )
        self._step_count += 1
        if epoch is not None:
            warn_of_epoch()
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            if epoch is None:
                self.last_epoch += 1
                values = self.get_lr()
            else:
                self.last_epoch = epoch
                closed = getattr(self, "_get_closed_form_lr", None)
                values = self.get_lr() if closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        self._set(values)

    def _set(self, values: Sequence[Rate]) -> None:
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            assign(group, "lr", value)
        self._last_lr = values_of(self.optimizer, "lr")

    def _now(self) -> list[Rate]:
        """Return the current learning rates."""
        return values_of(self.optimizer, "lr")

    def _warn_outside_step(self) -> None:
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                stacklevel=3,
            )


def warn_of_epoch() -> None:
    """Warn that the argument `epoch` of `step` is deprecated."""
    warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=3)


def checked_optimizer(optimizer: object) -> Optimizer:
    """Return `optimizer` after checking its type.

    Raises:
        TypeError: It is not an `Optimizer`.
    """
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
    return optimizer


def own(value: Any) -> Any:
    """Clone a tensor, so that in-place changes of a group do not affect it; return other values."""
    return value.clone() if isinstance(value, Tensor) else value


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """Return the value of an option in each group."""
    return [own(group[key]) for group in optimizer.param_groups]


def assign(group: dict[str, Any], key: str, value: Rate) -> None:
    """Set a group's option; a tensor keeps its memory, which a captured step reads."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def for_each_group(name: str, optimizer: Optimizer, value: Rate | Sequence[Rate]) -> list[Any]:
    """Return one value for each group; repeat a single value.

    Raises:
        ValueError: The number of values differs from the number of groups.
    """
    count = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [own(value) for _ in range(count)]
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {count}."
        )
    return [own(each) for each in value]


def state_of_callable(function: Callable[..., Any]) -> dict[str, Any] | None:
    """Return the attributes of a callable object to save; None for a plain function."""
    return None if isinstance(function, types.FunctionType) else dict(function.__dict__)


class _LRScheduler(LRScheduler):
    """Former name of the base class; programs derive from it (`torch.optim.lr_scheduler._LRScheduler`)."""
