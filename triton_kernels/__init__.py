"""Triton programs of the CUDA backend and their launchers, a module for each family of operators.

They register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it
sees the `StructuredCall` once and returns the function over addresses that a plan calls. Importing this
folder imports Triton; the root does it when a CUDA kernel is first wanted, after `driver()` has chosen
between a GPU and the interpreter. Nothing here computes on the host.
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
