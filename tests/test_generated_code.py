"""Code that PyTorch's compiler has generated runs: its checks, factories and device guard."""

from __future__ import annotations

import pytest

import triten as tt
from triten._C._dynamo import guards


def test_sizes_and_strides_are_checked() -> None:
    x = tt.ones(2, 3)
    assert guards.assert_size_stride(x, (2, 3), (3, 1)) and guards.assert_size_stride(x[:1], (1, 3), (7, 1))
    assert guards.assert_size_stride(tt.ones(0, 3), (0, 3), (7, 5))
    with pytest.raises(
        AssertionError, match=r"expected size 3==4, stride 1==1 at dim=1\nError in op: aten.mm"
    ):
        guards.assert_size_stride(x, (2, 4), (3, 1), "aten.mm")
    with pytest.raises(
        AssertionError, match=r"stride 3==1 at dim=0; expected size 3==3, stride 1==2 at dim=1"
    ):
        guards.assert_size_stride(x, (2, 3), (1, 2))
    with pytest.raises(AssertionError, match="wrong number of dimensions: expected 1, got 2"):
        guards.assert_size_stride(x, (2,), (3,))
    with pytest.raises(TypeError, match=r"expected Tensor\(\)"):
        guards.assert_size_stride(3, (2,), (3,))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected tuple\(\)"):
        guards.assert_size_stride(x, [2, 3], [3, 1])  # type: ignore[arg-type]


def test_alignment_is_checked() -> None:
    x = tt.ones(8)
    assert guards.assert_alignment(x[4:], 16)
    with pytest.raises(AssertionError, match=r"16 bytes aligned\. Fail due to storage_offset=1 itemsize=4"):
        guards.assert_alignment(x[1:], 16)
    with pytest.raises(AssertionError, match="alignment cannot be 0"):
        guards.assert_alignment(x, 0)


def test_strided_factories_and_views() -> None:
    for make, device in ((guards._empty_strided_cpu, "cpu"), (guards._empty_strided_cuda, "cuda")):
        x = make((2, 3), (1, 2), tt.float16)
        assert (x.stride(), x.dtype, x.device.type) == ((1, 2), tt.float16, device)
    x = tt.arange(6.0)[1:]
    for view in (guards._reinterpret_tensor, tt.ops.inductor._reinterpret_tensor):
        y = view(x, (2, 2), (2, 1), 1)
        assert y.tolist() == [[2, 3], [4, 5]] and y.data_ptr() == x.data_ptr() + 4


def test_devices_are_exchanged() -> None:
    with tt.cuda._DeviceGuard(1):
        assert tt.cuda.current_device() == 1 and tt.cuda._exchange_device(-1) == -1
        assert tt.cuda._exchange_device(0) == 1 and tt.cuda._maybe_exchange_device(1) == 0
    assert tt.cuda.current_device() == 0
