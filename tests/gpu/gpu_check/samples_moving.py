"""Copies, conversions, views, and what joins or takes tensors apart."""

from __future__ import annotations

import triten as tt

from .arguments import DEVICE, DTYPE, D, I, T
from .samples import EXACT, ROUNDED, SHAPE, Sample, rows

X, CUBE, LINE = T(), T("n a b"), T("1 b 1")
KEPT = "fibcue"

SAMPLES: list[Sample] = [
    *rows("clone alias_copy detach_copy lift_fresh_copy", X, kind=EXACT, dtypes=KEPT, special=True),
    *rows("clone", T("n g h w"), memory_format=tt.channels_last, kind=EXACT, dtypes="f"),
    *rows("contiguous", X, kind=EXACT, dtypes="fib"),
    *rows("copy", X, T("b"), kind=EXACT, dtypes=KEPT),
    *rows("copy", X, T("b", dtype="float32"), kind=ROUNDED, dtypes="f"),
    *rows("copy", X, T("b", dtype="int32"), kind=ROUNDED, dtypes="fi"),
    *rows("_copy_from", X, X, kind=EXACT, dtypes="fib"),
    *[
        row
        for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64",
                     "float8_e4m3fn", "float8_e5m2")
        for row in rows("_to_copy", X, dtype=getattr(tt, name), kind=EXACT, dtypes=KEPT, backward=False)
    ],
    *rows("to.dtype", X, tt.float32, kind=EXACT, dtypes="fib", backward=False),
    *rows("to.dtype_layout", X, dtype=tt.float64, kind=EXACT, dtypes="f", backward=False),
    *rows("to.other type_as", X, T("1", dtype="float16"), kind=EXACT, dtypes="fi", backward=False),
    *rows("expand_as reshape_as view_as", X, X, kind=EXACT, dtypes="f"),
    *rows("alias detach adjoint t t_copy flipud fliplr ravel", X, kind=EXACT, dtypes="fib"),
    *rows("flip", CUBE, [0, 2], kind=EXACT, dtypes=KEPT),
    *rows("roll", X, [2, -1], [0, 1], kind=EXACT, dtypes="fib"),
    *rows("rot90", X, 1, [0, 1], kind=EXACT, dtypes="fib"),
    *rows("cat concat concatenate", [X, T("d b")], 0, kind=EXACT, dtypes=KEPT),
    *rows("cat", [X, T("a d"), T("a c")], 1, kind=EXACT, dtypes="fib"),
    *rows("stack", [X, X, X], 1, kind=EXACT, dtypes="fib"),
    *rows("hstack vstack dstack column_stack row_stack", [X, X], kind=EXACT, dtypes="fi"),
    *rows("repeat tile", X, [2, 3], kind=EXACT, dtypes="fib"),
    *rows("fill.Scalar", X, 2, kind=EXACT, dtypes=KEPT),
    *rows("fill.Tensor", X, T(""), kind=EXACT, dtypes="fibc"),
    *rows("zero", X, kind=EXACT, dtypes=KEPT),
    *rows("view view_copy reshape", X, [D("b"), D("a")], kind=EXACT, dtypes="fib"),
    *rows("view.dtype view_copy.dtype", T("a 6", dtype="float32"), tt.int32, kind=EXACT, dtypes="f", backward=False),
    *rows("expand expand_copy", LINE, [3, D("b"), 2], kind=EXACT, dtypes="fib"),
    *rows("broadcast_to", LINE, [3, D("b"), 2], kind=EXACT, dtypes="f"),
    *rows("permute permute_copy", CUBE, [2, 0, 1], kind=EXACT, dtypes="fib"),
    *rows("transpose.int transpose_copy.int swapaxes swapdims", CUBE, 0, 2, kind=EXACT, dtypes="fib"),
    *rows("movedim.int moveaxis.int", CUBE, 0, 2, kind=EXACT, dtypes="f"),
    *rows("movedim.intlist moveaxis.intlist", CUBE, [0, 1], [2, 0], kind=EXACT, dtypes="f"),
    *rows("select.int select_copy.int", X, 1, 2, kind=EXACT, dtypes="fib"),
    *rows("slice.Tensor slice_copy.Tensor", X, 1, 1, 4, 2, kind=EXACT, dtypes="fib"),
    *rows("narrow", X, 1, 1, 3, kind=EXACT, dtypes="f"),
    *rows("narrow.Tensor", X, 1, I("", "2"), 3, kind=EXACT, dtypes="f"),
    *rows("diagonal diagonal_copy", X, 1, 0, 1, kind=EXACT, dtypes="fib"),
    *rows("unfold unfold_copy", X, 1, 2, 1, kind=EXACT, dtypes="f"),
    *rows("squeeze squeeze_copy", LINE, kind=EXACT, dtypes="f"),
    *rows("squeeze.dim squeeze_copy.dim", LINE, 0, kind=EXACT, dtypes="f"),
    *rows("squeeze.dims squeeze_copy.dims", LINE, [0, 2], kind=EXACT, dtypes="f"),
    *rows("unsqueeze unsqueeze_copy", X, 1, kind=EXACT, dtypes="f"),
    *rows("flatten.using_ints", CUBE, 0, 1, kind=EXACT, dtypes="f"),
    *rows("unflatten.int", T("a 6"), 1, [2, 3], kind=EXACT, dtypes="f"),
    *rows("chunk", X, 2, 1, kind=EXACT, dtypes="f"),
    *rows("split.Tensor", X, 2, 1, kind=EXACT, dtypes="f"),
    *rows("split.sizes split_with_sizes", X, [1, 2, D("b", -3)], 1, kind=EXACT, dtypes="f"),
    *rows("tensor_split.sections", X, 3, 1, kind=EXACT, dtypes="f"),
    *rows("tensor_split.indices", X, [1, 3], 1, kind=EXACT, dtypes="f"),
    *rows("unbind.int", T("3 b"), 0, kind=EXACT, dtypes="f"),
    *rows("as_strided as_strided_copy", T("3 6"), [2, 2], [1, 6], 1, kind=EXACT, dtypes="fib", dense=True),
    *rows("_strided_from _strided_copy", T("3 6"), [2, 2], [1, 6], 1, kind=EXACT, dtypes="f", dense=True),
    *rows("_restride", T("3 6"), [1, 3], kind=EXACT, dtypes="f", dense=True),
    *rows("_select_first", X, 1, kind=EXACT, dtypes="f"),
    *rows("_slice_first", X, 1, 3, 1, kind=EXACT, dtypes="f"),
    *rows("view_as_real view_as_real_copy", X, kind=EXACT, dtypes="c"),
    *rows("view_as_complex view_as_complex_copy", T("a 2"), kind=EXACT, dtypes="f"),
    *rows("is_set_to", X, X, kind=SHAPE, dtypes="f", backward=False),
    *rows("_unsafe_view", T("6"), [2, 3], kind=EXACT, dtypes="f", dense=True),
    *rows("resize_", T("6"), [2, 3], kind=EXACT, dtypes="f", backward=False, dense=True),
    *rows("resize_as_", T("6"), T("2 3"), kind=EXACT, dtypes="f", backward=False, dense=True),
    *rows("new_zeros new_ones", X, [2, 3], kind=EXACT, dtypes="fib"),
    *rows("new_full", X, [2, 3], 2, kind=EXACT, dtypes="fib"),
    *rows("new_empty", X, [2, 3], kind=SHAPE, dtypes="f", backward=False),
    *rows("new_empty_strided", X, [2, 3], [1, 2], kind=SHAPE, dtypes="f", backward=False),
    *rows("zeros_like ones_like", X, kind=EXACT, dtypes="fib"),
    *rows("full_like", X, 2, kind=EXACT, dtypes="fib"),
    *rows("empty_like", X, kind=SHAPE, dtypes="f", backward=False),
    *rows("to.device", X, DEVICE, DTYPE, False, True, kind=EXACT, dtypes="f"),
    *rows("to.prim_Device", X, None, DTYPE, kind=EXACT, dtypes="f", backward=False),
]  # fmt: skip
