"""Ranges and marks for profilers, and what part of a program they watch."""

import sys
import threading

import pytest

import triten as tt


@pytest.fixture
def calls(monkeypatch):
    """Record the calls of CuPy's NVTX binding in order."""
    made = []

    class Binding:
        def __getattr__(self, name):
            return lambda *arguments: made.append((name, *arguments)) or 5

    monkeypatch.setitem(sys.modules, "cupy.cuda.nvtx", Binding())
    return made


def test_ranges_tell_how_deep_they_are(calls):
    nvtx = tt.cuda.nvtx
    assert [nvtx.range_push("a"), nvtx.range_push("b"), nvtx.range_pop(), nvtx.range_pop()] == [0, 1, 1, 0]
    assert nvtx.range_pop() == -1
    assert nvtx.range_push("c") == 0
    assert nvtx.range_pop() == 0
    pushes = [name == "RangePush" for name, *_ in calls]
    assert pushes == [True, True, False, False, False, True, False]


def test_each_thread_has_its_own_ranges(calls):
    found = []
    tt.cuda.nvtx.range_push("outside")
    thread = threading.Thread(target=lambda: found.append(tt.cuda.nvtx.range_push("inside")))
    thread.start()
    thread.join()
    tt.cuda.nvtx.range_pop()
    assert found == [0]


def test_a_range_ends_with_its_block(calls):
    with pytest.raises(ValueError), tt.cuda.nvtx.range("step {} of {n}", 3, n=4):
        raise ValueError

    @tt.cuda.nvtx.range("called")
    def function():
        return 1

    assert function() == 1
    assert calls == [("RangePush", "step 3 of 4"), ("RangePop",), ("RangePush", "called"), ("RangePop",)]


def test_ranges_across_threads_and_marks(calls):
    handle = tt.cuda.nvtx.range_start("load")
    tt.cuda.nvtx.mark("here")
    tt.cuda.nvtx.range_end(handle)
    assert calls == [("RangeStart", "load"), ("Mark", "here"), ("RangeEnd", 5)]


def test_without_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy.cuda.nvtx", None)
    with pytest.raises(RuntimeError, match="NVTX functions not installed"):
        tt.cuda.nvtx.range_push("a")


def test_a_profiler_is_started_and_stopped(monkeypatch):
    pytest.importorskip("triton", reason="triton has no wheel for this platform")
    from triten.runtime.cuda.driver import driver

    done = []
    monkeypatch.setattr(driver(), "start_profiler", lambda: done.append("start"))
    monkeypatch.setattr(driver(), "stop_profiler", lambda: done.append("stop"))
    with pytest.raises(ValueError), tt.cuda.profiler.profile():
        done.append("work")
        raise ValueError
    assert done == ["start", "work", "stop"]


def test_a_profiler_that_fails_is_an_error(monkeypatch):
    pytest.importorskip("triton", reason="triton has no wheel for this platform")
    from triten.runtime.cuda.driver import driver

    def fail():
        raise tt.AcceleratorError("CUDA error: invalid argument", 1)

    monkeypatch.setattr(driver(), "start_profiler", fail)
    with pytest.raises(tt.cuda.CudaError, match=r"^invalid argument \(1\)$"):
        tt.cuda.profiler.start()
