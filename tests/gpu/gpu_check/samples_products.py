"""Products of matrices, convolution and pooling."""

from __future__ import annotations

from .arguments import D, I, T
from .samples import EXACT, Sample, rows

A, MAT, BATCH = T("a b"), T("b c"), T("n a b")
IMAGES = T("n g h w")

SAMPLES: list[Sample] = [
    *rows("mm matmul", A, MAT, terms="b"),
    *rows("mm", T("136 1096"), T("1096 264"), terms="1096"),
    *rows("bmm", T("n 136 72"), T("n 72 264"), terms="72"),
    *rows("addmm", T("264"), T("136 72"), T("72 264"), beta=2, alpha=3, terms="72", roundings=3),
    *rows("matmul", BATCH, MAT, terms="b"),
    *rows("matmul", T("n b"), T("n b c"), terms="b"),
    *rows("bmm matmul", BATCH, T("n b c"), terms="b"),
    *rows("addmm", T("c"), A, MAT, beta=2, alpha=3, terms="b", roundings=3),
    *rows("addmm", T("a c"), A, MAT, terms="b"),
    *rows("_addmm_activation", T("c"), A, MAT, terms="b", dtypes="fi", roundings=2, backward=False),
    *rows("_addmm_activation", T("c"), A, MAT, use_gelu=True, terms="b", dtypes="f", roundings=3, backward=False),
    *rows("addmv", T("a"), A, T("b"), beta=2, alpha=3, terms="b", roundings=3),
    *rows("baddbmm", T("n a c"), BATCH, T("n b c"), beta=2, alpha=3, terms="b", roundings=3),
    *rows("addbmm", T("a c"), BATCH, T("n b c"), beta=2, alpha=3, terms="n b", roundings=3),
    *rows("mv", A, T("b"), terms="b"),
    *rows("dot vdot", T("b"), T("b"), terms="b"),
    *rows("outer ger", T("a"), T("b")),
    *rows("linear", A, T("c b"), T("c"), terms="b", roundings=2),
    *rows("linear", BATCH, T("c b"), terms="b", roundings=2),
    *rows("convolution", T("n 6 h w"), T("6 3 3 2"), T("6"), [2, 1], [1, 0], [1, 2], False, [0, 0], 2,
          terms="3 3 2", dtypes="f", roundings=2),
    *rows("conv2d", IMAGES, T("6 g 3 3"), T("6"), [1, 1], [1, 1], terms="g 3 3", dtypes="f", roundings=2),
    *rows("conv2d", IMAGES, T("6 g 3 2"), None, [2, 1], [1, 0], [1, 2], terms="g 3 2", dtypes="f", roundings=2),
    *rows("conv2d", IMAGES, T("c g 1 1"), T("c"), terms="g", dtypes="f", roundings=2),
    *rows("conv2d.padding", IMAGES, T("6 g 3 3"), None, [1, 1], "same", terms="g 3 3", dtypes="f", roundings=2),
    *rows("conv1d", T("n g w"), T("6 g 3"), T("6"), [2], [1], terms="g 3", dtypes="f", roundings=2),
    *rows("conv1d.padding", T("n g w"), T("6 g 3"), None, [1], "valid", terms="g 3", dtypes="f", roundings=2),
    *rows("conv3d", T("1 g 3 h w"), T("2 g 2 3 3"), T("2"), terms="g 2 3 3", dtypes="f", roundings=2),
    *rows("conv3d.padding", T("1 g 3 h w"), T("2 g 2 3 3"), None, [1, 1, 1], "valid", terms="g 2 3 3", dtypes="f",
          roundings=2),
    *rows("conv_transpose1d", T("n g w"), T("g 6 3"), T("6"), [2], [1], terms="g 3", dtypes="f", roundings=2),
    *rows("conv_transpose2d.input", IMAGES, T("g 6 3 3"), T("6"), [2, 2], [1, 1], terms="g 3 3", dtypes="f",
          roundings=2),
    *rows("conv_transpose3d.input", T("1 g 3 h w"), T("g 2 2 3 3"), T("2"), terms="g 2 3 3", dtypes="f",
          roundings=2),
    *rows("convolution_backward_input", T("n 6 h w"), T("6 g 3 3"), [D("n"), D("g"), D("h"), D("w")], [1, 1], [1, 1],
          [1, 1], 1, terms="6 3 3", dtypes="f"),
    *rows("convolution_backward_weight", T("n 6 h w"), T("n g h w"), [6, D("g"), 3, 3], [1, 1], [1, 1], [1, 1], 1,
          terms="n h w", dtypes="f"),
    *rows("max_pool2d max_pool2d_with_indices", IMAGES, [2, 3], [2, 1], [1, 1], [1, 1], False, kind=EXACT, dtypes="f",
          special=True),
    *rows("max_pool2d_with_indices_backward", T("n g 1 1"), IMAGES, [D("h"), D("w")], [D("h"), D("w")], [0, 0], [1, 1],
          False, I("n g 1 1", "6"), dtypes="f", kind=EXACT),
    *rows("max_pool1d max_pool1d_with_indices", T("n g w"), [3], [2], [1], kind=EXACT, dtypes="f"),
    *rows("avg_pool2d", IMAGES, [2, 3], [2, 1], [1, 1], False, True, None, terms="2 3", dtypes="f", special=True),
    *rows("avg_pool2d", IMAGES, [3, 3], [2, 2], [1, 1], True, False, 5, terms="3 3", dtypes="f"),
    *rows("avg_pool1d", T("n g w"), [3], [2], [1], terms="3", dtypes="f"),
    *rows("avg_pool2d_backward", T("n g h w"), T("n g h w"), [3, 3], [1, 1], [1, 1], False, True, None,
          terms="3 3", dtypes="f"),
]  # fmt: skip
