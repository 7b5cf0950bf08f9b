"""Ranks that a measurement starts: their answers, and the error after one dies."""

import importlib.util
import sys
from types import SimpleNamespace

import pytest

from triten import distributed
from triten.perf import interconnect
from triten.perf.ranks import Ranks
from triten.perf.refusal import RefusalError
from triten.perf.suite.workloads.distributed import EXPECTED_RANGES

needs_mpi = pytest.mark.skipif(
    importlib.util.find_spec("mpi4py") is None or not sys.platform.startswith("linux"), reason="needs MPI"
)


@needs_mpi
def test_ranks_do_what_they_are_told_and_end_with_the_context() -> None:
    with Ranks("triten", "mpi", 2) as ranks:
        for collective, expected in EXPECTED_RANGES.items():
            assert ranks.tell("prepare", collective=collective, nbytes=4000) == [list(expected)] * 2, (
                collective
            )
        assert all(seconds > 0 for seconds in ranks.tell("repeat", count=3))
        assert ranks.tell("call", function="triten.distributed:get_world_size", arguments={}) == [2, 2]
        processes = ranks._processes
    assert [process.returncode for process in processes] == [0, 0]


def test_a_rank_that_ends_is_said_and_ends_the_others() -> None:
    with pytest.raises(RuntimeError, match=r"rank 0 of 2 ended: .*no_such_library"):
        Ranks("no_such_library", "mpi", 2)


def test_what_cannot_be_measured_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RefusalError, match="--ranks must be at least 2"):
        interconnect.run(SimpleNamespace(ranks=1, rounds=1))
    monkeypatch.setattr(distributed, "is_mpi_available", lambda: False)
    with pytest.raises(RefusalError, match="MPI is not installed"):
        interconnect.run(SimpleNamespace(ranks=2, rounds=1))


def test_buckets_of_the_measured_step_are_those_of_the_plan() -> None:
    mebi = 1 << 20
    parameters = [SimpleNamespace(numel=lambda n=n: n * mebi, itemsize=1) for n in (1, 20, 10, 3)]
    found = interconnect._buckets(parameters)
    assert [[parameter.numel() // mebi for parameter in bucket] for bucket in found] == [[1], [20, 10], [3]]
