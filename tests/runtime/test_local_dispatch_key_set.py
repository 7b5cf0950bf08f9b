"""Included and excluded dispatch keys are thread-local, nest, and are restored."""

import threading

import pytest

import triten as tt
from triten.runtime.local_dispatch_key_set import (
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    effective,
    local,
    modes,
)

DispatchKey, DispatchKeySet = tt.DispatchKey, tt.DispatchKeySet
CPU, AUTOGRAD, TRACER = DispatchKey.CPU.bits, DispatchKey.AutogradCPU.bits, DispatchKey.Tracer.bits


def test_nothing_at_first() -> None:
    assert (local.included, local.excluded, modes) == (0, 0, [])
    assert effective(CPU) == CPU


def test_including() -> None:
    with IncludeDispatchKeyGuard(DispatchKeySet(DispatchKey.Tracer)):
        assert effective(CPU) == CPU | TRACER
        assert modes
    assert effective(CPU) == CPU
    assert not modes


def test_excluding_wins_over_including() -> None:
    with IncludeDispatchKeyGuard(TRACER), ExcludeDispatchKeyGuard(TRACER):
        assert effective(CPU) == CPU


def test_nesting_restores_in_order() -> None:
    with ExcludeDispatchKeyGuard(TRACER):
        with ExcludeDispatchKeyGuard(TRACER | AUTOGRAD):
            assert effective(CPU | TRACER | AUTOGRAD) == CPU
        assert effective(CPU | TRACER | AUTOGRAD) == CPU | AUTOGRAD
        assert len(modes) == 1
    assert local.excluded == 0


def test_excluding_a_per_backend_key_leaves_the_backend() -> None:
    with ExcludeDispatchKeyGuard(DispatchKeySet(DispatchKey.AutogradCPU)):
        assert effective(CPU | AUTOGRAD) == CPU


def test_an_exception_restores() -> None:
    with pytest.raises(KeyError), IncludeDispatchKeyGuard(TRACER):
        raise KeyError
    assert local.included == 0
    assert not modes


def test_one_guard_entered_again_within_itself() -> None:
    guard = IncludeDispatchKeyGuard(TRACER)
    with guard:
        with guard:
            assert effective(CPU) == CPU | TRACER
        assert effective(CPU) == CPU | TRACER
    assert effective(CPU) == CPU
    assert not modes


def test_other_threads_are_not_concerned() -> None:
    entered, leave = threading.Event(), threading.Event()
    seen: list[int] = []

    def other() -> None:
        seen.append(effective(CPU))
        with ExcludeDispatchKeyGuard(CPU):
            entered.set()
            leave.wait()
        seen.append(effective(CPU))

    with IncludeDispatchKeyGuard(TRACER):
        thread = threading.Thread(target=other)
        thread.start()
        entered.wait()
        assert effective(CPU) == CPU | TRACER
    leave.set()
    thread.join()
    assert seen == [CPU, CPU]
    assert not modes
