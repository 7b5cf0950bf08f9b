"""What programs ask of PyTorch's compiler by its private name (`torch._dynamo`): nothing is compiled (`tt.compiler`).

`OptimizedModule` is the class of modules that `torch.compile` wraps: no module is one. `config` keeps what is set; it
has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from ..compiler import allow_in_graph as allow_in_graph
from ..compiler import assume_constant_result as assume_constant_result
from ..compiler import disable as disable



from ..nn.modules.module import Module


class OptimizedModule(Module):
    """A module that was compiled; none can be, so that `isinstance` is False."""

    def __init__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError("OptimizedModule: nothing is compiled; compile gives back the module itself")


class Config:
    """Settings of the compiler: any may be set, and none has an effect."""

    def __init__(self) -> None:
        self.disable = True
        self.suppress_errors = False

    @contextmanager
    def patch(self, changes: dict[str, Any] | None = None, **more: Any) -> Iterator[None]:
        """A block with other settings."""
        before = dict(vars(self))
        vars(self).update({**(changes or {}), **more})
        try:
            yield
        finally:
            vars(self).clear()
            vars(self).update(before)


config = Config()


def mark_dynamic(*args: Any, **kwargs: Any) -> None:
    """Sizes may be any in calls that run eagerly."""


def maybe_mark_dynamic(*args: Any, **kwargs: Any) -> None:
    """Sizes may be any in calls that run eagerly."""


def mark_static(*args: Any, **kwargs: Any) -> None:
    """Sizes may be any in calls that run eagerly."""


def mark_static_address(*args: Any, **kwargs: Any) -> None:
    """No graph is recorded that would keep addresses."""


def graph_break(msg: str = "") -> None:
    """There is no graph to break."""
