"""Weight averaging during training (`torch.optim.swa_utils`).

Sources: P. Izmailov and others, "Averaging weights leads to wider optima and better generalization", 2018; for
exponential averages, B. Polyak and A. Juditsky, "Acceleration of stochastic approximation by averaging", 1992.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable
from typing import Any

from ..autograd import no_grad
from ..dispatch.generated import functions as _ops
from ..dispatch.tensor import Tensor
from ..nn.modules.batchnorm import BatchNorm1d, BatchNorm2d, BatchNorm3d
from ..nn.modules.module import Module
from ..runtime.device import DeviceLike
from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import int64
from .lr_scheduler.scheduler import LRScheduler, for_each_group
from .optimizer import Optimizer, Rate

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]

Average = Callable[[Tensor, Tensor, int | Tensor], Tensor]
ListAverage = Callable[[list[Tensor], list[Tensor], int | Tensor], None]


def _check_decay(decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """Return an averaging function that keeps `decay` of the old average (`torch.optim.swa_utils.get_ema_avg_fn`).

    Raises:
        ValueError: `decay` is outside [0, 1].

    Example:
        >>> import triten as tt
        >>> average = tt.optim.swa_utils.get_ema_avg_fn(0.75)
        >>> average(tt.tensor(4.0), tt.tensor(8.0), 1)
        tensor(5.)
    """
    _check_decay(decay)

    def average(averaged: Tensor, current: Tensor, num_averaged: int | Tensor) -> Tensor:
        with no_grad():
            result: Tensor = decay * averaged + (1 - decay) * current
        return result

    return average


def get_swa_avg_fn() -> Average:
    """Return an averaging function that weighs all models equally (`torch.optim.swa_utils.get_swa_avg_fn`).

    Example:
        >>> import triten as tt
        >>> tt.optim.swa_utils.get_swa_avg_fn()(tt.tensor(4.0), tt.tensor(8.0), 1)
        tensor(6.)
    """

    def average(averaged: Tensor, current: Tensor, num_averaged: int | Tensor) -> Tensor:
        with no_grad():
            result: Tensor = averaged + (current - averaged) / (num_averaged + 1)
        return result

    return average


def _of_lists(average: Average) -> ListAverage:
    def averages(averaged: list[Tensor], current: list[Tensor], num_averaged: int | Tensor) -> None:
        with no_grad():
            for old, new in zip(averaged, current, strict=True):
                old.copy_(average(old, new, num_averaged))

    return averages


def get_ema_multi_avg_fn(decay: float = 0.999) -> ListAverage:
    """Return the in-place form of `get_ema_avg_fn` for lists (`torch.optim.swa_utils.get_ema_multi_avg_fn`)."""
    return _of_lists(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> ListAverage:
    """Return the in-place form of `get_swa_avg_fn` for lists (`torch.optim.swa_utils.get_swa_multi_avg_fn`)."""
    return _of_lists(get_swa_avg_fn())


class AveragedModel(Module):
    """Copy of a model whose parameters are averages of the model's (`torch.optim.swa_utils.AveragedModel`).

    Args:
        model: The model to copy.
        device: The device of the copy.
        avg_fn: the new average of an average, a parameter and the number of models in it; the mean unless given.
        multi_avg_fn: the same of lists, in place.
        use_buffers: If True, buffers are averaged too; else the copy's are the last model's. Default: False.

    Raises AssertionError for both functions.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.Linear(1, 1, bias=False)
        >>> averaged = tt.optim.swa_utils.AveragedModel(model)
        >>> for value in (1.0, 2.0, 6.0):
        ...     _ = model.weight.data.fill_(value)
        ...     averaged.update_parameters(model)
        >>> averaged(tt.ones(1)).item()
        3.0
    """

    def __init__(
        self,
        model: Module,
        device: DeviceLike = None,
        avg_fn: Average | None = None,
        multi_avg_fn: ListAverage | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", _ops.zeros((), dtype=int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged module."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take a model into the average; the first one is copied."""
        with no_grad():
            pairs = [
                (old.detach(), new.detach().to(old.device))
                for old, new in zip(self._averaged(self.module), self._averaged(model), strict=True)
            ]
            counted = int(self.n_averaged.item())
            if counted == 0:
                for old, new in pairs:
                    old.copy_(new)
            elif self.multi_avg_fn is not None:
                groups: dict[tuple[Device, ScalarType], tuple[list[Tensor], list[Tensor]]] = {}
                for old, new in pairs:
                    for into, each in zip(
                        groups.setdefault((old.device, old.dtype), ([], [])), (old, new), strict=True
                    ):
                        into.append(each)
                for (device, _), (averaged, current) in groups.items():
                    self.multi_avg_fn(averaged, current, self.n_averaged.to(device))
            else:
                average = self.avg_fn or get_swa_avg_fn()
                for old, new in pairs:
                    old.copy_(average(old, new, self.n_averaged.to(old.device)))
            if not self.use_buffers:
                for old, new in zip(self.module.buffers(), model.buffers(), strict=True):
                    old.detach().copy_(new.detach().to(old.device))
            self.n_averaged += 1

    def _averaged(self, model: Module) -> Iterable[Tensor]:
        return (
            itertools.chain(model.parameters(), model.buffers()) if self.use_buffers else model.parameters()
        )


