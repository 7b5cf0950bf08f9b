"""Writers that are killed, or run out of disk space, while they replace a file: a reader finds the old file
or the new one.

The writer is a fork. It is killed before the n-th Python call in it, so a case always dies at the same point.
A limit on file size simulates the full disk. The check reads the file, writes it again, and reads it once
more.
"""

import json
import os
import resource
import select
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import triten as tt
from triten.distributed import checkpoint
from triten.distributed.checkpoint.state_dict_loader import _load_state_dict_from_keys
from triten.perf.ahead_of_time.compilation import Cache
from triten.perf.result_file import read_result, write_section
from triten.runtime.cpu import object_code
from triten.runtime.cuda.triton.compile import KernelBinary
from triten.runtime.cuda.triton.cubin_store import CubinStore
from triten.runtime.disk_cache import DiskCache
from triten.safetensors import SafetensorError, load_file, save_file
from triten.tests.fuzz.campaign import AGREED, OUTSIDE, Finding
from triten.tests.fuzz.faults.actions import bits
from triten.triton_kernels.tuning.entry import Entry
from triten.triton_kernels.tuning.records import Records

PATIENCE = 60.0
NAME = "file"
ELEMENTS = 3000
ROOM = 16_000
"""Bytes of the largest of these files, about."""


class Writer(NamedTuple):
    """A writer that replaces a file, or a folder's files.

    Attributes:
        write: Write the value of a number, 0 for the old and 1 for the new value, into a folder.
        read: Return the stored value.
        errors: Errors that a writer without disk space raises; empty for a cache file, which may be missing.
    """

    write: Callable[[Path, int], None]
    read: Callable[[Path], Any]
    errors: tuple[type[BaseException], ...] = (OSError,)


def _state(number):
    return {"weight": tt.full((ELEMENTS,), float(number)), "step": number}


class _Module(tt.nn.Module):
    def __init__(self, number):
        super().__init__()
        self.weight = tt.nn.Parameter(tt.full((ELEMENTS,), float(number)))

    def forward(self, x):
        return x * self.weight


def _program(number):
    if number not in _programs:
        _programs[number] = tt.export.export(_Module(number), (tt.ones(ELEMENTS),))
    return _programs[number]


_programs: dict[int, Any] = {}


def _binary(number):
    return KernelBinary("add", 90, bytes([number]) * ELEMENTS, {}, ("*fp32",), 4, 1, 0, 0, 1)


def _entry(number):
    return Entry(
        "module:kernel", "0a", "bf16", "4:1", (number,), 4, 3, {str(i): 1.0 for i in range(300)}, "H"
    )


def _write_checkpoint(folder, number):
    checkpoint.save(_state(number), checkpoint_id=folder / NAME, no_dist=True)


def _write_object(folder, number):
    os.environ["TRITEN_CACHE_DIR"] = str(folder)
    object_code._write("key", bytes([number]) * ELEMENTS)


def _read_object(folder):
    os.environ["TRITEN_CACHE_DIR"] = str(folder)
    return object_code._read("key")


WRITERS = {
    "save": Writer(lambda f, n: tt.save(_state(n), f / NAME), lambda f: tt.load(f / NAME)),
    "safetensors": Writer(
        lambda f, n: save_file({"weight": _state(n)["weight"]}, f / NAME),
        lambda f: load_file(f / NAME, backend="pread"),
        (OSError, SafetensorError),
    ),
    "program": Writer(
        lambda f, n: tt.export.save(_program(n), f / NAME), lambda f: tt.export.load(f / NAME).state_dict
    ),
    "checkpoint": Writer(
        _write_checkpoint,
        lambda f: _load_state_dict_from_keys(checkpoint_id=f / NAME),
        (checkpoint.CheckpointException,),
    ),
    "results": Writer(
        lambda f, n: write_section(f / NAME, "check", {"numbers": [n] * ELEMENTS}),
        lambda f: read_result(f / NAME),
    ),
    "compilations": Writer(
        lambda f, n: Cache(f).put("key", {"numbers": [n] * ELEMENTS}), lambda f: Cache(f).get("key")
    ),
    "kernel store": Writer(
        lambda f, n: CubinStore(DiskCache(f)).write("key", _binary(n)),
        lambda f: CubinStore(DiskCache(f)).read("key"),
        (),
    ),
    "tuning records": Writer(
        lambda f, n: Records(DiskCache(f)).write("device", _entry(n)),
        lambda f: list(Records(DiskCache(f)).read("device", "module:kernel")) or None,
        (),
    ),
    "object code": Writer(_write_object, _read_object, ()),
}
FAULTS = ("kill", "room")


