"""Condition of a recording: both branches of `cond` in one operator (torch/_higher_order_ops/cond.py).

While `make_fx` records, the value of a condition that depends on the inputs is unknown. `cond` then records both
branches as graphs, and calls ``higher_order::cond`` with their numbers in a process-wide table. The operator reads the
condition, and runs one of the graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ...runtime.device import device as Device
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.local_dispatch_key_set import local
from ...runtime.tensor_impl import TensorImpl
from ...runtime.tensor_spec import TensorSpec
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import KernelFunction
from ..core.op_overload import OpOverload
from ..layers.functionalization.functionalize import functionalize
from ..layers.functionalization.layer import FUNCTIONALIZE_BIT, layers
from ..layers.graph.fake_tensor import phantom
from ..layers.graph.graph import Graph, Node
from ..layers.graph.make_graph import described, innermost_tracer, make_graph
from ..layers.graph.traced import Traced
from ..layers.python_key import without_modes
from ..layers.pytree import TreeSpec, tree_flatten, tree_unflatten
from ..tensor import blank_tensor

if TYPE_CHECKING:
    from ..layers.graph.make_graph import Tracer

NAME = "higher_order::cond"
SCHEMA = f"{NAME}(Tensor pred, int true_graph, int false_graph, Tensor[] operands) -> Tensor[]"
META = Device("meta")

_graphs: list[Traced] = []


def is_recorded(pred: object) -> bool:
    """Return True if the value of a condition is unknown, because `make_fx` records and it depends on the inputs."""
    tracer = innermost_tracer()
    if tracer is None or not tracer.records_branches or not isinstance(pred, TensorImpl):
        return False
    return bool(pred._spec.keys & FUNCTIONALIZE_BIT) or tracer.depends_on_inputs(pred)


def record_branches(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any]
) -> Any:
    """Record both branches as graphs, and the operator that runs one of them.

    Raises RuntimeError for operands that require grad, for branches that write to an operand, close over a value of the
    recording, or return results of different structures, sizes or dtypes.
    """
    leaves, spec = tree_flatten(tuple(operands))
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, TensorImpl)]
    tensors = [leaves[i] for i in positions]
    if is_grad_enabled() and any(each._spec.requires_grad for each in tensors):
        raise RuntimeError(
            "cond: a recording holds no gradient of a condition; record it under no_grad(), or pass operands that do "
            "not require grad"
        )
    tracer = innermost_tracer()
    assert tracer is not None
    true_graph, structure = _recorded("true_fn", true_fn, leaves, positions, spec, tracer)
    false_graph, other = _recorded("false_fn", false_fn, leaves, positions, spec, tracer)
    _check_alike(structure, other, _result_specs(true_graph), _result_specs(false_graph))
    _graphs.extend((true_graph, false_graph))
    results = cond_operator()(pred, len(_graphs) - 2, len(_graphs) - 1, tensors)
    return tree_unflatten(results, structure)


def graph_of(number: int) -> Traced:
    """Return a branch by its number. Raises RuntimeError for a number of another process."""
    if not 0 <= number < len(_graphs):
        raise RuntimeError(f"higher_order::cond: this process has recorded no branch {number}")
    return _graphs[number]


def _recorded(
    name: str,
    function: Callable[..., Any],
    leaves: Sequence[Any],
    positions: Sequence[int],
    spec: TreeSpec,
    outer: Tracer,
) -> tuple[Traced, TreeSpec]:
    """Return the graph of a branch from the operands that are tensors, and the structure of its results."""
    structures: list[TreeSpec] = []

    def flat(*values: Any) -> tuple[Any, ...]:
        given = list(leaves)
        for position, value in zip(positions, values, strict=True):
            given[position] = value
        results, structure = tree_flatten(function(*tree_unflatten(given, spec)))
        for each in results:
            if not isinstance(each, TensorImpl):
                raise RuntimeError(f"cond: expected {name} to return tensors, got {type(each).__name__}")
        structures.append(structure)
        return tuple(results)

    stand_ins = [_stand_in(leaves[i]._spec) for i in positions]
    body = functionalize(flat) if layers.active else flat
    before, included = layers.active, local.included
    layers.active, local.included = [], included & ~FUNCTIONALIZE_BIT
    try:
        with without_modes():
            traced = make_graph(body, "fake", _records_branches=True)(*stand_ins)
    finally:
        layers.active, local.included = before, included
    _check_closure(name, traced.graph, outer)
    _check_writes(name, traced.graph)
    return traced, structures[-1]


def _stand_in(spec: TensorSpec) -> Any:
    """Return a tensor with the metadata of an operand, without memory."""
    made: Any = blank_tensor()
    made._spec = described(spec)
    made._data = phantom(made._spec)
    made._version_cell = made._autograd = made._view_base = None
    return made


def _check_closure(name: str, graph: Graph, outer: Tracer) -> None:
    for constant in graph.constants.values():
        if isinstance(constant, TensorImpl) and (
            constant._spec.keys & FUNCTIONALIZE_BIT or outer.depends_on_inputs(constant)
        ):
            raise RuntimeError(
                f"cond: {name} closes over a tensor of {constant._spec!r} that depends on the inputs of the recording; "
                "pass it in `operands`"
            )


def _check_writes(name: str, graph: Graph) -> None:
    """Raise RuntimeError for a step that writes to an input or to a view of one."""
    inputs: set[Node] = set(graph.find_nodes(op="placeholder"))
    for node in graph.find_nodes(op="call_function"):
        schema = getattr(node.target, "_schema", None)
        if schema is None:
            inputs |= {node} if node.args[0] in inputs else set()
            continue
        for argument, value in zip(schema.arguments, node.args, strict=False):
            if argument.alias_info is None or value not in inputs:
                continue
            if argument.is_write:
                raise RuntimeError(
                    f"cond: {name} might be modifying the input! {node.target.name()} writes to an operand; clone the "
                    "operand first"
                )
            inputs.add(node)


def _result_specs(traced: Traced) -> tuple[TensorSpec, ...]:
    return tuple([node.val for node in traced.graph.output_node.args[0]])


def _check_alike(
    structure: TreeSpec, other: TreeSpec, specs: Sequence[TensorSpec], others: Sequence[TensorSpec]
) -> None:
    if structure != other:
        raise RuntimeError(
            f"cond: expected the branches to return the same structure, got {structure} of true_fn and {other} of "
            "false_fn"
        )
    for number, (one, two) in enumerate(zip(specs, others, strict=True)):
        for noun in ("sizes", "dtype", "device"):
            mine, theirs = getattr(one, noun), getattr(two, noun)
            if mine != theirs:
                raise RuntimeError(
                    f"cond: Unmatched tensor metadata from cond() branches: result {number} has {noun} {mine} of "
                    f"true_fn and {theirs} of false_fn"
                )


@cache
def cond_operator() -> OpOverload:
    """Return the operator, which the first call defines."""
    dispatcher = Dispatcher.singleton()
    dispatcher.register_def(SCHEMA, __name__, frozenset())
    dispatcher.register_impl(NAME, "CompositeExplicitAutograd", KernelFunction(_run, source=__name__))
    dispatcher.register_impl(NAME, "Meta", KernelFunction(_run_meta, source=__name__))
    # `record_branches` refuses operands that require grad.
    dispatcher.register_impl(NAME, "Autograd", KernelFunction.fallthrough(__name__))
    return OpOverload(dispatcher.find_schema_or_throw(NAME))


def _run(pred: Any, true_graph: int, false_graph: int, operands: Sequence[Any]) -> list[Any]:
    """Read the condition and run a branch."""
    return list(graph_of(true_graph if pred else false_graph)(*operands))


def _run_meta(pred: Any, true_graph: int, false_graph: int, operands: Sequence[Any]) -> list[Any]:
    """Return results with the metadata of either branch."""
    return [_stand_in(spec.replace(device=META)) for spec in _result_specs(graph_of(true_graph))]
