"""Stubs: one structured kernel for all backends, device kernels under it by name, and dispatch on the dtype there."""

import pytest

import triten as tt


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_one_operator_runs_on_every_device(device: str) -> None:
    x = tt.tensor([-1.0, 4.0], device=device)
    assert x.relu().tolist() == [0.0, 4.0]
    assert x.relu().device.type == device
    assert tt.ones(2, device="meta").relu().is_meta


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_dtypes_that_a_kernel_does_not_have_are_refused_by_name(device: str) -> None:
    x = tt.ones(2, 2, dtype=tt.bool, device=device)
    with pytest.raises(RuntimeError, match="not implemented for 'Bool'"):
        x @ x


def test_kernels_are_recorded_with_their_dtype() -> None:
    with tt.dispatch.record_kernels() as ran:
        tt.ones(2).relu()
        tt.ones(2, dtype=tt.float64).relu()
    assert [each for each in ran if "relu" in each[0]] == [("relu_cpu", tt.float32), ("relu_cpu", tt.float64)]
