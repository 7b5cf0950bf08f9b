"""`ModuleTracker`: tracks the running modules, in forward and backward (`torch.utils.module_tracker`)."""

from __future__ import annotations

import weakref
from typing import Any, Self

from ..autograd.graph import register_multi_grad_hook
from ..dispatch.autograd.graph import queue_callback
from ..dispatch.layers.pytree import tree_leaves
from ..dispatch.tensor import Tensor
from ..nn.modules.global_hooks import register_module_forward_hook, register_module_forward_pre_hook
from ..nn.modules.module import Module

__all__ = ["ModuleTracker"]

GLOBAL = "Global"
"""What stands for the whole program."""


class ModuleTracker:
    """While it is entered, the modules whose `forward` or backward is running (`torch.utils.module_tracker`).

    A module's name is that of its class, or its dotted name below the outermost one, which begins with that's class.
    Backward of a module begins when the gradients of its results are there, and ends with those of its arguments.

    Attributes:
        parents: the names of the modules that the program is in, and ``"Global"``.
        is_bw: If True, a backward is running.

    Example:
        >>> import triten as tt
        >>> from triten.utils.module_tracker import ModuleTracker
        >>> seen = []
        >>> class Inner(tt.nn.Module):
        ...     def forward(self, x):
        ...         seen.append(sorted(tracker.parents))
        ...         return x
        >>> model = tt.nn.Sequential(Inner())
        >>> with ModuleTracker() as tracker:
        ...     y = model(tt.ones(1))
        >>> seen
        [['Global', 'Sequential', 'Sequential.0']]
    """

    def __init__(self) -> None:
        self.parents: set[str] = {GLOBAL}
        self.is_bw = False
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._handles: list[Any] = []

    def _name_of(self, module: Module) -> str:
        if module not in self._names:
            root = type(module).__name__
            for name, each in module.named_modules():
                self._names[each] = f"{root}.{name}" if name else root
        return self._names[module]

    def _enter_backward(self, name: str) -> None:
        if not self.is_bw:
            self.is_bw = True
            queue_callback(self._end_backward)
        self.parents.add(name)

    def _end_backward(self) -> None:
        # Gradients do not reach the arguments of modules that begin at data.
        self.is_bw = False
        self.parents = {GLOBAL}

    def _before(self, module: Module, args: Any) -> None:
        name = self._name_of(module)
        self.parents.add(name)
        tensors = _differentiable(args)
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, lambda grads: self.parents.discard(name)))

    def _after(self, module: Module, args: Any, output: Any) -> None:
        name = self._name_of(module)
        self.parents.discard(name)
        tensors = _differentiable(output)
        if tensors:
            self._handles.append(register_multi_grad_hook(tensors, lambda grads: self._enter_backward(name)))

    def __enter__(self) -> Self:
        self._handles = [
            register_module_forward_pre_hook(self._before),
            register_module_forward_hook(self._after, always_call=True),
        ]
        return self

    def __exit__(self, *error: object) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._end_backward()


def _differentiable(values: Any) -> list[Tensor]:
    return [each for each in tree_leaves(values) if isinstance(each, Tensor) and each.requires_grad]
