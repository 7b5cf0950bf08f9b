"""Memory-mapped files for storages (`torch.UntypedStorage.from_file`)."""

from __future__ import annotations

import mmap

__all__ = ["MappedFile"]


class MappedFile(mmap.mmap):
    """Memory-mapped file, which the array over it keeps alive."""

    filename: str
    shared: bool
    """True if writes go to the file."""
