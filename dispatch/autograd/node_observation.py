"""Observation of every node that backward runs, for traces and profilers.

The engine has no checks for observers. An observer replaces the `backward` of the node classes, and restores it when
closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from ...runtime.fork_lock import forkable
from . import engine
from .node import AccumulateGrad, Node

if TYPE_CHECKING:
    from ..tensor import Tensor

Backward = Callable[..., Any]
NodeObserver = Callable[[Node, Backward, tuple[Any, ...]], Any]

_lock = forkable(threading.Lock())


class ObservedNodes:
    """Observer that calls ``observe(node, backward, grads)`` for every node instead of ``backward(node, *grads)``.

    It is active until `close`, and also sees graphs recorded before. Code that creates node classes calls `cover` to
    include them. Only one observer may be active: a second one would restore the first one's hook.
    """

    def __init__(self, observe: NodeObserver) -> None:
        self._observe = observe
        self._undo = ExitStack()
        self._covered: set[type[Node]] = set()
        self._known = 0
        accumulate = engine.accumulate

        def accumulated(node: AccumulateGrad, grad: Tensor) -> None:
            observe(node, accumulate, (grad,))

        try:
            self.cover()
            self._undo.callback(setattr, engine, "accumulate", accumulate)
            setattr(engine, "accumulate", accumulated)  # noqa: B010 - mypy takes an assignment for a mistake
        except BaseException:  # on an interrupt, no caller holds the object to close
            self.close()
            raise

    def cover(self) -> None:
        """Observe the node classes created since the last call."""
        classes = Node.__subclasses__()
        if len(classes) == self._known:
            return
        with _lock:
            self._known, pending = len(classes), classes
            while pending:
                cls = pending.pop()
                pending += cls.__subclasses__()
                if cls not in self._covered:
                    self._covered.add(cls)
                    if "backward" in vars(cls):
                        self._replace(cls)

    def _replace(self, cls: type[Node]) -> None:
        observe, backward = self._observe, vars(cls)["backward"]

        def observed(node: Node, *grads: Any) -> Any:
            return observe(node, backward, grads)

        self._undo.callback(type.__setattr__, cls, "backward", backward)
        type.__setattr__(cls, "backward", observed)

    def close(self) -> None:
        """Restore the original `backward` methods."""
        self._undo.close()
