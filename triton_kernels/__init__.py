"""Triton programs of the CUDA backend and their launchers, a folder for each family of operators.

They register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it
sees the `StructuredCall` once and returns the function over addresses that a plan calls. The root imports this
folder when a CUDA kernel is first wanted. That does not import Triton, and neither does a launch whose kernel
is in the store: modules here take `triton`, `tl` and `libdevice` from `runtime/cuda/lazy_triton.py`, never from
Triton itself. Nothing here computes on the host.

`autotune` is for users, as `tt.triton_kernels.autotune`.
"""

from importlib import import_module

from .tuning.autotune import autotune as autotune

REGISTERING = (
    "attention.backward",
    "attention.forward",
    "convolution.backward_weight",
    "convolution.convolution",
    "elementwise.activation",
    "elementwise.copy",
    "elementwise.factories",
    "elementwise.iterator_kernel",
    "elementwise.pointwise",
    "factorization.library",
    "indexing.embedding_bag",
    "fft.fft",
    "indexing.nonzero",
    "indexing.picking",
    "indexing.placing",
    "indexing.rearranging",
    "indexing.searching",
    "loss.ctc",
    "loss.mse_loss",
    "loss.nll_loss",
    "normalization.batch_norm",
    "normalization.group_norm",
    "normalization.row_norm",
    "normalization.row_norm_backward",
    "normalization.softmax",
    "optimizers.fused",
    "pooling.fractional",
    "pooling.pooling",
    "products.mm",
    "products.matvec",
    "products.scaled_mm",
    "random.dropout",
    "random.multinomial",
    "random.random",
    "random.randperm",
    "recurrent.cells",
    "reduction.complex_logcumsumexp",
    "reduction.complex_logsumexp",
    "reduction.complex_reduction",
    "reduction.extreme_index",
    "reduction.extreme_scan",
    "reduction.hashing",
    "reduction.joint_reduction",
    "reduction.moments",
    "reduction.renorm",
    "reduction.scan",
    "reduction.segments",
    "resampling.fold",
    "resampling.grid_sampler",
    "resampling.line_maps",
    "sorting.sort",
    "special.special",
)
"""Modules that register kernels; the others are imported by these."""

for _name in REGISTERING:
    import_module(f".{_name}", __name__)
