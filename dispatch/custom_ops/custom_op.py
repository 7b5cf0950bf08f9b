"""`custom_op`: an operator from a Python function with type hints (torch/_library/custom_ops.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, overload

from ...runtime.device import device as Device
from ...runtime.dispatch_key import BackendComponent, DispatchKey, highest_priority, parse
from ...runtime.grad_mode import set_grad_enabled
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.traceback_filter import hide_inner_frames
from ..autograd.creation import unmark
from ..autograd.recording import out_refuses_grad
from ..autograd.registered_formula import Formula, formula_kernel
from ..core.bound_arguments import tensors_in
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import KernelFunction
from ..core.library import caller
from ..core.op_overload import OpOverload
from ..core.operator_entry import OperatorEntry
from ..core.registration import RegistrationHandle
from ..layers.autocast.state import backend_of, is_autocast_available
from ..schema import FunctionSchema, base_type, infer_schema, is_tensor_like, parse_schema
from .fake_context import run_fake
from .triton_launch import without_launches
from .user_function import call_function, check_results

DeviceTypes = str | Sequence[str] | None
Function = Callable[..., Any]
Registered = TypeVar("Registered", bound=Callable[..., Any])

definitions: dict[str, CustomOpDef] = {}
"""Custom operators by full name; a redefinition replaces the earlier one."""

vmap_rules: dict[str, Function] = {}
"""Batching rules by operator, read by vmap at each call (see `layers/batching/custom.py`)."""


def key_for_device(device_type: str) -> DispatchKey:
    """Return the backend key of a device type. Raises RuntimeError for an unknown one."""
    return parse(BackendComponent(Device(device_type).backend).name)


def autocast_kernel(device_type: str, dtype: ScalarType) -> tuple[DispatchKey, KernelFunction]:
    """Return the Autocast key of a device type, and a kernel for it that casts to `dtype`.

    Raises ValueError for a device type without autocast, TypeError for a non-dtype.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if not isinstance(dtype, ScalarType):
        raise TypeError(f"register_autocast(): cast_inputs must be triten.dtype, not {type(dtype).__name__}")
    if not is_autocast_available(device_type):
        raise ValueError(f"Device type '{device_type}' does not support autocast.")
    from ..layers.autocast.kernels import autocast_key, casting_to, planner_of

    backend = backend_of(device_type, "register_autocast")
    planner = planner_of(casting_to(dtype), backend)
    return autocast_key(backend), KernelFunction(None, planner=planner, source=caller(3), leaf=True)


def parse_qualname(qualname: str) -> tuple[str, str]:
    """Split a qualified name into namespace and name. Raises ValueError for another form."""
    parts = qualname.split("::")
    if len(parts) != 2 or not all(parts):
        raise ValueError(
            f'Expected `qualname` to be of the form "namespace::name", but got {qualname}. The qualname passed to '
            "the library APIs must consist of a namespace and a name, e.g. aten::sin"
        )
    return parts[0], parts[1]


