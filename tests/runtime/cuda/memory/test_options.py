"""The options of PYTORCH_CUDA_ALLOC_CONF and what each does."""

import pytest

from triten.perf.suite.workloads.allocator import address_driver
from triten.runtime.cuda.memory import inspection
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
    ("nbytes", "rounded"), [(1200, 1536), (1024, 1024), (5 * KIB + 1, 6 * KIB), (100, 512)]
)
def test_sizes_are_rounded_to_steps_between_powers_of_two(nbytes, rounded):
    allocator = make(roundup_power2_divisions=4)
    held = allocator.allocate(nbytes, CUDA)
    found = stats(allocator)
    assert found["allocated_bytes.all.current"] == rounded
    assert found["requested_bytes.all.current"] == nbytes == held.nbytes


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