def update_bn(loader: Iterable[Any], model: Module, device: DeviceLike = None) -> None:
    """Have a model's batch norms take the statistics of a loader alone (`torch.optim.swa_utils.update_bn`).

    Args:
        loader: batches, or tuples and lists that begin with one.
        model: The model to run on each batch.
        device: The device that batches are copied to.

    Example:
        >>> import triten as tt
        >>> model = tt.nn.BatchNorm1d(1)
        >>> tt.optim.swa_utils.update_bn([tt.full((4, 1), 2.0), tt.full((4, 1), 4.0)], model)
        >>> model.running_mean
        tensor([3.])
    """
    norms = [each for each in model.modules() if isinstance(each, BatchNorm1d | BatchNorm2d | BatchNorm3d)]
    if not norms:
        return
    momenta, was_training = [each.momentum for each in norms], model.training
    model.train()
    for each in norms:
        each.reset_running_stats()
        each.momentum = None
    with no_grad():
        for batch in loader:
            batch = batch[0] if isinstance(batch, list | tuple) else batch
            model(batch if device is None else batch.to(device))
    for each, momentum in zip(norms, momenta, strict=True):
        each.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Annealing of the rates to a constant one for weight averaging (`torch.optim.swa_utils.SWALR`).

    Args:
        swa_lr: the constant rate, for all groups or for each.
        anneal_epochs: The number of epochs of annealing.
        anneal_strategy: ``"cos"`` or ``"linear"``.

    Raises ValueError for another strategy and for a number of epochs below 0.

    Example:
        >>> import triten as tt
        >>> optimizer = tt.optim.SGD([tt.ones(1, requires_grad=True)], lr=1.0)
        >>> scheduler = tt.optim.swa_utils.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
        >>> optimizer.step()
        >>> scheduler.step()
        >>> scheduler.get_last_lr()
        [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        for group, rate in zip(
            optimizer.param_groups, for_each_group("swa_lr", optimizer, swa_lr), strict=True
        ):
            group["swa_lr"] = rate
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        """Return the annealed fraction at the end of an epoch."""
        progress = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return progress if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * progress)) / 2

    def get_lr(self) -> list[Rate]:
        """Compute the learning rates of `last_epoch`; the initial rates are inferred from the previous step's."""
        self._warn_outside_step()
        step = max(1, self._step_count - 1) if self.anneal_epochs == 0 else self._step_count - 1
        before, now = self._share(step - 1), self._share(step)
        rates: list[Rate] = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            first = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + first * (1 - now))
        return rates
