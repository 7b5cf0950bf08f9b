"""A module as a function of its tensors, for `tt.func`'s transforms (torch/_functorch/functional_call.py)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime.traceback_filter import api_boundary
from ..utils._named_member_accessor import swap_tensor
from .module import Module

__all__ = ["functional_call", "stack_module_state"]


@api_boundary
def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors instead of its parameters and buffers (`torch.func.functional_call`).

    The call restores the module afterwards. If `forward` assigns to one of the given names, the new value is written
    to the dictionary, provided that it is mutable.

    Args:
        module: The module to call.
        parameter_and_buffer_dicts: tensors by name, or several dictionaries of different names; the module's own
            tensors stand for names that are not given.
        args: the positional arguments, or the only one.
        kwargs: the keyword arguments.
        tie_weights: If True, a tensor given for one of the names that the module has for a parameter stands for all.
            Default: True.
        strict: If True, require exactly the module's names. Default: False.

    Raises:
        ValueError: dictionaries share a name, or names of one parameter have different tensors.
        TypeError: a value is no tensor.
        RuntimeError: with `strict`, a name is missing or none of the module's.

    Example:
        >>> import triten as tt
        >>> layer = tt.nn.Linear(2, 1, bias=False)
        >>> def loss(weights, x):
        ...     return tt.func.functional_call(layer, weights, x).sum()
        >>> tt.func.grad(loss)({"weight": tt.ones(1, 2)}, tt.tensor([[3.0, 4.0]]))
        {'weight': tensor([[3., 4.]])}
    """
    is_one = isinstance(parameter_and_buffer_dicts, dict)
    tensors: Any = parameter_and_buffer_dicts if is_one else _merged(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with reparametrize_module(module, tensors, tie_weights, strict):
        return module(*args, **(kwargs or {}))


@contextmanager
def reparametrize_module(
    module: Module,
    parameters_and_buffers: dict[str, Tensor],
    tie_weights: bool = False,
    strict: bool = False,
    stack_weights: bool = False,
) -> Iterator[None]:
    """Use other tensors as a module's parameters and buffers inside the block.

    At the end the module has its own tensors again. The dictionary then holds the values that code in the block
    assigned to the given names.

    Args:
        module: The module.
        parameters_and_buffers: Tensors by name.
        tie_weights: If True, a tensor given for one name of a tied parameter stands for all its names. Default: False.
        strict: If True, require exactly the module's names. Default: False.
        stack_weights: Accepted as in PyTorch. The tensors are always restored in the reverse order.

    Raises:
        ValueError: Names of one tied parameter have different tensors.
        TypeError: A value is no tensor.
        RuntimeError: With `strict`, a name is missing or none of the module's.

    Source: torch.nn.utils.stateless._reparametrize_module.

    Example:
        >>> import triten as tt
        >>> from triten.nn.utils.stateless import _reparametrize_module
        >>> layer = tt.nn.Linear(2, 1, bias=False)
        >>> with _reparametrize_module(layer, {"weight": tt.ones(1, 2)}):
        ...     layer(tt.tensor([3.0, 4.0])).tolist()
        [7.0]
    """
    tensors = parameters_and_buffers
    replacements = _with_tied(module, tensors) if tie_weights else tensors
    if strict:
        _check_names(module, replacements)
    assigned: dict[str, Any] = {}
    try:
        with _in_place_of(module, replacements, assigned):
            yield
    finally:
        tensors.update({name: value for name, value in assigned.items() if name in tensors})


def _merged(dicts: Any) -> dict[str, Tensor]:
    if isinstance(dicts, Mapping):
        return dict(dicts)
    if not isinstance(dicts, list | tuple):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(dicts).__name__}"
        )
    merged: dict[str, Tensor] = {}
    for each in dicts:
        if not isinstance(each, Mapping):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        repeated = [name for name in each if name in merged]
        if repeated:
            raise ValueError(
                f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous"
            )
        merged.update(each)
    return merged


def _own_tensors(module: Module) -> dict[str, Any]:
    """Return parameters and buffers by all their names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _check_names(module: Module, tensors: Mapping[str, Tensor]) -> None:
    own = _own_tensors(module)
    faults = []
    for kind, names in (
        ("Unexpected", tensors.keys() - own.keys()),
        ("Missing", own.keys() - tensors.keys()),
    ):
        if names:
            faults.append(f"{kind} key(s): {', '.join(map(repr, sorted(names)))}.")
    if faults:
        raise RuntimeError(f"Error(s) in reparametrizing for {module._get_name()}:\n\t" + "\n\t".join(faults))


def _with_tied(module: Module, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Extend the given tensors to all names that tied parameters have."""
    own = _own_tensors(module)
    groups: dict[int, list[str]] = {}
    for name, value in own.items():
        groups.setdefault(id(value), []).append(name)
    extended = dict(tensors)
    for names in groups.values():
        values = {id(tensors[name]): tensors[name] for name in names if name in tensors}
        if len(values) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(n for n in names if n in tensors)}, which are "
                "tied. Consider using tie_weights=False"
            )
        for value in values.values():
            extended.update(dict.fromkeys(names, value))
    return extended


@contextmanager
def _in_place_of(
    module: Module, replacements: Mapping[str, Tensor | None], assigned: dict[str, Any]
) -> Iterator[None]:
    """Exchange the module's tensors in the block; `assigned` gets the values of their names at the end."""
    before: list[tuple[Module, str, str, Any]] = []
    try:
        for name, value in replacements.items():
            path, _, attribute = name.rpartition(".")
            owner = module.get_submodule(path)
            before.append((owner, name, attribute, swap_tensor(owner, attribute, value, allow_missing=True)))
        yield
    finally:
        for owner, name, attribute, value in reversed(before):
            assigned[name] = swap_tensor(owner, attribute, value, allow_missing=True)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Stack the parameters and the buffers of modules along a new first dimension (`torch.func.stack_module_state`).

    With `functional_call` in `tt.vmap`, an ensemble runs in one call.

    Raises:
        RuntimeError: there are no modules, they are of several classes, or not all in training or evaluation.

    Example:
        >>> import triten as tt
        >>> models = [tt.nn.Linear(2, 3) for _ in range(4)]
        >>> parameters, buffers = tt.func.stack_module_state(models)
        >>> base = tt.nn.Linear(2, 3).to("meta")
        >>> def run(parameters, x):
        ...     return tt.func.functional_call(base, parameters, x)
        >>> tt.vmap(run, in_dims=(0, None))(parameters, tt.ones(5, 2)).shape
        triten.Size([4, 5, 3])
    """
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({model.training for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(model) for model in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = {
        name: _stacked([dict(model.named_parameters())[name] for model in models])
        for name, _ in models[0].named_parameters()
    }
    buffers = {
        name: _ops.stack([dict(model.named_buffers())[name] for model in models])
        for name, _ in models[0].named_buffers()
    }
    return parameters, buffers


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Parameters as one leaf; what has a history keeps it.

    Raises RuntimeError where some require grad and some do not.
    """
    requires_grad = {tensor.requires_grad for tensor in tensors}
    if len(requires_grad) > 1:
        raise RuntimeError(
            "stack_module_state: Expected the parameters of a name to have the same .requires_grad for each model"
        )
    made = _ops.stack(list(tensors))
    return (
        made.detach().requires_grad_()
        if all(t.is_leaf for t in tensors) and requires_grad == {True}
        else made
    )
