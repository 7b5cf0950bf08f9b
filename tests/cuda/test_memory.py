"""`tt.cuda`'s memory functions, by PyTorch's names: they count what tensors hold."""

import gc
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt
from triten.runtime.allocator import get_allocator
from triten.runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR

LAST = tt.cuda.device_count() - 1


@pytest.fixture(autouse=True)
def nothing_left_over():
    gc.collect()
    tt.cuda.synchronize()
    tt.cuda.empty_cache()


def test_tensors_are_counted():
    gc.collect()  # cycles that earlier tests left must not be freed in between
    before = tt.cuda.memory_allocated()
    x = tt.zeros(1000, device="cuda")
    assert tt.cuda.memory_allocated() - before == 4096
    assert tt.cuda.memory_stats()["requested_bytes.all.current"] >= 4000
    y = x[10:]
    del x
    assert tt.cuda.memory_allocated() - before == 4096
    del y
    assert tt.cuda.memory_allocated() == before
    assert tt.cuda.max_memory_allocated() >= before + 4096
    assert tt.cuda.max_memory_reserved() >= tt.cuda.memory_reserved() >= 2**21
    tt.cuda.reset_peak_memory_stats()
    assert tt.cuda.max_memory_allocated() == before


def test_stats_flat_and_nested_agree():
    flat, nested = tt.cuda.memory_stats("cuda"), tt.cuda.memory_stats_as_nested_dict(0)
    assert flat["segment.all.peak"] == nested["segment"]["all"]["peak"]
    assert flat["num_ooms"] == nested["num_ooms"]
    tt.cuda.reset_accumulated_memory_stats()
    assert tt.cuda.memory_stats()["allocation.all.allocated"] == 0


@pytest.mark.skipif(LAST == 0, reason="one device")
def test_each_device_is_told_apart():
    before = tt.cuda.memory_allocated(0)
    x = tt.zeros(1000, device=f"cuda:{LAST}")
    assert tt.cuda.memory_allocated(0) == before
    assert tt.cuda.memory_allocated(x.device) >= 4096
    assert {segment["device"] for segment in tt.cuda.memory_snapshot()} >= {LAST}


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_other_devices_are_refused(device):
    for function in (tt.cuda.memory_allocated, tt.cuda.memory_summary, tt.cuda.mem_get_info):
        with pytest.raises(ValueError, match="Expected a cuda device"):
            function(device)


def test_a_device_that_does_not_exist_is_refused():
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        tt.cuda.memory_stats(99)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        tt.cuda.set_per_process_memory_fraction(0.5, 99)


def test_the_summary():
    assert "triten CUDA memory summary, device ID 0" in tt.cuda.memory_summary()
    assert "from large pool" not in tt.cuda.memory_summary(0, abbreviated=True)


