"""Variances and standard deviations, with the mean or without."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall
from ...runtime.float_errors import quietly
from ...runtime.scalar_type import float32
from ...runtime.tensor_spec import TensorSpec
from ..plain_numpy import copyto, np
from ..widen import FLOAT32, compute_np
from .blocks import over_everything, over_kept
from .line_reductions import line_square_sums, line_sums
from .reduced_call import register_in_order
from .small_variance import small_variance
from .sums import count_of, kept_sum


def moments_function(
    spec: TensorSpec, dims: tuple[int, ...], np_dtype: Any
) -> Callable[[Any], tuple[Any, Any]]:
    """Return a function from an array to the sum of squared deviations and the mean, with reduced dimensions
    kept.

    The sum takes two passes, and the second corrects for the rounding of the mean (Chan, Golub, LeVeque,
    1983).
    """
    size = np_dtype.type(count_of(spec, dims))
    own = float32 if np_dtype == FLOAT32 else spec.dtype
    contiguous = TensorSpec.contiguous(spec.sizes, own, spec.device)
    total = kept_sum(contiguous, dims, np_dtype)
    widens, complex_ = spec.np_dtype != np_dtype, np_dtype.kind == "c"
    subtract, square = np.subtract, np.square

    def moments(array: Any) -> tuple[Any, Any]:
        if widens:
            array = array.astype(np_dtype)
        mean = total(array) / size
        deviation = subtract(array, mean, order="C")
        residue = total(deviation)
        if complex_:
            squares = total(deviation * deviation.conj()).real
            return squares - (residue * residue.conj()).real / size.real, mean
        squares = total(square(deviation, deviation if array.ndim else None))
        return squares - residue * residue / size, mean

    return moments


def whole_moments(spec: TensorSpec, np_dtype: Any) -> Callable[[Any], tuple[Any, Any]] | None:
    """`moments_function` of everything: in blocks, or over one line; None for what has neither order in memory."""
    size = np_dtype.type(spec.numel)
    everything = over_everything(spec, np.add, np_dtype, prepares=True)
    if everything is None:
        if not spec.is_contiguous or not spec.numel:
            return None
        line = TensorSpec.contiguous((spec.numel,), spec.dtype, spec.device)
        of_line = moments_function(line, (0,), np_dtype)
        return lambda array: of_line(array.reshape(-1))
    if np_dtype.kind == "c":
        return None

    def moments(array: Any) -> tuple[Any, Any]:
        mean = everything(array) / size

        def sums(piece: Any) -> tuple[Any, Any]:
            deviation = piece - mean
            return line_sums(deviation), line_square_sums(deviation)

        residue, squares = everything(array, sums, 2)
        return squares - residue * residue / size, mean

    return moments


def variance(root: bool, with_mean: bool) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of ``var``, ``std``, ``var_mean`` and ``std_mean``."""

    def factory(call: StructuredCall) -> PlannedKernel:
        small = None if with_mean else small_variance(call, root)
        if small is not None:
            return small
        spec = call.args["self"]
        np_dtype = compute_np(spec.dtype)
        dims: tuple[int, ...] = call.extra["dims"]
        sizes = call.outputs[0].sizes
        count = count_of(spec, dims)
        fixed = call.extra.get("correction", 1)
        moments = moments_function(spec, dims, np_dtype)
        if len(dims) == spec.ndim > 0:
            moments = whole_moments(spec, np_dtype) or moments
        run_blocks = over_kept(spec, dims, call.outputs[0].ndim)
        every, isfinite = np.logical_and.reduce, cmath.isfinite

        def of_total(total: Any, freedom: Any) -> Any:
            spread = np.maximum(total, 0)
            spread = np.divide(spread, spread.dtype.type(max(freedom, 0)))
            return np.sqrt(spread) if root else spread

        def in_range(array: Any, total: Any, mean: Any, freedom: Any) -> tuple[Any, Any]:
            # Squares overflow long before their root does: in float64 those of float32 have room.
            # Results that are finite stay as they are, whatever others of the block are.
            if np_dtype != FLOAT32:
                total = np.where(np.isnan(total) & np.isfinite(mean), np.inf, total)
                return of_total(total, freedom), mean
            wide_total, wide_mean = moments_function(spec, dims, np.dtype(np.float64))(array)
            is_known = np.isfinite(total)
            spread = np.where(is_known, of_total(total, freedom), of_total(wide_total, freedom))
            return spread, np.where(np.isfinite(mean), mean, wide_mean)

        def compute(array: Any, correction: Any) -> tuple[Any, Any]:
            total, mean = moments(array)
            freedom = count - (fixed if correction is None else correction)
            if not (isfinite(total.item()) if total.size == 1 else every(np.isfinite(total), None)):
                return in_range(array, total, mean, freedom)
            return of_total(total, freedom), mean

        def into(out: Any, array: Any, correction: Any = None) -> None:
            if run_blocks is not None:
                run_blocks(lambda piece: compute(piece, correction)[:1], (out,), array)
                return
            spread, _ = compute(array, correction)
            copyto(out, spread.reshape(sizes), casting="unsafe")

        def into_both(out: Any, mean_out: Any, array: Any, correction: Any = None) -> None:
            if run_blocks is not None:
                run_blocks(lambda piece: compute(piece, correction), (out, mean_out), array)
                return
            spread, mean = compute(array, correction)
            copyto(out, spread.reshape(sizes), casting="unsafe")
            copyto(mean_out, mean.reshape(sizes), casting="unsafe")

        return PlannedKernel(quietly(into_both if with_mean else into))

    return factory


FACTORIES: dict[str, KernelFactory] = {
    "var_stub": variance(root=False, with_mean=False),
    "std_stub": variance(root=True, with_mean=False),
    "var_mean_stub": variance(root=False, with_mean=True),
    "std_mean_stub": variance(root=True, with_mean=True),
}
register_in_order(FACTORIES)
