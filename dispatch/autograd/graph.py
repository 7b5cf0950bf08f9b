"""`tt.autograd.graph`: the user's access to the graph, its nodes, edges and hooks (torch/autograd/graph.py)."""

from __future__ import annotations

import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ...runtime.fork_lock import forkable
from ...runtime.tensor_impl import TensorImpl
from ...runtime.thread_state import inherited
from . import engine
from . import gradients as functional
from .node import GradientEdge, Node, RemovableHandle, root_edge
from .saved_tensors import disable_saved_tensors_hooks, save_on_cpu, saved_tensors_hooks

if TYPE_CHECKING:
    from ..tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
]


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of a tensor (`torch.autograd.graph.get_gradient_edge`); it keeps the graph alive, not the
    tensor.

    `tt.autograd.backward` and `tt.autograd.grad` accept the edge instead of the tensor.

    Raises:
        RuntimeError: for a tensor that does not require grad.

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2, requires_grad=True)
        >>> edge = tt.autograd.graph.get_gradient_edge(x * 2)
        >>> edge.node.name(), edge.output_nr
        ('MulBackward0', 0)
    """
    if not tensor._spec.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require gradients"
        )
    return GradientEdge(*root_edge(tensor))


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Count a write to one or several tensors that autograd does not see (`torch.autograd.graph.increment_version`).

    Example:
        >>> import triten as tt
        >>> x = tt.ones(2)
        >>> tt.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    for each in (tensor,) if isinstance(tensor, TensorImpl) else tensor:
        if not each._spec.is_inference:
            each.version_cell()[0] += 1


class Task:
    """Run of the engine, with its roots and requested inputs."""

    def __init__(self, roots: Sequence[Any], inputs: Sequence[Any] | None) -> None:
        self.has_inputs = inputs is not None
        self.callbacks: list[Callable[[], None]] = []
        self._roots = [node for node, _ in roots]
        self._inputs = None if inputs is None else {node for node, _ in inputs}

    @functools.cached_property
    def running(self) -> set[Node]:
        """The nodes that this run reaches."""
        reached = set(_below(self._roots))
        if self._inputs is None:
            return reached
        return reached & (engine._nodes_towards(self._roots, self._inputs) | self._inputs)


def _below(roots: Iterable[Node]) -> Iterable[Node]:
    seen: set[Node] = set()
    pending = list(roots)
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            yield node
            pending += [edge[0] for edge in node.next_edges if edge is not None]


class _Tasks(threading.local):
    current: Task | None = None


_tasks = inherited(_Tasks())


def current_task() -> Task | None:
    """Return this thread's current engine run; None outside of any run, and before `know_tasks`."""
    return _tasks.current


@functools.cache
def know_tasks() -> None:
    """Make the engine track the current run from now on, so that hooks can query it."""

    def known(run: Callable[..., Any], roots_of: Callable[[Any], Sequence[Any]]) -> Callable[..., Any]:
        def running(first: Any, *args: Any, **kwargs: Any) -> Any:
            before = _tasks.current
            task = _tasks.current = Task(roots_of(first), kwargs.get("inputs"))
            try:
                result = run(first, *args, **kwargs)
                while task.callbacks:
                    task.callbacks.pop(0)()
                return result
            finally:
                _tasks.current = before

        return running

    functional.run_from = known(functional.run_from, lambda root: (root,))
    functional.run_backward = known(functional.run_backward, lambda roots: roots)


def queue_callback(callback: Callable[[], None]) -> None:
    """Queue a callback for the end of this thread's current engine run.

    Raises:
        RuntimeError: this thread is in no engine run, or `know_tasks` was called after the run began.
    """
    task = current_task()
    if task is None:
        raise RuntimeError("Callbacks can only be installed during backward pass.")
    task.callbacks.append(callback)


class _Handles(RemovableHandle):
    """Handle that removes several hooks together."""

    __slots__ = ("_all",)

    def __init__(self, handles: Sequence[RemovableHandle]) -> None:
        super().__init__({})
        self._all = handles

    def remove(self) -> None:
        for handle in self._all:
            handle.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: Literal["all", "any"] = "all"
) -> RemovableHandle:
    """Call a hook when several tensors have their gradients (`torch.autograd.graph.register_multi_grad_hook`).

    Args:
        tensors: Tensors that require grad.
        fn: Function that each backward calls once with the gradients of all tensors, or None for a tensor without one.
            In the mode ``"any"`` it receives the gradient that arrives first.

    Raises:
        ValueError: for another mode.

    Example:
        >>> import triten as tt
        >>> a, b = (tt.ones(2, requires_grad=True) for _ in range(2))
        >>> c = a * b
        >>> handle = tt.autograd.graph.register_multi_grad_hook(
        ...     (a, b, c), lambda grads: print([g is not None for g in grads]))
        >>> c.sum().backward()
        [True, True, True]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    know_tasks()
    lock = forkable(threading.Lock())
    if mode == "any":
        done: set[Task | None] = set()

        def first(grad: Tensor) -> None:
            task = _tasks.current
            with lock:
                if task in done:
                    return
                done.clear()
                done.add(task)
            fn(grad)

        return _Handles([t.register_hook(first) for t in tensors if t._spec.requires_grad])
    nodes = [root_edge(tensor)[0] for tensor in tensors]
    gathered: dict[Task | None, list[Any]] = defaultdict(lambda: [None] * len(nodes))
    arrived: dict[Task | None, int] = defaultdict(int)

    def hook_of(index: int) -> Callable[[Any], None]:
        def hook(grad: Tensor) -> None:
            task = _tasks.current
            assert task is not None
            with lock:
                arrived[task] += 1
                gathered[task][index] = grad
                complete = arrived[task] == sum(node in task.running for node in nodes)
                if complete:
                    del arrived[task]
                    grads = gathered.pop(task)
            if complete:
                fn(grads)

        return hook

    return _Handles([tensor.register_hook(hook_of(number)) for number, tensor in enumerate(tensors)])
