"""Checks of factory options: ``requires_grad``, and options given together with ``out=``.

Source: `check_out_type_matches` in torch/csrc/autograd/utils/python_arg_parsing.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...runtime.device import device as Device
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.traceback_filter import api_boundary
from ..schema import parse_type
from ..schema.mismatch import value_type_name
from ..schema.type_check import MISMATCH, compile_check, python_type_name

_TYPES = {
    option: parse_type(text)
    for option, text in {
        "dtype": "ScalarType?",
        "layout": "Layout?",
        "device": "Device?",
        "pin_memory": "bool?",
    }.items()
}
_CONVERTERS = {option: compile_check(kind)[1] for option, kind in _TYPES.items()}
OPTIONS = frozenset(_TYPES)


@api_boundary
def check_requires_grad(name: str, requires_grad: object) -> None:
    """Raise TypeError for a factory's `requires_grad` that is neither a bool nor None."""
    if requires_grad is not None and requires_grad.__class__ is not bool:
        type_name = value_type_name(requires_grad)
        raise TypeError(f"{name}(): argument 'requires_grad' must be bool, not {type_name}")


@api_boundary
def check_flags(name: str, **flags: object) -> None:
    """Raise TypeError for an option that is not a bool, or is None, as in factories that PyTorch parses itself."""
    for flag, value in flags.items():
        if value.__class__ is not bool:
            raise TypeError(f"{name}(): argument '{flag}' must be bool, not {value_type_name(value)}")


def without_options(name: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments without the options that ``out`` determines.

    Raises TypeError for an option of the wrong type, RuntimeError for an option that contradicts the ``out`` tensor.
    """
    spec = kwargs["out"]._spec
    for option, convert in _CONVERTERS.items():
        if option in kwargs and convert(kwargs[option], False) is MISMATCH:
            raise TypeError(
                f"{name}(): argument '{option}' must be {python_type_name(_TYPES[option])}, not "
                f"{value_type_name(kwargs[option])}"
            )
    dtype, layout, device = (kwargs.get(option) for option in ("dtype", "layout", "device"))
    if isinstance(dtype, ScalarType) and dtype is not spec.dtype:
        raise RuntimeError(
            f"dtype {dtype.scalar_name} does not match dtype of out parameter ({spec.dtype.scalar_name})"
        )
    if layout is not None and layout is not kwargs["out"].layout:
        raise RuntimeError(f"layout {layout} does not match layout of out parameter ({kwargs['out'].layout})")
    if device is not None:
        requested = device if isinstance(device, Device) else Device(device)
        if requested.type != spec.device.type:
            raise RuntimeError(
                f"device type {requested.type} does not match device type of out parameter ({spec.device.type})"
            )
    return {option: value for option, value in kwargs.items() if option not in OPTIONS}
