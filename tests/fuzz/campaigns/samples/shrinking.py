"""A case made smaller: fewer arguments, fewer elements, plainer memory, plainer numbers."""

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from .values import array_of_tensor, contiguous, new_tensor, put, tensor_places

Case = dict[str, Any]


def smaller(case: Case) -> Iterator[Case]:
    """Yield candidates, the largest reductions first; none is larger than the case."""
    for name in list(case["named"]):
        again = copy.deepcopy(case)
        del again["named"][name]
        yield again
    if len(case["arguments"]) > 1:
        again = copy.deepcopy(case)
        again["arguments"].pop()
        yield again
    if case["backward"]:
        again = copy.deepcopy(case)
        again["backward"] = False
        for _, value in tensor_places(again):
            value.pop("grad", None)
        yield again
    if case["device"] != "cpu":
        yield copy.deepcopy(case) | {"device": "cpu"}
    yield from _fewer_elements(case)
    yield from _plainer_tensors(case)


def _fewer_elements(case: Case) -> Iterator[Case]:
    found = tensor_places(case)
    for old in sorted({n for _, value in found for n in value["tensor"][1]}, reverse=True):
        for new in dict.fromkeys((1, 2, old // 2, old - 1)):
            if 0 < new < old:
                again = copy.deepcopy(case)
                for path, value in tensor_places(again):
                    if old in value["tensor"][1]:
                        _cut(again, path, value, [new if n == old else n for n in value["tensor"][1]])
                yield again
    for path, value in found:
        for dim, old in enumerate(value["tensor"][1]):
            if old > 1:
                again = copy.deepcopy(case)
                sizes = list(value["tensor"][1])
                sizes[dim] = 1
                _cut(again, path, value, sizes)
                yield again


def _cut(case: Case, path: tuple[Any, ...], value: dict[str, Any], sizes: list[int]) -> None:
    """Keep only the first elements, in contiguous memory."""
    values = array_of_tensor(case, value)[tuple(slice(n) for n in sizes)]
    _set(case, path, value, values)


def _set(case: Case, path: tuple[Any, ...], value: dict[str, Any], values: np.ndarray) -> None:
    new = new_tensor(case, case["storages"][value["tensor"][0]][0], values)
    if value.get("grad"):
        new["grad"] = True
    put(case, path, new)


def _plainer_tensors(case: Case) -> Iterator[Case]:
    for path, value in tensor_places(case):
        values = array_of_tensor(case, value)
        name = case["storages"][value["tensor"][0]][0]
        _, sizes, strides, offset = value["tensor"]
        if strides != contiguous(sizes) or offset:
            again = copy.deepcopy(case)
            _set(again, path, value, values)
            yield again
        if name not in ("float32", "int64", "bool"):
            again = copy.deepcopy(case)
            new = new_tensor(again, "int64" if values.dtype.kind in "iu" else "float32", values.real)
            put(again, path, new | ({"grad": True} if value.get("grad") else {}))
            yield again
        if values.size and not np.array_equal(values, np.ones_like(values)):
            again = copy.deepcopy(case)
            _set(again, path, value, np.ones_like(values))
            yield again


def without_unused_storages(case: Case) -> Case:
    """Return the case with only the storages that its tensors use; its lists are not shared."""
    again: Case = json.loads(json.dumps(case))
    used = sorted({value["tensor"][0] for _, value in tensor_places(again)})
    again["storages"] = [case["storages"][n] for n in used]
    for _, value in tensor_places(again):
        value["tensor"][0] = used.index(value["tensor"][0])
    return again
