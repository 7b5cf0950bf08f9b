"""Measurements on disk: the part ``tuning`` of the disk cache (`runtime/disk_cache.py`).

A device, by name and capability, has a folder, and a kernel has one in it. A question has one file in that,
named by the hash of kernel, source version, dtype and class of shapes. Writers of different questions write different
files, so none overwrites another's result. No lock is needed, which some network file systems lack. If two
processes answer the same question, the last answer stays, and both were measured. Damaged files and those of
another version are skipped.

``TRITEN_TUNING_STORE=0`` in the environment turns this off: nothing is read, nothing is kept beyond the
process.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator

from ...runtime.cache_files import UntrustedFileError, warn_once
from ...runtime.cuda.device_properties import DeviceProperties
from ...runtime.disk_cache import DiskCache, disk_cache
from .entry import Entry, read_entry

PART = "tuning"
MAX_BYTES = 1 << 16
"""A file that is longer is none of ours."""


class Records:
    """Entries in a disk cache, shared by threads and processes.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from triten.triton_kernels.tuning.entry import Entry
        >>> records = Records(DiskCache(Path(tempfile.mkdtemp())))
        >>> entry = Entry("module:kernel", "0a1b", "bf16", "4096:16", (128, 64), 4, 3)
        >>> records.write("H100-sm_90", entry)
        >>> list(records.read("H100-sm_90", "module:kernel")) == [entry]
        True
    """

    def __init__(self, cache: DiskCache) -> None:
        self.cache = cache
        self.directory = cache.folder(PART)

    def read(self, device: str, kernel: str) -> Iterator[Entry]:
        """Yield every readable entry of a kernel, of any version."""
        try:
            names = self.cache.names(PART, _folder(device, kernel))
        except OSError as error:
            self._warn(f"cannot be read ({error})")
            return
        for name in names:
            try:
                content = self.cache.read(PART, name, max_bytes=MAX_BYTES)
                entry = None if content is None else read_entry(json.loads(content))
            except UntrustedFileError as error:
                self._warn(f"cannot be read ({error})")
                return
            except (OSError, ValueError, RecursionError):
                continue
            if entry is not None and entry.kernel == kernel:
                yield entry

    def write(self, device: str, entry: Entry) -> None:
        """Write an entry, replacing one for the same question. If that fails, warn once with a RuntimeWarning."""
        question = json.dumps([entry.kernel, entry.source, entry.dtype, entry.shape])
        name = f"{_folder(device, entry.kernel)}/{hashlib.sha256(question.encode()).hexdigest()[:32]}"
        try:
            self.cache.write(PART, name, (json.dumps(entry.as_json(), indent=1) + "\n").encode())
        except OSError as error:
            self._warn(f"cannot be written ({error}), what was measured holds for this process")

    def _warn(self, problem: str) -> None:
        warn_once(
            self.directory,
            f"the records of measured configurations in {self.directory} {problem}; TRITEN_CACHE_DIR names another "
            "folder, TRITEN_TUNING_STORE=0 does without",
        )


def _folder(device: str, kernel: str) -> str:
    """Return the folder of a device's entries of a kernel."""
    return f"{_slug(device)}/{_slug(kernel)}"


def _slug(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name) or "_"


def device_name(properties: DeviceProperties) -> str:
    """Return a kind of device: its name and capability. Devices of a kind share measurements."""
    return f"{properties.name}-sm_{properties.major}{properties.minor}"


def records() -> Records | None:
    """Return the records that the environment names, or None if they are turned off or have no folder.

    Raises:
        ValueError: for a ``TRITEN_TUNING_STORE`` that is neither 0 nor 1.
    """
    setting = os.environ.get("TRITEN_TUNING_STORE", "")
    if setting not in ("", "0", "1"):
        raise ValueError(f"TRITEN_TUNING_STORE: expected 0 or 1, got {setting!r}")
    if setting == "0":
        return None
    cache = disk_cache()
    return None if cache is None else Records(cache)
