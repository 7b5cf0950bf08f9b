"""`Proxy`: a value that records operations on it; `TracerBase`: the base of tracers (torch/fx/proxy.py)."""

from __future__ import annotations

import copy
import dis
import enum
import inspect
import operator
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from types import FrameType, TracebackType
from typing import Any

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.tensor import Tensor
from ..nn.modules.parameter import Parameter
from ..overrides import is_tensor_method_or_property
from ..runtime import public_name
from ..runtime.size import Size
from . import traceback as fx_traceback
from .graph import Graph, magic_methods, reflectable_magic_methods
from .node import Argument, Node, Target, base_types, map_aggregate, map_arg
from .qualified_names import ROOT, root_name
from .stack_traces import recorded_stack

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]


class TraceError(ValueError):
    """Error: a program needs the actual value of a symbolic value."""


class Scope:
    """The module whose `forward` is traced: its dotted name and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """A block in which `scope` says what `current_scope` says."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._scope = scope
        self._before = copy.copy(scope)
        scope.__dict__.update(current_scope.__dict__)

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._scope.__dict__.update(self._before.__dict__)


class TracerBase:
    """Base class of tracers: creates nodes and proxies, and converts values to arguments of nodes.

    A subclass may set:

    - `record_stack_traces`: record ``node.stack_trace``.
    - `trace_asserts`: record ``assert`` on a proxy as a node.
    - `proxy_buffer_attributes`: return proxies for buffers that are read.
    - `traced_func_name`: the method of a module that is traced.
    - `check_mutable_operations`: refuse functions that change their arguments, such as those with ``out=``.
    """

    graph: Graph
    record_stack_traces: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"
    check_mutable_operations: bool = False

    scope: Scope
    module_stack: OrderedDict[str, tuple[str, Any]]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Any | None = None,
    ) -> Node:
        """Add a step to the graph: what a subclass overrides to check or change steps."""
        if kind == "call_function" and self.check_mutable_operations:
            from .operator_schemas import check_for_mutable_operation

            check_for_mutable_operation(target, args, kwargs)
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            if current.get("stack_trace"):
                node.stack_trace = current["stack_trace"]
            for field in fx_traceback.KEPT_FIELDS:
                if field in current:
                    node.meta[field] = copy.copy(current[field])
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            stack = recorded_stack()
            if stack is not None:
                node.stack_trace = stack
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return a proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any | None = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Add a step whose arguments are any values, and give its proxy."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Argument:
        """Convert a value to an argument of a node.

        Raises:
            NotImplementedError: The value cannot be an argument.
        """
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, Size):
            return a
        if isinstance(a, tuple):
            made = [self.create_arg(each) for each in a]
            return type(a)._make(made) if hasattr(a, "_make") else type(a)(made)
        if isinstance(a, list):
            return [self.create_arg(each) for each in a]
        if isinstance(a, dict):
            return {self._dict_key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, (*base_types, enum.Enum, OpOverload)) or a is None or a is ...:
            return a
        if is_dataclass(a) and not isinstance(a, type):
            made_of = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), made_of)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _dict_key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        made = self.create_arg(key)

        def refuse(node: Node) -> None:
            raise RuntimeError(
                "Keys for dictionaries used as an argument cannot contain a Node. Got key: " + str(node)
            )

        map_arg(made, refuse)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """Handle ``bool(proxy)`` by raising TraceError; a subclass that knows values may override it."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Handle ``iter(proxy)`` by raising TraceError; a subclass that knows lengths may override it."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the documentation of symbolic tracing for what control flow can be "
            "traced; a function that iterates can be kept whole with fx.wrap"
        )

    def keys(self, obj: Proxy) -> Any:
        """Handle ``proxy.keys()``, and so ``**proxy``, by recording a method call."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """The tracer of proxies that are made by hand: steps go to the end of a graph, or where it inserts."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: object) -> None:
    """Check a traced assertion (`TracerBase.trace_asserts`).

    Raises:
        AssertionError: `x` is false.
    """
    if not x:
        raise AssertionError("Assertion failed")


def _current_instruction(frame: FrameType) -> tuple[list[dis.Instruction], int]:
    """Return the instructions of a frame's code, and the index of the current one."""
    instructions = list(dis.get_instructions(frame.f_code))
    return instructions, next(
        (i for i, each in enumerate(instructions) if each.offset == frame.f_lasti), len(instructions) - 1
    )


def _is_assertion(frame: FrameType) -> bool:
    """Return whether a frame evaluates a truth value for an ``assert``."""
    instructions, index = _current_instruction(frame)
    if instructions[index].opname == "TO_BOOL":
        index += 1
    jump, following = instructions[index], instructions[index + 1 : index + 2]
    return (
        jump.opname.startswith("POP_JUMP")
        and jump.opname.endswith("IF_TRUE")
        and any("ASSERTION_ERROR" in each.opname or "AssertionError" in each.argrepr for each in following)
    )


