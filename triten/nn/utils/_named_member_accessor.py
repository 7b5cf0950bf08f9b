"""Exchange of a module's tensors by name (`torch.nn.utils._named_member_accessor`)."""

from __future__ import annotations

from typing import Any

from ...dispatch.tensor import Tensor
from ..modules.module import Module

__all__ = ["set_tensor", "swap_tensor"]

_MISSING: Any = object()
"""The tensor of a name that a module lacks; the name is deleted by it."""


def set_tensor(module: Module, name: str, tensor: Tensor | None) -> None:
    """Have a module's parameter, buffer or attribute be another tensor. The arguments are `swap_tensor`'s."""
    swap_tensor(module, name, tensor, allow_missing=True)


def swap_tensor(module: Module, name: str, tensor: Tensor | None, allow_missing: bool = False) -> Any:
    """Return a module's parameter, buffer or attribute, and put another tensor in its place.

    Args:
        module: The module that has the name itself.
        name: The name, without a path.
        tensor: The new tensor. It may replace a `Parameter` without being one.
        allow_missing: If True, the module may lack the name. Default: False.

    Raises:
        TypeError: `module` is no module, or the old or the new value no tensor.
        KeyError: The name is empty or a path.
        AttributeError: The module lacks the name.

    Source: torch.nn.utils._named_member_accessor.swap_tensor.

    Example:
        >>> import triten as tt
        >>> from triten.nn.utils._named_member_accessor import swap_tensor
        >>> layer = tt.nn.Linear(2, 1, bias=False)
        >>> before = swap_tensor(layer, "weight", tt.ones(1, 2))
        >>> layer(tt.ones(1, 2)), before is layer.weight
        (tensor([[2.]]), False)
    """
    if not isinstance(module, Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if not _is_value(tensor):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError(f'tensor name can\'t contain ".", got {name!r}: swap it in the submodule')
    if not name:
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (module._parameters, module._buffers):
        if name in table:
            before: Any = table[name]
            if tensor is _MISSING:
                del table[name]
            else:
                table[name] = tensor
            return before
    before = getattr(module, name, _MISSING)
    if before is _MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if not _is_value(before):
        raise TypeError(f"attribute `{name}`: {before} is not an instance of torch.Tensor")
    if tensor is not _MISSING:
        setattr(module, name, tensor)
    elif before is not _MISSING:
        delattr(module, name)
    return before


def _is_value(value: Any) -> bool:
    return value is None or value is _MISSING or isinstance(value, Tensor)
