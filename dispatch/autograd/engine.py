"""Backward engine: runs a graph newest node first, without recursion (torch/csrc/autograd/engine.h).

Every node is younger than the nodes to which its gradients go. Taking nodes by descending sequence number therefore
guarantees that all gradients of a node have arrived before it runs. Dependencies need no counting, except for leaves
with hooks (`arrivals`).
"""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.dispatch_key import Functionality, functionality_bit
from ...runtime.fork_lock import forkable
from ...runtime.grad_mode import is_grad_enabled, set_grad_enabled
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import local, modes
from ...runtime.memory_format import contiguous_format
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ...runtime.thread_state import with_room
from ..core.mode_stack import sees_whole
from ..core.native_calls import from_composites
from .arrivals import Arrivals
from .node import AccumulateGrad, Edge, Node
from .reduce_to_spec import reduce_to_spec

if TYPE_CHECKING:
    from ..tensor import Tensor

_BATCHED = functionality_bit(Functionality.Batched)
PYTHON_BIT = functionality_bit(Functionality.Python)
_OUT_OF_PLACE = _BATCHED | PYTHON_BIT


class _GraphTask(threading.local):
    keeps_graph = True


graph_task = _GraphTask()
"""True if this thread's current backward pass retains the graph; True outside of any pass."""

_accumulating = forkable(threading.RLock())
"""Held while a leaf's gradient is read and written, since threads may share leaves."""


def run_backward(
    roots: Sequence[Edge],
    grads: Sequence[Any],
    *,
    retain_graph: bool,
    create_graph: bool,
    inputs: Sequence[Edge] | None = None,
    accumulate_inputs: bool = False,
) -> list[Any]:
    """Send gradients from roots to the leaves.

    With `inputs`, return the gradients of those edges in order (None if no gradient arrived), and leave all leaves
    unchanged. With `accumulate_inputs` also, run the nodes of `inputs` instead: leaves accumulate, and other nodes
    call their hooks. Return an empty list in the other cases.
    """
    if not roots:
        return [None] * len(inputs or ())
    if inputs is None and len(roots) == 1:
        run_from(roots[0], grads[0], retain_graph, create_graph)
        return []
    before, previously_kept = set_grad_enabled(create_graph), graph_task.keeps_graph
    graph_task.keeps_graph = retain_graph
    try:
        if _are_observed(grads):
            with from_composites():
                return _run(roots, grads, retain_graph, inputs, accumulate_inputs)
        return _run(roots, grads, retain_graph, inputs, accumulate_inputs)
    finally:
        graph_task.keeps_graph = previously_kept
        set_grad_enabled(before)


def run_from(root: Edge, grad: Tensor, retain_graph: bool, create_graph: bool) -> None:
    """Run backward from one root to the leaves; see `run_backward`."""
    before, previously_kept = set_grad_enabled(create_graph), graph_task.keeps_graph
    graph_task.keeps_graph = retain_graph
    try:
        if (modes or grad._spec.keys) and _are_observed((grad,)):
            with from_composites():
                _run((root,), (grad,), retain_graph, None)
        else:
            _run_chain(root, grad, retain_graph)
    finally:
        graph_task.keeps_graph = previously_kept
        set_grad_enabled(before)


def _are_observed(grads: Sequence[Any]) -> bool:
    """Return whether a mode or a tensor subclass may see the calls of a backward pass."""
    if modes and local.included & PYTHON_BIT:
        return True
    return any(grad is not None and grad._spec.keys & PYTHON_BIT for grad in grads)


