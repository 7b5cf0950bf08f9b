"""Registrations for an operator given by its qualified name, an overload or a `CustomOpDef`.

Source: torch/library.py.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any, overload

from ...runtime.dispatch_key import BY_NAME
from ...runtime.scalar_type import dtype as ScalarType
from ..autograd.registered_formula import Formula, formula_kernel
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import KernelFunction
from ..core.library import Library
from ..core.op_overload import OpOverload
from ..core.operator_entry import OperatorEntry
from ..core.registration import RegistrationHandle
from ..layers.python_key import HANDLER, dispatch_rules
from .custom_op import (
    CustomOpDef,
    DeviceTypes,
    Registered,
    autocast_kernel,
    definitions,
    key_for_device,
    parse_qualname,
    refuse_formula,
    vmap_rules,
)
from .fake_context import run_fake
from .user_function import call_function

Function = Callable[..., Any]
Operator = str | OpOverload | CustomOpDef

_SCHEMA = re.compile(r"\(.*\) -> .*", re.DOTALL)
_fragments: dict[str, Library] = {}


def fragment_of(namespace: str, lib: Library | None) -> Library:
    """Return the library for registrations: the given one, or one that lives as long as the process."""
    if lib is not None:
        return lib
    library = _fragments.get(namespace)
    return (
        library if library is not None else _fragments.setdefault(namespace, Library(namespace, "FRAGMENT"))
    )


def find_operator(op: Operator, asked_by: str) -> tuple[CustomOpDef | None, str]:
    """Return the definition of a custom operator, or None, and the full name. Raises ValueError for a non-operator."""
    if isinstance(op, CustomOpDef):
        return op, op._qualname
    if not isinstance(op, str | OpOverload):
        raise ValueError(
            f"{asked_by}(op): got unexpected type for op: {type(op).__name__}, expected a name, an OpOverload or a "
            "CustomOpDef"
        )
    name = op if isinstance(op, str) else op.name()
    parse_qualname(name)
    name = name.removesuffix(".default")
    return definitions.get(name), name


def _entry_of(name: str) -> OperatorEntry:
    entry = Dispatcher.singleton().find_schema(name)
    if entry is None:
        raise RuntimeError(f"operator {name} does not exist")
    return entry


@overload
def define(
    qualname: Library, schema: str, *, alias_analysis: str = ""
) -> Callable[[Registered], Registered]: ...
@overload
def define(
    qualname: str, schema: str, *, lib: Library | None = None, tags: str | Sequence[str] = ()
) -> None: ...
def define(
    qualname: str | Library,
    schema: str,
    *,
    lib: Library | None = None,
    tags: str | Sequence[str] = (),
    alias_analysis: str = "",
) -> Callable[[Registered], Registered] | None:
    """Define an operator without kernels (`torch.library.define`).

    Args:
        qualname: ``namespace::name``. Given a `Library`, `schema` has the name, and the result decorates the kernel.
        schema: ``(arguments) -> returns``.
        lib: The library whose end removes the definition.

    Raises:
        ValueError: for a name or a schema of another form.
        RuntimeError: for an operator that is defined already.

    Example:
        >>> import triten as tt
        >>> tt.library.define("docs::halve", "(Tensor x) -> Tensor")
        >>> tt.library.impl("docs::halve", "cpu", lambda x: x / 2)
        >>> tt.ops.docs.halve(tt.ones(2))
        tensor([0.5000, 0.5000])
    """
    if isinstance(qualname, Library):
        library = qualname

        def decorate(function: Registered) -> Registered:
            library.impl(library.define(schema, alias_analysis=alias_analysis, tags=tags), function)
            return function

        return decorate
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be str, got {type(qualname)}")
    namespace, name = parse_qualname(qualname)
    if _SCHEMA.fullmatch(schema) is None:
        raise ValueError(
            "define(qualname, schema, ...): expected schema to look like e.g. "
            f'"(Tensor x) -> Tensor" but got "{schema}"'
        )
    fragment_of(namespace, lib).define(name + schema, alias_analysis=alias_analysis, tags=tags)
    return None


@overload
def impl(qualname: Library, types: str, func: str = "") -> Callable[[Registered], Registered]: ...
@overload
def impl(
    qualname: str, types: str | Sequence[str], func: None = None, *, lib: Library | None = None
) -> Callable[[Function], None]: ...
@overload
def impl(
    qualname: str, types: str | Sequence[str], func: Function, *, lib: Library | None = None
) -> None: ...
def impl(
    qualname: str | Library,
    types: str | Sequence[str],
    func: Function | str | None = None,
    *,
    lib: Library | None = None,
) -> Callable[[Any], Any] | None:
    """Register a kernel for device types, or for ``"default"``: every device without one (`torch.library.impl`).

    ``impl(library, name, dispatch_key)`` decorates a kernel of a library's operator.

    Args:
        qualname: ``namespace::name``, or a `Library`.
        types: Device types, or dispatch keys; the operator's name after a `Library`.
        func: The kernel; without it, return a decorator. After a `Library` the dispatch key.
        lib: The library whose end removes the kernel.

    Raises:
        RuntimeError: for an unknown device type, and as `Library.impl`.
        ValueError: for a name of another form.

    Example:
        >>> import triten as tt
        >>> with tt.library.Library("docs", "DEF") as lib:
        ...     name = lib.define("thrice(Tensor x) -> Tensor")
        ...     @tt.library.impl(lib, "thrice", "CPU")
        ...     def thrice(x):
        ...         return x * 3
        ...     tt.ops.docs.thrice(tt.ones(1))
        tensor([3.])
    """
    if isinstance(qualname, Library):
        library, key = qualname, func or ""
        if not isinstance(types, str) or not isinstance(key, str):
            raise TypeError(
                f"impl(library, name, dispatch_key): expected two strings, got {types!r} and {key!r}; the result "
                "decorates the kernel"
            )

        def decorate(function: Registered) -> Registered:
            library.impl(types, function, key)
            return function

        return decorate
    if not isinstance(qualname, str):
        raise ValueError(
            f"impl(qualname, types, func): expected a str or a Library, got {type(qualname).__name__}"
        )
    parse_qualname(qualname)
    names = [types] if isinstance(types, str) else [*types]
    keys = [
        "CompositeExplicitAutograd"
        if name == "default"
        else name
        if name in BY_NAME
        else key_for_device(name).name
        for name in names
    ]

    def register(function: Function) -> None:
        library = fragment_of(qualname.partition("::")[0], lib)
        for key in keys:
            library.impl(qualname, function, key)

    if func is None:
        return register
    if isinstance(func, str):
        raise TypeError(f"impl: expected a kernel, got the str {func!r}")
    register(func)
    return None


@overload
def register_kernel(
    op: Operator, device_types: DeviceTypes, func: None = None, /, *, lib: Library | None = None
) -> Callable[[Registered], Registered]: ...
@overload
def register_kernel(
    op: Operator, device_types: DeviceTypes, func: Registered, /, *, lib: Library | None = None
) -> Registered: ...
def register_kernel(
    op: Operator, device_types: DeviceTypes, func: Function | None = None, /, *, lib: Library | None = None
) -> Function:
    """Register an operator's kernel for device types; None stands for every device without its own.

    Without `func`, return a decorator. Raises like `CustomOpDef.register_kernel` and `impl`; ValueError for a
    non-operator. Source: `torch.library.register_kernel`.

    Example:
        >>> import triten as tt
        >>> tt.library.define("docs::negated", "(Tensor x) -> Tensor")
        >>> @tt.library.register_kernel("docs::negated", "cpu")
        ... def _(x):
        ...     return -x
        >>> tt.ops.docs.negated(tt.ones(1))
        tensor([-1.])
    """
    custom, name = find_operator(op, "register_kernel")
    if custom is not None:
        return custom.register_kernel(device_types, func)

    def register(function: Function) -> Function:
        impl(name, "default" if device_types is None else device_types, function, lib=lib)
        return function

    return register if func is None else register(func)


@overload
def register_fake(
    op: Operator, func: None = None, /, *, lib: Library | None = None
) -> Callable[[Registered], Registered]: ...
@overload
def register_fake(op: Operator, func: Registered, /, *, lib: Library | None = None) -> Registered: ...
def register_fake(op: Operator, func: Function | None = None, /, *, lib: Library | None = None) -> Function:
    """Register an operator's kernel for meta tensors (`torch.library.register_fake`).

    Without `func`, return a decorator. Raises RuntimeError if the operator decomposes into others and needs none;
    ValueError for a non-operator.

    Example:
        >>> import triten as tt
        >>> tt.library.define("docs::first", "(Tensor x) -> Tensor")
        >>> @tt.library.register_fake("docs::first")
        ... def _(x):
        ...     return x.new_empty(x.shape[1:])
        >>> tt.ops.docs.first(tt.ones(2, 3, device="meta")).shape
        triten.Size([3])
    """
    custom, name = find_operator(op, "register_fake")
    if custom is not None:
        return custom.register_fake(func)

    def register(function: Function) -> Function:
        entry = Dispatcher.singleton().find_op(name)
        if entry is not None and any(k.name == "CompositeImplicitAutograd" for k in entry.kernels):
            raise RuntimeError(
                f"register_fake(...): the operator {name} already has a kernel for CompositeImplicitAutograd. Such "
                "operators do not need a fake impl: they decompose into others, which can have one."
            )

        def fake(*args: Any) -> Any:
            schema = _entry_of(name).schema
            return run_fake(name, lambda: call_function(schema, function, args))

        fragment_of(name.partition("::")[0], lib).impl(name, KernelFunction(fake), "Meta")
        return function

    return register if func is None else register(func)


def register_autograd(
    op: Operator, backward: Function, /, *, setup_context: Function | None = None, lib: Library | None = None
) -> None:
    """Register an operator's autograd formula (`torch.library.register_autograd`).

    See `CustomOpDef.register_autograd`. Raises RuntimeError for an operator that does not exist or writes to an
    argument; ValueError for a non-operator.

    Example:
        >>> import triten as tt
        >>> tt.library.define("docs::tripled", "(Tensor x) -> Tensor")
        >>> tt.library.impl("docs::tripled", "default", lambda x: x * 3)
        >>> tt.library.register_autograd("docs::tripled", lambda ctx, grad: grad * 3)
        >>> x = tt.ones(2, requires_grad=True)
        >>> tt.autograd.grad(tt.ops.docs.tripled(x).sum(), x)
        (tensor([3., 3.]),)
    """
    custom, name = find_operator(op, "register_autograd")
    if custom is not None:
        custom.register_autograd(backward, setup_context=setup_context)
        return
    entry = _entry_of(name)
    refuse_formula(OpOverload(entry), entry.schema)
    formula = Formula()
    formula.backward, formula.setup_context = backward, setup_context
    kernel = KernelFunction(formula_kernel(entry, formula), takes_key_set=True)
    fragment_of(name.partition("::")[0], lib).impl(name, kernel, "Autograd")


def register_autocast(
    op: Operator, device_type: str, cast_inputs: ScalarType, /, *, lib: Library | None = None
) -> None:
    """Make autocast cast an operator's floating-point tensors (`torch.library.register_autocast`).

    If autocast is on for `device_type`, the argument tensors of that device type are cast to `cast_inputs`, except
    float64 ones; this includes tensors in lists. The operator then runs with autocast off.

    Raises ValueError for a non-operator or a device type without autocast, TypeError for a non-dtype, RuntimeError
    for an operator that does not exist.

    Example:
        >>> import triten as tt
        >>> tt.library.define("docs::widened", "(Tensor x) -> Tensor")
        >>> tt.library.impl("docs::widened", "default", lambda x: x + x)
        >>> tt.library.register_autocast("docs::widened", "cpu", tt.float16)
        >>> with tt.autocast("cpu"):
        ...     tt.ops.docs.widened(tt.ones(1)).dtype
        triten.float16
    """
    custom, name = find_operator(op, "register_autocast")
    if custom is not None:
        custom.register_autocast(device_type, cast_inputs)
        return
    _entry_of(name)
    key, kernel = autocast_kernel(device_type, cast_inputs)
    fragment_of(name.partition("::")[0], lib).impl(name, kernel, key, allow_override=True)


@overload
def register_vmap(
    op: Operator, func: None = None, /, *, lib: Library | None = None
) -> Callable[[Registered], Registered]: ...
@overload
def register_vmap(op: Operator, func: Registered, /, *, lib: Library | None = None) -> Registered: ...
def register_vmap(op: Operator, func: Function | None = None, /, *, lib: Library | None = None) -> Function:
    """Register an operator's batching rule ``func(info, in_dims, *args) -> (output, out_dims)`` for `tt.vmap`.

    See `CustomOpDef.register_vmap`. Without `func`, return a decorator. Raises RuntimeError for an operator that does
    not exist, ValueError for a non-operator. Source: `torch.library.register_vmap`.

    Example:
        >>> import triten as tt
        >>> tt.library.define("docs::row_sum", "(Tensor x) -> Tensor")
        >>> tt.library.impl("docs::row_sum", "default", lambda x: x.sum(0))
        >>> @tt.library.register_vmap("docs::row_sum")
        ... def _(info, in_dims, x):
        ...     return x.movedim(in_dims[0], 0).sum(1), 0
        >>> tt.vmap(tt.ops.docs.row_sum)(tt.ones(2, 3))
        tensor([3., 3.])
    """
    custom, name = find_operator(op, "register_vmap")
    if custom is not None:
        return custom.register_vmap(func)
    _entry_of(name)

    def register(function: Function) -> Function:
        def undo() -> None:
            if vmap_rules.get(name) is function:
                del vmap_rules[name]

        vmap_rules[name] = function
        if lib is not None:
            lib._keep(RegistrationHandle(undo))
        return function

    return register if func is None else register(func)


def register_tensor_dispatch(
    op: Operator,
    tensor_dispatch_class: type,
    func: Function | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Function:
    """Register a subclass's or a mode's implementation of an operator (`torch.library.register_torch_dispatch`).

    It is called instead of the class's ``__tensor_dispatch__``, so that class and operator need not know each other.
    Without `func`, return a decorator.

    Args:
        op: An operator's name, an overload or a custom operator.
        tensor_dispatch_class: A subclass of `Tensor`, or of `TensorDispatchMode`; its own subclasses do not count.
        func: Function of the class or the active mode, the overload, the types, the arguments and the keyword
            arguments.
        lib: The library whose end removes the registration.

    Raises:
        RuntimeError: The operator does not exist.
        ValueError: `op` is not an operator, or the class handles no operators.

    Example:
        >>> import triten as tt
        >>> from triten.utils._python_dispatch import TensorDispatchMode
        >>> class Plain(TensorDispatchMode):
        ...     def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        ...         return func(*args, **(kwargs or {}))
        >>> library = tt.library.Library("aten", "FRAGMENT")
        >>> @tt.library.register_tensor_dispatch("aten::sin", Plain, lib=library)
        ... def _(mode, func, types, args, kwargs):
        ...     return func(*args) + 1
        >>> with Plain():
        ...     tt.sin(tt.zeros(2))
        tensor([1., 1.])
        >>> library.close()
    """
    _, name = find_operator(op, "register_tensor_dispatch")
    _entry_of(name)
    if not hasattr(tensor_dispatch_class, HANDLER):
        raise ValueError(
            f"register_tensor_dispatch: {tensor_dispatch_class!r} handles no operators: it has no {HANDLER}"
        )
    key = name, tensor_dispatch_class

    def register(function: Function) -> Function:
        def undo() -> None:
            if dispatch_rules.get(key) is function:
                del dispatch_rules[key]

        dispatch_rules[key] = function
        if lib is not None:
            lib._keep(RegistrationHandle(undo))
        return function

    return register if func is None else register(func)


def impl_abstract(
    qualname: Operator, func: Function | None = None, *, lib: Library | None = None
) -> Function:
    """Call `register_fake` by its former name (`torch.library.impl_abstract`), with a FutureWarning."""
    warnings.warn(
        "`library.impl_abstract` was renamed to `library.register_fake`. Please use that instead.",
        FutureWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)
