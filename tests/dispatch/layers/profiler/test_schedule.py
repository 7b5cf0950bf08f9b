"""Profiler schedules: cycles of waiting, warming up and recording, in PyTorch's order."""

import pytest

import triten as tt
from triten.dispatch.core.operator_entry import observers
from triten.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
)

CPU = [ProfilerActivity.CPU]


def test_a_schedule_in_pytorchs_order():
    when = schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    none, warmup, record, save = ProfilerAction
    assert [when(step) for step in range(11)] == [none, *[none, warmup, record, save] * 2, none, none]
    first = schedule(wait=2, warmup=1, active=1, skip_first=1, skip_first_wait=1)
    assert [first(step) for step in range(6)] == [none, warmup, save, none, none, warmup]


@pytest.mark.parametrize(
    "bad", [{"wait": -1}, {"warmup": -1}, {"active": 0}, {"repeat": -1}, {"skip_first": -1}]
)
def test_bad_schedules_are_refused(bad):
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(**{"wait": 0, "warmup": 1, "active": 1, **bad})


def test_a_schedule_without_warmup_warns():
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_each_cycle_has_its_own_trace_of_the_active_steps():
    a = tt.ones(2)
    seen = []
    with profile(
        activities=CPU,
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=lambda p: seen.append((p.step_num, [e.name for e in p.events()])),
    ) as prof:
        for _ in range(9):
            a.exp()
            prof.step()
            assert bool(observers) is (prof.current_action is not ProfilerAction.NONE)
    names = [["ProfilerStep#2", "aten::exp", "ProfilerStep#3", "aten::exp"]]
    names.append(["ProfilerStep#6", "aten::exp", "ProfilerStep#7", "aten::exp"])
    assert seen == list(zip([4, 8], names, strict=True))


def test_leaving_in_the_middle_of_a_cycle():
    a, seen = tt.ones(2), []
    when = schedule(wait=0, warmup=1, active=3)
    with profile(activities=CPU, schedule=when, on_trace_ready=seen.append) as prof:
        a.exp()
    assert seen == []
    with pytest.raises(AssertionError, match="must be initialized"):
        prof.events()
    with pytest.raises(KeyError), profile(activities=CPU, schedule=when, on_trace_ready=seen.append) as prof:
        prof.step()
        a.exp()
        raise KeyError
    assert len(seen) == 1 and [e.name for e in prof.events()] == ["ProfilerStep#1", "aten::exp"]


def test_a_schedule_that_breaks_off_warns_and_one_that_answers_nonsense_is_refused():
    none, warmup, record, _ = ProfilerAction
    for broken in ([warmup, none], [record, none], [record, warmup]):
        prof = profile(activities=CPU, schedule=broken.__getitem__)
        with prof, pytest.warns(UserWarning, match="Incorrect schedule"):
            prof.step()
    with pytest.raises(TypeError, match=r"schedule\(0\): expected a ProfilerAction, got 3"):
        profile(activities=CPU, schedule=lambda step: 3).start()


def test_on_trace_ready_that_raises_leaves_nothing_behind():
    def fail(prof):
        raise OSError("full")

    with pytest.raises(OSError, match="full"), profile(activities=CPU, on_trace_ready=fail):
        tt.ones(2)
