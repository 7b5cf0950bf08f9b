"""Interface of a test to the stand-in: settings, and the recorded calls."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from triten.tests.runtime.cuda.standin.execution import Execution

ALWAYS = -1
BOOKKEEPING = {
    "cuGetErrorName",
    "cuDriverGetVersion",
    "cuInit",
    "cuDeviceGetCount",
    "cuDeviceGetAttribute",
    "cuDeviceGetName",
    "cuDeviceGetUuid",
    "cuDeviceTotalMem",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
}
"""Questions, and what the runtime API does once in a thread: left out of a sequence of calls."""


@dataclass(frozen=True)
class Call:
    """Call of the driver: its thread, its device's context (-1: none), and its arguments."""

    thread: int
    device: int
    name: str
    arguments: dict[str, str]

    def __getitem__(self, argument: str) -> str:
        return self.arguments[argument]

    def integer(self, argument: str) -> int:
        """Return an argument that is a number or an address."""
        text = self.arguments[argument]
        return 0 if text == "(nil)" else int(text, 0)

    def triple(self, argument: str) -> tuple[int, ...]:
        """Return an argument that is a grid or a block."""
        return tuple(map(int, self.arguments[argument].split(",")))

    @property
    def values(self) -> list[bytes]:
        """Bytes of each argument of a launch."""
        text = self.arguments["arguments"]
        assert text != "?", f"the stand-in was not told the parameters of {self.arguments['function']}"
        return [bytes.fromhex(value) for value in text.split(",")] if text else []


def parsed(line: str) -> Call:
    thread, device, name, *arguments = line.split(" ")
    pairs = (argument.partition("=") for argument in arguments if argument)
    return Call(int(thread), int(device), name, {key: value for key, _, value in pairs})


class StandIn:
    """Stand-in of this process; every test starts with an empty log and no faults."""

    def __init__(self, execution: Execution | None = None) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.execution = execution
        self.library.standin_log.restype = ctypes.c_char_p
        self._changed: set[str] = set()

    def begin(self) -> None:
        """Forget calls, faults and changed settings."""
        for name in self._changed:
            self.library.standin_set(name.encode(), b"")
        self._changed.clear()
        self.library.standin_heal()
        self.library.standin_set_logging(1)
        self.library.standin_clear()
        if self.execution is not None:
            self.execution.devices.begin()

    def end(self) -> None:
        """Do what is pending. Raises AssertionError for what work did that it must not and the test did not ask for."""
        if self.execution is not None:
            self.execution.devices.settle()
            found = self.take_findings()
            assert not found, "\n".join(found)

    def take_findings(self) -> list[str]:
        """Return the faults of executed work so far, and clear them."""
        assert self.execution is not None, "this process only records"
        found = self.execution.devices.findings[:]
        self.execution.devices.findings.clear()
        return found

    def clear(self) -> None:
        """Forget the calls."""
        self.library.standin_clear()

    def set(self, name: str, value: int) -> None:
        """Change a setting until the test ends: THREADS, the most that any function allows; MEMORY, in
        bytes.
        """
        self._changed.add(name)
        self.library.standin_set(name.encode(), str(value).encode())

    @property
    def calls(self) -> list[Call]:
        """Calls since the test, or the last `clear`, began."""
        return [parsed(line) for line in self.library.standin_log().decode().splitlines()]

    @property
    def sequence(self) -> list[str]:
        """Names of the calls, without bookkeeping."""
        return [call.name for call in self.calls if call.name not in BOOKKEEPING]

    @property
    def counts(self) -> Counter[str]:
        """Number of calls of each function."""
        return Counter(call.name for call in self.calls)

    def named(self, *names: str) -> list[Call]:
        """Return the calls of the given functions."""
        return [call for call in self.calls if call.name in names]

    @property
    def launches(self) -> list[Call]:
        """Launches by any launch function."""
        return self.named("cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel")

    def during(self, program: Callable[[], object]) -> list[Call]:
        """Return the calls that a program makes."""
        self.clear()
        program()
        return self.calls

    def fail(self, name: str, code: int, *, skip: int = 0, times: int = 1) -> None:
        """Let the function fail with the code, after `skip` calls that pass, `times` times."""
        assert self.library.standin_fail(name.encode(), code, skip, times), "too many faults"

    def hold(self, stream: int, on: bool = True) -> None:
        """Let a stream's work wait: queries answer that it is not done."""
        assert self.library.standin_hold(ctypes.c_void_p(stream), int(on)) == 0, f"{stream:#x} is no stream"

    def tell(self, kernel: str, sizes: Sequence[int]) -> None:
        """Set the parameter sizes of a kernel whose image is made up."""
        array = (ctypes.c_int * len(sizes))(*sizes)
        assert self.library.standin_tell(kernel.encode(), len(sizes), array) == 0
