"""Kernels of an exported program, compiled for named targets in subprocesses, and made available to launches.

An archive's folder *kernels/sm_90* has ``index.json``, ``<key>.kernel`` for each kernel, in the format of the cubin
cache, and ``<name>.py`` for each kernel that the compiler wrote, for people to read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from ...runtime.cuda.occupancy import KNOWN, Target
from ...runtime.cuda.triton.kernel_archive import KernelArchive
from ...runtime.cuda.triton.kernel_entry import pack, unpack
from ...runtime.regular_file import open_regular
from .kernel_recording import INDEX, SUFFIX, target_to_json

FOLDER = "kernels/"


def find_target(target: str | Target) -> Target:
    """Return a target by its name. Raise ValueError for an unknown name."""
    if isinstance(target, Target):
        return target
    match = next((each for each in KNOWN.values() if each.name == target), None)
    if match is None:
        names = ", ".join(each.name for each in KNOWN.values())
        raise ValueError(f"save: targets must be among {names}, got {target!r}")
    return match


def compiled_kernels(archive: str, targets: Iterable[str | Target]) -> dict[str, bytes]:
    """Return the files of the kernels that an archive's program launches on each target, by their names in the
    archive.

    Raise RuntimeError with the subprocess's message if the program cannot run or a kernel cannot be compiled.
    """
    records: dict[str, bytes] = {}
    for target in [find_target(each) for each in targets]:
        with tempfile.TemporaryDirectory(prefix="triten-export-") as folder:
            # The driver is the recording one, and Triton's interpreter must be off.
            environment = {
                k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")
            }
            command = [sys.executable, "-P", "-m", f"{__package__}.kernel_recording"]
            done = subprocess.run(
                [*command, archive, target_to_json(target), folder],
                capture_output=True,
                text=True,
                env=environment,
            )
            if done.returncode:
                lines = done.stderr.strip().splitlines()
                raise RuntimeError(
                    f"save: the kernels for {target.name} cannot be compiled: {lines[-1] if lines else done.returncode}"
                )
            for path in sorted(Path(folder).iterdir()):
                with open_regular(path) as file:
                    records[f"{FOLDER}{target.name}/{path.name}"] = file.read()
    return records


def packed_kernels(archives: Iterable[KernelArchive]) -> dict[str, bytes]:
    """Return the files of the kernels that came with a loaded program, without their sources."""
    records: dict[str, bytes] = {}
    for archive in archives:
        for capability in archive.capabilities:
            folder = f"{FOLDER}sm_{capability}/"
            rows = []
            for key, binary in archive.kernels.items():
                if binary.capability == capability:
                    records[f"{folder}{key}{SUFFIX}"] = pack(key, binary)
                    rows.append({"key": key, "name": binary.name})
            index = {"target": f"sm_{capability}", "cuda": archive.cuda, "kernels": rows}
            records[f"{folder}{INDEX}"] = json.dumps(index).encode()
    return records


def archived_kernels(records: Mapping[str, bytes], name: str) -> list[KernelArchive]:
    """Return an archive's kernels for launches, one archive for each target. Raise ValueError for damaged kernels."""
    archives = []
    for path, data in records.items():
        folder, _, file = path.rpartition("/")
        if file != INDEX or not path.startswith(FOLDER):
            continue
        index = json.loads(data)
        kernels = {}
        for row in index["kernels"]:
            key = row["key"]
            binary = unpack(key, records[f"{folder}/{key}{SUFFIX}"])
            if binary is None:
                raise ValueError(f"kernel '{row['name']}' for {index['target']}")
            kernels[key] = binary
        archives.append(KernelArchive(name, kernels, index["cuda"]))
    return archives
