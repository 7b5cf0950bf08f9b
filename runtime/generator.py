"""Generators: the state of a random stream on each device (`torch.Generator`).

All backends use Philox 4x32-10, keyed by the seed and counted by `offset`, so that one seed gives the same bits
everywhere. Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC11.

On the CPU a generator may use PyTorch's engine instead: `MersenneGenerator`, chosen by `set_cpu_engine`.
"""

from __future__ import annotations

import os
import struct
import threading
from typing import NamedTuple, Protocol

from .device import CPU
from .device import device as Device
from .fork_lock import forkable
from .mersenne_twister import STATE_SIZE as MERSENNE_STATE_SIZE
from .mersenne_twister import MersenneTwister

DEFAULT_SEED = 67280421310721
_STATE = struct.Struct("<QQ")


class SeedInMemory(NamedTuple):
    """Device address of a seed and an offset: two int64 that are known when a kernel runs."""

    address: int


Seed = int | SeedInMemory | MersenneTwister
"""Source of a random kernel: the Philox key, or the stream of a `MersenneGenerator` itself."""


class Generator:
    """Random stream of one device: a seed and the number of used Philox counters.

    `dispatch.random.Generator` is the public class, whose states are tensors.
    """

    __slots__ = ("__weakref__", "_lock", "_offset", "_seed", "_twister", "device")
    _twister: MersenneTwister

    def __init__(self, device: Device | str = CPU) -> None:
        self.device = Device(device)
        self._seed = DEFAULT_SEED
        self._offset = 0
        self._lock = forkable(threading.Lock())

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream at this seed (a 64-bit number; negative ones wrap). Return the generator."""
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
        """Restart at a seed from the operating system, and return it."""
        self.manual_seed(int.from_bytes(os.urandom(8), "little"))
        return self._seed

    def initial_seed(self) -> int:
        """Return the seed."""
        return self._seed

    def get_offset(self) -> int:
        """Return the number of 128-bit counters used."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Set the number of counters used."""
        self._check_not_captured("set_offset")
        self._offset = int(offset)

    def state_bytes(self) -> bytes:
        """Return seed and offset, 16 bytes."""
        return _STATE.pack(self._seed, self._offset)

    def set_state_bytes(self, state: bytes) -> None:
        """Restore a state from `state_bytes`. Raise RuntimeError for any other length."""
        if len(state) != _STATE.size:
            remedy = (
                '; call tt.random.set_cpu_engine("mt19937") for the state of a generator of PyTorch'
                if len(state) == MERSENNE_STATE_SIZE
                else ""
            )
            raise RuntimeError(f"Generator state has {_STATE.size} bytes, got {len(state)}{remedy}")
        self._check_not_captured("set_state")
        self._seed, self._offset = _STATE.unpack(state)

    def _check_not_captured(self, method: str) -> None:
        captured = _captured_draws
        if captured is not None:
            captured.check_may_change(self, method)

    def reserve(self, counters: int) -> tuple[Seed, int]:
        """Reserve the next `counters` Philox counters; return (seed, first counter).

        While the current stream of its device is capturing, the seed is in memory and the first counter is relative
        to the offset there.
        """
        captured = _captured_draws
        if captured is not None:
            reserved = captured.reserve(self, counters)
            if reserved is not None:
                return reserved
        with self._lock:
            first = self._offset
            self._offset = first + counters
        return self._seed, first

    def __repr__(self) -> str:
        return f"<triten.Generator device={self.device}>"


