"""An optimizer over other parameters and another state, for a block (`swap_in_optimizer_params_and_state`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..dispatch.tensor import Tensor
from .optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: dict[str, Tensor], swapin_optim_state: dict[str, Any]
) -> Iterator[None]:
    """Swap in an optimizer's parameters, state and options for a block, and restore its own afterwards.

    In-place changes to the given tensors persist. State entries that the optimizer adds are discarded.

    Args:
        optimizer: The optimizer.
        swapin_parameters: Tensors by name, in the order of the optimizer's parameters.
        swapin_optim_state: A state dict, as from `Optimizer.state_dict`, with the same groups of parameters.

    Raises:
        ValueError: The numbers of parameters or groups differ from the optimizer's.

    Example:
        >>> import triten as tt
        >>> own, other = tt.nn.Parameter(tt.ones(1)), tt.ones(1, requires_grad=True)
        >>> sgd = tt.optim.SGD([own], lr=0.5)
        >>> other.grad = tt.ones(1)
        >>> with tt.optim.swap_in_optimizer_params_and_state(sgd, {"w": other}, sgd.state_dict()):
        ...     sgd.step()
        >>> own.item(), other.item()
        (1.0, 0.5)
    """
    groups = swapin_optim_state["param_groups"]
    tensors = list(swapin_parameters.values())
    sizes = [len(group["params"]) for group in optimizer.param_groups]
    if [len(group["params"]) for group in groups] != sizes:
        raise ValueError(
            "swap_in_optimizer_params_and_state: swapin_optim_state has groups of "
            f"{[len(group['params']) for group in groups]} parameters, expected {sizes}"
        )
    if len(tensors) != sum(sizes):
        raise ValueError(
            f"swap_in_optimizer_params_and_state: got {len(tensors)} swapin_parameters, expected {sum(sizes)}"
        )
    saved: Mapping[Any, Any] = swapin_optim_state["state"]
    state: defaultdict[Any, dict[str, Any]] = defaultdict(dict)
    parameters = iter(tensors)
    own_state, own_groups = optimizer.state, [dict(group) for group in optimizer.param_groups]
    try:
        for group, other in zip(optimizer.param_groups, groups, strict=True):
            taken = [next(parameters) for _ in other["params"]]
            group.update({**other, "params": taken})
            for parameter, number in zip(taken, other["params"], strict=True):
                if number in saved:
                    state[parameter] = dict(saved[number])
        optimizer.state = state
        yield
    finally:
        for group, before in zip(optimizer.param_groups, own_groups, strict=True):
            group.clear()
            group.update(before)
        optimizer.state = own_state
