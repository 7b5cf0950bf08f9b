"""Locations of values, which guards check and to which side effects are reverted."""

from __future__ import annotations

import pickle
import random
from collections import deque
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

MISSING: Final = object()
"""The value of a location that does not exist."""


@dataclass(frozen=True, slots=True)
class Location:
    """Location that holds a value.

    `holder` is the object that has the location, `key` names the location, and `name` is its name for people. `kind` is
    one of:

    - ``entry`` (of a dict), ``attribute`` (of a class or function, or in a slot), ``cell`` (of a closure);
    - ``element`` (one of a list or tuple), ``elements`` (all of them, or the keys of a dict), ``size`` (of a dict);
    - ``class`` (of an object), ``bytes`` (of an array), ``items`` (of the environment);
    - ``state`` (of a Python or NumPy random generator);
    - ``gradient`` (True if a tensor has one) or ``literal`` (a tensor that the function makes of numbers).
    """

    kind: str
    holder: Any
    key: Any
    name: str

    def read(self) -> Any:
        """Return the current value; `MISSING` if there is none."""
        if self.kind == "entry":
            return self.holder.get(self.key, MISSING)
        if self.kind == "attribute":
            return getattr(self.holder, self.key, MISSING)
        if self.kind == "cell":
            try:
                return self.holder.cell_contents
            except ValueError:
                return MISSING
        if self.kind == "element":
            return self.holder[self.key] if self.key < len(self.holder) else MISSING
        if self.kind == "size":
            return len(self.holder)
        if self.kind == "class":
            return self.holder.__class__
        if self.kind == "bytes":
            return bytes_of(self.holder)
        if self.kind == "gradient":
            return self.holder.grad is not None
        if self.kind == "literal":
            return self.holder.clone()
        if self.kind == "items":
            return tuple(self.holder.items())
        if self.kind == "state":
            return state_of(self.holder)
        return tuple(self.holder)

    def write(self, value: Any) -> None:
        """Put a value there, as `read` gave it."""
        if self.kind == "entry":
            if value is MISSING:
                self.holder.pop(self.key, None)
            else:
                self.holder[self.key] = value
        elif self.kind == "attribute" and value is MISSING:
            delattr(self.holder, self.key)
        elif self.kind == "attribute":
            setattr(self.holder, self.key, value)
        elif self.kind == "class":
            self.holder.__class__ = value
        elif self.kind == "bytes":
            write_bytes(self.holder, value)
        elif self.kind == "items":
            self.holder.clear()
            self.holder.update(value)
        elif self.kind == "state":
            restore_state(self.holder, value)
        elif self.kind == "cell":
            if value is MISSING:
                del self.holder.cell_contents
            else:
                self.holder.cell_contents = value
        elif isinstance(self.holder, list):
            self.holder[:] = value
        elif isinstance(self.holder, set):
            self.holder.clear()
            self.holder.update(value)
        elif isinstance(self.holder, deque):
            self.holder.clear()
            self.holder.extend(value)
        elif isinstance(self.holder, dict):
            held = {key: self.holder.get(key) for key in value}
            self.holder.clear()
            self.holder.update(held)


LARGEST_ARRAY = 1 << 14
"""The most bytes of a NumPy array, or bytearray, whose elements are checked before every call."""


def bytes_of(array: Any) -> bytes:
    """Return the bytes of a NumPy array or a bytearray."""
    return array.tobytes() if isinstance(array, np.ndarray) else bytes(array)


def write_bytes(array: Any, value: bytes) -> None:
    """Put elements back, as `bytes_of` gave them."""
    if isinstance(array, np.ndarray):
        array[...] = np.frombuffer(value, array.dtype).reshape(array.shape)
    else:
        array[:] = value


def state_of(generator: Any) -> bytes:
    """Return the state of a Python or NumPy random generator, as bytes."""
    if isinstance(generator, random.Random):
        return pickle.dumps(generator.getstate())
    if isinstance(generator, np.random.Generator):
        return pickle.dumps(generator.bit_generator.state)
    return pickle.dumps(generator.get_state(legacy=False))


def restore_state(generator: Any, state: bytes) -> None:
    """Put a state back, as `state_of` gave it."""
    value = pickle.loads(state)
    if isinstance(generator, random.Random):
        generator.setstate(value)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = value
    else:
        generator.set_state(value)
