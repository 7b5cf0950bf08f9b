"""Attributes of nodes that programs read: ``_saved_self``, ``_raw_saved_self``, ``_input_metadata`` (python_engine).

Reading an attribute unpacks the saved value as backward would, with the same errors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from ...runtime.tensor_impl import TensorImpl
from .node import FREED, Node, Packed, unpack, unpack_list, unpack_result
from .saved_tensors import pack

if TYPE_CHECKING:
    from ...runtime.device import device as Device
    from ...runtime.scalar_type import dtype as ScalarType
    from ...runtime.size import Size
    from ..schema.function_schema import FunctionSchema
    from .recorder import Recording


class InputMetadata(NamedTuple):
    """Shape, dtype and device of a gradient that a node receives."""

    dtype: ScalarType
    shape: Size
    device: Device
    is_nested_tensor: bool = False
    is_cpp_nested_tensor: bool = False


def input_metadata(node: Node) -> tuple[InputMetadata, ...]:
    """Return a description of each gradient that `node` receives."""
    return tuple([InputMetadata(spec.dtype, spec.shape, spec.device) for spec in node.specs])


def add_saved_attributes(cls: type[Node], recording: Recording, schema: FunctionSchema) -> None:
    """Give a generated class of nodes the attributes of its saved values.

    They are properties: with a ``__getattr__``, CPython would look up every attribute of a node the slow way.
    """
    cls.recording = recording, schema
    tensors = [*recording.saves, *recording.results]
    sizes = [f"{name}_sym_sizes" for name in recording.specs]
    for name in (*tensors, *recording.statics, *sizes):
        setattr(cls, f"_saved_{name}", property(partial(_saved, name=name)))
    for name in tensors:
        setattr(cls, f"_raw_saved_{name}", property(partial(_raw, name=name)))


def _stored(node: Node, name: str) -> Any:
    """Return the content of a slot; None if this call saved nothing there."""
    try:
        return object.__getattribute__(node, name)
    except AttributeError:
        return None


def _slot(name: str) -> str:
    from ..schema.function_schema import local_name

    return local_name(name)


def _saved(node: Node, name: str) -> Any:
    known = type(node).recording
    assert known is not None
    recording, schema = known
    value = _stored(node, _slot(name))
    if name in recording.saves or name in recording.results:
        if value is None:
            return None
        version = _stored(node, f"{_slot(name)}_version")
        if version.__class__ is list:
            return tuple(unpack_list(node, value, version))
        names = [r.name or f"result{i}" for i, r in enumerate(schema.returns)]
        number = 0 if len(names) == 1 else names.index(name) if name in names else None
        has_gradient = number is not None and (
            not recording.differentiable or recording.differentiable[number]
        )
        if name in recording.results and has_gradient:
            return unpack_result(node, value, version, number or 0)
        return unpack(node, value, version)
    if name.endswith("_sym_sizes"):
        spec = _stored(node, f"{name.removesuffix('_sym_sizes')}_spec")
        return (
            [each.shape for each in spec] if spec.__class__ is list else None if spec is None else spec.shape
        )
    return tuple(value) if value.__class__ is list else value


def _raw(node: Node, name: str) -> Any:
    value = _stored(node, _slot(name))
    if value.__class__ is list:
        return tuple([SavedTensor(node, value, position) for position in range(len(value))])
    return SavedTensor(node, node, _slot(name))


class SavedTensor:
    """Place of a tensor that a node saved (`torch._C._autograd.SavedTensor`).

    Args:
        node: The node.
        holder: The node, or the list of one of its slots.
        index: The name of the slot, or the position in the list.
    """

    __slots__ = ("_holder", "_index", "_node")

    def __new__(cls, *args: Any) -> Self:
        if not args:
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden.")
        return super().__new__(cls)

    def __init__(self, node: Node, holder: Any, index: Any) -> None:
        self._node, self._holder, self._index = node, holder, index

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Pack the tensor now; backward unpacks it.

        Args:
            pack_hook: Function called with the tensor; it returns any object.
            unpack_hook: Function called with that object; it returns a tensor.

        Raises:
            RuntimeError: The node saved None here, backward has freed the tensor, or the tensor has hooks.
        """
        value = self._value()
        if value is FREED:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the "
                "graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need "
                "to backward through the graph a second time or if you need to access saved tensors after calling "
                "backward."
            )
        if isinstance(value, Packed):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        if not isinstance(value, TensorImpl):
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        packed = pack(value, pack_hook, unpack_hook)
        if self._holder is self._node:
            setattr(self._node, self._index, packed)
        elif isinstance(self._holder[self._index], tuple):
            self._holder[self._index] = (packed, *self._holder[self._index][1:])
        else:
            self._holder[self._index] = packed

    def _value(self) -> Any:
        if self._holder is self._node:
            return _stored(self._node, self._index)
        value = self._holder[self._index]
        return value[0] if isinstance(value, tuple) else value
