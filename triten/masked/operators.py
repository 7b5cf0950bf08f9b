"""Reductions and normalizations of tensors with masks (`torch.masked`): an element counts if its mask is True.

Functions of one kind share the function of their table row here. `identities` has the identity elements, and
the regular operators compute the results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..dispatch.generated import functions as ops
from ..dispatch.tensor import Tensor
from ..runtime.layout import strided
from ..runtime.scalar_type import bool_, float32, int8, int16, int32, int64, uint8
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.traceback_filter import api_boundary
from .identities import DimOrDims, canonical_dim, input_mask, without_masked
from .masked_tensor import MaskedTensor
from .sparse import reduce_sparse

SMALL_INTEGERS = (uint8, bool_, int8, int16, int32)
"""Dtypes whose sums and products are int64."""

_ARGUMENTS = """
    Args:
        input: a tensor, or a `MaskedTensor`, whose mask is taken if `mask` is None.
{dim}
        dtype: of the result; {dtype}.
        mask: a tensor that broadcasts to `input`'s shape; elements where it is False do not count. None for all.

    Returns:
        a tensor{returns}.

    Source: torch.masked.{name}.
"""
_DIMS = """        dim: the dimensions to reduce; all by default.
        keepdim: whether they stay, with size 1."""
_DIM = "        dim: the dimension along which it goes."
_EXAMPLE = """
    Example:
        >>> import triten as tt
        >>> x = tt.tensor([[-3.0, -2.0, -1.0], [0.0, 1.0, 2.0]])
        >>> mask = tt.tensor([[True, False, True], [False, False, False]])
        >>> tt.masked.{name}(x, {argument}, mask=mask)
        {shown}
    """


class Reduction(Protocol):
    """The signature of `sum` and its like."""

    def __call__(
        self,
        input: Tensor,
        dim: DimOrDims = None,
        *,
        keepdim: bool | None = False,
        dtype: ScalarType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor: ...


class Position(Protocol):
    """The signature of `argmax` and `argmin`."""

    def __call__(
        self,
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool | None = False,
        dtype: ScalarType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor: ...


class Normalization(Protocol):
    """The signature of `softmax` and its like."""

    def __call__(
        self, input: Tensor, dim: int, *, dtype: ScalarType | None = None, mask: Tensor | None = None
    ) -> Tensor: ...


def _opened(input: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return data and mask of what may be a masked tensor."""
    if isinstance(input, MaskedTensor):
        return input.get_data(), input.get_mask() if mask is None else mask
    return input, mask


