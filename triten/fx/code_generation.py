"""`CodeGen`: the text of a graph as a Python function (torch/fx/graph.py)."""

from __future__ import annotations

import enum
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.layers.pytree import TreeSpec, tree_unflatten
from ..dispatch.tensor import Tensor
from ..runtime import scalar_type as _dtypes
from ..runtime.device import device
from ._pytree import tree_flatten_spec
from .namespace import Namespace, known_globals
from .node import Argument, Node
from .qualified_names import own_path, qualified_name, root_name, type_text
from .stack_traces import summary_of

if TYPE_CHECKING:
    from ..dispatch.layers.graph.linked_nodes import NodeList

__all__ = ["CodeGen", "PythonCode", "inplace_methods", "magic_methods", "reflectable_magic_methods"]

TransformCodeFunc = Callable[[list[str]], list[str]]

reflectable_magic_methods = {
    "add": "{} + {}",
    "sub": "{} - {}",
    "mul": "{} * {}",
    "floordiv": "{} // {}",
    "truediv": "{} / {}",
    "mod": "{} % {}",
    "pow": "{} ** {}",
    "lshift": "{} << {}",
    "rshift": "{} >> {}",
    "and_": "{} & {}",
    "or_": "{} | {}",
    "xor": "{} ^ {}",
    "getitem": "{}[{}]",
    "matmul": "{} @ {}",
}
"""Functions of `operator` that have a reflected special method, and how their call is written."""

magic_methods = {
    "eq": "{} == {}",
    "ne": "{} != {}",
    "lt": "{} < {}",
    "gt": "{} > {}",
    "le": "{} <= {}",
    "ge": "{} >= {}",
    "pos": "+{}",
    "neg": "-{}",
    "invert": "~{}",
    **reflectable_magic_methods,
}
"""Functions of `operator` that are written as operators."""

inplace_methods = {
    "iadd": "{} += {}",
    "iand": "{} &= {}",
    "ifloordiv": "{} //= {}",
    "ilshift": "{} <<= {}",
    "imod": "{} %= {}",
    "imul": "{} *= {}",
    "imatmul": "{} @= {}",
    "ior": "{} |= {}",
    "ipow": "{} **= {}",
    "irshift": "{} >>= {}",
    "isub": "{} -= {}",
    "itruediv": "{} /= {}",
    "ixor": "{} ^= {}",
    "setitem": "{}[{}] = {}",
}
"""Functions of `operator` that are written as assignments."""

DTYPE_ABBREVIATIONS = {
    _dtypes.bfloat16: "bf16",
    _dtypes.float64: "f64",
    _dtypes.float32: "f32",
    _dtypes.float16: "f16",
    _dtypes.float8_e4m3fn: "f8e4m3fn",
    _dtypes.float8_e4m3fnuz: "f8e4m3fnuz",
    _dtypes.float8_e5m2: "f8e5m2",
    _dtypes.float8_e5m2fnuz: "f8e5m2fnuz",
    _dtypes.float8_e8m0fnu: "f8e8m0fnu",
    _dtypes.float4_e2m1fn_x2: "f4e2m1fnx2",
    _dtypes.complex32: "c32",
    _dtypes.complex64: "c64",
    _dtypes.complex128: "c128",
    _dtypes.int8: "i8",
    _dtypes.int16: "i16",
    _dtypes.int32: "i32",
    _dtypes.int64: "i64",
    _dtypes.bool_: "b8",
    _dtypes.uint8: "u8",
    _dtypes.uint16: "u16",
    _dtypes.uint32: "u32",
    _dtypes.uint64: "u64",
}

_COLORS = {"red": "\033[31m", "blue": "\033[34m", "dim": "\033[2m"}
_TYPING = {
    list: typing.List,  # noqa: UP006
    dict: typing.Dict,  # noqa: UP006
    set: typing.Set,  # noqa: UP006
    frozenset: typing.FrozenSet,  # noqa: UP006
    tuple: typing.Tuple,  # noqa: UP006
}


@dataclass
class PythonCode:
    """Generated source of a graph: `src` defines the function, `globals` holds the names that it uses."""

    src: str
    globals: dict[str, Any]