def _run_chain(root: Edge, grad: Tensor, retain_graph: bool) -> None:
    """Run a graph that is a chain of nodes without hooks and ends in leaves; hand any other graph to `_run`."""
    node, number = root
    while True:
        if node.hooks is not None or node.__class__ is AccumulateGrad or len(node.specs) != 1:
            _run(((node, number),), (grad,), retain_graph, None)
            return
        results = node.backward(grad)
        edges = node.next_edges
        if len(edges) > 1 and (len(edges) > 2 or results[0] is results[1]):
            _mark_repeated(results)
        following: Edge | None = None
        for position, onward in enumerate(edges):
            grad = results[position]
            if onward is None or grad is None:
                continue
            target = onward[0]
            spec = target.specs[onward[1]]
            if grad._spec is not spec and grad._spec.twin is not spec:
                grad = reduce_to_spec(grad, spec, node)
            if target.__class__ is AccumulateGrad and target.hooks is None:
                accumulate(target, grad)
            elif following is None:
                following, next_grad = onward, grad
            else:
                pending = [(following, next_grad), (onward, grad)]
                for later, other in zip(edges[position + 1 :], results[position + 1 :], strict=True):
                    if later is not None and other is not None:
                        pending.append((later, _fitting(later, other, node)))
                if not retain_graph:
                    node.release()
                _run([e for e, _ in pending], [g for _, g in pending], retain_graph, None)
                return
        if not retain_graph:
            node.release()
        if following is None:
            return
        node, number = following
        grad = next_grad


def _fitting(edge: Edge, grad: Tensor, node: Node) -> Tensor:
    spec = edge[0].specs[edge[1]]
    return grad if grad._spec is spec or grad._spec.twin is spec else reduce_to_spec(grad, spec, node)


def _run(
    roots: Sequence[Edge],
    grads: Sequence[Any],
    retain_graph: bool,
    inputs: Sequence[Edge] | None,
    accumulate_inputs: bool = False,
) -> list[Any]:
    captured: list[Any] = []
    capture_positions: dict[tuple[Node, int], list[int]] | None = None
    needed: set[Node] | None = None
    if inputs is not None:
        targets = {node for node, _ in inputs}
        needed = _nodes_towards([node for node, _ in roots], targets)
        if accumulate_inputs:
            needed |= targets
        else:
            capture_positions = {}
            captured = [None] * len(inputs)
            for position, edge in enumerate(inputs):
                capture_positions.setdefault(edge, []).append(position)
    buffers: dict[Node, Any] = {}
    heap: list[tuple[int, int, Node]] = []
    arrivals: Arrivals | None = None
    # A mode sees PyTorch's accumulation: one, of the sum of a leaf's gradients.
    sums_leaves = sees_whole()
    if len(roots) == 1 and len(roots[0][0].specs) == 1:
        node, buffer = roots[0][0], grads[0]
    else:
        for (root, number), grad in zip(roots, grads, strict=True):
            if (
                root.__class__ is AccumulateGrad
                and (root.hooks is not None or sums_leaves)
                and needed is None
            ):
                if arrivals is None:
                    arrivals = Arrivals(roots, _added, _run_leaf, sums_leaves)
                arrivals.arrive(root, grad)
            else:
                _send(buffers, heap, root, number, grad)
        if not heap:
            return captured
        node = heapq.heappop(heap)[2]
        buffer = buffers.pop(node)
    next_buffer: Any = None
    while True:
        following: Node | None = None
        hooks = node.hooks
        if (
            hooks is not None
            and (hooks.tensor or hooks.retain or hooks.pre)
            and (needed is None or _is_asked_for(node, needed, inputs))
        ):
            buffer = _gradient_hooks(node, buffer)
            if capture_positions is not None:
                _capture(node, buffer, capture_positions, captured)
            if hooks.pre and (needed is None or node in needed):
                buffer = _before(node, buffer)
        elif capture_positions is not None:
            _capture(node, buffer, capture_positions, captured)
        if node.__class__ is AccumulateGrad:
            if needed is None or node in needed:
                accumulate(node, buffer)
        elif needed is None or node in needed:
            results = node.backward(buffer) if buffer.__class__ is not list else node.backward(*buffer)
            if hooks is not None and hooks.post:
                results = _after(node, results, buffer)
            edges = node.next_edges
            count = len(edges)
            if count > 1 and (count > 2 or results[0] is results[1]):
                _mark_repeated(results)
            for onward, grad in zip(edges, results):  # noqa: B905 - of one length by construction
                if onward is None or grad is None:
                    continue
                target, number = onward
                specs = target.specs
                spec = specs[number]
                if grad._spec is not spec and grad._spec.twin is not spec:
                    grad = reduce_to_spec(grad, spec, node)
                if target.__class__ is AccumulateGrad and needed is None:
                    if target.hooks is None and not sums_leaves:
                        accumulate(target, grad)
                        continue
                    if arrivals is None:
                        # Nodes that received a gradient before are older than all nodes still to run.
                        waiting = [*edges, *[(each[2], 0) for each in heap]]
                        if following is not None:
                            waiting.append((following, 0))
                        arrivals = Arrivals(waiting, _added, _run_leaf, sums_leaves)
                    arrivals.arrive(target, grad)
                elif target is following:
                    next_buffer = (
                        _added(next_buffer, grad)
                        if next_buffer._spec.keys or grad._spec.keys
                        else next_buffer + grad
                    )
                elif len(specs) > 1 or target in buffers:
                    _send(buffers, heap, target, number, grad)
                elif following is None:
                    following, next_buffer = target, grad
                elif target.sequence > following.sequence:
                    _send(buffers, heap, following, 0, next_buffer)
                    following, next_buffer = target, grad
                else:
                    _send(buffers, heap, target, 0, grad)
            if not retain_graph:
                node.release()
        # The youngest receiving node bypasses the heap if the heap has no younger one.
        if following is not None and not (heap and -heap[0][0] > following.sequence):
            node, buffer = following, next_buffer
            continue
        if following is not None:
            _send(buffers, heap, following, 0, next_buffer)
        elif not heap:
            if arrivals is not None:
                arrivals.end()
            return captured
        node = heapq.heappop(heap)[2]
        buffer = buffers.pop(node)


