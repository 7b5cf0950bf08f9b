"""`DispatchKeySet`: an immutable set of dispatch keys in 64 bits (c10/core/DispatchKeySet.h).

The call path works on the bare integers (`repr_`); this class is their public form.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .dispatch_key import (
    BACKEND_MASK,
    NUM_BACKENDS,
    PER_BACKEND,
    RUNTIME,
    BackendComponent,
    DispatchKey,
    Functionality,
    highest_priority,
)


class DispatchKeySet:
    """Set of runtime keys; ``|``, ``&``, ``-`` combine sets or keys, iteration goes from the highest priority.

    Removing a per-backend key such as ``AutogradCPU`` removes the functionality and leaves the backend bit, which
    other functionalities share, as in c10. An alias key adds no bits: its set is empty, and a call with an empty set
    runs the operator's composite kernel.

    Example:
        >>> import triten as tt
        >>> ks = tt.DispatchKeySet([tt.DispatchKey.CPU, tt.DispatchKey.AutogradCPU])
        >>> ks.highest_priority(), (ks - tt.DispatchKey.AutogradCPU)
        (DispatchKey.AutogradCPU, DispatchKeySet(CPU))
    """

    __slots__ = ("repr_",)
    repr_: int

    def __init__(self, keys: DispatchKey | Iterable[DispatchKey] = ()) -> None:
        bits = 0
        for key in (keys,) if isinstance(keys, DispatchKey) else keys:
            bits |= _bits(key)
        object.__setattr__(self, "repr_", bits)

    @staticmethod
    def from_raw_repr(bits: int) -> DispatchKeySet:
        """Return the set of these bits. Raise ValueError beyond 64 bits."""
        if not 0 <= bits < 1 << 64:
            raise ValueError(f"a DispatchKeySet has 64 bits, got {bits:#x}")
        out = DispatchKeySet()
        object.__setattr__(out, "repr_", bits)
        return out

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("DispatchKeySet is immutable")

    def __reduce__(self) -> tuple[object, tuple[int]]:
        return DispatchKeySet.from_raw_repr, (self.repr_,)

    def raw_repr(self) -> int:
        """Return the bits."""
        return self.repr_

    def has(self, key: DispatchKey) -> bool:
        """Return True if the set has every bit of `key`; always True for alias keys and Undefined, which have none."""
        bits = _bits(key)
        return self.repr_ & bits == bits

    __contains__ = has

    def add(self, key: DispatchKey) -> DispatchKeySet:
        """Return the set with `key`."""
        return self | key

    def remove(self, key: DispatchKey) -> DispatchKeySet:
        """Return the set without the functionality of `key`."""
        return self - key

    def empty(self) -> bool:
        """Return True if no bit is set."""
        return self.repr_ == 0

    def highest_priority(self) -> DispatchKey:
        """Return the key that a call with this set dispatches to first; Undefined if there is none."""
        return highest_priority(self.repr_)

    highestPriorityTypeId = highest_priority

    def highest_backend(self) -> BackendComponent | None:
        """Return the backend component of the highest bit, or None."""
        backends = self.repr_ & BACKEND_MASK
        return BackendComponent(backends.bit_length() - 1) if backends else None

    def __or__(self, other: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        return DispatchKeySet.from_raw_repr(self.repr_ | _bits(other))

    def __and__(self, other: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        return DispatchKeySet.from_raw_repr(self.repr_ & _bits(other))

    def __sub__(self, other: DispatchKeySet | DispatchKey) -> DispatchKeySet:
        return DispatchKeySet.from_raw_repr(self.repr_ & ~(_bits(other) & ~BACKEND_MASK))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and other.repr_ == self.repr_

    def __hash__(self) -> int:
        return hash(self.repr_)

    def __bool__(self) -> bool:
        return self.repr_ != 0

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[DispatchKey]:
        # Lowest priority first, as c10 iterates and prints.
        backends = [b for b in BackendComponent if self.repr_ >> b & 1]
        for functionality in Functionality:
            if not self.repr_ >> (NUM_BACKENDS + functionality) & 1:
                continue
            if functionality in PER_BACKEND:
                yield from (RUNTIME[functionality, b] for b in backends)
            else:
                yield RUNTIME[functionality, None]

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"


def _bits(key: DispatchKeySet | DispatchKey) -> int:
    if isinstance(key, DispatchKeySet):
        return key.repr_
    if not isinstance(key, DispatchKey):
        raise TypeError(f"DispatchKeySet: expected DispatchKey or DispatchKeySet, not {type(key).__name__}")
    return key.bits
