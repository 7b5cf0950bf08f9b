"""Driver interface: the operations that triten needs from a CUDA device. `choose.py` chooses the implementation.

Addresses, streams and events are plain ints, as in CUDA's driver API. Stream 0 is a device's default stream. The
current device and the current stream are thread-local.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..fork_lock import forkable
from ..thread_state import captures
from . import provider
from .capture import StreamCapture
from .device_properties import DeviceProperties as DeviceProperties

if TYPE_CHECKING:
    from .faults import DeviceFaults
    from .fourier import FourierTransform, PlanCache
    from .machine_code import MachineCode
    from .solver import Solver
    from .tensor_map import DescribedTensor

Grid = tuple[int, int, int]
HostArray = np.ndarray[Any, Any]

MAX_GRID = (2**31 - 1, 65535, 65535)


class ThreadState(threading.local):
    """Thread-local state: the current device, and the current stream of each device that has one set."""

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, int] = {}


def _device_and_streams() -> Callable[[], None]:
    cuda = current_driver()
    if cuda is None:
        return lambda: None
    state, device, streams = cuda.thread_state, cuda.current_device(), dict(cuda.thread_state.streams)

    def give() -> None:
        cuda.set_device(device)
        state.streams.update(streams)

    return give


captures.append(_device_and_streams)

LaunchObserver = Callable[[str, Grid, int, Callable[[], None]], None]
"""Callback that replaces each launch: kernel name, grid, stream, and the function that launches."""


class CompiledKernel(ABC):
    """Kernel compiled for one signature and one set of constants, ready to launch."""

    __slots__ = ("__weakref__", "name")
    name: str

    @abstractmethod
    def launch(self, grid: Grid, stream: int, *values: int | float) -> None:
        """Enqueue the kernel on a stream of the current device.

        `values` are the non-constant arguments in parameter order: addresses as ints, scalars as Python numbers. A
        grid with a zero launches nothing. Raises RuntimeError for a grid beyond CUDA's limits.
        """

    @abstractmethod
    def bound(self, tensors: Sequence[DescribedTensor]) -> Callable[..., None]:
        """Launch a kernel with tensor descriptors; its `values` hold the addresses of the tensors.

        Args:
            tensors: Sizes and strides for each descriptor, in parameter order. Strides and addresses are multiples of
                16 bytes.
        """


class Driver(StreamCapture):
    """Access of the process to its CUDA devices."""

    launches: int
    """Number of kernels enqueued since the process began, including those of replayed graphs."""

    graph_launches: int
    """Number of graphs replayed since the process began."""

    cuda_version: int = 0
    """Newest CUDA version whose code the driver loads, 12080 for 12.8; 0 if it loads no code."""

    stores_kernels: bool = False
    """If True, look for compiled kernels in the kernel store first."""

    has_gluon: bool = True
    """If True, Gluon kernels (`triton/lazy_gluon.py`) run. Triton's interpreter has no Gluon."""

    guard_bytes: int = 0
    """Number of unused bytes that an allocator leaves after every block, so that overruns can be found."""

    def __init__(self, thread_state: ThreadState | None = None) -> None:
        super().__init__()
        self.launches = 0
        self.graph_launches = 0
        self._thread = ThreadState() if thread_state is None else thread_state
        self.thread_state = self._thread
        self._compiled: dict[object, CompiledKernel] = {}
        self._compile_lock = threading.Lock()
        self.launch_observer: LaunchObserver | None = None
        self.launch_blocking = os.environ.get("CUDA_LAUNCH_BLOCKING") == "1"
        """If True, a call whose kernels can find a fault in its input waits for them and raises the error itself."""
        self.faults: dict[int, DeviceFaults] = {}
        """Fault reports of the devices that ran kernels with such reports."""

    def observe_launches(self, observer: LaunchObserver | None) -> LaunchObserver | None:
        """Route every launch in the process through `observer`; None removes it.

        Returns the previous observer. Launches have no overhead without an observer.
        """
        before, self.launch_observer = self.launch_observer, observer
        return before

    @abstractmethod
    def device_count(self) -> int:
        """Return the number of devices."""

    @abstractmethod
    def properties(self, device: int) -> DeviceProperties:
        """Return the properties of a device."""

    def current_device(self) -> int:
        """Return this thread's current device."""
        return self._thread.device

    def set_device(self, device: int) -> None:
        """Make a device current in this thread. Raises RuntimeError for an index that does not exist."""
        self.check_device(device)
        self._thread.device = device

    def check_device(self, device: int) -> None:
        """Raise RuntimeError unless the device exists."""
        if not 0 <= device < self.device_count():
            raise RuntimeError(
                f"CUDA error: invalid device ordinal: got {device}, expected 0 to {self.device_count() - 1}"
            )

    @abstractmethod
    def malloc(self, device: int, nbytes: int) -> int:
        """Allocate a segment of device memory, aligned to 512 bytes. Raise OutOfMemoryError if there is no room."""

    @abstractmethod
    def free(self, device: int, address: int) -> None:
        """Free a segment; wait until no work on the device can use it."""

    @abstractmethod
    def memory_info(self, device: int) -> tuple[int, int]:
        """Return the (free, total) bytes of a device."""

    def note_allocated(self, address: int, nbytes: int, device: int, stream: int) -> None:
        """Note that a block was allocated: work enqueued on the stream from now on may access it."""

    def note_freed(self, address: int, device: int, stream: int) -> None:
        """Note that a block was freed: work enqueued on the stream from now on must not access it.

        Lock-free, as garbage collection calls it.
        """

    @abstractmethod
    def copy_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        """Enqueue a copy of a contiguous array.

        The copy may read the array until the stream is synchronized; the caller synchronizes before it changes the
        array.
        """

    @abstractmethod
    def copy_device_to_host(self, dst: HostArray, src: int, stream: int) -> None:
        """Copy into a contiguous, writable array and wait for the copy."""

    @abstractmethod
    def copy_device_to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Enqueue a copy between two addresses, on one device or two."""

    @abstractmethod
    def stage_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        """Enqueue a copy of a contiguous array in pageable memory; the caller may change the array on return."""

    @abstractmethod
    def copy_device_to_host_async(self, dst: HostArray, src: int, stream: int) -> None:
        """Enqueue a copy into a contiguous array in page-locked memory."""

    @abstractmethod
    def malloc_host(self, nbytes: int) -> int:
        """Allocate page-locked host memory, aligned to 512 bytes, which copies reach without staging.

        Raises OutOfMemoryError.
        """

    @abstractmethod
    def malloc_mapped(self, nbytes: int) -> int:
        """Allocate page-locked host memory that kernels of every device access at the same address.

        Raises OutOfMemoryError, and RuntimeError for a device without unified addressing.
        """

    @abstractmethod
    def free_host(self, address: int) -> None:
        """Free page-locked memory; no copy or kernel may be using it."""

    @abstractmethod
    def is_page_locked(self, address: int) -> bool:
        """Return True if host memory is page-locked, by any allocator."""

    def register_host(self, address: int, nbytes: int, flags: int) -> None:
        """Page-lock existing host memory (``cudaHostRegister``). Raise AcceleratorError on failure."""
        raise RuntimeError(f"{type(self).__name__} cannot page-lock memory of others")

    def unregister_host(self, address: int) -> None:
        """Undo `register_host`. Raise AcceleratorError on failure."""
        raise RuntimeError(f"{type(self).__name__} cannot page-lock memory of others")

    def start_profiler(self) -> None:
        """Start an attached profiler; do nothing without one."""

    def stop_profiler(self) -> None:
        """Stop an attached profiler."""

    def error_text(self, status: int) -> str:
        """Return the message for a status of the runtime API."""
        return "unrecognized error code"

    @abstractmethod
    def device_of_address(self, address: int) -> int:
        """Return the device that owns an address. Raise RuntimeError if it is not device memory."""

    @abstractmethod
    def can_access_peer(self, device: int, peer: int) -> bool:
        """Return True if a device can access a peer's memory; False for itself, as in CUDA."""

    @abstractmethod
    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let a device access a peer's memory; a repeated call is no error. Raise RuntimeError if it cannot."""

    @abstractmethod
    def library_handle(self, name: str) -> int:
        """Return this thread's ``cublas``, ``cusolver`` or ``cusparse`` handle, set to the current stream.

        Raises RuntimeError if the library is missing, ValueError for another name.
        """

    def solver(self) -> Solver:
        """Return the solver library, whose routines run on the current stream of the current device.

        Raises RuntimeError if the library is missing.
        """
        raise RuntimeError(f"{type(self).__name__} has no library of linear algebra")

    def transform(self, dst: int, src: int, transform: FourierTransform, stream: int) -> None:
        """Enqueue a Fourier transform by the driver's library. Raise RuntimeError if the library is missing."""
        raise RuntimeError(f"{type(self).__name__} has no library of Fourier transforms")

    def fourier_plans(self, device: int) -> PlanCache:
        """Return this thread's cache of `transform` plans for a device."""
        raise RuntimeError(f"{type(self).__name__} has no library of Fourier transforms")

    @abstractmethod
    def memset(self, dst: int, value: int, nbytes: int, stream: int) -> None:
        """Enqueue setting every byte to `value`."""

    def current_stream(self, device: int) -> int:
        """Return this thread's current stream on a device. Default: 0, the default stream."""
        return self._thread.streams.get(device, 0)

    def set_stream(self, device: int, stream: int) -> None:
        """Make a stream current on its device in this thread."""
        self._thread.streams[device] = stream

    @abstractmethod
    def create_stream(self, device: int, priority: int = 0) -> int:
        """Create a stream that does not synchronize with the default one. A lower priority number runs first."""

    @abstractmethod
    def destroy_stream(self, stream: int) -> None:
        """Destroy a stream immediately; work pending on it still runs."""

    @abstractmethod
    def check_stream(self, device: int, stream: int) -> None:
        """Raise RuntimeError unless the stream exists and belongs to the device."""

    @abstractmethod
    def stream_priority_range(self) -> tuple[int, int]:
        """Return the current device's (least, greatest) stream priorities; greater is a lower number."""

    @abstractmethod
    def stream_priority(self, stream: int) -> int:
        """Return the priority of a stream of the current device."""

    @abstractmethod
    def query_stream(self, stream: int) -> bool:
        """Return True if all work on a stream of the current device is done."""

    @abstractmethod
    def synchronize_stream(self, stream: int) -> None:
        """Wait for all work on a stream of the current device."""

    @abstractmethod
    def synchronize(self, device: int | None = None) -> None:
        """Wait for all work on a device. Default: None, the current device."""

    @abstractmethod
    def create_event(self, timing: bool = False, blocking: bool = False, interprocess: bool = False) -> int:
        """Create an event of the current device; only streams of that device can record it.

        Only an event with `timing` has an `elapsed` time. A thread that waits for a `blocking` event sleeps instead
        of spinning. An `interprocess` event can be exported, and has no timing.
        """

    @abstractmethod
    def export_event(self, event: int) -> bytes:
        """Return a handle of an interprocess event, for `import_event` in another process."""

    @abstractmethod
    def import_event(self, name: bytes) -> int:
        """Return the event that another process exported."""

    @abstractmethod
    def export_memory(self, device: int, address: int) -> bytes:
        """Return a handle of memory from `malloc`, for `import_memory` in another process."""

    @abstractmethod
    def import_memory(self, device: int, name: bytes) -> int:
        """Map memory that another process exported and return its address here."""

    @abstractmethod
    def close_memory(self, device: int, address: int) -> None:
        """Unmap memory from `import_memory`; the exporting process still owns it."""

    @abstractmethod
    def record_event(self, event: int, stream: int) -> None:
        """Enqueue the event on a stream of the current device."""

    @abstractmethod
    def wait_event(self, stream: int, event: int) -> None:
        """Make later work on a stream of the current device wait for the event's last recording."""

    @abstractmethod
    def query_event(self, event: int) -> bool:
        """Return True if the work before the event is done, or if the event was never recorded."""

    @abstractmethod
    def synchronize_event(self, event: int) -> None:
        """Wait for the work before the event."""

    @abstractmethod
    def elapsed(self, start: int, end: int) -> float:
        """Return the milliseconds between two recorded events. Raise RuntimeError unless both have happened."""

    @abstractmethod
    def destroy_event(self, event: int) -> None:
        """Destroy an event."""

    def compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        *,
        divisible: frozenset[str] = frozenset(),
        num_warps: int = 4,
        num_stages: int = 3,
        enable_fp_fusion: bool = False,
        enable_reflect_ftz: bool = False,
        maxnreg: int | None = None,
        launch_pdl: bool = False,
        num_ctas: int = 1,
    ) -> CompiledKernel:
        """Compile a `@triton.jit` function for the current device and cache the result.

        Args:
            kernel: The `@triton.jit` function.
            signature: Triton type (``"*fp32"``, ``"i32"``, ``"fp64"``) of each launch parameter, by name.
            constexprs: Value of every other parameter, by name.
            divisible: Parameters whose value is a multiple of 16 at each launch.
            num_warps, num_stages: As in Triton.
            enable_fp_fusion: If True, a multiplication and an addition may round once (FMA).
            enable_reflect_ftz: If True, `exp2` and libdevice functions may flush subnormal numbers to zero.
            maxnreg: Maximum registers per thread (PTX ISA, ``.maxnreg``). Default: None, the compiler chooses.
            launch_pdl: If True, a launch may begin before the previous one has ended; the kernel itself waits
                (PTX ISA, ``griddepcontrol.wait``).
            num_ctas: Blocks of a cluster, as in Triton: a program is a cluster. More than 1 need sm_90. Default: 1.

        Raises:
            TypeError: If a parameter is in neither `signature` nor `constexprs`, or in both.
        """
        key = (
            kernel,
            tuple(signature.items()),
            tuple((name, constexpr_key(value)) for name, value in constexprs.items()),
            divisible,
            (num_warps, num_stages, enable_fp_fusion, enable_reflect_ftz, maxnreg, launch_pdl, num_ctas),
            self._thread.device,
        )
        compiled = self._compiled.get(key)
        if compiled is None:
            with self._compile_lock:
                compiled = self._compiled.get(key)
                if compiled is None:
                    check_parameters(kernel, signature, constexprs, divisible)
                    self.check_may_load(kernel_name(kernel))
                    options = compiler_options(
                        num_warps,
                        num_stages,
                        enable_fp_fusion,
                        enable_reflect_ftz,
                        maxnreg,
                        launch_pdl,
                        num_ctas,
                    )
                    compiled = self._compile(kernel, signature, constexprs, divisible, options)
                    self._compiled[key] = compiled
        return compiled

    def machine_code(self) -> MachineCode:
        """Return the loader and launcher of code that Triton compiled for its caller.

        Raises RuntimeError if the driver runs no machine code.
        """
        raise RuntimeError(f"{type(self).__name__} runs no machine code: its kernels are interpreted")

    @abstractmethod
    def _compile(
        self,
        kernel: Any,
        signature: Mapping[str, str],
        constexprs: Mapping[str, object],
        divisible: frozenset[str],
        options: Mapping[str, object],
    ) -> CompiledKernel:
        """Compile for the current device; the caller has checked the arguments."""


