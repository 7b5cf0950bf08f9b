"""`tt.autograd.Variable`, from before tensors recorded gradients themselves (`torch.autograd.Variable`)."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor


class _OfTensors(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        if data is None:
            from ..generated.functions import empty

            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        made: Any = data
        return made.detach().requires_grad_(requires_grad)


class Variable(metaclass=_OfTensors):
    """A tensor of its own over the bytes of another, outside of its graph (`torch.autograd.Variable`).

    A tensor is all that there is: ``Variable(x)`` is ``x.detach()``, and every tensor is an instance.

    Raises TypeError for anything but a tensor.

    Example:
        >>> import triten as tt
        >>> x = tt.autograd.Variable(tt.ones(2), requires_grad=True)
        >>> type(x).__name__, isinstance(x, tt.autograd.Variable)
        ('Tensor', True)
    """