def _run_leaf(node: AccumulateGrad, grad: Tensor) -> None:
    """Deliver the gradient of a leaf with hooks."""
    hooks = node.hooks
    if hooks is not None and (hooks.tensor or hooks.retain or hooks.pre):
        grad = _before(node, _gradient_hooks(node, grad))
    accumulate(node, grad)


def _is_asked_for(node: Node, needed: set[Node], inputs: Sequence[Edge] | None) -> bool:
    """Return whether a node is an input or leads to one; other gradients are unused."""
    return node in needed or any(target is node for target, _ in inputs or ())


def _mark_repeated(results: Sequence[Any]) -> None:
    """Mark a gradient that goes along several edges, so that no leaf takes ownership of it."""
    if len(results) == 3:
        first, second, third = results
        if first is not second and first is not third and second is not third:
            return
    for position, grad in enumerate(results):
        if grad is not None:
            for other in results[:position]:
                if other is grad:
                    mark_shared(grad)


def _send(
    buffers: dict[Node, Any], heap: list[tuple[int, int, Node]], node: Node, number: int, grad: Tensor
) -> None:
    """Add a gradient to a node's buffer; the first one puts the node on the heap."""
    outputs = len(node.specs)
    present = buffers.get(node)
    if present is None:
        heapq.heappush(heap, (-node.sequence, id(node), node))
        if outputs == 1:
            buffers[node] = grad
        else:
            buffers[node] = [None] * outputs
            buffers[node][number] = grad
    elif outputs == 1:
        buffers[node] = _added(present, grad)
    else:
        present[number] = grad if present[number] is None else _added(present[number], grad)


def _added(present: Tensor, grad: Tensor) -> Tensor:
    """Return the sum of two gradients of one tensor; add a sparse one to a dense one, in either order of arrival.

    The later of two sparse ones comes first, as in PyTorch: an uncoalesced sum shows the order of its elements.
    """
    return present + grad if present._spec.layout is strided else grad + present


