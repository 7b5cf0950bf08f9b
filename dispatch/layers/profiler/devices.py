"""CUDA device work during profiling: kernels, copies and fills, each between two driver events.

The profiler observes the driver's launches and replaces its copies only while it runs, so that launches pay nothing
otherwise. Times are the driver's. They come from the GPU's clock or, in the interpreter, from the host's clock when the
simulated stream reaches an event.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from ....runtime.cuda.device_guard import device_guard
from ....runtime.cuda.driver import Driver, Grid, LaunchObserver, current_driver
from .log import LaunchSite

if TYPE_CHECKING:
    from .session import Session

KERNEL, COPY, FILL = "kernel", "gpu_memcpy", "gpu_memset"
LAUNCH = LaunchSite("cuLaunchKernel")
_COPIES = {
    "copy_host_to_device": ("Memcpy HtoD (Pageable -> Device)", COPY, LaunchSite("cudaMemcpyAsync")),
    "copy_device_to_host": ("Memcpy DtoH (Device -> Pageable)", COPY, LaunchSite("cudaMemcpyAsync")),
    "copy_device_to_device": ("Memcpy DtoD (Device -> Device)", COPY, LaunchSite("cudaMemcpyAsync")),
    "memset": ("Memset (Device)", FILL, LaunchSite("cudaMemsetAsync")),
}


class DeviceWork(NamedTuple):
    """Device work: one kernel, copy or fill.

    `number` is that of its `LaunchSite` entry; times are in ns of the host's clock.
    """

    name: str
    category: str
    device: int
    stream: int
    number: int
    start: int
    end: int
    grid: tuple[int, int, int] | None


class _Pending(NamedTuple):
    name: str
    category: str
    device: int
    stream: int
    grid: tuple[int, int, int] | None
    start: int
    end: int


class DeviceRecorder:
    """The devices' part of a session."""

    def __init__(self, session: Session) -> None:
        self.is_installed = False
        self._session = session
        self._driver: Driver | None = None
        self._pending: dict[int, _Pending] = {}
        self._count = 0
        self._zeros: dict[int, tuple[int, int]] = {}

    def install(self, undo: ExitStack) -> None:
        """Record launches from now on, with the driver that the process uses, until `undo` is closed."""
        driver = self._driver = current_driver()
        if driver is None:
            return
        self.is_installed = True
        undo.callback(self._remove)
        before = driver.observe_launches(self._recorded_launch(driver))
        undo.callback(driver.observe_launches, before)
        for method, how in _COPIES.items():
            function = getattr(driver, method)
            undo.callback(vars(driver).pop, method)
            vars(driver)[method] = self._recorded_copy(driver, function, *how)

    def _remove(self) -> None:
        self.is_installed = False
        self.clear()
        if self._driver is not None:
            for event, _ in self._zeros.values():
                self._driver.destroy_event(event)
        self._zeros.clear()

    def _recorded_launch(self, driver: Driver) -> LaunchObserver:
        session = self._session

        def recorded(name: str, grid: Grid, stream: int, launch: Callable[[], None]) -> None:
            if session.log_of_thread() is None:
                launch()
            else:
                with _Recording(self, driver, LAUNCH, name, KERNEL, stream, grid):
                    launch()

        return recorded

    def _recorded_copy(
        self, driver: Driver, function: Callable[..., None], name: str, category: str, site: LaunchSite
    ) -> Callable[..., None]:
        session = self._session

        def recorded(*args: Any) -> None:
            if session.log_of_thread() is None:
                function(*args)
            else:
                with _Recording(self, driver, site, name, category, args[-1], None):
                    function(*args)

        return recorded

    def zero_of(self, driver: Driver, device: int, stream: int) -> None:
        """Calibrate the device's clock against the host's, at the first use of the device."""
        if device not in self._zeros:
            event = driver.create_event(timing=True)
            driver.record_event(event, stream)
            driver.synchronize_event(event)
            self._zeros[device] = (event, perf_counter_ns())

    def note(self, site: LaunchSite, started: int, work: _Pending) -> None:
        """Record work that was enqueued between its two events."""
        self._count += 1
        self._pending[self._count] = work
        self._session.note_launch(site, self._count, started)

    def clear(self) -> None:
        """Forget the work so far."""
        driver, self._pending, pending = self._driver, {}, self._pending
        if driver is not None:
            for work in pending.values():
                driver.destroy_event(work.start)
                driver.destroy_event(work.end)

    def collect(self) -> list[DeviceWork]:
        """Return all work so far, after waiting for it."""
        driver = self._driver
        done = []
        if driver is not None:
            for device in self._zeros:
                with device_guard(device):
                    driver.synchronize(device)
            for number, work in self._pending.items():
                zero, host = self._zeros[work.device]
                start = host + round(driver.elapsed(zero, work.start) * 1e6)
                end = start + round(driver.elapsed(work.start, work.end) * 1e6)
                done.append(
                    DeviceWork(
                        work.name, work.category, work.device, work.stream, number, start, end, work.grid
                    )
                )
        self.clear()
        return done


class _Recording:
    """Context manager that records events before and after one launch, and drops them if the launch fails."""

    __slots__ = ("_driver", "_end", "_recorder", "_site", "_start", "_started", "_work")

    def __init__(
        self,
        recorder: DeviceRecorder,
        driver: Driver,
        site: LaunchSite,
        name: str,
        category: str,
        stream: int,
        grid: Any,
    ) -> None:
        device = driver.current_device()
        recorder.zero_of(driver, device, stream)
        self._recorder = recorder
        self._driver = driver
        self._site = site
        self._start = driver.create_event(timing=True)
        self._end = driver.create_event(timing=True)
        self._work = _Pending(name, category, device, stream, grid, self._start, self._end)

    def __enter__(self) -> None:
        self._driver.record_event(self._start, self._work.stream)
        self._started = perf_counter_ns()

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is None:
            self._driver.record_event(self._end, self._work.stream)
            self._recorder.note(self._site, self._started, self._work)
        else:
            self._driver.destroy_event(self._start)
            self._driver.destroy_event(self._end)
