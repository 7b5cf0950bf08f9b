"""Compiled kernel on an emulated device: loaded with a driver's checks, launched with packed arguments."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import ml_dtypes
import numpy as np

from ..device_properties import DeviceProperties
from ..driver import CompiledKernel, Grid, check_grid
from ..machine_code import LaunchShape
from ..occupancy import WARP_SIZE
from ..simulated.driver import check_divisible, check_tensor_map
from ..simulated.memory import LiveBlocks
from ..tensor_map import DescribedTensor, TensorMaps
from ..triton.compile import KernelBinary, ParameterLayout
from .global_memory import EmulatedMemory
from .images import check_resources
from .machine import Launch, Program
from .ptx import parse

if TYPE_CHECKING:
    from .driver import EmulatorDriver


class EmulatedKernel(CompiledKernel):
    """PTX kernel, ready to launch on one device.

    The constructor raises RuntimeError if the kernel needs more than the device has, or if its parameter layout
    differs from a launch's. A launch raises TypeError for values that do not fit the signature, and RuntimeError for
    a grid beyond CUDA's limits. Waiting for a faulty kernel raises `EmulationError`.
    """

    __slots__ = ("_binary", "_divisible", "_driver", "_layout", "_names", "_program")

    def __init__(
        self,
        driver: EmulatorDriver,
        binary: KernelBinary,
        names: Sequence[str],
        divisible: frozenset[str],
        properties: DeviceProperties,
    ) -> None:
        self.name = binary.name
        self._driver, self._binary, self._names, self._divisible = driver, binary, list(names), divisible
        self._layout = ParameterLayout(binary.parameter_types)
        module = parse(binary.asm["ptx"])
        shape = LaunchShape(WARP_SIZE * binary.num_warps, binary.shared, binary.num_ctas)
        check_resources(binary.name, module, binary.cubin, shape, properties)
        self._program = Program(module, binary.name, driver.load_variables(module), mends=True)
        self._check_layout()

    def _check_layout(self) -> None:
        parameters = self._program.kernel.function.parameters
        packed = self._layout.offsets
        taken = tuple(parameter.offset for parameter in parameters)
        # The compiler omits the scratch pointers if a kernel uses none. Tensor maps are packed first.
        moved = bool(self._layout.maps)
        if (taken != packed[: len(taken)] and not moved) or len(taken) not in (len(packed), len(packed) - 2):
            raise RuntimeError(
                f"kernel '{self.name}' takes its parameters at {taken} bytes, a launch packs them at {packed}"
            )

    def launch(self, grid: Grid, stream: int, *values: int | float) -> None:
        self._launch((), grid, stream, *values)

    def bound(self, tensors: Sequence[DescribedTensor]) -> Callable[..., None]:
        encoder = self._driver.encoder
        maps = [
            TensorMaps(encoder, tensor, meta)
            for tensor, meta in zip(tensors, self._binary.tensor_maps, strict=True)
        ]
        return partial(self._launch, maps)

    def _launch(self, maps: Sequence[TensorMaps], grid: Grid, stream: int, *values: int | float) -> None:
        check_grid(self.name, grid)
        if 0 in grid:
            return
        types = self._binary.parameter_types
        if len(values) != len(types):
            raise TypeError(
                f"kernel '{self.name}': expected {len(types)} arguments {self._names}, got {len(values)}"
            )
        if len(maps) != len(self._layout.maps):
            names = " and ".join(f"'{self._names[i]}'" for i in self._layout.maps)
            raise TypeError(f"kernel '{self.name}': tensor descriptor {names} was given no sizes and strides")
        for name, value in zip(self._names, values, strict=True):
            if name in self._divisible:
                check_divisible(self.name, name, int(value))
        described = [
            self._map(i, table, int(values[i])) for i, table in zip(self._layout.maps, maps, strict=True)
        ]
        arguments: list[int | float] = list(values)
        for i in self._layout.bfloat16:
            arguments[i] = int(np.array(values[i], ml_dtypes.bfloat16).view(np.uint16))
        plain = [arguments[i] for i in self._layout.plain]
        scratch = None
        if self._binary.global_scratch_size:
            programs = grid[0] * grid[1] * grid[2] * self._binary.num_ctas
            scratch = self._driver.scratch(programs * self._binary.global_scratch_size, stream)
        try:
            packed = self._layout.struct.pack(
                *described, *plain, 0 if scratch is None else scratch.address, 0
            )
        except (struct.error, OverflowError, TypeError) as error:
            raise TypeError(
                f"kernel '{self.name}': arguments {values} do not fit {types}: {error}"
            ) from error
        self._driver.launch_kernel(
            self.name, grid, stream, partial(self._run, grid, packed, self._driver.current_device(), scratch)
        )

    def _map(self, index: int, maps: TensorMaps, address: int) -> bytes:
        """Return the tensor map of a descriptor. Raise RuntimeError if the driver would refuse it."""
        meta = maps._meta
        check_tensor_map(
            self.name, self._names[index], maps._tensor, meta["block_size"], meta["elem_size"], address
        )
        return maps[address]

    def _arranged(self, packed: bytes) -> bytes:
        """Return the parameters at the kernel's offsets, copied from the launch's packed layout, like a driver."""
        if not self._layout.maps:
            return packed
        function = self._program.kernel.function
        parameters = bytearray(function.bytes_of_parameters())
        for parameter, start in zip(function.parameters, self._layout.offsets, strict=False):
            parameters[parameter.offset : parameter.offset + parameter.size] = packed[
                start : start + parameter.size
            ]
        return bytes(parameters)

    def _run(self, grid: Grid, packed: bytes, device: int, scratch: object, blocks: LiveBlocks) -> None:
        """Execute the kernel; keep `scratch` alive until then."""
        del scratch, blocks
        driver, binary = self._driver, self._binary
        memory = cast(EmulatedMemory, driver.memory(device))
        launch = Launch(
            self._program,
            (grid[0] * binary.num_ctas, grid[1], grid[2]),
            WARP_SIZE * binary.num_warps,
            binary.shared,
            self._arranged(packed),
            memory,
            driver.host_memory,
            driver.strict,
            binary.num_ctas,
        )
        launch.run()


def arguments_of(kernel: Any, signature: Mapping[str, str]) -> list[str]:
    """Return the names of the launch parameters, in order."""
    return [name for name in kernel.arg_names if name in signature]