@overload
def custom_op(
    name: str,
    fn: None = None,
    /,
    *,
    mutates_args: Iterable[str] | str,
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> Callable[[Function], CustomOpDef]: ...
@overload
def custom_op(
    name: str,
    fn: Function,
    /,
    *,
    mutates_args: Iterable[str] | str,
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> CustomOpDef: ...
def custom_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: Iterable[str] | str,
    device_types: DeviceTypes = None,
    schema: str | None = None,
    tags: str | Sequence[str] | None = None,
) -> Callable[[Function], CustomOpDef] | CustomOpDef:
    """Return a decorator that makes a function an operator (`torch.library.custom_op`): it returns a `CustomOpDef`.

    The operator is called through the dispatcher. It can have kernels for other devices, a fake kernel for meta
    tensors and an autograd formula. It may not return an argument or a view of one, unless its schema says so.

    Args:
        name: ``namespace::name``; a custom operator of this name is replaced.
        fn: The function, which becomes the kernel; its body runs with grad mode off.
        mutates_args: Names of the arguments that it writes to, whose versions every call increases; "unknown" means
            all tensors.
        device_types: The devices that the function is for; None means every one but meta.
        schema: ``(arguments) -> returns``, instead of the one that `infer_schema` reads from the hints.
        tags: Tags of the operator; "inplace" and "out" mean that it returns what it mutates, as in `infer_schema`.

    Raises:
        ValueError: for hints without a schema type, a schema that contradicts `mutates_args`, a malformed name, or no
            tensor and no ``device`` argument to choose among `device_types` by.
        NotImplementedError: for keyword-only tensors, except those that an "out" operator writes into.

    Example:
        >>> import numpy as np
        >>> import triten as tt
        >>> @tt.library.custom_op("docs::cube", mutates_args=())
        ... def cube(x: tt.Tensor) -> tt.Tensor:
        ...     return tt.from_numpy(x.numpy() ** 3)
        >>> cube(tt.tensor([1.0, 2.0]))
        tensor([1., 8.])
        >>> cube.register_fake(lambda x: tt.empty_like(x))
        <function <lambda> at ...>
        >>> cube(tt.ones(2, device="meta")).shape
        triten.Size([2])
        >>> cube.register_autograd(
        ...     lambda ctx, grad: 3 * ctx.saved_tensors[0] ** 2 * grad,
        ...     setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        ... )
        >>> x = tt.tensor([1.0, 2.0], requires_grad=True)
        >>> tt.autograd.grad(cube(x).sum(), x)
        (tensor([ 3., 12.]),)
    """
    source = caller()

    def define(function: Function) -> CustomOpDef:
        named = (tags,) if isinstance(tags, str) else tuple(tags or ())
        text = infer_schema(function, mutates_args=mutates_args, tags=named) if schema is None else schema
        namespace, operator = parse_qualname(name)
        parsed = parse_schema(f"{operator}{text}", source).with_namespace(namespace)
        written = {a.name for a in parsed.arguments if a.is_write}
        if schema is not None and mutates_args != "unknown" and written != set(mutates_args):
            raise ValueError(
                f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}`. The "
                f"schema suggests that the op mutates {sorted(written)}, which is different from what was provided "
                "to us in `mutates_args`. Please make these consistent."
            )
        _check_schema(parsed, device_types)
        made = CustomOpDef(parsed, function, named, source)
        made.register_kernel(device_types, function)
        return made

    return define if fn is None else define(fn)


def triton_op(
    name: str,
    fn: Function | None = None,
    /,
    *,
    mutates_args: Iterable[str] | str,
    schema: str | None = None,
) -> Callable[[Function], CustomOpDef] | CustomOpDef:
    """Make a function that launches Triton kernels an operator (`torch.library.triton_op`).

    The function launches by `tt.library.wrap_triton`, or in Triton's own notation. Its fake kernel is derived: the
    function on Meta tensors, without the launches. `register_fake` replaces it. A graph holds the operator as one
    node, like any other `custom_op`, whose arguments these are.

    Example::

        @tt.library.triton_op("mylib::add", mutates_args=())
        def add(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
            out = tt.empty_like(x)
            wrap_triton(add_kernel)[(tt.cdiv(x.numel(), 16),)](x, y, out, x.numel(), BLOCK=16)
            return out
    """

    def define(function: Function) -> CustomOpDef:
        made = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        made.register_fake(without_launches(function))
        return made

    return define if fn is None else define(fn)


def _check_schema(schema: FunctionSchema, device_types: DeviceTypes) -> None:
    """Raise an error for a schema that custom operators do not support, before any registration."""
    if any(is_tensor_like(a.type) and not a.is_out for a in schema.kwarg_only_arguments):
        raise NotImplementedError(
            f"custom_op with kwarg-only Tensor args. Please make your tensors not kwarg-only. Got: {schema}"
        )
    if device_types is not None:
        _check_chooses_device(schema)


def _check_chooses_device(schema: FunctionSchema) -> None:
    if not any(base_type(a.type).name in ("Tensor", "Device") for a in schema.arguments):
        raise ValueError(
            f"Functions without tensor inputs are required to have a `device: triten.device` argument: {schema}"
        )


def _check_callable(name: str, function: object) -> None:
    """Raise TypeError for a non-callable at registration, rather than on first use."""
    if not callable(function):
        raise TypeError(f"{name}: expected a function, got {function!r}")


class CustomOpDef:
    """Operator made by `custom_op`: callable, with methods that register kernels, formulas and rules."""

    def __init__(self, schema: FunctionSchema, fn: Function, tags: Sequence[str], source: str) -> None:
        self._qualname = str(schema.operator_name)
        self._schema = schema
        self._init_fn = fn
        self._kernels: dict[str | None, Function] = {}
        self._disabled: set[str] = set()
        self._fake: Function | None = None
        self._formula = Formula()
        self._handles: list[RegistrationHandle] = []
        self._autocast: dict[str, RegistrationHandle] = {}
        earlier = definitions.pop(self._qualname, None)
        if earlier is not None:
            earlier._close()
        dispatcher = Dispatcher.singleton()
        self._handles.append(dispatcher.register_def(schema, source, frozenset(tags)))
        self._entry: OperatorEntry = dispatcher.find_schema_or_throw(self._qualname)
        self._opoverload = OpOverload(self._entry)
        definitions[self._qualname] = self
        autograd = formula_kernel(self._entry, self._formula)
        if schema.kind == "out":
            self._register(parse("Autograd"), KernelFunction(None, planner=out_refuses_grad, source=source))
        else:
            self._register(parse("Autograd"), KernelFunction(autograd, takes_key_set=True, source=source))
        # It also serves devices without a kernel, so that the error can name those with one.
        default = KernelFunction(self._call_default, takes_key_set=True, source=source)
        self._register(parse("CompositeExplicitAutograd"), default)
        self._register(parse("Meta"), KernelFunction(self._call_fake, source=source))

    def _register(self, key: DispatchKey, kernel: KernelFunction) -> None:
        self._handles.append(Dispatcher.singleton().register_impl(self._qualname, key, kernel))

    def _close(self) -> None:
        vmap_rules.pop(self._qualname, None)
        while self._autocast:
            self._autocast.popitem()[1].close()
        while self._handles:
            self._handles.pop().close()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the operator. Raises TypeError for arguments that do not fit the schema."""
        try:
            return self._opoverload(*args, **kwargs)
        except BaseException:
            hide_inner_frames()
            raise

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @overload
    def register_kernel(
        self, device_types: DeviceTypes, fn: None = None, /
    ) -> Callable[[Registered], Registered]: ...
    @overload
    def register_kernel(self, device_types: DeviceTypes, fn: Registered, /) -> Registered: ...
    def register_kernel(self, device_types: DeviceTypes, fn: Function | None = None, /) -> Function:
        """Register the kernel of one or several device types; None stands for every device without its own.

        Without `fn`, return a decorator. Raises RuntimeError for an unknown device type, ValueError if no argument
        determines the device.
        """
        if device_types is not None and not isinstance(device_types, str | Sequence):
            raise TypeError(
                f"register_kernel: expected a device type or a sequence of them, got {device_types!r}"
            )
        types: list[str | None] = (
            [device_types] if device_types is None or isinstance(device_types, str) else [*device_types]
        )
        keys = {device_type: key_for_device(device_type) for device_type in types if device_type is not None}
        if keys:
            _check_chooses_device(self._schema)

        source = caller()

        def register(function: Function) -> Function:
            _check_callable("register_kernel", function)
            for device_type in types:
                if device_type == "meta":
                    self._fake = function
                    continue
                new = device_type is not None and device_type not in self._kernels
                self._kernels[device_type] = function
                if new and device_type is not None:
                    self._register(keys[device_type], self._kernel_of(device_type, source))
            return function

        return register if fn is None else register(fn)

    def _kernel_of(self, device_type: str, source: str) -> KernelFunction:
        def kernel(*args: Any) -> Any:
            disabled = device_type in self._disabled
            return self._run(self._init_fn if disabled else self._kernels[device_type], args)

        return KernelFunction(kernel, source=source)

    def _call_default(self, bits: int, *args: Any) -> Any:
        function = self._kernels.get(None)
        if function is None:
            key = highest_priority(bits)
            having = ", ".join(sorted(t for t in self._kernels if t is not None)) or "none"
            raise NotImplementedError(
                f"Could not run '{self._qualname}' with arguments from the '{key}' backend. Devices with a kernel: "
                f"{having}. Please use `{self._init_fn.__name__}.register_kernel` to add one."
            )
        return self._run(function, args)

    def _call_fake(self, *args: Any) -> Any:
        fake, schema = self._fake, self._schema
        if fake is None:
            fake = written_arguments(schema)
        if fake is None:
            raise NotImplementedError(
                f"There was no fake impl registered for {self}. This is necessary to run it on meta tensors. "
                f"Please use `{self._init_fn.__name__}.register_fake` to add a fake impl."
            )
        function = fake
        return run_fake(self._qualname, lambda: self._run(function, args))

    def _run(self, function: Function, args: Sequence[Any]) -> Any:
        schema = self._schema
        for argument, value in zip(schema.arguments, args, strict=True):
            if argument.is_write:
                for tensor in tensors_in((value,)):
                    tensor.bump_version()
        before = set_grad_enabled(False)
        try:
            result = call_function(schema, function, args)
        finally:
            set_grad_enabled(before)
        for tensor in tensors_in((result,)):
            unmark(tensor)
        return check_results(schema, function, args, result)

    @overload
    def register_fake(self, fn: None = None, /) -> Callable[[Registered], Registered]: ...
    @overload
    def register_fake(self, fn: Registered, /) -> Registered: ...
    def register_fake(self, fn: Function | None = None, /) -> Function:
        """Register the kernel for meta tensors, which makes results of the right shape, dtype and strides.

        Without `fn`, return a decorator. An operator that returns only arguments that it writes to needs none.
        """

        def register(function: Function) -> Function:
            _check_callable("register_fake", function)
            self._fake = function
            return function

        return register if fn is None else register(fn)

    def register_autograd(self, backward: Function, /, *, setup_context: Function | None = None) -> None:
        """Register the autograd formula.

        Args:
            backward: ``backward(ctx, *grads)`` from the results' gradients to those of the positional arguments, None
                where there is none; for a list of tensors a list.
            setup_context: Function called as ``setup_context(ctx=, inputs=, output=)`` after the forward, and with
                ``keyword_only_inputs=`` if the operator has keyword-only arguments. `ctx` is that of
                `tt.autograd.Function`.

        Raises:
            RuntimeError: for an operator that writes into an argument.
        """
        refuse_formula(self, self._schema)
        _check_callable("register_autograd", backward)
        if setup_context is not None:
            _check_callable("register_autograd", setup_context)
        self._formula.backward = backward
        self._formula.setup_context = setup_context

    def register_autocast(self, device_type: str, cast_inputs: ScalarType) -> None:
        """Make autocast on `device_type` cast the operator's floating-point tensors to `cast_inputs`.

        The last registration for a device type is active. See `tt.library.register_autocast`.
        """
        key, kernel = autocast_kernel(device_type, cast_inputs)
        earlier = self._autocast.pop(device_type, None)
        if earlier is not None:
            earlier.close()
        self._autocast[device_type] = Dispatcher.singleton().register_impl(self._qualname, key, kernel)

    @overload
    def register_vmap(self, func: None = None) -> Callable[[Registered], Registered]: ...
    @overload
    def register_vmap(self, func: Registered) -> Registered: ...
    def register_vmap(self, func: Function | None = None) -> Function:
        """Register the batching rule for `tt.vmap`: ``func(info, in_dims, *args, **kwargs) -> (output, out_dims)``.

        The arguments hold all examples. `in_dims` has the mapped dimension of each positional argument, None for an
        unmapped one, and a list for a list of tensors. `out_dims` has those of the outputs. `info` has batch_size and
        randomness. Without a rule the operator runs for one example after another. Without `func`, return a
        decorator.
        """

        def register(function: Function) -> Function:
            _check_callable("register_vmap", function)
            vmap_rules[self._qualname] = function
            return function

        return register if func is None else register(func)

    @contextmanager
    def set_kernel_enabled(self, device_type: str, enabled: bool = True) -> Iterator[None]:
        """Enable or disable a device's kernel within the block; if disabled, the function given to `custom_op` runs.

        A device type without a kernel, or whose kernel already has that state, is logged as a warning.
        """
        import logging  # rarely needed, and slow to import

        log = logging.getLogger(__name__)
        action = "enable" if enabled else "disable"
        disabled = device_type in self._disabled
        if device_type not in self._kernels:
            log.warning(
                "Attempted to %s kernel for %s but no kernel was registered for this device type.",
                action,
                device_type,
            )
        if enabled is not disabled:
            log.warning("Attempted to %s kernel for %s but it was already %sd.", action, device_type, action)
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            (self._disabled.add if disabled else self._disabled.discard)(device_type)


def written_arguments(schema: FunctionSchema) -> Function | None:
    """Return the fake kernel of an operator whose results are all arguments that it writes to; None for others."""
    if not schema.is_mutable or not all(r.alias_info and r.alias_info.is_write for r in schema.returns):
        return None
    names = [a.name for r in schema.returns for a in schema.arguments if a.alias_info == r.alias_info]

    def fake(*args: Any, **kwargs: Any) -> Any:
        bound = dict(zip([a.name for a in schema.positional_arguments], args, strict=True)) | kwargs
        values = tuple(bound[name] for name in names)
        return None if not values else values[0] if len(values) == 1 else values

    return fake


def refuse_formula(op: object, schema: FunctionSchema) -> None:
    """Raise RuntimeError if an operator cannot have an autograd formula because it writes to an argument."""
    if schema.is_mutable:
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {op} with schema {schema}. Please create "
            "a functional operator and register an autograd formula for that."
        )
