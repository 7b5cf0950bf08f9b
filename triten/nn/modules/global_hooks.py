"""Hooks of all modules: their registrations, and the calls they hear of (`torch.nn.modules.module`'s).

While there is one, `Module.__call__` is another function, so that modules pay nothing for those that are not there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.autograd.node import RemovableHandle
from ...runtime.traceback_filter import hide_inner_frames
from . import module
from .module import Module
from .module_hooks import EVERYWHERE, REGISTRATIONS, LastOperationHook, added, call_with_hooks

_without = Module.__call__

# The tables by PyTorch's names, for programs that look at what is registered.
_global_parameter_registration_hooks = REGISTRATIONS["_parameters"]
_global_buffer_registration_hooks = REGISTRATIONS["_buffers"]
_global_module_registration_hooks = REGISTRATIONS["_modules"]
_global_forward_pre_hooks = EVERYWHERE["_forward_pre_hooks"]
_global_forward_hooks = EVERYWHERE["_forward_hooks"]
_global_backward_pre_hooks = EVERYWHERE["_backward_pre_hooks"]
_global_backward_hooks = EVERYWHERE["_backward_hooks"]
_CALL_TABLES = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")


def _adopt_assigned_tables() -> None:
    """Replace the tables that a program has assigned to PyTorch's names in `nn.modules.module`, as its tests do."""
    names = vars(module)
    for table in _CALL_TABLES:
        EVERYWHERE[table] = names.get(f"_global{table}", EVERYWHERE[table])


def _call(self: Module, *args: Any, **kwargs: Any) -> Any:
    _adopt_assigned_tables()
    if not any(EVERYWHERE.values()):
        Module.__call__ = _without  # type: ignore[method-assign]
        return self(*args, **kwargs)
    try:
        return call_with_hooks(self, args, kwargs)
    except BaseException:
        hide_inner_frames()
        raise


def _registered(table: str, hook: Any, *flags: str) -> RemovableHandle:
    _adopt_assigned_tables()
    handle = added(EVERYWHERE[table], hook, False, *(EVERYWHERE[flag] for flag in flags))
    if Module.__call__ is _without:
        Module.__call__ = _call  # type: ignore[method-assign]
    return handle


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, args)`` before the `forward` of every module (`register_module_forward_pre_hook`).

    The hook's result, unless None, replaces the arguments. Global hooks run before a module's own hooks.

    Returns:
        A handle whose `remove` takes the hook away.

    Example:
        >>> import triten as tt
        >>> from triten.nn.modules.module import register_module_forward_pre_hook
        >>> names = []
        >>> handle = register_module_forward_pre_hook(lambda module, args: names.append(type(module).__name__))
        >>> y = tt.nn.Sequential(tt.nn.ReLU())(tt.ones(1)); handle.remove(); names
        ['Sequential', 'ReLU']
    """
    return _registered("_forward_pre_hooks", hook)


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Call ``hook(module, args, output)`` after the `forward` of every module (`register_module_forward_hook`).

    The hook's result, unless None, replaces the output.

    Args:
        hook: with `with_kwargs`, ``hook(module, args, kwargs, output)``.
        with_kwargs: If True, pass the keyword arguments to the hook. Default: False.
        always_call: If True, call the hook after an exception too. Default: False.

    Returns:
        A handle whose `remove` takes the hook away.

    Example:
        >>> import triten as tt
        >>> from triten.nn.modules.module import register_module_forward_hook
        >>> handle = register_module_forward_hook(lambda module, args, output: output + 1)
        >>> tt.nn.ReLU()(tt.ones(1)); handle.remove()
        tensor([2.])
    """
    flags = ["_forward_hooks_with_kwargs"] if with_kwargs else []
    return _registered(
        "_forward_hooks", hook, *flags, *(["_forward_hooks_always_called"] if always_call else [])
    )


def register_module_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Register a `Module.register_backward_hook` for every module (`register_module_backward_hook`).

    PyTorch advises against it: use `register_module_full_backward_hook`.
    """
    return _registered("_forward_hooks", LastOperationHook(hook))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_output)`` for every module (`register_module_full_backward_pre_hook`).

    It is called when the gradient of the output is there; a result takes its place.
    """
    return _registered("_backward_pre_hooks", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, grad_input, grad_output)`` for every module (`register_module_full_backward_hook`).

    It is called when the gradients of the inputs are there; a result takes their place.
    """
    return _registered("_backward_hooks", hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, parameter)`` when a module registers a parameter.

    The hook's result, unless None, replaces the parameter (`register_module_parameter_registration_hook`).
    """
    return added(REGISTRATIONS["_parameters"], hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, buffer)`` when a module registers a buffer.

    The hook's result, unless None, replaces the buffer (`register_module_buffer_registration_hook`).
    """
    return added(REGISTRATIONS["_buffers"], hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(module, name, child)`` when a module registers a child.

    The hook's result, unless None, replaces the child (`register_module_module_registration_hook`).
    """
    return added(REGISTRATIONS["_modules"], hook)