def _gradient_hooks(node: Node, buffer: Any) -> Any:
    """Call the hooks of single outputs and of `retain_grad`. Return the gradients that they leave."""
    hooks = node.hooks
    assert hooks is not None
    grads = buffer if buffer.__class__ is list else [buffer]
    for grad in grads:
        if grad is not None:
            mark_shared(grad)
    for number, hook in list(hooks.tensor.values()):
        # A hook on one of several outputs runs with its node: it gets None if only the others have a gradient.
        replaced = with_room(hook, grads[number])
        if replaced is not None:
            _check_replacement(hook, grads[number], replaced)
            grads[number] = replaced
            mark_shared(replaced)
    for number, keep in list(hooks.retain.items()):
        if grads[number] is not None:
            keep(grads[number])
    return grads if buffer.__class__ is list else grads[0]


def _before(node: Node, buffer: Any) -> Any:
    """Call the hooks before a node that runs. Return the gradients that they leave."""
    assert node.hooks is not None
    grads = _by_output(node, buffer)
    for pre in list(node.hooks.pre.values()):
        replaced = with_room(pre, grads)
        if replaced is not None:
            grads = _replacements(pre, replaced, len(grads))
    tensors = node.output_kinds()
    left = list(grads) if tensors is None else list(itertools.compress(grads, tensors))
    return left if buffer.__class__ is list else left[0]


def _replacements(hook: Callable[..., Any], replaced: Any, count: int) -> tuple[Any, ...]:
    """Return a hook's result as a tuple. Raise RuntimeError if it has another length."""
    values = tuple(replaced) if isinstance(replaced, tuple | list) else (replaced,)
    if len(values) != count:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', repr(hook))}' has returned an incorrect number of values (got "
            f"{len(values)}, but expected {count})"
        )
    return values


def _by_output(node: Node, buffer: Any) -> tuple[Any, ...]:
    """Return a node's gradients for its hooks: one for each output, None for outputs that are not tensors."""
    grads = tuple(buffer) if buffer.__class__ is list else (buffer,)
    tensors = node.output_kinds()
    if tensors is None:
        return grads
    arrived = iter(grads)
    return tuple([next(arrived) if is_tensor else None for is_tensor in tensors])


def _check_replacement(hook: Callable[..., Any], grad: Tensor | None, replaced: object) -> None:
    """Raise TypeError or RuntimeError for a hook result that cannot replace the gradient."""
    if grad is None:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', repr(hook))}' can't replace a None gradient with a non-None value"
        )
    if not isinstance(replaced, TensorImpl):
        raise TypeError(f"expected Variable, but hook returned '{type(replaced).__name__}'")
    name, actual, expected = getattr(hook, "__name__", repr(hook)), replaced._spec, grad._spec
    if actual.sizes != expected.sizes:
        raise RuntimeError(
            f"hook '{name}' has changed the size of value: expected {list(expected.sizes)}, got {list(actual.sizes)}"
        )
    if actual.dtype is not expected.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value: expected {expected.dtype}, got {actual.dtype}"
        )
    if actual.device is not expected.device:
        raise RuntimeError(
            f"hook '{name}' has changed the device of value: expected {expected.device}, got {actual.device}"
        )


def _after(node: Node, results: Sequence[Any], buffer: Any) -> Sequence[Any]:
    assert node.hooks is not None
    for grad in results:
        if grad is not None:
            mark_shared(grad)
    outputs = _by_output(node, buffer)
    for hook in list(node.hooks.post.values()):
        replaced = with_room(hook, tuple(results), outputs)
        if replaced is not None:
            results = _replacements(hook, replaced, len(results))
    return results


def _capture(
    node: Node, buffer: Any, capture_positions: dict[tuple[Node, int], list[int]], captured: list[Any]
) -> None:
    for number, grad in enumerate(buffer if buffer.__class__ is list else (buffer,)):
        for position in capture_positions.get((node, number), ()):
            captured[position] = grad
            if grad is not None:
                mark_shared(grad)


