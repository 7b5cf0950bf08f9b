"""What programs ask of PyTorch's compiler by its private name (`torch._dynamo`): `tt.compiler` has it all.

`OptimizedModule` is the class of modules that `tt.compile` wraps. `config` keeps what is set; `recompile_limit` and its
former name `cache_size_limit` are the most graphs of a function, all else has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..compiler import allow_in_graph as allow_in_graph
from ..compiler import assume_constant_result as assume_constant_result
from ..compiler import disable as disable
from ..compiler import explain as explain
from ..compiler import is_compiling as is_compiling
from ..compiler import list_backends as list_backends
from ..compiler import optimized as _optimized
from ..compiler import register_backend as register_backend
from ..compiler import reset as reset
from ..compiler.optimized_module import OptimizedModule as OptimizedModule
from ..compiler.size_marks import ConstraintViolationError as ConstraintViolationError
from ..compiler.size_marks import mark_dynamic as mark_dynamic
from ..compiler.size_marks import mark_static as mark_static
from ..compiler.size_marks import maybe_mark_dynamic as maybe_mark_dynamic


class Config:
    """Settings of the compiler: any may be set."""

    def __init__(self) -> None:
        self.disable = False
        self.suppress_errors = False

    @property
    def recompile_limit(self) -> int:
        """The most graphs of a function that names no limit of its own."""
        return _optimized.LIMIT

    @recompile_limit.setter
    def recompile_limit(self, limit: int) -> None:
        _optimized.LIMIT = limit

    cache_size_limit = recompile_limit

    @contextmanager
    def patch(self, changes: dict[str, Any] | None = None, **more: Any) -> Iterator[None]:
        """A block with other settings."""
        wanted = {**(changes or {}), **more}
        absent = object()
        before = {name: getattr(self, name, absent) for name in wanted}
        for name, value in wanted.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is absent:
                    delattr(self, name)
                else:
                    setattr(self, name, value)


config = Config()


def mark_static_address(*args: Any, **kwargs: Any) -> None:
    """No graph keeps addresses."""


def graph_break(msg: str = "") -> None:
    """End a graph here: a function that is being captured runs eagerly."""
    if is_compiling():
        from ..compiler import Unsupported

        raise Unsupported(msg or "the function calls graph_break()")