def _documented(function: Any, name: str, summary: str, arguments: str, argument: str, shown: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = summary + "\n" + arguments + _EXAMPLE.format(name=name, argument=argument, shown=shown)
    return api_boundary(function)


def _reduction(
    name: str,
    compute: Callable[[Tensor, tuple[int, ...], bool, ScalarType], Tensor],
    summary: str,
    shown: str,
) -> Reduction:
    widens = name in ("sum", "prod")

    def reduce(
        input: Tensor,
        dim: DimOrDims = None,
        *,
        keepdim: bool | None = False,
        dtype: ScalarType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        data, mask = _opened(input, mask)
        if dtype is None:
            dtype = int64 if widens and data.dtype in SMALL_INTEGERS else data.dtype
        dims = canonical_dim(dim, data.dim())
        if data.layout is not strided:
            return reduce_sparse(name, data, mask, dims, bool(keepdim), dtype)
        values = without_masked(name, data, mask)
        return compute(values, dims, bool(keepdim), dtype)

    arguments = _ARGUMENTS.format(
        dim=_DIMS,
        dtype="int64 for smaller integers" if widens else "that of `input` by default",
        returns=", with the operation's identity where all elements are masked out",
        name=name,
    )
    return _documented(reduce, name, summary, arguments, "1", shown)  # type: ignore[no-any-return]


def _prod(values: Tensor, dims: tuple[int, ...], keepdim: bool, dtype: ScalarType) -> Tensor:
    values = values.to(dtype=dtype)
    for each in reversed(dims):
        values = values.prod(dim=each, keepdim=keepdim)
    return values


sum = _reduction(
    "sum",
    lambda values, dims, keepdim, dtype: ops.sum(values, dims, keepdim, dtype=dtype),
    "The sum of elements; 0 where all are masked out.",
    "tensor([-4.,  0.])",
)
prod = _reduction("prod", _prod, "The product of elements; 1 where all are masked out.", "tensor([3., 1.])")
amax = _reduction(
    "amax",
    lambda values, dims, keepdim, dtype: ops.amax(values, dims, keepdim).to(dtype),
    "The greatest element; the dtype's least value where all are masked out.",
    "tensor([-1., -inf])",
)
amin = _reduction(
    "amin",
    lambda values, dims, keepdim, dtype: ops.amin(values, dims, keepdim).to(dtype),
    "The least element; the dtype's greatest value where all are masked out.",
    "tensor([-3., inf])",
)
logsumexp = _reduction(
    "logsumexp",
    lambda values, dims, keepdim, dtype: ops.logsumexp(values, dims, keepdim).to(dtype),
    "The logarithm of the sum of exponentials; -inf where all are masked out.",
    "tensor([-0.8731,    -inf])",
)


def _position(name: str, operator: Callable[..., Tensor], summary: str, shown: str) -> Position:
    def find(
        input: Tensor,
        dim: int | None = None,
        *,
        keepdim: bool | None = False,
        dtype: ScalarType | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        data, mask = _opened(input, mask)
        values = without_masked(name, data, mask)
        return operator(values, dim, bool(keepdim)).to(dtype=data.dtype if dtype is None else dtype)

    dims = _DIMS.replace(
        "the dimensions to reduce; all by default", "the dimension to reduce; None for all as one"
    )
    arguments = _ARGUMENTS.format(
        dim=dims, dtype="that of `input` by default, as PyTorch has it", returns=" of indices", name=name
    )
    return _documented(find, name, summary, arguments, "1", shown)  # type: ignore[no-any-return]


argmax = _position("argmax", ops.argmax, "The index of the greatest element.", "tensor([2., 0.])")
argmin = _position("argmin", ops.argmin, "The index of the least element.", "tensor([0., 0.])")


def _normalization(name: str, operator: Callable[..., Tensor], summary: str, shown: str) -> Normalization:
    def normalize(
        input: Tensor, dim: int, *, dtype: ScalarType | None = None, mask: Tensor | None = None
    ) -> Tensor:
        data, mask = _opened(input, mask)
        (normalized_dim,) = canonical_dim(dim, data.dim())
        values = without_masked(name, data, mask)
        return operator(values, normalized_dim, data.dtype if dtype is None else dtype)

    arguments = _ARGUMENTS.format(
        dim=_DIM,
        dtype="that of `input` by default",
        returns=" of `input`'s shape. Its elements are undefined where they are masked out",
        name=name,
    )
    return _documented(normalize, name, summary, arguments, "1", shown)  # type: ignore[no-any-return]


cumsum = _normalization(
    "cumsum",
    lambda values, dim, dtype: ops.cumsum(values, dim, dtype=dtype),
    "The sums of the elements up to each one.",
    "tensor([[-3., -3., -4.],\n                [ 0.,  0.,  0.]])",
)
cumprod = _normalization(
    "cumprod",
    lambda values, dim, dtype: ops.cumprod(values, dim, dtype=dtype),
    "The products of the elements up to each one.",
    "tensor([[-3., -3.,  3.],\n                [ 1.,  1.,  1.]])",
)
softmax = _normalization(
    "softmax",
    lambda values, dim, dtype: ops.softmax(values, dim, dtype=dtype),
    "Exponentials that sum to 1; nan where all are masked out.",
    "tensor([[0.1192, 0.0000, 0.8808],\n                [   nan,    nan,    nan]])",
)
log_softmax = _normalization(
    "log_softmax",
    lambda values, dim, dtype: ops.log_softmax(values, dim, dtype=dtype),
    "The logarithm of `softmax`.",
    "tensor([[-2.1269,    -inf, -0.1269],\n                [    nan,     nan,     nan]])",
)
softmin = _normalization(
    "softmin",
    lambda values, dim, dtype: ops.softmax(-values, dim, dtype=dtype),
    "`softmax` of the negated elements.",
    "tensor([[0.8808, 0.0000, 0.1192],\n                [   nan,    nan,    nan]])",
)


def _count(data: Tensor, mask: Tensor | None, dim: DimOrDims, keepdim: bool) -> Tensor:
    counted = (
        ops.ones(data.shape, dtype=bool_, device=data.device) if mask is None else input_mask(data, mask)
    )
    return ops.sum(counted, canonical_dim(dim, data.dim()), keepdim)


@api_boundary
def mean(
    input: Tensor,
    dim: DimOrDims = None,
    *,
    keepdim: bool | None = False,
    dtype: ScalarType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Compute the mean of elements; nan if all are masked out.

    Args:
        input: a tensor, or a `MaskedTensor`, whose mask is taken if `mask` is None.
        dim: the dimensions to reduce; all by default.
        keepdim: If True, keep the reduced dimensions with size 1.
        dtype: Dtype of the result. Default: that of `input`.
        mask: a tensor that broadcasts to `input`'s shape; elements where it is False do not count. None for all.

    Raises:
        ValueError: the result's dtype is neither a floating nor a complex one.

    Source: torch.masked.mean.

    Example:
        >>> import triten as tt
        >>> tt.masked.mean(tt.tensor([1.0, 2.0, 6.0]), 0, mask=tt.tensor([True, False, True]))
        tensor(3.5000)
    """
    data, mask = _opened(input, mask)
    source = "Input" if dtype is None else "Optional"
    dtype = data.dtype if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {dtype}"
        )
    if data.layout is not strided:
        return reduce_sparse("mean", data, mask, canonical_dim(dim, data.dim()), bool(keepdim), dtype)
    total = sum(data, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(data, mask, dim, bool(keepdim))


@api_boundary
def median(
    input: Tensor,
    dim: int = -1,
    *,
    keepdim: bool = False,
    dtype: ScalarType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the median, the lower one of an even number of elements; NaN if all are masked out.

    Args:
        input: a tensor, or a `MaskedTensor`, whose mask is taken if `mask` is None.
        dim: the dimension to reduce; the last one by default.
        keepdim: If True, keep the reduced dimension with size 1.
        dtype: Dtype of the result for an integer `input`. Default: its own.
        mask: a tensor that broadcasts to `input`'s shape; elements where it is False do not count. None for all.

    Raises:
        ValueError: all elements of a row of integers are masked out.

    Source: torch.masked.median.

    Example:
        >>> import triten as tt
        >>> tt.masked.median(tt.tensor([1.0, 2.0, 6.0]), mask=tt.tensor([False, True, True]))
        tensor(2.)
    """
    data, mask = _opened(input, mask)
    (normalized_dim,) = canonical_dim(dim, data.dim())
    is_floating = data.dtype.is_floating_point
    values = without_masked("median", data if is_floating else data.to(float32), mask)
    result: Tensor = ops.nanmedian(values, normalized_dim, keepdim)[0]
    if is_floating:
        return result
    if ops.isnan(result).any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return result.to(dtype=data.dtype if dtype is None else dtype)


@api_boundary
def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: DimOrDims = None,
    *,
    keepdim: bool | None = False,
    dtype: ScalarType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Compute the vector norm of elements; 0 if all are masked out, inf for ``ord=-inf``.

    Args:
        input: a tensor, or a `MaskedTensor`, whose mask is taken if `mask` is None.
        ord: the norm's order.
        dim: the dimensions to reduce; all by default.
        keepdim: If True, keep the reduced dimensions with size 1.
        dtype: Dtype of the result. Default: that of `input`.
        mask: a tensor that broadcasts to `input`'s shape; elements where it is False do not count. None for all.

    Source: torch.masked.norm.

    Example:
        >>> import triten as tt
        >>> tt.masked.norm(tt.tensor([3.0, 2.0, 4.0]), mask=tt.tensor([True, False, True]))
        tensor(5.)
    """
    data, mask = _opened(input, mask)
    values = without_masked("norm", data, mask, ord)
    dims = canonical_dim(dim, data.dim())
    return ops.linalg_vector_norm(
        values, 2.0 if ord is None else ord, dims, bool(keepdim), dtype=data.dtype if dtype is None else dtype
    )


@api_boundary
def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: ScalarType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Divide elements by the norm of those that are not masked out; masked-out elements are 0.

    Args:
        input: a tensor, or a `MaskedTensor`, whose mask is taken if `mask` is None.
        ord: the norm's order.
        dim: the dimension along which it goes.
        eps: the least divisor.
        dtype: Dtype of the norm. Default: that of `input`.
        mask: a tensor that broadcasts to `input`'s shape; elements where it is False do not count. None for all.

    Source: torch.masked.normalize.

    Example:
        >>> import triten as tt
        >>> tt.masked.normalize(tt.tensor([3.0, 2.0, 4.0]), 2.0, 0, mask=tt.tensor([True, False, True]))
        tensor([0.6000, 0.0000, 0.8000])
    """
    data, mask = _opened(input, mask)
    length = norm(data, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return without_masked("normalize", data, mask) / ops.maximum(length, length.new_full((), eps))


def _deviation(
    input: Tensor,
    dim: DimOrDims,
    correction: float,
    keepdim: bool,
    dtype: ScalarType | None,
    mask: Tensor | None,
) -> Tensor:
    data, mask = _opened(input, mask)
    if data.layout is not strided:
        raise ValueError(f"masked std/var expects strided tensor (got {data.layout} tensor)")
    if dtype is None:
        dtype = data.dtype if data.dtype.is_floating_point or data.dtype.is_complex else float32
    computed = dtype if dtype.is_floating_point or dtype.is_complex else float32
    average = sum(data, dim, keepdim=True, dtype=dtype, mask=mask) / _count(data, mask, dim, True)
    distance = data - average
    total = sum(distance * distance.conj(), dim, keepdim=keepdim, dtype=computed, mask=mask)
    count = _count(data, mask, dim, keepdim)
    if correction != 0:
        real = total.real.dtype if computed.is_complex else computed
        count = (count.to(real) - correction).clamp(min=0)
    return (total / count).to(dtype=dtype)


def _correction(name: str, unbiased: bool | None, correction: float | None) -> float:
    if unbiased is not None and correction is not None:
        raise AssertionError(f"{name}(): Only one of unbiased and correction may be given")
    if correction is not None:
        return float(correction)
    return 0.0 if unbiased is False else 1.0


@api_boundary
def var(
    input: Tensor,
    dim: DimOrDims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: ScalarType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Compute the variance of elements; nan if all are masked out.

    Args:
        input: a tensor, or a `MaskedTensor`, whose mask is taken if `mask` is None.
        dim: the dimensions to reduce; all by default.
        unbiased: False divides by the number of elements, not by one less.
        correction: Number subtracted from the element count, instead of `unbiased`. Default: 1.
        keepdim: If True, keep the reduced dimensions with size 1.
        dtype: Dtype of the result. Default: that of `input`, or float32 for integers.
        mask: a tensor that broadcasts to `input`'s shape; elements where it is False do not count. None for all.

    Source: torch.masked.var.

    Example:
        >>> import triten as tt
        >>> tt.masked.var(tt.tensor([1.0, 9.0, 3.0]), mask=tt.tensor([True, False, True]))
        tensor(2.)
    """
    return _deviation(input, dim, _correction("var", unbiased, correction), bool(keepdim), dtype, mask)


@api_boundary
def std(
    input: Tensor,
    dim: DimOrDims = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: ScalarType | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Compute the standard deviation of elements, the root of `var`; nan if all are masked out.

    Args:
        input: a tensor, or a `MaskedTensor`, whose mask is taken if `mask` is None.
        dim: the dimensions to reduce; all by default.
        unbiased: False divides by the number of elements, not by one less.
        correction: Number subtracted from the element count, instead of `unbiased`. Default: 1.
        keepdim: If True, keep the reduced dimensions with size 1.
        dtype: Dtype of the result. Default: that of `input`, or float32 for integers.
        mask: a tensor that broadcasts to `input`'s shape; elements where it is False do not count. None for all.

    Source: torch.masked.std.

    Example:
        >>> import triten as tt
        >>> tt.masked.std(tt.tensor([1.0, 9.0, 3.0]), unbiased=False, mask=tt.tensor([True, False, True]))
        tensor(1.)
    """
    return ops.sqrt(
        _deviation(input, dim, _correction("std", unbiased, correction), bool(keepdim), dtype, mask)
    )


@api_boundary
def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: ScalarType | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Compute the logarithm of the sum of two tensors' exponentials; masked-out elements contribute nothing.

    Args:
        input: a tensor.
        other: a tensor.
        dtype: Dtype of the result. Default: that of `input`.
        input_mask: a tensor that broadcasts to `input`'s shape; False leaves an element out. None for all.
        other_mask: the same of `other`.

    Source: torch.masked.logaddexp.

    Example:
        >>> import triten as tt
        >>> a, b = tt.tensor([-100.0, -200.0]), tt.tensor([-1.0, -2.0])
        >>> tt.masked.logaddexp(a, b, other_mask=tt.tensor([True, False]))
        tensor([  -1., -200.])
    """
    first, first_mask = _opened(input, input_mask)
    second, second_mask = _opened(other, other_mask)
    result = ops.logaddexp(
        without_masked("logaddexp", first, first_mask), without_masked("logaddexp", second, second_mask)
    )
    return result.to(dtype=first.dtype if dtype is None else dtype)
