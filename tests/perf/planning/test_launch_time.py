"""The model of a launch's time gives the known answers on small cases."""

import dataclasses

import pytest

from triten.perf.ahead_of_time.schedule import Schedule
from triten.perf.planning import launch_time
from triten.perf.planning.launch_time import (
    Code,
    bytes_in_flight,
    launch,
    needed_in_flight,
    steady,
    times_of,
    waves,
)
from triten.perf.planning.multiprocessor import MULTIPROCESSORS

H100, A100 = MULTIPROCESSORS[90], MULTIPROCESSORS[80]
COPY = Code(Schedule(instructions=40, pipes={"memory": 8, "alu": 20}, loaded=64, stored=64, batches=1), 4, 32)
SCALAR = Code(Schedule(instructions=25, pipes={"memory": 2, "alu": 12}, loaded=4, stored=4, batches=1), 4, 16)
# 128x256x64 of bfloat16 by eight warps: each warp's share of 2 x 128 x 256 x 64 operations.
PRODUCT = Code(
    Schedule(
        True, 160, {"matrix": 4, "alu": 70}, batches=0, exchanges=4, asynchronous=True,
        matrix_operations=2 * 128 * 256 * 64 / 8, matrix="HGMMA",
    ),
    8, 168, 196608, stages=4, number="bfloat16", reuses=True,
)  # fmt: skip


@pytest.mark.parametrize("place", MULTIPROCESSORS.values(), ids=lambda place: place.target.name)
def test_a_copy_with_enough_bytes_in_flight_reaches_the_sustained_bandwidth(place):
    found = steady(place, COPY)
    assert found.term == "bandwidth"
    assert found.share == pytest.approx(0.9)
    assert found.in_flight >= place.bytes_per_cycle * place.latency_cycles


def test_one_load_of_four_bytes_a_thread_does_not():
    found = steady(H100, SCALAR)
    assert found.term == "bytes in flight"
    assert found.resident == 16
    assert found.in_flight == 16 * 128 * 4
    assert 0.3 < found.share < 0.85


def test_littles_law():
    """Check that twice the bytes in flight give twice the bandwidth while latency is the limit."""
    one = Code(Schedule(instructions=10, loaded=4, batches=1), 4, 128)
    two = dataclasses.replace(one, schedule=dataclasses.replace(one.schedule, loaded=8))
    assert steady(H100, one).term == steady(H100, two).term == "bytes in flight"
    assert steady(H100, two).share == pytest.approx(2 * steady(H100, one).share)
    assert bytes_in_flight(two, 4) == 4 * 128 * 8
    dependent = dataclasses.replace(two, schedule=dataclasses.replace(two.schedule, batches=2))
    assert bytes_in_flight(dependent, 4) == bytes_in_flight(one, 4)
    assert steady(H100, dependent).share < 0.55 * steady(H100, two).share


@pytest.mark.parametrize("place", MULTIPROCESSORS.values(), ids=lambda place: place.target.name)
def test_a_kernel_with_as_many_bytes_in_flight_as_are_asked_for_has_that_bandwidth(place):
    """Registers leave few blocks, each of which reads so much of a loop at a time that the law is met, or just not."""
    one = Code(Schedule(True, instructions=1, loaded=4, batches=1), 4, 128)
    needed = needed_in_flight(place, one)
    assert needed == pytest.approx(0.85 * place.bytes_per_cycle * place.latency_cycles)
    blocks = one.resident(place)
    for factor, reached in ((1.02, True), (0.9, False)):
        loaded = factor * needed / blocks / one.threads
        code = dataclasses.replace(one, schedule=dataclasses.replace(one.schedule, loaded=loaded))
        found = steady(place, code)
        assert (found.in_flight >= found.needed) is reached is (found.share > 0.845)


def test_nobody_waits_for_stores_nor_for_what_a_cache_has():
    reading = dataclasses.replace(COPY, schedule=dataclasses.replace(COPY.schedule, stored=0))
    assert needed_in_flight(H100, COPY) == needed_in_flight(H100, reading) / 2
    filling = dataclasses.replace(COPY, schedule=dataclasses.replace(COPY.schedule, loaded=0))
    assert needed_in_flight(H100, filling) == needed_in_flight(H100, PRODUCT) == 0


def test_few_registers_left_means_few_warps_and_fewer_bytes_in_flight():
    many = dataclasses.replace(SCALAR, registers=128)
    assert steady(H100, many).resident == 4
    assert steady(H100, many).share < steady(H100, SCALAR).share / 3


