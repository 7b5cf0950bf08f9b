"""Metaclass of `Tensor`: attribute lookup of subclasses (torch/_tensor.py has `_TensorMeta`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..runtime.dispatch_key import Functionality, functionality_bit
from ..runtime.generic_base import GenericBase
from ..runtime.local_dispatch_key_set import ExcludeDispatchKeyGuard
from ..runtime.traceback_filter import hide_inner_frames
from .core.tensor_function import HANDLER, disabled_tensor_function, other_handlers

PYTORCH_NAMES: Final = {HANDLER: "__torch_function__", "__tensor_dispatch__": "__torch_dispatch__"}
"""PyTorch's names of the handlers."""


def disabled_tensor_dispatch(
    func: Callable[..., Any], types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
) -> Any:
    """Run an operator without dispatch modes and handlers of subclasses (`torch._C._disabled_torch_dispatch_impl`)."""
    with ExcludeDispatchKeyGuard(functionality_bit(Functionality.Python)):
        return func(*args, **(kwargs or {}))


class _NextHandler:
    """The handler of operators that ``super()`` finds in a class that defines one; other classes have none."""

    def __get__(self, tensor: object, cls: type) -> Callable[..., Any]:
        if any("__tensor_dispatch__" in vars(each) for each in cls.__mro__ if each is not Constructor):
            return disabled_tensor_dispatch
        raise AttributeError(f"type object {cls.__name__!r} has no handler of operators")


class Constructor:
    """Base that precedes `Tensor` in a subclass's method resolution order, so that ``super().__new__`` makes its
    tensors.

    `Tensor` itself has no ``__new__``: results use `object`'s, whose call takes half as long.
    """

    __slots__ = ()

    __tensor_dispatch__ = __torch_dispatch__ = _NextHandler()

    def __new__(cls, /, *args: Any, **named: Any) -> Any:
        """Return a tensor of the class; see `Tensor`."""
        return _constructed(cls, *args, **named)


constructors: list[Callable[..., Any]] = []
"""The function that makes a tensor of a class from positional and keyword arguments (`methods/tensor_types`)."""


def _constructed(cls: Any, /, *args: Any, **named: Any) -> Any:
    (make,) = constructors
    return make(cls, args, **named)


class TensorMeta(type):
    """Metaclass that inserts the overridden attributes right before `Tensor` in a subclass's method resolution order.

    Definitions of a subclass and its mixins thus come first, ``super()`` finds the overridden attributes, and
    `Tensor`'s own attributes need no check for subclasses.

    A subclass with ``__tensor_dispatch__`` and no ``__tensor_function__`` of its own opts out of the latter, as in
    PyTorch. The default one would convert the handler's results to this class, without the attributes that it sets.

    A subclass that defines a handler only under PyTorch's name is rejected, since no code would call it. If
    `triten.as_torch` serves PyTorch's programs, that name is a handler.

    Calling a class makes a tensor of a user's sizes or elements; `tensor.blank_tensor` makes results.
    """

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> TensorMeta:
        """Create a class; recognize or reject handlers under PyTorch's names."""
        for own, theirs in PYTORCH_NAMES.items():
            handler = _defined_as(own, theirs, bases, namespace)
            if handler is None:
                continue
            if PYTORCH_NAMES[HANDLER] not in other_handlers:
                raise TypeError(
                    f"{name}: a subclass of Tensor defines {theirs}, which is called {own} here. Rename it, or have "
                    f"both names for one method ({own} = {theirs}); programs that import torch run as they are under "
                    f"`python -m {__name__.partition('.')[0]}.as_torch`"
                )
            namespace[own] = handler
        if _only_dispatches(bases, namespace):
            namespace.update(dict.fromkeys((HANDLER, *other_handlers), disabled_tensor_function))
        return super().__new__(mcs, name, bases, namespace, **options)

    def __call__(cls, /, *args: Any, **named: Any) -> Any:
        """Return a tensor of the class as PyTorch's first versions made it, unless the class has its own
        constructor.
        """
        try:
            new: Any = cls.__new__
            if new is GenericBase.__new__:
                made = _constructed(cls, *args, **named)
            else:
                made = new(cls, *args, **named)
            # `isinstance` takes a parameter of a user's class for a `Parameter`, whose arguments differ from that
            # class's.
            if issubclass(type(made), cls) and cls.__init__ is not object.__init__:  # type: ignore[misc]
                made.__init__(*args, **named)
            return made
        except BaseException:
            hide_inner_frames()
            raise

    def mro(cls) -> list[type]:
        """Return the usual order, with `OverriddenAttributes` inserted for a class that uses
        ``__tensor_function__``.
        """
        order = [each for each in super().mro() if each is not Constructor]
        root = max((i for i, each in enumerate(order) if isinstance(each, TensorMeta)), default=0)
        if root == 0:
            return order
        order.insert(root, Constructor)
        handler = next((each.__dict__[HANDLER] for each in order if HANDLER in each.__dict__), None)
        tensor = order[root + 1]
        if handler is disabled_tensor_function and cls.__bases__ == (tensor,):
            return order
        from .layers.overrides.subclass_attributes import overridden_attributes

        overridden = overridden_attributes()
        order = [each for each in order if each is not overridden]
        if handler is not disabled_tensor_function:
            order.insert(order.index(tensor), overridden)
        return order


def _only_dispatches(bases: tuple[type, ...], namespace: dict[str, Any]) -> bool:
    """Return True if a new class handles operators and inherits the default handler of public calls."""
    if HANDLER in namespace:
        return False
    defined = {
        name: [
            each for base in bases for each in base.__mro__ if name in vars(each) and each is not Constructor
        ]
        for name in PYTORCH_NAMES
    }
    dispatches = "__tensor_dispatch__" in namespace or defined["__tensor_dispatch__"]
    return bool(dispatches) and all(_is_root(each) for each in defined[HANDLER])


def _is_root(cls: type) -> bool:
    """Return True for `Tensor`, whose bases are no tensor classes."""
    return isinstance(cls, TensorMeta) and not any(isinstance(base, TensorMeta) for base in cls.__mro__[1:])


def _defined_as(own: str, theirs: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
    """Return the handler that a new class or its mixins define as `theirs` and not as `own`; None if there is none."""
    mixins = (
        vars(each)
        for base in bases
        for each in base.__mro__
        if not isinstance(each, TensorMeta) and each is not Constructor
    )
    for attributes in (namespace, *mixins):
        if own in attributes:
            return None
        if theirs in attributes:
            return attributes[theirs]
    return None
