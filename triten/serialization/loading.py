"""`tt.load`: reads files of `save` or PyTorch. By default a file is untrusted and may contain anything.

The reader is imported at the first call.
"""

from __future__ import annotations

import io
import os
import pickle
import warnings
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import IO, Any

from ..dispatch.methods.untyped_storage import UntypedStorage
from ..runtime.device import device as Device
from ..runtime.regular_file import open_regular
from ..runtime.traceback_filter import api_boundary
from . import settings

File = str | os.PathLike[str] | IO[bytes]
MapLocation = Callable[[UntypedStorage, str], Any] | Device | str | Mapping[str, str] | None


@api_boundary
def load(
    f: File,
    map_location: MapLocation = None,
    pickle_module: ModuleType | None = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Load an object that `save` or PyTorch wrote (`torch.load`).

    By default the file may come from anyone. Its names are looked up in a table of tensors, dtypes, storages and
    plain containers, which `add_safe_globals` extends. Nothing is imported, no other class is given a state, and the
    arguments of every call are checked. Sizes, strides and offsets are bounds-checked against the storages, and
    storages against the file, before any allocation. Memory is proportional to the file: at most some hundred bytes
    for each byte of the pickle.

    There is no protection against:

    - Actions of a class or function that `add_safe_globals` allowed.
    - Nesting so deep that printing or comparing the result fails.
    - A tensor that repeats few elements (stride 0) to a size that a later computation has no memory for.

    Args:
        f: A path, or a binary file that can seek.
        map_location: Where tensors go: a device, a mapping of devices' names, or a function of a storage on the host
            and its device's name, which gives a storage or None; by default where they were.
        pickle_module: A module with a class `Unpickler` that extends Python's, such as `dill`. It runs the file's
            pickle, so that the file may run any code. Default: None.
        weights_only: If False, the file may run any code. If True, load only tensors, plain containers and the globals
            of `add_safe_globals`. Default: True without a `pickle_module`, False with one.
        mmap: If True, storages on the CPU are the file itself, mapped to memory and read when they are needed. If
            another process truncates the file meanwhile, an access ends this process with SIGBUS: leave it False for
            files that may change. Default: False. With it, `f` is a path. Writes stay in memory, unless
            `set_default_mmap_options` says otherwise; the file must not be written to meanwhile. Checksums are not
            looked at.
        **pickle_load_args: Further arguments of Python's unpickler, such as `encoding`.

    Returns:
        The object that was written.

    Raises:
        AttributeError: `f` is no path, nor a file that can seek.
        FileNotFoundError: There is no file at the path.
        UnpicklingError: The file names a global that is not allowed, or its pickle is malformed.
        EOFError: The file is empty, or its pickle ends too early.
        RuntimeError: The file is damaged or has another format, which `mmap` may not have been written for, a tensor
            does not fit its storage, or a device is not there.
        RuntimeError: `pickle_module` is given with weights_only=True.
        TypeError: `pickle_module` has no class `Unpickler`.
        ValueError: `mmap` is given for what is no path, or the file names no order of bytes that is known.

    Example:
        >>> import io, triten as tt
        >>> file = io.BytesIO()
        >>> tt.save([tt.arange(3), "text"], file)
        >>> tt.load(io.BytesIO(file.getvalue()), map_location="meta")[0].device
        device(type='meta')
    """
    from .reading import read

    safe = pickle_module is None if weights_only is None else weights_only
    if safe and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    unpickler = getattr(pickle_module or pickle, "Unpickler", None)
    if not isinstance(unpickler, type):
        raise TypeError(
            f"load: argument 'pickle_module' must have a class Unpickler, got {pickle_module!r:.100}"
        )
    trusted: Any = None if safe else unpickler
    if safe and pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    if mmap is None:
        mmap = settings.load.mmap
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument")
    options = {"encoding": "utf-8", **pickle_load_args}
    if isinstance(f, str | os.PathLike):
        writes_to_file = mmap and settings.writes_to_mapped_files()
        with open_regular(f, "r+b" if writes_to_file else "rb") as file:
            return read(file, map_location, trusted, options, bool(mmap))
    return read(_seekable(f), map_location, trusted, options)


def get_unsafe_globals_in_checkpoint(f: File) -> list[str]:
    """Return the names in a file that `load` refuses by default, and that `add_safe_globals` could allow.

    The pickle is read without being run. (`torch.serialization.get_unsafe_globals_in_checkpoint`)

    Args:
        f: A path, or a binary file that can seek, of the zip format.

    Raises:
        ValueError: The file is none of `save`'s.
        UnpicklingError: Its pickle is malformed.

    Example:
        >>> import io, triten as tt
        >>> from fractions import Fraction
        >>> file = io.BytesIO()
        >>> tt.save([tt.ones(1), Fraction(1, 2)], file)
        >>> tt.serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(file.getvalue()))
        ['fractions.Fraction']
    """
    from .reading import unsafe_globals

    if isinstance(f, str | os.PathLike):
        with open_regular(f) as opened:
            return unsafe_globals(opened)
    return unsafe_globals(_seekable(f))


def _seekable(f: Any) -> IO[bytes]:
    if not (hasattr(f, "seek") and hasattr(f, "read") and hasattr(f, "tell")):
        raise AttributeError(
            f"{type(f).__name__!r} object has no attribute 'seek'. You can only torch.load from a file that is "
            "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    try:
        f.seek(f.tell())
    except io.UnsupportedOperation as error:
        raise io.UnsupportedOperation(
            f"{error}. You can only load from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        ) from None
    file: IO[bytes] = f
    return file
