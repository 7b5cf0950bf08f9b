"""Files as memory, for storages (`torch.UntypedStorage.from_file`)."""

from __future__ import annotations

import mmap

__all__ = ["MappedFile"]


class MappedFile(mmap.mmap):
    """A file in memory, which the array over it keeps."""

    filename: str
    shared: bool
    """Whether writes go to the file."""
