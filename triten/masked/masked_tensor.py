"""`MaskedTensor`: a tensor and a mask of the same shape (`torch.masked.MaskedTensor`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard

from ..dispatch.core.op_overload import OpOverload
from ..dispatch.core.tensor_function import body_of
from ..dispatch.generated import functions as ops
from ..dispatch.layers.overrides.rule_table import RuleTable
from ..dispatch.tensor import Tensor
from ..runtime.layout import sparse_coo, sparse_csr, strided
from ..runtime.scalar_type import bfloat16, bool_
from ..runtime.traceback_filter import api_boundary
from .sparse import specifies_same

MASKED = RuleTable()
"""Rules of public calls with masked tensors; `rules` fills it."""


class MaskedTensor(Tensor):
    """A tensor whose elements are there only where a mask is True (`torch.masked.MaskedTensor`).

    Operators between elements work on the data and keep the mask; two masked tensors have to have the same mask.
    Reductions leave masked-out elements out, and their results are masked out where all elements were. Gradients are
    masked tensors with the mask of what they are gradients of. PyTorch's class warns that it is a prototype.

    Data and mask may both be sparse COO or sparse CSR tensors with the same indices. Pointwise operators then compute
    specified elements alone, and reductions give strided results.

    Args:
        data: the elements, which are copied.
        mask: a bool tensor of the same shape and layout; True where an element counts.
        requires_grad: If True, record operations on it.

    Raises:
        TypeError: `data` or `mask` is no tensor, or of a dtype that is not supported.
        ValueError: the shapes differ, or the indices of sparse tensors.

    Example:
        >>> import triten as tt
        >>> x = tt.masked.MaskedTensor(tt.tensor([1.0, 2.0, 3.0]), tt.tensor([True, False, True]))
        >>> x
        MaskedTensor(
          [  1.0000,       --,   3.0000]
        )
        >>> x.sum()
        MaskedTensor(  4.0000, True)
    """

    sees_parts = True
    _masked_data: Tensor
    _masked_mask: Tensor

    @staticmethod
    def __new__(cls, data: Any, mask: Any, requires_grad: bool = False) -> MaskedTensor:
        """Source: torch.masked.MaskedTensor."""
        data, mask = _checked(data, mask)
        made = masked(data.detach().clone(), mask.detach().clone())
        if requires_grad:
            made._masked_data._set_requires_grad()
        return made

    def get_data(self) -> Tensor:
        """Return the elements, including masked-out ones, in the autograd graph.

        Example:
            >>> import triten as tt
            >>> tt.masked.masked_tensor(tt.tensor([1, 2]), tt.tensor([True, False])).get_data()
            tensor([1, 2])
        """
        data = self._masked_data
        return data.view_as(data) if data.layout is strided else data

    def get_mask(self) -> Tensor:
        """Return the mask.

        Example:
            >>> import triten as tt
            >>> tt.masked.masked_tensor(tt.tensor([1, 2]), tt.tensor([True, False])).get_mask()
            tensor([ True, False])
        """
        return self._masked_mask

    def to_tensor(self, value: float) -> Tensor:
        """Return a plain tensor with masked-out elements replaced by a value.

        Example:
            >>> import triten as tt
            >>> tt.masked.masked_tensor(tt.tensor([1, 2]), tt.tensor([True, False])).to_tensor(9)
            tensor([1, 9])
        """
        return dense_of(self._masked_data).masked_fill(~dense_of(self._masked_mask), value)

    @property
    def requires_grad(self) -> bool:
        """True if the data requires grad."""
        return self._masked_data.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self._masked_data.requires_grad = value

    @property
    def grad(self) -> Any:
        """The gradient, masked as this tensor is; None where there is none."""
        grad = self._masked_data.grad
        return None if grad is None else masked(grad, self._masked_mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        self._masked_data.grad = data_of(value)

    @property
    def grad_fn(self) -> Any:
        """The node that made the data."""
        return self._masked_data.grad_fn

    @property
    def is_leaf(self) -> bool:
        """True if no recorded operation made the data."""
        return self._masked_data.is_leaf

    def __repr__(self) -> str:
        data, mask = dense_of(self._masked_data.detach()).cpu(), dense_of(self._masked_mask).cpu()
        if data.dim() == 0:
            shown = _shown(data.item()) if mask.item() else "--"
            return f"MaskedTensor({shown}, {mask.item()})"
        text = "\n".join(f"  {line}" for line in _rows(data, mask).split("\n"))
        return f"MaskedTensor(\n{text}\n)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        data = self._masked_data if self.is_leaf else self._masked_data.detach()
        return masked, (data, self._masked_mask)

    def __deepcopy__(self, memo: dict[int, Any]) -> MaskedTensor:
        from copy import deepcopy

        result: MaskedTensor | None = memo.get(id(self))
        if result is None:
            data, mask = deepcopy(self._masked_data, memo), deepcopy(self._masked_mask, memo)
            result = memo[id(self)] = masked(data, mask)
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
        rule = MASKED.find(func) if kwargs.get("out") is None else None
        if rule is not None:
            return rule(func, args, kwargs)
        body = body_of(func)
        return NotImplemented if body is None else body(*args, **kwargs)

    @classmethod
    def __tensor_dispatch__(cls, func: OpOverload, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return NotImplemented


def masked(data: Tensor, mask: Tensor) -> MaskedTensor:
    """Return a masked tensor over data and mask without copies."""
    made: MaskedTensor = Tensor._make_wrapper_subclass(
        MaskedTensor, data.shape, data.stride(), dtype=data.dtype, device=data.device
    )
    made._masked_data, made._masked_mask = data, mask
    return made


def data_of(value: Any) -> Any:
    """Return a masked tensor's data, lists and tuples of their elements' data, and anything else unchanged."""
    if isinstance(value, MaskedTensor):
        return value._masked_data
    if type(value) in (list, tuple):
        return type(value)(map(data_of, value))
    return value


def mask_of(value: Any) -> Any:
    """Return a masked tensor's mask, lists and tuples of their elements' masks, and anything else unchanged."""
    if isinstance(value, MaskedTensor):
        return value._masked_mask
    if type(value) in (list, tuple):
        return type(value)(map(mask_of, value))
    return value


def dense_of(x: Tensor) -> Tensor:
    """Return a strided tensor unchanged, and a sparse one as a strided tensor."""
    return x if x.layout is strided else x.to_dense()


def _checked(data: Any, mask: Any) -> tuple[Tensor, Tensor]:
    """Return data and mask, coalesced, if they make a masked tensor. Otherwise raise TypeError or ValueError."""
    for name, each in (("data", data), ("mask", mask)):
        if not isinstance(each, Tensor) or isinstance(each, MaskedTensor):
            raise TypeError(f"{name} must be a Tensor, got {type(each).__name__}")
    if type(data) is not type(mask):
        raise TypeError(f"data and mask must have the same type. Got {type(data)} and {type(mask)}")
    if data.layout is not mask.layout:
        raise TypeError(f"data and mask must have the same layout. Got {data.layout} and {mask.layout}")
    if data.layout not in (strided, sparse_coo, sparse_csr):
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if mask.dtype is not bool_:
        raise TypeError(f"mask must have dtype bool, got {mask.dtype}")
    dtype = data.dtype
    if dtype.is_complex or dtype is bfloat16 or dtype.name.startswith(("uint", "float8")):
        raise TypeError(f"{dtype} is not supported in MaskedTensor.")
    if data.dim() != mask.dim():
        raise ValueError(f"data.dim() must equal mask.dim(), got {data.dim()} and {mask.dim()}")
    if data.shape != mask.shape:
        raise ValueError(f"data.size() must equal mask.size(), got {data.shape} and {mask.shape}")
    if data.layout is sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if not specifies_same(data, mask):
        kind, parts = (
            ("COO", "have the same") if data.layout is sparse_coo else ("CSR", "share either crow or col")
        )
        raise ValueError(f"data and mask are both sparse {kind} tensors but do not {parts} indices.")
    return data, mask


def _shown(value: Any) -> str:
    return f"{value:8.4f}" if isinstance(value, float) else str(value)


def _rows(data: Tensor, mask: Tensor) -> str:
    if data.dim() == 1:
        mask_values = mask.tolist()
        shown = [_shown(each) for each in data.tolist()]
        width = max(
            (len(text) if keep else 8 for text, keep in zip(shown, mask_values, strict=True)), default=0
        )
        return (
            "["
            + ", ".join(
                text if keep else "--".rjust(width) for text, keep in zip(shown, mask_values, strict=True)
            )
            + "]"
        )
    rows = [_rows(d, m).replace("\n", "\n  ") for d, m in zip(data, mask, strict=True)]
    return "[\n" + ",\n".join(f"  {row}" for row in rows) + "\n]"


@api_boundary
def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """Return a masked tensor of copies, a leaf (`torch.masked.masked_tensor`); see `MaskedTensor`.

    Example:
        >>> import triten as tt
        >>> tt.masked.masked_tensor(tt.arange(3), tt.tensor([True, False, True]))
        MaskedTensor(
          [0,       --, 2]
        )
    """
    return MaskedTensor(data, mask, requires_grad)


@api_boundary
def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """Return a masked tensor in the graph of its data (`torch.masked.as_masked_tensor`); see `MaskedTensor`.

    The gradient of `data` is a plain tensor, 0 where the mask is False; PyTorch's is a masked tensor.

    Example:
        >>> import triten as tt
        >>> x = tt.tensor([1.0, 0.0], requires_grad=True)
        >>> tt.masked.as_masked_tensor(x, x > 0).log().sum().backward()
        >>> x.grad
        tensor([1., 0.])
    """
    data, mask = _checked(data, mask)
    if data.layout is not strided:
        return masked(data, mask.clone())
    if data.requires_grad:
        return masked(ops.where(mask, data, data.detach()), mask.clone())
    return masked(data.clone(), mask.clone())


def is_masked_tensor(obj: Any, /) -> TypeGuard[MaskedTensor]:
    """Return True if a value is a `MaskedTensor`.

    Example:
        >>> import triten as tt
        >>> tt.masked.is_masked_tensor(tt.ones(2))
        False
    """
    return isinstance(obj, MaskedTensor)
