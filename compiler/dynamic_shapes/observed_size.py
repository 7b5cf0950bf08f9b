"""Sizes as Python code sees them during a capture for many sizes: decisions based on them are recorded.

A tensor's sizes, read by the program's own code, are `ObservedSize`s. They compute as integers do. A comparison
records its outcome. A use of the integer itself (`range`, `float`, a dict key, text) records its value. Arguments of
operators are not recorded, since they are in the graph.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ...dispatch.tensor import Tensor
from ...runtime.size import Size, SymInt
from ...runtime.tensor_impl import TensorImpl
from ..capture.frames import is_observed_file
from ..capture.stand_ins import StandIns
from ..capture.unsupported import is_own

Expression = int | tuple[Any, ...]
Decision = tuple[str, Expression, Expression, Any]
"""An operator's name, its operands, and its outcome."""

ARITHMETIC = ("add", "sub", "mul", "floordiv", "mod")
SIZE_FILE = sys.modules[Size.__module__].__file__
COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


class Observations:
    """Observations of one capture.

    Attributes:
        reads: The sizes that were read, in order.
        decisions: The decisions based on them.
        results: The results computed from them, each with its value.
    """

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.decisions: list[Decision] = []
        self.results: list[tuple[Expression, int]] = []

    def read(self, size: int) -> ObservedSize:
        """Return an observed size for a size that was read."""
        self.reads.append(size)
        return ObservedSize(self, size, ("read", len(self.reads) - 1))

    def computed(self, value: int, expression: Expression) -> ObservedSize:
        """Return an observed size for a number computed from sizes."""
        self.results.append((expression, value))
        return ObservedSize(self, value, expression)


def is_noted() -> bool:
    """Return True if the program's own code called the caller.

    Operators inspect their arguments in code of this package, and the graph has the outcome.
    """
    depth = 2
    while (caller := sys._getframe(depth).f_code.co_filename) == __file__:
        depth += 1
    return not is_own(caller) or is_observed_file(caller) or caller == SIZE_FILE


class ObservedSize(SymInt):
    """Integer that records the decisions based on it."""

    __slots__ = ("_expression", "_seen", "_value")

    def __init__(self, observations: Observations, value: int, expression: Expression) -> None:
        self._seen, self._value, self._expression = observations, value, expression

    def _fixed(self) -> int:
        """Return the integer, and record that the graph is valid for this integer only."""
        if is_noted():
            self._seen.decisions.append(("eq", self._expression, self._value, True))
        return self._value

    def __index__(self) -> int:
        return self._fixed()

    def __int__(self) -> int:
        return self._fixed()

    def __float__(self) -> float:
        return float(self._fixed())

    def __hash__(self) -> int:
        return hash(self._fixed())

    def __str__(self) -> str:
        return str(self._fixed())

    __repr__ = __str__

    def __format__(self, how: str) -> str:
        return format(self._fixed(), how)

    def __bool__(self) -> bool:
        return bool(self.__ne__(0))

    def __neg__(self) -> ObservedSize:
        return self._seen.computed(-self._value, ("neg", self._expression))

    def __pos__(self) -> ObservedSize:
        return self

    def __truediv__(self, other: Any) -> Any:
        return plain(self, other) / plain(other, self)

    def __rtruediv__(self, other: Any) -> Any:
        return plain(other, self) / plain(self, other)

    def __pow__(self, other: Any) -> Any:
        return plain(self, other) ** plain(other, self)

    def __rpow__(self, other: Any) -> Any:
        return plain(other, self) ** plain(self, other)


def plain(value: Any, beside: Any) -> Any:
    """Return an operand as a number; next to a tensor it is the argument of an operator."""
    if not isinstance(value, ObservedSize):
        return value
    return value._value if isinstance(beside, TensorImpl) else value._fixed()


def _arithmetic(name: str, is_reflected: bool) -> Callable[[ObservedSize, Any], Any]:
    compute = getattr(operator, name)

    def method(self: ObservedSize, other: Any) -> Any:
        if other.__class__ is not int and not isinstance(other, ObservedSize):
            mine, theirs = plain(self, other), other
            return compute(theirs, mine) if is_reflected else compute(mine, theirs)
        if isinstance(other, ObservedSize):
            value, expression = other._value, other._expression
        else:
            value = expression = other
        sides = [(self._value, self._expression), (value, expression)]
        (a, left), (b, right) = sides[::-1] if is_reflected else sides
        return self._seen.computed(compute(a, b), (name, left, right))

    return method


