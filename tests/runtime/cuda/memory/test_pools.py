"""Private pools, events and raw addresses."""

import gc

import pytest

from triten.runtime.cuda.memory import inspection
from triten.runtime.cuda.memory.block import GRANULARITY
from triten.runtime.device import device as Device
from triten.tests.runtime.cuda.memory.allocation import stats

CUDA = Device("cuda", 0)


def test_a_private_pool_is_apart_until_it_is_released(allocator):
    common = allocator.allocate(GRANULARITY, CUDA)
    common_address = common.address
    del common
    allocator.begin_allocate_to_pool(0, (0, 5), lambda stream: stream == 0)
    private = allocator.allocate(GRANULARITY, CUDA)
    other = allocator.allocate(GRANULARITY, CUDA, 9)
    assert private.address != common_address
    owners = {s["address"]: s["segment_pool_id"] for s in inspection.snapshot_segments(allocator)}
    assert owners[private.address] == (0, 5) and owners[other.address] == (0, 0)
    address = private.address
    del private
    assert allocator.allocate(GRANULARITY, CUDA).address == address, "the pool reuses its own"
    allocator.end_allocate_to_pool(0, (0, 5))
    assert allocator.allocate(GRANULARITY, CUDA).address == common_address
    del other
    allocator.empty_cache()
    assert [s["segment_pool_id"] for s in inspection.snapshot_segments(allocator)] == [(0, 5)]
    allocator.release_pool(0, (0, 5))
    allocator.empty_cache()
    assert inspection.snapshot_segments(allocator) == []
    assert allocator.pool_uses(0, (0, 5)) == 0


def test_a_pool_of_several_users(allocator):
    for _ in range(2):
        allocator.begin_allocate_to_pool(0, (3, 0), lambda stream: True)
        allocator.allocate(GRANULARITY, CUDA)
        allocator.end_allocate_to_pool(0, (3, 0))
    allocator.release_pool(0, (3, 0))
    allocator.empty_cache()
    assert stats(allocator)["segment.all.current"] == 1, "one user is left"
    allocator.release_pool_later(0, (3, 0))
    allocator.empty_cache()
    assert stats(allocator)["segment.all.current"] == 0


def test_memory_of_a_released_pool_lives_as_long_as_it_is_held(allocator):
    allocator.begin_allocate_to_pool(0, (3, 0), lambda stream: True)
    held = allocator.allocate(GRANULARITY, CUDA)
    allocator.end_allocate_to_pool(0, (3, 0))
    allocator.release_pool(0, (3, 0))
    allocator.empty_cache()
    assert stats(allocator)["segment.all.current"] == 1
    del held
    allocator.empty_cache()
    assert stats(allocator)["segment.all.current"] == 0


def test_misuse_of_pools_is_refused(allocator):
    for pool in [(0, 0), (1, 2, 3), (1.0, 2), ()]:
        with pytest.raises(RuntimeError, match="id of a private pool"):
            allocator.begin_allocate_to_pool(0, pool, lambda stream: True)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        allocator.begin_allocate_to_pool(5, (0, 1), lambda stream: True)
    with pytest.raises(RuntimeError, match="not open"):
        allocator.end_allocate_to_pool(0, (0, 1))
    with pytest.raises(RuntimeError, match="no pool"):
        allocator.release_pool(0, (0, 1))
    allocator.begin_allocate_to_pool(0, (0, 1), lambda stream: True)
    with pytest.raises(RuntimeError, match="open already"):
        allocator.begin_allocate_to_pool(0, (0, 1), lambda stream: True)
    with pytest.raises(RuntimeError, match="is open"):
        allocator.release_pool(0, (0, 1))
    allocator.end_allocate_to_pool(0, (0, 1))
    assert allocator.allocate(GRANULARITY, CUDA).address


def test_no_event_is_touched_while_a_pool_is_open(allocator, monkeypatch):
    data = allocator.allocate(GRANULARITY, CUDA)
    allocator.record_stream(data, 4)
    address = data.address

    def fail(*_):
        raise AssertionError("an event")

    allocator.begin_allocate_to_pool(0, (0, 1), lambda stream: False)
    for name in ("create_event", "record_event", "query_event", "synchronize_event", "free"):
        monkeypatch.setattr(allocator.driver, name, fail)
    del data
    kept = allocator.allocate(GRANULARITY, CUDA)
    allocator.empty_cache()
    assert kept.address != address
    monkeypatch.undo()
    allocator.end_allocate_to_pool(0, (0, 1))
    del kept
    taken = [allocator.allocate(GRANULARITY, CUDA) for _ in range(2)]
    assert address in [data.address for data in taken]


def test_events_are_reused(allocator, monkeypatch):
    made = []
    create = allocator.driver.create_event
    monkeypatch.setattr(allocator.driver, "create_event", lambda *a, **k: made.append(create()) or made[-1])
    for _ in range(10):
        data = allocator.allocate(GRANULARITY, CUDA)
        for stream in (1, 2, 2, 0):
            allocator.record_stream(data, stream)
        del data
    allocator.empty_cache()
    assert len(made) <= 4


def test_events_are_recorded_with_the_next_request_even_if_a_block_waits_for_it(allocator, monkeypatch):
    data = allocator.allocate(GRANULARITY, CUDA)
    allocator.allocate(4096, CUDA)
    allocator.record_stream(data, 4)
    recorded = []
    monkeypatch.setattr(allocator.driver, "record_event", lambda event, stream: recorded.append(stream))
    del data
    assert recorded == [], "a free may run inside garbage collection"
    allocator.allocate(4096, CUDA)
    assert recorded == [4]


def test_a_stream_that_is_no_more_costs_one_error(allocator, monkeypatch):
    data, kept = allocator.allocate(GRANULARITY, CUDA), allocator.allocate(700, CUDA)
    allocator.record_stream(data, 4)
    address = data.address
    del data

    def destroyed(event, stream):
        raise RuntimeError("CUDA error: invalid resource handle")

    waited = []
    monkeypatch.setattr(allocator.driver, "record_event", destroyed)
    monkeypatch.setattr(allocator.driver, "synchronize", waited.append, raising=False)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        allocator.allocate(GRANULARITY, CUDA)
    others = [allocator.allocate(GRANULARITY, CUDA) for _ in range(5)]
    assert address not in [other.address for other in others], "nobody knows whether its work is done"
    assert stats(allocator)["active.all.current"] == 7
    allocator.empty_cache()
    assert waited == [0] and stats(allocator)["active.all.current"] == 6
    assert kept.nbytes == 700


def test_raw_addresses(allocator):
    address = allocator.raw_allocate(1000, CUDA, 6)
    assert inspection.snapshot_segments(allocator)[0]["stream"] == 6
    gc.collect()
    assert stats(allocator)["allocation.all.current"] == 1
    allocator.raw_delete(address)
    assert stats(allocator)["allocation.all.current"] == 0
    with pytest.raises(RuntimeError, match="invalid device pointer"):
        allocator.raw_delete(address)
    assert allocator.raw_allocate(0, CUDA, 0) == 0
    allocator.raw_delete(0)
