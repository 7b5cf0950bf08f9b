"""Ahead-of-time export of programs (`torch.export`).

`export` makes an `ExportedProgram` from a module and example arguments. `save` writes it to a file with its tensors
and kernels. `load` reads it in another process, without the module's source. This module is callable:
``tt.export(module, args)`` is ``tt.export.export(module, args)``.

Example:
    >>> import io
    >>> import triten as tt
    >>> file = io.BytesIO()
    >>> tt.export.save(tt.export(tt.nn.Tanh(), (tt.zeros(2),)), file)
    >>> tt.export.load(file).module()(tt.zeros(2))
    tensor([0., 0.])
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from .compiler.export import (
    ConstantArgument,
    Dim,
    ExportedProgram,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
    ValueRange,
    dims,
    export,
    load,
    save,
)
from .compiler.export import passes as passes
from .utils._pytree import register_dataclass

__all__ = [
    "ConstantArgument",
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "TensorArgument",
    "ValueRange",
    "dims",
    "export",
    "load",
    "passes",
    "register_dataclass",
    "save",
]


class _CallableModule(ModuleType):
    """A module that can be called."""

    def __call__(self, *args: Any, **kwargs: Any) -> ExportedProgram:
        """`export` of the same arguments."""
        return export(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
