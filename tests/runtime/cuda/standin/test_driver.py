"""CuPyDriver over the stand-in: each of its functions makes the driver call that it stands for."""

import threading

import numpy as np
import pytest


def cuda():
    from triten.runtime.cuda.driver import driver

    return driver()


def test_the_driver_is_cupys(standin):
    import triten as tt

    assert tt.cuda.is_available()
    assert tt.cuda.device_count() == 1
    assert type(cuda()).__name__ == "CuPyDriver"
    assert tt.cuda.get_device_name() == "NVIDIA H200"
    assert tt.cuda.get_device_capability() == (9, 0)
    properties = cuda().properties(0)
    assert properties.multi_processor_count == 132
    assert properties.warp_size == 32
    assert properties.max_shared_memory == 232448
    assert properties.total_memory == 150754820096
    assert tt.cuda.mem_get_info()[1] == 150754820096
