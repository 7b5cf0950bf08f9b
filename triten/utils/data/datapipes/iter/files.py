"""Pipes of files: their paths, the open files, their content, and what it encodes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..datapipe import IterDataPipe, functional_datapipe
from ..utils.common import get_file_binaries_from_pathnames, get_file_pathnames_from_root
from ..utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler
from .wrapper import IterableWrapperIterDataPipe, Pipe, length_of

__all__ = [
    "FileListerIterDataPipe",
    "FileOpenerIterDataPipe",
    "RoutedDecoderIterDataPipe",
    "StreamReaderIterDataPipe",
]


class _OfToldLength(Pipe):
    """A pipe whose length the program tells; -1 for none."""

    length: int

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_OfToldLength):
    """The paths of the files in folders.

    Args:
        root: The path of a folder or file, a sequence of paths, or a pipe of them. Default: the current folder.
        masks: Shell patterns of the files' names; an empty one matches all. Default: ``""``.
        recursive: If True, list the folders below too. Default: False.
        abspath: If True, yield absolute paths. Default: False.
        non_deterministic: If True, yield names in the file system's order. Default: False, sorted.
        length: The length that the pipe tells. Default: -1, none.
    """

    def __init__(
        self,
        root: str | Sequence[str] | Pipe = ".",
        masks: str | list[str] = "",
        *,
        recursive: bool = False,
        abspath: bool = False,
        non_deterministic: bool = False,
        length: int = -1,
    ) -> None:
        roots = [root] if isinstance(root, str) else root
        self.datapipe = roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self) -> Iterator[str]:
        options = (self.masks, self.recursive, self.abspath, self.non_deterministic)
        for path in self.datapipe:
            yield from get_file_pathnames_from_root(path, *options)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(_OfToldLength):
    """Pairs of a path and the open file, which is closed when it is out of scope.

    Args:
        datapipe: The paths.
        mode: ``"r"``, ``"t"`` or ``"rt"`` for text, ``"b"`` or ``"rb"`` for bytes. Default: ``"r"``.
        encoding: The encoding of text. Default: None, Python's.
        length: The length that the pipe tells. Default: -1, none.

    Raises:
        ValueError: The mode is another one, or an encoding is given for bytes.
    """

    def __init__(
        self, datapipe: Iterable[str], mode: str = "r", encoding: str | None = None, length: int = -1
    ) -> None:
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(Pipe):
    """Pairs of a name and the content of the file that comes with it.

    Args:
        datapipe: Pairs of a name and an open file, which is closed at its end.
        chunk: The number of bytes or characters of a pair. Default: None, all of the file.
    """

    def __init__(self, datapipe: Pipe, chunk: int | None = None) -> None:
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for name, stream in self.datapipe:
            while content := stream.read(self.chunk):
                yield name, content
            stream.close()


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(Pipe):
    """Pairs of a path and what a file encodes. PyTorch has deprecated it.

    Args:
        datapipe: Pairs of a path and an open file.
        handlers: Decoders, as `Decoder` takes them. Default: `basichandlers`, and images as tensors.
        key_fn: The function from a path to the key that handlers get. Default: its extension.
    """

    def __init__(
        self,
        datapipe: Iterable[tuple[str, Any]],
        *handlers: Callable[[str, Any], Any],
        key_fn: Callable[[str], str] = extension_extract_fn,
    ) -> None:
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)
        warnings.warn(
            f"`{type(self).__name__}()` and its functional API `.routed_decode()` are deprecated since 1.12 and will "
            "be removed in 1.13.",
            FutureWarning,
            stacklevel=2,
        )

    def add_handler(self, *handler: Callable[[str, Any], Any]) -> None:
        """Add handlers that precede the others."""
        self.decoder.add_handler(*handler)

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        for pair in self.datapipe:
            yield pair[0], self.decoder(pair)[pair[0]]

    def __len__(self) -> int:
        return length_of(self, self.datapipe)
