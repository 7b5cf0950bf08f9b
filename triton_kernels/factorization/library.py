"""Factorizations by cuSOLVER and cuBLAS: operands are copied to column-major matrices, and the library works in
place.

Copies supply what the library lacks: results of other layouts, wide matrices for singular values, whose
routine wants tall ones, and general eigenvalues of real matrices, which are computed as complex ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...dispatch.structured.library_routine import ROUTINES, LibraryRoutine, raise_failure, routine_of
from ...dispatch.structured.meta.factorization import column_major
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.cuda.device_guard import device_guard
from ...runtime.cuda.solver import Operand
from ...runtime.cuda.transfer import copy_across
from ...runtime.memory_format import contiguous_strides
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import int32
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.complex_functions import conjugate
from ..elementwise.copy import copy_kernel
from ..elementwise.elementwise import complex_elementwise
from ..elementwise.pairs import part_type
from ..geometry import broadcast_strides
from ..indexing.rearranging import pairs_in_front, plan_triangle

Copy = Callable[[Any, Any], None]


def in_columns(sizes: Sequence[int], dtype: ScalarType, device: Any) -> TensorSpec:
    """Return the spec of column-major matrices."""
    return TensorSpec.of(tuple(sizes), column_major(sizes), dtype, device)


def operand(spec: TensorSpec, batch: int, rank: int, data: Any) -> Operand:
    """Return a tensor as the library takes it: matrices, vectors, or a number for each of `batch` members."""
    tail = spec.sizes[rank:]
    rows = tail[0] if tail else -1
    columns = tail[1] if len(tail) == 2 else None
    return Operand(data.address, batch, rows, columns, spec.np_dtype)


def transposed(spec: TensorSpec) -> TensorSpec:
    """Return the spec with the last two dimensions exchanged."""
    *sizes, m, n = spec.sizes
    *strides, row, column = spec.strides
    return spec.replace(sizes=(*sizes, n, m), strides=(*strides, column, row))


def conjugate_copy(out: TensorSpec, source: TensorSpec) -> Copy:
    """Return a copy between two geometries that conjugates complex numbers."""
    if not out.numel:
        return lambda out_data, data: None
    if not out.dtype.is_complex:
        copy: Copy = copy_kernel(out, source)
        return copy
    call = StructuredCall("_conj_physical", {"self": source}, ("self",), (out,), None, out.device, {})
    kernel = complex_elementwise(call, conjugate, [source], [part_type(source.dtype)], [True], True)
    return kernel.into


def by_library(stub: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a stub."""

    def factory(call: StructuredCall) -> PlannedKernel:
        routine = routine_of(stub, call)
        if stub == "_linalg_svd_stub":
            return plan_svd(call, routine)
        return plan_routine(call, routine)

    return factory


def plan_routine(call: StructuredCall, routine: LibraryRoutine) -> PlannedKernel:
    """Plan copies into outputs and buffers, and the routine over them."""
    names, outputs, device = call.runtime, call.outputs, call.device
    allocate = get_allocator("cuda").allocate
    first = call.args[(*routine.reads, *(name for _, name in routine.copies))[0]]
    batch_sizes = (outputs[routine.copies[0][0]] if routine.copies else first).sizes[:-2]
    rank, batch = len(batch_sizes), int(np.prod(batch_sizes, dtype=np.int64))
    fills: list[tuple[int, int, Copy]] = []
    for out, name in routine.copies:
        source = call.args[name]
        fills.append((out, names.index(name), _filling(outputs[out], source, routine.triangle)))
    reads: list[tuple[int, TensorSpec, Copy | None]] = []
    for name in routine.reads:
        source = call.args[name]
        is_vector = name in routine.vectors
        sizes = (*batch_sizes, *source.sizes[-1 if is_vector else -2 :])
        dtype = _complex(source.dtype) if routine.as_complex else source.dtype
        strides = contiguous_strides(sizes) if is_vector else column_major(sizes)
        layout = TensorSpec.of(sizes, strides, dtype, device)
        as_it_is = source.sizes == sizes and source.strides == strides and source.dtype is dtype
        copy = None if as_it_is and not routine.consumes else _filling(layout, source, None)
        reads.append((names.index(name), layout, copy))
    flags = TensorSpec.contiguous(batch_sizes, int32, device)
    index = device.resolved_index

    def into(*data: Any) -> None:
        results, arguments = data[: len(outputs)], data[len(outputs) :]
        for out, position, fill in fills:
            fill(results[out], arguments[position])
        inputs = []
        for position, spec, copy in reads:
            buffer = arguments[position]
            if copy is not None:
                buffer = allocate(spec.nbytes, device)
                copy(buffer, arguments[position])
            inputs.append((spec, buffer))
        block = allocate(max(flags.nbytes, 1), device) if routine.info is None else results[routine.info]
        with device_guard(index) as cuda:
            routine.run(
                cuda.solver(),
                [operand(spec, batch, rank, result) for spec, result in zip(outputs, results, strict=True)],
                [operand(spec, batch, rank, buffer) for spec, buffer in inputs],
                operand(flags, batch, rank, block),
            )
        check_flags(routine.failure, flags, block)

    return PlannedKernel(into)


