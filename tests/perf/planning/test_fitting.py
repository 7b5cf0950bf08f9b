"""The fit of latency, bandwidth and reductions, against times that are known to follow a link."""

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
    assert "off by a factor of 1.00 at most" in found.source


def test_times_that_no_link_has_are_fitted_as_well_as_can_be_and_said() -> None:
    timed = [
        Timed("all_reduce", nbytes, seconds)
        for nbytes, seconds in ((4, 1e-6), (1 << 20, 1e-3), (1 << 21, 8e-3))
    ]
    found = fitted(timed, 2, "mpi")
    assert found.inside.latency >= 0
    assert "off by a factor of 1.00" not in found.source


def test_without_a_process_group_nothing_is_measured() -> None:
    with pytest.raises(ValueError, match=r"Interconnect.measured\(\): there is no process group"):
        Interconnect.measured()
