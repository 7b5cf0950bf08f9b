"""Convolutions whose kernel has one element and a stride of 1: images are the factors of products, without a copy.

Images of one position are the rows of one matrix, as a linear layer has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime.blas_threads import ONE_THREAD_WORK, on_one_thread, one_thread_if_small
from ...runtime.parallel import parallel_for
from ..plain_numpy import np

FEW_IMAGES = 16
"""Number of matmuls that are added in their own dtype: the BLAS adds more terms so within each."""
PRODUCT_BYTES = 16 << 20
"""Limit of the bytes of all images' matmuls before they are added."""
MIN_PART = 1 << 22
"""Multiplications of a thread's part."""

Array = np.ndarray[Any, Any]


def multiply(n: int, groups: int, positions: int, dtype: np.dtype[Any]) -> Callable[..., None]:
    """Return the matmul of matrices (groups, outputs, channels) by images (n, groups * channels, positions).

    The returned ``into(out, images, matrices, bias)`` serves the convolution, and the gradient of its input by the
    matrices transposed. All arrays but the matrices have C order and the dtype.
    """
    shape = (n, groups, -1, positions)
    as_rows = groups == positions == 1

    def into(out: Array, images: Array, matrices: Array, bias: Array | None = None) -> None:
        images = np.ascontiguousarray(images, dtype)
        if as_rows:
            matmul = one_thread_if_small(np.matmul, n * matrices.size)
            matmul(images.reshape(n, -1), matrices[0].T, out.reshape(n, -1))
        else:
            planes, target = images.reshape(shape), out.reshape(shape)

            def some(first: int, last: int) -> None:
                np.matmul(matrices, planes[first:last], out=target[first:last])

            _over_images(some, n, matrices.size * positions, groups)
        if bias is not None:
            out += bias.reshape(-1, *(1,) * (out.ndim - 2))

    return into


def _over_images(some: Callable[[int, int], None], n: int, work: int, groups: int) -> None:
    """Call ``some(first, last)`` over images of which each has this many multiplications in all groups.

    Several threads share small matmuls. The BLAS has its own threads for large ones, which start sooner.
    """
    if work // groups <= ONE_THREAD_WORK:
        parallel_for(0, n, max(1, MIN_PART // max(work, 1)), on_one_thread(some))
    else:
        some(0, n)


def is_summed_by_image(n: int, groups: int, outputs: int, channels: int, positions: int, size: int) -> bool:
    """Return True if a matmul for each image is cheaper than making the positions of all images contiguous."""
    if n == 1 or groups == positions == 1:
        return True
    weight = outputs * channels // groups
    return weight <= positions * (outputs + channels) and n * weight * size <= PRODUCT_BYTES


def weight_gradient(n: int, groups: int, positions: int, dtype: np.dtype[Any]) -> Callable[..., None]:
    """``into(out, grad, images)``: gradients (outputs, positions) by images (positions, channels), summed over images.

    The result has C order and the dtype.
    """
    shape = (n, groups, -1, positions)
    as_rows = groups == positions == 1

    def into(out: Array, grad: Array, images: Array) -> None:
        grad, images = np.ascontiguousarray(grad, dtype), np.ascontiguousarray(images, dtype)
        if as_rows:
            matmul = one_thread_if_small(np.matmul, n * out.size)
            matmul(grad.reshape(n, -1).T, images.reshape(n, -1), out.reshape(len(out), -1))
            return
        left, right = grad.reshape(shape), images.reshape(shape).swapaxes(2, 3)
        sizes = (groups, left.shape[2], right.shape[3])
        if n == 1:
            matmul = one_thread_if_small(np.matmul, out.size * positions // groups)
            matmul(left[0], right[0], out.reshape(sizes))
            return
        products = np.empty((n, *sizes), dtype)

        def some(first: int, last: int) -> None:
            np.matmul(left[first:last], right[first:last], out=products[first:last])

        _over_images(some, n, positions * out.size, groups)
        if n <= FEW_IMAGES or dtype != np.float32:
            np.add.reduce(products, axis=0, out=out.reshape(sizes))
        else:
            out.reshape(sizes)[...] = np.add.reduce(products, axis=0, dtype=np.float64)

    return into
