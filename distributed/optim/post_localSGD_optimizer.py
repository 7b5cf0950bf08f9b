"""Optimizer that averages parameters periodically after its steps (`torch.distributed.optim`)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from ...optim.optimizer import Optimizer

if TYPE_CHECKING:
    from ..algorithms.model_averaging.averagers import ModelAverager

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps an optimizer and averages its parameters (`torch.distributed.optim.PostLocalSGDOptimizer`).

    It goes with `post_localSGD_hook`, which averages gradients in small groups only.

    Args:
        optim: the optimizer.
        averager: which averages, and says when.

    Example:
        >>> import triten as tt
        >>> from triten import distributed as dist
        >>> from triten.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
        >>> dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
        >>> x = tt.ones(1, requires_grad=True)
        >>> averager = PeriodicModelAverager(period=4, warmup_steps=100)
        >>> optimizer = dist.optim.PostLocalSGDOptimizer(tt.optim.SGD([x], lr=0.5), averager)
        >>> x.backward(); optimizer.step(); x.item()
        0.5
        >>> dist.destroy_process_group()
    """

    def __init__(self, optim: Optimizer, averager: ModelAverager) -> None:
        self.optim, self.averager = optim, averager
        self.param_groups, self.defaults = optim.param_groups, optim.defaults
        self._make_hooks()

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The optimizer's state."""
        return self.optim.state

    def __repr__(self) -> str:
        return repr(self.optim)

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizer's state dict, with the averager's count as ``"step"``."""
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a result of `state_dict`; without a step count, warn and set it to 0."""
        self.optim.load_state_dict(state_dict)
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn(
                "Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.",
                stacklevel=2,
            )
        self.averager.step = state_dict.get("step", 0)

    def step(self, closure: Any = None) -> Any:
        """Step, and average the parameters if it is time."""
        loss = self.optim.step() if closure is None else self.optim.step(closure)
        self.averager.average_parameters(self.param_groups)
        return loss

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the parameters' gradients."""
        self.optim.zero_grad(set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters."""
        self.optim.add_param_group(param_group)
