"""Losses over ndarrays; 16-bit floats compute in float32."""

from __future__ import annotations

import math
from typing import Any

from ...dispatch.structured.meta.loss import MEAN, NONE
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.float_errors import quietly
from ..indexing.index_bounds import own
from ..plain_numpy import np
from ..reduction.sums import SMALL, pairwise_sum
from ..widen import compute_np


def _chosen(target: Any, weight: Any, classes: int, ignore_index: int, np_dtype: Any) -> tuple[Any, Any]:
    """Return each sample's class and weight, both 0 if ignored. Raise IndexError for a class out of range."""
    target = target.astype(np.int64, copy=False)
    counts = target != ignore_index
    index = np.where(counts, target, 0)
    outside = counts & ((index < 0) | (index >= classes))
    if outside.any():
        raise IndexError(f"Target {index[outside][0]} is out of bounds.")
    if weight is None or not classes:
        return index, counts.astype(np_dtype)
    return index, np.where(counts, weight.astype(np_dtype, copy=False)[index], np_dtype.type(0))


def _total(array: Any) -> Any:
    return pairwise_sum(array.reshape(-1), (0,), array.dtype)[0]


def nll_loss_forward(call: StructuredCall) -> PlannedKernel:
    """Compute -weight[target] * self[target] along the class axis, reduced; and the sum of the weights."""
    spec = call.args["self"]
    if not spec.dtype.is_floating_point:
        raise call.refuse(spec)
    np_dtype = compute_np(spec.dtype)
    reduction, ignore_index = call.args["reduction"], call.args["ignore_index"]
    axis = 0 if spec.ndim == 1 else 1
    classes = spec.sizes[axis]

    def into(out: Any, total_weight: Any, array: Any, target: Any, weight: Any) -> None:
        if spec.ndim == 1:
            target = target.reshape(())
        index, factor = _chosen(target, weight, classes, ignore_index, np_dtype)
        if index.size == 0 or classes == 0:
            picked = np.zeros(index.shape, np_dtype)
        else:
            picked = (
                np.take_along_axis(array, np.expand_dims(index, axis), axis)
                .astype(np_dtype)
                .reshape(index.shape)
            )
        loss = np.where(factor == 0, np_dtype.type(0), -picked * factor)
        if reduction == NONE:
            np.copyto(out, loss.reshape(out.shape), casting="unsafe")
            total_weight.fill(0)
            return
        weights = _total(np.asarray(factor))
        total = _total(np.asarray(loss))
        np.copyto(out, total / weights if reduction == MEAN else total, casting="unsafe")
        np.copyto(total_weight, weights, casting="unsafe")

    if not _is_plain(call):
        return PlannedKernel(quietly(into))
    positions = math.prod(spec.sizes[2:])
    count = spec.sizes[0] * positions
    starts = np.arange(spec.sizes[0])[:, None] * (classes * positions) + np.arange(positions)
    starts = starts.reshape(call.args["target"].sizes)

    def picked_from(array: Any, target: Any) -> Any:
        return array.take(target + starts if positions == 1 else target * positions + starts)

    if reduction == NONE:

        def into_each(out: Any, total_weight: Any, array: Any, target: Any, weight: Any) -> None:
            if not all_classes(target, classes):
                into(out, total_weight, array, target, weight)
                return
            np.negative(picked_from(array, target), out)
            total_weight.fill(0)

        def first(array: Any, target: Any, weight: Any) -> Any:
            if all_classes(target, classes):
                picked = picked_from(array, target)
                return np.negative(picked, picked)
            out = np.empty(call.outputs[0].sizes, np_dtype)
            into(out, np.empty((), np_dtype), array, target, weight)
            return out

        return PlannedKernel(into_each, quiet=True, first=first)
    ones = np.ones(count, np_dtype) if count <= SMALL else None
    scale = float(-count if reduction == MEAN else -1)

    def into_unweighted(out: Any, total_weight: Any, array: Any, target: Any, weight: Any) -> None:
        if not all_classes(target, classes):
            into(out, total_weight, array, target, weight)
            return
        picked = picked_from(array, target)
        if picked.ndim != 1:
            picked = picked.reshape(-1)
        total = picked.dot(ones) if ones is not None else np.add.reduce(picked)
        # The quotient of Python's floats rounds to that of the dtype; to fill with NumPy's own takes twice the time.
        out.fill(float(total) / scale)
        total_weight.fill(count)

    return PlannedKernel(into_unweighted, quiet=True)


def _is_plain(call: StructuredCall) -> bool:
    """Return True if a loss of (N, C, ...) is unweighted, not of a 16-bit dtype, and ignores no valid class."""
    spec = call.args["self"]
    ignores = spec.ndim > 1 and 0 <= call.args["ignore_index"] < spec.sizes[1]
    return bool(
        spec.ndim > 1
        and call.args["weight"] is None
        and spec.np_dtype == compute_np(spec.dtype)
        and not ignores
    )


def all_classes(target: Any, classes: int) -> bool:
    """Return True if there are targets, and each is a valid class."""
    if target.size == 0:
        return False
    unsigned = target.view(np.uint64) if target.dtype == np.int64 else target
    if unsigned.size <= SMALL and unsigned.ndim:
        return bool(unsigned.item(unsigned.argmax()) < classes)
    return bool(np.maximum.reduce(unsigned, axis=None) < classes)


