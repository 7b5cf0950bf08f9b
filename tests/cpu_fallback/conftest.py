"""Fixture for the tests of CPU kernels: run with one thread and with several."""

from collections.abc import Iterator

import pytest

import triten as tt


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a test once with each number of threads."""
    before = tt.get_num_threads()
    tt.set_num_threads(request.param)
    yield request.param
    tt.set_num_threads(before)
