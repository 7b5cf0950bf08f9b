"""Calls of the CUDA runtime that programs make by hand."""

import pytest

pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triten as tt


def test_memory_of_the_host_is_page_locked_and_let_go():
    cudart, x = tt.cuda.cudart(), tt.arange(64.0)
    assert not x.is_pinned()
    tt.cuda.check_error(cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0))
    try:
        assert x.is_pinned() and x[3:].is_pinned()
        y = x.to("cuda", non_blocking=True)
        back = tt.empty_like(y, device="cpu").copy_(y)
        assert back.tolist() == x.tolist()
        again = cudart.cudaHostRegister(x.data_ptr(), x.nbytes, 0)
        assert again == 712
        with pytest.raises(tt.cuda.CudaError, match=r"already mapped \(712\)"):
            tt.cuda.check_error(again)
    finally:
        tt.cuda.synchronize()
        tt.cuda.check_error(cudart.cudaHostUnregister(x.data_ptr()))
    assert not x.is_pinned()
    assert cudart.cudaHostUnregister(x.data_ptr()) == 713


def test_an_empty_range_cannot_be_page_locked():
    assert tt.cuda.cudart().cudaHostRegister(tt.ones(3).data_ptr(), 0, 0) == 1


def test_errors_have_their_texts():
    assert str(tt.cuda.CudaError(2)) == "out of memory (2)"
    assert isinstance(tt.cuda.CudaError(600), RuntimeError)
    assert tt.cuda.cudart().cudaGetErrorString(tt.cuda.cudart().cudaError.success) == "no error"
    assert (tt.cuda.cudaStatus.SUCCESS, tt.cuda.cudaStatus.ERROR_NOT_READY) == (0, 34)
    tt.cuda.check_error(0)


def test_memory_info():
    free, total = tt.cuda.cudart().cudaMemGetInfo(0)
    assert 0 < free <= total
    assert total == tt.cuda.mem_get_info()[1]
