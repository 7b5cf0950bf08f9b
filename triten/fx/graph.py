"""`Graph`: a program as a list of nodes, from which Python source is generated (torch/fx/graph.py)."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ..dispatch.functions.queries import typename
from ..dispatch.layers.graph.linked_nodes import LinkedGraph
from ..nn.modules.module import Module
from ..nn.modules.parameter import Parameter
from .code_generation import (
    CodeGen,
    PythonCode,
    PyTreeCodeGen,
    PyTreeInfo,
    TransformCodeFunc,
    inplace_methods,
    magic_methods,
    reflectable_magic_methods,
)
from .immutable_collections import immutable_dict
from .namespace import Namespace, snake_case
from .node import OPS, Argument, Node, Target, map_arg

if TYPE_CHECKING:
    from ._symbolic_trace import Tracer
    from .graph_module import GraphModule

__all__ = [
    "CodeGen",
    "Graph",
    "PythonCode",
    "inplace_methods",
    "magic_methods",
    "reflectable_magic_methods",
]

_PyTreeCodeGen, _PyTreeInfo = PyTreeCodeGen, PyTreeInfo


class _InsertPoint:
    """Insertion point of new nodes, as a context that restores the previous one."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self._before = graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.graph._insert = self._before


class Graph(LinkedGraph[Node]):
    """A program: inputs, calls, and one output, each a `Node`.

    Source: torch.fx.Graph.

    Example:
        >>> import triten as tt
        >>> graph = tt.fx.Graph()
        >>> x = graph.placeholder("x")
        >>> total = graph.call_function(tt.sum, (x,), {"dim": 0})
        >>> _ = graph.output(graph.call_method("exp", (total,)))
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %sum_1 : [num_users=1] = call_function[target=triten.sum](args = (%x,), kwargs = {dim: 0})
            %exp : [num_users=1] = call_method[target=exp](args = (%sum_1,), kwargs = {})
            return exp
        >>> tt.fx.GraphModule(tt.nn.Module(), graph)(tt.zeros(2, 2))
        tensor([1., 1.])
    """

    _root: Node

    def __init__(
        self,
        owning_module: GraphModule | None = None,
        tracer_cls: type[Tracer] | None = None,
        tracer_extras: dict[str, Any] | None = None,
    ) -> None:
        self._name_of: Callable[[Node], str] | None = None
        self._order_is_known = False
        self._len = 0
        self._graph_namespace = Namespace()
        self.owning_module = owning_module
        self._tracer_cls = tracer_cls
        self._tracer_extras = tracer_extras
        self._codegen = CodeGen()
        self._co_fields: dict[str, Any] = {}
        self._root = Node(self, "", "root", "", (), {})
        self._insert: Callable[[Node], None] = self._root.prepend

    def _number_nodes(self) -> None:
        """Renumber the nodes if their order has changed."""
        if not self._order_is_known:
            for position, node in enumerate(self.nodes):
                node._position = position
            self._order_is_known = True

    def output_node(self) -> Node:
        """Return the output node, which is the last one.

        Raises:
            AssertionError: The last node is not an output.
        """
        last = self._root._prev
        if last.op != "output":
            raise AssertionError(f"output_node(): expected the last node to be an output, got op={last.op}")
        return last

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes of a kind, optionally with a target, in order.

        Args:
            op: The kind, as in `Node.op`.
            target: The target; required for ``call_function``. Default: None, any target.
            sort: Ignored: the nodes are always in order.

        Raises:
            AssertionError: `op` is ``call_function`` and `target` is None.
        """
        if op == "call_function" and target is None:
            raise AssertionError("find_nodes(op='call_function'): target must not be None")
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    # Making nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Create a node at the insertion point, by default the end.

        Args:
            op, target, args, kwargs: See `Node`.
            name: The base of its unique name. Default: derived from the target.
            type_expr: Its annotation. Default: None.

        Raises:
            AssertionError: `args` is not a tuple, or `kwargs` is not a dict.
        """
        args, kwargs = args or (), kwargs or immutable_dict()
        if not isinstance(args, tuple):
            raise AssertionError(f"create_node(): args must be a tuple, got {type(args)}")
        if not isinstance(kwargs, dict):
            raise AssertionError(f"create_node(): kwargs must be a dict, got {type(kwargs)}")
        unique = self._graph_namespace.create_name(self._target_to_str(target) if name is None else name)
        node = Node(self, unique, op, target, args, kwargs, type_expr)
        for hook in getattr(self.owning_module, "_create_node_hooks", ()):
            hook(node)
        self._insert(node)
        self._len += 1
        return node

    def _target_to_str(self, target: Target) -> str:
        """Return the base of the name of a node with a target."""
        if isinstance(target, str):
            is_special = target.startswith("__") and target.endswith("__")
            return snake_case(target[2:-2] if is_special else target)
        return snake_case(getattr(target, "__name__", None) or type(target).__name__)

    def placeholder(
        self, name: str, type_expr: Any | None = None, default_value: Any = inspect.Signature.empty
    ) -> Node:
        """Create an input of the program."""
        args = () if default_value is inspect.Signature.empty else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any | None = None) -> Node:
        """Create a node that reads an attribute of the module; warn if the owning module lacks it."""
        if self.owning_module is not None and not _has_reference(self.owning_module, qualified_name):
            warnings.warn(
                "Attempted to insert a get_attr Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule, register_parameter or register_buffer to add it, got "
                f"{qualified_name!r}",
                stacklevel=2,
            )
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Create a call of a submodule by its dotted name.

        Raises:
            AttributeError: The owning module lacks the submodule.
        """
        if self.owning_module is not None:
            self.owning_module.get_submodule(module_name)
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Create a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Any],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Any | None = None,
        name: str | None = None,
    ) -> Node:
        """Create a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def output(self, result: Argument, type_expr: Any | None = None) -> Node:
        """Create the output, which returns `result`."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Copy another graph's node to the insertion point.

        Args:
            node: The node.
            arg_transform: Returns this graph's node for each node among the arguments.
        """
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(
        self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False
    ) -> Argument | None:
        """Copy another graph's nodes, but its output, to the insertion point.

        Args:
            g: the other graph.
            val_map: the nodes of this graph for nodes of `g` that are not copied; the copies are added.
            return_output_node: If True, the result is a tuple, with the output of `g` in the second place. Default:
                False.

        Returns:
            what `g` returns, with nodes of this graph; None if it has no output.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        copied = made.graph_copy(self, {}, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        made._co_fields = dict(self._co_fields)
        if copied is not None:
            result, old = copied
            made.output(result, old.type).meta = copy.copy(old.meta)
        return made

    # Changing

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Set the insertion point before `n`, or at the start for None.

        As a context manager it lasts until the block ends; without ``with``, from now on.

        Raises:
            AssertionError: `n` is a node of another graph.
        """
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError(f"inserting_before(): {n!r} is a node of another graph")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Set the insertion point after `n`, or at the end for None; each new node goes right after `n`.

        As a context manager it lasts until the block ends; without ``with``, from now on.

        Raises:
            AssertionError: `n` is a node of another graph.
        """
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError(f"inserting_after(): {n!r} is a node of another graph")
        return _InsertPoint(self, n.append)

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node.

        Raises:
            RuntimeError: The node has users, or is of another graph.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        for hook in getattr(self.owning_module, "_erase_node_hooks", ()):
            hook(to_erase)
        to_erase._erase()
        to_erase._update_args_kwargs(
            map_arg(to_erase._args, lambda node: None), map_arg(to_erase._kwargs, lambda node: None)
        )

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Remove nodes that are unused and pure (`Node.is_impure`).

        Args:
            is_impure_node: Replaces `Node.is_impure`. Default: None.

        Returns:
            True if a node was removed, here or in a `GraphModule` that is an attribute in the graph.
        """
        self.lint()
        changed = False
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
                changed = True
        if self.owning_module is not None:
            from .graph_module import GraphModule

            named = {node.target for node in self.find_nodes(op="get_attr")}
            for name, child in self.owning_module.named_children():
                if name in named and isinstance(child, GraphModule):
                    changed |= child.graph.eliminate_dead_code()
                    child.recompile()
        return changed

    def lint(self) -> None:
        """Check that the graph is well formed.

        Raises:
            RuntimeError: for a node that is used before it is defined or belongs to another graph, a name that two
                nodes have, or a target that the owning module lacks.
            ValueError: for a target of the wrong class.
        """
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.op not in OPS:
                raise RuntimeError(f"Node {node} had unknown opcode {node.op}!")
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for input_node in node._input_nodes:
                if input_node.graph is not self:
                    raise RuntimeError(
                        f"Argument '{input_node}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! If you are copying nodes from another graph, make sure to use ``arg_transform`` on "
                        f"node_copy() to remap values\n{self}"
                    )
                if input_node not in seen:
                    raise RuntimeError(
                        f"Argument '{input_node}' of Node '{node}' was used before it has been defined! Please check "
                        f"that Nodes in the graph are topologically ordered\n{self}"
                    )
            seen.add(node)
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                _check_target(self.owning_module, node)

    # Text

    def python_code(
        self,
        root_module: str,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> PythonCode:
        """Generate the source of a Python function from the graph, with the globals that it uses.

        Args:
            root_module: The expression for the module, such as ``self``.
            verbose: If True, annotate nodes with their tensors and the lines that made them. Default: False.
            include_stride, include_device: If True, verbose source has strides and devices of tensors. Default: False.
            colored: If True, verbose source has terminal colors. Default: False.
        """
        # One namespace for locals and globals of the text, apart from that of the nodes' own names.
        namespace = Namespace()
        before = self._name_of
        self._name_of = lambda node: namespace.create_name(node.name, node)
        try:
            return self._codegen._gen_python_code(
                self.nodes,
                root_module,
                namespace,
                verbose=verbose,
                include_stride=include_stride,
                include_device=include_device,
                colored=colored,
            )
        finally:
            self._name_of = before

    def __str__(self) -> str:
        lines = [node.format_node() or "" for node in self.nodes]
        return "\n    ".join(["graph():", *lines])

    def print_tabular(self) -> None:
        """Print the graph as a table. Raises ImportError if the package `tabulate` is not installed."""
        try:
            from tabulate import tabulate
        except ImportError:
            print(
                "`print_tabular` relies on the library `tabulate`, which could not be found on this machine. Run `pip "
                "install tabulate` to install the library."
            )
            raise
        rows = [[node.op, node.name, node.target, node.args, node.kwargs] for node in self.nodes]
        print(tabulate(rows, headers=["opcode", "name", "target", "args", "kwargs"]))

    def set_codegen(self, codegen: CodeGen) -> None:
        """Have the text be made by another `CodeGen`; call `GraphModule.recompile` afterwards."""
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        """Convert the generated function's arguments to the placeholders' values."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        """Convert the graph's result to the generated function's."""
        return self._codegen.process_outputs(out)

    def on_generate_code(
        self, make_transformer: Callable[[TransformCodeFunc | None], TransformCodeFunc]
    ) -> AbstractContextManager[None]:
        """Have a function rewrite the lines of the body whenever the text is made.

        Args:
            make_transformer: gets the present function or None, gives the new one.

        Returns:
            a context, at whose end the present function is back; the new one is used with or without it.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def restoring() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restoring()


def _has_reference(module: Module, qualified_name: str) -> bool:
    path, _, name = qualified_name.rpartition(".")
    try:
        parent = module.get_submodule(path)
    except AttributeError:
        return False
    member = getattr(parent, name, None)
    return isinstance(member, Module | Parameter) or name in parent._buffers


def _check_target(module: Module, node: Node) -> None:
    """Raise for a target that is of the wrong class or that a module lacks."""
    fits = callable(node.target) if node.op == "call_function" else isinstance(node.target, str)
    if not fits:
        expected = "Callable" if node.op == "call_function" else "str"
        raise ValueError(
            f"Node {node} target {node.target} has type {typename(node.target)} but a {expected} is expected"
        )
    if node.op not in ("get_attr", "call_module"):
        return
    names: Sequence[str] = node.target.split(".")
    attribute: Any = module
    for index, name in enumerate(names):
        attribute = getattr(attribute, name, None)
        if attribute is None:
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {name} of "
                f"{'.'.join(names[:index])}"
            )
        if node.op == "call_module" and not isinstance(attribute, Module):
            raise RuntimeError(
                f"Node {node} target {node.target} {name} of {'.'.join(names[:index])} does not reference an nn.Module"
            )
