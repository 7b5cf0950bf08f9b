"""What the tests of autocast share: the thread is as it was."""

import pytest

import triten as tt
from triten.runtime.local_dispatch_key_set import local, modes


def state():
    return (
        list(modes),
        local.autocast,
        local.included,
        local.excluded,
        [(tt.is_autocast_enabled(d), tt.get_autocast_dtype(d)) for d in ("cpu", "cuda")],
        tt.is_autocast_cache_enabled(),
    )


@pytest.fixture(autouse=True)
def leaves_no_trace():
    before = state()
    yield
    assert state() == before
    assert tt.autocast_increment_nesting() == 1
    tt.autocast_decrement_nesting()