def accumulate(node: AccumulateGrad, grad: Tensor | None) -> None:
    """Add to ``leaf.grad``: in place if the gradient is not recorded, else out of place (double backward)."""
    leaf: Any = node.leaf()
    if leaf is None or grad is None or not leaf._spec.requires_grad:  # the leaf may no longer require grad
        return
    meta = leaf._autograd
    with _accumulating:
        present = meta.grad
        if present is None:
            spec = grad._spec
            is_own = grad._version_cell is None and grad._view_base is None and not spec.overlaps
            # Most gradients have no other holder and the leaf's layout.
            meta.grad = grad if is_own and spec.twin is leaf._spec else _as_own(leaf._spec, grad)
        elif is_grad_enabled() or present._spec.requires_grad or grad._spec.keys & _OUT_OF_PLACE:
            # Under `create_graph`, tensors that the program read from `.grad` before stay unchanged.
            # A batched gradient may have more examples than the present one; a distributed one may have another
            # placement.
            is_dense = present._spec.layout is strided or grad._spec.layout is not strided
            meta.grad = present + grad if is_dense else grad + present
        elif present._spec.layout is not strided and grad._spec.layout is strided:
            meta.grad = grad + present
        else:
            present.add_(grad)
    hooks = node.hooks
    if hooks is not None:
        for hook in list(hooks.accumulated.values()):
            with_room(hook, leaf)
        for hook in list(hooks.post.values()):
            with_room(hook, (), (grad,))


def _as_own(leaf: TensorSpec, grad: Tensor) -> Tensor:
    """Return a first gradient in a form that the leaf can own: unshared memory in the leaf's layout.

    A non-overlapping and dense leaf has gradients with its strides; any other leaf has contiguous ones (PyTorch's
    gradient layout contract). Code that iterates over leaves and gradients together finds equal layouts.
    """
    spec = grad._spec
    if spec is leaf or spec.twin is leaf or spec.keys or _laid_out_as(leaf, spec):
        if spec.requires_grad and is_grad_enabled():
            return grad
        return grad.clone() if spec.requires_grad or _is_shared(grad) else grad
    if not leaf.is_dense():
        return grad.clone(memory_format=contiguous_format)
    return grad.new_empty_strided(leaf.sizes, leaf.strides).copy_(grad)


def _laid_out_as(leaf: TensorSpec, spec: TensorSpec) -> bool:
    if not leaf.is_dense():
        return spec.is_contiguous
    return spec.strides == leaf.strides or all(
        size == 1 or own == other
        for size, own, other in zip(spec.sizes, spec.strides, leaf.strides, strict=True)
    )


def own_copy(grad: Tensor) -> Tensor:
    """Return a copy of a gradient for a holder other than backward."""
    return grad.clone(memory_format=contiguous_format)


def _is_shared(grad: TensorImpl) -> bool:
    """Return whether a gradient may share memory: a view, an expanded tensor, or one marked by `mark_shared`."""
    return grad._version_cell is not None or grad._view_base is not None or grad._spec.overlaps


def mark_shared(grad: TensorImpl) -> None:
    """Mark a gradient as shared by giving it a version counter, so that a leaf copies it."""
    if not grad._spec.is_inference:
        grad.version_cell()


def _nodes_towards(roots: Sequence[Node], targets: set[Node]) -> set[Node]:
    """Return the nodes on some path from the roots to the targets."""
    towards: set[Node] = set()
    seen: set[Node] = set()
    order: list[Node] = []
    stack = list(roots)
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        order.append(node)
        stack.extend(edge[0] for edge in node.next_edges if edge is not None)
    for node in sorted(order, key=lambda n: n.sequence):
        if any(edge is not None and (edge[0] in towards or edge[0] in targets) for edge in node.next_edges):
            towards.add(node)
    return towards
