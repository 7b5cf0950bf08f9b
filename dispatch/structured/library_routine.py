"""Calls of linear-algebra library routines: the same LAPACK call on the host and cuSOLVER call on a device.

Factorizations are not kernels of this project. A stub's row says which operands are copied into results, which are
read, and which routine runs over them. Each backend brings operands in its form and the library: a namespace of
routines by LAPACK's names (`runtime/lapack.py`, `runtime/cuda/solver.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...runtime.errors import LinAlgError
from .stub import StructuredCall

if TYPE_CHECKING:
    from numpy.typing import NDArray


class LibraryRoutine(NamedTuple):
    """Call of a library routine.

    Args:
        run: ``run(library, outputs, inputs, info)``: operands are column-major matrices, or vectors.
        copies: For each output that starts as a copy of an input, its index and the input's name; the input broadcasts.
        triangle: ``lower`` or ``upper`` if only one triangle of the first copy is kept.
        reads: Names of the inputs; column-major, broadcast to the batch.
        consumes: If True, the routine may overwrite its inputs.
        info: Index of the output `info`; None if `info` is not an output.
        failure: Function from the failure flag to an error message; None if no error is raised.
        vectors: Inputs with one vector per matrix.
        as_complex: If True, a device's library requires real matrices as complex ones.
        numbers: Arguments whose values the routine receives after the inputs.
    """

    run: Callable[[Any, Sequence[Any], Sequence[Any], Any], None]
    copies: tuple[tuple[int, str], ...] = ()
    triangle: str | None = None
    reads: tuple[str, ...] = ()
    consumes: bool = False
    info: int | None = None
    failure: str | None = None
    vectors: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    as_complex: bool = False


NOT_FINITE = -4
"""LAPACK's gesdd flag for a matrix with NaN or infinity; here, the flag of every routine that would not terminate."""


def raise_failure(name: str, info: NDArray[Any]) -> None:
    """Raise the error of the first matrix for which an operator failed.

    Args:
        name: Name of the operator in PyTorch's messages.
        info: LAPACK's flags on the host, one for each matrix.

    Raises:
        LinAlgError: for a singular matrix and similar failures.
        RuntimeError: for `lu_factor`, whose result is valid.
    """
    flags = info.reshape(-1)
    failed = flags.nonzero()[0]
    if not failed.size:
        return
    first = int(failed[0])
    code, where = int(flags[first]), f"(Batch element {first}): " if info.ndim else ""
    error: type[Exception] = LinAlgError
    if code < 0 and "svd" in name:
        text = "The algorithm failed to converge because the input matrix contained non-finite values."
    elif code == NOT_FINITE and "eig" in name:
        raise RuntimeError(f"{name}: input tensor should not contain infs or NaNs.")
    elif code == NOT_FINITE and "lstsq" in name:
        raise RuntimeError(
            f"{name}: {where}The least squares solution could not be computed because an operand contains non-finite "
            "values."
        )
    elif code < 0:
        text = (
            f"Argument {-code} has illegal value. Most certainly there is a bug in the implementation calling the "
            "backend library."
        )
    elif "inv" in name:
        text = (
            f"The diagonal element {code} is zero, the inversion could not be completed because the input matrix is "
            "singular."
        )
    elif "solve" in name:
        text = "The solver failed because the input matrix is singular."
    elif "cholesky" in name:
        text = (
            "The factorization could not be completed because the input is not positive-definite (the leading minor "
            f"of order {code} is not positive-definite)."
        )
    elif "svd" in name or "eig" in name:
        values = "singular values" if "svd" in name else "eigenvalues"
        text = (
            "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
            f"{values} (error code: {code})."
        )
    elif "lstsq" in name:
        text = (
            "The least squares solution could not be computed because the input matrix does not have full rank (error "
            f"code: {code})."
        )
    elif "ldl" in name:
        text = f"D[{code},{code}] is zero and using it in ldl_solve would result in a division by zero."
    else:
        error = RuntimeError
        text = (
            f"U[{code},{code}] is zero and using it on lu_solve would result in a division by zero. If you still want "
            "to perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
        )
    raise error(f"{name}: {where}{text}")


