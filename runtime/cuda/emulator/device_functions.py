"""Functions that CUDA's device runtime defines, and a module only declares: ``vprintf`` and ``__assertfail``.

Triton calls them for `tl.device_print` and `tl.device_assert`. Text goes to `sys.stdout`, thread by thread in the order
of their numbers. On a GPU it appears when the stream synchronizes, in no defined order.

Source: NVIDIA, CUDA C++ Programming Guide, "Formatted Output" and "Assertion"; PTX Writer's Guide to Interoperability,
"System Calls".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from .arithmetic import f8, i4, i8, u4, u8
from .fault import ASSERT, Fault

if TYPE_CHECKING:
    from .machine import Blocks
    from .schedule import Frame

Array = np.ndarray[Any, Any]
Mask = Array | None

_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*\d*(?:\.\d+)?)(?P<length>hh|h|ll|l|j|z|t)?(?P<kind>[diouxXfFeEgGp%])"
)
_WIDE = frozenset({"ll", "l", "j", "z", "t"})


def print_text(state: Blocks, frame: Frame, arguments: tuple[str, ...], mask: Mask) -> Any:
    """Execute ``vprintf(format, buffer)``: print a line of each thread, and return its number of conversions.

    The buffer holds the arguments one after the other, each at a multiple of its size.
    """
    addresses, buffers = (state.full(frame.parameters[name, 0]) for name in arguments)
    chosen = state.some(mask)
    lines: dict[int, str] = {}
    counts = np.zeros(state.n, i4)
    for address in np.unique(addresses[chosen]):
        printed = np.zeros(state.n, np.bool_)
        printed[chosen] = addresses[chosen] == address
        text = _string(state, frame, int(address), printed)
        fields = list(_fields(state, frame, text, buffers, printed))
        for thread in np.flatnonzero(printed).tolist():
            lines[thread] = _CONVERSION.sub(partial(_shown, iter(fields), thread), text)
        counts[printed] = len(fields)
    sys.stdout.write("".join(lines[thread] for thread in sorted(lines)))
    return counts.view(u4)


def fail_assertion(state: Blocks, frame: Frame, arguments: tuple[str, ...], mask: Mask) -> Any:
    """Execute ``__assertfail(message, file, line, function, size)``: raise Fault for the first thread."""
    chosen = state.some(mask)
    if not chosen.size:
        return u4(0)
    first = np.zeros(state.n, np.bool_)
    first[chosen[0]] = True
    message, file, line, function = (
        int(state.full(frame.parameters[name, 0])[chosen[0]]) for name in arguments[:4]
    )
    text, path, name = (_string(state, frame, each, first) for each in (message, file, function))
    raise Fault(
        f"device-side assert triggered: {path}:{line}: {name}: Assertion `{text}` failed",
        int(chosen[0]),
        ASSERT,
    )


FUNCTIONS: dict[str, Callable[[Blocks, Frame, tuple[str, ...], Mask], Any]] = {
    "vprintf": print_text,
    "__assertfail": fail_assertion,
}
"""Functions by name: they take the names of a call's parameters, and return its result for each thread."""


def _string(state: Blocks, frame: Frame, address: int, mask: Array) -> str:
    """Return the text at an address, up to its zero byte, as the first thread of a mask reads it."""
    thread, text = int(np.flatnonzero(mask)[0]), bytearray()
    reader = np.zeros(state.n, np.bool_)
    reader[thread] = True
    while True:
        (byte,) = state.load_generic(frame, np.broadcast_to(u8(address + len(text)), state.n), 1, 1, reader)
        if not byte[thread]:
            return text.decode(errors="replace")
        text.append(byte[thread])


def _fields(state: Blocks, frame: Frame, text: str, buffers: Array, mask: Array) -> Iterator[Array]:
    """Yield the arguments of a format, each an array with an element for each thread."""
    offset = 0
    for match in _CONVERSION.finditer(text):
        kind = match["kind"]
        if kind == "%":
            continue
        size = 8 if kind in "fFeEgGp" or match["length"] in _WIDE else 4
        offset += -offset % size
        (values,) = state.load_generic(frame, buffers + u8(offset), size, 1, mask)
        offset += size
        if kind in "fFeEgG":
            yield values.view(f8)
        elif kind in "di":
            yield values.view(i8 if size == 8 else i4)
        else:
            yield values


def _shown(values: Iterator[Array], thread: int, conversion: re.Match[str]) -> str:
    """Return the text of a conversion for a thread."""
    kind, flags = conversion["kind"], conversion["flags"]
    if kind == "%":
        return "%"
    value = next(values)[thread].item()
    shown: str = f"%{flags}s" % f"{value:#x}" if kind == "p" else f"%{flags}{kind}" % value
    return shown
