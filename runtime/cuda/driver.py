"""The driver interface: what triten needs of a CUDA device. Who provides it is chosen in `choose.py`.

Addresses, streams and events are plain ints, as in CUDA's driver API; stream 0 is a device's default stream.
The current device and the current stream belong to a thread.
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
    """The current device of this thread, and its current stream on each device that has one set."""

    def __init__(self) -> None:
        self.device = 0
        self.streams: dict[int, int] = {}


def _device_and_streams() -> Callable[[], None]:
    found = current_driver()
    if found is None:
        return lambda: None
    state, device, streams = found.thread_state, found.current_device(), dict(found.thread_state.streams)

    def give() -> None:
        found.set_device(device)
        state.streams.update(streams)

    return give


captures.append(_device_and_streams)

LaunchObserver = Callable[[str, Grid, int, Callable[[], None]], None]
"""Called in place of each launch with the kernel's name, the grid, the stream and what launches."""


class CompiledKernel(ABC):
    """A kernel compiled for one signature and one set of constants, ready to be launched."""

    __slots__ = ("__weakref__", "name")
    name: str

    @abstractmethod
    def launch(self, grid: Grid, stream: int, *values: int | float) -> None:
        """Enqueue the kernel on a stream of the current device.

        `values` are the arguments that are no constants, in the order of the parameters: addresses as ints,
        scalars as Python numbers. A grid with a zero in it launches nothing. Raises RuntimeError for a grid
        beyond CUDA's limits.
        """

    @abstractmethod
    def bound(self, tensors: Sequence[DescribedTensor]) -> Callable[..., None]:
        """`launch` for a kernel with tensor descriptors, whose values are the addresses of these tensors.

        Args:
            tensors: sizes and strides for each descriptor in the order of the parameters; strides and addresses are
                multiples of 16 bytes.
        """


