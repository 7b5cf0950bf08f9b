"""Triton programs of the CUDA backend and their launchers, a module for each family of operators.

They register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it
sees the `StructuredCall` once and returns the function over addresses that a plan calls. The root imports this
folder when a CUDA kernel is first wanted. That does not import Triton, and neither does a launch whose kernel
is in the store: modules here take `triton`, `tl` and `libdevice` from `runtime/cuda/lazy_triton.py`, never from
Triton itself. Nothing here computes on the host.
"""

from . import (
    activation,
    convolution,
    copy,
    dropout,
    factories,
    iterator_kernel,
    joint_reduction,
    matmul,
    matvec,
    mse_loss,
    multinomial,
    nll_loss,
    nonzero,
    picking,
    placing,
    pointwise,
    pooling,
    random,
    randperm,
    rearranging,
    reduction,
    renorm,
    scan,
    softmax,
)

__all__ = [
    "activation",
    "convolution",
    "copy",
    "dropout",
    "factories",
    "iterator_kernel",
    "joint_reduction",
    "matmul",
    "matvec",
    "mse_loss",
    "multinomial",
    "nll_loss",
    "nonzero",
    "picking",
    "placing",
    "pointwise",
    "pooling",
    "random",
    "randperm",
    "rearranging",
    "reduction",
    "renorm",
    "scan",
    "softmax",
]
