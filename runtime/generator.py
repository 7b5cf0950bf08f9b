"""Generators: the state of a random stream on each device (`torch.Generator`).

All backends draw from Philox 4x32-10, keyed by the seed and counted by `offset`, so that one seed gives the
same bits everywhere. Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11.
"""

from __future__ import annotations

import os
import struct
import threading
from typing import NamedTuple, Protocol

from .device import CPU
from .device import device as Device
from .fork_lock import forkable

DEFAULT_SEED = 67280421310721
_STATE = struct.Struct("<QQ")


class SeedInMemory(NamedTuple):
    """The address, on the device, of a seed and of an offset: two int64 that are known when a kernel runs."""

    address: int


Seed = int | SeedInMemory


class Generator:
    """A random stream of one device: a seed and how many Philox counters were used.

    `dispatch.random.Generator` is the public one, whose states are tensors.
    """

    __slots__ = ("__weakref__", "_lock", "_offset", "_seed", "device")

    def __init__(self, device: Device | str = CPU) -> None:
        self.device = Device(device)
        self._seed = DEFAULT_SEED
        self._offset = 0
        self._lock = forkable(threading.Lock())

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream at this seed (a 64-bit number; negative ones wrap). Returns the generator."""
        if not isinstance(seed, int):
            raise RuntimeError(f"manual_seed expected a long, but got {type(seed).__name__}")
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(
                f"Overflow when unpacking long long: manual_seed expected a 64-bit seed, got {seed}"
            )
        self._check_not_captured("manual_seed")
        self._seed, self._offset = seed % (1 << 64), 0
        return self

    def seed(self) -> int:
        """Restart at a seed from the operating system; returns it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """The seed."""
        return self._seed

    def get_offset(self) -> int:
        """How many 128-bit counters were used."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Move to this counter."""
        self._check_not_captured("set_offset")
        self._offset = int(offset)

    def state_bytes(self) -> bytes:
        """Seed and offset, 16 bytes."""
        return _STATE.pack(self._seed, self._offset)

    def set_state_bytes(self, state: bytes) -> None:
        """Restore what `state_bytes` gave. Raises RuntimeError for anything of another length."""
        if len(state) != _STATE.size:
            raise RuntimeError(f"Generator state has {_STATE.size} bytes, got {len(state)}")
        self._check_not_captured("set_state")
        self._seed, self._offset = _STATE.unpack(state)

    def _check_not_captured(self, method: str) -> None:
        captured = _captured_draws
        if captured is not None:
            captured.check_may_change(self, method)

    def reserve(self, counters: int) -> tuple[Seed, int]:
        """Take the next `counters` Philox counters: (seed, first counter).

        While the current stream of its device is captured the seed is one in memory, and the first counter is
        relative to the offset there.
        """
        captured = _captured_draws
        if captured is not None:
            found = captured.reserve(self, counters)
            if found is not None:
                return found
        with self._lock:
            first = self._offset
            self._offset = first + counters
        return self._seed, first

    def __repr__(self) -> str:
        return f"<triten.Generator device={self.device}>"


class CapturedDraws(Protocol):
    """What draws do while graphs are being captured."""

    def reserve(self, generator: Generator, counters: int) -> tuple[SeedInMemory, int] | None:
        """The numbers of a draw that is captured; None for one that is not.

        Raises RuntimeError for a generator that the capture does not know.
        """

    def check_may_change(self, generator: Generator, method: str) -> None:
        """Raise RuntimeError if the current stream of the generator's device is captured."""


_captured_draws: CapturedDraws | None = None


def set_captured_draws(captured: CapturedDraws | None) -> None:
    """Have this be asked at every draw, as long as captures are underway; None afterwards."""
    global _captured_draws
    _captured_draws = captured


_defaults: dict[Device, Generator] = {}
_defaults_lock = forkable(threading.Lock())
_shared_seed = [DEFAULT_SEED]
_type: list[type[Generator]] = [Generator]


def set_generator_type(cls: type[Generator]) -> None:
    """Have default generators be of this class; those made before are forgotten."""
    with _defaults_lock:
        _type[0] = cls
        _defaults.clear()


def default_generator(device: Device) -> Generator:
    """The generator that operators on this device take when given none."""
    found = _defaults.get(device)
    if found is None:
        with _defaults_lock:
            found = _defaults.setdefault(device, _type[0](device).manual_seed(_shared_seed[0]))
    return found


def generators_in_use() -> list[Generator]:
    """The default generators that were asked for so far."""
    with _defaults_lock:
        return list(_defaults.values())


def manual_seed(seed: int) -> Generator:
    """Seed every device's default generator; returns the CPU's (`torch.manual_seed`)."""
    cpu = default_generator(CPU).manual_seed(seed)
    with _defaults_lock:
        _shared_seed[0] = cpu.initial_seed()
        for generator in _defaults.values():
            generator.manual_seed(_shared_seed[0])
    return cpu


def seed() -> int:
    """Seed every default generator from the operating system; returns the seed."""
    value = int.from_bytes(os.urandom(8), "little")
    manual_seed(value)
    return value


def initial_seed() -> int:
    """The seed of the CPU's default generator."""
    return default_generator(CPU).initial_seed()
