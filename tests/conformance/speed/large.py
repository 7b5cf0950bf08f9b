"""Large operands of operators whose samples do not grow by a rule, in the database's order of arguments.

An operator of several variants has a row for each of them.
"""

from collections.abc import Callable
from typing import Any

import torch

Made = tuple[list[Any], dict[str, Any]]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape)


def indices(end: int, *shape: int) -> torch.Tensor:
    return torch.randint(end, shape)


def given(*positional: Callable[[], Any] | Any, **named: Any) -> Callable[[], Made]:
    """Arguments made when they are wanted: what is callable is called."""
    make = lambda value: value() if callable(value) else value  # noqa: E731
    return lambda: (
        [make(value) for value in positional],
        {name: make(value) for name, value in named.items()},
    )


def some(*shape: int) -> Callable[[], torch.Tensor]:
    return lambda: normal(*shape)


def places(end: int, *shape: int) -> Callable[[], torch.Tensor]:
    return lambda: indices(end, *shape)


def definite(n: int) -> torch.Tensor:
    root = normal(n, n)
    return root @ root.mT / n + torch.eye(n)


def lower(n: int) -> torch.Tensor:
    return torch.linalg.cholesky(definite(n))


def _unpooled(*shape: int) -> Callable[[], Made]:
    """Return a maker of the values and indices that max pooling by windows of 2 returns for `shape`."""

    def made() -> Made:
        pool = {
            1: torch.nn.functional.max_pool1d,
            2: torch.nn.functional.max_pool2d,
            3: torch.nn.functional.max_pool3d,
        }
        values, where = pool[len(shape) - 2](normal(*shape), 2, return_indices=True)
        return [values, where], {"kernel_size": 2}

    return made


LINE, IMAGE, VOLUME = (8, 32, 4096), (8, 32, 64, 64), (2, 16, 32, 32, 32)
MATRIX = 256

