"""Options of the caching allocator, from ``TRITEN_CUDA_ALLOC_CONF`` (PyTorch's ``PYTORCH_CUDA_ALLOC_CONF``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

VARIABLE = "TRITEN_CUDA_ALLOC_CONF"
SMALLEST_SPLIT_MIB = 20


@dataclass(frozen=True)
class AllocatorOptions:
    """Options of the caching allocator.

    Attributes:
        max_split_size: Blocks of this many bytes or more are not split. Default: None, all are split.
        garbage_collection_threshold: Fraction of the memory limit above which unused cached segments are freed.
            Needs a limit (`set_per_process_memory_fraction`).
        roundup_power2_divisions: Round sizes up to this many steps between two powers of two; 0 disables it.
    """

    max_split_size: int | None = None
    garbage_collection_threshold: float | None = None
    roundup_power2_divisions: int = 0

    def round(self, nbytes: int) -> int:
        """Return the size of a request rounded up by `roundup_power2_divisions`.

        Example:
            >>> from triten.runtime.cuda.memory.options import AllocatorOptions
            >>> AllocatorOptions(roundup_power2_divisions=4).round(1200)
            1280
        """
        divisions = self.roundup_power2_divisions
        if divisions == 0 or nbytes < divisions or nbytes & nbytes - 1 == 0:
            return nbytes
        step = max((1 << nbytes.bit_length() - 1) // divisions, 1)
        return nbytes + -nbytes % step


def parse_options(text: str) -> AllocatorOptions:
    """Parse options from comma-separated ``name:value`` pairs. Raise ValueError for malformed text.

    Example:
        >>> from triten.runtime.cuda.memory.options import parse_options
        >>> parse_options("max_split_size_mb:128").max_split_size // 2**20
        128
    """
    options: dict[str, int | float] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = (part.strip() for part in pair.partition(":"))
        if not colon or not value:
            raise ValueError(f"{VARIABLE}: expected 'name:value', got '{pair}'")
        if name in options:
            raise ValueError(f"{VARIABLE}: '{name}' is given twice")
        options[name] = _value(name, value)
    size = options.get("max_split_size_mb")
    return AllocatorOptions(
        None if size is None else int(size) * 2**20,
        options.get("garbage_collection_threshold"),
        int(options.get("roundup_power2_divisions", 0)),
    )


def _value(name: str, text: str) -> int | float:
    rule = _RULES.get(name)
    if rule is None:
        raise ValueError(f"{VARIABLE}: unknown option '{name}'; there are {', '.join(_RULES)}")
    read, is_valid, expected = rule
    try:
        value = read(text)
    except ValueError:
        value = None
    if value is None or not is_valid(value):
        raise ValueError(f"{VARIABLE}: {name}: expected {expected}, got '{text}'")
    return value


_RULES: dict[str, tuple[type[int] | type[float], Callable[[Any], bool], str]] = {
    "max_split_size_mb": (int, lambda v: v > SMALLEST_SPLIT_MIB, f"an integer above {SMALLEST_SPLIT_MIB}"),
    "garbage_collection_threshold": (float, lambda v: 0 < v < 1, "a number in (0, 1)"),
    "roundup_power2_divisions": (int, lambda v: v > 0 and v & v - 1 == 0, "a power of two"),
}
