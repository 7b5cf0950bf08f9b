"""Graph nodes with their backward methods, and the edges along which gradients flow
(torch/csrc/autograd/function.h).
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ...runtime.errors import internal_assert
from ...runtime.grad_mode import grad_disabled, is_grad_enabled
from ...runtime.instance_attributes import blank_like
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.tensor_function import plain_classes

if TYPE_CHECKING:
    from ..schema.function_schema import FunctionSchema
    from ..tensor import Tensor
    from .recorder import Recording

next_sequence = itertools.count(1).__next__
Edge = tuple["Node", int]


class _Freed:
    __slots__ = ()

    def __repr__(self) -> str:
        return "<freed>"


FREED: Any = _Freed()
"""Sentinel in the slots of a node whose saved values backward has freed."""


class Packed:
    """Base of slot values that represent a saved tensor in another form (`saved_tensors`)."""

    __slots__ = ()

    def unpack(self) -> TensorImpl:
        """Return the tensor."""
        raise NotImplementedError(f"{type(self).__name__} holds no tensor")


class Node:
    """One recorded operation.

    `next_edges` has one entry for each differentiable input: the (node, output number) that receives its gradient, or
    None. `specs` describes the outputs, so that the engine can bring a gradient to their shape and dtype. Nodes are
    ordered by `sequence`: a node's inputs always have lower numbers.
    """

    __slots__ = ("__weakref__", "_metadata", "hooks", "next_edges", "sequence", "specs")

    _metadata: dict[str, Any]
    next_edges: Sequence[Edge | None]
    sequence: int
    specs: tuple[TensorSpec, ...]
    hooks: NodeHooks | None

    recording: ClassVar[tuple[Recording, FunctionSchema] | None] = None
    """The saved values of a generated class, and the schema of its operator; set with the first recorder."""

    on_new_class: ClassVar[list[Callable[[type[Node]], None]]] = []
    """Callbacks of observers, called with each new node class."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for watch in Node.on_new_class:
            watch(cls)

    def backward(self, *grads: Any) -> Sequence[Any]:
        """Return the gradients of the inputs from those of the outputs; None for an input without gradient."""
        internal_assert(False, f"{type(self).__name__} has no backward")

    def output_kinds(self) -> Sequence[bool] | None:
        """Return True for each output that is a tensor and False for others; None if all outputs are tensors."""
        return None

    def release(self) -> None:
        """Free saved tensors, after a backward that does not retain the graph."""

    def name(self) -> str:
        """Return the node's name in messages, such as ``MulBackward0``."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The edges as PyTorch shows them."""
        return tuple((None, 0) if edge is None else edge for edge in self.next_edges)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node; a result replaces ``grad_inputs``."""
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks.add(self.hooks.post, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node; a result replaces them."""
        if self.hooks is None:
            self.hooks = NodeHooks()
        return self.hooks.add(self.hooks.pre, hook)

    @property
    def metadata(self) -> dict[str, Any]:
        """A dictionary for notes of the program about this node."""
        try:
            return self._metadata
        except AttributeError:
            self._metadata = {}
            return self._metadata

    @property
    def _input_metadata(self) -> tuple[Any, ...]:
        """Shape, dtype and device of each gradient that this node receives."""
        from .node_attributes import input_metadata

        return input_metadata(self)

    def _sequence_nr(self) -> int:
        """Return the number of this node in the order of recording."""
        return self.sequence

    def __call__(self, *grads: Tensor | None) -> Any:
        """Return the gradients of the inputs from those of the outputs, as `backward` does, without hooks.

        Raises:
            TypeError: for another number of gradients, or other than tensors and None.
        """
        if len(grads) != len(self.specs):
            raise TypeError(f"expected {len(self.specs)} arguments, got {len(grads)} instead")
        for position, grad in enumerate(grads):
            if grad is not None and not isinstance(grad, TensorImpl):
                raise TypeError(f"argument {position} is not a Variable, got {type(grad).__name__}")
        if all(grad is None for grad in grads):
            input_grads: tuple[Any, ...] = (None,) * len(self.next_edges)
        else:
            input_grads = tuple(self.backward(*grads))
        return input_grads[0] if len(input_grads) == 1 else input_grads

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


