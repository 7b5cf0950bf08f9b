"""The caching allocator's policy, case by case, over addresses without memory: sizes, fit, splitting, merging, running
out, pools, options, what it tells."""

import gc
import pickle
import sys
import threading

import pytest

from triten.perf.allocator import address_driver
from triten.runtime.cuda import memory_inspection as inspection
from triten.runtime.cuda.caching_allocator import CachingAllocator
from triten.runtime.cuda.memory_options import AllocatorOptions, parse_options
from triten.runtime.cuda.memory_report import summary_table
from triten.runtime.cuda.memory_statistics import flattened
from triten.runtime.device import device as Device
from triten.runtime.errors import OutOfMemoryError

CUDA = Device("cuda", 0)
KIB, MIB = 2**10, 2**20


def make(**options):
    return CachingAllocator(address_driver(), AllocatorOptions(**options))


@pytest.fixture
def allocator():
    return make()


def stats(allocator):
    return flattened(inspection.nested_stats(allocator, 0))


def blocks(allocator, segment=0):
    """(size, whether in use) of a segment's blocks."""
    found = inspection.snapshot_segments(allocator)[segment]["blocks"]
    return [(block["size"], block["state"] == "active_allocated") for block in found]


def refuse(allocator, monkeypatch, times=10**9):
    """Have the driver refuse its next segments. Returns the sizes that it was asked for."""
    asked, given = [], allocator.driver.malloc

    def malloc(device, nbytes):
        asked.append(nbytes)
        if len(asked) <= times:
            raise OutOfMemoryError("none left")
        return given(device, nbytes)

    monkeypatch.setattr(allocator.driver, "malloc", malloc)
    return asked


@pytest.mark.parametrize(
    ("nbytes", "block", "segment"),
    [
        (1, 512, 2 * MIB),
        (512, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB - 1, 10 * MIB, 10 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),
        (15 * MIB - 1, 16 * MIB, 16 * MIB),
    ],
)
def test_sizes_of_blocks_and_segments(allocator, nbytes, block, segment):
    held = allocator.allocate(nbytes, CUDA)
    found = stats(allocator)
    assert (found["allocated_bytes.all.current"], found["reserved_bytes.all.current"]) == (block, segment)
    assert found["requested_bytes.all.current"] == nbytes == held.nbytes
    kind = "small_pool" if segment == 2 * MIB else "large_pool"
    assert found[f"segment.{kind}.current"] == 1


@pytest.mark.parametrize("nbytes", [600, MIB, 2 * MIB, 50 * MIB])
def test_a_size_is_kept_for_the_next_request(allocator, nbytes):
    first = allocator.allocate(nbytes, CUDA)
    second = allocator.allocate(nbytes, CUDA)
    addresses = [first.address, second.address]
    del first, second
    again = [allocator.allocate(nbytes, CUDA) for _ in range(2)]
    assert [data.address for data in again] == addresses[::-1], "the last one given back comes first"
    assert stats(allocator)["num_hits"] >= 2


def test_the_smallest_block_that_fits_is_taken(allocator):
    sizes = [8 * KIB, 2 * KIB, 5 * KIB]
    held = [(allocator.allocate(size, CUDA), allocator.allocate(512, CUDA)) for size in sizes]
    addresses = [data.address for data, _ in held]
    walls = [wall for _, wall in held]
    del held
    taken = allocator.allocate(4 * KIB, CUDA)
    assert taken.address == addresses[2]
    assert len(walls) == 3


@pytest.mark.parametrize(("nbytes", "left"), [(1536, [1536, 512]), (2048, [2048]), (1537, [2048])])
def test_small_blocks_are_split_where_512_bytes_are_left(allocator, nbytes, left):
    block, wall = allocator.allocate(2048, CUDA), allocator.allocate(512, CUDA)
    address = block.address
    del block
    taken = allocator.allocate(nbytes, CUDA)
    assert taken.address == address
    assert [size for size, _ in blocks(allocator)][: len(left)] == left
    assert wall.address == address + 2048


@pytest.mark.parametrize(
    ("nbytes", "left"),
    [(11 * MIB, [12 * MIB]), (11 * MIB - 1, [12 * MIB]), (11 * MIB - 512, [11 * MIB - 512, MIB + 512])],
)
def test_large_blocks_are_split_where_more_than_1_mib_is_left(allocator, nbytes, left):
    allocator.allocate(12 * MIB, CUDA)
    held = allocator.allocate(nbytes, CUDA)
    assert [size for size, _ in blocks(allocator)] == left
    assert held.nbytes == nbytes


def test_neighbours_merge_before_the_driver_is_asked(allocator):
    held = [allocator.allocate(512 * KIB, CUDA) for _ in range(4)]
    base = held[0].address
    del held[1:3]
    assert blocks(allocator) == [(512 * KIB, True), (512 * KIB, False), (512 * KIB, False), (512 * KIB, True)]
    taken = allocator.allocate(MIB, CUDA)
    assert taken.address == base + 512 * KIB
    assert stats(allocator)["num_device_alloc"] == 1
    assert blocks(allocator) == [(512 * KIB, True), (MIB, True), (512 * KIB, True)]


