"""Capabilities of NVIDIA architectures, checked before a kernel is compiled.

Source: Triton's list of supported platforms; "Table of conversions", PTX ISA, `cvt`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..tensor_map import descriptor_type
from .lazy_triton import stand_in

OLDEST = 80
"""Oldest compute capability that Triton supports, major times 10 plus minor."""

FIRST_WITH = {"fp8e4nv": 89}
"""Oldest architecture of each dtype that some architectures lack."""
FIRST_WITH_TENSOR_MAPS = 90

PUBLIC_NAMES = {
    "bf16": "bfloat16",
    "fp16": "float16",
    "fp32": "float32",
    "fp64": "float64",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
}
FLOATS = ("fp8e4nv", "fp8e5", "fp16", "bf16", "fp32", "fp64")


def check_architecture(
    name: str, signature: Mapping[str, str], constants: Iterable[object], capability: int
) -> None:
    """Raise if a kernel cannot be compiled for an architecture.

    Args:
        name: Name of the kernel.
        signature: Triton type of each launch parameter.
        constants: Values of the other parameters, including the dtypes in which the kernel computes.
        capability: Compute capability, ``80`` for sm_80.

    Raises:
        NotImplementedError: Names the kernel, the argument or dtype, the architecture and its supported dtypes.
    """
    if capability < OLDEST:
        raise NotImplementedError(
            f"kernel '{name}' is not implemented for sm_{capability}: Triton supports sm_{OLDEST} (compute "
            f"capability {OLDEST // 10}.{OLDEST % 10}) and later"
        )
    described = {type_: descriptor_type(type_) for type_ in signature.values()}
    for parameter, type_ in signature.items():
        if described[type_] is not None and capability < FIRST_WITH_TENSOR_MAPS:
            raise NotImplementedError(
                f"kernel '{name}' is not implemented for sm_{capability}: argument '{parameter}' is a tensor "
                f"descriptor, whose map needs sm_{FIRST_WITH_TENSOR_MAPS} or later"
            )
    used = {
        type_.lstrip("*k") if descriptor is None else descriptor.element
        for type_, descriptor in described.items()
    }
    used |= {getattr(stand_in(constant), "name", "") for constant in constants}
    for type_, first in FIRST_WITH.items():
        if type_ in used and capability < first:
            supported = [PUBLIC_NAMES[t] for t in FLOATS if FIRST_WITH.get(t, 0) <= capability]
            raise NotImplementedError(
                f"kernel '{name}' is not implemented for '{PUBLIC_NAMES[type_]}' on sm_{capability}: it needs "
                f"sm_{first} or later; sm_{capability} has {', '.join(supported)}"
            )
