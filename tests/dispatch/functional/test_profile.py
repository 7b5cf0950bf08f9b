"""The profiler: what it records and how it nests, as PyTorch's does; and nothing is left of it afterwards."""

import gc
import gzip
import json
import threading
import warnings
from importlib.util import find_spec

import numpy as np
import pytest

import triten as tt
from triten.dispatch.autograd import engine
from triten.dispatch.autograd.node import Node
from triten.dispatch.core.operator_entry import observers
from triten.dispatch.structured.stub import recorders
from triten.profiler import (
    DeviceType,
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
)
from triten.runtime.allocator import Allocator, HostAllocator, get_allocator, set_allocator
from triten.runtime.cuda.caching_allocator import CUDA_ALLOCATOR
from triten.runtime.cuda.driver import CompiledKernel, driver
from triten.runtime.data_ptr import DataPtr
from triten.runtime.dispatch_key import Functionality, functionality_bit
from triten.runtime.local_dispatch_key_set import IncludeDispatchKeyGuard

CPU = [ProfilerActivity.CPU]
needs_cuda = pytest.mark.skipif(find_spec("triton") is None, reason="triton has no wheel for this platform")


def tree(prof):
    """(name, parent's name) of the host's events."""
    events = [e for e in prof.events() if e.device_type is DeviceType.CPU]
    return [(e.name, None if e.cpu_parent is None else e.cpu_parent.name) for e in events]


def named(prof, name):
    found = [e for e in prof.events() if e.name == name]
    assert len(found) == 1, (name, [e.name for e in prof.events()])
    return found[0]


def nodes():
    classes, pending = [], [Node]
    while pending:
        cls = pending.pop()
        classes.append((cls, vars(cls).get("backward")))
        pending += cls.__subclasses__()
    return classes


@pytest.fixture
def library(request):
    """A library of the test's own namespace."""
    with tt.library.Library(request.function.__name__, "DEF") as lib:
        yield lib, getattr(tt.ops, request.function.__name__)


@pytest.fixture(autouse=True)
def nothing_is_left():
    if tt.cuda.is_available():
        driver()
    kernels = [(cls, vars(cls).get("launch")) for cls in CompiledKernel.__subclasses__()]
    before, accumulate = dict(nodes()), engine.accumulate
    yield
    assert observers == [] and recorders == []
    assert all(before.get(cls, backward) is backward for cls, backward in nodes())
    assert engine.accumulate is accumulate
    assert [(cls, vars(cls).get("launch")) for cls in CompiledKernel.__subclasses__()] == kernels
    if tt.cuda.is_available():
        assert not {"copy_host_to_device", "copy_device_to_host", "memset"} & set(vars(driver()))
    assert isinstance(get_allocator("cpu"), HostAllocator) and get_allocator("cuda") is CUDA_ALLOCATOR


# --- operators and their nesting


def test_a_call_is_one_event_whatever_hops_it_makes():
    w = tt.ones(2, requires_grad=True)
    with profile(activities=CPU) as prof:
        w + 1.0
    assert tree(prof) == [("aten::add", None)]
    event = prof.events()[0]
    assert (event.overload_name, event.dispatch_keys) == ("Tensor", ["AutogradCPU", "CPU"])


def test_composites_contain_what_they_call(device):
    a = tt.ones(3, 2, device=device)
    with profile(activities=CPU) as prof:
        tt.nn.functional.linear(a, a)
    assert tree(prof) == [
        ("aten::linear", None),
        ("aten::t", "aten::linear"),
        ("aten::mm", "aten::linear"),
    ]


