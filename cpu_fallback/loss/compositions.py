"""Losses and distances that are compositions elsewhere, computed at once on small or plain arrays of one wide dtype.

What a kernel does not do it leaves to the composition by raising `ComposedError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from numpy._core.umath import clip

from ...dispatch.plans.host_compositions import ComposedError
from ...dispatch.structured.meta.loss import MEAN, NONE
from ...dispatch.structured.stub import KernelFactory, PlannedKernel, StructuredCall, register_stub
from ..elementwise.chains import Chain, Maker, chained
from ..indexing.index_bounds import is_within
from ..undispatched import np
from .loss import all_classes

Array = np.ndarray[Any, Any]

FEW = 32
"""Rows up to which the differences of all pairs are taken by a table."""


def scalar(value: Callable[..., Any]) -> PlannedKernel:
    """The kernel of a result of no dimensions."""

    def into(out: Array, *inputs: Any) -> None:
        out[...] = value(*inputs)

    return PlannedKernel(into, quiet=True)


def array(value: Callable[..., Array]) -> PlannedKernel:
    """The kernel of a new array."""
    return PlannedKernel(lambda out, *inputs: np.copyto(out, value(*inputs)), value, quiet=True)


def huber(delta: Array) -> Chain:
    """Half the square of the gap up to `delta`, beyond it what grows on with the slope there."""
    low, half, two = np.asarray(-delta), np.array(0.5, delta.dtype), np.array(2, delta.dtype)

    def chain(out: Array, kept: Array, a: Array, b: Array) -> None:
        np.subtract(a, b, out)
        clip(out, low, delta, out=kept)
        np.multiply(kept, half, kept)
        np.subtract(out, kept, out)
        np.multiply(out, kept, out)
        np.multiply(out, two, out)

    return chain


def smooth_l1(beta: Array) -> Chain:
    """The same over `beta`."""
    low, half, two = np.asarray(-beta), np.array(0.5, beta.dtype), np.array(2, beta.dtype)

    def chain(out: Array, kept: Array, a: Array, b: Array) -> None:
        np.subtract(a, b, out)
        clip(out, low, beta, out=kept)
        np.multiply(kept, half, kept)
        np.subtract(out, kept, out)
        np.divide(kept, beta, kept)
        np.multiply(out, kept, out)
        np.multiply(out, two, out)

    return chain


def gap_loss(make: Maker) -> KernelFactory:
    """The factory of a loss of two tensors of one geometry and a positive number, reduced."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, reduction = call.args["self"], call.args["reduction"]
        each = call._replace(outputs=(spec,))
        kernel = chained(each, make, spec.np_dtype)
        number = len(call.runtime) - 1

        def checked(function: Callable[..., Any]) -> Callable[..., Any]:
            def run(*inputs: Any) -> Any:
                if not inputs[-1] > 0:
                    raise ComposedError
                return function(*inputs)

            return run

        if number != 2:
            raise TypeError(f"{call.name}: expected two tensors and a number, got {call.runtime}")
        if reduction == NONE:
            fresh = None if kernel.fresh is None else checked(kernel.fresh)
            return PlannedKernel(checked(kernel.into), fresh, kernel.quiet)
        count = spec.np_dtype.type(spec.numel)

        def reduced(*inputs: Any) -> Any:
            loss = np.empty(spec.sizes, spec.np_dtype)
            kernel.into(loss, *inputs)
            total = np.add.reduce(loss.reshape(-1))
            return total / count if reduction == MEAN else total

        return scalar(checked(reduced))

    return factory


def _reduced(losses: Array, reduction: int, ones: Array) -> Any:
    """A small line of losses, or its mean or sum."""
    if reduction == NONE:
        return losses
    total = losses.dot(ones)
    return total / losses.dtype.type(len(ones)) if reduction == MEAN else total


def _of_rows(call: StructuredCall, compute: Callable[..., Any]) -> PlannedKernel:
    return array(compute) if call.outputs[0].ndim else scalar(compute)


def multi_margin(call: StructuredCall) -> PlannedKernel:
    """The mean over other classes of max(0, margin - x[target] + x[class]) ** p."""
    spec, reduction = call.args["self"], call.args["reduction"]
    rows, classes = spec.sizes
    starts = np.arange(0, rows * classes, classes)
    ones, units = np.ones(classes, spec.np_dtype), np.ones(rows, spec.np_dtype)
    # The weight comes last, after those of the two numbers that are no defaults.
    names = call.runtime[2:-1]
    given = {name: i for i, name in enumerate(names)}
    p_at, margin_at = given.get("p"), given.get("margin")
    fixed_p, fixed_margin = call.args["p"], call.args["margin"]
    zero, real = np.zeros((), spec.np_dtype), spec.np_dtype.type

    def compute(x: Array, target: Array, *rest: Any) -> Any:
        p = fixed_p if p_at is None else rest[p_at]
        margin = fixed_margin if margin_at is None else rest[margin_at]
        if p not in (1, 2) or not all_classes(target, classes):
            raise ComposedError
        own = target + starts
        gap = x - x.take(own).reshape(rows, 1)
        np.add(gap, real(margin), gap)
        np.maximum(gap, zero, out=gap)
        if p == 2:
            np.multiply(gap, gap, gap)
        weight = rest[-1]
        if weight is not None:
            np.multiply(gap, weight.take(target).reshape(rows, 1), gap)
        gap.put(own, 0)
        losses = gap.dot(ones)
        np.divide(losses, classes, losses)
        return _reduced(losses, reduction, units)

    return _of_rows(call, compute)


