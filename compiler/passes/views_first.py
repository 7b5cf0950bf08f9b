"""Motion of views from the result of a step to its operands.

Before::

    graph(%x : float32[4, 6] cuda:0, %y : float32[4, 6] cuda:0):
        %mul : float32[4, 6] cuda:0 = aten.mul.Tensor(%x, %y)
        %slice_1 : float32[4, 2] cuda:0 = aten.slice.Tensor(%mul, 1, 0, 2)
        %add : float32[4, 2] cuda:0 = aten.add.Tensor(%slice_1, 1)
        return [%add]

After::

    graph(%x : float32[4, 6] cuda:0, %y : float32[4, 6] cuda:0):
        %slice_2 : float32[4, 2] cuda:0 = aten.slice.Tensor(%x, 1, 0, 2)
        %slice_3 : float32[4, 2] cuda:0 = aten.slice.Tensor(%y, 1, 0, 2)
        %mul_1 : float32[4, 2] cuda:0 = aten.mul.Tensor(%slice_2, %slice_3)
        %add : float32[4, 2] cuda:0 = aten.add.Tensor(%mul_1, 1)
        return [%add]

So no unused element is computed, and the steps before and after the view are one kernel. Several views of one step are
moved if they have no more elements together than the step: both halves of a gate. A view of a `cat` becomes a `cat` of
views if it leaves the dimension whole.

A view is moved if only pointwise steps, copies, `cat` and paddings read it, and return the same for a contiguous view.
A result of the program is unchanged, and so is memory that is written to.

On the CPU, a function of few or strided elements may differ in the last bits from one of many. There only slices of
arithmetic are moved, which rounds each element by itself. Their readers must be arithmetic too, or functions that
begin with arithmetic.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.layers.graph.graph import Graph, Node, map_nodes
from ...runtime.cpu.object_code import is_possible
from ...runtime.tensor_spec import TensorSpec
from ..element_order import gives_the_same, meta_of
from ..pointwise import COPIES, FILLS

VIEWS = frozenset({
    "aten::slice.Tensor", "aten::select.int", "aten::unsqueeze", "aten::permute", "aten::transpose.int", "aten::t",
})  # fmt: skip
"""Views with each element at most once."""
SLICES = frozenset({"aten::slice.Tensor", "aten::select.int", "aten::unsqueeze"})
"""Those that are taken so on the CPU: operands of steps are not read across their lines."""
EXACT = frozenset(
    (
        *("add.Tensor", "add.Scalar", "sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar"),
        *("mul.Tensor", "mul.Scalar", "div.Tensor", "div.Scalar", "neg", "abs", "sign", "sqrt", "reciprocal"),
        *("relu", "maximum", "minimum", "clamp", "clamp.Tensor", "clamp_min", "clamp_max"),
        *("floor", "ceil", "round", "trunc", "where.self", "masked_fill.Scalar", "masked_fill.Tensor"),
        *(f"{name}.{kind}" for name in ("eq", "ne", "lt", "le", "gt", "ge") for kind in ("Tensor", "Scalar")),
        *("logical_and", "logical_or", "logical_not", "logical_xor"),
        *("sigmoid_backward", "tanh_backward", "threshold_backward", "native_dropout_backward"),
    )
)
"""Pointwise operators that round each element independently of its position and of the number of elements."""
BEGIN_EXACTLY = frozenset({"sigmoid", "silu", "silu_backward"})
"""Functions whose eager kernels begin with arithmetic, which makes their operands contiguous."""
CAT = "aten::cat"
PADDINGS = frozenset({"aten::slice_backward", "aten::constant_pad_nd"})
"""Operators that put their operand into a larger tensor."""
MAX_STEPS = 64
"""Steps that views are moved before, for each view of a program."""


def take_views_first(graph: Graph) -> bool:
    """Move views before the steps whose results they view. Return True if any was moved."""
    results = set(graph.output_node.all_input_nodes)
    waiting = [n for n in graph.find_nodes(op="call_function") if _name(n) in VIEWS]
    left = MAX_STEPS * len(waiting)
    gone: set[Node] = set()
    while waiting and left:
        view = waiting.pop()
        if view in gone:
            continue
        left -= 1
        step = view.args[0]
        if view in results or not view.users or not isinstance(step, Node) or step in results:
            continue
        if not _may_move(step):
            continue
        views = list(step.users)
        known = SLICES if _is_on_host(step) else VIEWS
        if any(_name(v) not in known or v in results or not _is_read_by_steps(v) for v in views):
            continue
        if sum(v.val.numel for v in views) > step.val.numel:
            continue
        planned = [_moved(v, step) for v in views]
        if any(each is None for each in planned):
            continue
        for each in planned:
            assert each is not None
            waiting += each.apply(graph)
        graph.erase_node(step)
        gone.update(views)
    return bool(gone)


def _name(node: Node) -> str:
    return node.target._entry.name if isinstance(node.target, OpOverload) else ""


def _may_move(step: Node) -> bool:
    """Return True if a view may be moved before a step."""
    spec = step.val
    if not isinstance(step.target, OpOverload) or step.is_impure or not isinstance(spec, TensorSpec):
        return False
    if not spec.ndim or spec.device.type not in ("cpu", "cuda") or not _is_step(step, EXACT):
        return False
    # NumPy's passes are longer over elements with gaps.
    return spec.device.type == "cuda" or is_possible()


def _is_on_host(node: Node) -> bool:
    return bool(node.val.device.type == "cpu")


def _is_step(node: Node, on_host: frozenset[str]) -> bool:
    """Return True for a pointwise step, a copy, or `cat`; on the CPU, only for operators in `on_host` of real
    numbers."""
    name = _name(node)
    if name == CAT or name in COPIES or name in FILLS:
        return True
    if not _is_on_host(node):
        return "pointwise" in node.target._entry.tags
    is_real = all(not v.val.dtype.is_complex for v in (node, *node.all_input_nodes))
    return is_real and name.removeprefix("aten::") in on_host


def _is_read_by_steps(view: Node) -> bool:
    """Return True if only pointwise steps, copies, `cat` and paddings read a view."""
    for user in view.users:
        if not isinstance(user.target, OpOverload) or user.is_impure or not isinstance(user.val, TensorSpec):
            return False
        if not _is_step(user, EXACT | BEGIN_EXACTLY) and _name(user) not in PADDINGS:
            return False
    return bool(view.users) and view.val.ndim > 0


class _Moved:
    """View to be moved before a step.

    Attributes:
        view: The view.
        step: The step.
        specs: The view's spec of each operand of the step that is viewed.
        made: The step's spec after the move.
        dim: For `cat`, the dimension along which it joins.
    """

    def __init__(
        self, view: Node, step: Node, specs: dict[Node, TensorSpec], made: TensorSpec, dim: int | None
    ) -> None:
        self.view, self.step, self.specs, self.made, self.dim = view, step, specs, made, dim

    def apply(self, graph: Graph) -> list[Node]:
        """Apply the motion to the graph. Return the new views."""
        view, step = self.view, self.step
        viewed: dict[Node, Node] = {}
        with graph.inserting_before(view):
            for operand, spec in self.specs.items():
                source = operand
                if operand.val.sizes != step.val.sizes and self.dim is None:
                    sizes = list(step.val.sizes)
                    source = graph.call_function(
                        find_overload("aten::expand"), (operand, sizes), val=_expanded(operand, step)
                    )
                args = (source, *view.args[1:])
                viewed[operand] = graph.call_function(view.target, args, view.kwargs, val=spec)
            args, kwargs = map_nodes((step.args, dict(step.kwargs)), lambda n: viewed.get(n, n))
            if self.dim is not None:
                args, kwargs = (args[0], self.dim), {}
            made = graph.call_function(step.target, args, kwargs, val=self.made)
        view.replace_all_uses_with(made)
        graph.erase_node(view)
        return list(viewed.values())


def _moved(view: Node, step: Node) -> _Moved | None:
    """Return the motion of a view before a step; None if the result would differ."""
    is_cat = _name(step) == CAT
    specs: dict[Node, TensorSpec] = {}
    for operand in step.all_input_nodes:
        if not isinstance(operand.val, TensorSpec) or operand.val.device is not step.val.device:
            return None
        if operand.val.ndim or is_cat:
            own = operand.val if is_cat else _expanded(operand, step)
            if is_cat and (own.ndim != step.val.ndim or own.dtype is not step.val.dtype):
                return None
            viewed = _meta(view, {step: own})
            if viewed is None:
                return None
            specs[operand] = own.replace(sizes=viewed.sizes, strides=viewed.strides)
    dim = _joined_dim(view, step) if is_cat else None
    if is_cat and dim is None:
        return None
    made = _meta(step, specs, dim)
    if made is None or made.dtype is not step.val.dtype or made.sizes != view.val.sizes:
        return None
    spec = step.val.replace(sizes=made.sizes, strides=made.strides)
    if not spec.is_contiguous or not all(gives_the_same(user, {view: spec}) for user in view.users):
        return None
    return _Moved(view, step, specs, spec, dim)


def _expanded(operand: Node, step: Node) -> TensorSpec:
    """Return an operand's spec expanded to the sizes of a step."""
    spec: TensorSpec = operand.val
    more = step.val.ndim - spec.ndim
    strides = [
        0 if n == 1 and m != 1 else s
        for n, m, s in zip(spec.sizes, step.val.sizes[more:], spec.strides, strict=True)
    ]
    return spec.replace(sizes=step.val.sizes, strides=(*[0] * more, *strides))


