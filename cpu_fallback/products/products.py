"""Matmuls by BLAS; transposed operands are read in place, and 16-bit floats compute in float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.scalars import fitting_number, truncated
from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.blas_threads import ONE_THREAD_WORK, is_small, on_one_thread
from ...runtime.float_errors import quietly
from ...runtime.parallel import parallel_for
from ...runtime.scalar_type import dtype as ScalarType
from ...runtime.scalar_type import from_numpy_dtype
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.pointwise_math import gelu
from ..plain_numpy import dot as multiply_arrays
from ..plain_numpy import np
from ..widen import FLOAT32, NARROW
from .integer_matmul import integer_matmul
from .row_addition import row_addition

Array = np.ndarray[Any, Any]
Product = Callable[..., Any]

REFUSAL = {
    "mm": "addmm_impl_cpu_",
    "addmm": "addmm_impl_cpu_",
    "addbmm": "addmm_impl_cpu_",
    "mv": "addmv_impl_cpu",
    "addmv": "addmv_impl_cpu",
    "dot": "dot",
    "vdot": "dot",
    "bmm": "bmm",
    "baddbmm": "baddbmm",
}
"""The names under which PyTorch refuses a dtype."""


def is_blas_ready(spec: TensorSpec) -> bool:
    """Return True if BLAS takes the last two dimensions as they are: one is contiguous, the other has a larger
    stride.

    `np.dot` copies other operands; `np.matmul` would multiply them in a naive loop.
    """
    (rows, columns), (down, across) = spec.sizes[-2:], spec.strides[-2:]
    if rows <= 1 or columns <= 1:
        return False
    return (across == 1 and down >= columns) or (down == 1 and across >= rows)


def _is_blas(dtype: ScalarType) -> bool:
    return (dtype.is_floating_point and dtype not in NARROW) or dtype.is_complex


SHARED_WORK, SHARED_PART = 1 << 23, 1 << 21
"""Multiplications of all small matrices of a batch from which several threads share them, and of a thread's part."""
MIN_OUTER = 4096
"""Elements from which NumPy multiplies a column by a row quicker than BLAS."""


def outer_products(x: Any, y: Any, out: Any = None) -> Any:
    """Columns by rows, each of a batch: no sum, though one with zero, which takes the sign off a product of -0."""
    out = np.empty((len(x), x.shape[1], y.shape[2]), x.dtype) if out is None else out
    for column, row, made in zip(x, y, out, strict=True):
        np.multiply(column, row, made)
        made += 0
    return out


def product_of(call: StructuredCall, first: str, second: str) -> Product:
    """Return ``f(a, b)``: a new array in the dtype of the computation."""
    a, b = call.args[first], call.args[second]
    dtype: ScalarType = a.dtype
    if dtype.name == "bool":
        raise NotImplementedError(f"\"{REFUSAL[call.name]}\" not implemented for '{dtype.scalar_name}'")
    if dtype in NARROW:
        chosen("BLAS in float32", "BLAS has no products of {}, which is widened", dtype.name)
        return lambda x, y: np.matmul(x.astype(FLOAT32), y.astype(FLOAT32))
    if not _is_blas(dtype):
        chosen("integer products", "BLAS has no products of {}", dtype.name)
        return integer_matmul
    if a.ndim <= 2:
        chosen("BLAS in one call", "there is no batch, and np.dot takes transposed operands as they lie")
        return multiply_arrays
    if a.ndim == b.ndim == 3:
        return stack_product(a.sizes[0], *a.sizes[1:], b.sizes[2], is_blas_ready(a), is_blas_ready(b))
    return _of_ready(np.matmul, is_blas_ready(a), is_blas_ready(b))


def stack_product(count: int, rows: int, inner: int, columns: int, ready_a: bool, ready_b: bool) -> Product:
    """Return ``f(a, b)``, the batched matmul into a new array, in a dtype that BLAS has.

    Args:
        count: Number of matrices of each batch.
        rows: Rows of each matrix of the first batch.
        inner: Columns of those, and rows of the second batch's matrices (the K dimension).
        columns: Columns of the second batch's matrices.
        ready_a: If True, BLAS takes the first batch's matrices in place.
        ready_b: If True, BLAS takes the second batch's matrices in place.
    """
    if inner == 1 and rows * columns >= MIN_OUTER:
        why = "the inner side is 1, and each matrix of {} x {} has at least {} elements"
        chosen("outer products", why, rows, columns, MIN_OUTER)
        return outer_products
    return _of_ready(matmul_of(count, rows * inner * columns), ready_a, ready_b)


def matmul_of(count: int, multiplications: int) -> Product:
    """Return ``f(a, b, out=None)``, which multiplies a number of matrices, each by this many multiplications.

    Small matrices have one BLAS thread each; triten's pool shares them if they are many.
    """
    if count * multiplications >= SHARED_WORK and multiplications <= ONE_THREAD_WORK:
        return shared_matmul
    return small_matmul if is_small(multiplications) else np.matmul


