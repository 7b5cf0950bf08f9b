"""Counts, summaries, snapshots and the history of events."""

import pickle
import sys

import pytest

from triten.runtime.cuda.memory import inspection
from triten.runtime.cuda.memory.block import GRANULARITY, block_size
from triten.runtime.cuda.memory.report import summary_table
from triten.runtime.device import device as Device
from triten.runtime.errors import OutOfMemoryError
from triten.tests.runtime.cuda.memory.allocation import stats

CUDA = Device("cuda", 0)

KIB, MIB = 2**10, 2**20


def test_peaks_and_sums_start_afresh(allocator):
    held = [allocator.allocate(1000, CUDA) for _ in range(3)]
    del held[1:]
    before = stats(allocator)
    assert (before["allocation.all.peak"], before["allocated_bytes.small_pool.peak"]) == (
        3,
        3 * block_size(1000),
    )
    inspection.reset_peaks(allocator, 0)
    inspection.reset_accumulated(allocator, 0)
    after = stats(allocator)
    assert (after["allocation.all.peak"], after["requested_bytes.all.peak"]) == (1, 1000)
    assert after["reserved_bytes.all.peak"] == 2 * MIB
    for key, value in after.items():
        if key.endswith((".allocated", ".freed")) or key.startswith("num_"):
            assert value == 0, key
    del held
    assert stats(allocator)["allocation.all.freed"] == 1


def test_peaks_within_one_count_of_the_log_are_seen(allocator):
    for _ in range(3):
        held = [allocator.allocate(4 * MIB, CUDA), allocator.allocate(100, CUDA)]
        held.clear()
    found = stats(allocator)
    assert found["allocation.all.peak"] == 2 and found["allocation.large_pool.peak"] == 1
    assert found["allocated_bytes.all.peak"] == 4 * MIB + GRANULARITY
    assert found["inactive_split.large_pool.peak"] == 2, "the block and the rest"


def test_the_log_is_counted_before_it_grows_long(allocator):
    for _ in range(20_000):
        allocator.allocate(1000, CUDA)
    assert len(allocator.cache(0).stats.events.log) < 5000
    found = stats(allocator)
    assert (found["allocation.all.allocated"], found["allocation.all.peak"], found["num_hits"]) == (
        20_000,
        1,
        19_999,
    )


def test_statistics_have_pytorchs_keys(allocator):
    allocator.allocate(1, CUDA)
    metrics = ("allocated_bytes", "reserved_bytes", "active_bytes", "inactive_split_bytes", "requested_bytes")
    metrics += ("allocation", "segment", "active", "inactive_split")
    expected = {
        f"{metric}.{pool}.{kind}"
        for metric in metrics
        for pool in ("all", "small_pool", "large_pool")
        for kind in ("current", "peak", "allocated", "freed")
    }
    expected |= {
        "num_alloc_retries",
        "num_ooms",
        "num_sync_all_streams",
        "num_device_alloc",
        "num_device_free",
    }
    expected |= {"max_split_size", "num_hits", "hit_rate"}
    assert set(stats(allocator)) == expected
    assert list(stats(allocator)) == sorted(expected)


@pytest.mark.parametrize("abbreviated", [False, True])
def test_the_summary_is_a_table(allocator, abbreviated):
    held = allocator.allocate(3 * MIB, CUDA)
    lines = summary_table(stats(allocator), 0, abbreviated).splitlines()
    assert {len(line) for line in lines} == {77}
    assert "device ID 0" in lines[1]
    row = next(line for line in lines if "Allocated memory" in line)
    assert row.split("|")[2].split() == ["3072", "KiB"]
    assert any("from large pool" in line for line in lines) is not abbreviated
    assert held.nbytes


def test_a_snapshot_tells_all_blocks(allocator):
    held, gone = allocator.allocate(700, CUDA), allocator.allocate(5 * MIB, CUDA)
    allocator.record_stream(gone, 7)
    address = gone.address
    del gone
    small, large = sorted(inspection.snapshot_segments(allocator), key=lambda s: s["total_size"])
    assert small["blocks"][0] == {
        "address": held.address,
        "size": 1024,
        "requested_size": 700,
        "state": "active_allocated",
        "frames": [],
    }
    assert [block["state"] for block in small["blocks"]] == ["active_allocated", "inactive"]
    assert (small["segment_type"], small["allocated_size"], small["requested_size"]) == ("small", 1024, 700)
    assert large["blocks"][0]["address"] == address
    assert large["blocks"][0]["state"] == "active_awaiting_free"
    assert (large["allocated_size"], large["active_size"]) == (0, 5 * MIB)
    assert large["segment_pool_id"] == (0, 0) and large["stream"] == 0 and not large["is_expandable"]


def test_history_keeps_events_and_frames(allocator, tmp_path):
    before = allocator.allocate(100, CUDA)
    inspection.record_history(allocator)
    held = allocator.allocate(3 * MIB, CUDA)
    line = sys._getframe().f_lineno - 1
    gone = allocator.allocate(1000, CUDA)
    allocator.record_stream(gone, 3)
    del before, gone
    allocator.empty_cache()
    with pytest.raises(OutOfMemoryError):
        inspection.set_fraction(allocator, 0, 0.0)
        allocator.allocate(100 * MIB, CUDA)
    snapshot = inspection.snapshot(allocator)
    actions = [entry["action"] for entry in snapshot["device_traces"][0]]
    assert actions == [
        "segment_alloc",
        "alloc",
        "alloc",
        "free_requested",
        "free_completed",
        "free_requested",
        "free_completed",
        "segment_free",
        "oom",
        "snapshot",
    ]
    entry = snapshot["device_traces"][0][1]
    assert (entry["addr"], entry["size"], entry["stream"]) == (held.address, 3 * MIB, 0)
    innermost = entry["frames"][0]
    assert innermost == {"filename": __file__, "line": line, "name": "test_history_keeps_events_and_frames"}
    assert snapshot["device_traces"][0][-2]["device_free"] > 0
    assert snapshot["segments"][0]["blocks"][0]["frames"][0] == innermost
    assert pickle.loads(pickle.dumps(snapshot)) == snapshot
    inspection.record_history(allocator, None)
    allocator.allocate(3 * MIB, CUDA)
    assert inspection.snapshot(allocator)["device_traces"] == [[]]
    assert allocator._fast is allocator._exact, "the fast way is back"


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ({"max_entries": 2}, ["free_requested", "free_completed", "snapshot"][-2:]),
        ({"skip_actions": ["alloc", "snapshot"]}, ["segment_alloc", "free_requested", "free_completed"]),
        ({"enabled": "state"}, []),
    ],
)
def test_history_is_bounded_and_chosen(allocator, options, kept):
    inspection.record_history(allocator, **options)
    allocator.allocate(100, CUDA)
    assert [entry["action"] for entry in inspection.snapshot(allocator)["device_traces"][0]] == kept


@pytest.mark.parametrize(
    "options",
    [
        {"enabled": "some"},
        {"context": "free"},
        {"stacks": "c++"},
        {"skip_actions": ["free"]},
        {"max_entries": -1},
    ],
)
def test_history_refuses_unknown_words(allocator, options):
    with pytest.raises(RuntimeError, match="_record_memory_history"):
        inspection.record_history(allocator, **options)
    assert allocator.cache(0).history is None
