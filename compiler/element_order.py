"""Which elements of which step another step sees through views and copies, and steps that read them from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload, find_overload
from ..dispatch.generated import functions as ops
from ..dispatch.layers.graph.graph import Graph, Node, map_nodes
from ..runtime.memory_format import contiguous_strides
from ..runtime.tensor_spec import TensorSpec

VIEWS = frozenset({
    "aten::view", "aten::_unsafe_view", "aten::transpose.int", "aten::t", "aten::permute", "aten::expand",
    "aten::unsqueeze", "aten::squeeze", "aten::squeeze.dim", "aten::alias", "aten::detach",
})  # fmt: skip
"""Views that have every element of their operand once (`expand` if it repeats none)."""
COPY = "aten::clone"
PERMUTE = find_overload("aten::permute")


class Elements(NamedTuple):
    """Elements of `root`, a step's result in row-major order, as another step sees them.

    Attributes:
        root: The step.
        sizes: The sizes of the view.
        strides: The strides of the elements in row-major order; 0 along dimensions of size 1.
    """

    root: Node
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def is_row_major(self) -> bool:
        """True if the elements are in the root's row-major order."""
        return self.strides == row_major(self.sizes)

    def transposed(self) -> Elements:
        """Return the elements with the last two dimensions exchanged."""
        *sizes, rows, columns = self.sizes
        *strides, down, across = self.strides
        return Elements(self.root, (*sizes, columns, rows), (*strides, across, down))

    def joined(self, first: int = 2) -> Elements | None:
        """Return the view with its first dimensions merged; None if no single stride covers them."""
        sizes, strides = self.sizes[:first], self.strides[:first]
        size, step = 1, 0
        for n, s in zip(reversed(sizes), reversed(strides), strict=True):
            if n == 1:
                continue
            if size != 1 and s != step * size:
                return None
            size, step = size * n, step or s
        return Elements(self.root, (size, *self.sizes[first:]), (step, *self.strides[first:]))


def row_major(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of elements in row-major order, 0 along dimensions of size 1."""
    return tuple([0 if n == 1 else s for n, s in zip(sizes, contiguous_strides(sizes), strict=True)])


def seen(root: Node, spec: TensorSpec) -> Elements:
    """Return the elements with the layout of a spec."""
    strides = tuple([0 if n == 1 else s for n, s in zip(spec.sizes, spec.strides, strict=True)])
    return Elements(root, tuple(spec.sizes), strides)


def operator_name(node: Node) -> str:
    """Return the operator's name, such as ``aten::view``; empty if the node calls no operator."""
    return node.target._entry.name if isinstance(node.target, OpOverload) else ""


def elements_of(node: Node) -> Elements:
    """Return the elements that a step sees of the step before all views and copies."""
    return seen(*_followed(node))


def _followed(node: Node) -> tuple[Node, TensorSpec]:
    own = node, TensorSpec.contiguous(node.val.sizes, node.val.dtype, node.val.device)
    name = operator_name(node)
    if name not in VIEWS and name != COPY:
        return own
    root, spec = _followed(node.args[0])
    view_spec = viewed(node, spec)
    return own if view_spec is None else (root, view_spec)


def viewed(node: Node, spec: TensorSpec) -> TensorSpec | None:
    """Return the spec of a view or a copy over elements of this layout; None if no strides express it."""
    if operator_name(node) == COPY:
        return spec
    view_spec = meta_of(node.target, node.args, node.kwargs, {node.args[0]: spec})
    if view_spec is None or view_spec.sizes != node.val.sizes or view_spec.numel != spec.numel:
        return None
    return spec.replace(sizes=view_spec.sizes, strides=view_spec.strides)


def meta_of(
    target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any], specs: Mapping[Node, TensorSpec]
) -> Any:
    """Return the specs of a call's results from its Meta kernel: one, or a tuple; None if it raises.

    Args:
        target: The operator.
        args, kwargs: Its arguments, with nodes instead of tensors.
        specs: Specs that replace those of some operands.
    """

    def meta(operand: Node) -> Any:
        spec = specs.get(operand, operand.val)
        return ops.empty_strided(spec.sizes, spec.strides, dtype=spec.dtype, device="meta")

    meta_args, named = map_nodes((tuple(args), dict(kwargs)), meta)
    named.pop("device", None)
    try:
        outputs = target(*meta_args, **named)
    except (RuntimeError, IndexError):
        return None
    if isinstance(outputs, tuple | list):
        return tuple([each._spec for each in outputs])
    return getattr(outputs, "_spec", None)


