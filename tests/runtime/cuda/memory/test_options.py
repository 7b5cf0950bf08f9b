"""The options of PYTORCH_CUDA_ALLOC_CONF and what each does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triten.perf.suite.workloads.allocator import address_driver
from triten.runtime.cuda.memory import inspection
from triten.runtime.cuda.memory.block import GRANULARITY, block_size
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.cuda.memory.options import AllocatorOptions, parse_options
from triten.runtime.device import device as Device
from triten.tests.runtime.cuda.memory.allocation import blocks, make, stats

CUDA = Device("cuda", 0)

KIB, MIB = 2**10, 2**20


def test_blocks_beyond_max_split_size_stay_whole():
    allocator = make(max_split_size=25 * MIB)
    allocator.allocate(30 * MIB, CUDA)
    small = allocator.allocate(15 * MIB, CUDA)
    assert stats(allocator)["num_device_alloc"] == 2, "an oversize block serves no small request"
    near = allocator.allocate(26 * MIB, CUDA)
    assert stats(allocator)["num_device_alloc"] == 2, "but one that is not much smaller"
    assert blocks(allocator)[0] == (30 * MIB, True)
    del near
    allocator.allocate(60 * MIB, CUDA)
    far = allocator.allocate(35 * MIB, CUDA)
    assert stats(allocator)["num_device_alloc"] == 4
    assert stats(allocator)["max_split_size"] == 25 * MIB and small.nbytes + far.nbytes


@pytest.mark.parametrize(
    ("free", "asked", "is_served"),
    [
        (22, 21, True),
        (24, 22, False),  # the free block is as large as the limit: it stays whole
        (30, 22, False),
        (24, 24, True),
        (42, 24, True),
        (44, 24, False),  # 20 MiB would be wasted
        (46, 24, False),
    ],
)
def test_a_block_of_max_split_size_serves_requests_of_nearly_its_size(free, asked, is_served):
    allocator = make(max_split_size=24 * MIB)
    allocator.allocate(free * MIB, CUDA)
    held = allocator.allocate(asked * MIB, CUDA)
    assert stats(allocator)["num_device_alloc"] == 2 - is_served and held.nbytes


@pytest.mark.parametrize(
    ("nbytes", "rounded"),
    [
        (1200, block_size(1280)),
        (4 * KIB, 4 * KIB),
        (10 * KIB + 1, 12 * KIB),
        (100, GRANULARITY),
    ],
)
def test_sizes_are_rounded_to_steps_between_powers_of_two(nbytes, rounded):
    allocator = make(roundup_power2_divisions=4)
    held = allocator.allocate(nbytes, CUDA)
    found = stats(allocator)
    assert found["allocated_bytes.all.current"] == rounded
    assert found["requested_bytes.all.current"] == nbytes == held.nbytes


class CountingLock:
    """Lock that counts how often a request takes it."""

    def __init__(self, lock):
        self.acquire, self.release = lock.acquire, lock.release
        self.count = 0

    def __enter__(self):
        self.count += 1
        return self.acquire()

    def __exit__(self, *error):
        self.release()


@pytest.mark.parametrize("divisions", [1, 2, 4, 16])
def test_rounded_sizes_take_no_lock_once_they_have_blocks(divisions):
    allocator = make(roundup_power2_divisions=divisions)
    sizes = [100, 1200, 3 * KIB + 1, 9 * KIB + 1, 17 * KIB, 100 * KIB + 1, 33 * MIB + 1]
    for nbytes in sizes:
        allocator.allocate(nbytes, CUDA)
    lock = allocator._lock = CountingLock(allocator._lock)
    for nbytes in sizes:
        address = None
        for _ in range(3):
            held = allocator.allocate(nbytes, CUDA)
            assert address in (None, held.address)
            address, held = held.address, None
    assert lock.count == 0
    found = stats(allocator)
    rounded = [block_size(allocator.options.round(nbytes)) for nbytes in sizes]
    assert found["allocated_bytes.all.allocated"] == 4 * sum(rounded)


def test_the_rest_of_a_split_block_serves_no_request_below_a_rounded_size():
    allocator = make(roundup_power2_divisions=1)
    wall = [
        allocator.allocate(8 * KIB, CUDA),
        allocator.allocate(2 * KIB, CUDA),
        allocator.allocate(KIB, CUDA),
    ]
    del wall[0]
    wall.append(allocator.allocate(4 * KIB, CUDA))
    wall[-1] = None  # 4 KiB and another 4 KiB are free, beside the end of the segment
    held = allocator.allocate(3 * KIB, CUDA)
    assert stats(allocator)["allocated_bytes.all.current"] == (4 + 2 + 1) * KIB and held.nbytes == 3 * KIB


@given(st.integers(1, 2**34), st.integers(0, 12))
def test_requests_of_one_block_size_are_rounded_alike(nbytes, exponent):
    options = AllocatorOptions(roundup_power2_divisions=1 << exponent)
    assert block_size(options.round(nbytes)) == block_size(options.round(block_size(nbytes)))
    rounded = block_size(options.round(nbytes))
    assert rounded >= nbytes and block_size(options.round(rounded)) == rounded


def test_more_waste_than_an_event_holds_is_counted():
    allocator = make(roundup_power2_divisions=1)
    nbytes = 2**30 + 2**20
    for _ in range(2):
        held = allocator.allocate(nbytes, CUDA)
        found = stats(allocator)
        assert found["requested_bytes.large_pool.current"] == held.nbytes == nbytes
        assert found["allocated_bytes.all.current"] == 2**31
        assert inspection.snapshot_segments(allocator)[0]["requested_size"] == nbytes
        del held
        assert stats(allocator)["requested_bytes.all.current"] == 0


def test_segments_that_lie_unused_are_given_back_beyond_the_threshold():
    allocator = make(garbage_collection_threshold=0.5)
    inspection.set_fraction(allocator, 0, 1 / 1024)  # 80 MiB
    allocator.allocate(12 * MIB, CUDA)
    busy = [allocator.allocate(24 * MIB, CUDA)]
    assert stats(allocator)["num_device_free"] == 0, "the first 12 MiB are below the threshold"
    busy.append(allocator.allocate(14 * MIB, CUDA))
    assert stats(allocator)["num_device_free"] == 0, "so are 36"
    busy.append(allocator.allocate(16 * MIB, CUDA))
    assert stats(allocator)["num_device_free"] == 1, "50 are not"
    assert [s["total_size"] // MIB for s in inspection.snapshot_segments(allocator)] == [24, 14, 16]
    busy.append(allocator.allocate(20 * MIB, CUDA))
    found = stats(allocator)
    assert (found["num_alloc_retries"], found["num_device_free"]) == (0, 1), "live segments stay"


def test_of_idle_segments_the_ones_unused_longest_go_first():
    allocator = make(garbage_collection_threshold=0.5)
    inspection.set_fraction(allocator, 0, 1 / 1024)
    busy, used, idle = (allocator.allocate(size * MIB, CUDA) for size in (14, 12, 16))
    del used, idle
    for size in (18, 20):
        # Each request is short of memory; the 12 MiB are used in between, the 16 never again.
        allocator.allocate(12 * MIB, CUDA)
        allocator.allocate(size * MIB, CUDA)
    left = [s["total_size"] // MIB for s in inspection.snapshot_segments(allocator)]
    assert 16 not in left and 14 in left and 12 in left
    assert busy.nbytes == 14 * MIB


def test_options_are_parsed():
    text = " max_split_size_mb:128, garbage_collection_threshold : 0.8 ,roundup_power2_divisions:8,"
    assert parse_options(text) == AllocatorOptions(128 * MIB, 0.8, 8)
    assert parse_options("") == AllocatorOptions()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("expandable_segments:True", "unknown option 'expandable_segments'"),
        ("max_split_size_mb", "expected 'name:value'"),
        ("max_split_size_mb:", "expected 'name:value'"),
        ("max_split_size_mb:20", "above 20"),
        ("max_split_size_mb:many", "got 'many'"),
        ("garbage_collection_threshold:1.5", r"\(0, 1\)"),
        ("garbage_collection_threshold:nan", r"\(0, 1\)"),
        ("roundup_power2_divisions:3", "power of two"),
        ("max_split_size_mb:30,max_split_size_mb:40", "twice"),
    ],
)
def test_other_options_are_refused(text, match, monkeypatch):
    with pytest.raises(ValueError, match=match):
        parse_options(text)
    monkeypatch.setenv("TRITEN_CUDA_ALLOC_CONF", text)
    with pytest.raises(ValueError, match="TRITEN_CUDA_ALLOC_CONF"):
        CachingAllocator(address_driver())
