"""The alpha-beta model of collectives equals counts made by hand for 2 and 4 ranks."""

import pytest

from triten.perf import Interconnect, Link
from triten.perf.planning.communication.algorithms import ALGORITHMS, BYTES_OF, Count, algorithms_of
from triten.perf.planning.communication.data_sheets import LINKS, MACHINES, interconnect_of
from triten.perf.planning.communication.interconnect import Group

N = 1200.0
# collective, algorithm: of 2 and of 4 ranks (messages one after the other, bytes sent, bytes reduced)
BY_HAND = {
    ("all_reduce", "ring"): [(2, 1200, 600), (6, 1800, 900)],
    ("all_reduce", "tree"): [(2, 2400, 1200), (4, 2400, 1200)],
    ("all_reduce", "in the switch"): [(2, 1800, 0), (2, 1500, 0)],
    ("all_reduce", "recursive doubling"): [(1, 1200, 1200), (2, 2400, 2400)],
    ("all_reduce", "recursive halving and doubling"): [(2, 1200, 600), (4, 1800, 900)],
    ("all_gather", "ring"): [(1, 600, 0), (3, 900, 0)],
    ("all_gather", "recursive doubling"): [(1, 600, 0), (2, 900, 0)],
    ("all_gather", "Bruck"): [(1, 600, 0), (2, 900, 0)],
    ("reduce_scatter", "ring"): [(1, 600, 600), (3, 900, 900)],
    ("reduce_scatter", "recursive halving"): [(1, 600, 600), (2, 900, 900)],
    ("broadcast", "ring"): [(1, 1200, 0), (3, 1200, 0)],
    ("broadcast", "binomial tree"): [(1, 1200, 0), (2, 2400, 0)],
    ("broadcast", "scatter and ring"): [(2, 1200, 0), (5, 1800, 0)],
    ("reduce", "ring"): [(1, 1200, 1200), (3, 1200, 1200)],
    ("reduce", "binomial tree"): [(1, 1200, 1200), (2, 2400, 2400)],
    ("reduce", "recursive halving and gather"): [(2, 1200, 600), (4, 1800, 900)],
    ("all_to_all", "pairwise"): [(1, 600, 0), (3, 900, 0)],
    ("all_to_all", "Bruck"): [(1, 600, 0), (2, 1200, 0)],
    ("gather", "pairwise"): [(1, 600, 0), (3, 900, 0)],
    ("gather", "binomial tree"): [(1, 600, 0), (2, 900, 0)],
    ("scatter", "pairwise"): [(1, 600, 0), (3, 900, 0)],
    ("scatter", "binomial tree"): [(1, 600, 0), (2, 900, 0)],
    ("send", "message"): [(1, 1200, 0), (1, 1200, 0)],
    ("barrier", "dissemination"): [(1, 0, 0), (2, 0, 0)],
}


def test_every_algorithm_is_counted_by_hand() -> None:
    known = {(name, way.name) for name, ways in ALGORITHMS.items() for way in ways}
    assert known == set(BY_HAND)
    assert set(BYTES_OF) == set(ALGORITHMS)


@pytest.mark.parametrize(("collective", "algorithm"), BY_HAND)
def test_messages_and_bytes_are_those_counted_by_hand(collective: str, algorithm: str) -> None:
    (way,) = [way for way in ALGORITHMS[collective] if way.name == algorithm]
    assert [tuple(way.count(p, N)) for p in (2, 4)] == BY_HAND[collective, algorithm]


def test_ranks_beyond_a_power_of_two_hand_their_tensors_to_others() -> None:
    names = [way.name for way in algorithms_of("all_reduce", "mpi", 6)]
    assert names == ["ring", "recursive doubling"]
    doubling = algorithms_of("all_reduce", "mpi", 6)[1]
    assert doubling.count(6, 100.0) == Count(4, 400.0, 300.0)


def test_an_unknown_collective_is_refused() -> None:
    with pytest.raises(ValueError, match=r"collective must be one of all_reduce, .*, got 'all_divide'"):
        algorithms_of("all_divide", "mpi", 2)


UNIT = Link("unit", 1.0, 100.0)


def network(**changes: object) -> Interconnect:
    return Interconnect(**{"name": "n", "inside": UNIT, "library": "mpi", **changes})


def test_the_fastest_way_of_the_library_is_taken() -> None:
    small, large = (network().collective("all_reduce", nbytes, 4) for nbytes in (100, 100_000))
    assert (small.algorithm, small.seconds) == ("recursive doubling", 2 * 1 + 2 * 1.0)
    assert (large.algorithm, large.seconds) == ("recursive halving and doubling", 4 * 1 + 1500.0)
    nccl = network(library="nccl", startup=5.0)
    assert nccl.collective("all_reduce", 100_000, 4) == ("ring", 5.0 + 6 * 1 + 1500.0, 150_000)
    assert nccl.collective("all_reduce", 0, 4) == ("tree", 5.0 + 4.0, 0)


