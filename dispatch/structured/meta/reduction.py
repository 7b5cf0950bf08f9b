"""Meta functions of reductions (ATen/native/ReduceOps.cpp).

Each meta function stores the wrapped dimensions in ``extra["dims"]`` for the kernel. `var` and similar functions also
store the correction in ``extra["correction"]`` if it is known when planning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.scalar_type import bool_, get_default_dtype, int64, uint8, uint64
from ....runtime.scalar_type import dtype as ScalarType
from ....runtime.tensor_spec import TensorSpec
from ..meta_base import MetaBase
from .dims import reduced_dims, reduced_shape, wrap_dim

if TYPE_CHECKING:
    from ..meta_base import NumberKind

Dims = Sequence[int] | int | None


def _set_reduced(
    meta: MetaBase, self: TensorSpec, dims: tuple[int, ...], keepdim: bool, dtype: ScalarType
) -> None:
    meta.extra["dims"] = dims
    meta.set_output_raw_strided(0, reduced_shape(self.sizes, dims, keepdim), dtype=dtype)


def sum_dtype(self: TensorSpec, dtype: ScalarType | None) -> ScalarType:
    """Return the dtype of a sum: as asked, else int64 for integral and bool inputs, else the input's."""
    if dtype is not None:
        return dtype
    floating = self.dtype.is_floating_point or self.dtype.is_complex
    return self.dtype if floating else int64


def _accumulated_dtype(meta: MetaBase, self: TensorSpec, dtype: ScalarType | None) -> ScalarType:
    out_spec = meta.maybe_get_output()
    return sum_dtype(self, dtype if dtype is not None or out_spec is None else out_spec.dtype)


def _reducing_alike(
    self: TensorSpec, dim: Dims, dims: tuple[int, ...], keepdim: bool, dtype: ScalarType
) -> Callable[[Sequence[Any]], TensorSpec | None]:
    """Return a function from a call's arguments to the result of reducing tensors of this rank over the same
    dimensions.
    """
    rank, device = self.ndim, self.device

    def rule(args: Sequence[Any]) -> TensorSpec | None:
        spec = args[0]
        if spec.ndim != rank or (dim.__class__ is tuple and args[1] != dim):
            return None
        sizes = spec.sizes
        if keepdim:
            result_sizes = [1 if i in dims else n for i, n in enumerate(sizes)]
        else:
            result_sizes = [n for i, n in enumerate(sizes) if i not in dims]
        return TensorSpec.contiguous(tuple(result_sizes), dtype, device)

    return rule


def sum_dim(meta: MetaBase, self: TensorSpec, dim: Dims, keepdim: bool, dtype: ScalarType | None) -> None:
    """Sum over `dim`, over all dimensions if it is None or empty."""
    dims, out = reduced_dims(dim, self.ndim), _accumulated_dtype(meta, self, dtype)
    _set_reduced(meta, self, dims, keepdim, out)
    meta.rule = _reducing_alike(self, dim, dims, keepdim, out)


def sum_all(meta: MetaBase, self: TensorSpec, dtype: ScalarType | None) -> None:
    """Sum over everything."""
    sum_dim(meta, self, None, False, dtype)


def prod_dim(meta: MetaBase, self: TensorSpec, dim: int, keepdim: bool, dtype: ScalarType | None) -> None:
    """Infer the product along `dim`; the dtype is that of a sum."""
    sum_dim(meta, self, dim, keepdim, dtype)


def prod_all(meta: MetaBase, self: TensorSpec, dtype: ScalarType | None) -> None:
    """Infer the product over everything."""
    sum_dim(meta, self, None, False, dtype)


