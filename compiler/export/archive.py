"""`save` and `load`: a program in one file, a ZIP archive as PyTorch's ``.pt2`` files are.

    archive_format               triten-export
    models/model.json            the graph, its signature, structures of arguments and results (`program_json`)
    data/weights.safetensors     parameters and persistent buffers
    data/constants.safetensors   other tensors
    kernels/sm_90/...            compiled kernels for each target that was asked for (`kernels`)
    extra/...                    the user's own files

Loading executes nothing of an archive: it holds JSON and the elements of tensors, no pickles. The kernels are machine
code, which calls of the program run on a GPU.
"""

from __future__ import annotations

import json
import os
import struct
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from ...runtime.regular_file import open_regular
from ...runtime.traceback_filter import api_boundary
from ...serialization.replacing_file import replacing
from . import safetensors
from .program import ExportedProgram
from .program_json import NewerSchemaError, check_version, program_from_json, program_to_json, stored_tensors
from .trees import UnregisteredClassError

if TYPE_CHECKING:
    from ...runtime.cuda.occupancy import Target
    from ...runtime.cuda.triton.kernel_archive import KernelArchive

FORMAT = "triten-export"
FORMAT_FILE = "archive_format"
MODEL = "models/model.json"
WEIGHTS = "data/weights.safetensors"
CONSTANTS = "data/constants.safetensors"
EXTRA = "extra/"
File = str | os.PathLike[str] | IO[bytes]

DAMAGES = (
    *(zipfile.BadZipFile, NotImplementedError, EOFError, OSError),
    *(ValueError, LookupError, TypeError, OverflowError, struct.error),
)
"""Exceptions that reading raises for damaged or foreign archives."""


