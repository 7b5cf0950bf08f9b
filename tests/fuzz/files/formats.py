"""Every format that the library reads: its samples, how a file is read, and the errors that documentation names."""

import io
from collections.abc import Callable
from pathlib import Path
from pickle import UnpicklingError
from typing import Any, NamedTuple

import triten as tt
from triten.distributed import checkpoint
from triten.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from triten.distributed.elastic.multiprocessing.errors import ProcessFailure
from triten.perf.ahead_of_time.compilation import Cache
from triten.perf.result_file import read_result
from triten.perf.suite.results import ResultFileError, read_results
from triten.runtime.cuda.triton.cubin_store import CubinStore
from triten.runtime.disk_cache import PARTS, DiskCache
from triten.safetensors import SafetensorError, safe_open
from triten.safetensors import load as load_safetensors
from triten.safetensors import load_file as load_safetensors_file
from triten.tests.fuzz.files import samples
from triten.tests.fuzz.files.samples import FILE, KEY
from triten.triton_kernels.tuning.records import Records
from triten.triton_kernels.tuning.table import read_table


class Format(NamedTuple):
    """One way to read one kind of file.

    Attributes:
        samples: Return whole files.
        read: Return the value of the files in a folder.
        documented: Errors that a damaged file may raise.
        is_checked: If True, checksums cover every byte that a value depends on, so a file with changed bytes has
            the same value or none. Default: False.
    """

    samples: Callable[[], dict[str, dict[str, bytes]]]
    read: Callable[[Path], Any]
    documented: tuple[type[BaseException] | tuple[type[BaseException], str], ...]
    is_checked: bool = False


LOAD = (UnpicklingError, RuntimeError, EOFError, (ValueError, "Unknown endianness type"))


def _records(path):
    reader = tt.serialization.PyTorchFileReader(str(path / FILE))
    return [(name, reader.get_record(name)) for name in reader.get_all_records()]


def _unsafe(path):
    return tt.serialization.get_unsafe_globals_in_checkpoint(path / FILE)


def _slices(path):
    with safe_open(path / FILE) as file:
        found = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - no mapping
        return file.metadata(), {n: (s.get_dtype(), s.get_shape(), s[...]) for n, s in found.items()}


def _program(path):
    extra = {}
    program = tt.export.load(path / FILE, extra_files=extra)
    return [
        program.state_dict,
        program.constants,
        str(program.graph),
        [k.kernels.keys() for k in program.kernels],
    ]


def _run_program(path):
    """Return the program's result on the samples' arguments, or the name of its error."""
    program = tt.export.load(path / FILE)
    try:
        return program.module()(tt.ones(4, 3))
    except (TypeError, ValueError, RuntimeError, AssertionError) as error:
        # A program that was changed computes anything, or refuses.
        return type(error).__name__


def _unwrapped(read):
    try:
        return read()
    except checkpoint.CheckpointException as error:
        raise error.failures[0][0] from None


def _checkpoint(path):
    state = samples.state()
    state["model"]["weight"].zero_()
    _unwrapped(lambda: checkpoint.load(state, checkpoint_id=path, no_dist=True))
    return state


def _whole_checkpoint(path):
    return _unwrapped(lambda: _load_state_dict_from_keys(checkpoint_id=path))


def _cache(path):
    """Return a disk cache whose entries lie in a folder without parts."""
    cache = DiskCache(path)
    cache.path = lambda part, name: str(path / f"{name}{PARTS[part]}")
    cache.names = lambda part, folder: [file.stem for file in path.glob(f"*{PARTS[part]}")]
    return cache


def _kernel(path):
    found = CubinStore(_cache(path)).read(KEY)
    return None if found is None else [found.cubin, str(found)]


def _tuning(path):
    return [str(entry) for entry in Records(_cache(path)).read("device", "module:kernel")]


def _compilation(path):
    cache = Cache(path)
    cache._path = lambda key: path / FILE
    return cache.get("key")


def _failure(path):
    found = ProcessFailure(0, 1, 1, str(path / FILE))
    return [found.message, found.traceback(), found.timestamp_isoformat()]


CHECKPOINT = (RuntimeError, ValueError, UnpicklingError, EOFError, OSError)
SAFETENSORS = (SafetensorError, TypeError)
UNSAFE = (ValueError, UnpicklingError, RuntimeError, EOFError)
PROGRAM = (RuntimeError, ValueError)


def _loaded(**options):
    return lambda path: tt.load(path / FILE, **options)


def _loaded_from_memory(path):
    return tt.load(io.BytesIO((path / FILE).read_bytes()))


def _safetensors_from_memory(path):
    return load_safetensors((path / FILE).read_bytes())


def _tables():
    entry = samples.tuning()["entry"]["entry.json"]
    head = b'{"format": 1, "origin": "a test", "capability": 90, "entries": ['
    return {"entry": {FILE: head + entry + b"]}"}}


FORMATS = {
    "load": Format(samples.archives, _loaded(), LOAD, True),
    "load mapped": Format(samples.archives, _loaded(mmap=True), LOAD),
    "load on meta": Format(samples.archives, _loaded(map_location="meta"), LOAD),
    "load from memory": Format(samples.archives, _loaded_from_memory, LOAD, True),
    "load legacy": Format(samples.legacy, _loaded(), LOAD),
    "unsafe globals": Format(samples.archives, _unsafe, UNSAFE),
    "file reader": Format(samples.archives, _records, (RuntimeError,)),
    "safetensors": Format(samples.safetensors, lambda path: load_safetensors_file(path / FILE), SAFETENSORS),
    "safetensors from memory": Format(samples.safetensors, _safetensors_from_memory, SAFETENSORS),
    "safetensors by slices": Format(samples.safetensors, _slices, SAFETENSORS),
    "program": Format(samples.programs, _program, PROGRAM, True),
    "program that runs": Format(samples.programs, _run_program, PROGRAM),
    "checkpoint": Format(samples.checkpoints, _checkpoint, CHECKPOINT, True),
    "whole checkpoint": Format(samples.checkpoints, _whole_checkpoint, CHECKPOINT, True),
    "foreign checkpoint": Format(samples.foreign_checkpoints, _whole_checkpoint, CHECKPOINT),
    "results": Format(samples.results, lambda path: str(read_results(path / FILE)), (ResultFileError,)),
    "sections": Format(samples.results, lambda path: str(read_result(path / FILE)), (ValueError,)),
    "kernel store": Format(samples.kernels, _kernel, (), True),
    "tuning records": Format(samples.tuning, _tuning, ()),
    "tuning table": Format(_tables, lambda path: str(read_table(path / FILE)), (ValueError,)),
    "compilations": Format(samples.compilations, _compilation, ()),
    "error files": Format(samples.compilations, _failure, ()),
}
