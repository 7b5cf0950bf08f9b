"""Policies that say which submodules of a model are sharded by themselves (`torch.distributed.fsdp.wrap`).

A policy is asked for each module, parents first: ``policy(module, recurse, nonwrapped_numel)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ...nn.modules.activation import MultiheadAttention
from ...nn.modules.container import ModuleDict, ModuleList
from ...nn.modules.module import Module

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]

MIN_NUM_PARAMS = 100_000_000
_wrapping: list[dict[str, Any]] = []
"""The wrapper class and its arguments of each `enable_wrap` block that is open, the innermost last."""


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Return True: each module is wrapped."""
    return True


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Return whether a function says that a module is wrapped.

    Args:
        module: The module.
        recurse: True asks whether its children are looked at; they always are.
        nonwrapped_numel: Number of elements of its parameters that no child has.
        lambda_fn: The function.
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, transformer_layer_cls: set[type[Module]]
) -> bool:
    """Return whether a module is of one of some classes; see `lambda_auto_wrap_policy`."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def _or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Sequence[Callable[..., bool]]
) -> bool:
    """Return whether one of several policies wraps a module."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel) for policy in policies
    )


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = MIN_NUM_PARAMS,
    force_leaf_modules: set[type[Module]] | None = None,
    exclude_wrap_modules: set[type[Module]] | None = None,
) -> bool:
    """Return whether a module has many parameters that no child has.

    Args:
        module: The module.
        recurse: True asks whether its children are looked at.
        nonwrapped_numel: Number of elements of its parameters that no wrapped child has.
        min_num_params: The least number of elements. Default: 100 million.
        force_leaf_modules: Classes whose children are not looked at. Default: `MultiheadAttention`.
        exclude_wrap_modules: Classes that are never wrapped. Default: `ModuleList` and `ModuleDict`.
    """
    leaves = (MultiheadAttention,) if force_leaf_modules is None else tuple(force_leaf_modules)
    excluded: tuple[type[Module], ...] = (ModuleList, ModuleDict)
    if exclude_wrap_modules is not None:
        excluded = tuple(exclude_wrap_modules)
    is_large = nonwrapped_numel >= min_num_params
    return is_large and not isinstance(module, leaves if recurse else excluded)


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


class ModuleWrapPolicy:
    """Policy that wraps modules of some classes (`torch.distributed.fsdp.wrap.ModuleWrapPolicy`).

    Example:
        >>> from triten import nn
        >>> from triten.distributed.fsdp.wrap import ModuleWrapPolicy
        >>> policy = ModuleWrapPolicy({nn.Linear})
        >>> policy(nn.Linear(1, 1), recurse=False), policy(nn.ReLU(), recurse=False)
        (True, False)
    """

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = set(module_classes)

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        """Return whether a module is wrapped, or with `recurse` True."""
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self) -> str:
        return f"{super().__repr__()}({self._module_classes})"


class CustomPolicy:
    """Policy of a function from a module to True, False or the wrapper's arguments.

    Args:
        lambda_fn: The function.
    """

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """Have `wrap` wrap modules in a block.

    Args:
        wrapper_cls: The class.
        wrapper_kwargs: Its arguments.
    """
    _wrapping.append({"wrapper_cls": wrapper_cls, **wrapper_kwargs})
    try:
        yield
    finally:
        _wrapping.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Any:
    """Return a module wrapped as the innermost `enable_wrap` block says; outside of one the module itself."""
    if not _wrapping:
        return module
    settings = {**_wrapping[-1], **wrap_overrides}
    return partial(settings.pop("wrapper_cls"), **settings)(module)