def test_times_of_a_tree_add_up():
    a = tt.ones(8, 8)
    with profile(activities=CPU) as prof, record_function("outer"):
        for _ in range(5):
            a @ a
    outer = named(prof, "outer")
    assert outer.cpu_children and all(c.cpu_parent is outer for c in outer.cpu_children)
    assert sum(e.self_cpu_time_total for e in prof.events()) == pytest.approx(outer.cpu_time_total)
    for event in prof.events():
        assert 0 < event.self_cpu_time_total <= event.cpu_time_total
        for child in event.cpu_children:
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end
    starts = [e.time_range.start for e in prof.events()]
    assert starts == sorted(starts) and starts[0] >= 0
    assert [e.id for e in prof.events()] == list(range(1, len(starts) + 1))


def test_kernels_are_named_with_their_dtype(device):
    a, whole = tt.ones(3, device=device), tt.ones(3, dtype=tt.int64, device=device)
    with profile(activities=CPU) as prof:
        a + whole
        whole.sum()
        a.t()
    found = [e.kernel_functions for e in prof.events()]
    assert found == [[(f"add_{device}", tt.float32)], [(f"sum_{device}", tt.int64)], []]


def test_shapes_and_dtypes_of_arguments():
    a, b = tt.ones(3, 1), tt.ones(4, dtype=tt.int32)
    with profile(activities=CPU, record_shapes=True) as prof:
        a + b
        a * 2.0
        tt.cat([a, a])
        tt.sum(a, 0)
    shapes = {e.name: (e.input_shapes, e.input_types) for e in prof.events()}
    assert shapes["aten::add"] == ([[3, 1], [4], []], ["float32", "int32", "Scalar"])
    assert shapes["aten::mul"] == ([[3, 1], []], ["float32", "Scalar"])
    assert shapes["aten::cat"][0] == [[[3, 1], [3, 1]], []]
    assert shapes["aten::sum"][0][0] == [3, 1]
    with profile(activities=CPU) as prof:
        a + b
    assert prof.events()[0].input_shapes == []


def test_plans_made_before_are_seen_and_results_are_the_same(device):
    a = tt.from_numpy(np.float32([[1, -2], [3, -4]])).to(device)
    w = tt.ones(2, 2, device=device).requires_grad_()
    expected = (w * a).relu()
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        result = (w * a).relu()
        result.sum().backward()
    assert result.tolist() == expected.tolist()
    assert w.grad.tolist() == [[1, 0], [3, 0]]
    assert {"aten::mul", "aten::relu", "aten::sum"} <= {e.name for e in prof.events()}


def test_modes_and_exceptions_do_not_upset_the_nesting():
    a = tt.ones(2)
    with profile(activities=CPU) as prof:
        with record_function("outer"), pytest.raises(RuntimeError):
            tt.mm(a, a)
        with tt.inference_mode():
            a.exp()
        a.neg()
    assert [pair for pair in tree(prof) if pair[0] != "aten::mm"] == [
        ("outer", None),
        ("aten::exp", None),
        ("aten::neg", None),
    ]


def test_a_call_that_raises_is_recorded_to_its_end(library):
    lib, ops = library
    lib.define("fails(Tensor x) -> Tensor")

    def fails(x):
        x.exp()
        raise ValueError("no")

    lib.impl("fails", fails, "CPU")
    with profile(activities=CPU) as prof, pytest.raises(ValueError, match="no"):
        ops.fails(tt.ones(2))
    assert ("aten::exp", f"{lib.ns}::fails") in tree(prof)


def test_an_operator_that_calls_itself_is_several_events(library):
    lib, ops = library
    lib.define("f(Tensor x, int depth) -> Tensor")
    lib.impl("f", lambda x, depth: ops.f(x, depth - 1) if depth else x.exp(), "CPU")
    with profile(activities=CPU) as prof:
        ops.f(tt.ones(2), 2)
    name = f"{lib.ns}::f"
    assert tree(prof)[1:] == [(name, None), (name, name), (name, name), ("aten::exp", name)]


def test_an_operator_that_stops_the_profiler_does_no_harm():
    prof = profile(activities=CPU)
    prof.start()
    range_ = record_function("left after the end").__enter__()
    prof.stop()
    range_.__exit__(None, None, None)
    assert tree(prof) == []


