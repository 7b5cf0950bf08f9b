"""Assertions and warm-ups of interpreted kernels in Triton's own notation."""

import re

import pytest
import triton
import triton.language as tl

import triten as tt


@triton.jit
def checked(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0)
    tl.device_assert(value < 5, "values are small")
    tl.store(x + i, value + 1, mask=i < n)


@triton.jit(debug=True)
def always_checked(x, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    assert tl.load(x + i, mask=i < n, other=0) < 5, "values are small"


def test_a_debugged_launch_checks_assertions(monkeypatch):
    message = re.escape(
        "device-side assert triggered: kernel 'checked', program (1, 0, 0): Assertion `values are small` failed"
    )
    x = tt.arange(8, device="cuda")
    checked[(2,)](x, 8, BLOCK=4)
    assert x.tolist() == list(range(1, 9))
    checked[(1,)](x, 4, BLOCK=4, debug=True)
    assert x.tolist() == [2, 3, 4, 5, 5, 6, 7, 8]
    x = tt.arange(8, device="cuda")
    checked[(2,)](x, 8, BLOCK=4, debug=True)
    with pytest.raises(RuntimeError, match=message):
        tt.cuda.synchronize()
    monkeypatch.setattr(triton.knobs.runtime, "debug", True)
    checked[(2,)](x, 8, BLOCK=4)
    with pytest.raises(RuntimeError, match=message):
        tt.cuda.synchronize()


def test_a_kernel_for_debugging_checks_its_assertions():
    x = tt.arange(8, device="cuda")
    always_checked[(2,)](x, 8, BLOCK=4, debug=False)
    always_checked[(1,)](x, 4, BLOCK=4)
    tt.cuda.synchronize()
    always_checked[(2,)](x, 8, BLOCK=4)
    with pytest.raises(RuntimeError, match="values are small"):
        tt.cuda.synchronize()


def test_a_warm_kernel_launches_and_has_no_code():
    x = tt.zeros(4, device="cuda")
    warm = checked.warmup(x, 4, BLOCK=4, grid=(1,))
    warm._init_handles()
    assert x.tolist() == [0.0] * 4
    warm[(1,)](x, 4, 4)
    assert x.tolist() == [1.0] * 4
    with pytest.raises(AttributeError, match=r"n_regs of kernel 'checked': .* TRITEN_CUDA=emulate"):
        _ = warm.n_regs
