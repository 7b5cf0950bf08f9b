"""Whether a group's communications can go on, and how whoever reads a lost result hears that they cannot.

NCCL's kernels wait on the device for those of other processes. Once one is given up, its communicators are aborted: the
kernels end and leave what they were to write as it is. So that nobody takes that for a result, the device has a word
that tells of the failure (`runtime/cuda/faults.py`), which is looked at wherever the host has waited for the device.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from typing import TYPE_CHECKING

from ....runtime.cuda.faults import Fault, FaultFlags, fault_flags
from ...errors import DistBackendError

if TYPE_CHECKING:
    from .device_communicator import DeviceCommunicator

__all__ = ["GroupHealth"]

_numbers = itertools.count()


class _LostCommunication(Fault):
    """The fault of a device whose group has failed."""

    health: GroupHealth

    def exception(self, device: int) -> Exception:
        return self.health.error or DistBackendError(self.message)


class GroupHealth:
    """Whether a group has failed.

    Args:
        group: how errors speak of the process in its group.

    Attributes:
        error: what went wrong, if anything.
    """

    def __init__(self, group: str) -> None:
        self.group = group
        self.error: DistBackendError | None = None
        self._communicators: list[DeviceCommunicator] = []
        self._flags: dict[int, FaultFlags] = {}
        self._lock = threading.Lock()

    def add(self, communicator: DeviceCommunicator) -> None:
        """A communicator of the group, which is aborted when the group fails."""
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
            raise DistBackendError(f"{name}: {self.group} has failed before: {self.error}")

    def look(self) -> None:
        """Let the group fail if NCCL tells of an error that came up after the calls."""
        for communicator in list(self._communicators):
            found = communicator.late_error()
            if found is not None:
                self.fail(f"{self.group}: {found}")

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
