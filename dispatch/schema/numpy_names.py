"""NumPy's names of arguments, which every operator takes beside its own: ``tt.sum(x, axis=0, keepdims=True)``.

PyTorch's argument parser does (`numpy_compatibility_arg_names` in torch/csrc/utils/python_arg_parser.cpp). A call
without them pays next to nothing: binding (`signature.Signature`) sees keywords anyway; generated functions have these
names as their last parameters and leave calls that give one to `OverloadPacket.call_named` (`core/flat_signature.py`);
functions written by hand that PyTorch's parser serves are decorated with `tensor_function.numpy_named`. A parameter of
the operator's own comes before NumPy's of that name, as the `x` of `trapezoid`. To give one argument under both names
is an error; what is given by its own name at its default counts as not given.
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
"""The names of each parameter, by its own. The last row is that of `torch.split`, a Python function."""

OWN_NAMES: Final[Mapping[str, str]] = {name: own for own, names in NUMPY_NAMES.items() for name in names}
"""The parameter that a name of NumPy's stands for."""


__all__ = ["NUMPY_NAMES", "OWN_NAMES"]
