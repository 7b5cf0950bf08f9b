"""What the tests of the allocator's policy share: an allocator over addresses without memory."""

import pytest

from triten.perf.suite.workloads.allocator import address_driver
from triten.runtime.cuda.memory.caching_allocator import CachingAllocator
from triten.runtime.cuda.memory.options import AllocatorOptions


def make(**options):
    return CachingAllocator(address_driver(), AllocatorOptions(**options))


@pytest.fixture
def allocator():
    return make()
