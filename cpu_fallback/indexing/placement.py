"""Elements in places of their own where a composition would go several ways: `put` and diagonals.

Each gives what its composition in `dispatch/composite/` gives, to the bit.
"""

from __future__ import annotations

from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.pointwise import constant_cache
from ..error_state import quiet
from ..undispatched import copyto, np
from .index_bounds import UNSIGNED, check_bounds, greatest
from .scatter_gather import places_function

WORD = UNSIGNED[8]


def _from_start(index: Any, size: int, dim: int) -> Any:
    """An index within ``[-size, size)`` counted from the start."""
    if greatest(index.view(WORD), None) < size:
        return index
    check_bounds(index, size, dim, True, IndexError)
    return np.where(index < 0, index + size, index)


def put(call: StructuredCall) -> PlannedKernel:
    """Elements of the source put or added at places of the flattened array, in order."""
    numel, adds = call.args["self"].numel, call.args["accumulate"]
    add_at = np.add.at

    def write(out: Any, index: Any, source: Any) -> Any:
        if index.size:
            where = _from_start(index.reshape(-1), numel, 0)
            if adds:
                add_at(out.reshape(-1), where, source.reshape(-1))
            else:
                out.reshape(-1)[where] = source.reshape(-1)
        return out

    def into(out: Any, data: Any, index: Any, source: Any) -> None:
        copyto(out, data)
        write(out, index, source)

    return PlannedKernel(into, lambda data, *rest: write(data.copy(), *rest), quiet=adds)


def index_fill(call: StructuredCall) -> PlannedKernel:
    """A number in entries of one dimension."""
    spec, axis = call.args["self"], call.extra["dim"]
    size = spec.sizes[axis]
    constant = constant_cache(spec.np_dtype)
    before = (slice(None),) * axis
    value_fixed = None if "value" in call.runtime else call.args["value"]

    def fresh(data: Any, index: Any, value: Any = value_fixed) -> Any:
        out = data.copy()
        if index.size:
            out[(*before, _from_start(index.reshape(-1), size, 0))] = constant(value)
        return out

    return PlannedKernel(lambda out, *given: copyto(out, fresh(*given)), fresh)


def take_along_dim(call: StructuredCall) -> PlannedKernel:
    """Elements along one dimension, each by its own index, which may count from the end."""
    axis: int = call.extra["dim"]
    sizes, picked = call.args["self"].sizes, call.args["indices"].sizes
    size = sizes[axis]
    places = places_function(sizes, axis, picked)

    def fresh(data: Any, index: Any) -> Any:
        if not greatest(index.view(WORD), None) < size:
            index = np.where(index < 0, index + size, index)
            check_bounds(index, size, axis, False, RuntimeError)
        return data.reshape(-1).take(places(index), None, None, "clip")

    return PlannedKernel(lambda out, *given: copyto(out, fresh(*given)), fresh)


def masked_scatter(call: StructuredCall) -> PlannedKernel:
    """Elements of the source, in order, where the mask holds."""
    given: int = call.args["source"].numel

    def fresh(data: Any, mask: Any, source: Any) -> Any:
        out = data.copy()
        count = np.count_nonzero(mask)
        if count > given:
            raise RuntimeError("Number of elements of source < number of ones in mask")
        if count:
            np.place(out, mask, source if count == given else source.reshape(-1)[:count])
        return out

    return PlannedKernel(lambda out, *data: copyto(out, fresh(*data)), fresh)


def unsafe_masked_put(call: StructuredCall) -> PlannedKernel:
    """Values added where a mask holds, whatever the index is elsewhere."""
    sizes = call.args["self"].sizes
    limits = [(-n, n - 1) for n in sizes]
    shape = call.extra["places"]
    zero = np.zeros((), call.args["self"].np_dtype)

    def fresh(data: Any, mask: Any, indices: Any, values: Any) -> Any:
        out = data.copy()
        place: Any = 0
        for index, (low, high) in zip(indices, limits, strict=True):
            if not greatest(index.view(WORD), None) <= high:
                index = index.clip(low, high)
                index = np.where(index < 0, index + (high + 1), index)
            place = place * (high + 1) + index
        where = np.broadcast_to(place, shape).reshape(-1)
        np.add.at(out.reshape(-1), where, np.where(mask, values, zero).reshape(-1))
        return out

    return PlannedKernel(quiet(lambda out, *given: copyto(out, fresh(*given))), quiet(fresh))


def diag_embed(call: StructuredCall) -> PlannedKernel:
    """The last dimension on the diagonal of two new ones, zeros elsewhere."""
    out_spec, offset, length = call.outputs[0], call.args["offset"], call.extra["length"]
    sizes, np_dtype = out_spec.sizes, out_spec.np_dtype
    side = sizes[-1]
    flat = (*sizes[:-2], side * side)
    first = offset if offset >= 0 else -offset * side
    lead = len(flat) - 1
    key = (slice(None),) * lead + (slice(first, first + length * (side + 1), side + 1),)
    source = (*sizes[:-2], length)

    def fresh(data: Any) -> Any:
        out = np.zeros(flat, np_dtype)
        out[key] = data.reshape(source)
        return out.reshape(sizes)

    def into(out: Any, data: Any) -> None:
        out.fill(0)
        out.reshape(flat)[key] = data.reshape(source)

    return PlannedKernel(into, fresh)


def block_diag(call: StructuredCall) -> PlannedKernel:
    """Matrices along the diagonal, zeros elsewhere."""
    sizes, np_dtype = call.outputs[0].sizes, call.outputs[0].np_dtype
    places: tuple[Any, ...] = call.extra["places"]

    def into(out: Any, arrays: Any) -> None:
        out.fill(0)
        for place, array in zip(places, arrays, strict=True):
            out[place] = array

    def fresh(arrays: Any) -> Any:
        out = np.zeros(sizes, np_dtype)
        for place, array in zip(places, arrays, strict=True):
            out[place] = array
        return out

    return PlannedKernel(into, fresh)


def _part_of(call: StructuredCall) -> Any:
    """A function from a plain array to a strided part of it."""
    part: TensorSpec = call.extra["part"]
    itemsize = part.itemsize
    sizes, np_dtype, nbytes = part.sizes, part.np_dtype, call.args["offset"] * itemsize
    strides = tuple([s * itemsize for s in part.strides])
    array = np.ndarray
    return lambda data: array(sizes, np_dtype, data, nbytes, strides)


def strided_copy(call: StructuredCall) -> PlannedKernel:
    """A strided part of an array."""
    part = _part_of(call)
    return PlannedKernel(lambda out, data: copyto(out, part(data)), lambda data: part(data).copy())


def strided_scatter(call: StructuredCall) -> PlannedKernel:
    """An array in which a strided part is another's elements."""
    part = _part_of(call)

    def fresh(data: Any, source: Any) -> Any:
        out = data.copy()
        copyto(part(out), source)
        return out

    return PlannedKernel(lambda out, *given: copyto(out, fresh(*given)), fresh)


for _stub, _factory in {
    "put_stub": put,
    "index_fill_stub": index_fill,
    "take_along_dim_stub": take_along_dim,
    "masked_scatter_stub": masked_scatter,
    "_unsafe_masked_index_put_accumulate_stub": unsafe_masked_put,
    "diag_embed_stub": diag_embed,
    "diagflat_stub": diag_embed,
    "block_diag_stub": block_diag,
    "_strided_copy_stub": strided_copy,
    "_strided_scatter_stub": strided_scatter,
}.items():
    register_stub(_stub, "cpu", _factory)
