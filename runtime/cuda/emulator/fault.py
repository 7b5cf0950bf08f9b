"""Emulator errors: a `Fault` at the faulting instruction, re-raised as an `EmulationError` with its location."""

from __future__ import annotations

from ...errors import AcceleratorError

ILLEGAL_ADDRESS = 700
ASSERT = 710
ILLEGAL_INSTRUCTION = 715
MISALIGNED_ADDRESS = 716
LAUNCH_FAILURE = 719


class EmulationError(AcceleratorError):
    """Error of a kernel. The message names kernel, instruction, source line, thread and address."""


class Fault(Exception):
    """Error of a thread. `thread` is its place among the threads that run together, or -1 if it has none."""

    def __init__(self, description: str, thread: int = -1, code: int = LAUNCH_FAILURE) -> None:
        super().__init__(description)
        self.what = description
        self.thread = thread
        self.code = code


ILLEGAL = "an illegal memory access was encountered"
MISALIGNED = "misaligned address"
RACE = "unspecified launch failure: race"
UNINITIALISED = "unspecified launch failure: memory that was never written was read"
DIVERGENT = "unspecified launch failure: threads that do not go together"
