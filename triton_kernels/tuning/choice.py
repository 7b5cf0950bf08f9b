"""Choice of a launch's configuration by kernel, device, dtype and shape: measured, else shipped, else the
default.

The planner looks up an answer once for each question, and caches it in a dictionary. Only `autotune`
measures, when a user calls it. Processes that start later see the results of others.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from ...dispatch.core.dispatcher import Dispatcher
from ...dispatch.structured.choices import chosen
from ...runtime.cuda.driver import driver
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.device import device as Device
from ..budget import Configuration, name_of
from .entry import Entry
from .question import Question, capability_of, shape_class
from .records import device_name, records
from .table import read_table, table_path

Listener = Callable[[Question, Configuration], None]
"""Told of each question and the default that came with it."""

MAX_ANSWERS = 4096

_lock = threading.RLock()
_answers: dict[Question, Configuration | None] = {}
_entries: dict[tuple[str, str, int], dict[tuple[str, str], Configuration]] = {}
"""Known entries of a kernel on a kind of device, by dtype and class of shapes."""
_tables: dict[int, list[Entry]] = {}
_forced: dict[Question, Configuration] = {}
_listeners: list[Listener] = []


def configuration(
    kernel: LazyKernel, device: Device, dtype: str, shape: tuple[int, ...], default: Configuration
) -> Configuration:
    """Return the configuration of a launch: the measured one, else the shipped one, else `default`.

    Args:
        kernel: the declared `@triton.jit` function.
        device: Device of the launch.
        dtype: Triton's name of the declared operand's dtype.
        shape: the sizes that matter, in an order of the kernel's own; sizes of a class (`shape_class`) share answers.
        default: Configuration that the kernel's heuristic chooses.

    Returns:
        `default`, or one of those that the kernel declares for the dtype and that the device takes.
    """
    question = Question(name_of(kernel), device, dtype, shape_class(shape))
    if _listeners:
        for listener in _listeners:
            listener(question, default)
    if _forced and question in _forced:
        return _forced[question]
    try:
        tuned = _answers[question]
    except KeyError:
        tuned = look_up(question)
    if tuned is None:
        chosen(
            "the sizes of blocks by rule",
            "nothing was measured of {} for {}",
            question.kernel,
            question.shape,
        )
        return default
    chosen("the sizes of blocks by measurement", "{} was measured for {}", question.kernel, question.shape)
    return tuned


def look_up(question: Question) -> Configuration | None:
    """Return the known answer to a question, or None."""
    properties = driver().properties(question.device.resolved_index)
    capability = capability_of(question.device)
    key = (question.kernel, device_name(properties), capability)
    with _lock:
        known = _entries.get(key)
        if known is None:
            known = _entries[key] = _known(*key)
        if len(_answers) >= MAX_ANSWERS:
            _answers.clear()
        answer = _answers[question] = known.get((question.dtype, question.shape))
    return answer


def _known(kernel: str, device: str, capability: int) -> dict[tuple[str, str], Configuration]:
    if capability not in _tables:
        _tables[capability] = read_table(table_path(capability))
    shipped = [entry for entry in _tables[capability] if entry.kernel == kernel]
    store = records()
    remembered = [] if store is None else list(store.read(device, kernel))
    known: dict[tuple[str, str], Configuration] = {}
    for entry in (*shipped, *remembered):
        configuration = entry.configuration(capability)
        if configuration is not None:
            known[entry.dtype, entry.shape] = configuration
    return known


def note(question: Question, entry: Entry) -> None:
    """Store a measured answer, for this process and for later ones."""
    properties = driver().properties(question.device.resolved_index)
    store = records()
    if store is not None and entry.source:
        store.write(device_name(properties), entry)
    capability = capability_of(question.device)
    configuration = entry.configuration(capability)
    with _lock:
        if configuration is not None:
            key = (question.kernel, device_name(properties), capability)
            known = _entries.get(key)
            if known is None:
                known = _entries[key] = _known(*key)
            known[entry.dtype, entry.shape] = configuration
        _answers.clear()


def forget() -> None:
    """Drop cached records, tables and answers, so that they are looked up again."""
    with _lock:
        _answers.clear()
        _entries.clear()
        _tables.clear()


def make_plans_anew() -> None:
    """Forget what every operator has planned, as a kernel that is registered later has it: plans hold choices."""
    Dispatcher.singleton().forget_all()


@contextlib.contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Have a listener told of every question in the process, until the block ends."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


@contextlib.contextmanager
def forced(question: Question, answer: Configuration) -> Iterator[None]:
    """Answer a question this way until the block ends; the caller makes plans anew, before and after."""
    _forced[question] = answer
    try:
        yield
    finally:
        del _forced[question]
