"""A compiler test leaves no stance, mode or graph behind; kernels run on one thread and on several."""

from collections.abc import Iterator

import pytest

import triten as tt
from triten.compiler.stances import state
from triten.tests.shared.thread_state import modes_and_keys


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    """Assert that a test leaves no dispatch keys, mode or stance in the thread, and no graph in the process."""
    before = modes_and_keys()
    yield
    assert modes_and_keys() == before
    assert (state.stance, state.backend) == ("default", None)
    tt.compiler.reset()


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Run a test with each number of threads that share the blocks of a kernel."""
    before = tt.get_num_threads()
    tt.set_num_threads(request.param)
    yield request.param
    tt.set_num_threads(before)
