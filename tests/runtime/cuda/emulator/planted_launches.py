"""Launch faults: tensor maps, pointers and grids other than the kernel's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from triten.runtime.cuda.emulator import tensor_maps

Launch = tuple[Any, bytes]
"""A grid and packed parameters."""
Change = Callable[[Any, Any, bytes], Launch]
"""Of a kernel and its launch."""
Fields = dict[str, Any]
"""Those of a `tensor_maps.TensorMap`."""


def _with_map(change: Callable[[Fields], Fields], which: int) -> Change:
    def changed(kernel: Any, grid: Any, packed: bytes) -> Launch:
        at = [m.start() for m in re.finditer(re.escape(tensor_maps.MARK), packed)][which]
        given = tensor_maps.decode(packed[at : at + 128])._asdict()
        new = given | change(given)
        made = tensor_maps.encode(
            new["type"],
            new["address"],
            new["sizes"],
            new["pitches"][1:],
            new["box"],
            new["steps"],
            0,
            new["swizzle"],
        )
        return grid, packed[:at] + made + packed[at + 128 :]

    return changed


def _smaller_box(given: Fields) -> Fields:
    sides = list(given["box"])
    i = max(i for i, side in enumerate(sides) if side > 1)
    sides[i] //= 2
    return {"box": tuple(sides)}


def _larger(given: Fields) -> Fields:
    """Add rows beyond the tensor, in the first dimension but the innermost with several."""
    sizes = list(given["sizes"])
    i = next(i for i, size in enumerate(sizes) if i and size > 1)
    sizes[i] += 64
    return {"sizes": tuple(sizes)}


def _shorter(given: Fields) -> Fields:
    return {"sizes": (given["sizes"][0] // 2, *given["sizes"][1:])}


def _without_swizzle(given: Fields) -> Fields:
    return {"swizzle": 0}


def _elsewhere(given: Fields) -> Fields:
    return {"address": given["address"] + 16}


def _wider(given: Fields) -> Fields:
    return {"pitches": (given["pitches"][0], given["pitches"][1] + 16, *given["pitches"][2:])}


MAPS: dict[str, Change] = {
    f"{name}, {'last' if which else 'first'} map": _with_map(change, which)
    for name, change in {
        "box of half the size": _smaller_box,
        "tensor that is larger than its memory": _larger,
        "tensor that is shorter": _shorter,
        "map without a swizzle": _without_swizzle,
        "map of the next 16 bytes": _elsewhere,
        "wrong pitch of a map": _wider,
    }.items()
    for which in (0, -1)
}


def _pointers(kernel: Any) -> list[int]:
    types = kernel._binary.parameter_types
    return [kernel._layout.offsets[i] for i, name in enumerate(types) if name.startswith("*")]


def _exchanged(kernel: Any, grid: Any, packed: bytes) -> Launch:
    first, *_, last = _pointers(kernel)
    found = bytearray(packed)
    found[first : first + 8], found[last : last + 8] = packed[last : last + 8], packed[first : first + 8]
    return grid, bytes(found)


def _with_pointer(packed: bytes, at: int, address: int) -> bytes:
    return packed[:at] + address.to_bytes(8, "little") + packed[at + 8 :]


def _moved(kernel: Any, grid: Any, packed: bytes) -> Launch:
    at = _pointers(kernel)[0]
    return grid, _with_pointer(packed, at, int.from_bytes(packed[at : at + 8], "little") + 4)


def _a_block_too_few(kernel: Any, grid: Any, packed: bytes) -> Launch:
    return (grid[0] - 1, grid[1], grid[2]), packed


def _stale(kernel: Any, grid: Any, packed: bytes) -> Launch:
    return grid, _with_pointer(packed, _pointers(kernel)[0], kernel._driver.memory(0).malloc(1 << 20))


LAUNCHES: dict[str, Change] = {
    "exchanged arguments": _exchanged,
    "address that is not aligned": _moved,
    "a block too few": _a_block_too_few,
    "memory of no block": _stale,
}