class Driver(StreamCapture):
    """A process's way to its CUDA devices."""

    launches: int
    """How many kernels have been enqueued since the process began, those of replayed graphs among them."""

    graph_launches: int
    """How many graphs have been replayed since the process began."""

    cuda_version: int = 0
    """The newest CUDA whose code the driver loads, 12080 for 12.8; 0 where no code is loaded."""

    stores_kernels: bool = False
    """Whether what it compiles is looked for in the store of compiled kernels first."""

    has_gluon: bool = True
    """Whether kernels in Gluon (`triton/lazy_gluon.py`) run: Triton's interpreter has none."""

    guard_bytes: int = 0
    """Bytes that an allocator leaves unused after every block, so that overruns can be found."""

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
        """Whether a call whose kernels find a fault in its input waits for them and raises the error itself."""
        self.faults: dict[int, DeviceFaults] = {}
        """What the kernels of each device may report, of devices that had such kernels."""

    def observe_launches(self, observer: LaunchObserver | None) -> LaunchObserver | None:
        """Have every launch in the process go through `observer` from now on; None ends that.

        Returns the observer before. Launches pay nothing while there is none.
        """
        before, self.launch_observer = self.launch_observer, observer
        return before

    @abstractmethod
    def device_count(self) -> int:
        """How many devices there are."""

    @abstractmethod
    def properties(self, device: int) -> DeviceProperties:
        """Properties of a device."""

    def current_device(self) -> int:
        """The current device of this thread."""
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
        """A segment of device memory, aligned to 512 bytes. Raises OutOfMemoryError."""

    @abstractmethod
    def free(self, device: int, address: int) -> None:
        """Give a segment back; waits until the device has no work that could use it."""

    @abstractmethod
    def memory_info(self, device: int) -> tuple[int, int]:
        """(free, total) bytes of a device."""

    def note_allocated(self, address: int, nbytes: int, device: int, stream: int) -> None:
        """A block of a segment is handed out: work enqueued on the stream from here on may touch it."""

    def note_freed(self, address: int, device: int, stream: int) -> None:
        """The block is given back: work enqueued on the stream from here on must not touch it.

        Called inside garbage collection: takes no lock.
        """

    @abstractmethod
    def copy_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        """Enqueue a copy of a contiguous array. The array may be read as late as the stream is synchronised:
        whoever wants to change it synchronises first."""

    @abstractmethod
    def copy_device_to_host(self, dst: HostArray, src: int, stream: int) -> None:
        """Copy into a contiguous, writable array and wait for the bytes to be there."""

    @abstractmethod
    def copy_device_to_device(self, dst: int, src: int, nbytes: int, stream: int) -> None:
        """Enqueue a copy between two addresses, of one device or two."""

    @abstractmethod
    def stage_host_to_device(self, dst: int, src: HostArray, stream: int) -> None:
        """Enqueue a copy of a contiguous array in pageable memory, which may be changed when this returns."""

    @abstractmethod
    def copy_device_to_host_async(self, dst: HostArray, src: int, stream: int) -> None:
        """Enqueue a copy into a contiguous array in page-locked memory."""

    @abstractmethod
    def malloc_host(self, nbytes: int) -> int:
        """Page-locked host memory, aligned to 512 bytes, which copies reach without staging.

        Raises OutOfMemoryError.
        """

    @abstractmethod
    def malloc_mapped(self, nbytes: int) -> int:
        """Page-locked host memory that kernels of every device reach too, at the same address.

        Raises OutOfMemoryError, and RuntimeError for a device without unified addresses.
        """

    @abstractmethod
    def free_host(self, address: int) -> None:
        """Give page-locked memory back; no copy or kernel may be using it."""

    @abstractmethod
    def is_page_locked(self, address: int) -> bool:
        """Whether host memory is page-locked, whoever allocated it."""

    def register_host(self, address: int, nbytes: int, flags: int) -> None:
        """Page-lock host memory that is there already (``cudaHostRegister``). Raises AcceleratorError."""
        raise RuntimeError(f"{type(self).__name__} cannot page-lock memory of others")

    def unregister_host(self, address: int) -> None:
        """Undo `register_host`. Raises AcceleratorError."""
        raise RuntimeError(f"{type(self).__name__} cannot page-lock memory of others")

    def start_profiler(self) -> None:
        """Have a profiler that is attached to the process collect; nothing happens without one."""

    def stop_profiler(self) -> None:
        """Have it stop."""

    def error_text(self, status: int) -> str:
        """The sentence of a status of the runtime API."""
        return "unrecognized error code"

    @abstractmethod
    def device_of_address(self, address: int) -> int:
        """The device on which memory lies. Raises RuntimeError for what is no device memory."""

    @abstractmethod
    def can_access_peer(self, device: int, peer: int) -> bool:
        """Whether a device can reach another one's memory; False for itself, as CUDA has it."""

    @abstractmethod
    def enable_peer_access(self, device: int, peer: int) -> None:
        """Let a device reach another one's memory; again is no error. Raises RuntimeError where it cannot."""

    @abstractmethod
    def library_handle(self, name: str) -> int:
        """The handle of ``cublas``, ``cusolver`` or ``cusparse`` in this thread, set to the current stream.

        Raises RuntimeError where the library is missing, ValueError for another name.
        """

    def solver(self) -> Solver:
        """The library of factorisations, whose routines run on the current stream of the current device.

        Raises RuntimeError where it is missing.
        """
        raise RuntimeError(f"{type(self).__name__} has no library of linear algebra")

    def transform(self, dst: int, src: int, transform: FourierTransform, stream: int) -> None:
        """Enqueue a Fourier transform by the library of the driver. Raises RuntimeError where that is missing."""
        raise RuntimeError(f"{type(self).__name__} has no library of Fourier transforms")

    def fourier_plans(self, device: int) -> PlanCache:
        """The plans that `transform` keeps for a device in this thread."""
        raise RuntimeError(f"{type(self).__name__} has no library of Fourier transforms")

    @abstractmethod
    def memset(self, dst: int, value: int, nbytes: int, stream: int) -> None:
        """Enqueue setting every byte to `value`."""

    def current_stream(self, device: int) -> int:
        """This thread's current stream on a device; 0, the default stream, until another is set."""
        return self._thread.streams.get(device, 0)

    def set_stream(self, device: int, stream: int) -> None:
        """Make a stream current on its device in this thread."""
        self._thread.streams[device] = stream

    @abstractmethod
    def create_stream(self, device: int, priority: int = 0) -> int:
        """A new stream that does not synchronise with the default one. Lower numbers run first."""

    @abstractmethod
    def destroy_stream(self, stream: int) -> None:
        """Give a stream back at once; work that is pending on it still runs."""

    @abstractmethod
    def check_stream(self, device: int, stream: int) -> None:
        """Raise RuntimeError unless the stream lives and is one of the device."""

    @abstractmethod
    def stream_priority_range(self) -> tuple[int, int]:
        """The priorities of the current device's streams: (least, greatest), where greater is a lower number."""

    @abstractmethod
    def stream_priority(self, stream: int) -> int:
        """The priority of a stream of the current device."""

    @abstractmethod
    def query_stream(self, stream: int) -> bool:
        """Whether all work on a stream of the current device is done."""

    @abstractmethod
    def synchronize_stream(self, stream: int) -> None:
        """Wait for all work on a stream of the current device."""

    @abstractmethod
    def synchronize(self, device: int | None = None) -> None:
        """Wait for all work on a device; None is the current one."""

    @abstractmethod
    def create_event(self, timing: bool = False, blocking: bool = False, interprocess: bool = False) -> int:
        """A new event of the current device, whose streams alone record it.

        Only one made with `timing` has an `elapsed` time. A thread that waits for a `blocking` one sleeps instead of
        spinning. An `interprocess` one can be exported, and has no timing.
        """

    @abstractmethod
    def export_event(self, event: int) -> bytes:
        """A name of an interprocess event, for `import_event` in another process."""

    @abstractmethod
    def import_event(self, name: bytes) -> int:
        """The event that another process has exported."""

    @abstractmethod
    def export_memory(self, device: int, address: int) -> bytes:
        """A name of memory that `malloc` gave, for `import_memory` in another process."""

    @abstractmethod
    def import_memory(self, device: int, name: bytes) -> int:
        """The address here of memory that another process has exported."""

    @abstractmethod
    def close_memory(self, device: int, address: int) -> None:
        """Give up what `import_memory` gave; the memory stays with its owner."""

    @abstractmethod
    def record_event(self, event: int, stream: int) -> None:
        """Enqueue the event on a stream of the current device."""

    @abstractmethod
    def wait_event(self, stream: int, event: int) -> None:
        """Make later work on a stream of the current device wait for the event's last recording."""

    @abstractmethod
    def query_event(self, event: int) -> bool:
        """Whether the work before the event is done; True for one that was never recorded."""

    @abstractmethod
    def synchronize_event(self, event: int) -> None:
        """Wait for the work before the event."""

    @abstractmethod
    def elapsed(self, start: int, end: int) -> float:
        """Milliseconds between two recorded events. Raises RuntimeError unless both have happened."""

    @abstractmethod
    def destroy_event(self, event: int) -> None:
        """Give an event back."""

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
    ) -> CompiledKernel:
        """Compile a `@triton.jit` function for the current device; the result is remembered.

        Args:
            kernel: the function.
            signature: Triton's type (``"*fp32"``, ``"i32"``, ``"fp64"``) of each parameter that is passed at
                launch, by name.
            constexprs: the value of every other parameter, by name.
            divisible: parameters whose value is a multiple of 16 at each launch.
            num_warps, num_stages: as Triton's.
            enable_fp_fusion: whether a multiplication and an addition may round once.
            enable_reflect_ftz: whether `exp2` and functions of libdevice may give and take zeros for subnormal numbers.
            maxnreg: registers that a thread may take (PTX ISA, ``.maxnreg``); None leaves them to the compiler.
            launch_pdl: whether launches may begin before the one before them has ended, for which the kernel waits
                itself (PTX ISA, ``griddepcontrol.wait``).

        Raises:
            TypeError: if a parameter is in neither `signature` nor `constexprs`, or in both.
        """
        key = (
            kernel,
            tuple(signature.items()),
            tuple((name, constexpr_key(value)) for name, value in constexprs.items()),
            divisible,
            (num_warps, num_stages, enable_fp_fusion, enable_reflect_ftz, maxnreg, launch_pdl),
            self._thread.device,
        )
        found = self._compiled.get(key)
        if found is None:
            with self._compile_lock:
                found = self._compiled.get(key)
                if found is None:
                    check_parameters(kernel, signature, constexprs, divisible)
                    self.check_may_load(kernel_name(kernel))
                    options = compiler_options(
                        num_warps, num_stages, enable_fp_fusion, enable_reflect_ftz, maxnreg, launch_pdl
                    )
                    found = self._compile(kernel, signature, constexprs, divisible, options)
                    self._compiled[key] = found
        return found

    def machine_code(self) -> MachineCode:
        """How code that Triton compiled for its caller is loaded and launched here; RuntimeError where none runs."""
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
        """Compile for the current device; the arguments are checked."""


