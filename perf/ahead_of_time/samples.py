"""Calls of operators that reach every declared kernel, dtype and configuration; nothing is computed.

Tensors are large enough to fill the tiles, and operands contiguous, aligned and of whole lengths unless the label
says otherwise.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from .optimizer_samples import optimizers
from .pointwise_samples import copies, elementwise, functions, pointwise_functions
from .sample import FLOATING, INTEGRAL, NUMBERS, SIZES, Sample, empty, gradients, tt

__all__ = ["functions", "kernel_files", "samples"]


def kernel_files() -> dict[str, Path]:
    """The modules whose kernels these calls are to reach, and their files."""
    package = importlib.import_module("...triton_kernels", __package__)
    folder = Path(package.__path__[0])
    files = sorted(folder.rglob("*.py"))
    return {
        ".".join((package.__name__, *file.relative_to(folder).with_suffix("").parts)): file for file in files
    }


def samples(capability: int) -> Iterator[Sample]:
    """Every call; those that matter most come first, for `--quick` takes a kernel's first ones."""
    for family in (
        elementwise,
        copies,
        pointwise_functions,
        reductions,
        joint_reductions,
        rows,
        scans,
        losses,
        products,
        convolutions,
        pools,
        random_numbers,
        permutations,
        indexing,
        optimizers,
    ):
        yield from family(capability)


def reductions(capability: int) -> Iterator[Sample]:
    yield Sample("sum float32 rows", lambda: empty(4096, 4096).sum(1), ("reduce",))
    for dtype in NUMBERS:
        yield Sample(f"sum {dtype} rows", lambda d=dtype: empty(4096, 4096, dtype=d).sum(1), ("reduce",))
    for dtype in (*FLOATING, "int64"):
        yield Sample(f"sum {dtype} columns", lambda d=dtype: empty(4096, 65536, dtype=d).sum(0), ("reduce",))
        yield Sample(f"sum {dtype} short rows", lambda d=dtype: empty(65536, 64, dtype=d).sum(1))
    for name in ("amax", "amin", "prod", "any", "all", "mean"):
        yield Sample(f"{name} float32 rows", lambda n=name: getattr(empty(4096, 4096), n)(1))
    for dtype in ("float64", "int8"):
        yield Sample(f"amax {dtype} rows", lambda d=dtype: empty(4096, 4096, dtype=d).amax(1))
    yield Sample("sum float32 all", lambda: empty(1 << 22).sum())
    yield Sample("sum int64 all", lambda: empty(1 << 22, dtype="int64").sum())
    yield Sample("sum float32 columns of few", lambda: empty(1 << 16, 128).sum(0))
    yield Sample("sum float32 rows of odd length", lambda: empty(4096, 4095).sum(1))
    yield Sample("sum float32 over two of four", lambda: empty(64, 32, 64, 32).sum((1, 3)))


def joint_reductions(capability: int) -> Iterator[Sample]:
    wide = ("reduce_jointly",)
    yield Sample("var float32 rows", lambda: empty(4096, 4096).var(1), wide)
    for dtype in ("float32", "float64", "bfloat16", "float16"):
        for name in ("var_mean", "logsumexp"):
            x = empty(4096, 4096, dtype=dtype)
            yield Sample(f"{name} {dtype} rows", partial(getattr(tt, name), x, 1), wide)
    for name in ("std", "std_mean", "argmax", "argmin"):
        yield Sample(f"{name} float32 rows", partial(getattr(tt, name), empty(4096, 4096), 1), wide)
    for name in ("var", "logsumexp", "argmax"):
        for dtype in ("float32", "float64"):
            x = empty(4096, 65536, dtype=dtype)
            yield Sample(f"{name} {dtype} columns", partial(getattr(tt, name), x, 0))
    for dtype in ("float32", "float64", "bfloat16", "int64", "int8", "bool"):
        yield Sample(f"max {dtype} rows", lambda d=dtype: empty(4096, 4096, dtype=d).max(1), wide)
        yield Sample(
            f"aminmax {dtype} rows", lambda d=dtype: tt.aminmax(empty(4096, 4096, dtype=d), dim=1), wide
        )
    yield Sample("max int8 of short rows", lambda: empty(65536, 64, dtype="int8").max(1))
    yield Sample("argmax int8 all", lambda: empty(1 << 22, dtype="int8").argmax())
    yield Sample("var float32 all", lambda: empty(1 << 22).var())
    yield Sample("logsumexp float32 all", lambda: tt.logsumexp(empty(1 << 22), 0))
    for dtype in ("float32", "float64", "bfloat16"):
        x, y = empty(1 << 22, dtype=dtype), empty(1 << 22, dtype=dtype)
        yield Sample(f"mse_loss {dtype}", lambda x=x, y=y: tt.nn.functional.mse_loss(x, y))


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


