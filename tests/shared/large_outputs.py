"""Calls whose results are far larger than their operands, by the number of elements that they are to have."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import triten as tt

F = tt.nn.functional
MOST = 2**63 - 1


def root(n: int, k: int = 2) -> int:
    """Return a number whose k-th power is about n."""
    return max(1, min(MOST, round(n ** (1 / k))))


def wide(n: int, *rest: int) -> Any:
    """Return a tensor of n equal rows over one element of memory."""
    return tt.ones(1).expand(n, *rest)


def indices(n: int) -> Any:
    """Return n indices that are zero, over one element of memory."""
    return tt.zeros(1, dtype=tt.int64).expand(n)


def mask(n: int) -> Any:
    """Return a mask of n elements that all hold, over one element of memory."""
    return tt.ones(1, dtype=tt.bool).expand(n)


def image() -> Any:
    """Return an image of one channel and 3 by 3 pixels."""
    return tt.ones(1, 1, 3, 3)


CALLS: Mapping[str, Callable[[int], Any]] = {
    "add": lambda n: wide(root(n), 1) + wide(root(n)),
    "adaptive_avg_pool1d": lambda n: F.adaptive_avg_pool1d(tt.ones(1, 1, 3), n),
    "adaptive_avg_pool2d": lambda n: F.adaptive_avg_pool2d(image(), root(n)),
    "adaptive_max_pool1d": lambda n: F.adaptive_max_pool1d(tt.ones(1, 1, 3), n),
    "adaptive_max_pool3d": lambda n: F.adaptive_max_pool3d(tt.ones(1, 1, 3, 3, 3), root(n, 3)),
    "affine_grid": lambda n: F.affine_grid(tt.ones(1, 2, 3), (1, 1, root(n), root(n)), align_corners=False),
    "arange": lambda n: tt.arange(n),
    "arange of small steps": lambda n: tt.arange(0.0, 1.0, 1 / n),
    "bernoulli": lambda n: tt.bernoulli(wide(n)),
    "bincount": lambda n: tt.bincount(tt.tensor([min(n, MOST - 1)])),
    "bincount, minlength": lambda n: tt.bincount(tt.tensor([1]), minlength=n),
    "block_diag": lambda n: tt.block_diag(*[wide(root(n), 1)] * 3, wide(1, root(n))),
    "bucketize": lambda n: tt.bucketize(wide(n), tt.ones(3)),
    "cartesian_prod": lambda n: tt.cartesian_prod(*[tt.ones(2)] * min(60, n.bit_length())),
    "cat": lambda n: tt.cat([wide(n)] * 2),
    "cdist": lambda n: tt.cdist(wide(root(n), 2), wide(root(n), 2), p=1.0),
    "chunk": lambda n: tt.chunk(wide(n), n),
    "clone": lambda n: wide(n).clone(),
    "combinations": lambda n: tt.combinations(tt.ones(n.bit_length()), n.bit_length() // 2),
    "constant_pad_nd": lambda n: tt.constant_pad_nd(tt.ones(3), (n // 2, n // 2)),
    "conv1d": lambda n: F.conv1d(tt.ones(1, 1, 3), tt.ones(1, 1, 1), padding=n // 2),
    "conv_transpose1d": lambda n: F.conv_transpose1d(tt.ones(1, 1, 3), tt.ones(1, 1, 1), stride=n),
    "conv_transpose2d": lambda n: F.conv_transpose2d(
        image(), tt.ones(1, 1, 2, 2), stride=root(n), dilation=2
    ),
    "cov": lambda n: tt.cov(wide(root(n), 2)),
    "cumsum": lambda n: tt.cumsum(wide(n), 0),
    "diag": lambda n: tt.diag(tt.ones(3), root(n)),
    "diag_embed": lambda n: tt.diag_embed(tt.ones(3), root(n)),
    "diagflat": lambda n: tt.diagflat(tt.ones(3), -root(n)),
    "einsum": lambda n: tt.einsum("a,b->ab", *[wide(root(n))] * 2),
    "embedding": lambda n: F.embedding(indices(n), tt.ones(2, 3)),
    "embedding_bag": lambda n: F.embedding_bag(indices(1), tt.ones(2, 3), indices(n)),
    "empty_strided": lambda n: tt.empty_strided((2, 2), (n, 1)),
    "eye": lambda n: tt.eye(root(n)),
    "fft": lambda n: tt.fft.fft(tt.ones(3), n=n),
    "fft2": lambda n: tt.fft.fft2(tt.ones(3, 3), s=(root(n), root(n))),
    "fftfreq": lambda n: tt.fft.fftfreq(n),
    "fold": lambda n: F.fold(tt.ones(1, 4, 1), root(n), 2, stride=root(n)),
    "fractional_max_pool2d": lambda n: F.fractional_max_pool2d(image(), 2, output_size=root(n)),
    "full": lambda n: tt.full((n,), 1.0),
    "gather": lambda n: tt.gather(tt.ones(3), 0, indices(n)),
    "grid_sample": lambda n: F.grid_sample(image(), wide(1, root(n), root(n), 2), align_corners=False),
    "hann_window": lambda n: tt.hann_window(n),
    "histc": lambda n: tt.histc(tt.ones(3), n),
    "histogram": lambda n: tt.histogram(tt.ones(3), n),
    "histogramdd": lambda n: tt.histogramdd(tt.ones(3, 2), [root(n), root(n)]),
    "histogramdd of 8 dimensions": lambda n: tt.histogramdd(tt.ones(3, 8), [root(n, 8) + 1] * 8),
    "index": lambda n: tt.ones(3)[indices(n)],
    "index_select": lambda n: tt.index_select(tt.ones(3), 0, indices(n)),
    "interpolate": lambda n: F.interpolate(tt.ones(1, 1, 3), size=n),
    "interpolate, area": lambda n: F.interpolate(image(), size=(root(n), root(n)), mode="area"),
    "interpolate, bicubic": lambda n: F.interpolate(image(), size=(root(n), root(n)), mode="bicubic"),
    "interpolate, bilinear": lambda n: F.interpolate(image(), size=(root(n), root(n)), mode="bilinear"),
    "interpolate, scale": lambda n: F.interpolate(tt.ones(1, 1, 3), scale_factor=float(n)),
    "irfft": lambda n: tt.fft.irfft(tt.ones(3), n=n),
    "istft": lambda n: tt.istft(tt.ones(3, 3).cfloat(), 4, length=n, window=tt.ones(4)),
    "kron": lambda n: tt.kron(wide(root(n)), wide(root(n))),
    "linspace": lambda n: tt.linspace(0, 1, n),
    "local_response_norm": lambda n: F.local_response_norm(tt.ones(1, 3, 3), n),
    "logspace": lambda n: tt.logspace(0, 1, n),
    "masked_scatter": lambda n: tt.masked_scatter(wide(n), mask(n), tt.ones(3)),
    "masked_select": lambda n: tt.masked_select(tt.ones(1), mask(n)),
    "masked_select of large elements": lambda n: tt.masked_select(wide(root(n), root(n)), mask(1)),
    "mask as an index": lambda n: wide(n)[mask(n)],
    "mask to fill": lambda n: wide(n).index_put((mask(n),), tt.ones(())),
    "matmul": lambda n: tt.matmul(wide(root(n), 1), wide(1, root(n))),
    "max_unpool1d": lambda n: F.max_unpool1d(tt.ones(1, 1, 2), tt.zeros(1, 1, 2).long(), 2, n),
    "meshgrid": lambda n: tt.meshgrid(*[tt.ones(2)] * n.bit_length(), indexing="ij")[0].clone(),
    "multinomial": lambda n: tt.multinomial(tt.ones(3), n, True),
    "new_full": lambda n: tt.ones(3).new_full((n,), 1),
    "nonzero_static of a large mask": lambda n: tt.nonzero_static(wide(n), size=3),
    "nonzero_static": lambda n: tt.nonzero_static(tt.ones(3), size=n),
    "nonzero": lambda n: tt.nonzero(wide(n)),
    "nonzero of rows": lambda n: tt.nonzero(wide(root(n), root(n))),
    "normal": lambda n: tt.normal(wide(n), 1.0),
    "one_hot": lambda n: F.one_hot(tt.arange(3), n),
    "one_hot of a large index": lambda n: F.one_hot(tt.tensor([min(n, MOST - 1)])),
    "outer": lambda n: tt.outer(wide(root(n)), wide(root(n))),
    "pad": lambda n: F.pad(image(), (root(n),) * 4),
    "pad, replicate": lambda n: F.pad(tt.ones(1, 1, 3), (n, 0), mode="replicate"),
    "pdist": lambda n: tt.pdist(wide(2 * root(n), 1)),
    "pixel_shuffle": lambda n: F.pixel_shuffle(wide(1, n, 1, 1), max(1, math.isqrt(n))),
    "poisson": lambda n: tt.poisson(wide(n)),
    "rand": lambda n: tt.rand(root(n), root(n)),
    "randint": lambda n: tt.randint(0, 5, (n,)),
    "randperm": lambda n: tt.randperm(n),
    "range": lambda n: tt.range(0, n),
    "renorm": lambda n: tt.renorm(wide(n, 4), 2, 0, 1),
    "repeat": lambda n: tt.ones(3).repeat(n),
    "repeat, several": lambda n: tt.ones(3).repeat(root(n), root(n), 2),
    "repeat_interleave": lambda n: tt.repeat_interleave(tt.ones(3), n),
    "repeat_interleave, tensor": lambda n: tt.repeat_interleave(tt.ones(3), tt.tensor([n, 1, 1])),
    "repeat_interleave, output_size": lambda n: tt.repeat_interleave(tt.ones(3), indices(3), output_size=n),
    "resize_": lambda n: tt.ones(3).resize_(n),
    "softmax": lambda n: tt.softmax(wide(n), 0),
    "sort": lambda n: tt.sort(wide(n)),
    "sparse to_dense": lambda n: tt.sparse_coo_tensor(
        tt.tensor([[0]]), tt.ones(1), (n,), check_invariants=False
    ).to_dense(),
    "split": lambda n: tt.split(wide(n), 1),
    "stack": lambda n: tt.stack([wide(n)] * 2),
    "take": lambda n: tt.take(tt.ones(3), indices(n)),
    "tensor_split": lambda n: tt.tensor_split(tt.ones(3), n),
    "tensordot": lambda n: tt.tensordot(wide(root(n)), wide(root(n)), 0),
    "tile": lambda n: tt.tile(tt.ones(3), (n,)),
    "to": lambda n: wide(n).to(tt.float64),
    "tril": lambda n: tt.tril(wide(root(n), root(n))),
    "tril_indices": lambda n: tt.tril_indices(2 * root(n), root(n)),
    "triu_indices": lambda n: tt.triu_indices(root(n), 2 * root(n)),
    "unbind": lambda n: tt.unbind(wide(n)),
    "unique": lambda n: tt.unique(wide(n)),
    "unique_consecutive": lambda n: tt.unique_consecutive(wide(n)),
    "unfold": lambda n: F.unfold(image(), 2, padding=root(n)),
    "vander": lambda n: tt.vander(tt.ones(3), n),
    "where": lambda n: tt.where(tt.ones(1).bool().expand(root(n), 1), wide(root(n)), 1.0),
}
"""Calls of the default device; each result has about n elements or views, or is refused."""

ALLOWED = (RuntimeError, ValueError, TypeError, MemoryError)
"""What a call may raise whose result is too large: `MemoryError` where PyTorch's CPU allocator raises RuntimeError."""
