"""NumPy kernels of the CPU, a module for each family of operators.

They register under stubs at import and reach users through the dispatcher only. A kernel is a factory: it
sees the `StructuredCall` (dtypes, sizes, strides) once, and returns the function over ndarrays that a plan
calls. No loop over elements in Python.
"""

from . import (
    activation,
    adaptive_pooling,
    attention,
    convolution,
    copy,
    embedding,
    factories,
    fft,
    fold,
    grid_sampler,
    indexing,
    linalg,
    line_maps,
    loss,
    normalization,
    optimizers,
    pointwise,
    pooling,
    random,
    reduction,
    scaled_mm,
    scan,
    softmax,
    sorting,
)

__all__ = [
    "activation",
    "adaptive_pooling",
    "attention",
    "convolution",
    "copy",
    "embedding",
    "factories",
    "fft",
    "fold",
    "grid_sampler",
    "indexing",
    "linalg",
    "line_maps",
    "loss",
    "normalization",
    "optimizers",
    "pointwise",
    "pooling",
    "random",
    "reduction",
    "scaled_mm",
    "scan",
    "softmax",
    "sorting",
]
