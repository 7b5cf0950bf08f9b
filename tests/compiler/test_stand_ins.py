"""A stand-in for `print` or a clock does no harm if an interrupt leaves it in place."""

import builtins
import logging
import sys
import threading
import time
import types
import warnings

import pytest

import triten as tt
from triten.compiler.capture import stand_ins as module
from triten.compiler.capture.stand_ins import StandIns
from triten.tests.shared.interrupts import Moments
from triten.tests.shared.threads import in_thread

FILES = ("stand_ins.py", "side_effects.py", "values_read.py", "frames.py", "recording.py")
PLACES = (
    *((builtins, name) for name in ("print", "input", "open")),
    *((time, name) for name in ("time", "time_ns", "perf_counter", "perf_counter_ns", "monotonic")),
    *((tt.Tensor, name) for name in ("item", "host_array", "numpy")),
    *((tt.Generator, name) for name in ("manual_seed", "set_state_bytes")),
    (warnings, "warn"),
    (logging.Logger, "handle"),
    (sys, "stdout"),
    (sys, "stderr"),
)


def values():
    return [getattr(holder, name) for holder, name in PLACES]


def use(capsys):
    """Do all that a capture refuses."""
    print("written")
    time.time()
    sys.stdout.write("")
    assert tt.tensor(2.0).item() == 2.0
    tt.Generator().manual_seed(1)
    assert "written" in capsys.readouterr().out


def test_nothing_refuses_after_an_interrupt_at_any_moment(capsys):
    tt.compile(lambda x: x + 1)(tt.ones(2))  # the imports
    before, trace, at, step = values(), sys.gettrace(), 0, 1
    while True:
        at += step
        moments = Moments(at, lambda code: code.co_filename.endswith(FILES))
        compiled = tt.compile(lambda x: x.sin() + 1)
        if not moments.interrupts(lambda compiled=compiled: compiled(tt.zeros(2))):
            break
        use(capsys)
        assert values() == before, f"after an interrupt at {moments.where}"
        step = 1 + at // 60
    assert at > 60
    assert compiled(tt.zeros(2)).tolist() == [1, 1]
    assert values() == before and sys.gettrace() is trace and not module._standing


@pytest.fixture
def holder():
    made = types.ModuleType("holder")
    made.f = lambda x: x
    return made


def left_behind(holder):
    """Leave a stand-in in place, as an interrupt does that comes before anything is put back."""
    stand_ins = StandIns()
    stand_ins.replace_function(holder, "f", lambda original: lambda x: original(x) + 1)

    def block():
        stand_ins.begin(sys._getframe())
        return holder.f(1)

    assert block() == 2
    return stand_ins


def test_a_stand_in_acts_beneath_its_block_and_in_its_thread_alone(holder):
    original, stand_ins = holder.f, StandIns()
    stand_ins.replace_function(holder, "f", lambda original: lambda x: original(x) + 1)
    with stand_ins:
        assert holder.f(1) == 2
        assert in_thread(lambda: holder.f(1)) == 1
        assert holder.f(1) == 2, "a thread without a capture takes nothing away"
    assert holder.f is original


def test_one_that_was_left_behind_forwards_and_goes(holder):
    original = holder.f
    left_behind(holder)
    kept = holder.f
    assert kept(1) == 1 and holder.f is original and kept(1) == 1


def test_one_that_was_left_behind_goes_with_the_next_block(holder):
    original = holder.f
    left_behind(holder)
    with StandIns():
        assert holder.f is original


def test_one_of_a_thread_that_ended_goes_too(holder):
    original = holder.f
    in_thread(lambda: left_behind(holder))
    with StandIns():
        assert holder.f is original


def test_what_replaced_one_that_was_left_behind_stays(holder):
    left_behind(holder)
    kept, holder.f = holder.f, abs
    assert kept(1) == 1 and holder.f is abs


def test_blocks_nest(holder):
    original, outer, inner = holder.f, StandIns(), StandIns()
    for each, factor in ((outer, 10), (inner, 100)):
        each.replace_function(holder, "f", lambda original, factor=factor: lambda x: original(x) * factor)
    with outer:
        with inner:
            assert holder.f(1) == 1000
        assert holder.f(1) == 10
    assert holder.f is original and threading.active_count()