LOW = "Pivots given to lu_solve must all be greater or equal to 1"
HIGH = "Pivots given to lu_solve must all be smaller or equal to LU.size(-2)"
PIVOT_ERRORS = {
    "linalg.lu_solve": (LOW, HIGH),
    "lu_unpack": ("pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive",) * 2,
}
"""Error messages of operators with pivots, for a pivot below 1 and for one beyond the matrix."""


def check_pivots(name: str, least: int, greatest: int, rows: int) -> None:
    """Refuse pivots below 1 or beyond the rows of a matrix: libraries read and write at these positions.

    Args:
        name: Name of the operator, a key of `PIVOT_ERRORS`.
        least: the smallest pivot.
        greatest: the largest one.
        rows: the matrix's rows.
    """
    if least >= 1 and greatest <= rows:
        return
    low, high = PIVOT_ERRORS[name]
    text, wrong = (low, least) if least < 1 else (high, greatest)
    raise RuntimeError(
        f"{name}: {text}. Did you properly pass the result of lu_factor? Expected pivots from 1 to {rows}, but got "
        f"{wrong}"
    )


def _lu_factor(call: StructuredCall) -> LibraryRoutine:
    pivot = call.args["pivot"]

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        lu, pivots, _ = outputs
        (library.getrf if pivot else library.getrf_nopivot)(lu, pivots, info)

    failure = "torch.linalg.lu_factor_ex" if call.args["check_errors"] else None
    return LibraryRoutine(run, ((0, "A"),), info=2, failure=failure)


def _lu_solve(call: StructuredCall) -> LibraryRoutine:
    transpose = "C" if call.args["adjoint"] else "N"

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        lu, pivots = inputs
        library.getrs(lu, pivots, outputs[0], transpose)

    return LibraryRoutine(run, ((0, "B"),), reads=("LU", "pivots"), vectors=("pivots",))


def _cholesky(call: StructuredCall) -> LibraryRoutine:
    upper = call.args["upper"]

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        library.potrf(outputs[0], upper, info)

    failure = "linalg.cholesky_ex" if call.args["check_errors"] else None
    return LibraryRoutine(
        run, ((0, "self"),), triangle="upper" if upper else "lower", info=1, failure=failure
    )


def _solve_triangular(call: StructuredCall) -> LibraryRoutine:
    left, upper, unit = (call.args[name] for name in ("left", "upper", "unitriangular"))

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        library.trsm(inputs[0], outputs[0], left, upper, "N", unit)

    return LibraryRoutine(run, ((0, "B"),), reads=("self",))


def _geqrf(call: StructuredCall) -> LibraryRoutine:
    return LibraryRoutine(lambda library, outputs, inputs, info: library.geqrf(*outputs), ((0, "self"),))


def _householder_product(call: StructuredCall) -> LibraryRoutine:
    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        library.orgqr(outputs[0], inputs[0])

    return LibraryRoutine(run, ((0, "input"),), reads=("tau",), vectors=("tau",))


def _ormqr(call: StructuredCall) -> LibraryRoutine:
    left, transpose = call.args["left"], call.args["transpose"]

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        library.ormqr(inputs[0], inputs[1], outputs[0], left, transpose)

    return LibraryRoutine(run, ((0, "input3"),), reads=("self", "input2"), vectors=("input2",))


def _eigh(call: StructuredCall) -> LibraryRoutine:
    upper, vectors = call.args["UPLO"].upper() == "U", call.args["compute_v"]

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        library.syevd(outputs[1] if vectors else inputs[0], outputs[0], vectors, upper, info)

    if vectors:
        return LibraryRoutine(run, ((1, "A"),), failure="linalg.eigh")
    return LibraryRoutine(run, reads=("A",), consumes=True, failure="linalg.eigh")


def _eig(vectors: bool) -> Callable[[StructuredCall], LibraryRoutine]:
    def routine(call: StructuredCall) -> LibraryRoutine:
        def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
            library.geev(inputs[0], outputs[0], outputs[1] if vectors else None, vectors, info)

        name = "torch.linalg.eig" if vectors else "torch.linalg.eigvals"
        return LibraryRoutine(run, reads=("self",), consumes=True, failure=name, as_complex=True)

    return routine


