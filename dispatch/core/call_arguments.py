"""Call arguments as plan tables see them: parameters, key elements, and numbers that stand for tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...runtime import device, scalar_type
from ...runtime.tensor_impl import TensorImpl
from . import tensor_function as overrides


class _NotGiven:
    """Class of sentinel defaults for arguments that a call may omit."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    def __bool__(self) -> bool:
        return False


NOT_GIVEN = _NotGiven("<not given>")
"""The default of a parameter that only some overloads have."""

REQUIRED: Any = _NotGiven("<required>")
"""The default of a parameter that every overload requires, but that a call may give under another name."""


def is_absent(value: object) -> bool:
    """Return whether the call omitted an argument."""
    return value.__class__ is _NotGiven


class Parameter(NamedTuple):
    """A parameter of a public function.

    `role` is one of:

    - ``tensor``, ``optional`` (Tensor?), ``list`` (Tensor[]), ``operand`` (tensor or number): runtime arguments;
    - ``number``: a runtime argument whose class is in the key;
    - ``scale``: a runtime Scalar with an int default, outside the key while it has that default;
    - ``static``: an argument whose value is in the key;
    - ``rare``: an argument in no key. Calls that give it are not planned ahead.
    """

    name: str
    role: str
    default: object = NOT_GIVEN
    keyword_only: bool = False


class WrappedNumber(TensorImpl):
    """Placeholder for a Python number in a tensor argument during overload resolution."""

    __slots__ = ("value",)

    def __init__(self, value: scalar_type.Number) -> None:
        self.value = value


NUMBERS = (int, float, complex, bool)

PLAIN = frozenset({int, bool, str, None.__class__, _NotGiven, scalar_type.dtype, device.device})
"""Classes of static arguments that bind the same way for all shapes of the call's tensors."""

overrides.plain_classes.update((int, bool, str, _NotGiven, scalar_type.dtype, device.device))

_LARGEST = 1 << 62


def plain_number(value: object) -> Any:
    """Return a NumPy scalar, or an instance of a number's subclass, as the Python number."""
    cls = value.__class__
    if cls in NUMBERS:
        return value
    if isinstance(value, np.number | np.bool_):
        return value.item()
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    return complex(value) if isinstance(value, complex) else value


def wrap_numbers(
    args: Sequence[Any], kwargs: dict[str, Any], where: bool | str = True
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Wrap Python numbers that PyTorch's parser accepts as tensors in arithmetic.

    `where` selects the arguments: True for every one, ``rest`` for all but the first, ``src`` for the second alone.
    With ``one``, numbers are wrapped if another argument is a tensor.
    """
    if where == "src":
        if len(args) > 1 and isinstance(args[1], NUMBERS):
            args = [args[0], WrappedNumber(args[1]), *args[2:]]
        elif isinstance(kwargs.get("src"), NUMBERS):
            kwargs = {**kwargs, "src": WrappedNumber(kwargs["src"])}
        return args, kwargs
    if where == "one" and not any(isinstance(a, TensorImpl) for a in (*args, *kwargs.values())):
        return args, kwargs
    first = args[:1] if where == "rest" else []
    args = [*first, *(WrappedNumber(a) if isinstance(a, NUMBERS) else a for a in args[len(first) :])]
    for name in ("other",) if where == "rest" else ("other", "input", "self"):
        if isinstance(kwargs.get(name), NUMBERS):
            kwargs = {**kwargs, name: WrappedNumber(kwargs[name])}
    return args, kwargs


def unwrap_numbers(bound: Sequence[Any]) -> list[Any]:
    """Replace each `WrappedNumber` by its number."""
    return [v.value if v.__class__ is WrappedNumber else v for v in bound]


def holds_tensor(value: Any) -> bool:
    """Return whether a static argument was read from a tensor, whose value may change between calls."""
    if isinstance(value, (list, tuple)):
        return bool([v for v in value if v.__class__ is not int and isinstance(v, TensorImpl)])
    return isinstance(value, TensorImpl)


def has_names(bound: Sequence[Any]) -> bool:
    """Return whether a tensor of the call has named dimensions, or the call has no tensors."""
    tensors = [v for value in bound for v in (value if isinstance(value, list | tuple) else (value,))]
    tensors = [v for v in tensors if isinstance(v, TensorImpl) and v.__class__ is not WrappedNumber]
    return not tensors or any(name is not None for v in tensors for name in v._spec.names)


def all_ints(values: Sequence[Any]) -> bool:
    """Return whether a static argument is a list of small ints, so that a plan may be reused with other sizes."""
    for value in values:  # noqa: SIM110 - a generator would take twice the time
        if value.__class__ is not int or not -_LARGEST < value < _LARGEST:
            return False
    return True


def is_hashable(value: object) -> bool:
    """Return whether a value is hashable, and so can be part of a key."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def is_same(bound: Any, original: object) -> bool:
    """Return whether binding left an argument unchanged, apart from a list that became a tuple."""
    if bound is original:
        return True
    if bound.__class__ is not tuple or not isinstance(original, list | tuple) or len(bound) != len(original):
        return False
    return all(b is g for b, g in zip(bound, original, strict=True))


def key_element(value: Any) -> Any:
    """Return the key element of a runtime argument, as the generated functions compute it."""
    if isinstance(value, TensorImpl):
        return value._spec
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return tuple([key_element(v) for v in value])
    return value.__class__


def general_key_element(value: Any) -> Any:
    """Return the key element of an argument of unknown role: numbers by class and value."""
    cls = value.__class__
    if cls is int or cls is bool:
        return (cls, value)
    if isinstance(value, TensorImpl):
        return value._spec
    if isinstance(value, (list, tuple)):
        return tuple([general_key_element(v) for v in value])
    return (cls, value) if cls is float or cls is int or cls is bool or cls is complex else value
