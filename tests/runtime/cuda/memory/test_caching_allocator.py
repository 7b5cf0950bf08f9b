"""The caching allocator's algorithm: alignment, reuse in stream order, statistics, out-of-memory."""

import gc
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.interpreter.driver import InterpreterDriver
from triten.runtime.cuda.memory.block import GRANULARITY
from triten.runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR, CachingAllocator
from triten.runtime.cuda.memory.inspection import device_stats, nested_stats, reset_peaks
from triten.runtime.cuda.simulated.memory import DeviceMemory
from triten.runtime.device import device as Device
from triten.runtime.errors import OutOfMemoryError
from triten.tests.shared.threads import join


def stat(allocator, metric, kind="current", device=0):
    return nested_stats(allocator, device)[metric]["all"][kind]


def allocated(allocator, device=0):
    return stat(allocator, "allocated_bytes", device=device)


def reserved(allocator, device=0):
    return stat(allocator, "reserved_bytes", device=device)


CUDA = Device("cuda", 0)
SECOND = Device("cuda", 1)


@pytest.fixture
def allocator():
    allocator = CachingAllocator()
    yield allocator
    gc.collect()
    driver().synchronize(0)
    allocator.empty_cache()
    assert reserved(allocator) == 0, "a test left memory behind"


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 3 * 2**20), st.booleans()), max_size=40))
def test_live_blocks_never_overlap(requests):
    allocator = CachingAllocator()
    live = []
    for nbytes, keep in requests:
        pointer = allocator.allocate(nbytes, CUDA)
        assert pointer.address % GRANULARITY == 0
        for other in live:
            assert (
                pointer.address + nbytes <= other.address or other.address + other.nbytes <= pointer.address
            )
        if keep:
            live.append(pointer)
        del pointer
    other = None
    assert (
        stat(allocator, "requested_bytes") == sum(pointer.nbytes for pointer in live) <= allocated(allocator)
    )
    live.clear()
    assert allocated(allocator) == 0
    allocator.empty_cache()
    assert reserved(allocator) == 0


@pytest.mark.parametrize("nbytes", [1, GRANULARITY, 4096, 5000, 2**20, 2**20 + 1, 5 * 2**20])
def test_a_block_is_reused_on_its_stream(allocator, nbytes):
    first = allocator.allocate(nbytes, CUDA)
    address = first.address
    assert first.nbytes == nbytes
    assert first.device is CUDA
    del first
    assert allocator.allocate(nbytes, CUDA).address == address
    stats = nested_stats(allocator, 0)
    assert (stats["num_hits"], stats["num_device_alloc"]) == (1, 1)
    assert stats["allocation"]["all"] == {"current": 0, "peak": 1, "allocated": 2, "freed": 2}


def test_a_block_is_not_reused_on_another_stream(allocator):
    cuda = driver()
    address = allocator.allocate(1024, CUDA).address
    stream = cuda.create_stream(0)
    cuda.set_stream(0, stream)
    try:
        other = allocator.allocate(1024, CUDA)
        assert other.address != address
        del other
    finally:
        cuda.set_stream(0, 0)
    assert allocator.allocate(1024, CUDA).address == address


def test_a_block_that_another_stream_uses_is_kept_until_that_work_is_done(allocator):
    cuda = driver()
    stream = cuda.create_stream(0)
    pointer = allocator.allocate(1024, CUDA)
    cuda.synchronize_stream(0)
    cuda.memset(pointer.address, 0, 1024, stream)
    allocator.record_stream(pointer, stream)
    address = pointer.address
    del pointer
    first = allocator.allocate(1024, CUDA)
    cuda.synchronize_stream(stream)
    second = allocator.allocate(1024, CUDA)
    assert address in (first.address, second.address)
    assert first.address != second.address


@pytest.mark.interpreter
def test_pending_work_on_another_stream_delays_reuse(allocator):
    cuda = driver()
    stream = cuda.create_stream(0)
    pointer = allocator.allocate(1024, CUDA)
    cuda.synchronize_stream(0)
    for _ in range(20):
        cuda.memset(pointer.address, 0, 1024, stream)
    allocator.record_stream(pointer, stream)
    address = pointer.address
    del pointer
    assert allocator.allocate(1024, CUDA).address != address


@pytest.mark.interpreter
def test_without_record_stream_the_use_is_found(allocator):
    cuda = driver()
    stream = cuda.create_stream(0)
    pointer = allocator.allocate(1024, CUDA)
    cuda.synchronize_stream(0)
    cuda.memset(pointer.address, 0, 1024, stream)
    del pointer
    cuda.synchronize_stream(0)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cuda.synchronize_stream(stream)


def test_nothing_is_allocated_for_zero_bytes(allocator):
    pointer = allocator.allocate(0, CUDA)
    assert (pointer.address, pointer.nbytes, pointer.device) == (0, 0, CUDA)
    with pytest.raises(RuntimeError, match="negative"):
        allocator.allocate(-1, CUDA)


