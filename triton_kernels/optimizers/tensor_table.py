"""Table by which one launch serves many tensors: made on the host, copied when addresses change.

`table_kernels.py` describes its contents. A table is immutable after it is written. It is cached by its
addresses and the stream of its copy, and reused there, so an optimizer step over unmoved tensors copies
nothing. A CUDA graph capture makes a table for the graph alone, from pinned memory that the graph keeps,
since each replay copies it again.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...runtime.allocator import get_allocator
from ...runtime.cuda.capture import relaxed_capture
from ...runtime.cuda.driver import driver
from ...runtime.cuda.memory.pinned import PINNED_ALLOCATOR
from ...runtime.cuda.transfer import copy_across
from ...runtime.data_ptr import DataPtr
from ...runtime.device import device as Device
from ...runtime.tensor_spec import TensorSpec
from ..budget import Configuration

KEPT = 8
"""Tables that are kept for a list: gradients that are made anew in each step come back to a few places."""


class PinnedArray(np.ndarray[Any, Any]):
    """Numbers in page-locked memory, which lives as long as they are reached."""

    memory: DataPtr


def pinned_array(values: np.ndarray[Any, Any]) -> PinnedArray:
    """Return a copy in pinned memory."""
    memory = PINNED_ALLOCATOR.allocate(values.nbytes)
    buffer = (ctypes.c_char * values.nbytes).from_address(memory.address)
    array = np.frombuffer(buffer, values.dtype).reshape(values.shape).view(PinnedArray)
    array.memory = memory
    array[...] = values
    return array


class TensorTable:
    """The tables of a list of rows in one dtype, for launches in blocks of some size.

    Args:
        device: Device of the tensors.
        specs: each row's first tensor.
        itemsizes: Item sizes of each operand of a row.
        block: elements of a program.
        unit: how many elements count as one, here and in what `itemsizes` are sizes of.
        fixed: further columns, which stand before those of the operands.
    """

    def __init__(
        self,
        device: Device,
        specs: Sequence[TensorSpec],
        itemsizes: Sequence[int],
        block: int,
        unit: int = 1,
        fixed: Sequence[Sequence[int]] = (),
    ) -> None:
        self._device = device
        self._itemsizes = np.array(itemsizes, np.int64)[:, None]
        numels = np.array([spec.numel // unit for spec in specs], np.int64)
        programs = -(-numels // block)
        self.rows = len(specs)
        self.programs = int(programs.sum())
        self._fixed = np.stack(
            [np.cumsum(programs) - programs, numels, *(np.array(column, np.int64) for column in fixed)]
        )
        self._lock = threading.Lock()
        self._kept: dict[tuple[Any, ...], DataPtr] = {}

    def at(self, operands: Sequence[Sequence[Any]]) -> DataPtr:
        """Return the table of these operands, a sequence of `DataPtr` each, on the device's current stream."""
        cuda, index = driver(), self._device.resolved_index
        stream = cuda.current_stream(index)
        if not operands and not cuda.captures_underway:
            made = self._kept.get((stream,))
            if made is not None:
                return made
        addresses = tuple([data.address for operand in operands for data in operand])
        if cuda.captures_underway and cuda.is_capturing(stream):
            return self._move(addresses)
        key = (stream, *addresses)
        with self._lock:
            table = self._kept.pop(key, None)
            if table is None:
                table = self._move(addresses)
                while len(self._kept) >= KEPT:
                    del self._kept[next(iter(self._kept))]
            self._kept[key] = table
        return table

    def _move(self, addresses: tuple[int, ...]) -> DataPtr:
        address_table = np.array(addresses, np.int64).reshape(len(self._itemsizes), self.rows)
        whole = np.concatenate([self._fixed, address_table // self._itemsizes])
        table = get_allocator("cuda").allocate(whole.nbytes, self._device)
        # Taking page-locked memory is no part of what a capture records.
        with relaxed_capture(driver()):
            staged = pinned_array(whole)
        copy_across(table, staged, whole.nbytes, non_blocking=True)
        return table


def block_of(configuration: Configuration, is_interpreted: bool, numel: int) -> int:
    """Return a program's element count: the tile, or all of the largest tensor in the interpreter."""
    return (
        max(configuration.tile[0], 1 << (min(numel, 1 << 16) - 1).bit_length())
        if is_interpreted
        else configuration.tile[0]
    )
