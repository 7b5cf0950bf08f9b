"""Options of the caching allocator, from ``TRITEN_CUDA_ALLOC_CONF`` (PyTorch's ``PYTORCH_CUDA_ALLOC_CONF``)."""

from __future__ import annotations

from dataclasses import dataclass

VARIABLE = "TRITEN_CUDA_ALLOC_CONF"
SMALLEST_SPLIT_MIB = 20


@dataclass(frozen=True)
class AllocatorOptions:
    """How the allocator differs from its defaults.

    Attributes:
        max_split_size: blocks of this many bytes or more are not split; None splits all.
        garbage_collection_threshold: share of the memory limit above which cached segments that lie unused are
            given back; needs a limit (`set_per_process_memory_fraction`).
        roundup_power2_divisions: sizes are rounded up to this many steps between two powers of two; 0 for none.
    """

    max_split_size: int | None = None
    garbage_collection_threshold: float | None = None
    roundup_power2_divisions: int = 0

    def round(self, nbytes: int) -> int:
        """A request's size rounded as the divisions have it.

        Example:
            >>> from triten.runtime.cuda.memory_options import AllocatorOptions
            >>> AllocatorOptions(roundup_power2_divisions=4).round(1200)
            1280
        """
        divisions = self.roundup_power2_divisions
        if divisions == 0 or nbytes < divisions or nbytes & nbytes - 1 == 0:
            return nbytes
        step = max((1 << nbytes.bit_length() - 1) // divisions, 1)
        return nbytes + -nbytes % step


def parse_options(text: str) -> AllocatorOptions:
    """Options from ``name:value`` pairs with commas between them. Raises ValueError for any other text.

    Example:
        >>> from triten.runtime.cuda.memory_options import parse_options
        >>> parse_options("max_split_size_mb:128").max_split_size // 2**20
        128
    """
    found: dict[str, int | float] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, colon, value = (part.strip() for part in pair.partition(":"))
        if not colon or not value:
            raise ValueError(f"{VARIABLE}: expected 'name:value', got '{pair}'")
        if name in found:
            raise ValueError(f"{VARIABLE}: '{name}' is given twice")
        found[name] = _value(name, value)
    size = found.get("max_split_size_mb")
    return AllocatorOptions(
        None if size is None else int(size) * 2**20,
        found.get("garbage_collection_threshold"),
        int(found.get("roundup_power2_divisions", 0)),
    )


def _value(name: str, text: str) -> int | float:
    try:
        if name == "max_split_size_mb":
            size = int(text)
            if size <= SMALLEST_SPLIT_MIB:
                raise ValueError(f"{VARIABLE}: max_split_size_mb: expected more than {SMALLEST_SPLIT_MIB}")
            return size
        if name == "garbage_collection_threshold":
            share = float(text)
            if not 0 < share < 1:
                raise ValueError(f"{VARIABLE}: garbage_collection_threshold: expected a number in (0, 1)")
            return share
        if name == "roundup_power2_divisions":
            divisions = int(text)
            if divisions < 1 or divisions & divisions - 1:
                raise ValueError(f"{VARIABLE}: roundup_power2_divisions: expected a power of two")
            return divisions
    except ValueError as error:
        raise ValueError(f"{error}, got '{text}'") from None
    raise ValueError(
        f"{VARIABLE}: unknown option '{name}'; there are max_split_size_mb, garbage_collection_threshold and "
        "roundup_power2_divisions"
    )
