"""Result files of GPU measurements: ``perf/results/<device>-<date>.json``, with a section for each command.

The timings of `python -m triten.perf gpu` are in the same file in the suite's format (`suite/results.py`),
which `report` and `compare` read. The command's own section has the data that this format cannot express.

A file is replaced atomically, so an interrupted program leaves the last complete state.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import secrets
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..runtime.regular_file import open_regular

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "perf" / "results"
DISTRIBUTIONS = ("numpy", "triton", "cupy-cuda13x", "cupy-cuda12x", "ml_dtypes", "scipy")


def device_slug(name: str) -> str:
    """Convert a device's name for use in a file name.

    Example:
        >>> from triten.perf.result_file import device_slug
        >>> device_slug("NVIDIA H200")
        'nvidia-h200'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unknown"


def result_path(device: str, moment: datetime | None = None) -> Path:
    """Return the path of a device's results on a day (UTC)."""
    return FOLDER / f"{device_slug(device)}-{(moment or datetime.now(UTC)).date().isoformat()}.json"


def read_result(path: Path) -> dict[str, Any]:
    """Return all sections of a file; empty if it does not exist. Raise ValueError for a file that is not a
    result.
    """
    if not path.exists():
        return {}
    try:
        with open_regular(path) as file:
            sections = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: damaged, or no result file: not JSON: {error}") from None
    if not isinstance(sections, dict):
        raise ValueError(f"{path}: expected a JSON object of sections, got {type(sections).__name__}")
    return sections


def write_section(path: Path, section: str, payload: Mapping[str, Any]) -> None:
    """Put one section into a file, leaving the others; the file is never seen half written."""
    write_sections(path, {section: payload})


def write_sections(path: Path, sections: Mapping[str, Any]) -> None:
    """Put sections into a file at once, leaving the others."""
    report = read_result(path) | sections
    write_whole(path, json.dumps(report, indent=1) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Replace a file's text at once, making its folder where there is none: it is never seen half written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def utc_now() -> str:
    """Return the current UTC time to the second in ISO 8601 format."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def source_version() -> str:
    """Return the commit of this checkout, with a plus if files differ from it. Without git, return a hash of
    the package's files.
    """
    try:
        commit = _git("rev-parse", "HEAD")
        return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return f"files {source_hash()}"


def source_commit() -> dict[str, str | bool] | None:
    """Return this checkout's commit, its time (UTC), and True if files differ from it; None outside git."""
    try:
        if Path(_git("rev-parse", "--show-toplevel")).resolve() != ROOT:
            return None  # installed into an environment inside another checkout
        commit, _, seconds = _git("show", "-s", "--format=%H %ct", "HEAD").partition(" ")
        dirty = bool(_git("status", "--porcelain", "--untracked-files=no"))
    except (OSError, subprocess.CalledProcessError):
        return None
    time = datetime.fromtimestamp(int(seconds), UTC).isoformat(timespec="seconds")
    return {"hash": commit, "time": time, "dirty": dirty}


def source_hash() -> str:
    """Return a hash of the package's Python files, by their paths."""
    digest = hashlib.sha256()
    for path in sorted(ROOT.rglob("*.py")):
        inside = path.relative_to(ROOT)
        if not inside.parts[0].startswith((".", "build", "dist")):
            digest.update(f"{inside}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    return run.stdout.strip()


def installed_versions() -> dict[str, str]:
    """Return the versions of the installed libraries that compile and run kernels."""
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def kernel_driver_version() -> str:
    """Return the version of the GPU's kernel driver from ``nvidia-smi``; "" if it fails."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.split("\n")[0].strip()
