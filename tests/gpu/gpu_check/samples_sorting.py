"""Sorting and selection by rank."""

from __future__ import annotations

from .arguments import T
from .samples import EXACT, Sample, rows

X = T()

SAMPLES: list[Sample] = [
    *rows("searchsorted.Tensor", T("1"), X, right=True, kind=EXACT, dtypes="fi", special=True),
    *rows("searchsorted.Scalar", T("1"), 1, out_int32=True, kind=EXACT, dtypes="fi"),
    *rows("bucketize.Tensor", X, T("1"), kind=EXACT, dtypes="fi"),
    *rows("bucketize.Scalar", 1, T("1"), kind=EXACT, dtypes="fi"),
    *rows("isin.Tensor_Tensor", X, T("d"), kind=EXACT, dtypes="fi", special=True),
    *rows("isin.Tensor_Scalar", X, 1, invert=True, kind=EXACT, dtypes="fi"),
    *rows("isin.Scalar_Tensor", 1, X, kind=EXACT, dtypes="fi"),
    *rows("_unique", X, True, True, kind=EXACT, dtypes="fib"),
    *rows("_unique2", X, True, True, True, kind=EXACT, dtypes="fib"),
    *rows("unique_dim", X, 0, True, True, True, kind=EXACT, dtypes="fib"),
    *rows("unique_consecutive", X, True, True, kind=EXACT, dtypes="fib"),
    *rows("unique_dim_consecutive", X, 1, True, True, kind=EXACT, dtypes="fib"),
    *rows("mode", X, 1, kind=EXACT, dtypes="fib", backward=False),
    *rows("sort", X, 1, True, kind=EXACT, dtypes="fib", special=True),
    *rows("sort", X, 0, kind=EXACT, dtypes="fib"),
    *rows("sort.stable", X, stable=True, dim=1, descending=False, kind=EXACT, dtypes="fib", special=True),
    *rows("argsort", X, 1, False, kind=EXACT, dtypes="fib"),
    *rows("argsort.stable", X, stable=True, dim=0, descending=True, kind=EXACT, dtypes="fib"),
    *rows("msort", X, kind=EXACT, dtypes="fib"),
    *rows("topk", X, 2, 1, True, kind=EXACT, dtypes="fi", special=True),
    *rows("topk", X, 1, 0, False, kind=EXACT, dtypes="fi"),
    *rows("kthvalue", X, 2, 1, kind=EXACT, dtypes="fi", special=True),
    *rows("median nanmedian", X, kind=EXACT, dtypes="fi", special=True),
    *rows("median.dim nanmedian.dim", X, 1, kind=EXACT, dtypes="fi", special=True),
    *rows("median.dim nanmedian.dim", X, 0, True, kind=EXACT, dtypes="fi"),
]  # fmt: skip
