"""Files, and checks of the functions that pipes call (`torch.utils.data.datapipes.utils.common`)."""

from __future__ import annotations

import fnmatch
import functools
import importlib.util
import inspect
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from io import IOBase
from typing import Any, ClassVar, NoReturn

__all__ = [
    "StreamWrapper",
    "get_file_binaries_from_pathnames",
    "get_file_pathnames_from_root",
    "match_masks",
    "validate_input_col",
    "validate_pathname_binary_tuple",
]


def validate_input_col(fn: Callable[..., Any], input_col: int | tuple[Any, ...] | list[Any] | None) -> None:
    """Check that a function takes as many positional arguments as there are columns.

    Args:
        fn: The function. One whose signature Python cannot tell is accepted.
        input_col: The columns: a list or tuple of several, or one. None stands for the whole sample.

    Raises:
        ValueError: It takes more or fewer, or needs an argument by keyword.

    Example:
        >>> from triten.utils.data.datapipes.utils.common import validate_input_col
        >>> validate_input_col(lambda a, b=1: a + b, [0])
        >>> validate_input_col(lambda a: a, [0, 1])
        Traceback (most recent call last):
        ValueError: The function <lambda> takes 1 parameters, but 2 are required.
    """
    try:
        parameters = inspect.signature(fn).parameters.values()
    except ValueError:
        return
    count = len(input_col) if isinstance(input_col, list | tuple) else 1
    named = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(named, "__name__", repr(named))
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    is_variadic = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    by_keyword = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if by_keyword:
        raise ValueError(
            f"The function {name} takes {len(by_keyword)} non-default keyword-only parameters, which is not allowed."
        )
    if len(parameters) < count and not is_variadic:
        raise ValueError(f"The function {name} takes {len(parameters)} parameters, but {count} are required.")
    lacks = any(p.default is p.empty for p in positional[count:])
    if lacks or (len(positional) < count and not is_variadic):
        raise ValueError(
            f"The function {name} takes {len(positional)} positional parameters, but {count} are required."
        )


def _is_local(fn: Any) -> bool:
    code = getattr(fn, "__code__", None)
    if code is not None:
        return bool(code.co_flags & inspect.CO_NESTED)
    return "<locals>" in getattr(fn, "__qualname__", type(fn).__qualname__)


def _check_unpickable_fn(fn: Any) -> None:
    """Warn of a function that pickle cannot store, unless the package dill can.

    Raises:
        TypeError: `fn` is not callable.
    """
    if not callable(fn):
        raise TypeError(f"A callable function is expected, but {type(fn)} is provided.")
    if isinstance(fn, functools.partial):
        fn = fn.func
    kind = "Local" if _is_local(fn) else "Lambda" if getattr(fn, "__name__", "") == "<lambda>" else ""
    if kind and importlib.util.find_spec("dill") is None:
        warnings.warn(
            f"{kind} function is not supported by pickle, please use regular python function or functools.partial "
            "instead.",
            stacklevel=3,
        )


def match_masks(name: str, masks: str | list[str]) -> bool:
    """Return whether a file's name matches a shell pattern, or one of several; without patterns, True."""
    patterns = [masks] if isinstance(masks, str) else masks
    return not masks or any(fnmatch.fnmatch(name, each) for each in patterns)


def get_file_pathnames_from_root(
    root: str,
    masks: str | list[str],
    recursive: bool = False,
    abspath: bool = False,
    non_deterministic: bool = False,
) -> Iterator[str]:
    """Yield the paths of the files of a folder, or of a file itself.

    Args:
        root: The path of the folder or file.
        masks: Shell patterns of the files' names; an empty one matches all.
        recursive: If True, list the folders below too. Default: False.
        abspath: If True, yield absolute paths. Default: False.
        non_deterministic: If True, yield names in the file system's order. Default: False, sorted.

    Raises:
        OSError: The folder cannot be read.
    """

    def fail(error: OSError) -> NoReturn:
        warnings.warn(f"{error.filename} : {error.strerror}", stacklevel=2)
        raise error

    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield os.path.abspath(root) if abspath else root
        return
    for folder, folders, names in os.walk(root, onerror=fail):
        if not non_deterministic:
            folders.sort()
            names.sort()
        where = os.path.abspath(folder) if abspath else folder
        yield from (os.path.join(where, name) for name in names if match_masks(name, masks))
        if not recursive:
            return