def test_a_range_that_began_before_the_recording_is_no_part_of_it():
    with profile(activities=CPU, schedule=schedule(wait=0, warmup=1, active=1)) as prof:
        with record_function("too early"):
            tt.ones(2)
            prof.step()
        tt.ones(2)
    assert [e.name for e in prof.events()] == ["ProfilerStep#1", "aten::ones"]


# --- backward


def test_nodes_of_backward_contain_their_operators():
    w = tt.ones(2, 2, requires_grad=True)
    loss = (w @ w).relu().sum()
    with profile(activities=CPU) as prof:
        loss.backward()
    names = tree(prof)
    assert ("SumBackward0", None) in names
    assert ("aten::threshold_backward", "ReluBackward0") in names
    assert names.count(("aten::mm", "MmBackward0")) == 2
    assert ("AccumulateGrad", None) in names
    numbers = [e.sequence_nr for e in prof.events() if e.name.endswith("Backward0")]
    assert numbers == sorted(numbers, reverse=True) and numbers[-1] == loss.grad_fn.sequence - 2


def test_nodes_of_functions_that_appear_meanwhile_have_their_names():
    x = tt.ones(2, requires_grad=True)
    with profile(activities=CPU) as prof:

        class Twice(tt.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x + x

            @staticmethod
            def backward(ctx, grad):
                return grad * 2

        Twice.apply(x).sum().backward()
    assert ("aten::mul", "TwiceBackward") in tree(prof)
    assert x.grad.tolist() == [2.0, 2.0]


# --- ranges


def test_ranges_nest_decorate_recurse_and_survive_exceptions():
    @record_function("twice", args="x")
    def twice(x, depth=1):
        return twice(x, depth - 1) if depth else x + x

    with profile(activities=CPU) as prof:
        twice(tt.ones(2))
        with pytest.raises(KeyError), record_function("failing"):
            raise KeyError
    assert tree(prof) == [
        ("aten::ones", None),
        ("twice", None),
        ("twice", "twice"),
        ("aten::add", "twice"),
        ("failing", None),
    ]
    assert [e.is_user_annotation for e in prof.events()] == [False, True, True, False, True]
    assert twice.__name__ == "twice"


def test_a_range_outside_every_profiler_does_nothing():
    with record_function("nowhere") as range_:
        assert range_.name == "nowhere"
    with pytest.raises(TypeError, match=r"record_function\(\): name: expected str, got int"):
        record_function(3)


# --- threads


def in_thread(call):
    thread = threading.Thread(target=call, name="worker")
    thread.start()
    thread.join()


def test_other_threads_are_left_alone():
    a, w = tt.ones(2), tt.ones(2, requires_grad=True)
    seen = []

    def work():
        seen.append((a.neg() + tt.addcmul(a, a, a)).tolist())
        (w * a).sum().backward()

    with profile(activities=CPU, profile_memory=True) as prof:
        with record_function("range"):
            in_thread(work)
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


def test_all_threads_on_request_each_with_its_own_nesting():
    a = tt.ones(2, 2)

    def work():
        with record_function("in worker"):
            a @ a

    config = tt.profiler.ExperimentalConfig(profile_all_threads=True)
    with profile(activities=CPU, experimental_config=config) as prof, record_function("in main"):
        in_thread(work)
        a.exp()
    assert ("aten::matmul", "in worker") in tree(prof) and ("aten::exp", "in main") in tree(prof)
    assert named(prof, "in worker").thread != named(prof, "in main").thread
    assert named(prof, "in worker").cpu_parent is None


def test_one_profiler_at_a_time():
    with profile(activities=CPU) as outer:
        with pytest.raises(RuntimeError, match="another one is running in this process"):
            profile(activities=CPU).start()
        with pytest.raises(RuntimeError, match="running already"):
            outer.start()
        tt.ones(2)
    assert tree(outer) == [("aten::ones", None)]


# --- memory


def test_memory_is_attributed_to_operators(device):
    a = tt.ones(16, 16, device=device)
    with profile(profile_memory=True) as prof:
        with record_function("range"):
            b = a + a
            c = b.t()
            del b, c
            gc.collect()
        d = a * a
    of = "cpu" if device == "cpu" else "device"
    taken = {e.name: getattr(e, f"{of}_memory_usage") for e in prof.events()}
    assert (taken["aten::add"], taken["aten::mul"], taken["range"], taken["aten::t"]) == (1024, 1024, 0, 0)
    assert getattr(named(prof, "range"), f"self_{of}_memory_usage") == -1024
    del d


def test_large_and_scalar_results_proxies_and_resizes_are_counted():
    a = tt.ones(64, 64)
    with profile(activities=CPU, profile_memory=True) as prof:
        big = a + a
        total = a.sum()
        out = tt.empty(0)
        tt.add(a, a, out=out)
    taken = [e.self_cpu_memory_usage for e in prof.events() if e.name in ("aten::add", "aten::sum")]
    assert taken[:2] == [4 * 64 * 64, 4] and named(prof, "aten::resize_").cpu_memory_usage == 4 * 64 * 64
    assert big.data_ptr() % 64 == 0 and float(total) == 4096.0


def test_memory_given_back_outside_every_call_is_an_event_of_its_own():
    a = tt.ones(16, 16)
    with profile(activities=CPU, profile_memory=True) as prof:
        b = a + a
        del b
    assert tree(prof) == [("aten::add", None), ("[memory]", None)]
    assert prof.events()[1].cpu_memory_usage == -1024
    assert prof.total_average().self_cpu_memory_usage == 0


def test_memory_given_back_by_another_thread_is_known():
    a = tt.ones(16, 16)
    with profile(activities=CPU, profile_memory=True) as prof:
        held = [a + a]
        in_thread(held.clear)
    assert sum(e.self_cpu_memory_usage for e in prof.events()) == 0


def test_a_users_allocator_stays_in_use_and_comes_back():
    class Counting(Allocator):
        def __init__(self):
            self.given, self.freed = [], []

        def allocate(self, nbytes, device):
            import ctypes

            buffer = ctypes.create_string_buffer(max(nbytes, 1))
            self.given.append(nbytes)
            return DataPtr(ctypes.addressof(buffer), nbytes, device, None, self.free, buffer)

        def free(self, data):
            self.freed.append(data.nbytes)

        def copy_data(self, dst, src, nbytes):
            raise AssertionError

    mine = Counting()
    set_allocator("cpu", mine)
    try:
        with profile(activities=CPU, profile_memory=True) as prof:
            a = tt.ones(16, 16)
            assert mine.given[-1] == 1024
            del a
        assert get_allocator("cpu") is mine
        assert 1024 in mine.freed
        assert [e.cpu_memory_usage for e in prof.events() if e.name == "[memory]"] == [-1024]
    finally:
        set_allocator("cpu", None)


def test_an_allocator_that_is_set_meanwhile_stays():
    mine = HostAllocator()
    with profile(activities=CPU, profile_memory=True):
        set_allocator("cpu", mine)
    assert get_allocator("cpu") is mine
    set_allocator("cpu", None)


@needs_cuda
def test_cuda_memory_is_what_the_allocator_counts():
    a = tt.ones(16, 16, device="cuda")
    tt.cuda.synchronize()
    before = tt.cuda.memory_allocated()
    with profile(profile_memory=True) as prof:
        b = a + a
        c = b * b
    assert sum(e.self_device_memory_usage for e in prof.events()) == tt.cuda.memory_allocated() - before > 0
    del b, c
    assert tt.cuda.memory_allocated() == before


# --- devices


@needs_cuda
def test_device_times_belong_to_the_operators_that_launched():
    a = tt.ones(16, 16, device="cuda")
    with profile() as prof, record_function("model"):
        b = a @ a
        b.relu()
    mm, relu, model = named(prof, "aten::mm"), named(prof, "aten::relu"), named(prof, "model")
    work = [e for e in prof.events() if e.device_type is DeviceType.CUDA]
    assert len(work) == 2 and all(e.cpu_time_total == 0 < e.self_device_time_total for e in work)
    assert mm.self_device_time_total == mm.device_time_total == work[0].device_time_total
    assert model.device_time_total == pytest.approx(mm.device_time_total + relu.device_time_total)
    assert model.self_device_time_total == 0
    assert [k.name for k in mm.kernels] == [work[0].name]
    # In stream order, each after its launch.
    assert work[0].time_range.end <= work[1].time_range.start
    assert named(prof, "aten::mm").time_range.start <= work[0].time_range.start
    assert [e.cpu_parent.name for e in prof.events() if e.name == "cuLaunchKernel"] == [
        "aten::mm",
        "aten::relu",
    ]


@needs_cuda
def test_copies_are_work_of_the_device():
    with profile() as prof:
        a = tt.ones(4).to("cuda")
        a.cpu()
    names = [e.name for e in prof.events() if e.device_type is DeviceType.CUDA]
    assert names == ["Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pageable)"]


@needs_cuda
def test_factories_on_the_current_device_are_seen():
    with profile(activities=CPU) as prof:
        tt.zeros(3, device="cuda")
    assert [name for name, _ in tree(prof)][:1] == ["aten::zeros"]
    assert prof.events()[0].kernel_functions == [("fill_cuda", tt.float32)]


@needs_cuda
def test_the_device_alone():
    a = tt.ones(16, 16, device="cuda")
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        a + a
        tt.ones(3).exp()
    assert [e.device_type for e in prof.events()] == [DeviceType.CUDA]


@needs_cuda
def test_work_on_several_devices_and_streams():
    if tt.cuda.device_count() == 1:
        pytest.skip("one device only")
    a, b = tt.ones(4, device="cuda:0"), tt.ones(4, device="cuda:1")
    with profile() as prof:
        b + b
        a + a
    assert [(e.device_index) for e in prof.events() if e.device_type is DeviceType.CUDA] in ([0, 1], [1, 0])
    assert tt.cuda.current_device() == 0


@needs_cuda
def test_a_launch_that_is_refused_leaves_no_work():
    kernel = next(iter(driver()._compiled.values()))
    with profile() as prof:
        with pytest.raises(RuntimeError, match="invalid configuration"):
            kernel.launch((-1, 1, 1), 0)
        kernel.launch((0, 1, 1), 0)
    assert list(prof.events()) == []


# --- schedules


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


# --- tables


def test_averages_by_name_and_by_shape():
    a, b = tt.ones(2, 2), tt.ones(3, 3)
    with profile(activities=CPU, record_shapes=True) as prof:
        for _ in range(3):
            a @ a
        b @ b
    averages = {e.key: e for e in prof.key_averages()}
    mm = averages["aten::mm"]
    assert mm.count == 4 and mm.cpu_time == mm.cpu_time_total / 4
    assert mm.cpu_time_total == pytest.approx(
        sum(e.cpu_time_total for e in prof.events() if e.name == "aten::mm")
    )
    shaped = [(e.key, e.count, e.input_shapes) for e in prof.key_averages(group_by_input_shape=True)]
    assert ("aten::mm", 3, [[2, 2], [2, 2]]) in shaped and ("aten::mm", 1, [[3, 3], [3, 3]]) in shaped
    total = prof.key_averages().total_average()
    assert (total.key, total.count) == ("Total", 8)
    assert total.self_cpu_time_total == pytest.approx(prof.events().self_cpu_time_total)


HOST = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
DEVICE = ["Self CUDA", "Self CUDA %", "CUDA total", "CUDA time avg"]
CALLS = ["# of Calls"]


def titles(table):
    return [title for title in table.splitlines()[1].split("  ") if title.strip()]


@needs_cuda
def test_the_table_has_pytorchs_columns():
    a = tt.ones(4, 4)
    with profile(activities=CPU) as prof:
        a @ a
    table = prof.key_averages().table(sort_by="cpu_time_total")
    assert [t.strip() for t in titles(table)] == HOST + CALLS
    rows = table.splitlines()
    assert rows[3].split()[0] == "aten::matmul" and rows[4].split()[0] == "aten::mm"
    assert rows[3].split()[3] == "100.00%" and rows[-1].startswith("Self CPU time total: ")
    b = a.to("cuda")
    with profile(profile_memory=True, record_shapes=True, with_stack=True) as prof:
        b @ b
    memory = ["CPU Mem", "Self CPU Mem", "CUDA Mem", "Self CUDA Mem"]
    table = prof.key_averages(group_by_input_shape=True, group_by_stack_n=1).table()
    expected = HOST + DEVICE + memory + CALLS + ["Input Shapes", "Source Location"]
    assert [t.strip() for t in titles(table)] == expected
    assert "512 B" in table and "[[4, 4], [4, 4]]" in table and "Self CUDA time total: " in table


def test_tables_are_sorted_cut_and_headed():
    a = tt.ones(2)
    with profile(activities=CPU) as prof:
        for _ in range(3):
            a.exp()
        a.neg()
        a @ a
    averages = prof.key_averages()
    assert averages.table(sort_by="count", row_limit=1).splitlines()[3].split()[0] == "aten::exp"
    assert len(averages.table(row_limit=2).splitlines()) == len(averages.table(row_limit=-1).splitlines()) - (
        len(averages) - 2
    )
    assert averages.table(header="mine").splitlines()[1] == "mine"
    assert "ms" in averages.table(time_unit="ms") and "us" not in averages.table(time_unit="ms")
    top = prof.events().table(top_level_events_only=True)
    assert "aten::matmul" in top and "aten::dot" not in top.replace("aten::matmul", "")
    assert averages.table(max_name_column_width=12).splitlines()[3].split()[0].endswith("...")
    with pytest.raises(AttributeError, match=r"sort_by: expected one of .* got 'nonsense'"):
        averages.table(sort_by="nonsense")
    with pytest.raises(ValueError, match="time_unit"):
        averages.table(time_unit="h")
    with profile(activities=CPU) as empty:
        pass
    assert empty.key_averages().table() == ""


# --- refusals


def test_bad_arguments_are_refused():
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[])
    with pytest.raises(ValueError, match="activities: expected ProfilerActivity, got 'cpu'"):
        profile(activities=["cpu"])
    for name in ("with_flops", "with_modules"):
        with pytest.raises(NotImplementedError, match=f"{name}=True is not supported"):
            profile(**{name: True})
    for name in ("schedule", "on_trace_ready"):
        with pytest.raises(TypeError, match=f"{name}: expected a callable or None, got int"):
            profile(**{name: 3})
    unused = profile()
    for ask in (
        unused.events,
        unused.key_averages,
        unused.total_average,
        lambda: unused.export_chrome_trace("x"),
    ):
        with pytest.raises(AssertionError, match="Profiler must be initialized before"):
            ask()
    assert ProfilerActivity.CPU in supported_activities()


