"""One compilation as plain data, so that it can cross to another process and be cached."""

from __future__ import annotations

import importlib
import importlib.util
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ...triton_kernels.budget import name_of

Plain = dict[str, Any]


@dataclass(frozen=True)
class Request:
    """A kernel to be compiled, as a launch asks for it.

    Args:
        kernel: ``module:function``.
        target: major times 10 plus minor.
        signature: Triton's type of each parameter passed at launch.
        constants: the other parameters, encoded.
        divisible: parameters that are multiples of 16.
        options: Triton's options.
        key: Cache key of the result: source, configuration, target and versions.
    """

    kernel: str
    target: int
    signature: dict[str, str]
    constants: dict[str, Any]
    divisible: list[str]
    options: dict[str, Any]
    key: str


def load_module(source: str) -> ModuleType:
    """Load a module by its name, or from a Python file, whose stem becomes the module's name."""
    path = Path(source)
    if path.suffix != ".py":
        return importlib.import_module(source)
    if path.stem in sys.modules:
        return sys.modules[path.stem]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def find(name: str) -> Any:
    """Return the object that `name_of` names."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def encode(value: object) -> Any:
    """Encode a kernel's constant as JSON. Raise TypeError for other values."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return {"float": value.hex()}
    if isinstance(value, tuple):
        return {"tuple": [encode(item) for item in value]}
    if hasattr(value, "fn"):
        return {"function": name_of(value)}
    if hasattr(value, "primitive_bitwidth"):
        return {"dtype": str(value.name).replace("int", "i").replace("ui", "u")}  # type: ignore[attr-defined]
    raise TypeError(f"a kernel's constant: expected a number, a type or a function, got {value!r}")


def decode(value: Any) -> object:
    """Decode a constant encoded by `encode`."""
    if not isinstance(value, Mapping):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float.fromhex(content)
    if kind == "tuple":
        return tuple(decode(item) for item in content)
    if kind == "function":
        return find(content)
    import triton.language as tl

    return tl.str_to_ty(content, None)


def readable(value: Any) -> str:
    """Format an encoded constant for a table."""
    if not isinstance(value, Mapping):
        return str(value)
    ((kind, content),) = value.items()
    if kind == "float":
        number = float.fromhex(content)
        return str(int(number)) if math.isfinite(number) and number == int(number) else str(number)
    return str(content).rpartition(":")[2]
