"""Indexing: gather, scatter, embedding, masks."""

from __future__ import annotations

from .arguments import B, D, I, T
from .samples import EXACT, Sample, rows

X, EACH, ROWS_OF_B = T(), I("a d", "b", unique=True), I("d", "b", unique=True)
MANY = I("a d", "b")
KEPT = "fibcue"

SAMPLES: list[Sample] = [
    *rows("index.Tensor", X, [None, I("d", "b", negative=True)], kind=EXACT, dtypes=KEPT),
    *rows("index.Tensor", X, [I("d", "a", negative=True), I("n d", "b")], kind=EXACT, dtypes=KEPT),
    *rows("index.Tensor", X, [B("a")], kind=EXACT, dtypes="fib"),
    *rows("index.Tensor", X, [B()], kind=EXACT, dtypes="fib"),
    *rows("index_select", X, 1, I("d", "b"), kind=EXACT, dtypes=KEPT),
    *rows("gather", X, 1, MANY, kind=EXACT, dtypes=KEPT),
    *rows("take", X, I("n d", "b"), kind=EXACT, dtypes="fib"),
    *rows("take_along_dim", X, MANY, 1, kind=EXACT, dtypes="fib"),
    *rows("masked_select", X, B(), kind=EXACT, dtypes="fib"),
    *rows("masked_fill.Scalar", X, B(), 2, kind=EXACT, dtypes="fibc"),
    *rows("masked_fill.Tensor", X, B(), T(""), kind=EXACT, dtypes="fibc"),
    *rows("index_put", X, [None, ROWS_OF_B], T("a d"), kind=EXACT, dtypes="fib"),
    *rows("index_put", X, [I("d", "a")], T("b"), True, terms="d", roundings=2, dtypes="fi"),
    *rows("_index_put_impl_", X, [I("d", "a")], T("b"), True, terms="d", roundings=2, dtypes="fi"),
    *rows("index_add", X, 1, I("d", "b"), T("a d"), alpha=2, terms="d", roundings=2, dtypes="fi"),
    *rows("index_copy", X, 1, ROWS_OF_B, T("a d"), kind=EXACT, dtypes="fib"),
    *rows("index_fill.int_Scalar", X, 1, I("d", "b"), 2, kind=EXACT, dtypes="fib"),
    *rows("index_fill.int_Tensor", X, 1, I("d", "b"), T(""), kind=EXACT, dtypes="fib"),
    *rows("scatter.src", X, 1, EACH, T("a d"), kind=EXACT, dtypes="fib"),
    *rows("scatter.value", X, 1, EACH, 2, kind=EXACT, dtypes="fib"),
    *rows("scatter.reduce", X, 1, MANY, T("a d"), reduce="add", terms="d", roundings=2, dtypes="fi", backward=False),
    *rows("scatter.reduce", X, 1, MANY, T("a d", low=0.9, high=1.1), reduce="multiply", terms="d", roundings=3,
          dtypes="f", backward=False),
    *rows("scatter.value_reduce", X, 1, MANY, 2, reduce="add", terms="d", roundings=2, dtypes="fi", backward=False),
    *rows("scatter_add", X, 1, MANY, T("a d"), terms="d", roundings=2, dtypes="fi"),
    *rows("scatter_reduce.two", X, 1, MANY, T("a d"), "sum", terms="d", roundings=2, dtypes="fi"),
    *rows("scatter_reduce.two", X, 1, MANY, T("a d"), "mean", include_self=False, terms="d", roundings=3, dtypes="f"),
    *rows("scatter_reduce.two", X, 1, MANY, T("a d", low=0.9, high=1.1), "prod", terms="d", roundings=3, dtypes="f"),
    *rows("scatter_reduce.two", X, 1, MANY, T("a d"), "amax", kind=EXACT, dtypes="fi", backward=False),
    *rows("scatter_reduce.two", X, 1, MANY, T("a d"), "amin", include_self=False, kind=EXACT, dtypes="fi",
          backward=False),
    *rows("masked_scatter", X, B(), X, kind=EXACT, dtypes="fib"),
    *rows("put", X, I("d", "b", unique=True), T("d"), kind=EXACT, dtypes="fib"),
    *rows("put", X, I("d", "b"), T("d"), True, terms="d", roundings=2, dtypes="fi"),
    *rows("embedding", T("b c"), I("n a", "b"), 1, kind=EXACT, dtypes="f"),
    *rows("embedding_dense_backward", T("n a c"), I("n a", "b"), D("b"), 1, False, terms="n a", dtypes="f",
          roundings=2),
    *rows("embedding_dense_backward", T("n a c"), I("n a", "b"), D("b"), -1, True, terms="n a", dtypes="f",
          roundings=3),
    *rows("embedding_renorm", T("b c"), I("d", "b"), 1.0, 2.0, terms="c", dtypes="f", roundings=3, backward=False),
    *rows("embedding_renorm", T("b c"), I("d", "b"), 1.0, 1.0, terms="c", dtypes="f", roundings=3, backward=False),
    *rows("nonzero argwhere nonzero_numpy", X, kind=EXACT),
    *rows("nonzero.as_tuple", X, as_tuple=True, kind=EXACT, dtypes="fib"),
    *rows("tril triu", X, 1, kind=EXACT, dtypes=KEPT),
    *rows("tril triu", T("n a b"), -2, kind=EXACT, dtypes="f"),
    *rows("diagonal_backward", T("a"), [D("a"), D("b")], 0, 0, 1, kind=EXACT, dtypes="f"),
    *rows("select_backward", T("a"), [D("a"), D("b")], 1, 2, kind=EXACT, dtypes="f"),
    *rows("slice_backward", T("a 2"), [D("a"), D("b")], 1, 0, 4, 2, kind=EXACT, dtypes="f"),
    *rows("_as_strided_backward", T("2 2"), [3, 4], [4, 1], [2, 2], [1, 4], 1, dtypes="f", dense=True),
    *rows("select_scatter", X, T("a"), 1, 2, kind=EXACT, dtypes="fib"),
    *rows("slice_scatter", X, T("a 2"), 1, 0, 4, 2, kind=EXACT, dtypes="fib"),
    *rows("diagonal_scatter", X, T("a"), 0, 0, 1, kind=EXACT, dtypes="fib"),
    *rows("as_strided_scatter", T("3 6"), T("2 2"), [2, 2], [1, 6], 1, kind=EXACT, dtypes="fib", dense=True),
    *rows("_strided_scatter", T("3 6"), T("2 2"), [2, 2], [1, 6], 1, kind=EXACT, dtypes="fib", dense=True),
]  # fmt: skip
