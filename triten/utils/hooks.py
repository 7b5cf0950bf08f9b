"""Hooks and the handles that remove them (`torch.utils.hooks`)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ..dispatch.autograd.node import RemovableHandle
from ..dispatch.tensor import Tensor
from ..nn.modules.module_hooks import BackwardHook

__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]

_Hook = TypeVar("_Hook", bound=Callable[..., Any])

MARK = "__torch_unserializable__"
"""The attribute by which PyTorch's programs know such hooks too."""


def unserializable_hook(f: _Hook) -> _Hook:
    """Mark a hook as one that is deliberately dropped when its tensor is saved.

    Example:
        >>> import triten as tt
        >>> from triten.utils.hooks import unserializable_hook, warn_if_has_hooks
        >>> x = tt.ones(2, requires_grad=True)
        >>> handle = x.register_hook(unserializable_hook(lambda grad: grad * 2))
        >>> warn_if_has_hooks(x)
    """
    setattr(f, MARK, True)
    return f


def warn_if_has_hooks(tensor: Tensor) -> None:
    """Warn of each hook on a tensor's gradient that saving the tensor loses, save those marked as
    `unserializable_hook`.
    """
    edge: Any = None if tensor._autograd is None else tensor._autograd.edge
    hooks = None if edge is None else edge[0].hooks
    if hooks is None:
        return
    for number, hook in hooks.tensor.values():
        if number == edge[1] and not hasattr(hook, MARK):
            warnings.warn(
                f"backward hook {hook!r} on tensor will not be serialized.  If this is expected, you can decorate the "
                "function with @torch.utils.hooks.unserializable_hook to suppress this warning",
                stacklevel=2,
            )
