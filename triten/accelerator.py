"""`tt.accelerator`: the GPU, whatever its make (`torch.accelerator`): CUDA's, or none.

A program that asks here for its device runs as it is on machines with and without one.

Example:
    >>> import triten as tt
    >>> device = tt.accelerator.current_accelerator(check_available=True) or tt.device("cpu")
    >>> tt.ones(2, device=device).sum().item()
    2.0
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from . import cuda as _cuda
from .runtime.device import DeviceLike
from .runtime.device import device as _Device
from .runtime.scalar_type import ALL as _ALL_DTYPES
from .runtime.traceback_filter import api_boundary as _api_boundary

if TYPE_CHECKING:
    from .runtime.cuda.stream import Stream as _CudaStream

__all__ = [
    "Graph",
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "empty_cache",
    "empty_host_cache",
    "get_device_capability",
    "get_memory_info",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def is_available() -> bool:
    """Return whether there is an accelerator (`torch.accelerator.is_available`)."""
    return bool(_cuda.is_available())


def device_count() -> int:
    """Return the number of accelerators, 0 without any (`torch.accelerator.device_count`)."""
    return _cuda.device_count() if is_available() else 0


def current_accelerator(check_available: bool = False) -> _Device | None:
    """Return the accelerator's device type without an index, or None (`torch.accelerator.current_accelerator`).

    `check_available` has no effect: a machine without an accelerator has no accelerator type.
    """
    return _Device("cuda") if is_available() else None


def _index_of(device: DeviceLike) -> int:
    """Return the index of a device argument.

    Raises:
        RuntimeError: There is no accelerator.
        ValueError: The device is of another type.
    """
    if not is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")
    if device is None:
        return _cuda.current_device()
    if isinstance(device, int):
        return device
    requested = _Device(device)
    if requested.type != "cuda":
        raise ValueError(f"{requested.type} doesn't match the current accelerator cuda.")
    return _index_of(None) if requested.index is None else requested.index


def current_device_index() -> int:
    """Return the index of the current device (`torch.accelerator.current_device_index`).

    Raises:
        RuntimeError: There is no accelerator.
    """
    return _index_of(None)


def set_device_index(device: DeviceLike, /) -> None:
    """Make a device the current one; None changes nothing (`torch.accelerator.set_device_index`)."""
    _cuda.set_device(_index_of(device))


def synchronize(device: DeviceLike = None, /) -> None:
    """Wait until a device has done all that it was given (`torch.accelerator.synchronize`)."""
    _cuda.synchronize(_index_of(device))


def current_stream(device: DeviceLike = None, /) -> _CudaStream:
    """Return the current stream of a device (`torch.accelerator.current_stream`)."""
    return _cuda.current_stream(_index_of(device))


def set_stream(stream: _CudaStream) -> None:
    """Make a stream the current one of its device, and that device the current one (`torch.accelerator.set_stream`)."""
    _cuda.set_stream(stream)


class device_index:
    """A block with another current device; None changes nothing (`torch.accelerator.device_index`)."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self._before = -1

    def __enter__(self) -> None:
        if self.idx is not None:
            self._before = _index_of(None)
            _cuda.set_device(self.idx)

    def __exit__(self, *args: object) -> None:
        if self.idx is not None:
            _cuda.set_device(self._before)


def empty_cache() -> None:
    """Give memory that no tensor uses back (`torch.accelerator.empty_cache`)."""
    _cuda.empty_cache()


def get_memory_info(device: DeviceLike = None, /) -> tuple[int, int]:
    """Free and total bytes of a device (`torch.accelerator.get_memory_info`)."""
    free, total = _cuda.mem_get_info(_index_of(device))
    return free, total


def memory_stats(device: DeviceLike = None, /) -> dict[str, int]:
    """Return the allocator's statistics (`torch.accelerator.memory_stats`); see `tt.cuda.memory_stats`."""
    return dict(_cuda.memory_stats(_index_of(device)))


def memory_allocated(device: DeviceLike = None, /) -> int:
    """Return the bytes of live tensors on a device (`torch.accelerator.memory_allocated`)."""
    return int(_cuda.memory_allocated(_index_of(device)))