def mean_dim(meta: MetaBase, self: TensorSpec, dim: Dims, keepdim: bool, dtype: ScalarType | None) -> None:
    """Infer the mean over `dim`. Raises RuntimeError unless input (or `dtype`) is floating or complex."""
    computed_dtype = self.dtype if dtype is None else dtype
    if not (computed_dtype.is_floating_point or computed_dtype.is_complex):
        whose = "Input" if dtype is None else "Optional"
        raise RuntimeError(
            f"mean(): could not infer output dtype. {whose} dtype must be either a floating point or complex "
            f"dtype. Got: {computed_dtype.scalar_name}"
        )
    dims, out_spec = reduced_dims(dim, self.ndim), meta.maybe_get_output()
    out = computed_dtype if out_spec is None or dtype is not None else out_spec.dtype
    if not (out.is_floating_point or out.is_complex):
        raise RuntimeError(
            f"result type {computed_dtype.scalar_name} can't be cast to the desired output type {out.scalar_name}"
        )
    _set_reduced(meta, self, dims, keepdim, out)
    meta.rule = _reducing_alike(self, dim, dims, keepdim, out)


def mean_all(meta: MetaBase, self: TensorSpec, dtype: ScalarType | None) -> None:
    """Infer the mean over everything."""
    mean_dim(meta, self, None, False, dtype)


def check_nonempty(name: str, self: TensorSpec, dims: Sequence[int]) -> None:
    """Raise an error for minima and maxima over a reduced dimension without elements."""
    for d in dims:
        if self.ndim and self.sizes[d] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


def _check_same_out(meta: MetaBase, self: TensorSpec) -> None:
    out_spec = meta.maybe_get_output()
    if out_spec is not None and out_spec.dtype is not self.dtype:
        raise RuntimeError(
            f"Expected the dtype for input and out to match, but got {self.dtype.scalar_name} for input's "
            f"dtype and {out_spec.dtype.scalar_name} for out's dtype."
        )


def extremum(meta: MetaBase, self: TensorSpec, dim: Dims, keepdim: bool) -> None:
    """Infer ``amax`` or ``amin`` over `dim`, over all dimensions if it is empty."""
    _check_same_out(meta, self)
    dims = reduced_dims(dim, self.ndim)
    if self.numel == 0:
        if dim is None or (not isinstance(dim, int) and len(dim) == 0):
            raise RuntimeError(
                f"{meta.name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                "reduction dim with the 'dim' argument."
            )
        for unwrapped, d in zip((dim,) if isinstance(dim, int) else dim, dims, strict=True):
            if self.ndim and self.sizes[d] == 0:
                raise IndexError(f"{meta.name}(): Expected reduction dim {unwrapped} to have non-zero size.")
    _set_reduced(meta, self, dims, keepdim, self.dtype)


def extremum_all(meta: MetaBase, self: TensorSpec) -> None:
    """Infer ``max`` or ``min`` over all dimensions."""
    if self.numel == 0:
        extremum(meta, self, (), False)
    meta.casts = ("result",)
    _set_reduced(meta, self, reduced_dims((), self.ndim), False, self.dtype)


def aminmax(meta: MetaBase, self: TensorSpec, dim: int | None, keepdim: bool) -> None:
    """Infer the minimum and maximum in one pass."""
    if dim is None and self.numel == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    dims = reduced_dims(dim, self.ndim)
    check_nonempty(meta.name, self, dims)
    _set_reduced(meta, self, dims, keepdim, self.dtype)
    meta.set_output_raw_strided(1, reduced_shape(self.sizes, dims, keepdim), dtype=self.dtype)


