"""The profiler by its first names, and operators as ranges for other profilers."""

import sys

import pytest

import triten as tt
from triten.autograd import profiler


@pytest.fixture
def ranges(monkeypatch):
    """Record the NVTX ranges that reach CuPy's binding: a name for a push, None for a pop."""
    made = []

    class Binding:
        RangePush = staticmethod(made.append)

        @staticmethod
        def RangePop():
            made.append(None)

        @staticmethod
        def Mark(name):
            assert name == "emit_nvtx"

    monkeypatch.setitem(sys.modules, "cupy.cuda.nvtx", Binding())
    return made


def test_operators_and_nodes_are_ranges(ranges):
    x = tt.ones(2, requires_grad=True)
    y = x * 2  # a plan from before
    with profiler.emit_nvtx():
        y = x * 2
        y.sum().backward()
    assert ranges[0] == "aten::mul"
    names = [each for each in ranges if each is not None]
    assert names.count("aten::sum") >= 1 and len(ranges) == 2 * len(names)
    nodes = [each.partition(", seq = ") for each in names if ", seq = " in each]
    assert [name for name, _, _ in nodes][:2] == ["SumBackward0", "MulBackward0"]
    assert all(number.lstrip("-").isdigit() for _, _, number in nodes)
    ranges.clear()
    (x * 2).sum().backward()
    assert ranges == []


def test_shapes_are_in_the_names(ranges):
    with profiler.emit_nvtx(record_shapes=True):
        tt.ones(2, 3) @ tt.ones(3)
    assert "aten::mv, sizes = [[2, 3], [3]]" in ranges


def test_a_range_ends_with_an_error(ranges):
    with profiler.emit_nvtx(), pytest.raises(RuntimeError):
        tt.ones(2) @ tt.ones(3)
    assert ranges.count(None) * 2 == len(ranges)


def test_nothing_is_emitted_where_it_is_not_enabled(ranges):
    with profiler.emit_nvtx(enabled=False):
        tt.ones(2) + 1
    assert ranges == []


def test_ranges_are_entered_once(ranges):
    block = profiler.emit_nvtx()
    with block, pytest.raises(RuntimeError, match="not reentrant"):
        block.__enter__()


def test_a_profile_of_a_block():
    x = tt.ones(2, 3)
    with profiler.profile(record_shapes=True) as prof:
        assert repr(prof) == "<unfinished autograd.profile>"
        with profiler.record_function("part"):
            x + x
        with pytest.raises(RuntimeError, match="didn't finish"):
            prof.table()
    assert [each.name for each in prof.function_events] == ["part", "aten::add"]
    assert prof.function_events[1].input_shapes[:2] == [[2, 3], [2, 3]]
    assert isinstance(prof.function_events, profiler.EventList)
    assert "aten::add" in prof.table(sort_by="count", row_limit=5) and "aten::add" in repr(prof)
    assert prof.key_averages().self_cpu_time_total == pytest.approx(prof.self_cpu_time_total)
    assert prof.total_average().count == 2
    with pytest.raises(RuntimeError, match="not reentrant"):
        prof.__enter__()


def test_a_profile_that_is_not_enabled_records_nothing():
    with profiler.profile(enabled=False) as prof:
        tt.ones(2)
    assert prof is None


def test_other_devices_are_refused():
    with pytest.raises(ValueError, match="expected 'cuda' or None, got 'xpu'"):
        profiler.profile(use_device="xpu")


def test_devices_are_recorded():
    pytest.importorskip("triton", reason="triton has no wheel for this platform")
    x = tt.ones(4, device="cuda")
    with profiler.profile(use_device="cuda") as prof:
        x * 3
    assert prof.key_averages().total_average().device_time_total > 0
    assert tt.profiler.kineto_available()
