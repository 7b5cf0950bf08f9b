"""A tensor that a communication is still writing, and that waits for it at its first use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Self

from ...dispatch.core.op_overload import OpOverload, find_overload
from ...dispatch.core.tensor_function import disabled_tensor_function, plain_classes
from ...dispatch.layers.python_key import as_subclass, detached_subclass
from ...dispatch.layers.pytree import tree_map
from ...dispatch.tensor import Tensor
from .pending import wait_for

__all__ = ["AsyncCollectiveTensor"]


class AsyncCollectiveTensor(Tensor):
    """Result of a collective, which may be pending (`torch.distributed._functional_collectives`).

    It shares the memory of the collective's output. The first operator that reads it waits; views of it do
    not. Work that does not need the result therefore overlaps with the communication.

    Args:
        elem: the result of one of `tt.ops._c10d_functional`.

    Attributes:
        completed: whether it was waited for.
    """

    __tensor_function__: Any = disabled_tensor_function

    sees_parts = True
    _elem: Tensor
    completed = False

    def __new__(cls, elem: Tensor) -> Self:
        made = as_subclass(elem, cls)
        made._elem = elem
        return made

    @property
    def elem(self) -> Tensor:
        """The plain tensor, waited for or not."""
        elem: Tensor | None = vars(self).get("_elem")
        # Autograd keeps copies of results that have their memory, and no attributes.
        return detached_subclass(self, Tensor) if elem is None else elem

    def trigger_wait(self) -> Tensor:
        """Wait once for the communication, and return the plain tensor."""
        if not self.completed:
            wait_for(self.elem)
            self.completed = True
        return self.elem

    def wait(self) -> Tensor:
        """Wait through an operator that graphs and modes record, and return the plain tensor."""
        waited: Tensor = _wait_tensor()(self.elem)
        self.completed = True
        return waited

    @classmethod
    def __tensor_dispatch__(
        cls, func: OpOverload, types: Sequence[type], args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator on the plain tensors; a view of a pending tensor stays pending."""
        kind = _kind_of(func)
        source = args[0] if args else None
        is_view = kind == VIEW and isinstance(source, AsyncCollectiveTensor) and not source.completed
        plain = _viewed if is_view else _waited
        plain_args = [plain(each) for each in args]
        plain_kwargs = {name: plain(each) for name, each in kwargs.items()} if kwargs else {}
        result = func(*plain_args, **plain_kwargs)
        if is_view:
            return tree_map(lambda value: cls(value) if isinstance(value, Tensor) else value, result)
        if kind == WRITE:
            pairs = zip([*plain_args, *plain_kwargs.values()], [*args, *(kwargs or {}).values()], strict=True)
            written = {id(new): old for new, old in pairs}
            return tree_map(lambda value: written.get(id(value), value), result)
        return result

    def host_array(self) -> Any:
        self.trigger_wait()
        return super().host_array()

    def numpy(self, *, force: bool = False) -> Any:
        return self.trigger_wait().numpy(force=force)

    def tolist(self) -> Any:
        return self.trigger_wait().tolist()

    def item(self) -> Any:
        return self.trigger_wait().item()

    def data_ptr(self) -> int:
        self.trigger_wait()
        return super().data_ptr()

    def untyped_storage(self) -> Any:
        self.trigger_wait()
        return super().untyped_storage()

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["elem"], None

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, Any], meta: None, size: Any, stride: Any
    ) -> AsyncCollectiveTensor:
        return AsyncCollectiveTensor(inner["elem"])

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.trigger_wait().__reduce_ex__(protocol)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.trigger_wait().__deepcopy__(memo)

    def __repr__(self, **options: Any) -> str:
        return f"AsyncCollectiveTensor({self.trigger_wait()!r})"


plain_classes.add(AsyncCollectiveTensor)


@cache
def _wait_tensor() -> OpOverload:
    return find_overload("_c10d_functional::wait_tensor")


READ, VIEW, WRITE = range(3)
"""Kinds of access of an operator to its first argument."""

_kinds: dict[str, int] = {}


def _kind_of(func: OpOverload) -> int:
    name = func._entry.name
    kind = _kinds.get(name)
    if kind is None:
        schema = func._entry.schema
        alias = schema.arguments[0].alias_info if schema.arguments else None
        kind = _kinds[name] = WRITE if schema.is_mutable else READ if alias is None else VIEW
    return kind


def _waited(value: Any) -> Any:
    """Unwrap an argument, including lists, to plain tensors, and wait for them."""
    if value.__class__ is tuple or value.__class__ is list:
        return [_waited(each) for each in value]
    return _plain(value.trigger_wait()) if isinstance(value, AsyncCollectiveTensor) else value


def _viewed(value: Any) -> Any:
    """Unwrap an argument to a plain tensor without waiting."""
    return _plain(value.elem) if isinstance(value, AsyncCollectiveTensor) else value


def _plain(tensor: Tensor) -> Tensor:
    return tensor.detach() if tensor.requires_grad else tensor
