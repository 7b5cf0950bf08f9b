"""1x1 convolutions as matmuls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...dispatch.structured.stub import StructuredCall, find_kernel
from ...runtime.float32_precision import matmul_allows_tf32
from ...runtime.tensor_spec import TensorSpec
from ..products.fused import plan_fused
from ..products.problem import CannotFuse, FusedEpilogue
from .problem import Problem
from .volume import rounds_to_tf32


def rows_of(spec: TensorSpec) -> TensorSpec | None:
    """Return a volume's pixels as a matrix (pixels, channels), or None if they have no common stride."""
    n, c, d, h, w = spec.sizes
    pixels, pitch = n * d * h * w, None
    running = 1
    for size, stride in zip((w, h, d, n), (*spec.strides[:1:-1], spec.strides[0]), strict=True):
        if size == 1:
            continue
        if pitch is None:
            pitch = stride
        elif stride != pitch * running:
            return None
        running *= size
    return spec.replace(sizes=(pixels, c), strides=(c if pitch is None else pitch, spec.strides[1]))


def planes_of(spec: TensorSpec) -> TensorSpec | None:
    """Return a volume as matrices (N, channels, pixels), or None if an image's pixels have no common stride."""
    n, c = spec.sizes[:2]
    image = rows_of(spec.replace(sizes=(1, *spec.sizes[1:]), strides=spec.strides))
    if image is None:
        return None
    return spec.replace(
        sizes=(n, c, image.sizes[0]), strides=(spec.strides[0], spec.strides[1], image.strides[0])
    )


def is_product(problem: Problem) -> bool:
    """Return True if a convolution is one matmul, in a precision that matmuls also use."""
    if problem.groups != 1 or not problem.window.is_pointwise or problem.channels == 0:
        return False
    if problem.source.dtype.name == "float32" and rounds_to_tf32() != matmul_allows_tf32():
        return False
    specs = (problem.source, problem.out)
    if all(spec.strides[1] == 1 and rows_of(spec) is not None for spec in specs):
        return True
    return all(planes_of(spec) is not None for spec in specs)


def plan_product(call: StructuredCall, problem: Problem) -> Callable[..., None]:
    """Return ``run(out, source, weight, bias or None)`` over data, by the stubs of products.

    With channels innermost all pixels are rows of one matrix; else an image's are columns of one, each image's of its
    own.
    """
    source, weight, out, bias = problem.source, problem.weight, problem.out, problem.bias
    k_stride, n_stride, _ = problem.weight_strides(weight)
    k, n = problem.channels, problem.columns
    left, result = rows_of(source), rows_of(out)
    args: dict[str, Any]
    if left is not None and result is not None and source.strides[1] == out.strides[1] == 1:
        names = ("mm", "self", "mat2") if bias is None else ("addmm", "mat1", "mat2")
        args = {names[1]: left, names[2]: weight.replace(sizes=(k, n), strides=(k_stride, n_stride))}
        data_first = True
        if bias is not None:
            args = {"self": bias} | args
    else:
        right, result = planes_of(source), planes_of(out)
        assert right is not None and result is not None
        filters = weight.replace(sizes=(source.sizes[0], n, k), strides=(0, n_stride, k_stride))
        names = ("bmm", "self", "mat2") if bias is None else ("baddbmm", "batch1", "batch2")
        args = {names[1]: filters, names[2]: right}
        data_first = False
        if bias is not None:
            args = {"self": bias.replace(sizes=(n, 1), strides=(bias.strides[0], 0))} | args
    runtime = tuple(args)
    if bias is not None:
        args |= {"beta": 1, "alpha": 1}
    inner = call._replace(
        name=names[0], args=args, runtime=runtime, outputs=(result,), iterator=None, extra={}
    )
    if problem.fused is not None:
        if data_first != problem.fused.is_channels_last:
            raise CannotFuse("its pixels are rows of another matrix than the epilogue's")
        return _plan_fused(inner, problem.fused, data_first)
    multiply = find_kernel(f"{names[0]}_stub", "cuda", names[0])(inner).into

    def run(out_data: Any, data: Any, filters: Any, offset: Any = None) -> None:
        operands = (data, filters) if data_first else (filters, data)
        if offset is None:
            multiply(out_data, *operands)
        else:
            multiply(out_data, offset, *operands)

    return run


def _plan_fused(inner: StructuredCall, fused: FusedEpilogue, data_first: bool) -> Callable[..., None]:
    """Return the matmul with a fused epilogue, called as `plan_product`'s are."""
    multiply, _ = plan_fused(inner, {}, fused)

    def run(out: Any, data: Any, filters: Any, offset: Any = None, *rest: int) -> None:
        operands = (data, filters) if data_first else (filters, data)
        addresses = [each.address for each in (*operands, *(() if offset is None else (offset,)), out)]
        multiply(*addresses, *rest)

    return run
