"""Measurements on disk: in ``tuning`` next to the folder of compiled kernels
(`runtime/cuda/triton/cubin_store.py`).

A device, by name and capability, has a folder, and a kernel has one in it. A question has one file in that,
named by the hash of kernel, source version, dtype and class of shapes. An entry is written to a temporary
file and renamed, so that a reader sees a whole entry or none. Writers of different questions write different
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
from pathlib import Path

from ...runtime.cache_files import (
    UntrustedFileError,
    make_own_folder,
    read_own_file,
    warn_once,
    write_own_file,
)
from ...runtime.cache_folder import cache_folder
from ...runtime.cuda.device_properties import DeviceProperties
from .entry import Entry, read_entry

SUFFIX = ".json"
MOST_BYTES = 1 << 16
"""A file that is longer is none of ours."""


class Records:
    """A folder of entries, shared by threads and processes.

    Example:
        >>> import tempfile
        >>> from triten.triton_kernels.tuning.entry import Entry
        >>> records = Records(Path(tempfile.mkdtemp()))
        >>> entry = Entry("module:kernel", "0a1b", "bf16", "4096:16", (128, 64), 4, 3)
        >>> records.write("H100-sm_90", entry)
        >>> list(records.read("H100-sm_90", "module:kernel")) == [entry]
        True
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def folder(self, device: str, kernel: str) -> Path:
        """Return the folder of a device's entries of a kernel."""
        return self.directory / _slug(device) / _slug(kernel)

    def read(self, device: str, kernel: str) -> Iterator[Entry]:
        """Yield every readable entry of a kernel, of any version."""
        folder = self.folder(device, kernel)
        try:
            files = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            self._warn(f"cannot be read ({error})")
            return
        for path in files:
            try:
                found = read_own_file(path, MOST_BYTES, self.directory.parent)
                entry = None if found is None else read_entry(json.loads(found[0]))
            except UntrustedFileError as error:
                self._warn(f"cannot be read ({error})")
                return
            except (OSError, ValueError, RecursionError):
                continue
            if entry is not None and entry.kernel == kernel:
                yield entry

    def write(self, device: str, entry: Entry) -> None:
        """Write an entry, replacing one for the same question. If that fails, warn once with a RuntimeWarning."""
        folder = self.folder(device, entry.kernel)
        question = json.dumps([entry.kernel, entry.source, entry.dtype, entry.shape])
        path = folder / (hashlib.sha256(question.encode()).hexdigest()[:32] + SUFFIX)
        try:
            make_own_folder(folder)
            write_own_file(path, (json.dumps(entry.as_json(), indent=1) + "\n").encode())
        except OSError as error:
            self._warn(f"cannot be written ({error}), what was measured holds for this process")

    def _warn(self, what: str) -> None:
        warn_once(
            self.directory,
            f"the records of measured configurations in {self.directory} {what}; TRITEN_CACHE_DIR names another "
            "folder, TRITEN_TUNING_STORE=0 does without",
        )


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
    given = os.environ.get("TRITEN_TUNING_STORE", "")
    if given not in ("", "0", "1"):
        raise ValueError(f"TRITEN_TUNING_STORE: expected 0 or 1, got {given!r}")
    if given == "0":
        return None
    try:
        return Records(cache_folder() / "tuning")
    except RuntimeError:  # a user without a home
        return None
