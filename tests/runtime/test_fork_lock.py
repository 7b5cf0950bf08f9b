"""A forked child finds every lock free that another thread of its parent held, and computes."""

import os
import signal
import threading
import warnings

import pytest

import triten as tt
from triten.runtime.fork_lock import _locks, cached_property, forkable
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
    """While the functions of a `with` block run, another thread holds the locks."""
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
            """A number."""
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
    assert Thing.value.__doc__ == "A number."
