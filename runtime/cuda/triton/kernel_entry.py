"""Format of a compiled kernel in a file: a checksum, a header in JSON, the cubin."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from .compile import KernelBinary

MAGIC = b"TRITENCUBIN\x00"
DIGEST_SIZE = 32

_HEADER_KINDS = {
    name: tuple if hint.startswith("tuple") else {"str": str, "int": int, "bool": bool}[hint]
    for name, hint in ((f.name, str(f.type)) for f in dataclasses.fields(KernelBinary))
    if name not in ("cubin", "asm")
}
_HEADER_FIELDS = sorted(_HEADER_KINDS)


def pack(key: str, binary: KernelBinary) -> bytes:
    """Return an entry's bytes: magic, SHA-256 of the rest, length of the header, header in JSON, cubin."""
    header = {name: getattr(binary, name) for name in _HEADER_FIELDS}
    text = json.dumps({"key": key, **header}).encode()
    body = len(text).to_bytes(4, "little") + text + binary.cubin
    return MAGIC + hashlib.sha256(body).digest() + body


def unpack(key: str, data: bytes) -> KernelBinary | None:
    """Return the kernel of an entry's bytes; return None unless they are complete and belong to the key."""
    start = len(MAGIC) + DIGEST_SIZE
    body = memoryview(data)[start:]
    if data[: len(MAGIC)] != MAGIC or hashlib.sha256(body).digest() != data[len(MAGIC) : start]:
        return None
    end = 4 + int.from_bytes(body[:4], "little")
    try:
        header: Any = json.loads(bytes(body[4:end]))
    except (ValueError, RecursionError):
        return None
    if not isinstance(header, dict) or header.pop("key", None) != key or sorted(header) != _HEADER_FIELDS:
        return None
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in header.items()
    }
    if any(type(value) is not _HEADER_KINDS[name] for name, value in values.items()):
        return None
    if not all(isinstance(each, str) for each in values["parameter_types"]):
        return None
    if not all(isinstance(each, dict) for each in values["tensor_maps"]):
        return None
    return KernelBinary(cubin=bytes(body[end:]), asm={}, **values)
