"""Settings of `save` and `load` (`torch.serialization`): defaults, and blocks that skip the storages' bytes."""

from __future__ import annotations

import mmap
import threading
from enum import Enum
from typing import Any, ClassVar

__all__ = [
    "LoadEndianness",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]


_PRIVATE = getattr(mmap, "MAP_PRIVATE", None)
_SHARED = getattr(mmap, "MAP_SHARED", None)


class LoadEndianness(Enum):
    """Byte orders of files that name none (`torch.serialization.LoadEndianness`)."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


class load:
    """Defaults of `load` (`torch.utils.serialization.config.load`)."""

    mmap: ClassVar[bool] = False
    """Value of load's argument `mmap` where the caller gives none."""
    endianness: ClassVar[LoadEndianness | None] = None
    """Byte order of files that name none; None is little-endian."""
    mmap_flags: ClassVar[int | None] = _PRIVATE
    """Flags of the memory maps of load(mmap=True)."""


class save:
    """Defaults of `save` (`torch.utils.serialization.config.save`)."""

    compute_crc32: ClassVar[bool] = True
    """If False, records have no checksum, and `load` checks none."""
    storage_alignment: ClassVar[int] = 64
    """Number of bytes whose multiples the records of a file begin at."""


def get_default_load_endianness() -> LoadEndianness | None:
    """Return the byte order that `load` assumes of files that name none; None if it was never set."""
    return load.endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order that `load` assumes of files that name none.

    Args:
        endianness: The byte order. None, the default, means little-endian.

    Raises:
        TypeError: `endianness` is no `LoadEndianness`.
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError(
            "Invalid argument type in function set_default_load_endianness: expected a LoadEndianness or None, got "
            f"{type(endianness).__name__}"
        )
    load.endianness = endianness


def get_crc32_options() -> bool:
    """Return whether `save` writes a checksum for each record."""
    return save.compute_crc32


def set_crc32_options(compute_crc32: bool) -> None:
    """Set whether `save` writes a checksum for each record.

    Args:
        compute_crc32: If False, records have no checksum: other programs may refuse the file as damaged.
    """
    save.compute_crc32 = compute_crc32


def get_default_mmap_options() -> int | None:
    """Return the flags of the memory maps of load(mmap=True), ``mmap.MAP_PRIVATE`` by default."""
    return load.mmap_flags


class set_default_mmap_options:
    """Set the flags of the memory maps of load(mmap=True), for a block or until the next call.

    Args:
        flags: ``mmap.MAP_PRIVATE``: writes to loaded tensors stay in memory. ``mmap.MAP_SHARED``: they go to the file.

    Raises:
        ValueError: `flags` has another value.

    Example:
        >>> import mmap, triten as tt
        >>> with tt.serialization.set_default_mmap_options(mmap.MAP_SHARED):
        ...     tt.serialization.get_default_mmap_options() == mmap.MAP_SHARED
        True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (_PRIVATE, _SHARED):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or mmap.MAP_SHARED, "
                f"but got {flags}"
            )
        self.prev = load.mmap_flags
        load.mmap_flags = flags

    def __enter__(self) -> None:
        """Enter the block; the flags are set already."""

    def __exit__(self, *error: Any) -> None:
        load.mmap_flags = self.prev


def writes_to_mapped_files() -> bool:
    """Return whether writes to the memory-mapped tensors of a file go to the file."""
    return _SHARED is not None and load.mmap_flags == _SHARED


class _Skipping(threading.local):
    """Thread-local flag of the blocks of `skip_data`."""

    is_on = False


_skipping = _Skipping()


def skips_data() -> bool:
    """Return whether this thread neither writes nor reads the storages' bytes."""
    return _skipping.is_on


class skip_data:
    """Block in which `save` writes zeros for the storages' bytes, and `load` leaves storages uninitialized.

    Another program then fills in the bytes, whose places `PyTorchFileReader` gives.

    Args:
        materialize_fake_tensors: Must be False: fake tensors have no bytes to be saved.

    Raises:
        NotImplementedError: `materialize_fake_tensors` is True.

    Example:
        >>> import io, triten as tt
        >>> file = io.BytesIO()
        >>> with tt.serialization.skip_data():
        ...     tt.save(tt.ones(2), file)
        >>> tt.load(io.BytesIO(file.getvalue()))
        tensor([0., 0.])
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: materialize_fake_tensors=True is not supported")
        self.materialize_fake_tensors = materialize_fake_tensors

    def __enter__(self) -> None:
        self._before = _skipping.is_on
        _skipping.is_on = True

    def __exit__(self, *error: Any) -> None:
        _skipping.is_on = self._before
