"""Zip archive of a file: a folder with a pickle, and a record for the bytes of each storage.

Records are stored uncompressed, so that an archive holds no more bytes than its file. The reader enforces this before
it allocates: it refuses compressed, overlapping and duplicate records, and records outside the file or the archive's
folder.
"""

from __future__ import annotations

import mmap
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from . import settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIGNATURE = b"PK\x03\x04"
ALIGNED = 16
"""What a record's position must be a multiple of for its elements to be used where they are."""
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
ZIP64_EXTRA = 20
"""What `zipfile` adds to the header of a record that is too large for 32 bits."""
ENCRYPTED = 0x1
UTF_8 = 0x800
CHUNK = 1 << 24
DAMAGES = (zipfile.BadZipFile, NotImplementedError, ValueError, OverflowError, struct.error, OSError)
"""What `zipfile` raises of archives that are none."""


@dataclass(frozen=True, slots=True)
class Record:
    """Offset and size of a record's bytes in the file."""

    offset: int
    size: int
    crc: int


class ArchiveReader:
    """The records of a file that begins with `SIGNATURE`, without the folder that they are in.

    Raises RuntimeError for an archive that is damaged or that `save` does not write.

    Args:
        file: the file, from its beginning.
        maps: If True, `mapped` gives records as the file's own bytes. Default: False.
    """

    def __init__(self, file: IO[bytes], maps: bool = False) -> None:
        self._file = file
        self._maps = maps
        self._memory: mmap.mmap | None = None
        try:
            with zipfile.ZipFile(file) as archive:
                entries, end = archive.infolist(), archive.start_dir
            located = [(_located(file, entry), entry) for entry in entries]
        except (
            zipfile.BadZipFile,
            NotImplementedError,
            UnicodeDecodeError,
            ValueError,
            struct.error,
            OSError,
        ) as error:
            raise RuntimeError(
                f"load: failed reading zip archive: {error}. The file is damaged or not complete"
            ) from None
        if not located:
            raise RuntimeError("load: the archive is empty")
        names = [entry.filename for entry in entries]
        folder = names[0].partition("/")[0] + "/"
        for name in names:
            if not name.startswith(folder):
                raise RuntimeError(
                    f"load: file in archive is not in a subdirectory {folder!r:.200}: {name!r:.200}"
                )
        if len(set(names)) < len(names):
            raise RuntimeError("load: the archive has two records of the same name")
        used = 0
        for record, entry in sorted(located, key=lambda each: each[0].offset):
            if entry.header_offset < used or record.offset + record.size > end:
                raise RuntimeError(
                    f"load: record {entry.filename!r:.200} overlaps another one or the archive's directory"
                )
            used = record.offset + record.size
        self.records = {entry.filename.removeprefix(folder): record for record, entry in located}
        self.size = sum(record.size for record in self.records.values())

    def __contains__(self, name: str) -> bool:
        return name in self.records

    def read(self, name: str) -> bytes:
        """Return the bytes of a record."""
        record = self.record(name)
        data = bytearray(record.size)
        self.read_into(name, memoryview(data))
        return bytes(data)

    def record(self, name: str) -> Record:
        """Return the location of a record.

        Raises:
            RuntimeError: The record does not exist.
        """
        record = self.records.get(name)
        if record is None:
            raise RuntimeError(f"load: the archive has no record {name!r:.200}")
        return record

    def mapped(self, name: str) -> NDArray[np.uint8] | None:
        """Return a record's bytes as a memory map; None if the file is not mapped or the record is unaligned.

        Writes to the map stay in memory, unless the settings say that they go to the file.

        Raises:
            RuntimeError: The file ends before the record.
        """
        record = self.record(name)
        if not self._maps or not record.size or record.offset % ALIGNED:
            return None
        if self._memory is None:
            access = mmap.ACCESS_WRITE if settings.writes_to_mapped_files() else mmap.ACCESS_COPY
            self._memory = mmap.mmap(self._file.fileno(), 0, access=access)
        if record.offset + record.size > len(self._memory):
            raise RuntimeError(
                f"load: the file ends within record {name!r:.200}; load files that change with mmap=False"
            )
        return np.ndarray(record.size, np.uint8, self._memory, record.offset)

    def read_into(self, name: str, target: memoryview) -> None:
        """Read a record. Raises RuntimeError where the file ends before it or where its checksum is another."""
        record = self.record(name)
        self._file.seek(record.offset)
        read_chunk = getattr(self._file, "readinto", None) or self._copy_chunk
        crc = done = 0
        while done < record.size:
            chunk = target[done : done + min(CHUNK, record.size - done)]
            count = read_chunk(chunk)
            if not count:
                raise RuntimeError(f"load: the file ends within record {name!r:.200}")
            crc = zlib.crc32(chunk[:count], crc)
            done += count
        # PyTorch can be told to write no checksum; the field is then zero.
        if record.crc and crc != record.crc:
            raise RuntimeError(
                f"load: the checksum of record {name!r:.200} does not agree; the file is damaged"
            )

    def _copy_chunk(self, target: memoryview) -> int:
        """Read up to `target`'s size from a file without `readinto`; return the number of bytes."""
        data = self._file.read(target.nbytes)
        target[: len(data)] = data
        return len(data)


def _located(file: IO[bytes], entry: zipfile.ZipInfo) -> Record:
    """Locate a record's bytes by its local header.

    Raises:
        RuntimeError: The record is compressed.
    """
    if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
        raise RuntimeError(
            f"load: record {entry.filename!r:.200} is compressed; torch.save stores records as they are"
        )
    if not 0 <= entry.header_offset < 2**63 - LOCAL_HEADER.size:
        raise zipfile.BadZipFile("a record's header is beyond every file")
    file.seek(entry.header_offset)
    header = file.read(LOCAL_HEADER.size)
    if len(header) < LOCAL_HEADER.size:
        raise zipfile.BadZipFile("a record's header is missing")
    signature, _, flags, method, *_, name_size, extra_size = LOCAL_HEADER.unpack(header)
    if signature != SIGNATURE or method != zipfile.ZIP_STORED or (flags | entry.flag_bits) & ENCRYPTED:
        raise zipfile.BadZipFile("a record's header does not agree with the directory")
    name = file.read(name_size).decode("utf-8" if flags & UTF_8 else "cp437")
    if name != entry.orig_filename:
        raise zipfile.BadZipFile("a record's name does not agree with the directory")
    begin = entry.header_offset + LOCAL_HEADER.size + name_size + extra_size
    return Record(begin, entry.file_size, entry.CRC)


class ArchiveWriter:
    """Writes records into a folder of a new archive."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        self._archive = archive
        self._folder = folder

    def add(self, name: str, data: bytes | NDArray[Any]) -> None:
        """Add a record whose bytes begin at a multiple of the setting `save.storage_alignment`."""
        view = memoryview(data)  # type: ignore[arg-type]
        info = zipfile.ZipInfo(f"{self._folder}/{name}")
        header = LOCAL_HEADER.size + len(info.filename.encode()) + 4
        if view.nbytes * 1.05 > zipfile.ZIP64_LIMIT:
            header += ZIP64_EXTRA
        padding = -(self._archive.start_dir + header) % settings.save.storage_alignment
        info.extra = b"FB" + padding.to_bytes(2, "little") + bytes(padding)
        self._archive.writestr(info, view)
        if not settings.save.compute_crc32:
            info.CRC = 0


@contextmanager
def writing(file: IO[bytes], folder: str) -> Iterator[ArchiveWriter]:
    """Write an archive to a file inside the block."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        yield ArchiveWriter(archive, folder)
