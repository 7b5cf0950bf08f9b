"""Fixture of the CUDA graph tests: a capture leaves no state behind."""

import pytest

import triten as tt
from triten.runtime.cuda.driver import driver


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    yield
    assert not driver().captures_underway
    assert not tt.cuda.is_current_stream_capturing()
    assert tt.cuda.current_stream() == tt.cuda.default_stream()