class Proxy:
    """A value of a program that is traced: whatever is done with it becomes a step of the graph.

    Operators, attributes, methods, and the public functions of the package are recorded. Its truth, its length and its
    elements are not known: ``if``, ``len`` and loops raise an error, while ``a, b = proxy`` takes two elements. A proxy
    of a node, made by hand, adds steps to that node's graph.

    Source: torch.fx.Proxy.

    Example:
        >>> import triten as tt
        >>> graph = tt.fx.Graph()
        >>> x = tt.fx.Proxy(graph.placeholder("x"))
        >>> y = tt.relu(x[0] + 1).exp()
        >>> [node.name for node in graph.nodes]
        ['x', 'getitem', 'add', 'relu', 'exp']
    """

    node: Node

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Programs of `triten.as_torch` name the handler `__torch_function__`.
        theirs = cls.__dict__.get("__torch_function__")
        if theirs is not None:
            cls.__tensor_function__ = theirs  # type: ignore[method-assign]

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        return Proxy(copy.deepcopy(self.node, memo), copy.deepcopy(self.tracer, memo))

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        if caller is not None:
            instructions, index = _current_instruction(caller)
            if instructions[index].opname == "UNPACK_SEQUENCE":
                count: int = instructions[index].argval
                return iter([self[i] for i in range(count)])  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Proxy:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        frame = inspect.currentframe()
        caller = None if frame is None else frame.f_back
        if self.tracer.trace_asserts and caller is not None and _is_assertion(caller):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Return the keys, as defined by the tracer."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            f"{root_name()}.fx.wrap('len') at module scope"
        )

    @classmethod
    def __tensor_function__(
        cls,
        orig_method: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        tracers: dict[TracerBase, None] = {}

        def find(value: Any) -> None:
            if isinstance(value, Proxy):
                tracers[value.tracer] = None

        map_aggregate((tuple(args), kwargs or {}), find)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        arguments, keywords = _as_pytorch_gives(orig_method, tuple(args), dict(kwargs or {}))
        if is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, arguments, keywords)
        return tracer.create_proxy(
            "call_function", orig_method, arguments, keywords, tracer.graph._target_to_str(orig_method)
        )


def _as_pytorch_gives(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a call's arguments in the form in which PyTorch's functions pass them to a handler.

    Functions of `nn.functional` that PyTorch writes in Python pass required arguments by position and all others by
    name, defaults included. Other functions pass what the caller wrote.
    """
    path = public_name.path_below(getattr(function, "__module__", None)) or ""
    name = getattr(function, "__name__", None)
    if name == "einsum" and len(args) == 2 and isinstance(args[1], list | tuple):
        return (args[0], *args[1]), kwargs
    is_python_there = path.startswith("nn.") and name not in _BUILTIN_THERE
    if not (is_python_there or (name in _PYTHON_THERE and path.startswith("dispatch."))):
        return args, kwargs
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return args, kwargs
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for each in bound.signature.parameters.values():
        value = bound.arguments[each.name]
        if each.kind is each.VAR_KEYWORD:
            return args, kwargs
        if each.kind is each.VAR_POSITIONAL:
            positional += value
        elif each.default is each.empty and each.kind is not each.KEYWORD_ONLY:
            positional.append(value)
        else:
            named[each.name] = value
    return tuple(positional), named


_BUILTIN_THERE = frozenset(
    [
        "adaptive_avg_pool1d",
        "avg_pool1d",
        "avg_pool2d",
        "avg_pool3d",
        "cosine_similarity",
        "hardshrink",
        "logsigmoid",
        "one_hot",
        "pairwise_distance",
        "prelu",
        "softshrink",
    ]
)
"""Functions of `nn.functional` that are written in Python here, and not in PyTorch."""

_PYTHON_THERE = frozenset(
    {
        *("cdist", "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot"),
        *("unique", "unique_consecutive"),
    }
)
"""Functions of the root that PyTorch writes in Python, and methods of theirs that are so."""


class Attribute(Proxy):
    """An attribute of a proxy: a method if it is called, and otherwise a step once it is used."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The step that reads the attribute, made when it is asked for."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """The proxy of a parameter whose shape is not recorded, but known (`Tracer.param_shapes_constant`)."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Parameter) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, Parameter):
            raise AssertionError(f"ParameterProxy: expected a Parameter, got {type(param)}")
        self.param: Tensor = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """The parameter's shape."""
        return self.param.shape

    def size(self) -> Size:
        """Return the parameter's shape."""
        return self.param.size()

    def dim(self) -> int:
        """Return the parameter's number of dimensions."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's number of dimensions."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.numel()

    def nelement(self) -> int:
        """Return the parameter's number of elements."""
        return self.param.nelement()


def _recording(name: str) -> Callable[..., Proxy]:
    def record(self: Proxy, *args: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", getattr(operator, name), (self, *args), {})

    return record


def _recording_reflected(name: str) -> Callable[..., Proxy]:
    def record(self: Proxy, other: Any) -> Proxy:
        return self.tracer.create_proxy("call_function", getattr(operator, name), (other, self), {})

    return record


if root_name() != ROOT:
    Proxy.__torch_function__ = Proxy.__dict__["__tensor_function__"]  # type: ignore[attr-defined]
for _name in magic_methods:
    setattr(Proxy, f"__{_name.strip('_')}__", _recording(_name))
for _name in reflectable_magic_methods:
    setattr(Proxy, f"__r{_name.strip('_')}__", _recording_reflected(_name))
