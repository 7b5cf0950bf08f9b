"""Elements placed or combined where index tensors say: index_put, scatter, index_add, embedding's gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.meta.indexing import indexed_sizes
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator, storage_size
from ...runtime.cuda.device_guard import device_guard
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.complex_functions import mul
from ..elementwise.copy import as_real, copy_kernel
from ..elementwise.elementwise import check_dtypes, complex_elementwise
from ..elementwise.factories import fill, zero
from ..elementwise.pairs import part_type
from ..geometry import broadcast_strides
from .index_bounds import Bound, allocate
from .picking import refuse_untyped
from .placement import Finish, Placement, combining, placed_kernel, put
from .scatter_reduction_kernels import add, larger, multiply, smaller


def with_dimension(spec: TensorSpec) -> TensorSpec:
    """Return a 0-d spec as a vector of one element."""
    return spec if spec.ndim else TensorSpec.contiguous((1,), spec.dtype, spec.device)


def writing(
    call: StructuredCall, placement: Placement, finish: Finish | None, summed: bool = False
) -> Callable[..., None]:
    """Return ``(out, self, values, indices, *rest)``, which copies `self` to `out` and applies the placement to
    it.

    Without `finish`, values replace the elements; `summed` says that the placement adds them.
    """
    source, out = call.args["self"], call.outputs[0]
    if finish is None:
        chosen("a store each", "values replace what is there, the last of a place as PyTorch leaves it open")
        refuse_untyped(call, [out])
        run = placed_kernel(placement.as_pairs() if out.itemsize == 16 else placement, put)
    else:
        # The sum of complex numbers is that of their parts; `summed` says where it is asked for.
        chosen(
            "places in order, then runs of equal ones",
            "values of a place are combined, in an order that is fixed",
        )
        pairs = out.dtype.is_complex and summed
        check_dtypes(call, [as_real(out) if pairs else out])
        run = placed_kernel(placement.as_pairs() if pairs else placement, finish)
    copy = copy_kernel(out, source)
    spec, clone = placement.values, get_allocator("cuda").clone
    value_bytes = storage_size(spec.sizes, spec.strides) * spec.itemsize

    def into(out: Any, data: Any, values: Any, indices: Sequence[Any], *rest: Any) -> None:
        if out.address != data.address:
            copy(out, data)
        elif values.root is out.root:
            # No lane may read what another lane has written.
            with device_guard(out.device.resolved_index):
                values = clone(values, value_bytes)
        run(out, values, indices, *rest)

    return into


def index_put(call: StructuredCall) -> PlannedKernel:
    """Write or add values at integer indices of a copy of `self`."""
    source, out, values = call.args["self"], call.outputs[0], call.args["values"]
    indices = call.args["indices"]
    sizes, _ = indexed_sizes(source, indices)
    used = [i for i, spec in enumerate(indices) if spec is not None]
    rank = len(sizes) - (source.ndim - len(used))
    adjacent = used == list(range(used[0], used[-1] + 1)) if used else False
    front = used[0] if adjacent else 0
    picked = sizes[front : front + rank]
    strides = broadcast_strides(values, sizes)
    placement = Placement(
        with_dimension(out),
        values,
        picked,
        tuple(
            (
                Bound(call.name, indices[i], source.sizes[i], i, True, IndexError),
                broadcast_strides(indices[i], picked),
                i,
            )
            for i in used
        ),
        (None,) * rank,
        tuple(i for i in range(source.ndim) if i not in used),
        strides[front : front + rank],
        strides[:front] + strides[front + rank :],
    )
    run = writing(call, placement, combining(add) if call.args["accumulate"] else None, summed=True)

    def into(out: Any, data: Any, indices: Sequence[Any], values: Any) -> None:
        run(out, data, values, [indices[i] for i in used])

    return PlannedKernel(into)


def slices(call: StructuredCall) -> Placement:
    """Return the placement of slices of ``source`` along a dimension, at the indices of a vector."""
    out, source, where = with_dimension(call.outputs[0]), call.args["source"], call.args["index"]
    axis: int = call.extra["dim"]
    bound = Bound(call.name, where, out.sizes[axis], axis, False, IndexError)
    rest = tuple(d for d in range(out.ndim) if d != axis)
    return Placement(
        out,
        source,
        (where.numel,),
        ((bound, where.strides or (0,), axis),),
        (None,),
        rest,
        (source.strides[axis] if source.ndim else 0,),
        tuple(source.strides[d] for d in rest) if source.ndim else (0,) * len(rest),
    )


def index_add(call: StructuredCall) -> PlannedKernel:
    """Add slices of the source, times alpha, at the index."""
    scaled = "alpha" in call.runtime
    if scaled and call.outputs[0].dtype.is_complex:
        return index_add_of_products(call)
    run = writing(call, slices(call), combining(add, scaled=scaled), summed=True)
    return PlannedKernel(lambda out, data, where, source, *alpha: run(out, data, source, (where,), *alpha))


def index_add_of_products(call: StructuredCall) -> PlannedKernel:
    """`index_add` of complex numbers, whose products with alpha mix their parts and are made first."""
    source = call.args["source"]
    flat = TensorSpec.contiguous(source.sizes, source.dtype, source.device)
    types = [part_type(flat.dtype)] * 2
    product = call._replace(outputs=(flat,))
    scale = complex_elementwise(product, mul, [source, call.args["alpha"]], types, [True, True], True).into
    run = writing(call, slices(call._replace(args=call.args | {"source": flat})), combining(add), summed=True)

    def into(out: Any, data: Any, where: Any, source: Any, alpha: Any) -> None:
        scaled = allocate(flat.nbytes, flat.device)
        scale(scaled, source, alpha)
        run(out, data, scaled, (where,))

    return PlannedKernel(into)


def index_copy(call: StructuredCall) -> PlannedKernel:
    """Write slices of the source at the index."""
    run = writing(call, slices(call), None)
    return PlannedKernel(lambda out, data, where, source: run(out, data, source, (where,)))


COMBINE = {
    "add": add,
    "sum": add,
    "mean": add,
    "multiply": multiply,
    "prod": multiply,
    "amax": larger,
    "amin": smaller,
}


def index_reduce(call: StructuredCall) -> PlannedKernel:
    """Reduce slices of the source at the index."""
    reduce: str = call.args["reduce"]
    includes: bool = call.args["include_self"]
    finish = combining(COMBINE[reduce], includes=includes, mean=reduce == "mean")
    run = writing(call, slices(call), finish)
    return PlannedKernel(lambda out, data, where, source: run(out, data, source, (where,)))


def scatter(call: StructuredCall) -> PlannedKernel:
    """Write, add or multiply elements of the source, or a number, along one dimension by index."""
    out, where = with_dimension(call.outputs[0]), call.args["index"]
    axis: int = call.extra["dim"]
    reduce: str | None = call.extra["reduce"]
    picked = where.sizes or (1,)
    number = None
    if "src" in call.args:
        values = with_dimension(call.args["src"])
        strides = values.strides[: len(picked)]
    else:
        values = TensorSpec.contiguous((1,), out.dtype, out.device)
        strides = (0,) * len(picked)
        number = fill(call._replace(outputs=(values,))).into
    bound = Bound(call.name, where, out.sizes[axis], axis, False, RuntimeError)
    placement = Placement(
        out,
        values,
        picked,
        ((bound, where.strides or (0,), axis),),
        tuple(None if d == axis else d for d in range(len(picked))),
        (),
        strides,
        (),
    )
    finish = None
    if reduce is not None:
        includes: bool = call.args.get("include_self", True)
        finish = combining(COMBINE[reduce], includes=includes, mean=reduce == "mean")
    run = writing(call, placement, finish, summed=reduce in ("add", "sum"))
    if number is None:
        return PlannedKernel(lambda out, data, where, src: run(out, data, src, (where,)))

    def into(out: Any, data: Any, where: Any, value: Any) -> None:
        buffer = allocate(values.nbytes, values.device)
        number(buffer, value)
        run(out, data, buffer, (where,))

    return PlannedKernel(into)


def embedding_dense_backward(call: StructuredCall) -> PlannedKernel:
    """Add the gradient's rows at their indices; the padding's row stays zero."""
    out, grad, where = call.outputs[0], call.args["grad_output"], call.args["indices"]
    check_dtypes(call, [out])
    bound = Bound(call.name, where, out.sizes[0], 0, False, IndexError, "index out of range in self")
    placement = Placement(
        out,
        grad,
        where.sizes,
        ((bound, where.strides, 0),),
        (None,) * where.ndim,
        (1,),
        grad.strides[:-1],
        grad.strides[-1:],
    )
    averaged: bool = call.args["scale_grad_by_freq"]
    padding: int = call.args["padding_idx"]
    clears = placement.keys_are_indices and out.is_contiguous and placement.rows > 0 and out.numel > 0
    run = placed_kernel(placement, combining(add, averaged=averaged, skip=max(padding, -1), clears=clears))
    if clears:
        chosen("zeros with the keys", "indices without gaps are keys, of an output without gaps")
        return PlannedKernel(lambda out, grad, where: run(out, grad, (where,)))
    clear = zero(call).into

    def into(out: Any, grad: Any, where: Any) -> None:
        clear(out)
        run(out, grad, (where,))

    return PlannedKernel(into)


for _stub, _factory in {
    "index_put_stub": index_put,
    "index_add_stub": index_add,
    "index_copy_stub": index_copy,
    "index_reduce_stub": index_reduce,
    "scatter_stub": scatter,
    "scatter_reduce_stub": scatter,
    "embedding_dense_backward_stub": embedding_dense_backward,
}.items():
    register_stub(_stub, "cuda", _factory)
