"""States of models and optimizers by names that do not depend on how they are distributed
(`torch.distributed.checkpoint.state_dict`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...autograd import no_grad
from ...dispatch.tensor import Tensor
from ...nn.modules.module import Module
from ...nn.modules.state_dict import IncompatibleKeys
from ...optim.optimizer import Optimizer
from ...runtime.device import device as Device
from ..groups import get_rank
from .state_dict_names import canonical_name, named_state
from .state_dict_optimizers import by_names, flattened, initialize, of_optimizer, state_paths, unflattened
from .state_dict_tensors import broadcast_sharded, gathered, mapped, sharded_like

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

Optimizers = Optimizer | Iterable[Optimizer]


@dataclass
class StateDictOptions:
    """Options of states (`torch.distributed.checkpoint.state_dict.StateDictOptions`).

    Attributes:
        full_state_dict: If True, tensors are whole, and none is a `DTensor`.
        cpu_offload: If True, tensors are on the host. With `full_state_dict`, only the first rank gets a
            state, and the other ranks get an empty one.
        ignore_frozen_params: If True, leave out parameters that require no gradient.
        keep_submodule_prefixes: Unused: states are those of whole models.
        strict: If True, missing or unexpected names are errors when a state is set.
        broadcast_from_rank0: If True, only the first rank has the state to set; requires `full_state_dict`.
        flatten_optimizer_state_dict: If True, an optimizer's state is one dictionary with dotted names.
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False


def _checked(options: StateDictOptions | None) -> StateDictOptions:
    options = options or StateDictOptions()
    if options.broadcast_from_rank0 and not options.full_state_dict:
        raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")
    return options


def _several(optimizers: Optimizers) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def get_model_state_dict(model: Module, *, options: StateDictOptions | None = None) -> dict[str, Any]:
    """Return a model's state under names without wrappers
    (`torch.distributed.checkpoint.state_dict.get_model_state_dict`).

    Args:
        model: the model.
        options: Options of the state. With `full_state_dict`, all ranks must call the function.

    Raises:
        ValueError: the options contradict each other.

    Example:
        >>> import triten as tt
        >>> from triten.distributed.checkpoint.state_dict import get_model_state_dict
        >>> list(get_model_state_dict(tt.compile(tt.nn.Linear(2, 3))))
        ['weight', 'bias']
    """
    options = _checked(options)
    with no_grad():
        state = model.state_dict()
        canonical = {canonical_name(model, name): value for name, value in state.items()}
        if options.ignore_frozen_params:
            for name, parameter in model.named_parameters(remove_duplicate=False):
                if not parameter.requires_grad:
                    canonical.pop(canonical_name(model, name), None)
        return gathered(canonical, options.full_state_dict, options.cpu_offload)  # type: ignore[no-any-return]


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizers, *, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """Return the state of optimizers by parameter name
    (`torch.distributed.checkpoint.state_dict.get_optimizer_state_dict`).

    An optimizer that has not stepped creates its state first, by a step that changes nothing.

    Args:
        model: Model with the parameters of the optimizers.
        optimizers: one, or several, whose states are joined.
        options: Options of the state. With `full_state_dict`, all ranks must call the function.

    Raises:
        RuntimeError: an optimizer has a parameter that the model does not have.
    """
    options = _checked(options)
    joined: dict[str, Any] = {"state": {}, "param_groups": []}
    with no_grad():
        for optimizer in _several(optimizers):
            initialize(optimizer)
            state = by_names(model, optimizer)
            joined["state"].update(state["state"])
            joined["param_groups"] += state["param_groups"]
        if options.flatten_optimizer_state_dict:
            joined = flattened(joined)
        return gathered(joined, options.full_state_dict, options.cpu_offload)  # type: ignore[no-any-return]


