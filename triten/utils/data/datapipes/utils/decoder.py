"""Decoders of files by the extensions of their names (`torch.utils.data.datapipes.utils.decoder`)."""

from __future__ import annotations

import io
import json
import os
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from .common import StreamWrapper

__all__ = [
    "Decoder",
    "ImageHandler",
    "MatHandler",
    "basichandlers",
    "extension_extract_fn",
    "handle_extension",
    "imagehandler",
    "imagespecs",
    "mathandler",
]

Handler = Callable[[str, Any], Any]


def basichandlers(extension: str, data: bytes) -> Any:
    """Decode text, an integer, JSON, a pickle or a saved tensor; return None for other extensions.

    Pickles run code: decode them from trusted files only.
    """
    if extension in ("txt", "text", "transcript"):
        return data.decode("utf-8")
    if extension in ("cls", "cls2", "class", "count", "index", "inx", "id"):
        try:
            return int(data)
        except ValueError:
            return None
    if extension in ("json", "jsn"):
        return json.loads(data)
    if extension in ("pyd", "pickle"):
        return pickle.loads(data)
    if extension == "pt":
        from .....serialization.loading import load

        return load(io.BytesIO(data))
    return None


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> Handler:
    """Return a handler that decodes files of some extensions by a function of their content.

    Args:
        extensions: The extensions, separated by spaces, without the first dot. One of several parts, such as
            ``"seg.png"``, matches the last parts of a name.
        f: The function.
    """
    known = extensions.lower().split()

    def handler(key: str, data: Any) -> Any:
        parts = key.lower().split(".")
        for target in known:
            count = target.count(".") + 1
            if len(parts) >= count and ".".join(parts[-count:]) == target:
                return f(data)
        return None

    return handler


imagespecs: dict[str, tuple[str, str | None, str]] = {
    "l8": ("numpy", "uint8", "l"),
    "rgb8": ("numpy", "uint8", "rgb"),
    "rgba8": ("numpy", "uint8", "rgba"),
    "l": ("numpy", "float", "l"),
    "rgb": ("numpy", "float", "rgb"),
    "rgba": ("numpy", "float", "rgba"),
    "torchl8": ("torch", "uint8", "l"),
    "torchrgb8": ("torch", "uint8", "rgb"),
    "torchrgba8": ("torch", "uint8", "rgba"),
    "torchl": ("torch", "float", "l"),
    "torchrgb": ("torch", "float", "rgb"),
    "torch": ("torch", "float", "rgb"),
    "torchrgba": ("torch", "float", "rgba"),
    "pill": ("pil", None, "l"),
    "pil": ("pil", None, "rgb"),
    "pilrgb": ("pil", None, "rgb"),
    "pilrgba": ("pil", None, "rgba"),
}
"""For each name of a format of images: the class, the dtype, and Pillow's mode."""


class ImageHandler:
    """Handler that decodes images with Pillow.

    Args:
        imagespec: A key of `imagespecs`. Tensors have channels first, arrays channels last; floats are in [0, 1].

    Raises:
        AssertionError: The key is unknown.
        ModuleNotFoundError: In a call: Pillow is not installed.
    """

    def __init__(self, imagespec: str) -> None:
        if imagespec not in imagespecs:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec.lower()

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension.lower() not in ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"):
            return None
        try:
            from PIL import Image
        except ImportError as error:
            raise ModuleNotFoundError(
                "Package `PIL` is required to be installed for default image decoder.Please use `pip install Pillow` "
                "to install the package"
            ) from error
        kind, dtype, mode = imagespecs[self.imagespec]
        with Image.open(io.BytesIO(data)) as opened:
            image = opened.convert(mode.upper())
        if kind == "pil":
            return image
        values: Any = np.asarray(image)
        if kind == "torch":
            from .....dispatch.tensor_data import from_numpy

            values = from_numpy(
                np.ascontiguousarray(np.moveaxis(values, -1, 0)) if values.ndim == 3 else values.copy()
            )
            return values.float() / 255 if dtype == "float" else values
        return values.astype(np.float32) / 255 if dtype == "float" else values


def imagehandler(imagespec: str) -> ImageHandler:
    """Return an `ImageHandler`."""
    return ImageHandler(imagespec)


class MatHandler:
    """Handler that decodes MATLAB's files with SciPy; arguments are those of `scipy.io.loadmat`."""

    def __init__(self, **loadmat_kwargs: Any) -> None:
        self.loadmat_kwargs = loadmat_kwargs

    def __call__(self, extension: str, data: bytes) -> Any:
        if extension != "mat":
            return None
        from scipy.io import loadmat

        return loadmat(io.BytesIO(data), **self.loadmat_kwargs)


def mathandler(**loadmat_kwargs: Any) -> MatHandler:
    """Return a `MatHandler`."""
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname: str) -> str:
    """Return the extension of a path, without the dot."""
    return os.path.splitext(pathname)[1].removeprefix(".")


class Decoder:
    """Decoder of pairs of a path and a file, by the first handler that returns a value.

    Args:
        handler: Functions of a key and a file's bytes, which return None for keys that they do not decode.
        key_fn: The function from a path to its key. Default: its extension.

    Example:
        >>> from triten.utils.data.datapipes.utils.decoder import Decoder, basichandlers
        >>> Decoder(basichandlers)(("a.json", b"[1, 2]"))
        {'a.json': [1, 2]}
    """

    def __init__(self, *handler: Handler, key_fn: Callable[[str], str] = extension_extract_fn) -> None:
        self.handlers: list[Handler] = list(handler)
        self.key_fn = key_fn

    def add_handler(self, *handler: Handler) -> None:
        """Add handlers that precede the others."""
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data: Any) -> bool:
        opened = data.file_obj if isinstance(data, StreamWrapper) else data
        return isinstance(opened, io.BufferedIOBase | io.RawIOBase)

    def decode1(self, key: str, data: Any) -> Any:
        """Decode a file's content by its key; a file is read and closed."""
        if not data:
            return data
        if self._is_stream_handle(data):
            stream, data = data, b"".join(data)
            stream.close()
        decoded = (handler(key, data) for handler in self.handlers)
        return next((each for each in decoded if each is not None), data)

    def decode(self, data: Any) -> dict[str, Any]:
        """Decode a pair of a path and a file, or several pairs; of a path with a leading ``_``, bytes are text."""
        pairs = [data] if isinstance(data, tuple) else data or ()
        decoded = {}
        for path, file in pairs:
            is_text = path.startswith("_") and isinstance(file, bytes)
            decoded[path] = file.decode("utf-8") if is_text else self.decode1(self.key_fn(path), file)
        return decoded

    __call__ = decode