def _comparison(name: str) -> Callable[[ObservedSize, Any], Any]:
    compare = getattr(operator, name)

    def method(self: ObservedSize, other: Any) -> Any:
        if isinstance(other, ObservedSize):
            value, expression = other._value, other._expression
        elif other.__class__ is int:
            value = expression = other
        elif isinstance(other, TensorImpl):
            return compare(self._value, other)
        else:
            return compare(self._fixed(), other)
        outcome = compare(self._value, value)
        if is_noted():
            self._seen.decisions.append((name, self._expression, expression, outcome))
        return outcome

    return method


for _name in ARITHMETIC:
    setattr(ObservedSize, f"__{_name}__", _arithmetic(_name, False))
    setattr(ObservedSize, f"__r{_name}__", _arithmetic(_name, True))
for _name in COMPARISONS:
    setattr(ObservedSize, f"__{_name}__", _comparison(_name))


class _ObservedSizes(StandIns):
    """The block of `observed_sizes`."""

    def __init__(self, observations: Observations) -> None:
        super().__init__()
        self._seen = observations

    def __enter__(self) -> Observations:  # type: ignore[override]
        self.begin(sys._getframe(1))
        return self._seen


def observed_sizes() -> AbstractContextManager[Observations]:
    """Have the program's code see the sizes of tensors as `ObservedSize`s while the block runs, in this thread."""
    observations = Observations()
    stand_ins = _ObservedSizes(observations)
    before = {
        name: vars(TensorImpl)[name] for name in ("shape", "size", "numel", "nelement", "stride", "nbytes")
    }
    owner: Any = next(each for each in Tensor.__mro__ if "__len__" in vars(each))
    length = owner.__len__

    def is_asked() -> bool:
        return is_observed_file(sys._getframe(2).f_code.co_filename) and stand_ins.is_active()

    def shape(self: TensorImpl) -> Any:
        return _size(observations, self._spec.shape) if is_asked() else self._spec.shape

    def size(self: TensorImpl, *args: Any, **kwargs: Any) -> Any:
        sizes = before["size"](self, *args, **kwargs)
        if not is_asked():
            return sizes
        return observations.read(sizes) if isinstance(sizes, int) else _size(observations, sizes)

    def numel(self: TensorImpl) -> Any:
        return observations.read(self._spec.numel) if is_asked() else self._spec.numel

    def stride(self: TensorImpl, *args: Any, **kwargs: Any) -> Any:
        strides = before["stride"](self, *args, **kwargs)
        if not is_asked():
            return strides
        return (
            observations.read(strides)
            if isinstance(strides, int)
            else tuple([observations.read(each) for each in strides])
        )

    def nbytes(self: TensorImpl) -> Any:
        return observations.read(self._spec.nbytes) if is_asked() else self._spec.nbytes

    def __len__(self: TensorImpl) -> int:
        length_of_first_dim: int = length(self)
        if is_asked():
            observations.read(length_of_first_dim)._fixed()
        return length_of_first_dim

    instead = {
        "shape": property(shape), "size": size, "numel": numel, "nelement": numel, "stride": stride,
        "nbytes": property(nbytes),
    }  # fmt: skip
    for name, hook in instead.items():
        stand_ins.replace(TensorImpl, name, _always(hook))
    stand_ins.replace(owner, "__len__", _always(__len__))
    return stand_ins


def _always(hook: Any) -> Callable[[Any], Any]:
    return lambda original: hook


class ObservedShape(Size):
    """Sizes of a tensor, whose slices and concatenations stay observed."""

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return tuple.__new__(ObservedShape, item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Any:
        return tuple.__new__(ObservedShape, tuple.__add__(self, other))

    def __radd__(self, other: Any) -> Any:
        return tuple.__new__(ObservedShape, tuple.__add__(tuple(other), self))


def _size(observations: Observations, sizes: tuple[int, ...]) -> Any:
    return tuple.__new__(ObservedShape, [observations.read(each) for each in sizes])
