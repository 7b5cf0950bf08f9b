"""Matmul operators, and the choice of the kernel for each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.choices import chosen
from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.allocator import get_allocator
from ...runtime.float32_precision import matmul_allows_tf32
from ...runtime.tensor_spec import TensorSpec
from ..elementwise.copy import copy_kernel
from ..launch import ALIGNMENT, interpreted, launch_nothing
from .bulk import plan_bulk, plan_row
from .complex_matmul import complex_product
from .matmul import plan_tiled
from .matvec import Lines, division_of, plan_product
from .problem import CannotFuse, Epilogue, FusedEpilogue, Matrices, Problem, Scales, expanded
from .product import accumulation
from .repacked import plan_repacked, turned


def precision_of(call: StructuredCall, spec: TensorSpec) -> str:
    """Return how a matmul multiplies its operands: unrounded, or rounded to TF32 if the process allows it."""
    return "tf32" if spec.dtype.name == "float32" and matmul_allows_tf32() else "ieee"


def plan_matmul(
    call: StructuredCall,
    left: TensorSpec,
    right: TensorSpec,
    addend: TensorSpec | None,
    scales: Scales | None,
    activation: str | None = None,
    fused: FusedEpilogue | None = None,
) -> Callable[..., None]:
    """Return ``launch(a address, b address, [addend address,] out address, *scales)``.

    With a fused epilogue the addresses of its operands and results come before the scales. Raises CannotFuse where the
    kernel that serves the product takes none.
    """
    out = call.outputs[0]
    problem = Problem(
        call.device,
        accumulation(call, left),
        Matrices.of(left),
        Matrices.of(right),
        Matrices.of(out),
        Epilogue(None if addend is None else expanded(addend, out), scales, activation, fused=fused),
        precision_of(call, left),
    )
    vectors = plan_vectors(problem)
    if vectors is not None:
        if fused is not None:
            raise CannotFuse("one of its sides is 1")
        chosen(
            "lines by a vector",
            "the result has {} x {} elements, one side of which is 1",
            problem.m,
            problem.n,
        )
        return vectors
    lies_across = any(turned(problem))
    bulk = None if lies_across else plan_bulk(problem)
    if bulk is None:
        repacked = plan_repacked(problem)
        if repacked is not None:
            if fused is not None:
                raise CannotFuse("its operands are repacked")
            chosen(
                "persistent, over repacked operands",
                "an operand's lines are no multiples of 16 bytes apart, or lie across the inner side of a product in "
                "TF32, and {} x {} x {} is worth the copy",
                *(problem.m, problem.n, problem.k),
            )
            return repacked
        bulk = plan_bulk(problem) if lies_across else None
    if bulk is None:
        chosen(
            "tiled, through pointers",
            "no tensor descriptors serve it, and a copy of operands is not worth it",
        )
        return plan_tiled(problem)
    chosen(
        "persistent, by tensor descriptors",
        "{} goes to tensor cores, lines are multiples of 16 bytes apart, and the device has a bulk copy",
        problem.left.dtype.name,
    )
    pointers = 3 if addend is None else 4
    if fused is not None:
        tiled = plan_tiled(problem.unlimited)
        return where_aligned(bulk, pointers, lambda: tiled)
    return with_other_way(bulk, problem, pointers)


def plan_vectors(problem: Problem) -> Callable[..., None] | None:
    """Return the matrix-vector kernel for results with a single row or column, or None for others.

    A matrix that a whole batch shares uses tiles, which read it once for many vectors.
    """
    if problem.epilogue.activation is not None or 1 not in (problem.m, problem.n):
        return None
    by_row = problem.m == 1 and problem.n != 1
    matrix, vector = (problem.right, problem.left) if by_row else (problem.left, problem.right)
    # The matrix's line dimension and its K dimension; the vector is contiguous along the first of them.
    line, inner = (2, 1) if by_row else (1, 2)
    if problem.batch > 1 and matrix.strides[0] == 0:
        return None
    out, addend = problem.out, problem.epilogue.addend
    sizes = problem.batch, out.sizes[line], problem.k
    lines = Lines(matrix.dtype, matrix.strides[0], matrix.strides[line], matrix.strides[inner])
    product = plan_product(
        problem.device,
        problem.how,
        sizes,
        lines,
        Lines(vector.dtype, vector.strides[0], vector.strides[line]),
        Lines(out.dtype, out.strides[0], out.strides[line]),
        None if addend is None else Lines(addend.dtype, addend.strides[0], addend.strides[line]),
        problem.epilogue.scales,
    )

    def run(*arguments: int | float) -> None:
        a, b, *rest = arguments
        old = None if addend is None else rest.pop(0)
        out_data, *numbers = rest
        if by_row:
            product(b, a, old, out_data, numbers)
        else:
            product(a, b, old, out_data, numbers)

    if not by_row or interpreted():
        return run
    # A row by a matrix whose rows are contiguous takes two launches of `matvec`, and one of Stream-K.
    streamed = plan_row(problem, division_of(problem.device, sizes, lines).splits > 1)
    pointers = 3 if addend is None else 4
    return run if streamed is None else where_aligned(streamed, pointers, lambda: run)


def with_other_way(bulk: Callable[..., None], problem: Problem, pointers: int) -> Callable[..., None]:
    """`bulk` where all addresses are multiples of 16, and else a plan through pointers, made when first wanted."""
    return where_aligned(bulk, pointers, lambda: plan_tiled(problem))


def where_aligned(
    aligned: Callable[..., None], pointers: int, other: Callable[[], Callable[..., None]]
) -> Callable[..., None]:
    """`aligned` where the first addresses are all multiples of 16, and else what `other` makes when first wanted."""
    made: list[Callable[..., None]] = []

    def run(*arguments: int) -> None:
        bits = 0
        for address in arguments[:pointers]:
            bits |= address
        if bits % ALIGNMENT == 0:
            aligned(*arguments)
            return
        if not made:
            made.append(other())
        made[0](*arguments)

    return run


def product(names: tuple[str, str]) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of ``left @ right`` for two matrices or batches; `names` are the operands'."""

    def factory(call: StructuredCall) -> PlannedKernel:
        left, right = call.args[names[0]], call.args[names[1]]
        if left.dtype.is_complex:
            return complex_product(call, names)
        accumulation(call, left)
        if call.outputs[0].numel == 0:
            return PlannedKernel(launch_nothing)
        run = plan_matmul(call, left, right, None, None)
        return PlannedKernel(lambda out, x, y: run(x.address, y.address, out.address))

    return factory


