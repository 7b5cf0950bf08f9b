"""Modules as functions of their tensors, as functorch had them (`functorch.make_functional`).

`tt.func.functional_call` is their successor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any

from ...dispatch.tensor import Tensor
from .functional_call import functional_call, stack_module_state
from .module import Module

__all__ = [
    "FunctionalModule",
    "FunctionalModuleWithBuffers",
    "combine_state_for_ensemble",
    "make_functional",
    "make_functional_with_buffers",
]

Tensors = tuple[Tensor, ...]


class FunctionalModuleWithBuffers(Module):
    """A module without tensors of its own: a function of parameters, buffers and inputs.

    Args:
        stateless_model: The module to call; its own tensors are never read.
        param_names: The names of the parameters, in the order of the calls' first argument.
        buffer_names: The names of the buffers, in the order of the second argument.
    """

    def __init__(
        self, stateless_model: Module, param_names: Sequence[str], buffer_names: Sequence[str]
    ) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)
        self.buffer_names = tuple(buffer_names)

    def forward(self, params: Iterable[Tensor], buffers: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with these tensors. Raise ValueError if their number is not that of the names."""
        tensors = {
            **dict(zip(self.param_names, params, strict=True)),
            **dict(zip(self.buffer_names, buffers, strict=True)),
        }
        return functional_call(self.stateless_model, tensors, args, kwargs)


class FunctionalModule(Module):
    """A module without buffers and without parameters of its own: a function of parameters and inputs.

    Args:
        stateless_model: The module to call; its own tensors are never read.
        param_names: The names of the parameters, in the order of the calls' first argument.
    """

    def __init__(self, stateless_model: Module, param_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names = tuple(param_names)

    def forward(self, params: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Call the module with these tensors. Raise ValueError if their number is not that of the names."""
        return functional_call(
            self.stateless_model, dict(zip(self.param_names, params, strict=True)), args, kwargs
        )


def make_functional(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, Tensors]:
    """Return a module as a function of its parameters, and its parameters (`functorch.make_functional`).

    Args:
        model: The module, which stays as it is; the function calls a copy.
        disable_autograd_tracking: If True, the parameters require no gradients. Default: False.

    Raises:
        RuntimeError: The module has buffers.

    Example:
        >>> import triten as tt
        >>> from triten.nn.modules.make_functional import make_functional
        >>> function, parameters = make_functional(tt.nn.Linear(2, 3))
        >>> function(parameters, tt.ones(4, 2)).shape
        triten.Size([4, 3])
    """
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    copy, params, _ = _taken_apart(model, disable_autograd_tracking)
    return FunctionalModule(copy, list(params)), tuple(params.values())


def make_functional_with_buffers(
    model: Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return a module as a function, its parameters and its buffers (`functorch.make_functional_with_buffers`).

    Args:
        model: The module, which stays as it is; the function calls a copy.
        disable_autograd_tracking: If True, the parameters require no gradients. Default: False.

    Example:
        >>> import triten as tt
        >>> from triten.nn.modules.make_functional import make_functional_with_buffers
        >>> function, parameters, buffers = make_functional_with_buffers(tt.nn.BatchNorm1d(2).eval())
        >>> function(parameters, buffers, tt.ones(4, 2)).shape
        triten.Size([4, 2])
    """
    copy, params, buffers = _taken_apart(model, disable_autograd_tracking)
    return (
        FunctionalModuleWithBuffers(copy, list(params), list(buffers)),
        tuple(params.values()),
        tuple(buffers.values()),
    )


def combine_state_for_ensemble(
    models: Sequence[Module],
) -> tuple[FunctionalModuleWithBuffers, Tensors, Tensors]:
    """Return modules of one make as one function, with the tensors of all stacked in front
    (`functorch.combine_state_for_ensemble`).

    Raises:
        RuntimeError: There are no modules, they are of several classes, or not all in training or evaluation.

    Example:
        >>> import triten as tt
        >>> from triten.nn.modules.make_functional import combine_state_for_ensemble
        >>> models = [tt.nn.Linear(2, 3) for _ in range(4)]
        >>> function, parameters, buffers = combine_state_for_ensemble(models)
        >>> tt.vmap(function, in_dims=(0, 0, None))(parameters, buffers, tt.ones(5, 2)).shape
        triten.Size([4, 5, 3])
    """
    params, buffers = stack_module_state(models)
    function, _, _ = make_functional_with_buffers(models[0])
    return function, tuple(params.values()), tuple(buffers.values())


def _taken_apart(
    model: Module, disable_autograd_tracking: bool
) -> tuple[Module, dict[str, Tensor], dict[str, Tensor]]:
    """Return a copy of a module whose tensors have no bytes, and the tensors of another copy by their names."""
    source = deepcopy(model)
    params: dict[str, Tensor] = dict(source.named_parameters())
    buffers: dict[str, Tensor] = dict(source.named_buffers())
    if disable_autograd_tracking:
        for param in params.values():
            param.requires_grad_(False)
    copy = deepcopy(source).to("meta")
    _tie(copy, source.named_parameters(remove_duplicate=False), params)
    _tie(copy, source.named_buffers(remove_duplicate=False), buffers)
    return copy, params, buffers


def _tie(module: Module, tensors: Iterable[tuple[str, Tensor]], first: dict[str, Tensor]) -> None:
    """Let a module share tensors as its original does; `to` another device gives each name a tensor of its own.

    Args:
        module: The copy, whose tensors are replaced.
        tensors: All names of the original's tensors.
        first: The names without duplicates.
    """
    name_of = {id(tensor): name for name, tensor in first.items()}
    for name, tensor in tensors:
        shared = name_of[id(tensor)]
        if shared != name:
            owner, _, attribute = name.rpartition(".")
            shared_owner, _, shared_attribute = shared.rpartition(".")
            value = getattr(module.get_submodule(shared_owner), shared_attribute)
            setattr(module.get_submodule(owner), attribute, value)
