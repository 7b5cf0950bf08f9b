"""Limits on reading a file: work and memory are proportional to the file's size, whatever its pickle says.

A pickle refers to an earlier object in two bytes. Without limits a small file could have a large string or list
copied thousands of times, or have a tuple hashed that is nested deeper than the C stack.
"""

from __future__ import annotations

import sys
from collections import Counter
from pickle import UnpicklingError

from ..runtime.size import Size

COPIES_FOR_A_BYTE = 4
"""Elements or characters that may be copied for each byte of a pickle; pickles by picklers need at most one."""
STEPS_FOR_A_BYTE = 16
"""Values of keys that may be hashed or compared for each byte of a pickle; two bytes can refer to a tuple key."""
MIN_BUDGET = 1 << 16
"""The minimum of each budget, for small files."""
KEY_NODES = 1000
"""The maximum number of values in a tuple key of a dict or a set, with repetitions."""
KEY_DEPTH = 50
OWN_HASH = sys.hash_info.modulus
"""Integers with a smaller magnitude have distinct hashes."""
NUMBERS = frozenset({int, float, complex, tuple, Size})
"""Types whose hashes a file can choose; hashes of strings are random."""
UNHASHABLE = frozenset({list, dict, set, bytearray})


class Limits:
    """Remaining budget of one call of `load`: elements of containers and strings, and bytes of tensors."""

    __slots__ = ("_bytes", "_copies", "_hashes", "_steps")

    def __init__(self, pickle_size: int, tensor_bytes: int) -> None:
        self._copies = max(MIN_BUDGET, COPIES_FOR_A_BYTE * pickle_size)
        self._steps = max(MIN_BUDGET, STEPS_FOR_A_BYTE * pickle_size)
        self._bytes = max(MIN_BUDGET, COPIES_FOR_A_BYTE * tensor_bytes)
        self._hashes: Counter[tuple[int, int]] = Counter()

    def copy(self, count: int) -> None:
        """Account for `count` elements or characters.

        Raises:
            UnpicklingError: The pickle copies more than its size allows.
        """
        self._copies -= count
        if self._copies < 0:
            raise UnpicklingError("the pickle copies more than its size accounts for")

    def compute(self, nbytes: int) -> None:
        """Account for a new tensor of `nbytes` bytes.

        Raises:
            RuntimeError: The tensors are larger than the file's storages allow.
        """
        self._bytes -= nbytes
        if self._bytes < 0:
            raise RuntimeError("load: the file's tensors are larger than its storages account for")

    def check_key(self, container: object, key: object) -> None:
        """Account for a key of a dict or an element of a set.

        Raises:
            UnpicklingError: The key is not hashable, its hash takes long or a deep stack, or too many keys have the
                same hash.
        """
        if type(key) is str or (type(key) is int and -OWN_HASH < key < OWN_HASH):
            return
        nodes = 0
        pending = [(key, 0)]
        while pending:
            value, depth = pending.pop()
            kind = type(value)
            nodes += 1
            if kind is int:
                nodes += value.bit_length() >> 9  # type: ignore[attr-defined]
            elif kind is tuple or kind is Size:
                nodes += len(value)  # type: ignore[arg-type]
                if nodes <= KEY_NODES:
                    pending += [(each, depth + 1) for each in value]  # type: ignore[attr-defined]
            elif kind in UNHASHABLE or kind.__hash__ is None:
                raise UnpicklingError(f"unhashable type: '{kind.__name__}'")
            if nodes > KEY_NODES or depth > KEY_DEPTH:
                raise UnpicklingError(
                    f"a key of a dict or an element of a set has more than {KEY_NODES} values or is nested more than "
                    f"{KEY_DEPTH} deep"
                )
        if type(key) in NUMBERS:
            # A dict compares a key with all keys of the same hash.
            bucket = id(container), hash(key)
            nodes += self._hashes[bucket]
            self._hashes[bucket] += 1
        self._steps -= nodes
        if self._steps < 0:
            raise UnpicklingError("the keys of the pickle's dicts take longer than its size accounts for")
