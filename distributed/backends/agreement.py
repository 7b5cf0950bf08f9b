"""Calls of collectives as ranks compare them: one number for a call, its text, and the error for calls that differ."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import DistBackendError
from ..reduce_op import PremultipliedSum, Reduction

if TYPE_CHECKING:
    from ...runtime.scalar_type import dtype
    from ..process_group import GroupSpec

__all__ = [
    "Call",
    "Words",
    "call_of",
    "described",
    "exchange",
    "hashed",
    "is_enabled",
    "mismatch",
    "name_of",
    "signed",
]

VARIABLE = "TRITEN_DISTRIBUTED_CHECK"
"""The environment variable that turns the comparison off: 0."""
POLL = 0.001
"""Seconds between two looks for the other ranks' calls."""
MAX_WORDS = 4096
"""Maximum number of cached call hashes, so that shapes that change with every call do not grow the table."""
MAX_NAMED = 8
"""Ranks that an error names one by one."""

Call: TypeAlias = "tuple[str, dtype | None, int | None, str | None, int | None]"
"""A call: the function, and the dtype, element count, reduction and root on which all ranks have to agree."""


def is_enabled() -> bool:
    """Return whether new groups compare their ranks' calls.

    Raises:
        ValueError: the environment variable is neither 0 nor 1.
    """
    text = os.environ.get(VARIABLE) or "1"
    if text not in ("0", "1"):
        raise ValueError(f"The value of {VARIABLE} must be 0 or 1, but is {text!r}")
    return text == "1"


def name_of(op: Reduction) -> str:
    """Return a reduction's name. Factors of a premultiplied sum may differ between ranks."""
    return "PREMUL_SUM" if isinstance(op, PremultipliedSum) else op._name_


def call_of(
    name: str,
    kind: dtype | None = None,
    count: int | None = None,
    op: Reduction | None = None,
    root: int | None = None,
) -> Call:
    """Return a call as `Words` and `described` take it."""
    return name, kind, count, None if op is None else name_of(op), root


def sized(kind: dtype, count: int) -> str:
    """Return a dtype and a number of elements as text, such as ``float32, 20 elements``."""
    return f"{str(kind).rpartition('.')[2]}, {count} elements"


@lru_cache(MAX_WORDS)
def described(call: Call) -> str:
    """Return a call as text, such as ``all_reduce(float32, 20 elements, sum)``."""
    name, kind, count, op, root = call
    parts = [
        None if kind is None else str(kind).rpartition(".")[2],
        None if count is None else f"{count} elements",
        None if op is None else op.lower(),
        None if root is None else f"root {root}",
    ]
    return f"{name}({', '.join(part for part in parts if part is not None)})"


def hashed(text: str) -> int:
    """Return a hash of 63 bits, the same in all processes."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def signed(number: int) -> int:
    """Return the number from -2**63 to 2**63 - 1 that is equal to another modulo 2**64."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class Words:
    """The hash of each call and the hash's complement, the same in all processes."""

    def __init__(self) -> None:
        self._known: dict[Call, tuple[int, int]] = {}
        self.known = self._known.get

    def of(self, call: Call) -> tuple[int, int]:
        """Return the hash of a call that is not `known`."""
        if len(self._known) >= MAX_WORDS:
            self._known.clear()
        word = hashed(described(call))
        self._known[call] = word, ~word
        return word, ~word


def mismatch(name: str, spec: GroupSpec, texts: Mapping[int, str]) -> DistBackendError:
    """Return the error for calls that differ.

    Args:
        name: the function that this rank called.
        spec: the group.
        texts: each rank's call.
    """
    ranks: dict[str, list[int]] = {}
    for rank in sorted(texts):
        ranks.setdefault(texts[rank], []).append(rank)
    calls = "; ".join(f"{_ranks(those)}: {text}" for text, those in ranks.items())
    return DistBackendError(
        f"{name}: the calls of group {spec.name!r} ({spec.description}) differ: {calls}. All its ranks have to "
        f"call the same, in the same order. {VARIABLE}=0 turns this check off"
    )


def _ranks(those: list[int]) -> str:
    if len(those) == 1:
        return f"rank {those[0]}"
    left = len(those) - MAX_NAMED
    return f"ranks {', '.join(map(str, those[:MAX_NAMED]))}{f' and {left} others' if left > 0 else ''}"


def exchange(spec: GroupSpec, store_prefix: str, name: str, text: str, seconds: float) -> dict[int, str]:
    """Exchange a text with the other ranks of a group through the store, and return all texts by rank.

    Args:
        spec: the group.
        store_prefix: Key that all ranks use for this exchange only.
        name: Name of the function in errors.
        text: This rank's text.
        seconds: the time limit.

    Raises:
        DistBackendError: A rank has exited, or has not set its text within the time limit.
    """
    store, size = spec.store, len(spec.ranks)
    store.set(f"{store_prefix}/{spec.rank}", text)
    deadline = time.monotonic() + seconds
    texts: dict[int, str] = {}
    for rank in range(size):
        key = f"{store_prefix}/{rank}"
        while not store.check([key]):
            gone = spec.failures.gone([spec.ranks[rank]])
            if gone is not None or time.monotonic() > deadline:
                raise DistBackendError(
                    f"{name}: rank {spec.rank} of {size} in group {spec.name!r} ({spec.description}) waited for rank "
                    f"{rank} to tell its call; {gone or f'not heard of: rank {rank}'}"
                )
            time.sleep(POLL)
        texts[rank] = store.get(key).decode()
    if store.add(f"{store_prefix}/read", 1) == size:
        _forget(store, [f"{store_prefix}/read", *(f"{store_prefix}/{rank}" for rank in range(size))])
    return texts


def _forget(store: Any, keys: Iterable[str]) -> None:
    for key in keys:
        store.delete_key(key)
