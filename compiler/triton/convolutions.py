"""Convolution kernels with an epilogue: the source of the eager kernel, with another end.

If pixels are contiguous, a tile's sums are transposed, so that pixels lie along its columns. In channels-last layout
they already do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ...triton_kernels.convolution.bulk_kernels import convolve_bulk
from ...triton_kernels.convolution.convolution_kernels import convolve
from ...triton_kernels.convolution.depthwise_kernels import convolve_depthwise
from ...triton_kernels.convolution.strided_kernels import convolve_bulk_strided

CONVOLUTIONS = {
    "convolve": convolve,
    "convolve_bulk": convolve_bulk,
    "convolve_bulk_strided": convolve_bulk_strided,
    "convolve_depthwise": convolve_depthwise,
}
"""The kernels by the names of their forms."""
IMPORTS = {
    "convolve": (
        "from triten.triton_kernels.convolution.convolution_kernels import phase_taps",
        "from triten.triton_kernels.products.product import tile_of",
    ),
    "convolve_bulk": ("from triten.triton_kernels.products.product import tile_of",),
    "convolve_bulk_strided": (
        "from triten.triton_kernels.convolution.strided_kernels import load_tap",
        "from triten.triton_kernels.products.product import tile_of",
    ),
    "convolve_depthwise": (),
}
END = "    # The epilogue of a compiled graph takes the place of what follows"
"""The line at which the text of `convolve` is cut off."""

OF_PLANES = """

@triton.jit
def {name}_elements(total, out, {pointers}, images, filters, pixels, is_row, is_column, yn, yc):
    mask = is_row[:, None] & is_column[None, :]
    # {product}
    product = tl.trans(convert(total, {type}))
{body}
"""

OF_PIXELS = """

@triton.jit
def {name}_elements(total, out, {pointers}, filters, pixels, is_row, is_column, pitch):
    mask = is_row[:, None] & is_column[None, :]
    # {product}
    product = convert(total, {type})
{body}
"""

PLANES = {
    "convolve": """    pixels = (plane * oh + line) * ow + column
    {name}_elements(total, out, {pointers}, image, filters, pixels, is_filter, is_row, yn, yc)
""",
    "convolve_depthwise": """    pixels = (plane * oh + line) * ow + column
    {name}_elements(total, out, {pointers}, image, o, pixels, is_output, is_row, yn, yc)
""",
}

PIXELS = {
    "convolve": """    pixels = ((image.to(INDEX) * od + plane) * oh + line) * ow + column
    {name}_elements(total, out, {pointers}, filters, pixels, is_row, is_filter, yw)
""",
    "convolve_depthwise": """    {name}_elements(total, out, {pointers}, o, rows, is_row, is_output, outputs)
""",
}

STORE = """

@triton.jit
def {name}_store(total, bias, out, {pointers}, image, line, pixel, column, columns, bs, images, lines, pixels,
                 yn, yc, yh, BLOCK_I: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr,
                 COLUMNS: tl.constexpr, PLANES: tl.constexpr, Y_UNIT: tl.constexpr):
    c = column + tl.arange(0, COLUMNS)
    if bias is not None:
        total += tl.load(bias + c * bs, mask=c < columns, other=0).to(tl.float32)[None, :]
    rows = tl.arange(0, BLOCK_I * BLOCK_H * BLOCK_W)
    i, h, w = image + rows // (BLOCK_H * BLOCK_W), line + rows // BLOCK_W % BLOCK_H, pixel + rows % BLOCK_W
    inside = (i < images) & (h < lines) & (w < pixels)
"""
STORE_PLANES = """    {name}_elements(
        total, out, {pointers}, i, c, h * (yh * Y_UNIT) + w, c < columns, inside, yn * Y_UNIT, yc * Y_UNIT
    )
"""
STORE_PIXELS = """    {name}_elements(
        total, out, {pointers}, c, (i * lines + h) * pixels + w, inside, c < yc * Y_UNIT, yc * Y_UNIT
    )
"""


def planes_text(form: str, filled: Mapping[str, str]) -> str:
    """Return the functions of a form with an epilogue, for contiguous pixels.

    Args:
        form: A name in `CONVOLUTIONS`.
        filled: ``name`` of the kernel, its further ``pointers``, ``product`` and ``type`` for comments and the
            compiler, and the ``body`` that computes the epilogue of `product`.
    """
    return OF_PLANES.format(**filled) + _text(form, filled, PLANES.get(form, STORE_PLANES))


def channels_last_text(form: str, filled: Mapping[str, str]) -> str:
    """Return the same functions for channels-last; the arguments are those of `planes_text`."""
    return OF_PIXELS.format(**filled) + _text(form, filled, PIXELS.get(form, STORE_PIXELS))


def _text(form: str, filled: Mapping[str, str], end: str) -> str:
    """Return the program, and the function that stores a tile by the form's coordinates, with the given end."""
    name, pointers = filled["name"], filled["pointers"]
    source: str = CONVOLUTIONS[form].source
    text = source.replace(f"def {form}(", f"def {name}(", 1)
    text = text.replace("    out,\n", f"    out,\n    {pointers},\n", 1)
    if form in PLANES:
        head, separator, _ = text.partition(END)
        assert separator
        return "\n\n" + head + end.format(**filled)
    text = re.sub(r"store_pixels\((\w+), bias, out, ", rf"{name}_store(\1, bias, out, {pointers}, ", text)
    return (STORE + end).format(**filled) + "\n\n" + text