def max_memory_allocated(device: DeviceLike = None, /) -> int:
    """Return the peak of `memory_allocated` since the start or a reset (`torch.accelerator.max_memory_allocated`)."""
    return int(_cuda.max_memory_allocated(_index_of(device)))


def memory_reserved(device: DeviceLike = None, /) -> int:
    """Return the bytes that the allocator has reserved on a device (`torch.accelerator.memory_reserved`)."""
    return int(_cuda.memory_reserved(_index_of(device)))


def max_memory_reserved(device: DeviceLike = None, /) -> int:
    """Return the peak of `memory_reserved` since the start or a reset (`torch.accelerator.max_memory_reserved`)."""
    return int(_cuda.max_memory_reserved(_index_of(device)))


def reset_accumulated_memory_stats(device: DeviceLike = None, /) -> None:
    """Reset all accumulated counters to 0 (`torch.accelerator.reset_accumulated_memory_stats`)."""
    _cuda.reset_accumulated_memory_stats(_index_of(device))


def reset_peak_memory_stats(device: DeviceLike = None, /) -> None:
    """Set the peaks to what there is now (`torch.accelerator.reset_peak_memory_stats`)."""
    _cuda.reset_peak_memory_stats(_index_of(device))


class Graph:
    """Captured work of the accelerator, replayed as one launch (`torch.accelerator.Graph`): a `tt.cuda.CUDAGraph`.

    As a context it captures the current stream, which must not be the default one.

    Args:
        keep_graph: keep the graph besides its executable form.
        pool: The result of another graph's `pool()`, to share its memory.
        capture_error_mode: as `tt.cuda.CUDAGraph.capture_begin` has it; ``"default"`` is ``"global"``.

    Raises:
        RuntimeError: there is no accelerator; as `CUDAGraph`'s functions say.

    Example:
        >>> import triten as tt
        >>> x = tt.zeros(3, device="cuda")
        >>> x += 1  # loads the kernel
        >>> graph = tt.accelerator.Graph()
        >>> with tt.cuda.stream(tt.cuda.Stream()), graph:
        ...     x += 1
        >>> graph.replay(); x.tolist()
        [2.0, 2.0, 2.0]
    """

    def __init__(
        self,
        keep_graph: bool = False,
        *,
        pool: tuple[int, int] | None = None,
        capture_error_mode: str = "default",
    ) -> None:
        _index_of(None)
        if capture_error_mode not in ("default", "global", "thread_local", "relaxed"):
            raise RuntimeError(f"Graph: unknown capture_error_mode {capture_error_mode!r}")
        self._graph = _cuda.CUDAGraph(keep_graph)
        self.graph_pool = pool
        self.capture_error_mode = capture_error_mode

    def capture_begin(self) -> None:
        """Begin to capture the current stream."""
        mode: Any = "global" if self.capture_error_mode == "default" else self.capture_error_mode
        self._graph.capture_begin(self.graph_pool, mode)

    def capture_end(self) -> None:
        """End the capture."""
        self._graph.capture_end()

    def instantiate(self) -> None:
        """Instantiate a captured graph that was kept."""
        self._graph.instantiate()

    def replay(self) -> None:
        """Enqueue the captured work on the current stream."""
        self._graph.replay()

    def reset(self) -> None:
        """Free the graph; another capture may follow."""
        self._graph.reset()

    def pool(self) -> tuple[int, int]:
        """Return the id of the graph's memory pool."""
        return self._graph.pool()

    def enable_debug_mode(self) -> None:
        """Keep the graph after the capture, for `debug_dump`."""
        self._graph.enable_debug_mode()

    def debug_dump(self, path: str) -> None:
        """Write the graph to a file in Graphviz's DOT language."""
        self._graph.debug_dump(path)

    def __enter__(self) -> None:
        synchronize()
        empty_cache()
        empty_host_cache()
        self.capture_begin()

    def __exit__(self, *error: object) -> None:
        self.capture_end()


def current_device_idx() -> int:
    """Return `current_device_index`, whose former name this is (`torch.accelerator.current_device_idx`)."""
    return current_device_index()


def set_device_idx(device: DeviceLike, /) -> None:
    """Call `set_device_index`, whose former name this is (`torch.accelerator.set_device_idx`)."""
    set_device_index(device)