def get_state_dict(
    model: Module, optimizers: Optimizers, *, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """`get_model_state_dict` and `get_optimizer_state_dict` (`torch.distributed.checkpoint.state_dict.get_state_dict`).

    Example:
        >>> import triten as tt
        >>> from triten.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        >>> model = tt.nn.Linear(2, 3)
        >>> optimizer = tt.optim.Adam(model.parameters())
        >>> own, steps = get_state_dict(model, optimizer)
        >>> sorted(steps["state"]["weight"]), steps["param_groups"][0]["params"]
        (['exp_avg', 'exp_avg_sq', 'step'], ['weight', 'bias'])
        >>> set_state_dict(model, optimizer, model_state_dict=own, optim_state_dict=steps)
        <All keys matched successfully>
    """
    return (
        get_model_state_dict(model, options=options),
        get_optimizer_state_dict(model, optimizers, options=options),
    )


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Set a model's state by names without wrappers' (`torch.distributed.checkpoint.state_dict.set_model_state_dict`).

    Args:
        model: the model. Parameters on the meta device take over the tensors of the state.
        model_state_dict: Result of `get_model_state_dict` with these options.
        options: Options of the state.

    Returns:
        The names that are missing and those that are too many.

    Raises:
        RuntimeError: names or shapes do not fit.
        ValueError: the options contradict each other.
    """
    options = _checked(options)
    own: dict[str, str] = {}
    tensors: dict[str, Any] = {}
    for name, full_name, tensor in named_state(model):
        own[name] = full_name
        tensors[name] = tensor
    with no_grad():
        state: Mapping[str, Any] = model_state_dict
        if options.broadcast_from_rank0:
            state = broadcast_sharded(
                {**model_state_dict} if get_rank() == 0 else None,
                _device_of(tensors),
                lambda path: tensors.get(path[0]),
            )
        elif options.full_state_dict:
            state = {
                name: sharded_like(value, tensors.get(name)) if isinstance(value, Tensor) else value
                for name, value in state.items()
            }
        elif not state:
            return IncompatibleKeys([], [])
        is_meta = any(tensor.is_meta for tensor in tensors.values())
        named: dict[str, Any] = {own.get(name, name): value for name, value in state.items()}
        if is_meta:
            named = _placed(named, {full: tensors[name] for name, full in own.items()})
        return model.load_state_dict(named, strict=options.strict, assign=is_meta)


def _placed(state: dict[str, Any], tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap tensors of a state as parameters if they replace parameters, with the same `requires_grad`."""
    from ...nn.modules.parameter import Parameter

    return {
        name: Parameter(value, tensors[name].requires_grad)
        if isinstance(value, Tensor) and isinstance(tensors.get(name), Parameter)
        else value
        for name, value in state.items()
    }


def _device_of(tensors: Mapping[str, Any]) -> Device:
    """Return the device on which tensors are sent.

    Raises:
        ValueError: they are on several.
    """
    devices: set[Device] = {each.device for each in tensors.values() if each.ndim and not each.is_meta}
    if len(devices) > 1:
        raise ValueError(f"Multiple devices found: {sorted(map(str, devices))}")
    if devices:
        return devices.pop()
    meshes = {each.device_mesh.device_type for each in tensors.values() if hasattr(each, "device_mesh")}
    return Device(meshes.pop() if meshes else "cpu")


def set_optimizer_state_dict(
    model: Module,
    optimizers: Optimizers,
    optim_state_dict: Mapping[str, Any],
    *,
    options: StateDictOptions | None = None,
) -> None:
    """Set the state of optimizers by the parameters' names
    (`torch.distributed.checkpoint.state_dict.set_optimizer_state_dict`).

    Args:
        model: Model with the parameters of the optimizers.
        optimizers: one, or several.
        optim_state_dict: Result of `get_optimizer_state_dict` with these options, nested or flat.
        options: Options of the state.

    Raises:
        RuntimeError: a parameter's state is missing.
    """
    options = _checked(options)
    several = _several(optimizers)
    with no_grad():
        for optimizer in several:
            initialize(optimizer)
        state: Any = optim_state_dict
        if options.broadcast_from_rank0:
            tensors = {name: tensor for name, _, tensor in named_state(model)}
            like = _likes(model, several)
            state = broadcast_sharded(
                {**optim_state_dict} if get_rank() == 0 else None, _device_of(tensors), like
            )
        elif options.full_state_dict:
            state = _sharded(state, _likes(model, several))
        for optimizer in several:
            nested = (
                of_optimizer(model, optimizer, state, options.strict)
                if "state" in state
                else unflattened(model, optimizer, state)
            )
            optimizer.load_state_dict(nested)


def _likes(model: Module, optimizers: Iterable[Optimizer]) -> Any:
    """Return a function that looks up a tensor of the optimizers' state by its path of keys."""
    flat: dict[str, Any] = {}
    for optimizer in optimizers:
        flat.update(state_paths(by_names(model, optimizer)))

    def find(path: tuple[Any, ...]) -> Any:
        return flat.get(".".join(map(str, path)))

    return find


def _sharded(state: Any, like: Any, path: tuple[Any, ...] = ()) -> Any:
    if isinstance(state, Tensor):
        return sharded_like(state, like(path))
    if isinstance(state, dict):
        return {key: _sharded(each, like, (*path, key)) for key, each in state.items()}
    return mapped(lambda tensor: tensor, state)


def set_state_dict(
    model: Module,
    optimizers: Optimizers,
    *,
    model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any],
    options: StateDictOptions | None = None,
) -> IncompatibleKeys:
    """`set_model_state_dict` and `set_optimizer_state_dict`
    (`torch.distributed.checkpoint.state_dict.set_state_dict`).

    Returns:
        The model's names that are missing and those that are too many.
    """
    missing = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return missing
