"""Fixture of the autocast tests: each test leaves the thread's state unchanged."""

import pytest

import triten as tt
from triten.tests.dispatch.layers.autocast.casts import state


@pytest.fixture(autouse=True)
def leaves_no_trace():
    before = state()
    yield
    assert state() == before
    assert tt.autocast_increment_nesting() == 1
    tt.autocast_decrement_nesting()
