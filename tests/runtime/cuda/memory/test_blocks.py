"""The block that a request gets: sizes, splitting, merging, and requests that the driver rejects."""

import threading

import pytest

from triten.runtime.cuda.memory import inspection
from triten.runtime.cuda.memory.block import GRANULARITY
from triten.runtime.device import device as Device
from triten.runtime.errors import OutOfMemoryError
from triten.tests.runtime.cuda.memory.allocation import blocks, stats
from triten.tests.shared.threads import join

CUDA = Device("cuda", 0)

KIB, MIB = 2**10, 2**20


def refuse(allocator, monkeypatch, times=10**9):
    """Make the driver reject its next segments, and return the list of the requested sizes."""
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
        (1, GRANULARITY, 2 * MIB),
        (GRANULARITY, GRANULARITY, 2 * MIB),
        (GRANULARITY + 1, 2 * GRANULARITY, 2 * MIB),
        (MIB, MIB, 2 * MIB),
        (MIB + 1, MIB + GRANULARITY, 20 * MIB),
        (10 * MIB - GRANULARITY, 10 * MIB - GRANULARITY, 20 * MIB),
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
    held = [(allocator.allocate(size, CUDA), allocator.allocate(GRANULARITY, CUDA)) for size in sizes]
    addresses = [data.address for data, _ in held]
    walls = [wall for _, wall in held]
    del held
    taken = allocator.allocate(4 * KIB, CUDA)
    assert taken.address == addresses[2]
    assert len(walls) == 3


@pytest.mark.parametrize(
    ("nbytes", "left"),
    [
        (3 * GRANULARITY, [3 * GRANULARITY, GRANULARITY]),
        (4 * GRANULARITY, [4 * GRANULARITY]),
        (3 * GRANULARITY + 1, [4 * GRANULARITY]),
    ],
)
def test_small_blocks_are_split_where_a_unit_is_left(allocator, nbytes, left):
    block, wall = allocator.allocate(4 * GRANULARITY, CUDA), allocator.allocate(GRANULARITY, CUDA)
    address = block.address
    del block
    taken = allocator.allocate(nbytes, CUDA)
    assert taken.address == address
    assert [size for size, _ in blocks(allocator)][: len(left)] == left
    assert wall.address == address + 4 * GRANULARITY


@pytest.mark.parametrize(
    ("nbytes", "left"),
    [
        (11 * MIB, [12 * MIB]),
        (11 * MIB - 1, [12 * MIB]),
        (11 * MIB - GRANULARITY, [11 * MIB - GRANULARITY, MIB + GRANULARITY]),
    ],
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
    for size in range(GRANULARITY, 500 * GRANULARITY, GRANULARITY):
        allocator.allocate(size, CUDA)
    pool = allocator.cache(0).pool(0, GRANULARITY)
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
    """Collect garbage without a lock: a cycle holds the memory, and its finalizer waits for a thread that
    allocates.
    """
    free_elsewhere = []

    class Cycle:
        def __init__(self):
            self.me = self
            self.data = allocator.allocate(30 * MIB, CUDA)

        def __del__(self):
            thread = threading.Thread(target=lambda: free_elsewhere.append(allocator.allocate(1, CUDA)))
            thread.start()
            join(thread)

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
    """Allocate in a finalizer, as garbage collection may run it in the middle of a split."""
    nested = []
    pool = allocator.cache(0).pool(0, GRANULARITY)
    given = type(pool).split

    def split(self, *arguments):
        if not nested:
            nested.append(None)
            nested[0] = allocator.allocate(GRANULARITY, CUDA)
            inspection.nested_stats(allocator, 0)
            allocator.empty_cache()
            with pytest.raises(RuntimeError, match="in this very thread"):
                inspection.snapshot_segments(allocator)
        return given(self, *arguments)

    monkeypatch.setattr(type(pool), "split", split)
    outer = allocator.allocate(GRANULARITY, CUDA)
    monkeypatch.undo()
    assert outer.address != nested[0].address
    assert stats(allocator)["allocation.all.current"] == 2
    nested.clear()
    del outer
    allocator.empty_cache()
    found = stats(allocator)
    assert found["reserved_bytes.all.current"] == found["inactive_split.all.current"] == 0
