"""Driver that records every launch and runs none, to list a program's launches on a target without a GPU.

Memory is addresses without contents, and all interface calls besides kernels have no effect.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from . import driver as cuda
from .memory.block import block_size
from .occupancy import WARP_SIZE, Target
from .tensor_map import DescribedTensor

MEMORY = 1 << 46
"""Bytes of memory that the device reports; none of them exist."""
PLACES = 5
"""Value of any number that the host reads back."""


class NotedKernel(cuda.CompiledKernel):
    """Kernel that records its launches."""

    def __init__(self, owner: RecordingDriver, request: Mapping[str, Any], name: str) -> None:
        self._owner, self._request, self.name = owner, request, name

    def bound(self, tensors: Sequence[DescribedTensor]) -> Callable[..., None]:
        for tensor in tensors:
            if len(tensor.sizes) != len(tensor.strides) or tensor.strides[-1] != 1:
                raise ValueError(f"kernel '{self.name}': no tensor map describes {tensor}")
        return self.launch

    def launch(self, grid: cuda.Grid, stream: int, *values: int | float) -> None:
        num_args = len(self._request["signature"])
        if len(values) != num_args:
            raise TypeError(f"kernel '{self.name}': expected {num_args} arguments, got {len(values)}")
        cuda.check_grid(self.name, grid)
        self._owner.launched.append(self._request)
        self._owner.grids.append(grid)


class RecordingDriver(cuda.Driver):
    """One device of a target. Its memory is addresses; other interface calls have no effect."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target
        self.launched: list[Mapping[str, Any]] = []
        self.grids: list[cuda.Grid] = []
        self._top = 1 << 40
        self._host: list[np.ndarray[Any, Any]] = []

    def _compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        options: Mapping[str, object],
    ) -> cuda.CompiledKernel:
        request = {
            "kernel": kernel,
            "signature": dict(signature),
            "constants": dict(constexprs),
            "divisible": divisible,
            "options": dict(options),
        }
        return NotedKernel(self, request, cuda.kernel_name(kernel))

    def device_count(self) -> int:
        return 1

    def properties(self, device: int) -> cuda.DeviceProperties:
        target = self.target
        return cuda.DeviceProperties(
            name=target.device,
            major=target.capability // 10,
            minor=target.capability % 10,
            total_memory=MEMORY,
            multi_processor_count=target.multiprocessors,
            warp_size=WARP_SIZE,
            max_shared_memory=target.shared_per_block,
        )

    def malloc(self, device: int, nbytes: int) -> int:
        self._top += block_size(nbytes)
        return self._top

    def malloc_host(self, nbytes: int) -> int:
        """Allocate real memory, since the host writes to it; never free it."""
        self._host.append(np.empty(nbytes, np.uint8))
        return int(self._host[-1].ctypes.data)

    malloc_mapped = malloc_host

    def memory_info(self, device: int) -> tuple[int, int]:
        return MEMORY, MEMORY

    def copy_device_to_host(self, dst: cuda.HostArray, src: int, stream: int) -> None:
        """Fill a scalar with the number of places, or flags with 0."""
        dst.fill(0 if dst.ndim else PLACES)


def _nothing(self: object, *args: object, **kwargs: object) -> None: ...


for _name in RecordingDriver.__abstractmethods__:
    setattr(RecordingDriver, _name, _nothing)
abc.update_abstractmethods(RecordingDriver)  # type: ignore[type-abstract]