def get_device_capability(device: DeviceLike = None, /) -> dict[str, Any]:
    """Return a device's capabilities (`torch.accelerator.get_device_capability`).

    Returns:
        A dict with ``supported_dtypes``, a set of dtypes.

    Raises:
        RuntimeError: There is no accelerator.
    """
    _index_of(device)
    return {"supported_dtypes": set(_ALL_DTYPES)}


def empty_host_cache() -> None:
    """Give pinned memory that no tensor uses back (`torch.accelerator.empty_host_cache`).

    Raises:
        RuntimeError: there is no accelerator.
    """
    _index_of(None)
    from .runtime.cuda.memory.pinned import PINNED_ALLOCATOR

    PINNED_ALLOCATOR.empty_cache()


_ROOT = __name__.rpartition(".")[0]


class _ByDevice(type):
    """The class of `Stream` and `Event`, whose instances are those of any device."""

    def __instancecheck__(cls, instance: object) -> bool:
        # A module that is not imported has no instances.
        modules = [
            sys.modules.get(f"{_ROOT}.{each}") for each in (f"runtime.cuda.{cls.__name__.lower()}", "cpu")
        ]
        return any(isinstance(instance, getattr(each, cls.__name__)) for each in modules if each is not None)


class Stream(metaclass=_ByDevice):
    """A stream of a device, whatever its kind (`torch.Stream`): a `tt.cuda.Stream`, or a `tt.cpu.Stream`.

    Args:
        device: the device; by default the accelerator, or the CPU where there is none.
        priority: 0 or below; lower numbers run first.

    Raises:
        RuntimeError: the device has no streams.

    Example:
        >>> import triten as tt
        >>> isinstance(tt.Stream("cpu"), tt.Stream), isinstance(tt.cpu.Stream(), tt.Stream)
        (True, True)
    """

    def __new__(cls, device: DeviceLike = None, *, priority: int = 0) -> Any:
        where = _stream_device(device)
        if where.type == "cuda":
            return _cuda.Stream(where, priority)
        from . import cpu

        return cpu.Stream(priority)


class Event(metaclass=_ByDevice):
    """An event of a device, whatever its kind (`torch.Event`): a `tt.cuda.Event`, or a `tt.cpu.Event`.

    Args:
        device: the device; by default the accelerator, or the CPU where there is none.
        enable_timing: If True, `elapsed_time` is available.
        blocking: If True, a waiting thread sleeps instead of spinning.
        interprocess: If True, other processes may know it.

    Raises:
        RuntimeError: the device has no events.

    Example:
        >>> import triten as tt
        >>> event = tt.Event("cpu"); event.record(); event.query()
        True
    """

    def __new__(
        cls,
        device: DeviceLike = None,
        *,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
    ) -> Any:
        where = _stream_device(device)
        if where.type == "cuda":
            return _cuda.Event(enable_timing, blocking, interprocess)
        from . import cpu

        return cpu.Event()


def _stream_device(device: DeviceLike) -> _Device:
    """Return the device of a stream or an event.

    Raises:
        RuntimeError: The device type has no streams.
    """
    requested = current_accelerator() or _Device("cpu") if device is None else _Device(device)
    if requested.type not in ("cpu", "cuda"):
        raise RuntimeError(f"triten has no streams and events for {requested.type} devices")
    return requested


@_api_boundary
def get_device_module(device: DeviceLike = None) -> ModuleType:
    """Return the module of a device type (`torch.get_device_module`).

    Args:
        device: A device or its kind; by default the accelerator's, or the CPU's where there is none.

    Returns:
        `tt.cuda`, `tt.cpu` or another module.

    Raises:
        RuntimeError: There is none of this kind.

    Example:
        >>> import triten as tt
        >>> tt.get_device_module("cuda") is tt.cuda, tt.get_device_module("cpu").__name__
        (True, 'triten.cpu')
    """
    kind = (current_accelerator() or _Device("cpu") if device is None else _Device(device)).type
    module = getattr(sys.modules[_ROOT], kind, None)
    if not isinstance(module, ModuleType):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as '{_ROOT}.{kind}'."
        )
    return importlib.import_module(module.__name__)