def check_classes(target: Any, classes: int, ignore_index: int) -> None:
    """Raise IndexError for a target that is no class, and is not ignored."""
    if not all_classes(target, classes):
        _chosen(target, None, classes, ignore_index, np.dtype(np.float32))


def nll_loss_backward(call: StructuredCall) -> PlannedKernel:
    """Compute -weight[target] * grad at the target's class, zero elsewhere."""
    spec = call.args["self"]
    np_dtype = compute_np(spec.dtype)
    reduction, ignore_index = call.args["reduction"], call.args["ignore_index"]
    axis = 0 if spec.ndim == 1 else 1
    classes = spec.sizes[axis]

    def into(out: Any, grad: Any, array: Any, target: Any, weight: Any, total_weight: Any) -> None:
        if spec.ndim == 1:
            target, grad = target.reshape(()), grad.reshape(())
        index, factor = _chosen(target, weight, classes, ignore_index, np_dtype)
        out.fill(0)
        if index.size == 0 or classes == 0:
            return
        values = np.where(factor == 0, np_dtype.type(0), -factor * grad.astype(np_dtype))
        if reduction == MEAN:
            values = np.where(factor == 0, values, values / total_weight.astype(np_dtype))
        where = np.expand_dims(index, axis)
        np.put_along_axis(out, where, np.reshape(values, where.shape).astype(out.dtype), axis)

    is_whole = call.outputs[0].is_contiguous
    if not _is_plain(call) or (spec.ndim > 2 and not is_whole):
        return PlannedKernel(quietly(into))
    positions = math.prod(spec.sizes[2:])
    count = spec.sizes[0] * positions
    rows = np.arange(spec.sizes[0])
    starts = rows[:, None] * (classes * positions) + np.arange(positions)
    starts = starts.reshape(call.args["target"].sizes)
    scale = float(np_dtype.type(-1 / max(count, 1) if reduction == MEAN else -1))

    def into_unweighted(out: Any, grad: Any, array: Any, target: Any, weight: Any, total_weight: Any) -> None:
        if not all_classes(target, classes):
            into(out, grad, array, target, weight, total_weight)
            return
        out.fill(0)
        # In Python's floats a product of two float32 is exact: it is rounded once, where it is stored.
        values = grad.item() * scale if grad.ndim == 0 else grad * scale
        if is_whole:
            # At positions of the flat array, in half of the time that an index for each dimension takes.
            out.put(target + starts if positions == 1 else target * positions + starts, values)
        else:
            out[rows, own(target)] = values

    return PlannedKernel(into_unweighted, quiet=True)


def _difference(call: StructuredCall) -> tuple[Any, Any]:
    """Return the compute dtype and whether casts are unnecessary; raise NotImplementedError for other dtypes."""
    assert call.iterator is not None
    common = call.iterator.common_dtype
    if not common.is_floating_point:
        raise NotImplementedError(f"\"mse_{call.device.type}\" not implemented for '{common.scalar_name}'")
    return compute_np(common), call.args["self"].np_dtype == call.args["target"].np_dtype == compute_np(
        common
    )


def mse_loss(call: StructuredCall) -> PlannedKernel:
    """Compute (self - target) ** 2, its mean or its sum."""
    np_dtype, plain = _difference(call)
    reduction = call.args["reduction"]

    def squares(a: Any, b: Any) -> Any:
        if not plain:
            a, b = a.astype(np_dtype), b.astype(np_dtype)
        gap = np.subtract(a, b)
        return np.square(gap, gap) if gap.ndim else np.square(gap)

    if reduction == NONE:
        return PlannedKernel(quietly(lambda out, a, b: np.copyto(out, squares(a, b), casting="unsafe")))

    def into(out: Any, a: Any, b: Any) -> None:
        flat = np.asarray(squares(a, b)).ravel("K")
        total = np.add.reduce(flat)
        np.copyto(out, total / np_dtype.type(flat.size) if reduction == MEAN else total, casting="unsafe")

    return PlannedKernel(quietly(into))


def mse_loss_backward(call: StructuredCall) -> PlannedKernel:
    """Compute 2 * (self - target) * grad."""
    np_dtype, _ = _difference(call)
    mean = call.args["reduction"] == MEAN
    factor = np_dtype.type(2.0 / max(math.prod(call.outputs[0].sizes), 1) if mean else 2.0)

    def into(out: Any, grad: Any, a: Any, b: Any) -> None:
        gap = a.astype(np_dtype, copy=False) - b.astype(np_dtype, copy=False)
        np.copyto(out, gap * (grad.astype(np_dtype, copy=False) * factor), casting="unsafe")

    return PlannedKernel(quietly(into))


register_stub("nll_loss_forward_stub", "cpu", nll_loss_forward)
register_stub("nll_loss_backward_stub", "cpu", nll_loss_backward)
register_stub("mse_loss_stub", "cpu", mse_loss)
register_stub("mse_loss_backward_stub", "cpu", mse_loss_backward)
