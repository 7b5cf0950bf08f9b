"""Driver that plans a program's launches for a device, so that their kernels can be compiled before it runs.

It runs nothing, like `RecordingDriver`, and keeps each distinct compilation request. A program that reads a value of a
device tensor gets an error, or a placeholder that its caller has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import driver as cuda
from .machine_code import LaunchShape, LoadedCode, MachineCode
from .occupancy import Target
from .recording_driver import NotedKernel, RecordingDriver

UNKNOWN_VALUE = (
    "precompile: the program reads a value of a CUDA tensor (item(), cpu(), tolist(), print, a condition, or a shape "
    "that depends on values), but its kernels are only planned. Leave the read out of the function, guard it "
    "with `if not tt.cuda.is_precompiling():`, or pass placeholder=1.0, the value that every read then returns"
)
MAX_THREADS = 1024


class UnknownValueError(RuntimeError):
    """Error: a program reads a value of a CUDA tensor while its launches are only planned."""


class NoNewKernels(BaseException):
    """Signal that ends a program: it launched kernels for a long time without needing a new one."""


class PlannedKernel(NotedKernel):
    """Kernel whose launches are counted."""

    def launch(self, grid: cuda.Grid, stream: int, *values: int | float) -> None:
        cuda.check_grid(self.name, grid)
        owner = self._owner
        assert isinstance(owner, PlanningDriver)
        owner.count_launch()


class PlanningDriver(RecordingDriver):
    """Devices for which launches are planned.

    Args:
        target: Resources of the devices.
        properties: Properties of each existing device. Default: one device with those of the target.
        placeholder: Value that each read of a device tensor returns. Default: None, a read raises
            `UnknownValueError`.
        patience: Number of launches without a new kernel after which `NoNewKernels` is raised. Default: no limit.
    """

    def __init__(
        self,
        target: Target,
        properties: Sequence[cuda.DeviceProperties] = (),
        placeholder: float | None = None,
        patience: int | None = None,
    ) -> None:
        super().__init__(target)
        self.requests: list[Mapping[str, Any]] = []
        """The requests to the compiler, in the order of their first launch."""
        self._devices = list(properties)
        self._placeholder, self._patience = placeholder, patience
        self._launches_of_last = 0

    def replace(self, earlier: cuda.Driver) -> PlanningDriver:
        """Turn another driver, to which plans and compiled kernels refer, into this one; return it.

        Only a forked process may do this: kernels that the other driver has compiled are launched no more.
        """
        earlier.observe_launches(_ignore_launch)
        try:
            code: Any = type(earlier.machine_code())
        except RuntimeError:
            code = None
        if code is not None:
            code.load, code.launch = PlannedCode.load, PlannedCode.launch
        # A new thread must not make a context of the device current.
        type(earlier.thread_state).__init__ = cuda.ThreadState.__init__  # type: ignore[method-assign]
        own = {name: value for name, value in vars(self).items() if name not in ("_thread", "thread_state")}
        earlier.__class__ = PlanningDriver  # type: ignore[type-abstract]
        vars(earlier).update(own | {"launch_observer": None})
        return earlier  # type: ignore[return-value]

    def count_launch(self) -> None:
        """Count a launch. Raise NoNewKernels if there were too many since the last new kernel."""
        self.launches += 1
        if self._patience is not None and self.launches - self._launches_of_last > self._patience:
            raise NoNewKernels

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
        self.requests.append(request)
        self._launches_of_last = self.launches
        return PlannedKernel(self, request, cuda.kernel_name(kernel))

    def device_count(self) -> int:
        return len(self._devices) or 1

    def properties(self, device: int) -> cuda.DeviceProperties:
        return self._devices[device] if self._devices else super().properties(device)

    def copy_device_to_host(self, dst: cuda.HostArray, src: int, stream: int) -> None:
        """Fill the array with the placeholder. Raise UnknownValueError if there is none."""
        if self._placeholder is None:
            raise UnknownValueError(UNKNOWN_VALUE)
        dst.fill(self._placeholder)

    copy_device_to_host_async = copy_device_to_host

    def machine_code(self) -> MachineCode:
        """Return an interface for kernels that Triton compiles, into its own cache, when they are called."""
        return PlannedCode()

    def elapsed(self, start: int, end: int) -> float:
        """Return a millisecond for any two events."""
        return 1.0

    def query_stream(self, stream: int) -> bool:
        return True

    def query_event(self, event: int) -> bool:
        return True


class PlannedCode(MachineCode):
    """Machine code that is neither loaded nor launched."""

    def load(self, name: str, cubin: bytes, shared: int) -> LoadedCode:
        return LoadedCode(0, 0, 0, 0, MAX_THREADS)

    def unload(self, module: int) -> None: ...

    def launch(
        self, function: int, grid: cuda.Grid, shape: LaunchShape, stream: int, pointers: int
    ) -> None: ...

    def reaches(self, address: int) -> bool:
        return True

    def library(self) -> Any:
        raise RuntimeError("precompile: a kernel with tensor descriptors is called as kernel[grid](...)")

    def check(self, status: int, doing: str) -> None: ...


def _ignore_launch(name: str, grid: cuda.Grid, stream: int, launch: Callable[[], None]) -> None:
    """Observe a launch of a kernel that was compiled before, and do not launch it."""


def is_precompiling() -> bool:
    """Return True while `tt.cuda.precompile` plans the launches of a program, which then has no values to read.

    Example:
        >>> import triten as tt
        >>> tt.cuda.is_precompiling()
        False
    """
    return isinstance(cuda.current_driver(), PlanningDriver)
