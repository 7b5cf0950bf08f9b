"""What stands around every node that backward runs: traces, profilers.

The engine asks nothing while nobody watches: an observer is put into the node classes themselves, in place of their
`backward`, and taken out again.
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
    """Calls ``observe(node, backward, grads)`` for every node instead of ``backward(node, *grads)`` until `close`.

    Graphs recorded before are seen as well. Classes that come into being meanwhile are found by `cover`, which whoever
    sees them come calls. One at a time: a second one would put the first one's observer back.
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
        except BaseException:  # an interrupt: no one has what closes it
            self.close()
            raise

    def cover(self) -> None:
        """Observe the node classes that are new since the last time."""
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
        """Put everything back as it was."""
        self._undo.close()
