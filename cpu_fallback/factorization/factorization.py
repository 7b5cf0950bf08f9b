"""Factorisations by LAPACK: single matrices by one call, batches matrix by matrix (`runtime/lapack.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.library_routine import ROUTINES, raise_failure, routine_of
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime import lapack
from ...runtime.float_errors import quietly
from ...runtime.lapack import find_routine
from ..plain_numpy import np
from .batches import FEW


def by_lapack(stub: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of a stub."""

    def factory(call: StructuredCall) -> PlannedKernel:
        routine = routine_of(stub, call)
        names, count = call.runtime, len(call.outputs)
        first = call.args[(*routine.reads, *(name for _, name in routine.copies))[0]]
        batch = (call.outputs[routine.copies[0][0]] if routine.copies else first).sizes[:-2]
        single = SINGLE[stub](call) if stub in SINGLE and _are_few(call, batch, routine.vectors) else None
        if single is not None:
            chosen("LAPACK's own routine", "one matrix, or few of small sizes")
            return PlannedKernel(single)
        chosen("LAPACK's routine for each matrix of a batch", "the batch is {}", batch)
        read_indices = [names.index(name) for name in routine.reads]
        copies = [(out, names.index(name)) for out, name in routine.copies]
        numbers = [names.index(name) for name in routine.numbers]
        tails = [-1 if name in routine.vectors else -2 for name in routine.reads]

        def into(*data: Any) -> None:
            outputs, arguments = data[:count], data[count:]
            for out, position in copies:
                np.copyto(outputs[out], arguments[position])
            inputs = [
                np.broadcast_to(arguments[position], (*batch, *arguments[position].shape[tail:]))
                for position, tail in zip(read_indices, tails, strict=True)
            ]
            inputs += [arguments[position] for position in numbers]
            info = np.zeros(batch, np.int32) if routine.info is None else outputs[routine.info]
            quietly(routine.run)(lapack, outputs, inputs, info)
            if routine.failure is not None:
                raise_failure(routine.failure, info)

        return PlannedKernel(into)

    return factory


def _are_few(call: StructuredCall, batch: tuple[int, ...], vectors: tuple[str, ...]) -> bool:
    """Return True for a few matrices with elements, whose operands all have exactly the batch dimensions `batch`."""
    operands = [
        (call.args[name], -1 if name in vectors else -2)
        for name in call.runtime
        if hasattr(call.args[name], "sizes")
    ]
    return math.prod(batch) <= FEW and all(
        spec.numel and spec.sizes[:tail] == batch for spec, tail in operands
    )


def _lu_factor(call: StructuredCall) -> Callable[..., None] | None:
    A = call.args["A"]
    if A.ndim != 2 or not call.args["pivot"]:
        return None
    factor, raises = find_routine(A.np_dtype.char, "getrf"), call.args["check_errors"]

    def into(lu: Any, pivots: Any, info: Any, a: Any) -> None:
        lu[...], swapped, info[()] = factor(a)
        np.add(swapped, 1, pivots)
        if raises and info:
            raise_failure("torch.linalg.lu_factor_ex", info)

    return into


def _solve_triangular(call: StructuredCall) -> Callable[..., None] | None:
    A, left, upper, unit = (call.args[name] for name in ("self", "left", "upper", "unitriangular"))
    solve = find_routine(A.np_dtype.char, "trsm", module="blas")
    if A.ndim == 2:

        def into(out: Any, a: Any, b: Any) -> None:
            out[...] = solve(1.0, a, b, not left, not upper, 0, unit)

        return into
    batch = A.sizes[:-2]

    def each_into(out: Any, a: Any, b: Any) -> None:
        for i in np.ndindex(*batch):  # not kept: a batch may be of any size
            out[i] = solve(1.0, a[i], b[i], not left, not upper, 0, unit)

    return each_into


def _geqrf(call: StructuredCall) -> Callable[..., None] | None:
    A = call.args["self"]
    if A.ndim != 2:
        return None
    factor = find_routine(A.np_dtype.char, "geqrf")
    lwork = int(find_routine(A.np_dtype.char, "geqrf_lwork")(*A.sizes)[0].real)

    def into(packed: Any, tau: Any, a: Any) -> None:
        packed[...], tau[...], _, _ = factor(a, lwork)

    return into


def _householder_product(call: StructuredCall) -> Callable[..., None] | None:
    A, tau = call.args["input"], call.args["tau"]
    if A.ndim != 2:
        return None
    char = A.np_dtype.char
    make = find_routine(char, "orgqr", "ungqr")
    lwork = int(make(np.zeros(A.sizes, char), np.zeros(tau.sizes, char), lwork=-1)[1][0].real)

    def into(out: Any, a: Any, factors: Any) -> None:
        out[...] = make(a, factors, lwork)[0]

    return into


def _ormqr(call: StructuredCall) -> Callable[..., None] | None:
    A, tau, C, left, transpose = (
        call.args[name] for name in ("self", "input2", "input3", "left", "transpose")
    )
    if A.ndim != 2:
        return None
    char, k = A.np_dtype.char, tau.sizes[0]
    multiply = find_routine(char, "ormqr", "unmqr")
    side, trans = "L" if left else "R", ("C" if A.dtype.is_complex else "T") if transpose else "N"
    empty = [np.zeros(sizes, char) for sizes in ((A.sizes[0], k), (k,), C.sizes)]
    lwork = int(multiply(side, trans, *empty, -1)[1][0].real)

    def into(out: Any, a: Any, factors: Any, c: Any) -> None:
        out[...] = multiply(side, trans, a[:, :k], factors, c, lwork)[0]

    return into


def _ldl_factor(call: StructuredCall) -> Callable[..., None] | None:
    A = call.args["self"]
    if A.ndim != 2 or call.args["check_errors"]:
        return None
    char, n = A.np_dtype.char, A.sizes[0]
    name = "hetrf" if call.args["hermitian"] and A.dtype.is_complex else "sytrf"
    factor = find_routine(char, "sytrf", name)
    lwork = int(find_routine(char, "sytrf_lwork", f"{name}_lwork")(n, lower=1)[0].real)
    lower_triangle, zero = np.tri(n, dtype=bool), np.zeros((), char)

    def into(ld: Any, pivots: Any, info: Any, a: Any) -> None:
        made, pivots[...], info[()] = factor(a, 1, lwork)
        ld[...] = np.where(lower_triangle, made, zero)

    return into


SINGLE: dict[str, Callable[[StructuredCall], Callable[..., None] | None]] = {
    "linalg_lu_factor_ex_stub": _lu_factor,
    "linalg_solve_triangular_stub": _solve_triangular,
    "geqrf_stub": _geqrf,
    "linalg_householder_product_stub": _householder_product,
    "ormqr_stub": _ormqr,
    "linalg_ldl_factor_ex_stub": _ldl_factor,
}
"""For stubs whose routine costs less than the loop over a batch: what runs one matrix, or a few.

None for calls that `runtime/lapack.py` does.
"""

for _stub in ROUTINES:
    register_stub(_stub, "cpu", by_lapack(_stub))