# --- files


@needs_cuda
def test_the_trace_is_what_perfetto_reads(tmp_path):
    w = tt.ones(8, 8, device="cuda").requires_grad_()
    host = tt.ones(8, 8)
    with profile(profile_memory=True, record_shapes=True) as prof, record_function("step", "first"):
        (w @ w).sum().backward()
        host + host
    prof.add_metadata("who", "me")
    prof.add_metadata_json("sizes", "[1, 2]")
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    trace = json.loads(path.read_text())
    assert (trace["who"], trace["sizes"], trace["record_shapes"], trace["with_stack"]) == ("me", [1, 2], 1, 0)
    events = trace["traceEvents"]
    by_phase = {phase: [e for e in events if e["ph"] == phase] for phase in "XMsfiC"}
    assert sum(map(len, by_phase.values())) == len(events) and all(by_phase.values())
    for event in events:
        assert isinstance(event["name"], str) and isinstance(event["pid"], int)
        assert isinstance(event["tid"], int) and event["ts"] >= 0
    for event in by_phase["X"]:
        assert event["dur"] >= 0 and isinstance(event["args"], dict)
    assert {e["cat"] for e in by_phase["X"]} == {"cpu_op", "user_annotation", "cuda_runtime", "kernel"}
    # Events of one thread of the host nest: an event that begins within another ends within it.
    stack = []
    host_events = [e for e in by_phase["X"] if e["cat"] != "kernel"]
    for event in sorted(host_events, key=lambda e: (e["ts"], -e["dur"])):
        while stack and event["ts"] >= stack[-1]:
            stack.pop()
        assert not stack or event["ts"] + event["dur"] <= stack[-1] + 1e-3
        stack.append(event["ts"] + event["dur"])
    # Each flow leads from a launch to the kernel of the same number.
    launches = {(e["tid"], e["ts"]) for e in by_phase["X"] if e["cat"] == "cuda_runtime"}
    kernels = {e["args"]["correlation"]: e for e in by_phase["X"] if e["cat"] == "kernel"}
    assert {e["id"] for e in by_phase["s"]} == {e["id"] for e in by_phase["f"]} == set(kernels)
    assert all((e["tid"], e["ts"]) in launches for e in by_phase["s"])
    for end in by_phase["f"]:
        kernel = kernels[end["id"]]
        assert (end["pid"], end["tid"], end["ts"], end["bp"]) == (
            kernel["pid"],
            kernel["tid"],
            kernel["ts"],
            "e",
        )
    # Memory: an instant for each change, and a counter of what is held.
    assert all(e["s"] == "t" and e["name"] == "[memory]" for e in by_phase["i"])
    held = 0
    for event in (e for e in by_phase["i"] if e["args"]["Device Id"] == -1):
        held += event["args"]["Bytes"]
        assert event["args"]["Total Allocated"] == held
    assert {e["name"] for e in by_phase["C"]} == {"memory cpu", "memory cuda:0"}
    assert {e["name"] for e in by_phase["M"]} == {"process_name", "process_labels", "thread_name"}
    mm = next(e for e in by_phase["X"] if e["name"] == "aten::mm")
    assert mm["args"]["Input Dims"] == [[8, 8], [8, 8]]
    assert mm["args"]["Kernel functions"] == ["mm_cuda<triten.float32>"]
    assert mm["args"]["Dispatch keys"] == ["AutogradCUDA", "CUDA"]
    step = next(e for e in by_phase["X"] if e["name"] == "step")
    assert step["args"]["args"] == "first"


