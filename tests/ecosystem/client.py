"""Another library's test cases: setup code, and calls that run with tensors and with NumPy arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Call", "Client", "Finding"]


@dataclass(frozen=True)
class Call:
    """One expression that is evaluated with tensors in it, and with arrays.

    Attributes:
        text: the expression. It may use the names that the preparation defines, and `x` (4x6, float32), `y` (4x6,
            positive), `m` (6x6, positive definite), `v` and `w` (24 numbers each), `k` (24 integers of 0 to 2), and
            `xp`, the namespace of the array API.
        gives: "tensor" where the result, or what it consists of, are tensors on the device of the arguments; "array"
            for arrays of NumPy; "other" for anything else, which has to be equal all the same.
        shares: whether the result lies in the memory of `x`.
        expected: an expression with arrays for what cannot be computed by `text` with them; None for what gives no
            numbers, such as a picture, and needs only to work.
        tolerance: the greatest error, relative to the largest expected number.
        cuda: whether the call is made for tensors on CUDA, too. Where a client reads memory on the host, it is not.
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
