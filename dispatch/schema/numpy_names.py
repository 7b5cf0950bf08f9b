"""NumPy's argument names, which operators accept besides their own: ``tt.sum(x, axis=0, keepdims=True)``.

PyTorch's argument parser also accepts them (`numpy_compatibility_arg_names` in
torch/csrc/utils/python_arg_parser.cpp). A call without them costs next to nothing:

- Binding (`signature.Signature`) sees keywords anyway.
- Generated functions have these names as their last parameters, and leave calls that give one to
  `OverloadPacket.call_named` (`core/flat_signature.py`).
- Hand-written functions that PyTorch's parser serves are decorated with `tensor_function.numpy_named`.

An operator's own parameter takes precedence over NumPy's of the same name, such as the `x` of `trapezoid`. An
argument given under both names is an error. An argument given by its own name at its default counts as not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NUMPY_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "dim": ("axis",),
    "keepdim": ("keepdims",),
    "input": ("x", "a", "x1"),
    "other": ("x2",),
    "split_size": ("split_size_or_sections",),
}
"""NumPy's names of each parameter, by its own name. The last row is that of `torch.split`, a Python function."""

OWN_NAMES: Final[Mapping[str, str]] = {name: own for own, names in NUMPY_NAMES.items() for name in names}
"""The parameter that a NumPy name stands for."""


__all__ = ["NUMPY_NAMES", "OWN_NAMES"]