def test_a_device_without_index_is_the_current_one(allocator):
    assert allocator.allocate(16, Device("cuda")).device is CUDA


def test_a_view_keeps_the_block(allocator):
    pointer = allocator.allocate(1024, CUDA)
    view = pointer.offset_by(GRANULARITY)
    address = pointer.address
    del pointer
    assert allocated(allocator) == 1024
    assert allocator.allocate(1024, CUDA).address != address
    del view
    assert allocated(allocator) == 0


def test_a_clone_holds_the_bytes(allocator):
    cuda = driver()
    host = np.arange(100, dtype=np.int32)
    pointer = allocator.allocate(400, CUDA)
    cuda.copy_host_to_device(pointer.address, host, 0)
    copy = allocator.clone(pointer, 400)
    result = np.empty_like(host)
    cuda.copy_device_to_host(result, copy.address, 0)
    np.testing.assert_array_equal(result, host)
    assert copy.address != pointer.address


def test_statistics_follow_what_is_held(allocator):
    held = [allocator.allocate(1000, CUDA) for _ in range(4)]
    del held[2:]
    assert (allocated(allocator), stat(allocator, "allocated_bytes", "peak")) == (2048, 4096)
    assert reserved(allocator) == stat(allocator, "reserved_bytes", "peak") == 2 * 2**20
    reset_peaks(allocator, 0)
    assert stat(allocator, "allocated_bytes", "peak") == 2048


def test_emptying_the_cache_keeps_what_is_in_use(allocator):
    held = allocator.allocate(3 * 2**20, CUDA)
    allocator.allocate(32 * 2**20, CUDA)
    allocator.allocate(100, CUDA)
    before = reserved(allocator)
    allocator.empty_cache()
    assert held.nbytes <= reserved(allocator) == before - 34 * 2**20


def test_more_than_the_device_has_is_an_out_of_memory_error(allocator):
    free, total = driver().memory_info(0)
    allocator.allocate(2**20, CUDA)
    with pytest.raises(OutOfMemoryError, match=r"CUDA out of memory. Tried to allocate .* GiB. GPU 0 has"):
        allocator.allocate(2 * total, CUDA)
    stats = device_stats(allocator, 0)
    assert (stats.num_alloc_retries, stats.num_ooms, reserved(allocator)) == (1, 1, 0)
    assert driver().memory_info(0)[0] >= free


def test_a_full_cache_is_emptied_before_giving_up():
    cuda = InterpreterDriver(1)
    cuda._memories = [DeviceMemory(64 * 2**20)]
    allocator = CachingAllocator(cuda)
    allocator.allocate(30 * 2**20, CUDA)
    held = allocator.allocate(50 * 2**20, CUDA)
    assert device_stats(allocator, 0).num_alloc_retries == 1 and held.nbytes == 50 * 2**20
    with pytest.raises(OutOfMemoryError, match=r"Largest live blocks: 50.00 MiB\."):
        allocator.allocate(30 * 2**20, CUDA)
    assert allocator.allocate(2**20, CUDA).address


@pytest.mark.interpreter
def test_each_device_has_its_own_memory(allocator):
    first, second = allocator.allocate(100, CUDA), allocator.allocate(100, SECOND)
    assert second.device is SECOND
    assert allocated(allocator, 1) == allocated(allocator) == GRANULARITY
    assert first.address != second.address


@pytest.mark.interpreter
@pytest.mark.parametrize("nbytes", [GRANULARITY, 700, 2 * GRANULARITY])
def test_an_overrun_by_one_byte_is_found_in_blocks_that_were_split(allocator, nbytes):
    cuda = driver()
    allocator.allocate(64 * 2**10, CUDA)
    pointers = [allocator.allocate(nbytes, CUDA) for _ in range(2)]
    assert abs(pointers[1].address - pointers[0].address) <= 4 * GRANULARITY, "neighbours"
    cuda.memset(min(pointer.address for pointer in pointers), 0, nbytes + 1, 0)
    with pytest.raises(RuntimeError, match="illegal memory access"):
        cuda.synchronize()


def test_record_stream_wants_memory_of_this_allocator(allocator):
    with pytest.raises(RuntimeError, match="not allocated by the caching allocator"):
        allocator.record_stream(allocator.allocate(0, CUDA), 0)


def test_freeing_takes_no_lock(allocator):
    pointer = allocator.allocate(GRANULARITY, CUDA)
    box = [pointer]
    del pointer
    with allocator._lock:
        thread = threading.Thread(target=box.clear)
        thread.start()
        join(thread)


def test_the_process_has_one_allocator():
    assert isinstance(CUDA_ALLOCATOR, CachingAllocator)
    assert CUDA_ALLOCATOR.raw_deleter() == CUDA_ALLOCATOR._give_back
