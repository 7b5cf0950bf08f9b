"""What a call's arguments are to the tables of plans: parameters, elements of keys, numbers in tensors' places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...runtime import device, scalar_type
from ...runtime.tensor_impl import TensorImpl
from . import tensor_function as overrides


class _NotGiven:
    """The class of the defaults of what a call may leave out without a value to stand for it."""

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
"""The default of a parameter that Python lets a call leave out, as another name may give it, and no overload does."""


def is_absent(value: object) -> bool:
    """Whether a call has left an argument out."""
    return value.__class__ is _NotGiven


class Parameter(NamedTuple):
    """A parameter of a public function.

    `role`: ``tensor``, ``optional`` (Tensor?), ``list`` (Tensor[]), ``operand`` (tensor or number), ``number``
    (by class) and ``scale`` (a Scalar with an int default, outside the key while at it) are runtime; ``static``
    is not. ``rare`` stands in no key: calls that give it are not planned ahead.
    """

    name: str
    role: str
    default: object = NOT_GIVEN
    keyword_only: bool = False


class WrappedNumber(TensorImpl):
    """Stands for a Python number in a tensor's place while the overload is chosen."""

    __slots__ = ("value",)

    def __init__(self, value: scalar_type.Number) -> None:
        self.value = value


NUMBERS = (int, float, complex, bool)

PLAIN = frozenset({int, bool, str, None.__class__, _NotGiven, scalar_type.dtype, device.device})
"""Classes of static arguments that bind the same way whatever the shapes of the tensors beside them."""

overrides.plain_classes.update((int, bool, str, _NotGiven, scalar_type.dtype, device.device))

_LARGEST = 1 << 62


def plain_number(value: object) -> Any:
    """A NumPy scalar, or an instance of a subclass of a number, as the Python number that it stands for."""
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
    """Arguments in which Python numbers pass for tensors, as PyTorch's parser lets them for arithmetic.

    `where` is True for every argument, ``rest`` for all but the first, ``src`` for the second alone, ``one`` if
    another argument is a tensor.
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
    """Bound arguments with the numbers themselves again."""
    return [v.value if v.__class__ is WrappedNumber else v for v in bound]


def holds_tensor(value: Any) -> bool:
    """Whether a static argument was read from a tensor, whose next value may be another."""
    if value.__class__ is list or value.__class__ is tuple:
        return bool([v for v in value if v.__class__ is not int and isinstance(v, TensorImpl)])
    return isinstance(value, TensorImpl)


def has_names(bound: Sequence[Any]) -> bool:
    """Whether some tensor of a call has named dimensions, or there is none that could have."""
    tensors = [v for value in bound for v in (value if isinstance(value, list | tuple) else (value,))]
    tensors = [v for v in tensors if isinstance(v, TensorImpl) and v.__class__ is not WrappedNumber]
    return not tensors or any(name is not None for v in tensors for name in v._spec.names)


def all_ints(values: Sequence[Any]) -> bool:
    """Whether a static argument is a list of sizes or dimensions, of which others may stand in its place."""
    for value in values:  # noqa: SIM110 - a generator would take twice the time
        if value.__class__ is not int or not -_LARGEST < value < _LARGEST:
            return False
    return True


def is_hashable(value: object) -> bool:
    """Whether a value can stand in a key."""
    try:
        hash(value)
    except TypeError:
        return False
    return True


def is_same(bound: Any, given: object) -> bool:
    """Whether binding left an argument as it was; a list becomes a tuple of the same elements."""
    if bound is given:
        return True
    if bound.__class__ is not tuple or not isinstance(given, list | tuple) or len(bound) != len(given):
        return False
    return all(b is g for b, g in zip(bound, given, strict=True))


def key_element(value: Any) -> Any:
    """The key element of a runtime argument, as the generated functions compute it."""
    if isinstance(value, TensorImpl):
        return value._spec
    if value is None:
        return None
    if value.__class__ is list or value.__class__ is tuple:
        return tuple([key_element(v) for v in value])
    return value.__class__


def general_key_element(value: Any) -> Any:
    """The key element of an argument whose role is not known yet: numbers stand by class and value."""
    cls = value.__class__
    if cls is int or cls is bool:
        return (cls, value)
    if isinstance(value, TensorImpl):
        return value._spec
    if cls is list or cls is tuple:
        return tuple([general_key_element(v) for v in value])
    return (cls, value) if cls is float or cls is int or cls is bool or cls is complex else value