def scans(capability: int) -> Iterator[Sample]:
    for dtype in NUMBERS:
        yield Sample(f"cumsum {dtype} rows", lambda d=dtype: empty(4096, 4096, dtype=d).cumsum(1))
    for dtype in ("float32", "float64", "int64"):
        yield Sample(f"cumsum {dtype} columns", lambda d=dtype: empty(512, 65536, dtype=d).cumsum(0))
        yield Sample(f"cumsum {dtype} all", lambda d=dtype: empty(1 << 22, dtype=d).cumsum(0))


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


def products(capability: int) -> Iterator[Sample]:
    wide = ("matmul",)
    for dtype in ("bfloat16", "float32", "float16", "float64", "int32", "int64", "int8", "int16", "uint8"):
        for n in (4096, 512):
            m = empty(n, n, dtype=dtype)
            yield Sample(f"mm {dtype} {n}", partial(tt.mm, m, m), wide if dtype in FLOATING else ())
        v = empty(4096, dtype=dtype)
        large = empty(4096, 4096, dtype=dtype)
        if dtype in FLOATING:
            yield Sample(f"mm {dtype} transposed", partial(tt.mm, large.t(), large))
            yield Sample(f"mm {dtype} by transposed", partial(tt.mm, large, large.t()))
        if dtype in ("bfloat16", "float32", "int64"):
            yield Sample(f"addmm {dtype}", lambda v=v, m=large: tt.addmm(v, m, m, alpha=2, beta=3))
            yield Sample(f"dot {dtype}", lambda d=dtype: empty(1 << 22, dtype=d).dot(empty(1 << 22, dtype=d)))
        yield Sample(f"mv {dtype}", partial(tt.mv, empty(1 << 16, 4096, dtype=dtype), v), ("matvec",))
        yield Sample(f"mv {dtype} short rows", partial(tt.mv, empty(65536, 64, dtype=dtype), v[:64]))
        yield Sample(f"mv {dtype} transposed", partial(tt.mv, empty(4096, 1 << 16, dtype=dtype).t(), v))
    for dtype in ("bfloat16", "float16"):
        for m, k, n in ((4095, 4095, 4095), (333, 777, 555)):
            a, b = empty(m, k, dtype=dtype), empty(k, n, dtype=dtype)
            yield Sample(f"mm {dtype} of odd sizes, {m}", partial(tt.mm, a, b))
    for dtype in FLOATING:
        for n in (4096, 512):
            a, b = empty(n, n, dtype=dtype, offset=1), empty(n, n, dtype=dtype)
            yield Sample(f"mm {dtype} unaligned, {n}", partial(tt.mm, a, b))
    a, b = empty(8, 24, dtype="bfloat16"), empty(24, 40, dtype="bfloat16")
    yield Sample("mm bfloat16 of small sizes", partial(tt.mm, a, b))
    batch = empty(64, 512, 512, dtype="float16")
    yield Sample("baddbmm float16", lambda: tt.baddbmm(batch[0], batch, batch, beta=2))
    yield Sample("addbmm float16", lambda: tt.addbmm(batch[0], batch, batch))
    yield Sample("addmv float32", lambda: tt.addmv(empty(4096), empty(4096, 4096), empty(4096), beta=2))


