"""What the tests of the host's kernels share: one thread, and several."""

from collections.abc import Iterator

import pytest

import triten as tt


@pytest.fixture(params=[1, 3], ids=["one thread", "three threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """The number of threads; a test that takes it runs once with each."""
    before = tt.get_num_threads()
    tt.set_num_threads(request.param)
    yield request.param
    tt.set_num_threads(before)
