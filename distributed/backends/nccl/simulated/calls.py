"""NCCL's functions as bytes sent to other ranks, and the processing of received bytes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from .....runtime.cuda.simulated.driver import SimulatedDriver

__all__ = [
    "DTYPES",
    "Call",
    "all_gather",
    "all_reduce",
    "broadcast",
    "receive",
    "reduce",
    "reduce_scatter",
    "send",
]

DTYPES: Mapping[int, np.dtype[Any]] = {
    number: np.dtype(name)
    for number, name in enumerate(
        (
            np.int8,
            np.uint8,
            np.int32,
            np.uint32,
            np.int64,
            np.uint64,
            np.float16,
            np.float32,
            np.float64,
            ml_dtypes.bfloat16,
        )
    )
}
"""By NCCL's numbers (`ncclDataType_t`)."""
SUM, PROD, MAX, MIN, AVG = range(5)
_FUNCTIONS: Mapping[int, Callable[..., Any]] = {
    SUM: np.add,
    PROD: np.multiply,
    MAX: np.maximum,
    MIN: np.minimum,
    AVG: np.add,
}
_NAMES = ("sum", "prod", "max", "min", "avg")
_WIDE = np.dtype(np.float32)

Parts = Mapping[int, bytes]
"""Received bytes, by the rank that sent them."""


class Region(NamedTuple):
    """Bytes of device memory."""

    address: int
    nbytes: int

    def part(self, number: int, count: int) -> Region:
        """Return part `number` of `count` equal parts."""
        size = self.nbytes // count
        return Region(self.address + number * size, size)


class Call(NamedTuple):
    """A call of one of NCCL's functions.

    Attributes:
        text: Function and arguments that must be the same on all ranks.
        sends: Regions sent to each rank, in this order; this rank may be among them.
        sources: Ranks from which data is received.
        combine: Function that returns the regions to write, and their bytes, from the received parts.
    """

    text: str
    sends: Sequence[tuple[int, Region]]
    sources: Sequence[int]
    combine: Callable[[Parts], Sequence[tuple[Region, bytes]]]


def read(driver: SimulatedDriver, region: Region) -> bytes:
    """Bytes of device memory. Raises RuntimeError where no live block holds them."""
    if not region.nbytes:
        return b""
    driver.check_range("NCCL: read", region.address, region.nbytes)
    return ctypes.string_at(region.address, region.nbytes)


def write(driver: SimulatedDriver, region: Region, data: bytes) -> None:
    """Put bytes into device memory. Raises RuntimeError where no live block holds them."""
    if region.nbytes:
        driver.check_range("NCCL: write", region.address, region.nbytes)
        ctypes.memmove(region.address, data, region.nbytes)
        driver.note_written(region.address, region.nbytes)


def broadcast(own: int, size: int, sent: int, received: int, count: int, kind: int, root: int) -> Call:
    """`ncclBroadcast`."""
    source, target = _region(sent, count, kind), _region(received, count, kind)
    return Call(
        f"ncclBroadcast(count={count}, datatype={kind}, root={root})",
        [(peer, source) for peer in range(size)] if own == root else [],
        [root],
        lambda parts: [(target, parts[root])],
    )


def all_gather(own: int, size: int, sent: int, received: int, count: int, kind: int) -> Call:
    """`ncclAllGather`."""
    source, target = _region(sent, count, kind), _region(received, count * size, kind)
    return Call(
        f"ncclAllGather(count={count}, datatype={kind})",
        [(peer, source) for peer in range(size)],
        range(size),
        lambda parts: [(target.part(peer, size), parts[peer]) for peer in range(size)],
    )


def all_reduce(own: int, size: int, sent: int, received: int, count: int, kind: int, op: int) -> Call:
    """`ncclAllReduce`. Numbers are added in the order of the processes, in all of them alike."""
    source, target = _region(sent, count, kind), _region(received, count, kind)
    return Call(
        f"ncclAllReduce(count={count}, datatype={kind}, op={_NAMES[op]})",
        [(peer, source) for peer in range(size)],
        range(size),
        lambda parts: [(target, _reduced(parts, kind, op))],
    )


def reduce(own: int, size: int, sent: int, received: int, count: int, kind: int, op: int, root: int) -> Call:
    """`ncclReduce`."""
    source, target = _region(sent, count, kind), _region(received, count, kind)
    return Call(
        f"ncclReduce(count={count}, datatype={kind}, op={_NAMES[op]}, root={root})",
        [(root, source)],
        range(size) if own == root else [],
        lambda parts: [(target, _reduced(parts, kind, op))] if own == root else [],
    )


def reduce_scatter(own: int, size: int, sent: int, received: int, count: int, kind: int, op: int) -> Call:
    """`ncclReduceScatter`."""
    source, target = _region(sent, count * size, kind), _region(received, count, kind)
    return Call(
        f"ncclReduceScatter(recvcount={count}, datatype={kind}, op={_NAMES[op]})",
        [(peer, source.part(peer, size)) for peer in range(size)],
        range(size),
        lambda parts: [(target, _reduced(parts, kind, op))],
    )


def send(sent: int, count: int, kind: int, peer: int) -> Call:
    """`ncclSend`."""
    return Call(_message(count, kind), [(peer, _region(sent, count, kind))], [], lambda parts: [])


def receive(received: int, count: int, kind: int, peer: int) -> Call:
    """`ncclRecv`."""
    target = _region(received, count, kind)
    return Call(_message(count, kind), [], [peer], lambda parts: [(target, parts[peer])])


def _message(count: int, kind: int) -> str:
    return f"a message of {count} elements of datatype {kind}"


def _region(address: int, count: int, kind: int) -> Region:
    return Region(address, count * DTYPES[kind].itemsize)


def _reduced(parts: Parts, kind: int, op: int) -> bytes:
    """Reduce all parts; 16-bit floats accumulate in float32 and are rounded once."""
    dtype = DTYPES[kind]
    computes = _WIDE if dtype.itemsize == 2 else dtype
    result, *addends = (np.frombuffer(parts[peer], dtype).astype(computes) for peer in sorted(parts))
    with np.errstate(all="ignore"):
        for addend in addends:
            _FUNCTIONS[op](result, addend, out=result)
        if op == AVG:
            result = _divided(result, len(parts))
        return result.astype(dtype).tobytes()


def _divided(total: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
    """Divide a sum by the number of ranks; integers truncate toward zero."""
    if total.dtype.kind == "f":
        quotient: np.ndarray[Any, Any] = total / total.dtype.type(size)
    else:
        quotient = np.sign(total) * (np.abs(total) // total.dtype.type(size))
    return quotient
