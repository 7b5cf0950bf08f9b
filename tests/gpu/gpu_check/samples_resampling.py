"""Samples of padding, interpolation, sampling at places, windows as columns, and Fourier transforms."""

from __future__ import annotations

from .arguments import T
from .samples import EXACT, SHAPE, Sample, rows

LINES, PLANES, VOLUMES = T("n g 5"), T("n g 5 6"), T("n g 3 5 6")
SHARES = {1: LINES, 2: PLANES, 3: VOLUMES}
PADS = {r: [1, 2, 2, 1, 1, 0][: 2 * r] for r in (1, 2, 3)}
GRADIENTS = {1: T("n g 8"), 2: T("n g 8 9"), 3: T("n g 4 8 9")}
SIZES = {1: [9], 2: [9, 7], 3: [4, 9, 7]}
UPSAMPLED = {1: T("n g 9"), 2: T("n g 9 7"), 3: T("n g 4 9 7")}
FROM = {1: [2, 3, 5], 2: [2, 3, 5, 6], 3: [2, 3, 3, 5, 6]}
BACK = {1: T("2 3 9"), 2: T("2 3 9 7"), 3: T("2 3 4 9 7")}
SMOOTH = {"upsample_linear1d": 1, "upsample_bilinear2d": 2, "upsample_bicubic2d": 2, "upsample_trilinear3d": 3,
          "_upsample_bilinear2d_aa": 2, "_upsample_bicubic2d_aa": 2}  # fmt: skip
X = T("a b")
GRID, SPACE = T("n 4 3 2", low=-1.2, high=1.2), T("n 2 4 3 3", low=-1.2, high=1.2)

SAMPLES: list[Sample] = [
    *rows("constant_pad_nd", X, [1, 2, -1, 1], 3, kind=EXACT, special=True),
    *rows("pad", PLANES, [1, 2, 2, 1], "circular", kind=EXACT),
    *rows("pad", PLANES, [1, 2, 2, 1], "reflect", kind=EXACT, dtypes="f"),
    *rows("_pad_circular", PLANES, [1, 2, 2, 1], kind=EXACT),
    *rows("_pad_enum", PLANES, [1, 2, 2, 1], 1, kind=EXACT, dtypes="f"),
    *[
        row
        for r in (1, 2, 3)
        for kind in ("reflection", "replication")
        for row in (
            *rows(f"{kind}_pad{r}d", SHARES[r], PADS[r], kind=EXACT, dtypes="fc", special=True),
            *rows(f"{kind}_pad{r}d_backward", GRADIENTS[r], SHARES[r], PADS[r], terms="2 2 3", dtypes="fc"),
        )
    ],
    *[
        row
        for r in (1, 2, 3)
        for kind in ("upsample_nearest", "_upsample_nearest_exact")
        for row in (
            *rows(f"{kind}{r}d", SHARES[r], SIZES[r], kind=EXACT, dtypes="f", special=True),
            *rows(f"{kind}{r}d_backward", BACK[r], SIZES[r], FROM[r], terms="3 3 3", dtypes="f"),
        )
    ],
    *[
        row
        for name, r in SMOOTH.items()
        for row in (
            # Cubic weights turn what a coordinate loses into up to three times as much.
            *rows(
                name,
                SHARES[r],
                SIZES[r],
                False,
                terms="4 4",
                roundings=6 if "cubic" in name else 2,
                dtypes="f",
            ),
            *rows(
                f"{name}_backward", BACK[r], SIZES[r], FROM[r], False, terms="6 6 4", roundings=2, dtypes="f"
            ),
        )
    ],
    *rows("im2col", PLANES, [2, 3], [1, 1], [1, 0], [2, 1], kind=EXACT, dtypes="fc"),
    *rows("col2im", T("n 12 20"), [5, 6], [2, 2], [1, 1], [0, 0], [1, 1], terms="4", dtypes="fc"),
    *rows(
        "grid_sampler grid_sampler_2d",
        PLANES,
        GRID,
        0,
        0,
        False,
        terms="8 8",
        roundings=4,
        dtypes="f",
        backward=False,
    ),
    *rows(
        "grid_sampler_3d", VOLUMES, SPACE, 0, 1, True, terms="8 8", roundings=4, dtypes="f", backward=False
    ),
    *rows(
        "grid_sampler_2d_backward",
        T("n g 4 3"),
        PLANES,
        GRID,
        0,
        1,
        False,
        [True, True],
        kind=SHAPE,
        dtypes="f",
    ),
    *rows(
        "grid_sampler_3d_backward",
        T("n g 2 4 3"),
        VOLUMES,
        SPACE,
        0,
        1,
        False,
        [True, True],
        kind=SHAPE,
        dtypes="f",
    ),
    *rows("_grid_sampler_taps", GRID, [5, 6], 0, 0, False, kind=SHAPE, dtypes="f"),
    *rows("_grid_sampler_grid_backward", T("n g 4 3"), PLANES, GRID, 0, 0, False, kind=SHAPE, dtypes="f"),
    *rows("affine_grid_generator", T("2 2 3"), [2, 3, 4, 5], False, kind=SHAPE, dtypes="f", backward=False),
    *rows("_fft_c2c", X, [0, 1], 0, True, terms="a b", roundings=8, dtypes="c"),
    *rows("_fft_c2r", X, [1], 2, 5, terms="b", roundings=8, dtypes="c", backward=False),
    *rows("_fft_r2c", X, [0, 1], 1, True, kind=SHAPE, dtypes="f", backward=False),
]