OPERANDS = {
    "mm": ("self", "mat2"),
    "bmm": ("self", "mat2"),
    "addmm": ("mat1", "mat2"),
    "_addmm_activation": ("mat1", "mat2"),
    "baddbmm": ("batch1", "batch2"),
}
"""The matrices of each operator."""
ACTIVATIONS = {None: None, False: "relu", True: "gelu"}
"""By `_addmm_activation`'s ``use_gelu``, which the others do not have."""


def product_sum(names: tuple[str, str]) -> Callable[[StructuredCall], PlannedKernel]:
    """Return the kernel factory of ``beta * self + alpha * (left @ right)``; a beta of 0 drops `self`, its NaNs
    too.

    For a call with ``use_gelu``, the epilogue applies gelu (by erf, on every backend) or relu.
    """

    def factory(call: StructuredCall) -> PlannedKernel:
        left, right, addend = call.args[names[0]], call.args[names[1]], call.args["self"]
        if left.dtype.is_complex:
            return complex_product(call, names)
        scales = Scales(call, accumulation(call, left))
        if call.outputs[0].numel == 0:
            return PlannedKernel(launch_nothing)
        activation = ACTIVATIONS[call.args.get("use_gelu")]
        with_it = plan_matmul(call, left, right, addend, scales, activation)
        without = plan_matmul(call, left, right, None, scales, activation)

        def into(out: Any, *inputs: Any) -> None:
            has_addend, numbers = scales.values(inputs)
            old, x, y = inputs[:3]
            if has_addend:
                with_it(x.address, y.address, old.address, out.address, *numbers)
            else:
                without(x.address, y.address, out.address, *numbers)

        return PlannedKernel(into)

    return factory


def folded(spec: TensorSpec) -> TensorSpec | None:
    """Return (b, n, k) as a matrix (n, b * k), or None if the strides do not allow it."""
    (b, n, k), (sb, sn, sk) = spec.sizes, spec.strides
    if b != 1 and k != 1 and sb != k * sk:
        return None
    return spec.replace(sizes=(n, b * k), strides=(sn, sb if k == 1 else sk))


def transposed(spec: TensorSpec) -> TensorSpec:
    """Return the spec with its last two dimensions exchanged."""
    return spec.replace(
        sizes=(*spec.sizes[:-2], spec.sizes[-1], spec.sizes[-2]),
        strides=(*spec.strides[:-2], spec.strides[-1], spec.strides[-2]),
    )


def gapless_fold(spec: TensorSpec) -> TensorSpec:
    """(b, n, k) with the strides of a contiguous (n, b, k), which folds."""
    b, _, k = spec.sizes
    return spec.replace(strides=(k, b * k, 1))


def addbmm(call: StructuredCall) -> PlannedKernel:
    """Compute the sum over the batch as one matmul whose K dimension includes the batch."""
    batches = (call.args["batch1"], transposed(call.args["batch2"]))
    if not batches[0].dtype.is_complex:
        accumulation(call, batches[0])
    if call.outputs[0].numel == 0:
        return PlannedKernel(launch_nothing)
    matrices: list[TensorSpec] = []
    gathers: list[tuple[Any, int] | None] = []
    for spec in batches:
        matrix = folded(spec)
        if matrix is None:
            gapless = gapless_fold(spec)
            gathers.append((copy_kernel(gapless, spec), gapless.numel * gapless.itemsize))
            matrix = folded(gapless)
            assert matrix is not None
        else:
            gathers.append(None)
        matrices.append(matrix)
    args = {**call.args, "batch1": matrices[0], "batch2": transposed(matrices[1])}
    multiply = product_sum(("batch1", "batch2"))(call._replace(args=args)).into
    allocate, device = get_allocator("cuda").allocate, call.device

    def into(out: Any, old: Any, *inputs: Any) -> None:
        operands = list(inputs)
        for i, gather in enumerate(gathers):
            if gather is not None:
                copy, nbytes = gather
                operands[i] = allocate(nbytes, device)
                copy(operands[i], inputs[i])
        multiply(out, old, *operands)

    return PlannedKernel(into)


register_stub("mm_stub", "cuda", product(OPERANDS["mm"]))
register_stub("bmm_stub", "cuda", product(OPERANDS["bmm"]))
register_stub("addmm_stub", "cuda", product_sum(OPERANDS["addmm"]))
register_stub("_addmm_activation_stub", "cuda", product_sum(OPERANDS["_addmm_activation"]))
register_stub("baddbmm_stub", "cuda", product_sum(OPERANDS["baddbmm"]))
register_stub("addbmm_stub", "cuda", addbmm)
for _name in ("mm", "bmm"):
    register_stub(f"{_name}_dtype_stub", "cuda", product(OPERANDS[_name]))
for _name in ("addmm", "baddbmm"):
    register_stub(f"{_name}_dtype_stub", "cuda", product_sum(OPERANDS[_name]))
