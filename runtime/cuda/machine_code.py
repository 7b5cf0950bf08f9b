"""Machine code compiled by others: the driver's interface to load and launch it.

A driver that only launches its own kernels does not need it. It is for kernels that Triton compiles and launches
through triten (`triton_driver`), with all launch attributes: clusters, cooperative grids, programmatic dependent
launch, tensor maps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .driver import Grid


class LoadedCode(NamedTuple):
    """Function of a module on a device; `spills` counts 32-bit words of local memory for each thread."""

    module: int
    function: int
    registers: int
    spills: int
    max_threads: int


class LaunchShape(NamedTuple):
    """Launch parameters besides the grid: threads per block, shared memory in bytes, blocks per cluster."""

    threads: int
    shared: int = 0
    cluster: int = 1
    cooperative: bool = False
    programmatic: bool = False


class MachineCode(ABC):
    """Loader and launcher of machine code, on the current device of the calling thread."""

    @abstractmethod
    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        """Load a function. Raises RuntimeError for code that does not fit the device or its driver."""

    @abstractmethod
    def unload(self, module: int) -> None:
        """Unload a module, possibly later. Lock-free, as garbage collection calls it."""

    @abstractmethod
    def launch(self, function: int, grid: Grid, shape: LaunchShape, stream: int, pointers: int) -> None:
        """Enqueue a function; `pointers` is the address of a table of pointers to its parameters."""

    @abstractmethod
    def reaches(self, address: int) -> bool:
        """Return True if the current device can access an address."""

    @abstractmethod
    def library(self) -> Any:
        """Return the CUDA driver's library, for the few functions that have no other binding."""

    @abstractmethod
    def check(self, status: int, doing: str) -> None:
        """Raise RuntimeError with the driver's message unless a call of the library succeeded."""
