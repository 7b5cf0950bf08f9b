"""`symbolic_trace` and `Tracer`: run a program on proxies that record it (torch/fx/_symbolic_trace.py)."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import chain
from types import FunctionType, ModuleType
from typing import Any, ClassVar

from ..dispatch.functions.queries import _assert
from ..dispatch.layers.pytree import tree_flatten, tree_map, tree_unflatten
from ..dispatch.tensor import Tensor
from ..nn.modules.container import Sequential
from ..nn.modules.lazy import LazyModuleMixin
from ..nn.modules.module import Module
from ..nn.modules.parameter import Parameter
from ..runtime import public_name
from .code_generation import PyTreeCodeGen, PyTreeInfo
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, base_types, map_aggregate
from .patching import Patcher, wrap
from .proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase

__all__ = [
    "PH",
    "PHWithMeta",
    "ProxyableClassMeta",
    "Tracer",
    "is_fx_symbolic_tracing",
    "is_fx_tracing",
    "symbolic_trace",
    "wrap",
]

HAS_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS

_original_call = Module.__call__
_original_getattr = Module.__getattr__
_proxyable_classes: set[type] = set()
_traces = 0


def is_fx_tracing() -> bool:
    """Return whether a program is being traced (`torch.fx._symbolic_trace.is_fx_tracing`)."""
    return _traces > 0


def is_fx_symbolic_tracing() -> bool:
    """Return `is_fx_tracing`."""
    return is_fx_tracing()


class ProxyableClassMeta(type):
    """A metaclass: making an instance from proxies is recorded as a call of the class (`torch.fx.ProxyableClassMeta`).

    Example:
        >>> import triten as tt
        >>> class Pair(metaclass=tt.fx.ProxyableClassMeta):
        ...     def __init__(self, left, right):
        ...         self.left, self.right = left, right
        >>> module = tt.fx.symbolic_trace(lambda x: Pair(x, x + 1).right)
        >>> [node.name for node in module.graph.nodes]
        ['x', 'add', 'pair', 'getattr_1', 'output']
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.add(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if is_fx_tracing():
            proxies: list[Proxy] = []
            map_aggregate(
                (args, kwargs), lambda leaf: proxies.append(leaf) if isinstance(leaf, Proxy) else None
            )
            if proxies:
                return proxies[0].tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """Marker in ``concrete_args`` of an input that stays an input."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()
"""The input that stays one, in ``concrete_args``."""


class PHWithMeta(PHBase):
    """A `PH` whose attributes are given to the placeholder's node.

    Args:
        ph_key: an attribute by which the program finds the placeholder.
    """

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


def _assert_is_none(value: object, msg: str) -> None:
    """Check in a traced graph that an argument fixed at None is None."""
    if value is not None:
        raise AssertionError(msg)


def _takes_all_as_named(function: FunctionType, count: int) -> FunctionType:
    """Turn a function's ``*args`` and ``**kwargs`` into plain parameters, so that each can be given a proxy."""
    code = function.__code__
    plain = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~HAS_VARIADIC
    )
    return FunctionType(
        plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


class Tracer(TracerBase):
    """Tracer that runs a program on proxies and records its operations.

    A subclass decides what is recorded how: `is_leaf_module`, `call_module`, `getattr`, `create_arg`, `create_node`,
    `proxy`, `to_bool`, `iter`.

    Args:
        autowrap_modules: Python modules whose functions are recorded as steps, as `wrap` does.
        autowrap_functions: functions that are recorded as steps.
        param_shapes_constant: If True, shapes of parameters are read while tracing, rather than recorded. Default:
            False.

    Source: torch.fx.Tracer.

    Example:
        >>> import triten as tt
        >>> class Whole(tt.fx.Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return True
        >>> model = tt.nn.Sequential(tt.nn.Sequential(tt.nn.Linear(2, 2), tt.nn.ReLU()))
        >>> [node.target for node in Whole().trace(model).nodes]
        ['input', '0', 'output']
        >>> [node.target for node in tt.fx.Tracer().trace(model).nodes]
        ['input', '0.0', '0.1', 'output']
    """

    root: Module
    tensor_attrs: dict[Tensor, str]
    _fresh: ClassVar[dict[str, int]] = {}

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        public = chain.from_iterable(vars(module).items() for module in autowrap_modules)
        self._autowrap_function_ids = {
            *(id(value) for name, value in public if not name.startswith("_") and callable(value)),
            *map(id, autowrap_functions),
        }
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    def get_fresh_qualname(self, prefix: str) -> str:
        """Return a name, the prefix and a number, that no attribute of the root has."""
        if not hasattr(self.root, f"{prefix}0"):
            self._fresh[prefix] = 0
            return f"{prefix}0"
        number = self._fresh.get(prefix, 0)
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        self._fresh[prefix] = number + 1
        return f"{prefix}{number}"

    def create_arg(self, a: Any) -> Argument:
        """Convert a value to an argument of a node.

        Parameters, buffers and modules of the root become nodes that read them. Other tensors, and instances of
        proxyable classes, become attributes of the root first. A named tuple becomes a node that builds it.

        Raises:
            NameError: A parameter does not belong to the root.
        """
        if isinstance(a, Parameter):
            return self._reads(a, self.root.named_parameters(), "parameter is not a member of this module")
        for cls, members in ((Tensor, self.root.named_buffers), (Module, self.root.named_modules)):
            if isinstance(a, cls):
                member_name = next((name for name, member in members() if member is a), None)
                if member_name is not None:
                    return self.create_node("get_attr", member_name, (), {})
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(map(self.create_arg, a)), {})
        if isinstance(a, Tensor):
            name = self.tensor_attrs.get(a)
            if name is None:
                name = self.tensor_attrs[a] = self.get_fresh_qualname("_tensor_constant")
                setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _reads(self, value: object, members: Iterable[tuple[str, object]], refusal: str) -> Node:
        for name, member in members:
            if member is value:
                return self.create_node("get_attr", name, (), {})
        raise NameError(refusal)

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether a module is a leaf, recorded as one node instead of being traced through.

        By default the modules of `nn` and `ao.nn` are leaves, except `Sequential`.

        Args:
            m: The module.
            module_qualified_name: Its dotted name in the root.
        """
        path = public_name.path_below(type(m).__module__) or ""
        return f"{path}.".startswith(("nn.", "ao.nn.")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """Return the dotted name of a module in the root.

        Raises:
            NameError: The root does not contain the module.
        """
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
        else:
            path = next((name for name, module in self.root.named_modules() if module is mod), None)
        if path is None:
            raise NameError("module is not installed as a submodule")
        return path

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Trace a module's call: record a node for a leaf, else run `forward`.

        Args:
            m: The module.
            forward: Calls the module as if nothing were traced.
            args, kwargs: The arguments of the call.
        """
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))):
            calls = self.num_calls.get(path, 0)
            self.num_calls[path] = calls + 1
            key = f"{path}@{calls}" if calls else path
            self.module_stack[key] = (path, type(m))
            try:
                if self.is_leaf_module(m, path):
                    return self.create_proxy("call_module", path, args, kwargs)
                return forward(*args, **kwargs)
            finally:
                self.module_stack.pop(key, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Trace the read of a module's attribute: return a proxy for a parameter.

        Args:
            attr: The name of the attribute.
            attr_val: Its value.
            parameter_proxy_cache: The existing proxies, by the parameters' dotted names.
        """
        if isinstance(attr_val, Parameter):
            members: Iterable[tuple[str, Tensor]] = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        else:
            return attr_val
        name = next((name for name, member in members if member is attr_val), None)
        if name is None:
            return attr_val
        if name not in parameter_proxy_cache:
            options: dict[str, Any] = {}
            if self.param_shapes_constant and isinstance(attr_val, Parameter):
                options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, attr_val)
            parameter_proxy_cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return parameter_proxy_cache[name]

    def create_args_for_root(
        self,
        root_fn: Callable[..., Any],
        is_module: bool,
        concrete_args: dict[str, Any] | tuple[Any, ...] | None = None,
    ) -> tuple[Callable[..., Any], list[Any]]:
        """Return the function to trace and its arguments, with a placeholder for each parameter.

        Args:
            root_fn: The function, or a module's `forward`.
            is_module: If True, the first parameter is the module.
            concrete_args: Fixed values of parameters, by name or in order. Default: None.
        """
        described = inspect.unwrap(root_fn)
        code = described.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:total])
        starred = list(code.co_varnames[total:])
        args: list[Any] = []
        if is_module:
            if not names:
                raise RuntimeError("``self`` argument cannot be part of *args expansion!")
            names.pop(0)
            args.append(self.root)
        if isinstance(concrete_args, tuple):
            if concrete_args and code.co_flags & HAS_VARIADIC and total == 1:
                for index, value in enumerate(concrete_args):
                    proxy = self.create_proxy("placeholder", f"input_{index}", (), {})
                    _transfer_attributes(value, proxy.node)
                    args.append(proxy)
                return root_fn, args
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        concrete = concrete_args or {}
        args += [self._placeholder(name, concrete, described) for name in names]
        if code.co_kwonlyargcount or code.co_flags & HAS_VARIADIC:
            if code.co_flags & inspect.CO_VARARGS:
                args.append(self._placeholder(f"*{starred.pop(0)}", concrete, described))
            if code.co_flags & inspect.CO_VARKEYWORDS:
                args.append(self._placeholder(f"**{starred.pop(0)}", concrete, described))
            root_fn = _takes_all_as_named(root_fn, len(args))  # type: ignore[arg-type]
        leaves, in_spec = tree_flatten(tuple(args))
        if all(child.is_leaf() for child in in_spec.children()):
            return root_fn, args
        given_names = ["self", *names] if is_module else names
        codegen = PyTreeCodeGen(PyTreeInfo(given_names, in_spec, None))
        self.graph.set_codegen(codegen)

        def on_leaves(*leaves: Any) -> list[Any]:
            results, out_spec = tree_flatten(root_fn(*tree_unflatten(leaves, in_spec)))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return results

        return on_leaves, leaves

    def _placeholder(self, name: str, concrete: dict[str, Any], described: Callable[..., Any]) -> Any:
        """Return a parameter's argument: a proxy, or its fixed value, whose leaves have placeholders."""
        parameter = inspect.signature(described).parameters.get(name)
        has_default = parameter is not None and parameter.default is not parameter.empty
        default: tuple[Any, ...] = (parameter.default,) if parameter is not None and has_default else ()
        if name not in concrete:
            annotation = _annotations(described).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        count = 0

        def fixed(value: Any) -> Any:
            nonlocal count
            count += 1
            proxy = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                _transfer_attributes(value, proxy.node)
                return proxy
            if type(value) in base_types and not isinstance(value, Tensor):
                message = f"{name} has been specialized to have value {value} but got another value"
                _assert(proxy == value, message)
            elif value is None:
                message = f"{name} has been specialized to have value None but got another value"
                self.create_proxy("call_function", _assert_is_none, (proxy, message), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is "
                    "up to the user to make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            return value

        return tree_map(fixed, concrete[name])

    def trace(
        self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
    ) -> Graph:
        """Trace a module's `forward` or a function to a graph.

        Afterwards `self.root` is the module that the graph's attributes belong to, a new one for a function. Tensors
        that a program captures, other than parameters or buffers, become attributes of it.

        Args:
            root: The module or function.
            concrete_args: Fixed values of parameters, by name or in order; `PH` keeps an input. Default: None.

        Raises:
            TraceError: The program needs a value, for example in an ``if``.
        """
        global _traces
        if isinstance(root, Module):
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(
                    f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}"
                )
            self.root = root
            function = getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root = Module()
            function = root
        if not isinstance(function, FunctionType):
            raise AssertionError(f"trace(): expected a function or a module, got {type(function)}")
        code = function.__code__
        self.graph = Graph(tracer_cls=type(self))
        self.graph._co_fields = {
            "co_name": code.co_name,
            "co_filename": code.co_filename,
            "co_firstlineno": code.co_firstlineno,
        }
        self.tensor_attrs = {
            value: ".".join(filter(None, (path, name)))
            for path, module in self.root.named_modules()
            for name, value in vars(module).items()
            if isinstance(value, Tensor)
        }
        _traces += 1
        try:
            with Patcher() as patcher:
                run, args = self.create_args_for_root(function, isinstance(root, Module), concrete_args)
                self._patch(patcher, function.__globals__)
                result = self.create_arg(run(*args))
                annotation = _annotations(inspect.unwrap(run)).get("return") if run is function else None
                self.create_node("output", "output", (result,), {}, type_expr=annotation)
        finally:
            _traces -= 1
            self.submodule_paths = None
        return self.graph

    def _patch(self, patcher: Patcher, program: dict[str, Any]) -> None:
        """Exchange what the program calls: modules' calls and attributes, and functions that are recorded as steps."""
        cache: dict[str, Proxy] = {}
        known = self._autowrap_function_ids

        @functools.wraps(_original_getattr)
        def getattr_of_module(module: Module, attr: str) -> Any:
            return self.getattr(attr, _original_getattr(module, attr), cache)

        @functools.wraps(_original_call)
        def call_of_module(module: Module, *args: Any, **kwargs: Any) -> Any:
            def forward(*args: Any, **kwargs: Any) -> Any:
                return _original_call(module, *args, **kwargs)

            patcher.record_known(getattr(module.forward, "__globals__", {}), known)
            return self.call_module(module, forward, args, kwargs)

        patcher.patch_method(Module, "__getattr__", getattr_of_module)
        patcher.patch_method(Module, "__call__", call_of_module)
        # Its own call would ask the proxy for sizes.
        patcher.patch_method(LazyModuleMixin, "__call__", call_of_module)
        patcher.record_wrapped()
        patcher.record_known(program, known)
        for searched in self._autowrap_search:
            patcher.record_known(vars(searched), known)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = type(self).__new__(type(self))
        for name, value in vars(self).items():
            # Python's modules are no copies of themselves.
            vars(made)[name] = list(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
        return made


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function's annotations; for functions of `nn`, whose annotations are strings, only those of tensors."""
    annotations = inspect.get_annotations(function)
    if (public_name.path_below(function.__module__) or "").startswith("nn."):
        return {name: Tensor for name, text in annotations.items() if text == "Tensor"}
    return annotations


def _transfer_attributes(value: Any, node: Node) -> None:
    """Give a node the attributes of a `PHWithMeta`."""
    if isinstance(value, PHBase) and value is not PH:
        for name, each in vars(value).items():
            if not name.startswith("__") and not hasattr(node, name):
                setattr(node, name, each)


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | tuple[Any, ...] | None = None
) -> GraphModule:
    """Trace a module or function to a `GraphModule` that computes the same (`torch.fx.symbolic_trace`).

    The program runs once, on symbolic values. The trace records the branches that this run takes. Control flow that
    depends on a symbolic value raises an error.

    Args:
        root: the module or function. Parameters and submodules are shared with the result.
        concrete_args: values that parameters are fixed at; `PH` in containers leaves an input one.

    Raises:
        TraceError: The program needs a value, for example in an ``if``.

    Example:
        >>> import triten as tt
        >>> def f(x, y=2):
        ...     return tt.relu(x) * y
        >>> module = tt.fx.symbolic_trace(f)
        >>> print(module.code.strip())
        def forward(self, x, y = 2):
            relu = triten.relu(x);  x = None
            mul = relu * y;  relu = y = None
            return mul
        >>> module(tt.tensor([-1.0, 3.0]))
        tensor([0., 6.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
