"""Samples of scans, and of pooling over volumes and even shares."""

from __future__ import annotations

from .arguments import D, I, T
from .samples import EXACT, Sample, rows

X = T("a b")
IMAGES, VOLUMES = T("n g h w"), T("n 2 3 h w")

SAMPLES: list[Sample] = [
    *rows("cumprod", T("a b", low=0.5, high=1.5), 1, terms="b", dtypes="f", roundings=2),
    *rows("cumprod", T("a b", low=0.5, high=1.5), 0, terms="a", dtypes="fi", roundings=2),
    *rows("cumprod_backward", X, T("a b", low=0.5, high=1.5), 0, T("a b", low=0.5, high=1.5), terms="a a", dtypes="f",
          roundings=4),
    *rows("cummax cummin", X, 1, kind=EXACT, dtypes="fib", special=True),
    *rows("cummax cummin", X, 0, kind=EXACT, dtypes="fib"),
    *rows("cummaxmin_backward", X, X, I("a b", "b"), 1, terms="b", dtypes="f"),
    *rows("logcumsumexp", X, 1, terms="b", dtypes="f", roundings=4, special=True),
    *rows("logcumsumexp", X, 0, terms="a", dtypes="f", roundings=4),
    # Small angles: which of those that differ by whole turns is given depends on the order of summation.
    *rows("logcumsumexp", T("a b", low=0.0, high=0.5), 0, terms="a", dtypes="c", roundings=8),
    *rows("max_pool3d max_pool3d_with_indices", VOLUMES, [2, 2, 3], [1, 2, 1], [1, 0, 1], [1, 2, 1], True, kind=EXACT,
          dtypes="f", special=True),
    *rows("max_pool3d_with_indices_backward", T("n 2 1 1 1"), VOLUMES, [3, D("h"), D("w")], [3, D("h"), D("w")],
          [0, 0, 0], [1, 1, 1], False, I("n 2 1 1 1", "6"), dtypes="f", kind=EXACT),
    *rows("avg_pool3d", VOLUMES, [2, 3, 2], [1, 2, 2], [1, 1, 0], True, False, None, terms="2 3 2", dtypes="f",
          special=True),
    *rows("avg_pool3d_backward", VOLUMES, VOLUMES, [3, 3, 3], [1, 1, 1], [1, 1, 1], False, True, None, terms="3 3 3",
          dtypes="f"),
    *rows("_adaptive_avg_pool2d adaptive_avg_pool2d", IMAGES, [4, 3], terms="h w", dtypes="f"),
    *rows("_adaptive_avg_pool2d adaptive_avg_pool2d", IMAGES, [1, 1], terms="h w", dtypes="f"),
    *rows("_adaptive_avg_pool2d_backward", T("n g 2 3"), IMAGES, terms="2 3", dtypes="f", roundings=2),
    *rows("_adaptive_avg_pool3d adaptive_avg_pool3d", VOLUMES, [2, 4, 3], terms="3 h w", dtypes="f"),
    *rows("_adaptive_avg_pool3d_backward", T("n 2 2 2 3"), VOLUMES, terms="2 2 3", dtypes="f", roundings=2),
    *rows("adaptive_avg_pool1d", T("n g w"), [3], terms="w", dtypes="f"),
    *rows("adaptive_max_pool1d", T("n g w"), [3], dtypes="f", kind=EXACT),
    *rows("adaptive_max_pool2d", IMAGES, [4, 3], dtypes="f", kind=EXACT, special=True),
    *rows("adaptive_max_pool2d_backward", T("n g 1 1"), IMAGES, I("n g 1 1", "6"), dtypes="f", kind=EXACT),
    *rows("adaptive_max_pool3d", VOLUMES, [2, 4, 3], dtypes="f", kind=EXACT),
    *rows("adaptive_max_pool3d_backward", T("n 2 1 1 1"), VOLUMES, I("n 2 1 1 1", "6"), dtypes="f", kind=EXACT),
    *rows("fractional_max_pool2d", IMAGES, [2, 3], [5, 7], T("n g 2", low=0.0, high=0.99), kind=EXACT, dtypes="f",
          special=True),
    *rows("fractional_max_pool3d", VOLUMES, [2, 2, 3], [2, 5, 7], T("n 2 3", low=0.0, high=0.99), kind=EXACT,
          dtypes="f", special=True),
    *rows("fractional_max_pool2d_backward", T("n g 1 1"), IMAGES, [2, 2], [1, 1], I("n g 1 1", "6"), dtypes="f",
          kind=EXACT),
    *rows("fractional_max_pool3d_backward", T("n 2 1 1 1"), VOLUMES, [2, 2, 2], [1, 1, 1], I("n 2 1 1 1", "6"),
          dtypes="f", kind=EXACT),
]  # fmt: skip