def hash_tensor(meta: MetaBase, self: TensorSpec, dim: Sequence[int], keepdim: bool, mode: int) -> None:
    """Infer the XOR of the bits of all elements, as uint64, over `dim`, or over everything if `dim` is empty."""
    dims = reduced_dims(dim, self.ndim)
    if mode != 0:
        raise RuntimeError(f"Unknown hash_tensor mode: {mode}")
    if self.numel == 0:
        if len(dim) == 0:
            raise RuntimeError(
                "hash_tensor: Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        for d in dims:
            if self.ndim and self.sizes[d] == 0:
                raise IndexError(f"hash_tensor: Expected reduction dim {d} to have non-zero size.")
    out_spec = meta.maybe_get_output()
    if out_spec is not None and out_spec.dtype is not uint64:
        raise RuntimeError(f"Expected result to be of dtype uint64, but got {out_spec.dtype.scalar_name}")
    _set_reduced(meta, self, dims, keepdim, uint64)


def _refuse_complex(meta: MetaBase, self: TensorSpec) -> None:
    if self.dtype.is_complex:
        raise RuntimeError(f"{meta.name}(): does not support complex input")


def extremum_with_index(meta: MetaBase, self: TensorSpec, dim: int, keepdim: bool) -> None:
    """Infer ``max`` or ``min`` along `dim`: values, and the first index of each."""
    dims = (wrap_dim(dim, self.ndim),) if self.ndim else reduced_dims(dim, 0)
    check_nonempty(meta.name, self, dims)
    _refuse_complex(meta, self)
    _set_reduced(meta, self, dims, keepdim, self.dtype)
    meta.set_output_raw_strided(1, reduced_shape(self.sizes, dims, keepdim), dtype=int64)


def index_of_extremum(meta: MetaBase, self: TensorSpec, dim: int | None, keepdim: bool) -> None:
    """Infer ``argmax`` or ``argmin``: the first index along `dim`, or in the flattened input if it is None."""
    _refuse_complex(meta, self)
    if self.dtype is bool_:
        raise RuntimeError(f"{meta.name}(): does not support bool input")
    dims = reduced_dims(dim, self.ndim)
    if dim is not None:
        check_nonempty(meta.name, self, dims)
    elif self.numel == 0:
        raise IndexError(f"{meta.name}(): Expected reduction dim to be specified for input.numel() == 0.")
    _set_reduced(meta, self, dims, keepdim, int64)


def truth_dims(meta: MetaBase, self: TensorSpec, dim: Sequence[int] | None, keepdim: bool) -> None:
    """Infer ``any`` or ``all``: bool, but uint8 for uint8. An empty list of dimensions reduces nothing."""
    out_spec = meta.maybe_get_output()
    if out_spec is not None and out_spec.dtype not in (bool_, uint8):
        raise RuntimeError(
            f"{meta.name} only supports bool tensor for result, got: {out_spec.dtype.scalar_name}"
        )
    dims = () if dim is not None and len(dim) == 0 else reduced_dims(dim, self.ndim)
    out = uint8 if self.dtype is uint8 else bool_
    _set_reduced(meta, self, dims, keepdim, out if out_spec is None else out_spec.dtype)


def truth_dim(meta: MetaBase, self: TensorSpec, dim: int, keepdim: bool) -> None:
    """Infer ``any`` or ``all`` along one dimension."""
    truth_dims(meta, self, (dim,), keepdim)


def truth_all(meta: MetaBase, self: TensorSpec) -> None:
    """Infer ``any`` or ``all`` over all dimensions."""
    truth_dims(meta, self, None, False)


def var_correction(
    meta: MetaBase, self: TensorSpec, dim: Dims, correction: NumberKind | None, keepdim: bool
) -> None:
    """Infer the variance over `dim` with a correction of the degrees of freedom; real for complex inputs."""
    if not (self.dtype.is_floating_point or self.dtype.is_complex):
        name = meta.name if meta.name.endswith("_mean") else "std and var"
        raise RuntimeError(f"{name} only support floating point and complex dtypes")
    if correction is complex:
        raise RuntimeError("value cannot be converted to type double without overflow")
    dims, out_spec = reduced_dims(dim, self.ndim), meta.maybe_get_output()
    real = self.dtype.to_real()
    out = real if out_spec is None or out_spec.dtype.is_complex else out_spec.dtype
    if not out.is_floating_point:
        raise RuntimeError(
            f"result type {real.scalar_name} can't be cast to the desired output type {out.scalar_name}"
        )
    meta.casts = ("result", "mean") if out is real else ()  # a complex out= receives the real variance
    _set_reduced(meta, self, dims, keepdim, out)


def var_dim(meta: MetaBase, self: TensorSpec, dim: Dims, unbiased: bool, keepdim: bool) -> None:
    """Infer `var_correction` with a correction of 1 or 0."""
    meta.extra["correction"] = int(unbiased)
    var_correction(meta, self, dim, None, keepdim)


def var_all(meta: MetaBase, self: TensorSpec, unbiased: bool) -> None:
    """Infer the variance of everything."""
    var_dim(meta, self, None, unbiased, False)


def var_mean_correction(
    meta: MetaBase, self: TensorSpec, dim: Dims, correction: NumberKind, keepdim: bool
) -> None:
    """Infer the variance (or standard deviation) and mean."""
    var_correction(meta, self, dim, correction, keepdim)
    meta.set_output_raw_strided(1, meta.outputs[0].sizes, dtype=self.dtype)


def logsumexp(meta: MetaBase, self: TensorSpec, dim: Dims, keepdim: bool) -> None:
    """Infer log(sum(exp(self))) over `dim`; integral inputs give the default dtype."""
    floating = self.dtype.is_floating_point or self.dtype.is_complex
    meta.casts, out_spec = ("result",), meta.maybe_get_output()
    if out_spec is not None and not (out_spec.dtype.is_floating_point or out_spec.dtype.is_complex):
        raise RuntimeError(
            f"logsumexp(): Expected floating point type for result tensor, but got: {out_spec.dtype.scalar_name}"
        )
    _set_reduced(
        meta, self, reduced_dims(dim, self.ndim), keepdim, self.dtype if floating else get_default_dtype()
    )


def _vector_norm(meta: MetaBase, self: TensorSpec, ord: str, dim: Sequence[int], keepdim: bool) -> None:
    """Infer a norm of real elements in their own dtype."""
    if ord not in ("0", "1", "2", "inf", "-inf"):
        raise RuntimeError(
            f'_vector_norm: expected an order of "0", "1", "2", "inf" or "-inf", but got {ord!r}'
        )
    if not self.dtype.is_floating_point:
        raise RuntimeError(f"_vector_norm: expected a floating dtype, but got {self.dtype.scalar_name}")
    _set_reduced(meta, self, reduced_dims(dim, self.ndim), keepdim, self.dtype)


def _check_scalar_type(meta: MetaBase, index: int, dtype: ScalarType) -> None:
    out_spec = meta.maybe_get_output(index)
    if out_spec is not None and out_spec.dtype is not dtype:
        raise RuntimeError(f"expected scalar_type {dtype.scalar_name} but found {out_spec.dtype.scalar_name}")


def logcumsumexp(meta: MetaBase, self: TensorSpec, dim: int) -> None:
    """Infer logarithms of the prefix sums of exponentials along `dim`."""
    _check_scalar_type(meta, 0, self.dtype)
    meta.extra["dim"] = wrap_dim(dim, self.ndim)
    meta.set_output_raw_strided(0, self.sizes, dtype=self.dtype)


def running_extremum(meta: MetaBase, self: TensorSpec, dim: int) -> None:
    """Infer ``cummax`` and ``cummin``: the running maximum or minimum along `dim`, and its index."""
    _check_scalar_type(meta, 0, self.dtype)
    _check_scalar_type(meta, 1, int64)
    meta.extra["dim"] = wrap_dim(dim, self.ndim)
    meta.set_output_raw_strided(0, self.sizes, dtype=self.dtype)
    meta.set_output_raw_strided(1, self.sizes, dtype=int64)


def cumsum(meta: MetaBase, self: TensorSpec, dim: int, dtype: ScalarType | None) -> None:
    """Infer prefix sums along `dim`; the dtype is that of a sum, in place the input's own."""
    meta.extra["dim"] = wrap_dim(dim, self.ndim)
    out_spec = meta.maybe_get_output()
    out = sum_dtype(self, dtype if dtype is not None or out_spec is None else out_spec.dtype)
    meta.set_output_raw_strided(0, self.sizes, dtype=out)