def test_a_trace_is_compressed_where_the_name_says_so(tmp_path):
    with profile(
        activities=CPU, on_trace_ready=tt.profiler.tensorboard_trace_handler(str(tmp_path / "new"), "w", True)
    ):
        tt.ones(2)
    (file,) = (tmp_path / "new").iterdir()
    assert file.name.startswith("w.") and file.name.endswith(".pt.trace.json.gz")
    with gzip.open(file, "rt") as text:
        assert any(e["name"] == "aten::ones" for e in json.load(text)["traceEvents"])


def test_stacks_name_the_callers_and_fold(tmp_path):
    a = tt.ones(2)

    def inner():
        return a.exp()

    def outer():
        return inner()

    with profile(activities=CPU, with_stack=True) as prof:
        outer()
        with record_function("range"):
            pass
    stack = named(prof, "aten::exp").stack
    assert [entry.rpartition(" ")[2] for entry in stack[:3]] == [
        "inner",
        "outer",
        stack[2].rpartition(" ")[2],
    ]
    assert stack[0].startswith(__file__) and not any("dispatch/functional/profile" in s for s in stack)
    assert named(prof, "range").stack[0].startswith(__file__)
    path = tmp_path / "stacks"
    prof.export_stacks(path)
    lines = path.read_text().splitlines()
    (folded,) = [line for line in lines if "_inner" in line]
    assert folded.index("_outer;") < folded.index("_inner ") and folded.rpartition(" ")[2].isdigit()
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(path, "nonsense")