def test_the_fraction():
    total = tt.cuda.mem_get_info()[1]
    tt.cuda.set_per_process_memory_fraction(0.25)
    try:
        assert tt.cuda.get_per_process_memory_fraction() == 0.25
        with pytest.raises(tt.cuda.OutOfMemoryError, match="allowed by the memory fraction"):
            tt.empty(total // 2, dtype=tt.uint8, device="cuda")
        assert tt.zeros(3, device="cuda").tolist() == [0.0] * 3
    finally:
        tt.cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(TypeError, match="Invalid type for fraction argument, must be `float`"):
        tt.cuda.set_per_process_memory_fraction(1)
    for fraction in (-0.1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="Invalid fraction value"):
            tt.cuda.set_per_process_memory_fraction(fraction)


def test_memory_for_other_libraries():
    before = tt.cuda.memory_allocated()
    address = tt.cuda.caching_allocator_alloc(1000)
    assert tt.cuda.memory_allocated() - before == 1024
    tt.cuda.caching_allocator_delete(address)
    assert tt.cuda.memory_allocated() == before
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        tt.cuda.caching_allocator_delete(address)
    with pytest.raises(TypeError, match="Invalid type for stream argument"):
        tt.cuda.caching_allocator_alloc(1000, 0, "stream")


def test_a_pool_of_ones_own():
    pool = tt.cuda.MemPool()
    elsewhere = []
    with tt.cuda.use_mem_pool(pool):
        assert pool.use_count() == 2
        x = tt.ones(1000, device="cuda")
        thread = threading.Thread(target=lambda: elsewhere.append(tt.ones(1000, device="cuda")))
        thread.start()
        thread.join()
        with pytest.raises(RuntimeError, match="open already"), tt.cuda.use_mem_pool(pool):
            pass
    y = tt.ones(1000, device="cuda")
    assert pool.use_count() == 1
    inside = [b["address"] for s in pool.snapshot() for b in s["blocks"] if b["state"] == "active_allocated"]
    assert inside == [x.data_ptr()]
    assert {y.data_ptr(), elsewhere[0].data_ptr()}.isdisjoint(inside)
    identity = pool.id
    del pool, x
    gc.collect()
    tt.cuda.synchronize()
    tt.cuda.empty_cache()
    assert tt.cuda.memory_snapshot(identity) == []


def test_a_pool_is_left_after_an_exception():
    pool = tt.cuda.MemPool()
    with pytest.raises(ZeroDivisionError), tt.cuda.use_mem_pool(pool):
        1 / 0  # noqa: B018
    x = tt.ones(1000, device="cuda")
    assert pool.snapshot() == [] and x.device.type == "cuda"


def test_history_and_snapshot(tmp_path):
    tt.cuda.memory._record_memory_history(max_entries=50)
    try:
        x = tt.ones(1000, device="cuda")
        tt.cuda.memory._dump_snapshot(tmp_path / "memory.pickle")
    finally:
        tt.cuda.memory._record_memory_history(None)
    snapshot = pickle.loads((tmp_path / "memory.pickle").read_bytes())
    entry = next(e for e in reversed(snapshot["device_traces"][0]) if e["action"] == "alloc")
    assert entry["addr"] == x.data_ptr()
    assert any(frame["filename"] == __file__ for frame in entry["frames"])
    inside = str(Path(tt.__file__).parent / "runtime" / "cuda")
    assert not any(frame["filename"].startswith(inside) for frame in entry["frames"])
    with pytest.raises(RuntimeError, match="are not recorded"):
        tt.cuda.memory._record_memory_history(compile_context=True)


def test_pytorchs_own_viewer_reads_a_snapshot():
    viewer = pytest.importorskip("torch.cuda._memory_viz", reason="PyTorch is not installed")
    tt.cuda.memory._record_memory_history()
    try:
        x = tt.ones(1000, device="cuda")
        y = tt.ones(3 * 2**20, device="cuda")
        del y
        snapshot = tt.cuda.memory._snapshot()
    finally:
        tt.cuda.memory._record_memory_history(None)
    assert "alloc(" in viewer.trace(snapshot)
    assert "segments:" in viewer.segsum(snapshot)
    assert "memory_viz" in viewer.trace_plot(snapshot) or "<script" in viewer.trace_plot(snapshot)
    assert x.data_ptr()


def test_another_allocator_can_only_be_set_before_the_first_use():
    tt.zeros(1, device="cuda")
    assert tt.cuda.get_allocator_backend() == "native"
    with pytest.raises(RuntimeError, match="Can't swap an already initialized allocator"):
        tt.cuda.memory.change_current_allocator(tt.library.Allocator)
    assert get_allocator("cuda") is CUDA_ALLOCATOR


def run(program: str) -> subprocess.CompletedProcess[str]:
    if "STANDIN_EXECUTE" in os.environ:
        pytest.skip("a program that a test starts has no stand-in for the driver")
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )


def test_before_the_first_use_there_is_nothing_to_tell_and_another_allocator_may_be_set():
    done = run("""
        import triten as tt
        print(tt.cuda.memory_stats(), tt.cuda.memory_allocated(), tt.cuda.memory_snapshot())
        tt.cuda.empty_cache()
        from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
        class Mine(CachingAllocator):
            def allocate(self, nbytes, device):
                print("asked for", nbytes)
                return super().allocate(nbytes, device)
        tt.cuda.memory.change_current_allocator(Mine())
        tt.zeros(5, device="cuda")
    """)
    assert done.stdout.splitlines() == ["{} 0 []", "asked for 20"], done.stderr


def test_a_program_may_end_with_memory_in_use():
    done = run("""
        import gc, triten as tt
        kept = [tt.ones(1000, device="cuda")]
        kept.append(kept)
        pool = tt.cuda.MemPool()
        gc.disable()
    """)
    assert done.stderr == "" and done.stdout == ""


def test_every_memory_function_is_in_tt_cuda():
    names = set(tt.cuda.memory.__all__)
    assert "memory_allocated" in names and names <= set(tt.cuda.__all__)


def test_a_snapshot_agrees_with_the_statistics():
    held = tt.ones(100, device="cuda"), tt.ones(3 * 2**20, dtype=tt.uint8, device="cuda")
    index = tt.cuda.current_device()
    segments = [segment for segment in tt.cuda.memory_snapshot() if segment["device"] == index]
    assert sum(segment["total_size"] for segment in segments) == tt.cuda.memory_reserved()
    assert sum(segment["allocated_size"] for segment in segments) == tt.cuda.memory_allocated()
    for segment in segments:
        live = [block["size"] for block in segment["blocks"] if block["state"] == "active_allocated"]
        assert sum(live) == segment["allocated_size"]
    assert held


@pytest.mark.parametrize("make", [lambda: tt.empty(0, device="cuda:63"), lambda: tt.zeros(0).to("cuda:63")])
def test_an_empty_tensor_needs_its_device_too(make):
    with pytest.raises(RuntimeError, match="invalid device ordinal: got 63"):
        make()
