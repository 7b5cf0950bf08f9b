"""Faults that kernels find in their input, such as a wrong index: words that kernels write and the host reads later.

No operator waits for its kernels to hear of a fault. A plan registers what its kernels may find wrong and gets a word
for each such fault, in page-locked memory that is mapped into the devices' address space. A kernel that finds a fault
stores 1 there; words only ever go up, so that neither the order of programs nor that of streams changes what is
reported. The host looks at a device's words, which costs it no call of the driver, before a launch that may raise one
and wherever it has waited for the device. It then raises the error of the first that is up, once, and lowers all.

The words of a captured kernel are the same as those of one that is not: a replay reports as a launch does.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from weakref import WeakValueDictionary

from .driver import Driver, current_driver, driver, is_simulated
from .graph_capture import captures_of

WORD_BYTES = 4
GROUP = 4
"""The words of a plan begin at a multiple of 16 bytes, so that their address is as good as any for vectors."""
BLOCK_GROUPS = 256
LEAST_WATCHED = 4


class Fault(NamedTuple):
    """What an operator's kernels may find wrong, and the type of the error that says so."""

    operator: str
    error: type[Exception]
    message: str

    def exception(self, device: int) -> Exception:
        """The error, for a caller that need not be the one whose call was wrong."""
        named = (
            ""
            if self.message.startswith((f"{self.operator}(", f"{self.operator}:"))
            else f"{self.operator}(): "
        )
        return self.error(
            f"{named}{self.message} (found by a kernel on cuda:{device} that an earlier call launched; "
            "with CUDA_LAUNCH_BLOCKING=1 in the environment that call itself raises)"
        )


class FaultFlags:
    """The words of a plan, one for each of its faults, from an address on that kernels are given.

    Whoever launches calls `begin` before and `raised` after.
    """

    __slots__ = ("__weakref__", "_faults", "_first", "address", "count", "driver")

    def __init__(self, faults: DeviceFaults, block: FaultBlock, first: int, count: int) -> None:
        self._faults, self._first = faults, (block, first)
        self.driver = faults.driver
        self.address = block.address + first * WORD_BYTES
        self.count = count

    def begin(self) -> int:
        """The address of the words, for a launch on the current stream that comes next.

        Raises the error of a fault that kernels on the device have reported by now. In a capture it does not look,
        and the graph keeps the words.
        """
        if self.driver.captures_underway:
            capture = captures_of(self.driver).current(self._faults.device)
            if capture is not None:
                capture.faults.append(self)
                return self.address
        self._faults.check()
        return self.address

    def raised(self) -> list[int]:
        """Wait for the current stream; which words its kernels have raised. Lowers them.

        For calls that raise their own errors (``Driver.launch_blocking``); in a capture there is nothing to wait for.
        """
        cuda, device = self.driver, self._faults.device
        stream = cuda.current_stream(device)
        if cuda.captures_underway and cuda.is_capturing(stream):
            return []
        cuda.synchronize_stream(stream)
        block, first = self._first
        return [i for i in range(self.count) if block.lower(first + i)]

    def __del__(self) -> None:
        # In garbage collection, which may have begun anywhere: takes no lock.
        self._faults.dropped.append((*self._first, self.count))


class FaultBlock:
    """Mapped memory for the words of many plans: `watched` is its part in use, `clear` the same without faults."""

    __slots__ = ("address", "clear", "faults", "used", "watched", "words")

    def __init__(self, address: int) -> None:
        self.address = address
        nbytes = BLOCK_GROUPS * GROUP * WORD_BYTES
        ctypes.memset(address, 0, nbytes)
        self.faults: dict[int, Fault] = {}
        """The fault of each word that a plan has, or had when its kernels were launched."""
        self.used = 0
        memory: ctypes.Array[ctypes.c_char] = (ctypes.c_char * nbytes).from_address(address)
        self.words = memoryview(memory).cast("B").cast("i")
        self.watched = self.words[:0]
        self.clear = b""

    def take(self, count: int) -> int | None:
        """The first of so many words that nobody has had; None if there are no more."""
        first, end = self.used, self.used + count
        if end > len(self.words):
            return None
        self.used = end
        watched = GROUP * LEAST_WATCHED
        while watched < end:
            watched *= 2
        self.clear = bytes(watched * WORD_BYTES)
        self.watched = self.words[:watched]
        return first

    def lower(self, word: int) -> bool:
        """Lower a word; whether it was up."""
        was_up = self.words[word] != 0
        if was_up:
            self.words[word] = 0
        return was_up

    def forget(self) -> None:
        """Have the words be memory of the process alone: a process that was forked off has no devices."""
        self.words = memoryview(bytearray(len(self.words) * WORD_BYTES)).cast("i")
        self.watched = self.words[: len(self.watched)]


