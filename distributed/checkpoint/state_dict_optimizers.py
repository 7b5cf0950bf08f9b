"""The states of optimizers by the parameters' names: nested, flat, and of one optimizer among several."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...autograd import enable_grad
from ...dispatch.generated import functions as ops
from ...dispatch.tensor import Tensor
from ...nn.modules.module import Module
from ...optim.optimizer import Optimizer
from .state_dict_names import named_state

__all__ = ["by_names", "flattened", "initialize", "of_optimizer", "state_paths", "unflattened"]

OptimizerState = dict[str, Any]


def initialize(optimizer: Optimizer) -> None:
    """Have an optimizer make its state, by a step with gradients and rates of zero. One that has some keeps it."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if optimizer.state or any(parameter.grad is not None for parameter in parameters):
        return
    for parameter in parameters:
        if parameter.requires_grad:
            parameter.grad = ops.zeros_like(parameter).detach()
    rates = [group.get("lr") for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        if "lr" in group:
            group["lr"] = ops.zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
    with enable_grad():
        optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        if "lr" in group:
            group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def names_of(model: Module) -> dict[int, list[str]]:
    """Return the canonical names of each tensor of a model, by its id; a shared tensor has several."""
    names: dict[int, list[str]] = {}
    for name, _, tensor in named_state(model):
        names.setdefault(id(tensor), []).append(name)
    return names


def by_names(model: Module, optimizer: Optimizer) -> OptimizerState:
    """Return an optimizer's state with parameter names instead of parameter indices.

    Raises:
        RuntimeError: it has a parameter that the model does not have.
    """
    names = names_of(model)
    order: list[str] = []
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if id(parameter) not in names:
                raise RuntimeError(
                    f"get_optimizer_state_dict: {type(optimizer).__name__} has a parameter of shape "
                    f"{tuple(parameter.shape)} that is not in the model"
                )
            order.append(names[id(parameter)][0])
    state = optimizer.state_dict()
    return {
        "state": {
            order[key] if isinstance(key, int) else key: value for key, value in state["state"].items()
        },
        "param_groups": [
            {**group, "params": [order[number] for number in group["params"]]}
            for group in state["param_groups"]
        ],
    }


def flattened(state: OptimizerState) -> dict[str, Any]:
    """Flatten an optimizer's state to one dictionary with dotted names.

    Raises:
        NotImplementedError: a parameter's state has something else than tensors, numbers and dictionaries.
    """
    flat: dict[str, Any] = {}
    for name, value in state["state"].items():
        for path, each in _paths(value, f"state.{name}"):
            if not isinstance(each, (Tensor, int, float)):
                raise NotImplementedError(
                    "Flattening optimizer state_dict only supports tensor, int, float, dict states now. Type is "
                    f"{type(each)}."
                )
            flat[path] = each
    for group in state["param_groups"]:
        for name in group["params"]:
            for key, value in group.items():
                if key != "params":
                    flat[f"param_groups.{name}.{key}"] = value
    return flat


def _paths(value: Mapping[Any, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, each in value.items():
        path = f"{prefix}.{key}"
        if isinstance(each, dict):
            yield from _paths(each, path)
        else:
            yield path, each


def state_paths(state: OptimizerState) -> dict[str, Any]:
    """Return the entries of the parameters' states, by dotted path."""
    return dict(pair for name, value in state["state"].items() for pair in _paths(value, f"state.{name}"))


def unflattened(model: Module, optimizer: Optimizer, flat: Mapping[str, Any]) -> OptimizerState:
    """Extract the state of one optimizer from a flat dictionary of all optimizers.

    Raises:
        RuntimeError: a name is missing, or parameters of one group have several options.
    """
    names = names_of(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for own in optimizer.param_groups:
        options = [key for key in own if key != "params"]
        group: dict[str, Any] = {"params": []}
        groups.append(group)
        for parameter in own["params"]:
            several = names[id(parameter)]
            present = (
                name for name in several if any(f"param_groups.{name}.{key}" in flat for key in options)
            )
            name = next(present, several[0])
            group["params"].append(name)
            for key in options:
                path = f"param_groups.{name}.{key}"
                if path not in flat:
                    raise RuntimeError(f"Missing key in the flat optimizer state: {path}")
                if group.setdefault(key, flat[path]) != flat[path]:
                    raise RuntimeError(
                        "All the parameters in the same parameter group should have the same saved param_group value. "
                        f"But {path} is {flat[path]} while other(s) is {group[key]}."
                    )
            if not parameter.requires_grad:
                continue
            if parameter in optimizer.state:
                state[name] = _nested(optimizer.state[parameter], f"state.{name}", flat)
            else:
                state[name] = _by_path(f"state.{name}.", flat)
    return {"state": state, "param_groups": groups}


def _nested(like: Mapping[Any, Any], prefix: str, flat: Mapping[str, Any]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for key, each in like.items():
        path = f"{prefix}.{key}"
        if isinstance(each, dict):
            result[key] = _nested(each, path, flat)
        elif path in flat:
            result[key] = flat[path]
        else:
            raise RuntimeError(f"Missing key in the flat optimizer state: {path}")
    return result


def _by_path(prefix: str, flat: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries below a prefix, nested by the dots in their names."""
    result: dict[str, Any] = {}
    for path, value in flat.items():
        if path.startswith(prefix):
            *parts, last = path[len(prefix) :].split(".")
            inner = result
            for part in parts:
                inner = inner.setdefault(part, {})
            inner[last] = value
    return result


def of_optimizer(model: Module, optimizer: Optimizer, states: OptimizerState, strict: bool) -> OptimizerState:
    """Extract the state of one optimizer from the joined state of several, in the order of its parameters.

    Raises:
        RuntimeError: a parameter that requires a gradient has none, and it must.
    """
    names = names_of(model)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    missing: list[str] = []
    group_of: dict[str, Mapping[str, Any]] = {
        name: group for group in states["param_groups"] for name in group["params"]
    }
    for own in optimizer.param_groups:
        group: dict[str, Any] = {"params": []}
        options: Mapping[str, Any] = {}
        for parameter in own["params"]:
            several = names[id(parameter)]
            name = next((each for each in several if each in group_of), several[0])
            group["params"].append(name)
            options = group_of.get(name, options)
            if not parameter.requires_grad:
                continue
            if name in states["state"]:
                state[name] = states["state"][name]
            else:
                missing.append(name)
        if not own["params"]:
            options = _empty_group(states["param_groups"])
        group.update((key, value) for key, value in (options or own).items() if key != "params")
        groups.append(group)
    # Some optimizers, as SGD without momentum, have no state at all.
    if strict and missing and (state or optimizer.state):
        raise RuntimeError(
            f"Missing optimizer state for parameter '{missing[0]}' in checkpoint. The parameter requires gradients but "
            "has no saved optimizer state. To load anyway, use StateDictOptions(strict=False)."
        )
    return {"state": state, "param_groups": groups}


def _empty_group(groups: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the options of the only group without parameters.

    Raises:
        ValueError: there is none, or several.
    """
    empty = [group for group in groups if not group["params"]]
    if len(empty) != 1:
        raise ValueError(
            f"An optimizer has a group without parameters: expected one such group in the state, but got {len(empty)}"
        )
    return empty[0]