def test_blocks_in_use_do_not_merge(allocator):
    held = [allocator.allocate(512 * KIB, CUDA) for _ in range(4)]
    del held[0], held[1]
    taken = allocator.allocate(MIB, CUDA)
    assert stats(allocator)["num_device_alloc"] == 2
    assert taken.address not in (held[0].address, held[1].address)


def test_lists_of_sizes_that_no_block_has_are_forgotten(allocator):
    for size in range(512, 512 * 500, 512):
        allocator.allocate(size, CUDA)
    pool = allocator.cache(0).pool(0, 512)
    assert len(pool.lists) == len(pool.sizes) == len(allocator._exact) < 200
    allocator.empty_cache()
    assert not pool.lists and not pool.sizes and not allocator._exact


def test_small_and_large_blocks_of_one_size_have_lists_of_their_own(allocator):
    size = 3 * MIB // 2
    held = [allocator.allocate(512 * KIB, CUDA)]
    assert blocks(allocator)[1] == (size, False), "what is left of a small segment"
    large = allocator.allocate(size, CUDA)
    address = large.address
    del large
    held.append(allocator.allocate(700 * KIB, CUDA))
    assert held[1].address == held[0].address + 512 * KIB
    assert (0, 0, size) in allocator._exact, "the small list went, the large one stays"
    assert allocator.allocate(size, CUDA).address == address


def test_running_out_once_is_mended_by_giving_back_the_cache(allocator, monkeypatch):
    for _ in range(3):
        allocator.allocate(30 * MIB, CUDA)
    asked = refuse(allocator, monkeypatch, times=1)
    held = allocator.allocate(40 * MIB, CUDA)
    found = stats(allocator)
    assert asked == [40 * MIB, 40 * MIB], "exactly one retry"
    assert (found["num_alloc_retries"], found["num_ooms"], found["num_device_free"]) == (1, 0, 1)
    assert found["reserved_bytes.all.current"] == 40 * MIB == held.nbytes


def test_running_out_collects_garbage_by_no_lock(allocator, monkeypatch):
    """A cycle holds the memory, and its finaliser waits for a thread that allocates."""
    free_elsewhere = []

    class Cycle:
        def __init__(self):
            self.me = self
            self.data = allocator.allocate(30 * MIB, CUDA)

        def __del__(self):
            thread = threading.Thread(target=lambda: free_elsewhere.append(allocator.allocate(1, CUDA)))
            thread.start()
            thread.join(timeout=20)
            assert not thread.is_alive()

    small = allocator.allocate(1, CUDA)
    Cycle()
    refuse(allocator, monkeypatch)
    held = allocator.allocate(30 * MIB, CUDA)
    assert held.nbytes == 30 * MIB and len(free_elsewhere) == 1
    found = stats(allocator)
    assert (found["num_alloc_retries"], found["num_ooms"]) == (1, 0)
    assert small.address


def test_an_out_of_memory_error_says_everything_and_harms_nothing(allocator, monkeypatch):
    held = [allocator.allocate(size, CUDA) for size in (40 * MIB, 40 * MIB, 3 * KIB, 100)]
    inspection.set_fraction(allocator, 0, 0.5)
    asked = refuse(allocator, monkeypatch)
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(3 * 2**30, CUDA)
    assert asked == [3 * 2**30] * 2
    message = str(caught.value)
    for part in (
        "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 80.00 GiB",
        "80.00 GiB is free",
        "40.00 GiB allowed",
        "80.00 MiB is allocated",
        "82.00 MiB is reserved",
        "Largest live blocks: 2 of 40.00 MiB, 3.00 KiB, 100 bytes.",
    ):
        assert part in message, message
    monkeypatch.undo()
    assert stats(allocator)["num_ooms"] == 1
    assert allocator.allocate(3 * 2**30, CUDA).address
    assert len({data.address for data in held}) == 4


def test_the_fraction_is_a_limit(allocator):
    assert allocator.cache(0).fraction == 1.0
    inspection.set_fraction(allocator, 0, 1 / 1024)
    held = allocator.allocate(60 * MIB, CUDA)
    with pytest.raises(OutOfMemoryError, match=r"80.00 MiB allowed by the memory fraction"):
        allocator.allocate(30 * MIB, CUDA)
    assert allocator.driver.mallocs == 1, "the driver was asked beyond the limit"
    del held
    assert allocator.allocate(80 * MIB, CUDA).address
    assert stats(allocator)["num_ooms"] == 1


