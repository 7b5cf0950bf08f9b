"""Native threads run each part of a shared loop once.

This holds for any caller, in a forked child, and after a change of the number of threads.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.runtime.cpu import task_pool
from triten.runtime.cpu.calling_convention import HEADER, python_call
from triten.runtime.cpu.code import Code
from triten.runtime.cpu.loop_requests import Sharing
from triten.runtime.cpu.object_code import loop_function
from triten.runtime.parallel import parallel_for
from triten.tests.compiled_code import needs_llvm
from triten.tests.shared.threads import PATIENCE

pytestmark = [
    needs_llvm,
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="futexes of Linux"
    ),
]
PARTS, LENGTH = 37, 1000


def counting_text() -> str:
    """Return the source of ``loop(numbers, out, room)``, which adds one to numbers and records the range it
    worked on.
    """
    code = Code()
    first, count = code.number("%g", 1), code.number("%g", 0)
    code.do(f"store i64 {first}, ptr %p1")
    with code.loop("0", count) as i:
        at = code.at("i64", "%p0", code.add(i, first))
        code.do(f"store i64 {code.add(code.new(f'load i64, ptr {at}'), '1')}, ptr {at}")
    text = code.function("loop", "ptr %g, ptr %p0, ptr %p1", "noinline")
    return HEADER + text + python_call(2, 1)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = tt.get_num_threads()
    tt.set_num_threads(3)
    yield
    tt.set_num_threads(before)


def counted(sharing: Sharing) -> Any:
    """Return a function that counts in an array of ``PARTS * LENGTH``."""
    loop = loop_function(counting_text())
    parts = [np.array([LENGTH, part * LENGTH]) for part in range(PARTS)]
    return task_pool.shared_loop(loop, parts, sharing, (1, 8))


@pytest.mark.parametrize("sharing", list(Sharing))
def test_each_part_once(sharing: Sharing) -> None:
    count, out = counted(sharing), np.zeros(PARTS * LENGTH, np.int64)
    for _ in range(200):
        count(out)
    assert set(out.tolist()) == {200}


@pytest.mark.parametrize("sharing", list(Sharing))
def test_without_a_pool(monkeypatch: pytest.MonkeyPatch, sharing: Sharing) -> None:
    monkeypatch.setattr(task_pool, "_share", lambda: None)
    count, out = counted(sharing), np.zeros(PARTS * LENGTH, np.int64)
    for _ in range(20):
        count(out)
    assert set(out.tolist()) == {20}


def test_several_callers() -> None:
    count = counted(Sharing.WAKING)
    outs = [np.zeros(PARTS * LENGTH, np.int64) for _ in range(4)]

    def call(out: Any) -> None:
        for _ in range(100):
            count(out)

    callers = [threading.Thread(target=call, args=(out,)) for out in outs]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all(set(out.tolist()) == {100} for out in outs)


def test_other_numbers_of_threads() -> None:
    count, out = counted(Sharing.WAKING), np.zeros(PARTS * LENGTH, np.int64)
    for number, threads in enumerate((1, 2, 5, 1, 3), 1):
        tt.set_num_threads(threads)
        count(out)
        assert set(out.tolist()) == {number}


def test_threads_end_that_are_no_longer_wanted() -> None:
    pool = task_pool.TaskPool(3)
    running = [weakref.ref(number) for number in pool.numbers]
    pool.numbers.clear()
    assert all(number() is not None for number in running)
    pool.stop()
    deadline = time.monotonic() + PATIENCE
    while any(number() is not None for number in running):
        assert time.monotonic() < deadline, "a thread goes on"
        time.sleep(0.001)


def test_inside_a_parallel_region() -> None:
    count, outs = counted(Sharing.WAKING), np.zeros((4, PARTS * LENGTH), np.int64)
    parallel_for(0, 4, 1, lambda first, last: [count(out) for out in outs[first:last]] and None)
    assert set(outs.reshape(-1).tolist()) == {1}


FORKS = """
import os
import triten as tt
tt.set_num_threads(2)
x, w = tt.ones(8, 16, 32, 32), tt.ones(16, 16, 3, 3)
expected = tt.conv2d(x, w).sum().item()
child = os.fork()
if not child:
    os._exit(0 if tt.conv2d(x, w).sum().item() == expected else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_makes_its_own() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", FORKS], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "0", done.stderr


@pytest.mark.parametrize("size", [1, 64, 384, 4096])
@pytest.mark.parametrize("start", range(0, 64, 16))
def test_workspaces_share_no_pair_of_cache_lines(size: int, start: int) -> None:
    """Separate the workspaces: two threads that write to one pair of lines are slower than one thread."""
    step = task_pool._apart(size)
    assert (start + size - 1) // 128 < (start + step) // 128