def _svd(call: StructuredCall) -> LibraryRoutine:
    full, vectors, driver = (call.args[name] for name in ("full_matrices", "compute_uv", "driver"))

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        u, s, vh = outputs
        library.gesvd(inputs[0], u, s, vh, full, vectors, info, driver)

    return LibraryRoutine(run, reads=("A",), consumes=True, failure="linalg.svd")


def _least_squares(call: StructuredCall) -> LibraryRoutine:
    driver = call.args["driver"]

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        x, s, rank, _ = outputs
        library.least_squares(driver, *inputs[:2], x, s, rank, inputs[2], info)

    return LibraryRoutine(run, reads=("A", "B"), consumes=True, info=3, numbers=("rcond",))


def _ldl_factor(call: StructuredCall) -> LibraryRoutine:
    hermitian = call.args["hermitian"]

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        library.sytrf(outputs[0], outputs[1], hermitian, info)

    failure = "torch.linalg.ldl_factor_ex" if call.args["check_errors"] else None
    return LibraryRoutine(run, ((0, "self"),), triangle="lower", info=2, failure=failure)


def _ldl_solve(call: StructuredCall) -> LibraryRoutine:
    hermitian = call.args["hermitian"]

    def run(library: Any, outputs: Sequence[Any], inputs: Sequence[Any], info: Any) -> None:
        library.sytrs(inputs[0], inputs[1], outputs[0], hermitian)

    return LibraryRoutine(run, ((0, "B"),), reads=("LD", "pivots"), vectors=("pivots",))


ROUTINES: dict[str, Callable[[StructuredCall], LibraryRoutine]] = {
    "linalg_lu_factor_ex_stub": _lu_factor,
    "_lu_solve_stub": _lu_solve,
    "linalg_cholesky_ex_stub": _cholesky,
    "linalg_solve_triangular_stub": _solve_triangular,
    "geqrf_stub": _geqrf,
    "linalg_householder_product_stub": _householder_product,
    "ormqr_stub": _ormqr,
    "_linalg_eigh_stub": _eigh,
    "linalg_eig_stub": _eig(True),
    "_linalg_eigvals_stub": _eig(False),
    "_linalg_svd_stub": _svd,
    "_least_squares_stub": _least_squares,
    "linalg_ldl_factor_ex_stub": _ldl_factor,
    "linalg_ldl_solve_stub": _ldl_solve,
}
"""The routine of each stub."""

LIBRARY_DTYPES = frozenset({"Float", "Double", "ComplexFloat", "ComplexDouble"})
"""What LAPACK and cuSOLVER compute in."""

KERNEL_NAMES = {
    "linalg_lu_factor_ex_stub": "lu",
    "_lu_solve_stub": "lu_solve",
    "linalg_cholesky_ex_stub": "cholesky",
    "linalg_solve_triangular_stub": "triangular_solve",
    "linalg_householder_product_stub": "orgqr",
    "linalg_eig_stub": "linalg_eig_out",
    "_linalg_eigvals_stub": "linalg_eig_out",
    "_least_squares_stub": "linalg_lstsq",
    "linalg_ldl_factor_ex_stub": "ldl_factor_kernel",
    "linalg_ldl_solve_stub": "ldl_solve_kernel",
}
"""PyTorch's kernel names in dtype errors, if they differ from the operator's name."""


def routine_of(stub: str, call: StructuredCall) -> LibraryRoutine:
    """Return the routine of a call.

    Raises NotImplementedError for dtypes other than float, double and their complex ones.
    """
    spec = next(value for value in call.args.values() if hasattr(value, "dtype"))
    if spec.dtype.scalar_name not in LIBRARY_DTYPES:
        kernel = KERNEL_NAMES.get(stub)
        if kernel is None:
            raise call.refuse(spec)
        raise NotImplementedError(
            f"\"{kernel}_{call.device.type}\" not implemented for '{spec.dtype.scalar_name}'"
        )
    return ROUTINES[stub](call)