def cross_entropy(call: StructuredCall) -> PlannedKernel:
    """log(sum(exp(x))) - x[target] along dimension 1 of three or more."""
    spec, reduction = call.args["self"], call.args["reduction"]
    n, c, *rest = spec.sizes
    positions = math.prod(rest)
    shape, kept = (n, c, positions), (n, positions)
    starts = np.arange(n)[:, None] * (c * positions) + np.arange(positions)
    units = np.ones(n * positions, spec.np_dtype)
    sizes = call.outputs[0].sizes

    def compute(x: Array, target: Array, weight: None, label_smoothing: float) -> Any:
        if label_smoothing or not all_classes(target, c):
            raise ComposedError
        lines = x.reshape(shape)
        lines = np.subtract(lines, np.maximum.reduce(lines, 1, None, None, True))
        own = target.reshape(kept) * positions
        np.add(own, starts, own)
        picked = lines.take(own)
        np.exp(lines, lines)
        losses = np.add.reduce(lines, 1)
        np.log(losses, losses)
        np.subtract(losses, picked, losses)
        made = _reduced(losses.reshape(-1), reduction, units)
        return made.reshape(sizes) if reduction == NONE else made

    return _of_rows(call, compute)


def multilabel_margin(call: StructuredCall) -> PlannedKernel:
    """The hinges of every class against each right one, which are those before a row's first negative one."""
    spec, reduction = call.args["self"], call.args["reduction"]
    rows, classes = spec.sizes
    starts = np.arange(0, rows * classes, classes).reshape(rows, 1)
    ones, units = np.ones(classes * classes, spec.np_dtype), np.ones(rows, spec.np_dtype)
    zero, one = np.zeros((), spec.np_dtype), np.ones((), spec.np_dtype)
    lines = (rows, classes * classes)

    def compute(x: Array, target: Array) -> Any:
        valid = np.logical_and.accumulate(np.greater_equal(target, 0), 1)
        flat = np.multiply(target, valid)
        if flat.item(flat.argmax()) >= classes:
            raise ComposedError
        np.add(flat, starts, flat)
        wrong = np.ones((rows, classes), np.bool_)
        wrong.reshape(-1)[flat[valid]] = False
        gaps = x[:, None, :] - x.take(flat)[:, :, None]
        np.add(gaps, one, gaps)
        np.maximum(gaps, zero, out=gaps)
        counted = np.logical_and(valid[:, :, None], wrong[:, None, :])
        losses = np.where(counted, gaps, zero).reshape(lines).dot(ones)
        np.divide(losses, classes, losses)
        return _reduced(losses, reduction, units)

    return _of_rows(call, compute)


def cosine_similarity(call: StructuredCall) -> PlannedKernel:
    """The product of both over their lengths, which are at least `eps`: in float64, where no square overflows."""
    dim, out_np = call.args["dim"], call.outputs[0].np_dtype

    def compute(x1: Array, x2: Array, eps: float) -> Any:
        a, b = x1.astype(np.float64), x2.astype(np.float64)
        made = np.vecdot(a, b, axis=dim)
        for x in (a, b):
            length = np.sqrt(np.vecdot(x, x, axis=dim))
            made = made / np.maximum(length, eps)
        return made.astype(out_np)

    return _of_rows(call, compute)


def unpooling(rank: int) -> KernelFactory:
    """Zeros with each element at its place in its plane; of several for one the last."""

    def factory(call: StructuredCall) -> PlannedKernel:
        spec, out_spec = call.args["self"], call.outputs[0]
        volume = math.prod(out_spec.sizes[-rank:])
        planes = math.prod(spec.sizes[:-rank])
        starts = (np.arange(planes) * volume).reshape(planes, 1)
        lines, sizes, np_dtype = (planes, spec.numel // planes), out_spec.sizes, out_spec.np_dtype

        def compute(x: Array, places: Array) -> Array:
            if not is_within(places, volume):
                raise ComposedError
            made = np.zeros(sizes, np_dtype)
            made.put(places.reshape(lines) + starts, x)
            return made

        return array(compute)

    return factory


FACTORIES: dict[str, KernelFactory] = {
    "cross_entropy_loss": cross_entropy,
    "huber_loss": gap_loss(huber),
    "smooth_l1_loss": gap_loss(smooth_l1),
    "max_unpool2d": unpooling(2),
    "max_unpool3d": unpooling(3),
    "multi_margin_loss": multi_margin,
    "multilabel_margin_loss": multilabel_margin,
    "cosine_similarity": cosine_similarity,
}

for _name, _factory in FACTORIES.items():
    register_stub(f"{_name}_at_once_stub", "cpu", _factory)
