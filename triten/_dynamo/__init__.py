"""Compiler names under PyTorch's private path (`torch._dynamo`); most are those of `tt.compiler`.

`OptimizedModule` is the class of modules that `tt.compile` wraps. `config` has the settings.
"""

from __future__ import annotations

from typing import Any

from ..compiler import allow_in_graph as allow_in_graph
from ..compiler import assume_constant_result as assume_constant_result
from ..compiler import disable as disable
from ..compiler import explain as explain
from ..compiler import is_compiling as is_compiling
from ..compiler import list_backends as list_backends
from ..compiler import register_backend as register_backend
from ..compiler import reset as reset
from ..compiler.optimized_module import OptimizedModule as OptimizedModule
from ..compiler.size_marks import ConstraintViolationError as ConstraintViolationError
from ..compiler.size_marks import mark_dynamic as mark_dynamic
from ..compiler.size_marks import mark_static as mark_static
from ..compiler.size_marks import maybe_mark_dynamic as maybe_mark_dynamic
from . import config as config
from . import eval_frame as eval_frame
from . import utils as utils


def mark_static_address(*args: Any, **kwargs: Any) -> None:
    """Do nothing: no graph keeps addresses."""


def graph_break(msg: str = "") -> None:
    """Cause a graph break: a function that is being captured runs eagerly.

    Raises:
        Unsupported: The function is being captured.
    """
    if is_compiling():
        from ..compiler import Unsupported

        raise Unsupported(msg or "the function calls graph_break()")