def test_a_finaliser_may_allocate_while_its_thread_is_at_work_here(allocator, monkeypatch):
    """As garbage collection would run it in the middle of a split."""
    nested = []
    pool = allocator.cache(0).pool(0, 512)
    given = type(pool).split

    def split(self, *arguments):
        if not nested:
            nested.append(None)
            nested[0] = allocator.allocate(512, CUDA)
            inspection.nested_stats(allocator, 0)
            allocator.empty_cache()
            with pytest.raises(RuntimeError, match="in this very thread"):
                inspection.snapshot_segments(allocator)
        return given(self, *arguments)

    monkeypatch.setattr(type(pool), "split", split)
    outer = allocator.allocate(512, CUDA)
    monkeypatch.undo()
    assert outer.address != nested[0].address
    assert stats(allocator)["allocation.all.current"] == 2
    nested.clear()
    del outer
    allocator.empty_cache()
    found = stats(allocator)
    assert found["reserved_bytes.all.current"] == found["inactive_split.all.current"] == 0


def test_peaks_and_sums_start_afresh(allocator):
    held = [allocator.allocate(1000, CUDA) for _ in range(3)]
    del held[1:]
    before = stats(allocator)
    assert (before["allocation.all.peak"], before["allocated_bytes.small_pool.peak"]) == (3, 3072)
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
    assert found["allocated_bytes.all.peak"] == 4 * MIB + 512
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


def test_a_private_pool_is_apart_until_it_is_released(allocator):
    common = allocator.allocate(512, CUDA)
    common_address = common.address
    del common
    allocator.begin_allocate_to_pool(0, (0, 5), lambda stream: stream == 0)
    private = allocator.allocate(512, CUDA)
    other = allocator.allocate_on(512, CUDA, 9)
    assert private.address != common_address
    owners = {s["address"]: s["segment_pool_id"] for s in inspection.snapshot_segments(allocator)}
    assert owners[private.address] == (0, 5) and owners[other.address] == (0, 0)
    address = private.address
    del private
    assert allocator.allocate(512, CUDA).address == address, "the pool reuses its own"
    allocator.end_allocate_to_pool(0, (0, 5))
    assert allocator.allocate(512, CUDA).address == common_address
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
        allocator.allocate(512, CUDA)
        allocator.end_allocate_to_pool(0, (3, 0))
    allocator.release_pool(0, (3, 0))
    allocator.empty_cache()
    assert stats(allocator)["segment.all.current"] == 1, "one user is left"
    allocator.release_pool_later(0, (3, 0))
    allocator.empty_cache()
    assert stats(allocator)["segment.all.current"] == 0


def test_memory_of_a_released_pool_lives_as_long_as_it_is_held(allocator):
    allocator.begin_allocate_to_pool(0, (3, 0), lambda stream: True)
    held = allocator.allocate(512, CUDA)
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
    assert allocator.allocate(512, CUDA).address


def test_no_event_is_touched_while_a_pool_is_open(allocator, monkeypatch):
    data = allocator.allocate(512, CUDA)
    allocator.record_stream(data, 4)
    address = data.address

    def fail(*_):
        raise AssertionError("an event")

    allocator.begin_allocate_to_pool(0, (0, 1), lambda stream: False)
    for name in ("create_event", "record_event", "query_event", "synchronize_event", "free"):
        monkeypatch.setattr(allocator.driver, name, fail)
    del data
    kept = allocator.allocate(512, CUDA)
    allocator.empty_cache()
    assert kept.address != address
    monkeypatch.undo()
    allocator.end_allocate_to_pool(0, (0, 1))
    del kept
    taken = [allocator.allocate(512, CUDA) for _ in range(2)]
    assert address in [data.address for data in taken]


def test_events_are_reused(allocator, monkeypatch):
    made = []
    create = allocator.driver.create_event
    monkeypatch.setattr(allocator.driver, "create_event", lambda *a, **k: made.append(create()) or made[-1])
    for _ in range(10):
        data = allocator.allocate(512, CUDA)
        for stream in (1, 2, 2, 0):
            allocator.record_stream(data, stream)
        del data
    allocator.empty_cache()
    assert len(made) <= 4


def test_events_are_recorded_with_the_next_request_even_if_a_block_waits_for_it(allocator, monkeypatch):
    data = allocator.allocate(512, CUDA)
    allocator.allocate(4096, CUDA)
    allocator.record_stream(data, 4)
    recorded = []
    monkeypatch.setattr(allocator.driver, "record_event", lambda event, stream: recorded.append(stream))
    del data
    assert recorded == [], "a free may run inside garbage collection"
    allocator.allocate(4096, CUDA)
    assert recorded == [4]


def test_a_stream_that_is_no_more_costs_one_error(allocator, monkeypatch):
    data, kept = allocator.allocate(512, CUDA), allocator.allocate(700, CUDA)
    allocator.record_stream(data, 4)
    address = data.address
    del data

    def destroyed(event, stream):
        raise RuntimeError("CUDA error: invalid resource handle")

    waited = []
    monkeypatch.setattr(allocator.driver, "record_event", destroyed)
    monkeypatch.setattr(allocator.driver, "synchronize", waited.append, raising=False)
    with pytest.raises(RuntimeError, match="invalid resource handle"):
        allocator.allocate(512, CUDA)
    others = [allocator.allocate(512, CUDA) for _ in range(5)]
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


# --- options


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
