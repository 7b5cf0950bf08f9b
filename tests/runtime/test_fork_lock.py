"""A forked child finds every lock free that another thread of its parent held, and computes."""

import importlib
import os
import signal
import sys
import threading
import types
import warnings

import pytest

import triten as tt
from triten.runtime import fork_lock
from triten.runtime.cpu import object_code
from triten.runtime.cpu.background import background
from triten.runtime.fork_lock import _locks, cached_property, forkable, hold_across_fork
from triten.tests.compiled_code import needs_llvm
from triten.tests.shared.threads import PATIENCE, in_thread, together

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def status_of_child(function):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        try:
            function()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def holding(locks):
    """Hold the locks in another thread while the functions of a `with` block run."""
    held, over = threading.Event(), threading.Event()

    def hold():
        for lock in locks:
            lock.acquire()
        held.set()
        over.wait(PATIENCE)
        for lock in locks:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)
    return over, thread


@pytest.mark.parametrize("kind", [threading.Lock, threading.RLock])
def test_a_lock_that_another_thread_held_is_free_in_the_child(kind):
    lock = forkable(kind())
    over, thread = holding([lock])
    try:
        status = status_of_child(lambda: lock.acquire(timeout=0) or 1 / 0)
    finally:
        over.set()
        thread.join()
    assert status == 0
    assert lock.acquire(timeout=0), "the parent's lock was given back by its thread"


def test_a_lock_that_the_forking_thread_holds_is_its_own_in_the_child():
    lock = forkable(threading.RLock())
    with lock:

        def child():
            assert in_thread(lambda: lock.acquire(timeout=0)) is False
            lock.release()
            assert in_thread(lambda: lock.acquire(timeout=0)) is True

        assert status_of_child(child) == 0


def compute():
    w = tt.linspace(0, 1, 5, requires_grad=True)
    (w.exp() @ tt.rand(5, 2)).sum().backward()
    with tt.library.Library("t_fork_lock", "FRAGMENT") as lib:
        lib.define("twice(Tensor x) -> Tensor")
    tt.Generator().manual_seed(3)
    assert w.grad is not None and tt.device("cpu") == w.device


def test_a_child_computes_whatever_other_threads_held():
    over, thread = holding(list(_locks))
    try:
        status = status_of_child(compute)
    finally:
        over.set()
        thread.join()
    assert status == 0


def test_an_attribute_is_computed_beside_another_thread_that_computes_it():
    inside, go_on = threading.Event(), threading.Event()

    class Thing:
        @cached_property
        def value(self):
            """Return a number."""
            if self is slow:
                inside.set()
                assert go_on.wait(PATIENCE)
            return [1]

    slow, quick = Thing(), Thing()

    def other():
        assert inside.wait(PATIENCE)
        quick.value.append(2)
        go_on.set()

    together(lambda: slow.value, other)
    assert (slow.value, quick.value) == ([1], [1, 2])
    assert Thing.value.__doc__ == "Return a number."


class Noticing:
    """Reentrant lock that signals when a thread is about to take it."""

    def __init__(self):
        self.lock, self.wanted = threading.RLock(), threading.Event()

    def __enter__(self):
        self.wanted.set()
        assert self.lock.acquire(timeout=PATIENCE)

    def __exit__(self, *error):
        self.lock.release()


def test_a_fork_waits_for_a_lock_and_gives_it_back_in_both_processes(monkeypatch):
    lock, state = Noticing(), []
    monkeypatch.setattr(fork_lock, "_awaited", [])
    hold_across_fork(lock)
    hold_across_fork(lock)
    held = threading.Event()

    def hold():
        with lock.lock:
            held.set()
            state.append("half")
            assert lock.wanted.wait(PATIENCE)
            state.append("whole")

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(PATIENCE)

    def child():
        assert state == ["half", "whole"]
        assert in_thread(lambda: lock.lock.acquire(timeout=0)) is True

    assert status_of_child(child) == 0
    thread.join()
    assert in_thread(lambda: lock.lock.acquire(timeout=0)) is True


@needs_llvm
def test_forks_wait_for_calls_of_llvm(monkeypatch):
    """Take llvmlite's lock after that of the thread which makes loops, since that thread calls LLVM."""
    monkeypatch.setattr(fork_lock, "_awaited", [])
    object_code._load_library()
    from llvmlite import binding

    assert fork_lock._awaited == [background.busy, binding.ffi.lib._lock]


def test_a_child_imports_what_another_thread_was_importing(tmp_path, monkeypatch):
    events = types.SimpleNamespace(begun=threading.Event(), go_on=threading.Event())
    monkeypatch.setattr(threading, "late_events", events, raising=False)
    (tmp_path / "late_fork.py").write_text(
        "import threading\n"
        "threading.late_events.begun.set()\n"
        f"assert threading.late_events.go_on.wait({PATIENCE})\n"
        "value = 1\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    thread = threading.Thread(target=lambda: importlib.import_module("late_fork"))
    thread.start()
    assert events.begun.wait(PATIENCE)

    def child():
        events.go_on.set()
        assert importlib.import_module("late_fork").value == 1

    status = status_of_child(child)
    events.go_on.set()
    thread.join()
    assert status == 0
    assert sys.modules.pop("late_fork").value == 1
