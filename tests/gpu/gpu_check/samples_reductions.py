"""Reductions, scans, softmax and losses."""

from __future__ import annotations

from .arguments import DTYPE, D, I, T
from .samples import EXACT, ROUNDED, Sample, rows

X, NEAR_ONE = T(), T(low=0.95, high=1.05)
LABELS, IMAGE_LABELS = I("a", "b"), I("n h w", "g")
TOTAL = T("", low=1.0, high=2.0, grad=False)

SAMPLES: list[Sample] = [
    *rows("sum", X, terms="a b", special=True),
    *rows("sum.dim_IntList", X, [1], terms="b", special=True),
    *rows("sum.dim_IntList", X, [0], True, terms="a"),
    *rows("sum.dim_IntList", T("n a b"), [0, 2], terms="n b"),
    *rows("mean", X, terms="a b", dtypes="fc"),
    *rows("mean.dim", X, [1], terms="b", dtypes="fc", special=True),
    *rows("mean.dim", X, [0], True, terms="a", dtypes="fc"),
    *rows("prod", T("b", low=0.95, high=1.05), terms="b", roundings=2),
    *rows("prod.dim_int", NEAR_ONE, 1, terms="b", roundings=2, dtypes="fb"),
    *rows("prod.dim_int", T("2 a", low=1.0), 0, terms="2", dtypes="i"),
    *rows("amax amin", X, [1], kind=EXACT, dtypes="fib", special=True),
    *rows("amax amin", X, [0], True, kind=EXACT, dtypes="fib"),
    *rows("max min", X, kind=EXACT, dtypes="fib", special=True),
    *rows("max.dim min.dim", X, 1, kind=EXACT, dtypes="fib", special=True),
    *rows("max.dim min.dim", X, 0, True, kind=EXACT, dtypes="fib"),
    *rows("aminmax", X, dim=1, kind=EXACT, dtypes="fib"),
    *rows("argmax argmin", X, 1, kind=EXACT, dtypes="fi", special=True),
    *rows("argmax argmin", X, None, kind=EXACT, dtypes="fi"),
    *rows("any all", X, kind=EXACT),
    *rows("any.dim all.dim", X, 1, kind=EXACT),
    *rows("any.dims all.dims", X, [0], kind=EXACT),
    *rows("count_nonzero", X, 1, kind=EXACT),
    *rows("count_nonzero.dim_IntList", X, [0, 1], kind=EXACT),
    *rows("var std var_mean std_mean", X, True, terms="a b", roundings=2, dtypes="f"),
    *rows("var.dim std.dim var_mean.dim std_mean.dim", X, [1], True, terms="b", roundings=2, dtypes="f"),
    *rows("var.correction std.correction var_mean.correction std_mean.correction", X, [0], correction=0, terms="a",
          roundings=2, dtypes="f"),
    *rows("logsumexp", X, [1], terms="b", dtypes="f", special=True),
    *rows("logsumexp", X, [0], True, terms="a", dtypes="f"),
    *rows("cumsum", X, 1, terms="b", dtypes="fib"),
    *rows("cumsum", X, 0, terms="a", dtypes="fib"),
    *rows("_softmax _log_softmax", X, 1, False, terms="b", dtypes="f", special=True),
    *rows("_softmax _log_softmax", X, 0, False, terms="a", dtypes="f"),
    *rows("softmax.int log_softmax.int", X, 1, terms="b", dtypes="f", special=True),
    *rows("_softmax_backward_data", X, T(low=0.0, high=1.0), 1, DTYPE, terms="b", dtypes="f", roundings=2),
    *rows("_log_softmax_backward_data", X, T(low=-2.0, high=0.0), 1, DTYPE, terms="b", dtypes="f", roundings=2),
    *rows("nll_loss_forward nll_loss nll_loss_nd", X, LABELS, None, 1, -100, terms="a", dtypes="f", roundings=2),
    *rows("nll_loss_forward nll_loss", X, LABELS, T("b", low=0.5, high=2.0, grad=False), 2, 1, terms="a", dtypes="f",
          roundings=2),
    *rows("nll_loss_forward", X, LABELS, None, 0, 2, dtypes="f", kind=ROUNDED),
    *rows("nll_loss_backward", T("a"), X, LABELS, None, 0, -100, TOTAL, dtypes="f"),
    *rows("nll_loss_backward", T(""), X, LABELS, T("b", low=0.5, grad=False), 1, 2, TOTAL, dtypes="f", roundings=2),
    *rows("nll_loss2d_forward nll_loss2d", T("n g h w"), IMAGE_LABELS, None, 1, -100, terms="n h w", dtypes="f",
          roundings=2),
    *rows("nll_loss2d_backward", T("n h w"), T("n g h w"), IMAGE_LABELS, None, 0, -100, TOTAL, dtypes="f"),
    *rows("cross_entropy_loss", X, LABELS, None, 1, -100, 0.0, terms="a b", dtypes="f", roundings=3),
    *rows("cross_entropy_loss", X, LABELS, None, 1, -100, 0.1, terms="a b", dtypes="f", roundings=6),
    *rows("mse_loss", X, X, 1, terms="a b", dtypes="f", roundings=2),
    *rows("mse_loss", X, X, 0, dtypes="f", roundings=2),
    *rows("mse_loss_backward", T(""), X, X, 1, dtypes="f", roundings=3),
    *rows("l1_loss smooth_l1_loss huber_loss", X, X, 1, terms="a b", dtypes="f", roundings=6),
    *rows("_huber_terms", X, X, 0.5, terms="a b", dtypes="f", roundings=6),
    *rows("smooth_l1_loss huber_loss", X, X, 2, 0.5, terms="a b", dtypes="f", roundings=6),
    *rows("value_selecting_reduction_backward", T("a"), 1, I("a", "b"), [D("a"), D("b")], False, dtypes="f",
          kind=EXACT),
]  # fmt: skip