def constexpr_key(value: object) -> object:
    """A key that keeps apart constants which compare equal: 1, True and 1.0; 0.0 and -0.0."""
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
) -> dict[str, object]:
    """Triton's options for what `Driver.compile` is asked; without those that are as Triton has them."""
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
    return options


def check_parameters(
    kernel: Any, signature: Mapping[str, str], constexprs: Mapping[str, object], divisible: frozenset[str]
) -> None:
    """Raise TypeError unless each parameter of the kernel has exactly one of a type and a constant."""
    names = list(kernel.arg_names)
    name = kernel_name(kernel)
    missing = [n for n in names if n not in signature and n not in constexprs]
    twice = [n for n in names if n in signature and n in constexprs]
    unknown = [n for n in [*signature, *constexprs] if n not in names]
    astray = [n for n in divisible if n not in signature]
    for fault, what in (
        (missing, "missing from both signature and constexprs"),
        (twice, "given in both signature and constexprs"),
        (unknown, f"not among the parameters {names}"),
        (astray, "declared divisible, but not in the signature"),
    ):
        if fault:
            raise TypeError(f"compile(): kernel '{name}': {', '.join(map(repr, fault))} {what}")


def check_grid(name: str, grid: Grid) -> None:
    """Raise RuntimeError for a grid beyond CUDA's limits."""
    if any(not 0 <= size <= most for size, most in zip(grid, MAX_GRID, strict=True)):
        raise RuntimeError(
            f"CUDA error: invalid configuration argument: kernel '{name}': expected a grid of at most "
            f"{MAX_GRID}, got {grid}"
        )


