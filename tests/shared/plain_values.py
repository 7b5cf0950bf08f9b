"""Plain values of every kind that files hold beside tensors."""

from collections import Counter
from typing import Any


def plain_values() -> list[Any]:
    """Return a new value of each kind."""
    return [
        1,
        2.5,
        True,
        None,
        "text",
        b"bytes",
        bytearray(b"more"),
        {1, 2},
        (1, 2, 3, 4),
        2**70,
        1j,
        Counter("aab"),
    ]