# --- beside other layers


def test_the_profiler_key_is_the_users_own(library):
    lib, ops = library
    calls = []
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")

    def seen(keys, x):
        calls.append("Profiler")
        return x + 10

    lib.impl("f", seen, "Profiler", with_keyset=True)
    x = tt.ones(1)
    assert ops.f(x).tolist() == [2.0]
    with IncludeDispatchKeyGuard(functionality_bit(Functionality.Profiler)):
        assert ops.f(x).tolist() == [11.0]
        with profile(activities=CPU) as prof:
            ops.f(x)
    assert calls == ["Profiler"] * 2
    assert named(prof, f"{lib.ns}::f").dispatch_keys == ["Profiler"]


def test_traces_and_recordings_work_inside(capsys):
    import io

    from triten.dispatch.structured.record_kernels import record_kernels

    a, file = tt.ones(2), io.StringIO()
    with profile(activities=CPU) as prof, tt.dispatch.show_trace(file), record_kernels() as seen:
        a.exp()
    assert "aten::exp" in file.getvalue() and seen == [("exp_cpu", tt.float32)]
    assert named(prof, "aten::exp").kernel_functions == [("exp_cpu", tt.float32)]


def test_registrations_meanwhile_are_seen(library):
    lib, ops = library
    with profile(activities=CPU) as prof:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x.exp(), "CompositeImplicitAutograd")
        ops.f(tt.ones(2))
    assert ("aten::exp", f"{lib.ns}::f") in tree(prof)


