"""Small images for web pages, without a library: a PNG of pixels, an SVG of a histogram."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BARS, BAR_WIDTH, HEIGHT = 24, 6, 48
"""Histogram geometry: number of bars, bar width and height in pixels."""
MIN_SIDE = 96
"""Smaller images are enlarged to this many pixels."""
COLOR_TYPES = {1: 0, 3: 2, 4: 6}
"""PNG color types by channel count: grayscale, RGB, RGBA (ISO/IEC 15948, 11.2.2)."""


def png(pixels: NDArray[np.uint8]) -> bytes:
    """Return a PNG file of pixels of shape (height, width, channels) with 1, 3 or 4 channels.

    Example:
        >>> import numpy as np
        >>> from triten.dispatch.methods.pictures import png
        >>> png(np.zeros((2, 3, 1), np.uint8))[:4]
        b'\\x89PNG'
    """
    height, width, channels = pixels.shape
    rows = np.zeros(
        (height, 1 + width * channels), np.uint8
    )  # each row begins with its filter type, 0 for none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">IIBBBBB", width, height, 8, COLOR_TYPES[channels], 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b""))
    )


def image(pixels: NDArray[np.uint8]) -> str:
    """Return an HTML image element; small images are enlarged with sharp pixels."""
    height, width, _ = pixels.shape
    factor = max(1, MIN_SIDE // max(height, width))
    data = base64.b64encode(png(pixels)).decode()
    return (
        f'<img width="{width * factor}" height="{height * factor}" style="image-rendering:pixelated" '
        f'src="data:image/png;base64,{data}" alt="picture of the elements">'
    )


def histogram(values: NDArray[Any]) -> str:
    """Return an SVG histogram of finite real numbers in `BARS` ranges."""
    values = values.astype(np.float64)
    least, greatest = float(values.min()), float(values.max())
    span = greatest - least
    scaled = np.zeros(values.size) if not 0 < span < np.inf else (values - least) / span
    counts = np.bincount(np.minimum((scaled * BARS).astype(np.int64), BARS - 1), minlength=BARS)
    heights = np.ceil(counts * (HEIGHT / counts.max())).astype(int).tolist()
    bars = "".join(
        f'<rect x="{i * BAR_WIDTH}" y="{HEIGHT - h}" width="{BAR_WIDTH - 1}" height="{h}"/>'
        for i, h in enumerate(heights)
        if h
    )
    return (
        f'<svg width="{BARS * BAR_WIDTH}" height="{HEIGHT}" fill="currentColor" fill-opacity="0.6" role="img">'
        f"<title>{least:.4g} to {greatest:.4g}</title>{bars}</svg>"
    )


def grey(values: NDArray[Any]) -> NDArray[np.uint8]:
    """Map numbers to gray levels, the minimum to black and the maximum to white; non-finite numbers are black."""
    values = np.where(np.isfinite(values), values, np.nan).astype(np.float64)
    if np.isnan(values).all():
        return np.zeros(values.shape, np.uint8)
    least, greatest = np.nanmin(values), np.nanmax(values)
    span = greatest - least
    scaled = (values - least) / span if 0 < span < np.inf else np.zeros(values.shape)
    bright: NDArray[np.uint8] = np.nan_to_num(np.round(scaled * 255)).astype(np.uint8)
    return bright