def constexpr_key(value: object) -> object:
    """Return a key that distinguishes constants that compare equal: 1, True and 1.0; 0.0 and -0.0."""
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, tuple):
        return tuple(constexpr_key(item) for item in value)
    return type(value), value


def compiler_options(
    num_warps: int = 4,
    num_stages: int = 3,
    enable_fp_fusion: bool = False,
    enable_reflect_ftz: bool = False,
    maxnreg: int | None = None,
    launch_pdl: bool = False,
    num_ctas: int = 1,
) -> dict[str, object]:
    """Return Triton's options for the arguments of `Driver.compile`, without options at Triton's defaults."""
    options: dict[str, object] = {
        "num_warps": num_warps,
        "num_stages": num_stages,
        "enable_fp_fusion": enable_fp_fusion,
    }
    if enable_reflect_ftz:
        options["enable_reflect_ftz"] = True
    if maxnreg is not None:
        options["maxnreg"] = maxnreg
    if launch_pdl:
        options["launch_pdl"] = True
    if num_ctas > 1:
        options["num_ctas"] = num_ctas
    return options


def check_parameters(
    kernel: Any, signature: Mapping[str, str], constexprs: Mapping[str, object], divisible: frozenset[str]
) -> None:
    """Raise TypeError unless each kernel parameter has either a type or a constant."""
    names = list(kernel.arg_names)
    name = kernel_name(kernel)
    missing = [n for n in names if n not in signature and n not in constexprs]
    twice = [n for n in names if n in signature and n in constexprs]
    unknown = [n for n in [*signature, *constexprs] if n not in names]
    astray = [n for n in divisible if n not in signature]
    for fault, problem in (
        (missing, "missing from both signature and constexprs"),
        (twice, "given in both signature and constexprs"),
        (unknown, f"not among the parameters {names}"),
        (astray, "declared divisible, but not in the signature"),
    ):
        if fault:
            raise TypeError(f"compile(): kernel '{name}': {', '.join(map(repr, fault))} {problem}")


