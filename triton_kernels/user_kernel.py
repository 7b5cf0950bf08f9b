"""A user's own Triton kernel over tensors: `library.launch` and `library.wrap_triton` (torch/_library/triton.py).

Arguments are typed and specialised as Triton's own launcher does it; compilation and launch are those of every other
kernel here, so that the current device and stream hold, and the interpreter's checks too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..runtime.cuda.driver import constexpr_key, driver, kernel_name
from ..runtime.cuda.lazy_triton import stand_in, tl
from ..runtime.device import device as Device
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.tensor_impl import TensorImpl
from .conversion import triton_type, type_name
from .elementwise import address
from .launch import ALIGNMENT, Launch

MAX_LAUNCHES = 1024
MAX_GRID_RANK = 3

_launches: dict[Any, Launch] = {}


class Parameter(NamedTuple):
    """A kernel's parameter: whether it is a constant, its annotated type, and what Triton may specialise on."""

    name: str
    is_constexpr: bool
    type_name: str | None
    by_value: bool
    by_alignment: bool


@functools.lru_cache(maxsize=1024)
def parameters_of(kernel: Any) -> tuple[inspect.Signature, tuple[Parameter, ...]]:
    """The signature and the parameters of a `@triton.jit` function. Raises TypeError for anything else."""
    if not callable(getattr(kernel, "fn", None)) or not hasattr(kernel, "arg_names"):
        raise TypeError(f"launch: kernel must be a triton.jit function, got {type(kernel).__name__}")
    if not inspect.isfunction(kernel.fn):
        raise TypeError(
            f"launch: kernel '{kernel.fn.__name__}' is wrapped in a {type(kernel).__name__}: choose a configuration "
            "and launch the triton.jit function itself, with the constants and num_warps of your choice"
        )
    options = getattr(kernel, "kwargs", {})

    def excluded(option: str) -> Sequence[int | str]:
        return getattr(kernel, option, None) or options.get(option) or ()

    whole, alignment = excluded("do_not_specialize"), excluded("do_not_specialize_on_alignment")
    signature = inspect.signature(kernel.fn)
    found = []
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        by_value = i not in whole and name not in whole
        by_alignment = by_value and i not in alignment and name not in alignment
        annotated, is_constexpr = _annotated_type(parameter.annotation)
        found.append(Parameter(name, is_constexpr, annotated, by_value, by_alignment))
    return signature, tuple(found)


def _annotated_type(annotation: Any) -> tuple[str | None, bool]:
    """The scalar type that an annotation names, and whether it says that the parameter is a constant."""
    if isinstance(annotation, str):
        annotation = getattr(tl, annotation.rpartition(".")[2].strip("\"'"), None)
    annotation = stand_in(annotation)
    if annotation is tl.constexpr:
        return None, True
    return (type_name(annotation) if isinstance(annotation, tl.dtype) else None), False


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
    given = bound.arguments
    device = device_of(name, given)
    types: dict[str, str] = {}
    constants: dict[str, object] = {}
    divisible: list[str] = []
    unaligned: list[str] = []
    values: list[int | float] = []
    for parameter in parameters:
        each, value = parameter.name, given[parameter.name]
        if parameter.is_constexpr or value is None:
            constants[each] = constant(name, each, value)
        elif isinstance(value, TensorImpl):
            types[each] = pointer_type(name, each, value)
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
    planned(whole_grid(name, grid, given, options), *values)


def device_of(name: str, given: Mapping[str, Any]) -> Device:
    """The device of a kernel's tensors; the current one if it has none. Raises RuntimeError for others than CUDA's."""
    found: Device | None = None
    for each, value in given.items():
        if not isinstance(value, TensorImpl):
            continue
        if not value.is_cuda:
            raise RuntimeError(
                f"launch: kernel '{name}': argument '{each}' is on {value.device}, expected a CUDA tensor"
            )
        if found is not None and value.device is not found:
            raise RuntimeError(
                f"launch: kernel '{name}': Expected all tensors to be on the same device, but found at least two "
                f"devices, {found} and {value.device}!"
            )
        found = value.device
    return Device("cuda", driver().current_device()) if found is None else found


def constant(name: str, each: str, value: Any) -> object:
    """A constant as a kernel sees it: dtypes as Triton's. Raises TypeError for a tensor."""
    if isinstance(value, TensorImpl):
        raise TypeError(f"launch: kernel '{name}': argument '{each}' is a constexpr, got a Tensor")
    if isinstance(value, ScalarType):
        if value.triton_name is None:
            raise TypeError(f"launch: kernel '{name}': argument '{each}': Triton has no {value}")
        return triton_type(value)
    return value


def pointer_type(name: str, each: str, tensor: TensorImpl) -> str:
    """Triton's type of a pointer to a tensor's elements. Raises TypeError for complex numbers."""
    if tensor.dtype.triton_name is None:
        raise TypeError(f"launch: kernel '{name}': argument '{each}': Triton has no {tensor.dtype}")
    return f"*{tensor.dtype.triton_name}"


def scalar_type(name: str, parameter: Parameter, value: Any) -> str:
    """Triton's type of a number: as annotated, else the narrowest of i32, i64 and u64, fp32, or i1."""
    kind = value.__class__
    if kind not in (bool, int, float):
        raise TypeError(
            f"launch: kernel '{name}': argument '{parameter.name}': expected a Tensor, a number or None, got "
            f"{kind.__name__}"
        )
    if parameter.type_name is not None:
        return parameter.type_name
    if kind is bool:
        return "i1"
    if kind is float:
        return "fp32"
    if -(1 << 31) <= value < 1 << 31:
        return "i32"
    if -(1 << 63) <= value < 1 << 63:
        return "i64"
    if 0 <= value < 1 << 64:
        return "u64"
    raise OverflowError(
        f"launch: kernel '{name}': argument '{parameter.name}': {value} has more than 64 bits"
    )


def whole_grid(
    name: str, grid: Any, given: Mapping[str, Any], options: tuple[int, int, bool]
) -> tuple[int, int, int]:
    """Three sizes from up to three, or from a function of the arguments. Raises TypeError for anything else."""
    if callable(grid):
        num_warps, num_stages, _ = options
        grid = grid({**given, "num_warps": num_warps, "num_stages": num_stages})
    if (
        not isinstance(grid, tuple | list)
        or not 1 <= len(grid) <= MAX_GRID_RANK
        or not all(size.__class__ is int for size in grid)
    ):
        raise TypeError(f"launch: kernel '{name}': expected a grid of one to three ints, got {grid!r}")
    x, y, z = (*grid, 1, 1)[:3]
    return x, y, z
