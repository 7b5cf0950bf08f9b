"""Kernels are recorded with the dtype that they were chosen for, and only while asked."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured.record_kernels import record_kernels


def test_every_run_is_recorded_with_its_dtype(device):
    a = tt.ones(3, 4, device=device)
    whole = tt.ones(3, 4, dtype=tt.int64, device=device)
    a + whole
    with record_kernels() as seen:
        for _ in range(3):
            a + whole
        whole.sum()
        tt.relu_(a)
        tt.mm(a, a.t())
    kinds = [(name.removesuffix(f"_{device}"), dtype) for name, dtype in seen]
    assert kinds == [("add", tt.float32)] * 3 + [("sum", tt.int64), ("relu", tt.float32), ("mm", tt.float32)]


def test_recordings_nest_and_leave_nothing_behind():
    a = tt.ones(2)
    with record_kernels() as outer:
        a.exp()
        with record_kernels() as inner:
            a.neg()
        a.exp()
    a.exp()
    assert [name for name, _ in outer] == ["exp_cpu", "neg_cpu", "exp_cpu"]
    assert [name for name, _ in inner] == ["neg_cpu"]


def test_results_and_refusals_are_the_same_while_recording():
    a = tt.from_numpy(np.float32([[1, -2], [3, -4]]))
    w = tt.ones(2, 2, requires_grad=True)
    with record_kernels() as seen:
        (w * a).relu().sum().backward()
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            tt.ones(2, dtype=tt.bool).bitwise_left_shift(tt.ones(2, dtype=tt.bool))
    np.testing.assert_array_equal(w.grad.numpy(), np.float32([[1, 0], [3, 0]]))
    assert ("mul_cpu", tt.float32) in seen