def test_importing_the_package_loads_no_profiler():
    import subprocess
    import sys

    loaded = "[m for m in sys.modules if 'functional.profiler' in m]"
    program = f"import sys, triten; print({loaded}); triten.profiler.profile"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert dir(tt.profiler) == sorted(tt.profiler.__all__)
    assert all(getattr(tt.profiler, name) is not None for name in tt.profiler.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        tt.profiler.nonsense  # noqa: B018
    # A module with `__getattr__` is looked into without CPython's cache: `tt.add` would pay for it.
    assert not hasattr(tt, "__getattr__")


def test_it_agrees_with_pytorch_on_names_counts_and_memory():
    torch = pytest.importorskip("torch")

    def run(library, **settings):
        x = library.ones(16, 16)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with (
                library.profiler.profile(
                    activities=[library.profiler.ProfilerActivity.CPU],
                    profile_memory=True,
                    record_shapes=True,
                    **settings,
                ) as prof,
                library.profiler.record_function("block"),
            ):
                y = library.matmul(x, x)
                z = library.relu(y)
                library.sum(z, 0)
        keep = {"block", "aten::matmul", "aten::mm", "aten::relu", "aten::sum"}
        return [
            (e.name, e.cpu_parent.name if e.cpu_parent else None, e.cpu_memory_usage, e.input_shapes[:1])
            for e in prof.events()
            if e.name in keep and not (e.name == "block" and e.cpu_memory_usage == 0)
        ]

    ours, theirs = run(tt), run(torch)
    assert [row[:2] for row in ours] == [row[:2] for row in theirs]
    assert [row[2:] for row in ours if row[0] != "block"] == [row[2:] for row in theirs if row[0] != "block"]
