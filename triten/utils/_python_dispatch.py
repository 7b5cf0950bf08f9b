"""PyTorch's private module of dispatch modes and wrapper subclasses (`torch.utils._python_dispatch`).

The mode is `tt.TensorDispatchMode`. `return_and_correct_aliasing` serves handlers of wrapper subclasses, whose tensors
hold other tensors and no bytes of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.core.tags import Tag
from ..dispatch.generated.functions import empty_strided
from ..dispatch.layers.python_key import (
    PYTHON_BIT,
    TensorDispatchMode,
    active_modes,
    below_innermost,
    share_storage,
    without_modes,
)
from ..dispatch.tensor import Tensor
from ..runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard

__all__ = [
    "BaseTensorDispatchMode",
    "TensorDispatchMode",
    "all_same_mode",
    "is_in_tensor_dispatch_mode",
    "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing",
    "transform_subclass",
]


class BaseTensorDispatchMode(TensorDispatchMode):
    """A mode that runs each operator unchanged (`torch.utils._python_dispatch.BaseTorchDispatchMode`)."""

    def __tensor_dispatch__(
        self, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


class _DisableTensorDispatch(ExcludeDispatchKeyGuard):
    """A block in which neither modes nor subclasses handle operators (`torch._C._DisableTorchDispatch`)."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(PYTHON_BIT)


def _get_current_dispatch_mode() -> TensorDispatchMode | None:
    """Return the innermost dispatch mode of this thread; None without one."""
    modes = active_modes()
    return modes[-1] if modes else None


def _get_current_dispatch_mode_stack() -> list[TensorDispatchMode]:
    """Return the dispatch modes of this thread, outermost first."""
    return list(active_modes())


def is_in_tensor_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Return whether this thread is in a dispatch mode; `include_infra_modes` is PyTorch's."""
    return bool(active_modes())


def all_same_mode(modes: Sequence[Any]) -> bool:
    """Return whether all modes of a sequence are equal."""
    return all(mode == modes[0] for mode in modes)


@contextmanager
def _pop_mode_temporarily() -> Iterator[TensorDispatchMode]:
    """Leave the innermost dispatch mode of this thread in the block, which gets it.

    Raises:
        RuntimeError: There is no mode.
    """
    mode = _get_current_dispatch_mode()
    if mode is None:
        raise RuntimeError("_pop_mode_temporarily(): this thread is in no dispatch mode")
    with below_innermost():
        yield mode


def transform_subclass(
    t: Any,
    callback: Callable[[str, Any], Any],
    outer_size: Sequence[int] | None = None,
    outer_stride: Sequence[int] | None = None,
) -> Any:
    """Return a wrapper subclass like another one, with its inner tensors changed.

    Args:
        t: A tensor whose class has ``__tensor_flatten__`` and ``__tensor_unflatten__``.
        callback: A function of an inner tensor's attribute name and the tensor that returns the new one.
        outer_size: The sizes of the result. Default: those of `t`.
        outer_stride: The strides of the result. Default: those of `t`.

    Raises:
        RuntimeError: The result has other sizes or strides than were requested.

    Source: torch.utils._python_dispatch.transform_subclass.
    """
    sizes = tuple(t.size() if outer_size is None else outer_size)
    strides = tuple(t.stride() if outer_stride is None else outer_stride)
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, sizes, strides)
    if tuple(made.size()) != sizes or tuple(made.stride()) != strides:
        raise RuntimeError(
            f"transform_subclass: __tensor_unflatten__ of {type(t).__name__} must return sizes {sizes} and strides "
            f"{strides}, but returned {tuple(made.size())} and {tuple(made.stride())}"
        )
    return made


