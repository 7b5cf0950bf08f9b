"""Parts of a file: records of an archive, the header and elements of safetensors, checksummed content.

A joined file has the lengths and checksums of its parts, so a mutation reaches the code behind those checks.
"""

import hashlib
import io
import json
import struct
import zipfile
import zlib

from triten.distributed.checkpoint.metadata_file import FORMAT as CHECKPOINT
from triten.runtime.cuda.triton.kernel_entry import DIGEST_SIZE, MAGIC

ALIGNMENT = 64
LOCAL = struct.Struct("<4s5H3I2H")


class NoPartsError(ValueError):
    """A file that cannot be split, as an earlier change may have made it."""


class Archive:
    """A ZIP archive: its records, stored, by name."""

    name = "archive"

    @staticmethod
    def accepts(data):
        return data.startswith(b"PK\x03\x04")

    @staticmethod
    def split(data):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                return {name: archive.read(name) for name in archive.namelist()}
        except Exception as error:
            raise NoPartsError(str(error)) from None

    @staticmethod
    def join(parts, methods=None):
        """Return the archive; `methods` maps compressed records to their compression methods."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in parts.items():
                info = zipfile.ZipInfo(name)
                info.compress_type = (methods or {}).get(name, zipfile.ZIP_STORED)
                if info.compress_type == zipfile.ZIP_STORED:
                    begin = file.tell() + LOCAL.size + len(name.encode()) + 4
                    padding = -begin % ALIGNMENT
                    info.extra = struct.pack("<2sH", b"FB", padding) + b"Z" * padding
                archive.writestr(info, data)
        return file.getvalue()


class Safetensors:
    """A header of JSON behind its length, then elements."""

    name = "safetensors"

    @staticmethod
    def accepts(data):
        return data[8:10] == b'{"' and int.from_bytes(data[:8], "little") <= len(data) - 8

    @staticmethod
    def split(data):
        end = 8 + int.from_bytes(data[:8], "little")
        return {"header": data[8:end], "elements": data[end:]}

    @staticmethod
    def join(parts):
        return len(parts["header"]).to_bytes(8, "little") + parts["header"] + parts["elements"]


class CheckpointMetadata:
    """JSON whose content a checksum is of."""

    name = "metadata"

    @staticmethod
    def accepts(data):
        return data.startswith(b'{"format":"' + CHECKPOINT.encode())

    @staticmethod
    def split(data):
        try:
            return {"content": _text(json.loads(data)["content"])}
        except (ValueError, KeyError, RecursionError) as error:
            raise NoPartsError(str(error)) from None

    @staticmethod
    def join(parts):
        try:
            content = _text(json.loads(parts["content"]))
        except (ValueError, RecursionError):
            content = parts["content"]
        head = f'{{"format":"{CHECKPOINT}","version":1,"checksum":{zlib.crc32(content)},"content":'
        return head.encode() + content + b"}"


class KernelEntry:
    """A compiled kernel of the store: a checksum, a header of JSON behind its length, the code."""

    name = "kernel"

    @staticmethod
    def accepts(data):
        return data.startswith(MAGIC)

    @staticmethod
    def split(data):
        body = data[len(MAGIC) + DIGEST_SIZE :]
        end = 4 + int.from_bytes(body[:4], "little")
        return {"header": body[4:end], "code": body[end:]}

    @staticmethod
    def join(parts):
        body = len(parts["header"]).to_bytes(4, "little") + parts["header"] + parts["code"]
        return MAGIC + hashlib.sha256(body).digest() + body


CONTAINERS = (Archive, CheckpointMetadata, KernelEntry, Safetensors)


def container_of(data):
    """Return the file's container format; None for a file that is not split."""
    return next((each for each in CONTAINERS if each.accepts(data)), None)


def leaves(data, path=()):
    """Yield the paths and bytes of all parts that are not split further."""
    container = container_of(data)
    if container is None:
        yield list(path), data
        return
    try:
        parts = container.split(data)
    except NoPartsError:
        yield list(path), data
        return
    for name, part in parts.items():
        yield from leaves(part, (*path, name))


def changed_at(data, path, change):
    """Return the file with one changed part. Raises NoPartsError if there is no such part."""
    if not path:
        return change(data)
    container = container_of(data)
    if container is None:
        raise NoPartsError(f"no parts, where {path[0]!r} is asked for")
    parts = container.split(data)
    if path[0] not in parts:
        raise NoPartsError(f"no part {path[0]!r}")
    parts[path[0]] = changed_at(parts[path[0]], path[1:], change)
    return container.join(parts)


def _text(value):
    return json.dumps(value, separators=(",", ":")).encode()