class _Fatal:
    """Kills this process before the n-th call; counts them.

    Args:
        at: the number, from 0; -1 for none.
    """

    def __init__(self, at):
        self.at = at
        self.count = 0

    def __call__(self, frame, event, _):
        if event in ("call", "c_call"):
            self.count += 1
            if self.count - 1 == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


_counts: dict[str, int] = {}


def disturb(name, fault, at):
    """Kill a writer at call `at`, modulo the number of calls, or limit its file size to `at` bytes; return
    the outcome.
    """
    writer = WRITERS[name]
    with tempfile.TemporaryDirectory(prefix="triten-fuzz-writers-") as folder:
        path = Path(folder)
        values = []
        for number in (1, 0):
            writer.write(path, number)
            values.append(bits(_comparable(writer.read(path))))
        new, old = values
        if fault == "kill":
            if name not in _counts:
                _counts[name] = _in_child(writer, path, "kill", -1)[1]["count"]
                writer.write(path, 0)
            at %= _counts[name]
        else:
            at %= ROOM
        what = f"{name}, {fault} at {at}"
        names = _names(path)
        status, told = _in_child(writer, path, fault, at)
        if fault == "kill" and status != -signal.SIGKILL:
            return OUTSIDE  # fewer calls than the time before
        return _judge(writer, path, fault, what, told, (old, new, names))


def _names(path):
    return {str(each.relative_to(path)) for each in path.rglob("*")}


def _judge(writer, path, fault, what, told, before):
    old, new, names = before
    found = _read(writer, path, what)
    if isinstance(found, Finding):
        return found
    if found not in (old, new):
        return Finding(
            "half a file", f"{what}: neither the old value nor the new one is there: {found!r:.200}"
        )
    if fault == "room":
        kind = told.get("error", "")
        if kind and kind not in told["expected"] and writer.errors:
            return Finding("other error", f"{what}: {kind}: {told['message']}")
        if writer.errors and not kind and found != new:
            return Finding("error lost", f"{what}: nothing was raised, and the old file is there")
        if kind and not writer.errors:
            return Finding("other error", f"{what}: a cache raised {kind}: {told['message']}")
        if kind and found == new and new != old:
            return Finding("other error", f"{what}: {kind}, and the new file is there")
        left = sorted(_names(path) - names)
        if left and found == old:
            return Finding("leftover", f"{what}: {left}")
    writer.write(path, 1)
    found = _read(writer, path, what)
    if isinstance(found, Finding):
        return found
    return AGREED if found == new else Finding("half a file", f"{what}: a new value cannot be written")


def _read(writer, path, what):
    try:
        return bits(_comparable(writer.read(path)))
    except Exception as error:
        return Finding("half a file", f"{what}: {type(error).__name__}: {error}"[:400])


def _comparable(value):
    return str(value) if isinstance(value, KernelBinary | list) else value


def _in_child(writer, path, fault, at):
    """Write the new value in a fork; return its exit status and the message that it sent."""
    receive, send = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(receive)
            told = _write(writer, path, fault, at)
            resource.setrlimit(resource.RLIMIT_FSIZE, resource.getrlimit(resource.RLIMIT_FSIZE))
            os.write(send, json.dumps(told).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(send)
    with os.fdopen(receive, "rb") as file:
        if not select.select([file], [], [], PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
        told = file.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return status, json.loads(told) if told else {}


def _write(writer, path, fault, at):
    warnings.simplefilter("ignore")
    told: dict[str, Any] = {"expected": []}
    fatal = _Fatal(at)
    if fault == "kill":
        sys.setprofile(fatal)
    else:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (at, resource.RLIM_INFINITY))
    try:
        writer.write(path, 1)
    except BaseException as error:
        told |= {"error": type(error).__name__, "message": str(error)[-200:]}
        if isinstance(error, writer.errors):
            told["expected"] = [type(error).__name__]
    finally:
        sys.setprofile(None)
    return told | {"count": fatal.count}
