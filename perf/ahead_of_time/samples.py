"""Calls of operators that reach every declared kernel, dtype and configuration; nothing is computed.

Tensors are large enough to fill the tiles, and operands contiguous, aligned and of whole lengths unless the label
says otherwise.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...dispatch.structured.stub import load_kernels
from ...triton_kernels.normalization.clusters import MIN_DESIGN
from .attention_samples import attention, packed_sequences
from .complex_samples import complex_numbers
from .complex_samples import functions as complex_functions
from .convolution_samples import convolutions
from .foreach_samples import foreach
from .indexing_samples import searches
from .joining_samples import joins
from .layout_samples import layouts
from .normalization_samples import normalizations
from .optimizer_samples import optimizers
from .pointwise_samples import copies, elementwise, fake_quantization, pointwise_functions, quantization
from .pointwise_samples import functions as real_functions
from .product_samples import products
from .recurrent_samples import recurrent_cells
from .reduction_samples import (
    extremes_and_moments,
    joint_reductions,
    pools,
    reductions,
    scans,
    segments,
    sequences,
)
from .resampling_samples import resampling, sampling
from .sample import FLOATING, INTEGRAL, NUMBERS, SIZES, Sample, empty, gradients, tt
from .sorting_samples import sorting
from .sparse_samples import sparse_products
from .special_samples import functions as special_function_names
from .special_samples import special_functions

__all__ = ["functions", "kernel_files", "samples"]


def kernel_files() -> dict[str, Path]:
    """Return the modules whose kernels the samples must reach, and their files."""
    package = importlib.import_module("...triton_kernels", __package__)
    load_kernels("cuda")
    folder = Path(package.__path__[0])
    files = sorted(folder.rglob("*.py"))
    return {
        ".".join((package.__name__, *file.relative_to(folder).with_suffix("").parts)): file for file in files
    }


def functions() -> list[Any]:
    """Return the functions of elementwise operators, each of which some sample must launch."""
    return [*real_functions(), *complex_functions(), *special_function_names()]


def samples(capability: int) -> Iterator[Sample]:
    """Yield all samples, the most important first, since `--quick` takes the first samples of a kernel."""
    for family in (
        elementwise,
        layouts,
        complex_numbers,
        copies,
        pointwise_functions,
        fake_quantization,
        quantization,
        reductions,
        extremes_and_moments,
        joint_reductions,
        rows,
        normalizations,
        scans,
        segments,
        sparse_products,
        losses,
        cross_entropies,
        sequences,
        products,
        attention,
        packed_sequences,
        convolutions,
        pools,
        resampling,
        sampling,
        random_numbers,
        recurrent_cells,
        permutations,
        indexing,
        searches,
        optimizers,
        foreach,
        joins,
        sorting,
        special_functions,
    ):
        yield from family(capability)


def rows(capability: int) -> Iterator[Sample]:
    for function, dtypes in ((tt.softmax, FLOATING), (tt.log_softmax, ("float32",))):
        name = function.__name__
        for dtype in dtypes:
            for length in (4096, 8192, 1024):
                yield Sample(
                    f"{name} {dtype} rows of {length}",
                    lambda f=function, d=dtype, m=length: gradients(
                        lambda x: f(x, 1), empty(4096, m, dtype=d)
                    ),
                    ("softmax", "softmax_backward"),
                )
            for length in (4096, 256, 128):
                yield Sample(
                    f"{name} {dtype} columns of {length}",
                    lambda f=function, d=dtype, m=length: gradients(
                        lambda x: f(x, 0), empty(m, 4096, dtype=d)
                    ),
                )
            yield Sample(
                f"{name} {dtype} long rows of odd length",
                lambda f=function, d=dtype: gradients(lambda x: f(x, 1), empty(64, 50_257, dtype=d)),
            )


def losses(capability: int) -> Iterator[Sample]:
    nll = tt.nn.functional.nll_loss
    target, labels = empty(4096, dtype="int64"), empty(16, 64, 64, dtype="int64")
    for dtype in FLOATING:
        x, weight, image = (empty(*sizes, dtype=dtype) for sizes in ((4096, 1024), (1024,), (16, 16, 64, 64)))
        yield Sample(f"nll_loss {dtype}", lambda x=x: gradients(lambda y: nll(y, target), x))
        yield Sample(
            f"nll_loss weighted {dtype}",
            lambda x=x, w=weight: gradients(lambda y: nll(y, target, w, reduction="sum"), x),
        )
        yield Sample(
            f"nll_loss2d {dtype}",
            lambda x=image: gradients(lambda y: nll(y, labels, reduction="none"), x),
        )


def cross_entropies(capability: int) -> Iterator[Sample]:
    """Rows of all lengths, cut and whole, and columns; classes and probabilities, weighted and smoothed."""
    loss, kernels = tt.nn.functional.cross_entropy, ("cross_entropy", "cross_entropy_backward")
    # Rows of two, four and eight blocks of a cluster; masses beside the longest ones are added up in blocks.
    clustered = (32768, 131072, 262144) if capability >= MIN_DESIGN else ()
    for dtype in FLOATING:
        for length in (4096, 8192, 1024, 50257, *clustered):
            x, target = empty(512, length, dtype=dtype), empty(512, dtype="int64")
            yield Sample(
                f"cross_entropy {dtype} rows of {length}",
                lambda x=x, t=target: gradients(lambda y: loss(y, t), x),
                # Elements of 64 bits are loaded one by one where rows are of odd length.
                () if dtype == "float64" and length % 2 else kernels,
            )
        x, weight, target = (
            empty(*s, dtype=d) for s, d in (((512, 8192), dtype), ((8192,), dtype), ((512,), "int64"))
        )
        likely = empty(512, 8192, dtype=dtype)
        yield Sample(
            f"cross_entropy {dtype} smoothed",
            lambda x=x, t=target, w=weight: gradients(lambda y: loss(y, t, w, label_smoothing=0.1), x),
        )
        yield Sample(
            f"cross_entropy {dtype} probabilities",
            lambda x=x, t=likely, w=weight: gradients(lambda y: loss(y, t, w, reduction="none"), x),
        )
        for length in (50257, *clustered[-1:]):
            x, weight = empty(512, length, dtype=dtype), empty(length, dtype=dtype)
            yield Sample(
                f"cross_entropy {dtype} smoothed rows of {length}",
                lambda x=x, t=target, w=weight: gradients(lambda y: loss(y, t, w, label_smoothing=0.1), x),
            )
        for length in (512, 256, 128):
            x, target = empty(16, length, 64, 64, dtype=dtype), empty(16, 64, 64, dtype="int64")
            yield Sample(
                f"cross_entropy {dtype} columns of {length}",
                lambda x=x, t=target: gradients(lambda y: loss(y, t), x),
            )


DISTRIBUTIONS = ("uniform_", "normal_", "random_", "bernoulli_", "exponential_", "cauchy_", "log_normal_")


def random_numbers(capability: int) -> Iterator[Sample]:
    fill = ("fill_with_draws",)
    n = 1 << 16
    for dtype in FLOATING:
        for name in DISTRIBUTIONS if dtype == "float32" else DISTRIBUTIONS[:4]:
            yield Sample(f"{name} {dtype}", lambda f=name, d=dtype: getattr(empty(n, dtype=d), f)(), fill)
        yield Sample(
            f"dropout {dtype}", lambda d=dtype: tt.native_dropout(empty(n, dtype=d), 0.5, True), ("drop",)
        )
    for dtype in (*INTEGRAL, "bool"):
        yield Sample(f"random_ {dtype}", lambda d=dtype: empty(n, dtype=d).random_(), fill)
    yield Sample("geometric_ float32", lambda: empty(n).geometric_(0.5), fill)
    yield Sample("random_ int64 of a wide range", lambda: empty(n, dtype="int64").random_(-5, 1 << 40), fill)
    yield Sample("normal of tensors", lambda: tt.normal(empty(64, 64), 1.0))
    yield Sample("bernoulli of a tensor", lambda: tt.bernoulli(empty(64, 64)))
    rejection = ("fill_by_rejection",)
    for dtype in FLOATING:
        x = empty(n, dtype=dtype)
        yield Sample(f"standard_gamma {dtype}", lambda x=x: tt._standard_gamma(x), rejection)
        yield Sample(f"poisson {dtype}", lambda x=x: tt.poisson(x), rejection)
        yield Sample(f"binomial {dtype}", lambda x=x: tt.binomial(x, x), rejection)
        gradients_of_shapes = ("shape_gradients",)
        yield Sample(
            f"standard_gamma_grad {dtype}", lambda x=x: tt._standard_gamma_grad(x, x), gradients_of_shapes
        )
        yield Sample(f"dirichlet_grad {dtype}", lambda x=x: tt._dirichlet_grad(x, x, x), gradients_of_shapes)
        rows = empty(256, 256, dtype=dtype)
        yield Sample(f"sample_dirichlet {dtype}", lambda x=rows: tt._sample_dirichlet(x), ("normalize_rows",))
    for dtype in (*FLOATING, *INTEGRAL):
        yield Sample(
            f"arange {dtype}",
            lambda d=dtype: tt.arange(n, dtype=getattr(tt, d), device="cuda"),
            ("indexed",),
        )
    yield Sample(
        "linspace bfloat16", lambda: tt.linspace(0, 1, n, dtype=tt.bfloat16, device="cuda"), ("indexed",)
    )


def permutations(capability: int) -> Iterator[Sample]:
    for dtype in ("int64", "int32", "float32"):
        yield Sample(
            f"few randperm {dtype}", lambda d=dtype: tt.randperm(2000, dtype=getattr(tt, d), device="cuda")
        )
        yield Sample(
            f"many randperm {dtype}",
            lambda d=dtype: tt.randperm(1000000, dtype=getattr(tt, d), device="cuda"),
        )
    yield Sample("multinomial with replacement", lambda: tt.multinomial(empty(8, 5000), 1000, True))
    yield Sample("multinomial", lambda: tt.multinomial(empty(8, 5000), 10))


def indexing(capability: int) -> Iterator[Sample]:
    picked, two = empty(4096, dtype="int64"), empty(16, 4096, dtype="int32")
    each = empty(4096, 64, dtype="int64")
    for dtype in SIZES.values():
        x, wide = empty(10000, 64, dtype=dtype), empty(4096, 64, dtype=dtype)
        yield Sample(f"index {dtype}", lambda x=x: x[picked], ("pick_runs",))
        long = empty(1000, 4096, dtype=dtype)
        yield Sample(f"index long rows {dtype}", lambda x=long: x[picked], ("pick_runs",))
        yield Sample(f"index twice {dtype}", lambda x=x: x[picked, two])
        yield Sample(f"gather {dtype}", lambda x=x: x.gather(0, each), ("pick",))
        yield Sample(f"index_put {dtype}", lambda x=x, v=wide: x.index_put((picked,), v))
        yield Sample(f"index_put twice {dtype}", lambda x=x: x.index_put((picked, two), x[:16, :1]))
        yield Sample(f"tril {dtype}", lambda x=x: x.tril(-1))
    for dtype in NUMBERS:
        x, wide = empty(10000, 64, dtype=dtype), empty(4096, 64, dtype=dtype)
        yield Sample(f"index_add {dtype}", lambda x=x, v=wide: x.index_add(0, picked, v))
        yield Sample(f"nonzero {dtype}", lambda x=x: x.nonzero(), ("count_nonzero",))
    yield Sample("triu float32", lambda: empty(10000, 64).triu())
    for dtype in ("float32", "float64"):
        x, wide = empty(10000, 64, dtype=dtype), empty(4096, 64, dtype=dtype)
        yield Sample(f"index_add {dtype} with alpha", lambda x=x, v=wide: x.index_add(0, picked, v, alpha=3))
        yield Sample(f"scatter_add {dtype}", lambda x=x: x.scatter_add(0, each, x))
        for how in ("mean", "amax", "amin"):
            yield Sample(
                f"scatter_reduce {how} {dtype}",
                lambda x=x, r=how: x.scatter_reduce(0, each, x, r, include_self=r != "amin"),
            )
        yield Sample(f"scatter multiply {dtype}", lambda x=x: x.scatter(0, each, x, reduce="multiply"))
    for dtype in FLOATING:
        x, wide = empty(10000, 512, dtype=dtype), empty(4096, 64, dtype=dtype)
        yield Sample(
            f"embedding backward {dtype}",
            lambda v=wide: tt.ops.aten.embedding_dense_backward(v, picked, 10000, 3, True),
        )
        for norm in (2.0, 0.0, 1.0, 3.0, float("inf")) if dtype == "float32" else (2.0, 3.0):
            yield Sample(
                f"renorm {norm} {dtype}", lambda x=x, p=norm: tt.embedding_renorm_(x, picked, 1.0, p)
            )
    huge, bytes_ = empty(1 << 32, 1, dtype="uint8"), empty(4096, 1, dtype="uint8")
    yield Sample("index_put uint8 of 2**32 rows", lambda: huge.index_put((picked,), bytes_))
    yield Sample("index_add uint8 of 2**32 rows", lambda: huge.index_add(0, picked, bytes_))
    yield Sample("nonzero uint8 of 2**32", lambda: huge.nonzero())
    yield Sample("nonzero float32 of 2**25", lambda: empty(1 << 25).nonzero())