small_matmul: Product = on_one_thread(np.matmul)
"""`np.matmul` by one BLAS thread."""


def shared_matmul(x: Array, y: Array, out: Array | None = None) -> Array:
    """Multiply the matrices of two batches (count, ., .) on several threads."""
    made: Array = np.empty((len(x), x.shape[1], y.shape[2]), np.result_type(x, y)) if out is None else out

    def some(first: int, last: int) -> None:
        np.matmul(x[first:last], y[first:last], made[first:last])

    parallel_for(0, len(made), max(1, SHARED_PART // (x[0].size * y.shape[2])), on_one_thread(some))
    return made


def takes_out(multiply: Product) -> bool:
    """Return True if a batched matmul writes to an array that is given as its third argument."""
    return multiply in (np.matmul, small_matmul, shared_matmul, outer_products)


def _of_ready(matmul: Product, ready_a: bool, ready_b: bool) -> Product:
    """BLAS for each matrix of a stack, of copies where it does not take one as it lies."""
    if ready_a and ready_b:
        chosen("BLAS for each matrix", "all matrices of the batch lie as BLAS takes them")
        return matmul
    which = "first" if not ready_a else "second"
    chosen(
        "BLAS over contiguous copies",
        "the {} operand's matrices have gaps on both sides, or a side of 1",
        which,
    )

    def gathered(x: Any, y: Any) -> Any:
        x = x if ready_a else np.ascontiguousarray(x)
        return matmul(x, y if ready_b else np.ascontiguousarray(y))

    return gathered


def _zero(out: Any, *_: Any) -> None:
    out.fill(0)


def product(first: str, second: str) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of a plain matmul of two operands."""

    def factory(call: StructuredCall) -> PlannedKernel:
        multiply = product_of(call, first, second)
        a, b, spec = call.args[first], call.args[second], call.outputs[0]
        if a.numel == 0 or b.numel == 0:
            return PlannedKernel(_zero)

        def assign(out: Any, x: Any, y: Any) -> None:
            np.copyto(out, multiply(x, y), casting="unsafe")

        if not _is_blas(a.dtype):
            return PlannedKernel(assign, quiet=True)
        if not spec.ndim:
            return PlannedKernel(_scalar_into, quiet=True)
        if multiply is multiply_arrays:
            if spec.ndim == 2 and not spec.is_contiguous:
                return PlannedKernel(
                    _into_transposed if is_blas_ready(spec) else assign, multiply_arrays, quiet=True
                )
            if not spec.is_contiguous:
                return PlannedKernel(assign, multiply_arrays, quiet=True)
            return PlannedKernel(_dot_into, multiply_arrays, quiet=True, unshared=_dot_unshared)
        if multiply is outer_products:
            return PlannedKernel(assign, multiply, quiet=True, unshared=_outer_into)
        if not takes_out(multiply) or not spec.is_contiguous:
            return PlannedKernel(assign, multiply, quiet=True)

        def into(out: Array, x: Array, y: Array) -> None:
            multiply(x, y, out)

        return PlannedKernel(into, multiply, quiet=True)

    return factory


def _dot_into(out: Any, a: Any, b: Any) -> None:
    if np.may_share_memory(out, a) or np.may_share_memory(out, b):
        out[...] = np.dot(a, b)
    else:
        np.dot(a, b, out)


def _dot_unshared(out: Any, a: Any, b: Any) -> None:
    a.dot(b, out)


def _scalar_into(out: Any, a: Any, b: Any) -> None:
    np.dot(a, b, out)


def _into_transposed(out: Any, a: Any, b: Any) -> None:
    """Compute out = a b with `out` in column-major order: its transpose is b^T a^T."""
    target = out.T
    if target.flags.c_contiguous:
        _dot_into(target, b.T, a.T)
    else:
        out[...] = np.dot(a, b)


def _outer_into(out: Any, a: Any, b: Any) -> None:
    outer_products(a, b, out)


def dot(call: StructuredCall) -> PlannedKernel:
    """Compute the dot product of two vectors."""
    return product("self", "tensor")(call)


def vdot(call: StructuredCall) -> PlannedKernel:
    """Compute the dot product with the first vector conjugated."""
    if not call.args["self"].dtype.is_complex:
        return product("self", "other")(call)

    def into(out: Any, a: Any, b: Any) -> None:
        out[...] = np.vdot(a, b)

    return PlannedKernel(into, quiet=True)


def scale_of(np_dtype: Any) -> Callable[[Any], Any]:
    """Return a function that casts a Python number to a dtype as C does: truncate, then wrap.

    It raises RuntimeError for numbers beyond a floating dtype's range.
    """
    if np_dtype.kind in "iu":
        name = np_dtype.name
        return lambda value: np.array(truncated(value.real, name) & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(
            np_dtype
        )
    fitting = fitting_number(from_numpy_dtype(np_dtype))
    return lambda value: np.array(fitting(value), np_dtype)


def product_sum(
    first: str, second: str, sum_batch: bool = False, activated: bool = False
) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the factory of beta * self + alpha * product; a beta of 0 drops `self`, including its NaNs.

    If `activated`, an epilogue applies relu, or gelu if the call asks for it, before the result is rounded.
    """

    def factory(call: StructuredCall) -> PlannedKernel:
        multiply = product_of(call, first, second)
        a, b, self_spec, spec = call.args[first], call.args[second], call.args["self"], call.outputs[0]
        np_dtype = FLOAT32 if a.dtype in NARROW else a.dtype.np
        names = call.runtime
        where_beta = names.index("beta") if "beta" in names else None
        where_alpha = names.index("alpha") if "alpha" in names else None
        cast = scale_of(np_dtype)
        is_empty = a.numel == 0 or b.numel == 0
        sizes = spec.sizes
        widen = self_spec.np_dtype != np_dtype

        def combined(*values: Any) -> Any:
            if is_empty:
                made = np.zeros(sizes, np_dtype)
            else:
                made = multiply(values[1], values[2])
                if sum_batch:
                    made = np.add.reduce(made, 0, np_dtype)
                if where_alpha is not None:
                    made *= cast(values[where_alpha])
            beta = 1 if where_beta is None else values[where_beta]
            if beta == 0:
                return made
            addend = values[0].astype(np_dtype) if widen else values[0]
            made += addend if where_beta is None else addend * cast(beta)
            return made

        finish = activation_of(call) if activated else None

        @quietly
        def into(out: Any, *values: Any) -> None:
            made = combined(*values)
            if finish is not None:
                finish(made)
            np.copyto(out, made, casting="unsafe")

        if finish is not None:
            return PlannedKernel(into)
        fresh = None if spec.np_dtype != np_dtype or not spec.ndim else quietly(combined)
        plain = where_beta is None and where_alpha is None and not is_empty and not widen
        if plain and multiply is multiply_arrays and spec.ndim == 2 and spec.is_contiguous:
            return _addmm(row_addition(*sizes, self_spec))
        return PlannedKernel(into, fresh)

    return factory


def activation_of(call: StructuredCall) -> Callable[[Any], None]:
    """Return a function that applies relu or gelu to an array in place."""
    if call.args["use_gelu"]:
        return lambda array: gelu(array, array)
    return lambda array: np.copyto(array, 0, where=array < 0)


def _addmm(add: Callable[[Array, Array], object]) -> PlannedKernel:
    """Return the kernel of a matmul of contiguous results, to which `add` adds the first argument in place."""

    def fresh(self: Array, a: Array, b: Array) -> Array:
        made = a.dot(b)
        add(made, self)
        return made

    def unshared(out: Array, self: Array, a: Array, b: Array) -> None:
        a.dot(b, out)
        add(out, self)

    def into(out: Array, self: Array, a: Array, b: Array) -> None:
        if np.may_share_memory(out, self) or np.may_share_memory(out, a) or np.may_share_memory(out, b):
            np.add(np.dot(a, b), self, out)
        else:
            unshared(out, self, a, b)

    return PlannedKernel(into, fresh, quiet=True, unshared=unshared)


def small_on_one_thread(
    first: str, second: str, factory: Callable[[StructuredCall], PlannedKernel]
) -> Callable[[StructuredCall], PlannedKernel]:
    """Return a factory whose small matmuls have one BLAS thread (`blas_threads.is_small`)."""

    def planned(call: StructuredCall) -> PlannedKernel:
        kernel, a, b = factory(call), call.args[first], call.args[second]
        if not is_small(a.numel * b.sizes[-1]) or not _is_blas(a.dtype):
            return kernel
        into, fresh, unshared = (
            None if each is None else on_one_thread(each)
            for each in (kernel.into, kernel.fresh, kernel.unshared)
        )
        assert into is not None
        return kernel._replace(into=into, fresh=fresh, unshared=unshared)

    return planned


register_stub("mm_stub", "cpu", small_on_one_thread("self", "mat2", product("self", "mat2")))
register_stub("bmm_stub", "cpu", product("self", "mat2"))
register_stub("mv_stub", "cpu", product("self", "vec"))
register_stub("dot_stub", "cpu", dot)
register_stub("vdot_stub", "cpu", vdot)
register_stub("addmm_stub", "cpu", small_on_one_thread("mat1", "mat2", product_sum("mat1", "mat2")))
register_stub("_addmm_activation_stub", "cpu", product_sum("mat1", "mat2", activated=True))
register_stub("addmv_stub", "cpu", product_sum("mat", "vec"))
register_stub("baddbmm_stub", "cpu", product_sum("batch1", "batch2"))
register_stub("addbmm_stub", "cpu", product_sum("batch1", "batch2", sum_batch=True))