LARGE: dict[str, Callable[[], Made]] = {
    # Windows over images.
    **{
        f"nn.functional.{name}{len(shape) - 2}d": given(some(*shape), *rest)
        for shape in (LINE, IMAGE, VOLUME)
        for name, rest in (
            ("avg_pool", (2,)),
            ("max_pool", (2,)),
            ("adaptive_avg_pool", (8,)),
            ("adaptive_max_pool", (8,)),
            ("conv", (some(32, shape[1], *[3] * (len(shape) - 2)), some(32))),
            ("conv_transpose", (some(shape[1], 32, *[3] * (len(shape) - 2)), some(32))),
        )
    },
    **{f"nn.functional.max_unpool{len(shape) - 2}d": _unpooled(*shape) for shape in (LINE, IMAGE, VOLUME)},
    "nn.functional.fractional_max_pool2d": given(some(*IMAGE), kernel_size=2, output_size=32),
    "nn.functional.fractional_max_pool3d": given(some(*VOLUME), kernel_size=2, output_size=16),
    "nn.functional.unfold": given(some(8, 16, 64, 64), 3),
    "nn.functional.fold": given(some(8, 144, 3844), (64, 64), 3),
    "nn.functional.pixel_shuffle": given(some(*IMAGE), 4),
    "nn.functional.pixel_unshuffle": given(some(*IMAGE), 4),
    "nn.functional.channel_shuffle": given(some(*IMAGE), 4),
    "nn.functional.local_response_norm": given(some(*IMAGE), 5),
    "nn.functional.grid_sample": given(
        some(*IMAGE), lambda: torch.rand(8, 64, 64, 2) * 2 - 1, align_corners=False
    ),
    "grid_sampler_2d": given(some(*IMAGE), lambda: torch.rand(8, 64, 64, 2) * 2 - 1, 0, 0, False),
    "grid_sampler_3d": given(some(*VOLUME), lambda: torch.rand(2, 32, 32, 32, 3) * 2 - 1, 0, 0, False),
    "nn.functional.upsample_nearest": given(some(8, 16, 64, 64), scale_factor=2),
    "nn.functional.upsample_bilinear": given(some(8, 16, 64, 64), scale_factor=2),
    "_upsample_bilinear2d_aa": given(some(8, 16, 64, 64), (128, 128), False),
    # Layers.
    "nn.functional.linear": given(some(512, 512), some(512, 512), some(512)),
    "nn.functional.bilinear": given(some(512, 64), some(512, 64), some(64, 64, 64), some(64)),
    "nn.functional.layer_norm": given(some(1024, 1024), (1024,), some(1024), some(1024)),
    "nn.functional.rms_norm": given(some(1024, 1024), (1024,), some(1024)),
    "native_layer_norm": given(some(1024, 1024), (1024,), some(1024), some(1024), 1e-5),
    "nn.functional.group_norm": given(some(*IMAGE), 8, some(32), some(32)),
    "native_group_norm": given(some(*IMAGE), some(32), some(32), 8, 32, 4096, 8, 1e-5),
    "nn.functional.batch_norm": given(
        some(*IMAGE), lambda: torch.zeros(32), lambda: torch.ones(32), some(32), some(32), training=True
    ),
    "nn.functional.instance_norm": given(some(*IMAGE)),
    "nn.functional.embedding": given(some(10000, 128), places(10000, 8192)),
    "nn.functional.embedding_bag": given(some(10000, 128), places(10000, 1024, 8)),
    "nn.functional.scaled_dot_product_attention": given(
        some(4, 8, 256, 64), some(4, 8, 256, 64), some(4, 8, 256, 64)
    ),
    "nn.functional.cross_entropy": given(some(1024, 1024), places(1024, 1024)),
    "nn.functional.nll_loss": given(some(1024, 1024), places(1024, 1024)),
    "nn.functional.multi_margin_loss": given(some(1024, 1024), places(1024, 1024)),
    "nn.functional.ctc_loss": given(
        lambda: torch.log_softmax(normal(128, 16, 64), 2),
        lambda: torch.randint(1, 64, (16, 30)),
        lambda: torch.full((16,), 128),
        lambda: torch.full((16,), 30),
    ),
    "nn.functional.pdist": given(some(512, 64)),
    "cdist": given(some(512, 64), some(512, 64)),
    # Matrices.
    **{
        name: given(lambda: definite(MATRIX))
        for name in (
            *(
                "cholesky",
                "cholesky_inverse",
                "inverse",
                "pinverse",
                "qr",
                "svd",
                "logdet",
                "matrix_exp",
                "lu",
            ),
            *(
                "linalg.cholesky",
                "linalg.cholesky_ex",
                "linalg.cond",
                "linalg.det",
                "linalg.eig",
                "linalg.eigh",
            ),
            *("linalg.eigvals", "linalg.eigvalsh", "linalg.inv", "linalg.inv_ex", "linalg.ldl_factor"),
            *(
                "linalg.ldl_factor_ex",
                "linalg.lu",
                "linalg.lu_factor",
                "linalg.lu_factor_ex",
                "linalg.matrix_rank",
            ),
            *("linalg.pinv", "linalg.qr", "linalg.slogdet", "linalg.svd", "linalg.svdvals", "geqrf"),
        )
    },
    "linalg.matrix_power": given(lambda: definite(MATRIX), 5),
    "linalg.solve": given(lambda: definite(MATRIX), some(MATRIX, 64)),
    "linalg.solve_ex": given(lambda: definite(MATRIX), some(MATRIX, 64)),
    "linalg.lstsq": given(some(512, 128), some(512, 16)),
    "linalg.multi_dot": given(lambda: [normal(256, 512), normal(512, 128), normal(128, 256)]),
    "linalg.solve_triangular": given(lambda: lower(MATRIX), some(MATRIX, 64), upper=False),
    "triangular_solve": given(some(MATRIX, 64), lambda: lower(MATRIX), upper=False),
    "cholesky_solve": given(some(MATRIX, 64), lambda: lower(MATRIX)),
    "mm": given(some(512, 512), some(512, 512)),
    "matmul": given(some(512, 512), some(512, 512)),
    "__rmatmul__": given(some(512, 512), some(512, 512)),
    "addmm": given(some(512, 512), some(512, 512), some(512, 512)),
    "bmm": given(some(64, 128, 128), some(64, 128, 128)),
    "baddbmm": given(some(64, 128, 128), some(64, 128, 128), some(64, 128, 128)),
    "addbmm": given(some(128, 128), some(64, 128, 128), some(64, 128, 128)),
    "mv": given(some(1024, 1024), some(1024)),
    "addmv": given(some(1024), some(1024, 1024), some(1024)),
    "einsum": given(lambda: [normal(512, 512), normal(512, 512)], "ij,jk->ik"),
    "tensordot": given(some(64, 64, 64), some(64, 64, 64), dims=1),
    # Factories, shapes and windows.
    **{name: given((1024, 1024)) for name in ("empty", "full", "ones", "zeros", "randn", "rand")},
    "full": given((1024, 1024), 1.5),
    "eye": given(1024, 1024),
    "arange": given(1 << 20),
    "linspace": given(0.0, 1.0, 1 << 20),
    "logspace": given(0.0, 1.0, 1 << 20),
    "randint": given(0, 10, (1024, 1024)),
    "normal": given(some(1024, 1024), lambda: torch.rand(1024, 1024)),
    "multinomial": given(lambda: torch.rand(1024, 1024), 16),
    **{
        f"signal.windows.{name}": given(1 << 20)
        for name in (
            "bartlett",
            "blackman",
            "cosine",
            "hamming",
            "hann",
            "nuttall",
            "gaussian",
            "exponential",
            "kaiser",
        )
    },
    "reshape": given(some(1024, 1024), (512, 2048)),
    "view": given(some(1024, 1024), (512, 2048)),
    "view_copy": given(some(1024, 1024), (512, 2048)),
    "expand": given(some(1, 1024), (1024, 1024)),
    "expand_copy": given(some(1, 1024), (1024, 1024)),
    "broadcast_to": given(some(1, 1024), (1024, 1024)),
    "repeat": given(some(256, 1024), (4, 1)),
    "tile": given(some(256, 1024), (4, 1)),
    "unflatten": given(some(1024, 1024), 1, (32, 32)),
    "split_with_sizes": given(some(1024, 1024), [256, 256, 512]),
    "split_with_sizes_copy": given(some(1024, 1024), [256, 256, 512]),
    # Places.
    "gather": given(some(1024, 1024), 1, places(1024, 1024, 1024)),
    "scatter": given(some(1024, 1024), 1, places(1024, 1024, 1024), some(1024, 1024)),
    "scatter_add": given(some(1024, 1024), 1, places(1024, 1024, 1024), some(1024, 1024)),
    **{
        f"scatter_reduce.{how}": given(some(1024, 1024), 1, places(1024, 1024, 1024), some(1024, 1024), how)
        for how in ("sum", "prod", "mean", "amax", "amin")
    },
    "index_select": given(some(1024, 1024), 0, places(1024, 1024)),
    "index_add": given(some(1024, 1024), 0, places(1024, 1024), some(1024, 1024)),
    "index_copy": given(some(1024, 1024), 0, lambda: torch.randperm(1024), some(1024, 1024)),
    **{
        f"index_reduce.{how}": given(some(1024, 1024), 0, places(1024, 1024), some(1024, 1024), how)
        for how in ("prod", "mean", "amax", "amin")
    },
    "take": given(some(1024, 1024), places(1 << 20, 1 << 20)),
    "searchsorted": given(lambda: normal(10000).sort().values, some(1024, 1024)),
    "bucketize": given(some(1024, 1024), lambda: normal(1000).sort().values),
    "kthvalue": given(some(1024, 1024), 10),
    "topk": given(some(1024, 1024), 10),
    "sort": given(some(1024, 1024)),
    "argsort": given(some(1024, 1024)),
    "msort": given(some(1024, 1024)),
    "unique": given(lambda: indices(1000, 1 << 18).float()),
    "unique_consecutive": given(lambda: indices(4, 1 << 18).float()),
    "isin": given(lambda: indices(1000, 1 << 18).float(), lambda: indices(1000, 100).float()),
}
