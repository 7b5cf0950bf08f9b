"""Seeds and generator states (torch/random.py): `Generator`, `manual_seed`, `fork_rng` and similar functions.

A state is a uint8 tensor in host memory: 16 bytes, seed and offset, or PyTorch's 5056 bytes of a Mersenne Twister.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..runtime import generator as streams
from ..runtime.device import CPU
from ..runtime.device import device as Device
from ..runtime.mersenne_twister import STATE_SIZE
from ..runtime.scalar_type import uint8
from .tensor import Tensor
from .tensor_data import from_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Generator(streams.Generator):
    """Random number generator of one device: a seed and a Philox counter offset (`torch.Generator`).

    After ``tt.random.set_cpu_engine("mt19937")`` new CPU generators produce PyTorch's numbers.

    Args:
        device: Device of the operators that use the generator.

    Example:
        >>> import triten as tt
        >>> g = tt.Generator().manual_seed(1)
        >>> state = g.get_state()
        >>> a = tt.rand(3, generator=g)
        >>> b = tt.rand(3, generator=g.set_state(state))
        >>> a.tolist() == b.tolist()
        True
    """

    __slots__ = ()

    def __new__(cls, device: Device | str = "cpu") -> Generator:
        """Return a generator with its device's engine."""
        chosen: Any = streams.generator_type(Device(device)) if cls is Generator else cls
        made: Generator = object.__new__(chosen)
        return made

    def get_state(self) -> Tensor:
        """Return the state as a uint8 tensor: seed and offset in 16 elements, or a Mersenne Twister's 5056."""
        return from_numpy(np.frombuffer(self.state_bytes(), np.uint8).copy())

    def set_state(self, state: Tensor) -> Generator:
        """Restore a state from `get_state`, and return the generator.

        Raises TypeError for anything but a uint8 tensor in host memory, RuntimeError for one of another size.
        """
        if not isinstance(state, Tensor) or state.dtype is not uint8 or state.device is not CPU:
            raise TypeError("RNG state must be a triten.uint8 tensor in host memory")
        # The bytes themselves: a mode such as FakeTensorMode does not see this call.
        array: NDArray[Any] = state._data if isinstance(state._data, np.ndarray) else state.detach()._data
        self.set_state_bytes(np.ascontiguousarray(array).tobytes())
        return self

    def clone_state(self) -> Generator:
        """Return a new generator in the same state."""
        return _restored_generator(self.device, self.state_bytes())

    def graphsafe_get_state(self) -> Generator:
        """Return `clone_state`; captured graphs use this form."""
        return self.clone_state()

    def graphsafe_set_state(self, state: Generator) -> Generator:
        """Copy another generator's state, and return the generator."""
        self.set_state_bytes(state.state_bytes())
        return self

    def manual_seed(self, seed: int) -> Generator:
        super().manual_seed(seed)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored_generator, (self.device, self.state_bytes())


class _MersenneGenerator(streams.MersenneGenerator, Generator):
    """CPU `Generator` with PyTorch's engine."""

    __slots__ = ()

    def manual_seed(self, seed: int) -> Generator:
        super().manual_seed(seed)
        return self


_MersenneGenerator.__name__ = _MersenneGenerator.__qualname__ = "Generator"
_TYPES: dict[str, type[streams.Generator]] = {"philox": Generator, "mt19937": _MersenneGenerator}


def _restored_generator(device: Device, state: bytes) -> Generator:
    """Return a generator with the engine that the state belongs to."""
    made: Any = object.__new__(_TYPES["mt19937" if len(state) == STATE_SIZE else "philox"])
    made.__init__(device)
    made.set_state_bytes(state)
    restored: Generator = made
    return restored


streams.set_generator_types(_TYPES)


def default_generator_of(device: Device | str = "cpu") -> Generator:
    """Return the default generator of operators on a device."""
    return streams.default_generator(Device(device))  # type: ignore[return-value]  # of `set_generator_types`


default_generator: Generator = default_generator_of()
"""The host's generator (`torch.default_generator`)."""


def manual_seed(seed: int) -> Generator:
    """Seed the generators of all devices (`torch.manual_seed`).

    Args:
        seed: An integer of at most 64 bits.

    Returns:
        The host's generator.

    Raises:
        ValueError: `seed` is beyond 64 bits.

    Example:
        >>> import triten as tt
        >>> g = tt.manual_seed(0); a = tt.rand(2)
        >>> g = tt.manual_seed(0); a.tolist() == tt.rand(2).tolist()
        True
    """
    return streams.manual_seed(int(seed))  # type: ignore[return-value]


def seed() -> int:
    """Seed the generators of all devices with a number from the operating system (`torch.seed`).

    Returns:
        The number.

    Example:
        >>> import triten as tt
        >>> tt.seed() == tt.initial_seed()
        True
    """
    number = default_generator.seed()
    streams.manual_seed(number)
    return int(number)


