"""Function modes: every public call of a thread goes through a handler (torch/overrides.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from ...core.tensor_function import state


class TensorFunctionMode:
    """Context manager in which every public call goes through `__tensor_function__`
    (`torch.overrides.TorchFunctionMode`).

    It sees functions, methods, properties and operators of `Tensor`, factories, and ``tt.ops``, with their arguments as
    the caller wrote them. Modes nest: the innermost one sees a call first, and calls from its handler go to the next
    outer one. A mode is not active while it handles a call; ``with self:`` in a handler activates it. The handlers of
    arguments come after modes.

    Example:
        >>> import triten as tt
        >>> class Log(tt.overrides.TensorFunctionMode):
        ...     def __tensor_function__(self, func, types, args=(), kwargs=None):
        ...         print(tt.overrides.resolve_name(func), kwargs)
        ...         return func(*args, **(kwargs or {}))
        >>> with Log():
        ...     x = tt.ones(2, 3)
        ...     y = tt.nn.functional.softmax(x.T + 1, dim=0)
        triten.ones {}
        triten.Tensor.T.__get__ {}
        triten.Tensor.add {}
        triten.nn.functional.softmax {'dim': 0}
    """

    def __tensor_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Handle one call.

        Args:
            func: The public callable.
            types: The classes of arguments with their own handlers.
            args: Positional arguments.
            kwargs: Keyword arguments.

        Returns:
            The call's result; NotImplemented delegates the call to the arguments' handlers.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no __tensor_function__")

    def __enter__(self) -> Any:
        from . import interception

        if isinstance(type(self).__dict__.get("__tensor_function__"), classmethod | staticmethod):
            raise RuntimeError(
                "Defining your mode's `__tensor_function__` as a classmethod is not supported, please make it a plain "
                f"method: {type(self).__name__}"
            )
        interception.enter()
        state.modes = (*state.modes, self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from . import interception

        if not state.modes or state.modes[-1] is not self:
            raise RuntimeError(f"{type(self).__name__} is left before a mode that was entered after it")
        state.modes = state.modes[:-1]
        interception.leave()


class BaseTensorFunctionMode(TensorFunctionMode):
    """A mode that runs each call unchanged (`torch.overrides.BaseTorchFunctionMode`)."""

    def __tensor_function__(
        self, func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def current_function_modes() -> list[TensorFunctionMode]:
    """Return this thread's active function modes, outermost first."""
    return list(state.modes)
