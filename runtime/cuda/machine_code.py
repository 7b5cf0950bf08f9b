"""Machine code that others compiled: what a driver must do to load and launch it.

A driver that launches kernels of its own needs none of this: it is for kernels that Triton compiles and launches
through triten (`triton_driver`), with whatever their authors ask for: clusters, cooperative grids, programmatic
dependent launch, tensor maps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .driver import Grid


class LoadedCode(NamedTuple):
    """A function of a module on a device; `spills` counts 32-bit words of local memory for each thread."""

    module: int
    function: int
    registers: int
    spills: int
    max_threads: int


class LaunchShape(NamedTuple):
    """What a launch needs beside its grid: threads of a block, shared memory in bytes, blocks of a cluster."""

    threads: int
    shared: int = 0
    cluster: int = 1
    cooperative: bool = False
    programmatic: bool = False


class MachineCode(ABC):
    """How a driver loads and launches machine code, on the current device of the calling thread."""

    @abstractmethod
    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        """Load a function. Raises RuntimeError for code that does not fit the device or its driver."""

    @abstractmethod
    def unload(self, module: int) -> None:
        """Give a module up. Called inside garbage collection: takes no lock, and may do the work later."""

    @abstractmethod
    def launch(self, function: int, grid: Grid, shape: LaunchShape, stream: int, pointers: int) -> None:
        """Enqueue a function; `pointers` is the address of a table of pointers to its parameters."""

    @abstractmethod
    def reaches(self, address: int) -> bool:
        """Whether the current device can access an address."""

    @abstractmethod
    def library(self) -> Any:
        """The CUDA driver's library, for the few functions that nothing else offers."""

    @abstractmethod
    def check(self, status: int, doing: str) -> None:
        """Raise RuntimeError with the driver's own words unless a call of the library succeeded."""
