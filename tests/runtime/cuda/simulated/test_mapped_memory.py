"""Page-locked memory that kernels of simulated devices reach as those of a GPU reach mapped memory."""

import ctypes

import numpy as np
import pytest

from triten.runtime.cuda.driver import driver


def test_copies_and_kernels_of_every_device_reach_it_until_it_is_given_back():
    cuda = driver()
    address = cuda.malloc_mapped(64)
    assert cuda.is_page_locked(address)
    for device in range(cuda.device_count()):
        assert cuda.memory(device).blocks.holds(address, 64)
    cuda.memset(address, 7, 64, 0)
    cuda.synchronize_stream(0)
    assert bytes((ctypes.c_char * 64).from_address(address).raw) == b"\x07" * 64
    found = np.zeros(64, np.uint8)
    cuda.copy_device_to_host(found, address, 0)
    assert (found == 7).all()
    cuda.free_host(address)
    assert not cuda.is_page_locked(address)
    with pytest.raises(RuntimeError, match="an illegal memory access was encountered"):
        cuda.copy_device_to_host(found, address, 0)
