"""Local `torch` distribution: an environment where every `import torch` imports triten.

``python -m triten.as_torch --install`` writes it into the running environment, and ``--uninstall`` removes it:

- `torch` and `functorch`: packages of one file that hand over to triten at their first import.
- `torch-VERSION.dist-info`: metadata by which `importlib.metadata` and pip see PyTorch's version installed.
- `torchrun`: the command, which starts `triten.distributed.run`.

A process that does not import torch pays nothing: there is no `.pth` file. ``pip uninstall torch`` works too.

Source: the PyPA specification "Recording installed projects".
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import os
import sys
import sysconfig
from importlib.machinery import PathFinder
from importlib.metadata import (
    Distribution,
    DistributionFinder,
    MetadataPathFinder,
    PackageNotFoundError,
    distribution,
)
from pathlib import Path

__all__ = ["InstallError", "install", "installed", "uninstall"]

_OURS = __name__.rpartition(".")[0]
_NAME = "torch"
_INSTALLER = f"{_OURS}.as_torch"
_REMEDY = "use a virtual environment: python -m venv .venv"

# `import torch` binds this module's name before its code runs, and `as_torch` binds that name to triten.
_PACKAGE = '''\
"""Stand-in for PyTorch's package `{name}`, written by `python -m {installer} --install`."""

import importlib
import sys

del sys.modules[__name__]
import {installer}  # noqa: E402