class GradientEdge(NamedTuple):
    """Destination of a tensor's gradient: a node and its output number (`torch.autograd.graph.GradientEdge`)."""

    node: Node
    output_nr: int
    ownership_token: Node | None = None

    # The interface that `root_edge` and the engine's entry points need from a tensor.

    @property
    def edge(self) -> Edge:
        """The node and the number."""
        return self.node, self.output_nr

    @property
    def _spec(self) -> TensorSpec:
        return self.node.specs[self.output_nr].differentiable

    @property
    def _autograd(self) -> GradientEdge:
        return self

    @property
    def _view_base(self) -> None:
        return None


class NodeHooks:
    """Hooks of one node: on single outputs, for retain_grad (by output, after those), before it, and after it.

    `accumulated` are the hooks on a leaf, called with the leaf after its gradient has changed.
    """

    __slots__ = ("accumulated", "post", "pre", "retain", "tensor")

    def __init__(self) -> None:
        self.accumulated: dict[int, Callable[[Any], Any]] = {}
        self.pre: dict[int, Callable[..., Any]] = {}
        self.post: dict[int, Callable[..., Any]] = {}
        self.tensor: dict[int, tuple[int, Callable[[Any], Any]]] = {}
        self.retain: dict[int, Callable[[Any], None]] = {}

    def add(self, hooks: dict[int, Any], hook: Any) -> RemovableHandle:
        """Register under a new number."""
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle


class RemovableHandle:
    """Handle that removes a hook (`torch.utils.hooks.RemovableHandle`).

    Args:
        hooks_dict: The dictionary that holds the hook under the number `id`. It is held weakly if its type allows.
        extra_dict: A dictionary, or a list of them, from which the number is also removed.

    Example:
        >>> from collections import OrderedDict
        >>> from triten.utils.hooks import RemovableHandle
        >>> hooks = OrderedDict()
        >>> handle = RemovableHandle(hooks)
        >>> hooks[handle.id] = print
        >>> handle.remove()
        >>> len(hooks)
        0
    """

    __slots__ = ("__weakref__", "_dicts", "id")

    id: int
    _numbers: ClassVar[itertools.count[int]] = itertools.count()

    def __init__(self, hooks_dict: Any, *, extra_dict: Any = None) -> None:
        extra = [extra_dict] if isinstance(extra_dict, dict) else extra_dict or []
        self._dicts = tuple([_held(each) for each in (hooks_dict, *extra)])
        self.id = next(RemovableHandle._numbers)

    @property
    def hooks_dict_ref(self) -> Callable[[], Any]:
        """The function that returns the dictionary of the hook; it returns None if the dictionary is gone."""
        return self._dicts[0]

    def remove(self) -> None:
        """Remove the hook; repeated calls do nothing."""
        for held in self._dicts:
            hooks = held()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self) -> tuple[Any, ...]:
        hooks, *extra = (held() for held in self._dicts)
        return hooks, self.id, tuple(extra)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        hooks, self.id, extra = state
        self._dicts = tuple([_held({} if each is None else each) for each in (hooks, *extra)])
        # New handles must not reuse the numbers of unpickled ones.
        RemovableHandle._numbers = itertools.count(max(self.id + 1, next(RemovableHandle._numbers)))

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def _held(hooks: Any) -> Callable[[], Any]:
    """Return a function that returns the dictionary: weakly if the type supports it, as `OrderedDict` does."""
    try:
        return weakref.ref(hooks)
    except TypeError:
        return lambda: hooks


class AutogradMeta:
    """Autograd metadata of a tensor: its edge and gradient.

    - `edge` leads to the node that made the tensor. For a leaf it leads to its `AccumulateGrad`, created on first
      use.
    - `version`, for views only, is the version of the memory at which the edge was computed.
    - `retains_grad` is set by `retain_grad` only.
    - `made_by` is set for one of several views.
    - `tangents` is set for tensors of forward mode.
    - `follows` is set for a view that requires grad because its base, a leaf, does.
    - `detached_at` is set by `detach_` for a tensor with history: the sequence number of that moment.
    - `held_by` is set for a leaf without `edge` that only a graph holds: a weak reference to its `AccumulateGrad`.
    """

    __slots__ = (
        "detached_at",
        "edge",
        "follows",
        "grad",
        "held_by",
        "made_by",
        "retains_grad",
        "tangents",
        "version",
    )

    detached_at: int
    edge: Edge | None
    follows: bool
    grad: Tensor | None
    held_by: weakref.ref[AccumulateGrad]
    made_by: str
    retains_grad: bool
    tangents: Mapping[int, Any]
    version: int