def format_target(base: str, target: str) -> str:
    """Return the expression for a dotted name below an expression; names that are no identifiers use `getattr`.

    Example:
        >>> from triten.fx.code_generation import format_target
        >>> format_target("self", "layers.0.weight")
        'getattr(self.layers, "0").weight'
    """
    for name in target.split("."):
        base = f"{base}.{name}" if name.isidentifier() else f'getattr({base}, "{name}")'
    return base


def tensor_summary(
    meta: Mapping[str, Any], include_stride: bool = False, include_device: bool = False
) -> str | None:
    """Summarize a node's tensor from its `meta`, such as ``f32[2, 3]``; None without one."""
    from .passes.shape_prop import TensorMetadata

    value = meta.get("val", meta.get("tensor_meta", meta.get("example_value")))
    if isinstance(value, TensorMetadata):
        return f"{DTYPE_ABBREVIATIONS[value.dtype]}{list(value.shape)}"
    if not isinstance(value, Tensor):
        return None
    stride = str(list(value.stride())) if include_stride else ""
    where = str(value.device) if include_device else ""
    return f"{DTYPE_ABBREVIATIONS[value.dtype]}{list(value.shape)}{stride}{where}"


class CodeGen:
    """How a graph becomes Python: signature, statements, and the result.

    A subclass may change the signature and what is returned; `Graph.set_codegen` makes a graph use it.

    Source: torch.fx.graph.CodeGen.

    Example:
        >>> import triten as tt
        >>> class TakesList(tt.fx.graph.CodeGen):
        ...     def gen_fn_def(self, free_vars, maybe_return_annotation):
        ...         names = ", ".join(free_vars)
        ...         return f"def forward(self, given){maybe_return_annotation}:\\n    {names}, = given"
        ...     def process_inputs(self, given):
        ...         return given
        >>> module = tt.fx.symbolic_trace(lambda x, y: x + y)
        >>> module.graph.set_codegen(TakesList())
        >>> _ = module.recompile()
        >>> module([tt.ones(2), tt.ones(2)])
        tensor([2., 2.])
    """

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the function's first line from the source of its parameters and of its return annotation."""
        parameters = free_vars if free_vars[:1] == ["self"] else ["self", *free_vars]
        return f"def {self._func_name}({', '.join(parameters)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Argument) -> str:
        """Return the return statement."""
        return f"return {output_args!r}"

    def process_inputs(self, *args: Any) -> Any:
        """Convert the function's arguments to the graph's inputs, for interpreters that run the graph directly."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Convert the graph's result to the function's."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the text needs besides those of the nodes, with what they stand for."""
        return []

    def _gen_python_code(
        self,
        nodes: NodeList[Node],
        root_module: str,
        namespace: Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
    ) -> PythonCode:
        text = _Text(self, root_module, namespace, verbose, colored)
        text.include_stride, text.include_device = include_stride, include_device
        last_uses = _last_uses(nodes)
        for node in nodes:
            text.add(node, last_uses.get(node, []))
        return text.finished()


def _last_uses(nodes: Iterable[Node]) -> dict[Node, list[Node]]:
    """Return, for each node, the nodes that it is the last to use."""
    seen: set[Node] = set()
    last_used: dict[Node, list[Node]] = {}
    for user in reversed(list(nodes)):
        for node in user._input_nodes:
            if node not in seen:
                seen.add(node)
                last_used.setdefault(user, []).append(node)
    return last_used


