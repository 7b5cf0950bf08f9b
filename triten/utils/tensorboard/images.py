"""Conversion of tensors, figures and boxes to images: (height, width, channel) arrays and files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...dispatch.tensor import Tensor
from ...runtime.scalar_type import bfloat16, float16

Array = np.ndarray[Any, Any]


def make_np(x: Any) -> Array:
    """Convert a tensor, an array or a number to an array.

    Raises:
        NotImplementedError: The value is something else.
    """
    if isinstance(x, np.ndarray):
        return x
    if np.isscalar(x):
        return np.array([x])
    if isinstance(x, Tensor):
        x = x.detach().cpu()
        array: Array = (x.to(float16) if x.dtype is bfloat16 else x).numpy()
        return array
    raise NotImplementedError(f"Got {type(x)}, but numpy array or torch tensor are expected.")


def make_grid(images: Array, ncols: int = 8) -> Array:
    """Arrange images (N, 1 or 3, H, W) in a grid, an image (3, rows * H, columns * W).

    Raises:
        AssertionError: The array does not have four dimensions, or 1 or 3 channels.
    """
    if images.shape[1] == 1:
        images = np.repeat(images, 3, axis=1)
    if images.ndim != 4 or images.shape[1] != 3:
        raise AssertionError("Input should be a 4D numpy array with 3 channels")
    count, _, height, width = images.shape
    columns = min(count, ncols)
    rows = -(-count // columns)
    canvas = np.zeros((rows * columns, 3, height, width), images.dtype)
    canvas[:count] = images
    whole = canvas.reshape(rows, columns, 3, height, width).transpose(2, 0, 3, 1, 4)
    return whole.reshape(3, rows * height, columns * width)


def convert_to_HWC(tensor: Array, input_format: str) -> Array:
    """Convert an image to height, width and three color channels.

    Args:
        tensor: One image, or several, which are arranged in a grid.
        input_format: The order of its dimensions, such as ``CHW``, ``HW`` or ``NHWC``.

    Raises:
        AssertionError: The format names a dimension twice, or its length differs from the tensor's rank.
    """
    if len(set(input_format)) != len(input_format):
        raise AssertionError(
            f"You can not use the same dimension shorthand twice. input_format: {input_format}"
        )
    if tensor.ndim != len(input_format):
        raise AssertionError(
            "size of input tensor and input format are different. "
            f"tensor shape: {tensor.shape}, input_format: {input_format}"
        )
    order = {4: "NCHW", 3: "HWC", 2: "HW"}[tensor.ndim]
    turned = tensor.transpose([input_format.upper().find(name) for name in order])
    if tensor.ndim == 4:
        return make_grid(turned).transpose(1, 2, 0)
    if tensor.ndim == 2:
        return np.stack([turned] * 3, 2)
    return np.repeat(turned, 3, axis=2) if turned.shape[2] == 1 else turned


def as_bytes(picture: Array) -> Array:
    """Convert an image of floats in [0, 1], or of bytes, to bytes."""
    scale = 1 if picture.dtype == np.uint8 else 255
    return (picture.astype(np.float32) * scale).clip(0, 255).astype(np.uint8)


def encoded(
    picture: Array, rescale: float = 1, boxes: Array | None = None, labels: Sequence[str] | None = None
) -> bytes:
    """Encode an 8-bit image as PNG, with boxes (left, top, right, bottom) and their labels in red."""
    from PIL import Image, ImageDraw

    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    for number, (left, top, right, bottom) in enumerate([] if boxes is None else boxes.tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        draw.line(corners, width=2, fill="Red")
        if labels is not None:
            name = labels[number]
            x0, y0, x1, y1 = draw.textbbox((0, 0), name)
            height, margin = y1 - y0, float(np.ceil(0.05 * (y1 - y0)))
            draw.rectangle([(left, bottom - height - 2 * margin), (left + x1 - x0, bottom)], fill="Red")
            draw.text((left + margin, bottom - height - margin), name, fill="black")
    rows, columns = picture.shape[:2]
    image = image.resize((int(columns * rescale), int(rows * rescale)), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, format="PNG")
    return file.getvalue()


def encoded_video(videos: Array, fps: float) -> tuple[tuple[int, ...], bytes]:
    """Arrange videos (N, T, C, H, W) in a grid, and return a frame's shape (H, W, C) and a GIF file."""
    from PIL import Image

    if videos.dtype == np.uint8:
        videos = videos.astype(np.float32) / 255
    count, time, channels, height, width = videos.shape
    padded = 1 << (count - 1).bit_length()
    videos = np.concatenate([videos, np.zeros((padded - count, time, channels, height, width))])
    rows = 2 ** ((count.bit_length() - 1) // 2)
    grid = videos.reshape(rows, padded // rows, time, channels, height, width).transpose(2, 0, 4, 1, 5, 3)
    frames = as_bytes(grid.reshape(time, rows * height, padded // rows * width, channels))
    images = [Image.fromarray(frame[..., 0] if channels == 1 else frame) for frame in frames]
    file = io.BytesIO()
    images[0].save(
        file, format="GIF", save_all=True, append_images=images[1:], duration=round(1000 / fps), loop=0
    )
    return frames.shape[1:], file.getvalue()


def figure_to_image(figures: Any, close: bool = True) -> Array:
    """Render a matplotlib figure to an array (C, H, W), or a list of figures to (N, C, H, W)."""
    import matplotlib.pyplot as plt
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(figure: Any) -> Array:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        width, height = canvas.get_width_height()
        picture = np.frombuffer(canvas.buffer_rgba(), np.uint8).reshape(height, width, 4)
        if close:
            plt.close(figure)
        return np.moveaxis(picture[:, :, :3], 2, 0)

    return np.stack([drawn(figure) for figure in figures]) if isinstance(figures, list) else drawn(figures)
