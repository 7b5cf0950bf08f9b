"""Questions about sizes that are not known yet (`torch.fx.experimental.symbolic_shapes`).

Sizes are Python's numbers here, so each question is answered by the number itself, and none has free symbols.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "GuardOnDataDependentSymNode",
    "ShapeEnv",
    "expect_true",
    "free_symbols",
    "free_unbacked_symbols",
    "guard_bool",
    "guard_float",
    "guard_int",
    "guard_or_false",
    "guard_or_true",
    "guard_scalar",
    "guard_size_oblivious",
    "has_free_symbols",
    "has_free_unbacked_symbols",
    "has_symbolic_sizes_strides",
    "is_concrete_bool",
    "is_concrete_float",
    "is_concrete_int",
    "is_nested_int",
    "is_symbolic",
    "statically_known_false",
    "statically_known_true",
    "sym_and",
    "sym_eq",
    "sym_or",
]


_SETTINGS = frozenset(
    {
        "allow_dynamic_output_shape_ops",
        "allow_scalar_outputs",
        "assume_static_by_default",
        "co_fields",
        "duck_shape",
        "prefer_deferred_runtime_asserts_over_guards",
        "should_record_events",
        "specialize_zero_one",
        "trace_asserts",
        "tracked_fakes",
    }
)


class GuardOnDataDependentSymNode(RuntimeError):
    """Error of a branch on a size that PyTorch cannot know; never raised here."""


class ShapeEnv:
    """Environment of a program's sizes, for `FakeTensorMode(shape_env=...)`.

    Every size is specialized to its number, so there are no symbols and no guards. An operator whose result's size
    depends on elements raises `DynamicOutputShapeException`, whatever the settings say.

    Args:
        settings: PyTorch's settings, by name, such as ``allow_dynamic_output_shape_ops=True``.

    Attributes:
        settings: The settings that were given.
        guards: Empty list.
        replacements: Empty dict.
        backed_var_to_val: Empty dict.

    Raises:
        TypeError: For a setting that PyTorch does not have.

    Example:
        >>> import triten as tt
        >>> from triten._subclasses.fake_tensor import FakeTensorMode
        >>> from triten.fx.experimental.symbolic_shapes import ShapeEnv
        >>> shape_env = ShapeEnv()
        >>> FakeTensorMode(shape_env=shape_env).from_tensor(tt.ones(2, 3)).shape, shape_env.guards
        (triten.Size([2, 3]), [])
    """

    def __init__(self, **settings: Any) -> None:
        unknown = sorted(settings.keys() - _SETTINGS)
        if unknown:
            raise TypeError(f"ShapeEnv: got an unexpected keyword argument '{unknown[0]}'")
        self.settings = settings
        self.guards: list[Any] = []
        self.replacements: dict[Any, Any] = {}
        self.backed_var_to_val: dict[Any, Any] = {}


def guard_bool(a: Any) -> bool:
    """Return a condition as a bool."""
    return bool(a)


guard_or_false = guard_or_true = guard_size_oblivious = guard_bool
expect_true = statically_known_true = guard_bool


def statically_known_false(x: Any) -> bool:
    """Return whether a condition does not hold."""
    return not x


def guard_int(a: Any) -> int:
    """Return a number as an int."""
    return int(a)


def guard_float(a: Any) -> float:
    """Return a number as a float."""
    return float(a)


def guard_scalar(a: Any) -> Any:
    """Return a number as it is.

    Raises:
        AssertionError: `a` is no number.
    """
    if not isinstance(a, bool | int | float):
        raise AssertionError(f"unrecognized scalar {a}")
    return a


def is_concrete_int(a: Any) -> bool:
    """Return True for an int. Raises AssertionError for anything else."""
    if not isinstance(a, int):
        raise AssertionError(f"Expected int, got {type(a)}")
    return True


def is_concrete_float(a: Any) -> bool:
    """Return True for a float. Raises AssertionError for anything else."""
    if not isinstance(a, float):
        raise AssertionError(f"Expected float, got {type(a)}")
    return True


def is_concrete_bool(a: Any) -> bool:
    """Return True for a bool. Raises AssertionError for anything else."""
    if not isinstance(a, bool):
        raise AssertionError(f"Expected bool, got {type(a)}")
    return True


def free_symbols(val: Any) -> set[Any]:
    """Return the symbols of a value: none."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:
    """Return False: no value has symbols."""
    return False


has_free_unbacked_symbols = has_symbolic_sizes_strides = is_nested_int = is_symbolic = has_free_symbols


def sym_and(x: Any, *others: Any) -> bool:
    """Return whether all conditions hold."""
    return bool(x) and all(others)


def sym_or(x: Any, *others: Any) -> bool:
    """Return whether a condition holds."""
    return bool(x) or any(others)


def sym_eq(x: Any, y: Any) -> bool:
    """Return whether two numbers, or two sequences of numbers, are equal.

    Raises:
        AssertionError: One of them is a sequence alone.

    Example:
        >>> from triten.fx.experimental.symbolic_shapes import sym_eq
        >>> sym_eq((1, 2), [1, 2]), sym_eq(1, 2)
        (True, False)
    """
    if isinstance(x, Sequence) and isinstance(y, Sequence):
        return len(x) == len(y) and all(map(sym_eq, x, y))
    if isinstance(x, Sequence) or isinstance(y, Sequence):
        raise AssertionError(f"unexpected sym_eq between {type(x)} {type(y)}")
    return bool(x == y)
