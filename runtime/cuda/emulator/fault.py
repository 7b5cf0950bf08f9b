"""What the emulator finds: a `Fault` where it happens, raised again as an `EmulationError` that says where that is."""

from __future__ import annotations

from ...errors import AcceleratorError

ILLEGAL_ADDRESS = 700
ASSERT = 710
ILLEGAL_INSTRUCTION = 715
MISALIGNED_ADDRESS = 716
LAUNCH_FAILURE = 719


class EmulationError(AcceleratorError):
    """A kernel did what it must not. The message names kernel, instruction, source line, thread and address."""


class Fault(Exception):
    """What is wrong, of which thread: `thread` is its place among those that run together, -1 if it is not one's."""

    def __init__(self, what: str, thread: int = -1, code: int = LAUNCH_FAILURE) -> None:
        super().__init__(what)
        self.what = what
        self.thread = thread
        self.code = code


ILLEGAL = "an illegal memory access was encountered"
MISALIGNED = "misaligned address"
RACE = "unspecified launch failure: race"
UNINITIALISED = "unspecified launch failure: memory that was never written was read"
DIVERGENT = "unspecified launch failure: threads that do not go together"
