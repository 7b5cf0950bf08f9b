"""Sorting, and selection by rank. Keys are unsigned integers in the order of sorting, as on the device.

NaN is above all numbers, -0.0 equals 0.0, and of equal elements the one with the lowest index comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ..runtime.scalar_type import bool_
from ..runtime.scalar_type import dtype as ScalarType

Lines = Callable[[Any], Any]


def ordered_keys(dtype: ScalarType, descending: bool = False) -> Lines:
    """The function from an array of a dtype to keys that order it; descending keys keep the order of equal ones."""
    word = np.dtype(f"u{dtype.itemsize}")
    sign = word.type(1 << (8 * dtype.itemsize - 1))
    signed = dtype is not bool_ and dtype.is_signed
    infinity = np.array(np.inf, dtype.np).view(word) if dtype.is_floating_point else None

    def keys(array: Any) -> Any:
        bits = np.ascontiguousarray(array).view(word)
        if infinity is not None:
            magnitude = bits & ~sign
            key = np.where(bits & sign, ~bits, bits | sign)
            key[magnitude == 0] = sign
            key[magnitude > infinity] = ~word.type(0)
        else:
            key = bits ^ sign if signed else bits
        return ~key if descending else key

    return keys


def check_ordered(call: StructuredCall) -> ScalarType:
    """The dtype of the input. Raises NotImplementedError for one without an order."""
    spec = call.args["self"]
    dtype: ScalarType = spec.dtype
    if dtype.is_complex or (dtype.is_floating_point and dtype.itemsize == 1):
        raise call.refuse(spec)
    return dtype


def over_lines(call: StructuredCall, run: Callable[[Any], Any]) -> PlannedKernel:
    """The kernel that gives `run` a matrix of lines, and is given a matrix of places in them: how many it likes."""
    spec = call.args["self"]
    dim: int | None = call.extra["dim"]

    def into(*data: Any) -> None:
        outs, array = data[:-1], data[-1]
        if not outs[0].size:
            return
        turned = array.reshape(1, -1) if dim is None or not spec.ndim else np.moveaxis(array, dim, -1)
        lines = turned.reshape(-1, turned.shape[-1])
        places = run(lines)
        found = np.take_along_axis(lines, places, 1)
        for out, result in zip(outs, (found, places), strict=False):
            if out.ndim == spec.ndim and spec.ndim:
                result = np.moveaxis(result.reshape(*turned.shape[:-1], -1), -1, dim)
            np.copyto(out, result.reshape(out.shape))

    return PlannedKernel(into)


def sort(call: StructuredCall) -> PlannedKernel:
    """All elements in order."""
    dtype = check_ordered(call)
    descending: bool = call.args["descending"]
    if dtype.itemsize <= 2 or not dtype.is_floating_point:
        keys = ordered_keys(dtype, descending)
        return over_lines(call, lambda lines: np.argsort(keys(lines), 1, kind="stable"))
    if not descending:
        return over_lines(call, lambda lines: np.argsort(lines, 1, kind="stable"))

    def backwards(lines: Any) -> Any:
        order = np.argsort(lines[:, ::-1], 1, kind="stable")
        return lines.shape[1] - 1 - order[:, ::-1]

    return over_lines(call, backwards)


def topk(call: StructuredCall) -> PlannedKernel:
    """The first `k`, found by a partition and then sorted."""
    keys_of = ordered_keys(check_ordered(call), call.args["largest"])
    # A number has one element, which is selected however few are wanted.
    k: int = call.args["k"] if call.args["self"].ndim else 1

    def first(lines: Any) -> Any:
        keys = keys_of(lines)
        if k == keys.shape[1]:
            return np.argsort(keys, 1, kind="stable")
        last = np.partition(keys, k - 1, 1)[:, k - 1 : k]
        before, equal = keys < last, keys == last
        wanted = k - before.sum(1, keepdims=True)
        before |= equal & (np.cumsum(equal, 1) <= wanted)
        places = np.nonzero(before)[1].reshape(-1, k)
        order = np.argsort(np.take_along_axis(keys, places, 1), 1, kind="stable")
        return np.take_along_axis(places, order, 1)

    return over_lines(call, first)


def of_rank(keys: Any, ranks: Any) -> Any:
    """The place of the element of a rank in each line, as a column; `ranks` a number or a column of them."""
    ranks = np.broadcast_to(ranks, (keys.shape[0], 1))
    different = np.unique(ranks)
    parted = np.partition(keys, different, 1)
    found = np.take_along_axis(parted, ranks, 1)
    turn = ranks - (keys < found).sum(1, keepdims=True)
    equal = keys == found
    return np.argmax(equal & (np.cumsum(equal, 1) == turn + 1), 1)[:, None]


def kthvalue(call: StructuredCall) -> PlannedKernel:
    """The element of one rank."""
    keys_of = ordered_keys(check_ordered(call))
    rank = call.args["k"] - 1
    return over_lines(call, lambda lines: of_rank(keys_of(lines), rank))


def median(call: StructuredCall) -> PlannedKernel:
    """The element of the middle rank: of all, or of those that are not NaN."""
    dtype = check_ordered(call)
    keys_of = ordered_keys(dtype)
    ignores_nan: bool = call.extra["ignores_nan"]
    if call.extra["dim"] is None and not call.args["self"].numel:
        # NaN, as a C compiler converts it to the dtype.
        whole = not dtype.is_floating_point and dtype.is_signed and dtype.itemsize >= 4
        least = np.iinfo(dtype.np).min if whole else 0
        value = np.nan if dtype.is_floating_point else least
        return PlannedKernel(lambda out, array: out.fill(value))

    def middle(lines: Any) -> Any:
        keys = keys_of(lines)
        n = keys.shape[1]
        if not dtype.is_floating_point:
            return of_rank(keys, (n - 1) // 2)
        missing = (keys == ~keys.dtype.type(0)).sum(1, keepdims=True)
        if ignores_nan:
            return of_rank(keys, np.maximum(n - missing - 1, 0) // 2)
        return of_rank(keys, np.where(missing, n - missing, (n - 1) // 2))

    return over_lines(call, middle)


for _stub, _factory in {
    "sort_stub": sort,
    "topk_stub": topk,
    "kthvalue_stub": kthvalue,
    "median_stub": median,
}.items():
    register_stub(_stub, "cpu", _factory)
