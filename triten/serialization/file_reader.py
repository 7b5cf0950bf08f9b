"""`PyTorchFileReader`: the records of a file of `save`, one by one (`torch.PyTorchFileReader`)."""

from __future__ import annotations

import os
from typing import IO, Any

import numpy as np

from ..dispatch.generated.functions import empty
from ..dispatch.methods.untyped_storage import UntypedStorage
from ..dispatch.tensor import Tensor
from ..runtime.regular_file import open_regular
from ..runtime.scalar_type import dtype as ScalarType
from ..runtime.scalar_type import uint8

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader:
    """Reads records of a zip archive that `tt.save` or `torch.save` wrote (`torch.PyTorchFileReader`).

    Args:
        name_or_buffer: a path, or a file that is open for reading bytes and can seek.

    Raises:
        RuntimeError: the file is not there, is damaged, or is no such archive.

    Example:
        >>> import io
        >>> import triten as tt
        >>> file = io.BytesIO()
        >>> tt.save(tt.ones(3), file)
        >>> reader = tt.PyTorchFileReader(file)
        >>> reader.has_record("data.pkl"), reader.get_record_size("data/0")
        (True, 12)
    """

    def __init__(self, name_or_buffer: str | os.PathLike[str] | IO[bytes]) -> None:
        from .archive import ArchiveReader

        self._own: IO[bytes] | None = None
        if isinstance(name_or_buffer, (str, os.PathLike)):
            try:
                self._own = open_regular(name_or_buffer)  # records are read as long as the reader lives
            except OSError as error:
                raise RuntimeError(
                    f"PyTorchFileReader: cannot open {os.fspath(name_or_buffer)!r}: {error.strerror or error}"
                ) from None
        file = name_or_buffer if self._own is None else self._own
        try:
            self._archive = ArchiveReader(file)  # type: ignore[arg-type]  # a path was opened
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        if self._own is not None:
            self._own.close()

    def __del__(self) -> None:
        if hasattr(self, "_own"):
            self._close()

    def get_all_records(self) -> list[str]:
        """Return the names of the records, in the order of the archive."""
        return list(self._archive.records)

    def has_record(self, name: str) -> bool:
        """Return whether a record exists."""
        return name in self._archive

    def get_record(self, name: str) -> bytes:
        """Return the bytes of a record.

        Raises:
            RuntimeError: The record does not exist or is damaged.
        """
        return self._archive.read(name)

    def get_record_offset(self, name: str) -> int:
        """Return the offset of a record's bytes in the file."""
        return self._archive.record(name).offset

    def get_record_size(self, name: str) -> int:
        """Return the size of a record in bytes."""
        return self._archive.record(name).size

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """Return an empty tensor whose storage holds a record's bytes.

        Args:
            name: The name of the record.
            numel: The number of elements in the record.
            dtype: Their dtype; `UntypedStorage` stands for bytes.

        Raises:
            RuntimeError: The record does not exist, or has another size.
        """
        kind: ScalarType = uint8 if dtype is UntypedStorage else dtype
        size = self._archive.record(name).size
        if size != numel * kind.itemsize:
            raise RuntimeError(
                f"PyTorchFileReader: record {name!r} has {size} bytes, expected {numel} elements of {kind}, "
                f"{numel * kind.itemsize} bytes"
            )
        made = empty(numel, dtype=kind)
        if size:
            self._archive.read_into(name, made.host_array().view(np.uint8).data)
        return made[:0]

    def serialization_id(self) -> str:
        """Return the file's id, a hash of its records that PyTorch writes; empty in files without one."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""
