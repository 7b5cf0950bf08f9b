"""Nested tensors of layout ``tt.strided``: a list of tensors, any of whose dimensions may have different sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.core.tensor_function import body_of
from ..dispatch.generated import functions as ops
from ..dispatch.layers.overrides.rule_table import RuleTable, name_of
from ..dispatch.tensor import Tensor
from ..dispatch.tensor_data import tensor
from ..runtime.layout import layout as Layout
from ..runtime.layout import strided
from ..runtime.scalar_type import int64
from .padding import to_padded_tensor
from .pointwise import ASKED, VALUEWISE

STRIDED = RuleTable()
"""What each public call does with nested tensors of this layout."""


class StridedNestedTensor(Tensor):
    """A batch of tensors of different sizes (what ``torch.nested.nested_tensor`` makes by default).

    Args:
        components: the tensors, of as many dimensions each; derivatives are those of theirs.
    """

    sees_parts = True
    _components: list[Tensor]

    @staticmethod
    def __new__(cls, components: Sequence[Tensor]) -> StridedNestedTensor:
        """Create a nested tensor over its components.

        Raises:
            RuntimeError: The components differ in dimensions, dtype or device.
        """
        parts = list(components)
        for i in range(1, len(parts)):
            if parts[i].dim() != parts[i - 1].dim():
                raise RuntimeError(
                    "All Tensors given to nested_tensor must have the same dimension. Found dimension "
                    f"{parts[i].dim()} for Tensor at index {i} and dimension {parts[i - 1].dim()} for Tensor at index "
                    f"{i - 1}."
                )
        for attribute in ("dtype", "device"):
            values = [getattr(each, attribute) for each in parts]
            if len(set(values)) > 1:
                raise RuntimeError(f"nested_tensor(): expected tensors of the same {attribute}, got {values}")
        first = parts[0] if parts else ops.empty(0)
        sizes = (
            len(parts),
            *(max(int(each.shape[i]) for each in parts) for i in range(first.dim() if parts else 0)),
        )
        made: StridedNestedTensor = Tensor._make_wrapper_subclass(
            cls, sizes, dtype=first.dtype, device=first.device
        )
        made._components = parts
        return made

    def dim(self) -> int:
        """Return the number of dimensions, including the batch."""
        return (self._components[0].dim() if self._components else 0) + 1

    ndim = property(dim)
    ndimension = dim

    @property
    def shape(self) -> Any:
        """Raises RuntimeError: dimensions have no one size; `size` has one of a regular dimension."""
        raise RuntimeError(
            "NestedTensorImpl doesn't support sizes: "
            "nested tensors with layout strided have no shape; size(dim) is the size of a regular dimension, and "
            "to_padded_tensor(...) or unbind() gives tensors that have one"
        )

    def size(self, dim: Any = None) -> Any:
        """Return the size of a dimension that is equal in all tensors.

        Raises:
            RuntimeError: The sizes differ.
        """
        if dim is None:
            return self.shape
        wrapped_dim = _wrapped(self, dim, "size")
        sizes = (
            {int(each.shape[wrapped_dim - 1]) for each in self._components}
            if wrapped_dim
            else {len(self._components)}
        )
        if len(sizes) != 1:
            raise RuntimeError(f"Given dimension {wrapped_dim} is irregular and does not have a size.")
        return sizes.pop()

    def stride(self, dim: Any = None) -> Any:
        """Raise RuntimeError: each tensor has its own strides."""
        raise RuntimeError(
            "NestedTensorImpl doesn't support strides: each tensor of unbind() has its own strides"
        )

    def _nested_tensor_size(self) -> Tensor:
        """Return the sizes of the tensors, one row for each."""
        return self._table(lambda each: each.shape)

    def _nested_tensor_strides(self) -> Tensor:
        """Return the strides of the tensors, one row for each."""
        return self._table(lambda each: each.stride())

    def _table(self, row: Callable[[Tensor], Sequence[int]]) -> Tensor:
        rows = [[int(n) for n in row(each)] for each in self._components]
        return tensor(rows, dtype=int64) if rows else ops.empty(0, dtype=int64)

    @property
    def layout(self) -> Layout:
        """``triten.strided``."""
        return strided

    @property
    def is_nested(self) -> bool:
        """True."""
        return True

    @property
    def requires_grad(self) -> bool:
        """True if a tensor requires grad."""
        return any(each.requires_grad for each in self._components)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        for each in self._components:
            each.requires_grad = value

    @property
    def grad(self) -> Any:
        """The gradients, nested; None where there are none."""
        grads = [each.grad for each in self._components]
        if all(each is None for each in grads):
            return None
        pairs = zip(self._components, grads, strict=True)
        return StridedNestedTensor([ops.zeros_like(c) if g is None else g for c, g in pairs])

    @grad.setter
    def grad(self, value: Any) -> None:
        parts = [None] * len(self._components) if value is None else value._components
        for each, grad in zip(self._components, parts, strict=True):
            each.grad = grad

    @property
    def grad_fn(self) -> Any:
        """The node that made the first tensor."""
        return self._components[0].grad_fn if self._components else None

    @property
    def is_leaf(self) -> bool:
        """True if all tensors are leaves."""
        return all(each.is_leaf for each in self._components)

    def values(self) -> Tensor:
        """Concatenate all elements into one dimension."""
        return ops.cat([each.reshape(-1) for each in self._components])

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Pad the tensors to one size; see `tt.nested.to_padded_tensor`."""
        return to_padded_tensor(self, padding, output_size)

    def __len__(self) -> int:
        return len(self._components)

    def __iter__(self) -> Any:
        return iter(self._components)

    def __repr__(self) -> str:
        shown = [repr(each).replace("\n", "\n  ") for each in self._components]
        if not shown:
            return "nested_tensor([\n\n])"
        return "nested_tensor([\n  " + ",\n  ".join(shown) + "\n])"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return StridedNestedTensor, ([each if each.is_leaf else each.detach() for each in self._components],)

    def __deepcopy__(self, memo: dict[int, Any]) -> StridedNestedTensor:
        from copy import deepcopy

        result: StridedNestedTensor | None = memo.get(id(self))
        if result is None:
            result = memo[id(self)] = StridedNestedTensor(deepcopy(self._components, memo))
        return result

    @classmethod
    def __tensor_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if kwargs.get("out") is not None:
            raise RuntimeError(
                f"{name_of(func)}(): out= is not supported for nested tensors with layout {strided}"
            )
        rule = STRIDED.find(func)
        if rule is not None:
            return rule(func, args, kwargs)
        body = body_of(func)
        if body is not None:
            return body(*args, **kwargs)
        raise NotImplementedError(
            f"{name_of(func)}(): not supported for nested tensors with layout {strided}"
        )

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{func.name()}: not supported for nested tensors with layout {strided}")


