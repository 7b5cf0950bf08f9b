"""Launch arguments of a fused kernel besides its inputs and outputs: error flags, and seeds of random ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.device import device as Device
from ...runtime.generator import default_generator
from ...triton_kernels.indexing.index_bounds import Bound, check_flags, flags_for
from ...triton_kernels.launch import Launch
from ...triton_kernels.random.random import philox_numbers
from ..draws import DropoutCall

FLAGS = "flags"
SEED, STATE = "seed", "state"


class LaunchArguments:
    """Arguments between a kernel's outputs and its size.

    Args:
        device: where it runs.
        bounds: what the numbers in inputs may be, and the places of these inputs.
        draws: the draws of random numbers, in order.
    """

    def __init__(
        self, device: Device, bounds: Sequence[tuple[Bound, int]] = (), draws: Sequence[DropoutCall] = ()
    ) -> None:
        self.device = device
        self.bounds = [bound for bound, _ in bounds]
        self.places = [place for _, place in bounds]
        self.counters = [call.counters for call in draws]

    @property
    def signature(self) -> dict[str, str]:
        """Their names, in order, and types."""
        found = {FLAGS: "*i32"} if self.bounds else {}
        if self.counters:
            found |= {SEED: "i64", STATE: "*i64"}
            found |= {f"first_{i}": "i64" for i in range(len(self.counters))}
        return found

    @property
    def elements(self) -> list[str]:
        """Those that point to numbers which are not read in vectors."""
        return [name for name, type_ in self.signature.items() if type_.startswith("*")]

    def numbers(self) -> list[int]:
        """Return the seed arguments of a launch, and reserve its counters from the device's generator."""
        if not self.counters:
            return []
        generator = default_generator(self.device)
        found = [philox_numbers(*generator.reserve(count)) for count in self.counters]
        return [found[0][0], found[0][2], *[first for _, first, _ in found]]

    def launching(
        self, launch: Launch, grid: tuple[int, int, int], allocators: Sequence[Callable[[], Any]], size: int
    ) -> Callable[..., tuple[Any, ...]]:
        """Return a function from the buffers of inputs to those of outputs, which launches a kernel with these
        arguments."""
        enqueue, places = launch.enqueue, self.places
        bounds, counts = self.bounds, self.counters
        flags = flags_for(bounds, self.device) if bounds else None

        def run(*inputs: Any) -> tuple[Any, ...]:
            outs = tuple([new() for new in allocators])
            given = [] if flags is None else [flags.begin()]
            if counts:
                given += self.numbers()
            enqueue(grid, *[x.address for x in inputs], *[out.address for out in outs], *given, size)
            if flags is not None:
                check_flags(flags, bounds, [inputs[place] for place in places])
            return outs

        return run