def test_a_switch_reduces_where_it_can() -> None:
    link = Link("switch", 1.0, 100.0, reduces=True)
    eight = network(inside=link, library="nccl").collective("all_reduce", 100_000, 8)
    assert eight == ("in the switch", 2 * 1 + 1125.0, 112_500)
    assert network(library="nccl").collective("all_reduce", 100_000, 8).algorithm == "ring"
    assert network(inside=link, library="nccl").collective("all_reduce", 100_000, 2).algorithm == "ring"


def test_reductions_and_the_sustained_share_count() -> None:
    link = Link("l", 0.0, 200.0, seconds_per_reduced_byte=0.5, sustained=0.5)
    assert network(inside=link).collective("reduce_scatter", 400, 2).seconds == 200 / 100 + 200 * 0.5


def test_large_tensors_take_their_link() -> None:
    link = Link("l", 1.0, 100.0, large=Link("m", 2.0, 10.0), large_from=1000)
    both = network(inside=link)
    assert both.collective("send", 999, 2).seconds == 1.0 + 9.99
    assert both.collective("send", 1000, 2).seconds == 2.0 + 100.0


def test_one_rank_communicates_with_nobody() -> None:
    assert network(startup=1.0).collective("all_reduce", 100, 1) == ("none", 0.0, 0.0)


def test_over_nodes_each_rank_carries_its_part() -> None:
    """4 nodes of 2 devices, and the link between nodes is ten times as slow."""
    between = Link("net", 10.0, 10.0)
    many = network(between=between, devices_per_node=2, library="nccl")
    found = many.collective("all_reduce", 8000, Group(2, 4))
    # reduce_scatter of 8000 by 2, ring of 4000 by 4 over the network, all_gather of 8000 by 2.
    assert found.seconds == (1 + 40) + (6 * 10 + 2 * 0.75 * 4000 / 10) + (1 + 40)
    assert (found.algorithm, found.sent) == ("hierarchical", 4000 + 6000 + 4000)
    gathered = many.collective("all_gather", 8000, Group(2, 4))
    assert gathered.seconds == (3 * 10 + 0.75 * 4000 / 10) + (1 + 40)
    # One of each node: the network alone. Two devices that share an adapter have half of it.
    assert many.collective("reduce_scatter", 8000, Group(1, 4)).seconds == 3 * 10 + 0.75 * 8000 / 10
    shared = network(between=between, devices_per_node=2, adapters_per_node=1, library="nccl")
    assert shared.collective("reduce_scatter", 8000, Group(1, 4)).seconds == 3 * 10 + 0.75 * 8000 / 5


def test_ranks_are_on_the_nodes_that_their_numbers_say() -> None:
    many = network(between=UNIT, devices_per_node=8)
    assert many.group(range(8)) == Group(8, 1)
    assert many.group(range(0, 64, 8)) == Group(1, 8)
    assert many.group(range(0, 16, 4)) == Group(2, 2)
    assert network().group(range(100)) == Group(100, 1)


def test_several_nodes_need_a_link_between_them() -> None:
    with pytest.raises(ValueError, match="'n': the ranks are on several nodes, and it has no link"):
        network().collective("all_reduce", 10, Group(1, 2))
    with pytest.raises(ValueError, match="devices_per_node must be given"):
        network(between=UNIT)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"library": "gloo"}, "library must be 'mpi' or 'nccl', got 'gloo'"),
        ({"devices_per_node": 0}, "devices_per_node must be at least 1, got 0"),
    ],
)
def test_a_wrong_interconnect_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        network(**changes)


def test_a_wrong_link_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes_per_second must be greater than 0, got 0"):
        Link("l", 1.0, 0.0)
    with pytest.raises(ValueError, match=r"latency must not be negative, got -1.0"):
        Link("l", -1.0, 1.0)


def test_links_have_the_bandwidths_of_their_data_sheets() -> None:
    gigabytes = {name: round(link.bytes_per_second / 1e9, 2) for name, link in LINKS.items()}
    both = {"nvlink3": 600, "nvlink4": 900, "nvlink5": 1800}
    assert {name: 2 * gigabytes[name] for name in both} == both
    assert (gigabytes["pcie4"], gigabytes["pcie5"]) == (31.51, 63.02)
    gigabits = {name: 8 * gigabytes[name] for name in ("infiniband_hdr", "infiniband_ndr", "infiniband_xdr")}
    assert [*gigabits.values()] == [200, 400, 800]


@pytest.mark.parametrize("name", [*LINKS, *MACHINES, "pcie5+ethernet100"])
def test_every_name_is_an_interconnect(name: str) -> None:
    found = interconnect_of(name)
    assert found.collective("all_reduce", 1 << 20, 2).seconds > 0
    assert "not measured" in found.source


def test_an_unknown_name_is_refused() -> None:
    for name in ("nvlink9", "nvlink4+token_ring"):
        with pytest.raises(ValueError, match="interconnect must be an Interconnect or one of dgx_a100, "):
            interconnect_of(name)