def kernel_name(kernel: Any) -> str:
    """The name of a kernel's Python function."""
    return str(kernel.fn.__name__)


_driver: Driver | None = None
_driver_lock = forkable(threading.Lock())


def driver() -> Driver:
    """The process's one driver, chosen at the first call.

    ``TRITEN_CUDA=interpret`` in the environment chooses Triton's interpreter, ``TRITEN_CUDA=emulate`` the emulator of
    compiled kernels; otherwise CuPy is taken.

    Raises:
        RuntimeError: if CuPy is missing or finds no device; if the interpreter was asked for after Triton had
            been imported without it; for another value of ``TRITEN_CUDA``.
    """
    found = _driver
    return found if found is not None else _choose()


def current_driver() -> Driver | None:
    """The process's driver if one has been chosen; chooses none."""
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
    """The driver that the environment names, or nothing. Raises RuntimeError for an unknown one."""
    found = os.environ.get("TRITEN_CUDA", "")
    if found not in ("", "interpret", "emulate", "cupy"):
        raise RuntimeError(f"TRITEN_CUDA: expected 'interpret', 'emulate', 'cupy' or nothing, got {found!r}")
    return found


def wants_interpreter() -> bool:
    """Whether the environment asks for Triton's interpreter. Raises RuntimeError for an unknown value."""
    return wanted() == "interpret"


def is_simulated() -> bool:
    """Whether the environment asks for devices that are no GPUs. Raises RuntimeError for an unknown value."""
    return wanted() in ("interpret", "emulate")


def is_available() -> bool:
    """Whether `driver()` would give a driver; raises only for a malformed environment."""
    return _driver is not None or provider.is_available()
