"""Namespace of an absent device type, built from a table: `tt.xpu`, `tt.mps`.

Programs query such a namespace for availability and then use another device. Its functions behave as PyTorch's do on
a machine without the device: some return a value, the others raise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn


def absent_device(
    module: str, error: Callable[[str], Exception], answers: Mapping[str, Any], refused: str, classes: str
) -> dict[str, Any]:
    """Return the namespace of a module for an absent device type.

    Args:
        module: The module's ``__name__``.
        error: Creates the exception that a function of a name raises.
        answers: Return values of functions, by name; a class is instantiated at each call.
        refused: Names of functions that raise, separated by spaces.
        classes: Names of classes whose construction raises.

    Returns:
        The functions and classes by name, and ``__all__``.

    Example:
        >>> from triten.runtime.absent_device import absent_device
        >>> answers = {"device_count": 0}
        >>> names = absent_device("tpu", lambda name: RuntimeError(f"no TPU: {name}"), answers, "init", "Event")
        >>> names["device_count"](), names["__all__"]
        (0, ['Event', 'device_count', 'init'])
    """
    namespace: dict[str, Any] = {name: _answering(value) for name, value in answers.items()}
    namespace |= {name: _refusing(name, error) for name in refused.split()}
    for name, function in namespace.items():
        function.__name__ = function.__qualname__ = name
        function.__module__ = module
    for name in classes.split():
        refuse = _refusing(name, error)
        namespace[name] = type(name, (), {"__module__": module, "__new__": refuse, "__doc__": refuse.__doc__})
    return {**namespace, "__all__": sorted(namespace)}


def _answering(value: Any) -> Callable[..., Any]:
    def answer(*args: Any, **named: Any) -> Any:
        return value() if isinstance(value, type) else value

    shown = value() if isinstance(value, type) else value
    answer.__doc__ = f"{shown!r}: there is no such device."
    return answer


def _refusing(name: str, error: Callable[[str], Exception]) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **named: Any) -> NoReturn:
        raise error(name)

    refuse.__doc__ = f"Raises {type(error(name)).__name__}: there is no such device."
    return refuse
