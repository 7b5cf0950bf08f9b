"""Matmuls and their gradients agree with float64 on the host."""

import numpy as np
import pytest

import triten as tt
from triten.dispatch.structured.stub import StructuredCall, find_kernel
from triten.runtime.tensor_spec import TensorSpec

TOLERANCE = {tt.float16: 2e-2, tt.bfloat16: 1e-1, tt.float32: 1e-4, tt.float64: 1e-12}
SIZES = [(1, 1, 1), (5, 7, 3), (64, 33, 70), (130, 200, 17), (3, 0, 4), (0, 2, 3), (600, 20, 5)]


def wide(tensor):
    array = tensor.detach().cpu().numpy()
    return array.astype(np.int64 if array.dtype.kind in "iu" else np.float64)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)], ids=str)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda d: d.name)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_mm(random, same, launches, size, dtype, transposed):
    m, k, n = size
    a = random((k, m) if transposed[0] else (m, k), dtype)
    b = random((n, k) if transposed[1] else (k, n), dtype)
    x, y = a.to("cuda"), b.to("cuda")
    x, a = (x.t(), a.t()) if transposed[0] else (x, a)
    y, b = (y.t(), b.t()) if transposed[1] else (y, b)
    before = launches.count
    z = x.mm(y)
    assert launches.count - before == (1 if m * n else 0), "a transpose costs no copy"
    same(z, tt.from_numpy((wide(a) @ wide(b)).astype(dtype.np)), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [tt.uint8, tt.int8, tt.int16, tt.int32, tt.int64], ids=lambda d: d.name)
@pytest.mark.parametrize("size", SIZES[:4], ids=str)
def test_integer_mm_wraps(random, same, size, dtype):
    m, k, n = size
    a, b = random((m, k), dtype), random((k, n), dtype)
    same(a.to("cuda").mm(b.to("cuda")), tt.from_numpy((wide(a) @ wide(b)).astype(dtype.np)))


def test_mm_of_cut_out_and_unaligned_operands(random, same):
    a, b = random((20, 31), tt.float64), random((40, 30), tt.float64)
    x = a.to("cuda")[1:, 1:]
    same(x.mm(b.to("cuda").t()[:, 1::3]), tt.from_numpy(a.numpy()[1:, 1:] @ b.numpy().T[:, 1::3]), 1e-12)


def test_mm_out_of_any_strides(random, same):
    a, b = random((6, 7), tt.float64), random((7, 8), tt.float64)
    out = tt.empty(8, 6, dtype=tt.float64, device="cuda").t()
    assert tt.mm(a.to("cuda"), b.to("cuda"), out=out) is out
    same(out, tt.from_numpy(a.numpy() @ b.numpy()), 1e-12)


def test_mm_of_bool_is_refused(random):
    x = random((3, 3), tt.bool).to("cuda")
    with pytest.raises(NotImplementedError, match=r"mm_cuda.*Bool"):
        x.mm(x)


@pytest.mark.parametrize("shared", [False, True], ids=["own", "expanded"])
def test_bmm(random, shared):
    a, b = random((5, 6, 7), tt.float64), random((1 if shared else 5, 7, 9), tt.float64)
    x, y = a.to("cuda"), b.to("cuda").expand((5, 7, 9))
    spec = TensorSpec.contiguous((5, 6, 9), tt.float64, x.device)
    call = StructuredCall(
        "bmm", {"self": x._spec, "mat2": y._spec}, ("self", "mat2"), (spec,), None, x.device, {}
    )
    out = tt.empty(5, 6, 9, dtype=tt.float64, device="cuda")
    find_kernel("bmm_stub", "cuda", "bmm")(call).into(out._data, x._data, y._data)
    np.testing.assert_allclose(out.cpu().numpy(), a.numpy() @ b.numpy(), rtol=1e-12)


def test_gradients_of_mm(random, same):
    a, b = random((5, 7), tt.float64), random((7, 3), tt.float64)
    x, y = a.to("cuda").requires_grad_(), b.to("cuda").requires_grad_()
    x.mm(y).sum().backward()
    ones = np.ones((5, 3))
    same(x.grad, tt.from_numpy(ones @ b.numpy().T), 1e-12)
    same(y.grad, tt.from_numpy(a.numpy().T @ ones), 1e-12)


def test_gradients_through_pointwise_and_sum(random, same):
    a, b = random((4, 5)), random((4, 5))
    w, x = a.to("cuda").requires_grad_(), b.to("cuda")
    (w + x).relu().sum().backward()
    same(w.grad, tt.from_numpy((a.numpy() + b.numpy() > 0).astype(np.float32)))


def test_gradients_cross_devices(random):
    a = random((3,)).requires_grad_()
    (a.to("cuda") + 1).sum().to("cpu").backward()
    assert a.grad.tolist() == [1.0] * 3
