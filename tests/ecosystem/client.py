"""Another library's test cases: setup code, and calls that run with tensors and with NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Call", "Client", "Finding"]


@dataclass(frozen=True)
class Call:
    """An expression that is evaluated with tensors and with arrays.

    Attributes:
        text: The expression. It may use the names that the preparation defines, and `x` (4x6, float32), `y` (4x6,
            positive), `m` (6x6, positive definite), `v` and `w` (24 numbers each), `k` (24 integers of 0 to 2), and
            `xp`, the namespace of the array API.
        gives: "tensor" if the result consists of tensors on the arguments' device; "array" for NumPy arrays; "other"
            for anything else, which must also be equal. Default: "tensor".
        shares: If True, the result shares memory with `x`. Default: False.
        expected: An expression with arrays, for calls in which `text` does not work with arrays. None for results
            without numbers, such as a picture: the call only needs to succeed.
        tolerance: The greatest error, relative to the largest expected number. Default: 1e-4.
        cuda: If True, the call also runs on CUDA tensors. False for clients that read host memory. Default: True.
    """

    text: str
    gives: str = "tensor"
    shares: bool = False
    expected: str | None = ""
    tolerance: float = 1e-4
    cuda: bool = True


@dataclass(frozen=True)
class Client:
    """A library, and what is called of it.

    Attributes:
        name: as people write it.
        modules: what has to be importable.
        preparation: statements before the calls.
        calls: them.
        environment: variables that the process needs to start with.
    """

    name: str
    modules: tuple[str, ...]
    preparation: str
    calls: tuple[Call, ...]
    environment: dict[str, str] = field(default_factory=dict)


class Finding(NamedTuple):
    """Result of a call: its kind, whether it shares the operands' memory, and an error if there was one."""

    text: str
    gives: str
    shares: bool
    wrong: str
