"""Fixture of the allocator policy tests: an allocator over addresses without memory."""

import pytest

from triten.tests.runtime.cuda.memory.allocation import make


@pytest.fixture
def allocator():
    return make()
