"""Mutations of a case's tensors: dtypes, sizes, strides, values, sharing.

Each takes the source of randomness and a case, which it changes, and gives whether it could.
"""

import random
from typing import Any

import numpy as np

from .values import argument_places, array_of_tensor, contiguous, new_tensor, numpy_dtype, put, tensor_places

DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "complex64", "complex128"),
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
)
LARGEST = 4096
ENLARGED = 1 << 18
"""Elements of a tensor past the thresholds from which kernels go by blocks, on threads, or by loops of LLVM's."""

Case = dict[str, Any]
Place = tuple[tuple[Any, ...], dict[str, Any]]


def _some(rng: random.Random, case: Case) -> Place | None:
    found = tensor_places(case)
    return rng.choice(found) if found else None


def _dtype(case: Case, value: dict[str, Any]) -> str:
    return str(case["storages"][value["tensor"][0]][0])


def _replace(case: Case, place: Place, name: str, values: np.ndarray) -> None:
    path, old = place
    new = new_tensor(case, name, values)
    if old.get("grad"):
        new["grad"] = True
    put(case, path, new)


def one_dtype(rng: random.Random, case: Case) -> bool:
    """Change the dtype of one tensor."""
    place = _some(rng, case)
    if place is None:
        return False
    with np.errstate(all="ignore"):
        _replace(case, place, rng.choice(DTYPES), _real(array_of_tensor(case, place[1])))
    return True


def every_dtype(rng: random.Random, case: Case) -> bool:
    """Change every tensor of one dtype to another dtype."""
    found = tensor_places(case)
    if not found:
        return False
    old, new = _dtype(case, rng.choice(found)[1]), rng.choice(DTYPES)
    for place in found:
        if _dtype(case, place[1]) == old:
            _replace(case, place, new, _real(array_of_tensor(case, place[1])))
    return True


def _real(values: np.ndarray) -> np.ndarray:
    return values.real if values.dtype.kind == "c" else values


def size(rng: random.Random, case: Case) -> bool:
    """Change one size of one tensor: 0, 1, one less, one more, or twice as many."""
    place = _some(rng, case)
    if place is None or not place[1]["tensor"][1]:
        return False
    sizes = list(place[1]["tensor"][1])
    dim = rng.randrange(len(sizes))
    sizes[dim] = max(rng.choice((0, 0, 1, sizes[dim] - 1, sizes[dim] + 1, 2 * sizes[dim])), 0)
    return _resize(case, place, sizes)


def every_size(rng: random.Random, case: Case) -> bool:
    """Change every occurrence of one size to 0, 1 or one more."""
    found = [place for place in tensor_places(case) if place[1]["tensor"][1]]
    if not found:
        return False
    old = rng.choice(rng.choice(found)[1]["tensor"][1])
    new = rng.choice((0, 0, 1, old + 1))
    for place in found:
        _resize(case, place, [new if n == old else n for n in place[1]["tensor"][1]])
    return True


def enlarged(rng: random.Random, case: Case) -> bool:
    """Enlarge every occurrence of one size, including in the arguments' lists of sizes."""
    found = [place for place in tensor_places(case) if place[1]["tensor"][1]]
    if not found:
        return False
    old = rng.choice(rng.choice(found)[1]["tensor"][1])
    new = max(old, 1) * rng.choice((17, 70, 300, 1100, 4500))

    def grown(sizes: list[int]) -> list[int]:
        return [new if n == old else n for n in sizes]

    if new > ENLARGED or any(
        np.prod(grown(place[1]["tensor"][1]), dtype=float) > ENLARGED for place in found
    ):
        return False
    for path, value in argument_places(case):
        if isinstance(value, list) and value and all(type(n) is int for n in value):
            put(case, path, grown(value))
    for place in found:
        _resize(case, place, grown(place[1]["tensor"][1]), ENLARGED)
    return True


def _resize(case: Case, place: Place, sizes: list[int], largest: int = LARGEST) -> bool:
    if np.prod(sizes, dtype=float) > largest:
        return False
    if 0 in sizes and np.prod([n or 1 for n in sizes], dtype=float) > largest:
        return False  # NumPy counts the sizes beside an empty one
    values = array_of_tensor(case, place[1])
    _replace(case, place, _dtype(case, place[1]), np.resize(values, sizes) if values.size else np.ones(sizes))
    return True