def _wrapped(nested: StridedNestedTensor, dim: int, name: str) -> int:
    dims = nested.dim()
    if not -dims <= dim < dims:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-dims}, {dims - 1}], but got {dim})"
        )
    return dim % dims


def _inner(nested: StridedNestedTensor, dim: int, name: str) -> int:
    """Return the dimension of the tensors for one of the nested tensor.

    Raises:
        RuntimeError: The dimension is the batch.
    """
    wrapped_dim = _wrapped(nested, dim, name)
    if wrapped_dim == 0:
        raise RuntimeError(f"{name}(): not supported for nested tensors with layout strided on dim=0")
    return wrapped_dim - 1


def _nested_in(values: Sequence[Any]) -> list[StridedNestedTensor]:
    flat = [e for value in values for e in (value if isinstance(value, list | tuple) else (value,))]
    return [each for each in flat if isinstance(each, StridedNestedTensor)]


def _part(value: Any, i: int) -> Any:
    if isinstance(value, StridedNestedTensor):
        return value._components[i]
    if isinstance(value, list | tuple) and any(isinstance(each, StridedNestedTensor) for each in value):
        return [_part(each, i) for each in value]
    return value


def _mapped(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a call on each tensor and nest the results."""
    nested = _nested_in([*args, *kwargs.values()])
    if len({len(each) for each in nested}) > 1:
        raise RuntimeError(
            f"{name_of(func)}(): expected nested tensors of as many tensors, got {[len(each) for each in nested]}"
        )
    results = [
        func(*[_part(v, i) for v in args], **{name: _part(v, i) for name, v in kwargs.items()})
        for i in range(len(nested[0]))
    ]
    if results and all(r is c for r, c in zip(results, nested[0]._components, strict=True)):
        return nested[0]
    if results and isinstance(results[0], list | tuple):
        return tuple(StridedNestedTensor(each) for each in zip(*results, strict=True))
    return StridedNestedTensor(results) if results and isinstance(results[0], Tensor) else nested[0]


@STRIDED.rule(
    "pointwise", "where", "masked_fill", "masked_fill_", "copy_", *VALUEWISE, "contiguous", "cumsum"
)
def mapped(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a call on each tensor; a dense argument is shared, or split along the batch."""
    nested = _nested_in([*args, *kwargs.values()])[0]

    def spread(value: Any) -> Any:
        dense = isinstance(value, Tensor) and not isinstance(value, StridedNestedTensor)
        if dense and value.dim() == nested.dim():
            if value.shape[0] not in (1, len(nested)):
                raise RuntimeError(
                    f"{name_of(func)}(): expected a dense tensor for a batch of {len(nested)}, got shape "
                    f"{tuple(value.shape)}"
                )
            return StridedNestedTensor(value.expand(len(nested), *value.shape[1:]).unbind())
        return value

    return _mapped(func, [spread(v) for v in args], {name: spread(v) for name, v in kwargs.items()})


@STRIDED.rule("scaled_dot_product_attention", "layer_norm", "rms_norm", "embedding")
def whole(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a call over the last dimensions; a dense tensor with the batch's dimensions is split along the batch."""
    nested = _nested_in([*args, *kwargs.values()])[0]
    if name_of(func) == "layer_norm":
        shape = args[1] if len(args) > 1 else kwargs["normalized_shape"]
        rows = {tuple(each.shape[each.dim() - len(shape) :]) for each in nested._components}
        if len(rows) > 1:
            raise RuntimeError(
                f"normalized_shape extends into irregular dimensions for the nested tensor, got {list(shape)}"
            )
    spread = [
        StridedNestedTensor(v.unbind())
        if isinstance(v, Tensor) and not v.is_nested and v.dim() == nested.dim() and v.dim() > 2
        else v
        for v in args
    ]
    return _mapped(func, spread, kwargs)


@STRIDED.rule(
    *ASKED.split(),
    *[f"{name}.__get__" for name in ("dtype", "device", "is_cuda", "is_cpu", "is_meta", "itemsize")],
)
def asked(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Answer a query from the first tensor, or for no tensors from an empty one."""
    if not args[0]._components:
        made: Any = args[0]
        return func(ops.empty(0, dtype=made._spec.dtype, device=made._spec.device), *args[1:], **kwargs)
    return func(*[_part(each, 0) for each in args], **kwargs)


def _with_dim(name: str) -> None:
    def rule(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        nested = args[0] if args else kwargs["input"]
        options = dict(kwargs)
        rest = list(args[1:])
        dim = rest.pop(0) if rest else options.pop("dim", options.pop("axis", None))
        if dim is None:
            raise RuntimeError(f"{name}(): expected dim for a nested tensor with layout strided, got None")
        if not nested._components:
            return nested
        if _wrapped(nested, dim, name) == 0:
            raise RuntimeError(f"Cannot apply {name} across nested dimension 0")
        inner = _inner(nested, dim, name)
        return _mapped(func, (nested, inner, *rest), options)

    STRIDED.rules[name] = rule


for _name in ("softmax", "log_softmax", "_softmax", "softmin", "cumsum", "select", "unflatten"):
    _with_dim(_name)


def _reduction(name: str) -> None:
    operator = getattr(ops, name)

    def rule(input: StridedNestedTensor, dim: Any = None, keepdim: bool = False, **named: Any) -> Any:
        if dim is None:
            return operator(input.values(), **named)
        if not keepdim:
            raise RuntimeError(
                f"NestedTensor always requires keepdim=True for now. {name}() got keepdim=False"
            )
        if 0 in [_wrapped(input, each, name) for each in ([dim] if isinstance(dim, int) else dim)]:
            only = "can only be reduced across the last dimension for now got dimension 0 instead."
            several = "only allows reduction of a single dimension for now."
            raise RuntimeError(f"NestedTensor {only if isinstance(dim, int) or len(dim) == 1 else several}")
        dims = [_inner(input, each, name) for each in ([dim] if isinstance(dim, int) else dim)]
        inner: Any = dims[0] if isinstance(dim, int) else dims
        return StridedNestedTensor([operator(each, inner, True, **named) for each in input._components])

    STRIDED.signature(name)(rule)


for _name in ("sum", "mean", "amax", "amin"):
    _reduction(_name)


@STRIDED.signature()
def unbind(input: StridedNestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    if _wrapped(input, dim, "unbind") != 0:
        raise RuntimeError(f"unbind(): nested tensors with layout strided support dim=0, got dim={dim}")
    return tuple(input._components)


@STRIDED.signature("__getitem__")
def subscript(input: StridedNestedTensor, index: Any) -> Tensor:
    first, *rest = index if isinstance(index, tuple) else (index,)
    if not isinstance(first, int):
        raise NotImplementedError(
            "__getitem__(): nested tensors with layout strided support an integer for the batch"
        )
    if not -len(input) <= first < len(input):
        raise IndexError(f"index {first} is out of bounds for dimension 0 with size {len(input)}")
    chosen = input._components[first]
    return chosen[tuple(rest)] if rest else chosen


@STRIDED.signature("cat", "concat", "concatenate")
def cat(tensors: Sequence[Any], dim: int = 0) -> StridedNestedTensor:
    if dim != 0:
        return _mapped(ops.cat, (tensors,), {"dim": _inner(tensors[0], dim, "cat")})  # type: ignore[no-any-return]
    return StridedNestedTensor([part for each in tensors for part in each.unbind()])


@STRIDED.signature("numel", "nelement")
def numel(input: StridedNestedTensor) -> int:
    return sum(each.numel() for each in input._components)


@STRIDED.signature()
def is_contiguous(input: StridedNestedTensor, memory_format: Any = None) -> bool:
    return all(each.is_contiguous() for each in input._components)


@STRIDED.signature("to_padded_tensor")
def padded(input: StridedNestedTensor, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
    parts = input._components
    if not parts:
        return ops.empty(0, dtype=input.dtype, device=input.device)
    least = [max((int(each.shape[i]) for each in parts), default=0) for i in range(input.dim() - 1)]
    size = [len(parts), *least] if output_size is None else list(output_size)
    if len(size) != len(least) + 1 or any(a < b for a, b in zip(size, [len(parts), *least], strict=True)):
        raise RuntimeError(
            "to_padded_tensor(): Value in output_size is less than NestedTensor padded size. Truncation is not "
            f"supported: expected at least {(len(parts), *least)}, got {tuple(size)}"
        )
    rows = []
    for each in parts:
        behind = [
            n for a, b in zip(reversed(size[1:]), reversed(each.shape), strict=True) for n in (0, a - int(b))
        ]
        rows.append(ops.constant_pad_nd(each, behind, padding))
    batch = ops.stack(rows)
    more = size[0] - len(parts)
    return ops.constant_pad_nd(batch, [0, 0] * (batch.dim() - 1) + [0, more], padding) if more else batch


@STRIDED.signature()
def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, **named: Any) -> tuple[Any, ...]:
    from ..autograd import grad as run

    input_list = [inputs] if not isinstance(inputs, list | tuple) else list(inputs)
    leaves = [part for each in input_list for part in (each.unbind() if each.is_nested else [each])]
    gradients = iter(run(_flat(outputs), leaves, _flat(grad_outputs), **named))
    return tuple(
        StridedNestedTensor([next(gradients) for _ in each._components])
        if isinstance(each, StridedNestedTensor)
        else next(gradients)
        for each in input_list
    )


def _flat(value: Any) -> Any:
    """Replace nested tensors by their components; None stays."""
    if value is None:
        return None
    values = list(value) if isinstance(value, list | tuple) else [value]
    return [
        p for each in values for p in (each._components if isinstance(each, StridedNestedTensor) else [each])
    ]


@STRIDED.signature()
def backward(tensors: Any = None, grad_tensors: Any = None, *args: Any, **named: Any) -> None:
    from ..autograd import backward as run

    tensors = named.pop("input", tensors)
    grad_tensors = named.pop("gradient", grad_tensors)
    named["inputs"] = _flat(named.get("inputs"))
    run(_flat(tensors), _flat(grad_tensors), *args, **named)