def is_traceable_wrapper_subclass(t: object) -> bool:
    """Return whether a tensor is of a class with ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    return hasattr(t, "__tensor_flatten__") and hasattr(t, "__tensor_unflatten__")


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """Return whether a class is one of tensors with ``__tensor_flatten__`` and ``__tensor_unflatten__``."""
    return issubclass(t, Tensor) and t is not Tensor and is_traceable_wrapper_subclass(t)


@contextmanager
def _disable_current_modes() -> Iterator[list[TensorDispatchMode]]:
    """Leave the dispatch modes of this thread in the block, which gets them, outermost first."""
    modes = list(active_modes())
    with without_modes():
        yield modes


class _Aliases(NamedTuple):
    """Aliasing of a schema, by the indices of its arguments and returns.

    Attributes:
        viewed: Pairs of an argument and a return that is a view of it.
        returned: For each return the argument that it is; empty if the operator returns none of its arguments.
        moved: The argument whose sizes and strides an in-place view operator changes; None for other operators.
    """

    viewed: tuple[tuple[int, int], ...]
    returned: tuple[int, ...]
    moved: int | None


@cache
def _aliases_of(func: OpOverload) -> _Aliases:
    schema = func._schema
    arguments = [each.alias_info for each in schema.arguments]
    viewed, returned = [], []
    for index, result in enumerate(schema.returns):
        if result.alias_info is None:
            continue
        names = set(result.alias_info.before_set)
        sources = [i for i, each in enumerate(arguments) if each is not None and names & set(each.before_set)]
        if not result.alias_info.is_write:
            viewed += [(i, index) for i in sources if not schema.arguments[i].is_write]
            continue
        if len(sources) != 1:
            raise AssertionError(
                f"return_and_correct_aliasing: {func} returns an alias of {len(sources)} arguments, expected one"
            )
        returned.append(sources[0])
    if returned and len(returned) != len(schema.returns):
        raise RuntimeError(f"Unsupported schema: {schema}")
    written = [i for i, each in enumerate(schema.arguments) if each.is_write]
    moved = written[0] if Tag.inplace_view in func.tags and len(written) == 1 else None
    return _Aliases(tuple(viewed), tuple(returned), moved)


def return_and_correct_aliasing(
    func: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any
) -> Any:
    """Return what a handler of a wrapper subclass returns, with the aliasing that the operator's schema has.

    - A view shares the storage of the argument that it is a view of.
    - An in-place operator and one with ``out=`` return the very argument that they write.
    - An in-place view operator, such as ``transpose_``, gives the argument its new sizes and strides.

    Args:
        func: The operator.
        args: Its positional arguments, as the handler got them.
        kwargs: Its keyword arguments.
        out: The result, of the handler's class.

    Returns:
        `out`, or the arguments that the operator writes.

    Raises:
        AssertionError: `func` is no operator, `args` is no tuple, or a view is of another class than its argument.
        RuntimeError: The operator returns some of its arguments and new tensors.

    Example:
        >>> import triten as tt
        >>> from triten.utils._python_dispatch import return_and_correct_aliasing
        >>> x, y = tt.zeros(2), tt.ones(2)
        >>> return_and_correct_aliasing(tt.ops.aten.add_.Tensor, (x, y), {}, y) is x
        True
    """
    if not isinstance(func, OpOverload):
        raise AssertionError(f"func must be an OpOverload, got {type(func)}")
    if not isinstance(args, tuple):
        raise AssertionError(f"args must be a tuple, got {type(args)}")
    aliases = _aliases_of(func)
    outs = out if isinstance(out, tuple) else (out,)
    for source, index in aliases.viewed:
        _share(func, args[source], outs[index])
    if aliases.moved is not None:
        _move(func, args[aliases.moved], args, kwargs)
    if not aliases.returned:
        return out
    arguments = func._schema.arguments
    written = [args[i] if i < len(args) else kwargs[arguments[i].name] for i in aliases.returned]
    return written[0] if len(written) == 1 else type(out)(written)


def _share(func: OpOverload, source: Any, view: Any) -> None:
    """Have a view, or each of a list of views, share the storage of its source."""
    for each in view if isinstance(view, list) else [view]:
        wraps = is_traceable_wrapper_subclass(source) or is_traceable_wrapper_subclass(each)
        if not isinstance(each, Tensor) or (wraps and type(each) is not type(source)):
            raise AssertionError(
                f"Called {func} with input of type {type(source)} and output of type {type(each)}. "
                "But expected types to match."
            )
        share_storage(each, source)


def _move(func: OpOverload, tensor: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Give a tensor the sizes and strides that an in-place view operator gives a tensor without bytes."""
    stand_in = empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
    with _disable_current_modes():
        func(*(stand_in if each is tensor else each for each in args), **kwargs)
    tensor._spec = tensor._spec.replace(sizes=tuple(stand_in.shape), strides=stand_in.stride())
    share_storage(tensor, tensor)
