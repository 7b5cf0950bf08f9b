"""User-defined Triton kernels over tensors: `library.launch` and `library.wrap_triton`
(torch/_library/triton.py).

Arguments are typed and specialized as in Triton's own launcher. Compilation and launch are those of every
other kernel here, so the current device and stream apply, and the interpreter's checks too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..runtime.cuda.driver import constexpr_key, driver, kernel_name
from ..runtime.cuda.triton.kernel_arguments import parameters_of, pointer_type, scalar_type
from ..runtime.device import device as Device
from ..runtime.errors import two_devices
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl
from .conversion import triton_type
from .elementwise.elementwise import address
from .launch import ALIGNMENT, Launch

MAX_LAUNCHES = 1024
MAX_GRID_RANK = 3

_launches: dict[Any, Launch] = {}


def launch(
    kernel: Any,
    grid: Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]],
    *args: Any,
    num_warps: int = 4,
    num_stages: int = 3,
    enable_fp_fusion: bool = True,
    **kwargs: Any,
) -> None:
    """Enqueue a kernel; see `library.launch`."""
    signature, parameters = parameters_of(kernel)
    name = kernel_name(kernel)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise TypeError(
            f"launch: kernel '{name}{signature}': {error}; the options of a launch are num_warps, num_stages and "
            "enable_fp_fusion"
        ) from None
    bound.apply_defaults()
    arguments = bound.arguments
    device = device_of(name, arguments)
    types: dict[str, str] = {}
    constants: dict[str, object] = {}
    divisible: list[str] = []
    unaligned: list[str] = []
    values: list[int | float] = []
    for parameter in parameters:
        each, value = parameter.name, arguments[parameter.name]
        if parameter.is_constexpr or value is None:
            constants[each] = constant(name, each, value)
        elif isinstance(value, TensorImpl):
            types[each] = pointer_type(name, each, value.dtype)
            values.append(address(value._data))
            if not parameter.by_alignment:
                unaligned.append(each)
        elif parameter.by_value and value.__class__ is int and value == 1:
            constants[each] = 1
        else:
            types[each] = scalar_type(name, parameter, value)
            values.append(value)
            if parameter.by_alignment and value.__class__ is int and value % ALIGNMENT == 0:
                divisible.append(each)
    options = (num_warps, num_stages, enable_fp_fusion)
    key = (
        kernel,
        device,
        tuple(types.items()),
        tuple([(each, constexpr_key(value)) for each, value in constants.items()]),
        tuple(divisible),
        options,
    )
    planned = _launches.get(key)
    if planned is None:
        if len(_launches) >= MAX_LAUNCHES:
            _launches.clear()
        planned = _launches[key] = Launch(
            device,
            kernel,
            types,
            constants,
            divisible=divisible,
            elements=unaligned,
            num_warps=num_warps,
            num_stages=num_stages,
            enable_fp_fusion=enable_fp_fusion,
        )
    planned(whole_grid(name, grid, arguments, options), *values)


def device_of(name: str, arguments: Mapping[str, Any]) -> Device:
    """Return the device of a kernel's tensors, or the current one. Raise RuntimeError for tensors not on CUDA."""
    device: Device | None = None
    for each, value in arguments.items():
        if not isinstance(value, TensorImpl):
            continue
        if not value.is_cuda:
            raise RuntimeError(
                f"launch: kernel '{name}': argument '{each}' is on {value.device}, expected a CUDA tensor; "
                f"pass {each}.cuda()"
            )
        if device is not None and value.device is not device:
            raise RuntimeError(f"launch: kernel '{name}': {two_devices(device, value.device)}")
        device = value.device
    return Device("cuda", driver().current_device()) if device is None else device


def constant(name: str, each: str, value: Any) -> object:
    """Return a constexpr as a kernel sees it: dtypes as Triton's. Raise TypeError for a tensor."""
    if isinstance(value, TensorImpl):
        raise TypeError(f"launch: kernel '{name}': argument '{each}' is a constexpr, got a Tensor")
    if isinstance(value, ScalarType):
        if value.triton_name is None:
            raise TypeError(f"launch: kernel '{name}': argument '{each}': Triton has no {value}")
        return triton_type(value)
    return value


def whole_grid(
    name: str, grid: Any, arguments: Mapping[str, Any], options: tuple[int, int, bool]
) -> tuple[int, int, int]:
    """Three sizes from up to three, or from a function of the arguments. Raises TypeError for anything else."""
    if callable(grid):
        num_warps, num_stages, _ = options
        grid = grid({**arguments, "num_warps": num_warps, "num_stages": num_stages})
    if (
        not isinstance(grid, tuple | list)
        or not 1 <= len(grid) <= MAX_GRID_RANK
        or not all(size.__class__ is int for size in grid)
    ):
        raise TypeError(f"launch: kernel '{name}': expected a grid of one to three ints, got {grid!r}")
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z