def leaf_meta() -> AutogradMeta:
    """Return the metadata of a leaf."""
    meta = AutogradMeta()
    meta.edge = meta.grad = None
    meta.version = 0
    return meta


class AccumulateGrad(Node):
    """Node at a leaf that adds the gradient to ``leaf.grad``. It holds the leaf weakly; the leaf holds it.

    A parameter that is about to be freed reverses this (`hold_leaf`): a graph that has the node keeps the parameter.
    """

    __slots__ = ("leaf",)

    def __init__(self, leaf: TensorImpl) -> None:
        self.leaf: Callable[[], TensorImpl | None] = weakref.ref(leaf)
        self.next_edges = ()
        self.sequence = 0
        self.specs = (leaf._spec,)
        self.hooks = None

    @property
    def variable(self) -> TensorImpl | None:
        """The leaf."""
        return self.leaf()

    def backward(self, *grads: Any) -> Sequence[Any]:
        """Add the gradient to the leaf's: the engine calls `accumulate` instead."""
        from .engine import accumulate

        accumulate(self, grads[0])
        return ()


class NotImplementedBackward(Node):
    """Node of an operator without derivative; backward through it raises PyTorch's error."""

    __slots__ = ("operator",)
    operator: str

    def backward(self, *grads: Any) -> Sequence[Any]:
        raise RuntimeError(f"derivative for {self.operator} is not implemented")

    def name(self) -> str:
        """Return PyTorch's name for it."""
        return "NotImplemented"


def hold_leaf(leaf: TensorImpl) -> None:
    """Let the node of a leaf hold the leaf, which its finalizer calls: the leaf lives on while a graph has the node.

    Without a graph, nothing else has the node: it is freed here, and the leaf after its finalizer.
    """
    meta = getattr(leaf, "_autograd", None)  # absent if the leaf's construction failed
    if meta is not None and meta.edge is not None and meta.edge[0].__class__ is AccumulateGrad:
        node: AccumulateGrad = meta.edge[0]
        meta.edge, meta.held_by = None, weakref.ref(node)
        node.leaf = lambda: leaf


def expect_metadata(leaf: TensorImpl) -> None:
    """Let the node of a leaf expect gradients of the leaf's changed sizes, dtype and device."""
    meta = leaf._autograd
    if meta is not None and meta.edge is not None and meta.edge[0].__class__ is AccumulateGrad:
        meta.edge[0].specs = (leaf._spec,)


def edge_of(tensor: Any) -> Edge | None:
    """Return the edge that receives the gradient of a tensor that requires grad; None for an unrecorded view."""
    meta: AutogradMeta = tensor._autograd
    base = tensor._view_base
    if base is not None and tensor._version_cell is not None and meta.version != tensor._version_cell[0]:
        from .view_history import refresh

        refresh(tensor)
        meta = tensor._autograd
    edge = meta.edge
    if edge is None:
        if base is not None:
            from .creation import is_unrecorded

            if is_unrecorded(tensor):
                return None
        node = meta.held_by() if hasattr(meta, "held_by") else None
        if node is not None:
            return node, 0
        edge = meta.edge = (AccumulateGrad(tensor), 0)
    return edge


def root_edge(tensor: Any) -> Edge:
    """Return the edge of a backward root or requested input. Raises RuntimeError if it has none."""
    edge = edge_of(tensor)
    if edge is None:
        raise RuntimeError("element 0 of tensors does not require grad and does not have a grad_fn")
    return edge


