"""Health of a group: after an abort, readers of a lost result get an error.

NCCL's kernels wait on the device for those of other ranks. When a communication is aborted, the kernels end
and leave their outputs as they are. A device word records the failure (`runtime/cuda/faults.py`), so that no
reader takes the outputs for a result. The host checks the word after every wait for the device.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
import time
from typing import TYPE_CHECKING

from ....runtime.cuda.faults import Fault, FaultFlags, fault_flags
from ...errors import DistBackendError
from ...failures import ASK_AFTER

if TYPE_CHECKING:
    from ...process_group import GroupSpec
    from .device_communicator import DeviceCommunicator

__all__ = ["GroupHealth"]

_numbers = itertools.count()


class _LostCommunication(Fault):
    """Fault of a device whose group has failed."""

    health: GroupHealth

    def exception(self, device: int) -> Exception:
        return self.health.error or DistBackendError(self.message)


class GroupHealth:
    """Health of a process group.

    Args:
        spec: The group.

    Attributes:
        group: Description of this rank and its group in errors.
        error: The failure, or None.
    """

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.group = f"rank {spec.rank} of {len(spec.ranks)} in group {spec.name!r} ({spec.description})"
        self.error: DistBackendError | None = None
        self._communicators: list[DeviceCommunicator] = []
        self._flags: dict[int, FaultFlags] = {}
        self._lock = threading.Lock()
        self._gone: str | None = None
        self._question = time.monotonic() + ASK_AFTER

    def add(self, communicator: DeviceCommunicator) -> None:
        """Register a communicator of the group, to be aborted when the group fails."""
        device = communicator.device
        if device not in self._flags:
            fault = _LostCommunication(
                "NCCL", DistBackendError, f"{self.group} has failed (group {next(_numbers)})"
            )
            fault.health = self
            self._flags[device] = fault_flags(device, [fault])
        self._communicators.append(communicator)

    def check(self, name: str) -> None:
        """Raise DistBackendError if the group has failed."""
        if self.error is not None:
            raise DistBackendError(f"{name}: {self.group}: an earlier communication failed: {self.error}")

    def look(self, name: str) -> None:
        """Let the group fail if NCCL tells of an error that came up after the call of a function of this name."""
        for communicator in list(self._communicators):
            error = communicator.late_error()
            if error is not None:
                ranks = self.spec.ranks
                gone = self.spec.failures.gone(ranks) if len(ranks) > 1 else None
                self.fail(f"{name}: {self.group}: {error}{'' if gone is None else f'; {gone}'}")

    def gone(self, now: float) -> str | None:
        """Describe ranks that have been gone for a while, since their last messages may still arrive.

        The store is asked at intervals; return None in between.
        """
        if now < self._question or len(self.spec.ranks) == 1:
            return None
        self._question = now + ASK_AFTER
        before, self._gone = self._gone, self.spec.failures.gone(self.spec.ranks)
        return self._gone if before is not None else None

    def fail(self, text: str) -> DistBackendError:
        """Let the group fail, unless it has before: its kernels end, and later calls and readers get the error."""
        with self._lock:
            if self.error is not None:
                return self.error
            error = self.error = DistBackendError(text)
        for flags in self._flags.values():
            ctypes.c_int.from_address(flags.address).value = 1
        for communicator in self._communicators:
            communicator.abort()
        return error
