"""The fit recovers latency, bandwidth and reductions from times that follow a known link."""

import pytest

from triten.perf import Interconnect, Link
from triten.perf.planning.communication.fitting import COLLECTIVES, DEFAULT_SIZES, Timed, fitted


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize("link", [Link("l", 2e-6, 5e9, 1e-10), Link("l", 5e-5, 1.25e8, 0.0)])
def test_a_link_is_found_from_its_times(ranks: int, link: Link) -> None:
    truth = Interconnect("t", link, library="mpi")
    timed = [
        Timed(name, nbytes, truth.collective(name, nbytes, ranks).seconds)
        for name in COLLECTIVES
        for nbytes in DEFAULT_SIZES
    ]
    found = fitted(timed, ranks, "mpi")
    assert found.inside.latency == pytest.approx(link.latency, rel=1e-3)
    assert found.inside.bytes_per_second == pytest.approx(link.bytes_per_second, rel=1e-3)
    assert found.inside.seconds_per_reduced_byte == pytest.approx(link.seconds_per_reduced_byte, abs=1e-13)
    assert (found.library, found.overlaps) == ("mpi", False)
    assert "off by a factor of 1.00 in the median, 1.00 at most" in found.source


def test_large_tensors_may_have_a_link_of_their_own() -> None:
    large = Link("memory", 1e-6, 1e9, 2e-9)
    truth = Interconnect("t", Link("cache", 1e-6, 8e9, 1e-10, large=large, large_from=2 << 20), library="mpi")
    timed = [
        Timed(name, nbytes, truth.collective(name, nbytes, 4).seconds)
        for name in COLLECTIVES
        for nbytes in DEFAULT_SIZES
    ]
    found = fitted(timed, 4, "mpi").inside
    assert found.large is not None
    assert found.large_from == 2 << 20  # between 1 MiB and 4 MiB
    assert found.bytes_per_second == pytest.approx(8e9, rel=1e-2)
    assert found.large.bytes_per_second == pytest.approx(1e9, rel=1e-2)
    assert found.large.seconds_per_reduced_byte == pytest.approx(2e-9, rel=1e-2)


def test_times_that_no_link_has_are_fitted_as_well_as_can_be_and_said() -> None:
    # A message of one step each, and one takes 100 times as long as the other.
    timed = [Timed("all_gather", 4, 1e-5), Timed("broadcast", 4, 1e-3), Timed("all_gather", 1 << 20, 2e-3)]
    found = fitted(timed, 2, "mpi")
    assert 1e-5 <= found.inside.latency <= 1e-3
    assert "1.00 at most" not in found.source


def test_without_a_process_group_nothing_is_measured() -> None:
    with pytest.raises(ValueError, match=r"Interconnect.measured\(\): there is no process group"):
        Interconnect.measured()