def set_edge(meta: AutogradMeta, edge: Edge) -> None:
    """Set the new edge of a written tensor; `retain_grad` stores the gradient at this edge from now on."""
    before, meta.edge = meta.edge, edge
    if before is None or not getattr(meta, "retains_grad", False):
        return
    (old, number), (node, new_number) = before, edge
    keep = None if old.hooks is None else old.hooks.retain.pop(number, None)
    if keep is not None:
        if node.hooks is None:
            node.hooks = NodeHooks()
        node.hooks.retain[new_number] = keep


def set_history(out: Any, node: Node, number: int = 0) -> None:
    """Make `node` the gradient function of a fresh output, unless its dtype is integral."""
    out._spec = out._spec.twin
    out._autograd = meta = AutogradMeta()
    meta.edge = (node, number)
    meta.grad = None
    if out._view_base is not None:
        meta.version = out._version_cell[0]


def saved_version(tensor: TensorImpl | None) -> int:
    """Return the version to store with a saved tensor; 0 for None.

    Raises RuntimeError for an inference tensor, which has none.
    """
    if tensor is None:
        return 0
    cell = tensor._version_cell
    if cell is not None:
        return int(cell[0])
    if tensor._spec.is_inference:
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal "
            "tensor and use it in autograd."
        )
    return 0


detached_in_place: list[bool] = []
"""Empty until the first `detach_` of a tensor with history, so that `unpack` has one flag to test."""


def detach_in_place(meta: AutogradMeta) -> None:
    """Drop the history of a tensor. Nodes that saved the tensor before refuse to unpack it."""
    edge, meta.edge = meta.edge, None
    if edge is not None and edge[0].__class__ is not AccumulateGrad:
        meta.detached_at = next_sequence()
        if not detached_in_place:
            detached_in_place.append(True)


def unpack(node: Node, tensor: Any, version: int) -> Any:
    """Return a saved input that is neither freed, nor modified, nor detached in place.

    Raises RuntimeError with PyTorch's messages otherwise.
    """
    if tensor is FREED:
        raise RuntimeError(
            "Trying to backward through the graph a second time (or directly access saved tensors after they have "
            "already been freed). Saved intermediate values of the graph are freed when you call .backward() or "
            "autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or "
            "if you need to access saved tensors after calling backward."
        )
    if isinstance(tensor, TensorImpl):
        cell = tensor._version_cell
        current = 0 if cell is None else cell[0]
        if current != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"[{tensor.dtype} {list(tensor.shape)}], which is saved by {node.name()}, is at version {current}; "
                f"expected version {version} instead. Hint: clone() it before modifying it in place."
            )
        if detached_in_place and getattr(tensor._autograd, "detached_at", 0) > node.sequence:
            raise RuntimeError(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
                f"supported: {node.name()} saved it with its history. Use out-of-place `.detach()` instead."
            )
    elif isinstance(tensor, Packed):
        return tensor.unpack()
    return tensor


def _blank_of(tensor: Any) -> Any:
    is_plain = tensor.__class__ in plain_classes
    return tensor._blank() if is_plain else blank_like(tensor)


def save_result(out: Any) -> Any:
    """Return an output as its own node can save it: the same memory and version counter, no edge back."""
    spec = out._spec
    saved = _blank_of(out)
    saved._data = out._data
    saved._spec = spec.twin if spec.requires_grad else spec
    saved._autograd = saved._view_base = None
    cell = out._version_cell
    if cell is None and not spec.is_inference:
        cell = out._version_cell = [0]
    saved._version_cell = cell
    return saved


def unpack_result(node: Node, saved: Any, version: int, number: int = 0) -> Any:
    """Return a saved output, reattached to its node if backward itself is recorded."""
    saved = unpack(node, saved, version)
    if grad_disabled and not is_grad_enabled():
        return saved
    out = _blank_of(saved)
    out._data, out._spec, out._version_cell = saved._data, saved._spec, saved._version_cell
    out._autograd = out._view_base = None
    set_history(out, node, number)
    if saved._autograd is not None:
        out._autograd.tangents = saved._autograd.tangents
    return out


def unpack_list(node: Node, tensors: Any, versions: Sequence[int]) -> Any:
    """Return the saved inputs of a list argument."""
    if tensors is FREED:
        unpack(node, tensors, 0)
    return [unpack(node, t, v) for t, v in zip(tensors, versions, strict=True)]
