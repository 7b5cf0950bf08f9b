"""Faults that kernels find in their input, such as an invalid index: flag words that the host reads later.

No operator waits for its kernels to report a fault. A plan registers the possible faults of its kernels and gets a
word for each, in page-locked memory that is mapped into the devices' address space. A kernel that finds a fault
stores 1 there. Kernels never clear a word, so the order of programs and streams does not change the report.

The host reads a device's words before a launch that may raise one, and after it has waited for the device. Reading
needs no driver call. The host then raises the error of the first set word, once, and clears all words.

A captured kernel uses the same words: a replay reports faults like a launch.
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
"""The words of a plan are aligned to 16 bytes, so that kernels may access them as vectors."""
BLOCK_GROUPS = 256
MIN_WATCHED = 4


class Fault(NamedTuple):
    """Fault that an operator's kernels may find, and the type of its error."""

    operator: str
    error: type[Exception]
    message: str

    def exception(self, device: int) -> Exception:
        """Return the error, worded for a caller whose own call may not be at fault."""
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
    """Words of a plan, one for each of its faults, from the address that its kernels get.

    The launching code calls `begin` before and `raised` after the launch.
    """

    __slots__ = ("__weakref__", "_faults", "_first", "address", "count", "driver")

    def __init__(self, faults: DeviceFaults, block: FaultBlock, first: int, count: int) -> None:
        self._faults, self._first = faults, (block, first)
        self.driver = faults.driver
        self.address = block.address + first * WORD_BYTES
        self.count = count

    def begin(self) -> int:
        """Return the address of the words, for the next launch on the current stream.

        Raises the error of a fault that kernels on the device have already reported. In a capture it reads no words,
        and the graph keeps them.
        """
        if self.driver.captures_underway:
            capture = captures_of(self.driver).current(self._faults.device)
            if capture is not None:
                capture.faults.append(self)
                return self.address
        self._faults.check()
        return self.address

    def raised(self) -> list[int]:
        """Wait for the current stream; return the words that its kernels have set, and clear them.

        It is for calls that raise their own errors (``Driver.launch_blocking``). A capture has nothing to wait for.
        """
        cuda, device = self.driver, self._faults.device
        stream = cuda.current_stream(device)
        if cuda.captures_underway and cuda.is_capturing(stream):
            return []
        cuda.synchronize_stream(stream)
        block, first = self._first
        return [i for i in range(self.count) if block.lower(first + i)]

    def __del__(self) -> None:
        # Lock-free: garbage collection may run this anywhere.
        self._faults.dropped.append((*self._first, self.count))


class FaultBlock:
    """Mapped memory for the words of many plans: `watched` is its part in use, `clear` the same without faults."""

    __slots__ = ("address", "clear", "faults", "used", "watched", "words")

    def __init__(self, address: int) -> None:
        self.address = address
        nbytes = BLOCK_GROUPS * GROUP * WORD_BYTES
        ctypes.memset(address, 0, nbytes)
        self.faults: dict[int, Fault] = {}
        """Fault of each word that a plan has, or had when its kernels were launched."""
        self.used = 0
        memory: ctypes.Array[ctypes.c_char] = (ctypes.c_char * nbytes).from_address(address)
        self.words = memoryview(memory).cast("B").cast("i")
        self.watched = self.words[:0]
        self.clear = b""

    def take(self, count: int) -> int | None:
        """Return the first of `count` unused words; None if there are too few."""
        first, end = self.used, self.used + count
        if end > len(self.words):
            return None
        self.used = end
        watched = GROUP * MIN_WATCHED
        while watched < end:
            watched *= 2
        self.clear = bytes(watched * WORD_BYTES)
        self.watched = self.words[:watched]
        return first

    def lower(self, word: int) -> bool:
        """Clear a word; return True if it was set."""
        was_up = self.words[word] != 0
        if was_up:
            self.words[word] = 0
        return was_up

    def forget(self) -> None:
        """Replace the words by private memory: a forked process has no devices."""
        self.words = memoryview(bytearray(len(self.words) * WORD_BYTES)).cast("i")
        self.watched = self.words[: len(self.watched)]


class DeviceFaults:
    """Faults that the kernels of one device may report."""

    def __init__(self, cuda: Driver, device: int) -> None:
        self.driver, self.device = cuda, device
        self.blocks: tuple[FaultBlock, ...] = ()
        self.dropped: deque[tuple[FaultBlock, int, int]] = deque()
        """Words whose plan is gone; kernels that were launched before may still set them."""
        self._free: dict[int, list[tuple[FaultBlock, int]]] = {}
        self._flags: WeakValueDictionary[tuple[Fault, ...], FaultFlags] = WeakValueDictionary()
        self._lock = threading.Lock()

    def flags(self, faults: Sequence[Fault]) -> FaultFlags:
        """Return the words of these faults, shared with other plans that have the same faults.

        New words occasionally allocate memory, which a capture forbids: call `reserve` before it. Words of deleted
        plans are reused first, once the device has finished all work that might set them.
        """
        key, size = tuple(faults), -len(faults) % GROUP + len(faults)
        with self._lock:
            flags = self._flags.get(key)
            if flags is not None or (flags := self._new(key, size)) is not None:
                return flags
        self._reclaim()
        with self._lock:
            flags = self._new(key, size)
            if flags is None:
                self._grow()
                flags = self._new(key, size)
            assert flags is not None, "a block has words for every plan"
            return flags

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
        """Make sure that at least half of a block is unused."""
        with self._lock:
            if not self.blocks or self.blocks[-1].used > len(self.blocks[-1].words) // 2:
                self._grow()

    def _reclaim(self) -> None:
        """Wait for the device and reuse words of deleted plans. Raise the faults that they reported."""
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
        """Raise the error of the first reported fault, and clear all words.

        The other faults become notes of the error.
        """
        for block in self.blocks:
            if block.watched.tobytes() != block.clear:
                self._raise()

    def _raise(self) -> None:
        with self._lock:
            faults = [block.faults[word] for block in self.blocks for word in _lowered(block)]
        # Another thread may have cleared it first.
        if faults:
            error = faults[0].exception(self.device)
            for fault in faults[1:]:
                error.add_note(f"also {fault.operator}(): {fault.message}")
            raise error


def _lowered(block: FaultBlock) -> Iterator[int]:
    """Yield the words that were set, in the order in which plans got them."""
    return (word for word in range(block.used) if block.lower(word))


def faults_of(cuda: Driver, device: int) -> DeviceFaults:
    """Return the fault reports of a device."""
    faults = cuda.faults.get(device)
    return faults if faults is not None else cuda.faults.setdefault(device, DeviceFaults(cuda, device))


def fault_flags(device: int, faults: Sequence[Fault]) -> FaultFlags:
    """Return the words of a plan on a device, one for each of these faults."""
    return faults_of(driver(), device).flags(faults)


def raise_faults(cuda: Driver, device: int) -> None:
    """Raise the error of a fault that kernels on the device have reported; call it after waiting for them."""
    faults = cuda.faults.get(device)
    if faults is not None:
        faults.check()


def _forget_devices() -> None:
    cuda = current_driver()
    if cuda is not None and not is_simulated():
        for faults in cuda.faults.values():
            for block in faults.blocks:
                block.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_devices)