def dimensions(rng: random.Random, case: Case) -> bool:
    """Change one tensor's number of dimensions: one more, one fewer, or none."""
    place = _some(rng, case)
    if place is None:
        return False
    sizes = list(place[1]["tensor"][1])
    match rng.randrange(4):
        case 0:
            sizes.insert(rng.randrange(len(sizes) + 1), rng.choice((1, 1, 2, 0)))
        case 1 if sizes:
            del sizes[rng.randrange(len(sizes))]
        case 2:
            sizes = []
        case _:
            sizes = [rng.choice((0, 1, 2, 3)) for _ in range(rng.randrange(6))]
    return _resize(case, place, sizes)


def strides(rng: random.Random, case: Case) -> bool:
    """Change one tensor's memory layout: transposed, strided, with a storage offset, or expanded."""
    place = _some(rng, case)
    if place is None:
        return False
    path, value = place
    values = array_of_tensor(case, value)
    name, sizes = _dtype(case, value), list(values.shape)
    kind = rng.randrange(4)
    if kind == 0 and len(sizes) > 1:
        order = list(range(len(sizes)))
        rng.shuffle(order)
        new = new_tensor(case, name, values.transpose(order))
        inner = contiguous([sizes[dim] for dim in order])
        new["tensor"][1], new["tensor"][2] = sizes, [inner[order.index(dim)] for dim in range(len(sizes))]
    elif kind == 1 and sizes:
        step = rng.choice((2, 3, 4, 5, 8, 16))
        wide = np.repeat(values, step, axis=-1)
        new = new_tensor(case, name, wide)
        new["tensor"][1] = sizes
        new["tensor"][2][-1] = step
    elif kind == 2:
        shift = rng.choice((1, 3))
        flat = np.concatenate([np.ones(shift, values.dtype), values.reshape(-1)])
        new = new_tensor(case, name, flat)
        new["tensor"] = [new["tensor"][0], sizes, contiguous(sizes), shift]
    elif sizes and 0 not in sizes:
        dim = rng.randrange(len(sizes))
        new = new_tensor(case, name, values.take([0], axis=dim))
        new["tensor"][1], new["tensor"][2][dim] = sizes, 0
    else:
        return False
    if value.get("grad"):
        new["grad"] = True
    put(case, path, new)
    return True


FLOATS = (
    np.nan,
    np.inf,
    -np.inf,
    -0.0,
    0.0,
    1e-45,
    1e-310,
    6e-8,
    -1.0,
    1e4,
    3e38,
    1.7e308,
    65504.0,
    2.0**31,
    2.0**63,
)
INTEGERS = (0, 1, -1, 127, -128, 255, 32767, 2**31 - 1, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))


def values(rng: random.Random, case: Case) -> bool:
    """Set some elements to edge values of their dtype."""
    place = _some(rng, case)
    if place is None:
        return False
    array = array_of_tensor(case, place[1])
    name = _dtype(case, place[1])
    if not array.size:
        return False
    flat = array.reshape(-1)
    count = rng.choice((1, 1, 2, flat.size))
    kind = numpy_dtype(name).kind
    with np.errstate(all="ignore"):
        for _ in range(count):
            at = rng.randrange(flat.size)
            if kind in "iu":
                limits = np.iinfo(flat.dtype)
                flat[at] = min(max(rng.choice(INTEGERS), limits.min), limits.max)
            elif kind == "b":
                flat[at] = not flat[at]
            elif kind == "c":
                flat[at] = complex(rng.choice(FLOATS), rng.choice(FLOATS))
            else:
                flat[at] = np.float64(rng.choice(FLOATS)).astype(flat.dtype)
    _replace(case, place, name, flat.reshape(array.shape))
    return True


def sharing(rng: random.Random, case: Case) -> bool:
    """Replace one tensor by another, so that both arguments share memory."""
    found = tensor_places(case)
    if len(found) < 2:
        return False
    (path, _), (_, value) = rng.sample(found, 2)
    put(case, path, dict(value))
    return True


def gradients(rng: random.Random, case: Case) -> bool:
    """Make tensors require grad, so that the call's gradients are compared."""
    found = tensor_places(case)
    inexact = [value for _, value in found if numpy_dtype(_dtype(case, value)).kind not in "iub"]
    if not inexact:
        return False
    for value in inexact if rng.random() < 0.7 else rng.sample(inexact, 1):
        value["grad"] = True
    case["backward"] = True
    return True


OF_TENSORS = {
    one_dtype: 4,
    every_dtype: 4,
    size: 4,
    every_size: 3,
    enlarged: 1,
    dimensions: 4,
    strides: 4,
    values: 6,
    sharing: 1,
    gradients: 3,
}
"""With their weights."""
