"""What the tests of the allocator's policy share: an allocator over addresses without memory."""

import pytest

from triten.tests.runtime.cuda.memory.allocation import make


@pytest.fixture
def allocator():
    return make()
