"""`Interpreter` runs a graph node by node; `Transformer` makes another graph of it (torch/fx/interpreter.py)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..dispatch.tensor import Tensor
from ..nn.modules.module import Module
from . import traceback as fx_traceback
from ._symbolic_trace import Tracer
from .code_generation import _last_uses
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, map_aggregate, map_arg
from .patching import arguments_as_written
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """Interpreter that runs a graph node by node; a subclass overrides the handling of a kind of node.

    The methods `placeholder`, `get_attr`, `call_function`, `call_method`, `call_module` and `output` get a node's
    target and the values of its arguments, and give its value. `run_node` calls them.

    Args:
        module: The module that holds the graph's attributes.
        garbage_collect_values: If True, free values after their last use. Default: True.
        graph: by default that of `module`.

    Source: torch.fx.Interpreter.

    Example:
        >>> import triten as tt
        >>> class Doubling(tt.fx.Interpreter):
        ...     def call_function(self, target, args, kwargs):
        ...         return 2 * super().call_function(target, args, kwargs)
        >>> module = tt.fx.symbolic_trace(lambda x: tt.relu(x))
        >>> Doubling(module).run(tt.tensor([-1.0, 2.0]))
        tensor([0., 4.])
    """

    def __init__(
        self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None
    ) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = type(self).__name__
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses = _last_uses(self.graph.nodes) if garbage_collect_values else {}

    def run(
        self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        """Run the graph.

        Args:
            args: The values of the placeholders, in order.
            initial_env: Values of nodes that are not run. Default: none.
            enable_io_processing: If True, the graph's code generation flattens arguments and unflattens results.
                Default: True.

        Returns:
            The graph's result.

        Raises:
            Exception: A node raises it. The message names the node, and a KeyError becomes a RuntimeError.
        """
        self.env = {} if initial_env is None else initial_env
        if enable_io_processing:
            args = self.graph.process_inputs(*args)
        self.args_iter: Iterator[Any] = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if not self.extra_traceback:
                    raise
                message = f"While executing {node.format_node()}\nOriginal traceback:\n{node.stack_trace}"
                if error.args:
                    message = f"{error.args[0]}\n\n{message}"
                error.args = (message, *error.args[1:])
                if isinstance(error, KeyError):  # a KeyError would print the `repr` of the message
                    raise RuntimeError(*error.args) from error
                raise
            if self.garbage_collect_values:
                for unused in self.user_to_last_uses.get(node, ()):
                    del self.env[unused]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """Run the graph on the arguments in a list, and empty the list, so that values are freed after their last use.

        Raises:
            RuntimeError: The numbers of arguments and placeholders differ.
        """
        inputs = self.graph.find_nodes(op="placeholder")
        if len(args_list) != len(inputs):
            detail = "extra arguments" if len(args_list) > len(inputs) else "missing arguments"
            raise RuntimeError(
                f"Interpreter.boxed_run expected {len(inputs)} arguments for placeholders but received "
                f"{len(args_list)} ({detail})"
            )
        env = dict(zip(inputs, args_list, strict=True))
        args_list.clear()
        return self.run(initial_env=env)

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        with fx_traceback.set_current_meta(node, f"Interpreter_{type(self).__name__}"):
            yield

    def run_node(self, n: Node) -> Any:
        """Run one node, whose arguments' values are known."""
        with self._set_current_node(n):
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the next argument, or the default; a starred parameter gets all remaining ones.

        Raises:
            RuntimeError: There is neither an argument nor a default.
        """
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed in!")

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the attribute with a dotted name."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a function and return its result.

        Raises:
            AssertionError: The target is a str.
        """
        if isinstance(target, str):
            raise AssertionError(f"call_function: expected a function as the target, got {target!r}")
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of the first argument and return its result."""
        owner, *others = args
        return getattr(owner, str(target))(*others, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call a submodule and return its result."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the graph's result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """Return the module's attribute with a dotted name.

        Raises:
            RuntimeError: The attribute does not exist.
        """
        names = target.split(".")
        attribute: Any = self.module
        for index, name in enumerate(names):
            if not hasattr(attribute, name):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(names[: index + 1])}")
            attribute = getattr(attribute, name)
        return attribute

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the values of a node's arguments."""
        return self.map_nodes_to_values(n.args, n), self.map_nodes_to_values(n.kwargs, n)

    def map_nodes_to_values(self, args: Argument, n: Node) -> Any:
        """Replace the nodes in an argument of `n` by their values.

        Raises:
            RuntimeError: A node has not run.
        """

        def value_of(node: Node) -> Any:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value_of)


class _TransformerTracer(Tracer):
    """Records into a given graph, and every module as a step."""

    def __init__(self, graph: Graph, root: Module) -> None:
        super().__init__()
        self.graph = graph
        self.root = root
        self.tensor_attrs: dict[Tensor, str] = {}

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Interpreter that runs a graph on proxies to build a new graph; a subclass overrides the handling of a kind of
    node.

    Source: torch.fx.Transformer.

    Example:
        >>> import operator
        >>> import triten as tt
        >>> class Negate(tt.fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         if target is operator.add:
        ...             target = operator.sub
        ...         return super().call_function(target, args, kwargs)
        >>> module = tt.fx.symbolic_trace(lambda x, y: x + y)
        >>> Negate(module).transform()(tt.ones(2), tt.ones(2))
        tensor([0., 0.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer: Tracer = _TransformerTracer(self.new_graph, module)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Create a placeholder in the new graph."""
        default = args[0] if args else inspect.Signature.empty
        return Proxy(self.new_graph.placeholder(str(target), default_value=default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Read the same attribute in the new graph."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the same module in the new graph, as `self.tracer` records it."""
        module = self.fetch_attr(str(target))
        return self.tracer.call_module(module, module.forward, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Call the same function in the new graph."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Run the transformation and return the new module."""
        with fx_traceback.preserve_node_meta(), arguments_as_written():
            result = self.run(enable_io_processing=False)
        if result is not None:
            value = map_aggregate(result, lambda leaf: leaf.node if isinstance(leaf, Proxy) else leaf)
            self.new_graph.output(value).meta.update(self.graph.output_node().meta)
        return GraphModule(self.module, self.new_graph)