class MersenneGenerator(Generator):
    """CPU generator whose kernels use the words of a Mersenne Twister, like PyTorch's.

    Its layout is that of `Generator`, so that the default generator changes its engine in-place. `_seed` is unused.
    """

    __slots__ = ()

    def __init__(self, device: Device | str = CPU) -> None:
        super().__init__(device)
        self._twister = MersenneTwister(self._seed)

    def manual_seed(self, seed: int) -> Generator:
        """Restart the stream at the lower 32 bits of this seed. Return the generator."""
        super().manual_seed(seed)
        with self._twister.lock:
            self._twister.restart(self._seed)
        return self

    def initial_seed(self) -> int:
        """Return the seed."""
        return self._twister.seed

    def get_offset(self) -> int:
        """Raise RuntimeError, as PyTorch does: a Mersenne Twister has no counters."""
        raise RuntimeError("CPU Generator does not use offset: get_offset needs the engine philox")

    def set_offset(self, offset: int) -> None:
        """Raise RuntimeError, as PyTorch does: a Mersenne Twister has no counters."""
        raise RuntimeError(
            f"CPU Generator does not use offset: set_offset got {offset} with the engine mt19937"
        )

    def state_bytes(self) -> bytes:
        """Return PyTorch's state, 5056 bytes."""
        with self._twister.lock:
            return self._twister.state_bytes()

    def set_state_bytes(self, state: bytes) -> None:
        """Restore a state from `state_bytes` or PyTorch. Raise RuntimeError for an invalid state."""
        with self._twister.lock:
            self._twister.set_state_bytes(state)

    def reserve(self, counters: int) -> tuple[Seed, int]:
        """Return the stream itself, from which the kernel takes as many words as it needs."""
        return self._twister, 0


class CapturedDraws(Protocol):
    """Interface of random ops during graph capture."""

    def reserve(self, generator: Generator, counters: int) -> tuple[SeedInMemory, int] | None:
        """Return the seed and counters of a captured random op; None if no capture is active.

        Raises RuntimeError for a generator that the capture does not know.
        """

    def check_may_change(self, generator: Generator, method: str) -> None:
        """Raise RuntimeError if the current stream of the generator's device is capturing."""


_captured_draws: CapturedDraws | None = None


def set_captured_draws(captured: CapturedDraws | None) -> None:
    """Make every random op query `captured` while captures are active; None removes it."""
    global _captured_draws
    _captured_draws = captured


_defaults: dict[Device, Generator] = {}
_defaults_lock = forkable(threading.Lock())
_shared_seed = [DEFAULT_SEED]
_types: dict[str, type[Generator]] = {"philox": Generator, "mt19937": MersenneGenerator}
"""Generator classes by engine."""
_cpu_engine = ["philox"]


def set_generator_types(types: dict[str, type[Generator]]) -> None:
    """Set the generator classes by engine, and drop the existing default generators."""
    with _defaults_lock:
        _types.update(types)
        _defaults.clear()


def generator_type(device: Device) -> type[Generator]:
    """Return the class of new generators of a device."""
    return _types[_cpu_engine[0] if device.type == "cpu" else "philox"]


def get_cpu_engine() -> str:
    """Return the engine of new generators of the CPU, "philox" or "mt19937"."""
    return _cpu_engine[0]


def set_cpu_engine(engine: str) -> None:
    """Set the engine of new CPU generators; the default one restarts at its seed with it."""
    if engine not in _types:
        raise ValueError(f"set_cpu_engine expects one of {sorted(_types)}, got {engine!r}")
    if engine == _cpu_engine[0]:
        return
    generator = default_generator(CPU)
    seed = generator.initial_seed()
    _cpu_engine[0] = engine
    generator.__class__ = _types[engine]
    generator._twister = MersenneTwister(seed)  # only the engine mt19937 reads it
    generator.manual_seed(seed)


def default_generator(device: Device) -> Generator:
    """Return the default generator of a device."""
    generator = _defaults.get(device)
    if generator is None:
        with _defaults_lock:
            generator = _defaults.setdefault(
                device, generator_type(device)(device).manual_seed(_shared_seed[0])
            )
    return generator


def generators_in_use() -> list[Generator]:
    """Return the default generators that have been used so far."""
    with _defaults_lock:
        return list(_defaults.values())


def manual_seed(seed: int) -> Generator:
    """Seed every device's default generator; return the CPU's (`torch.manual_seed`)."""
    cpu = default_generator(CPU).manual_seed(seed)
    with _defaults_lock:
        _shared_seed[0] = cpu.initial_seed()
        for generator in _defaults.values():
            generator.manual_seed(_shared_seed[0])
    return cpu


def seed() -> int:
    """Seed every default generator from the operating system; return the seed."""
    value = int.from_bytes(os.urandom(8), "little")
    manual_seed(value)
    return value


def initial_seed() -> int:
    """Return the seed of the CPU's default generator."""
    return default_generator(CPU).initial_seed()