def get_file_binaries_from_pathnames(
    pathnames: Iterable[str], mode: str, encoding: str | None = None
) -> Iterator[tuple[str, StreamWrapper]]:
    """Yield pairs of a path and the open file.

    Args:
        pathnames: The paths.
        mode: As that of `open`; ``"b"`` and ``"t"`` are ``"rb"`` and ``"rt"``.
        encoding: As that of `open`. Default: None.

    Raises:
        TypeError: A path is no string.
    """
    if not isinstance(pathnames, Iterable):
        pathnames = [pathnames]
    for pathname in pathnames:
        if not isinstance(pathname, str):
            raise TypeError(f"Expected string type for pathname, but got {type(pathname)}")
        full_mode = f"r{mode}" if mode in ("b", "t") else mode
        yield pathname, StreamWrapper(open(pathname, full_mode, encoding=encoding))  # noqa: SIM115


def validate_pathname_binary_tuple(data: tuple[str, IOBase]) -> None:
    """Check that `data` is a pair of a path and an open file. Raises TypeError."""
    if not isinstance(data, tuple):
        raise TypeError(f"pathname binary data should be tuple type, but it is type {type(data)}")
    if len(data) != 2:
        raise TypeError(f"pathname binary stream tuple length should be 2, but got {len(data)}")
    if not isinstance(data[0], str):
        raise TypeError(
            f"pathname within the tuple should have string type pathname, but it is type {type(data[0])}"
        )
    if not isinstance(data[1], IOBase | StreamWrapper):
        raise TypeError(
            "binary stream within the tuple should have IOBase orits subclasses as type, but it is type "
            f"{type(data[1])}"
        )


class StreamWrapper:
    """An open file that is closed when it is out of scope, as pipes yield it.

    Its attributes are those of the file.

    Args:
        file_obj: The file.
        parent_stream: The stream that this one is a part of, such as an archive. It is closed with its last part
            after `autoclose`. Default: None.
        name: A name for its text. Default: None.

    Raises:
        RuntimeError: `parent_stream` is no `StreamWrapper`.
    """

    session_streams: ClassVar[dict[StreamWrapper, int]] = {}
    debug_unclosed_streams: ClassVar[bool] = False

    def __init__(
        self, file_obj: Any, parent_stream: StreamWrapper | None = None, name: str | None = None
    ) -> None:
        self.file_obj = file_obj
        self.name = name
        self.child_counter = 0
        self.close_on_last_child = False
        self.closed = False
        self.parent_stream = parent_stream
        if parent_stream is not None:
            if not isinstance(parent_stream, StreamWrapper):
                raise RuntimeError(f"Parent stream should be StreamWrapper, {type(parent_stream)} was given")
            parent_stream.child_counter += 1
        if StreamWrapper.debug_unclosed_streams:
            StreamWrapper.session_streams[self] = 1

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close the streams in a sample: in dicts, lists and tuples, at most ten levels deep."""
        if isinstance(v, StreamWrapper):
            v.close()
        elif depth < 10 and isinstance(v, dict | list | tuple):
            for each in v.values() if isinstance(v, dict) else v:
                cls.close_streams(each, depth + 1)

    def __getattr__(self, name: str) -> Any:
        if name == "closed":  # the constructor has failed
            return True
        if "file_obj" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Close the file, and its parent if this was its last part and it is to be closed."""
        if self.closed:
            return
        StreamWrapper.session_streams.pop(self, None)
        parent = self.parent_stream
        if parent is not None:
            parent.child_counter -= 1
            if not parent.child_counter and parent.close_on_last_child:
                parent.close()
        close = getattr(self.file_obj, "close", None)
        if close is not None:
            close(*args, **kwargs)
        self.closed = True

    def autoclose(self) -> None:
        """Close the file with its last part, now if it has none."""
        self.close_on_last_child = True
        if self.child_counter == 0:
            self.close()

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *vars(StreamWrapper), *dir(self.file_obj)})

    def __del__(self) -> None:
        if not self.closed:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name},"
        return f"StreamWrapper<{name}{self.file_obj!r}>"

    def __getstate__(self) -> Any:
        return self.file_obj

    def __setstate__(self, state: Any) -> None:
        self.__init__(state)  # type: ignore[misc]