def _joined_dim(view: Node, step: Node) -> int | None:
    """Return the dimension along which views of a `cat`'s parts are joined; None if the view does not leave it
    whole."""
    arguments = [*step.args[1:], *step.kwargs.values()]
    dim = (arguments[0] if arguments else 0) % step.val.ndim
    marks = [1000 + d for d in range(step.val.ndim)]
    name = _name(view)
    if name in ("aten::slice.Tensor", "aten::select.int"):
        view_dim = view.args[1] if len(view.args) > 1 else view.kwargs.get("dim", 0)
        if view_dim.__class__ is not int or view_dim % step.val.ndim == dim:
            return None
        return int(dim) - (name == "aten::select.int" and view_dim % step.val.ndim < dim)
    viewed = _meta(view, {step: step.val.replace(sizes=tuple(marks), strides=(1,) * len(marks))})
    sizes: list[int] = [] if viewed is None else list(viewed.sizes)
    return sizes.index(1000 + dim) if sizes else None


def _meta(node: Node, specs: dict[Node, TensorSpec], dim: int | None = None) -> Any:
    """Return the spec of a step's result for operands of these specs; None if its Meta kernel raises."""
    args, kwargs = (node.args, node.kwargs) if dim is None else ((node.args[0], dim), {})
    return meta_of(node.target, args, kwargs, specs)
