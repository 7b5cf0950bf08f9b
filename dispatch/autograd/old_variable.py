"""`tt.autograd.Variable`, the API from before tensors recorded gradients themselves (`torch.autograd.Variable`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .graph import know_tasks, queue_callback


class ImperativeEngine:
    """Engine object that lets programs queue callbacks (`torch.autograd.Variable._execution_engine`)."""

    def queue_callback(self, callback: Callable[[], None]) -> None:
        """Queue a callback for the end of this thread's current backward.

        Raises:
            RuntimeError: this thread is in no backward, or in a backward that began before the program accessed the
                engine.
        """
        queue_callback(callback)


_engine = ImperativeEngine()


class _OfTensors(type):
    @property
    def _execution_engine(cls) -> ImperativeEngine:
        know_tasks()
        return _engine

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False) -> Any:
        if data is None:
            from ..generated.functions import empty

            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        made: Any = data
        return made.detach()._set_requires_grad(requires_grad)


class Variable(metaclass=_OfTensors):
    """Detached tensor that shares another's memory (`torch.autograd.Variable`).

    Variables are plain tensors: ``Variable(x)`` is ``x.detach()``, and every tensor is an instance.

    Raises TypeError for anything but a tensor.

    Example:
        >>> import triten as tt
        >>> x = tt.autograd.Variable(tt.ones(2), requires_grad=True)
        >>> type(x).__name__, isinstance(x, tt.autograd.Variable)
        ('Tensor', True)
    """