class _Text:
    """The text of one function, as it grows."""

    def __init__(
        self, codegen: CodeGen, root_module: str, namespace: Namespace, verbose: bool, colored: bool
    ) -> None:
        self.codegen = codegen
        self.root_module = root_module
        self.namespace = namespace
        self.verbose = verbose
        self.colored = colored
        self.include_stride = False
        self.include_device = False
        self.globals: dict[str, Any] = {}
        self.parameters: list[str] = []
        self.body: list[str] = []
        self.wrapped: dict[str, None] = {}
        self.return_annotation = ""
        self.last_summary: str | None = None
        taken: set[int] = set()
        for name, known in known_globals().items():
            # The package may have two names, of which the namespace knows the first as its name.
            owner = None if id(known.value) in taken else known.value
            taken.add(id(known.value))
            self.globals[namespace.create_name(name, owner)] = known.value

    def color(self, name: str, text: str) -> str:
        """Color a text for the terminal, if colors are enabled."""
        return f"{_COLORS[name]}{text}\033[0m" if self.colored else text

    def name_of(self, hint: str, value: Any) -> str:
        """Return the expression for a function or class: a path in the package, or a global of the source."""
        if value is not device:
            path = own_path(value)
            if path is not None:
                return f"{root_name()}.{path}"
        name = self.namespace.create_name(hint, value)
        self.globals[name] = value
        return name

    def annotation(self, value: Any) -> str:
        """Return the expression for a type."""
        if value == ():
            return "()"
        if isinstance(value, str):
            return repr(value)
        if isinstance(value, types.UnionType):
            return "|".join(map(self.annotation, typing.get_args(value)))
        origin = getattr(value, "__origin__", None)
        if origin is None or (isinstance(value, type) and not isinstance(value, types.GenericAlias)):
            return self.name_of(type_text(value), value)
        if not isinstance(value, types.GenericAlias):
            origin = _TYPING.get(origin, origin)
        name = self.name_of(type_text(origin), origin)
        args = typing.get_args(value)
        return f"{name}[{','.join(map(self.annotation, args))}]" if args else name

    def value(self, argument: Argument) -> str:
        """Return the expression for an argument."""
        if isinstance(argument, Node):
            return repr(argument)
        if isinstance(argument, tuple) and hasattr(argument, "_fields"):
            cls = type(argument)
            return f"{self.name_of(qualified_name(cls), cls)}({', '.join(map(self.value, argument))})"
        if isinstance(argument, OpOverload):
            return self.name_of(qualified_name(argument), argument)
        if isinstance(argument, enum.Enum):
            return f"{self.name_of(type(argument).__name__, type(argument))}.{argument.name}"
        if isinstance(argument, Tensor):
            return f"{root_name()}.Tensor(size={list(argument.shape)}, dtype={argument.dtype.name})"
        if type(argument) is tuple:
            inner = ", ".join(map(self.value, argument))
            return f"({inner},)" if len(argument) == 1 else f"({inner})"
        if isinstance(argument, list):
            return f"[{', '.join(map(self.value, argument))}]"
        if isinstance(argument, dict):
            return f"{{{', '.join(f'{key!r}: {self.value(each)}' for key, each in argument.items())}}}"
        if isinstance(argument, slice):
            bounds = (argument.start, argument.stop, argument.step)
            return f"slice({', '.join(map(self.value, bounds))})"
        return self.color("blue", repr(argument))

    def arguments(self, args: Sequence[Argument], kwargs: Mapping[str, Argument]) -> str:
        """Return the source of a call's arguments."""
        return ", ".join(
            [*map(self.value, args), *(f"{key} = {self.value(each)}" for key, each in kwargs.items())]
        )

    def type_of(self, node: Node) -> str:
        """Return a node's annotation with its colon; in verbose source, a summary of its tensor."""
        if self.verbose:
            summary = tensor_summary(node.meta, self.include_stride, self.include_device)
            if summary is not None:
                return f': "{self.color("red", summary)}"'
        return "" if node.type is None else f" : {self.annotation(node.type)}"

    def add(self, node: Node, unused_now: list[Node]) -> None:
        """Append a node's line, and delete the nodes that are not used again."""
        if self.verbose and node.op not in ("placeholder", "output"):
            summary = self.color("dim", f"# {summary_of(node.stack_trace)}")
            if summary != self.last_summary:
                self.last_summary = summary
                self.body.append(f"\n{summary}\n")
        if node.op == "placeholder":
            default = f" = {self.value(node.args[0])}" if node.args else ""
            self.parameters.append(f"{node.target}{self.type_of(node)}{default}")
            plain = node.target.replace("*", "")
            if plain != repr(node):
                self.body.append(f"{node!r} = {plain}\n")
            return
        if node.op == "output":
            if node.type is not None:
                self.return_annotation = f" -> {self.annotation(node.type)}"
            self.body.append(f"{self.codegen.generate_output(node.args[0])}\n")
            return
        freed = unused_now if node.users else [*unused_now, node]
        tail = f";  {self.color('dim', ' = '.join([*map(repr, freed), 'None']))}" if freed else ""
        self.body.append(f"{self.statement(node)}{tail}\n")

    def statement(self, node: Node) -> str:
        """Return the assignment that computes a node."""
        left = f"{node!r}{self.type_of(node)}"
        if node.op == "call_function":
            return self.function_call(node, left)
        if node.op == "call_method":
            method = format_target(self.value(node.args[0]), node.target)
            return f"{left} = {method}({self.arguments(node.args[1:], node.kwargs)})"
        attribute = format_target(self.root_module, node.target)
        if node.op == "call_module":
            return f"{left} = {attribute}({self.arguments(node.args, node.kwargs)})"
        if node.op == "get_attr":
            return f"{left} = {attribute}"
        raise NotImplementedError(f"node: {node.op} {node.target}")

    def function_call(self, node: Node, left: str) -> str:
        """Return the assignment of a function call; operators use Python's operator syntax."""
        target = node.target
        if getattr(target, "__module__", None) == "_operator":
            if target.__name__ in magic_methods:
                return f"{left} = {magic_methods[target.__name__].format(*map(self.value, node.args))}"
            if target.__name__ in inplace_methods:
                assignment = inplace_methods[target.__name__].format(*map(self.value, node.args))
                return f"{assignment};  {left} = {self.value(node.args[0])}"
        name = self.name_of(qualified_name(target), target)
        if target is getattr and len(node.args) == 2 and str(node.args[1]).isidentifier():
            return f"{left} = {format_target(self.value(node.args[0]), str(node.args[1]))}"
        if node.meta.get("is_wrapped", False):
            self.wrapped[name] = None
        return f"{left} = {name}({self.arguments(node.args, node.kwargs)})"

    def finished(self) -> PythonCode:
        """Return the complete source."""
        body = self.body or ["pass\n"]
        if self.codegen._body_transformer is not None:
            body = self.codegen._body_transformer(body)
        for name, value in self.codegen.additional_globals():
            self.name_of(name, value)
        wraps = "\n".join(f'{root_name()}.fx.wrap("{name}")' for name in self.wrapped)
        first = self.codegen.gen_fn_def(self.parameters, self.return_annotation)
        lines = "".join(body).lstrip("\n").split("\n")
        return PythonCode("\n".join(["", wraps, "", first, *(f"    {line}" for line in lines)]), self.globals)