importlib.import_module(__name__)
'''

# The second and third line are a string to Python. A path with a space works in them, but not after `#!`.
_COMMAND = """\
#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''
import sys

from {ours}.distributed.run import console

sys.exit(console())
"""


class InstallError(Exception):
    """The environment cannot have the local distribution. The message names the cause and the remedy."""


def installed(path: list[str] | None = None) -> Distribution | None:
    """Return the distribution on disk that is named torch, PyTorch's own or the local one; None without one.

    Args:
        path: The folders to look in. Default: `sys.path`.
    """
    context = DistributionFinder.Context(name=_NAME, path=sys.path if path is None else path)
    return next(iter(MetadataPathFinder.find_distributions(context)), None)


def is_local(torch: Distribution) -> bool:
    """Return whether a distribution is the one that `install` writes."""
    return (torch.read_text("INSTALLER") or "").strip() == _INSTALLER


def install(version: str) -> str:
    """Write the distribution into the running environment, over an earlier one, and return what was done.

    Args:
        version: The version of PyTorch that programs see, such as "2.13.0+triten.0.1.0".

    Raises:
        InstallError: PyTorch is installed, another package `torch` is importable, or the environment is not
            writable or managed by the system.
    """
    site = Path(sysconfig.get_path("purelib"))
    _refuse_other_torch()
    _refuse_managed(site)
    files = _files(version)
    earlier = installed([str(site)])
    try:
        if earlier is not None:
            _remove(earlier, site)
        _write(site, files)
    except OSError as error:
        raise InstallError(
            f"cannot write to {error.filename or site}: {error.strerror}; {_REMEDY}"
        ) from error
    return (
        f"torch {version} is {_OURS} in {site}; `python -m {_OURS}.as_torch --uninstall` removes it.\n"
        f"Install packages with the constraint torch=={version.partition('+')[0]} (`pip install --constraint FILE`, or "
        "PIP_CONSTRAINT=FILE): a package that requires a newer torch would bring PyTorch."
    )


def uninstall() -> str:
    """Remove the distribution from the running environment, and return what was done.

    Raises:
        InstallError: torch is another distribution there, or the environment is not writable.
    """
    site = Path(sysconfig.get_path("purelib"))
    torch = installed([str(site)])
    if torch is None:
        return f"torch is not installed in {site}: nothing to remove"
    if not is_local(torch):
        raise InstallError(
            f"torch {torch.version} in {site} is PyTorch; `{sys.executable} -m pip uninstall torch` removes it"
        )
    version = torch.version
    try:
        _remove(torch, site)
    except OSError as error:
        raise InstallError(f"cannot remove {error.filename}: {error.strerror}") from error
    return f"removed torch {version} from {site}"


def _refuse_other_torch() -> None:
    """Raise InstallError if another `torch` is installed or would be imported instead."""
    other = installed()
    if other is not None and not is_local(other):
        raise InstallError(
            f"PyTorch {other.version} is installed in {other.locate_file('')}; uninstall it first "
            f"(`{sys.executable} -m pip uninstall torch`), or {_REMEDY}"
        )
    own = [Path(str(other.locate_file(file))) for file in other.files or ()] if other is not None else []
    for name in (_NAME, "functorch"):
        spec = PathFinder.find_spec(name)
        # A folder without __init__.py has no origin, and the package that is written here comes before it.
        if spec is not None and spec.origin is not None and Path(spec.origin) not in own:
            raise InstallError(
                f"`import {name}` imports {spec.origin}, which no distribution owns; remove it, or {_REMEDY}"
            )


def _refuse_managed(site: Path) -> None:
    """Raise InstallError in an environment that belongs to the system's package manager (PEP 668)."""
    marker = Path(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
    if sys.prefix == sys.base_prefix and marker.exists():
        raise InstallError(f"the system's package manager owns {site} ({marker}); {_REMEDY}")


def _files(version: str) -> dict[str, str]:
    """Return the text of each file by its path from the site folder, as in RECORD."""
    info = f"{_NAME}-{version}.dist-info"
    packages = {
        f"{name}/__init__.py": _PACKAGE.format(name=name, ours=_OURS, installer=_INSTALLER)
        for name in (_NAME, "functorch")
    }
    metadata = {
        f"{info}/INSTALLER": f"{_INSTALLER}\n",
        f"{info}/METADATA": _metadata(version),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {_OURS}\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/top_level.txt": "functorch\ntorch\n",
        f"{info}/entry_points.txt": f"[console_scripts]\ntorchrun = {_OURS}.distributed.run:console\n",
    }
    site, scripts = sysconfig.get_path("purelib"), sysconfig.get_path("scripts")
    command = Path(os.path.relpath(scripts, site), "torchrun").as_posix()
    files = {**packages, command: _COMMAND.format(python=sys.executable, ours=_OURS), **metadata}
    return {**files, f"{info}/RECORD": _record(files, f"{info}/RECORD")}


def _metadata(version: str) -> str:
    """Return the METADATA file. It requires triten where pip can see triten."""
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {_NAME}",
        f"Version: {version}",
        f"Summary: {_OURS} under the name of PyTorch, written by `python -m {_INSTALLER} --install`",
    ]
    with contextlib.suppress(PackageNotFoundError):
        distribution(_OURS)
        lines.append(f"Requires-Dist: {_OURS}")
    return "\n".join(lines) + "\n"


def _record(files: dict[str, str], own: str) -> str:
    """Return the RECORD file: paths, hashes and sizes."""
    table = io.StringIO()
    writer = csv.writer(table, lineterminator="\n")
    for name, text in files.items():
        data = text.encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        writer.writerow((name, f"sha256={digest}", len(data)))
    writer.writerow((own, "", ""))
    return table.getvalue()


def _located(site: Path, name: str) -> Path:
    """Return the absolute path of a path in RECORD."""
    return Path(os.path.normpath(site / name))


def _write(site: Path, files: dict[str, str]) -> None:
    """Write all files, or none if one cannot be written."""
    written: list[Path] = []
    try:
        for name, text in files.items():
            path = _located(site, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            written.append(path)
            path.write_bytes(text.encode())
            if path.name == "torchrun":
                path.chmod(0o755)
    except OSError:
        _remove_files(written, site)
        raise


def _remove(torch: Distribution, site: Path) -> None:
    """Remove the files that RECORD names."""
    _remove_files([_located(site, str(file)) for file in torch.files or ()], site)


def _remove_files(paths: list[Path], site: Path) -> None:
    """Remove files, their bytecode, and the folders below the site folder that are empty then."""
    for path in paths:
        path.unlink(missing_ok=True)
        for cached in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
            cached.unlink()
    for folder in {path.parent for path in paths if path.is_relative_to(site)}:
        for emptied in (folder / "__pycache__", folder):
            with contextlib.suppress(OSError):
                emptied.rmdir()
