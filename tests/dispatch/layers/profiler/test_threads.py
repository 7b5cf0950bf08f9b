"""Profilers and threads: each profiler sees its own thread, or all threads on request."""

import pytest

import triten as tt
from triten.profiler import (
    ProfilerActivity,
    profile,
    record_function,
)
from triten.tests.shared.threads import in_thread

CPU = [ProfilerActivity.CPU]


def test_other_threads_are_left_alone(tree, named):
    a, w = tt.ones(2), tt.ones(2, requires_grad=True)
    seen = []

    def work():
        seen.append((a.neg() + tt.addcmul(a, a, a)).tolist())
        (w * a).sum().backward()

    with profile(activities=CPU, profile_memory=True) as prof:
        with record_function("range"):
            in_thread(work, "worker")
        a.exp()
    assert seen == [[1.0, 1.0]] and w.grad.tolist() == [1.0, 1.0]
    assert [name for name, _ in tree(prof) if name != "[memory]"] == ["range", "aten::exp"]
    assert named(prof, "range").kernel_functions == [] and named(prof, "range").cpu_memory_usage == 0


def test_plans_of_a_profiler_that_has_ended_are_forgotten(device):
    a = tt.ones(2, device=device)
    with profile() as prof:
        session = prof._session
        a + a
    entries = len(session.log)
    assert entries
    a + a
    assert len(session.log) == entries


def test_all_threads_on_request_each_with_its_own_nesting(tree, named):
    a = tt.ones(2, 2)

    def work():
        with record_function("in worker"):
            a @ a

    config = tt.profiler.ExperimentalConfig(profile_all_threads=True)
    with profile(activities=CPU, experimental_config=config) as prof, record_function("in main"):
        in_thread(work, "worker")
        a.exp()
    assert ("aten::matmul", "in worker") in tree(prof) and ("aten::exp", "in main") in tree(prof)
    assert named(prof, "in worker").thread != named(prof, "in main").thread
    assert named(prof, "in worker").cpu_parent is None


def test_one_profiler_at_a_time(tree):
    with profile(activities=CPU) as outer:
        with pytest.raises(RuntimeError, match="another one is running in this process"):
            profile(activities=CPU).start()
        with pytest.raises(RuntimeError, match="running already"):
            outer.start()
        tt.ones(2)
    assert tree(outer) == [("aten::ones", None)]