def gives_the_same(node: Node, specs: Mapping[Node, TensorSpec]) -> bool:
    """Return True if a step's result has the same sizes, strides and dtype for operands of these specs."""
    if not isinstance(node.target, OpOverload) or not isinstance(node.val, TensorSpec):
        return False
    result_spec = meta_of(node.target, node.args, node.kwargs, specs)
    return result_spec is not None and (result_spec.sizes, result_spec.strides, result_spec.dtype) == (
        node.val.sizes,
        node.val.strides,
        node.val.dtype,
    )


def called(graph: Graph, target: OpOverload, *args: Any, **kwargs: Any) -> Node:
    """Add a step at the graph's insertion point, with specs from its Meta kernel.

    Raise RuntimeError if the Meta kernel refuses the operands.
    """
    specs = meta_of(target, args, kwargs, {})
    if specs is None:
        raise RuntimeError(f"{target} does not take {args}, {kwargs}")
    device = kwargs.get("device") or next(a for a in args if isinstance(a, Node)).val.device

    def placed(spec: TensorSpec) -> TensorSpec:
        return TensorSpec.of(spec.sizes, spec.strides, spec.dtype, device)

    val = tuple(map(placed, specs)) if isinstance(specs, tuple) else placed(specs)
    return graph.call_function(target, args, kwargs, val=val)


def ancestors(node: Node) -> list[Node]:
    """Return a step and those that it sees through views and copies, the nearest first."""
    chain = [node]
    while operator_name(chain[-1]) in VIEWS or operator_name(chain[-1]) == COPY:
        chain.append(chain[-1].args[0])
    return chain


def seen_from(node: Node, path: Sequence[Node]) -> Elements | None:
    """Return the elements of a step as seen through a path of views and copies; None if no strides express them."""
    spec: TensorSpec | None = TensorSpec.contiguous(node.val.sizes, node.val.dtype, node.val.device)
    for each in path:
        spec = None if spec is None else viewed(each, spec)
    return None if spec is None else seen(node, spec)


class Relocation:
    """Relocation of a step's readers to a new step with another element order in memory.

    The readers read views of the new step. Readers for which no view is possible keep the old step. Results of the
    program keep it too, unless the new step `is_free`, that is, it may be written to.
    """

    def __init__(self, graph: Graph, is_free: bool) -> None:
        self.graph = graph
        self.is_free = is_free
        self.results = frozenset(graph.output_node.all_input_nodes)

    def run(self, old: Node, elements: Elements) -> None:
        """Redirect readers of `old`, whose elements are these of the new step, to the new step where possible."""
        spec = TensorSpec.of(elements.sizes, elements.strides, old.val.dtype, old.val.device)
        self._look_up(old, spec, elements.root)

    def _look_up(self, old: Node, spec: TensorSpec, new: Node) -> None:
        order = _order(seen(new, spec), new.val.sizes)
        if order is not None:
            is_same = order == tuple(range(len(order)))
            self._read_from(old, new if is_same else self._after(new, PERMUTE, list(order)))
            return
        for user in list(old.users):
            view_spec = viewed(user, spec) if operator_name(user) in VIEWS else None
            if view_spec is not None:
                self._look_up(user, view_spec, new)

    def _read_from(self, old: Node, new: Node) -> None:
        """Redirect the users of a step to another step of its sizes, if their results stay the same."""
        if new.val.strides == old.val.strides and (self.is_free or not self.is_given(old)):
            old.replace_all_uses_with(new)
            return
        for user in list(old.users):
            name = operator_name(user)
            if name in VIEWS:
                if meta_of(user.target, user.args, user.kwargs, {old: new.val}) is not None:
                    self._read_from(user, self._after(new, user.target, *user.args[1:], **user.kwargs))
            elif not user.is_impure and gives_the_same(user, {old: new.val}):
                user.replace_input_with(old, new)
                if name == COPY and new.val.is_contiguous and (self.is_free or not self.is_given(user)):
                    user.replace_all_uses_with(new)

    def _after(self, node: Node, target: OpOverload, *args: Any, **kwargs: Any) -> Node:
        with self.graph.inserting_after(node):
            return called(self.graph, target, node, *args, **kwargs)

    def is_given(self, node: Node) -> bool:
        """Return True if a step, or a view of it, is a result of the program."""
        return node in self.results or any(
            self.is_given(user) for user in node.users if operator_name(user) in VIEWS
        )


def _order(elements: Elements, sizes: Sequence[int]) -> tuple[int, ...] | None:
    """Return the order of the root's dimensions in which the elements come; None if there is none."""
    strides = contiguous_strides(tuple(sizes))
    left = list(range(len(sizes)))
    order = []
    for size, stride in zip(elements.sizes, elements.strides, strict=True):
        matching_dims = [d for d in left if sizes[d] == size and (size == 1 or strides[d] == stride)]
        if not matching_dims:
            return None
        order.append(matching_dims[0])
        left.remove(matching_dims[0])
    return None if left else tuple(order)
