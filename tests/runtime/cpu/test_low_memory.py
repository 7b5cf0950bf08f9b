"""Loops under low memory: the process falls back to NumPy's kernels, and never waits for a dead thread."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from triten.runtime import spare_memory
from triten.runtime.cpu import background as background_compiler
from triten.runtime.cpu import llvm_compiler, object_code, task_pool
from triten.runtime.cpu.background import background
from triten.runtime.cpu.loop_requests import DeferredLoop
from triten.runtime.cpu.task_pool_source import share_text
from triten.tests.compiled_code import needs_llvm
from triten.tests.shared.threads import PATIENCE

LIMITED = """
import os, resource
import numpy as np
import triten as tt
from triten.runtime.cpu import object_code
from triten.runtime.cpu.background import background

tt.set_num_threads(2)
tt.compile(lambda a: a * 2 + 1)(tt.ones(4))  # llvmlite is imported
x = tt.linspace(-3, 3, 1 << 16)
expected = 1 / (1 + np.exp(-x.numpy().astype(np.float64)))
read = object_code._read

def limit(nbytes):
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + nbytes, resource.RLIM_INFINITY))

def read_and_lose_memory(key):
    found = read(key)
    limit(left)  # Another thread takes the rest, after all checks and before LLVM compiles.
    return found

for extra, left in [(n << 20, None) for n in (4, 10, 20, 40, 200, 400)] + [(1 << 32, n << 18) for n in range(4)]:
    child = os.fork()
    if not child:
        limit(extra)
        if left is not None:
            object_code._read = read_and_lose_memory
        for _ in range(200):
            y = tt.sigmoid(x)
        background.wait()
        limit(1 << 28)
        os._exit(0 if abs(tt.sigmoid(x).numpy() - expected).max() < 1e-6 else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end=" ")
"""


@needs_llvm
@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space as Linux has them")
def test_eager_kernels_go_on_under_a_limit() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", LIMITED],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TRITEN_CACHE_MAXSIZE": "0"},
    )
    assert done.stdout.split() == ["0"] * 10, done.stderr
    assert "Traceback" not in done.stderr


def refuse(nbytes: int, purpose: str) -> None:
    raise MemoryError(purpose)


@needs_llvm
def test_a_loop_that_has_no_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert object_code.target() is not None
    monkeypatch.setattr(object_code, "require_memory", refuse)
    with pytest.raises(MemoryError, match="a compiled loop"):
        object_code.loop_function("; a text that no other test has")


def test_what_the_system_does_not_give_is_told() -> None:
    spare_memory.require_memory(1 << 20, "a table")
    with pytest.raises(MemoryError, match=r"a table needs .* MiB"):
        spare_memory.require_memory(1 << 62, "a table")


def test_a_thread_that_dies_as_it_begins_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    background, start = background_compiler._Background(), background_compiler.start_new_thread
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)

    def die(token: object) -> None:
        raise MemoryError

    monkeypatch.setattr(background_compiler, "start_new_thread", lambda function, given: start(die, given))
    background.ask(lambda: made.append(1))
    background.wait()
    assert made == []
    monkeypatch.undo()
    background.ask(lambda: made.append(2))
    background.wait()
    assert made == [1, 2]


@needs_llvm
def test_a_limited_process_has_loops_compiled_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    text = share_text(task_pool._machine())
    code = object_code._compile(text, True)
    monkeypatch.setattr(object_code, "can_run_out", lambda: True)
    monkeypatch.setattr(llvm_compiler, "compile_text", lambda text, optimizes: pytest.fail("compiled here"))
    assert object_code._compile(text, True) == code
    assert object_code.target.__wrapped__() == object_code.target()
    with pytest.raises(
        MemoryError, match=r"(?s)the process that compiles loops ended with status 1: .*expected"
    ):
        object_code._compile("no text of LLVM's", False)
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(MemoryError, match="no process can be started to compile loops"):
        object_code._compile(text, True)


@pytest.mark.parametrize("error", [MemoryError, ImportError])
def test_later_requests_are_made_and_waiters_released(error: type[Exception]) -> None:
    made: list[int] = []

    def fail() -> None:
        raise error

    background.wait()
    requests: list[Callable[[], None]] = [fail, lambda: made.append(1), fail, lambda: made.append(2)]
    with background.busy:  # The thread waits until all are asked for.
        for request in requests:
            background.ask(request)
    background.wait()
    assert made == [1, 2]


def test_without_memory_for_a_thread_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    background.wait()
    monkeypatch.setattr(background_compiler, "require_memory", refuse)
    loop = DeferredLoop(lambda: pytest.fail("a loop is compiled"), 1)
    assert loop.beside(2) is None and loop.beside(2) is None
    assert not background.is_running() and not background.requests
    background.wait()


@needs_llvm
def test_a_pool_that_has_no_memory_leaves_the_caller_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_pool, "require_memory", refuse)
    monkeypatch.setattr(task_pool, "_pools", task_pool._Pools())
    monkeypatch.setattr(task_pool, "get_num_threads", lambda: 2)
    assert task_pool._words() is task_pool._alone


@needs_llvm
def test_a_pool_whose_threads_cannot_start_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[weakref.ref[Any]] = []
    start = task_pool.start_new_thread

    def limited(function: Callable[..., Any], arguments: tuple[Any, Any]) -> int:
        if pools:
            raise RuntimeError("can't start new thread")
        pools.append(weakref.ref(arguments[1]))
        return start(function, arguments)

    monkeypatch.setattr(task_pool, "start_new_thread", limited)
    with pytest.raises(RuntimeError, match="can't start"):
        task_pool.TaskPool(3)
    deadline = time.monotonic() + PATIENCE
    while pools[0]() is not None:
        assert time.monotonic() < deadline, "a thread of a pool that is not used goes on"
        time.sleep(0.001)