@api_boundary
def save(
    ep: ExportedProgram,
    f: File,
    *,
    extra_files: Mapping[str, Any] | None = None,
    targets: Sequence[str | Target] = (),
) -> None:
    """Write a program to a file, which `load` reads without the module's source (`torch.export.save`).

    Args:
        ep: the program.
        f: a path, by custom with the suffix ``.pt2``, or a binary file.
        extra_files: contents by name, text or bytes, which `load` gives back.
        targets: names such as ``"sm_90"``: the kernels that a call launches on such a GPU are compiled and saved, too,
            so that neither Triton nor a compiler is needed where the program runs. Here Triton is, but no GPU. Kernels
            are chosen as for the target's data-centre card, of which a `Target` stands for another. Of named sizes they
            are those of the example, of one, an odd one, a multiple of 16 and the greatest.

    Raises:
        TypeError: `ep` is no program.
        ValueError: a target is unknown.
        RuntimeError: a kernel cannot be compiled.
        NotImplementedError: the program has a tensor or a structure that the format does not hold.

    Example:
        >>> import io
        >>> import triten as tt
        >>> file = io.BytesIO()
        >>> tt.export.save(tt.export.export(tt.nn.ReLU(), (tt.ones(2),)), file)
        >>> tt.export.load(file).module()(tt.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    described = program_to_json(ep)
    state, constants = stored_tensors(ep, described["tensors"])
    records: dict[str, bytes] = {
        FORMAT_FILE: FORMAT.encode(),
        MODEL: json.dumps(described, separators=(",", ":"), allow_nan=False).encode(),
        WEIGHTS: safetensors.dumps(state),
        CONSTANTS: safetensors.dumps(constants),
    }
    for name, content in (extra_files or {}).items():
        records[EXTRA + name] = content.encode() if isinstance(content, str) else bytes(content)
    if ep.kernels or targets:
        records |= _kernels(ep, records, targets)
    if isinstance(f, str | os.PathLike):
        with replacing(os.fspath(f)) as file:
            _write(records, file)
    else:
        _write(records, f)


def _kernels(
    ep: ExportedProgram, records: Mapping[str, bytes], targets: Sequence[str | Target]
) -> dict[str, bytes]:
    """Return the kernels of a program: those that it came with, and those compiled for targets."""
    from .kernels import compiled_kernels, packed_kernels

    packed = packed_kernels(ep.kernels)
    if not targets:
        return packed
    with tempfile.TemporaryDirectory(prefix="triten-export-") as folder:
        path = os.path.join(folder, "program.pt2")
        with open(path, "wb") as file:
            _write(records, file)
        compiled = compiled_kernels(path, targets)
    recompiled = {name.rpartition("/")[0] for name in compiled}
    return {
        name: data for name, data in packed.items() if name.rpartition("/")[0] not in recompiled
    } | compiled


def _write(records: Mapping[str, bytes], file: IO[bytes]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in records.items():
            archive.writestr(zipfile.ZipInfo(name), data)


@api_boundary
def load(f: File, *, extra_files: dict[str, Any] | None = None) -> ExportedProgram:
    """Read a program that `save` wrote (`torch.export.load`).

    Nothing in the file is executed. Its graph is checked: the result of every step must match the written spec.

    Args:
        f: A path, or a binary file.
        extra_files: Names of the user's files; each gets its content, as text. Default: None.

    Raises:
        FileNotFoundError: There is no such file.
        RuntimeError: The file is damaged, is not an exported program, comes from a newer version, or uses unavailable
            operators or devices.
        ValueError: It uses classes that are not registered, or has no such extra file.

    Example:
        See `tt.export.save`.
    """
    with _opened(f) as file:
        try:
            records = _records(file)
        except (*DAMAGES, RuntimeError) as error:
            raise RuntimeError(f"load: {_shown(f)} is damaged, or is no archive: {error}") from error
    if records.get(FORMAT_FILE, b"").strip() != FORMAT.encode():
        raise RuntimeError(f"load: {_shown(f)} holds no program that `tt.export.save` wrote")
    for name in extra_files or ():
        if EXTRA + name not in records:
            raise ValueError(f"load: {_shown(f)} has no extra file {name!r}")
    program = _program(records, _shown(f))
    if extra_files is not None:
        extra_files.update({name: records[EXTRA + name].decode() for name in extra_files})
    return program


def _records(file: IO[bytes]) -> dict[str, bytes]:
    """Return the records by name. Raise ValueError for an archive that holds more bytes than its file has."""
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
                raise ValueError(
                    f"record {entry.filename!r:.200} is compressed; records are stored as they are"
                )
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("two records have the same name")
        if sum(entry.file_size for entry in entries) > file.seek(0, os.SEEK_END):
            raise ValueError("its records are larger than the file")
        # Reading a record compares its checksum.
        return {entry.filename: archive.read(entry) for entry in entries}


def _program(records: Mapping[str, bytes], shown: str) -> ExportedProgram:
    try:
        described = json.loads(records[MODEL])
        check_version(described)
        state, constants = (safetensors.loads(records[name]) for name in (WEIGHTS, CONSTANTS))
    except NewerSchemaError:
        raise
    except (*DAMAGES, AttributeError, RecursionError) as error:
        raise RuntimeError(f"load: {shown} is damaged: {_told(error)}") from error
    try:
        # Before tensors are put on a GPU, for which kernels may be needed.
        kernels = _archived_kernels(records, shown)
        program = program_from_json(described, state, constants)
        program.kernels = kernels
        return program
    except UnregisteredClassError:
        raise
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise RuntimeError(f"load: {shown} is damaged: {_told(error)}") from error


def _archived_kernels(records: Mapping[str, bytes], shown: str) -> list[KernelArchive]:
    if not any(name.startswith("kernels/") for name in records):
        return []
    from .kernels import archived_kernels

    return archived_kernels(records, shown)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _shown(f: File) -> str:
    return repr(os.fspath(f)) if isinstance(f, str | os.PathLike) else "the file"


@contextmanager
def _opened(f: File) -> Iterator[IO[bytes]]:
    """Open a file to read. A file object stays open, and is read from its start."""
    if isinstance(f, str | os.PathLike):
        with open_regular(f) as file:
            yield file
    else:
        f.seek(0)
        yield f


__all__ = ["load", "save"]