class PyTreeInfo(NamedTuple):
    """How arguments were taken apart before a graph, and how its results are put together."""

    orig_args: list[str]
    in_spec: TreeSpec
    out_spec: TreeSpec | None


class PyTreeCodeGen(CodeGen):
    """The text of a graph whose inputs are the leaves of the function's arguments."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """Return the function's first line, and one that flattens the arguments."""
        parameter_names = self.pytree_info.orig_args
        leaves = ["self", *free_vars] if parameter_names[:1] == ["self"] else free_vars
        first = super().gen_fn_def(parameter_names, maybe_return_annotation)
        if not leaves:
            return first
        typed = [leaf for leaf in leaves if ":" in leaf]
        annotations = f"\n    {''.join(f'{leaf}; ' for leaf in typed)}\n" if typed else ""
        names = ", ".join(leaf.split(":")[0] for leaf in leaves)
        flat = f"fx_pytree.tree_flatten_spec([{', '.join(parameter_names)}], self._in_spec)"
        return f"{first}{annotations}\n    {names}, = {flat}"

    def generate_output(self, output_args: Argument) -> str:
        """Return the return statement, which unflattens the results."""
        if self.pytree_info.out_spec is None:
            return super().generate_output(output_args)
        return f"return pytree.tree_unflatten({output_args!r}, self._out_spec)"

    def process_inputs(self, *args: Any) -> Any:
        """Return the leaves of the arguments, without the module that a traced `forward` has first."""
        specs = self.pytree_info.in_spec.children()
        if self.pytree_info.orig_args[:1] == ["self"]:
            specs = specs[1:]
        return [leaf for arg, spec in zip(args, specs, strict=True) for leaf in tree_flatten_spec(arg, spec)]

    def process_outputs(self, outputs: Any) -> Any:
        """Unflatten the results."""
        if self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, list | tuple) else [outputs]
        return tree_unflatten(leaves, self.pytree_info.out_spec)