def convolutions(capability: int) -> Iterator[Sample]:
    for dtype in ("bfloat16", "float32", "float16", "float64"):
        layouts = ((64, "contiguous"), (1, "few"))
        if dtype in ("bfloat16", "float32"):
            layouts = ((64, "channels last"), *layouts)
        for images, layout in layouts:
            x = empty(images, 64, 28, 28, dtype=dtype, last=layout == "channels last")
            w = empty(128, 64, 3, 3, dtype=dtype, last=layout == "channels last")
            b = empty(128, dtype=dtype)
            yield Sample(
                f"conv2d {dtype} {layout}",
                lambda x=x, w=w, b=b: gradients(lambda *a: tt.conv2d(*a, (1, 1), (1, 1)), x, w, b),
            )
        many, filters = empty(16, 256, 14, 14, dtype=dtype), empty(1024, 256, 3, 3, dtype=dtype)
        yield Sample(
            f"conv2d {dtype} of many channels",
            partial(gradients, lambda a, f: tt.conv2d(a, f, None, (1, 1), (1, 1)), many, filters),
        )
    strided = empty(16, 64, 57, 57, dtype="bfloat16")
    w = empty(128, 32, 3, 3, dtype="bfloat16")
    yield Sample(
        "conv2d bfloat16 with strides, dilation and groups",
        lambda: gradients(lambda a, f: tt.conv2d(a, f, None, (2, 2), (1, 1), (2, 2), 2), strided, w),
    )


WINDOW = {"kernel_size": (3, 3), "stride": (2, 2), "padding": (1, 1)}


def pools(capability: int) -> Iterator[Sample]:
    functions = importlib.import_module("...dispatch.generated.functions", __package__)
    for dtype in FLOATING:
        for name in ("max_pool2d", "avg_pool2d"):
            for last in (False, True) if dtype in ("float32", "bfloat16") else (False,):
                x = empty(32, 64, 56, 56, dtype=dtype, last=last)
                yield Sample(
                    f"{name} {dtype}{' channels last' if last else ''}",
                    partial(gradients, partial(getattr(functions, name), **WINDOW), x),
                )
    for dtype in INTEGRAL:
        for name in ("max_pool2d", "avg_pool2d"):
            x = empty(32, 64, 56, 56, dtype=dtype)
            yield Sample(f"{name} {dtype}", partial(getattr(functions, name), x, **WINDOW))


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
        yield Sample(f"index {dtype}", lambda x=x: x[picked])
        yield Sample(f"index twice {dtype}", lambda x=x: x[picked, two])
        yield Sample(f"gather {dtype}", lambda x=x: x.gather(0, each))
        yield Sample(f"index_put {dtype}", lambda x=x, v=wide: x.index_put((picked,), v))
        yield Sample(f"index_put twice {dtype}", lambda x=x: x.index_put((picked, two), x[:16, :1]))
        yield Sample(f"tril {dtype}", lambda x=x: x.tril(-1))
    for dtype in NUMBERS:
        x, wide = empty(10000, 64, dtype=dtype), empty(4096, 64, dtype=dtype)
        yield Sample(f"index_add {dtype}", lambda x=x, v=wide: x.index_add(0, picked, v))
        yield Sample(f"nonzero {dtype}", lambda x=x: x.nonzero())
    yield Sample("triu float32", lambda: empty(10000, 64).triu())
    for dtype in ("float32", "float64"):
        x, wide = empty(10000, 64, dtype=dtype), empty(4096, 64, dtype=dtype)
        yield Sample(f"index_add {dtype} with alpha", lambda x=x, v=wide: x.index_add(0, picked, v, alpha=3))
        yield Sample(f"scatter_add {dtype}", lambda x=x: x.scatter_add(0, each, x))
        yield Sample(f"scatter multiply {dtype}", lambda x=x: x.scatter(0, each, x, reduce="multiply"))
    for dtype in FLOATING:
        x, wide = empty(10000, 512, dtype=dtype), empty(4096, 64, dtype=dtype)
        yield Sample(
            f"embedding backward {dtype}",
            lambda v=wide: tt.embedding_dense_backward(v, picked, 10000, 3, True),
        )
        for norm in (2.0, 0.0, 1.0, 3.0, float("inf")) if dtype == "float32" else (2.0, 3.0):
            yield Sample(
                f"renorm {norm} {dtype}", lambda x=x, p=norm: tt.embedding_renorm_(x, picked, 1.0, p)
            )
    huge, bytes_ = empty(1 << 32, 1, dtype="uint8"), empty(4096, 1, dtype="uint8")
    yield Sample("index_put uint8 of 2**32 rows", lambda: huge.index_put((picked,), bytes_))
    yield Sample("index_add uint8 of 2**32 rows", lambda: huge.index_add(0, picked, bytes_))
    yield Sample("nonzero uint8 of 2**32", lambda: huge.nonzero())