def _complex(dtype: ScalarType) -> ScalarType:
    return dtype if dtype.is_complex else dtype.to_complex()


def _filling(out: TensorSpec, source: TensorSpec, triangle: str | None) -> Copy:
    """Return the broadcast copy of an input to a result, of one triangle if the other is to be zero."""
    if not out.numel:
        return lambda out_data, data: None
    if triangle is not None:
        if out.itemsize == 16:
            out, source = pairs_in_front(out), pairs_in_front(source)
        return plan_triangle(out, source, 0, triangle == "lower")
    expanded = source.replace(sizes=out.sizes, strides=broadcast_strides(source, out.sizes))
    copy: Copy = copy_kernel(out, expanded)
    return copy


def check_flags(failure: str | None, flags: TensorSpec, block: Any) -> None:
    """Raise the error of the first matrix that the library could not do; this waits for the device."""
    if failure is None or not flags.numel:
        return
    host = np.zeros(flags.sizes, np.int32)
    copy_across(host, block, host.nbytes)
    raise_failure(failure, host)


def plan_svd(call: StructuredCall, routine: LibraryRoutine) -> PlannedKernel:
    """Compute the SVD of tall matrices, and of wide ones by their adjoint, whose bases are exchanged."""
    source, (u_spec, s_spec, vh_spec) = call.args["A"], call.outputs
    *batch_sizes, m, n = source.sizes
    full, vectors, driver = (call.args[name] for name in ("full_matrices", "compute_uv", "driver"))
    device, k = call.device, min(m, n)
    rank, batch = len(batch_sizes), int(np.prod(batch_sizes, dtype=np.int64))
    allocate = get_allocator("cuda").allocate
    is_wide = m < n
    rows, columns = (n, m) if is_wide else (m, n)
    tall = in_columns((*batch_sizes, rows, columns), source.dtype, device)
    lay_out = conjugate_copy(tall, transposed(source)) if is_wide else _filling(tall, source, None)
    left = in_columns((*batch_sizes, rows, rows if full else k), source.dtype, device)
    right = in_columns((*batch_sizes, columns if full else k, columns), source.dtype, device)
    if not vectors:
        bases_to_copy: list[tuple[int, TensorSpec, Copy]] = []
    elif is_wide:
        bases_to_copy = [
            (2, left, conjugate_copy(vh_spec, transposed(left))),
            (0, right, conjugate_copy(u_spec, transposed(right))),
        ]
    else:
        bases_to_copy = [(0, left, _filling(u_spec, left, None)), (2, right, _filling(vh_spec, right, None))]
    flags = TensorSpec.contiguous(tuple(batch_sizes), int32, device)
    index = device.resolved_index

    def into(*data: Any) -> None:
        results, argument = data[:3], data[3]
        if not k:
            identities(results)
            return
        matrix = allocate(max(tall.nbytes, 1), device)
        lay_out(matrix, argument)
        bases = [allocate(max(spec.nbytes, 1), device) for _, spec, _ in bases_to_copy]
        block = allocate(max(flags.nbytes, 1), device)
        u, vh = (
            (
                operand(spec, batch, rank, basis)
                for (_, spec, _), basis in zip(bases_to_copy, bases, strict=True)
            )
            if vectors
            else (None, None)
        )
        with device_guard(index) as cuda:
            cuda.solver().gesvd(
                operand(tall, batch, rank, matrix),
                u,
                operand(s_spec, batch, rank, results[1]),
                vh,
                full,
                vectors,
                operand(flags, batch, rank, block),
                driver,
            )
        check_flags(routine.failure, flags, block)
        for (position, _, copy), basis in zip(bases_to_copy, bases, strict=True):
            copy(results[position], basis)

    def identities(results: Sequence[Any]) -> None:
        """Write identity matrices as the bases of matrices without rows or columns."""
        for index, spec in ((0, u_spec), (2, vh_spec)) if vectors else ():
            if spec.numel:
                whole = np.broadcast_to(np.eye(spec.sizes[-1], dtype=spec.np_dtype), spec.sizes)
                copy_across(results[index], np.ascontiguousarray(whole), spec.nbytes)

    return PlannedKernel(into)


for _stub in ROUTINES:
    if _stub != "_least_squares_stub":
        register_stub(_stub, "cuda", by_library(_stub))
