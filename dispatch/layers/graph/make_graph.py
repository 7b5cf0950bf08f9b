"""`make_graph`: run a function and record the operators that it calls (torch/fx/experimental/proxy_tensor.py).

Recording is a dispatch mode at the Python key, below autograd. Gradients taken inside the function are recorded as the
operators that compute them, and composite operators as their parts. Kernels are not traced. The Tracer key is above
autograd, where the calls are as the program wrote them. It is in the key set while a function is recorded, and falls
through. A kernel registered there decides how its operator is recorded. The graph holds the operators that the kernel
calls::

    lib.impl("gelu", lambda x, *, approximate="none": 0.5 * x * (1 + tt.erf(x / 2**0.5)), "Tracer")
"""

from __future__ import annotations

import inspect
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ....runtime.cuda.triton.launch_observer import recording_launches
from ....runtime.dispatch_key import AUTOGRAD_BITS, Functionality, functionality_bit
from ....runtime.generator import Generator
from ....runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard, IncludeDispatchKeyGuard
from ....runtime.storage import Storage, address_of, root_of
from ....runtime.tensor_impl import TensorImpl
from ....runtime.tensor_spec import TensorSpec
from ....runtime.traceback_filter import api_boundary
from ...autograd.node import edge_of
from ...core.bound_arguments import tensors_in
from ...core.op_overload import OpOverload
from ...core.tensor_function import disabled_tensor_function, plain_classes
from ...tensor import Tensor
from ..python_key import TensorDispatchMode, active_modes
from ..pytree import tree_flatten, tree_unflatten
from .graph import Attribute, Graph, Node
from .traced import InputLeaf, Traced, check_against

TRACER_BIT = functionality_bit(Functionality.Tracer)
FUNCTIONALIZE_BIT = functionality_bit(Functionality.Functionalize)
MODES = ("real", "fake")
PLAIN: Any = Tensor


def make_graph(
    f: Callable[..., Any],
    tracing_mode: str = "real",
    *,
    check: bool = False,
    _error_on_data_dependent_ops: bool = True,
    _records_branches: bool = False,
) -> Callable[..., Traced]:
    """Return a function that runs `f` on its arguments and returns the graph of the operators that it called
    (`make_fx`).

    Tensors among the arguments, in any nesting of tuples, lists and dicts, become inputs of the graph; other arguments,
    and shapes, are fixed in it. A tensor that `f` closes over becomes a constant of the graph, the same object: writes
    to it are seen. The graph has only operators. It omits Python's control flow and assignments to ``.grad`` (return
    gradients instead).

    Args:
        f: The function; its results may be nested like its arguments.
        tracing_mode: ``"real"`` computes while it records, on the arguments given, with all effects that `f` has.
            ``"fake"`` computes nothing: it runs the operators' Meta kernels, on stand-ins that keep shapes, strides,
            dtypes and devices. So neither memory nor the device is needed, and no argument is written to.
        check: If True, run `f` and the graph on copies of the arguments, with the same random numbers, and compare.
        _error_on_data_dependent_ops: If True, refuse to read a value that depends on the inputs. If False, the graph
            fixes the number read. Under ``"fake"`` there are no values to read.
        _records_branches: If True, record both branches of `tt.cond` if the condition depends on the inputs.

    Raises (the function returned):
        RuntimeError: for ``.item()``, ``bool(tensor)``, ``.numpy()`` and other reads of a value that depends on the
            inputs; for a closed-over tensor that shares memory with an input; if `check` finds a difference.
        ValueError: for an unknown `tracing_mode`.

    Example:
        >>> import triten as tt
        >>> def f(x):
        ...     return tt.autograd.grad((x * x).sum(), x)
        >>> traced = tt.func.make_graph(f)(tt.tensor([1.0, 2.0], requires_grad=True))
        >>> print(traced.graph)
        graph(%x : float32[2]):
            %mul : float32[2] = aten.mul.Tensor(%x, %x)
            %sum_1 : float32[] = aten.sum(%mul)
            %ones_like : float32[] = aten.ones_like(%sum_1)
            %expand : float32[2] = aten.expand(%ones_like, [2])
            %mul_1 : float32[2] = aten.mul.Tensor(%expand, %x)
            %mul_2 : float32[2] = aten.mul.Tensor(%expand, %x)
            %add : float32[2] = aten.add.Tensor(%mul_2, %mul_1)
            return [%add]
        >>> traced(tt.tensor([3.0, 4.0]))
        (tensor([6., 8.]),)
    """
    if tracing_mode not in MODES:
        raise ValueError(
            f"make_graph(): tracing_mode must be one of {', '.join(map(repr, MODES))}, got {tracing_mode!r}"
        )
    if not callable(f):
        raise TypeError(f"make_graph(): f must be callable, got {type(f).__name__}")

    @api_boundary
    def record(*args: Tensor, **kwargs: Any) -> Traced:
        checker = check_against(f, args, kwargs) if check else None
        traced = _record(f, tracing_mode, not _error_on_data_dependent_ops, _records_branches, args, kwargs)
        if checker is not None:
            checker(traced)
        return traced

    return record