def check_grid(name: str, grid: Grid) -> None:
    """Raise RuntimeError for a grid beyond CUDA's limits."""
    if any(not 0 <= size <= max_size for size, max_size in zip(grid, MAX_GRID, strict=True)):
        raise RuntimeError(
            f"CUDA error: invalid configuration argument: kernel '{name}': expected a grid of at most "
            f"{MAX_GRID}, got {grid}"
        )


def kernel_name(kernel: Any) -> str:
    """Return the name of a kernel's Python function."""
    return str(kernel.fn.__name__)


_driver: Driver | None = None
_driver_lock = forkable(threading.Lock())


def driver() -> Driver:
    """Return the process's driver, chosen at the first call.

    The variable ``TRITEN_CUDA=interpret`` chooses Triton's interpreter, ``TRITEN_CUDA=emulate`` the emulator
    of compiled kernels. The default is CuPy.

    Raises:
        RuntimeError: If CuPy is missing or finds no device, if the interpreter was requested after Triton had been
            imported without it, or for another value of ``TRITEN_CUDA``.
    """
    chosen = _driver
    return chosen if chosen is not None else _choose()


def current_driver() -> Driver | None:
    """Return the process's driver if one has been chosen; choose none."""
    return _driver


def _choose() -> Driver:
    global _driver
    with _driver_lock:
        if _driver is None:
            chosen = provider.choose()
            provider.announce(chosen)
            _driver = chosen
        return _driver


def wanted() -> str:
    """Return the driver that the environment names, or an empty string. Raise RuntimeError for an unknown one."""
    name = os.environ.get("TRITEN_CUDA", "")
    if name not in ("", "interpret", "emulate", "cupy"):
        raise RuntimeError(f"TRITEN_CUDA: expected 'interpret', 'emulate', 'cupy' or nothing, got {name!r}")
    return name


def wants_interpreter() -> bool:
    """Return True if the environment chooses Triton's interpreter. Raise RuntimeError for an unknown value."""
    return wanted() == "interpret"


def is_simulated() -> bool:
    """Return True if the environment chooses simulated devices. Raise RuntimeError for an unknown value."""
    return wanted() in ("interpret", "emulate")


def is_available() -> bool:
    """Return True if `driver()` would find a driver; raise only for a malformed environment."""
    return device_count() > 0


def device_count() -> int:
    """Return the number of devices, without choosing a driver; raise only for a malformed environment."""
    return provider.count_devices() if _driver is None else _driver.device_count()
