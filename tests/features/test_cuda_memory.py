"""The caching allocator as its users see it: reuse, statistics, streams, running out, limits, snapshots."""

import gc

import pytest

import triten as tt

MIB = 2**20


@pytest.fixture(autouse=True)
def clean() -> None:
    gc.collect()
    tt.cuda.synchronize()
    tt.cuda.empty_cache()
    tt.cuda.reset_peak_memory_stats()


def test_memory_is_rounded_counted_and_reused() -> None:
    before = tt.cuda.memory_allocated()
    x = tt.empty(1000, dtype=tt.uint8, device="cuda")
    assert tt.cuda.memory_allocated() - before == 1024
    assert tt.cuda.memory_reserved() >= tt.cuda.memory_allocated()
    address = x.data_ptr()
    del x
    assert tt.cuda.memory_allocated() == before
    assert tt.empty(900, dtype=tt.uint8, device="cuda").data_ptr() == address
    assert tt.cuda.max_memory_allocated() >= before + 1024


def test_a_loop_is_served_from_the_cache() -> None:
    weight = tt.randn(64, 64, device="cuda", requires_grad=True)
    x = tt.randn(8, 64, device="cuda")

    def step() -> None:
        loss = (x @ weight).relu().sum()
        loss.backward()
        with tt.no_grad():
            weight.sub_(weight.grad, alpha=0.01)
        weight.grad = None

    for _ in range(3):
        step()
    before = tt.cuda.memory_stats()
    for _ in range(20):
        step()
    after = tt.cuda.memory_stats()
    requests = after["allocation.all.allocated"] - before["allocation.all.allocated"]
    assert requests >= 100
    assert after["num_device_alloc"] == before["num_device_alloc"]


def test_an_empty_tensor_has_no_memory_but_a_device() -> None:
    before = tt.cuda.memory_allocated()
    x = tt.empty(0, 3, device="cuda")
    assert (x.data_ptr(), x.device) == (0, tt.device("cuda", 0))
    assert tt.cuda.memory_allocated() == before


def test_large_blocks_are_split_and_merged_again() -> None:
    whole = tt.empty(8 * MIB, dtype=tt.uint8, device="cuda")
    reserved, start = tt.cuda.memory_reserved(), whole.data_ptr()
    del whole
    parts = [tt.empty(2 * MIB, dtype=tt.uint8, device="cuda") for _ in range(3)]
    assert start in [part.data_ptr() for part in parts]
    assert tt.cuda.memory_reserved() == reserved, "the parts come from the segment of the whole"
    del parts
    again = tt.empty(18 * MIB, dtype=tt.uint8, device="cuda")
    assert tt.cuda.memory_reserved() == reserved, "which is whole again: 20 MiB"
    assert again.data_ptr() == start


def test_a_block_in_use_by_another_stream_is_kept() -> None:
    side = tt.cuda.Stream()
    x = tt.empty(4096, device="cuda")
    tt.cuda.synchronize()
    address = x.data_ptr()
    with tt.cuda.stream(side):
        for _ in range(30):
            x.fill_(1.0)
    x.record_stream(side)
    del x
    taken = [tt.empty(4096, device="cuda")]
    assert taken[0].data_ptr() != address
    side.synchronize()
    taken += [tt.empty(4096, device="cuda") for _ in range(2)]
    assert address in [t.data_ptr() for t in taken]


def test_running_out_says_what_is_there_and_the_runtime_works_on() -> None:
    held = tt.empty(3 * MIB, dtype=tt.uint8, device="cuda")
    total = tt.cuda.mem_get_info()[1]
    ooms = tt.cuda.memory_stats()["num_ooms"]
    with pytest.raises(tt.cuda.OutOfMemoryError, match=r"Tried to allocate .*GiB.*total capacity.*allocated"):
        tt.empty(4 * total, dtype=tt.uint8, device="cuda")
    assert tt.cuda.memory_stats()["num_ooms"] == ooms + 1
    assert held.fill_(7).sum().item() == 7 * 3 * MIB
    assert issubclass(tt.cuda.OutOfMemoryError, RuntimeError)


def test_a_full_cache_is_emptied_before_giving_up() -> None:
    tt.cuda.empty_cache()
    limit = tt.cuda.memory_reserved() + 128 * MIB
    retries = tt.cuda.memory_stats()["num_alloc_retries"]
    tt.cuda.set_per_process_memory_fraction(limit / tt.cuda.mem_get_info()[1])
    try:
        first = tt.empty(80 * MIB, dtype=tt.uint8, device="cuda")
        del first
        second = tt.empty(90 * MIB, dtype=tt.uint8, device="cuda")
    finally:
        tt.cuda.set_per_process_memory_fraction(1.0)
    assert second.nbytes == 90 * MIB
    assert tt.cuda.memory_stats()["num_alloc_retries"] == retries + 1


def test_a_process_may_be_held_to_a_fraction() -> None:
    total = tt.cuda.mem_get_info()[1]
    tt.cuda.empty_cache()
    limit = tt.cuda.memory_reserved() + 128 * MIB
    tt.cuda.set_per_process_memory_fraction(limit / total)
    try:
        with pytest.raises(tt.cuda.OutOfMemoryError):
            tt.empty(200 * MIB, dtype=tt.uint8, device="cuda")
        assert tt.empty(64 * MIB, dtype=tt.uint8, device="cuda").nbytes == 64 * MIB
    finally:
        tt.cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(ValueError, match="Invalid fraction"):
        tt.cuda.set_per_process_memory_fraction(2.0)


def test_emptying_the_cache_gives_everything_back() -> None:
    before = tt.cuda.memory_reserved()
    x = tt.empty(40 * MIB, dtype=tt.uint8, device="cuda")
    assert tt.cuda.memory_reserved() > before
    del x
    tt.cuda.empty_cache()
    assert tt.cuda.memory_reserved() == before


def test_a_snapshot_lists_every_live_block() -> None:
    x = tt.empty(3 * MIB, dtype=tt.uint8, device="cuda")
    segments = tt.cuda.memory_snapshot()
    blocks = {block["address"]: block for segment in segments for block in segment["blocks"]}
    assert blocks[x.data_ptr()]["state"] == "active_allocated"
    assert blocks[x.data_ptr()]["requested_size"] == 3 * MIB
    summary = tt.cuda.memory_summary()
    assert "CUDA OOMs" in summary and "Allocated memory" in summary


def test_each_device_has_its_own_memory() -> None:
    before = tt.cuda.memory_allocated(0), tt.cuda.memory_allocated(1)
    x = tt.empty(512, dtype=tt.uint8, device="cuda:1")
    assert tt.cuda.memory_allocated(0) == before[0]
    assert tt.cuda.memory_allocated(1) - before[1] == x.nbytes