class DeviceFaults:
    """The faults that the kernels of one device may report."""

    def __init__(self, cuda: Driver, device: int) -> None:
        self.driver, self.device = cuda, device
        self.blocks: tuple[FaultBlock, ...] = ()
        self.dropped: deque[tuple[FaultBlock, int, int]] = deque()
        """Words whose plan is gone; kernels that were launched before may still raise them."""
        self._free: dict[int, list[tuple[FaultBlock, int]]] = {}
        self._flags: WeakValueDictionary[tuple[Fault, ...], FaultFlags] = WeakValueDictionary()
        self._lock = threading.Lock()

    def flags(self, faults: Sequence[Fault]) -> FaultFlags:
        """The words of these faults: those of another plan where that has the same.

        New words take memory of the driver now and then, which a capture forbids: `reserve` some before it. Where
        plans have given words back these are taken first, once the device has done all that might raise them.
        """
        key, size = tuple(faults), -len(faults) % GROUP + len(faults)
        with self._lock:
            found = self._flags.get(key)
            if found is not None or (found := self._new(key, size)) is not None:
                return found
        self._reclaim()
        with self._lock:
            found = self._new(key, size)
            if found is None:
                self._grow()
                found = self._new(key, size)
            assert found is not None, "a block has words for every plan"
            return found

    def _new(self, key: tuple[Fault, ...], size: int) -> FaultFlags | None:
        free = self._free.get(size)
        block, first = free.pop() if free else self._unused(size)
        if block is None:
            return None
        block.faults |= {first + i: fault for i, fault in enumerate(key)}
        made = self._flags[key] = FaultFlags(self, block, first, len(key))
        return made

    def _unused(self, size: int) -> tuple[FaultBlock | None, int]:
        for block in self.blocks[-1:]:
            first = block.take(size)
            if first is not None:
                return block, first
        return None, 0

    def _grow(self) -> None:
        address = self.driver.malloc_mapped(BLOCK_GROUPS * GROUP * WORD_BYTES)
        self.blocks = (*self.blocks, FaultBlock(address))

    def reserve(self) -> None:
        """Have at least half of a block unused."""
        with self._lock:
            if not self.blocks or self.blocks[-1].used > len(self.blocks[-1].words) // 2:
                self._grow()

    def _reclaim(self) -> None:
        """Wait for the device and reuse words whose plans were gone before. Raises what they reported."""
        count = len(self.dropped)
        if not count or self.driver.captures_underway:
            return
        self.driver.synchronize(self.device)
        self.check()
        for _ in range(count):
            block, first, size = self.dropped.popleft()
            with self._lock:
                self._free.setdefault(-size % GROUP + size, []).append((block, first))

    def check(self) -> None:
        """Raise the error of the first fault that kernels have reported by now, and lower all that are up.

        The others become notes of the error.
        """
        for block in self.blocks:
            if block.watched.tobytes() != block.clear:
                self._raise()

    def _raise(self) -> None:
        with self._lock:
            found = [block.faults[word] for block in self.blocks for word in _lowered(block)]
        # Another thread may have been quicker.
        if found:
            error = found[0].exception(self.device)
            for fault in found[1:]:
                error.add_note(f"also {fault.operator}(): {fault.message}")
            raise error


def _lowered(block: FaultBlock) -> Iterator[int]:
    """The words that were up, in the order in which plans got them."""
    return (word for word in range(block.used) if block.lower(word))


def faults_of(cuda: Driver, device: int) -> DeviceFaults:
    """What the kernels of a device may report."""
    found = cuda.faults.get(device)
    return found if found is not None else cuda.faults.setdefault(device, DeviceFaults(cuda, device))


def fault_flags(device: int, faults: Sequence[Fault]) -> FaultFlags:
    """The words of a plan on a device, one for each of these faults."""
    return faults_of(driver(), device).flags(faults)


def raise_faults(cuda: Driver, device: int) -> None:
    """Raise the error of a fault that kernels on the device have reported, for who has waited for some of them."""
    found = cuda.faults.get(device)
    if found is not None:
        found.check()


def _forget_devices() -> None:
    cuda = current_driver()
    if cuda is not None and not is_simulated():
        for faults in cuda.faults.values():
            for block in faults.blocks:
                block.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_devices)