def _record(
    f: Callable[..., Any],
    tracing_mode: str,
    may_read: bool,
    records_branches: bool,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Traced:
    leaves, in_spec = tree_flatten((args, kwargs))
    names = _input_names(f, args, kwargs)
    if tracing_mode == "fake":
        from .fake_tensor import FakeTracer

        tracer: Tracer = FakeTracer()
    else:
        tracer = Tracer()
    tracer.may_read = may_read
    tracer.records_branches = records_branches
    call_leaves: list[Any] = []
    inputs: list[InputLeaf] = []
    for leaf, name in zip(leaves, names, strict=True):
        if not isinstance(leaf, TensorImpl):
            call_leaves.append(leaf)
            inputs.append(InputLeaf(name, None, leaf))
            continue
        if leaf._spec.keys & FUNCTIONALIZE_BIT:
            raise RuntimeError(
                "make_graph inside functionalize is not supported, as it would record what functionalize has yet to "
                "rewrite; use make_graph(functionalize(f))"
            )
        stand_in = tracer.enter_input(leaf, name)
        call_leaves.append(stand_in)
        inputs.append(InputLeaf(name, described(leaf._spec), None))
    call_args, call_kwargs = tree_unflatten(call_leaves, in_spec)
    try:
        with tracer, recording_launches():
            result = f(*call_args, **call_kwargs)
        results, out_spec = tree_flatten(result)
        outputs = tuple([tracer.argument(r) if isinstance(r, TensorImpl) else r for r in results])
    finally:
        tracer.leave_inputs()
    tracer.graph.output(outputs)
    return Traced(tracer.graph, inputs, in_spec, out_spec)


def _input_names(f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return a name for each leaf of the arguments: the parameter name, with the path to a nested leaf."""
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        tops: list[tuple[str, Any]] = [(f"arg{i}", value) for i, value in enumerate(args)]
    else:
        tops = []
        for name, value in bound.arguments.items():
            kind = parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                tops += [(f"{name}_{i}", v) for i, v in enumerate(value)]
            elif kind is not inspect.Parameter.VAR_KEYWORD:
                tops.append((name, value))
    positional = tops[: len(args)]
    names: list[str] = []
    for name, value in [*positional, *kwargs.items()]:
        names += _leaf_names(name, value)
    return names


def _leaf_names(name: str, value: Tensor) -> list[str]:
    leaves, spec = tree_flatten(value)
    return [name] if spec.is_leaf() else [f"{name}_{i}" for i in range(len(leaves))]


def described(spec: TensorSpec) -> TensorSpec:
    """Return a spec as a graph stores it: without requires-grad and keys, which belong to a run."""
    return spec.replace(requires_grad=False, keys=0)


class TracedTensor(Tensor):
    """A tensor while a function of it is recorded: reading its value is refused where it depends on the inputs."""

    __slots__ = ()
    __tensor_function__: Any = disabled_tensor_function
    sees_parts = True

    def __init__(self) -> None:
        tracer = innermost_tracer()
        if tracer is not None:
            tracer.made.append(weakref.ref(self))

    def host_array(self) -> Any:
        _check_readable(self, "its value")
        return super().host_array()

    def item(self) -> Any:
        _check_readable(self, "its value")
        return super().item()

    def numpy(self, *, force: bool = False) -> Any:
        _check_readable(self, "its memory by numpy()")
        return super().numpy(force=force)

    def __repr__(self) -> str:
        if _reader_of(self) is None:
            return super().__repr__()
        spec = self._spec
        return f"TracedTensor({spec.dtype.name}{list(spec.sizes)}, device='{spec.device}')"


plain_classes.add(TracedTensor)


def tracers() -> list[Tracer]:
    """Return the tracers that are recording in this thread, outermost first."""
    return [mode for mode in active_modes() if isinstance(mode, Tracer)]


def innermost_tracer() -> Tracer | None:
    """Return the tracer that sees this thread's calls first, or None."""
    active = tracers()
    return active[-1] if active else None


def _reader_of(tensor: Tensor) -> Tracer | None:
    """Return a recording tracer for which the tensor's value is unknown, or None."""
    return next((t for t in tracers() if not t.may_read and t.depends_on_inputs(tensor)), None)


def _check_readable(tensor: Tensor, operation: str) -> None:
    tracer = _reader_of(tensor)
    if tracer is not None:
        tracer.has_refused = True
        node = tracer.find(tensor)
        name = "" if node is None else f" (%{node.name})"
        raise RuntimeError(
            f"It appears that you're trying to get value out of a tracing tensor: {operation}{name} depends on the "
            "inputs of make_graph, and a number read from it would be wrong for other inputs. It's likely that this is "
            "caused by data-dependent control flow or similar. Keep the value a tensor (tt.where chooses without "
            "reading)."
        )


class Tracer(TensorDispatchMode):
    """Dispatch mode that records. `graph` grows by every operator that reaches the Python key in this thread.

    Tensors are known by their bytes and geometry, so that every Python object of a value leads to its node. A write is
    recorded on the node that made the very object: an input is no view of itself, and `resize_` changes one object.
    """

    sees_parts = True

    def __init__(self) -> None:
        self.graph = Graph()
        self.may_read = self.records_branches = False
        self.has_refused = False
        self.made: list[weakref.ref[Any]] = []
        self._nodes: dict[int, tuple[weakref.ref[Any], dict[Any, Any]]] = {}
        self._own_nodes: dict[int, tuple[weakref.ref[Any], weakref.ref[Any], tuple[Any, ...], Node]] = {}
        self._dependent: dict[int, weakref.ref[Any]] = {}
        self._inputs: list[tuple[Any, Any]] = []
        self._tracer_guards: list[IncludeDispatchKeyGuard] = []
        self._constants: list[Any] = []

    def __enter__(self) -> Any:
        super().__enter__()
        guard = IncludeDispatchKeyGuard(TRACER_BIT)
        guard.__enter__()
        self._tracer_guards.append(guard)
        return self

    def __exit__(self, *error: Any) -> None:
        self._tracer_guards.pop().__exit__(*error)
        super().__exit__(*error)

    def __tensor_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Record one call and make it."""
        named = kwargs or {}
        return self._recorded(func, args, named, lambda: self.compute(func, args, named))

    def _recorded(
        self,
        func: OpOverload,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        compute: Callable[[], Any],
    ) -> Any:
        node_args = [self.argument(a) for a in args]
        schema = func._entry.schema
        if schema.is_mutable:
            for i, (argument, value) in enumerate(zip(schema.arguments, args, strict=False)):
                if argument.is_write and isinstance(value, TensorImpl):
                    node_args[i] = self._own_node(value) or node_args[i]
        node_kwargs = {name: self.argument(v) for name, v in kwargs.items()} if kwargs else {}
        flat = tensors_in([*args, *kwargs.values()] if kwargs else args)
        dependent = "nondeterministic_seeded" in func._entry.tags or any(
            self.depends_on_inputs(t) for t in flat
        )
        with ExcludeDispatchKeyGuard(TRACER_BIT):
            result = compute()
        if not flat and isinstance(result, TensorImpl):
            # The defaults of dtype and device are those of the recording.
            for argument in schema.kwarg_only_arguments:
                if argument.name in ("dtype", "device") and kwargs.get(argument.name) is None:
                    node_kwargs[argument.name] = getattr(result._spec, argument.name)
        self.record(func, node_args, node_kwargs, result, dependent)
        if dependent and schema.is_mutable:
            for argument, value in zip(schema.arguments, _in_schema_order(func, args, kwargs), strict=True):
                if argument.is_write:
                    for tensor in tensors_in([value]):
                        self._mark_dependent(tensor)
        return result

    def compute(self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Run the call itself, below this mode."""
        return func(*args, **kwargs)

    def record(
        self, func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], result: Any, dependent: bool
    ) -> Node:
        """Record a call as a node, to which its results lead from now on."""
        node = self.graph.call_function(func, args, kwargs, val=_val(result))
        self._remember_results(result, node, (), dependent)
        return node

    def _remember_results(self, value: Any, node: Node, path: tuple[int, ...], dependent: bool) -> None:
        if isinstance(value, TensorImpl):
            self.remember(value, (node, path))
            if dependent:
                self._mark_dependent(value)
            if type(value) is Tensor:
                value.__class__ = TracedTensor
                self.made.append(weakref.ref(value))
        elif isinstance(value, list | tuple):
            for i, each in enumerate(value):
                self._remember_results(each, node, (*path, i), dependent)

    def remember(self, tensor: TensorImpl, origin: tuple[Node, tuple[int, ...]]) -> None:
        """Map a tensor to a node's result."""
        data = tensor._data
        known = self._nodes.get(id(data))
        if known is None or known[0]() is not data:
            key = id(data)
            nodes = self._nodes

            def forget(reference: weakref.ref[Any]) -> None:
                held = nodes.get(key)
                if held is not None and held[0] is reference:
                    del nodes[key]

            known = nodes[key] = (weakref.ref(data, forget), {})
        geometry = _geometry(tensor)
        known[1][geometry] = origin
        node, path = origin
        if not path:
            self._own_nodes[id(tensor)] = weakref.ref(tensor), known[0], geometry, node

    def _own_node(self, tensor: TensorImpl) -> Node | None:
        """Return the node that made this very object, if the object still has that node's bytes and geometry."""
        known = self._own_nodes.get(id(tensor))
        if known is None or known[0]() is not tensor:
            return None
        _, data, geometry, node = known
        return node if data() is tensor._data and geometry == _geometry(tensor) else None

    def find(self, tensor: TensorImpl) -> Node | None:
        """Return the node that a tensor maps to; None for a tensor that this tracer has not seen."""
        known = self._nodes.get(id(tensor._data))
        origin = None if known is None else known[1].get(_geometry(tensor))
        if origin is None:
            return None
        node, path = origin
        if path:
            # A result is extracted from a tuple when it is first used.
            for index in path:
                val = node.val[index] if node.val.__class__ is tuple else None
                node = self.graph.call_function(operator.getitem, (node, index), val=val)
            self.remember(tensor, (node, ()))
        return node  # type: ignore[no-any-return]

    def _mark_dependent(self, tensor: TensorImpl) -> None:
        root = root_of(tensor._data)
        self._dependent[id(root)] = weakref.ref(root)

    def depends_on_inputs(self, tensor: TensorImpl) -> bool:
        """Return True if a tensor's memory may hold values computed from the inputs, or random numbers."""
        root = root_of(tensor._data)
        known = self._dependent.get(id(root))
        return known is not None and known() is root

    def argument(self, value: Any) -> Any:
        """Return a call's argument as the graph stores it: a node for a tensor, a name for an object that is not a
        constant.
        """
        if isinstance(value, TensorImpl):
            node = self.find(value)
            return self._constant(value) if node is None else node
        if isinstance(value, (list, tuple)):
            return tuple([self.argument(v) for v in value])
        if isinstance(value, Generator | Storage):
            held = next((name for name, v in self.graph.constants.items() if v is value), None)
            return Attribute(self.graph.add_constant(value, "_constant") if held is None else held)
        return value

    def _constant(self, tensor: TensorImpl) -> Node:
        """Return the node of an external tensor."""
        self._refuse_alias(tensor)
        name = self.graph.add_constant(tensor)
        node = self.graph.get_attr(name, described(tensor._spec))
        self.remember(tensor, (node, ()))
        self._constants.append(tensor)
        return node

    def _refuse_alias(self, tensor: TensorImpl) -> None:
        """Raise RuntimeError for a closed-over tensor in an input's memory: another run would have different memory."""
        first, last = _extent(tensor)
        for original, stand_in in self._inputs:
            low, high = _extent(original)
            if root_of(tensor._data) is root_of(original._data) and first < high and low < last:
                node = self.find(stand_in)
                name = "" if node is None else f" %{node.name}"
                raise RuntimeError(
                    f"make_graph: the function closes over a tensor ({tensor._spec!r}) that shares memory with its "
                    f"input{name}; make it an argument too, or take the view inside the function"
                )

    def enter_input(self, tensor: Any, name: str) -> Tensor:
        """Return the stand-in that the function receives for an input: the same tensor as another object."""
        node = self.graph.placeholder(name, described(tensor._spec))
        if tensor._spec.requires_grad:
            # The end of the graph must reference the caller's tensor, not its stand-in.
            edge_of(tensor)
        made: Tensor = tensor
        if type(tensor) in (Tensor, TracedTensor):
            made = TracedTensor._blank()
            self.made.append(weakref.ref(made))
            made._data, made._spec = tensor._data, tensor._spec
            made._version_cell = None if tensor._spec.is_inference else tensor.version_cell()
            made._autograd, made._view_base = tensor._autograd, tensor._view_base
            if any(stand_in._data is made._data for _, stand_in in self._inputs):
                with ExcludeDispatchKeyGuard(AUTOGRAD_BITS):
                    made._data = tensor._strided_from(tensor._spec.sizes, tensor._spec.strides, 0)._data
                    if made._data is tensor._data:
                        made._data = (
                            tensor._data.view()
                            if hasattr(tensor._data, "view")
                            else tensor._data.offset_by(0)
                        )
        self._inputs.append((tensor, made))
        self.remember(made, (node, ()))
        self._mark_dependent(made)
        return made

    def leave_inputs(self) -> None:
        """Transfer the stand-ins' state to the inputs, and restore every tensor's class."""
        originals = {id(made): tensor for tensor, made in self._inputs}
        outer = innermost_tracer()
        for reference in self.made:
            made: Tensor | None = reference()
            if made is None:
                continue
            base = made._view_base
            if base is not None and id(base) in originals:
                made._view_base = originals[id(base)]
            if outer is not None:
                outer.made.append(reference)
            elif made.__class__ is TracedTensor:
                made.__class__ = PLAIN
        for tensor, made in self._inputs:
            if made is not tensor:
                if made._spec is not tensor._spec:
                    tensor._data, tensor._spec = made._data, made._spec
                tensor._version_cell, tensor._autograd = made._version_cell, made._autograd


def _in_schema_order(func: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """Return the arguments of a call in schema order, None for those not given."""
    positional = iter(args)
    return [
        kwargs.get(a.name) if a.kwarg_only else next(positional, None) for a in func._entry.schema.arguments
    ]


def _geometry(tensor: TensorImpl) -> tuple[Any, ...]:
    spec = tensor._spec
    return spec.sizes, spec.strides, spec.dtype


def _extent(tensor: TensorImpl) -> tuple[int, int]:
    """Return the addresses between which a tensor's elements lie."""
    spec = tensor._spec
    if not spec.numel:
        return 0, 0
    first = address_of(tensor._data)
    reach = sum((n - 1) * s for n, s in zip(spec.sizes, spec.strides, strict=True))
    return first, first + (reach + 1) * spec.itemsize


def _val(result: Any) -> Any:
    """Return the description of a result that a node stores."""
    if isinstance(result, TensorImpl):
        return described(result._spec)
    if isinstance(result, list | tuple):
        return tuple([_val(v) for v in result])
    return result
