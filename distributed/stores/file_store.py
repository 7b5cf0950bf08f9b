"""A store in a file that all processes see."""

from __future__ import annotations

import fcntl
import os
import struct
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import BinaryIO, TypeVar

from ...runtime.regular_file import open_regular
from ..errors import DistStoreError, QueueEmptyError
from .hash_store import HashStore
from .store import DEFAULT_TIMEOUT, Store, as_bytes, seconds_of

__all__ = ["FileStore"]

POLL = 0.01
"""Seconds between two looks into the file."""
_HEAD = struct.Struct("!cII")
_SET, _DELETE, _PUSH, _POP = b"s", b"d", b"p", b"q"
LEFT = "__left__"
"""The key under which objects that are no longer used are counted."""

_Found = TypeVar("_Found")


class FileStore(Store):
    """Values in a file that processes share, each written to its end (`torch.distributed.FileStore`).

    Args:
        file_name: the path. The file is made where it is missing; one that is left over from a run that was cut off
            has its values still, and must be taken away first.
        world_size: the number of processes; -1 for any. Once that many objects are no longer used, or their processes
            have ended, the last one takes the file away.
        timeout: Time limit for values.

    Example:
        >>> import os, tempfile, triten as tt
        >>> path = os.path.join(tempfile.mkdtemp(), "store")
        >>> tt.distributed.FileStore(path, 2).set("key", "value")
        >>> tt.distributed.FileStore(path, 2).get("key")
        b'value'
        >>> os.path.exists(path)
        False
    """

    def __init__(self, file_name: str, world_size: int = -1, timeout: timedelta = DEFAULT_TIMEOUT) -> None:
        super().__init__(timeout)
        self.path = os.fspath(file_name)
        self.world_size = world_size
        self._values = HashStore()
        self._read = 0
        with self._file():
            pass  # which makes it
        if world_size > 0:
            weakref.finalize(self, _leave, self.path, world_size, os.getpid())

    def set(self, key: str, value: str | bytes) -> None:
        with self._file() as write:
            write(_SET, key, as_bytes(value))

    def get(self, key: str) -> bytes:
        self.wait([key])
        return self._values.get(key)

    def add(self, key: str, amount: int) -> int:
        with self._file() as write:
            total = self._values.add(key, amount)
            write(_SET, key, str(total).encode())
        return total

    def append(self, key: str, value: str | bytes) -> None:
        with self._file() as write:
            previous = self._values.get(key) if self._values.check([key]) else b""
            write(_SET, key, previous + as_bytes(value))

    def compare_set(self, key: str, expected_value: str | bytes, desired_value: str | bytes) -> bytes:
        with self._file() as write:
            stored = self._values.compare_set(key, expected_value, desired_value)
            if self._values.check([key]):
                write(_SET, key, stored)
        return stored

    def delete_key(self, key: str) -> bool:
        with self._file() as write:
            was_there = self._values.delete_key(key)
            if was_there:
                write(_DELETE, key, b"")
        return was_there

    def num_keys(self) -> int:
        with self._file():
            return self._values.num_keys()

    def check(self, keys: Sequence[str]) -> bool:
        with self._file():
            return self._values.check(keys)

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        seconds = seconds_of(timeout, self._timeout)
        self._poll(lambda: True if self.check(keys) else None, seconds, f"for {list(keys)}")

    def queue_push(self, key: str, value: str | bytes) -> None:
        with self._file() as write:
            write(_PUSH, key, as_bytes(value))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        def first() -> bytes | None:
            with self._file() as write:
                value = self._values.queue_front(key)
                if value is not None:
                    write(_POP, key, b"")
            return value

        front = first()
        if front is None and not block:
            raise QueueEmptyError(f"queue_pop: the queue {key!r} is empty")
        seconds = self._timeout.total_seconds()
        return front if front is not None else self._poll(first, seconds, f"for a value in the queue {key!r}")

    def queue_len(self, key: str) -> int:
        with self._file():
            return self._values.queue_len(key)

    def clone(self) -> FileStore:
        return FileStore(self.path, timeout=self._timeout)

    def _poll(self, find: Callable[[], _Found | None], seconds: float, description: str) -> _Found:
        limit = time.monotonic() + seconds
        while (value := find()) is None:
            if time.monotonic() > limit:
                raise DistStoreError(
                    f"FileStore: wait timeout after {seconds:g} s, waiting {description} in {self.path}"
                )
            time.sleep(POLL)
        return value

    @contextmanager
    def _file(self) -> Iterator[Callable[[bytes, str, bytes], None]]:
        """Everything that is in the file, read, and a function that writes to it; no other process has it meanwhile."""
        with open_regular(self.path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._catch_up(file)

            def write(kind: bytes, key: str, value: bytes) -> None:
                name = key.encode()
                file.seek(0, os.SEEK_END)
                file.write(_HEAD.pack(kind, len(name), len(value)) + name + value)
                file.flush()
                self._catch_up(file)

            yield write

    def _catch_up(self, file: BinaryIO) -> None:
        file.seek(self._read)
        content = file.read()
        offset = 0
        while len(content) - offset >= _HEAD.size:
            kind, name_size, size = _HEAD.unpack_from(content, offset)
            end = offset + _HEAD.size + name_size + size
            if end > len(content):
                raise DistStoreError(f"FileStore: {self.path} ends in the middle of a value")
            start = offset + _HEAD.size + name_size
            try:
                self._take(kind, content[offset + _HEAD.size : start].decode(), content[start:end])
            except (UnicodeDecodeError, QueueEmptyError) as error:
                raise DistStoreError(f"FileStore: {self.path} is no file of a store: {error}") from None
            offset = end
        self._read += offset

    def _take(self, kind: bytes, key: str, value: bytes) -> None:
        if kind == _SET:
            self._values.set(key, value)
        elif kind == _DELETE:
            self._values.delete_key(key)
        elif kind == _PUSH:
            self._values.queue_push(key, value)
        elif kind == _POP:
            self._values.queue_pop(key, block=False)
        else:
            raise DistStoreError(f"FileStore: {self.path} is not the file of a store")


def _leave(path: str, world_size: int, process: int) -> None:
    """Count an object that is no longer used; the last one takes the file away."""
    if os.getpid() != process or not os.path.exists(path):
        return  # an uncounted copy in a fork, or another process has removed the file
    if FileStore(path).add(LEFT, 1) == world_size:
        os.unlink(path)