@pytest.mark.parametrize(
    ("pipe", "count", "capability", "cycles"),
    [
        ("special", 8, 90, 16 * 8 * 2),
        ("fma", 32, 90, 16 * 32 / 4),
        ("fma", 32, 80, 16 * 32 / 2),
        ("double", 4, 90, 16 * 4 / 2),
        ("double", 4, 89, 16 * 4 * 16),
        ("alu", 20, 90, 16 * 20 / 2),
    ],
)
def test_instructions_are_issued_at_the_published_rates(pipe, count, capability, cycles):
    code = Code(Schedule(instructions=count, pipes={pipe: count}, loaded=4, batches=1), 4, 32)
    times = times_of(MULTIPROCESSORS[capability], code, 4).cycles
    name = "issue" if pipe == "fma" and capability == 90 else f"issue of {pipe}"
    assert times[name] == cycles


def test_much_arithmetic_binds_in_the_place_of_memory():
    busy = dataclasses.replace(
        COPY, schedule=dataclasses.replace(COPY.schedule, instructions=2000, pipes={"special": 400})
    )
    assert steady(H100, busy).term == "issue of special"
    assert steady(H100, busy).share < 0.5


def test_waves():
    assert waves(288, 132) == pytest.approx(2.18, abs=0.005)
    assert waves(132 * 4, 132, 4) == 1


def test_a_product_of_3072_cubed_loses_most_of_its_third_wave():
    tiles = 24 * 12
    cube = launch(H100, PRODUCT, tiles, operations=2 * 3072**3, epilogue=128 * 256 * 2)
    full = launch(H100, PRODUCT, 132 * 3, operations=2 * 3072**3 * 396 / 288, epilogue=128 * 256 * 2)
    assert cube.waves == pytest.approx(2.18, abs=0.005)
    assert (cube.term, cube.limit) == ("tail", "bfloat16")
    assert cube.seconds == pytest.approx(full.seconds)
    assert cube.share == pytest.approx(full.share * 288 / 396)


def test_a_large_product_is_bound_by_the_tensor_pipe():
    found = launch(H100, PRODUCT, 2048, operations=2 * 8192**3, epilogue=128 * 256 * 2)
    assert found.term == "tensor pipe"
    assert 0.65 < found.share < launch_time.OF_TENSOR
    assert found.seconds == pytest.approx(2 * 8192**3 / (found.share * 989.4e12))


def test_exponentials_between_products_are_waited_for_unless_another_block_multiplies():
    schedule = dataclasses.replace(
        PRODUCT.schedule, instructions=600, pipes={"matrix": 8, "special": 64, "fma": 200, "alu": 200}
    )
    alone = dataclasses.replace(PRODUCT, schedule=schedule, shared=131072)
    beside = dataclasses.replace(alone, shared=65536, registers=128)
    assert (steady(H100, alone).resident, steady(H100, beside).resident) == (1, 2)
    assert steady(H100, alone).term == "latency"
    assert steady(H100, beside).share > 1.3 * steady(H100, alone).share


def test_groups_of_warps_that_compute_hide_what_each_waits_for_as_blocks_of_their_own_do():
    exponentials = dataclasses.replace(PRODUCT.schedule, pipes={**PRODUCT.schedule.pipes, "special": 32})
    own = dataclasses.replace(PRODUCT, schedule=exponentials, warps=4)
    block = dataclasses.replace(own, warps=12, groups=2)
    assert block.computing == 8
    assert block.block_operations == 2 * own.block_operations
    assert times_of(H100, block, 1) == times_of(H100, own, 2)
    assert steady(H100, block).resident == 1


def test_a_small_launch_is_bound_by_the_launch():
    found = launch(H100, COPY, 1, nbytes=16384)
    assert found.term == "launch"
    assert found.seconds > launch_time.LAUNCH_SECONDS


def test_a_copy_of_a_gigabyte_takes_what_the_bandwidth_allows():
    nbytes = 2 * 2**30
    found = launch(H100, COPY, 2**30 // 8192, nbytes=nbytes)
    assert found.term == "bandwidth"
    assert found.share == pytest.approx(0.9, abs=0.05)
    assert found.seconds == pytest.approx(nbytes / 3.35e12 / found.share, rel=0.01)


def test_code_that_fits_no_multiprocessor_is_refused():
    with pytest.raises(ValueError, match="no multiprocessor of sm_80 holds a block"):
        steady(A100, PRODUCT)
