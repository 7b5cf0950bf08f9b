"""Host kernels of losses and of a similarity, on small or plain arrays of float32 or float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from numpy._core.umath import clip

from ...dispatch.structured.meta.loss import MEAN, NONE
from ...dispatch.structured.stub import (
    HostKernel,
    HostKernelFactory,
    StructuredCall,
    by_arguments,
    register_stub,
)
from ...runtime.float_errors import unwrapped
from ...runtime.scalar_type import float32, int64
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.chains import Chain, Maker, chained
from ..plain_numpy import np
from ..widen import FULL_FLOATS
from .loss import all_classes

Array = np.ndarray[Any, Any]

SMALL = 1 << 12
"""Elements up to which losses by classes, and similarities, have a kernel."""


def _is_full(*specs: TensorSpec) -> bool:
    """Return True if the tensors share one nonempty contiguous geometry of float32 or float64."""
    first = specs[0]
    plain = first.dtype in FULL_FLOATS and first.numel and first.ndim and first.is_contiguous
    return bool(plain) and all(spec is first for spec in specs)


def _kernel(
    spec: TensorSpec, sizes: Sequence[int], reduction: int, value: Callable[..., Array | None]
) -> HostKernel:
    """Return the kernel of `value`, which computes losses of these sizes, a reduced number, or None for the
    composite.
    """
    out_spec = TensorSpec.contiguous(tuple(sizes) if reduction == NONE else (), spec.dtype, spec.device)
    np_dtype = out_spec.np_dtype

    def number(*inputs: Any) -> Array | None:
        made = value(*inputs)
        return None if made is None else np.array(made, np_dtype)

    def into(out: Array, *inputs: Any) -> bool:
        made = value(*inputs)
        if made is None:
            return False
        np.copyto(out, made)
        return True

    return HostKernel((out_spec,), value if out_spec.ndim else number, into)


def huber(delta: Array) -> Chain:
    """Return the chain of the Huber loss: quadratic up to `delta`, linear beyond."""
    low, half, two = np.asarray(-delta), np.array(0.5, delta.dtype), np.array(2, delta.dtype)

    def chain(out: Array, scratch: Array, a: Array, b: Array) -> None:
        np.subtract(a, b, out)
        clip(out, low, delta, out=scratch)
        np.multiply(scratch, half, scratch)
        np.subtract(out, scratch, out)
        np.multiply(out, scratch, out)
        np.multiply(out, two, out)

    return chain


def smooth_l1(beta: Array) -> Chain:
    """Return the chain of the smooth L1 loss with `beta`."""
    low, half, two = np.asarray(-beta), np.array(0.5, beta.dtype), np.array(2, beta.dtype)

    def chain(out: Array, scratch: Array, a: Array, b: Array) -> None:
        np.subtract(a, b, out)
        clip(out, low, beta, out=scratch)
        np.multiply(scratch, half, scratch)
        np.subtract(out, scratch, out)
        np.divide(scratch, beta, scratch)
        np.multiply(out, scratch, out)
        np.multiply(out, two, out)

    return chain


def gap_loss(make: Maker) -> HostKernelFactory:
    """Return the factory of a reduced loss of two tensors of one geometry and a positive number."""

    def factory(call: StructuredCall) -> HostKernel | None:
        spec, target, reduction, number = call.args.values()
        if not _is_full(spec, target) or number is not float:
            return None
        each = TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
        kernel = chained(call._replace(outputs=(each,)), make, spec.np_dtype)
        fill, fresh = unwrapped(kernel.into), kernel.fresh
        if reduction == NONE:

            def into(out: Array, *inputs: Any) -> bool:
                if not inputs[-1] > 0:
                    return False
                fill(out, *inputs)
                return True

            def losses(*inputs: Any) -> Array | None:
                return fresh(*inputs) if inputs[-1] > 0 else None  # type: ignore[misc]

            return HostKernel((each,), None if fresh is None else losses, into)
        count = spec.np_dtype.type(spec.numel)

        def reduced(*inputs: Any) -> Any:
            if not inputs[-1] > 0:
                return None
            loss = np.empty(spec.sizes, spec.np_dtype)
            fill(loss, *inputs)
            total = np.add.reduce(loss.reshape(-1))
            return total / count if reduction == MEAN else total

        return _kernel(spec, (), reduction, reduced)

    return factory


def _reduced(losses: Array, reduction: int, ones: Array) -> Any:
    """Return a small vector of losses unreduced, or its mean or sum."""
    if reduction == NONE:
        return losses
    total = losses.dot(ones)
    return total / losses.dtype.type(len(ones)) if reduction == MEAN else total


def multi_margin(call: StructuredCall) -> HostKernel | None:
    """Compute the mean over other classes of max(0, margin - x[target] + x[class]) ** p, for a small matrix."""
    spec, target, fixed_p, fixed_margin, weight, reduction = call.args.values()
    if not _is_full(spec) or spec.ndim != 2 or spec.numel > SMALL or fixed_margin is complex:
        return None
    if target.dtype is not int64 or target.sizes != spec.sizes[:1]:
        return None
    if weight is not None and (weight.dtype is not spec.dtype or weight.sizes != spec.sizes[1:]):
        return None
    rows, classes = spec.sizes
    starts = np.arange(0, rows * classes, classes)
    ones, units = np.ones(classes, spec.np_dtype), np.ones(rows, spec.np_dtype)
    # The weight comes last, after those of the two numbers that are no defaults.
    names = call.runtime[2:-1]
    number_index = {name: i for i, name in enumerate(names)}
    p_at, margin_at = number_index.get("p"), number_index.get("margin")
    zero, real = np.zeros((), spec.np_dtype), spec.np_dtype.type

    def compute(x: Array, target: Array, *rest: Any) -> Any:
        p = fixed_p if p_at is None else rest[p_at]
        margin = fixed_margin if margin_at is None else rest[margin_at]
        if p not in (1, 2) or not all_classes(target, classes):
            return None
        own = target + starts
        gap = x - x.take(own).reshape(rows, 1)
        np.add(gap, real(margin), gap)
        np.fmax(gap, zero, out=gap)
        if p == 2:
            np.multiply(gap, gap, gap)
        weight = rest[-1]
        if weight is not None:
            np.multiply(gap, weight.take(target).reshape(rows, 1), gap)
        gap.put(own, 0)
        losses = gap.dot(ones)
        np.divide(losses, classes, losses)
        return _reduced(losses, reduction, units)

    return _kernel(spec, spec.sizes[:1], reduction, compute)


def cross_entropy(
    spec: TensorSpec,
    target: TensorSpec,
    weight: TensorSpec | None,
    reduction: int,
    ignore_index: int,
    label_smoothing: Any,
) -> HostKernel | None:
    """Compute log(sum(exp(x))) - x[target] along dimension 1 of three or more, of few elements and without weights."""
    if not _is_full(spec) or weight is not None or spec.ndim < 3 or spec.numel > SMALL:
        return None
    sizes = (spec.sizes[0], *spec.sizes[2:])
    if 0 <= ignore_index < spec.sizes[1] or target.dtype is not int64 or target.sizes != sizes:
        return None
    n, c, *rest = spec.sizes
    positions = math.prod(rest)
    shape, target_shape = (n, c, positions), (n, positions)
    starts = np.arange(n)[:, None] * (c * positions) + np.arange(positions)
    units = np.ones(n * positions, spec.np_dtype)

    def compute(x: Array, target: Array, weight: None, label_smoothing: float) -> Any:
        if label_smoothing or not all_classes(target, c):
            return None
        lines = x.reshape(shape)
        lines = np.subtract(lines, np.maximum.reduce(lines, 1, None, None, True))
        own = target.reshape(target_shape) * positions
        np.add(own, starts, own)
        picked = lines.take(own)
        np.exp(lines, lines)
        losses = np.add.reduce(lines, 1)
        np.log(losses, losses)
        np.subtract(losses, picked, losses)
        made = _reduced(losses.reshape(-1), reduction, units)
        return made.reshape(sizes) if reduction == NONE else made

    return _kernel(spec, sizes, reduction, compute)


def multilabel_margin(spec: TensorSpec, target: TensorSpec, reduction: int) -> HostKernel | None:
    """Compute the hinges of every class against each target class; a row's targets end at its first negative
    one.
    """
    if not _is_full(spec) or spec.ndim != 2 or spec.numel > SMALL:
        return None
    if target.dtype is not int64 or target.sizes != spec.sizes:
        return None
    rows, classes = spec.sizes
    starts = np.arange(0, rows * classes, classes).reshape(rows, 1)
    ones, units = np.ones(classes * classes, spec.np_dtype), np.ones(rows, spec.np_dtype)
    zero, one = np.zeros((), spec.np_dtype), np.ones((), spec.np_dtype)

    def compute(x: Array, target: Array) -> Any:
        valid = np.logical_and.accumulate(np.greater_equal(target, 0), 1)
        flat = np.multiply(target, valid)
        if flat.item(flat.argmax()) >= classes or target.item(target.argmin()) < -1:
            return None
        # Few classes are correct, and there is a hinge of each class against each of them.
        longest = int(np.count_nonzero(valid, 1).max())
        flat, valid = flat[:, :longest], valid[:, :longest]
        np.add(flat, starts, flat)
        wrong = np.ones((rows, classes), np.bool_)
        wrong.reshape(-1)[flat[valid]] = False
        gaps = x[:, None, :] - x.take(flat)[:, :, None]
        np.add(gaps, one, gaps)
        np.fmax(gaps, zero, out=gaps)
        counted = np.logical_and(valid[:, :, None], wrong[:, None, :])
        losses = np.where(counted, gaps, zero).reshape(rows, -1).dot(ones[: longest * classes])
        np.divide(losses, classes, losses)
        return _reduced(losses, reduction, units)

    return _kernel(spec, spec.sizes[:1], reduction, compute)


def cosine_similarity(x1: TensorSpec, x2: TensorSpec, dim: int, eps: Any) -> HostKernel | None:
    """Compute the dot product over both lengths, at least `eps` each; float64 prevents overflow of squares."""
    if x1 is not x2 or x1.dtype is not float32 or not 0 < x1.numel <= SMALL or not -x1.ndim <= dim < x1.ndim:
        return None
    sizes = [n for d, n in enumerate(x1.sizes) if d != dim % x1.ndim]
    out_np = x1.np_dtype

    def compute(x1: Array, x2: Array, eps: float) -> Any:
        if not eps >= 0:
            return None
        a, b = x1.astype(np.float64), x2.astype(np.float64)
        made = np.vecdot(a, b, axis=dim)
        for x in (a, b):
            length = np.sqrt(np.vecdot(x, x, axis=dim))
            made = made / np.maximum(length, eps)
        return made.astype(out_np)

    return _kernel(x1, sizes, NONE, compute)


HOST_KERNELS = {
    "cosine_similarity": by_arguments(cosine_similarity),
    "cross_entropy_loss": by_arguments(cross_entropy),
    "huber_loss": gap_loss(huber),
    "multi_margin_loss": multi_margin,
    "multilabel_margin_loss": by_arguments(multilabel_margin),
    "smooth_l1_loss": gap_loss(smooth_l1),
}

for _name, _factory in HOST_KERNELS.items():
    register_stub(f"{_name}_host_stub", "cpu", _factory)
