"""DLPack between triten and CuPy on a device that executes kernels."""

import pytest

pytestmark = pytest.mark.standin(execute=1)


def test_cupy_shares_memory_both_ways(standin):
    import cupy

    import triten as tt

    x = tt.arange(12.0, device="cuda").view(3, 4)
    whole = cupy.from_dlpack(x)
    x.add_(1)
    assert cupy.asnumpy(whole).tolist() == x.tolist()
    x = x[:, ::2].t()  # NumPy could read it through a kernel of CuPy's alone
    there = cupy.from_dlpack(x)
    assert there.data.ptr == x.data_ptr() and there.shape == (2, 3) and there.strides == (8, 16)
    back = tt.from_dlpack(there)
    assert back.data_ptr() == x.data_ptr() and back.device == x.device and back.stride() == x.stride()
    for dtype in (tt.bool, tt.int8, tt.uint16, tt.float16, tt.complex64):
        y = tt.ones(3, dtype=dtype, device="cuda")
        assert cupy.from_dlpack(y).data.ptr == y.data_ptr() == tt.from_dlpack(cupy.from_dlpack(y)).data_ptr()
    second = tt.ones(3, device="cuda:1")
    assert tt.from_dlpack(cupy.from_dlpack(second)).device == second.device


def test_cupy_on_a_stream_of_its_own(standin):
    import cupy

    import triten as tt

    x = tt.zeros(4, device="cuda")
    with cupy.cuda.Stream(non_blocking=True) as stream:
        there = cupy.from_dlpack(x.fill_(3.0))
        there.data.memset_async(0, 8, stream)
        back = tt.from_dlpack(there)
    assert back.tolist() == [0.0, 0.0, 3.0, 3.0]