def initial_seed() -> int:
    """Return the seed of the host's generator (`torch.initial_seed`).

    Returns:
        A number.

    Example:
        >>> import triten as tt
        >>> g = tt.manual_seed(5)
        >>> tt.initial_seed()
        5
    """
    return int(default_generator.initial_seed())


def get_cpu_engine() -> str:
    """Return the engine of new generators of the CPU.

    Returns:
        "philox" or "mt19937".

    Example:
        >>> import triten as tt
        >>> tt.random.get_cpu_engine()
        'philox'
    """
    return streams.get_cpu_engine()


def set_cpu_engine(engine: str) -> None:
    """Select the engine of random numbers on the CPU.

    The default generator restarts at its seed with the engine, and new generators use it. Existing generators keep
    their engine, and so do other devices, which always use Philox. Compiled functions are recompiled.

    Args:
        engine: "philox", by default, gives the same numbers on every device. "mt19937" gives the numbers of PyTorch's
            CPU generator: a seeded program generates the same numbers as under PyTorch. ``import triten.as_torch``
            selects it.

    Raises:
        ValueError: `engine` is neither.

    References:
        M. Matsumoto, T. Nishimura, Mersenne Twister: A 623-dimensionally equidistributed uniform pseudo-random number
        generator (1998).

    Example:
        >>> import triten as tt
        >>> tt.random.set_cpu_engine("mt19937")
        >>> g = tt.manual_seed(0)
        >>> tt.randperm(8)
        tensor([4, 0, 7, 3, 2, 5, 1, 6])
        >>> tt.random.set_cpu_engine("philox")
    """
    streams.set_cpu_engine(engine)
    optimized = sys.modules.get(f"{__package__.partition('.')[0]}.compiler.optimized")
    if optimized is not None:
        optimized.forget_all()


def get_rng_state() -> Tensor:
    """Return the state of the host's generator (`torch.get_rng_state`).

    Returns:
        A tensor of dtype uint8: 16 bytes, seed and offset, or the 5056 bytes of PyTorch's state after
        ``set_cpu_engine("mt19937")``.

    Example:
        >>> import triten as tt
        >>> state = tt.get_rng_state(); a = tt.rand(2)
        >>> tt.set_rng_state(state); a.tolist() == tt.rand(2).tolist()
        True
    """
    state: Tensor = default_generator.get_state()
    return state


def set_rng_state(new_state: Tensor) -> None:
    """Restore the state of the host's generator (`torch.set_rng_state`).

    Args:
        new_state: A state from `get_rng_state`.

    Raises:
        TypeError: `new_state` is not a uint8 tensor in host memory.
        RuntimeError: It has another size.

    Example:
        >>> import triten as tt
        >>> state = tt.get_rng_state(); a = tt.rand(2)
        >>> tt.set_rng_state(state); a.tolist() == tt.rand(2).tolist()
        True
    """
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(
    devices: Iterable[Device | str | int] | None = None,
    enabled: bool = True,
    *,
    device_type: str | None = None,
) -> Iterator[None]:
    """Restore the generators' states at the end of the block, so that its random numbers have no effect outside.

    Args:
        devices: Devices besides the host whose generators are restored. Default: all in use.
        enabled: False does nothing.
        device_type: The type of the devices: that of integers in `devices`, and of those restored by default. Nothing
            is restored for ``"meta"``. Default: integers are of the accelerator, and all types are restored.

    Example:
        >>> import triten as tt
        >>> g = tt.manual_seed(0)
        >>> with tt.random.fork_rng():
        ...     a = tt.rand(2)
        >>> a.tolist() == tt.rand(2).tolist()
        True
    """
    if not enabled or device_type == "meta":
        yield
        return
    if devices is None:
        types = (CPU.type, device_type)
        in_use = streams.generators_in_use()
        chosen = in_use if device_type is None else [each for each in in_use if each.device.type in types]
    else:
        named = [Device(device_type, d) if device_type and isinstance(d, int) else Device(d) for d in devices]
        chosen = [streams.default_generator(device) for device in (CPU, *named)]
    states = [(generator, generator.state_bytes()) for generator in chosen]
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state_bytes(state)


def thread_safe_generator() -> Generator | None:
    """Return a generator for random transforms of samples (`torch.random.thread_safe_generator`).

    Returns:
        None, which makes operators use the default generator: a data loader's workers are processes with their own
        streams, not threads.

    Example:
        >>> import triten as tt
        >>> from triten.random import thread_safe_generator
        >>> tt.randint(0, 10, (5,), generator=thread_safe_generator()).shape
        triten.Size([5])
    """
    return None
