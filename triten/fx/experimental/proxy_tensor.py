"""`make_fx`: the operators that a function calls, as a `GraphModule` (torch/fx/experimental/proxy_tensor.py)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...dispatch.custom_ops import branches
from ...dispatch.functions.process_state import cond
from ...dispatch.layers.graph.graph import Attribute
from ...dispatch.layers.graph.graph import Node as RecordedNode
from ...dispatch.layers.graph.make_graph import make_graph
from ...dispatch.layers.graph.traced import Traced
from ...dispatch.layers.pytree import tree_flatten, tree_leaves, tree_unflatten
from ...nn.modules.parameter import Parameter
from ...runtime.memory_format import contiguous_format
from ...runtime.size import Size
from ...runtime.tensor_spec import TensorSpec
from ..code_generation import PyTreeCodeGen, PyTreeInfo
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node
from ..passes.shape_prop import TensorMetadata

__all__ = ["get_proxy_mode", "make_fx"]


def get_proxy_mode() -> None:
    """Return None: `make_fx` records without a dispatch mode."""


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    *,
    _error_on_data_dependent_ops: bool = True,
) -> Callable[..., GraphModule]:
    """Return a function that runs `f` on its arguments and returns a graph of its operators (`torch.fx.experimental`).

    The graph is that of `tt.func.make_graph`, whose docstring describes the recording, in the form of `tt.fx`.

    Args:
        f: a function of positional arguments.
        decomposition_table: PyTorch's. Register a kernel at the key `Tracer` instead.
        tracing_mode: ``"real"`` or ``"fake"``.
        _error_on_data_dependent_ops: as in `make_graph`.

    Raises:
        NotImplementedError: for a decomposition table.

    Example:
        >>> import triten as tt
        >>> from triten.fx.experimental.proxy_tensor import make_fx
        >>> def f(x):
        ...     return tt.autograd.grad((x * x).sum(), x)[0]
        >>> module = make_fx(f)(tt.tensor([1.0, 2.0], requires_grad=True))
        >>> module.graph.find_nodes(op="call_function", target=tt.ops.aten.mul.Tensor)
        [mul, mul_1, mul_2]
        >>> module(tt.tensor([3.0, 4.0]))
        tensor([6., 8.])
    """
    if decomposition_table:
        raise NotImplementedError(
            "make_fx(): a decomposition_table is not supported; register a kernel at the dispatch key Tracer, whose "
            "calls are what is recorded"
        )
    record = make_graph(
        f, tracing_mode, _error_on_data_dependent_ops=_error_on_data_dependent_ops, _records_branches=True
    )

    @functools.wraps(f)
    def recorded(*args: Any) -> GraphModule:
        return _converted(record(*args), f, args)

    return recorded


def _converted(traced: Traced, f: Callable[..., Any], args: tuple[Any, ...]) -> GraphModule:
    graph = Graph()
    root: dict[str, Any] = {}
    made: dict[RecordedNode, Node] = {}
    recorded = iter(traced.graph.find_nodes(op="placeholder"))
    in_spec = tree_flatten(args)[1]
    is_nested = not all(child.is_leaf() for child in in_spec.children())
    if is_nested:
        graph.set_codegen(PyTreeCodeGen(PyTreeInfo(_names(f, len(args)), in_spec, traced.out_spec)))
    for leaf, name in zip(traced.inputs, _leaf_names(f, args), strict=True):
        node = graph.placeholder(name)
        if leaf.spec is not None:
            source = next(recorded)
            made[source] = node
            _describe(node, source.val)

    returned = None if is_nested else _return_annotation(f)

    def constant(name: str) -> Node:
        value = traced.graph.constants[name]
        if isinstance(value, Parameter):
            name = f"_param_constant{sum(isinstance(each, Parameter) for each in root.values())}"
        root[name] = value
        return graph.get_attr(name)

    def argument(value: Any) -> Any:
        if isinstance(value, tuple):
            return [argument(each) for each in value]
        if isinstance(value, Attribute):
            return constant(value.name)
        return made[value] if isinstance(value, RecordedNode) else value

    def condition(source: RecordedNode) -> Node:
        """Return the call of `cond` with the branches as modules."""
        pred, *numbers, operands = source.args
        number = sum(key.startswith("true_graph_") for key in root)
        modules = []
        for kind, each in zip(("true", "false"), numbers, strict=True):
            branch = branches.graph_of(each)
            inputs = tuple(leaf.name for leaf in branch.inputs)
            root[f"{kind}_graph_{number}"] = _converted(branch, lambda *_: None, inputs)
            modules.append(graph.get_attr(f"{kind}_graph_{number}"))
        return graph.call_function(cond, (argument(pred), *modules, argument(operands)), name=source.name)

    for source in traced.graph.nodes:
        if source.op == "get_attr":
            made[source] = constant(source.target)
        elif source.op == "call_function" and source.target is branches.cond_operator():
            made[source] = condition(source)
        elif source.op == "call_function":
            arguments = tuple(map(argument, source.args))
            keywords = {key: argument(value) for key, value in source.kwargs.items()}
            made[source] = graph.call_function(source.target, arguments, keywords, name=source.name)
        elif source.op == "output":
            results = argument(source.args[0])
            graph.output(results if is_nested else tree_unflatten(results, traced.out_spec), returned)
        if source in made:
            _describe(made[source], source.val)
    return GraphModule(root, graph, getattr(f, "__name__", type(f).__name__))


def _names(f: Callable[..., Any], count: int) -> list[str]:
    """Return the names of the parameters that take `count` positional arguments."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [
        each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return [*named, *(f"arg{index}" for index in range(len(named), count))][:count]


def _return_annotation(f: Callable[..., Any]) -> Any:
    """Return the annotation of a function's result; None for other callables and for functions of ``*args``."""
    function = inspect.unwrap(f)
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & inspect.CO_VARARGS:
        return None
    return function.__annotations__.get("return")


def _leaf_names(f: Callable[..., Any], args: tuple[Any, ...]) -> list[str]:
    """Return a name for each leaf of the arguments: the parameter's name and a number."""
    names = _names(f, len(args))
    return [
        f"{name}_{number}"
        for name, arg in zip(names, args, strict=True)
        for number, _ in enumerate(tree_leaves(arg), 1)
    ]


def _describe(node: Node, value: Any) -> None:
    """Note in a node's `meta` what the recording knows of its tensor."""
    if isinstance(value, TensorSpec):
        node.meta["tensor_meta"] = TensorMetadata(
            Size(value.sizes),
            value.dtype,
            value.requires_grad,
            value.strides,
            contiguous_format if value.is_contiguous else None,
            False,
            {},
        )
