"""Weak references and dictionaries whose keys are compared by identity (`torch.utils.weak`).

Two tensors' ``==`` is a tensor, so that Python's own `weakref.WeakKeyDictionary` cannot have them as keys.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Self, TypeVar
from weakref import ref as WeakRef

from ..dispatch.tensor import Tensor

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]

Key = TypeVar("Key")
Value = TypeVar("Value")
Entries = dict  # a constructor below has an argument of that name, as PyTorch's


class WeakIdRef(WeakRef[Key]):
    """A weak reference that equals another one of the same object, whatever the objects' ``==`` says.

    A dead one equals only itself.

    Args:
        key: the object.
        callback: called with the reference when the object is gone.
    """

    __slots__ = ("_id",)
    _id: int

    def __new__(cls, key: Key, callback: Callable[[Self], Any] | None = None) -> Self:
        made = super().__new__(cls, key, callback)
        made._id = id(key)
        return made

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, WeakRef):
            return NotImplemented
        mine, theirs = self(), other()
        return self is other if mine is None or theirs is None else mine is theirs

    def __ne__(self, other: object) -> bool:
        return not self == other


class WeakIdKeyDictionary(MutableMapping[Key, Value]):
    """A dictionary that does not keep its keys alive, and finds them by identity.

    An entry goes with its key. It may be iterated over while keys go.

    Args:
        dict: entries to begin with.

    Example:
        >>> import triten as tt
        >>> from triten.utils.weak import WeakIdKeyDictionary
        >>> x, twin = tt.ones(2), tt.ones(2)
        >>> names = WeakIdKeyDictionary({x: "x"})
        >>> names[x], twin in names, len(names)
        ('x', False, 1)
        >>> del x
        >>> len(names)
        0
    """

    def __init__(self, dict: Mapping[Key, Value] | None = None, ref_type: Any = WeakIdRef) -> None:
        self.ref_type = ref_type
        self.data: Entries[Any, Value] = {}
        own = weakref.ref(self)

        def remove(key: Any) -> None:
            still = own()
            if still is not None:
                still.data.pop(key, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key: Key) -> Value:
        return self.data[self.ref_type(key)]

    def __setitem__(self, key: Key, value: Value) -> None:
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key: Key) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # the class does not support weak references
            return False

    def __iter__(self) -> Iterator[Key]:
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def update(self, other: Any = (), /, **named: Value) -> None:
        """Set the entries of a mapping or of pairs. All are read before the first is set."""
        pairs: list[Any] = (
            [(key, other[key]) for key in other.keys()] if hasattr(other, "keys") else list(other)  # noqa: SIM118
        )
        for key, value in [*pairs, *named.items()]:
            self[key] = value

    def keyrefs(self) -> list[Any]:
        """Return the weak references to the keys."""
        return list(self.data)

    def copy(self) -> Self:
        """Return a shallow copy of the same class."""
        return type(self)(self)

    __copy__ = copy

    def __deepcopy__(self, memo: Entries[int, Any]) -> Self:
        from copy import deepcopy

        made = type(self)()
        for key, value in self.items():
            made[key] = deepcopy(value, memo)
        return made

    def __or__(self, other: Mapping[Key, Value]) -> Self:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ior__(self, other: Mapping[Key, Value]) -> Self:
        self.update(other)
        return self

    def __ror__(self, other: Mapping[Key, Value]) -> Self:
        if not isinstance(other, Mapping):
            return NotImplemented
        made = type(self)()
        made.update(other)
        made.update(self)
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        mine = {id(key): value for key, value in self.items()}
        return mine == {id(key): value for key, value in other.items()}


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """Weak reference to a tensor; a call returns the tensor or None.

    Example:
        >>> import triten as tt
        >>> from triten.utils.weak import TensorWeakRef
        >>> x = tt.ones(2)
        >>> reference = TensorWeakRef(x)
        >>> reference() is x
        True
        >>> del x
        >>> reference() is None
        True
    """

    def __init__(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor):
            raise AssertionError(f"expected a Tensor, got {type(tensor)}")
        self.ref: WeakRef[Tensor] = weakref.ref(tensor)

    def __call__(self) -> Tensor | None:
        return self.ref()
