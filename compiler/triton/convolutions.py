"""Convolution kernels with an epilogue.

If pixels are contiguous, a tile's sums are transposed, so that pixels lie along its columns. In channels-last layout
they already do.
"""

from __future__ import annotations

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
"""Eager kernels by the names of their forms."""

EPILOGUE_OF_PLANES = """

@triton.jit
def {name}_epilogue(
    total, operands, out, images, filters, pixels, positions, is_pixel, is_filter, yn, yc, pitch
):
    {unpacked} = operands
    is_row, is_column = is_filter, is_pixel
    mask = is_row[:, None] & is_column[None, :]
    # {product}
    product = tl.trans(convert(total, {type}))
{body}
"""
"""For contiguous pixels: `pixels` are indices in an image, `yn` and `yc` the strides of images and filters."""

EPILOGUE_OF_PIXELS = """

@triton.jit
def {name}_epilogue(
    total, operands, out, images, filters, pixels, positions, is_pixel, is_filter, yn, yc, pitch
):
    {unpacked} = operands
    is_row, is_column = is_pixel, is_filter
    mask = is_row[:, None] & is_column[None, :]
    # {product}
    product = convert(total, {type})
{body}
"""
"""For channels-last: `positions` are indices of pixels of all images, which are `pitch` apart."""
