"""Seeds and states of the CUDA devices' random streams (torch/cuda/random.py).

A state is 16 bytes, seed and offset, as a uint8 tensor in host memory. Seeding does nothing where there is no device.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..dispatch.tensor import Tensor
from ..runtime import generator as generators
from ..runtime.cuda.devices import current_device, device_count, device_index, is_available, is_initialized
from ..runtime.device import device as Device

if TYPE_CHECKING:
    from ..dispatch.random import Generator


def _generator(device: Device | str | int | None) -> Generator:
    index = device_index(device)
    if not 0 <= index < device_count():
        raise IndexError(f"device index out of range: got {index}, there are {device_count()} CUDA devices")
    return generators.default_generator(Device("cuda", index))  # type: ignore[return-value]


def default_generators() -> tuple[Generator, ...]:
    """Return the devices' default generators; empty before the first CUDA use (`torch.cuda.default_generators`)."""
    return tuple(_generator(index) for index in range(device_count())) if is_initialized() else ()


def manual_seed(seed: int) -> None:
    """Seed the current device's default generator.

    Example:
        >>> import triten as tt
        >>> tt.cuda.manual_seed(3); a = tt.rand(2, device="cuda").tolist()
        >>> tt.cuda.manual_seed(3); a == tt.rand(2, device="cuda").tolist()
        True
    """
    if is_available():
        _generator(current_device()).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed the default generator of every device."""
    for index in range(device_count()):
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seed the current device's default generator from the operating system."""
    if is_available():
        _generator(current_device()).seed()


def seed_all() -> None:
    """Seed the default generator of every device with one number from the operating system."""
    if is_available():
        manual_seed_all(_generator(0).seed())


def initial_seed() -> int:
    """Return the seed of the current device's default generator."""
    return int(_generator(current_device()).initial_seed())


def get_rng_state(device: int | str | Device = "cuda") -> Tensor:
    """Return the state of a device's default generator.

    Raises:
        IndexError: The device does not exist.
    """
    state: Tensor = _generator(device).get_state()
    return state


def get_rng_state_all() -> list[Tensor]:
    """Return the states of all devices' default generators."""
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: Tensor, device: int | str | Device = "cuda") -> None:
    """Restore what `get_rng_state` gave.

    Raises TypeError for anything but a uint8 tensor in host memory, RuntimeError for one of another size.
    """
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Restore what `get_rng_state_all` gave."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)
