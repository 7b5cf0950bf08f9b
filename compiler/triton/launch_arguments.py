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
        bounds: The bounds of indices, and the inputs that hold them.
        draws: the draws of random numbers, in order.
    """

    def __init__(
        self, device: Device, bounds: Sequence[tuple[Bound, int]] = (), draws: Sequence[DropoutCall] = ()
    ) -> None:
        self.device = device
        self.bounds = [bound for bound, _ in bounds]
        self.index_inputs = [index for _, index in bounds]
        self.counters = [call.counters for call in draws]

    @property
    def signature(self) -> dict[str, str]:
        """Their names, in order, and types."""
        types = {FLAGS: "*i32"} if self.bounds else {}
        if self.counters:
            types |= {SEED: "i64", STATE: "*i64"}
            types |= {f"first_{i}": "i64" for i in range(len(self.counters))}
        return types

    @property
    def elements(self) -> list[str]:
        """Those that point to numbers which are not read in vectors."""
        return [name for name, type_ in self.signature.items() if type_.startswith("*")]

    def numbers(self) -> list[int]:
        """Return the seed arguments of a launch, and reserve its counters from the device's generator."""
        if not self.counters:
            return []
        generator = default_generator(self.device)
        philox = [philox_numbers(*generator.reserve(count)) for count in self.counters]
        return [philox[0][0], philox[0][2], *[first for _, first, _ in philox]]

    def launching(
        self, launch: Launch, grid: tuple[int, int, int], allocators: Sequence[Callable[[], Any]], size: int
    ) -> Callable[..., tuple[Any, ...]]:
        """Return a function from the buffers of inputs to those of outputs, which launches a kernel with these
        arguments."""
        enqueue, index_inputs = launch.enqueue, self.index_inputs
        bounds, counts = self.bounds, self.counters
        flags = flags_for(bounds, self.device) if bounds else None

        def run(*inputs: Any) -> tuple[Any, ...]:
            outs = tuple([new() for new in allocators])
            extra_arguments = [] if flags is None else [flags.begin()]
            if counts:
                extra_arguments += self.numbers()
            enqueue(
                grid, *[x.address for x in inputs], *[out.address for out in outs], *extra_arguments, size
            )
            if flags is not None:
                check_flags(flags, bounds, [inputs[i] for i in index_inputs])
            return outs

        return run
