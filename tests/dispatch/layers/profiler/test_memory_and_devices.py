"""Memory and work of devices belong to the operators that caused them."""

import gc
from importlib.util import find_spec

import pytest

import triten as tt
from triten.profiler import (
    DeviceType,
    ProfilerActivity,
    profile,
    record_function,
)
from triten.runtime.allocator import Allocator, HostAllocator, get_allocator, set_allocator
from triten.runtime.cuda.driver import driver
from triten.runtime.data_ptr import DataPtr
from triten.tests.shared.threads import in_thread

CPU = [ProfilerActivity.CPU]

needs_cuda = pytest.mark.skipif(find_spec("triton") is None, reason="triton has no wheel for this platform")


def test_memory_is_attributed_to_operators(device, named, own_pool):
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


def test_large_and_scalar_results_proxies_and_resizes_are_counted(named):
    a = tt.ones(128, 256)
    with profile(activities=CPU, profile_memory=True) as prof:
        big = a + a
        total = a.sum()
        out = tt.empty(0)
        tt.add(a, a, out=out)
    taken = [e.self_cpu_memory_usage for e in prof.events() if e.name in ("aten::add", "aten::sum")]
    assert taken[:2] == [4 * 128 * 256, 4] and named(prof, "aten::resize_").cpu_memory_usage == 4 * 128 * 256
    assert big.data_ptr() % 64 == 0 and float(total) == 32768.0


def test_memory_given_back_outside_every_call_is_an_event_of_its_own(tree):
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
        in_thread(held.clear, "worker")
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


@needs_cuda
def test_device_times_belong_to_the_operators_that_launched(named):
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
def test_factories_on_the_current_device_are_seen(tree):
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
